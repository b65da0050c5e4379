/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_simulation.h - mq-mqfq's policy, as it is, with a simulated device below and tenants above
 *
 * Included after mqfq_policy.c and lib/ by the KUnit suite mqfq_policy (short) and by the program
 * mqfq_theorems (long). One thread, a seed, no clock: a failure comes back with its seed.
 *
 * The world
 * =========
 * Flows submit to one or several hardware queues: in a closed loop, in bursts, on and off, or at
 * random times. The device has D places and completes in one of several orders, some of them
 * malicious; it serves one byte per tick. What the block layer does is done in the same order: an
 * entry is tagged and inserted under the queue's lock, the queue is run, and a run takes until it
 * gets nothing. The run that the policy asks for is noted, and executed when the operation that
 * asked for it has returned. If runs are "delayed" they stay noted for a while, stop half way, and
 * queues are run that nobody asked for.
 *
 * The claims
 * ==========
 * A flow is backlogged while at least one of its entries waits. Let V be virtual time as it is
 * published, L the cost of a flow's largest request, and let c be the tags of a flow that have
 * been dispatched, put end to end: the flow has been sent everything up to some tag, and perhaps
 * something after it. While the flow is backlogged
 *
 *	V <= c <= V + T + L
 *
 * since nothing that waits is before V, and nothing was dispatched that started after V + T. So
 * in an interval in which f and m are backlogged, service counted when it is sent differs by
 *
 *	at most 2 T + L_f + L_m, for any D,					(1)
 *
 * and counted when it is completed, as the paper does, by what may be in flight at either end:
 *
 *	at most 2 T + (D + 1) (L_f + L_m).					(2)
 *
 * The paper's theorem 2, (D + 1) (2 T + L_f + L_m), is more than that. Its theorem 1, for D = 1, is
 * 2 T + L_f + L_m. It holds at completion, too, if both have been backlogged since before the last
 * request in flight was sent: what has been completed is what had been sent, a moment ago. Word by
 * word it does not hold:
 *
 *	1. f sends a request, and has another one that waits: V is that one's tag, V + L_f.
 *	2. m comes, and gets the tag V + L_f. From here on both are backlogged.
 *	3. The first request completes, the second one is sent and completes, since it has the same
 *	   tag as m's; m had nothing, f had 2 L_f.
 *
 * Virtual time is the earliest tag that waits; in SFQ, where this theorem comes from, it is the tag
 * of what is in service. What can be had, and is asserted, is theorem 1 for service that was sent
 * since both became backlogged, and for all service
 *
 *	at most the larger of 2 T + L_f + L_m and T + 2 max(L_f, L_m)		(3)
 *
 * for D = 1. All of this is checked for every pair and every interval: as the difference goes up
 * and down, its largest rise and fall since both became backlogged are the worst intervals that
 * end here.
 *
 * Service is counted in virtual time, as flow_cost_vt() charges it, and L is not less than any such
 * cost: nothing is allowed for rounding. What flow_cost_vt() itself is off by adds up, and is
 * reported, see SIM_EXACT.
 *
 * If T, D or weights change in the middle, intervals end there and new ones begin; with T + L in
 * (1) replaced by how far a flow may be ahead by what it was sent before, under the old rules.
 *
 * And, whenever all runs that were asked for have been executed:
 *
 *  - if anything waits, D requests are in flight: no slot is idle while there is work, throttled
 *    or not. For if a slot is idle, no queue is READY, all that wait are THROTTLED, have published
 *    their tags, and the one with the earliest is not ahead of itself.
 *  - a queue with entries waits for something: for a virtual time that has not come, or for a slot
 *    with its bit set.
 *  - V is not later than any tag that waits, and, if anything waits, by T / 4 earlier at most.
 *
 * At any time: V never goes back; a slot is given only if fewer than D are out; slots in flight
 * and in the tree are D together; a tag is what the naive rule says; at most so many events
 * happen, and in the end nothing waits.
 */
#ifndef MQFAIR_MQFQ_SIMULATION_H
#define MQFAIR_MQFQ_SIMULATION_H

#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#ifdef __KERNEL__
#include <linux/sched.h>
#define sim_relax()		cond_resched()
#else
#define sim_relax()		do { } while (0)
#endif

/* A program that can print tells what happens. */
#ifndef SIM_TRACE
#define SIM_TRACE(...)	do { } while (0)
#endif

enum {
	SIM_QUEUES_MAX		= 32,
	SIM_FLOWS_MAX		= 12,
	SIM_SLOTS_MAX		= 256,
	SIM_REQUESTS_MAX	= 4096,		/* alive at once */
	SIM_SECTOR_BYTES	= 512,
	SIM_SECTORS_MAX		= 2048,
	/* Events between two looks at all tokens. */
	SIM_LOOK_EVERY		= 32,
	/* A flow that may not submit looks again after so many, times D; a megabyte takes 4. */
	SIM_LOOK_IN_TICKS	= 1 << 18,
	/* Units of virtual time in a byte at weight 1. */
	SIM_VT_PER_BYTE		= FLOW_WEIGHT_DEFAULT << VT_SHIFT,
	SIM_EXACT_SHIFT		= 8,
};

#define SIM_NEVER	U64_MAX

/* In which order the device completes. */
enum sim_order {
	SIM_FIFO,
	SIM_RANDOM,
	SIM_BY_SIZE,
	SIM_LIFO,		/* but for one in 16 */
	SIM_HOLD_FIRST,		/* flow 0 only when there is nothing else */
	SIM_FAVOUR_FIRST,	/* flow 0 before all others */
	SIM_NR_ORDERS,
};

enum sim_arrival {
	SIM_CLOSED,
	SIM_ON_OFF,
	SIM_BURSTS,
	SIM_POISSON,
	SIM_NR_ARRIVALS,
};

enum sim_sizes {
	SIM_SIZES_RANGE,
	SIM_SIZES_EITHER,	/* the least, and one in 8 the most */
};

/* Which family of mixes. */
enum sim_kind {
	SIM_THEOREM_1,
	SIM_THEOREM_2,
	SIM_CHANGES,		/* as theorem 2, with T, D, b, B and weights changing */
	SIM_LIVENESS,		/* as changes, with delayed runs, requeues, insertion at the head */
	SIM_SHARES,		/* all always backlogged, for long */
	SIM_NR_KINDS,
};

