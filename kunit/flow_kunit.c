// SPDX-License-Identifier: GPL-2.0
/*
 * flow_kunit.c - flows: their tags and weights, and how they are made and freed
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "../lib/flow.h"
#include "shapes.h"

enum {
	SEED		= 23,
	NR_KEYS		= 3000,
	NR_STEPS	= 30000,
};

struct twin {
	struct flow *flow;
	unsigned int refs;
	u64 finish;
	bool idle;
};

struct context {
	struct flow_table t;
	u32 weight;		/* of new flows */
	u32 target_us;		/* likewise */
	u64 asked_key;		/* the flow whose weight the table asked for last */
	u64 vt;
	u32 random;
	unsigned int nr_seen;
	u64 key_sum;
	struct twin twin[NR_KEYS];
};

static u32 weight_of(void *context, u64 key, void *who)
{
	struct context *c = context;

	c->asked_key = key;
	return who ? *(u32 *)who : c->weight;
}

static int flow_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	c->weight = FLOW_WEIGHT_DEFAULT;
	c->random = SEED;
	return flow_table_init(&c->t, weight_of, c, GFP_KERNEL);
}

static void flow_test_exit(struct kunit *test)
{
	struct context *c = test->priv;

	flow_table_destroy(&c->t);
}

/* ---- tags ---- */

struct tag_param {
	const char *name;
	u64 finish, vt, cost_vt;
	u64 expected_start, expected_finish;
};

static const struct tag_param tag_params[] = {
	{ "lagging: virtual time", 5, 100, 10, 100, 110 },
	{ "ahead: its own last tag", 100, 5, 10, 100, 110 },
	{ "level", 100, 100, 1, 100, 101 },
	{ "lagging over the end", 0 - 5ULL, 3, 10, 3, 13 },
	{ "ahead over the end", 3, 0 - 5ULL, 10, 3, 13 },
	{ "virtual time is never none", 0 - 5ULL, VT_NONE, 10, 0, 10 },
	{ "no finish tag is none", 0 - 99ULL, 0 - 11ULL, 10, 0 - 11ULL, 0 },
};

KUNIT_ARRAY_PARAM_DESC(tag, tag_params, name);

static void tag_test(struct kunit *test)
{
	const struct tag_param *param = test->param_value;
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, param->finish);

	KUNIT_EXPECT_EQ(test, f->finish, param->finish);
	KUNIT_EXPECT_EQ(test, flow_tag(f, param->vt, param->cost_vt), param->expected_start);
	KUNIT_EXPECT_EQ(test, f->finish, param->expected_finish);
	flow_put(f);
}

/* Tags that wrap within a few steps. Tag 154 is VT_NONE, which no request may have. */
#define NEAR_WRAP_VT	((u64)0 - 155)

struct wrap_param {
	const char *name;
	s64 finish, vt;
	u64 cost;
	s64 start;
};

static const struct wrap_param wrap_params[] = {
	{ "goes on where it was",	50, 20, 7, 50 },
	{ "has saved nothing",		20, 50, 7, 50 },
	{ "both are now",		30, 30, 7, 30 },
	{ "over the end",		140, 20, 100, 140 },
	{ "virtual time has wrapped",	140, 160, 100, 160 },
	{ "not the one that is none",	154, 20, 1, 155 },
};

KUNIT_ARRAY_PARAM_DESC(wrap, wrap_params, name);

static void wrap_test(struct kunit *test)
{
	const struct wrap_param *param = test->param_value;
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 0);
	u64 start;

	f->finish = NEAR_WRAP_VT + param->finish;
	start = flow_tag(f, NEAR_WRAP_VT + param->vt, param->cost);
	KUNIT_EXPECT_EQ(test, (s64)(start - NEAR_WRAP_VT), param->start);
	KUNIT_EXPECT_NE(test, f->finish, VT_NONE);
	KUNIT_EXPECT_EQ(test, f->finish, vt_add(start, param->cost));
	flow_put(f);
}

/*
 * What no tag holds back is charged up to where it is @ahead ahead, and never gives anything back.
 */
