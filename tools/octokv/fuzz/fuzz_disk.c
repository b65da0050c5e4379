// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_disk.c - libFuzzer against the code that reads the device
 *
 * A small device is made once, with a checkpoint, a tail, deletions, values of several sizes, some
 * of them compressed, records that collection has moved, and heads that only a journal has. An
 * input is a list of edits of it, 8 bytes each: where, which kind, how much. Checksums would stop
 * nearly all of them, so an edit of a structure then renews its checksums. So octokvd reads what an
 * attacker who knows the device's secrets could have written. Nothing of it may lead out of memory,
 * into a loop, or into a wait without end. The device is opened, all keys are read, walked and
 * written, and it is closed; the answers do not matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/log/journal.h"
#include "store/sim/sim_disk.h"

enum {
	NR_SEGMENTS	= 14,
	SEGMENT_BYTES	= 16 << 10,
	BLOCK_BYTES	= 512,
	JOURNAL_BYTES	= OKV_JOURNAL_BYTES_MIN,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES +
			  OKV_NR_JOURNALS * JOURNAL_BYTES,
	NR_KEYS		= 24,
	NR_PUTS_MAX	= 2000,		/* until something is moved */
	VALUE_BYTES	= 6 << 10,
	NR_EDITS_MAX	= 64,
};

enum edit_kind { RAW, SUPER, ROOT, BATCH, RECORD, CHUNK, CHUNK_PAYLOAD, JOURNAL, NR_KINDS };

struct edit {
	uint8_t kind;
	uint8_t where;
	uint16_t offset;
	uint32_t value;
};

struct user {
	struct okv_op op;
	char name[8];
	char value[VALUE_BYTES];
	bool done;
};

static struct sim_disk template;
static struct okv_layout layout;

static void op_done(struct okv_op *op)
{
	((struct user *)op->owner)->done = true;
	okv_op_release(op);
}

/* A quarter of each value is of one byte. Those of more than OKV_APART_BYTES_MIN are compressed. */
static void run_op(struct okv_store *store, struct sim_disk *d, enum okv_op_kind kind, uint32_t key,
		   uint32_t value_len)
{
	uint64_t random = key + 1;
	struct user u = {
		.op = {
			.kind = kind, .key = u.name, .value = u.value, .value_len = value_len,
			.done = op_done, .owner = &u,
			.compresses = value_len > OKV_APART_BYTES_MIN,
		},
	};

	u.op.key_len = snprintf(u.name, sizeof(u.name), "%u", key);
	u.op.hash = key * 0x9e3779b97f4a7c15ULL;
	for (uint32_t i = 0; i < value_len; i++)
		u.value[i] = i % 64 < 48 ? sim_random(&random) : key;
	okv_partition_submit(okv_store_partition(store, 0), &u.op);
	while (!u.done) {
		if (d->disk.ops->wait(&d->disk))
			abort();
	}
}

static struct okv_stats stats_of(const struct okv_store *store)
{
	struct okv_stats stats;

	okv_store_stats(store, &stats);
	return stats;
}

static void make_template(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
		.journal_bytes = JOURNAL_BYTES,
	};
	struct okv_open_options options = { .now_ms = 1, .journal = 1 };
	struct okv_store *store;

	sim_disk_init(&template, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	if (okv_device_format(&template.disk, &format) ||
	    okv_store_open(&store, &template.disk, &options))
		abort();
	for (uint32_t i = 0; i < 2 * NR_KEYS; i++)
		run_op(store, &template, OKV_OP_PUT, i % NR_KEYS,
		       i % 8 == 7 ? OKV_APART_BYTES_MIN : i % 7 * 300);
	okv_store_close(store);
	if (okv_store_open(&store, &template.disk, &options))
		abort();
	/* As if others were in flight all the time. */
	store->journal->nr_in_flight++;
	for (uint32_t i = 0; i < NR_KEYS; i++)
		run_op(store, &template, i % 3 ? OKV_OP_PUT : OKV_OP_DELETE, i,
		       i % 8 == 1 ? OKV_APART_BYTES_MIN : i % 8 == 2 ? VALUE_BYTES : i % 5 * 200);
	for (uint32_t i = 0; !stats_of(store).gc_bytes; i++) {
		if (i == NR_PUTS_MAX)
			abort();
		run_op(store, &template, OKV_OP_PUT, NR_KEYS + i % 3, 1000);
	}
	if (!stats_of(store).nr_compressed)
		abort();
	while (template.in_flight)
		template.disk.ops->wait(&template.disk);
	okv_store_drop(store);
	if (okv_layout_read(&template.disk, &layout, NULL))
		abort();
}

/* The @nth block that begins with the magic of a batch or a chunk, or NULL. */
static char *find_block(char *image, uint32_t magic, uint32_t nth, uint64_t *at)
{
	for (uint64_t i = layout.super.data_offset_bytes; i < DEVICE_BYTES; i += BLOCK_BYTES) {
		if (!memcmp(image + i + sizeof(uint64_t), &magic, sizeof(magic)) && nth-- == 0) {
			*at = (i - layout.super.data_offset_bytes) / OKV_ALIGN_BYTES;
			return image + i;
		}
	}
	return NULL;
}

static void change(char *structure, size_t bytes, const struct edit *e)
{
	size_t at = sizeof(uint64_t) + e->offset % (bytes - sizeof(uint64_t));

	memcpy(structure + at, &e->value,
	       bytes - at < sizeof(e->value) ? bytes - at : sizeof(e->value));
}

static void edit_super(char *image, const struct edit *e)
{
	struct okv_super_disk *super;

	/* All copies get the same edit: otherwise the others outvote it. */
	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		super = (void *)(image + (uint64_t)i * OKV_SUPER_STRIDE_BYTES);
		change((char *)super, sizeof(*super), e);
		okv_super_sign(super, i);
	}
}

