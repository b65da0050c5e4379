/* SPDX-License-Identifier: GPL-2.0 */
/* offline.h - what is done with a store that is not served: --check, --dump, --load */
#ifndef OKV_OFFLINE_H
#define OKV_OFFLINE_H

#include "device/disk_uring.h"
#include "rdb/rdb.h"

enum { ALL_USERS = -1 };

/**
 * struct offline - a store, and what is to be done with it
 * @data:	its name, for messages
 * @file:	an RDB file
 * @user_id:	only the keys of this user (0 where there are none): they are database 0 of @file.
 *		ALL_USERS: the keys of each user are the database with its ID
 * @compresses:	load values compressed, where that pays
 * @strings_only: load the strings of a file that has something else, too
 * @salvage:	dump what all segments have, without the index
 * @force:	dump a store with damaged records without them; load into one that has keys
 * @stores, @nr_stores: to be dumped, instead of that on @disk
 * @why:	what went wrong
 * @nr_keys, @nr_damaged, @nr_lost_partitions: what a dump has, and has left out
 */
struct offline {
	const char *data, *file;
	struct okv_disk *disk;
	struct io_uring *ring;
	int32_t user_id;
	bool compresses, strings_only, force, salvage;
	struct okv_store **stores;
	uint32_t nr_stores;
	char why[512];
	uint64_t nr_keys, nr_damaged;
	uint32_t nr_lost_partitions;

	/* Of a load: the file, and what is in it. */
	const void *bytes;
	uint64_t nr_bytes;
	uint64_t nr[RDB_NR_TYPES];
	uint64_t nr_expired;
};

/* All of these return 0, or -1 with a sentence in @why. */

/* Reads all records. Prints what is damaged, and where; that is no error, but sets @damaged. */
int offline_check(struct offline *o, bool *damaged);

/* The file is there as a whole, or as it was before. */
int offline_dump(struct offline *o);

/* Removes what is there of a dump of @data whose process was killed. */
void offline_forget(const char *file, const char *data);

/*
 * First offline_survey(), which reads all of the file, and then offline_load(). If that fails, the
 * store is as empty as before, unless it had keys.
 */
int offline_survey(struct offline *o);
int offline_load(struct offline *o);

#endif
