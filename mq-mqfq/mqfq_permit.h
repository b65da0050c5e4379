/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_permit.h - what some entries need besides, or instead of, a slot: see mqfq_permit.c
 */
#ifndef MQFAIR_MQFQ_PERMIT_H
#define MQFAIR_MQFQ_PERMIT_H

#include "mqfq_queue.h"

/* Takes one, if less than @limit are out. Any context. */
bool mqfq_permit_take(struct mqfq_permits *k, int limit);
/* If a permit is idle and a queue is parked, one comes to get it: each in its turn. Any context. */
void mqfq_permit_recall(struct mqfq_policy *p, struct mqfq_permits *k, int limit);

#endif /* MQFAIR_MQFQ_PERMIT_H */
