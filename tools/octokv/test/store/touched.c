// SPDX-License-Identifier: GPL-2.0
/*
 * touched.c - another expiry for a value that is apart: the value is neither read nor written
 *
 * What the log says of an expiry counts after a cut of the power, after checkpoints, after the
 * record has moved, in a dump, and without roots. It ends with its record. Joined operations, and a
 * writer that lends its lock to a move, see what comes next. A store of an earlier version writes
 * the value again, until it is upgraded.
 */
#include <errno.h>

#include "single.h"

enum {
	NR_SEGMENTS	= 30,
	SEGMENT_BYTES	= 256 << 10,
	BLOCK_BYTES	= 4096,
	DEVICE_BYTES	= (2 << 20) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 64 << 10,
	NOW_MS		= 1000,
	SOON_MS		= 2000,
	LATE_MS		= 9000,
	NR_KEYS		= 8,
	OTHER_KEY	= 100,		/* from this on, keys that only fill segments */
	NR_OTHERS	= 61,
};

static struct okv_open_options how_to_open = { .now_ms = NOW_MS, .nr_known = OKV_KNOWN_WAYS };
static char value[VALUE_BYTES];

static void make_store(uint32_t former)
{
	user_make_device(&disk, DEVICE_BYTES, BLOCK_BYTES, SEGMENT_BYTES, former);
	open_store();
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key, uint32_t value_len,
			      uint64_t expire_ms)
{
	struct user u = {
		.op = { .kind = kind, .value = value, .value_len = value_len,
			.expire_ms = expire_ms },
	};

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

/* Its expiry, as a client sees it; UINT64_MAX: there is none of that key. */
static uint64_t expiry_of(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET } };

	user_begin_key(&u, p, key);
	if (user_wait(&u, &disk) != OKV_OK)
		return UINT64_MAX;
	EXPECT(u.op.out_len == VALUE_BYTES);
	return u.op.out_expire_ms;
}

static uint64_t location_of(uint32_t key)
{
	struct okv_entry e;

	EXPECT(okv_index_find(&p->index, (key + 1) * 0x9e3779b97f4a7c15ULL, 0, 0, &e));
	return e.location;
}

static void put_all(void)
{
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_PUT, i, VALUE_BYTES, SOON_MS) == OKV_OK);
}

/* Even keys live longer, and every fourth of these for ever. */
static void touch_all(void)
{
	for (uint32_t i = 0; i < NR_KEYS; i += 2)
		EXPECT(run_op(OKV_OP_TOUCH, i, 0, i % 4 ? LATE_MS : 0) == OKV_OK);
}

static void expect_touched(void)
{
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(expiry_of(i) == (i % 2 ? SOON_MS : i % 4 ? LATE_MS : 0));
}

static void test_small(void)
{
	struct okv_stats before;
	uint64_t written;

	make_store(0);
	put_all();
	reopen();
	before = stats();
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(run_op(OKV_OP_TOUCH, 0, 0, LATE_MS + i) == OKV_OK);
	written = stats().batch_bytes - before.batch_bytes;
	EXPECT(written == 3 * BLOCK_BYTES && stats().live_bytes == before.live_bytes);
	EXPECT(stats().nr_expiries == 3 && expiry_of(0) == LATE_MS + 2);
	EXPECT(p->index.nr_expiries == 1);
	end();
	printf("ok store_touched: three expiries of %u bytes are %lu bytes of the log\n",
	       VALUE_BYTES, (unsigned long)written);
}

