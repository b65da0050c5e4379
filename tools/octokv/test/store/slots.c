// SPDX-License-Identifier: GPL-2.0
/*
 * slots.c - slots of keys, and stores whose hashes have them
 *
 * The slots of some keys are known from the specification of Redis Cluster, and from its CRC's
 * published check value. In a store with slots, a key of any tenant is in the partition of its
 * slot. Keys of a slot still have different hashes, which spread over the shards. In one without,
 * tags mean nothing. The keys of a slot are counted, and walked over, among those of its partition.
 */
#include <errno.h>
#include <string.h>

#include "user.h"

enum {
	SEGMENT_BYTES	= 16 << 10,
	NR_PARTITIONS	= 4,
	DEVICE_BYTES	= (1280 << 10) + NR_PARTITIONS * 12 * SEGMENT_BYTES,
	NR_KEYS		= 1000,
	PARTITION_BITS	= 2,
	SHARD_BITS	= 6,
	NR_SHARDS	= 1 << SHARD_BITS,
	HASH_SHIFT	= 62,
	NR_COUNTED	= 20,		/* slots, that is {0} to {19} */
	EXPIRES_MS	= 1000,
};

static struct sim_disk disk;
static struct okv_store *store;

static uint32_t slot_of(const char *key)
{
	return okv_slot(key, strlen(key));
}

static uint64_t hash_of(uint16_t tenant, const char *key)
{
	return okv_store_hash(store, tenant, key, strlen(key));
}

/* The same bit by bit, as the specification has it. */
static uint32_t slow_slot(const uint8_t *data, size_t len)
{
	uint16_t sum = 0;

	for (size_t i = 0; i < len * 8; i++) {
		bool is_above = sum >> 15 != (data[i / 8] >> (7 - i % 8) & 1);

		sum = sum << 1 ^ (is_above ? 0x1021 : 0);
	}
	return sum % OKV_NR_SLOTS;
}

/* Each byte at each place, alone and among others. */
static void test_bytes(void)
{
	uint8_t key[20] = { 0 };

	for (uint32_t at = 0; at < sizeof(key); at++) {
		for (uint32_t byte = 0; byte < 256; byte++) {
			key[at] = byte;
			EXPECT(byte == '{' || okv_slot(key, sizeof(key)) ==
			       slow_slot(key, sizeof(key)));
			EXPECT(byte == '{' || okv_slot(key, at + 1) == slow_slot(key, at + 1));
		}
	}
}

static void test_slots(void)
{
	EXPECT(slot_of("123456789") == 0x31c3);
	EXPECT(slot_of("foo") == 12182);
	EXPECT(slot_of("somekey") == 11058);
	EXPECT(slot_of("foo{hash_tag}") == 2515);
	EXPECT(slot_of("{user1000}.following") == slot_of("{user1000}.followers"));
	/* Without a text in the first pair of braces, all of the key counts. */
	EXPECT(slot_of("foo{}{bar}") != slot_of("bar") && slot_of("foo{}{bar}") != slot_of(""));
	EXPECT(slot_of("foo{bar") != slot_of("bar"));
	EXPECT(slot_of("foo}{bar}") == slot_of("bar"));
	EXPECT(slot_of("foo{{bar}}zap") == slot_of("{bar"));
	EXPECT(slot_of("foo{bar}{zap}") == slot_of("bar"));
	EXPECT(!slot_of(""));
}

static void open_store(bool has_slots)
{
	struct okv_format_options format = {
		.nr_partitions = NR_PARTITIONS, .segment_bytes = SEGMENT_BYTES, .seed = 1,
		.has_slots = has_slots,
	};
	struct okv_device_info info;

	sim_disk_init(&disk, DEVICE_BYTES, 512, 0, 1);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_device_info(&disk.disk, &info) && info.has_slots == has_slots);
	EXPECT(!okv_store_open(&store, &disk.disk, &(struct okv_open_options){ 0 }));
}

static void close_store(void)
{
	okv_store_drop(store);
	sim_disk_free(&disk);
}

static void test_with_slots(void)
{
	char key[32], same[32];

	open_store(true);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		uint64_t hash, twin;

		snprintf(key, sizeof(key), "{%u}a", i);
		snprintf(same, sizeof(same), "{%u}b", i);
		hash = hash_of(1, key);
		twin = hash_of(2, same);
		EXPECT(hash >> HASH_SHIFT == slot_of(key) % NR_PARTITIONS);
		EXPECT(twin >> HASH_SHIFT == slot_of(key) % NR_PARTITIONS);
		EXPECT(hash != twin && hash != hash_of(2, key));
		EXPECT(okv_store_partition_of(store, hash) == slot_of(key) % NR_PARTITIONS);
	}
	close_store();
}

/* All keys have one tag: the longest shard is no longer than chance makes it. */
static void test_one_tag(void)
{
	uint32_t nr[NR_SHARDS] = { 0 }, nr_most = 0;
	char key[32];

	open_store(true);
	for (uint32_t i = 0; i < NR_SHARDS * NR_KEYS; i++) {
		uint32_t shard;

		snprintf(key, sizeof(key), "{tag}%u", i);
		shard = hash_of(1, key) << PARTITION_BITS >> (64 - SHARD_BITS);
		if (++nr[shard] > nr_most)
			nr_most = nr[shard];
	}
	EXPECT(nr_most < NR_KEYS * 5 / 4);
	close_store();
}

