/* SPDX-License-Identifier: GPL-2.0 */
/*
 * partition.h - a partition from within, and what its files ask of each other
 *
 * The files, from the top down. Each calls only files below it. The callbacks of struct
 * okv_partition_ops are the one way up.
 *
 *	store.c		open, close, counters; decides when to checkpoint and to collect
 *	scan.c		walks over keys
 *	transact.c	several keys in one step
 *	gc.c		moves live records out of a segment; removes what has expired
 *	recover.c	opening: the checkpoint, then what the log has beyond it
 *	op.c		operations: looking records up, deciding what to write
 *	lock.c		which operation may go on with a key
 *	checkpoint.c	the index to the device, and from it
 *	log.c		operations in batches, batches in segments, acknowledging
 *	log/journal.c	heads of all partitions of a thread, durable in one write
 *	log/heads.c	what the journals of a device have, for recovery
 *	log/pack.c	heads of many batches that lie together, and are written late
 *	log/place.c	where in the open segment a batch goes
 *	log/batch.c	a batch, as it lies on the device
 *	log/record.c	whether a record or a batch that was read is good
 *	map.c		the entries of the index, and the sums that change with them
 *	segment.c	the space of the partition
 *	known.c		keys of records that were written or read not long ago
 *	index.c		where records lie
 *	outage.c	how long to go on trying when the device fails
 *	format.c	what lies on the device
 *
 * Words:
 *
 *	batch		one write of the log: a header, the heads of records, then apart values
 *	head		a record without its apart value: header, key, and a short value
 *	apart		a value in blocks of its own behind the heads of its batch
 *	segment		a piece of the device that is written from its beginning to its end
 *	life		the number of one use of a segment; part of the seed of its checksums
 *	header		of a segment: a batch without records in its first and its last block
 *	hole		a segment of a sparse device for which the file system has no room yet
 *	live		a record that the index points to; all others are dead
 *	drained		a segment without a live record, which a root on the device still knows
 *	kept		segments that no write of a user may take
 *	chunk		a piece of a checkpoint: some shards of the index
 *	root		a page that names the chunks of a checkpoint and where the log goes on
 *	named		a segment that the log may take, as a root says so; recovery looks there
 *	in doubt	a root that may have a failed write in its tail
 *	tail		the batches that recovery finds behind the checkpoint of a root
 *	location	where a record lies, in units of 16 bytes
 *	tag		the 44 bits of a key's hash that the index keeps
 *	identity	shard and tag: all that the index knows of a key; what locks are for
 *	candidate	an index entry with the identity of a key; only reading it tells
 *	suspect		a candidate that could not be read right
 *	known		a record whose key is in memory (known.h)
 *	lane		the writes of one ioprio, which names a tenant, but for collisions
 *	move		an operation of garbage collection that writes a live record again
 *	victim		the segment that garbage collection empties
 *	plug		while a log has one, what is submitted gathers and nothing is written
 *
 * Life of a segment:
 *
 *	FREE -> OPEN -> SEALED -> (no live record left) DRAINED -> (in no checkpoint) FREE
 *	FREE -> CHECKPOINT -> (its root is gone) FREE
 *	DRAINED -> TRIM -> (the device knows that it holds nothing) FREE, or HOLE on a sparse
 *		device; if the store trims, and has free segments to spare
 *	HOLE -> (the file system has room for it) FREE, on a sparse device
 *	SEALED -> BAD, when garbage collection cannot read its way through it
 *	BAD -> SEALED, when it is time for another try
 *
 * On a sparse device, every segment that an open does not find in use begins as a hole.
 */
#ifndef OKV_PARTITION_H
#define OKV_PARTITION_H

#include "format.h"
#include "index.h"
#include "known.h"

enum {
	OKV_NR_LOCK_LISTS	= 256,
	OKV_NR_RETRIES		= 3,		/* at once; then with pauses */
	OKV_PATIENCE_MS		= 5000,		/* before writes are refused */
	OKV_CHUNK_BYTES		= 256 << 10,
	OKV_NR_LANES		= 16,
	OKV_NR_RECENT		= 255,
	OKV_GROUP_BLOCKS_MAX	= 8000,	/* apart values of a batch have 13 bits for their place */
};

/*
 * What waits for the log. The first class goes before the second, the second before the third.
 * A class before another one may also use more of the kept segments.
 */
