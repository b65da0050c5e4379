// SPDX-License-Identifier: GPL-2.0
/*
 * mindicator_kunit.c - virtual time, against a twin that looks at every leaf every time
 *
 * Begins shortly before 2^64, so that every run wraps. What threads do to it is in
 * hosted/stress/mindicator_storm.c.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "../lib/mindicator.h"
#include "shapes.h"

enum {
	SEED		= 17,
	NR_STEPS	= 20000,
	TEXT_SIZE	= 512,
};

struct context {
	struct topology topology;
	struct mindicator m;
	/* The twin. */
	u64 leaf[SHAPE_QUEUES_MAX];
	u64 vt;
	u32 random;
	struct topology_place place[SHAPE_QUEUES_MAX];
	char text[TEXT_SIZE];
};

static struct context *make(struct kunit *test, const struct shape *shape, u64 vt)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	shape_places(shape, c->place);
	KUNIT_ASSERT_EQ(test, topology_init(&c->topology, c->place, shape->nr_queues, GFP_KERNEL),
			0);
	KUNIT_ASSERT_EQ(test, mindicator_init(&c->m, &c->topology, vt, GFP_KERNEL), 0);
	for (i = 0; i < shape->nr_queues; i++)
		c->leaf[i] = VT_NONE;
	c->vt = vt;
	c->random = SEED;
	return c;
}

static void unmake(struct context *c)
{
	mindicator_destroy(&c->m);
	topology_destroy(&c->topology);
}

/* The earliest of some leaves, by how far they are from a time before all of them. */
static u64 twin_min(const struct context *c, unsigned int first, unsigned int last)
{
	u64 base = c->vt - (1ULL << 62), min = VT_NONE;
	unsigned int i;

	for (i = first; i <= last; i++)
		if (c->leaf[i] != VT_NONE && (min == VT_NONE || c->leaf[i] - base < min - base))
			min = c->leaf[i];
	return min;
}

/* Sets a leaf of both, and compares all that can be seen. */
static void set_both(struct kunit *test, struct context *c, unsigned int leaf, u64 value)
{
	unsigned int nr_queues = c->topology.nr_queues, i;
	u64 before = c->vt, old_vt = 0, min;
	bool advanced;

	c->leaf[leaf] = value;
	min = twin_min(c, 0, nr_queues - 1);
	if (min != VT_NONE && (s64)(min - c->vt) > 0)
		c->vt = min;

	advanced = mindicator_set(&c->m, leaf, value, &old_vt);
	KUNIT_ASSERT_EQ(test, advanced, c->vt != before);
	if (advanced)
		KUNIT_ASSERT_EQ(test, old_vt, before);
	KUNIT_ASSERT_EQ(test, mindicator_vt(&c->m), c->vt);
	KUNIT_ASSERT_EQ(test, mindicator_leaf(&c->m, leaf), value);
	for (i = c->topology.node[leaf].parent; ; i = c->topology.node[i].parent) {
		const struct topology_node *node = &c->topology.node[i];

		min = twin_min(c, node->first_leaf, node->last_leaf);
		KUNIT_ASSERT_EQ_MSG(test, c->m.node[i].value, min, "node %u", i);
		if (i == topology_root(&c->topology))
			break;
	}
}

KUNIT_ARRAY_PARAM_DESC(shape, shapes, name);

static void twin_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape, 0 - 12ULL);
	unsigned int nr_steps = shape->nr_queues > 64 ? NR_STEPS / 10 : NR_STEPS, step;

	kunit_info(test, "seed %d, %u steps\n", SEED, nr_steps);
	for (step = 0; step < nr_steps; step++) {
		unsigned int leaf = shape_random_below(&c->random, shape->nr_queues);
		u64 value = vt_add(c->vt, shape_random_below(&c->random, 64));
		u32 what = shape_random_below(&c->random, 10);

		if (what == 0)
			value = VT_NONE;
		else if (what == 1)
			value = vt_add(value, -40ULL);
		else if (what < 6 && c->leaf[leaf] != VT_NONE)
			value = vt_add(c->leaf[leaf], shape_random_below(&c->random, 30));
		else if (what == 6)
			value = vt_add(value, 100000);
		set_both(test, c, leaf, value);
	}
	KUNIT_EXPECT_LT(test, c->vt, 1ULL << 40);
	unmake(c);
}

/* All leaves move on in turn: virtual time follows the slowest. */
static void round_robin_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape, 0 - 20ULL);
	unsigned int round, leaf;
	u64 vt = c->vt;

	for (round = 0; round < 40; round++, vt = vt_add(vt, 1))
		for (leaf = 0; leaf < shape->nr_queues; leaf++) {
			if (shape->nr_queues < 64)
				set_both(test, c, leaf, vt);
			else
				mindicator_set(&c->m, leaf, vt, &c->vt);
		}
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), vt_add(vt, -1ULL));
	unmake(c);
}

