// SPDX-License-Identifier: GPL-2.0
/*
 * index.c - shards of the index: linear probing, removal by moving back, rebuilt by sixths
 *
 * A slot follows from the low 32 bits of the tag as a fraction of the shard's size, so that any
 * size will do. A run of entries ends at an empty slot. Removal closes the gap with the entries of
 * the run that may go there, so there are no marks of removed entries and nothing to clean up.
 *
 * A walk takes entries in the order of their low bits. That is nearly the order of their slots. But
 * within a run any order occurs, so a walk takes whole runs, and sorts them. And the run at the end
 * of the array may go on at its beginning: that part is looked at last.
 */
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "index.h"
#include "mem.h"

#define RECORD_BYTES_MAX \
	(OKV_VALUE_BYTES_MAX + OKV_KEY_BYTES_MAX + sizeof(struct okv_record_disk))

static_assert(sizeof(struct okv_entry) == 16, "an index entry has 16 bytes");
static_assert(RECORD_BYTES_MAX / OKV_ALIGN_BYTES + 1 < 1 << 20, "the longest record's size fits");
static_assert(OKV_NR_TENANTS <= 1 << OKV_TENANT_BITS, "a tenant's number fits");

#define TAG_MASK ((1ULL << OKV_TAG_BITS) - 1)

void okv_index_init(struct okv_index *ix, uint32_t partition_bits, uint64_t partition_bytes)
{
	memset(ix, 0, sizeof(*ix));
	ix->partition_bits = partition_bits;
	while (ix->shard_bits < OKV_SHARD_BITS_MAX &&
	       (1ULL << 20 << ix->shard_bits) < partition_bytes)
		ix->shard_bits++;
	ix->shards = mem_zalloc(sizeof(*ix->shards) << ix->shard_bits);
}

void okv_index_free(struct okv_index *ix)
{
	for (uint32_t i = 0; ix->shards && i < okv_index_nr_shards(ix); i++) {
		mem_free(ix->shards[i].entries);
		mem_free(ix->shards[i].expiries);
	}
	mem_free(ix->shards);
	ix->shards = NULL;
}

uint32_t okv_index_shard(const struct okv_index *ix, uint64_t hash)
{
	return ix->shard_bits ? hash << ix->partition_bits >> (64 - ix->shard_bits) : 0;
}

uint64_t okv_index_identity(const struct okv_index *ix, uint64_t hash)
{
	return (uint64_t)okv_index_shard(ix, hash) << OKV_TAG_BITS | (hash & TAG_MASK);
}

uint64_t okv_index_hash(const struct okv_index *ix, uint64_t partition, uint32_t shard,
			uint64_t tag)
{
	uint64_t top = (partition << ix->shard_bits | shard);
	uint32_t nr_bits = ix->partition_bits + ix->shard_bits;

	return (nr_bits ? top << (64 - nr_bits) : 0) | tag;
}

static uint32_t home_of(const struct okv_shard *s, uint64_t tag)
{
	return (tag & UINT32_MAX) * s->nr_slots >> 32;
}

static uint32_t after(const struct okv_shard *s, uint32_t slot)
{
	return slot + 1 < s->nr_slots ? slot + 1 : 0;
}

bool okv_index_find(const struct okv_index *ix, uint64_t hash, uint32_t tenant, uint64_t from,
		    struct okv_entry *found)
{
	const struct okv_shard *s = &ix->shards[okv_index_shard(ix, hash)];
	uint64_t tag = hash & TAG_MASK;
	bool any = false;

	if (!s->nr_entries)
		return false;
	for (uint32_t slot = home_of(s, tag); s->entries[slot].size; slot = after(s, slot)) {
		const struct okv_entry *e = &s->entries[slot];

		if (e->tag == tag && e->location >= from &&
		    (e->tenant == tenant || tenant == OKV_ALL_TENANTS) &&
		    (!any || e->location < found->location)) {
			*found = *e;
			any = true;
		}
	}
	return any;
}

struct okv_entry *okv_index_at(const struct okv_index *ix, uint64_t hash, uint64_t location)
{
	const struct okv_shard *s = &ix->shards[okv_index_shard(ix, hash)];

	if (!s->nr_entries)
		return NULL;
	for (uint32_t slot = home_of(s, hash & TAG_MASK); s->entries[slot].size;
	     slot = after(s, slot)) {
		if (s->entries[slot].location == location &&
		    s->entries[slot].tag == (hash & TAG_MASK))
			return &s->entries[slot];
	}
	return NULL;
}

static void put_in(struct okv_shard *s, const struct okv_entry *entry)
{
	uint32_t slot = home_of(s, entry->tag);

	while (s->entries[slot].size)
		slot = after(s, slot);
	s->entries[slot] = *entry;
}

