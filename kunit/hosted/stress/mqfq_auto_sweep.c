// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_sweep.c - the T and D that mq-mqfq finds, against all fixed values
 *
 *	mqfq_auto_sweep			KTAP on standard output
 *	mqfq_auto_sweep long [WORLD]	all values and beginnings; only the world of that number
 *
 * The policy as it is runs between simulated tenants and a simulated device: events in a heap, a
 * seed, no clock. Each tenant keeps a number of requests outstanding, and may need some time, alone
 * or one after another, before the next one follows one that is done. A hardware queue has a CPU,
 * which takes some time for each request, and for the wake-up of a queue by another one. The device
 * has dies: a request goes to one at random, or to the first that is free, and then over a bus that
 * all share.
 *
 * Each world first runs for a moment with every pair of a D and a T. A setting is fair if its
 * Jain's index is within 0.01 of the best. The best setting is the fair one with the most bytes per
 * second. Without fairness there is no best: on a device that serves requests, a setting that lets
 * large ones displace small ones has the most bytes. Then the same world runs while mq-mqfq
 * searches both values, from the defaults and from far too little; the long run also starts from
 * far too much. After SETTLE_MS (twice that from far too much), over all values tried later, there
 * must be
 *
 *  - at least 97% of the best fixed setting's throughput,
 *  - a Jain's index that is not lower by more than 0.01,
 *  - no value more than one step from where the others were: it is stable.
 *
 * A world with two loads changes its load before all this, after the first one was learned.
 *
 * Other worlds say how soon it is fair as it comes, with few requests outstanding and with many.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../../../mq-mqfq/mqfq_permit.c"
#include "../../../mq-mqfq/mqfq_policy.c"
#include "../../../mq-mqfq/mqfq_rescale.c"
#include "../../../mq-mqfq/mqfq_rt.c"
#include "../../../mq-mqfq/mqfq_slots.c"
#include "../../../mq-mqfq/mqfq_stuck.c"
#include "../../../mq-mqfq/mqfq_auto.c"
#include "../../../mq-mqfq/mqfq_auto_leg.c"

enum {
	QUEUES_MAX	= 16,
	FLOWS_MAX	= 256,
	DIES_MAX	= 256,
	REQUESTS_MAX	= 8192,
	KB_SHIFT	= 10 + VT_SHIFT,
	EVENTS_MAX	= 3 * REQUESTS_MAX,
	OPEN_SLOTS	= 4096,

	FIXED_RAMP_MS	= 50,
	FIXED_MS	= 150,
	LEARN_MS	= 5000,
	SETTLE_MS	= 10000,
	MEASURE_MS	= 5000,
	NS_PER_MS	= 1000000,

	START_KB	= 64,
	START_LEARN_MS	= 3000,
	START_SETTLE_MS	= 1000,
	START_MEASURE_MS = 2000,
	START_SEEDS	= 4,
};

#include "events.h"

#define START_SHARE	0.95
#define START_PART	0.92

struct tenants {
	unsigned int nr, depth, kb, weight;
	bool write;
};

struct world {
	const char *name;
	unsigned int nr_queues, nr_dies;
	bool first_free;		/* the device gives a request to the first free die */
	bool striped;			/* a request's pages of 16 KiB are on dies side by side */
	bool unbound;			/* nothing to be fair about: all that counts is the total */
	unsigned int read_us, write_us;	/* of a die, for 4 KiB; and as much for each further 16 */
	unsigned int bus_mbps;
	unsigned int cache_mbps;	/* writes go to a cache, which takes so much; 0: to dies */
	unsigned int cpu_ns, wake_ns;	/* a request's; until a queue that is woken runs, */
	unsigned int woken_cpu_ns;	/* and what that costs its CPU */
	bool stays;			/* a tenant has one queue */
	struct tenants tenants[2];
	struct tenants later[2];	/* after LEARN_MS, if there are any */
	/* A tenant's, per request; and until it hears that one is done. */
	unsigned int task_ns, back_ns;
	bool rising;			/* each tenant's weight is one more than the last one's */
	unsigned int come_ms;		/* tenants come one after the other, in so much time */
	double part;			/* of the best; 0: START_PART */
	double share;			/* of its own that each has; 0: START_SHARE */
	bool apart;			/* the first tenant competes for nothing but slots */
};

/* Reads of 16 KiB or less per die take as long as on the default drive of ssdsim. */
#define FEW_DIES								\
	.nr_queues = 4, .nr_dies = 4, .striped = true, .read_us = 107, .bus_mbps = 1000,	\
	.cpu_ns = 8000, .wake_ns = 8000
#define MANY_DIES								\
	.nr_queues = 4, .nr_dies = 64, .striped = true, .read_us = 107, .bus_mbps = 8000,	\
	.cpu_ns = 1000, .wake_ns = 5000

