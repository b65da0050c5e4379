// SPDX-License-Identifier: GPL-2.0
/*
 * store.c - a store: the partitions of a device that one thread has opened
 *
 * Each partition is recovered at the open, and closed with a checkpoint so that the next open
 * replays nothing. In between, only this file decides when a checkpoint begins, which victim is
 * collected, and which operations are told that there is no room. The files below tell it by
 * changed() that there may be something to decide.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log/journal.h"
#include "map.h"
#include "mem.h"
#include "segment.h"

enum {
	WRITES_OF_A_DEVICE	= 4,
	JOURNALED_WRITES	= 16,
	ROUNDS			= 64,	/* of upkeep that makes more work */
	LOOK_AFTER		= 16,	/* batches between searches for a victim without a stall */
};

/* ---- upkeep: checkpoints, garbage collection, refusals ---- */

/* Mark sealed segments without live records as drained; returns how many drained ones there are. */
static uint32_t mark_drained(struct okv_partition *p)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		if ((s->state == OKV_SEGMENT_SEALED || s->state == OKV_SEGMENT_BAD) &&
		    !s->live_bytes && !s->nr_headers && s->last_seq < okv_log_durable_seq(p) &&
		    !(p->gc.active && p->gc.victim == i)) {
			s->state = OKV_SEGMENT_DRAINED;
			s->drained_generation =
				p->generation + 1 + (p->checkpoint.step != OKV_CHECKPOINT_NONE);
		}
		nr += s->state == OKV_SEGMENT_DRAINED;
	}
	return nr;
}

static void start_checkpoint(struct okv_partition *p)
{
	if (p->checkpoint.step == OKV_CHECKPOINT_NONE &&
	    !okv_outage_pauses(p, &p->checkpoint_outage) &&
	    p->nr_free >= okv_segments_of_checkpoint(p))
		okv_checkpoint_start(p);
}

/* Operations wait, and nothing is under way that could make room. */
static void refuse(struct okv_partition *p)
{
	/* Moves wait only after failed writes, which used up what was kept for them. */
	if (okv_log_is_stalled(p, OKV_MOVES))
		okv_log_refuse(p, OKV_MOVES);
	if (okv_log_is_stalled(p, OKV_PUTS))
		okv_log_refuse(p, OKV_PUTS);
	if (okv_log_is_stalled(p, OKV_DELETES))
		okv_log_refuse(p, OKV_DELETES);
}

/* Returns the victim that begins, or p->nr_segments if none can begin or is worth it. */
static uint32_t start_victim(struct okv_partition *p, bool stalled)
{
	uint32_t victim = p->nr_segments;

	p->gc.waits = false;
	if (!p->gc.active && p->nr_free > okv_segments_of_checkpoint(p))
		victim = okv_gc_victim(p, p->segment_bytes / 32 * (stalled ? 31 : 28), stalled);
	if (victim < p->nr_segments && !okv_gc_start(p, victim, stalled))
		victim = p->nr_segments;
	return victim;
}

/*
 * May open segments end before they are full? This is the last resort: what has just been moved
 * there would be moved again.
 */
static bool may_seal(const struct okv_partition *p)
{
	return !p->batches && (!p->gc.active || okv_log_is_stalled(p, OKV_MOVES));
}

