/* SPDX-License-Identifier: GPL-2.0 */
/* linux/bitmap.h - bitmaps, for the user-space build of pure code */
#ifndef HOSTED_LINUX_BITMAP_H
#define HOSTED_LINUX_BITMAP_H

#include <string.h>

#include <linux/bitops.h>

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
