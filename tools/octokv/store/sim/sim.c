// SPDX-License-Identifier: GPL-2.0
/*
 * sim.c - octokv-sim: the store on a simulated device, with a model that knows every right reply
 *
 *	octokv-sim --seeds 1..20000	one run for each seed; the first that fails is printed, and
 *					the status is 1
 *	octokv-sim --seed 17 --trace	that run, with each operation
 *
 * A run makes a device of a size, block size and honesty that follow from the seed. Then it does
 * this several times: it opens the store, reads every key, and lets clients put, get, delete,
 * update and touch keys. It cuts the power, kills the process or closes the store, at any request
 * of the device, those of recovery included.
 *
 * Kinds of runs:
 *	honest	The device keeps its word. Requests are reordered, slow, torn and lost at cuts. Any
 *		OKV_CORRUPT is a failure.
 *	errors	Reads, writes and flushes fail now and then. An answer of OKV_IO_ERROR leaves a
 *		write open.
 *	lying	Writes are lost or go elsewhere, bits flip. An answer of OKV_CORRUPT, or an open
 *		that refuses, is right; a wrong value, or "not found" for a key that is there, is
 *		not. The very last writes before a cut, and those behind one that has no answer yet,
 *		could be lost without a trace. So the device lies no more some time before the cut.
 *		A plain put or deletion may replace a record that cannot be read: where hashes
 *		collide, another key may be gone for it.
 *	mixed	Both.
 *
 * Where the device fails, the store may refuse writes for a while. Then the clients wait until it
 * takes them again, which it has to do by itself. What failed before must not show from then on
 * where another write was acknowledged. There are outages, too, in which all writes fail.
 *
 * Where the device keeps its word, the run may spoil one of the two roots of a partition between
 * two lives, or make a sector of the newer root's checkpoint unreadable. No reply may show that.
 *
 * In any kind, hashes may be made to collide, and the device is small enough to be full at times.
 * Where it is sparse, the file system may have less room than the device has, for a life. Then an
 * answer of OKV_FULL is right, and so is an open that fails for lack of room, but no other error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "store/format.h"
#include "store/partition.h"

static struct {
	uint64_t nr_cuts, nr_ops, nr_acknowledged, nr_corrupt, nr_refused_opens, nr_full;
	uint64_t nr_gc, nr_trimmed, nr_checkpoints, nr_replayed, nr_outages, nr_joined;
	uint64_t nr_compressed;
	uint64_t nr_expiries, nr_clears, nr_upgrades;
	uint64_t nr_journaled;
} total;

enum {
	PAUSE_US	= 10000,
	NR_PAUSES_MAX	= 4000,
};

/* ---- clients ---- */

static struct sim *the_sim;

static void client_done(struct okv_op *op)
{
	struct client *c = op->owner;
	struct sim *s = the_sim;
	struct key *k = c->key;

	s->nr_ops++;
	total.nr_clears += op->kind == OKV_OP_CLEAR && op->status == OKV_OK;
	if (s->trace)
		printf("  %lu: done %lu kind %d key %ld status %d found %d len %u\n",
		       (unsigned long)s->disk.now_us, (unsigned long)c->number, op->kind,
		       (long)(k - s->keys), op->status, op->found, op->out_len);
	model_answer(s, c);
	okv_op_release(op);
	free(c->value);
	c->value = NULL;
	c->busy = false;
	s->nr_busy--;
	k->nr_open--;
}

static enum okv_status client_update(struct okv_op *op)
{
	struct client *c = op->owner;

	op->value = c->value;
	op->value_len = c->to.len;
	return OKV_OK;
}

/* A touch that depends on the expiry that there is. */
static enum okv_status client_longer(struct okv_op *op)
{
	op->expire_ms += op->expire_ms ? 7 : 0;
	return OKV_OK;
}

static uint32_t draw_len(struct sim *s)
{
	uint32_t more;

	switch (sim_draw(&s->random, 8)) {
	case 0:
		return 0;
	case 3:
		if (!s->apart_pct || sim_draw(&s->random, 100) >= s->apart_pct)
			return sim_draw(&s->random, 700);
		/* Mostly apart. */
		more = sim_draw(&s->random, 3) / 2;
		return OKV_APART_BYTES_MIN + more * sim_draw(&s->random, 1024);
	case 1:
		return sim_draw(&s->random, s->value_bytes_max + 1);
	case 2:
		return s->value_bytes_max / 4;
	default:
		return sim_draw(&s->random, 700);
	}
}

