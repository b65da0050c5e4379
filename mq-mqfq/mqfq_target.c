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
 * writes. As long as the cgroup is within its share (mqfq_urgent.c) they go like requests of class
 * RT of the last level; they are charged in full. A cgroup that asks for more waits for its turn
 * with the rest, as without a target, and what waited so does not count: no number of slots would
 * make it short.
 *
 * The strictest target that has load is the law's. Only requests with that target are measured,
 * since the slots that keep it keep the others. A stricter one takes over when as many requests
 * with it have completed as a window of the law needs. The target counts as long as there is
 * something to keep it for. MQFQ_TARGET_IDLE_NS after the last such request the strictest of those
 * that are left takes over, or all slots are back. What the law has found is kept for the target in
 * force and for the one before, so that the next such request finds the bound that was right,
 * within a window. While a target holds D down, mqfq_auto.c rests: it would compare values that are
 * not in force.
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

void mqfq_target_sent(struct request *rq, struct mqfq_sent *sent)
{
	const struct mqfq_entry *e = mqfq_entry(rq);

	if (!(e->flow & MQFQ_ENTRY_RT))
		return;
	sent->target_us = READ_ONCE(mqfq_entry_flow(e)->target_us);
	sent->is_rt = mqfq_prio_is(rq, IOPRIO_CLASS_RT);
}

void mqfq_target_completed(struct mqfq_data *md, struct request *rq)
{
	struct mqfq_target *t = &md->target;
	struct mqfq_sent sent = *mqfq_sent(rq);
	u32 aim_us = READ_ONCE(t->aim_us), target_us = sent.target_us;
	bool is_aim;

	if (sent.is_rt)
		target_us = min_not_zero(READ_ONCE(t->p999_us), target_us);
	is_aim = target_us && target_us == aim_us;
	tail_meter_count(t->counts, sent.bytes, !ready_set_is_empty(&md->policy.ready), is_aim,
			 req_op(rq) == REQ_OP_READ);
	if (!target_us || !rq->start_time_ns)
		return;
	/* If two CPUs store different ones, the stricter is seen at its next request. */
	if (target_us < READ_ONCE(t->seen_us))
		WRITE_ONCE(t->seen_us, target_us);
	if (target_us < aim_us)
		atomic_inc(&t->nr_stricter);
	if (is_aim)
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
	struct mqfq_target_found before;

	mqfq_target_get_found(md, &before);
	WRITE_ONCE(t->aim_us, aim_us);
	WRITE_ONCE(t->seen_us, U32_MAX);
	atomic_set(&t->nr_stricter, 0);
	config.target_ns = tail_aim_ns(mqfq_target_ns(t));
	tail_set_config(&t->law, &config, ktime_get_ns());
	t->said_unmet = false;
	t->is_in_force = false;
	t->seen_ns = 0;
	if (t->found.target_us == aim_us)
		tail_resume(&t->law, &t->found.tail);
	if (before.target_us)
		t->found = before;
}

/* Which target has load? */
static void mqfq_target_choose(struct mqfq_data *md, u64 now_ns)
{
	struct mqfq_target *t = &md->target;
	u32 seen_us = READ_ONCE(t->seen_us);

	/* What another CPU stores between the two is seen again at its next request. */
	WRITE_ONCE(t->seen_us, U32_MAX);
	if (seen_us < t->aim_us)
		t->stricter_ns = now_ns;
	else if (now_ns - t->stricter_ns >= MQFQ_TARGET_IDLE_NS)
		atomic_set(&t->nr_stricter, 0);
	if ((seen_us < t->aim_us && atomic_read(&t->nr_stricter) >= TAIL_NR_MIN) ||
	    (seen_us != U32_MAX && seen_us != t->aim_us && !t->is_in_force))
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
	struct mqfq_target *t = &md->target;
	u32 was_us = t->p999_us;

	lockdep_assert_held(&md->tuner.lock);

	if (p999_us == was_us)
		return;
	WRITE_ONCE(t->p999_us, p999_us);
	assign_bit(MQFQ_TARGET_RT, &t->used, p999_us);
	/* A cgroup's target, if that is the stricter one, goes on. */
	if (t->aim_us == was_us || (p999_us && p999_us < t->aim_us) || !mqfq_target_is_used(t))
		mqfq_target_aim(md, p999_us);
}

void mqfq_target_resume(struct mqfq_data *md, const struct mqfq_target_found *found)
{
	struct mqfq_target *t = &md->target;

	t->found = *found;
	if (t->aim_us && t->found.target_us == t->aim_us)
		tail_resume(&t->law, &t->found.tail);
}

void mqfq_target_get_found(const struct mqfq_data *md, struct mqfq_target_found *found)
{
	found->target_us = md->target.aim_us;
	tail_get_found(&md->target.law, &found->tail);
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
