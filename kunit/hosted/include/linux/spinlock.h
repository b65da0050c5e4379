/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/spinlock.h - a lock of one word, for the user-space build of pure code
 *
 * Taken with acquire, let go with a release store, and no more: pthread's lock would hide a
 * missing barrier behind its own. The word is the holder, so that lockdep can ask for it.
 * Waiting gives the processor away, since there may be more threads than processors.
 */
#ifndef HOSTED_LINUX_SPINLOCK_H
#define HOSTED_LINUX_SPINLOCK_H

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/types.h>

typedef struct {
	const void *holder;
} spinlock_t;

#define DEFINE_SPINLOCK(name)	spinlock_t name

/* An address that is different in each thread. */
static inline const void *hosted_me(void)
{
	return __builtin_thread_pointer();
}

static inline void spin_lock_init(spinlock_t *lock)
{
	lock->holder = NULL;
}

static inline bool spin_trylock(spinlock_t *lock)
{
	const void *nobody = NULL;

	return __atomic_compare_exchange_n(&lock->holder, &nobody, hosted_me(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void spin_lock(spinlock_t *lock)
{
	while (!spin_trylock(lock))
		sched_yield();
}

static inline void spin_unlock(spinlock_t *lock)
{
	__atomic_store_n(&lock->holder, NULL, __ATOMIC_RELEASE);
}

static inline bool spin_is_locked(spinlock_t *lock)
{
	return __atomic_load_n(&lock->holder, __ATOMIC_RELAXED);
}

static inline bool spin_is_mine(const spinlock_t *lock)
{
	return __atomic_load_n(&lock->holder, __ATOMIC_RELAXED) == hosted_me();
}

#define spin_lock_nested(lock, subclass)	((void)(subclass), spin_lock(lock))
#define spin_lock_bh(lock)			spin_lock(lock)
#define spin_unlock_bh(lock)			spin_unlock(lock)
#define spin_lock_irq(lock)			spin_lock(lock)
#define spin_unlock_irq(lock)			spin_unlock(lock)
#define spin_lock_irqsave(lock, flags)		((void)((flags) = 0), spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags)	((void)(flags), spin_unlock(lock))

/* ---- linux/lockdep: does this thread hold the lock? ---- */

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
