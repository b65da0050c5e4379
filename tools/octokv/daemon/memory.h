/* SPDX-License-Identifier: GPL-2.0 */
/* memory.h - how much memory octokvd may use, and what for */
#ifndef OKV_MEMORY_H
#define OKV_MEMORY_H

#include "server/server.h"

enum { MEMORY_BYTES_MIN = 32 << 20 };

/* A store to be served, as its memory sees it. */
struct memory_need {
	uint32_t nr_workers, nr_partitions;
	uint32_t segment_bytes;
	uint64_t index_bytes;		/* by its roots */
};

/*
 * Sets the limit: @bytes, or three quarters of what the process can have, if that is 0. Fills in
 * config.nr_known. Returns 0, or -1 with a message in @why: the index would not fit.
 */
int memory_start(uint64_t bytes, const struct memory_need *need, struct config *config, char *why,
		 size_t why_bytes);

/* How many keys there is memory for, about. */
uint64_t memory_keys(void);

#endif
