// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for what queues count of their flows (lib/flow_local.c)
 */
#include <kunit/test.h>

#include "../lib/flow_local.h"

enum {
	NR_QUEUES	= 3,
	NR_KEYS		= 80,	/* more than places, so that some share one */
	STEPS		= 20000,
};

struct context {
	struct flow_table t;
	struct flow_locals queue[NR_QUEUES];
};

static u32 weight_of(void *context, u64 key, void *who)
{
	(void)context;
	(void)key;
	(void)who;
	return FLOW_WEIGHT_DEFAULT;
}

static int flow_local_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	return flow_table_init(&c->t, weight_of, c, GFP_KERNEL);
}

static void flow_local_test_exit(struct kunit *test)
{
	struct context *c = test->priv;

	flow_table_destroy(&c->t);
}

static struct flow *get(struct context *c, unsigned int queue, u64 key)
{
	return flow_local_get(&c->queue[queue], &c->t, key, NULL, 0);
}

/* Two keys of the same place. */
static u64 key_beside(struct context *c, u64 key)
{
	u64 other = key + 1;

	while (flow_local_of(&c->queue[0], other) != flow_local_of(&c->queue[0], key))
		other++;
	return other;
}

/* Requests of a queue are one reference, whatever their number; a fold after the last ends it. */
static void place_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow_locals *l = &c->queue[0];
	struct flow *f = get(c, 0, 7);

	KUNIT_EXPECT_TRUE(test, flow_is_local(flow_local_of(l, f->key), f));
	KUNIT_EXPECT_PTR_EQ(test, get(c, 0, 7), f);
	flow_local_again(flow_local_of(l, f->key), f);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 1);
	KUNIT_EXPECT_EQ(test, flow_local_nr(l, f), 3);
	KUNIT_EXPECT_EQ(test, flow_nr_direct(f), 0);
	KUNIT_EXPECT_EQ(test, flow_local_nr(&c->queue[1], f), 0);

	flow_local_serve(flow_local_of(l, f->key), 4096);
	flow_local_end(flow_local_of(l, f->key));
	flow_local_end(flow_local_of(l, f->key));
	flow_locals_fold(l);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 1);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->service_bytes), 4096);

	flow_local_serve(flow_local_of(l, f->key), 100);
	flow_local_end(flow_local_of(l, f->key));
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 1);
	flow_locals_fold(l);
	flow_locals_fold(l);
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->service_bytes), 4196);
	KUNIT_EXPECT_FALSE(test, flow_is_local(flow_local_of(l, f->key), f));
	KUNIT_EXPECT_EQ(test, l->used, 0);
}

/* A flow whose place is another's counts directly, until that one's have ended, and a fold. */
static void other_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow_locals *l = &c->queue[0];
	struct flow *f = get(c, 0, 7), *g = get(c, 0, key_beside(c, 7));

	KUNIT_EXPECT_FALSE(test, flow_is_local(flow_local_of(l, g->key), g));
	flow_local_again(flow_local_of(l, g->key), g);
	KUNIT_EXPECT_EQ(test, flow_nr_direct(g), 2);
	KUNIT_EXPECT_EQ(test, flow_local_nr(l, g), 0);
	flow_put(g);

	flow_local_serve(flow_local_of(l, f->key), 512);
	flow_local_end(flow_local_of(l, f->key));
	flow_locals_fold(l);
	KUNIT_EXPECT_PTR_EQ(test, get(c, 0, g->key), g);
	KUNIT_EXPECT_TRUE(test, flow_is_local(flow_local_of(l, g->key), g));
	KUNIT_EXPECT_EQ(test, atomic_read(&f->refs), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->service_bytes), 512);
	KUNIT_EXPECT_EQ(test, flow_local_nr(l, g), 1);
	KUNIT_EXPECT_EQ(test, flow_nr_direct(g), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->refs), 2);
	flow_put(g);
	flow_local_end(flow_local_of(l, g->key));
	flow_locals_fold(l);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->refs), 0);
}

