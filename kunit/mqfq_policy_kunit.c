// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_policy_kunit.c - mq-mqfq's policy: order, the window, slots, and which queue is woken
 *
 * Small tables say what is meant, one thing at a time. Then the simulation, which knows the rules
 * as a whole, runs for a few hundred thousand requests; kunit/hosted/stress/mqfq_theorems runs it
 * for millions. Tags are written relative to a virtual time shortly before 2^64, so that they wrap.
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../mq-mqfq/mqfq_permit.c"
#include "../mq-mqfq/mqfq_policy.c"
#include "../mq-mqfq/mqfq_rescale.c"
#include "../mq-mqfq/mqfq_rt.c"
#include "../mq-mqfq/mqfq_slots.c"
#include "../mq-mqfq/mqfq_stuck.c"
#include "sim/sim.h"

enum {
	NR_QUEUES	= 8,
	NR_FLOWS	= 3,
	NR_ENTRIES	= 128,
	WIDE		= 1 << 30,	/* a T that is never exceeded */
	MANY		= 1000,		/* a D that is never exceeded */
	NOTHING		= '-',
};

/* Virtual time zero of the tables. Tag 154 is VT_NONE, which no entry may have. */
#define BASE_VT		((u64)0 - 155)

struct context {
	struct mqfq_policy policy;
	bool made;
	struct simulation *simulation;
	struct flow flow[NR_FLOWS];
	struct mqfq_entry entry[NR_ENTRIES];
	unsigned int nr_entries;
	u32 woken;		/* queues that were asked to run, a mask */
};

static struct context *context(struct kunit *test)
{
	return test->priv;
}

static void ask_to_run(void *priv, unsigned int number, enum mqfq_state was)
{
	struct context *c = priv;

	(void)was;
	c->woken |= 1U << number;
}

static u64 now_ns;

static u64 clock_ns(void)
{
	return now_ns;
}

static const struct mqfq_policy_ops ops = {
	.run		= ask_to_run,
	.clock_ns	= clock_ns,
};

static int mqfq_policy_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	for (i = 0; i < NR_FLOWS; i++) {
		c->flow[i].number = i + 1;
		c->flow[i].finish = BASE_VT;
	}
	return 0;
}

static void mqfq_policy_test_exit(struct kunit *test)
{
	struct context *c = context(test);

	if (c && c->made)
		mqfq_policy_destroy(&c->policy);
	if (c && c->simulation)
		sim_free(c->simulation);
}

/* Queues 0 and 1 share a core, 0 to 3 a cache. The wheel wakes no queue early within 1000 units. */
static void make_up(struct kunit *test, unsigned int nr_queues, u64 throttle_vt, unsigned int slots)
{
	const struct mqfq_config config = { throttle_vt, slots, { 4, 6 } };
	struct topology_place place[NR_QUEUES] = {};
	struct context *c = context(test);
	unsigned int i;

	for (i = 0; i < nr_queues; i++) {
		place[i].id[TOPOLOGY_CORE] = i / 2;
		place[i].id[TOPOLOGY_CACHE] = i / 4;
	}
	KUNIT_ASSERT_EQ(test, mqfq_policy_init(&c->policy, place, nr_queues, BASE_VT, &config, &ops,
					       c, GFP_KERNEL), 0);
	c->made = true;
}

static struct mqfq_queue *queue(struct kunit *test, unsigned int number)
{
	return &context(test)->policy.queue[number];
}

/* Queues the next entry; the first is a, the second b. */
static void put_of(struct kunit *test, unsigned int flow, unsigned int number, s64 tag)
{
	struct context *c = context(test);
	struct mqfq_entry *e = &c->entry[c->nr_entries++];
	struct mqfq_queue *q = queue(test, number);

	KUNIT_ASSERT_LE(test, c->nr_entries, (unsigned int)NR_ENTRIES);
	e->flow = (unsigned long)&c->flow[flow];
	spin_lock(&q->lock);
	mqfq_insert(q, e, BASE_VT + tag);
	spin_unlock(&q->lock);
}

static void put(struct kunit *test, unsigned int number, s64 tag)
{
	put_of(test, 0, number, tag);
}

/* What a run of the queue gets first: a letter, or NOTHING. */
static int take(struct kunit *test, unsigned int number)
{
	struct context *c = context(test);
	struct mqfq_queue *q = queue(test, number);
	struct mqfq_entry *e;

	c->woken &= ~(1U << number);
	spin_lock(&q->lock);
	e = mqfq_take(q);
	spin_unlock(&q->lock);
	return e ? 'a' + (int)(e - c->entry) : NOTHING;
}

