/* SPDX-License-Identifier: GPL-2.0 */
/*
 * known.h - records whose keys are in memory, because they were written or read not long ago
 *
 * The index has no keys, so who overwrites or deletes a record, or asks for its length, has to read its header first, and who wants
 * a value that lies apart has to read that as well. Not if the record is known here: a table of fixed size, in which each location has a few
 * places. What is written or read takes one that is empty, or that of another. Keys longer than OKV_KNOWN_KEY_BYTES are not kept.
 *
 * Why what is known is true: what leaves the index is dropped here, before something else can lie there; and the locks of op.c keep in the index
 * what is being read. So a location that is in the index and here is that of one record.
 */
#ifndef OKV_KNOWN_H
#define OKV_KNOWN_H

#include <stdint.h>

struct okv_record_disk;

enum {
	OKV_KNOWN_KEY_BYTES	= 39,
	OKV_KNOWN_WAYS		= 4,
	OKV_NR_KNOWN		= 1 << 14,	/* of a partition: a MiB, whose pages are used when they are needed */
};

struct okv_known {
	uint64_t location : 40;	/* more by one, so that zeroes are nothing */
	uint64_t value_len : 24;
	uint64_t expire_ms;
	uint64_t value_sum;
	uint8_t key_len;
	char key[OKV_KNOWN_KEY_BYTES];
};

_Static_assert(sizeof(struct okv_known) == 64, "a cache line");

struct okv_known_table {
	struct okv_known *places;
	uint32_t nr;
	uint32_t next_victim;	/* of a full set, this one makes room */
};

/* @nr: places, a power of two, OKV_KNOWN_WAYS or more. */
void okv_known_init(struct okv_known_table *t, uint32_t nr);
void okv_known_free(struct okv_known_table *t);

/* What lies at @location, which the index has, or NULL if that is not known; until the next set. */
const struct okv_known *okv_known_find(const struct okv_known_table *t, uint64_t location);

/* @record: but for the key, of which only the length is in it. */
void okv_known_set(struct okv_known_table *t, uint64_t location, const struct okv_record_disk *record, const void *key);

/* It is not in the index any more. */
void okv_known_drop(struct okv_known_table *t, uint64_t location);

#endif
