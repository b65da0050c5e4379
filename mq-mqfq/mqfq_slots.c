// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_slots.c - how slots come to the queues that wait for one
 *
 * D slots are tokens. Those that no queue waits for lie in a tree (token_tree.h). A queue whose
 * next request has a token is ARMED, and holds that token until it is run. A request that is
 * released gives its token to the nearest queue that waits, if there is one, and that queue is run.
 *
 * A queue that waits for a slot is READY. The claim is
 *
 *	while no CPU is within a function of the policy, no token is idle, or no queue is READY
 *
 *  1. A queue becomes READY by its state, its bit, a full barrier and a look at all tokens.
 *  2. A CPU that puts a token into the tree passes a full barrier and looks at the bits. If one is
 *     set it takes a token out again, and hands it over (mqfq_give(), mqfq_share_out()).
 *  3. Both write, pass a barrier and read what the other wrote: one of the two sees the other.
 *  4. To hand a token over is to clear the bit and then to make the queue ARMED. The second step
 *     fails only if the queue has left READY: it has a token, or will set its bit again. A bit that
 *     is left behind by a queue that is not READY is cleared by the next CPU that finds it.
 *  5. A CPU that looks for tokens clears the bits of empty nodes (token_tree.h). If it was wrong,
 *     another one may have overlooked a token: it hands out what there is, too.
 *
 * kunit/hosted/models/mq-mqfq-slots.pml is a model of this, checked with spin.
 */
#include <linux/lockdep.h>
#include <linux/minmax.h>

#include "mqfq_slots.h"

/* ---- waking ---- */

/*
 * The step that ends a wait: of all CPUs that try, one succeeds. Its full barrier lets the run that
 * follows see all that the waker did before.
 */
static bool mqfq_end_wait(struct mqfq_queue *mq, enum mqfq_state was, enum mqfq_state now)
{
	/*
	 * Pairs with the barriers in mqfq_may_go_ahead() and mqfq_seek_slot(), before which the
	 * state was set.
	 */
	if (atomic_cmpxchg(&mq->state, was, now) != was)
		return false;
	mq->policy->ops->run(mq->policy->context, mq->number, was);
	return true;
}

void mqfq_tell_wait(const struct mqfq_queue *mq, enum mqfq_state state)
{
	if (mq->policy->ops->wait)
		mq->policy->ops->wait(mq->policy->context, mq->number, state);
}

/* The queue asks again what it has to wait for. */
bool mqfq_wake(struct mqfq_queue *mq, enum mqfq_state was)
{
	return mqfq_end_wait(mq, was, MQFQ_RUNNABLE);
}

/* ---- slots ---- */

/* The caller has a token in hand: the READY queue nearest to @leaf gets it, if there is one. */
static bool mqfq_arm_nearest(struct mqfq_policy *p, unsigned int leaf)
{
	for (;;) {
		int target = ready_set_nearest(&p->ready, leaf);
		struct mqfq_queue *mq;
		unsigned int common;

		if (target == READY_SET_NONE)
			return false;
		mq = mqfq_queue_of_leaf(p, target);
		if (!ready_set_del(&p->ready, target) ||
		    !mqfq_end_wait(mq, MQFQ_READY, MQFQ_ARMED))
			continue;
		common = topology_lca(&p->topology, leaf, target);
		atomic64_inc(&mq->nr_woken[p->topology.node[common].level]);
		return true;
	}
}

/* A queue is READY: it gets the token, unless that pays a debt. */
void mqfq_hand_over(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	unsigned int at;

	do {
		if (!READ_ONCE(p->tokens.in_debt) && mqfq_arm_nearest(p, mq->leaf))
			return;
		/* Token before bits. Pairs with ready_set_add() in mqfq_seek_slot(). */
		at = token_tree_rest(&p->tokens, mq->leaf);
	} while (!ready_set_is_empty(&p->ready) && token_node_take(&p->tokens.node[at], 1));
}