/* Service is counted in these ways. */
enum sim_measure {
	SIM_SENT,
	SIM_COMPLETED,
	SIM_COMPLETED_SINCE,	/* if it was sent since both became backlogged */
	SIM_EXACT,		/* the same in bytes over weight, unrounded */
	SIM_NR_MEASURES,
};

struct sim_flow_mix {
	u32 weight;
	u32 queues;			/* a mask */
	enum sim_arrival arrival;
	unsigned int depth;
	enum sim_sizes sizes;
	u32 least_sectors, most_sectors;
	u32 gap_ticks;
	bool stays;			/* on its queue, mostly */
	unsigned int from, until;	/* it submits while all have issued so many requests */
};

struct sim_mix {
	u64 seed;
	enum sim_kind kind;
	enum sim_order order;
	unsigned int nr_queues, nr_flows, nr_requests;
	unsigned int slots;
	u64 throttle_vt, first_vt;
	struct vt_wheel_geometry wheel;
	unsigned int change_every;	/* requests, or 0 */
	struct sim_flow_mix flow[SIM_FLOWS_MAX];
	struct topology_place place[SIM_QUEUES_MAX];
};

struct sim_request {
	struct mqfq_entry e;
	struct sim_request *next_free;
	unsigned int flow, queue;
	u32 bytes;
	u64 cost_vt, done_at, sequence;
	bool alive;
};

struct sim_flow {
	const struct sim_flow_mix *mix;
	struct flow *flow;
	unsigned int outstanding, waiting, left_in_phase, queue;
	u64 next_at;
	u64 finish;			/* what its finish tag must be */
	u32 weight, max_bytes;
	u64 ahead_until;		/* see sim_note_ahead() */
	u64 bytes, bytes_at_mark;
	bool was_idle_since_mark;
};

/* The difference of two flows' services since both became backlogged. */
struct sim_pair {
	s64 now[SIM_NR_MEASURES], low[SIM_NR_MEASURES], high[SIM_NR_MEASURES];
	u64 since;		/* sim_request.sequence */
	u64 worst[SIM_NR_MEASURES];
};

/* The worst difference that was seen, in thousandths of the bound. */
struct sim_ratios {
	u32 sent;		/* (1) */
	u32 completed;		/* (2), (3) */
	u32 theorem;		/* theorem 1 for what was sent since both were backlogged, or 2 */
	u32 literal;		/* theorem 1 or 2, word by word; reported, not asserted for D = 1 */
	u32 exact;		/* theorem, in unrounded bytes; reported, not asserted */
};

struct simulation {
	struct sim_mix mix;
	struct mqfq_policy policy;
	struct flow_table flows;
	u64 random, now;

	struct sim_flow flow[SIM_FLOWS_MAX];
	struct sim_pair pair[SIM_FLOWS_MAX][SIM_FLOWS_MAX];
	struct sim_request request[SIM_REQUESTS_MAX];
	struct sim_request *free;
	struct sim_request *inflight[SIM_SLOTS_MAX];
	unsigned int nr_inflight;	/* at the device */
	unsigned int nr_out;		/* slots; a completed request holds one for a moment */
	unsigned int nr_waiting;
	u64 device_at, nr_sent;

	unsigned int slots, issued, completed, next_change;
	u64 throttle_vt, last_vt, grain_vt, slack_vt, window_vt;
	unsigned int window_depth;
	u32 pending, unguarded;		/* masks of queues */

	u64 step;
	struct sim_ratios ratios;
	const char *failure;
	u64 failed_at;
};

#define SIM_CHECK(s, condition, what)				\
do {								\
	if (!(condition) && !(s)->failure) {			\
		(s)->failure = what;				\
		(s)->failed_at = (s)->step;			\
	}							\
} while (0)

/* mqfq_policy_ops.clock_ns has no context; statistics only. */
static u64 sim_clock_ticks;

static u64 sim_random(struct simulation *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dULL;
}

static u32 sim_draw(struct simulation *s, u32 below)
{
	return ((sim_random(s) >> 32) * below) >> 32;
}

/* From @least to @most, each power of two as likely as the next. */
static u64 sim_draw_log(struct simulation *s, unsigned int least_shift, unsigned int most_shift)
{
	u64 base = 1ULL << (least_shift + sim_draw(s, most_shift - least_shift));

	return base + (sim_random(s) & (base - 1));
}

/* Exponentially distributed, roughly: the logarithm to base 2, with a straight line in between. */
static u64 sim_draw_gap(struct simulation *s, u32 mean)
{
	u64 x = sim_random(s) | 1;
	unsigned int zeros = 0;

	while (!(x >> 63)) {
		x <<= 1;
		zeros++;
	}
	/* 45426 / 65536 is ln 2. */
	return 1 + (((((u64)zeros << 16) + ((~x << 1) >> 48)) * mean >> 16) * 45426 >> 16);
}

/* ---- what must hold ---- */

static struct mqfq_entry *sim_first(const struct simulation *s, unsigned int queue)
{
	const struct mqfq_queue *q = &s->policy.queue[queue];
	struct rb_node *node = rb_first_cached(&q->others);
	struct mqfq_entry *first = node ? rb_entry(node, struct mqfq_entry, node) : NULL, *e;

	for (e = q->in_order.first; e; e = e->next)
		if (!first || vt_after(first->start, e->start))
			first = e;
	return first;
}

/* The earliest tag that waits, or VT_NONE. */
static u64 sim_earliest(const struct simulation *s)
{
	u64 earliest = VT_NONE;
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_entry *e = sim_first(s, i);

		if (e)
			earliest = vt_min(earliest, e->start);
	}
	return earliest;
}

/* A queue has been run and has entries: it waits, and somebody will know when it need not. */
static void sim_check_wait(struct simulation *s, unsigned int queue)
{
	struct mqfq_queue *q = &s->policy.queue[queue];
	int state = atomic_read(&q->state);

	SIM_CHECK(s, state != MQFQ_RUNNABLE, "a queue with entries waits for nothing");
	if (state == MQFQ_THROTTLED)
		SIM_CHECK(s, vt_after(sim_first(s, queue)->start,
				      mqfq_vt(&s->policy) + s->throttle_vt),
			  "a queue is throttled although its time has come");
	if (state == MQFQ_READY)
		SIM_CHECK(s, test_bit(q->leaf, s->policy.ready.bits),
			  "a queue waits for a slot, but is not in the ready set");
}