static enum okv_op_kind draw_kind(struct sim *s)
{
	static const enum okv_op_kind kinds[] = {
		OKV_OP_PUT, OKV_OP_PUT, OKV_OP_PUT, OKV_OP_PUT, OKV_OP_GET, OKV_OP_GET,
		OKV_OP_STAT, OKV_OP_DELETE, OKV_OP_UPDATE, OKV_OP_TOUCH,
	};

	if (s->clears_one_in && okv_store_info(s->store)->can_clear &&
	    !sim_draw(&s->random, s->clears_one_in))
		return OKV_OP_CLEAR;
	return kinds[sim_draw(&s->random, sizeof(kinds) / sizeof(kinds[0]))];
}

static void submit(struct sim *s, struct client *c, struct key *k, enum okv_op_kind kind)
{
	struct okv_op *op = &c->op;
	bool expires = sim_draw(&s->random, 100) < s->ttl_pct;
	uint32_t partition;

	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->tenant = k->tenant;
	op->ioprio = k->tenant << 3;
	op->hash = k->hash;
	op->key = k->name;
	op->key_len = k->name_len;
	if (kind == OKV_OP_UPDATE)
		op->update = client_update;
	else if (kind == OKV_OP_TOUCH && !sim_draw(&s->random, 3))
		op->update = client_longer;
	if (kind == OKV_OP_TOUCH && !sim_draw(&s->random, 4))
		op->flags = OKV_WANT_OLD;
	op->done = client_done;
	op->owner = c;
	if (expires && (kind == OKV_OP_PUT || kind == OKV_OP_TOUCH))
		op->expire_ms = s->now_ms + 1 + sim_draw(&s->random, 40);
	if (kind == OKV_OP_PUT && !sim_draw(&s->random, 4))
		op->flags = 1 << sim_draw(&s->random, 4);
	c->key = k;
	c->to = (struct version){
		.exists = true, .number = ++s->next_version, .len = draw_len(s),
		.expire_ms = op->expire_ms,
	};
	if (kind == OKV_OP_PUT || kind == OKV_OP_UPDATE) {
		c->value = malloc(c->to.len + 1);
		model_make_value(c->value, c->to.number, c->to.len);
	}
	op->value = c->value;
	op->value_len = kind == OKV_OP_PUT ? c->to.len : 0;
	op->compresses = s->compresses && c->to.number / 4 % 4;
	c->submitted_ms = s->now_ms;
	c->busy = true;
	c->number = ++s->nr_submitted;
	s->nr_busy++;
	k->nr_open++;
	if (s->trace)
		printf("  %lu: submit %lu kind %d key %ld flags %d version %u len %u expiry %lu\n",
		       (unsigned long)s->disk.now_us, (unsigned long)c->number, kind,
		       (long)(k - s->keys), op->flags, c->to.number, c->to.len,
		       (unsigned long)op->expire_ms);
	partition = okv_store_partition_of(s->store, op->hash);
	okv_partition_submit(okv_store_partition(s->store, partition), op);
}

/* ---- time passes ---- */

static void tick(struct sim *s)
{
	uint32_t nr = okv_store_info(s->store)->nr_partitions;

	s->now_ms = 1 + s->disk.now_us / 1000;
	for (uint32_t i = 0; i < nr; i++)
		okv_partition_tick(okv_store_partition(s->store, i), s->now_ms);
}

/* Nothing is in flight, but the store waits for the clock before it tries a write again. */
static bool is_pausing(const struct sim *s)
{
	struct okv_stats stats = { 0 };

	if (s->store && s->is_open && !s->disk.in_flight && !s->disk.is_dead)
		okv_store_stats(s->store, &stats);
	return stats.nr_failing;
}

static void pass_time(struct sim *s)
{
	s->disk.now_us += PAUSE_US;
	tick(s);
}