static void test_recovers(void)
{
	make_store(0);
	put_all();
	touch_all();
	cut();
	EXPECT(stats().nr_replayed_records);
	expect_touched();
	/* From a checkpoint, and from one with more behind it. */
	reopen();
	EXPECT(!stats().nr_replayed_records);
	expect_touched();
	EXPECT(run_op(OKV_OP_TOUCH, 2, 0, LATE_MS + 1) == OKV_OK);
	EXPECT(run_op(OKV_OP_PUT, 0, VALUE_BYTES, SOON_MS) == OKV_OK);
	cut();
	EXPECT(expiry_of(2) == LATE_MS + 1 && expiry_of(0) == SOON_MS && expiry_of(6) == LATE_MS);
	end();
	puts("ok store_touched: they are there after a cut, and in a checkpoint");
}

/* Write others until key 0 has moved. */
static void move_keys(void)
{
	uint64_t at = location_of(0);

	for (uint32_t i = 0; location_of(0) == at; i++) {
		EXPECT(i < 1000);
		EXPECT(run_op(OKV_OP_PUT, OTHER_KEY + i * i % NR_OTHERS, VALUE_BYTES, 0) == OKV_OK);
	}
	wait_idle(&disk);
}

static void test_moves(void)
{
	make_store(0);
	/* Each segment has some that will be dead. */
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		EXPECT(run_op(OKV_OP_PUT, i, VALUE_BYTES, SOON_MS) == OKV_OK);
		EXPECT(run_op(OKV_OP_PUT, OTHER_KEY + i, VALUE_BYTES, 0) == OKV_OK);
	}
	touch_all();
	move_keys();
	EXPECT(p->index.nr_expiries < NR_KEYS / 2);
	expect_touched();
	cut();
	expect_touched();
	end();
	puts("ok store_touched: a record that moves takes its expiry along");
}

/* All that ends, ends when the log has said: not sooner, as the record has it. */
static void test_expires(void)
{
	make_store(0);
	put_all();
	touch_all();
	/* One that was to stay goes with the first. */
	EXPECT(run_op(OKV_OP_PUT, OTHER_KEY, VALUE_BYTES, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_TOUCH, OTHER_KEY, 0, SOON_MS) == OKV_OK);
	reopen();
	for (uint32_t i = 0; i < 100; i++) {
		okv_partition_tick(p, SOON_MS);
		wait_idle(&disk);
	}
	EXPECT(stats().nr_keys == NR_KEYS / 2 && expiry_of(0) == 0 && expiry_of(2) == LATE_MS);
	for (uint32_t i = 0; i < 100; i++) {
		okv_partition_tick(p, LATE_MS);
		wait_idle(&disk);
	}
	EXPECT(stats().nr_keys == NR_KEYS / 4 && expiry_of(0) == 0);
	EXPECT(run_op(OKV_OP_DELETE, 0, 0, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_DELETE, 4, 0, 0) == OKV_OK);
	EXPECT(!p->index.nr_expiries && !p->index.nr_expiries_max);
	end();
	puts("ok store_touched: a key is gone when the log has said so, not as its record says");
}

struct seen {
	struct okv_export walk;
	uint64_t expire_ms[NR_KEYS];
};

static void see(struct okv_export *e, const struct okv_exported *x)
{
	char name[16] = "";

	memcpy(name, x->key, x->key_len);
	EXPECT(atoi(name) < NR_KEYS && x->value);
	((struct seen *)e)->expire_ms[atoi(name)] = x->expire_ms;
}

static void test_shown(void)
{
	struct seen exported = { .walk.record = see }, salvaged = { .walk.record = see };

	make_store(0);
	put_all();
	touch_all();
	EXPECT(run_op(OKV_OP_PUT, 6, VALUE_BYTES, SOON_MS) == OKV_OK);
	wait_idle(&disk);
	EXPECT(!okv_store_export(store, &exported.walk));
	okv_store_drop(store);
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		memset(disk.cache + root_offset(&disk, slot), 0, OKV_PAGE_BYTES);
	EXPECT(!okv_device_salvage(&disk.disk, &salvaged.walk));
	EXPECT(exported.walk.nr_records == NR_KEYS && salvaged.walk.nr_records == NR_KEYS);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		uint64_t expire_ms = i % 2 || i == 6 ? SOON_MS : i % 4 ? LATE_MS : 0;

		EXPECT(exported.expire_ms[i] == expire_ms && salvaged.expire_ms[i] == expire_ms);
	}
	sim_disk_free(&disk);
	puts("ok store_touched: a dump shows them, also of a store without roots");
}