static unsigned int take_all(struct kunit *test, unsigned int number)
{
	unsigned int n;

	for (n = 0; take(test, number) != NOTHING; n++)
		;
	return n;
}

static s64 vt(struct kunit *test)
{
	return mqfq_vt(&context(test)->policy) - BASE_VT;
}

/* Queue 0 of two is the slowest: an entry of the flow with tag 100, b, holds virtual time. */
static void begin_at_100(struct kunit *test, unsigned int flow, u64 throttle_vt)
{
	make_up(test, 2, throttle_vt, MANY);
	put_of(test, flow, 0, 0);
	put_of(test, flow, 0, 100);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
}

static u32 woken(struct kunit *test)
{
	u32 mask = context(test)->woken;

	context(test)->woken = 0;
	return mask;
}

static int state(struct kunit *test, unsigned int number)
{
	return atomic_read(&queue(test, number)->state);
}

/* ---- order within a queue ---- */

struct order_param {
	const char *name;
	s64 tags[8];		/* of a, b, c...; the end is -1 */
	const char *expected;
};

static const struct order_param order_params[] = {
	{ "nothing",			{ -1 }, "" },
	{ "one",			{ 7, -1 }, "a" },
	{ "in order",			{ 1, 2, 3, -1 }, "abc" },
	{ "backwards",			{ 3, 2, 1, -1 }, "cba" },
	{ "equal tags: first in first out", { 5, 5, 5, 5, -1 }, "abcd" },
	{ "equal ones among others",	{ 5, 9, 5, 0, 5, -1 }, "daceb" },
	{ "over the end of 64 bits",	{ 160, 140, 200, 149, 150, 0, -1 }, "fbdeac" },
	{ "far apart",			{ 1LL << 62, 0, 1LL << 40, -1 }, "bca" },
};

KUNIT_ARRAY_PARAM_DESC(order, order_params, name);

static void order_test(struct kunit *test)
{
	const struct order_param *param = test->param_value;
	const char *expected;
	unsigned int i;

	make_up(test, 1, 1ULL << 62, MANY);
	for (i = 0; param->tags[i] >= 0; i++)
		put(test, 0, param->tags[i]);
	KUNIT_EXPECT_EQ(test, mqfq_has_work(queue(test, 0)), i > 0);
	for (expected = param->expected; *expected; expected++)
		KUNIT_EXPECT_EQ(test, take(test, 0), *expected);
	KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	KUNIT_EXPECT_EQ(test, state(test, 0), MQFQ_RUNNABLE);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 0)));
	KUNIT_EXPECT_EQ(test, queue(test, 0)->inserted, i);
	KUNIT_EXPECT_EQ(test, queue(test, 0)->taken, i);
}

/* ---- the window ---- */

struct window_param {
	const char *name;
	u64 throttle_vt;
	s64 slowest, tag;
	bool goes;
};

static const struct window_param window_params[] = {
	{ "T of 0, equal",		0, 100, 100, true },
	{ "T of 0, one ahead",		0, 100, 101, false },
	{ "T of 0, behind",		0, 100, 99, true },
	{ "at the edge",		40, 100, 140, true },
	{ "over the edge",		40, 100, 141, false },
	{ "at the edge, which wraps",	80, 100, 180, true },
	{ "over the edge, which wraps",	80, 100, 181, false },
	{ "both have wrapped",		10, 200, 211, false },
	{ "wide",			1ULL << 40, 100, (1LL << 40) + 100, true },
	{ "not wide enough",		1ULL << 40, 100, (1LL << 40) + 101, false },
};

KUNIT_ARRAY_PARAM_DESC(window, window_params, name);

/* Queue 0 is the slowest and holds virtual time; may queue 1 go? */
static void window_test(struct kunit *test)
{
	const struct window_param *param = test->param_value;

	make_up(test, 2, param->throttle_vt, MANY);
	put(test, 0, 0);
	put(test, 0, param->slowest);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	KUNIT_ASSERT_EQ(test, vt(test), param->slowest);

	put(test, 1, param->tag);
	KUNIT_EXPECT_EQ(test, take(test, 1), param->goes ? 'c' : NOTHING);
	KUNIT_EXPECT_EQ(test, vt(test), param->slowest);
	if (param->goes)
		return;
	KUNIT_EXPECT_EQ(test, state(test, 1), MQFQ_THROTTLED);
	KUNIT_EXPECT_EQ(test, queue(test, 1)->throttles, 1);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 1)));

	/* When the slowest has gone the other is the slowest: it is woken and goes. */
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	KUNIT_EXPECT_EQ(test, vt(test), param->tag);
	KUNIT_EXPECT_EQ(test, take(test, 1), 'c');
}

