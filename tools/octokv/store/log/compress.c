// SPDX-License-Identifier: GPL-2.0
/*
 * compress.c - values that take fewer blocks: see compress.h
 */
#include <lz4.h>

#include "../mem.h"
#include "../partition.h"
#include "compress.h"

void okv_op_measure(struct okv_op *op)
{
	bool moves = op->kind == OKV_OP_RELOCATE && !okv_op_removes(op);

	if (!op->compressed) {
		op->written_len = op->value_len;
		op->plain_len = moves ? op->plain_len : 0;
	}
	op->record_bytes = okv_record_bytes(op->partition->disk->block_bytes, op->key_len,
					    op->written_len);
}

static bool may_pay(const struct okv_op *op)
{
	return op->compresses && !okv_op_removes(op) && !op->leaves_value &&
	       op->value_len >= OKV_APART_BYTES_MIN && op->value_len <= OKV_PLAIN_BYTES_MAX &&
	       okv_has_small_records(&op->partition->layout->super);
}

static void compress(struct okv_op *op)
{
	uint32_t most = op->value_len - op->value_len / 8;
	int bytes;

	op->compressed = mem_alloc(most);
	bytes = LZ4_compress_default(op->value, op->compressed, op->value_len, most);
	if (bytes > 0) {
		op->written_len = bytes;
		op->plain_len = op->value_len;
		return;
	}
	mem_free(op->compressed);
	op->compressed = NULL;
}

void okv_op_compress(struct okv_op *op)
{
	if (!op->compressed && may_pay(op))
		compress(op);
	okv_op_measure(op);
}

void *okv_plain(const void *from, uint32_t from_len, uint32_t plain_len)
{
	char *memory = mem_alloc(plain_len + 2 * OKV_ROOM_BYTES);
	int bytes = LZ4_decompress_safe(from, memory + OKV_ROOM_BYTES, from_len, plain_len);

	if (bytes >= 0 && (uint32_t)bytes == plain_len)
		return memory;
	mem_free(memory);
	return NULL;
}
