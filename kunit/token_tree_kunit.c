// SPDX-License-Identifier: GPL-2.0
/*
 * token_tree_kunit.c - the slots of a device: none is lost, none is made, each lies where it should
 *
 * The random run copies all nodes before every operation. From the copy it works out, by looking at
 * every node, what the operation must have done.
 */
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "../lib/token_tree.h"
#include "shapes.h"

enum {
	SEED		= 5,
	NR_STEPS	= 20000,
	NOWHERE		= -1,
	TEXT_SIZE	= 512,
};

struct context {
	struct topology topology;
	struct token_tree t;
	int taken;
	int want[2 * SHAPE_QUEUES_MAX];	/* what the nodes should hold */
	u32 random;
	struct topology_place place[SHAPE_QUEUES_MAX];
	char text[TEXT_SIZE];
};

static struct context *make(struct kunit *test, const struct shape *shape, int slots)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	shape_places(shape, c->place);
	KUNIT_ASSERT_EQ(test, topology_init(&c->topology, c->place, shape->nr_queues, GFP_KERNEL),
			0);
	KUNIT_ASSERT_EQ(test, token_tree_init(&c->t, &c->topology, slots, GFP_KERNEL), 0);
	c->random = SEED;
	return c;
}

static void unmake(struct context *c)
{
	token_tree_destroy(&c->t);
	topology_destroy(&c->topology);
}

static int at(const struct context *c, unsigned int node)
{
	return atomic_read(&c->t.node[node].nr_free);
}

static unsigned int root_of(const struct context *c)
{
	return topology_root(&c->topology);
}

static void picture(struct context *c)
{
	unsigned int i;

	for (i = 0; i < c->topology.nr_nodes; i++)
		c->want[i] = at(c, i);
}

static void compare(struct kunit *test, struct context *c, const char *what)
{
	unsigned int i;
	int sum = c->taken;

	for (i = 0; i < c->topology.nr_nodes; i++) {
		KUNIT_ASSERT_EQ_MSG(test, at(c, i), c->want[i], "node %u after %s", i, what);
		sum += at(c, i);
		KUNIT_ASSERT_TRUE(test, at(c, i) <= 0 || test_bit(i, c->t.holds));
		if (i != root_of(c))
			KUNIT_ASSERT_GE(test, at(c, i), 0);
	}
	KUNIT_ASSERT_EQ_MSG(test, sum, c->t.slots, "after %s", what);
	KUNIT_ASSERT_EQ(test, token_tree_nr_free(&c->t), c->t.slots - c->taken);
}

/* ---- what each operation must do, by looking at all nodes ---- */

static void step_take(struct kunit *test, struct context *c, unsigned int leaf)
{
	int want = 1 + shape_random_below(&c->random, 6), n;
	bool found = true;
	unsigned int node;

	picture(c);
	for (node = leaf; c->want[node] <= 0 && node != root_of(c); )
		node = c->topology.node[node].parent;
	if (c->want[node] <= 0) {
		found = false;
	} else if (node == leaf) {
		c->want[leaf]--;
	} else {
		n = min(want, c->want[node]);
		c->want[node] -= n;
		c->want[leaf] += n - 1;
	}
	KUNIT_ASSERT_EQ(test, token_tree_take(&c->t, leaf, want), found);
	c->taken += found;
	compare(test, c, "take");
}

/* How far up two leaves meet. */
static unsigned int meeting(const struct context *c, unsigned int a, unsigned int b)
{
	return a == b ? 0 : topology_lca(&c->topology, a, b);
}

static int nearest_leaf(const struct context *c, unsigned int leaf)
{
	int best = NOWHERE;
	unsigned int i;

	for (i = 0; i < c->topology.nr_queues; i++)
		if (c->want[i] > 0 &&
		    (best == NOWHERE || meeting(c, leaf, i) < meeting(c, leaf, best)))
			best = i;
	return best;
}

static bool steal(struct context *c, unsigned int leaf)
{
	bool more = false, found = token_tree_steal(&c->t, leaf, &more);

	/* Nobody else is there. */
	return found && !more;
}

