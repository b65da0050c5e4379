// SPDX-License-Identifier: GPL-2.0
/*
 * fair.c - the order in which tenants' operations begin, and the monitor that asks for it
 *
 * The queue: the bound of start-time fair queueing over random arrivals, weights and costs; who
 * asks for little waits for one operation of each other tenant at most; each tenant's order. A
 * worker: the budget, what things cost, the order of a connection, an end of the client. The
 * monitor: F of two tenants in order of arrival and in turns, and the truth table.
 */
#define _GNU_SOURCE
#include "rdb/rdb.h"
#include "server/fair/fair.h"
#include "server/fair/monitor.h"
#include "node.h"

/* ---- the queue ---- */

enum { MAX_TENANTS = 8, MAX_WAITING = 200 };

struct one {
	struct kv_msg msg;
	uint32_t tenant, number, cost;
	uint32_t nr_before;		/* that may begin before it */
	bool counts;
};

/* What a tenant has had, in virtual time; the extremes of two tenants' difference. */
struct run {
	struct fair_queue q;
	uint32_t nr_tenants, weight[MAX_TENANTS], nr_waiting[MAX_TENANTS];
	uint32_t next_in[MAX_TENANTS], next_out[MAX_TENANTS], largest[MAX_TENANTS];
	int64_t had[MAX_TENANTS];
	int64_t least[MAX_TENANTS][MAX_TENANTS], most[MAX_TENANTS][MAX_TENANTS];
	struct one *first[MAX_TENANTS];
};

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % n;
}

static struct run *new_run(fair_time start)
{
	struct run *r = calloc(1, sizeof(*r));

	r->q.now = r->q.latest = start;
	r->nr_tenants = 2 + below(MAX_TENANTS - 1);
	for (uint32_t i = 0; i < r->nr_tenants; i++) {
		r->q.tenants[i].tag = start;
		r->weight[i] = below(2) ? 100 : 1 + below(10000);
		r->largest[i] = FAIR_COST * (below(3) ? 1 : 1 + below(20));
	}
	return r;
}

static int64_t virtual(const struct run *r, uint32_t tenant, uint64_t cost)
{
	return (cost << FAIR_TAG_SHIFT) / r->weight[tenant];
}

/* A pair of tenants that both wait: where the difference has been. */
static void look(struct run *r, uint32_t a, uint32_t b, bool begins)
{
	int64_t is = r->had[a] - r->had[b];

	if (begins || is < r->least[a][b])
		r->least[a][b] = is;
	if (begins || is > r->most[a][b])
		r->most[a][b] = is;
	EXPECT(r->most[a][b] - r->least[a][b] <=
	       virtual(r, a, r->largest[a]) + virtual(r, b, r->largest[b]));
}

static void come(struct run *r, uint32_t tenant)
{
	struct one *one = calloc(1, sizeof(*one));
	bool is_first = !r->nr_waiting[tenant]++;

	*one = (struct one){
		.tenant = tenant, .number = r->next_in[tenant]++,
		.cost = 1 + below(r->largest[tenant]),
	};
	/* It asks for little: its last one has ended before what begins now. */
	if (is_first && r->q.tenants[tenant].tag <= r->q.now && r->q.nr) {
		one->counts = true;
		one->nr_before = r->nr_tenants - 1;
		r->first[tenant] = one;
	}
	fair_add(&r->q, tenant, &one->msg);
	for (uint32_t i = 0; i < r->nr_tenants && is_first; i++) {
		if (i == tenant || !r->nr_waiting[i])
			continue;
		look(r, tenant, i, true);
		look(r, i, tenant, true);
	}
}

static void begin(struct run *r)
{
	struct one *one = (struct one *)fair_take(&r->q);
	uint32_t tenant = one->tenant;

	EXPECT(one->number == r->next_out[tenant]++);
	fair_charge(&r->q, tenant, r->weight[tenant], one->cost);
	r->nr_waiting[tenant]--;
	r->had[tenant] += virtual(r, tenant, one->cost);
	for (uint32_t i = 0; i < r->nr_tenants; i++) {
		if (r->first[i] && r->first[i] != one)
			EXPECT(r->first[i]->nr_before-- > 0);
		if (i == tenant || !r->nr_waiting[i] || !r->nr_waiting[tenant])
			continue;
		look(r, tenant, i, false);
		look(r, i, tenant, false);
	}
	if (one->counts)
		r->first[tenant] = NULL;
	free(one);
}

