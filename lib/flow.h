/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flow.h - the flows of one device, which pay for its service
 *
 * A flow is a tenant: a cgroup, a process, or an I/O priority. It is found by a number of 64
 * bits, and made when its first request comes. It has a weight, and the finish tag of its last
 * request, from which the next one's start tag follows. That tag, and the counters beside it on
 * its cache line, are what all CPUs on which the flow submits share (MQFQ, ATC 2019, section 3.1).
 *
 * A flow without requests whose finish tag virtual time has passed is worth nothing: a new flow
 * in its place would get the same tags. flow_table_reclaim() frees such flows.
 *
 * A flow's weight counts among its siblings in a tree of groups, if the owner names parents
 * (flow_tree.c). What its requests pay by is its effective weight: the part of the device that it
 * has while the flows are active that are active now.
 *
 * Queues that have many requests of a flow count them by themselves (flow_local.h).
 *
 * Life: found or made by flow_get(), which takes a reference; flow_put() gives it back and frees
 * nothing. The reclaimer turns the reference count from 0 to FLOW_DEAD, after which flow_get()
 * does not find it; memory is freed after a grace period.
 *
 * Which operations may run at the same time:
 *
 *			get, put, tag	set_weight	update		pass, reclaim	for_each
 *	get, put, tag	yes		yes		yes		yes		yes
 *	set_weight			table's lock	table's lock	table's lock	yes
 *	update						one at a time	table's lock	yes
 *	pass, reclaim							table's lock	yes
 *
 * In process context.
 */
#ifndef MQFAIR_FLOW_H
#define MQFAIR_FLOW_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "flow_tree.h"
#include "vt.h"

enum {
	/*
	 * Fraction bits of the virtual time per byte. At the smallest effective weight it has 59
	 * bits, at the largest 30, so that the last of them is a billionth.
	 */
	FLOW_INVERSE_SHIFT	= 32,

	/* Costs in bytes are at most two to this. */
	FLOW_COST_SHIFT_MAX	= 36,

	FLOW_NR_NOTES		= 9,
	FLOW_DEAD		= -1,
};

/* What a flow is; blk/flow_id.h finds the flow of a request. */
enum flow_kind {
	FLOW_CGROUP,
	FLOW_PROCESS,
	FLOW_IOPRIO,
	FLOW_NR_KINDS,
};

/* As they are written to and read from the tunable "flow". */
extern const char *const flow_kind_name[FLOW_NR_KINDS];

/**
 * struct flow_reweigh - a change of a flow's effective weight
 * @vt:		virtual time at that moment
 * @finish:	the flow's finish tag from then on: what is tagged after it starts there, or later
 * @old_weight:	effective weight before
 * @new_weight:	and now
 */
struct flow_reweigh {
	u64 vt;
	u64 finish;
	u32 old_weight;
	u32 new_weight;
};

/**
 * struct flow - a tenant of one device
 * @node:		in the table
 * @key:		which tenant
 * @inverse_weight:	virtual time per byte, times 2^FLOW_INVERSE_SHIFT
 * @weight:		FLOW_WEIGHT_MIN to _MAX, among its siblings
 * @effective_weight:	times 2^FLOW_EFFECTIVE_SHIFT
 * @number:		small number, for tables with an entry per flow elsewhere
 * @target_us:		the latency that its requests shall have, for the owner; 0: none
 * @rcu:		for its end
 * @refs:		references, FLOW_DEAD when it is out of the table
 * @nr_places:		how many of them are places of queues (flow_local.h)
 * @finish:		finish tag of its last request
 * @service_bytes:	bytes that were dispatched, or what they cost, as the owner counts
 * @throttled_ns:	for how long queues waited because one of its requests was ahead
 * @idle:		what has seen it idle: FLOW_SEEN_BY_*; written under the table's lock, not 0
 *			while the flow is not active
 * @notes:		the owner's, 0 at first
 * @paid_back:		what places had paid in advance when they were given up (flow_local.h)
 * @debt_until:	where the charges of urgent requests alone would end: what they owe
 * @leaf:		its place in the tree; under the table's lock
 * @is_changing:	in a list from flow_table_update()
 * @next_changed:	in that list
 * @change:		what flow_table_update() did to it
 * @passed_bytes:	@service_bytes at the last flow_table_pass()
 * @passed_finish:	@finish then
 */
