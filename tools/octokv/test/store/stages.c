// SPDX-License-Identifier: GPL-2.0
/*
 * stages.c - what operations and transactions have waited for: a lock, a read, the log
 *
 * The clock goes on by one before each answer of the device, so a time is a number of answers. A
 * write waits for the log. What is on the same key waits for its lock meanwhile. Without a clock
 * all times are 0.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 24,
	SEGMENT_BYTES	= 64 << 10,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	VALUE_BYTES	= 6000,		/* apart: reading it needs the device */
};

static char value[VALUE_BYTES];
static struct sim_disk disk;
static struct okv_store *store;
static uint64_t clock_ns = 1000;

static struct okv_partition *open_store(const uint64_t *clock)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1, .clock_ns = clock };

	sim_disk_init(&disk, DEVICE_BYTES, 4096, true, 1);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	return okv_store_partition(store, 0);
}

static void close_store(void)
{
	okv_store_close(store);
	sim_disk_free(&disk);
}

static void go_on_until(const bool *done)
{
	while (!*done) {
		clock_ns++;
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	}
}

static void test_operations(void)
{
	struct user put = {
		.op = { .kind = OKV_OP_PUT, .value = value, .value_len = VALUE_BYTES },
	};
	struct user get = { .op = { .kind = OKV_OP_GET } }, again = get;
	const uint64_t *ns = get.op.stages.ns;
	struct okv_partition *p = open_store(&clock_ns);

	user_begin_key(&put, p, 7);
	user_begin_key(&get, p, 7);
	go_on_until(&put.done);
	go_on_until(&get.done);
	EXPECT(put.op.status == OKV_OK && get.op.status == OKV_OK);
	EXPECT(!put.op.stages.ns[OKV_STAGE_LOCK] && put.op.stages.ns[OKV_STAGE_LOG]);
	EXPECT(put.op.stages.now == OKV_STAGE_LOG && get.op.stages.now == OKV_STAGE_READ);
	EXPECT(ns[OKV_STAGE_LOCK] == put.op.stages.ns[OKV_STAGE_LOG]);
	EXPECT(ns[OKV_STAGE_READ] && !ns[OKV_STAGE_LOG]);
	/* Each begins at 0. */
	user_begin_key(&again, p, 7);
	go_on_until(&again.done);
	get.done = false;
	user_begin_key(&get, p, 7);
	go_on_until(&get.done);
	EXPECT(!ns[OKV_STAGE_LOCK] && ns[OKV_STAGE_READ] == again.op.stages.ns[OKV_STAGE_READ]);
	close_store();
}

static enum okv_status set(struct okv_txn *txn)
{
	txn->keys->writes = true;
	txn->keys->value = "x";
	txn->keys->value_len = 1;
	return OKV_OK;
}

static void txn_done(struct okv_txn *txn)
{
	*(bool *)txn->owner = true;
}

static void test_transaction(const uint64_t *clock)
{
	struct user put = {
		.op = { .kind = OKV_OP_PUT, .value = value, .value_len = VALUE_BYTES },
	};
	struct okv_partition *p = open_store(clock);
	bool done = false;
	struct okv_txn_key key = { 0 };
	struct okv_txn txn = {
		.keys = &key, .nr_keys = 1, .decide = set, .done = txn_done, .owner = &done,
	};

	user_begin_key(&put, p, 7);
	key.wants_value = true;
	key.read = (struct okv_op){
		.key = put.key, .key_len = put.op.key_len, .hash = put.op.hash,
	};
	okv_partition_transact(p, &txn);
	go_on_until(&done);
	EXPECT(put.done && txn.status == OKV_OK && txn.stages.now == OKV_STAGE_LOG);
	for (int i = 0; i < OKV_NR_STAGES; i++)
		EXPECT(!txn.stages.ns[i] == !clock);
	EXPECT(txn.stages.ns[OKV_STAGE_LOCK] == put.op.stages.ns[OKV_STAGE_LOG]);
	close_store();
}

int main(void)
{
	test_operations();
	test_transaction(&clock_ns);
	test_transaction(NULL);
	puts("ok store_stages: locks, reads and the log, of operations and transactions");
	return 0;
}
