// SPDX-License-Identifier: GPL-2.0
/*
 * copy.c - bits, and values that go from key to key, or out and in: in one step, and in several
 */
#include <endian.h>

#include "server/multi.h"
#include "rdb/rdb.h"
#include "keys.h"

static void test_bits(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("SETBIT k 7 1", ":0\r\n");
	TALK("SETBIT k 7 1", ":1\r\n");
	TALK("SETBIT k 17 1", ":0\r\n");
	TALK("STRLEN k", ":3\r\n");
	TALK("GETBIT k 7", ":1\r\n");
	TALK("GETBIT k 6", ":0\r\n");
	TALK("GETBIT k 17", ":1\r\n");
	TALK("GETBIT k 24", ":0\r\n");
	TALK("GETBIT k 4294967295", ":0\r\n");
	TALK("GETBIT none 0", ":0\r\n");
	TALK("SETBIT k 7 0", ":1\r\n");
	TALK("BITCOUNT k", ":1\r\n");
	TALK("GETBIT k -1", "-ERR bit offset is not an integer or out of range\r\n");
	TALK("GETBIT k 4294967296", "-ERR bit offset is not an integer or out of range\r\n");
	TALK("SETBIT k 67108864 1", "-ERR bit offset is not an integer or out of range\r\n");
	TALK("SETBIT k x 1", "-ERR bit offset is not an integer or out of range\r\n");
	TALK("SETBIT k 1 2", "-ERR bit is not an integer or out of range\r\n");
	/* 0110 0110  0110 1111  0110 1111  0110 0010  0110 0001  0111 0010 */
	TALK("SET k foobar", "+OK\r\n");
	TALK("BITCOUNT k", ":26\r\n");
	TALK("BITCOUNT k 0 0", ":4\r\n");
	TALK("BITCOUNT k 1 1", ":6\r\n");
	TALK("BITCOUNT k 1 1 byte", ":6\r\n");
	TALK("BITCOUNT k 0 -5", ":10\r\n");
	TALK("BITCOUNT k -1 -1", ":4\r\n");
	TALK("BITCOUNT k -100 100", ":26\r\n");
	TALK("BITCOUNT k 6 7", ":0\r\n");
	TALK("BITCOUNT k 3 2", ":0\r\n");
	TALK("BITCOUNT k -1 -2", ":0\r\n");
	TALK("BITCOUNT k 5 30 BIT", ":17\r\n");
	TALK("BITCOUNT k 1 1 BIT", ":1\r\n");
	TALK("BITCOUNT k 0 0 BIT", ":0\r\n");
	TALK("BITCOUNT k -2 -1 BIT", ":1\r\n");
	TALK("BITCOUNT k 0 -1 BIT", ":26\r\n");
	TALK("BITCOUNT none 0 -1 BIT", ":0\r\n");
	TALK("BITCOUNT k 0 x", "-ERR value is not an integer or out of range\r\n");
	TALK("BITCOUNT k 0 1 nibble", "-ERR syntax error\r\n");
	close_world(&world);
}

/* The long way of counting: words, bytes and bits agree with bit by bit. */
static void test_many_bits(void)
{
	struct world world;
	char line[64], text[64];

	open_world(&world, NULL);
	for (int i = 0; i < 400; i += 1 + i % 7) {
		snprintf(line, sizeof(line), "SETBIT k %d 1\r\n", i);
		say(world.c, line);
		HEAR(":0\r\n");
	}
	for (int from = 0; from < 200; from += 13) {
		for (int to = from; to < 400; to += 29) {
			int nr = 0;

			for (int i = 0; i <= to; i += 1 + i % 7)
				nr += i >= from;
			snprintf(line, sizeof(line), "BITCOUNT k %d %d BIT\r\n", from, to);
			snprintf(text, sizeof(text), ":%d\r\n", nr);
			say(world.c, line);
			HEAR(text);
		}
	}
	close_world(&world);
}