struct flow {
	struct hlist_node node;
	u64 key;
	u64 inverse_weight;
	u32 weight;
	u32 effective_weight;
	u32 number;
	u32 target_us;
	struct rcu_head rcu;

	/* What its CPUs write. */
	atomic_t refs ____cacheline_aligned_in_smp;
	atomic_t nr_places;
	u64 finish;
	atomic64_t service_bytes;
	atomic64_t throttled_ns;
	u8 idle;
	u64 notes[FLOW_NR_NOTES];
	u64 debt_until;
	atomic64_t paid_back;

	struct flow_leaf leaf;
	bool is_changing;
	struct flow *next_changed;
	struct flow_reweigh change;
	u64 passed_bytes;
	u64 passed_finish;
} __aligned(64);

/* In flow.idle. */
enum {
	FLOW_SEEN_BY_RECLAIM	= 1,
	FLOW_SEEN_BY_PASS	= 2,
};

/**
 * struct flow_table - the flows of one device
 * @lock:	for changes to @bucket
 * @weight_of:	weight of a new flow; called under @lock
 * @target_of:	target of a new flow, in microseconds, likewise; or NULL
 * @context:	for both
 * @tree:	the groups above the flows
 * @bucket:	hash by key
 * @nr_flows:	flows in it
 * @next_number:	for the next flow
 * @other:	flow of all whose own could not be allocated; never freed
 */
struct flow_table {
	spinlock_t lock;
	u32 (*weight_of)(void *context, u64 key, void *who);
	u32 (*target_of)(void *context, u64 key, void *who);
	void *context;
	struct flow_tree tree;
	struct hlist_head *bucket;
	unsigned int nr_flows;
	u32 next_number;
	struct flow other;
};

/* Return: 0 or -ENOMEM. */
int flow_table_init(struct flow_table *t,
		    u32 (*weight_of)(void *context, u64 key, void *who), void *context, gfp_t gfp);

/**
 * flow_table_plant() - have the flows that are made from now on in a tree
 * @t:		table
 * @ops:	what is above them
 * @gfp:	allocation flags
 *
 * Return: 0 or -ENOMEM.
 */
int flow_table_plant(struct flow_table *t, const struct flow_tree_ops *ops, gfp_t gfp);

/* No flow has a reference. */
void flow_table_destroy(struct flow_table *t);

/**
 * flow_get() - find or make a flow
 * @t:		table
 * @key:	which
 * @who:	for weight_of(), if it has to be made
 * @vt:		virtual time: the finish tag of a new flow
 *
 * Return: the flow, with a reference; @t->other if memory is short.
 */
struct flow *flow_get(struct flow_table *t, u64 key, void *who, u64 vt);

static inline void flow_put(struct flow *f)
{
	atomic_dec(&f->refs);
}

/* The flow for @key or NULL, without a reference; under rcu_read_lock(). */
struct flow *flow_find(struct flow_table *t, u64 key);

/*
 * What a tag from before the change is after it: the part that is ahead of virtual time shrinks or
 * grows by the ratio of the weights.
 */
static inline u64 flow_scaled(const struct flow_reweigh *change, u64 tag)
{
	u64 ahead = tag - change->vt;

	if (!vt_after(tag, change->vt))
		return tag;
	/* The quotient must fit 64 bits, and what is compared half of that. */
	if (change->new_weight < change->old_weight &&
	    ahead > div_u64(VT_AHEAD_MAX, change->old_weight) * change->new_weight)
		return vt_add(change->vt, VT_AHEAD_MAX);
	return vt_add(change->vt, mul_u64_u32_div(ahead, change->old_weight, change->new_weight));
}

/* What a cost from before the change is after it. */
static inline u64 flow_scaled_cost(const struct flow_reweigh *change, u64 cost_vt)
{
	return flow_scaled(change, change->vt + cost_vt) - change->vt;
}

/* An effective weight, of a flow whose siblings are all flows. */
static inline u32 flow_flat_weight(u32 weight)
{
	return weight << FLOW_EFFECTIVE_SHIFT;
}

/**
 * flow_reweigh() - change a flow's effective weight, and its finish tag with it
 * @f:			flow; no other CPU changes its weight meanwhile
 * @effective_weight:	FLOW_EFFECTIVE_MIN to flow_flat_weight(FLOW_WEIGHT_MAX)
 * @vt:			virtual time
 *
 * The finish tag is stored first. A request that is tagged before the weight is stored costs what
 * it did. In the other order, its cost by the new weight would be scaled once more.
 *
 * Return: the change, by which the tags of requests that wait can follow.
 */
