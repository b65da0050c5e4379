// SPDX-License-Identifier: GPL-2.0
/*
 * vt_wheel_kunit.c - the queues that wait for virtual time: each is woken, when it is time
 *
 * The twin is a list of the queues and what they wait for. After every step of virtual time no
 * queue may wait whose time has come. A queue that was woken early was told to come back, as the
 * wheel's last bucket may do, and comes back.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "../lib/vt_wheel.h"
#include "shapes.h"

enum {
	SEED		= 29,
	NR_STEPS	= 5000,
	NR_LEAVES	= 70,	/* more than a word */
	TEXT_SIZE	= 256,
};

struct waiter {
	bool waits;
	bool far;		/* it was more than the wheel's reach ahead when it was parked */
	/* It was parked or reshaped while it waited: bits may be anywhere. */
	bool left_bits;
	u64 wake_vt;
	unsigned int nr_woken;
};

struct context {
	struct kunit *test;
	struct vt_wheel w;
	struct waiter waiter[NR_LEAVES];
	u64 vt;
	u32 random;
	unsigned int nr_early;
	u64 park_again_vt;	/* a woken queue waits for this at once, if not 0 */
	char text[TEXT_SIZE];
};

static bool is_due(void *context, unsigned int leaf)
{
	struct context *c = context;

	return !c->waiter[leaf].waits || (s64)(c->waiter[leaf].wake_vt - c->vt) <= 0;
}

static void wake(void *context, unsigned int leaf)
{
	struct context *c = context;

	c->waiter[leaf].nr_woken++;
	if (c->waiter[leaf].waits && !is_due(c, leaf)) {
		KUNIT_EXPECT_TRUE_MSG(c->test, c->waiter[leaf].far || c->waiter[leaf].left_bits,
				      "leaf %u woken early", leaf);
		c->nr_early++;
	}
	c->waiter[leaf].waits = false;
	if (c->park_again_vt) {
		c->waiter[leaf].waits = true;
		c->waiter[leaf].wake_vt = c->park_again_vt;
		c->park_again_vt = 0;
		vt_wheel_park(&c->w, leaf, c->waiter[leaf].wake_vt, &c->vt);
	}
}

static const struct vt_wheel_ops ops = {
	.is_due	= is_due,
	.wake	= wake,
};

static struct context *make(struct kunit *test, struct vt_wheel_geometry geometry, u64 vt)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	KUNIT_ASSERT_EQ(test, vt_wheel_init(&c->w, NR_LEAVES, geometry, &ops, c, GFP_KERNEL), 0);
	c->test = test;
	c->vt = vt;
	c->random = SEED;
	return c;
}

static u64 reach(const struct context *c)
{
	return ((1ULL << c->w.geometry.buckets_shift) - 1) << c->w.geometry.width_shift;
}

static void park(struct context *c, unsigned int leaf, u64 wake_vt)
{
	u64 width = 1ULL << c->w.geometry.width_shift;
	struct waiter *waiter = &c->waiter[leaf];

	waiter->left_bits |= waiter->waits;
	waiter->waits = true;
	waiter->wake_vt = wake_vt;
	waiter->far = (wake_vt & ~(width - 1)) - (c->vt & ~(width - 1)) > reach(c);
	vt_wheel_park(&c->w, leaf, wake_vt, &c->vt);
}

static int nr_bits(const struct vt_wheel *w)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < VT_WHEEL_BUCKETS_MAX * w->nr_words; i++)
		n += hweight64(w->bits[i]);
	return n;
}

static void turn(struct kunit *test, struct context *c, u64 step)
{
	u64 old_vt = c->vt;
	unsigned int i;

	c->vt += step;
	vt_wheel_turn(&c->w, old_vt, c->vt);
	for (i = 0; i < NR_LEAVES; i++)
		KUNIT_ASSERT_FALSE_MSG(test, c->waiter[i].waits && is_due(c, i),
				       "leaf %u sleeps on: due at %llu, now %llu", i,
				       c->waiter[i].wake_vt, c->vt);
	KUNIT_ASSERT_EQ(test, atomic_read(&c->w.nr_bits), nr_bits(&c->w));
}

struct geometry_param {
	const char *name;
	struct vt_wheel_geometry geometry;
	u64 vt;
};

static const struct geometry_param geometry_params[] = {
	{ "2 buckets of 1", { 0, 1 }, 0 },
	{ "8 buckets of 1", { 0, 3 }, 0 - 2000ULL },
	{ "2 buckets of 16", { 4, 1 }, 0 - 9000ULL },
	{ "8 buckets of 16", { 4, 3 }, 0 - 9001ULL },
	{ "64 buckets of 1024", { 10, 6 }, 0 - 5000ULL },
	{ "1024 buckets of 4", { 2, 10 }, 0 - 100ULL },
	{ "1024 buckets of 2^20", { 20, 10 }, 0 - 2000000ULL },
	{ "2 buckets of 2^40", { 40, 1 }, 0 - 1ULL },
	{ "the longest reach", { VT_WHEEL_REACH_SHIFT_MAX - 10, 10 }, 0 - 1ULL },
};

