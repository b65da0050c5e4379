// SPDX-License-Identifier: GPL-2.0
/*
 * gc.c - space of dead records comes back; expired records go
 *
 * When free segments run low, store.c picks a victim, a sealed segment. It is read in whole. Each
 * record that the index points to is written to the log again, under the lock of its identity, as a
 * record that replaces itself, or as a deletion if it has expired. Moves go in rounds, each as much
 * as one write may have: moved one by one, each would be padded to a block and take as much room as
 * it leaves. When no live record is left the segment is drained. When two checkpoints have begun
 * since, it is free. Drained segments gather for a while, for a checkpoint costs as much for one of
 * them as for many. A checkpoint that is due anyway takes all that there are.
 *
 * Which. The fewer live bytes a segment has, the less it costs to move them. But one in which much
 * has just been written over will soon cost less. In one that was written long ago, little will
 * change, and its dead bytes are room that nobody uses. So a victim is worth the bytes that it
 * gives for each byte that is read and written, times its age: benefit over cost, of Rosenblum and
 * Ousterhout's log-structured file system. Age is counted in batches since the segment was last
 * written to. When a write waits for room, the one with the fewest live bytes is taken.
 *
 * Pace. Moves are written before what users write, so a victim moved in one go would hold them up
 * until its end. The drive would hold up everybody who reads, if it had to read the victim at once.
 * So the victim is read a little at a time, and a round waits while writes of users are under way
 * and moves are ahead of them. They are ahead if a larger part of the victim has been moved than
 * users have used of the room that it will give. So users who overwrite drive the collection, and
 * as many segments stay free as there were when it began. The fewer there are, the less users may
 * write for each victim. When no segment more than the kept ones is free, or a write waits for
 * room, nothing waits for its turn.
 *
 * A record that cannot be read, or has a wrong checksum, is not moved. The segment is BAD then and
 * stays as it is. So reads of the record go on to fail or, if only that one read was at fault,
 * succeed. It is tried again after a second, and then each time after twice as long, up to an hour:
 * an outage of the device ends, and damage remains.
 *
 * No wedge. The kept segments (segment.h) suffice to finish any victim that is begun. A segment of
 * nothing but tombstones is drained without moving anything. If a write waits for room, and there
 * is nothing to be gained, or as many victims as segments are in use have gained nothing, store.c
 * answers OKV_FULL. It does so at once from then on, until less is live or a put has found room. A
 * write is never left waiting.
 */
#include <stdlib.h>

#include "log/record.h"
#include "map.h"
#include "mem.h"
#include "partition.h"
#include "segment.h"

enum {
	SWEEP_SLOTS	= 4096,	/* of the index, looked at in a tick */
	SWEEP_OPS	= 16,	/* reads at a time of records that may have expired */
	SWEEP_OPS_MORE	= 112,	/* and so many more where much has */
	BAD_MS_MIN	= 1000,
	BAD_DOUBLINGS	= 12,	/* of that: an hour and a bit */
	NR_READS	= 2,	/* at a time, of a victim that has time */
	SWEEP_GAIN	= 4,	/* more reads for each record that had expired; else one less */
};

/* ---- moves ---- */

/* If a write of a user began since the last look, or less is live, no victim was in vain. */
static void forget_vain(struct okv_partition *p)
{
	if (p->gc.nr_puts_then != p->nr_puts_begun || p->live_bytes < p->gc.live_bytes_then)
		p->gc.nr_in_vain = 0;
	p->gc.nr_puts_then = p->nr_puts_begun;
	p->gc.live_bytes_then = p->live_bytes;
}

bool okv_gc_is_in_vain(struct okv_partition *p)
{
	forget_vain(p);
	return p->gc.nr_in_vain > p->nr_segments - p->nr_free - p->nr_holes;
}

