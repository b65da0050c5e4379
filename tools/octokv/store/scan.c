// SPDX-License-Identifier: GPL-2.0
/*
 * scan.c - walks over the keys of a tenant or of a slot, step by step
 *
 * The cursor is a shard and a place in it (index.h), which stand for an identity. A step takes the
 * next identities from the cursor on and reads the keys behind them, each under the lock of that
 * identity. The next cursor is the last one plus 1. That order follows from the hash alone. So
 * growth, moves and overwrites between steps neither hide a key nor stop the walk.
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

static void op_seen(struct okv_op *op, const struct okv_record_disk *record, uint64_t expire_ms)
{
	struct okv_scan *scan = op->owner;

	scan->key_tenant = record->tenant;
	scan->key(scan, record + 1, record->key_len, okv_plain_len(record), expire_ms);
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

/* What a walk looks for. */
static struct okv_which which_of(const struct okv_partition *p, uint32_t slot, uint16_t tenant)
{
	uint32_t bits = p->layout->partition_bits;

	return (struct okv_which){
		.tenant = tenant, .mask = slot ? okv_slot_mask(bits) : 0,
		.tag = slot ? okv_slot_tag(slot - 1, bits) : 0,
	};
}

/* Look at so many keys of a shard at most. Returns the next cursor. */
static uint64_t scan_shard(struct okv_partition *p, struct okv_scan *scan, uint64_t cursor,
			   uint32_t *nr_left, uint32_t *nr_slots)
{
	uint64_t shard = cursor >> OKV_TAG_BITS, next = (shard + 1) << OKV_TAG_BITS;
	uint64_t from = cursor & ((1ULL << OKV_TAG_BITS) - 1);
	struct okv_which which = which_of(p, scan->slot, scan->tenant);
	struct okv_places found;
	uint32_t nr;

	okv_index_places(&p->index, shard, &which, from, *nr_left, &found);
	nr = found.nr < *nr_left ? found.nr : *nr_left;
	for (uint32_t i = 0; i < nr; i++)
		read_keys(p, scan, shard, okv_index_tag_at(found.at[i]));
	if (nr && (nr == *nr_left || !found.is_all))
		next = (shard << OKV_TAG_BITS) + found.at[nr - 1] + 1;
	*nr_left -= nr;
	*nr_slots += found.nr_slots;
	mem_free(found.at);
	return next;
}

void okv_partition_scan(struct okv_partition *p, struct okv_scan *scan)
{
	uint64_t end = (uint64_t)okv_index_nr_shards(&p->index) << OKV_TAG_BITS;
	uint64_t cursor = scan->cursor;
	uint32_t nr_left = scan->nr_max ? scan->nr_max : 1, nr_slots = 0;

	scan->status = OKV_OK;
	scan->partition = p;
	scan->nr_pending = 1;
	while (cursor < end && nr_left && nr_slots < SCAN_SLOTS)
		cursor = scan_shard(p, scan, cursor, &nr_left, &nr_slots);
	scan->cursor = cursor < end ? cursor : 0;
	end_one(scan);
}

uint64_t okv_partition_count(const struct okv_partition *p, uint32_t slot, uint16_t tenant,
			     uint64_t *cursor)
{
	struct okv_which which = which_of(p, slot + 1, tenant);
	uint32_t nr_slots = 0;
	uint64_t nr = 0;

	while (*cursor < okv_index_nr_shards(&p->index) && nr_slots < SCAN_SLOTS) {
		const struct okv_shard *s = &p->index.shards[(*cursor)++];

		for (uint32_t i = 0; i < s->nr_slots; i++)
			nr += okv_index_is(&s->entries[i], &which);
		/* A shard without entries is a look, too. */
		nr_slots += s->nr_slots + 1;
	}
	if (*cursor == okv_index_nr_shards(&p->index))
		*cursor = 0;
	return nr;
}
