/* SPDX-License-Identifier: GPL-2.0 */
/* linux/cache.h - cache line placement, for the user-space build of pure code */
#ifndef HOSTED_LINUX_CACHE_H
#define HOSTED_LINUX_CACHE_H

#define SMP_CACHE_BYTES		64
#define L1_CACHE_BYTES		64
#define ____cacheline_aligned_in_smp	__attribute__((aligned(SMP_CACHE_BYTES)))

#endif
