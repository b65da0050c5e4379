// SPDX-License-Identifier: GPL-2.0
/*
 * checkpoint.c - a checkpoint that comes to nothing, then one of which the device loses a request
 *
 * The second checkpoint writes to the places of the first one. If the device loses a write of it,
 * what the first one wrote is still there, from before the last acknowledged put. Each request of
 * the first one meets each request of the second. The put is there all the same, at every open that
 * follows.
 *
 * A store from before there were attempts opens, and is one with attempts afterwards.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 80,
	SEGMENT_BYTES	= 16 << 10,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS		= 500,		/* for a few chunks */
	STEP		= 71,		/* of the keys that are looked at */
	KEY		= 7,
	NR_SEEDS	= 4,
	NR_LAST		= 12,		/* requests of a recovery: its checkpoint, and more */
};

/* How the first checkpoint ends. */
enum end { KILLED, POWER_LOST, FAILED, NR_ENDS };

static const char *const end_names[] = { "killed", "without power", "failed" };
static struct sim_disk disk;
static const struct okv_disk_ops *sim_ops;
static struct okv_store *store;
static struct okv_partition *p;
static char *image;
static uint64_t nr_opens, nr_runs, nr_refused;

/* ---- a device that stops or loses the request of a number ---- */

static struct {
	const struct okv_io *only;	/* count this one's; NULL: all that write or flush */
	uint32_t nr, hold_at, lose_at;	/* counted from 1 */
	struct okv_io *held;
} watch;

static void watch_for(const struct okv_io *only, uint32_t hold_at, uint32_t lose_at)
{
	watch.only = only;
	watch.nr = 0;
	watch.hold_at = hold_at;
	watch.lose_at = lose_at;
	watch.held = NULL;
}

static void watched_submit(struct okv_disk *d, struct okv_io *io)
{
	if (watch.only ? io == watch.only : io->kind == OKV_WRITE || io->kind == OKV_FLUSH)
		watch.nr++;
	if (watch.nr && watch.nr == watch.hold_at) {
		watch.hold_at = 0;
		watch.held = io;
		return;
	}
	if (watch.nr && watch.nr == watch.lose_at) {
		watch.lose_at = 0;
		disk.lost_io = io;
	}
	sim_ops->submit(d, io);
}

static int watched_wait(struct okv_disk *d)
{
	return sim_ops->wait(d);
}

static const struct okv_disk_ops watched_ops = { .submit = watched_submit, .wait = watched_wait };

/* ---- a store ---- */

static int open_store(void)
{
	struct okv_open_options options = { .now_ms = 1, .attempt_seed = ++nr_opens };
	int error = okv_store_open(&store, &disk.disk, &options);

	p = error ? NULL : okv_store_partition(store, 0);
	return error;
}

static void begin(struct user *u, enum okv_op_kind kind, uint32_t key, const char *value)
{
	*u = (struct user){ .op = { .kind = kind, .value = value, .value_len = strlen(value) } };
	user_begin_key(u, p, key);
}

static enum okv_status run_op(enum okv_op_kind kind, uint32_t key, const char *value)
{
	struct user u;

	begin(&u, kind, key, value);
	return user_wait(&u, &disk);
}

static char got[16];

static void get_done(struct okv_op *op)
{
	snprintf(got, sizeof(got), "%.*s", op->out ? (int)op->out_len : 0,
		 op->out ? (const char *)op->out : "");
	user_done(op);
}

/* What a get shows: the value, or "" for nothing. NULL: an error. */
static const char *get(uint32_t key)
{
	struct user u = { .op = { .kind = OKV_OP_GET, .done = get_done, .owner = &u } };

	u.op.key = u.key;
	u.op.key_len = snprintf(u.key, sizeof(u.key), "%u", key);
	u.op.hash = (key + 1) * 0x9e3779b97f4a7c15ULL;
	okv_partition_submit(p, &u.op);
	return user_wait(&u, &disk) == OKV_OK || u.op.status == OKV_NOT_FOUND ? got : NULL;
}

