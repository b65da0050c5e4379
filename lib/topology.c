// SPDX-License-Identifier: GPL-2.0
/*
 * topology.c - the tree that a machine's hardware queues form; the manual is in topology.h
 *
 * Built from the leaves upwards. At each level the nodes that have been made so far, in order,
 * are the row; neighbours in the row that share the level's thing become one node of the next
 * row.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include "topology.h"

const char *const topology_level_name[TOPOLOGY_NR_LEVELS] = {
	[TOPOLOGY_SELF]		= "self",
	[TOPOLOGY_CORE]		= "core",
	[TOPOLOGY_CACHE]	= "cache",
	[TOPOLOGY_SOCKET]	= "socket",
	[TOPOLOGY_MACHINE]	= "machine",
};
EXPORT_SYMBOL_GPL(topology_level_name);

struct topology_builder {
	struct topology *t;
	const struct topology_place *place;
	unsigned int nr_children_used;
};

/* What sort() sorts: it hands no context down, so each element brings its place along. */
struct topology_seat {
	struct topology_place place;
	u32 queue;
};

static int topology_seat_cmp(const void *va, const void *vb)
{
	const struct topology_seat *a = va, *b = vb;
	int level;

	for (level = TOPOLOGY_SOCKET; level >= TOPOLOGY_CORE; level--)
		if (a->place.id[level] != b->place.id[level])
			return a->place.id[level] < b->place.id[level] ? -1 : 1;
	return a->queue < b->queue ? -1 : a->queue > b->queue;
}

/* Fills leaf_of and queue_of. */
static int topology_sort_leaves(struct topology *t, const struct topology_place *place, gfp_t gfp)
{
	struct topology_seat *seat = kvmalloc_array(t->nr_queues, sizeof(*seat), gfp);
	unsigned int i;

	if (!seat)
		return -ENOMEM;
	for (i = 0; i < t->nr_queues; i++)
		seat[i] = (struct topology_seat) { .place = place[i], .queue = i };
	sort(seat, t->nr_queues, sizeof(*seat), topology_seat_cmp, NULL);
	for (i = 0; i < t->nr_queues; i++) {
		t->queue_of[i] = seat[i].queue;
		t->leaf_of[seat[i].queue] = i;
	}
	kvfree(seat);
	return 0;
}

/* Two nodes of a row have the same thing at @level, and the same things above it. */
static bool topology_is_together(const struct topology_builder *b, unsigned int x, unsigned int y,
				 unsigned int level)
{
	const struct topology *t = b->t;
	const struct topology_place *px = &b->place[t->queue_of[t->node[x].first_leaf]];
	const struct topology_place *py = &b->place[t->queue_of[t->node[y].first_leaf]];

	for (; level < TOPOLOGY_MACHINE; level++)
		if (px->id[level] != py->id[level])
			return false;
	return true;
}

static unsigned int topology_join(struct topology_builder *b, const u16 *row, unsigned int n,
				  unsigned int level)
{
	struct topology *t = b->t;
	unsigned int number = t->nr_nodes++, i;

	t->node[number] = (struct topology_node) {
		.parent		= number,
		.first_leaf	= t->node[row[0]].first_leaf,
		.last_leaf	= t->node[row[n - 1]].last_leaf,
		.first_child	= b->nr_children_used,
		.nr_children	= n,
		.level		= level,
	};
	for (i = 0; i < n; i++) {
		t->node[row[i]].parent = number;
		t->children[b->nr_children_used++] = row[i];
	}
	return number;
}

/* Joins @n neighbours of a row into one node, by way of smaller ones where they are too many. */
static unsigned int topology_join_all(struct topology_builder *b, u16 *row, unsigned int n,
				      unsigned int level)
{
	while (n > TOPOLOGY_FANOUT_MAX) {
		unsigned int from, made = 0;

		for (from = 0; from < n; from += TOPOLOGY_FANOUT_MAX) {
			unsigned int part = min_t(unsigned int, n - from, TOPOLOGY_FANOUT_MAX);

			row[made++] = part == 1 ? row[from] :
						  topology_join(b, &row[from], part, level);
		}
		n = made;
	}
	return topology_join(b, row, n, level);
}

/* Makes the next row in place; returns its length. */
static unsigned int topology_climb(struct topology_builder *b, u16 *row, unsigned int n,
				   unsigned int level)
{
	unsigned int from, to, made = 0;

	for (from = 0; from < n; from = to) {
		for (to = from + 1; to < n && topology_is_together(b, row[from], row[to], level); )
			to++;
		row[made++] = to - from == 1 ? row[from] :
			      topology_join_all(b, &row[from], to - from, level);
	}
	return made;
}

static int topology_alloc(struct topology *t, unsigned int nr_queues, gfp_t gfp)
{
	/* An inner node has two children or more, but for a root with one. */
	unsigned int nr_nodes = 2 * nr_queues + 1;

	*t = (struct topology) { .nr_queues = nr_queues };
	t->node = kvcalloc(nr_nodes, sizeof(*t->node), gfp);
	t->children = kvcalloc(nr_nodes, sizeof(*t->children), gfp);
	t->leaf_of = kvcalloc(nr_queues, sizeof(*t->leaf_of), gfp);
	t->queue_of = kvcalloc(nr_queues, sizeof(*t->queue_of), gfp);
	if (t->node && t->children && t->leaf_of && t->queue_of)
		return 0;
	topology_destroy(t);
	return -ENOMEM;
}

int topology_init(struct topology *t, const struct topology_place *place, unsigned int nr_queues,
		  gfp_t gfp)
{
	struct topology_builder b = { .t = t, .place = place };
	unsigned int i, n, level;
	u16 *row;
	int ret;

	if (!nr_queues || nr_queues > TOPOLOGY_QUEUES_MAX)
		return -EINVAL;
	ret = topology_alloc(t, nr_queues, gfp);
	if (ret)
		return ret;
	row = kvmalloc_array(nr_queues, sizeof(*row), gfp);
	ret = row ? topology_sort_leaves(t, place, gfp) : -ENOMEM;
	if (ret) {
		kvfree(row);
		topology_destroy(t);
		return ret;
	}

	for (i = 0; i < nr_queues; i++) {
		t->node[i] = (struct topology_node) {
			.parent = i, .first_leaf = i, .last_leaf = i,
		};
		row[i] = i;
	}
	t->nr_nodes = nr_queues;
	for (n = nr_queues, level = TOPOLOGY_CORE; n > 1; level++)
		n = topology_climb(&b, row, n, level);
	/* A root that is a leaf would be a case of its own everywhere. */
	if (nr_queues == 1)
		topology_join(&b, row, 1, TOPOLOGY_MACHINE);
	kvfree(row);
	return 0;
}
EXPORT_SYMBOL_GPL(topology_init);

void topology_destroy(struct topology *t)
{
	kvfree(t->queue_of);
	kvfree(t->leaf_of);
	kvfree(t->children);
	kvfree(t->node);
}
EXPORT_SYMBOL_GPL(topology_destroy);

void topology_show(const struct topology *t, struct seq_file *m)
{
	unsigned int i, leaf;

	for (i = t->nr_queues; i < t->nr_nodes; i++) {
		const struct topology_node *node = &t->node[i];

		seq_printf(m, "%s", topology_level_name[node->level]);
		for (leaf = node->first_leaf; leaf <= node->last_leaf; leaf++)
			seq_printf(m, " %u", t->queue_of[leaf]);
		seq_putc(m, '\n');
	}
}
EXPORT_SYMBOL_GPL(topology_show);
