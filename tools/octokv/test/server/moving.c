// SPDX-License-Identifier: GPL-2.0
/*
 * moving.c - slots on their way from node to node: SETSLOT, ASK, TRYAGAIN, MIGRATE; and SETMAP
 *
 * Our node is A of three. What it would send to another node is looked at here, and answered.
 */
#define _GNU_SOURCE
#include "node.h"

#define SOME "-TRYAGAIN the slot moves: not all of these keys are here\r\n"
#define IN_DOUBT "-TRYAGAIN the slot of this key moves, and the other node may have an older " \
		 "copy of it: it cannot be removed before that has ended\r\n"
#define COPIES "-TRYAGAIN the slot moves, and the other node may have older copies of these " \
	       "keys\r\n"

static char why[256];
static char folder[] = "/tmp/moving-XXXXXX";
static char path[64], own_path[128];

static void write_file(const char *to, const char *text)
{
	FILE *file = fopen(to, "w");

	EXPECT(file && fputs(text, file) >= 0 && !fclose(file));
}

static struct cluster *load(const char *text, const char *id)
{
	write_file(path, text);
	why[0] = 0;
	return cluster_load(path, id, why, sizeof(why));
}

/* ---- the map ---- */

static void test_words(void)
{
	static const char *const wrong[] = {
		A " h:1 5\n" B " h:2 6 [6->-" A "]\n",		/* another's line */
		A " h:1 5 [5-<-" B "]\n" B " h:2 6\n",		/* it is ours already */
		A " h:1 5 [6->-" B "]\n" B " h:2 6\n",		/* it is not ours */
		A " h:1 5 [5->-" C "]\n" B " h:2 6\n",		/* nobody */
		A " h:1 5 [5->-" A "]\n" B " h:2 6\n",		/* to itself */
		A " h:1 5 [5->-" B "] [5->-" B "]\n" B " h:2\n",
		A " h:1 5 [5->-" B "\n" B " h:2 6\n",
		A " h:1 5 [x->-" B "]\n" B " h:2 6\n",
		A " h:1 5 [5---" B "]\n" B " h:2 6\n",
	};
	char text[1024];
	struct cluster *c = load("epoch 1\n" A " h:1 5 7 [5->-" B "] [6-<-" B "]\n" B " h:2 6\n",
				 A);

	EXPECT(c && c->nr_ways == 2 && c->way[5] == 2 && c->way[6] == 2);
	/* Nobody knows what was under way at the end. */
	EXPECT(c->in_doubt[5] && !c->in_doubt[6] && cluster_nr_serving(c) == 2);
	cluster_free(c);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "epoch 1\n%s", wrong[i]);
		EXPECT(!load(text, A) && strstr(why, "[SLOT->-ID]"));
	}
}

