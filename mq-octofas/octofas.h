/* SPDX-License-Identifier: GPL-2.0 */
/*
 * octofas.h - what the files of mq-octofas share: one device's scheduler
 */
#ifndef MQFAIR_OCTOFAS_H
#define MQFAIR_OCTOFAS_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "blk/flow_id.h"
#include "blk/keep.h"
#include "compat.h"
#include "flow_local.h"
#include "octofas_policy.h"

enum {
	/* Kinds of requests with a base latency each: reads, writes; sizes doubling from 4 KiB. */
	OCTOFAS_SIZES		= 10,
	OCTOFAS_CLASSES		= 2 * OCTOFAS_SIZES,
};

/* Why a request that should have moved did not. */
enum octofas_fixed {
	OCTOFAS_FIXED_FLUSH,	/* of a flush sequence, or with another's end_io */
	OCTOFAS_FIXED_KIND,	/* neither read nor write, or polled */
	OCTOFAS_FIXED_STARTED,	/* the driver has seen it */
	OCTOFAS_FIXED_DATA,	/* encrypted, or with integrity data */
	OCTOFAS_FIXED_DEVICE,	/* zoned, one of several paths, or a controller counts its bios */
	OCTOFAS_FIXED_LIMITED,	/* io.max has counted it */
	OCTOFAS_FIXED_QUEUE,	/* its queue or the target is no default queue with a CPU online */
	OCTOFAS_FIXED_URGENT,	/* others wait for it: see blk/urgent.h */
	OCTOFAS_FIXED_MEMORY,	/* there was none for a parcel */
	OCTOFAS_NR_FIXED,
};

/* As they are written to sysfs; Documentation/reference/mq-octofas.rst says what they do. */
struct octofas_tunables {
	struct octofas_config config;
	u32 window_ms;
};

/* What a flow had in a queue. Counted in any context; the sums only grow. */
struct octofas_tally {
	atomic_t outstanding;		/* of those that came to it, wherever they are served */
	atomic64_t nr;
	atomic64_t latency_ns;
	atomic64_t alone_ns;
	atomic64_t home_ns;
};

/**
 * struct octofas_queue - one hardware queue
 * @lock:	guards @fifo and the counters behind it
 * @fifo:	what waits, first to go first
 * @nr:		requests in it
 * @nr_patient:	those of them that may be sent back
 * @inserted:	requests inserted
 * @merged:	bios merged into them
 * @dispatched:	requests sent
 * @flows:	what it counts of its flows by itself
 * @base_sum_ns: base latencies of what it served
 * @least_ns:	the least latency of this window, by class
 * @state:	the policy's
 * @tally:	by flow
 */
struct octofas_queue {
	spinlock_t lock;
	struct list_head fifo;
	unsigned int nr;
	unsigned int nr_patient;
	unsigned long inserted;
	unsigned long merged;
	unsigned long dispatched;
	struct flow_locals flows;

	atomic64_t base_sum_ns ____cacheline_aligned_in_smp;
	u64 least_ns[OCTOFAS_CLASSES];
	struct octofas_queue_state *state;
	struct octofas_tally tally[OCTOFAS_FLOWS];
};

/* Counted without a lock, in any context; exact when the queue is frozen. */
struct octofas_cpu_counters {
	unsigned long completed;
	unsigned long requeued;
	unsigned long fixed[OCTOFAS_NR_FIXED];
};

/* A place for a flow: whose numbers are in it, as flow.number; 0: no flow's. */
struct octofas_place {
	u32 owner;
	u64 key;
	u64 seen;
	bool idle;
};

/* Bios of one request on their way to another hardware queue, and what must not be lost. */
struct octofas_parcel {
	struct list_head link;
	struct bio_list bios;
	u64 key;
	u64 came_ns;
	u32 home;
};

/**
 * struct octofas_courier - brings parcels to one hardware queue
 * @work:	does it, on a CPU of that queue
 * @lock:	guards @parcels
 * @parcels:	in order
 * @parcel:	that is being submitted; @work's own
 * @coming:	parcels that have yet to be submitted
 * @set:	the couriers of the device
 */
