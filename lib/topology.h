/* SPDX-License-Identifier: GPL-2.0 */
/*
 * topology.h - the tree that a machine's hardware queues form
 *
 * Queues whose CPUs share a core are near to each other, those that share only the machine are
 * far. The mindicator and the token tree take their shape from here, the ready set its idea of
 * "nearest". The shape never changes; when hardware queues come or go, the scheduler builds a new
 * one.
 *
 *	level 4, machine		         root
 *	                            /          |         \
 *	level 3, socket	           s0          s1         |
 *	                         /    \       /  \        |
 *	level 1, core	        c0     c1    |    |       |
 *	                       /  \   /  \   |    |       |
 *	leaf			0  1  2  3   4    5       6
 *
 * Leaves are numbered in the order of this picture, so that every node stands for a range of
 * leaves; which hardware queue a leaf is, leaf_of[] and queue_of[] tell. A level at which a node
 * would have one child is left out. A node with more than TOPOLOGY_FANOUT_MAX children is cut
 * into nodes of the same level, so that looking at all children is never long.
 */
#ifndef MQFAIR_TOPOLOGY_H
#define MQFAIR_TOPOLOGY_H

#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/types.h>

struct seq_file;

enum {
	TOPOLOGY_FANOUT_MAX	= 8,
	TOPOLOGY_QUEUES_MAX	= 16384,	/* node numbers are 16 bits wide */
};

/* How far two queues are from each other: the level of their lowest common ancestor. */
enum topology_level {
	TOPOLOGY_SELF,
	TOPOLOGY_CORE,
	TOPOLOGY_CACHE,
	TOPOLOGY_SOCKET,
	TOPOLOGY_MACHINE,
	TOPOLOGY_NR_LEVELS,
};

extern const char *const topology_level_name[TOPOLOGY_NR_LEVELS];

/**
 * struct topology_place - where a hardware queue's CPUs are
 * @id: of its core, cache and socket, at the index of the level; any numbers that are equal for
 *	equal things
 */
struct topology_place {
	u32 id[TOPOLOGY_MACHINE];
};

/**
 * struct topology_node - a leaf or an inner node
 * @parent:		its number; the root's own number for the root
 * @first_leaf:		the leaves below it, from this one
 * @last_leaf:		to this one
 * @first_child:	index into struct topology's children[]
 * @nr_children:	0 for a leaf
 * @level:		what its leaves have in common
 */
struct topology_node {
	u16 parent;
	u16 first_leaf, last_leaf;
	u16 first_child, nr_children;
	u16 level;
};

/**
 * struct topology - a tree of queues
 * @nr_queues:	leaves are nodes 0 to nr_queues - 1
 * @nr_nodes:	inner nodes follow, children before parents; the last one is the root
 * @node:	all nodes
 * @children:	node numbers; a node's children lie together
 * @leaf_of:	leaf of a queue
 * @queue_of:	queue of a leaf
 */
struct topology {
	unsigned int nr_queues;
	unsigned int nr_nodes;
	struct topology_node *node;
	u16 *children;
	u16 *leaf_of;
	u16 *queue_of;
};

/**
 * topology_init() - build the tree
 * @t:		topology
 * @place:	of each queue
 * @nr_queues:	1 to TOPOLOGY_QUEUES_MAX
 * @gfp:	allocation flags
 *
 * Return: 0, -EINVAL or -ENOMEM; on error there is nothing to destroy.
 */
int topology_init(struct topology *t, const struct topology_place *place, unsigned int nr_queues,
		  gfp_t gfp);
void topology_destroy(struct topology *t);

/*
 * The first leaf or node of a set, from @from on and below @end; @end if there is none. Other CPUs
 * add and remove some meanwhile, by atomic operations. So what is found may be gone, and the caller
 * looks at it again.
 */
static inline unsigned int topology_next(const unsigned long *set, unsigned int end,
					 unsigned int from)
{
	/* The words are read plainly: a bit is there or not, and both are right. */
	return data_race(find_next_bit(set, end, from));
}

static inline unsigned int topology_root(const struct topology *t)
{
	return t->nr_nodes - 1;
}

/* True if @leaf is @node or below it. */
static inline bool topology_covers(const struct topology *t, unsigned int node, unsigned int leaf)
{
	return t->node[node].first_leaf <= leaf && leaf <= t->node[node].last_leaf;
}

/* The lowest node that covers both leaves. */
static inline unsigned int topology_lca(const struct topology *t, unsigned int a, unsigned int b)
{
	unsigned int node = a;

	while (!topology_covers(t, node, b))
		node = t->node[node].parent;
	return node;
}

/* "core 0-3" for each inner node, a line each, leaves as queue numbers. */
void topology_show(const struct topology *t, struct seq_file *m);

#endif /* MQFAIR_TOPOLOGY_H */