struct flow_reweigh flow_reweigh(struct flow *f, u32 effective_weight, u64 vt);

/**
 * flow_set_weight() - change the weight of a flow or a group among its siblings
 * @t:		table
 * @key:	which
 * @weight:	FLOW_WEIGHT_MIN to FLOW_WEIGHT_MAX
 *
 * The caller calls flow_table_update() afterwards.
 */
void flow_set_weight(struct flow_table *t, u64 key, u32 weight);

/* Changes the target of a flow, if there is one for @key. */
void flow_set_target(struct flow_table *t, u64 key, u32 target_us);

/**
 * flow_table_update() - give all active flows the effective weights that they have by now
 * @t:		table
 * @vt:		virtual time
 *
 * One caller at a time, until it has called flow_table_updated().
 *
 * Return: the flows whose effective weight has changed, as a list with a reference to each.
 */
struct flow *flow_table_update(struct flow_table *t, u64 vt);

/* The tags of requests that wait have followed. */
void flow_table_updated(struct flow *changed);

/**
 * struct flow_census - a count of all flows
 * @nr_flows:	how many are left
 * @nr_busy:	how many of them have requests
 * @last_finish: the latest finish tag of all, or the virtual time that was given
 */
struct flow_census {
	unsigned int nr_flows;
	unsigned int nr_busy;
	u64 last_finish;
};

/**
 * flow_table_reclaim() - free the flows that have been idle since the last call
 * @t:		table
 * @vt:		virtual time
 *
 * If none is busy the caller may move virtual time to the last finish tag (start-time fair
 * queueing's own rule for an idle server), so that the next call frees them.
 */
struct flow_census flow_table_reclaim(struct flow_table *t, u64 vt);

/**
 * flow_table_pass() - look after the flows: ten times a second while there are any
 * @t:		table
 * @vt:		virtual time
 *
 * Flows that two passes see idle leave the tree, and their siblings share what they had. The groups
 * are charged for what their flows were served. Tags that lag behind virtual time are brought
 * along.
 *
 * Return: as flow_table_reclaim(), without freeing any.
 */
struct flow_census flow_table_pass(struct flow_table *t, u64 vt);

/* Calls @show for each flow, under rcu_read_lock(). */
void flow_table_for_each(struct flow_table *t, void (*show)(void *context, struct flow *f),
			 void *context);

/*
 * The cost of a request of @bytes, at most 2^FLOW_COST_SHIFT_MAX, for the flow in virtual time;
 * never 0. It is rounded to the nearest: a cost rounded down would be a flow's gain at every
 * request.
 */
static inline u64 flow_cost_vt(const struct flow *f, u64 bytes)
{
	u64 twice = mul_u64_u64_shr(bytes, READ_ONCE(f->inverse_weight), FLOW_INVERSE_SHIFT - 1);

	return clamp_t(u64, (twice + 1) >> 1, 1, VT_AHEAD_MAX);
}

/**
 * flow_tag() - charge a request
 * @f:		its flow
 * @vt:		virtual time
 * @cost_vt:	from flow_cost_vt()
 *
 * Two CPUs that submit for one flow get disjoint intervals, in some order.
 *
 * Return: the start tag: virtual time, or the last request's finish tag if that is later.
 */
static inline u64 flow_tag(struct flow *f, u64 vt, u64 cost_vt)
{
	u64 finish = READ_ONCE(f->finish), start;

	do {
		start = vt_after(finish, vt) ? finish : vt;
		start = vt_add(start, 0);
		if (unlikely(start - vt > VT_AHEAD_MAX))
			break;
		/* Pairs with itself: of two CPUs, the second starts where the first finished. */
	} while (!try_cmpxchg(&f->finish, &finish, vt_add(start, cost_vt)));
	return start;
}

/**
 * flow_tag_at_head() - charge a request that is not held back by its tag
 * @f:		its flow
 * @vt:		virtual time
 * @cost_vt:	from flow_cost_vt()
 * @ahead_vt:	how far ahead it may leave the flow
 *
 * A flow whose requests no tag holds back could run up any debt, and its next request of the common
 * kind would have to wait for all of it. So the flow ends at most @ahead_vt and this one request
 * ahead, or where it was.
 */