static enum okv_status longer(struct okv_op *op)
{
	op->expire_ms += 5;
	return OKV_OK;
}

static enum okv_status append(struct okv_op *op)
{
	EXPECT(op->out && op->out_len == VALUE_BYTES && !memcmp(op->out, value, VALUE_BYTES));
	op->value = op->out;
	op->value_len = op->out_len;
	return OKV_OK;
}

/* What waits for the same key joins, unless it wants a value that nobody has read. */
static void test_joins(void)
{
	struct user first = {
		.op = { .kind = OKV_OP_PUT, .value = value, .value_len = 1, .expire_ms = SOON_MS },
	};
	struct user touch = { .op = { .kind = OKV_OP_TOUCH, .expire_ms = LATE_MS } };
	struct user more = { .op = { .kind = OKV_OP_TOUCH, .update = longer } };
	struct user with = { .op = { .kind = OKV_OP_UPDATE, .update = append } };
	struct user old = {
		.op = { .kind = OKV_OP_TOUCH, .update = longer, .flags = OKV_WANT_OLD },
	};
	struct user *all[] = { &touch, &more, &with, &old };
	uint64_t nr_batches;

	make_store(0);
	put_all();
	nr_batches = stats().nr_batches;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		user_begin_key(all[i], p, 0);
	EXPECT(user_wait(&touch, &disk) == OKV_OK && more.done && !with.done);
	EXPECT(touch.op.out_len == VALUE_BYTES && more.op.out_len == VALUE_BYTES);
	EXPECT(more.op.out_expire_ms == LATE_MS && more.op.expire_ms == LATE_MS + 5);
	EXPECT(user_wait(&old, &disk) == OKV_OK && with.op.status == OKV_OK);
	EXPECT(stats().nr_batches == nr_batches + 2 && expiry_of(0) == LATE_MS + 10);
	/* Behind a record that has its value with it, a touch has that. */
	all[0] = &first;
	for (uint32_t i = 0; i < 2; i++) {
		all[i]->done = false;
		user_begin_key(all[i], p, 1);
	}
	EXPECT(user_wait(&more, &disk) == OKV_OK && more.op.expire_ms == SOON_MS + 5);
	EXPECT(more.op.out_len == 1 && more.op.value_len == 1);
	cut();
	EXPECT(run_op(OKV_OP_DELETE, 1, 0, 0) == OKV_OK && expiry_of(0) == LATE_MS + 10);
	end();
	puts("ok store_touched: what joins one that leaves the value does, too, or has the value");
}

/*
 * A record that has expired moves while a touch, which found it before, waits for room: it is not
 * removed, as the touch is about it.
 */
static void test_lends(void)
{
	struct user touch = { .op = { .kind = OKV_OP_TOUCH, .expire_ms = LATE_MS } };
	struct okv_op move = {
		.kind = OKV_OP_RELOCATE, .hash = 0x9e3779b97f4a7c15ULL, .key = "0", .key_len = 1,
		.value = value, .value_len = VALUE_BYTES, .expire_ms = SOON_MS,
		.done = user_done,
	};
	struct user moved = { .op = move };

	make_store(0);
	put_all();
	moved.op.at = location_of(0);
	moved.op.sum = okv_sum(value, VALUE_BYTES, p->layout->super.secret);
	okv_log_plug(p);
	user_begin_key(&touch, p, 0);
	while (!touch.op.queued)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	okv_partition_set_clock(p, SOON_MS);
	user_begin(&moved, p);
	okv_log_unplug(p);
	EXPECT(user_wait(&touch, &disk) == OKV_OK && moved.op.status == OKV_OK);
	EXPECT(location_of(0) == moved.op.to && expiry_of(0) == LATE_MS);
	cut();
	EXPECT(expiry_of(0) == LATE_MS);
	end();
	puts("ok store_touched: a move that borrows the lock of a touch leaves the record to it");
}

