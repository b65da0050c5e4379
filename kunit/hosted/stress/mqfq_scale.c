// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_scale.c - what mq-mqfq does per request with 8 to 256 hardware queues, counted
 *
 *	mqfq_scale			the cases that have bounds; KTAP on standard output
 *	mqfq_scale --long		these, and a table of all cases
 *	mqfq_scale --bounds		prints mqfq_scale_bounds.h as it would be today
 *	mqfq_scale QUEUES TENANTS SLOTS BATCH WAKE_US [THROTTLE_KB]	one case; TENANTS 0: one
 *								per CPU
 *
 * The policy as it is runs between simulated tenants and a simulated device: events in a heap, a
 * seed, no clock, so that a case gives the same digits each time. Nothing here waits for a cache
 * line: events are counted. What they cost on a real machine is not.
 *
 * The world
 * =========
 * Each hardware queue has one CPU. A CPU inserts up to BATCH requests and then runs its queue, as
 * the block layer does, until has_work says no or a dispatch returns nothing. A run that the policy
 * asks for comes WAKE_US later, give or take a quarter, as from kblockd. If the first dispatch of a
 * run returns nothing, all queues are run 3 ms later.
 *
 * The device serves PLACES requests at the same time, for SERVICE_NS on average: 12 million a
 * second. What it has beyond that waits in the device, in order. All requests are reads of 4 KiB,
 * all weights are equal, and T is what mq-mqfq begins with. A tenant keeps its requests
 * outstanding: each is submitted again, on the same CPU, when it has completed. A run is over
 * before mqfq_look() would be called.
 *
 * Three loads:
 *
 *	one by one	more slots than requests, so nothing has to wait; a CPU inserts one
 *			request at a time
 *	batches		the same, but a CPU inserts up to 16 requests that it has, at once
 *	short		1280 slots, and at least 4096 requests: the device is busy with 1280, also
 *			while 10 us of its rate are on the way, and most requests wait here
 *
 * The columns
 * ===========
 *	spread		by how much the tenant that is furthest from its share is off
 *	throttles	a queue is THROTTLED; slot waits: it is READY
 *	full looks	for a token, at all nodes of the token tree
 *	empty disp.	a dispatch returned nothing although has_work had said yes
 *	wake-ups	runs that the policy asked for
 *	idle runs	has_work said no at the beginning: blk-mq then takes the queue's lock
 *	runs of all	queues, since the first dispatch of a run returned nothing
 *	lines		nodes of the token tree, a cache line each, that are read by looks for a
 *			token beyond the queue's path; per request, and per look
 *
 * A bound is the figure of the day on which it was written, and BOUND_PCT beyond: a regression is
 * seen. It is no goal. Goals are printed beside the figures, and missing them is no failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../lib/token_tree.h"
#include "../../../mq-mqfq/mqfq_auto.h"

static bool scale_steal(struct token_tree *t, unsigned int leaf, bool *more);

/* What the policy calls of the token tree, counted. */
#define token_tree_steal	scale_steal
#include "../../../mq-mqfq/mqfq_permit.c"
#include "../../../mq-mqfq/mqfq_policy.c"
#include "../../../mq-mqfq/mqfq_rescale.c"
#include "../../../mq-mqfq/mqfq_rt.c"
#include "../../../mq-mqfq/mqfq_slots.c"
#include "../../../mq-mqfq/mqfq_stuck.c"
#undef token_tree_steal

enum {
	QUEUES_MAX	= 256,
	TENANTS_MAX	= 256,
	REQUESTS_MAX	= 8192,
	/* Of each request, and of each CPU a step and a work; and all others. */
	EVENTS_MAX	= REQUESTS_MAX + 2 * QUEUES_MAX + 1,

	KB_SHIFT	= 10 + VT_SHIFT,
	REQUEST_BYTES	= 4096,
	REQUESTS_PER_QUEUE = 32,
	REQUESTS_MIN	= 4096,