static uint64_t run_once(fair_time start)
{
	struct run *r = new_run(start);
	uint32_t nr = 0, busy;

	for (uint32_t step = 0; step < 3000; step++) {
		/* Some tenants send bursts, some one at a time; sometimes nobody does. */
		busy = step / 300 % 3;
		for (uint32_t i = 0; i < r->nr_tenants; i++)
			for (uint32_t n = below(busy + 1) * below(i + 2); n; n--)
				if (r->nr_waiting[i] < MAX_WAITING)
					come(r, i);
		for (uint32_t n = 1 + below(4); n && r->q.nr; n--, nr++)
			begin(r);
	}
	while (r->q.nr)
		begin(r);
	for (uint32_t i = 0; i < r->nr_tenants; i++)
		EXPECT(r->next_in[i] == r->next_out[i] && !r->q.tenants[i].place);
	free(r);
	return nr;
}

static void test_queue(void)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < 200; i++)
		nr += run_once(i % 2 ? 0 : UINT64_MAX - (1U << 28));
	printf("ok server_fair: shares of tenants that wait differ by an operation of each at "
	       "most, nobody starves, each keeps its order: %llu operations\n",
	       (unsigned long long)nr);
}

/* What a read brings is charged while the next one waits. */
static void test_late_charge(void)
{
	struct fair_queue *q = calloc(1, sizeof(*q));
	struct kv_msg of[2][20];
	int nr[2] = { 0 };

	for (int i = 0; i < 20; i++) {
		fair_add(q, 0, &of[0][i]);
		fair_add(q, 1, &of[1][i]);
	}
	for (int i = 0; i < 12; i++) {
		struct kv_msg *msg = fair_take(q);
		int tenant = msg >= of[1] && msg < of[1] + 20;

		EXPECT(msg == &of[tenant][nr[tenant]++]);
		fair_charge(q, tenant, 100, FAIR_COST);
		/* The other 16 KiB values cost tenant 1 as much again. */
		if (tenant)
			fair_charge(q, tenant, 100, FAIR_COST);
	}
	EXPECT(nr[0] == 8 && nr[1] == 4);
	free(q);
	printf("ok server_fair: values that were read count\n");
}

/* So long that a few of them are more than 64 bits of virtual time. */
enum { BUSY = 1, AWAY, NEW, NR_LONG = 12 };
#define LONG_COST (1ULL << 42)

static void begin_one(struct fair_queue *q, uint32_t tenant, struct kv_msg *msg, uint64_t cost)
{
	fair_add(q, tenant, msg);
	fair_take(q);
	fair_charge(q, tenant, 1, cost);
}

/* A tenant that was away for long, and one that has never come, go before one that had all. */
static void test_away(void)
{
	for (int nr = 0; nr < NR_LONG; nr++) {
		struct fair_queue *q = calloc(1, sizeof(*q));
		struct kv_msg busy[NR_LONG + 2], away[2], new;

		begin_one(q, AWAY, &away[0], FAIR_COST);
		fair_add(q, BUSY, &busy[0]);
		for (int i = 0; i <= nr; i++)
			begin_one(q, BUSY, &busy[i + 1], LONG_COST);
		fair_add(q, AWAY, &away[1]);
		fair_add(q, NEW, &new);
		for (int i = 0; i < 2; i++) {
			const struct kv_msg *msg = fair_take(q);

			EXPECT(msg == &away[1] || msg == &new);
			fair_charge(q, msg == &new ? NEW : AWAY, 1, FAIR_COST);
		}
		free(q);
	}
	printf("ok server_fair: who was away for any time, or is new, does not wait for long\n");
}

/* ---- a worker ---- */

static void be_fair(struct world *world)
{
	world->worker.fair = mem_zalloc(sizeof(*world->worker.fair));
	fair_init(world->worker.fair);
	world->worker.watch = mem_zalloc(sizeof(*world->worker.watch));
	world->server.is_fair = true;
	fair_run(&world->worker);
}

static void open_fair(struct world *world, const char *path)
{
	open_world(world, path);
	be_fair(world);
}