/* A flow that is alone is not ahead, however far the next tag is. */
static void alone_test(struct kunit *test)
{
	make_up(test, 2, 0, MANY);
	put(test, 0, 10);
	put(test, 0, 1 << 20);
	put(test, 0, 1 << 30);
	KUNIT_EXPECT_EQ(test, take_all(test, 0), 3U);
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
	/* A flow without a waiting request does not hold virtual time back, nor push it. */
	KUNIT_EXPECT_EQ(test, vt(test), 1 << 30);
}

struct wake_param {
	const char *name;
	s64 slowest;		/* T is 50; queue 1 waits for 300 - 50 */
	bool wakes;
};

static const struct wake_param wake_params[] = {
	{ "nearly",	249, false },
	{ "just",	250, true },
	{ "past",	251, true },
	{ "far past",	4000, true },
};

KUNIT_ARRAY_PARAM_DESC(wake, wake_params, name);

/* Woken when its tag is T ahead, and not before. */
static void wake_test(struct kunit *test)
{
	const struct wake_param *param = test->param_value;

	make_up(test, 2, 50, MANY);
	put(test, 0, 0);
	put(test, 0, 100);
	put(test, 0, param->slowest);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	put(test, 1, 300);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, woken(test), param->wakes ? 2U : 0U);
	KUNIT_EXPECT_EQ(test, mqfq_has_work(queue(test, 1)), param->wakes);
	KUNIT_EXPECT_EQ(test, take(test, 1), param->wakes ? 'd' : NOTHING);
}

/* An earlier tag than what a queue waits with ends its wait, if it may go; a later one does not. */
static void earlier_entry_test(struct kunit *test)
{
	begin_at_100(test, 0, 50);
	put(test, 1, 300);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);

	put(test, 1, 301);
	KUNIT_EXPECT_EQ(test, state(test, 1), MQFQ_THROTTLED);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 1)));
	put(test, 1, 200);
	KUNIT_EXPECT_EQ(test, state(test, 1), MQFQ_THROTTLED);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 1)));
	put(test, 1, 150);
	KUNIT_EXPECT_EQ(test, state(test, 1), MQFQ_ARMED);
	KUNIT_EXPECT_TRUE(test, mqfq_has_work(queue(test, 1)));
	KUNIT_EXPECT_EQ(test, take(test, 1), 'f');
	KUNIT_EXPECT_EQ(test, take(test, 1), NOTHING);

	/* The earlier one that came second is what it waits for: 200 - 50. */
	put(test, 0, 149);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
	put(test, 0, 170);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'g');
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
}

/* Throttled time of a queue counts for the flow of the entry that waited. */
static void throttled_time_test(struct kunit *test)
{
	struct context *c = context(test);

	begin_at_100(test, 0, 50);
	now_ns = 1000;
	put_of(test, 1, 1, 300);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	now_ns = 1300;
	KUNIT_ASSERT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, take(test, 1), 'c');
	KUNIT_EXPECT_EQ(test, atomic64_read(&c->flow[1].throttled_ns), 300);
	KUNIT_EXPECT_EQ(test, atomic64_read(&c->flow[0].throttled_ns), 0);
}

/* A leaf may lag by a quarter of T, and no more. */
static void lazy_test(struct kunit *test)
{
	make_up(test, 2, 40, MANY);
	put(test, 0, 0);
	put(test, 0, 100);
	put(test, 0, 110);
	put(test, 0, 111);
	put(test, 0, 112);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	KUNIT_EXPECT_EQ(test, vt(test), 100);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, vt(test), 100);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'c');
	KUNIT_EXPECT_EQ(test, vt(test), 111);
}

/* ---- slots ---- */

struct slots_param {
	const char *name;
	unsigned int slots, nr_queues;
};

static const struct slots_param slots_params[] = {
	{ "1, one queue",		1, 1 },
	{ "1, eight queues",		1, 8 },
	{ "2, eight queues",		2, 8 },
	{ "7, three queues",		7, 3 },
	{ "16, eight queues",		16, 8 },
	{ "63, eight queues",		63, 8 },
	{ "more than there are",	MANY, 8 },
};

