// SPDX-License-Identifier: GPL-2.0
/*
 * rdb.c - the reader of dump files: all types, what is cut off, damaged or not known
 *
 * The cases of the daemon read what Valkey writes, and have Valkey read what octokvd writes.
 */
#include "rdb/rdb.h"
#include "test/test.h"

struct file {
	uint8_t bytes[2048];
	size_t len;
};

static void add(struct file *f, const void *bytes, size_t len)
{
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
}

#define ADD(f, text) add(f, text, sizeof(text) - 1)

static void seal(struct file *f)
{
	uint64_t sum;

	ADD(f, "\xff");
	sum = rdb_crc64(0, f->bytes, f->len);
	add(f, &sum, sizeof(sum));
}

static void begin(struct file *f, const char *magic)
{
	f->len = 0;
	add(f, magic, strlen(magic));
}

/* How many there are of each type, by the first letter; @error is what it says at the end. */
static void read_all(const struct file *f, uint32_t *nr, const char *error)
{
	struct rdb_reader r;
	struct rdb_item item;
	enum rdb_status status = RDB_BROKEN;
	/* Of exactly its size, so that a read beyond it is seen. */
	uint8_t *copy = malloc(f->len);

	memcpy(copy, f->bytes, f->len);
	memset(nr, 0, RDB_NR_TYPES * sizeof(*nr));
	if (rdb_open(&r, copy, f->len))
		while ((status = rdb_next(&r, &item)) == RDB_GOOD)
			nr[item.type]++;
	if (error && (status == RDB_END || !strstr(r.error, error))) {
		printf("wanted \"%s\", got \"%s\"\n", error, r.error);
		exit(1);
	}
	if (!error && status != RDB_END) {
		printf("got \"%s\"\n", r.error);
		exit(1);
	}
	free(copy);
}

static void test_checksum(void)
{
	char many[100];

	EXPECT(rdb_crc64(0, "123456789", 9) == 0xe9c6d914c4b8d9caULL);
	for (size_t i = 0; i < sizeof(many); i++)
		many[i] = i * 7;
	for (size_t i = 0; i < sizeof(many); i++)
		EXPECT(rdb_crc64(rdb_crc64(0, many, i), many + i, sizeof(many) - i) ==
		       rdb_crc64(0, many, sizeof(many)));
}

static void test_lengths(void)
{
	static const struct {
		uint64_t len;
		size_t nr;
	} cases[] = {
		{ 0, 1 }, { 63, 1 }, { 64, 2 }, { 16383, 2 }, { 16384, 5 }, { UINT32_MAX, 5 },
		{ UINT32_MAX + 1ULL, 9 },
	};
	struct rdb_reader r;
	struct rdb_item item;
	struct file f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[RDB_HEAD_BYTES_MAX];

		EXPECT(rdb_write_length(bytes, cases[i].len) == cases[i].nr);
		begin(&f, "REDIS0009");
		ADD(&f, "\xfe");
		add(&f, bytes, cases[i].nr);
		ADD(&f, "\x00\x01k\x01v");
		seal(&f);
		EXPECT(rdb_open(&r, f.bytes, f.len) && rdb_next(&r, &item) == RDB_GOOD &&
		       item.db == cases[i].len);
	}
}

