// SPDX-License-Identifier: GPL-2.0
/*
 * moved.c - records that collection moves lie apart from what users write
 *
 * Nine of ten puts go to one key of ten. What the store moves for that is counted, and compared
 * with a store of an earlier version, which has one place for all, with the same puts. Puts that go
 * to all keys alike are the control: parting gains nothing there, and may not lose either.
 *
 * Both places replay together: a record that is moved and then written over, and one that is
 * written over and then moved, with a cut of the power behind it, and with the root before it. A
 * batch that took effect before an older one of the other place is no gap.
 */
#include <errno.h>

#include "user.h"

enum {
	NR_SEGMENTS	= 160,
	SEGMENT_BYTES	= 64 << 10,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (2 << 20) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 900,
	NR_KEYS		= 7000,		/* of some 9,000 that have room */
	NR_PUTS		= 60000,
	NR_AT_ONCE	= 5,
	FORMER		= 3,		/* with journals, and one place for all */
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;
static char value[VALUE_BYTES];

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1 };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void make_store(uint32_t former)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1, .former = former,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 3);
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store();
}

static void end(void)
{
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* ---- how much is moved ---- */

/* Put some keys at once: from @first on or, with @random, drawn ones, and so many of the tenth. */
static void put_some(uint32_t first, uint32_t hot_pct, uint64_t *random)
{
	static struct user users[NR_AT_ONCE];

	for (uint32_t i = 0; i < NR_AT_ONCE; i++) {
		bool hot = random && sim_draw(random, 100) < hot_pct;
		uint32_t key = !random ? first + i : sim_draw(random, hot ? NR_KEYS / 10 : NR_KEYS);

		users[i] = (struct user){
			.op = { .kind = OKV_OP_PUT, .value = value, .value_len = VALUE_BYTES },
		};
		user_begin_key(&users[i], p, key);
	}
	for (uint32_t i = 0; i < NR_AT_ONCE; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
}

/* Bytes that are moved, in percent of what users write. */
static uint32_t moved_pct(uint32_t former, uint32_t hot_pct)
{
	uint64_t random = 1;
	struct okv_stats before, after;

	make_store(former);
	for (uint32_t i = 0; i < NR_KEYS; i += NR_AT_ONCE)
		put_some(i, 0, NULL);
	for (uint32_t i = 0; i < NR_PUTS / 2; i += NR_AT_ONCE)
		put_some(0, hot_pct, &random);
	okv_store_stats(store, &before);
	for (uint32_t i = 0; i < NR_PUTS / 2; i += NR_AT_ONCE)
		put_some(0, hot_pct, &random);
	okv_store_stats(store, &after);
	end();
	return (after.gc_bytes - before.gc_bytes) * 100 / (NR_PUTS / 2 * VALUE_BYTES);
}

static void test_amount(void)
{
	uint32_t skewed = moved_pct(0, 89), former = moved_pct(FORMER, 89);
	uint32_t even = moved_pct(0, 0), former_even = moved_pct(FORMER, 0);

	EXPECT(former > 200 && skewed < former / 2 && even <= former_even);
	printf("ok store_moved: moves are %u%% of what users write (one place: %u%%); "
	       "with even puts %u%% (%u%%)\n", skewed, former, even, former_even);
}

/* ---- what replay makes of it ---- */

static const struct okv_disk_ops *sim_ops;
static struct okv_io *held;	/* a batch of moves */
static bool holds;

static void submit(struct okv_disk *d, struct okv_io *io)
{
	uint32_t segment = (io->offset_bytes - p->offset_bytes) / SEGMENT_BYTES;

	if (holds && io->kind == OKV_WRITE && segment == p->places[OKV_OF_MOVES].segment)
		held = io;
	else
		sim_ops->submit(d, io);
}

static uint64_t location_of(uint32_t key)
{
	struct okv_entry e;

	if (!okv_index_find(&p->index, (key + 1) * 0x9e3779b97f4a7c15ULL, 0, 0, &e))
		return OKV_NOWHERE;
	return e.location;
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key, uint32_t value_len)
{
	struct user u = { .op = { .kind = kind, .value = value, .value_len = value_len } };

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

static void begin_move(struct user *u, uint32_t key, uint32_t value_len)
{
	*u = (struct user){
		.op = { .kind = OKV_OP_RELOCATE, .value = value, .value_len = value_len,
			.at = location_of(key),
			.sum = okv_sum(value, value_len, p->layout->super.secret) },
	};
	user_begin_key(u, p, key);
}

static void move(uint32_t key, uint32_t value_len)
{
	struct user u;

	begin_move(&u, key, value_len);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

static uint32_t len_of(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET } };

	user_begin_key(&u, p, key);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	return u.op.out_len;
}

static void cut(void)
{
	user_cut(&disk, store);
	open_store();
}

static void test_order(void)
{
	uint64_t location;

	make_store(0);
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 10) == OKV_OK);
	okv_store_close(store);
	open_store();
	move(0, 10);
	EXPECT(run_op(OKV_OP_PUT, 0, 20) == OKV_OK);
	move(1, 10);
	EXPECT(run_op(OKV_OP_DELETE, 1, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_PUT, 2, 30) == OKV_OK);
	move(2, 30);
	location = location_of(2);
	EXPECT(location * OKV_ALIGN_BYTES / SEGMENT_BYTES !=
	       location_of(0) * OKV_ALIGN_BYTES / SEGMENT_BYTES);
	cut();
	EXPECT(len_of(0) == 20 && location_of(1) == OKV_NOWHERE && location_of(2) == location);
	EXPECT(p->usage[0].nr_keys == 2);
	end();
	puts("ok store_moved: records of both places replay in the order of their numbers");
}

