/* SPDX-License-Identifier: GPL-2.0 */
/*
 * submit.h - run the hardware queue in the submitter's context
 *
 * After insert_requests blk-mq runs the hardware queue. For a plugged submission it does so at
 * once, in the submitter's context; without a plug it leaves that to a worker of kblockd. 6.12
 * plugs every bio, 7.2 does not: there a reader with one request outstanding would pay for the
 * worker's wake-up before the scheduler even looks at its request. So for a submission without a
 * plug insert_requests itself runs the queue, after it has dropped its lock.
 *
 * This is allowed because blk-mq, without a scheduler, calls the driver from this very place: the
 * context is the same and it may sleep. Completions must stay asynchronous: no driver may be
 * called from an interrupt.
 */
#ifndef MQFAIR_BLK_SUBMIT_H
#define MQFAIR_BLK_SUBMIT_H

#include <linux/blk-mq.h>
#include <linux/percpu-refcount.h>
#include <linux/sched.h>

#include "compat.h"

/*
 * Is this call of insert_requests a submission without a plug? The flush of a plug, also from
 * schedule(), has current->plug; a requeue inserts at the head.
 */
static inline bool submit_is_direct(blk_insert_t flags)
{
	return !current->plug && !(flags & BLK_MQ_INSERT_AT_HEAD);
}

/**
 * submit_begin() - before requests are inserted
 * @hctx:	their hardware queue
 * @flags:	from insert_requests
 *
 * Takes a reference to the queue, as blk-mq's own flush of a plug does: it keeps the scheduler
 * from being switched away once the inserted requests have ended.
 *
 * Return: submit_end() has to follow.
 */
static inline bool submit_begin(struct blk_mq_hw_ctx *hctx, blk_insert_t flags)
{
	if (!submit_is_direct(flags))
		return false;
	percpu_ref_get(&hctx->queue->q_usage_counter);
	return true;
}

/* After that, without a lock: runs @hctx if it @has_work, and drops the reference. */
static inline void submit_end(struct blk_mq_hw_ctx *hctx, bool has_work)
{
	struct request_queue *q = hctx->queue;

	if (has_work)
		blk_mq_run_hw_queue(hctx, false);
	percpu_ref_put(&q->q_usage_counter);
}

#endif /* MQFAIR_BLK_SUBMIT_H */