	PLACES		= 960,
	SERVICE_NS	= 80000,
	DEVICE_PER_MS	= PLACES * 1000 / (SERVICE_NS / 1000),
	SHORT_SLOTS	= 1280,
	OPEN_SLOTS	= 65535,
	BATCH		= 16,

	/* Of a CPU, for each request. */
	INSERT_NS	= 150,
	DISPATCH_NS	= 150,
	RUN_ALL_NS	= 3000000,

	WARM_UP_MS	= 2,
	MEASURE_MS	= 10,
	NS_PER_MS	= 1000000,

	PER_CPU		= 0,
};

#include "events.h"

#define BOUND_PCT	5
/* For 64 and 128 queues and wake-ups of 10 us; no look over all nodes is one more. */
#define GOAL_ALONE	0.97
#define GOAL_SHARED	0.90
#define GOAL_SPREAD_PCT	5.0
#define GOAL_EMPTY	0.01

struct scale_case {
	unsigned int queues, tenants, slots, batch, wake_us, throttle_kb;
};

/* Of a time; all but @completed by the policy or for it. */
struct counts {
	u64 completed;
	u64 throttles, slot_waits;
	/* Looks for a token beyond the queue's path; of these, at all nodes; nodes read. */
	u64 looks, full, lines;
	/* Runs asked for; runs that found no work. */
	u64 wakes, idle_runs;
	/* Dispatches that returned nothing, and of these the first ones of a run. */
	u64 empty, run_alls;
};

/* Of a request, but for the first two. */
struct figures {
	double of_device, spread_pct;
	double throttles, slot_waits, full_looks, lines_per_look, lines, wakes, empty, idle_runs;
	double run_alls;
};

struct request {
	struct mqfq_entry e;
	struct request *next;
	unsigned int tenant, queue;
};

struct tenant {
	struct flow *flow;
	u64 completed, marked;
};

struct cpu {
	struct request *first, **last;	/* to be submitted */
	bool in_run;
	bool run_is_new;	/* it has not dispatched yet */
	bool is_asked;		/* kblockd will come */
	bool is_due;		/* it has */
	bool is_awake;		/* has a STEP in the heap */
};

enum event_kind {
	STEP,		/* of a CPU */
	WORK,		/* kblockd has come to a queue */
	DONE,
	RUN_ALL,
};

struct machine {
	struct scale_case c;
	struct mqfq_policy policy;
	struct flow_table flows;
	unsigned int nr_tenants, nr_requests;
	struct tenant tenant[TENANTS_MAX];
	struct request request[REQUESTS_MAX];
	struct cpu cpu[QUEUES_MAX];
	unsigned int nr_served, nr_inflight;
	struct request *first, **last;		/* in the device, behind its PLACES */
	struct events events;
	bool is_run_all_pending;
	bool is_ending;				/* nothing is submitted any more */
	const char *failure;
	u64 now, random;
	struct counts counts;
};

static struct machine machine;

/* ---- lines ---- */

/* Called for each marked read (hosted.h). Counts those of tree nodes, which have a line each. */
static u64 nr_touched;

void scale_touch(const volatile void *at)
{
	const struct token_tree *t = &machine.policy.tokens;
	const struct token_node *node = (const struct token_node *)at;

	if (node >= t->node && node < t->node + machine.policy.topology.nr_nodes)
		nr_touched++;
}

static bool scale_steal(struct token_tree *t, unsigned int leaf, bool *more)
{
	u64 before = nr_touched;
	bool found = token_tree_steal(t, leaf, more);

	machine.counts.looks++;
	machine.counts.full += nr_touched - before >= t->topology->nr_nodes;
	machine.counts.lines += nr_touched - before;
	return found;
}

/* From three quarters of @ns to five. */
static u64 about(struct machine *m, u64 ns)
{
	return ns * 3 / 4 + events_draw(&m->random, ns / 2 + 1);
}

/* ---- the device ---- */

static void serve(struct machine *m, struct request *r)
{
	m->nr_served++;
	events_push(&m->events, m->now + about(m, SERVICE_NS), DONE, r - m->request);
}

