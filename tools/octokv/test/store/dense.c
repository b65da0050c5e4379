// SPDX-License-Identifier: GPL-2.0
/*
 * dense.c - garbage collection packs records, however small they are and however they were written
 *
 * The test puts records of a few bytes one after the other, so that each has a block of its own, 20
 * times its size. Nine tenths of the capacity that the store reports find room, and can all be
 * written again. Moved records take at most a 16th more than their size.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 40,
	SEGMENT_BYTES	= 256 << 10,
	BLOCK_BYTES	= 4096,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 120,
};

static struct sim_disk disk;
static char value[VALUE_BYTES];

static void put(struct okv_partition *p, uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_PUT, .value = value, .value_len = VALUE_BYTES } };

	user_begin_key(&u, p, key);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_partition *p;
	struct okv_store *store;
	uint64_t moved_bytes;
	uint32_t nr = 0;

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	/* The index grows, and with it what is kept. */
	while (p->live_bytes < okv_segments_capacity(p) / 10 * 9)
		put(p, nr++);
	for (uint32_t key = 0; key < nr; key++)
		put(p, key);
	wait_idle(&disk);
	moved_bytes = p->stats.batch_bytes - 2ULL * nr * BLOCK_BYTES;
	EXPECT(p->stats.nr_gc_segments > NR_SEGMENTS && moved_bytes <= p->stats.gc_bytes / 16 * 17);
	printf("ok store_dense: %u keys twice, %lu segments collected, "
	       "%lu KiB of records moved in %lu KiB\n",
	       nr, (unsigned long)p->stats.nr_gc_segments, (unsigned long)p->stats.gc_bytes >> 10,
	       (unsigned long)moved_bytes >> 10);
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
