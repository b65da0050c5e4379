// SPDX-License-Identifier: GPL-2.0
/*
 * clear.c - all keys of a tenant are gone with one record, and those of others stay
 *
 * What was submitted before is gone, what was submitted behind it is there, also when all are under
 * way at once. A record that is being moved does not come back. All that holds after a cut of the
 * power, after a checkpoint, and in what a salvage shows. A store that is full takes it.
 */
#include "single.h"

enum {
	NR_SEGMENTS	= 30,
	SEGMENT_BYTES	= 256 << 10,
	BLOCK_BYTES	= 4096,
	DEVICE_BYTES	= (2 << 20) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 16 << 10,
	NR_KEYS		= 100,
	OTHER		= 1,		/* another tenant */
};

static struct okv_open_options how_to_open = { .now_ms = 1, .nr_known = OKV_KNOWN_WAYS };
static char value[VALUE_BYTES];

static void make_store(uint32_t former)
{
	user_make_device(&disk, DEVICE_BYTES, BLOCK_BYTES, SEGMENT_BYTES, former);
	open_store();
}

static struct user user_of(enum okv_op_kind kind, uint16_t tenant, uint32_t value_len)
{
	return (struct user){
		.op = { .kind = kind, .tenant = tenant, .value = value, .value_len = value_len },
	};
}

