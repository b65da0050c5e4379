// SPDX-License-Identifier: GPL-2.0
/*
 * gc.c - space of dead records comes back; what has expired goes
 *
 * When free segments run low, the sealed segment with the fewest live bytes is the victim. It is read in whole, and each
 * record that the index points to is written to the log again, under the lock of its identity, as a record that replaces
 * itself, or as a deletion if it has expired. They go in rounds, each as much as a write may have: what is moved one by one
 * would be padded to a block each, and take as much room as it leaves. When none is left the segment is drained, and when two checkpoints have begun since, it is free. Drained
 * segments are collected for a while, for a checkpoint costs as much for one of them as for many; one that is due anyway takes all that there are.
 *
 * What cannot be read, or has a wrong checksum, is not moved: the segment is BAD from then on and stays as it is, so that
 * reads of it go on to fail or, if only that one read was at fault, to succeed.
 *
 * No wedge. The reserve (log.c) is such that a victim that is begun can always be finished. A segment of nothing but
 * tombstones is drained without moving anything. If a write waits for room and there is nothing to be gained, or as
 * many victims as there are segments have gained nothing, it is answered OKV_FULL; it is never left waiting.
 */
#include <stdlib.h>

#include "partition.h"

enum {
	SWEEP_SLOTS	= 4096,	/* of the index, looked at in a tick */
	SWEEP_OPS	= 16,	/* reads of what may have expired at a time */
	SWEEP_OPS_MORE	= 112,	/* and so many more where much has */
	SWEEP_GAIN	= 4,	/* more for each that had expired, one less for each that had not */
	ROUNDS		= 64,	/* of work that makes more work */
	LOOK_AFTER	= 16,	/* batches between two searches for a victim, unless somebody waits */
};

struct load_part {
	struct okv_io io;
	struct okv_load *load;
	struct okv_partition *p;
};

static void part_done(struct okv_io *io)
{
	struct load_part *part = io->owner;
	struct okv_load *load = part->load;
	struct okv_partition *p = part->p;

	if (io->result)
		load->error = io->result;
	free(part);
	if (--load->nr_pending == 0)
		load->done(p);
}

void okv_segment_load(struct okv_partition *p, struct okv_load *load, uint32_t segment, void *buf, void (*done)(struct okv_partition *p))
{
	load->done = done;
	load->error = 0;
	load->nr_pending = (p->segment_bytes + OKV_READ_BYTES - 1) / OKV_READ_BYTES;
	for (uint32_t at = 0; at < p->segment_bytes; at += OKV_READ_BYTES) {
		struct load_part *part = okv_alloc(sizeof(*part));

		part->load = load;
		part->p = p;
		part->io = (struct okv_io){ .kind = OKV_READ, .offset_bytes = okv_segment_offset(p, segment) + at, .buf = (char *)buf + at,
					    .bytes = p->segment_bytes - at < OKV_READ_BYTES ? p->segment_bytes - at : OKV_READ_BYTES,
					    .done = part_done, .owner = part };
		p->disk->ops->submit(p->disk, &part->io);
	}
}

static void gc_end(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	struct okv_segment *s = &p->segments[gc->victim];

	free(gc->buf);
	gc->buf = NULL;
	gc->active = false;
	gc->nr_in_vain++;
	p->stats.nr_gc_segments++;
	if (s->live_bytes && !gc->gave_up)
		s->state = OKV_SEGMENT_BAD;
	okv_log_pump(p);
}

static void gc_step(struct okv_partition *p);

static void move_done(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	if (op->status == OKV_OK)
		p->stats.gc_bytes += op->record_bytes;
	else if (op->status != OKV_NOT_FOUND)
		p->gc.gave_up = true;
	okv_op_release(op);
	free(op);
	p->gc.nr_moving--;
	gc_step(p);
}

