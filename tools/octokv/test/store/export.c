// SPDX-License-Identifier: GPL-2.0
/*
 * export.c - all records of a store are shown once, the damaged ones by their place; a sealed store
 * does not open
 *
 * The store was not closed, so that some of its records are in the log only.
 */
#include <errno.h>

#include "user.h"

enum {
	NR_PARTITIONS	= 2,
	NR_SEGMENTS	= 24,
	SEGMENT_BYTES	= 128 << 10,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_PARTITIONS * NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS		= 200,
	VALUE_BYTES	= 12 << 10,
};

static struct sim_disk disk;
static char value[VALUE_BYTES];

/* Every third one is apart. */
static uint32_t value_len(uint32_t key)
{
	return key % 3 ? key % 100 : VALUE_BYTES;
}

static struct user user_of(enum okv_op_kind kind, uint32_t key)
{
	return (struct user){
		.op = { .kind = kind, .tenant = key % 5, .value = value,
			.value_len = value_len(key), .expire_ms = key % 7 ? 0 : 5 + key },
	};
}

static struct okv_partition *partition_of(struct okv_store *store, uint32_t key)
{
	uint64_t hash = (key + 1) * 0x9e3779b97f4a7c15ULL;

	return okv_store_partition(store, okv_store_partition_of(store, hash));
}

static enum okv_status run_op(struct okv_store *store, enum okv_op_kind kind, uint32_t key)
{
	struct user u = user_of(kind, key);

	user_begin_key(&u, partition_of(store, key), key);
	return user_wait(&u, &disk);
}

/* All at once: they share batches. */
static void put_all(struct okv_store *store)
{
	struct user *users = calloc(NR_KEYS, sizeof(*users));

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		users[i] = user_of(OKV_OP_PUT, i);
		user_begin_key(&users[i], partition_of(store, i), i);
	}
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
	free(users);
}

/* Keys 0 to 9 are deleted, 10 to 19 written twice. */
static void fill(void)
{
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_store *store;

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	put_all(store);
	for (uint32_t i = 0; i < 20; i++)
		EXPECT(run_op(store, i < 10 ? OKV_OP_DELETE : OKV_OP_PUT, i) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
}

struct seen {
	struct okv_export walk;
	uint32_t nr[NR_KEYS];
	uint64_t places[NR_KEYS];
	uint32_t nr_bad_values, nr_bad_records;
	uint64_t bad_at;
};

static void see(struct okv_export *e, const struct okv_exported *x)
{
	struct seen *s = (struct seen *)e;
	char name[16] = "";
	uint32_t key;

	if (!x->key) {
		s->nr_bad_records++;
		s->bad_at = x->offset_bytes;
		return;
	}
	memcpy(name, x->key, x->key_len);
	key = atoi(name);
	EXPECT(key < NR_KEYS && x->tenant == key % 5 && x->value_len == value_len(key) &&
	       x->expire_ms == (key % 7 ? 0 : 5 + key) && x->partition < NR_PARTITIONS);
	if (!x->value) {
		s->nr_bad_values++;
		s->bad_at = x->offset_bytes;
		return;
	}
	EXPECT(!memcmp(x->value, value, x->value_len));
	s->nr[key]++;
	s->places[key] = x->offset_bytes;
}

static void export(struct seen *s)
{
	struct okv_open_options options = { .reads_only = true };
	struct okv_store *store;

	*s = (struct seen){ .walk.record = see };
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	EXPECT(!okv_store_export(store, &s->walk));
	okv_store_drop(store);
}

static uint32_t nr_shown(const struct seen *s)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_KEYS; i++) {
		EXPECT(s->nr[i] <= 1 && (i >= 10 || !s->nr[i]));
		nr += s->nr[i];
	}
	return nr;
}

static void test_all(struct seen *s)
{
	char *before = memcpy(malloc(DEVICE_BYTES), disk.cache, DEVICE_BYTES);

	export(s);
	EXPECT(nr_shown(s) == NR_KEYS - 10 && s->walk.nr_records == NR_KEYS - 10 &&
	       !s->walk.nr_damaged);
	EXPECT(!memcmp(before, disk.cache, DEVICE_BYTES));
	free(before);
	puts("ok store_export: each record is shown once, and nothing is written");
}