/* A large drive whose times are all longer: ssdsim's profile pcie4 with stretch=32. */
#define SLOW_DIES								\
	.nr_queues = 16, .nr_dies = 45, .read_us = 1400, .bus_mbps = 200,	\
	.cpu_ns = 8000, .wake_ns = 8000

/* A request takes long, and a second has few of each of many flows. */
#define SLOW_READS								\
	.nr_queues = 4, .nr_dies = 4, .striped = true, .read_us = 430, .bus_mbps = 1000,	\
	.cpu_ns = 8000, .wake_ns = 8000

/* With few requests outstanding, some of them are on their way and not here. */
#define TAKES_TIME	.stays = true, .task_ns = 15000, .back_ns = 20000

#define START(label, dies, depth, kb, kb_beside, weight, weight_beside, ...)	\
	{ dies, .name = label,							\
	  .tenants = { { 1, depth, kb, weight }, { 1, depth, kb_beside, weight_beside } },	\
	  __VA_ARGS__ }

/* The first tenant reads, beside one that writes to a cache: they compete for slots alone. */
#define BESIDE_WRITES(label, depth, nr_writes, write_kb)					\
	{ SLOW_READS, .name = label, .unbound = true, .cache_mbps = 50, .apart = true,		\
	  .tenants = { { 1, depth, 4, 100 }, { 1, nr_writes, write_kb, 100, true } } }

static const struct world starts[] = {
	START("as it comes: 8k:96k, 2 x 8", FEW_DIES, 8, 8, 96, 100, 100),
	START("as it comes: 8k:96k, 2 x 16", FEW_DIES, 16, 8, 96, 100, 100),
	START("as it comes: 8k:96k, 2 x 32", FEW_DIES, 32, 8, 96, 100, 100),
	START("as it comes: 8k:96k, 2 x 512", FEW_DIES, 512, 8, 96, 100, 100),
	{ FEW_DIES, .name = "as it comes: 8k:96k, 4 x 8",
	  .tenants = { { 2, 8, 8, 100 }, { 2, 8, 96, 100 } } },
	START("as it comes: 4k:256k, 2 x 8", FEW_DIES, 8, 4, 256, 100, 100),
	START("as it comes: 4k:256k, 2 x 32", FEW_DIES, 32, 4, 256, 100, 100),
	START("as it comes: 4k:256k, 2 x 256", FEW_DIES, 256, 4, 256, 100, 100),
	START("as it comes: weights 1:10, 2 x 8", FEW_DIES, 8, 4, 4, 100, 1000),
	START("as it comes: weights 1:10, 2 x 16", FEW_DIES, 16, 4, 4, 100, 1000),
	START("as it comes: weights 1:10, 2 x 64", FEW_DIES, 64, 4, 4, 100, 1000),
	START("as it comes: weights 1:10, 2 x 512", FEW_DIES, 512, 4, 4, 100, 1000),
	START("as it comes: weights 2:5, 2 x 8", FEW_DIES, 8, 4, 4, 100, 250),
	{ FEW_DIES, .name = "as it comes: weights 1:7, 4 x 8",
	  .tenants = { { 2, 8, 4, 100 }, { 2, 8, 4, 700 } } },
	START("equal, then 8k:96k, 2 x 16", FEW_DIES, 16, 8, 8, 100, 100,
	      .later = { { 1, 16, 8, 100 }, { 1, 16, 96, 100 } }),
	START("deep, then 8k:96k, 2 x 8", FEW_DIES, 128, 8, 8, 100, 100,
	      .later = { { 1, 8, 8, 100 }, { 1, 8, 96, 100 } }),
	START("64 dies, 8k:96k, 2 x 8", MANY_DIES, 8, 8, 96, 100, 100),
	START("64 dies, 8k:96k, 2 x 256", MANY_DIES, 256, 8, 96, 100, 100),
	START("64 dies with time to spare, weights 1:10", MANY_DIES, 8, 4, 4, 100, 1000,
	      .unbound = true),
	START("a queue each: weights 1:10, 2 x 8", FEW_DIES, 8, 4, 4, 100, 1000, .stays = true),
	START("a queue each: weights 1:10, 2 x 32", FEW_DIES, 32, 4, 4, 100, 1000, .stays = true),
	START("a queue each: 8k:96k, 2 x 8", FEW_DIES, 8, 8, 96, 100, 100, .stays = true),
	START("a queue each: 8k:96k, 2 x 32", FEW_DIES, 32, 8, 96, 100, 100, .stays = true),
	START("a queue each: 4k:256k, 2 x 8", FEW_DIES, 8, 4, 256, 100, 100, .stays = true),
	START("tasks that take time: 8k:96k, 2 x 8", FEW_DIES, 8, 8, 96, 100, 100, TAKES_TIME),
	START("tasks that take time: 4k:256k, 2 x 8", FEW_DIES, 8, 4, 256, 100, 100, TAKES_TIME),
	START("tasks that take time: weights 1:10, 2 x 8", FEW_DIES, 8, 4, 4, 100, 1000,
	      TAKES_TIME),
	START("tasks that take time: weights 1:10, 2 x 32", FEW_DIES, 32, 4, 4, 100, 1000,
	      TAKES_TIME),
	{ .name = "one slow die, 4k x 64 beside 64k x 96",
	  .nr_queues = 4, .nr_dies = 1, .striped = true, .read_us = 214, .bus_mbps = 1000,
	  .cpu_ns = 8000, .wake_ns = 8000,
	  .tenants = { { 1, 64, 4, 100 }, { 1, 96, 64, 100 } } },
	{ FEW_DIES, .name = "as it comes: weights 1 to 16, 16 x 32", .rising = true,
	  .tenants = { { 16, 32, 4, 100 } } },
	/* D and T hide each other's knee here, and some seeds stop halfway. */
	{ SLOW_DIES, .name = "slow dies: weights 1 to 16, 16 x 32", .rising = true, .part = 0.85,
	  .share = 0.92, .tenants = { { 16, 32, 4, 100 } } },
	{ SLOW_READS, .name = "many flows: weights 1:2, 16 x 16",
	  .tenants = { { 8, 16, 4, 100 }, { 8, 16, 4, 200 } } },
	{ SLOW_READS, .name = "many flows: weights 1:2, 64 x 6",
	  .tenants = { { 32, 6, 4, 100 }, { 32, 6, 4, 200 } } },
	{ SLOW_READS, .name = "many flows: weights 1:4, 40 x 6",
	  .tenants = { { 20, 6, 4, 100 }, { 20, 6, 4, 400 } }, .part = 0.96 },
	{ SLOW_READS, .name = "many flows: weights 1:4, 64 x 3",
	  .tenants = { { 32, 3, 4, 100 }, { 32, 3, 4, 400 } } },
	{ SLOW_READS, .name = "many flows: weights 1:2, 256 x 2",
	  .tenants = { { 128, 2, 4, 100 }, { 128, 2, 4, 200 } } },
	{ FEW_DIES, .name = "many flows: weights 1:2, 64 x 6, a fast drive",
	  .tenants = { { 32, 6, 4, 100 }, { 32, 6, 4, 200 } } },
	{ SLOW_READS, .name = "they come within half a second: 64 x 6", .come_ms = 500,
	  .tenants = { { 64, 6, 4, 100 } }, .part = 0.96 },
	{ SLOW_READS, .name = "they come within half a second: weights 1:2, 64 x 6",
	  .come_ms = 500, .tenants = { { 32, 6, 4, 100 }, { 32, 6, 4, 200 } }, .part = 0.96 },
	BESIDE_WRITES("one read at a time beside writes of 64 KiB", 1, 32, 64),
	BESIDE_WRITES("one read at a time beside writes of 256 KiB", 1, 32, 256),
	BESIDE_WRITES("one read at a time beside writes of 1 MiB", 1, 16, 1024),
	{ FEW_DIES, .name = "one alone", .tenants = { { 1, 64, 4, 100 } }, .unbound = true },
};

