// SPDX-License-Identifier: GPL-2.0
/*
 * named.c - roots that name where the log goes on, those of a former octokvd, and lost ones
 *
 * Roots that name nothing are as good as those that do, also one of each. If the device has lost
 * all roots of a process, the log has gone on where the roots that are left do not say. What it
 * wrote says so. A store of an earlier version never has names, so an earlier octokvd can read it.
 */
#include "user.h"

enum {
	NR_SEGMENTS = 30,
	SEGMENT_BYTES = 16 << 10,
	BLOCK_BYTES = 512,
	DEVICE_BYTES = (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS = 50,			/* some seven segments of them */
	VALUE_BYTES = 2000,
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;
static char value[VALUE_BYTES], roots_then[OKV_NR_ROOTS][OKV_PAGE_BYTES];

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key)
{
	struct user u = { .op = { .kind = kind, .value = value, .value_len = VALUE_BYTES } };

	user_begin_key(&u, p, key);
	return user_wait(&u, &disk);
}

static void open_store(uint32_t nr_named)
{
	struct okv_open_options options = { .now_ms = 1, .nr_named = nr_named };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static struct okv_root_disk *root_at(uint32_t slot)
{
	return (void *)(disk.cache + root_offset(&disk, slot));
}

static void keep_roots(void)
{
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		memcpy(roots_then[slot], root_at(slot), OKV_PAGE_BYTES);
}

/* As if the device had lost all roots since then. */
static void lose_roots(void)
{
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		memcpy(root_at(slot), roots_then[slot], OKV_PAGE_BYTES);
}

/* Put all keys into a new store and end the process. @roots_then is from soon after its open. */
static void make_store(uint32_t nr_named)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	disk.disk.is_sparse = false;
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store(nr_named);
	EXPECT(run_op(OKV_OP_PUT, 0) == OKV_OK);
	keep_roots();
	EXPECT(!okv_checkpoint_wait(p) && !okv_checkpoint_wait(p));
	for (uint32_t i = 1; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_PUT, i) == OKV_OK);
	wait_idle(&disk);
	okv_store_drop(store);
}

static void find_all(void)
{
	memcpy(disk.durable, disk.cache, DEVICE_BYTES);
	open_store(0);
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_GET, i) == OKV_OK);
	okv_store_close(store);
	sim_disk_free(&disk);
}

static uint32_t newer_slot(void)
{
	return root_at(1)->generation > root_at(0)->generation;
}

/* A former octokvd would have written the root like this. */
static void make_old(uint32_t slot)
{
	struct okv_root_disk *root = root_at(slot);
	struct okv_layout layout;

	EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
	memset(root->segments + root->nr_segments, 0, root->nr_named * sizeof(*root->segments));
	root->magic = OKV_ROOT_MAGIC_2;
	root->nr_named = 0;
	root->sum = okv_sum_behind(root, 72 + 4 * OKV_NR_ROOT_SEGMENTS,
				   okv_seed(&layout.super, 0, OKV_NOWHERE, slot));
}

static void test_old(void)
{
	make_store(0);
	make_old(0);
	make_old(1);
	find_all();
	printf("ok store_named: a store whose roots name nothing opens\n");
}

/* The newer root and what is behind it are a former octokvd's. Then the newer root is spoilt. */
static void test_mixed(void)
{
	make_store(0);
	lose_roots();
	/* As if the log had gone on in other segments than the older root names. */
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++) {
		struct okv_root_disk *root = root_at(slot);
		struct okv_layout layout;

		EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
		root->nr_named = 1;
		root->sum = okv_root_sum(&layout.super, root, 0, slot);
	}
	make_old(newer_slot());
	root_at(newer_slot())->sum ^= 1;
	find_all();
	printf("ok store_named: what a root names does not count without the other root\n");
}

static void test_lost(void)
{
	make_store(1);
	lose_roots();
	find_all();
	printf("ok store_named: the log says that newer roots were lost\n");
}

/* A store of an earlier version keeps the roots that an earlier octokvd knows. */
static void test_earlier(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
		.former = 2,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	for (uint32_t i = 0; i < 3; i++) {
		open_store(0);
		EXPECT(run_op(OKV_OP_PUT, i) == OKV_OK);
		for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
			EXPECT(root_at(slot)->magic == OKV_ROOT_MAGIC_2);
		okv_store_close(store);
	}
	sim_disk_free(&disk);
	printf("ok store_named: a store of an earlier version has the earlier roots\n");
}

int main(void)
{
	test_earlier();
	test_old();
	test_mixed();
	test_lost();
	return 0;
}
