// SPDX-License-Identifier: GPL-2.0
/*
 * flow_tree_kunit.c - weights in a tree: effective weights, activity, debt
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "../lib/flow.h"
#include "shapes.h"

enum {
	SEED		= 41,
	NR_STEPS	= 20000,
	NR_NODES	= 48,
	DEPTH_MAX	= 4,		/* below the root; with it a product fits 64 bits */
	CHILDREN_MAX	= 8,
	WEIGHT_MAX	= 200,		/* below the tops */
	VT		= 1000000,
};

/* A tenant. Node 0 is the root. */
struct node {
	struct node *parent;
	unsigned int number, depth, nr_children;
	u32 weight;
	struct flow *flow;		/* if it has one */
	unsigned int refs, idle_passes;
	bool active;
};

struct context {
	struct flow_table t;
	struct node node[NR_NODES];
	unsigned int nr_dirty;
	u64 heir_of;			/* key, or 0 */
	u64 vt;
	u32 random;
};

static u64 key_of(const struct node *n)
{
	return 1000 + n->number;
}

static u32 weight_of(void *context, u64 key, void *who)
{
	const struct node *n = who;

	(void)context;
	(void)key;
	return n ? n->weight : FLOW_WEIGHT_DEFAULT;
}

static void *parent_of(void *context, void *who, u64 *parent_key)
{
	const struct node *n = who;

	(void)context;
	if (!n || !n->parent)
		return NULL;
	*parent_key = key_of(n->parent);
	return n->parent;
}

static bool heir_of(void *context, u64 key, u64 *heir_of_key)
{
	struct context *c = context;

	(void)key;
	*heir_of_key = c->heir_of;
	return c->heir_of;
}

static void dirty(void *context)
{
	struct context *c = context;

	c->nr_dirty++;
}

static const struct flow_tree_ops tree_ops = {
	.parent_of	= parent_of,
	.heir_of	= heir_of,
	.dirty		= dirty,
};

static int tree_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	c->random = SEED;
	c->vt = VT;
	for (i = 0; i < NR_NODES; i++)
		c->node[i] = (struct node) { .number = i, .weight = FLOW_WEIGHT_DEFAULT };
	KUNIT_ASSERT_EQ(test, flow_table_init(&c->t, weight_of, c, GFP_KERNEL), 0);
	KUNIT_ASSERT_EQ(test, flow_table_plant(&c->t, &tree_ops, GFP_KERNEL), 0);
	return 0;
}

static void tree_test_exit(struct kunit *test)
{
	struct context *c = test->priv;

	flow_table_destroy(&c->t);
}

/* ---- helpers ---- */

static struct node *grow(struct context *c, unsigned int number, unsigned int parent, u32 weight)
{
	struct node *n = &c->node[number];

	n->parent = &c->node[parent];
	n->depth = n->parent->depth + 1;
	n->parent->nr_children++;
	n->weight = weight;
	return n;
}

static struct flow *use(struct context *c, unsigned int number)
{
	struct node *n = &c->node[number];

	return flow_get(&c->t, key_of(n), n, c->vt);
}

/* In thousandths, after an update. */
static u64 effective(struct context *c, unsigned int number)
{
	struct flow *f;

	flow_table_updated(flow_table_update(&c->t, c->vt));
	f = flow_find(&c->t, key_of(&c->node[number]));
	return f->leaf.active ? (f->effective_weight * 1000ULL) >> FLOW_EFFECTIVE_SHIFT : 0;
}

static void pass_twice(struct context *c)
{
	flow_table_pass(&c->t, c->vt);
	flow_table_pass(&c->t, c->vt);
}

/* Flows of 1 and 2 in a branch of weight 300, with weights 100 and 200; 3 is a top. */
static void small_tree(struct context *c)
{
	grow(c, 4, 0, 300);
	grow(c, 1, 4, 100);
	grow(c, 2, 4, 200);
	grow(c, 3, 0, 50);
}

/* ---- weights ---- */

static void product_test(struct kunit *test)
{
	struct context *c = test->priv;

	small_tree(c);
	use(c, 1);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 300000ULL);
	use(c, 3);
	KUNIT_EXPECT_EQ(test, c->nr_dirty, 0U);
	/* The second child has its own weight at once, the first one's follows. */
	KUNIT_EXPECT_EQ(test, use(c, 2)->effective_weight, flow_flat_weight(200));
	KUNIT_EXPECT_EQ(test, c->nr_dirty, 1U);
	KUNIT_EXPECT_EQ(test, flow_find(&c->t, 1001)->effective_weight, flow_flat_weight(300));
	KUNIT_EXPECT_EQ(test, effective(c, 1), 100000ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 2), 200000ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 3), 50000ULL);
	/* The branch has requests of its own: one more child of weight 100. */
	use(c, 4);
	KUNIT_EXPECT_EQ(test, effective(c, 4), 75000ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 75000ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 2), 150000ULL);
	/* The root's own requests have its weight. */
	c->node[0].weight = 7;
	use(c, 0);
	KUNIT_EXPECT_EQ(test, effective(c, 0), 7000ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 2), 150000ULL);
}

