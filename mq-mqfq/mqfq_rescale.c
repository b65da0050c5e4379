// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_rescale.c - tags that wait follow the effective weights of their flows
 */
#include <linux/lockdep.h>

#include "mqfq_policy.h"

/* Puts all entries into the tree. */
static void mqfq_sort_all(struct mqfq_queue *mq)
{
	struct mqfq_entry *e;

	while ((e = mq->in_order.first)) {
		mq->in_order.first = e->next;
		mqfq_sort(mq, e);
	}
}

/*
 * What the start tag of an entry is by its flow's new effective weight.
 *
 * An entry that came since the change has its tag by the new weight. It starts at the new finish
 * tag or later. If tags grow, no other entry does, so this one stays: it would be put off twice. If
 * tags shrink, it may come nearer twice, and overtakes requests of its own flow.
 */
static u64 mqfq_rescaled(const struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	const struct flow *f = mqfq_entry_flow(e);
	const struct flow_reweigh *change = &f->change;
	u64 start;

	if (!f->is_changing)
		return e->start;
	if (change->new_weight < change->old_weight && !vt_after(change->finish, e->start))
		return e->start;
	/* Virtual time may have moved on since the change, and no tag goes behind it. */
	start = flow_scaled(change, e->start);
	if (start != e->start && vt_after(mqfq_vt(mq->policy), start))
		start = mqfq_vt(mq->policy);
	return start;
}

/*
 * All entries leave the tree, in their order, and come back with other tags. Equal tags stay in the
 * order of before.
 */
static void mqfq_rescale_entries(struct mqfq_queue *mq)
{
	struct rb_root_cached old;
	struct rb_node *node;

	lockdep_assert_held(&mq->lock);

	mqfq_sort_all(mq);
	old = mq->others;
	mq->others = RB_ROOT_CACHED;
	while ((node = rb_first_cached(&old))) {
		struct mqfq_entry *e = rb_entry(node, struct mqfq_entry, node);

		rb_erase_cached(node, &old);
		e->start = mqfq_rescaled(mq, e);
		mqfq_sort(mq, e);
	}
}

/* Those that wait for passes keep their places. */
static void mqfq_rescale_lines(struct mqfq_queue *mq)
{
	struct mqfq_entry *e;
	unsigned int level;

	for (level = 0; level < MQFQ_RT_LEVELS; level++)
		for (e = mq->rt.line[level].first; e; e = e->next)
			e->start = mqfq_rescaled(mq, e);
}

/* The first entry: now all are in the tree. */
static const struct mqfq_entry *mqfq_earliest(const struct mqfq_queue *mq)
{
	return rb_entry(rb_first_cached(&mq->others), struct mqfq_entry, node);
}

static bool mqfq_has_any_of(const struct mqfq_queue *mq, const struct flow *changed)
{
	const struct flow *f;

	for (f = changed; f; f = f->next_changed)
		if (mqfq_nr_queued(mq, f))
			return true;
	return false;
}

void mqfq_rescale(struct mqfq_policy *p, struct flow *changed)
{
	unsigned int i;

	for (i = 0; changed && i < p->nr_queues; i++) {
		struct mqfq_queue *mq = &p->queue[i];

		spin_lock(&mq->lock);
		flow_locals_rescale(&mq->flows);
		if (mq->rt.nr)
			mqfq_rescale_lines(mq);
		if (mq->nr && mqfq_has_any_of(mq, changed)) {
			mqfq_rescale_entries(mq);
			if (mindicator_leaf(&p->vt, mq->leaf) != VT_NONE)
				mqfq_publish(mq, mqfq_earliest(mq)->start);
			/* Its first tag is another one now: let it ask again. */
			mqfq_disarm(mq);
			if (!mqfq_wake(mq, MQFQ_THROTTLED))
				mqfq_wake(mq, MQFQ_READY);
		}
		spin_unlock(&mq->lock);
	}
}
