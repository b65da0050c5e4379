// SPDX-License-Identifier: GPL-2.0
/*
 * topology_kunit.c - the tree of queues: its form, and how far queues are from each other
 *
 * What a tree must look like is checked node by node on machines of all forms; how far two queues
 * are from each other is compared with the answer that their places give without any tree.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "../lib/topology.h"
#include "shapes.h"

enum {
	SEED		= 3,
	NR_PAIRS	= 4000,
	TEXT_SIZE	= 512,
};

struct context {
	struct topology topology;
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
	return c;
}

KUNIT_ARRAY_PARAM_DESC(shape, shapes, name);

static void check_inner(struct kunit *test, const struct topology *t, unsigned int number)
{
	const struct topology_node *node = &t->node[number];
	unsigned int i, next_leaf = node->first_leaf;

	KUNIT_EXPECT_GE(test, (int)node->nr_children, t->nr_queues == 1 ? 1 : 2);
	KUNIT_EXPECT_LE(test, (int)node->nr_children, (int)TOPOLOGY_FANOUT_MAX);
	KUNIT_EXPECT_GE(test, (int)node->level, (int)TOPOLOGY_CORE);
	KUNIT_EXPECT_LE(test, (int)node->level, (int)TOPOLOGY_MACHINE);
	for (i = 0; i < node->nr_children; i++) {
		unsigned int child = t->children[node->first_child + i];

		KUNIT_EXPECT_LT(test, child, number);
		KUNIT_EXPECT_EQ(test, (unsigned int)t->node[child].parent, number);
		KUNIT_EXPECT_LE(test, (int)t->node[child].level, (int)node->level);
		KUNIT_EXPECT_EQ(test, (unsigned int)t->node[child].first_leaf, next_leaf);
		next_leaf = t->node[child].last_leaf + 1;
	}
	KUNIT_EXPECT_EQ(test, next_leaf, node->last_leaf + 1U);
}

static void form_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape);
	struct topology *t = &c->topology;
	unsigned int i, root = topology_root(t);

	KUNIT_EXPECT_EQ(test, t->nr_queues, shape->nr_queues);
	KUNIT_EXPECT_LE(test, t->nr_nodes, 2 * t->nr_queues);
	for (i = 0; i < t->nr_queues; i++) {
		KUNIT_EXPECT_EQ(test, (unsigned int)t->node[i].nr_children, 0U);
		KUNIT_EXPECT_EQ(test, (unsigned int)t->node[i].first_leaf, i);
		KUNIT_EXPECT_EQ(test, (unsigned int)t->node[i].last_leaf, i);
		KUNIT_EXPECT_EQ(test, (unsigned int)t->queue_of[t->leaf_of[i]], i);
		KUNIT_EXPECT_NE(test, (unsigned int)t->node[i].parent, i);
	}
	for (; i < t->nr_nodes; i++)
		check_inner(test, t, i);
	KUNIT_EXPECT_EQ(test, (unsigned int)t->node[root].parent, root);
	KUNIT_EXPECT_EQ(test, (unsigned int)t->node[root].first_leaf, 0U);
	KUNIT_EXPECT_EQ(test, t->node[root].last_leaf + 1U, t->nr_queues);
	topology_destroy(t);
}

/* The nearest thing that two queues share, by their places alone. */
static unsigned int shared_level(const struct topology_place *place, unsigned int a, unsigned int b)
{
	unsigned int level = TOPOLOGY_MACHINE;

	if (a == b)
		return TOPOLOGY_SELF;
	while (level > TOPOLOGY_CORE && place[a].id[level - 1] == place[b].id[level - 1])
		level--;
	return level;
}

static void distance_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape);
	struct topology *t = &c->topology;
	u32 random = SEED;
	unsigned int i;

	kunit_info(test, "seed %u\n", SEED);
	for (i = 0; i < NR_PAIRS; i++) {
		unsigned int a = shape_random_below(&random, t->nr_queues);
		unsigned int b = shape_random_below(&random, t->nr_queues);
		unsigned int lca = topology_lca(t, t->leaf_of[a], t->leaf_of[b]);
		unsigned int child;

		KUNIT_ASSERT_EQ_MSG(test, (unsigned int)t->node[lca].level,
				    shared_level(c->place, a, b), "queues %u and %u", a, b);
		KUNIT_ASSERT_TRUE(test, topology_covers(t, lca, t->leaf_of[a]));
		KUNIT_ASSERT_TRUE(test, topology_covers(t, lca, t->leaf_of[b]));
		KUNIT_ASSERT_EQ(test, lca, topology_lca(t, t->leaf_of[b], t->leaf_of[a]));
		for (child = 0; child < t->node[lca].nr_children; child++) {
			unsigned int number = t->children[t->node[lca].first_child + child];

			KUNIT_ASSERT_FALSE(test, topology_covers(t, number, t->leaf_of[a]) &&
						 topology_covers(t, number, t->leaf_of[b]));
		}
	}
	topology_destroy(t);
}

