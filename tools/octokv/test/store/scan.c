// SPDX-License-Identifier: GPL-2.0
/*
 * scan.c - a step of a walk is short, also over the keys of other tenants
 *
 * A tenant without keys walks to the end of an index that is full of another tenant's keys. It
 * takes many steps, none of which looks at much. The other tenant finds each of its keys once, as
 * many in a step as it asked for.
 */
#include "user.h"

enum {
	NR_SEGMENTS	= 40,
	SEGMENT_BYTES	= 1 << 20,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS		= 60000,
	OTHER		= 1,
};

static struct sim_disk disk;
static struct okv_partition *p;
static uint32_t nr_seen;

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	(void)scan, (void)key, (void)key_len, (void)value_len, (void)expire_ms;
	nr_seen++;
}

static void walk_done(struct okv_scan *scan)
{
	(void)scan;
}

/* Walk to the end; returns the number of steps. */
static uint32_t walk(uint16_t tenant, uint32_t nr_max)
{
	struct okv_scan scan = {
		.tenant = tenant, .nr_max = nr_max, .key = walk_key, .done = walk_done
	};
	uint32_t nr_steps = 0;

	nr_seen = 0;
	do {
		okv_partition_scan(p, &scan);
		wait_idle(&disk);
		nr_steps++;
	} while (scan.cursor);
	return nr_steps;
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_store *store;
	uint32_t nr_steps;

	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format) &&
	       !okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		struct user u = { .op = { .kind = OKV_OP_PUT } };

		user_begin_key(&u, p, i);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
	nr_steps = walk(OTHER, 10);
	EXPECT(!nr_seen && nr_steps > 2 && nr_steps <= okv_index_nr_shards(&p->index));
	printf("ok store_scan: %u steps over %u keys of another tenant\n", nr_steps, NR_KEYS);
	EXPECT(walk(0, 1000) >= NR_KEYS / 1000 && nr_seen == NR_KEYS);
	printf("ok store_scan: the other tenant finds each once\n");
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
