/* SPDX-License-Identifier: GPL-2.0 */
/*
 * place.h - where in the open segment of its place a batch goes
 *
 * Alone, a batch is one write: its heads, then its apart values, which begin at a page of the flash
 * where there is room to spare. With a journal, the heads go to a pack and the values behind it.
 * Moves, batches with many heads, and those with nothing else in flight are alone all the same.
 */
#ifndef OKV_PLACE_H
#define OKV_PLACE_H

#include "../partition.h"

/* Has the open segment of a place room for so many bytes, before its last header? */
static inline bool okv_fits(const struct okv_partition *p, enum okv_place_number place,
			    uint32_t bytes)
{
	const struct okv_place *at = &p->places[place];

	return at->segment < p->nr_segments &&
	       at->offset_bytes + bytes <= p->segment_bytes - p->disk->block_bytes;
}

/* Where the next batches of a place will be, those of the open pack included. */
struct okv_place_disk okv_place_now(const struct okv_partition *p, enum okv_place_number place);

/*
 * Find the place of a batch, whose heads and apart values have room in the open segment, and take
 * that. Sets @b->pack, @b->from, the offsets, and the bytes of its own write.
 */
void okv_batch_place(struct okv_batch *b);

#endif