static void run_all(struct world *world)
{
	while (fair_has_work(&world->worker))
		fair_run(&world->worker);
}

static void close_fair(struct world *world)
{
	EXPECT(!fair_has_work(&world->worker));
	close_world(world);
	mem_free(world->worker.fair);
	mem_free(world->worker.watch);
}

static uint32_t nr_replies(struct conn *c)
{
	char *text = out_text(&c->out);
	uint32_t nr = 0;

	for (char *at = text; (at = strstr(at, "+OK")); at++)
		nr++;
	free(text);
	conn_sent(c, c->out.nr_bytes);
	return nr;
}

static void many(struct conn *c, const char *key, uint32_t nr)
{
	char text[64];

	for (uint32_t i = 0; i < nr; i++) {
		snprintf(text, sizeof(text), "SET %s%u v\r\n", key, i);
		say(c, text);
	}
}

/* As many as a new connection may have under way. */
enum { NR_ANN = 30, NR_BOB = 30, NR_ROUNDS = 36 };

/* What has begun in a round. */
static uint32_t round_of(struct world *world)
{
	uint32_t waited = world->worker.fair->queue.nr;

	fair_run(&world->worker);
	return waited - world->worker.fair->queue.nr;
}

static void test_budget(void)
{
	char *path = write_users("");
	struct world world;
	struct conn *bob;
	uint32_t ann_had, bob_had;

	open_fair(&world, path);
	bob = connect_one(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	say(bob, "AUTH bob other\r\n");
	hear(bob, "+OK\r\n", __LINE__);
	many(bob, "b", NR_BOB);
	many(world.c, "a", NR_ANN);
	HEAR("");
	/* Nothing is known at first. Ann has three times bob's weight. */
	for (uint32_t i = 0; i < NR_ROUNDS; i++)
		EXPECT(round_of(&world) == 1);
	ann_had = nr_replies(world.c);
	bob_had = nr_replies(bob);
	EXPECT(ann_had + bob_had == NR_ROUNDS && ann_had >= 3 * bob_had - 3 &&
	       ann_had <= 3 * bob_had + 3);
	/* Off: what waits begins at once, and what comes does not wait. */
	world.server.is_fair = false;
	EXPECT(round_of(&world) == NR_ANN + NR_BOB - ann_had - bob_had);
	EXPECT(nr_replies(world.c) == NR_ANN - ann_had && nr_replies(bob) == NR_BOB - bob_had);
	TALK("GET a29", "$1\r\nv\r\n");
	conn_kill(bob);
	close_fair(&world);
	unlink(path);
	free(path);
	printf("ok server_fair: a round begins what its budget allows, by weight\n");
}

/* As long as both ask for all they can, rounds grow; when one asks now and then, they shrink. */
static void test_rounds(void)
{
	char *path = write_users("");
	struct world world;
	struct conn *bob;
	uint32_t nr_begun = 0;

	open_fair(&world, path);
	bob = connect_one(&world);
	TALK("AUTH ann secret", "+OK\r\n");
	say(bob, "AUTH bob other\r\n");
	for (uint32_t i = 0; i < 2000; i++) {
		many(world.c, "a", 30 - world.c->nr_flying);
		many(bob, "b", 30 - bob->nr_flying);
		nr_begun += round_of(&world);
	}
	EXPECT(nr_begun > 20000 && world.worker.fair->budget >= 20 * FAIR_COST);
	for (uint32_t i = 0; i < 2000; i++) {
		many(world.c, "a", 30 - world.c->nr_flying);
		if (i % 8 == 0)
			many(bob, "b", 1);
		fair_run(&world.worker);
	}
	EXPECT(world.worker.fair->budget <= 2 * FAIR_COST);
	run_all(&world);
	conn_kill(bob);
	close_fair(&world);
	unlink(path);
	free(path);
	printf("ok server_fair: rounds are as short as shares need\n");
}

/* A connection with a value of that length at the key l, for each of ann and bob. */
static struct conn *open_with_values(struct world *world, const char *path, uint32_t nr_bytes)
{
	char *text = calloc(1, nr_bytes + 64);
	struct conn *bob;

	open_world(world, path);
	bob = connect_one(world);
	say(world->c, "AUTH ann secret\r\n");
	say(bob, "AUTH bob other\r\n");
	snprintf(text, nr_bytes + 64, "*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$%u\r\n%0*d\r\n", nr_bytes,
		 (int)nr_bytes, 0);
	say(world->c, text);
	say(bob, text);
	free(text);
	be_fair(world);
	return bob;
}

static void close_with_values(struct world *world, struct conn *bob, char *path)
{
	run_all(world);
	conn_kill(bob);
	close_fair(world);
	unlink(path);
	free(path);
}

static void many_reads(struct conn *c, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		say(c, "GET l\r\n");
}

/* Replies are read. */
static void drop_replies(struct conn *c)
{
	conn_sent(c, c->out.nr_bytes);
}

/* A read costs what it brings: 10 times 16 KiB are 11 operations, of a third by ann's weight. */
static void test_reads(void)
{
	char *path = write_users("");
	struct world world;
	struct conn *bob = open_with_values(&world, path, 10 * 16 << 10);
	uint64_t cost;

	many_reads(world.c, 20);
	many(bob, "b", 30);
	for (uint32_t i = 0; i < 18; i++)
		EXPECT(round_of(&world) == 1);
	cost = world.worker.fair->shares[1].cost;
	EXPECT(cost >= 3 * 11 * FAIR_COST && cost <= 5 * 11 * FAIR_COST);
	EXPECT(world.worker.fair->shares[2].cost == 18 * FAIR_COST - cost / 11);
	close_with_values(&world, bob, path);
	printf("ok server_fair: a read costs what it brings\n");
}

/* One reads all it can, the other writes: they have their shares, and rounds grow. */
static void test_reads_in_rounds(uint32_t nr_bytes)
{
	char *path = write_users("");
	struct world world;
	struct conn *bob = open_with_values(&world, path, nr_bytes);

	for (uint32_t i = 0; i < 2000; i++) {
		many_reads(world.c, 30 - world.c->nr_flying);
		many(bob, "b", 30 - bob->nr_flying);
		fair_run(&world.worker);
		drop_replies(world.c);
		drop_replies(bob);
	}
	EXPECT(world.worker.fair->budget >= 10 * FAIR_COST);
	close_with_values(&world, bob, path);
}

/* ---- what things cost ---- */

/* A connection takes nothing behind a transaction until that is done. */
static void tell(struct world *world, const char *text)
{
	size_t len = strlen(text), used = 0;

	while ((used += conn_feed(world->c, text + used, len - used)) < len) {
		EXPECT(fair_has_work(&world->worker));
		fair_run(&world->worker);
	}
}

/* What the connection of ann asks for, in operations. Nobody else asks for anything. */
static uint32_t cost_of(struct world *world, const char *text)
{
	const struct fair_queue *q = &world->worker.fair->queue;
	fair_time before = q->latest;

	tell(world, text);
	run_all(world);
	drop_replies(world->c);
	return (((q->latest - before) * 300 >> FAIR_TAG_SHIFT) + FAIR_COST / 2) / FAIR_COST;
}

/* What is not known when an operation begins is charged when it is known. */
static void test_costs(void)
{
	char *path = write_users(""), text[64], to = 'a';
	struct world world;
	struct conn *bob = open_with_values(&world, path, 10 * 16 << 10);
	const struct okv_store *store = world.worker.store;
	uint64_t hash = okv_store_hash(store, 1, "l", 1);

	while (okv_store_partition_of(store, okv_store_hash(store, 1, &to, 1)) !=
	       okv_store_partition_of(store, hash))
		to++;
	EXPECT(cost_of(&world, "GET l\r\n") == 1 + 10);
	EXPECT(cost_of(&world, "STRLEN l\r\n") == 1);
	EXPECT(cost_of(&world, "GETRANGE l 0 0\r\n") == 1 + 10);
	EXPECT(cost_of(&world, "APPEND l x\r\n") == 1 + 10);
	EXPECT(cost_of(&world, "DELIFEQ l x\r\n") == 1 + 10);
	EXPECT(cost_of(&world, "WATCH l\r\n") == 1 + 10);
	/* EXEC reads it again. */
	EXPECT(cost_of(&world, "MULTI\r\nSET s v\r\nEXEC\r\n") == 2 + 10);
	EXPECT(cost_of(&world, "MULTI\r\nAPPEND l x\r\nEXEC\r\n") == 1 + 10);
	EXPECT(cost_of(&world, "MULTI\r\nSETRANGE l 9 x\r\nSETRANGE l 8 x\r\nGET l\r\nEXEC\r\n") ==
	       3 + 30);
	/* The value was read, and then nothing was run. */
	EXPECT(cost_of(&world, "WATCH s\r\nSET s w\r\n") == 2);
	EXPECT(cost_of(&world, "MULTI\r\nGET l\r\nEXEC\r\n") == 2 + 10);
	snprintf(text, sizeof(text), "COPY l %c\r\n", to);
	EXPECT(cost_of(&world, text) == 2 + 20);
	snprintf(text, sizeof(text), "WATCH l\r\nMULTI\r\nAPPEND %c x\r\nAPPEND %c x\r\nEXEC\r\n",
		 to, to);
	EXPECT(cost_of(&world, text) == 1 + 10 + 3 + 30);
	snprintf(text, sizeof(text), "RENAME l %c\r\n", to);
	EXPECT(cost_of(&world, text) == 3 + 30);
	close_with_values(&world, bob, path);
	printf("ok server_fair: what is known late costs as much\n");
}

enum { NR_NAMES = 26, NR_KEYS = NR_NAMES * 30, MAX_STEP = 65 };

static void fill(struct world *world)
{
	for (uint32_t i = 0; i < NR_NAMES; i++, run_all(world))
		many(world->c, (char[]){ 'a' + i, 0 }, NR_KEYS / NR_NAMES);
	drop_replies(world->c);
}

/* Each step of a walk waits for its turn, and costs one and one for each key. */
static void test_walks(void)
{
	char *path = write_users(""), text[64];
	struct world world;
	struct conn *bob = open_with_values(&world, path, 1);
	const struct fair *fair = world.worker.fair;
	uint32_t nr = 0;

	fill(&world);
	for (uint32_t i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "SCAN %u COUNT 1000 MATCH x\r\n", i);
		nr += cost_of(&world, text) - 1;
	}
	/* One more is the key l. */
	EXPECT(nr == NR_KEYS + 1);
	nr = cost_of(&world, "FLUSHALL\r\n");
	EXPECT(nr > NR_KEYS + NR_KEYS / MAX_STEP && nr <= NR_KEYS + NR_KEYS / MAX_STEP + 5);
	/* Bob has a third of what the walk has, between its steps. */
	fill(&world);
	say(world.c, "FLUSHALL\r\n");
	for (nr = 0; world.c->nr_requests; nr += nr_replies(bob)) {
		many(bob, "b", 30 - bob->nr_flying);
		fair_run(&world.worker);
		EXPECT(fair->round_cost <= FAIR_BUDGET_MAX + MAX_STEP * FAIR_COST);
	}
	EXPECT(nr >= NR_KEYS / 3 - 30 && nr <= NR_KEYS / 3 + 30);
	close_with_values(&world, bob, path);
	printf("ok server_fair: a walk costs what it finds, and takes turns\n");
}

