// SPDX-License-Identifier: GPL-2.0
/*
 * known.c - records whose keys are in memory: see known.h
 */
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "known.h"
#include "mem.h"

void okv_known_init(struct okv_known_table *t, uint32_t nr)
{
	t->places = mem_zalloc(nr * sizeof(*t->places));
	t->nr = nr;
}

void okv_known_free(struct okv_known_table *t)
{
	mem_free(t->places);
}

/*
 * The places that may have what lies at @location. The locations of batches differ in a regular
 * way, so all bits are mixed.
 */
static struct okv_known *set_of(const struct okv_known_table *t, uint64_t location)
{
	uint64_t mixed = location * 0x9e3779b97f4a7c15;

	mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93;
	return &t->places[(mixed >> 32 & (t->nr - 1)) / OKV_KNOWN_WAYS * OKV_KNOWN_WAYS];
}

/* The place of the set of @location that has @wanted, where 0 is an empty one; or NULL. */
static struct okv_known *find(const struct okv_known_table *t, uint64_t location, uint64_t wanted)
{
	struct okv_known *set = set_of(t, location);

	for (uint32_t i = 0; i < OKV_KNOWN_WAYS; i++) {
		if (set[i].location == wanted)
			return &set[i];
	}
	return NULL;
}

const struct okv_known *okv_known_find(const struct okv_known_table *t, uint64_t location)
{
	return find(t, location, location + 1);
}

void okv_known_set(struct okv_known_table *t, uint64_t location,
		   const struct okv_record_disk *record, const void *key, uint64_t expire_ms)
{
	struct okv_known *known = find(t, location, location + 1);

	if (record->key_len > OKV_KNOWN_KEY_BYTES)
		return;
	if (!known)
		known = find(t, location, 0);
	if (!known)
		known = set_of(t, location) + t->next_victim++ % OKV_KNOWN_WAYS;
	*known = (struct okv_known){
		.location = location + 1, .value_len = record->value_len,
		.expire_ms = expire_ms, .value_sum = record->value_sum,
		.plain_len = record->plain_len, .key_len = record->key_len,
	};
	memcpy(known->key, key, record->key_len);
}

void okv_known_expires(struct okv_known_table *t, uint64_t location, uint64_t expire_ms)
{
	struct okv_known *known = find(t, location, location + 1);

	if (known)
		known->expire_ms = expire_ms;
}

void okv_known_drop(struct okv_known_table *t, uint64_t location)
{
	struct okv_known *known = find(t, location, location + 1);

	if (known)
		known->location = 0;
}
