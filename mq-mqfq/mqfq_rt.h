/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_rt.h - entries of class RT, for the policy's other files; see mqfq_rt.c
 *
 * All need the queue's lock, but for mqfq_release_pass(), which is for the scheduler, and
 * mqfq_recall_rt(): they may be called in any context.
 */
#ifndef MQFAIR_MQFQ_RT_H
#define MQFAIR_MQFQ_RT_H

#include "mqfq_queue.h"

/* An entry comes. */
void mqfq_rt_add(struct mqfq_queue *mq, struct mqfq_entry *e, unsigned int level);
/* Entries get passes, as far as no other queue waits for one; if not, the queue waits, too. */
void mqfq_rt_settle(struct mqfq_queue *mq);
/* The queue was recalled: it takes one pass, if it has a use for it. */
void mqfq_rt_come_back(struct mqfq_queue *mq);
/* Takes an entry for which there is a pass, or NULL; it may have been the head. */
struct mqfq_entry *mqfq_rt_take(struct mqfq_queue *mq);
/*
 * May @e pass, which is within the window? It is not of class RT, nothing of its flow that came
 * here is at the device, and a pass is to spare. Flows that share a counter may hide what is there.
 */
bool mqfq_rt_may_pass(const struct mqfq_queue *mq, const struct mqfq_entry *e);
/* It does: it is the head, and stays in the order of tags. */
void mqfq_rt_be_head(struct mqfq_queue *mq, struct mqfq_entry *e);
/* The entry that has to line up in the order of tags, since it is the head now; or NULL. */
struct mqfq_entry *mqfq_rt_elect(struct mqfq_queue *mq);
/* The head was taken with a slot. */
void mqfq_rt_head_left(struct mqfq_queue *mq);
/* An entry with a pass has completed: the pass is free again. */
void mqfq_release_pass(struct mqfq_queue *mq);
/* The queue gives its passes back, and @more. */
void mqfq_give_passes(struct mqfq_queue *mq, u32 more);
void mqfq_recall_rt(struct mqfq_policy *p);

#endif /* MQFAIR_MQFQ_RT_H */
