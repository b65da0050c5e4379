// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_slots_kunit.c - mq-mqfq's policy: slots that are kept, that rest, and that are shared out
 *
 * What is meant, one thing at a time; the threads of mqfq_wakeup have the rules as a whole. All
 * tags are 0 and T is wide, unless a test says otherwise.
 */
#include "mqfq_fixture.h"

enum {
	WIDE	= 1 << 20,
	SLOTS	= 8,
	SHARE	= SLOTS / 2,
};

static void put_at(struct kunit *test, unsigned int number, u64 tag)
{
	struct mqfq_queue *q = queue(test, number);
	int id = new_entry(test, number, 0);

	spin_lock(&q->lock);
	mqfq_insert(q, &context(test)->entry[id], tag);
	spin_unlock(&q->lock);
}

static void put(struct kunit *test, unsigned int number, unsigned int n)
{
	for (; n; n--)
		put_at(test, number, 0);
}

static void release(struct kunit *test, unsigned int number, unsigned int n)
{
	for (; n; n--)
		mqfq_release(queue(test, number));
}

static int state(struct kunit *test, unsigned int number)
{
	return atomic_read(&queue(test, number)->state);
}

/* A run of the queue: how many entries go. */
static unsigned int run(struct kunit *test, unsigned int number)
{
	unsigned int n = 0;

	while (mqfq_has_work(queue(test, number)) && take(test, number) != NOTHING)
		n++;
	return n;
}

/* As many entries go as there are slots, and @waiting wait behind them. */
static void fill(struct kunit *test, unsigned int number, unsigned int sent, unsigned int waiting)
{
	put(test, number, sent);
	KUNIT_ASSERT_EQ(test, run(test, number), sent);
	put(test, number, waiting);
}

static int nr_free(struct kunit *test)
{
	return token_tree_nr_free(&context(test)->policy.tokens);
}

/* ---- a slot that rests ---- */

/* All slots are at the device, requests wait, and no request has come back yet. */
static void make_full(struct kunit *test, unsigned int waiting)
{
	make_up(test, WIDE, SLOTS);
	fill(test, 0, SLOTS, waiting);
	KUNIT_ASSERT_EQ(test, run(test, 0), 0U);
	KUNIT_ASSERT_EQ(test, state(test, 0), (int)MQFQ_READY);
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
}

/* The next request that comes takes the slot along. */
static void rests_until_a_request_comes_test(struct kunit *test)
{
	unsigned int i;

	make_full(test, 8);
	for (i = 0; i < 5; i++) {
		release(test, 0, 1);
		KUNIT_ASSERT_EQ(test, state(test, 0), (int)MQFQ_RESTING);
		KUNIT_ASSERT_EQ(test, woken(test), 0U);
		put(test, 0, 1);
		KUNIT_ASSERT_EQ(test, run(test, 0), 1U);
		KUNIT_ASSERT_EQ(test, state(test, 0), (int)MQFQ_READY);
	}
	KUNIT_EXPECT_EQ(test, nr_free(test), 0);
}

/* None comes: the next request that is back has the queue run, and the one after it, too. */
static void rests_until_a_release_test(struct kunit *test)
{
	make_full(test, 8);
	release(test, 0, 1);
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 2U);

	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, state(test, 0), (int)MQFQ_ARMED);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
}

static void rests_until_a_look_test(struct kunit *test)
{
	struct context *c = context(test);

	make_full(test, 8);
	release(test, 0, 1);
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
	mqfq_look(&c->policy, c->now_ns + MQFQ_LOOK_MS * MS);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
}

/* A queue in which a slot has rested for long is run. It is not stopped. */
static void rests_for_long_test(struct kunit *test)
{
	struct context *c = context(test);

	make_full(test, 8);
	mqfq_look(&c->policy, c->now_ns + MQFQ_LOOK_MS * MS);
	release(test, 0, 1);
	mqfq_look(&c->policy, c->now_ns + 4 * MQFQ_LOOK_MS * MS);
	KUNIT_EXPECT_EQ(test, state(test, 0), (int)MQFQ_ARMED);
	KUNIT_EXPECT_FALSE(test, queue(test, 0)->is_away);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
}

/* A slot of another queue comes. */
static void rests_until_a_slot_comes_test(struct kunit *test)
{
	make_up(test, WIDE, SLOTS);
	fill(test, 1, 2, 0);
	fill(test, 0, SLOTS - 2, 8);
	release(test, 0, 1);
	KUNIT_ASSERT_EQ(test, state(test, 0), (int)MQFQ_RESTING);
	release(test, 1, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 2U);
	KUNIT_EXPECT_EQ(test, nr_free(test), 0);
}