KUNIT_ARRAY_PARAM_DESC(slots, slots_params, name);

/* Exactly D entries go; then one for each release, in the queue that it wakes. */
static void slots_test(struct kunit *test)
{
	const struct slots_param *param = test->param_value;
	unsigned int n = min_t(unsigned int, param->slots, 64), i, sent = 0, from = 0;
	struct context *c = context(test);

	make_up(test, param->nr_queues, WIDE, param->slots);
	for (i = 0; i < 64; i++)
		put(test, i % param->nr_queues, 0);
	for (i = 0; i < param->nr_queues; i++)
		sent += take_all(test, i);
	KUNIT_ASSERT_EQ(test, sent, n);
	KUNIT_ASSERT_EQ(test, token_tree_nr_free(&c->policy.tokens), (int)(param->slots - sent));

	for (; sent < 64; sent++) {
		/* Queues that have sent something give it back, in turn. */
		while (!queue(test, from)->taken)
			from = (from + 1) % param->nr_queues;
		KUNIT_ASSERT_EQ(test, woken(test), 0U);
		mqfq_release(queue(test, from));
		KUNIT_ASSERT_EQ(test, hweight32(c->woken), 1U);
		i = __ffs(c->woken);
		KUNIT_ASSERT_NE(test, take(test, i), NOTHING);
		KUNIT_ASSERT_EQ(test, take_all(test, i), 0U);
		from = (from + 1) % param->nr_queues;
	}
	for (i = 0; i < n; i++)
		mqfq_release(queue(test, from));
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&c->policy.tokens), (int)param->slots);
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
}

struct nearest_param {
	const char *name;
	u32 waiting;
	unsigned int released;
	u32 woken;
	enum topology_level distance;
};

static const struct nearest_param nearest_params[] = {
	{ "no queue waits",		0x00, 2, 0x00, TOPOLOGY_SELF },
	{ "itself first",		0xff, 2, 0x04, TOPOLOGY_SELF },
	{ "the core",			0xfb, 2, 0x08, TOPOLOGY_CORE },
	{ "the core, downwards",	0xf7, 3, 0x04, TOPOLOGY_CORE },
	{ "the cache",			0xf3, 2, 0x01, TOPOLOGY_CACHE },
	{ "the cache, upwards",		0xfc, 0, 0x04, TOPOLOGY_CACHE },
	{ "the socket",		0xf0, 2, 0x10, TOPOLOGY_SOCKET },
	{ "the socket, downwards",	0x0f, 6, 0x01, TOPOLOGY_SOCKET },
	{ "the last one",		0x80, 0, 0x80, TOPOLOGY_SOCKET },
};

KUNIT_ARRAY_PARAM_DESC(nearest, nearest_params, name);

static void nearest_test(struct kunit *test)
{
	const struct nearest_param *param = test->param_value;
	unsigned int i;

	make_up(test, NR_QUEUES, WIDE, 1);
	put(test, param->released, 0);
	KUNIT_ASSERT_EQ(test, take(test, param->released), 'a');
	for (i = 0; i < NR_QUEUES; i++)
		if (param->waiting & 1U << i) {
			put(test, i, 0);
			KUNIT_ASSERT_EQ(test, take(test, i), NOTHING);
			KUNIT_ASSERT_EQ(test, state(test, i), MQFQ_READY);
			KUNIT_ASSERT_EQ(test, atomic64_read(&queue(test, i)->slot_waits), 1);
		}
	mqfq_release(queue(test, param->released));
	KUNIT_EXPECT_EQ(test, woken(test), param->woken);
	for (i = 0; i < NR_QUEUES; i++)
		KUNIT_EXPECT_EQ(test, state(test, i) == MQFQ_READY,
				(param->waiting & ~param->woken) >> i & 1);
	i = __ffs(param->woken | 1U << (NR_QUEUES - 1));
	KUNIT_EXPECT_EQ(test, atomic64_read(&queue(test, i)->nr_woken[param->distance]),
			param->woken != 0);
}

