// SPDX-License-Identifier: GPL-2.0
/*
 * hash.c - from tenant and key to 64 bits
 *
 * SipHash with a key that was drawn when the device was formatted and is stored nowhere else: a
 * client that chooses keys cannot make them collide.
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

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key,
			size_t key_len)
{
	uint8_t name[sizeof(tenant) + OKV_KEY_BYTES_MAX];
	size_t used_len = key_len < OKV_KEY_BYTES_MAX ? key_len : OKV_KEY_BYTES_MAX;
	size_t len = name_of(tenant, key, used_len, name);
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, name, len, store->layout.super.hash_key);
	return hash;
}
