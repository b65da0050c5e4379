// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_rt_kunit.c - mq-mqfq's policy: entries of class RT, which have passes or wait for one
 *
 * What is meant, one thing at a time; the threads of mqfq_wakeup have the rules as a whole. Virtual
 * time is 0 at the beginning, and T is 0: what is ahead waits.
 */
#include <linux/minmax.h>

#include "mqfq_fixture.h"

enum {
	SLOTS	= 4,
	/* With so many slots. */
	PASSES	= 4,
	LEVEL	= 4,
	FAR	= 1000,
};

static int put(struct kunit *test, unsigned int number, u64 tag)
{
	struct mqfq_queue *q = queue(test, number);
	int id = new_entry(test, number, 0);

	spin_lock(&q->lock);
	mqfq_insert(q, &context(test)->entry[id], tag);
	spin_unlock(&q->lock);
	return id;
}

static int put_rt(struct kunit *test, unsigned int number, u64 tag, unsigned int level)
{
	struct mqfq_queue *q = queue(test, number);
	int id = new_entry(test, number, 0);

	spin_lock(&q->lock);
	mqfq_insert_rt(q, &context(test)->entry[id], tag, level);
	spin_unlock(&q->lock);
	return id;
}

/* What a run of the queue gets first, if there is work. */
static int run(struct kunit *test, unsigned int number)
{
	return mqfq_has_work(queue(test, number)) ? take(test, number) : NOTHING;
}

static bool has_pass(struct kunit *test, int id)
{
	return context(test)->entry[id].flow & MQFQ_ENTRY_PASS;
}

static void release(struct kunit *test, int id)
{
	struct mqfq_queue *q = queue(test, context(test)->queue_of[id]);

	if (has_pass(test, id))
		mqfq_release_pass(q);
	else
		mqfq_release(q);
}

static int nr_passes_out(struct kunit *test)
{
	return atomic_read(&context(test)->policy.passes.nr_out);
}

/* Takes all slots, and all passes if asked to. */
static void fill(struct kunit *test, unsigned int number, bool passes_too)
{
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		KUNIT_ASSERT_EQ(test, put(test, number, 0), run(test, number));
	for (i = 0; passes_too && i < PASSES; i++)
		KUNIT_ASSERT_EQ(test, put_rt(test, number, 0, LEVEL), run(test, number));
}

/* ---- passes ---- */

/* No slot is free, and it is far ahead of virtual time, which an earlier entry holds. */
static void waits_for_nothing_test(struct kunit *test)
{
	int waiting, rt;

	make_up(test, 0, SLOTS);
	fill(test, 0, false);
	waiting = put(test, 0, 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	rt = put_rt(test, 0, FAR, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 0), rt);
	KUNIT_EXPECT_TRUE(test, has_pass(test, rt));
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, mqfq_vt(&context(test)->policy), 1ULL);

	/* Its pass is no slot. */
	release(test, rt);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), waiting);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 0);
}

struct bound {
	const char *name;
	unsigned int slots;
	unsigned int passes;
};

static const struct bound bounds[] = {
	{ "1 slot", 1, MQFQ_PASSES_LEAST },
	{ "9 slots", 9, 9 },
	{ "40 slots", 40, MQFQ_PASSES_MOST },
};
KUNIT_ARRAY_PARAM_DESC(bound, bounds, name);

/* A flood on top of what has the slots: as many pass as there are passes, and no more. */
static void bound_test(struct kunit *test)
{
	const struct bound *param = test->param_value;
	unsigned int i, nr = 0;

	make_up(test, 0, param->slots);
	for (i = 0; i < param->slots; i++)
		KUNIT_ASSERT_EQ(test, put(test, 0, 0), run(test, 0));
	for (i = 0; i < MQFQ_PASSES_MOST + 2; i++) {
		put_rt(test, i % NR_QUEUES, 0, LEVEL);
		nr += run(test, i % NR_QUEUES) != NOTHING;
	}
	KUNIT_EXPECT_EQ(test, nr, param->passes);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), (int)param->passes);
}

/* More slots are more passes: those that wait are recalled. */
static void more_slots_test(struct kunit *test)
{
	int rt;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	rt = put_rt(test, 1, 0, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	mqfq_set_slots(&context(test)->policy, SLOTS + 1);
	KUNIT_EXPECT_TRUE(test, woken(test) & 2);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), PASSES + 1);
	KUNIT_EXPECT_EQ(test, token_tree_nr_free(&context(test)->policy.tokens), 1);
}

/* ---- waiting for a pass ---- */

