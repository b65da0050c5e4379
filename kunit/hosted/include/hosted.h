/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hosted.h - what the code under test has of the kernel's headers, for the user-space build
 *
 * The Makefile generates the headers that are named below: each is a line that includes this file.
 * Lists, trees and RCU are in containers.h.
 */
#ifndef HOSTED_H
#define HOSTED_H

#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* ---- linux/types: the kernel's integer types ---- */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
/* long long as in the kernel, so that %llu fits it on every host. */
typedef unsigned long long u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef u64 sector_t;
typedef unsigned int gfp_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define U16_MAX	((u16)~0U)
#define U32_MAX	(~(u32)0)
#define U64_MAX	(~(u64)0)
#define S64_MAX	((s64)(U64_MAX >> 1))

struct list_head {
	struct list_head *next, *prev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

/* Of something that waits for a grace period: see containers.h. */
struct rcu_head {
	struct rcu_head *next;
	void *object;
};

/* ---- linux/compiler: marked accesses and barriers ---- */

/*
 * A program that is built with HOSTED_TOUCH is told the address of every marked read and of every
 * read of a counter.
 */
#ifdef HOSTED_TOUCH
void HOSTED_TOUCH(const volatile void *at);
#define hosted_touch(p)		HOSTED_TOUCH(p)
#else
#define hosted_touch(p)		((void)0)
#endif

/* The type of @x when it is read: without const, also where @x is a structure. */
#define hosted_unqualified(x)	__typeof__(({ __auto_type hosted_v = (x); hosted_v; }))

#define data_race(x)		(x)
#define READ_ONCE(x)						\
({								\
	hosted_unqualified(x) hosted_value;			\
								\
	hosted_touch(&(x));					\
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

/* ---- linux/bits ---- */

#define BITS_PER_LONG		(8 * (int)sizeof(long))
#define BITS_PER_LONG_LONG	64
#define BITS_PER_BYTE		8
#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))
#define GENMASK(h, l)		((~0UL << (l)) & (~0UL >> (BITS_PER_LONG - 1 - (h))))
#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)

/* ---- linux/bitops ---- */

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

static inline unsigned long __ffs64(u64 word)
{
	return __builtin_ctzll(word);
}

static inline int fls(unsigned int word)
{
	return word ? 32 - __builtin_clz(word) : 0;
}

static inline int fls64(u64 word)
{
	return word ? 64 - __builtin_clzll(word) : 0;
}

static inline unsigned int hweight32(u32 word)
{
	return __builtin_popcount(word);
}

static inline unsigned int hweight_long(unsigned long word)
{
	return __builtin_popcountl(word);
}

static inline unsigned int hweight64(u64 word)
{
	return __builtin_popcountll(word);
}

static inline void __set_bit(unsigned int nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] |= BIT(nr % BITS_PER_LONG);
}

static inline void __clear_bit(unsigned int nr, unsigned long *map)
{
	map[nr / BITS_PER_LONG] &= ~BIT(nr % BITS_PER_LONG);
}

static inline bool test_bit(unsigned int nr, const unsigned long *map)
{
	return READ_ONCE(map[nr / BITS_PER_LONG]) >> (nr % BITS_PER_LONG) & 1;
}

/* These two order nothing; those that return the bit are full barriers. */
static inline void set_bit(unsigned int nr, unsigned long *map)
{
	hosted_pause();
	__atomic_fetch_or(&map[nr / BITS_PER_LONG], BIT(nr % BITS_PER_LONG), __ATOMIC_RELAXED);
}

static inline void clear_bit(unsigned int nr, unsigned long *map)
{
	hosted_pause();
	__atomic_fetch_and(&map[nr / BITS_PER_LONG], ~BIT(nr % BITS_PER_LONG), __ATOMIC_RELAXED);
}

static inline bool test_and_set_bit(unsigned int nr, unsigned long *map)
{
	unsigned long old;

	hosted_pause();
	old = __atomic_fetch_or(&map[nr / BITS_PER_LONG], BIT(nr % BITS_PER_LONG),
				__ATOMIC_SEQ_CST);
	hosted_pause();
	return old >> (nr % BITS_PER_LONG) & 1;
}

static inline bool test_and_clear_bit(unsigned int nr, unsigned long *map)
{
	unsigned long old;

	hosted_pause();
	old = __atomic_fetch_and(&map[nr / BITS_PER_LONG], ~BIT(nr % BITS_PER_LONG),
				 __ATOMIC_SEQ_CST);
	hosted_pause();
	return old >> (nr % BITS_PER_LONG) & 1;
}

/* The first set bit of @size from @from on, or @size. */
static inline unsigned long find_next_bit(const unsigned long *map, unsigned long size,
					  unsigned long from)
{
	while (from < size) {
		unsigned long word = READ_ONCE(map[from / BITS_PER_LONG]) >> (from % BITS_PER_LONG);

		if (word) {
			from += __ffs(word);
			return from < size ? from : size;
		}
		from += BITS_PER_LONG - from % BITS_PER_LONG;
	}
	return size;
}

#define find_first_bit(map, size)	find_next_bit(map, size, 0)

#define for_each_set_bit(bit, map, size)						\
	for ((bit) = find_first_bit(map, size); (bit) < (size);				\
	     (bit) = find_next_bit(map, size, (bit) + 1))

/* ---- linux/bitmap ---- */

#define DECLARE_BITMAP(name, bits)	unsigned long name[BITS_TO_LONGS(bits)]

static inline bool bitmap_empty(const unsigned long *map, unsigned int size)
{
	return find_first_bit(map, size) >= size;
}

static inline void bitmap_zero(unsigned long *map, unsigned int size)
{
	memset(map, 0, BITS_TO_LONGS(size) * sizeof(*map));
}

static inline unsigned int bitmap_weight(const unsigned long *map, unsigned int size)
{
	unsigned int bit, n = 0;

	for_each_set_bit(bit, map, size)
		n++;
	return n;
}

/* ---- linux/atomic: counters with the kernel's ordering ---- */

/*
 * What returns a value is fully ordered, if it succeeds; what returns nothing, and plain reads and
 * stores, are relaxed.
 */

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

#define hosted_read(v) \
	(hosted_touch(&(v)->counter), __atomic_load_n(&(v)->counter, __ATOMIC_RELAXED))
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
#define atomic_read_acquire(v) \
	(hosted_touch(&(v)->counter), __atomic_load_n(&(v)->counter, __ATOMIC_ACQUIRE))
#define atomic_fetch_inc_release(v) \
	(hosted_pause(), __atomic_fetch_add(&(v)->counter, 1, __ATOMIC_RELEASE))
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

/* ---- linux/spinlock: a lock of one word ---- */

/*
 * Taken with acquire, let go with a release store, and no more: pthread's lock would hide a
 * missing barrier behind its own. The word is the holder, so that lockdep can ask for it.
 * Waiting gives the processor away, since there may be more threads than processors.
 */

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

/* ---- linux/cache: cache line placement ---- */

#define SMP_CACHE_BYTES		64
#define L1_CACHE_BYTES		64
#define ____cacheline_aligned_in_smp	__attribute__((aligned(SMP_CACHE_BYTES)))
#define __aligned(n)	__attribute__((aligned(n)))

/* ---- linux/export: nothing to export ---- */

#define EXPORT_SYMBOL_GPL(name)

/* ---- linux/module: what a file says about its module ---- */

#define MODULE_LICENSE(text)		_Static_assert(1, text)
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_AUTHOR(text)		_Static_assert(1, text)

/* ---- linux/minmax ---- */

#define hosted_pick(a, b, op)				\
({							\
	__typeof__(a) first = (a);			\
	__typeof__(b) second = (b);			\
							\
	first op second ? first : second;		\
})

#define min(a, b)		hosted_pick(a, b, <)
#define max(a, b)		hosted_pick(a, b, >)
#define min_t(type, a, b)	hosted_pick((type)(a), (type)(b), <)
#define min3(a, b, c)		min(min(a, b), c)
#define max_t(type, a, b)	hosted_pick((type)(a), (type)(b), >)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) min_t(type, max_t(type, v, lo), hi)

/* ---- linux/math ---- */

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define roundup(n, to)		(DIV_ROUND_UP(n, to) * (to))
#define rounddown(n, to)	((n) - (n) % (to))

static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long bit, root = 0;

	for (bit = 1UL << (sizeof(x) * 4 - 1); bit; bit >>= 1) {
		if ((root | bit) * (root | bit) <= x)
			root |= bit;
	}
	return root;
}

/* ---- linux/math64 ---- */

#define NSEC_PER_MSEC	1000000L
#define MSEC_PER_SEC	1000L
#define NSEC_PER_SEC	1000000000L

/* The kernel's is exact, too. */
static inline u32 int_sqrt64(u64 x)
{
	u64 root = 0, bit = 1ULL << 62;

	for (; bit; bit >>= 2) {
		u64 with = root + bit;

		root >>= 1;
		if (x >= with) {
			x -= with;
			root += bit;
		}
	}
	return root;
}

#define abs_diff(a, b) ((a) < (b) ? (b) - (a) : (a) - (b))

static inline s64 div64_s64(s64 a, s64 b)
{
	return a / b;
}

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 mul_u64_u32_div(u64 a, u32 mul, u32 divisor)
{
	return (u64)((unsigned __int128)a * mul / divisor);
}

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return (u64)((unsigned __int128)a * mul >> shift);
}

