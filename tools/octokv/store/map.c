// SPDX-License-Identifier: GPL-2.0
/*
 * map.c - the entries of the index, and the sums that change with them: see map.h
 */
#include "map.h"
#include "mem.h"

static void count(struct okv_partition *p, const struct okv_entry *entry, int sign)
{
	int64_t bytes = (int64_t)sign * entry->size * OKV_ALIGN_BYTES;

	p->segments[okv_segment_of(p, entry->location)].live_bytes += bytes;
	p->live_bytes += bytes;
	p->usage[entry->tenant].bytes += bytes;
	p->usage[entry->tenant].nr_keys += sign;
}

/* An entry of a shard comes or goes: others may change their slots. */
static void disturb(struct okv_partition *p, uint32_t shard)
{
	p->sweep_disturbed |= shard == p->sweep_shard;
}

void okv_map_expires(struct okv_partition *p, uint64_t hash, uint64_t expire_ms)
{
	struct okv_shard *s = &p->index.shards[okv_index_shard(&p->index, hash)];

	if (expire_ms < s->due_ms)
		s->due_ms = expire_ms;
}

/* Note a record of a tenant that was cleared. With too many, nothing is known. */
static void note_recent(struct okv_usage *usage, uint64_t hash, uint64_t location)
{
	struct okv_recent *r = usage->recent;

	if (r && r->nr == OKV_NR_RECENT) {
		mem_free(r);
		usage->recent = NULL;
	} else if (r) {
		r->at[r->nr].hash = hash;
		r->at[r->nr++].location = location;
	}
}

void okv_map_add(struct okv_partition *p, const struct okv_record_disk *record, uint64_t location)
{
	uint32_t shard = okv_index_shard(&p->index, record->hash);
	uint32_t bytes = okv_record_bytes(p->disk->block_bytes, record->key_len, record->value_len);
	struct okv_entry e = {
		.location = location, .tenant = record->tenant, .expires = record->expire_ms != 0,
		.size = bytes / OKV_ALIGN_BYTES, .tag = record->hash,
		.apart = record->apart,
	};

	okv_index_add(&p->index, shard, &e);
	disturb(p, shard);
	if (record->expire_ms)
		okv_map_expires(p, record->hash, record->expire_ms);
	count(p, &e, 1);
	note_recent(&p->usage[record->tenant], record->hash, location);
}

bool okv_map_remove(struct okv_partition *p, uint64_t hash, uint64_t location)
{
	struct okv_entry *e = okv_index_at(&p->index, hash, location);
	uint32_t shard = okv_index_shard(&p->index, hash);

	if (!e)
		return false;
	count(p, e, -1);
	okv_index_remove(&p->index, shard, e);
	disturb(p, shard);
	return true;
}

/* Where one was overwritten or has moved, there may be another record, even another tenant's. */
static uint64_t clear_recent(struct okv_partition *p, uint16_t tenant)
{
	struct okv_recent *r = p->usage[tenant].recent;
	uint64_t nr = r->nr;

	for (uint32_t i = 0; i < r->nr; i++) {
		const struct okv_entry *e = okv_index_at(&p->index, r->at[i].hash,
							 r->at[i].location);

		if (!e || e->tenant != tenant)
			continue;
		okv_map_remove(p, r->at[i].hash, r->at[i].location);
		okv_known_drop(&p->known, r->at[i].location);
	}
	r->nr = 0;
	return nr;
}

static uint64_t clear_shard(struct okv_partition *p, uint32_t shard, uint16_t tenant)
{
	const struct okv_shard *s = &p->index.shards[shard];
	uint64_t nr_slots = s->nr_slots;

	for (uint32_t i = 0; i < s->nr_slots; i++) {
		if (!s->entries[i].size || s->entries[i].tenant != tenant)
			continue;
		count(p, &s->entries[i], -1);
		okv_known_drop(&p->known, s->entries[i].location);
	}
	okv_index_clear(&p->index, shard, tenant);
	disturb(p, shard);
	return nr_slots;
}

uint64_t okv_map_clear(struct okv_partition *p, uint16_t tenant)
{
	struct okv_usage *usage = &p->usage[tenant];
	uint64_t nr_looked = 0;

	if (usage->recent)
		return clear_recent(p, tenant);
	for (uint32_t i = 0; usage->nr_keys; i++)
		nr_looked += clear_shard(p, i, tenant);
	usage->recent = mem_zalloc(sizeof(*usage->recent));
	return nr_looked;
}

void okv_map_forget_usage(struct okv_partition *p)
{
	for (uint32_t i = 0; i < OKV_NR_TENANTS; i++) {
		mem_free(p->usage[i].recent);
		p->usage[i] = (struct okv_usage){ 0 };
	}
}

void okv_map_free_usage(struct okv_partition *p)
{
	if (p->usage)
		okv_map_forget_usage(p);
	mem_free(p->usage);
}

void okv_map_set_expiry(struct okv_partition *p, uint64_t hash, uint64_t location,
			uint64_t expire_ms)
{
	struct okv_entry *e = okv_index_at(&p->index, hash, location);

	if (!e)
		return;
	e->expires = expire_ms != 0;
	okv_index_set_expiry(&p->index, okv_index_shard(&p->index, hash), location, expire_ms);
	if (expire_ms)
		okv_map_expires(p, hash, expire_ms);
}

uint64_t okv_map_expiry(const struct okv_partition *p, uint64_t hash, uint64_t location,
			uint64_t expire_ms)
{
	const struct okv_expiry *e = okv_index_expiry(&p->index, hash, location);

	return e ? e->expire_ms : expire_ms;
}

/* May an entry say this? The record has to lie within one segment. */
static bool is_possible(const struct okv_partition *p, const struct okv_entry *e)
{
	uint64_t begin = e->location * OKV_ALIGN_BYTES, bytes = e->size * OKV_ALIGN_BYTES;
	uint64_t end = begin + bytes, block = begin % p->segment_bytes / p->disk->block_bytes;

	/* An apart value may begin less than a block before the end: a read of it is cut there. */
	return e->size && end <= (uint64_t)p->nr_segments * p->segment_bytes &&
	       begin / p->segment_bytes == (end - 1) / p->segment_bytes &&
	       block + e->apart < p->segment_bytes / p->disk->block_bytes &&
	       bytes > sizeof(struct okv_record_disk);
}

bool okv_map_load(struct okv_partition *p, uint32_t shard, const struct okv_entry *entry)
{
	if (!is_possible(p, entry))
		return false;
	okv_index_add(&p->index, shard, entry);
	count(p, entry, 1);
	return true;
}