/* The keys {I}0 to {I}9 of tenants 1 and 2; {I}0 expires, and tenant 2 has one more in slot {0}. */
static void put(uint16_t tenant, const char *key, uint64_t expire_ms)
{
	struct user u = {
		.op = {
			.kind = OKV_OP_PUT, .tenant = tenant, .key = key, .key_len = strlen(key),
			.hash = hash_of(tenant, key), .expire_ms = expire_ms,
		},
	};

	user_begin(&u, okv_store_partition(store, okv_store_partition_of(store, u.op.hash)));
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

static struct okv_partition *partition_of(uint32_t slot)
{
	return okv_store_partition(store, slot % NR_PARTITIONS);
}

static uint64_t count(uint32_t slot, uint16_t tenant)
{
	uint64_t cursor = 0, nr = 0;

	do
		nr += okv_partition_count(partition_of(slot), slot, tenant, &cursor);
	while (cursor);
	return nr;
}

static uint32_t nr_seen[3];

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	(void)value_len, (void)expire_ms;
	EXPECT(okv_slot(key, key_len) == scan->slot - 1U);
	nr_seen[scan->key_tenant]++;
}

static void walk_done(struct okv_scan *scan)
{
	EXPECT(scan->status == OKV_OK);
}

static void walk(uint32_t slot, uint16_t tenant)
{
	struct okv_scan scan = {
		.tenant = tenant, .slot = slot + 1, .nr_max = 3, .key = walk_key, .done = walk_done,
	};

	memset(nr_seen, 0, sizeof(nr_seen));
	do {
		okv_partition_scan(partition_of(slot), &scan);
		wait_idle(&disk);
	} while (scan.cursor);
}

static void test_walks(void)
{
	char key[32];

	open_store(true);
	for (uint32_t i = 0; i < NR_COUNTED * 20; i++) {
		snprintf(key, sizeof(key), "{%u}%u", i / 20, i % 10);
		put(1 + i / 10 % 2, key, i % 10 ? 0 : EXPIRES_MS);
	}
	put(2, "{0}more", 0);
	for (uint32_t i = 0; i < NR_COUNTED; i++) {
		uint32_t slot;

		snprintf(key, sizeof(key), "%u", i);
		slot = slot_of(key);
		EXPECT(count(slot, 1) == 10 && count(slot, 2) == 10 + !i);
		EXPECT(count(slot, OKV_ALL_TENANTS) == 20 + !i && !count(slot + 1, 1));
		walk(slot, OKV_ALL_TENANTS);
		EXPECT(nr_seen[1] == 10 && nr_seen[2] == 10 + !i);
		okv_partition_set_clock(partition_of(slot), EXPIRES_MS);
		walk(slot, 2);
		EXPECT(!nr_seen[1] && nr_seen[2] == 9 + !i);
		walk(slot, OKV_ALL_TENANTS);
		EXPECT(nr_seen[1] == 9 && nr_seen[2] == 9 + !i);
		/* That walk has removed what has expired, of both. */
		EXPECT(count(slot, 1) == 9 && count(slot, 2) == 9 + !i);
		okv_partition_set_clock(partition_of(slot), 0);
	}
	/* The log says so, too. */
	okv_store_drop(store);
	EXPECT(!okv_store_open(&store, &disk.disk, &(struct okv_open_options){ 0 }));
	EXPECT(count(slot_of("1"), 1) == 9 && count(slot_of("1"), 2) == 9);
	close_store();
}

/* The lower bits of a slot would not be known. */
static void test_few_partitions(void)
{
	struct okv_format_options format = {
		.nr_partitions = 2, .segment_bytes = SEGMENT_BYTES, .seed = 1, .has_slots = true,
	};

	sim_disk_init(&disk, DEVICE_BYTES, 512, 0, 1);
	EXPECT(okv_device_format(&disk.disk, &format) == -EDOM);
	sim_disk_free(&disk);
}

static void test_without(void)
{
	uint32_t nr_apart = 0;
	char key[32], same[32];

	open_store(false);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		snprintf(key, sizeof(key), "{%u}a", i);
		snprintf(same, sizeof(same), "{%u}b", i);
		nr_apart += okv_store_partition_of(store, hash_of(1, key)) !=
			    okv_store_partition_of(store, hash_of(1, same));
	}
	/* Three of four, of pairs that have nothing to do with each other. */
	EXPECT(nr_apart > NR_KEYS * 2 / 3 && nr_apart < NR_KEYS * 5 / 6);
	close_store();
}

int main(void)
{
	test_slots();
	test_bytes();
	test_with_slots();
	test_one_tag();
	test_walks();
	test_few_partitions();
	test_without();
	puts("ok store_slots: slots of keys, hashes with and without them, the keys of a slot");
	return 0;
}
