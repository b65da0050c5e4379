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

/* ---- the hold, window by window ---- */

/*
 * A tick's worth of 41 MB/s, or half of that if the device is slow. Requests wait for the bound and
 * fill it, unless the load is light; real time may be alone.
 */
static bool tick_of_window(struct k2_world *w, u32 nr_beyond, u32 read_pct)
{
	u32 nr_be = w->is_alone ? 0 : w->is_slow ? 480 : 960;
	u32 inflight = w->inflight_seen ? w->inflight_seen : w->law.bound;

	w->now_ns += 100 * MS;
	w->sums.nr += nr_be + 40;
	w->sums.nr_limited += w->is_light ? 0 : nr_be;
	w->sums.bytes += (nr_be + 40) * 4096;
	w->sums.be_bytes += nr_be * 4096;
	w->sums.be_read_bytes += nr_be * 4096 / 100 * read_pct;
	w->sums.nr_rt += 40;
	w->sums.bin[tail_bin(1 * MS)] += 40;
	w->sums.nr_beyond += nr_beyond;
	return tail_tick(&w->law, &w->sums, inflight, w->now_ns);
}

/* A window of a second with 400 real-time requests, @nr_beyond of them too late. */
static void window(struct k2_world *w, u32 nr_beyond, u32 read_pct)
{
	while (w->law.is_settling)
		tick_of_window(w, 0, read_pct);
	while (!tick_of_window(w, nr_beyond, read_pct))
		nr_beyond = 0;
}

static void windows(struct k2_world *w, u32 nr)
{
	while (nr--)
		window(w, 0, 100);
}

/* A hold at 12 that has just begun; 13 was too much. */
static void start_hold(struct kunit *test)
{
	struct k2_world *w = world(test);

	k2_world_law_on(w, 12, 2 * MS, 0, CEILING);
	w->law.low = 12;
	w->law.high = 13;
	w->law.bound = 12;
	tail_start_hold(&w->law, 12);
	w->law.most_inflight = 0;
	w->law.since_ns = w->now_ns;
	w->law.since = w->sums;
	w->law.is_settling = false;
}

/* A hold at 12 of a bound that has to give half of 41 MB/s, which windows() has. */
static void start_hold_above(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.config.target_ns = 0;
	w->law.config.bandwidth_pct = 50;
	w->law.reference_bytes_per_s = 41 * 1000 * 1000;
	w->law.is_above = true;
	w->law.credit = 0;
}

/*
 * After ten seconds without a request the first window is no shorter of bandwidth than the one
 * before.
 */
static void pause_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold_above(test);
	windows(w, 5);
	w->now_ns += 10 * SEC;
	windows(w, 5);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	KUNIT_EXPECT_EQ(test, w->law.price, (u32)TAIL_PRICE_MIN);
	KUNIT_EXPECT_FALSE(test, w->law.last.is_short);
}

/* A load of less than the reference that never waits for the bound needs no larger one. */
static void less_load_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold_above(test);
	w->law.reference_bytes_per_s = 410 * 1000 * 1000;
	window(w, 0, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 13U);
	w->is_light = true;
	windows(w, 20);
	KUNIT_EXPECT_EQ(test, w->law.bound, 13U);
}

/* What a window has shown can be read until the next one has ended. */
static void last_window_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	window(w, 1, 100);
	while (w->law.is_settling)
		tick_of_window(w, 0, 100);
	KUNIT_EXPECT_FALSE(test, tick_of_window(w, 0, 100));
	KUNIT_EXPECT_EQ(test, w->law.last.ns, SEC);
	KUNIT_EXPECT_EQ(test, w->law.last.nr_rt, 400UL);
	KUNIT_EXPECT_TRUE(test, w->law.last.is_violated);
}

static void credit_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	windows(w, 20);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	/* The next one is too much. */
	windows(w, 10);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 11U);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 10U);
}

static void price_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	windows(w, 59);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	windows(w, 1);
	KUNIT_EXPECT_EQ(test, w->law.bound, 13U);
	/* On trial: the first violation ends it, and the next trial is twice as far away. */
	windows(w, 30);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	windows(w, 119);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	windows(w, 1);
	KUNIT_EXPECT_EQ(test, w->law.bound, 13U);
}

