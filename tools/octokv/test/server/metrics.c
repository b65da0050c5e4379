// SPDX-License-Identifier: GPL-2.0
/*
 * metrics.c - counters of requests, the slow log, CLIENT KILL and CONFIG SET, without sockets
 *
 * Histograms count a time in the bucket that it belongs to. Each tenant sees its own figures, slow
 * commands and connections, and an admin those of all.
 */
#include "world.h"

enum { SLOW_US = 10000 };

static void test_buckets(void)
{
	const uint64_t longest_us = histogram_bound_us(HISTOGRAM_BUCKETS - 2);
	struct histogram h = { 0 };

	EXPECT(histogram_bucket(0) == 0 && histogram_bucket(1000) == 0);
	EXPECT(histogram_bucket(1001) == 1 && histogram_bucket(2000) == 1);
	for (uint32_t i = 1; i < HISTOGRAM_BUCKETS - 1; i++) {
		EXPECT(histogram_bucket(histogram_bound_us(i) * 1000) == i);
		EXPECT(histogram_bucket(histogram_bound_us(i) * 1000 + 1) == i + 1);
	}
	EXPECT(longest_us == 1 << 24 && histogram_bucket(UINT64_MAX / 2) == HISTOGRAM_BUCKETS - 1);
	EXPECT(!histogram_us(&h, 500000));
	h.nr[3] = 99;
	h.nr[7] = 1;
	EXPECT(histogram_us(&h, 500000) == 8 && histogram_us(&h, 990000) == 8);
	EXPECT(histogram_us(&h, 990001) == 128 && histogram_us(&h, 1000000) == 128);
}

static void test_commands_have_room(void)
{
	uint32_t nr = 0, number;

	while (command_at(nr)) {
		EXPECT(command_lookup(command_at(nr)->name, strlen(command_at(nr)->name),
				      &number) == command_at(nr) && number == nr);
		nr++;
	}
	EXPECT(nr <= MAX_COMMANDS);
}

/* A command that the store keeps for @ms. */
static void ask_slowly(struct world *world, struct conn *c, const char *command, uint64_t ms)
{
	memstore_hold(world->worker.store, true);
	say(c, command);
	later(world, ms);
	memstore_hold(world->worker.store, false);
	memstore_release(world->worker.store);
	conn_sent(c, c->out.nr_bytes);
}

/* Does the reply to @command have @text? */
static bool says(struct conn *c, const char *command, const char *text)
{
	char *reply;
	bool has;

	say(c, command);
	reply = out_text(&c->out);
	has = strstr(reply, text);
	free(reply);
	conn_sent(c, c->out.nr_bytes);
	return has;
}

static void test_figures(void)
{
	struct world world;

	open_world(&world, NULL);
	ask_slowly(&world, world.c, "GET k\r\n", 3);
	ask_slowly(&world, world.c, "GET k\r\n", 5);
	TALK("LATENCY HISTOGRAM get set nosuch",
	     "*2\r\n$3\r\nget\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n"
	     "*4\r\n:4096\r\n:1\r\n:8192\r\n:2\r\n");
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_get:calls=2,usec=8000,"
		    "usec_per_call=4000.00,rejected_calls=0,failed_calls=0\r\n"));
	EXPECT(says(world.c, "INFO latencystats\r\n", "latency_percentiles_usec_get:p50=4096.000,"
		    "p99=8192.000,p99.9=8192.000\r\n"));
	say(world.c, "GET\r\nSET n x\r\nINCR n\r\nNOSUCH\r\n");
	conn_sent(world.c, world.c->out.nr_bytes);
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_get:calls=2,usec=8000,"
		    "usec_per_call=4000.00,rejected_calls=1,failed_calls=0\r\n"));
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_incr:calls=1,usec=0,"
		    "usec_per_call=0.00,rejected_calls=0,failed_calls=1\r\n"));
	EXPECT(says(world.c, "INFO errorstats\r\n", "errorstat_ERR:count=3\r\n"));
	EXPECT(!says(world.c, "INFO\r\n", "cmdstat_") && says(world.c, "INFO ALL\r\n", "cmdstat_"));
	TALK("CONFIG RESETSTAT", "+OK\r\n");
	EXPECT(!says(world.c, "INFO commandstats\r\n", "cmdstat_get"));
	EXPECT(!says(world.c, "INFO errorstats\r\n", "errorstat_"));
	close_world(&world);
}

