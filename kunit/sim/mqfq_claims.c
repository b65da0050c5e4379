// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_claims.c - what must hold while the simulation of mq-mqfq runs
 *
 * See sim.h.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "sim.h"

/* ---- what must hold ---- */

struct mqfq_entry *sim_first(const struct simulation *s, unsigned int queue)
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
u64 sim_earliest(const struct simulation *s)
{
	u64 earliest = VT_NONE;
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_entry *e = sim_first(s, i);

		if (e && !s->policy.queue[i].is_away)
			earliest = vt_min(earliest, e->start);
	}
	return earliest;
}

static unsigned int sim_lent(const struct mqfq_queue *q)
{
	return mqfq_tally_lent(atomic64_read(&q->tally));
}

static bool sim_is_stuck(const struct mqfq_queue *q)
{
	return atomic_read(&q->state) == MQFQ_STUCK;
}

/* A queue has been run and has entries: it waits, and will be woken when it need not. */
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
	if (state == MQFQ_RESTING)
		SIM_CHECK(s, mqfq_nr_slots_held(q),
			  "a slot rests in a queue that has nothing at the device");
	if (state == MQFQ_STUCK)
		SIM_CHECK(s, sim_lent(q) && mqfq_nr_in_flight(q) > sim_lent(q),
			  "a queue waits for requests of its own, and has none");
}

/* Tokens that a queue has for entries that wait. */
unsigned int sim_nr_in_hand(const struct mqfq_queue *q)
{
	int state = atomic_read(&q->state);

	return state < MQFQ_ARMED ? state == MQFQ_RESTING : state - MQFQ_ARMED + 1;
}

static void sim_check_tokens(struct simulation *s)
{
	int lent = atomic_read(&s->policy.tokens.nr_lent);
	unsigned int i, sum = 0, armed = 0;

	for (i = 0; i < s->mix.nr_queues; i++) {
		sum += sim_lent(&s->policy.queue[i]);
		armed += sim_nr_in_hand(&s->policy.queue[i]);
	}
	SIM_CHECK(s, token_tree_nr_free(&s->policy.tokens) + (int)(armed + s->nr_out) ==
		     (int)s->slots + lent,
		  "slots in flight, in hands and in the tree are not D and what is lent");
	SIM_CHECK(s, (int)sum == lent, "the debts of all queues are not what is lent");
}

static void sim_check_vt(struct simulation *s)
{
	u64 vt = mqfq_vt(&s->policy);
	unsigned int i;

	SIM_CHECK(s, !vt_after(s->last_vt, vt), "virtual time went back");
	s->last_vt = vt;
	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_entry *e = sim_first(s, i);

		if (e && !(s->unguarded & 1U << i) && !s->policy.queue[i].is_away)
			SIM_CHECK(s, !vt_after(vt, e->start),
				  "virtual time is later than a tag that waits");
	}
}

unsigned int sim_permits(const struct simulation *s)
{
	return clamp(s->slots / MQFQ_SLOW_PART, 1U, (unsigned int)MQFQ_SLOW_MOST);
}

/* Entries that have stepped aside, of all queues that are not STUCK. */
static unsigned int sim_nr_aside(const struct simulation *s)
{
	unsigned int i, n = 0;

	for (i = 0; i < s->mix.nr_queues; i++)
		if (!sim_is_stuck(&s->policy.queue[i]))
			n += READ_ONCE(s->policy.queue[i].nr_aside);
	return n;
}

/* Entries that should have any slot that is idle. */
static unsigned int sim_nr_hungry(const struct simulation *s)
{
	unsigned int i, n = 0;

	for (i = 0; i < s->mix.nr_queues; i++)
		if (!sim_is_stuck(&s->policy.queue[i]))
			n += READ_ONCE(s->policy.queue[i].nr);
	return n;
}

/* A queue in debt waits for the one slot that it may have, and shows its tag. */
static bool sim_shows_away(const struct simulation *s)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++)
		if (s->policy.queue[i].is_away &&
		    mindicator_leaf(&s->policy.vt, s->policy.queue[i].leaf) != VT_NONE)
			return true;
	return false;
}

/* After a look: flows that use a queue that is away. */
void sim_taint(struct simulation *s)
{
	unsigned int f, i;

	for (i = 0; i < s->mix.nr_queues; i++)
		for (f = 0; s->policy.queue[i].is_away && f < s->mix.nr_flows; f++)
			s->flow[f].is_tainted |= s->flow[f].mix->queues >> i & 1;
}

/* After every event. */
void sim_check(struct simulation *s)
{
	unsigned int i, nr_aside = sim_nr_aside(s);

	sim_check_vt(s);
	if (s->step % SIM_LOOK_EVERY == 0)
		sim_check_tokens(s);
	if (s->pending)
		return;
	SIM_CHECK(s, !sim_nr_hungry(s) || token_tree_nr_free(&s->policy.tokens) <= 0,
		  "requests wait and a slot is idle");
	SIM_CHECK(s, !nr_aside ||
		     atomic_read(&s->policy.slow.permits.nr_out) >= (int)sim_permits(s),
		  "a slow request waits and a permit is idle");
	for (i = 0; i < s->mix.nr_queues; i++)
		if (READ_ONCE(s->policy.queue[i].nr))
			sim_check_wait(s, i);
	if (sim_earliest(s) != VT_NONE && s->mix.kind != SIM_LIVENESS && !sim_shows_away(s))
		SIM_CHECK(s, sim_earliest(s) - mqfq_vt(&s->policy) <= s->grain_vt,
			  "virtual time lags behind the tags that wait");
}

