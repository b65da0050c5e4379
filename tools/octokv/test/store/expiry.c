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
	EARLY		= 20,		/* one in so many expires first */
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
	/*
	 * A round reads each once, 16 or more in a tick, and the last tick of a round ends it. What
	 * a removal has moved behind the sweep is found in the next one.
	 */
	nr = ticks_until(nr_long, SHORT_MS, 2 * ((nr_long + nr_short) / 16 + 2));
	printf("ok store_expiry: %u of %u keys have expired, and are gone after %u ticks\n",
	       nr_short, nr_long + nr_short, nr);
	nr = ticks_until(0, LONG_MS, 40);
	printf("ok store_expiry: all of %u keys have expired, and are gone after %u ticks\n",
	       nr_long, nr);
}

/* Ticks, while nothing expires; returns how many requests they were. */
static uint64_t requests_of_ticks(uint64_t now_ms, uint32_t nr)
{
	uint64_t before = disk.nr_completed;

	for (uint32_t i = 0; i < nr; i++) {
		okv_partition_tick(p, now_ms);
		wait_idle(&disk);
	}
	return disk.nr_completed - before;
}

static void reopen(void)
{
	struct okv_open_options options = { .now_ms = p->now_ms, .nr_known = OKV_KNOWN_WAYS };

	okv_store_close(store);
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

/* Nothing is read that cannot have expired, once each was read after an open. */
static void test_idle(void)
{
	uint32_t nr = NR_LONG * NR_SHARDS;
	uint64_t now_ms = p->now_ms, end_ms = now_ms + LONG_MS, first, again;

	for (uint32_t i = 0; i < nr; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 5, i ? end_ms : 0) == OKV_OK);
	reopen();
	first = requests_of_ticks(now_ms, nr / 16 + NR_SHARDS);
	again = requests_of_ticks(now_ms + LONG_MS / 2, 1000);
	EXPECT(first >= nr - 1 && !again);
	/* A few more, of which one expires soon: its shard is looked at, and no other. */
	EXPECT(run_op(OKV_OP_PUT, nr, 5, now_ms + LONG_MS - 5) == OKV_OK);
	again = requests_of_ticks(end_ms - 5, 100);
	EXPECT(nr_keys() == nr && again && again < nr / 4);
	ticks_until(1, end_ms, 60);
	EXPECT(run_op(OKV_OP_DELETE, 0, 0, 0) == OKV_OK);
	printf("ok store_expiry: %lu reads after an open, none in 1000 ticks, %lu for one that has "
	       "expired\n", (unsigned long)first, (unsigned long)again);
}

/* The key that a tick has looked at last in the shard that is being swept; @nr if there is none. */
static uint32_t swept_key(const bool *alive, uint32_t nr)
{
	const struct okv_shard *s = &p->index.shards[p->sweep_shard];
	struct okv_entry e;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t hash = (i + 1) * 0x9e3779b97f4a7c15ULL;

		if (!alive[i] || i % EARLY == 0 ||
		    okv_index_shard(&p->index, hash) != p->sweep_shard ||
		    !okv_index_find(&p->index, hash, 0, 0, &e))
			continue;
		if (okv_index_at(&p->index, hash, e.location) + 1 == s->entries + p->sweep_slot)
			return i;
	}
	return nr;
}

/*
 * While a shard is swept, what was looked at is deleted, so that other entries move to the slots
 * behind the sweep. Those that expire first must not be missed.
 */
static void test_moved(void)
{
	enum { NR = NR_LONG * NR_SHARDS };
	static bool alive[NR];
	uint64_t now_ms = p->now_ms;
	uint32_t nr_left = 0, key;

	for (uint32_t i = 0; i < NR; i++) {
		alive[i] = true;
		EXPECT(run_op(OKV_OP_PUT, i, 5, now_ms + (i % EARLY ? LONG_MS : LONG_MS / 2)) ==
		       OKV_OK);
	}
	reopen();
	for (uint32_t i = 0; i < NR / 4; i++) {
		okv_partition_tick(p, now_ms);
		wait_idle(&disk);
		key = swept_key(alive, NR);
		if (key < NR) {
			EXPECT(run_op(OKV_OP_DELETE, key, 0, 0) == OKV_OK);
			alive[key] = false;
		}
	}
	for (uint32_t i = 0; i < NR; i++)
		nr_left += alive[i] && i % EARLY;
	EXPECT(nr_left < NR - NR / EARLY);
	ticks_until(nr_left, now_ms + LONG_MS / 2, NR);
	ticks_until(0, now_ms + LONG_MS, NR);
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
	test_idle();
	test_moved();
	test_delete();
	test_walk();
	test_gc();
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