/* A queue that has a slot in hand uses it, also if T has become less; then it is throttled. */
static void granted_test(struct kunit *test)
{
	make_up(test, 4, 100, 1);
	put(test, 3, 0);
	KUNIT_ASSERT_EQ(test, take(test, 3), 'a');
	put(test, 0, 0);
	KUNIT_ASSERT_EQ(test, state(test, 0), MQFQ_READY);
	put(test, 2, 50);
	put(test, 2, 60);
	KUNIT_ASSERT_EQ(test, state(test, 2), MQFQ_READY);

	/* Queue 2 is the nearest. */
	mqfq_release(queue(test, 3));
	KUNIT_ASSERT_EQ(test, woken(test), 1U << 2);
	KUNIT_ASSERT_EQ(test, state(test, 2), MQFQ_ARMED);
	mqfq_set_throttle(&context(test)->policy, 10);
	KUNIT_EXPECT_EQ(test, take(test, 2), 'c');
	KUNIT_EXPECT_EQ(test, state(test, 2), MQFQ_THROTTLED);
	mqfq_release(queue(test, 2));
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 0);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
}

/* What waits for a slot holds virtual time; an earlier entry that comes does so at once. */
static void ready_test(struct kunit *test)
{
	make_up(test, 3, WIDE, 1);
	put(test, 0, 0);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	put(test, 1, 120);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	KUNIT_EXPECT_EQ(test, vt(test), 120);
	put(test, 1, 110);
	put(test, 1, 115);
	KUNIT_EXPECT_EQ(test, mindicator_leaf(&context(test)->policy.vt, queue(test, 1)->leaf),
			BASE_VT + 110);
	KUNIT_EXPECT_EQ(test, vt(test), 120);
	KUNIT_EXPECT_EQ(test, state(test, 1), MQFQ_READY);
}

/* ---- changes ---- */

static void more_slots_test(struct kunit *test)
{
	struct mqfq_policy *p = &context(test)->policy;
	unsigned int i, sent = 0;

	make_up(test, 4, WIDE, 2);
	for (i = 0; i < 12; i++)
		put(test, i % 4, 0);
	for (i = 0; i < 4; i++)
		sent += take_all(test, i);
	KUNIT_ASSERT_EQ(test, sent, 2U);
	mqfq_set_slots(p, 7);
	KUNIT_EXPECT_EQ(test, woken(test), 0xfU);
	for (i = 0; i < 4; i++)
		sent += take_all(test, i);
	KUNIT_EXPECT_EQ(test, sent, 7U);

	/* Less: nothing goes until fewer are in flight. */
	mqfq_set_slots(p, 3);
	context(test)->woken = 0;
	for (i = 0; i < 4; i++) {
		mqfq_release(queue(test, 0));
		sent += take_all(test, 0) + take_all(test, 1);
		sent += take_all(test, 2) + take_all(test, 3);
		KUNIT_EXPECT_EQ(test, sent, 7U);
	}
	mqfq_release(queue(test, 0));
	for (i = 0; i < 4; i++)
		sent += take_all(test, i);
	KUNIT_EXPECT_EQ(test, sent, 8U);
}

static void throttle_change_test(struct kunit *test)
{
	struct mqfq_policy *p = &context(test)->policy;

	make_up(test, 3, 50, MANY);
	put(test, 0, 0);
	put(test, 0, 100);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	put(test, 1, 160);
	put_of(test, 1, 2, 200);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	KUNIT_ASSERT_EQ(test, take(test, 2), NOTHING);

	mqfq_set_wheel(p, (struct vt_wheel_geometry) { 20, 1 });
	KUNIT_EXPECT_EQ(test, woken(test), 6U);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	KUNIT_ASSERT_EQ(test, take(test, 2), NOTHING);

	mqfq_set_throttle(p, 60);
	KUNIT_EXPECT_EQ(test, woken(test), 6U);
	KUNIT_EXPECT_EQ(test, take(test, 1), 'c');
	KUNIT_EXPECT_EQ(test, take(test, 2), NOTHING);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
	KUNIT_EXPECT_EQ(test, woken(test), 4U);
	KUNIT_EXPECT_EQ(test, take(test, 2), 'd');
}

struct rescale_param {
	const char *name;
	u32 old_weight, new_weight;
	s64 tags[4], expected[4];	/* of flow 0, in queues 0, 1, 0, 1 */
	s64 finish, expected_finish;
	const char *order;		/* queue 0: a and c are flow 0's, x is 140, y is 250 */
};

