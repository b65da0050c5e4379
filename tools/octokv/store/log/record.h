/* SPDX-License-Identifier: GPL-2.0 */
/*
 * record.h - whether a record, a value or a batch that was read from the device is good
 */
#ifndef OKV_RECORD_H
#define OKV_RECORD_H

#include "../partition.h"

/* Header and key of the record at @location, of which @bytes are there, at least a header. */
bool okv_record_is_good(const struct okv_partition *p, const struct okv_record_disk *record,
			uint64_t location, uint32_t bytes);

bool okv_value_is_good(const struct okv_partition *p, const void *value, uint32_t value_len,
		       uint64_t sum);

/* The header of a batch at @offset of @segment. */
bool okv_batch_is_good(const struct okv_partition *p, const struct okv_batch_disk *batch,
		       uint32_t segment, uint32_t offset);

/*
 * Where the next good batch begins, in what was read of @segment, from @from on and before @to;
 * @to: there is none. One in a pack may begin anywhere.
 */
uint32_t okv_batch_find(const struct okv_partition *p, const char *buf, uint32_t segment,
			uint32_t from, uint32_t to);

/* What belongs to a batch, so that its records lie within. */
struct okv_bounds okv_batch_bounds(const struct okv_partition *p, const struct okv_batch_disk *b,
				   uint32_t offset);

/*
 * The record at @offset of @segment, which is in @buf, or NULL. Header and key are good, and all
 * of the record lies within its batch. Nothing has looked at the value yet.
 */
const struct okv_record_disk *okv_record_at(const struct okv_partition *p, const char *buf,
					    uint32_t segment, uint32_t offset,
					    const struct okv_bounds *bounds);

#endif