static void set_bad(struct okv_partition *p, struct okv_segment *s)
{
	uint32_t doublings = s->nr_bad < BAD_DOUBLINGS ? s->nr_bad : BAD_DOUBLINGS;

	s->state = OKV_SEGMENT_BAD;
	s->bad_until_ms = p->now_ms + ((uint64_t)BAD_MS_MIN << doublings);
	okv_event(p, (struct okv_event){
		.kind = OKV_EVENT_BAD_SEGMENT, .ms = s->bad_until_ms - p->now_ms,
		.offset_bytes = okv_segment_offset(p, s - p->segments),
	});
	s->nr_bad++;
	p->gc.has_bad = true;
}

void okv_gc_try_bad(struct okv_partition *p)
{
	if (!p->gc.has_bad)
		return;
	p->gc.has_bad = false;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		if (s->state != OKV_SEGMENT_BAD)
			continue;
		if (p->now_ms < s->bad_until_ms)
			p->gc.has_bad = true;
		else
			s->state = OKV_SEGMENT_SEALED;
	}
}

static void gc_end(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	struct okv_segment *s = &p->segments[gc->victim];

	mem_work_end(gc->buf, p->segment_bytes);
	gc->buf = NULL;
	gc->active = false;
	forget_vain(p);
	gc->nr_in_vain++;
	p->stats.nr_gc_segments++;
	if (s->live_bytes && !gc->gave_up)
		set_bad(p, s);
	okv_changed(p);
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
	mem_free(op);
	p->gc.nr_moving--;
	gc_step(p);
}

static void move(struct okv_partition *p, const struct okv_record_disk *record, const char *value,
		 uint64_t location)
{
	struct okv_op *op = mem_zalloc(sizeof(*op));

	op->kind = OKV_OP_RELOCATE;
	op->tenant = record->tenant;
	op->hash = record->hash;
	op->key = record + 1;
	op->key_len = record->key_len;
	op->value = value;
	op->value_len = record->value_len;
	op->plain_len = record->plain_len;
	op->expire_ms = record->expire_ms;
	op->at = location;
	op->sum = record->value_sum;
	op->done = move_done;
	p->gc.nr_moving++;
	okv_partition_submit(p, op);
}

enum found { MADE_OUT, SPOILT, NEXT_ROUND };

/*
 * Move the record at gc->offset if it is live. SPOILT: neither it nor what is behind it in its
 * batch can be made out.
 */
static enum found gc_record(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	uint64_t location = okv_location(p, gc->victim, gc->offset);
	uint32_t head_bytes, apart_bytes, block_bytes = p->disk->block_bytes;
	const struct okv_record_disk *record;
	const char *value;

	record = okv_record_at(p, gc->buf, gc->victim, gc->offset, &gc->batch);
	if (!record)
		return SPOILT;
	head_bytes = okv_head_bytes(block_bytes, record->key_len, record->value_len);
	apart_bytes = okv_apart_bytes(block_bytes, record->value_len);
	value = gc->buf + okv_value_offset(block_bytes, gc->offset, record);
	if (okv_record_has_value(record) && okv_index_at(&p->index, record->hash, location) &&
	    okv_value_is_good(p, value, record->value_len, record->value_sum)) {
		if (gc->nr_moving &&
		    okv_batch_bytes(block_bytes, gc->round_head_bytes + head_bytes,
				    gc->round_apart_bytes + apart_bytes) > p->batch_bytes_max)
			return NEXT_ROUND;
		gc->round_head_bytes += head_bytes;
		gc->round_apart_bytes += apart_bytes;
		gc->moved_bytes += head_bytes + apart_bytes;
		move(p, record, value, location);
	}
	gc->offset += head_bytes;
	return MADE_OUT;
}

/* Go to the next batch, over what is none. Behind one alone only its values follow. */
static void gc_next_batch(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	uint64_t life = p->segments[gc->victim].life;
	uint32_t at = gc->next_batch;

	for (; at < p->segment_bytes; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, gc->buf, gc->victim, at, p->segment_bytes);
		b = (void *)(gc->buf + at);
		if (at == p->segment_bytes || b->life != life)
			continue;
		gc->batch = okv_batch_bounds(p, b, at);
		gc->next_batch = at + (b->form == OKV_BATCH_PACKED ? b->bytes :
				       okv_round_up(b->bytes, p->disk->block_bytes));
		gc->offset = at + sizeof(*b);
		return;
	}
	gc->offset = gc->next_batch = p->segment_bytes;
}

