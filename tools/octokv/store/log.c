// SPDX-License-Identifier: GPL-2.0
/*
 * log.c - the log: operations to batches, batches to segments, acknowledgements
 *
 * Group commit. What arrives while writes are in flight waits and becomes one batch, one write,
 * when a write completes. A batch begins at a block of its own and no block is ever written twice,
 * so a torn write harms nothing that was acknowledged. Within a batch, records are packed. Batches
 * are numbered without gaps.
 *
 * Apart. A batch has heads first, which are headers, keys and short values. Each long value follows
 * in blocks of its own, the values with the largest alignment first, so that nothing lies between
 * them. Where there is room to spare, the batch begins where its values begin at a flash page, so
 * that reading a value does not touch two pages. The blocks that this leaves out are never written,
 * and come back with the segment. With little room, a batch of moves takes no more than its records
 * had.
 *
 * Places. Records that are moved have proved to stay, and what users write is likely to go soon. So
 * moves have a segment of their own: the segments of users empty by themselves, and what collection
 * has moved is not moved again with them (gc.c). Numbers are taken from one count, and recovery
 * takes batches in their order. If one place has had its segment for long, it gets another one, so
 * that lives tell a salvage which of two opens of the store has begun a segment (salvage.c). A
 * device of an earlier version has one place for all.
 *
 * Groups. The operations of a transaction are a batch of their own, so that all of them happen or
 * none. If its write fails, they have failed: they hold locks that a move may need.
 *
 * Lanes. A scheduler below tells tenants apart by the ioprio that a write carries. So a batch has
 * records of one ioprio only, and no operation waits for the writes of others: each lane has its
 * own nr_writes_max in flight, in each place. An ioprio has a lane of its own, but for collisions.
 * Those that share a lane take turns, each with batches of its own.
 *
 * Packs. With a journal (log/journal.h), the heads of a batch go to a pack (log/pack.h) and to the
 * journal, and only its apart values are a write of its own. Then a put takes the pages of its
 * value, and a part of the journal's. Moves, and batches with many heads, are written as they are.
 *
 * Durable. Where a write can be made durable by itself (FUA), each is. Elsewhere one flush serves
 * all writes that completed before it began, and the next flush begins when this one ends.
 *
 * In any order. A batch is acknowledged when it is durable, whatever became of those before it:
 * batches in flight together concern different keys (lock.c), so none of them depends on the rest.
 * Recovery takes what it finds, and goes on behind what is missing. So that it looks there, the
 * first batch of a segment or its header has to be durable as well. Each batch says below which
 * number all are acknowledged. If one below it is missing, the device lost it, and recovery says
 * so.
 *
 * Errors. When a write fails, the log sends nothing more until all in flight are back. Then it
 * gives up both segments, and what was not acknowledged gets new numbers in another one. The failed
 * write may be on the device all the same, in part or as a whole, and must not count beside what is
 * written again. So two checkpoints come first, one for each root, and no root has the failed write
 * in its tail any more. That is tried again and again, with pauses (outage.c).
 *
 * Refusing. When that has not helped for some seconds, what waits has failed, and the partition
 * refuses writes. If the process ends then, they may turn up at the next open, or not. Meanwhile
 * the checkpoints are tried on. When both are durable, no root has the failed writes in its tail:
 * they have not happened and never will, memory says what the device says, and the partition takes
 * writes again.
 *
 * Plug. While the log is plugged, what is submitted gathers in the queues. The log plugs itself
 * while it acknowledges, so that what the answers cause becomes one batch, and so that no write and
 * no checkpoint begins while a batch is half applied. Garbage collection plugs it for the moves
 * that are to become one write.
 */
#include <stdlib.h>
#include <string.h>

#include "log/batch.h"
#include "log/journal.h"
#include "log/place.h"
#include "mem.h"
#include "segment.h"

static void advance(struct okv_partition *p);

/* ---- what waits, and for what ---- */

