/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events of mq-mqfq (mq-mqfq/trace.h) as LTTng sees them. LTTng wants the system as the prefix
 * of each event's name, so the system is mqfq here and not mq_mqfq.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mqfq

#if !defined(MQFAIR_LTTNG_MQFQ_H) || defined(TRACE_HEADER_MULTI_READ)
#define MQFAIR_LTTNG_MQFQ_H

#include <lttng/tracepoint-event.h>

LTTNG_TRACEPOINT_EVENT_CLASS(mqfq_request,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead),
	TP_FIELDS(
		ctf_integer(dev_t, dev, rq->q->disk ? disk_devt(rq->q->disk) : 0)
		ctf_integer(sector_t, sector, blk_rq_pos(rq))
		ctf_integer(u32, bytes, bytes)
		ctf_integer(u64, flow, key)
		ctf_integer(s64, ahead, ahead)
	)
)

LTTNG_TRACEPOINT_EVENT_INSTANCE(mqfq_request, mqfq_tag,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
)

LTTNG_TRACEPOINT_EVENT_INSTANCE(mqfq_request, mqfq_dispatch,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
)

LTTNG_TRACEPOINT_EVENT_INSTANCE(mqfq_request, mqfq_complete,
	TP_PROTO(struct request *rq, u32 bytes, u64 key, s64 ahead),
	TP_ARGS(rq, bytes, key, ahead)
)

#endif

#include <lttng/define_trace.h>
