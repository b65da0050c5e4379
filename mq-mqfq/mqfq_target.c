// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_target.c - slots that follow a target for the tail of class RT, or of a cgroup
 *
 * A request of class RT waits for nothing here (mqfq_rt.c). At the drive it waits for what was sent
 * before. The fewer slots the others have, the shorter that is, and the less the drive can do at
 * once. With a target, the law of mq-k2's automatic bound (lib/tail.c) finds the largest number of
 * slots with which 999 of 1000 such requests take no longer, from the allocation to the completion.
 * That many are in force, or what mqfq_auto.c finds for throughput, or what is given, if that is
 * less. The others share them as they always do.
 *
 * target_p999_us is for class RT. io.mqfair.latency of a cgroup is for its reads and synchronous
 * writes. As long as the cgroup is within its share they go like requests of class RT of the last
 * level; they are charged in full. The share is kept by the debt that urgent requests have, too
 * (mqfq_urgent.c). A cgroup that asks for more than its share waits for its turn with the rest, as
 * without a target, and what waited so does not count: no number of slots would make it short.
 *
 * The strictest target that has load is the law's. Only requests with that target are measured,
 * since the slots that keep it keep the others. A stricter one that is seen takes over at once. The
 * target counts as long as there is something to keep it for. MQFQ_TARGET_IDLE_NS after the last
 * such request the strictest of those that are left takes over, or all slots are back. The law
 * keeps what it has found, so that the next such request finds the bound that was right for the one
 * before, within a window. While a target holds D down, mqfq_auto.c rests: it would compare values
 * that are not in force.
 *
 * Without a target a completion tests one word. With it, each adds to counters of its CPU. The
 * work item that ends the windows of mqfq_tuner.c adds up all CPUs ten times a second and asks the
 * law.
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
	return (u64)READ_ONCE(t->aim_us) * NSEC_PER_USEC;
}

u32 mqfq_target_of(const struct mqfq_data *md, struct request *rq, unsigned long flow)
{
	u32 target_us = 0;

	if (!(flow & MQFQ_ENTRY_RT))
		return 0;
	if (mqfq_prio_is(rq, IOPRIO_CLASS_RT))
		target_us = READ_ONCE(md->target.p999_us);
	return min_not_zero(target_us, READ_ONCE(mqfq_entry_flow(mqfq_entry(rq))->target_us));
}

void mqfq_target_completed(struct mqfq_data *md, struct request *rq, bool is_rt)
{
	struct mqfq_target *t = &md->target;
	struct mqfq_sent sent = *mqfq_sent(rq);

	tail_meter_count(t->counts, sent.bytes, !ready_set_is_empty(&md->policy.ready), is_rt,
			 req_op(rq) == REQ_OP_READ);
	if (!sent.target_us || !rq->start_time_ns)
		return;
	/* If two CPUs store different ones, the stricter is seen at its next request. */
	if (sent.target_us < READ_ONCE(t->seen_us))
		WRITE_ONCE(t->seen_us, sent.target_us);
	if (sent.target_us == READ_ONCE(t->aim_us))
		tail_meter_rt(t->counts, ktime_get_ns() - rq->start_time_ns,
			      tail_aim_ns(mqfq_target_ns(t)));
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
	pr_info("%s: %s%u can not be met: the best was %llu us, with %u slots\n",
		md->q->disk ? md->q->disk->disk_name : "?",
		t->aim_us == t->p999_us ? "target_p999_us " : "io.mqfair.latency target=",
		t->aim_us, div_u64(a->best_p999_ns, NSEC_PER_USEC), a->best_bound);
}

static void mqfq_target_aim(struct mqfq_data *md, u32 aim_us)
{
	struct mqfq_target *t = &md->target;
	struct tail_config config = { .ceiling = md->tuner.law.open_slots };

	WRITE_ONCE(t->aim_us, aim_us);
	config.target_ns = tail_aim_ns(mqfq_target_ns(t));
	tail_set_config(&t->law, &config, ktime_get_ns());
	t->said_unmet = false;
	t->is_in_force = false;
}

/* Which target has load? */
static void mqfq_target_choose(struct mqfq_data *md, u64 now_ns)
{
	struct mqfq_target *t = &md->target;
	u32 seen_us = READ_ONCE(t->seen_us);

	/* What another CPU stores between the two is seen again at its next request. */
	WRITE_ONCE(t->seen_us, U32_MAX);
	if (seen_us < t->aim_us || (seen_us != U32_MAX && !t->is_in_force && seen_us != t->aim_us))
		mqfq_target_aim(md, seen_us);
	if (seen_us == t->aim_us)
		t->seen_ns = now_ns;
}

void mqfq_target_tick(struct mqfq_data *md, u32 in_flight)
{
	struct mqfq_target *t = &md->target;
	u64 now_ns = ktime_get_ns();
	bool was_in_force;

	lockdep_assert_held(&md->tuner.lock);

	if (!mqfq_target_is_used(t) || now_ns - t->law.ticked_ns < TAIL_TICK_NS)
		return;
	mqfq_target_choose(md, now_ns);
	was_in_force = t->is_in_force;
	tail_meter_sum(t->counts, &t->sums);
	t->is_in_force = t->aim_us && t->seen_ns && now_ns - t->seen_ns < MQFQ_TARGET_IDLE_NS;
	if (!was_in_force) {
		tail_rest(&t->law, now_ns);
	} else if (tail_tick(&t->law, &t->sums, in_flight, now_ns)) {
		trace_mqfq_target(md->q, &t->law);
		mqfq_target_say_unmet(md);
	}
}

void mqfq_target_set(struct mqfq_data *md, unsigned int p999_us)
{
	lockdep_assert_held(&md->tuner.lock);

	WRITE_ONCE(md->target.p999_us, p999_us);
	assign_bit(MQFQ_TARGET_RT, &md->target.used, p999_us);
	mqfq_target_aim(md, p999_us);
	md->target.seen_ns = 0;
}

int mqfq_target_init(struct mqfq_target *t, u32 slots)
{
	tail_init(&t->law, slots);
	t->seen_us = U32_MAX;
	t->counts = mqfair_alloc_percpu(struct tail_sums);
	return t->counts ? 0 : -ENOMEM;
}

void mqfq_target_exit(struct mqfq_target *t)
{
	free_percpu(t->counts);
}