static void test_order(void)
{
	struct world world;
	char *big = calloc(1, 1 << 20);
	struct conn *other;

	open_fair(&world, NULL);
	other = connect_one(&world);
	/* A transaction waits behind what came before it, and what comes after it behind it. */
	say(world.c, "SET k 1\r\n");
	HEAR("");
	tell(&world, "MULTI\r\nINCR k\r\nINCR k\r\nEXEC\r\nINCR k\r\nGET k\r\n");
	run_all(&world);
	HEAR("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:2\r\n:3\r\n:4\r\n$1\r\n4\r\n");
	/* So does a walk. */
	say(world.c, "SET k 5\r\n");
	say(world.c, "FLUSHALL\r\n");
	HEAR("");
	run_all(&world);
	HEAR("+OK\r\n+OK\r\n");
	tell(&world, "GET k\r\n");
	run_all(&world);
	HEAR("$-1\r\n");
	/* Its cost is that of its operations. */
	say(world.c, "MULTI\r\n");
	for (uint32_t i = 0; i < 20; i++)
		say(world.c, "INCR n\r\n");
	say(world.c, "EXEC\r\n");
	many(other, "o", 8);
	EXPECT(round_of(&world) == 1 && world.worker.fair->round_cost == 20 * FAIR_COST);
	run_all(&world);
	conn_sent(world.c, world.c->out.nr_bytes);
	/* A large value takes more than a round, but no more than its own. */
	snprintf(big, 1 << 20, "*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$500000\r\n%0500000d\r\n", 0);
	say(world.c, big);
	say(world.c, "SET m 1\r\n");
	EXPECT(world.worker.fair->queue.nr == 2 && round_of(&world) == 1);
	run_all(&world);
	HEAR("+OK\r\n+OK\r\n");
	free(big);
	conn_kill(other);
	close_fair(&world);
	printf("ok server_fair: a connection keeps its order, with transactions\n");
}

