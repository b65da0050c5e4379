/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hosted.h - small parts of the kernel's headers, for the user-space build of pure code
 *
 * The Makefile generates the headers that are named below: each is a line that includes this file.
 */
#ifndef HOSTED_H
#define HOSTED_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/compiler.h>
#include <linux/types.h>

/* ---- linux/cache: cache line placement ---- */

#define SMP_CACHE_BYTES		64
#define L1_CACHE_BYTES		64
#define ____cacheline_aligned_in_smp	__attribute__((aligned(SMP_CACHE_BYTES)))

/* ---- linux/export: nothing to export ---- */

#define EXPORT_SYMBOL_GPL(name)

/* ---- linux/module: what a file says about its module ---- */

#define MODULE_LICENSE(text)		_Static_assert(1, text)
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_AUTHOR(text)		_Static_assert(1, text)

/* ---- linux/minmax ---- */

#define hosted_pick(a, b, op)				\
({							\
	__typeof__(a) first = (a);			\
	__typeof__(b) second = (b);			\
							\
	first op second ? first : second;		\
})

#define min(a, b)		hosted_pick(a, b, <)
#define max(a, b)		hosted_pick(a, b, >)
#define min_t(type, a, b)	hosted_pick((type)(a), (type)(b), <)
#define max_t(type, a, b)	hosted_pick((type)(a), (type)(b), >)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) min_t(type, max_t(type, v, lo), hi)

/* ---- linux/math ---- */

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

/* ---- linux/math64 ---- */

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

/* ---- linux/hash: multiplicative, not the kernel's numbers ---- */

static inline u32 hash_64(u64 value, unsigned int bits)
{
	return value * 0x9e3779b97f4a7c15ULL >> (64 - bits);
}

#define hash_32(value, bits)	hash_64((u32)(value), bits)
#define hash_long(value, bits)	hash_64(value, bits)

/* ---- linux/sort ---- */

/* The kernel's last argument exchanges two elements; NULL is all that is used here. */
#define sort(base, n, size, compare, swap)	((void)(swap), qsort(base, n, size, compare))

/* ---- linux/string ---- */

#define strscpy(to, from, size)	((void)snprintf(to, size, "%s", from))

/* ---- linux/seq_file: text into a buffer ---- */

/* @count reaches @size when the text does not fit. */
struct seq_file {
	char *buf;
	size_t size;
	size_t count;
	void *private;
};

__attribute__((format(printf, 2, 3)))
static inline void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(m->buf + m->count, m->size - m->count, fmt, args);
	va_end(args);
	m->count = n >= 0 && (size_t)n < m->size - m->count ? m->count + n : m->size;
}

static inline void seq_putc(struct seq_file *m, char c)
{
	seq_printf(m, "%c", c);
}

static inline void seq_puts(struct seq_file *m, const char *text)
{
	seq_printf(m, "%s", text);
}

/* ---- linux/gfp: pages, and memory that is missing ---- */

#ifndef GFP_KERNEL
#define GFP_KERNEL	0
#endif
#define GFP_NOWAIT	1
#define __GFP_NOWARN	0
#define HOSTED_PAGE	4096

/*
 * A test makes memory scarce by setting hosted_fail_every: every Nth allocation that is not allowed
 * to wait fails. hosted_fail_at fails the Nth from now, of whatever kind.
 */
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

/* New memory is not zero. */
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

/* ---- linux/slab and linux/mm: memory ---- */

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
