/* SPDX-License-Identifier: GPL-2.0 */
/*
 * store.h - the store: records in partitions of a device, durable when acknowledged
 *
 * A device is formatted once into partitions. A hash of tenant and key, keyed with a secret of the
 * device, chooses the partition by its top bits. A partition has an index in memory and a log on
 * the device, and shares nothing with the other ones. Documentation/design/octokv-format.rst says
 * what is on the device and why it survives.
 *
 * Threads. The store has no threads, locks, globals or clock. A partition is used by one thread,
 * which submits operations, runs the completions of its disk and calls okv_partition_tick().
 * Several threads may open the same device, each with a disk (a ring) of its own and for partitions
 * of its own. okv_device_*(), okv_store_open() and okv_store_close() block, through wait() of the
 * disk. Nothing else does.
 *
 * Order. Operations on one key take effect and complete in the order of their submission, those on
 * different keys in any order. Writes of one key that wait for each other may become durable
 * together. The tenant is part of the key: two tenants may use the same one.
 *
 * Durability. OKV_OK for a PUT, UPDATE, TOUCH or DELETE means that it survives power loss, and no
 * GET ever returns what would not. OKV_IO_ERROR for one of them leaves open whether it happened.
 * The partition refuses writes from then on until the device takes them again. Then a write that
 * failed has not happened, and never will. All other failures mean that nothing was changed.
 */
#ifndef OKV_STORE_H
#define OKV_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"

struct okv_store;
struct okv_partition;
struct okv_op;
struct okv_lock;
struct okv_record_disk;
struct okv_group;

enum {
	OKV_KEY_BYTES_MAX	= 1024,
	OKV_VALUE_BYTES_MAX	= 8 << 20,	/* okv_device_info has what a small device takes */
	OKV_NR_TENANTS		= 1024,		/* as many as there are hints in an ioprio */
	OKV_ALL_TENANTS		= OKV_NR_TENANTS,	/* of a walk */
	OKV_SLOT_BITS		= 14,
	OKV_NR_SLOTS		= 1 << OKV_SLOT_BITS,	/* of Redis Cluster */
	OKV_SLOT_PARTITIONS_MIN	= 4,		/* of a store with slots */
	OKV_PARTITIONS_DEFAULT	= 16,
	OKV_PARTITIONS_MAX	= 256,
	OKV_ROOM_BYTES		= 32,		/* around a value: okv_op_take() */
	OKV_NR_JOURNALS		= 16,		/* of a device: for so many threads */
	OKV_NR_WORK_SEGMENTS	= 2,		/* in memory at once, while a partition opens */
};

enum okv_status {
	OKV_OK,
	OKV_NOT_FOUND,
	OKV_EXISTS,		/* IF_ABSENT, and there is one */
	OKV_FULL,		/* no room for it; reads and deletes go on */

	/*
	 * The device did not return what was written; counted. A plain PUT or DELETE mends that, as
	 * a rule.
	 */
	OKV_CORRUPT,

	OKV_NO_MEMORY,		/* for another key; all else goes on */
	OKV_IO_ERROR,
	OKV_TOO_LARGE,		/* key or value; or the tenant's number */
	OKV_ABORTED,		/* for the update callback: leave it as it is */
};

enum okv_op_kind {
	OKV_OP_GET,
	OKV_OP_STAT,		/* length and expiry, without reading the value */
	OKV_OP_PUT,
	OKV_OP_DELETE,
	OKV_OP_UPDATE,		/* read, call update(), write */
	OKV_OP_TOUCH,		/* set the expiry only; an apart value stays where it is */
	OKV_OP_CLEAR,		/* all keys of the tenant in the partition; see can_clear */

	/* Only the store submits these. */
	OKV_OP_EXPIRE,
	OKV_OP_RELOCATE,
	OKV_OP_KEYS,
	OKV_OP_HOLD,
};

/* What an operation waits for, in this order; it may skip one. */
enum okv_stage {
	OKV_STAGE_LOCK,		/* operations on the same key before it */
	OKV_STAGE_READ,		/* the record */
	OKV_STAGE_LOG,		/* room in the log, and its write to be durable */
	OKV_NR_STAGES,
};

