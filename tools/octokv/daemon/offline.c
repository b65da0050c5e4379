// SPDX-License-Identifier: GPL-2.0
/*
 * offline.c - what is done with a store that is not served: --check, --dump, --load
 *
 * --check and --dump write nothing to the store. They open partition after partition, and read all
 * records in the order in which they lie (okv_store_export()). As nothing else uses the store, what
 * they see is of one moment.
 *
 * A dump is written to FILE.part, synced, and then gets the name of the file. snapshot.c makes one
 * of stores that are open. Keys that have expired and are still there are in it with their expiry:
 * the clock may be wrong at this moment (clock.h), and a load looks at it again.
 *
 * A load reads its file twice. The first time it looks at everything: the checksum, types, lengths,
 * what is packed. Only then does it open the store. An empty store is sealed until all keys are
 * durable, so that half a load is no store. If the load fails, the store is made empty again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"
#include "listen.h"
#include "offline.h"
#include "server/clock.h"
#include "server/server.h"
#include "store/mem.h"

enum {
	SHOWN_DAMAGE		= 20,		/* lines for each partition */
	SHOWN_KEY_BYTES		= 64,
	LOAD_FLYING_MAX		= 256,
	LOAD_FLYING_BYTES_MAX	= 32 << 20,
	TICK_NS			= 100000000,
};

__attribute__((format(printf, 2, 3))) static int fail(struct offline *o, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(o->why, sizeof(o->why), format, args);
	va_end(args);
	return -1;
}

static uint64_t now_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000000;
}

static int open_to_read(struct offline *o, uint32_t partition, struct okv_store **store)
{
	/* At time 0 nothing has expired, so that nothing is to be removed. */
	struct okv_open_options options = {
		.first_partition = partition, .nr_partitions = 1, .reads_only = true,
	};

	return okv_store_open(store, o->disk, &options);
}

/* ---- --check ---- */

struct checked {
	struct okv_export walk;		/* first */
	uint64_t nr_shown;
};

/* A key for people: at most so many bytes, and ? for what cannot be printed. */
static void print_key(const char *key, uint32_t len)
{
	for (uint32_t i = 0; i < len && i < SHOWN_KEY_BYTES; i++)
		putchar(key[i] >= ' ' && key[i] <= '~' ? key[i] : '?');
	if (len > SHOWN_KEY_BYTES)
		printf("...");
}

static void check_record(struct okv_export *e, const struct okv_exported *x)
{
	struct checked *c = (struct checked *)e;

	if (x->value || c->nr_shown++ >= SHOWN_DAMAGE)
		return;
	printf("partition %u: damaged at byte %" PRIu64 ": ", x->partition, x->offset_bytes);
	if (x->key) {
		printf("the value of key ");
		print_key(x->key, x->key_len);
		printf(" of user %u\n", x->tenant);
	} else {
		printf("a record of user %u, whose key cannot be read\n", x->tenant);
	}
}

static int check_partition(struct offline *o, uint32_t partition, struct okv_stats *sum,
			   bool *damaged)
{
	struct checked c = { .walk.record = check_record };
	struct okv_store *store;
	struct okv_stats stats;
	int error = open_to_read(o, partition, &store);

	if (error == -EUCLEAN || error == -EIO) {
		printf("partition %u: %s\n", partition, error == -EIO ? store_refusal(EIO) :
		       "damaged: a record that was acknowledged is lost");
		*damaged = true;
		return 0;
	}
	if (error)
		return fail(o, "%s: %s", o->data, store_refusal(-error));
	okv_store_stats(store, &stats);
	sum->nr_keys += stats.nr_keys;
	sum->live_bytes += stats.live_bytes;
	sum->capacity_bytes += stats.capacity_bytes;
	sum->nr_replayed_records += stats.nr_replayed_records;
	sum->index_bytes += stats.index_bytes;
	error = okv_store_export(store, &c.walk);
	okv_store_drop(store);
	if (error)
		return fail(o, "%s: %s", o->data, store_refusal(-error));
	if (c.nr_shown > SHOWN_DAMAGE)
		printf("partition %u: %" PRIu64 " more are damaged\n", partition,
		       c.nr_shown - SHOWN_DAMAGE);
	*damaged |= c.nr_shown;
	return 0;
}