static void move(struct okv_partition *p, const struct okv_record_disk *record, const char *value, uint64_t location)
{
	struct okv_op *op = okv_alloc(sizeof(*op));

	op->kind = OKV_OP_RELOCATE;
	op->tenant = record->tenant;
	op->hash = record->hash;
	op->key = record + 1;
	op->key_len = record->key_len;
	op->value = value;
	op->value_len = record->value_len;
	op->expire_ms = record->expire_ms;
	op->at = location;
	op->sum = record->value_sum;
	op->done = move_done;
	p->gc.nr_moving++;
	okv_partition_submit(p, op);
}

enum found { MADE_OUT, SPOILT, NEXT_ROUND };

/* The record at the offset: move it if it lives. SPOILT: it cannot be made out, nor can those behind it in its batch. */
static enum found gc_record(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	const struct okv_record_disk *record = okv_record_at(p, gc->buf, gc->victim, gc->offset, &gc->batch);
	uint64_t location = okv_location(p, gc->victim, gc->offset);
	uint32_t head_bytes, apart_bytes, block_bytes = p->disk->block_bytes;
	const char *value;

	if (!record)
		return SPOILT;
	head_bytes = okv_head_bytes(block_bytes, record->key_len, record->value_len);
	apart_bytes = okv_apart_bytes(block_bytes, record->value_len);
	value = gc->buf + okv_value_offset(block_bytes, gc->offset, record);
	if (record->kind == OKV_RECORD_PUT && okv_index_at(&p->index, record->hash, location) &&
	    okv_value_is_good(p, value, record->value_len, record->value_sum)) {
		if (gc->nr_moving && okv_batch_bytes(block_bytes, gc->round_head_bytes + head_bytes, gc->round_apart_bytes + apart_bytes) >
		    p->batch_bytes_max)
			return NEXT_ROUND;
		gc->round_head_bytes += head_bytes;
		gc->round_apart_bytes += apart_bytes;
		move(p, record, value, location);
	}
	gc->offset += head_bytes;
	return MADE_OUT;
}

/* Go to the next batch, over what is none. */
static void gc_next_batch(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	const struct okv_batch_disk *b;

	gc->offset = okv_round_up(gc->batch.end, p->disk->block_bytes);
	for (; gc->offset < p->segment_bytes; gc->offset += p->disk->block_bytes) {
		b = (void *)(gc->buf + gc->offset);
		if (okv_batch_is_good(p, b, gc->victim, gc->offset) && b->life == p->segments[gc->victim].life) {
			gc->batch = (struct okv_bounds){ .head_end = gc->offset + b->head_bytes, .end = gc->offset + b->bytes };
			gc->offset += sizeof(*b);
			return;
		}
	}
}

static bool gc_has_more(const struct okv_partition *p)
{
	const struct okv_gc *gc = &p->gc;

	return gc->offset < p->segment_bytes && p->segments[gc->victim].live_bytes && !gc->gave_up;
}

/* What one write may have, of what is left of the victim; it is sent as a whole. */
static void gc_round(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	bool was_in_pump = p->in_pump;
	enum found found = MADE_OUT;

	gc->round_head_bytes = sizeof(struct okv_batch_disk);
	gc->round_apart_bytes = 0;
	p->in_pump = true;
	while (found != NEXT_ROUND && gc_has_more(p)) {
		found = gc->offset < gc->batch.head_end ? gc_record(p) : SPOILT;
		if (found == SPOILT)
			gc_next_batch(p);
	}
	p->in_pump = was_in_pump;
	okv_log_pump(p);
}

static void gc_step(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;

	if (gc->in_step)
		return;
	gc->in_step = true;
	while (!gc->nr_moving && gc_has_more(p))
		gc_round(p);
	gc->in_step = false;
	if (!gc->nr_moving)
		gc_end(p);
}

static void gc_loaded(struct okv_partition *p)
{
	if (p->gc.load.error) {
		p->stats.nr_read_errors++;
		p->gc.offset = p->segment_bytes;
	}
	gc_step(p);
}

static void gc_start(struct okv_partition *p, uint32_t victim)
{
	struct okv_gc *gc = &p->gc;

	gc->active = true;
	gc->gave_up = false;
	gc->victim = victim;
	gc->offset = 0;
	gc->batch = (struct okv_bounds){ 0 };
	gc->buf = okv_alloc_blocks(p->disk, p->segment_bytes);
	okv_segment_load(p, &gc->load, victim, gc->buf, gc_loaded);
}

