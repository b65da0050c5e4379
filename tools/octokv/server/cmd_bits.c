// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_bits.c - commands on the bits of a value: GETBIT, SETBIT, BITCOUNT
 *
 * Bit 0 is the highest bit of the first byte. Bits beyond the end of a value are 0.
 */
#include "command.h"
#include "store/mem.h"

#define NOT_INT "ERR value is not an integer or out of range"
#define BAD_OFFSET "ERR bit offset is not an integer or out of range"

enum { BITS = 8, WORD_BITS = 64 };

#define MAX_BITS ((int64_t)MAX_VALUE_BYTES * BITS)

/* Reads the offset of a bit, which is below @limit. False: the request has failed. */
static bool parse_offset(struct request *r, int64_t limit, int64_t *offset)
{
	if (req_int(r, 2, offset) && *offset >= 0 && *offset < limit)
		return true;
	request_fail(r, BAD_OFFSET);
	return false;
}

static bool bit_of(const char *value, uint64_t len, uint64_t offset)
{
	return offset / BITS < len &&
	       ((uint8_t)value[offset / BITS] >> (BITS - 1 - offset % BITS) & 1);
}

static void read_value(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_GET)->want_value = true;
	request_submit(r);
}

/* As other servers do, which have longer values: 4 Gbit. */
static void start_getbit(struct request *r)
{
	int64_t offset;

	if (parse_offset(r, 1LL << 32, &offset))
		read_value(r);
}

static void finish_getbit(struct request *r)
{
	const struct resp_chunk *value = r->ops->value;
	int64_t offset;

	if (request_status(r, r->ops))
		return;
	req_int(r, 2, &offset);
	resp_int(&r->out, value && bit_of(value->data + value->start, resp_chunk_len(value),
					  offset));
}

/* At the owner: the offset is in kv.number, which becomes the old bit, and the new one in kv.how */
static enum okv_status update_setbit(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	uint64_t offset = kv->number, len = offset / BITS + 1;
	uint8_t mask = 1 << (BITS - 1 - offset % BITS);
	char *fresh;

	if (!op->out && kv->no_new_key)
		return OKV_NOT_FOUND;
	if (len < op->out_len)
		len = op->out_len;
	fresh = mem_zalloc(len);
	if (op->out_len)
		memcpy(fresh, op->out, op->out_len);
	kv->number = bit_of(fresh, len, offset);
	if (kv->how)
		fresh[offset / BITS] |= mask;
	else
		fresh[offset / BITS] &= ~mask;
	kv->fresh = fresh;
	op->value = fresh;
	op->value_len = len;
	return OKV_OK;
}

static void start_setbit(struct request *r)
{
	int64_t offset, bit;

	if (!parse_offset(r, MAX_BITS, &offset))
		return;
	if (!req_int(r, 3, &bit) || bit < 0 || bit > 1) {
		request_fail(r, "ERR bit is not an integer or out of range");
		return;
	}
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_UPDATE)->op.update = update_setbit;
	r->ops->number = offset;
	r->ops->how = bit;
	r->ops->adds_bytes = offset / BITS + 1;
	request_submit(r);
}

static void finish_setbit(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_int(&r->out, r->ops->number);
}

/* ---- BITCOUNT ---- */

/*
 * Reads the range of BITCOUNT, in bits if @in_bits becomes true. NULL, or what is wrong with it.
 * Without a range it is all of the value.
 */
static const char *parse_range(const struct request *r, int64_t *from, int64_t *to, bool *in_bits)
{
	*from = 0;
	*to = -1;
	*in_bits = req_nr(r) == 5 && req_is(r, 4, "bit");
	if (req_nr(r) > 2 && !req_int(r, 2, from))
		return NOT_INT;
	if (req_nr(r) > 3 && !req_int(r, 3, to))
		return NOT_INT;
	if (req_nr(r) > 5 || (req_nr(r) == 5 && !*in_bits && !req_is(r, 4, "byte")))
		return "ERR syntax error";
	return NULL;
}

static void start_bitcount(struct request *r)
{
	const char *wrong;
	int64_t from, to;
	bool in_bits;

	wrong = parse_range(r, &from, &to, &in_bits);
	if (wrong)
		request_fail(r, "%s", wrong);
	else
		read_value(r);
}

/* How many bits of @from .. @to are set. */
static int64_t count_bits(const char *value, int64_t from, int64_t to)
{
	uint64_t word;
	int64_t nr = 0;

	for (; from <= to && from % BITS; from++)
		nr += bit_of(value, from / BITS + 1, from);
	for (; from + WORD_BITS - 1 <= to; from += WORD_BITS) {
		memcpy(&word, value + from / BITS, sizeof(word));
		nr += __builtin_popcountll(word);
	}
	for (; from <= to; from++)
		nr += bit_of(value, from / BITS + 1, from);
	return nr;
}

static void finish_bitcount(struct request *r)
{
	const struct resp_chunk *value = r->ops->value;
	int64_t len = value ? resp_chunk_len(value) : 0, from, to;
	bool in_bits, both_negative;

	if (request_status(r, r->ops))
		return;
	parse_range(r, &from, &to, &in_bits);
	len *= in_bits ? BITS : 1;
	both_negative = from < 0 && to < 0 && from > to;
	from = from < 0 ? from + len : from;
	to = to < 0 ? to + len : to;
	from = from < 0 ? 0 : from;
	to = to < 0 ? 0 : to;
	to = to >= len ? len - 1 : to;
	if (both_negative || from > to) {
		resp_int(&r->out, 0);
		return;
	}
	if (!in_bits) {
		from *= BITS;
		to = to * BITS + BITS - 1;
	}
	resp_int(&r->out, count_bits(value->data + value->start, from, to));
}

const struct command bit_commands[] = {
	{ "getbit", 3, 0, 1, 1, 1, start_getbit, finish_getbit },
	{ "setbit", 4, CMD_WRITE, 1, 1, 1, start_setbit, finish_setbit },
	{ "bitcount", -2, 0, 1, 1, 1, start_bitcount, finish_bitcount },
	{ NULL },
};