/* The caller has put tokens into the tree, and passed a full barrier: READY queues get them. */
void mqfq_share_out(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	bool more;

	while (!ready_set_is_empty(&p->ready) && token_tree_steal(&p->tokens, mq->leaf, &more))
		mqfq_hand_over(mq);
}

/* A token from the nodes above the queue's leaf, and some for the entries that follow. */
bool mqfq_fetch_slot(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;

	if (!token_tree_fetch(&p->tokens, mq->leaf, min_t(int, mq->nr, MQFQ_SLOT_BATCH)))
		return false;
	if (!ready_set_is_empty(&p->ready))
		mqfq_share_out(mq);
	return true;
}

/*
 * The queue is READY since just now, by the caller. Is there a slot anywhere? Then the queue is
 * ARMED, unless it left READY meanwhile.
 */
bool mqfq_seek_slot(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	bool more = false, is_armed;

	/* Full barrier; pairs with token_tree_put() and mqfq_set_slots(). */
	ready_set_add(&p->ready, mq->leaf);
	if (!token_tree_steal(&p->tokens, mq->leaf, &more)) {
		atomic64_inc(&mq->slot_waits);
		mqfq_tell_wait(mq, MQFQ_READY);
		return false;
	}
	ready_set_del(&p->ready, mq->leaf);
	/* Pairs with mqfq_end_wait(): a queue is armed once. */
	is_armed = atomic_cmpxchg(&mq->state, MQFQ_READY, MQFQ_ARMED) == MQFQ_READY;
	if (!is_armed)
		mqfq_give(mq);
	if (unlikely(more))
		mqfq_share_out(mq);
	return is_armed;
}

/* The queue does not use the token that it has. */
void mqfq_disarm(struct mqfq_queue *mq)
{
	lockdep_assert_held(&mq->lock);

	if (atomic_read(&mq->state) != MQFQ_ARMED)
		return;
	atomic_set(&mq->state, MQFQ_RUNNABLE);
	mqfq_give(mq);
}

/* ---- the wheel ---- */

static bool mqfq_is_due(void *context, unsigned int leaf)
{
	struct mqfq_policy *p = context;
	struct mqfq_queue *mq = mqfq_queue_of_leaf(p, leaf);

	return atomic_read(&mq->state) != MQFQ_THROTTLED ||
	       !vt_after(READ_ONCE(mq->wake_vt), mqfq_vt(p));
}

/*
 * Virtual time has come near the queue's. Not under the queue's lock. The wheel may be early, or
 * the flow not alone any more: then the queue asks again.
 */
static void mqfq_end_throttle(void *context, unsigned int leaf)
{
	struct mqfq_policy *p = context;
	struct mqfq_queue *mq = mqfq_queue_of_leaf(p, leaf);

	if (!mqfq_is_due(p, leaf) ||
	    (READ_ONCE(mq->is_wide) && !mqfq_alone_is_known(&p->alone, p->nr_queues))) {
		mqfq_wake(mq, MQFQ_THROTTLED);
		return;
	}
	if (atomic_read(&mq->state) != MQFQ_THROTTLED)
		return;
	if (token_tree_take(&p->tokens, leaf, 1)) {
		if (!mqfq_end_wait(mq, MQFQ_THROTTLED, MQFQ_ARMED))
			mqfq_give(mq);
		return;
	}
	/* Pairs with mqfq_end_wait(): one CPU ends the wait. */
	if (atomic_cmpxchg(&mq->state, MQFQ_THROTTLED, MQFQ_READY) == MQFQ_THROTTLED &&
	    mqfq_seek_slot(mq))
		p->ops->run(p->context, mq->number, MQFQ_THROTTLED);
}

const struct vt_wheel_ops mqfq_wheel_ops = {
	.is_due	= mqfq_is_due,
	.wake	= mqfq_end_throttle,
};
