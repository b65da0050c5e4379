/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/gfp.h - pages, for the user-space build of pure code
 *
 * A test makes memory scarce by setting hosted_fail_every: every Nth allocation that is not allowed to wait fails.
 * hosted_fail_at fails the Nth from now, of whatever kind.
 */
#ifndef HOSTED_LINUX_GFP_H
#define HOSTED_LINUX_GFP_H

#include <stdlib.h>
#include <string.h>

#include <linux/compiler.h>
#include <linux/types.h>

#ifndef GFP_KERNEL
#define GFP_KERNEL	0
#endif
#define GFP_NOWAIT	1
#define __GFP_NOWARN	0
#define HOSTED_PAGE	4096

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

/* Memory that nobody has written to is not zero. */
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

#endif
