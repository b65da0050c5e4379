// SPDX-License-Identifier: GPL-2.0
/* rdb.c - see rdb.h */
#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rdb.h"

enum {
	FOOTER_BYTES	= 10,		/* of a payload: version, checksum */
	MAGIC_BYTES	= 9,		/* REDIS and four digits, or VALKEY and three */
	VERSION_MAX	= 12,		/* of Redis; of Valkey until it had numbers of its own */
	VERSION_VALKEY	= 80,
	VERSION_SUM	= 5,		/* the first with a checksum */
	ID_BYTES	= 16,		/* of an entry of a stream */
};

/* ---- checksum ---- */

#define POLYNOMIAL 0x95ac9329ac4bc9b5ULL	/* 0xad93d23594c935a9, bits reversed */

/* [n]: of a byte that n bytes follow. */
static uint64_t table[8][256];

__attribute__((constructor)) static void make_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint64_t sum = i;

		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
		table[0][i] = sum;
	}
	for (uint32_t n = 1; n < 8; n++)
		for (uint32_t i = 0; i < 256; i++)
			table[n][i] = table[n - 1][i] >> 8 ^ table[0][table[n - 1][i] & 0xff];
}

uint64_t rdb_crc64(uint64_t sum, const void *data, size_t len)
{
	const uint8_t *at = data;

	for (; len >= 8; len -= 8, at += 8) {
		uint64_t word, next = 0;

		memcpy(&word, at, sizeof(word));
		word = le64toh(word) ^ sum;
		for (int n = 0; n < 8; n++)
			next ^= table[7 - n][word >> 8 * n & 0xff];
		sum = next;
	}
	while (len--)
		sum = sum >> 8 ^ table[0][(sum ^ *at++) & 0xff];
	return sum;
}

/* ---- reading: lengths and strings ---- */

/* The first error counts. */
__attribute__((format(printf, 2, 3)))
static bool broken(struct rdb_reader *r, const char *format, ...)
{
	size_t used;
	va_list args;

	if (r->error[0])
		return false;
	va_start(args, format);
	vsnprintf(r->error, sizeof(r->error), format, args);
	va_end(args);
	used = strlen(r->error);
	snprintf(r->error + used, sizeof(r->error) - used, " at byte %zu",
		 (size_t)(r->at - r->begin));
	return false;
}

/* The next @len bytes; NULL: there are not so many. */
static const uint8_t *take(struct rdb_reader *r, uint64_t len)
{
	const uint8_t *at = r->at;

	if (len > (uint64_t)(r->end - at)) {
		broken(r, "it ends too early: it is cut off");
		return NULL;
	}
	r->at += len;
	return at;
}

static bool skip(struct rdb_reader *r, uint64_t len)
{
	return take(r, len);
}

/* A number of @len bytes, the highest first. */
static uint64_t big_endian(const uint8_t *at, uint32_t len)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < len; i++)
		value = value << 8 | at[i];
	return value;
}

static uint64_t little_endian(const uint8_t *at, uint32_t len)
{
	uint64_t value = 0;

	for (uint32_t i = len; i--; )
		value = value << 8 | at[i];
	return value;
}

enum { LENGTH_14 = 1, LENGTH_LONG, LENGTH_SPECIAL };	/* the upper two bits; 0: six bits */
enum { LONG_32 = 0x80, LONG_64 = 0x81 };
enum { SPECIAL_INT8, SPECIAL_INT16, SPECIAL_INT32, SPECIAL_LZF };

/* A length, or the number of a special string. */
static bool take_any_length(struct rdb_reader *r, uint64_t *len, bool *special)
{
	const uint8_t *at = take(r, 1), *more;

	if (!at)
		return false;
	*special = *at >> 6 == LENGTH_SPECIAL;
	*len = *at & 0x3f;
	if (*at >> 6 == LENGTH_14) {
		more = take(r, 1);
		*len = more ? *len << 8 | *more : 0;
		return more;
	}
	if (*at >> 6 != LENGTH_LONG)
		return true;
	if (*at != LONG_32 && *at != LONG_64)
		return broken(r, "there is no length");
	more = take(r, *at == LONG_32 ? 4 : 8);
	*len = more ? big_endian(more, *at == LONG_32 ? 4 : 8) : 0;
	return more;
}

static bool take_length(struct rdb_reader *r, uint64_t *len)
{
	bool special;

	if (!take_any_length(r, len, &special))
		return false;
	return !special || broken(r, "there is no length");
}

