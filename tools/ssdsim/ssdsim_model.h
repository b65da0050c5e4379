/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ssdsim_model.h - the timing model of a simulated SSD: types and interface
 *
 * The model knows when things happen and nothing else: no data, no locks, no clock. Its owner
 * (ssdsim_request.c, or a test) serialises all calls for one device, passes the time in, and is
 * told when to call again.
 *
 *	ssdsim_model_submit(m, cmd, queue, now);
 *	...
 *	ssdsim_model_run(m, now);		everything up to now has happened
 *	take what is on m->done
 *	wake up at ssdsim_model_next_ns(m)
 *
 * A unit is 4 KiB: the grain of mapping, caching and transfer. A page is what a die programs at
 * once: page_units units that follow each other on the device. Times are nanoseconds, u64, never
 * negative and never going back.
 */
#ifndef SSDSIM_MODEL_H
#define SSDSIM_MODEL_H

#include <linux/types.h>
#include <linux/list.h>

#define SSDSIM_UNIT_SHIFT	12
#define SSDSIM_UNIT_BYTES	(1u << SSDSIM_UNIT_SHIFT)
#define SSDSIM_MAX_QUEUES	64
#define SSDSIM_MAX_DIES		64
#define SSDSIM_MAX_CHANNELS	32
#define SSDSIM_MAX_WAYS		8
#define SSDSIM_MAX_PAGE_UNITS	16
#define SSDSIM_NEVER		(~0ULL)

/**
 * struct ssdsim_cfg - geometry and times of one device
 * @units: capacity
 * @channels: buses between the controller and the dies
 * @ways: dies per channel
 * @page_units: units in a page
 * @block_pages: pages in an erase block
 * @op_pct: blocks beyond the capacity, in percent of it, and at least what collection needs
 * @slots: commands that the controller holds at once, fetched and not completed
 * @cache_units: size of the volatile write cache
 * @queue_service_ns: to process one command in its hardware queue, before it can be fetched
 * @fetch_ns: to fetch one command from a hardware queue
 * @cmd_ns: to process one command, after fetching it
 * @dma_unit_ns: to move one unit between host and controller
 * @xfer_unit_ns: to move one unit over a channel
 * @read_ns: tR, from the array into a die's register
 * @prog_ns: tPROG, one page from the register into the array
 * @erase_ns: tERASE, one block
 * @destage_ns: how long a partly filled page waits in the cache for more data
 * @discard_ns: to unmap, for each discard or write-zeroes
 * @discard_mib_ns: and for each MiB discarded
 * @zero_mib_ns: or zeroed
 */
struct ssdsim_cfg {
	u64 units;
	u32 channels;
	u32 ways;
	u32 page_units;
	u32 block_pages;
	u32 op_pct;
	u32 slots;
	u32 cache_units;
	u32 queue_service_ns;
	u32 fetch_ns;
	u32 cmd_ns;
	u32 dma_unit_ns;
	u32 xfer_unit_ns;
	u32 read_ns;
	u32 prog_ns;
	u32 erase_ns;
	u32 destage_ns;
	u32 discard_ns;
	u32 discard_mib_ns;
	u32 zero_mib_ns;
};

enum ssdsim_cmd_op {
	SSDSIM_READ,
	SSDSIM_WRITE,
	SSDSIM_FLUSH,
	SSDSIM_DISCARD,		/* the mapping goes, no data moves */
	SSDSIM_ZERO,		/* the same, at another price */
};

enum ssdsim_die_op {
	SSDSIM_DIE_READ,
	SSDSIM_DIE_FUA,
	SSDSIM_DIE_DESTAGE,
	SSDSIM_DIE_GC,
};

struct ssdsim_cmd;

/* What one command (or the die itself, cmd NULL) wants from one die. */
struct ssdsim_op {
	struct list_head link;		/* the die's queue */
	struct ssdsim_cmd *cmd;
	u32 page;			/* next page of the device to serve */
	u32 pages_left;
	enum ssdsim_die_op kind;
};

