// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_leg_kunit.c - mq-mqfq's comparison of two legs: Jain's index, what chance is in it,
 * what counts, and the gain
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

/* ---- what counts of a turn ---- */

/* Four windows of 100 requests each, which have so many KiB, where some of so many KiB wait. */
static const struct {
	const char *name;
	u64 kb[4];
	u32 largest_kb[4];
	u64 tells;
} turns[] = {
	{ "none waits: all of them",	{ 400, 400, 400, 400 }, { 0 }, 400 },
	{ "small ones wait: all",	{ 400, 400, 400, 400 }, { 4, 4, 4, 4 }, 400 },
	{ "as many as large ones fit",	{ 1000, 1000, 1000, 1000 }, { 100, 100, 100, 100 }, 40 },
	{ "one large one is enough",	{ 1000, 1000, 1000, 1000 }, { 4, 100, 0, 4 }, 40 },
	{ "half of a large one each",	{ 500, 500, 500, 500 }, { 1000, 1000, 1000, 1000 }, 2 },
};

KUNIT_ARRAY_PARAM_DESC(turn, turns, name);

static void turn_test(struct kunit *test)
{
	const typeof(turns[0]) *p = test->param_value;
	struct mqfq_auto_turn turn = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(p->kb); i++)
		mqfq_auto_turn_add(&turn, &(struct mqfq_auto_window) {
			.requests = 100, .bytes = p->kb[i] << 10, .largest_kb = p->largest_kb[i],
		});
	KUNIT_EXPECT_EQ(test, turn.windows, ARRAY_SIZE(p->kb));
	KUNIT_EXPECT_EQ(test, mqfq_auto_turn_tells(&turn), p->tells);
}

/* ---- the gain ---- */

/* A second of a reader of 4 KiB, which has least, and a writer of 256 KiB: requests of each. */
static const struct {
	const char *name;
	u64 small[2], large[2];
	s64 gain_pct;
} gains[] = {
	{ "the reader waits for slots alone",	{ 100, 200 }, { 200, 198 }, 32 },
	{ "the writer displaces the reader",	{ 400, 100 }, { 200, 200 }, -20 },
	{ "the reader displaces the writer",	{ 400, 200 }, { 1000, 150 }, 91 },
	{ "the reader has little more",		{ 1000, 200 }, { 1090, 190 }, 6 },
	{ "the reader has little less",		{ 1000, 200 }, { 950, 300 }, 46 },
	{ "as many of both",			{ 100, 200 }, { 100, 200 }, 0 },
};

KUNIT_ARRAY_PARAM_DESC(gain, gains, name);

static void fill_leg(struct mqfq_auto_leg *leg, const struct mqfq_auto_flow *note, const u64 *nr,
		     u64 beside)
{
	*leg = (struct mqfq_auto_leg) {
		.ns = NSEC_PER_SEC,
		.bytes = (nr[0] * 4 + nr[1] * 256) << 10,
		.requests = nr[0] + nr[1],
		.beside = beside * UNIT,
	};
	mqfq_auto_add_share(&leg->shares, &note[0], nr[0] * UNIT, UNIT);
	mqfq_auto_add_share(&leg->shares, &note[1], nr[1] * 64 * UNIT, UNIT);
}

static void gain_test(struct kunit *test)
{
	const typeof(gains[0]) *p = test->param_value;
	struct mqfq_auto_flow note[2] = {};
	struct mqfq_auto_leg large, small;
	s64 gain_ppm;

	fill_leg(&small, note, p->small, p->large[0]);
	fill_leg(&large, note, p->large, p->small[0]);
	gain_ppm = mqfq_auto_gain_of_ppm(&large, &small);
	if (p->gain_pct < 0)
		KUNIT_EXPECT_LE(test, gain_ppm, p->gain_pct * 10000);
	else
		KUNIT_EXPECT_EQ(test, gain_ppm / 10000, p->gain_pct);
}

static struct kunit_case mqfq_auto_leg_cases[] = {
	KUNIT_CASE_PARAM(jain_test, share_gen_params),
	KUNIT_CASE_PARAM(chance_test, chance_gen_params),
	KUNIT_CASE_PARAM(turn_test, turn_gen_params),
	KUNIT_CASE_PARAM(gain_test, gain_gen_params),
	{}
};

static struct kunit_suite mqfq_auto_leg_suite = {
	.name = "mqfq_auto_leg",
	.test_cases = mqfq_auto_leg_cases,
};

kunit_test_suite(mqfq_auto_leg_suite);
