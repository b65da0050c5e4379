/* SPDX-License-Identifier: GPL-2.0 */
/* user.h - for the store's unit tests: one operation at a time on a simulated device */
#ifndef STORE_USER_H
#define STORE_USER_H

#include "store/log/record.h"
#include "store/mem.h"
#include "store/partition.h"
#include "store/segment.h"
#include "store/sim/sim_disk.h"
#include "test/test.h"

struct user {
	struct okv_op op;
	char key[16];
	bool done;
};

static inline void user_done(struct okv_op *op)
{
	((struct user *)op->owner)->done = true;
	okv_op_release(op);
}

/* Begin @u->op, which has all but these two fields; it may have @done, which calls user_done(). */
static inline void user_begin(struct user *u, struct okv_partition *p)
{
	if (!u->op.done)
		u->op.done = user_done;
	u->op.owner = u;
	okv_partition_submit(p, &u->op);
}

/* Begin @u->op on the key of that number. */
static inline void user_begin_key(struct user *u, struct okv_partition *p, uint32_t key)
{
	u->op.key = u->key;
	u->op.key_len = snprintf(u->key, sizeof(u->key), "%u", key);
	u->op.hash = (key + 1) * 0x9e3779b97f4a7c15ULL;
	user_begin(u, p);
}

static inline enum okv_status user_wait(const struct user *u, struct sim_disk *disk)
{
	while (!u->done)
		EXPECT(!disk->disk.ops->wait(&disk->disk));
	return u->op.status;
}

/* Begin to move the record of that key, which has that value. */
static inline void user_begin_move(struct user *u, struct okv_partition *p, uint32_t key,
				   const void *value, uint32_t value_len)
{
	struct okv_entry e;

	EXPECT(okv_index_find(&p->index, (key + 1) * 0x9e3779b97f4a7c15ULL, 0, 0, &e));
	*u = (struct user){
		.op = { .kind = OKV_OP_RELOCATE, .value = value, .value_len = value_len,
			.at = e.location,
			.sum = okv_sum(value, value_len, p->layout->super.secret) },
	};
	user_begin_key(u, p, key);
}

/* A device with a store of one partition; @former: of an earlier version, see store.h. */
static inline void user_make_device(struct sim_disk *disk, uint64_t device_bytes,
				    uint32_t block_bytes, uint32_t segment_bytes, uint32_t former)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = segment_bytes, .seed = 1, .former = former,
	};

	sim_disk_init(disk, device_bytes, block_bytes, true, 3);
	EXPECT(!okv_device_format(&disk->disk, &format));
}

/* Where the first partition has a root. */
static inline uint64_t root_offset(const struct sim_disk *disk, uint32_t slot)
{
	return okv_root_offset((const void *)disk->cache, 0, slot);
}

static inline struct okv_stats stats_of(const struct okv_store *store)
{
	struct okv_stats stats;

	okv_store_stats(store, &stats);
	return stats;
}

/* Copies of the superblock that do not agree with those that serve. */
static inline uint32_t nr_copies_bad(struct sim_disk *disk)
{
	struct okv_device_info info;

	EXPECT(!okv_device_info(&disk->disk, &info));
	return info.nr_copies_bad;
}

/* Wait until nothing is under way at the device. */
static inline void wait_idle(struct sim_disk *disk)
{
	while (disk->in_flight)
		disk->disk.ops->wait(&disk->disk);
}

/* The power goes and comes back, and @store with it. */
static inline void user_cut(struct sim_disk *disk, struct okv_store *store)
{
	void *page = okv_alloc_blocks(&disk->disk, OKV_PAGE_BYTES);

	disk->cut_at = 1;
	okv_disk_io(&disk->disk, OKV_READ, 0, page, OKV_PAGE_BYTES);
	mem_free(page);
	wait_idle(disk);
	EXPECT(disk->is_dead);
	okv_store_drop(store);
	sim_disk_revive(disk);
}

#endif