bool okv_log_has_room(const struct okv_partition *p, uint32_t record_bytes)
{
	return p->live_bytes + p->waiting_bytes + record_bytes <= okv_segments_capacity(p);
}

bool okv_log_is_idle(const struct okv_partition *p)
{
	return !p->batches && !p->queues[OKV_MOVES].head && !p->queues[OKV_DELETES].head &&
	       !p->queues[OKV_PUTS].head;
}

uint64_t okv_log_durable_seq(const struct okv_partition *p)
{
	return p->batches ? p->batches->seq : p->next_seq;
}

static enum okv_class class_of(const struct okv_op *op)
{
	if (op->kind == OKV_OP_RELOCATE)
		return OKV_MOVES;
	if (op->group)
		return OKV_PUTS;
	return okv_op_removes(op) ? OKV_DELETES : OKV_PUTS;
}

/* "Lanes" above. Bits 3 to 12 of an ioprio name the tenant (IOPRIO_PRIO_HINT). */
static uint32_t lane_of(const struct okv_op *op)
{
	return op->ioprio / 8 % OKV_NR_LANES;
}

static void set_queued(struct okv_op *op, bool queued)
{
	struct okv_partition *p = op->partition;
	struct okv_lane *lane = &p->lanes[lane_of(op)];
	int64_t apart_bytes = okv_apart_bytes(p->disk->block_bytes, op->written_len);

	op->queued = queued;
	p->nr_waiting += queued ? 1 : -1;
	lane->nr_waiting += queued ? 1 : -1;
	lane->waiting_bytes += queued ? apart_bytes : -apart_bytes;
}

uint32_t okv_log_group_bytes(const struct okv_partition *p, const struct okv_group *group)
{
	uint32_t block_bytes = p->disk->block_bytes;

	return okv_round_up(okv_batch_bytes(block_bytes, group->head_bytes, group->apart_bytes),
			    block_bytes);
}

/* So that it has room in a segment, and the distance of each value in its record. */
uint32_t okv_log_group_bytes_max(const struct okv_partition *p)
{
	uint32_t block_bytes = p->disk->block_bytes, bytes = p->segment_bytes - 2 * block_bytes;

	return bytes < OKV_GROUP_BLOCKS_MAX * block_bytes ? bytes :
	       OKV_GROUP_BLOCKS_MAX * block_bytes;
}

static enum okv_place_number place_of(const struct okv_partition *p, enum okv_class class)
{
	return class == OKV_MOVES && okv_parts_moves(&p->layout->super) ? OKV_OF_MOVES :
									  OKV_OF_USERS;
}

/* What a batch of @op alone takes, or of its group. */
static uint32_t alone_bytes(const struct okv_partition *p, const struct okv_op *op)
{
	uint32_t block_bytes = p->disk->block_bytes, bytes;
	uint32_t head_bytes = okv_head_bytes(block_bytes, op->key_len, op->written_len);

	if (op->group)
		return okv_log_group_bytes(p, op->group);
	bytes = okv_batch_bytes(block_bytes, sizeof(struct okv_batch_disk) + head_bytes,
					 op->record_bytes - head_bytes);

	return okv_round_up(bytes, block_bytes);
}

/*
 * May the next batch begin with @op? Moves end with a segment more than they began with, so they
 * get the last one that a checkpoint can spare. While a victim is being moved, deletes leave that
 * segment to the moves.
 */
static bool may_begin(const struct okv_partition *p, const struct okv_op *op)
{
	bool has_place = okv_fits(p, place_of(p, class_of(op)), alone_bytes(p, op));
	bool may_take = p->nr_free_named, parts_moves = okv_parts_moves(&p->layout->super);
	uint32_t kept = okv_segments_of_checkpoint(p), reserve = okv_segments_kept(p);

	switch (class_of(op)) {
	case OKV_MOVES:
		return has_place || (may_take && p->nr_free > kept);
	case OKV_DELETES:
		return has_place ? p->nr_free > kept || !p->gc.active || parts_moves :
				   may_take && p->nr_free > kept + 1;
	default:
		return has_place ? p->nr_free >= reserve : may_take && p->nr_free > reserve;
	}
}

