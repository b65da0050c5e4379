// SPDX-License-Identifier: GPL-2.0
/*
 * sim.c - octokv-sim: the store on a simulated device, with a model that knows what every reply must be
 *
 *	octokv-sim --seeds 1..20000	one run for each seed; the first that fails is printed, and the status is 1
 *	octokv-sim --seed 17 --trace	that one, with each operation
 *
 * A run makes a device of a size, block size and honesty that follow from the seed, and then, several times: opens the
 * store, reads every key, lets clients put, get, delete, update and touch keys, and cuts the power, kills the process or
 * closes the store, at any request of the device, those of recovery included.
 *
 * The model has for each key what was acknowledged, and the operations that were submitted and have no answer. The store
 * promises to do operations of a key in order, so a reply to a read is right if it is the state when it completes. After a
 * cut, a key may be as acknowledged, or as after the first, the first two, ... of the operations without an answer; the
 * first read decides which, and it stays. So a lost acknowledged write, a deletion that comes back, a value that nobody
 * wrote, and one that changes without cause are all found by a comparison with a list of at most a few.
 *
 * Kinds of runs:
 *	honest	the device keeps its word; requests are reordered, slow, torn and lost at cuts. Any OKV_CORRUPT is a failure.
 *	errors	reads, writes and flushes fail now and then. An answer of OKV_IO_ERROR leaves a write open.
 *	lying	writes are lost or go elsewhere, bits flip. An answer of OKV_CORRUPT, or an open that refuses, is right; a wrong
 *		value, or a "not found" for a key that is there, is not. The very last writes before a cut, and those behind one
 *		that has no answer yet, could be lost without a trace, so the device lies no more some time before the cut. A plain put
 *		or deletion may take a record that cannot be read for its own: where hashes collide, another key may be gone for it.
 * Where the device keeps its word, one of the two roots of a partition may be spoilt between two lives, or a sector of the newer one's checkpoint cannot be
 * read, which nobody may notice.
 * In any kind hashes may be made to collide, and the device is small enough to be full at times. Where it is sparse, the file system may have less
 * room than the device has, for a life: that is an answer of OKV_FULL, or an open that fails for it, and never an error.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../format.h"
#include "../known.h"
#include "../store.h"
#include "sim_disk.h"

enum {
	NR_KEYS_MAX	= 160,
	NR_CLIENTS_MAX	= 24,
	NR_MAYBE_MAX	= 64,
	KEY_BYTES_MAX	= 96,
	NR_WITNESSES	= 4,	/* writes of a partition acknowledged after the last lie, so that it can be seen */
};

enum run_kind { HONEST, ERRORS, LYING };

/* A state of a key; the value follows from the version. */
struct version {
	bool exists;
	uint32_t number;
	uint32_t len;
	uint64_t expire_ms;
};

struct key {
	char name[KEY_BYTES_MAX];
	uint16_t name_len;
	uint16_t tenant;
	uint64_t hash;
	struct version now;			/* as acknowledged */
	struct version maybe[NR_MAYBE_MAX];	/* what it may be after a cut, besides */
	uint32_t nr_maybe;
	uint32_t nr_open;			/* operations without an answer */
	bool uncertain;				/* maybe[] counts: the next read decides */
};

struct client {
	struct okv_op op;
	struct key *key;
	struct version to;	/* what a write makes of it */
	char *value;
	uint64_t submitted_ms;
	bool busy;
	bool checks_only;	/* a read after the open: decides */
	uint64_t number;
};

struct sim {
	uint64_t seed, random;
	enum run_kind kind;
	struct sim_disk disk;
	struct okv_store *store;
	uint32_t nr_keys, nr_clients, nr_partitions;
	uint32_t value_bytes_max, ttl_pct, apart_pct;
	uint64_t hash_mask;
	uint64_t now_ms;
	struct key keys[NR_KEYS_MAX];
	struct client clients[NR_CLIENTS_MAX];
	uint32_t nr_busy;
	uint32_t next_version;
	uint64_t nr_submitted, nr_ops, nr_acknowledged, nr_cuts, nr_corrupt, nr_refused_opens,
		nr_full;
	bool has_failed, trace, was_open;
	bool gave_up;		/* the store refused to open, rightly */
	bool refuses;		/* writes, after an error: the next open mends it */
};

