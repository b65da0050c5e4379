// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_files.c - any bytes as a file from elsewhere: no crash, no read beyond it
 *
 * The first byte of the input says what the rest is: an RDB file, a payload of RESTORE, a users
 * file, or the map of a cluster. Version and checksum of a payload are made right, so that what
 * is behind them is reached. What a DUMP makes of a payload's string is read again, and has to
 * be that string. For libFuzzer.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cluster/map.h"
#include "rdb/rdb.h"
#include "server/tenant.h"

enum { UNPACKED_BYTES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The string, or NULL: it is too long, or cannot be unpacked. */
static char *unpack(const struct rdb_string *s)
{
	char *text = s->len <= UNPACKED_BYTES_MAX ? malloc(s->len + 1) : NULL;

	if (text && !rdb_unpack(s, text)) {
		free(text);
		return NULL;
	}
	return text;
}

static void read_file(const char *bytes, size_t len)
{
	struct rdb_reader r;
	struct rdb_item item;

	if (!rdb_open(&r, bytes, len))
		return;
	while (rdb_next(&r, &item) == RDB_GOOD) {
		free(unpack(&item.key));
		free(unpack(&item.value));
	}
}

static void restore(char *payload, size_t len)
{
	struct rdb_string s, again;
	char *text, *dumped;
	uint64_t sum;

	if (len < 10) {
		rdb_read_payload(payload, len, &s);
		return;
	}
	memcpy(payload + len - 10, "\x09", 2);
	sum = rdb_crc64(0, payload, len - 8);
	memcpy(payload + len - 8, &sum, sizeof(sum));
	if (rdb_read_payload(payload, len, &s) != RDB_GOOD)
		return;
	text = unpack(&s);
	if (!text)
		return;
	dumped = malloc(rdb_payload_bytes(s.len));
	rdb_write_payload(dumped, text, s.len);
	if (rdb_read_payload(dumped, rdb_payload_bytes(s.len), &again) != RDB_GOOD ||
	    again.kind != RDB_RAW || again.len != s.len || memcmp(again.bytes, text, s.len))
		abort();
	free(dumped);
	free(text);
}

static void load_users(const char *path)
{
	struct tenants tenants = { 0 };
	char why[256];

	tenants_load(&tenants, path, why, sizeof(why));
	tenants_free(&tenants);
}

static void load_map(const char *path)
{
	char why[256];

	cluster_free(cluster_load(path, "0123456789012345678901234567890123456789", why,
				  sizeof(why)));
}

static void load(const char *bytes, size_t len, void (*from)(const char *path))
{
	int fd = memfd_create("text", 0);
	char path[64];

	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	from(path);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *copy;

	if (!len)
		return 0;
	/* Of exactly its size, so that a read beyond it is seen. */
	copy = memcpy(malloc(len - 1), data + 1, len - 1);
	if (data[0] % 4 == 0)
		read_file(copy, len - 1);
	else if (data[0] % 4 == 1)
		restore(copy, len - 1);
	else
		load(copy, len - 1, data[0] % 4 == 2 ? load_users : load_map);
	free(copy);
	return 0;
}