/* Virtual time is 100. */
static const struct rescale_param rescale_params[] = {
	{ "twice the weight", 100, 200, { 120, 130, 220, 300 }, { 110, 115, 160, 200 }, 400, 250,
	  "axcy" },
	{ "half", 200, 100, { 120, 130, 220, 300 }, { 140, 160, 340, 500 }, 400, 700, "axyc" },
	{ "a hundredth", 10000, 100, { 101, 102, 103, 104 }, { 200, 300, 400, 500 }, 105, 600,
	  "xayc" },
	{ "rounded down", 100, 300, { 101, 104, 102, 105 }, { 100, 101, 100, 101 }, 109, 103,
	  "acxy" },
	{ "shrinks past others", 1, 10000, { 240, 250, 260, 270 }, { 100, 100, 100, 100 }, 280, 100,
	  "acxy" },
	{ "at virtual time", 100, 50, { 100, 100, 101, 101 }, { 100, 100, 102, 102 }, 102, 104,
	  "acxy" },
};

KUNIT_ARRAY_PARAM_DESC(rescale, rescale_params, name);

/* The flow has another weight, and what it has waiting follows. */
static void reweigh(struct kunit *test, unsigned int flow, u32 old_weight, u32 new_weight)
{
	struct context *c = context(test);
	struct flow *f = &c->flow[flow];

	f->effective_weight = flow_flat_weight(old_weight);
	f->change = flow_reweigh(f, flow_flat_weight(new_weight), mqfq_vt(&c->policy));
	f->is_changing = true;
	mqfq_rescale(&c->policy, f);
	f->is_changing = false;
}

/* What is ahead of virtual time comes nearer, or goes further, and the order follows. */
static void rescale_test(struct kunit *test)
{
	const struct rescale_param *param = test->param_value;
	struct context *c = context(test);
	char order[8] = "";
	unsigned int i;

	make_up(test, 3, WIDE, MANY);
	put_of(test, 1, 2, 0);
	put_of(test, 1, 2, 100);
	KUNIT_ASSERT_EQ(test, take(test, 2), 'a');
	KUNIT_ASSERT_EQ(test, vt(test), 100);
	for (i = 0; i < 4; i++)
		put_of(test, 0, i % 2, param->tags[i]);
	put_of(test, 1, 0, 140);
	put_of(test, 1, 0, 250);
	c->flow[0].finish = BASE_VT + param->finish;

	reweigh(test, 0, param->old_weight, param->new_weight);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, (s64)(c->entry[2 + i].start - BASE_VT), param->expected[i]);
	KUNIT_EXPECT_EQ(test, (s64)(c->flow[0].finish - BASE_VT), param->expected_finish);
	KUNIT_EXPECT_EQ(test, c->entry[6].start, BASE_VT + 140);
	for (i = 0; i < 4; i++)
		order[i] = "..a.c.xy"[take(test, 0) - 'a'];
	KUNIT_EXPECT_STREQ(test, order, param->order);
}

/* A throttled queue whose tags come nearer is asked again. */
static void rescale_wakes_test(struct kunit *test)
{
	begin_at_100(test, 1, 50);
	put_of(test, 0, 1, 200);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	reweigh(test, 0, 100, 200);
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	KUNIT_EXPECT_EQ(test, take(test, 1), 'c');
}

/* A queue with a slot in hand, whose tag goes too far ahead: it gives the slot back, and waits. */
static void rescale_armed_test(struct kunit *test)
{
	begin_at_100(test, 1, 50);
	put_of(test, 0, 1, 140);
	KUNIT_ASSERT_EQ(test, state(test, 1), MQFQ_ARMED);
	context(test)->flow[0].finish = BASE_VT + 150;
	reweigh(test, 0, 200, 100);
	KUNIT_EXPECT_EQ(test, take(test, 1), NOTHING);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&context(test)->policy.tokens), MANY - 2);
}

/* Two entries of a flow with the tag of now, as requeues have: none is met again and again. */
static void rescale_equal_test(struct kunit *test)
{
	make_up(test, 1, 0, 1);
	put(test, 0, 0);
	put(test, 0, 0);
	put(test, 0, 0);
	reweigh(test, 0, 100, 200);
	KUNIT_EXPECT_EQ(test, take(test, 0), 'a');
	reweigh(test, 0, 200, 100);
	mqfq_release(queue(test, 0));
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
}

