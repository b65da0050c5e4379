// SPDX-License-Identifier: GPL-2.0
/*
 * process.c - octokvd that serve, are killed, start again, and lose their drives
 *
 * A process that is killed leaves what its drive has: of the operations that were under way, those
 * that came first, up to any of them. The files with its map stay. What was under way in it is
 * completed with errors, so that its memory can be freed, and nothing of that leaves it.
 *
 * A host that takes a drive over gets a copy of it. The old process keeps what it had, and its
 * drive refuses all from then on.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster/map.h"
#include "daemon/cluster/keeper.h"
#include "daemon/data.h"
#include "daemon/log.h"
#include "run.h"
#include "server/conn.h"
#include "server/metrics.h"
#include "server/mover.h"
#include "store/mem.h"
#include "test/test.h"

enum {
	NR_PARTITIONS	= 4,
	NR_DONE_MAX	= 6,		/* of the operations under way, when a process ends */
	UUID_BYTES	= 16,
};

#define CLOCK_MS 1700000000000

/* It runs now. */
static struct process *current;

static bool is_sure(void)
{
	return current->is_sure;
}

void process_enter(struct process *p)
{
	current = p;
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		p->workers[i].now_ms = CLOCK_MS + p->run->now;
		p->workers[i].now_ns = p->run->now * 1000000;
	}
	keeper_init(&p->reactors);
	p->server.way_use = &p->use;
}

/* ---- what the daemon is for the code under test ---- */

static void put(struct mail *mail, struct kv_msg *msg)
{
	msg->next = NULL;
	if (mail->last)
		mail->last->next = msg;
	else
		mail->first = msg;
	mail->last = msg;
}

static struct kv_msg *take(struct mail *mail)
{
	struct kv_msg *msg = mail->first;

	if (msg) {
		mail->first = msg->next;
		mail->last = mail->first ? mail->last : NULL;
	}
	return msg;
}

static struct process *process_of(const struct worker *w)
{
	return (struct process *)((char *)w->server - offsetof(struct process, server));
}

static void post(struct worker *w, struct kv_msg *msg, uint32_t to)
{
	put(&process_of(w)->mail[w->id][to], msg);
}

static bool keep(struct worker *w, struct kv_msg *msg)
{
	put(&process_of(w)->orders, msg);
	return true;
}

static bool ship(struct worker *w, struct kv_msg *msg)
{
	struct sending **at = &process_of(w)->sendings;

	while (*at)
		at = &(*at)->next;
	*at = mem_zalloc(sizeof(**at));
	(*at)->msg = msg;
	(*at)->delivery.s = (struct shipment *)msg;
	return true;
}

static void ready(struct worker *w, struct conn *c)
{
	(void)w, (void)c;
}

static void end_conn(struct worker *w, struct conn *c)
{
	(void)w;
	conn_kill(c);
}

static void freed(struct worker *w, struct conn *c)
{
	(void)w;
	mem_free(c);
}

/* While octokvd writes its map, the reactors go on by the old one; and it may end here. */
bool reactors_pause(struct reactors *rs, void (*change)(void *owner), void *owner)
{
	struct process *p = (struct process *)((char *)rs - offsetof(struct process, reactors));
	struct run *run = p->run;

	for (uint32_t nr = run_draw(run, 8); nr; nr--)
		process_step(p);
	p->dies |= !run->calms_down && run_chance(run, 30);
	if (p->dies)
		return false;
	change(owner);
	return true;
}

void log_say(enum log_kind kind, const char *format, ...)
{
	char text[512];
	va_list args;

	(void)kind;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	run_trace(current->run, "%u: %s", current->port, text);
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	puts("");
	exit(1);
}

/* ---- lives ---- */

static void set_uuid(uint32_t node, uint8_t *uuid)
{
	memset(uuid, 1 + node, UUID_BYTES);
}

void node_id(uint32_t node, char *id)
{
	uint8_t uuid[UUID_BYTES];

	set_uuid(node, uuid);
	cluster_id(uuid, id);
}

struct process *node_process(struct run *run, uint32_t node)
{
	for (uint32_t i = 0; i < run->nr_processes; i++)
		if (run->processes[i]->store == run->drives[node])
			return run->processes[i];
	return NULL;
}

struct process *port_process(struct run *run, uint16_t port)
{
	for (uint32_t i = 0; i < run->nr_processes; i++)
		if (run->processes[i]->port == port)
			return run->processes[i];
	return NULL;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	EXPECT(file && fputs(text, file) >= 0 && !fclose(file));
}

static void set_own_map(struct process *p, const char *text)
{
	char id[CLUSTER_ID_LEN + 1], *path;

	node_id(p->node, id);
	path = cluster_own_path(p->map, id);
	write_file(path, text);
	mem_free(path);
}

static void name_host(struct process *p, uint32_t node, uint32_t host)
{
	p->node = node;
	p->host = host;
	p->port = FIRST_PORT + node + 10 * host;
	snprintf(p->map, sizeof(p->map), "%s/%u.%u", run_folder, node, host);
}

static void start_workers(struct process *p)
{
	for (uint32_t i = 0; i < NR_WORKERS; i++) {
		p->workers[i] = (struct worker){
			.server = &p->server, .store = p->store, .id = i, .post = post,
			.keep = keep, .ship = ship, .ready = ready, .freed = freed,
			.end = end_conn,
		};
		p->server.workers[i] = &p->workers[i];
		mover_init(&p->workers[i]);
	}
}