/* The next slot that is free pays a debt: the one that rests is used nevertheless. */
static void rests_while_slots_are_fewer_test(struct kunit *test)
{
	make_full(test, 8);
	release(test, 0, 1);
	mqfq_set_slots(&context(test)->policy, SLOTS / 2);
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
}

/* With few others at the device a slot does not rest, and with none it must not. */
static void few_at_device_test(struct kunit *test)
{
	unsigned int i;

	for (i = 1; i <= MQFQ_REST_LEAST; i++) {
		make_up(test, WIDE, i);
		fill(test, 0, i, 2);
		release(test, 0, 1);
		KUNIT_EXPECT_EQ_MSG(test, woken(test), 1U, "%u at the device", i - 1);
		mqfq_policy_destroy(&context(test)->policy);
		context(test)->made = false;
		context(test)->nr_entries = 0;
	}
}

/* What is slow may be back late: it does not count. */
static void slow_at_device_test(struct kunit *test)
{
	unsigned int nr_slow = 8 * SLOTS / MQFQ_SLOW_PART, i;
	struct context *c = context(test);

	make_up(test, WIDE, 8 * SLOTS);
	for (i = 0; i < nr_slow; i++) {
		struct mqfq_entry *e = &c->entry[new_entry(test, 0, MQFQ_ENTRY_SLOW)];

		spin_lock(&queue(test, 0)->lock);
		mqfq_insert(queue(test, 0), e, 0);
		spin_unlock(&queue(test, 0)->lock);
	}
	KUNIT_ASSERT_EQ(test, run(test, 0), nr_slow);
	fill(test, 1, 8 * SLOTS - nr_slow - MQFQ_REST_LEAST, 0);
	fill(test, 0, MQFQ_REST_LEAST, 2);
	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
}

/* What rests in a queue whose tags change is not lost, and the queue asks again. */
static void rescale_test(struct kunit *test)
{
	struct context *c = context(test);

	make_full(test, 8);
	release(test, 0, 1);
	KUNIT_ASSERT_EQ(test, state(test, 0), (int)MQFQ_RESTING);
	c->flow.is_changing = true;
	c->flow.change = (struct flow_reweigh) { .old_weight = 1, .new_weight = 1 };
	mqfq_rescale(&c->policy, &c->flow);
	c->flow.is_changing = false;
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
	KUNIT_EXPECT_EQ(test, nr_free(test), 0);
}

/* ---- slots that are kept ---- */

/* Two queues with their shares, and requests that wait. The next release has a queue run. */
static void make_even(struct kunit *test, unsigned int waiting)
{
	make_up(test, WIDE, SLOTS);
	fill(test, 0, SHARE, 0);
	fill(test, 1, SHARE, 0);
	put(test, 0, waiting);
	put(test, 1, waiting);
	queue(test, 0)->inserted_seen = queue(test, 0)->inserted;
	queue(test, 1)->inserted_seen = queue(test, 1)->inserted;
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
}

/* One run for all that come back before it. */
static void kept_for_the_run_test(struct kunit *test)
{
	make_even(test, 8);
	release(test, 0, SHARE);
	KUNIT_EXPECT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, state(test, 0), MQFQ_ARMED + SHARE - 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), (unsigned int)SHARE);
	KUNIT_EXPECT_EQ(test, state(test, 0), (int)MQFQ_READY);
	KUNIT_EXPECT_EQ(test, atomic64_read(&queue(test, 0)->nr_woken[TOPOLOGY_SELF]), 1LL);
}

/* Not more than it has requests for. */
static void kept_for_what_waits_test(struct kunit *test)
{
	make_even(test, 2);
	release(test, 0, SHARE);
	KUNIT_EXPECT_EQ(test, woken(test), 3U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 2U);
	KUNIT_EXPECT_EQ(test, run(test, 1), 2U);
	KUNIT_EXPECT_EQ(test, nr_free(test), 0);
}

/* The second request is throttled: what was kept for it goes to the other queue. */
static void throttled_gives_back_test(struct kunit *test)
{
	unsigned int i;

	make_up(test, 100, SLOTS);
	fill(test, 0, SHARE, 0);
	fill(test, 1, SHARE, 0);
	put_at(test, 0, 0);
	for (i = 0; i < 3; i++)
		put_at(test, 0, 1000);
	put(test, 1, 4);
	queue(test, 0)->inserted_seen = queue(test, 0)->inserted;
	release(test, 0, 3);
	KUNIT_ASSERT_EQ(test, woken(test), 1U);
	KUNIT_EXPECT_EQ(test, run(test, 0), 1U);
	KUNIT_EXPECT_EQ(test, state(test, 0), (int)MQFQ_THROTTLED);
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	KUNIT_EXPECT_EQ(test, run(test, 1), 2U);
}

