// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_simulation.c - a device below mq-mqfq's policy and tenants above it
 *
 * See sim.h.
 */
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include "sim.h"

#ifdef __KERNEL__
#include <linux/sched.h>
#define sim_relax()		cond_resched()
#else
#define sim_relax()		do { } while (0)
void (*sim_tell)(const char *fmt, ...);
#endif

/* mqfq_policy_ops.clock_ns has no context; statistics only. */
static u64 sim_clock_ticks;

static bool sim_is_slow(const struct sim_request *r)
{
	return r->e.flow & MQFQ_ENTRY_SLOW;
}

static bool sim_has_pass(const struct sim_request *r)
{
	return r->e.flow & MQFQ_ENTRY_PASS;
}

/* ---- the device ---- */

static void sim_to_device(struct simulation *s, struct sim_request *r)
{
	/* All that is at the device shares it; what has a pass makes the others slower. */
	u32 service = r->ticks * max(s->mix.slots, s->nr_inflight + 1);

	switch (s->mix.order) {
	case SIM_FIFO:
		s->device_at = max(s->device_at, s->now) + r->ticks;
		r->done_at = s->device_at;
		break;
	case SIM_RANDOM:
		r->done_at = s->now + 1 + sim_draw(s, 2 * service);
		break;
	default:
		r->done_at = s->now + service;
	}
	r->sequence = s->nr_sent++;
	SIM_CHECK(s, s->nr_inflight < SIM_INFLIGHT_MAX, "more at the device than slots and loans");
	if (s->failure)
		return;
	s->inflight[s->nr_inflight++] = r;
	if (sim_has_pass(r)) {
		s->nr_passes_out++;
		s->window_passes = max(s->window_passes, s->nr_passes_out);
		return;
	}
	s->nr_out++;
	if (sim_is_slow(r))
		s->nr_slow_out++;
}

/* When the stall of the queue ends, 0 if it is not stalled. */
static u64 sim_stall_end(const struct simulation *s, unsigned int queue)
{
	u64 since;

	if (!s->mix.stall_ticks || queue != s->mix.stalled)
		return 0;
	since = s->now % s->mix.stall_every;
	return since < s->mix.stall_ticks ? s->now - since + s->mix.stall_ticks : 0;
}

static struct sim_request *sim_earliest_done(struct simulation *s)
{
	struct sim_request *found = NULL;
	unsigned int i;

	for (i = 0; i < s->nr_inflight; i++) {
		struct sim_request *r = s->inflight[i];

		r->done_at = max(r->done_at, sim_stall_end(s, r->queue));
		if (!found || r->done_at < found->done_at)
			found = r;
	}
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
			if (!sim_stall_end(s, s->inflight[i]->queue) &&
			    sim_goes_first(s, s->inflight[i], r))
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
	SIM_CHECK(s, was == MQFQ_THROTTLED || was == MQFQ_READY || was == MQFQ_ASIDE ||
		     was == MQFQ_RESTING ||
		     was == MQFQ_STUCK,
		  "woken from no wait");
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
	u64 window_vt = max(sim_window(s, r->flow), s->granted_vt[r->queue]);

	/* Not by what passes: the other one, which may have been granted it, is still there. */
	if (!sim_has_pass(r))
		s->granted_vt[r->queue] = 0;
	SIM_TRACE(s, "dispatch flow %u queue %u start %+lld bytes %u inflight %u", r->flow,
		  r->queue, (s64)(e->start - s->mix.first_vt), r->bytes, s->nr_inflight + 1);
	if (sim_has_pass(r)) {
		SIM_CHECK(s, s->nr_passes_out < (unsigned int)s->policy.nr_passes ||
			     s->mix.change_every || s->mix.stall_ticks,
			  "more than the passes in flight");
	} else {
		SIM_CHECK(s, (int)s->nr_out <
			     (int)s->slots + atomic_read(&s->policy.tokens.nr_lent) ||
			     s->armed_before[r->queue],
			  "more than D and what is lent in flight");
		if (s->armed_before[r->queue])
			s->armed_before[r->queue]--;
	}
	if (sim_is_slow(r) && !s->mix.change_every && !s->mix.stall_ticks)
		SIM_CHECK(s, s->nr_slow_out < sim_permits(s), "more slow requests than permits");
	SIM_CHECK(s, !next || sim_has_pass(r) || !vt_after(e->start, next->start),
		  "not the first of its queue");
	/* It was within the window when it got its pass. */
	if (!s->unguarded && !(sim_has_pass(r) && s->mix.change_every))
		SIM_CHECK(s, !vt_after(e->start, earliest + window_vt),
			  "dispatched more than T ahead of the earliest tag");
	SIM_CHECK(s, mqfq_entry_flow(e) == f->flow, "the entry has changed its flow");

