/* SPDX-License-Identifier: GPL-2.0 */
/*
 * partition.h - a partition from within, and what its files ask of each other
 *
 *	store.c		open, close, counters
 *	op.c		operations: locks by identity, looking records up, deciding what to write
 *	known.c		keys of records that were written or read not long ago
 *	log.c		the log: operations in batches, segments, acknowledging
 *	checkpoint.c	the index to the device, and from it
 *	recover.c	opening: checkpoint, then what the log has beyond it
 *	gc.c		segments with few live records: move these, reuse the segment; removal of what has expired
 *	scan.c		walks over keys
 *
 * Life of a segment:
 *
 *	FREE -> OPEN -> SEALED -> (no live record left) DRAINED -> (in no checkpoint) FREE
 *	FREE -> CHECKPOINT -> (its root is gone) FREE
 *	HOLE -> (the file system has room for it) FREE, on a sparse device, where nothing else is known of those that no open found in use
 *	SEALED -> BAD, when garbage collection cannot read its way through it: it stays as it is
 */
#ifndef OKV_PARTITION_H
#define OKV_PARTITION_H

#include "format.h"
#include "index.h"
#include "known.h"

enum {
	OKV_NR_LOCK_LISTS	= 256,
	OKV_NR_RETRIES		= 3,		/* of writing to another segment before writes are refused */
	OKV_CHUNK_BYTES		= 256 << 10,
	OKV_NR_LANES		= 16,
};

/* What waits for the log, the first before the second before the third, and how deep each may dig into what is kept back. */
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
};

/**
 * struct okv_segment - what memory knows of a segment
 * @life:		number of this use; part of the seed of all that is in it
 * @last_seq:		no batch in it has a greater number
 * @drained_generation:	DRAINED: the first checkpoint that does not know it
 * @live_bytes:		of records that the index points to
 * @nr_headers:		header blocks, and zeros before them, that are being written: it may not become something else until they are
 * @is_known:		recovery would find it: its header or its first batch is durable
 */
struct okv_segment {
	uint64_t life;
	uint64_t last_seq;
	uint64_t drained_generation;
	uint32_t live_bytes;
	uint32_t nr_headers;
	bool is_known;
	enum okv_segment_state state;
};

struct okv_queue {
	struct okv_op *head, *tail;
};

/* Operations with one identity: readers together, or one writer; the others wait in order. */
struct okv_lock {
	uint64_t identity;
	struct okv_lock *next;
	struct okv_queue waiting, moves;
	uint32_t nr_readers;
	bool is_ending;			/* its writer is being told, and may be gone */
	struct okv_op *writer;
};

/* Of a partition's writes, those with one tag, or with one of a few. */
struct okv_lane {
	uint32_t nr_writing;
	uint32_t nr_waiting;		/* operations in the queues */
};

/* One write of the log, from the building of it to its acknowledgement. */
struct okv_batch {
	struct okv_batch *next;
	struct okv_partition *partition;
	struct okv_queue ops;
	void *buf;
	uint64_t seq;
	uint32_t segment;
	uint32_t offset_bytes;
	uint32_t head_bytes, apart_bytes;
	uint32_t align_bytes;		/* where the values that lie apart would begin best */
	uint32_t nr_records;
	uint32_t lane;
	bool written, flushing, durable, failed;
	struct okv_io io;
};

/* Where, in its segment, records of a batch end, and where all of it does. */
struct okv_bounds {
	uint32_t head_end, end;
};

/* A whole segment in memory. */
struct okv_load {
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
};

struct okv_checkpoint {
	enum okv_checkpoint_step step;
	bool clears_doubt;			/* it began when nothing was in doubt */
	struct okv_root_disk *root;	/* a page */
	struct okv_io io;
	char *buf;
	uint32_t next_shard;
	uint32_t segment;
	uint32_t offset_bytes;
};

struct okv_gc {
	bool active;
	uint32_t victim;
	char *buf;
	struct okv_load load;
	struct okv_bounds batch;	/* of the one that it is in */
	uint32_t offset;
	uint32_t nr_moving, round_head_bytes, round_apart_bytes;
	uint32_t nr_in_vain;	/* victims since a write of a user last began */
	uint64_t nr_puts_then;	/* nr_puts_begun when that was looked at */
	uint64_t looked_seq;	/* when a victim was last looked for */
	bool in_step, gave_up;
};

/* What the lower files of a partition tell the upper ones. */
struct okv_partition_ops {
	void (*applied)(struct okv_op *op);	/* its record is durable */
	void (*failed)(struct okv_op *op, enum okv_status status);
	bool (*yields)(struct okv_op *op);	/* before it waits for room: does it let a move go first? */
	void (*changed)(struct okv_partition *p);
};

struct okv_usage {
	uint64_t bytes, nr_keys;
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
	bool refusing;			/* writes, after errors */
	bool is_quiet;		/* no more work in the background */

