// SPDX-License-Identifier: GPL-2.0
/*
 * tabs_policy_kunit.c - mq-tabs's policy beside a device that it does not know
 *
 * sim/tabs_world.h says what the device does and what its tasks do. The policy is judged by what
 * each type gets. A naive twin checks the credit.
 *
 * The policy is compiled into this file: the suite needs no other module, and runs in user space
 * under sanitizers as well (kunit/hosted).
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../mq-tabs/tabs_policy.c"
#include "sim/tabs_world.h"

enum {
	NR_STEPS = 200000,
};

static struct tabs_world *world(struct kunit *test)
{
	return test->priv;
}

static int tabs_policy_test_init(struct kunit *test)
{
	struct tabs_world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	test->priv = w;
	tabs_world_init(w);
	return 0;
}

static void expect_fair(struct kunit *test, u64 ms, u32 readers, u32 writers)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g = tabs_world_measure(w, ms);
	u32 all = readers + writers;

	KUNIT_EXPECT_GE(test, tabs_world_fairness_pct(w, &g, readers, writers), 88U);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ] * all, 900 * readers);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA] * all, 900 * writers);
}

/* ---- the paper's mixes ---- */

struct mix_param {
	const char *name;
	u32 writers;
	u32 readers;
};

static const struct mix_param mix_params[] = {
	{ "1w1r", 1, 1 },
	{ "2w1r", 2, 1 },
	{ "3w1r", 3, 1 },
	{ "1w2r", 1, 2 },
	{ "1w3r", 1, 3 },
	{ "2w2r", 2, 2 },
};

KUNIT_ARRAY_PARAM_DESC(mix, mix_params, name);

static void mix_test(struct kunit *test)
{
	const struct mix_param *param = test->param_value;
	struct tabs_world *w = world(test);

	tabs_world_set_tasks(w, param->readers, param->writers);
	/* The IDLE phase takes half a second, then two epochs. */
	tabs_world_run(w, 2500);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_SCHED);
	expect_fair(test, 1000, param->readers, param->writers);
	expect_fair(test, 3000, param->readers, param->writers);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 1U);
	KUNIT_EXPECT_LE(test, w->longest_held_ns, 500 * MS);
	KUNIT_EXPECT_EQ(test, w->nr_reasons[TABS_OVERDUE], 0U);
}

/* The same without maxima: nothing is scheduled, and the readers have what the paper says. */
static void not_configured_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_config config = tabs_world_paper_config(w);
	struct tabs_world_gain g;

	config.max_bytes_per_s[TABS_FUA] = 0;
	tabs_set_config(&w->policy, &config, 0);
	tabs_world_set_tasks(w, 1, 1);
	g = tabs_world_measure(w, 3000);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 0U);
	KUNIT_EXPECT_FALSE(test, tabs_needs_ticks(&w->policy, w->now_ns));
	KUNIT_EXPECT_LE(test, g.permille[TABS_READ], 250U);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 750U);
	KUNIT_EXPECT_LE(test, tabs_world_fairness_pct(w, &g, 1, 1), 30U);
}

/* ---- another pattern within the phase ---- */

struct change_param {
	const char *name;
	struct mix_param from, to;
};

static const struct change_param change_params[] = {
	{ "1w1r to 3w1r", { .writers = 1, .readers = 1 }, { .writers = 3, .readers = 1 } },
	{ "1w1r to 2w1r", { .writers = 1, .readers = 1 }, { .writers = 2, .readers = 1 } },
	{ "3w1r to 1w1r", { .writers = 3, .readers = 1 }, { .writers = 1, .readers = 1 } },
	{ "1w1r to 1w3r", { .writers = 1, .readers = 1 }, { .writers = 1, .readers = 3 } },
	{ "1w3r to 3w1r", { .writers = 1, .readers = 3 }, { .writers = 3, .readers = 1 } },
	{ "1w2r to 1w1r", { .writers = 1, .readers = 2 }, { .writers = 1, .readers = 1 } },
};

KUNIT_ARRAY_PARAM_DESC(change, change_params, name);

static void change_test(struct kunit *test)
{
	const struct change_param *param = test->param_value;
	struct tabs_world *w = world(test);

	tabs_world_set_tasks(w, param->from.readers, param->from.writers);
	tabs_world_run(w, 5300);
	tabs_world_set_tasks(w, param->to.readers, param->to.writers);
	tabs_world_run(w, 2000);
	expect_fair(test, 2000, param->to.readers, param->to.writers);
}

