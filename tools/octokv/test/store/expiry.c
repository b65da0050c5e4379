// SPDX-License-Identifier: GPL-2.0
/*
 * expiry.c - expired records go, wherever they are and whatever is beside them
 *
 * The index has many shards. Most of its records live long, and next to none is known, so each has
 * to be read. In a bounded number of ticks all short-lived ones have gone. Where everything has
 * expired, it goes faster. Without ticks, expired records go by a deletion, which still finds
 * nothing, by a walk, and by garbage collection, which does not move them.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 40,		/* 64 shards */
	SEGMENT_BYTES	= 1 << 20,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	LONG_MS		= 1000000,
	SHORT_MS	= 10,
	NR_LONG		= 20,		/* in a shard, about: more than are read in a tick */
	NR_SHARDS	= 64,
	VALUE_BYTES	= 63 << 9,	/* not aligned, so nothing is left out: 31 in a segment */
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;
static char value[VALUE_BYTES];

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key, uint32_t value_len,
			      uint64_t expire_ms)
{
	struct user u = {
		.op = { .kind = kind, .value = value, .value_len = value_len,
			.expire_ms = expire_ms },
	};

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

static uint64_t nr_keys(void)
{
	struct okv_stats stats;

	wait_idle(&disk);
	okv_store_stats(store, &stats);
	return stats.nr_keys;
}

/* Tick until only so many keys are left, at most @nr_max times; returns how often. */
static uint32_t ticks_until(uint64_t nr_left, uint64_t now_ms, uint32_t nr_max)
{
	uint32_t nr = 0;

	for (; nr < nr_max && nr_keys() > nr_left; nr++)
		okv_partition_tick(p, now_ms);
	EXPECT(nr_keys() == nr_left);
	return nr;
}

static void test_sweep(void)
{
	uint32_t nr_long = NR_LONG * NR_SHARDS, nr_short = 2 * NR_SHARDS, nr;

	for (uint32_t i = 0; i < nr_long; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 5, LONG_MS) == OKV_OK);
	for (uint32_t i = 0; i < nr_short; i++)
		EXPECT(run_op(OKV_OP_PUT, nr_long + i, 5, SHORT_MS) == OKV_OK);
	EXPECT(okv_index_nr_shards(&p->index) == NR_SHARDS);
	/* A round reads each once, 16 or more in a tick, and the last tick of a round ends it. */
	nr = ticks_until(nr_long, SHORT_MS, (nr_long + nr_short) / 16 + 2);
	printf("ok store_expiry: %u of %u keys have expired, and are gone after %u ticks\n",
	       nr_short, nr_long + nr_short, nr);
	nr = ticks_until(0, LONG_MS, 40);
	printf("ok store_expiry: all of %u keys have expired, and are gone after %u ticks\n",
	       nr_long, nr);
}

static void test_delete(void)
{
	EXPECT(run_op(OKV_OP_PUT, 1, 5, p->now_ms + 1) == OKV_OK);
	p->now_ms++;
	EXPECT(nr_keys() == 1);
	EXPECT(run_op(OKV_OP_DELETE, 1, 0, 0) == OKV_NOT_FOUND);
	EXPECT(nr_keys() == 0);
	printf("ok store_expiry: a deletion of an expired record finds nothing, and removes it\n");
}

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	(void)key, (void)key_len, (void)value_len, (void)expire_ms;
	++*(uint32_t *)scan->owner;
}

static void walk_done(struct okv_scan *scan)
{
	(void)scan;
}

static void test_walk(void)
{
	uint32_t nr_seen = 0;
	struct okv_scan scan = {
		.nr_max = 100, .key = walk_key, .done = walk_done, .owner = &nr_seen
	};

	for (uint32_t i = 0; i < 10; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 5, i % 2 ? p->now_ms + 1 : 0) == OKV_OK);
	p->now_ms++;
	do {
		okv_partition_scan(p, &scan);
		wait_idle(&disk);
	} while (scan.cursor);
	EXPECT(nr_seen == 5 && nr_keys() == 5);
	for (uint32_t i = 0; i < 10; i += 2)
		EXPECT(run_op(OKV_OP_DELETE, i, 0, 0) == OKV_OK);
	printf("ok store_expiry: a walk removes expired records\n");
}

/*
 * One of five records expires, and the rest is overwritten. So segments have mostly dead records,
 * and none is empty.
 */
static void test_gc(void)
{
	uint32_t nr = NR_SEGMENTS * SEGMENT_BYTES / VALUE_BYTES;
	uint64_t expire_ms = p->now_ms + 1, moved;

	for (uint32_t i = 0; i < nr / 5 * 4; i++)
		EXPECT(run_op(OKV_OP_PUT, i % 5 ? i % 10 : i + 10, VALUE_BYTES,
			      i % 5 ? 0 : expire_ms) == OKV_OK);
	p->now_ms = expire_ms;
	p->stats.nr_expired = p->stats.gc_bytes = 0;
	for (uint32_t i = 0; i < 2 * nr; i++)
		EXPECT(run_op(OKV_OP_PUT, i % 10, VALUE_BYTES, 0) == OKV_OK);
	moved = p->stats.gc_bytes;
	EXPECT(p->stats.nr_gc_segments && p->stats.nr_expired > nr / 32);
	printf("ok store_expiry: garbage collection removed %lu expired records, wrote %lu KiB\n",
	       (unsigned long)p->stats.nr_expired, (unsigned long)moved >> 10);
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1, .nr_known = OKV_KNOWN_WAYS };

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	test_sweep();
	test_delete();
	test_walk();
	test_gc();
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
