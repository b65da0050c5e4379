/* SPDX-License-Identifier: GPL-2.0 */
/*
 * wbt.h - the kernel's writeback throttling (queue/wbt_lat_usec) beside our schedulers
 *
 * wbt holds writes back, above the scheduler and without regard to who pays for them, as soon as
 * reads take longer than its target. Behind a scheduler that makes requests wait on purpose reads
 * always do. So it is off while one of ours is attached, as it is with bfq, and on again afterwards
 * if it was on by default. A latency that the user has written to wbt_lat_usec stays in force.
 */
#ifndef MQFAIR_BLK_WBT_H
#define MQFAIR_BLK_WBT_H

#include "compat.h"

/* For init_sched: a disk that is added, or an iocost that is switched off later, leaves it off. */
static inline void wbt_off(struct request_queue *q)
{
	mqfair_forbid_wbt(q);
	if (q->disk)
		wbt_disable_default(q->disk);
}

/* For exit_sched. */
static inline void wbt_back(struct request_queue *q)
{
	mqfair_allow_wbt(q);
	if (q->disk)
		wbt_enable_default(q->disk);
}

#endif /* MQFAIR_BLK_WBT_H */