static void at_head_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 1000);
	unsigned int i;

	flow_tag_at_head(f, 1000, 50, 200);
	KUNIT_EXPECT_EQ(test, f->finish, 1050ULL);
	flow_tag_at_head(f, 2000, 50, 200);
	KUNIT_EXPECT_EQ(test, f->finish, 2050ULL);
	for (i = 0; i < 100; i++)
		flow_tag_at_head(f, 2000, 50, 200);
	KUNIT_EXPECT_EQ(test, f->finish, 2250ULL);
	flow_tag(f, 2000, 1000);
	flow_tag_at_head(f, 2000, 50, 200);
	KUNIT_EXPECT_EQ(test, f->finish, 3250ULL);
	flow_put(f);
}

/* As much as it is more than @ahead ahead, and no more than it was charged. */
static void forgive_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 1000);

	flow_tag(f, 1000, 500);
	flow_forgive(f, 1000, 50, 500);
	KUNIT_EXPECT_EQ(test, f->finish, 1500ULL);
	flow_forgive(f, 1000, 50, 480);
	KUNIT_EXPECT_EQ(test, f->finish, 1480ULL);
	flow_forgive(f, 1000, 50, 100);
	KUNIT_EXPECT_EQ(test, f->finish, 1430ULL);
	flow_forgive(f, 2000, 50, 0);
	KUNIT_EXPECT_EQ(test, f->finish, 1430ULL);
	flow_put(f);
}

struct urgent_tag_param {
	const char *name;
	u64 finish, debt, vt, cost_vt, credit_vt;
	bool passes;
	u64 expected_start, expected_finish, expected_debt;
};

static const struct urgent_tag_param urgent_tag_params[] = {
	{ "goes next, is charged in full", 5000, 100, 100, 40, 500, true, 100, 5040, 140 },
	{ "lagging: has saved nothing", 5, 7, 100, 40, 500, true, 100, 140, 140 },
	{ "adds to the debt", 5000, 300, 100, 40, 500, true, 100, 5040, 340 },
	{ "up to the credit", 5000, 600, 100, 40, 500, true, 100, 5040, 640 },
	{ "beyond it: in its turn", 5000, 601, 100, 40, 500, false, 5000, 5040, 601 },
	{ "larger than the credit", 5000, 100, 100, 9000, 500, true, 100, 14000, 9100 },
	{ "no credit at all", 5000, 100, 100, 40, 0, false, 5000, 5040, 100 },
	{ "debt over the end", 30, 0 - 90ULL, 0 - 100ULL, 200, 500, true, 0 - 100ULL, 230, 110 },
	{ "virtual time over the end", 5000, 0 - 90ULL, 3, 40, 500, true, 3, 5040, 43 },
	{ "beyond it over the end", 900, 401, 0 - 100ULL, 40, 500, false, 900, 940, 401 },
	{ "no tag is none", 5000, 100, VT_NONE, 40, 500, true, 0, 5040, 140 },
	{ "no debt is none", 0, 0 - 60ULL, 0 - 60ULL, 59, 500, true, 0 - 60ULL, 59, 0 },
};

KUNIT_ARRAY_PARAM_DESC(urgent_tag, urgent_tag_params, name);

static void urgent_tag_test(struct kunit *test)
{
	const struct urgent_tag_param *param = test->param_value;
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, param->finish);
	bool passes;

	KUNIT_EXPECT_EQ(test, f->debt_until, param->finish);
	f->debt_until = param->debt;
	KUNIT_EXPECT_EQ(test, flow_has_credit(f, param->vt, param->credit_vt), param->passes);
	KUNIT_EXPECT_EQ(test, flow_tag_urgent(f, param->vt, param->cost_vt, param->credit_vt,
					      &passes), param->expected_start);
	KUNIT_EXPECT_EQ(test, passes, param->passes);
	KUNIT_EXPECT_EQ(test, f->finish, param->expected_finish);
	KUNIT_EXPECT_EQ(test, f->debt_until, param->expected_debt);
	flow_put(f);
}

/*
 * A flow that sends urgent requests without end, while virtual time wraps: those that go next cost
 * no more than virtual time and the credit, and all are charged.
 */
