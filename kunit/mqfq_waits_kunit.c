// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_waits_kunit.c - mq-mqfq's policy: slow entries that step aside, queues that are stuck, a
 * flow that is alone, and nothing that waits
 *
 * What is meant, one thing at a time; the simulation and the threads of mqfq_wakeup have the rules
 * as a whole. Virtual time is 0 at the beginning, T is wide unless it is told.
 */
#include <linux/minmax.h>

#include "mqfq_fixture.h"

enum {
	WIDE	= 1 << 30,
};

static int put(struct kunit *test, unsigned int number, u64 tag, bool slow)
{
	struct mqfq_queue *q = queue(test, number);
	int id = new_entry(test, number, slow ? MQFQ_ENTRY_SLOW : 0);

	spin_lock(&q->lock);
	mqfq_insert(q, &context(test)->entry[id], tag);
	spin_unlock(&q->lock);
	return id;
}

static void release(struct kunit *test, int id)
{
	struct context *c = context(test);

	if (c->entry[id].flow & MQFQ_ENTRY_SLOW)
		mqfq_release_slow(queue(test, c->queue_of[id]));
	else
		mqfq_release(queue(test, c->queue_of[id]));
}

static void look_after(struct kunit *test, u64 ms)
{
	context(test)->now_ns += ms * MS;
	mqfq_look(&context(test)->policy, context(test)->now_ns);
}

static int nr_free(struct kunit *test)
{
	return token_tree_nr_free(&context(test)->policy.tokens);
}

static int nr_lent(struct kunit *test)
{
	return atomic_read(&context(test)->policy.tokens.nr_lent);
}

static bool shows(struct kunit *test, unsigned int number)
{
	return mindicator_leaf(&context(test)->policy.vt, queue(test, number)->leaf) != VT_NONE;
}

/* ---- slow entries ---- */

struct permits_param {
	const char *name;
	unsigned int slots;
	int permits;
};

static const struct permits_param permits_params[] = {
	{ "one slot", 1, 1 },
	{ "seven slots", 7, 1 },
	{ "15 slots", 15, 1 },
	{ "16 slots", 16, 2 },
	{ "64 slots", 64, 8 },
};
KUNIT_ARRAY_PARAM_DESC(permits, permits_params, name);

/* An eighth of the slots is for slow entries; those that are behind go on. */
static void permits_test(struct kunit *test)
{
	const struct permits_param *param = test->param_value;
	int i, fast;

	make_up(test, WIDE, param->slots);
	for (i = 0; i < 80; i++)
		put(test, 0, i, true);
	for (i = 0; i < param->permits; i++)
		KUNIT_EXPECT_EQ(test, take(test, 0), i);
	KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 0)));
	KUNIT_EXPECT_EQ(test, nr_free(test), (int)param->slots - param->permits);
	/* What stepped aside holds no virtual time. */
	KUNIT_EXPECT_FALSE(test, shows(test, 0));
	fast = put(test, 0, 1000, false);
	KUNIT_EXPECT_EQ(test, take(test, 0), param->slots > 1 ? fast : NOTHING);

	/* Each that comes back lets the next one go, in order. */
	woken(test);
	for (i = param->permits; i < 80 && param->slots > 1; i++) {
		release(test, i - param->permits);
		KUNIT_EXPECT_EQ(test, woken(test), 1U);
		KUNIT_EXPECT_EQ(test, take(test, 0), i);
		KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	}
}

/* Runs all queues that are to be run, until none is; what was sent, of at most one. */
static int run_all(struct kunit *test)
{
	int sent = NOTHING, i, id;
	u32 mask;

	while ((mask = woken(test)))
		for (i = 0; i < NR_QUEUES; i++)
			while (mask & 1U << i && (id = take(test, i)) != NOTHING) {
				KUNIT_EXPECT_EQ(test, sent, NOTHING);
				sent = id;
			}
	return sent;
}

/* Queues have permits in turn, also one that releases and at once has another entry. */
static void turns_test(struct kunit *test)
{
	int i, out, nr_sent[NR_QUEUES] = {};

	make_up(test, WIDE, 8);
	out = put(test, 3, 0, true);
	KUNIT_ASSERT_EQ(test, take(test, 3), out);
	for (i = 0; i < 9; i++)
		put(test, i / 3, i, true);
	for (i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, take(test, i), NOTHING);
	for (i = 0; i < 12; i++) {
		release(test, out);
		put(test, 3, 0, true);
		if (!(context(test)->woken & 8))
			KUNIT_EXPECT_EQ(test, take(test, 3), NOTHING);
		out = run_all(test);
		KUNIT_ASSERT_NE(test, out, NOTHING);
		nr_sent[context(test)->queue_of[out]]++;
	}
	for (i = 0; i < NR_QUEUES; i++)
		KUNIT_EXPECT_EQ(test, nr_sent[i], 3);
}

