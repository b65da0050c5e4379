// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_kunit.c - mq-mqfq's search for T and D, on devices that are a formula each
 *
 * A device says how many requests, and bytes, a window has with a D and a T. What the search makes
 * of the policy as it is, and of devices with dies, kunit/hosted/stress/mqfq_auto_sweep shows.
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../mq-mqfq/mqfq_auto.c"
#ifndef __KERNEL__
/* In the kernel the suite mqfq_auto_leg has it. */
#include "../mq-mqfq/mqfq_auto_leg.c"
#endif

enum {
	WINDOW_NS	= 50000000,
	REQUESTS	= 4000,		/* in a window, at best */
	KB		= 4,
	SLOTS		= 64,
	THROTTLE_KB	= 64,
	LOAD		= 100000,	/* requests outstanding */
	OPEN_SLOTS	= 5000,
	WINDOWS		= 600,		/* half a minute */
};

/* What a device does under a load. */
struct device {
	u32 parallel;		/* requests that it works on at once */
	u32 half_kb;		/* with this T it gets half of what it could have, or 0 */
	u32 load;		/* outstanding */
	u32 requests;		/* in a window, at best */
	u32 scatter;		/* with D at this, half of the best, and never all; or 0 */
	u32 largest_kb;
	bool displaces;		/* more than @parallel: bytes rise, requests fall */
	bool is_time;		/* and bytes are time */
	bool unfair;		/* more than @parallel: both rise by 3%, and one flow has it all */
	bool unfair_below;	/* less than @parallel: one of two flows has it all */
	u32 drift_ppm;		/* more from window to window */
	u32 noise_ppm;
};

struct context {
	struct mqfq_auto law;
	struct mqfq_auto_flow flow[3];
	u32 third;		/* bytes of a third flow in a window */
	struct device device;
	u32 random, slots_before, throttle_kb_before;
	unsigned int nr_windows;
};

static struct context *context(struct kunit *test)
{
	return test->priv;
}

static const struct device usual = {
	.parallel = 64, .load = LOAD, .requests = REQUESTS, .largest_kb = KB,
};

static int mqfq_auto_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	c->random = 1;
	c->device = usual;
	mqfq_auto_init(&c->law, SLOTS, OPEN_SLOTS, THROTTLE_KB);
	return 0;
}

/* What the device does in a window, in thousandths of a request. */
static u64 milli_requests(struct context *c, u32 slots, u32 throttle_kb)
{
	const struct device *d = &c->device;
	u32 busy = min(min(slots, d->load), d->parallel);
	u64 milli = div_u64(1000ULL * d->requests * busy, d->parallel);

	if (d->scatter)
		milli = div_u64(1000ULL * d->requests * slots, slots + d->scatter);
	if (d->half_kb)
		milli = div_u64(milli * throttle_kb, throttle_kb + d->half_kb);
	milli += div_u64(milli * d->drift_ppm * c->nr_windows, 1000000);
	c->random = c->random * 1664525U + 1013904223U;
	if (d->noise_ppm)
		milli += div_u64(milli * ((c->random >> 8) % d->noise_ppm), 1000000);
	return milli;
}

/* A window in which one of two flows has @first_ppm of the bytes. */
static void end_window_of(struct context *c, const struct mqfq_auto_window *w, u32 first_ppm)
{
	u64 first = div_u64(w->bytes * first_ppm, 1000000);
	unsigned int i;

	mqfq_auto_begin_window(&c->law);
	mqfq_auto_flow(&c->law, &c->flow[0], first << VT_SHIFT, true);
	mqfq_auto_flow(&c->law, &c->flow[1], (w->bytes - first) << VT_SHIFT, true);
	mqfq_auto_flow(&c->law, &c->flow[2], (u64)c->third << VT_SHIFT, c->third);
	mqfq_auto_begin_shares(&c->law);
	for (i = 0; i < ARRAY_SIZE(c->flow); i++)
		mqfq_auto_share(&c->law, &c->flow[i], 0);
	mqfq_auto_window(&c->law, w);
}

static void end_window(struct context *c, struct mqfq_auto_window *w, u32 first_ppm)
{
	w->nr_flows = 2;
	end_window_of(c, w, first_ppm);
}