static void set_weight_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *changed;

	small_tree(c);
	use(c, 1);
	use(c, 2);
	use(c, 3);
	effective(c, 1);
	/* A branch without a flow of its own. */
	flow_set_weight(&c->t, key_of(&c->node[4]), 30);
	changed = flow_table_update(&c->t, c->vt);
	KUNIT_ASSERT_NOT_NULL(test, changed);
	KUNIT_ASSERT_NOT_NULL(test, changed->next_changed);
	KUNIT_EXPECT_NULL(test, changed->next_changed->next_changed);
	flow_table_updated(changed);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 10000ULL);
	/* A child's weight acts on its siblings only. */
	flow_set_weight(&c->t, key_of(&c->node[1]), 10000);
	KUNIT_EXPECT_EQ(test, effective(c, 2), 588ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 29411ULL);
	KUNIT_EXPECT_EQ(test, effective(c, 3), 50000ULL);
	flow_set_weight(&c->t, key_of(&c->node[3]), 60);
	KUNIT_EXPECT_EQ(test, effective(c, 3), 60000ULL);
	/* One that nobody knows. */
	flow_set_weight(&c->t, 77, 60);
	KUNIT_EXPECT_NULL(test, flow_table_update(&c->t, c->vt));
}

/* However many children a branch has, and whatever their weights: together they have its own. */
static void many_children_test(struct kunit *test)
{
	struct context *c = test->priv;
	u64 sum = 0;
	unsigned int i;

	grow(c, 1, 0, 100);
	for (i = 2; i < NR_NODES; i++)
		grow(c, i, 1, i % 3 ? 10000 : 1);
	for (i = 2; i < NR_NODES; i++)
		use(c, i);
	flow_table_updated(flow_table_update(&c->t, c->vt));
	for (i = 2; i < NR_NODES; i++)
		sum += flow_find(&c->t, key_of(&c->node[i]))->effective_weight;
	KUNIT_EXPECT_LE(test, sum, (u64)flow_flat_weight(100) + NR_NODES);
	KUNIT_EXPECT_GE(test, sum, (u64)flow_flat_weight(100) - NR_NODES);
}

/* No effective weight is 0, however deep. */
static void least_test(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int i;

	/* At each step, of a child of weight 1 and one of 10000. */
	grow(c, 1, 0, 1);
	for (i = 2; i < 20; i += 2) {
		grow(c, i, i - 1, 10000);
		grow(c, i + 1, i - 1, 1);
		use(c, i);
	}
	KUNIT_EXPECT_EQ(test, use(c, 19)->effective_weight, (u32)FLOW_EFFECTIVE_MIN);
}

/* ---- activity ---- */

static void idle_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f;

	small_tree(c);
	use(c, 1);
	f = use(c, 2);
	flow_tag(f, c->vt, 100);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 100000ULL);
	pass_twice(c);
	KUNIT_EXPECT_TRUE(test, f->leaf.active);
	flow_put(f);
	/* Without requests, but ahead: it has had its share in advance. */
	pass_twice(c);
	pass_twice(c);
	KUNIT_EXPECT_TRUE(test, f->leaf.active);
	c->vt += 100;
	c->nr_dirty = 0;
	flow_table_pass(&c->t, c->vt);
	KUNIT_EXPECT_TRUE(test, f->leaf.active);
	/* Used in between: it begins again. */
	use(c, 2);
	flow_put(f);
	flow_table_pass(&c->t, c->vt);
	KUNIT_EXPECT_TRUE(test, f->leaf.active);
	KUNIT_EXPECT_EQ(test, c->nr_dirty, 0U);
	flow_table_pass(&c->t, c->vt);
	KUNIT_EXPECT_FALSE(test, f->leaf.active);
	/* What it leaves goes to its sibling. */
	KUNIT_EXPECT_EQ(test, c->nr_dirty, 1U);
	KUNIT_EXPECT_EQ(test, effective(c, 1), 300000ULL);
	/* And back. */
	KUNIT_EXPECT_PTR_EQ(test, use(c, 2), f);
	KUNIT_EXPECT_TRUE(test, f->leaf.active);
	KUNIT_EXPECT_EQ(test, f->effective_weight, flow_flat_weight(200));
	KUNIT_EXPECT_EQ(test, effective(c, 1), 100000ULL);
}