/* How long something was in each stage, by okv_open_options.clock_ns. */
struct okv_stages {
	uint64_t ns[OKV_NR_STAGES];
	uint64_t since_ns;
	enum okv_stage now;
};

enum okv_op_flags {
	OKV_IF_ABSENT	= 1 << 0,	/* PUT: else OKV_EXISTS */

	OKV_IF_PRESENT	= 1 << 1,	/* PUT, UPDATE: else OKV_NOT_FOUND */

	OKV_KEEP_TTL	= 1 << 2,	/* PUT: keep the expiry of the old record, if any */
	OKV_WANT_OLD	= 1 << 3,	/* PUT, DELETE, TOUCH: out is the old value */

	/* Only the store sets these. */
	OKV_GOES_ON	= 1 << 4,	/* HOLD: of a transaction that holds others */
	OKV_FOR_TOUCH	= 1 << 5,	/* GET: without the value if a touch may leave it */
};

/**
 * struct okv_op - one operation, in memory of the caller until done()
 * @kind, @flags:	what to do
 * @tenant:		below OKV_NR_TENANTS
 * @ioprio:		for the device requests that it causes
 * @hash:		okv_store_hash() of @tenant and @key
 * @key, @key_len:	1 to OKV_KEY_BYTES_MAX bytes; must stay until done()
 * @value, @value_len:	PUT: must stay until done(). UPDATE: set by update()
 * @expire_ms:		PUT, TOUCH: Unix time at which the record is gone, 0 for never. UPDATE: that
 *			of the old record, which update() may change. EXPIRE: the soonest that it
 *			has seen
 * @update:		UPDATE: called once, when @out has the old value, or is NULL without one. To
 *			have @value, @value_len and @expire_ms written, set them and return OKV_OK.
 *			Any other status ends the operation with it. @value must stay until done();
 *			it may be within @out. DELETE with WANT_OLD, if not NULL: called if there is
 *			a record, which is deleted if it returns OKV_OK. TOUCH, if not NULL: called
 *			if there is a record, with its expiry in @expire_ms, which it may change
 * @done:		called once, perhaps before okv_partition_submit() returns. It may submit
 *			operations and, after okv_op_release(), free this one
 * @owner:		for the caller
 * @compresses:		what it writes, if that saves an eighth: log/compress.h
 * @status:		the result
 * @found:		there was a live record at the lookup, whatever became of it
 * @out, @out_len:	GET, UPDATE, WANT_OLD: the (old) value, until okv_op_release(). @out is NULL
 *			without a value, and not NULL for an empty one. STAT, DELETE, TOUCH:
 *			@out_len is the length of the (old) value. CLEAR: how many
 *			entries of the index it has looked at
 * @out_expire_ms:	expiry of the record that was found
 * @stages:		what the time was spent on
 *
 * The rest belongs to the store.
 */
struct okv_op {
	enum okv_op_kind kind;
	uint16_t flags;
	uint16_t tenant;
	uint16_t ioprio;
	uint16_t key_len;
	uint64_t hash;
	const void *key;
	const void *value;
	uint32_t value_len;
	uint64_t expire_ms;
	enum okv_status (*update)(struct okv_op *op);
	void (*done)(struct okv_op *op);
	void *owner;
	bool compresses;

	enum okv_status status;
	bool found;
	const void *out;
	uint32_t out_len;
	uint64_t out_expire_ms;
	struct okv_stages stages;