int offline_check(struct offline *o, bool *damaged)
{
	struct okv_stats sum = { 0 };
	struct okv_device_info info;
	int error = okv_device_info(o->disk, &info);

	if (error)
		return fail(o, "%s: %s", o->data, store_refusal(-error));
	for (uint32_t i = 0; i < info.nr_partitions; i++)
		if (check_partition(o, i, &sum, damaged))
			return -1;
	printf("%" PRIu64 " keys, %" PRIu64 " of %" PRIu64 " MiB used, %" PRIu64 " records "
	       "replayed, index of %" PRIu64 " bytes\n", sum.nr_keys, sum.live_bytes >> 20,
	       sum.capacity_bytes >> 20, sum.nr_replayed_records, sum.index_bytes);
	return 0;
}

/* ---- --dump ---- */

struct dump {
	struct okv_export walk;		/* first */
	struct offline *o;
	FILE *file;
	uint64_t sum;
	int64_t db;			/* of the last key; -1: there was none */
};

static void write_out(struct dump *d, const void *data, size_t len)
{
	d->sum = rdb_crc64(d->sum, data, len);
	if (len && fwrite(data, 1, len, d->file) != len)
		d->walk.stops = true;
}

static void write_string(struct dump *d, const void *data, uint32_t len)
{
	uint8_t head[RDB_HEAD_BYTES_MAX];

	write_out(d, head, rdb_write_length(head, len));
	write_out(d, data, len);
}

static void dump_record(struct okv_export *e, const struct okv_exported *x)
{
	struct dump *d = (struct dump *)e;
	uint8_t head[RDB_HEAD_BYTES_MAX];
	int64_t db = d->o->user_id == ALL_USERS ? x->tenant : 0;

	if (d->o->user_id != ALL_USERS && d->o->user_id != x->tenant)
		return;
	if (!x->value) {
		d->o->nr_damaged++;
		return;
	}
	if (db != d->db)
		write_out(d, head, rdb_write_db(head, db));
	d->db = db;
	write_out(d, head, rdb_write_before_key(head, x->expire_ms));
	write_string(d, x->key, x->key_len);
	write_string(d, x->value, x->value_len);
	d->o->nr_keys++;
}

/* Partition after partition, of a store that is not open. */
static int dump_closed(struct offline *o, struct dump *d)
{
	struct okv_device_info info;
	int error = okv_device_info(o->disk, &info);

	for (uint32_t i = 0; !error && i < info.nr_partitions && !d->walk.stops; i++) {
		struct okv_store *store;

		error = open_to_read(o, i, &store);
		if (o->force && (error == -EUCLEAN || error == -EIO)) {
			o->nr_lost_partitions++;
			error = 0;
			continue;
		}
		if (error)
			break;
		error = okv_store_export(store, &d->walk);
		okv_store_drop(store);
	}
	return error;
}

static int dump_all(struct offline *o, struct dump *d)
{
	int error = 0;

	if (o->salvage)
		error = okv_device_salvage(o->disk, &d->walk);
	else if (!o->nr_stores)
		error = dump_closed(o, d);
	for (uint32_t i = 0; !error && i < o->nr_stores && !d->walk.stops; i++)
		error = okv_store_export(o->stores[i], &d->walk);
	return error ? fail(o, "%s: %s", o->data, store_refusal(-error)) : 0;
}

static int write_dump(struct offline *o, struct dump *d)
{
	uint8_t head[RDB_HEAD_BYTES_MAX], sum[8];

	write_out(d, head, rdb_write_start(head));
	if (dump_all(o, d))
		return -1;
	if (o->nr_damaged && !o->force)
		return fail(o, "%s: %" PRIu64 " records are damaged: --check names them, and "
			    "--force dumps all others", o->data, o->nr_damaged);
	if (d->walk.nr_unread && !o->force)
		return fail(o, "%s: %" PRIu64 " reads have failed: keys may be missing, or have "
			    "earlier values. --force dumps what there is", o->data,
			    d->walk.nr_unread);
	if (d->walk.nr_unread)
		printf("%s: %" PRIu64 " reads have failed: keys may be missing, or have earlier "
		       "values\n", o->file, d->walk.nr_unread);
	write_out(d, head, rdb_write_end(head));
	for (int i = 0; i < 8; i++)
		sum[i] = d->sum >> 8 * i;
	write_out(d, sum, sizeof(sum));
	if (d->walk.stops || fflush(d->file) || fsync(fileno(d->file)))
		return fail(o, "%s: %s", o->file, strerror(errno));
	return 0;
}

