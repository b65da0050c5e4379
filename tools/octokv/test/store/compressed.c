// SPDX-License-Identifier: GPL-2.0
/*
 * compressed.c - values that take fewer blocks than they have, and are read as they were
 *
 * One third of the values does not get shorter, one takes about half, and one all but vanishes. All
 * are read after a cut of the power, a checkpoint and a move, by walks, by exports and without
 * roots. Writers that join, updates, touches and transactions see values as they were. A record
 * that lies about its compression is damaged. A put whose heads have room beside its value writes
 * one page, and no journal.
 */
#include "store/log/compress.h"
#include "store/log/pack.h"
#include "single.h"

enum {
	NR_SEGMENTS	= 30,
	SEGMENT_BYTES	= 2 << 20,
	BLOCK_BYTES	= 512,
	JOURNAL_BYTES	= OKV_JOURNAL_BYTES_MIN,
	DEVICE_BYTES	= (1280 << 10) + OKV_NR_JOURNALS * JOURNAL_BYTES +
			  NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 16 << 10,
	LONG_BYTES	= OKV_PLAIN_BYTES_MAX + 1,
	NR_KEYS		= 60,
	NOW_MS		= 1000,
	LATE_MS		= 9000,
};

enum shape { RANDOM, HALF, ZEROS };

static struct okv_open_options how_to_open = {
	.now_ms = NOW_MS, .nr_known = OKV_KNOWN_WAYS, .journal = 1,
};
static char values[3][LONG_BYTES];

static enum shape shape_of(uint32_t key)
{
	return key % 3;
}

static void make_values(void)
{
	uint64_t random = 1;

	for (uint32_t i = 0; i < LONG_BYTES; i++) {
		values[RANDOM][i] = sim_random(&random);
		values[HALF][i] = i % 64 < 32 ? values[RANDOM][i] : 0;
	}
}

static void make_store(uint32_t former)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
		.journal_bytes = JOURNAL_BYTES, .former = former,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 3);
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store();
}

/* ---- reading and writing ---- */

static struct user user_of(enum okv_op_kind kind, uint32_t key, uint32_t value_len)
{
	return (struct user){
		.op = { .kind = kind, .value = values[shape_of(key)], .value_len = value_len,
			.compresses = true },
	};
}

static enum okv_status put(uint32_t key, uint32_t value_len)
{
	struct user u = user_of(OKV_OP_PUT, key, value_len);

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

/* All at once: they share batches. */
static void put_all(void)
{
	struct user *users = calloc(NR_KEYS, sizeof(*users));

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		users[i] = user_of(OKV_OP_PUT, i, VALUE_BYTES);
		user_begin_key(&users[i], p, i);
	}
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
	free(users);
}

/* The value is that of @u, and so long; its memory can be taken. */
static void compare(struct okv_op *op)
{
	struct user *u = op->owner;
	void *memory;

	u->done = true;
	if (op->status == OKV_OK && op->kind == OKV_OP_GET) {
		EXPECT(op->out_len == op->value_len && !memcmp(op->out, op->value, op->out_len));
		memory = okv_op_take(op);
		mem_free(memory);
	} else if (op->status == OKV_OK) {
		EXPECT(op->kind == OKV_OP_STAT && op->out_len == op->value_len);
	}
	okv_op_release(op);
}

static enum okv_status find(enum okv_op_kind kind, uint32_t key, uint32_t value_len)
{
	struct user u = user_of(kind, key, value_len);

	u.op.done = compare;
	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

static void find_all(void)
{
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		EXPECT(find(OKV_OP_GET, i, VALUE_BYTES) == OKV_OK);
		EXPECT(find(OKV_OP_STAT, i, VALUE_BYTES) == OKV_OK);
	}
}

static struct okv_entry entry_of(uint32_t key)
{
	struct okv_entry e;

	EXPECT(okv_index_find(&p->index, (key + 1) * 0x9e3779b97f4a7c15ULL, 0, 0, &e));
	return e;
}

static uint32_t bytes_of(uint32_t key)
{
	return entry_of(key).size * OKV_ALIGN_BYTES;
}

/* ---- the cases ---- */