struct table_param {
	const char *name;
	u64 vt;
	/* Leaf and value; VT_NONE empties it. The last one has .leaf < 0. */
	struct {
		int leaf;
		u64 value;
	} set[6];
	u64 expected_vt;
};

static const struct table_param table_params[] = {
	{ "nothing was set", 5, { { -1 } }, 5 },
	{ "one leaf", 5, { { 0, 9 }, { -1 } }, 9 },
	{ "the earlier of two", 5, { { 1, 7 }, { 0, 9 }, { -1 } }, 7 },
	{ "an earlier tag does not turn it back", 5, { { 0, 9 }, { 1, 7 }, { -1 } }, 9 },
	{ "a tag before the beginning", 5, { { 0, 3 }, { -1 } }, 5 },
	{ "empty again", 5, { { 0, 9 }, { 0, VT_NONE }, { -1 } }, 9 },
	{ "what is empty does not hold it", 5,
	  { { 0, 6 }, { 7, 20 }, { 0, VT_NONE }, { -1 } }, 20 },
	{ "the slowest holds it", 5, { { 0, 6 }, { 7, 20 }, { 7, 30 }, { -1 } }, 6 },
	{ "equal tags", 5, { { 0, 6 }, { 7, 6 }, { 0, 9 }, { -1 } }, 6 },
	{ "both equal tags move on", 5, { { 0, 6 }, { 7, 6 }, { 0, 9 }, { 7, 8 }, { -1 } }, 8 },
	{ "over the end", 0 - 5ULL, { { 0, 0 - 3ULL }, { 7, 4 }, { 0, 2 }, { -1 } }, 2 },
	{ "what was before the end is earlier", 0 - 5ULL,
	  { { 7, 4 }, { 0, 0 - 3ULL }, { -1 } }, 4 },
	{ "the last tag before the end", 0 - 5ULL,
	  { { 0, 0 - 2ULL }, { 7, 0 }, { 0, 1 }, { -1 } }, 0 },
};

KUNIT_ARRAY_PARAM_DESC(table, table_params, name);

static void table_test(struct kunit *test)
{
	const struct table_param *param = test->param_value;
	const struct shape shape = { "", 8, 2, 4, 8, 1 };
	struct context *c = make(test, &shape, param->vt);
	unsigned int i;

	for (i = 0; param->set[i].leaf >= 0; i++)
		set_both(test, c, param->set[i].leaf, param->set[i].value);
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), param->expected_vt);
	unmake(c);
}

/* With all leaves empty, virtual time goes where it is sent, and not back; else it stays. */
static void skip_test(struct kunit *test)
{
	const struct shape shape = { "", 8, 2, 4, 8, 1 };
	struct context *c = make(test, &shape, 0 - 5ULL);

	KUNIT_EXPECT_TRUE(test, mindicator_is_empty(&c->m));
	mindicator_skip(&c->m, 4);
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), 4);
	mindicator_skip(&c->m, 0 - 2ULL);
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), 4);

	c->vt = 4;
	set_both(test, c, 3, 9);
	KUNIT_EXPECT_FALSE(test, mindicator_is_empty(&c->m));
	mindicator_skip(&c->m, 20);
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), 9);
	set_both(test, c, 3, VT_NONE);
	mindicator_skip(&c->m, 20);
	KUNIT_EXPECT_EQ(test, mindicator_vt(&c->m), 20);
	unmake(c);
}

static void show_test(struct kunit *test)
{
	const struct shape shape = { "", 2, 2, 2, 2, 1 };
	struct context *c = make(test, &shape, 100);
	struct seq_file m = { .buf = c->text, .size = TEXT_SIZE };

	set_both(test, c, 0, 150);
	set_both(test, c, 0, 120);
	mindicator_show(&c->m, &m);
	c->text[m.count] = '\0';
	KUNIT_EXPECT_STREQ(test, c->text, "vt 150\n0 0-0 -30\n0 1-1 none\n1 0-1 -30\n");
	unmake(c);
}

static struct kunit_case mindicator_cases[] = {
	KUNIT_CASE_PARAM(table_test, table_gen_params),
	KUNIT_CASE_PARAM(round_robin_test, shape_gen_params),
	KUNIT_CASE_PARAM(twin_test, shape_gen_params),
	KUNIT_CASE(skip_test),
	KUNIT_CASE(show_test),
	{}
};

static struct kunit_suite mindicator_suite = {
	.name = "mindicator",
	.test_cases = mindicator_cases,
};

kunit_test_suite(mindicator_suite);

MODULE_LICENSE("GPL");