static void send(struct machine *m, struct request *r)
{
	if (++m->nr_inflight > m->c.slots)
		m->failure = "more in flight than slots";
	if (m->nr_served < PLACES) {
		serve(m, r);
		return;
	}
	r->next = NULL;
	*m->last = r;
	m->last = &r->next;
}

/* ---- CPUs ---- */

static void wake_cpu(struct machine *m, unsigned int number, u64 ns)
{
	struct cpu *cpu = &m->cpu[number];

	if (cpu->is_awake)
		return;
	cpu->is_awake = true;
	events_push(&m->events, m->now + ns, STEP, number);
}

static void ask_to_run(void *context, unsigned int number, enum mqfq_state was)
{
	struct machine *m = context;

	(void)was;
	m->counts.wakes++;
	/* As blk_mq_run_hw_queue() does, and a work that is pending is not queued twice. */
	if (m->cpu[number].is_asked || !mqfq_has_work(&m->policy.queue[number]))
		return;
	m->cpu[number].is_asked = true;
	events_push(&m->events, m->now + about(m, 1000ULL * m->c.wake_us), WORK, number);
}

static u64 clock_ns(void)
{
	return machine.now;
}

static const struct mqfq_policy_ops ops = {
	.run		= ask_to_run,
	.clock_ns	= clock_ns,
};

static void insert(struct machine *m, struct request *r)
{
	struct mqfq_queue *q = &m->policy.queue[r->queue];
	struct flow *f = m->tenant[r->tenant].flow;

	r->e.flow = (unsigned long)f;
	spin_lock(&q->lock);
	mqfq_insert(q, &r->e,
		    flow_tag(f, mqfq_vt(&m->policy), flow_cost_vt(f, REQUEST_BYTES)));
	spin_unlock(&q->lock);
}

/* One dispatch of a run; false when the run has ended. */
static bool dispatch(struct machine *m, unsigned int number)
{
	struct mqfq_queue *q = &m->policy.queue[number];
	bool is_new = m->cpu[number].run_is_new;
	struct mqfq_entry *e;

	m->cpu[number].run_is_new = false;
	if (!mqfq_has_work(q)) {
		m->counts.idle_runs += is_new;
		return false;
	}
	spin_lock(&q->lock);
	e = mqfq_take(q);
	spin_unlock(&q->lock);
	if (e) {
		atomic64_add(REQUEST_BYTES, &mqfq_entry_flow(e)->service_bytes);
		send(m, container_of(e, struct request, e));
		return true;
	}
	m->counts.empty++;
	if (is_new) {
		m->counts.run_alls++;
		if (!m->is_run_all_pending)
			events_push(&m->events, m->now + RUN_ALL_NS, RUN_ALL, 0);
		m->is_run_all_pending = true;
	}
	return false;
}

static void begin_run(struct cpu *cpu)
{
	cpu->in_run = true;
	cpu->run_is_new = true;
}

/* What a CPU does next: it goes on with its run, begins one for kblockd, or submits. */
static void step(struct machine *m, unsigned int number)
{
	struct cpu *cpu = &m->cpu[number];
	struct request *r;
	unsigned int n;

	cpu->is_awake = false;
	for (;;) {
		if (cpu->in_run) {
			if (dispatch(m, number)) {
				wake_cpu(m, number, DISPATCH_NS);
				return;
			}
			cpu->in_run = false;
		}
		if (!cpu->is_due)
			break;
		cpu->is_due = false;
		begin_run(cpu);
	}
	if (!cpu->first)
		return;
	for (n = 0, r = cpu->first; r && n < m->c.batch; n++, r = cpu->first) {
		cpu->first = r->next;
		insert(m, r);
	}
	if (!cpu->first)
		cpu->last = &cpu->first;
	begin_run(cpu);
	wake_cpu(m, number, n * INSERT_NS);
}

static void submit(struct machine *m, struct request *r)
{
	struct cpu *cpu = &m->cpu[r->queue];

	r->next = NULL;
	*cpu->last = r;
	cpu->last = &r->next;
	wake_cpu(m, r->queue, 0);
}

