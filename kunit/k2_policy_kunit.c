// SPDX-License-Identifier: GPL-2.0
/*
 * k2_policy_kunit.c - mq-k2's policy: order, bound, and when a release owes a wake-up
 *
 * Small tables say what is meant. A long random run against a naive twin finds the other cases. The
 * twin keeps one array in order of arrival and looks through all of it for every answer. So it
 * shares no idea with the code under test, only the meaning. The policy is compiled into this file:
 * the suite needs no other module, and runs in user space under sanitizers as well (kunit/hosted).
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../mq-k2/k2_policy.c"

enum {
	SEED		= 20211,
	NR_STEPS	= 50000,
	NR_ITEMS	= 64,
};

struct item {
	struct list_head entry;
	unsigned int id;
	unsigned int queue;
	u64 at_ns;
	bool queued;
	bool inflight;
};

struct context {
	struct k2_policy policy;
	struct item items[NR_ITEMS];
	/* The twin: queued items, oldest first, whatever their queue. */
	struct item *waiting[NR_ITEMS];
	unsigned int nr_waiting;
	unsigned int nr_inflight;
	unsigned int bound;
	u64 delay_ns;
	u64 now_ns;
	u32 random;
};

static struct context *context(struct kunit *test)
{
	return test->priv;
}

static int k2_policy_test_init(struct kunit *test)
{
	struct context *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	c->bound = 1;
	c->random = SEED;
	for (i = 0; i < NR_ITEMS; i++)
		c->items[i].id = i;
	k2_policy_init(&c->policy, c->bound);
	return 0;
}

static struct item *to_item(struct list_head *entry)
{
	return list_entry(entry, struct item, entry);
}

/* What the hooks do to send the next request, or NULL. */
static struct item *send_next(struct k2_policy *p, u64 now_ns)
{
	u64 be_at_ns = k2_policy_needs_time(p) ? to_item(k2_policy_be_head(p))->at_ns : 0;
	int queue = k2_policy_pick(p, now_ns, be_at_ns);
	struct list_head *entry = queue == K2_NO_QUEUE ? NULL : k2_policy_take(p, queue);

	return entry ? to_item(entry) : NULL;
}

/* ---- order, by table ---- */

struct order_param {
	const char *name;
	/*
	 * Arrivals: a digit is a queue, a digit after '^' is queued at the head. They are
	 * numbered a, b, c...
	 */
	const char *arrivals;
	const char *expected;
};

static const struct order_param order_params[] = {
	{ "nothing", "", "" },
	{ "one best effort", "8", "a" },
	{ "first in first out", "8888", "abcd" },
	{ "first in first out within a level", "3333", "abcd" },
	{ "level before level", "76543210", "hgfedcba" },
	{ "real time before best effort", "8787", "bdac" },
	{ "levels mixed", "8081028", "bedfacg" },
	{ "at head", "88^8", "cab" },
	{ "at head twice reverses", "8^8^8", "cba" },
	{ "at head does not pass a more urgent queue", "3^8^4", "acb" },
	{ "at head of an urgent queue", "44^48", "cabd" },
};

KUNIT_ARRAY_PARAM_DESC(order, order_params, name);

static void order_test(struct kunit *test)
{
	const struct order_param *param = test->param_value;
	struct context *c = context(test);
	unsigned int n = 0, sent = 0;
	const char *arrival;
	struct item *item;

	k2_policy_set_max_inflight(&c->policy, NR_ITEMS);
	for (arrival = param->arrivals; *arrival; arrival++) {
		bool at_head = *arrival == '^';

		arrival += at_head;
		k2_policy_insert(&c->policy, &c->items[n++].entry, *arrival - '0', at_head);
	}

	while ((item = send_next(&c->policy, 0))) {
		KUNIT_ASSERT_LT(test, sent, n);
		KUNIT_EXPECT_EQ_MSG(test, 'a' + item->id, (unsigned int)param->expected[sent],
				    "at position %u of \"%s\"", sent, param->expected);
		sent++;
	}
	KUNIT_EXPECT_EQ(test, sent, n);
	KUNIT_EXPECT_EQ(test, c->policy.nr_queued_total, 0U);
	KUNIT_EXPECT_EQ(test, c->policy.nonempty, 0U);
}

/* ---- be_max_delay, by table ---- */

struct delay_param {
	const char *name;
	u64 delay_ns;
	u64 be_at_ns;
	u64 now_ns;
	/* Levels with an entry in wait; best effort always has one. */
	u32 rt_mask;
	int expected;
};

