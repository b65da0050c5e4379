// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_cost_kunit.c - the costs in device time that mq-mqfq learns, on a device with known ones
 *
 * A simulated device has dies. A request goes to one at random, a large one to several side by
 * side, each of which does one thing at a time. So a request truly costs what its dies are busy
 * for, over the number of dies. Tenants keep requests outstanding. Fair queueing by start tags
 * decides whose is next, with the costs that the law charges, and D requests are at the device.
 */
#include <kunit/test.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/string.h>

#include "../mq-mqfq/mqfq_cost.c"

enum {
	DIES		= 4,
	SLOTS		= 24,
	TENANTS_MAX	= 4,
	DEPTH		= 32,
	PAGE		= 16384,
	WINDOW_NS	= 10000000,
};

/* Requests of one kind and size, DEPTH of them outstanding. */
struct tenant {
	enum mqfq_cost_op op;
	u32 bytes;
	u64 tag[DEPTH];		/* of requests that wait: a ring */
	unsigned int first, nr;
	u64 finish;
	u64 served;		/* requests completed */
};

struct in_flight {
	u64 end;
	unsigned int tenant;
};

struct drive {
	struct mqfq_cost law;
	u64 now, vt, random;
	u64 die[DIES];		/* free from then on */
	u64 page_ns[MQFQ_COST_NR_OPS];
	u64 small_ns;		/* a read of less than a page */
	struct in_flight in_flight[SLOTS];
	unsigned int nr_in_flight;
	struct tenant tenant[TENANTS_MAX];
	unsigned int nr_tenants;
	struct mqfq_cost_counts counts;
	u64 window_end;
};

static u32 random_below(struct drive *d, u32 limit)
{
	d->random = d->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (d->random >> 32) * limit >> 32;
}

static u64 die_ns(const struct drive *d, const struct tenant *t)
{
	return t->op == MQFQ_COST_READ && t->bytes < PAGE ? d->small_ns : d->page_ns[t->op];
}

static unsigned int nr_pages(const struct tenant *t)
{
	return DIV_ROUND_UP(t->bytes, PAGE);
}

static u64 true_ns(const struct drive *d, unsigned int tenant)
{
	const struct tenant *t = &d->tenant[tenant];

	return die_ns(d, t) * nr_pages(t) / DIES;
}

static void submit(struct drive *d, unsigned int tenant)
{
	struct tenant *t = &d->tenant[tenant];
	u64 start = max(t->finish, d->vt);

	t->finish = start + mqfq_cost_charged(&d->law, t->op, t->bytes);
	t->tag[(t->first + t->nr++) % DEPTH] = start;
}

/* The tenant whose request is next, or -1. */
static int next_tenant(const struct drive *d)
{
	u64 least = U64_MAX;
	unsigned int i;
	int next = -1;

	for (i = 0; i < d->nr_tenants; i++) {
		const struct tenant *t = &d->tenant[i];

		if (t->nr && t->tag[t->first] < least) {
			least = t->tag[t->first];
			next = i;
		}
	}
	return next;
}

static void dispatch(struct drive *d, unsigned int tenant)
{
	struct tenant *t = &d->tenant[tenant];
	u32 first = random_below(d, DIES), page;
	u64 end = 0, *die;

	d->vt = t->tag[t->first];
	t->first = (t->first + 1) % DEPTH;
	t->nr--;
	for (page = 0; page < nr_pages(t); page++) {
		u64 ns = die_ns(d, t);

		die = &d->die[(first + page) % DIES];
		/* Five percent more or less. */
		*die = max(*die, d->now) + ns - ns / 20 + random_below(d, ns / 10 + 1);
		end = max(end, *die);
	}
	d->in_flight[d->nr_in_flight++] = (struct in_flight) { end, tenant };
}

