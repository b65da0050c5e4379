// SPDX-License-Identifier: GPL-2.0
/* fair.c - the queue that fair.h describes: a heap of tenants, by the tag of what waits first */
#include "fair.h"
#include "server/mover.h"
#include "server/tenant.h"

/* ---- the queue ---- */

static bool goes_first(const struct fair_queue *q, uint32_t place, uint32_t other)
{
	return q->tenants[q->heap[place]].tag < q->tenants[q->heap[other]].tag;
}

static void put(struct fair_queue *q, uint32_t place, uint32_t tenant)
{
	q->heap[place] = tenant;
	q->tenants[tenant].place = place;
}

static void swap(struct fair_queue *q, uint32_t place, uint32_t other)
{
	uint32_t tenant = q->heap[place];

	put(q, place, q->heap[other]);
	put(q, other, tenant);
}

static void sift_up(struct fair_queue *q, uint32_t place)
{
	for (; place > 1 && goes_first(q, place, place / 2); place /= 2)
		swap(q, place, place / 2);
}

static void sift_down(struct fair_queue *q, uint32_t place)
{
	while (2 * place <= q->nr_heap) {
		uint32_t least = 2 * place;

		if (least < q->nr_heap && goes_first(q, least + 1, least))
			least++;
		if (!goes_first(q, least, place))
			return;
		swap(q, place, least);
		place = least;
	}
}

void fair_add(struct fair_queue *q, uint32_t tenant, struct kv_msg *msg)
{
	struct fair_tenant *t = &q->tenants[tenant];

	/* What began long ago is over. */
	if (!q->nr++)
		q->now = q->latest;
	msg->next = NULL;
	if (t->first) {
		t->last->next = msg;
		t->last = msg;
		return;
	}
	t->first = t->last = msg;
	if (t->tag < q->now)
		t->tag = q->now;
	put(q, ++q->nr_heap, tenant);
	sift_up(q, q->nr_heap);
}

struct kv_msg *fair_take(struct fair_queue *q)
{
	struct fair_tenant *t = &q->tenants[q->heap[1]];
	struct kv_msg *msg = t->first;

	q->now = t->tag;
	q->nr--;
	t->first = msg->next;
	if (!t->first) {
		t->place = 0;
		if (--q->nr_heap) {
			put(q, 1, q->heap[q->nr_heap + 1]);
			sift_down(q, 1);
		}
	}
	return msg;
}

void fair_charge(struct fair_queue *q, uint32_t tenant, uint32_t weight, uint64_t cost)
{
	struct fair_tenant *t = &q->tenants[tenant];

	t->tag += (cost << FAIR_TAG_SHIFT) / weight;
	if (q->latest < t->tag)
		q->latest = t->tag;
	if (t->place)
		sift_down(q, t->place);
}

/* ---- at a worker ---- */

void fair_init(struct fair *f)
{
	f->budget = FAIR_COST;
}

static uint32_t cost_of(uint32_t nr, uint64_t nr_bytes)
{
	return nr * FAIR_COST + nr_bytes / FAIR_COST_BYTES;
}

/* An operation of cost @whole begins, or turns out to cost @cost more. */
static void charge(struct fair *f, const struct tenant *tenant, uint32_t cost, uint32_t whole)
{
	struct fair_share *share = &f->shares[tenant->id];

	fair_charge(&f->queue, tenant->id, tenant->weight, cost);
	f->round_cost += cost;
	f->look_cost += cost;
	if (!share->cost)
		f->active[f->nr_active++] = tenant->id;
	share->cost += cost;
	share->largest = whole > share->largest ? whole : share->largest;
	share->weight = tenant->weight;
}

bool fair_admits(struct worker *w, struct kv_msg *msg, struct fair_pass *pass,
		 const struct tenant *tenant, uint32_t partition, uint32_t nr, uint64_t nr_bytes)
{
	struct fair *f = w->fair;

	if (!f || pass->state == FAIR_IN)
		return true;
	if (pass->state == FAIR_WAITS) {
		w->routes[partition].nr_waiting--;
		charge(f, tenant, pass->cost, pass->cost);
		pass->state = FAIR_IN;
		return true;
	}
	pass->nr = nr;
	pass->cost = cost_of(nr, nr_bytes);
	pass->state = f->is_on || f->queue.nr ? FAIR_WAITS : FAIR_IN;
	monitor_came(w->watch, tenant->id, &pass->mark);
	if (pass->state == FAIR_IN)
		return true;
	w->routes[partition].nr_waiting++;
	fair_add(&f->queue, tenant->id, msg);
	return false;
}

void fair_ended(struct worker *w, const struct fair_pass *pass, const struct tenant *tenant,
		const struct okv_stages *stages, uint64_t nr_bytes, uint64_t latency_ns)
{
	uint32_t cost = cost_of(pass->nr, nr_bytes);

	if (!w->fair)
		return;
	monitor_did(w->watch, tenant->id, &pass->mark, stages, nr_bytes, latency_ns);
	if (w->fair->is_on && cost > pass->cost)
		charge(w->fair, tenant, cost - pass->cost, cost);
}

void fair_has_more(struct worker *w, const struct tenant *tenant, uint32_t nr)
{
	uint32_t cost = cost_of(nr, 0);

	if (cost && w->fair && w->fair->is_on)
		charge(w->fair, tenant, cost, cost);
}

/* A share by weight, in virtual time. */
static uint64_t by_weight(const struct fair_share *share, uint64_t cost)
{
	return (cost << FAIR_TAG_SHIFT) / share->weight;
}

/* Whether a tenant has had less than another one, by more than one operation of each. */
static bool is_short(const struct fair *f)
{
	const struct fair_share *least = &f->shares[f->active[0]], *most = least;
	uint64_t had, other;

	for (uint32_t i = 1; i < f->nr_active; i++) {
		const struct fair_share *share = &f->shares[f->active[i]];

		had = by_weight(share, share->cost);
		if (had < by_weight(least, least->cost))
			least = share;
		if (had > by_weight(most, most->cost))
			most = share;
	}
	had = by_weight(least, least->cost);
	other = by_weight(most, most->cost);
	return had * 100 < other * FAIR_SHORT_PCT &&
	       had + by_weight(least, least->largest) + by_weight(most, most->largest) < other;
}

/* "The budget" in fair.h. */
static void set_budget(struct fair *f)
{
	if (is_short(f))
		f->budget /= 2;
	else
		f->budget += f->budget / 8;
	if (f->budget < FAIR_COST)
		f->budget = FAIR_COST;
	if (f->budget > FAIR_BUDGET_MAX)
		f->budget = FAIR_BUDGET_MAX;
	for (uint32_t i = 0; i < f->nr_active; i++)
		f->shares[f->active[i]] = (struct fair_share){ 0 };
	f->nr_active = f->look_cost = 0;
}

/* Other workers keep what they have for a partition that moves: it is not to wait for rounds. */
static bool is_within_budget(const struct worker *w)
{
	const struct fair *f = w->fair;

	return !f->is_on || f->round_cost < f->budget || mover_waits_for_turns(w);
}

void fair_run(struct worker *w)
{
	struct fair *f = w->fair;

	f->is_on = __atomic_load_n(&w->server->is_fair, __ATOMIC_RELAXED);
	if (f->look_cost >= FAIR_LOOK_COST)
		set_budget(f);
	f->round_cost = 0;
	while (f->queue.nr && is_within_budget(w)) {
		struct kv_msg *msg = fair_take(&f->queue);

		msg->run(w, msg);
	}
}
