// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_policy_kunit.c - mq-octofas's policy against closed forms
 *
 * Each test makes the counts of a window, and computes by hand what the equations of the papers
 * say: slowdown and F, U and LB, which flows are dense, B, the truth table, how many requests move,
 * and where to. Tests in guests judge what a decision does to a real load.
 *
 * The policy is compiled into this file: the suite needs no other module, and runs in user space
 * under sanitizers as well (kunit/hosted).
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../mq-octofas/octofas_policy.c"

#define US	1000ULL
#define MS	1000000ULL

enum {
	NR_QUEUES	= 6,
	DENSE		= 7,
	SPARSE		= 9,
	BASE_US		= 100,
};

struct context {
	struct octofas_policy policy;
	struct octofas_config config;
	struct octofas_flow_sample flow[OCTOFAS_FLOWS];
	struct octofas_queue_sample queue[NR_QUEUES];
	u64 home_ns[NR_QUEUES * OCTOFAS_FLOWS];
	struct octofas_sample sample;
};

static struct context *context(struct kunit *test)
{
	return test->priv;
}

static int octofas_policy_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	test->priv = c;
	c->config = (struct octofas_config){
		.mode = OCTOFAS_AUTO,
		.migrate = OCTOFAS_MOVE_DENSE,
		.spread = OCTOFAS_RR,
		.fair_pct = 90,
		.balance_pct = 60,
		.overload_pct = 40,
		.alpha_pct = 500,
		.max_backward = 20,
	};
	c->sample = (struct octofas_sample) {
		.length_ns = 100 * MS, .flow = c->flow, .queue = c->queue, .home_ns = c->home_ns,
	};
	return octofas_policy_init(&c->policy, NR_QUEUES, &c->config, GFP_KERNEL);
}

static void octofas_policy_test_exit(struct kunit *test)
{
	if (test->priv)
		octofas_policy_destroy(&context(test)->policy);
}

static void clear(struct context *c)
{
	u32 i;

	memset(c->flow, 0, sizeof(c->flow));
	memset(c->home_ns, 0, sizeof(c->home_ns));
	for (i = 0; i < NR_QUEUES; i++)
		c->queue[i] = (struct octofas_queue_sample) { .usable = true };
}

/*
 * @nr requests of a flow, which came to @home and were served by @served, each @latency_us long and
 * @alone_us if alone.
 */
static void add(struct context *c, u32 flow, u32 home, u32 served, u64 nr, u64 latency_us,
		u64 alone_us)
{
	c->flow[flow].nr += nr;
	c->flow[flow].latency_ns += nr * latency_us * US;
	c->flow[flow].alone_ns += nr * alone_us * US;
	c->queue[served].nr += nr;
	c->queue[served].latency_ns += nr * latency_us * US;
	c->queue[served].base_ns += nr * BASE_US * US;
	c->home_ns[home * OCTOFAS_FLOWS + flow] += nr * latency_us * US;
}

/* A load of @mean requests outstanding, with the latency that is given. */
static void load(struct context *c, u32 flow, u32 queue, u32 mean_thousandths, u64 latency_us,
		 u64 alone_us)
{
	add(c, flow, queue, queue, (u64)mean_thousandths * 100 * MS / (1000 * latency_us * US),
	    latency_us, alone_us);
}

/* The paper's scenario: a dense flow fills two of six queues, in which a sparse one lives. */
static void crowded(struct context *c)
{
	u32 i;

	clear(c);
	for (i = 0; i < 2; i++) {
		load(c, DENSE, i, 2000, 200, 160);
		load(c, SPARSE, i, 1000, 200, 100);
	}
	for (; i < NR_QUEUES; i++)
		load(c, DENSE, i, 1000, 100, 100);
}

/* All flows are alike, and so are the queues. */
static void calm(struct context *c)
{
	u32 i;

	clear(c);
	for (i = 0; i < NR_QUEUES; i++) {
		load(c, DENSE, i, 1000, 110, 105);
		load(c, SPARSE, i, 1000, 110, 105);
	}
}

/* Unfair in balanced queues. */
static void unfair(struct context *c)
{
	u32 i;

	clear(c);
	for (i = 0; i < NR_QUEUES; i++) {
		load(c, DENSE, i, 2000, 200, 190);
		load(c, SPARSE, i, 500, 200, 100);
	}
}