static void bounds_test(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	struct topology_place *place = kunit_kcalloc(test, TOPOLOGY_QUEUES_MAX, sizeof(*place),
						     GFP_KERNEL);
	struct topology *t;
	unsigned int leaf = TOPOLOGY_QUEUES_MAX - 1, depth = 0;

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_NOT_NULL(test, place);
	t = &c->topology;
	KUNIT_EXPECT_EQ(test, topology_init(t, place, 0, GFP_KERNEL), -EINVAL);
	KUNIT_EXPECT_EQ(test, topology_init(t, place, TOPOLOGY_QUEUES_MAX + 1, GFP_KERNEL),
			-EINVAL);

	/* All on one core: 16384 is 8 to the power of 14 / 3. */
	KUNIT_ASSERT_EQ(test, topology_init(t, place, TOPOLOGY_QUEUES_MAX, GFP_KERNEL), 0);
	while (t->node[leaf].parent != leaf) {
		leaf = t->node[leaf].parent;
		depth++;
	}
	KUNIT_EXPECT_EQ(test, depth, 5U);
	topology_destroy(t);
}

struct show_param {
	const char *name;
	struct shape shape;
	const char *text;
};

static const struct show_param show_params[] = {
	{ "one queue", { "", 1, 1, 1, 1, 1 }, "machine 0\n" },
	{ "one core", { "", 2, 2, 2, 2, 1 }, "core 0 1\n" },
	{ "levels with one child are left out", { "", 4, 2, 2, 4, 1 },
	  "core 0 1\ncore 2 3\nsocket 0 1 2 3\n" },
	{ "caches", { "", 4, 1, 2, 4, 1 }, "cache 0 1\ncache 2 3\nsocket 0 1 2 3\n" },
	{ "sockets", { "", 4, 1, 1, 2, 1 }, "socket 0 1\nsocket 2 3\nmachine 0 1 2 3\n" },
	{ "neighbours in number are not neighbours", { "", 5, 2, 5, 5, 2 },
	  "core 0 2\ncore 1 4\ncache 0 2 1 4 3\n" },
	{ "too many are cut", { "", 10, 1, 1, 10, 1 },
	  "socket 0 1 2 3 4 5 6 7\nsocket 8 9\nsocket 0 1 2 3 4 5 6 7 8 9\n" },
	{ "one that is over stays above", { "", 9, 1, 1, 9, 1 },
	  "socket 0 1 2 3 4 5 6 7\nsocket 0 1 2 3 4 5 6 7 8\n" },
};

KUNIT_ARRAY_PARAM_DESC(show, show_params, name);

static void show_test(struct kunit *test)
{
	const struct show_param *param = test->param_value;
	struct context *c = make(test, &param->shape);
	struct seq_file m = { .buf = c->text, .size = TEXT_SIZE };

	topology_show(&c->topology, &m);
	c->text[m.count] = '\0';
	KUNIT_EXPECT_STREQ(test, c->text, param->text);
	topology_destroy(&c->topology);
}

#ifndef __KERNEL__
/* Whichever allocation fails: no memory is lost, none is freed twice. */
static void no_memory_test(struct kunit *test)
{
	struct context *c = make(test, &shapes[0]);
	int ret, nth = 0;

	topology_destroy(&c->topology);
	do {
		hosted_fail_at = ++nth;
		ret = topology_init(&c->topology, c->place, 1, GFP_KERNEL);
		KUNIT_EXPECT_TRUE(test, !ret || ret == -ENOMEM);
	} while (ret);
	hosted_fail_at = 0;
	KUNIT_EXPECT_EQ(test, nth, 7);
	topology_destroy(&c->topology);
}
#endif

static struct kunit_case topology_cases[] = {
	KUNIT_CASE_PARAM(form_test, shape_gen_params),
	KUNIT_CASE_PARAM(distance_test, shape_gen_params),
	KUNIT_CASE(bounds_test),
	KUNIT_CASE_PARAM(show_test, show_gen_params),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	{}
};

static struct kunit_suite topology_suite = {
	.name = "topology",
	.test_cases = topology_cases,
};

kunit_test_suite(topology_suite);

MODULE_LICENSE("GPL");
