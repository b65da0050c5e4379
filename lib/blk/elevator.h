/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elevator.h - what a scheduler with a queue per hardware queue sets up, whatever its policy
 */
#ifndef MQFAIR_BLK_ELEVATOR_H
#define MQFAIR_BLK_ELEVATOR_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>

/*
 * For init_sched: requests wait in their own hardware queue, so blk-mq has to run all of these. The
 * scheduler before may have asked for one only (QUEUE_FLAG_SQ_SCHED). Of the kernel's schedulers,
 * only none and kyber take that back.
 */
static inline void elevator_run_all_hctx(struct request_queue *q)
{
	blk_queue_flag_clear(QUEUE_FLAG_SQ_SCHED, q);
}

/*
 * exit_hctx with nothing to free. Without one, blk_mq_exit_sched() leaves sched_data in @hctx, and
 * the next scheduler may take it for its own.
 */
static inline void elevator_exit_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
}

#endif /* MQFAIR_BLK_ELEVATOR_H */