/* Reads stop: the writer has the device within two ticks, whatever the phase. */
static void reads_stop_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 5000);
	w->depth[TABS_READ] = 0;
	/* What the device still has of them. */
	tabs_world_run(w, 50);
	g = tabs_world_measure(w, 1000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 970U);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_IDLE);
	tabs_world_run(w, 1000);
	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 2000);
	/* The goal comes from TABS_SURE requests, which tell the shares within a few percent. */
	g = tabs_world_measure(w, 2000);
	KUNIT_EXPECT_GE(test, tabs_world_fairness_pct(w, &g, 1, 1), 80U);
}

/* FUA writes stop: the phase ends, and soon the ticks do. */
static void writes_stop_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 5000);
	KUNIT_EXPECT_TRUE(test, tabs_needs_ticks(&w->policy, w->now_ns));
	w->depth[TABS_FUA] = 0;
	/* Also if a suspicion would not count. */
	w->policy.holdoff = TABS_HOLDOFF_MAX;
	/* They drain at the pace of the phase. */
	tabs_world_run(w, 200);
	g = tabs_world_measure(w, 1000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ], 970U);
	tabs_world_run(w, 1500);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_IDLE);
	KUNIT_EXPECT_FALSE(test, tabs_needs_ticks(&w->policy, w->now_ns));
}

/* ---- one type alone, and loads that ask little ---- */

static void alone_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	tabs_world_set_tasks(w, 0, 1);
	g = tabs_world_measure(w, 5000);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 0U);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 980U);
	tabs_world_set_tasks(w, 1, 0);
	tabs_world_run(w, 1000);
	g = tabs_world_measure(w, 2000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ], 980U);
}

/* What a world without a scheduler gives in the same time. */
static struct tabs_world_gain measure_free(struct kunit *test, u64 ms)
{
	struct tabs_world *w = world(test), *free = kunit_kzalloc(test, sizeof(*free), GFP_KERNEL);
	struct tabs_config config = {};

	memcpy(free, w, sizeof(*free));
	tabs_policy_init(&free->policy, &config, 0);
	return tabs_world_measure(free, ms);
}

/* One FUA write at a time beside a deep reader, which reaches its goal all the same. */
static void sync_writer_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g, free;

	w->depth[TABS_READ] = DEPTH;
	w->depth[TABS_FUA] = 1;
	free = measure_free(test, 5000);
	tabs_world_run(w, 1000);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_SCHED);
	g = tabs_world_measure(w, 5000);
	KUNIT_EXPECT_GE(test, g.bytes_per_s[TABS_FUA] * 100, free.bytes_per_s[TABS_FUA] * 95);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ], 900U);
}

/* A reader that wants a tenth of the device does not cost the writer more than that. */
static void modest_reader_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	w->every_ns[TABS_READ] = READ_NS * 10 / NR_DIES;
	w->depth[TABS_FUA] = DEPTH;
	tabs_world_run(w, 10000);
	g = tabs_world_measure(w, 10000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ], 90U);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 750U);
	KUNIT_EXPECT_LE(test, w->longest_held_ns, 500 * MS);
}

/* One read at a time: it always waits, and the writer must not starve. */
static void sync_reader_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	w->depth[TABS_READ] = 1;
	w->depth[TABS_FUA] = DEPTH;
	tabs_world_run(w, 5000);
	g = tabs_world_measure(w, 5000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 850U);
	KUNIT_EXPECT_LE(test, w->longest_held_ns, 500 * MS);
}

/* ---- bounds ---- */

/* A goal that gives the writer next to nothing: max_delay is what lets it go. */
static void max_delay_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_config config = tabs_world_paper_config(w);

	config.max_bytes_per_s[TABS_FUA] = 1000;
	config.max_delay_ns = 100 * MS;
	tabs_set_config(&w->policy, &config, 0);
	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 10000);
	KUNIT_EXPECT_GT(test, w->nr_reasons[TABS_OVERDUE], 100U);
	KUNIT_EXPECT_LE(test, w->longest_held_ns, 100 * MS);
	KUNIT_EXPECT_GE(test, w->longest_held_ns, 50 * MS);

	/* Ticks that come late. */
	w->tick_ns = 10 * MS;
	config.max_delay_ns = 20 * MS;
	tabs_set_config(&w->policy, &config, w->now_ns);
	tabs_world_run(w, 100);
	w->longest_held_ns = 0;
	tabs_world_run(w, 5000);
	KUNIT_EXPECT_LE(test, w->longest_held_ns, 20 * MS);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_SCHED);
}