static void salvage(struct seen *s)
{
	*s = (struct seen){ .walk.record = see };
	EXPECT(!okv_device_salvage(&disk.disk, &s->walk));
}

/* Without an index: the same, also if all roots are gone. */
static void test_salvaged(void)
{
	char *before = memcpy(malloc(DEVICE_BYTES), disk.cache, DEVICE_BYTES);
	struct seen s;

	for (uint32_t i = 0; i < NR_PARTITIONS * OKV_NR_ROOTS; i++)
		memset(disk.cache + OKV_ROOTS_OFFSET_BYTES + i * OKV_PAGE_BYTES, 0, OKV_PAGE_BYTES);
	salvage(&s);
	EXPECT(nr_shown(&s) == NR_KEYS - 10 && s.walk.nr_records == NR_KEYS - 10 &&
	       !s.walk.nr_damaged);
	/* The latest value is spoilt: the one before does not come in its place. */
	disk.bad_offset_bytes = s.places[16] / BLOCK_BYTES * BLOCK_BYTES;
	disk.cache[s.places[16] + sizeof(struct okv_record_disk) + 2] ^= 1;
	salvage(&s);
	EXPECT(!s.nr[16] && nr_shown(&s) == NR_KEYS - 11 && s.nr_bad_values == 1 &&
	       !s.walk.nr_unread);
	/* What cannot be read may be missed, or an earlier one shown: in both passes. */
	disk.has_bad = true;
	salvage(&s);
	EXPECT(s.walk.nr_unread == 2);
	disk.has_bad = false;
	memcpy(disk.cache, before, DEVICE_BYTES);
	free(before);
	puts("ok store_export: without roots, the latest records of all segments are shown");
}

static void flip(uint64_t at)
{
	disk.cache[at] ^= 1;
	disk.durable[at] ^= 1;
}

static void test_damaged(const struct seen *whole)
{
	/* Key 21 is apart, and both lie before the tail. */
	uint64_t short_at = whole->places[20], apart_at = whole->places[21];
	uint64_t key_at = sizeof(struct okv_record_disk), value_at = key_at + 2;
	const struct okv_record_disk *apart = (void *)(disk.cache + apart_at);
	uint64_t apart_value_at = (apart_at / BLOCK_BYTES + apart->apart) * BLOCK_BYTES;
	struct seen s;

	flip(short_at + value_at);
	export(&s);
	EXPECT(s.nr_bad_values == 1 && !s.nr_bad_records && s.bad_at == short_at &&
	       nr_shown(&s) == NR_KEYS - 11);
	flip(short_at + value_at);
	flip(short_at + key_at);
	export(&s);
	EXPECT(s.nr_bad_records == 1 && s.bad_at == short_at && nr_shown(&s) == NR_KEYS - 11);
	flip(short_at + key_at);
	flip(apart_value_at + 100);
	export(&s);
	EXPECT(s.nr_bad_values == 1 && s.bad_at == apart_at);
	flip(apart_value_at + 100);
	/* A sector that cannot be read takes what is in it, and no more. */
	disk.has_bad = true;
	disk.bad_offset_bytes = apart_value_at + BLOCK_BYTES;
	export(&s);
	EXPECT(s.walk.nr_damaged == 1 && s.bad_at == apart_at && nr_shown(&s) == NR_KEYS - 11);
	disk.has_bad = false;
	export(&s);
	EXPECT(nr_shown(&s) == NR_KEYS - 10);
	puts("ok store_export: what is damaged is named by its place, all else is shown");
}

static uint32_t nr_pinned_events;

static void note(void *owner, const struct okv_event *event)
{
	(void)owner;
	nr_pinned_events += event->kind == OKV_EVENT_PINNED;
}

/* Overwrites keys until a write, @u, does not complete, or often enough. Returns how often. */
static uint32_t write_much(struct okv_store *store, struct user *u, uint32_t nr_max)
{
	uint32_t nr = 0;

	for (; nr < nr_max; nr++) {
		uint32_t key = 20 + nr % 150;

		*u = user_of(OKV_OP_PUT, key);
		user_begin_key(u, partition_of(store, key), key);
		while (!u->done && disk.in_flight)
			EXPECT(!disk.disk.ops->wait(&disk.disk));
		if (!u->done)
			break;
		EXPECT(u->op.status == OKV_OK);
	}
	return nr;
}

