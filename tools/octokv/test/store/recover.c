// SPDX-License-Identifier: GPL-2.0
/*
 * recover.c - opening with the older root, and with a sector that cannot be read
 *
 * The newer root and its chunks are valid, but say what cannot be: that a segment with records
 * holds nothing. The older root serves, and the open forgets all of the newer one. The checkpoint
 * that follows takes the newer root's place and its segments. It must not release them as those of
 * the root that it replaces.
 *
 * Two opens from the same older root do not count lives alike.
 *
 * A flash page of roots that is lost, whichever, leaves one root of each partition.
 *
 * With a bad sector in the newer checkpoint, the older one serves. With a bad sector in any one
 * header of any segment, the other headers say what the segment is, also after a crash.
 *
 * Copies of the superblock that are spoilt are mended, unless others are of another store.
 */
#include <errno.h>

#include "user.h"

enum {
	NR_SEGMENTS = 14,
	SEGMENT_BYTES = 16 << 10,
	BLOCK_BYTES = 512,
	DEVICE_BYTES = (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS = 24
};

static struct sim_disk disk;

static enum okv_status run_op(struct okv_store *store, enum okv_op_kind kind, uint32_t key)
{
	struct user u = { .op = { .kind = kind, .value = "value", .value_len = 5 } };

	user_begin_key(&u, okv_store_partition(store, 0), key);
	return user_wait(&u, &disk);
}

static struct okv_store *open_store(void)
{
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_store *store;

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	return store;
}

static uint32_t segment_with_records(struct okv_store *store)
{
	const struct okv_partition *p = okv_store_partition(store, 0);
	uint32_t i = 0;

	while (!p->segments[i].live_bytes)
		i++;
	return i;
}

/* Make the newer root's table of segments say that a segment with records holds nothing. */
static void spoil_newer_root(uint32_t segment)
{
	struct okv_root_disk *roots[] = { (void *)(disk.cache + root_offset(&disk, 0)),
					  (void *)(disk.cache + root_offset(&disk, 1)) };
	const struct okv_root_disk *root = roots[roots[1]->generation > roots[0]->generation];
	struct okv_segment_disk *segments;
	struct okv_layout layout;
	struct okv_chunk_disk *chunk;

	EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
	chunk = (void *)(disk.cache + layout.super.data_offset_bytes +
			 (uint64_t)root->segments[0] * SEGMENT_BYTES);
	segments = (void *)(chunk + 1);
	EXPECT(chunk->chunk == 0 && segments[segment].life);
	segments[segment].life = 0;
	chunk->payload_sum = okv_sum(segments, chunk->bytes - sizeof(*chunk), layout.super.secret);
	chunk->sum = okv_chunk_sum(&layout.super, chunk, 0,
				   (uint64_t)root->segments[0] * SEGMENT_BYTES / OKV_ALIGN_BYTES,
				   chunk->attempt);
}

static void test_older_root(void)
{
	struct okv_store *store = open_store();
	const struct okv_partition *p;
	uint32_t segment, nr = 0;

	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(store, OKV_OP_PUT, i) == OKV_OK);
	segment = segment_with_records(store);
	okv_store_close(store);
	spoil_newer_root(segment);

	store = open_store();
	p = okv_store_partition(store, 0);
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++) {
		for (uint32_t j = 0; j < p->roots[i].nr_segments; j++, nr++)
			EXPECT(p->segments[p->roots[i].segments[j]].state ==
			       OKV_SEGMENT_CHECKPOINT);
	}
	EXPECT(nr == OKV_NR_ROOTS);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(store, OKV_OP_GET, i) == OKV_OK);
	okv_store_close(store);
	printf("ok store_recover: both roots keep their segments when the older root has served\n");
}

/*
 * A root is spoilt that an open has written. The next one begins with the same older root, and must
 * not use the lives that the first one had: some of what that wrote may still be there.
 */