static void test_read(void)
{
	make_store(0);
	put_all();
	EXPECT(bytes_of(RANDOM) > VALUE_BYTES);
	EXPECT(bytes_of(HALF) < VALUE_BYTES * 3 / 4 && entry_of(HALF).apart);
	EXPECT(bytes_of(ZEROS) < BLOCK_BYTES && !entry_of(ZEROS).apart);
	EXPECT(stats().nr_compressed == NR_KEYS * 2 / 3);
	EXPECT(stats().saved_bytes > (uint64_t)VALUE_BYTES * NR_KEYS / 3);
	find_all();
	cut();
	find_all();
	reopen();
	find_all();
	end();
	puts("ok store_compressed: values are read as they were, after a cut and a checkpoint");
}

static void test_lengths(void)
{
	static const uint32_t lengths[] = {
		0, 1, OKV_APART_BYTES_MIN - 1, OKV_APART_BYTES_MIN, OKV_PLAIN_BYTES_MAX, LONG_BYTES,
	};
	uint64_t nr = 0;

	make_store(0);
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		EXPECT(put(ZEROS, lengths[i]) == OKV_OK);
		EXPECT(find(OKV_OP_GET, ZEROS, lengths[i]) == OKV_OK);
		nr += lengths[i] >= OKV_APART_BYTES_MIN && lengths[i] <= OKV_PLAIN_BYTES_MAX;
		EXPECT(stats().nr_compressed == nr);
	}
	end();
	make_store(3);
	EXPECT(put(ZEROS, VALUE_BYTES) == OKV_OK && !stats().nr_compressed);
	EXPECT(find(OKV_OP_GET, ZEROS, VALUE_BYTES) == OKV_OK);
	end();
	puts("ok store_compressed: short and very long values, and an earlier store, have none");
}

static void test_move(void)
{
	uint64_t at[3], random = 1;

	make_store(0);
	put_all();
	for (uint32_t i = 0; i < 3; i++)
		at[i] = entry_of(i).location;
	/* Two thirds full, and over and over, so that the first segments are collected. */
	for (uint32_t i = 0; i < 12000; i++)
		EXPECT(put(NR_KEYS + sim_draw(&random, 4000), VALUE_BYTES) == OKV_OK);
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(entry_of(i).location != at[i]);
	find_all();
	cut();
	find_all();
	end();
	puts("ok store_compressed: a move takes it as it lies there");
}

static enum okv_status append(struct okv_op *op)
{
	static char longer[VALUE_BYTES + 1];

	EXPECT(op->out_len == VALUE_BYTES && !memcmp(op->out, values[HALF], VALUE_BYTES));
	memcpy(longer, op->out, op->out_len);
	longer[op->out_len] = values[HALF][op->out_len];
	op->value = longer;
	op->value_len = op->out_len + 1;
	return OKV_OK;
}

static void test_update(void)
{
	struct user writes[3] = {
		user_of(OKV_OP_PUT, HALF, VALUE_BYTES), user_of(OKV_OP_UPDATE, HALF, 0),
		user_of(OKV_OP_STAT, HALF, VALUE_BYTES + 1),
	};
	uint64_t written;

	make_store(0);
	writes[1].op.update = append;
	writes[2].op.done = compare;
	/* The first one is in the log already when the second one comes. */
	okv_log_plug(p);
	for (uint32_t i = 0; i < 3; i++)
		user_begin_key(&writes[i], p, HALF);
	okv_log_unplug(p);
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(user_wait(&writes[i], &disk) == OKV_OK);
	EXPECT(find(OKV_OP_GET, HALF, VALUE_BYTES + 1) == OKV_OK);
	/* An expiry leaves it where it lies. */
	written = stats().batch_bytes;
	writes[0] = user_of(OKV_OP_TOUCH, HALF, 0);
	writes[0].op.expire_ms = LATE_MS;
	user_begin_key(&writes[0], p, HALF);
	EXPECT(user_wait(&writes[0], &disk) == OKV_OK);
	EXPECT(stats().batch_bytes - written == BLOCK_BYTES && stats().nr_expiries == 1);
	EXPECT(find(OKV_OP_GET, HALF, VALUE_BYTES + 1) == OKV_OK);
	/* One that is not apart is written again. */
	EXPECT(put(ZEROS, VALUE_BYTES) == OKV_OK);
	writes[0] = user_of(OKV_OP_TOUCH, ZEROS, 0);
	writes[0].op.expire_ms = LATE_MS;
	user_begin_key(&writes[0], p, ZEROS);
	EXPECT(user_wait(&writes[0], &disk) == OKV_OK && stats().nr_expiries == 1);
	EXPECT(find(OKV_OP_GET, ZEROS, VALUE_BYTES) == OKV_OK);
	EXPECT(bytes_of(ZEROS) < BLOCK_BYTES);
	end();
	puts("ok store_compressed: updates and touches see the value as it was");
}