static struct {
	uint64_t nr_cuts, nr_ops, nr_acknowledged, nr_corrupt, nr_refused_opens, nr_full, nr_gc,
		nr_checkpoints, nr_replayed;
} total;

__attribute__((format(printf, 2, 3)))
static void fail(struct sim *s, const char *format, ...)
{
	va_list args;

	if (s->has_failed)
		return;
	s->has_failed = true;
	printf("seed %lu (%s): ", (unsigned long)s->seed,
	       s->kind == HONEST ? "honest" :
	       s->kind == ERRORS ? "errors" :
				   "lying");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (after %lu operations, %lu cuts)\n", (unsigned long)s->nr_ops,
	       (unsigned long)s->nr_cuts);
}

static void make_value(char *to, uint32_t number, uint32_t len)
{
	uint64_t random = number * 0x10001ULL;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = sim_random(&random);

		memcpy(to + i, &word, len - i < 8 ? len - i : 8);
	}
}

static bool is_value(const char *value, uint32_t len, uint32_t number)
{
	char *expected = malloc(len + 1);
	bool same;

	make_value(expected, number, len);
	same = !memcmp(value, expected, len);
	free(expected);
	return same;
}

/* Not there: deleted, never written, or expired. When that was while the operation ran, either is right. */
static bool is_gone(const struct version *v, uint64_t at_ms)
{
	return !v->exists || (v->expire_ms && v->expire_ms <= at_ms);
}

static bool may_be(const struct sim *s, const struct client *c, const struct version *v, bool found)
{
	return found ? !is_gone(v, c->submitted_ms) : is_gone(v, s->now_ms);
}

/* Does what was read show this version? */
static bool shows(const struct sim *s, const struct client *c, const struct version *v)
{
	const struct okv_op *op = &c->op;

	if (!may_be(s, c, v, op->found))
		return false;
	if (!op->found)
		return true;
	return op->out_len == v->len && op->out_expire_ms == v->expire_ms &&
	       (!op->out || is_value(op->out, v->len, v->number));
}

static void forget_maybe(struct key *k)
{
	k->nr_maybe = 0;
	k->uncertain = false;
}

/* Was there, or not, what a write has found? */
static bool may_have_found(const struct sim *s, const struct client *c)
{
	const struct key *k = c->key;
	bool may = may_be(s, c, &k->now, c->op.found);

	for (uint32_t i = 0; i < k->nr_maybe && k->uncertain; i++)
		may |= may_be(s, c, &k->maybe[i], c->op.found);
	return may;
}

/* Has a write replaced a record that could not be made out? */
static bool took_suspect(const struct okv_op *op)
{
	return op->nr_suspects && op->present && op->at == op->suspect_at;
}

/* Then it may have been that of any key with the same tag. */
static void doubt_others(struct sim *s, const struct key *writer)
{
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		struct key *k = &s->keys[i];

		if (k == writer || k->tenant != writer->tenant || (k->hash ^ writer->hash) << 20 ||
		    k->nr_maybe == NR_MAYBE_MAX ||
		    (k->nr_maybe && !k->maybe[k->nr_maybe - 1].exists))
			continue;
		k->maybe[k->nr_maybe++] = (struct version){ .exists = false };
		k->uncertain = true;
	}
}

/* What a read, or the reading part of a write, has shown. Decides what the key is if that is open. */
static void check_shown(struct sim *s, struct client *c)
{
	struct key *k = c->key;

	if (shows(s, c, &k->now)) {
		if (k->uncertain && (c->checks_only || s->kind == LYING))
			forget_maybe(k);
		return;
	}
	/* The latest first: expired ones may show the same. */
	for (uint32_t i = k->nr_maybe; k->uncertain && i--; ) {
		if (shows(s, c, &k->maybe[i])) {
			k->now = k->maybe[i];
			forget_maybe(k);
			return;
		}
	}
	fail(s,
	     "key %ld shows %s of %u bytes, expiry %lu, and should be %s of %u bytes, version %u, expiry %lu, at %lu ms (operation %lu)",
	     (long)(k - s->keys), c->op.found ? "a value" : "nothing", c->op.out_len,
	     (unsigned long)c->op.out_expire_ms, k->now.exists ? "a value" : "nothing", k->now.len,
	     k->now.number, (unsigned long)k->now.expire_ms, (unsigned long)s->now_ms,
	     (unsigned long)c->number);
}

