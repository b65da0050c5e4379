// SPDX-License-Identifier: GPL-2.0
/*
 * corrupt.c - a key whose record cannot be read can be overwritten and deleted
 *
 * Operations that have to know the old record answer OKV_CORRUPT. A plain put or deletion replaces
 * the record for good: also after an open, and if it can be read again. Where two keys have one
 * hash and both records are wrong, nothing is replaced.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 14,
	SEGMENT_BYTES	= 64 << 10,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
};

/* OTHER has the hash of KEY. */
enum key { KEY, OTHER, LAST };

static const char *const names[] = { "key", "other", "last" };
static const uint64_t hashes[] = { 7, 7, 9 };
static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;

static enum okv_status run_op(enum okv_op_kind kind, enum key key, uint16_t flags)
{
	struct user u = {
		.op = { .kind = kind, .flags = flags, .hash = hashes[key], .key = names[key],
			.key_len = strlen(names[key]), .value = "value", .value_len = 5 },
	};

	user_begin(&u, p);
	return user_wait(&u, &disk);
}

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1 };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void reopen(void)
{
	okv_store_close(store);
	open_store();
}

static void flip(uint64_t at)
{
	disk.cache[at] ^= 1;
	disk.durable[at] ^= 1;
}

/* Put a key, forget all known keys, and flip a bit of its record; returns where. */
static uint64_t spoil(enum key key)
{
	struct okv_entry e;
	uint64_t at;

	EXPECT(run_op(OKV_OP_PUT, key, 0) == OKV_OK);
	EXPECT(okv_index_find(&p->index, hashes[key], 0, 0, &e));
	while (okv_index_find(&p->index, hashes[key], 0, e.location + 1, &e))
		;
	EXPECT(run_op(OKV_OP_PUT, LAST, 0) == OKV_OK);
	memset(p->known.places, 0, p->known.nr * sizeof(*p->known.places));
	at = p->offset_bytes + e.location * OKV_ALIGN_BYTES +
	     offsetof(struct okv_record_disk, hash);
	flip(at);
	return at;
}

static void test_reads(void)
{
	spoil(KEY);
	EXPECT(run_op(OKV_OP_GET, KEY, 0) == OKV_CORRUPT &&
	       run_op(OKV_OP_STAT, KEY, 0) == OKV_CORRUPT);
	EXPECT(run_op(OKV_OP_PUT, KEY, OKV_IF_ABSENT) == OKV_CORRUPT &&
	       run_op(OKV_OP_PUT, KEY, OKV_KEEP_TTL) == OKV_CORRUPT);
	EXPECT(run_op(OKV_OP_DELETE, KEY, OKV_WANT_OLD) == OKV_CORRUPT &&
	       run_op(OKV_OP_TOUCH, KEY, 0) == OKV_CORRUPT);
	EXPECT(run_op(OKV_OP_DELETE, KEY, 0) == OKV_OK &&
	       run_op(OKV_OP_GET, KEY, 0) == OKV_NOT_FOUND);
	printf("ok store_corrupt: what has to know the old record says that it is corrupt\n");
}

static void test_replaced(enum okv_op_kind kind)
{
	enum okv_status then = kind == OKV_OP_PUT ? OKV_OK : OKV_NOT_FOUND;
	uint64_t nr_keys = kind == OKV_OP_PUT ? 2 : 1, at = spoil(KEY);

	EXPECT(run_op(kind, KEY, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_GET, KEY, 0) == then && p->index.nr_entries == nr_keys);
	flip(at);
	EXPECT(run_op(OKV_OP_GET, KEY, 0) == then);
	reopen();
	EXPECT(run_op(OKV_OP_GET, KEY, 0) == then && p->index.nr_entries == nr_keys);
	run_op(OKV_OP_DELETE, KEY, 0);
	EXPECT(p->index.nr_entries == 1);
	printf("ok store_corrupt: a %s replaces it for good\n",
	       kind == OKV_OP_PUT ? "put" : "deletion");
}

static void test_two(void)
{
	uint64_t key_at = spoil(KEY), other_at;

	flip(key_at);
	other_at = spoil(OTHER);
	flip(key_at);
	EXPECT(key_at != other_at);
	EXPECT(run_op(OKV_OP_PUT, KEY, 0) == OKV_CORRUPT &&
	       run_op(OKV_OP_DELETE, OTHER, 0) == OKV_CORRUPT);
	flip(other_at);
	EXPECT(run_op(OKV_OP_GET, OTHER, 0) == OKV_OK && run_op(OKV_OP_DELETE, OTHER, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_DELETE, KEY, 0) == OKV_OK && p->index.nr_entries == 1);
	printf("ok store_corrupt: of two records with one hash none is replaced\n");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store();
	test_reads();
	test_replaced(OKV_OP_PUT);
	test_replaced(OKV_OP_DELETE);
	test_two();
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