static bool step(struct sim *s)
{
	for (int i = 0; i < NR_PAUSES_MAX && is_pausing(s); i++)
		pass_time(s);
	if (s->disk.disk.ops->wait(&s->disk.disk)) {
		if (s->nr_busy)
			model_fail(s, "%u operations wait and the device has nothing to do",
				   s->nr_busy);
		return false;
	}
	return !s->has_failed;
}

static void drain(struct sim *s)
{
	while (s->nr_busy && step(s))
		;
}

/* Read each key: it must show a state that it may have, and has that from now on. */
static void check_all(struct sim *s)
{
	for (uint32_t i = 0; i < s->nr_keys && !s->has_failed && !s->disk.is_dead; i++) {
		struct key *k = &s->keys[i];

		s->clients[0].checks_only = true;
		k->nr_uncertain = k->nr_maybe;
		submit(s, &s->clients[0], k, OKV_OP_GET);
		drain(s);
		s->clients[0].checks_only = false;
	}
}

/* An outage begins or ends: all writes fail, or all requests. */
static void draw_outage(struct sim *s)
{
	if (s->kind != ERRORS && s->kind != MIXED)
		return;
	if (s->disk.now_us >= s->outage_ends_us)
		s->disk.outage = SIM_NO_OUTAGE;
	if (s->has_outages && !s->disk.outage && !sim_draw(&s->random, 800)) {
		s->disk.outage = 1 + sim_draw(&s->random, 2);
		s->outage_ends_us = s->disk.now_us + sim_draw(&s->random, 12000000);
		s->nr_outages++;
	}
}

/* The store refuses writes after errors: wait until it takes them again. False: it cannot. */
static bool outlast(struct sim *s)
{
	struct okv_stats stats;

	for (uint32_t i = 0; i < NR_PAUSES_MAX && !s->has_failed; i++) {
		okv_store_stats(s->store, &stats);
		if (s->refuses && !stats.nr_refusing && !s->disk.is_dead)
			model_takes_again(s);
		s->refuses = stats.nr_refusing;
		if (!s->refuses || s->disk.is_dead)
			return !s->disk.is_dead;
		pass_time(s);
		draw_outage(s);
		while (s->disk.in_flight && !s->has_failed)
			s->disk.disk.ops->wait(&s->disk.disk);
	}
	/* With little room there may be none for the checkpoints. */
	if (s->disk.room_bytes == UINT64_MAX)
		model_fail(s, "a partition refuses writes and does not try again");
	return false;
}

static void ignore_key(struct okv_scan *scan, const void *key, uint16_t key_len,
		       uint32_t value_len, uint64_t expire_ms)
{
	(void)scan;
	(void)key;
	(void)key_len;
	(void)value_len;
	(void)expire_ms;
}

static void scan_done(struct okv_scan *scan)
{
	((struct sim *)scan->owner)->scans = false;
}

/* A step of a walk, which removes what has expired: over one tenant, or all. */
static void begin_scan(struct sim *s)
{
	uint32_t tenant = sim_draw(&s->random, 3);

	s->scans = true;
	s->scan = (struct okv_scan){
		.tenant = tenant < 2 ? tenant : OKV_ALL_TENANTS, .nr_max = 1 + s->seed % 20,
		.key = ignore_key, .done = scan_done, .owner = s,
	};
	okv_partition_scan(okv_store_partition(s->store, sim_draw(&s->random, s->nr_partitions)),
			   &s->scan);
}

static void run_clients(struct sim *s, uint32_t nr_ops)
{
	for (uint32_t i = 0; i < nr_ops && !s->has_failed && !s->disk.is_dead; ) {
		struct client *c = &s->clients[sim_draw(&s->random, s->nr_clients)];
		struct key *k = &s->keys[sim_draw(&s->random, s->nr_keys)];

		if (!sim_draw(&s->random, 64))
			tick(s);
		draw_outage(s);
		if (s->refuses && !outlast(s))
			return;
		if (!s->scans && !sim_draw(&s->random, 64))
			begin_scan(s);
		if (!c->busy && sim_draw(&s->random, 4)) {
			submit(s, c, k, draw_kind(s));
			i++;
		} else if ((s->disk.in_flight || is_pausing(s)) && !step(s)) {
			return;
		}
	}
}

/* ---- witnesses ---- */

struct witness {
	struct okv_op op;
	char name[24];
	bool done;
};