static void sim_check_tokens(struct simulation *s)
{
	SIM_CHECK(s, token_tree_nr_free(&s->policy.tokens) + (int)s->nr_out == (int)s->slots,
		  "slots in flight and in the tree are not D");
}

static void sim_check_vt(struct simulation *s)
{
	u64 vt = mqfq_vt(&s->policy);
	unsigned int i;

	SIM_CHECK(s, !vt_after(s->last_vt, vt), "virtual time went back");
	s->last_vt = vt;
	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_entry *e = sim_first(s, i);

		if (e && !(s->unguarded & 1U << i))
			SIM_CHECK(s, !vt_after(vt, e->start),
				  "virtual time is later than a tag that waits");
	}
}

/* After every event. */
static void sim_check(struct simulation *s)
{
	unsigned int i;

	sim_check_vt(s);
	if (s->step % SIM_LOOK_EVERY == 0)
		sim_check_tokens(s);
	if (s->pending)
		return;
	SIM_CHECK(s, !s->nr_waiting || s->nr_out >= s->slots,
		  "requests wait and a slot is idle");
	for (i = 0; i < s->mix.nr_queues; i++)
		if (READ_ONCE(s->policy.queue[i].nr))
			sim_check_wait(s, i);
	if (s->nr_waiting && s->mix.kind != SIM_LIVENESS)
		SIM_CHECK(s, sim_earliest(s) - mqfq_vt(&s->policy) <= s->grain_vt,
			  "virtual time lags behind the tags that wait");
}

/* ---- the theorems ---- */

/* What no request of the flow exceeds: l / r of the paper. */
static u64 sim_largest_vt(const struct sim_flow *f)
{
	u64 exact = div_u64((u64)f->max_bytes * SIM_VT_PER_BYTE + f->weight - 1, f->weight);

	return max(exact, flow_cost_vt(f->flow, f->max_bytes));
}

static bool sim_tracks(const struct simulation *s)
{
	return s->mix.kind != SIM_LIVENESS;
}

static struct sim_pair *sim_pair(struct simulation *s, unsigned int a, unsigned int b)
{
	return &s->pair[min(a, b)][max(a, b)];
}

/* Intervals in which both are backlogged begin here. */
static void sim_begin_pairs(struct simulation *s, unsigned int f)
{
	unsigned int m;

	for (m = 0; m < s->mix.nr_flows; m++) {
		struct sim_pair *pair = sim_pair(s, f, m);

		if (m == f || !s->flow[m].waiting)
			continue;
		memset(pair->now, 0, sizeof(pair->now));
		memset(pair->low, 0, sizeof(pair->low));
		memset(pair->high, 0, sizeof(pair->high));
		pair->since = s->nr_sent;
	}
}

static void sim_pair_serve(struct sim_pair *pair, enum sim_measure k, s64 service)
{
	pair->now[k] += service;
	pair->low[k] = min(pair->low[k], pair->now[k]);
	pair->high[k] = max(pair->high[k], pair->now[k]);
	pair->worst[k] = max_t(u64, pair->worst[k], pair->now[k] - pair->low[k]);
	pair->worst[k] = max_t(u64, pair->worst[k], pair->high[k] - pair->now[k]);
}

/* A flow has had more service. */
static void sim_serve(struct simulation *s, const struct sim_request *r, enum sim_measure k,
		      u64 service)
{
	unsigned int f = r->flow, m;

	if (!s->flow[f].waiting || !sim_tracks(s))
		return;
	for (m = 0; m < s->mix.nr_flows; m++) {
		struct sim_pair *pair = sim_pair(s, f, m);

		if (m == f || !s->flow[m].waiting)
			continue;
		if (k >= SIM_COMPLETED_SINCE && r->sequence < pair->since)
			continue;
		sim_pair_serve(pair, k, f < m ? service : -service);
	}
}

static void sim_ratio(u32 *ratio, u64 worst, u64 bound)
{
	if (bound)
		*ratio = max_t(u64, *ratio, div64_u64(worst * 1000, bound));
}

/* How far what it has been sent may be ahead of virtual time, in this window. */
static u64 sim_ahead(const struct simulation *s, const struct sim_flow *f)
{
	u64 usual = s->throttle_vt + sim_largest_vt(f);

	if (vt_after(f->ahead_until, s->window_vt + usual))
		return f->ahead_until - s->window_vt;
	return usual;
}

/* (2), or for D = 1 all the time (3). */
static u64 sim_completed_bound(const struct simulation *s, u64 sent, u64 largest_f, u64 largest_m)
{
	if (s->mix.kind == SIM_THEOREM_1)
		return max(sent, s->throttle_vt + 2 * max(largest_f, largest_m));
	return sent + s->window_depth * (largest_f + largest_m);
}

static void sim_judge(struct simulation *s, unsigned int a, unsigned int b)
{
	u64 largest_f = sim_largest_vt(&s->flow[a]), largest_m = sim_largest_vt(&s->flow[b]);
	u64 sent = sim_ahead(s, &s->flow[a]) + sim_ahead(s, &s->flow[b]) + s->slack_vt;
	u64 completed = sim_completed_bound(s, sent, largest_f, largest_m);
	u64 depth = s->window_depth > 1 ? s->window_depth + 1 : 1;
	u64 paper = depth * (2 * s->throttle_vt + largest_f + largest_m);
	const u64 *worst = s->pair[a][b].worst;
	u64 theorem = worst[depth > 1 ? SIM_COMPLETED : SIM_COMPLETED_SINCE];

	SIM_TRACE(s, "flows %u and %u: sent %llu of %llu, completed %llu of %llu, L %llu and %llu",
		  a, b, worst[SIM_SENT], sent, worst[SIM_COMPLETED], completed, largest_f,
		  largest_m);
	sim_ratio(&s->ratios.sent, worst[SIM_SENT], sent);
	sim_ratio(&s->ratios.completed, worst[SIM_COMPLETED], completed);
	SIM_CHECK(s, worst[SIM_SENT] <= sent, "two flows were sent shares too different");
	SIM_CHECK(s, worst[SIM_COMPLETED] <= completed, "two flows had shares too different");
	if (s->mix.kind != SIM_CHANGES) {
		sim_ratio(&s->ratios.theorem, theorem, paper);
		sim_ratio(&s->ratios.literal, worst[SIM_COMPLETED], paper);
		sim_ratio(&s->ratios.exact, worst[SIM_EXACT] >> SIM_EXACT_SHIFT, paper);
		SIM_CHECK(s, theorem <= paper, "the theorem does not hold");
	}
	memset(s->pair[a][b].worst, 0, sizeof(s->pair[a][b].worst));
}

