// SPDX-License-Identifier: GPL-2.0
/* probe.c - see probe.h */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data.h"
#include "probe.h"

enum {
	NR_SMALL	= 8,
	SMALL_BYTES	= 4096,
	PAGE_BYTES	= 16 << 10,	/* of the flash */
	LARGE_BYTES	= NR_SMALL * PAGE_BYTES,
	/* Behind the first superblock, a page of the flash away from it and from the second one. */
	OFFSET_BYTES	= 64 << 10,
	NR_ROUNDS	= 3,
	PROBE_TIMES	= 3,
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void io_done(struct okv_io *io)
{
	--*(uint32_t *)io->owner;
}

/* Write @nr times @bytes, each a page of the flash from the next one; 0: it failed. */
static uint64_t write_ns(struct okv_disk *disk, void *buf, uint32_t nr, uint32_t bytes)
{
	struct okv_io ios[NR_SMALL];
	uint32_t nr_pending = nr;
	uint64_t begin_ns = now_ns();
	bool failed = false;

	for (uint32_t i = 0; i < nr; i++) {
		ios[i] = (struct okv_io){
			.kind = OKV_WRITE, .flags = OKV_FUA, .buf = buf, .bytes = bytes,
			.offset_bytes = OFFSET_BYTES + i * PAGE_BYTES,
			.done = io_done, .owner = &nr_pending,
		};
		disk->ops->submit(disk, &ios[i]);
	}
	while (nr_pending) {
		if (disk->ops->wait(disk))
			return 0;
	}
	for (uint32_t i = 0; i < nr; i++)
		failed |= ios[i].result;
	return failed ? 0 : now_ns() - begin_ns;
}

bool probe_gains_by_journals(struct okv_disk *disk)
{
	void *buf = checked(aligned_alloc(PAGE_BYTES, LARGE_BYTES));
	uint32_t nr_gains = 0, nr = 0;

	memset(buf, 0, LARGE_BYTES);
	/* The first round is for what happens once only. */
	for (uint32_t i = 0; i <= NR_ROUNDS; i++) {
		uint64_t large_ns = write_ns(disk, buf, 1, LARGE_BYTES);
		uint64_t small_ns = write_ns(disk, buf, NR_SMALL, SMALL_BYTES);

		if (!i || !large_ns || !small_ns)
			continue;
		nr++;
		nr_gains += small_ns <= PROBE_TIMES * large_ns;
	}
	free(buf);
	return nr && 2 * nr_gains > nr;
}
