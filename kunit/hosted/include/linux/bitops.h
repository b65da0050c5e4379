/* SPDX-License-Identifier: GPL-2.0 */
/* linux/bitops.h - bits, their masks and maps, for the user-space build of pure code */
#ifndef HOSTED_LINUX_BITOPS_H
#define HOSTED_LINUX_BITOPS_H

#include <string.h>

#include <linux/compiler.h>
#include <linux/types.h>

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

static inline int fls64(u64 word)
{
	return word ? 64 - __builtin_clzll(word) : 0;
}

static inline unsigned int hweight32(u32 word)
{
	return __builtin_popcount(word);
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

#endif
