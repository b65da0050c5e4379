/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/rbtree.h - the interface of the kernel's ordered trees, for the user-space build of pure
 * code
 *
 * Inside it is a treap, not a red-black tree: a node's rank is a hash of its address, parents rank
 * above their children, and that keeps the tree flat. Two rotations are all that is needed.
 */
#ifndef HOSTED_LINUX_RBTREE_H
#define HOSTED_LINUX_RBTREE_H

#include <stdint.h>

#include <linux/list.h>
#include <linux/types.h>

struct rb_node {
	struct rb_node *rb_parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define RB_ROOT			((struct rb_root) { NULL })
#define RB_ROOT_CACHED		((struct rb_root_cached) { { NULL }, NULL })
#define RB_EMPTY_ROOT(root)	(!(root)->rb_node)
#define RB_EMPTY_NODE(node)	((node)->rb_parent == (node))
#define RB_CLEAR_NODE(node)	((node)->rb_parent = (node))

#define rb_entry(ptr, type, member)	container_of(ptr, type, member)
#define rb_entry_safe(ptr, type, member)				\
({									\
	__typeof__(ptr) hosted_node = (ptr);				\
									\
	hosted_node ? rb_entry(hosted_node, type, member) : NULL;	\
})

static inline uint64_t hosted_rb_rank(const struct rb_node *node)
{
	uint64_t x = (uintptr_t)node * 0x9e3779b97f4a7c15ULL;

	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL;
}

/* Puts @to where @from was, in the eyes of @from's parent. */
static inline void hosted_rb_replace(struct rb_root *root, struct rb_node *from, struct rb_node *to)
{
	struct rb_node *parent = from->rb_parent;

	if (!parent)
		root->rb_node = to;
	else if (parent->rb_left == from)
		parent->rb_left = to;
	else
		parent->rb_right = to;
	if (to)
		to->rb_parent = parent;
}

/* A child changes places with its parent; the order stays. */
static inline void hosted_rb_rotate(struct rb_root *root, struct rb_node *child)
{
	struct rb_node *parent = child->rb_parent, *between;

	hosted_rb_replace(root, parent, child);
	if (parent->rb_left == child) {
		between = child->rb_right;
		child->rb_right = parent;
		parent->rb_left = between;
	} else {
		between = child->rb_left;
		child->rb_left = parent;
		parent->rb_right = between;
	}
	if (between)
		between->rb_parent = parent;
	parent->rb_parent = child;
}

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	node->rb_parent = parent;
	node->rb_left = NULL;
	node->rb_right = NULL;
	*link = node;
}

static inline void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	while (node->rb_parent && hosted_rb_rank(node) > hosted_rb_rank(node->rb_parent))
		hosted_rb_rotate(root, node);
}

static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	while (node->rb_left && node->rb_right)
		if (hosted_rb_rank(node->rb_left) > hosted_rb_rank(node->rb_right))
			hosted_rb_rotate(root, node->rb_left);
		else
			hosted_rb_rotate(root, node->rb_right);
	hosted_rb_replace(root, node, node->rb_left ? node->rb_left : node->rb_right);
}

static inline struct rb_node *rb_first(const struct rb_root *root)
{
	struct rb_node *node = root->rb_node;

	while (node && node->rb_left)
		node = node->rb_left;
	return node;
}

static inline struct rb_node *rb_last(const struct rb_root *root)
{
	struct rb_node *node = root->rb_node;

	while (node && node->rb_right)
		node = node->rb_right;
	return node;
}

static inline struct rb_node *rb_next(const struct rb_node *node)
{
	const struct rb_node *from;

	if (node->rb_right)
		return rb_first(&(struct rb_root) { node->rb_right });
	do {
		from = node;
		node = node->rb_parent;
	} while (node && node->rb_right == from);
	return (struct rb_node *)node;
}

static inline struct rb_node *rb_prev(const struct rb_node *node)
{
	const struct rb_node *from;

	if (node->rb_left)
		return rb_last(&(struct rb_root) { node->rb_left });
	do {
		from = node;
		node = node->rb_parent;
	} while (node && node->rb_left == from);
	return (struct rb_node *)node;
}

#define rb_first_cached(root)	((root)->rb_leftmost)

static inline void rb_insert_color_cached(struct rb_node *node, struct rb_root_cached *root,
					  bool leftmost)
{
	if (leftmost)
		root->rb_leftmost = node;
	rb_insert_color(node, &root->rb_root);
}

static inline struct rb_node *rb_erase_cached(struct rb_node *node, struct rb_root_cached *root)
{
	struct rb_node *leftmost = NULL;

	if (root->rb_leftmost == node)
		leftmost = root->rb_leftmost = rb_next(node);
	rb_erase(node, &root->rb_root);
	return leftmost;
}

#endif
