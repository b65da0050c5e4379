// SPDX-License-Identifier: GPL-2.0
/*
 * store.c - a store: the partitions of a device that one thread has opened
 *
 * Each partition is recovered at the open, and closed with a checkpoint so that the next open replays nothing. The sums
 * that depend on the index (live bytes of a segment, what a tenant uses) change here, together with it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "partition.h"

enum { WRITES_OF_A_DEVICE = 4 };

void okv_map_count(struct okv_partition *p, const struct okv_entry *entry, int sign)
{
	int64_t bytes = (int64_t)sign * entry->size * OKV_ALIGN_BYTES;

	p->segments[okv_segment_of(p, entry->location)].live_bytes += bytes;
	p->live_bytes += bytes;
	p->usage[entry->tenant].bytes += bytes;
	p->usage[entry->tenant].nr_keys += sign;
}

void okv_map_add(struct okv_partition *p, const struct okv_record_disk *record, uint64_t location)
{
	struct okv_entry e = {
		.location = location, .tenant = record->tenant, .expires = record->expire_ms != 0,
		.size = okv_record_bytes(p->disk->block_bytes, record->key_len, record->value_len) / OKV_ALIGN_BYTES, .tag = record->hash,
		.apart = record->apart,
	};

	okv_index_add(&p->index, okv_index_shard(&p->index, record->hash), &e);
	okv_map_count(p, &e, 1);
}

bool okv_map_remove(struct okv_partition *p, uint64_t hash, uint64_t location)
{
	struct okv_entry *e = okv_index_at(&p->index, hash, location);

	if (!e)
		return false;
	okv_map_count(p, e, -1);
	okv_index_remove(&p->index, okv_index_shard(&p->index, hash), e);
	return true;
}

static void free_partition(struct okv_partition *p)
{
	okv_index_free(&p->index);
	okv_known_free(&p->known);
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		free(p->roots[i].segments);
	free(p->usage);
	free(p->segments);
	free(p);
}

/* Few writes and large ones, and yet some in flight where there are few partitions. */
static uint32_t writes_max(const struct okv_super_disk *super)
{
	return super->nr_partitions < WRITES_OF_A_DEVICE ? WRITES_OF_A_DEVICE / super->nr_partitions : 1;
}

static int open_partition(struct okv_store *store, uint32_t number, struct okv_partition **opened)
{
	const struct okv_super_disk *super = &store->layout.super;
	const struct okv_open_options *options = &store->options;
	struct okv_partition *p = okv_alloc(sizeof(*p));
	int error;

	p->store = store;
	p->disk = store->disk;
	p->layout = &store->layout;
	p->number = number;
	p->segment_bytes = super->segment_bytes;
	p->nr_segments = super->nr_segments;
	p->offset_bytes = super->data_offset_bytes + (uint64_t)number * super->nr_segments * super->segment_bytes;
	p->open_segment = p->nr_segments;
	p->nr_writes_max = options->nr_writes_max ? options->nr_writes_max : writes_max(super);
	p->batch_bytes_max = options->batch_bytes_max ? options->batch_bytes_max : 256 << 10;
	p->now_ms = options->now_ms;
	p->segments = okv_alloc(p->nr_segments * sizeof(*p->segments));
	p->usage = okv_alloc(OKV_NR_TENANTS * sizeof(*p->usage));
	okv_known_init(&p->known, options->nr_known ? options->nr_known : OKV_NR_KNOWN);
	p->is_quiet = true;
	error = okv_recover(p);
	p->is_quiet = false;
	if (error)
		free_partition(p);
	else
		*opened = p;
	return error;
}

static void fill_info(const struct okv_layout *layout, struct okv_device_info *info)
{
	const struct okv_super_disk *super = &layout->super;

	memcpy(info->uuid, super->uuid, sizeof(info->uuid));
	info->version = super->version;
	info->block_bytes = super->block_bytes;
	info->nr_partitions = super->nr_partitions;
	info->segment_bytes = super->segment_bytes;
	info->nr_segments = super->nr_segments;
	info->value_bytes_max = layout->value_bytes_max;
	info->size_bytes = super->size_bytes;
	info->nr_copies = OKV_NR_SUPERS;
}

int okv_device_info(struct okv_disk *disk, struct okv_device_info *info)
{
	struct okv_layout layout = { 0 };
	int error;

	memset(info, 0, sizeof(*info));
	error = okv_layout_read(disk, &layout, &info->nr_copies_bad);
	if (!error)
		fill_info(&layout, info);
	return error;
}

void okv_store_drop(struct okv_store *store)
{
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			free_partition(store->partitions[i]);
	}
	free(store->partitions);
	free(store);
}

