/* SPDX-License-Identifier: GPL-2.0 */
/* linux/bitops.h - finding bits, for the user-space build of pure code */
#ifndef HOSTED_LINUX_BITOPS_H
#define HOSTED_LINUX_BITOPS_H

#include <linux/bits.h>
#include <linux/types.h>

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

static inline unsigned long __ffs64(u64 word)
{
	return __builtin_ctzll(word);
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
	return map[nr / BITS_PER_LONG] >> (nr % BITS_PER_LONG) & 1;
}

#endif