KUNIT_ARRAY_PARAM_DESC(geometry, geometry_params, name);

/* Distances of all sizes, from within a bucket to far beyond the wheel. */
static u64 some_distance(struct context *c)
{
	u64 width = 1ULL << c->w.geometry.width_shift;

	switch (shape_random_below(&c->random, 5)) {
	case 0:
		return 1;
	case 1:
		return shape_random(&c->random) % width;
	case 2:
		return width * shape_random_below(&c->random, 4);
	case 3:
		return reach(c) / 64 * shape_random_below(&c->random, 66);
	}
	return reach(c) + shape_random_below(&c->random, 3) * width;
}

static void twin_test(struct kunit *test)
{
	const struct geometry_param *param = test->param_value;
	struct context *c = make(test, param->geometry, param->vt);
	unsigned int step;

	kunit_info(test, "seed %d, %d steps\n", SEED, NR_STEPS);
	for (step = 0; step < NR_STEPS; step++) {
		unsigned int leaf = shape_random_below(&c->random, NR_LEAVES);

		/* Most never wait twice at once, so that they must not be woken early. */
		if (shape_random_below(&c->random, 3) && (!c->waiter[leaf].waits || leaf < 10))
			park(c, leaf, c->vt + some_distance(c) + 1);
		else
			turn(test, c, some_distance(c));
	}
	/* Early, again and again, but in the end in time. */
	for (step = 0; step < 20; step++)
		turn(test, c, reach(c));
	for (step = 0; step < NR_LEAVES; step++)
		KUNIT_EXPECT_FALSE(test, c->waiter[step].waits);
	vt_wheel_destroy(&c->w);
}

struct when_param {
	const char *name;
	u64 wake_vt;		/* with 8 buckets of 16, from virtual time 0 */
	u64 woken_vt;		/* in steps of 1 */
};

static const struct when_param when_params[] = {
	{ "now", 0, 1 },
	{ "in the current bucket", 5, 5 },
	{ "the end of the current bucket", 15, 15 },
	{ "the next bucket", 16, 16 },
	{ "amid a bucket", 50, 50 },
	{ "the last bucket", 127, 127 },
	{ "just out of reach", 128, 128 },
	{ "far out of reach", 1000, 128 },
};

KUNIT_ARRAY_PARAM_DESC(when, when_params, name);

static void when_test(struct kunit *test)
{
	const struct when_param *param = test->param_value;
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 0);

	park(c, 65, param->wake_vt);
	while (c->waiter[65].waits && c->vt < 2000)
		turn(test, c, 1);
	KUNIT_EXPECT_EQ(test, c->vt, param->woken_vt);
	KUNIT_EXPECT_EQ(test, c->waiter[65].nr_woken, 1U);
	turn(test, c, 4000);
	KUNIT_EXPECT_EQ(test, c->waiter[65].nr_woken, 1U);
	vt_wheel_destroy(&c->w);
}

/* A turn over more than the wheel empties it; one over nothing looks into the current bucket. */
static void big_steps_test(struct kunit *test)
{
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 8);
	unsigned int i;

	for (i = 0; i < NR_LEAVES; i++)
		park(c, i, 9 + 3 * i);
	turn(test, c, 1ULL << 40);
	for (i = 0; i < NR_LEAVES; i++)
		KUNIT_EXPECT_EQ(test, c->waiter[i].nr_woken, 1U);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(c->w.bits, VT_WHEEL_BUCKETS_MAX * BITS_PER_LONG *
					     c->w.nr_words));
	park(c, 3, c->vt + 2);
	c->waiter[3].waits = false;
	turn(test, c, 0);
	KUNIT_EXPECT_EQ(test, c->waiter[3].nr_woken, 2U);
	vt_wheel_destroy(&c->w);
}

/* Steps that are worked on late, after the next one: the waiter of either is woken. */
static void late_turn_test(struct kunit *test)
{
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 0);

	park(c, 1, 20);
	park(c, 2, 100);
	c->vt = 110;
	vt_wheel_turn(&c->w, 40, 110);
	KUNIT_EXPECT_FALSE(test, c->waiter[2].waits);
	KUNIT_EXPECT_TRUE(test, c->waiter[1].waits);
	vt_wheel_turn(&c->w, 0, 40);
	KUNIT_EXPECT_FALSE(test, c->waiter[1].waits);
	vt_wheel_destroy(&c->w);
}