static void test_files(void)
{
	struct cluster *c = load(map_text, A), *other;
	enum cluster_own which;

	snprintf(own_path, sizeof(own_path), "%s." A, path);
	EXPECT(cluster_change(c, 5061, CLUSTER_MIGRATING, 1, why, sizeof(why)));
	EXPECT(cluster_change(c, 9000, CLUSTER_IMPORTING, 1, why, sizeof(why)));
	EXPECT(!cluster_save(c, own_path, why, sizeof(why)));
	/* Of the same number, the own one counts. */
	other = cluster_load_newest(path, A, &which, why, sizeof(why));
	EXPECT(other && which == CLUSTER_OWN_SAME && cluster_is_same(c, other));
	EXPECT(other->nr_ways == 2 && other->way[5061] == 2 && other->way[9000] == 2);
	EXPECT(other->in_doubt[5061]);
	cluster_free(other);
	cluster_free(load("epoch 7\n" A " h:1 0-8191\n" B " h:2 8192-16383\n", A));
	other = cluster_load_newest(path, A, &which, why, sizeof(why));
	EXPECT(other && which == CLUSTER_OWN_COUNTS && cluster_is_same(c, other));
	cluster_free(other);
	cluster_free(load(map_text, A));
	EXPECT(cluster_change(c, 9000, CLUSTER_NODE, 0, why, sizeof(why)) && c->epoch == 8);
	EXPECT(!cluster_save(c, own_path, why, sizeof(why)));
	other = cluster_load_newest(path, A, &which, why, sizeof(why));
	EXPECT(other && which == CLUSTER_OWN_COUNTS && other->epoch == 8);
	EXPECT(cluster_owns(other, 9000) && other->nr_ways == 1);
	cluster_free(other);
	/* A newer one in the first file counts, and slots stay on their way where that fits. */
	other = load("epoch 9\n" A " h:1 0-8191\n" C " h:3\n" B " h:2 8192-16383\n", A);
	EXPECT(cluster_change(c, 866, CLUSTER_MIGRATING, 2, why, sizeof(why)));
	cluster_keep_ways(other, c);
	EXPECT(other->nr_ways == 2 && other->way[5061] == 3 && other->way[866] == 2);
	cluster_free(other);
	other = load("epoch 9\n" A " h:1 0-866\n" B " h:2 867-16383\n", A);
	cluster_keep_ways(other, c);
	EXPECT(!other->nr_ways);
	cluster_free(other);
	/* One that comes does so from the node that has it. */
	other = load("epoch 9\n" A " h:1 0-8191\n" B " h:2 8192-8999\n" C " h:3 9000-16383\n", A);
	EXPECT(cluster_change(c, 9001, CLUSTER_IMPORTING, 1, why, sizeof(why)));
	cluster_keep_ways(other, c);
	EXPECT(!other->way[9001] && other->way[5061] == 2);
	EXPECT(cluster_change(c, 9001, CLUSTER_STABLE, 0, why, sizeof(why)));
	cluster_free(other);
	/* At a start, too. But one that gives back what has moved was missed before. */
	cluster_free(load("epoch 9\n" A " h:1 0-8191\n" C " h:3\n" B " h:2 8192-16383\n", A));
	EXPECT(!cluster_load_newest(path, A, &which, why, sizeof(why)));
	EXPECT(strstr(why, "/map: slots have moved since map 7, and this one moves slot 9000: "));
	cluster_free(load("epoch 9\n" A " h:1 0-8191 9000\n" C " h:3\n" B " h:2\n", A));
	other = cluster_load_newest(path, A, &which, why, sizeof(why));
	EXPECT(other && which == CLUSTER_OWN_OLDER && other->epoch == 9);
	EXPECT(other->nr_ways == 1 && other->way[5061] == 3 && other->in_doubt[5061]);
	cluster_free(other);
	/* The first file begins none. */
	cluster_free(load("epoch 9\n" A " h:1 0-8191 [1->-" B "]\n" B " h:2 8192-16383\n", A));
	EXPECT(!cluster_load_newest(path, A, &which, why, sizeof(why)));
	EXPECT(strstr(why, "/map: slots on their way belong in /"));
	cluster_free(load(map_text, A));
	/* An own one that cannot be read is not passed over. */
	write_file(own_path, "nonsense\n");
	EXPECT(!cluster_load_newest(path, A, &which, why, sizeof(why)));
	unlink(own_path);
	EXPECT(cluster_save(c, "/nonexistent/map", why, sizeof(why)) == -1);
	EXPECT(strstr(why, "/nonexistent/map: "));
	cluster_free(c);
}

/* ---- SETSLOT ---- */

static void test_set_slot(void)
{
	struct world world;

	open_node(&world, NULL);
	TALK("CLUSTER SETSLOT 16384 STABLE", "-ERR Invalid or out of range slot\r\n");
	TALK("CLUSTER SETSLOT 1", "-ERR wrong number of arguments for 'cluster|setslot' "
	     "command\r\n");
	TALK("CLUSTER SETSLOT 1 NODE", "-ERR Invalid CLUSTER SETSLOT action or number of "
	     "arguments\r\n");
	TALK("CLUSTER SETSLOT 1 NODE abc", "-ERR Unknown node abc\r\n");
	TALK("CLUSTER SETSLOT 1 IMPORTING " B, "-ERR I'm already the owner of hash slot 1\r\n");
	TALK("CLUSTER SETSLOT 9000 MIGRATING " B, "-ERR I'm not the owner of hash slot 9000\r\n");
	TALK("CLUSTER SETSLOT 1 MIGRATING " A, "-ERR slot 1 cannot move to where it is\r\n");
	TALK("CLUSTER SETSLOT 9000 IMPORTING " C,
	     "-ERR slot 9000 is another node's by the map of this one\r\n");
	/* Nobody gives a slot away, or takes one, just so. */
	TALK("CLUSTER SETSLOT 1 NODE " B,
	     "-ERR slot 1 is not on its way there: CLUSTER SETSLOT MIGRATING first\r\n");
	TALK("CLUSTER SETSLOT 9000 NODE " A,
	     "-ERR slot 9000 is not on its way here: CLUSTER SETSLOT IMPORTING first\r\n");
	TALK("CLUSTER SETSLOT 1 MIGRATING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 1 MIGRATING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 1 MIGRATING " C,
	     "-ERR slot 1 is on its way from or to another node: end that first\r\n");
	TALK("CLUSTER SETSLOT 1 NODE " C,
	     "-ERR slot 1 is not on its way there: CLUSTER SETSLOT MIGRATING first\r\n");
	TALK("FLUSHALL", "-TRYAGAIN slots move from this node, or to it\r\n");
	TALK("CLUSTER SETSLOT 1 STABLE", "+OK\r\n");
	TALK("FLUSHALL", "+OK\r\n");
	EXPECT(world.server.cluster->epoch == 7 && !world.server.cluster->nr_ways);
	TALK("CLUSTER SETSLOT 9000 IMPORTING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 9000 NODE " C,
	     "-ERR slot 9000 is on its way here: CLUSTER SETSLOT STABLE first\r\n");
	TALK("CLUSTER SETSLOT 9000 NODE " A, "+OK\r\n");
	EXPECT(world.server.cluster->epoch == 8 && cluster_owns(world.server.cluster, 9000));
	TALK("CLUSTER SETSLOT 9000 NODE " A, "+OK\r\n");
	TALK("CLUSTER SETSLOT 9001 NODE " C, "+OK\r\n");
	EXPECT(world.server.cluster->epoch == 9 && world.server.cluster->owner[9001] == 3);
	/* With a key it cannot be given away. */
	TALK("SET bar 1", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 NODE " B,
	     "-ERR slot 5061 has keys here: MIGRATE them first\r\n");
	TALK("DEL bar", ":1\r\n");
	TALK("CLUSTER SETSLOT 5061 NODE " B, "+OK\r\n");
	TALK("GET bar", "-MOVED 5061 10.0.0.2:7002\r\n");
	close_node(&world);
}

