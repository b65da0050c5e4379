/* SPDX-License-Identifier: GPL-2.0 */
/*
 * linux/gfp.h - pages, for the user-space build of pure code
 *
 * A test makes memory scarce by setting hosted_fail_every: every Nth allocation that is not allowed to wait fails.
 */
#ifndef HOSTED_LINUX_GFP_H
#define HOSTED_LINUX_GFP_H

#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#ifndef GFP_KERNEL
#define GFP_KERNEL	0
#endif
#define GFP_NOWAIT	1
#define __GFP_NOWARN	0
#define HOSTED_PAGE	4096

static unsigned int hosted_fail_every, hosted_fail_count;

static inline void *hosted_alloc(size_t size, gfp_t gfp)
{
	if (gfp == GFP_NOWAIT && hosted_fail_every && ++hosted_fail_count % hosted_fail_every == 0)
		return NULL;
	return calloc(1, size ? size : 1);
}

static inline unsigned long __get_free_page(gfp_t gfp)
{
	void *page = hosted_alloc(HOSTED_PAGE, gfp);

	if (page)
		memset(page, 0x5a, HOSTED_PAGE);
	return (unsigned long)page;
}

static inline void free_page(unsigned long page)
{
	free((void *)page);
}

#endif