static const struct world worlds[] = {
	{ "4 dies, 2 readers",
	  4, 4, true, false, false, 50, 50, 4000, 0, 1000, 5000, 0, false,
	  { { 2, 64, 4, 100 } } },
	{ "16 dies at random, 2 readers",
	  4, 16, false, false, false, 80, 200, 2000, 0, 1000, 5000, 0, false,
	  { { 2, 128, 4, 100 } } },
	{ "16 dies at random, 16 readers",
	  8, 16, false, false, false, 80, 200, 2000, 0, 1000, 5000, 0, false,
	  { { 16, 32, 4, 100 } } },
	{ "32 dies, 4 KiB beside 64 KiB",
	  4, 32, true, false, false, 200, 400, 1500, 0, 1000, 5000, 0, false,
	  { { 1, 128, 4, 100 }, { 1, 128, 64, 100 } } },
	{ "32 dies at random, 4 KiB beside 128 KiB",
	  4, 32, false, false, false, 200, 400, 1500, 0, 1000, 5000, 0, false,
	  { { 1, 128, 4, 100 }, { 1, 128, 128, 100 } } },
	{ "64 dies, weights 1 to 3",
	  8, 64, true, false, false, 300, 900, 2000, 0, 1000, 5000, 0, false,
	  { { 2, 128, 4, 100 }, { 2, 128, 4, 300 } } },
	{ "256 dies, 8 readers",
	  8, 256, true, false, false, 2000, 4000, 4000, 0, 1000, 5000, 0, false,
	  { { 8, 128, 4, 100 } } },
	{ "128 dies, readers beside writers",
	  8, 128, true, false, false, 800, 2400, 2000, 0, 1000, 5000, 0, false,
	  { { 4, 128, 4, 100 }, { 4, 128, 4, 100, true } } },
	{ "slow wake-ups, 16 queues",
	  16, 32, true, false, false, 300, 300, 2000, 0, 500, 60000, 0, false,
	  { { 8, 32, 4, 100 }, { 8, 32, 8, 100 } } },
	{ "slow wake-ups, small beside large",
	  8, 16, true, false, false, 100, 300, 4000, 0, 500, 40000, 0, false,
	  { { 4, 64, 4, 100 }, { 4, 64, 32, 100 } } },
	{ "busy CPUs, a wake-up costs as much as three requests",
	  8, 64, true, false, false, 100, 300, 4000, 0, 40000, 5000, 120000, true,
	  { { 8, 64, 4, 100 } } },
	{ "4 KiB, then 128 KiB",
	  4, 32, true, false, false, 200, 400, 400, 0, 1000, 5000, 0, false,
	  { { 4, 64, 4, 100 } }, { { 4, 64, 128, 100 } } },
	{ "reads, then writes",
	  4, 64, true, false, false, 100, 1600, 200, 0, 1000, 5000, 0, false,
	  { { 4, 64, 4, 100 } }, { { 4, 64, 4, 100, true } } },
};