/* ann and bob have the key bar, whose slot leaves. */
static void open_leaving(struct world *world, const char *path)
{
	open_node(world, path);
	say(world->c, "AUTH bob other\r\nSET bar 1\r\nAUTH ann secret\r\nSET bar 1\r\n");
	say(world->c, "CLUSTER SETSLOT 5061 MIGRATING " B "\r\n");
	drop_replies(world->c);
	be_fair(world);
}

static void close_leaving(struct world *world)
{
	EXPECT(!fair_has_work(&world->worker));
	close_node(world);
	mem_free(world->worker.fair);
	mem_free(world->worker.watch);
}

/* ann writes a key of bob, in a turn of bob. */
static void restore(struct conn *c, const char *value)
{
	size_t len = rdb_payload_bytes(strlen(value));
	char text[256];
	int nr = sprintf(text, "*7\r\n$14\r\nRESTORE-ASKING\r\n$3\r\nbar\r\n$1\r\n0\r\n$%zu\r\n",
			 len);

	rdb_write_payload(text + nr, value, strlen(value));
	nr += len;
	nr += sprintf(text + nr, "\r\n$7\r\nREPLACE\r\n$7\r\nUSER-ID\r\n$1\r\n2\r\n");
	EXPECT((int)conn_feed(c, text, nr) == nr);
}

