/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mindicator.h - the virtual time of a device: the earliest start tag among its queues
 *
 * Each queue has a leaf, which holds the start tag of its first request, or VT_NONE. An inner
 * node holds the minimum of its children. A change climbs only as far as it changes a minimum,
 * so the root, the one place that all CPUs look at, is written only when the slowest queue of
 * the whole device moves on. Virtual time is what the root has shown at most: it never goes
 * back, even if a queue appears with an earlier tag.
 *
 * From Y. Liu, V. Luchangco, M. Spear, "Mindicators: A Scalable Approach to Quiescence", ICDCS
 * 2013, in the use that MQFQ (ATC 2019, section 3.1) makes of it. Theirs is lock-free; ours has a
 * lock per inner node. A lock that only neighbours take costs no more than the atomic operations
 * in its place, it is never taken in an interrupt, and it buys the rule below.
 *
 * The rule: when mindicator_set() returns, every ancestor's value is no later than the leaf's new
 * value, and virtual time cannot pass that value until the same leaf is set again. A climber
 * therefore holds on to the locks of the nodes that it has changed until it has arrived where
 * nothing changes. Locks are taken from the leaf upwards.
 *
 *	1. X lowers leaf x to 100, locks n1, sets n1 to 100, and has not yet come to the root.
 *	2. Y, below n1 too, sets leaf y to 120. n1 shows 100: nothing to do for Y?
 *	3. The root, at 110, knows neither; if Y went on, virtual time could pass 120.
 *
 * With the rule, Y waits at 2 for n1's lock, and gets it when X has told the root.
 *
 * Which operations may run at the same time:
 *
 *			set, same leaf	set, other leaf		vt
 *	set		caller's lock	yes			yes
 *	vt						yes
 */
#ifndef MQFAIR_MINDICATOR_H
#define MQFAIR_MINDICATOR_H

#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/spinlock.h>

#include "topology.h"
#include "vt.h"

struct seq_file;

/**
 * struct mindicator_node - a leaf, or the minimum of the nodes below an inner node
 * @value:	virtual time or VT_NONE; a leaf's owner writes it, an inner node's needs @lock
 * @lock:	of an inner node
 */
struct mindicator_node {
	u64 value;
	spinlock_t lock;
} ____cacheline_aligned_in_smp;

/**
 * struct mindicator - a tree of minima
 * @topology:	its shape
 * @node:	its nodes, numbered as there
 * @root:	the root of them
 * @vt:		the latest value that the root has had; written under the root's lock
 */
struct mindicator {
	const struct topology *topology;
	struct mindicator_node *node, *root;
	u64 vt ____cacheline_aligned_in_smp;
};

/**
 * mindicator_init() - all leaves are empty
 * @m:		mindicator
 * @topology:	its shape; outlives it
 * @vt:		virtual time to begin with
 * @gfp:	allocation flags
 *
 * Return: 0 or -ENOMEM.
 */
int mindicator_init(struct mindicator *m, const struct topology *topology, u64 vt, gfp_t gfp);
void mindicator_destroy(struct mindicator *m);

/* Virtual time; any context. */
static inline u64 mindicator_vt(const struct mindicator *m)
{
	return READ_ONCE(m->vt);
}

/* What the leaf holds; the caller is its owner. */
static inline u64 mindicator_leaf(const struct mindicator *m, unsigned int leaf)
{
	return m->node[leaf].value;
}

/**
 * mindicator_set() - a queue's first request has changed
 * @m:		mindicator
 * @leaf:	the queue's leaf; its owner's lock held
 * @value:	start tag, or VT_NONE
 * @old_vt:	where to put virtual time before this call, if it returns true
 *
 * Ordering: full barrier between an advance of virtual time and the caller's next step. Pairs with
 * the barrier of a queue that waits for virtual time, between the note that it waits and its last
 * look at mindicator_vt().
 *
 * Return: true if virtual time has advanced: the caller owes a wake-up to all queues that wait.
 */
bool mindicator_set(struct mindicator *m, unsigned int leaf, u64 value, u64 *old_vt);

/* Are all leaves empty? A leaf that is set at the same time may be overlooked. */
static inline bool mindicator_is_empty(const struct mindicator *m)
{
	return READ_ONCE(m->root->value) == VT_NONE;
}

/**
 * mindicator_skip() - no flow has a request
 * @m:	mindicator
 * @vt:	the latest finish tag of all requests so far
 *
 * Virtual time goes there, unless a leaf is not empty or it is there already. No queue can be
 * waiting for it: a queue that waits is in a leaf.
 */
void mindicator_skip(struct mindicator *m, u64 vt);

/* Virtual time, then a line per inner node: its level, and by how much it is ahead. */
void mindicator_show(const struct mindicator *m, struct seq_file *s);

#endif /* MQFAIR_MINDICATOR_H */