struct request {
	struct mqfq_entry e;
	unsigned int flow, queue;
	u32 bytes;
	bool write;
	u64 done_at;
};

struct tenant {
	struct flow *flow;
	const struct tenants *now;
	unsigned int next_queue, outstanding;
	u64 bytes, counted, seen, busy_until;
	struct mqfq_auto_flow note;
};

enum event_kind {
	RUN,
	DONE,
	WINDOW,
	NEXT,
};

struct machine {
	const struct world *world;
	struct mqfq_policy policy;
	struct flow_table flows;
	struct mqfq_auto law;
	struct tenant tenant[FLOWS_MAX];
	unsigned int nr_tenants;
	struct request request[REQUESTS_MAX];
	unsigned int free[REQUESTS_MAX], nr_free;
	struct events events;
	u64 now, random;
	u64 die_free_at[DIES_MAX], bus_free_at, cache_free_at;
	u64 run_at[QUEUES_MAX], busy_until[QUEUES_MAX];
	u64 window_at, completed, stepped_at;
	struct mqfq_auto_window last;		/* sums at the end of the last window */
	u32 least[MQFQ_AUTO_NR_KNOBS], most[MQFQ_AUTO_NR_KNOBS];
};

struct figures {
	double mbps, jain, first_mbps;
};

static struct machine machine;
static unsigned int seed;

/* ---- the device ---- */

static unsigned int pick_die(struct machine *m)
{
	unsigned int best = 0, i;

	if (!m->world->first_free)
		return events_draw(&m->random, m->world->nr_dies);
	for (i = 1; i < m->world->nr_dies; i++)
		if (m->die_free_at[i] < m->die_free_at[best])
			best = i;
	return best;
}

/* When a write is in the cache, which takes one after the other. */
static u64 cached_at(struct machine *m, u32 bytes)
{
	m->cache_free_at = max(m->now, m->cache_free_at) +
			   (u64)bytes * 1000 / m->world->cache_mbps;
	return m->cache_free_at;
}

static void send(struct machine *m, unsigned int number)
{
	struct request *r = &m->request[number];
	const struct world *w = m->world;
	unsigned int die = pick_die(m), page = w->striped ? 16 << 10 : r->bytes, left;
	u64 us = r->write ? w->write_us : w->read_us, at = 0;

	if (r->write && w->cache_mbps) {
		events_push(&m->events, cached_at(m, r->bytes), DONE, number);
		return;
	}
	for (left = r->bytes; left; left -= min(left, page)) {
		u64 from = max(m->now, m->die_free_at[die]);

		/* From nine tenths to eleven tenths of the time that it should take. */
		from += us * (16 + (min(left, page) >> 10)) *
			(900 + events_draw(&m->random, 200)) / 16;
		m->die_free_at[die] = from;
		at = max(at, from);
		die = (die + 1) % w->nr_dies;
	}
	at = max(at, m->bus_free_at) + (u64)r->bytes * 1000 / w->bus_mbps;
	m->bus_free_at = at;
	events_push(&m->events, at, DONE, number);
}

/* ---- tenants and queues ---- */

static void run_at(struct machine *m, unsigned int queue, u64 at)
{
	at = max(at, m->busy_until[queue]);
	if (m->run_at[queue] <= at)
		return;
	m->run_at[queue] = at;
	events_push(&m->events, at, RUN, queue);
}

