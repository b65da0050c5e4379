/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rdb.h - strings in the format of Redis's dump files (RDB), and of what DUMP replies
 *
 * A string is its length and its bytes, or an integer, or bytes packed by LZF. What DUMP replies is
 * a type, a string, the version and a checksum, CRC-64 with the polynomial of Jones. A file is a
 * magic, keys with their values, and a checksum of all.
 *
 * What is read lies in memory, and is not copied: struct rdb_string says where it is. The reader
 * knows the layout of all types of Redis and Valkey, so that it can go past those that octokvd does
 * not have. What is written has strings as they are, not packed, and the version of Redis 5, which
 * is the earliest that has the options of a file that are written.
 */
#ifndef OKV_RDB_H
#define OKV_RDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RDB_VERSION		= 9,
	RDB_AROUND_BYTES	= 16,	/* of a payload, besides the value, at most */
	RDB_HEAD_BYTES_MAX	= 16,	/* in front of a value: expiry, type, length */
	RDB_ERROR_BYTES		= 160,
};

enum rdb_kind { RDB_RAW, RDB_INTEGER, RDB_LZF };

/**
 * struct rdb_string - a string in memory that was read
 * @len:	of the string
 * @bytes, @packed_len: where it is, unless it is an integer. @packed_len is less than @len for LZF
 * @number:	the integer
 */
struct rdb_string {
	enum rdb_kind kind;
	uint64_t len;
	const char *bytes;
	uint64_t packed_len;
	int32_t number;
};

enum rdb_status {
	RDB_GOOD,
	RDB_END,		/* of a file; its checksum is right, or it has none */
	RDB_OTHER_TYPE,		/* a payload of something else than a string */
	RDB_WRONG_SUM,		/* or a version that is not known */
	RDB_BROKEN,
};

uint64_t rdb_crc64(uint64_t sum, const void *data, size_t len);

/* Writes the @string, which has string.len bytes then, to @to. False: it is broken. */
bool rdb_unpack(const struct rdb_string *string, char *to);

/* ---- DUMP and RESTORE ---- */

size_t rdb_payload_bytes(uint32_t len);
void rdb_write_payload(char *to, const void *value, uint32_t len);
enum rdb_status rdb_read_payload(const char *payload, size_t len, struct rdb_string *value);

/* ---- files ---- */

enum rdb_type {
	RDB_STRING, RDB_LIST, RDB_SET, RDB_SORTED_SET, RDB_HASH, RDB_STREAM, RDB_MODULE,
	RDB_FUNCTION,		/* a library of functions: it has no key */
	RDB_NR_TYPES,
};

/* Of several, for people. */
extern const char *const rdb_type_names[RDB_NR_TYPES];

/**
 * struct rdb_item - what rdb_next() has found
 * @value:	of a string; else empty
 * @expire_ms:	Unix time, 0: never
 */
struct rdb_item {
	enum rdb_type type;
	uint64_t db;
	uint64_t expire_ms;
	struct rdb_string key, value;
};

/**
 * struct rdb_reader - a file that is read from memory
 * @at, @end:	what is left
 * @has_sum:	after RDB_END: there was a checksum
 * @error:	what is wrong, after RDB_BROKEN or RDB_WRONG_SUM
 */
struct rdb_reader {
	const uint8_t *begin, *at, *end, *summed;
	uint64_t sum;
	uint64_t db;
	uint32_t version;
	bool is_valkey, has_sum;
	char error[RDB_ERROR_BYTES];
};

/* False: it is no such file, or of a version that is not known; @error says which. */
bool rdb_open(struct rdb_reader *r, const void *bytes, size_t len);

/* The next key. RDB_GOOD: it is in @item. */
enum rdb_status rdb_next(struct rdb_reader *r, struct rdb_item *item);

/* What is written to a file, piece by piece. Each returns how many bytes it has put into @to. */
size_t rdb_write_length(uint8_t *to, uint64_t len);
size_t rdb_write_start(uint8_t *to);					/* 9 bytes */
size_t rdb_write_db(uint8_t *to, uint64_t db);				/* of the keys behind it */
/* What comes before a key: its expiry, if it has one, and the type of its value. */
size_t rdb_write_before_key(uint8_t *to, uint64_t expire_ms);
size_t rdb_write_end(uint8_t *to);					/* before the checksum */

#endif
