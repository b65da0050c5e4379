// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_light_kunit.c - mq-mqfq's search for T and D beside light loads
 *
 * Flows that ask for less than their share, and flows that come back.
 */
#include <kunit/test.h>
#include <linux/minmax.h>

#include "../lib/vt.h"

#ifdef __KERNEL__
#include "../mq-mqfq/mqfq_auto.h"
#else
#include "../mq-mqfq/mqfq_auto.c"
#include "../mq-mqfq/mqfq_auto_leg.c"
#endif

enum {
	NR_FLOWS	= 20,
	SLOTS		= 64,
	OPEN_SLOTS	= 512,
	KB		= 64,
	WINDOW_NS	= 10000000,
	REQUESTS	= 1000,
};

struct context {
	struct mqfq_auto law;
	struct mqfq_auto_flow flow[NR_FLOWS];
};

static int mqfq_auto_light_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	mqfq_auto_init(&c->law, SLOTS, OPEN_SLOTS, KB);
	mqfq_auto_on(&c->law, MQFQ_AUTO_SLOTS);
	return 0;
}

/* A window in which each flow has so many requests of 4 KiB, and those with a bit have one left. */
static void window(struct context *c, const u32 *requests, unsigned int outstanding)
{
	struct mqfq_auto_window w = { .ns = WINDOW_NS, .slot_waits = 1, .largest_kb = 4 };
	unsigned int i;

	mqfq_auto_begin_window(&c->law);
	for (i = 0; i < NR_FLOWS; i++) {
		mqfq_auto_flow(&c->law, &c->flow[i], (u64)requests[i] << (12 + VT_SHIFT),
			       outstanding & 1U << i);
		w.requests += requests[i];
		w.nr_flows += requests[i] || outstanding & 1U << i;
	}
	mqfq_auto_begin_shares(&c->law);
	for (i = 0; i < NR_FLOWS; i++)
		mqfq_auto_share(&c->law, &c->flow[i], 0);
	w.bytes = (u64)w.requests << 12;
	w.in_flight = min_t(u32, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), SLOTS);
	mqfq_auto_window(&c->law, &w);
}

/* From the next window on, the leg that there is at rest is another one. */
static void begin_leg(struct context *c)
{
	c->law.period++;
	c->law.leg[MQFQ_AUTO_BASE] = (struct mqfq_auto_leg) {};
}

/* Nothing is looked for, and the law is at rest with the flows of two bits, for a long time. */
static void rest(struct context *c, const u32 *requests)
{
	unsigned int i;

	mqfq_auto_off(&c->law, MQFQ_AUTO_SLOTS, SLOTS);
	for (i = 0; i < 3; i++)
		window(c, requests, 3);
	c->law.wait = 1000;
	c->law.felt = ~0U;
	begin_leg(c);
}

/* A flow that has something outstanding half of the time asks for no more. */
static void light_test(struct kunit *test)
{
	static const u32 requests[NR_FLOWS] = { 9 * REQUESTS, REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	window(c, requests, 3);
	window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.shares.nr, 2ULL);
	/* Of four windows, one is a visit. In the last one it was there throughout. */
	for (i = 0; i < 42; i++)
		window(c, requests, 1 | (i % 4 < 2) << 1);
	KUNIT_EXPECT_EQ(test, c->law.shares.nr, 1ULL);
	KUNIT_EXPECT_EQ(test, c->law.nr_asking, 1U);
	/* It does when it always has. */
	for (i = 0; i < 200; i++)
		window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.shares.nr, 2ULL);
	KUNIT_EXPECT_EQ(test, c->law.nr_asking, 2U);
}

/*
 * A flow that comes for six windows of ten, and has its share while it is there. What it has of the
 * windows in which it comes and goes says nothing.
 */
static void visits_test(struct kunit *test)
{
	static const u32 both[NR_FLOWS] = { REQUESTS, REQUESTS }, one[NR_FLOWS] = { 2 * REQUESTS },
			 few[NR_FLOWS] = { 2 * REQUESTS, 1 };
	struct context *c = test->priv;
	unsigned int n;

	for (n = 0; n < 100 || c->law.probing; n++) {
		unsigned int i = n % 10;
		bool is_there = i > 0 && i < 6;

		window(c, is_there ? both : i % 6 ? one : few, i < 6 ? 3 : 1);
	}
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 2U);
	KUNIT_EXPECT_EQ(test, c->flow[1].visits, 0);
	KUNIT_EXPECT_GE(test, c->law.jain_ppm, 999000U);
}

/* One that has hardly anything of its share, and is away when a leg could end, is waited for. */
static void away_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { REQUESTS, REQUESTS },
			 three[NR_FLOWS] = { REQUESTS, REQUESTS, 1 };
	struct context *c = test->priv;
	unsigned int i;

	window(c, two, 3);
	window(c, two, 7);
	for (i = 0; i < 5; i++)
		window(c, two, 3);
	KUNIT_EXPECT_EQ(test, c->law.first.ns, 0ULL);
	for (i = 0; i < 3; i++)
		window(c, three, 7);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS / 2);
	/* But not for ever. */
	for (i = 0; c->law.is_new; i++)
		window(c, two, 3);
	KUNIT_EXPECT_GE(test, i, 10U);
	KUNIT_EXPECT_LE(test, i, 20U);
}