static void ask_to_run(void *context, unsigned int queue, enum mqfq_state was)
{
	struct machine *m = context;

	(void)was;
	m->busy_until[queue] = max(m->busy_until[queue], m->now) + m->world->woken_cpu_ns;
	run_at(m, queue, m->now + m->world->wake_ns);
}

static u64 clock_ns(void)
{
	return machine.now;
}

static const struct mqfq_policy_ops ops = {
	.run		= ask_to_run,
	.clock_ns	= clock_ns,
};

static void submit(struct machine *m, unsigned int number)
{
	struct tenant *t = &m->tenant[number];
	unsigned int at = m->free[--m->nr_free];
	struct request *r = &m->request[at];
	struct mqfq_queue *q;

	t->outstanding++;
	r->flow = number;
	r->queue = t->next_queue % m->world->nr_queues;
	t->next_queue += !m->world->stays;
	r->bytes = t->now->kb << 10;
	r->write = t->now->write;
	r->e.flow = (unsigned long)t->flow;
	q = &m->policy.queue[r->queue];
	spin_lock(&q->lock);
	mqfq_insert(q, &r->e,
		    flow_tag(t->flow, mqfq_vt(&m->policy), flow_cost_vt(t->flow, r->bytes)));
	spin_unlock(&q->lock);
	run_at(m, r->queue, m->now);
}

/* From half to one and a half of @ns. */
static u64 about(struct machine *m, u64 ns)
{
	return ns * (500 + events_draw(&m->random, 1000)) / 1000;
}

static void run_queue(struct machine *m, unsigned int number)
{
	struct mqfq_queue *q = &m->policy.queue[number];
	struct mqfq_entry *e;

	if (m->run_at[number] != m->now)
		return;
	m->run_at[number] = U64_MAX;
	if (!mqfq_has_work(q))
		return;
	spin_lock(&q->lock);
	e = mqfq_take(q);
	spin_unlock(&q->lock);
	if (!e)
		return;
	m->busy_until[number] = m->now + about(m, m->world->cpu_ns);
	atomic64_add(container_of(e, struct request, e)->bytes, &mqfq_entry_flow(e)->service_bytes);
	send(m, container_of(e, struct request, e) - m->request);
	run_at(m, number, m->now);
}

/* The tenant sends what it may. */
static void next(struct machine *m, unsigned int number)
{
	struct tenant *t = &m->tenant[number];

	while (t->outstanding < t->now->depth)
		submit(m, number);
}

static void done(struct machine *m, unsigned int number)
{
	struct request *r = &m->request[number];
	struct tenant *t = &m->tenant[r->flow];

	t->bytes += r->bytes;
	t->outstanding--;
	m->completed++;
	m->free[m->nr_free++] = number;
	mqfq_release(&m->policy.queue[r->queue]);
	if (!m->world->task_ns) {
		next(m, r->flow);
		return;
	}
	t->busy_until = max(t->busy_until, m->now + m->world->back_ns) +
			about(m, m->world->task_ns);
	events_push(&m->events, t->busy_until, NEXT, r->flow);
}

/* ---- the law ---- */

/* More slots than are outstanding are none. */
static u32 in_effect(const struct machine *m, enum mqfq_auto_which which)
{
	u32 value = m->law.knob[which].base, outstanding = 0;
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++)
		outstanding += m->tenant[i].now->depth;
	return which == MQFQ_AUTO_SLOTS ? min(value, outstanding) : value;
}

