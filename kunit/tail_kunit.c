// SPDX-License-Identifier: GPL-2.0
/*
 * tail_kunit.c - the bound that follows a target, beside a device that it does not know
 *
 * sim/k2_world.h says what the device and its tasks do. The law is judged second by second, by the
 * wait of the real-time requests and by the total bandwidth. The bandwidth is compared with that of
 * the best fixed bound on the same device, found by trying them all.
 *
 * The law works by statistics, and so do the judges: of 168 runs of 65 s with seven seeds, all had
 * 95% good seconds and 90% of the bandwidth, and five left the step around what they had after five
 * seconds. The runs here are those of one seed.
 *
 * The policy is compiled into this file: the suite needs no other module, and runs in user space
 * under sanitizers as well (kunit/hosted).
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>

#include "../lib/tail.h"
#include "sim/k2_world.h"

static struct k2_world *world(struct kunit *test)
{
	return test->priv;
}

static int tail_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct k2_world), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return 0;
}

/* One step of the hold. */
static u32 step_down(u32 bound)
{
	u32 below = tail_down(bound);

	return below < TAIL_COARSE ? below : tail_down(below);
}

/* From @from_s on, @settled being the bound at that time. */
static void expect_good(struct kunit *test, struct k2_world *w, u32 from_s, u32 to_s, u64 best)
{
	struct k2_world_verdict v = k2_world_judge(w, from_s, to_s);
	u32 settled = w->second[from_s - 1].bound;

	KUNIT_EXPECT_GE_MSG(test, v.good_pct, 95U, "seconds that met the target");
	KUNIT_EXPECT_GE_MSG(test, v.bytes_per_s * 100, best * 90, "best fixed bound's bandwidth");
	KUNIT_EXPECT_GE_MSG(test, v.least_bound, step_down(settled), "settled at %u", settled);
	KUNIT_EXPECT_LE_MSG(test, v.most_bound, tail_up(settled), "settled at %u", settled);
}

/* ---- small parts ---- */

static void bin_test(struct kunit *test)
{
	u64 ns, width_ns;
	unsigned int bin;

	for (ns = 1; ns < 60 * SEC; ns += 1 + ns / 500) {
		bin = tail_bin(ns);
		KUNIT_ASSERT_LT(test, bin, (unsigned int)TAIL_NR_BINS);
		KUNIT_ASSERT_LT(test, ns, tail_bin_end_ns(bin));
		width_ns = tail_bin_end_ns(bin);
		if (bin) {
			KUNIT_ASSERT_GE(test, ns, tail_bin_end_ns(bin - 1));
			width_ns -= tail_bin_end_ns(bin - 1);
		}
		if (ns > 64 * US)
			KUNIT_ASSERT_LE(test, width_ns * 31, ns);
	}
	KUNIT_EXPECT_EQ(test, tail_bin(U64_MAX), (unsigned int)TAIL_NR_BINS - 1);
}

static void step_test(struct kunit *test)
{
	u32 bound, nr = 0;

	for (bound = 1; bound < 65535; bound = tail_up(bound)) {
		KUNIT_EXPECT_GT(test, tail_up(bound), bound);
		KUNIT_EXPECT_EQ(test, tail_down(tail_up(bound)), bound);
		nr++;
	}
	KUNIT_EXPECT_LE(test, nr, 100U);
}

/* By nearest rank: of 2000, the third largest. */
static void p999_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	struct tail_sums *since = &w->law.since;

	w->sums.nr_rt = 2000;
	w->sums.bin[tail_bin(1 * MS)] = 1998;
	w->sums.bin[tail_bin(50 * MS)] = 2;
	KUNIT_EXPECT_LE(test, tail_p999_ns(&w->sums, since), 1 * MS + 1 * MS / 31);
	w->sums.bin[tail_bin(1 * MS)]--;
	w->sums.bin[tail_bin(50 * MS)]++;
	KUNIT_EXPECT_GE(test, tail_p999_ns(&w->sums, since), 50 * MS);
	*since = w->sums;
	KUNIT_EXPECT_EQ(test, tail_p999_ns(&w->sums, since), 0ULL);
}

