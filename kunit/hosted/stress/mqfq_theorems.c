// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_theorems.c - theorems 1 and 2 of MQFQ, and what else must hold, over random worlds
 *
 *	mqfq_theorems [REQUESTS]		10 million by default; KTAP on standard output
 *	mqfq_theorems FAMILY SEED [REQUESTS]	one world of a family (1 to 7), event by event
 *
 * What is simulated and what is checked is told in ../../sim/sim.h. A failure names its family
 * and seed. The figures are the worst over all pairs of flows and all intervals, see sim_ratios.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../mq-mqfq/mqfq_permit.c"
#include "../../../mq-mqfq/mqfq_policy.c"
#include "../../../mq-mqfq/mqfq_rescale.c"
#include "../../../mq-mqfq/mqfq_rt.c"
#include "../../../mq-mqfq/mqfq_slots.c"
#include "../../../mq-mqfq/mqfq_stuck.c"
#include "../../sim/sim.h"

enum {
	REQUESTS_DEFAULT	= 10000000,
	MIXES_PER_LINE		= 100,
};

static const struct family {
	const char *name;
	enum sim_kind kind;
	unsigned int percent;		/* of all requests */
	unsigned int nr_requests;	/* per mix */
} families[] = {
	{ "theorem_1",	SIM_THEOREM_1,	10,  10000 },
	{ "theorem_2",	SIM_THEOREM_2,	25,  10000 },
	{ "changes",	SIM_CHANGES,	13,  10000 },
	{ "liveness",	SIM_LIVENESS,	12,  10000 },
	{ "shares",	SIM_SHARES,	10, 100000 },
	{ "tree",	SIM_TREE,	10,  10000 },
	{ "time",	SIM_TIME,	20, 400000 },
};

struct total {
	unsigned int nr_mixes, nr_failed;
	u64 requests;
	struct sim_ratios worst;
};

__attribute__((format(printf, 1, 2)))
static void tell(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
}

static void describe(const struct sim_mix *mix)
{
	unsigned int i;

	printf("# queues %u D %u T %llu order %d first %llu wheel %u %u change %u\n",
	       mix->nr_queues, mix->slots, mix->throttle_vt, mix->order, mix->first_vt,
	       mix->wheel.width_shift, mix->wheel.buckets_shift, mix->change_every);
	for (i = 0; i < mix->nr_flows; i++) {
		const struct sim_flow_mix *f = &mix->flow[i];

		printf("# flow %u weight %u queues %x arrival %d depth %u ", i, f->weight,
		       f->queues, f->arrival, f->depth);
		printf("sizes %d %u-%u sectors, %u to %u\n", f->sizes, f->least_sectors,
		       f->most_sectors, f->from, f->until);
	}
}

static void worse(struct sim_ratios *worst, const struct sim_ratios *other)
{
	worst->sent = max(worst->sent, other->sent);
	worst->completed = max(worst->completed, other->completed);
	worst->theorem = max(worst->theorem, other->theorem);
	worst->literal = max(worst->literal, other->literal);
	worst->exact = max(worst->exact, other->exact);
	worst->time = max(worst->time, other->time);
}

static void print_ratios(const struct sim_ratios *r)
{
	printf("# worst, of 1000: theorem %u (in bytes %u, literally %u), sent %u, completed %u\n",
	       r->theorem, r->exact, r->literal, r->sent, r->completed);
	if (r->time)
		printf("# shares of time differ by %u of 1000\n", r->time);
}

static void run_mix(const struct family *family, u64 seed, unsigned int nr_requests,
		    struct total *total)
{
	struct simulation *s = sim_new(family->kind, seed, nr_requests);
	const char *failure;

	if (!s)
		abort();
	failure = sim_run(s);
	total->nr_mixes++;
	if (failure) {
		total->nr_failed++;
		printf("# %s seed %llu requests %u: %s, at step %llu\n", family->name, seed,
		       nr_requests, failure, s->failed_at);
		describe(&s->mix);
	}
	total->requests += s->completed;
	worse(&total->worst, &s->ratios);
	if (sim_tell)
		print_ratios(&s->ratios);
	sim_free(s);
}

static void print_total(const struct total *total)
{
	printf("# %u mixes, %llu requests\n", total->nr_mixes, total->requests);
	print_ratios(&total->worst);
}

/* At least one mix of each family, however few requests are wanted. */
static bool run_family(unsigned int number, u64 requests)
{
	const struct family *family = &families[number];
	struct total total = {};
	u64 seed;

	requests = requests * family->percent / 100;
	for (seed = 1; (total.requests < requests || seed == 1) && total.nr_failed < 3; seed++) {
		run_mix(family, seed, family->nr_requests, &total);
		if (seed % MIXES_PER_LINE == 0)
			print_total(&total);
	}
	print_total(&total);
	printf("%sok %u %s\n", total.nr_failed ? "not " : "", number + 1, family->name);
	return !total.nr_failed;
}

int main(int argc, char **argv)
{
	const unsigned int nr_families = sizeof(families) / sizeof(families[0]);
	u64 requests = argc == 2 ? strtoull(argv[1], NULL, 0) : REQUESTS_DEFAULT;
	unsigned int i, number = argc > 2 ? strtoul(argv[1], NULL, 0) : 0;
	bool ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (number > nr_families || !requests) {
		fprintf(stderr, "usage: %s [REQUESTS] | FAMILY SEED [REQUESTS]\n", argv[0]);
		return 2;
	}
	if (number) {
		struct total total = {};

		sim_tell = tell;
		run_mix(&families[number - 1], strtoull(argv[2], NULL, 0),
			argc > 3 ? strtoul(argv[3], NULL, 0) : families[number - 1].nr_requests,
			&total);
		return total.nr_failed;
	}
	printf("KTAP version 1\n1..%u\n", nr_families);
	for (i = 0; i < nr_families; i++)
		ok &= run_family(i, requests);
	return !ok;
}
