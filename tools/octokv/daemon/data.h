/* SPDX-License-Identifier: GPL-2.0 */
/* data.h - the file or device with the store: opened by one octokvd, perhaps made first */
#ifndef OKV_DATA_H
#define OKV_DATA_H

#include "device/disk_uring.h"
#include "store/store.h"

/*
 * @size_bytes: of a file that is made. @nr_partitions: of a store that is made; 0: the default.
 * @has_slots: a store that is made has slots
 */
struct data {
	const char *path;
	bool reads_only;
	bool preempts, unfenced;	/* see fence.h */
	bool has_slots;
	uint64_t size_bytes;
	uint32_t nr_partitions;
};

/* A ring and a disk for work before, or instead of, serving. */
struct opened {
	struct io_uring ring;
	struct disk_uring disk;
};

/*
 * Says why on stderr and ends with status 1. A file that was made and is not finished is removed,
 * so that the next start begins as this one did. All below end in it if something is wrong.
 */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/*
 * Opens it for this process alone, and reserves a device for this host, until fence_give(). A file
 * that is not there is made, and is unfinished.
 */
int data_open(const struct data *d, bool *created);

/* Makes an empty store, which finishes a file. */
void data_format(const struct data *d, struct opened *b);

/* Writes copies of the superblock again that do not agree with the others, and says so. */
void data_mend(const struct data *d, struct opened *b, const struct okv_device_info *info);

void data_print_info(const struct data *d, const struct okv_device_info *info);

/* Makes a store of an earlier version one of this version, and says so. */
void data_upgrade(const struct data *d, struct opened *b, bool created);

/* Until it is finished a file that was made is removed by die(). NULL: it is. */
void data_set_unfinished(const char *path);

void data_begin(struct opened *b, const struct data *d, int fd);
void data_end(struct opened *b);

/* Whether it begins with anything but zeros: a file system, a partition table, or data. */
bool data_holds_something(const struct data *d, int fd);

/* Makes a file's name as durable as its content. Returns 0, or -1 with errno. */
int data_sync_folder(const char *path);

/* @memory, unless there is none. */
void *checked(void *memory);

#endif