/**
 * struct ssdsim_cmd - one command, in memory of its owner
 * @all: every command between submission and completion
 * @link: hardware queue, pipeline, cache wait, flush, unmap, held or done list
 * @unit: first unit that is touched
 * @nr_units: how many
 * @bytes: data to move between host and controller
 * @op: what to do
 * @fua: a write that completes when it is programmed
 * @aborted: a power cut or removal ended it
 * @hwq: hardware queue it came from
 * @pending: operations on dies that are not done
 * @admitted: units of a cached write that have their place in the cache
 * @waiting: of a flush: cached units that must be programmed first
 * @group: of a flush: which cached units those are
 * @ready_ns: when it leaves the controller's pipeline, or the unmapping
 * @done_ns: when it completed
 * @ops: one for each die, at least min(dies, pages touched) of them
 */
struct ssdsim_cmd {
	struct list_head all;
	struct list_head link;
	u64 unit;
	u32 nr_units;
	u32 bytes;
	enum ssdsim_cmd_op op;
	bool fua;
	bool aborted;
	u16 hwq;
	u32 pending;
	u32 admitted;
	u32 waiting;
	u64 group;
	u64 ready_ns;
	u64 done_ns;
	struct ssdsim_op ops[];
};

/* A unit in the write cache. Clean data is not kept. */
struct ssdsim_centry {
	struct list_head link;		/* free list, or dirty list of its die */
	u32 unit;
	u32 hnext;
	bool dirty;			/* waits for a program */
	bool prog;			/* a program of it is under way */
	u64 dirty_group;
	u64 prog_group;
	u64 dirty_ns;
};

#define SSDSIM_NONE	(~0u)
#define SSDSIM_HEAP_OUT		0xff	/* heap_pos of a die without an event */
#define SSDSIM_GC_LOW		2	/* free blocks at which collection starts */

/* Page map of one die, in units; "slot" is a physical unit. */
struct ssdsim_ftl {
	u32 *l2p;
	u32 *p2l;
	u32 *valid;			/* per block */
	u32 *free;			/* stack of free blocks */
	u32 nr_units;
	u32 nr_blocks;
	u32 nr_free;
	u32 block_pages;
	u32 block_units;
	u32 page_units;
	u32 open;
	u32 open_page;
	u32 victim;
	u32 victim_page;
	u64 gc_victims;
	u64 gc_copied;
	u64 erases;
	u64 programs;
	u64 host_units;
};

struct ssdsim_die {
	struct list_head queue;		/* operations in order of arrival */
	struct list_head dirty;		/* cached units of this die, oldest first */
	struct ssdsim_op *cur;
	struct ssdsim_op destage;
	struct ssdsim_op gc;
	bool destage_queued;
	bool gc_queued;
	u8 nr_batch;			/* units of the program under way */
	u8 id;
	u8 heap_pos;
	u32 nr_dirty;
	u64 event_ns;			/* end of cur, or when to look at the dirty list */
	u64 xfer_start_ns;		/* latest booking of the channel */
	u64 xfer_end_ns;
	u32 batch[SSDSIM_MAX_PAGE_UNITS];
	struct ssdsim_ftl ftl;
	u64 busy_ns;
	u64 reads;
	u64 fua_programs;
	u64 destages;
	u64 gc_steps;
};

struct ssdsim_queue {
	struct list_head in_service;	/* at the queue's own core, in order */
	struct list_head cmds;		/* can be fetched */
	u64 service_end_ns;		/* of the first in service */
	u64 fetched;
	u64 bytes;
};

struct ssdsim_model {
	struct ssdsim_cfg cfg;
	u32 nr_dies;
	u64 now_ns;
	/* controller */
	u64 qmask;			/* hardware queues that have something to fetch */
	u64 service_mask;		/* those whose core has something to do */
	u64 stalled;			/* those that are not fetched, and complete nothing */
	u32 last_q;
	u32 slots_used;
	u64 fetch_free_ns;
	u64 pipe_free_ns;
	u32 nr_prompt;			/* commands before the dies that may complete without one */
	struct list_head pipe;
	struct list_head unmap;		/* discards that wait for their time, in order */
	struct list_head held;		/* done, but of a stalled queue */
	struct list_head all;
	struct list_head done;
	/* write cache */
	u32 nr_cached;
	u32 hash_shift;
	u32 *hash;
	struct ssdsim_centry *entries;
	struct list_head cache_free;
	struct list_head cache_wait;
	/* flushes */
	struct list_head flushes;
	u64 open_group;
	u32 open_count;
	/* event queue: dies by event_ns */
	u32 heap_len;
	u8 heap[SSDSIM_MAX_DIES];
	u64 submitted;
	u64 completed;
	u64 aborted;
	u64 cache_hits;
	u64 cache_waits;
	struct ssdsim_queue queues[SSDSIM_MAX_QUEUES];
	struct ssdsim_die dies[];
};

