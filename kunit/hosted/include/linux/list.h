/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/list.h - circular doubly linked lists, for the user-space build of pure code
 *
 * The kernel's interface, as far as it is used here; written for this build. A deleted entry is
 * poisoned, so that the sanitizers see a use of it.
 */
#ifndef HOSTED_LINUX_LIST_H
#define HOSTED_LINUX_LIST_H

#include <linux/compiler.h>
#include <linux/types.h>

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

#endif
