// SPDX-License-Identifier: GPL-2.0
/*
 * journal.c - heads in a journal and in packs: what is acknowledged is found, wherever it lies
 *
 * Puts that are under way together share the writes of a journal, and their heads wait in packs. So
 * most cases end the power with packs that are not on the device, and look for all keys: after an
 * open that writes another journal, by an export that writes nothing, and without roots. Others
 * have a ring that turns, a pack that cannot be written, a root that has to wait for one, a segment
 * without headers, a partition that goes to another store, and puts that wait for each other.
 */
#include <errno.h>

#include "store/log/journal.h"
#include "store/segment.h"
#include "store/mem.h"
#include "user.h"

enum {
	NR_PARTITIONS = 2,
	NR_SEGMENTS = 30,
	SEGMENT_BYTES = 128 << 10,
	BLOCK_BYTES = 512,
	JOURNAL_BYTES = OKV_JOURNAL_BYTES_MIN,
	DEVICE_BYTES = (1280 << 10) + OKV_NR_JOURNALS * JOURNAL_BYTES +
		       NR_PARTITIONS * NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS = 60,
	APART_BYTES = 4096,
};

static struct sim_disk disk;
static struct okv_store *store;
static char value[APART_BYTES];

static struct okv_partition *partition_of(struct okv_store *s, uint32_t key)
{
	return okv_store_partition(s, okv_store_partition_of(s, (key + 1) * 0x9e3779b97f4a7c15ULL));
}

/* Every second value is apart. */
static struct user user_of(enum okv_op_kind kind, uint32_t key)
{
	return (struct user){
		.op = { .kind = kind, .value = value,
			.value_len = key % 2 ? APART_BYTES : 100 },
	};
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key)
{
	struct user u = user_of(kind, key);

	user_begin_key(&u, partition_of(store, key), key);
	return user_wait(&u, &disk);
}