/* Virtual time moves on while queues are looked at in turn: no tag goes behind it. */
static void rescale_advance_test(struct kunit *test)
{
	static const s64 tags[] = { 0, 100, 120 };
	struct context *c = context(test);
	unsigned int i;

	make_up(test, 2, 80, 1);
	/* Queue 0 shows 100 and waits with 120; queue 1 waits with 140. */
	for (i = 0; i < 3; i++)
		put_of(test, 1, 0, tags[i]);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	KUNIT_ASSERT_EQ(test, take(test, 0), NOTHING);
	put_of(test, 0, 1, 140);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	mqfq_release(queue(test, 0));
	KUNIT_ASSERT_EQ(test, take(test, 0), 'b');
	KUNIT_ASSERT_EQ(test, take(test, 0), NOTHING);
	KUNIT_ASSERT_EQ(test, vt(test), 100);
	/* To 104, but queue 0 has told its 120 by then. */
	reweigh(test, 0, 100, 1000);
	KUNIT_EXPECT_GE(test, (s64)(c->entry[3].start - BASE_VT), vt(test));
}

/*
 * A request comes when the weight is another already and its queue has not been looked at: it has
 * its tag, and keeps it.
 */
static void rescale_late_test(struct kunit *test)
{
	struct context *c = context(test);
	struct flow *f = &c->flow[0];
	u64 start;

	make_up(test, 1, WIDE, MANY);
	put_of(test, 0, 0, 100);
	f->effective_weight = flow_flat_weight(1000);
	f->finish = BASE_VT + 200;
	f->change = flow_reweigh(f, flow_flat_weight(10), BASE_VT);
	f->is_changing = true;
	KUNIT_ASSERT_EQ(test, f->finish, BASE_VT + 20000);
	start = flow_tag(f, BASE_VT, 100);
	put_of(test, 0, 0, start - BASE_VT);
	mqfq_rescale(&c->policy, f);
	KUNIT_EXPECT_EQ(test, c->entry[0].start, BASE_VT + 10000);
	KUNIT_EXPECT_EQ(test, c->entry[1].start, BASE_VT + 20000);
}

/* ---- what the owner does ---- */

/* Per flow and queue, how much waits; how many flows. */
static void counters_test(struct kunit *test)
{
	struct flow *flow = context(test)->flow;
	struct mqfq_queue *q;

	make_up(test, 2, WIDE, MANY);
	q = queue(test, 1);
	put_of(test, 0, 1, 1);
	put_of(test, 0, 1, 2);
	put_of(test, 1, 1, 3);
	KUNIT_EXPECT_EQ(test, mqfq_nr_queued(q, &flow[0]), 2U);
	KUNIT_EXPECT_EQ(test, mqfq_nr_queued(q, &flow[1]), 1U);
	KUNIT_EXPECT_EQ(test, mqfq_nr_queued(q, &flow[2]), 0U);
	KUNIT_EXPECT_EQ(test, q->nr_flows, 2U);
	KUNIT_EXPECT_EQ(test, q->nr, 3U);
	take(test, 1);
	take(test, 1);
	KUNIT_EXPECT_EQ(test, mqfq_nr_queued(q, &flow[0]), 0U);
	KUNIT_EXPECT_EQ(test, q->nr_flows, 1U);
	take(test, 1);
	KUNIT_EXPECT_EQ(test, q->nr_flows, 0U);
	KUNIT_EXPECT_EQ(test, q->nr, 0U);
}

/*
 * Why theorem 1 is not true word by word: see sim/sim.h. If this fails, virtual time has
 * been given another meaning, and that file can claim more.
 */
static void theorem_1_test(struct kunit *test)
{
	const u64 cost = 1000;
	struct flow *f = &context(test)->flow[0], *m = &context(test)->flow[1];

	make_up(test, 2, 0, 1);
	put_of(test, 0, 0, flow_tag(f, BASE_VT, cost) - BASE_VT);
	KUNIT_ASSERT_EQ(test, take(test, 0), 'a');
	put_of(test, 0, 0, flow_tag(f, BASE_VT, cost) - BASE_VT);
	KUNIT_ASSERT_EQ(test, take(test, 0), NOTHING);
	KUNIT_ASSERT_EQ(test, vt(test), (s64)cost);

	/* m is backlogged from here on, and has cost 1. */
	put_of(test, 1, 1, flow_tag(m, mqfq_vt(&context(test)->policy), 1) - BASE_VT);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	/* f has a completion, twice, before m is sent anything: 2 L_f, and T is 0. */
	mqfq_release(queue(test, 0));
	KUNIT_EXPECT_EQ(test, take(test, 0), 'b');
	mqfq_release(queue(test, 0));
	KUNIT_EXPECT_EQ(test, take(test, 1), 'c');
}