static const struct delay_param delay_params[] = {
	{ "off, alone",			0,   0, 1000000, 0x00, K2_BE_QUEUE },
	{ "off, real time waits",	0,   0, 1000000, 0x80, 7 },
	{ "young",			100, 1000, 1050, 0x80, 7 },
	{ "just as old",		100, 1000, 1100, 0x80, 7 },
	{ "older",			100, 1000, 1101, 0x80, K2_BE_QUEUE },
	{ "older than level 0",		100, 1000, 1101, 0xff, K2_BE_QUEUE },
	{ "queued after now",		100, 2000, 1000, 0x01, 0 },
	{ "a minute",			60000000000ULL, 1, 60000000002ULL, 1, K2_BE_QUEUE },
};

KUNIT_ARRAY_PARAM_DESC(delay, delay_params, name);

static void delay_test(struct kunit *test)
{
	const struct delay_param *param = test->param_value;
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;
	unsigned int i;

	p->be_max_delay_ns = param->delay_ns;
	k2_policy_insert(p, &items[8].entry, K2_BE_QUEUE, false);
	for (i = 0; i < K2_NR_RT_QUEUES; i++)
		if (param->rt_mask & (1U << i))
			k2_policy_insert(p, &items[i].entry, i, false);

	KUNIT_EXPECT_EQ(test, k2_policy_pick(p, param->now_ns, param->be_at_ns), param->expected);
}

/* The oldest entry gets the next slot, not an extra one. */
static void overdue_without_slot_test(struct kunit *test)
{
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;

	p->be_max_delay_ns = 100;
	k2_policy_insert(p, &items[0].entry, 0, false);
	KUNIT_ASSERT_PTR_EQ(test, send_next(p, 0), &items[0]);
	k2_policy_insert(p, &items[8].entry, K2_BE_QUEUE, false);
	k2_policy_insert(p, &items[1].entry, 0, false);
	KUNIT_EXPECT_NULL(test, send_next(p, 1000));
	KUNIT_EXPECT_TRUE(test, k2_policy_release(p));
	KUNIT_EXPECT_PTR_EQ(test, send_next(p, 1000), &items[8]);
}

/* Only the best-effort queue has a deadline: without an entry there, the time is not needed. */
static void needs_time_test(struct kunit *test)
{
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;

	p->be_max_delay_ns = 1;
	k2_policy_insert(p, &items[0].entry, 0, false);
	KUNIT_EXPECT_FALSE(test, k2_policy_needs_time(p));
	k2_policy_insert(p, &items[1].entry, K2_BE_QUEUE, false);
	KUNIT_EXPECT_TRUE(test, k2_policy_needs_time(p));
	KUNIT_EXPECT_PTR_EQ(test, k2_policy_be_head(p), &items[1].entry);
	p->be_max_delay_ns = 0;
	KUNIT_EXPECT_FALSE(test, k2_policy_needs_time(p));
}

/* ---- the bound ---- */

struct bound_param {
	const char *name;
	unsigned int bound;
};

static const struct bound_param bound_params[] = {
	{ "1", 1 },
	{ "2", 2 },
	{ "7", 7 },
	{ "32", 32 },
	{ "more than there are", K2_MAX_INFLIGHT_MAX },
};

KUNIT_ARRAY_PARAM_DESC(bound, bound_params, name);

/*
 * Fill, look, drain: exactly bound entries go, each release but the ones that find room or nobody
 * wakes.
 */
static void bound_test(struct kunit *test)
{
	const struct bound_param *param = test->param_value;
	unsigned int n = min_t(unsigned int, param->bound, NR_ITEMS);
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;
	unsigned int i;

	k2_policy_set_max_inflight(p, param->bound);
	for (i = 0; i < NR_ITEMS; i++) {
		KUNIT_EXPECT_EQ(test, k2_policy_will_wait(p), i >= param->bound);
		k2_policy_insert(p, &items[i].entry, K2_BE_QUEUE, false);
	}
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_TRUE(test, k2_policy_has_work(p));
		KUNIT_ASSERT_PTR_EQ(test, send_next(p, 0), &items[i]);
	}
	KUNIT_EXPECT_FALSE(test, k2_policy_has_work(p));
	KUNIT_EXPECT_NULL(test, send_next(p, 0));
	KUNIT_EXPECT_EQ(test, (unsigned int)atomic_read(&p->inflight), n);

	/* The first release ends the full house; the second finds it ended. */
	KUNIT_EXPECT_EQ(test, k2_policy_release(p), n < NR_ITEMS);
	KUNIT_EXPECT_EQ(test, k2_policy_has_work(p), n < NR_ITEMS);
	if (n > 1)
		KUNIT_EXPECT_FALSE(test, k2_policy_release(p));
}

