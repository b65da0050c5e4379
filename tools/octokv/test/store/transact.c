// SPDX-License-Identifier: GPL-2.0
/*
 * transact.c - transactions: all or nothing after a loss of power, one after the other, no wedge
 *
 * A transaction changes three keys, removes one and adds one. The device loses power, or the
 * process is killed, at each request. Afterwards all of it has happened or nothing.
 *
 * Transactions and updates add to counters side by side, while garbage collection moves the records
 * on a device that is nearly full. No addition is lost, and nothing waits for ever.
 *
 * A transaction whose write fails says so, has not happened, and holds up nobody.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 24,
	SEGMENT_BYTES	= 64 << 10,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS		= 5,
	NR_COUNTERS	= 6,
	NR_OTHERS	= 12,
	VALUE_BYTES	= 3000,
};

struct step {
	struct okv_txn txn;
	struct okv_txn_key keys[NR_KEYS];
	char names[NR_KEYS][16];
	uint64_t sums[NR_KEYS];
	char values[NR_KEYS][VALUE_BYTES];
	bool done;
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;

static void open_store(void)
{
	struct okv_open_options options = { .now_ms = 1, .attempt_seed = 1 + disk.now_us };

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void make_store(bool has_fua, uint64_t seed)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, 512, has_fua, seed);
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store();
}

static uint64_t hash_of(uint32_t key)
{
	/* Some have the same identity. */
	return (key / 2 + 1) * 0x9e3779b97f4a7c15ULL;
}

static void txn_done(struct okv_txn *txn)
{
	((struct step *)txn->owner)->done = true;
}

static void begin(struct step *s, const uint32_t *keys, uint32_t nr,
		  enum okv_status (*decide)(struct okv_txn *txn))
{
	memset(s, 0, sizeof(*s));
	s->txn = (struct okv_txn){
		.keys = s->keys, .nr_keys = nr, .decide = decide, .done = txn_done, .owner = s,
	};
	for (uint32_t i = 0; i < nr; i++) {
		struct okv_op *read = &s->keys[i].read;

		read->key = s->names[i];
		read->key_len = snprintf(s->names[i], sizeof(s->names[i]), "%u", keys[i]);
		read->hash = hash_of(keys[i]);
		s->keys[i].wants_value = true;
	}
	okv_partition_transact(p, &s->txn);
}

/* ---- all or nothing ---- */

static enum okv_status set_new(struct okv_txn *txn)
{
	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		txn->keys[i].writes = true;
		txn->keys[i].removes = i == 3;
		txn->keys[i].value = "new";
		txn->keys[i].value_len = 3;
	}
	return OKV_OK;
}

static char shown[NR_KEYS + 1];

static enum okv_status show(struct okv_txn *txn)
{
	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		const struct okv_op *read = &txn->keys[i].read;

		shown[i] = read->status == OKV_OK ? ((const char *)read->out)[0] : '-';
	}
	return OKV_ABORTED;
}

static enum okv_status run(struct step *s)
{
	while (!s->done && !disk.disk.ops->wait(&disk.disk))
		;
	EXPECT(s->done);
	return s->txn.status;
}

/* Returns false when all was over before the cut. */
static bool run_cut(uint64_t seed, uint32_t cut, bool kills)
{
	static const uint32_t keys[] = { 0, 1, 2, 3, 4 };
	struct user u;
	struct step s;
	bool happened, more;

	make_store(seed % 2, seed);
	for (uint32_t i = 0; i < 4; i++) {
		u = (struct user){ .op = { .kind = OKV_OP_PUT, .value = "old", .value_len = 3 } };
		u.op.key = u.key;
		u.op.key_len = snprintf(u.key, sizeof(u.key), "%u", i);
		u.op.hash = hash_of(i);
		user_begin(&u, p);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
	wait_idle(&disk);
	disk.process_only = kills;
	disk.cut_at = disk.nr_completed + cut;
	begin(&s, keys, NR_KEYS, set_new);
	while (!s.done && disk.in_flight)
		disk.disk.ops->wait(&disk.disk);
	happened = s.done && s.txn.status == OKV_OK;
	wait_idle(&disk);
	more = disk.is_dead;
	disk.is_dead = true;
	if (!kills)
		memcpy(disk.cache, disk.durable, disk.disk.size_bytes);
	p->is_hurried = true;
	okv_partition_tick(p, 1);
	wait_idle(&disk);
	okv_store_drop(store);
	sim_disk_revive(&disk);
	open_store();
	begin(&s, keys, NR_KEYS, show);
	EXPECT(run(&s) == OKV_ABORTED);
	EXPECT(!strcmp(shown, "nnn-n") || (!happened && !strcmp(shown, "oooo-")));
	okv_store_close(store);
	sim_disk_free(&disk);
	return more;
}

/* ---- one after the other, on a device that is nearly full ---- */

static enum okv_status add_one(struct okv_txn *txn)
{
	struct step *s = txn->owner;

	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		struct okv_txn_key *k = &txn->keys[i];

		if (k->read.status == OKV_OK)
			memcpy(&s->sums[i], k->read.out, sizeof(s->sums[i]));
		s->sums[i]++;
		memcpy(s->values[i], &s->sums[i], sizeof(s->sums[i]));
		k->writes = true;
		k->value = s->values[i];
		k->value_len = VALUE_BYTES;
	}
	return OKV_OK;
}

static struct user users[3];

