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

#include "single.h"

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

static struct okv_open_options how_to_open = { .now_ms = 1 };
static char value[VALUE_BYTES];

static void make_store(uint32_t former)
{
	user_make_device(&disk, DEVICE_BYTES, BLOCK_BYTES, SEGMENT_BYTES, former);
	open_store();
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
static struct okv_io *held;	/* a batch of one place */
static enum okv_place_number held_place;
static bool holds;

static void submit(struct okv_disk *d, struct okv_io *io)
{
	uint32_t segment = (io->offset_bytes - p->offset_bytes) / SEGMENT_BYTES;

	if (holds && !held && io->kind == OKV_WRITE && segment == p->places[held_place].segment)
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

static void move(uint32_t key, uint32_t value_len)
{
	struct user u;

	user_begin_move(&u, p, key, value, value_len);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

static uint32_t len_of(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET } };

	user_begin_key(&u, p, key);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	return u.op.out_len;
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

static void make_store_that_holds(enum okv_place_number place)
{
	static struct okv_disk_ops ops;

	make_store(0);
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = submit, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	held_place = place;
	held = NULL;
}

static void release(struct user *u)
{
	holds = false;
	sim_ops->submit(&disk.disk, held);
	EXPECT(user_wait(u, &disk) == OKV_OK);
}

/*
 * A move gets its number first and is written last. A put takes effect meanwhile, and roots are
 * written: it has to lie behind what they say of its place.
 */
static void test_late(void)
{
	struct user late;

	make_store_that_holds(OKV_OF_MOVES);
	for (uint32_t i = 0; i < 3; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 10) == OKV_OK);
	move(0, 10);
	holds = true;
	user_begin_move(&late, p, 0, value, 10);
	EXPECT(held && run_op(OKV_OP_PUT, 1, 20) == OKV_OK);
	/* Both, for an open would do with either. */
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		EXPECT(!okv_checkpoint_wait(p));
	EXPECT(!late.done);
	release(&late);
	EXPECT(run_op(OKV_OP_PUT, 2, 30) == OKV_OK);
	cut();
	EXPECT(len_of(0) == 10 && len_of(1) == 20 && len_of(2) == 30);
	end();
	puts("ok store_moved: what took effect before an older batch of the other place is no gap");
}

static const struct okv_root_disk *root_at(uint32_t slot)
{
	return (const void *)(disk.cache + root_offset(&disk, slot));
}

/*
 * While a put is under way, the segment that moves had when it began is written over. It will be
 * used for something else, so no root says that moves go on there.
 */
static void test_drained(void)
{
	struct user late = {
		.op = { .kind = OKV_OP_PUT, .ioprio = 1 << 3, .value = value, .value_len = 10 },
	};
	uint32_t segment;

	make_store_that_holds(OKV_OF_USERS);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	move(0, 10);
	segment = p->places[OKV_OF_MOVES].segment;
	holds = true;
	user_begin_key(&late, p, 1);
	EXPECT(held);
	okv_log_seal(p);
	EXPECT(run_op(OKV_OP_PUT, 0, 20) == OKV_OK);
	EXPECT(!p->segments[segment].live_bytes);
	/* As the store does when a checkpoint is due. */
	p->segments[segment].state = OKV_SEGMENT_DRAINED;
	p->segments[segment].drained_generation = p->generation + 1;
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		EXPECT(!okv_checkpoint_wait(p));
	EXPECT(!late.done);
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		EXPECT(root_at(i)->moves.segment == p->nr_segments);
	release(&late);
	cut();
	EXPECT(len_of(0) == 20 && len_of(1) == 10);
	end();
	puts("ok store_moved: no root says that a place goes on in a segment that nothing needs");
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

/* ---- two runs in one tail ---- */

/* Where on the device the batch of a key begins, which has nothing else. */
static uint64_t batch_of(uint32_t key)
{
	return p->offset_bytes + location_of(key) * OKV_ALIGN_BYTES / BLOCK_BYTES * BLOCK_BYTES;
}

/* As if a batch was in flight with those from @durable on. */
static void set_durable(uint64_t at, uint64_t durable)
{
	struct okv_batch_disk *b = (void *)(disk.cache + at);
	uint64_t location = (at - p->offset_bytes) / OKV_ALIGN_BYTES;

	b->durable = durable;
	b->sum = okv_sum_behind(b, sizeof(*b), okv_location_seed(p, location));
}

/* Its header arrived, its record did not. */
static void tear(uint64_t at, uint64_t durable)
{
	set_durable(at, durable);
	memset(disk.cache + at + sizeof(struct okv_batch_disk), 0, sizeof(struct okv_record_disk));
}

static uint64_t generation_of(uint32_t slot)
{
	return root_at(slot)->generation;
}

/* The root of the later run is lost, as if it had never been. */
static void lose_newest_root(void)
{
	uint32_t newest = generation_of(1) > generation_of(0);

	memset(disk.cache + root_offset(&disk, newest), 0, OKV_PAGE_BYTES);
}

/*
 * The first run leaves a torn batch with a number that the second one gives to another. The root
 * between the runs is lost. What does not count in one place holds nothing up in the other.
 */
static void test_runs(void)
{
	uint64_t first_seq, lost[2], torn;

	make_store(0);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	okv_store_close(store);
	open_store();
	move(0, 10);
	EXPECT(run_op(OKV_OP_PUT, 1, 10) == OKV_OK);
	first_seq = p->next_seq;
	for (uint32_t i = 2; i < 5; i++)
		EXPECT(run_op(OKV_OP_PUT, i, 10) == OKV_OK);
	for (uint32_t i = 0; i < 2; i++)
		lost[i] = batch_of(2 + i);
	torn = batch_of(4);
	wait_idle(&disk);
	tear(torn, first_seq);
	okv_store_drop(store);
	for (uint32_t i = 0; i < 2; i++)
		memset(disk.cache + lost[i], 0, BLOCK_BYTES);
	open_store();
	EXPECT(p->next_seq == first_seq);
	EXPECT(run_op(OKV_OP_PUT, 5, 20) == OKV_OK);
	move(0, 10);
	EXPECT(run_op(OKV_OP_PUT, 6, 30) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
	lose_newest_root();
	open_store();
	EXPECT(len_of(0) == 10 && len_of(1) == 10 && len_of(5) == 20 && len_of(6) == 30);
	EXPECT(p->usage[0].nr_keys == 4);
	end();
	puts("ok store_moved: what an earlier run left in one place does not hold up the other");
}

/*
 * A move of the first run arrives after the recovery, which has given its number to nobody yet. The
 * second run has only begun a segment of users.
 */
static void test_late_run(void)
{
	uint64_t first_seq, location, put, late;
	char block[BLOCK_BYTES];

	make_store(0);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	okv_store_close(store);
	open_store();
	move(0, 10);
	location = location_of(0);
	first_seq = p->next_seq;
	EXPECT(run_op(OKV_OP_PUT, 1, 10) == OKV_OK);
	put = batch_of(1);
	move(0, 10);
	late = batch_of(0);
	wait_idle(&disk);
	set_durable(late, first_seq);
	okv_store_drop(store);
	memcpy(block, disk.cache + late, BLOCK_BYTES);
	memset(disk.cache + late, 0, BLOCK_BYTES);
	memset(disk.cache + put, 0, BLOCK_BYTES);
	open_store();
	EXPECT(p->next_seq == first_seq && location_of(0) == location);
	EXPECT(run_op(OKV_OP_PUT, 5, 20) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
	memcpy(disk.cache + late, block, BLOCK_BYTES);
	lose_newest_root();
	open_store();
	EXPECT(location_of(0) == location && len_of(5) == 20 && p->usage[0].nr_keys == 2);
	end();
	puts("ok store_moved: what arrives late from an earlier run does not count");
}

/* ---- lives ---- */

/* Put until the segment of users is another one, @nr times. */
static void fill_segments(uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t segment = p->places[OKV_OF_USERS].segment;

		while (p->places[OKV_OF_USERS].segment == segment)
			EXPECT(run_op(OKV_OP_PUT, 100 + i, VALUE_BYTES) == OKV_OK);
	}
}

/* Of a segment between the lives of the places, and known, no sector is needed. */
static void test_between(void)
{
	uint64_t life;
	uint32_t between = 0;

	make_store(0);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	move(0, 10);
	fill_segments(4);
	EXPECT(!okv_checkpoint_wait(p));
	life = p->segments[p->places[OKV_OF_USERS].segment].life;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		if (p->segments[i].state == OKV_SEGMENT_SEALED &&
		    p->segments[i].life > p->segments[p->places[OKV_OF_MOVES].segment].life &&
		    p->segments[i].life < life && p->segments[i].live_bytes)
			between = i;
	}
	EXPECT(between);
	disk.bad_offset_bytes = okv_segment_offset(p, between) + BLOCK_BYTES;
	wait_idle(&disk);
	okv_store_drop(store);
	/* So that no root names segments. */
	memset(disk.cache + root_offset(&disk, generation_of(1) < generation_of(0)), 0,
	       OKV_PAGE_BYTES);
	disk.has_bad = true;
	open_store();
	EXPECT(len_of(0) == 10);
	disk.has_bad = false;
	end();
	puts("ok store_moved: a bad sector outside the tails does not stop an open");
}

/* A place that is used little has no segment for long. */
static void test_old(void)
{
	uint64_t first_life;

	make_store(0);
	EXPECT(run_op(OKV_OP_PUT, 0, 10) == OKV_OK);
	move(0, 10);
	first_life = p->segments[p->places[OKV_OF_MOVES].segment].life;
	for (uint32_t i = 0; i < 2 * p->nr_segments; i++) {
		uint32_t segment;

		fill_segments(1);
		/* A checkpoint may have begun a segment since. */
		segment = p->places[OKV_OF_MOVES].segment;
		EXPECT(segment == p->nr_segments ||
		       p->next_life - p->segments[segment].life <= p->nr_segments + 2);
	}
	EXPECT(p->next_life > first_life + p->nr_segments && len_of(0) == 10);
	end();
	puts("ok store_moved: a segment of moves ends when it is old");
}

/*
 * A file system that is full. Once all records lie dense, nothing is to be gained, and puts are
 * told so at once: the segment of moves is not moved again and again.
 */
static void test_full(void)
{
	struct okv_stats before, after = { 0 };
	uint32_t key = 1, nr_full = 0;

	make_store(0);
	disk.room_bytes = NR_SEGMENTS / 4 * SEGMENT_BYTES;
	do {
		before = after;
		if (run_op(OKV_OP_PUT, key, VALUE_BYTES) == OKV_OK)
			key++;
		okv_store_stats(store, &after);
		nr_full += after.nr_full > before.nr_full;
		EXPECT(nr_full < 100);
	} while (after.nr_full == before.nr_full ||
		 after.nr_gc_segments > before.nr_gc_segments + 2);
	for (uint32_t i = 1; i < key; i++)
		EXPECT(run_op(OKV_OP_DELETE, i, 0) == OKV_OK);
	EXPECT(run_op(OKV_OP_PUT, 0, VALUE_BYTES) == OKV_OK);
	end();
	puts("ok store_moved: a full partition comes to rest");
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
	test_drained();
	test_witness();
	test_runs();
	test_late_run();
	test_between();
	test_old();
	test_full();
	test_salvage();
	return 0;
}