/* Three writers leave the device a tenth of a second of work: that is no reason to change alpha. */
static void drain_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_config config = tabs_world_paper_config(w);
	u32 alpha;

	config.epoch_ns = 250 * MS;
	tabs_set_config(&w->policy, &config, 0);
	tabs_world_set_tasks(w, 1, 3);
	while (w->policy.phase != TABS_SCHED && w->now_ns < 2000 * MS)
		tabs_world_run(w, 1);
	alpha = w->policy.alpha;
	tabs_world_run(w, 600);
	KUNIT_EXPECT_EQ(test, w->policy.nr_epochs, 1ULL);
	KUNIT_EXPECT_EQ(test, w->policy.alpha, alpha);
}

/* The device is never without work while a FUA write is held. */
static void not_wasted_test(struct kunit *test)
{
	struct tabs_world *w = world(test);

	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 3000);
	w->depth[TABS_READ] = 0;
	w->every_ns[TABS_READ] = 3 * MS;
	w->next_at_ns[TABS_READ] = w->now_ns;
	tabs_world_run(w, 5000);
	KUNIT_EXPECT_EQ(test, w->wasted_ns, 0ULL);
}

/* Both read and write at a fixed rate, and the device could serve them all. */
static void enough_for_both_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_world_gain g;

	w->every_ns[TABS_READ] = READ_NS * 3 / NR_DIES;
	w->every_ns[TABS_FUA] = FUA_NS * 3 / NR_DIES;
	tabs_world_run(w, 10000);
	g = tabs_world_measure(w, 10000);
	KUNIT_EXPECT_GE(test, g.permille[TABS_READ], 320U);
	KUNIT_EXPECT_GE(test, g.permille[TABS_FUA], 310U);
}

/*
 * Smaller reads than the maximum was measured with: the goal is out of reach, and alpha is at rest.
 */
static void out_of_reach_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	u32 low = U32_MAX, high = 0;
	struct tabs_world_gain g;
	unsigned int i;

	tabs_world_set_tasks(w, 1, 1);
	/* The policy was told the maxima of 16 KiB. */
	w->bytes[TABS_READ] = 4 * KIB;
	w->bytes[TABS_FUA] = 8 * KIB;
	tabs_world_run(w, 5000);
	for (i = 0; i < 8; i++) {
		tabs_world_run(w, 1000);
		low = min(low, w->policy.alpha);
		high = max(high, w->policy.alpha);
	}
	KUNIT_EXPECT_LE(test, high, low / 8 * 9);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 1U);

	/* Both have the same part of their goal. */
	w->bytes[TABS_READ] = 16 * KIB;
	w->bytes[TABS_FUA] = 16 * KIB;
	g = tabs_world_measure(w, 0);
	w->bytes[TABS_READ] = 4 * KIB;
	w->bytes[TABS_FUA] = 8 * KIB;
	g = tabs_world_measure(w, 2000);
	KUNIT_EXPECT_GE(test, 110 * g.permille[TABS_READ] / 4, 100 * g.permille[TABS_FUA] / 2);
	KUNIT_EXPECT_LE(test, 90 * g.permille[TABS_READ] / 4, 100 * g.permille[TABS_FUA] / 2);
}

/* ---- phases ---- */

static void phases_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_config config = tabs_world_paper_config(w);

	/* Too few requests. */
	config.idle_threshold = 3000;
	tabs_set_config(&w->policy, &config, 0);
	KUNIT_EXPECT_FALSE(test, tabs_must_hold(&w->policy, 0));
	tabs_world_set_tasks(w, 1, 3);
	tabs_world_run(w, 5000);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 0U);
	KUNIT_EXPECT_EQ(test, w->nr_reasons[TABS_FREE], 0U);

	/* Enough: and only those of the last half second count. */
	tabs_world_set_tasks(w, 3, 1);
	tabs_world_run(w, 1500);
	KUNIT_EXPECT_EQ(test, w->nr_phases, 1U);
	KUNIT_EXPECT_GE(test, w->policy.issued[TABS_READ], 2 * w->policy.issued[TABS_FUA]);
	tabs_world_set_tasks(w, 1, 1);

	/* The phase ends after its time, and the next one keeps alpha. An epoch is never longer. */
	config.idle_threshold = 1;
	config.sched_ns = 800 * MS;
	config.epoch_ns = 60000 * MS;
	tabs_set_config(&w->policy, &config, w->now_ns);
	w->nr_phases = 0;
	tabs_world_run(w, 10000);
	KUNIT_EXPECT_GE(test, w->nr_phases, 16U);
	KUNIT_EXPECT_LE(test, w->nr_phases, 22U);
	KUNIT_EXPECT_GE(test, w->policy.nr_epochs, 8ULL);
	KUNIT_EXPECT_LE(test, tabs_last_epoch(&w->policy)->length_ns, 900 * MS);
}

