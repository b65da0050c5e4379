// SPDX-License-Identifier: GPL-2.0
/*
 * multi.c - transactions without sockets: replies, errors, keys of several partitions, WATCH
 */
#include "server/multi.h"
#include "keys.h"

static void test_exec(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	TALK("EXEC", "-ERR EXEC without MULTI\r\n");
	TALK("DISCARD", "-ERR DISCARD without MULTI\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("MULTI", "-ERR MULTI calls can not be nested\r\n");
	TALK("EXEC", "*0\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("ECHO x", QUEUED);
	TALK("EXEC", "*1\r\n$1\r\nx\r\n");
	close_world(&world);
}

static void test_replies(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 5", a);
	ASK(QUEUED, "INCR %s", a);
	ASK(QUEUED, "GET %s", a);
	ASK(QUEUED, "APPEND %s x", b);
	ASK(QUEUED, "INCR %s", b);
	ASK(QUEUED, "SET %s y XX GET", b);
	ASK(QUEUED, "MGET %s %s", a, b);
	TALK("PING", QUEUED);
	ASK(QUEUED, "SET %s z EX 100", b);
	ASK(QUEUED, "SET %s w KEEPTTL", b);
	ASK(QUEUED, "TTL %s", b);
	ASK(QUEUED, "EXPIRE %s nonsense", b);
	ASK(QUEUED, "DEL %s %s", a, a);
	ASK(QUEUED, "SETNX %s 1", a);
	TALK("EXEC", "*14\r\n+OK\r\n:6\r\n$1\r\n6\r\n:1\r\n"
	     "-ERR value is not an integer or out of range\r\n$1\r\nx\r\n"
	     "*2\r\n$1\r\n6\r\n$1\r\ny\r\n+PONG\r\n+OK\r\n+OK\r\n:100\r\n"
	     "-ERR invalid expire time in 'expire' command\r\n:1\r\n:1\r\n");
	ASK("$1\r\n1\r\n", "GET %s", a);
	ASK("$1\r\nw\r\n", "GET %s", b);
	ASK(":100\r\n", "TTL %s", b);
	close_world(&world);
}

/* Nothing of it is run. */
static void test_refused(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	ASK(QUEUED, "SET %s 1", other);
	TALK("EXEC", "-CROSSSLOT the keys of this transaction are in several partitions, which are "
	     "not written in one step: nothing of it was run\r\n");
	TALK("DBSIZE", ":0\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	TALK("nothing", "-ERR unknown command 'nothing', with args beginning with: \r\n");
	TALK("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	TALK("FLUSHALL", "-ERR 'flushall' is not allowed in a transaction\r\n");
	TALK("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	TALK("DISCARD", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	TALK("RESET", "+RESET\r\n");
	TALK("EXEC", "-ERR EXEC without MULTI\r\n");
	memstore_fail(world.worker.store, OKV_IO_ERROR);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	TALK("EXEC", "-IOERR the device failed; whether a write happened is not known\r\n");
	memstore_fail(world.worker.store, OKV_OK);
	TALK("DBSIZE", ":0\r\n");
	/* A connection that goes in the middle of it. */
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	close_world(&world);
}

static void test_watch(void)
{
	struct world world;
	struct conn *c, *second;

	open_world(&world, NULL);
	find_keys(&world);
	c = world.c;
	second = connect_one(&world);
	for (int changes = 0; changes < 2; changes++) {
		ASK("+OK\r\n", "SET %s 1", a);
		ASK("+OK\r\n", "WATCH %s %s", a, b);
		TALK("MULTI", "+OK\r\n");
		TALK("WATCH k", "-ERR WATCH inside MULTI is not allowed\r\n");
		ASK(QUEUED, "SET %s done", b);
		world.c = second;
		if (changes)
			ASK(":2\r\n", "INCR %s", a);
		world.c = c;
		if (changes) {
			TALK("EXEC", "*-1\r\n");
		} else {
			TALK("EXEC", "*1\r\n+OK\r\n");
			ASK(":1\r\n", "DEL %s", b);
		}
	}
	/* Another key came; UNWATCH. */
	ASK("+OK\r\n", "WATCH %s", b);
	world.c = second;
	ASK("+OK\r\n", "SET %s 1", b);
	world.c = c;
	TALK("UNWATCH", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "GET %s", b);
	TALK("EXEC", "*1\r\n$1\r\n1\r\n");
	ASK(":1\r\n", "DEL %s", b);
	ASK("+OK\r\n", "WATCH %s", b);
	world.c = second;
	ASK("+OK\r\n", "SET %s 1", b);
	world.c = c;
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 2", b);
	TALK("EXEC", "*-1\r\n");
	/* A key of another partition is watched. */
	ASK("+OK\r\n", "WATCH %s", other);
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "GET %s", b);
	TALK("EXEC", "-CROSSSLOT the keys of this transaction are in several partitions, which are "
	     "not written in one step: nothing of it was run\r\n");
	conn_kill(second);
	close_world(&world);
}

/* A connection watches a bounded number of keys, the same one again included. */
static void test_watch_many(void)
{
	struct world world;

	open_world(&world, NULL);
	find_keys(&world);
	for (int i = 0; i < MULTI_MAX_KEYS; i++)
		ASK("+OK\r\n", "WATCH %s", a);
	ASK("-ERR at most 1024 keys are watched at a time\r\n", "WATCH %s", a);
	TALK("UNWATCH", "+OK\r\n");
	ASK("+OK\r\n", "WATCH %s", a);
	close_world(&world);
}

/* The bounds of a user count what is under way; afterwards nothing is set aside. */
static void test_bounds(void)
{
	char *path = write_users("keys=1 bytes=1k");
	struct world world;

	open_world(&world, path);
	find_keys(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	ASK(QUEUED, "SET %s 1", a);
	ASK(QUEUED, "INCR %s", b);
	TALK("EXEC", "*2\r\n+OK\r\n-QUOTA this user has no more keys: delete something\r\n");
	EXPECT(!world.tenants.list[0]->nr_held_keys && !world.tenants.list[0]->nr_held_bytes);
	ASK("$1\r\n1\r\n", "GET %s", a);
	close_world(&world);
	unlink(path);
	free(path);
}

/* A command that is refused for its bytes has set nothing aside, whether EXEC is refused or not. */
static void test_refused_bytes(void)
{
	char *path = write_users("bytes=500");
	struct world world;

	open_world(&world, path);
	find_keys(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	ASK("+OK\r\n", "SET %s %0150d", a, 0);
	for (int crosses = 0; crosses < 2; crosses++) {
		TALK("MULTI", "+OK\r\n");
		for (int i = 0; i < 4; i++)
			ASK(QUEUED, "SET %s %0150d", a, 0);
		ASK(QUEUED, "STRLEN %s", b);
		if (crosses) {
			ASK(QUEUED, "STRLEN %s", other);
			TALK("EXEC", "-CROSSSLOT the keys of this transaction are in several "
			     "partitions, which are not written in one step: nothing of it was "
			     "run\r\n");
		} else {
			TALK("EXEC", "*5\r\n+OK\r\n+OK\r\n"
			     "-QUOTA this user has no more bytes: delete something\r\n"
			     "-QUOTA this user has no more bytes: delete something\r\n:0\r\n");
		}
		EXPECT(!world.tenants.list[0]->nr_held_bytes);
	}
	close_world(&world);
	unlink(path);
	free(path);
}

/*
 * What commands make has a bound: 64 MiB of all keys. For one key only the last value is there, but
 * where another key may share it.
 */
static void test_fresh_bytes(void)
{
	struct world world;
	char key[8], line[64];
	int nr = 0;

	open_world(&world, NULL);
	find_keys(&world);
	for (int copies = 0; copies < 2; copies++) {
		say(world.c, "MULTI\r\n");
		snprintf(line, sizeof(line), "SETBIT %s 67108863 1\r\n", a);
		for (int i = 0; i < 60; i++) {
			say(world.c, line);
			if (copies && !i)
				SAY("COPY %s %s", a, b);
		}
		conn_sent(world.c, world.c->out.nr_bytes);
		say(world.c, "EXEC\r\n");
		if (copies)
			HEAR("-ERR the values or replies of the transaction are too large\r\n");
		conn_sent(world.c, world.c->out.nr_bytes);
	}
	ASK(":8388608\r\n", "STRLEN %s", a);
	ASK(":0\r\n", "EXISTS %s", b);
	say(world.c, "MULTI\r\n");
	for (int i = 0; nr < 9; i++) {
		snprintf(key, sizeof(key), "l%d", i);
		if (partition_of(&world, key) != partition_of(&world, a))
			continue;
		SAY("SETBIT %s 67108863 1", key);
		nr++;
	}
	conn_sent(world.c, world.c->out.nr_bytes);
	TALK("EXEC", "-ERR the values or replies of the transaction are too large\r\n");
	TALK("DBSIZE", ":1\r\n");
	close_world(&world);
}

/* The lock of redis-py: release it, add 100 s, 5 s from now. */
static void test_lock(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("SET k mine PX 100000", "+OK\r\n");
	TALK("EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k other", ":0\r\n");
	TALK("EVALSHA a4e8783852e6b949f9ef3a97212805108459a890 1 k other 100000 0", ":0\r\n");
	TALK("EVALSHA a4e8783852e6b949f9ef3a97212805108459a890 1 k mine 100000 0", ":1\r\n");
	TALK("PTTL k", ":200000\r\n");
	TALK("EVALSHA 1cac51482acf5858da00f6d685d68f886cd6b6b2 1 k mine 5000", ":1\r\n");
	TALK("PTTL k", ":5000\r\n");
	TALK("EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 1 k mine", ":1\r\n");
	TALK("EXISTS k", ":0\r\n");
	TALK("EVALSHA c3f8721cbb97f72bc19e972846bd7aaf91901658 2 k l mine",
	     "-NOSCRIPT there are no scripts, except for those of redis-py's Lock\r\n");
	close_world(&world);
}

static bool is_not_sure(void)
{
	return false;
}

/* While another host may have the device, nothing is said of keys, and no transaction runs. */
static void test_cut_off(void)
{
	static const char *const asks[] = {
		"GET k", "SET k 2", "EXISTS none", "TTL k", "GETBIT k 0", "COPY k l", "MSETNX k 2",
		"DBSIZE", "SCAN 0", "FLUSHALL", "FLUSHDB", "WATCH k",
	};
	struct world world;

	open_world(&world, NULL);
	TALK("SET k 1", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("DEL k", QUEUED);
	world.server.is_sure = is_not_sure;
	TALK("EXEC", "-" REQUEST_CUT_OFF "\r\n");
	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		ASK("-" REQUEST_CUT_OFF "\r\n", "%s", asks[i]);
	TALK("PING", "+PONG\r\n");
	world.server.is_sure = NULL;
	TALK("EXEC", "-ERR EXEC without MULTI\r\n");
	TALK("GET k", "$1\r\n1\r\n");
	close_world(&world);
}

int main(void)
{
	test_lock();
	test_exec();
	test_replies();
	test_refused();
	test_watch();
	test_watch_many();
	test_bounds();
	test_refused_bytes();
	test_fresh_bytes();
	test_cut_off();
	puts("ok server_multi: transactions happen as a whole, or nothing of them");
	return 0;
}