static bool take_lzf(struct rdb_reader *r, struct rdb_string *s)
{
	s->kind = RDB_LZF;
	if (!take_length(r, &s->packed_len) || !take_length(r, &s->len))
		return false;
	s->bytes = (const char *)take(r, s->packed_len);
	return s->bytes;
}

static bool take_string(struct rdb_reader *r, struct rdb_string *s)
{
	const uint8_t *at;
	uint64_t len;
	bool special;

	*s = (struct rdb_string){ 0 };
	if (!take_any_length(r, &len, &special))
		return false;
	if (!special) {
		s->len = s->packed_len = len;
		s->bytes = (const char *)take(r, len);
		return s->bytes;
	}
	if (len == SPECIAL_LZF)
		return take_lzf(r, s);
	if (len > SPECIAL_LZF)
		return broken(r, "there is no string");
	at = take(r, 1 << len);
	if (!at)
		return false;
	s->kind = RDB_INTEGER;
	s->number = len == SPECIAL_INT8 ? (int8_t)*at : len == SPECIAL_INT16 ?
		    (int16_t)little_endian(at, 2) : (int32_t)little_endian(at, 4);
	s->len = snprintf(NULL, 0, "%d", s->number);
	return true;
}

/*
 * LZF: a byte below 32 says how many bytes follow, less 1. Any other has the length of a copy in
 * its upper 3 bits, less 2, or 7 if a byte with the rest of it follows; and how far back the copy
 * is, less 1, in the other bits and one more byte.
 */
static bool unpack_lzf(const uint8_t *from, const uint8_t *from_end, uint8_t *to, uint64_t to_len)
{
	uint8_t *begin = to, *end = to + to_len;

	while (from < from_end) {
		uint32_t control = *from++, len = control >> 5, back;

		if (!len) {
			len = control + 1;
			if (len > from_end - from || len > end - to)
				return false;
			memcpy(to, from, len);
			to += len;
			from += len;
			continue;
		}
		if (from_end - from < (len == 7 ? 2 : 1))
			return false;
		if (len == 7)
			len += *from++;
		len += 2;
		back = ((control & 0x1f) << 8 | *from++) + 1;
		if (back > to - begin || len > end - to)
			return false;
		/* Byte by byte: the copy may have what it makes itself. */
		for (; len; len--, to++)
			*to = to[-(ptrdiff_t)back];
	}
	return to == end;
}

bool rdb_unpack(const struct rdb_string *s, char *to)
{
	char digits[16];

	if (s->kind == RDB_LZF)
		return unpack_lzf((const uint8_t *)s->bytes,
				  (const uint8_t *)s->bytes + s->packed_len, (uint8_t *)to, s->len);
	if (s->kind == RDB_INTEGER) {
		snprintf(digits, sizeof(digits), "%d", s->number);
		memcpy(to, digits, s->len);
	} else if (s->len) {
		memcpy(to, s->bytes, s->len);
	}
	return true;
}

/* ---- DUMP and RESTORE ---- */

/* What stands for a type in a file; those of Redis 7.4 and of Valkey 9 are in conflict. */
enum {
	TYPE_STRING, TYPE_LIST, TYPE_SET, TYPE_ZSET, TYPE_HASH, TYPE_ZSET_2, TYPE_MODULE_OLD,
	TYPE_MODULE, TYPE_HASH_ZIPMAP = 9, TYPE_LIST_ZIPLIST, TYPE_SET_INTSET, TYPE_ZSET_ZIPLIST,
	TYPE_HASH_ZIPLIST, TYPE_LIST_QUICKLIST, TYPE_STREAM, TYPE_HASH_LISTPACK, TYPE_ZSET_LISTPACK,
	TYPE_LIST_QUICKLIST_2, TYPE_STREAM_2, TYPE_SET_LISTPACK, TYPE_STREAM_3,
	TYPE_VALKEY_HASH_EXPIRY, TYPE_HASH_EXPIRY = 24, TYPE_HASH_LISTPACK_EXPIRY, NR_FILE_TYPES,
};

static bool is_known_version(uint32_t version)
{
	return (version && version <= VERSION_MAX) || version == VERSION_VALKEY;
}

