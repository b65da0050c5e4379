// SPDX-License-Identifier: GPL-2.0
/*
 * token_tree.c - the slots of a device, kept near to the queues; the manual is in token_tree.h
 */
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/export.h>
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
	if (!t->node)
		return -ENOMEM;
	token_tree_set_slots(t, slots);
	atomic_set(&t->node[topology_root(topology)].nr_free, slots);
	return 0;
}
EXPORT_SYMBOL_GPL(token_tree_init);

void token_tree_destroy(struct token_tree *t)
{
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
			atomic_add(n - 1, &t->node[leaf].nr_free);
		if (n)
			return true;
	}
	return false;
}
EXPORT_SYMBOL_GPL(token_tree_fetch);

/* From the leaves below @number, but for those below @but, which have been looked at. */
static bool token_tree_steal_below(struct token_tree *t, unsigned int number, unsigned int but)
{
	const struct topology_node *place = t->topology->node;
	unsigned int i;

	for (i = place[number].first_leaf; i <= place[number].last_leaf; i++) {
		if (i == place[but].first_leaf)
			i = place[but].last_leaf;
		else if (token_node_take(&t->node[i], 1))
			return true;
	}
	return false;
}

bool token_tree_steal(struct token_tree *t, unsigned int leaf)
{
	const struct topology_node *place = t->topology->node;
	unsigned int root = topology_root(t->topology), number, i;

	if (token_node_take(&t->node[leaf], 1))
		return true;
	for (number = leaf; number != root; number = place[number].parent)
		if (token_tree_steal_below(t, place[number].parent, number))
			return true;
	for (i = t->topology->nr_queues; i <= root; i++)
		if (token_node_take(&t->node[i], 1))
			return true;
	return false;
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

unsigned int token_tree_put(struct token_tree *t, unsigned int leaf, unsigned int target)
{
	unsigned int number;

	if (READ_ONCE(t->in_debt))
		return token_tree_pay(t);
	number = topology_lca(t->topology, leaf, target);
	atomic_inc(&t->node[number].nr_free);
	return number;
}
EXPORT_SYMBOL_GPL(token_tree_put);

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
	atomic_inc(&t->node[number].nr_free);
	return number;
}
EXPORT_SYMBOL_GPL(token_tree_rest_above);

void token_tree_move(struct token_tree *t, unsigned int from, unsigned int target)
{
	const struct topology_node *place = t->topology->node;
	unsigned int number = from;

	if (topology_covers(t->topology, from, target) || !token_node_take(&t->node[from], 1))
		return;
	while (!topology_covers(t->topology, number, target))
		number = place[number].parent;
	atomic_inc(&t->node[number].nr_free);
}
EXPORT_SYMBOL_GPL(token_tree_move);

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