static void urgent_share_test(struct kunit *test)
{
	enum { CREDIT_VT = 3000, LARGEST_VT = 200 };
	struct context *c = test->priv;
	u64 begin = 0 - 100000ULL, vt = begin, passed_vt = 0, charged_vt = 0, cost;
	struct flow *f = flow_get(&c->t, 1, NULL, vt);
	unsigned int i, nr_passed = 0;
	bool passes;

	for (i = 0; i < NR_STEPS; i++) {
		cost = 1 + shape_random_below(&c->random, LARGEST_VT);
		flow_tag_urgent(f, vt, cost, CREDIT_VT, &passes);
		charged_vt += cost;
		passed_vt += passes ? cost : 0;
		nr_passed += passes;
		KUNIT_ASSERT_LE(test, passed_vt, vt - begin + CREDIT_VT + LARGEST_VT);
		/* It never lags, so it owes all that it was charged. */
		KUNIT_ASSERT_LE(test, begin + charged_vt - f->finish, 1ULL);
		vt += shape_random_below(&c->random, LARGEST_VT / 2);
	}
	KUNIT_EXPECT_TRUE(test, vt_after(vt, 0));
	/* What virtual time pays back is used: about a half goes next. */
	KUNIT_EXPECT_GE(test, passed_vt, vt - begin);
	KUNIT_EXPECT_LT(test, nr_passed, i);
	flow_put(f);
}

/* A debt shrinks and grows as the flow's tags do, and one that is paid back stays behind. */
static void debt_follows_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 1000);
	bool passes;

	flow_tag_urgent(f, 1000, 600, 5000, &passes);
	flow_reweigh(f, flow_flat_weight(200), 1000);
	KUNIT_EXPECT_EQ(test, f->debt_until, 1300ULL);
	flow_reweigh(f, flow_flat_weight(50), 1100);
	KUNIT_EXPECT_EQ(test, f->debt_until, 1900ULL);
	flow_reweigh(f, flow_flat_weight(100), 2000);
	KUNIT_EXPECT_EQ(test, f->debt_until, 1900ULL);
	flow_table_pass(&c->t, 1000000);
	KUNIT_EXPECT_EQ(test, f->debt_until, 1000000ULL);
	flow_put(f);
}

/* Start tags follow one another by the cost, whatever virtual time does, over the end of time. */
static void disjoint_test(struct kunit *test)
{
	struct context *c = test->priv;
	u64 vt = 0 - 20000ULL, end = vt, start, cost;
	struct flow *f = flow_get(&c->t, 1, NULL, vt);
	unsigned int i;

	for (i = 0; i < NR_STEPS; i++) {
		cost = 1 + shape_random_below(&c->random, 20);
		start = flow_tag(f, vt, cost);
		KUNIT_ASSERT_GE(test, (s64)(start - end), 0);
		KUNIT_ASSERT_GE(test, (s64)(start - vt), 0);
		KUNIT_ASSERT_TRUE(test, start == (vt_after(end, vt) ? end : vt) || !start);
		KUNIT_ASSERT_TRUE(test, start != VT_NONE && f->finish != VT_NONE);
		end = start + cost;
		if (shape_random_below(&c->random, 10) == 0) {
			flow_charge(f, vt, 7);
			end += 7;
		}
		end = vt_add(end, 0);
		KUNIT_ASSERT_LE(test, f->finish - end, 1ULL);
		end = f->finish;
		vt = vt_add(vt, shape_random_below(&c->random, 20));
	}
	flow_put(f);
}

struct cost_param {
	const char *name;
	u32 weight;
	u64 bytes;
	u64 expected_vt;
};

static const struct cost_param cost_params[] = {
	{ "a byte at the default", 100, 1, 16 },
	{ "4 KiB at the default", 100, 4096, 65536 },
	{ "twice the weight", 200, 4096, 32768 },
	{ "the smallest weight", 1, 4096, 6553600 },
	{ "the largest weight", 10000, 4096, 655 },
	{ "never nothing", 10000, 1, 1 },
	{ "to the nearest", 600, 10, 27 },
	{ "nothing costs one", 100, 0, 1 },
	{ "4 GiB at the smallest weight", 1, 1ULL << 32, 100ULL << 36 },
};

KUNIT_ARRAY_PARAM_DESC(cost, cost_params, name);

static void cost_test(struct kunit *test)
{
	const struct cost_param *param = test->param_value;
	struct context *c = test->priv;
	struct flow *f;

	c->weight = param->weight;
	f = flow_get(&c->t, 1, NULL, 0);
	KUNIT_EXPECT_EQ(test, f->weight, param->weight);
	KUNIT_EXPECT_EQ(test, flow_cost_vt(f, param->bytes), param->expected_vt);
	flow_put(f);
}

/* ---- life ---- */