	struct okv_partition *partition;
	struct okv_op *next;
	struct okv_op *joined;	/* the one that is answered after it, with the same write */
	struct okv_lock *lock;
	void *buf;
	struct okv_io io;	/* reads the record into @buf */
	struct okv_io value_io;	/* reads an apart value into @buf, behind the record */
	uint32_t nr_reads;
	uint32_t apart;		/* of the record that it reads or has written: format.h */
	uint64_t at;		/* location of the record that it found; RELOCATE: that it moves */
	uint64_t to;		/* location of the record that it wrote */
	uint64_t sum;		/* checksum of the value; RELOCATE keeps it as it is */
	uint32_t found_len;	/* what the value that it has found takes on the device */
	bool found_compressed;	/* ... and so it lies there */
	void *compressed;	/* the value that it writes, if that is compressed */
	uint32_t written_len;	/* of what it writes of the value */
	uint32_t plain_len;	/* 0, or of that without the compression */
	uint64_t old_expire_ms;
	bool leaves_value;	/* TOUCH: writes an OKV_RECORD_EXPIRY about the record at @at;
				 * FOR_TOUCH: a touch may do that */
	uint32_t record_bytes;
	bool present;		/* @at is the key's, perhaps expired; HOLD: does not lend */
	struct okv_op *yielder;	/* RELOCATE: the writer whose lock it has borrowed */
	bool expired;		/* RELOCATE: removes the record instead; KEYS: has seen one */
	bool is_counted;	/* in the tenant's operations; CLEAR: others wait for it */
	uint16_t counted_as;	/* the tenant; EXPIRE learns later which one it is of */
	bool queued;		/* waits for room in the log; HOLD: has the lock */
	bool lent;		/* HOLD: a move has borrowed its lock */
	struct okv_group *group;	/* of a transaction: written all together */
	bool tried;		/* was in a write that failed: it may have happened */
	uint32_t nr_suspects;	/* candidates that could not be made out */
	uint64_t suspect_at;	/* location of the last of them */

	/* KEYS: called for each key. */
	void (*seen)(struct okv_op *op, const struct okv_record_disk *record, uint64_t expire_ms);
};

/* A TOUCH has found a record, with that in @out_expire_ms: which expiry it is to have. */
static inline enum okv_status okv_op_ask_expiry(struct okv_op *op)
{
	if (!op->update)
		return OKV_OK;
	op->expire_ms = op->out_expire_ms;
	return op->update(op);
}

/* Operations that become one batch. */
struct okv_group {
	uint32_t nr_ops;
	uint32_t head_bytes, apart_bytes;
};

/**
 * struct okv_txn_key - a key of a transaction
 * @read:	tenant, ioprio, hash, key and key_len from the caller; then what a GET leaves, until
 *		the end of the transaction, or a STAT
 * @wants_value: it is a GET
 * @may_touch:	decide() may set @keeps_value
 * @writes:	set by decide(): the key is written, or removed if @removes is set, too. If
 *		@keeps_value is set, it gets only another expiry
 * @value, @value_len, @expire_ms: what is written; @value must stay until done(). With @keeps_value
 *		it is that of @read, if there is one. read.compresses is of what is written
 */
struct okv_txn_key {
	struct okv_op read;
	bool wants_value, may_touch;
	bool writes, removes, keeps_value;
	const void *value;
	uint32_t value_len;
	uint64_t expire_ms;

	uint64_t identity;
	struct okv_op hold, write;
};

/**
 * struct okv_txn - several keys of a partition, read and written in one step
 * @keys, @nr_keys:	the keys, each once; at least one
 * @decide:		called when all are read. OKV_OK: write what it has set in @keys. Any
 *			other status ends the transaction with it
 * @done:		called once. @status OKV_OK: all writes are durable. OKV_IO_ERROR leaves
 *			open whether all have happened or none. Any other: nothing has changed.
 *			OKV_TOO_LARGE also if the values that it wants are too much memory
 * @stages:		what the time was spent on
 *
 * The rest belongs to the store.
 */
struct okv_txn {
	struct okv_txn_key *keys;
	uint32_t nr_keys;
	enum okv_status (*decide)(struct okv_txn *txn);
	void (*done)(struct okv_txn *txn);
	void *owner;
	enum okv_status status;
	struct okv_stages stages;

	struct okv_partition *partition;
	struct okv_txn_key **sorted;	/* by identity */
	struct okv_group group;
	uint64_t value_bytes;	/* that have been read */
	uint32_t nr_held, nr_pending;
};

/**
 * struct okv_scan - one step through the keys of a tenant in a partition
 * @cursor:	0 to begin; okv_partition_scan() leaves the next one there, 0 at the end, whatever
 *		was shown and could be read
 * @tenant:	the tenant of the keys, or OKV_ALL_TENANTS
 * @slot:	1 and the slot of the keys, in a store with slots; 0: keys of all slots
 * @nr_max:	about how many to look at: more if hashes collide
 * @ioprio:	for the reads
 * @key:	called for keys that have not expired. A key that is present throughout the walk is
 *		shown at least once. @key_tenant is whose it is
 * @done:	called once; @status is OKV_OK, or OKV_IO_ERROR or OKV_CORRUPT if some keys could
 *		not be read
 */