/* Sealed segments without live records are drained; returns how many of these there are. */
static uint32_t mark_drained(struct okv_partition *p)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		if ((s->state == OKV_SEGMENT_SEALED || s->state == OKV_SEGMENT_BAD) && !s->live_bytes && !s->nr_headers &&
		    s->last_seq < okv_log_durable_seq(p) && !(p->gc.active && p->gc.victim == i)) {
			s->state = OKV_SEGMENT_DRAINED;
			s->drained_generation = p->generation + 1 + (p->checkpoint.step != OKV_CHECKPOINT_NONE);
		}
		nr += s->state == OKV_SEGMENT_DRAINED;
	}
	return nr;
}

/* The sealed segment with the least that lives, if moving that gains something; else p->nr_segments. */
static uint32_t find_victim(const struct okv_partition *p, uint32_t live_bytes_max)
{
	uint32_t victim = p->nr_segments;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		const struct okv_segment *s = &p->segments[i];

		if (s->state == OKV_SEGMENT_SEALED && s->last_seq < okv_log_durable_seq(p) && s->live_bytes <= live_bytes_max &&
		    (victim == p->nr_segments || s->live_bytes < p->segments[victim].live_bytes))
			victim = i;
	}
	return victim;
}

static void start_checkpoint(struct okv_partition *p)
{
	if (p->checkpoint.step == OKV_CHECKPOINT_NONE && p->nr_free >= okv_checkpoint_segments(p))
		okv_checkpoint_start(p);
}

/* Somebody waits and nothing is under way that could make room. */
static void refuse(struct okv_partition *p)
{
	/* Only after failed writes: they used up what was kept for these. */
	if (okv_log_is_stalled(p, OKV_MOVES))
		okv_log_refuse(p, OKV_MOVES);
	if (okv_log_is_stalled(p, OKV_PUTS))
		okv_log_refuse(p, OKV_PUTS);
	if (okv_log_is_stalled(p, OKV_DELETES))
		okv_log_refuse(p, OKV_DELETES);
}

/* Returns the victim that is begun, or p->nr_segments: none can be, or none is worth it. */
static uint32_t start_victim(struct okv_partition *p, bool stalled)
{
	uint32_t victim = p->nr_segments;

	if (!p->gc.active && p->nr_free > okv_checkpoint_segments(p))
		victim = find_victim(p, p->segment_bytes / 32 * (stalled ? 31 : 28));
	if (victim < p->nr_segments)
		gc_start(p, victim);
	return victim;
}

/* May the open segment end before it is full? It is the last resort: what has just been moved there would be moved again. */
static bool may_seal(const struct okv_partition *p)
{
	return p->open_segment < p->nr_segments && !p->batches && (!p->gc.active || okv_log_is_stalled(p, OKV_MOVES));
}

static void make_room(struct okv_partition *p, bool stalled)
{
	struct okv_gc *gc = &p->gc;
	uint32_t nr_drained = mark_drained(p), victim = start_victim(p, stalled);

	gc->looked_seq = p->next_seq;
	if (stalled && !nr_drained && victim == p->nr_segments && may_seal(p)) {
		okv_log_seal(p);
		nr_drained = mark_drained(p);
		victim = start_victim(p, stalled);
	}
	if (nr_drained && (victim == p->nr_segments || nr_drained > p->nr_segments / 32 || p->nr_free <= okv_checkpoint_segments(p) + 1))
		start_checkpoint(p);
	if (!stalled)
		return;
	if (gc->nr_in_vain > p->nr_segments && okv_log_is_stalled(p, OKV_PUTS)) {
		gc->nr_in_vain = 0;
		okv_log_refuse(p, OKV_PUTS);
	} else if ((!gc->active || okv_log_is_stalled(p, OKV_MOVES)) && p->checkpoint.step == OKV_CHECKPOINT_NONE && !p->batches) {
		refuse(p);
	}
}

