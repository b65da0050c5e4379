// SPDX-License-Identifier: GPL-2.0
/*
 * ready_set.c - the queues that wait for a slot; the manual is in ready_set.h
 */
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/math.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "ready_set.h"

int ready_set_init(struct ready_set *r, const struct topology *topology, gfp_t gfp)
{
	unsigned int nr_words = BITS_TO_LONGS(topology->nr_queues);

	r->topology = topology;
	/* One word more: a word has room for an atomic_t. */
	r->bits = kvzalloc(roundup((nr_words + 1) * sizeof(long), SMP_CACHE_BYTES), gfp);
	if (!r->bits)
		return -ENOMEM;
	r->nr = nr_words > 1 ? (atomic_t *)&r->bits[nr_words] : NULL;
	return 0;
}
EXPORT_SYMBOL_GPL(ready_set_init);

void ready_set_destroy(struct ready_set *r)
{
	kvfree(r->bits);
}
EXPORT_SYMBOL_GPL(ready_set_destroy);

/* The first bit from @from to @to, both inclusive, or READY_SET_NONE. */
static int ready_set_find(const struct ready_set *r, unsigned int from, unsigned int to)
{
	unsigned int found = topology_next(r->bits, to + 1, from);

	return found > to ? READY_SET_NONE : (int)found;
}

int ready_set_nearest(const struct ready_set *r, unsigned int leaf)
{
	const struct topology_node *place = r->topology->node;
	unsigned int root = topology_root(r->topology), number;
	int found;

	if (ready_set_is_empty(r))
		return READY_SET_NONE;
	if (test_bit(leaf, r->bits))
		return leaf;
	for (number = place[leaf].parent; ; number = place[number].parent) {
		found = ready_set_find(r, leaf, place[number].last_leaf);
		if (found == READY_SET_NONE)
			found = ready_set_find(r, place[number].first_leaf, leaf);
		if (found != READY_SET_NONE || number == root)
			return found;
	}
}
EXPORT_SYMBOL_GPL(ready_set_nearest);

int ready_set_next(const struct ready_set *r, unsigned int leaf)
{
	int found = READY_SET_NONE;

	if (leaf + 1 < r->topology->nr_queues)
		found = ready_set_find(r, leaf + 1, r->topology->nr_queues - 1);
	return found == READY_SET_NONE ? ready_set_find(r, 0, leaf) : found;
}
EXPORT_SYMBOL_GPL(ready_set_next);

void ready_set_show(const struct ready_set *r, struct seq_file *m)
{
	const char *before = "";
	unsigned int leaf, nr = r->topology->nr_queues;

	for (leaf = 0; (leaf = topology_next(r->bits, nr, leaf)) < nr; leaf++) {
		seq_printf(m, "%s%u", before, r->topology->queue_of[leaf]);
		before = " ";
	}
	seq_putc(m, '\n');
}
EXPORT_SYMBOL_GPL(ready_set_show);