static void test_rename(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	for (int far = 0; far < 2; far++) {
		const char *to = far ? other : b;

		ASK("-ERR no such key\r\n", "RENAME %s %s", a, to);
		ASK("-ERR no such key\r\n", "RENAMENX %s %s", a, to);
		ASK("-ERR no such key\r\n", "RENAME %s %s", a, a);
		ASK("+OK\r\n", "SET %s v EX 100", a);
		ASK("+OK\r\n", "RENAME %s %s", a, a);
		ASK(":0\r\n", "RENAMENX %s %s", a, a);
		ASK("+OK\r\n", "RENAME %s %s", a, to);
		ASK("$-1\r\n", "GET %s", a);
		ASK("$1\r\nv\r\n", "GET %s", to);
		ASK(":100\r\n", "TTL %s", to);
		ASK("+OK\r\n", "SET %s w", a);
		ASK(":0\r\n", "RENAMENX %s %s", a, to);
		ASK("*2\r\n$1\r\nw\r\n$1\r\nv\r\n", "MGET %s %s", a, to);
		ASK("+OK\r\n", "RENAME %s %s", a, to);
		ASK(":-1\r\n", "TTL %s", to);
		ASK("*2\r\n$-1\r\n$1\r\nw\r\n", "MGET %s %s", a, to);
		ASK(":1\r\n", "RENAMENX %s %s", to, a);
		ASK("*2\r\n$1\r\nw\r\n$-1\r\n", "MGET %s %s", a, to);
		ASK(":1\r\n", "DEL %s", a);
	}
	close_world(&world);
}

static void test_copy(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	for (int far = 0; far < 2; far++) {
		const char *to = far ? other : b;

		ASK(":0\r\n", "COPY %s %s", a, to);
		ASK("+OK\r\n", "SET %s v EX 100", a);
		ASK(":1\r\n", "COPY %s %s DB 0", a, to);
		ASK("*2\r\n$1\r\nv\r\n$1\r\nv\r\n", "MGET %s %s", a, to);
		ASK(":100\r\n", "TTL %s", to);
		ASK("+OK\r\n", "SET %s w", a);
		ASK(":0\r\n", "COPY %s %s", a, to);
		ASK("$1\r\nv\r\n", "GET %s", to);
		ASK(":1\r\n", "COPY %s %s REPLACE", a, to);
		ASK("$1\r\nw\r\n", "GET %s", to);
		ASK(":-1\r\n", "TTL %s", to);
		ASK(":2\r\n", "DEL %s %s", a, to);
	}
	ASK("-ERR source and destination objects are the same\r\n", "COPY %s %s", a, a);
	ASK("-ERR DB index is out of range\r\n", "COPY %s %s DB 1", a, b);
	ASK("-ERR value is not an integer or out of range\r\n", "COPY %s %s DB x", a, b);
	ASK("-ERR syntax error\r\n", "COPY %s %s DB", a, b);
	ASK("-ERR syntax error\r\n", "COPY %s %s nothing", a, b);
	ASK(":0\r\n", "COPY %s replace", a);
	close_world(&world);
}

static void test_msetnx(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	ASK(":1\r\n", "MSETNX %s 1 %s 2", a, b);
	ASK("*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "MGET %s %s", a, b);
	ASK(":1\r\n", "DEL %s", b);
	ASK(":0\r\n", "MSETNX %s 3 %s 4", b, a);
	ASK("$-1\r\n", "GET %s", b);
	ASK(":1\r\n", "MSETNX %s 3 %s 4", b, b);
	ASK("$1\r\n4\r\n", "GET %s", b);
	ASK("-CROSSSLOT the keys of this transaction are in several partitions, which are "
	    "not written in one step: nothing of it was run\r\n", "MSETNX %s 1 %s 2", "x", "y");
	TALK("MSETNX x 1 y", "-ERR wrong number of arguments for 'msetnx' command\r\n");
	TALK("EXISTS x y", ":0\r\n");
	close_world(&world);
}

static void test_in_transaction(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s v EX 100", a);
	ASK(QUEUED, "COPY %s %s", a, b);
	ASK(QUEUED, "MSETNX %s 1", b);
	ASK(QUEUED, "SETBIT %s 7 1", a);
	ASK(QUEUED, "BITCOUNT %s", a);
	ASK(QUEUED, "RENAME %s %s", a, b);
	ASK(QUEUED, "GET %s", b);
	ASK(QUEUED, "RENAMENX %s %s", a, b);
	TALK("EXEC", "*8\r\n+OK\r\n:1\r\n:0\r\n:0\r\n:6\r\n+OK\r\n$1\r\nw\r\n"
	     "-ERR no such key\r\n");
	ASK(":100\r\n", "TTL %s", b);
	ASK("$-1\r\n", "GET %s", a);
	/* Over partitions it is no step of a transaction. */
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "RENAME %s %s", b, other);
	TALK("EXEC", "-CROSSSLOT the keys of this transaction are in several partitions, which are "
	     "not written in one step: nothing of it was run\r\n");
	/* WATCH sees what is renamed away. */
	ASK("+OK\r\n", "WATCH %s", b);
	ASK("+OK\r\n", "RENAME %s %s", b, a);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "GET %s", b);
	TALK("EXEC", "*-1\r\n");
	close_world(&world);
}

