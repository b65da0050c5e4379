// SPDX-License-Identifier: GPL-2.0
/* data.c - see data.h */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/map.h"
#include "data.h"
#include "device/fence.h"
#include "listen.h"
#include "store/store.h"

enum {
	PROBE_BYTES	= 1 << 20,
	LOCK_TRIES	= 40,
	LOCK_TRY_US	= 50000,
};

/* A file that we have created, and that is no store yet. */
static const char *unfinished;

void die(const char *format, ...)
{
	va_list args;

	if (unfinished)
		unlink(unfinished);
	fence_give();
	fputs("octokvd: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/*
 * After an octokvd was killed, the kernel may still complete its requests, and hold its files for
 * that long: try for some seconds.
 */
static int open_alone(const char *path, int flags)
{
	for (int i = 0; ; i++) {
		int fd = open(path, flags), error;

		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			return fd;
		error = errno;
		if (fd >= 0)
			close(fd);
		errno = error;
		if (i == LOCK_TRIES || (error != EBUSY && error != EWOULDBLOCK))
			return -1;
		usleep(LOCK_TRY_US);
	}
}

void *checked(void *memory)
{
	if (!memory)
		die("%s", strerror(errno));
	return memory;
}

int data_sync_folder(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int result = fd < 0 ? -1 : fsync(fd);

	free(copy);
	if (fd >= 0)
		close(fd);
	return result;
}

/* A file in /dev is in memory, and takes the name of a device that is not connected yet. */
static bool is_in_dev(const char *path)
{
	char *copy = checked(strdup(path));
	char *folder = realpath(dirname(copy), NULL);
	bool is = folder && (!strcmp(folder, "/dev") || !strncmp(folder, "/dev/", 5)) &&
		  strncmp(folder, "/dev/shm", 8) != 0;

	free(folder);
	free(copy);
	return is;
}

static int make_file(const struct data *d, int flags)
{
	const char *path = d->path;
	int fd;

	if (is_in_dev(path))
		die("%s: there is no such device: is it connected?", path);
	fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	unfinished = path;
	close(fd);
	fd = open_alone(path, flags);
	if (fd >= 0 && ftruncate(fd, d->size_bytes))
		die("%s: cannot make it %llu bytes long: %s", path,
		    (unsigned long long)d->size_bytes, strerror(errno));
	return fd;
}

int data_open(const struct data *d, bool *created)
{
	const char *path = d->path;
	int flags = (d->reads_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_DIRECT, fd;
	char why[512];
	struct stat st;

	*created = false;
	if (stat(path, &st)) {
		if (errno != ENOENT || d->reads_only)
			die("%s: %s", path, strerror(errno));
		fd = make_file(d, flags);
		*created = true;
	} else if (S_ISBLK(st.st_mode) || S_ISREG(st.st_mode)) {
		fd = open_alone(path, S_ISBLK(st.st_mode) ? flags | O_EXCL : flags);
	} else {
		die("%s is neither a file nor a block device", path);
	}
	if (fd < 0 && errno == EINVAL)
		die("%s: its file system has no direct I/O", path);
	if (fd < 0)
		die("%s: %s", path, store_refusal(errno));
	if (!d->unfenced && !d->reads_only && !fence_take(fd, path, d->preempts, why, sizeof(why)))
		die("%s", why);
	return fd;
}

void data_begin(struct opened *b, const struct data *d, int fd)
{
	char why[256];
	int result = io_uring_queue_init(64, &b->ring, 0);

	if (result)
		die("%s", ring_refusal(-result, why, sizeof(why)));
	result = disk_uring_init(&b->disk, &b->ring, fd);
	if (result)
		die("%s: %s", d->path, strerror(-result));
}

bool data_holds_something(const struct data *d, int fd)
{
	char *buffer = checked(aligned_alloc(4096, PROBE_BYTES));
	bool found = false;
	ssize_t len, at = 0;

	do {
		len = pread(fd, buffer, PROBE_BYTES, at);
		if (len < 0)
			die("%s: its beginning cannot be read, so it may hold something: %s",
			    d->path, strerror(errno));
		for (ssize_t i = 0; i < len && !found; i++)
			found = buffer[i];
		at += len;
	} while (len && !found && at < PROBE_BYTES);
	free(buffer);
	return found;
}

void data_format(const struct data *d, struct opened *b)
{
	struct okv_format_options options = {
		.nr_partitions = d->nr_partitions, .has_slots = d->has_slots,
	};
	int result = okv_device_format(&b->disk.disk, &options);

	if (result == -EINVAL)
		die("%s: it has no room for so many partitions", d->path);
	if (result == -EDOM)
		die("%s: a store with slots has %d partitions at least: make it larger, or give "
		    "more --partitions", d->path, OKV_SLOT_PARTITIONS_MIN);
	if (result)
		die("%s: %s", d->path, store_refusal(-result));
	if (unfinished && data_sync_folder(unfinished))
		die("the directory of %s: %s", unfinished, strerror(errno));
	unfinished = NULL;
}

void data_mend(const struct data *d, struct opened *b, const struct okv_device_info *info)
{
	int error = info->nr_copies_bad ? okv_device_mend(&b->disk.disk) : 0;

	if (info->nr_copies_bad)
		fprintf(stderr, "octokvd: %s: %u of %u copies of the superblock are damaged; %s\n",
			d->path, info->nr_copies_bad, info->nr_copies,
			error ? "the others serve" : "they are mended");
}

void data_print_info(const struct data *d, const struct okv_device_info *info)
{
	char id[CLUSTER_ID_LEN + 1];

	printf("%s: octokvd store, format %u, %u partitions of %u segments of %u bytes, blocks of "
	       "%u bytes, %llu MiB; %u of %u superblocks good\n",
	       d->path, info->version, info->nr_partitions, info->nr_segments,
	       info->segment_bytes, info->block_bytes, (unsigned long long)(info->size_bytes >> 20),
	       info->nr_copies - info->nr_copies_bad, info->nr_copies);
	cluster_id(info->uuid, id);
	if (info->has_slots)
		printf("%s: it has slots; as a node of a cluster it is %s\n", d->path, id);
}

void data_upgrade(const struct data *d, struct opened *b, bool created)
{
	int result = created ? -ENODATA : okv_device_upgrade(&b->disk.disk);

	switch (result) {
	case 0:
		printf("%s: it is of this version now: no earlier octokvd opens it\n", d->path);
		break;
	case -EALREADY:
		printf("%s: it is of this version already\n", d->path);
		break;
	case -EOPNOTSUPP:
		die("%s: it is of a version too early for that: dump it, and load the dump into "
		    "a new store", d->path);
	case -ENOSPC:
		die("%s: there is no room for journals behind its last segment, or it has become "
		    "smaller: make it %d MiB larger", d->path, OKV_NR_JOURNALS * 4);
	default:
		die("%s: %s", d->path, store_refusal(-result));
	}
}

void data_set_unfinished(const char *path)
{
	unfinished = path;
}

void data_end(struct opened *b)
{
	disk_uring_destroy(&b->disk);
	io_uring_queue_exit(&b->ring);
}
