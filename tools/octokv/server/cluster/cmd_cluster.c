// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_cluster.c - what clients of Redis Cluster ask a node: CLUSTER, READONLY, READWRITE, ASKING
 *
 * There are no replicas, and nodes do not watch each other: each says what its map says
 * (cluster/map.h), and takes the other nodes to be there. CLUSTER SETSLOT and SETMAP change the map
 * of the node that they are sent to.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "cluster/map.h"
#include "server/command.h"
#include "server/multi.h"
#include "server/tenant.h"
#include "slots.h"
#include "store/mem.h"
#include "way.h"

enum {
	BUS_PORT_AFTER	= 10000,	/* where a Redis node would have its bus */
	LINE_BYTES	= 256,
};

#define ANY_ARGS UINT32_MAX
#define ACROSS "CROSSSLOT Keys in request don't hash to the same slot"

static const struct cluster *cluster_of(const struct request *r)
{
	return r->conn->worker->server->cluster;
}

/* ---- which node a command belongs to ---- */

static uint32_t slot_of(const struct request *r, uint32_t arg)
{
	return okv_slot(req_arg(r, arg), req_len(r, arg));
}

/* All keys of a transaction are of one slot. */
static bool is_slot_of_multi(struct conn *c, int32_t slot)
{
	if (c->multi_slot < 0)
		c->multi_slot = slot;
	return c->multi_slot == slot;
}

bool cluster_takes(struct request *r)
{
	const struct server *s = r->conn->worker->server;
	const struct command *c = r->command_of;
	uint32_t slot, last;
	char text[128];

	if (!s->cluster || !c->first_key || (uint32_t)c->first_key >= req_nr(r))
		return true;
	last = c->last_key < 0 ? req_nr(r) + c->last_key : (uint32_t)c->last_key;
	slot = slot_of(r, c->first_key);
	r->nr_slot_keys = 1;
	for (uint32_t i = c->first_key + c->key_step; i <= last; i += c->key_step) {
		if (slot_of(r, i) != slot) {
			request_fail(r, ACROSS);
			return false;
		}
		r->nr_slot_keys++;
	}
	r->slot = slot;
	if (way_of(s, slot, r->asking) == WAY_ELSEWHERE) {
		way_redirect(s, slot, r->asking, true, text, sizeof(text));
		request_fail(r, "%s", text);
		return false;
	}
	if (!multi_is_open(r->conn) || is_slot_of_multi(r->conn, slot))
		return true;
	request_fail(r, ACROSS);
	return false;
}

bool cluster_wants_step(const struct request *r)
{
	const struct server *s = r->conn->worker->server;
	enum way way;

	if (!(r->command_of->flags & CMD_WRITE))
		return false;
	way = way_of(s, r->slot, r->asking);
	return way != WAY_NONE &&
	       (r->nr_slot_keys > 1 || (way == WAY_LEAVES && way_is_in_doubt(s, r->slot)));
}

/* ---- CLUSTER ---- */

static void reply_node(struct resp_out *out, const struct cluster_node *node)
{
	resp_array(out, 4);
	resp_string(out, node->host);
	resp_int(out, node->port);
	resp_string(out, node->id);
	resp_array(out, 0);
}

static void reply_slots(struct request *r)
{
	const struct cluster *c = cluster_of(r);
	struct cluster_range range;
	uint32_t at = 0, nr = 0;

	while (cluster_next(c, &at, &range))
		nr++;
	resp_array(&r->out, nr);
	for (at = 0; cluster_next(c, &at, &range);) {
		resp_array(&r->out, 3);
		resp_int(&r->out, range.first);
		resp_int(&r->out, range.last);
		reply_node(&r->out, &c->nodes[range.node]);
	}
}

static void reply_pair(struct resp_out *out, const char *name, const char *value)
{
	resp_string(out, name);
	resp_string(out, value);
}