/* The name of a dump until it is complete; NULL: there is no memory. */
static char *name_of_part(const char *file)
{
	char *path;

	return asprintf(&path, "%s.part", file) < 0 ? NULL : path;
}

/* A dump must not replace what is at @path: it is the store itself, or no file. */
static bool is_in_the_way(const char *path, const char *data)
{
	struct stat st, store;

	return !stat(path, &st) &&
	       (!S_ISREG(st.st_mode) || (!stat(data, &store) && st.st_dev == store.st_dev &&
					 st.st_ino == store.st_ino));
}

void offline_forget(const char *file, const char *data)
{
	char *path = name_of_part(file);

	if (path && !is_in_the_way(path, data))
		unlink(path);
	free(path);
}

static int dump_to(struct offline *o, const char *path)
{
	struct dump d = { .walk.record = dump_record, .o = o, .db = -1 };
	int fd, result;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(o, "%s: %s", path, strerror(errno));
	d.file = fdopen(fd, "w");
	result = d.file ? write_dump(o, &d) : fail(o, "%s", strerror(errno));
	if (d.file && fclose(d.file) && !result)
		result = fail(o, "%s: %s", o->file, strerror(errno));
	if (!result && (rename(path, o->file) || data_sync_folder(o->file)))
		result = fail(o, "%s: %s", o->file, strerror(errno));
	if (result)
		unlink(path);
	return result;
}

int offline_dump(struct offline *o)
{
	char *path = name_of_part(o->file);
	int result;

	if (!path)
		return fail(o, "%s", strerror(ENOMEM));
	if (is_in_the_way(o->file, o->data) || is_in_the_way(path, o->data))
		result = fail(o, "%s is there, and is the store, or no file: a dump would replace "
			      "it", is_in_the_way(o->file, o->data) ? o->file : path);
	else
		result = dump_to(o, path);
	free(path);
	return result;
}

/* ---- --load: the first time through the file ---- */