struct seen {
	struct okv_export walk;
	uint32_t nr;
};

static void see(struct okv_export *e, const struct okv_exported *x)
{
	struct seen *s = (struct seen *)e;
	char name[16] = "";

	if (!x->value)
		return;
	memcpy(name, x->key, x->key_len);
	EXPECT(x->value_len == VALUE_BYTES &&
	       !memcmp(x->value, values[shape_of(atoi(name))], VALUE_BYTES));
	s->nr++;
}

static void see_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		    uint64_t expire_ms)
{
	(void)key;
	(void)key_len;
	EXPECT(value_len == VALUE_BYTES && !expire_ms);
	++*(uint32_t *)scan->owner;
}

static void scan_done(struct okv_scan *scan)
{
	(void)scan;
}

static void test_shown(void)
{
	struct okv_open_options options = { .reads_only = true };
	struct seen exported = { .walk.record = see }, salvaged = { .walk.record = see };
	uint32_t nr_walked = 0;
	struct okv_scan scan = {
		.nr_max = 1000, .key = see_key, .done = scan_done, .owner = &nr_walked,
	};

	make_store(0);
	put_all();
	do {
		okv_partition_scan(p, &scan);
		wait_idle(&disk);
	} while (scan.cursor);
	EXPECT(nr_walked == NR_KEYS);
	okv_store_close(store);
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	EXPECT(!okv_store_export(store, &exported.walk) && exported.nr == NR_KEYS);
	okv_store_drop(store);
	EXPECT(!okv_device_salvage(&disk.disk, &salvaged.walk) && salvaged.nr == NR_KEYS);
	sim_disk_free(&disk);
	puts("ok store_compressed: walks, exports and a salvage show values as they were");
}

/* ---- what does not hold ---- */

static struct okv_record_disk *record_of(uint32_t key)
{
	return (void *)((char *)disk.cache + p->offset_bytes +
			entry_of(key).location * OKV_ALIGN_BYTES);
}

/* It is as it is now on the device, and nothing else is known of it. */
static void sign(struct okv_record_disk *r, uint32_t key)
{
	okv_known_drop(&p->known, entry_of(key).location);
	r->sum = okv_sum_behind(r, sizeof(*r) + r->key_len,
				okv_location_seed(p, entry_of(key).location));
}

/* With the secret one can say that a value was shorter, or longer. */
static void test_lies(void)
{
	struct seen seen = { .walk.record = see };
	struct okv_record_disk *r;

	make_store(0);
	EXPECT(put(HALF, VALUE_BYTES) == OKV_OK);
	wait_idle(&disk);
	reopen();
	r = record_of(HALF);
	EXPECT(r->plain_len == VALUE_BYTES && r->value_len < VALUE_BYTES);
	r->plain_len--;
	sign(r, HALF);
	EXPECT(find(OKV_OP_GET, HALF, VALUE_BYTES) == OKV_CORRUPT);
	r->plain_len += 2;
	sign(r, HALF);
	EXPECT(find(OKV_OP_GET, HALF, VALUE_BYTES) == OKV_CORRUPT);
	EXPECT(stats().nr_corrupt == 2);
	/* This is not even a record. */
	r->plain_len = OKV_PLAIN_BYTES_MAX + 1;
	sign(r, HALF);
	EXPECT(find(OKV_OP_STAT, HALF, VALUE_BYTES) == OKV_CORRUPT);
	r->plain_len = r->value_len;
	sign(r, HALF);
	EXPECT(find(OKV_OP_STAT, HALF, VALUE_BYTES) == OKV_CORRUPT);
	r->plain_len = VALUE_BYTES + 1;
	sign(r, HALF);
	okv_store_drop(store);
	EXPECT(!okv_device_salvage(&disk.disk, &seen.walk));
	EXPECT(!seen.nr && seen.walk.nr_damaged == 1);
	sim_disk_free(&disk);
	puts("ok store_compressed: a record that lies about it is damaged");
}

