/* SPDX-License-Identifier: GPL-2.0 */
/*
 * k2.h - what the files of mq-k2 share: one device's scheduler
 */
#ifndef MQFAIR_K2_H
#define MQFAIR_K2_H

#include <linux/atomic.h>
#include <linux/blk-mq.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "blk/keep.h"
#include "compat.h"
#include "k2_policy.h"
#include "tail.h"

/* Where a request stands; see the drawing in k2.c. */
enum k2_rq_state {
	K2_RQ_NONE = 0,
	K2_RQ_QUEUED,
	K2_RQ_INFLIGHT,
	K2_RQ_REQUEUED,
	K2_RQ_MERGED,
};

/*
 * Our state in a request. Written by insert and merge under the lock of the list that it is in,
 * then by its dispatch, then by its completion. The priority and the size are remembered because a
 * finished request has given up its bios.
 */
struct k2_rq {
	u8 state;
	u8 queue;
	u16 ioprio;
	u32 bytes;
};

static_assert(sizeof(struct k2_rq) <= sizeof_field(struct request, elv.priv));

/*
 * Counted without a lock, in any context; the sum over the CPUs is exact when the queue is
 * frozen.
 */
struct k2_cpu_counters {
	unsigned long completed[K2_NR_QUEUES];
	unsigned long requeued[K2_NR_QUEUES];
};

/**
 * struct k2_queue - one hardware queue: requests that have a slot and wait for their dispatch
 * @lock:	guards the fields that follow
 * @ready:	these requests, oldest first
 * @passed:	requests that were in @ready, by queue
 */
struct k2_queue {
	spinlock_t lock;
	struct list_head ready;
	unsigned long passed[K2_NR_QUEUES];
} ____cacheline_aligned_in_smp;

/**
 * struct k2_data - the scheduler of one device
 * @q:			its queue
 * @keep:		what outlives it
 * @driver_tags:	requests that the driver takes of each hardware queue; 0: it may refuse some
 * @queue:		its hardware queues, by number
 * @nr_queues:		how many
 * @cpu_counters:	see there
 * @cpu_sums:		what completions have counted for the law
 * @be_max_delay_ms:	tunable; read anywhere
 * @is_auto:		a target is set; read anywhere
 * @target_p999_us:	tunable; written under @auto_mutex, read anywhere
 * @ticking:		the tick is queued, or runs
 * @lock:		guards the merge index, the counters that follow, and the policy
 * @inserted:		requests inserted, by queue; without those that passed
 * @merged:		requests merged into others, by queue
 * @dispatched:		requests sent, by queue; without those that passed
 * @policy:		the queues and the bound
 * @auto_mutex:		guards all the fields that follow, and changes of the bound
 * @max_inflight:	tunable: the largest bound
 * @target_bw_pct:	tunable
 * @said_unmet:		the kernel log has the message that the target cannot be met
 * @law:		chooses the bound
 * @sums:		@cpu_sums of all CPUs at the last tick
 * @tick:		adds up the sums and asks the law
 */
struct k2_data {
	/* Read-mostly. */
	struct request_queue *q;
	struct keep *keep;
	unsigned int driver_tags;
	struct k2_queue *queue;
	unsigned int nr_queues;
	struct k2_cpu_counters __percpu *cpu_counters;
	struct tail_sums __percpu *cpu_sums;
	unsigned int be_max_delay_ms;
	bool is_auto;
	unsigned int target_p999_us;
	atomic_t ticking;

	/* Under the lock. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned long inserted[K2_NR_QUEUES];
	unsigned long merged[K2_NR_QUEUES];
	unsigned long dispatched[K2_NR_QUEUES];
	struct k2_policy policy;

	/* Under the mutex. */
	struct mutex auto_mutex;
	unsigned int max_inflight;
	unsigned int target_bw_pct;
	bool said_unmet;
	struct tail law;
	struct tail_sums sums;
	struct delayed_work tick;
};

/* One queue's counters, added up. */
struct k2_counters {
	unsigned long inserted, merged, dispatched, completed, requeued, queued;
};

static inline struct k2_rq *k2_rq(struct request *rq)
{
	return (struct k2_rq *)rq->elv.priv;
}

/* k2.c */
void k2_count(struct k2_data *k2, unsigned int queue, struct k2_counters *c);

/* k2_tuner.c: the automatic bound */
void k2_tuner_init(struct k2_data *k2, u32 max_inflight);
void k2_tuner_exit(struct k2_data *k2);
/* The targets are set again after a time without the scheduler: goes on with what was found. */
void k2_tuner_resume(struct k2_data *k2, const struct tail_found *found);
/* A request has come: the ticks begin, if they are not under way. */
void k2_tuner_kick(struct k2_data *k2);
/* @rq is about to give its slot back. Any context. */
void k2_tuner_measure(struct k2_data *k2, struct request *rq);
/* A target or max_inflight has changed. auto_mutex held. */
void k2_tuner_set_targets(struct k2_data *k2);

/* k2_sysfs.c */
extern MQFAIR_ATTRS_CONST struct elv_fs_entry k2_attrs[];

/* k2_debugfs.c */
#ifdef CONFIG_BLK_DEBUG_FS
extern const struct blk_mq_debugfs_attr k2_queue_debugfs_attrs[];
#endif

#endif /* MQFAIR_K2_H */