/* Does the first operation of a class wait for room, and for nothing else? */
bool okv_log_is_stalled(const struct okv_partition *p, enum okv_class class)
{
	const struct okv_op *op = p->queues[class].head;

	return op && !may_begin(p, op);
}

static void seal(struct okv_partition *p, enum okv_place_number number)
{
	struct okv_place *place = &p->places[number];

	if (place->segment == p->nr_segments)
		return;
	if (number == OKV_OF_USERS)
		okv_pack_close(p);
	p->segments[place->segment].state = OKV_SEGMENT_SEALED;
	place->segment = p->nr_segments;
}

void okv_log_seal(struct okv_partition *p)
{
	for (int i = 0; i < OKV_NR_PLACES; i++)
		seal(p, i);
}

/* The rest of a segment of moves is no gain: what has been moved would be moved there again. */
static bool gives_room(const struct okv_partition *p, enum okv_place_number number)
{
	const struct okv_place *place = &p->places[number];

	if (place->segment == p->nr_segments)
		return false;
	return number == OKV_OF_USERS || okv_log_is_stalled(p, OKV_MOVES) ||
	       place->offset_bytes - p->disk->block_bytes >
	       p->segments[place->segment].live_bytes + p->segment_bytes / 32;
}

bool okv_log_seal_for_room(struct okv_partition *p)
{
	bool any = false;

	for (int i = 0; i < OKV_NR_PLACES; i++) {
		if (!gives_room(p, i))
			continue;
		seal(p, i);
		any = true;
	}
	return any;
}

/* ---- writing a batch ---- */

static void take(struct okv_batch *b, struct okv_op *op, uint32_t head_bytes)
{
	uint32_t align_bytes = okv_batch_align_of(b->partition, op);

	b->head_bytes += head_bytes;
	b->apart_bytes += op->record_bytes - head_bytes;
	b->nr_records++;
	if (align_bytes > b->align_bytes)
		b->align_bytes = align_bytes;
	set_queued(op, false);
	okv_queue_add(&b->ops, op);
}

/*
 * "Lanes" above. Take the operations of its place with the ioprio of the batch, the first one
 * included.
 */
static void fill(struct okv_partition *p, struct okv_batch *b)
{
	uint32_t block_bytes = p->disk->block_bytes;
	uint32_t most = p->segment_bytes - block_bytes - p->places[b->place].offset_bytes;

	b->head_bytes = sizeof(struct okv_batch_disk);
	b->align_bytes = block_bytes;
	if (most > p->batch_bytes_max)
		most = p->batch_bytes_max;
	for (int i = 0; i < OKV_NR_CLASSES; i++) {
		struct okv_op *op, *before = NULL;

		if (place_of(p, i) != b->place)
			continue;
		for (op = p->queues[i].head; op && p->lanes[b->lane].nr_waiting;
		     op = before ? before->next : p->queues[i].head) {
			uint32_t head_bytes = okv_head_bytes(block_bytes, op->key_len,
							     op->written_len);
			uint32_t apart_bytes = op->record_bytes - head_bytes;

			if (op->ioprio != b->io.ioprio || op->group) {
				before = op;
				continue;
			}
			if ((b->nr_records &&
			     okv_batch_bytes(block_bytes, b->head_bytes + head_bytes,
					     b->apart_bytes + apart_bytes) > most) ||
			    !may_begin(p, op))
				break;
			okv_queue_take_behind(&p->queues[i], before);
			take(b, op, head_bytes);
		}
	}
}