enum okv_class {
	OKV_MOVES,
	OKV_DELETES,
	OKV_PUTS,
	OKV_NR_CLASSES,
};

enum okv_segment_state {
	OKV_SEGMENT_FREE,
	OKV_SEGMENT_HOLE,
	OKV_SEGMENT_OPEN,
	OKV_SEGMENT_SEALED,
	OKV_SEGMENT_DRAINED,
	OKV_SEGMENT_CHECKPOINT,
	OKV_SEGMENT_BAD,
	OKV_SEGMENT_TRIM,
};

/**
 * struct okv_segment - what memory knows of a segment
 * @life:		number of this use; part of the seed of all that is in it
 * @last_seq:		no batch in it has a greater number
 * @drained_generation:	DRAINED: the first checkpoint that does not know it
 * @live_bytes:		of records that the index points to
 * @named_by:		bit by bit, which of the roots on the device name it: the log takes only a
 *			segment that both do
 * @nr_headers:		header blocks, and zeros before them, that are being written, and packs
 *			that have not been. Until they are done, the segment may not become
 *			something else
 * @nr_header_writes:	of these, header blocks
 * @nr_bad:		how often collection could not read it, in this life
 * @bad_until_ms:	BAD: when to try again
 * @is_known:		recovery would find it: its header or its first batch is durable
 * @place:		OPEN: of the log
 */
struct okv_segment {
	uint64_t life;
	uint64_t last_seq;
	uint64_t drained_generation;
	uint32_t live_bytes;
	uint32_t named_by;
	uint32_t nr_headers, nr_header_writes;
	uint32_t nr_bad;
	uint64_t bad_until_ms;
	bool is_known;
	enum okv_place_number place;
	enum okv_segment_state state;
};

/* Where the log goes on. */
struct okv_place {
	uint32_t segment;		/* nr_segments: none */
	uint32_t offset_bytes;
};

struct okv_queue {
	struct okv_op *head, *tail;
};

/*
 * Operations with one identity: readers together, or one writer; the others wait in order. Moves
 * wait in a queue of their own.
 */
struct okv_lock {
	uint64_t identity;
	struct okv_lock *next;
	struct okv_queue waiting, moves;
	uint32_t nr_readers;
	bool is_ending;			/* done() of its writer runs, which may free it */
	struct okv_op *writer;
	struct okv_op *joined;		/* the first of those that end with the writer, in order */
};

/* The writes of a partition with one ioprio, or with one of a few: see "Lanes" in log.c. */
struct okv_lane {
	uint32_t nr_writing[OKV_NR_PLACES];
	uint32_t nr_waiting;		/* operations in the queues */
	int64_t waiting_bytes;		/* of their apart values */
};

/*
 * One batch, from the building of it to its acknowledgement: one write, or one of its values and a
 * part of one of the journal.
 */
struct okv_batch {
	struct okv_batch *next, *journal_next;
	struct okv_partition *partition;
	struct okv_pack *pack;		/* that has its heads; NULL: they lie before its values */
	struct okv_queue ops;
	void *buf;
	uint64_t seq;
	enum okv_place_number place;
	uint32_t segment;
	uint32_t offset_bytes, value_offset_bytes;	/* in @segment */
	struct okv_place_disk from[OKV_NR_PLACES];	/* no batch from this one on lies before */
	uint32_t head_bytes, apart_bytes;
	uint32_t align_bytes;		/* the best alignment of its apart values */
	uint32_t nr_records;
	uint32_t lane;
	uint32_t nr_parts;		/* writes that are not back, of @io and of the journal */
	bool written, flushing, durable, failed;
	bool is_users;			/* it does not begin with a move */
	bool has_left_journal;
	int journal_result;
	struct okv_io io;
};

/* Where, in its segment, the heads of a batch end, and where all of it ends. */
struct okv_bounds {
	uint32_t head_end, end;
};

/* A whole segment in memory. */
struct okv_load {
	uint32_t segment;
	char *buf;
	uint32_t next;			/* the offset of the next request */
	uint32_t nr_pending;
	int error;
	void (*done)(struct okv_partition *p);
};

/* What is known of the two roots on the device. */
struct okv_root {
	uint64_t generation;	/* 0: not valid */
	uint64_t seq;
	uint32_t nr_segments;
	uint32_t *segments;
};