static void end_request(struct drive *d)
{
	unsigned int i, first = 0, cell;
	struct in_flight done;
	struct tenant *t;

	for (i = 1; i < d->nr_in_flight; i++)
		if (d->in_flight[i].end < d->in_flight[first].end)
			first = i;
	done = d->in_flight[first];
	d->in_flight[first] = d->in_flight[--d->nr_in_flight];
	for (; d->window_end <= done.end; d->window_end += WINDOW_NS) {
		mqfq_cost_window(&d->law, WINDOW_NS, &d->counts, true);
		d->counts = (struct mqfq_cost_counts) {};
	}
	d->now = done.end;
	t = &d->tenant[done.tenant];
	cell = mqfq_cost_cell(t->op, t->bytes);
	d->counts.nr[cell]++;
	d->counts.bytes[cell] += t->bytes;
	t->served++;
	submit(d, done.tenant);
}

static void run_for_ms(struct drive *d, unsigned int ms)
{
	u64 end = d->now + (u64)ms * NSEC_PER_MSEC;
	int next;

	while (d->now < end) {
		while (d->nr_in_flight < SLOTS) {
			next = next_tenant(d);
			if (next < 0)
				break;
			dispatch(d, next);
		}
		end_request(d);
	}
}

static void add_tenant(struct drive *d, enum mqfq_cost_op op, u32 kb)
{
	struct tenant *t = &d->tenant[d->nr_tenants];
	unsigned int i;

	*t = (struct tenant) { .op = op, .bytes = kb << 10 };
	d->nr_tenants++;
	for (i = 0; i < DEPTH; i++)
		submit(d, d->nr_tenants - 1);
}

/* Reads, FUA writes and other writes take as long as on the default drive of ssdsim. */
static struct drive *new_drive(struct kunit *test)
{
	struct drive *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	d->random = 1;
	d->small_ns = 133000;
	d->page_ns[MQFQ_COST_READ] = 210000;
	d->page_ns[MQFQ_COST_WRITE] = 290000;
	d->page_ns[MQFQ_COST_FUA] = 1100000;
	d->window_end = WINDOW_NS;
	mqfq_cost_init(&d->law);
	return d;
}

/* What is learned of a tenant's requests, in percent of the truth. */
static u64 learned_pct(const struct drive *d, unsigned int tenant)
{
	const struct tenant *t = &d->tenant[tenant];

	return mqfq_cost_ns(&d->law, t->op, t->bytes) * 100 / true_ns(d, tenant);
}

/*
 * Dies are idle at times, so a request takes somewhat more of the device's time than of its dies'.
 * What counts is that this is so for all alike.
 */
static void expect_learned(struct kunit *test, const struct drive *d, unsigned int within_pct)
{
	u64 least = U64_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < d->nr_tenants; i++) {
		least = min(least, learned_pct(d, i));
		most = max(most, learned_pct(d, i));
	}
	KUNIT_EXPECT_GE_MSG(test, least * 100, most * (100 - within_pct), "%llu to %llu%%", least,
			    most);
	KUNIT_EXPECT_GE(test, least, 90);
	KUNIT_EXPECT_LE(test, most, 165);
}

/* What tenants had of the device's time, in the last @ms: the least, in percent of the most. */
static u64 least_pct(struct drive *d, unsigned int ms)
{
	u64 least = U64_MAX, most = 0, time;
	unsigned int i;

	for (i = 0; i < d->nr_tenants; i++)
		d->tenant[i].served = 0;
	run_for_ms(d, ms);
	for (i = 0; i < d->nr_tenants; i++) {
		time = d->tenant[i].served * true_ns(d, i);
		least = min(least, time);
		most = max(most, time);
	}
	return least * 100 / most;
}

/* ---- tests ---- */

static void begins_with_bytes_test(struct kunit *test)
{
	static const u32 bytes[] = { 512, 4096, 8192, 8193, 65536, 131072, 1 << 20, U32_MAX };
	struct drive *d = new_drive(test);
	enum mqfq_cost_op op;
	unsigned int i;

	for (op = 0; op < MQFQ_COST_NR_OPS; op++)
		for (i = 0; i < ARRAY_SIZE(bytes); i++) {
			/* But a FUA write is taken to be dear. */
			KUNIT_EXPECT_EQ(test, mqfq_cost_of(&d->law, op, bytes[i]),
					(op == MQFQ_COST_FUA ? 4ULL : 1ULL) * bytes[i]);
			KUNIT_EXPECT_EQ(test, mqfq_cost_ns(&d->law, op, bytes[i]), 0);
		}
}