static void sim_end_window(struct simulation *s)
{
	unsigned int a, b;

	if (!sim_tracks(s))
		return;
	for (a = 0; a < s->mix.nr_flows; a++)
		for (b = a + 1; b < s->mix.nr_flows; b++)
			sim_judge(s, a, b);
}

static void sim_begin_window(struct simulation *s)
{
	unsigned int f;

	s->window_depth = max(s->slots, s->nr_out);
	s->window_vt = mqfq_vt(&s->policy);
	for (f = 0; f < s->mix.nr_flows; f++)
		if (s->flow[f].waiting)
			sim_begin_pairs(s, f);
}

/* ---- the device ---- */

static void sim_to_device(struct simulation *s, struct sim_request *r)
{
	u32 service = r->bytes * s->mix.slots;

	switch (s->mix.order) {
	case SIM_FIFO:
		s->device_at = max(s->device_at, s->now) + r->bytes;
		r->done_at = s->device_at;
		break;
	case SIM_RANDOM:
		r->done_at = s->now + 1 + sim_draw(s, 2 * service);
		break;
	default:
		r->done_at = s->now + service;
	}
	r->sequence = s->nr_sent++;
	s->inflight[s->nr_inflight++] = r;
	s->nr_out++;
}

static struct sim_request *sim_earliest_done(const struct simulation *s)
{
	struct sim_request *found = NULL;
	unsigned int i;

	for (i = 0; i < s->nr_inflight; i++)
		if (!found || s->inflight[i]->done_at < found->done_at)
			found = s->inflight[i];
	return found;
}

/* Does this order complete @a before @b, whatever their time is? */
static bool sim_goes_first(const struct simulation *s, const struct sim_request *a,
			   const struct sim_request *b)
{
	switch (s->mix.order) {
	case SIM_LIFO:
		return a->sequence > b->sequence;
	case SIM_HOLD_FIRST:
		return a->flow && (!b->flow || a->done_at < b->done_at);
	case SIM_FAVOUR_FIRST:
		return !a->flow && (b->flow || a->sequence > b->sequence);
	default:
		return false;
	}
}

/* Something completes now: what? */
static struct sim_request *sim_from_device(struct simulation *s)
{
	struct sim_request *due = sim_earliest_done(s), *r = due;
	unsigned int i;

	if (sim_draw(s, 16))
		for (i = 0; i < s->nr_inflight; i++)
			if (sim_goes_first(s, s->inflight[i], r))
				r = s->inflight[i];
	due->done_at = r->done_at;
	for (i = 0; s->inflight[i] != r; i++)
		;
	s->inflight[i] = s->inflight[--s->nr_inflight];
	return r;
}

/* ---- runs ---- */

static void sim_asked_to_run(void *context, unsigned int number, enum mqfq_state was)
{
	struct simulation *s = context;

	SIM_TRACE(s, "wake queue %u, which was %d", number, was);
	SIM_CHECK(s, was == MQFQ_THROTTLED || was == MQFQ_READY, "woken from no wait");
	s->pending |= 1U << number;
}

static u64 sim_clock_ns(void)
{
	return sim_clock_ticks;
}

static const struct mqfq_policy_ops sim_ops = {
	.run		= sim_asked_to_run,
	.clock_ns	= sim_clock_ns,
};

static void sim_dispatch(struct simulation *s, struct mqfq_entry *e, u64 earliest)
{
	struct sim_request *r = container_of(e, struct sim_request, e);
	struct sim_flow *f = &s->flow[r->flow];
	const struct mqfq_entry *next = sim_first(s, r->queue);

	SIM_TRACE(s, "dispatch flow %u queue %u start %+lld bytes %u inflight %u", r->flow,
		  r->queue, (s64)(e->start - s->mix.first_vt), r->bytes, s->nr_out + 1);
	SIM_CHECK(s, s->nr_out < s->slots, "more than D in flight");
	SIM_CHECK(s, !next || !vt_after(e->start, next->start), "not the first of its queue");
	if (!s->unguarded)
		SIM_CHECK(s, !vt_after(e->start, earliest + s->throttle_vt),
			  "dispatched more than T ahead of the earliest tag");
	SIM_CHECK(s, mqfq_entry_flow(e) == f->flow, "the entry has changed its flow");

	/* The last one of a backlog still counts. */
	sim_serve(s, r, SIM_SENT, r->cost_vt);
	f->waiting--;
	s->nr_waiting--;
	if (!f->waiting)
		f->was_idle_since_mark = true;
	sim_to_device(s, r);
}

/* The queue has got nothing: was that right? */
static void sim_check_verdict(struct simulation *s, struct mqfq_queue *q, enum mqfq_verdict verdict)
{
	switch (verdict) {
	case MQFQ_TOO_FAR_AHEAD:
		SIM_CHECK(s, vt_after(sim_first(s, q->number)->start,
				      mqfq_vt(&s->policy) + s->throttle_vt),
			  "throttled although not ahead");
		break;
	case MQFQ_NO_SLOT:
		SIM_CHECK(s, s->nr_out >= s->slots, "no slot although there is one");
		break;
	default:
		SIM_CHECK(s, false, "nothing to send although there is work");
	}
}

static void sim_run_queue(struct simulation *s, unsigned int number)
{
	struct mqfq_queue *q = &s->policy.queue[number];
	struct mqfq_entry *e;

	s->pending &= ~(1U << number);
	while (mqfq_has_work(q) && !s->failure) {
		u64 earliest = sim_earliest(s);

		spin_lock(&q->lock);
		e = mqfq_take(q);
		spin_unlock(&q->lock);
		if (!e) {
			sim_check_verdict(s, q, q->verdict);
			break;
		}
		sim_dispatch(s, e, earliest);
		/* The driver is busy, or the worker's time is up. */
		if (s->mix.kind == SIM_LIVENESS && mqfq_has_work(q) && !sim_draw(s, 8)) {
			s->pending |= 1U << number;
			break;
		}
	}
	/* From now on virtual time must not pass what waits here. */
	e = sim_first(s, number);
	if (!e || !vt_after(mqfq_vt(&s->policy), e->start))
		s->unguarded &= ~(1U << number);
}

