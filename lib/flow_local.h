/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flow_local.h - what a hardware queue counts of a flow by itself
 *
 * A flow that submits on many CPUs has one cache line that all of them would write for each
 * request: to take a reference, to count the bytes served, to give the reference back. So a queue
 * has some places, each for one flow. A place holds one reference to its flow, and counts there
 * what the queue's own requests of that flow do. Nobody else writes these lines.
 *
 * A flow's place is given by its key. If another flow has it, a request takes a reference of its
 * flow instead: it counts directly. So there is no list to search and no limit on flows, and a few
 * flows on a queue seldom meet.
 *
 * What a place counts is under the queue's lock, but for the end of a request, which may come in
 * any context, without the lock. The claim is
 *
 *	a place belongs to one flow from the first request that counts there to the end of the last
 *
 *  1. A request begins under the lock. It ends by one atomic step on @nr_ended.
 *  2. A place is given up under the lock, if all that have begun have ended. None begins meanwhile,
 *     and one that has not ended keeps the two numbers apart.
 *
 * So the end finds the place by the key alone. Whether a request counts in a place or directly is
 * for its owner to remember.
 *
 * flow_locals_fold() adds what was counted to the flow, and gives up the places whose requests have
 * ended. Only then the flow can be seen idle. So the owner folds all queues before it looks at
 * flow.refs or flow.service_bytes.
 *
 * Paying in advance
 * =================
 * That leaves the finish tag. If other CPUs charge the flow as well, a place pays for several
 * requests at once, and its next requests take their tags from that. Each time that it has used up
 * what it paid for, it pays for twice as many, up to FLOW_ADVANCE_MOST; but only for one if no
 * other CPU has charged the flow meanwhile.
 *
 * What is paid is not lost as long as the flow is ahead of virtual time. If virtual time has passed
 * it, it counts for the next requests of the place, which start now. A place that is given up
 * leaves it to the next one that pays. So the flow is charged what it sends, and what its places
 * have paid. By as much its service may be behind its share, or ahead of it, besides what the
 * theorems allow: for each of its queues T / 4, and no more than 16 KiB at weight 100
 * (FLOW_ADVANCE_VT). A flow that is not ahead has no use for its share, and saves none: what was
 * paid is void.
 */
#ifndef MQFAIR_FLOW_LOCAL_H
#define MQFAIR_FLOW_LOCAL_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/hash.h>
#include <linux/minmax.h>

#include "flow.h"

enum {
	FLOW_LOCAL_BITS		= 5,
	FLOW_LOCAL_PLACES	= 1 << FLOW_LOCAL_BITS,
	/* A place pays for so many requests at most. */
	FLOW_ADVANCE_MOST	= 8,
};

/* 16 KiB at weight 100: see above. */
#define FLOW_ADVANCE_VT		((u64)16 << (10 + VT_SHIFT))

/**
 * struct flow_local - a place
 * @flow:		whose it is, with a reference; NULL: nobody's
 * @service_bytes:	not yet in @flow->service_bytes
 * @nr_begun:		requests that began here, of all flows there were
 * @nr_ended:		and that have ended
 * @tag:		start tag of its next request, if that is paid, and virtual time has not
 *			passed it
 * @paid_vt:		what is paid, from @tag on
 * @left:		the flow's finish tag, as this place has left it
 * @seen:		and as it has seen it last: until then the flow is ahead of virtual time
 * @advance:		so many requests were paid for last
 */
struct flow_local {
	struct flow *flow;
	u64 service_bytes;
	u32 nr_begun;
	atomic_t nr_ended;
	u64 tag;
	u64 paid_vt;
	u64 left, seen;
	u8 advance;
} ____cacheline_aligned_in_smp;

/**
 * struct flow_locals - the places of a queue
 * @used:	a bit for each that is somebody's; written under the queue's lock, read anywhere
 * @place:	by key
 */
struct flow_locals {
	unsigned long used;
	struct flow_local place[FLOW_LOCAL_PLACES];
};

static inline unsigned int flow_local_index(u64 key)
{
	return hash_64(key, FLOW_LOCAL_BITS);
}

