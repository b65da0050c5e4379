/* SPDX-License-Identifier: GPL-2.0 */
/*
 * run.h - a cluster in one process: what its random schedules are made of
 *
 * A run has three drives (store/sim/memstore.h), the octokvd that serve from them, a network, some
 * clients and an operator. Each event of it is drawn: one message between two workers, one
 * operation of a store, some bytes of a connection, one step of the operator, a fault. All follows
 * from the seed.
 *
 * The code of server/, cluster/ and daemon/cluster/keeper.c runs as it is, with two workers for
 * each octokvd. Sockets, threads, the recovery of a store and the reservation of a drive are
 * simulated here.
 */
#ifndef CLUSTER_RUN_H
#define CLUSTER_RUN_H

#include "daemon/reactor.h"
#include "history.h"
#include "server/cluster/delivery.h"
#include "server/cluster/way.h"
#include "server/tenant.h"
#include "store/sim/memstore.h"
#include "store/sim/sim_disk.h"

enum {
	NR_NODES	= 3,
	NR_HOSTS_MAX	= 8,		/* of a node, one after the other */
	NR_WORKERS	= 2,
	NR_CLIENTS	= 4,
	NR_TAGS		= 4,		/* each with two keys, of one slot */
	FIRST_PORT	= 7001,
	TEXT_BYTES	= 4096,
};

struct run;
struct process;

/* ---- octokvd ---- */

/* Keys on their way to another node: what sender.c does with a socket. */
struct sending {
	struct sending *next;
	struct kv_msg *msg;
	struct delivery delivery;
	struct link *link;		/* NULL: it has not begun */
};

struct mail {
	struct kv_msg *first, *last;
};

/**
 * struct process - an octokvd on a host
 * @mail:	to each worker, from each, and from the threads that help them
 * @orders:	for keeper.c
 * @is_cut:	nothing gets from it, or to it
 * @is_sure:	it has heard not long ago that its drive is not another host's
 * @dies:	at the end of this event
 */
struct process {
	struct run *run;
	uint32_t node, host;
	uint16_t port;
	char map[64];
	struct okv_store *store;
	struct server server;
	struct worker workers[NR_WORKERS];
	struct tenants tenants;
	struct way_use use;
	struct reactors reactors;
	struct mail mail[NR_WORKERS + 1][NR_WORKERS];
	struct mail orders;
	struct sending *sendings;
	bool is_cut, is_sure, is_fenced, dies, ends;
};

/* ---- the network ---- */

/**
 * struct link - a connection to an octokvd, which takes one text and answers it
 * @process:	at the other end; NULL: the connection is broken
 * @conn:	NULL until it is accepted
 * @out, @in:	on their way there and back
 * @heard:	bytes have come
 * @broken:	and nothing comes any more
 * @owner:	NULL: it has given up, and what is under way still arrives
 * @late_one_in: the greater, the later it arrives then
 * @slot:	of an order of the operator, or -1
 */
struct link {
	struct link *next;
	struct process *process;
	struct conn *conn;
	char *out, *in;
	size_t out_len, out_at, in_len;
	void (*heard)(struct run *run, struct link *l, const char *data, size_t len);
	void (*broken)(struct run *run, struct link *l);
	void *owner;
	uint32_t late_one_in;
	int32_t slot;
};

/* ---- clients and the operator ---- */

struct client {
	struct link *link;
	struct entry entry;
	uint32_t tag;
	bool is_busy, is_asking;
	uint16_t ports[NR_TAGS];	/* where it believes the slots to be */
	char said[TEXT_BYTES];
	size_t said_len;
};

enum move_state { AT_REST, MOVES, STAYS };

/* What the operator knows of a slot that has not arrived. */
struct move_plan {
	enum move_state state;
	uint32_t from, to, step;
	bool goes_on;			/* it cannot stay any more */
	bool goes_first;		/* the new node hears NODE first */
	uint32_t heard;			/* by node: STABLE, or NODE */
};

/**
 * struct operator - one who does as the guide says, and may stop anywhere
 * @plan:	of the slot that it works at
 * @map:	that it sends to all; with the nodes that have it
 * @takes_over:	the node whose drive is taken over, or NR_NODES
 */