/* What the device was given under the bound before is not held against the new one. */
static void settle_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	u32 i;

	k2_world_law_on(w, 8, 2 * MS, 0, CEILING);
	for (i = 0; i < 20; i++) {
		w->now_ns += 100 * MS;
		w->sums.nr += 100;
		w->sums.nr_rt += 100;
		w->sums.nr_beyond += 100;
		KUNIT_EXPECT_FALSE(test, tail_tick(&w->law, &w->sums, 9, w->now_ns));
	}
	KUNIT_EXPECT_FALSE(test, tail_tick(&w->law, &w->sums, 8, w->now_ns));
	w->sums.nr += 100;
	w->sums.nr_rt += 100;
	w->now_ns += 200 * MS;
	KUNIT_EXPECT_TRUE(test, tail_tick(&w->law, &w->sums, 8, w->now_ns));
	KUNIT_EXPECT_FALSE(test, w->law.last.is_violated);
}

static void off_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	static const struct k2_world_load load = { 96, 100, 1, 2 * MS };

	k2_world_init(w, &load, 32, 2 * MS);
	k2_world_law_on(w, 32, 0, 0, CEILING);
	k2_world_run(w, 3 * SEC);
	KUNIT_EXPECT_EQ(test, w->law.bound, (u32)CEILING);
	KUNIT_EXPECT_EQ(test, w->law.nr_windows, 0ULL);
}

/* ---- a latency to keep ---- */

struct latency_param {
	const char *name;
	struct k2_world_load load;
	u64 target_ns;
};

static const struct latency_param latency_params[] = {
	{ "reads, 1.3 ms",		{ 96, 100, 1, 2 * MS }, 1300 * US },
	{ "reads, 4 ms",		{ 96, 100, 1, 2 * MS }, 4 * MS },
	{ "reads, 4 ms, 8 readers",	{ 96, 100, 8, 2 * MS }, 4 * MS },
	{ "writes, 4 ms",		{ 96, 0, 1, 2 * MS }, 4 * MS },
	{ "writes, 20 ms",		{ 96, 0, 1, 2 * MS }, 20 * MS },
	{ "writes on a full device, 15 ms", { 96, 0, 1, 2 * MS, true }, 15 * MS },
	{ "both, 8 ms",			{ 96, 70, 1, 2 * MS }, 8 * MS },
	{ "both on a full device, 20 ms", { 96, 70, 1, 2 * MS, true }, 20 * MS },
};

KUNIT_ARRAY_PARAM_DESC(latency, latency_params, name);

static void latency_test(struct kunit *test)
{
	static const u32 starts[] = { 1, 32, CEILING };
	const struct latency_param *param = test->param_value;
	struct k2_world *w = world(test);
	u64 best = k2_world_best_bytes_per_s(w, &param->load, param->target_ns);
	unsigned int i;

	KUNIT_ASSERT_TRUE(test, best);
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		k2_world_init(w, &param->load, 1, param->target_ns);
		k2_world_law_on(w, starts[i], param->target_ns, 0, CEILING);
		k2_world_run(w, LONG_S * SEC);
		expect_good(test, w, SETTLED_S, LONG_S, best);
	}
}

/* ---- another load half way ---- */

struct change_param {
	const char *name;
	struct k2_world_load before;
	struct k2_world_load after;
	u64 target_ns;
};

static const struct change_param change_params[] = {
	{ "from reads to writes", { 96, 100, 1, 2 * MS }, { 96, 0, 1, 2 * MS }, 8 * MS },
	{ "from writes to reads", { 96, 0, 1, 2 * MS }, { 96, 100, 1, 2 * MS }, 8 * MS },
	{ "from reads to both on a full device", { 96, 100, 1, 2 * MS },
	  { 96, 50, 1, 2 * MS, true }, 20 * MS },
};

