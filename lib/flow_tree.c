// SPDX-License-Identifier: GPL-2.0
/*
 * flow_tree.c - weights in a tree: what part of the device a flow has among its siblings
 *
 * The owner's tenants may be nested, as cgroups are. A tenant that may make others inside itself,
 * and set their weights, must not get more by that. So a weight compares siblings only:
 *
 *	effective weight of a flow = weight of the top of its branch, times, at each step down,
 *				     weight of the child / sum of the weights of active children
 *
 * A branch as a whole has the weight of its top whatever is inside, and what an idle child leaves
 * goes to its siblings. Where all flows are tops their weights are what they pay by.
 *
 * A group is a place in the tree. Each flow in the tree has one, and so has all that is above it
 * except the root. A flow is one more child of its own group, of weight FLOW_WEIGHT_DEFAULT: where
 * a group has requests of its own and active groups in it, it is their sibling. The root's own flow
 * is in no group; it is a sibling of the tops.
 *
 * Activity
 * ========
 * A flow is active from its first request until two passes in a row have found it without requests
 * and not ahead of virtual time. A group is active while anything in it is. Each step of activation
 * adds a weight to the group above, and ends at the first group that was active before: what is
 * above does not see it. The flow that becomes active has its effective weight at once. Its
 * relatives have a new one, too, and the owner's dirty() has flow_table_update() compute them soon.
 * No request of an active flow does anything for all this. The first one after a pass has seen its
 * flow idle takes the table's lock.
 *
 *	1. A pass sees a flow idle, and sets FLOW_SEEN_BY_PASS. The next pass finds that, passes a
 *	   full barrier, and finds no reference: the flow is not active any more.
 *	2. A user takes a reference, fully ordered, and looks at @idle.
 *	3. Either the pass finds the reference, or the user finds @idle set. Then it waits for the
 *	   table's lock, and makes the flow active again.
 *
 * Debt
 * ====
 * A flow that is new starts at virtual time: its first request does not wait, whatever it costs. A
 * tenant could have each request come from a new child, and pay nothing. So a group has a finish
 * tag as well. A pass adds what its flows were served since the last pass, over its own effective
 * weight. A flow that becomes active starts there, if that is ahead of virtual time. What a flow
 * was served is counted in bytes, but it is at most by what its finish tag moved on: then the lead
 * of a group is never more than the mean lead of its flows, whatever its operations cost.
 *
 * Everything here is under the table's lock.
 */
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "flow_tree.h"
#include "vt.h"

enum {
	/* Fraction bits of a product of parts. Times a weight, it fits 64 bits. */
	FLOW_PART_SHIFT		= 48,
	/* Fraction bits of a group's effective weight, which is divided further. */
	FLOW_GROUP_SHIFT	= 32,
	/* No pass charges more bytes than this, as a power of two. */
	FLOW_PASS_BYTES_SHIFT	= 36,
};

/**
 * struct flow_group - a place in the tree
 * @node:		in the tree's @bucket
 * @in_order:		in its @groups
 * @parent:		above it; NULL for a top
 * @key:		which tenant
 * @active_weight:	sum of the weights of its active children
 * @effective_weight:	of all in it together, at the last pass; times 2^FLOW_GROUP_SHIFT
 * @charged_by:		the larger of the last two
 * @finish:		finish tag: how far it has been served
 * @served_bytes:	since the last pass
 * @weight:		among its siblings
 * @nr_active:		active children
 * @nr_children:	children, its own flow included
 */
struct flow_group {
	struct hlist_node node;
	struct list_head in_order;
	struct flow_group *parent;
	u64 key;
	u64 active_weight;
	u64 effective_weight;
	u64 charged_by;
	u64 finish;
	u64 served_bytes;
	u32 weight;
	unsigned int nr_active;
	unsigned int nr_children;
};

/* ---- groups made and freed ---- */

int flow_tree_init(struct flow_tree *t, const struct flow_tree_ops *ops, gfp_t gfp)
{
	t->bucket = kvcalloc(1U << FLOW_HASH_BITS, sizeof(*t->bucket), gfp);
	if (!t->bucket)
		return -ENOMEM;
	t->ops = ops;
	return 0;
}

void flow_tree_destroy(struct flow_tree *t)
{
	struct flow_group *g, *next;

	list_for_each_entry_safe(g, next, &t->groups, in_order)
		kfree(g);
	kvfree(t->bucket);
}

static struct hlist_head *flow_group_bucket(struct flow_tree *t, u64 key)
{
	return &t->bucket[hash_64(key, FLOW_HASH_BITS)];
}

static struct flow_group *flow_group_find(struct flow_tree *t, u64 key)
{
	struct flow_group *g;

	lockdep_assert_held(t->lock);

	hlist_for_each_entry(g, flow_group_bucket(t, key), node)
		if (g->key == key)
			return g;
	return NULL;
}

/* Before @child in the table's list, or at the end of it. */
static struct flow_group *flow_group_make(struct flow_tree *t, u64 key, void *who, u64 vt,
					  struct flow_group *child)
{
	struct flow_group *g = kzalloc(sizeof(*g), GFP_NOWAIT | __GFP_NOWARN);

	if (!g)
		return NULL;
	g->key = key;
	g->weight = t->weight_of(t->context, key, who);
	g->finish = vt;
	hlist_add_head(&g->node, flow_group_bucket(t, key));
	list_add_tail(&g->in_order, child ? &child->in_order : &t->groups);
	return g;
}

