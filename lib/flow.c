// SPDX-License-Identifier: GPL-2.0
/*
 * flow.c - the flows of one device, which pay for its service; the manual is in flow.h
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "flow.h"

const char *const flow_kind_name[FLOW_NR_KINDS] = {
	[FLOW_CGROUP]	= "cgroup",
	[FLOW_PROCESS]	= "process",
	[FLOW_IOPRIO]	= "ioprio",
};
EXPORT_SYMBOL_GPL(flow_kind_name);

static void flow_store_weight(struct flow *f, u32 weight)
{
	const u64 one = (u64)FLOW_WEIGHT_DEFAULT << (VT_SHIFT + FLOW_INVERSE_SHIFT);

	WRITE_ONCE(f->weight, weight);
	WRITE_ONCE(f->inverse_weight, div_u64(one + weight / 2, weight));
}

static void flow_init(struct flow *f, u64 key, u32 number, u32 weight, u64 vt)
{
	*f = (struct flow) { .key = key, .number = number, .finish = vt };
	flow_store_weight(f, weight);
}

int flow_table_init(struct flow_table *t,
		    u32 (*weight_of)(void *context, u64 key, void *who), void *context, gfp_t gfp)
{
	*t = (struct flow_table) { .weight_of = weight_of, .context = context, .next_number = 1 };
	spin_lock_init(&t->lock);
	flow_init(&t->other, 0, 0, FLOW_WEIGHT_DEFAULT, 0);
	t->bucket = kvcalloc(1U << FLOW_HASH_BITS, sizeof(*t->bucket), gfp);
	return t->bucket ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(flow_table_init);

static struct hlist_head *flow_bucket(struct flow_table *t, u64 key)
{
	return &t->bucket[hash_64(key, FLOW_HASH_BITS)];
}

void flow_table_destroy(struct flow_table *t)
{
	struct hlist_node *next;
	struct flow *f;
	unsigned int i;

	for (i = 0; i < 1U << FLOW_HASH_BITS; i++)
		hlist_for_each_entry_safe(f, next, &t->bucket[i], node)
			kfree(f);
	kvfree(t->bucket);
}
EXPORT_SYMBOL_GPL(flow_table_destroy);

struct flow *flow_find(struct flow_table *t, u64 key)
{
	struct flow *f;

	hlist_for_each_entry_rcu(f, flow_bucket(t, key), node, lockdep_is_held(&t->lock))
		if (f->key == key)
			return f;
	return NULL;
}
EXPORT_SYMBOL_GPL(flow_find);

/* The reclaimer may have decided on it since it was found. */
static bool flow_hold(struct flow *f)
{
	if (!atomic_inc_unless_negative(&f->refs))
		return false;
	if (READ_ONCE(f->idle))
		WRITE_ONCE(f->idle, false);
	return true;
}

/* Under the lock, since another CPU may be making the same flow. A dead one is not in the table. */
static struct flow *flow_make(struct flow_table *t, u64 key, void *who, u64 vt)
{
	struct flow *f, *made;

	made = kmalloc(sizeof(*made), GFP_NOWAIT | __GFP_NOWARN);
	spin_lock(&t->lock);
	f = flow_find(t, key);
	if (!f && made) {
		f = made;
		made = NULL;
		/*
		 * Under the lock: weight_of() sees a weight that changes now, or
		 * flow_set_weight() finds the new flow.
		 */
		flow_init(f, key, t->next_number++, t->weight_of(t->context, key, who), vt);
		WRITE_ONCE(t->nr_flows, t->nr_flows + 1);
		hlist_add_head_rcu(&f->node, flow_bucket(t, key));
	}
	if (!f)
		f = &t->other;
	flow_hold(f);
	spin_unlock(&t->lock);
	kfree(made);
	return f;
}

struct flow *flow_get(struct flow_table *t, u64 key, void *who, u64 vt)
{
	struct flow *f;

