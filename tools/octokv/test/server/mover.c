// SPDX-License-Identifier: GPL-2.0
/*
 * mover.c - a partition moves while a scan of it is requested
 *
 * Three workers, and mail that arrives when the test says so. The scan is kept in the pause of the
 * move. It is at work at the new owner before the new owner has heard that the move is over. It
 * counts there until it is done: the partition stays for that long, and can move again afterwards.
 * Otherwise all would wait for it for ever. A partition at a checkpoint or at garbage collection
 * does not begin to move, for the same reason.
 *
 * And which partitions a worker is told to give away, by the users whose events count.
 */
#include "server/command.h"
#include "server/conn.h"
#include "server/fair/fair.h"
#include "server/fair/monitor.h"
#include "server/mover.h"
#include "server/metrics.h"
#include "server/tenant.h"
#include "store/mem.h"
#include "store/sim/memstore.h"
#include "test/test.h"

enum { NR_WORKERS = 3, NR_PARTITIONS = 4, OLD = 0, NEW = 1, ASKING = 2 };

struct mail {
	struct kv_msg *first, *last;
};

static struct mail mail[NR_WORKERS][NR_WORKERS];
static struct worker workers[NR_WORKERS];
static struct tenants tenants;
static struct server server = {
	.tenants = &tenants, .nr_workers = NR_WORKERS, .nr_partitions = NR_PARTITIONS,
};

static void post(struct worker *w, struct kv_msg *msg, uint32_t to)
{
	struct mail *box = &mail[w->id][to];

	msg->next = NULL;
	if (box->first)
		box->last->next = msg;
	else
		box->first = msg;
	box->last = msg;
}

/* Delivers all mail that is there now; true if there was any. */
static bool deliver(uint32_t from, uint32_t to)
{
	struct kv_msg *msg = mail[from][to].first, *next;

	mail[from][to].first = NULL;
	for (struct kv_msg *m = msg; m; m = next) {
		next = m->next;
		worker_deliver(&workers[to], m);
	}
	return msg;
}

static void deliver_all(void)
{
	bool any = true;

	while (any) {
		any = false;
		for (uint32_t i = 0; i < NR_WORKERS * NR_WORKERS; i++)
			any |= deliver(i / NR_WORKERS, i % NR_WORKERS);
		for (uint32_t i = 0; i < NR_WORKERS; i++)
			mover_run(&workers[i]);
	}
}

static void ready(struct worker *w, struct conn *c)
{
	(void)w;
	(void)c;
}

static void freed(struct worker *w, struct conn *c)
{
	(void)w;
	mem_free(c);
}

static struct conn *begin(void)
{
	struct okv_store *store = memstore_new();
	struct conn *c = mem_alloc(sizeof(*c));
	char why[256];

	EXPECT(!tenants_load(&tenants, NULL, why, sizeof(why)));
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){
			.server = &server, .id = i, .store = store, .post = post, .ready = ready,
			.freed = freed,
		};
		server.workers[i] = &workers[i];
		mover_init(&workers[i]);
	}
	conn_init(c, &workers[ASKING]);
	return c;
}

static void end(struct conn *c)
{
	conn_kill(c);
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		metrics_free(&workers[i]);
		slowlog_free(&workers[i]);
	}
	memstore_free(workers[0].store);
	tenants_free(&tenants);
}

/* Runs until only the message that the move is over is under way. */
static void move_and_pause(struct conn *c, const char *command)
{
	EXPECT(workers[OLD].routes[0].owner == OLD && mover_begin(&workers[OLD], 0, NEW));
	deliver(OLD, NEW);
	deliver(OLD, ASKING);
	EXPECT(conn_feed(c, command, strlen(command)) == strlen(command) &&
	       workers[ASKING].routes[0].kept);
	deliver(NEW, OLD);
	deliver(ASKING, OLD);
	mover_run(&workers[OLD]);
	deliver(OLD, NEW);
	deliver(NEW, OLD);
}