void node_start(struct run *run, uint32_t node)
{
	struct process *p = mem_zalloc(sizeof(*p));
	uint8_t uuid[UUID_BYTES];
	char why[256];

	set_uuid(node, uuid);
	name_host(p, node, run->nr_hosts[node] - 1);
	p->run = run;
	p->is_sure = true;
	p->store = run->drives[node];
	/* Another host has waited until this is so: fence_settle(). */
	for (uint32_t i = 0; i < run->nr_processes; i++)
		if (run->processes[i]->node == node)
			run->processes[i]->is_sure = false;
	EXPECT(!tenants_load(&p->tenants, NULL, why, sizeof(why)));
	p->server = (struct server){
		.config = {
			.cluster = p->map, .stall_timeout_s = 5, .idle_timeout_s = 60,
			.slow_us = -1, .nr_slow = 4, .max_connections_limit = 1000,
		},
		.tenants = &p->tenants, .nr_workers = NR_WORKERS, .nr_partitions = NR_PARTITIONS,
		.is_sure = is_sure, .serves = true,
	};
	p->reactors.server = &p->server;
	start_workers(p);
	process_enter(p);
	memstore_fail(p->store, OKV_OK);
	memstore_hold(p->store, true);
	p->server.cluster = keeper_load(p->map, uuid);
	run->processes[run->nr_processes++] = p;
	run_trace(run, "%u: serves with epoch %llu", p->port,
		  (unsigned long long)p->server.cluster->epoch);
}

void node_take_over(struct run *run, uint32_t node, const char *map, const char *own_map)
{
	struct process *old = node_process(run, node), next;

	if (old) {
		process_enter(old);
		for (uint32_t nr = run_draw(run, NR_DONE_MAX); nr; nr--)
			if (!okv_partition_quiesce(okv_store_partition(old->store, 0)))
				memstore_release_oldest(old->store);
		run->drives[node] = memstore_copy(old->store);
		memstore_fence(old->store);
		old->is_fenced = true;
	}
	name_host(&next, node, run->nr_hosts[node]++);
	write_file(next.map, map);
	set_own_map(&next, own_map);
	run->nr_takeovers++;
	run_trace(run, "the drive of node %u is taken to %u", node, next.port);
}

void process_reload(struct process *p, const char *map)
{
	process_enter(p);
	write_file(p->map, map);
	keeper_reload();
}

void process_end(struct process *p)
{
	run_trace(p->run, "%u: killed", p->port);
	process_enter(p);
	memstore_end(p->store, run_draw(p->run, NR_DONE_MAX));
	memstore_hold(p->store, false);
	memstore_release(p->store);
	p->ends = true;
}

void process_fail_orders(struct process *p)
{
	struct kv_msg *msg;

	while ((msg = take(&p->orders))) {
		struct slot_order *o = (struct slot_order *)msg;

		o->is_good = false;
		strcpy(o->why, "octokvd ends");
		process_return(p, msg);
	}
}

void process_free(struct process *p)
{
	struct run *run = p->run;
	uint32_t i = 0;

	for (uint32_t j = 0; j < NR_WORKERS; j++) {
		EXPECT(!p->workers[j].conns && !p->workers[j].locked);
		metrics_free(&p->workers[j]);
		slowlog_free(&p->workers[j]);
	}
	tenants_free(&p->tenants);
	cluster_free(p->server.cluster);
	if (p->store != run->drives[p->node])
		memstore_free(p->store);
	while (run->processes[i] != p)
		i++;
	run->processes[i] = run->processes[--run->nr_processes];
	mem_free(p);
}

/* ---- its events ---- */

void process_return(struct process *p, struct kv_msg *msg)
{
	put(&p->mail[NR_WORKERS][msg->home], msg);
}

static bool deliver(struct process *p, uint32_t which)
{
	uint32_t to = which % NR_WORKERS;
	struct kv_msg *msg = take(&p->mail[which / NR_WORKERS][to]);

	if (!msg)
		return false;
	worker_deliver(&p->workers[to], msg);
	memstore_release_scans(p->store);
	return true;
}

bool process_step(struct process *p)
{
	enum { NR_MAILS = (NR_WORKERS + 1) * NR_WORKERS };
	uint32_t first = run_draw(p->run, NR_MAILS + 1);

	process_enter(p);
	for (uint32_t i = 0; i <= NR_MAILS; i++) {
		uint32_t which = (first + i) % (NR_MAILS + 1);

		if (which < NR_MAILS && deliver(p, which))
			return true;
		if (which == NR_MAILS &&
		    !okv_partition_quiesce(okv_store_partition(p->store, 0))) {
			memstore_release_oldest(p->store);
			memstore_release_scans(p->store);
			return true;
		}
	}
	return false;
}

bool process_keep(struct process *p)
{
	struct kv_msg *msg = take(&p->orders);

	if (!msg)
		return false;
	process_enter(p);
	p->reactors.keep(msg);
	process_return(p, msg);
	return true;
}

/* ---- what it has ---- */

uint32_t process_nr_keys(const struct process *p, uint32_t slot)
{
	const struct okv_partition *partition =
		okv_store_partition(p->store, way_partition(&p->server, slot));
	uint64_t cursor = 0;
	uint32_t nr = 0;

	do
		nr += okv_partition_count(partition, slot, OKV_ALL_TENANTS, &cursor);
	while (cursor);
	return nr;
}

bool process_serves(const struct process *p, uint32_t slot)
{
	const struct cluster *c = p->server.cluster;

	return p->is_sure && cluster_owns(c, slot) &&
	       (!c->way[slot] || process_nr_keys(p, slot));
}