size_t rdb_write_length(uint8_t *to, uint64_t len)
{
	uint32_t nr = 0;

	if (len < 1 << 6) {
		to[nr++] = len;
	} else if (len < 1 << 14) {
		to[nr++] = LENGTH_14 << 6 | len >> 8;
		to[nr++] = len;
	} else {
		int bits = len > UINT32_MAX ? 64 : 32;

		to[nr++] = bits == 64 ? LONG_64 : LONG_32;
		while (bits) {
			bits -= 8;
			to[nr++] = len >> bits;
		}
	}
	return nr;
}

static void write_little_endian(uint8_t *to, uint64_t value, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = value >> 8 * i;
}

size_t rdb_payload_bytes(uint32_t len)
{
	uint8_t head[RDB_HEAD_BYTES_MAX];

	return 1 + rdb_write_length(head, len) + len + FOOTER_BYTES;
}

void rdb_write_payload(char *payload, const void *value, uint32_t len)
{
	uint8_t *begin = (uint8_t *)payload, *to = begin;

	*to++ = TYPE_STRING;
	to += rdb_write_length(to, len);
	if (len)
		memcpy(to, value, len);
	to += len;
	write_little_endian(to, RDB_VERSION, 2);
	to += 2;
	write_little_endian(to, rdb_crc64(0, begin, to - begin), 8);
}

enum rdb_status rdb_read_payload(const char *payload, size_t len, struct rdb_string *value)
{
	const uint8_t *begin = (const uint8_t *)payload, *footer;
	struct rdb_reader r = { .begin = begin, .at = begin };

	if (len < FOOTER_BYTES)
		return RDB_WRONG_SUM;
	r.end = footer = begin + len - FOOTER_BYTES;
	if (!is_known_version(little_endian(footer, 2)) ||
	    rdb_crc64(0, begin, len - 8) != little_endian(footer + 2, 8))
		return RDB_WRONG_SUM;
	if (r.at == r.end || *r.at >= NR_FILE_TYPES)
		return RDB_BROKEN;
	if (*r.at++ != TYPE_STRING)
		return RDB_OTHER_TYPE;
	return take_string(&r, value) && r.at == r.end ? RDB_GOOD : RDB_BROKEN;
}

/* ---- reading: other types ---- */

const char *const rdb_type_names[] = {
	"strings", "lists", "sets", "sorted sets", "hashes", "streams", "values of modules",
	"function libraries",
};

static bool skip_string(struct rdb_reader *r)
{
	struct rdb_string s;

	return take_string(r, &s);
}

static bool skip_lengths(struct rdb_reader *r, uint32_t nr)
{
	uint64_t len;

	while (nr && take_length(r, &len))
		nr--;
	return !nr;
}

/* As text, or one of three bytes that stand for no number and for the infinities. */
static bool skip_real(struct rdb_reader *r)
{
	const uint8_t *len = take(r, 1);

	return len && (*len >= 253 || skip(r, *len));
}

/* So many elements, of what each letter says: a string, a real, a length, 8 or 16 bytes. */
static bool skip_elements(struct rdb_reader *r, const char *what)
{
	uint64_t nr;

	if (!take_length(r, &nr))
		return false;
	for (; nr; nr--) {
		for (const char *c = what; *c; c++) {
			if (!(*c == 's' ? skip_string(r) : *c == 'r' ? skip_real(r) :
			      *c == 'l' ? skip_lengths(r, 1) : skip(r, *c == '8' ? 8 : ID_BYTES)))
				return false;
		}
	}
	return true;
}

enum { MODULE_END, MODULE_SIGNED, MODULE_UNSIGNED, MODULE_FLOAT, MODULE_DOUBLE, MODULE_STRING };

/* What a module has written says of each part what it is. */
static bool skip_module_parts(struct rdb_reader *r)
{
	uint64_t what;
	bool good = true;

	while (good && take_length(r, &what)) {
		switch (what) {
		case MODULE_END:
			return true;
		case MODULE_SIGNED:
		case MODULE_UNSIGNED:
			good = skip_lengths(r, 1);
			break;
		case MODULE_FLOAT:
			good = skip(r, 4);
			break;
		case MODULE_DOUBLE:
			good = skip(r, 8);
			break;
		case MODULE_STRING:
			good = skip_string(r);
			break;
		default:
			return broken(r, "a module's value has a part of kind %llu, which is not "
				      "known", (unsigned long long)what);
		}
	}
	return false;
}

