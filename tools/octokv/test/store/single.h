/* SPDX-License-Identifier: GPL-2.0 */
/* single.h - for the store's unit tests: one store of one partition, which ends and opens again */
#ifndef STORE_SINGLE_H
#define STORE_SINGLE_H

#include "user.h"

static struct sim_disk disk;
static struct okv_store *store;
static struct okv_partition *p;
static struct okv_open_options how_to_open;	/* the test says it */

static inline void open_store(void)
{
	EXPECT(!okv_store_open(&store, &disk.disk, &how_to_open));
	p = okv_store_partition(store, 0);
}

static inline void end(void)
{
	okv_store_close(store);
	sim_disk_free(&disk);
}

static inline void reopen(void)
{
	okv_store_close(store);
	open_store();
}

static inline void cut(void)
{
	user_cut(&disk, store);
	open_store();
}

static inline struct okv_stats stats(void)
{
	return stats_of(store);
}

#endif