static enum okv_status run_op(enum okv_op_kind kind, uint16_t tenant, uint32_t key,
			      uint32_t value_len)
{
	struct user u = user_of(kind, tenant, value_len);

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

static void begin_clear(struct user *u, uint16_t tenant)
{
	*u = user_of(OKV_OP_CLEAR, tenant, 0);
	user_begin(u, p);
}

/* Returns how many keys there were. */
static uint64_t clear(uint16_t tenant)
{
	uint64_t nr_before = stats().nr_deletes;
	struct user u;

	begin_clear(&u, tenant);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	return stats().nr_deletes - nr_before;
}

static void put_all(uint16_t tenant, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		EXPECT(run_op(OKV_OP_PUT, tenant, i, i % 10 ? 100 : VALUE_BYTES) == OKV_OK);
}

static void expect_all(uint16_t tenant, uint32_t nr, bool there)
{
	uint64_t bytes, nr_keys;

	for (uint32_t i = 0; i < nr; i++)
		EXPECT(run_op(OKV_OP_GET, tenant, i, 0) == (there ? OKV_OK : OKV_NOT_FOUND));
	okv_store_tenant_usage(store, tenant, &bytes, &nr_keys);
	EXPECT(nr_keys == (there ? nr : 0) && !bytes == !there);
}

static void test_one_record(void)
{
	uint64_t written;

	make_store(0);
	EXPECT(okv_store_info(store)->can_clear);
	put_all(0, NR_KEYS);
	put_all(OTHER, NR_KEYS / 2);
	EXPECT(run_op(OKV_OP_TOUCH, 0, 0, 0) == OKV_OK && p->index.nr_expiries == 1);
	written = stats().batch_bytes;
	EXPECT(clear(0) == NR_KEYS && stats().batch_bytes - written <= BLOCK_BYTES);
	EXPECT(!p->index.nr_expiries && stats().nr_keys == NR_KEYS / 2);
	expect_all(0, NR_KEYS, false);
	expect_all(OTHER, NR_KEYS / 2, true);
	cut();
	expect_all(0, NR_KEYS, false);
	expect_all(OTHER, NR_KEYS / 2, true);
	put_all(0, NR_KEYS / 4);
	EXPECT(clear(OTHER) == NR_KEYS / 2);
	okv_store_close(store);
	open_store();
	EXPECT(!stats().nr_replayed_records);
	expect_all(OTHER, NR_KEYS, false);
	expect_all(0, NR_KEYS / 4, true);
	end();
	printf("ok store_clear: one record for %u keys\n", NR_KEYS);
}

static enum okv_status decide(struct okv_txn *t)
{
	t->keys[0].value = t->keys[1].value = "new";
	t->keys[0].value_len = t->keys[1].value_len = 3;
	t->keys[0].writes = t->keys[1].writes = true;
	return OKV_OK;
}

static uint32_t nr_txns_done;

static void txn_done(struct okv_txn *t)
{
	EXPECT(t->status == OKV_OK);
	nr_txns_done++;
}

/* Two keys are written, in front of a clearing or behind it. The first two are locked. */
static void begin_txn(struct okv_txn *t, struct okv_txn_key keys[2], uint32_t key)
{
	static const char *const names[] = { "0", "1", "60", "61" };

	memset(keys, 0, 2 * sizeof(*keys));
	for (uint32_t i = 0; i < 2; i++) {
		keys[i].read.key = names[key + i];
		keys[i].read.key_len = strlen(names[key + i]);
		keys[i].read.hash = (atoi(names[key + i]) + 1) * 0x9e3779b97f4a7c15ULL;
	}
	*t = (struct okv_txn){ .keys = keys, .nr_keys = 2, .decide = decide, .done = txn_done };
	okv_partition_transact(p, t);
}

/* All at once: puts, a transaction, a clearing, and again. */
static void test_order(void)
{
	struct user before[4], after[4], clears[2], other = user_of(OKV_OP_PUT, OTHER, 5);
	struct okv_txn_key keys[2][2];
	struct okv_txn txns[2];

	make_store(0);
	for (uint32_t i = 0; i < 4; i++) {
		before[i] = user_of(OKV_OP_PUT, 0, 7);
		user_begin_key(&before[i], p, i);
	}
	begin_txn(&txns[0], keys[0], 0);
	begin_clear(&clears[0], 0);
	begin_txn(&txns[1], keys[1], 2);
	/* Others do not wait. */
	user_begin_key(&other, p, 0);
	for (uint32_t i = 0; i < 2; i++) {
		after[i] = user_of(OKV_OP_PUT, 0, 8);
		user_begin_key(&after[i], p, i);
	}
	EXPECT(user_wait(&other, &disk) == OKV_OK && !after[0].done);
	for (uint32_t i = 0; i < 2; i++)
		EXPECT(user_wait(&after[i], &disk) == OKV_OK);
	EXPECT(clears[0].done && stats().nr_deletes == 4);
	while (nr_txns_done < 2)
		disk.disk.ops->wait(&disk.disk);
	EXPECT(stats().nr_keys == 5);
	/* Two in a row, with something between. */
	begin_clear(&clears[0], 0);
	after[2] = user_of(OKV_OP_PUT, 0, 9);
	user_begin_key(&after[2], p, 2);
	begin_clear(&clears[1], 0);
	after[3] = user_of(OKV_OP_PUT, 0, 10);
	user_begin_key(&after[3], p, 3);
	EXPECT(user_wait(&after[3], &disk) == OKV_OK && after[2].done && clears[1].done);
	EXPECT(stats().nr_deletes == 4 + 4 + 1);
	cut();
	EXPECT(stats().nr_keys == 2 && run_op(OKV_OP_GET, 0, 3, 0) == OKV_OK &&
	       run_op(OKV_OP_GET, OTHER, 0, 0) == OKV_OK);
	end();
	puts("ok store_clear: what was before it is gone, what is behind it is there");
}

/* Records that are being moved, in front of a clearing and behind it, do not come back. */
static void test_moves(void)
{
	struct user moves[3], clearing;

	make_store(0);
	put_all(0, 3);
	/* So that moves have a segment. */
	user_begin_move(&moves[2], p, 2, value, 100);
	EXPECT(user_wait(&moves[2], &disk) == OKV_OK);
	user_begin_move(&moves[0], p, 0, value, VALUE_BYTES);
	begin_clear(&clearing, 0);
	user_begin_move(&moves[1], p, 1, value, 100);
	EXPECT(p->nr_writing > 1 && !clearing.done);
	for (uint32_t i = 0; i < 2; i++)
		EXPECT(user_wait(&moves[i], &disk) == OKV_OK);
	EXPECT(user_wait(&clearing, &disk) == OKV_OK);
	expect_all(0, 3, false);
	EXPECT(!stats().live_bytes);
	cut();
	EXPECT(stats().nr_replayed_records);
	expect_all(0, 3, false);
	end();
	puts("ok store_clear: a record that is moved meanwhile does not come back");
}

static uint32_t nr_shown;

static void see(struct okv_export *e, const struct okv_exported *x)
{
	(void)e;
	EXPECT(x->tenant == OTHER || x->value_len == 9);
	nr_shown++;
}

static void test_salvage(void)
{
	struct okv_export walk = { .record = see };

	make_store(0);
	put_all(0, NR_KEYS);
	put_all(OTHER, NR_KEYS);
	EXPECT(clear(0) == NR_KEYS && run_op(OKV_OP_PUT, 0, 3, 9) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		memset(disk.cache + root_offset(&disk, slot), 0, OKV_PAGE_BYTES);
	EXPECT(!okv_device_salvage(&disk.disk, &walk) && nr_shown == NR_KEYS + 1);
	sim_disk_free(&disk);
	puts("ok store_clear: a salvage does not show what was cleared");
}

static void test_full(void)
{
	uint32_t nr = 0;

	make_store(0);
	while (run_op(OKV_OP_PUT, 0, nr, VALUE_BYTES) == OKV_OK)
		nr++;
	EXPECT(nr > NR_KEYS && clear(0) == nr);
	for (uint32_t i = 0; i < nr; i++)
		EXPECT(run_op(OKV_OP_PUT, 0, i, VALUE_BYTES) == OKV_OK);
	end();
	printf("ok store_clear: a store that is full of %u keys is empty at once\n", nr);
}

/* It looks at all of the index, or at few keys if the tenant had few since the last time. */
static void test_looks(void)
{
	struct user u;

	make_store(0);
	put_all(OTHER, 10 * NR_KEYS);
	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t j = 0; j < 2; j++)
			EXPECT(run_op(OKV_OP_PUT, 0, j % 2, 100) == OKV_OK);
		begin_clear(&u, 0);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
		EXPECT(i ? u.op.out_len == 2 : u.op.out_len > 2);
	}
	put_all(0, OKV_NR_RECENT + 1);
	EXPECT(!p->usage[0].recent && clear(0) == OKV_NR_RECENT + 1 && p->usage[0].recent);
	EXPECT(run_op(OKV_OP_PUT, 0, 1, 100) == OKV_OK && clear(0) == 1);
	cut();
	expect_all(0, OKV_NR_RECENT + 1, false);
	expect_all(OTHER, 10 * NR_KEYS, true);
	end();
	puts("ok store_clear: it looks at few keys if there were few since the last time");
}