/* Fair, and two queues overloaded. */
static void imbalanced(struct context *c)
{
	u32 i;

	clear(c);
	for (i = 0; i < 2; i++) {
		load(c, DENSE, i, 2000, 200, 200);
		load(c, SPARSE, i, 2000, 200, 200);
	}
	for (; i < NR_QUEUES; i++)
		load(c, DENSE, i, 400, 100, 100);
}

static void window(struct context *c)
{
	octofas_window(&c->policy, &c->sample);
}

static void set(struct context *c, u32 mode, u32 migrate, u32 spread)
{
	c->config.mode = mode;
	c->config.migrate = migrate;
	c->config.spread = spread;
	octofas_set_config(&c->policy, &c->config);
}

/* ---- the monitor ---- */

static void alone_test(struct kunit *test)
{
	u64 base_ns = 1000;
	u32 i;

	/* Half of the wait is others', when half of what was there was. */
	KUNIT_EXPECT_EQ(test, octofas_others(0, 0), 0);
	KUNIT_EXPECT_EQ(test, octofas_others(4, 4), 0);
	KUNIT_EXPECT_EQ(test, octofas_others(4, 2), 127);
	KUNIT_EXPECT_EQ(test, octofas_others(3, 0), 255);
	KUNIT_EXPECT_EQ(test, octofas_alone_ns(100 * US, 40 * US, 0), 100 * US);
	KUNIT_EXPECT_EQ(test, octofas_alone_ns(100 * US, 40 * US, 255), 40 * US + 60 * US % 255);
	KUNIT_EXPECT_EQ(test, octofas_alone_ns(30 * US, 40 * US, 255), 30 * US);

	/* The base falls at once, and forgets slowly. */
	KUNIT_EXPECT_EQ(test, octofas_base_ns(0, 500), 500);
	KUNIT_EXPECT_EQ(test, octofas_base_ns(500, U64_MAX), 500);
	KUNIT_EXPECT_EQ(test, octofas_base_ns(500, 400), 400);
	KUNIT_EXPECT_EQ(test, octofas_base_ns(1000, 1640), 1010);
	for (i = 0; i < 300; i++)
		base_ns = octofas_base_ns(base_ns, 64000);
	KUNIT_EXPECT_GT(test, base_ns, 60000);
}

static void fairness_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u64 dense_ns, alone_ns;
	u32 i;

	crowded(c);
	window(c);
	dense_ns = c->flow[DENSE].latency_ns;
	alone_ns = c->flow[DENSE].alone_ns;
	KUNIT_EXPECT_EQ(test, p->flow[SPARSE].slowdown, 2000);
	KUNIT_EXPECT_EQ(test, p->flow[DENSE].slowdown, div64_u64(dense_ns * 1000, alone_ns));
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->fairness,
			div_u64(p->flow[DENSE].slowdown * 1000ULL, 2000));
	KUNIT_EXPECT_EQ(test, p->flow[DENSE].intensity, c->flow[DENSE].nr * 10);
	KUNIT_EXPECT_TRUE(test, p->flow[DENSE].dense);
	KUNIT_EXPECT_FALSE(test, p->flow[SPARSE].dense);

	/*
	 * What is known of a flow stays while it has few requests, until it has had enough to be
	 * judged again.
	 */
	clear(c);
	load(c, DENSE, 0, 3000, 300, 100);
	add(c, SPARSE, 0, 0, OCTOFAS_LEAST_REQUESTS / 2, 400, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, p->flow[DENSE].slowdown, 3000);
	KUNIT_EXPECT_EQ(test, p->flow[SPARSE].slowdown, 2000);
	window(c);
	KUNIT_EXPECT_EQ(test, p->flow[SPARSE].slowdown, 4000);
	KUNIT_EXPECT_EQ(test, p->flow[SPARSE].intensity, OCTOFAS_LEAST_REQUESTS * 5);

	/* One that has gone is forgotten. One flow is fair to itself, and so is none. */
	clear(c);
	load(c, DENSE, 0, 3000, 300, 100);
	for (i = 0; i < OCTOFAS_PATIENCE; i++) {
		KUNIT_EXPECT_LT(test, octofas_last_window(p)->fairness, OCTOFAS_ONE);
		window(c);
	}
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->fairness, OCTOFAS_ONE);
	clear(c);
	for (i = 0; i < OCTOFAS_PATIENCE; i++)
		window(c);
	KUNIT_EXPECT_EQ(test, p->flow[DENSE].slowdown, 0);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->fairness, OCTOFAS_ONE);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->balance, OCTOFAS_ONE);
}

