// SPDX-License-Identifier: GPL-2.0
/*
 * hash.c - from tenant and key to 64 bits
 *
 * SipHash with a key that was drawn when the device was formatted and is nowhere else: who chooses keys cannot make them
 * collide. The paper (OctoKV) hashes with SHA-1, which anybody can compute; -DOKV_HASH_SHA1 builds that, for comparisons
 * of its cost. A device must then be formatted and used by such a build.
 */
#include <string.h>

#ifdef OKV_HASH_SHA1
#include <openssl/sha.h>
#else
#include <sodium.h>
#endif

#include "partition.h"

static size_t name_of(uint16_t tenant, const void *key, size_t key_len, uint8_t *name)
{
	memcpy(name, &tenant, sizeof(tenant));
	memcpy(name + sizeof(tenant), key, key_len);
	return sizeof(tenant) + key_len;
}

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key, size_t key_len)
{
	uint8_t name[sizeof(tenant) + OKV_KEY_BYTES_MAX];
	size_t len = name_of(tenant, key, key_len < OKV_KEY_BYTES_MAX ? key_len : OKV_KEY_BYTES_MAX, name);
	uint64_t hash;
#ifdef OKV_HASH_SHA1
	uint8_t digest[SHA_DIGEST_LENGTH];

	(void)store;
	SHA1(name, len, digest);
	memcpy(&hash, digest, sizeof(hash));
#else
	crypto_shorthash((unsigned char *)&hash, name, len, store->layout.super.hash_key);
#endif
	return hash;
}