static void test_lives(void)
{
	struct okv_open_options options = { .now_ms = 1, .attempt_seed = 1 };
	uint64_t life[2], generation;
	struct okv_store *store;

	for (int i = 0; i < 2; i++, options.attempt_seed++) {
		EXPECT(!okv_store_open(&store, &disk.disk, &options));
		life[i] = okv_store_partition(store, 0)->next_life;
		generation = okv_store_partition(store, 0)->generation;
		wait_idle(&disk);
		okv_store_drop(store);
		disk.cache[root_offset(&disk, generation % OKV_NR_ROOTS)] ^= 1;
	}
	memcpy(disk.durable, disk.cache, DEVICE_BYTES);
	EXPECT(life[0] > life[1] + NR_SEGMENTS || life[1] > life[0] + NR_SEGMENTS);
	printf("ok store_recover: two opens from one root count their lives apart\n");
}

/* Open with a bad sector there, find all keys, and restore the device. */
static void open_with_bad(uint64_t at)
{
	char *copy = malloc(DEVICE_BYTES);
	struct okv_store *store;

	memcpy(copy, disk.cache, DEVICE_BYTES);
	disk.has_bad = true;
	disk.bad_offset_bytes = at;
	store = open_store();
	disk.has_bad = false;
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(store, OKV_OP_GET, i) == OKV_OK);
	okv_store_close(store);
	memcpy(disk.cache, copy, DEVICE_BYTES);
	memcpy(disk.durable, copy, DEVICE_BYTES);
	free(copy);
}

static void test_bad_chunk(void)
{
	const struct okv_root_disk *roots[] = { (void *)(disk.cache + root_offset(&disk, 0)),
						(void *)(disk.cache + root_offset(&disk, 1)) };
	const struct okv_root_disk *root = roots[roots[1]->generation > roots[0]->generation];
	struct okv_layout layout;

	EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
	open_with_bad(layout.super.data_offset_bytes + (uint64_t)root->segments[0] * SEGMENT_BYTES);
	printf("ok store_recover: the older checkpoint serves when the newer one cannot be read\n");
}

