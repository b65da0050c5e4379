// SPDX-License-Identifier: GPL-2.0
/*
 * tail_meter.c - what the law of tail.h is told, and what it shows; the manual is in tail_meter.h
 */
#include <linux/export.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "blk/tail_meter.h"

void tail_meter_sum(const struct tail_sums __percpu *counts, struct tail_sums *sums)
{
	unsigned int i;
	int cpu;

	memset(sums, 0, sizeof(*sums));
	for_each_possible_cpu(cpu) {
		const struct tail_sums *c = per_cpu_ptr(counts, cpu);

		sums->nr += READ_ONCE(c->nr);
		sums->nr_limited += READ_ONCE(c->nr_limited);
		sums->bytes += READ_ONCE(c->bytes);
		sums->be_bytes += READ_ONCE(c->be_bytes);
		sums->be_read_bytes += READ_ONCE(c->be_read_bytes);
		sums->nr_beyond += READ_ONCE(c->nr_beyond);
		if (!READ_ONCE(c->nr_rt))
			continue;
		sums->nr_rt += READ_ONCE(c->nr_rt);
		for (i = 0; i < TAIL_NR_BINS; i++)
			sums->bin[i] += READ_ONCE(c->bin[i]);
	}
}
EXPORT_SYMBOL_GPL(tail_meter_sum);

static const char *tail_verdict(const struct tail *a)
{
	if (a->state != TAIL_HOLD)
		return "not yet known";
	if (a->is_unmet)
		return "can not be met";
	return a->last.is_violated || (a->is_above && a->last.is_short) ? "missed" : "met";
}

void tail_meter_show(const struct tail *a, struct seq_file *m)
{
	static const char *const states[] = { "off", "reference", "search", "hold" };
	const struct tail_window *w = &a->last;

	seq_printf(m, "state %s\n", states[a->state]);
	seq_printf(m, "bound %u\n", a->bound);
	if (!a->nr_windows)
		return;
	seq_printf(m, "target %s\n", tail_verdict(a));
	seq_printf(m, "windows %llu\n", a->nr_windows);
	seq_printf(m, "window_ms %llu\n", div_u64(w->ns, NSEC_PER_MSEC));
	seq_printf(m, "window_bound %u\n", w->bound);
	seq_printf(m, "realtime_requests %lu\n", w->nr_rt);
	seq_printf(m, "beyond_target %lu\n", w->nr_beyond);
	seq_printf(m, "p999_us %llu\n", div_u64(w->p999_ns, NSEC_PER_USEC));
	seq_printf(m, "bandwidth_kbps %llu\n", w->bytes_per_s >> 10);
	seq_printf(m, "reference_kbps %llu\n", a->reference_bytes_per_s >> 10);
	seq_printf(m, "best_p999_us %llu\n", div_u64(a->best_p999_ns, NSEC_PER_USEC));
	seq_printf(m, "best_bound %u\n", a->best_bound);
}
EXPORT_SYMBOL_GPL(tail_meter_show);
