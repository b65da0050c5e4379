// SPDX-License-Identifier: GPL-2.0
/*
 * joined.c - writers of one key that wait for each other become one write, and see each other
 *
 * Counters: thirty-two increments are two writes, and each has counted on. What sees a value that
 * is not durable yet gets its answer when that is, and fails with it. Other keys, readers and
 * deletions do not join.
 */
#include <inttypes.h>

#include "user.h"

enum {
	NR_SEGMENTS	= 24,
	SEGMENT_BYTES	= 1 << 20,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_USERS	= 32,
	LARGE_BYTES	= 300 << 10,
};

struct counter {
	struct user user;
	char text[24];
	uint64_t old;
};

static char large[LARGE_BYTES];
static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *partition;
static uint64_t nr_done;

static void open_store(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1 };

	sim_disk_init(&disk, DEVICE_BYTES, 4096, true, 1);
	EXPECT(!okv_device_format(&disk.disk, &format));
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	partition = okv_store_partition(store, 0);
}

static void close_store(void)
{
	okv_store_close(store);
	sim_disk_free(&disk);
}

static struct okv_stats stats(void)
{
	struct okv_stats now = { 0 };

	okv_store_stats(store, &now);
	return now;
}

static uint64_t old_number(const struct okv_op *op)
{
	uint64_t number = 0;

	for (uint32_t i = 0; op->out && i < op->out_len; i++)
		number = 10 * number + ((const char *)op->out)[i] - '0';
	return number;
}

static enum okv_status increment(struct okv_op *op)
{
	struct counter *c = (struct counter *)op->owner;

	c->old = old_number(op);
	op->value = c->text;
	op->value_len = snprintf(c->text, sizeof(c->text), "%" PRIu64, c->old + 1);
	return OKV_OK;
}

/* The memory of its value ends with an operation, and that of the old value does not. */
static void counter_done(struct okv_op *op)
{
	struct counter *c = (struct counter *)op->owner;

	EXPECT(c->old == nr_done++ && c->old == old_number(op));
	memset(c->text, 'x', sizeof(c->text));
	user_done(op);
}

static void test_counter(void)
{
	static struct counter counters[NR_USERS];
	struct user get = { .op = { .kind = OKV_OP_STAT } };
	uint64_t nr_batches;

	open_store();
	nr_batches = stats().nr_batches;
	for (int i = 0; i < NR_USERS; i++) {
		struct user *u = &counters[i].user;

		u->op = (struct okv_op){
			.kind = OKV_OP_UPDATE, .update = increment, .done = counter_done,
			.owner = u, .key = "n", .key_len = 1, .hash = 77,
		};
		okv_partition_submit(partition, &u->op);
	}
	for (int i = 0; i < NR_USERS; i++)
		EXPECT(user_wait(&counters[i].user, &disk) == OKV_OK);
	/* The first one, which nothing had waited for, and all others. */
	EXPECT(stats().nr_batches == nr_batches + 2);
	EXPECT(stats().nr_joined == NR_USERS - 2 && stats().nr_puts == NR_USERS);
	get.op.key = "n";
	get.op.key_len = 1;
	get.op.hash = 77;
	user_begin(&get, partition);
	EXPECT(user_wait(&get, &disk) == OKV_OK && get.op.out_len == 2);
	close_store();
}

/* A PUT if there is none sees one that is not durable: it waits for it. */
static void test_conditions(void)
{
	struct user first = { .op = { .kind = OKV_OP_PUT, .value = "1", .value_len = 1 } };
	struct user put = { .op = { .kind = OKV_OP_PUT, .value = "22", .value_len = 2 } };
	struct user absent = { .op = { .kind = OKV_OP_PUT, .flags = OKV_IF_ABSENT } };
	struct user touch = { .op = { .kind = OKV_OP_TOUCH, .expire_ms = 500 } };
	struct user keeps = {
		.op = { .kind = OKV_OP_PUT, .value = "333", .value_len = 3,
			.flags = OKV_KEEP_TTL | OKV_IF_PRESENT },
	};
	struct user get = { .op = { .kind = OKV_OP_GET } };
	struct user *all[] = { &first, &put, &absent, &touch, &keeps, &get };

	open_store();
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		user_begin_key(all[i], partition, 7);
	EXPECT(user_wait(&first, &disk) == OKV_OK);
	EXPECT(!put.done && !absent.done && !touch.done && !keeps.done && !get.done);
	EXPECT(user_wait(&put, &disk) == OKV_OK);
	EXPECT(absent.done && touch.done && keeps.done && !get.done);
	EXPECT(absent.op.status == OKV_EXISTS && absent.op.found && absent.op.out_len == 2);
	EXPECT(touch.op.status == OKV_OK && touch.op.out_len == 2);
	EXPECT(keeps.op.status == OKV_OK && keeps.op.out_expire_ms == 500);
	EXPECT(user_wait(&get, &disk) == OKV_OK);
	EXPECT(get.op.out_len == 3 && get.op.out_expire_ms == 500);
	EXPECT(stats().nr_joined == 3);
	close_store();
}