/* ---- the theorems ---- */

/* What no request of the flow exceeds: l / r of the paper. */
u64 sim_largest_vt(const struct sim_flow *f)
{
	u64 exact = div_u64(((u64)f->max_bytes * SIM_VT_PER_BYTE << SIM_VT_SHIFT) + f->weight - 1,
			    f->weight);

	return max(exact, flow_cost_vt(f->flow, f->max_bytes));
}

bool sim_tracks(const struct simulation *s)
{
	return s->mix.kind != SIM_LIVENESS;
}

static struct sim_pair *sim_pair(struct simulation *s, unsigned int a, unsigned int b)
{
	return &s->pair[min(a, b)][max(a, b)];
}

/* How far a flow may go ahead of the earliest tag that waits. */
u64 sim_window(const struct simulation *s, unsigned int f)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_queue *q = &s->policy.queue[i];

		if (!q->is_away && (q->nr_flows > 1 ||
				    (q->nr_flows && !mqfq_nr_queued(q, s->flow[f].flow))))
			return s->throttle_vt;
	}
	return MQFQ_ALONE_WINDOWS * s->throttle_vt;
}

/*
 * Windows may become smaller now. The first entry of a queue that waits for a slot only, or for its
 * run, was allowed to go by the window of before, and still is.
 */
void sim_note_grants(struct simulation *s)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++) {
		int state = atomic_read(&s->policy.queue[i].state);
		const struct mqfq_entry *e = sim_first(s, i);

		if (e && (state >= MQFQ_RESTING || state == MQFQ_READY))
			s->granted_vt[i] = max(s->granted_vt[i],
					       sim_window(s, container_of(e, struct sim_request,
									  e)->flow));
	}
}

/* By how much what it was sent is further ahead than T, and its largest request, allow. */
static u64 sim_lead(const struct simulation *s, const struct sim_flow *f)
{
	u64 most = mqfq_vt(&s->policy) + s->throttle_vt + sim_largest_vt(f);
	u64 until = f->sent_until + sim_largest_vt(f);

	if (vt_after(f->ahead_until, most))
		most = f->ahead_until;
	return vt_after(until, most) ? until - most : 0;
}

/* A flow that was alone is ahead of those that came since. */
void sim_note_lead(struct simulation *s, unsigned int f)
{
	u64 lead = sim_lead(s, &s->flow[f]);
	unsigned int m;

	for (m = 0; m < s->mix.nr_flows; m++) {
		struct sim_pair *pair = sim_pair(s, f, m);

		if (m != f && s->flow[m].waiting)
			pair->lead = max(pair->lead, lead + sim_lead(s, &s->flow[m]));
	}
}

/* Intervals in which both are backlogged begin here. */
void sim_begin_pairs(struct simulation *s, unsigned int f)
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
	sim_note_lead(s, f);
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
void sim_serve(struct simulation *s, const struct sim_request *r, enum sim_measure k,
		      u64 service)
{
	unsigned int f = r->flow, m;

	if (!s->flow[f].waiting || !sim_tracks(s) || s->flow[f].mix->slow || s->flow[f].is_tainted)
		return;
	for (m = 0; m < s->mix.nr_flows; m++) {
		struct sim_pair *pair = sim_pair(s, f, m);

		if (m == f || !s->flow[m].waiting || s->flow[m].mix->slow || s->flow[m].is_tainted)
			continue;
		if (k >= SIM_COMPLETED_SINCE && r->sequence < pair->since)
			continue;
		sim_pair_serve(pair, k, f < m ? service : -service);
	}
}

void sim_ratio(u32 *ratio, u64 worst, u64 bound)
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

/* D of the theorems: what may be at the device at once. */
static u64 sim_depth(const struct simulation *s)
{
	return s->window_depth + s->window_passes;
}

/* (2), or for D = 1 all the time (3), and what a flow that was alone is ahead. */
static u64 sim_completed_bound(const struct simulation *s, u64 sent, u64 lead, u64 largest_f,
			       u64 largest_m)
{
	if (s->mix.kind == SIM_THEOREM_1 && sim_depth(s) == 1)
		return max(sent, s->throttle_vt + 2 * max(largest_f, largest_m) + lead);
	return sent + sim_depth(s) * (largest_f + largest_m);
}

/* What the places of two flows had paid in advance, in this window. */
static u64 sim_paid(struct simulation *s, unsigned int a, unsigned int b)
{
	return s->flow[a].most_paid_vt + s->flow[b].most_paid_vt;
}