static void end_window(struct machine *m)
{
	struct mqfq_auto_window sum = { .requests = m->completed }, w;
	u64 steps = m->law.nr_steps, throttle_vt;
	unsigned int i;

	mqfq_auto_begin_window(&m->law);
	for (i = 0; i < m->nr_tenants; i++) {
		struct tenant *t = &m->tenant[i];
		u64 bytes = atomic64_read(&t->flow->service_bytes);

		sum.bytes += bytes;
		sum.largest_kb = max(sum.largest_kb, t->now->kb);
		mqfq_auto_flow(&m->law, &t->note, flow_cost_vt(t->flow, bytes - t->seen),
			       t->outstanding);
		sum.nr_flows += t->outstanding || bytes != t->seen;
		t->seen = bytes;
	}
	mqfq_auto_begin_shares(&m->law);
	for (i = 0; i < m->nr_tenants; i++)
		mqfq_auto_share(&m->law, &m->tenant[i].note,
				flow_cost_vt(m->tenant[i].flow, MQFQ_AUTO_UNIT_BYTES));
	for (i = 0; i < m->world->nr_queues; i++) {
		sum.slot_waits += atomic64_read(&m->policy.queue[i].slot_waits);
		sum.throttles += m->policy.queue[i].throttles;
	}
	w = (struct mqfq_auto_window) {
		.ns = m->now - m->window_at,
		.bytes = sum.bytes - m->last.bytes,
		.requests = sum.requests - m->last.requests,
		.slot_waits = sum.slot_waits - m->last.slot_waits,
		.throttles = sum.throttles - m->last.throttles,
		.in_flight = m->policy.tokens.slots - token_tree_nr_free(&m->policy.tokens),
		.nr_flows = sum.nr_flows,
		.largest_kb = sum.largest_kb,
	};
	m->last = sum;
	m->window_at = m->now;
	mqfq_auto_window(&m->law, &w);
	if (m->law.nr_steps != steps)
		m->stepped_at = m->now;
	if (m->policy.tokens.slots != mqfq_auto_value(&m->law, MQFQ_AUTO_SLOTS))
		mqfq_set_slots(&m->policy, mqfq_auto_value(&m->law, MQFQ_AUTO_SLOTS));
	throttle_vt = (u64)mqfq_auto_value(&m->law, MQFQ_AUTO_THROTTLE_KB) << KB_SHIFT;
	if (m->policy.throttle_vt != throttle_vt)
		mqfq_set_throttle(&m->policy, throttle_vt);
	for (i = 0; i < MQFQ_AUTO_NR_KNOBS; i++) {
		m->least[i] = min(m->least[i], in_effect(m, i));
		m->most[i] = max(m->most[i], in_effect(m, i));
	}
	events_push(&m->events, m->now + mqfq_auto_window_ms(&m->law) * NS_PER_MS, WINDOW, 0);
}

/* ---- from the beginning to the end ---- */

static u32 weight_of(void *context, u64 key, void *who)
{
	const struct world *w = context;

	(void)who;
	return w->tenants[key >= w->tenants[0].nr].weight * (w->rising ? key + 1 : 1);
}

static void begin(struct machine *m, const struct world *w, u32 slots, u32 throttle_kb)
{
	const struct mqfq_config config = {
		.throttle_vt = (u64)throttle_kb << KB_SHIFT,
		.slots = slots,
		.wheel = { 4 + KB_SHIFT, 6 },
	};
	struct topology_place place[QUEUES_MAX] = {};
	unsigned int i;

	memset(m, 0, sizeof(*m));
	m->world = w;
	m->random = EVENTS_RANDOM + 7919 * seed;
	for (i = 0; i < w->nr_queues; i++) {
		m->run_at[i] = U64_MAX;
		place[i].id[TOPOLOGY_CORE] = i / 2;
		place[i].id[TOPOLOGY_CACHE] = i / 4;
		place[i].id[TOPOLOGY_SOCKET] = i / 8;
	}
	for (i = 0; i < REQUESTS_MAX; i++)
		m->free[m->nr_free++] = i;
	if (mqfq_policy_init(&m->policy, place, w->nr_queues, 0, &config, &ops, m, GFP_KERNEL) ||
	    flow_table_init(&m->flows, weight_of, (void *)w, GFP_KERNEL))
		abort();
	m->nr_tenants = w->tenants[0].nr + w->tenants[1].nr;
	for (i = 0; i < m->nr_tenants; i++) {
		m->tenant[i].flow = flow_get(&m->flows, i, NULL, 0);
		m->tenant[i].next_queue = i;
	}
	mqfq_auto_init(&m->law, slots, OPEN_SLOTS, throttle_kb);
}

/* The tenants come, or have another load, one after the other in @ms. */
static void come(struct machine *m, const struct tenants *tenants, u64 ms)
{
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++) {
		struct tenant *t = &m->tenant[i];

		t->now = &tenants[i >= m->world->tenants[0].nr];
		if (ms)
			events_push(&m->events, i * ms * NS_PER_MS / m->nr_tenants, NEXT, i);
		else
			next(m, i);
	}
}

static void run_until(struct machine *m, u64 ms)
{
	while (m->events.heap[0].at < ms * NS_PER_MS) {
		struct event event = events_pop(&m->events);

		m->now = event.at;
		if (event.kind == RUN)
			run_queue(m, event.number);
		else if (event.kind == DONE)
			done(m, event.number);
		else if (event.kind == NEXT)
			next(m, event.number);
		else
			end_window(m);
	}
}

static void mark(struct machine *m)
{
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++)
		m->tenant[i].counted = m->tenant[i].bytes;
	for (i = 0; i < MQFQ_AUTO_NR_KNOBS; i++)
		m->least[i] = m->most[i] = in_effect(m, i);
}

static struct figures figures(const struct machine *m, u64 ms)
{
	double sum = 0, squares = 0, bytes = 0;
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++) {
		const struct tenant *t = &m->tenant[i];
		double share = (double)(t->bytes - t->counted) / t->flow->weight;

		bytes += t->bytes - t->counted;
		sum += share;
		squares += share * share;
	}
	return (struct figures) {
		.mbps = bytes / ms / 1000,
		.jain = sum * sum / (m->nr_tenants * squares),
		.first_mbps = (double)(m->tenant[0].bytes - m->tenant[0].counted) / ms / 1000,
	};
}