/* A type that was alone says nothing of the shares, nor does the first burst of the other. */
static void newcomer_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	unsigned int first;

	for (first = 0; first < TABS_NR_TYPES; first++) {
		const u64 *issued = w->policy.issued;

		tabs_world_set_tasks(w, first == TABS_READ, first == TABS_FUA);
		tabs_world_run(w, 2700);
		KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_IDLE);
		tabs_world_set_tasks(w, 1, 1);
		tabs_world_run(w, 600);
		KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_SCHED);
		KUNIT_EXPECT_GE(test, 100 * issued[TABS_READ], 85 * issued[TABS_FUA]);
		KUNIT_EXPECT_GE(test, 100 * issued[TABS_FUA], 85 * issued[TABS_READ]);
	}
}

/*
 * What is outstanding when counting starts counts, also of a type of which nothing comes for a
 * while.
 */
static void outstanding_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;
	struct tabs_sample s = { .came = { 2000, 100 } };
	u64 now_ns;

	for (now_ns = TABS_TICK_NS; now_ns < 2000 * MS && p->phase == TABS_IDLE;
	     now_ns += TABS_TICK_NS) {
		tabs_tick(p, &s, now_ns);
		s.came[TABS_FUA] += 10;
		s.done[TABS_FUA] += 10;
	}
	KUNIT_EXPECT_EQ(test, (int)p->phase, (int)TABS_SCHED);
	KUNIT_EXPECT_EQ(test, p->issued[TABS_READ], 2000ULL);
	KUNIT_EXPECT_GE(test, p->issued[TABS_FUA], 100ULL);
}

/*
 * Too slow for TABS_SURE in a period: then what came in all of it has to do, though it tells less.
 */
static void slow_device_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_config config;
	struct tabs_world_gain g;

	w->service_ns[TABS_READ] *= 8;
	w->service_ns[TABS_FUA] *= 8;
	config = tabs_world_paper_config(w);
	config.idle_threshold = 200;
	tabs_set_config(&w->policy, &config, 0);
	tabs_world_set_tasks(w, 1, 1);
	tabs_world_run(w, 400);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_IDLE);
	tabs_world_run(w, 300);
	KUNIT_EXPECT_EQ(test, (int)w->policy.phase, (int)TABS_SCHED);
	tabs_world_run(w, 4000);
	g = tabs_world_measure(w, 5000);
	KUNIT_EXPECT_GE(test, tabs_world_fairness_pct(w, &g, 1, 1), 75U);
}

/* Odds that depend on the throttling itself: a false alarm is one, and then seldom. */
static void false_alarm_test(struct kunit *test)
{
	struct tabs_world *w = world(test);

	w->every_ns[TABS_READ] = READ_NS * 2 / NR_DIES;
	w->depth[TABS_FUA] = DEPTH;
	tabs_world_run(w, 30000);
	KUNIT_EXPECT_LE(test, w->nr_phases, 16U);
	w->nr_phases = 0;
	tabs_world_run(w, 30000);
	KUNIT_EXPECT_LE(test, w->nr_phases, 8U);
}

/* ---- small things ---- */

struct ratio_param {
	const char *name;
	u64 a, b;
	u32 expected;
};

static const struct ratio_param ratio_params[] = {
	{ "one", 7, 7, TABS_ONE },
	{ "half", 1, 2, TABS_ONE / 2 },
	{ "nothing", 0, 5, TABS_ALPHA_MIN },
	{ "by nothing", 5, 0, TABS_ALPHA_MAX },
	{ "nothing by nothing", 0, 0, TABS_ALPHA_MAX },
	{ "too large", U64_MAX, 1, TABS_ALPHA_MAX },
	{ "too small", 1, U64_MAX, TABS_ALPHA_MIN },
	{ "large by large", U64_MAX, U64_MAX, TABS_ONE },
	{ "just below the largest", 1023, 1, 1023 * TABS_ONE },
	{ "the largest", 1024, 1, TABS_ALPHA_MAX },
};

KUNIT_ARRAY_PARAM_DESC(ratio, ratio_params, name);

static void ratio_test(struct kunit *test)
{
	const struct ratio_param *param = test->param_value;

	KUNIT_EXPECT_EQ(test, tabs_ratio(param->a, param->b), param->expected);
}

