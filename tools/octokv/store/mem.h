/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mem.h - memory that is there, or the end of the process
 *
 * What a client can make the daemon allocate is bounded elsewhere (resp.h, conn.h). If the machine
 * has no memory even for that, no reply would help. Nothing that was acknowledged is lost by
 * ending, so the process says why and ends.
 */
#ifndef OKV_MEM_H
#define OKV_MEM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *mem_checked(void *memory)
{
	if (!memory) {
		fputs("octokv: out of memory\n", stderr);
		abort();
	}
	return memory;
}

static inline void *mem_alloc(size_t bytes)
{
	return mem_checked(malloc(bytes ? bytes : 1));
}

static inline void *mem_zalloc(size_t bytes)
{
	return mem_checked(calloc(1, bytes ? bytes : 1));
}

static inline void *mem_aligned(size_t align, size_t bytes)
{
	return mem_checked(aligned_alloc(align, bytes));
}

static inline void *mem_grow(void *memory, size_t bytes)
{
	return mem_checked(realloc(memory, bytes ? bytes : 1));
}

#endif
