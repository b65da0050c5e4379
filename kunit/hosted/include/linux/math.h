/* SPDX-License-Identifier: GPL-2.0 */
/* linux/math.h - rounding, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MATH_H
#define HOSTED_LINUX_MATH_H

#include <linux/types.h>

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define roundup(n, to)		(DIV_ROUND_UP(n, to) * (to))
#define rounddown(n, to)	((n) - (n) % (to))

#endif
