/* SPDX-License-Identifier: GPL-2.0 */
/*
 * node.h - the world of a node, A of three: what it would send to another one is kept here
 *
 * Define _GNU_SOURCE before.
 */
#ifndef SERVER_NODE_H
#define SERVER_NODE_H

#include <string.h>

#include "cluster/map.h"
#include "server/cluster/slots.h"
#include "server/cluster/way.h"
#include "world.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccc"

/* foo is of slot 12182, bar of 5061, {bar}x too; hello of 866. */
static const char map_text[] =
	"epoch 7\n"
	A " 10.0.0.1:7001 0-8191\n"
	B " 10.0.0.2:7002 8192-16383\n"
	C " 10.0.0.3:7003\n";

#define ASK "-ASK 5061 10.0.0.2:7002\r\n"
#define MIGRATE "MIGRATE 10.0.0.2 7002 '' 0 5000 "

static inline struct cluster *load_map(void)
{
	char path[] = "/tmp/node-XXXXXX", why[256];
	int fd = mkstemp(path);
	struct cluster *c;

	EXPECT(fd >= 0 && write(fd, map_text, strlen(map_text)) == (ssize_t)strlen(map_text));
	close(fd);
	c = cluster_load(path, A, why, sizeof(why));
	EXPECT(c);
	unlink(path);
	return c;
}

/* What is on its way to another node. */
static struct shipment *shipment;

static inline bool ship(struct worker *w, struct kv_msg *msg)
{
	(void)w;
	shipment = (struct shipment *)msg;
	return true;
}

static inline void open_node(struct world *world, const char *users)
{
	open_world(world, users);
	memstore_set_slots(world->worker.store);
	world->server.cluster = load_map();
	world->worker.ship = ship;
	world->server.way_use = mem_zalloc(sizeof(struct way_use));
}

static inline void close_node(struct world *world)
{
	close_world(world);
	mem_free(world->server.way_use);
	cluster_free(world->server.cluster);
}

/* The other node has answered: for key @i, that is outcomes[i]; '?' if not. */
static inline void answer(struct world *world, const char *outcomes)
{
	struct shipment *s = shipment;

	EXPECT(s && s->nr_keys == strlen(outcomes));
	shipment = NULL;
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		s->outcomes[i] = outcomes[i] == '+' ? SHIP_TAKEN : outcomes[i] == '-' ?
				 SHIP_REFUSED : SHIP_UNKNOWN;
		if (outcomes[i] == '-')
			strcpy(s->why, "BUSYKEY it is there");
		s->is_cut |= outcomes[i] == '?';
		if (outcomes[i] == '?')
			strcpy(s->why, "no answer");
	}
	worker_deliver(&world->worker, &s->msg);
}

static inline bool ships(const char *text, size_t len)
{
	return memmem(shipment->bytes, shipment->len, text, len);
}
#define SHIPS(text) ships(text, sizeof(text) - 1)

#endif