struct okv_scan {
	uint64_t cursor;
	uint16_t tenant;
	uint16_t slot;
	uint16_t ioprio;
	uint16_t key_tenant;
	uint32_t nr_max;
	void (*key)(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		    uint64_t expire_ms);
	void (*done)(struct okv_scan *scan);
	void *owner;
	enum okv_status status;

	struct okv_partition *partition;
	uint32_t nr_pending;
};

/**
 * struct okv_exported - a record, as okv_store_export() shows it
 * @key, @key_len, @value, @value_len, @expire_ms: only valid during the call. @value is NULL if it
 *		is damaged, and @key too if the record is
 * @offset_bytes: where on the device it lies
 */
struct okv_exported {
	uint32_t partition;
	uint16_t tenant;
	uint16_t key_len;
	uint32_t value_len;
	const void *key, *value;
	uint64_t expire_ms;
	uint64_t offset_bytes;
};

/**
 * struct okv_export - a walk over all records
 * @record:	called for each, also for those that have expired and those that are damaged
 * @stops:	set by @record: enough
 * @nr_records, @nr_damaged: how many were shown so far
 * @nr_unread:	by a salvage: reads of blocks and journals that failed. A key may have been there,
 *		or a later value of one
 */
struct okv_export {
	void (*record)(struct okv_export *e, const struct okv_exported *x);
	void *owner;
	bool stops;
	uint64_t nr_records, nr_damaged, nr_unread;
};

/**
 * struct okv_device_info - what the superblock says
 * @value_bytes_max:	the longest value; less than OKV_VALUE_BYTES_MAX only with small segments
 * @nr_copies_bad:	copies of the superblock that could not be used, of @nr_copies
 */
struct okv_device_info {
	uint8_t uuid[16];
	uint32_t version;
	bool has_slots;
	bool has_journals;
	bool can_clear;		/* OKV_OP_CLEAR */
	uint32_t block_bytes;
	uint32_t nr_partitions;
	uint32_t segment_bytes;
	uint32_t nr_segments;	/* of each partition */
	uint32_t value_bytes_max;
	uint64_t size_bytes;
	uint32_t nr_copies;
	uint32_t nr_copies_bad;
};

/**
 * struct okv_format_options - 0 for a default
 * @nr_partitions:	a power of two; default OKV_PARTITIONS_DEFAULT, or as many as a small device
 *			has room for
 * @segment_bytes:	default 16 MiB and a bit; smaller ones make small devices and short values
 * @seed:		of the device's secrets, for the simulator; 0 draws them from the kernel
 * @has_slots:		keys of one slot of Redis Cluster are in one partition, and the index knows
 *			their slot. OKV_SLOT_PARTITIONS_MIN partitions at least
 * @journal_bytes:	of each journal, 32 KiB to 4 MiB; default: a part of the device, none on a
 *			small one
 * @former:		for tests, as a former octokvd made it: 1: without journals and records of
 *			expiries; 2: with both roots of a partition side by side, too; 3: as 1, but
 *			with journals
 */
struct okv_format_options {
	uint32_t nr_partitions;
	uint32_t segment_bytes;
	uint64_t seed;
	bool has_slots;
	uint64_t journal_bytes;
	uint32_t former;
};

enum okv_event_kind {
	OKV_EVENT_READ_ERROR,
	OKV_EVENT_WRITE_ERROR,	/* of a flush, too */
	OKV_EVENT_WAITS,	/* writes go on failing: they wait, and are tried again and again */
	OKV_EVENT_REFUSES,	/* the partition refuses writes from now on */
	OKV_EVENT_TAKES,	/* ... and takes them again */
	OKV_EVENT_DAMAGE,	/* what the device returned is not what was written */
	OKV_EVENT_BAD_SEGMENT,	/* one that cannot be collected now */
	OKV_EVENT_LEFT_OUT,	/* a partition is not opened: okv_open_options.leaves_damaged */
	OKV_EVENT_PINNED,	/* no room to write until it is unpinned: okv_partition_pin() */
};

