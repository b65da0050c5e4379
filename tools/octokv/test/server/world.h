/* SPDX-License-Identifier: GPL-2.0 */
/* world.h - connections without sockets, of one worker, over a store in memory */
#ifndef SERVER_WORLD_H
#define SERVER_WORLD_H

#include <unistd.h>

#include "server/command.h"
#include "server/conn.h"
#include "server/metrics.h"
#include "server/mover.h"
#include "server/tenant.h"
#include "store/mem.h"
#include "store/sim/memstore.h"
#include "test/test.h"

struct world {
	struct server server;
	struct worker worker;
	struct tenants tenants;
	struct conn *c;
	int nr_freed;
};

static inline void ready(struct worker *w, struct conn *c)
{
	(void)w;
	(void)c;
}

/* There is one worker: its mail goes to itself. */
static inline void post(struct worker *w, struct kv_msg *msg, uint32_t to)
{
	(void)to;
	worker_deliver(w, msg);
}

static inline void freed(struct worker *w, struct conn *c)
{
	((struct world *)((char *)w - offsetof(struct world, worker)))->nr_freed++;
	mem_free(c);
}

static inline void end_conn(struct worker *w, struct conn *c)
{
	(void)w;
	conn_kill(c);
}

static inline struct conn *connect_one(struct world *world)
{
	struct conn *c = mem_alloc(sizeof(*c));

	conn_init(c, &world->worker);
	return c;
}

static inline void open_world(struct world *world, const char *users)
{
	char why[256];

	memset(world, 0, sizeof(*world));
	EXPECT(!tenants_load(&world->tenants, users, why, sizeof(why)));
	world->server = (struct server){
		.tenants = &world->tenants, .nr_workers = 1, .nr_partitions = 4,
		.workers = { &world->worker },
	};
	world->server.config = (struct config){
		.stall_timeout_s = 5, .idle_timeout_s = 60, .data = "memory",
		.slow_us = -1, .nr_slow = 4, .max_connections_limit = 1000,
	};
	world->worker = (struct worker){
		.server = &world->server, .store = memstore_new(), .post = post, .ready = ready,
		.freed = freed, .end = end_conn,
	};
	world->worker.now_ns = 1000000000;
	world->worker.now_ms = 1700000000000;
	mover_init(&world->worker);
	world->c = connect_one(world);
}

static inline void close_world(struct world *world)
{
	conn_kill(world->c);
	EXPECT(!world->worker.conns);
	metrics_free(&world->worker);
	slowlog_free(&world->worker);
	memstore_free(world->worker.store);
	tenants_free(&world->tenants);
}

static inline void later(struct world *world, uint64_t ms)
{
	world->worker.now_ms += ms;
	world->worker.now_ns += ms * 1000000;
}

static inline void say(struct conn *c, const char *in)
{
	EXPECT(conn_feed(c, in, strlen(in)) == strlen(in));
}

static inline void hear(struct conn *c, const char *wanted, int line)
{
	char *text = out_text(&c->out);

	expect_text(__FILE__, line, wanted, text, c->out.nr_bytes);
	free(text);
	conn_sent(c, c->out.nr_bytes);
}

#define TALK(in, wanted) do { say(world.c, in "\r\n"); hear(world.c, wanted, __LINE__); } while (0)
#define HEAR(wanted) hear(world.c, wanted, __LINE__)

/* The users ann, with options, and bob. */
static inline char *write_users(const char *options)
{
	char *path = strdup("/tmp/octokv-users-XXXXXX"), hash[TENANT_HASH_BYTES];
	int fd = mkstemp(path);

	EXPECT(fd >= 0 && !tenant_hash_password("secret", hash, sizeof(hash)));
	dprintf(fd, "# users\n\nann 1 %s weight=300 %s\n", hash, options);
	EXPECT(!tenant_hash_password("other", hash, sizeof(hash)));
	dprintf(fd, "bob 2 %s\n", hash);
	close(fd);
	return path;
}

#endif
