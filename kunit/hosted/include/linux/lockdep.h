/* SPDX-License-Identifier: GPL-2.0 */
/* linux/lockdep.h - does this thread hold the lock?, for the user-space build of pure code */
#ifndef HOSTED_LINUX_LOCKDEP_H
#define HOSTED_LINUX_LOCKDEP_H

#include <stdio.h>
#include <stdlib.h>

#include <linux/spinlock.h>

#define lockdep_is_held(l)	spin_is_mine(l)
#define lockdep_assert(condition)						\
do {										\
	if (!(condition)) {							\
		fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);	\
		abort();							\
	}									\
} while (0)
#define lockdep_assert_held(l)	lockdep_assert(lockdep_is_held(l))

#endif