/* An interrupt. */
static void done(struct machine *m, struct request *r)
{
	struct request *next = m->first;

	m->nr_served--;
	m->nr_inflight--;
	if (next) {
		m->first = next->next;
		if (!m->first)
			m->last = &m->first;
		serve(m, next);
	}
	m->tenant[r->tenant].completed++;
	m->counts.completed++;
	mqfq_release(&m->policy.queue[r->queue]);
	if (!m->is_ending)
		submit(m, r);
}

static void run_all(struct machine *m)
{
	unsigned int i;

	m->is_run_all_pending = false;
	for (i = 0; i < m->c.queues; i++) {
		m->cpu[i].is_due = true;
		wake_cpu(m, i, 0);
	}
}

static void run_until(struct machine *m, u64 until_ns)
{
	while (m->events.nr && m->events.heap[0].at < until_ns) {
		struct event event = events_pop(&m->events);

		m->now = event.at;
		switch (event.kind) {
		case STEP:
			step(m, event.number);
			break;
		case WORK:
			m->cpu[event.number].is_asked = false;
			m->cpu[event.number].is_due = true;
			wake_cpu(m, event.number, 0);
			break;
		case DONE:
			done(m, &m->request[event.number]);
			break;
		case RUN_ALL:
			run_all(m);
			break;
		}
	}
}

/* ---- from the beginning to the end ---- */

static u32 weight_of(void *context, u64 key, void *who)
{
	(void)context;
	(void)key;
	(void)who;
	return FLOW_WEIGHT_DEFAULT;
}

/* Two CPUs a core, eight a cache, 64 a socket. */
static void begin_policy(struct machine *m)
{
	const struct mqfq_config config = {
		.throttle_vt	= (u64)m->c.throttle_kb << KB_SHIFT,
		.slots		= m->c.slots,
		.wheel		= { 4 + KB_SHIFT, 6 },
	};
	struct topology_place place[QUEUES_MAX] = {};
	unsigned int i;

	for (i = 0; i < m->c.queues; i++) {
		place[i].id[TOPOLOGY_CORE] = i / 2;
		place[i].id[TOPOLOGY_CACHE] = i / 8;
		place[i].id[TOPOLOGY_SOCKET] = i / 64;
	}
	if (mqfq_policy_init(&m->policy, place, m->c.queues, 0, &config, &ops, m, GFP_KERNEL) ||
	    flow_table_init(&m->flows, weight_of, NULL, GFP_KERNEL))
		abort();
}

static void begin(struct machine *m, const struct scale_case *c)
{
	unsigned int i, k;

	memset(m, 0, sizeof(*m));
	m->c = *c;
	m->random = EVENTS_RANDOM;
	m->last = &m->first;
	begin_policy(m);
	m->nr_tenants = c->tenants == PER_CPU ? c->queues : c->tenants;
	m->nr_requests = max((unsigned int)REQUESTS_MIN, c->queues * REQUESTS_PER_QUEUE);
	for (i = 0; i < c->queues; i++)
		m->cpu[i].last = &m->cpu[i].first;
	for (i = 0; i < m->nr_tenants; i++)
		m->tenant[i].flow = flow_get(&m->flows, i, NULL, 0);
	for (i = 0; i < m->nr_requests; i++) {
		struct request *r = &m->request[i];

		r->tenant = i % m->nr_tenants;
		k = i / m->nr_tenants;
		if (c->tenants == PER_CPU)
			r->queue = r->tenant;
		else
			r->queue = (r->tenant * c->queues / m->nr_tenants + k) % c->queues;
		submit(m, r);
	}
}

static void end(struct machine *m)
{
	flow_table_destroy(&m->flows);
	mqfq_policy_destroy(&m->policy);
}

static void sum_up(struct machine *m, struct counts *sum)
{
	unsigned int i;

	*sum = m->counts;
	for (i = 0; i < m->c.queues; i++) {
		sum->throttles += m->policy.queue[i].throttles;
		sum->slot_waits += atomic64_read(&m->policy.queue[i].slot_waits);
	}
}