/* Groups of consumers, with what each has pending. @generation: 1 to 3. */
static bool skip_groups(struct rdb_reader *r, int generation)
{
	uint64_t nr_groups, nr_consumers;

	if (!take_length(r, &nr_groups))
		return false;
	for (; nr_groups; nr_groups--) {
		if (!skip_string(r) || !skip_lengths(r, generation > 1 ? 3 : 2) ||
		    !skip_elements(r, "i8l") || !take_length(r, &nr_consumers))
			return false;
		for (; nr_consumers; nr_consumers--) {
			if (!skip_string(r) || !skip(r, generation > 2 ? 16 : 8) ||
			    !skip_elements(r, "i"))
				return false;
		}
	}
	return true;
}

static bool skip_stream(struct rdb_reader *r, int generation)
{
	return skip_elements(r, "ss") && skip_lengths(r, generation > 1 ? 8 : 3) &&
	       skip_groups(r, generation);
}

/* Goes past the value; false: it is broken, or not known. */
static bool skip_value(struct rdb_reader *r, uint8_t type, enum rdb_type *shown)
{
	static const struct {
		enum rdb_type shown;
		const char *elements;	/* "": it is a single string */
	} kinds[NR_FILE_TYPES] = {
		[TYPE_LIST] = { RDB_LIST, "s" }, [TYPE_SET] = { RDB_SET, "s" },
		[TYPE_ZSET] = { RDB_SORTED_SET, "sr" }, [TYPE_HASH] = { RDB_HASH, "ss" },
		[TYPE_ZSET_2] = { RDB_SORTED_SET, "s8" }, [TYPE_HASH_ZIPMAP] = { RDB_HASH, "" },
		[TYPE_LIST_ZIPLIST] = { RDB_LIST, "" }, [TYPE_SET_INTSET] = { RDB_SET, "" },
		[TYPE_ZSET_ZIPLIST] = { RDB_SORTED_SET, "" },
		[TYPE_HASH_ZIPLIST] = { RDB_HASH, "" },
		[TYPE_LIST_QUICKLIST] = { RDB_LIST, "s" },
		[TYPE_HASH_LISTPACK] = { RDB_HASH, "" },
		[TYPE_ZSET_LISTPACK] = { RDB_SORTED_SET, "" },
		[TYPE_LIST_QUICKLIST_2] = { RDB_LIST, "ls" },
		[TYPE_SET_LISTPACK] = { RDB_SET, "" },
		[TYPE_VALKEY_HASH_EXPIRY] = { RDB_HASH, "ss8" },
	};

	if (type < NR_FILE_TYPES && kinds[type].elements) {
		*shown = kinds[type].shown;
		if (type == TYPE_VALKEY_HASH_EXPIRY && !r->is_valkey)
			return broken(r, "type %u is not known", type);
		return *kinds[type].elements ? skip_elements(r, kinds[type].elements) :
					       skip_string(r);
	}
	switch (type) {
	case TYPE_STREAM:
	case TYPE_STREAM_2:
	case TYPE_STREAM_3:
		*shown = RDB_STREAM;
		return skip_stream(r, type == TYPE_STREAM ? 1 : type == TYPE_STREAM_2 ? 2 : 3);
	case TYPE_HASH_EXPIRY:
		*shown = RDB_HASH;
		return skip(r, 8) && skip_elements(r, "lss");
	case TYPE_HASH_LISTPACK_EXPIRY:
		*shown = RDB_HASH;
		return skip(r, 8) && skip_string(r);
	case TYPE_MODULE:
		*shown = RDB_MODULE;
		return skip_lengths(r, 1) && skip_module_parts(r);
	default:
		return broken(r, "type %u is not known", type);
	}
}

/* ---- files ---- */

/* What stands there instead of a type. */
enum {
	OP_SLOT_INFO = 0xf4, OP_FUNCTION, OP_FUNCTION_OLD, OP_MODULE_AUX, OP_IDLE, OP_FREQUENCY,
	OP_AUX, OP_RESIZE_DB, OP_EXPIRY_MS, OP_EXPIRY_S, OP_SELECT_DB, OP_EOF,
};