/* Put keys from @first on, all at once. */
static void put(uint32_t first, uint32_t nr)
{
	struct user *users = calloc(nr, sizeof(*users));

	for (uint32_t i = 0; i < nr; i++) {
		users[i] = user_of(OKV_OP_PUT, first + i);
		user_begin_key(&users[i], partition_of(store, first + i), first + i);
	}
	for (uint32_t i = 0; i < nr; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
	free(users);
}

static int try_open(struct okv_store **opened, uint32_t journal, bool leaves_damaged)
{
	struct okv_open_options options = {
		.now_ms = 1, .journal = journal, .nr_known = OKV_KNOWN_WAYS,
		.leaves_damaged = leaves_damaged,
	};

	return okv_store_open(opened, &disk.disk, &options);
}

static void make_store(uint32_t former)
{
	struct okv_format_options format = {
		.nr_partitions = NR_PARTITIONS, .segment_bytes = SEGMENT_BYTES, .seed = 1,
		.journal_bytes = former ? 0 : JOURNAL_BYTES, .former = former,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	/* One of an earlier version is on a device that has grown by what journals take. */
	disk.disk.size_bytes -= former ? OKV_NR_JOURNALS * JOURNAL_BYTES : 0;
	EXPECT(!okv_device_format(&disk.disk, &format));
	disk.disk.size_bytes = DEVICE_BYTES;
	EXPECT(!try_open(&store, 1, false));
}

static void cut(void)
{
	user_cut(&disk, store);
}

static void find(uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		EXPECT(run_op(OKV_OP_GET, i) == OKV_OK);
}

static void end(void)
{
	okv_store_close(store);
	EXPECT(!try_open(&store, 2, false));
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* ---- cases ---- */

static void test_cut(void)
{
	struct okv_stats stats;

	make_store(0);
	put(0, NR_KEYS);
	okv_store_stats(store, &stats);
	EXPECT(stats.nr_journaled && stats.nr_packs);
	find(NR_KEYS);
	cut();
	EXPECT(!try_open(&store, 2, false));
	EXPECT(!stats_of(store).nr_packs);
	find(NR_KEYS);
	/* What recovery has put in its place stays without the first journal. */
	put(0, NR_KEYS / 2);
	cut();
	memset(disk.cache + okv_journal_offset((void *)disk.cache, 0), 0, JOURNAL_BYTES);
	EXPECT(!try_open(&store, 0, false));
	find(NR_KEYS);
	end();
	printf("ok store_journal: heads that only a journal has survive a power cut\n");
}

/* Some write of the first journal has heads of both partitions. */
static void test_shares(void)
{
	const char *ring;
	bool shares = false;

	make_store(0);
	put(0, NR_KEYS);
	ring = disk.cache + okv_journal_offset((void *)disk.cache, 0);
	for (uint64_t at = 0; at < store->journal->at; at += BLOCK_BYTES) {
		const struct okv_journal_disk *write = (const void *)(ring + at);
		const struct okv_head_disk *head = (const void *)(write + 1);
		bool found[NR_PARTITIONS] = { 0 };

		if (write->magic != OKV_JOURNAL_MAGIC)
			continue;
		for (uint32_t i = 0; i < write->nr_heads; i++) {
			found[head->partition] = true;
			head = (const void *)((const char *)(head + 1) +
					      okv_round_up(head->bytes, sizeof(uint64_t)));
		}
		shares |= found[0] && found[1];
	}
	EXPECT(shares);
	end();
	printf("ok store_journal: a write of the journal has heads of two partitions\n");
}

static void test_former(void)
{
	make_store(1);
	EXPECT(!store->journal && store->info.version == OKV_VERSION_BARE);
	put(0, NR_KEYS);
	EXPECT(!stats_of(store).nr_packs);
	cut();
	EXPECT(!try_open(&store, 1, false));
	find(NR_KEYS);
	end();
	printf("ok store_journal: a store of an earlier version has none\n");
}

/* The ring turns some times, while one partition seldom has a put, which must not hold it up. */
static void test_ring(void)
{
	uint64_t turns;

	make_store(0);
	put(0, NR_KEYS);
	for (uint32_t i = 0; i < 120; i++)
		put(NR_KEYS, 20);
	turns = store->journal->at / JOURNAL_BYTES;
	EXPECT(turns >= 3);
	cut();
	EXPECT(!try_open(&store, 1, false));
	find(NR_KEYS + 20);
	end();
	printf("ok store_journal: a ring turns over no head that it alone has\n");
}

static void test_root_waits(void)
{
	struct okv_partition *p;
	uint64_t generation, now_ms = 1;
	bool waited = false;

	make_store(0);
	p = okv_store_partition(store, 0);
	put(0, NR_KEYS);
	wait_idle(&disk);
	generation = p->generation;
	EXPECT(okv_pack_open(p));
	okv_checkpoint_start(p);
	while (p->generation == generation) {
		/* Its write fails for a second. */
		disk.failed_io = p->packs && now_ms < 1000 ? &p->packs->io : NULL;
		if (disk.in_flight)
			disk.disk.ops->wait(&disk.disk);
		else
			okv_partition_tick(p, now_ms += 100);
		waited |= p->checkpoint.waits_for_packs;
		EXPECT(p->checkpoint.step < OKV_CHECKPOINT_ROOT || !p->packs ||
		       p->checkpoint.waits_for_packs);
	}
	EXPECT(waited);
	cut();
	EXPECT(!try_open(&store, 1, false));
	find(NR_KEYS);
	end();
	printf("ok store_journal: a root waits for the packs that were begun before it\n");
}

/* An outage that ends in time is no reason to refuse writes, while the next try has not begun. */
static void test_patience(void)
{
	struct okv_partition *p;
	uint64_t now_ms = 1;

	make_store(0);
	p = okv_store_partition(store, 0);
	put(0, NR_KEYS);
	wait_idle(&disk);
	disk.outage = SIM_WRITES_FAIL;
	okv_pack_close(p);
	for (; now_ms < OKV_PATIENCE_MS; now_ms += 50) {
		wait_idle(&disk);
		okv_partition_tick(p, now_ms);
	}
	wait_idle(&disk);
	EXPECT(p->packs);
	disk.outage = SIM_NO_OUTAGE;
	for (; p->packs; now_ms += 50) {
		okv_partition_tick(p, now_ms);
		EXPECT(!p->refusing);
		wait_idle(&disk);
	}
	end();
	printf("ok store_journal: an outage of a pack that ends in time refuses nothing\n");
}

/* Let the clock tick until nothing is under way any more. */
static void pass_time(void)
{
	for (uint64_t ms = 1; ms < 2000; ms += 100) {
		for (uint32_t i = 0; i < NR_PARTITIONS; i++)
			okv_partition_tick(okv_store_partition(store, i), ms);
		wait_idle(&disk);
	}
}

/* Neither header of a segment is written, and its first batch is in a pack, which says nothing. */
static void test_headers(void)
{
	struct user users[8];

	make_store(0);
	put(0, 2);
	wait_idle(&disk);
	for (uint32_t i = 0; i < NR_PARTITIONS; i++)
		okv_log_seal(okv_store_partition(store, i));
	wait_idle(&disk);
	/* So that no batch is alone. */
	store->journal->nr_in_flight++;
	for (uint32_t i = 0; i < 8; i++) {
		users[i] = user_of(OKV_OP_PUT, 2 + i);
		user_begin_key(&users[i], partition_of(store, 2 + i), 2 + i);
	}
	disk.plan.write_error_ppm = 1000000;
	for (int nr = 0; nr < 2 * NR_PARTITIONS && disk.in_flight; nr++)
		disk.disk.ops->wait(&disk.disk);
	disk.plan.write_error_ppm = 0;
	pass_time();
	for (uint32_t i = 0; i < 8; i++)
		EXPECT(users[i].done && users[i].op.status == OKV_OK);
	store->journal->nr_in_flight--;
	cut();
	EXPECT(!try_open(&store, 1, false));
	find(10);
	end();
	printf("ok store_journal: what failed with its segment goes to another one\n");
}

/* One header was not written yet, the other one cannot be read. All heads are in the journal. */
static void test_no_headers(void)
{
	uint64_t at;
	uint32_t key = 2;
	struct okv_partition *p;

	make_store(0);
	put(0, 2);
	wait_idle(&disk);
	p = partition_of(store, key);
	okv_log_seal(p);
	wait_idle(&disk);
	store->journal->nr_in_flight++;
	put(key, 1);
	at = okv_segment_offset(p, p->places[OKV_OF_USERS].segment);
	store->journal->nr_in_flight--;
	cut();
	memset(disk.cache + at, 0, BLOCK_BYTES);
	memset(disk.durable + at, 0, BLOCK_BYTES);
	disk.has_bad = true;
	disk.bad_offset_bytes = at + SEGMENT_BYTES - BLOCK_BYTES;
	EXPECT(!try_open(&store, 1, false));
	find(key + 1);
	disk.has_bad = false;
	end();
	printf("ok store_journal: heads say that a segment without headers is in the tail\n");
}

static uint32_t nr_seen, first_len;

static void see(struct okv_export *e, const struct okv_exported *x)
{
	(void)e;
	EXPECT(x->value && !memcmp(x->value, value, x->value_len));
	nr_seen++;
	if (x->key_len == 1 && !memcmp(x->key, "0", 1))
		first_len = x->value_len;
}

static void test_export(void)
{
	struct okv_open_options options = { .reads_only = true };
	struct okv_export walk = { .record = see };
	char *copy = malloc(DEVICE_BYTES);

	make_store(0);
	put(0, NR_KEYS);
	EXPECT(stats_of(store).nr_packs);
	EXPECT(!okv_store_export(store, &walk) && nr_seen == NR_KEYS && !walk.nr_damaged);
	cut();
	memcpy(copy, disk.cache, DEVICE_BYTES);
	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	nr_seen = 0;
	EXPECT(!okv_store_export(store, &walk) && nr_seen == NR_KEYS && !walk.nr_damaged);
	okv_store_drop(store);
	nr_seen = 0;
	EXPECT(!okv_device_salvage(&disk.disk, &walk) && nr_seen == NR_KEYS);
	EXPECT(!memcmp(copy, disk.cache, DEVICE_BYTES));
	free(copy);
	EXPECT(!try_open(&store, 0, false));
	end();
	printf("ok store_journal: exports and a salvage show what only a journal has\n");
}

/* The latest record of a key may lie before an older one: that was alone, and this is in a pack. */
static void test_salvage(void)
{
	struct user u = user_of(OKV_OP_PUT, 0);
	struct okv_export walk = { .record = see };
	uint64_t alone_at;

	make_store(0);
	put(0, NR_KEYS);
	wait_idle(&disk);
	u.op.value_len = 50;
	user_begin_key(&u, partition_of(store, 0), 0);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	alone_at = u.op.to;
	store->journal->nr_in_flight++;
	u = user_of(OKV_OP_PUT, 0);
	user_begin_key(&u, partition_of(store, 0), 0);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
	store->journal->nr_in_flight--;
	EXPECT(u.op.to < alone_at);
	cut();
	nr_seen = 0;
	EXPECT(!okv_device_salvage(&disk.disk, &walk) && nr_seen == NR_KEYS);
	EXPECT(first_len == 100);
	EXPECT(!try_open(&store, 0, false));
	end();
	printf("ok store_journal: a salvage takes the latest record, wherever that lies\n");
}

static void test_unreadable(void)
{
	struct okv_store *other;

	make_store(0);
	put(0, NR_KEYS);
	cut();
	disk.has_bad = true;
	disk.bad_offset_bytes = okv_journal_offset((void *)disk.cache, 1) - BLOCK_BYTES;
	EXPECT(try_open(&other, 1, false) == -EIO);
	/* What can be read is not lost. */
	EXPECT(!try_open(&store, 1, true) && !store->journal);
	find(NR_KEYS);
	cut();
	disk.has_bad = false;
	EXPECT(!try_open(&store, 1, false));
	find(NR_KEYS);
	okv_store_close(store);
	/* After a clean end no open needs a journal. */
	disk.has_bad = true;
	EXPECT(!try_open(&store, 1, false));
	disk.has_bad = false;
	find(NR_KEYS);
	end();
	printf("ok store_journal: a ring that cannot be read fails an open after a crash only\n");
}

/* A collection would not find the heads of a pack on the device. */
static void test_victim(void)
{
	struct okv_partition *p;
	uint32_t segment;

	make_store(0);
	put(0, NR_KEYS);
	wait_idle(&disk);
	p = okv_store_partition(store, 0);
	segment = p->places[OKV_OF_USERS].segment;
	okv_log_seal(p);
	EXPECT(p->packs && okv_gc_victim(p, UINT32_MAX, true) == p->nr_segments);
	wait_idle(&disk);
	EXPECT(!p->packs && okv_gc_victim(p, UINT32_MAX, true) == segment);
	end();
	printf("ok store_journal: a segment whose pack is not written is no victim\n");
}

static struct okv_store *open_one(uint32_t partition)
{
	struct okv_open_options options = {
		.now_ms = 1, .journal = 1 + partition, .first_partition = partition,
		.nr_partitions = 1,
	};
	struct okv_store *opened;

	EXPECT(!okv_store_open(&opened, &disk.disk, &options));
	return opened;
}

/* A partition comes to rest only without packs, and then needs no journal of its former store. */
static void test_moves(void)
{
	struct okv_store *former;
	struct okv_partition *p;

	make_store(0);
	put(0, NR_KEYS);
	okv_store_close(store);
	former = open_one(0);
	p = okv_store_partition(former, 0);
	store = open_one(1);
	okv_pack_begin(p, okv_segment_take(p, OKV_SEGMENT_OPEN), 0, BLOCK_BYTES);
	okv_pack_open(p)->used_bytes = 1;
	disk.outage = SIM_WRITES_FAIL;
	for (int i = 0; i < 20; i++) {
		EXPECT(!okv_partition_quiesce(p));
		okv_partition_tick(p, 1 + i);
		wait_idle(&disk);
	}
	EXPECT(okv_partition_is_stuck(p));
	disk.outage = SIM_NO_OUTAGE;
	for (int i = 0; i < 20 && !okv_partition_quiesce(p); i++) {
		okv_partition_tick(p, 100 + i);
		wait_idle(&disk);
	}
	EXPECT(okv_partition_quiesce(p) && !p->packs);
	okv_store_attach(store, okv_store_detach(former, 0));
	okv_store_drop(former);
	pass_time();
	put(NR_KEYS, NR_KEYS);
	cut();
	EXPECT(!try_open(&store, 1, false));
	find(2 * NR_KEYS);
	end();
	printf("ok store_journal: a partition rests when its packs are written, and moves\n");
}

/* While a write is under way, puts wait for each other, until one more would need another page. */
static void test_fills(void)
{
	struct user users[16];
	struct okv_partition *p;
	uint64_t nr_before;
	uint32_t key = 1, nr = 0;

	make_store(0);
	p = partition_of(store, key);
	p->nr_writes_max = 1;
	nr_before = stats_of(store).nr_batches;
	for (; stats_of(store).nr_batches < nr_before + 2; key += 2) {
		if (partition_of(store, key) != p)
			continue;
		EXPECT(nr < sizeof(users) / sizeof(*users));
		users[nr] = user_of(OKV_OP_PUT, key);
		user_begin_key(&users[nr++], p, key);
	}
	/* The first one, and as many as leave no room for another one and heads. */
	EXPECT(nr == 1 + okv_pack_bytes(p) / APART_BYTES);
	for (uint32_t i = 0; i < nr; i++)
		EXPECT(user_wait(&users[i], &disk) == OKV_OK);
	end();
	printf("ok store_journal: a further write begins when its values fill a page\n");
}

/* Would an earlier octokvd open it? */
static bool is_former(void)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		const struct okv_super_disk *super =
			(const void *)(disk.cache + i * OKV_SUPER_STRIDE_BYTES);

		nr += super->magic == OKV_SUPER_MAGIC && super->version == OKV_VERSION_BARE;
	}
	return nr >= OKV_NR_SUPERS_AGREE;
}

/* If one of just enough copies cannot be read this time, that is no reason to convert it again. */
static void lose_copy(void)
{
	uint64_t at = 0;

	while (((struct okv_super_disk *)(disk.cache + at))->magic != OKV_SUPER_MAGIC)
		at += OKV_SUPER_STRIDE_BYTES;
	disk.has_bad = true;
	disk.bad_offset_bytes = at;
	EXPECT(try_open(&store, 1, false) == -EIO);
	disk.has_bad = false;
}

/* A store of an earlier version gets journals; the power may go at any request of that. */
static void test_converts(void)
{
	bool converted = false;
	uint32_t nr_lost = 0;

	for (uint32_t nr = 1; !converted; nr++) {
		int error;

		make_store(1);
		put(0, NR_KEYS);
		wait_idle(&disk);
		okv_store_drop(store);
		disk.cut_at = disk.nr_completed + nr;
		error = okv_device_upgrade(&disk.disk);
		wait_idle(&disk);
		converted = !disk.is_dead;
		EXPECT(!error == converted);
		sim_disk_revive(&disk);
		error = try_open(&store, 1, false);
		EXPECT(!is_former() || !error);
		if (!error) {
			/* Else both could write to it, and one of them without the journals. */
			EXPECT(is_former() == (store->info.version == OKV_VERSION_BARE));
			find(NR_KEYS);
			okv_store_close(store);
		}
		EXPECT(!error || error == -ESTALE);
		if (!error && nr_copies_bad(&disk) == OKV_NR_SUPERS_AGREE) {
			lose_copy();
			nr_lost++;
		}
		error = okv_device_upgrade(&disk.disk);
		EXPECT(!error || error == -EALREADY);
		EXPECT(!nr_copies_bad(&disk));
		EXPECT(!try_open(&store, 1, false));
		EXPECT(store->journal && store->info.version == OKV_VERSION);
		put(NR_KEYS, NR_KEYS);
		EXPECT(stats_of(store).nr_packs);
		cut();
		EXPECT(!try_open(&store, 2, false));
		find(2 * NR_KEYS);
		end();
	}
	EXPECT(nr_lost);
	make_store(2);
	okv_store_close(store);
	EXPECT(okv_device_upgrade(&disk.disk) == -EOPNOTSUPP);
	sim_disk_free(&disk);
	printf("ok store_journal: an earlier store gets journals, or stays as it was\n");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	test_cut();
	test_shares();
	test_former();
	test_ring();
	test_root_waits();
	test_patience();
	test_headers();
	test_no_headers();
	test_export();
	test_salvage();
	test_unreadable();
	test_victim();
	test_moves();
	test_fills();
	test_converts();
	return 0;
}
