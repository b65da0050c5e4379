// SPDX-License-Identifier: GPL-2.0
/*
 * batch.c - a batch of the log, as it lies on the device: see batch.h
 */
#include <string.h>

#include "batch.h"

uint32_t okv_batch_align_of(const struct okv_partition *p, const struct okv_op *op)
{
	uint32_t bytes = okv_apart_bytes(p->disk->block_bytes, op->written_len);
	uint32_t align_bytes = bytes & -bytes;

	return align_bytes < OKV_APART_ALIGN_BYTES ? align_bytes : OKV_APART_ALIGN_BYTES;
}

static void write_value(const struct okv_op *op, char *to, uint32_t bytes)
{
	if (op->written_len)
		memcpy(to, okv_op_written(op), op->written_len);
	memset(to + op->written_len, 0, bytes - op->written_len);
}

/*
 * The apart values, those of the largest alignment first, so that nothing lies between them;
 * op->apart becomes the block of the segment in which each begins.
 */
static void write_apart(struct okv_batch *b)
{
	uint32_t block_bytes = b->partition->disk->block_bytes, at = 0;
	char *values = (char *)b->buf + okv_round_up(b->head_bytes, block_bytes);

	for (uint32_t align_bytes = OKV_APART_ALIGN_BYTES;
	     align_bytes >= block_bytes && at < b->apart_bytes; align_bytes /= 2) {
		for (struct okv_op *op = b->ops.head; op; op = op->next) {
			uint32_t bytes = okv_apart_bytes(block_bytes, op->written_len);

			if (okv_batch_align_of(b->partition, op) != align_bytes)
				continue;
			write_value(op, values + at, bytes);
			op->apart = (b->value_offset_bytes + at) / block_bytes;
			at += bytes;
		}
	}
}

static enum okv_record_kind kind_of(const struct okv_op *op)
{
	if (op->kind == OKV_OP_CLEAR)
		return OKV_RECORD_CLEAR;
	if (okv_op_removes(op))
		return OKV_RECORD_DELETE;
	if (op->leaves_value)
		return OKV_RECORD_EXPIRY;
	return op->kind == OKV_OP_RELOCATE && okv_has_small_records(&op->partition->layout->super) ?
	       OKV_RECORD_MOVE : OKV_RECORD_PUT;
}

/* Write the head of a record at that offset of a batch; returns its size. */
static uint32_t write_record(struct okv_batch *b, struct okv_op *op, uint32_t offset)
{
	struct okv_partition *p = b->partition;
	uint32_t block_bytes = p->disk->block_bytes;
	uint32_t bytes = okv_head_bytes(block_bytes, op->key_len, op->written_len);
	struct okv_record_disk *r = (void *)((char *)b->buf + offset);
	enum okv_record_kind kind = kind_of(op);
	bool is_apart = okv_is_apart(block_bytes, op->written_len);
	char *inner;

	op->apart = is_apart ? op->apart - (b->offset_bytes + offset) / block_bytes : 0;
	/* A record that is moved keeps its sum: a value that was wrong must stay so. */
	if (op->kind != OKV_OP_RELOCATE || kind == OKV_RECORD_DELETE)
		op->sum = okv_sum(okv_op_written(op), op->written_len, p->layout->super.secret);

	op->to = okv_location(p, b->segment, b->offset_bytes + offset);
	*r = (struct okv_record_disk){
		.magic = OKV_RECORD_MAGIC,
		.kind = kind,
		.tenant = op->tenant,
		.key_len = op->key_len,
		.apart = op->apart,
		.value_len = op->written_len,
		.plain_len = op->plain_len,
		.hash = op->hash,
		.expire_ms = okv_op_removes(op) ? 0 : op->expire_ms,
		.prev = op->present ? op->at : OKV_NOWHERE,
		.value_sum = op->sum,
		.seq = b->seq,
	};
	memcpy(r + 1, op->key, op->key_len);
	inner = (char *)(r + 1) + op->key_len;
	if (is_apart)
		memset(inner, 0, (char *)r + bytes - inner);
	else
		write_value(op, inner, (char *)r + bytes - inner);
	r->sum = okv_sum_behind(r, sizeof(*r) + r->key_len, okv_location_seed(p, op->to));
	return bytes;
}

static enum okv_batch_form form_of(const struct okv_batch *b)
{
	if (b->place == OKV_OF_MOVES)
		return OKV_BATCH_OF_MOVES;
	return b->pack ? OKV_BATCH_PACKED : OKV_BATCH_ALONE;
}

void okv_batch_write(struct okv_batch *b, uint64_t durable)
{
	struct okv_partition *p = b->partition;
	struct okv_batch_disk *header = b->buf;
	uint32_t offset = sizeof(*header), block_bytes = p->disk->block_bytes;
	uint64_t location;

	write_apart(b);
	for (struct okv_op *op = b->ops.head; op; op = op->next)
		offset += write_record(b, op, offset);
	memset((char *)b->buf + offset, 0, okv_round_up(offset, block_bytes) - offset);
	*header = (struct okv_batch_disk){
		.magic = OKV_BATCH_MAGIC,
		.partition = p->number,
		.seq = b->seq,
		.life = p->segments[b->segment].life,
		.durable = durable,
		.bytes = b->pack ? b->head_bytes :
				   okv_batch_bytes(block_bytes, b->head_bytes, b->apart_bytes),
		.nr_records = b->nr_records,
		.head_bytes = b->head_bytes,
		.form = form_of(b),
		.generation = p->generation,
	};
	location = okv_location(p, b->segment, b->offset_bytes);
	header->sum = okv_sum_behind(header, sizeof(*header), okv_location_seed(p, location));
}