/* The tenant that is furthest from its share. */
static double spread_pct(const struct machine *m, double completed)
{
	double worst = 0;
	unsigned int i;

	for (i = 0; i < m->nr_tenants; i++) {
		const struct tenant *t = &m->tenant[i];
		double share = (t->completed - t->marked) * m->nr_tenants / completed;

		worst = max(worst, share > 1 ? share - 1 : 1 - share);
	}
	return 100 * worst;
}

static struct figures figures(const struct machine *m, const struct counts *from,
			      const struct counts *to)
{
	double n = max(to->completed - from->completed, 1ULL);
	double looks = max(to->looks - from->looks, 1ULL);

	return (struct figures) {
		.of_device	= n / MEASURE_MS / DEVICE_PER_MS,
		.spread_pct	= spread_pct(m, n),
		.throttles	= (to->throttles - from->throttles) / n,
		.slot_waits	= (to->slot_waits - from->slot_waits) / n,
		.full_looks	= (to->full - from->full) / n,
		.lines_per_look	= (to->lines - from->lines) / looks,
		.lines		= (to->lines - from->lines) / n,
		.wakes		= (to->wakes - from->wakes) / n,
		.empty		= (to->empty - from->empty) / n,
		.idle_runs	= (to->idle_runs - from->idle_runs) / n,
		.run_alls	= (to->run_alls - from->run_alls) / n,
	};
}

/* All that was submitted completes, and gives back what it had. */
static void drain(struct machine *m)
{
	unsigned int i;

	m->is_ending = true;
	run_until(m, U64_MAX);
	for (i = 0; i < m->c.queues; i++)
		if (m->policy.queue[i].nr || m->cpu[i].first)
			m->failure = "a request waits for ever";
	if (m->nr_inflight || token_tree_nr_free(&m->policy.tokens) != m->c.slots)
		m->failure = "a slot is lost";
}

/* NULL, or what is wrong. */
static const char *measure(const struct scale_case *c, struct figures *f)
{
	struct machine *m = &machine;
	struct counts from, to;
	unsigned int i;

	begin(m, c);
	run_until(m, WARM_UP_MS * NS_PER_MS);
	sum_up(m, &from);
	for (i = 0; i < m->nr_tenants; i++)
		m->tenant[i].marked = m->tenant[i].completed;
	run_until(m, (WARM_UP_MS + MEASURE_MS) * NS_PER_MS);
	sum_up(m, &to);
	*f = figures(m, &from, &to);
	drain(m);
	end(m);
	return m->failure;
}

/* ---- loads, bounds, goals ---- */

enum load_number {
	ONE_BY_ONE,
	BATCHES,
	SHORT,
	NR_LOADS,
};

static const struct {
	const char *name;
	unsigned int slots, batch;
} loads[NR_LOADS] = {
	[ONE_BY_ONE]	= { "one by one",	OPEN_SLOTS,	1 },
	[BATCHES]	= { "batches",		OPEN_SLOTS,	BATCH },
	[SHORT]		= { "short",		SHORT_SLOTS,	1 },
};

/* What a case had when its bounds were written: see --bounds. */
static const struct bound {
	unsigned int queues, tenants;
	enum load_number load;
	unsigned int wake_us;
	struct figures f;
} bounds[] = {
#include "mqfq_scale_bounds.h"
};

enum {
	NR_BOUNDS	= sizeof(bounds) / sizeof(*bounds),
};

static struct scale_case case_of(unsigned int queues, unsigned int tenants, enum load_number load,
				 unsigned int wake_us)
{
	return (struct scale_case) {
		queues, tenants, loads[load].slots, loads[load].batch, wake_us,
		mqfq_auto_first_throttle_kb(queues),
	};
}

static bool is_over(const char *what, double figure, double bound)
{
	if (figure <= bound * (100 + BOUND_PCT) / 100 + 0.005)
		return false;
	printf("# beyond its bound: %s %.3f, bound %.3f\n", what, figure, bound);
	return true;
}