static void begin_run(uint64_t seed, bool has_fua)
{
	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, has_fua, 2 * seed);
	sim_ops = disk.disk.ops;
	disk.disk.ops = &watched_ops;
	memcpy(disk.cache, image, DEVICE_BYTES);
	memcpy(disk.durable, image, DEVICE_BYTES);
	watch_for(NULL, 0, 0);
	nr_runs++;
}

static void end_run(void)
{
	if (store)
		okv_store_drop(store);
	store = NULL;
	sim_disk_free(&disk);
}

/* Cut the power or kill the process, in the middle of what is held and of all in flight. */
static void crash(bool is_kill)
{
	disk.process_only = is_kill;
	disk.cut_at = 1;
	if (watch.held)
		sim_ops->submit(&disk.disk, watch.held);
	wait_idle(&disk);
	/* What is tried again fails as well. */
	if (store) {
		p->is_hurried = true;
		okv_partition_tick(p, p->now_ms);
		wait_idle(&disk);
		okv_store_drop(store);
	}
	store = NULL;
	sim_disk_revive(&disk);
	watch_for(NULL, 0, 0);
}

static void make_image(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format) && !open_store());
	for (uint32_t i = 0; i < NR_KEYS; i++)
		EXPECT(run_op(OKV_OP_PUT, i, "old") == OKV_OK);
	okv_store_close(store);
	store = NULL;
	image = malloc(DEVICE_BYTES);
	memcpy(image, disk.cache, DEVICE_BYTES);
	sim_disk_free(&disk);
}

/* ---- a checkpoint of a running store, then another ---- */

/* Returns false if the checkpoint has fewer requests. */
static bool checkpoint_until(uint32_t request)
{
	watch_for(&p->checkpoint.io, request, 0);
	okv_checkpoint_start(p);
	while (!watch.held && p->checkpoint.step != OKV_CHECKPOINT_NONE)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	return watch.held;
}

/* Look at the put and at some other keys; with the device's lie, an open may refuse. */
static void expect_new(enum end end, uint32_t first, uint32_t second, const char *when)
{
	for (uint32_t i = KEY; i < NR_KEYS; i += STEP) {
		const char *value = get(i);

		if (value && !strcmp(value, i == KEY ? "new" : "old"))
			continue;
		printf("not ok store_checkpoint: %s at request %u, request %u of the next one "
		       "lost: key %u is \"%s\" %s\n",
		       end_names[end], first, second, i, value ? value : "(error)", when);
		exit(1);
	}
}

/* Returns false when the first or the second checkpoint has no such request. */
static bool run_two(uint64_t seed, enum end end, uint32_t first, uint32_t second, bool kills)
{
	bool more = true;

	begin_run(seed, seed % 2);
	EXPECT(!open_store());
	if (!checkpoint_until(first)) {
		end_run();
		return false;
	}
	EXPECT(run_op(OKV_OP_PUT, KEY, "new") == OKV_OK);
	if (end == FAILED) {
		disk.failed_io = watch.held;
		sim_ops->submit(&disk.disk, watch.held);
		wait_idle(&disk);
		watch_for(&p->checkpoint.io, 0, second);
		okv_checkpoint_start(p);
		wait_idle(&disk);
		more = !watch.lose_at;
	} else {
		crash(end == KILLED);
		watch_for(NULL, 0, second);
		EXPECT(!open_store());
		more = !watch.lose_at;
		watch_for(NULL, 0, 0);
	}
	expect_new(end, first, second, "at once");
	crash(kills);
	if (open_store())
		nr_refused++;
	else
		expect_new(end, first, second, "after the next open");
	end_run();
	return more;
}

static void test_two(void)
{
	for (uint64_t seed = 1; seed <= NR_SEEDS; seed++) {
		for (uint32_t end = 0; end < NR_ENDS; end++) {
			for (uint32_t first = 1; run_two(seed, end, first, 1, true); first++) {
				for (uint32_t i = 2; run_two(seed, end, first, i / 2, i % 2); i++)
					;
			}
		}
	}
	printf("ok store_checkpoint: %lu times no old value, where a checkpoint came to nothing "
	       "and the device lost a request of the next; %lu opens refused\n",
	       (unsigned long)nr_runs, (unsigned long)nr_refused);
}

/* ---- a checkpoint of a recovery, then that of another ---- */