/* Of the other nodes, B has another address, and slots of C are B's. */
#define MAP(epoch) "\"epoch " epoch "\\n" A " 10.0.0.1:7001 0-8191\\n" \
	B " 10.0.0.9:7002 8192-16383\\n" C " 10.0.0.3:7003\\n\""

static void test_set_map(void)
{
	struct world world;
	const struct cluster *c;

	open_node(&world, NULL);
	TALK("CLUSTER SETMAP", "-ERR wrong number of arguments for 'cluster|setmap' command\r\n");
	TALK("CLUSTER SETMAP ''", "-ERR map: the ID of this store is not there: " A "\r\n");
	TALK("CLUSTER SETMAP \"epoch 8\\n" A " h:1 5 [5->-" B "]\\n" B " h:2\"",
	     "-ERR map: it has slots on their way\r\n");
	TALK("CLUSTER SETSLOT 1 MIGRATING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 2 MIGRATING " C, "+OK\r\n");
	TALK("CLUSTER SETMAP " MAP("6"), "-ERR the epoch is 6, not above 7\r\n");
	TALK("CLUSTER SETMAP " MAP("7"), "-ERR the epoch is 7, not above 7\r\n");
	TALK("GET foo", "-MOVED 12182 10.0.0.2:7002\r\n");
	/* While MIGRATE has keys of it, a slot stays on its way. */
	world.server.way_use->slots[2].nr_migrates = 1;
	TALK("CLUSTER SETMAP \"epoch 8\\n" A " h:1 5-16383\\n" B " h:2\\n" C " h:3 0-4\"",
	     "-TRYAGAIN slot 2 has keys on their way: wait for MIGRATE\r\n");
	world.server.way_use->slots[2].nr_migrates = 0;
	TALK("CLUSTER SETMAP " MAP("8"), "+OK\r\n");
	TALK("GET foo", "-MOVED 12182 10.0.0.9:7002\r\n");
	c = world.server.cluster;
	EXPECT(c->epoch == 8 && c->nr_ways == 2 && c->way[1] == 2 && c->way[2] == 3);
	TALK("CLUSTER SETMAP " MAP("8"), "+OK\r\n");		/* again */
	EXPECT(world.server.cluster == c);
	/* Slots have moved: a map has them where they are, as it may have been missed before. */
	TALK("CLUSTER SETSLOT 1 NODE " B, "+OK\r\n");
	TALK("CLUSTER SETMAP " MAP("12"), "-ERR slots have moved since map 8, and this one moves "
	     "slot 1: if it is to, begin with \"epoch 12 since 9\"\r\n");
	TALK("CLUSTER SETMAP \"epoch 12\\n" A " h:1 0 2-8191\\n" B " h:2 1 8192-16383\\n"
	     C " h:3\"", "+OK\r\n");
	EXPECT(world.server.cluster->since == 8);
	TALK("CLUSTER SETMAP \"epoch 13 since 12\\n" A " h:1 0\\n" B " h:2 1\"", "+OK\r\n");
	EXPECT(world.server.cluster->since == 13);
	close_node(&world);
}

static void test_nodes(void)
{
	struct world world;
	char *text;

	open_node(&world, NULL);
	TALK("CLUSTER SETSLOT 1 MIGRATING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 9000 IMPORTING " B, "+OK\r\n");
	say(world.c, "CLUSTER NODES\r\n");
	text = out_text(&world.c->out);
	EXPECT(strstr(text, "connected 0-8191 [1->-" B "] [9000-<-" B "]\n" B " "));
	free(text);
	close_node(&world);
}

/* A write that has begun before is over when MIGRATING is answered. */
static void test_drain(void)
{
	struct world world;
	struct conn *other;

	open_node(&world, NULL);
	other = connect_one(&world);
	memstore_hold(world.worker.store, true);
	say(world.c, "SET bar 1\r\n");
	say(other, "CLUSTER SETSLOT 5061 MIGRATING " B "\r\n");
	hear(other, "", __LINE__);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	HEAR("+OK\r\n");
	hear(other, "+OK\r\n", __LINE__);
	TALK("GET bar", "$1\r\n1\r\n");
	conn_kill(other);
	close_node(&world);
}

