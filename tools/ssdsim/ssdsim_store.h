/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ssdsim_store.h - what a simulated SSD holds, and what of it survives: types and interface
 *
 * The store knows contents and nothing of time. See ssdsim_store.c for how versions work. The
 * caller serialises all calls for one store (ssdsim_request.c: dev->store_lock).
 */
#ifndef SSDSIM_STORE_H
#define SSDSIM_STORE_H

#include <linux/types.h>
#include <linux/list.h>

#include "ssdsim_model.h"

#define SSDSIM_SECTOR_SHIFT	9
#define SSDSIM_SECTOR_BYTES	(1u << SSDSIM_SECTOR_SHIFT)
#define SSDSIM_UNIT_SECTORS	(SSDSIM_UNIT_BYTES / SSDSIM_SECTOR_BYTES)
#define SSDSIM_LEAF_SLOTS	256

/**
 * struct ssdsim_ver - content of a unit that no flush has made durable
 * @link: all versions of the store, in order of creation
 * @older: the version that this one was copied from, NULL if that was the durable content
 * @page: the unit's whole content, NULL for zeroes
 * @epoch: number of flushes that had been submitted when it was created
 * @unit: of the device
 * @mask: sectors that were written in this version
 */
struct ssdsim_ver {
	struct list_head link;
	struct ssdsim_ver *older;
	void *page;
	u64 epoch;
	u32 unit;
	u8 mask;
};

/* A unit: its durable content (NULL: zeroes) and its versions, newest first. */
struct ssdsim_slot {
	void *base;
	struct ssdsim_ver *ver;
};

struct ssdsim_store {
	u32 nr_units;
	u32 nr_leaves;
	struct ssdsim_slot **leaves;
	struct list_head vers;
	u64 epoch;		/* of new versions */
	u64 durable;		/* versions up to this epoch survive */
	u64 nr_pages;
	u64 nr_taken;		/* pages, since the beginning */
	u64 nr_vers;
	u64 torn;		/* sectors that lost their latest content in power cuts */
};

int ssdsim_store_init(struct ssdsim_store *st, u64 units);
void ssdsim_store_exit(struct ssdsim_store *st);

/*
 * All take a range within one unit, in sectors. Those that return int can fail with -ENOMEM and
 * have then changed nothing; none of them sleeps.
 */
void ssdsim_store_read(struct ssdsim_store *st, u64 sector, u32 n, void *dst);
int ssdsim_store_write(struct ssdsim_store *st, u64 sector, u32 n, const void *src);
int ssdsim_store_zero(struct ssdsim_store *st, u64 sector, u32 n);

/* Memory for a FUA write that will be committed when it completes. */
int ssdsim_store_fua_prepare(struct ssdsim_store *st, u64 sector);
/* A FUA write completes: its sectors are durable, and no older content of them can come back. */
int ssdsim_store_fua_commit(struct ssdsim_store *st, u64 sector, u32 n, const void *src);
/* A FUA write was under way when the power was cut: each sector arrived or did not. */
void ssdsim_store_fua_tear(struct ssdsim_store *st, u64 sector, u32 n, const void *src, u64 seed);

/* A flush is submitted. Return: what to pass to ssdsim_store_flush_end() when it completes. */
u64 ssdsim_store_flush_begin(struct ssdsim_store *st);
void ssdsim_store_flush_end(struct ssdsim_store *st, u64 epoch);

/* Lose what is not durable, sector by sector as @seed says. */
void ssdsim_store_power_cut(struct ssdsim_store *st, u64 seed);

/*
 * The decision for @sector: does what was written to it in @epoch reach the flash? (0: a FUA
 * write.) A function of its arguments, so that a test can foretell the result.
 */
static inline bool ssdsim_store_coin(u64 seed, u64 sector, u64 epoch)
{
	return ssdsim_mix(seed ^ ssdsim_mix(sector ^ ssdsim_mix(epoch))) & 1;
}

#endif /* SSDSIM_STORE_H */
