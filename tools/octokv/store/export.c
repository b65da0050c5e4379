// SPDX-License-Identifier: GPL-2.0
/*
 * export.c - all records of a store, read from the device in the order in which they lie there
 *
 * Each segment with live records is read once, in large pieces. A record counts if the index points
 * to it. If those that were found are not as many bytes as the index says, some cannot be read, or
 * are not what was written. Then what is found of the segment is taken out of the index, and what
 * is left there are the lost ones, each with its place and its tenant. A store that is whole keeps
 * its index as it is, which a process that shares the memory of another one has to (fork).
 */
#include "log/compress.h"
#include "log/pack.h"
#include "log/record.h"
#include "map.h"
#include "mem.h"
#include "segment.h"

static void nothing_more(struct okv_partition *p)
{
	(void)p;
}

/* The blocks that the device cannot read are zeros, and hold no record. */
static void read_blocks(struct okv_partition *p, uint32_t segment, char *buf)
{
	uint32_t block_bytes = p->disk->block_bytes;

	for (uint32_t at = 0; at < p->segment_bytes; at += block_bytes) {
		if (!okv_disk_io(p->disk, OKV_READ, okv_segment_offset(p, segment) + at, buf + at,
				 block_bytes))
			continue;
		memset(buf + at, 0, block_bytes);
		p->stats.nr_read_errors++;
	}
}

int okv_segment_read(struct okv_partition *p, uint32_t segment, char *buf)
{
	struct okv_load load;
	int error;

	okv_segment_load(p, &load, segment, buf, UINT32_MAX, nothing_more);
	while (load.nr_pending) {
		error = p->disk->ops->wait(p->disk);
		if (error)
			return error;
	}
	if (load.error)
		read_blocks(p, segment, buf);
	okv_packs_overlay(p, segment, buf);
	return 0;
}

void okv_export_show(struct okv_export *e, const struct okv_partition *p,
		     const struct okv_record_disk *record, struct okv_exported *x)
{
	char *plain = NULL;

	if (!okv_value_is_good(p, x->value, record->value_len, record->value_sum)) {
		x->value = NULL;
	} else if (record->plain_len) {
		plain = okv_plain(x->value, record->value_len, record->plain_len);
		x->value = plain ? plain + OKV_ROOM_BYTES : NULL;
	}
	if (x->value)
		e->nr_records++;
	else
		e->nr_damaged++;
	e->record(e, x);
	mem_free(plain);
}

/*
 * A segment that is walked over. What is counted first, in @bytes, tells whether it is whole: then
 * the index stays as it is. Else what is shown is taken out of it.
 */
struct walk {
	struct okv_partition *p;
	struct okv_export *e;
	const char *buf;
	uint32_t segment;
	uint32_t bytes;
	bool counts, removes;
};

static void show(struct walk *w, const struct okv_record_disk *record, uint32_t at)
{
	struct okv_partition *p = w->p;
	uint32_t block_bytes = p->disk->block_bytes;
	uint64_t location = okv_location(p, w->segment, at);
	struct okv_exported x = {
		.partition = p->number, .tenant = record->tenant, .key_len = record->key_len,
		.value_len = okv_plain_len(record), .key = record + 1,
		.value = w->buf + okv_value_offset(block_bytes, at, record),
		.expire_ms = okv_map_expiry(p, record->hash, location, record->expire_ms),
		.offset_bytes = p->offset_bytes + location * OKV_ALIGN_BYTES,
	};

	if (w->counts) {
		w->bytes += okv_record_bytes(block_bytes, record->key_len, record->value_len);
		return;
	}
	if (w->removes)
		okv_map_remove(p, record->hash, location);
	okv_export_show(w->e, p, record, &x);
}

/* Shows the records of a batch, as far as they can be made out. */
static void show_batch(struct walk *w, uint32_t offset)
{
	const struct okv_batch_disk *b = (const void *)(w->buf + offset);
	struct okv_bounds bounds = okv_batch_bounds(w->p, b, offset);
	uint32_t at = offset + sizeof(*b);

	while (at < bounds.head_end && !w->e->stops) {
		const struct okv_record_disk *record;

		record = okv_record_at(w->p, w->buf, w->segment, at, &bounds);
		if (!record)
			return;
		if (okv_record_has_value(record) &&
		    okv_index_at(&w->p->index, record->hash, okv_location(w->p, w->segment, at)))
			show(w, record, at);
		at += okv_head_bytes(w->p->disk->block_bytes, record->key_len, record->value_len);
	}
}