/* The operations of a group, and nothing else. */
static void fill_group(struct okv_partition *p, struct okv_batch *b, const struct okv_group *group)
{
	struct okv_queue *q = &p->queues[OKV_PUTS];
	struct okv_op *op, *before = NULL;

	b->head_bytes = sizeof(struct okv_batch_disk);
	b->align_bytes = p->disk->block_bytes;
	for (op = q->head; op; op = before ? before->next : q->head) {
		if (op->group != group) {
			before = op;
			continue;
		}
		okv_queue_take_behind(q, before);
		take(b, op, okv_head_bytes(p->disk->block_bytes, op->key_len, op->written_len));
	}
}

static void write_done(struct okv_io *io);

/* Its heads are in @b->buf: copy them to the pack, and have the journal write them. */
static void journal(struct okv_partition *p, struct okv_batch *b)
{
	memcpy(b->pack->buf + (b->offset_bytes - b->pack->offset_bytes), b->buf, b->head_bytes);
	b->nr_parts++;
	p->stats.nr_journaled++;
	okv_journal_add(p->store->journal, b);
}

/* Send a batch that begins with @first. */
static void send_batch(struct okv_partition *p, const struct okv_op *first)
{
	struct okv_batch *b = mem_zalloc(sizeof(*b));
	enum okv_place_number number = place_of(p, class_of(first));
	struct okv_place *place = &p->places[number];
	uint32_t from = place->offset_bytes, head_bytes, bytes;

	b->partition = p;
	b->lane = lane_of(first);
	b->is_users = class_of(first) != OKV_MOVES;
	b->seq = p->next_seq++;
	b->place = number;
	b->segment = place->segment;
	b->io = (struct okv_io){
		.kind = OKV_WRITE, .flags = p->disk->has_fua ? OKV_FUA : 0,
		.ioprio = first->ioprio, .done = write_done, .owner = b,
	};
	if (first->group)
		fill_group(p, b, first->group);
	else
		fill(p, b);
	okv_batch_place(b);
	head_bytes = okv_round_up(b->head_bytes, p->disk->block_bytes);
	bytes = b->io.bytes + (b->pack ? b->head_bytes : 0);
	b->buf = okv_alloc_blocks(p->disk, head_bytes + b->apart_bytes);
	b->io.buf = b->pack ? (char *)b->buf + head_bytes : b->buf;
	b->io.offset_bytes = okv_segment_offset(p, b->segment) +
			     (b->pack ? b->value_offset_bytes : b->offset_bytes);
	if (p->last_batch)
		p->last_batch->next = b;
	else
		p->batches = b;
	p->last_batch = b;
	okv_batch_write(b, okv_log_durable_seq(p));
	p->segments[b->segment].last_seq = b->seq;
	p->bytes_since_checkpoint += place->offset_bytes - from;
	p->nr_writing++;
	p->lanes[b->lane].nr_writing[b->place]++;
	p->stats.nr_batches++;
	p->stats.batch_bytes += bytes;
	if (b->is_users)
		p->gc.user_bytes += bytes;
	if (b->pack)
		journal(p, b);
	if (b->is_users && p->store->journal)
		p->store->journal->nr_in_flight++;
	b->nr_parts += b->io.bytes != 0;
	if (b->io.bytes)
		p->disk->ops->submit(p->disk, &b->io);
}

/* ---- segments ---- */

struct segment_header {
	struct okv_partition *p;
	uint32_t segment;
	void *buf;
	struct okv_io io;
};

/*
 * Neither header is there. If the first batch cannot tell recovery either, as it is in a pack, none
 * of the segment's batches can be acknowledged: they go to another one.
 */
static void give_up_segment(struct okv_partition *p, uint32_t segment)
{
	for (const struct okv_batch *b = p->batches; b; b = b->next) {
		if (b->segment == segment && !b->pack && b->offset_bytes == p->disk->block_bytes)
			return;
	}
	for (struct okv_batch *b = p->batches; b; b = b->next)
		b->failed |= b->segment == segment;
	if (p->segments[segment].state == OKV_SEGMENT_OPEN)
		seal(p, p->segments[segment].place);
}