static void cells_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 1), 0);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 8192), 0);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 8193), 1);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 32768), 1);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 32769), 2);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 131072), 2);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_READ, 131073), 3);
	KUNIT_EXPECT_EQ(test, mqfq_cost_cell(MQFQ_COST_FUA, U32_MAX), MQFQ_COST_NR_CELLS - 1);
}

/* Reads of 4 KiB beside requests of another kind: what they cost is learned, and time is shared. */
static void expect_shared(struct kunit *test, enum mqfq_cost_op op, u32 kb)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, op, kb);
	run_for_ms(d, 5000);
	expect_learned(test, d, 10);
	KUNIT_EXPECT_GE(test, least_pct(d, 5000), 85);
}

static void sizes_test(struct kunit *test)
{
	expect_shared(test, MQFQ_COST_READ, 256);
}

static void writes_test(struct kunit *test)
{
	expect_shared(test, MQFQ_COST_WRITE, 16);
}

static void fua_test(struct kunit *test)
{
	expect_shared(test, MQFQ_COST_FUA, 16);
}

static void four_kinds_test(struct kunit *test)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 64);
	add_tenant(d, MQFQ_COST_WRITE, 16);
	add_tenant(d, MQFQ_COST_FUA, 16);
	run_for_ms(d, 5000);
	expect_learned(test, d, 25);
	KUNIT_EXPECT_GE(test, least_pct(d, 5000), 75);
}

/* The control: with bytes instead of time, the tenant of dear requests has most of it. */
static void bytes_test(struct kunit *test)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 256);
	/* Windows that are never full teach nothing. */
	d->window_end = U64_MAX;
	KUNIT_EXPECT_LE(test, least_pct(d, 5000), 50);
}

/* The device begins to collect garbage: writes take ten times as long. */
static void follows_test(struct kunit *test)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_WRITE, 16);
	run_for_ms(d, 5000);
	d->page_ns[MQFQ_COST_WRITE] *= 10;
	run_for_ms(d, 15000);
	expect_learned(test, d, 35);
}

/* Writes become somewhat slower, which surprises nobody: the old equations fade. */
static void drift_test(struct kunit *test)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_WRITE, 16);
	run_for_ms(d, 30000);
	d->page_ns[MQFQ_COST_WRITE] = d->page_ns[MQFQ_COST_WRITE] * 14 / 10;
	run_for_ms(d, 20000);
	expect_learned(test, d, 12);
}

/* Another tenant comes, with requests of a kind that has not been there. */
static void newcomer_test(struct kunit *test)
{
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 64);
	run_for_ms(d, 3000);
	add_tenant(d, MQFQ_COST_FUA, 16);
	run_for_ms(d, 2000);
	expect_learned(test, d, 25);
}

/* A request that nobody has sent costs something between what is known. */
static void guesses_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	u64 small, large;

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 256);
	run_for_ms(d, 3000);
	small = mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096);
	large = mqfq_cost_ns(&d->law, MQFQ_COST_READ, 256 << 10);
	KUNIT_EXPECT_GT(test, mqfq_cost_ns(&d->law, MQFQ_COST_READ, 64 << 10), small);
	KUNIT_EXPECT_LT(test, mqfq_cost_ns(&d->law, MQFQ_COST_READ, 64 << 10), large);
	KUNIT_EXPECT_GT(test, mqfq_cost_of(&d->law, MQFQ_COST_READ, 8192),
			mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096));
	KUNIT_EXPECT_GT(test, mqfq_cost_of(&d->law, MQFQ_COST_READ, 64 << 10),
			mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096));
	KUNIT_EXPECT_GT(test, mqfq_cost_of(&d->law, MQFQ_COST_FUA, 16 << 10),
			3 * mqfq_cost_of(&d->law, MQFQ_COST_READ, 16 << 10));
	KUNIT_EXPECT_GE(test, mqfq_cost_of(&d->law, MQFQ_COST_WRITE, 16 << 10),
			mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096));
}