static void sim_run_one(struct simulation *s)
{
	unsigned int skip = sim_draw(s, hweight32(s->pending)), i;

	for (i = 0; ; i++)
		if (s->pending & 1U << i && !skip--)
			break;
	sim_run_queue(s, i);
}

static void sim_run_all(struct simulation *s)
{
	while (s->pending && !s->failure)
		sim_run_one(s);
}

/* After each operation: what was asked for is done at once, or later. */
static void sim_settle(struct simulation *s)
{
	unsigned int n;

	if (s->mix.kind != SIM_LIVENESS) {
		sim_run_all(s);
		return;
	}
	for (n = sim_draw(s, 3); n && s->pending; n--)
		sim_run_one(s);
	if (!sim_draw(s, 16))
		sim_run_queue(s, sim_draw(s, s->mix.nr_queues));
	if (!sim_draw(s, 64))
		sim_run_all(s);
}

/* ---- tenants ---- */

static u32 sim_draw_bytes(struct simulation *s, const struct sim_flow_mix *mix)
{
	u32 sectors = mix->least_sectors;

	if (mix->sizes == SIM_SIZES_RANGE)
		sectors += sim_draw(s, mix->most_sectors - mix->least_sectors + 1);
	else if (!sim_draw(s, 8))
		sectors = mix->most_sectors;
	return sectors * SIM_SECTOR_BYTES;
}

static unsigned int sim_draw_queue(struct simulation *s, struct sim_flow *f)
{
	unsigned int skip;

	if (f->mix->stays && sim_draw(s, 16))
		return f->queue;
	skip = sim_draw(s, hweight32(f->mix->queues));
	for (f->queue = 0; ; f->queue++)
		if (f->mix->queues & 1U << f->queue && !skip--)
			return f->queue;
}

/* Virtual time, or the finish tag of the last request if that is later. */
static u64 sim_tag(struct simulation *s, struct sim_flow *f, u64 cost_vt)
{
	u64 vt = mqfq_vt(&s->policy), expected = vt_after(f->finish, vt) ? f->finish : vt;
	u64 start = flow_tag(f->flow, vt, cost_vt);

	SIM_CHECK(s, start == vt_add(expected, 0), "not the start tag that the rule gives");
	SIM_CHECK(s, !vt_after(vt, start), "a flow has saved up service while it was idle");
	f->finish = vt_add(start, cost_vt);
	SIM_CHECK(s, READ_ONCE(f->flow->finish) == f->finish,
		  "not the finish tag that the rule gives");
	return start;
}

/* The queue is still owed a run. */
static void sim_insert(struct simulation *s, struct sim_request *r, u64 start)
{
	struct mqfq_queue *q = &s->policy.queue[r->queue];
	struct sim_flow *f = &s->flow[r->flow];

	SIM_TRACE(s, "insert flow %u queue %u start %+lld bytes %u vt %+lld", r->flow, r->queue,
		  (s64)(start - s->mix.first_vt), r->bytes,
		  (s64)(mqfq_vt(&s->policy) - s->mix.first_vt));
	/* A queue that waits for a slot tells of an earlier entry at once; others when run. */
	if (atomic_read(&q->state) != MQFQ_READY)
		s->unguarded |= 1U << r->queue;
	spin_lock(&q->lock);
	mqfq_insert(q, &r->e, start);
	spin_unlock(&q->lock);
	s->pending |= 1U << r->queue;
	s->nr_waiting++;
	if (!f->waiting++ && sim_tracks(s))
		sim_begin_pairs(s, r->flow);
}

static void sim_issue(struct simulation *s, unsigned int number, unsigned int queue)
{
	struct sim_flow *f = &s->flow[number];
	struct sim_request *r = s->free;
	u64 start;

	s->free = r->next_free;
	r->alive = true;
	r->flow = number;
	r->queue = queue;
	r->bytes = sim_draw_bytes(s, f->mix);
	r->cost_vt = flow_cost_vt(f->flow, r->bytes);
	r->e.flow = (unsigned long)f->flow;
	f->max_bytes = max(f->max_bytes, r->bytes);
	f->outstanding++;
	s->issued++;
	start = sim_tag(s, f, r->cost_vt);
	if (s->mix.kind == SIM_LIVENESS && !sim_draw(s, 64))
		start = mqfq_vt(&s->policy);
	sim_insert(s, r, start);
}

static bool sim_may_issue(const struct simulation *s, const struct sim_flow *f)
{
	return s->free && s->issued < s->mix.nr_requests && s->issued >= f->mix->from &&
	       s->issued < f->mix->until;
}

/* One by one, or as a plug does: many for one queue before it is run. */
static void sim_issue_many(struct simulation *s, unsigned int number, unsigned int n)
{
	struct sim_flow *f = &s->flow[number];
	bool plug = sim_draw(s, 2);
	unsigned int queue = sim_draw_queue(s, f);

	for (; n && sim_may_issue(s, f); n--) {
		sim_issue(s, number, queue);
		if (plug && sim_draw(s, 8))
			continue;
		sim_settle(s);
		queue = sim_draw_queue(s, f);
	}
	sim_settle(s);
}

static void sim_arrive(struct simulation *s, unsigned int number)
{
	struct sim_flow *f = &s->flow[number];
	const struct sim_flow_mix *mix = f->mix;
	unsigned int room = 2 * mix->depth - min(f->outstanding, 2 * mix->depth);

	f->next_at = SIM_NEVER;
	if (s->issued >= s->mix.nr_requests || s->issued >= mix->until)
		return;
	if (s->issued < mix->from || !room) {
		f->next_at = s->now + sim_draw_gap(s, SIM_LOOK_IN_TICKS) * s->mix.slots;
		return;
	}
	switch (mix->arrival) {
	case SIM_ON_OFF:
		f->left_in_phase = mix->depth * sim_draw(s, 16);
		sim_issue_many(s, number, mix->depth);
		break;
	case SIM_BURSTS:
		sim_issue_many(s, number, min(1 + sim_draw(s, mix->depth), room));
		f->next_at = s->now + sim_draw_gap(s, mix->gap_ticks) * (mix->depth / 2 + 1);
		break;
	case SIM_POISSON:
		sim_issue_many(s, number, 1);
		f->next_at = s->now + sim_draw_gap(s, mix->gap_ticks);
		break;
	default:
		sim_issue_many(s, number, mix->depth);
	}
	if (!f->outstanding && f->next_at == SIM_NEVER)
		f->next_at = s->now + sim_draw_gap(s, SIM_LOOK_IN_TICKS) * s->mix.slots;
}

