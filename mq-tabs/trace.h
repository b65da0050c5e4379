/* SPDX-License-Identifier: GPL-2.0 */
/*
 * trace.h - tracepoints of mq-tabs
 *
 * For the device: tabs_phase when a phase begins, tabs_alpha at the end of each epoch. For a FUA
 * write: tabs_delay when it is held, tabs_release when it goes, with the reason and how long it was
 * held. alpha is in thousandths, rates are in KiB/s; "issued" and "fair" are I and FBW of the
 * paper's Equation 1.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mq_tabs

#if !defined(_MQ_TABS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MQ_TABS_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

#include "tabs_policy.h"

#define tabs_trace_phase_name(phase)			\
	__print_symbolic(phase,				\
		{ TABS_IDLE,		"IDLE" },	\
		{ TABS_SCHED,		"SCHED" })

#define tabs_trace_reason_name(reason)			\
	__print_symbolic(reason,			\
		{ TABS_FREE,		"free" },	\
		{ TABS_EARNED,		"earned" },	\
		{ TABS_OVERDUE,		"overdue" },	\
		{ TABS_ALONE,		"alone" })

TRACE_EVENT(tabs_phase,

	TP_PROTO(struct request_queue *q, const struct tabs_policy *p),

	TP_ARGS(q, p),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u8,		phase		)
		__field(	u64,		issued_reads	)
		__field(	u64,		issued_fua	)
		__field(	u64,		fair_read	)
		__field(	u64,		fair_fua	)
		__field(	u32,		alpha		)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->phase		= p->phase;
		__entry->issued_reads	= p->issued[TABS_READ];
		__entry->issued_fua	= p->issued[TABS_FUA];
		__entry->fair_read	= p->fair_bytes_per_s[TABS_READ] >> 10;
		__entry->fair_fua	= p->fair_bytes_per_s[TABS_FUA] >> 10;
		__entry->alpha		= (u64)p->alpha * 1000 >> TABS_SHIFT;
	),

	TP_printk(
		"%d,%d %s issued_reads=%llu issued_fua=%llu fair_read=%llu fair_fua=%llu alpha=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), tabs_trace_phase_name(__entry->phase),
		  __entry->issued_reads, __entry->issued_fua, __entry->fair_read,
		  __entry->fair_fua, __entry->alpha)
);

TRACE_EVENT(tabs_alpha,

	TP_PROTO(struct request_queue *q, const struct tabs_epoch *e, u32 alpha),

	TP_ARGS(q, e, alpha),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u64,		number		)
		__field(	u64,		read		)
		__field(	u64,		fair_read	)
		__field(	u64,		fua		)
		__field(	u64,		fair_fua	)
		__field(	u32,		before		)
		__field(	u32,		alpha		)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->number		= e->number;
		__entry->read		= e->bytes_per_s[TABS_READ] >> 10;
		__entry->fair_read	= e->fair_bytes_per_s[TABS_READ] >> 10;
		__entry->fua		= e->bytes_per_s[TABS_FUA] >> 10;
		__entry->fair_fua	= e->fair_bytes_per_s[TABS_FUA] >> 10;
		__entry->before		= (u64)e->alpha * 1000 >> TABS_SHIFT;
		__entry->alpha		= (u64)alpha * 1000 >> TABS_SHIFT;
	),

	TP_printk(
	"%d,%d epoch=%llu read=%llu fair_read=%llu fua=%llu fair_fua=%llu before=%u alpha=%u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->number, __entry->read,
		  __entry->fair_read, __entry->fua, __entry->fair_fua, __entry->before,
		  __entry->alpha)
);

TRACE_EVENT(tabs_delay,

	TP_PROTO(struct request *rq, u32 held),

	TP_ARGS(rq, held),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u32,		held		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= blk_rq_bytes(rq);
		__entry->held		= held;
	),

	TP_printk("%d,%d %llu + %u held=%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes, __entry->held)
);

TRACE_EVENT(tabs_release,

	TP_PROTO(struct request *rq, unsigned int reason, u64 held_ns),

	TP_ARGS(rq, reason, held_ns),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u8,		reason		)
		__field(	u64,		held_ns		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= blk_rq_bytes(rq);
		__entry->reason		= reason;
		__entry->held_ns	= held_ns;
	),

	TP_printk("%d,%d %llu + %u reason=%s held_ns=%llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), (unsigned long long)__entry->sector, __entry->bytes,
		  tabs_trace_reason_name(__entry->reason), __entry->held_ns)
);

#endif /* _MQ_TABS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
