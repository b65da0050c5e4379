// SPDX-License-Identifier: GPL-2.0
/*
 * outage.c - a device that fails for a while: writes wait, then fail, then go on by themselves
 *
 * In a short outage a put gets no answer, and then succeeds. In a long one it fails after some
 * seconds, reads go on, and a second after the end the partition takes writes again. A put that
 * failed never shows, not even after a loss of power, if another one was acknowledged since. In an
 * outage the store also closes soon, and a partition comes to rest that is to move.
 *
 * A segment that collection could not read is collected later.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 30,
	SEGMENT_BYTES	= 64 << 10,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	TICK_US		= 100000,
	VALUE_BYTES	= 7000,
};

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;

static void open_store(uint64_t seed)
{
	struct okv_open_options options = {
		.now_ms = 1 + disk.now_us / 1000, .attempt_seed = seed,
	};

	EXPECT(!okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
}

static void make_store(bool has_fua)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, 4096, has_fua, 2);
	EXPECT(!okv_device_format(&disk.disk, &format));
	open_store(1);
}

static void lose_power(uint64_t seed)
{
	disk.is_dead = true;
	wait_idle(&disk);
	memcpy(disk.cache, disk.durable, disk.disk.size_bytes);
	okv_store_drop(store);
	sim_disk_revive(&disk);
	open_store(seed);
}

static void pass_ms(uint32_t ms)
{
	for (uint32_t i = 0; i < ms * 1000 / TICK_US; i++) {
		disk.now_us += TICK_US;
		okv_partition_tick(p, 1 + disk.now_us / 1000);
		wait_idle(&disk);
	}
}

static void begin_put(struct user *u, uint32_t key, const char *value)
{
	*u = (struct user){ .op = { .kind = OKV_OP_PUT, .value = value } };
	u->op.value_len = strlen(value);
	user_begin_key(u, p, key);
	wait_idle(&disk);
}

static char shown[64];

static void shown_done(struct okv_op *op)
{
	snprintf(shown, sizeof(shown), "%.*s", (int)op->out_len, op->out ? (char *)op->out : "");
	user_done(op);
}

static const char *get(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET } };

	u.op.owner = &u;
	u.op.done = shown_done;
	u.op.key = u.key;
	u.op.key_len = snprintf(u.key, sizeof(u.key), "%u", key);
	u.op.hash = (key + 1) * 0x9e3779b97f4a7c15ULL;
	okv_partition_submit(p, &u.op);
	return user_wait(&u, &disk) == OKV_OK ? shown : NULL;
}

/* A write of the log is held back, and the roots fail. */
static const struct okv_disk_ops *sim_ops;
static struct okv_io *held;
static bool holds, fails_roots;

static void hold_or_fail(struct okv_disk *d, struct okv_io *io)
{
	if (holds && io->kind == OKV_WRITE && io != &p->checkpoint.io && io->bytes == 4096) {
		holds = false;
		held = io;
		return;
	}
	if (fails_roots && io->kind == OKV_WRITE && io->offset_bytes < p->offset_bytes)
		disk.failed_io = io;
	sim_ops->submit(d, io);
}