static bool is_write(const struct okv_op *op)
{
	return op->kind != OKV_OP_GET && op->kind != OKV_OP_STAT;
}

static void check_ok(struct sim *s, struct client *c)
{
	struct key *k = c->key;
	struct version to = c->to;

	s->nr_acknowledged++;
	switch (c->op.kind) {
	case OKV_OP_GET:
	case OKV_OP_STAT:
		check_shown(s, c);
		break;
	case OKV_OP_PUT:
		if ((c->op.flags & OKV_IF_ABSENT && c->op.found) ||
		    (c->op.flags & OKV_IF_PRESENT && !c->op.found))
			fail(s, "a conditional put went the wrong way");
		if (!took_suspect(&c->op) && !may_have_found(s, c))
			fail(s, "a put found what is not there, or not what is");
		to.expire_ms = c->op.expire_ms;
		k->now = to;
		break;
	case OKV_OP_UPDATE:
		check_shown(s, c);
		to.expire_ms = c->op.expire_ms;
		k->now = to;
		break;
	case OKV_OP_TOUCH:
		check_shown(s, c);
		k->now.expire_ms = c->op.expire_ms;
		break;
	default:
		if (!took_suspect(&c->op) && !may_have_found(s, c))
			fail(s, "deleted what is not there");
		k->now.exists = false;
	}
	if (s->kind == LYING)
		forget_maybe(k);
	if (took_suspect(&c->op))
		doubt_others(s, k);
}

/* An answer that leaves open whether it happened: it may show after the next open. */
static void leave_open(struct sim *s, struct client *c)
{
	struct key *k = c->key;
	struct version v = c->to;

	if (!is_write(&c->op))
		return;
	if (c->op.kind == OKV_OP_DELETE)
		v.exists = false;
	if (c->op.kind == OKV_OP_TOUCH) {
		v = k->nr_maybe ? k->maybe[k->nr_maybe - 1] : k->now;
		v.expire_ms = c->op.expire_ms;
	} else if (c->op.kind == OKV_OP_PUT || c->op.kind == OKV_OP_UPDATE) {
		v.expire_ms = c->op.expire_ms;
	}
	if (k->nr_maybe == NR_MAYBE_MAX)
		fail(s, "the model has room for %d open operations of a key", NR_MAYBE_MAX);
	else
		k->maybe[k->nr_maybe++] = v;
}

static struct sim *the_sim;