static void witness_done(struct okv_op *op)
{
	((struct witness *)op->owner)->done = true;
	okv_op_release(op);
}

/* Put a key of its own, which collides with no other. */
static bool bear_witness(struct sim *s, uint64_t partition, uint32_t nr_partitions)
{
	uint64_t number = ++s->next_version;
	struct witness w = {
		.op = { .kind = OKV_OP_PUT, .tenant = 2, .key = w.name, .done = witness_done,
			.owner = &w },
	};

	w.op.key_len = snprintf(w.name, sizeof(w.name), "w%lu", (unsigned long)number);
	w.op.hash = number << 8 | 0x80;
	if (nr_partitions > 1)
		w.op.hash |= partition << (64 - __builtin_ctz(nr_partitions));
	okv_partition_submit(okv_store_partition(s->store, partition), &w.op);
	while (!w.done && step(s))
		;
	return w.op.status == OKV_OK;
}

/*
 * The device lies no more, and what is written now bears witness of what was lost. False: nothing
 * could be written.
 */
static bool be_quiet(struct sim *s)
{
	uint32_t nr_partitions = okv_store_info(s->store)->nr_partitions;
	struct sim_plan plan = s->disk.plan;
	bool written;

	s->disk.plan = (struct sim_plan){ .slow_ppm = plan.slow_ppm };
	s->disk.outage = SIM_NO_OUTAGE;
	drain(s);
	written = outlast(s);
	/* All of it: a witness speaks only of what is before the oldest write in flight. */
	while (s->disk.in_flight && step(s))
		;
	for (uint32_t i = 0; i < nr_partitions * NR_WITNESSES && written; i++)
		written = bear_witness(s, i % nr_partitions, nr_partitions);
	s->disk.plan = plan;
	return written;
}

/* ---- a life of the process ---- */

/* One copy of the superblock is lost meanwhile. */
static void spoil_super(struct sim *s)
{
	uint64_t at = sim_draw(&s->random, OKV_NR_SUPERS) * (uint64_t)OKV_SUPER_STRIDE_BYTES;

	s->disk.cache[at] ^= 1;
	s->disk.durable[at] ^= 1;
}

static bool open_store(struct sim *s)
{
	struct okv_open_options options = { .now_ms = s->now_ms, .nr_writes_max = 1 + s->seed % 5,
					    .batch_bytes_max = 2048 << s->seed % 4,
					    .trims = s->seed / 7 % 2,
					    .nr_named = s->seed / 3 % 9,
					    .nr_known = OKV_KNOWN_WAYS << s->seed / 5 % 6,
					    .attempt_seed = s->seed + ++s->nr_opens };
	int error;

	/* Another journal in each life, or none. */
	options.journal = (s->seed / 11 + s->nr_opens) % 4;
	/* As octokvd does, whether that succeeds or not. */
	if (s->kind == HONEST && !sim_draw(&s->random, 4))
		spoil_super(s);
	if (!model_lies(s))
		okv_device_mend(&s->disk.disk);
	error = okv_store_open(&s->store, &s->disk.disk, &options);

	if (!error)
		return true;
	if (s->disk.is_dead || ((s->kind == ERRORS || s->kind == MIXED) && error == -EIO) ||
	    (s->disk.room_bytes < s->disk.disk.size_bytes && error == -ENOSPC))
		return false;
	s->nr_refused_opens++;
	s->gave_up = true;
	if (!model_lies(s) || error != -EUCLEAN)
		model_fail(s, "the open fails: %s", strerror(-error));
	return false;
}

struct walk {
	struct okv_scan scan;
	struct sim *s;
	uint32_t nr_seen[NR_KEYS_MAX];
	bool done;
};

static void walk_key(struct okv_scan *scan, const void *name, uint16_t name_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	struct walk *w = scan->owner;

	for (uint32_t i = 0; i < w->s->nr_keys; i++) {
		struct key *k = &w->s->keys[i];

		if (k->tenant != scan->tenant || k->name_len != name_len ||
		    memcmp(k->name, name, name_len))
			continue;
		w->nr_seen[i]++;
		if (!model_may_walk(k, value_len, expire_ms))
			model_fail(w->s, "a walk shows key %u as it is not", i);
		return;
	}
	model_fail(w->s, "a walk shows a key that was never written");
}