static void test_kept(const char *command, const char *reply)
{
	struct conn *c = begin();
	char *text;

	memstore_hold(workers[0].store, true);
	move_and_pause(c, command);
	deliver(OLD, ASKING);
	deliver(ASKING, NEW);
	EXPECT(workers[NEW].routes[0].nr_jobs == 1);
	deliver_all();
	EXPECT(workers[NEW].routes[0].nr_jobs == 1 && !mover_begin(&workers[NEW], 0, ASKING));
	memstore_hold(workers[0].store, false);
	memstore_release(workers[0].store);
	deliver_all();
	text = out_text(&c->out);
	expect_text(__FILE__, __LINE__, reply, text, c->out.nr_bytes);
	free(text);
	EXPECT(!workers[NEW].routes[0].nr_jobs && mover_begin(&workers[NEW], 0, ASKING));
	deliver_all();
	for (uint32_t i = 0; i < NR_WORKERS; i++)
		EXPECT(workers[i].routes[0].owner == ASKING && !workers[i].routes[0].paused &&
		       !mover_is_busy(&workers[i]));
	end(c);
}

static void test_working(void)
{
	struct conn *c = begin();

	memstore_work(workers[0].store, true);
	EXPECT(!mover_begin(&workers[OLD], 0, NEW) && !mover_is_busy(&workers[OLD]));
	memstore_work(workers[0].store, false);
	EXPECT(mover_begin(&workers[OLD], 0, NEW));
	deliver_all();
	EXPECT(workers[ASKING].routes[0].owner == NEW);
	end(c);
	printf("ok server_mover: a partition moves when its checkpoint or collection has ended\n");
}

/* While the device fails, a partition whose move has begun stays, and is not held up. */
static void test_stuck(void)
{
	struct conn *c = begin();

	memstore_stick(workers[0].store, true);
	EXPECT(mover_begin(&workers[OLD], 0, NEW));
	deliver_all();
	for (uint32_t i = 0; i < NR_WORKERS; i++)
		EXPECT(workers[i].routes[0].owner == OLD && !workers[i].routes[0].paused &&
		       !mover_is_busy(&workers[i]));
	end(c);
	printf("ok server_mover: a partition that cannot come to rest stays where it is\n");
}

/* GETs of a key of that partition. They come to OLD. */
static void get(struct conn *c, uint32_t partition, uint32_t nr)
{
	const struct okv_store *store = workers[OLD].store;
	char command[] = "GET a\r\n";

	while (okv_store_partition_of(store, okv_store_hash(store, 0, &command[4], 1)) != partition)
		command[4]++;
	while (nr--)
		EXPECT(conn_feed(c, command, 7) == 7);
	deliver_all();
}

enum { NR_BEFORE = 20, NR_BEHIND = 5 };

/*
 * An operation that waits for its turn at the old owner keeps the partition there. Clients wait for
 * the partition, so all that is before it begins in one round, and nothing that is behind it.
 */
static void test_waiting(void)
{
	struct conn *c = begin();
	struct worker *old = &workers[OLD];
	char *text;

	old->fair = mem_zalloc(sizeof(*old->fair));
	fair_init(old->fair);
	old->watch = mem_zalloc(sizeof(*old->watch));
	server.is_fair = true;
	fair_run(old);
	get(c, 1, NR_BEFORE);
	get(c, 0, 1);
	get(c, 1, NR_BEHIND);
	EXPECT(old->fair->queue.nr == NR_BEFORE + 1 + NR_BEHIND && old->routes[0].nr_waiting == 1);
	/* Nothing is in a hurry. */
	fair_run(old);
	EXPECT(old->fair->queue.nr == NR_BEFORE + NR_BEHIND);
	EXPECT(mover_begin(old, 0, NEW));
	deliver_all();
	EXPECT(mover_is_busy(old) && workers[ASKING].routes[0].paused);
	fair_run(old);
	EXPECT(old->fair->queue.nr == NR_BEHIND && !old->routes[0].nr_waiting);
	deliver_all();
	EXPECT(!mover_is_busy(old) && workers[ASKING].routes[0].owner == NEW);
	fair_run(old);
	EXPECT(old->fair->queue.nr == NR_BEHIND - 1);
	while (fair_has_work(old))
		fair_run(old);
	deliver_all();
	text = out_text(&c->out);
	EXPECT(c->out.nr_bytes == (NR_BEFORE + 1 + NR_BEHIND) * strlen("$-1\r\n"));
	free(text);
	mem_free(old->fair);
	mem_free(old->watch);
	server.is_fair = false;
	end(c);
	printf("ok server_mover: a partition stays until nothing waits for it, and no longer\n");
}

/* ---- what is given away ---- */

enum { WINDOW_MS = 1000, NR_USERS = 4 };

static tenant_events events[NR_WORKERS][NR_PARTITIONS], window_events[NR_WORKERS][NR_PARTITIONS];
static struct tenants some = { .nr = NR_USERS };

