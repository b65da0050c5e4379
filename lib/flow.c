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

static void flow_store_effective(struct flow *f, u32 effective_weight)
{
	const u64 one = (u64)FLOW_WEIGHT_DEFAULT <<
			(VT_SHIFT + FLOW_INVERSE_SHIFT + FLOW_EFFECTIVE_SHIFT);

	WRITE_ONCE(f->effective_weight, effective_weight);
	WRITE_ONCE(f->inverse_weight, div64_u64(one + effective_weight / 2, effective_weight));
}

static void flow_init(struct flow *f, u64 key, u32 number, u32 weight, u64 vt)
{
	*f = (struct flow) { .key = key, .number = number, .weight = weight, .finish = vt };
	flow_store_effective(f, flow_flat_weight(weight));
	f->passed_finish = vt;
	f->debt_until = vt;
}

int flow_table_init(struct flow_table *t,
		    u32 (*weight_of)(void *context, u64 key, void *who), void *context, gfp_t gfp)
{
	*t = (struct flow_table) { .weight_of = weight_of, .context = context, .next_number = 1 };
	spin_lock_init(&t->lock);
	INIT_LIST_HEAD(&t->tree.groups);
	t->tree.weight_of = weight_of;
	t->tree.context = context;
	t->tree.lock = &t->lock;
	flow_init(&t->other, 0, 0, FLOW_WEIGHT_DEFAULT, 0);
	t->bucket = kvcalloc(1U << FLOW_HASH_BITS, sizeof(*t->bucket), gfp);
	return t->bucket ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(flow_table_init);

int flow_table_plant(struct flow_table *t, const struct flow_tree_ops *ops, gfp_t gfp)
{
	return flow_tree_init(&t->tree, ops, gfp);
}
EXPORT_SYMBOL_GPL(flow_table_plant);

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
	flow_tree_destroy(&t->tree);
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

/* How late a new flow, or one that was idle, begins: it takes over what its groups owe. */
static void flow_begin_late(struct flow *f, u64 late)
{
	u64 finish = READ_ONCE(f->finish);

	do {
		if (!vt_after(late, finish))
			return;
		/* Pairs with flow_tag(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, late));
}

static void flow_activate(struct flow_table *t, struct flow *f, u64 vt)
{
	lockdep_assert_held(&t->lock);

	flow_tree_activate(&t->tree, &f->leaf);
	flow_store_effective(f, flow_tree_weight(&f->leaf, f->weight));
	flow_begin_late(f, flow_tree_debt(&f->leaf, vt));
}

/*
 * A flow that was seen idle is used. A pass that makes it not active leaves @idle set, until it is
 * active again: so its first user comes here.
 */
static noinline void flow_end_idle(struct flow_table *t, struct flow *f, u64 vt)
{
	spin_lock(&t->lock);
	WRITE_ONCE(f->idle, 0);
	if (!f->leaf.active && f != &t->other)
		flow_activate(t, f, vt);
	spin_unlock(&t->lock);
}

static void flow_inherit(struct flow_table *t, struct flow *f)
{
	const struct flow_tree_ops *ops = t->tree.ops;
	struct flow *heir_of;
	u64 key;

	if (!ops || !ops->heir_of || !ops->heir_of(t->context, f->key, &key))
		return;
	heir_of = flow_find(t, key);
	if (heir_of && heir_of != f)
		flow_begin_late(f, READ_ONCE(heir_of->finish));
}

/* Puts @f, which is memory for a flow, into the table. Return: false if its groups have none. */
static bool flow_add(struct flow_table *t, struct flow *f, u64 key, void *who, u64 vt)
{
	/*
	 * Under the lock: weight_of() sees a weight that changes now, or flow_set_weight() finds
	 * the new flow. So do target_of() and flow_set_target().
	 */
	lockdep_assert_held(&t->lock);

	flow_init(f, key, t->next_number++, t->weight_of(t->context, key, who), vt);
	if (t->target_of)
		f->target_us = t->target_of(t->context, key, who);
	if (!flow_tree_add(&t->tree, &f->leaf, key, who, vt))
		return false;
	flow_activate(t, f, vt);
	flow_inherit(t, f);
	f->passed_finish = f->finish;
	WRITE_ONCE(t->nr_flows, t->nr_flows + 1);
	hlist_add_head_rcu(&f->node, flow_bucket(t, key));
	return true;
}

/* Under the lock, since another CPU may be making the same flow. A dead one is not in the table. */
static struct flow *flow_make(struct flow_table *t, u64 key, void *who, u64 vt)
{
	struct flow *f, *made;

	made = kmalloc(sizeof(*made), GFP_NOWAIT | __GFP_NOWARN);
	spin_lock(&t->lock);
	f = flow_find(t, key);
	if (!f && made && flow_add(t, made, key, who, vt)) {
		f = made;
		made = NULL;
	}
	if (!f)
		f = &t->other;
	/* What is in the table under the lock is not dead. */
	atomic_inc(&f->refs);
	spin_unlock(&t->lock);
	kfree(made);
	if (READ_ONCE(f->idle))
		flow_end_idle(t, f, vt);
	return f;
}

struct flow *flow_get(struct flow_table *t, u64 key, void *who, u64 vt)
{
	struct flow *f;

	rcu_read_lock();
	f = flow_find(t, key);
	/*
	 * The reclaimer may have decided on it since it was found. Reference before idle: pairs
	 * with the barrier in flow_table_pass().
	 */
	if (f && !atomic_inc_unless_negative(&f->refs))
		f = NULL;
	rcu_read_unlock();
	if (!f)
		return flow_make(t, key, who, vt);
	if (READ_ONCE(f->idle))
		flow_end_idle(t, f, vt);
	return f;
}
EXPORT_SYMBOL_GPL(flow_get);

struct flow_reweigh flow_reweigh(struct flow *f, u32 effective_weight, u64 vt)
{
	struct flow_reweigh change = {
		.vt		= vt,
		.old_weight	= f->effective_weight,
		.new_weight	= effective_weight,
	};
	u64 finish = READ_ONCE(f->finish), debt = READ_ONCE(f->debt_until);
	s64 paid = atomic64_read(&f->paid_back);

	do {
		change.finish = flow_scaled(&change, finish);
		/* Pairs with flow_tag() and flow_charge(): no charge is lost. */
	} while (!try_cmpxchg(&f->finish, &finish, change.finish));
	/* Pairs with flow_borrow(), in the same way. */
	while (!try_cmpxchg(&f->debt_until, &debt, flow_scaled(&change, debt)))
		;
	flow_store_effective(f, effective_weight);
	/* Pairs with flow_local_pay(): what is paid back is used once. */
	while (!atomic64_try_cmpxchg(&f->paid_back, &paid, flow_scaled_cost(&change, paid)))
		;
	return change;
}
EXPORT_SYMBOL_GPL(flow_reweigh);

void flow_set_weight(struct flow_table *t, u64 key, u32 weight)
{
	struct flow *f;

	spin_lock(&t->lock);
	f = flow_find(t, key);
	if (f)
		WRITE_ONCE(f->weight, weight);
	flow_tree_set_weight(&t->tree, key, weight);
	t->tree.is_dirty = true;
	spin_unlock(&t->lock);
}
EXPORT_SYMBOL_GPL(flow_set_weight);

void flow_set_target(struct flow_table *t, u64 key, u32 target_us)
{
	struct flow *f;

	spin_lock(&t->lock);
	f = flow_find(t, key);
	if (f)
		WRITE_ONCE(f->target_us, target_us);
	spin_unlock(&t->lock);
}
EXPORT_SYMBOL_GPL(flow_set_target);

/* Return: has its effective weight changed? Then the flow has one more reference. */
static bool flow_update(struct flow *f, u64 vt)
{
	u32 effective_weight;

	/* A flow that is not active gets its weight when it is used. */
	if (!f->leaf.active)
		return false;
	effective_weight = flow_tree_weight(&f->leaf, f->weight);
	if (effective_weight == f->effective_weight)
		return false;
	atomic_inc(&f->refs);
	f->change = flow_reweigh(f, effective_weight, vt);
	f->is_changing = true;
	return true;
}

struct flow *flow_table_update(struct flow_table *t, u64 vt)
{
	struct flow *f, *changed = NULL;
	unsigned int i;

	spin_lock(&t->lock);
	t->tree.is_dirty = false;
	spin_unlock(&t->lock);
	for (i = 0; i < 1U << FLOW_HASH_BITS; i++) {
		if (hlist_empty(&t->bucket[i]))
			continue;
		spin_lock(&t->lock);
		hlist_for_each_entry(f, &t->bucket[i], node) {
			if (!flow_update(f, vt))
				continue;
			f->next_changed = changed;
			changed = f;
		}
		spin_unlock(&t->lock);
	}
	return changed;
}
EXPORT_SYMBOL_GPL(flow_table_update);

void flow_table_updated(struct flow *changed)
{
	struct flow *f;

	while ((f = changed)) {
		changed = f->next_changed;
		f->is_changing = false;
		flow_put(f);
	}
}
EXPORT_SYMBOL_GPL(flow_table_updated);

/* True if the flow is gone. */
static bool flow_reclaim(struct flow_table *t, struct flow *f, u64 vt)
{
	lockdep_assert_held(&t->lock);

	if (atomic_read(&f->refs) || vt_after(READ_ONCE(f->finish), vt))
		return false;
	if (!(f->idle & FLOW_SEEN_BY_RECLAIM)) {
		WRITE_ONCE(f->idle, f->idle | FLOW_SEEN_BY_RECLAIM);
		return false;
	}
	/* Pairs with atomic_inc_unless_negative() in flow_get(): the flow is dead or held. */
	if (atomic_cmpxchg(&f->refs, 0, FLOW_DEAD))
		return false;
	flow_tree_del(&t->tree, &f->leaf);
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
 * If virtual time were half its range ahead of a flow's tag, the tag would count as ahead of
 * virtual time.
 */
static void flow_keep_up(struct flow *f, u64 vt)
{
	u64 finish = READ_ONCE(f->finish), debt = READ_ONCE(f->debt_until);

	/* Pairs with flow_tag(): no charge is lost. A CPU that tags meanwhile moves it on. */
	if (vt_after(vt, finish))
		cmpxchg(&f->finish, finish, vt);
	/* Pairs with flow_borrow(), in the same way. */
	if (vt_after(vt, debt))
		cmpxchg(&f->debt_until, debt, vt);
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

/* What its groups are charged for: bytes, at most by what its finish tag moved on. */
static u64 flow_served_bytes(struct flow *f)
{
	u64 bytes = atomic64_read(&f->service_bytes), finish = READ_ONCE(f->finish);
	u64 served = min_t(u64, bytes - f->passed_bytes, 1ULL << FLOW_COST_SHIFT_MAX);
	u64 moved = vt_after(finish, f->passed_finish) ? finish - f->passed_finish : 0;
	u64 cost_vt = flow_cost_vt(f, served);

	f->passed_bytes = bytes;
	f->passed_finish = finish;
	return cost_vt <= moved ? served : mul_u64_u64_div_u64(served, moved, cost_vt);
}

static void flow_pass(struct flow_table *t, struct flow *f, u64 vt)
{
	lockdep_assert_held(&t->lock);

	flow_tree_serve(&f->leaf, flow_served_bytes(f));
	if (atomic_read(&f->refs) || vt_after(READ_ONCE(f->finish), vt))
		return;
	if (!(f->idle & FLOW_SEEN_BY_PASS))
		WRITE_ONCE(f->idle, f->idle | FLOW_SEEN_BY_PASS);
	else if (f->leaf.active)
		flow_tree_deactivate(&t->tree, &f->leaf);
}

struct flow_census flow_table_pass(struct flow_table *t, u64 vt)
{
	struct flow_census census = { .last_finish = vt };
	u64 last_finish;
	struct flow *f;
	unsigned int i;

	/* What the last pass wrote in @idle, before the references. Pairs with flow_get(). */
	smp_mb();
	flow_keep_up(&t->other, vt);
	census.nr_busy += atomic_read(&t->other.refs) > 0;
	for (i = 0; i < 1U << FLOW_HASH_BITS; i++) {
		if (hlist_empty(&t->bucket[i]))
			continue;
		spin_lock(&t->lock);
		hlist_for_each_entry(f, &t->bucket[i], node) {
			flow_keep_up(f, vt);
			flow_pass(t, f, vt);
			flow_census(&census, f);
		}
		spin_unlock(&t->lock);
	}
	spin_lock(&t->lock);
	last_finish = flow_tree_charge(&t->tree, vt);
	spin_unlock(&t->lock);
	if (vt_after(last_finish, census.last_finish))
		census.last_finish = last_finish;
	return census;
}
EXPORT_SYMBOL_GPL(flow_table_pass);

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