struct octofas_courier {
	struct work_struct work;
	spinlock_t lock;
	struct list_head parcels;
	struct octofas_parcel *parcel;
	atomic_t coming;
	struct octofas_couriers *set;
};

/* All couriers of a device. The scheduler has a reference, and each that is under way. */
struct octofas_couriers {
	refcount_t refs;
	struct octofas_courier courier[];
};

/**
 * struct octofas_data - the scheduler of one device
 * @q:			its queue
 * @keep:		what outlives it
 * @hctx:		its hardware queues, by number
 * @queue:		ours, by the same number
 * @nr_queues:		how many
 * @flow_kind:		enum flow_kind
 * @move_all:		debugfs: every request moves, to the next queue
 * @base_ns:		the least latency of late, by class
 * @couriers:		see there
 * @cpu_counters:	see there
 * @tunables:		under the elevator's lock for sysfs
 * @ticking:		@tick is queued, or runs
 * @tick:		ends windows
 * @flows:		the flows
 * @place:		by flow.number modulo OCTOFAS_FLOWS
 * @lock:		guards the policy's windows, and what follows
 * @window_at_ns:	when the window began
 * @sample, @before:	sums now, and at the beginning of the window
 * @policy:		see there
 */
struct octofas_data {
	struct request_queue *q;
	struct keep *keep;
	struct blk_mq_hw_ctx **hctx;
	struct octofas_queue *queue;
	u32 nr_queues;
	u32 flow_kind;
	bool move_all;
	u64 base_ns[OCTOFAS_CLASSES];
	struct octofas_couriers *couriers;
	struct octofas_cpu_counters __percpu *cpu_counters;
	struct octofas_tunables tunables;
	atomic_t ticking;
	struct delayed_work tick;
	struct flow_table flows;
	struct octofas_place place[OCTOFAS_FLOWS];

	spinlock_t lock;
	u64 window_at_ns;
	u64 reclaimed_at_ns;
	struct octofas_sums *before;
	struct octofas_sums *now;
	struct octofas_policy policy;
};

struct octofas_counters {
	unsigned long inserted, merged, dispatched, completed, requeued, queued;
};

/* octofas.c */
void octofas_count(struct octofas_data *od, struct octofas_counters *c);
/* Puts the tunables in force and wakes the requests that may go now. */
void octofas_apply(struct octofas_data *od);

/* octofas_monitor.c */
int octofas_monitor_init(struct octofas_data *od);
void octofas_monitor_exit(struct octofas_data *od);
/* A request has come: windows begin if there are none. */
void octofas_monitor_start(struct octofas_data *od);
/* A request has ended. Any context. */
void octofas_monitor_count(struct octofas_data *od, u32 served, u32 home, u32 flow, u32 class,
			   u64 latency_ns, u8 others);
void octofas_wake_all(struct octofas_data *od);

/* octofas_move.c */
int octofas_move_init(void);
void octofas_move_exit(void);
struct octofas_couriers *octofas_couriers_alloc(u32 nr);
void octofas_couriers_put(struct octofas_couriers *set);
/* The parcel that the caller is submitting, or NULL. */
struct octofas_parcel *octofas_parcel(void);
/* Return: -1 if the request could move, else why not. */
int octofas_obstacle(struct octofas_data *od, struct request *rq, u32 target);
/* Moves the request, if there is memory: it is no more then. */
bool octofas_move(struct octofas_data *od, struct request *rq, u32 target, u64 key, u64 came_ns);
bool octofas_is_usable(const struct blk_mq_hw_ctx *hctx);

/* octofas_sysfs.c */
extern const char *const octofas_mode_name[OCTOFAS_NR_MODES];
extern const struct octofas_tunables octofas_default_tunables;
extern MQFAIR_ATTRS_CONST struct elv_fs_entry octofas_attrs[];

/* octofas_debugfs.c */
#ifdef CONFIG_BLK_DEBUG_FS
extern const struct blk_mq_debugfs_attr octofas_queue_debugfs_attrs[];
#endif

#endif /* MQFAIR_OCTOFAS_H */