static void window(struct context *c)
{
	u32 slots = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS);
	u32 throttle_kb = mqfq_auto_value(&c->law, MQFQ_AUTO_THROTTLE_KB);
	const struct device *d = &c->device;
	/* What completes in a window was sent in the one before. */
	u64 milli = milli_requests(c, c->slots_before, c->throttle_kb_before);
	struct mqfq_auto_window w = {
		.ns		= WINDOW_NS,
		.requests	= div_u64(milli, 1000),
		.bytes		= div_u64(milli * (KB << 10), 1000),
		.slot_waits	= slots < d->load,
		.throttles	= d->half_kb > 0,
		.in_flight	= min(slots, d->load),
		.largest_kb	= d->largest_kb, .is_time = d->is_time,
	};
	u32 first_ppm = 500000;

	if (slots < d->parallel && d->unfair_below)
		first_ppm = 1000000;
	if (slots > d->parallel && d->displaces) {
		w.bytes *= 2;
		w.requests -= w.requests / 4;
	}
	if (slots > d->parallel && d->unfair) {
		w.bytes += w.bytes * 3 / 100;
		w.requests += w.requests * 3 / 100;
		/* A Jain's index of 0.98. */
		first_ppm = 571429;
	}
	end_window(c, &w, first_ppm);
	c->slots_before = slots;
	c->throttle_kb_before = throttle_kb;
	c->nr_windows++;
}

static void windows(struct context *c, unsigned int n)
{
	c->slots_before = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS);
	c->throttle_kb_before = mqfq_auto_value(&c->law, MQFQ_AUTO_THROTTLE_KB);
	while (n--)
		window(c);
}

static u32 slots(struct context *c)
{
	return c->law.knob[MQFQ_AUTO_SLOTS].base;
}

static u32 throttle_kb(struct context *c)
{
	return c->law.knob[MQFQ_AUTO_THROTTLE_KB].base;
}

static void begin_with(struct context *c, u32 slots)
{
	mqfq_auto_off(&c->law, MQFQ_AUTO_SLOTS, slots);
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
}

/* ---- where it comes to rest ---- */

static const struct climb {
	const char *name;
	u32 from;
	struct device device;
	u32 slots;
} climbs[] = {
	{ "a device of 4",		64, { 4, 0, LOAD, REQUESTS }, 4 },
	{ "of 1",			64, { 1, 0, LOAD, REQUESTS }, 1 },
	{ "of 64: stays",		64, { 64, 0, LOAD, REQUESTS }, 64 },
	{ "of 48: stays above it",	64, { 48, 0, LOAD, REQUESTS }, 64 },
	{ "of 256",			64, { 256, 0, LOAD, REQUESTS }, 256 },
	{ "of 256, from 1",		1, { 256, 0, LOAD, REQUESTS }, 256 },
	{ "of 16, from far above",	8192, { 16, 0, LOAD, REQUESTS }, 16 },
	{ "of 100, from 3",		3, { 100, 0, LOAD, REQUESTS }, 192 },
	{ "of more than can be",	32768, { 1 << 20, 0, 1 << 21, REQUESTS }, MQFQ_SLOTS_MAX },
	/* 2% more for twice as much: at 32 times the half, less one. */
	{ "dies at random",		64, { 64, 0, LOAD, REQUESTS, 16 }, 512 },
	{ "few requests",		64, { 256, 0, LOAD, 100 }, 256 },
	{ "hardly any requests",	64, { 256, 0, LOAD, 5 }, 256 },
	{ "a load of 10: no telling",	64, { 256, 0, 10, REQUESTS }, 64 },
	{ "a load of 40: half is felt",	64, { 8, 0, 40, REQUESTS }, 10 },
	{ "a load of 40, far above",	4096, { 8, 0, 40, REQUESTS }, 10 },
	{ "a load of 10, far above",	4096, { 256, 0, 10, REQUESTS }, 4096 },
	{ "large ones displace small",	16, { 64, 0, LOAD, REQUESTS, .displaces = true }, 64 },
	{ "large ones have displaced",	256, { 64, 0, LOAD, REQUESTS, .displaces = true }, 64 },
	{ "as much time as small ones",	16, { 64, 0, LOAD, REQUESTS, 0, 0, true, true }, 128 },
	{ "more is less fair",		16, { 64, 0, LOAD, REQUESTS, .unfair = true }, 64 },
	{ "more was less fair",		256, { 64, 0, LOAD, REQUESTS, .unfair = true }, 64 },
	{ "less is less fair, too",	16, { 64, 0, LOAD, REQUESTS, .unfair_below = true }, 64 },
	{ "ever more load",		64, { 64, 0, LOAD, REQUESTS, .drift_ppm = 12000 }, 64 },
	{ "noise of a percent",		64, { 256, 0, LOAD, REQUESTS, .noise_ppm = 10000 }, 256 },
	{ "noise of four",		64, { 64, 0, LOAD, REQUESTS, .noise_ppm = 40000 }, 64 },
};