KUNIT_ARRAY_PARAM_DESC(change, change_params, name);

static void change_test(struct kunit *test)
{
	const struct change_param *param = test->param_value;
	struct k2_world *w = world(test);
	u64 before = k2_world_best_bytes_per_s(w, &param->before, param->target_ns);
	u64 after = k2_world_best_bytes_per_s(w, &param->after, param->target_ns);

	KUNIT_ASSERT_TRUE(test, before && after);
	k2_world_init(w, &param->before, 1, param->target_ns);
	k2_world_law_on(w, 32, param->target_ns, 0, CEILING);
	k2_world_run(w, LONG_S * SEC);
	k2_world_set_load(w, &param->after);
	k2_world_run(w, 2 * LONG_S * SEC);
	expect_good(test, w, SETTLED_S, LONG_S, before);
	expect_good(test, w, LONG_S + SETTLED_S, 2 * LONG_S, after);
}

/* ---- a bandwidth to give ---- */

struct bandwidth_param {
	const char *name;
	struct k2_world_load load;
	u32 pct;
};

static const struct bandwidth_param bandwidth_params[] = {
	{ "reads, 50%",			{ 96, 100, 1, 2 * MS }, 50 },
	{ "reads, 90%",			{ 96, 100, 1, 2 * MS }, 90 },
	{ "both on a full device, 80%",	{ 96, 50, 1, 2 * MS, true }, 80 },
};

KUNIT_ARRAY_PARAM_DESC(bandwidth, bandwidth_params, name);

/* The smallest bound that gives @pct percent of what the ceiling gives. */
static u32 smallest_for(struct k2_world *w, const struct k2_world_load *load, u32 pct)
{
	u64 reference = k2_world_fixed(w, load, CEILING, 0).bytes_per_s;
	u32 bound = 1;

	while (k2_world_fixed(w, load, bound, 0).bytes_per_s * 100 < reference * pct)
		bound = tail_up(bound);
	return bound;
}

static void bandwidth_test(struct kunit *test)
{
	const struct bandwidth_param *param = test->param_value;
	struct k2_world *w = world(test);
	u32 bound = smallest_for(w, &param->load, param->pct);
	u64 reference = k2_world_fixed(w, &param->load, CEILING, 0).bytes_per_s;
	struct k2_world_verdict v;

	k2_world_init(w, &param->load, 1, 0);
	k2_world_law_on(w, 32, 0, param->pct, CEILING);
	k2_world_run(w, LONG_S * SEC);
	v = k2_world_judge(w, SETTLED_S, LONG_S);
	KUNIT_EXPECT_GE_MSG(test, v.bytes_per_s * 100, reference * (param->pct - 2), "bandwidth");
	KUNIT_EXPECT_GE_MSG(test, v.least_bound, tail_down(bound), "best is %u", bound);
	KUNIT_EXPECT_LE_MSG(test, v.most_bound, tail_up(bound), "best is %u", bound);
}

/* Half of the bandwidth takes a bound of 3; 9 ms would allow one of 20, 1.3 ms no more than 2. */
static void both_targets_test(struct kunit *test)
{
	static const struct k2_world_load load = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);
	u32 bound = smallest_for(w, &load, 50);
	struct k2_world_verdict v;

	KUNIT_ASSERT_GE(test, bound, 3U);
	k2_world_init(w, &load, 1, 9 * MS);
	k2_world_law_on(w, 32, 9 * MS, 50, CEILING);
	k2_world_run(w, LONG_S * SEC);
	v = k2_world_judge(w, SETTLED_S, LONG_S);
	KUNIT_EXPECT_GE(test, v.least_bound, bound - 1);
	KUNIT_EXPECT_LE(test, v.most_bound, bound + 1);

	k2_world_init(w, &load, 1, 1300 * US);
	k2_world_law_on(w, 32, 1300 * US, 60, CEILING);
	k2_world_run(w, LONG_S * SEC);
	v = k2_world_judge(w, SETTLED_S, LONG_S);
	KUNIT_EXPECT_GE(test, v.good_pct, 95U);
	KUNIT_EXPECT_EQ(test, v.least_bound, 2U);
}