static void make_room(struct okv_partition *p, bool stalled)
{
	struct okv_gc *gc = &p->gc;
	uint32_t nr_drained, victim;
	bool in_vain;

	/* Neither moves nor checkpoints would make room now. */
	if (p->is_pinned) {
		if (stalled)
			okv_event(p, (struct okv_event){ .kind = OKV_EVENT_PINNED });
		return;
	}
	nr_drained = mark_drained(p);
	victim = start_victim(p, stalled);
	p->looked_seq = p->next_seq;
	if (stalled && !nr_drained && !p->gc.waits && victim == p->nr_segments && may_seal(p) &&
	    okv_log_seal_for_room(p)) {
		nr_drained = mark_drained(p);
		victim = start_victim(p, stalled);
	}
	if (nr_drained && (victim == p->nr_segments || nr_drained > p->nr_segments / 32 ||
			   p->nr_free <= okv_segments_of_checkpoint(p) + 1))
		start_checkpoint(p);
	/* The next tick tries again. */
	if (!stalled || p->gc.waits)
		return;
	in_vain = okv_gc_is_in_vain(p);
	if (in_vain && okv_log_is_stalled(p, OKV_PUTS)) {
		okv_log_refuse(p, OKV_PUTS);
	} else if (in_vain && okv_log_is_stalled(p, OKV_DELETES)) {
		okv_log_refuse(p, OKV_DELETES);
	} else if ((!gc->active || okv_log_is_stalled(p, OKV_MOVES)) &&
		   p->checkpoint.step == OKV_CHECKPOINT_NONE && !p->batches) {
		refuse(p);
	}
}

/*
 * Begin a checkpoint for a root in doubt. What is in flight comes first, as it may fail, too: the
 * checkpoint has to begin behind all that has failed.
 */
static void clear_doubt(struct okv_partition *p)
{
	if (p->batches || (p->refusing && p->is_hurried) ||
	    okv_outage_pauses(p, &p->checkpoint_outage))
		return;
	mark_drained(p);
	start_checkpoint(p);
	if (p->checkpoint.step == OKV_CHECKPOINT_NONE && !p->allocating && !p->refusing)
		okv_log_stop(p);
}

static void maintain_once(struct okv_partition *p)
{
	bool stalled;

	okv_checkpoint_resume(p);
	okv_segment_allocate(p, !okv_log_is_idle(p));
	okv_segments_trim(p);
	okv_gc_resume(p);
	stalled = !p->nr_preparing && !p->allocating && !p->trimming &&
		  (p->is_quiet || !okv_checkpoint_is_awaited(p)) &&
		  (okv_log_is_stalled(p, OKV_PUTS) || okv_log_is_stalled(p, OKV_DELETES) ||
		   okv_log_is_stalled(p, OKV_MOVES));
	if (stalled && !p->is_pinned)
		okv_log_refuse_groups(p);
	if (p->nr_roots_in_doubt) {
		clear_doubt(p);
		return;
	}
	if (p->is_quiet) {
		if (okv_log_is_stalled(p, OKV_MOVES))
			okv_log_refuse(p, OKV_MOVES);
		return;
	}
	if (okv_checkpoint_is_due(p)) {
		mark_drained(p);
		start_checkpoint(p);
	}
	if (stalled || (okv_segments_are_low(p) && p->next_seq >= p->looked_seq + LOOK_AFTER))
		make_room(p, stalled);
}

/*
 * Do what the store does by itself; cheap when there is nothing to do. This may cause changes: an
 * operation that is refused leaves its lock to the next one, which then waits for the same room. A
 * nested call only counts the change, and the outermost call looks again. After ROUNDS, a caller
 * that always submits again from within done() is left to the next tick.
 */
static void maintain(struct okv_partition *p)
{
	uint32_t seen = 0;

	if (p->nr_plugs || p->nr_changes++)
		return;
	for (uint32_t i = 0; i < ROUNDS && seen != p->nr_changes; i++) {
		if (p->failing)
			break;
		seen = p->nr_changes;
		maintain_once(p);
	}
	p->nr_changes = 0;
}

/* Packs first: batches that have failed may wait for them, and all else for these. */
static void changed(struct okv_partition *p)
{
	if (p->packs_fail_long) {
		p->packs_fail_long = false;
		okv_log_stop(p);
	}
	okv_packs_retry(p, false);
	okv_log_send(p);
	maintain(p);
}

static const struct okv_partition_ops partition_ops = {
	.applied	= okv_op_applied,
	.failed		= okv_op_finish,
	.yields		= okv_op_yields,
	.changed	= changed,
};

/* ---- open and close ---- */

