// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_store.c - data, and which of it a power cut takes away
 *
 * The promise. After a power cut each 512-byte sector holds
 *
 *  - the content of the last write to it that was durable: written with FUA and completed, or
 *    completed before a flush was submitted that completed in turn;
 *  - or the content of any later write to it, by a coin that depends on the seed, the sector and
 *    the write's epoch only.
 *
 * So what was flushed or written with FUA is there, and each other sector is lost with even chance.
 * That is harsher than most drives, on purpose: data that a drive wrote to flash in the background
 * is also lost here until a flush, as if the drive's map were in volatile memory. A power cut shows
 * a program that forgets a flush.
 *
 * Versions. A unit has durable content, `base`, and a chain of versions, newest first. `epoch`
 * counts submitted flushes; a write goes into the newest version if that is of the current epoch,
 * else into a new one, copied from what the unit holds. So a version's page is always the unit's
 * whole content as of its last write, and the newest page is what reads see. When the flush that
 * ended epoch e completes, all versions of epochs <= e are durable: durable = max(durable, e), one
 * assignment. Nothing is moved then. The next access to a unit settles it: the newest durable
 * version becomes the base, the older ones go. Each new version settles up to two of the oldest
 * units, so that memory comes back at the rate at which it is taken.
 *
 * FUA writes change no version while they are under way: readers may see the old content until the
 * write completes. On completion their sectors go into the base and into every version, and are
 * taken out of the versions' masks: a later loss of a version cannot bring older content back.
 *
 * Discarded and zeroed units are versions without a page. Memory is taken for what was written and
 * is not zero, nothing else: 4 KiB for a unit that was flushed, up to two pages after a rewrite
 * that was not, one more for each flush under way.
 */
#include <linux/types.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ssdsim_store.h"

#define STORE_GFP	(GFP_NOWAIT | __GFP_NOWARN)

static void *page_get(struct ssdsim_store *st)
{
	void *page = (void *)__get_free_page(STORE_GFP);

	if (page) {
		st->nr_pages++;
		st->nr_taken++;
	}
	return page;
}

static void page_put(struct ssdsim_store *st, void *page)
{
	if (!page)
		return;
	st->nr_pages--;
	free_page((unsigned long)page);
}

static void ver_put(struct ssdsim_store *st, struct ssdsim_ver *v)
{
	list_del(&v->link);
	page_put(st, v->page);
	kfree(v);
	st->nr_vers--;
}

static struct ssdsim_slot *slot_find(struct ssdsim_store *st, u32 unit)
{
	struct ssdsim_slot *leaf = st->leaves[unit / SSDSIM_LEAF_SLOTS];

	return leaf ? &leaf[unit % SSDSIM_LEAF_SLOTS] : NULL;
}

static struct ssdsim_slot *slot_get(struct ssdsim_store *st, u32 unit)
{
	struct ssdsim_slot **leaf = &st->leaves[unit / SSDSIM_LEAF_SLOTS];

	if (!*leaf)
		*leaf = kcalloc(SSDSIM_LEAF_SLOTS, sizeof(**leaf), STORE_GFP);
	return *leaf ? &(*leaf)[unit % SSDSIM_LEAF_SLOTS] : NULL;
}

/* Make the newest durable version of @slot its base and drop the older ones. */
static void slot_settle(struct ssdsim_store *st, struct ssdsim_slot *slot)
{
	struct ssdsim_ver **at = &slot->ver, *v, *older;

	while (*at && (*at)->epoch > st->durable)
		at = &(*at)->older;
	v = *at;
	if (!v)
		return;
	*at = NULL;
	page_put(st, slot->base);
	slot->base = v->page;
	v->page = NULL;
	for (; v; v = older) {
		older = v->older;
		ver_put(st, v);
	}
}

/* Give back memory of the oldest versions, as far as they are durable. */
static void reclaim(struct ssdsim_store *st, u32 n)
{
	struct ssdsim_ver *v;

	while (n-- && !list_empty(&st->vers)) {
		v = list_first_entry(&st->vers, struct ssdsim_ver, link);
		if (v->epoch > st->durable)
			break;
		slot_settle(st, slot_find(st, v->unit));
	}
}

/* What the unit holds now; NULL for zeroes. */
static void *slot_page(const struct ssdsim_slot *slot)
{
	return slot->ver ? slot->ver->page : slot->base;
}

static void fill_page(void *page, const void *from)
{
	if (from)
		memcpy(page, from, SSDSIM_UNIT_BYTES);
	else
		memset(page, 0, SSDSIM_UNIT_BYTES);
}

/*
 * The version of the current epoch, made if there is none. @page: it must have a page (its content
 * is what the unit held, or whatever if @whole). Return: NULL without memory.
 */
