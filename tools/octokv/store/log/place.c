// SPDX-License-Identifier: GPL-2.0
/*
 * place.c - where in the open segment a batch goes: see place.h
 */
#include "../segment.h"
#include "journal.h"
#include "place.h"

/* What a batch takes if it is one write. */
static uint32_t bytes_alone(const struct okv_batch *b)
{
	uint32_t block_bytes = b->partition->disk->block_bytes;

	return okv_round_up(okv_batch_bytes(block_bytes, b->head_bytes, b->apart_bytes),
			    block_bytes);
}

/* Have its heads room in the last page of its values? */
static bool has_room_for_heads(const struct okv_batch *b)
{
	uint32_t page_bytes = okv_pack_bytes(b->partition);

	return b->is_users && b->apart_bytes &&
	       okv_round_up(bytes_alone(b), page_bytes) == okv_round_up(b->apart_bytes, page_bytes);
}

/*
 * Where what has so many bytes begins, so that what is @front_bytes behind is aligned, and heads
 * take no page of their own if they need none. With little room left, nothing is left out: puts and
 * deletes stop when room is low, moves only when just the kept segments are left. Moves leave out
 * little, as their batches are large.
 */
static uint32_t align(const struct okv_partition *p, const struct okv_batch *b,
		      uint32_t front_bytes, uint32_t bytes)
{
	uint32_t from = p->places[b->place].offset_bytes;
	uint32_t best = okv_round_up(from + front_bytes, b->align_bytes) - front_bytes;
	uint32_t page_bytes = okv_pack_bytes(p);
	bool has_room = !okv_segments_are_low(p);

	if (has_room_for_heads(b) && best % page_bytes + bytes > okv_round_up(bytes, page_bytes))
		best = okv_round_up(okv_round_up(best, page_bytes) + front_bytes, b->align_bytes) -
		       front_bytes;
	if (!b->is_users)
		has_room = okv_segments_usable(p) > okv_segments_kept(p);
	return has_room && okv_fits(p, b->place, best - from + bytes) ? best : from;
}

/* The first batch of a segment lies where recovery looks for it. */
static void place_alone(struct okv_partition *p, struct okv_batch *b)
{
	uint32_t block_bytes = p->disk->block_bytes;
	uint32_t head_bytes = okv_round_up(b->head_bytes, block_bytes);
	struct okv_place *at = &p->places[b->place];

	b->io.bytes = bytes_alone(b);
	b->offset_bytes = at->offset_bytes;
	if (at->offset_bytes > block_bytes)
		b->offset_bytes = align(p, b, head_bytes, b->io.bytes);
	b->value_offset_bytes = b->offset_bytes + head_bytes;
	at->offset_bytes = b->offset_bytes + b->io.bytes;
}

/* Does the pack take the heads of a batch, so that its values are near enough? */
static bool takes(const struct okv_partition *p, const struct okv_pack *pack,
		  const struct okv_batch *b)
{
	uint32_t end = p->places[b->place].offset_bytes + b->align_bytes + b->apart_bytes;

	return pack->used_bytes + b->head_bytes <= pack->bytes &&
	       (end - pack->offset_bytes) / p->disk->block_bytes < OKV_GROUP_BLOCKS_MAX;
}

/*
 * Begin a pack that ends where values are aligned; false: there is no room for it and @b. Deletes
 * that go on with the kept segments take no more of them than they need.
 */
static bool begin_pack(struct okv_partition *p, const struct okv_batch *b)
{
	struct okv_place *at = &p->places[b->place];
	uint32_t pack_bytes = okv_pack_bytes(p), from = at->offset_bytes;
	uint32_t end = okv_round_up(from + pack_bytes / 2, pack_bytes);

	if (p->nr_free < okv_segments_kept(p) ||
	    !okv_fits(p, b->place, end - from + b->apart_bytes))
		return false;
	okv_pack_begin(p, at->segment, from, end - from);
	at->offset_bytes = end;
	return true;
}

/*
 * Put the heads of a batch into the pack; false: nothing else is in flight, or they have room
 * beside their values, or they are too many, or moves, which may take no more room than they had.
 */
static bool place_in_pack(struct okv_partition *p, struct okv_batch *b)
{
	const struct okv_journal *j = p->store->journal;
	struct okv_pack *pack = okv_pack_open(p);

	if (!j || !b->is_users || !j->nr_in_flight || !okv_journal_works(j, p) ||
	    has_room_for_heads(b) || b->head_bytes > okv_pack_batch_bytes_max(p) ||
	    !okv_fits(p, b->place, b->apart_bytes))
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
		p->places[b->place].offset_bytes = b->value_offset_bytes + b->apart_bytes;
	}
	return true;
}

struct okv_place_disk okv_place_now(const struct okv_partition *p, enum okv_place_number place)
{
	const struct okv_pack *pack = okv_pack_open(p);
	struct okv_place_disk at = {
		.life = p->next_life - 1, .segment = p->places[place].segment,
		.offset_bytes = p->places[place].offset_bytes,
	};

	if (at.segment == p->nr_segments)
		return at;
	at.life = p->segments[at.segment].life;
	if (pack && pack->segment == at.segment)
		at.offset_bytes = pack->offset_bytes;
	return at;
}

void okv_batch_place(struct okv_batch *b)
{
	struct okv_partition *p = b->partition;

	for (int i = 0; i < OKV_NR_PLACES; i++)
		b->from[i] = okv_place_now(p, i);
	if (!place_in_pack(p, b))
		place_alone(p, b);
}