static void walk_done(struct okv_scan *scan)
{
	((struct walk *)scan->owner)->done = true;
}

/* With nothing running, a walk shows each key once, and the sums are those of the model. */
static void check_walk(struct sim *s)
{
	struct walk w = { .s = s };
	uint64_t nr_walked = 0, nr_keys = 0;

	for (uint32_t tenant = 0; tenant < 2; tenant++) {
		uint64_t bytes, nr;

		for (uint32_t i = 0; i < okv_store_info(s->store)->nr_partitions; i++) {
			w.scan = (struct okv_scan){
				.tenant = tenant, .nr_max = 1 + s->seed % 7, .key = walk_key,
				.done = walk_done, .owner = &w,
			};
			do {
				w.done = false;
				okv_partition_scan(okv_store_partition(s->store, i), &w.scan);
				while (!w.done && step(s))
					;
			} while (w.scan.cursor && !s->has_failed && !s->disk.is_dead);
		}
		okv_store_tenant_usage(s->store, tenant, &bytes, &nr);
		nr_keys += nr;
	}
	for (uint32_t i = 0; i < s->nr_keys && !s->disk.is_dead && s->kind == HONEST; i++) {
		bool there = !model_is_gone(&s->keys[i].now, s->now_ms);

		nr_walked += s->keys[i].now.exists;
		if (w.nr_seen[i] != there)
			model_fail(s, "a walk shows key %u %u times", i, w.nr_seen[i]);
	}
	if (s->kind == HONEST && !s->disk.is_dead &&
	    (s->ttl_pct ? nr_keys > nr_walked : nr_keys != nr_walked))
		model_fail(s, "the store counts %lu keys and the model %lu", (unsigned long)nr_keys,
			   (unsigned long)nr_walked);
}

/* With nothing under way, no tenant has anything under way. */
static void check_counts(struct sim *s)
{
	for (uint32_t i = 0; i < s->nr_partitions && !s->disk.is_dead; i++) {
		const struct okv_partition *p = okv_store_partition(s->store, i);

		for (uint32_t tenant = 0; !p->nr_ops && tenant <= OKV_ALL_TENANTS; tenant++)
			if (p->usage[tenant].nr_ops || p->usage[tenant].clear)
				model_fail(s, "tenant %u has %lu operations", tenant,
					   (unsigned long)p->usage[tenant].nr_ops);
	}
}

static void add_up(struct sim *s)
{
	struct okv_stats stats;

	okv_store_stats(s->store, &stats);
	total.nr_gc += stats.nr_gc_segments;
	total.nr_trimmed += stats.nr_trimmed_segments;
	total.nr_checkpoints += stats.nr_checkpoints;
	total.nr_replayed += stats.nr_replayed_records;
	total.nr_joined += stats.nr_joined;
	total.nr_compressed += stats.nr_compressed;
	total.nr_expiries += stats.nr_expiries;
	total.nr_journaled += stats.nr_journaled;
}

/* All that is in flight completes. */
static void settle(struct sim *s)
{
	while (s->disk.in_flight)
		s->disk.disk.ops->wait(&s->disk.disk);
}

static void drop_store(struct sim *s)
{
	struct okv_stats stats;

	add_up(s);
	settle(s);
	for (int i = 0; i < NR_PAUSES_MAX && s->nr_busy && !s->has_failed; i++) {
		pass_time(s);
		settle(s);
	}
	if (s->nr_busy && !s->has_failed)
		model_fail(s, "%u operations were never answered", s->nr_busy);
	for (uint32_t i = 0; i < s->nr_partitions && !s->has_failed; i++) {
		struct okv_partition *p = okv_store_partition(s->store, i);

		for (int nr = 0; nr < NR_PAUSES_MAX && !okv_partition_quiesce(p); nr++) {
			pass_time(s);
			settle(s);
		}
		okv_store_stats(s->store, &stats);
		if (!okv_partition_quiesce(p) && !stats.nr_packs)
			model_fail(s, "a partition does not come to rest");
	}
	okv_store_drop(s->store);
	s->store = NULL;
}