static struct ssdsim_ver *ver_now(struct ssdsim_store *st, struct ssdsim_slot *slot, u32 unit,
				  bool page, bool whole)
{
	struct ssdsim_ver *v = slot->ver;
	void *mem = NULL;

	if (v && v->epoch == st->epoch && (v->page || !page))
		return v;
	if (page) {
		mem = page_get(st);
		if (!mem)
			return NULL;
		if (!whole)
			fill_page(mem, slot_page(slot));
	}
	if (v && v->epoch == st->epoch) {
		v->page = mem;
		return v;
	}
	v = kmalloc(sizeof(*v), STORE_GFP);
	if (!v) {
		page_put(st, mem);
		return NULL;
	}
	v->older = slot->ver;
	v->page = mem;
	v->epoch = st->epoch;
	v->unit = unit;
	v->mask = 0;
	list_add_tail(&v->link, &st->vers);
	slot->ver = v;
	st->nr_vers++;
	reclaim(st, 2);
	return v;
}

static u8 sector_mask(u64 sector, u32 n)
{
	return ((1u << n) - 1) << (sector % SSDSIM_UNIT_SECTORS);
}

static u32 sector_offset(u64 sector)
{
	return (sector % SSDSIM_UNIT_SECTORS) << SSDSIM_SECTOR_SHIFT;
}

void ssdsim_store_read(struct ssdsim_store *st, u64 sector, u32 n, void *dst)
{
	struct ssdsim_slot *slot = slot_find(st, sector / SSDSIM_UNIT_SECTORS);
	void *page = slot ? slot_page(slot) : NULL;

	if (page)
		memcpy(dst, page + sector_offset(sector), n << SSDSIM_SECTOR_SHIFT);
	else
		memset(dst, 0, n << SSDSIM_SECTOR_SHIFT);
}

int ssdsim_store_write(struct ssdsim_store *st, u64 sector, u32 n, const void *src)
{
	u32 unit = sector / SSDSIM_UNIT_SECTORS;
	struct ssdsim_slot *slot = slot_get(st, unit);
	struct ssdsim_ver *v;

	if (!slot)
		return -ENOMEM;
	slot_settle(st, slot);
	v = ver_now(st, slot, unit, true, n == SSDSIM_UNIT_SECTORS);
	if (!v)
		return -ENOMEM;
	memcpy(v->page + sector_offset(sector), src, n << SSDSIM_SECTOR_SHIFT);
	v->mask |= sector_mask(sector, n);
	return 0;
}

int ssdsim_store_zero(struct ssdsim_store *st, u64 sector, u32 n)
{
	u32 unit = sector / SSDSIM_UNIT_SECTORS;
	struct ssdsim_slot *slot = slot_find(st, unit);
	bool whole = n == SSDSIM_UNIT_SECTORS;
	struct ssdsim_ver *v;

	if (!slot)
		return 0;
	slot_settle(st, slot);
	if (!slot->base && !slot->ver)
		return 0;
	v = ver_now(st, slot, unit, !whole, whole);
	if (!v)
		return -ENOMEM;
	if (whole) {
		page_put(st, v->page);
		v->page = NULL;
	} else {
		memset(v->page + sector_offset(sector), 0, n << SSDSIM_SECTOR_SHIFT);
	}
	v->mask |= sector_mask(sector, n);
	return 0;
}

/* Give each of the unit's contents that has no page one, zeroed. */
static int slot_fill_pages(struct ssdsim_store *st, struct ssdsim_slot *slot)
{
	struct ssdsim_ver *v;
	void **page = &slot->base;

	for (v = slot->ver;; v = v->older) {
		if (!*page) {
			*page = page_get(st);
			if (!*page)
				return -ENOMEM;
			memset(*page, 0, SSDSIM_UNIT_BYTES);
		}
		if (!v)
			return 0;
		page = &v->page;
	}
}

int ssdsim_store_fua_prepare(struct ssdsim_store *st, u64 sector)
{
	struct ssdsim_slot *slot = slot_get(st, sector / SSDSIM_UNIT_SECTORS);

	if (!slot)
		return -ENOMEM;
	slot_settle(st, slot);
	return slot_fill_pages(st, slot);
}

int ssdsim_store_fua_commit(struct ssdsim_store *st, u64 sector, u32 n, const void *src)
{
	struct ssdsim_slot *slot = slot_get(st, sector / SSDSIM_UNIT_SECTORS);
	u32 at = sector_offset(sector), len = n << SSDSIM_SECTOR_SHIFT;
	struct ssdsim_ver **link, *v;

	if (!slot)
		return -ENOMEM;
	slot_settle(st, slot);
	/*
	 * Prepared, but a discard since then may have taken the page: then this takes another, or
	 * the write fails.
	 */
	if (slot_fill_pages(st, slot))
		return -ENOMEM;
	memcpy(slot->base + at, src, len);
	link = &slot->ver;
	while ((v = *link)) {
		memcpy(v->page + at, src, len);
		v->mask &= ~sector_mask(sector, n);
		if (v->mask) {
			link = &v->older;
			continue;
		}
		*link = v->older;
		ver_put(st, v);
	}
	return 0;
}