static void header_done(struct okv_io *io)
{
	struct segment_header *h = io->owner;
	struct okv_partition *p = h->p;
	struct okv_segment *s = &p->segments[h->segment];

	p->nr_headers--;
	s->nr_headers--;
	s->nr_header_writes--;
	s->is_known |= !io->result;
	if (!s->is_known && !s->nr_header_writes)
		give_up_segment(p, h->segment);
	mem_free(h->buf);
	mem_free(h);
	advance(p);
}

static void write_header(struct okv_partition *p, uint32_t segment, uint32_t offset)
{
	struct segment_header *h = mem_zalloc(sizeof(*h));
	uint32_t bytes = p->disk->block_bytes;
	struct okv_batch_disk *header;
	uint64_t location;

	h->p = p;
	h->segment = segment;
	h->buf = okv_alloc_blocks(p->disk, bytes);
	memset(h->buf, 0, bytes);
	header = h->buf;
	*header = (struct okv_batch_disk){
		.magic = OKV_BATCH_MAGIC,
		.partition = p->number,
		.seq = p->next_seq,
		.life = p->segments[segment].life,
		.durable = okv_log_durable_seq(p),
		.bytes = sizeof(*header),
		.head_bytes = sizeof(*header),
		.generation = p->generation,
		.form = p->segments[segment].place == OKV_OF_MOVES ? OKV_BATCH_OF_MOVES :
								     OKV_BATCH_ALONE,
	};
	location = okv_location(p, segment, offset);
	header->sum = okv_sum_behind(header, sizeof(*header), okv_location_seed(p, location));
	h->io = (struct okv_io){
		.kind = OKV_WRITE, .flags = OKV_FUA, .buf = h->buf, .bytes = bytes,
		.offset_bytes = okv_segment_offset(p, segment) + offset,
		.done = header_done, .owner = h,
	};
	p->nr_headers++;
	p->segments[segment].nr_headers++;
	p->segments[segment].nr_header_writes++;
	p->disk->ops->submit(p->disk, &h->io);
}

/*
 * The first and the last block of a segment are batches without records, which tell recovery that
 * the segment is in use. The first batch does that as well, but it may come late, or never, or the
 * device loses it. Both headers are written with FUA, whatever that costs the device: there are two
 * in a segment, and all of its batches may wait for them.
 */
static void write_headers(struct okv_partition *p, uint32_t segment)
{
	write_header(p, segment, 0);
	write_header(p, segment, p->segment_bytes - p->disk->block_bytes);
}

struct preparation {
	struct okv_partition *p;
	uint32_t segment;
	struct okv_io io;
};

static void prepared(struct okv_io *io)
{
	struct preparation *prep = io->owner;
	struct okv_partition *p = prep->p;

	p->nr_preparing--;
	p->segments[prep->segment].nr_headers--;
	if (p->segments[prep->segment].state == OKV_SEGMENT_OPEN)
		write_headers(p, prep->segment);
	mem_free(prep);
	okv_changed(p);
}

/*
 * On a sparse file each write would fill a hole, under locks and with a journal. So have zeros in
 * the whole segment first.
 */
static void prepare_segment(struct okv_partition *p, uint32_t segment)
{
	struct preparation *prep = mem_zalloc(sizeof(*prep));

	*prep = (struct preparation){ .p = p, .segment = segment };
	prep->io = (struct okv_io){
		.kind = OKV_PREPARE, .offset_bytes = okv_segment_offset(p, segment),
		.bytes = p->segment_bytes, .done = prepared, .owner = prep,
	};
	p->nr_preparing++;
	p->segments[segment].nr_headers++;
	p->disk->ops->submit(p->disk, &prep->io);
}

/* "Places" above. A segment of many lives ago is old. */
static void seal_old(struct okv_partition *p)
{
	for (int i = 0; i < OKV_NR_PLACES; i++) {
		uint32_t segment = p->places[i].segment;

		if (segment < p->nr_segments &&
		    p->next_life - p->segments[segment].life > p->nr_segments)
			seal(p, i);
	}
}