static void balance_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 i;

	clear(c);
	/* Came to queue 0, served by queue 1. */
	add(c, DENSE, 0, 1, 1000, 200, 100);
	load(c, DENSE, 1, 1000, 200, 100);
	for (i = 2; i < NR_QUEUES; i++)
		load(c, DENSE, i, 500, 200, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, p->queue[0].home, 2000);
	KUNIT_EXPECT_EQ(test, p->queue[0].served, 0);
	KUNIT_EXPECT_EQ(test, p->queue[1].home, 1000);
	KUNIT_EXPECT_EQ(test, p->queue[1].served, 3000);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->balance, 0);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->home_balance, 250);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->average, 5000 / NR_QUEUES);

	/* A queue without a CPU is none. */
	c->queue[0].usable = false;
	window(c);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->home_balance, 500);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->average, 3000 / (NR_QUEUES - 1));
}

static void backward_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;

	set(c, OCTOFAS_INTRA, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	clear(c);
	add(c, DENSE, 0, 0, 800, 100, 100);
	add(c, SPARSE, 0, 0, 200, 100, 100);
	add(c, SPARSE + 1, 0, 0, 100, 100, 100);
	window(c);
	/* Equations 4 and 5: 5 * 800 / 150 = 26, and no more than 20. */
	KUNIT_EXPECT_EQ(test, octofas_backwards(p, DENSE), 20);
	KUNIT_EXPECT_EQ(test, octofas_backwards(p, SPARSE), 0);
	c->config.alpha_pct = 200;
	octofas_set_config(p, &c->config);
	KUNIT_EXPECT_EQ(test, octofas_backwards(p, DENSE), 10);
	c->config.max_backward = 4;
	octofas_set_config(p, &c->config);
	KUNIT_EXPECT_EQ(test, octofas_backwards(p, DENSE), 4);
	set(c, OCTOFAS_INTER, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	KUNIT_EXPECT_EQ(test, octofas_backwards(p, DENSE), 0);

	/*
	 * 2500 requests in 100 ms, 100 us each: 2.5 at a time keep the device busy, 2.8 with the
	 * eighth.
	 */
	set(c, OCTOFAS_INTRA, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	clear(c);
	add(c, DENSE, 0, 0, 2500, 200, 100);
	add(c, DENSE, 1, 1, 2500, 200, 100);
	add(c, SPARSE, 1, 1, 20, 200, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, p->queue[0].bound, 3);
	KUNIT_EXPECT_EQ(test, p->queue[0].patient_bound, 3);
	KUNIT_EXPECT_EQ(test, p->queue[1].bound, 3);
	KUNIT_EXPECT_EQ(test, p->queue[1].patient_bound, 2);
	KUNIT_EXPECT_EQ(test, p->queue[2].bound, U32_MAX);
	atomic_set(&p->queue[1].sent, 2);
	KUNIT_EXPECT_TRUE(test, octofas_may_send(&p->queue[1], false));
	KUNIT_EXPECT_FALSE(test, octofas_may_send(&p->queue[1], true));
	/* Behind a sparse flow's it may take the last place, too. */
	atomic_set(&p->queue[1].sent_sparse, 1);
	KUNIT_EXPECT_TRUE(test, octofas_may_send(&p->queue[1], true));
	atomic_set(&p->queue[1].sent, 3);
	KUNIT_EXPECT_FALSE(test, octofas_may_send(&p->queue[1], true));
	KUNIT_EXPECT_FALSE(test, octofas_may_send(&p->queue[1], false));
	/*
	 * One at a time, 1000 in 100 ms: the second may be sent, or a higher rate would never be
	 * seen.
	 */
	clear(c);
	add(c, DENSE, 3, 3, 995, 100, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, p->queue[3].bound, 2);
	/* The rate forgets an eighth at a time. */
	KUNIT_EXPECT_EQ(test, p->queue[0].peak, 25000 - 25000 / 8);
	set(c, OCTOFAS_NONE, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	KUNIT_EXPECT_EQ(test, p->queue[3].bound, U32_MAX);
	KUNIT_EXPECT_EQ(test, p->queue[3].patient_bound, U32_MAX);
}

/* ---- flags and the truth table ---- */

struct truth {
	const char *name;
	void (*sample)(struct context *c);
	u32 mode;
};

static const struct truth truths[] = {
	{ "neither", calm, OCTOFAS_NONE },
	{ "unfair", unfair, OCTOFAS_INTRA },
	{ "imbalanced", imbalanced, OCTOFAS_INTER },
	{ "both", crowded, OCTOFAS_HYBRID },
};
KUNIT_ARRAY_PARAM_DESC(truth, truths, name);

static void truth_test(struct kunit *test)
{
	const struct truth *t = test->param_value;
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 mode;

	t->sample(c);
	window(c);
	KUNIT_EXPECT_EQ(test, p->mode, t->mode);
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->unfair, !!(t->mode & OCTOFAS_INTRA));
	KUNIT_EXPECT_EQ(test, octofas_last_window(p)->imbalanced, !!(t->mode & OCTOFAS_INTER));
	/* Nothing changes what is forced, but that it has done enough: enough_test. */
	for (mode = OCTOFAS_NONE; mode < OCTOFAS_AUTO; mode++) {
		set(c, mode, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
		KUNIT_EXPECT_EQ(test, p->mode, mode);
		window(c);
		KUNIT_EXPECT_EQ(test, p->mode, mode);
	}
	/* Thresholds of 0 are never reached. */
	c->config.fair_pct = 0;
	c->config.balance_pct = 0;
	set(c, OCTOFAS_AUTO, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	for (mode = 0; mode <= OCTOFAS_HOLD_MIN; mode++)
		window(c);
	KUNIT_EXPECT_EQ(test, p->mode, OCTOFAS_NONE);
}

/*
 * Sparse flows that are better off than the dense one by more than is fair: nothing is sent back
 * for them.
 */
static void enough_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 i;

	unfair(c);
	set(c, OCTOFAS_HYBRID, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	window(c);
	KUNIT_EXPECT_EQ(test, p->mode, OCTOFAS_HYBRID);
	for (i = 0; i < 2; i++) {
		clear(c);
		load(c, DENSE, 0, 8000, 200, 100);
		load(c, SPARSE, 0, 2000, i ? 179 : 181, 100);
		window(c);
		KUNIT_EXPECT_EQ(test, p->mode, i ? OCTOFAS_INTER : OCTOFAS_HYBRID);
	}
	set(c, OCTOFAS_INTRA, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	window(c);
	KUNIT_EXPECT_EQ(test, p->mode, OCTOFAS_NONE);
	unfair(c);
	window(c);
	KUNIT_EXPECT_EQ(test, p->mode, OCTOFAS_INTRA);
}

/* Imbalance without overload: queues with nothing to wait for. */
static void overload_test(struct kunit *test)
{
	struct context *c = context(test);

	clear(c);
	load(c, DENSE, 0, 4000, 139, 139);
	load(c, DENSE, 1, 100, 100, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, octofas_last_window(&c->policy)->home_balance, 0);
	KUNIT_EXPECT_EQ(test, c->policy.mode, OCTOFAS_NONE);
	clear(c);
	load(c, DENSE, 0, 4000, 141, 141);
	load(c, DENSE, 1, 100, 100, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, c->policy.mode, OCTOFAS_INTER);
}

/* Two flows alike, but for what they have to wait: there is no dense one to send back. */
static void alike_test(struct kunit *test)
{
	struct context *c = context(test);

	clear(c);
	load(c, DENSE, 0, 1000, 200, 200);
	load(c, SPARSE, 0, 1000, 200, 100);
	window(c);
	KUNIT_EXPECT_EQ(test, octofas_last_window(&c->policy)->fairness, 500);
	KUNIT_EXPECT_FALSE(test, octofas_last_window(&c->policy)->unfair);
}

static u32 windows_until_calm(struct context *c)
{
	u32 n = 0;

	crowded(c);
	window(c);
	calm(c);
	while (c->policy.mode != OCTOFAS_NONE && n < 1000) {
		window(c);
		n++;
	}
	return n;
}

static void hold_test(struct kunit *test)
{
	struct context *c = context(test);
	u32 i;

	KUNIT_EXPECT_EQ(test, windows_until_calm(c), 4);
	KUNIT_EXPECT_EQ(test, windows_until_calm(c), 8);
	KUNIT_EXPECT_EQ(test, windows_until_calm(c), 16);
	for (i = 0; i < 5; i++)
		windows_until_calm(c);
	KUNIT_EXPECT_EQ(test, windows_until_calm(c), OCTOFAS_HOLD_MAX);
	/* After a while of calm it is forgotten. */
	for (i = 0; i < 10; i++)
		window(c);
	KUNIT_EXPECT_EQ(test, windows_until_calm(c), OCTOFAS_HOLD_MIN);
}

/* ---- which requests move, and where to ---- */

/* OctoKV's example: U_avg 0.4, two low queues with 0.2 and 0.3. */
static void round_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 nr[NR_QUEUES] = {}, i, spread;

	for (spread = 0; spread < OCTOFAS_NR_SPREADS; spread++) {
		clear(c);
		load(c, DENSE, 0, 1100, 200, 100);
		load(c, DENSE, 1, 200, 200, 100);
		load(c, DENSE, 2, 300, 200, 100);
		for (i = 3; i < NR_QUEUES; i++) {
			load(c, DENSE, i, 400, 200, 100);
			c->queue[i].usable = i != 3;
		}
		set(c, OCTOFAS_INTER, OCTOFAS_MOVE_ALL, spread);
		window(c);
		KUNIT_ASSERT_EQ(test, p->average, 480);
		memset(nr, 0, sizeof(nr));
		for (i = 0; i < p->nr_round; i++)
			nr[p->round[i]]++;
		KUNIT_EXPECT_EQ(test, nr[0], 0);
		KUNIT_EXPECT_EQ(test, nr[3], 0);
		if (spread == OCTOFAS_RR) {
			KUNIT_EXPECT_EQ(test, nr[1], 1);
			KUNIT_EXPECT_EQ(test, nr[2], 1);
			KUNIT_EXPECT_EQ(test, nr[4], 1);
			continue;
		}
		/* Room: 280, 180, 80, 80 of 620, in 32 places. */
		KUNIT_EXPECT_EQ(test, nr[1], 14);
		KUNIT_EXPECT_EQ(test, nr[2], 9);
		KUNIT_EXPECT_EQ(test, nr[4], 4);
		KUNIT_EXPECT_EQ(test, nr[5], 4);
	}
}

struct movers {
	const char *name;
	u32 migrate;
	u32 share_pct;
	bool dense, sparse;
};

/* Queues 0 and 1 have 3 each, 2 of them dense; the average is 10/6: 4/3 are too many. */
static const struct movers movers[] = {
	{ "all", OCTOFAS_MOVE_ALL, 44, true, true },
	{ "dense", OCTOFAS_MOVE_DENSE, 66, true, false },
	{ "sparse", OCTOFAS_MOVE_SPARSE, 100, false, true },
};
KUNIT_ARRAY_PARAM_DESC(movers, movers, name);

static void movers_test(struct kunit *test)
{
	const struct movers *m = test->param_value;
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 moved[2] = {}, i, target;

	set(c, OCTOFAS_INTER, m->migrate, OCTOFAS_RR);
	crowded(c);
	window(c);
	KUNIT_EXPECT_EQ(test, p->queue[0].share * 100 / OCTOFAS_CREDIT, m->share_pct);
	KUNIT_EXPECT_EQ(test, p->queue[2].share, 0);
	atomic_set(&p->queue[0].load, 3);
	for (i = 0; i < 1000; i++) {
		target = octofas_choose_target(p, 0, DENSE);
		moved[0] += target != OCTOFAS_NO_TARGET;
		if (target != OCTOFAS_NO_TARGET)
			KUNIT_EXPECT_GE(test, target, 2);
		moved[1] += octofas_choose_target(p, 0, SPARSE) != OCTOFAS_NO_TARGET;
		KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 2, DENSE), OCTOFAS_NO_TARGET);
	}
	KUNIT_EXPECT_EQ(test, moved[0] > 0, m->dense);
	KUNIT_EXPECT_EQ(test, moved[1] > 0, m->sparse);
	/* As many as the share says: of 2000 requests, or of one flow's 1000. */
	i = (m->dense && m->sparse ? 2000 : 1000) * m->share_pct / 100;
	KUNIT_EXPECT_GE(test, moved[0] + moved[1], i);
	KUNIT_EXPECT_LE(test, moved[0] + moved[1], i + i / 50 + 5);
}

static void room_test(struct kunit *test)
{
	struct context *c = context(test);
	struct octofas_policy *p = &c->policy;
	u32 i, moved, wanted;
	atomic_t coming;

	set(c, OCTOFAS_INTER, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	crowded(c);
	window(c);
	/* Its own queue has less than the average: the request stays with any credit. */
	atomic_set(&p->queue[0].load, 1);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), OCTOFAS_NO_TARGET);
	/* And so it does if all others are full, by what they have or by what is coming to them. */
	atomic_set(&p->queue[0].load, 3);
	atomic_set(&coming, 2);
	for (i = 2; i < NR_QUEUES; i++) {
		atomic_set(&p->queue[i].load, i == 2 ? 0 : 2);
		p->queue[i].coming = i == 2 ? &coming : NULL;
	}
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), OCTOFAS_NO_TARGET);
	atomic_set(&p->queue[4].load, 1);
	/* What was saved is four requests at most. */
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), 4);
	for (i = 0; octofas_choose_target(p, 0, DENSE) == 4; i++)
		KUNIT_ASSERT_LT(test, i, 10);
	/* One that stays after all gives its credit back. */
	atomic_set(&p->queue[0].credit, OCTOFAS_CREDIT - p->queue[0].share);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), 4);
	octofas_stay(p, 0);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), 4);

	/* In hybrid it yields: with one request in its queue, all at once, to no full queue. */
	set(c, OCTOFAS_HYBRID, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	window(c);
	atomic_set(&p->queue[0].load, 1);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), 4);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, SPARSE), OCTOFAS_NO_TARGET);
	atomic_set(&p->queue[4].load, 2);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), OCTOFAS_NO_TARGET);
	atomic_set(&p->queue[4].load, 1);
	/* Only what is dense leaves so; a sparse flow's request, if its queue has the average. */
	set(c, OCTOFAS_HYBRID, OCTOFAS_MOVE_ALL, OCTOFAS_RR);
	window(c);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, SPARSE), OCTOFAS_NO_TARGET);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), 4);
	atomic_set(&p->queue[0].load, 3);
	for (moved = 0, i = 0; i < 1000; i++)
		moved += octofas_choose_target(p, 0, SPARSE) == 4;
	/* Not all: as many as the queue has too much. */
	wanted = 1000ULL * p->queue[0].share / OCTOFAS_CREDIT;
	KUNIT_EXPECT_LT(test, wanted, 700);
	KUNIT_EXPECT_GE(test, moved, wanted - 10);
	KUNIT_EXPECT_LE(test, moved, wanted + 10);
	atomic_set(&p->queue[0].load, 1);
	set(c, OCTOFAS_HYBRID, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	/* One that has no sparse flow's requests does not. */
	crowded(c);
	c->home_ns[0 * OCTOFAS_FLOWS + SPARSE] = 0;
	load(c, DENSE, 0, 1000, 200, 160);
	window(c);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), OCTOFAS_NO_TARGET);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 1, DENSE), 4);

	/* Without the policy nothing moves. */
	set(c, OCTOFAS_INTRA, OCTOFAS_MOVE_DENSE, OCTOFAS_RR);
	KUNIT_EXPECT_EQ(test, octofas_choose_target(p, 0, DENSE), OCTOFAS_NO_TARGET);
}

static struct kunit_case octofas_policy_cases[] = {
	KUNIT_CASE(alone_test),
	KUNIT_CASE(fairness_test),
	KUNIT_CASE(balance_test),
	KUNIT_CASE(backward_test),
	KUNIT_CASE_PARAM(truth_test, truth_gen_params),
	KUNIT_CASE(enough_test),
	KUNIT_CASE(overload_test),
	KUNIT_CASE(alike_test),
	KUNIT_CASE(hold_test),
	KUNIT_CASE(round_test),
	KUNIT_CASE_PARAM(movers_test, movers_gen_params),
	KUNIT_CASE(room_test),
	{}
};

static struct kunit_suite octofas_policy_suite = {
	.name = "octofas_policy",
	.init = octofas_policy_test_init,
	.exit = octofas_policy_test_exit,
	.test_cases = octofas_policy_cases,
};

kunit_test_suite(octofas_policy_suite);
