// SPDX-License-Identifier: GPL-2.0
/*
 * flow_local.c - what a hardware queue counts of a flow by itself; the manual is in flow_local.h
 */
#include <linux/bitops.h>
#include <linux/export.h>

#include "flow_local.h"

/* Have all requests ended that began here? */
static bool flow_local_is_over(const struct flow_local *place)
{
	/* Pairs with flow_local_end(): nobody looks at the flow any more. */
	return (u32)atomic_read_acquire(&place->nr_ended) == place->nr_begun;
}

static void flow_local_fold(struct flow_local *place)
{
	if (place->service_bytes)
		atomic64_add(place->service_bytes, &place->flow->service_bytes);
	place->service_bytes = 0;
}

static void flow_local_give_up(struct flow_locals *l, struct flow_local *place)
{
	struct flow *f = place->flow;

	if (place->paid_vt)
		atomic64_add(place->paid_vt, &f->paid_back);
	WRITE_ONCE(place->flow, NULL);
	WRITE_ONCE(l->used, l->used & ~(1UL << (place - l->place)));
	atomic_dec(&f->nr_places);
	flow_put(f);
}

/* The request that holds the flow counts in the place from now on. */
static void flow_local_settle(struct flow_locals *l, struct flow_local *place, struct flow *f)
{
	atomic_inc(&f->nr_places);
	place->paid_vt = 0;
	place->advance = 1;
	place->left = READ_ONCE(f->finish);
	WRITE_ONCE(place->flow, f);
	WRITE_ONCE(place->nr_begun, place->nr_begun + 1);
	WRITE_ONCE(l->used, l->used | 1UL << (place - l->place));
}

struct flow *flow_local_get(struct flow_locals *l, struct flow_table *t, u64 key, void *who,
			    u64 vt)
{
	struct flow_local *place = flow_local_of(l, key);
	struct flow *f = place->flow;

	if (f && f->key == key) {
		WRITE_ONCE(place->nr_begun, place->nr_begun + 1);
		return f;
	}
	f = flow_get(t, key, who, vt);
	/* The other flow is of many keys, and of none of them for long. */
	if (unlikely(f == &t->other))
		return f;
	if (!place->flow)
		flow_local_settle(l, place, f);
	return f;
}
EXPORT_SYMBOL_GPL(flow_local_get);

void flow_locals_fold(struct flow_locals *l)
{
	unsigned int i;

	for_each_set_bit(i, &l->used, FLOW_LOCAL_PLACES) {
		struct flow_local *place = &l->place[i];

		flow_local_fold(place);
		if (flow_local_is_over(place))
			flow_local_give_up(l, place);
	}
}
EXPORT_SYMBOL_GPL(flow_locals_fold);

/*
 * Charges the flow for a request that is not paid in full, and for some more. It begins with the
 * finish tag that this place has left: to read the true one first, which another CPU may have
 * written, would move the line twice.
 */
static u64 flow_local_charge(struct flow_local *place, u64 vt, u64 cost_vt, u64 throttle_vt,
			     u64 finish, u64 paid_vt)
{
	u64 start, own_vt, more_vt, end;
	u8 advance;

	do {
		own_vt = vt_after(finish, vt) ? paid_vt : 0;
		start = vt_add(vt_after(finish, vt) ? finish : vt, 0);
		advance = finish == place->left ? 1 : min(2 * place->advance, FLOW_ADVANCE_MOST);
		more_vt = min3((advance - 1) * cost_vt, throttle_vt / 4, FLOW_ADVANCE_VT);
		end = vt_add(start, cost_vt - own_vt + more_vt);
		/* As flow_tag(), which charges nobody who is too far ahead. */
		if (unlikely(start - vt > VT_AHEAD_MAX)) {
			end = start;
			more_vt = 0;
		}
		/* Pairs with flow_tag(): no charge is lost. */
	} while (!try_cmpxchg(&place->flow->finish, &finish, end));
	place->advance = advance;
	place->left = place->seen = end;
	place->tag = end - more_vt;
	place->paid_vt = more_vt;
	/* What was paid counts for its beginning. */
	return vt_add(vt_after(start - own_vt, vt) ? start - own_vt : vt, 0);
}

u64 flow_local_pay(struct flow_local *place, u64 vt, u64 cost_vt, u64 throttle_vt)
{
	struct flow *f = place->flow;
	u64 finish = place->left, paid_vt = place->paid_vt, at;

	/* Pairs with itself: what is paid back is used once. */
	if (unlikely(atomic64_read(&f->paid_back)))
		paid_vt += atomic64_xchg(&f->paid_back, 0);
	if (paid_vt < cost_vt)
		return flow_local_charge(place, vt, cost_vt, throttle_vt, finish, paid_vt);
	/* It is paid, and late: does the flow still have a use for it? */
	finish = READ_ONCE(f->finish);
	if (!vt_after(finish, vt))
		return flow_local_charge(place, vt, cost_vt, throttle_vt, finish, 0);
	at = vt_add(place->paid_vt && vt_after(place->tag, vt) ? place->tag : vt, 0);
	place->seen = finish;
	place->paid_vt = paid_vt - cost_vt;
	place->tag = vt_add(at, cost_vt);
	return at;
}
EXPORT_SYMBOL_GPL(flow_local_pay);

void flow_locals_rescale(struct flow_locals *l)
{
	unsigned int i;

	for_each_set_bit(i, &l->used, FLOW_LOCAL_PLACES) {
		struct flow_local *place = &l->place[i];
		const struct flow_reweigh *change = &place->flow->change;

		if (!place->flow->is_changing || !place->paid_vt)
			continue;
		place->tag = flow_scaled(change, place->tag);
		place->paid_vt = flow_scaled_cost(change, place->paid_vt);
	}
}
EXPORT_SYMBOL_GPL(flow_locals_rescale);
