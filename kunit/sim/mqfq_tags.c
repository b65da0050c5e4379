// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_tags.c - the tags of the simulation's requests, and what they must be
 *
 * Each flow has a naive twin: its finish tag, its debt, and what each queue's place has paid for it
 * (lib/flow_local.h). See sim.h.
 */
#include <linux/math64.h>
#include <linux/minmax.h>

#include "sim.h"

static u64 sim_later(u64 a, u64 b)
{
	return vt_after(a, b) ? a : b;
}

static void sim_pays(struct sim_flow *f, struct sim_place *place, u64 paid_vt)
{
	f->paid_vt += paid_vt - place->paid_vt;
	place->paid_vt = paid_vt;
	f->most_paid_vt = max(f->most_paid_vt, f->paid_vt);
}

static void sim_charged(struct simulation *s, struct sim_flow *f, u64 finish)
{
	f->finish = finish;
	SIM_CHECK(s, READ_ONCE(f->flow->finish) == f->finish,
		  "not the finish tag that the rule gives");
}

/* ---- places ---- */

/* The place is not the flow's any more: another one may use what it has paid. */
static void sim_place_ends(struct sim_flow *f, struct sim_place *place)
{
	f->paid_back_vt += place->paid_vt;
	place->paid_vt = 0;
}

/* The place pays: it may use what others had paid. */
static void sim_takes_back(struct sim_flow *f, struct sim_place *place)
{
	place->paid_vt += f->paid_back_vt;
	f->paid_back_vt = 0;
}

/* The flow's request gets its flow, in the queue. */
static void sim_begin_request(struct simulation *s, struct sim_request *r)
{
	struct flow_locals *l = &s->policy.queue[r->queue].flows;
	struct sim_flow *f = &s->flow[r->flow];
	struct flow_local *at = flow_local_of(l, r->flow);
	struct flow *before = at->flow, *flow;
	struct sim_place *place = &f->place[r->queue];

	flow = flow_local_get(l, &s->flows, r->flow, &s->mix.node[r->flow], mqfq_vt(&s->policy));
	SIM_CHECK(s, flow == f->flow, "not the flow that it was");
	r->e.flow |= (unsigned long)flow;
	if (!flow_is_local(at, flow)) {
		r->e.flow |= MQFQ_ENTRY_DIRECT;
		return;
	}
	if (before == flow)
		return;
	*place = (struct sim_place) { .advance = 1, .left = f->finish };
}

void sim_request_ends(struct simulation *s, const struct sim_request *r)
{
	struct flow_local *at = flow_local_of(&s->policy.queue[r->queue].flows, r->flow);
	struct flow *f = s->flow[r->flow].flow;

	if (r->e.flow & MQFQ_ENTRY_DIRECT) {
		atomic64_add(r->bytes, &f->service_bytes);
		flow_put(f);
		return;
	}
	flow_local_serve(at, r->bytes);
	flow_local_end(at);
}

void sim_fold(struct simulation *s)
{
	unsigned int i, n;

	for (i = 0; i < s->mix.nr_queues; i++) {
		struct flow_locals *l = &s->policy.queue[i].flows;
		u32 before = 0;

		for (n = 0; n < s->mix.nr_flows; n++)
			before |= (u32)flow_is_local(flow_local_of(l, n), s->flow[n].flow) << n;
		flow_locals_fold(l);
		for (n = 0; n < s->mix.nr_flows; n++)
			if (before & 1U << n &&
			    !flow_is_local(flow_local_of(l, n), s->flow[n].flow))
				sim_place_ends(&s->flow[n], &s->flow[n].place[i]);
	}
}

u64 sim_scaled(u64 tag, u64 vt, u32 old_weight, u32 new_weight)
{
	return vt_after(tag, vt) ?
	       vt_add(vt, mul_u64_u32_div(tag - vt, old_weight, new_weight)) : tag;
}

/* The flow has another weight: what is paid follows. */
void sim_places_follow(struct simulation *s, unsigned int number, u64 vt, u32 old, u32 weight)
{
	struct sim_flow *f = &s->flow[number];
	unsigned int i;

	f->paid_vt -= f->paid_back_vt;
	f->paid_back_vt = sim_scaled(vt + f->paid_back_vt, vt, old, weight) - vt;
	f->paid_vt += f->paid_back_vt;
	f->moved_until = sim_scaled(f->moved_until, vt, old, weight);
	f->most_paid_vt = sim_scaled(vt + f->most_paid_vt, vt, old, weight) - vt;
	for (i = 0; i < s->mix.nr_queues; i++) {
		struct sim_place *place = &f->place[i];

		if (!place->paid_vt)
			continue;
		place->tag = sim_scaled(place->tag, vt, old, weight);
		sim_pays(f, place, sim_scaled(vt + place->paid_vt, vt, old, weight) - vt);
	}
}