/* If the write fails, so have all: none of them has happened. */
static void test_failure(void)
{
	struct user first = { .op = { .kind = OKV_OP_PUT, .value = "1", .value_len = 1 } };
	struct user absent = { .op = { .kind = OKV_OP_PUT, .flags = OKV_IF_ABSENT } };
	struct user put = first, last = first;

	open_store();
	partition->is_hurried = true;
	user_begin_key(&first, partition, 7);
	user_begin_key(&put, partition, 7);
	user_begin_key(&last, partition, 7);
	user_begin_key(&absent, partition, 7);
	EXPECT(user_wait(&first, &disk) == OKV_OK);
	disk.outage = SIM_WRITES_FAIL;
	EXPECT(user_wait(&put, &disk) == OKV_IO_ERROR);
	EXPECT(last.done && last.op.status == OKV_IO_ERROR);
	EXPECT(absent.done && absent.op.status == OKV_IO_ERROR);
	okv_store_drop(store);
	sim_disk_free(&disk);
}

/* Does @u join a PUT of a large value that waits for another one? */
static bool joins(struct user *u)
{
	struct user first = { .op = { .kind = OKV_OP_PUT, .value = large,
				      .value_len = LARGE_BYTES } }, put = first;
	uint64_t nr_joined = stats().nr_joined;

	user_begin_key(&first, partition, 7);
	user_begin_key(&put, partition, 7);
	user_begin_key(u, partition, 7);
	user_wait(&first, &disk);
	user_wait(&put, &disk);
	user_wait(u, &disk);
	return stats().nr_joined != nr_joined;
}

static void test_who_joins(void)
{
	struct user put = { .op = { .kind = OKV_OP_PUT, .value = "1", .value_len = 1 } };
	struct user wants_old = put, get = { .op = { .kind = OKV_OP_GET } };
	struct user removes = { .op = { .kind = OKV_OP_DELETE } };

	wants_old.op.flags = OKV_WANT_OLD;
	open_store();
	EXPECT(joins(&put));
	EXPECT(!joins(&get));
	EXPECT(!joins(&removes));
	/* A large old value would be copied. */
	EXPECT(!joins(&wants_old));
	close_store();
}

/* Two keys of one identity, as far as the index knows. */
static void test_other_key(void)
{
	struct user first = { .op = { .kind = OKV_OP_PUT, .value = "1", .value_len = 1 } };
	struct user same = first, other = first, get = { .op = { .kind = OKV_OP_STAT } };
	struct user *all[] = { &first, &same, &other };

	open_store();
	for (size_t i = 0; i < 3; i++) {
		all[i]->op.key = all[i] == &other ? "b" : "a";
		all[i]->op.key_len = 1;
		all[i]->op.hash = 99;
		user_begin(all[i], partition);
	}
	for (size_t i = 0; i < 3; i++)
		EXPECT(user_wait(all[i], &disk) == OKV_OK);
	EXPECT(!stats().nr_joined && stats().nr_keys == 2);
	get.op.key = "a";
	get.op.key_len = 1;
	get.op.hash = 99;
	user_begin(&get, partition);
	EXPECT(user_wait(&get, &disk) == OKV_OK);
	close_store();
}

int main(void)
{
	test_counter();
	test_conditions();
	test_failure();
	test_who_joins();
	test_other_key();
	printf("ok store_joined: %u increments of one key are two writes\n", NR_USERS);
	return 0;
}