/*
 * Looks everywhere: what lies behind a batch whose header is spoilt is found, too. A value can hold
 * what looks like a batch of its own place only if its writer knows the secret of the store.
 */
static void show_batches(struct walk *w)
{
	const struct okv_partition *p = w->p;
	uint32_t at = 0;

	for (; at < p->segment_bytes && !w->e->stops; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, w->buf, w->segment, at, p->segment_bytes);
		b = (const void *)(w->buf + at);
		if (at < p->segment_bytes && b->life == p->segments[w->segment].life)
			show_batch(w, at);
	}
}

/* The record that an entry promises; false: it is not there. */
static bool show_promised(struct walk *w, const struct okv_entry *entry)
{
	struct okv_partition *p = w->p;
	uint32_t block_bytes = p->disk->block_bytes, bytes = entry->size * OKV_ALIGN_BYTES;
	uint32_t at = (uint64_t)entry->location * OKV_ALIGN_BYTES % p->segment_bytes;
	struct okv_bounds bounds = { .head_end = at + bytes, .end = at + bytes };
	const struct okv_record_disk *record;

	if (entry->apart) {
		bounds.head_end = (at / block_bytes + entry->apart) * block_bytes;
		bounds.end = p->segment_bytes;
	}
	record = okv_record_at(p, w->buf, w->segment, at, &bounds);
	if (!record || record->apart != entry->apart)
		return false;
	show(w, record, at);
	return true;
}

static void show_lost(struct walk *w, const struct okv_entry *entry)
{
	struct okv_exported x = {
		.partition = w->p->number, .tenant = entry->tenant,
		.offset_bytes = w->p->offset_bytes + (uint64_t)entry->location * OKV_ALIGN_BYTES,
	};

	w->e->nr_damaged++;
	w->e->record(w->e, &x);
}

/*
 * What the index still promises of the segment: first the records behind a spoilt one in its batch,
 * then what is lost. To show a record changes the shard, which is begun again then; so little of a
 * store is damaged.
 */
static void show_rest(struct walk *w)
{
	const struct okv_index *ix = &w->p->index;

	for (uint32_t i = 0; i < 2 * okv_index_nr_shards(ix); i++) {
		const struct okv_shard *s = &ix->shards[i % okv_index_nr_shards(ix)];
		bool lost = i >= okv_index_nr_shards(ix);

		for (uint32_t j = 0; j < s->nr_slots && !w->e->stops; j++) {
			const struct okv_entry *entry = &s->entries[j];

			if (!entry->size || okv_segment_of(w->p, entry->location) != w->segment)
				continue;
			if (lost)
				show_lost(w, entry);
			else if (show_promised(w, entry))
				j = UINT32_MAX;
		}
	}
}

static int export_segment(struct okv_partition *p, struct okv_export *e, uint32_t segment,
			  char *buf)
{
	struct walk w = { .p = p, .e = e, .buf = buf, .segment = segment, .counts = true };
	int error = okv_segment_read(p, segment, buf);

	if (error)
		return error;
	show_batches(&w);
	w.counts = false;
	w.removes = w.bytes != p->segments[segment].live_bytes;
	show_batches(&w);
	if (w.removes)
		show_rest(&w);
	return 0;
}

int okv_store_export(struct okv_store *store, struct okv_export *e)
{
	int error = 0;

	for (uint32_t i = 0; i < store->info.nr_partitions && !error; i++) {
		struct okv_partition *p = store->partitions[i];
		char *buf;

		if (!p)
			continue;
		buf = okv_alloc_blocks(p->disk, p->segment_bytes);
		for (uint32_t j = 0; j < p->nr_segments && !error && !e->stops; j++)
			if (p->segments[j].live_bytes)
				error = export_segment(p, e, j, buf);
		mem_free(buf);
	}
	return error;
}