/* A step is one from the bound if requests wait for it, however few the ticks saw in flight. */
static void few_seen_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->inflight_seen = 3;
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 11U);
	KUNIT_EXPECT_EQ(test, w->law.high, 13U);
}

/* @nr windows of a device that makes real time wait from 13 in flight on. */
static void windows_below_13(struct k2_world *w, u32 nr)
{
	while (nr--)
		window(w, w->law.bound >= 13, 100);
}

/* From 15 on a violation costs two steps; what is tried for the bandwidth's sake goes one. */
static void coarse_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.bound = 40;
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, tail_down(tail_down(40)));
	w->law.bound = 17;
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 15U);

	start_hold_above(test);
	w->law.bound = 40;
	windows(w, TAIL_PRICE_MIN);
	KUNIT_EXPECT_EQ(test, w->law.bound, tail_down(40));
}

/* A trial that fails goes back to where it began, although that is one step only. */
static void failed_trial_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.bound = 40;
	windows(w, TAIL_PRICE_MIN);
	KUNIT_EXPECT_EQ(test, w->law.bound, 45U);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 40U);
	/* No trial any more: two. */
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 32U);
	/* One that has paid for a violation is none either. */
	start_hold(test);
	w->law.bound = 40;
	windows(w, TAIL_PRICE_MIN + TAIL_COST);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 45U);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 36U);
}

/* At the ceiling there is nothing to try: what was earned stays. */
static void ceiling_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.config.ceiling = 12;
	windows(w, TAIL_PRICE_MIN + 5);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	KUNIT_EXPECT_EQ(test, w->law.price, (u32)TAIL_PRICE_MIN);
}

/*
 * 97 in flight are too many, and no request waits for the bound: the step starts there. When
 * requests wait, 97 is tried first.
 */
static void in_flight_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.bound = CEILING;
	w->law.high = 0;
	w->is_light = true;
	w->inflight_seen = 97;
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, tail_guarded(tail_down(tail_down(97))));
	KUNIT_EXPECT_LT(test, w->law.bound, 60U);
	w->is_light = false;
	w->inflight_seen = 0;
	windows(w, 1);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
	KUNIT_EXPECT_EQ(test, w->law.bound, 97U);
}

/* What was in flight long ago, when the bound was another by far, is not tried first. */
static void old_suspect_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.high = 0;
	w->law.suspect = 97;
	windows(w, 1);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
	KUNIT_EXPECT_EQ(test, w->law.bound, 24U);
}

/*
 * The drive is late all by itself, while best effort has next to nothing under way. When it has
 * more again the bound is found again within seconds, not a step in minutes.
 */
static void moment_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->is_light = true;
	w->inflight_seen = 1;
	window(w, 1, 100);
	window(w, 1, 100);
	KUNIT_EXPECT_EQ(test, w->law.bound, 1U);
	w->is_light = false;
	w->inflight_seen = 0;
	windows_below_13(w, 12);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	KUNIT_EXPECT_GE(test, w->law.bound, 9U);
	KUNIT_EXPECT_LE(test, w->law.bound, 12U);
}

/*
 * A load of no more than 6 best-effort requests at a time, for which a bound of 8 was never in the
 * way, is late on a full device: a smaller bound keeps it from that, and no search undoes this.
 */
static void light_but_late_test(struct kunit *test)
{
	static const struct k2_world_load heavy = { 96, 0, 1, 2 * MS },
					  light = { 6, 0, 1, 2 * MS, true };
	struct k2_world *w = world(test);

	k2_world_init(w, &heavy, 1, 8 * MS);
	k2_world_law_on(w, 32, 8 * MS, 0, CEILING);
	k2_world_run(w, 10 * SEC);
	k2_world_set_load(w, &light);
	k2_world_run(w, MAX_SECONDS * SEC - 1);
	KUNIT_EXPECT_GE(test, k2_world_judge(w, 15, MAX_SECONDS - 1).good_pct, 97U);
	KUNIT_EXPECT_GE(test, w->law.bound, 4U);
}

