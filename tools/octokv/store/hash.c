// SPDX-License-Identifier: GPL-2.0
/*
 * hash.c - from tenant and key to 64 bits
 *
 * SipHash with a key that was drawn when the device was formatted and is stored nowhere else: a
 * client that chooses keys cannot make them collide.
 *
 * In a store with slots the bits of the partition are from the slot of Redis Cluster, and the
 * others from SipHash. So keys of a slot are in one partition. A client can choose keys of one
 * slot, then, and make a partition fuller and busier than others; it still cannot make keys
 * collide. No more bits than that are from the slot: the next ones choose the shard of the
 * index, and a shard has to be short, also if all keys have one tag.
 */
#include <string.h>

#include <sodium.h>

#include "partition.h"

enum { SLOT_BITS = 14 };
static_assert(1 << SLOT_BITS == OKV_NR_SLOTS, "a slot has so many bits");

static size_t name_of(uint16_t tenant, const void *key, size_t key_len, uint8_t *name)
{
	memcpy(name, &tenant, sizeof(tenant));
	memcpy(name + sizeof(tenant), key, key_len);
	return sizeof(tenant) + key_len;
}

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key,
			size_t key_len)
{
	uint8_t name[sizeof(tenant) + OKV_KEY_BYTES_MAX];
	size_t used_len = key_len < OKV_KEY_BYTES_MAX ? key_len : OKV_KEY_BYTES_MAX;
	size_t len = name_of(tenant, key, used_len, name);
	uint32_t bits = store->layout.partition_bits;
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, name, len, store->layout.super.hash_key);
	if (store->layout.super.version == OKV_VERSION_SLOTS && bits)
		hash = (uint64_t)(okv_slot(key, used_len) >> (SLOT_BITS - bits)) << (64 - bits) |
		       hash >> bits;
	return hash;
}
