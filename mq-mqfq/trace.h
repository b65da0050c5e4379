/* SPDX-License-Identifier: GPL-2.0 */
/*
 * trace.h - tracepoints of mq-mqfq
 *
 * For a request: mqfq_tag when it is charged, mqfq_dispatch when it is sent to the device,
 * mqfq_complete when it is done with. For a hardware queue: mqfq_throttle and mqfq_slot_wait when
 * it begins to wait, mqfq_unthrottle and mqfq_slot when its wait is over. For the device: mqfq_auto
 * when another T or D is in force that was found, or is tried ("probing"). "flow" is the flow's
 * kind and number as in debugfs; tags are virtual times, and "ahead" is a tag less the virtual
 * time of the device, in sixteenths of a byte at weight 100.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mq_mqfq

#if !defined(_MQ_MQFQ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MQ_MQFQ_TRACE_H

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/tracepoint.h>

#include "tail.h"

DECLARE_EVENT_CLASS(mqfq_request,

	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),

	TP_ARGS(rq, bytes, key, ahead),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	sector_t,	sector		)
		__field(	u32,		bytes		)
		__field(	u32,		hctx		)
		__field(	u64,		key		)
		__field(	s64,		ahead		)
	),

	TP_fast_assign(
		__entry->dev		= rq->q->disk ? disk_devt(rq->q->disk) : 0;
		__entry->sector		= blk_rq_pos(rq);
		__entry->bytes		= bytes;
		__entry->hctx		= rq->mq_hctx->queue_num;
		__entry->key		= key;
		__entry->ahead		= ahead;
	),

	TP_printk("%d,%d %llu + %u hctx=%u flow=%u:%llu ahead=%lld",
		  MAJOR(__entry->dev), MINOR(__entry->dev),
		  (unsigned long long)__entry->sector, __entry->bytes, __entry->hctx,
		  (unsigned int)flow_key_kind(__entry->key), flow_key_id(__entry->key),
		  __entry->ahead)
);

DEFINE_EVENT(mqfq_request, mqfq_tag,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
);

DEFINE_EVENT(mqfq_request, mqfq_dispatch,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
);

/* Its tag is forgotten by then: ahead is 0. */
DEFINE_EVENT(mqfq_request, mqfq_complete,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
);

DECLARE_EVENT_CLASS(mqfq_hctx,

	TP_PROTO(struct request_queue *q, unsigned int hctx),

	TP_ARGS(q, hctx),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u32,		hctx		)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->hctx		= hctx;
	),

	TP_printk("%d,%d hctx=%u", MAJOR(__entry->dev), MINOR(__entry->dev), __entry->hctx)
);

DEFINE_EVENT(mqfq_hctx, mqfq_throttle,
	TP_PROTO(struct request_queue *q, unsigned int hctx),
	TP_ARGS(q, hctx)
);

DEFINE_EVENT(mqfq_hctx, mqfq_unthrottle,
	TP_PROTO(struct request_queue *q, unsigned int hctx),
	TP_ARGS(q, hctx)
);

DEFINE_EVENT(mqfq_hctx, mqfq_slot_wait,
	TP_PROTO(struct request_queue *q, unsigned int hctx),
	TP_ARGS(q, hctx)
);

DEFINE_EVENT(mqfq_hctx, mqfq_slot,
	TP_PROTO(struct request_queue *q, unsigned int hctx),
	TP_ARGS(q, hctx)
);

/* "gain_ppm" is what the last comparison found that the larger value brings. */
TRACE_EVENT(mqfq_auto,

	TP_PROTO(struct request_queue *q, u32 slots, u32 throttle_kb, bool probing, s64 gain_ppm),

	TP_ARGS(q, slots, throttle_kb, probing, gain_ppm),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u32,		slots		)
		__field(	u32,		throttle_kb	)
		__field(	bool,		probing		)
		__field(	s64,		gain_ppm	)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->slots		= slots;
		__entry->throttle_kb	= throttle_kb;
		__entry->probing	= probing;
		__entry->gain_ppm	= gain_ppm;
	),

	TP_printk("%d,%d slots=%u throttle_kb=%u probing=%d gain_ppm=%lld",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->slots, __entry->throttle_kb,
		  __entry->probing, __entry->gain_ppm)
);

/* A window of the target has ended: what it was like, and how many slots the law wants now. */
TRACE_EVENT(mqfq_target,

	TP_PROTO(struct request_queue *q, const struct tail *law),

	TP_ARGS(q, law),

	TP_STRUCT__entry(
		__field(	dev_t,		dev		)
		__field(	u32,		bound		)
		__field(	u32,		next		)
		__field(	u32,		nr_rt		)
		__field(	u32,		nr_beyond	)
		__field(	u64,		p999_ns		)
		__field(	bool,		is_unmet	)
	),

	TP_fast_assign(
		__entry->dev		= q->disk ? disk_devt(q->disk) : 0;
		__entry->bound		= law->last.bound;
		__entry->next		= law->bound;
		__entry->nr_rt		= law->last.nr_rt;
		__entry->nr_beyond	= law->last.nr_beyond;
		__entry->p999_ns	= law->last.p999_ns;
		__entry->is_unmet	= law->is_unmet;
	),

	TP_printk("%d,%d slots=%u next=%u realtime=%u beyond=%u p999_ns=%llu unmet=%d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->bound, __entry->next,
		  __entry->nr_rt, __entry->nr_beyond, __entry->p999_ns, __entry->is_unmet)
);

#endif /* _MQ_MQFQ_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
