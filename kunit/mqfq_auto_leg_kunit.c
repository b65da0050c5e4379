// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_leg_kunit.c - mq-mqfq's comparison of two legs: Jain's index, and what chance is in it
 */
#include <kunit/test.h>

#include "../mq-mqfq/mqfq_auto_leg.c"

enum {
	NR_FLOWS	= 4,
	/* A request of MQFQ_AUTO_UNIT_BYTES of a flow of the default weight. */
	UNIT		= 64,
};

/* ---- Jain's index ---- */

static const struct {
	const char *name;
	u64 bytes[NR_FLOWS];
	u32 weight[NR_FLOWS];
	u32 jain_ppm;
} shares[] = {
	{ "no flow",		{ 0 }, { 100 }, 1000000 },
	{ "one",		{ 1 << 20 }, { 100 }, 1000000 },
	{ "two alike",		{ 1 << 20, 1 << 20 }, { 100, 100 }, 1000000 },
	{ "1 to 3",		{ 1 << 20, 3 << 20 }, { 100, 100 }, 800000 },
	{ "1 to 3, weights too", { 1 << 20, 3 << 20 }, { 100, 300 }, 1000000 },
	{ "one of four has all", { 1ULL << 34, 64, 64, 64 }, { 100, 100, 100, 100 }, 250000 },
	{ "flows without a share do not count",
	  { 1 << 20, 0, 1 << 20 }, { 100, 100, 100 }, 1000000 },
	{ "a square that does not fit", { 256ULL << 30 }, { 100 }, 1000000 },
	{ "squares that do not fit together", { 1ULL << 50, 59317 }, { 1, 1 }, 500021 },
	{ "weights 1",		{ 500000000, 500000000, 1 << 30 }, { 1, 1, 1 }, 867233 },
};

KUNIT_ARRAY_PARAM_DESC(share, shares, name);

static void jain_test(struct kunit *test)
{
	const typeof(shares[0]) *p = test->param_value;
	struct mqfq_auto_flow note[NR_FLOWS] = {};
	struct mqfq_auto_shares s = {};
	unsigned int i;

	for (i = 0; i < NR_FLOWS; i++)
		if (p->weight[i])
			mqfq_auto_add_share(&s, &note[i],
					    div_u64(p->bytes[i] * 100, p->weight[i]) >> 6, 0);
	KUNIT_EXPECT_GE(test, mqfq_auto_jain_ppm(&s), p->jain_ppm - 1);
	KUNIT_EXPECT_LE(test, mqfq_auto_jain_ppm(&s), p->jain_ppm + 1);
}

/* ---- chance ---- */

/*
 * Flows of some weights have so many requests each, of so many KiB. That one of them has a request
 * more or less is chance: it takes the mean of 1 over the squares of their numbers.
 */
static const struct {
	const char *name;
	unsigned int requests[NR_FLOWS], weight[NR_FLOWS], kb;
	u32 jain_ppm, grain_ppm;
} chances[] = {
	{ "ten each",			{ 10, 10, 10, 10 }, { 1, 1, 1, 1 }, 4, 1000000, 10000 },
	{ "ten each, 64 KiB",		{ 10, 10, 10, 10 }, { 1, 1, 1, 1 }, 64, 1000000, 10000 },
	{ "a hundred each",		{ 100, 100, 100, 100 }, { 1, 1, 1, 1 }, 4, 1000000, 100 },
	/* 1/4 of 1/4, and what those of more weight add. */
	{ "two and twenty, weights too", { 2, 2, 20, 20 }, { 1, 1, 10, 10 }, 4, 1000000, 126250 },
	{ "eight and twelve",		{ 8, 12, 8, 12 }, { 1, 1, 1, 1 }, 4, 971538, 10000 },
	{ "800 and 1200: no chance",	{ 800, 1200, 800, 1200 }, { 1, 1, 1, 1 }, 4, 961539, 3 },
};

KUNIT_ARRAY_PARAM_DESC(chance, chances, name);

static void chance_test(struct kunit *test)
{
	const typeof(chances[0]) *p = test->param_value;
	struct mqfq_auto_flow note[NR_FLOWS] = {};
	struct mqfq_auto_leg leg = {};
	unsigned int i;

	for (i = 0; i < NR_FLOWS; i++) {
		u32 unit = 100 * UNIT / p->weight[i];

		leg.requests += p->requests[i];
		mqfq_auto_add_share(&leg.shares, &note[i], p->requests[i] * unit * (p->kb / 4),
				    unit);
	}
	leg.bytes = leg.requests * p->kb << 10;
	KUNIT_EXPECT_GE(test, mqfq_auto_leg_jain_ppm(&leg), p->jain_ppm - 2);
	KUNIT_EXPECT_LE(test, mqfq_auto_leg_jain_ppm(&leg), p->jain_ppm + 2);
	KUNIT_EXPECT_GE(test, mqfq_auto_grain_ppm(&leg), p->grain_ppm - 2ULL);
	KUNIT_EXPECT_LE(test, mqfq_auto_grain_ppm(&leg), p->grain_ppm + 2ULL);
}

static struct kunit_case mqfq_auto_leg_cases[] = {
	KUNIT_CASE_PARAM(jain_test, share_gen_params),
	KUNIT_CASE_PARAM(chance_test, chance_gen_params),
	{}
};

static struct kunit_suite mqfq_auto_leg_suite = {
	.name = "mqfq_auto_leg",
	.test_cases = mqfq_auto_leg_cases,
};

kunit_test_suite(mqfq_auto_leg_suite);
