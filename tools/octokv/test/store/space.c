// SPDX-License-Identifier: GPL-2.0
/*
 * space.c - a sparse file whose file system is full, and segments with requests under way
 *
 * The file system has room for a quarter of the device. Puts are answered "full" and nothing fails.
 * Then all deletions succeed, and puts and an open find room again. When the file system has more
 * room, the store uses it soon.
 *
 * The test holds back the zeros for a segment to which nothing can be written any more. The store
 * does not give the segment to a checkpoint, which the zeros would overwrite. Nor is a segment used
 * again while one of its headers is under way, however long all that was in it has been dead.
 *
 * With trims, a segment is not used while it is being trimmed, and its room goes back to the file
 * system then.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 40,
	SEGMENT_BYTES	= 64 << 10,
	BLOCK_BYTES	= 4096,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 8000,
	NR_KEYS_MAX	= NR_SEGMENTS * SEGMENT_BYTES / VALUE_BYTES,
};

static struct sim_disk disk;
static const struct okv_disk_ops *sim_ops;
static struct okv_io *held;	/* an OKV_PREPARE, a header, or an OKV_DISCARD */
static bool holds, holds_header, holds_trim, trims;
static struct okv_store *store;
static struct okv_partition *p;
static char value[VALUE_BYTES];

/* Is it the header at the end of a segment? */
static bool is_header(const struct okv_io *io)
{
	return io->kind == OKV_WRITE && p && io->bytes == BLOCK_BYTES &&
	       (io->offset_bytes + BLOCK_BYTES - p->offset_bytes) % SEGMENT_BYTES == 0;
}

static void submit(struct okv_disk *d, struct okv_io *io)
{
	if ((holds && io->kind == OKV_PREPARE) || (holds_header && !held && is_header(io)) ||
	    (holds_trim && io->kind == OKV_DISCARD))
		held = io;
	else
		sim_ops->submit(d, io);
}

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1, .trims = trims };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void make_store(void)
{
	static struct okv_disk_ops ops;
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	EXPECT(disk.disk.is_sparse);
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = submit, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store();
}

static void begin_op(struct user *u, enum okv_op_kind kind, uint32_t key)
{
	*u = (struct user){ .op = { .kind = kind,
				    .value = value,
				    .value_len = kind == OKV_OP_PUT ? VALUE_BYTES : 0 } };
	user_begin_key(u, p, key);
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key)
{
	struct user u;

	begin_op(&u, kind, key);
	return user_wait(&u, &disk);
}

/* Put keys from @from on until there is no room; returns the first key without room. */
static uint32_t fill(uint32_t from)
{
	for (uint32_t i = from; i < NR_KEYS_MAX; i++) {
		enum okv_status status = run_op(OKV_OP_PUT, i);

		if (status == OKV_FULL)
			return i;
		EXPECT(status == OKV_OK);
	}
	return NR_KEYS_MAX;
}

static void test_full(void)
{
	uint32_t nr_few, nr_again, nr_more;

	make_store();
	disk.room_bytes = NR_SEGMENTS / 4 * SEGMENT_BYTES;
	nr_few = fill(0);
	EXPECT(nr_few > 20 && nr_few < NR_KEYS_MAX / 3);
	for (uint32_t i = 0; i < nr_few; i++)
		EXPECT(run_op(OKV_OP_GET, i) == OKV_OK);
	for (uint32_t i = 0; i < nr_few; i++)
		EXPECT(run_op(OKV_OP_DELETE, i) == OKV_OK);
	nr_again = fill(0);
	EXPECT(nr_again >= nr_few / 2);
	wait_idle(&disk);
	okv_store_close(store);
	open_store();
	for (uint32_t i = 0; i < nr_again; i++)
		EXPECT(run_op(OKV_OP_DELETE, i) == OKV_OK);
	fill(0);
	disk.room_bytes = UINT64_MAX;
	okv_partition_tick(p, 2000);
	wait_idle(&disk);
	nr_more = fill(nr_again);
	EXPECT(nr_more > 2 * nr_few);
	okv_store_close(store);
	sim_disk_free(&disk);
	printf("ok store_space: room for %u keys, for %u when these are deleted, "
	       "and for %u when the file system has more\n",
	       nr_few, nr_again, nr_more);
}