enum okv_checkpoint_step {
	OKV_CHECKPOINT_NONE,
	OKV_CHECKPOINT_CHUNKS,
	OKV_CHECKPOINT_FLUSH,
	OKV_CHECKPOINT_ROOT,
	OKV_CHECKPOINT_ROOT_FLUSH,
	OKV_CHECKPOINT_ROOT_READ,
};

/*
 * Failures in a row of what is tried again: the writes of the log, or checkpoints.
 * @until_ms: the end of the pause before the next try, of @pause_ms if that fails, too
 */
struct okv_outage {
	uint32_t nr_failures;
	uint32_t pause_ms;
	uint64_t since_ms, until_ms;
};

struct okv_checkpoint {
	enum okv_checkpoint_step step;
	bool waits;			/* to write its root again: nothing is in flight */
	bool waits_for_packs;		/* before it writes its root */
	uint64_t packs_below;		/* with a lower number */
	bool clears_doubt;		/* it began when a root was in doubt already */
	struct okv_root_disk *root;	/* a page */
	struct okv_io io;
	char *buf;
	uint32_t next_shard;
	uint32_t segment;
	uint32_t offset_bytes;
};

struct okv_gc {
	bool active;
	bool waits;			/* for memory */
	uint32_t victim;
	char *buf;
	struct okv_load load;
	bool loads;
	struct okv_bounds batch;	/* the one at @offset */
	uint32_t offset, next_batch;
	/* For its pace: of the victim at first, moved of that, and written by users since. */
	uint64_t live_bytes, moved_bytes, user_bytes;
	uint32_t nr_moving, round_head_bytes, round_apart_bytes;
	bool has_bad;			/* perhaps: there are segments that are BAD */
	uint32_t nr_in_vain;		/* victims since a write of a user last began */
	/* nr_puts_begun and live_bytes of the partition when nr_in_vain was last looked at. */
	uint64_t nr_puts_then, live_bytes_then;
	bool in_step, gave_up;
};

/* What the lower files of a partition tell the upper ones. */
struct okv_partition_ops {
	/* The record of an operation is durable. */
	void (*applied)(struct okv_op *op);

	/* It will not be: there is no room, or writes have failed. */
	void (*failed)(struct okv_op *op, enum okv_status status);

	/* Before an operation waits for room: does it let a move go first? */
	bool (*yields)(struct okv_op *op);

	/* See okv_changed(). */
	void (*changed)(struct okv_partition *p);
};

/* The keys of a tenant that was cleared, as long as they are few: map.c */
struct okv_recent {
	uint32_t nr;
	struct {
		uint64_t hash, location;
	} at[OKV_NR_RECENT];
};

/*
 * @nr_ops, @clear: see "Clearing" in op.c
 * @recent: the records that the tenant has are among these; NULL: it may have others
 */
struct okv_usage {
	struct okv_recent *recent;
	uint64_t bytes, nr_keys;
	uint64_t nr_ops;
	struct okv_op *clear;
};

struct okv_partition {
	const struct okv_partition_ops *ops;
	struct okv_store *store;
	struct okv_disk *disk;
	const struct okv_layout *layout;
	uint32_t number;
	uint32_t segment_bytes, nr_segments;
	uint64_t offset_bytes;		/* of segment 0 on the device */
	uint64_t now_ms;
	const uint64_t *clock_ns;
	bool refusing;			/* writes, after errors, until nr_roots_in_doubt is 0 */
	uint64_t refusing_since_ms;
	bool is_pinned;			/* segments are not used again */
	bool is_quiet;			/* no more work in the background */
	bool is_hurried;		/* no pauses: what fails again and again has failed */

	struct okv_index index;
	struct okv_known_table known;

	/* map.c */
	struct okv_usage *usage;	/* by tenant; OKV_ALL_TENANTS has operations only */
	uint64_t live_bytes;

	/* segment.c */
	struct okv_segment *segments;
	uint32_t nr_free, nr_holes;
	uint32_t nr_free_named, nr_holes_named;	/* of these, what the log may take */
	uint64_t next_life;
	struct okv_io allocation;
	bool allocating;
	uint32_t next_hole;		/* where the next allocation looks */
	uint32_t nr_refused_holes;	/* allocations that failed in a row */
	uint64_t allocate_ms;		/* when all holes have failed: not before then */
	uint32_t nr_to_trim;
	bool trims, trimming;
	uint32_t trimmed;		/* the segment that is being trimmed */
	struct okv_io trim;

