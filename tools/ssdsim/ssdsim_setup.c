// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_setup.c - a simulated SSD is made, aged, stopped by a power cut, and destroyed
 *
 * See ssdsim_model.h.
 */
#include <linux/types.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ssdsim_model.h"

static void die_reset(struct ssdsim_die *die)
{
	INIT_LIST_HEAD(&die->queue);
	INIT_LIST_HEAD(&die->dirty);
	die->cur = NULL;
	die->destage.kind = SSDSIM_DIE_DESTAGE;
	die->gc.kind = SSDSIM_DIE_GC;
	die->destage_queued = false;
	die->gc_queued = false;
	die->nr_batch = 0;
	die->nr_dirty = 0;
	die->heap_pos = SSDSIM_HEAP_OUT;
	die->xfer_start_ns = 0;
	die->xfer_end_ns = 0;
}

/* Nothing under way, nothing cached; the page map, the clock, the stall and the counters stay. */
static void model_reset(struct ssdsim_model *m)
{
	u32 i;

	for (i = 0; i < SSDSIM_MAX_QUEUES; i++) {
		INIT_LIST_HEAD(&m->queues[i].in_service);
		INIT_LIST_HEAD(&m->queues[i].cmds);
	}
	INIT_LIST_HEAD(&m->pipe);
	INIT_LIST_HEAD(&m->unmap);
	INIT_LIST_HEAD(&m->held);
	INIT_LIST_HEAD(&m->all);
	INIT_LIST_HEAD(&m->cache_free);
	INIT_LIST_HEAD(&m->cache_wait);
	INIT_LIST_HEAD(&m->flushes);
	m->qmask = 0;
	m->service_mask = 0;
	m->slots_used = 0;
	m->nr_prompt = 0;
	m->nr_cached = 0;
	m->open_count = 0;
	m->heap_len = 0;
	m->fetch_free_ns = m->now_ns;
	m->pipe_free_ns = m->now_ns;
	memset(m->hash, 0xff, sizeof(*m->hash) << (32 - m->hash_shift));
	for (i = 0; i < m->cfg.cache_units; i++)
		list_add_tail(&m->entries[i].link, &m->cache_free);
	for (i = 0; i < m->nr_dies; i++)
		die_reset(&m->dies[i]);
}

void ssdsim_model_power_cut(struct ssdsim_model *m, u64 now)
{
	struct ssdsim_cmd *cmd, *next;

	ssdsim_model_run(m, now);
	list_for_each_entry_safe(cmd, next, &m->all, all) {
		cmd->aborted = true;
		cmd->done_ns = m->now_ns;
		m->aborted++;
		list_add_tail(&cmd->link, &m->done);
	}
	model_reset(m);
}

/* The owner keeps all other callers out for a piece: a fraction of a millisecond. */
#define FILL_PIECE_UNITS	2048

bool ssdsim_model_fill(struct ssdsim_model *m, u32 die_id, u32 pct, struct ssdsim_fill *fill)
{
	struct ssdsim_ftl *ftl = &m->dies[die_id].ftl;
	u32 once = pct < 100 ? pct : 100, more = pct - once;
	u64 n = (u64)ftl->nr_units * once / 100, end = n + (u64)ftl->nr_units * more / 100;
	u64 stop = fill->nr_written + FILL_PIECE_UNITS, i;
	u32 units[SSDSIM_MAX_PAGE_UNITS], k = 0;

	for (i = fill->nr_written; i < end && (i < stop || k); i++) {
		fill->random = ssdsim_mix(fill->random + i);
		units[k++] = i < n ? i : fill->random % ftl->nr_units;
		if (k < ftl->page_units && i + 1 != n)
			continue;
		while (!ssdsim_ftl_can_program(ftl) || (i >= n && ftl->nr_free <= SSDSIM_GC_LOW))
			ssdsim_ftl_gc_step(ftl, &m->cfg);
		ssdsim_ftl_program(ftl, units, k);
		k = 0;
	}
	fill->nr_written = i;
	return i < end;
}

const char *ssdsim_cfg_check(const struct ssdsim_cfg *cfg)
{
	if (!cfg->channels || cfg->channels > SSDSIM_MAX_CHANNELS)
		return "channels";
	if (!cfg->ways || cfg->ways > SSDSIM_MAX_WAYS ||
	    cfg->channels * cfg->ways > SSDSIM_MAX_DIES)
		return "ways";
	if (!cfg->page_units || cfg->page_units > SSDSIM_MAX_PAGE_UNITS)
		return "page_kb";
	if (!cfg->block_pages || cfg->block_pages > 4096)
		return "block_pages";
	if (cfg->op_pct > 400)
		return "op_pct";
	if (!cfg->units || cfg->units > 0x7fffffff)
		return "size_mb";
	if (!cfg->slots)
		return "slots";
	if (!cfg->cache_units || cfg->cache_units > 1u << 22)
		return "cache_kb";
	return NULL;
}

struct ssdsim_model *ssdsim_model_create(const struct ssdsim_cfg *cfg)
{
	u32 dies = cfg->channels * cfg->ways, stripe = dies * cfg->page_units;
	u32 nr_units = (cfg->units + stripe - 1) / stripe * cfg->page_units;
	struct ssdsim_model *m;
	u32 i, bits = 1;

	m = kvcalloc(1, sizeof(*m) + dies * sizeof(m->dies[0]), GFP_KERNEL);
	if (!m)
		return NULL;
	m->cfg = *cfg;
	m->nr_dies = dies;
	m->last_q = SSDSIM_MAX_QUEUES - 1;
	m->open_group = 1;
	while ((1u << bits) < cfg->cache_units)
		bits++;
	m->hash_shift = 32 - bits;
	m->hash = kvcalloc(1u << bits, sizeof(*m->hash), GFP_KERNEL);
	m->entries = kvcalloc(cfg->cache_units, sizeof(*m->entries), GFP_KERNEL);
	if (!m->hash || !m->entries)
		goto err_free;
	for (i = 0; i < dies; i++) {
		m->dies[i].id = i;
		if (ssdsim_ftl_init(&m->dies[i].ftl, cfg, nr_units))
			goto err_free;
	}
	INIT_LIST_HEAD(&m->done);
	model_reset(m);
	return m;

err_free:
	ssdsim_model_destroy(m);
	return NULL;
}

void ssdsim_model_destroy(struct ssdsim_model *m)
{
	u32 i;

	if (!m)
		return;
	for (i = 0; i < m->nr_dies; i++)
		ssdsim_ftl_exit(&m->dies[i].ftl);
	kvfree(m->entries);
	kvfree(m->hash);
	kvfree(m);
}