/* An entry that comes back has waited long enough: its tag is not a past one. */
static void comes_back_test(struct kunit *test)
{
	make_up(test, WIDE, 8);
	put(test, 0, 0, true);
	put(test, 0, 1, true);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	KUNIT_ASSERT_EQ(test, take(test, 0), NOTHING);
	put(test, 1, 5000, false);
	put(test, 1, 6000, false);
	KUNIT_ASSERT_EQ(test, take(test, 1), 2);
	KUNIT_ASSERT_EQ(test, mqfq_vt(&context(test)->policy), 6000);
	release(test, 0);
	KUNIT_ASSERT_EQ(test, take(test, 0), 1);
	KUNIT_EXPECT_EQ(test, context(test)->entry[1].start, 6000);
}

/* More slots, more permits; and four times as many after a second without others. */
static void more_permits_test(struct kunit *test)
{
	int i;

	make_up(test, WIDE, 8);
	for (i = 0; i < 40; i++)
		put(test, i % 2, i, true);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	KUNIT_ASSERT_EQ(test, take(test, 0), NOTHING);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	mqfq_set_slots(&context(test)->policy, 24);
	/* The first one wakes the other when it has been run. */
	while (woken(test))
		for (i = 0; i < 2; i++)
			while (take(test, i) != NOTHING)
				;
	KUNIT_EXPECT_EQ(test, nr_free(test), 21);
	look_after(test, 900);
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
	look_after(test, 200);
	KUNIT_EXPECT_NE(test, woken(test), 0U);
	do {
		for (i = 0; i < 2; i++)
			while (take(test, i) != NOTHING)
				;
	} while (woken(test));
	KUNIT_EXPECT_EQ(test, nr_free(test), 12);
	/* Another one was seen: no more than three from now on. */
	put(test, 3, 100, false);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, take(test, 3), 40);
	look_after(test, 50);
	put(test, 2, 200, true);
	KUNIT_EXPECT_EQ(test, take(test, 2), NOTHING);
}

/* Others that wait in vain are others. */
static void not_alone_test(struct kunit *test)
{
	make_up(test, WIDE, 1);
	put(test, 0, 0, true);
	put(test, 0, 0, true);
	put(test, 1, 0, false);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	look_after(test, 50);
	look_after(test, 2000);
	KUNIT_EXPECT_FALSE(test, context(test)->policy.slow.is_alone);
	release(test, 0);
	KUNIT_ASSERT_EQ(test, take(test, 1), 2);
	look_after(test, 50);
	look_after(test, 2000);
	KUNIT_EXPECT_TRUE(test, context(test)->policy.slow.is_alone);
}

/* ---- stuck queues ---- */

/* Queue 0 has @n in flight and others waiting; queue 1 goes on with @rounds entries. */
static void get_stuck(struct kunit *test, int n, int rounds)
{
	int i, id;

	for (i = 0; i < n; i++) {
		id = put(test, 0, i, false);
		KUNIT_ASSERT_EQ(test, take(test, 0), id);
	}
	look_after(test, 50);
	for (i = 0; i < rounds; i++) {
		id = put(test, 1, 100, false);
		KUNIT_ASSERT_EQ(test, take(test, 1), id);
		release(test, id);
	}
}

struct stuck_param {
	const char *name;
	int rounds, ms;
	bool stuck;
};

static const struct stuck_param stuck_params[] = {
	{ "others go on, for 100 ms",		16, 100, true },
	{ "not long enough",			16, 99, false },
	{ "others have done too little",	15, 400, false },
	{ "all wait, nothing moves",		0, 400, false },
};
KUNIT_ARRAY_PARAM_DESC(stuck, stuck_params, name);

static void stuck_test(struct kunit *test)
{
	const struct stuck_param *param = test->param_value;

	make_up(test, WIDE, 4);
	get_stuck(test, 3, param->rounds);
	look_after(test, param->ms);
	KUNIT_EXPECT_EQ(test, nr_lent(test), param->stuck ? 3 : 0);
	KUNIT_EXPECT_EQ(test, nr_free(test), param->stuck ? 4 : 1);
}

