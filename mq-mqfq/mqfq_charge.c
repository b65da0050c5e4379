// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_charge.c - what a request is charged: its bytes, or the device time that it takes
 *
 * While bytes are shared, a request costs its bytes, and those of writes count write_cost_pct
 * percent. While time is shared, it costs what mqfq_cost.c has learned. The hooks count what is
 * completed, each CPU for itself; the tuner's work item ends the windows, in which the law learns.
 * What is sent would say less: much of what is at the device has not been begun.
 *
 * A slow request takes a drive milliseconds, almost whatever its size: the drive changes its map,
 * under one lock. So bytes say little. It counts as MQFQ_SLOW_KB_MIN at least, of which a fast
 * drive reads some ten in a millisecond, and as MQFQ_SLOW_KB_MAX at most: a discard of 1 GiB is one
 * command and not a second of reading. Its time is not learned, since what bounds it are permits.
 */
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/time64.h>

#include "compat.h"
#include "mqfq_charge.h"

enum {
	/* What a slow request counts, in percent of MQFQ_SLOW_KB_MIN to _MAX. */
	MQFQ_DISCARD_COST_PCT_DEFAULT	= 100,
	MQFQ_SLOW_KB_MIN		= 128,
	MQFQ_SLOW_KB_MAX		= 1024,
};

const char *const mqfq_charge_name[MQFQ_CHARGE_NR_KINDS] = {
	[MQFQ_CHARGE_BYTES]	= "bytes",
	[MQFQ_CHARGE_TIME]	= "time",
};

noinline u64 mqfq_charge_of_other(const struct mqfq_charge *c, const struct request *rq, u32 bytes)
{
	if (mqfq_is_slow(req_op(rq)))
		return div_u64(clamp_t(u64, bytes, MQFQ_SLOW_KB_MIN << 10, MQFQ_SLOW_KB_MAX << 10) *
			       READ_ONCE(c->discard_cost_pct), 100);
	return op_is_write(req_op(rq)) ?
	       div_u64((u64)bytes * READ_ONCE(c->write_cost_pct), 100) : bytes;
}

static void mqfq_charge_sum(const struct mqfq_charge *c, struct mqfq_cost_counts *sum)
{
	unsigned int i;
	int cpu;

	*sum = (struct mqfq_cost_counts) {};
	for_each_possible_cpu(cpu) {
		const struct mqfq_cost_counts *counts = per_cpu_ptr(c->counts, cpu);

		for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
			sum->nr[i] += READ_ONCE(counts->nr[i]);
			sum->bytes[i] += READ_ONCE(counts->bytes[i]);
		}
	}
}

u64 mqfq_charge_window(struct mqfq_charge *c, u64 ns, bool is_full, u64 served)
{
	struct mqfq_cost_counts sum, counts;
	unsigned int i;

	mqfq_charge_sum(c, &sum);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		counts.nr[i] = sum.nr[i] - c->sum.nr[i];
		counts.bytes[i] = sum.bytes[i] - c->sum.bytes[i];
	}
	served = mqfq_cost_unvaried(&c->law, &counts, served);
	mqfq_cost_window(&c->law, ns, &counts, ns && is_full && c->was_full);
	c->sum = sum;
	c->was_full = is_full;
	return served;
}

void mqfq_charge_set_kind(struct mqfq_charge *c, enum mqfq_charge_kind kind)
{
	if (kind == MQFQ_CHARGE_TIME) {
		mqfq_cost_pause(&c->law);
		mqfq_charge_sum(c, &c->sum);
		c->was_full = false;
	}
	/* A CPU that sees this early charges by old costs. */
	WRITE_ONCE(c->kind, kind);
}

int mqfq_charge_init(struct mqfq_charge *c)
{
	c->kind = MQFQ_CHARGE_BYTES;
	c->write_cost_pct = 100;
	c->discard_cost_pct = MQFQ_DISCARD_COST_PCT_DEFAULT;
	mqfq_cost_init(&c->law);
	c->counts = mqfair_alloc_percpu(struct mqfq_cost_counts);
	return c->counts ? 0 : -ENOMEM;
}

void mqfq_charge_exit(struct mqfq_charge *c)
{
	free_percpu(c->counts);
}