/* Equation 1, with the numbers of the paper. */
static void goal_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_policy *p = &w->policy;
	struct tabs_sample d = { .came = { 1000, 3000 } };

	p->config.max_bytes_per_s[TABS_READ] = 1530ULL << 20;
	p->config.max_bytes_per_s[TABS_FUA] = 273ULL << 20;
	tabs_set_goal(p, &d);
	KUNIT_EXPECT_EQ(test, p->fair_bytes_per_s[TABS_READ], (1530ULL << 20) / 4);
	KUNIT_EXPECT_EQ(test, p->fair_bytes_per_s[TABS_FUA], (273ULL << 20) / 4 * 3);
	KUNIT_EXPECT_EQ(test, p->issued[TABS_READ], 1000ULL);

	/* FUA writes of twice the size: half as many of them for the same bandwidth. */
	d.done[TABS_READ] = 100;
	d.done_bytes[TABS_READ] = 100 * 16 * KIB;
	d.done[TABS_FUA] = 10;
	d.done_bytes[TABS_FUA] = 10 * 32 * KIB;
	KUNIT_EXPECT_GE(test, tabs_goal_alpha(p, &d), (u32)(TABS_ONE / 2 * 273 * 3 / 1530) - 16);
	KUNIT_EXPECT_LE(test, tabs_goal_alpha(p, &d), (u32)(TABS_ONE / 2 * 273 * 3 / 1530) + 16);
}

/* One correction of a policy in its SCHED phase, by table. */
struct feedback_param {
	const char *name;
	/* Percent of the goal, and whether the type waits. */
	u32 read_pct, fua_pct;
	bool read_waits, fua_waits;
	bool throttling;
	/* alpha before is 1; in thousandths. */
	u32 expected_1000;
};

static const struct feedback_param feedback_params[] = {
	{ "both at their goal",		100, 100, true,  true,  true,  1000 },
	{ "both above 90%",		 90,  91, true,  true,  true,  1000 },
	{ "reads below",		 80, 120, true,  true,  true,   800 },
	{ "reads far below",		  1, 120, true,  true,  true,    63 },
	{ "FUA below",			120,  80, true,  true,  true,  1250 },
	{ "FUA far below",		120,   1, true,  true,  true, 16000 },
	{ "both, reads more",		 40,  80, true,  true,  true,   500 },
	{ "both, FUA more",		 80,  40, true,  true,  true,  2000 },
	{ "both alike",			 50,  50, true,  true,  true,  1000 },
	{ "reads below, ask little",	 10, 100, false, true,  true,  1333 },
	{ "reads below, none held",	 10, 100, false, false, true,  1000 },
	{ "FUA below, not held",	100,  10, true,  false, true,  1000 },
	{ "reads below, first time",	 80, 120, true,  true,  false,  500 },
};

KUNIT_ARRAY_PARAM_DESC(feedback, feedback_params, name);

static void feedback_test(struct kunit *test)
{
	const struct feedback_param *param = test->param_value;
	struct tabs_policy *p = &world(test)->policy;
	/* FUA writes of the same size as reads, and as many; goals of 2000 and 1000. */
	struct tabs_sample d = { .done = { 100, 100 }, .done_bytes = { 1000, 1000 } };
	struct tabs_epoch e = { .bytes_per_s = { 20 * param->read_pct, 10 * param->fua_pct } };
	u32 alpha;

	p->fair_bytes_per_s[TABS_READ] = 2000;
	p->fair_bytes_per_s[TABS_FUA] = 1000;
	p->alpha = TABS_ONE;
	p->turned = TABS_NR_TYPES;
	p->throttling = param->throttling;
	p->odds_window.looks = 4;
	p->odds_window.waiting[TABS_READ] = param->read_waits ? 2 : 1;
	p->odds_window.waiting[TABS_FUA] = param->fua_waits ? 2 : 1;
	alpha = tabs_feedback(p, &d, &e);
	KUNIT_EXPECT_GE(test, alpha,
			(u32)((u64)TABS_ONE * param->expected_1000 / 1000 - TABS_ONE / 900));
	KUNIT_EXPECT_LE(test, alpha,
			(u32)((u64)TABS_ONE * param->expected_1000 / 1000 + TABS_ONE / 900));
}