static void end(struct machine *m)
{
	flow_table_destroy(&m->flows);
	mqfq_policy_destroy(&m->policy);
}

static const struct tenants *last_tenants(const struct world *w)
{
	return w->later[0].nr ? w->later : w->tenants;
}

static struct figures fixed(const struct world *w, u32 slots, u32 throttle_kb)
{
	struct figures found;

	begin(&machine, w, slots, throttle_kb);
	come(&machine, last_tenants(w), 0);
	run_until(&machine, FIXED_RAMP_MS);
	mark(&machine);
	run_until(&machine, FIXED_RAMP_MS + FIXED_MS);
	found = figures(&machine, FIXED_MS);
	end(&machine);
	return found;
}

static const u32 some_slots[] = { 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1, 2 };
static const u32 some_kb[] = { 4, 64, 1024, 0, 16, 256, 4096 };

enum {
	NR_SLOTS	= sizeof(some_slots) / sizeof(*some_slots),
	NR_KB		= sizeof(some_kb) / sizeof(*some_kb),
	SHORT_SLOTS	= 9,
	SHORT_KB	= 3,
};

/* The best fixed setting. */
static struct figures sweep(const struct world *w, bool is_long)
{
	unsigned int nr_slots = is_long ? NR_SLOTS : SHORT_SLOTS,
		     nr_kb = is_long ? NR_KB : SHORT_KB;
	struct figures all[NR_SLOTS][NR_KB], best = {}, fairest = {};
	u32 slots = 0, kb = 0;
	unsigned int i, k;

	for (i = 0; i < nr_slots; i++)
		for (k = 0; k < nr_kb; k++) {
			all[i][k] = fixed(w, some_slots[i], some_kb[k]);
			if (all[i][k].jain > fairest.jain)
				fairest = all[i][k];
		}
	for (i = 0; i < nr_slots; i++) {
		if (is_long)
			printf("# D %4u:", some_slots[i]);
		for (k = 0; k < nr_kb; k++) {
			const struct figures *f = &all[i][k];

			if (is_long)
				printf("  T %4u %6.1f %.3f", some_kb[k], f->mbps, f->jain);
			if (f->jain < fairest.jain - 0.01 || f->mbps <= best.mbps)
				continue;
			best = *f;
			slots = some_slots[i];
			kb = some_kb[k];
		}
		if (is_long)
			printf("\n");
	}
	printf("# best: %.1f MB/s, Jain %.4f with D %u, T %u\n", best.mbps, best.jain, slots, kb);
	return best;
}

/* Both are searched, from here: what all have in the time after they have had time to settle. */
static struct figures search(struct machine *m, const struct world *w, u32 slots, u32 throttle_kb,
			     u64 learn_ms, u64 settle_ms, u64 measure_ms)
{
	begin(m, w, slots, throttle_kb);
	mqfq_auto_on(&m->law, MQFQ_AUTO_SLOTS);
	mqfq_auto_on(&m->law, MQFQ_AUTO_THROTTLE_KB);
	come(m, w->tenants, w->come_ms);
	events_push(&m->events, 0, WINDOW, 0);
	run_until(m, learn_ms);
	if (w->later[0].nr)
		come(m, w->later, 0);
	run_until(m, learn_ms + settle_ms);
	mark(m);
	run_until(m, learn_ms + settle_ms + measure_ms);
	return figures(m, measure_ms);
}

static bool found(const struct world *w, u32 slots, u32 throttle_kb, u64 settle_ms,
		  const struct figures *best)
{
	u64 learn_ms = w->later[0].nr ? LEARN_MS : 0;
	struct machine *m = &machine;
	struct figures f;
	bool ok, stable;

	f = search(m, w, slots, throttle_kb, learn_ms, settle_ms, MEASURE_MS);
	stable = m->most[0] <= 2 * m->least[0] && m->most[1] <= 2 * m->least[1];
	ok = stable && f.mbps >= 0.97 * best->mbps && f.jain >= best->jain - 0.01;
	printf("# from D %u, T %u: %.1f MB/s (%.1f%%), Jain %.4f (%+.4f) with D %u, T %u, ", slots,
	       throttle_kb, f.mbps, 100 * f.mbps / best->mbps, f.jain, f.jain - best->jain,
	       m->law.knob[0].base, m->law.knob[1].base);
	printf("%llu steps in %llu comparisons, the last after %lld ms%s\n", m->law.nr_steps,
	       m->law.nr_probes, (s64)(m->stepped_at / NS_PER_MS - learn_ms),
	       stable ? "" : ", and it is not stable");
	end(m);
	return ok;
}

