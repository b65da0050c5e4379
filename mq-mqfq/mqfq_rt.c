// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_rt.c - entries of class RT, which do not wait
 *
 * The promise. A request of I/O priority class RT does not wait for virtual time, and not for a
 * slot. Others share what the device has time for; this one goes at once. Its flow pays for it like
 * for any other request: the tags of the flow's later requests are later, so that a tenant has no
 * more than its share if its other requests can make up for it.
 *
 * The bound. A device has P passes, as many as D but from 4 to 16; a target (mqfq_target.c) lowers
 * D and not P. An entry with a pass goes; it takes no slot, so D entries are at the device as
 * before, and P more at most. A flood of RT requests therefore leaves the part D / (D + P) of what
 * the device takes in turn to those that have slots: half of it at least, if D is 4 or more and
 * there is no target. In that part the flood has its share by weight, as any other tenant.
 *
 * An entry that finds no pass waits in a line of its queue, one line per level; level 0 goes first,
 * and in a line the oldest. When a pass is free again, a queue with such entries is recalled
 * (mqfq_permit.c). Until then, one of them, the head, also waits in the order of tags like an entry
 * of any class. So class RT is never worse than none: a tenant who sends nothing but RT requests
 * has its share beside what passes.
 *
 *	line of its level --+--> a pass: taken at once
 *	                    |
 *	                    +--> head, in the order of tags --+--> a slot, as all entries
 *	                                                      |
 *	                                                      +--> a pass
 *
 * So within a queue
 *
 *	entries in lines + head >= passes that the queue has, and
 *	there is a head if it has more entries than passes.
 *
 * A flow that has nothing at the device. D is for those that have much there. If they hold all
 * slots with large writes, a flow that sends one request at a time waits for one to come back, each
 * time, and for all of them if D becomes less. So an entry that is within the window goes with a
 * pass, if there is no slot, nothing that its flow has sent through the queue is at the device, and
 * a pass is to spare: when it comes to a queue that waits for a slot, when it is first and its
 * queue finds none, or when the flow's pass comes back. It becomes the head, and goes with a slot
 * if that comes first. A pass is to spare while fewer are out than a quarter of D, since a small D
 * is meant to keep the device's queue short. Class RT has all passes, with any D. These entries
 * wait for virtual time as all do; a queue that was throttled waits for a slot afterwards.
 *
 * A queue that has passes has its flag is_recalled set, by which mqfq_has_work() says yes. A queue
 * that is away (mqfq_stuck.c) has none. Passes of entries that do not come back are lent like
 * slots: rt_tally counts releases and debts.
 */
#include <linux/bitops.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>

#include "mqfq_rt.h"
#include "mqfq_slots.h"

enum {
	/* A pass is to spare while fewer are out than one part in so many of D. */
	MQFQ_RT_SPARE_PART	= 4,
};

static int mqfq_nr_passes(const struct mqfq_policy *p)
{
	return READ_ONCE(p->nr_passes);
}

void mqfq_recall_rt(struct mqfq_policy *p)
{
	mqfq_permit_recall(p, &p->passes, mqfq_nr_passes(p));
}

/* How many entries have no pass. */
static unsigned int mqfq_rt_nr_without(const struct mqfq_rt_queue *rt)
{
	return rt->nr + !!rt->head - rt->nr_passes;
}

/* The entry that goes first, of all lines. There is one. */
static struct mqfq_entry *mqfq_rt_pop(struct mqfq_rt_queue *rt)
{
	unsigned int level = __ffs(rt->levels);
	struct mqfq_line *line = &rt->line[level];
	struct mqfq_entry *e = line->first;

	line->first = e->next;
	if (!line->first)
		rt->levels &= ~(1U << level);
	WRITE_ONCE(rt->nr, rt->nr - 1);
	return e;
}

struct mqfq_entry *mqfq_rt_elect(struct mqfq_queue *mq)
{
	struct mqfq_rt_queue *rt = &mq->rt;

	lockdep_assert_held(&mq->lock);

	if (rt->head || !mqfq_rt_nr_without(rt))
		return NULL;
	rt->head_level = __ffs(rt->levels);
	rt->head = mqfq_rt_pop(rt);
	return rt->head;
}

void mqfq_give_passes(struct mqfq_queue *mq, u32 more)
{
	lockdep_assert_held(&mq->lock);

	if (!mq->rt.nr_passes && !more)
		return;
	/* Full barrier: passes before bits. Pairs with ready_set_add() in mqfq_rt_park(). */
	atomic_sub_return(mq->rt.nr_passes + more, &mq->policy->passes.nr_out);
	WRITE_ONCE(mq->rt.nr_passes, 0);
	mqfq_recall_rt(mq->policy);
}

/* The queue is parked, unless all its entries have passes. */
static void mqfq_rt_park(struct mqfq_queue *mq)
{
	if (mqfq_rt_nr_without(&mq->rt)) {
		/* Full barrier: bit before passes. Pairs with mqfq_release_pass(). */
		ready_set_add(&mq->policy->passes.parked, mq->leaf);
	}
	mqfq_recall_rt(mq->policy);
}

static bool mqfq_rt_get_pass(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;

	if (!mqfq_permit_take(&p->passes, mqfq_nr_passes(p)))
		return false;
	WRITE_ONCE(mq->rt.nr_passes, mq->rt.nr_passes + 1);
	return true;
}