static inline u64 mul_u64_u64_shr(u64 a, u64 mul, unsigned int shift)
{
	return (u64)((unsigned __int128)a * mul >> shift);
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 mul, u64 divisor)
{
	return (u64)((unsigned __int128)a * mul / divisor);
}

/* ---- linux/hash: multiplicative, not the kernel's numbers ---- */

static inline u32 hash_64(u64 value, unsigned int bits)
{
	return value * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

#define hash_32(value, bits)	hash_64((u32)(value), bits)
#define hash_long(value, bits)	hash_64(value, bits)

/* ---- linux/sort ---- */

/* The kernel's last argument exchanges two elements; NULL is all that is used here. */
#define sort(base, n, size, compare, swap)	((void)(swap), qsort(base, n, size, compare))

/* ---- linux/string ---- */

#define strscpy(to, from, size)	((void)snprintf(to, size, "%s", from))

/* ---- linux/seq_file: text into a buffer ---- */

/* @count reaches @size when the text does not fit. */
struct seq_file {
	char *buf;
	size_t size;
	size_t count;
	void *private;
};

__attribute__((format(printf, 2, 3)))
static inline void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(m->buf + m->count, m->size - m->count, fmt, args);
	va_end(args);
	m->count = n >= 0 && (size_t)n < m->size - m->count ? m->count + n : m->size;
}