/* The ranges at *@at are those of the node, and then behind them. */
static void reply_shard(struct resp_out *out, const struct cluster *c, uint32_t node,
			const struct cluster_range **at)
{
	uint32_t nr = 0;

	while ((*at)[nr].node == node)
		nr++;
	resp_map(out, 2);
	resp_string(out, "slots");
	resp_array(out, 2 * nr);
	for (; (*at)->node == node; ++*at) {
		resp_int(out, (*at)->first);
		resp_int(out, (*at)->last);
	}
	resp_string(out, "nodes");
	resp_array(out, 1);
	resp_map(out, 7);
	reply_pair(out, "id", c->nodes[node].id);
	resp_string(out, "port");
	resp_int(out, c->nodes[node].port);
	reply_pair(out, "ip", c->nodes[node].host);
	reply_pair(out, "endpoint", c->nodes[node].host);
	reply_pair(out, "role", "master");
	resp_string(out, "replication-offset");
	resp_int(out, 0);
	reply_pair(out, "health", "online");
}

static void reply_shards(struct request *r)
{
	const struct cluster *c = cluster_of(r);
	struct cluster_range *ranges = cluster_ranges(c);
	const struct cluster_range *at = ranges;

	resp_array(&r->out, c->nr_nodes);
	for (uint32_t i = 0; i < c->nr_nodes; i++)
		reply_shard(&r->out, c, i, &at);
	mem_free(ranges);
}

__attribute__((format(printf, 2, 3)))
static void add(struct resp_out *text, const char *format, ...)
{
	char part[LINE_BYTES];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	resp_raw(text, part, len);
}

/* 0: there is no port where it would be. */
static uint32_t bus_port(const struct cluster_node *node)
{
	return node->port + BUS_PORT_AFTER > UINT16_MAX ? 0 : node->port + BUS_PORT_AFTER;
}

/* The same. */
static void write_node(struct resp_out *text, const struct cluster *c, uint32_t node,
		       const struct cluster_range **at)
{
	const struct cluster_node *n = &c->nodes[node];

	add(text, "%s %s:%u@%u %smaster - 0 0 %" PRIu64 " connected", n->id, n->host, n->port,
	    bus_port(n), node == c->self ? "myself," : "", c->epoch);
	for (; (*at)->node == node; ++*at) {
		add(text, " %u", (*at)->first);
		if ((*at)->last > (*at)->first)
			add(text, "-%u", (*at)->last);
	}
	for (uint32_t slot = 0; slot < OKV_NR_SLOTS && node == c->self && c->nr_ways; slot++)
		if (c->way[slot])
			add(text, " [%u%s%s]", slot, cluster_owns(c, slot) ? "->-" : "-<-",
			    c->nodes[c->way[slot] - 1].id);
	add(text, "\n");
}

static void reply_nodes(struct request *r)
{
	const struct cluster *c = cluster_of(r);
	struct cluster_range *ranges = cluster_ranges(c);
	const struct cluster_range *at = ranges;
	struct resp_out text = { 0 };

	for (uint32_t i = 0; i < c->nr_nodes; i++)
		write_node(&text, c, i, &at);
	mem_free(ranges);
	request_reply_text(r, &text);
}

static void reply_info(struct request *r)
{
	const struct cluster *c = cluster_of(r);
	uint32_t nr = cluster_nr_assigned(c);
	struct resp_out text = { 0 };

	add(&text, "cluster_enabled:1\r\ncluster_state:%s\r\n", nr == OKV_NR_SLOTS ? "ok" : "fail");
	add(&text, "cluster_slots_assigned:%u\r\ncluster_slots_ok:%u\r\n", nr, nr);
	add(&text, "cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n");
	add(&text, "cluster_known_nodes:%u\r\ncluster_size:%u\r\n", c->nr_nodes,
	    cluster_nr_serving(c));
	add(&text, "cluster_current_epoch:%" PRIu64 "\r\ncluster_my_epoch:%" PRIu64 "\r\n",
	    c->epoch, c->epoch);
	add(&text, "cluster_users_digest:%016" PRIx64 "\r\n",
	    r->conn->worker->server->tenants->digest);
	request_reply_text(r, &text);
}