static void rebuild(struct okv_index *ix, struct okv_shard *s, uint32_t nr_slots)
{
	struct okv_shard old = *s;

	ix->nr_slots += nr_slots;
	ix->nr_slots -= old.nr_slots;
	s->nr_slots = nr_slots;
	s->entries = nr_slots ? mem_zalloc(nr_slots * sizeof(*s->entries)) : NULL;
	for (uint32_t i = 0; i < old.nr_slots; i++) {
		if (old.entries[i].size)
			put_in(s, &old.entries[i]);
	}
	mem_free(old.entries);
}

void okv_index_reserve(struct okv_index *ix, uint32_t shard, uint32_t nr_entries)
{
	if (nr_entries && !ix->shards[shard].nr_slots)
		rebuild(ix, &ix->shards[shard], nr_entries + nr_entries / 3 + 4);
}

void okv_index_add(struct okv_index *ix, uint32_t shard, const struct okv_entry *entry)
{
	struct okv_shard *s = &ix->shards[shard];

	/* One slot stays empty, or a search would not end. */
	if (s->nr_entries + 2 + s->nr_slots / 8 > s->nr_slots)
		rebuild(ix, s, s->nr_slots + s->nr_slots / 6 + 4);
	put_in(s, entry);
	s->nr_entries++;
	ix->nr_entries++;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* ---- expiries ---- */

/* The place of the first expiry of @e that is not before @location. */
static uint32_t expiry_slot(const struct okv_expiries *e, uint64_t location)
{
	uint32_t from = 0, to = e ? e->nr : 0;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (e->at[middle].location < location)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool has_expiry(const struct okv_expiries *e, uint32_t slot, uint64_t location)
{
	return e && slot < e->nr && e->at[slot].location == location;
}

/* With room for so many. */
static void resize_expiries(struct okv_index *ix, struct okv_shard *s, uint32_t nr_max)
{
	struct okv_expiries *e = s->expiries;
	uint32_t nr = e ? e->nr : 0;

	ix->nr_expiries_max += nr_max;
	ix->nr_expiries_max -= e ? e->nr_max : 0;
	if (!nr_max) {
		mem_free(e);
		s->expiries = NULL;
		return;
	}
	e = mem_grow(e, sizeof(*e) + nr_max * sizeof(e->at[0]));
	e->nr = nr;
	e->nr_max = nr_max;
	s->expiries = e;
}

const struct okv_expiry *okv_index_expiry(const struct okv_index *ix, uint64_t hash,
					  uint64_t location)
{
	const struct okv_expiries *e = ix->shards[okv_index_shard(ix, hash)].expiries;
	uint32_t slot = expiry_slot(e, location);

	return has_expiry(e, slot, location) ? &e->at[slot] : NULL;
}

void okv_index_set_expiry(struct okv_index *ix, uint32_t shard, uint64_t location,
			  uint64_t expire_ms)
{
	struct okv_shard *s = &ix->shards[shard];
	uint32_t slot = expiry_slot(s->expiries, location);

	if (!has_expiry(s->expiries, slot, location)) {
		uint32_t nr = s->expiries ? s->expiries->nr : 0;

		if (!nr || nr == s->expiries->nr_max)
			resize_expiries(ix, s, nr + nr / 4 + 1);
		memmove(&s->expiries->at[slot + 1], &s->expiries->at[slot],
			(nr - slot) * sizeof(s->expiries->at[0]));
		s->expiries->nr++;
		ix->nr_expiries++;
	}
	s->expiries->at[slot] = (struct okv_expiry){
		.location = location, .expire_ms = expire_ms,
	};
}

/* If they have become few: give memory back. */
static void shrink_expiries(struct okv_index *ix, struct okv_shard *s)
{
	uint32_t nr = s->expiries->nr;

	if (!nr || nr < s->expiries->nr_max / 2)
		resize_expiries(ix, s, nr + nr / 4);
}

static void remove_expiry(struct okv_index *ix, struct okv_shard *s, uint64_t location)
{
	struct okv_expiries *e = s->expiries;
	uint32_t slot = expiry_slot(e, location);

	if (!has_expiry(e, slot, location))
		return;
	e->nr--;
	ix->nr_expiries--;
	memmove(&e->at[slot], &e->at[slot + 1], (e->nr - slot) * sizeof(e->at[0]));
	shrink_expiries(ix, s);
}

/* Remove the expiries at so many locations, if there are any. */
static void remove_expiries(struct okv_index *ix, struct okv_shard *s, uint64_t *locations,
			    uint32_t nr)
{
	struct okv_expiries *e = s->expiries;
	uint32_t nr_left = 0, at = 0;

	qsort(locations, nr, sizeof(*locations), by_value);
	for (uint32_t i = 0; i < e->nr; i++) {
		while (at < nr && locations[at] < e->at[i].location)
			at++;
		if (at == nr || locations[at] != e->at[i].location)
			e->at[nr_left++] = e->at[i];
	}
	ix->nr_expiries -= e->nr - nr_left;
	e->nr = nr_left;
	shrink_expiries(ix, s);
}

/* May an entry move from @slot back to @gap? Not if its home lies between them. */
static bool may_move(uint32_t home, uint32_t gap, uint32_t slot)
{
	return gap < slot ? home <= gap || home > slot : home <= gap && home > slot;
}

void okv_index_remove(struct okv_index *ix, uint32_t shard, struct okv_entry *entry)
{
	struct okv_shard *s = &ix->shards[shard];
	uint32_t gap = entry - s->entries;

	remove_expiry(ix, s, entry->location);
	for (uint32_t slot = after(s, gap); s->entries[slot].size; slot = after(s, slot)) {
		if (may_move(home_of(s, s->entries[slot].tag), gap, slot)) {
			s->entries[gap] = s->entries[slot];
			gap = slot;
		}
	}
	memset(&s->entries[gap], 0, sizeof(s->entries[gap]));
	s->nr_entries--;
	ix->nr_entries--;
	if (s->nr_slots > 16 && s->nr_entries < s->nr_slots / 16 * 11)
		rebuild(ix, s, s->nr_entries / 3 * 4 + 4);
	else if (!s->nr_entries)
		rebuild(ix, s, 0);
}

void okv_index_clear(struct okv_index *ix, uint32_t shard, uint32_t tenant)
{
	struct okv_shard *s = &ix->shards[shard];
	uint64_t *locations = s->expiries ? mem_alloc(s->nr_entries * sizeof(*locations)) : NULL;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < s->nr_slots; i++) {
		struct okv_entry *e = &s->entries[i];

		if (!e->size || e->tenant != tenant)
			continue;
		if (locations)
			locations[nr] = e->location;
		e->size = 0;
		nr++;
	}
	if (locations)
		remove_expiries(ix, s, locations, nr);
	mem_free(locations);
	if (!nr)
		return;
	s->nr_entries -= nr;
	ix->nr_entries -= nr;
	rebuild(ix, s, s->nr_entries ? s->nr_entries + s->nr_entries / 3 + 4 : 0);
}

/* ---- walks ---- */

static uint64_t place_of(uint64_t tag)
{
	return (tag & UINT32_MAX) << (OKV_TAG_BITS - 32) | tag >> 32;
}

static uint32_t sort_single(uint64_t *at, uint32_t nr)
{
	uint32_t nr_single = 0;

	if (!nr)
		return 0;
	qsort(at, nr, sizeof(*at), by_value);
	for (uint32_t i = 0; i < nr; i++)
		if (!i || at[i] != at[i - 1])
			at[nr_single++] = at[i];
	return nr_single;
}

static void add_place(struct okv_places *found, uint32_t *cap, uint64_t place)
{
	if (found->nr == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		found->at = mem_grow(found->at, *cap * sizeof(*found->at));
	}
	found->at[found->nr++] = place;
}

void okv_index_places(const struct okv_index *ix, uint32_t shard, const struct okv_which *which,
		      uint64_t from, uint32_t nr_wanted, struct okv_places *found)
{
	const struct okv_shard *s = &ix->shards[shard];
	uint32_t cap = 0;

	*found = (struct okv_places){ .is_all = true };
	if (!s->nr_entries)
		return;
	/* Beyond the last slot, the run that goes on at the beginning. */
	for (uint64_t i = home_of(s, okv_index_tag_at(from)); ; i++) {
		bool is_beyond = i >= s->nr_slots;
		uint32_t slot = is_beyond ? i - s->nr_slots : i;
		const struct okv_entry *e = &s->entries[slot];

		found->nr_slots++;
		if (!e->size && (is_beyond || found->nr >= nr_wanted)) {
			found->is_all = is_beyond;
			break;
		}
		if (okv_index_is(e, which) && place_of(e->tag) >= from &&
		    (home_of(s, e->tag) > slot) == is_beyond)
			add_place(found, &cap, place_of(e->tag));
	}
	found->nr = sort_single(found->at, found->nr);
}

uint64_t okv_index_bytes(const struct okv_index *ix)
{
	return ix->nr_slots * sizeof(struct okv_entry) +
	       ix->nr_expiries_max * sizeof(struct okv_expiry) +
	       ((uint64_t)sizeof(*ix->shards) << ix->shard_bits);
}
