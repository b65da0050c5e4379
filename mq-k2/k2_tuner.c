// SPDX-License-Identifier: GPL-2.0
/*
 * k2_tuner.c - the automatic bound of mq-k2: what the law is told, and what follows
 *
 * The law is lib/tail.c. With target_p999_us or target_bw_pct set, max_inflight is the largest
 * value that the bound in force may have, and the law chooses the bound. Each completion adds to
 * the counters and a histogram of its CPU, without a lock. While requests come, a work item adds up
 * all CPUs ten times a second, asks the law, and puts the new bound in force as a store to
 * max_inflight would. An insert starts it. It rests when a tick finds that nothing has completed
 * and nothing is in flight. Without a target, insert and completion test one flag each. Latency is
 * taken of requests that were inserted while a target was set.
 */
#define pr_fmt(fmt) "mq-k2: " fmt

#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "blk/hctx.h"
#include "blk/tail_meter.h"
#include "k2.h"
#include "trace.h"

static void k2_tuner_queue(struct k2_data *k2)
{
	kblockd_mod_delayed_work_on(WORK_CPU_UNBOUND, &k2->tick,
				    nsecs_to_jiffies(TAIL_TICK_NS) ?: 1);
}

void k2_tuner_kick(struct k2_data *k2)
{
	/*
	 * Pairs with atomic_set() in k2_tuner_work(), but no order is needed: an insert that does
	 * not see that the ticks have ended leaves it to the next request to start them.
	 */
	if (!atomic_read(&k2->ticking) && !atomic_xchg(&k2->ticking, 1))
		k2_tuner_queue(k2);
}

static u64 k2_tuner_target_ns(const struct k2_data *k2)
{
	return (u64)READ_ONCE(k2->target_p999_us) * NSEC_PER_USEC;
}

void k2_tuner_measure(struct k2_data *k2, struct request *rq)
{
	const struct k2_rq *kr = k2_rq(rq);
	bool is_rt = kr->queue != K2_BE_QUEUE;

	/* Not "is the bound reached": of completions at one time only the first would see that. */
	tail_meter_count(k2->cpu_sums, kr->bytes, READ_ONCE(k2->policy.nonempty), is_rt,
			 req_op(rq) == REQ_OP_READ);
	if (is_rt && rq->fifo_time)
		tail_meter_rt(k2->cpu_sums, ktime_get_ns() - rq->fifo_time,
			      tail_aim_ns(k2_tuner_target_ns(k2)));
}

static void k2_tuner_say_unmet(struct k2_data *k2)
{
	const struct tail *a = &k2->law;

	lockdep_assert_held(&k2->auto_mutex);

	if (k2->said_unmet || !tail_meter_is_unmet(a, k2_tuner_target_ns(k2)))
		return;
	k2->said_unmet = true;
	pr_info("%s: target_p999_us %u can not be met: the best was %llu us, with a bound of %u\n",
		k2->q->disk ? k2->q->disk->disk_name : "?", k2->target_p999_us,
		div_u64(a->best_p999_ns, NSEC_PER_USEC), a->best_bound);
}

/* Puts the law's bound in force. */
static void k2_tuner_apply(struct k2_data *k2)
{
	lockdep_assert_held(&k2->auto_mutex);

	k2_policy_set_max_inflight(&k2->policy, k2->law.bound);
	hctx_wake_all(k2->q);
}

void k2_tuner_set_targets(struct k2_data *k2)
{
	struct tail_config config = {
		.target_ns	= tail_aim_ns(k2_tuner_target_ns(k2)),
		.bandwidth_pct	= k2->target_bw_pct,
		.ceiling	= k2->max_inflight,
	};

	lockdep_assert_held(&k2->auto_mutex);

	tail_set_config(&k2->law, &config, ktime_get_ns());
	k2->said_unmet = false;
	WRITE_ONCE(k2->is_auto, tail_is_on(&config));
	k2_tuner_apply(k2);
}

static void k2_tuner_work(struct work_struct *work)
{
	struct k2_data *k2 = container_of(work, struct k2_data, tick.work);
	struct tail *a = &k2->law;
	unsigned long before;
	u32 inflight;
	bool again;

	mutex_lock(&k2->auto_mutex);
	before = k2->sums.nr;
	tail_meter_sum(k2->cpu_sums, &k2->sums);
	inflight = atomic_read(&k2->policy.inflight);
	if (tail_tick(a, &k2->sums, inflight, ktime_get_ns())) {
		trace_k2_auto(k2->q, a);
		k2_tuner_say_unmet(k2);
		if (a->bound != a->last.bound)
			k2_tuner_apply(k2);
	}
	again = k2->is_auto && (inflight || k2->sums.nr != before);
	mutex_unlock(&k2->auto_mutex);

	if (again)
		k2_tuner_queue(k2);
	else
		atomic_set(&k2->ticking, 0);
}

void k2_tuner_init(struct k2_data *k2, u32 max_inflight)
{
	mutex_init(&k2->auto_mutex);
	k2->max_inflight = max_inflight;
	tail_init(&k2->law, max_inflight);
	INIT_DELAYED_WORK(&k2->tick, k2_tuner_work);
}

void k2_tuner_resume(struct k2_data *k2, const struct tail_found *found)
{
	mutex_lock(&k2->auto_mutex);
	tail_resume(&k2->law, found);
	k2_tuner_apply(k2);
	mutex_unlock(&k2->auto_mutex);
}

/* The queue is frozen: no insert starts the tick again. */
void k2_tuner_exit(struct k2_data *k2)
{
	cancel_delayed_work_sync(&k2->tick);
}