/* The caller wakes all that wait; queues parked later are found with the new geometry. */
static void reshape_test(struct kunit *test)
{
	struct context *c = make(test, geometry_params[0].geometry, 0 - 77ULL);
	unsigned int i, step;

	for (step = 0; step < 2000; step++) {
		unsigned int leaf = shape_random_below(&c->random, NR_LEAVES);

		if (step % 50 == 49) {
			struct vt_wheel_geometry geometry = { shape_random_below(&c->random, 20),
							      1 + shape_random_below(&c->random,
										     10) };

			vt_wheel_reshape(&c->w, geometry);
			for (i = 0; i < NR_LEAVES; i++) {
				c->waiter[i].waits = false;
				c->waiter[i].left_bits = true;
			}
		} else if (step % 3) {
			park(c, leaf, c->vt + some_distance(c) + 1);
		} else {
			turn(test, c, some_distance(c));
		}
	}
	vt_wheel_destroy(&c->w);
}

/* It is woken, and waits again in the very bucket that is being emptied: that bit must stay. */
static void park_again_test(struct kunit *test)
{
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 0);

	park(c, 65, 5);
	c->park_again_vt = 128 + 7;
	turn(test, c, 128);
	KUNIT_EXPECT_EQ(test, c->waiter[65].nr_woken, 1U);
	while (c->waiter[65].waits && c->vt < 2000)
		turn(test, c, 1);
	KUNIT_EXPECT_EQ(test, c->vt, 128ULL + 7);
	vt_wheel_destroy(&c->w);
}

#ifndef __KERNEL__
/* What happens while a queue is being parked, at the first barrier; only user space can do that. */
static struct context *meanwhile;
static u64 meanwhile_vt;
static struct vt_wheel_geometry meanwhile_geometry;

static void happen(void)
{
	struct context *c = meanwhile;
	u64 old_vt;

	if (!c)
		return;
	meanwhile = NULL;
	vt_wheel_reshape(&c->w, meanwhile_geometry);
	old_vt = c->vt;
	c->vt = meanwhile_vt;
	vt_wheel_turn(&c->w, old_vt, c->vt);
}

struct park_param {
	const char *name;
	u64 wake_vt;		/* with 8 buckets of 16, from virtual time 0 */
	u64 meanwhile_vt;
	struct vt_wheel_geometry geometry;
};

static const struct park_param park_params[] = {
	{ "virtual time stays", 100, 0, { 4, 3 } },
	{ "virtual time comes into the bucket", 100, 97, { 4, 3 } },
	{ "virtual time passes the last bucket", 200, 180, { 4, 3 } },
	{ "narrower buckets", 100, 0, { 2, 5 } },
	{ "fewer buckets", 25, 0, { 4, 1 } },
	{ "more buckets", 200, 0, { 4, 4 } },
};

KUNIT_ARRAY_PARAM_DESC(park, park_params, name);

static void park_test(struct kunit *test)
{
	const struct park_param *param = test->param_value;
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 0);

	meanwhile = c;
	meanwhile_vt = param->meanwhile_vt;
	meanwhile_geometry = param->geometry;
	hosted_at_barrier = happen;
	c->waiter[65].waits = true;
	c->waiter[65].wake_vt = param->wake_vt;
	vt_wheel_park(&c->w, 65, param->wake_vt, &c->vt);
	hosted_at_barrier = NULL;
	while (c->waiter[65].waits && c->vt < 2000)
		turn(test, c, 1);
	KUNIT_EXPECT_EQ(test, c->vt, param->wake_vt);
	vt_wheel_destroy(&c->w);
}
#endif

static void show_test(struct kunit *test)
{
	const struct shape shape = { "", 3, 1, 1, 3, 1 };
	struct topology_place place[3];
	struct topology t;
	struct context *c = make(test, (struct vt_wheel_geometry) { 4, 3 }, 20);
	struct seq_file m = { .buf = c->text, .size = TEXT_SIZE };

	shape_places(&shape, place);
	KUNIT_ASSERT_EQ(test, topology_init(&t, place, 3, GFP_KERNEL), 0);
	park(c, 2, 21);
	park(c, 0, 50);
	park(c, 1, 50);
	vt_wheel_show(&c->w, &t, c->vt, &m);
	c->text[m.count] = '\0';
	KUNIT_EXPECT_STREQ(test, c->text, "width 16 buckets 8\n+0 2\n+2 0 1\n");
	vt_wheel_destroy(&c->w);
	topology_destroy(&t);
}

static struct kunit_case vt_wheel_cases[] = {
	KUNIT_CASE_PARAM(when_test, when_gen_params),
	KUNIT_CASE(big_steps_test),
	KUNIT_CASE(late_turn_test),
	KUNIT_CASE(reshape_test),
	KUNIT_CASE(park_again_test),
	KUNIT_CASE_PARAM(twin_test, geometry_gen_params),
#ifndef __KERNEL__
	KUNIT_CASE_PARAM(park_test, park_gen_params),
#endif
	KUNIT_CASE(show_test),
	{}
};

static struct kunit_suite vt_wheel_suite = {
	.name = "vt_wheel",
	.test_cases = vt_wheel_cases,
};

kunit_test_suite(vt_wheel_suite);

MODULE_LICENSE("GPL");