/* alpha stays in its range. */
static void edges_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;
	struct tabs_sample d = { .done = { 1, TABS_ONE }, .done_bytes = { 1000, 1000 } };
	struct tabs_epoch e = { .bytes_per_s = { 2000, 1 } };

	p->fair_bytes_per_s[TABS_READ] = p->fair_bytes_per_s[TABS_FUA] = 1000;
	p->odds_window.looks = p->odds_window.waiting[TABS_READ] =
		p->odds_window.waiting[TABS_FUA] = 4;
	p->throttling = true;
	p->turned = TABS_NR_TYPES;
	p->alpha = TABS_ALPHA_MAX;
	KUNIT_EXPECT_EQ(test, tabs_feedback(p, &d, &e), TABS_ALPHA_MAX);
	e.bytes_per_s[TABS_READ] = 1;
	e.bytes_per_s[TABS_FUA] = 2000;
	p->alpha = TABS_ALPHA_MIN;
	KUNIT_EXPECT_EQ(test, tabs_feedback(p, &d, &e), TABS_ALPHA_MIN);
}

/* A correction counts half of what it did if it takes the last one back. */
static void damp_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;

	p->turned = TABS_NR_TYPES;
	KUNIT_EXPECT_EQ(test, tabs_damp(p, TABS_READ, TABS_ONE / 2), TABS_ONE / 2);
	KUNIT_EXPECT_EQ(test, tabs_damp(p, TABS_READ, TABS_ONE / 2), TABS_ONE / 2);
	KUNIT_EXPECT_EQ(test, tabs_damp(p, TABS_FUA, TABS_ONE / 2), TABS_ONE / 4 * 3);
	KUNIT_EXPECT_EQ(test, tabs_damp(p, TABS_READ, TABS_ONE / 2), TABS_ONE / 8 * 7);
	KUNIT_EXPECT_EQ(test, tabs_damp(p, TABS_READ, TABS_ONE / 2), TABS_ONE / 2);
}

/*
 * Help in vain: put back once, and no type is content with less; each time it takes more to ask
 * again.
 */
static void content_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;
	unsigned int i;

	p->throttling = true;
	p->patience = TABS_PATIENCE_MIN;
	/* FUA writes lose four fifths: a quarter more is asked for. */
	p->alpha = TABS_ONE / 5;
	tabs_note_help(p, 1600, TABS_ONE, p->alpha);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 2000));
	KUNIT_EXPECT_EQ(test, p->content, 0ULL);
	KUNIT_EXPECT_EQ(test, p->helped_from, 0ULL);
	tabs_note_help(p, 1600, TABS_ONE, p->alpha);
	KUNIT_EXPECT_TRUE(test, tabs_judge_help(p, 1999));
	KUNIT_EXPECT_EQ(test, p->content, 1999ULL);
	KUNIT_EXPECT_EQ(test, p->alpha_before, TABS_ONE);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 3200));
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1875));
	KUNIT_EXPECT_EQ(test, p->content, 1999ULL);
	KUNIT_EXPECT_TRUE(test, p->throttling);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1874));
	KUNIT_EXPECT_EQ(test, p->content, 0ULL);
	KUNIT_EXPECT_FALSE(test, p->throttling);
	tabs_note_help(p, 1600, TABS_ONE, p->alpha);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1000));
	KUNIT_EXPECT_EQ(test, p->content, 1000ULL);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 875));
	KUNIT_EXPECT_EQ(test, p->content, 1000ULL);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 874));
	KUNIT_EXPECT_EQ(test, p->content, 0ULL);
	/* A quarter at most, however often. */
	for (i = 0; i < 3; i++) {
		tabs_note_help(p, 1600, TABS_ONE, p->alpha);
		KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1000));
		KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 750));
		KUNIT_EXPECT_EQ(test, p->content, 1000ULL);
		KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 749));
		KUNIT_EXPECT_EQ(test, p->content, 0ULL);
	}
	/* Help that helps starts again. */
	tabs_note_help(p, 1600, TABS_ONE, p->alpha);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 2000));
	KUNIT_EXPECT_EQ(test, p->patience, TABS_PATIENCE_MIN);
}

/* Small steps are judged together, from where the first began. */
static void small_steps_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;

	p->throttling = true;
	p->alpha = TABS_ONE / 5 * 4;
	tabs_note_help(p, 1600, TABS_ONE, p->alpha);
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1600));
	KUNIT_EXPECT_EQ(test, p->content, 0ULL);
	p->alpha = TABS_ONE / 25 * 16;
	tabs_note_help(p, 1650, TABS_ONE / 5 * 4, p->alpha);
	KUNIT_EXPECT_EQ(test, p->helped_from, 1600ULL);
	KUNIT_EXPECT_TRUE(test, tabs_judge_help(p, 1700));
	KUNIT_EXPECT_EQ(test, p->alpha_before, TABS_ONE);

	/* FUA writes have got back what they lost. */
	p->content = 0;
	tabs_note_help(p, 1600, TABS_ONE / 2, TABS_ONE / 4);
	p->alpha = TABS_ONE / 2;
	KUNIT_EXPECT_FALSE(test, tabs_judge_help(p, 1600));
	KUNIT_EXPECT_EQ(test, p->helped_from, 0ULL);
	tabs_note_help(p, 1600, TABS_ONE / 2, TABS_ONE);
	KUNIT_EXPECT_EQ(test, p->helped_from, 0ULL);
}

