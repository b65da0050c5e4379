/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_slots.h - how slots come to queues, and waits end: for the policy; see mqfq_slots.c
 */
#ifndef MQFAIR_MQFQ_SLOTS_H
#define MQFAIR_MQFQ_SLOTS_H

#include <linux/compiler.h>

#include "mqfq_queue.h"

extern const struct vt_wheel_ops mqfq_wheel_ops;

bool mqfq_wake(struct mqfq_queue *mq, enum mqfq_state was);
void mqfq_give_kept(struct mqfq_queue *mq, int n);
bool mqfq_rest(struct mqfq_queue *mq);
bool mqfq_end_rest(struct mqfq_queue *mq);
void mqfq_tell_wait(const struct mqfq_queue *mq, enum mqfq_state state);
void mqfq_hand_over(struct mqfq_queue *mq);
void mqfq_share_out(struct mqfq_queue *mq);
bool mqfq_fetch_slot(struct mqfq_queue *mq);
bool mqfq_seek_slot(struct mqfq_queue *mq);
void mqfq_disarm(struct mqfq_queue *mq);

/* The queue is READY, or a slot rests in it. */
static inline bool mqfq_waits_for_slot(const struct mqfq_queue *mq)
{
	int state = atomic_read(&mq->state);

	return state == MQFQ_READY || state == MQFQ_RESTING;
}

/*
 * The queue, locked, is in another state from now on. The token with which it was ARMED is used. It
 * gives back what it was given beyond that.
 */
static __always_inline void mqfq_set_state(struct mqfq_queue *mq, enum mqfq_state state)
{
	int old = atomic_read(&mq->state);

	if (old == state)
		return;
	/* Pairs with mqfq_keep(). */
	old = atomic_xchg(&mq->state, state);
	if (unlikely(old > MQFQ_ARMED))
		mqfq_give_kept(mq, old - MQFQ_ARMED);
}

/* The queue is run: a slot that rests is in its hand. */
static inline void mqfq_use_rest(struct mqfq_queue *mq)
{
	/* Pairs with mqfq_end_wait(): a release may end it at the same time. */
	if (unlikely(atomic_read(&mq->state) == MQFQ_RESTING))
		atomic_cmpxchg(&mq->state, MQFQ_RESTING, MQFQ_ARMED);
}

/* The caller has a token in hand, and does not need it. Any context. */
static __always_inline void mqfq_give(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	unsigned int at;

	if (likely(ready_set_is_empty(&p->ready))) {
		/* Token before bits. Pairs with ready_set_add() in mqfq_seek_slot(). */
		at = token_tree_rest(&p->tokens, mq->leaf);
		if (likely(ready_set_is_empty(&p->ready)) ||
		    !token_node_take(&p->tokens.node[at], 1))
			return;
	}
	mqfq_hand_over(mq);
}

#endif /* MQFAIR_MQFQ_SLOTS_H */
