// SPDX-License-Identifier: GPL-2.0
/*
 * mindicator.c - the virtual time of a device; the manual is in mindicator.h
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/lockdep.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mindicator.h"

int mindicator_init(struct mindicator *m, const struct topology *topology, u64 vt, gfp_t gfp)
{
	unsigned int i;

	*m = (struct mindicator) { .topology = topology, .vt = vt };
	m->node = kvcalloc(topology->nr_nodes, sizeof(*m->node), gfp);
	if (!m->node)
		return -ENOMEM;
	m->root = &m->node[topology_root(topology)];
	for (i = 0; i < topology->nr_nodes; i++) {
		m->node[i].value = VT_NONE;
		spin_lock_init(&m->node[i].lock);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(mindicator_init);

void mindicator_destroy(struct mindicator *m)
{
	kvfree(m->node);
}
EXPORT_SYMBOL_GPL(mindicator_destroy);

/* The least of the children's values; @whose is the child that has it. */
static u64 mindicator_min(const struct mindicator *m, unsigned int number,
			  const struct mindicator_node **whose)
{
	const struct topology_node *place = &m->topology->node[number];
	const u16 *child = &m->topology->children[place->first_child];
	u64 min = VT_NONE;
	unsigned int i;

	*whose = &m->node[child[0]];
	for (i = 0; i < place->nr_children; i++) {
		const struct mindicator_node *node = &m->node[child[i]];
		u64 earlier = vt_min(min, READ_ONCE(node->value));

		if (earlier != min) {
			min = earlier;
			*whose = node;
		}
	}
	return min;
}

/*
 * Makes the value of node @number true; returns whether it has been stored to. An owner that
 * raises its leaf without being the minimum does not come here; it may do so between our look at
 * its leaf and our store, which would leave the node behind for ever:
 *
 *	1. us: R leaf x (150)
 *	2. x: W leaf (250)
 *	3. x: R node (100, not x's): nothing to do for x
 *	4. us: W node (150)
 *
 * So look again after the store, at the leaf that had the minimum: a raise of another one changes
 * nothing, and a CPU that lowers a leaf comes here in any case. The second look may lead back to
 * where we began, if a leaf was lowered meanwhile. Even then the parent has to be refreshed, for it
 * may have been made from our store in between; the owner of that leaf gets the lock after us and
 * sees no change.
 */
static bool mindicator_refresh(struct mindicator *m, unsigned int number)
{
	struct mindicator_node *node = &m->node[number];
	const struct mindicator_node *whose;
	u64 min = mindicator_min(m, number, &whose);

	lockdep_assert_held(&node->lock);

	if (min == node->value)
		return false;
	for (;;) {
		WRITE_ONCE(node->value, min);
		/*
		 * Node before leaf. Pairs with smp_mb() in mindicator_is_behind(): either the owner
		 * of a leaf sees the node's new value, or we see the leaf's.
		 */
		smp_mb();
		if (READ_ONCE(whose->value) == min)
			return true;
		min = mindicator_min(m, number, &whose);
	}
}

/* The leaf was raised from @old. True if that changes no minimum: another leaf is earlier. */
static bool mindicator_is_behind(const struct mindicator *m, unsigned int parent, u64 old)
{
	u64 min;

	/* Leaf before node. Pairs with smp_mb() in mindicator_refresh(). */
	smp_mb();
	min = READ_ONCE(m->node[parent].value);
	return min != VT_NONE && vt_after(old, min);
}

static bool mindicator_advance(struct mindicator *m, u64 *old_vt)
{
	u64 min = m->root->value;

	lockdep_assert_held(&m->root->lock);

	if (min == VT_NONE || !vt_after(min, m->vt))
		return false;
	*old_vt = m->vt;
	WRITE_ONCE(m->vt, min);
	return true;
}

/*
 * Takes the locks on the way up, and lets go of all when the top of the climb is reached. The
 * nodes are all of one lock class; their order is the tree's.
 */
static bool mindicator_climb(struct mindicator *m, unsigned int number, u64 *old_vt)
{
	const struct topology_node *place = m->topology->node;
	unsigned int root = topology_root(m->topology), top = number, depth = 0;
	bool advanced = false;

	for (;;) {
		spin_lock_nested(&m->node[top].lock, depth++);
		if (!mindicator_refresh(m, top))
			break;
		if (top == root) {
			advanced = mindicator_advance(m, old_vt);
			break;
		}
		top = place[top].parent;
	}
	while (number != top) {
		unsigned int parent = place[number].parent;

		spin_unlock(&m->node[number].lock);
		number = parent;
	}
	spin_unlock(&m->node[top].lock);
	return advanced;
}

bool mindicator_set(struct mindicator *m, unsigned int leaf, u64 value, u64 *old_vt)
{
	unsigned int parent = m->topology->node[leaf].parent;
	u64 old = m->node[leaf].value;
	bool advanced;

	if (value == old)
		return false;
	WRITE_ONCE(m->node[leaf].value, value);
	if (old != VT_NONE && (value == VT_NONE || vt_after(value, old)) &&
	    mindicator_is_behind(m, parent, old))
		return false;

	advanced = mindicator_climb(m, parent, old_vt);
	if (advanced) {
		/* See "Ordering" at mindicator_set(): pairs with the waiter's barrier. */
		smp_mb();
	}
	return advanced;
}
EXPORT_SYMBOL_GPL(mindicator_set);

void mindicator_skip(struct mindicator *m, u64 vt)
{
	struct mindicator_node *root = m->root;

	spin_lock(&root->lock);
	if (root->value == VT_NONE && vt_after(vt, m->vt))
		WRITE_ONCE(m->vt, vt);
	spin_unlock(&root->lock);
}
EXPORT_SYMBOL_GPL(mindicator_skip);

void mindicator_show(const struct mindicator *m, struct seq_file *s)
{
	u64 vt = mindicator_vt(m);
	unsigned int i;

	seq_printf(s, "vt %llu\n", (unsigned long long)vt);
	for (i = 0; i < m->topology->nr_nodes; i++) {
		const struct topology_node *place = &m->topology->node[i];
		u64 value = READ_ONCE(m->node[i].value);

		if (value == VT_NONE)
			seq_printf(s, "%u %u-%u none\n", place->level, place->first_leaf,
				   place->last_leaf);
		else
			seq_printf(s, "%u %u-%u %+lld\n", place->level, place->first_leaf,
				   place->last_leaf, (long long)(value - vt));
	}
}
EXPORT_SYMBOL_GPL(mindicator_show);