	/* op.c */
	struct okv_lock *locks[OKV_NR_LOCK_LISTS];
	struct okv_queue ready;
	struct okv_queue behind_clears;
	uint32_t nr_clears, nr_all_wait;
	bool running;
	uint64_t nr_ops;		/* submitted and not done, those of the store included */

	/* log.c */
	struct okv_queue queues[OKV_NR_CLASSES];
	uint64_t waiting_bytes;
	struct okv_batch *batches, *last_batch;
	struct okv_lane lanes[OKV_NR_LANES];
	uint32_t nr_waiting;
	uint32_t nr_writing, nr_headers, nr_preparing;
	uint32_t nr_writes_max, nr_journaled_max, batch_bytes_max;
	struct okv_place places[OKV_NR_PLACES];
	uint64_t next_seq;
	struct okv_outage log_outage;
	uint32_t nr_roots_in_doubt;	/* so many checkpoints come before the next batch */
	bool failing;
	bool has_failed_write;		/* since no root was in doubt: they have to be readable */
	uint32_t nr_plugs;
	uint64_t nr_puts_begun;		/* counts up when the log begins to write a put */
	struct okv_io flush;
	bool flush_in_flight;
	bool has_left_journal;		/* some of its batches have */

	/* log/pack.c */
	struct okv_pack *packs, *last_pack;	/* that are not on the device, in their order */
	uint64_t next_pack;
	struct okv_outage pack_outage;
	bool packs_fail_long;		/* one has just failed, after all patience */

	/* checkpoint.c */
	struct okv_root roots[OKV_NR_ROOTS];
	uint64_t generation;		/* of the newest on the device */
	struct okv_checkpoint checkpoint;
	uint64_t bytes_since_checkpoint;
	struct okv_outage checkpoint_outage;
	uint64_t attempt_seed, nr_attempts;	/* of this open: make the numbers of attempts */

	/* gc.c */
	struct okv_gc gc;
	uint32_t sweep_shard, sweep_slot;	/* where the sweep goes on */
	bool sweep_disturbed;		/* entries of that shard have come or gone since it began */
	uint32_t nr_sweeping;		/* expiries under way */
	uint32_t nr_sweeping_more;	/* how many more may be, as much has expired */

	/* store.c */
	uint32_t nr_changes;		/* since maintain() began; 0: it does not run */
	uint64_t looked_seq;		/* next_seq at the last search for a victim */
	struct okv_stats stats;
};

struct okv_store {
	struct okv_disk *disk;
	struct okv_journal *journal;	/* NULL: each batch has its heads before its values */
	struct okv_heads *heads;	/* during the open: what the journals have */
	struct okv_layout layout;
	struct okv_device_info info;
	struct okv_open_options options;
	struct okv_partition **partitions;	/* by number; NULL: another thread's */
};

static inline void okv_queue_add(struct okv_queue *q, struct okv_op *op)
{
	op->next = NULL;
	if (q->tail)
		q->tail->next = op;
	else
		q->head = op;
	q->tail = op;
}

static inline struct okv_op *okv_queue_take(struct okv_queue *q)
{
	struct okv_op *op = q->head;

	if (op) {
		q->head = op->next;
		if (!q->head)
			q->tail = NULL;
		op->next = NULL;
	}
	return op;
}

/* Take the operation behind @before, or the first. */
static inline void okv_queue_take_behind(struct okv_queue *q, struct okv_op *before)
{
	struct okv_op *op;

	if (!before) {
		okv_queue_take(q);
		return;
	}
	op = before->next;
	before->next = op->next;
	if (q->tail == op)
		q->tail = before;
	op->next = NULL;
}

/* Put all of @front before what is in @q. */
static inline void okv_queue_put_back(struct okv_queue *q, struct okv_queue *front)
{
	if (!front->head)
		return;
	front->tail->next = q->head;
	q->head = front->head;
	if (!q->tail)
		q->tail = front->tail;
	front->head = front->tail = NULL;
}