#ifndef __KERNEL__
/* The flow of all that have none gets no place: the next request may have memory for its own. */
static void no_memory_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow_locals *l = &c->queue[0];
	struct flow *other = &c->t.other;

	hosted_fail_every = 1;
	KUNIT_EXPECT_PTR_EQ(test, get(c, 0, 7), other);
	hosted_fail_every = 0;
	flow_local_again(flow_local_of(l, other->key), other);
	KUNIT_EXPECT_FALSE(test, flow_is_local(flow_local_of(l, other->key), other));
	KUNIT_EXPECT_EQ(test, flow_nr_direct(other), 2);
	KUNIT_EXPECT_EQ(test, l->used, 0);
	KUNIT_EXPECT_PTR_NE(test, get(c, 0, 7), other);
}
#endif

/* ---- tags ---- */

enum {
	T_VT	= 1 << 20,
};

static u64 tag(struct context *c, unsigned int queue, struct flow *f, u64 vt, u64 cost_vt)
{
	return flow_local_tag(flow_local_of(&c->queue[queue], f->key), vt, cost_vt, T_VT);
}

/* One queue alone charges each request by itself. */
static void alone_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = get(c, 0, 7);
	u64 i;

	for (i = 0; i < 20; i++) {
		KUNIT_EXPECT_EQ(test, tag(c, 0, f, 0, 100), 100 * i);
		KUNIT_EXPECT_EQ(test, f->finish, 100 * (i + 1));
	}
	/* Virtual time has passed what it has: nothing is saved. */
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 5000, 100), 5000);
	KUNIT_EXPECT_EQ(test, f->finish, 5100);
}

/* Two queues in turn pay for 1, 2, 4 and 8 requests each, and no more. */
static void advance_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = get(c, 0, 7);
	unsigned int nr_steps[2] = {}, queue, i;
	u64 sent = 0;

	get(c, 1, 7);
	for (i = 0; i < 100; i++) {
		for (queue = 0; queue < 2; queue++) {
			u64 finish = f->finish, start = tag(c, queue, f, 0, 100);

			sent += 100;
			nr_steps[queue] += f->finish != finish;
			KUNIT_EXPECT_LT(test, start, f->finish);
			KUNIT_EXPECT_LE(test, f->finish - sent, 2 * 7 * 100);
		}
	}
	/* One each, then the first queue has seen that it is not alone, and doubles: 2, 4, 8. */
	KUNIT_EXPECT_LE(test, nr_steps[0] + nr_steps[1], 2 * (4 + 100 / 8));
	KUNIT_EXPECT_GE(test, nr_steps[0] + nr_steps[1], 2 * (100 / 8));
}

/* What is paid in advance is bounded by T / 4, whatever the request costs. */
static void most_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = get(c, 0, 7);
	unsigned int i;

	get(c, 1, 7);
	for (i = 0; i < 20; i++) {
		struct flow_local *place = flow_local_of(&c->queue[i % 2], f->key);

		flow_local_tag(place, 0, 1000, 400);
		KUNIT_EXPECT_LE(test, place->paid_vt, 100);
		flow_local_tag(place, 0, FLOW_ADVANCE_VT, VT_AHEAD_MAX);
		KUNIT_EXPECT_LE(test, place->paid_vt, FLOW_ADVANCE_VT);
	}
	flow_local_tag(flow_local_of(&c->queue[0], f->key), 0, FLOW_ADVANCE_VT, 0);
	flow_local_tag(flow_local_of(&c->queue[0], f->key), 0, FLOW_ADVANCE_VT, 0);
	KUNIT_EXPECT_EQ(test, flow_local_of(&c->queue[0], 7)->paid_vt, 0);
}

/* The queue has paid for something, and the flow is at 1000. */
static struct flow_local *paid(struct kunit *test, struct flow **f)
{
	struct context *c = test->priv;
	struct flow_local *place;