/* MIGRATE waits for its turn, too. */
static void test_migrate(void)
{
	char *path = write_users("admin");
	struct world world;

	/* Keys go as requests before it leave them. */
	open_leaving(&world, path);
	say(world.c, "SET bar 2\r\n" MIGRATE "KEYS bar\r\n");
	run_all(&world);
	EXPECT(SHIPS("\r\n\0\1" "2"));
	answer(&world, "++");
	run_all(&world);
	HEAR("+OK\r\n+OK\r\n");
	close_leaving(&world);
	/* Those before it in the turn of another user may find a key gone, in its midst. */
	open_leaving(&world, path);
	restore(world.c, "2");
	restore(world.c, "3");
	restore(world.c, "4");
	say(world.c, MIGRATE "KEYS bar\r\n");
	run_all(&world);
	EXPECT(SHIPS("\r\n\0\1" "2") && SHIPS("\r\n\0\1" "1"));
	answer(&world, "++");
	run_all(&world);
	HEAR("+OK\r\n" ASK ASK "+OK\r\n");
	close_leaving(&world);
	unlink(path);
	free(path);
	printf("ok server_fair: MIGRATE takes its turn\n");
}

static void test_ends(void)
{
	struct world world;
	struct conn *c;

	open_fair(&world, NULL);
	/* A client that is gone: what it has asked for is done, and then it is freed. */
	c = connect_one(&world);
	many(c, "x", 20);
	conn_kill(c);
	EXPECT(!world.nr_freed);
	run_all(&world);
	EXPECT(world.nr_freed == 1);
	say(world.c, "GET x19\r\n");
	run_all(&world);
	HEAR("$1\r\nv\r\n");
	close_fair(&world);
	printf("ok server_fair: a client that is gone is freed when nothing of it waits\n");
}

/* ---- the monitor ---- */

struct two {
	struct server server;
	struct tenants tenants;
	struct worker workers[2];
	uint64_t now_ns;
};