static void test_short(bool has_fua)
{
	struct user u;

	make_store(has_fua);
	disk.outage = SIM_ALL_FAIL;
	begin_put(&u, 1, "a");
	pass_ms(3000);
	EXPECT(!u.done);
	disk.outage = SIM_NO_OUTAGE;
	pass_ms(1300);
	EXPECT(u.done && u.op.status == OKV_OK);
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* The write that failed is on the device all the same: it was only the answer that was lost. */
static void test_long(bool has_fua)
{
	struct user u;

	make_store(has_fua);
	begin_put(&u, 1, "old");
	EXPECT(u.op.status == OKV_OK);
	disk.plan.write_error_ppm = 1000000;
	begin_put(&u, 1, "failed");
	disk.outage = SIM_WRITES_FAIL;
	pass_ms(20000);
	EXPECT(u.done && u.op.status == OKV_IO_ERROR && p->refusing);
	EXPECT(!strcmp(get(1), "old"));
	begin_put(&u, 2, "refused");
	EXPECT(u.done && u.op.status == OKV_IO_ERROR);
	disk.outage = SIM_NO_OUTAGE;
	disk.plan.write_error_ppm = 0;
	pass_ms(1300);
	EXPECT(!p->refusing);
	begin_put(&u, 1, "new");
	EXPECT(u.done && u.op.status == OKV_OK && !p->log_outage.nr_failures);
	lose_power(2);
	EXPECT(!strcmp(get(1), "new") && !get(2));
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* Each of two roots has failed several times: no segment is missing afterwards. */
static void test_space(void)
{
	struct user u;

	make_store(true);
	for (uint32_t i = 0; i < 40; i++) {
		begin_put(&u, 1, "a");
		disk.outage = SIM_WRITES_FAIL;
		begin_put(&u, 1, "b");
		pass_ms(i % 8 * 1000);
		disk.outage = SIM_NO_OUTAGE;
		pass_ms(3000);
		EXPECT(!p->refusing);
	}
	begin_put(&u, 1, "c");
	okv_checkpoint_wait(p);
	okv_checkpoint_wait(p);
	EXPECT(p->nr_free + p->nr_holes >= NR_SEGMENTS - 6);
	okv_store_close(store);
	sim_disk_free(&disk);
}

static void test_close(void)
{
	struct user u;

	make_store(true);
	disk.outage = SIM_ALL_FAIL;
	begin_put(&u, 1, "a");
	pass_ms(1000);
	EXPECT(!u.done);
	okv_store_close(store);
	EXPECT(u.done && u.op.status == OKV_IO_ERROR);
	disk.outage = SIM_NO_OUTAGE;
	open_store(2);
	disk.outage = SIM_WRITES_FAIL;
	begin_put(&u, 1, "a");
	pass_ms(9000);
	EXPECT(p->refusing);
	for (int i = 0; i < 100 && !okv_partition_quiesce(p); i++)
		wait_idle(&disk);
	EXPECT(okv_partition_quiesce(p));
	okv_store_attach(store, okv_store_detach(store, 0));
	disk.outage = SIM_NO_OUTAGE;
	pass_ms(1300);
	EXPECT(!p->refusing);
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* A root fails while a write is in flight, which may fail later: other roots wait for it. */
static void test_in_flight(void)
{
	static struct okv_disk_ops ops;
	struct user u;

	make_store(true);
	begin_put(&u, 1, "a");
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = hold_or_fail, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	holds = fails_roots = true;
	begin_put(&u, 2, "b");
	EXPECT(held);
	okv_checkpoint_start(p);
	pass_ms(9000);
	EXPECT(p->refusing && !u.done);
	fails_roots = false;
	pass_ms(3000);
	EXPECT(p->refusing && !u.done && p->checkpoint.step == OKV_CHECKPOINT_NONE);
	sim_ops->submit(&disk.disk, held);
	pass_ms(2000);
	EXPECT(!p->refusing && u.done && u.op.status == OKV_OK);
	okv_store_close(store);
	sim_disk_free(&disk);
}

/* A write of the log fails, and is on the device all the same. The second root after it is lost. */
static bool fails_write;
static uint32_t roots_until_lost;

static void fail_and_lose(struct okv_disk *d, struct okv_io *io)
{
	if (io->kind == OKV_WRITE && io->offset_bytes >= p->offset_bytes) {
		if (fails_write) {
			memcpy(disk.cache + io->offset_bytes, io->buf, io->bytes);
			memcpy(disk.durable + io->offset_bytes, io->buf, io->bytes);
			disk.failed_io = io;
		}
		fails_write = false;
	} else if (io->kind == OKV_WRITE && roots_until_lost && !--roots_until_lost) {
		disk.lost_io = io;
	}
	sim_ops->submit(d, io);
}

/* Then nothing may make the failed write count, not even the loss of the other root. */
static void test_lost_root(bool has_fua)
{
	static struct okv_disk_ops ops;
	struct user u, removal = { .op = { .kind = OKV_OP_DELETE } };
	uint64_t at;

	make_store(has_fua);
	begin_put(&u, 1, "old");
	sim_ops = disk.disk.ops;
	ops = (struct okv_disk_ops){ .submit = fail_and_lose, .wait = sim_ops->wait };
	disk.disk.ops = &ops;
	fails_write = true;
	roots_until_lost = 2;
	begin_put(&u, 1, "failed");
	pass_ms(3000);
	EXPECT(u.done && u.op.status == OKV_OK && !fails_write && !roots_until_lost);
	user_begin_key(&removal, p, 1);
	EXPECT(user_wait(&removal, &disk) == OKV_OK);
	disk.disk.ops = sim_ops;
	at = root_offset(&disk, (p->generation + 1) % OKV_NR_ROOTS);
	disk.cache[at] ^= 1;
	disk.durable[at] ^= 1;
	lose_power(2);
	EXPECT(!get(1));
	okv_store_close(store);
	sim_disk_free(&disk);
}

static void test_bad_segment(void)
{
	static char value[VALUE_BYTES];
	struct user u;
	uint32_t nr_bad = 0;

	make_store(true);
	memset(value, 'v', sizeof(value) - 1);
	for (uint32_t i = 0; i < 400; i++) {
		/* The reads fail of what is to be collected: some of it stays. */
		disk.plan.read_error_ppm = i < 320 ? 1000000 : 0;
		begin_put(&u, i % 8 || i > 320 ? 100 + i % 80 : i / 8, value);
		if (i == 320)
			pass_ms(5000);
		for (uint32_t s = 0; s < NR_SEGMENTS; s++)
			nr_bad += p->segments[s].state == OKV_SEGMENT_BAD;
	}
	EXPECT(nr_bad && u.op.status == OKV_OK && p->stats.nr_gc_segments);
	for (uint32_t s = 0; s < NR_SEGMENTS; s++)
		EXPECT(p->segments[s].state != OKV_SEGMENT_BAD);
	okv_store_close(store);
	sim_disk_free(&disk);
}

int main(void)
{
	for (int has_fua = 0; has_fua < 2; has_fua++) {
		test_short(has_fua);
		test_long(has_fua);
		test_lost_root(has_fua);
	}
	test_space();
	test_close();
	test_in_flight();
	test_bad_segment();
	puts("ok store_outage: what fails is tried again, then refused, and goes on by itself");
	return 0;
}
