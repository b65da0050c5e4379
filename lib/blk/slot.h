/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slot.h - does a request hold a slot of the device while the device works on it?
 *
 * A request of a hardware queue without interrupts does not: it ends when the task that sent it
 * polls, which may be never. It waits for a slot as others do, and gives it back as it is sent.
 */
#ifndef MQFAIR_BLK_SLOT_H
#define MQFAIR_BLK_SLOT_H

#include <linux/blk-mq.h>

static inline bool slot_is_held(const struct request *rq)
{
	return rq->mq_hctx->type != HCTX_TYPE_POLL;
}

#endif /* MQFAIR_BLK_SLOT_H */