int okv_store_open(struct okv_store **opened, struct okv_disk *disk, const struct okv_open_options *options)
{
	struct okv_store *store = okv_alloc(sizeof(*store));
	uint32_t nr_bad, nr;
	int error;

	store->disk = disk;
	store->options = *options;
	error = okv_layout_read(disk, &store->layout, &nr_bad);
	if (error)
		goto err_store;
	/* As it was laid out, which may be in larger blocks than the device asks for now. */
	disk->block_bytes = store->layout.super.block_bytes;
	fill_info(&store->layout, &store->info);
	store->info.nr_copies_bad = nr_bad;
	nr = options->nr_partitions ? options->nr_partitions : store->info.nr_partitions;
	if (options->first_partition + nr > store->info.nr_partitions) {
		error = -EINVAL;
		goto err_store;
	}
	store->partitions = okv_alloc(store->info.nr_partitions * sizeof(struct okv_partition *));
	for (uint32_t i = options->first_partition; i < options->first_partition + nr && !error; i++)
		error = open_partition(store, i, &store->partitions[i]);
	if (error) {
		okv_store_drop(store);
		return error;
	}
	*opened = store;
	return 0;

err_store:
	free(store);
	return error;
}

static bool is_busy(const struct okv_partition *p)
{
	return p->nr_ops || p->gc.active || !okv_log_is_idle(p) || p->flush_in_flight || p->nr_headers || p->nr_preparing || p->allocating || p->nr_unsettled ||
	       p->checkpoint.step != OKV_CHECKPOINT_NONE;
}

static void close_partition(struct okv_partition *p)
{
	int error = 0;

	while (p->nr_ops > p->gc.nr_moving && !error)
		error = p->disk->ops->wait(p->disk);
	p->is_quiet = true;
	okv_maintain(p);
	while (is_busy(p) && !error)
		error = p->disk->ops->wait(p->disk);
	/* With no segment open there is nothing to look for behind the checkpoint. */
	okv_log_seal(p);
	if (!error && !p->refusing)
		okv_checkpoint_wait(p);
}

void okv_store_close(struct okv_store *store)
{
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			close_partition(store->partitions[i]);
	}
	okv_store_drop(store);
}

bool okv_partition_settle(struct okv_partition *p)
{
	if (!p->is_quiet) {
		if (p->nr_ops > p->gc.nr_moving)
			return false;
		p->is_quiet = true;
		okv_maintain(p);
	}
	return !is_busy(p);
}

struct okv_partition *okv_store_detach(struct okv_store *store, uint32_t partition)
{
	struct okv_partition *p = store->partitions[partition];

	store->partitions[partition] = NULL;
	return p;
}

void okv_store_attach(struct okv_store *store, struct okv_partition *p)
{
	store->partitions[p->number] = p;
	p->store = store;
	p->disk = store->disk;
	p->layout = &store->layout;
	p->is_quiet = false;
	okv_maintain(p);
}

uint32_t okv_store_partition_of(const struct okv_store *store, uint64_t hash)
{
	return store->layout.partition_bits ? hash >> (64 - store->layout.partition_bits) : 0;
}

struct okv_partition *okv_store_partition(struct okv_store *store, uint32_t partition)
{
	return partition < store->info.nr_partitions ? store->partitions[partition] : NULL;
}

const struct okv_device_info *okv_store_info(const struct okv_store *store)
{
	return &store->info;
}

static void add_stats(const struct okv_partition *p, struct okv_stats *sum)
{
	const struct okv_stats *s = &p->stats;
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	for (size_t i = 0; i < offsetof(struct okv_stats, nr_refusing) / sizeof(*to); i++)
		to[i] += from[i];
	sum->nr_keys += p->index.nr_entries;
	sum->live_bytes += p->live_bytes;
	sum->capacity_bytes += okv_log_capacity(p);
	sum->index_bytes += okv_index_bytes(&p->index);
	sum->known_bytes += p->known.nr * sizeof(*p->known.places);
	sum->nr_segments += p->nr_segments;
	sum->nr_free_segments += p->nr_free + p->nr_holes;
	sum->nr_refusing += p->refusing;
}

void okv_store_stats(const struct okv_store *store, struct okv_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			add_stats(store->partitions[i], stats);
	}
}

void okv_store_tenant_usage(const struct okv_store *store, uint16_t tenant, uint64_t *bytes, uint64_t *nr_keys)
{
	*bytes = *nr_keys = 0;
	for (uint32_t i = 0; i < store->info.nr_partitions && tenant < OKV_NR_TENANTS; i++) {
		if (!store->partitions[i])
			continue;
		*bytes += store->partitions[i]->usage[tenant].bytes;
		*nr_keys += store->partitions[i]->usage[tenant].nr_keys;
	}
}