/* Level 0 first, the oldest first within a level, whatever their tags. */
static void levels_test(struct kunit *test)
{
	int low, first, second, high;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	low = put_rt(test, 1, 1, 7);
	first = put_rt(test, 1, 9, 3);
	second = put_rt(test, 1, 5, 3);
	high = put_rt(test, 1, 7, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);

	release(test, SLOTS);
	KUNIT_EXPECT_EQ(test, woken(test), 2U);
	KUNIT_EXPECT_EQ(test, run(test, 1), high);
	release(test, high);
	KUNIT_EXPECT_EQ(test, run(test, 1), first);
	release(test, first);
	KUNIT_EXPECT_EQ(test, run(test, 1), second);
	release(test, second);
	KUNIT_EXPECT_EQ(test, run(test, 1), low);
	release(test, low);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), PASSES - 1);
}

/* Each queue in its turn. */
static void turns_test(struct kunit *test)
{
	int of_1[2], of_2[2];

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	of_1[0] = put_rt(test, 1, 0, LEVEL);
	of_1[1] = put_rt(test, 1, 0, LEVEL);
	of_2[0] = put_rt(test, 2, 0, LEVEL);
	of_2[1] = put_rt(test, 2, 0, LEVEL);

	release(test, SLOTS);
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 1);
	KUNIT_EXPECT_EQ(test, run(test, 1), of_1[0]);
	release(test, SLOTS + 1);
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 2);
	KUNIT_EXPECT_EQ(test, run(test, 2), of_2[0]);
	release(test, SLOTS + 2);
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 1);
	KUNIT_EXPECT_EQ(test, run(test, 1), of_1[1]);
	release(test, SLOTS + 3);
	KUNIT_EXPECT_EQ(test, woken(test), 1U << 2);
	KUNIT_EXPECT_EQ(test, run(test, 2), of_2[1]);
}

/* ---- in the order of tags ---- */

/* Without a pass it has its turn like any other, and a slot. */
static void has_its_share_test(struct kunit *test)
{
	int before, rt, after;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	before = put(test, 1, 5);
	rt = put_rt(test, 1, 10, LEVEL);
	after = put(test, 1, 20);
	KUNIT_EXPECT_EQ(test, mqfq_vt(&context(test)->policy), 5ULL);

	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), before);
	release(test, 1);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_FALSE(test, has_pass(test, rt));
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), (int)PASSES);
	release(test, 2);
	KUNIT_EXPECT_EQ(test, run(test, 1), after);
}

/* When one has gone with a slot, the next one lines up, at virtual time if its tag is before. */
static void next_head_test(struct kunit *test)
{
	int first, second;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	first = put_rt(test, 1, 10, LEVEL);
	second = put_rt(test, 1, 3, LEVEL);
	KUNIT_EXPECT_EQ(test, mqfq_vt(&context(test)->policy), 10ULL);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), first);
	KUNIT_EXPECT_EQ(test, context(test)->entry[second].start, 10ULL);
	release(test, 1);
	KUNIT_EXPECT_EQ(test, run(test, 1), second);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
}

/* A pass takes the entry that had been armed: its slot goes to another queue. */
static void gives_its_slot_test(struct kunit *test)
{
	int rt, other;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	rt = put_rt(test, 1, 0, LEVEL);
	other = put(test, 2, 0);
	/* Queue 1 is nearer to what comes back from itself only, so it may be either of them. */
	release(test, 0);
	if (atomic_read(&queue(test, 1)->state) != MQFQ_ARMED) {
		KUNIT_EXPECT_EQ(test, run(test, 2), other);
		other = put(test, 2, 0);
		release(test, 1);
	}
	KUNIT_ASSERT_EQ(test, atomic_read(&queue(test, 1)->state), (int)MQFQ_ARMED);
	release(test, SLOTS);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_TRUE(test, has_pass(test, rt));
	KUNIT_EXPECT_EQ(test, run(test, 2), other);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue(test, 1)->state), (int)MQFQ_RUNNABLE);
}

/* A pass takes the first entry of a queue that waits; the next one is too far ahead. */
static void asks_again_test(struct kunit *test)
{
	int rt, far;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	put(test, 3, 0);
	far = put(test, 1, FAR);
	rt = put_rt(test, 1, 0, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	release(test, SLOTS);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue(test, 1)->state), (int)MQFQ_THROTTLED);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	KUNIT_EXPECT_NE(test, run(test, 3), (int)NOTHING);
	release(test, 1);
	KUNIT_EXPECT_EQ(test, run(test, 1), far);
}