/* As if all but @nr_left free segments were full of live records. */
static void use_up(uint32_t nr_left)
{
	for (uint32_t i = 0; i < NR_SEGMENTS; i++) {
		struct okv_segment *s = &p->segments[i];

		if (s->state == OKV_SEGMENT_HOLE)
			p->nr_holes--;
		else if (s->state != OKV_SEGMENT_FREE || p->nr_free <= nr_left)
			continue;
		else
			p->nr_free--;
		s->state = OKV_SEGMENT_BAD;
		s->live_bytes = 1;
	}
	EXPECT(p->nr_free == nr_left);
}

static void test_prepare(void)
{
	struct user delete, put;
	uint32_t segment;

	make_store();
	EXPECT(run_op(OKV_OP_PUT, 0) == OKV_OK);
	wait_idle(&disk);
	okv_log_seal(p);
	use_up(okv_segments_kept(p));
	holds = true;
	begin_op(&delete, OKV_OP_DELETE, 0);
	wait_idle(&disk);
	segment = p->places[OKV_OF_USERS].segment;
	EXPECT(held && segment < NR_SEGMENTS);
	/* The put waits for room, and there is none. */
	begin_op(&put, OKV_OP_PUT, 1);
	for (uint32_t i = 0; i < 100; i++) {
		okv_partition_tick(p, 2 + i);
		disk.disk.ops->wait(&disk.disk);
		EXPECT(p->segments[segment].state == OKV_SEGMENT_OPEN);
	}
	holds = false;
	sim_ops->submit(&disk.disk, held);
	wait_idle(&disk);
	EXPECT(delete.done && delete.op.status == OKV_OK && put.done && put.op.status == OKV_FULL);
	okv_store_drop(store);
	sim_disk_free(&disk);
	printf("ok store_space: a segment that is being prepared has no other use\n");
}

/* Write a few keys again and again, until each segment has been used several times. */
static void churn(void)
{
	for (uint32_t i = 0; i < 3 * NR_KEYS_MAX; i++)
		EXPECT(run_op(OKV_OP_PUT, i % 10) == OKV_OK);
}

static void test_header(void)
{
	uint32_t segment;
	uint64_t life;

	make_store();
	held = NULL;
	holds_header = true;
	EXPECT(run_op(OKV_OP_PUT, 0) == OKV_OK);
	segment = p->places[OKV_OF_USERS].segment;
	life = p->segments[segment].life;
	EXPECT(held && p->segments[segment].nr_headers);
	churn();
	EXPECT(!p->segments[segment].live_bytes &&
	       p->segments[segment].state == OKV_SEGMENT_SEALED &&
	       p->segments[segment].life == life);
	holds_header = false;
	sim_ops->submit(&disk.disk, held);
	churn();
	EXPECT(p->segments[segment].life != life);
	okv_store_close(store);
	sim_disk_free(&disk);
	printf("ok store_space: a segment is not used again before its headers are written\n");
}

static uint32_t nr_allocated(void)
{
	uint32_t nr = 0;

	for (uint64_t i = 0; i < DEVICE_BYTES / BLOCK_BYTES; i++)
		nr += disk.allocated[i];
	return nr;
}

static void test_trim(void)
{
	uint32_t segment, nr_before;
	uint64_t life;

	trims = true;
	make_store();
	held = NULL;
	holds_trim = true;
	churn();
	EXPECT(held && p->trimming && !p->stats.nr_trimmed_segments);
	segment = p->trimmed;
	life = p->segments[segment].life;
	churn();
	EXPECT(p->segments[segment].state == OKV_SEGMENT_TRIM && p->segments[segment].life == life);
	holds_trim = false;
	sim_ops->submit(&disk.disk, held);
	churn();
	EXPECT(p->stats.nr_trimmed_segments > NR_SEGMENTS);
	/* The device heeds every other hint: about half of the segments are holes again. */
	nr_before = nr_allocated();
	EXPECT(nr_before < DEVICE_BYTES / BLOCK_BYTES * 3 / 4);
	okv_store_close(store);
	open_store();
	for (uint32_t i = 0; i < 10; i++)
		EXPECT(run_op(OKV_OP_GET, i) == OKV_OK);
	okv_store_close(store);
	sim_disk_free(&disk);
	printf("ok store_space: a segment is not used while it is trimmed; %u of %u blocks are in "
	       "use then\n", nr_before, DEVICE_BYTES / BLOCK_BYTES);
}

int main(void)
{
	test_full();
	test_prepare();
	test_header();
	test_trim();
	return 0;
}