static void test_transaction(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("MULTI", "+OK\r\n");
	TALK("SET k x", "+QUEUED\r\n");
	TALK("INCR k", "+QUEUED\r\n");
	EXPECT(!says(world.c, "EXEC\r\n", "EXECABORT"));
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_set:calls=1,"));
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_incr:calls=1,usec=0,"
		    "usec_per_call=0.00,rejected_calls=0,failed_calls=1\r\n"));
	EXPECT(says(world.c, "INFO commandstats\r\n", "cmdstat_exec:calls=1,"));
	EXPECT(says(world.c, "INFO errorstats\r\n", "errorstat_ERR:count=1\r\n"));
	close_world(&world);
}

static void test_slow_log(void)
{
	struct world world;

	open_world(&world, NULL);
	world.server.config.slow_us = SLOW_US;
	world.c->peer_port = 1234;
	TALK("CLIENT SETNAME me", "+OK\r\n");
	ask_slowly(&world, world.c, "GET quick\r\n", SLOW_US / 1000 - 1);
	TALK("SLOWLOG LEN", ":0\r\n");
	ask_slowly(&world, world.c, "GET slow\r\n", SLOW_US / 1000);
	TALK("SLOWLOG LEN", ":1\r\n");
	TALK("SLOWLOG GET", "*1\r\n*6\r\n:0\r\n:1700000000\r\n:10000\r\n*2\r\n$3\r\nGET\r\n"
	     "$4\r\nslow\r\n$9\r\n[::]:1234\r\n$2\r\nme\r\n");
	for (int i = 0; i < 6; i++)
		ask_slowly(&world, world.c, "GET k\r\n", SLOW_US / 1000 + i);
	TALK("SLOWLOG LEN", ":4\r\n");
	EXPECT(world.worker.slow_log->nr == 4);
	EXPECT(says(world.c, "SLOWLOG GET 1\r\n", "*1\r\n*6\r\n:384\r\n:1700000000\r\n:15000\r\n"));
	TALK("SLOWLOG GET 0", "*0\r\n");
	EXPECT(says(world.c, "SLOWLOG HELP\r\n", "+LEN\r\n"));
	EXPECT(says(world.c, "SLOWLOG GET 1 2\r\n", "-ERR"));
	EXPECT(says(world.c, "SLOWLOG X\r\n", "-ERR"));
	TALK("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1\r\n");
	EXPECT(says(world.c, "SLOWLOG GET -1\r\n", "*4\r\n"));
	TALK("CONFIG SET slowlog-max-len 2", "+OK\r\n");
	EXPECT(says(world.c, "SLOWLOG GET -1\r\n", "*2\r\n"));
	TALK("SLOWLOG RESET", "+OK\r\n");
	TALK("SLOWLOG LEN", ":0\r\n");
	TALK("CONFIG SET slowlog-log-slower-than -1", "+OK\r\n");
	ask_slowly(&world, world.c, "GET k\r\n", 100000);
	TALK("SLOWLOG LEN", ":0\r\n");
	close_world(&world);
}

static void test_long_commands(void)
{
	char command[1000] = "DEL ", *end = command + strlen(command);
	struct world world;

	open_world(&world, NULL);
	world.server.config.slow_us = SLOW_US;
	memset(end, 'x', 200);
	strcpy(end + 200, "\r\n");
	ask_slowly(&world, world.c, command, 20);
	EXPECT(says(world.c, "SLOWLOG GET 1\r\n", "x... (72 more bytes)\r\n"));
	for (int i = 0; i < 40; i++)
		strcpy(end + 2 * i, "k \r\n");
	ask_slowly(&world, world.c, command, 20);
	EXPECT(says(world.c, "SLOWLOG GET 1\r\n", "k\r\n$23\r\n... (10 more arguments)\r\n"));
	close_world(&world);
}