/* A slot is given away after a look at its keys, which waits for what has begun before, too. */
static void test_look(void)
{
	struct slot_order order = {
		.slot = 1, .what = CLUSTER_NODE, .id = B, .id_len = CLUSTER_ID_LEN,
	};
	struct world world;
	struct conn *other, *third;

	open_node(&world, NULL);
	other = connect_one(&world);
	third = connect_one(&world);
	memstore_hold(world.worker.store, true);
	say(world.c, "SET bar 1\r\n");
	say(other, "CLUSTER SETSLOT 5061 MIGRATING " B "\r\n");
	say(third, "CLUSTER SETSLOT 5061 NODE " B "\r\n");
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	HEAR("+OK\r\n");
	hear(other, "+OK\r\n", __LINE__);
	hear(third, "-ERR slot 5061 has keys here: MIGRATE them first\r\n", __LINE__);
	conn_kill(other);
	conn_kill(third);
	/* Nobody has looked: after a start, and when MIGRATING has come in between. */
	cluster_free(world.server.cluster);
	world.server.cluster = load("epoch 1\n" A " h:1 0-9 [1->-" B "]\n" B " h:2\n", A);
	EXPECT(!slot_order_apply(&order, &world.server) && !order.is_good);
	EXPECT(!strcmp(order.why, "TRYAGAIN the map has changed meanwhile"));
	close_node(&world);
}