/* What is charged is varied, but right on the whole; and one kind alone is not varied. */
static void varies_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	u64 sum = 0, mean;
	unsigned int i;

	add_tenant(d, MQFQ_COST_READ, 4);
	run_for_ms(d, 2000);
	KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_charged(&d->law, MQFQ_COST_READ, 4096), 4096ULL),
			41);
	add_tenant(d, MQFQ_COST_READ, 256);
	run_for_ms(d, 4000);
	for (i = 0; i < 16; i++) {
		u64 cost = mqfq_cost_charged(&d->law, MQFQ_COST_READ, 4096);
		u32 step = d->law.nr_steps;

		sum += cost;
		mean = mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096) * d->law.all_bytes /
		       d->law.all_ns;
		KUNIT_EXPECT_GE(test, abs_diff(cost, mean) * 100, mean * 12);
		cost = mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096);
		KUNIT_EXPECT_LE(test, abs_diff(cost, mean) * 100, mean);
		while (d->law.nr_steps == step)
			run_for_ms(d, 10);
	}
	mean = mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096) * d->law.all_bytes / d->law.all_ns;
	KUNIT_EXPECT_LE(test, abs_diff(sum / 16, mean) * 100, mean * 5);
}

/* What is more and what is less takes turns also while nothing is learned. */
static void turns_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	u64 sum = 0, known;
	unsigned int i;

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 256);
	run_for_ms(d, 4000);
	known = mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096);
	for (i = 0; i < 400; i++) {
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, false);
		sum += mqfq_cost_charged(&d->law, MQFQ_COST_READ, 4096);
	}
	KUNIT_EXPECT_LE(test, abs_diff(sum / 400, known) * 100, known);
}

/* What was served as it was charged is, as costs are known, the same in each step. */
static void unvaried_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	u64 known, served, least = U64_MAX, most = 0;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, mqfq_cost_unvaried(&d->law, &counts, 12345), 12345ULL);
	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_READ, 256);
	run_for_ms(d, 4000);
	counts.nr[0] = 640;
	counts.bytes[0] = 640 * 4096;
	counts.nr[3] = 10;
	counts.bytes[3] = 10 * (256 << 10);
	for (i = 0; i < 16; i++) {
		u32 step = d->law.nr_steps;

		served = 640 * mqfq_cost_charged(&d->law, MQFQ_COST_READ, 4096) +
			 10 * mqfq_cost_charged(&d->law, MQFQ_COST_READ, 256 << 10);
		known = 640 * mqfq_cost_of(&d->law, MQFQ_COST_READ, 4096) +
			10 * mqfq_cost_of(&d->law, MQFQ_COST_READ, 256 << 10);
		KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_unvaried(&d->law, &counts, served), known),
				1ULL);
		least = min(least, served);
		most = max(most, served);
		while (d->law.nr_steps == step)
			run_for_ms(d, 10);
	}
	/* It would say nothing if the pattern did not show. */
	KUNIT_EXPECT_GE(test, (most - least) * 10, least);
}

/* What is counted in a step: a larger request costs no less than a smaller, no more per byte. */
static void expect_in_order(struct kunit *test, const struct drive *d, const u64 *seen)
{
	unsigned int i;

	for (i = 0; i < MQFQ_COST_NR_CELLS - 1; i++) {
		u64 ns_x8 = d->law.cell[i].ns_x8, larger_ns_x8 = d->law.cell[i + 1].ns_x8;

		if (i % MQFQ_COST_NR_SIZES == MQFQ_COST_NR_SIZES - 1 ||
		    seen[i] < MQFQ_COST_FIT_REQUESTS || seen[i + 1] < MQFQ_COST_FIT_REQUESTS)
			continue;
		KUNIT_EXPECT_GE(test, larger_ns_x8, ns_x8 * 99 / 100);
		KUNIT_EXPECT_LE(test, larger_ns_x8, ns_x8 * 405 / 100);
	}
}