static void client_done(struct okv_op *op)
{
	struct client *c = op->owner;
	struct sim *s = the_sim;
	struct key *k = c->key;

	s->nr_ops++;
	if (s->trace)
		printf("  %lu: done %lu kind %d key %ld status %d found %d len %u\n",
		       (unsigned long)s->disk.now_us, (unsigned long)c->number, op->kind,
		       (long)(k - s->keys), op->status, op->found, op->out_len);
	switch (op->status) {
	case OKV_OK:
		check_ok(s, c);
		break;
	case OKV_NOT_FOUND:
	case OKV_EXISTS:
		if (op->kind == OKV_OP_PUT && !may_have_found(s, c))
			fail(s, "a conditional put refused and should not");
		if (op->kind != OKV_OP_PUT)
			check_shown(s, c);
		break;
	case OKV_CORRUPT:
		s->nr_corrupt++;
		if (s->kind != LYING)
			fail(s, "corrupt, and the device is honest");
		break;
	case OKV_FULL:
		s->nr_full++;
		break;
	case OKV_IO_ERROR:
		if (s->kind == HONEST && !s->disk.is_dead)
			fail(s, "an I/O error that the device did not make");
		leave_open(s, c);
		s->refuses |= is_write(op);
		break;
	case OKV_TOO_LARGE:
	case OKV_ABORTED:
		fail(s, "status %d", op->status);
	}
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

static uint32_t draw_len(struct sim *s)
{
	switch (sim_draw(&s->random, 8)) {
	case 0:
		return 0;
	case 3:
		/* Apart from its record, mostly. */
		return s->apart_pct && sim_draw(&s->random, 100) < s->apart_pct ?
			       OKV_APART_BYTES_MIN +
				       sim_draw(&s->random, 3) / 2 * sim_draw(&s->random, 1024) :
			       sim_draw(&s->random, 700);
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
		OKV_OP_PUT, OKV_OP_PUT,	 OKV_OP_PUT,	OKV_OP_PUT,    OKV_OP_GET,
		OKV_OP_GET, OKV_OP_STAT, OKV_OP_DELETE, OKV_OP_UPDATE, OKV_OP_TOUCH,
	};

	return kinds[sim_draw(&s->random, sizeof(kinds) / sizeof(kinds[0]))];
}

static void submit(struct sim *s, struct client *c, struct key *k, enum okv_op_kind kind)
{
	struct okv_op *op = &c->op;
	bool expires = sim_draw(&s->random, 100) < s->ttl_pct;

	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->tenant = k->tenant;
	op->ioprio = k->tenant << 3;
	op->hash = k->hash;
	op->key = k->name;
	op->key_len = k->name_len;
	op->update = client_update;
	op->done = client_done;
	op->owner = c;
	op->expire_ms = expires && (kind == OKV_OP_PUT || kind == OKV_OP_TOUCH) ?
				s->now_ms + 1 + sim_draw(&s->random, 40) :
				0;
	if (kind == OKV_OP_PUT && !sim_draw(&s->random, 4))
		op->flags = 1 << sim_draw(&s->random, 4);
	c->key = k;
	c->to = (struct version){ .exists = true,
				  .number = ++s->next_version,
				  .len = draw_len(s),
				  .expire_ms = op->expire_ms };
	if (kind == OKV_OP_PUT || kind == OKV_OP_UPDATE) {
		c->value = malloc(c->to.len + 1);
		make_value(c->value, c->to.number, c->to.len);
	}
	op->value = c->value;
	op->value_len = kind == OKV_OP_PUT ? c->to.len : 0;
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
	okv_partition_submit(
		okv_store_partition(s->store, okv_store_partition_of(s->store, op->hash)), op);
}

static void tick(struct sim *s)
{
	uint32_t nr = okv_store_info(s->store)->nr_partitions;

	s->now_ms = 1 + s->disk.now_us / 1000;
	for (uint32_t i = 0; i < nr; i++)
		okv_partition_tick(okv_store_partition(s->store, i), s->now_ms);
}

static bool step(struct sim *s)
{
	if (s->disk.disk.ops->wait(&s->disk.disk)) {
		if (s->nr_busy)
			fail(s, "%u operations wait and the device has nothing to do", s->nr_busy);
		return false;
	}
	return !s->has_failed;
}

static void drain(struct sim *s)
{
	while (s->nr_busy && step(s))
		;
}

/* Read each key: what it is must be what it may be, and is that from now on. */
static void check_all(struct sim *s)
{
	for (uint32_t i = 0; i < s->nr_keys && !s->has_failed && !s->disk.is_dead; i++) {
		struct key *k = &s->keys[i];

		s->clients[0].checks_only = true;
		k->uncertain |= k->nr_maybe != 0;
		submit(s, &s->clients[0], k, OKV_OP_GET);
		drain(s);
		s->clients[0].checks_only = false;
	}
}

static void run_clients(struct sim *s, uint32_t nr_ops)
{
	for (uint32_t i = 0; i < nr_ops && !s->has_failed && !s->disk.is_dead && !s->refuses; ) {
		struct client *c = &s->clients[sim_draw(&s->random, s->nr_clients)];
		struct key *k = &s->keys[sim_draw(&s->random, s->nr_keys)];

		if (!sim_draw(&s->random, 64))
			tick(s);
		if (!c->busy && sim_draw(&s->random, 4)) {
			submit(s, c, k, draw_kind(s));
			i++;
		} else if (s->disk.in_flight && !step(s)) {
			return;
		}
	}
}

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

/* A key of its own, which collides with no other. */
static bool bear_witness(struct sim *s, uint64_t partition, uint32_t nr_partitions)
{
	uint64_t number = ++s->next_version;
	struct witness w = { .op = { .kind = OKV_OP_PUT,
				     .tenant = 2,
				     .key = w.name,
				     .done = witness_done,
				     .owner = &w } };

	w.op.key_len = snprintf(w.name, sizeof(w.name), "w%lu", (unsigned long)number);
	w.op.hash = (nr_partitions > 1 ? partition << (64 - __builtin_ctz(nr_partitions)) : 0) |
		    number << 8 | 0x80;
	okv_partition_submit(okv_store_partition(s->store, partition), &w.op);
	while (!w.done && step(s))
		;
	return w.op.status == OKV_OK;
}

/* The device lies no more, and what is written now bears witness of what was lost. False: nothing could be written. */
static bool be_quiet(struct sim *s)
{
	uint32_t nr_partitions = okv_store_info(s->store)->nr_partitions;
	struct sim_plan plan = s->disk.plan;
	bool written = true;

	s->disk.plan.lost_ppm = s->disk.plan.misdirected_ppm = s->disk.plan.flip_ppm = 0;
	drain(s);
	/* Also what nobody waits for: a witness speaks of what is before the oldest write without an answer. */
	while (s->disk.in_flight && step(s))
		;
	for (uint32_t i = 0; i < nr_partitions * NR_WITNESSES && written; i++)
		written = bear_witness(s, i % nr_partitions, nr_partitions);
	s->disk.plan = plan;
	return written;
}

static bool open_store(struct sim *s)
{
	struct okv_open_options options = { .now_ms = s->now_ms, .nr_writes_max = 1 + s->seed % 5,
					    .batch_bytes_max = 2048 << s->seed % 4,
					    .nr_known = OKV_KNOWN_WAYS << s->seed / 5 % 6 };
	int error = okv_store_open(&s->store, &s->disk.disk, &options);

	if (!error)
		return true;
	if (s->disk.is_dead || (s->kind == ERRORS && error == -EIO) ||
	    (s->disk.room_bytes < s->disk.disk.size_bytes && error == -ENOSPC))
		return false;
	s->nr_refused_opens++;
	s->gave_up = true;
	if (s->kind != LYING || error != -EUCLEAN)
		fail(s, "the open fails: %s", strerror(-error));
	return false;
}

struct walk {
	struct okv_scan scan;
	struct sim *s;
	uint32_t nr_seen[NR_KEYS_MAX];
	bool done;
};

/* May a walk show that of a key? */
static bool may_walk(const struct key *k, uint32_t value_len, uint64_t expire_ms)
{
	bool may = k->now.exists && k->now.len == value_len && k->now.expire_ms == expire_ms;

	for (uint32_t i = 0; i < k->nr_maybe && k->uncertain; i++)
		may |= k->maybe[i].exists && k->maybe[i].len == value_len &&
		       k->maybe[i].expire_ms == expire_ms;
	return may;
}

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
		if (!may_walk(k, value_len, expire_ms))
			fail(w->s, "a walk shows key %u as it is not", i);
		return;
	}
	fail(w->s, "a walk shows a key that nobody wrote");
}