static void free_partition(struct okv_partition *p)
{
	okv_packs_free(p);
	okv_index_free(&p->index);
	okv_known_free(&p->known);
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		mem_free(p->roots[i].segments);
	mem_free(p->checkpoint.buf);
	mem_free(p->checkpoint.root);
	okv_map_free_usage(p);
	mem_free(p->segments);
	mem_free(p);
}

/* Few and large writes, yet some in flight where there are few partitions. */
static uint32_t writes_max(const struct okv_super_disk *super)
{
	if (super->nr_partitions >= WRITES_OF_A_DEVICE)
		return 1;
	return WRITES_OF_A_DEVICE / super->nr_partitions;
}

static int open_partition(struct okv_store *store, uint32_t number, struct okv_partition **opened)
{
	const struct okv_super_disk *super = &store->layout.super;
	const struct okv_open_options *options = &store->options;
	struct okv_partition *p = mem_zalloc(sizeof(*p));
	int error = 0;

	p->ops = &partition_ops;
	p->store = store;
	p->disk = store->disk;
	p->layout = &store->layout;
	p->number = number;
	p->segment_bytes = super->segment_bytes;
	p->nr_segments = super->nr_segments;
	p->offset_bytes = super->data_offset_bytes +
			  (uint64_t)number * super->nr_segments * super->segment_bytes;
	for (int i = 0; i < OKV_NR_PLACES; i++)
		p->places[i].segment = p->nr_segments;
	p->nr_writes_max = options->nr_writes_max ? options->nr_writes_max : writes_max(super);
	p->nr_journaled_max = options->nr_writes_max ? options->nr_writes_max : JOURNALED_WRITES;
	p->trims = options->trims;
	p->batch_bytes_max = options->batch_bytes_max ? options->batch_bytes_max : 256 << 10;
	p->now_ms = options->now_ms;
	p->clock_ns = options->clock_ns;
	p->segments = mem_zalloc(p->nr_segments * sizeof(*p->segments));
	p->usage = mem_zalloc((OKV_ALL_TENANTS + 1) * sizeof(*p->usage));
	okv_known_init(&p->known, options->nr_known ? options->nr_known : OKV_NR_KNOWN);
	p->is_quiet = p->is_hurried = true;
	p->attempt_seed = options->attempt_seed;
	if (!p->attempt_seed)
		error = okv_draw(&p->attempt_seed, sizeof(p->attempt_seed));
	if (!error)
		error = okv_recover(p);
	p->is_quiet = p->is_hurried = false;
	if (error)
		free_partition(p);
	else
		*opened = p;
	return error;
}

static void fill_info(const struct okv_layout *layout, struct okv_device_info *info)
{
	const struct okv_super_disk *super = &layout->super;

	memcpy(info->uuid, super->uuid, sizeof(info->uuid));
	info->version = super->version;
	info->has_slots = okv_has_slots(super);
	info->has_journals = super->journal_bytes != 0;
	info->can_clear = okv_has_small_records(super);
	info->block_bytes = super->block_bytes;
	info->nr_partitions = super->nr_partitions;
	info->segment_bytes = super->segment_bytes;
	info->nr_segments = super->nr_segments;
	info->value_bytes_max = layout->value_bytes_max;
	info->size_bytes = super->size_bytes;
	info->nr_copies = OKV_NR_SUPERS;
}

int okv_device_info(struct okv_disk *disk, struct okv_device_info *info)
{
	struct okv_layout layout = { 0 };
	int error;

	memset(info, 0, sizeof(*info));
	error = okv_layout_read(disk, &layout, &info->nr_copies_bad);
	if (!error)
		fill_info(&layout, info);
	return error;
}

void okv_store_drop(struct okv_store *store)
{
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			free_partition(store->partitions[i]);
	}
	mem_free(store->journal);
	mem_free(store->partitions);
	mem_free(store);
}