bool flow_tree_add(struct flow_tree *t, struct flow_leaf *l, u64 key, void *who, u64 vt)
{
	struct flow_group *child = NULL, *g;
	void *parent;
	u64 parent_key;
	bool is_new;

	lockdep_assert_held(t->lock);

	if (!t->ops)
		return true;
	parent = t->ops->parent_of(t->context, who, &parent_key);
	while (parent) {
		g = flow_group_find(t, key);
		is_new = !g;
		if (is_new)
			g = flow_group_make(t, key, who, vt, child);
		if (!g) {
			flow_tree_del(t, l);
			return false;
		}
		*(child ? &child->parent : &l->group) = g;
		g->nr_children++;
		if (!is_new)
			break;
		child = g;
		who = parent;
		key = parent_key;
		parent = t->ops->parent_of(t->context, who, &parent_key);
	}
	return true;
}

/* ---- activity ---- */

static void flow_tree_dirty(struct flow_tree *t)
{
	if (t->is_dirty)
		return;
	t->is_dirty = true;
	t->ops->dirty(t->context);
}

void flow_tree_activate(struct flow_tree *t, struct flow_leaf *l)
{
	u32 weight = FLOW_WEIGHT_DEFAULT;
	struct flow_group *g;

	lockdep_assert_held(t->lock);

	l->active = true;
	for (g = l->group; g; g = g->parent) {
		g->active_weight += weight;
		if (g->nr_active++) {
			flow_tree_dirty(t);
			return;
		}
		weight = g->weight;
	}
}

void flow_tree_deactivate(struct flow_tree *t, struct flow_leaf *l)
{
	u32 weight = FLOW_WEIGHT_DEFAULT;
	struct flow_group *g;

	lockdep_assert_held(t->lock);

	l->active = false;
	for (g = l->group; g; g = g->parent) {
		g->active_weight -= weight;
		if (--g->nr_active) {
			flow_tree_dirty(t);
			return;
		}
		weight = g->weight;
	}
}

void flow_tree_del(struct flow_tree *t, struct flow_leaf *l)
{
	struct flow_group *g = l->group, *parent;

	lockdep_assert_held(t->lock);

	if (l->active)
		flow_tree_deactivate(t, l);
	for (; g && !--g->nr_children; g = parent) {
		parent = g->parent;
		hlist_del(&g->node);
		list_del(&g->in_order);
		kfree(g);
	}
	l->group = NULL;
}

/* ---- weights ---- */

u32 flow_tree_weight(const struct flow_leaf *l, u32 weight)
{
	u64 part = 1ULL << FLOW_PART_SHIFT;
	const struct flow_group *g;

	if (l->group)
		weight = FLOW_WEIGHT_DEFAULT;
	for (g = l->group; g; g = g->parent) {
		part = div64_u64(part * weight, g->active_weight);
		weight = g->weight;
	}
	part = part * weight + (1ULL << (FLOW_PART_SHIFT - FLOW_EFFECTIVE_SHIFT - 1));
	return max_t(u64, part >> (FLOW_PART_SHIFT - FLOW_EFFECTIVE_SHIFT), FLOW_EFFECTIVE_MIN);
}

void flow_tree_set_weight(struct flow_tree *t, u64 key, u32 weight)
{
	struct flow_group *g;

	lockdep_assert_held(t->lock);

	if (!t->ops)
		return;
	g = flow_group_find(t, key);
	if (!g)
		return;
	if (g->nr_active && g->parent)
		g->parent->active_weight += (u64)weight - g->weight;
	g->weight = weight;
}

/* ---- passes ---- */

void flow_tree_serve(struct flow_leaf *l, u64 bytes)
{
	if (l->group)
		l->group->served_bytes += bytes;
}

static void flow_group_weigh(struct flow_group *g)
{
	const struct flow_group *parent = g->parent;
	u64 before = g->effective_weight;

	if (!parent)
		g->effective_weight = (u64)g->weight << FLOW_GROUP_SHIFT;
	else if (g->nr_active)
		g->effective_weight = div64_u64(parent->effective_weight * g->weight,
						parent->active_weight);
	g->charged_by = max(before, g->effective_weight);
}

static void flow_group_charge(struct flow_group *g, u64 passed_vt, u64 vt)
{
	u64 served = min_t(u64, g->served_bytes, 1ULL << FLOW_PASS_BYTES_SHIFT);
	u64 by = max_t(u64, g->charged_by >> (FLOW_GROUP_SHIFT - FLOW_EFFECTIVE_SHIFT), 1);
	u64 cost_vt = div64_u64(served * FLOW_WEIGHT_DEFAULT << (VT_SHIFT + FLOW_EFFECTIVE_SHIFT),
				by);

	if (g->parent)
		g->parent->served_bytes += g->served_bytes;
	g->served_bytes = 0;
	/* A tag that virtual time has left behind is worth nothing. */
	if (!vt_after(g->finish, passed_vt))
		g->finish = passed_vt;
	g->finish = vt_add(g->finish, min(cost_vt, VT_AHEAD_MAX));
	if (vt_after(g->finish, vt + VT_AHEAD_MAX))
		g->finish = vt_add(vt, VT_AHEAD_MAX);
}

u64 flow_tree_charge(struct flow_tree *t, u64 vt)
{
	struct flow_group *g;
	u64 last_finish = vt;

	lockdep_assert_held(t->lock);

	list_for_each_entry(g, &t->groups, in_order)
		flow_group_weigh(g);
	list_for_each_entry_reverse(g, &t->groups, in_order) {
		flow_group_charge(g, t->passed_vt, vt);
		if (vt_after(g->finish, last_finish))
			last_finish = g->finish;
	}
	t->passed_vt = vt;
	return last_finish;
}

u64 flow_tree_debt(const struct flow_leaf *l, u64 vt)
{
	const struct flow_group *g;
	u64 debt = vt;

	for (g = l->group; g; g = g->parent)
		if (vt_after(g->finish, debt))
			debt = g->finish;
	return debt;
}