static void maintain_once(struct okv_partition *p)
{
	bool stalled;

	okv_log_allocate(p);
	stalled = !p->nr_preparing && !p->allocating &&
		  (okv_log_is_stalled(p, OKV_PUTS) || okv_log_is_stalled(p, OKV_DELETES) || okv_log_is_stalled(p, OKV_MOVES));
	if (p->nr_unsettled) {
		start_checkpoint(p);
		if (p->checkpoint.step == OKV_CHECKPOINT_NONE && !p->allocating)
			okv_log_stop(p);
		return;
	}
	if (p->is_quiet) {
		if (okv_log_is_stalled(p, OKV_MOVES))
			okv_log_refuse(p, OKV_MOVES);
		return;
	}
	if (okv_checkpoint_is_due(p)) {
		mark_drained(p);
		start_checkpoint(p);
	}
	if (stalled || (okv_log_is_low(p) && p->next_seq >= p->gc.looked_seq + LOOK_AFTER))
		make_room(p, stalled);
}

/*
 * Called whenever something has changed: cheap when there is nothing to do. What it does may call it from within: an operation that is
 * refused leaves its lock to the next one, which then waits for the same room. A caller that submits anew from within done() is
 * left to the next tick.
 */
void okv_maintain(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;

	gc->again = true;
	if (gc->in_maintain || p->in_pump)
		return;
	gc->in_maintain = true;
	for (uint32_t i = 0; i < ROUNDS && gc->again && !p->refusing && !p->failing; i++) {
		gc->again = false;
		maintain_once(p);
	}
	gc->in_maintain = false;
}

static void expire_done(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	if (op->status != OKV_OK)
		p->nr_sweeping_more -= p->nr_sweeping_more > 0;
	else if (p->nr_sweeping_more < SWEEP_OPS_MORE)
		p->nr_sweeping_more += SWEEP_GAIN;
	p->nr_sweeping--;
	okv_op_release(op);
	free(op);
}

/* Remove a record with this identity that has expired, if there is one. */
void okv_expire(struct okv_partition *p, uint16_t tenant, uint64_t hash)
{
	struct okv_op *op = okv_alloc(sizeof(*op));

	op->kind = OKV_OP_EXPIRE;
	op->tenant = tenant;
	op->hash = hash;
	op->done = expire_done;
	p->nr_sweeping++;
	okv_partition_submit(p, op);
}

/* An entry that may have expired: the index knows that it will, and its record or what is known of it knows when. */
static bool may_have_expired(const struct okv_partition *p, const struct okv_entry *e)
{
	const struct okv_known *known = e->size && e->expires ? okv_known_find(&p->known, e->location) : NULL;

	return e->size && e->expires && (!known || okv_is_expired(known->expire_ms, p->now_ms));
}

/*
 * Look for what has expired, from where the last tick stopped, to the end of the index at most: nothing is looked at twice in a tick. While
 * more than one in five that are read have expired, more are read at a time.
 */
static void sweep(struct okv_partition *p)
{
	uint32_t nr_max = SWEEP_OPS + p->nr_sweeping_more;

	for (uint32_t i = 0; i < SWEEP_SLOTS && p->nr_sweeping < nr_max && !p->refusing && !p->is_quiet; i++) {
		const struct okv_shard *s = &p->index.shards[p->sweep_shard];
		uint32_t shard = p->sweep_shard;

		if (p->sweep_slot < s->nr_slots) {
			const struct okv_entry *e = &s->entries[p->sweep_slot++];

			if (may_have_expired(p, e))
				okv_expire(p, e->tenant, okv_index_hash(&p->index, p->number, shard, e->tag));
			continue;
		}
		p->sweep_slot = 0;
		p->sweep_shard = (shard + 1) % okv_index_nr_shards(&p->index);
		if (!p->sweep_shard)
			break;
	}
}

void okv_partition_set_clock(struct okv_partition *p, uint64_t now_ms)
{
	p->now_ms = now_ms;
}

void okv_partition_tick(struct okv_partition *p, uint64_t now_ms)
{
	okv_partition_set_clock(p, now_ms);
	sweep(p);
	okv_log_pump(p);
}