static void walk_done(struct okv_scan *scan)
{
	((struct walk *)scan->owner)->done = true;
}

/* Nothing runs: a walk shows each key that is there, once, and the sums are those of the model. */
static void check_walk(struct sim *s)
{
	struct walk w = { .s = s };
	uint64_t nr_walked = 0, nr_keys = 0;

	for (uint32_t tenant = 0; tenant < 2; tenant++) {
		uint64_t bytes, nr;

		for (uint32_t i = 0; i < okv_store_info(s->store)->nr_partitions; i++) {
			w.scan = (struct okv_scan){ .tenant = tenant,
						    .nr_max = 1 + s->seed % 7,
						    .key = walk_key,
						    .done = walk_done,
						    .owner = &w };
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
		bool there = !is_gone(&s->keys[i].now, s->now_ms);

		nr_walked += s->keys[i].now.exists;
		if (w.nr_seen[i] != there)
			fail(s, "a walk shows key %u %u times", i, w.nr_seen[i]);
	}
	if (s->kind == HONEST && !s->disk.is_dead &&
	    (s->ttl_pct ? nr_keys > nr_walked : nr_keys != nr_walked))
		fail(s, "the store counts %lu keys and the model %lu", (unsigned long)nr_keys,
		     (unsigned long)nr_walked);
}

static void add_up(struct sim *s)
{
	struct okv_stats stats;

	okv_store_stats(s->store, &stats);
	total.nr_gc += stats.nr_gc_segments;
	total.nr_checkpoints += stats.nr_checkpoints;
	total.nr_replayed += stats.nr_replayed_records;
}

static void drop_store(struct sim *s)
{
	add_up(s);
	while (s->disk.in_flight)
		s->disk.disk.ops->wait(&s->disk.disk);
	if (s->nr_busy && !s->has_failed)
		fail(s, "%u operations were never answered", s->nr_busy);
	okv_store_drop(s->store);
	s->store = NULL;
}

/* Is there a root, and would it be after a cut? */
static bool root_is_there(const struct sim *s, uint32_t partition, uint32_t slot)
{
	const struct okv_super_disk *super = (const void *)s->disk.durable;
	uint64_t at = okv_root_offset(partition, slot);
	const struct okv_root_disk *root = (const void *)(s->disk.durable + at);

	return !memcmp(s->disk.cache + at, root, sizeof(*root)) && root->magic == OKV_ROOT_MAGIC &&
	       root->sum ==
		       okv_sum_behind(root, sizeof(*root), okv_root_seed(super, partition, slot));
}

/*
 * One of the two roots of a partition cannot be read any more: the other one has to do, whichever it is. That is promised
 * once a store is open: its recovery uses the chunks of the older root for a new checkpoint.
 */
static void spoil_a_root(struct sim *s)
{
	uint32_t partition = sim_draw(&s->random, s->nr_partitions);
	uint32_t slot = sim_draw(&s->random, OKV_NR_ROOTS);
	uint64_t at = okv_root_offset(partition, slot);

	if (!s->was_open || !root_is_there(s, partition, 0) || !root_is_there(s, partition, 1))
		return;
	s->disk.cache[at] ^= 1;
	s->disk.durable[at] ^= 1;
}

/* The first sector of the newer root's checkpoint cannot be read: the older one has to do, and what is written there helps. */
static void spoil_a_chunk(struct sim *s)
{
	const struct okv_super_disk *super = (const void *)s->disk.durable;
	uint32_t partition = sim_draw(&s->random, s->nr_partitions);
	const struct okv_root_disk *roots[OKV_NR_ROOTS], *root;

	if (!s->was_open || !root_is_there(s, partition, 0) || !root_is_there(s, partition, 1))
		return;
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		roots[i] = (const void *)(s->disk.durable + okv_root_offset(partition, i));
	root = roots[roots[1]->generation > roots[0]->generation];
	if (!root->nr_segments)
		return;
	s->disk.has_bad = true;
	s->disk.bad_offset_bytes = super->data_offset_bytes +
				   ((uint64_t)partition * super->nr_segments + root->segments[0]) *
					   super->segment_bytes;
}

/* One life of the process. */
static void live(struct sim *s)
{
	bool closes = !sim_draw(&s->random, 5);

	sim_disk_revive(&s->disk);
	s->disk.room_bytes = UINT64_MAX;
	if (s->disk.disk.is_sparse && sim_draw(&s->random, 2))
		s->disk.room_bytes = sim_draw(&s->random, s->disk.disk.size_bytes / 2);
	if (s->kind != LYING && !sim_draw(&s->random, 4))
		spoil_a_root(s);
	else if (s->kind != LYING && !sim_draw(&s->random, 4))
		spoil_a_chunk(s);
	s->refuses = s->was_open = false;
	if (!closes)
		s->disk.cut_at = s->disk.nr_completed + 1 +
				 sim_draw(&s->random, sim_draw(&s->random, 3) ? 1500 : 60);
	s->disk.process_only = !sim_draw(&s->random, 4);
	if (s->kind == LYING)
		s->disk.cut_at = 0;
	if (!open_store(s)) {
		while (s->disk.in_flight)
			s->disk.disk.ops->wait(&s->disk.disk);
		s->nr_cuts += s->disk.is_dead;
		return;
	}
	s->was_open = true;
	check_all(s);
	run_clients(s, 40 + sim_draw(&s->random, 800));
	if (s->kind == LYING && !s->has_failed && !be_quiet(s))
		closes = true;
	if (!closes && !s->has_failed) {
		run_clients(s, s->kind == LYING ? 0 : 4000);
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
		add_up(s);
		okv_store_close(s->store);
		s->store = NULL;
	} else {
		s->disk.is_dead = true;
		drop_store(s);
	}
}

static void make_keys(struct sim *s)
{
	static const uint64_t masks[] = { ~0ULL, ~0ULL, 0xfff0000000000003ULL,
					  0x8000000000000000ULL };

	s->hash_mask = masks[sim_draw(&s->random, 4)];
	s->nr_keys = 1 + sim_draw(&s->random, sim_draw(&s->random, 2) ? NR_KEYS_MAX : 12);
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		struct key *k = &s->keys[i];

		/* Every second one has the name of the one before it, of another tenant. */
		k->tenant = i % 2;
		k->name_len = snprintf(
			k->name, sizeof(k->name), "%u%.*s", i / 2, (int)(i / 2 % 64),
			"..................................................................");
		k->hash = sim_random(&s->random) & s->hash_mask;
	}
}