/* A flow that is no more than its credit ahead goes at once, and is charged; beyond, in turn. */
static void prompt_tag_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 1000);
	bool passes;

	KUNIT_EXPECT_EQ(test, flow_tag_prompt(f, 1000, 60, 100, &passes), 1000ULL);
	KUNIT_EXPECT_TRUE(test, passes);
	flow_charge(f, 1000, 30);
	KUNIT_EXPECT_EQ(test, flow_tag_prompt(f, 1000, 60, 100, &passes), 1000ULL);
	KUNIT_EXPECT_TRUE(test, passes);
	KUNIT_EXPECT_EQ(test, f->finish, 1150ULL);
	KUNIT_EXPECT_EQ(test, flow_tag_prompt(f, 1000, 60, 100, &passes), 1150ULL);
	KUNIT_EXPECT_FALSE(test, passes);
	KUNIT_EXPECT_FALSE(test, flow_is_within(f, 1109, 100));
	KUNIT_EXPECT_TRUE(test, flow_is_within(f, 1110, 100));
	KUNIT_EXPECT_EQ(test, f->debt_until, 1000ULL);
	flow_put(f);
}

static u32 target_of(void *context, u64 key, void *who)
{
	struct context *c = context;

	c->asked_key = key;
	return who ? *(u32 *)who : c->target_us;
}

/* A flow asks for its target once, and follows a change; other flows have theirs. */
static void target_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *before = flow_get(&c->t, 3, NULL, 0), *f, *other;

	KUNIT_EXPECT_EQ(test, before->target_us, 0U);
	c->target_us = 1000;
	c->t.target_of = target_of;
	f = flow_get(&c->t, 1, NULL, 0);
	KUNIT_EXPECT_EQ(test, c->asked_key, 1ULL);
	c->target_us = 300;
	other = flow_get(&c->t, 2, NULL, 0);
	KUNIT_EXPECT_EQ(test, f->target_us, 1000U);
	KUNIT_EXPECT_EQ(test, other->target_us, 300U);
	flow_set_target(&c->t, 1, 500);
	flow_set_target(&c->t, 99, 7);
	KUNIT_EXPECT_EQ(test, f->target_us, 500U);
	KUNIT_EXPECT_EQ(test, other->target_us, 300U);
	flow_put(other);
	flow_put(f);
	flow_put(before);
}

static void weight_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f, *g;
	u32 of_new = 300;

	flow_set_weight(&c->t, 7, 50);
	KUNIT_EXPECT_NULL(test, flow_table_update(&c->t, 1000));
	f = flow_get(&c->t, 7, &of_new, 0);
	f->finish = 1010;
	KUNIT_EXPECT_EQ(test, f->weight, 300U);
	KUNIT_EXPECT_EQ(test, c->asked_key, 7ULL);
	flow_set_weight(&c->t, 7, 50);
	g = flow_table_update(&c->t, 1000);
	KUNIT_EXPECT_PTR_EQ(test, f, g);
	KUNIT_EXPECT_NULL(test, f->next_changed);
	KUNIT_EXPECT_TRUE(test, f->is_changing);
	KUNIT_EXPECT_EQ(test, f->change.old_weight, flow_flat_weight(300));
	KUNIT_EXPECT_EQ(test, f->change.new_weight, flow_flat_weight(50));
	KUNIT_EXPECT_EQ(test, f->change.vt, 1000ULL);
	/* What was 10 ahead is 60 ahead, and what is tagged from now on starts there. */
	KUNIT_EXPECT_EQ(test, f->change.finish, 1060ULL);
	KUNIT_EXPECT_EQ(test, f->finish, 1060ULL);
	KUNIT_EXPECT_EQ(test, f->weight, 50U);
	KUNIT_EXPECT_EQ(test, flow_cost_vt(f, 100), 3200ULL);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 2);
	flow_table_updated(g);
	KUNIT_EXPECT_FALSE(test, f->is_changing);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 1);
	KUNIT_EXPECT_NULL(test, flow_table_update(&c->t, 1000));
	/* Flows that exist keep their weight. */
	of_new = 900;
	KUNIT_EXPECT_PTR_EQ(test, flow_get(&c->t, 7, &of_new, 0), f);
	KUNIT_EXPECT_EQ(test, f->weight, 50U);
}