/* Until a partition is unpinned, what it had stays where it is; then the room is used again. */
static void test_pinned(const struct seen *whole)
{
	struct okv_open_options options = { .now_ms = 1, .event = note };
	char *before = memcpy(malloc(DEVICE_BYTES), disk.cache, DEVICE_BYTES);
	struct okv_store *store;
	struct user last;
	uint32_t nr_changed = 0, nr;

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	for (uint32_t i = 0; i < NR_PARTITIONS; i++)
		okv_partition_pin(okv_store_partition(store, i), true);
	nr = write_much(store, &last, 100000);
	EXPECT(nr > 100 && nr < 100000 && nr_pinned_events);
	for (uint32_t i = 10; i < NR_KEYS; i++)
		EXPECT(!memcmp(before + whole->places[i], disk.cache + whole->places[i],
			       sizeof(struct okv_record_disk)));
	for (uint32_t i = 0; i < NR_PARTITIONS; i++) {
		okv_partition_pin(okv_store_partition(store, i), false);
		okv_partition_tick(okv_store_partition(store, i), 1);
	}
	EXPECT(user_wait(&last, &disk) == OKV_OK && write_much(store, &last, 3000) == 3000);
	for (uint32_t i = 10; i < NR_KEYS; i++)
		nr_changed += memcmp(before + whole->places[i], disk.cache + whole->places[i],
				     sizeof(struct okv_record_disk)) != 0;
	EXPECT(nr_changed > NR_KEYS / 2);
	free(before);
	okv_store_close(store);
	puts("ok store_export: what is pinned stays, and writes go on when it is not any more");
}

static void test_sealed(void)
{
	struct okv_device_info info;
	struct seen s;

	EXPECT(!okv_device_seal(&disk.disk, true));
	EXPECT(okv_device_info(&disk.disk, &info) == -EINPROGRESS);
	EXPECT(!okv_device_seal(&disk.disk, true));
	EXPECT(!okv_device_seal(&disk.disk, false));
	EXPECT(!okv_device_info(&disk.disk, &info) && !info.nr_copies_bad);
	/* One copy is damaged or cannot be read, whichever: the others decide. */
	for (uint32_t i = 0; i < 2 * OKV_NR_SUPERS; i++) {
		uint64_t at = (uint64_t)(i / 2) * OKV_SUPER_STRIDE_BYTES;

		disk.has_bad = i % 2;
		disk.bad_offset_bytes = at;
		disk.cache[at] ^= !disk.has_bad;
		EXPECT(!okv_device_seal(&disk.disk, true));
		EXPECT(okv_device_info(&disk.disk, &info) == -EINPROGRESS);
		EXPECT(!okv_device_seal(&disk.disk, false));
		EXPECT(!okv_device_info(&disk.disk, &info) && info.nr_copies_bad == 1);
		disk.cache[at] ^= !disk.has_bad;
		disk.has_bad = false;
	}
	/* Two are enough, one is not. */
	for (uint32_t nr = 2; nr <= 3; nr++) {
		char *before = memcpy(malloc(DEVICE_BYTES), disk.cache, DEVICE_BYTES);

		for (uint32_t i = 0; i < nr; i++)
			disk.cache[i * OKV_SUPER_STRIDE_BYTES] ^= 1;
		EXPECT(okv_device_seal(&disk.disk, true) == (nr == 2 ? 0 : -EUCLEAN));
		EXPECT(okv_device_info(&disk.disk, &info) == -EINPROGRESS);
		EXPECT(okv_device_seal(&disk.disk, false) == (nr == 2 ? 0 : -EUCLEAN));
		EXPECT(nr == 3 || (!okv_device_info(&disk.disk, &info) && info.nr_copies_bad == 2));
		memcpy(disk.cache, before, DEVICE_BYTES);
		free(before);
	}
	export(&s);
	EXPECT(nr_shown(&s) == NR_KEYS - 10);
	puts("ok store_export: a sealed store does not open until it is none any more");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = NR_PARTITIONS, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct seen whole;

	for (uint32_t i = 0; i < VALUE_BYTES; i++)
		value[i] = i * 7 + i / 256;
	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	fill();
	test_all(&whole);
	test_salvaged();
	test_damaged(&whole);
	test_sealed();
	test_pinned(&whole);
	sim_disk_free(&disk);
	return 0;
}
