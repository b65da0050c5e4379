/* SPDX-License-Identifier: GPL-2.0 */
/*
 * map.h - the entries of the index, and the sums that change with them
 *
 * The live bytes of a segment and the usage of a tenant change here, together with the index.
 */
#ifndef OKV_MAP_H
#define OKV_MAP_H

#include "partition.h"

/* Add the entry of the record at @location. */
void okv_map_add(struct okv_partition *p, const struct okv_record_disk *record, uint64_t location);

/* Remove the entry of the record at @location; false if there is none. */
bool okv_map_remove(struct okv_partition *p, uint64_t hash, uint64_t location);

/*
 * A record with this hash expires at that time, so its shard is to be swept then. 0: it is not
 * known when.
 */
void okv_map_expires(struct okv_partition *p, uint64_t hash, uint64_t expire_ms);

/*
 * Remove all entries of a tenant; returns how many it has looked at. That is all of the index, or a
 * few, if the tenant has had few keys since it was cleared.
 */
uint64_t okv_map_clear(struct okv_partition *p, uint16_t tenant);

/* If the index has the record at @location: it has that expiry from now on, or none with 0. */
void okv_map_set_expiry(struct okv_partition *p, uint64_t hash, uint64_t location,
			uint64_t expire_ms);

/* The expiry of the record at @location, which itself says @expire_ms. */
uint64_t okv_map_expiry(const struct okv_partition *p, uint64_t hash, uint64_t location,
			uint64_t expire_ms);

/* No tenant has anything, before another try of a recovery. */
void okv_map_forget_usage(struct okv_partition *p);

/* The usage of a partition ends. */
void okv_map_free_usage(struct okv_partition *p);

/* Add an entry of a checkpoint to @shard; false if no record can be where it says. */
bool okv_map_load(struct okv_partition *p, uint32_t shard, const struct okv_entry *entry);

#endif