struct scaled_param {
	const char *name;
	u64 ahead;
	u32 old_weight, new_weight;
	u64 expected;
};

static const struct scaled_param scaled_params[] = {
	{ "half the weight", 100, 200 << 16, 100 << 16, 200 },
	{ "the smallest of all, from the largest", 1000, 10000U << 16, 1, 655360000000ULL },
	{ "no further than the limit", 1ULL << 60, 10000U << 16, 1, VT_AHEAD_MAX },
	{ "at the limit", VT_AHEAD_MAX, 2, 1, VT_AHEAD_MAX },
	{ "beyond it, but nearer", VT_AHEAD_MAX * 2, 1, 4, VT_AHEAD_MAX / 2 },
	{ "nothing is nothing", 0, 10000U << 16, 1, 0 },
};

KUNIT_ARRAY_PARAM_DESC(scaled, scaled_params, name);

static void scaled_test(struct kunit *test)
{
	const struct scaled_param *param = test->param_value;
	const struct flow_reweigh change = {
		.vt		= 0 - 5000ULL,
		.old_weight	= param->old_weight,
		.new_weight	= param->new_weight,
	};

	KUNIT_EXPECT_EQ(test, flow_scaled(&change, change.vt + param->ahead) - change.vt,
			param->expected);
}

/* Whatever a flow asks for, its tags stay where they compare as ahead of virtual time. */
static void too_far_test(struct kunit *test)
{
	struct context *c = test->priv;
	u64 vt = 0 - 1000ULL;
	struct flow *f = flow_get(&c->t, 1, NULL, vt);
	unsigned int i;

	f->change = flow_reweigh(f, FLOW_EFFECTIVE_MIN, vt);
	KUNIT_EXPECT_EQ(test, flow_cost_vt(f, 1), 100ULL << (VT_SHIFT + FLOW_EFFECTIVE_SHIFT));
	KUNIT_EXPECT_EQ(test, flow_cost_vt(f, 1ULL << 36), VT_AHEAD_MAX);
	for (i = 0; i < 100; i++) {
		flow_tag(f, vt, flow_cost_vt(f, 1ULL << 36));
		flow_charge(f, vt, flow_cost_vt(f, 1ULL << 36));
		flow_tag_at_head(f, vt, flow_cost_vt(f, 1ULL << 36), 1ULL << 40);
		KUNIT_ASSERT_TRUE(test, vt_after(f->finish, vt));
		KUNIT_ASSERT_LE(test, f->finish - vt, 2 * VT_AHEAD_MAX);
	}
	flow_reweigh(f, flow_flat_weight(1), vt);
	KUNIT_EXPECT_TRUE(test, vt_after(f->finish, vt));
	flow_put(f);
}

static void reclaim_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 7, NULL, 100);

	flow_tag(f, 100, 50);
	/* A reference is held. */
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 1000).nr_flows, 1U);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 1000).nr_flows, 1U);
	flow_put(f);
	/* Virtual time has not passed its finish tag. */
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 149).nr_flows, 1U);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 149).nr_flows, 1U);
	/* Seen idle once; used; seen idle once more. */
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 150).nr_flows, 1U);
	KUNIT_EXPECT_PTR_EQ(test, flow_get(&c->t, 7, NULL, 100), f);
	flow_put(f);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 150).nr_flows, 1U);
	KUNIT_EXPECT_PTR_EQ(test, flow_find(&c->t, 7), f);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 150).nr_flows, 0U);
	KUNIT_EXPECT_NULL(test, flow_find(&c->t, 7));
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, 150).nr_flows, 0U);
}

/* A dead flow that was found before it left the table is not held: another one is made. */
static void dead_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 7, NULL, 100), *g;

	flow_put(f);
	atomic_set(&f->refs, FLOW_DEAD);
	KUNIT_EXPECT_FALSE(test, atomic_inc_unless_negative(&f->refs));
	/* As flow_make() would find the table: the dead one is out of it. */
	hlist_del_init(&f->node);
	c->t.nr_flows--;
	g = flow_get(&c->t, 7, NULL, 100);
	KUNIT_EXPECT_PTR_NE(test, f, g);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), (int)FLOW_DEAD);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->refs), 1);
	KUNIT_EXPECT_NE(test, f->number, g->number);
	flow_put(g);
	kfree(f);
}

static void see(void *context, struct flow *f)
{
	struct context *c = context;

	c->nr_seen++;
	c->key_sum += f->key;
}

