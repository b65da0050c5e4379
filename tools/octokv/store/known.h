/* SPDX-License-Identifier: GPL-2.0 */
/*
 * known.h - records whose keys are in memory, because they were written or read not long ago
 *
 * The index has no keys. So an operation that overwrites or deletes a record, or asks for its
 * length, has to read the header of the record first. One that wants an apart value has to read the
 * header as well. If the record is known here, neither reads a header. The table has a fixed size,
 * and each location has a few places in it. A record that is written or read takes an empty place,
 * or that of another record. Keys longer than OKV_KNOWN_KEY_BYTES are not kept.
 *
 * Why what is known is true: a record that leaves the index is dropped here before another one can
 * lie at its location. The locks of keys (lock.c) keep a record in the index while it is read. So a
 * location that is both in the index and here is that of one record.
 */
#ifndef OKV_KNOWN_H
#define OKV_KNOWN_H

#include <stdint.h>

struct okv_record_disk;

enum {
	OKV_KNOWN_KEY_BYTES	= 36,
	OKV_KNOWN_WAYS		= 4,
	OKV_NR_KNOWN		= 1 << 14,	/* of a partition: a MiB, in use page by page */
};

struct okv_known {
	uint64_t location : 40;	/* plus one, so that 0 is an empty place */
	uint64_t value_len : 24;	/* both as in the record */
	uint64_t expire_ms;
	uint64_t value_sum;
	uint32_t plain_len : 24;
	uint32_t key_len : 8;
	char key[OKV_KNOWN_KEY_BYTES];
};

_Static_assert(sizeof(struct okv_known) == 64, "a cache line");

struct okv_known_table {
	struct okv_known *places;
	uint32_t nr;
	uint32_t next_victim;	/* the place of a full set that makes room */
};

/* @nr: places, a power of two, OKV_KNOWN_WAYS or more. */
void okv_known_init(struct okv_known_table *t, uint32_t nr);
void okv_known_free(struct okv_known_table *t);

/* What lies at @location, which the index has, or NULL; valid until the next okv_known_set(). */
const struct okv_known *okv_known_find(const struct okv_known_table *t, uint64_t location);

/* @record has all but the key, of which it has the length, and the expiry. */
void okv_known_set(struct okv_known_table *t, uint64_t location,
		   const struct okv_record_disk *record, const void *key, uint64_t expire_ms);

/* If the record at @location is known: it has that expiry from now on. */
void okv_known_expires(struct okv_known_table *t, uint64_t location, uint64_t expire_ms);

/* The record at @location is not in the index any more. */
void okv_known_drop(struct okv_known_table *t, uint64_t location);

#endif