/* ann is an admin, bob is not. */
static struct conn *log_in(struct world *world, const char *login)
{
	struct conn *c = connect_one(world);

	say(c, login);
	EXPECT(c->tenant);
	conn_sent(c, c->out.nr_bytes);
	return c;
}

static void test_tenants(void)
{
	char *path = write_users("admin");
	struct conn *ann, *bob, *other;
	struct world world;

	open_world(&world, path);
	world.server.config.slow_us = SLOW_US;
	ann = log_in(&world, "AUTH ann secret\r\n");
	bob = log_in(&world, "AUTH bob other\r\n");
	other = log_in(&world, "AUTH bob other\r\n");
	ask_slowly(&world, ann, "GET of-ann\r\n", 20);
	ask_slowly(&world, bob, "SET of-bob x\r\n", 20);
	say(ann, "NOSUCH\r\n");
	conn_sent(ann, ann->out.nr_bytes);

	EXPECT(says(ann, "SLOWLOG GET\r\n", "of-bob") && says(ann, "SLOWLOG GET\r\n", "of-ann"));
	EXPECT(says(bob, "SLOWLOG GET\r\n", "of-bob") && !says(bob, "SLOWLOG GET\r\n", "of-ann"));
	EXPECT(says(bob, "SLOWLOG RESET\r\n", "+OK") && says(bob, "SLOWLOG LEN\r\n", ":0"));
	EXPECT(says(ann, "SLOWLOG LEN\r\n", ":1"));

	EXPECT(says(ann, "INFO commandstats\r\n", "cmdstat_set:calls=1,"));
	EXPECT(says(bob, "INFO commandstats\r\n", "cmdstat_set:calls=1,"));
	EXPECT(!says(bob, "INFO commandstats\r\n", "cmdstat_get:"));
	EXPECT(!says(bob, "LATENCY HISTOGRAM\r\n", "get"));
	EXPECT(says(ann, "INFO errorstats\r\n", "errorstat_ERR:count=1"));
	EXPECT(!says(bob, "INFO errorstats\r\n", "errorstat_"));

	EXPECT(says(bob, "CONFIG SET timeout 1\r\n", "-NOPERM"));
	EXPECT(says(bob, "CONFIG RESETSTAT\r\n", "-NOPERM"));
	EXPECT(says(ann, "CLIENT LIST\r\n", "user=bob"));
	EXPECT(says(ann, "CLIENT LIST\r\n", "user=ann"));
	EXPECT(!says(bob, "CLIENT LIST\r\n", "user=ann"));
	EXPECT(says(bob, "CLIENT KILL USER ann\r\n", ":0"));
	EXPECT(says(bob, "CLIENT KILL TYPE normal\r\n", ":1") && world.nr_freed == 1);
	world.server.config.slow_us = 0;
	other = log_in(&world, "AUTH bob other\r\n");
	EXPECT(says(other, "AUTH bob other\r\n", "+OK"));
	EXPECT(!says(ann, "SLOWLOG GET -1\r\n", "AUTH"));
	EXPECT(says(ann, "CLIENT KILL USER bob\r\n", ":2") && world.nr_freed == 3);
	conn_kill(ann);
	close_world(&world);
	unlink(path);
	free(path);
}

/* The wait for a token is part of a command's time. What is not complete waits for the client. */
static void test_token(void)
{
	char *path = write_users("requests=1");
	struct world world;
	struct conn *other;

	open_world(&world, path);
	world.server.config.slow_us = SLOW_US;
	say(world.c, "AUTH ann secret\r\n");
	other = log_in(&world, "AUTH ann secret\r\n");
	conn_sent(world.c, world.c->out.nr_bytes);
	for (int whole = 0; whole < 2; whole++) {
		const char *command = whole ? "GET later\r\n" : "GET la";

		memstore_hold(world.worker.store, true);
		say(world.c, "GET k\r\n");
		EXPECT(!conn_feed(other, command, strlen(command)) && other->parked);
		later(&world, 50);
		memstore_hold(world.worker.store, false);
		memstore_release(world.worker.store);
		say(other, command);
		later(&world, 70);
		if (!whole)
			say(other, "ter\r\n");
		conn_sent(other, other->out.nr_bytes);
		conn_sent(world.c, world.c->out.nr_bytes);
		EXPECT(says(other, "SLOWLOG GET 1\r\n", whole ? ":50000\r\n*3\r\n$3\r\nGET\r\n$5"
			    "\r\nlater\r\n$20\r\n... (token 50000 us)\r\n" : "GET\r\n$1\r\nk"));
	}
	conn_kill(other);
	close_world(&world);
	unlink(path);
	free(path);
}

