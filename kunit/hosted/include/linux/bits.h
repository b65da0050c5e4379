/* SPDX-License-Identifier: GPL-2.0 */
/* linux/bits.h - bit masks, for the user-space build of pure code */
#ifndef HOSTED_LINUX_BITS_H
#define HOSTED_LINUX_BITS_H

#define BITS_PER_LONG		(8 * (int)sizeof(long))
#define BITS_PER_LONG_LONG	64
#define BITS_PER_BYTE		8
#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))
#define GENMASK(h, l)		((~0UL << (l)) & (~0UL >> (BITS_PER_LONG - 1 - (h))))
#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)

#endif
