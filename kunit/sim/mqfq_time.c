// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_time.c - mq-mqfq's policy where tenants share time: what requests truly take, and what the
 * law of mqfq_cost.c charges for them
 *
 * See sim.h. A request takes the device a time for its operation, and more by its size. The law
 * does not know these numbers. It is told what completes, as the kernel module tells it, and says
 * what each request is charged from the first one on.
 */
#include <linux/math64.h>
#include <linux/minmax.h>

#include "sim.h"

#ifndef __KERNEL__
/* In the kernel the suite mqfq_cost has it. */
#include "../../mq-mqfq/mqfq_cost.c"
#endif

enum {
	SIM_TIME_WINDOW_NS	= 10 * 1000 * 1000,
	/* By so much shares may differ. Most worlds are within a twentieth. */
	SIM_TIME_OFF_PCT	= 15,
};

/* A request is issued: what it takes, and what it is charged. */
void sim_price(struct simulation *s, struct sim_request *r)
{
	unsigned int op = s->flow[r->flow].mix->op;

	r->ticks = s->mix.base_ns[op] + ((u64)s->mix.kib_ns[op] * r->size >> 10);
	r->bytes = max_t(u64, mqfq_cost_charged(&s->law, op, r->size), SIM_SECTOR_BYTES);
}

static void sim_end_cost_window(struct simulation *s)
{
	mqfq_cost_window(&s->law, s->now - s->window_since, &s->counts, true);
	s->counts = (struct mqfq_cost_counts) {};
	s->window_since = s->now;
}

void sim_time_completed(struct simulation *s, const struct sim_request *r)
{
	unsigned int cell = mqfq_cost_cell(s->flow[r->flow].mix->op, r->size);

	s->counts.nr[cell]++;
	s->counts.bytes[cell] += r->size;
	s->flow[r->flow].ns += r->ticks;
	if (s->now - s->window_since >= SIM_TIME_WINDOW_NS)
		sim_end_cost_window(s);
}

/* The device's time between the marks, by weight. */
void sim_check_time(struct simulation *s)
{
	u64 least = U64_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		const struct sim_flow *f = &s->flow[i];
		u64 share = div_u64((f->ns - f->ns_at_mark) * SIM_VT_PER_BYTE, f->mix->weight);

		least = min(least, share);
		most = max(most, share);
	}
	sim_ratio(&s->ratios.time, most - least, most);
	SIM_CHECK(s, most - least <= div_u64(most * SIM_TIME_OFF_PCT, 100),
		  "shares of the device's time are too different");
}