bool rdb_open(struct rdb_reader *r, const void *bytes, size_t len)
{
	bool is_redis = len >= MAGIC_BYTES && !memcmp(bytes, "REDIS", 5);

	*r = (struct rdb_reader){ .begin = bytes, .at = bytes, .summed = bytes };
	r->end = r->begin + len;
	r->is_valkey = len >= MAGIC_BYTES && !memcmp(bytes, "VALKEY", 6);
	if (!is_redis && !r->is_valkey) {
		snprintf(r->error, sizeof(r->error), "it is no RDB file of Redis or Valkey");
		return false;
	}
	for (uint32_t i = is_redis ? 5 : 6; i < MAGIC_BYTES; i++)
		r->version = r->version * 10 + (r->begin[i] - '0');
	if (!is_known_version(r->version)) {
		snprintf(r->error, sizeof(r->error), "it is an RDB file of version %u; octokvd "
			 "reads versions 1 to %d, and %d of Valkey", r->version, VERSION_MAX,
			 VERSION_VALKEY);
		return false;
	}
	r->at += MAGIC_BYTES;
	return true;
}

static void sum_up(struct rdb_reader *r)
{
	r->sum = rdb_crc64(r->sum, r->summed, r->at - r->summed);
	r->summed = r->at;
}

static enum rdb_status end_of_file(struct rdb_reader *r)
{
	const uint8_t *sum;

	sum_up(r);
	if (r->version >= VERSION_SUM) {
		sum = take(r, 8);
		if (!sum)
			return RDB_BROKEN;
		r->has_sum = little_endian(sum, 8);
		if (r->has_sum && little_endian(sum, 8) != r->sum) {
			broken(r, "its checksum is wrong: it is damaged");
			return RDB_WRONG_SUM;
		}
	}
	if (r->at != r->end) {
		broken(r, "something follows its end");
		return RDB_BROKEN;
	}
	return RDB_END;
}

/* Something that is not a key; false: it is broken. */
static bool take_other(struct rdb_reader *r, uint8_t op, struct rdb_item *item)
{
	const uint8_t *at;

	switch (op) {
	case OP_SELECT_DB:
		return take_length(r, &r->db);
	case OP_EXPIRY_MS:
		at = take(r, 8);
		item->expire_ms = at ? little_endian(at, 8) : 0;
		return at;
	case OP_EXPIRY_S:
		at = take(r, 4);
		item->expire_ms = at ? little_endian(at, 4) * 1000 : 0;
		return at;
	case OP_IDLE:
		return skip_lengths(r, 1);
	case OP_FREQUENCY:
		return skip(r, 1);
	case OP_RESIZE_DB:
		return skip_lengths(r, 2);
	case OP_SLOT_INFO:
		return skip_lengths(r, 3);
	case OP_AUX:
		return skip_string(r) && skip_string(r);
	case OP_MODULE_AUX:
		return skip_lengths(r, 1) && skip_module_parts(r);
	default:
		return broken(r, "type %u is not known", op);
	}
}

enum rdb_status rdb_next(struct rdb_reader *r, struct rdb_item *item)
{
	const uint8_t *op;

	*item = (struct rdb_item){ 0 };
	for (;;) {
		sum_up(r);
		op = take(r, 1);
		if (!op)
			return RDB_BROKEN;
		if (*op == OP_EOF)
			return end_of_file(r);
		if (*op == OP_FUNCTION) {
			item->type = RDB_FUNCTION;
			return skip_string(r) ? RDB_GOOD : RDB_BROKEN;
		}
		if (*op < OP_SLOT_INFO)
			break;
		if (!take_other(r, *op, item))
			return RDB_BROKEN;
	}
	item->db = r->db;
	if (!take_string(r, &item->key))
		return RDB_BROKEN;
	if (*op == TYPE_STRING)
		return take_string(r, &item->value) ? RDB_GOOD : RDB_BROKEN;
	return skip_value(r, *op, &item->type) ? RDB_GOOD : RDB_BROKEN;
}

/* ---- writing files ---- */

size_t rdb_write_start(uint8_t *to)
{
	char magic[MAGIC_BYTES + 1];

	snprintf(magic, sizeof(magic), "REDIS%04d", RDB_VERSION);
	memcpy(to, magic, MAGIC_BYTES);
	return MAGIC_BYTES;
}

size_t rdb_write_db(uint8_t *to, uint64_t db)
{
	*to = OP_SELECT_DB;
	return 1 + rdb_write_length(to + 1, db);
}

size_t rdb_write_before_key(uint8_t *to, uint64_t expire_ms)
{
	uint8_t *at = to;

	if (expire_ms) {
		*at++ = OP_EXPIRY_MS;
		write_little_endian(at, expire_ms, 8);
		at += 8;
	}
	*at++ = TYPE_STRING;
	return at - to;
}

size_t rdb_write_end(uint8_t *to)
{
	*to = OP_EOF;
	return 1;
}