KUNIT_ARRAY_PARAM_DESC(climb, climbs, name);

static void climb_test(struct kunit *test)
{
	const struct climb *p = test->param_value;
	struct context *c = context(test);
	u64 steps;

	c->device = p->device;
	begin_with(c, p->from);
	windows(c, WINDOWS);
	KUNIT_EXPECT_EQ(test, slots(c), p->slots);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), (u32)THROTTLE_KB);
	/* And stays there. */
	steps = c->law.nr_steps;
	windows(c, WINDOWS);
	KUNIT_EXPECT_EQ(test, c->law.nr_steps, steps);
	KUNIT_EXPECT_EQ(test, slots(c), p->slots);
}

static const struct {
	const char *name;
	u32 from, half_kb, largest_kb, throttle_kb;
} falls[] = {
	/*
	 * From 64 to 32 costs 1.5%, from 4096 to 128 all in all 0.8%; from 32 to 64 is not worth
	 * 2%.
	 */
	{ "one KiB is half",		64, 1, 4, 64 },
	{ "one KiB is half, from above", 4096, 1, 4, 128 },
	{ "one KiB is half, from below", 1, 1, 4, 32 },
	{ "sixteen are half",		64, 16, 4, 512 },
	{ "never throttled",		64, 0, 4, 64 },
	{ "never throttled, from above", 4096, 0, 4, 64 },
};

KUNIT_ARRAY_PARAM_DESC(fall, falls, name);

static void fall_test(struct kunit *test)
{
	struct context *c = context(test);
	const typeof(falls[0]) *p = test->param_value;

	c->device.half_kb = p->half_kb;
	c->device.largest_kb = p->largest_kb;
	mqfq_auto_off(&c->law, MQFQ_AUTO_THROTTLE_KB, p->from);
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	windows(c, WINDOWS);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), p->throttle_kb);
	KUNIT_EXPECT_EQ(test, slots(c), (u32)SLOTS);
}

/* Throttling that costs nothing: down to what a request costs, and not below the least. */
static void floor_test(struct kunit *test)
{
	struct context *c = context(test);
	struct mqfq_auto_window w = {
		.ns = WINDOW_NS, .bytes = REQUESTS << 12, .requests = REQUESTS, .throttles = 1,
		.largest_kb = 20,
	};
	unsigned int i;

	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	for (i = 0; i < WINDOWS; i++)
		end_window(c, &w, 500000);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), 20U);
	w.largest_kb = 1;
	for (i = 0; i < WINDOWS; i++)
		end_window(c, &w, 500000);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), (u32)MQFQ_AUTO_THROTTLE_KB_MIN);
}

/* T that always pays ends at its limit. */
static void ceiling_test(struct kunit *test)
{
	struct context *c = context(test);

	c->device.half_kb = 1 << 20;
	c->device.requests = 100000 * REQUESTS;
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	windows(c, 2 * WINDOWS);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), (u32)MQFQ_AUTO_THROTTLE_KB_MAX);
}

/* ---- how it gets there ---- */

/* So many requests with 64 slots, 32, 16, and less. */
static void windows_of(struct context *c, unsigned int n, u32 of_64, u32 of_32, u32 of_16, u32 of_8)
{
	struct mqfq_auto_window w = { .ns = WINDOW_NS, .slot_waits = 1 };

	while (n--) {
		u32 now = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS);

		w.requests = now >= 64 ? of_64 : now >= 32 ? of_32 : now >= 16 ? of_16 : of_8;
		w.bytes = w.requests << 12;
		w.in_flight = now;
		end_window(c, &w, 500000);
	}
}

