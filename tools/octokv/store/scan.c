// SPDX-License-Identifier: GPL-2.0
/*
 * scan.c - walks over the keys of a tenant, step by step
 *
 * The cursor is an identity, shard and tag. A step takes the smallest identities from the cursor on
 * and reads the keys behind them, each under the lock of that identity. The next cursor is the last
 * one plus 1. That order has nothing to do with where entries and records lie. So growth, moves and
 * overwrites between steps neither hide a key nor stop the walk.
 *
 * A step looks at so many slots of the index and no more, of all tenants, as nothing else runs
 * meanwhile. So it may show nothing and yet not be the last step.
 *
 * A walk does not show expired keys, and removes them behind itself. So FLUSHALL, which deletes
 * what a walk shows, leaves none of them.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "partition.h"

enum { SCAN_SLOTS = 16384 };	/* some 100 us */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * The tags of a tenant in a shard, from @from on, sorted and each once; returns how many. The
 * caller frees them.
 */
static uint32_t tags_of(const struct okv_partition *p, uint32_t shard, uint16_t tenant,
			uint64_t from, uint64_t **tags)
{
	const struct okv_shard *s = &p->index.shards[shard];
	uint32_t nr = 0, nr_single = 0;

	*tags = mem_zalloc((s->nr_entries + 1) * sizeof(**tags));
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		const struct okv_entry *e = &s->entries[i];

		if (e->size && e->tenant == tenant && e->tag >= from)
			(*tags)[nr++] = e->tag;
	}
	qsort(*tags, nr, sizeof(**tags), by_value);
	for (uint32_t i = 0; i < nr; i++) {
		if (!i || (*tags)[i] != (*tags)[i - 1])
			(*tags)[nr_single++] = (*tags)[i];
	}
	return nr_single;
}

static void op_seen(struct okv_op *op, const struct okv_record_disk *record)
{
	struct okv_scan *scan = op->owner;

	scan->key(scan, record + 1, record->key_len, record->value_len, record->expire_ms);
}

static void end_one(struct okv_scan *scan)
{
	if (--scan->nr_pending == 0)
		scan->done(scan);
}

static void op_done(struct okv_op *op)
{
	struct okv_scan *scan = op->owner;

	if (op->status != OKV_OK)
		scan->status = op->status;
	if (op->expired)
		okv_expire(op->partition, op->tenant, op->hash);
	mem_free(op);
	end_one(scan);
}

static void read_keys(struct okv_partition *p, struct okv_scan *scan, uint32_t shard, uint64_t tag)
{
	struct okv_op *op = mem_zalloc(sizeof(*op));

	op->kind = OKV_OP_KEYS;
	op->tenant = scan->tenant;
	op->ioprio = scan->ioprio;
	op->hash = okv_index_hash(&p->index, p->number, shard, tag);
	op->seen = op_seen;
	op->done = op_done;
	op->owner = scan;
	scan->nr_pending++;
	okv_partition_submit(p, op);
}

void okv_partition_scan(struct okv_partition *p, struct okv_scan *scan)
{
	uint64_t shard = scan->cursor >> OKV_TAG_BITS;
	uint64_t from = scan->cursor & ((1ULL << OKV_TAG_BITS) - 1);
	uint32_t nr_left = scan->nr_max ? scan->nr_max : 1, nr_slots = 0;
	uint32_t nr_shards = okv_index_nr_shards(&p->index);

	scan->status = OKV_OK;
	scan->partition = p;
	scan->nr_pending = 1;
	for (; shard < nr_shards && nr_left && nr_slots < SCAN_SLOTS; shard++, from = 0) {
		uint64_t *tags;
		uint32_t nr = tags_of(p, shard, scan->tenant, from, &tags), i;

		for (i = 0; i < nr && nr_left; i++, nr_left--)
			read_keys(p, scan, shard, tags[i]);
		nr_slots += p->index.shards[shard].nr_slots;
		if (!nr_left && i)
			scan->cursor = (shard << OKV_TAG_BITS | tags[i - 1]) + 1;
		mem_free(tags);
	}
	if (nr_left)
		scan->cursor = shard < nr_shards ? shard << OKV_TAG_BITS : 0;
	end_one(scan);
}