/* At each step of a RENAME over partitions the device fails: the value is always somewhere. */
static void test_failures(void)
{
	struct world world;

	for (int step = 0; step < 3; step++) {
		open_world(&world, NULL);
		find_keys(&world);
		ASK("+OK\r\n", "SET %s v", a);
		memstore_hold(world.worker.store, true);
		SAY("RENAME %s %s", a, other);
		for (int i = 0; i < step; i++)
			memstore_release_oldest(world.worker.store);
		memstore_fail(world.worker.store, OKV_IO_ERROR);
		memstore_release_oldest(world.worker.store);
		memstore_hold(world.worker.store, false);
		memstore_fail(world.worker.store, OKV_OK);
		HEAR("-IOERR the device failed; whether a write happened is not known\r\n");
		ASK("$1\r\nv\r\n", "GET %s", a);
		ASK(step == 2 ? "$1\r\nv\r\n" : "$-1\r\n", "GET %s", other);
		close_world(&world);
	}
}

/* Another client writes the source while it is renamed in steps. */
static void test_source_changes(void)
{
	struct world world;
	struct conn *c, *second;

	for (int nx = 0; nx < 2; nx++) {
		open_world(&world, NULL);
		find_keys(&world);
		c = world.c;
		second = connect_one(&world);
		ASK("+OK\r\n", "SET %s v", a);
		memstore_hold(world.worker.store, true);
		SAY("%s %s %s", nx ? "RENAMENX" : "RENAME", a, other);
		memstore_release_oldest(world.worker.store);
		world.c = second;
		SAY("SET %s w", a);
		memstore_hold(world.worker.store, false);
		memstore_release(world.worker.store);
		HEAR("+OK\r\n");
		world.c = c;
		if (nx) {
			HEAR("-TRYAGAIN the key changed while it was renamed: both are there\r\n");
			ASK("*2\r\n$1\r\nw\r\n$1\r\nv\r\n", "MGET %s %s", a, other);
		} else {
			HEAR("+OK\r\n");
			ASK("*2\r\n$-1\r\n$1\r\nw\r\n", "MGET %s %s", a, other);
		}
		conn_kill(second);
		close_world(&world);
	}
}

/* A long value that changes all the time: the replies of all tries would be too long for one. */
static void test_long_source_changes(void)
{
	enum { BYTES = 5 << 20, NR_TRIES = 16 };
	char *value = malloc(BYTES), head[64];
	struct world world;
	struct conn *second;

	memset(value, 'x', BYTES);
	open_world(&world, NULL);
	find_keys(&world);
	second = connect_one(&world);
	for (int i = 0; i <= NR_TRIES; i++) {
		value[0] = 'a' + i;
		snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$2\r\n%s\r\n$%d\r\n", a, BYTES);
		say(second, head);
		EXPECT(conn_feed(second, value, BYTES) == BYTES);
		say(second, "\r\n");
		if (!i) {
			memstore_hold(world.worker.store, true);
			SAY("RENAME %s %s", a, other);
			memstore_release_oldest(world.worker.store);
			continue;
		}
		for (int step = 0; step < (i < NR_TRIES ? 4 : 3); step++)
			memstore_release_oldest(world.worker.store);
	}
	HEAR("-TRYAGAIN the key changed while it was renamed: both are there\r\n");
	EXPECT(!world.c->reply_bytes);
	conn_kill(second);
	close_world(&world);
	free(value);
}

/* Both clients RENAME over partitions at once, step by step in turn; hears @first and @second. */
static void rename_both(struct world *world, const char *texts[2], const char *first,
			const char *second)
{
	struct conn *c = world->c, *other_c = connect_one(world);

	memstore_hold(world->worker.store, true);
	say(c, texts[0]);
	say(other_c, texts[1]);
	for (int i = 0; i < 4; i++)
		memstore_release_oldest(world->worker.store);
	memstore_hold(world->worker.store, false);
	memstore_release(world->worker.store);
	hear(c, first, __LINE__);
	hear(other_c, second, __LINE__);
	EXPECT(!world->server.turns && !world->worker.nr_ending_turns);
	conn_kill(other_c);
}

