/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tail_meter.h - latencies of real-time requests, counted by each CPU, for the law of tail.h
 *
 * A completion adds to the counters and the histogram of its CPU, without a lock, in any context.
 */
#ifndef MQFAIR_BLK_TAIL_METER_H
#define MQFAIR_BLK_TAIL_METER_H

#include <linux/percpu.h>
#include <linux/types.h>

#include "tail.h"

struct seq_file;

enum {
	/* One part in so many of a target is kept for what the hooks do not see. */
	TAIL_UNSEEN_PART	= 64,
};

/*
 * What the law has to aim at. A task waits from before the insert until after the completion:
 * system call, allocation of a tag, wake-up.
 */
static inline u64 tail_aim_ns(u64 target_ns)
{
	return target_ns - target_ns / TAIL_UNSEEN_PART;
}

/**
 * tail_meter_count() - a request is completed
 * @counts:	of the CPUs
 * @bytes:	its size
 * @is_limited:	others wait because of the bound
 * @is_rt:	it is a real-time request: tail_meter_rt() follows, if its latency is known
 * @is_read:	it is a read
 */
static inline void tail_meter_count(struct tail_sums __percpu *counts, u32 bytes, bool is_limited,
				    bool is_rt, bool is_read)
{
	this_cpu_inc(counts->nr);
	if (is_limited)
		this_cpu_inc(counts->nr_limited);
	this_cpu_add(counts->bytes, bytes);
	if (is_rt)
		return;
	this_cpu_add(counts->be_bytes, bytes);
	if (is_read)
		this_cpu_add(counts->be_read_bytes, bytes);
}

static inline void tail_meter_rt(struct tail_sums __percpu *counts, u64 latency_ns, u64 aim_ns)
{
	this_cpu_inc(counts->nr_rt);
	if (latency_ns > aim_ns)
		this_cpu_inc(counts->nr_beyond);
	this_cpu_inc(counts->bin[tail_bin(latency_ns)]);
}

/*
 * Adds up all CPUs. Completions may run meanwhile: a request may be counted as done in this sum and
 * as beyond the target in the next.
 */
void tail_meter_sum(const struct tail_sums __percpu *counts, struct tail_sums *sums);

/*
 * Is it certain that the target cannot be met? The first window of the hold shows what the best
 * bound gives: it may lie between aim and target.
 */
static inline bool tail_meter_is_unmet(const struct tail *a, u64 target_ns)
{
	return a->state == TAIL_HOLD && a->is_unmet && a->calm && a->best_p999_ns > target_ns;
}

/* The state of the law and its last window, a line each. */
void tail_meter_show(const struct tail *a, struct seq_file *m);

#endif /* MQFAIR_BLK_TAIL_METER_H */
