// SPDX-License-Identifier: GPL-2.0
/*
 * export.c - all records of a store, read from the device in the order in which they lie there
 *
 * Each segment with live records is read once, in large pieces. A record counts if the index points
 * to it. What has been shown is taken out of the index. So what is left in the end are the records
 * that cannot be read, or are not what was written, each with its place and its tenant. Nothing
 * else uses the store meanwhile, and it can only be dropped afterwards.
 */
#include "map.h"
#include "mem.h"
#include "record.h"
#include "segment.h"

static void nothing_more(struct okv_partition *p)
{
	(void)p;
}

/* The blocks that the device cannot read are zeros, and hold no record. */
static void read_blocks(struct okv_partition *p, uint32_t segment, char *buf)
{
	uint32_t block_bytes = p->disk->block_bytes;

	for (uint32_t at = 0; at < p->segment_bytes; at += block_bytes)
		if (okv_disk_io(p->disk, OKV_READ, okv_segment_offset(p, segment) + at, buf + at,
				block_bytes))
			memset(buf + at, 0, block_bytes);
}

static int read_segment(struct okv_partition *p, uint32_t segment, char *buf)
{
	struct okv_load load;
	int error;

	okv_segment_load(p, &load, segment, buf, nothing_more);
	while (load.nr_pending) {
		error = p->disk->ops->wait(p->disk);
		if (error)
			return error;
	}
	if (load.error)
		read_blocks(p, segment, buf);
	return 0;
}

static void show(struct okv_partition *p, struct okv_export *e,
		 const struct okv_record_disk *record, const char *value, uint64_t location)
{
	struct okv_exported x = {
		.partition = p->number, .tenant = record->tenant, .key_len = record->key_len,
		.value_len = record->value_len, .key = record + 1, .value = value,
		.expire_ms = record->expire_ms,
		.offset_bytes = p->offset_bytes + location * OKV_ALIGN_BYTES,
	};

	if (!okv_value_is_good(p, value, record->value_len, record->value_sum))
		x.value = NULL;
	okv_map_remove(p, record->hash, location);
	if (x.value)
		e->nr_records++;
	else
		e->nr_damaged++;
	e->record(e, &x);
}

/* Shows the records of a batch, as far as they can be made out. */
static void show_batch(struct okv_partition *p, struct okv_export *e, const char *buf,
		       uint32_t segment, uint32_t offset)
{
	const struct okv_batch_disk *b = (const void *)(buf + offset);
	struct okv_bounds bounds = { .head_end = offset + b->head_bytes, .end = offset + b->bytes };
	uint32_t at = offset + sizeof(*b), block_bytes = p->disk->block_bytes;

	while (at < bounds.head_end && !e->stops) {
		const struct okv_record_disk *record = okv_record_at(p, buf, segment, at, &bounds);
		uint64_t location = okv_location(p, segment, at);

		if (!record)
			return;
		if (record->kind == OKV_RECORD_PUT &&
		    okv_index_at(&p->index, record->hash, location))
			show(p, e, record, buf + okv_value_offset(block_bytes, at, record),
			     location);
		at += okv_head_bytes(block_bytes, record->key_len, record->value_len);
	}
}

/* The record that an entry promises in this segment; false: it is not there. */
static bool show_promised(struct okv_partition *p, struct okv_export *e, const char *buf,
			  uint32_t segment, const struct okv_entry *entry)
{
	uint32_t block_bytes = p->disk->block_bytes, bytes = entry->size * OKV_ALIGN_BYTES;
	uint64_t location = entry->location;
	uint32_t at = location * OKV_ALIGN_BYTES % p->segment_bytes;
	struct okv_bounds bounds = { .head_end = at + bytes, .end = at + bytes };
	const struct okv_record_disk *record;

	if (entry->apart) {
		bounds.head_end = (at / block_bytes + entry->apart) * block_bytes;
		bounds.end = p->segment_bytes;
	}
	record = okv_record_at(p, buf, segment, at, &bounds);
	if (!record || record->apart != entry->apart)
		return false;
	show(p, e, record, buf + okv_value_offset(block_bytes, at, record), location);
	return true;
}

/*
 * The records behind a spoilt one in the same batch. To show one changes the shard, which is begun
 * again then; so little of a store is damaged.
 */
static void show_behind_damage(struct okv_partition *p, struct okv_export *e, const char *buf,
			       uint32_t segment)
{
	for (uint32_t i = 0; i < okv_index_nr_shards(&p->index) && !e->stops; i++) {
		const struct okv_shard *s = &p->index.shards[i];

		for (uint32_t j = 0; j < s->nr_slots && !e->stops; j++) {
			const struct okv_entry *entry = &s->entries[j];

			if (entry->size && okv_segment_of(p, entry->location) == segment &&
			    show_promised(p, e, buf, segment, entry))
				j = UINT32_MAX;
		}
	}
}

/*
 * Looks at every block: what lies behind a batch whose header is spoilt is found, too. A value can
 * hold what looks like a batch of its own place only if its writer knows the secret of the store.
 */
static int export_segment(struct okv_partition *p, struct okv_export *e, uint32_t segment,
			  char *buf)
{
	uint32_t block_bytes = p->disk->block_bytes;
	int error = read_segment(p, segment, buf);

	for (uint32_t at = 0; at < p->segment_bytes && !error && !e->stops; at += block_bytes) {
		const struct okv_batch_disk *b = (const void *)(buf + at);

		if (okv_batch_is_good(p, b, segment, at) && b->life == p->segments[segment].life)
			show_batch(p, e, buf, segment, at);
	}
	if (!error && p->segments[segment].live_bytes)
		show_behind_damage(p, e, buf, segment);
	return error;
}

/* What the index promised, and no segment had. */
static void show_lost(struct okv_partition *p, struct okv_export *e)
{
	for (uint32_t i = 0; i < okv_index_nr_shards(&p->index) && !e->stops; i++) {
		const struct okv_shard *s = &p->index.shards[i];

		for (uint32_t j = 0; j < s->nr_slots; j++) {
			const struct okv_entry *entry = &s->entries[j];
			struct okv_exported x = {
				.partition = p->number, .tenant = entry->tenant,
				.offset_bytes = p->offset_bytes +
						(uint64_t)entry->location * OKV_ALIGN_BYTES,
			};

			if (!entry->size)
				continue;
			e->nr_damaged++;
			e->record(e, &x);
		}
	}
}

int okv_store_export(struct okv_store *store, struct okv_export *e)
{
	int error = 0;

	for (uint32_t i = 0; i < store->info.nr_partitions && !error; i++) {
		struct okv_partition *p = store->partitions[i];
		char *buf;

		if (!p)
			continue;
		buf = mem_work_wait(okv_align_of(p->disk), p->segment_bytes);
		for (uint32_t j = 0; j < p->nr_segments && !error && !e->stops; j++)
			if (p->segments[j].live_bytes)
				error = export_segment(p, e, j, buf);
		mem_work_end(buf, p->segment_bytes);
		if (!error)
			show_lost(p, e);
	}
	return error;
}
