// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_slots.c - how slots come to the queues that wait for one
 *
 * D slots are tokens. Those that no queue waits for lie in a tree (token_tree.h). A queue whose
 * next request has a token is ARMED, and holds that token until it is run. A request that is
 * released gives its token to a queue that waits, if there is one, and that queue is run.
 *
 * Which one
 * ---------
 * D divided by the number of queues that wait is a share. A queue keeps what is released in it, up
 * to its share. What is beyond goes to a queue that has less, if the next one in turn does. So all
 * queues soon have as many slots, and then none leaves its CPU. Weights are not asked: a queue
 * that may have more is one that is not throttled. If there are fewer slots than queues, a queue
 * keeps its slot until it is throttled.
 *
 * No run per request
 * ------------------
 * A run by another context costs more than all the rest. Two things save most of them:
 *
 *  - An ARMED queue keeps further tokens, for the requests behind the first one, and takes them in
 *    the run that is on its way. The state counts them.
 *  - A READY queue lets a token of its own rest, without a run, if a request has come since a token
 *    of it was free the last time while it waited. A tenant that sends a request for each that
 *    comes back will send one now, and blk-mq runs the queue for it. If none comes, the next
 *    release ends the rest, as does mqfq_look(). One token rests at most, while MQFQ_REST_LEAST
 *    others are at the device.
 *
 * Why no wake-up is lost
 * ----------------------
 * A queue that waits for a slot is READY. The claim is
 *
 *	while no CPU is within a function of the policy, no token is in the tree, or no queue is
 *	READY or RESTING; and a RESTING queue has requests at the device
 *
 *  1. A queue becomes READY by its state, its bit, a full barrier and a look at all tokens. If its
 *     bit is still set, it stays so: bits that all CPUs read are seldom written.
 *  2. A CPU that puts a token into the tree passes a full barrier and looks at the bits. If one is
 *     set it takes a token out again, and hands it over (mqfq_give(), mqfq_share_out()).
 *  3. Both write, pass a barrier and read what the other wrote: one of the two sees the other.
 *  4. To hand a token over is to make the queue ARMED. If it does not wait, its bit is cleared, and
 *     after a full barrier its state is looked at once more. A queue that became READY before that
 *     is seen then; one that becomes READY later sees its bit clear, and sets it.
 *  5. A CPU that looks for tokens clears the bits of empty nodes (token_tree.h). If it was wrong,
 *     another one may have overlooked a token: it hands out what there is, too.
 *  6. A queue leaves ARMED by an exchange of its state, and gives back what it was given meanwhile.
 *  7. A queue becomes RESTING by a full barrier and a look at its count of releases. A release
 *     counts, passes one and looks at the state. One of the two sees the other, so the last release
 *     of the queue's requests does not leave it RESTING.
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
static bool mqfq_end_wait(struct mqfq_queue *mq, enum mqfq_state was, int now)
{
	if (atomic_read(&mq->state) != was)
		return false;
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

/* ---- tokens for queues that wait ---- */

/* The queue has left ARMED, with @n tokens in its hand. */
noinline void mqfq_give_kept(struct mqfq_queue *mq, int n)
{
	lockdep_assert_held(&mq->lock);

	for (; n; n--)
		mqfq_give(mq);
}

static bool mqfq_end_slot_wait(struct mqfq_queue *mq)
{
	return mqfq_end_wait(mq, MQFQ_READY, MQFQ_ARMED) ||
	       mqfq_end_wait(mq, MQFQ_RESTING, MQFQ_ARMED + 1);
}

/* The queue of @leaf gets a token from @from, if it waits for one. */
static bool mqfq_arm_waiting(struct mqfq_queue *from, unsigned int leaf)
{
	struct mqfq_policy *p = from->policy;
	struct mqfq_queue *mq = mqfq_queue_of_leaf(p, leaf);
	unsigned int common;

	/* Bit before state, by ready_set_del(). Pairs with ready_set_add() in mqfq_seek_slot(). */
	if (!mqfq_end_slot_wait(mq) &&
	    !(ready_set_del(&p->ready, leaf) && mqfq_end_slot_wait(mq)))
		return false;
	common = topology_lca(&p->topology, from->leaf, leaf);
	atomic64_inc(&mq->nr_woken[p->topology.node[common].level]);
	return true;
}

/*
 * Would the queue have more than its share with what @from has in its hand? Then the next queue in
 * turn gets it, if it waits and has less. One queue is looked at, so that a release is never long.
 */
static bool mqfq_share(struct mqfq_queue *from)
{
	struct mqfq_policy *p = from->policy;
	u32 held = mqfq_nr_slots_held(from);
	struct mqfq_queue *mq;
	int leaf;

	if (!held || (held + 1) * ready_set_nr(&p->ready) <= (u32)READ_ONCE(p->tokens.slots))
		return false;
	leaf = ready_set_next(&p->ready, READ_ONCE(from->shared_with));
	if (leaf == READY_SET_NONE)
		return false;
	WRITE_ONCE(from->shared_with, leaf);
	mq = mqfq_queue_of_leaf(p, leaf);
	return mqfq_waits_for_slot(mq) && mqfq_nr_slots_held(mq) < held &&
	       mqfq_arm_waiting(from, leaf);
}

/* The nearest queue that waits gets a token from @from. */
static bool mqfq_arm_nearest(struct mqfq_queue *from)
{
	int leaf;

	do {
		leaf = ready_set_nearest(&from->policy->ready, from->leaf);
		if (leaf == READY_SET_NONE)
			return false;
	} while (!mqfq_arm_waiting(from, leaf));
	return true;
}

/* The queue is ARMED, and keeps one token more, if it has a request for that. */
static bool mqfq_keep(struct mqfq_queue *mq)
{
	int state = atomic_read(&mq->state), in_hand;

	do {
		in_hand = state - MQFQ_ARMED + 1;
		if (in_hand < 1 || in_hand >= min_t(int, READ_ONCE(mq->nr), MQFQ_SLOT_BATCH))
			return false;
		/* Pairs with mqfq_set_state(), which gives back what is not used. */
	} while (!atomic_try_cmpxchg(&mq->state, &state, state + 1));
	return true;
}

/* A queue gets the token that @from has in its hand, if one waits. */
static bool mqfq_hand_out(struct mqfq_queue *from)
{
	return mqfq_share(from) || mqfq_keep(from) || mqfq_arm_nearest(from);
}

/* Of what is at the device, only what will soon be back. */
static u32 mqfq_nr_quick(const struct mqfq_queue *mq)
{
	u32 nr_slow = READ_ONCE(mq->slow_taken) -
		      mqfq_tally_released(atomic64_read(&mq->slow_tally));

	return max_t(s32, mqfq_nr_slots_held(mq) - nr_slow, 0);
}

/*
 * A slot of the queue, which waits for one, is free. True if it rests there, or another queue has
 * it.
 */
bool mqfq_rest(struct mqfq_queue *mq)
{
	u32 inserted = READ_ONCE(mq->inserted);
	bool has_come = inserted != READ_ONCE(mq->inserted_seen);

	WRITE_ONCE(mq->inserted_seen, inserted);
	if (mqfq_end_rest(mq) || READ_ONCE(mq->policy->tokens.in_debt))
		return false;
	if (mqfq_share(mq))
		return true;
	if (!has_come || mqfq_nr_quick(mq) < MQFQ_REST_LEAST)
		return false;
	/* State before count. Pairs with atomic64_add_return() in mqfq_release(). */
	if (atomic_cmpxchg(&mq->state, MQFQ_READY, MQFQ_RESTING) != MQFQ_READY)
		return false;
	mqfq_tell_wait(mq, MQFQ_RUNNABLE);
	if (unlikely(!mqfq_nr_slots_held(mq)))
		mqfq_end_rest(mq);
	return true;
}

/* True if a slot rested in the queue: a run that uses it is on its way from now on. */
bool mqfq_end_rest(struct mqfq_queue *mq)
{
	return mqfq_end_wait(mq, MQFQ_RESTING, MQFQ_ARMED);
}

/* A queue that waits gets the token, unless that pays a debt. */
void mqfq_hand_over(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	unsigned int at;

	do {
		if (!READ_ONCE(p->tokens.in_debt) && mqfq_hand_out(mq))
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

	/* It is RUNNABLE afterwards, and so has to be run. */
	mqfq_end_rest(mq);
	if (atomic_read(&mq->state) < MQFQ_ARMED)
		return;
	mqfq_set_state(mq, MQFQ_RUNNABLE);
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