/* Locations, in units of OKV_ALIGN_BYTES from segment 0 of the partition on. */
static inline uint64_t okv_location(const struct okv_partition *p, uint32_t segment,
				    uint32_t offset)
{
	return ((uint64_t)segment * p->segment_bytes + offset) / OKV_ALIGN_BYTES;
}

static inline uint32_t okv_segment_of(const struct okv_partition *p, uint64_t location)
{
	return location * OKV_ALIGN_BYTES / p->segment_bytes;
}

static inline uint64_t okv_segment_offset(const struct okv_partition *p, uint32_t segment)
{
	return p->offset_bytes + (uint64_t)segment * p->segment_bytes;
}

static inline uint64_t okv_location_seed(const struct okv_partition *p, uint64_t location)
{
	return okv_seed(&p->layout->super, p->number, location,
			p->segments[okv_segment_of(p, location)].life);
}

/* In a store with slots: which bits of a tag are from the slot, and what they are. */
static inline uint64_t okv_slot_mask(uint32_t partition_bits)
{
	uint32_t nr_bits = OKV_SLOT_BITS - partition_bits;

	return ((1ULL << nr_bits) - 1) << (OKV_TAG_BITS - nr_bits);
}

static inline uint64_t okv_slot_tag(uint64_t slot, uint32_t partition_bits)
{
	return slot >> partition_bits << (OKV_TAG_BITS - OKV_SLOT_BITS + partition_bits);
}

/* What the clock of the owner says; without one, time stands still. */
static inline uint64_t okv_clock_ns(const struct okv_partition *p)
{
	return p->clock_ns ? *p->clock_ns : 0;
}

static inline void okv_stages_begin(const struct okv_partition *p, struct okv_stages *s)
{
	*s = (struct okv_stages){ .since_ns = okv_clock_ns(p) };
}

/* The stage so far ends, and @next begins. */
static inline void okv_stages_enter(const struct okv_partition *p, struct okv_stages *s,
				    enum okv_stage next)
{
	uint64_t now_ns = okv_clock_ns(p);

	s->ns[s->now] += now_ns - s->since_ns;
	s->since_ns = now_ns;
	s->now = next;
}

static inline bool okv_is_expired(uint64_t expire_ms, uint64_t now_ms)
{
	return expire_ms && expire_ms <= now_ms;
}

/*
 * Something has changed that a write, a checkpoint or garbage collection may have waited for. While
 * the log is plugged nothing happens: the unplug calls this again.
 */
static inline void okv_changed(struct okv_partition *p)
{
	if (!p->nr_plugs)
		p->ops->changed(p);
}

static inline void okv_event(const struct okv_partition *p, struct okv_event event)
{
	const struct okv_open_options *options = &p->store->options;

	event.partition = p->number;
	if (options->event)
		options->event(options->owner, &event);
}

static inline void okv_failed(struct okv_partition *p, enum okv_event_kind kind,
			      const struct okv_io *io)
{
	if (kind == OKV_EVENT_WRITE_ERROR)
		p->stats.nr_write_errors++;
	else
		p->stats.nr_read_errors++;
	okv_event(p, (struct okv_event){
		.kind = kind, .offset_bytes = io->offset_bytes, .error = -io->result,
	});
}

/* The checksum is wrong of what lies there. */
static inline void okv_damaged(struct okv_partition *p, uint64_t location)
{
	p->stats.nr_corrupt++;
	okv_event(p, (struct okv_event){
		.kind = OKV_EVENT_DAMAGE,
		.offset_bytes = p->offset_bytes + location * OKV_ALIGN_BYTES,
	});
}

/* Does the record of @op remove the key? */
static inline bool okv_op_removes(const struct okv_op *op)
{
	return op->kind == OKV_OP_DELETE || op->kind == OKV_OP_EXPIRE ||
	       op->kind == OKV_OP_CLEAR ||
	       (op->kind == OKV_OP_RELOCATE && op->expired);
}

/* What @op writes of its value. */
static inline const void *okv_op_written(const struct okv_op *op)
{
	return op->compressed ? op->compressed : op->value;
}

/* ---- what its files ask of each other, beside segment.h, lock.h, log/record.h and map.h ---- */