/* A walk over all removes what has expired, of whomever; those who clear all the time let it. */
static uint32_t nr_walks;

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	(void)scan;
	(void)key;
	(void)key_len;
	(void)value_len;
	(void)expire_ms;
}

static void walk_done(struct okv_scan *scan)
{
	(void)scan;
	nr_walks++;
}

static uint32_t nr_clears_left;

static void clear_again(struct okv_op *op)
{
	struct user *u = op->owner;

	user_done(op);
	if (nr_clears_left) {
		nr_clears_left--;
		u->done = false;
		okv_partition_submit(p, &u->op);
	}
}

static void test_walks(void)
{
	struct okv_scan scan = {
		.tenant = OKV_ALL_TENANTS, .nr_max = 10, .key = walk_key, .done = walk_done,
	};
	struct user u = user_of(OKV_OP_PUT, OTHER, 5), clears[2];

	make_store(0);
	u.op.expire_ms = 10;
	user_begin_key(&u, p, 0);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	okv_partition_set_clock(p, 10);
	okv_partition_scan(p, &scan);
	wait_idle(&disk);
	EXPECT(nr_walks == 1 && !stats().nr_keys && !p->usage[OTHER].nr_ops &&
	       !p->usage[OKV_ALL_TENANTS].nr_ops);
	nr_clears_left = 100;
	for (uint32_t i = 0; i < 2; i++) {
		clears[i] = user_of(OKV_OP_CLEAR, i, 0);
		clears[i].op.done = clear_again;
		user_begin(&clears[i], p);
	}
	u = user_of(OKV_OP_PUT, 2, 5);
	user_begin_key(&u, p, 0);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	scan.cursor = 0;
	okv_partition_scan(p, &scan);
	while (nr_walks < 2)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	EXPECT(nr_clears_left > 50);
	nr_clears_left = 0;
	for (uint32_t i = 0; i < 2; i++)
		user_wait(&clears[i], &disk);
	end();
	puts("ok store_clear: a walk over all tenants is counted, and has its turn");
}

static void test_former(void)
{
	make_store(3);
	EXPECT(!okv_store_info(store)->can_clear);
	end();
	puts("ok store_clear: a store of an earlier version does not know it");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	test_one_record();
	test_order();
	test_moves();
	test_salvage();
	test_full();
	test_looks();
	test_walks();
	test_former();
	return 0;
}