/* Is there a root, which a cut would leave? */
static bool root_is_there(const struct sim *s, uint32_t partition, uint32_t slot)
{
	const struct okv_super_disk *super = (const void *)s->disk.durable;
	uint64_t at = okv_root_offset(super, partition, slot);
	const struct okv_root_disk *root = (const void *)(s->disk.durable + at);

	return !memcmp(s->disk.cache + at, root, sizeof(*root)) && root->magic &&
	       root->sum == okv_root_sum(super, root, partition, slot);
}

/*
 * Spoil one of the two roots of a partition: the other one has to do, whichever it is. The store
 * promises that once it is open: its recovery uses the chunks of the older root for a new
 * checkpoint.
 */
static void spoil_a_root(struct sim *s)
{
	uint32_t partition = sim_draw(&s->random, s->nr_partitions);
	uint32_t slot = sim_draw(&s->random, OKV_NR_ROOTS);
	uint64_t at = okv_root_offset((const void *)s->disk.durable, partition, slot);

	if (!s->was_open || !root_is_there(s, partition, 0) || !root_is_there(s, partition, 1))
		return;
	s->disk.cache[at] ^= 1;
	s->disk.durable[at] ^= 1;
}

/*
 * Make the first sector of the newer root's checkpoint unreadable: the older root has to do, until
 * the sector is written.
 */
static void spoil_a_chunk(struct sim *s)
{
	const struct okv_super_disk *super = (const void *)s->disk.durable;
	uint32_t partition = sim_draw(&s->random, s->nr_partitions);
	const struct okv_root_disk *roots[OKV_NR_ROOTS], *root;
	uint64_t segment;

	if (!s->was_open || !root_is_there(s, partition, 0) || !root_is_there(s, partition, 1))
		return;
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		roots[i] = (const void *)(s->disk.durable + okv_root_offset(super, partition, i));
	root = roots[roots[1]->generation > roots[0]->generation];
	if (!root->nr_segments)
		return;
	s->disk.has_bad = true;
	segment = (uint64_t)partition * super->nr_segments + root->segments[0];
	s->disk.bad_offset_bytes = super->data_offset_bytes + segment * super->segment_bytes;
}

/* One life of the process. */
static void live(struct sim *s)
{
	bool closes = !sim_draw(&s->random, 5);

	sim_disk_revive(&s->disk);
	s->disk.room_bytes = UINT64_MAX;
	if (s->disk.disk.is_sparse && sim_draw(&s->random, 2))
		s->disk.room_bytes = sim_draw(&s->random, s->disk.disk.size_bytes / 2);
	if (!model_lies(s) && !sim_draw(&s->random, 4))
		spoil_a_root(s);
	else if (!model_lies(s) && !sim_draw(&s->random, 4))
		spoil_a_chunk(s);
	s->refuses = s->was_open = s->is_open = false;
	s->disk.outage = SIM_NO_OUTAGE;
	if (!closes)
		s->disk.cut_at = s->disk.nr_completed + 1 +
				 sim_draw(&s->random, sim_draw(&s->random, 3) ? 1500 : 60);
	s->disk.process_only = !sim_draw(&s->random, 4);
	if (model_lies(s))
		s->disk.cut_at = 0;
	if (!open_store(s)) {
		while (s->disk.in_flight)
			s->disk.disk.ops->wait(&s->disk.disk);
		s->nr_cuts += s->disk.is_dead;
		return;
	}
	s->was_open = s->is_open = true;
	check_all(s);
	run_clients(s, 40 + sim_draw(&s->random, 800));
	if (model_lies(s) && !s->has_failed && !be_quiet(s)) {
		closes = true;
		s->gave_up = s->kind == MIXED;
	}
	if (!closes && !s->has_failed) {
		run_clients(s, model_lies(s) ? 0 : 4000);
		s->disk.cut_at = 1;
		run_clients(s, 1);
		while (s->disk.in_flight && !s->disk.is_dead && step(s))
			;
		s->disk.is_dead = true;
		s->nr_cuts++;
		drop_store(s);
		return;
	}
	drain(s);
	if (!s->has_failed) {
		check_walk(s);
		check_counts(s);
		add_up(s);
		okv_store_close(s->store);
		s->store = NULL;
	} else {
		s->disk.is_dead = true;
		drop_store(s);
	}
}