/* log.c */
void okv_log_submit(struct okv_op *op);
void okv_log_withdraw(struct okv_op *op);
void okv_log_send(struct okv_partition *p);
void okv_log_plug(struct okv_partition *p);
void okv_log_unplug(struct okv_partition *p);
void okv_log_refuse(struct okv_partition *p, enum okv_class class);
void okv_log_stop(struct okv_partition *p);

/* Some batches of the partition have left the journal. */
void okv_log_journaled(struct okv_partition *p);
bool okv_log_is_stalled(const struct okv_partition *p, enum okv_class class);

/* The log goes on in other segments. */
void okv_log_seal(struct okv_partition *p);

/* The same of those from which collection may gain room; false: there is none. */
bool okv_log_seal_for_room(struct okv_partition *p);
bool okv_log_has_room(const struct okv_partition *p, uint32_t record_bytes);
/* Fail the groups that wait: they hold locks that moves may need. */
void okv_log_refuse_groups(struct okv_partition *p);
uint32_t okv_log_group_bytes(const struct okv_partition *p, const struct okv_group *group);
uint32_t okv_log_group_bytes_max(const struct okv_partition *p);
bool okv_log_is_idle(const struct okv_partition *p);
uint64_t okv_log_durable_seq(const struct okv_partition *p);

/* outage.c */
void okv_outage_note(struct okv_partition *p, struct okv_outage *o);
void okv_outage_end(struct okv_outage *o);

/* It is not time for the next try. */
bool okv_outage_pauses(const struct okv_partition *p, const struct okv_outage *o);

/* Refuse writes meanwhile. */
bool okv_outage_is_long(const struct okv_partition *p, const struct okv_outage *o);

/* checkpoint.c */

/* A chunk ends behind the shard with which it has so many bytes. */
uint32_t okv_chunk_limit(const struct okv_partition *p);
void okv_checkpoint_start(struct okv_partition *p);

/* If one waits to write its root again, and the pause is over: let it. */
void okv_checkpoint_resume(struct okv_partition *p);
int okv_checkpoint_wait(struct okv_partition *p);
bool okv_checkpoint_is_due(const struct okv_partition *p);

/* There are free segments, but none that the log may take: a checkpoint or two help. */
bool okv_checkpoint_is_awaited(const struct okv_partition *p);
int okv_checkpoint_load(struct okv_partition *p, const struct okv_root_disk *root);

/* The root is on the device: the log may take what it names. */
void okv_checkpoint_note_named(struct okv_partition *p, const struct okv_root_disk *root);

/*
 * recover.c: so many lives are beyond all that a run can have begun since a root, for a segment is
 * used again only after two more roots.
 */
uint64_t okv_lives_of_run(const struct okv_partition *p);
int okv_recover(struct okv_partition *p);
int okv_root_read(struct okv_partition *p, uint32_t slot, struct okv_root_disk *root);

/* op.c */
void okv_op_finish(struct okv_op *op, enum okv_status status);
void okv_op_applied(struct okv_op *op);
bool okv_op_yields(struct okv_op *op);

/* Run @op, whose identity is held. */
void okv_op_run_held(struct okv_partition *p, struct okv_op *op);

/* export.c: reads all of a segment; what cannot be read is zeros. Blocks. */
int okv_segment_read(struct okv_partition *p, uint32_t segment, char *buf);

/* export.c: shows @record, whose value lies at @x->value, with that value as it was before. */
void okv_export_show(struct okv_export *e, const struct okv_partition *p,
		     const struct okv_record_disk *record, struct okv_exported *x);

/*
 * gc.c: the sealed segment that is worth most, of those with at most @live_bytes_max; else
 * p->nr_segments. @hurries: room is needed at once.
 */
uint32_t okv_gc_victim(const struct okv_partition *p, uint32_t live_bytes_max, bool hurries);

/* False: there is no memory for a segment now. */
bool okv_gc_start(struct okv_partition *p, uint32_t victim, bool hurries);

/* Go on with a victim that has waited for its turn. */
void okv_gc_resume(struct okv_partition *p);

/* So much has been collected for nothing that more would be for nothing, too. */
bool okv_gc_is_in_vain(struct okv_partition *p);

/* BAD segments get another try when it is time. */
void okv_gc_try_bad(struct okv_partition *p);
void okv_expire(struct okv_partition *p, uint16_t tenant, uint64_t hash);
void okv_expire_some(struct okv_partition *p);

#endif
