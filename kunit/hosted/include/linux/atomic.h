/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/atomic.h - atomic counters with the kernel's ordering, for the user-space build of pure
 * code
 *
 * What returns a value is fully ordered, if it succeeds; what returns nothing, and plain reads and
 * stores, are relaxed.
 */
#ifndef HOSTED_LINUX_ATOMIC_H
#define HOSTED_LINUX_ATOMIC_H

#include <linux/compiler.h>
#include <linux/types.h>

/* A fully ordered operation is a barrier before and after. */
#define hosted_ordered(operation)				\
({								\
	__typeof__(operation) hosted_result;			\
								\
	hosted_pause();						\
	hosted_result = (operation);				\
	hosted_pause();						\
	hosted_result;						\
})

#define xchg(p, v)	hosted_ordered(__atomic_exchange_n(p, v, __ATOMIC_SEQ_CST))
#define try_cmpxchg(p, old, new) \
	hosted_ordered(__atomic_compare_exchange_n(p, old, new, false, __ATOMIC_SEQ_CST, \
						   __ATOMIC_RELAXED))
#define cmpxchg(p, old, new)						\
({									\
	hosted_unqualified(*(p)) hosted_old = (old);			\
									\
	(void)try_cmpxchg(p, &hosted_old, new);				\
	hosted_old;							\
})

#define hosted_read(v)		__atomic_load_n(&(v)->counter, __ATOMIC_RELAXED)
#define hosted_set(v, i) \
	((void)(hosted_pause(), __atomic_store_n(&(v)->counter, (i), __ATOMIC_RELAXED)))
#define hosted_add(v, i) \
	((void)(hosted_pause(), __atomic_add_fetch(&(v)->counter, (i), __ATOMIC_RELAXED)))
#define hosted_add_return(v, i) \
	hosted_ordered(__atomic_add_fetch(&(v)->counter, (i), __ATOMIC_SEQ_CST))
#define hosted_fetch_add(v, i) \
	hosted_ordered(__atomic_fetch_add(&(v)->counter, (i), __ATOMIC_SEQ_CST))

#define atomic_read(v)			hosted_read(v)
#define atomic_set(v, i)		hosted_set(v, i)
#define atomic_add(i, v)		hosted_add(v, i)
#define atomic_sub(i, v)		hosted_add(v, -(i))
#define atomic_inc(v)			hosted_add(v, 1)
#define atomic_dec(v)			hosted_add(v, -1)
#define atomic_add_return(i, v)		hosted_add_return(v, i)
#define atomic_sub_return(i, v)		hosted_add_return(v, -(i))
#define atomic_inc_return(v)		hosted_add_return(v, 1)
#define atomic_dec_return(v)		hosted_add_return(v, -1)
#define atomic_dec_and_test(v)		(hosted_add_return(v, -1) == 0)
#define atomic_fetch_add(i, v)		hosted_fetch_add(v, i)
#define atomic_fetch_inc(v)		hosted_fetch_add(v, 1)
#define atomic_xchg(v, i)		xchg(&(v)->counter, i)
#define atomic_cmpxchg(v, old, new)	cmpxchg(&(v)->counter, old, new)
#define atomic_try_cmpxchg(v, old, new)	try_cmpxchg(&(v)->counter, old, new)

#define atomic64_read(v)		hosted_read(v)
#define atomic64_set(v, i)		hosted_set(v, i)
#define atomic64_add(i, v)		hosted_add(v, (s64)(i))
#define atomic64_sub(i, v)		hosted_add(v, -(s64)(i))
#define atomic64_inc(v)			hosted_add(v, 1)
#define atomic64_dec(v)			hosted_add(v, -1)
#define atomic64_add_return(i, v)	hosted_add_return(v, (s64)(i))
#define atomic64_inc_return(v)		hosted_add_return(v, 1)
#define atomic64_xchg(v, i)		xchg(&(v)->counter, i)
#define atomic64_cmpxchg(v, old, new)	cmpxchg(&(v)->counter, old, new)
#define atomic64_try_cmpxchg(v, old, new) try_cmpxchg(&(v)->counter, old, new)

static inline bool atomic_inc_unless_negative(atomic_t *v)
{
	int old = atomic_read(v);

	do {
		if (old < 0)
			return false;
	} while (!atomic_try_cmpxchg(v, &old, old + 1));
	return true;
}

static inline bool atomic_inc_not_zero(atomic_t *v)
{
	int old = atomic_read(v);

	do {
		if (!old)
			return false;
	} while (!atomic_try_cmpxchg(v, &old, old + 1));
	return true;
}

#endif
