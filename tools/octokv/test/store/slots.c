// SPDX-License-Identifier: GPL-2.0
/*
 * slots.c - slots of keys, and stores whose hashes have them
 *
 * The slots of some keys are known from the specification of Redis Cluster, and from its CRC's
 * published check value. In a store with slots, a key of any tenant is in the partition of its
 * slot. Keys of a slot still have different hashes, which spread over the shards. In one without,
 * tags mean nothing.
 */
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
	SLOT_SHIFT	= 12,
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
		EXPECT(hash >> HASH_SHIFT == slot_of(key) >> SLOT_SHIFT);
		EXPECT(twin >> HASH_SHIFT == slot_of(key) >> SLOT_SHIFT);
		EXPECT(hash != twin && hash != hash_of(2, key));
		EXPECT(okv_store_partition_of(store, hash) ==
		       slot_of(key) / (OKV_NR_SLOTS / NR_PARTITIONS));
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
	test_with_slots();
	test_one_tag();
	test_without();
	puts("ok store_slots: slots of keys, and hashes with and without them");
	return 0;
}
