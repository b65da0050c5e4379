/* SPDX-License-Identifier: GPL-2.0 */
/*
 * trace.h - tracepoints of mq-k2
 *
 * A request has three events: k2_insert when it is queued, k2_dispatch when it is sent to the
 * device, k2_complete when it ends. "class" and "level" are the request's I/O priority (only the
 * real-time levels tell queues apart, 0 is the most urgent); "inflight" is the count after the
 * event; "passed" is 1 for a request that took its slot on insert, since nothing waited. Inserts
 * and dispatches of the others are emitted under the scheduler's lock, in the order of its
 * decisions. A completion's latency runs from the insert; it is 0 if the insert did not take the
 * time.
 *
 * k2_auto comes when a window of the automatic bound ends: its counts, the bound that was in force,
 * the next bound, and the state of the law from then on.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mq_k2

#if !defined(_MQ_K2_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MQ_K2_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>
#include <linux/tracepoint.h>

#include "tail.h"

#define k2_trace_window_format	\
	"window_ns=%llu rt=%llu beyond=%llu p999_ns=%llu bytes_per_s=%llu"

#define k2_trace_class_name(class)			\
	__print_symbolic(class,				\
		{ IOPRIO_CLASS_NONE,	"none" },	\
		{ IOPRIO_CLASS_RT,	"rt" },		\
		{ IOPRIO_CLASS_BE,	"be" },		\
		{ IOPRIO_CLASS_IDLE,	"idle" })

DECLARE_EVENT_CLASS(k2_request,

	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),

	TP_ARGS(rq, bytes, ioprio, inflight, passed),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u8,		class		)
		__field(	u8,		level		)
		__field(	u32,		inflight	)
		__field(	u8,		passed		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= bytes;
		__entry->class		= IOPRIO_PRIO_CLASS(ioprio);
		__entry->level		= IOPRIO_PRIO_LEVEL(ioprio);
		__entry->inflight	= inflight;
		__entry->passed		= passed;
	),

	TP_printk("%d,%d %llu + %u class=%s level=%u inflight=%u passed=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes,
		  k2_trace_class_name(__entry->class), __entry->level, __entry->inflight,
		  __entry->passed)
);

DEFINE_EVENT(k2_request, k2_insert,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),
	TP_ARGS(rq, bytes, ioprio, inflight, passed)
);

DEFINE_EVENT(k2_request, k2_dispatch,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),
	TP_ARGS(rq, bytes, ioprio, inflight, passed)
);

TRACE_EVENT(k2_complete,

	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, u64 latency_ns),

	TP_ARGS(rq, bytes, ioprio, inflight, latency_ns),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u8,		class		)
		__field(	u8,		level		)
		__field(	u32,		inflight	)
		__field(	u64,		latency_ns	)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= bytes;
		__entry->class		= IOPRIO_PRIO_CLASS(ioprio);
		__entry->level		= IOPRIO_PRIO_LEVEL(ioprio);
		__entry->inflight	= inflight;
		__entry->latency_ns	= latency_ns;
	),

	TP_printk("%d,%d %llu + %u class=%s level=%u inflight=%u latency_ns=%llu",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes,
		  k2_trace_class_name(__entry->class), __entry->level, __entry->inflight,
		  __entry->latency_ns)
);

TRACE_EVENT(k2_auto,

	TP_PROTO(struct request_queue *q, const struct tail *a),

	TP_ARGS(q, a),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u8,		state		)
		__field(	u32,		bound		)
		__field(	u32,		next_bound	)
		__field(	u64,		window_ns	)
		__field(	u64,		nr_rt		)
		__field(	u64,		nr_beyond	)
		__field(	u64,		p999_ns		)
		__field(	u64,		bytes_per_s	)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->state		= a->state;
		__entry->bound		= a->last.bound;
		__entry->next_bound	= a->bound;
		__entry->window_ns	= a->last.ns;
		__entry->nr_rt		= a->last.nr_rt;
		__entry->nr_beyond	= a->last.nr_beyond;
		__entry->p999_ns	= a->last.p999_ns;
		__entry->bytes_per_s	= a->last.bytes_per_s;
	),

	TP_printk("%d,%d state=%s bound=%u next=%u " k2_trace_window_format,
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->state,
				   { TAIL_REFERENCE,	"reference" },
				   { TAIL_SEARCH,	"search" },
				   { TAIL_HOLD,	"hold" }),
		  __entry->bound, __entry->next_bound, __entry->window_ns, __entry->nr_rt,
		  __entry->nr_beyond, __entry->p999_ns, __entry->bytes_per_s)
);

#endif /* _MQ_K2_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
