/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_charge.h - what a request is charged: its bytes, or the device time that it takes
 */
#ifndef MQFAIR_MQFQ_CHARGE_H
#define MQFAIR_MQFQ_CHARGE_H

#include <linux/blk-mq.h>
#include <linux/minmax.h>
#include <linux/percpu.h>

#include "flow.h"
#include "mqfq_cost.h"

/* What is shared. */
enum mqfq_charge_kind {
	MQFQ_CHARGE_BYTES,
	MQFQ_CHARGE_TIME,
	MQFQ_CHARGE_NR_KINDS,
};

extern const char *const mqfq_charge_name[MQFQ_CHARGE_NR_KINDS];

/**
 * struct mqfq_charge - what requests of one device are charged
 * @kind:		enum mqfq_charge_kind
 * @write_cost_pct:	of a byte written, against one read, if bytes are shared
 * @discard_cost_pct:	of a request that discards or zeroes, against a read of its size
 * @law:		what requests cost in time, if that is shared; the tuner's lock guards it
 * @counts:		what was completed since the device was attached, while time was shared
 * @sum:		that of all CPUs, when the last window ended
 * @was_full:		requests waited for the device then
 */
struct mqfq_charge {
	unsigned int kind;
	unsigned int write_cost_pct;
	unsigned int discard_cost_pct;
	struct mqfq_cost law;
	struct mqfq_cost_counts __percpu *counts;
	struct mqfq_cost_counts sum;
	bool was_full;
};

/* Requests that change the drive's map and move no data. */
static inline bool mqfq_is_slow(enum req_op op)
{
	return op == REQ_OP_DISCARD || op == REQ_OP_SECURE_ERASE || op == REQ_OP_WRITE_ZEROES;
}

/* Bytes are shared. Return: 0 or -ENOMEM. */
int mqfq_charge_init(struct mqfq_charge *c);
void mqfq_charge_exit(struct mqfq_charge *c);

/* What is shared from now on. Under the tuner's lock. */
void mqfq_charge_set_kind(struct mqfq_charge *c, enum mqfq_charge_kind kind);

static inline bool mqfq_charge_is_time(const struct mqfq_charge *c)
{
	return READ_ONCE(c->kind) == MQFQ_CHARGE_TIME;
}

/* Time is known of these only. */
static inline bool mqfq_is_transfer(const struct request *rq)
{
	return req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE;
}

/* What such a request is, for the law. */
static inline enum mqfq_cost_op mqfq_charge_op(const struct request *rq)
{
	if (req_op(rq) == REQ_OP_READ)
		return MQFQ_COST_READ;
	return rq->cmd_flags & REQ_FUA ? MQFQ_COST_FUA : MQFQ_COST_WRITE;
}

/* mqfq_charge_of(), for what is no read and not counted in time. */
u64 mqfq_charge_of_other(const struct mqfq_charge *c, const struct request *rq, u32 bytes);

/*
 * What a request costs, if it had @bytes: in bytes read, or in bytes that the device moves in that
 * time. Even a request at 0 percent takes a command.
 */
static __always_inline u64 mqfq_charge_of(const struct mqfq_charge *c, const struct request *rq,
					  u32 bytes)
{
	u64 cost = bytes;

	if (unlikely(mqfq_charge_is_time(c)) && mqfq_is_transfer(rq))
		cost = mqfq_cost_charged(&c->law, mqfq_charge_op(rq), bytes);
	else if (req_op(rq) != REQ_OP_READ)
		cost = mqfq_charge_of_other(c, rq, bytes);
	return clamp_t(u64, cost, SECTOR_SIZE, 1ULL << FLOW_COST_SHIFT_MAX);
}

/* A request of @bytes is completed, and time is shared. Any context. */
static inline void mqfq_charge_completed(struct mqfq_charge *c, const struct request *rq,
					 u32 bytes)
{
	unsigned int cell;

	if (!mqfq_is_transfer(rq))
		return;
	cell = mqfq_cost_cell(mqfq_charge_op(rq), bytes);
	this_cpu_inc(c->counts->nr[cell]);
	this_cpu_add(c->counts->bytes[cell], bytes);
}

/**
 * mqfq_charge_window() - a window is over, and time is shared
 * @c:		device; under the tuner's lock
 * @ns:		how long it was; 0: what was in it does not count
 * @is_full:	there is no slot free, and there were requests that waited for one
 * @served:	what was served in it, as it was charged
 *
 * Return: @served, as costs were known.
 */
u64 mqfq_charge_window(struct mqfq_charge *c, u64 ns, bool is_full, u64 served);

#endif /* MQFAIR_MQFQ_CHARGE_H */