/* A queue that completes now and then is not stuck, nor one with nothing in flight. */
static void not_stuck_test(struct kunit *test)
{
	int i;

	make_up(test, WIDE, 4);
	get_stuck(test, 3, 40);
	release(test, 0);
	look_after(test, 60);
	get_stuck(test, 0, 40);
	look_after(test, 49);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 0);
	for (i = 1; i < 3; i++)
		release(test, i);
	get_stuck(test, 0, 40);
	look_after(test, 1000);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 0);
}

/* What a stuck queue may do, and how it comes home. */
static void debt_test(struct kunit *test)
{
	struct mqfq_queue *q;
	int probe, i;

	make_up(test, WIDE, 5);
	q = queue(test, 0);
	/* Queue 3 is not run: it gives the slot back that it has in its hand. */
	put(test, 3, 0, false);
	put(test, 3, 0, false);
	get_stuck(test, 3, 20);
	look_after(test, 100);
	KUNIT_ASSERT_EQ(test, nr_lent(test), 3);
	KUNIT_EXPECT_FALSE(test, shows(test, 0));

	/* One more than its debt, then it is STUCK, and not found stuck once more. */
	probe = put(test, 0, 200, false);
	for (i = 0; i < 4; i++)
		put(test, 0, 201, false);
	KUNIT_EXPECT_EQ(test, take(test, 0), probe);
	KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	KUNIT_EXPECT_EQ(test, atomic_read(&q->state), MQFQ_STUCK);
	KUNIT_EXPECT_FALSE(test, shows(test, 0));
	get_stuck(test, 0, 40);
	look_after(test, 1000);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 3);
	KUNIT_EXPECT_EQ(test, nr_free(test), 4);

	/* Each that comes back pays, and lets one go. */
	woken(test);
	for (i = 0; i < 3; i++) {
		release(test, 2 + i);
		KUNIT_EXPECT_EQ(test, woken(test), 1U);
		KUNIT_EXPECT_EQ(test, nr_lent(test), 2 - i);
		KUNIT_EXPECT_EQ(test, nr_free(test), 4);
		if (i < 2)
			KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	}
	KUNIT_EXPECT_EQ(test, take(test, 0), probe + 1);
	KUNIT_EXPECT_TRUE(test, shows(test, 0));
	release(test, probe);
	release(test, probe + 1);
	KUNIT_EXPECT_EQ(test, nr_free(test), 4);
}

/* A queue that comes home brings no tags of the past. */
static void comes_home_test(struct kunit *test)
{
	int i, id;

	make_up(test, WIDE, 5);
	get_stuck(test, 3, 20);
	for (i = 0; i < 3; i++)
		put(test, 0, 50 + i, false);
	look_after(test, 100);
	put(test, 2, 7000, false);
	id = put(test, 2, 9000, false);
	KUNIT_ASSERT_EQ(test, take(test, 2), id - 1);
	KUNIT_ASSERT_EQ(test, mqfq_vt(&context(test)->policy), 9000);
	for (i = 0; i < 3; i++)
		release(test, i);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, take(test, 0), id - 4 + i);
		KUNIT_EXPECT_EQ(test, context(test)->entry[id - 4 + i].start, 9000);
	}
}

/* A queue that waits, and others that have nothing in flight: later, but it is found. */
static void holds_all_test(struct kunit *test)
{
	int i;

	make_up(test, WIDE, 4);
	get_stuck(test, 4, 0);
	put(test, 1, 10, false);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	for (i = 0; i < 9; i++)
		look_after(test, 50);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 0);
	look_after(test, 50);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 4);
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	KUNIT_EXPECT_NE(test, take(test, 1), NOTHING);
}

/* The permits of slow entries that are stuck are lent, too. */
static void slow_and_stuck_test(struct kunit *test)
{
	int slow, other;

	make_up(test, WIDE, 8);
	slow = put(test, 0, 0, true);
	KUNIT_ASSERT_EQ(test, take(test, 0), slow);
	other = put(test, 2, 0, true);
	KUNIT_ASSERT_EQ(test, take(test, 2), NOTHING);
	get_stuck(test, 0, 32);
	look_after(test, 100);
	KUNIT_EXPECT_EQ(test, nr_lent(test), 1);
	KUNIT_EXPECT_EQ(test, woken(test) & 4U, 4U);
	KUNIT_EXPECT_EQ(test, take(test, 2), other);
	release(test, slow);
	KUNIT_EXPECT_EQ(test, atomic_read(&context(test)->policy.slow.permits.nr_out), 1);
	release(test, other);
	KUNIT_EXPECT_EQ(test, atomic_read(&context(test)->policy.slow.permits.nr_out), 0);
	KUNIT_EXPECT_EQ(test, nr_free(test), 8);
}