static void sim_judge(struct simulation *s, unsigned int a, unsigned int b)
{
	u64 largest_f = sim_largest_vt(&s->flow[a]), largest_m = sim_largest_vt(&s->flow[b]);
	u64 lead = s->pair[a][b].lead + sim_paid(s, a, b), slack = s->slack_vt + lead;
	u64 sent = sim_ahead(s, &s->flow[a]) + sim_ahead(s, &s->flow[b]) + slack;
	u64 completed = sim_completed_bound(s, sent, lead, largest_f, largest_m);
	u64 depth = sim_depth(s) > 1 ? sim_depth(s) + 1 : 1;
	u64 paper = depth * (2 * s->throttle_vt + largest_f + largest_m) + lead;
	const u64 *worst = s->pair[a][b].worst;
	u64 theorem = worst[depth > 1 ? SIM_COMPLETED : SIM_COMPLETED_SINCE];

	SIM_TRACE(s, "flows %u and %u: sent %llu of %llu, completed %llu of %llu, L %llu and %llu",
		  a, b, worst[SIM_SENT], sent, worst[SIM_COMPLETED], completed, largest_f,
		  largest_m);
	sim_ratio(&s->ratios.sent, worst[SIM_SENT], sent);
	sim_ratio(&s->ratios.completed, worst[SIM_COMPLETED], completed);
	SIM_CHECK(s, worst[SIM_SENT] <= sent, "two flows were sent shares too different");
	SIM_CHECK(s, worst[SIM_COMPLETED] <= completed, "two flows had shares too different");
	if (s->mix.kind != SIM_CHANGES && s->mix.kind != SIM_TREE) {
		sim_ratio(&s->ratios.theorem, theorem, paper);
		sim_ratio(&s->ratios.literal, worst[SIM_COMPLETED], paper);
		sim_ratio(&s->ratios.exact, worst[SIM_EXACT] >> SIM_EXACT_SHIFT, paper);
		SIM_CHECK(s, theorem <= paper, "the theorem does not hold");
	}
	memset(s->pair[a][b].worst, 0, sizeof(s->pair[a][b].worst));
	s->pair[a][b].lead = 0;
}

void sim_end_window(struct simulation *s)
{
	unsigned int a, b;

	if (!sim_tracks(s))
		return;
	for (a = 0; a < s->mix.nr_flows; a++)
		for (b = a + 1; b < s->mix.nr_flows; b++)
			sim_judge(s, a, b);
}

void sim_begin_window(struct simulation *s)
{
	unsigned int f;

	s->window_depth = max(s->slots, s->nr_out);
	s->window_passes = s->nr_passes_out;
	s->window_vt = mqfq_vt(&s->policy);
	for (f = 0; f < s->mix.nr_flows; f++) {
		if (!vt_after(s->flow[f].moved_until, s->window_vt))
			s->flow[f].most_paid_vt = s->flow[f].paid_vt;
		if (s->flow[f].waiting)
			sim_begin_pairs(s, f);
	}
}

/* ---- at the end ---- */

/* Nothing is on its way any more: nothing may have been left behind. */
void sim_check_end(struct simulation *s)
{
	unsigned int i, k;

	SIM_CHECK(s, !s->nr_waiting, "requests wait for ever");
	SIM_CHECK(s, s->completed == s->issued, "not all that was issued has completed");
	sim_check_tokens(s);
	SIM_CHECK(s, !atomic_read(&s->policy.slow.permits.nr_out) &&
		     !atomic_read(&s->policy.slow.nr_aside),
		  "a permit was lost");
	for (i = 0; i < s->mix.nr_queues; i++) {
		const struct mqfq_queue *q = &s->policy.queue[i];

		SIM_CHECK(s, !sim_lent(q) && !mqfq_nr_in_flight(q), "a debt is not paid");
		SIM_CHECK(s, !q->nr && !q->nr_aside && !q->nr_permits && !q->nr_flows &&
				     q->inserted == q->taken,
			  "a queue's counters do not add up");
		SIM_CHECK(s, mindicator_leaf(&s->policy.vt, q->leaf) == VT_NONE,
			  "an empty queue holds virtual time back");
		for (k = 0; k < MQFQ_FLOW_COUNTERS; k++)
			SIM_CHECK(s, !q->nr_queued[k], "a flow's counter is not zero");
	}
}

/* Shares between the marks, in a run in which all were backlogged: to one percent. */
void sim_check_shares(struct simulation *s)
{
	u64 least = U64_MAX, most = 0;
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		const struct sim_flow *f = &s->flow[i];
		u64 share = div_u64((f->bytes - f->bytes_at_mark) * SIM_VT_PER_BYTE,
				    f->mix->weight);

		SIM_CHECK(s, !f->was_idle_since_mark, "a flow was not backlogged: a bad mix");
		least = min(least, share);
		most = max(most, share);
	}
	SIM_CHECK(s, most - least <= div_u64(least, 100), "shares are off by more than a percent");
}

void sim_mark(struct simulation *s)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_flows; i++) {
		s->flow[i].bytes_at_mark = s->flow[i].bytes;
		s->flow[i].ns_at_mark = s->flow[i].ns;
		s->flow[i].was_idle_since_mark = !s->flow[i].waiting;
	}
}
