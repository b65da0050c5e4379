/* SPDX-License-Identifier: GPL-2.0 */
/*
 * trace.h - tracepoints of mq-octofas
 *
 * For the device: octofas_window at the end of each window, octofas_flag when a flag, or the policy
 * in force, has changed. For a request: octofas_migrate when it moves to another hardware queue,
 * octofas_backward when it is sent to the back of its own. Ratios, and mean numbers of requests
 * outstanding, are in thousandths.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mq_octofas

#if !defined(_MQ_OCTOFAS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MQ_OCTOFAS_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

#include "octofas_policy.h"

#define octofas_trace_mode_name(mode)			\
	__print_symbolic(mode,				\
		{ OCTOFAS_NONE,		"none" },	\
		{ OCTOFAS_INTER,	"inter" },	\
		{ OCTOFAS_INTRA,	"intra" },	\
		{ OCTOFAS_HYBRID,	"hybrid" })

TRACE_EVENT(octofas_window,

	TP_PROTO(struct request_queue *q, const struct octofas_record *r),

	TP_ARGS(q, r),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u64,		number		)
		__field(	u64,		nr		)
		__field(	u32,		fairness	)
		__field(	u32,		balance		)
		__field(	u32,		home_balance	)
		__field(	u32,		average		)
		__field(	u64,		moved		)
		__field(	u64,		backwarded	)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->number		= r->number;
		__entry->nr		= r->nr;
		__entry->fairness	= r->fairness;
		__entry->balance	= r->balance;
		__entry->home_balance	= r->home_balance;
		__entry->average	= r->average;
		__entry->moved		= r->moved;
		__entry->backwarded	= r->backwarded;
	),

	TP_printk("%d,%d window=%llu requests=%llu F=%u LB=%u home_LB=%u U_avg=%u "
		  "moved=%llu backwarded=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->number, __entry->nr,
		  __entry->fairness, __entry->balance, __entry->home_balance, __entry->average,
		  __entry->moved, __entry->backwarded)
);

TRACE_EVENT(octofas_flag,

	TP_PROTO(struct request_queue *q, const struct octofas_record *r),

	TP_ARGS(q, r),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u64,		number		)
		__field(	bool,		unfair		)
		__field(	bool,		imbalanced	)
		__field(	u8,		mode		)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->number		= r->number;
		__entry->unfair		= r->unfair;
		__entry->imbalanced	= r->imbalanced;
		__entry->mode		= r->mode;
	),

	TP_printk("%d,%d window=%llu unfair=%d imbalanced=%d policy=%s", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->number, __entry->unfair, __entry->imbalanced,
		  octofas_trace_mode_name(__entry->mode))
);

TRACE_EVENT(octofas_migrate,

	TP_PROTO(struct request *rq, u32 from, u32 to, u64 key),

	TP_ARGS(rq, from, to, key),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u32,		from		)
		__field(	u32,		to		)
		__field(	u64,		key		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= blk_rq_bytes(rq);
		__entry->from		= from;
		__entry->to		= to;
		__entry->key		= key;
	),

	TP_printk("%d,%d %llu + %u from=%u to=%u flow=0x%llx", MAJOR(__entry->dev),
		  MINOR(__entry->dev), (unsigned long long)__entry->sector, __entry->bytes,
		  __entry->from, __entry->to, __entry->key)
);

TRACE_EVENT(octofas_backward,

	TP_PROTO(struct request *rq, u32 queue, u32 times, u32 limit),

	TP_ARGS(rq, queue, times, limit),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		queue		)
		__field(	u32,		times		)
		__field(	u32,		limit		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->queue		= queue;
		__entry->times		= times;
		__entry->limit		= limit;
	),

	TP_printk("%d,%d %llu queue=%u times=%u limit=%u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), (unsigned long long)__entry->sector, __entry->queue,
		  __entry->times, __entry->limit)
);

#endif /* _MQ_OCTOFAS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
