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
	NR_FLOWS	= 3,
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
		mqfq_auto_flow(&c->law, &c->flow[i], (u64)requests[i] << (12 + VT_SHIFT), 0,
			       outstanding & 1U << i);
		w.requests += requests[i];
		w.nr_flows += requests[i] || outstanding & 1U << i;
	}
	w.bytes = (u64)w.requests << 12;
	w.in_flight = min_t(u32, mqfq_auto_value(&c->law, MQFQ_AUTO_SLOTS), SLOTS);
	mqfq_auto_window(&c->law, &w);
}

/* A flow that has something outstanding at the end of each second window asks for no more. */
static void light_test(struct kunit *test)
{
	static const u32 requests[NR_FLOWS] = { 9 * REQUESTS, REQUESTS };
	struct context *c = test->priv;
	unsigned int i;

	window(c, requests, 3);
	window(c, requests, 3);
	KUNIT_EXPECT_EQ(test, c->law.shares.nr, 2ULL);
	for (i = 0; i < 40; i++)
		window(c, requests, 1 | i % 2 << 1);
	KUNIT_EXPECT_EQ(test, c->law.shares.nr, 1ULL);
	KUNIT_EXPECT_EQ(test, c->law.nr_asking, 1U);
	/* It does when it always has. */
	for (i = 0; i < 40; i++)
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
			 coming[NR_FLOWS] = { 2 * REQUESTS, 1 };
	struct context *c = test->priv;
	unsigned int i;

	for (i = 0; i < 100 || c->law.probing; i++) {
		bool is_there = i % 10 > 0 && i % 10 < 6;

		window(c, is_there ? both : i % 10 ? one : coming, i % 10 < 6 ? 3 : 1);
	}
	KUNIT_EXPECT_EQ(test, c->law.nr_known, 2U);
	KUNIT_EXPECT_GE(test, c->law.jain_ppm, 999000U);
}

/* One that has nothing of its share, and is away when a leg could end, is waited for. */
static void short_of_all_test(struct kunit *test)
{
	static const u32 one[NR_FLOWS] = { REQUESTS }, both[NR_FLOWS] = { REQUESTS, 1 };
	struct context *c = test->priv;
	unsigned int i;

	window(c, both, 3);
	for (i = 0; i < 10; i++)
		window(c, one, 1);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
	KUNIT_EXPECT_EQ(test, c->law.first.ns, 0ULL);
	for (i = 0; i < 3; i++)
		window(c, both, 3);
	KUNIT_EXPECT_EQ(test, c->law.knob[MQFQ_AUTO_SLOTS].base, (u32)SLOTS / 2);
	/* But not for ever. */
	while (c->law.knob[MQFQ_AUTO_SLOTS].base == SLOTS / 2 && c->law.is_new)
		window(c, one, 1);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
}

/* A flow that comes to others, in the middle of a comparison or at rest, makes them new again. */
static void comes_to_others_test(struct kunit *test)
{
	static const u32 two[NR_FLOWS] = { REQUESTS, REQUESTS },
			 three[NR_FLOWS] = { REQUESTS, REQUESTS, REQUESTS };
	bool at_rest = *(const bool *)test->param_value;
	struct context *c = test->priv;
	unsigned int i;

	for (i = 0; i < 20 || !(at_rest ? c->law.wait : c->law.probing); i++)
		window(c, two, 3);
	KUNIT_EXPECT_FALSE(test, c->law.is_new);
	window(c, three, 7);
	KUNIT_EXPECT_TRUE(test, c->law.is_new);
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
}

static const bool comes_at_rest[] = { false, true };

KUNIT_ARRAY_PARAM(comes, comes_at_rest, NULL);

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
	KUNIT_CASE(short_of_all_test),
	KUNIT_CASE_PARAM(comes_to_others_test, comes_gen_params),
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
