// SPDX-License-Identifier: GPL-2.0
/*
 * place.c - where in the open segment a batch goes: see place.h
 */
#include "../segment.h"
#include "journal.h"
#include "place.h"

/*
 * Where what has so many bytes begins, so that what is @front_bytes behind is aligned. With little
 * room left, nothing is left out: puts and deletes stop when room is low, moves only when
 * just the kept segments are left. Moves leave out little, as their batches are large.
 */
static uint32_t align(const struct okv_partition *p, const struct okv_batch *b,
		      uint32_t front_bytes, uint32_t bytes)
{
	uint32_t best = okv_round_up(p->open_offset + front_bytes, b->align_bytes) - front_bytes;
	bool has_room = !okv_segments_are_low(p);

	if (!b->is_users)
		has_room = okv_segments_usable(p) > okv_segments_kept(p);
	return has_room && okv_fits(p, best - p->open_offset + bytes) ? best : p->open_offset;
}

/* The first batch of a segment lies where recovery looks for it. */
static void place_alone(struct okv_partition *p, struct okv_batch *b)
{
	uint32_t block_bytes = p->disk->block_bytes;
	uint32_t head_bytes = okv_round_up(b->head_bytes, block_bytes);

	b->io.bytes = okv_round_up(okv_batch_bytes(block_bytes, b->head_bytes, b->apart_bytes),
				   block_bytes);
	b->offset_bytes = p->open_offset;
	if (p->open_offset > block_bytes)
		b->offset_bytes = align(p, b, head_bytes, b->io.bytes);
	b->value_offset_bytes = b->offset_bytes + head_bytes;
	p->open_offset = b->offset_bytes + b->io.bytes;
}

/* Does the pack take the heads of a batch, so that its values are near enough? */
static bool takes(const struct okv_partition *p, const struct okv_pack *pack,
		  const struct okv_batch *b)
{
	uint32_t end = p->open_offset + b->align_bytes + b->apart_bytes;

	return pack->used_bytes + b->head_bytes <= pack->bytes &&
	       (end - pack->offset_bytes) / p->disk->block_bytes < OKV_GROUP_BLOCKS_MAX;
}

/*
 * Begin a pack that ends where values are aligned; false: there is no room for it and @b. Deletes
 * that go on with the kept segments take no more of them than they need.
 */
static bool begin_pack(struct okv_partition *p, const struct okv_batch *b)
{
	uint32_t pack_bytes = okv_pack_bytes(p);
	uint32_t end = okv_round_up(p->open_offset + pack_bytes / 2, pack_bytes);

	if (p->nr_free < okv_segments_kept(p) ||
	    !okv_fits(p, end - p->open_offset + b->apart_bytes))
		return false;
	okv_pack_begin(p, p->open_segment, p->open_offset, end - p->open_offset);
	p->open_offset = end;
	return true;
}

/*
 * Put the heads of a batch into the pack; false: nothing else is in flight, or they are too many,
 * or moves, which may take no more room than they had.
 */
static bool place_in_pack(struct okv_partition *p, struct okv_batch *b)
{
	const struct okv_journal *j = p->store->journal;
	struct okv_pack *pack = okv_pack_open(p);

	if (!j || !b->is_users || !j->nr_in_flight || !okv_journal_works(j, p) ||
	    b->head_bytes > okv_pack_batch_bytes_max(p) || !okv_fits(p, b->apart_bytes))
		return false;
	if (pack && !takes(p, pack, b)) {
		okv_pack_close(p);
		pack = NULL;
	}
	if (!pack && !begin_pack(p, b))
		return false;
	pack = okv_pack_open(p);
	b->pack = pack;
	b->offset_bytes = pack->offset_bytes + pack->used_bytes;
	pack->used_bytes += b->head_bytes;
	b->io.bytes = b->apart_bytes;
	if (b->apart_bytes) {
		b->value_offset_bytes = align(p, b, 0, b->apart_bytes);
		p->open_offset = b->value_offset_bytes + b->apart_bytes;
	}
	return true;
}

/* Later batches may lie before this one, in the open pack. */
static uint32_t first_bytes(const struct okv_partition *p, const struct okv_batch *b)
{
	const struct okv_pack *pack = okv_pack_open(p);

	return pack && pack->offset_bytes < b->offset_bytes ? pack->offset_bytes : b->offset_bytes;
}

void okv_batch_place(struct okv_batch *b)
{
	struct okv_partition *p = b->partition;

	if (!place_in_pack(p, b))
		place_alone(p, b);
	b->first_bytes = first_bytes(p, b);
}