	rcu_read_lock();
	f = flow_find(t, key);
	if (f && !flow_hold(f))
		f = NULL;
	rcu_read_unlock();
	return f ? f : flow_make(t, key, who, vt);
}
EXPORT_SYMBOL_GPL(flow_get);

struct flow_reweigh flow_reweigh(struct flow *f, u32 weight, u64 vt)
{
	struct flow_reweigh change = { .vt = vt, .old_weight = f->weight, .new_weight = weight };
	u64 finish = READ_ONCE(f->finish);

	do {
		change.finish = flow_scaled(&change, finish);
		/* Pairs with flow_tag() and flow_charge(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, change.finish));
	flow_store_weight(f, weight);
	return change;
}
EXPORT_SYMBOL_GPL(flow_reweigh);

struct flow *flow_set_weight(struct flow_table *t, u64 key, u32 weight, u64 vt,
			     struct flow_reweigh *change)
{
	struct flow *f;

	spin_lock(&t->lock);
	f = flow_find(t, key);
	if (f) {
		flow_hold(f);
		*change = flow_reweigh(f, weight, vt);
	}
	spin_unlock(&t->lock);
	return f;
}
EXPORT_SYMBOL_GPL(flow_set_weight);

/* True if the flow is gone. */
static bool flow_reclaim(struct flow_table *t, struct flow *f, u64 vt)
{
	lockdep_assert_held(&t->lock);

	if (atomic_read(&f->refs) || vt_after(READ_ONCE(f->finish), vt))
		return false;
	if (!READ_ONCE(f->idle)) {
		WRITE_ONCE(f->idle, true);
		return false;
	}
	/* Pairs with atomic_inc_unless_negative() in flow_hold(): the flow is dead or held. */
	if (atomic_cmpxchg(&f->refs, 0, FLOW_DEAD))
		return false;
	hlist_del_rcu(&f->node);
	WRITE_ONCE(t->nr_flows, t->nr_flows - 1);
	kfree_rcu(f, rcu);
	return true;
}

static void flow_census(struct flow_census *census, struct flow *f)
{
	u64 finish = READ_ONCE(f->finish);

	census->nr_flows++;
	census->nr_busy += atomic_read(&f->refs) > 0;
	if (vt_after(finish, census->last_finish))
		census->last_finish = finish;
}

/*
 * For a flow that is never reclaimed: if virtual time were half its range ahead of the finish tag,
 * the tag would count as ahead of virtual time.
 */
static void flow_keep_up(struct flow *f, u64 vt)
{
	u64 finish = READ_ONCE(f->finish);

	/* Pairs with flow_tag(): no charge is lost. A CPU that tags meanwhile moves it on. */
	if (vt_after(vt, finish))
		cmpxchg(&f->finish, finish, vt);
}

struct flow_census flow_table_reclaim(struct flow_table *t, u64 vt)
{
	struct flow_census census = { .last_finish = vt };
	struct hlist_node *next;
	struct flow *f;
	unsigned int i;

	flow_keep_up(&t->other, vt);
	census.nr_busy += atomic_read(&t->other.refs) > 0;
	for (i = 0; i < 1U << FLOW_HASH_BITS; i++) {
		if (hlist_empty(&t->bucket[i]))
			continue;
		spin_lock(&t->lock);
		hlist_for_each_entry_safe(f, next, &t->bucket[i], node)
			if (!flow_reclaim(t, f, vt))
				flow_census(&census, f);
		spin_unlock(&t->lock);
	}
	return census;
}
EXPORT_SYMBOL_GPL(flow_table_reclaim);

void flow_table_for_each(struct flow_table *t, void (*show)(void *context, struct flow *f),
			 void *context)
{
	struct flow *f;
	unsigned int i;

	for (i = 0; i < 1U << FLOW_HASH_BITS; i++)
		hlist_for_each_entry_rcu(f, &t->bucket[i], node)
			show(context, f);
}
EXPORT_SYMBOL_GPL(flow_table_for_each);