/* A request is done: those who wait for it go on. */
static void sim_reissue(struct simulation *s, unsigned int number)
{
	struct sim_flow *f = &s->flow[number];
	bool on = f->mix->arrival == SIM_CLOSED ||
		  (f->mix->arrival == SIM_ON_OFF && f->left_in_phase);

	if (on && sim_may_issue(s, f)) {
		f->left_in_phase -= f->mix->arrival == SIM_ON_OFF;
		sim_issue_many(s, number, 1);
	}
	if (!f->outstanding && f->next_at == SIM_NEVER)
		f->next_at = s->now + sim_draw_gap(s, f->mix->gap_ticks) * f->mix->depth;
}

/* It comes back from the driver: it has been charged, and has given its slot back. */
static void sim_requeue(struct simulation *s, struct sim_request *r)
{
	SIM_TRACE(s, "requeue flow %u queue %u", r->flow, r->queue);
	s->nr_out--;
	mqfq_release(&s->policy.queue[r->queue]);
	sim_settle(s);
	sim_insert(s, r, mqfq_vt(&s->policy));
	SIM_CHECK(s, READ_ONCE(s->flow[r->flow].flow->finish) == s->flow[r->flow].finish,
		  "charged twice");
	sim_settle(s);
}

static void sim_complete(struct simulation *s)
{
	struct sim_request *r = sim_from_device(s);
	struct mqfq_queue *q = &s->policy.queue[r->queue];
	unsigned int number = r->flow;
	struct sim_flow *f = &s->flow[number];
	bool early = sim_draw(s, 2);

	if (s->mix.kind == SIM_LIVENESS && !sim_draw(s, 64)) {
		sim_requeue(s, r);
		return;
	}
	SIM_TRACE(s, "complete flow %u queue %u bytes %u", r->flow, r->queue, r->bytes);
	sim_serve(s, r, SIM_COMPLETED, r->cost_vt);
	sim_serve(s, r, SIM_COMPLETED_SINCE, r->cost_vt);
	sim_serve(s, r, SIM_EXACT,
		  div_u64(((u64)r->bytes * SIM_VT_PER_BYTE) << SIM_EXACT_SHIFT, f->weight));
	f->bytes += r->bytes;
	f->outstanding--;
	s->completed++;
	r->alive = false;
	r->next_free = s->free;
	s->free = r;
	/* Who waited for it may go on before its slot is free, or after. */
	if (early)
		sim_reissue(s, number);
	SIM_TRACE(s, "release queue %u", q->number);
	s->nr_out--;
	mqfq_release(q);
	sim_settle(s);
	if (!early)
		sim_reissue(s, number);
}

/* ---- changes in the middle ---- */

/* What every flow may be ahead, as an absolute virtual time: it survives a change of the rules. */
static void sim_note_ahead(struct simulation *s)
{
	u64 vt = mqfq_vt(&s->policy);
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		struct sim_flow *f = &s->flow[i];
		u64 ahead = vt + s->throttle_vt + sim_largest_vt(f);

		if (vt_after(ahead, f->ahead_until))
			f->ahead_until = ahead;
	}
}

static u64 sim_scaled(u64 tag, u64 vt, u32 old_weight, u32 new_weight)
{
	return vt_after(tag, vt) ? vt_add(vt, div_u64((tag - vt) * old_weight, new_weight)) : tag;
}

static void sim_change_weight(struct simulation *s)
{
	unsigned int number = sim_draw(s, s->mix.nr_flows), i;
	struct sim_flow *f = &s->flow[number];
	u64 wish = div64_u64(f->weight * sim_draw_log(s, 0, 5), sim_draw_log(s, 0, 5));
	u32 weight = clamp_t(u64, wish, FLOW_WEIGHT_MIN, FLOW_WEIGHT_MAX), old;
	struct flow_reweigh change = {};
	u64 vt = mqfq_vt(&s->policy);
	struct flow *flow = flow_set_weight(&s->flows, number, weight, vt, &change);

	old = change.old_weight;
	SIM_TRACE(s, "weight of flow %u %u -> %u", number, old, weight);
	SIM_CHECK(s, flow == f->flow && old == f->weight, "not the flow whose weight changed");
	mqfq_rescale(&s->policy, f->flow, &change);
	flow_put(f->flow);
	f->weight = weight;
	f->finish = sim_scaled(f->finish, vt, old, weight);
	f->ahead_until = sim_scaled(f->ahead_until, vt, old, weight);
	SIM_CHECK(s, READ_ONCE(f->flow->finish) == f->finish, "the finish tag did not follow");
	for (i = 0; i < SIM_REQUESTS_MAX; i++) {
		struct sim_request *r = &s->request[i];

		if (!r->alive || r->flow != number)
			continue;
		r->cost_vt = div_u64(r->cost_vt * old, weight);
		s->slack_vt += 2;
	}
}

static void sim_change_throttle(struct simulation *s)
{
	s->throttle_vt = sim_draw(s, 8) ? sim_draw_log(s, 12, 26) : 0;
	SIM_TRACE(s, "T %llu", s->throttle_vt);
	mqfq_set_throttle(&s->policy, s->throttle_vt);
	/* A leaf may lag by the old T until its queue is run. */
	s->grain_vt = max(s->grain_vt, s->throttle_vt / 4);
}

static void sim_change(struct simulation *s)
{
	struct vt_wheel_geometry wheel = { 8 + sim_draw(s, 20), 1 + sim_draw(s, 10) };

	s->next_change += s->mix.change_every;
	sim_end_window(s);
	sim_note_ahead(s);
	switch (sim_draw(s, 4)) {
	case 0:
		s->slots = 1 + sim_draw(s, min(2 * s->mix.slots, SIM_SLOTS_MAX));
		SIM_TRACE(s, "D %u", s->slots);
		mqfq_set_slots(&s->policy, s->slots);
		break;
	case 1:
		sim_change_throttle(s);
		break;
	case 2:
		SIM_TRACE(s, "wheel %u %u", wheel.width_shift, wheel.buckets_shift);
		mqfq_set_wheel(&s->policy, wheel);
		break;
	default:
		sim_change_weight(s);
	}
	sim_begin_window(s);
	sim_settle(s);
}

/* ---- from the beginning to the end ---- */