	/* The last one of a backlog still counts. */
	sim_serve(s, r, SIM_SENT, r->cost_vt);
	if (vt_after(e->start, f->sent_until))
		f->sent_until = e->start;
	if (sim_tracks(s))
		sim_note_lead(s, r->flow);
	f->waiting--;
	s->nr_waiting--;
	if (!f->waiting)
		f->was_idle_since_mark = true;
	sim_to_device(s, r);
}

/* The queue has nothing to send: is that right? */
static void sim_check_wait(struct simulation *s, struct mqfq_queue *q)
{
	switch (atomic_read(&q->state)) {
	case MQFQ_THROTTLED:
		SIM_CHECK(s, vt_after(sim_first(s, q->number)->start,
				      mqfq_vt(&s->policy) + s->throttle_vt),
			  "throttled although not ahead");
		break;
	case MQFQ_READY:
		SIM_CHECK(s, token_tree_nr_free(&s->policy.tokens) <= 0,
			  "no slot although there is one");
		break;
	default:
		/* Slow entries have stepped aside, or one came back and waits like all others. */
		SIM_CHECK(s, !q->nr || atomic_read(&q->state) == MQFQ_STUCK,
			  "nothing to send although there is work");
	}
}

static void sim_run_queue(struct simulation *s, unsigned int number)
{
	struct mqfq_queue *q = &s->policy.queue[number];
	struct mqfq_entry *e;

	s->pending &= ~(1U << number);
	while (mqfq_has_work(q) && !s->failure) {
		spin_lock(&q->lock);
		e = mqfq_take(q);
		spin_unlock(&q->lock);
		if (!e)
			break;
		/* Of what waited in order: slow entries may have stepped aside. */
		sim_dispatch(s, e, vt_min(sim_earliest(s), e->start));
		/* The driver is busy, or the worker's time is up. */
		if (s->mix.kind == SIM_LIVENESS && mqfq_has_work(q) && !sim_draw(s, 8)) {
			s->pending |= 1U << number;
			break;
		}
	}
	if (!mqfq_has_work(q))
		sim_check_wait(s, q);
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

/*
 * A flow without requests comes back. It may have become idle, and then has another effective
 * weight, and starts late by what its groups owe.
 */
static void sim_activate(struct simulation *s, unsigned int number)
{
	struct sim_flow *f = &s->flow[number];
	struct flow *flow = flow_get(&s->flows, number, &s->mix.node[number], mqfq_vt(&s->policy));

	SIM_CHECK(s, flow == f->flow, "not the flow that it was");
	SIM_CHECK(s, flow->leaf.active, "a flow with requests is not active");
	SIM_CHECK(s, !vt_after(f->finish, READ_ONCE(flow->finish)), "a finish tag went back");
	f->weight = flow->effective_weight;
	f->finish = READ_ONCE(flow->finish);
	if (vt_after(f->finish, f->ahead_until))
		f->ahead_until = f->finish;
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
	if (!f->waiting)
		sim_note_grants(s);
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

	if (s->mix.kind == SIM_TREE && !f->outstanding)
		sim_activate(s, number);
	s->free = r->next_free;
	r->alive = true;
	r->flow = number;
	r->queue = queue;
	r->size = sim_draw_bytes(s, f->mix);
	r->bytes = r->size;
	r->ticks = r->size;
	if (s->mix.kind == SIM_TIME)
		sim_price(s, r);
	r->cost_vt = flow_cost_vt(f->flow, r->bytes);
	r->e.flow = 0;
	if (f->mix->slow && (s->mix.kind != SIM_LIVENESS || sim_draw(s, 2)))
		r->e.flow |= MQFQ_ENTRY_SLOW;
	f->max_bytes = max(f->max_bytes, r->bytes);
	f->outstanding++;
	s->issued++;
	start = sim_tag_request(s, r);
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

/* A request is done: flows that wait for it go on. */
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

static void sim_release(struct simulation *s, const struct sim_request *r)
{
	/* A queue that was STUCK may come home, and its flows count again. */
	sim_note_grants(s);
	if (sim_has_pass(r)) {
		s->nr_passes_out--;
		mqfq_release_pass(&s->policy.queue[r->queue]);
		return;
	}
	s->nr_out--;
	if (!sim_is_slow(r)) {
		mqfq_release(&s->policy.queue[r->queue]);
		return;
	}
	s->nr_slow_out--;
	mqfq_release_slow(&s->policy.queue[r->queue]);
}

/* It comes back from the driver: it has been charged, and has given its slot back. */
static void sim_requeue(struct simulation *s, struct sim_request *r)
{
	SIM_TRACE(s, "requeue flow %u queue %u", r->flow, r->queue);
	sim_release(s, r);
	r->e.flow &= ~(unsigned long)MQFQ_ENTRY_PASS;
	sim_settle(s);
	sim_insert(s, r, mqfq_vt(&s->policy));
	SIM_CHECK(s, READ_ONCE(s->flow[r->flow].flow->finish) == s->flow[r->flow].finish,
		  "charged twice");
	sim_settle(s);
}

static void sim_complete(struct simulation *s)
{
	struct sim_request *r = sim_from_device(s);
	unsigned int number = r->flow;
	struct sim_flow *f = &s->flow[number];
	bool early = sim_draw(s, 2);
	struct sim_request done;

	if (s->mix.kind == SIM_LIVENESS && !sim_draw(s, 64)) {
		sim_requeue(s, r);
		return;
	}
	SIM_TRACE(s, "complete flow %u queue %u bytes %u", r->flow, r->queue, r->bytes);
	sim_serve(s, r, SIM_COMPLETED, r->cost_vt);
	sim_serve(s, r, SIM_COMPLETED_SINCE, r->cost_vt);
	sim_serve(s, r, SIM_EXACT,
		  div_u64(((u64)r->bytes * SIM_VT_PER_BYTE) << (SIM_EXACT_SHIFT + SIM_VT_SHIFT),
			  f->weight));
	f->bytes += r->bytes;
	if (s->mix.kind == SIM_TIME)
		sim_time_completed(s, r);
	sim_request_ends(s, r);
	if (!--f->outstanding && s->mix.kind == SIM_TREE)
		flow_put(f->flow);
	s->completed++;
	r->alive = false;
	done = *r;
	r->next_free = s->free;
	s->free = r;
	/* A flow that waited for it may go on before its slot is free, or after. */
	if (early)
		sim_reissue(s, number);
	SIM_TRACE(s, "release queue %u", done.queue);
	sim_release(s, &done);
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

		if (vt_after(f->sent_until + sim_largest_vt(f), ahead))
			ahead = f->sent_until + sim_largest_vt(f);
		if (vt_after(ahead, f->ahead_until))
			f->ahead_until = ahead;
	}
}

/* A flow has another effective weight. */
static void sim_follow(struct simulation *s, unsigned int number, u64 vt)
{
	struct sim_flow *f = &s->flow[number];
	u32 old = f->weight, weight = f->flow->effective_weight;
	unsigned int i;

	SIM_TRACE(s, "weight of flow %u %u -> %u", number, old, weight);
	SIM_CHECK(s, f->flow->change.old_weight == old && f->flow->change.new_weight == weight,
		  "not the change of the weight that the flow had");
	f->weight = weight;
	f->finish = sim_scaled(f->finish, vt, old, weight);
	f->debt = sim_scaled(f->debt, vt, old, weight);
	sim_places_follow(s, number, vt, old, weight);
	f->ahead_until = sim_scaled(f->ahead_until, vt, old, weight);
	f->sent_until = sim_scaled(f->sent_until, vt, old, weight);
	SIM_CHECK(s, READ_ONCE(f->flow->finish) == f->finish, "the finish tag did not follow");
	for (i = 0; i < SIM_REQUESTS_MAX; i++) {
		struct sim_request *r = &s->request[i];

		if (!r->alive || r->flow != number)
			continue;
		r->cost_vt = mul_u64_u32_div(r->cost_vt, old, weight);
		s->slack_vt += 2;
	}
}

/* Return: how many flows have changed. */
static unsigned int sim_update(struct simulation *s)
{
	u64 vt = mqfq_vt(&s->policy);
	struct flow *changed = flow_table_update(&s->flows, vt), *f;
	unsigned int nr = 0;

	mqfq_rescale(&s->policy, changed);
	for (f = changed; f; f = f->next_changed) {
		sim_follow(s, f->key, vt);
		nr++;
	}
	flow_table_updated(changed);
	return nr;
}

static void sim_change_weight(struct simulation *s)
{
	unsigned int nr = s->mix.kind == SIM_TREE ? s->mix.nr_nodes : s->mix.nr_flows;
	unsigned int number = sim_draw(s, nr);
	struct sim_node *n = &s->mix.node[number];
	u64 wish = div64_u64(n->weight * sim_draw_log(s, 0, 5), sim_draw_log(s, 0, 5));
	u32 old = n->weight;

	n->weight = clamp_t(u64, wish, FLOW_WEIGHT_MIN, FLOW_WEIGHT_MAX);
	flow_set_weight(&s->flows, number, n->weight);
	nr = sim_update(s);
	if (s->mix.kind != SIM_TREE)
		SIM_CHECK(s, nr == (n->weight != old), "not the flow whose weight changed");
}

/* Flows without requests leave the tree, and their siblings share what they had. */
static void sim_pass(struct simulation *s)
{
	u64 vt = mqfq_vt(&s->policy);
	unsigned int i;

	sim_fold(s);
	flow_table_pass(&s->flows, vt);
	for (i = 0; i < s->mix.nr_flows; i++) {
		struct sim_flow *f = &s->flow[i];

		if (!vt_after(f->finish, vt))
			f->finish = vt;
		SIM_CHECK(s, READ_ONCE(f->flow->finish) == f->finish, "a pass moved a finish tag");
		SIM_CHECK(s, !f->outstanding || f->flow->leaf.active, "a pass ended a flow in use");
	}
	sim_update(s);
}

static void sim_change_throttle(struct simulation *s)
{
	sim_note_grants(s);
	s->throttle_vt = sim_draw(s, 8) ? sim_draw_log(s, 12, 26) : 0;
	SIM_TRACE(s, "T %llu", s->throttle_vt);
	mqfq_set_throttle(&s->policy, s->throttle_vt);
	/* A leaf may lag by the old T until its queue is run. */
	s->grain_vt = max(s->grain_vt, s->throttle_vt / 4);
}

static void sim_note_armed(struct simulation *s)
{
	unsigned int i;

	for (i = 0; i < s->mix.nr_queues; i++)
		s->armed_before[i] = sim_nr_in_hand(&s->policy.queue[i]);
}

static void sim_change(struct simulation *s)
{
	struct vt_wheel_geometry wheel = { 8 + sim_draw(s, 20), 1 + sim_draw(s, 10) };

	s->next_change += s->mix.change_every;
	sim_end_window(s);
	sim_note_ahead(s);
	if (s->mix.kind == SIM_TREE)
		sim_pass(s);
	switch (sim_draw(s, 4)) {
	case 0:
		s->slots = 1 + sim_draw(s, min(2 * s->mix.slots, SIM_SLOTS_MAX));
		SIM_TRACE(s, "D %u", s->slots);
		sim_note_armed(s);
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

static void sim_look(struct simulation *s)
{
	u64 ns_per_tick = div64_u64(SIM_STALL_NS, s->mix.stall_ticks);

	mqfq_look(&s->policy, s->now * ns_per_tick);
	SIM_TRACE(s, "look, lent %d", atomic_read(&s->policy.tokens.nr_lent));
	sim_taint(s);
	s->nr_looks++;
	s->next_look = s->now + div64_u64(MQFQ_LOOK_MS * 1000 * 1000ULL, ns_per_tick);
}

/* What comes next, a request or a completion? False if nothing does. */
static bool sim_step(struct simulation *s)
{
	struct sim_request *done = sim_earliest_done(s);
	unsigned int next = 0, i;

	for (i = 1; i < s->mix.nr_flows; i++)
		if (s->flow[i].next_at < s->flow[next].next_at)
			next = i;
	s->step++;
	if (s->mix.stall_ticks && s->nr_out &&
	    s->next_look < min(done ? done->done_at : SIM_NEVER, s->flow[next].next_at)) {
		s->now = max(s->now, s->next_look);
		sim_look(s);
	} else if (done && done->done_at < s->flow[next].next_at) {
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
	if (s->step % SIM_FOLD_EVERY == 0)
		sim_fold(s);
	if (s->mix.change_every && s->issued >= s->next_change)
		sim_change(s);
	sim_check(s);
	return true;
}

/**
 * sim_run() - from the first request to the last
 * @s:	simulation
 *
 * Return: what did not hold, or NULL.
 */
const char *sim_run(struct simulation *s)
{
	/* A request is issued and completes; a flow that is not there yet looks in now and then. */
	u64 most_steps = 1000000 + 16 * (u64)s->mix.nr_requests;
	unsigned int end = s->mix.nr_requests - s->mix.nr_requests / 8;
	unsigned int mark = s->mix.nr_requests / (s->mix.kind == SIM_TIME ? 2 : 8);
	bool marked = !sim_is_long(s);

	while (!s->failure && sim_step(s)) {
		if (!marked && s->issued >= mark) {
			marked = true;
			sim_mark(s);
		}
		if (sim_is_long(s) && end && s->issued >= end) {
			end = 0;
			sim_check_shares(s);
			if (s->mix.kind == SIM_TIME)
				sim_check_time(s);
		}
		/* Looks come as time goes by, however few requests there are. */
		SIM_CHECK(s, s->step - s->nr_looks < most_steps,
			  "too many events for so few requests");
		if (s->step % 4096 == 0)
			sim_relax();
	}
	sim_end_window(s);
	if (!s->failure)
		sim_check_end(s);
	return s->failure;
}

/* ---- worlds made and freed ---- */

static u32 sim_weight_of(void *context, u64 key, void *who)
{
	struct simulation *s = context;

	(void)who;
	return s->mix.node[key].weight;
}

static void *sim_parent_of(void *context, void *who, u64 *parent_key)
{
	struct sim_node *n = who;

	(void)context;
	if (n->parent)
		*parent_key = n->parent->number;
	return n->parent;
}

static void sim_dirty(void *context)
{
	(void)context;
}

static const struct flow_tree_ops sim_tree_ops = {
	.parent_of	= sim_parent_of,
	.dirty		= sim_dirty,
};

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
struct simulation *sim_new(enum sim_kind kind, u64 seed, unsigned int nr_requests)
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
	mqfq_cost_init(&s->law);
	s->next_change = mix->change_every;
	if (sim_init_policy(s))
		goto err_simulation;
	if (flow_table_init(&s->flows, sim_weight_of, s, GFP_KERNEL))
		goto err_policy;
	if (kind == SIM_TREE && flow_table_plant(&s->flows, &sim_tree_ops, GFP_KERNEL))
		goto err_flows;
	for (i = 0; i < mix->nr_flows; i++) {
		struct sim_flow *f = &s->flow[i];

		f->mix = &s->mix.flow[i];
		s->mix.node[i].weight = f->mix->weight;
		f->flow = flow_get(&s->flows, i, &s->mix.node[i], mix->first_vt);
		f->weight = f->flow->effective_weight;
		f->finish = mix->first_vt;
		f->debt = mix->first_vt;
		f->ahead_until = mix->first_vt;
		f->sent_until = mix->first_vt;
		f->moved_until = mix->first_vt;
		f->queue = __ffs(f->mix->queues);
		f->next_at = i + 1;
		if (f->flow == &s->flows.other)
			goto err_flows;
		if (kind == SIM_TREE)
			flow_put(f->flow);
	}
	if (kind == SIM_TREE)
		sim_update(s);
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

void sim_free(struct simulation *s)
{
	flow_table_destroy(&s->flows);
	mqfq_policy_destroy(&s->policy);
	kvfree(s);
}