static inline void flow_tag_at_head(struct flow *f, u64 vt, u64 cost_vt, u64 ahead_vt)
{
	u64 finish = READ_ONCE(f->finish), most = vt + ahead_vt + cost_vt, end;

	do {
		if (vt_after(finish, most))
			return;
		end = (vt_after(finish, vt) ? finish : vt) + cost_vt;
		if (vt_after(end, most))
			end = most;
		/* Pairs with flow_tag(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, vt_add(end, 0)));
}

/* May an urgent request of the flow go next? */
static inline bool flow_has_credit(const struct flow *f, u64 vt, u64 credit_vt)
{
	return credit_vt && !vt_after(READ_ONCE(f->debt_until), vt + credit_vt);
}

/* Adds to what the flow owes for urgent requests, if that has not passed @credit_vt before. */
static inline bool flow_borrow(struct flow *f, u64 vt, u64 cost_vt, u64 credit_vt)
{
	u64 debt = READ_ONCE(f->debt_until), from;

	do {
		if (!credit_vt || vt_after(debt, vt + credit_vt))
			return false;
		from = vt_after(debt, vt) ? debt : vt;
		/* Pairs with itself: no two requests have the same credit. */
	} while (!try_cmpxchg(&f->debt_until, &debt, vt_add(from, cost_vt)));
	return true;
}

/* Charges a request, and returns its start tag: virtual time, if it goes next. */
static inline u64 flow_tag_next(struct flow *f, u64 vt, u64 cost_vt, bool passes)
{
	u64 start = flow_tag(f, vt, cost_vt);

	return passes ? vt_add(vt, 0) : start;
}

/**
 * flow_tag_urgent() - charge a request that others wait for
 * @f:		its flow
 * @vt:		virtual time
 * @cost_vt:	from flow_cost_vt()
 * @credit_vt:	how far ahead the flow's debt may be; 0: no request is urgent
 * @passes:	whether it goes next is put here
 *
 * It goes next, and its flow's later requests pay for it in full. Virtual time pays the debt back,
 * at the rate of the flow's share. A flow that has used up its credit sends its requests in turn.
 * One request may go beyond the credit, so that it is never too large to go.
 *
 * Return: the start tag.
 */
static inline u64 flow_tag_urgent(struct flow *f, u64 vt, u64 cost_vt, u64 credit_vt, bool *passes)
{
	*passes = flow_borrow(f, vt, cost_vt, credit_vt);
	return flow_tag_next(f, vt, cost_vt, *passes);
}

/* Has the flow had no more than its share, and @credit_vt? */
static inline bool flow_is_within(const struct flow *f, u64 vt, u64 credit_vt)
{
	return !vt_after(READ_ONCE(f->finish), vt + credit_vt);
}

/**
 * flow_tag_prompt() - charge a request that does not wait while its flow is within its share
 * @f:		its flow
 * @vt:		virtual time
 * @cost_vt:	from flow_cost_vt()
 * @credit_vt:	how far ahead the flow may be
 * @passes:	whether it goes next is put here
 *
 * All that the flow has been charged counts, whatever it was for, and what the groups owed for
 * which it began late.
 *
 * Return: the start tag.
 */
static inline u64 flow_tag_prompt(struct flow *f, u64 vt, u64 cost_vt, u64 credit_vt, bool *passes)
{
	*passes = flow_is_within(f, vt, credit_vt);
	return flow_tag_next(f, vt, cost_vt, *passes);
}

/* Charges a request once more, for a bio that was merged into it. */
static inline void flow_charge(struct flow *f, u64 vt, u64 cost_vt)
{
	u64 finish = READ_ONCE(f->finish);

	do {
		if (vt_after(finish, vt + VT_AHEAD_MAX))
			break;
		/* Pairs with flow_tag(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, vt_add(finish, cost_vt)));
}

/**
 * flow_forgive() - the flow need not pay for a request that has gone
 * @f:		its flow
 * @vt:		virtual time
 * @cost_vt:	what it was charged
 * @ahead_vt:	as far as it is more than this ahead
 */
static inline void flow_forgive(struct flow *f, u64 vt, u64 cost_vt, u64 ahead_vt)
{
	u64 finish = READ_ONCE(f->finish), most = vt + ahead_vt;

	do {
		if (!vt_after(finish, most))
			return;
		/* Pairs with flow_tag(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, vt_add(finish, -min(cost_vt, finish - most))));
}

#endif /* MQFAIR_FLOW_H */