	struct okv_index index;
	struct okv_known_table known;
	struct okv_usage *usage;
	struct okv_segment *segments;
	uint32_t nr_free, nr_holes;
	uint64_t live_bytes;

	/* op.c */
	struct okv_lock *locks[OKV_NR_LOCK_LISTS];
	struct okv_queue ready;
	bool running;
	uint64_t nr_ops;		/* submitted and not done, the store's own included */

	/* log.c */
	struct okv_queue queues[OKV_NR_CLASSES];
	uint64_t waiting_bytes;
	struct okv_batch *batches, *last_batch;
	struct okv_lane lanes[OKV_NR_LANES];
	uint32_t nr_waiting;
	uint32_t nr_writing, nr_headers, nr_preparing;
	uint32_t nr_writes_max, batch_bytes_max;
	uint32_t open_segment;		/* nr_segments: none */
	uint32_t open_offset;
	uint64_t next_seq, next_life;
	uint32_t nr_retries;
	uint32_t nr_roots_in_doubt;		/* checkpoints to be written before the next batch */
	bool failing;
	uint32_t nr_plugs;		/* while there is one, what is submitted gathers */
	uint64_t nr_puts_begun;
	struct okv_io flush;
	bool flush_in_flight;
	struct okv_io allocation;
	bool allocating;
	uint32_t next_hole, nr_refused_holes;	/* where the next allocation looks, and how many have failed in a row */
	uint64_t allocate_ms;		/* after which the next one is tried when all holes have failed */

	/* checkpoint.c */
	struct okv_root roots[OKV_NR_ROOTS];
	uint64_t generation;		/* of the newest on the device */
	struct okv_checkpoint checkpoint;
	uint64_t bytes_since_checkpoint;
	uint32_t nr_checkpoint_failures;

	struct okv_gc gc;
	uint32_t sweep_shard, sweep_slot;	/* where it goes on */
	uint32_t nr_sweeping, nr_sweeping_more;

	uint32_t nr_changes;		/* since store.c began to look after it; 0: it does not */
	struct okv_stats stats;
};

struct okv_store {
	struct okv_disk *disk;
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

/* Takes the one behind @before, or the first. */
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

/* All of @front before what is in @q. */
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
static inline uint64_t okv_location(const struct okv_partition *p, uint32_t segment, uint32_t offset)
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
	return okv_seed(&p->layout->super, p->number, location, p->segments[okv_segment_of(p, location)].life);
}

static inline bool okv_is_expired(uint64_t expire_ms, uint64_t now_ms)
{
	return expire_ms && expire_ms <= now_ms;
}

/* Something has changed that a write, a checkpoint or garbage collection may have waited for. */
static inline void okv_changed(struct okv_partition *p)
{
	if (!p->nr_plugs)
		p->ops->changed(p);
}

/* Does its record take the key away? */
static inline bool okv_op_removes(const struct okv_op *op)
{
	return op->kind == OKV_OP_DELETE || op->kind == OKV_OP_EXPIRE || (op->kind == OKV_OP_RELOCATE && op->expired);
}

/* ---- what its files ask of each other, from the ground up; segment.h, record.h and map.h have more ---- */

/* log.c */
void okv_log_submit(struct okv_op *op);
void okv_log_withdraw(struct okv_op *op);
void okv_log_send(struct okv_partition *p);
void okv_log_plug(struct okv_partition *p);
void okv_log_unplug(struct okv_partition *p);
void okv_log_refuse(struct okv_partition *p, enum okv_class class);
void okv_log_stop(struct okv_partition *p);
bool okv_log_is_stalled(const struct okv_partition *p, enum okv_class class);
void okv_log_seal(struct okv_partition *p);
bool okv_log_has_room(const struct okv_partition *p, uint32_t record_bytes);
bool okv_log_is_idle(const struct okv_partition *p);
uint64_t okv_log_durable_seq(const struct okv_partition *p);

/* checkpoint.c */
void okv_checkpoint_start(struct okv_partition *p);
int okv_checkpoint_wait(struct okv_partition *p);
bool okv_checkpoint_is_due(const struct okv_partition *p);
int okv_checkpoint_load(struct okv_partition *p, const struct okv_root_disk *root);

/* recover.c */
int okv_recover(struct okv_partition *p);
int okv_root_read(struct okv_partition *p, uint32_t slot, struct okv_root_disk *root);

/* op.c */
void okv_op_finish(struct okv_op *op, enum okv_status status);
void okv_op_applied(struct okv_op *op);
bool okv_op_yields(struct okv_op *op);

/* gc.c */
uint32_t okv_gc_victim(const struct okv_partition *p, uint32_t live_bytes_max);
void okv_gc_start(struct okv_partition *p, uint32_t victim);
void okv_gc_forget_vain(struct okv_partition *p);
void okv_expire(struct okv_partition *p, uint16_t tenant, uint64_t hash);
void okv_expire_some(struct okv_partition *p);

#endif
