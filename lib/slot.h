/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slot.h - which requests hold a slot of the device while it works on them
 *
 * All but those of hardware queues without interrupts: these end when the task that sent them polls, which may be never. They wait for a slot as
 * others do, and give it back as they are dispatched.
 */
#ifndef MQFAIR_SLOT_H
#define MQFAIR_SLOT_H

#include <linux/blk-mq.h>

static inline bool slot_is_held(const struct request *rq)
{
	return rq->mq_hctx->type != HCTX_TYPE_POLL;
}

#endif /* MQFAIR_SLOT_H */
