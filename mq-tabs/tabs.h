/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tabs.h - what the files of mq-tabs share: one device's scheduler
 */
#ifndef MQFAIR_TABS_H
#define MQFAIR_TABS_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "blk/keep.h"
#include "compat.h"
#include "tabs_policy.h"

enum {
	/* Requests that always pass, and are counted for the balance only. */
	TABS_OTHER	= TABS_NR_TYPES,
	TABS_NR_KINDS,
};

/**
 * struct tabs_tunables - as they are written to sysfs
 *
 * Documentation/reference/mq-tabs.rst says what they do.
 */
struct tabs_tunables {
	u32 max_read_kbps;
	u32 max_fua_write_kbps;
	u32 idle_reset_ms;
	u32 idle_threshold;
	u32 epoch_ms;
	u32 sched_ms;
	u32 feedback_pct;
	u32 max_delay_ms;
};

/**
 * struct tabs_queue - one hardware queue
 * @lock:	guards all the fields that follow, but @ended
 * @fifo:	requests to send at once, oldest first
 * @earned:	part of a FUA write that its reads have earned, not yet credited
 * @fifo_is_next: a run of this queue last sent a held write that reads had not earned; also
 *		written without @lock: a turn more or less does no harm
 * @nr:		requests in @fifo, by kind
 * @came:	requests that came, by type; a requeued one counts once
 * @inserted:	requests inserted, by kind
 * @merged:	bios merged into requests
 * @dispatched:	requests sent from @fifo
 * @urgent:	FUA writes that passed since others wait for them, while some were held, or might be
 * @ended:	requests that are over, by kind: those that came, less what is outstanding. Without
 *		@lock: they end in any context, mostly on the CPUs that submit to this queue
 */
struct tabs_queue {
	spinlock_t lock;
	struct list_head fifo;
	u32 earned;
	bool fifo_is_next;
	unsigned int nr[TABS_NR_KINDS];
	unsigned long came[TABS_NR_TYPES];
	unsigned long inserted[TABS_NR_KINDS];
	unsigned long merged[TABS_NR_KINDS];
	unsigned long dispatched[TABS_NR_KINDS];
	unsigned long urgent;

	atomic_long_t ended[TABS_NR_KINDS] ____cacheline_aligned_in_smp;
} ____cacheline_aligned_in_smp;

/*
 * Counted without a lock, in any context; the sum over the CPUs is exact when the queue is frozen.
 * Dropped: finished after a requeue, before they were sent again.
 */
struct tabs_cpu_counters {
	unsigned long requeued[TABS_NR_KINDS];
	unsigned long dropped[TABS_NR_KINDS];
	u64 bytes[TABS_NR_KINDS];
};

/**
 * struct tabs_data - the scheduler of one device
 * @q:			its queue
 * @keep:		what outlives it
 * @hctx:		its hardware queues, by number
 * @queue:		ours, by the same number
 * @nr_queues:		how many
 * @configured:		both maxima are known; read anywhere
 * @cpu_counters:	see there
 * @tunables:		under the elevator's lock for sysfs
 * @nr_held:		FUA writes in @held; written under @lock, read anywhere
 * @wake:		number of the hardware queue to run when one of them may go; likewise
 * @reading:		number of a hardware queue that had reads outstanding: a hint
 * @ticking:		the tick is queued, or runs
 * @fua_inflight:	FUA writes at the device
 * @tick:		looks at the counts, and wakes writes that no other event wakes
 * @lock:		guards @held, what follows it, and the policy
 * @held:		the FUA delay queue, oldest first
 * @sent_held:		FUA writes sent from it
 * @released:		the same by reason
 * @longest_held_ns:	the longest that one of them was held
 * @longest_tick_ns:	the longest time between two ticks while something was held
 * @policy:		see there
 */
struct tabs_data {
	struct request_queue *q;
	struct keep *keep;
	struct blk_mq_hw_ctx **hctx;
	struct tabs_queue *queue;
	unsigned int nr_queues;
	bool configured;
	struct tabs_cpu_counters __percpu *cpu_counters;
	struct tabs_tunables tunables;

	/* Each read looks at nr_held: what FUA writes change that are not held is elsewhere. */
	unsigned int nr_held ____cacheline_aligned_in_smp;
	unsigned int wake;
	unsigned int reading;
	atomic_t ticking;
	struct delayed_work tick;
	atomic_t fua_inflight ____cacheline_aligned_in_smp;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct list_head held;
	unsigned long sent_held;
	unsigned long released[TABS_NR_REASONS];
	u64 longest_held_ns;
	u64 longest_tick_ns;
	struct tabs_policy policy;
};

/* One kind's counters, added up. */
struct tabs_counters {
	unsigned long inserted, merged, dispatched, completed, requeued, queued;
};

/* tabs.c */
void tabs_count(struct tabs_data *td, unsigned int kind, struct tabs_counters *c);
/* Why there is nothing to schedule on this device, or NULL. */
const char *tabs_obstacle(struct tabs_data *td);
/* Puts the tunables in force, and wakes all queues. */
void tabs_apply(struct tabs_data *td);

/* tabs_sysfs.c */
extern const struct tabs_tunables tabs_default_tunables;
extern MQFAIR_ATTRS_CONST struct elv_fs_entry tabs_attrs[];

/* tabs_debugfs.c */
#ifdef CONFIG_BLK_DEBUG_FS
extern const struct blk_mq_debugfs_attr tabs_queue_debugfs_attrs[];
#endif

#endif /* MQFAIR_TABS_H */
