// SPDX-License-Identifier: GPL-2.0
/*
 * memory.c - a store whose memory ends refuses new keys, and nothing else
 *
 * Overwriting, reading and deleting go on, and deletions make room for new keys. Garbage collection
 * waits for the memory of a segment, and nothing is refused as full in the meantime.
 */
#include "store/mem.h"
#include "user.h"

enum {
	NR_SEGMENTS	= 48,
	SEGMENT_BYTES	= 256 << 10,
	BLOCK_BYTES	= 512,
	WORK_BYTES	= OKV_NR_WORK_SEGMENTS * SEGMENT_BYTES,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	LIMIT_BYTES	= 1280 << 10,
	HELD_BYTES	= 512 << 10,
	NR_KEYS_MAX	= 1 << 20,
	NR_KEYS_MIN	= 5000,
	NR_OVERWRITTEN	= 200000,	/* several times the device */
	LARGE_KEY	= 2 * NR_KEYS_MAX,
	NR_LARGE	= 20,
	LARGE_BYTES	= 8192,
};

static struct sim_disk disk;
static struct okv_store *store;
static char large[LARGE_BYTES];

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key)
{
	struct user u = { .op = { .kind = kind, .value = "v", .value_len = 1 } };

	user_begin_key(&u, okv_store_partition(store, 0), key);
	return user_wait(&u, &disk);
}

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1, .nr_known = 64, .attempt_seed = 1 };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
}

/* Put large values, or give them another expiry. */
static void run_large(enum okv_op_kind kind, uint64_t expire_ms)
{
	for (uint32_t i = 0; i < NR_LARGE; i++) {
		struct user u = {
			.op = { .kind = kind, .value = large, .value_len = LARGE_BYTES,
				.expire_ms = expire_ms },
		};

		user_begin_key(&u, okv_store_partition(store, 0), LARGE_KEY + i);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
}

static uint64_t nr_expiries(void)
{
	struct okv_stats stats;

	okv_store_stats(store, &stats);
	return stats.nr_expiries;
}

/* Put new keys until one is refused; returns which. */
static uint32_t fill(uint32_t from)
{
	enum okv_status status = OKV_OK;
	uint32_t key = from;

	for (; status == OKV_OK && key < NR_KEYS_MAX; key++)
		status = run_op(OKV_OP_PUT, key);
	EXPECT(status == OKV_NO_MEMORY);
	return key - 1;
}

static void test_keys(void)
{
	struct okv_stats stats;
	uint32_t nr, more;
	void *held;

	run_large(OKV_OP_PUT, 0);
	nr = fill(0);
	/* A checkpoint under way will free its memory: more than that is short. */
	held = mem_alloc(HELD_BYTES);
	EXPECT(nr > NR_KEYS_MIN && !mem_has_key_room());
	EXPECT(run_op(OKV_OP_PUT, 0) == OKV_OK && run_op(OKV_OP_GET, 1) == OKV_OK);
	EXPECT(run_op(OKV_OP_GET, nr) == OKV_NOT_FOUND);
	/* An expiry takes memory, or the value is written again. */
	run_large(OKV_OP_TOUCH, 1000);
	EXPECT(!nr_expiries() && !okv_store_partition(store, 0)->index.nr_expiries);
	mem_free(held);
	for (uint32_t i = 0; i < nr / 2; i++)
		EXPECT(run_op(OKV_OP_DELETE, i) == OKV_OK);
	run_large(OKV_OP_TOUCH, 2000);
	EXPECT(nr_expiries() == NR_LARGE);
	/* Those that have memory keep it. */
	held = mem_alloc(LIMIT_BYTES);
	run_large(OKV_OP_TOUCH, 3000);
	EXPECT(!mem_has_key_room() && nr_expiries() == 2 * NR_LARGE);
	mem_free(held);
	more = fill(NR_KEYS_MAX / 2) - NR_KEYS_MAX / 2;
	EXPECT(more > nr / 3);
	okv_store_stats(store, &stats);
	EXPECT(stats.nr_no_memory == 2 && stats.nr_keys == NR_LARGE + nr - nr / 2 + more);
	printf("ok store_memory: without memory, new keys are refused and all else goes on, with "
	       "%u keys\n", nr);
}

/* Another one has the memory for a segment, and gives it back when the store is full. */
static void test_work(void)
{
	struct okv_partition *p = okv_store_partition(store, 0);
	void *taken = mem_work_begin(4096, WORK_BYTES);
	struct okv_stats stats;
	uint64_t random = 1;
	struct user u;

	EXPECT(taken && !mem_work_begin(4096, 1));
	for (uint32_t i = 0; ; i++) {
		EXPECT(i < NR_OVERWRITTEN);
		u = (struct user){ .op = { .kind = OKV_OP_PUT, .value = "v", .value_len = 1 } };
		user_begin_key(&u, p, NR_KEYS_MAX / 2 + sim_draw(&random, NR_KEYS_MIN));
		wait_idle(&disk);
		if (!u.done)
			break;
	}
	EXPECT(p->gc.waits);
	mem_work_end(taken, WORK_BYTES);
	okv_partition_tick(p, 2);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	okv_store_stats(store, &stats);
	EXPECT(stats.nr_full == 0 && stats.nr_gc_segments);
	printf("ok store_memory: a write waits until there is memory for garbage collection\n");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct mem_numbers mem;

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	mem_start(LIMIT_BYTES, WORK_BYTES);
	open_store();
	test_keys();
	okv_store_close(store);
	open_store();
	test_work();
	okv_store_close(store);
	mem_numbers(&mem);
	EXPECT(mem.used_bytes <= 128 << 10 && !mem.work_bytes && !mem.nr_short);
	sim_disk_free(&disk);
	return 0;
}