/* An alpha that is not reached: the correction starts from what FUA writes used. */
static void used_test(struct kunit *test)
{
	struct tabs_policy *p = &world(test)->policy;
	struct tabs_sample d = { .done = { 1000, 100 } };
	struct tabs_epoch e = {};

	p->alpha = TABS_ONE;
	p->throttling = true;
	KUNIT_EXPECT_EQ(test, tabs_help_reads(p, &d, &e, TABS_ONE / 2) / 100, TABS_ONE / 20 / 100);
	d.done[TABS_FUA] = 5000;
	KUNIT_EXPECT_EQ(test, tabs_help_reads(p, &d, &e, TABS_ONE / 2), TABS_ONE / 2);
}

/* ---- the credit, beside a naive twin ---- */

struct twin {
	s64 credit;
	s64 earned;
	bool no_reads, overdue, alone;
};

static void twin_charge(struct twin *t)
{
	if (!t->no_reads && t->credit > -16LL * TABS_ONE)
		t->credit -= TABS_ONE;
}

static enum tabs_reason twin_take(struct twin *t, bool next_overdue)
{
	enum tabs_reason reason = TABS_HELD;

	if (t->no_reads)
		return TABS_FREE;
	if (t->credit >= TABS_ONE)
		reason = TABS_EARNED;
	else if (t->overdue)
		reason = TABS_OVERDUE;
	else if (t->alone)
		reason = TABS_ALONE;
	if (reason == TABS_HELD)
		return reason;
	twin_charge(t);
	t->overdue = t->overdue && next_overdue;
	t->alone = false;
	return reason;
}

static void twin_earn(struct twin *t, u32 alpha)
{
	s64 most = 16LL * max(alpha, TABS_ONE);

	t->no_reads = false;
	t->earned += alpha;
	if (t->earned < TABS_ONE)
		return;
	if (t->credit < most)
		t->credit += t->earned / TABS_ONE * TABS_ONE;
	t->earned %= TABS_ONE;
}

static void credit_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_policy *p = &w->policy;
	struct twin t = {};
	unsigned int step;
	u32 earned = 0;

	tabs_set_alpha(p, TABS_ONE / 3);
	for (step = 0; step < NR_STEPS; step++) {
		u32 what = tabs_world_draw(w, 100), held = tabs_world_draw(w, 2);
		bool next_overdue = tabs_world_draw(w, 2), must_hold;

		if (what < 50) {
			tabs_earn(p, &earned);
			twin_earn(&t, p->alpha);
		} else if (what < 65) {
			KUNIT_ASSERT_EQ(test, tabs_may_go(p),
					t.no_reads || t.overdue || t.alone || t.credit >= TABS_ONE);
			KUNIT_ASSERT_EQ(test, (int)tabs_take(p, next_overdue ? 1 : 0, 1000 * MS),
					(int)twin_take(&t, next_overdue));
		} else if (what < 85) {
			must_hold = held || (!t.no_reads && t.credit < TABS_ONE);
			if (!must_hold)
				twin_charge(&t);
			KUNIT_ASSERT_EQ(test, tabs_must_hold(p, held), must_hold);
		} else if (what < 90) {
			tabs_charge(p);
			twin_charge(&t);
		} else if (what < 93) {
			tabs_alone(p);
			t.alone = true;
		} else if (what < 96) {
			set_bit(TABS_FLAG_OVERDUE, &p->flags);
			t.overdue = true;
		} else if (what < 97) {
			set_bit(TABS_FLAG_NO_READS, &p->flags);
			t.no_reads = true;
		} else if (what < 98) {
			tabs_set_alpha(
				p, max_t(u32, TABS_ALPHA_MIN, 3 * tabs_world_draw(w, TABS_ONE)));
		}
		KUNIT_ASSERT_EQ(test, (s64)atomic64_read(&p->credit), t.credit);
		KUNIT_ASSERT_EQ(test, (s64)earned, t.earned);
	}
}

/* ---- anything at all ---- */