/**
 * struct okv_event - what an operator should know of; see okv_open_options.event
 * @offset_bytes:	on the device, where there is such a place
 * @error:		of the device, as an errno
 * @ms:			TAKES: how long it has refused; BAD_SEGMENT: until the next try
 */
struct okv_event {
	enum okv_event_kind kind;
	uint32_t partition;
	uint64_t offset_bytes;
	int error;
	uint64_t ms;
};

/**
 * struct okv_open_options - 0 for a default
 * @first_partition, @nr_partitions: those to open; 0 partitions: all
 * @nr_writes_max:	writes in flight per partition; fewer make larger groups. Default: 4 among
 *			all partitions of the device, at least 1 each; with a journal 16 each
 * @journal:		1 to OKV_NR_JOURNALS: the journal that this store writes, and no other one
 *			at the same time; 0: none. Nothing is submitted before all stores of the
 *			device have been opened
 * @batch_bytes_max:	largest write (default 256 KiB), except for a larger record
 * @nr_known:		records per partition whose keys are kept in memory, 64 bytes each; a power
 *			of two (default 16384)
 * @nr_named:		segments that a root names for the log to go on in, beside those of the
 *			tail. Default: as many as it takes between some checkpoints
 * @trims:		tell the device of segments that hold nothing any more
 * @attempt_seed:	another one at each open, of which the numbers of its checkpoints are made.
 *			Default: drawn. Tests give it, to do the same again
 * @now_ms:		Unix time
 * @clock_ns:		a clock that the caller sets, for struct okv_stages; it only grows, also
 *			from store to store. Default: it stands still
 * @reads_only:		write nothing. The store can be exported, and then only be dropped
 * @leaves_damaged:	a partition that is damaged or cannot be read does not fail the open:
 *			okv_store_partition() is NULL then, and OKV_EVENT_LEFT_OUT says so
 * @progress:		called now and then during recovery
 * @event:		called from within the store, to be noted; may be called very often
 */
struct okv_open_options {
	uint32_t first_partition;
	uint32_t nr_partitions;
	uint32_t nr_writes_max;
	uint32_t journal;
	uint32_t batch_bytes_max;
	uint32_t nr_known;
	uint32_t nr_named;
	bool trims;
	uint64_t attempt_seed;
	uint64_t now_ms;
	const uint64_t *clock_ns;
	bool reads_only;
	bool leaves_damaged;
	void (*progress)(void *owner, uint32_t partition, uint64_t done_bytes,
			 uint64_t total_bytes);
	void (*event)(void *owner, const struct okv_event *event);
	void *owner;
};

/* Counters since the open, and gauges; sums over the partitions that are open. */
struct okv_stats {
	uint64_t nr_keys;
	uint64_t live_bytes;		/* on the device, with headers */
	uint64_t capacity_bytes;	/* that live_bytes can reach, about */
	uint64_t index_bytes;		/* memory */
	uint64_t known_bytes;		/* memory for keys, at most */
	uint64_t nr_segments, nr_free_segments;
	uint64_t nr_gets, nr_puts, nr_deletes;
	uint64_t nr_expiries;		/* records that change an expiry, and leave the value */
	uint64_t nr_joined;		/* operations answered with the write of another one */
	uint64_t nr_compressed;		/* values that were written so */
	uint64_t saved_bytes;		/* what these take less than they would otherwise */
	uint64_t nr_batches, batch_bytes;
	uint64_t nr_journaled;		/* of these, whose heads went to a journal */
	uint64_t nr_flushes;
	uint64_t nr_corrupt;		/* reads whose checksum was wrong */
	uint64_t nr_read_errors, nr_write_errors;
	uint64_t nr_retries;		/* times that what failed was to be written again */
	uint64_t nr_full;
	uint64_t nr_no_memory;
	uint64_t nr_known_headers;	/* headers that did not have to be read */
	uint64_t nr_expired;
	uint64_t nr_checkpoints;
	uint64_t nr_gc_segments, gc_bytes;
	uint64_t nr_trimmed_segments;
	uint64_t nr_replayed_records, recovered_bytes;
	uint32_t nr_refusing;		/* partitions that take no writes after errors */
	uint32_t nr_failing;		/* those that try a failed write again, sooner or later */
	uint32_t nr_packs;		/* packs that are not yet where they belong */
};

