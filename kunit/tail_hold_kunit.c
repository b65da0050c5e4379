// SPDX-License-Identifier: GPL-2.0
/*
 * tail_hold_kunit.c - what the law of a bound does from one window of its hold to the next
 *
 * Here no device answers, as in tail_kunit.c. Each test says what completes in a window, and how
 * many real-time requests are too late.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "../lib/tail.h"
#include "sim/k2_world.h"

static struct k2_world *world(struct kunit *test)
{
	return test->priv;
}

static int tail_hold_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct k2_world), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, test->priv);
	return 0;
}

/* ---- windows ---- */

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
	w->sums.bin[tail_bin(w->wait_ns ? w->wait_ns : 1 * MS)] += 40;
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

/*
 * No bound kept the target in the search, and the one that is held has 5 ms. A tail twice as long
 * as in the window before is that of another load.
 */
static void gross_unmet_test(struct kunit *test)
{
	struct k2_world *w = world(test);

	start_hold(test);
	w->law.bound = CEILING;
	w->law.is_unmet = true;
	w->law.best_p999_ns = 5 * MS;
	w->wait_ns = 9 * MS;
	window(w, 100, 100);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_HOLD);
	window(w, 100, 100);
	w->wait_ns = 40 * MS;
	window(w, 100, 100);
	KUNIT_EXPECT_EQ(test, w->law.state, TAIL_SEARCH);
	KUNIT_EXPECT_LT(test, w->law.bound, CEILING / 8U);
	KUNIT_EXPECT_EQ(test, w->law.low, 0U);
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

static struct kunit_case tail_hold_cases[] = {
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
	KUNIT_CASE(gross_unmet_test),
	{}
};

static struct kunit_suite tail_hold_suite = {
	.name = "tail_hold",
	.init = tail_hold_test_init,
	.test_cases = tail_hold_cases,
};

kunit_test_suite(tail_hold_suite);