/* A stopped queue gives all back. */
static void stopped_gives_back_test(struct kunit *test)
{
	struct context *c = context(test);

	make_even(test, 8);
	release(test, 0, 3);
	KUNIT_ASSERT_EQ(test, state(test, 0), MQFQ_ARMED + 2);
	KUNIT_ASSERT_EQ(test, woken(test), 1U);
	mqfq_look(&c->policy, c->now_ns + MQFQ_LOOK_MS * MS);
	KUNIT_ASSERT_EQ(test, woken(test), 0U);
	mqfq_look(&c->policy, c->now_ns + 4 * MQFQ_LOOK_MS * MS);
	KUNIT_EXPECT_EQ(test, state(test, 0), (int)MQFQ_RUNNABLE);
	KUNIT_EXPECT_EQ(test, run(test, 1), 3U);
}

/* ---- shares ---- */

struct shares_param {
	const char *name;
	unsigned int has, has_other, waits_other;
	u32 woken;
};

static const struct shares_param shares_params[] = {
	{ "both have their share",		4, 4, 4, 1U << 0 },
	{ "the other has less",			6, 2, 4, 1U << 2 },
	{ "the other has less by one",		5, 3, 4, 1U << 2 },
	{ "the other has more",			3, 5, 4, 1U << 0 },
	{ "the other has none",			8, 0, 4, 1U << 2 },
	{ "it has its share, the other less",	4, 2, 4, 1U << 0 },
	{ "nothing waits in the other",		6, 2, 0, 1U << 0 },
};

KUNIT_ARRAY_PARAM_DESC(shares, shares_params, name);

/* A queue that has its share gives a slot to one that has less. A third one has the others. */
static void shares_test(struct kunit *test)
{
	const struct shares_param *param = test->param_value;

	make_up(test, WIDE, SLOTS);
	fill(test, 0, param->has, 0);
	fill(test, 2, param->has_other, 0);
	fill(test, 1, SLOTS - param->has - param->has_other, 0);
	put(test, 0, 4);
	put(test, 2, param->waits_other);
	queue(test, 0)->inserted_seen = queue(test, 0)->inserted;
	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, woken(test), param->woken);
}

/* The next one in turn has no less: the queue keeps what is beyond its share. */
static void no_less_test(struct kunit *test)
{
	unsigned int i;

	make_up(test, WIDE, SLOTS);
	for (i = 0; i < 3; i++)
		fill(test, i, i < 2 ? 3 : 2, 0);
	for (i = 0; i < 3; i++)
		put(test, i, 4);
	queue(test, 0)->inserted_seen = queue(test, 0)->inserted;
	release(test, 0, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 0);
}

/* From the worst distribution, each queue soon has its share, and then no slot moves. */
static void settles_test(struct kunit *test)
{
	unsigned int i, moved = 0, step;

	make_up(test, WIDE, SLOTS);
	fill(test, 0, SLOTS, 32);
	for (i = 1; i < NR_QUEUES; i++)
		put(test, i, 32);
	for (step = 0; step < 64; step++) {
		i = step % NR_QUEUES;
		if (!mqfq_nr_slots_held(queue(test, i)))
			continue;
		release(test, i, 1);
		for (i = 0; i < NR_QUEUES; i++)
			if (run(test, i) && i != step % NR_QUEUES)
				moved++;
	}
	KUNIT_EXPECT_EQ(test, moved, (unsigned int)(SLOTS - SLOTS / NR_QUEUES));
	for (i = 0; i < NR_QUEUES; i++)
		KUNIT_EXPECT_EQ(test, mqfq_nr_slots_held(queue(test, i)),
				(u32)(SLOTS / NR_QUEUES));
}

static struct kunit_case mqfq_slots_cases[] = {
	KUNIT_CASE(rests_until_a_request_comes_test),
	KUNIT_CASE(rests_until_a_release_test),
	KUNIT_CASE(rests_until_a_look_test),
	KUNIT_CASE(rests_for_long_test),
	KUNIT_CASE(rests_until_a_slot_comes_test),
	KUNIT_CASE(rests_while_slots_are_fewer_test),
	KUNIT_CASE(few_at_device_test),
	KUNIT_CASE(slow_at_device_test),
	KUNIT_CASE(rescale_test),
	KUNIT_CASE(kept_for_the_run_test),
	KUNIT_CASE(kept_for_what_waits_test),
	KUNIT_CASE(throttled_gives_back_test),
	KUNIT_CASE(stopped_gives_back_test),
	KUNIT_CASE_PARAM(shares_test, shares_gen_params),
	KUNIT_CASE(no_less_test),
	KUNIT_CASE(settles_test),
	{}
};

static struct kunit_suite mqfq_slots_suite = {
	.name = "mqfq_slots",
	.init = mqfq_fixture_init,
	.exit = mqfq_fixture_exit,
	.test_cases = mqfq_slots_cases,
};

kunit_test_suite(mqfq_slots_suite);