/*
 * A queue that could run and does not: its leaf leaves, it gives the slot in its hand back, and
 * comes back with its next run.
 */
static void stopped_test(struct kunit *test)
{
	int i;

	make_up(test, 50, 8);
	for (i = 0; i < 3; i++)
		put(test, 0, 100 * i, false);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	look_after(test, 50);
	put(test, 1, 400, false);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	look_after(test, 50);
	KUNIT_EXPECT_TRUE(test, shows(test, 0));
	look_after(test, 50);
	KUNIT_EXPECT_FALSE(test, shows(test, 0));
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	/* One is in flight. */
	KUNIT_EXPECT_EQ(test, nr_free(test), 7);
	KUNIT_EXPECT_EQ(test, take(test, 1), 3);
	KUNIT_EXPECT_EQ(test, take(test, 0), 1);
	KUNIT_EXPECT_EQ(test, context(test)->entry[1].start, 400);
	KUNIT_EXPECT_TRUE(test, shows(test, 0));
}

/* A stuck queue runs once, for the one request that it may send, and is not run again. */
static void stuck_then_stopped_test(struct kunit *test)
{
	int probe;

	make_up(test, WIDE, 5);
	get_stuck(test, 3, 20);
	look_after(test, 100);
	probe = put(test, 0, 200, false);
	put(test, 0, 201, false);
	KUNIT_ASSERT_EQ(test, take(test, 0), probe);
	KUNIT_EXPECT_TRUE(test, shows(test, 0));
	look_after(test, 50);
	look_after(test, 100);
	KUNIT_EXPECT_FALSE(test, shows(test, 0));
}

/* A stuck queue was throttled. Its time comes, and it is not run: it holds no time and no slot. */
static void throttled_then_stopped_test(struct kunit *test)
{
	make_up(test, 50, 8);
	get_stuck(test, 3, 0);
	put(test, 2, 100, false);
	put(test, 0, 300, false);
	KUNIT_ASSERT_EQ(test, atomic_read(&queue(test, 0)->state), MQFQ_THROTTLED);
	get_stuck(test, 0, 40);
	look_after(test, 100);
	KUNIT_ASSERT_EQ(test, nr_lent(test), 3);
	KUNIT_ASSERT_EQ(test, take(test, 2), 3);
	KUNIT_ASSERT_EQ(test, atomic_read(&queue(test, 0)->state), MQFQ_ARMED);
	KUNIT_EXPECT_TRUE(test, shows(test, 0));
	look_after(test, 50);
	look_after(test, 100);
	KUNIT_EXPECT_FALSE(test, shows(test, 0));
	KUNIT_EXPECT_EQ(test, nr_free(test), 7);
}

/* A queue that is stopped gives its permit back: discards elsewhere go on. */
static void slow_and_stopped_test(struct kunit *test)
{
	int slow, other;

	make_up(test, WIDE, 8);
	look_after(test, 50);
	slow = put(test, 0, 0, true);
	other = put(test, 1, 0, true);
	KUNIT_ASSERT_EQ(test, take(test, 1), NOTHING);
	look_after(test, 50);
	look_after(test, 100);
	KUNIT_EXPECT_EQ(test, woken(test) & 2U, 2U);
	KUNIT_EXPECT_EQ(test, take(test, 1), other);
	KUNIT_EXPECT_EQ(test, take(test, 0), NOTHING);
	release(test, other);
	KUNIT_EXPECT_EQ(test, take(test, 0), slow);
	release(test, slow);
	KUNIT_EXPECT_EQ(test, atomic_read(&context(test)->policy.slow.permits.nr_out), 0);
}

/* The time of a throttled queue comes while there is no slot: it waits for one, and is not run. */
static void throttled_then_ready_test(struct kunit *test)
{
	make_up(test, 50, 2);
	put(test, 0, 0, false);
	put(test, 0, 100, false);
	put(test, 0, 300, false);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	put(test, 1, 300, false);
	KUNIT_ASSERT_EQ(test, atomic_read(&queue(test, 1)->state), MQFQ_THROTTLED);
	KUNIT_ASSERT_EQ(test, take(test, 0), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue(test, 1)->state), MQFQ_READY);
	KUNIT_EXPECT_EQ(test, woken(test), 0U);
	KUNIT_EXPECT_FALSE(test, mqfq_has_work(queue(test, 1)));

	/* Queue 0 waits as well, and is nearer to its own request. */
	release(test, 0);
	release(test, 1);
	KUNIT_EXPECT_EQ(test, woken(test), 3U);
	KUNIT_EXPECT_EQ(test, take(test, 1), 3);
	KUNIT_EXPECT_EQ(test, take(test, 0), 2);
}