static bool is_within(const struct figures *f, const struct figures *b)
{
	unsigned int nr_over = 0;

	if (f->of_device < b->of_device * (100 - BOUND_PCT) / 100) {
		printf("# beyond its bound: %.3f of the device, bound %.3f\n", f->of_device,
		       b->of_device);
		nr_over++;
	}
	nr_over += is_over("spread", f->spread_pct, b->spread_pct + 1);
	nr_over += is_over("throttles", f->throttles, b->throttles);
	nr_over += is_over("slot waits", f->slot_waits, b->slot_waits);
	nr_over += is_over("full looks", f->full_looks, b->full_looks);
	nr_over += is_over("lines a look", f->lines_per_look, b->lines_per_look);
	nr_over += is_over("lines a request", f->lines, b->lines);
	nr_over += is_over("wake-ups", f->wakes, b->wakes);
	nr_over += is_over("empty dispatches", f->empty, b->empty);
	nr_over += is_over("runs without work", f->idle_runs, b->idle_runs);
	nr_over += is_over("runs of all queues", f->run_alls, b->run_alls);
	return !nr_over;
}

static double goal_of(const struct scale_case *c)
{
	return c->tenants == 1 ? GOAL_ALONE : GOAL_SHARED;
}

static bool reaches_goals(const struct scale_case *c, const struct figures *f)
{
	return f->of_device >= goal_of(c) && f->spread_pct <= GOAL_SPREAD_PCT &&
	       f->empty <= GOAL_EMPTY && f->full_looks == 0;
}

/* ---- the table ---- */

static void print_head(const char *load)
{
	printf("# load: %s\n"
	       "#            wake   of device   spread  per request:                          "
	       "                 lines/\n"
	       "# CPUs tenants  us  today  goal   %%   throt-   slot   full  empty   wake-   idle"
	       "  runs  lines  look\n"
	       "#                                      tles  waits  looks  disp.     ups   runs"
	       " of all\n"
	       "# goal                          %3.0f                 0.000  %.3f\n",
	       load, GOAL_SPREAD_PCT, GOAL_EMPTY);
}

static void print_row(const struct scale_case *c, const struct figures *f)
{
	char tenants[16] = "per CPU";

	if (c->tenants != PER_CPU)
		snprintf(tenants, sizeof(tenants), "%u", c->tenants);
	printf("# %4u %7s %3u  %.3f  %.2f %5.1f   %.3f  %.3f  %.3f  %.3f   %.3f  %.3f  %.3f "
	       "%6.1f %5.1f%s\n", c->queues, tenants, c->wake_us, f->of_device, goal_of(c),
	       f->spread_pct, f->throttles, f->slot_waits, f->full_looks, f->empty, f->wakes,
	       f->idle_runs, f->run_alls, f->lines, f->lines_per_look,
	       reaches_goals(c, f) ? "" : " *");
}

/* Measures a case and prints its row; false if it broke a rule. */
static bool tabulate(const struct scale_case *c, struct figures *f)
{
	const char *failure = measure(c, f);

	print_row(c, f);
	if (failure)
		printf("# %s\n", failure);
	return !failure;
}

static void print_bounds(void)
{
	static const char *const names[NR_LOADS] = { "ONE_BY_ONE", "BATCHES", "SHORT" };
	unsigned int i;

	printf("/* SPDX-License-Identifier: GPL-2.0 */\n/*\n"
	       " * mqfq_scale_bounds.h - what the cases of mqfq_scale.c had when its --bounds "
	       "wrote this\n *\n"
	       " * Queues, tenants (0: one per CPU), load, us of a wake-up; then struct figures.\n"
	       " */\n");
	for (i = 0; i < NR_BOUNDS; i++) {
		const struct bound *b = &bounds[i];
		struct scale_case c = case_of(b->queues, b->tenants, b->load, b->wake_us);
		struct figures f;

		measure(&c, &f);
		printf("\t{ %u, %u, %s, %u,\n\t  { %.3f, %.1f, %.3f, %.3f, %.3f, %.2f, %.3f, %.3f, "
		       "%.3f, %.3f, %.3f } },\n", b->queues, b->tenants, names[b->load], b->wake_us,
		       f.of_device, f.spread_pct, f.throttles, f.slot_waits, f.full_looks,
		       f.lines_per_look, f.lines, f.wakes, f.empty, f.idle_runs, f.run_alls);
	}
}