static bool gc_has_more(const struct okv_partition *p)
{
	const struct okv_gc *gc = &p->gc;

	return gc->offset < p->segment_bytes && p->segments[gc->victim].live_bytes && !gc->gave_up;
}

/* Move as much of the victim as one write may have; the plug makes it one write. */
static void gc_round(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;
	enum found found = MADE_OUT;

	gc->round_head_bytes = sizeof(struct okv_batch_disk);
	gc->round_apart_bytes = 0;
	okv_log_plug(p);
	while (found != NEXT_ROUND && gc_has_more(p)) {
		found = gc->offset < gc->batch.head_end ? gc_record(p) : SPOILT;
		if (found == SPOILT)
			gc_next_batch(p);
	}
	okv_log_unplug(p);
}

/*
 * "Pace" above. Whether the next round waits. What users have under way, or can begin, ends and
 * asks again, so there is no clock.
 */
static bool is_ahead(const struct okv_partition *p)
{
	const struct okv_gc *gc = &p->gc;
	uint32_t nr_low = p->nr_segments / 16, kept = okv_segments_kept(p);
	uint64_t may_write_bytes;

	if (okv_log_is_idle(p) || p->is_hurried || p->nr_free <= kept + 1 ||
	    okv_log_is_stalled(p, OKV_PUTS) || okv_log_is_stalled(p, OKV_DELETES))
		return false;
	may_write_bytes = p->segment_bytes - gc->live_bytes;
	if (p->nr_free - kept < nr_low)
		may_write_bytes = may_write_bytes * (p->nr_free - kept) / nr_low;
	return gc->moved_bytes * may_write_bytes > gc->user_bytes * gc->live_bytes;
}

static void gc_step(struct okv_partition *p)
{
	struct okv_gc *gc = &p->gc;

	if (gc->in_step)
		return;
	gc->in_step = true;
	while (!gc->nr_moving && gc_has_more(p) && !is_ahead(p))
		gc_round(p);
	gc->in_step = false;
	if (!gc->nr_moving && !gc_has_more(p))
		gc_end(p);
}

void okv_gc_resume(struct okv_partition *p)
{
	if (p->gc.active && !p->gc.loads && !p->gc.nr_moving)
		gc_step(p);
}

static void gc_loaded(struct okv_partition *p)
{
	p->gc.loads = false;
	if (p->gc.load.error) {
		okv_failed(p, OKV_EVENT_READ_ERROR, &(struct okv_io){
			.offset_bytes = okv_segment_offset(p, p->gc.victim),
			.result = p->gc.load.error,
		});
		p->gc.offset = p->segment_bytes;
	}
	gc_step(p);
}

bool okv_gc_start(struct okv_partition *p, uint32_t victim, bool hurries)
{
	struct okv_gc *gc = &p->gc;

	gc->buf = mem_work_begin(okv_align_of(p->disk), p->segment_bytes);
	gc->waits = !gc->buf;
	if (gc->waits)
		return false;
	gc->active = true;
	gc->gave_up = false;
	gc->victim = victim;
	gc->offset = gc->next_batch = 0;
	gc->batch = (struct okv_bounds){ 0 };
	gc->live_bytes = p->segments[victim].live_bytes;
	gc->moved_bytes = gc->user_bytes = 0;
	gc->loads = true;
	okv_segment_load(p, &gc->load, victim, gc->buf, hurries ? UINT32_MAX : NR_READS, gc_loaded);
	return true;
}

/* "Which" above. What a victim is worth: comparable with that of another one. */
static double worth_of(const struct okv_partition *p, const struct okv_segment *s, bool hurries)
{
	double gained_bytes = (double)p->segment_bytes - s->live_bytes;

	if (hurries)
		return gained_bytes;
	return gained_bytes * (p->next_seq - s->last_seq) / (p->segment_bytes + s->live_bytes);
}

