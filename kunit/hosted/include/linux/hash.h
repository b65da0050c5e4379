/* SPDX-License-Identifier: GPL-2.0 */
/* linux/hash.h - a multiplicative hash, for the user-space build of pure code; not the kernel's numbers */
#ifndef HOSTED_LINUX_HASH_H
#define HOSTED_LINUX_HASH_H

#include <linux/types.h>

static inline u32 hash_64(u64 value, unsigned int bits)
{
	return value * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

#define hash_32(value, bits)	hash_64((u32)(value), bits)
#define hash_long(value, bits)	hash_64(value, bits)

#endif