/* A value of each type that a file can have; all are gone past, and the key behind is found. */
static void test_types(void)
{
	uint32_t nr[RDB_NR_TYPES];
	struct file f;

	begin(&f, "REDIS0011");
	ADD(&f, "\xfa\x03ver\x03""8.1" "\xfb\x01\x00" "\xf4\x01\x02\x03");
	ADD(&f, "\xf5\x04" "code");				/* functions */
	ADD(&f, "\xf7\x05\x02\x01" "\x05\x01x\x02\x07\x00");	/* of a module */
	ADD(&f, "\xf8\x05\xf9\x09\x01\x01k\x02\x01""a\x01""b");	/* a list, idle, frequency */
	ADD(&f, "\x02\x01k\x01\xc0\x05");			/* a set */
	ADD(&f, "\x03\x01k\x02\x01""a\x03" "1.5" "\x01""b\xfe");	/* a sorted set, as text */
	ADD(&f, "\x04\x01k\x01\x01""f\x01v");			/* a hash */
	ADD(&f, "\x05\x01k\x01\x01""a" "12345678");		/* a sorted set */
	ADD(&f, "\x07\x01k\x05" "\x01\x01\x02\x02\x03" "1234" "\x04" "12345678" "\x05\x01x\x00");
	for (int type = 9; type <= 13; type++) {
		uint8_t head[] = { type, 1, 'k', 3, 'x', 'x', 'x' };

		add(&f, head, sizeof(head));
	}
	ADD(&f, "\x0e\x01k\x02\x01""a\x01""b");
	ADD(&f, "\x10\x01k\x01x" "\x11\x01k\x01x" "\x14\x01k\x01x");
	ADD(&f, "\x12\x01k\x01\x02\x01x");
	/* Streams: an entry; a group with one pending, and a consumer that has it. */
#define ID "1234567890123456"
#define STREAM(lengths, group, consumer)						\
	"\x01k\x01\x02id\x02lp" lengths "\x01\x01g" group "\x01" ID "12345678\x01"		\
	"\x01\x01""c" consumer "\x01" ID
	ADD(&f, "\x0f" STREAM("\x01\x02\x03", "\x01\x02", "12345678"));
	ADD(&f, "\x13" STREAM("\x01\x02\x03\x04\x05\x06\x07\x08", "\x01\x02\x03", "12345678"));
	ADD(&f, "\x15" STREAM("\x01\x02\x03\x04\x05\x06\x07\x08", "\x01\x02\x03",
			      "1234567812345678"));
	ADD(&f, "\x18\x01k" "12345678" "\x01\x05\x01""f\x01v");	/* hashes that expire */
	ADD(&f, "\x19\x01k" "12345678" "\x02lp");
	ADD(&f, "\x00\x01z\x01v");
	seal(&f);
	read_all(&f, nr, NULL);
	EXPECT(nr[RDB_STRING] == 1 && nr[RDB_LIST] == 4 && nr[RDB_SET] == 3 &&
	       nr[RDB_SORTED_SET] == 4 && nr[RDB_HASH] == 6 && nr[RDB_STREAM] == 3 &&
	       nr[RDB_MODULE] == 1 && nr[RDB_FUNCTION] == 1);
	/* Wherever it is cut off, it is refused. */
	for (size_t len = f.len; len; len--) {
		struct file cut = f;

		cut.len = len - 1;
		read_all(&cut, nr, len - 1 < 9 ? "no RDB file" : "cut off");
	}
	/* Whatever byte is another one. */
	for (size_t i = 0; i < f.len; i++) {
		struct file other = f;

		other.bytes[i] ^= 0x40;
		read_all(&other, nr, "");
	}
}

static void test_refused(void)
{
	uint32_t nr[RDB_NR_TYPES];
	struct file f;

	begin(&f, "REDIS0013");
	seal(&f);
	read_all(&f, nr, "version 13");
	begin(&f, "REDIS0011");
	ADD(&f, "\x16\x01k\x01\x01""f\x01v" "12345678");
	seal(&f);
	read_all(&f, nr, "type 22 is not known");
	memcpy(f.bytes, "VALKEY080", 9);
	f.len -= 9;
	seal(&f);
	read_all(&f, nr, NULL);
	EXPECT(nr[RDB_HASH] == 1);
	begin(&f, "REDIS0009");
	ADD(&f, "\x63\x01k\x01v");
	seal(&f);
	read_all(&f, nr, "type 99 is not known");
	begin(&f, "REDIS0009");
	ADD(&f, "\x00\xc5\x01v");
	seal(&f);
	read_all(&f, nr, "no string at byte 11");
	begin(&f, "REDIS0009");
	ADD(&f, "\x07\x01k\x05\x09");
	seal(&f);
	read_all(&f, nr, "of kind 9");
	begin(&f, "REDIS0009");
	seal(&f);
	ADD(&f, "x");
	read_all(&f, nr, "something follows its end");
	/* Switched off, and before there was one. */
	begin(&f, "REDIS0009");
	ADD(&f, "\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0");
	read_all(&f, nr, NULL);
	begin(&f, "REDIS0004");
	ADD(&f, "\x00\x01k\x01v\xff");
	read_all(&f, nr, NULL);
}

static void test_expiry(void)
{
	struct rdb_reader r;
	struct rdb_item item;
	struct file f;

	begin(&f, "REDIS0009");
	ADD(&f, "\xfc\x01\x02\0\0\0\0\0\0\x00\x01k\x01v" "\xfd\x01\0\0\0\x00\x01l\x01v"
	    "\x00\x01m\x01v");
	seal(&f);
	EXPECT(rdb_open(&r, f.bytes, f.len));
	EXPECT(rdb_next(&r, &item) == RDB_GOOD && item.expire_ms == 0x201);
	EXPECT(rdb_next(&r, &item) == RDB_GOOD && item.expire_ms == 1000);
	EXPECT(rdb_next(&r, &item) == RDB_GOOD && !item.expire_ms && *item.key.bytes == 'm');
	EXPECT(rdb_next(&r, &item) == RDB_END && r.has_sum);
}

int main(void)
{
	test_checksum();
	test_lengths();
	test_types();
	test_refused();
	test_expiry();
	puts("ok server_rdb: all types are read, and what is cut off or damaged is refused");
	return 0;
}
