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
void mqfq_tell_wait(const struct mqfq_queue *mq, enum mqfq_state state);
void mqfq_hand_over(struct mqfq_queue *mq);
void mqfq_share_out(struct mqfq_queue *mq);
bool mqfq_fetch_slot(struct mqfq_queue *mq);
bool mqfq_seek_slot(struct mqfq_queue *mq);
void mqfq_disarm(struct mqfq_queue *mq);

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
