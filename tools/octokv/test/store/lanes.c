// SPDX-License-Identifier: GPL-2.0
/*
 * lanes.c - puts of one tenant do not wait for the writes of another
 *
 * A device in memory holds back the writes with one ioprio, as a scheduler may. In the meantime
 * puts of another tenant complete in the same partition. The first tenant's next puts gather behind
 * its one write, and go together when that is done. A third tenant's ioprio falls into the lane of
 * the first: its puts wait as well, and go in a write of their own. No write has records of two
 * tenants. The test runs with FUA and without. The write that is held back is the first batch of
 * its segment, which the others must not need.
 */
#include "store/format.h"
#include "store/partition.h"
#include "store/store.h"
#include "test/test.h"

enum {
	BLOCK_BYTES	= 512,
	SIZE_BYTES	= 4 << 20,
	HELD		= 1 << 3,
	SAME_LANE	= HELD + (OKV_NR_LANES << 3),
	NR_PUTS		= 4,
};

struct device {
	struct okv_disk disk;
	struct okv_io *pending;
	bool holds;
	uint32_t nr_held_records;	/* of the last write with the ioprio HELD */
	uint32_t nr_held_writes;
	char data[SIZE_BYTES];
};

struct put {
	struct okv_op op;
	char key[16];
	bool done;
};

static struct device device = {
	.disk = { .size_bytes = SIZE_BYTES, .block_bytes = BLOCK_BYTES,
		  .read_align_bytes = BLOCK_BYTES },
};

/* All records of a batch are of the tenant whose ioprio it has. */
static void look_at_batch(const struct okv_io *io)
{
	const struct okv_batch_disk *batch = io->buf;
	const char *at = (const char *)(batch + 1);

	if (io->kind != OKV_WRITE || batch->magic != OKV_BATCH_MAGIC || !batch->nr_records)
		return;
	for (uint32_t i = 0; i < batch->nr_records; i++) {
		const struct okv_record_disk *record = (const void *)at;

		EXPECT(record->tenant == io->ioprio >> 3);
		at += okv_record_bytes(BLOCK_BYTES, record->key_len, record->value_len);
	}
	if (io->ioprio == HELD) {
		device.nr_held_records = batch->nr_records;
		device.nr_held_writes++;
	}
}

static void submit(struct okv_disk *disk, struct okv_io *io)
{
	(void)disk;
	look_at_batch(io);
	io->next = device.pending;
	device.pending = io;
}

/* Complete all but what is held back; false if there was nothing. */
static bool complete_some(void)
{
	struct okv_io *all = device.pending, *next;
	bool any = false;

	device.pending = NULL;
	for (; all; all = next) {
		next = all->next;
		if (device.holds && all->kind == OKV_WRITE && all->ioprio == HELD) {
			all->next = device.pending;
			device.pending = all;
			continue;
		}
		if (all->kind == OKV_WRITE)
			memcpy(device.data + all->offset_bytes, all->buf, all->bytes);
		else if (all->kind == OKV_READ)
			memcpy(all->buf, device.data + all->offset_bytes, all->bytes);
		all->result = 0;
		all->done(all);
		any = true;
	}
	return any;
}

static int wait_for_one(struct okv_disk *disk)
{
	(void)disk;
	return complete_some() ? 0 : -5;
}

static void put_done(struct okv_op *op)
{
	((struct put *)op)->done = op->status == OKV_OK;
}

static void begin_put(struct okv_store *store, struct put *put, uint16_t tenant, uint32_t number)
{
	*put = (struct put){ .op = { .kind = OKV_OP_PUT,
				     .tenant = tenant,
				     .ioprio = tenant << 3,
				     .key = put->key,
				     .value = "value",
				     .value_len = 5,
				     .done = put_done } };
	put->op.key_len = snprintf(put->key, sizeof(put->key), "key %u", number);
	put->op.hash = 0x1000000000ULL * number + tenant;
	okv_partition_submit(okv_store_partition(store, 0), &put->op);
}

static void run(bool has_fua)
{
	static const struct okv_disk_ops ops = { .submit = submit, .wait = wait_for_one };
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = 64 << 10, .seed = 1 + has_fua,
	};
	struct okv_open_options options = { .now_ms = 1, .nr_writes_max = 1 };
	struct put held[NR_PUTS], same_lane[NR_PUTS], other[NR_PUTS];
	struct okv_store *store;

	device.disk.ops = &ops;
	device.disk.has_fua = has_fua;
	device.nr_held_writes = 0;
	EXPECT(!okv_device_format(&device.disk, &format));
	EXPECT(!okv_store_open(&store, &device.disk, &options));

	device.holds = true;
	for (uint32_t i = 0; i < NR_PUTS; i++) {
		begin_put(store, &held[i], HELD >> 3, i);
		begin_put(store, &same_lane[i], SAME_LANE >> 3, 200 + i);
	}
	while (complete_some())
		;
	EXPECT(device.nr_held_writes == 1 && device.nr_held_records == 1);
	for (uint32_t i = 0; i < NR_PUTS; i++) {
		begin_put(store, &other[i], 2, 100 + i);
		while (complete_some())
			;
		EXPECT(other[i].done);
	}
	for (uint32_t i = 0; i < NR_PUTS; i++)
		EXPECT(!held[i].done && !same_lane[i].done);

	device.holds = false;
	while (complete_some())
		;
	for (uint32_t i = 0; i < NR_PUTS; i++)
		EXPECT(held[i].done && same_lane[i].done);
	EXPECT(device.nr_held_writes == 2 && device.nr_held_records == NR_PUTS - 1);
	okv_store_close(store);
}

int main(void)
{
	run(true);
	run(false);
	printf("ok store_lanes: %u puts beside one that is held back, "
	       "and %u records in one write behind it\n",
	       NR_PUTS, NR_PUTS - 1);
	return 0;
}