/**
 * okv_device_format() - make an empty store of a device; blocks
 *
 * Return: 0; -EINVAL for options that do not fit, -ENOSPC for a device that is too small, -EDOM for
 * too few partitions, or what a write returned.
 */
int okv_device_format(struct okv_disk *disk, const struct okv_format_options *options);

/**
 * okv_device_info() - read the superblock; blocks
 *
 * Return: 0, or what a read returned, or
 *
 *	-ENODATA		there is no store on the device
 *	-EPROTONOSUPPORT	there is one of another version
 *	-EINPROGRESS		it is sealed (okv_device_seal())
 *	-ESTALE			okv_device_upgrade() has not ended
 *	-EUCLEAN		there is one, but too few copies of the superblock agree
 *	-ENOSPC			the device has become smaller
 *	-EINVAL			the device has larger blocks than the store
 */
int okv_device_info(struct okv_disk *disk, struct okv_device_info *info);

/* How much memory the index will take, by the roots; blocks. Returns as okv_device_info(). */
int okv_device_index_bytes(struct okv_disk *disk, uint64_t *bytes);

/**
 * okv_store_open() - open partitions and recover them; blocks
 *
 * Return: as okv_device_info(). -EUCLEAN also if a partition lost something it had acknowledged,
 * -ENOSPC also if the file system has no room for a checkpoint.
 */
int okv_store_open(struct okv_store **store, struct okv_disk *disk,
		   const struct okv_open_options *options);

/* Wait for what is in flight, write checkpoints for a fast next open, free the store. Blocks. */
void okv_store_close(struct okv_store *store);

/* Forget everything at once, after a disk failed. The caller makes sure that nothing completes. */
void okv_store_drop(struct okv_store *store);

/**
 * okv_store_export() - show all records of the open partitions, in any order; blocks
 *
 * Nothing has been submitted since the open. Afterwards the store can only be dropped.
 *
 * Return: 0, also with damaged records; or why waiting for the disk failed.
 */
int okv_store_export(struct okv_store *store, struct okv_export *e);

/**
 * okv_device_salvage() - show the records that all segments of a device have; blocks
 *
 * Needs the superblock only, of a device with no store open. May show what was deleted, or was
 * never acknowledged: see salvage.c.
 *
 * Return: as okv_device_info(), or why waiting for the disk failed.
 */
int okv_device_salvage(struct okv_disk *disk, struct okv_export *e);

/*
 * From now on @disk is that of the store and its partitions: for a copy of the process, which
 * exports the store of a moment. Nothing of the former disk completes there.
 */
void okv_store_set_disk(struct okv_store *store, struct okv_disk *disk);

/*
 * Until it is unpinned, no segment of the partition is used again, so that what the index of this
 * moment points to stays on the device. When that leaves no room to write, OKV_EVENT_PINNED says
 * so, and writes wait.
 */
void okv_partition_pin(struct okv_partition *p, bool pinned);

/**
 * okv_device_seal() - make the store of a device one that does not open, or again one that does
 *
 * For what takes long and has to happen as a whole: after a loss of power in between, it is
 * -EINPROGRESS to open. A store that is open already is not concerned. Two good copies of the
 * superblock are enough; those that are damaged stay as they are. Blocks.
 *
 * Return: as okv_device_info(), or what a write returned.
 */
int okv_device_seal(struct okv_disk *disk, bool sealed);

/**
 * okv_device_mend() - write the copies of the superblock again that do not agree with the others;
 * blocks
 *
 * They were damaged, or a load or an upgrade was interrupted when enough were written. Nothing is
 * written if one is a good one of another store: a format over that was interrupted.
 *
 * Return: as okv_device_info(), -EUCLEAN for a good one of another store, or what a write returned.
 * The others serve then.
 */
int okv_device_mend(struct okv_disk *disk);