/* Steps down that cost 0.6% each: one is taken, the second one would be too much. */
static void debt_test(struct kunit *test)
{
	struct context *c = context(test);

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	windows_of(c, WINDOWS, 100600, 100000, 99400, 98800);
	KUNIT_EXPECT_EQ(test, slots(c), 32U);
	/* Up again, which pays the debt, and down. */
	windows_of(c, 2 * WINDOWS, 110000, 100000, 90000, 80000);
	KUNIT_EXPECT_EQ(test, slots(c), 64U);
	windows_of(c, 2 * WINDOWS, 100600, 100000, 90000, 80000);
	KUNIT_EXPECT_EQ(test, slots(c), 32U);
	/* Another load owes nothing. */
	windows_of(c, WINDOWS, 201200, 200000, 198800, 190000);
	KUNIT_EXPECT_EQ(test, slots(c), 16U);
}

/* Twice as much brings just what a step needs, and windows scatter: a comparison ends anyway. */
static void doubt_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int n = 0;

	begin_with(c, 32);
	while (!c->law.nr_probes || c->law.probing) {
		u32 off = n % 2 ? 50 : 0;

		windows_of(c, 1, 1000 + off, 980 + off, 900, 800);
		KUNIT_ASSERT_LE(test, n++, 3U * MQFQ_AUTO_PAIRS_MAX + 20);
	}
	KUNIT_EXPECT_GE(test, n, 2U * MQFQ_AUTO_PAIRS_MAX);
}

/* At rest: comparisons become rare, and what they compare with is not in force for long. */
static void rest_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int i, away = 0;
	u64 probes;

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	windows(c, 2 * WINDOWS);
	probes = c->law.nr_probes;
	for (i = 0; i < 2 * WINDOWS; i++) {
		window(c);
		away += mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) < SLOTS;
	}
	KUNIT_EXPECT_GE(test, c->law.nr_probes - probes, 6U);
	KUNIT_EXPECT_LE(test, c->law.nr_probes - probes, 16U);
	KUNIT_EXPECT_LE(test, away, 2 * WINDOWS / 50);
}

/* Another device, or another load: from the next windows on, not after the rest. */
static void change_test(struct kunit *test)
{
	struct context *c = context(test);

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	windows(c, 2 * WINDOWS);
	KUNIT_EXPECT_EQ(test, slots(c), 64U);
	c->device.parallel = 256;
	windows(c, 80);
	KUNIT_EXPECT_EQ(test, slots(c), 256U);
	windows(c, 2 * WINDOWS);
	c->device.requests *= 2;
	c->device.parallel = 16;
	windows(c, 160);
	KUNIT_EXPECT_EQ(test, slots(c), 16U);
}

/* A load that was not held back is, all of a sudden, with the same throughput. */
static void felt_test(struct kunit *test)
{
	struct context *c = context(test);
	u64 probes;

	c->device.load = 30;
	c->device.parallel = 30;
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	windows(c, 2 * WINDOWS);
	while (c->law.wait < 100)
		window(c);
	probes = c->law.nr_probes;
	KUNIT_EXPECT_EQ(test, probes, 0U);
	c->device.load = LOAD;
	windows(c, 5);
	KUNIT_EXPECT_GT(test, c->law.nr_probes, probes);
}

/* Without requests there is nothing to learn, and no time passes. */
static void idle_test(struct kunit *test)
{
	struct mqfq_auto_window w = { .ns = WINDOW_NS, .slot_waits = 1 };
	struct context *c = context(test);
	unsigned int i;

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	for (i = 0; i < WINDOWS; i++)
		end_window(c, &w, 500000);
	KUNIT_EXPECT_EQ(test, c->law.nr_probes, 0U);
	/* The load goes away in the middle of a comparison. */
	while (mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) == SLOTS)
		window(c);
	for (i = 0; i < 2 * MQFQ_AUTO_LEG_WINDOWS; i++)
		end_window(c, &w, 500000);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), (u32)SLOTS);
	KUNIT_EXPECT_EQ(test, c->law.nr_steps, 0U);
}

/* Both at once, on a device that needs more of both. */
static void both_test(struct kunit *test)
{
	struct context *c = context(test);

	c->device.parallel = 256;
	c->device.half_kb = 16;
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	windows(c, WINDOWS);
	KUNIT_EXPECT_EQ(test, slots(c), 256U);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), 512U);
}