/* Two RENAMEs over partitions: neither says OK for a value that the other one has taken. */
static void test_two_renames(void)
{
	char lines[2][40], third[8];
	const char *texts[2] = { lines[0], lines[1] };
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	ASK("+OK\r\n", "MSET %s 1 %s 1", a, other);
	snprintf(lines[0], sizeof(lines[0]), "RENAME %s %s\r\n", a, other);
	snprintf(lines[1], sizeof(lines[1]), "RENAME %s %s\r\n", other, a);
	rename_both(&world, texts, "+OK\r\n", "+OK\r\n");
	ASK(":1\r\n", "EXISTS %s %s", a, other);
	ASK("+OK\r\n", "SET %s job", a);
	ASK(":0\r\n", "DEL %s", other);
	for (int i = 0; ; i++) {
		snprintf(third, sizeof(third), "z%d", i);
		if (partition_of(&world, third) != partition_of(&world, a))
			break;
	}
	snprintf(lines[1], sizeof(lines[1]), "RENAME %s %s\r\n", a, third);
	rename_both(&world, texts, "+OK\r\n", "-ERR no such key\r\n");
	ASK("*3\r\n$-1\r\n$3\r\njob\r\n$-1\r\n", "MGET %s %s %s", a, other, third);
	close_world(&world);
}

/* Clients wait for their turn. One goes; all are served, however many fail at once. */
static void test_turns(void)
{
	enum { NR = 20000 };
	struct conn **clients = malloc(NR * sizeof(*clients));
	struct world world;
	char line[40];

	open_world(&world, NULL);
	find_keys(&world);
	ASK("+OK\r\n", "SET %s v", a);
	snprintf(line, sizeof(line), "RENAME %s %s\r\n", a, other);
	memstore_hold(world.worker.store, true);
	say(world.c, line);
	memstore_release_oldest(world.worker.store);
	for (int i = 0; i < NR; i++) {
		clients[i] = connect_one(&world);
		say(clients[i], line);
	}
	conn_kill(clients[0]);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	HEAR("+OK\r\n");
	for (int i = 1; i < NR; i++) {
		hear(clients[i], "-ERR no such key\r\n", __LINE__);
		conn_kill(clients[i]);
	}
	EXPECT(world.nr_freed == NR && !world.server.turns);
	close_world(&world);
	free(clients);
}

/*
 * While @a is renamed over partitions, another client takes it away, or it expires: only then is
 * the reply OK.
 */
static void test_source_goes(void)
{
	struct world world;
	struct conn *c, *second;

	for (int expires = 0; expires < 2; expires++) {
		open_world(&world, NULL);
		find_keys(&world);
		c = world.c;
		second = connect_one(&world);
		ASK("+OK\r\n", "SET %s v PX 100", a);
		memstore_hold(world.worker.store, true);
		SAY("RENAME %s %s", a, other);
		memstore_release_oldest(world.worker.store);
		memstore_release_oldest(world.worker.store);
		if (expires) {
			later(&world, 100);
			okv_partition_set_clock(okv_store_partition(world.worker.store, 0),
						world.worker.now_ms);
		} else {
			world.c = second;
			SAY("DEL %s", a);
			world.c = c;
		}
		memstore_hold(world.worker.store, false);
		memstore_release(world.worker.store);
		HEAR(expires ? "+OK\r\n" :
		     "-TRYAGAIN the key went while it was renamed: the new one is there\r\n");
		conn_kill(second);
		close_world(&world);
	}
}

/* A later request of the client sees what RENAME has done; so does one of a client that goes. */
static void test_order(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	ASK("+OK\r\n", "SET %s v", a);
	memstore_hold(world.worker.store, true);
	SAY("RENAME %s %s", a, other);
	EXPECT(!conn_wants_input(world.c));
	for (int i = 0; i < 3; i++)
		memstore_release_oldest(world.worker.store);
	HEAR("+OK\r\n");
	EXPECT(conn_wants_input(world.c));
	SAY("RENAME %s %s", other, a);
	conn_kill(world.c);
	world.c = connect_one(&world);
	for (int i = 0; i < 3; i++)
		memstore_release_oldest(world.worker.store);
	memstore_hold(world.worker.store, false);
	ASK("*2\r\n$1\r\nv\r\n$-1\r\n", "MGET %s %s", a, other);
	close_world(&world);
}