/* All slots are in use, no request waits: a release wakes nothing. */
static void release_without_waiters_test(struct kunit *test)
{
	struct k2_policy *p = &context(test)->policy;

	k2_policy_insert(p, &context(test)->items[0].entry, 5, false);
	KUNIT_ASSERT_NOT_NULL(test, send_next(p, 0));
	KUNIT_EXPECT_FALSE(test, k2_policy_release(p));
	KUNIT_EXPECT_EQ(test, atomic_read(&p->inflight), 0);
}

/* Entries pass all or none, never beyond the bound, and only while nothing waits. */
static void pass_test(struct kunit *test)
{
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;

	k2_policy_set_max_inflight(p, 4);
	KUNIT_EXPECT_FALSE(test, k2_policy_pass(p, 5));
	KUNIT_EXPECT_EQ(test, atomic_read(&p->inflight), 0);
	KUNIT_EXPECT_TRUE(test, k2_policy_pass(p, 3));
	KUNIT_EXPECT_EQ(test, atomic_read(&p->inflight), 3);
	KUNIT_EXPECT_FALSE(test, k2_policy_pass(p, 2));
	KUNIT_EXPECT_TRUE(test, k2_policy_pass(p, 1));
	KUNIT_EXPECT_FALSE(test, k2_policy_pass(p, 1));

	/* What passed is released as others are: the full house ends once. */
	k2_policy_insert(p, &items[0].entry, K2_BE_QUEUE, false);
	KUNIT_EXPECT_FALSE(test, k2_policy_has_work(p));
	KUNIT_EXPECT_TRUE(test, k2_policy_release(p));
	KUNIT_EXPECT_FALSE(test, k2_policy_release(p));
	KUNIT_EXPECT_FALSE(test, k2_policy_pass(p, 1));
	KUNIT_EXPECT_PTR_EQ(test, send_next(p, 0), &items[0]);
	KUNIT_EXPECT_TRUE(test, k2_policy_pass(p, 1));
}

static void bound_changes_test(struct kunit *test)
{
	struct k2_policy *p = &context(test)->policy;
	struct item *items = context(test)->items;
	unsigned int i;

	k2_policy_set_max_inflight(p, 4);
	for (i = 0; i < 8; i++)
		k2_policy_insert(p, &items[i].entry, K2_BE_QUEUE, false);
	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_NOT_NULL(test, send_next(p, 0));

	/*
	 * Lowered below what is in flight: nothing goes, and no release wakes, until there is
	 * room again.
	 */
	k2_policy_set_max_inflight(p, 2);
	KUNIT_EXPECT_FALSE(test, k2_policy_has_work(p));
	KUNIT_EXPECT_FALSE(test, k2_policy_release(p));
	KUNIT_EXPECT_FALSE(test, k2_policy_release(p));
	KUNIT_EXPECT_NULL(test, send_next(p, 0));
	KUNIT_EXPECT_TRUE(test, k2_policy_release(p));
	KUNIT_EXPECT_NOT_NULL(test, send_next(p, 0));
	KUNIT_EXPECT_NULL(test, send_next(p, 0));

	/* Raised: there is work at once. */
	k2_policy_set_max_inflight(p, 3);
	KUNIT_EXPECT_TRUE(test, k2_policy_has_work(p));
	KUNIT_EXPECT_NOT_NULL(test, send_next(p, 0));
	KUNIT_EXPECT_FALSE(test, k2_policy_has_work(p));
}

/* ---- the naive twin ---- */

static u32 draw(struct context *c, u32 below)
{
	c->random = c->random * 1664525u + 1013904223u;
	return (u32)(((u64)c->random * below) >> 32);
}

static struct item *twin_first(struct context *c, unsigned int queue)
{
	unsigned int i;

	for (i = 0; i < c->nr_waiting; i++)
		if (c->waiting[i]->queue == queue)
			return c->waiting[i];
	return NULL;
}

static struct item *twin_next(struct context *c)
{
	struct item *be = twin_first(c, K2_BE_QUEUE);
	unsigned int queue;

	if (c->nr_inflight >= c->bound)
		return NULL;
	if (be && c->delay_ns && c->now_ns > be->at_ns + c->delay_ns)
		return be;
	for (queue = 0; queue < K2_NR_QUEUES; queue++)
		if (twin_first(c, queue))
			return twin_first(c, queue);
	return NULL;
}

static void twin_remove(struct context *c, struct item *item)
{
	unsigned int i, kept = 0;

	for (i = 0; i < c->nr_waiting; i++)
		if (c->waiting[i] != item)
			c->waiting[kept++] = c->waiting[i];
	c->nr_waiting = kept;
	item->queued = false;
}

static void twin_insert(struct context *c, struct item *item, bool at_head)
{
	unsigned int i;

	if (at_head) {
		for (i = c->nr_waiting; i > 0; i--)
			c->waiting[i] = c->waiting[i - 1];
		c->waiting[0] = item;
	} else {
		c->waiting[c->nr_waiting] = item;
	}
	c->nr_waiting++;
	item->queued = true;
}