static u64 wild(struct tabs_world *w, unsigned int bits)
{
	u64 value = (u64)tabs_world_draw(w, U32_MAX) << 32 | tabs_world_draw(w, U32_MAX);

	return value >> (64 - 1 - tabs_world_draw(w, bits));
}

/*
 * Tunables at random in their ranges, counts that leap: no division fails, and alpha stays in
 * bounds.
 */
static void wild_test(struct kunit *test)
{
	struct tabs_world *w = world(test);
	struct tabs_policy *p = &w->policy;
	struct tabs_sample *s = &w->counts;
	unsigned int step, i;

	for (step = 0; step < NR_STEPS; step++) {
		if (!tabs_world_draw(w, 200)) {
			struct tabs_config config = {
				.max_bytes_per_s = { wild(w, 42), wild(w, 42) },
				.idle_reset_ns	= (10 + tabs_world_draw(w, 60000)) * MS,
				.epoch_ns	= (20 + tabs_world_draw(w, 60000)) * MS,
				.sched_ns	= (100 + tabs_world_draw(w, 3600000)) * MS,
				.max_delay_ns	= (20 + tabs_world_draw(w, 60000)) * MS,
				.idle_threshold	= 1 + wild(w, 20),
				.feedback_pct	= 1 + tabs_world_draw(w, 100),
			};

			tabs_set_config(p, &config, w->now_ns);
		}
		for (i = 0; i < TABS_NR_TYPES; i++) {
			u32 n = tabs_world_draw(w, 3) ? tabs_world_draw(w, 1000) : 0;

			s->came[i] += n;
			n = min_t(u64, tabs_world_draw(w, 2000), s->came[i] - s->done[i]);
			s->done[i] += n;
			s->done_bytes[i] += (u64)n * (512 + tabs_world_draw(w, 1 << 20));
		}
		s->held =
			min_t(u64, tabs_world_draw(w, 100), s->came[TABS_FUA] - s->done[TABS_FUA]);
		s->oldest_ns = w->now_ns > 50 * MS ? w->now_ns - 50 * MS : 0;
		w->now_ns += wild(w, 34);
		w->nr_phases += tabs_tick(p, s, w->now_ns) & TABS_CHANGED_PHASE;
		if (p->phase != TABS_SCHED)
			continue;
		KUNIT_ASSERT_GE(test, p->alpha, (u32)TABS_ALPHA_MIN);
		KUNIT_ASSERT_LE(test, p->alpha, (u32)TABS_ALPHA_MAX);
		KUNIT_ASSERT_EQ(test, p->alpha, p->earn_alpha);
	}
	KUNIT_EXPECT_GT(test, w->nr_phases, 100U);
	KUNIT_EXPECT_GT(test, p->nr_epochs, 100ULL);
}

static struct kunit_case tabs_policy_cases[] = {
	KUNIT_CASE_PARAM(mix_test, mix_gen_params),
	KUNIT_CASE(not_configured_test),
	KUNIT_CASE_PARAM(change_test, change_gen_params),
	KUNIT_CASE(reads_stop_test),
	KUNIT_CASE(writes_stop_test),
	KUNIT_CASE(alone_test),
	KUNIT_CASE(sync_writer_test),
	KUNIT_CASE(modest_reader_test),
	KUNIT_CASE(sync_reader_test),
	KUNIT_CASE(enough_for_both_test),
	KUNIT_CASE(max_delay_test),
	KUNIT_CASE(drain_test),
	KUNIT_CASE(not_wasted_test),
	KUNIT_CASE(out_of_reach_test),
	KUNIT_CASE(phases_test),
	KUNIT_CASE(newcomer_test),
	KUNIT_CASE(outstanding_test),
	KUNIT_CASE(slow_device_test),
	KUNIT_CASE(false_alarm_test),
	KUNIT_CASE_PARAM(ratio_test, ratio_gen_params),
	KUNIT_CASE(goal_test),
	KUNIT_CASE_PARAM(feedback_test, feedback_gen_params),
	KUNIT_CASE(edges_test),
	KUNIT_CASE(damp_test),
	KUNIT_CASE(content_test),
	KUNIT_CASE(small_steps_test),
	KUNIT_CASE(used_test),
	KUNIT_CASE(credit_test),
	KUNIT_CASE(wild_test),
	{}
};

static struct kunit_suite tabs_policy_suite = {
	.name = "tabs_policy",
	.init = tabs_policy_test_init,
	.test_cases = tabs_policy_cases,
};

kunit_test_suite(tabs_policy_suite);