/* A flow that comes to others, in the middle of a comparison or at rest, makes them new again. */
static void comes_to_others_test(struct kunit *test)
{
	static const u32 one[NR_FLOWS] = { REQUESTS }, two[NR_FLOWS] = { REQUESTS, REQUESTS },
			 three[NR_FLOWS] = { REQUESTS, REQUESTS, REQUESTS };
	bool at_rest = *(const bool *)test->param_value;
	struct context *c = test->priv;
	u32 *slots = &c->law.knob[MQFQ_AUTO_SLOTS].base, before;
	unsigned int i;

	for (i = 0; i < 20 || !(at_rest ? c->law.wait : c->law.probing); i++)
		window(c, two, 3);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	/* With as many slots for each, as far as there are. */
	if (at_rest)
		*slots = OPEN_SLOTS - 1;
	before = *slots;
	window(c, three, 7);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, *slots, at_rest ? (u32)OPEN_SLOTS : before * 3 / 2);
	for (i = 0; i < 20 || c->law.is_new; i++)
		window(c, three, 7);
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 3U);
	/* One that is known is not. */
	window(c, two, 3);
	window(c, three, 7);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	/* A D that is given is not looked for. */
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	mqfq_auto_off(&c->law, MQFQ_AUTO_SLOTS, SLOTS);
	window(c, three, 7);
	window(c, three, 7);
	KUNIT_EXPECT_EQ(test, c->law.skip, 0U);
	/* Nor does it become more when more come to one that was alone than were known before. */
	c->law.nr_known = 2;
	while (!mqfq_auto_is_alone(&c->law))
		window(c, one, 1);
	window(c, three, 7);
	KUNIT_EXPECT_EQ(test, *slots, (u32)SLOTS);
}

static const bool comes_at_rest[] = { false, true };

KUNIT_ARRAY_PARAM(comes, comes_at_rest, NULL);

/*
 * While D is halved, it is only tried: neither kept for later nor begun with. If flows come
 * meanwhile, what was found for fewer is void; one more of sixteen is not enough for that.
 */
static void more_flows_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct mqfq_auto_found found;
	u32 requests[NR_FLOWS] = { 80 * REQUESTS };
	unsigned int i, nr;

	for (i = 1; i < 16; i++)
		requests[i] = REQUESTS;
	while (c->law.knob[MQFQ_AUTO_SLOTS].base == SLOTS || c->law.skip)
		window(c, requests, 0xffff);
	mqfq_auto_get_found(&c->law, &found);
	KUNIT_EXPECT_EQ(test, found.value[MQFQ_AUTO_SLOTS], (u32)SLOTS);
	c->law.unfair_slots = SLOTS;
	for (nr = 17; nr <= 19; nr += 2) {
		KUNIT_EXPECT_LT(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS);
		do
			window(c, requests, (1U << nr) - 1);
		while (c->law.skip);
	}
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS);
	KUNIT_EXPECT_EQ(test, c->law.unfair_slots, U32_MAX);
	KUNIT_EXPECT_EQ(test, c->law.best.ns, 0ULL);

	while (c->law.knob[MQFQ_AUTO_SLOTS].base == SLOTS)
		window(c, requests, 0xffff);
	mqfq_auto_on(&c->law, MQFQ_AUTO_THROTTLE_KB);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS);
}

/* A guest of a moment makes the others new once, and not each time. */
static void guest_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { REQUESTS, REQUESTS };
	struct context *c = test->priv;
	unsigned int i, n = 0;

	for (i = 0; i < 20 || c->law.is_new; i++)
		window(c, two, 3);
	for (i = 0; i < 2000; i++) {
		bool was_new = c->law.is_new;

		if (i % 100 == 0)
			c->flow[2] = (struct mqfq_auto_flow) {};
		window(c, two, i % 100 ? 3 : 7);
		n += c->law.is_new && !was_new;
	}
	KUNIT_EXPECT_EQ(test, n, 1U);
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 3U);
}

/* Two have been there, and a third one comes. All have the same, so nothing is halved. */
static void third_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { 3 * REQUESTS, 3 * REQUESTS },
			 three[NR_FLOWS] = { 2 * REQUESTS, 2 * REQUESTS, 2 * REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	for (i = 0; i < 3; i++)
		window(c, two, 3);
	window(c, two, 7);
	for (i = 0; i < 20 || c->law.is_new; i++) {
		window(c, three, 7);
		if (c->law.is_new)
			KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS);
	}
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 3U);
}