/**
 * okv_device_upgrade() - make a store of an earlier version one of this version; blocks
 *
 * One without journals gets them, in the room behind the last segment, also where the device has
 * grown. No store of the device is open. An earlier octokvd cannot open it from then on. After a
 * loss of power in between, the store is as it was, or okv_device_info() is -ESTALE until this has
 * been called again. One that is of this version is mended, as okv_device_mend() does.
 *
 * Return: as okv_device_info(), what a write returned, or
 *
 *	-EALREADY		it is of this version
 *	-EOPNOTSUPP		both roots of a partition lie side by side
 *	-ENOSPC			there is too little room behind the last segment
 */
int okv_device_upgrade(struct okv_disk *disk);

/**
 * okv_partition_quiesce() - bring a partition to rest, to move it to another store of the device
 *
 * Call it again and again, with nothing submitted in between, until it returns true. Then nothing
 * of the partition is in flight. okv_store_detach() takes it out of its store, and the thread of
 * another store puts it there with okv_store_attach(), which ends the rest.
 */
bool okv_partition_quiesce(struct okv_partition *p);

/*
 * It will not come to rest while the device fails, since its heads lie in the journal of its store.
 * okv_store_attach() to the same store lets it go on there.
 */
bool okv_partition_is_stuck(const struct okv_partition *p);

/* Is it at a checkpoint, collecting or trimming, which has to end before it can be at rest? */
bool okv_partition_is_working(const struct okv_partition *p);
struct okv_partition *okv_store_detach(struct okv_store *store, uint32_t partition);
void okv_store_attach(struct okv_store *store, struct okv_partition *p);

/* The slot of a key, below OKV_NR_SLOTS, by the rule of Redis Cluster. */
uint32_t okv_slot(const void *key, size_t key_len);

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key,
			size_t key_len);

/* The same, by one who knows the slot of the key. */
uint64_t okv_store_hash_in(const struct okv_store *store, uint16_t tenant, const void *key,
			   size_t key_len, uint32_t slot);
uint32_t okv_store_partition_of(const struct okv_store *store, uint64_t hash);

/* NULL if that partition is not one of those opened, or is left out. */
struct okv_partition *okv_store_partition(struct okv_store *store, uint32_t partition);

const struct okv_device_info *okv_store_info(const struct okv_store *store);
void okv_store_stats(const struct okv_store *store, struct okv_stats *stats);

/* Adds those of a partition to @sum. */
void okv_partition_stats(const struct okv_partition *p, struct okv_stats *sum);

/* What a tenant has in the open partitions: bytes of values, keys and headers; number of keys. */
void okv_store_tenant_usage(const struct okv_store *store, uint16_t tenant, uint64_t *bytes,
			    uint64_t *nr_keys);

void okv_partition_submit(struct okv_partition *p, struct okv_op *op);

/* Free the memory of op->out, if it has any. */
void okv_op_release(struct okv_op *op);

/*
 * Give the caller the memory that op->out lies in, for mem_free(). OKV_ROOM_BYTES in front of the
 * value and behind it are free. NULL: there is no such room.
 */
void *okv_op_take(struct okv_op *op);

void okv_partition_transact(struct okv_partition *p, struct okv_txn *txn);

void okv_partition_scan(struct okv_partition *p, struct okv_scan *scan);

/*
 * A step of counting the keys of a slot, in its partition of a store with slots: of a tenant, or of
 * OKV_ALL_TENANTS, with those that have expired and are still there. *@cursor is 0 to begin, and is
 * 0 again after the last step. Looks at the index only.
 */
uint64_t okv_partition_count(const struct okv_partition *p, uint32_t slot, uint16_t tenant,
			     uint64_t *cursor);

/* Records that expire by @now_ms are gone from now on. okv_partition_tick() sets the clock too. */
void okv_partition_set_clock(struct okv_partition *p, uint64_t now_ms);

/**
 * okv_partition_tick() - set the clock, and do a step of the work in the background
 *
 * Call it some ten times a second. Checkpoints and garbage collection that a write waits for do not
 * wait for the tick.
 */
void okv_partition_tick(struct okv_partition *p, uint64_t now_ms);

#endif