static void step_insert(struct kunit *test, struct context *c)
{
	struct item *item = &c->items[draw(c, NR_ITEMS)];
	bool at_head = !draw(c, 8);

	if (item->queued || item->inflight)
		return;
	item->queue = draw(c, K2_NR_QUEUES);
	item->at_ns = c->now_ns;
	KUNIT_EXPECT_EQ(test, k2_policy_will_wait(&c->policy),
			c->nr_waiting + c->nr_inflight >= c->bound);
	k2_policy_insert(&c->policy, &item->entry, item->queue, at_head);
	twin_insert(c, item, at_head);
}

static void step_pass(struct kunit *test, struct context *c)
{
	struct item *item = &c->items[draw(c, NR_ITEMS)];
	bool expected = !c->nr_waiting && c->nr_inflight < c->bound;

	if (item->queued || item->inflight)
		return;
	KUNIT_ASSERT_EQ(test, k2_policy_pass(&c->policy, 1), expected);
	item->inflight = expected;
	c->nr_inflight += expected;
}

static void step_remove(struct context *c)
{
	struct item *item = &c->items[draw(c, NR_ITEMS)];

	if (!item->queued)
		return;
	k2_policy_remove(&c->policy, &item->entry, item->queue);
	twin_remove(c, item);
}

static void step_send(struct kunit *test, struct context *c)
{
	struct item *expected = twin_next(c);
	struct item *item = send_next(&c->policy, c->now_ns);

	KUNIT_ASSERT_PTR_EQ(test, item, expected);
	if (!item)
		return;
	twin_remove(c, item);
	item->inflight = true;
	c->nr_inflight++;
}

static void step_release(struct kunit *test, struct context *c)
{
	struct item *item = &c->items[draw(c, NR_ITEMS)];
	bool owed = c->nr_inflight == c->bound && c->nr_waiting;

	if (!item->inflight)
		return;
	item->inflight = false;
	c->nr_inflight--;
	KUNIT_ASSERT_EQ(test, k2_policy_release(&c->policy), owed);
}

static void step_tune(struct context *c)
{
	if (draw(c, 2)) {
		c->bound = 1 + draw(c, 12);
		k2_policy_set_max_inflight(&c->policy, c->bound);
	} else {
		c->delay_ns = draw(c, 3) * 20;
		c->policy.be_max_delay_ns = c->delay_ns;
	}
}

static void check_against_twin(struct kunit *test, struct context *c)
{
	u32 nonempty = 0;
	unsigned int i;

	for (i = 0; i < c->nr_waiting; i++)
		nonempty |= 1U << c->waiting[i]->queue;
	KUNIT_ASSERT_EQ(test, c->policy.nonempty, nonempty);
	KUNIT_ASSERT_EQ(test, c->policy.nr_queued_total, c->nr_waiting);
	KUNIT_ASSERT_EQ(test, (unsigned int)atomic_read(&c->policy.inflight), c->nr_inflight);
	KUNIT_ASSERT_EQ(test, k2_policy_has_work(&c->policy),
			c->nr_waiting && c->nr_inflight < c->bound);
}

static void twin_test(struct kunit *test)
{
	struct context *c = context(test);
	unsigned int step;

	kunit_info(test, "seed %d, %d steps\n", SEED, NR_STEPS);
	for (step = 0; step < NR_STEPS; step++) {
		u32 what = draw(c, 100);

		c->now_ns += draw(c, 4);
		if (what < 8)
			step_pass(test, c);
		else if (what < 40)
			step_insert(test, c);
		else if (what < 45)
			step_remove(c);
		else if (what < 75)
			step_send(test, c);
		else if (what < 98)
			step_release(test, c);
		else
			step_tune(c);
		check_against_twin(test, c);
	}
}

static struct kunit_case k2_policy_cases[] = {
	KUNIT_CASE_PARAM(order_test, order_gen_params),
	KUNIT_CASE_PARAM(delay_test, delay_gen_params),
	KUNIT_CASE(overdue_without_slot_test),
	KUNIT_CASE(needs_time_test),
	KUNIT_CASE_PARAM(bound_test, bound_gen_params),
	KUNIT_CASE(release_without_waiters_test),
	KUNIT_CASE(pass_test),
	KUNIT_CASE(bound_changes_test),
	KUNIT_CASE(twin_test),
	{}
};

static struct kunit_suite k2_policy_suite = {
	.name = "k2_policy",
	.init = k2_policy_test_init,
	.test_cases = k2_policy_cases,
};

kunit_test_suite(k2_policy_suite);

MODULE_DESCRIPTION("KUnit suites of mqfair");
MODULE_LICENSE("GPL");