/* One flow alone has all the slots there are; another one ends that at once. */
static void alone_test(struct kunit *test)
{
	struct mqfq_auto_window w = {
		.ns = WINDOW_NS, .bytes = REQUESTS << 12, .requests = REQUESTS, .slot_waits = 1,
		.in_flight = SLOTS, .nr_flows = 1,
	};
	struct context *c = context(test);
	unsigned int i;

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), (u32)OPEN_SLOTS);
	for (i = 0; i < WINDOWS; i++) {
		mqfq_auto_begin_window(&c->law);
		mqfq_auto_window(&c->law, &w);
		KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), (u32)OPEN_SLOTS);
	}
	KUNIT_EXPECT_EQ(test, c->law.nr_probes, 0ULL);
	end_window(c, &w, 500000);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), (u32)SLOTS);
	/* Not at once again: the other one may only have paused. */
	w.nr_flows = 1;
	mqfq_auto_begin_window(&c->law);
	mqfq_auto_window(&c->law, &w);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), (u32)SLOTS);
	/* A number is for one flow, too. */
	mqfq_auto_off(&c->law, MQFQ_AUTO_SLOTS, 7);
	for (i = 0; i < WINDOWS; i++) {
		mqfq_auto_begin_window(&c->law);
		mqfq_auto_window(&c->law, &w);
	}
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), 7U);
}

/*
 * So much is outstanding, half of it of a flow that has @first_ppm of the bytes as long as D holds
 * nothing back, half of them otherwise. With D below @needs, bytes and requests are fewer.
 */
static void windows_shallow(struct context *c, unsigned int n, u32 load, u32 first_ppm, u32 needs)
{
	while (n--) {
		u32 now = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS);
		u64 requests = REQUESTS * min(now, needs) / needs;
		struct mqfq_auto_window w = {
			.ns = WINDOW_NS, .requests = requests, .bytes = requests << 12,
			.slot_waits = now < load, .in_flight = min(now, load),
		};

		end_window(c, &w, now >= load ? first_ppm : 500000);
	}
}

static const struct {
	const char *name;
	u32 load, first_ppm, needs, slots;
} shallows[] = {
	/* What is outstanding does not limit the device: fewer slots are fair. */
	{ "16 of two, 1 to 9",		16, 900000, 8, 8 },
	{ "32 of two, 1 to 9",		32, 900000, 8, 8 },
	{ "16 of two, fair",		16, 500000, 8, 8 },
	/* Half costs a third; three quarters are fair. */
	{ "half is too few",		16, 900000, 12, 12 },
	/* The device could do more than is asked of it: fewer slots only cost. */
	{ "as much as is asked for",	16, 600000, 64, OPEN_SLOTS },
};

KUNIT_ARRAY_PARAM_DESC(shallow, shallows, name);

/* From all slots on: D goes below what is outstanding where that makes it fair and costs little. */
static void shallow_test(struct kunit *test)
{
	const typeof(shallows[0]) *p = test->param_value;
	struct context *c = context(test);

	begin_with(c, OPEN_SLOTS);
	windows_shallow(c, WINDOWS, p->load, p->first_ppm, p->needs);
	KUNIT_EXPECT_EQ(test, slots(c), p->slots);
}

/* One request in ten windows, two with more slots: too few to tell anything. */
static void few_test(struct kunit *test)
{
	struct mqfq_auto_window w = { .ns = WINDOW_NS, .slot_waits = 1, .in_flight = SLOTS };
	struct context *c = context(test);
	unsigned int i;

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	for (i = 0; i < 10 * WINDOWS; i++) {
		bool more = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) > SLOTS;

		w.requests = i % 10 ? 0 : 1 + more;
		w.bytes = w.requests << 12;
		end_window(c, &w, 500000);
	}
	KUNIT_EXPECT_GT(test, c->law.nr_probes, 0ULL);
	KUNIT_EXPECT_EQ(test, slots(c), (u32)SLOTS);
}

/*
 * With D below the 16 that are outstanding the total falls: of 1000 the flow with less has 220
 * instead of 200, the other one 380 instead of 800. That is fairer, and not worth it.
 */
static void dear_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int i;

	begin_with(c, OPEN_SLOTS);
	for (i = 0; i < WINDOWS; i++) {
		bool sorted = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) < 16;
		u64 requests = sorted ? REQUESTS * 6 / 10 : REQUESTS;
		struct mqfq_auto_window w = {
			.ns = WINDOW_NS, .requests = requests, .bytes = requests << 12,
			.slot_waits = sorted, .in_flight = sorted ? 8 : 16,
		};

		end_window(c, &w, sorted ? 633333 : 800000);
	}
	KUNIT_EXPECT_EQ(test, slots(c), (u32)OPEN_SLOTS);
}