static void reply_my_id(struct request *r)
{
	const struct cluster *c = cluster_of(r);

	resp_string(&r->out, c->nodes[c->self].id);
}

static void reply_key_slot(struct request *r)
{
	resp_int(&r->out, okv_slot(req_arg(r, 2), req_len(r, 2)));
}

/* Nodes do not watch each other. */
static void reply_none(struct request *r)
{
	resp_int(&r->out, 0);
}

static void reply_no_links(struct request *r)
{
	resp_array(&r->out, 0);
}

/* ---- all subcommands ---- */

/* @reply answers at once; @start does not, and @finish replies when the jobs are done. */
static const struct {
	const char *name;
	uint32_t nr_args;
	void (*reply)(struct request *r);
	void (*start)(struct request *r);
	void (*finish)(struct request *r);
} questions[] = {
	{ "slots", 0, reply_slots }, { "shards", 0, reply_shards }, { "nodes", 0, reply_nodes },
	{ "info", 0, reply_info }, { "myid", 0, reply_my_id }, { "keyslot", 1, reply_key_slot },
	{ "count-failure-reports", 1, reply_none }, { "links", 0, reply_no_links },
	{ "countkeysinslot", 1, NULL, walk_count_start, walk_count_finish },
	{ "getkeysinslot", 2, NULL, walk_keys_start, walk_keys_finish },
	{ "flushslot", 1, NULL, flush_slot_start, flush_finish },
	{ "setslot", ANY_ARGS, NULL, set_slot_start, NULL },
	{ "setmap", 1, NULL, set_map_start, NULL },
};
#define NR_QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static bool is_clustered(struct request *r)
{
	if (!cluster_of(r))
		request_fail(r, "ERR This instance has cluster support disabled");
	return cluster_of(r);
}

static void start_cluster(struct request *r)
{
	if (!is_clustered(r))
		return;
	/* Its map may be old, too. */
	if (!server_is_sure(r->conn->worker->server)) {
		request_refuse_old(r);
		return;
	}
	for (size_t i = 0; i < NR_QUESTIONS; i++) {
		if (!req_is(r, 1, questions[i].name))
			continue;
		if (questions[i].nr_args != ANY_ARGS && req_nr(r) != 2 + questions[i].nr_args) {
			request_fail(r, "ERR wrong number of arguments for 'cluster|%s' command",
				     questions[i].name);
			return;
		}
		if (questions[i].start) {
			questions[i].start(r);
			return;
		}
		questions[i].reply(r);
		request_done(r);
		return;
	}
	request_fail(r, "ERR unknown subcommand '%.*s': the map of this cluster is a file, which "
		     "each node reads again at SIGHUP", request_shown(r, 1), req_arg(r, 1));
}

static void finish_cluster(struct request *r)
{
	for (size_t i = 0; i < NR_QUESTIONS; i++)
		if (req_is(r, 1, questions[i].name))
			questions[i].finish(r);
}

/* READONLY, READWRITE: there are no replicas. */
static void start_mode(struct request *r)
{
	if (!is_clustered(r))
		return;
	resp_simple(&r->out, "OK");
	request_done(r);
}

static void start_asking(struct request *r)
{
	r->conn->asking = r->conn->worker->server->cluster;
	start_mode(r);
}

static void start_role(struct request *r)
{
	resp_array(&r->out, 3);
	resp_string(&r->out, "master");
	resp_int(&r->out, 0);
	resp_array(&r->out, 0);
	request_done(r);
}

const struct command cluster_commands[] = {
	{ "cluster", -2, 0, 0, 0, 0, start_cluster, finish_cluster },
	{ "readonly", 1, 0, 0, 0, 0, start_mode, NULL },
	{ "readwrite", 1, 0, 0, 0, 0, start_mode, NULL },
	{ "asking", 1, 0, 0, 0, 0, start_asking, NULL },
	{ "role", 1, CMD_IN_MULTI, 0, 0, 0, start_role, NULL },
	{ NULL },
};