/* What a copy adds counts, and afterwards nothing is set aside. */
static void test_bounds(void)
{
	char *path = write_users("keys=2 bytes=300");
	struct world world;
	const struct tenant *ann;

	open_world(&world, path);
	ann = world.tenants.list[0];
	find_keys(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	ASK("+OK\r\n", "SET %s %0120d", a, 0);
	ASK("+OK\r\n", "SET %s %0120d", b, 0);
	ASK("-QUOTA this user has no more keys: delete something\r\n", "MSETNX %s0 1", a);
	ASK("-QUOTA this user has no more bytes: delete something\r\n", "COPY %s %s REPLACE", a, b);
	ASK("-QUOTA this user has no more bytes: delete something\r\n", "COPY %s %s", a, other);
	ASK(":1\r\n", "DEL %s", b);
	ASK(":1\r\n", "SETNX %s 1", b);
	ASK("-QUOTA this user has no more keys: delete something\r\n", "COPY %s %s", b, other);
	ASK("-QUOTA this user has no more keys: delete something\r\n", "RENAME %s %s", b, other);
	ASK("+OK\r\n", "RENAME %s %s", b, a);
	ASK("$1\r\n1\r\n", "GET %s", a);
	ASK(":1\r\n", "COPY %s %s", a, other);
	EXPECT(!ann->nr_held_keys && !ann->nr_held_bytes);
	TALK("SETBIT z 8000 1", "-QUOTA this user has no more bytes: delete something\r\n");
	EXPECT(!ann->nr_held_keys && !ann->nr_held_bytes);
	close_world(&world);
	unlink(path);
	free(path);
}

/* ---- DUMP, RESTORE ---- */

/* Sends RESTORE k TTL PAYLOAD and perhaps one more argument. */
static void restore(struct conn *c, const char *ttl, const void *payload, size_t len,
		    const char *more)
{
	char *in = malloc(len + 200);
	size_t used = sprintf(in, "*%d\r\n$7\r\nRESTORE\r\n$1\r\nk\r\n$%zu\r\n%s\r\n$%zu\r\n",
			      more ? 5 : 4, strlen(ttl), ttl, len);

	memcpy(in + used, payload, len);
	used += len;
	used += sprintf(in + used, "\r\n");
	if (more)
		used += sprintf(in + used, "$%zu\r\n%s\r\n", strlen(more), more);
	EXPECT(conn_feed(c, in, used) == used);
	free(in);
}

#define RESTORE(ttl, payload, len, more, wanted)					\
	do { restore(world.c, ttl, payload, len, more); HEAR(wanted); } while (0)

/* A payload of these bytes: with version and checksum. */
static size_t seal(char *payload, const char *bytes, size_t len)
{
	uint64_t sum;

	memcpy(payload, bytes, len);
	memcpy(payload + len, "\x09", 2);
	sum = rdb_crc64(0, payload, len + 2);
	memcpy(payload + len + 2, &sum, 8);
	return len + 10;
}

static void test_restore(void)
{
	/* What Valkey 8.1 replies to DUMP: "hello", 200 times an a, 12345. */
	static const char hello[] = "\x00\x05hello\x0b\x00\x0a\xad\x62\x05\x98\xab\xc9\x83";
	static const char many[] = "\x00\xc3\x09\x40\xc8\x01""aa\xe0\xbb\x00\x01""aa"
				   "\x0b\x00\x76\x46\x4a\x5d\xfc\x2d\xe4\x6a";
	static const char number[] = "\x00\xc1\x39\x30\x0b\x00\xf4\x4b\x57\x54\x6e\x63\xe1\x30";
	struct world world;
	char payload[300];
	size_t len;

	open_world(&world, NULL);
	len = seal(payload, "\x00\x05hello", 7);
	RESTORE("0", payload, len, NULL, "+OK\r\n");
	TALK("GET k", "$5\r\nhello\r\n");
	RESTORE("0", payload, len, NULL, "-BUSYKEY Target key name already exists.\r\n");
	RESTORE("5000", payload, len, "replace", "+OK\r\n");
	TALK("PTTL k", ":5000\r\n");
	RESTORE("1", payload, len, "absttl", "-BUSYKEY Target key name already exists.\r\n");
	TALK("DEL k", ":1\r\n");
	RESTORE("1", payload, len, "absttl", "+OK\r\n");
	TALK("EXISTS k", ":0\r\n");
	RESTORE("-1", payload, len, NULL, "-ERR Invalid TTL value, must be >= 0\r\n");
	RESTORE("9223372036854775807", payload, len, NULL,
		"-ERR Invalid TTL value, must be >= 0\r\n");
	RESTORE("x", payload, len, NULL, "-ERR value is not an integer or out of range\r\n");
	RESTORE("0", payload, len, "nothing", "-ERR syntax error\r\n");
	RESTORE("0", payload, len, "idletime", "-ERR syntax error\r\n");
	payload[3] ^= 1;
	RESTORE("0", payload, len, NULL, "-ERR DUMP payload version or checksum are wrong\r\n");
	RESTORE("0", "short", 5, NULL, "-ERR DUMP payload version or checksum are wrong\r\n");
	RESTORE("0", hello, sizeof(hello) - 2, NULL,
		"-ERR DUMP payload version or checksum are wrong\r\n");
	RESTORE("0", hello, sizeof(hello) - 1, NULL, "+OK\r\n");
	TALK("GETDEL k", "$5\r\nhello\r\n");
	RESTORE("0", many, sizeof(many) - 1, NULL, "+OK\r\n");
	TALK("STRLEN k", ":200\r\n");
	TALK("GETRANGE k 197 -1", "$3\r\naaa\r\n");
	RESTORE("0", number, sizeof(number) - 1, "REPLACE", "+OK\r\n");
	TALK("GETDEL k", "$5\r\n12345\r\n");
	/* Integers of 1, 2 and 4 bytes. */
	RESTORE("0", payload, seal(payload, "\x00\xc0\x80", 3), NULL, "+OK\r\n");
	TALK("GETDEL k", "$4\r\n-128\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc1\x39\x30", 4), NULL, "+OK\r\n");
	TALK("GETDEL k", "$5\r\n12345\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc2\x00\x00\x00\x80", 6), NULL, "+OK\r\n");
	TALK("GETDEL k", "$11\r\n-2147483648\r\n");
	/* LZF: "ab", then 2 + 7 + 8 bytes from 2 back. */
	RESTORE("0", payload, seal(payload, "\x00\xc3\x06\x13\x01""ab\xe0\x08\x01", 10), NULL,
		"+OK\r\n");
	TALK("GETDEL k", "$19\r\nabababababababababa\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc3\x06\x12\x01""ab\xe0\x08\x01", 10), NULL,
		"-ERR Bad data format\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc3\x06\x13\x01""ab\xe0\x08\x02", 10), NULL,
		"-ERR Bad data format\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc3\x01\x80\x10\x00\x00\x00\x00", 9), NULL,
		"-ERR the value is too large: at most 8388608 bytes\r\n");
	/* Another type, no type, something behind the string. */
	RESTORE("0", payload, seal(payload, "\x01\x01\x01x", 4), NULL,
		"-ERR Bad data format: octokvd has strings only\r\n");
	RESTORE("0", payload, seal(payload, "\x63\x01x", 3), NULL, "-ERR Bad data format\r\n");
	RESTORE("0", payload, seal(payload, "\x00\x01xx", 4), NULL, "-ERR Bad data format\r\n");
	RESTORE("0", payload, seal(payload, "\x00\x03xx", 4), NULL, "-ERR Bad data format\r\n");
	RESTORE("0", payload, seal(payload, "", 0), NULL, "-ERR Bad data format\r\n");
	/* What has expired removes the old value. */
	TALK("SET k v", "+OK\r\n");
	say(world.c, "MULTI\r\n");
	HEAR("+OK\r\n");
	RESTORE("0", payload, seal(payload, "\x00\xc0\x07", 3), "REPLACE", QUEUED);
	TALK("INCR k", QUEUED);
	TALK("EXEC", "*2\r\n+OK\r\n:8\r\n");
	close_world(&world);
}