static int map_file(struct offline *o)
{
	int fd = open(o->file, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return fail(o, "%s: %s", o->file, strerror(errno));
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return fail(o, "%s: it is empty, or no file", o->file);
	o->nr_bytes = st.st_size;
	o->bytes = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (o->bytes == MAP_FAILED)
		return fail(o, "%s: %s", o->file, strerror(errno));
	madvise((void *)o->bytes, st.st_size, MADV_SEQUENTIAL);
	return 0;
}

static bool has_expired(const struct rdb_item *item, uint64_t at_ms)
{
	/* It is a signed number in the file. */
	return item->expire_ms && (item->expire_ms <= at_ms || item->expire_ms > INT64_MAX);
}

/* A string that octokvd can have? @buffer has room for the longest value. */
static int survey_string(struct offline *o, const struct rdb_item *item, char *buffer)
{
	if (!item->key.len || item->key.len > MAX_KEY_BYTES)
		return fail(o, "%s: a key has %" PRIu64 " bytes; octokvd takes 1 to %d. Nothing "
			    "was loaded", o->file, item->key.len, MAX_KEY_BYTES);
	if (item->value.len > MAX_VALUE_BYTES)
		return fail(o, "%s: a value has %" PRIu64 " bytes; octokvd takes at most %d. "
			    "Nothing was loaded", o->file, item->value.len, MAX_VALUE_BYTES);
	if (!rdb_unpack(&item->key, buffer) || !rdb_unpack(&item->value, buffer))
		return fail(o, "%s: a packed string is damaged. Nothing was loaded", o->file);
	if (o->user_id == ALL_USERS && item->db >= OKV_NR_TENANTS)
		return fail(o, "%s: it has keys in database %" PRIu64 ". Database N is that of the "
			    "user with ID N, at most %d. Nothing was loaded", o->file, item->db,
			    OKV_NR_TENANTS - 1);
	return 0;
}

static int survey_items(struct offline *o, struct rdb_reader *r, char *buffer)
{
	enum rdb_status status;
	struct rdb_item item;
	uint64_t db = UINT64_MAX, at_ms = now_ms();

	while ((status = rdb_next(r, &item)) == RDB_GOOD) {
		o->nr[item.type]++;
		if (item.type != RDB_STRING)
			continue;
		if (survey_string(o, &item, buffer))
			return -1;
		if (o->user_id != ALL_USERS && db != UINT64_MAX && item.db != db)
			return fail(o, "%s: it has keys in several databases: --user-id takes one. "
				    "Nothing was loaded", o->file);
		db = item.db;
		o->nr_expired += has_expired(&item, at_ms);
	}
	if (status != RDB_END)
		return fail(o, "%s: %s. Nothing was loaded", o->file, r->error);
	if (!r->has_sum)
		fprintf(stderr, "octokvd: %s has no checksum: damage would not be noticed\n",
			o->file);
	return 0;
}

/* "3 lists, 1 hashes"; empty: there are only strings. */
static void list_others(const struct offline *o, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = 0;
	for (int type = RDB_STRING + 1; type < RDB_NR_TYPES; type++) {
		if (!o->nr[type] || used >= bytes)
			continue;
		used += snprintf(text + used, bytes - used, "%s%" PRIu64 " %s", used ? ", " : "",
				 o->nr[type], rdb_type_names[type]);
	}
}

int offline_survey(struct offline *o)
{
	struct rdb_reader r;
	char *buffer, others[256];
	int result;

	if (map_file(o))
		return -1;
	if (!rdb_open(&r, o->bytes, o->nr_bytes))
		return fail(o, "%s: %s", o->file, r.error);
	buffer = mem_alloc(MAX_VALUE_BYTES);
	result = survey_items(o, &r, buffer);
	mem_free(buffer);
	if (result)
		return -1;
	list_others(o, others, sizeof(others));
	if (*others && !o->strings_only)
		return fail(o, "%s: beside %" PRIu64 " strings it has %s, which octokvd has not. "
			    "Nothing was loaded; --strings-only loads the strings", o->file,
			    o->nr[RDB_STRING], others);
	return 0;
}

/* ---- --load: the second time ---- */

struct load {
	struct offline *o;
	struct disk_uring *disk;
	struct okv_store *store;
	uint32_t nr_partitions;
	uint64_t tick_ns;
	uint32_t nr_flying;
	uint64_t flying_bytes;
	uint64_t nr_loaded;
	enum okv_status status;		/* the first failure */
};

struct load_op {
	struct okv_op op;
	struct load *load;
	uint64_t bytes;
	char *unpacked;
	char key[];
};

static void load_done(struct okv_op *op)
{
	struct load_op *l = op->owner;

	if (op->status == OKV_OK)
		l->load->nr_loaded++;
	else if (l->load->status == OKV_OK)
		l->load->status = op->status;
	l->load->nr_flying--;
	l->load->flying_bytes -= l->bytes;
	okv_op_release(op);
	mem_free(l->unpacked);
	mem_free(l);
}

/* Let something complete; what waits for a pause in an outage goes on with the tick. */
static void load_round(struct load *l)
{
	struct __kernel_timespec limit = { .tv_nsec = TICK_NS };
	struct io_uring_cqe *cqe;
	uint64_t now_ns;

	io_uring_submit_and_wait_timeout(l->disk->ring, &cqe, 1, &limit, NULL);
	while (!io_uring_peek_cqe(l->disk->ring, &cqe)) {
		uint64_t user_data = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(l->disk->ring, cqe);
		if ((user_data & TAG_MASK) == TAG_DISK)
			disk_uring_complete(l->disk, user_data, result);
	}
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (now_ns < l->tick_ns)
		return;
	l->tick_ns = now_ns + TICK_NS;
	for (uint32_t i = 0; i < l->nr_partitions; i++)
		okv_partition_tick(okv_store_partition(l->store, i), now_ms());
}

static void load_item(struct load *l, const struct rdb_item *item)
{
	struct load_op *op = mem_zalloc(sizeof(*op) + item->key.len);
	uint64_t hash;

	op->load = l;
	op->bytes = item->value.len;
	rdb_unpack(&item->key, op->key);
	op->op = (struct okv_op){
		.kind = OKV_OP_PUT, .key = op->key, .key_len = item->key.len,
		.tenant = l->o->user_id == ALL_USERS ? item->db : (uint64_t)l->o->user_id,
		.value = item->value.bytes, .value_len = item->value.len,
		.expire_ms = item->expire_ms, .done = load_done, .owner = op,
		.compresses = l->o->compresses,
	};
	if (item->value.kind != RDB_RAW) {
		op->unpacked = mem_alloc(item->value.len);
		rdb_unpack(&item->value, op->unpacked);
		op->op.value = op->unpacked;
	}
	hash = okv_store_hash(l->store, op->op.tenant, op->key, op->op.key_len);
	op->op.hash = hash;
	l->nr_flying++;
	l->flying_bytes += op->bytes;
	okv_partition_submit(okv_store_partition(l->store, okv_store_partition_of(l->store, hash)),
			     &op->op);
}

static void load_all(struct load *l)
{
	struct rdb_reader r;
	struct rdb_item item;

	rdb_open(&r, l->o->bytes, l->o->nr_bytes);
	while (l->status == OKV_OK && rdb_next(&r, &item) == RDB_GOOD) {
		if (item.type != RDB_STRING || has_expired(&item, now_ms()))
			continue;
		while (l->nr_flying >= LOAD_FLYING_MAX || l->flying_bytes >= LOAD_FLYING_BYTES_MAX)
			load_round(l);
		load_item(l, &item);
	}
	while (l->nr_flying)
		load_round(l);
}

static const char *why_not(enum okv_status status)
{
	switch (status) {
	case OKV_FULL:
		return "there is no room on the device for all of it";
	case OKV_NO_MEMORY:
		return "there is no memory for so many keys";
	case OKV_TOO_LARGE:
		return "a value is too large for this store";
	case OKV_CORRUPT:
		return "a record that was there is damaged: --check names it";
	default:
		return "the device failed: the kernel's log says how";
	}
}

/* The load is over: an empty store becomes a whole one, or empty again. */
static int end_load(struct load *l, bool was_empty)
{
	struct offline *o = l->o;
	const struct okv_device_info *info = okv_store_info(l->store);
	struct okv_format_options options = {
		.nr_partitions = info->nr_partitions, .segment_bytes = info->segment_bytes,
		.has_slots = info->has_slots,
	};
	int error = 0;

	okv_store_close(l->store);
	if (l->status != OKV_OK && !was_empty)
		return fail(o, "%s: %s; %" PRIu64 " keys of %s were loaded before", o->data,
			    why_not(l->status), l->nr_loaded, o->file);
	if (l->status != OKV_OK) {
		error = okv_device_format(o->disk, &options);
		return fail(o, "%s: %s. %s", o->data, why_not(l->status), error ?
			    "It could not be made empty again: format it" : "Nothing was loaded");
	}
	if (was_empty)
		error = okv_device_seal(o->disk, false);
	return error ? fail(o, "%s: %s", o->data, store_refusal(-error)) : 0;
}

int offline_load(struct offline *o)
{
	struct load l = { .o = o, .disk = (struct disk_uring *)o->disk };
	struct okv_open_options options = { .now_ms = now_ms() };
	struct okv_stats stats;
	char others[256];
	bool was_empty;
	int error = okv_store_open(&l.store, o->disk, &options);

	if (error)
		return fail(o, "%s: %s", o->data, store_refusal(-error));
	l.nr_partitions = okv_store_info(l.store)->nr_partitions;
	okv_store_stats(l.store, &stats);
	was_empty = !stats.nr_keys;
	if (!was_empty && !o->force) {
		okv_store_close(l.store);
		return fail(o, "%s: it has %" PRIu64 " keys already: --force loads into it "
			    "nevertheless. Nothing was loaded", o->data, stats.nr_keys);
	}
	if (was_empty)
		error = okv_device_seal(o->disk, true);
	if (error)
		return fail(o, "%s: %s", o->data, store_refusal(-error));
	load_all(&l);
	if (end_load(&l, was_empty))
		return -1;
	printf("%s: %" PRIu64 " keys loaded, %" PRIu64 " had expired\n", o->data, l.nr_loaded,
	       o->nr_expired);
	list_others(o, others, sizeof(others));
	if (*others)
		printf("%s: not loaded: %s\n", o->data, others);
	return 0;
}