/* What comes next, a request or a completion? False if nothing does. */
static bool sim_step(struct simulation *s)
{
	struct sim_request *done = sim_earliest_done(s);
	unsigned int next = 0, i;

	for (i = 1; i < s->mix.nr_flows; i++)
		if (s->flow[i].next_at < s->flow[next].next_at)
			next = i;
	s->step++;
	if (done && done->done_at < s->flow[next].next_at) {
		s->now = done->done_at;
		sim_complete(s);
	} else if (s->flow[next].next_at != SIM_NEVER) {
		s->now = s->flow[next].next_at;
		sim_arrive(s, next);
	} else if (s->pending) {
		sim_run_all(s);
	} else {
		return false;
	}
	sim_settle(s);
	sim_clock_ticks = s->now;
	if (s->mix.change_every && s->issued >= s->next_change)
		sim_change(s);
	sim_check(s);
	return true;
}

/* Nothing is on its way any more: nothing may have been left behind. */
static void sim_check_end(struct simulation *s)
{
	unsigned int i, k;

	SIM_CHECK(s, !s->nr_waiting, "requests wait for ever");
	SIM_CHECK(s, s->completed == s->issued, "not all that was issued has completed");
	sim_check_tokens(s);
	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_queue *q = &s->policy.queue[i];

		SIM_CHECK(s, !q->nr && !q->nr_flows && q->inserted == q->taken,
			  "a queue's counters do not add up");
		SIM_CHECK(s, mindicator_leaf(&s->policy.vt, q->leaf) == VT_NONE,
			  "an empty queue holds virtual time back");
		for (k = 0; k < MQFQ_FLOW_COUNTERS; k++)
			SIM_CHECK(s, !q->nr_queued[k], "a flow's counter is not zero");
	}
}

/* Shares between the marks, in a run in which all were backlogged: to one percent. */
static void sim_check_shares(struct simulation *s)
{
	u64 least = U64_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		const struct sim_flow *f = &s->flow[i];
		u64 share = div_u64((f->bytes - f->bytes_at_mark) * SIM_VT_PER_BYTE, f->weight);

		SIM_CHECK(s, !f->was_idle_since_mark, "a flow was not backlogged: a bad mix");
		least = min(least, share);
		most = max(most, share);
	}
	SIM_CHECK(s, most - least <= div_u64(least, 100), "shares are off by more than a percent");
}

static void sim_mark(struct simulation *s)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		s->flow[i].bytes_at_mark = s->flow[i].bytes;
		s->flow[i].was_idle_since_mark = !s->flow[i].waiting;
	}
}

/**
 * sim_run() - from the first request to the last
 * @s:	simulation
 *
 * Return: what did not hold, or NULL.
 */
static const char *sim_run(struct simulation *s)
{
	/* A request is issued and completes; a flow that is not there yet looks in now and then. */
	u64 most_steps = 100000 + 16 * (u64)s->mix.nr_requests;
	unsigned int mark = s->mix.nr_requests / 8, end = s->mix.nr_requests - mark;
	bool marked = false;

	while (!s->failure && sim_step(s)) {
		if (s->mix.kind == SIM_SHARES && !marked && s->issued >= mark) {
			marked = true;
			sim_mark(s);
		}
		if (s->mix.kind == SIM_SHARES && end && s->issued >= end) {
			end = 0;
			sim_check_shares(s);
		}
		SIM_CHECK(s, s->step < most_steps, "too many events for so few requests");
		if (s->step % 4096 == 0)
			sim_relax();
	}
	sim_end_window(s);
	if (!s->failure)
		sim_check_end(s);
	return s->failure;
}

/* ---- mixes ---- */

static u32 sim_draw_weight(struct simulation *s, unsigned int manner)
{
	switch (manner) {
	case 0:
		return FLOW_WEIGHT_DEFAULT;
	case 1:
		return FLOW_WEIGHT_DEFAULT << sim_draw(s, 4);
	case 2:
		return sim_draw(s, 2) ? FLOW_WEIGHT_MIN : FLOW_WEIGHT_MAX;
	default:
		return min_t(u64, sim_draw_log(s, 0, 14), FLOW_WEIGHT_MAX);
	}
}

static void sim_draw_sizes(struct simulation *s, struct sim_flow_mix *f)
{
	static const u16 usual[] = { 1, 8, 8, 8, 32, 128, 256, SIM_SECTORS_MAX };

	f->sizes = SIM_SIZES_RANGE;
	f->least_sectors = usual[sim_draw(s, sizeof(usual) / sizeof(*usual))];
	f->most_sectors = f->least_sectors;
	if (sim_draw(s, 3))
		f->most_sectors += sim_draw(s, SIM_SECTORS_MAX - f->least_sectors + 1);
	if (sim_draw(s, 2))
		f->sizes = SIM_SIZES_EITHER;
}

static u32 sim_draw_queues(struct simulation *s, unsigned int nr_queues)
{
	u32 all = nr_queues == 32 ? U32_MAX : (1U << nr_queues) - 1, queues;

	switch (sim_draw(s, 3)) {
	case 0:
		return all;
	case 1:
		return 1U << sim_draw(s, nr_queues);
	default:
		queues = sim_random(s) & all;
		return queues ? queues : 1;
	}
}

static void sim_draw_flow(struct simulation *s, unsigned int number, unsigned int weights)
{
	struct sim_flow_mix *f = &s->mix.flow[number];
	unsigned int most = min(128U, SIM_REQUESTS_MAX / (2 * s->mix.nr_flows));

	f->weight = sim_draw_weight(s, weights);
	f->queues = sim_draw_queues(s, s->mix.nr_queues);
	/* Closed loops are what keeps a flow backlogged. */
	f->arrival = sim_draw(s, 2) ? SIM_CLOSED : sim_draw(s, SIM_NR_ARRIVALS);
	f->depth = min_t(u64, sim_draw_log(s, 0, 8), most);
	if (!sim_draw(s, 3))
		f->depth = min(s->mix.slots + f->depth, most);
	sim_draw_sizes(s, f);
	f->gap_ticks = SIM_SECTOR_BYTES / 4 * (f->least_sectors + f->most_sectors) *
		       (1 + sim_draw(s, 2 * s->mix.nr_flows));
	f->stays = sim_draw(s, 2);
	f->until = s->mix.nr_requests;
	/* The first two are there all the time; some of the others come, and leave. */
	if (number > 1 && sim_draw(s, 2)) {
		f->from = sim_draw(s, s->mix.nr_requests);
		f->until = f->from + sim_draw(s, s->mix.nr_requests - f->from);
	}
}