static inline struct flow_local *flow_local_of(struct flow_locals *l, u64 key)
{
	return &l->place[flow_local_index(key)];
}

/* Does a request of the flow that begins now count in its place? Under the queue's lock. */
static inline bool flow_is_local(const struct flow_local *place, const struct flow *f)
{
	return place->flow == f;
}

/**
 * flow_local_get() - find or make the flow of a request that begins
 * @l:		the queue's places; under the queue's lock
 * @t:		table
 * @key:	which flow
 * @who:	for weight_of(), if it has to be made
 * @vt:		virtual time: the finish tag of a new flow
 *
 * The request counts in a place if flow_is_local() says so now, or has a reference. It ends by
 * flow_local_end(), or flow_put().
 *
 * Return: the flow; @t->other if memory is short.
 */
struct flow *flow_local_get(struct flow_locals *l, struct flow_table *t, u64 key, void *who,
			    u64 vt);

/* flow_local_tag(), if not all is paid, or the flow may not be ahead of virtual time. */
u64 flow_local_pay(struct flow_local *place, u64 vt, u64 cost_vt, u64 throttle_vt);

/* flow_local_get() for one more request of a flow that a request has which has not ended. */
static inline void flow_local_again(struct flow_local *place, struct flow *f)
{
	if (likely(place->flow == f))
		WRITE_ONCE(place->nr_begun, place->nr_begun + 1);
	else
		atomic_inc(&f->refs);
}

/* Bytes that a request which counts in a place is served. Under the queue's lock. */
static inline void flow_local_serve(struct flow_local *place, u64 bytes)
{
	place->service_bytes += bytes;
}

/* A request that counts in a place has ended. Any context; the caller has done with the flow. */
static inline void flow_local_end(struct flow_local *place)
{
	/* What was read of the flow, before the end. Pairs with flow_local_is_over(). */
	atomic_fetch_inc_release(&place->nr_ended);
}

/**
 * flow_local_tag() - charge a request that counts in a place
 * @place:	its place; under the queue's lock
 * @vt:		virtual time
 * @cost_vt:	from flow_cost_vt()
 * @throttle_vt: T, which bounds what is paid in advance
 *
 * Return: the start tag, not before virtual time.
 */
static inline u64 flow_local_tag(struct flow_local *place, u64 vt, u64 cost_vt, u64 throttle_vt)
{
	struct flow *f = place->flow;
	u64 finish = place->left, start;

	if (place->paid_vt >= cost_vt && !vt_after(vt, place->seen)) {
		start = vt_add(vt_after(vt, place->tag) ? vt : place->tag, 0);
		place->paid_vt -= cost_vt;
		place->tag = vt_add(start, cost_vt);
		return start;
	}
	/* flow_tag() in one step, if no other CPU has charged the flow. Pairs with flow_tag(). */
	start = vt_add(vt_after(finish, vt) ? finish : vt, 0);
	if (!place->paid_vt && !atomic64_read(&f->paid_back) && start - vt <= VT_AHEAD_MAX &&
	    try_cmpxchg(&f->finish, &finish, vt_add(start, cost_vt))) {
		place->left = vt_add(start, cost_vt);
		place->advance = 1;
		return start;
	}
	return flow_local_pay(place, vt, cost_vt, throttle_vt);
}

/* What a place has paid follows its flow's weight. Under the queue's lock. */
void flow_locals_rescale(struct flow_locals *l);

/* Adds what all places have counted to their flows. Under the queue's lock. */
void flow_locals_fold(struct flow_locals *l);

/* How many requests of the flow count in the queue's place. Exact under the queue's lock. */
static inline unsigned int flow_local_nr(const struct flow_locals *l, const struct flow *f)
{
	const struct flow_local *place = &l->place[flow_local_index(f->key)];

	if (READ_ONCE(place->flow) != f)
		return 0;
	return max_t(s32, READ_ONCE(place->nr_begun) - (u32)atomic_read(&place->nr_ended), 0);
}

/* How many requests of the flow have a reference of their own. */
static inline unsigned int flow_nr_direct(const struct flow *f)
{
	return max(atomic_read(&f->refs) - atomic_read(&f->nr_places), 0);
}

#endif /* MQFAIR_FLOW_LOCAL_H */
