/* SPDX-License-Identifier: GPL-2.0 */
/*
 * place.h - where in the open segment a batch goes
 *
 * Alone, a batch is one write: its heads, then its apart values, which begin at a page of the flash
 * where there is room to spare. With a journal, the heads go to a pack and the values behind it.
 * Moves, batches with many heads, and those with nothing else in flight are alone all the same.
 */
#ifndef OKV_PLACE_H
#define OKV_PLACE_H

#include "../partition.h"

/* Has the open segment room for so many bytes, before its last header? */
static inline bool okv_fits(const struct okv_partition *p, uint32_t bytes)
{
	return p->open_segment < p->nr_segments &&
	       p->open_offset + bytes <= p->segment_bytes - p->disk->block_bytes;
}

/*
 * Find the place of a batch, whose heads and apart values have room in the open segment, and take
 * that. Sets @b->pack, the offsets, and the bytes of its own write.
 */
void okv_batch_place(struct okv_batch *b);

#endif