struct operator {
	struct link *link;
	struct move_plan plans[NR_TAGS];
	uint32_t tag;
	bool is_at_work, sends_map, needs_map;
	uint32_t asked;			/* the node */
	char map[TEXT_BYTES];
	char old_map[TEXT_BYTES];	/* which a node may have missed */
	bool sends_old;
	uint32_t has_map;
	uint32_t takes_over;
	char said[TEXT_BYTES];
	size_t said_len;
};

/* ---- all of it ---- */

struct run {
	uint64_t seed, random, now, nr_events;
	bool traces, has_failed, calms_down;
	uint32_t fault_one_in;
	struct okv_store *drives[NR_NODES];
	uint32_t nr_hosts[NR_NODES];
	struct process *processes[NR_NODES * NR_HOSTS_MAX];
	uint32_t nr_processes;
	struct link *links;
	struct client clients[NR_CLIENTS];
	struct operator operator;
	struct history histories[NR_TAGS];
	uint64_t next_number;
	uint32_t nr_kills, nr_cuts, nr_takeovers, nr_moved, nr_late;
};

/* ---- run.c ---- */

/* Where files are; and the tags, with their slots. */
extern char run_folder[];
extern char run_tags[NR_TAGS][16];
extern uint32_t run_slots[NR_TAGS];

uint32_t run_draw(struct run *run, uint32_t below);
bool run_chance(struct run *run, uint32_t one_in);
__attribute__((format(printf, 2, 3))) void run_trace(struct run *run, const char *format, ...);
__attribute__((format(printf, 2, 3))) void run_fail(struct run *run, const char *format, ...);

/* Reads one reply. False: it is not complete. */
struct reply {
	char type;
	bool is_nil;
	int64_t number;			/* an integer, the number of elements, or a string's */
	const char *text;
	size_t len;
};
bool reply_read(const char **at, const char *end, struct reply *r);

/* ---- process.c ---- */

void node_id(uint32_t node, char *id);

/* The octokvd that has the drive of the node, or who listens there; NULL: none does. */
struct process *node_process(struct run *run, uint32_t node);
struct process *port_process(struct run *run, uint16_t port);
void node_start(struct run *run, uint32_t node);

/*
 * Another host takes the drive, with this file, and this one of its own. The old octokvd has no
 * drive from now on, and may not know.
 */
void node_take_over(struct run *run, uint32_t node, const char *map, const char *own_map);

/* Before its code is called from outside. */
void process_enter(struct process *p);

/* One message, or one operation of its store. False: it has nothing to do. */
bool process_step(struct process *p);

/* One order to change the map. */
bool process_keep(struct process *p);

/* The map in its file is read again. */
void process_reload(struct process *p, const char *map);

/* From a thread that helps it. */
void process_return(struct process *p, struct kv_msg *msg);

uint32_t process_nr_keys(const struct process *p, uint32_t slot);

/* Whether it lets clients use keys of the slot. */
bool process_serves(const struct process *p, uint32_t slot);

/* In this order; net_kill() calls them. */
void process_end(struct process *p);
void process_fail_orders(struct process *p);
void process_free(struct process *p);

/* ---- net.c ---- */

/* NULL: nobody listens there. */
struct link *link_open(struct run *run, uint16_t port, void *owner);
void link_send(struct link *l, const char *data, size_t len);
void link_give_up(struct link *l);

/* Nobody waits for it, and what was sent may still be read. */
bool link_is_late(const struct link *l);

/* One connection moves on, or breaks. */
void net_step(struct run *run);
void net_break(struct run *run);

/* What was answered is under way. */
void net_collect(struct run *run);

/* Keys for another node: they begin to go, or are given up. False: there are none. */
void sending_step(struct process *p);
bool sending_cut(struct process *p);

void net_kill(struct process *p);

/* ---- clients.c ---- */

void client_step(struct run *run, struct client *c);
void client_give_up(struct run *run, struct client *c);

/* It asks for both keys of a tag. */
void client_read(struct client *c, uint32_t tag);

/* ---- operator.c ---- */

void operator_step(struct run *run);
void operator_give_up(struct run *run);

/* Nothing is open, and all nodes have the same map. */
bool operator_is_done(struct run *run);

#endif
