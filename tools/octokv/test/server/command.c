// SPDX-License-Identifier: GPL-2.0
/*
 * command.c - connections and commands without sockets: bytes in, bytes out, over a store in memory
 */
#include <inttypes.h>

#include "server/auth.h"
#include "world.h"

#define ZEROS_32 "00000000000000000000000000000000"
#define ZEROS_96 ZEROS_32 ZEROS_32 ZEROS_32

static void test_values(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("PING", "+PONG\r\n");
	TALK("ping hello", "$5\r\nhello\r\n");
	TALK("GET k", "$-1\r\n");
	TALK("SET k v", "+OK\r\n");
	TALK("get k", "$1\r\nv\r\n");
	TALK("SET k w NX", "$-1\r\n");
	TALK("SET k w XX GET", "$1\r\nv\r\n");
	TALK("SET n w XX", "$-1\r\n");
	TALK("SET k x IFEQ v", "$-1\r\n");
	TALK("SET none x IFEQ v", "$-1\r\n");
	TALK("SET none x IFEQ v GET", "$-1\r\n");
	TALK("EXISTS none", ":0\r\n");
	TALK("SET k x IFEQ v GET", "$1\r\nw\r\n");
	TALK("SET k xx IFEQ w EX 100", "+OK\r\n");
	TALK("TTL k", ":100\r\n");
	TALK("SET k x GET KEEPTTL IFEQ xx", "$2\r\nxx\r\n");
	TALK("TTL k", ":100\r\n");
	TALK("SET k w IFEQ x", "+OK\r\n");
	TALK("TTL k", ":-1\r\n");
	TALK("SET k w IFEQ x NX", "-ERR syntax error\r\n");
	TALK("SET k w IFEQ x XX", "-ERR syntax error\r\n");
	TALK("SET k w XX IFEQ x", "-ERR syntax error\r\n");
	TALK("SET k w IFEQ", "-ERR syntax error\r\n");
	TALK("SET d v", "+OK\r\n");
	TALK("DELIFEQ d w", ":0\r\n");
	TALK("DELIFEQ d v", ":1\r\n");
	TALK("DELIFEQ d v", ":0\r\n");
	TALK("GETSET k x", "$1\r\nw\r\n");
	TALK("APPEND k yz", ":3\r\n");
	TALK("STRLEN k", ":3\r\n");
	TALK("GETRANGE k 1 -1", "$2\r\nyz\r\n");
	TALK("GETRANGE k 5 9", "$0\r\n\r\n");
	TALK("GETRANGE none 0 -1", "$0\r\n\r\n");
	TALK("SETRANGE k 5 !", ":6\r\n");
	say(world.c, "GET k\r\n");
	{
		char *text = out_text(&world.c->out);

		EXPECT(world.c->out.nr_bytes == 12 && !memcmp(text, "$6\r\nxyz\0\0!\r\n", 12));
		free(text);
		conn_sent(world.c, 12);
	}
	TALK("SET k z", "+OK\r\n");
	TALK("GETDEL k", "$1\r\nz\r\n");
	TALK("GETDEL k", "$-1\r\n");
	close_world(&world);
}

static void test_many_keys(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("MSET a 1 b 2 c 3", "+OK\r\n");
	TALK("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n");
	TALK("MGET a none c", "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n");
	TALK("EXISTS a a none", ":2\r\n");
	TALK("DBSIZE", ":3\r\n");
	TALK("DEL a none b", ":2\r\n");
	TALK("TYPE c", "+string\r\n");
	TALK("TYPE a", "+none\r\n");
	TALK("FLUSHALL", "+OK\r\n");
	TALK("DBSIZE", ":0\r\n");
	/* In a store that can, partitions are cleared. */
	world.server.config.can_clear = true;
	TALK("MSET a 1 b 2 c 3", "+OK\r\n");
	memstore_fail(world.worker.store, OKV_FULL);
	TALK("FLUSHALL", "-IOERR some keys could not be deleted\r\n");
	memstore_fail(world.worker.store, OKV_OK);
	TALK("DBSIZE", ":3\r\n");
	memstore_hold(world.worker.store, true);
	EXPECT(conn_feed(world.c, "FLUSHALL\r\n", 10) == 10);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	HEAR("+OK\r\n");
	TALK("DBSIZE", ":0\r\n");
	close_world(&world);
}

