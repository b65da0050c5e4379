/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/rcupdate.h - for the user-space build of pure code
 *
 * There is no grace period. In a program of one thread an object is freed at once, so that the
 * sanitizer sees a later use. A program of several threads sets hosted_rcu_defer; objects then pile
 * up until rcu_barrier() is called, at a time when no reader runs.
 */
#ifndef HOSTED_LINUX_RCUPDATE_H
#define HOSTED_LINUX_RCUPDATE_H

#include <stdlib.h>

#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/types.h>

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
