/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events of mq-k2 (mq-k2/trace.h) as LTTng sees them. LTTng wants the system as the prefix of
 * each event's name, so the system is k2 here and not mq_k2.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM k2

#if !defined(MQFAIR_LTTNG_K2_H) || defined(TRACE_HEADER_MULTI_READ)
#define MQFAIR_LTTNG_K2_H

#include <lttng/tracepoint-event.h>

LTTNG_TRACEPOINT_EVENT_CLASS(k2_request,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),
	TP_ARGS(rq, bytes, ioprio, inflight, passed),
	TP_FIELDS(
		ctf_integer(dev_t, dev, rq->q->disk ? disk_devt(rq->q->disk) : 0)
		ctf_integer(sector_t, sector, blk_rq_pos(rq))
		ctf_integer(u32, bytes, bytes)
		ctf_integer(u8, class, IOPRIO_PRIO_CLASS(ioprio))
		ctf_integer(u8, level, IOPRIO_PRIO_LEVEL(ioprio))
		ctf_integer(u32, inflight, inflight)
		ctf_integer(u8, passed, passed)
	)
)

LTTNG_TRACEPOINT_EVENT_INSTANCE(k2_request, k2_insert,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),
	TP_ARGS(rq, bytes, ioprio, inflight, passed)
)

LTTNG_TRACEPOINT_EVENT_INSTANCE(k2_request, k2_dispatch,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, bool passed),
	TP_ARGS(rq, bytes, ioprio, inflight, passed)
)

LTTNG_TRACEPOINT_EVENT(k2_complete,
	TP_PROTO(struct request *rq, u32 bytes, u16 ioprio, u32 inflight, u64 latency_ns),
	TP_ARGS(rq, bytes, ioprio, inflight, latency_ns),
	TP_FIELDS(
		ctf_integer(dev_t, dev, rq->q->disk ? disk_devt(rq->q->disk) : 0)
		ctf_integer(sector_t, sector, blk_rq_pos(rq))
		ctf_integer(u32, bytes, bytes)
		ctf_integer(u8, class, IOPRIO_PRIO_CLASS(ioprio))
		ctf_integer(u8, level, IOPRIO_PRIO_LEVEL(ioprio))
		ctf_integer(u32, inflight, inflight)
		ctf_integer(u64, latency_ns, latency_ns)
	)
)

#endif

#include <lttng/define_trace.h>