int okv_store_open(struct okv_store **opened, struct okv_disk *disk,
		   const struct okv_open_options *options)
{
	struct okv_store *store = mem_zalloc(sizeof(*store));
	uint32_t nr_bad, nr;
	int error;

	store->disk = disk;
	store->options = *options;
	error = okv_layout_read(disk, &store->layout, &nr_bad);
	if (error)
		goto err_store;
	/* The blocks of the layout may be larger than those that the device asks for now. */
	disk->block_bytes = store->layout.super.block_bytes;
	fill_info(&store->layout, &store->info);
	store->info.nr_copies_bad = nr_bad;
	nr = options->nr_partitions ? options->nr_partitions : store->info.nr_partitions;
	if (options->first_partition + nr > store->info.nr_partitions) {
		error = -EINVAL;
		goto err_store;
	}
	store->partitions = mem_zalloc(store->info.nr_partitions * sizeof(struct okv_partition *));
	for (uint32_t i = 0; i < nr && !error; i++) {
		uint32_t number = options->first_partition + i;

		error = open_partition(store, number, &store->partitions[number]);
		if (options->leaves_damaged && options->event &&
		    (error == -EUCLEAN || error == -EIO)) {
			options->event(options->owner, &(struct okv_event){
				.kind = OKV_EVENT_LEFT_OUT, .partition = number, .error = -error,
			});
			error = 0;
		}
	}
	okv_heads_free(store->heads);
	store->heads = NULL;
	if (error) {
		okv_store_drop(store);
		return error;
	}
	/* What a partition that is left out needs of a journal stays there. */
	if (options->journal && !options->leaves_damaged && !options->reads_only)
		store->journal = okv_journal_new(store, options->journal - 1, okv_log_journaled);
	*opened = store;
	return 0;

err_store:
	mem_free(store);
	return error;
}

static bool is_busy(const struct okv_partition *p)
{
	bool checkpoints = p->checkpoint.step != OKV_CHECKPOINT_NONE || p->nr_roots_in_doubt;

	/* A partition that refuses writes tries its checkpoints later, wherever it is then. */
	if (p->refusing && (p->checkpoint.step == OKV_CHECKPOINT_NONE || p->checkpoint.waits ||
			    p->checkpoint.waits_for_packs))
		checkpoints = false;
	for (const struct okv_pack *pack = p->packs; pack; pack = pack->next) {
		if (pack->is_writing || !p->refusing)
			return true;
	}
	return p->nr_ops || p->gc.active || !okv_log_is_idle(p) || p->flush_in_flight ||
	       p->nr_headers || p->nr_preparing || p->allocating || p->trimming || checkpoints;
}

static void close_partition(struct okv_partition *p)
{
	int error = 0;

	p->is_hurried = true;
	changed(p);
	while (p->nr_ops > p->gc.nr_moving && !error)
		error = p->disk->ops->wait(p->disk);
	p->is_quiet = true;
	okv_pack_close(p);
	maintain(p);
	while (is_busy(p) && !error)
		error = p->disk->ops->wait(p->disk);
	/* With no segment open, recovery has nothing to look for behind the checkpoint. */
	okv_log_seal(p);
	if (!error && !p->refusing)
		okv_checkpoint_wait(p);
}

void okv_store_close(struct okv_store *store)
{
	/* All of them: what one waits for may be a pack of another. */
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (!store->partitions[i])
			continue;
		store->partitions[i]->is_hurried = true;
		changed(store->partitions[i]);
	}
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			close_partition(store->partitions[i]);
	}
	okv_store_drop(store);
}

/* ---- a partition that changes hands; time ---- */

bool okv_partition_quiesce(struct okv_partition *p)
{
	if (!p->is_quiet) {
		if (p->nr_ops > p->gc.nr_moving)
			return false;
		p->is_quiet = p->is_hurried = true;
		okv_pack_close(p);
		changed(p);
	}
	return !is_busy(p) && !p->packs;
}

bool okv_partition_is_stuck(const struct okv_partition *p)
{
	return p->is_quiet && p->packs && !is_busy(p);
}