/* A store of an earlier version becomes one of this version; the power may go meanwhile. */
static void upgrade(struct sim *s)
{
	int error = -EIO;

	/* Too few superblocks may be left. */
	if (model_lies(s))
		return;
	sim_disk_revive(&s->disk);
	s->disk.room_bytes = UINT64_MAX;
	s->disk.outage = SIM_NO_OUTAGE;
	s->disk.has_bad = false;
	s->disk.cut_at = s->disk.nr_completed + 1 + sim_draw(&s->random, 40);
	for (uint32_t i = 0; error && error != -EALREADY; i++) {
		error = okv_device_upgrade(&s->disk.disk);
		if (i == NR_PAUSES_MAX || (error && error != -EALREADY && s->kind == HONEST &&
					   !s->disk.is_dead)) {
			model_fail(s, "the upgrade fails: %s", strerror(-error));
			return;
		}
		if (s->disk.is_dead) {
			s->nr_cuts++;
			sim_disk_revive(&s->disk);
			s->disk.cut_at = 0;
		}
	}
	total.nr_upgrades += !error;
}

/* ---- runs ---- */

static void make_keys(struct sim *s)
{
	static const uint64_t masks[] = {
		~0ULL, ~0ULL, 0xfff0000000000003ULL, 0x8000000000000000ULL,
	};
	static const char dots[] =
		"..................................................................";

	s->hash_mask = masks[sim_draw(&s->random, 4)];
	s->nr_keys = 1 + sim_draw(&s->random, sim_draw(&s->random, 2) ? NR_KEYS_MAX : 12);
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		struct key *k = &s->keys[i];

		/* Every second key has the name of the one before it, of another tenant. */
		k->tenant = i % 2;
		k->name_len = snprintf(k->name, sizeof(k->name), "%u%.*s", i / 2, (int)(i / 2 % 64),
				       dots);
		k->hash = sim_random(&s->random) & s->hash_mask;
	}
}

static void plan(struct sim *s)
{
	struct sim_plan *p = &s->disk.plan;

	p->slow_ppm = sim_draw(&s->random, 2) ? 5000 : 20000;
	if (s->kind == ERRORS || s->kind == MIXED) {
		p->read_error_ppm = sim_draw(&s->random, 3000);
		p->write_error_ppm = sim_draw(&s->random, 30000);
		p->flush_error_ppm = sim_draw(&s->random, 3000);
	}
	if (model_lies(s)) {
		p->lost_ppm = sim_draw(&s->random, 2) * 2000;
		p->misdirected_ppm = sim_draw(&s->random, 2) * 2000;
		p->flip_ppm = sim_draw(&s->random, 2) * 4000;
	}
}