static inline void seq_putc(struct seq_file *m, char c)
{
	seq_printf(m, "%c", c);
}

static inline void seq_puts(struct seq_file *m, const char *text)
{
	seq_printf(m, "%s", text);
}

/* ---- linux/gfp: pages, and memory that is missing ---- */

#ifndef GFP_KERNEL
#define GFP_KERNEL	0
#endif
#define GFP_NOWAIT	1
#define __GFP_NOWARN	0
#define HOSTED_PAGE	4096

/*
 * A test makes memory scarce by setting hosted_fail_every: every Nth allocation that is not allowed
 * to wait fails. hosted_fail_at fails the Nth from now, of whatever kind.
 */
hosted_shared unsigned int hosted_fail_every, hosted_fail_count, hosted_fail_at;

/* On a cache line, as the kernel's memory for whatever needs that is. */
static inline void *hosted_zeroed(size_t size)
{
	void *p;

	if (posix_memalign(&p, 64, size ? size : 1))
		return NULL;
	return memset(p, 0, size);
}

static inline void *hosted_alloc(size_t size, gfp_t gfp)
{
	if (gfp == GFP_NOWAIT && hosted_fail_every && ++hosted_fail_count % hosted_fail_every == 0)
		return NULL;
	if (hosted_fail_at && --hosted_fail_at == 0)
		return NULL;
	return hosted_zeroed(size);
}

/* New memory is not zero. */
static inline void *hosted_alloc_dirty(size_t size, gfp_t gfp)
{
	void *p = hosted_alloc(size, gfp);

	if (p)
		memset(p, 0x5a, size);
	return p;
}

static inline unsigned long __get_free_page(gfp_t gfp)
{
	return (unsigned long)hosted_alloc_dirty(HOSTED_PAGE, gfp);
}

static inline void free_page(unsigned long page)
{
	free((void *)page);
}

/* ---- linux/slab and linux/mm: memory ---- */

#define kmalloc(size, gfp)	hosted_alloc_dirty(size, gfp)
#define kzalloc(size, gfp)	hosted_alloc(size, gfp)
#define kcalloc(n, size, gfp)	hosted_alloc((size_t)(n) * (size), gfp)
#define kmalloc_array(n, size, gfp) hosted_alloc_dirty((size_t)(n) * (size), gfp)
#define kfree(p)		free(p)

#define kvmalloc(size, gfp)	kmalloc(size, gfp)
#define kvzalloc(size, gfp)	kzalloc(size, gfp)
#define kvcalloc(n, size, gfp)	kcalloc(n, size, gfp)
#define kvmalloc_array(n, size, gfp) kmalloc_array(n, size, gfp)
#define kvfree(p)		kfree(p)

#endif
