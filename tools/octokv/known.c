// SPDX-License-Identifier: GPL-2.0
/*
 * known.c - records whose keys are in memory: see known.h
 */
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "known.h"

void okv_known_init(struct okv_known_table *t, uint32_t nr)
{
	t->places = okv_alloc(nr * sizeof(*t->places));
	t->nr = nr;
}

void okv_known_free(struct okv_known_table *t)
{
	free(t->places);
}

/* Records that follow each other differ in their low bits or, where all are large, in the middle ones. */
static struct okv_known *place_of(const struct okv_known_table *t, uint64_t location)
{
	return &t->places[location * 0x9e3779b97f4a7c15 >> 32 & (t->nr - 1)];
}

const struct okv_known *okv_known_find(const struct okv_known_table *t, uint64_t location)
{
	const struct okv_known *known = place_of(t, location);

	return known->location == location + 1 ? known : NULL;
}

void okv_known_set(struct okv_known_table *t, uint64_t location, const struct okv_record_disk *record, const void *key)
{
	struct okv_known *known = place_of(t, location);

	known->location = 0;
	if (record->key_len > OKV_KNOWN_KEY_BYTES)
		return;
	*known = (struct okv_known){
		.location = location + 1, .value_len = record->value_len, .expire_ms = record->expire_ms, .value_sum = record->value_sum,
		.key_len = record->key_len,
	};
	memcpy(known->key, key, record->key_len);
}