static void begin_segment(struct okv_partition *p, enum okv_place_number number)
{
	uint32_t segment = okv_segment_take(p, OKV_SEGMENT_OPEN);

	p->segments[segment].place = number;
	p->places[number] = (struct okv_place){
		.segment = segment, .offset_bytes = p->disk->block_bytes,
	};
	seal_old(p);
	if (p->disk->is_sparse)
		prepare_segment(p, segment);
	else
		write_headers(p, segment);
}

/* ---- sending ---- */

/* Do the values that wait in a lane fill a page, so that there is no room for one more of them? */
static bool fills_page(const struct okv_partition *p, const struct okv_lane *lane)
{
	return lane->waiting_bytes * (lane->nr_waiting + 1) >
	       (int64_t)okv_pack_bytes(p) * lane->nr_waiting;
}

/*
 * "Lanes" above. Has a lane a write to spare in a place? With a journal, what waits for more values
 * to share its heads with waits in vain, once the values fill a page.
 */
static bool may_write(const struct okv_partition *p, const struct okv_lane *lane,
		      enum okv_place_number place)
{
	uint32_t nr = lane->nr_writing[place];

	return nr < p->nr_writes_max ||
	       (p->store->journal && nr < p->nr_journaled_max &&
		fills_page(p, lane));
}

/*
 * "Lanes" above. The first operation of a class whose lane has a write to spare. The search goes
 * beyond the first one only if an operation of another lane waits.
 */
static struct okv_op *first_of(const struct okv_partition *p, enum okv_class class)
{
	for (struct okv_op *op = p->queues[class].head; op; op = op->next) {
		const struct okv_lane *lane = &p->lanes[lane_of(op)];

		if (may_write(p, lane, place_of(p, class)))
			return op;
		if (lane->nr_waiting == p->nr_waiting)
			break;
	}
	return NULL;
}

/* What the next batch begins with, if anything may. */
static struct okv_op *next_op(struct okv_partition *p)
{
	for (int i = 0; i < OKV_NR_CLASSES; i++) {
		struct okv_op *op = first_of(p, i);

		if (op && may_begin(p, op))
			return op;
	}
	return NULL;
}

/* Send what may be written now. */
void okv_log_send(struct okv_partition *p)
{
	enum okv_place_number place;
	struct okv_op *op;

	if (p->nr_plugs)
		return;
	while (!p->nr_preparing && !p->failing && !p->refusing && !p->nr_roots_in_doubt &&
	       !okv_outage_pauses(p, &p->log_outage)) {
		op = next_op(p);
		if (!op)
			break;
		p->nr_puts_begun += class_of(op) == OKV_PUTS;
		place = place_of(p, class_of(op));
		if (!okv_fits(p, place, alone_bytes(p, op))) {
			seal(p, place);
			begin_segment(p, place);
			continue;
		}
		send_batch(p, op);
	}
	okv_journal_send(p->store->journal);
}

/* "Plug" above. Plugs are counted; without the last one the log goes on. */
void okv_log_plug(struct okv_partition *p)
{
	p->nr_plugs++;
}

void okv_log_unplug(struct okv_partition *p)
{
	p->nr_plugs--;
	if (!p->nr_plugs && p->has_left_journal)
		okv_log_journaled(p);
	okv_changed(p);
}

void okv_log_submit(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	if (p->ops->yields(op))
		return;
	if (class_of(op) == OKV_PUTS)
		p->waiting_bytes += op->record_bytes;
	set_queued(op, true);
	okv_queue_add(&p->queues[class_of(op)], op);
	okv_changed(p);
}

static void leave(struct okv_partition *p, struct okv_op *op)
{
	if (class_of(op) == OKV_PUTS)
		p->waiting_bytes -= op->record_bytes;
}