/* Virtual time leaves no idle flow's tag so far behind that it counts as ahead. */
static void keep_up_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f;
	unsigned int i;

	small_tree(c);
	f = use(c, 1);
	flow_put(f);
	/* By half the range: what stays would be ahead. */
	for (i = 0; i < 2; i++) {
		c->vt += 1ULL << 62;
		flow_table_pass(&c->t, c->vt);
		KUNIT_EXPECT_EQ(test, f->finish, c->vt);
		KUNIT_EXPECT_EQ(test, c->t.other.finish, c->vt);
	}
	/* The same for the groups: who comes now owes nothing. */
	KUNIT_EXPECT_EQ(test, use(c, 2)->finish, c->vt);
}

static void reclaim_test(struct kunit *test)
{
	struct context *c = test->priv;

	small_tree(c);
	flow_put(use(c, 1));
	use(c, 2);
	flow_table_reclaim(&c->t, c->vt);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, c->vt).nr_flows, 1U);
	/* It was still active. */
	KUNIT_EXPECT_EQ(test, effective(c, 2), 300000ULL);
	flow_put(flow_find(&c->t, key_of(&c->node[2])));
	pass_twice(c);
	flow_table_reclaim(&c->t, c->vt);
	KUNIT_EXPECT_EQ(test, flow_table_reclaim(&c->t, c->vt).nr_flows, 0U);
	KUNIT_EXPECT_TRUE(test, list_empty(&c->t.tree.groups));
}

/* ---- debt ---- */

/* A tenant that makes a child for each request is served no more than one that has one. */
static void rotation_test(struct kunit *test)
{
	struct context *c = test->priv;
	u64 cost, late;
	unsigned int i;

	grow(c, 1, 0, 100);
	for (i = 2; i < NR_NODES; i++)
		grow(c, i, 1, 100);
	for (i = 2; i < 12; i++) {
		struct flow *f = use(c, i);

		KUNIT_EXPECT_EQ(test, flow_tag(f, c->vt, flow_cost_vt(f, 1 << 20)), c->vt);
		atomic64_add(1 << 20, &f->service_bytes);
		flow_put(f);
	}
	flow_table_pass(&c->t, c->vt);
	/* Ten megabytes by the branch's weight are owed. */
	cost = 10ULL << (20 + VT_SHIFT);
	late = use(c, 12)->finish;
	KUNIT_EXPECT_GE(test, late, c->vt + cost - 1000);
	KUNIT_EXPECT_LE(test, late, c->vt + cost);
	c->vt += cost / 2;
	flow_table_pass(&c->t, c->vt);
	KUNIT_EXPECT_EQ(test, use(c, 13)->finish, late);
	c->vt = late;
	flow_table_pass(&c->t, c->vt);
	KUNIT_EXPECT_EQ(test, use(c, 14)->finish, c->vt);
}

/* Bytes that cost little, as discards may, are no debt. */
static void cheap_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f;
	u64 late;

	grow(c, 1, 0, 100);
	grow(c, 2, 1, 100);
	grow(c, 3, 1, 100);
	f = use(c, 2);
	flow_tag(f, c->vt, 512);
	atomic64_add(1ULL << 30, &f->service_bytes);
	flow_table_pass(&c->t, c->vt);
	late = use(c, 3)->finish;
	KUNIT_EXPECT_GE(test, late, c->vt);
	KUNIT_EXPECT_LE(test, late, c->vt + 512);
}

static void heir_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = flow_get(&c->t, 1, NULL, c->vt), *child;

	flow_tag(f, c->vt, 5000);
	c->heir_of = 1;
	child = flow_get(&c->t, 2, NULL, c->vt);
	KUNIT_EXPECT_EQ(test, child->finish, c->vt + 5000);
	c->heir_of = 3;
	child = flow_get(&c->t, 4, NULL, c->vt);
	KUNIT_EXPECT_EQ(test, child->finish, c->vt);
}

/* ---- against a twin ---- */

static bool is_active_below(const struct context *c, const struct node *n)
{
	unsigned int i;

	for (i = 0; i < NR_NODES; i++) {
		const struct node *m = &c->node[i];

		if (!m->active)
			continue;
		while (m && m != n)
			m = m->parent;
		if (m)
			return true;
	}
	return false;
}

static u64 active_weight(const struct context *c, const struct node *parent)
{
	u64 sum = parent->active ? FLOW_WEIGHT_DEFAULT : 0;
	unsigned int i;

	for (i = 0; i < NR_NODES; i++)
		if (c->node[i].parent == parent && is_active_below(c, &c->node[i]))
			sum += c->node[i].weight;
	return sum;
}

