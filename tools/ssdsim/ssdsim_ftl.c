// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_ftl.c - page map and garbage collection of one die
 *
 * Each die has its own map: logical units of the die to slots, a slot being one unit of one page of
 * one block. Writing is log structured: the next page of the open block takes up to page_units
 * units, and their old slots become holes. A page that is programmed with fewer units than it has
 * slots leaves holes from the start (what FUA writes smaller than a page cost).
 *
 * Blocks. A die has blocks for its capacity plus op_pct percent, but never fewer spare ones than
 * ftl_min_spare() says. Collection starts when SSDSIM_GC_LOW or fewer are free, so not before
 *
 *	(blocks - SSDSIM_GC_LOW - 1) x block_pages
 *
 * pages of the die have been programmed since it was new, and goes on until more than SSDSIM_GC_LOW
 * are free.
 *
 * Room for copies. A program for the host leaves as many pages as collection can still need: a
 * block, or the pages that are left of the victim under way. So copying always finds a page.
 *
 * Victim. Greedy: the closed block with the fewest valid units. Progress needs a victim with at
 * least a page of holes: else its copies, packed in whole pages, take as much as it gives. With B
 * blocks in all, S of them spare, at most 2 free and 1 open, B - 3 closed blocks hold at most B - S
 * blocks of valid units. If each had fewer holes than a page, there would be fewer than B x
 * (page_units - 1) holes; there are at least (S - 3) x block_units. ftl_min_spare() makes that a
 * contradiction.
 *
 * A step of collection is what the die does in one go: read the pages that hold the next page_units
 * valid units of the victim and program them elsewhere (pages read x tR + tPROG, inside the die, no
 * channel), or erase the emptied victim (tERASE).
 *
 * Not modelled: wear, bad blocks, hot and cold streams, the cost of the map itself. The map moves
 * when a program starts, and a power cut does not roll it back: it decides times, never data.
 */
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ssdsim_model.h"

/* The least S with (S - 3) x block_units > (@need + S) x (page_units - 1); see the top. */
static u32 ftl_min_spare(const struct ssdsim_ftl *ftl, u32 need)
{
	u64 lost = ftl->page_units - 1;

	return div64_u64(3ULL * ftl->block_units + need * lost, ftl->block_units - lost) + 1;
}

int ssdsim_ftl_init(struct ssdsim_ftl *ftl, const struct ssdsim_cfg *cfg, u32 nr_units)
{
	u32 need, spare, i;

	memset(ftl, 0, sizeof(*ftl));
	ftl->nr_units = nr_units;
	ftl->page_units = cfg->page_units;
	ftl->block_pages = cfg->block_pages;
	ftl->block_units = cfg->block_pages * cfg->page_units;
	need = (nr_units + ftl->block_units - 1) / ftl->block_units;
	spare = max_t(u32, div_u64((u64)need * cfg->op_pct, 100), ftl_min_spare(ftl, need));
	ftl->nr_blocks = need + spare;
	ftl->l2p = kvcalloc(nr_units, sizeof(*ftl->l2p), GFP_KERNEL);
	ftl->p2l =
		kvcalloc((size_t)ftl->nr_blocks * ftl->block_units, sizeof(*ftl->p2l), GFP_KERNEL);
	ftl->valid = kvcalloc(ftl->nr_blocks, sizeof(*ftl->valid), GFP_KERNEL);
	ftl->free = kvcalloc(ftl->nr_blocks, sizeof(*ftl->free), GFP_KERNEL);
	if (!ftl->l2p || !ftl->p2l || !ftl->valid || !ftl->free) {
		ssdsim_ftl_exit(ftl);
		return -ENOMEM;
	}
	memset(ftl->l2p, 0xff, nr_units * sizeof(*ftl->l2p));
	memset(ftl->p2l, 0xff, (size_t)ftl->nr_blocks * ftl->block_units * sizeof(*ftl->p2l));
	for (i = 0; i < ftl->nr_blocks; i++)
		ftl->free[ftl->nr_free++] = ftl->nr_blocks - 1 - i;
	ftl->open = ftl->free[--ftl->nr_free];
	ftl->victim = SSDSIM_NONE;
	return 0;
}

void ssdsim_ftl_exit(struct ssdsim_ftl *ftl)
{
	kvfree(ftl->l2p);
	kvfree(ftl->p2l);
	kvfree(ftl->valid);
	kvfree(ftl->free);
	memset(ftl, 0, sizeof(*ftl));
}

/* May the host program a page now and leave enough of them for collection? */
bool ssdsim_ftl_can_program(const struct ssdsim_ftl *ftl)
{
	u32 left = ftl->block_pages - ftl->open_page + ftl->nr_free * ftl->block_pages;

	return left > ftl->block_pages - (ftl->victim == SSDSIM_NONE ? 0 : ftl->victim_page);
}

