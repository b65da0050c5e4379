/* SPDX-License-Identifier: GPL-2.0 */
/*
 * index.h - where the records of a partition lie: 16 bytes of memory for each key
 *
 * An entry has the location of a record, its size, its tenant and 44 bits of the hash of its key,
 * the tag. The key itself is on the device only: entries that match are candidates, and the caller
 * reads them and compares keys.
 *
 * The table is cut into shards by the bits of the hash that follow those of the partition. A shard
 * is an array of its own with open addressing. It grows by a sixth when it is 7/8 full and shrinks
 * below 11/16, so an entry costs 18.3 to 23.3 bytes. With thousands of entries to a shard a rebuild
 * is short, no operation waits for a rebuild of the whole table, and nothing needs twice the
 * memory. The directory adds 32 bytes for each MiB of the device.
 *
 * An entry says whether its record expires, and not when. Where that has changed since the record
 * was written, the shard has its expiry beside the entries, in 16 bytes or some more.
 *
 * Shard and tag are all that the index knows of a hash: the identity. Operations with the same
 * identity exclude each other (lock.c). So a caller can walk candidates in the order of their
 * locations, over any number of reads.
 */
#ifndef OKV_INDEX_H
#define OKV_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "store.h"

enum {
	OKV_LOCATION_BITS	= 40,
	OKV_TENANT_BITS		= 10,
	OKV_TAG_BITS		= 44,
	OKV_SHARD_BITS_MAX	= 20 - 8,	/* with the partition's, they fit beside the tag */
};

/*
 * An entry is the same in memory and in a checkpoint. @size is that of the record in units of
 * OKV_ALIGN_BYTES, 0 for no entry. @apart is that of the record (format.h).
 */
struct okv_entry {
	uint64_t location : OKV_LOCATION_BITS;
	uint64_t tenant : OKV_TENANT_BITS;
	uint64_t expires : 1;
	uint64_t apart : 13;
	uint64_t size : 20;
	uint64_t tag : OKV_TAG_BITS;
};

/* What the log has said of a record's expiry since: the same in memory and in a checkpoint. */
struct okv_expiry {
	uint64_t location;
	uint64_t expire_ms;
};

/* In the order of their locations. */
struct okv_expiries {
	uint32_t nr, nr_max;
	struct okv_expiry at[];
};

/* @due_ms: no record of the shard expires before that Unix time; 0: not known. */
struct okv_shard {
	struct okv_entry *entries;
	struct okv_expiries *expiries;	/* NULL: none */
	uint32_t nr_slots;
	uint32_t nr_entries;
	uint64_t due_ms;
};

struct okv_index {
	struct okv_shard *shards;
	uint32_t partition_bits;
	uint32_t shard_bits;
	uint64_t nr_entries;
	uint64_t nr_slots;
	uint64_t nr_expiries;		/* that there are, and that there is memory for */
	uint64_t nr_expiries_max;
};

void okv_index_init(struct okv_index *ix, uint32_t partition_bits, uint64_t partition_bytes);
void okv_index_free(struct okv_index *ix);

static inline uint32_t okv_index_nr_shards(const struct okv_index *ix)
{
	return 1U << ix->shard_bits;
}

uint32_t okv_index_shard(const struct okv_index *ix, uint64_t hash);
uint64_t okv_index_identity(const struct okv_index *ix, uint64_t hash);

/* A hash with this identity: the reverse of the two functions above. */
uint64_t okv_index_hash(const struct okv_index *ix, uint64_t partition, uint32_t shard,
			uint64_t tag);

/*
 * The candidate of a tenant, or of OKV_ALL_TENANTS, with the smallest location from @from on; false
 * if there is none.
 */
bool okv_index_find(const struct okv_index *ix, uint64_t hash, uint32_t tenant, uint64_t from,
		    struct okv_entry *found);

/*
 * The entry of exactly that record of a key with that hash, or NULL; valid until the next add or
 * remove.
 */
struct okv_entry *okv_index_at(const struct okv_index *ix, uint64_t hash, uint64_t location);

/* Make room for so many entries in an empty shard. */
void okv_index_reserve(struct okv_index *ix, uint32_t shard, uint32_t nr_entries);
void okv_index_add(struct okv_index *ix, uint32_t shard, const struct okv_entry *entry);

/* Its expiry goes along. */
void okv_index_remove(struct okv_index *ix, uint32_t shard, struct okv_entry *entry);

/* Remove all entries of a tenant from a shard. */
void okv_index_clear(struct okv_index *ix, uint32_t shard, uint32_t tenant);

/* The expiry of the record at @location, if that is another than the record says; else NULL. */
const struct okv_expiry *okv_index_expiry(const struct okv_index *ix, uint64_t hash,
					  uint64_t location);

/* Set it. The shard has the entry of that record. */
void okv_index_set_expiry(struct okv_index *ix, uint32_t shard, uint64_t location,
			  uint64_t expire_ms);

/*
 * A walk over a shard goes by places. A place is a tag whose low half, which says where an entry
 * lies, comes first: so entries lie in about that order, however large the shard is.
 */
static inline uint64_t okv_index_tag_at(uint64_t place)
{
	return (place & ((1 << (OKV_TAG_BITS - 32)) - 1)) << 32 | place >> (OKV_TAG_BITS - 32);
}

/* Places of entries, in order and each once; @at is to be freed. */
struct okv_places {
	uint64_t *at;
	uint32_t nr;
	uint32_t nr_slots;		/* that were looked at */
	bool is_all;			/* there are no more in the shard */
};

/* Entries of a tenant, or of OKV_ALL_TENANTS, whose tags are @tag in the bits of @mask. */
struct okv_which {
	uint32_t tenant;
	uint64_t mask, tag;
};

static inline bool okv_index_is(const struct okv_entry *e, const struct okv_which *which)
{
	return e->size && (e->tag & which->mask) == which->tag &&
	       (e->tenant == which->tenant || which->tenant == OKV_ALL_TENANTS);
}

/* The places of such entries from @from on: some more than @nr_wanted, or all that remain. */
void okv_index_places(const struct okv_index *ix, uint32_t shard, const struct okv_which *which,
		      uint64_t from, uint32_t nr_wanted, struct okv_places *found);

uint64_t okv_index_bytes(const struct okv_index *ix);

/* What its entries and expiries take in a checkpoint. */
static inline uint64_t okv_index_disk_bytes(const struct okv_index *ix)
{
	return ix->nr_entries * sizeof(struct okv_entry) +
	       ix->nr_expiries * sizeof(struct okv_expiry);
}

#endif
