/* SPDX-License-Identifier: GPL-2.0 */
/* linux/math.h - rounding, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MATH_H
#define HOSTED_LINUX_MATH_H

#include <linux/types.h>

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

#endif