/* A load that shrinks in the middle of a comparison: begin again, with what is left. */
static void shrink_test(struct kunit *test)
{
	struct context *c = context(test);

	begin_with(c, 1024);
	while (!c->law.probing)
		windows_shallow(c, 1, 1024, 500000, 8);
	windows_shallow(c, 40, 16, 900000, 8);
	KUNIT_EXPECT_EQ(test, slots(c), 8U);
}

/* A D that is unfair is not tried again and again, but after some rests: who knows. */
static void unfair_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int i, above = 0;

	begin_with(c, OPEN_SLOTS);
	windows_shallow(c, 60, 64, 900000, 32);
	KUNIT_EXPECT_EQ(test, slots(c), 32U);
	for (i = 0; i < WINDOWS && c->law.unfair_slots == 64; i++) {
		windows_shallow(c, 1, 64, 900000, 32);
		above += mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) >= 64;
	}
	KUNIT_EXPECT_EQ(test, above, 0U);
	KUNIT_EXPECT_EQ(test, c->law.nr_unfair_rests, (unsigned int)MQFQ_AUTO_UNFAIR_RESTS);
	windows_shallow(c, WINDOWS, 64, 900000, 32);
	KUNIT_EXPECT_EQ(test, c->law.unfair_slots, 64U);
}

/* A number ends it, also in the middle of a comparison, and what is not found is left alone. */
/* Flows that have just come are fair within some windows, and do not pay much for it. */
static void new_test(struct kunit *test)
{
	struct context *c = context(test);

	begin_with(c, OPEN_SLOTS);
	c->device = (struct device) { .parallel = 32, .load = 512, .requests = REQUESTS,
				      .largest_kb = KB, .unfair = true };
	windows(c, 12);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, 32U);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_THROTTLE_KB].base, (u32)THROTTLE_KB);
	KUNIT_EXPECT_EQ(test, c->law.nr_steps, 0ULL);
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	begin_with(c, OPEN_SLOTS);
	windows(c, 12);
	KUNIT_EXPECT_LT(test, c->law.knob[MQFQ_AUTO_THROTTLE_KB].base, (u32)THROTTLE_KB);
	/* Half costs half of the service here: the step is taken back. */
	begin_with(c, OPEN_SLOTS);
	windows_shallow(c, 12, 64, 600000, 64);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)OPEN_SLOTS);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
}

/* With so many slots, or more: thousands of requests, and the part of the first of two flows. */
struct level {
	u32 slots, requests, first_ppm;
};

enum {
	LEVELS	= 4,
	OUTSTANDING = 16,
};

static const struct walk {
	const char *name;
	struct level level[LEVELS];
	u32 least, best, next;
	u32 third;		/* bytes of a third flow in each window of the first leg */
} walks[] = {
	/* What is above the best was unfair, so it is not tried once more. */
	{ "half is no help, a quarter is",
	  { { 16, 100, 900000 }, { 8, 90, 890000 }, { 0, 70, 500000 } }, 4, 4, 6 },
	{ "the flow with least loses half",
	  { { 16, 100, 900000 }, { 8, 100, 980000 }, { 0, 70, 500000 } }, 8, OPEN_SLOTS, 12 },
	/* In a short leg the flow that has least is another one, by chance. */
	{ "the flow with least gains, another has little",
	  { { 16, 100, 900000 }, { 8, 100, 30000 }, { 0, 90, 500000 } }, 4, 4, 6 },
	{ "the flow with least stops",
	  { { 16, 100, 900000 }, { 8, 100, 800000 }, { 0, 90, 500000 } }, 4, 4, 6, 100000 },
	{ "all lose half",
	  { { 16, 100, 900000 }, { 8, 45, 800000 }, { 0, 40, 500000 } }, 8, OPEN_SLOTS, 12 },
	/* A Jain's index of 0.986: three quarters are next, not more, nor half once more. */
	{ "half is the best, and not quite fair",
	  { { 16, 100, 900000 }, { 8, 90, 560000 }, { 6, 50, 560000 }, { 0, 44, 500000 } },
	  4, 8, 6 },
	/* From 0.98 on, for a tenth of the service. */
	{ "a step that is worth it below 0.99",
	  { { 16, 100, 571429 }, { 8, 91, 500000 }, { 0, 50, 500000 } }, 8, 8, 12 },
};