	*f = get(c, 0, 7);
	tag(c, 0, *f, 0, 100);
	flow_charge(*f, 0, 100);
	tag(c, 0, *f, 0, 100);
	place = flow_local_of(&c->queue[0], 7);
	KUNIT_ASSERT_EQ(test, place->tag, 300);
	KUNIT_ASSERT_EQ(test, place->paid_vt, 100);
	KUNIT_ASSERT_EQ(test, (*f)->finish, 400);
	flow_charge(*f, 0, 600);
	return place;
}

/* What is paid counts for the next request, as long as the flow is ahead. */
static void late_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow_local *place;
	struct flow *f;

	place = paid(test, &f);
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 700, 50), 700);
	KUNIT_EXPECT_EQ(test, f->finish, 1000);
	/* 50 are paid: the request begins as much before the finish tag. */
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 700, 80), 950);
	KUNIT_EXPECT_EQ(test, f->finish - place->paid_vt, 1030);
}

/* But no request starts before virtual time. */
static void not_early_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f;

	paid(test, &f);
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 950, 120), 950);
	KUNIT_EXPECT_EQ(test, f->finish - flow_local_of(&c->queue[0], 7)->paid_vt, 1020);
}

/* The flow is not ahead: a request of @cost_vt is charged in full. */
static void expect_void(struct kunit *test, u64 cost_vt)
{
	struct context *c = test->priv;
	struct flow_local *place;
	struct flow *f;

	place = paid(test, &f);
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 2000, cost_vt), 2000);
	KUNIT_EXPECT_EQ(test, f->finish - place->paid_vt, 2000 + cost_vt);
}

static void void_test(struct kunit *test)
{
	expect_void(test, 100);
}

/* Nor does it count for a part of a request. */
static void void_part_test(struct kunit *test)
{
	expect_void(test, 150);
}

/* The queue has paid for something, and its place has ended. */
static struct flow *paid_back(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f;

	paid(test, &f);
	flow_local_end(flow_local_of(&c->queue[0], f->key));
	flow_locals_fold(&c->queue[0]);
	return f;
}

/* A place that ends leaves what it has paid to the next one that pays, once. */
static void pay_back_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = paid_back(test);

	KUNIT_EXPECT_EQ(test, atomic64_read(&f->paid_back), 100);
	KUNIT_ASSERT_PTR_EQ(test, get(c, 1, 7), f);
	get(c, 0, 7);
	KUNIT_EXPECT_EQ(test, tag(c, 1, f, 500, 60), 500);
	KUNIT_EXPECT_EQ(test, tag(c, 0, f, 500, 60), 1000);
	KUNIT_EXPECT_EQ(test, tag(c, 1, f, 500, 40), 560);
	KUNIT_EXPECT_EQ(test, f->finish, 1060);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->paid_back), 0);
}

/* A flow that is not ahead has no use for that, either. */
static void void_back_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow *f = paid_back(test);

	get(c, 1, 7);
	KUNIT_EXPECT_EQ(test, tag(c, 1, f, 2000, 60), 2000);
	KUNIT_EXPECT_EQ(test, tag(c, 1, f, 2000, 60), 2060);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->paid_back), 0);
}

/* Weights change: what is paid is for as many bytes as before. */
static void rescale_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct flow_local *place;
	struct flow *changed, *f;

	place = paid(test, &f);
	atomic64_set(&f->paid_back, 30);
	flow_set_weight(&c->t, 7, FLOW_WEIGHT_DEFAULT / 2);
	changed = flow_table_update(&c->t, 200);
	flow_locals_rescale(&c->queue[0]);
	flow_table_updated(changed);
	KUNIT_EXPECT_EQ(test, f->finish, 200 + 2 * 800);
	KUNIT_EXPECT_EQ(test, place->tag, 200 + 2 * 100);
	KUNIT_EXPECT_EQ(test, place->paid_vt, 200);
	KUNIT_EXPECT_EQ(test, atomic64_read(&f->paid_back), 60);
	/* No other change is this flow's. */
	flow_locals_rescale(&c->queue[0]);
	KUNIT_EXPECT_EQ(test, place->paid_vt, 200);
}

/* ---- against a twin that counts each flow's requests ---- */

