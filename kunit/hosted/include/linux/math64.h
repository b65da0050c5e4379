/* SPDX-License-Identifier: GPL-2.0 */
/* linux/math64.h - 64-bit division, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MATH64_H
#define HOSTED_LINUX_MATH64_H

#include <linux/types.h>

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

static inline u64 mul_u64_u64_div_u64(u64 a, u64 mul, u64 divisor)
{
	return (u64)((unsigned __int128)a * mul / divisor);
}

#endif