static void begin_window(enum balance_how how, enum balance_tenants which, enum fair_how fair)
{
	server.tenants = &some;
	server.monitor = OLD;
	server.balancer = (struct balancer_config){
		.how = how, .which = which, .fair = fair, .window_ms = WINDOW_MS,
		.overload_pct = 40, .gap_pct = 10,
	};
	memset(events, 0, sizeof(events));
	memset(window_events, 0, sizeof(window_events));
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){
			.server = &server, .id = i, .store = memstore_new(), .post = post,
			.events = events[i], .window_events = window_events[i],
			.watch = mem_zalloc(sizeof(struct monitor_watch)),
		};
		server.workers[i] = &workers[i];
		mover_init(&workers[i]);
	}
	monitor_start(&server, 0);
}

static void end_window(void)
{
	monitor_free(&server);
	server.fairness = NULL;
	server.tenants = &tenants;
	server.balancer = (struct balancer_config){ 0 };
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		mem_free(workers[i].watch);
		memstore_free(workers[i].store);
	}
}

/* Events of the users in the two partitions of OLD. */
struct load {
	uint32_t nr[2][NR_USERS];
};

/* OLD was busy in a window, and others were not. Returns the partitions that it gives away. */
static uint32_t leaving(enum balance_tenants which, enum fair_how fair, const struct load *load)
{
	struct worker *old = &workers[OLD];
	uint32_t set = 0;

	begin_window(BALANCE_PS, which, fair);
	for (uint32_t i = 0; i < 2 * NR_USERS; i++)
		events[OLD][i % 2][i / 2] = load->nr[i % 2][i / 2];
	old->counters[COUNT_STORE] = 1000;
	old->now_ns = WINDOW_MS * 1000000ULL;
	mover_window(old, old->now_ns / 10 * 9);
	for (uint32_t i = 0; i < NR_PARTITIONS; i++)
		set |= (old->leaving[i] != 0) << i;
	end_window();
	return set;
}

static void test_dense(void)
{
	static const struct load one = { { { 0, 90 }, { 0, 100 } } };
	static const struct load equal = { { { 50, 10, 40, 50 }, { 50, 90, 60, 50 } } };
	static const struct load unequal = { { { 0, 40, 30, 30 }, { 0, 60 } } };

	/* Both levels act: the dense user makes room. If none is dense, all do. */
	EXPECT(leaving(BALANCE_ALL, FAIR_ON, &unequal) == 1 << 1);
	EXPECT(leaving(BALANCE_ALL, FAIR_ON, &one) == 1 << 1);
	EXPECT(leaving(BALANCE_ALL, FAIR_ON, &equal) == 1 << 1);
	EXPECT(leaving(BALANCE_ALL, FAIR_OFF, &unequal) == 1 << 0);
	/* What the operator has asked for stays as it is. */
	EXPECT(leaving(BALANCE_DENSE, FAIR_ON, &unequal) == 1 << 1);
	EXPECT(!leaving(BALANCE_DENSE, FAIR_ON, &one) && !leaving(BALANCE_DENSE, FAIR_ON, &equal));
	EXPECT(leaving(BALANCE_SPARSE, FAIR_ON, &one) == 1 << 1);
	printf("ok server_mover: a reactor of one user, or of equal ones, gives away, too\n");
}

/* Without a balancer nobody asks for what a window has had, and it is not copied. */
static void test_off(void)
{
	struct worker *old = &workers[OLD];

	for (enum balance_how how = BALANCE_OFF; how <= BALANCE_PS; how++) {
		begin_window(how, BALANCE_ALL, FAIR_OFF);
		events[OLD][0][1] = 7;
		old->now_ns = WINDOW_MS * 1000000ULL;
		mover_window(old, 1000);
		EXPECT(window_events[OLD][0][1] == (how == BALANCE_OFF ? 0 : 7));
		EXPECT(old->busy_ppm == 1 && old->window_begun_ns == old->now_ns);
		end_window();
	}
	printf("ok server_mover: without a balancer, events of a window are not copied\n");
}

int main(void)
{
	test_working();
	test_stuck();
	test_waiting();
	test_dense();
	test_off();
	test_kept("SCAN 0\r\n", "*2\r\n$1\r\n1\r\n*0\r\n");
	test_kept("FLUSHALL\r\n", "+OK\r\n");
	printf("ok server_mover: a scan that was kept in a move is counted by the new owner\n");
	return 0;
}