/* A packed payload of 96 kB unpacks to 8 MiB: a transaction takes eight of them at most. */
static void test_packed_in_transaction(void)
{
	enum { NR_COPIES = 31775, EACH = 264, BYTES = 2 + NR_COPIES * EACH };
	static const uint8_t copy[] = { 0xe0, EACH - 9, 0x01 };
	uint32_t packed_bytes = 3 + NR_COPIES * sizeof(copy);
	char *bytes = malloc(packed_bytes + 16), *payload = malloc(packed_bytes + 32);
	struct world world;
	size_t len = 0;

	memcpy(bytes, "\x00\xc3", 2);
	len = 2;
	for (int i = 0; i < 2; i++) {
		uint32_t number = htobe32(i ? BYTES : packed_bytes);

		bytes[len++] = 0x80;
		memcpy(bytes + len, &number, 4);
		len += 4;
	}
	memcpy(bytes + len, "\x01""ab", 3);
	len += 3;
	for (int i = 0; i < NR_COPIES; i++, len += sizeof(copy))
		memcpy(bytes + len, copy, sizeof(copy));
	len = seal(payload, bytes, len);
	open_world(&world, NULL);
	for (int nr = 8; nr <= 9; nr++) {
		TALK("MULTI", "+OK\r\n");
		for (int i = 0; i < nr; i++)
			RESTORE("0", payload, len, "replace", QUEUED);
		TALK("EXEC", nr == 8 ? "*8\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n"
		     "+OK\r\n" : "-ERR the values or replies of the transaction are too large\r\n");
	}
	close_world(&world);
	free(bytes);
	free(payload);
}