bool okv_partition_is_working(const struct okv_partition *p)
{
	return p->gc.active || p->trimming || p->checkpoint.step != OKV_CHECKPOINT_NONE ||
	       p->nr_roots_in_doubt || p->pack_outage.nr_failures ||
	       p->log_outage.nr_failures || p->checkpoint_outage.nr_failures;
}

void okv_partition_set_clock(struct okv_partition *p, uint64_t now_ms)
{
	p->now_ms = now_ms;
}

void okv_partition_tick(struct okv_partition *p, uint64_t now_ms)
{
	okv_partition_set_clock(p, now_ms);
	okv_expire_some(p);
	okv_gc_try_bad(p);
	okv_packs_retry(p, true);
	changed(p);
}

struct okv_partition *okv_store_detach(struct okv_store *store, uint32_t partition)
{
	struct okv_partition *p = store->partitions[partition];

	store->partitions[partition] = NULL;
	return p;
}

void okv_partition_pin(struct okv_partition *p, bool pinned)
{
	/* What waits for room goes on with the next tick, in the thread of the partition. */
	p->is_pinned = pinned;
}

void okv_store_set_disk(struct okv_store *store, struct okv_disk *disk)
{
	disk->block_bytes = store->layout.super.block_bytes;
	disk->read_align_bytes = store->disk->read_align_bytes;
	store->disk = disk;
	for (uint32_t i = 0; i < store->info.nr_partitions; i++)
		if (store->partitions[i])
			store->partitions[i]->disk = disk;
}

void okv_store_attach(struct okv_store *store, struct okv_partition *p)
{
	store->partitions[p->number] = p;
	p->store = store;
	p->disk = store->disk;
	p->layout = &store->layout;
	p->clock_ns = store->options.clock_ns;
	p->is_quiet = p->is_hurried = false;
	maintain(p);
}

/* ---- what is there ---- */

uint32_t okv_store_partition_of(const struct okv_store *store, uint64_t hash)
{
	return store->layout.partition_bits ? hash >> (64 - store->layout.partition_bits) : 0;
}

struct okv_partition *okv_store_partition(struct okv_store *store, uint32_t partition)
{
	return partition < store->info.nr_partitions ? store->partitions[partition] : NULL;
}

const struct okv_device_info *okv_store_info(const struct okv_store *store)
{
	return &store->info;
}

void okv_partition_stats(const struct okv_partition *p, struct okv_stats *sum)
{
	const struct okv_stats *s = &p->stats;
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)s;

	for (size_t i = 0; i < offsetof(struct okv_stats, nr_refusing) / sizeof(*to); i++)
		to[i] += from[i];
	sum->nr_keys += p->index.nr_entries;
	sum->live_bytes += p->live_bytes;
	sum->capacity_bytes += okv_segments_capacity(p);
	sum->index_bytes += okv_index_bytes(&p->index);
	sum->known_bytes += p->known.nr * sizeof(*p->known.places);
	sum->nr_segments += p->nr_segments;
	sum->nr_free_segments += p->nr_free + p->nr_holes;
	sum->nr_refusing += p->refusing;
	sum->nr_failing += p->log_outage.nr_failures || p->checkpoint_outage.nr_failures ||
			   p->pack_outage.nr_failures;
	for (const struct okv_pack *pack = p->packs; pack; pack = pack->next)
		sum->nr_packs++;
}

void okv_store_stats(const struct okv_store *store, struct okv_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		if (store->partitions[i])
			okv_partition_stats(store->partitions[i], stats);
	}
}

void okv_store_tenant_usage(const struct okv_store *store, uint16_t tenant, uint64_t *bytes,
			    uint64_t *nr_keys)
{
	*bytes = *nr_keys = 0;
	for (uint32_t i = 0; i < store->info.nr_partitions && tenant < OKV_NR_TENANTS; i++) {
		if (!store->partitions[i])
			continue;
		*bytes += store->partitions[i]->usage[tenant].bytes;
		*nr_keys += store->partitions[i]->usage[tenant].nr_keys;
	}
}
