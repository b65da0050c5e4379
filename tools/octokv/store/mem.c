// SPDX-License-Identifier: GPL-2.0
/*
 * mem.c - memory that is counted: see mem.h
 *
 * Each thread counts by itself, and adds to the common sum when it has 64 KiB. A thread may free
 * what another one has allocated, so its own count may be negative.
 */
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "mem.h"

enum {
	PUBLISH_BYTES		= 64 << 10,
	RESERVE_BYTES_MAX	= 8 << 20,
	RESERVE_SHARE		= 16,		/* of the limit */
	WAIT_US			= 10000,
	WAITS_TO_SAY		= 100,
};

static struct {
	uint64_t limit_bytes, work_limit_bytes;
	int64_t used_bytes;
	uint64_t work_bytes, nr_short;
	uint64_t reserve_bytes;
	void *reserve;
	bool started;
} all = { .limit_bytes = UINT64_MAX, .work_limit_bytes = UINT64_MAX / 2 };

static __thread int64_t own_bytes;

static uint64_t load(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static uint64_t used(void)
{
	int64_t bytes = __atomic_load_n(&all.used_bytes, __ATOMIC_RELAXED);

	return bytes > 0 ? bytes : 0;
}

static void count(int64_t bytes)
{
	own_bytes += bytes;
	if (own_bytes < PUBLISH_BYTES && own_bytes > -PUBLISH_BYTES)
		return;
	__atomic_add_fetch(&all.used_bytes, own_bytes, __ATOMIC_RELAXED);
	own_bytes = 0;
}

/* ---- a machine with less than was said ---- */

/* Let go of the reserve; false: there is none. */
static bool use_reserve(void)
{
	void *reserve = __atomic_exchange_n(&all.reserve, NULL, __ATOMIC_ACQ_REL);
	uint64_t limit_bytes = used() + load(&all.work_limit_bytes);

	if (!reserve)
		return false;
	if (limit_bytes < load(&all.limit_bytes)) {
		fprintf(stderr, "octokvd: the machine has no more memory: --memory is %llu MiB "
			"from now on, not %llu MiB\n", (unsigned long long)(limit_bytes >> 20),
			(unsigned long long)(load(&all.limit_bytes) >> 20));
		__atomic_store_n(&all.limit_bytes, limit_bytes, __ATOMIC_RELAXED);
	}
	free(reserve);
	return true;
}

/* An allocation has failed, for the @nr-th time. Return when it is worth another try. */
static void fall_short(size_t bytes, uint32_t nr)
{
	if (!__atomic_load_n(&all.started, __ATOMIC_RELAXED)) {
		fprintf(stderr, "octokvd: cannot start: the machine has no %zu bytes of memory\n",
			bytes);
		exit(1);
	}
	__atomic_add_fetch(&all.nr_short, 1, __ATOMIC_RELAXED);
	if (use_reserve())
		return;
	if (nr % WAITS_TO_SAY == 1)
		fprintf(stderr, "octokvd: a reactor waits for %zu bytes of memory: give the "
			"machine more, or a smaller --memory\n", bytes);
	usleep(WAIT_US);
}

void mem_restore(void)
{
	void *none = NULL, *reserve;

	if (__atomic_load_n(&all.reserve, __ATOMIC_RELAXED) || !all.reserve_bytes ||
	    !mem_has_key_room())
		return;
	reserve = malloc(all.reserve_bytes);
	if (!reserve)
		return;
	memset(reserve, 1, all.reserve_bytes);
	if (!__atomic_compare_exchange_n(&all.reserve, &none, reserve, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		free(reserve);
}

/* ---- the limit ---- */

void mem_start(uint64_t limit_bytes, uint64_t work_bytes)
{
	all.limit_bytes = limit_bytes;
	all.work_limit_bytes = work_bytes;
	all.reserve_bytes = limit_bytes / RESERVE_SHARE;
	if (all.reserve_bytes > RESERVE_BYTES_MAX)
		all.reserve_bytes = RESERVE_BYTES_MAX;
	mem_restore();
	all.started = true;
}

void mem_numbers(struct mem_numbers *numbers)
{
	*numbers = (struct mem_numbers){
		.limit_bytes = load(&all.limit_bytes),
		.used_bytes = used() + load(&all.work_bytes),
		.work_limit_bytes = load(&all.work_limit_bytes),
		.work_bytes = load(&all.work_bytes),
		.nr_short = load(&all.nr_short),
	};
}

/* What is not for whole segments, and not the reserve. */
static uint64_t common_bytes(void)
{
	uint64_t limit_bytes = load(&all.limit_bytes);
	uint64_t own = load(&all.work_limit_bytes) + all.reserve_bytes;

	return limit_bytes > own ? limit_bytes - own : 0;
}

bool mem_has_key_room(void)
{
	return used() <= common_bytes() / 10 * 9;
}

bool mem_has_room(void)
{
	return used() <= common_bytes();
}

void *mem_work_begin(size_t align, size_t bytes)
{
	void *memory = NULL;

	if (__atomic_add_fetch(&all.work_bytes, bytes, __ATOMIC_RELAXED) <=
	    load(&all.work_limit_bytes))
		memory = aligned_alloc(align, bytes);
	if (!memory)
		__atomic_sub_fetch(&all.work_bytes, bytes, __ATOMIC_RELAXED);
	return memory;
}

void *mem_work_wait(size_t align, size_t bytes)
{
	void *memory;

	while (!(memory = mem_work_begin(align, bytes)))
		usleep(WAIT_US);
	return memory;
}

void mem_work_end(void *memory, size_t bytes)
{
	if (memory)
		__atomic_sub_fetch(&all.work_bytes, bytes, __ATOMIC_RELAXED);
	free(memory);
}

/* ---- memory ---- */

void *mem_alloc(size_t bytes)
{
	return mem_grow(NULL, bytes);
}

void *mem_zalloc(size_t bytes)
{
	void *memory;

	for (uint32_t nr = 1; !(memory = calloc(1, bytes ? bytes : 1)); nr++)
		fall_short(bytes, nr);
	count(malloc_usable_size(memory));
	return memory;
}

void *mem_aligned(size_t align, size_t bytes)
{
	void *memory;

	for (uint32_t nr = 1; !(memory = aligned_alloc(align, bytes)); nr++)
		fall_short(bytes, nr);
	count(malloc_usable_size(memory));
	return memory;
}

void *mem_grow(void *memory, size_t bytes)
{
	size_t before = malloc_usable_size(memory);
	void *grown;

	for (uint32_t nr = 1; !(grown = realloc(memory, bytes ? bytes : 1)); nr++)
		fall_short(bytes, nr);
	count((int64_t)malloc_usable_size(grown) - (int64_t)before);
	return grown;
}

void mem_free(void *memory)
{
	count(-(int64_t)malloc_usable_size(memory));
	free(memory);
}
