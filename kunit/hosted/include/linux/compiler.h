/* SPDX-License-Identifier: GPL-2.0 */
/* linux/compiler.h - marked accesses and barriers, for the user-space build of pure code */
#ifndef HOSTED_LINUX_COMPILER_H
#define HOSTED_LINUX_COMPILER_H

/* The type of @x when it is read: without const, also where @x is a structure. */
#define hosted_unqualified(x)	__typeof__(({ __auto_type hosted_v = (x); hosted_v; }))

#define READ_ONCE(x)						\
({								\
	hosted_unqualified(x) hosted_value;			\
								\
	__atomic_load(&(x), &hosted_value, __ATOMIC_RELAXED);	\
	hosted_value;						\
})

/* A variable of a header that all source files of a program share. */
#define hosted_shared	__attribute__((weak))

/*
 * A program with threads may lose the processor before every marked write and atomic operation, and
 * at barriers.
 */
hosted_shared void (*hosted_at_barrier)(void);

static inline void hosted_pause(void)
{
	if (hosted_at_barrier)
		hosted_at_barrier();
}

#define WRITE_ONCE(x, value)						\
do {									\
	__typeof__(x) hosted_written = (value);				\
									\
	hosted_pause();							\
	__atomic_store(&(x), &hosted_written, __ATOMIC_RELAXED);	\
} while (0)

static inline void smp_mb(void)
{
	hosted_pause();
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)
#define smp_mb__before_atomic()	smp_mb()
#define smp_mb__after_atomic()	smp_mb()
#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define barrier()		__atomic_signal_fence(__ATOMIC_SEQ_CST)

#ifndef static_assert
#define static_assert(condition, ...)	_Static_assert(condition, "" __VA_ARGS__)
#endif

#ifndef likely
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#endif

#ifndef __maybe_unused
#define __maybe_unused	__attribute__((unused))
#endif
#ifndef noinline
#define noinline	__attribute__((noinline))
#endif
#define __printf(text, first)	__attribute__((format(printf, text, first)))
#define __must_check	__attribute__((warn_unused_result))
#ifndef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#endif

#endif
