// SPDX-License-Identifier: GPL-2.0
/*
 * cluster.c - a cluster: the file with its map, what clients ask, and which commands a node takes
 */
#include "cluster/map.h"
#include "world.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccc"

/* foo is of slot 12182, bar of 5061, {bar}x too; hello of 866. */
static const char map_text[] =
	"# three nodes, one without slots\n"
	"epoch 7\n"
	"\n"
	A " 10.0.0.1:7001 0-5000 5061-8191\n"
	B " [fe80::1]:7002 8192-16382\n"
	C " host.example:7003\n";

static char why[256];

static struct cluster *load(const char *text, const char *id)
{
	char path[] = "/tmp/cluster-XXXXXX";
	int fd = mkstemp(path);
	struct cluster *c;

	EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	why[0] = 0;
	c = cluster_load(path, id, why, sizeof(why));
	unlink(path);
	return c;
}

static void test_file(void)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{ "", "the ID of this store is not there: " A },
		{ A " h:1 0\n", ":1: the first line is" },
		{ "epoch 0\n", ":1: the first line is" },
		{ "epoch 1 2\n", ":1: the first line is" },
		{ "epoch 1 since\n", ":1: the first line is" },
		{ "epoch 1 from 1\n", ":1: the first line is" },
		{ "epoch 1 since 1 2\n", ":1: the first line is" },
		{ "epoch 1 since 2\n", ":1: behind \"since\" is" },
		{ "epoch 1 since 0\n", ":1: behind \"since\" is" },
		{ "epoch 1 since 1x\n", ":1: behind \"since\" is" },
		{ "epoch\n", ":1: the first line is" },
		{ "epoch -1\n", ":1: the first line is" },
		{ "epoch 9223372036854775808\n", ":1: the first line is" },
		{ "epoch 1\n" A "\n", ":2: a line is ID ADDRESS:PORT" },
		{ "epoch 1\n" A "a h:1\n", ":2: a line is ID ADDRESS:PORT" },
		{ "epoch 1\nAaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa h:1\n", ":2: a line is" },
		{ "epoch 1\n" A " h\n", ":2: an address is" },
		{ "epoch 1\n" A " :1\n", ":2: an address is" },
		{ "epoch 1\n" A " h:0\n", ":2: an address is" },
		{ "epoch 1\n" A " h:65536\n", ":2: an address is" },
		{ "epoch 1\n" A " h:1x\n", ":2: an address is" },
		{ "epoch 1\n" A " h:1 16384\n", ":2: a slot is a number" },
		{ "epoch 1\n" A " h:1 1-16384\n", ":2: a slot is a number" },
		{ "epoch 1\n" A " h:1 x\n", ":2: a slot is a number" },
		{ "epoch 1\n" A " h:1 5-3\n", ":2: slots are" },
		{ "epoch 1\n" A " h:1 5-6-7\n", ":2: slots are" },
		{ "epoch 1\n" A " h:1 0-9\n" B " h:2 9\n", ":3: a slot is given away twice" },
		{ "epoch 1\n" A " h:1\n" A " h:2\n", ":3: an ID is there twice" },
		{ "epoch 1\n" B " h:1 0-16383\n", "the ID of this store is not there: " A },
	};
	struct cluster *c = load(map_text, B), *other;
	struct cluster_range range;
	uint32_t at = 0;

	EXPECT(c && c->epoch == 7 && c->nr_nodes == 3 && c->self == 1);
	EXPECT(!strcmp(c->nodes[1].host, "fe80::1") && c->nodes[1].port == 7002);
	EXPECT(cluster_nr_assigned(c) == OKV_NR_SLOTS - 61);
	EXPECT(cluster_next(c, &at, &range) && !range.first && range.last == 5000 && !range.node);
	EXPECT(cluster_next(c, &at, &range) && range.first == 5061 && range.last == 8191);
	EXPECT(cluster_next(c, &at, &range) && range.node == 1 && range.last == 16382);
	EXPECT(!cluster_next(c, &at, &range));
	other = load(map_text, A);
	EXPECT(cluster_is_same(c, other));
	other->owner[3] = 2;
	EXPECT(!cluster_is_same(c, other));
	cluster_free(other);
	cluster_free(c);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EXPECT(!load(wrong[i].text, A));
		if (!strstr(why, wrong[i].why))
			printf("%zu: %s\n", i, why);
		EXPECT(strstr(why, wrong[i].why));
	}
	EXPECT(!cluster_load("/nonexistent", A, why, sizeof(why)) && strstr(why, "/nonexistent: "));
}