void ssdsim_store_fua_tear(struct ssdsim_store *st, u64 sector, u32 n, const void *src, u64 seed)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (ssdsim_store_coin(seed, sector + i, 0))
			ssdsim_store_fua_commit(st, sector + i, 1,
						src + (i << SSDSIM_SECTOR_SHIFT));
}

u64 ssdsim_store_flush_begin(struct ssdsim_store *st)
{
	return st->epoch++;
}

void ssdsim_store_flush_end(struct ssdsim_store *st, u64 epoch)
{
	if (epoch > st->durable)
		st->durable = epoch;
}

#define STORE_MAX_VERS	62

/*
 * The content of sector @i of a unit after the cut: the latest of @chain (oldest first) whose coin
 * fell right.
 */
static void *sector_fate(struct ssdsim_store *st, void *base, struct ssdsim_ver **chain, u32 n,
			 u32 i, u64 seed)
{
	u32 k;
	void *page = base;
	bool lost = false;

	for (k = 0; k < n; k++) {
		if (!(chain[k]->mask & (1u << i)))
			continue;
		lost = !ssdsim_store_coin(seed, (u64)chain[k]->unit * SSDSIM_UNIT_SECTORS + i,
					  chain[k]->epoch);
		if (!lost)
			page = chain[k]->page;
	}
	st->torn += lost;
	return page;
}

static void slot_cut(struct ssdsim_store *st, struct ssdsim_slot *slot, u64 seed)
{
	struct ssdsim_ver *chain[STORE_MAX_VERS], *v, *older;
	void *dst = NULL, *from, *base = slot->base;
	u32 n = 0, i, off;

	for (v = slot->ver; v && n < STORE_MAX_VERS; v = v->older)
		chain[STORE_MAX_VERS - ++n] = v;
	/*
	 * The result is built in place in some page of the unit: a sector only ever comes from the
	 * same sector of another.
	 */
	for (i = 0; i < n && !dst; i++)
		dst = chain[STORE_MAX_VERS - 1 - i]->page;
	if (!dst)
		dst = base;
	for (i = 0; i < SSDSIM_UNIT_SECTORS && dst; i++) {
		off = i << SSDSIM_SECTOR_SHIFT;
		from = sector_fate(st, base, chain + STORE_MAX_VERS - n, n, i, seed);
		if (!from)
			memset(dst + off, 0, SSDSIM_SECTOR_BYTES);
		else if (from != dst)
			memcpy(dst + off, from + off, SSDSIM_SECTOR_BYTES);
	}
	if (dst != base)
		page_put(st, base);
	slot->base = dst;
	for (v = slot->ver; v; v = older) {
		older = v->older;
		if (v->page == dst)
			v->page = NULL;
		ver_put(st, v);
	}
	slot->ver = NULL;
}

void ssdsim_store_power_cut(struct ssdsim_store *st, u64 seed)
{
	struct ssdsim_slot *slot;
	struct ssdsim_ver *v;

	while (!list_empty(&st->vers)) {
		v = list_first_entry(&st->vers, struct ssdsim_ver, link);
		slot = slot_find(st, v->unit);
		slot_settle(st, slot);
		if (slot->ver)
			slot_cut(st, slot, seed);
	}
	st->durable = st->epoch++;
}

int ssdsim_store_init(struct ssdsim_store *st, u64 units)
{
	memset(st, 0, sizeof(*st));
	INIT_LIST_HEAD(&st->vers);
	st->epoch = 1;
	st->nr_units = units;
	st->nr_leaves = (units + SSDSIM_LEAF_SLOTS - 1) / SSDSIM_LEAF_SLOTS;
	st->leaves = kvcalloc(st->nr_leaves, sizeof(*st->leaves), GFP_KERNEL);
	return st->leaves ? 0 : -ENOMEM;
}

void ssdsim_store_exit(struct ssdsim_store *st)
{
	u32 i, k;

	/* Declaring all versions durable and settling them leaves only base pages. */
	st->durable = st->epoch;
	while (!list_empty(&st->vers))
		reclaim(st, 1);
	for (i = 0; st->leaves && i < st->nr_leaves; i++) {
		for (k = 0; st->leaves[i] && k < SSDSIM_LEAF_SLOTS; k++)
			page_put(st, st->leaves[i][k].base);
		kfree(st->leaves[i]);
	}
	kvfree(st->leaves);
	st->leaves = NULL;
}