static void test_kill(void)
{
	struct world world;
	struct conn *c[3];
	char text[64];

	open_world(&world, NULL);
	for (int i = 0; i < 3; i++) {
		c[i] = connect_one(&world);
		c[i]->peer_port = 1000 + i;
	}
	TALK("CLIENT KILL", "-ERR syntax error\r\n");
	TALK("CLIENT KILL ID x", "-ERR syntax error\r\n");
	TALK("CLIENT KILL ID 5 ADDR", "-ERR syntax error\r\n");
	TALK("CLIENT KILL TYPE sheep", "-ERR syntax error\r\n");
	TALK("CLIENT KILL [::]:77", "-ERR No such client\r\n");
	TALK("CLIENT KILL TYPE pubsub", ":0\r\n");
	TALK("CLIENT KILL MAXAGE 1", ":0\r\n");
	TALK("CLIENT LIST TYPE pubsub", "$0\r\n\r\n");
	EXPECT(says(world.c, "CLIENT LIST ID 64 128\r\n", "addr=[::]:1001"));
	EXPECT(!says(world.c, "CLIENT LIST ID 64\r\n", "addr=[::]:1001"));
	TALK("CLIENT KILL [::]:1000", "+OK\r\n");
	snprintf(text, sizeof(text), "CLIENT KILL ID %u\r\n", (uint32_t)c[1]->id);
	EXPECT(says(world.c, text, ":1") && world.nr_freed == 2);
	later(&world, 2000);
	TALK("CLIENT KILL MAXAGE 3", ":0\r\n");
	TALK("CLIENT KILL MAXAGE 2", ":1\r\n");
	EXPECT(world.nr_freed == 3 && !world.c->closing);
	TALK("CLIENT KILL ADDR unix:0 SKIPME no", ":1\r\n");
	EXPECT(world.c->closing && !world.c->dead);
	close_world(&world);
}

static void test_settings(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("CONFIG SET timeout 7 slowlog-max-len 9", "+OK\r\n");
	TALK("CONFIG GET timeout slowlog-max-len",
	     "*4\r\n$7\r\ntimeout\r\n$1\r\n7\r\n$15\r\nslowlog-max-len\r\n$1\r\n9\r\n");
	TALK("CONFIG SET timeout 8 slowlog-max-len 4097",
	     "-ERR 'slowlog-max-len' is a number from 0 to 4096\r\n");
	TALK("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n7\r\n");
	TALK("CONFIG SET maxclients 1001", "-ERR 'maxclients' is a number from 1 to 1000\r\n");
	TALK("CONFIG SET maxclients x", "-ERR 'maxclients' is a number from 1 to 1000\r\n");
	TALK("CONFIG SET maxclients", "-ERR syntax error\r\n");
	TALK("CONFIG SET appendonly no",
	     "-ERR 'appendonly' cannot be changed while octokvd runs\r\n");
	EXPECT(says(world.c, "CONFIG SET nosuch 1\r\n", "-ERR CONFIG SET does not know 'nosuch'."));
	later(&world, 6999);
	EXPECT(!conn_overdue(world.c, world.worker.now_ns));
	later(&world, 2);
	EXPECT(conn_overdue(world.c, world.worker.now_ns));
	close_world(&world);
}

int main(void)
{
	test_buckets();
	test_commands_have_room();
	test_figures();
	test_transaction();
	test_slow_log();
	test_long_commands();
	test_tenants();
	test_token();
	test_kill();
	test_settings();
	puts("ok server_metrics: counters, slow log, connections and settings, by tenant");
	return 0;
}