/* A leg has windows in which one flow is alone: they are not time in which the other had less. */
static void alone_meanwhile_test(struct kunit *test)
{
	static const u32 both[NR_FLOWS] = { 3 * REQUESTS, REQUESTS },
			 one[NR_FLOWS] = { 4 * REQUESTS };
	struct context *c = test->priv;
	struct mqfq_auto_leg *leg = &c->law.leg[MQFQ_AUTO_BASE];
	unsigned int i;

	rest(c, both);
	for (i = 0; i < 40; i++)
		window(c, i % 8 < 4 ? both : one, i % 8 < 4 ? 3 : 1);
	/* Of each four windows one is that in which the other one comes, but for the first four. */
	KUNIT_EXPECT_EQ(test, leg->means, (5 * (3 + 3 * 2) - 1) * 64ULL * REQUESTS);
	KUNIT_EXPECT_EQ(test, leg->ns, 20ULL * WINDOW_NS);
}

/* At rest windows are long, and a flow that has come and gone in one may have asked for more. */
static void long_windows_test(struct kunit *test)
{
	static const u32 requests[NR_FLOWS] = { REQUESTS, REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	rest(c, requests);
	for (i = 0; i < 100; i++)
		window(c, requests, 1);
	KUNIT_EXPECT_EQ(test, c->flow[1].visits, 0);
	/* It was there for too little of the leg. */
	window(c, requests, 3);
	window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.leg[MQFQ_AUTO_BASE].shares.nr, 1ULL);
	/* What it had of a leg counts no more when it turns out to be light. */
	begin_leg(c);
	window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.leg[MQFQ_AUTO_BASE].shares.nr, 2ULL);
	c->flow[1].visits = U16_MAX;
	window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.leg[MQFQ_AUTO_BASE].shares.nr, 1ULL);
	/* One that has just come counts for what it was there for. */
	c->flow[1] = (struct mqfq_auto_flow) {};
	for (i = 0; i < 100; i++) {
		window(c, requests, 3);
		KUNIT_EXPECT_GE(test, c->law.jain_ppm, 999000U);
	}
}

/* Flows for which D was found, and that come back, are not new; one more is. */
static void back_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { REQUESTS, REQUESTS }, one[NR_FLOWS] = { REQUESTS },
			 three[NR_FLOWS] = { REQUESTS, REQUESTS, REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	for (i = 0; i < 20 || !c->law.wait; i++)
		window(c, two, 3);
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 2U);
	for (i = 0; i < 2 * MQFQ_AUTO_ALONE_WINDOWS; i++)
		window(c, one, 1);
	KUNIT_EXPECT_TRUE(test, mqfq_auto_is_alone(&c->law));
	window(c, two, 3);
	KUNIT_EXPECT_FALSE(test, mqfq_auto_is_alone(&c->law));
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	KUNIT_EXPECT_GT(test, c->law.wait, 0U);
	for (i = 0; i < 2 * MQFQ_AUTO_ALONE_WINDOWS; i++)
		window(c, one, 1);
	window(c, three, 7);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
}

/* They come back after a comparison that did not end, and find the base in force and no leg. */
static void amid_comparison_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { REQUESTS, REQUESTS }, one[NR_FLOWS] = { REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	while (c->law.side != MQFQ_AUTO_OTHER)
		window(c, two, 3);
	for (i = 0; i < 2 * MQFQ_AUTO_ALONE_WINDOWS || c->law.skip; i++)
		window(c, one, 1);
	KUNIT_EXPECT_TRUE(test, mqfq_auto_is_alone(&c->law));
	window(c, two, 3);
	KUNIT_EXPECT_EQ(test, (int)c->law.side, (int)MQFQ_AUTO_BASE);
	KUNIT_EXPECT_EQ(test, c->law.leg[MQFQ_AUTO_OTHER].ns, 0ULL);
	KUNIT_EXPECT_GT(test, c->law.wait, 0U);
}

/* They were halved for when they went: it begins again, where it began. */
static void amid_halving_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { 9 * REQUESTS, REQUESTS }, one[NR_FLOWS] = { REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	c->law.nr_known = 2;
	while (c->law.knob[MQFQ_AUTO_SLOTS].base == SLOTS)
		window(c, two, 3);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
	for (i = 0; i < 2 * MQFQ_AUTO_ALONE_WINDOWS || c->law.skip; i++)
		window(c, one, 1);
	window(c, two, 3);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS);
}

static struct kunit_case mqfq_auto_light_cases[] = {
	KUNIT_CASE(light_test),
	KUNIT_CASE(visits_test),
	KUNIT_CASE(away_test),
	KUNIT_CASE_PARAM(comes_to_others_test, comes_gen_params),
	KUNIT_CASE(more_flows_test),
	KUNIT_CASE(guest_test),
	KUNIT_CASE(third_test),
	KUNIT_CASE(alone_meanwhile_test),
	KUNIT_CASE(long_windows_test),
	KUNIT_CASE(back_test),
	KUNIT_CASE(amid_comparison_test),
	KUNIT_CASE(amid_halving_test),
	{}
};

static struct kunit_suite mqfq_auto_light_suite = {
	.name = "mqfq_auto_light",
	.init = mqfq_auto_light_test_init,
	.test_cases = mqfq_auto_light_cases,
};

kunit_test_suite(mqfq_auto_light_suite);