static void noise_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	u64 seen[MQFQ_COST_NR_CELLS] = {};
	unsigned int i, window;

	for (window = 0; window < 2000; window++) {
		u32 step = d->law.nr_steps;

		for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
			counts.nr[i] = random_below(d, 2) * random_below(d, 1000);
			counts.bytes[i] = counts.nr[i] * mqfq_cost_middle(i);
			seen[i] += counts.nr[i];
		}
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
		if (d->law.nr_steps == step)
			continue;
		expect_in_order(test, d, seen);
		memset(seen, 0, sizeof(seen));
	}
	KUNIT_EXPECT_GT(test, d->law.nr_steps, 50);
}

/* A device that could do more tells nothing of costs. */
static void not_full_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = { .nr = { 1000 }, .bytes = { 4096000 } };
	unsigned int window;

	for (window = 0; window < 100; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, false);
	KUNIT_EXPECT_EQ(test, d->law.nr_steps, 0);
	KUNIT_EXPECT_EQ(test, mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096), 0);
	for (window = 0; window < 100; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096), 10000ULL), 1);
}

/* A kind of request that is not sent for minutes costs what it did. */
static void pause_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	u64 before, after;
	unsigned int window;

	for (window = 0; window < 1000; window++) {
		counts.nr[0] = window / 10 % 2 ? 160 : 120;
		counts.nr[5] = window / 10 % 2 ? 24 : 32;
		counts.bytes[0] = counts.nr[0] * 4096;
		counts.bytes[5] = counts.nr[5] * 16384;
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	}
	before = mqfq_cost_ns(&d->law, MQFQ_COST_WRITE, 16384);
	KUNIT_EXPECT_GE(test, before, 100000);
	counts.nr[0] = 280;
	counts.bytes[0] = 280 * 4096;
	counts.nr[5] = 0;
	counts.bytes[5] = 0;
	for (window = 0; window < 20000; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	after = mqfq_cost_ns(&d->law, MQFQ_COST_WRITE, 16384);
	KUNIT_EXPECT_LE(test, abs_diff(before, after) * 10, before);
	/* One now and then tells nothing either. */
	for (window = 0; window < 20000; window++) {
		counts.nr[5] = window % 100 == 0;
		counts.bytes[5] = counts.nr[5] * 16384;
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	}
	after = mqfq_cost_ns(&d->law, MQFQ_COST_WRITE, 16384);
	KUNIT_EXPECT_LE(test, abs_diff(before, after) * 10, before);
}

/* Seconds in which the device was busy with discards alone are no time of reads. */
static void uncounted_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	unsigned int window;

	for (window = 0; window < 500; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	counts.nr[0] = 100;
	counts.bytes[0] = 100 * 4096;
	for (window = 0; window < 10; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096), 100000ULL),
			5000);
}

/* A CPU counts a request, and then its bytes: a window may end between the two. */
static void torn_test(struct kunit *test)
{
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = { .nr = { 1000, 0, 1 }, .bytes = { 512000 } };
	unsigned int window;

	for (window = 0; window < 50; window++)
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
	KUNIT_EXPECT_GT(test, d->law.cell[2].bytes, 32768);
	KUNIT_EXPECT_GE(test, mqfq_cost_ns(&d->law, MQFQ_COST_READ, 16384),
			mqfq_cost_ns(&d->law, MQFQ_COST_READ, 512));
}