/* 13 keeps real time waiting, 12 is short of the bandwidth: the search finds no more than 12. */
static void latency_first_search_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	u32 i;

	k2_world_law_on(w, 32, 2 * MS, 90, CEILING);
	for (i = 0; i < 30 && w->law.state != TAIL_HOLD; i++) {
		w->is_slow = w->law.bound < 13;
		window(w, w->law.bound >= 13, 100);
	}
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	KUNIT_EXPECT_LE(test, w->law.bound, 12U);
	KUNIT_EXPECT_GE(test, w->law.bound, 9U);
	KUNIT_EXPECT_FALSE(test, w->law.is_above);
}

/*
 * The same in the hold, in which the latency goes first as well. Once 13 is fine,
 * it is had; and once 12 is enough, that.
 */
static void latency_first_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	u32 i;

	start_hold_above(test);
	w->law.config.target_ns = 2 * MS;
	w->law.reference_bytes_per_s = 80 * 1000 * 1000;
	w->law.bound = 13;
	for (i = 0; i < 110; i++) {
		w->is_slow = w->law.bound < 13;
		window(w, w->law.bound >= 13, 100);
		KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	}
	for (i = 0; i < 15; i++) {
		w->is_slow = w->law.bound < 13;
		windows(w, 1);
	}
	KUNIT_EXPECT_EQ(test, w->law.bound, 13U);
	w->is_slow = false;
	windows(w, 120);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	KUNIT_EXPECT_TRUE(test, w->law.is_above);
}

static void other_load_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	windows(w, 3);
	window(w, 0, 80);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	window(w, 0, 74);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
	KUNIT_EXPECT_EQ(test, w->law.high, 0U);
}

/* Best effort comes and goes, as a batch does: without it there is no other load, just none. */
static void batch_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	unsigned int i;

	start_hold(test);
	for (i = 0; i < 2; i++) {
		w->is_light = true;
		w->is_alone = true;
		windows(w, 3);
		w->is_alone = false;
		w->is_light = false;
		if (i == 0)
			windows(w, 3);
	}
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	KUNIT_EXPECT_EQ(test, w->law.high, 13U);
	/* What it does when it is there still counts. */
	window(w, 0, 74);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
}

static void gross_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	windows(w, 30);
	window(w, 20, 100);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	windows(w, 30);
	window(w, 21, 100);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
	KUNIT_EXPECT_LT(test, w->law.bound, 9U);
}

/* While it is not in force nothing counts, and what is there at the end is settled first. */
static void rest_test(struct kunit *test)
{
	struct k2_world *w = world(test);
	u32 i;

	start_hold(test);
	for (i = 0; i < 20; i++) {
		w->sums.nr += 1000;
		w->sums.nr_rt += 1000;
		w->sums.nr_beyond += 500;
		w->now_ns += TAIL_TICK_NS;
		tail_rest(&w->law, w->now_ns);
	}
	for (i = 0; i < 20; i++) {
		w->sums.nr += 1000;
		w->sums.nr_rt += 1000;
		w->now_ns += TAIL_TICK_NS;
		tail_tick(&w->law, &w->sums, 12, w->now_ns);
	}
	KUNIT_EXPECT_EQ(test, w->law.bound, 12U);
	KUNIT_EXPECT_FALSE(test, w->law.last.is_violated);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
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
	KUNIT_CASE(rest_test),
	KUNIT_CASE(pause_test),
	KUNIT_CASE(less_load_test),
	KUNIT_CASE(last_window_test),
	KUNIT_CASE(credit_test),
	KUNIT_CASE(price_test),
	KUNIT_CASE(few_seen_test),
	KUNIT_CASE(coarse_test),
	KUNIT_CASE(failed_trial_test),
	KUNIT_CASE(ceiling_test),
	KUNIT_CASE(in_flight_test),
	KUNIT_CASE(old_suspect_test),
	KUNIT_CASE(moment_test),
	KUNIT_CASE(light_but_late_test),
	KUNIT_CASE(latency_first_search_test),
	KUNIT_CASE(latency_first_test),
	KUNIT_CASE(other_load_test),
	KUNIT_CASE(batch_test),
	KUNIT_CASE(gross_test),
	{}
};

static struct kunit_suite tail_suite = {
	.name = "tail",
	.init = tail_test_init,
	.test_cases = tail_cases,
};

kunit_test_suite(tail_suite);
