// SPDX-License-Identifier: GPL-2.0
/*
 * ready_set_kunit.c - the queues that wait for a slot: the nearest one is found
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "../lib/ready_set.h"
#include "shapes.h"

enum {
	SEED		= 11,
	NR_STEPS	= 20000,
	TEXT_SIZE	= 128,
};

struct context {
	struct topology topology;
	struct ready_set r;
	bool waits[SHAPE_QUEUES_MAX];	/* the twin */
	u32 random;
	struct topology_place place[SHAPE_QUEUES_MAX];
	char text[TEXT_SIZE];
};

static struct context *make(struct kunit *test, const struct shape *shape)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	shape_places(shape, c->place);
	KUNIT_ASSERT_EQ(test, topology_init(&c->topology, c->place, shape->nr_queues, GFP_KERNEL),
			0);
	KUNIT_ASSERT_EQ(test, ready_set_init(&c->r, &c->topology, GFP_KERNEL), 0);
	c->random = SEED;
	return c;
}

static void unmake(struct context *c)
{
	ready_set_destroy(&c->r);
	topology_destroy(&c->topology);
}

/* The queue that is met lowest in the tree; among several, the next one, with wrap-around. */
static int twin_nearest(const struct context *c, unsigned int leaf)
{
	unsigned int n = c->topology.nr_queues, best_node = 0, step;
	int best = READY_SET_NONE;

	if (c->waits[leaf])
		return leaf;
	for (step = 1; step < n; step++) {
		unsigned int other = (leaf + step) % n,
			     node = topology_lca(&c->topology, leaf, other);

		if (c->waits[other] && (best == READY_SET_NONE || node < best_node)) {
			best = other;
			best_node = node;
		}
	}
	return best;
}

static unsigned int twin_nr_waiting(const struct context *c)
{
	unsigned int i, nr = 0;

	for (i = 0; i < c->topology.nr_queues; i++)
		nr += c->waits[i];
	return nr;
}

/* The next one upwards, round the corner, @leaf itself as the last. */
static int twin_next(const struct context *c, unsigned int leaf)
{
	unsigned int n = c->topology.nr_queues, i;

	for (i = 1; i <= n; i++)
		if (c->waits[(leaf + i) % n])
			return (leaf + i) % n;
	return READY_SET_NONE;
}

KUNIT_ARRAY_PARAM_DESC(shape, shapes, name);

static void twin_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape);
	unsigned int nr_steps = shape->nr_queues > 64 ? NR_STEPS / 20 : NR_STEPS, step;

	kunit_info(test, "seed %d, %u steps\n", SEED, nr_steps);
	for (step = 0; step < nr_steps; step++) {
		unsigned int leaf = shape_random_below(&c->random, shape->nr_queues);
		/* By turns few wait and many. */
		unsigned int add = step / 500 % 2 ? 5 : 2;

		if (shape_random_below(&c->random, 10) < add) {
			ready_set_add(&c->r, leaf);
			c->waits[leaf] = true;
		} else {
			KUNIT_ASSERT_EQ(test, ready_set_del(&c->r, leaf), c->waits[leaf]);
			c->waits[leaf] = false;
		}
		KUNIT_ASSERT_EQ(test, ready_set_is_empty(&c->r), !twin_nr_waiting(c));
		leaf = shape_random_below(&c->random, shape->nr_queues);
		KUNIT_ASSERT_EQ_MSG(test, ready_set_nearest(&c->r, leaf), twin_nearest(c, leaf),
				    "from leaf %u", leaf);
		KUNIT_ASSERT_EQ_MSG(test, ready_set_next(&c->r, leaf), twin_next(c, leaf),
				    "after leaf %u", leaf);
	}
	unmake(c);
}

/* One alone is found from everywhere. */
static void alone_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape);
	unsigned int i;

	for (i = 0; i < 200; i++) {
		unsigned int leaf = shape_random_below(&c->random, shape->nr_queues);
		unsigned int from = shape_random_below(&c->random, shape->nr_queues);

		KUNIT_ASSERT_EQ(test, ready_set_nearest(&c->r, from), (int)READY_SET_NONE);
		KUNIT_ASSERT_TRUE(test, ready_set_is_empty(&c->r));
		ready_set_add(&c->r, leaf);
		ready_set_add(&c->r, leaf);
		KUNIT_ASSERT_FALSE(test, ready_set_is_empty(&c->r));
		KUNIT_ASSERT_EQ(test, ready_set_nearest(&c->r, from), (int)leaf);
		KUNIT_ASSERT_TRUE(test, ready_set_del(&c->r, leaf));
		KUNIT_ASSERT_FALSE(test, ready_set_del(&c->r, leaf));
		KUNIT_ASSERT_TRUE(test, ready_set_is_empty(&c->r));
	}
	unmake(c);
}

struct near_param {
	const char *name;
	const char *waits;	/* leaves */
	unsigned int from;
	int expected;
};

/* 8 leaves: cores of two, caches of four. */
static const struct near_param near_params[] = {
	{ "no queue", "", 3, READY_SET_NONE },
	{ "itself first", "01234567", 3, 3 },
	{ "core before what is next", "24", 3, 2 },
	{ "cache before what is next", "04", 3, 0 },
	{ "upwards on the cache", "013", 2, 3 },
	{ "round the corner of the cache", "016", 3, 0 },
	{ "the machine", "67", 1, 6 },
	{ "round the corner of the machine", "23", 7, 2 },
};

KUNIT_ARRAY_PARAM_DESC(near, near_params, name);

static void near_test(struct kunit *test)
{
	const struct near_param *param = test->param_value;
	const struct shape shape = { "", 8, 2, 4, 8, 1 };
	struct context *c = make(test, &shape);
	const char *leaf;

	for (leaf = param->waits; *leaf; leaf++)
		ready_set_add(&c->r, *leaf - '0');
	KUNIT_EXPECT_EQ(test, ready_set_nearest(&c->r, param->from), param->expected);
	unmake(c);
}

static void show_test(struct kunit *test)
{
	const struct shape shape = { "", 5, 1, 1, 5, 2 };
	struct context *c = make(test, &shape);
	struct seq_file m = { .buf = c->text, .size = TEXT_SIZE };

	ready_set_add(&c->r, c->topology.leaf_of[3]);
	ready_set_add(&c->r, c->topology.leaf_of[2]);
	ready_set_show(&c->r, &m);
	c->text[m.count] = '\0';
	KUNIT_EXPECT_STREQ(test, c->text, "2 3\n");
	unmake(c);
}

static struct kunit_case ready_set_cases[] = {
	KUNIT_CASE_PARAM(near_test, near_gen_params),
	KUNIT_CASE_PARAM(alone_test, shape_gen_params),
	KUNIT_CASE_PARAM(twin_test, shape_gen_params),
	KUNIT_CASE(show_test),
	{}
};

static struct kunit_suite ready_set_suite = {
	.name = "ready_set",
	.test_cases = ready_set_cases,
};

kunit_test_suite(ready_set_suite);

MODULE_LICENSE("GPL");
