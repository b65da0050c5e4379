/* SPDX-License-Identifier: GPL-2.0 */
/* linux/slab.h - memory, for the user-space build of pure code; see gfp.h for memory that is missing */
#ifndef HOSTED_LINUX_SLAB_H
#define HOSTED_LINUX_SLAB_H

#include <linux/gfp.h>

#define kmalloc(size, gfp)	hosted_alloc_dirty(size, gfp)
#define kzalloc(size, gfp)	hosted_alloc(size, gfp)
#define kcalloc(n, size, gfp)	hosted_alloc((size_t)(n) * (size), gfp)
#define kmalloc_array(n, size, gfp) hosted_alloc_dirty((size_t)(n) * (size), gfp)
#define kfree(p)		free(p)

#define kvmalloc(size, gfp)	kmalloc(size, gfp)
#define kvzalloc(size, gfp)	kzalloc(size, gfp)
#define kvcalloc(n, size, gfp)	kcalloc(n, size, gfp)
#define kvmalloc_array(n, size, gfp) kmalloc_array(n, size, gfp)
#define kvfree(p)		kfree(p)

#endif
