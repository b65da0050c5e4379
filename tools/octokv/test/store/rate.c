// SPDX-License-Identifier: GPL-2.0
/*
 * rate.c - how fast the store puts and gets, without a network
 *
 *	store_rate FILE-OR-DEVICE puts|gets|open SECONDS DEPTH [VALUE-BYTES [KEYS [kill]]]
 *
 * Keeps DEPTH operations on random keys of KEYS (10000) in flight, on one ring. Prints operations
 * per second, percentiles of their time, and what the store counts. `puts` formats first. `open`
 * only opens, and says how long that took. For comparison, run fio on the same file, with
 * --direct=1 --sync=dsync --ioengine=io_uring --iodepth=DEPTH.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/disk_uring.h"
#include "store/store.h"

enum { NR_SAMPLES_MAX = 4 << 20 };

struct user {
	struct okv_op op;
	uint64_t key;
	double start;
};

static struct okv_store *store;
static enum okv_op_kind kind;
static uint64_t nr_keys = 10000, random_state = 1, nr_done, nr_failed;
static uint32_t value_bytes = 16384, nr_busy, nr_samples;
static char *value;
static float *samples_us;
static double end;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void submit_one(struct user *u);

static void op_done(struct okv_op *op)
{
	struct user *u = op->owner;
	double at = now();

	okv_op_release(op);
	nr_done += op->status == OKV_OK;
	nr_failed += op->status != OKV_OK && op->status != OKV_NOT_FOUND;
	if (nr_samples < NR_SAMPLES_MAX)
		samples_us[nr_samples++] = (at - u->start) * 1e6;
	nr_busy--;
	if (at < end && !nr_failed)
		submit_one(u);
}

static void submit_one(struct user *u)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	u->key = (random_state >> 33) % nr_keys;
	u->op = (struct okv_op){
		.kind = kind, .key = &u->key, .key_len = sizeof(u->key),
		.value = value, .value_len = value_bytes,
		.hash = okv_store_hash(store, 0, &u->key, sizeof(u->key)),
		.done = op_done, .owner = u,
	};
	u->start = now();
	nr_busy++;
	okv_partition_submit(okv_store_partition(store, okv_store_partition_of(store, u->op.hash)),
			     &u->op);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

static void say(double seconds)
{
	struct okv_stats s;

	okv_store_stats(store, &s);
	qsort(samples_us, nr_samples, sizeof(*samples_us), by_value);
	if (nr_samples)
		printf("%.0f/s, mean %.0f us, p50 %.0f, p99 %.0f, p99.9 %.0f us; %lu failed\n",
		       nr_done / seconds, seconds * 1e6 / nr_done, samples_us[nr_samples / 2],
		       samples_us[nr_samples / 100 * 99],
		       samples_us[(uint64_t)nr_samples * 999 / 1000], (unsigned long)nr_failed);
	printf("%lu keys, %.1f bytes of index each, %lu batches of %lu bytes, %lu flushes, "
	       "%lu checkpoints, %lu segments collected\n",
	       (unsigned long)s.nr_keys, s.nr_keys ? (double)s.index_bytes / s.nr_keys : 0,
	       (unsigned long)s.nr_batches,
	       (unsigned long)(s.nr_batches ? s.batch_bytes / s.nr_batches : 0),
	       (unsigned long)s.nr_flushes, (unsigned long)s.nr_checkpoints,
	       (unsigned long)s.nr_gc_segments);
}

static void run(struct disk_uring *disk, double seconds, uint32_t depth)
{
	struct user *users = calloc(depth, sizeof(*users));
	double start = now(), tick = start;

	samples_us = calloc(NR_SAMPLES_MAX, sizeof(*samples_us));
	value = malloc(value_bytes + 1);
	memset(value, 'v', value_bytes);
	end = start + seconds;
	for (uint32_t i = 0; i < depth; i++)
		submit_one(&users[i]);
	while (nr_busy) {
		if (now() > tick + 0.1) {
			tick = now();
			for (uint32_t i = 0; i < okv_store_info(store)->nr_partitions; i++)
				okv_partition_tick(okv_store_partition(store, i),
						   time(NULL) * 1000ULL);
		}
		disk->disk.ops->wait(&disk->disk);
	}
	say(now() - start);
	free(users);
	free(value);
	free(samples_us);
}

int main(int argc, char **argv)
{
	struct okv_open_options options = { .now_ms = time(NULL) * 1000ULL };
	struct okv_format_options format = { 0 };
	struct disk_uring disk;
	struct io_uring ring;
	struct okv_stats stats;
	double start;
	int error;

	if (argc < 5) {
		fprintf(stderr,
			"usage: store_rate FILE-OR-DEVICE puts|gets|open SECONDS DEPTH "
			"[VALUE-BYTES [KEYS [kill]]]\n");
		return 2;
	}
	value_bytes = argc > 5 ? (uint32_t)atoi(argv[5]) : value_bytes;
	nr_keys = argc > 6 ? strtoul(argv[6], NULL, 0) : nr_keys;
	kind = strcmp(argv[2], "puts") ? OKV_OP_GET : OKV_OP_PUT;
	error = io_uring_queue_init(1024, &ring, 0);
	if (!error)
		error = disk_uring_init(&disk, &ring, open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC));
	if (!error && kind == OKV_OP_PUT)
		error = okv_device_format(&disk.disk, &format);
	start = now();
	if (!error)
		error = okv_store_open(&store, &disk.disk, &options);
	if (error) {
		fprintf(stderr, "store_rate: %s: %s\n", argv[1], strerror(-error));
		return 1;
	}
	okv_store_stats(store, &stats);
	printf("opened in %.3f s: %lu keys, %lu MiB live, %lu MiB and %lu records replayed; %s\n",
	       now() - start, (unsigned long)stats.nr_keys, (unsigned long)(stats.live_bytes >> 20),
	       (unsigned long)(stats.recovered_bytes >> 20),
	       (unsigned long)stats.nr_replayed_records, disk.disk.has_fua ? "FUA" : "flushes");
	if (strcmp(argv[2], "open"))
		run(&disk, atof(argv[3]), atoi(argv[4]));
	if (argc > 7)
		_exit(0);	/* as if killed: the next open replays */
	okv_store_close(store);
	io_uring_queue_exit(&ring);
	return 0;
}