/* @op does not wait any more: a move borrows its lock. */
void okv_log_withdraw(struct okv_op *op)
{
	struct okv_partition *p = op->partition;
	struct okv_queue all = p->queues[class_of(op)], *q = &p->queues[class_of(op)];
	struct okv_op *other;

	leave(p, op);
	set_queued(op, false);
	q->head = q->tail = NULL;
	while ((other = okv_queue_take(&all))) {
		if (other != op)
			okv_queue_add(q, other);
	}
}

/* ---- refusing ---- */

static void fail_queue(struct okv_partition *p, struct okv_queue *q, enum okv_status status)
{
	struct okv_queue failed = *q;
	struct okv_op *op;

	q->head = q->tail = NULL;
	/* From now on none of them is in a queue. */
	for (op = failed.head; op; op = op->next)
		set_queued(op, false);
	while ((op = okv_queue_take(&failed))) {
		leave(p, op);
		p->ops->failed(op, status);
	}
}

/* "Refusing" above. */
void okv_log_stop(struct okv_partition *p)
{
	if (!p->refusing) {
		p->refusing = true;
		p->refusing_since_ms = p->now_ms;
		p->nr_roots_in_doubt = OKV_NR_ROOTS;
		p->has_failed_write = true;
		okv_event(p, (struct okv_event){ .kind = OKV_EVENT_REFUSES });
	}
	for (int i = 0; i < OKV_NR_CLASSES; i++)
		fail_queue(p, &p->queues[i], OKV_IO_ERROR);
}

void okv_log_refuse_groups(struct okv_partition *p)
{
	struct okv_queue all = p->queues[OKV_PUTS], *q = &p->queues[OKV_PUTS], groups = { 0 };
	struct okv_op *op;

	q->head = q->tail = NULL;
	while ((op = okv_queue_take(&all)))
		okv_queue_add(op->group ? &groups : q, op);
	fail_queue(p, &groups, OKV_FULL);
}

/* No room will come for the operations of a class. */
void okv_log_refuse(struct okv_partition *p, enum okv_class class)
{
	for (struct okv_op *op = p->queues[class].head; op; op = op->next) {
		p->stats.nr_full++;
		if (op->tried && class != OKV_MOVES) {
			okv_log_stop(p);
			return;
		}
	}
	fail_queue(p, &p->queues[class], OKV_FULL);
}

/* ---- acknowledging ---- */

static void free_batch(struct okv_batch *b)
{
	mem_free(b->buf);
	mem_free(b);
}

/*
 * Operations that wait again let the moves of their records go first. While the operations were in
 * flight, the moves waited for them.
 */
static void yield_all(struct okv_partition *p, struct okv_queue *q)
{
	struct okv_op *op, *next;

	for (op = q->head; op; op = next) {
		next = op->next;
		if (op->lock && op->lock->moves.head) {
			okv_log_withdraw(op);
			p->ops->yields(op);
		}
	}
}

/*
 * "Errors" above. Nothing is in flight, and a write has failed: queue all that is not acknowledged
 * again, for another segment.
 */
static void go_back(struct okv_partition *p)
{
	struct okv_queue ops[OKV_NR_CLASSES] = { 0 }, groups = { 0 };
	struct okv_batch *b;
	struct okv_op *op;

	while ((b = p->batches)) {
		p->batches = b->next;
		while ((op = okv_queue_take(&b->ops))) {
			set_queued(op, true);
			op->tried = true;
			if (op->group) {
				okv_queue_add(&groups, op);
				continue;
			}
			okv_queue_add(&ops[class_of(op)], op);
		}
		free_batch(b);
	}
	p->last_batch = NULL;
	for (int i = 0; i < OKV_NR_CLASSES; i++)
		okv_queue_put_back(&p->queues[i], &ops[i]);
	okv_log_seal(p);
	p->failing = false;
	p->nr_roots_in_doubt = OKV_NR_ROOTS;
	p->has_failed_write = true;
	okv_outage_note(p, &p->log_outage);
	fail_queue(p, &groups, OKV_IO_ERROR);
	if (p->refusing || okv_outage_is_long(p, &p->log_outage)) {
		okv_log_stop(p);
		return;
	}
	p->stats.nr_retries++;
	yield_all(p, &p->queues[OKV_DELETES]);
	yield_all(p, &p->queues[OKV_PUTS]);
}