/* Numbers at both ends do not overflow: a very fast device, a very slow one, both kinds at once. */
static void extremes_test(struct kunit *test)
{
	static const u64 per_second[][2] = { { 5000000, 40000 }, { 400, 40 }, { 5000000, 10 } };
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	unsigned int i, window;
	u64 used_ns;

	for (i = 0; i < ARRAY_SIZE(per_second); i++) {
		mqfq_cost_init(&d->law);
		for (window = 0; window < 200; window++) {
			counts.nr[0] = per_second[i][0] / (window % 2 ? 20 : 18);
			counts.nr[3] = per_second[i][1] / (window % 2 ? 18 : 20);
			counts.bytes[0] = counts.nr[0] * 4096;
			counts.bytes[3] = counts.nr[3] << 20;
			mqfq_cost_window(&d->law, 50000000, &counts, true);
		}
		used_ns = per_second[i][0] * d->law.cell[0].ns_x8 / 8 +
			  per_second[i][1] * d->law.cell[3].ns_x8 / 8;
		KUNIT_EXPECT_LE(test, abs_diff(used_ns, (u64)NSEC_PER_SEC), NSEC_PER_SEC / 5);
	}
}

/* What the drive's requests of one operation truly cost, by size, times @factor over @part. */
static void true_costs(struct drive *d, enum mqfq_cost_op op, u32 factor, u32 part, u32 *ns)
{
	unsigned int i;

	for (i = 0; i < MQFQ_COST_NR_SIZES; i++) {
		d->tenant[0] = (struct tenant) { .op = op, .bytes = 4096 << 2 * i };
		ns[i] = clamp_t(u64, true_ns(d, 0) * factor / part, MQFQ_COST_NS_MIN,
				MQFQ_COST_NS_MAX);
	}
}

static void set_true_costs(struct drive *d, u32 factor, u32 part)
{
	u32 ns[MQFQ_COST_NR_SIZES];
	enum mqfq_cost_op op;

	for (op = 0; op < MQFQ_COST_NR_OPS; op++) {
		true_costs(d, op, factor, part, ns);
		mqfq_cost_set(&d->law, op, ns);
	}
}

/* Time is shared from the first request on, and what was set may be read back. */
static void set_test(struct kunit *test)
{
	static const u32 none[MQFQ_COST_NR_SIZES];
	u32 want[MQFQ_COST_NR_SIZES], ns[MQFQ_COST_NR_SIZES];
	struct drive *d = new_drive(test);
	unsigned int i;
	u32 large_ns;

	set_true_costs(d, 1, 1);
	true_costs(d, MQFQ_COST_READ, 1, 1, want);
	large_ns = want[3];
	true_costs(d, MQFQ_COST_FUA, 1, 1, want);
	mqfq_cost_get(&d->law, MQFQ_COST_FUA, ns);
	for (i = 0; i < MQFQ_COST_NR_SIZES; i++)
		KUNIT_EXPECT_EQ(test, ns[i], want[i]);
	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_FUA, 16);
	KUNIT_EXPECT_GE(test, least_pct(d, 500), 85);
	run_for_ms(d, 4500);
	expect_learned(test, d, 10);
	/* What is not sent keeps its cost. */
	mqfq_cost_get(&d->law, MQFQ_COST_READ, ns);
	KUNIT_EXPECT_EQ(test, ns[3], large_ns);
	mqfq_cost_set(&d->law, MQFQ_COST_FUA, none);
	mqfq_cost_get(&d->law, MQFQ_COST_FUA, ns);
	KUNIT_EXPECT_EQ(test, ns[1], 0);
	/* The others stay. */
	KUNIT_EXPECT_GE(test, learned_pct(d, 0), 90);
	run_for_ms(d, 5000);
	expect_learned(test, d, 15);
}

/* FUA writes alone are known: reads are taken to be cheaper. */
static void set_fua_test(struct kunit *test)
{
	static const u32 ns[] = { 275000, 275000, 1100000, 4400000 };
	struct drive *d = new_drive(test);

	mqfq_cost_set(&d->law, MQFQ_COST_FUA, ns);
	KUNIT_EXPECT_GE(test, mqfq_cost_of(&d->law, MQFQ_COST_FUA, 16384),
			3 * mqfq_cost_of(&d->law, MQFQ_COST_READ, 16384));
}