/* Like the others, but nobody ever has nothing to send, and nobody is tiny. */
static void sim_draw_sharer(struct simulation *s, unsigned int number)
{
	struct sim_flow_mix *f = &s->mix.flow[number];

	f->weight = 50 + sim_draw(s, 750);
	f->queues = sim_draw_queues(s, s->mix.nr_queues);
	f->arrival = SIM_CLOSED;
	f->depth = s->mix.slots + 16;
	f->sizes = sim_draw(s, 2) ? SIM_SIZES_RANGE : SIM_SIZES_EITHER;
	f->least_sectors = 8 << sim_draw(s, 4);
	f->most_sectors = 128;
	f->gap_ticks = 1;
	f->until = s->mix.nr_requests;
}

static unsigned int sim_draw_slots(struct simulation *s)
{
	switch (s->mix.kind == SIM_THEOREM_1 ? 0 : 1 + sim_draw(s, 4)) {
	case 0:
		return 1;
	case 1:
		return 2 + sim_draw(s, 3);
	case 4:
		return s->mix.kind == SIM_SHARES ? 64 : 32U << sim_draw(s, 4);
	default:
		return 2 + sim_draw(s, 31);
	}
}

static u64 sim_draw_first_vt(struct simulation *s)
{
	switch (sim_draw(s, 4)) {
	case 0:
		return 0;
	case 1:
		/* Signed numbers wrap here. */
		return (1ULL << 63) - sim_draw_log(s, 10, 32);
	default:
		return 0 - sim_draw_log(s, 10, 32);
	}
}

static void sim_draw_mix(struct simulation *s, enum sim_kind kind, u64 seed,
			 unsigned int nr_requests)
{
	struct sim_mix *mix = &s->mix;
	unsigned int weights, i;

	s->random = (seed << 3 | kind) * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 8; i++)
		sim_random(s);
	mix->seed = seed;
	mix->kind = kind;
	mix->nr_requests = nr_requests;
	mix->order = sim_draw(s, SIM_NR_ORDERS);
	mix->nr_queues = sim_draw(s, 4) ? 1 + sim_draw(s, 12) : 1 + sim_draw(s, SIM_QUEUES_MAX);
	mix->nr_flows = sim_draw(s, 3) ? 2 + sim_draw(s, 3) : 2 + sim_draw(s, SIM_FLOWS_MAX - 1);
	mix->slots = sim_draw_slots(s);
	mix->throttle_vt = sim_draw(s, 8) ? sim_draw_log(s, 12, 26) : 0;
	mix->first_vt = sim_draw_first_vt(s);
	mix->wheel.width_shift = 8 + sim_draw(s, 20);
	mix->wheel.buckets_shift = 1 + sim_draw(s, 10);
	for (i = 0; i < SIM_QUEUES_MAX; i++) {
		mix->place[i].id[TOPOLOGY_CORE] = i / 2;
		mix->place[i].id[TOPOLOGY_CACHE] = i / 4;
		mix->place[i].id[TOPOLOGY_SOCKET] = i % 8 / 4;
	}
	if (kind == SIM_CHANGES || kind == SIM_LIVENESS)
		mix->change_every = 64 + sim_draw(s, 2000);
	if (kind == SIM_SHARES) {
		mix->throttle_vt = sim_draw_log(s, 14, 21);
		mix->nr_flows = 2 + sim_draw(s, 4);
	}
	weights = sim_draw(s, 4);
	for (i = 0; i < mix->nr_flows; i++) {
		if (kind == SIM_SHARES)
			sim_draw_sharer(s, i);
		else
			sim_draw_flow(s, i, weights);
	}
}

static u32 sim_weight_of(void *context, u64 key, void *who)
{
	struct simulation *s = context;

	(void)who;
	return s->mix.flow[key].weight;
}

static int sim_init_policy(struct simulation *s)
{
	const struct mqfq_config config = {
		.throttle_vt	= s->mix.throttle_vt,
		.slots		= s->mix.slots,
		.wheel		= s->mix.wheel,
	};

	return mqfq_policy_init(&s->policy, s->mix.place, s->mix.nr_queues, s->mix.first_vt,
				&config, &sim_ops, s, GFP_KERNEL);
}

/**
 * sim_new() - a world, by its number
 * @kind:	which family
 * @seed:	its number; the same number gives the same world and the same events
 * @nr_requests: how long
 *
 * Return: a simulation for sim_run(), or NULL.
 */
static struct simulation *sim_new(enum sim_kind kind, u64 seed, unsigned int nr_requests)
{
	struct simulation *s = kvcalloc(1, sizeof(*s), GFP_KERNEL);
	const struct sim_mix *mix = &s->mix;
	unsigned int i;

	if (!s)
		return NULL;
	sim_draw_mix(s, kind, seed, nr_requests);
	s->slots = mix->slots;
	s->window_depth = mix->slots;
	s->throttle_vt = mix->throttle_vt;
	s->grain_vt = mix->throttle_vt / 4;
	s->last_vt = mix->first_vt;
	s->window_vt = mix->first_vt;
	s->next_change = mix->change_every;
	if (sim_init_policy(s))
		goto err_simulation;
	if (flow_table_init(&s->flows, sim_weight_of, s, GFP_KERNEL))
		goto err_policy;
	for (i = 0; i < mix->nr_flows; i++) {
		struct sim_flow *f = &s->flow[i];

		f->mix = &s->mix.flow[i];
		f->weight = f->mix->weight;
		f->flow = flow_get(&s->flows, i, NULL, mix->first_vt);
		f->finish = mix->first_vt;
		f->ahead_until = mix->first_vt;
		f->queue = __ffs(f->mix->queues);
		f->next_at = i + 1;
		if (f->flow == &s->flows.other)
			goto err_flows;
	}
	for (i = 0; i < SIM_REQUESTS_MAX; i++) {
		s->request[i].next_free = s->free;
		s->free = &s->request[i];
	}
	return s;

err_flows:
	flow_table_destroy(&s->flows);
err_policy:
	mqfq_policy_destroy(&s->policy);
err_simulation:
	kvfree(s);
	return NULL;
}

static void sim_free(struct simulation *s)
{
	flow_table_destroy(&s->flows);
	mqfq_policy_destroy(&s->policy);
	kvfree(s);
}

#endif /* MQFAIR_MQFQ_SIMULATION_H */