static bool run_seed(uint64_t seed, bool trace)
{
	/* Some are of earlier versions. */
	static const uint32_t formers[] = { 0, 0, 0, 3, 2, 0, 0, 0, 1, 2 };
	struct okv_format_options format = { .seed = seed, .former = formers[seed % 10] };
	struct sim *s = calloc(1, sizeof(*s));
	uint32_t nr_segments, nr_lives, block_bytes;
	uint64_t size_bytes, more_bytes = 0;
	bool failed;

	the_sim = s;
	s->seed = seed;
	s->random = seed * 0x2545f4914f6cdd1dULL + 1;
	s->trace = trace;
	s->kind = sim_draw(&s->random, 10) < 7 ? HONEST : 1 + sim_draw(&s->random, 3);
	s->now_ms = 1;
	s->nr_clients = 1 + sim_draw(&s->random, NR_CLIENTS_MAX);
	s->ttl_pct = sim_draw(&s->random, 2) * 20;
	s->apart_pct = sim_draw(&s->random, 3) * 40;
	s->compresses = seed / 10 % 3;
	s->has_outages = sim_draw(&s->random, 2);
	if (sim_draw(&s->random, 2))
		s->clears_one_in = sim_draw(&s->random, 3) ? 800 : 60;
	block_bytes = sim_draw(&s->random, 3) ? 512 : 4096;
	s->nr_partitions = format.nr_partitions = 1 << sim_draw(&s->random, 2);
	format.segment_bytes = block_bytes == 512 ? 16 << 10 : 32 << 10;
	format.segment_bytes <<= sim_draw(&s->random, 2);
	nr_segments = 12 + sim_draw(&s->random, 30);
	/* Small rings, which turn often. */
	if ((!format.former || format.former == 3) && sim_draw(&s->random, 4))
		format.journal_bytes = OKV_JOURNAL_BYTES_MIN;
	/* One without journals is on a device that has grown by what they take. */
	if (format.former == 1)
		more_bytes = OKV_NR_JOURNALS * OKV_JOURNAL_BYTES_MIN;
	size_bytes = (1280 << 10) + OKV_NR_JOURNALS * format.journal_bytes + more_bytes +
		     (uint64_t)format.nr_partitions * nr_segments * format.segment_bytes;
	sim_disk_init(&s->disk, size_bytes, block_bytes, sim_draw(&s->random, 3),
		      sim_random(&s->random));
	make_keys(s);
	s->disk.disk.size_bytes -= more_bytes;
	if (okv_device_format(&s->disk.disk, &format))
		model_fail(s, "the format fails");
	s->disk.disk.size_bytes += more_bytes;
	plan(s);
	s->value_bytes_max = (format.segment_bytes - 4 * block_bytes) / 2 - 1200;
	nr_lives = 2 + sim_draw(&s->random, 6);
	for (uint32_t i = 0; i < nr_lives && !s->has_failed && !s->gave_up; i++) {
		live(s);
		if (format.former % 2 && !sim_draw(&s->random, 2) && !s->has_failed)
			upgrade(s);
	}
	failed = s->has_failed;
	total.nr_cuts += s->nr_cuts;
	total.nr_ops += s->nr_ops;
	total.nr_acknowledged += s->nr_acknowledged;
	total.nr_corrupt += s->nr_corrupt;
	total.nr_refused_opens += s->nr_refused_opens;
	total.nr_full += s->nr_full;
	total.nr_outages += s->nr_outages;
	for (uint32_t i = 0; i < NR_CLIENTS_MAX; i++)
		free(s->clients[i].value);
	sim_disk_free(&s->disk);
	free(s);
	return !failed;
}

static int usage(void)
{
	fprintf(stderr, "usage: octokv-sim --seeds A..B | --seed N [--trace]\n");
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long from, to;
	bool trace = argc > 3 && !strcmp(argv[3], "--trace");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3)
		return usage();
	if (!strcmp(argv[1], "--seed") && sscanf(argv[2], "%lu", &from) == 1)
		to = from;
	else if (strcmp(argv[1], "--seeds") || sscanf(argv[2], "%lu..%lu", &from, &to) != 2)
		return usage();
	for (unsigned long seed = from; seed <= to; seed++) {
		if (!run_seed(seed, trace)) {
			printf("FAILED: run octokv-sim --seed %lu --trace\n", seed);
			return 1;
		}
		if ((seed - from + 1) % 1000 == 0)
			printf("%lu seeds of %lu, %lu cuts\n", seed - from + 1, to - from + 1,
			       (unsigned long)total.nr_cuts);
	}
	printf("%lu seeds passed: %lu cuts, %lu operations, %lu acknowledged, %lu joined, "
	       "%lu compressed, %lu expiries, %lu clearings, %lu journaled, %lu full, "
	       "%lu replayed, %lu upgraded; "
	       "%lu checkpoints, %lu segments collected, %lu trimmed, %lu outages; "
	       "%lu corrupt and %lu opens refused, rightly\n",
	       to - from + 1, (unsigned long)total.nr_cuts, (unsigned long)total.nr_ops,
	       (unsigned long)total.nr_acknowledged, (unsigned long)total.nr_joined,
	       (unsigned long)total.nr_compressed,
	       (unsigned long)total.nr_expiries, (unsigned long)total.nr_clears,
	       (unsigned long)total.nr_journaled,
	       (unsigned long)total.nr_full, (unsigned long)total.nr_replayed,
	       (unsigned long)total.nr_upgrades,
	       (unsigned long)total.nr_checkpoints, (unsigned long)total.nr_gc,
	       (unsigned long)total.nr_trimmed, (unsigned long)total.nr_outages,
	       (unsigned long)total.nr_corrupt, (unsigned long)total.nr_refused_opens);
	return 0;
}
