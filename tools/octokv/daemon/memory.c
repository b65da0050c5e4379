// SPDX-License-Identifier: GPL-2.0
/*
 * memory.c - how much memory octokvd may use: see memory.h
 *
 * By default three quarters of the least of these: what the kernel calls available, the limits of
 * the control groups that the process is in, and its limit of address space. An eighth of that is
 * for whole segments (store/mem.h), room for two at least. A sixteenth is for known keys.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "memory.h"
#include "store/mem.h"

enum {
	NR_KNOWN_MAX	= 1 << 14,	/* of a partition */
	NR_KNOWN_MIN	= 1 << 6,
	KNOWN_BYTES	= 64,
	KEY_BYTES	= 24,		/* of the index, at most */
	WORKER_BYTES	= 9 << 20,	/* mostly buffers to receive in */
};

/* ---- what there is ---- */

static uint64_t meminfo_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (file && !kib && fgets(line, sizeof(line), file))
		sscanf(line, "MemAvailable: %llu kB", &kib);
	if (file)
		fclose(file);
	return kib ? kib << 10 : UINT64_MAX;
}

/* The number in a file; UINT64_MAX: there is none. */
static uint64_t number_in(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long value;

	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%llu", &value) != 1)
		value = UINT64_MAX;
	fclose(file);
	return value;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The least memory.max of our control group and those above it. */
static uint64_t cgroup_limit(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char group[512] = "", line[512], path[600];
	uint64_t bytes = UINT64_MAX;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "0::%511[^\n]", group);
	if (file)
		fclose(file);
	while (*group) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
		bytes = least(bytes, number_in(path));
		*strrchr(group, '/') = 0;
	}
	return least(bytes, number_in("/sys/fs/cgroup/memory.max"));
}

static uint64_t available(void)
{
	uint64_t bytes = least(meminfo_available(), cgroup_limit());
	struct rlimit limit;

	/* An arena of malloc() for each thread would reserve most of such an address space. */
	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY) {
		mallopt(M_ARENA_MAX, 1);
		bytes = least(bytes, limit.rlim_cur);
	}
	return bytes;
}

/* ---- what for ---- */

int memory_start(uint64_t bytes, const struct memory_need *need, struct config *config, char *why,
		 size_t why_bytes)
{
	uint64_t work_bytes = (uint64_t)OKV_NR_WORK_SEGMENTS * need->segment_bytes;
	uint64_t known_bytes, needed_bytes;
	uint64_t available_bytes = available();
	uint32_t nr_known = NR_KNOWN_MAX;
	bool given = bytes;

	if (!given)
		bytes = available_bytes / 4 * 3;
	if (!given && bytes < MEMORY_BYTES_MIN)
		bytes = MEMORY_BYTES_MIN;
	while (work_bytes + need->segment_bytes <= bytes / 8 &&
	       work_bytes < (uint64_t)need->nr_partitions * need->segment_bytes)
		work_bytes += need->segment_bytes;
	while (nr_known > NR_KNOWN_MIN &&
	       (uint64_t)nr_known * KNOWN_BYTES * need->nr_partitions > bytes / 16)
		nr_known /= 2;
	known_bytes = (uint64_t)nr_known * KNOWN_BYTES * need->nr_partitions;
	/* The reserve, and then a little for clients. */
	needed_bytes = need->index_bytes + known_bytes + work_bytes + bytes / 16 +
		       (uint64_t)need->nr_workers * WORKER_BYTES;
	config->memory_bytes = bytes;
	config->nr_known = nr_known;
	/* An empty store starts with little, as long as it can open. */
	if ((need->index_bytes || work_bytes > bytes / 4 * 3) && needed_bytes > bytes) {
		snprintf(why, why_bytes,
			 "its index takes about %llu MiB of memory, whole segments %llu MiB, "
			 "with all else %llu MiB, and octokvd may use %llu MiB%s: give more with "
			 "--memory, or use a machine with more",
			 (unsigned long long)(need->index_bytes >> 20),
			 (unsigned long long)(work_bytes >> 20),
			 (unsigned long long)(needed_bytes >> 20),
			 (unsigned long long)(bytes >> 20),
			 given ? " (--memory)" : " (three quarters of what there is)");
		return -1;
	}
	mem_start(bytes, work_bytes);
	return 0;
}

uint64_t memory_keys(void)
{
	struct mem_numbers mem;

	mem_numbers(&mem);
	return (mem.limit_bytes - mem.work_limit_bytes) / 10 * 9 / KEY_BYTES;
}