static enum okv_status update_one(struct okv_op *op)
{
	static char values[3][VALUE_BYTES];
	char *value = values[(struct user *)op->owner - users];
	uint64_t sum = 0;

	if (op->out)
		memcpy(&sum, op->out, sizeof(sum));
	sum++;
	memcpy(value, &sum, sizeof(sum));
	op->value = value;
	op->value_len = VALUE_BYTES;
	return OKV_OK;
}

static char filler[VALUE_BYTES];
static uint32_t nr_fillers;

static void fill(void)
{
	struct user u;

	nr_fillers = 0;

	do {
		u = (struct user){
			.op = { .kind = OKV_OP_PUT, .value = filler, .value_len = VALUE_BYTES },
		};
		user_begin_key(&u, p, 1000 + nr_fillers++);
	} while (user_wait(&u, &disk) == OKV_OK);
	/* A little room, so that collection never ends, and writes wait for it. */
	for (uint32_t i = 0; i < NR_COUNTERS + 12; i++) {
		u = (struct user){ .op = { .kind = OKV_OP_DELETE } };
		user_begin_key(&u, p, 1000 + i * 7);
		user_wait(&u, &disk);
	}
}

static void count(struct step *steps, uint64_t *random, uint64_t *counts)
{
	static struct user others[NR_OTHERS];

	for (uint32_t i = 0; i < NR_OTHERS; i++) {
		others[i] = (struct user){
			.op = { .kind = OKV_OP_PUT, .value = filler, .value_len = VALUE_BYTES },
		};
		user_begin_key(&others[i], p, 1000 + sim_draw(random, nr_fillers));
	}
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t first = sim_draw(random, NR_COUNTERS);
		const uint32_t keys[] = {
			(first + 3) % NR_COUNTERS, first, (first + 1) % NR_COUNTERS,
		};

		begin(&steps[i], keys, 3, add_one);
		users[i] = (struct user){
			.op = { .kind = OKV_OP_UPDATE, .update = update_one },
		};
		users[i].op.key = users[i].key;
		users[i].op.key_len = snprintf(users[i].key, sizeof(users[i].key), "%u", first);
		users[i].op.hash = hash_of(first);
		user_begin(&users[i], p);
	}
	for (uint32_t i = 0; i < 3; i++) {
		enum okv_status status;

		user_wait(&users[i], &disk);
		counts[atoi(users[i].key)] += users[i].op.status == OKV_OK;
		status = run(&steps[i]);
		EXPECT(status == OKV_OK || status == OKV_FULL);
		for (uint32_t k = 0; k < 3; k++)
			counts[atoi(steps[i].names[k])] += status == OKV_OK;
	}
	for (uint32_t i = 0; i < NR_OTHERS; i++)
		user_wait(&others[i], &disk);
}

static void test_counters(uint64_t seed)
{
	static struct step steps[3];
	uint64_t counts[NR_COUNTERS] = { 0 }, random = seed, nr = 0, sum;

	make_store(seed % 2, 2 * seed);
	fill();
	for (uint32_t i = 0; i < 300; i++) {
		count(steps, &random, counts);
		if (i % 16 == 0)
			okv_partition_tick(p, 1 + disk.now_us / 1000);
	}
	for (uint32_t i = 0; i < NR_COUNTERS; i++) {
		begin(&steps[0], &i, 1, add_one);
		run(&steps[0]);
		sum = steps[0].sums[0] - 1;
		nr += counts[i];
		EXPECT(sum == counts[i]);
	}
	EXPECT(nr > 100 && p->stats.nr_gc_segments > 20);
	okv_store_close(store);
	sim_disk_free(&disk);
}

static void test_failure(void)
{
	static const uint32_t keys[] = { 0, 1, 2, 3, 4 };
	struct user u = { .op = { .kind = OKV_OP_PUT, .value = "v", .value_len = 1 } };
	struct step s;

	make_store(true, 2);
	begin(&s, keys, NR_KEYS, set_new);
	EXPECT(run(&s) == OKV_OK);
	disk.outage = SIM_WRITES_FAIL;
	begin(&s, keys, NR_KEYS, set_new);
	EXPECT(run(&s) == OKV_IO_ERROR);
	disk.outage = SIM_NO_OUTAGE;
	user_begin_key(&u, p, 7);
	for (uint32_t i = 0; i < 20 && !u.done; i++) {
		disk.now_us += 100000;
		okv_partition_tick(p, 1 + disk.now_us / 1000);
		wait_idle(&disk);
	}
	EXPECT(u.done && u.op.status == OKV_OK);
	begin(&s, keys, NR_KEYS, show);
	EXPECT(run(&s) == OKV_ABORTED && !strcmp(shown, "nnn-n"));
	okv_store_close(store);
	sim_disk_free(&disk);
}

int main(void)
{
	uint32_t nr = 0;

	for (uint64_t seed = 1; seed <= 12; seed++)
		for (uint32_t kills = 0; kills < 2; kills++)
			for (uint32_t cut = 1; run_cut(seed, cut, kills); cut++)
				nr++;
	printf("ok store_transact: %u times cut, and all of it is there or nothing\n", nr);
	for (uint64_t seed = 1; seed <= 6; seed++)
		test_counters(seed);
	puts("ok store_transact: no addition is lost while records are moved");
	test_failure();
	puts("ok store_transact: a write that fails is all of it, and holds up nobody");
	return 0;
}