static void test_numbers(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("INCR n", ":1\r\n");
	TALK("INCRBY n 41", ":42\r\n");
	TALK("DECRBY n 50", ":-8\r\n");
	TALK("DECR n", ":-9\r\n");
	TALK("INCRBY n x", "-ERR value is not an integer or out of range\r\n");
	TALK("SET n 9223372036854775807", "+OK\r\n");
	TALK("INCR n", "-ERR increment or decrement would overflow\r\n");
	TALK("GET n", "$19\r\n9223372036854775807\r\n");
	TALK("SET n abc", "+OK\r\n");
	TALK("INCR n", "-ERR value is not an integer or out of range\r\n");
	TALK("INCRBYFLOAT f 10.5", "$4\r\n10.5\r\n");
	TALK("INCRBYFLOAT f 0.5", "$2\r\n11\r\n");
	TALK("INCRBYFLOAT n 1", "-ERR value is not a valid float\r\n");
	close_world(&world);
}

static void test_expiry(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("SET k v EX 10", "+OK\r\n");
	TALK("TTL k", ":10\r\n");
	TALK("PTTL k", ":10000\r\n");
	TALK("EXPIRETIME k", ":1700000010\r\n");
	TALK("SET k v KEEPTTL", "+OK\r\n");
	TALK("TTL k", ":10\r\n");
	TALK("EXPIRE k 5 GT", ":0\r\n");
	TALK("EXPIRE k 20 GT", ":1\r\n");
	TALK("PERSIST k", ":1\r\n");
	TALK("PERSIST k", ":0\r\n");
	TALK("TTL k", ":-1\r\n");
	TALK("EXPIRE k 5 XX", ":0\r\n");
	TALK("PEXPIRE k 1500", ":1\r\n");
	TALK("GETEX k PERSIST", "$1\r\nv\r\n");
	TALK("GETEX k EX 7", "$1\r\nv\r\n");
	TALK("TTL k", ":7\r\n");
	later(&world, 7001);
	TALK("GET k", "$-1\r\n");
	TALK("TTL k", ":-2\r\n");
	TALK("SETEX k 0 v", "-ERR invalid expire time in 'setex' command\r\n");
	TALK("SET k v EX 10 PX 10", "-ERR syntax error\r\n");
	TALK("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command\r\n");
	TALK("PSETEX k 100 v", "+OK\r\n");
	TALK("EXPIRE k -1", ":1\r\n");
	TALK("EXISTS k", ":0\r\n");
	TALK("EXPIRE k 10 NX GT",
	     "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
	close_world(&world);
}

static void test_server(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n");
	TALK("GET", "-ERR wrong number of arguments for 'get' command\r\n");
	TALK("HELLO 4", "-NOPROTO unsupported protocol version\r\n");
	TALK("HELLO 3", "%7\r\n$6\r\nserver\r\n$7\r\noctokvd\r\n"
			"$7\r\nversion\r\n$5\r\n7.2.0\r\n"
			"$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:0\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
			"$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
	TALK("GET k", "_\r\n");
	TALK("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
	TALK("RESET", "+RESET\r\n");
	TALK("CONFIG GET nothing*", "*0\r\n");
	TALK("SELECT 0", "+OK\r\n");
	TALK("SELECT 1", "-ERR DB index is out of range: there is only 0\r\n");
	TALK("CLIENT SETNAME me", "+OK\r\n");
	TALK("CLIENT GETNAME", "$2\r\nme\r\n");
	TALK("CLIENT SETINFO LIB-NAME x", "+OK\r\n");
	TALK("COMMAND INFO nosuch", "*1\r\n$-1\r\n");
	TALK("COMMAND DOCS", "*0\r\n");
	TALK("WAITAOF 1 0 0", "*2\r\n:1\r\n:0\r\n");
	TALK("AUTH x",
	     "-ERR AUTH called without any users configured: there is no password to give\r\n");
	TALK("SET \"\" v", "-ERR a key has 1 to 1024 bytes\r\n");
	TALK("SCAN 0 COUNT 0", "-ERR syntax error\r\n");
	TALK("SCAN 0 MATCH a* MATCH b*", "-ERR syntax error\r\n");
	TALK("SCAN 7", "-ERR invalid cursor\r\n");
	TALK("CONFIG GET nothing* nothing* nothing* nothing* nothing* nothing* nothing* nothing* "
	     "nothing* nothing* nothing* nothing* nothing* nothing* nothing* nothing* nothing*",
	     "-ERR syntax error\r\n");
	TALK("CONFIG GET *****************************************************************",
	     "-ERR syntax error\r\n");
	say(world.c, "INFO\r\n");
	EXPECT(world.c->out.nr_bytes > 500);
	conn_sent(world.c, world.c->out.nr_bytes);
	TALK("QUIT", "+OK\r\n");
	EXPECT(conn_finished(world.c) && !conn_wants_input(world.c));
	close_world(&world);
}

/* Every key is found once, whatever the COUNT; MATCH selects. */
static void test_scan(void)
{
	struct world world;

	open_world(&world, NULL);
	for (int i = 0; i < 50; i++) {
		char in[32];

		snprintf(in, sizeof(in), "SET key:%d v\r\n", i);
		say(world.c, in);
	}
	conn_sent(world.c, world.c->out.nr_bytes);
	for (int count = 1; count < 70; count += 7) {
		unsigned long long cursor = 0;
		int nr = 0, nr_matched = 0;

		do {
			char in[64], *text, *at;

			snprintf(in, sizeof(in), "SCAN %llu COUNT %d\r\n", cursor, count);
			say(world.c, in);
			text = out_text(&world.c->out);
			EXPECT(sscanf(text, "*2\r\n$%*d\r\n%llu", &cursor) == 1);
			for (at = text; (at = strstr(at, "key:")); at++) {
				nr++;
				nr_matched += at[4] == '4';
			}
			free(text);
			conn_sent(world.c, world.c->out.nr_bytes);
		} while (cursor);
		EXPECT(nr == 50 && nr_matched == 11);
	}
	TALK("SCAN 0 MATCH nothing* COUNT 100", "*2\r\n$1\r\n1\r\n*0\r\n");
	/* Keys that cannot be read: the walk goes on to the next partition. */
	memstore_fail(world.worker.store, OKV_IO_ERROR);
	TALK("SCAN 0 MATCH nothing* COUNT 100", "*2\r\n$1\r\n1\r\n*0\r\n");
	TALK("FLUSHALL", "-IOERR some keys could not be deleted\r\n");
	memstore_fail(world.worker.store, OKV_OK);
	TALK("FLUSHALL", "+OK\r\n");
	TALK("DBSIZE", ":0\r\n");
	close_world(&world);
}

/* Replies come in the order of the requests, in whatever order the store completes them. */
static void test_order(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("MSET a 1 b 2 c 3", "+OK\r\n");
	memstore_hold(world.worker.store, true);
	say(world.c, "GET a\r\nGET b\r\nPING\r\nMGET c a\r\nGET c\r\n");
	HEAR("");
	EXPECT(world.c->nr_requests == 5);
	memstore_release(world.worker.store);
	HEAR("$1\r\n1\r\n$1\r\n2\r\n+PONG\r\n*2\r\n$1\r\n3\r\n$1\r\n1\r\n$1\r\n3\r\n");
	EXPECT(!world.c->nr_requests && !world.c->command_bytes);
	/*
	 * A client goes away while the store works: the connection lasts until the store has
	 * completed its operations.
	 */
	say(world.c, "GET a\r\nSET b 1\r\n");
	conn_kill(world.c);
	EXPECT(!world.nr_freed);
	memstore_release(world.worker.store);
	EXPECT(world.nr_freed == 1);
	memstore_hold(world.worker.store, false);
	world.c = connect_one(&world);
	memstore_fail(world.worker.store, OKV_CORRUPT);
	TALK("GET a", "-CORRUPT what the device returned is not what was written\r\n");
	memstore_fail(world.worker.store, OKV_FULL);
	TALK("SET a 1", "-FULL no room on the device: delete something, or wait for the "
			"garbage collection\r\n");
	close_world(&world);
}

/*
 * A request of many keys does not send all of them at once: a later request must not overtake the
 * rest.
 */
static void test_overtaking(void)
{
	static const char after[] = "SET k39 new\r\n";
	char words[1024] = "DEL", *at = words + 3;
	struct world world;
	size_t used;

	open_world(&world, NULL);
	for (int i = 0; i < 40; i++)
		at += sprintf(at, " k%d", i);
	memstore_hold(world.worker.store, true);
	sprintf(at, "\r\n%s", after);
	used = conn_feed(world.c, words, strlen(words));
	EXPECT(used == strlen(words) - strlen(after) && !conn_wants_input(world.c));
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	EXPECT(conn_wants_input(world.c));
	say(world.c, after);
	HEAR(":0\r\n+OK\r\n");
	TALK("GET k39", "$3\r\nnew\r\n");
	memstore_hold(world.worker.store, true);
	EXPECT(conn_feed(world.c, "FLUSHALL\r\nSET k39 newer\r\n", 25) == 10);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	say(world.c, "SET k39 newer\r\n");
	HEAR("+OK\r\n+OK\r\n");
	TALK("GET k39", "$5\r\nnewer\r\n");
	close_world(&world);
}

/*
 * The first of two operations of a request lets a later request continue, and that completes the
 * second one at once.
 */
static void test_ended_meanwhile(void)
{
	char words[1024] = "MGET a b\r\nDEL", *at = words + strlen(words);
	struct world world;

	open_world(&world, NULL);
	for (int i = 0; i < 40; i++)
		at += sprintf(at, " k%d", i);
	strcpy(at, "\r\n");
	memstore_hold(world.worker.store, true);
	say(world.c, words);
	EXPECT(!conn_wants_input(world.c) && !conn_may_fly(world.c));
	memstore_hold(world.worker.store, false);
	memstore_release_oldest(world.worker.store);
	HEAR("*2\r\n$-1\r\n$-1\r\n:0\r\n");
	EXPECT(!world.c->nr_requests && !world.c->nr_flying);
	close_world(&world);
}

/* The memory that a request of many keys holds for them counts. */
static void test_many_operations(void)
{
	char *words = mem_alloc(64 << 10), *at = words + sprintf(words, "EXISTS");
	struct world world;

	open_world(&world, NULL);
	for (int i = 0; i < 5000; i++)
		at += sprintf(at, " k");
	strcpy(at, "\r\n");
	TALK("GET k", "$-1\r\n");
	memstore_hold(world.worker.store, true);
	say(world.c, words);
	EXPECT(world.c->command_bytes > 5000 * sizeof(struct kv_op));
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	HEAR(":0\r\n");
	EXPECT(!world.c->command_bytes);
	free(words);
	close_world(&world);
}

/* However many keys its requests have, the values of a client in memory are bounded. */
static void test_many_values(void)
{
	char words[1024] = "MGET", *at = words + 4, *big = mem_alloc(1000001);
	struct world world;

	open_world(&world, NULL);
	memset(big, 'x', 1000000);
	big[1000000] = 0;
	for (int i = 0; i < 32; i++)
		at += sprintf(at, " k");
	strcpy(at, "\r\n");
	say(world.c, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n");
	say(world.c, big);
	TALK("", "+OK\r\n");
	memstore_hold(world.worker.store, true);
	for (int i = 0; i < 20; i++)
		conn_feed(world.c, words, strlen(words));
	EXPECT((world.c->nr_flying - 1) * world.c->value_bytes < CONN_MAX_VALUES_BYTES);
	memstore_release(world.worker.store);
	for (int i = 0; i < 20; i++)
		conn_feed(world.c, words, strlen(words));
	EXPECT(world.c->nr_flying <= CONN_MAX_VALUES_BYTES / 1000000 + 1);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	EXPECT(!world.c->nr_flying && !world.c->nr_requests && !world.c->reply_bytes);
	free(big);
	close_world(&world);
}

/*
 * A client only writes: what it makes us hold stops growing, and it is closed when nothing moves.
 */
static void test_bounds(void)
{
	struct world world;
	char *big = mem_alloc(100001);
	size_t fed = 0, more;

	open_world(&world, NULL);
	memset(big, 'x', 100000);
	big[100000] = 0;
	say(world.c, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n");
	say(world.c, big);
	TALK("", "+OK\r\n");
	do {
		more = conn_feed(world.c, "GET k\r\n", 7);
		fed += more;
	} while (more);
	EXPECT(fed && world.c->out.nr_bytes >= CONN_MAX_OUTPUT_BYTES &&
	       world.c->out.nr_bytes < CONN_MAX_OUTPUT_BYTES + 200000);
	EXPECT(!conn_overdue(world.c, world.worker.now_ns + 4000000000) &&
	       conn_overdue(world.c, world.worker.now_ns + 6000000000));
	conn_sent(world.c, world.c->out.nr_bytes);
	EXPECT(conn_wants_input(world.c));
	EXPECT(!conn_overdue(world.c, world.worker.now_ns + 6000000000) &&
	       conn_overdue(world.c, world.worker.now_ns + 61000000000));
	/* Half a command. */
	say(world.c, "*2\r\n$3\r\nGE");
	EXPECT(conn_overdue(world.c, world.worker.now_ns + 6000000000));
	conn_kill(world.c);
	world.c = connect_one(&world);
	/* The store is slow: the number of requests is bounded, and smaller if values are large. */
	memstore_hold(world.worker.store, true);
	for (fed = 0; conn_feed(world.c, "GET k\r\n", 7); fed++)
		;
	EXPECT(fed == CONN_MAX_VALUES_BYTES / CONN_FIRST_VALUE_BYTES &&
	       !conn_overdue(world.c, world.worker.now_ns + 6000000000));
	memstore_release(world.worker.store);
	conn_sent(world.c, world.c->out.nr_bytes);
	for (fed = 0; conn_feed(world.c, "GET k\r\n", 7); fed++)
		;
	EXPECT(fed == CONN_MAX_VALUES_BYTES / 100000 + 1);
	memstore_release(world.worker.store);
	conn_sent(world.c, world.c->out.nr_bytes);
	/* Small values make it forget the large ones. */
	memstore_hold(world.worker.store, false);
	TALK("SET k small", "+OK\r\n");
	for (int i = 0; i < 100; i++)
		say(world.c, "GET k\r\n");
	conn_sent(world.c, world.c->out.nr_bytes);
	memstore_hold(world.worker.store, true);
	for (fed = 0; conn_feed(world.c, "GET k\r\n", 7); fed++)
		;
	EXPECT(fed == CONN_MAX_REQUESTS);
	memstore_release(world.worker.store);
	conn_sent(world.c, world.c->out.nr_bytes);
	memstore_hold(world.worker.store, false);
	TALK("*1\r\n$2147483648", "-ERR Protocol error: invalid bulk length\r\n");
	EXPECT(conn_finished(world.c));
	free(big);
	close_world(&world);
}

static void test_tenants(void)
{
	char *path = write_users("keys=2 bytes=1k connections=2 requests=3");
	struct world world;
	struct conn *first, *second;

	open_world(&world, path);
	TALK("GET k", "-NOAUTH Authentication required.\r\n");
	TALK("HELLO 3", "-NOAUTH HELLO must be called with the client already authenticated, or "
			"with AUTH <user> <pass>\r\n");
	TALK("AUTH ann wrong",
	     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("SET k ann's", "-ERR Protocol error: unbalanced quotes in request\r\n");
	conn_kill(world.c);
	world.c = first = connect_one(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("SET k anns", "+OK\r\n");
	world.c = second = connect_one(&world);
	TALK("AUTH bob other", "+OK\r\n");
	TALK("GET k", "$-1\r\n");
	TALK("SET k bobs", "+OK\r\n");
	TALK("FLUSHALL", "+OK\r\n");
	world.c = first;
	TALK("GET k", "$4\r\nanns\r\n");
	/* Keys: a third one is refused, the two can be replaced. */
	TALK("SET l 1", "+OK\r\n");
	TALK("SET m 1", "-QUOTA this user has no more keys: delete something\r\n");
	TALK("INCR m", "-QUOTA this user has no more keys: delete something\r\n");
	TALK("SET l 2", "+OK\r\n");
	TALK("SET m 1 XX", "$-1\r\n");
	TALK("DEL l", ":1\r\n");
	TALK("SET m 1", "+OK\r\n");
	TALK("SETRANGE m 0 " ZEROS_96 "0", ":97\r\n");
	for (int i = 0; i < 10; i++)
		say(world.c, "APPEND m " ZEROS_96 "0\r\n");
	conn_sent(world.c, world.c->out.nr_bytes);
	TALK("APPEND m " ZEROS_96 "0000000000000000",
	     "-QUOTA this user has no more bytes: delete something\r\n");
	/* Connections. */
	world.c = connect_one(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	conn_kill(second);
	second = connect_one(&world);
	say(second, "AUTH ann secret\r\n");
	hear(second, "-ERR max number of clients of this user reached\r\n", __LINE__);
	/* Requests: the fourth waits until the others are done. */
	memstore_hold(world.worker.store, true);
	EXPECT(conn_feed(world.c, "GET k\r\nGET k\r\nGET k\r\nGET k\r\n", 28) == 21 &&
	       world.c->parked);
	memstore_release(world.worker.store);
	memstore_hold(world.worker.store, false);
	conn_sent(world.c, world.c->out.nr_bytes);
	EXPECT(!world.c->parked && world.c->has_token);
	tenant_request_none(world.c);
	TALK("GET k", "$4\r\nanns\r\n");
	conn_kill(first);
	/* Three wrong passwords are too many. Before AUTH a command has to be small. */
	say(second, "AUTH ann x\r\nAUTH ann x\r\n");
	EXPECT(!conn_finished(second));
	say(second, "AUTH ann x\r\n");
	conn_sent(second, second->out.nr_bytes);
	EXPECT(conn_finished(second));
	conn_kill(second);
	second = connect_one(&world);
	say(second, "*1\r\n$20000\r\n");
	hear(second, "-ERR Protocol error: invalid bulk length\r\n", __LINE__);
	conn_kill(second);
	close_world(&world);
	unlink(path);
	free(path);
}

/* Writes under way count against a bound, and no longer than they are. */
static void test_quota(void)
{
	char *path = write_users("keys=2 bytes=1k");
	struct world world;

	open_world(&world, path);
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("SETRANGE k 100000 x", "-QUOTA this user has no more bytes: delete something\r\n");
	TALK("MSET k 1 l 1 m 1", "-QUOTA this user has no more keys: delete something\r\n");
	TALK("DBSIZE", ":2\r\n");
	TALK("MSET k 2 l 2", "+OK\r\n");
	TALK("DEL l", ":1\r\n");
	memstore_hold(world.worker.store, true);
	say(world.c, "SET l 1\r\nSET m 1\r\nINCR n\r\nAPPEND k xyz\r\n");
	EXPECT(world.c->tenant->nr_held_keys == 1 && world.c->tenant->nr_held_bytes);
	memstore_release(world.worker.store);
	memstore_hold(world.worker.store, false);
	HEAR("+OK\r\n-QUOTA this user has no more keys: delete something\r\n"
	     "-QUOTA this user has no more keys: delete something\r\n:4\r\n");
	EXPECT(!world.c->tenant->nr_held_keys && !world.c->tenant->nr_held_bytes);
	close_world(&world);
	unlink(path);
	free(path);
}

static void expect_refused(const char *text, const char *wanted)
{
	char path[] = "/tmp/octokv-users-XXXXXX", why[256] = "";
	int fd = mkstemp(path);
	struct tenants tenants;

	dprintf(fd, "%s", text);
	close(fd);
	EXPECT(tenants_load(&tenants, path, why, sizeof(why)) < 0);
	if (!strstr(why, wanted))
		printf("wanted \"%s\" in \"%s\"\n", wanted, why);
	EXPECT(strstr(why, wanted));
	tenants_free(&tenants);
	unlink(path);
}

static void test_users_file(void)
{
	char hash[TENANT_HASH_BYTES], line[512];

	EXPECT(!tenant_hash_password("x", hash, sizeof(hash)));
	expect_refused("", "no user");
	expect_refused("ann 1\n", ":1: a line is NAME ID HASH");
	expect_refused("ann 1 plain\n", "hash is not one");
	snprintf(line, sizeof(line), "ann 0 %s\n", hash);
	expect_refused(line, "from 1 to 1023");
	snprintf(line, sizeof(line), "ann 1 %s\nbob 1 %s\n", hash, hash);
	expect_refused(line, ":2: a name or an ID is there twice");
	snprintf(line, sizeof(line), "ann 1 %s weight=0\n", hash);
	expect_refused(line, "out of range");
	snprintf(line, sizeof(line), "ann 1 %s bytes=99999999999999999999\n", hash);
	expect_refused(line, "NAME=NUMBER");
}

/*
 * Who has not logged in is counted and has ten seconds, whatever it says meanwhile. Beyond some
 * wrong passwords of an address, none is looked at for a while, not even a right one.
 */
static void test_strangers(void)
{
	char hash[TENANT_HASH_BYTES], path[] = "/tmp/octokv-users.XXXXXX";
	const char *wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
	int fd = mkstemp(path);
	struct world world;
	uint32_t nr_looked_at = 0;

	EXPECT(fd >= 0 && !tenant_hash_password("pw", hash, sizeof(hash)));
	dprintf(fd, "ann 1 %s\n", hash);
	close(fd);
	open_world(&world, path);
	unlink(path);
	world.server.config.stall_timeout_s = 5;
	EXPECT(world.server.nr_strangers == 1);
	for (int i = 0; i < 3; i++) {
		say(world.c, "P");
		later(&world, 4000);
		EXPECT(conn_overdue(world.c, world.worker.now_ns) == (i == 2));
	}
	conn_kill(world.c);
	EXPECT(world.server.nr_strangers == 0);
	for (int i = 0; i < 30; i++) {
		world.c = connect_one(&world);
		say(world.c, "AUTH ann wrong\r\n");
		nr_looked_at += world.c->out.nr_bytes == strlen(wrong);
		conn_kill(world.c);
	}
	EXPECT(nr_looked_at == AUTH_WRONG_BURST && world.server.nr_strangers == 0);
	EXPECT(worker_counter(&world.worker, COUNT_WRONG_PASSWORDS) == 30);
	world.c = connect_one(&world);
	TALK("AUTH ann pw", "-ERR too many wrong passwords from this address: try again later\r\n");
	conn_kill(world.c);
	world.c = connect_one(&world);
	world.c->address[0] = 1;
	TALK("AUTH ann pw", "+OK\r\n");
	EXPECT(world.server.nr_strangers == 0);
	conn_kill(world.c);
	/* What was right before is known, whatever the address. */
	world.c = connect_one(&world);
	say(world.c, "HELLO 2 AUTH ann pw SETNAME x\r\n");
	EXPECT(world.c->tenant == world.tenants.list[0] && !strcmp(world.c->name, "x"));
	conn_sent(world.c, world.c->out.nr_bytes);
	later(&world, 60000);
	EXPECT(!conn_overdue(world.c, world.worker.now_ns - 1000000000));
	close_world(&world);
}

/* All memory is in use: deletions go on, and one command at a time. */
static void test_memory(void)
{
	struct world world;
	void *most;

	mem_start(4 << 20, 0);
	open_world(&world, NULL);
	TALK("SET k v", "+OK\r\n");
	most = mem_alloc(4 << 20);
	TALK("GET k", "-OOM no memory for this request: try again later\r\n");
	TALK("DEL k", ":1\r\n");
	TALK("PING", "+PONG\r\n");
	memstore_hold(world.worker.store, true);
	EXPECT(conn_feed(world.c, "DEL k\r\nDEL k\r\n", 14) == 7);
	memstore_release(world.worker.store);
	HEAR(":0\r\n");
	memstore_hold(world.worker.store, false);
	mem_free(most);
	TALK("SET k v", "+OK\r\n");
	close_world(&world);
	mem_start(UINT64_MAX, UINT64_MAX / 2);
}

static void test_glob(void)
{
	static const struct { const char *pattern, *text; bool match; } cases[] = {
		{ "*", "", true }, { "", "", true }, { "", "a", false }, { "a*", "abc", true },
		{ "*c", "abc", true }, { "a?c", "abc", true },
		{ "a?c", "ac", false }, { "[a-c]x", "bx", true }, { "[^a-c]x", "bx", false },
		{ "\\*", "*", true }, { "\\*", "a", false },
		{ "*a*b*", "xxaxxb", true }, { "*a*b*", "xxbxxa", false }, { "[", "[", false },
		{ "[ab", "a", true }, { "a\\", "a\\", true },
	};
	char pattern[200], text[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		EXPECT(glob_match(cases[i].pattern, strlen(cases[i].pattern), cases[i].text,
				  strlen(cases[i].text)) == cases[i].match);
	/* This would take for ever if each star tried all places again. */
	for (int i = 0; i < 100; i++)
		memcpy(pattern + 2 * i, "*a", 2);
	memset(text, 'a', 98);
	text[98] = 'b';
	EXPECT(!glob_match(pattern, 198, text, 99));
}

int main(void)
{
	test_glob();
	test_values();
	test_many_keys();
	test_numbers();
	test_expiry();
	test_server();
	test_scan();
	test_order();
	test_overtaking();
	test_ended_meanwhile();
	test_many_operations();
	test_many_values();
	test_bounds();
	test_tenants();
	test_quota();
	test_users_file();
	test_strangers();
	test_memory();
	printf("ok server_command: values, keys, numbers, expiry, scan, order, bounds, tenants\n");
	return 0;
}
