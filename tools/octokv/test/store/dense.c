// SPDX-License-Identifier: GPL-2.0
/*
 * dense.c - garbage collection packs records, however small they are and however they were written,
 * and does not hold up users
 *
 * The test puts records of a few bytes one after the other, so that each has a block of its own, 20
 * times its size. Nine tenths of the capacity that the store reports find room, and can all be
 * written again. Moved records take at most a 16th more than their size.
 *
 * Then eight users write the same keys all the time, in large values, one write at a time. Of a
 * victim the device has two reads at a time. Moves keep pace with what users write, and segments
 * stay free beyond those that are kept.
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

static void test_dense(void)
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
}

/* ---- pace ---- */

enum {
	PACE_SEGMENTS		= 128,
	PACE_SEGMENT_BYTES	= 1 << 20,
	PACE_DEVICE_BYTES	= (1280 << 10) + PACE_SEGMENTS * PACE_SEGMENT_BYTES,
	PACE_VALUE_BYTES	= 8 << 10,
	PACE_BATCH_BYTES	= 32 << 10,
	NR_KEYS			= PACE_SEGMENTS * PACE_SEGMENT_BYTES / PACE_VALUE_BYTES * 6 / 10,
	NR_USERS		= 8,
	NR_ROUNDS		= 4,		/* over all keys */
	/* Without a pace they are 109 KiB ahead. */
	AHEAD_BYTES_MAX		= 2 * PACE_BATCH_BYTES,
};

static const struct okv_disk_ops *sim_ops;
static void (*parts_done)(struct okv_io *io);
static struct okv_partition *paced;
static uint64_t ahead_bytes_max;
static uint32_t nr_parts, parts_max;
static char large[PACE_VALUE_BYTES];

static void part_is_done(struct okv_io *io)
{
	nr_parts--;
	parts_done(io);
}

/*
 * How far moves of a victim are ahead of what users write: beyond the same part of the room that it
 * gives, or of half of that, as few segments are free.
 */
static uint64_t ahead_bytes(const struct okv_gc *gc)
{
	uint64_t room_bytes = (PACE_SEGMENT_BYTES - gc->live_bytes) / 2;
	uint64_t due_bytes = gc->user_bytes * gc->live_bytes / room_bytes;

	return gc->moved_bytes > due_bytes ? gc->moved_bytes - due_bytes : 0;
}

static void watch(struct okv_disk *d, struct okv_io *io)
{
	const struct okv_batch *b = io->owner;

	/* Heads and headers are shorter; chunks of a checkpoint are durable later. */
	if (paced && io->kind == OKV_WRITE && io->flags & OKV_FUA && io->bytes > PACE_VALUE_BYTES) {
		uint64_t bytes = ahead_bytes(&paced->gc);

		if (b->ops.head->kind == OKV_OP_RELOCATE && bytes > ahead_bytes_max)
			ahead_bytes_max = bytes;
	}
	if (paced && io->kind == OKV_READ && io->bytes > PACE_VALUE_BYTES + 2 * BLOCK_BYTES) {
		parts_done = io->done;
		io->done = part_is_done;
		if (++nr_parts > parts_max)
			parts_max = nr_parts;
	}
	sim_ops->submit(d, io);
}

static void begin_large(struct user *u, struct okv_partition *p, uint32_t key)
{
	*u = (struct user){ .op = { .kind = OKV_OP_PUT, .value = large,
				    .value_len = PACE_VALUE_BYTES } };
	user_begin_key(u, p, key);
}

static void write_large(struct okv_partition *p, uint32_t nr, uint32_t *free_min)
{
	struct user users[NR_USERS];
	uint32_t nr_begun = 0;

	for (; nr_begun < NR_USERS; nr_begun++)
		begin_large(&users[nr_begun], p, nr_begun);
	for (uint32_t nr_done = 0; nr_done < nr;) {
		EXPECT(!disk.disk.ops->wait(&disk.disk));
		if (p->nr_free < *free_min)
			*free_min = p->nr_free;
		for (uint32_t i = 0; i < NR_USERS; i++) {
			if (!users[i].done)
				continue;
			EXPECT(users[i].op.status == OKV_OK);
			nr_done++;
			users[i].done = false;
			if (nr_begun < nr)
				begin_large(&users[i], p, nr_begun++ * 7919 % NR_KEYS);
		}
	}
}

static void test_pace(void)
{
	static struct okv_disk_ops ops;
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = PACE_SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1, .batch_bytes_max = PACE_BATCH_BYTES,
					    .nr_writes_max = 1 };
	uint32_t free_min = PACE_SEGMENTS, kept;
	struct okv_partition *p;
	struct okv_store *store;

	sim_disk_init(&disk, PACE_DEVICE_BYTES, BLOCK_BYTES, true, 1);
	disk.disk.is_sparse = false;
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = watch, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	write_large(p, NR_KEYS + NR_USERS, &free_min);
	write_large(p, 2 * NR_KEYS, &free_min);
	paced = p;
	free_min = PACE_SEGMENTS;
	write_large(p, NR_ROUNDS * NR_KEYS, &free_min);
	paced = NULL;
	kept = okv_segments_kept(p);
	printf("ok store_dense: %lu segments collected, moves are %lu KiB ahead, %u reads at a "
	       "time, %u segments free at least, %u of them kept\n",
	       (unsigned long)p->stats.nr_gc_segments,
	       (unsigned long)ahead_bytes_max >> 10, parts_max, free_min, kept);
	EXPECT(p->stats.nr_gc_segments > PACE_SEGMENTS / 2 && ahead_bytes_max <= AHEAD_BYTES_MAX &&
	       parts_max == 2 && free_min > kept + 1);
	wait_idle(&disk);
	okv_store_close(store);
	sim_disk_free(&disk);
}

int main(void)
{
	test_dense();
	test_pace();
	return 0;
}
