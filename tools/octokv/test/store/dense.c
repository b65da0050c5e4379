// SPDX-License-Identifier: GPL-2.0
/*
 * dense.c - what garbage collection moves lies densely, however small it is and however sparsely it was written
 *
 * Records of a few bytes are put one after the other, so that each has a block for itself, 20 times what it takes. There is room for nine tenths
 * of what the store says it has room for, and to write all over again; and what is moved takes no more than a 16th above what it is.
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
	struct okv_format_options format = { .nr_partitions = 1,
					     .segment_bytes = SEGMENT_BYTES,
					     .seed = 1 };
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_partition *p;
	struct okv_store *store;
	uint64_t moved_bytes;
	uint32_t nr = 0;

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	/* The index grows, and what is kept back for it. */
	while (p->live_bytes < okv_segments_capacity(p) / 10 * 9)
		put(p, nr++);
	for (uint32_t key = 0; key < nr; key++)
		put(p, key);
	wait_idle(&disk);
	moved_bytes = p->stats.batch_bytes - 2ULL * nr * BLOCK_BYTES;
	EXPECT(p->stats.nr_gc_segments > NR_SEGMENTS && moved_bytes <= p->stats.gc_bytes / 16 * 17);
	printf("ok store_dense: %u keys twice, %lu segments collected, %lu KiB of records moved in %lu KiB\n",
	       nr, (unsigned long)p->stats.nr_gc_segments, (unsigned long)p->stats.gc_bytes >> 10,
	       (unsigned long)moved_bytes >> 10);
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
