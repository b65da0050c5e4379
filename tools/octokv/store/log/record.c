// SPDX-License-Identifier: GPL-2.0
/*
 * record.c - whether a record or a batch that was read is good: see record.h
 */
#include "record.h"

bool okv_value_is_good(const struct okv_partition *p, const void *value, uint32_t value_len,
		       uint64_t sum)
{
	return okv_sum(value, value_len, p->layout->super.secret) == sum;
}

static bool is_plausible(const struct okv_partition *p, const struct okv_record_disk *record,
			 uint32_t bytes)
{
	return record->magic == OKV_RECORD_MAGIC && record->key_len &&
	       record->key_len <= OKV_KEY_BYTES_MAX && sizeof(*record) + record->key_len <= bytes &&
	       (!record->plain_len || (record->value_len && record->plain_len > record->value_len &&
				       record->plain_len <= OKV_PLAIN_BYTES_MAX)) &&
	       okv_is_apart(p->disk->block_bytes, record->value_len) == (record->apart != 0);
}

bool okv_record_is_good(const struct okv_partition *p, const struct okv_record_disk *record,
			uint64_t location, uint32_t bytes)
{
	uint64_t sum;

	if (!is_plausible(p, record, bytes))
		return false;
	sum = okv_sum_behind(record, sizeof(*record) + record->key_len,
			     okv_location_seed(p, location));
	return record->sum == sum;
}

bool okv_batch_is_good(const struct okv_partition *p, const struct okv_batch_disk *b,
		       uint32_t segment, uint32_t offset)
{
	uint64_t seed;

	if (b->magic != OKV_BATCH_MAGIC || b->partition != p->number ||
	    b->head_bytes < sizeof(*b) || b->bytes < b->head_bytes ||
	    b->bytes > p->segment_bytes - offset ||
	    (b->form == OKV_BATCH_OF_MOVES && !okv_parts_moves(&p->layout->super)))
		return false;
	seed = okv_seed(&p->layout->super, p->number, okv_location(p, segment, offset), b->life);
	return b->sum == okv_sum_behind(b, sizeof(*b), seed);
}

uint32_t okv_batch_find(const struct okv_partition *p, const char *buf, uint32_t segment,
			uint32_t from, uint32_t to)
{
	uint32_t step = p->layout->super.journal_bytes ? OKV_ALIGN_BYTES : p->disk->block_bytes;

	for (uint32_t at = okv_round_up(from, step); at < to; at += step) {
		const struct okv_batch_disk *b = (const void *)(buf + at);

		if (b->magic == OKV_BATCH_MAGIC && p->segment_bytes - at >= sizeof(*b) &&
		    okv_batch_is_good(p, b, segment, at))
			return at;
	}
	return to;
}

struct okv_bounds okv_batch_bounds(const struct okv_partition *p, const struct okv_batch_disk *b,
				   uint32_t offset)
{
	return (struct okv_bounds){
		.head_end = offset + b->head_bytes,
		.end = b->form == OKV_BATCH_PACKED ? p->segment_bytes : offset + b->bytes,
	};
}

const struct okv_record_disk *okv_record_at(const struct okv_partition *p, const char *buf,
					    uint32_t segment, uint32_t offset,
					    const struct okv_bounds *bounds)
{
	const struct okv_record_disk *record = (const void *)(buf + offset);
	uint32_t left = bounds->head_end - offset, block_bytes = p->disk->block_bytes, value_offset;

	if (offset > bounds->head_end || left < sizeof(*record) ||
	    !okv_record_is_good(p, record, okv_location(p, segment, offset), left) ||
	    record->value_len > p->layout->value_bytes_max || record->tenant >= OKV_NR_TENANTS ||
	    okv_head_bytes(block_bytes, record->key_len, record->value_len) > left)
		return NULL;
	value_offset = okv_value_offset(block_bytes, offset, record);
	if (record->apart && (value_offset < bounds->head_end || value_offset > bounds->end ||
			      record->value_len > bounds->end - value_offset))
		return NULL;
	return record;
}