/* What is set while the law learns holds at once, too. */
static void set_later_test(struct kunit *test)
{
	u32 ns[MQFQ_COST_NR_SIZES] = { 0 };
	struct drive *d = new_drive(test);

	add_tenant(d, MQFQ_COST_READ, 4);
	add_tenant(d, MQFQ_COST_WRITE, 16);
	run_for_ms(d, 10000);
	d->page_ns[MQFQ_COST_WRITE] *= 4;
	ns[1] = true_ns(d, 1);
	mqfq_cost_set(&d->law, MQFQ_COST_WRITE, ns);
	run_for_ms(d, 50);
	KUNIT_EXPECT_GE(test, least_pct(d, 2000), 85);
	expect_learned(test, d, 15);
}

/* A fast device whose requests were said to be slow: numbers do not overflow. */
static void set_slow_test(struct kunit *test)
{
	static const u32 slow[] = { MQFQ_COST_NS_MAX, MQFQ_COST_NS_MAX, 0, 0 };
	struct drive *d = new_drive(test);
	struct mqfq_cost_counts counts = {};
	unsigned int window;

	mqfq_cost_set(&d->law, MQFQ_COST_READ, slow);
	mqfq_cost_set(&d->law, MQFQ_COST_WRITE, slow);
	for (window = 0; window < 1000; window++) {
		counts.nr[0] = window / 25 % 2 ? 50000 : 40000;
		counts.nr[5] = window / 25 % 2 ? 0 : 5000;
		counts.bytes[0] = counts.nr[0] * 4096;
		counts.bytes[5] = counts.nr[5] * 16384;
		mqfq_cost_window(&d->law, WINDOW_NS, &counts, true);
		if (d->law.nr_steps)
			KUNIT_EXPECT_LE(test, mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096), 1000);
	}
	KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_ns(&d->law, MQFQ_COST_READ, 4096), 200ULL), 10);
	KUNIT_EXPECT_LE(test, abs_diff(mqfq_cost_ns(&d->law, MQFQ_COST_WRITE, 16384), 400ULL), 20);
}

/* If another device was measured, this is forgotten in seconds. */
static void set_wrongly_test(struct kunit *test)
{
	static const u32 ratio[][2] = { { 2, 1 }, { 1, 2 }, { 100000, 1 }, { 1, 1000000 } };
	struct drive *d;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ratio); i++) {
		u32 ns[MQFQ_COST_NR_SIZES];

		d = new_drive(test);
		set_true_costs(d, 1, 1);
		true_costs(d, MQFQ_COST_WRITE, ratio[i][0], ratio[i][1], ns);
		mqfq_cost_set(&d->law, MQFQ_COST_WRITE, ns);
		add_tenant(d, MQFQ_COST_READ, 4);
		add_tenant(d, MQFQ_COST_WRITE, 16);
		run_for_ms(d, 10000);
		expect_learned(test, d, 20);
	}
}

static struct kunit_case mqfq_cost_cases[] = {
	KUNIT_CASE(begins_with_bytes_test),
	KUNIT_CASE(cells_test),
	KUNIT_CASE(sizes_test),
	KUNIT_CASE(writes_test),
	KUNIT_CASE(fua_test),
	KUNIT_CASE(four_kinds_test),
	KUNIT_CASE(bytes_test),
	KUNIT_CASE(follows_test),
	KUNIT_CASE(drift_test),
	KUNIT_CASE(newcomer_test),
	KUNIT_CASE(guesses_test),
	KUNIT_CASE(varies_test),
	KUNIT_CASE(turns_test),
	KUNIT_CASE(unvaried_test),
	KUNIT_CASE(noise_test),
	KUNIT_CASE(not_full_test),
	KUNIT_CASE(pause_test),
	KUNIT_CASE(uncounted_test),
	KUNIT_CASE(torn_test),
	KUNIT_CASE(extremes_test),
	KUNIT_CASE(set_test),
	KUNIT_CASE(set_fua_test),
	KUNIT_CASE(set_later_test),
	KUNIT_CASE(set_slow_test),
	KUNIT_CASE(set_wrongly_test),
	{}
};

static struct kunit_suite mqfq_cost_suite = {
	.name		= "mqfq_cost",
	.test_cases	= mqfq_cost_cases,
};

kunit_test_suite(mqfq_cost_suite);
