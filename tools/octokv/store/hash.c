// SPDX-License-Identifier: GPL-2.0
/*
 * hash.c - from tenant and key to 64 bits
 *
 * SipHash with a key that was drawn when the device was formatted and is stored nowhere else: a
 * client that chooses keys cannot make them collide.
 *
 * In a store with slots the bits of the partition are the lower ones of the slot of Redis Cluster.
 * So keys of a slot are in one partition, and a range of slots, as a node has it, is spread over
 * all of them. The upper ones are at the upper end of the tag, so that the index knows the slot of
 * a key. All others are SipHash's: those of the shard, and those that say where in the shard an
 * entry lies. So all shards are short, and runs in them, also if all keys have one slot. A client
 * can choose keys of one slot, and make a partition fuller and busier than others; it still cannot
 * make keys collide.
 */
#include <string.h>

#include <sodium.h>

#include "partition.h"

static size_t name_of(uint16_t tenant, const void *key, size_t key_len, uint8_t *name)
{
	memcpy(name, &tenant, sizeof(tenant));
	memcpy(name + sizeof(tenant), key, key_len);
	return sizeof(tenant) + key_len;
}

static size_t used_len(size_t key_len)
{
	return key_len < OKV_KEY_BYTES_MAX ? key_len : OKV_KEY_BYTES_MAX;
}

uint64_t okv_store_hash_in(const struct okv_store *store, uint16_t tenant, const void *key,
			   size_t key_len, uint32_t slot)
{
	uint8_t name[sizeof(tenant) + OKV_KEY_BYTES_MAX];
	size_t len = name_of(tenant, key, used_len(key_len), name);
	uint32_t bits = store->layout.partition_bits;
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, name, len, store->layout.super.hash_key);
	if (!okv_has_slots(&store->layout.super))
		return hash;
	hash = hash << bits >> bits & ~okv_slot_mask(bits);
	return (uint64_t)slot << (64 - bits) | okv_slot_tag(slot, bits) | hash;
}

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key,
			size_t key_len)
{
	bool has_slots = okv_has_slots(&store->layout.super);

	return okv_store_hash_in(store, tenant, key, key_len,
				 has_slots ? okv_slot(key, used_len(key_len)) : 0);
}