/* The product, as a fraction of two products. */
static u64 expected_weight(const struct context *c, const struct node *n)
{
	u64 above = 1, below = 1, weight = FLOW_WEIGHT_DEFAULT;

	if (!n->parent)
		return flow_flat_weight(n->weight);
	for (; n->parent; n = n->parent) {
		above *= weight;
		below *= active_weight(c, n);
		weight = n->weight;
	}
	return div64_u64((above * weight << FLOW_EFFECTIVE_SHIFT) + below / 2, below);
}

static void twin_grow(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int i;

	for (i = 1; i < NR_NODES; i++) {
		unsigned int parent;

		do {
			parent = shape_random_below(&c->random, i);
		} while (c->node[parent].depth >= DEPTH_MAX ||
			 (parent && c->node[parent].nr_children >= CHILDREN_MAX));
		grow(c, i, parent, 1 + shape_random_below(&c->random,
							  parent ? WEIGHT_MAX : FLOW_WEIGHT_MAX));
	}
}

static void twin_pass(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int i;

	flow_table_pass(&c->t, c->vt);
	for (i = 0; i < NR_NODES; i++) {
		struct node *n = &c->node[i];

		if (n->flow && !n->refs && ++n->idle_passes >= 2)
			n->active = false;
	}
}

static void twin_step(struct kunit *test)
{
	struct context *c = test->priv;
	struct node *n = &c->node[shape_random_below(&c->random, NR_NODES)];

	switch (shape_random_below(&c->random, 8)) {
	case 0:
		twin_pass(test);
		break;
	case 1:
		n->weight = 1 + shape_random_below(&c->random,
						   n->depth > 1 ? WEIGHT_MAX : FLOW_WEIGHT_MAX);
		flow_set_weight(&c->t, key_of(n), n->weight);
		break;
	case 2:
	case 3:
	case 4:
		n->flow = use(c, n->number);
		n->refs++;
		n->idle_passes = 0;
		n->active = true;
		break;
	default:
		if (!n->refs)
			break;
		flow_put(n->flow);
		n->refs--;
	}
}

static void twin_check(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int i;

	flow_table_updated(flow_table_update(&c->t, c->vt));
	for (i = 0; i < NR_NODES; i++) {
		const struct node *n = &c->node[i];
		u64 expected;

		if (!n->flow)
			continue;
		KUNIT_ASSERT_EQ(test, n->flow->leaf.active, n->active);
		if (!n->active)
			continue;
		expected = max_t(u64, expected_weight(c, n), FLOW_EFFECTIVE_MIN);
		KUNIT_ASSERT_GE(test, n->flow->effective_weight + 1ULL, expected);
		KUNIT_ASSERT_LE(test, n->flow->effective_weight, expected + 1);
	}
}

static void twin_test(struct kunit *test)
{
	unsigned int i;

	kunit_info(test, "seed %d, %d steps\n", SEED, NR_STEPS);
	twin_grow(test);
	for (i = 0; i < NR_STEPS; i++) {
		twin_step(test);
		if (i % 8 == 0)
			twin_check(test);
	}
}

#ifndef __KERNEL__
/* Out of memory for one of the groups above a flow: none is left, and the other flow pays. */
static void no_memory_test(struct kunit *test)
{
	struct context *c = test->priv;
	unsigned int i;

	for (i = 1; i < 6; i++)
		grow(c, i, i - 1, 100);
	for (i = 6; i > 0; i--) {
		hosted_fail_count = 0;
		hosted_fail_every = i;
		KUNIT_EXPECT_PTR_EQ(test, use(c, 5), &c->t.other);
		hosted_fail_every = 0;
		KUNIT_EXPECT_TRUE(test, list_empty(&c->t.tree.groups));
		KUNIT_EXPECT_EQ(test, c->t.nr_flows, 0U);
	}
	KUNIT_EXPECT_EQ(test, use(c, 5)->effective_weight, flow_flat_weight(100));
}
#endif

static struct kunit_case flow_tree_cases[] = {
	KUNIT_CASE(product_test),
	KUNIT_CASE(set_weight_test),
	KUNIT_CASE(many_children_test),
	KUNIT_CASE(least_test),
	KUNIT_CASE(idle_test),
	KUNIT_CASE(keep_up_test),
	KUNIT_CASE(reclaim_test),
	KUNIT_CASE(rotation_test),
	KUNIT_CASE(cheap_test),
	KUNIT_CASE(heir_test),
	KUNIT_CASE(twin_test),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	{}
};

static struct kunit_suite flow_tree_suite = {
	.name = "flow_tree",
	.init = tree_test_init,
	.exit = tree_test_exit,
	.test_cases = flow_tree_cases,
};

kunit_test_suite(flow_tree_suite);

MODULE_LICENSE("GPL");