/* ---- what was found outlives the law ---- */

/* A new law with the same targets, as after a reset of the controller, goes on from there. */
static void resume(struct k2_world *w, u64 target_ns, u32 bandwidth_pct, u32 ceiling)
{
	struct tail_found found;

	tail_get_found(&w->law, &found);
	memset(&w->sums, 0, sizeof(w->sums));
	k2_world_law_on(w, ceiling, target_ns, bandwidth_pct, ceiling);
	tail_resume(&w->law, &found);
	w->bound = w->law.bound;
}

static void resume_test(struct kunit *test)
{
	static const struct k2_world_load load = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);
	u64 best = k2_world_best_bytes_per_s(w, &load, 4 * MS);
	struct k2_world_verdict v;
	u32 bound;

	k2_world_init(w, &load, 1, 4 * MS);
	k2_world_law_on(w, 32, 4 * MS, 0, CEILING);
	k2_world_run(w, SETTLED_S * SEC);
	bound = w->law.is_trial ? tail_down(w->law.bound) : w->law.bound;
	resume(w, 4 * MS, 0, CEILING);
	KUNIT_EXPECT_EQ(test, w->law.bound, bound);
	k2_world_run(w, LONG_S * SEC);
	expect_good(test, w, SETTLED_S, LONG_S, best);

	/* With a bandwidth, which is a part of what was measured at the ceiling. */
	bound = smallest_for(w, &load, 50);
	k2_world_init(w, &load, 1, 0);
	k2_world_law_on(w, 32, 0, 50, CEILING);
	k2_world_run(w, SETTLED_S * SEC);
	resume(w, 0, 50, CEILING);
	k2_world_run(w, LONG_S * SEC);
	v = k2_world_judge(w, SETTLED_S, LONG_S);
	KUNIT_EXPECT_GE(test, v.least_bound, bound - 1);
	KUNIT_EXPECT_LE(test, v.most_bound, bound + 1);
}

/* Nothing was found, or nothing is to be found, or it is more than is allowed now. */
static void resume_nothing_test(struct kunit *test)
{
	static const struct k2_world_load load = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);
	struct tail_found found;

	k2_world_init(w, &load, 1, 4 * MS);
	k2_world_law_on(w, 32, 4 * MS, 0, CEILING);
	tail_get_found(&w->law, &found);
	KUNIT_EXPECT_EQ(test, found.bound, 0U);
	resume(w, 4 * MS, 0, CEILING);
	KUNIT_EXPECT_EQ(test, (u32)w->law.state, (u32)TAIL_SEARCH);
	k2_world_run(w, SETTLED_S * SEC);
	KUNIT_ASSERT_EQ(test, (u32)w->law.state, (u32)TAIL_HOLD);
	tail_get_found(&w->law, &found);
	KUNIT_ASSERT_GT(test, found.bound, 2U);
	w->law.bound = tail_up(found.bound);
	w->law.is_trial = true;
	found.bound = 0;
	tail_get_found(&w->law, &found);
	KUNIT_EXPECT_EQ(test, tail_up(found.bound), w->law.bound);
	k2_world_law_on(w, 2, 4 * MS, 0, 2);
	tail_resume(&w->law, &found);
	KUNIT_EXPECT_EQ(test, w->law.bound, 2U);
	k2_world_law_on(w, 2, 0, 0, CEILING);
	tail_resume(&w->law, &found);
	KUNIT_EXPECT_EQ(test, w->law.bound, (u32)CEILING);
}

/* ---- what can not be, and what is not there ---- */