/* ---- tests ---- */

static bool test_bounds(enum load_number load, unsigned int number)
{
	unsigned int nr = 0, nr_reach = 0, i;
	bool ok = true;

	print_head(loads[load].name);
	for (i = 0; i < NR_BOUNDS; i++) {
		const struct bound *b = &bounds[i];
		struct scale_case c = case_of(b->queues, b->tenants, b->load, b->wake_us);
		struct figures f;

		if (b->load != load)
			continue;
		ok &= tabulate(&c, &f) && is_within(&f, &b->f);
		nr_reach += reaches_goals(&c, &f);
		nr++;
	}
	printf("# %u of %u cases reach all goals, the others are marked *\n", nr_reach, nr);
	printf("%sok %u %s: %u cases\n", ok ? "" : "not ", number, loads[load].name, nr);
	return ok;
}

static bool test_same_digits(unsigned int number)
{
	struct scale_case c = case_of(64, 16, SHORT, 10);
	struct figures first, again;
	bool ok;

	ok = !measure(&c, &first) && !measure(&c, &again) &&
	     !memcmp(&first, &again, sizeof(first));
	printf("%sok %u the same case has the same digits\n", ok ? "" : "not ", number);
	return ok;
}

static bool test_all(unsigned int number)
{
	static const unsigned int all_queues[] = { 8, 16, 32, 64, 128, 256 },
				  all_tenants[] = { 1, 2, 16, 64, PER_CPU },
				  all_us[] = { 1, 3, 10 };
	unsigned int load, i;
	bool ok = true;

	for (load = 0; load < NR_LOADS; load++) {
		print_head(loads[load].name);
		for (i = 0; i < 6 * 5 * 3; i++) {
			struct scale_case c = case_of(all_queues[i / 15], all_tenants[i / 3 % 5],
						      load, all_us[i % 3]);
			struct figures f;

			ok &= tabulate(&c, &f);
		}
	}
	printf("%sok %u all cases end\n", ok ? "" : "not ", number);
	return ok;
}

static int one_case(int argc, char **argv)
{
	struct scale_case c = {};
	unsigned int *const word[] = { &c.queues, &c.tenants, &c.slots, &c.batch, &c.wake_us,
				       &c.throttle_kb };
	struct figures f;
	int i;

	for (i = 1; i < argc && i <= 6; i++)
		*word[i - 1] = strtoul(argv[i], NULL, 0);
	if (argc == 6)
		c.throttle_kb = mqfq_auto_first_throttle_kb(c.queues);
	if (argc < 6 || argc > 7 || !c.queues || c.queues > QUEUES_MAX ||
	    c.tenants > TENANTS_MAX || !c.slots || !c.batch) {
		fprintf(stderr, "usage: %s [--long | --bounds | QUEUES TENANTS SLOTS BATCH WAKE_US "
			"[THROTTLE_KB]]\n", argv[0]);
		return 2;
	}
	print_head("one case");
	return !tabulate(&c, &f);
}

int main(int argc, char **argv)
{
	bool is_long = argc == 2 && !strcmp(argv[1], "--long"), ok = true;
	unsigned int load;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "--bounds")) {
		print_bounds();
		return 0;
	}
	if (argc > 1 && !is_long)
		return one_case(argc, argv);
	printf("KTAP version 1\n1..%u\n", NR_LOADS + 1 + is_long);
	for (load = 0; load < NR_LOADS; load++)
		ok &= test_bounds(load, load + 1);
	ok &= test_same_digits(NR_LOADS + 1);
	if (is_long)
		ok &= test_all(NR_LOADS + 2);
	return !ok;
}