#ifndef __KERNEL__
/* Memory that is missing, at each of the allocations: all that was had is given back. */
static void no_memory_test(struct kunit *test)
{
	const struct mqfq_config config = { 10, 2, { 4, 3 } };
	struct context *c = context(test);
	struct topology_place place = {};
	unsigned int nth, failed = 0;
	int ret;

	for (nth = 1; ; nth++, failed++) {
		hosted_fail_at = nth;
		ret = mqfq_policy_init(&c->policy, &place, 1, 0, &config, &ops, c, GFP_KERNEL);
		if (!ret)
			break;
		KUNIT_ASSERT_EQ(test, ret, -ENOMEM);
		KUNIT_ASSERT_LT(test, nth, 100U);
	}
	hosted_fail_at = 0;
	c->made = true;
	KUNIT_EXPECT_GE(test, failed, 6U);
}
#endif

static void no_queues_test(struct kunit *test)
{
	const struct mqfq_config config = { 10, 2, { 4, 3 } };
	struct context *c = context(test);

	KUNIT_EXPECT_EQ(test, mqfq_policy_init(&c->policy, NULL, 0, 0, &config, &ops, c,
					       GFP_KERNEL), -EINVAL);
}

/* ---- as a whole ---- */

struct simulation_param {
	const char *name;
	enum sim_kind kind;
	unsigned int nr_mixes, nr_requests;
};

static const struct simulation_param simulation_params[] = {
	{ "theorem 1",	SIM_THEOREM_1,	20,   3000 },
	{ "theorem 2",	SIM_THEOREM_2,	20,   3000 },
	{ "changes",	SIM_CHANGES,	20,   3000 },
	{ "tree",	SIM_TREE,	20,   3000 },
	{ "liveness",	SIM_LIVENESS,	20,   3000 },
	{ "shares",	SIM_SHARES,	 1, 100000 },
	{ "time",	SIM_TIME,	 1, 200000 },
};

KUNIT_ARRAY_PARAM_DESC(simulation, simulation_params, name);

static void simulation_test(struct kunit *test)
{
	const struct simulation_param *param = test->param_value;
	struct context *c = context(test);
	const char *failure;
	unsigned int seed;

	for (seed = 1; seed <= param->nr_mixes; seed++) {
		c->simulation = sim_new(param->kind, seed, param->nr_requests);
		KUNIT_ASSERT_NOT_NULL(test, c->simulation);
		failure = sim_run(c->simulation);
		if (failure)
			KUNIT_FAIL(test, "%s, seed %u, %u requests: %s, at step %llu", param->name,
				   seed, param->nr_requests, failure, c->simulation->failed_at);
		sim_free(c->simulation);
		c->simulation = NULL;
	}
}

static struct kunit_case mqfq_policy_cases[] = {
	KUNIT_CASE_PARAM(order_test, order_gen_params),
	KUNIT_CASE_PARAM(window_test, window_gen_params),
	KUNIT_CASE(alone_test),
	KUNIT_CASE_PARAM(wake_test, wake_gen_params),
	KUNIT_CASE(earlier_entry_test),
	KUNIT_CASE(throttled_time_test),
	KUNIT_CASE(lazy_test),
	KUNIT_CASE_PARAM(slots_test, slots_gen_params),
	KUNIT_CASE_PARAM(nearest_test, nearest_gen_params),
	KUNIT_CASE(granted_test),
	KUNIT_CASE(ready_test),
	KUNIT_CASE(more_slots_test),
	KUNIT_CASE(throttle_change_test),
	KUNIT_CASE_PARAM(rescale_test, rescale_gen_params),
	KUNIT_CASE(rescale_wakes_test),
	KUNIT_CASE(rescale_armed_test),
	KUNIT_CASE(rescale_equal_test),
	KUNIT_CASE(rescale_advance_test),
	KUNIT_CASE(rescale_late_test),
	KUNIT_CASE(counters_test),
	KUNIT_CASE(theorem_1_test),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	KUNIT_CASE(no_queues_test),
	KUNIT_CASE_PARAM(simulation_test, simulation_gen_params),
	{}
};

static struct kunit_suite mqfq_policy_suite = {
	.name = "mqfq_policy",
	.init = mqfq_policy_test_init,
	.exit = mqfq_policy_test_exit,
	.test_cases = mqfq_policy_cases,
};

kunit_test_suite(mqfq_policy_suite);

MODULE_DESCRIPTION("KUnit suites of mqfair");
MODULE_LICENSE("GPL");