/* Keys that a move has left do not come to light with the next one. */
static void test_left(void)
{
	char *users = write_users("admin");
	struct world world;

	open_node(&world, users);
	TALK("AUTH bob other", "+OK\r\n");
	TALK("CLUSTER FLUSHSLOT 9000",
	     "-NOPERM a slot has the keys of all users: only an admin deletes them\r\n");
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("CLUSTER SETSLOT 12182 IMPORTING " B, "+OK\r\n");
	TALK("CLUSTER FLUSHSLOT 12182",
	     "-ERR slot 12182 is here, or on its way here: clients use its keys\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("SET foo 1", "+OK\r\n");
	TALK("AUTH bob other", "+OK\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("SET foo 1", "+OK\r\n");
	TALK("SET bar 1", "+OK\r\n");
	TALK("AUTH ann secret", "+OK\r\n");
	/* It is the same move. */
	TALK("CLUSTER SETSLOT 12182 IMPORTING " B, "+OK\r\n");
	TALK("CLUSTER SETSLOT 12182 STABLE", "+OK\r\n");
	TALK("CLUSTER SETSLOT 12182 IMPORTING " B, "-ERR slot 12182 has keys here: if they are of "
	     "no use, CLUSTER FLUSHSLOT deletes them\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 12182", ":2\r\n");
	TALK("CLUSTER FLUSHSLOT 12182", "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 12182", ":0\r\n");
	TALK("CLUSTER SETSLOT 12182 IMPORTING " B, "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":1\r\n");
	close_node(&world);
	unlink(users);
	free(users);
}

/* A slot does not begin to move, or come, while keys are flushed. */
static void test_flush(void)
{
	struct world world;
	struct conn *other;

	open_node(&world, NULL);
	other = connect_one(&world);
	TALK("SET bar 1", "+OK\r\n");
	memstore_hold(world.worker.store, true);
	say(other, "FLUSHALL\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B,
	     "-TRYAGAIN slot 5061 cannot come or go now: wait for FLUSHALL\r\n");
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	hear(other, "+OK\r\n", __LINE__);
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("FLUSHALL", "-TRYAGAIN slots move from this node, or to it\r\n");
	TALK("CLUSTER SETSLOT 5061 STABLE", "+OK\r\n");
	world.server.way_use->changes = true;
	TALK("FLUSHALL", "-TRYAGAIN the map changes\r\n");
	world.server.way_use->changes = false;
	conn_kill(other);
	close_node(&world);
}

/* ---- keys of a slot that leaves, or comes ---- */

static void test_leaves(void)
{
	struct world world;

	open_node(&world, NULL);
	TALK("MSET {bar}1 1 {bar}2 2", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("GET {bar}1", "$1\r\n1\r\n");
	TALK("SET {bar}1 3", "+OK\r\n");
	TALK("INCR {bar}1", ":4\r\n");
	TALK("GET {bar}3", ASK);
	TALK("SET {bar}3 1", ASK);
	TALK("SET {bar}3 1 NX", ASK);
	TALK("SET {bar}1 1 NX", "$-1\r\n");
	TALK("INCR {bar}3", ASK);
	TALK("APPEND {bar}3 x", ASK);
	TALK("SETBIT {bar}3 1 1", ASK);
	TALK("DEL {bar}3", ASK);
	TALK("EXPIRE {bar}3 5", ASK);
	TALK("EXISTS {bar}3", ASK);
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":2\r\n");
	TALK("MGET {bar}1 {bar}2", "*2\r\n$1\r\n4\r\n$1\r\n2\r\n");
	TALK("MGET {bar}1 {bar}3", SOME);
	TALK("MGET {bar}4 {bar}3", ASK);
	/* All or nothing. */
	TALK("MSET {bar}1 9 {bar}3 9", SOME);
	TALK("DEL {bar}1 {bar}3", SOME);
	TALK("RENAME {bar}1 {bar}3", SOME);
	TALK("MSETNX {bar}3 1 {bar}4 1", ASK);
	TALK("MGET {bar}1 {bar}2", "*2\r\n$1\r\n4\r\n$1\r\n2\r\n");
	TALK("MSET {bar}1 5 {bar}2 5", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("INCR {bar}1", "+QUEUED\r\n");
	TALK("INCR {bar}2", "+QUEUED\r\n");
	TALK("EXEC", "*2\r\n:6\r\n:6\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("INCR {bar}1", "+QUEUED\r\n");
	TALK("INCR {bar}3", "+QUEUED\r\n");
	TALK("EXEC", SOME);
	TALK("MULTI", "+OK\r\n");
	TALK("INCR {bar}3", "+QUEUED\r\n");
	TALK("EXEC", ASK);
	TALK("GET {bar}1", "$1\r\n6\r\n");
	TALK("DEL {bar}1 {bar}2", ":2\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":0\r\n");
	close_node(&world);
}

static void test_comes(void)
{
	struct world world;

	open_node(&world, NULL);
	TALK("ASKING", "+OK\r\n");
	TALK("SET foo 1", "-MOVED 12182 10.0.0.2:7002\r\n");
	TALK("CLUSTER SETSLOT 12182 IMPORTING " B, "+OK\r\n");
	TALK("GET foo", "-MOVED 12182 10.0.0.2:7002\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("SET foo 1", "+OK\r\n");
	/* It was for one command. */
	TALK("GET foo", "-MOVED 12182 10.0.0.2:7002\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("PING", "+PONG\r\n");
	TALK("GET foo", "-MOVED 12182 10.0.0.2:7002\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("MGET foo {foo}2", SOME);
	TALK("ASKING", "+OK\r\n");
	TALK("MSET foo 2 {foo}2 2", SOME);
	/* Or for a transaction. */
	TALK("ASKING", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("INCR foo", "+QUEUED\r\n");
	TALK("INCR foo", "+QUEUED\r\n");
	TALK("EXEC", "*2\r\n:2\r\n:3\r\n");
	TALK("GET foo", "-MOVED 12182 10.0.0.2:7002\r\n");
	TALK("RESTORE-ASKING {foo}2 0 x", "-ERR DUMP payload version or checksum are wrong\r\n");
	TALK("ASKING", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("INCR foo", "+QUEUED\r\n");
	TALK("INCR {foo}2", "+QUEUED\r\n");
	TALK("EXEC", SOME);
	TALK("CLUSTER COUNTKEYSINSLOT 12182", ":0\r\n");
	TALK("CLUSTER GETKEYSINSLOT 12182 9", "*1\r\n$3\r\nfoo\r\n");
	TALK("CLUSTER SETSLOT 12182 NODE " A, "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 12182", ":1\r\n");
	TALK("GET foo", "$1\r\n3\r\n");
	close_node(&world);
}

/* ---- MIGRATE ---- */

static void test_migrate(void)
{
	struct world world;
	struct conn *other, *third;

	open_node(&world, NULL);
	other = connect_one(&world);
	TALK("MSET {bar}1 1 {bar}2 2", "+OK\r\n");
	TALK("SET {bar}3 3 PXAT 1700000100000", "+OK\r\n");
	TALK(MIGRATE "KEYS {bar}1", "-ERR slot 5061 is not on its way to another node: CLUSTER "
	     "SETSLOT MIGRATING first\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("MIGRATE 10.0.0.3 7003 bar 0 5000",
	     "-ERR slot 5061 is on its way to 10.0.0.2:7002\r\n");
	TALK(MIGRATE "KEYS bar foo", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	TALK(MIGRATE, "-ERR syntax error\r\n");
	TALK("MIGRATE 10.0.0.2 7002 bar 1 0", "-ERR DB index is out of range: there is only 0\r\n");
	TALK(MIGRATE "KEYS {bar}8 {bar}9", "+NOKEY\r\n");
	say(world.c, MIGRATE "AUTH2 ann secret KEYS {bar}1 {bar}3 {bar}9\r\n");
	EXPECT(shipment->first_len == 35 && shipment->until_ns == world.worker.now_ns + 5000000000);
	EXPECT(SHIPS("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsecret\r\n*10\r\n"));
	EXPECT(SHIPS("\r\n$6\r\n{bar}3\r\n$13\r\n1700000100000\r\n"));
	EXPECT(SHIPS("\r\n$6\r\nABSTTL\r\n$8\r\nSHIPMENT\r\n$40\r\n" A "\r\n$19\r\n"));
	EXPECT(SHIPS("\r\n$7\r\nUSER-ID\r\n$1\r\n0\r\n") && !SHIPS("REPLACE"));
	/* What is asked of these keys waits; of others, it does not. */
	say(other, "GET {bar}1\r\nINCR {bar}1\r\nGET {bar}3\r\n");
	hear(other, "", __LINE__);
	/* The slot is not to stay here while the keys are. */
	third = connect_one(&world);
	say(third, "CLUSTER SETSLOT 5061 STABLE\r\n");
	hear(third, "-TRYAGAIN slot 5061 has keys on their way: wait for MIGRATE\r\n", __LINE__);
	say(third, "CLUSTER SETSLOT 866 MIGRATING " B "\r\nCLUSTER SETSLOT 866 STABLE\r\n");
	hear(third, "+OK\r\n+OK\r\n", __LINE__);
	say(third, "GET {bar}9\r\n");
	hear(third, "", __LINE__);
	answer(&world, "++");
	hear(third, ASK, __LINE__);
	conn_kill(third);
	HEAR("+OK\r\n");
	hear(other, ASK ASK ASK, __LINE__);
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":1\r\n");
	TALK("GET {bar}2", "$1\r\n2\r\n");
	/* One is refused: it stays, and so nothing is in doubt. */
	say(world.c, "MIGRATE 10.0.0.2 7002 {bar}2 0 5000 REPLACE COPY\r\n");
	EXPECT(SHIPS("REPLACE"));
	say(other, "MULTI\r\nINCR {bar}2\r\nEXEC\r\n");
	hear(other, "+OK\r\n+QUEUED\r\n", __LINE__);
	answer(&world, "-");
	HEAR("-ERR Target instance replied with error: BUSYKEY it is there\r\n");
	hear(other, "*1\r\n:3\r\n", __LINE__);
	world.server.way_use->slots[5061].ends = true;
	TALK(MIGRATE "KEYS {bar}2", "-TRYAGAIN the way of slot 5061 ends\r\n");
	world.server.way_use->slots[5061].ends = false;
	/* A copy stays, too. */
	say(world.c, MIGRATE "COPY KEYS {bar}2\r\n");
	answer(&world, "+");
	HEAR("+OK\r\n");
	TALK("GET {bar}2", "$1\r\n3\r\n");
	TALK("DEL {bar}2", COPIES);
	/* The value cannot be read. */
	memstore_fail(world.worker.store, OKV_CORRUPT);
	TALK(MIGRATE "KEYS {bar}2",
	     "-CORRUPT what the device returned is not what was written\r\n");
	memstore_fail(world.worker.store, OKV_OK);
	EXPECT(!world.worker.locked && !world.worker.nr_ending_turns);
	conn_kill(other);
	close_node(&world);
}

/* A write that has begun before is over when the keys are read. */
static void test_begun(void)
{
	struct world world;
	struct conn *other;

	open_node(&world, NULL);
	other = connect_one(&world);
	TALK("SET bar 1", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	memstore_hold(world.worker.store, true);
	say(other, "SET bar 2\r\n");
	say(world.c, MIGRATE "KEYS bar\r\n");
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	hear(other, "+OK\r\n", __LINE__);
	EXPECT(SHIPS("\r\n\0\1" "2"));
	answer(&world, "+");
	HEAR("+OK\r\n");
	conn_kill(other);
	close_node(&world);
}

/* Two MIGRATE have a key: the second one waits, and finds it gone, or sends what it is then. */
static void test_both(void)
{
	struct world world;
	struct conn *other;

	open_node(&world, NULL);
	other = connect_one(&world);
	TALK("MSET {bar}1 1 {bar}2 1", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "KEYS {bar}1 {bar}2\r\n");
	say(other, "SET {bar}1 2\r\n" MIGRATE "KEYS {bar}2 {bar}1\r\n");
	/* In the order of their hashes. */
	answer(&world, "+-");
	HEAR("-ERR Target instance replied with error: BUSYKEY it is there\r\n");
	hear(other, "+OK\r\n", __LINE__);
	EXPECT(SHIPS("\r\n\0\1" "2"));
	answer(&world, "+");
	hear(other, "+OK\r\n", __LINE__);
	EXPECT(!world.worker.locked && !world.worker.nr_ending_turns);
	conn_kill(other);
	close_node(&world);
}

/* Passwords are not in the slow log. */
static void test_slow(void)
{
	struct world world;
	char *text;

	open_node(&world, NULL);
	TALK("SET bar 1", "+OK\r\n");
	world.server.config.slow_us = 0;
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "AUTH secret KEYS bar\r\n");
	answer(&world, "+");
	HEAR("+OK\r\n");
	say(world.c, "SLOWLOG GET\r\n");
	text = out_text(&world.c->out);
	EXPECT(strstr(text, "SETSLOT") && !strstr(text, "secret"));
	free(text);
	close_node(&world);
}

/* An answer stays out: what the other node may have must not come to light. */
static void test_doubt(void)
{
	struct world world;
	struct conn *other;

	open_node(&world, NULL);
	other = connect_one(&world);
	TALK("SET bar 1 EX 100", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "KEYS bar\r\n");
	say(other, "DEL bar\r\nEXPIRE bar 5\r\nEXPIRE bar 5 LT\r\n");
	answer(&world, "?");
	HEAR("-IOERR error or timeout talking to 10.0.0.2:7002: no answer\r\n");
	hear(other, IN_DOUBT IN_DOUBT IN_DOUBT, __LINE__);
	conn_kill(other);
	TALK("INCR bar", ":2\r\n");
	TALK("DEL bar", COPIES);
	TALK("GETDEL bar", COPIES);
	TALK("DELIFEQ bar 2", COPIES);
	TALK("EXPIRE bar 5", COPIES);
	TALK("EXPIRE bar 5 LT", COPIES);
	TALK("SET bar 1 EX 5", COPIES);
	TALK("EXPIRE bar 500 GT", ":1\r\n");
	TALK("EXPIRE bar 600", ":1\r\n");
	TALK("SET bar 2 EX 700", "+OK\r\n");
	TALK("PERSIST bar", ":1\r\n");
	TALK("MSET bar 2", "+OK\r\n");
	TALK("SET bar 3", "+OK\r\n");
	TALK("SET {bar}2 1 EX 5", ASK);
	TALK("MULTI", "+OK\r\n");
	TALK("DEL bar", "+QUEUED\r\n");
	TALK("EXEC", COPIES);
	TALK("GET bar", "$1\r\n3\r\n");
	TALK("DEL {bar}2", ASK);
	say(world.c, MIGRATE "KEYS bar\r\n");
	EXPECT(SHIPS("REPLACE"));
	answer(&world, "-");
	HEAR("-ERR Target instance replied with error: BUSYKEY it is there\r\n");
	/* It stays here after all. */
	TALK("CLUSTER SETSLOT 5061 STABLE", "+OK\r\n");
	TALK("DEL bar", ":1\r\n");
	close_node(&world);
}

/* The other node, with the same store. */
static void become(struct world *world, const char *id)
{
	cluster_free(world->server.cluster);
	world->server.cluster = load(map_text, id);
}

static size_t take_sent(char *sent)
{
	memcpy(sent, shipment->bytes, shipment->len);
	return shipment->len;
}

#define LATE "-ERR this MIGRATE is too late: the slot does not come from there now, or a later " \
	     "one has come before\r\n"
#define ASKS(in, wanted) TALK("ASKING\r\n" in, "+OK\r\n" wanted)
#define FEED(sent, len, wanted) do { \
		EXPECT(conn_feed(world.c, sent, len) == len); \
		HEAR("+PONG\r\n" wanted); \
	} while (0)

/* A node takes in what it was sent before after what it was sent later. */
static void test_late(void)
{
	char first[512], last[512];
	size_t first_len, last_len;
	struct world world;

	open_node(&world, NULL);
	TALK("SET bar 1", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "KEYS bar\r\n");
	first_len = take_sent(first);
	answer(&world, "?");
	HEAR("-IOERR error or timeout talking to 10.0.0.2:7002: no answer\r\n");
	TALK("SET bar 2", "+OK\r\n");
	say(world.c, MIGRATE "KEYS bar\r\n");
	last_len = take_sent(last);
	answer(&world, "+");
	HEAR("+OK\r\n");
	become(&world, B);
	TALK("CLUSTER SETSLOT 5061 IMPORTING " A, "+OK\r\n");
	FEED(last, last_len, "+OK\r\n");
	FEED(first, first_len, LATE);
	ASKS("GET bar", "$1\r\n2\r\n");
	ASKS("DEL bar", ":1\r\n");
	FEED(first, first_len, LATE);
	ASKS("GET bar", "$-1\r\n");
	/* It is here now. */
	TALK("CLUSTER SETSLOT 5061 NODE " B, "+OK\r\n");
	FEED(last, last_len, LATE);
	TALK("GET bar", "$-1\r\n");
	close_node(&world);
}

/* A key has expired on its way: a client was sent to the other node, and has written it there. */
static void test_expired(void)
{
	struct world world;
	char sent[512];
	size_t len;

	open_node(&world, NULL);
	TALK("SET bar 1 PX 5000", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "REPLACE KEYS bar\r\n");
	len = take_sent(sent);
	answer(&world, "?");
	HEAR("-IOERR error or timeout talking to 10.0.0.2:7002: no answer\r\n");
	later(&world, 5000);
	TALK("SET bar 2", ASK);
	become(&world, B);
	TALK("CLUSTER SETSLOT 5061 IMPORTING " A, "+OK\r\n");
	ASKS("SET bar 2", "+OK\r\n");
	FEED(sent, len, "+OK\r\n");
	ASKS("GET bar", "$1\r\n2\r\n");
	close_node(&world);
}

/* EXEC does not take a key that may be at another node for one that has not changed. */
static void test_watch(void)
{
	struct world world;

	open_node(&world, NULL);
	/* Another slot of the same partition. */
	TALK("SET baz 1", "+OK\r\n");
	TALK("WATCH bar", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("SET baz 2", "+QUEUED\r\n");
	TALK("EXEC", "*-1\r\n");
	TALK("CLUSTER SETSLOT 5061 STABLE", "+OK\r\n");
	TALK("SET bar 1", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	TALK("WATCH bar", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("SET baz 2", "+QUEUED\r\n");
	TALK("EXEC", "*1\r\n+OK\r\n");
	TALK("WATCH bar", "+OK\r\n");
	world.server.cluster->owner[5061] = 2;
	TALK("MULTI", "+OK\r\n");
	TALK("SET baz 3", "+QUEUED\r\n");
	TALK("EXEC", "*-1\r\n");
	TALK("GET baz", "$1\r\n2\r\n");
	world.server.cluster->owner[5061] = 1;
	/* A key that is watched counts for its own slot. */
	TALK("CLUSTER SETSLOT 5061 STABLE", "+OK\r\n");
	TALK("CLUSTER SETSLOT 4813 MIGRATING " B, "+OK\r\n");
	TALK("WATCH {bar}2", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("SET baz 3", "+QUEUED\r\n");
	TALK("EXEC", "*1\r\n+OK\r\n");
	TALK("WATCH bar", "+OK\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("SET {baz}2 3", "+QUEUED\r\n");
	TALK("EXEC", "-ASK 4813 10.0.0.2:7002\r\n");
	close_node(&world);
}

/* Slots move with the keys of all users, and an admin moves them. */
static void test_users(void)
{
	char *users = write_users("admin requests=1"), sent[512];
	struct world world;
	size_t len;

	open_node(&world, users);
	TALK("AUTH bob other", "+OK\r\n");
	TALK("MSET bar bob {bar}2 bob", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B,
	     "-NOPERM a slot has the keys of all users: only an admin moves it\r\n");
	TALK("CLUSTER SETMAP " MAP("8"),
	     "-NOPERM the map is that of all users: only an admin changes it\r\n");
	TALK(MIGRATE "KEYS bar",
	     "-NOPERM a slot has the keys of all users: only an admin moves it\r\n");
	TALK("RESTORE-ASKING bar 0 x REPLACE USER-ID 1",
	     "-NOPERM only an admin restores keys of other users\r\n");
	TALK("RESTORE-ASKING bar 0 x SHIPMENT " B " 5",
	     "-NOPERM only an admin restores keys of other users\r\n");
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("RESTORE-ASKING bar 0 x SHIPMENT " B " 0", "-ERR syntax error\r\n");
	TALK("SET bar ann", "+OK\r\n");
	TALK("CLUSTER SETSLOT 5061 MIGRATING " B, "+OK\r\n");
	say(world.c, MIGRATE "KEYS bar {bar}2 bar\r\n");
	EXPECT(SHIPS("USER-ID\r\n$1\r\n1\r\n") && SHIPS("USER-ID\r\n$1\r\n2\r\n"));
	answer(&world, "+++");
	HEAR("+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":0\r\n");
	TALK("CLUSTER SETSLOT 5061 NODE " B, "+OK\r\n");
	/* Here as at the other node. */
	TALK("RESTORE-ASKING hello 0 x USER-ID 3",
	     "-ERR no user has that number here: the users files differ\r\n");
	TALK("RESTORE hello 0 x USER-ID 2", "-ERR syntax error\r\n");
	TALK("AUTH bob other", "+OK\r\n");
	TALK("SET hello world", "+OK\r\n");
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("CLUSTER SETSLOT 866 MIGRATING " C, "+OK\r\n");
	say(world.c, "MIGRATE 10.0.0.3 7003 hello 0 0\r\n");
	EXPECT(shipment->len < sizeof(sent));
	len = shipment->len;
	memcpy(sent, shipment->bytes, len);
	answer(&world, "+");
	HEAR("+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 866", ":0\r\n");
	become(&world, C);
	TALK("CLUSTER SETSLOT 866 IMPORTING " A, "+OK\r\n");
	FEED(sent, len, "+OK\r\n");
	TALK("CLUSTER SETSLOT 866 NODE " C, "+OK\r\n");
	TALK("EXISTS hello", ":0\r\n");
	TALK("AUTH bob other", "+OK\r\n");
	TALK("GET hello", "$5\r\nworld\r\n");
	close_node(&world);
	unlink(users);
	free(users);
}

int main(void)
{
	EXPECT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/map", folder);
	test_words();
	test_files();
	test_set_slot();
	test_set_map();
	test_nodes();
	test_drain();
	test_look();
	test_left();
	test_flush();
	test_leaves();
	test_comes();
	test_migrate();
	test_begun();
	test_both();
	test_slow();
	test_doubt();
	test_late();
	test_expired();
	test_watch();
	test_users();
	unlink(path);
	EXPECT(!rmdir(folder));
	puts("ok server_moving: slots on their way: SETSLOT, ASK, TRYAGAIN, MIGRATE; SETMAP");
	return 0;
}