static void open_two(struct two *two, enum balance_how how, enum fair_how fair)
{
	*two = (struct two){ .tenants.nr = 3, .now_ns = 1000000000 };
	two->server = (struct server){
		.nr_workers = 2, .workers = { &two->workers[0], &two->workers[1] },
		.tenants = &two->tenants,
		.balancer = {
			.how = how, .fair = fair, .window_ms = 1000, .overload_pct = 40,
			.gap_pct = 10,
		},
	};
	for (uint32_t i = 0; i < 2; i++) {
		two->workers[i].server = &two->server;
		two->workers[i].watch = mem_zalloc(sizeof(struct monitor_watch));
	}
	monitor_start(&two->server, two->now_ns);
}

static void close_two(struct two *two)
{
	monitor_free(&two->server);
	for (uint32_t i = 0; i < 2; i++)
		mem_free(two->workers[i].watch);
}

enum { UNIT_NS = 50000, FEW = 1, MANY = 2, OTHER = 3, NR_FEW = 2, NR_ALL = 18 };

static const struct okv_stages nothing, reads = { .ns[OKV_STAGE_READ] = UNIT_NS };
static const struct okv_stages writes = { .ns[OKV_STAGE_LOG] = UNIT_NS };

/*
 * A second of two tenants at worker 0 that have 2 and 16 requests under way, each of which takes
 * UNIT_NS: in the order in which they come, or in turns.
 */
static void serve(struct two *two, bool in_turns)
{
	struct monitor_watch *watch = two->workers[0].watch;
	struct monitor_mark mark[2][NR_ALL];
	uint64_t came_ns[2][NR_ALL], now_ns = two->now_ns;
	uint32_t head[2] = { 0 }, nr[2] = { NR_FEW, NR_ALL - NR_FEW };

	for (uint32_t t = 0; t < 2; t++) {
		for (uint32_t i = 0; i < nr[t]; i++) {
			monitor_came(watch, t + FEW, &mark[t][i]);
			came_ns[t][i] = now_ns;
		}
	}
	for (uint32_t step = 0; step < 1000000000 / UNIT_NS; step++) {
		uint32_t t = in_turns ? step % 2 : came_ns[1][head[1]] <= came_ns[0][head[0]];
		uint32_t i = head[t];

		now_ns += UNIT_NS;
		monitor_did(watch, t + FEW, &mark[t][i], &reads, 100, now_ns - came_ns[t][i]);
		monitor_came(watch, t + FEW, &mark[t][i]);
		came_ns[t][i] = now_ns;
		head[t] = (i + 1) % nr[t];
	}
}

/* Who is alone takes a unit: so it was before there was a load. */
static void alone(struct two *two)
{
	struct monitor_watch *watch = two->workers[0].watch;
	struct monitor_mark mark;

	monitor_came(watch, FEW, &mark);
	monitor_did(watch, FEW, &mark, &reads, 100, UNIT_NS);
	monitor_window(watch);
}

/* What is not there, and what is written, as long as others read. */
static void others(struct two *two)
{
	struct monitor_watch *watch = two->workers[0].watch;
	struct monitor_mark mark;

	monitor_came(watch, OTHER, &mark);
	monitor_did(watch, OTHER, &mark, &nothing, 0, 0);
	monitor_did(watch, OTHER, &mark, &writes, 100, UNIT_NS / 10);
}

static struct monitor_figures window(struct two *two, uint32_t busy0_pct, uint32_t busy1_pct)
{
	two->now_ns += 1000000000;
	two->workers[0].busy_ppm = busy0_pct * (PPM / 100);
	two->workers[1].busy_ppm = busy1_pct * (PPM / 100);
	/* This is of its last tick, which may have been after the window, or long before. */
	two->workers[0].counters[COUNT_BUSY_NS] += busy1_pct * 10000000ULL;
	for (uint32_t i = 0; i < 2; i++) {
		two->workers[i].counters[COUNT_STORE] += 1000;
		monitor_window(two->workers[i].watch);
	}
	monitor_decide(&two->server, two->now_ns);
	return monitor_read(&two->server);
}