/* ---- where it lies ---- */

/* Beside others in flight, a put of one page writes that page alone. */
static void test_page(void)
{
	struct user users[2] = {
		user_of(OKV_OP_PUT, HALF, VALUE_BYTES), user_of(OKV_OP_PUT, HALF, VALUE_BYTES),
	};
	uint64_t page_bytes, journaled, at;
	struct okv_entry e;

	make_store(0);
	page_bytes = okv_pack_bytes(p);
	EXPECT(page_bytes == OKV_APART_ALIGN_BYTES);
	EXPECT(put(2 * NR_KEYS, 100) == OKV_OK);
	for (uint32_t i = 0; i < 20; i++) {
		journaled = stats().nr_journaled;
		users[0].op.kind = users[1].op.kind = OKV_OP_PUT;
		users[0].done = users[1].done = false;
		user_begin_key(&users[0], p, HALF + 3);
		user_begin_key(&users[1], p, HALF);
		EXPECT(disk.in_flight && p->nr_writing == 2);
		EXPECT(user_wait(&users[0], &disk) == OKV_OK);
		EXPECT(user_wait(&users[1], &disk) == OKV_OK);
		EXPECT(stats().nr_journaled == journaled);
		e = entry_of(HALF);
		at = e.location * OKV_ALIGN_BYTES % SEGMENT_BYTES;
		EXPECT(at / page_bytes == (at + bytes_of(HALF)) / page_bytes);
	}
	end();
	puts("ok store_compressed: a put of one page writes that page, beside others");
}

static void txn_done(struct okv_txn *txn)
{
	*(bool *)txn->owner = true;
}

static uint32_t new_bytes;

static enum okv_status compare_all(struct okv_txn *txn)
{
	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		struct okv_txn_key *k = &txn->keys[i];

		EXPECT(k->read.out_len == OKV_PLAIN_BYTES_MAX);
		k->writes = true;
		k->value = values[HALF];
		k->value_len = new_bytes;
	}
	return OKV_OK;
}

static enum okv_status transact(uint32_t nr)
{
	struct okv_txn_key *keys = calloc(nr, sizeof(*keys));
	char (*names)[16] = calloc(nr, sizeof(*names));
	bool done = false;
	struct okv_txn txn = {
		.keys = keys, .nr_keys = nr, .decide = compare_all, .done = txn_done,
		.owner = &done,
	};

	for (uint32_t i = 0; i < nr; i++) {
		keys[i].wants_value = true;
		keys[i].read = (struct okv_op){
			.key = names[i], .key_len = snprintf(names[i], sizeof(names[i]), "%u", i),
			.hash = (i + 1) * 0x9e3779b97f4a7c15ULL, .compresses = true,
		};
	}
	okv_partition_transact(p, &txn);
	while (!done)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	free(keys);
	free(names);
	return txn.status;
}

static void test_transaction(void)
{
	struct user u;
	uint64_t nr;

	make_store(0);
	for (uint32_t i = 0; i < 300; i++) {
		u = user_of(OKV_OP_PUT, ZEROS, OKV_PLAIN_BYTES_MAX);
		user_begin_key(&u, p, i);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
	nr = stats().nr_compressed;
	/* A few blocks on the device, and 75 MiB in memory. */
	EXPECT(transact(300) == OKV_TOO_LARGE && stats().nr_compressed == nr);
	/* More than a segment has room for, and as much as it has. */
	new_bytes = 2 * VALUE_BYTES;
	EXPECT(transact(200) == OKV_TOO_LARGE && stats().nr_compressed == nr);
	new_bytes = VALUE_BYTES / 2;
	EXPECT(transact(200) == OKV_OK && stats().nr_compressed == nr + 200);
	for (uint32_t i = 0; i < 300; i++) {
		u = i < 200 ? user_of(OKV_OP_GET, HALF, new_bytes) :
			      user_of(OKV_OP_GET, ZEROS, OKV_PLAIN_BYTES_MAX);
		u.op.done = compare;
		user_begin_key(&u, p, i);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
	end();
	puts("ok store_compressed: a transaction reads no more than it may, and writes them so");
}

int main(void)
{
	make_values();
	test_read();
	test_lengths();
	test_move();
	test_update();
	test_shown();
	test_lies();
	test_page();
	test_transaction();
	return 0;
}