static void edit_batch(char *image, const struct edit *e)
{
	uint64_t at, seed;
	char *block = find_block(image, OKV_BATCH_MAGIC, e->where, &at);
	struct okv_batch_disk *b = (void *)block;
	struct okv_record_disk *r;

	if (!block)
		return;
	r = (void *)(b + 1);
	if (e->kind == BATCH) {
		change(block, sizeof(*b), e);
		b->sum = okv_sum_behind(b, sizeof(*b), okv_seed(&layout.super, 0, at, b->life));
	} else {
		change((char *)r, sizeof(*r), e);
		seed = okv_seed(&layout.super, 0, at + sizeof(*b) / OKV_ALIGN_BYTES, b->life);
		if (sizeof(*r) + r->key_len <= BLOCK_BYTES - sizeof(*b))
			r->sum = okv_sum_behind(r, sizeof(*r) + r->key_len, seed);
	}
}

static void edit_chunk(char *image, const struct edit *e)
{
	uint64_t at;
	char *block = find_block(image, OKV_CHUNK_MAGIC, e->where, &at);
	struct okv_chunk_disk *c = (void *)block;

	if (!block)
		return;
	if (e->kind == CHUNK_PAYLOAD && c->bytes > sizeof(*c) + sizeof(uint64_t) &&
	    c->bytes <= SEGMENT_BYTES && block + c->bytes <= image + DEVICE_BYTES) {
		change((char *)(c + 1) - sizeof(uint64_t), c->bytes - sizeof(*c) + sizeof(uint64_t),
		       e);
		c->payload_sum = okv_sum(c + 1, c->bytes - sizeof(*c), layout.super.secret);
	} else {
		change(block, sizeof(*c), e);
	}
	c->sum = okv_chunk_sum(&layout.super, c, 0, at, c->attempt);
}

/* A write of the first journal. */
static void edit_journal(char *image, const struct edit *e)
{
	char *ring = image + okv_journal_offset(&layout.super, 0);
	uint32_t nth = e->where;

	for (uint64_t at = 0; at < JOURNAL_BYTES; at += BLOCK_BYTES) {
		struct okv_journal_disk *w = (void *)(ring + at);
		uint32_t bytes = w->bytes;

		if (w->magic != OKV_JOURNAL_MAGIC || nth--)
			continue;
		if (bytes < sizeof(*w) || bytes > JOURNAL_BYTES - at)
			bytes = sizeof(*w);
		change((char *)w, bytes, e);
		if (w->bytes >= sizeof(*w) && w->bytes <= JOURNAL_BYTES - at)
			w->sum = okv_journal_sum(&layout.super, w, 0, at);
		return;
	}
}

static void apply(char *image, const struct edit *e)
{
	uint64_t at = okv_root_offset(&layout.super, 0, e->where % OKV_NR_ROOTS);
	struct okv_root_disk *root = (void *)(image + at);

	switch (e->kind % NR_KINDS) {
	case RAW:
		at = (uint64_t)e->where << 16 | e->offset;
		memcpy(image + at % (DEVICE_BYTES - sizeof(e->value)), &e->value, sizeof(e->value));
		break;
	case SUPER:
		edit_super(image, e);
		break;
	case ROOT:
		change((char *)root, e->offset & 1 ? sizeof(*root) : 80, e);
		root->sum = okv_root_sum(&layout.super, root, 0, e->where % OKV_NR_ROOTS);
		break;
	case BATCH:
	case RECORD:
		edit_batch(image, e);
		break;
	case JOURNAL:
		edit_journal(image, e);
		break;
	default:
		edit_chunk(image, e);
	}
}

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	uint32_t sum = value_len + expire_ms;

	for (uint16_t i = 0; i < key_len; i++)
		sum += ((const uint8_t *)key)[i];
	*(uint32_t *)scan->owner += sum;
}

static void walk_done(struct okv_scan *scan)
{
	scan->tenant = OKV_NR_TENANTS;
}

static void use(struct okv_store *store, struct sim_disk *d)
{
	struct okv_partition *p = okv_store_partition(store, 0);
	uint32_t sum = 0;
	struct okv_scan scan = { .nr_max = 5, .key = walk_key, .done = walk_done, .owner = &sum };

	for (uint32_t i = 0; i < NR_KEYS; i++)
		run_op(store, d, OKV_OP_GET, i, 0);
	for (;; scan.tenant = 0) {
		okv_partition_scan(p, &scan);
		while (scan.tenant != OKV_NR_TENANTS && !d->disk.ops->wait(&d->disk))
			;
		if (!scan.cursor)
			break;
	}
	for (uint32_t i = 0; i < 3 * NR_KEYS; i++)
		run_op(store, d, i % 4 ? OKV_OP_PUT : OKV_OP_DELETE, i % NR_KEYS, 1500);
	okv_partition_tick(p, 1000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct okv_open_options options = { .now_ms = 1, .journal = 2 };
	struct okv_store *store;
	struct sim_disk d;
	struct edit e;

	if (!template.cache)
		make_template();
	sim_disk_init(&d, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	memcpy(d.cache, template.cache, DEVICE_BYTES);
	for (size_t i = 0; (i + 1) * sizeof(e) <= size && i < NR_EDITS_MAX; i++) {
		memcpy(&e, data + i * sizeof(e), sizeof(e));
		apply(d.cache, &e);
	}
	if (!okv_store_open(&store, &d.disk, &options)) {
		/* The geometry may have changed. */
		if (okv_store_info(store)->nr_partitions == 1)
			use(store, &d);
		okv_store_close(store);
	}
	while (d.in_flight)
		d.disk.ops->wait(&d.disk);
	sim_disk_free(&d);
	return 0;
}