/* After a crash, so that there is a tail. */
static void test_bad_headers(void)
{
	struct okv_store *store = open_store();
	struct okv_layout layout;

	for (uint32_t i = 0; i < 2 * NR_KEYS; i++)
		EXPECT(run_op(store, OKV_OP_PUT, i % NR_KEYS) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
	EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
	for (uint32_t i = 0; i < NR_SEGMENTS; i++) {
		uint64_t at = layout.super.data_offset_bytes + (uint64_t)i * SEGMENT_BYTES;

		open_with_bad(at);
		open_with_bad(at + SEGMENT_BYTES - BLOCK_BYTES);
	}
	printf("ok store_recover: a segment with an unreadable header is made out by its rest\n");
}

/*
 * The first batch of a segment and its last header did not survive a crash, and its first header
 * cannot be read. Nothing of the segment was acknowledged, and what is left of it serves.
 */
static void test_no_beginning(void)
{
	struct okv_store *store = open_store();
	const struct okv_partition *p = okv_store_partition(store, 0);
	const struct okv_place *place = &p->places[OKV_OF_USERS];
	struct okv_batch_disk *b;
	uint64_t first_seq;
	char *segment;

	for (uint32_t i = 0; i < NR_KEYS || place->offset_bytes < 4 * BLOCK_BYTES; i++)
		EXPECT(run_op(store, OKV_OP_PUT, i % NR_KEYS) == OKV_OK);
	wait_idle(&disk);
	segment = disk.cache + okv_segment_offset(p, place->segment);
	first_seq = ((struct okv_batch_disk *)(segment + BLOCK_BYTES))->seq;
	for (uint32_t at = BLOCK_BYTES; at < place->offset_bytes; at += BLOCK_BYTES) {
		b = (void *)(segment + at);
		if (!okv_batch_is_good(p, b, place->segment, at))
			continue;
		b->durable = first_seq;
		b->sum = okv_sum_behind(b, sizeof(*b),
					okv_location_seed(p, okv_location(p, place->segment, at)));
	}
	memset(segment + BLOCK_BYTES, 0, BLOCK_BYTES);
	memset(segment + SEGMENT_BYTES - BLOCK_BYTES, 0, BLOCK_BYTES);
	memcpy(disk.durable, disk.cache, DEVICE_BYTES);
	okv_store_drop(store);
	open_with_bad(segment - disk.cache);
	printf("ok store_recover: a segment without a beginning does not stop an open\n");
}

/* Copies that are spoilt are written again, and no others: there may be just enough of these. */
static void test_mend(void)
{
	disk.cache[0] ^= 1;
	disk.cache[2 * OKV_SUPER_STRIDE_BYTES + 9] ^= 1;
	EXPECT(nr_copies_bad(&disk) == 2);
	disk.outage = SIM_WRITES_FAIL;
	EXPECT(okv_device_mend(&disk.disk) == -EIO && nr_copies_bad(&disk) == 2);
	disk.outage = SIM_NO_OUTAGE;
	EXPECT(!okv_device_mend(&disk.disk) && !nr_copies_bad(&disk));
	disk.outage = SIM_WRITES_FAIL;
	EXPECT(!okv_device_mend(&disk.disk));
	disk.outage = SIM_NO_OUTAGE;
	for (uint32_t i = 0; i < 3; i++)
		disk.cache[i * OKV_SUPER_STRIDE_BYTES] ^= 1;
	EXPECT(okv_device_mend(&disk.disk) == -EUCLEAN);
	for (uint32_t i = 0; i < 3; i++)
		disk.cache[i * OKV_SUPER_STRIDE_BYTES] ^= 1;
	printf("ok store_recover: superblocks that do not agree are mended\n");
}

/* A format over another store was interrupted after two copies. Either may be what is in use. */
static void test_two_stores(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 2,
	};
	const uint64_t from = 2 * OKV_SUPER_STRIDE_BYTES, bytes = from;
	char *others = memcpy(malloc(bytes), disk.cache + from, bytes), *all;

	EXPECT(!okv_device_format(&disk.disk, &format));
	memcpy(disk.cache + from, others, bytes);
	all = memcpy(malloc(2 * bytes), disk.cache, 2 * bytes);
	okv_store_close(open_store());
	EXPECT(okv_device_mend(&disk.disk) == -EUCLEAN);
	/* One of this store cannot be read, or is spoilt: the others are no reason to write it. */
	disk.has_bad = true;
	disk.bad_offset_bytes = 0;
	EXPECT(okv_device_mend(&disk.disk) == -EIO);
	disk.has_bad = false;
	disk.cache[0] ^= 1;
	EXPECT(okv_device_mend(&disk.disk) == -EUCLEAN);
	disk.cache[0] ^= 1;
	EXPECT(!memcmp(disk.cache, all, 2 * bytes));
	okv_store_close(open_store());
	free(others);
	free(all);
	printf("ok store_recover: superblocks of two stores stay as they are\n");
}

/* All roots of a store of 16 partitions, by flash pages. */
static void test_lost_page(void)
{
	enum {
		PAGE_BYTES = 16 << 10,
		NR = 16,
		BYTES = (1280 << 10) + NR * NR_SEGMENTS * SEGMENT_BYTES,
	};
	struct okv_format_options format = {
		.nr_partitions = NR, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	char page[PAGE_BYTES];

	sim_disk_init(&disk, BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	for (uint64_t at = OKV_ROOTS_OFFSET_BYTES; at < 1280 << 10; at += PAGE_BYTES) {
		memcpy(page, disk.cache + at, PAGE_BYTES);
		memset(disk.cache + at, 0, PAGE_BYTES);
		okv_store_close(open_store());
		if (at == OKV_ROOTS_OFFSET_BYTES)
			EXPECT(memcmp(page, disk.cache + at, PAGE_BYTES));
	}
	sim_disk_free(&disk);
	printf("ok store_recover: a lost page of roots leaves one of each partition\n");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	test_lives();
	test_older_root();
	test_bad_chunk();
	test_bad_headers();
	test_no_beginning();
	test_mend();
	test_two_stores();
	sim_disk_free(&disk);
	test_lost_page();
	return 0;
}