/* A look that finds nothing leaves no bit but the root's. */
static void step_steal(struct kunit *test, struct context *c, unsigned int leaf)
{
	unsigned int node;
	int from;

	picture(c);
	from = nearest_leaf(c, leaf);
	for (node = c->topology.nr_queues; from == NOWHERE && node < c->topology.nr_nodes; node++)
		if (c->want[node] > 0)
			from = node;
	if (from != NOWHERE)
		c->want[from]--;
	KUNIT_ASSERT_EQ(test, steal(c, leaf), from != NOWHERE);
	if (from == NOWHERE)
		KUNIT_ASSERT_EQ(test, find_first_bit(c->t.holds, c->topology.nr_nodes),
				root_of(c));
	c->taken += from != NOWHERE;
	compare(test, c, "steal");
}

static void step_rest(struct kunit *test, struct context *c, unsigned int leaf)
{
	int quota = max(1, c->t.slots / (int)c->topology.nr_queues);
	unsigned int to = leaf;

	if (!c->taken)
		return;
	picture(c);
	if (c->want[root_of(c)] < 0)
		to = root_of(c);
	while (to != root_of(c) && c->want[to] >= quota * (c->topology.node[to].last_leaf -
							    c->topology.node[to].first_leaf + 1))
		to = c->topology.node[to].parent;
	c->want[to]++;
	c->taken--;
	KUNIT_ASSERT_EQ(test, token_tree_rest(&c->t, leaf), to);
	compare(test, c, "rest");
}

/* Less: what is free anywhere pays, leaves first. More: the debt is less, or the root has it. */
static void step_resize(struct kunit *test, struct context *c, int slots)
{
	unsigned int i;

	picture(c);
	c->want[root_of(c)] += slots - c->t.slots;
	for (i = 0; i < root_of(c); i++)
		for (; c->want[root_of(c)] < 0 && c->want[i] > 0; c->want[i]--)
			c->want[root_of(c)]++;
	token_tree_resize(&c->t, slots);
	compare(test, c, "resize");
	KUNIT_ASSERT_EQ(test, c->t.in_debt, at(c, root_of(c)) < 0);
}

KUNIT_ARRAY_PARAM_DESC(shape, shapes, name);

static void twin_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape, 3);
	unsigned int nr_steps = shape->nr_queues > 64 ? NR_STEPS / 10 : NR_STEPS, step;

	kunit_info(test, "seed %d, %u steps\n", SEED, nr_steps);
	for (step = 0; step < nr_steps; step++) {
		unsigned int leaf = shape_random_below(&c->random, shape->nr_queues);
		u32 what = shape_random_below(&c->random, 100);

		if (what < 45)
			step_take(test, c, leaf);
		else if (what < 53)
			step_steal(test, c, leaf);
		else if (what < 98)
			step_rest(test, c, leaf);
		else
			step_resize(test, c,
				    1 + shape_random_below(&c->random, 4 * shape->nr_queues));
	}
	unmake(c);
}

/* Wherever a single token lies, every queue finds it. */
static void steal_anywhere_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape, 1);
	unsigned int node, step;

	for (node = 0; node < c->topology.nr_nodes; node++)
		for (step = 0; step < min(shape->nr_queues, 10U); step++) {
			unsigned int leaf = shape_random_below(&c->random, shape->nr_queues);

			atomic_set(&c->t.node[root_of(c)].nr_free, 0);
			token_tree_put(&c->t, node, 1);
			KUNIT_ASSERT_TRUE_MSG(test, steal(c, leaf), "leaf %u, node %u", leaf,
					      node);
			KUNIT_ASSERT_FALSE(test, steal(c, leaf));
			KUNIT_ASSERT_EQ(test, at(c, node), 0);
		}
	unmake(c);
}

/* All are out, D shrinks, and all come back: D of them are found again. */
static void debt_test(struct kunit *test)
{
	const struct shape *shape = test->param_value;
	struct context *c = make(test, shape, 12);
	int i;

	for (i = 0; i < 12; i++)
		KUNIT_ASSERT_TRUE(test, token_tree_take(&c->t, i % shape->nr_queues, 1));
	c->taken = 12;
	step_resize(test, c, 5);
	KUNIT_EXPECT_TRUE(test, c->t.in_debt);
	KUNIT_EXPECT_EQ(test, at(c, root_of(c)), -7);
	step_resize(test, c, 7);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_FALSE(test, steal(c, 0));
		step_rest(test, c, i % shape->nr_queues);
		KUNIT_EXPECT_EQ(test, c->t.in_debt, i < 4);
	}
	KUNIT_EXPECT_EQ(test, at(c, root_of(c)), 0);
	for (; i < 12; i++)
		step_rest(test, c, i % shape->nr_queues);
	for (i = 0; i < 7; i++)
		KUNIT_EXPECT_TRUE(test, steal(c, shape->nr_queues - 1));
	KUNIT_EXPECT_FALSE(test, steal(c, 0));
	unmake(c);
}