/* Thousands of flows that come and go; the twin is an array by key. */
static void twin_test(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int step, alive = 0, i;
	u64 key_sum = 0;

	kunit_info(test, "seed %d, %d steps\n", SEED, NR_STEPS);
	for (step = 0; step < NR_STEPS; step++) {
		u64 key = shape_random_below(&c->random, NR_KEYS);
		struct twin *twin = &c->twin[key];
		u32 what = shape_random_below(&c->random, 1000);

		if (what < 500) {
			struct flow *f = flow_get(&c->t, key << 20, NULL, c->vt);

			if (!twin->flow) {
				twin->finish = c->vt;
				alive++;
				key_sum += key << 20;
			} else {
				KUNIT_ASSERT_PTR_EQ(test, f, twin->flow);
			}
			twin->flow = f;
			twin->refs++;
			twin->idle = false;
			KUNIT_ASSERT_EQ(test, f->key, key << 20);
			twin->finish = max(twin->finish, c->vt) + 16;
			flow_tag(f, c->vt, 16);
			KUNIT_ASSERT_EQ(test, f->finish, twin->finish);
		} else if (what < 995) {
			if (twin->refs) {
				flow_put(twin->flow);
				twin->refs--;
			}
		} else {
			for (i = 0; i < NR_KEYS; i++) {
				twin = &c->twin[i];
				if (!twin->flow || twin->refs || twin->finish > c->vt)
					continue;
				if (twin->idle) {
					key_sum -= (u64)i << 20;
					alive--;
					twin->flow = NULL;
				}
				twin->idle = !!twin->flow;
			}
			KUNIT_ASSERT_EQ(test, flow_table_reclaim(&c->t, c->vt).nr_flows, alive);
		}
		c->vt++;
	}
	flow_table_for_each(&c->t, see, c);
	KUNIT_EXPECT_EQ(test, c->nr_seen, alive);
	KUNIT_EXPECT_EQ(test, c->key_sum, key_sum);
}

#ifndef __KERNEL__
/* Out of memory: new flows share one that is never freed; existing flows are found. */
static void no_memory_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, 0), *g, *h;

	hosted_fail_every = 1;
	g = flow_get(&c->t, 2, NULL, 0);
	h = flow_get(&c->t, 3, NULL, 0);
	KUNIT_EXPECT_PTR_EQ(test, flow_get(&c->t, 1, NULL, 0), f);
	hosted_fail_every = 0;
	KUNIT_EXPECT_PTR_EQ(test, g, &c->t.other);
	KUNIT_EXPECT_PTR_EQ(test, h, &c->t.other);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->refs), 2);
	KUNIT_EXPECT_EQ(test, c->t.nr_flows, 1U);
	flow_put(g);
	flow_put(h);
	flow_table_reclaim(&c->t, 1000);
	flow_table_reclaim(&c->t, 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->refs), 0);
	KUNIT_EXPECT_PTR_NE(test, flow_get(&c->t, 2, NULL, 0), &c->t.other);
}
#endif

static struct kunit_case flow_cases[] = {
	KUNIT_CASE_PARAM(tag_test, tag_gen_params),
	KUNIT_CASE_PARAM(wrap_test, wrap_gen_params),
	KUNIT_CASE(at_head_test),
	KUNIT_CASE(forgive_test),
	KUNIT_CASE_PARAM(urgent_tag_test, urgent_tag_gen_params),
	KUNIT_CASE(urgent_share_test),
	KUNIT_CASE(debt_follows_test),
	KUNIT_CASE(disjoint_test),
	KUNIT_CASE_PARAM(cost_test, cost_gen_params),
	KUNIT_CASE(weight_test),
	KUNIT_CASE(prompt_tag_test),
	KUNIT_CASE(target_test),
	KUNIT_CASE_PARAM(scaled_test, scaled_gen_params),
	KUNIT_CASE(too_far_test),
	KUNIT_CASE(reclaim_test),
	KUNIT_CASE(dead_test),
	KUNIT_CASE(twin_test),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	{}
};

static struct kunit_suite flow_suite = {
	.name = "flow",
	.init = flow_test_init,
	.exit = flow_test_exit,
	.test_cases = flow_cases,
};

kunit_test_suite(flow_suite);

MODULE_LICENSE("GPL");