KUNIT_ARRAY_PARAM_DESC(walk, walks, name);

static void window_of_level(struct context *c, const struct level *l)
{
	u32 now = min_t(u32, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), OUTSTANDING);
	struct mqfq_auto_window w = {
		.ns = WINDOW_NS, .slot_waits = now < OUTSTANDING, .in_flight = now,
	};

	while (now < l->slots)
		l++;
	w.requests = 1000 * l->requests;
	w.bytes = w.requests << 12;
	end_window(c, &w, l->first_ppm);
}

/* New flows: how far halving goes, what is the best of it, and what is tried next. */
static void walk_test(struct kunit *test)
{
	const struct walk *p = test->param_value;
	struct context *c = context(test);
	unsigned int n = 0;
	u32 least = U32_MAX;

	begin_with(c, OPEN_SLOTS);
	while (c->law.is_new) {
		least = min(least, slots(c));
		c->third = slots(c) < OUTSTANDING ? 0 : p->third;
		window_of_level(c, p->level);
		KUNIT_ASSERT_LT(test, n++, 40U);
	}
	KUNIT_EXPECT_EQ(test, least, p->least);
	KUNIT_EXPECT_EQ(test, slots(c), p->best);
	while (mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) == p->best) {
		window_of_level(c, p->level);
		KUNIT_ASSERT_LT(test, n++, 60U);
	}
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), p->next);
}

/* The flow that has least has less with each step: steps are no help to it. */
static void no_help_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int i;

	begin_with(c, OPEN_SLOTS);
	for (i = 0; i < 12; i++) {
		u32 now = min(mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), 64U);
		u32 small = REQUESTS * now / 64;
		struct mqfq_auto_window w = {
			.ns = WINDOW_NS, .requests = small + 10, .slot_waits = 1, .in_flight = now,
			.bytes = (small << 12) + (100 << 20),
		};

		end_window(c, &w, 1000000ULL * (100 << 20) / w.bytes);
	}
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)OPEN_SLOTS);
}

/* A flow that has had nothing yet does not make the others fair. */
static void nothing_yet_test(struct kunit *test)
{
	struct mqfq_auto_window w = {
		.ns = WINDOW_NS, .bytes = REQUESTS << 12, .requests = REQUESTS, .slot_waits = 1,
		.in_flight = SLOTS,
	};
	struct context *c = context(test);
	unsigned int i;

	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	for (i = 0; i < 6; i++)
		end_window(c, &w, 1000000);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, slots(c), (u32)SLOTS);
	for (i = 0; i < 2; i++)
		end_window(c, &w, 800000);
	KUNIT_EXPECT_EQ(test, slots(c), SLOTS / 2U);
}

/* What was sent at once comes back flow by flow: fair when all of it has. */
static void burst_test(struct kunit *test)
{
	struct mqfq_auto_window w = {
		.ns = WINDOW_NS, .bytes = REQUESTS << 12, .requests = REQUESTS,
		.in_flight = 4 * REQUESTS,
	};
	struct context *c = context(test);
	unsigned int i;

	begin_with(c, 8 * REQUESTS);
	/* Three windows say only that there is another flow, and that D has changed. */
	for (i = 0; i < 3 + 4; i++)
		end_window(c, &w, i < 3 + 2 ? 990000 : 10000);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, slots(c), 8U * REQUESTS);
}

/* Another load amid a comparison: it is no verdict on the value that is tried. */
static void amid_test(struct kunit *test)
{
	struct context *c = context(test);

	begin_with(c, 8);
	while (!c->law.probing)
		windows_shallow(c, 1, 1024, 500000, 8);
	while (c->law.side != MQFQ_AUTO_OTHER || !c->law.leg[MQFQ_AUTO_OTHER].ns)
		windows_shallow(c, 1, 1024, 500000, 8);
	c->law.knob[MQFQ_AUTO_SLOTS].debt_ppm = 9000;
	/* Now 64 are needed. */
	windows_shallow(c, 60, 1024, 500000, 64);
	KUNIT_EXPECT_EQ(test, slots(c), 64U);
	KUNIT_EXPECT_EQ(test, c->law.unfair_slots, U32_MAX);
}