struct rest_param {
	const char *name;
	int slots;
	int nr_rest;
	/* Of 4 leaves, two cores, root; all at rest at leaf 0. */
	int expected[7];
};

static const struct rest_param rest_params[] = {
	{ "one slot stays in the leaf", 1, 1, { 1, 0, 0, 0, 0, 0, 0 } },
	{ "a leaf holds one at least", 3, 3, { 1, 0, 0, 0, 2, 0, 0 } },
	{ "an equal share", 32, 9, { 8, 0, 0, 0, 1, 0, 23 } },
	{ "a core as much as its leaves", 32, 30, { 8, 0, 0, 0, 16, 0, 8 } },
};

KUNIT_ARRAY_PARAM_DESC(rest, rest_params, name);

static void rest_test(struct kunit *test)
{
	const struct rest_param *param = test->param_value;
	const struct shape shape = { "", 4, 2, 2, 4, 1 };
	struct context *c = make(test, &shape, param->slots);
	int i;

	for (i = 0; i < param->nr_rest; i++)
		KUNIT_ASSERT_TRUE(test, token_tree_take(&c->t, 3, 1));
	for (i = 0; i < param->nr_rest; i++)
		token_tree_rest(&c->t, 0);
	for (i = 0; i < 7; i++)
		KUNIT_EXPECT_EQ_MSG(test, at(c, i), param->expected[i], "node %d", i);
	unmake(c);
}

/* Tokens that are lent are there like others, pay a debt of the root, and go when they are paid. */
static void lend_test(struct kunit *test)
{
	const struct shape shape = { "", 4, 2, 2, 4, 1 };
	struct context *c = make(test, &shape, 3);
	int i;

	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_TRUE(test, token_tree_take(&c->t, 0, 1));
	token_tree_lend(&c->t, 2);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->t), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->t.nr_lent), 2);
	KUNIT_EXPECT_TRUE(test, token_tree_take(&c->t, 3, 1));
	token_tree_paid(&c->t);
	KUNIT_EXPECT_EQ(test, atomic_read(&c->t.nr_lent), 1);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->t), 1);

	token_tree_resize(&c->t, 1);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->t), -1);
	token_tree_lend(&c->t, 1);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->t), 0);
	/* The note of the debt is older than the loan: the next release finds nothing owed. */
	token_tree_rest(&c->t, 0);
	token_tree_rest(&c->t, 0);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->t), 2);
	KUNIT_EXPECT_FALSE(test, c->t.in_debt);
	unmake(c);
}

static void show_test(struct kunit *test)
{
	const struct shape shape = { "", 2, 2, 2, 2, 1 };
	struct context *c = make(test, &shape, 3);
	struct seq_file m = { .buf = c->text, .size = TEXT_SIZE };

	token_tree_take(&c->t, 1, 2);
	token_tree_show(&c->t, &m);
	c->text[m.count] = '\0';
	KUNIT_EXPECT_STREQ(test, c->text, "slots 3 lent 0\n0 0-0 0\n0 1-1 1\n1 0-1 1\n");
	unmake(c);
}

static struct kunit_case token_tree_cases[] = {
	KUNIT_CASE_PARAM(rest_test, rest_gen_params),
	KUNIT_CASE_PARAM(debt_test, shape_gen_params),
	KUNIT_CASE_PARAM(steal_anywhere_test, shape_gen_params),
	KUNIT_CASE_PARAM(twin_test, shape_gen_params),
	KUNIT_CASE(lend_test),
	KUNIT_CASE(show_test),
	{}
};

static struct kunit_suite token_tree_suite = {
	.name = "token_tree",
	.test_cases = token_tree_cases,
};

kunit_test_suite(token_tree_suite);

MODULE_LICENSE("GPL");
