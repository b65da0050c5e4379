// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_urgent.c - the start tags and scheduler tags of requests that do not wait
 *
 * blk/urgent.h says for which requests others wait. A flow may be in debt for them by urgent_kb: so
 * many go next, whatever the flow's weight, and its later requests pay. A flow that sends nothing
 * but metadata gets its share and no more: its debt is paid back as virtual time goes on.
 *
 * Requests of a cgroup with a target (mqfq_target.c) get passes while the flow is no further ahead
 * than urgent_kb, or T if that is more, with all that it was charged.
 *
 * Requests of class RT with a pass (mqfq_rt.c) go whatever the debt is. What is more than
 * urgent_kb, and more than T, is forgiven: else a flow whose RT requests take more than its share
 * would have nothing left for its other requests. These wait for no more than that.
 */
#include <linux/ioprio.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "blk/urgent.h"
#include "mqfq.h"

static u64 mqfq_credit_vt(const struct mqfq_data *md)
{
	return (u64)READ_ONCE(md->urgent_kb) << MQFQ_KB_SHIFT;
}

u64 mqfq_tag_urgent(struct mqfq_data *md, struct flow *f, u64 vt, u64 cost_vt)
{
	u64 credit_vt = mqfq_credit_vt(md), start;
	bool passes;

	if (!credit_vt)
		return flow_tag(f, vt, cost_vt);
	start = flow_tag_urgent(f, vt, cost_vt, credit_vt, &passes);
	if (passes)
		this_cpu_inc(md->cpu_counters->urgent);
	else
		this_cpu_inc(md->cpu_counters->beyond_credit);
	return start;
}

/* As far as a flow may be ahead with requests that pass. */
static u64 mqfq_ahead_vt(const struct mqfq_data *md)
{
	return max(mqfq_credit_vt(md), READ_ONCE(md->policy.throttle_vt));
}

u64 mqfq_tag_prompt(struct mqfq_data *md, struct flow *f, u64 vt, u64 cost_vt, bool *passes)
{
	return flow_tag_prompt(f, vt, cost_vt, mqfq_ahead_vt(md), passes);
}

void mqfq_forgive(struct mqfq_data *md, const struct request *rq, struct flow *f)
{
	u64 cost = mqfq_charge_of(&md->charge, rq, blk_rq_bytes(rq));

	flow_forgive(f, mqfq_vt(&md->policy), flow_cost_vt(f, cost), mqfq_ahead_vt(md));
}

/*
 * How many of the @used tags of a hardware queue are the flow's, at most: its requests that wait
 * here, and as many of those at the device as it has there. Where hardware queues share their tags
 * that is anywhere.
 */
static unsigned int mqfq_nr_tags_of(struct mqfq_data *md, const struct mqfq_queue *mq,
				    const struct flow *f, unsigned int used)
{
	bool are_shared = md->q->tag_set->flags & BLK_MQ_F_TAG_HCTX_SHARED;
	unsigned int nr = READ_ONCE(mq->nr) + READ_ONCE(mq->nr_aside) + READ_ONCE(mq->rt.nr);
	unsigned int waiting = mqfq_nr_queued(mq, f);
	unsigned int all = are_shared ? mqfq_nr_requests(&md->policy, f) :
					flow_nr_direct(f) + flow_local_nr(&mq->flows, f);

	return waiting + min(used > nr ? used - nr : 0, all > waiting ? all - waiting : 0);
}

/* May a request of the flow, if there is one, go next? */
static bool mqfq_goes_next(const struct mqfq_data *md, const struct flow *f, blk_opf_t opf)
{
	u64 vt = mqfq_vt(&md->policy);

	if (urgent_is(opf, current->flags) && READ_ONCE(md->urgent_kb) &&
	    (!f || flow_has_credit(f, vt, mqfq_credit_vt(md))))
		return true;
	return f && mqfq_is_prompt(f, opf) && flow_is_within(f, vt, mqfq_ahead_vt(md));
}

/*
 * Write-back comes from a kernel thread, and not from the task that made the pages dirty. It is
 * held to its share, whatever that thread's flow has. A request that may go next may have the
 * last tag, and so may a task of class RT, unless its like waits here. Called under
 * rcu_read_lock().
 */
bool mqfq_leaves_share(struct mqfq_data *md, const struct mqfq_queue *mq, blk_opf_t opf,
		       unsigned int used, unsigned int depth)
{
	unsigned int kind = READ_ONCE(md->flow_kind);
	int class = IOPRIO_PRIO_CLASS(get_current_ioprio());
	const struct flow *f;

	if (class == IOPRIO_CLASS_RT && !READ_ONCE(mq->rt.nr))
		return false;
	f = flow_find(&md->flows, class == IOPRIO_CLASS_IDLE && kind != FLOW_IOPRIO ?
				  MQFQ_IDLE_KEY : flow_key_of_current(kind));
	if (mqfq_goes_next(md, f, opf))
		return false;
	return !op_is_sync(opf) ||
	       (f && mqfq_nr_tags_of(md, mq, f, used) * max(READ_ONCE(mq->nr_flows), 2U) > depth);
}