static void unmet_test(struct kunit *test)
{
	static const struct k2_world_load load = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);
	u64 best_ns;

	k2_world_init(w, &load, 1, 300 * US);
	k2_world_law_on(w, 32, 300 * US, 0, CEILING);
	k2_world_run(w, 20 * SEC);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	KUNIT_EXPECT_TRUE(test, w->law.is_unmet);
	KUNIT_EXPECT_EQ(test, w->law.bound, w->law.best_bound);
	KUNIT_EXPECT_EQ(test, w->law.bound, 1U);
	/* What it says is what that bound gives, to a bin. */
	best_ns = w->law.best_p999_ns;
	KUNIT_EXPECT_GE(test, k2_world_fixed(w, &load, 1, best_ns + best_ns / 31).good_pct, 80U);
	KUNIT_EXPECT_LE(test, k2_world_fixed(w, &load, 1, best_ns - best_ns / 16).good_pct, 20U);
}

/* 32 real-time requests at a time wait here, not in the device: a larger bound is better. */
static void saturating_test(struct kunit *test)
{
	static const struct k2_world_load load = { 0, 100, 32, 0 };
	struct k2_world *w = world(test);

	k2_world_init(w, &load, 1, 8 * MS);
	k2_world_law_on(w, 1, 8 * MS, 0, CEILING);
	k2_world_run(w, 20 * SEC);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	KUNIT_EXPECT_FALSE(test, w->law.is_unmet);
	KUNIT_EXPECT_GE(test, w->law.bound, 8U);
}

static void no_realtime_test(struct kunit *test)
{
	static const struct k2_world_load with = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);
	u64 nr_windows;
	u32 bound;

	k2_world_init(w, &with, 1, 4 * MS);
	k2_world_law_on(w, 32, 4 * MS, 0, CEILING);
	k2_world_run(w, 10 * SEC);
	bound = w->law.bound;
	nr_windows = w->law.nr_windows;
	/* The reader goes. */
	w->load.rt_depth = 0;
	k2_world_run(w, 100 * SEC);
	KUNIT_EXPECT_EQ(test, w->law.bound, bound);
	KUNIT_EXPECT_LE(test, w->law.nr_windows, nr_windows + 1);
	/* It comes back, and finds what it left. */
	w->rt_next_ns[0] = w->now_ns;
	w->load.rt_depth = 1;
	k2_world_run(w, 110 * SEC);
	KUNIT_EXPECT_GE(test, k2_world_judge(w, 100, 110).good_pct, 90U);
}

/* No request waits for the bound: it does not grow. Then requests wait. */
static void light_load_test(struct kunit *test)
{
	static const struct k2_world_load light = { 4, 100, 1, 2 * MS },
					  heavy = { 96, 100, 1, 2 * MS };
	struct k2_world *w = world(test);

	k2_world_init(w, &light, 1, 9 * MS);
	k2_world_law_on(w, 6, 9 * MS, 0, CEILING);
	k2_world_run(w, 60 * SEC);
	KUNIT_EXPECT_EQ(test, w->law.bound, 6U);
	k2_world_set_load(w, &heavy);
	k2_world_run(w, 66 * SEC);
	KUNIT_EXPECT_GE(test, w->law.bound, 15U);
	KUNIT_EXPECT_LE(test, w->law.bound, 30U);
}

static struct kunit_case tail_cases[] = {
	KUNIT_CASE(bin_test),
	KUNIT_CASE(step_test),
	KUNIT_CASE(p999_test),
	KUNIT_CASE(settle_test),
	KUNIT_CASE(off_test),
	KUNIT_CASE_PARAM(latency_test, latency_gen_params),
	KUNIT_CASE_PARAM(change_test, change_gen_params),
	KUNIT_CASE_PARAM(bandwidth_test, bandwidth_gen_params),
	KUNIT_CASE(both_targets_test),
	KUNIT_CASE(resume_test),
	KUNIT_CASE(resume_nothing_test),
	KUNIT_CASE(unmet_test),
	KUNIT_CASE(saturating_test),
	KUNIT_CASE(no_realtime_test),
	KUNIT_CASE(light_load_test),
	{}
};

static struct kunit_suite tail_suite = {
	.name = "tail",
	.init = tail_test_init,
	.test_cases = tail_cases,
};

kunit_test_suite(tail_suite);