bool ssdsim_ftl_gc_wanted(const struct ssdsim_ftl *ftl)
{
	return ftl->victim != SSDSIM_NONE || ftl->nr_free <= SSDSIM_GC_LOW;
}

void ssdsim_ftl_unmap(struct ssdsim_ftl *ftl, u32 unit)
{
	u32 slot = ftl->l2p[unit];

	if (slot == SSDSIM_NONE)
		return;
	ftl->p2l[slot] = SSDSIM_NONE;
	ftl->valid[slot / ftl->block_units]--;
	ftl->l2p[unit] = SSDSIM_NONE;
}

static void ftl_append(struct ssdsim_ftl *ftl, const u32 *units, u32 n)
{
	u32 slot, i;

	if (ftl->open_page == ftl->block_pages) {
		ftl->open = ftl->free[--ftl->nr_free];
		ftl->open_page = 0;
	}
	slot = ftl->open * ftl->block_units + ftl->open_page * ftl->page_units;
	ftl->open_page++;
	ftl->programs++;
	for (i = 0; i < n; i++) {
		ssdsim_ftl_unmap(ftl, units[i]);
		ftl->l2p[units[i]] = slot + i;
		ftl->p2l[slot + i] = units[i];
		ftl->valid[ftl->open]++;
	}
}

/*
 * The host programs @n units of this die in one page. The caller has seen ssdsim_ftl_can_program().
 */
void ssdsim_ftl_program(struct ssdsim_ftl *ftl, const u32 *units, u32 n)
{
	ftl->host_units += n;
	ftl_append(ftl, units, n);
}

static bool ftl_is_free(const struct ssdsim_ftl *ftl, u32 block)
{
	u32 i;

	for (i = 0; i < ftl->nr_free; i++)
		if (ftl->free[i] == block)
			return true;
	return false;
}

static u32 ftl_pick_victim(const struct ssdsim_ftl *ftl)
{
	u32 best = SSDSIM_NONE, block;

	for (block = 0; block < ftl->nr_blocks; block++) {
		if (block == ftl->open ||
		    (best != SSDSIM_NONE && ftl->valid[block] >= ftl->valid[best]))
			continue;
		if (ftl_is_free(ftl, block))
			continue;
		best = block;
	}
	return best;
}

/* One step of collection; see the top. Return: how long the die is busy with it. */
u64 ssdsim_ftl_gc_step(struct ssdsim_ftl *ftl, const struct ssdsim_cfg *cfg)
{
	u32 units[SSDSIM_MAX_PAGE_UNITS], n = 0, pages = 0, slot, i;

	if (ftl->victim == SSDSIM_NONE) {
		ftl->victim = ftl_pick_victim(ftl);
		ftl->victim_page = 0;
		ftl->gc_victims++;
	}
	while (ftl->victim_page < ftl->block_pages && n < ftl->page_units) {
		u32 before = n;

		slot = ftl->victim * ftl->block_units + ftl->victim_page * ftl->page_units;
		for (i = 0; i < ftl->page_units && n < ftl->page_units; i++)
			if (ftl->p2l[slot + i] != SSDSIM_NONE)
				units[n++] = ftl->p2l[slot + i];
		if (n > before)
			pages++;
		/* The rest of this page in the next step: its copied units are holes by then. */
		if (i < ftl->page_units)
			break;
		ftl->victim_page++;
	}
	if (n) {
		ftl_append(ftl, units, n);
		ftl->gc_copied += n;
		return (u64)pages * cfg->read_ns + cfg->prog_ns;
	}
	ftl->free[ftl->nr_free++] = ftl->victim;
	ftl->victim = SSDSIM_NONE;
	ftl->erases++;
	return cfg->erase_ns;
}

int ssdsim_ftl_audit(const struct ssdsim_ftl *ftl)
{
	u32 block, i, slot, valid, mapped = 0, total = 0;

	for (block = 0; block < ftl->nr_blocks; block++) {
		valid = 0;
		for (i = 0; i < ftl->block_units; i++) {
			slot = block * ftl->block_units + i;
			if (ftl->p2l[slot] == SSDSIM_NONE)
				continue;
			if (ftl->p2l[slot] >= ftl->nr_units || ftl->l2p[ftl->p2l[slot]] != slot)
				return __LINE__;
			valid++;
		}
		if (valid != ftl->valid[block])
			return __LINE__;
		if (valid && ftl_is_free(ftl, block))
			return __LINE__;
		total += valid;
	}
	for (i = 0; i < ftl->nr_units; i++)
		if (ftl->l2p[i] != SSDSIM_NONE)
			mapped++;
	return mapped == total ? 0 : __LINE__;
}
