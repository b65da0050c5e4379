/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mem.h - memory that is counted, and bounded
 *
 * All that the store and the server allocate goes through here and is counted, over all threads: a
 * property of the process, as malloc() is. mem_start() sets a limit (--memory). Two questions tell
 * whether more may be taken on:
 *
 *	mem_has_key_room()	for another key, which stays: until 9/10 of the limit
 *	mem_has_room()		for another connection or command: until the limit
 *
 * Whole segments in memory, for recovery and garbage collection, have a part of the limit of their
 * own (mem_work_begin()), so that neither keeps the other from going on.
 *
 * After mem_start() no allocation fails. If the machine has less memory than the limit says, what
 * is used then becomes the limit, and a reserve is there for what is under way. If that is used up
 * as well, the thread waits until others have freed something. Before mem_start(), the process says
 * that it cannot start, and ends.
 */
#ifndef OKV_MEM_H
#define OKV_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mem_numbers {
	uint64_t limit_bytes;		/* UINT64_MAX: none */
	uint64_t used_bytes;		/* about: each thread may have 64 KiB more, or less */
	uint64_t work_limit_bytes, work_bytes;
	uint64_t nr_short;		/* allocations that failed and were tried again */
};

/* @work_bytes of @limit_bytes are for whole segments. */
void mem_start(uint64_t limit_bytes, uint64_t work_bytes);
void mem_numbers(struct mem_numbers *numbers);

/* Now and then: have a reserve again, if there is room for it. */
void mem_restore(void);

bool mem_has_key_room(void);
bool mem_has_room(void);

/* Memory for a segment. NULL: not now; ask again later. The second one waits for it. */
void *mem_work_begin(size_t align, size_t bytes);
void *mem_work_wait(size_t align, size_t bytes);
void mem_work_end(void *memory, size_t bytes);

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_aligned(size_t align, size_t bytes);
void *mem_grow(void *memory, size_t bytes);
void mem_free(void *memory);

#endif
