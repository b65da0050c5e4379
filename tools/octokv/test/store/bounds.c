// SPDX-License-Identifier: GPL-2.0
/*
 * bounds.c - unit tests of how much an open asks of a large device
 *
 * An open of an empty store, and one after a process was killed that had written much: requests and
 * bytes are bounded, and not by the size of the device. And checkpoints of an index that is too
 * large for names in its root: no more of them than for a small one.
 */
#include "store/partition.h"
#include "test/store/thin.h"

#define DEVICE_BYTES (4ULL << 40)

enum {
	VALUE_BYTES	= 4 << 20,
	NR_KEYS		= 700,			/* 2.7 GiB of values */
	READ_BYTES_MAX	= 1400 << 20,		/* 1.4 GiB */
	NR_REQUESTS_MAX	= 2000,
	LARGE_BYTES	= 64 << 10,		/* a segment of the store with a large index */
	NR_LARGE_KEYS	= 780000,		/* 190 segments of index */
	NR_LARGE_PUTS	= 2000,
};

static struct thin disk;
static struct okv_store *store;
static char value[VALUE_BYTES];

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1, .attempt_seed = 1 };

	disk.nr_requests = disk.read_bytes = disk.written_bytes = 0;
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
}

static void put_done(struct okv_op *op)
{
	*(bool *)op->owner = true;
	okv_op_release(op);
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key)
{
	bool done = false;
	struct okv_op op = {
		.kind = kind, .key = &key, .key_len = sizeof(key), .value = value,
		.value_len = VALUE_BYTES, .hash = (key + 1) * 0x9e3779b97f4a7c15ULL,
		.done = put_done, .owner = &done,
	};
	uint32_t partition = okv_store_partition_of(store, op.hash);

	okv_partition_submit(okv_store_partition(store, partition), &op);
	while (!done)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	return op.status;
}

struct put {
	struct okv_op op;
	uint32_t key;
};

static uint32_t nr_waiting;

static void many_done(struct okv_op *op)
{
	EXPECT(op->status == OKV_OK);
	okv_op_release(op);
	free(op->owner);
	nr_waiting--;
}

/* Puts of the keys from 0 on, many at a time. */
static void put_many(struct okv_partition *p, uint32_t nr_keys, uint32_t value_bytes)
{
	for (uint32_t i = 0; i < nr_keys; i++) {
		struct put *put = calloc(1, sizeof(*put));

		put->key = i;
		put->op = (struct okv_op){
			.kind = OKV_OP_PUT, .key = &put->key, .key_len = sizeof(put->key),
			.value = value, .value_len = value_bytes, .done = many_done, .owner = put,
			.hash = (i + 1) * 0x9e3779b97f4a7c15ULL >> 8,
		};
		nr_waiting++;
		okv_partition_submit(p, &put->op);
		while (nr_waiting > (i + 1 < nr_keys ? 400 : 0))
			EXPECT(!disk.disk.ops->wait(&disk.disk));
	}
}

static void kill_store(void)
{
	while (!disk.disk.ops->wait(&disk.disk))
		;
	okv_store_drop(store);
}

static void test_empty(void)
{
	for (uint32_t i = 0; i < 3; i++) {
		open_store();
		EXPECT(disk.nr_requests <= NR_REQUESTS_MAX);
		if (i < 2)
			okv_store_close(store);
	}
	printf("ok store_bounds: an empty store opens after %lu requests\n",
	       (unsigned long)disk.nr_requests);
	kill_store();
}

static void test_tail(void)
{
	open_store();
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_PUT, i) == OKV_OK);
	kill_store();
	open_store();
	EXPECT(disk.read_bytes < READ_BYTES_MAX);
	printf("ok store_bounds: of %u MiB that were written, a kill leaves %lu to be read\n",
	       NR_KEYS * (VALUE_BYTES >> 20), (unsigned long)(disk.read_bytes >> 20));
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_STAT, i) == OKV_OK);
	okv_store_close(store);
}

/* One write after the other, and each checkpoint ends before the next write. */
static void test_large_index(void)
{
	struct okv_format_options format = { .seed = 1, .nr_partitions = 256,
					     .segment_bytes = LARGE_BYTES };
	struct okv_open_options options = { .now_ms = 1, .attempt_seed = 1, .nr_partitions = 1 };
	struct okv_partition *p;
	uint64_t before;

	thin_init(&disk, 256ULL * 8000 * LARGE_BYTES + (8 << 20));
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	put_many(p, NR_LARGE_KEYS, 0);
	before = p->stats.nr_checkpoints;
	for (uint32_t i = 0; i < NR_LARGE_PUTS; i += 10) {
		put_many(p, 10, 1000);
		while (p->checkpoint.step)
			EXPECT(!disk.disk.ops->wait(&disk.disk));
	}
	EXPECT(p->stats.nr_checkpoints - before <= 2);
	printf("ok store_bounds: with 190 segments of index, %lu checkpoints for 50 of log\n",
	       (unsigned long)(p->stats.nr_checkpoints - before));
	kill_store();
	thin_free(&disk);
}

int main(void)
{
	struct okv_format_options format = { .seed = 1 };

	thin_init(&disk, DEVICE_BYTES);
	EXPECT(!okv_device_format(&disk.disk, &format));
	test_empty();
	test_tail();
	thin_free(&disk);
	test_large_index();
	return 0;
}