/* What a queue was throttled for is gone when that has passed: so may be its flow. */
static void throttled_test(struct kunit *test)
{
	int rt;

	make_up(test, 0, SLOTS);
	fill(test, 0, true);
	put(test, 3, 0);
	rt = put_rt(test, 1, FAR, LEVEL);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue(test, 1)->state), (int)MQFQ_THROTTLED);
	KUNIT_EXPECT_PTR_NE(test, queue(test, 1)->throttled_flow, NULL);
	release(test, SLOTS);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_PTR_EQ(test, queue(test, 1)->throttled_flow, NULL);
}

/* A target lowers D, and leaves the passes. */
static void passes_stay_test(struct kunit *test)
{
	unsigned int i;

	make_up(test, 0, 12);
	mqfq_set_slots(&context(test)->policy, 1);
	mqfq_set_passes(&context(test)->policy, 12);
	for (i = 0; i < 12; i++)
		KUNIT_EXPECT_EQ(test, put_rt(test, 0, 0, LEVEL), run(test, 0));
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 12);
}

/* ---- queues that are away ---- */

static void look_after_ms(struct kunit *test, unsigned int ms)
{
	struct context *c = context(test);

	c->now_ns += ms * MS;
	mqfq_look(&c->policy, c->now_ns);
}

/* A queue that is stopped does not keep the passes that others wait for. */
static void stopped_test(struct kunit *test)
{
	unsigned int i;
	int rt;

	make_up(test, 0, SLOTS);
	fill(test, 3, false);
	for (i = 0; i < PASSES; i++)
		put_rt(test, 0, 0, LEVEL);
	rt = put_rt(test, 1, FAR, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	look_after_ms(test, 50);
	look_after_ms(test, 150);
	KUNIT_EXPECT_EQ(test, run(test, 1), rt);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 1);

	/* It comes home, and gets them again. */
	KUNIT_EXPECT_EQ(test, queue(test, 0)->rt.nr_passes, 0U);
	KUNIT_EXPECT_NE(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), (int)PASSES);
	for (i = 0; i < PASSES - 2; i++)
		KUNIT_EXPECT_NE(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
}

/* Passes of requests that do not come back are lent, and paid for when they do. */
static void stuck_test(struct kunit *test)
{
	unsigned int i;
	int rt, id;

	make_up(test, 0, SLOTS);
	for (i = 0; i < PASSES; i++)
		KUNIT_ASSERT_EQ(test, put_rt(test, 0, 0, LEVEL), run(test, 0));
	look_after_ms(test, 50);
	/* The others go on. */
	for (i = 0; i < 5 * SLOTS; i++) {
		id = put(test, 1, 0);
		KUNIT_ASSERT_EQ(test, run(test, 1), id);
		release(test, id);
	}
	fill(test, 1, false);
	rt = put_rt(test, 2, 0, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 2), (int)NOTHING);
	look_after_ms(test, 150);
	KUNIT_EXPECT_EQ(test, run(test, 2), rt);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 1);
	id = put_rt(test, 0, 0, LEVEL);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	for (i = 0; i < PASSES; i++)
		release(test, i);
	/* The last payment brings the queue home, though no slot is free. */
	KUNIT_EXPECT_TRUE(test, woken(test) & 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), id);
	release(test, id);
	release(test, rt);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 0);
}

/* ---- flows that have nothing at the device ---- */

static struct flow light;

/* An entry of another flow, which counts in its place of the queue. */
static int put_light(struct kunit *test, unsigned int number, u64 tag)
{
	struct mqfq_queue *q = queue(test, number);
	struct flow_local *place = flow_local_of(&q->flows, light.key);
	int id = new_entry(test, number, 0);

	light.number = 1;
	place->flow = &light;
	place->nr_begun++;
	context(test)->entry[id].flow = (unsigned long)&light;
	spin_lock(&q->lock);
	mqfq_insert(q, &context(test)->entry[id], tag);
	spin_unlock(&q->lock);
	return id;
}

static void end_light(struct kunit *test, int id)
{
	struct mqfq_queue *q = queue(test, context(test)->queue_of[id]);

	atomic_inc(&flow_local_of(&q->flows, light.key)->nr_ended);
	release(test, id);
}

/* One entry of it passes, although all slots are taken and the queue waits for one. */
static void nothing_out_test(struct kunit *test)
{
	int id[4], waiting;

	make_up(test, 0, 2 * SLOTS);
	fill(test, 0, false);
	fill(test, 0, false);
	waiting = put(test, 0, 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	id[0] = put_light(test, 0, 0);
	id[1] = put_light(test, 0, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), id[0]);
	KUNIT_EXPECT_TRUE(test, has_pass(test, id[0]));
	id[2] = put_light(test, 0, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	/* What goes through another queue is counted there. */
	id[3] = put_light(test, 1, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), id[3]);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 2);

	/* That one is back: the next. */
	end_light(test, id[0]);
	KUNIT_EXPECT_EQ(test, run(test, 0), id[1]);
	KUNIT_EXPECT_TRUE(test, has_pass(test, id[1]));
	end_light(test, id[1]);
	KUNIT_EXPECT_EQ(test, run(test, 0), id[2]);
	end_light(test, id[2]);
	end_light(test, id[3]);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 0);

	/* The one that waited all the time needs a slot. */
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), waiting);
	KUNIT_EXPECT_FALSE(test, has_pass(test, waiting));
}