void mqfq_rt_settle(struct mqfq_queue *mq)
{
	struct mqfq_rt_queue *rt = &mq->rt;

	lockdep_assert_held(&mq->lock);

	while (!mq->is_away && mqfq_rt_nr_without(rt) &&
	       ready_set_is_empty(&mq->policy->passes.parked) && mqfq_rt_get_pass(mq))
		WRITE_ONCE(mq->is_recalled, true);
	if (!mq->is_away && mqfq_rt_nr_without(rt))
		mqfq_rt_park(mq);
}

void mqfq_rt_add(struct mqfq_queue *mq, struct mqfq_entry *e, unsigned int level)
{
	struct mqfq_rt_queue *rt = &mq->rt;

	lockdep_assert_held(&mq->lock);

	mqfq_line_add(&rt->line[level], e);
	rt->levels |= 1U << level;
	WRITE_ONCE(rt->nr, rt->nr + 1);
	mqfq_rt_settle(mq);
}

void mqfq_rt_head_left(struct mqfq_queue *mq)
{
	struct mqfq_rt_queue *rt = &mq->rt;

	lockdep_assert_held(&mq->lock);

	rt->head = NULL;
	if (rt->nr_passes > rt->nr) {
		WRITE_ONCE(rt->nr_passes, rt->nr_passes - 1);
		/* Full barrier: pass before bits. Pairs with ready_set_add() in mqfq_rt_park(). */
		atomic_dec_return(&mq->policy->passes.nr_out);
		mqfq_recall_rt(mq->policy);
	}
}

void mqfq_rt_come_back(struct mqfq_queue *mq)
{
	lockdep_assert_held(&mq->lock);

	if (mq->is_away) {
		mqfq_recall_rt(mq->policy);
		return;
	}
	if (mqfq_rt_nr_without(&mq->rt))
		mqfq_rt_get_pass(mq);
	mqfq_rt_park(mq);
}

static bool mqfq_rt_has_none_out(const struct mqfq_queue *mq, const struct flow *f)
{
	unsigned int nr = flow_local_nr(&mq->flows, f);

	return nr && nr <= mqfq_nr_queued(mq, f);
}

/* A pass is to spare for an entry of another class while fewer than so many are out. */
static int mqfq_rt_nr_to_spare(const struct mqfq_policy *p)
{
	return min_t(int, mqfq_nr_passes(p), READ_ONCE(p->tokens.slots) / MQFQ_RT_SPARE_PART);
}

bool mqfq_rt_may_pass(const struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	const struct mqfq_policy *p = mq->policy;

	return !(e->flow & (MQFQ_ENTRY_SLOW | MQFQ_ENTRY_DIRECT | MQFQ_ENTRY_RT)) &&
	       !mq->rt.head && !mq->rt.nr && !mq->is_away &&
	       atomic_read(&p->passes.nr_out) < mqfq_rt_nr_to_spare(p) &&
	       ready_set_is_empty(&p->passes.parked) &&
	       mqfq_rt_has_none_out(mq, mqfq_entry_flow(e));
}

void mqfq_rt_be_head(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	lockdep_assert_held(&mq->lock);

	mq->rt.head = e;
	mq->rt.head_level = MQFQ_RT_LEVELS - 1;
	mqfq_rt_settle(mq);
}

/* The head is older than those of its level that are in line. */
static bool mqfq_rt_is_head_next(const struct mqfq_rt_queue *rt)
{
	return rt->head && (!rt->levels || rt->head_level <= __ffs(rt->levels));
}

struct mqfq_entry *mqfq_rt_take(struct mqfq_queue *mq)
{
	struct mqfq_rt_queue *rt = &mq->rt;
	struct mqfq_entry *e;

	lockdep_assert_held(&mq->lock);

	if (!rt->nr_passes)
		return NULL;
	WRITE_ONCE(rt->taken, rt->taken + 1);
	WRITE_ONCE(rt->nr_passes, rt->nr_passes - 1);
	if (rt->nr_passes)
		WRITE_ONCE(mq->is_recalled, true);
	if (!mqfq_rt_is_head_next(rt)) {
		e = mqfq_rt_pop(rt);
	} else {
		e = rt->head;
		rt->head = NULL;
	}
	e->flow |= MQFQ_ENTRY_PASS;
	return e;
}

void mqfq_release_pass(struct mqfq_queue *mq)
{
	s64 tally = atomic64_add_return(MQFQ_TALLY_ONE, &mq->rt_tally);

	if (mqfq_tally_lent(tally) && mqfq_tally_pay(&mq->rt_tally)) {
		if (mqfq_tally_lent(atomic64_read(&mq->rt_tally)))
			return;
		/* The queue may have passes again. */
		WRITE_ONCE(mq->is_recalled, true);
		mq->policy->ops->run(mq->policy->context, mq->number, MQFQ_ASIDE);
		return;
	}
	/* Full barrier: pass before bits. Pairs with ready_set_add() in mqfq_rt_park(). */
	atomic_dec_return(&mq->policy->passes.nr_out);
	mqfq_recall_rt(mq->policy);
	/*
	 * The flow may have another entry here, and nothing at the device now. A hint: a queue that
	 * becomes READY at this moment is woken by a slot, as all are.
	 */
	if (mqfq_waits_for_slot(mq)) {
		WRITE_ONCE(mq->is_recalled, true);
		mq->policy->ops->run(mq->policy->context, mq->number, MQFQ_ASIDE);
	}
}