/* ---- tags ---- */

/* Virtual time, or the finish tag of the last request if that is later. */
static u64 sim_tag(struct simulation *s, struct sim_flow *f, u64 cost_vt)
{
	u64 vt = mqfq_vt(&s->policy), expected = vt_add(sim_later(f->finish, vt), 0);
	u64 start = flow_tag(f->flow, vt, cost_vt);

	SIM_CHECK(s, start == expected, "not the start tag that the rule gives");
	sim_charged(s, f, vt_add(start, cost_vt));
	return start;
}

/* The same, if the queue has a place for the flow: it may have paid, and may pay for more. */
static u64 sim_tag_local(struct simulation *s, struct sim_request *r)
{
	u64 vt = mqfq_vt(&s->policy), throttle_vt = s->throttle_vt, cost_vt = r->cost_vt;
	struct flow_local *at = flow_local_of(&s->policy.queue[r->queue].flows, r->flow);
	struct sim_flow *f = &s->flow[r->flow];
	struct sim_place *place = &f->place[r->queue];
	u64 start = flow_local_tag(at, vt, cost_vt, throttle_vt), expected, end;
	u64 most_vt = min(throttle_vt / 4, FLOW_ADVANCE_VT), tag;
	bool was_paid;

	if (place->paid_vt < cost_vt || vt_after(vt, place->seen)) {
		if (!place->paid_vt)
			place->tag = vt;
		sim_takes_back(f, place);
		if (!vt_after(f->finish, vt))
			sim_pays(f, place, 0);
		place->seen = f->finish;
	}
	was_paid = place->paid_vt;
	tag = place->tag;
	expected = vt_add(sim_later(tag, vt), 0);
	if (place->paid_vt >= cost_vt) {
		sim_pays(f, place, place->paid_vt - cost_vt);
		place->tag = vt_add(expected, cost_vt);
	} else {
		u64 missing_vt = cost_vt - place->paid_vt, more_vt;

		end = vt_add(sim_later(f->finish, vt), 0);
		expected = vt_add(sim_later(end - place->paid_vt, vt), 0);
		place->advance = f->finish == place->left ? 1 : min(2 * place->advance, 8U);
		more_vt = min((place->advance - 1) * cost_vt, most_vt);
		place->tag = vt_add(end, missing_vt);
		sim_pays(f, place, more_vt);
		sim_charged(s, f, vt_add(end, missing_vt + more_vt));
		place->left = f->finish;
		place->seen = f->finish;
	}
	if (was_paid && vt_after(expected, tag))
		f->moved_until = sim_later(f->finish, f->moved_until);
	SIM_CHECK(s, start == expected, "not the start tag that the rule gives");
	SIM_CHECK(s, at->paid_vt == place->paid_vt,
		  "not what the rule pays in advance");
	return start;
}

/* Virtual time as long as the flow's debt is within the credit; charged in full, either way. */
static u64 sim_tag_urgent(struct simulation *s, struct sim_flow *f, u64 cost_vt)
{
	u64 vt = mqfq_vt(&s->policy), finish = f->finish, credit_vt = s->mix.credit_vt, start;
	bool passes, has_credit = credit_vt && !vt_after(f->debt, vt + credit_vt);

	start = flow_tag_urgent(f->flow, vt, cost_vt, credit_vt, &passes);
	finish = sim_later(finish, vt);
	SIM_CHECK(s, passes == has_credit, "an urgent request goes next without credit, or waits");
	SIM_CHECK(s, start == (passes ? vt : vt_add(finish, 0)), "not an urgent request's tag");
	sim_charged(s, f, vt_add(vt_add(finish, 0), cost_vt));
	if (passes)
		f->debt = vt_add(sim_later(f->debt, vt), cost_vt);
	SIM_CHECK(s, READ_ONCE(f->flow->debt_until) == f->debt, "not the debt that the rule gives");
	return start;
}

/* A request comes to its queue: its flow, and its start tag. */
u64 sim_tag_request(struct simulation *s, struct sim_request *r)
{
	struct sim_flow *f = &s->flow[r->flow];
	bool is_slow = r->e.flow & MQFQ_ENTRY_SLOW;
	u64 start;

	sim_begin_request(s, r);
	if (s->mix.kind == SIM_LIVENESS && !is_slow && !sim_draw(s, 16))
		start = sim_tag_urgent(s, f, r->cost_vt);
	else if (r->e.flow & MQFQ_ENTRY_DIRECT)
		start = sim_tag(s, f, r->cost_vt);
	else
		start = sim_tag_local(s, r);
	SIM_CHECK(s, !vt_after(mqfq_vt(&s->policy), start),
		  "a flow has saved up service while it was idle");
	return start;
}