/* One pass is to spare for each SPARE_PART of D, so none with fewer slots. */
static void to_spare_test(struct kunit *test)
{
	int id[2];

	make_up(test, 0, SLOTS);
	fill(test, 0, false);
	id[0] = put_light(test, 0, 0);
	id[1] = put_light(test, 1, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), id[0]);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	end_light(test, id[0]);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), id[1]);
	KUNIT_EXPECT_FALSE(test, has_pass(test, id[1]));

	mqfq_set_slots(&context(test)->policy, SLOTS - 1);
	id[0] = put_light(test, 0, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 0);
}

/* It does so also behind what waits in its queue, if it is within the window. */
static void behind_test(struct kunit *test)
{
	int waiting, near, far;

	make_up(test, 0, 2 * SLOTS);
	fill(test, 0, false);
	fill(test, 0, false);
	waiting = put(test, 0, 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	far = put_light(test, 0, 2);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	near = put_light(test, 0, 1);
	/* Two of its entries wait, and none is at the device. */
	KUNIT_EXPECT_EQ(test, run(test, 0), near);
	KUNIT_EXPECT_TRUE(test, has_pass(test, near));
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, mqfq_vt(&context(test)->policy), 1ULL);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), waiting);
	end_light(test, near);
	KUNIT_EXPECT_EQ(test, run(test, 0), far);
}

/* With a slot to be had, none is needed; without a pass to spare, it waits for a slot. */
static void no_pass_test(struct kunit *test)
{
	int id;

	make_up(test, 0, SLOTS);
	id = put_light(test, 1, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), id);
	KUNIT_EXPECT_FALSE(test, has_pass(test, id));
	end_light(test, id);
	fill(test, 0, true);
	id = put_light(test, 1, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 1), id);
	KUNIT_EXPECT_FALSE(test, has_pass(test, id));
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), PASSES);
}

/* A flow that is ahead of virtual time waits for that, and then for a slot. */
static void ahead_test(struct kunit *test)
{
	int waiting, id;

	make_up(test, 0, SLOTS);
	fill(test, 0, false);
	waiting = put(test, 0, 1);
	KUNIT_EXPECT_EQ(test, run(test, 0), (int)NOTHING);
	id = put_light(test, 1, FAR);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	/* Nothing holds virtual time any more, and the slot is taken again. */
	release(test, 0);
	KUNIT_EXPECT_EQ(test, run(test, 0), waiting);
	KUNIT_EXPECT_EQ(test, run(test, 1), (int)NOTHING);
	KUNIT_EXPECT_EQ(test, nr_passes_out(test), 0);
	release(test, waiting);
	KUNIT_EXPECT_EQ(test, run(test, 1), id);
	KUNIT_EXPECT_FALSE(test, has_pass(test, id));
}

static struct kunit_case mqfq_rt_cases[] = {
	KUNIT_CASE(waits_for_nothing_test),
	KUNIT_CASE_PARAM(bound_test, bound_gen_params),
	KUNIT_CASE(more_slots_test),
	KUNIT_CASE(levels_test),
	KUNIT_CASE(turns_test),
	KUNIT_CASE(has_its_share_test),
	KUNIT_CASE(next_head_test),
	KUNIT_CASE(gives_its_slot_test),
	KUNIT_CASE(asks_again_test),
	KUNIT_CASE(throttled_test),
	KUNIT_CASE(passes_stay_test),
	KUNIT_CASE(stopped_test),
	KUNIT_CASE(stuck_test),
	KUNIT_CASE(nothing_out_test),
	KUNIT_CASE(to_spare_test),
	KUNIT_CASE(behind_test),
	KUNIT_CASE(no_pass_test),
	KUNIT_CASE(ahead_test),
	{}
};

static struct kunit_suite mqfq_rt_suite = {
	.name = "mqfq_rt",
	.init = mqfq_fixture_init,
	.exit = mqfq_fixture_exit,
	.test_cases = mqfq_rt_cases,
};
kunit_test_suite(mqfq_rt_suite);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("KUnit tests of mq-mqfq's class that does not wait");