static void note_durable(struct okv_batch *b)
{
	struct okv_partition *p = b->partition;

	b->durable = true;
	p->segments[b->segment].is_known |= !b->pack && b->offset_bytes == p->disk->block_bytes;
}

static void flush_done(struct okv_io *io)
{
	struct okv_partition *p = io->owner;

	p->flush_in_flight = false;
	if (io->result)
		okv_failed(p, OKV_EVENT_WRITE_ERROR, io);
	for (struct okv_batch *b = p->batches; b; b = b->next) {
		if (!b->flushing)
			continue;
		b->flushing = false;
		b->failed = io->result;
		if (!io->result)
			note_durable(b);
	}
	advance(p);
}

/* "Durable" above. One flush for all that is written and not yet durable. */
static void start_flush(struct okv_partition *p)
{
	bool any = false;

	if (p->flush_in_flight || p->disk->has_fua)
		return;
	for (struct okv_batch *b = p->batches; b; b = b->next) {
		b->flushing = b->written && !b->durable && !b->failed;
		any |= b->flushing;
	}
	if (!any)
		return;
	p->flush_in_flight = true;
	p->stats.nr_flushes++;
	p->flush = (struct okv_io){ .kind = OKV_FLUSH, .done = flush_done, .owner = p };
	p->disk->ops->submit(p->disk, &p->flush);
}

/* Its values, its heads, or both together have been written, or not. */
static void end_part(struct okv_batch *b, const struct okv_io *io)
{
	struct okv_partition *p = b->partition;

	b->failed |= io->result != 0;
	if (io->result)
		okv_failed(p, OKV_EVENT_WRITE_ERROR, io);
	if (--b->nr_parts)
		return;
	if (b->is_users && p->store->journal)
		p->store->journal->nr_in_flight--;
	p->nr_writing--;
	p->lanes[b->lane].nr_writing[b->place]--;
	b->written = true;
	if (!b->failed && p->disk->has_fua)
		note_durable(b);
}

static void write_done(struct okv_io *io)
{
	struct okv_batch *b = io->owner;

	end_part(b, io);
	advance(b->partition);
}

void okv_log_journaled(struct okv_partition *p)
{
	const struct okv_journal *j = p->store->journal;

	/* Batches may be looked at just now: the unplug comes back. */
	p->has_left_journal = p->nr_plugs;
	if (p->nr_plugs)
		return;
	for (struct okv_batch *b = p->batches; b; b = b->next) {
		struct okv_io io = {
			.offset_bytes = okv_journal_offset(&p->layout->super, j->number),
			.result = b->journal_result,
		};

		if (!b->has_left_journal)
			continue;
		b->has_left_journal = false;
		end_part(b, &io);
	}
	advance(p);
}

/* "In any order" above. Acknowledge what is durable, if recovery would find it. */
static void acknowledge(struct okv_partition *p)
{
	struct okv_batch **at = &p->batches, *b;
	struct okv_op *op;

	p->last_batch = NULL;
	while ((b = *at)) {
		if (!b->durable || !p->segments[b->segment].is_known) {
			p->last_batch = b;
			at = &b->next;
			continue;
		}
		*at = b->next;
		okv_outage_end(&p->log_outage);
		while ((op = okv_queue_take(&b->ops))) {
			leave(p, op);
			p->ops->applied(op);
		}
		free_batch(b);
	}
}

/* Acknowledge what is durable, go back if a write has failed, and send more. */
static void advance(struct okv_partition *p)
{
	for (struct okv_batch *b = p->batches; b; b = b->next)
		p->failing |= b->failed;
	okv_log_plug(p);
	acknowledge(p);
	start_flush(p);
	if (p->failing && !p->nr_writing && !p->flush_in_flight)
		go_back(p);
	okv_log_unplug(p);
}
