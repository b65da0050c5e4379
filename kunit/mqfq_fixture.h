/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_fixture.h - a device of mq-mqfq's policy, for suites that try one thing at a time
 *
 * Four queues on one core, one flow, and entries by number. Virtual time is 0 at the beginning.
 */
#ifndef MQFAIR_MQFQ_FIXTURE_H
#define MQFAIR_MQFQ_FIXTURE_H

#include <kunit/test.h>
#include <linux/module.h>

#include "../mq-mqfq/mqfq_policy.h"
#ifndef __KERNEL__
/* In the kernel the suite mqfq_policy has them. */
#include "../mq-mqfq/mqfq_permit.c"
#include "../mq-mqfq/mqfq_policy.c"
#include "../mq-mqfq/mqfq_rescale.c"
#include "../mq-mqfq/mqfq_rt.c"
#include "../mq-mqfq/mqfq_slots.c"
#include "../mq-mqfq/mqfq_stuck.c"
#endif

enum {
	NR_QUEUES	= 4,
	NR_ENTRIES	= 256,
	NOTHING		= -1,
};

#define MS	(1000 * 1000ULL)

/* @woken: a bit for each queue that was asked to run, and has not. */
struct context {
	struct mqfq_policy policy;
	bool made;
	struct flow flow;
	struct mqfq_entry entry[NR_ENTRIES];
	int queue_of[NR_ENTRIES];
	int nr_entries;
	u32 woken;
	u64 now_ns;
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

static u64 clock_ns(void)
{
	return 0;
}

static const struct mqfq_policy_ops ops = {
	.run		= ask_to_run,
	.clock_ns	= clock_ns,
};

static int mqfq_fixture_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct context), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void mqfq_fixture_exit(struct kunit *test)
{
	if (test->priv && context(test)->made)
		mqfq_policy_destroy(&context(test)->policy);
}

static void make_up(struct kunit *test, u64 throttle_vt, unsigned int slots)
{
	const struct mqfq_config config = { throttle_vt, slots, { 4, 6 } };
	struct topology_place place[NR_QUEUES] = {};
	struct context *c = context(test);

	KUNIT_ASSERT_EQ(test, mqfq_policy_init(&c->policy, place, NR_QUEUES, 0, &config, &ops, c,
					       GFP_KERNEL), 0);
	c->made = true;
	c->now_ns = MS;
	mqfq_look(&c->policy, c->now_ns);
}

static struct mqfq_queue *queue(struct kunit *test, unsigned int number)
{
	return &context(test)->policy.queue[number];
}

/* The number of an entry that will be put into queue @number; @flags is MQFQ_ENTRY_SLOW or 0. */
static int new_entry(struct kunit *test, unsigned int number, unsigned long flags)
{
	struct context *c = context(test);
	int id = c->nr_entries++;

	KUNIT_ASSERT_LT(test, id, (int)NR_ENTRIES);
	c->entry[id].flow = (unsigned long)&c->flow | flags;
	c->queue_of[id] = number;
	return id;
}

/* What a run of the queue gets first: an entry's number, or NOTHING. */
static int take(struct kunit *test, unsigned int number)
{
	struct context *c = context(test);
	struct mqfq_queue *q = queue(test, number);
	struct mqfq_entry *e;

	c->woken &= ~(1U << number);
	spin_lock(&q->lock);
	e = mqfq_take(q);
	spin_unlock(&q->lock);
	return e ? (int)(e - c->entry) : NOTHING;
}

static u32 woken(struct kunit *test)
{
	u32 mask = context(test)->woken;

	context(test)->woken = 0;
	return mask;
}

#endif /* MQFAIR_MQFQ_FIXTURE_H */