static void test_fairness(void)
{
	struct monitor_figures figures;
	struct two two;

	open_two(&two, BALANCE_PS, FAIR_AUTO);
	alone(&two);
	window(&two, 50, 50);
	figures = window(&two, 50, 50);
	EXPECT(figures.fairness == 1000 && figures.balance == 1000 && !figures.mode);
	/* By arrival the slowdowns are 9 and 9 / 8. */
	serve(&two, false);
	others(&two);
	window(&two, 90, 90);
	serve(&two, false);
	figures = window(&two, 90, 90);
	EXPECT(figures.fairness > 120 && figures.fairness < 130);
	EXPECT(monitor_slowdown(&two.server, FEW) / 100 == 89);
	EXPECT(monitor_slowdown(&two.server, MANY) / 10 == 112);
	EXPECT(figures.mode == MONITOR_INTRA && two.server.is_fair);
	/* In turns both are 2. */
	serve(&two, true);
	window(&two, 90, 90);
	serve(&two, true);
	figures = window(&two, 90, 90);
	EXPECT(figures.fairness > 980 && figures.mode == MONITOR_INTRA);
	close_two(&two);
	printf("ok server_fair: F of 2 requests against 16 is low by arrival, near 1 in turns\n");
}

static void test_modes(void)
{
	static const struct {
		enum balance_how how;
		enum fair_how fair;
		bool is_unfair;
		uint32_t busy1_pct;
		enum monitor_mode mode;
	} cases[] = {
		{ BALANCE_PS, FAIR_AUTO, false, 90, MONITOR_NONE },
		{ BALANCE_PS, FAIR_AUTO, false, 10, MONITOR_INTER },
		{ BALANCE_PS, FAIR_AUTO, true, 90, MONITOR_INTRA },
		{ BALANCE_PS, FAIR_AUTO, true, 10, MONITOR_HYBRID },
		/* Only what the options allow, and at once what they force. */
		{ BALANCE_OFF, FAIR_AUTO, true, 10, MONITOR_INTRA },
		{ BALANCE_OFF, FAIR_OFF, true, 10, MONITOR_NONE },
		{ BALANCE_PS, FAIR_OFF, true, 90, MONITOR_INTER },
		{ BALANCE_OFF, FAIR_ON, false, 90, MONITOR_INTRA },
		{ BALANCE_PS, FAIR_ON, false, 90, MONITOR_HYBRID },
	};
	struct monitor_figures figures;
	struct two two;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_two(&two, cases[i].how, cases[i].fair);
		alone(&two);
		window(&two, 90, 90);
		serve(&two, !cases[i].is_unfair);
		figures = window(&two, 90, cases[i].busy1_pct);
		EXPECT(figures.mode == cases[i].mode);
		EXPECT(two.server.is_fair == !!(figures.mode & MONITOR_INTRA));
		EXPECT(figures.balance == 1000 * cases[i].busy1_pct / 90);
		close_two(&two);
	}
	/* A reactor below T_OL is not overloaded; a second decision in a window is none. */
	open_two(&two, BALANCE_PS, FAIR_AUTO);
	window(&two, 30, 10);
	figures = window(&two, 30, 10);
	EXPECT(figures.balance == 333 && !figures.mode);
	two.workers[0].busy_ppm = PPM;
	monitor_decide(&two.server, two.now_ns + 400000000);
	EXPECT(monitor_read(&two.server).balance == 333);
	/* Another worker's clock may be of a round that began before. */
	monitor_decide(&two.server, two.now_ns - 1000);
	EXPECT(monitor_read(&two.server).balance == 333);
	close_two(&two);
	/* The first window begins with the server. */
	open_two(&two, BALANCE_PS, FAIR_AUTO);
	two.workers[0].busy_ppm = PPM;
	monitor_decide(&two.server, two.now_ns + 400000000);
	EXPECT(monitor_read(&two.server).balance == 1000);
	close_two(&two);
	/* One user has nobody to be fair to. */
	open_two(&two, BALANCE_OFF, FAIR_ON);
	two.tenants.nr = 1;
	figures = window(&two, 30, 10);
	EXPECT(!figures.mode && !two.server.is_fair);
	close_two(&two);
	printf("ok server_fair: the truth table: none, inter, intra, hybrid\n");
}

int main(void)
{
	test_queue();
	test_late_charge();
	test_away();
	test_budget();
	test_rounds();
	test_reads();
	for (uint32_t nr_bytes = 16 << 10; nr_bytes <= 256 << 10; nr_bytes *= 2)
		test_reads_in_rounds(nr_bytes);
	printf("ok server_fair: what reads bring counts as a part of shares\n");
	test_costs();
	test_walks();
	test_order();
	test_migrate();
	test_ends();
	test_fairness();
	test_modes();
	return 0;
}