static enum okv_status decide(struct okv_txn *t)
{
	EXPECT(t->keys[0].read.out_len == VALUE_BYTES && t->keys[1].read.out);
	EXPECT(!memcmp(t->keys[1].read.out, value, VALUE_BYTES));
	for (uint32_t i = 0; i < 3; i++) {
		struct okv_txn_key *k = &t->keys[i];

		k->writes = k->keeps_value = true;
		k->value = k->read.out;
		k->value_len = k->read.out_len;
		k->expire_ms = LATE_MS + i;
	}
	return OKV_OK;
}

static bool txn_is_done;

static void txn_done(struct okv_txn *t)
{
	EXPECT(t->status == OKV_OK);
	txn_is_done = true;
}

/*
 * In a transaction, with one key of which also the value is wanted, and one whose value is short.
 * Returns how many bytes were written.
 */
static uint64_t run_txn(void)
{
	static const char *const names[] = { "0", "1", "100" };
	uint64_t before = stats().batch_bytes;
	struct okv_txn_key keys[3] = { 0 };
	struct okv_txn t = { .keys = keys, .nr_keys = 3, .decide = decide, .done = txn_done };

	for (uint32_t i = 0; i < 3; i++) {
		keys[i].read.key = names[i];
		keys[i].read.key_len = strlen(names[i]);
		keys[i].read.hash = (atoi(names[i]) + 1) * 0x9e3779b97f4a7c15ULL;
		keys[i].wants_value = i == 1;
		keys[i].may_touch = true;
	}
	txn_is_done = false;
	okv_partition_transact(p, &t);
	while (!txn_is_done)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	return stats().batch_bytes - before;
}

static void test_transaction(void)
{
	for (uint32_t former = 0; former <= 3; former += 3) {
		uint64_t written;

		make_store(former);
		put_all();
		EXPECT(run_op(OKV_OP_PUT, OTHER_KEY, 10, 0) == OKV_OK);
		reopen();
		written = run_txn();
		EXPECT(former ? written > 2 * VALUE_BYTES : written == BLOCK_BYTES);
		EXPECT(stats().nr_expiries == (former ? 0 : 2));
		cut();
		EXPECT(expiry_of(0) == LATE_MS && expiry_of(1) == LATE_MS + 1);
		EXPECT(run_op(OKV_OP_DELETE, OTHER_KEY, 0, 0) == OKV_OK);
		end();
	}
	puts("ok store_touched: a transaction leaves values, too, if its store does");
}

static void test_former(void)
{
	make_store(3);
	put_all();
	touch_all();
	EXPECT(!stats().nr_expiries && !p->index.nr_expiries);
	cut();
	expect_touched();
	okv_store_close(store);
	EXPECT(!okv_device_upgrade(&disk.disk));
	EXPECT(okv_device_upgrade(&disk.disk) == -EALREADY);
	open_store();
	expect_touched();
	EXPECT(run_op(OKV_OP_TOUCH, 2, 0, LATE_MS + 1) == OKV_OK && stats().nr_expiries == 1);
	cut();
	EXPECT(expiry_of(2) == LATE_MS + 1 && expiry_of(6) == LATE_MS);
	end();
	puts("ok store_touched: a store of an earlier version writes the value, until an upgrade");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint32_t i = 0; i < VALUE_BYTES; i++)
		value[i] = i * 7 + i / 256;
	test_small();
	test_recovers();
	test_moves();
	test_expires();
	test_shown();
	test_joins();
	test_lends();
	test_transaction();
	test_former();
	return 0;
}