/*
 * A deletion without an answer is in the cache of the device when the process is killed. The first
 * recovery sees it, and loses power at one of its requests, and the deletion with it. What the
 * second one shows of the key, the third one shows as well, although a request of the second one's
 * checkpoint is lost. Returns false when the first recovery has no such request.
 */
static bool run_recoveries(uint64_t seed, uint32_t cut, uint32_t lost)
{
	char before[16];
	const char *after;
	struct user u;
	uint64_t nr_completed;
	bool more;

	begin_run(seed, false);
	nr_completed = disk.nr_completed;
	EXPECT(!open_store());
	nr_completed = disk.nr_completed - nr_completed;
	watch_for(&p->flush, 1, 0);
	begin(&u, OKV_OP_DELETE, KEY, "");
	while (!watch.held)
		EXPECT(!disk.disk.ops->wait(&disk.disk));
	crash(true);
	disk.process_only = false;
	disk.cut_at = disk.nr_completed + nr_completed - NR_LAST + cut;
	more = open_store();
	disk.cut_at = 0;
	crash(false);
	watch_for(NULL, 0, lost);
	EXPECT(!open_store());
	watch_for(NULL, 0, 0);
	strcpy(before, get(KEY));
	crash(true);
	if (open_store()) {
		nr_refused++;
	} else {
		after = get(KEY);
		if (after && strcmp(after, before)) {
			printf("not ok store_checkpoint: a recovery cut at request %u, request %u "
			       "of the next one lost: \"%s\" is \"%s\" after it\n",
			       cut, lost, before, after);
			exit(1);
		}
	}
	end_run();
	return more;
}

static void test_recoveries(void)
{
	nr_runs = nr_refused = 0;
	for (uint64_t seed = 1; seed <= 4 * NR_SEEDS; seed++) {
		for (uint32_t lost = 1; lost <= 6; lost++) {
			for (uint32_t cut = 0; run_recoveries(seed, cut, lost); cut++)
				;
		}
	}
	printf("ok store_checkpoint: %lu times the same after a recovery that was cut short and "
	       "one that lost a request; %lu opens refused\n",
	       (unsigned long)nr_runs, (unsigned long)nr_refused);
}

/* ---- roots without attempts ---- */

/* Make of the image what a store without attempts would have written. */
static void make_old(void)
{
	struct okv_layout layout;
	struct okv_chunk_disk *chunk;
	struct okv_root_disk *root;

	EXPECT(!okv_layout_read(&disk.disk, &layout, NULL));
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++) {
		root = (void *)(disk.cache + root_offset(&disk, slot));
		for (uint64_t at = 0; at < NR_SEGMENTS * SEGMENT_BYTES; at += BLOCK_BYTES) {
			chunk = (void *)(disk.cache + layout.super.data_offset_bytes + at);
			if (chunk->magic != OKV_CHUNK_MAGIC || chunk->attempt != root->attempt)
				continue;
			chunk->attempt = root->generation;
			chunk->sum = okv_sum_behind(chunk, sizeof(*chunk),
						    okv_seed(&layout.super, 0, at / OKV_ALIGN_BYTES,
							     ~root->generation));
		}
		root->magic = OKV_ROOT_MAGIC_1;
		root->attempt = root->nr_named = 0;
		root->sum = okv_sum_behind(root, 64 + 4 * OKV_NR_ROOT_SEGMENTS,
					   okv_seed(&layout.super, 0, OKV_NOWHERE, slot));
	}
}

static void test_old_store(void)
{
	begin_run(1, true);
	make_old();
	memcpy(disk.durable, disk.cache, DEVICE_BYTES);
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT(!open_store());
		for (uint32_t key = 0; key < NR_KEYS; key++)
			EXPECT(!strcmp(get(key), "old"));
		okv_store_close(store);
	}
	store = NULL;
	for (uint32_t slot = 0; slot < OKV_NR_ROOTS; slot++)
		EXPECT(((struct okv_root_disk *)(disk.cache + root_offset(&disk, slot)))->magic ==
		       OKV_ROOT_MAGIC);
	end_run();
	printf("ok store_checkpoint: a store from before attempts opens\n");
}

int main(void)
{
	make_image();
	test_old_store();
	test_two();
	test_recoveries();
	free(image);
	return 0;
}
