/* SPDX-License-Identifier: GPL-2.0 */
/* linux/rculist.h - lists that are read while they change, for the user-space build of pure code */
#ifndef HOSTED_LINUX_RCULIST_H
#define HOSTED_LINUX_RCULIST_H

#include <linux/list.h>
#include <linux/rcupdate.h>

#define hlist_add_head_rcu(node, head)	hlist_add_head(node, head)
#define hlist_del_rcu(node)		hosted_hlist_unlink(node)

/* Pairs with the release store of hlist_add_head(). */
#define hosted_follow(p)	__atomic_load_n(&(p), __ATOMIC_ACQUIRE)

#define hlist_for_each_entry_rcu(pos, head, member, ...)					\
	for (pos = hlist_entry_safe(hosted_follow((head)->first), typeof(*pos), member); pos;	\
	     pos = hlist_entry_safe(hosted_follow(pos->member.next), typeof(*pos), member))

#endif
