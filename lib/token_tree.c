// SPDX-License-Identifier: GPL-2.0
/*
 * token_tree.c - the slots of a device, kept near to the queues; the manual is in token_tree.h
 */
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "token_tree.h"

static void token_tree_set_slots(struct token_tree *t, int slots)
{
	WRITE_ONCE(t->slots, slots);
	WRITE_ONCE(t->quota, max(1, slots / (int)t->topology->nr_queues));
}

int token_tree_init(struct token_tree *t, const struct topology *topology, int slots, gfp_t gfp)
{
	*t = (struct token_tree) { .topology = topology };
	t->node = kvcalloc(topology->nr_nodes, sizeof(*t->node), gfp);
	t->holds = kvzalloc(roundup(BITS_TO_LONGS(topology->nr_nodes) * sizeof(long),
				    SMP_CACHE_BYTES), gfp);
	if (!t->node || !t->holds) {
		token_tree_destroy(t);
		return -ENOMEM;
	}
	token_tree_set_slots(t, slots);
	atomic_set(&t->node[topology_root(topology)].nr_free, slots);
	set_bit(topology_root(topology), t->holds);
	return 0;
}
EXPORT_SYMBOL_GPL(token_tree_init);

void token_tree_destroy(struct token_tree *t)
{
	kvfree(t->holds);
	kvfree(t->node);
}
EXPORT_SYMBOL_GPL(token_tree_destroy);

bool token_tree_fetch(struct token_tree *t, unsigned int leaf, int want)
{
	const struct topology_node *place = t->topology->node;
	unsigned int root = topology_root(t->topology), number;
	int n;

	for (number = leaf; number != root; ) {
		number = place[number].parent;
		n = token_node_take(&t->node[number], want);
		if (n > 1)
			token_tree_put(t, leaf, n - 1);
		if (n)
			return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(token_tree_fetch);

/* A token from this node, whose bit is set. If there is none, the bit is cleared. */
static bool token_tree_look(struct token_tree *t, unsigned int number, bool *more)
{
	struct token_node *node = &t->node[number];

	if (token_node_take(node, 1))
		return true;
	if (number == topology_root(t->topology))
		return false;
	clear_bit(number, t->holds);
	/* Bit before token. Pairs with the barrier in token_tree_put(). */
	smp_mb__after_atomic();
	if (likely(atomic_read(&node->nr_free) <= 0))
		return false;
	set_bit(number, t->holds);
	*more = true;
	return token_node_take(node, 1);
}

/* From the nodes @first to @last, but for @but_first to @but_last, which have been looked at. */
static bool token_tree_look_at(struct token_tree *t, unsigned int first, unsigned int last,
			       unsigned int but_first, unsigned int but_last, bool *more)
{
	unsigned int i;

	for (i = first; (i = topology_next(t->holds, last + 1, i)) <= last; i++) {
		if (i >= but_first && i <= but_last)
			i = but_last;
		else if (token_tree_look(t, i, more))
			return true;
	}
	return false;
}

bool token_tree_steal(struct token_tree *t, unsigned int leaf, bool *more)
{
	const struct topology_node *place = t->topology->node;
	unsigned int root = topology_root(t->topology), number;

	if (token_tree_look_at(t, leaf, leaf, root, root, more))
		return true;
	for (number = leaf; number != root; number = place[number].parent) {
		const struct topology_node *above = &place[place[number].parent];

		if (token_tree_look_at(t, above->first_leaf, above->last_leaf,
				       place[number].first_leaf, place[number].last_leaf, more))
			return true;
	}
	return token_tree_look_at(t, t->topology->nr_queues, root, leaf, leaf, more);
}
EXPORT_SYMBOL_GPL(token_tree_steal);

/*
 * A CPU that pays the last of a debt says so. Meanwhile there may be a new debt, which must not be
 * forgotten. If a debt is noted although it has been paid, the next CPU that pays finds out.
 */
static unsigned int token_tree_pay(struct token_tree *t)
{
	unsigned int root = topology_root(t->topology);

	if (atomic_inc_return(&t->node[root].nr_free) < 0)
		return root;
	WRITE_ONCE(t->in_debt, false);
	/*
	 * Note before root. Pairs with atomic_add_return() in token_tree_resize(): either we see
	 * its debt, or it notes the debt after this.
	 */
	smp_mb();
	if (atomic_read(&t->node[root].nr_free) < 0)
		WRITE_ONCE(t->in_debt, true);
	return root;
}

unsigned int token_tree_rest_above(struct token_tree *t, unsigned int leaf)
{
	const struct topology_node *place = t->topology->node;
	unsigned int root = topology_root(t->topology), number;
	int quota = READ_ONCE(t->quota);

	if (READ_ONCE(t->in_debt))
		return token_tree_pay(t);
	for (number = place[leaf].parent; number != root; number = place[number].parent) {
		int nr_leaves = place[number].last_leaf - place[number].first_leaf + 1;

		if (atomic_read(&t->node[number].nr_free) < quota * nr_leaves)
			break;
	}
	token_tree_put(t, number, 1);
	return number;
}
EXPORT_SYMBOL_GPL(token_tree_rest_above);

void token_tree_resize(struct token_tree *t, int slots)
{
	unsigned int root = topology_root(t->topology), i;
	int delta = slots - t->slots;

	token_tree_set_slots(t, slots);
	/* Root before note. Pairs with smp_mb() in token_tree_pay(). */
	if (atomic_add_return(delta, &t->node[root].nr_free) >= 0) {
		WRITE_ONCE(t->in_debt, false);
		return;
	}
	WRITE_ONCE(t->in_debt, true);
	/* What lies about pays at once. A token that slips through pays when it comes back. */
	for (i = 0; i < root && atomic_read(&t->node[root].nr_free) < 0; i++)
		while (atomic_read(&t->node[root].nr_free) < 0 && token_node_take(&t->node[i], 1))
			token_tree_pay(t);
}
EXPORT_SYMBOL_GPL(token_tree_resize);

void token_tree_lend(struct token_tree *t, int n)
{
	unsigned int root = topology_root(t->topology);

	atomic_add(n, &t->nr_lent);
	/*
	 * They pay a debt of the root, if there is one. The next CPU that pays finds that it was
	 * paid.
	 */
	atomic_add(n, &t->node[root].nr_free);
}
EXPORT_SYMBOL_GPL(token_tree_lend);

int token_tree_nr_free(const struct token_tree *t)
{
	unsigned int i;
	int sum = 0;

	for (i = 0; i < t->topology->nr_nodes; i++)
		sum += atomic_read(&t->node[i].nr_free);
	return sum;
}
EXPORT_SYMBOL_GPL(token_tree_nr_free);

void token_tree_show(const struct token_tree *t, struct seq_file *m)
{
	unsigned int i;

	seq_printf(m, "slots %d lent %d\n", READ_ONCE(t->slots), atomic_read(&t->nr_lent));
	for (i = 0; i < t->topology->nr_nodes; i++) {
		const struct topology_node *place = &t->topology->node[i];

		seq_printf(m, "%u %u-%u %d\n", place->level, place->first_leaf, place->last_leaf,
			   atomic_read(&t->node[i].nr_free));
	}
}
EXPORT_SYMBOL_GPL(token_tree_show);