struct twin {
	struct flow *flow;
	unsigned int nr[NR_QUEUES], nr_direct;
	u64 bytes;
};

static void begin(struct context *c, struct twin *twin, unsigned int queue, u64 key)
{
	twin->flow = get(c, queue, key);
	if (flow_is_local(flow_local_of(&c->queue[queue], twin->flow->key), twin->flow))
		twin->nr[queue]++;
	else
		twin->nr_direct++;
}

static void end(struct context *c, struct twin *twin, unsigned int queue)
{
	if (twin->nr[queue]) {
		twin->bytes += 512;
		flow_local_serve(flow_local_of(&c->queue[queue], twin->flow->key), 512);
		flow_local_end(flow_local_of(&c->queue[queue], twin->flow->key));
		twin->nr[queue]--;
	} else if (twin->nr_direct) {
		flow_put(twin->flow);
		twin->nr_direct--;
	}
}

static void check(struct kunit *test, struct context *c, struct twin *twin)
{
	unsigned int queue, nr = 0;

	for (queue = 0; queue < NR_QUEUES; queue++) {
		nr += !!twin->nr[queue];
		KUNIT_ASSERT_EQ(test, flow_local_nr(&c->queue[queue], twin->flow), twin->nr[queue]);
	}
	KUNIT_ASSERT_EQ(test, flow_nr_direct(twin->flow), twin->nr_direct);
	KUNIT_ASSERT_GE(test, atomic_read(&twin->flow->refs), nr + twin->nr_direct);
}

static void twin_test(struct kunit *test)
{
	struct context *c = test->priv;
	struct twin *twin = kunit_kzalloc(test, NR_KEYS * sizeof(*twin), GFP_KERNEL);
	u32 random = 1;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, twin);
	for (i = 0; i < STEPS; i++) {
		unsigned int key, queue;

		random = random * 1664525 + 1013904223;
		key = (random >> 8) % NR_KEYS;
		queue = (random >> 16) % NR_QUEUES;
		if ((random >> 24) % 4 == 0)
			flow_locals_fold(&c->queue[queue]);
		else if (random >> 31)
			begin(c, &twin[key], queue, key + 1);
		else if (twin[key].flow)
			end(c, &twin[key], queue);
		if (twin[key].flow)
			check(test, c, &twin[key]);
	}
	for (i = 0; i < NR_KEYS; i++) {
		unsigned int queue;

		for (queue = 0; queue < NR_QUEUES; queue++)
			while (twin[i].nr[queue] || twin[i].nr_direct)
				end(c, &twin[i], queue);
	}
	for (i = 0; i < NR_QUEUES; i++) {
		flow_locals_fold(&c->queue[i]);
		KUNIT_EXPECT_EQ(test, c->queue[i].used, 0);
	}
	for (i = 0; i < NR_KEYS; i++) {
		KUNIT_EXPECT_EQ(test, atomic_read(&twin[i].flow->refs), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&twin[i].flow->nr_places), 0);
		KUNIT_EXPECT_EQ(test, atomic64_read(&twin[i].flow->service_bytes), twin[i].bytes);
	}
}

static struct kunit_case flow_local_test_cases[] = {
	KUNIT_CASE(place_test),
	KUNIT_CASE(other_test),
	KUNIT_CASE(alone_test),
	KUNIT_CASE(advance_test),
	KUNIT_CASE(most_test),
	KUNIT_CASE(late_test),
	KUNIT_CASE(not_early_test),
	KUNIT_CASE(void_test),
	KUNIT_CASE(void_part_test),
	KUNIT_CASE(pay_back_test),
	KUNIT_CASE(void_back_test),
	KUNIT_CASE(rescale_test),
	KUNIT_CASE(twin_test),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	{}
};

static struct kunit_suite flow_local_test_suite = {
	.name = "flow_local",
	.init = flow_local_test_init,
	.exit = flow_local_test_exit,
	.test_cases = flow_local_test_cases,
};

kunit_test_suite(flow_local_test_suite);

MODULE_LICENSE("GPL");