/*
 * A move gets its number first and is written last. A put takes effect meanwhile, and roots are
 * written: it has to lie behind what they say of its place.
 */
static void test_late(void)
{
	static struct okv_disk_ops ops;
	struct user late;

	make_store(0);
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = submit, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 10) == OKV_OK);
	move(0, 10);
	holds = true;
	begin_move(&late, 0, 10);
	EXPECT(held && run_op(OKV_OP_PUT, 1, 20) == OKV_OK);
	/* Both, for an open would do with either. */
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		EXPECT(!okv_checkpoint_wait(p));
	EXPECT(!late.done);
	holds = false;
	sim_ops->submit(&disk.disk, held);
	EXPECT(user_wait(&late, &disk) == OKV_OK && run_op(OKV_OP_PUT, 2, 30) == OKV_OK);
	cut();
	EXPECT(len_of(0) == 10 && len_of(1) == 20 && len_of(2) == 30);
	end();
	puts("ok store_moved: what took effect before an older batch of the other place is no gap");
}

/* The device loses what was acknowledged, and only a batch of the other place can tell. */
static void test_witness(void)
{
	struct okv_open_options options = { .now_ms = 1 };
	uint64_t at;

	make_store(0);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	/* Its segment begins here, so that its headers do not tell. */
	move(0, 10);
	EXPECT(run_op(OKV_OP_PUT, 1, 10) == OKV_OK);
	at = p->offset_bytes + location_of(1) * OKV_ALIGN_BYTES / BLOCK_BYTES * BLOCK_BYTES;
	move(0, 10);
	wait_idle(&disk);
	okv_store_drop(store);
	memset(disk.cache + at, 0, BLOCK_BYTES);
	EXPECT(okv_store_open(&store, &disk.disk, &options) == -EUCLEAN);
	sim_disk_free(&disk);
	puts("ok store_moved: a batch of one place tells that one of the other is lost");
}

static void see(struct okv_export *e, const struct okv_exported *x)
{
	(void)e;
	EXPECT(*(const char *)x->key == '0' && x->value_len == 20);
}

/* The segment of moves has the later life, and earlier batches. */
static void test_salvage(void)
{
	struct okv_export walk = { .record = see };

	make_store(0);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT(run_op(OKV_OP_PUT, i, 10) == OKV_OK);
		move(i, 10);
	}
	EXPECT(run_op(OKV_OP_PUT, 0, 20) == OKV_OK && run_op(OKV_OP_DELETE, 1, 0) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		memset(disk.cache + root_offset(&disk, slot), 0, OKV_PAGE_BYTES);
	EXPECT(!okv_device_salvage(&disk.disk, &walk) && walk.nr_records == 1);
	sim_disk_free(&disk);
	puts("ok store_moved: a salvage goes by the numbers, and not by the lives of two places");
}

int main(void)
{
	test_amount();
	test_order();
	test_late();
	test_witness();
	test_salvage();
	return 0;
}
