/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flow_tree.h - weights in a tree: what part of the device a flow has among its siblings
 *
 * The manual is in flow_tree.c. The flow table (flow.h) is the only user: each flow is a leaf. All
 * calls are under one lock, the table's, except flow_tree_init() and flow_tree_destroy().
 */
#ifndef MQFAIR_FLOW_TREE_H
#define MQFAIR_FLOW_TREE_H

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

enum {
	FLOW_WEIGHT_MIN		= 1,
	FLOW_WEIGHT_DEFAULT	= 100,
	FLOW_WEIGHT_MAX		= 10000,

	/* Fraction bits of an effective weight, which is 1 at least: 2^-16. */
	FLOW_EFFECTIVE_SHIFT	= 16,
	FLOW_EFFECTIVE_MIN	= 1,

	FLOW_HASH_BITS		= 10,
};

/**
 * struct flow_tree_ops - what the owner knows of the tree above its flows; under the table's lock
 * @parent_of:	what is above @who, and its key; NULL if @who is the root, or in no tree
 * @heir_of:	does a new flow take over the debt of another one? puts the key of that
 * @dirty:	effective weights are no longer right: have flow_table_update() called soon
 */
struct flow_tree_ops {
	void *(*parent_of)(void *context, void *who, u64 *parent_key);
	bool (*heir_of)(void *context, u64 key, u64 *heir_of_key);
	void (*dirty)(void *context);
};

/**
 * struct flow_tree - the groups above the flows of one device
 * @ops:	NULL if all flows are siblings
 * @weight_of:	weight of a new group
 * @context:	for @ops and @weight_of
 * @lock:	the table's
 * @bucket:	hash by key
 * @groups:	groups, parents before their children
 * @passed_vt:	virtual time at the last flow_tree_charge()
 * @is_dirty:	effective weights are to be computed
 */
struct flow_tree {
	const struct flow_tree_ops *ops;
	u32 (*weight_of)(void *context, u64 key, void *who);
	void *context;
	spinlock_t *lock;
	struct hlist_head *bucket;
	struct list_head groups;
	u64 passed_vt;
	bool is_dirty;
};

/**
 * struct flow_leaf - a flow's place
 * @group:	NULL if it is in no group: the root's, or of a kind without a tree
 * @active:	it counts among its siblings
 */
struct flow_leaf {
	struct flow_group *group;
	bool active;
};

/* Return: 0 or -ENOMEM. */
int flow_tree_init(struct flow_tree *t, const struct flow_tree_ops *ops, gfp_t gfp);
/* And what groups are left. */
void flow_tree_destroy(struct flow_tree *t);

/* Puts the leaf of a new flow into the tree. Return: false if memory is short. */
bool flow_tree_add(struct flow_tree *t, struct flow_leaf *l, u64 key, void *who, u64 vt);
void flow_tree_del(struct flow_tree *t, struct flow_leaf *l);

/* The flow counts among its siblings from now on, or does not. */
void flow_tree_activate(struct flow_tree *t, struct flow_leaf *l);
void flow_tree_deactivate(struct flow_tree *t, struct flow_leaf *l);

/* What an active flow pays by. @weight is its own, and counts if it is in no group. */
u32 flow_tree_weight(const struct flow_leaf *l, u32 weight);
void flow_tree_set_weight(struct flow_tree *t, u64 key, u32 weight);

/* A flow was served so many bytes since the last pass. */
void flow_tree_serve(struct flow_leaf *l, u64 bytes);
/* A pass is over: groups pay. Return: the latest tag of a group, or @vt. */
u64 flow_tree_charge(struct flow_tree *t, u64 vt);
/* @vt, or later by what the flow's groups owe. */
u64 flow_tree_debt(const struct flow_leaf *l, u64 vt);

#endif /* MQFAIR_FLOW_TREE_H */
