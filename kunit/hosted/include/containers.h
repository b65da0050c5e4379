/* SPDX-License-Identifier: GPL-2.0 */
/*
 * containers.h - lists, ordered trees and RCU with the kernel's interface, for the user-space build
 *
 * The Makefile generates the headers that are named below: each is a line that includes this file.
 */
#ifndef HOSTED_CONTAINERS_H
#define HOSTED_CONTAINERS_H

#include <hosted.h>

/* ---- linux/list ---- */

/*
 * The kernel's interface, as far as it is used here; written for this build. A deleted entry is
 * poisoned, so that the sanitizers see a use of it.
 */

#ifndef container_of
#define container_of(ptr, type, member)	((type *)((char *)(ptr) - offsetof(type, member)))
#endif

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline void hosted_list_join(struct list_head *prev, struct list_head *next)
{
	prev->next = next;
	next->prev = prev;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	struct list_head *next = head->next;

	hosted_list_join(head, entry);
	hosted_list_join(entry, next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}

static inline void list_del(struct list_head *entry)
{
	hosted_list_join(entry->prev, entry->next);
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_del_init(struct list_head *entry)
{
	hosted_list_join(entry->prev, entry->next);
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	hosted_list_join(entry->prev, entry->next);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	hosted_list_join(entry->prev, entry->next);
	list_add_tail(entry, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	hosted_list_join(head->prev, list->next);
	hosted_list_join(list->prev, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(ptr, type, member)		container_of(ptr, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)	list_entry((head)->prev, type, member)
#define list_next_entry(pos, member) \
	list_entry((pos)->member.next, typeof(*(pos)), member)
#define list_prev_entry(pos, member) \
	list_entry((pos)->member.prev, typeof(*(pos)), member)
#define list_entry_is_head(pos, head, member)	(&(pos)->member == (head))

#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))

#define list_for_each(pos, head) \
	for (pos = (head)->next; pos != (head); pos = pos->next)

#define list_for_each_entry(pos, head, member) \
	for (pos = list_first_entry(head, typeof(*pos), member);			\
	     !list_entry_is_head(pos, head, member);			\
	     pos = list_next_entry(pos, member))

#define list_for_each_entry_reverse(pos, head, member) \
	for (pos = list_last_entry(head, typeof(*pos), member);			\
	     !list_entry_is_head(pos, head, member);			\
	     pos = list_prev_entry(pos, member))

#define list_for_each_entry_safe(pos, n, head, member) \
	for (pos = list_first_entry(head, typeof(*pos), member), n = list_next_entry(pos, member); \
	     !list_entry_is_head(pos, head, member); pos = n, n = list_next_entry(n, member))

/* Lists with one pointer for a head, for hash tables. A reader may walk one while it changes. */

#define HLIST_HEAD_INIT		{ NULL }
#define INIT_HLIST_HEAD(head)	((head)->first = NULL)

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

static inline bool hlist_empty(const struct hlist_head *head)
{
	return !READ_ONCE(head->first);
}

static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

/* The release store shows a reader the whole entry; pairs with hosted_follow(). */
static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	struct hlist_node *first = head->first;

	node->next = first;
	node->pprev = &head->first;
	if (first)
		first->pprev = &node->next;
	__atomic_store_n(&head->first, node, __ATOMIC_RELEASE);
}

/* A reader that stands on the entry goes on from there. */
static inline void hosted_hlist_unlink(struct hlist_node *node)
{
	struct hlist_node *next = node->next;

	__atomic_store_n(node->pprev, next, __ATOMIC_RELEASE);
	if (next)
		next->pprev = node->pprev;
}

static inline void hlist_del(struct hlist_node *node)
{
	hosted_hlist_unlink(node);
	INIT_HLIST_NODE(node);
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (!hlist_unhashed(node))
		hlist_del(node);
}

#define hlist_entry(ptr, type, member)	container_of(ptr, type, member)
#define hlist_entry_safe(ptr, type, member)				\
({									\
	__typeof__(ptr) hosted_node = (ptr);				\
									\
	hosted_node ? hlist_entry(hosted_node, type, member) : NULL;	\
})

#define hlist_for_each_entry(pos, head, member)						\
	for (pos = hlist_entry_safe((head)->first, typeof(*pos), member); pos;		\
	     pos = hlist_entry_safe(pos->member.next, typeof(*pos), member))

#define hlist_for_each_entry_safe(pos, n, head, member)					\
	for (pos = hlist_entry_safe((head)->first, typeof(*pos), member);		\
	     pos && (n = pos->member.next, true); pos = hlist_entry_safe(n, typeof(*pos), member))

/* ---- linux/rbtree: ordered trees ---- */

/*
 * Inside it is a treap, not a red-black tree: a node's rank is a hash of its address, parents rank
 * above their children, and that keeps the tree flat. Two rotations are all that is needed.
 */

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

/* ---- linux/rcupdate ---- */

/*
 * There is no grace period. In a program of one thread an object is freed at once, so that the
 * sanitizer sees a later use. A program of several threads sets hosted_rcu_defer; objects then pile
 * up until rcu_barrier() is called, at a time when no reader runs.
 */

hosted_shared bool hosted_rcu_defer;
hosted_shared struct rcu_head *hosted_rcu_pile;

static inline void rcu_read_lock(void)
{
}

static inline void rcu_read_unlock(void)
{
}

#define rcu_dereference(p)		__atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define rcu_assign_pointer(p, v)	__atomic_store_n(&(p), v, __ATOMIC_RELEASE)

static inline void hosted_rcu_free(struct rcu_head *head, void *object)
{
	if (!hosted_rcu_defer) {
		free(object);
		return;
	}
	head->object = object;
	head->next = __atomic_load_n(&hosted_rcu_pile, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&hosted_rcu_pile, &head->next, head, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

#define kfree_rcu(p, member)	hosted_rcu_free(&(p)->member, p)

static inline void rcu_barrier(void)
{
	struct rcu_head *head = __atomic_exchange_n(&hosted_rcu_pile, NULL, __ATOMIC_ACQUIRE),
			*next;

	for (; head; head = next) {
		next = head->next;
		free(head->object);
	}
}

#define synchronize_rcu()	rcu_barrier()

/* ---- linux/rculist: lists that are read while they change ---- */

#define hlist_add_head_rcu(node, head)	hlist_add_head(node, head)
#define hlist_del_rcu(node)		hosted_hlist_unlink(node)

/* Pairs with the release store of hlist_add_head(). */
#define hosted_follow(p)	__atomic_load_n(&(p), __ATOMIC_ACQUIRE)

#define hlist_for_each_entry_rcu(pos, head, member, ...)					\
	for (pos = hlist_entry_safe(hosted_follow((head)->first), typeof(*pos), member); pos;	\
	     pos = hlist_entry_safe(hosted_follow(pos->member.next), typeof(*pos), member))

#endif