/* The queue was throttled: it is woken, and asks again. */
static int take_again(struct kunit *test, unsigned int number)
{
	mqfq_set_wheel(&context(test)->policy, (struct vt_wheel_geometry) { 20, 1 });
	return take(test, number);
}

/* A flow is alone after a candidate and a look at each queue; its window has an end. */
static void alone_window_test(struct kunit *test)
{
	unsigned int i;

	make_up(test, 50, 8);
	put(test, 0, 0, false);
	put(test, 0, 10, false);
	KUNIT_ASSERT_EQ(test, take(test, 0), 0);
	put(test, 1, 10 + 50 * MQFQ_ALONE_WINDOWS, false);
	put(test, 1, 11 + 50 * MQFQ_ALONE_WINDOWS, false);
	/* The first throttling, when the first one came, made the candidate. */
	for (i = 0; i < NR_QUEUES; i++)
		KUNIT_EXPECT_EQ(test, take_again(test, 1), NOTHING);
	KUNIT_EXPECT_EQ(test, take_again(test, 1), 2);
	KUNIT_EXPECT_EQ(test, take_again(test, 1), NOTHING);
	KUNIT_EXPECT_EQ(test, take(test, 0), 1);
	KUNIT_EXPECT_EQ(test, take_again(test, 1), 3);
}

static bool leaf_is_empty(struct kunit *test, unsigned int number)
{
	return mindicator_leaf(&context(test)->policy.vt, queue(test, number)->leaf) == VT_NONE;
}

/*
 * Nothing waits: requests up to T ahead go, and leave virtual time alone. The one after them takes
 * it along. Then something waits, and virtual time is told of what is a quarter of T ahead.
 */
static void ahead_test(struct kunit *test)
{
	struct mqfq_policy *p = &context(test)->policy;
	int id;

	make_up(test, 400, NR_ENTRIES);
	id = put(test, 0, 400, false);
	KUNIT_EXPECT_EQ(test, take(test, 0), id);
	KUNIT_EXPECT_EQ(test, mqfq_vt(p), 0);
	KUNIT_EXPECT_TRUE(test, mindicator_is_empty(&p->vt));
	id = put(test, 0, 401, false);
	KUNIT_EXPECT_EQ(test, take(test, 0), id);
	KUNIT_EXPECT_EQ(test, mqfq_vt(p), 401);
	KUNIT_EXPECT_TRUE(test, mindicator_is_empty(&p->vt));

	id = put(test, 1, 401, false);
	put(test, 1, 402, false);
	KUNIT_EXPECT_EQ(test, take(test, 1), id);
	id = put(test, 0, 502, false);
	KUNIT_EXPECT_TRUE(test, leaf_is_empty(test, 0));
	KUNIT_EXPECT_EQ(test, take(test, 0), id);
	put(test, 0, 503, false);
	KUNIT_EXPECT_FALSE(test, leaf_is_empty(test, 0));
	KUNIT_EXPECT_EQ(test, mqfq_vt(p), 402);
}

static struct kunit_case mqfq_waits_cases[] = {
	KUNIT_CASE_PARAM(permits_test, permits_gen_params),
	KUNIT_CASE(turns_test),
	KUNIT_CASE(comes_back_test),
	KUNIT_CASE(more_permits_test),
	KUNIT_CASE(not_alone_test),
	KUNIT_CASE_PARAM(stuck_test, stuck_gen_params),
	KUNIT_CASE(not_stuck_test),
	KUNIT_CASE(debt_test),
	KUNIT_CASE(comes_home_test),
	KUNIT_CASE(holds_all_test),
	KUNIT_CASE(slow_and_stuck_test),
	KUNIT_CASE(stopped_test),
	KUNIT_CASE(stuck_then_stopped_test),
	KUNIT_CASE(throttled_then_stopped_test),
	KUNIT_CASE(slow_and_stopped_test),
	KUNIT_CASE(throttled_then_ready_test),
	KUNIT_CASE(alone_window_test),
	KUNIT_CASE(ahead_test),
	{}
};

static struct kunit_suite mqfq_waits_suite = {
	.name = "mqfq_waits",
	.init = mqfq_fixture_init,
	.exit = mqfq_fixture_exit,
	.test_cases = mqfq_waits_cases,
};

kunit_test_suite(mqfq_waits_suite);
