// SPDX-License-Identifier: GPL-2.0
/*
 * apart.c - where apart values begin, and what reading one takes
 *
 * Values of 4, 8 and 16 KiB in one write begin at multiples of their size, and so do values that
 * are written later. Exceptions are the first write of a segment, and all writes when there is
 * little room: these leave out nothing. A value whose key is known is read in one request of its
 * size. If the key is not known, two requests are under way together. The caller may take the
 * memory of such a value, with the room around it.
 */
#include "store/mem.h"
#include "user.h"

enum {
	NR_SEGMENTS	= 40,
	SEGMENT_BYTES	= 1 << 20,
	BLOCK_BYTES	= 4096,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	PAGE_BYTES	= 16 << 10,
	NR_KEYS		= 200,
	NR_READS_MAX	= 8,
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;
static char value[PAGE_BYTES];

/* The reads since the last look. */
static const struct okv_disk_ops *sim_ops;
static struct okv_io reads[NR_READS_MAX];
static uint32_t nr_reads;

static void submit(struct okv_disk *to, struct okv_io *io)
{
	if (io->kind == OKV_READ && nr_reads < NR_READS_MAX)
		reads[nr_reads++] = *io;
	sim_ops->submit(to, io);
}

static void open_store(uint32_t nr_known)
{
	struct okv_open_options options = { .now_ms = 1, .nr_known = nr_known, .nr_writes_max = 1 };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void begin_put(struct user *u, uint32_t key, uint32_t value_len)
{
	*u = (struct user){ .op = { .kind = OKV_OP_PUT, .value = value, .value_len = value_len } };
	user_begin_key(u, p, key);
}

static void put(uint32_t key, uint32_t value_len)
{
	struct user u;

	begin_put(&u, key, value_len);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

static struct okv_entry entry_of(uint32_t key)
{
	struct okv_entry e;

	EXPECT(okv_index_find(&p->index, (key + 1) * 0x9e3779b97f4a7c15ULL, 0, 0, &e));
	return e;
}

/* Where the value of a key is on the device. */
static uint64_t value_at(uint32_t key)
{
	struct okv_entry e = entry_of(key);

	EXPECT(e.apart);
	return p->offset_bytes +
	       (e.location * OKV_ALIGN_BYTES / BLOCK_BYTES + e.apart) * BLOCK_BYTES;
}

static bool is_first(uint32_t key)
{
	return entry_of(key).location * OKV_ALIGN_BYTES % SEGMENT_BYTES < 2 * BLOCK_BYTES;
}

/* Recovery takes the first write of a segment for the headers, if these are lost. */
static void test_one_by_one(void)
{
	uint32_t nr_first = 0, nr_used = 0;

	for (uint32_t key = 0; key < NR_KEYS; key++)
		put(key, PAGE_BYTES);
	for (uint32_t key = 0; key < NR_KEYS; key++) {
		nr_first += is_first(key);
		EXPECT(is_first(key) || value_at(key) % PAGE_BYTES == 0);
	}
	for (uint32_t i = 0; i < NR_SEGMENTS; i++)
		nr_used += p->segments[i].live_bytes > 0;
	EXPECT(nr_used > 1 && nr_first == nr_used);
	printf("ok store_apart: %u values of 16 KiB begin at multiples of it, "
	       "the first ones of %u segments do not\n",
	       NR_KEYS - nr_first, nr_first);
}

static void test_one_write(void)
{
	static const uint32_t lens[] = {
		4096, 100, PAGE_BYTES, 5000, 8192, 4096, PAGE_BYTES, 8192,
	};
	struct user users[9];
	uint64_t nr_batches;

	begin_put(&users[8], 0, PAGE_BYTES);
	nr_batches = p->stats.nr_batches;
	for (uint32_t i = 0; i < 8; i++)
		begin_put(&users[i], 1000 + i, lens[i]);
	for (uint32_t i = 0; i < 9; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
	EXPECT(p->stats.nr_batches == nr_batches + 1);
	for (uint32_t i = 0; i < 8; i++) {
		if (lens[i] % BLOCK_BYTES)
			EXPECT(!entry_of(1000 + i).apart);
		else
			EXPECT(value_at(1000 + i) % lens[i] == 0);
	}
	printf("ok store_apart: in one write, values of 4, 8 and 16 KiB begin at multiples of "
	       "their size\n");
}

static void get(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET } };

	nr_reads = 0;
	user_begin_key(&u, p, key);
	EXPECT(u.op.nr_reads == nr_reads);
	EXPECT(user_wait(&u, &disk) == OKV_OK && u.op.out_len == PAGE_BYTES);
}

static void test_reads(void)
{
	get(7);
	EXPECT(nr_reads == 1 && reads[0].offset_bytes == value_at(7) &&
	       reads[0].bytes == PAGE_BYTES);
	okv_store_close(store);
	open_store(0);
	get(7);
	EXPECT(nr_reads == 2 && reads[0].offset_bytes == value_at(7) &&
	       reads[0].bytes == PAGE_BYTES && reads[1].bytes <= BLOCK_BYTES);
	get(7);
	EXPECT(nr_reads == 1);
	printf("ok store_apart: one read where the key is known, two at a time where it is not\n");
}

static char *taken, *taken_value;

static void take(struct okv_op *op)
{
	taken_value = (char *)op->out;
	taken = okv_op_take(op);
	user_done(op);
}

static void get_taken(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET, .done = take } };

	user_begin_key(&u, p, key);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

/* The key is known from the second time on. */
static void test_taken(void)
{
	okv_store_close(store);
	open_store(0);
	for (int i = 0; i < 2; i++) {
		get_taken(7);
		EXPECT(taken && !memcmp(taken_value, value, PAGE_BYTES));
		memset(taken_value - OKV_ROOM_BYTES, 1, OKV_ROOM_BYTES);
		memset(taken_value + PAGE_BYTES, 1, OKV_ROOM_BYTES);
		mem_free(taken);
	}
	get_taken(1001);
	EXPECT(!taken);
	printf("ok store_apart: the memory of a value is the caller's, if it is apart\n");
}

static void test_little_room(void)
{
	uint32_t key = 2000, nr = 0;	/* puts whose place was checked */

	while (!okv_segments_are_low(p))
		put(key++, PAGE_BYTES);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		const struct okv_place *at = &p->places[OKV_OF_USERS];
		uint32_t before = at->offset_bytes, segment = at->segment;
		uint64_t batch_bytes = p->stats.batch_bytes;
		bool was_low = okv_segments_are_low(p);

		put(0, PAGE_BYTES);
		/* Nothing else was written, and no segment began. */
		if (!was_low || p->stats.batch_bytes - batch_bytes != BLOCK_BYTES + PAGE_BYTES ||
		    at->segment != segment)
			continue;
		EXPECT(at->offset_bytes - before == BLOCK_BYTES + PAGE_BYTES);
		nr++;
	}
	EXPECT(nr > NR_KEYS / 4);
	printf("ok store_apart: with little room nothing is left out\n");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	static struct okv_disk_ops ops;

	for (uint32_t i = 0; i < PAGE_BYTES; i++)
		value[i] = i * 7;
	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 1);
	sim_ops = disk.disk.ops;
	ops = *sim_ops;
	ops.submit = submit;
	disk.disk.ops = &ops;
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store(0);
	test_one_by_one();
	test_one_write();
	test_reads();
	test_taken();
	test_little_room();
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
