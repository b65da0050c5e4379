/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hctx.h - hardware queues: which ones blk-mq runs, and waking them
 */
#ifndef MQFAIR_BLK_HCTX_H
#define MQFAIR_BLK_HCTX_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/list.h>

/*
 * For init_sched of a scheduler whose requests wait in their own hardware queue: blk-mq has to run
 * all of these. The scheduler before may have asked for one only (QUEUE_FLAG_SQ_SCHED). Of the
 * kernel's schedulers, only none and kyber take that back.
 */
static inline void hctx_run_each(struct request_queue *q)
{
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
}

/*
 * exit_hctx with nothing to free. Without one, blk_mq_exit_sched() leaves sched_data in @hctx, and
 * the next scheduler may take it for its own.
 */
static inline void hctx_exit(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
}

/* Runs all hardware queues of @q from a worker, whatever the flag above selects. Any context. */
static inline void hctx_wake_all(struct request_queue *q)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		blk_mq_run_hw_queue(hctx, true);
}

/* A run of @hctx asks the scheduler for requests: it is not stopped, and has no leftovers. */
static inline bool hctx_is_free(struct blk_mq_hw_ctx *hctx)
{
	return !test_bit(BLK_MQ_S_STOPPED, &hctx->state) && list_empty_careful(&hctx->dispatch);
}

/*
 * For a request that any hardware queue can send: runs @hctx, or all if that one is not free. Any
 * context.
 */
static inline void hctx_wake(struct blk_mq_hw_ctx *hctx)
{
	if (hctx_is_free(hctx))
		blk_mq_run_hw_queue(hctx, true);
	else
		hctx_wake_all(hctx->queue);
}

#endif /* MQFAIR_BLK_HCTX_H */