/* With too few requests to tell another load from chance, less for all alike is not unfair. */
static void alike_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int i;

	begin_with(c, 8);
	for (i = 0; i < 60; i++) {
		u32 now = mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS);
		struct mqfq_auto_window w = {
			.ns = WINDOW_NS, .slot_waits = 1, .in_flight = now,
			.requests = now > 8 ? 30 : 80, .bytes = (now > 8 ? 30 : 80) << 12,
		};

		end_window(c, &w, 500000);
	}
	KUNIT_EXPECT_GT(test, c->law.nr_probes, 0ULL);
	KUNIT_EXPECT_EQ(test, c->law.unfair_slots, U32_MAX);
}

static void off_test(struct kunit *test)
{
	struct context *c = context(test);

	c->device.parallel = 1000;
	windows(c, 100);
	KUNIT_EXPECT_FALSE(test, mqfq_auto_is_any_on(&c->law));
	KUNIT_EXPECT_EQ(test, c->law.nr_probes, 0U);
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	KUNIT_EXPECT_TRUE(test, mqfq_auto_is_on(&c->law, MQFQ_AUTO_SLOTS));
	KUNIT_EXPECT_FALSE(test, mqfq_auto_is_on(&c->law, MQFQ_AUTO_THROTTLE_KB));
	while (mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS) == SLOTS)
		window(c);
	mqfq_auto_off(&c->law, MQFQ_AUTO_SLOTS, 7);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), 7U);
	windows(c, 100);
	KUNIT_EXPECT_EQ(test, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), 7U);
	KUNIT_EXPECT_FALSE(test, mqfq_auto_is_any_on(&c->law));
}

/* What was found outlives the law; a number that was given is not found. */
static void resume_test(struct kunit *test)
{
	struct context *c = context(test);
	struct mqfq_auto_found found;

	c->device.parallel = 1000;
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	windows(c, WINDOWS);
	mqfq_auto_get_found(&c->law, &found);
	KUNIT_EXPECT_EQ(test, found.value[MQFQ_AUTO_SLOTS], slots(c));
	KUNIT_EXPECT_GT(test, slots(c), (u32)SLOTS);
	KUNIT_EXPECT_EQ(test, found.value[MQFQ_AUTO_THROTTLE_KB], 0U);
	mqfq_auto_init(&c->law, SLOTS, OPEN_SLOTS, THROTTLE_KB);
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	mqfq_auto_resume(&c->law, &found);
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	KUNIT_EXPECT_EQ(test, slots(c), found.value[MQFQ_AUTO_SLOTS]);
	KUNIT_EXPECT_EQ(test, throttle_kb(c), (u32)THROTTLE_KB);
	windows(c, WINDOWS);
	KUNIT_EXPECT_EQ(test, slots(c), found.value[MQFQ_AUTO_SLOTS]);
}

static struct kunit_case mqfq_auto_cases[] = {
	KUNIT_CASE_PARAM(climb_test, climb_gen_params),
	KUNIT_CASE_PARAM(fall_test, fall_gen_params),
	KUNIT_CASE(floor_test),
	KUNIT_CASE(ceiling_test),
	KUNIT_CASE(debt_test),
	KUNIT_CASE(doubt_test),
	KUNIT_CASE(rest_test),
	KUNIT_CASE(change_test),
	KUNIT_CASE(felt_test),
	KUNIT_CASE(idle_test),
	KUNIT_CASE(both_test),
	KUNIT_CASE(alone_test),
	KUNIT_CASE_PARAM(shallow_test, shallow_gen_params),
	KUNIT_CASE(few_test),
	KUNIT_CASE(dear_test),
	KUNIT_CASE(shrink_test),
	KUNIT_CASE(unfair_test),
	KUNIT_CASE(new_test),
	KUNIT_CASE_PARAM(walk_test, walk_gen_params),
	KUNIT_CASE(no_help_test),
	KUNIT_CASE(nothing_yet_test),
	KUNIT_CASE(burst_test),
	KUNIT_CASE(amid_test),
	KUNIT_CASE(alike_test),
	KUNIT_CASE(off_test),
	KUNIT_CASE(resume_test),
	{}
};

static struct kunit_suite mqfq_auto_suite = {
	.name = "mqfq_auto",
	.init = mqfq_auto_test_init,
	.test_cases = mqfq_auto_cases,
};

kunit_test_suite(mqfq_auto_suite);

MODULE_DESCRIPTION("KUnit suites of mqfair");
MODULE_LICENSE("GPL");