/**
 * ssdsim_model_create - make a device
 * @cfg: copied; checked by ssdsim_cfg_check()
 *
 * Return: the model, or NULL without memory. May sleep.
 */
struct ssdsim_model *ssdsim_model_create(const struct ssdsim_cfg *cfg);
void ssdsim_model_destroy(struct ssdsim_model *m);

/* Return: NULL, or the name of the first parameter that makes no sense. */
const char *ssdsim_cfg_check(const struct ssdsim_cfg *cfg);

/**
 * ssdsim_model_submit - a command appears at the end of a hardware queue
 * @m: device
 * @cmd: unit, nr_units, bytes, op and fua filled in; belongs to the model until it is on m->done
 * @hwq: hardware queue, below SSDSIM_MAX_QUEUES
 * @now: current time
 */
void ssdsim_model_submit(struct ssdsim_model *m, struct ssdsim_cmd *cmd, u32 hwq, u64 now);

/*
 * Let everything happen that is due at or before @now. Completed commands are appended to m->done.
 */
void ssdsim_model_run(struct ssdsim_model *m, u64 now);

/*
 * Return: a time at or before the next completion, and after now unless m->done is not empty;
 * SSDSIM_NEVER if nothing is under way. What no one can see does not need a call at its own time:
 * ssdsim_model_run() catches up in order.
 */
u64 ssdsim_model_next_ns(const struct ssdsim_model *m);

/**
 * ssdsim_model_stall() - hold hardware queues, or let them go
 * @m: device
 * @mask: from now on these queues are not fetched and complete nothing, all others are
 * @now: current time
 *
 * The dies go on with what has been fetched. What is done by then completes when its queue is let
 * go; ssdsim_model_power_cut() ends it, too.
 */
void ssdsim_model_stall(struct ssdsim_model *m, u64 mask, u64 now);

/*
 * End every command at once (aborted set, on m->done) and forget the write cache. The page map
 * stays.
 */
void ssdsim_model_power_cut(struct ssdsim_model *m, u64 now);

/**
 * struct ssdsim_fill - how far the ageing of a die has come
 * @random: what the next unit is drawn from; the owner sets it to the seed
 * @nr_written: units so far; the owner sets it to 0
 */
struct ssdsim_fill {
	u64 random;
	u64 nr_written;
};

/**
 * ssdsim_model_fill() - age a die without spending time, a piece at a time
 * @m: device
 * @die: of it
 * @pct: so many percent of its units are written once in order; above 100, the rest is random
 *   overwriting with collection as it comes
 * @fill: where the last piece has ended
 *
 * Between pieces the page map is as whole as between two programs, so commands may come and go.
 *
 * Return: true if there is more to do.
 */
bool ssdsim_model_fill(struct ssdsim_model *m, u32 die, u32 pct, struct ssdsim_fill *fill);

/* ops[] entries that a command of up to @units units can need. */
static inline u32 ssdsim_ops_needed(const struct ssdsim_cfg *cfg, u32 units)
{
	u32 pages = units / cfg->page_units + 2;
	u32 dies = cfg->channels * cfg->ways;

	return pages < dies ? pages : dies;
}

/* A small seeded generator (splitmix64), and the same as a hash. */
static inline u64 ssdsim_mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* ssdsim_ftl.c */
int ssdsim_ftl_init(struct ssdsim_ftl *ftl, const struct ssdsim_cfg *cfg, u32 nr_units);
void ssdsim_ftl_exit(struct ssdsim_ftl *ftl);
bool ssdsim_ftl_can_program(const struct ssdsim_ftl *ftl);
bool ssdsim_ftl_gc_wanted(const struct ssdsim_ftl *ftl);
void ssdsim_ftl_program(struct ssdsim_ftl *ftl, const u32 *units, u32 n);
void ssdsim_ftl_unmap(struct ssdsim_ftl *ftl, u32 unit);
u64 ssdsim_ftl_gc_step(struct ssdsim_ftl *ftl, const struct ssdsim_cfg *cfg);

/*
 * Units without a copy anywhere else, and valid units, must agree with a recount; for tests.
 * Return: 0 or a line number.
 */
int ssdsim_ftl_audit(const struct ssdsim_ftl *ftl);

#endif /* SSDSIM_MODEL_H */