static void test_none(void)
{
	struct world world;

	open_world(&world, NULL);
	TALK("CLUSTER SLOTS", "-ERR This instance has cluster support disabled\r\n");
	TALK("ASKING", "-ERR This instance has cluster support disabled\r\n");
	TALK("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
	TALK("MSET foo 1 bar 2", "+OK\r\n");
	close_world(&world);
}

static bool is_not_sure(void)
{
	return false;
}

static void test_commands(void)
{
	struct world world;

	open_world(&world, NULL);
	world.server.cluster = load(map_text, A);
	TALK("GET bar", "$-1\r\n");
	TALK("SET {bar}x 1", "+OK\r\n");
	TALK("GET foo", "-MOVED 12182 fe80::1:7002\r\n");
	TALK("GET {foo}bar", "-MOVED 12182 fe80::1:7002\r\n");
	TALK("SET foo 1", "-MOVED 12182 fe80::1:7002\r\n");
	TALK("MGET bar {bar}x", "*2\r\n$-1\r\n$1\r\n1\r\n");
	TALK("MGET bar foo", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	TALK("MSET bar 1 hello 2", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	TALK("MSET bar foo {bar}y hello", "+OK\r\n");
	TALK("RENAME bar foo", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	world.server.cluster->owner[5061] = 0;
	TALK("GET bar", "-CLUSTERDOWN Hash slot not served\r\n");
	world.server.cluster->owner[5061] = 1;
	/* A command for another node spoils a transaction. */
	TALK("MULTI", "+OK\r\n");
	TALK("SET bar 2", "+QUEUED\r\n");
	TALK("SET foo 2", "-MOVED 12182 fe80::1:7002\r\n");
	TALK("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
	TALK("GET bar", "$3\r\nfoo\r\n");
	TALK("MULTI", "+OK\r\n");
	TALK("SET bar 2", "+QUEUED\r\n");
	TALK("SET hello 2", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	TALK("DISCARD", "+OK\r\n");
	/* Its slot goes to another node meanwhile. */
	TALK("MULTI", "+OK\r\n");
	TALK("SET hello 3", "+QUEUED\r\n");
	world.server.cluster->owner[866] = 2;
	TALK("EXEC", "-MOVED 866 fe80::1:7002\r\n");
	world.server.cluster->owner[866] = 1;
	TALK("EXISTS hello", ":0\r\n");
	world.server.is_sure = is_not_sure;
	TALK("GET bar", "-" CLUSTER_CUT_OFF "\r\n");
	TALK("CLUSTER SLOTS", "-" CLUSTER_CUT_OFF "\r\n");
	world.server.is_sure = NULL;
	/* Others have no slot. */
	TALK("DBSIZE", ":3\r\n");
	TALK("PING", "+PONG\r\n");
	cluster_free(world.server.cluster);
	close_world(&world);
}

static void test_questions(void)
{
	struct world world;
	char *text;

	open_world(&world, NULL);
	world.server.cluster = load("epoch 3\n" A " h:1 0-99 200\n" B " g:60000 100-199\n", B);
	TALK("CLUSTER MYID", "$40\r\n" B "\r\n");
	TALK("CLUSTER KEYSLOT foo{hash_tag}", ":2515\r\n");
	TALK("CLUSTER KEYSLOT", "-ERR wrong number of arguments for 'cluster|keyslot' command\r\n");
	TALK("CLUSTER SLOTS", "*3\r\n"
	     "*3\r\n:0\r\n:99\r\n*4\r\n$1\r\nh\r\n:1\r\n$40\r\n" A "\r\n*0\r\n"
	     "*3\r\n:100\r\n:199\r\n*4\r\n$1\r\ng\r\n:60000\r\n$40\r\n" B "\r\n*0\r\n"
	     "*3\r\n:200\r\n:200\r\n*4\r\n$1\r\nh\r\n:1\r\n$40\r\n" A "\r\n*0\r\n");
	TALK("CLUSTER NODES", "$176\r\n"
	     A " h:1@10001 master - 0 0 3 connected 0-99 200\n"
	     B " g:60000@0 myself,master - 0 0 3 connected 100-199\n\r\n");
	TALK("CLUSTER COUNT-FAILURE-REPORTS " A, ":0\r\n");
	TALK("CLUSTER LINKS", "*0\r\n");
	TALK("CLUSTER MEET 10.0.0.1 7000", "-ERR unknown subcommand 'MEET': the map of this "
	     "cluster is a file, which each node reads again at SIGHUP\r\n");
	TALK("READONLY", "+OK\r\n");
	say(world.c, "CLUSTER SHARDS\r\nCLUSTER INFO\r\nINFO cluster\r\n");
	text = out_text(&world.c->out);
	EXPECT(strstr(text, "$5\r\nslots\r\n*4\r\n:0\r\n:99\r\n:200\r\n:200\r\n"));
	EXPECT(strstr(text, "cluster_state:fail\r\ncluster_slots_assigned:201\r\n"));
	EXPECT(strstr(text, "cluster_enabled:1\r\ncluster_epoch:3\r\n"));
	free(text);
	cluster_free(world.server.cluster);
	close_world(&world);
}

static void test_keys(void)
{
	struct world world;
	char *users = write_users("admin");

	open_world(&world, users);
	memstore_set_slots(world.worker.store);
	world.server.cluster = load("epoch 1\n" A " h:1 0-16383\n", A);
	TALK("AUTH bob other", "+OK\r\n");
	TALK("MSET {bar}1 1 {bar}2 2 {bar}3 3", "+OK\r\n");
	TALK("SET foo 1", "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":3\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5062", ":0\r\n");
	TALK("CLUSTER GETKEYSINSLOT 5061 2", "*2\r\n$6\r\n{bar}3\r\n$6\r\n{bar}2\r\n");
	TALK("CLUSTER GETKEYSINSLOT 5061 0", "*0\r\n");
	TALK("CLUSTER GETKEYSINSLOT 0 100", "*0\r\n");
	/* A user sees the own keys, an admin those of all. */
	TALK("AUTH ann secret", "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":3\r\n");
	TALK("SET {bar}1 ann", "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":4\r\n");
	TALK("CLUSTER GETKEYSINSLOT 5061 2", "*2\r\n$6\r\n{bar}1\r\n$6\r\n{bar}3\r\n");
	TALK("AUTH bob other", "+OK\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 5061", ":3\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid or out of range slot\r\n");
	TALK("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid or out of range slot\r\n");
	TALK("CLUSTER GETKEYSINSLOT x 1", "-ERR Invalid or out of range slot\r\n");
	TALK("CLUSTER GETKEYSINSLOT 1 -1", "-ERR Invalid number of keys\r\n");
	memstore_fail(world.worker.store, OKV_IO_ERROR);
	TALK("CLUSTER GETKEYSINSLOT 0 1", "-IOERR some keys of the slot could not be read\r\n");
	memstore_fail(world.worker.store, OKV_OK);
	cluster_free(world.server.cluster);
	close_world(&world);
	unlink(users);
	free(users);
}

int main(void)
{
	test_file();
	test_none();
	test_commands();
	test_questions();
	test_keys();
	puts("ok server_cluster: the map of a cluster, its questions, MOVED and CROSSSLOT");
	return 0;
}