/* The fixed D, with the default T, that has the most; of the fair ones, if the device is short. */
static struct figures best_slots(const struct world *w, u32 *slots)
{
	static const u32 grid[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512,
				    OPEN_SLOTS };
	struct figures best = {};
	unsigned int i;

	for (i = 0; i < sizeof(grid) / sizeof(*grid); i++) {
		struct figures f = fixed(w, grid[i], START_KB);

		if ((!w->unbound && f.jain < 0.99) || f.mbps <= best.mbps)
			continue;
		best = f;
		*slots = grid[i];
	}
	return best;
}

/* What the tenant with least of its share has of it, were the total @mbps for @ms. */
static double least_share(const struct machine *m, double mbps, u64 ms)
{
	double least = 1e9, weights = 0, share;
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++)
		weights += m->tenant[i].flow->weight;
	for (i = 0; i < m->nr_tenants; i++) {
		const struct tenant *t = &m->tenant[i];

		share = (t->bytes - t->counted) * weights / t->flow->weight / (mbps * 1000 * ms);
		least = min(least, share);
	}
	return least;
}

/*
 * As it comes: D begins with all there is. A second after the first request, or after the load has
 * become another one, each tenant must have SHARE of its share of what it has then, or, as much as
 * that, of what the best fair setting has; and all together PART of that. One that competes for
 * nothing but slots must have PART of what it has with all there are, after SETTLE_MS: it loses by
 * each trial of fewer, and these become rare. All this is a mean over SEEDS, since chance decides
 * much in the first second of many tenants.
 */
static bool starts_well(const struct world *w)
{
	u64 learn_ms = w->later[0].nr ? START_LEARN_MS : w->come_ms;
	u64 settle_ms = w->apart ? SETTLE_MS : START_SETTLE_MS;
	u64 measure_ms = w->apart ? MEASURE_MS : START_MEASURE_MS;
	double mbps = 0, first = 0, least = 0, least_of_best = 0;
	struct figures best, open, f;
	struct machine *m = &machine;
	u32 slots = 0;

	best = best_slots(w, &slots);
	open = fixed(w, OPEN_SLOTS, START_KB);
	for (seed = 0; seed < START_SEEDS; seed++) {
		f = search(m, w, OPEN_SLOTS, START_KB, learn_ms, settle_ms, measure_ms);
		mbps += f.mbps / START_SEEDS;
		first += f.first_mbps / START_SEEDS;
		least += least_share(m, f.mbps, measure_ms) / START_SEEDS;
		least_of_best += least_share(m, best.mbps, measure_ms) / START_SEEDS;
		printf("# after %llu s: %.1f MB/s, Jain %.4f, D %u, T %u\n", settle_ms / 1000,
		       f.mbps, f.jain, m->law.knob[0].base, m->law.knob[1].base);
		end(m);
	}
	seed = 0;
	printf("# in the mean: %.1f MB/s (%.1f%% of D %u), least %.1f%% of its share "
	       "(%.1f%% with D %u)\n", mbps, 100 * mbps / best.mbps, slots, 100 * least,
	       100 * least_of_best, slots);
	if (w->apart)
		printf("# the first: %.2f MB/s, and %.2f with all slots\n", first, open.first_mbps);
	if (w->apart && first < START_PART * open.first_mbps)
		return false;
	return mbps >= (w->part ?: START_PART) * best.mbps &&
	       (w->unbound || max(least, least_of_best) >= (w->share ?: START_SHARE));
}

int main(int argc, char **argv)
{
	const unsigned int nr = sizeof(worlds) / sizeof(*worlds),
			   nr_starts = sizeof(starts) / sizeof(*starts);
	bool is_long = argc > 1 && !strcmp(argv[1], "long"), all = true;
	unsigned int only = argc > 2 ? strtoul(argv[2], NULL, 0) : 0, i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("KTAP version 1\n1..%u\n", nr + nr_starts);
	for (i = 1; i <= nr; i++) {
		const struct world *w = &worlds[i - 1];
		struct figures best;
		bool ok;

		if (only && i != only)
			continue;
		printf("# %s\n", w->name);
		best = sweep(w, is_long);
		ok = found(w, 64, 64, SETTLE_MS, &best);
		ok &= found(w, 2, 0, SETTLE_MS, &best);
		if (is_long)
			ok &= found(w, 1024, 4096, 2 * SETTLE_MS, &best);
		printf("%sok %u %s\n", ok ? "" : "not ", i, w->name);
		all &= ok;
	}
	for (i = 0; i < nr_starts; i++) {
		bool ok;

		if (only && nr + i + 1 != only)
			continue;
		ok = starts_well(&starts[i]);
		printf("%sok %u %s\n", ok ? "" : "not ", nr + i + 1, starts[i].name);
		all &= ok;
	}
	return !all;
}