static void plan(struct sim *s)
{
	struct sim_plan *p = &s->disk.plan;

	p->slow_ppm = sim_draw(&s->random, 2) ? 5000 : 20000;
	if (s->kind == ERRORS) {
		p->read_error_ppm = sim_draw(&s->random, 3000);
		p->write_error_ppm = sim_draw(&s->random, 30000);
		p->flush_error_ppm = sim_draw(&s->random, 3000);
	} else if (s->kind == LYING) {
		p->lost_ppm = sim_draw(&s->random, 2) * 2000;
		p->misdirected_ppm = sim_draw(&s->random, 2) * 2000;
		p->flip_ppm = sim_draw(&s->random, 2) * 4000;
	}
}

static bool run_seed(uint64_t seed, bool trace)
{
	struct okv_format_options format = { .seed = seed };
	struct sim *s = calloc(1, sizeof(*s));
	uint32_t nr_segments, nr_lives, block_bytes;
	bool failed;

	the_sim = s;
	s->seed = seed;
	s->random = seed * 0x2545f4914f6cdd1dULL + 1;
	s->trace = trace;
	s->kind = sim_draw(&s->random, 10) < 7 ? HONEST : sim_draw(&s->random, 2) ? ERRORS : LYING;
	s->now_ms = 1;
	s->nr_clients = 1 + sim_draw(&s->random, NR_CLIENTS_MAX);
	s->ttl_pct = sim_draw(&s->random, 2) * 20;
	s->apart_pct = sim_draw(&s->random, 3) * 40;
	block_bytes = sim_draw(&s->random, 3) ? 512 : 4096;
	s->nr_partitions = format.nr_partitions = 1 << sim_draw(&s->random, 2);
	format.segment_bytes = (block_bytes == 512 ? 16 << 10 : 32 << 10)
			       << sim_draw(&s->random, 2);
	nr_segments = 12 + sim_draw(&s->random, 30);
	sim_disk_init(&s->disk,
		      (1280 << 10) +
			      (uint64_t)format.nr_partitions * nr_segments * format.segment_bytes,
		      block_bytes, sim_draw(&s->random, 3), sim_random(&s->random));
	make_keys(s);
	if (okv_device_format(&s->disk.disk, &format))
		fail(s, "the format fails");
	plan(s);
	s->value_bytes_max = (format.segment_bytes - 4 * block_bytes) / 2 - 1200;
	nr_lives = 2 + sim_draw(&s->random, 6);
	for (uint32_t i = 0; i < nr_lives && !s->has_failed && !s->gave_up; i++)
		live(s);
	failed = s->has_failed;
	total.nr_cuts += s->nr_cuts;
	total.nr_ops += s->nr_ops;
	total.nr_acknowledged += s->nr_acknowledged;
	total.nr_corrupt += s->nr_corrupt;
	total.nr_refused_opens += s->nr_refused_opens;
	total.nr_full += s->nr_full;
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
	printf("%lu seeds passed: %lu cuts, %lu operations, %lu acknowledged, %lu full, %lu replayed; %lu checkpoints, %lu segments collected; "
	       "%lu corrupt and %lu opens refused, rightly\n",
	       to - from + 1, (unsigned long)total.nr_cuts, (unsigned long)total.nr_ops,
	       (unsigned long)total.nr_acknowledged, (unsigned long)total.nr_full,
	       (unsigned long)total.nr_replayed, (unsigned long)total.nr_checkpoints,
	       (unsigned long)total.nr_gc, (unsigned long)total.nr_corrupt,
	       (unsigned long)total.nr_refused_opens);
	return 0;
}