uint32_t okv_gc_victim(const struct okv_partition *p, uint32_t live_bytes_max, bool hurries)
{
	uint32_t victim = p->nr_segments;
	double most = 0;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		const struct okv_segment *s = &p->segments[i];
		double worth;

		if (s->state != OKV_SEGMENT_SEALED || s->nr_headers ||
		    s->last_seq >= okv_log_durable_seq(p) || s->live_bytes > live_bytes_max)
			continue;
		worth = worth_of(p, s, hurries);
		if (victim == p->nr_segments || worth > most) {
			victim = i;
			most = worth;
		}
	}
	return victim;
}

/* ---- expiry ---- */

static void expire_done(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	/* Of what it has not looked at, nothing is known. */
	if (op->status != OKV_NOT_FOUND || op->nr_suspects)
		okv_map_expires(p, op->hash, 0);
	else if (op->expire_ms)
		okv_map_expires(p, op->hash, op->expire_ms);

	if (op->status != OKV_OK)
		p->nr_sweeping_more -= p->nr_sweeping_more > 0;
	else if (p->nr_sweeping_more < SWEEP_OPS_MORE)
		p->nr_sweeping_more += SWEEP_GAIN;
	p->nr_sweeping--;
	okv_op_release(op);
	mem_free(op);
}

/* Remove an expired record with this identity, if there is one. */
void okv_expire(struct okv_partition *p, uint16_t tenant, uint64_t hash)
{
	struct okv_op *op = mem_zalloc(sizeof(*op));

	op->kind = OKV_OP_EXPIRE;
	op->tenant = tenant;
	op->hash = hash;
	op->done = expire_done;
	p->nr_sweeping++;
	okv_partition_submit(p, op);
}

/*
 * Look at an entry of the shard that is swept. The index knows that it expires. Only its record, or
 * what is known of that, knows when.
 */
static void sweep_entry(struct okv_partition *p, const struct okv_entry *e)
{
	const struct okv_known *known;
	uint64_t hash = okv_index_hash(&p->index, p->number, p->sweep_shard, e->tag);

	if (!e->size || !e->expires)
		return;
	known = okv_known_find(&p->known, e->location);
	if (known && !okv_is_expired(known->expire_ms, p->now_ms))
		okv_map_expires(p, hash, known->expire_ms);
	else
		okv_expire(p, e->tenant, hash);
}

/*
 * Sweep: look for expired records from where the last tick stopped, to the end of the index at
 * most, so that a tick looks at nothing twice. While more than one in five of those read have
 * expired, more are read at a time.
 *
 * A shard of which nothing expires yet is passed over. That is known after all its entries were
 * looked at, with none that came or went meanwhile: from the beginning of that on, its due_ms says
 * what was seen, and what is still being read lowers it.
 */
void okv_expire_some(struct okv_partition *p)
{
	uint32_t nr_max = SWEEP_OPS + p->nr_sweeping_more;

	if (p->refusing || p->is_quiet)
		return;
	for (uint32_t i = 0; i < SWEEP_SLOTS && p->nr_sweeping < nr_max && !p->refusing; i++) {
		struct okv_shard *s = &p->index.shards[p->sweep_shard];
		bool is_due = p->sweep_slot || s->due_ms <= p->now_ms;

		if (is_due && !p->sweep_slot) {
			s->due_ms = UINT64_MAX;
			p->sweep_disturbed = false;
		}
		if (is_due && p->sweep_slot < s->nr_slots) {
			sweep_entry(p, &s->entries[p->sweep_slot++]);
			continue;
		}
		if (is_due && p->sweep_disturbed)
			s->due_ms = 0;
		p->sweep_slot = 0;
		p->sweep_shard = (p->sweep_shard + 1) % okv_index_nr_shards(&p->index);
		if (!p->sweep_shard)
			break;
	}
}