static void test_dump(void)
{
	static const uint32_t lens[] = { 0, 1, 63, 64, 300, 16383, 16384, 100000 };
	struct world world;
	char *value = malloc(100000);

	memset(value, 'x', 100000);
	open_world(&world, NULL);
	TALK("DUMP k", "$-1\r\n");
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = rdb_payload_bytes(lens[i]);
		char head[64], *text;

		snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%u\r\n", lens[i]);
		say(world.c, head);
		EXPECT(conn_feed(world.c, value, lens[i]) == lens[i]);
		say(world.c, "\r\n");
		HEAR("+OK\r\n");
		say(world.c, "DUMP k\r\n");
		snprintf(head, sizeof(head), "$%zu\r\n", len);
		text = out_text(&world.c->out);
		EXPECT(world.c->out.nr_bytes == strlen(head) + len + 2 &&
		       !memcmp(text, head, strlen(head)));
		conn_sent(world.c, world.c->out.nr_bytes);
		RESTORE("0", text + strlen(head), len, "REPLACE", "+OK\r\n");
		free(text);
		snprintf(head, sizeof(head), ":%u\r\n", lens[i]);
		say(world.c, "STRLEN k\r\n");
		HEAR(head);
	}
	close_world(&world);
	free(value);
}

/* Without a file to save to there is nothing to begin, and others than an admin may not. */
static void test_bgsave(void)
{
	char *path = write_users("");
	struct world world;

	open_world(&world, NULL);
	TALK("BGSAVE", "-ERR there is no file to save to: start octokvd with --save-to FILE\r\n");
	TALK("BGSAVE now", "-ERR syntax error\r\n");
	world.server.config.save_to = "/nowhere/dump.rdb";
	world.server.config.cannot_save = "the kernel is too old";
	TALK("BGSAVE", "-ERR the kernel is too old\r\n");
	world.server.config.cannot_save = NULL;
	world.server.is_saving = true;
	TALK("BGSAVE SCHEDULE", "-ERR Background save already in progress\r\n");
	world.server.saved_s = 7;
	TALK("LASTSAVE", ":7\r\n");
	close_world(&world);
	open_world(&world, path);
	world.server.config.save_to = "/nowhere/dump.rdb";
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("BGSAVE", "-NOPERM a dump has the keys of all users: only an admin may begin one\r\n");
	close_world(&world);
	unlink(path);
	free(path);
}

int main(void)
{
	test_bgsave();
	test_bits();
	test_many_bits();
	test_rename();
	test_copy();
	test_msetnx();
	test_in_transaction();
	test_failures();
	test_source_changes();
	test_long_source_changes();
	test_two_renames();
	test_turns();
	test_source_goes();
	test_order();
	test_bounds();
	test_restore();
	test_packed_in_transaction();
	test_dump();
	puts("ok server_copy: bits, copies and renames in one step or several, DUMP and RESTORE");
	return 0;
}
