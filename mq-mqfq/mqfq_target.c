// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_target.c - slots that follow a target for the tail of class RT
 *
 * A request of class RT waits for nothing here (mqfq_rt.c). At the drive it waits for what was sent
 * before. The fewer slots the others have, the shorter that is, and the less the drive can do at
 * once. With target_p999_us set, the law of mq-k2's automatic bound (lib/tail.c) finds the largest
 * number of slots with which 999 of 1000 requests of class RT take no longer, from the allocation
 * to the completion. That many are in force, or what mqfq_auto.c finds for throughput, or what is
 * given, if that is less. The others share them as they always do.
 *
 * While the target holds D down, mqfq_auto.c rests: it would compare values that are not in force.
 * The target counts as long as there is something to keep it for. MQFQ_TARGET_IDLE_NS after the
 * last request of class RT all slots are back. The law keeps what it has found, so that the next
 * such request finds the bound that was right for the one before, within a window.
 *
 * Without a target a completion tests one flag. With it, each adds to counters of its CPU. The work
 * item that ends the windows of mqfq_tuner.c adds up all CPUs ten times a second and asks the law.
 */
#define pr_fmt(fmt) "mq-mqfq: " fmt

#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/printk.h>

#include "mqfq.h"
#include "trace.h"

#define MQFQ_TARGET_IDLE_NS	(5 * NSEC_PER_SEC)

static u64 mqfq_target_ns(const struct mqfq_target *t)
{
	return (u64)READ_ONCE(t->p999_us) * NSEC_PER_USEC;
}

void mqfq_target_completed(struct mqfq_data *md, struct request *rq, u32 bytes, bool is_rt)
{
	struct tail_sums __percpu *counts = md->target.counts;

	tail_meter_count(counts, bytes, !ready_set_is_empty(&md->policy.ready), is_rt,
			 req_op(rq) == REQ_OP_READ);
	if (is_rt && rq->start_time_ns)
		tail_meter_rt(counts, ktime_get_ns() - rq->start_time_ns,
			      tail_aim_ns(mqfq_target_ns(&md->target)));
}

u32 mqfq_target_slots(const struct mqfq_data *md)
{
	lockdep_assert_held(&md->tuner.lock);

	return md->target.is_in_force ? md->target.law.bound : U32_MAX;
}

static void mqfq_target_say_unmet(struct mqfq_data *md)
{
	struct mqfq_target *t = &md->target;
	const struct tail *a = &t->law;

	if (t->said_unmet || !tail_meter_is_unmet(a, mqfq_target_ns(t)))
		return;
	t->said_unmet = true;
	pr_info("%s: target_p999_us %u can not be met: the best was %llu us, with %u slots\n",
		md->q->disk ? md->q->disk->disk_name : "?", t->p999_us,
		div_u64(a->best_p999_ns, NSEC_PER_USEC), a->best_bound);
}

void mqfq_target_tick(struct mqfq_data *md, u32 in_flight)
{
	struct mqfq_target *t = &md->target;
	u64 now_ns = ktime_get_ns();
	unsigned long nr_rt = t->sums.nr_rt;
	bool was_in_force = t->is_in_force;

	lockdep_assert_held(&md->tuner.lock);

	if (!t->p999_us || now_ns - t->law.ticked_ns < TAIL_TICK_NS)
		return;
	tail_meter_sum(t->counts, &t->sums);
	if (t->sums.nr_rt != nr_rt)
		t->rt_ns = now_ns;
	t->is_in_force = t->rt_ns && now_ns - t->rt_ns < MQFQ_TARGET_IDLE_NS;
	if (!was_in_force) {
		tail_rest(&t->law, now_ns);
	} else if (tail_tick(&t->law, &t->sums, in_flight, now_ns)) {
		trace_mqfq_target(md->q, &t->law);
		mqfq_target_say_unmet(md);
	}
}

void mqfq_target_set(struct mqfq_data *md, unsigned int p999_us)
{
	struct mqfq_target *t = &md->target;
	struct tail_config config = { .ceiling = md->tuner.law.open_slots };

	lockdep_assert_held(&md->tuner.lock);

	WRITE_ONCE(t->p999_us, p999_us);
	config.target_ns = tail_aim_ns(mqfq_target_ns(t));
	tail_set_config(&t->law, &config, ktime_get_ns());
	t->said_unmet = false;
	t->is_in_force = false;
	t->rt_ns = 0;
}

int mqfq_target_init(struct mqfq_target *t, u32 slots)
{
	tail_init(&t->law, slots);
	t->counts = mqfair_alloc_percpu(struct tail_sums);
	return t->counts ? 0 : -ENOMEM;
}

void mqfq_target_exit(struct mqfq_target *t)
{
	free_percpu(t->counts);
}
