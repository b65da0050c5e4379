// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_cluster.c - what clients of Redis Cluster ask a node: CLUSTER, READONLY, READWRITE, ASKING
 *
 * There are no replicas, and nodes do not talk to each other: each says what its map says
 * (cluster/map.h), and takes the other nodes to be there. So CLUSTER has the questions, and none of
 * the subcommands that change the map.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "cluster/map.h"
#include "command.h"
#include "multi.h"
#include "tenant.h"

enum {
	BUS_PORT_AFTER	= 10000,	/* where a Redis node would have its bus */
	LINE_BYTES	= 256,
	ARG_SLOT	= 2,
	MAX_SLOT_KEYS	= 1000,		/* of GETKEYSINSLOT */
};

#define SLOT_LEFT_OUT "CORRUPT keys of this slot are damaged, or are not served"

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

uint64_t cluster_epoch(const struct server *s)
{
	return s->cluster ? s->cluster->epoch : 0;
}

bool cluster_takes(struct request *r)
{
	const struct cluster *cluster = cluster_of(r);
	const struct command *c = r->command_of;
	const struct cluster_node *node;
	uint32_t slot, last;

	if (!cluster || !c->first_key || (uint32_t)c->first_key >= req_nr(r))
		return true;
	last = c->last_key < 0 ? req_nr(r) + c->last_key : (uint32_t)c->last_key;
	slot = slot_of(r, c->first_key);
	for (uint32_t i = c->first_key + c->key_step; i <= last; i += c->key_step) {
		if (slot_of(r, i) != slot) {
			request_fail(r, ACROSS);
			return false;
		}
	}
	if (cluster->owner[slot] == cluster->self + 1) {
		if (!multi_is_open(r->conn) || is_slot_of_multi(r->conn, slot))
			return true;
		request_fail(r, ACROSS);
		return false;
	}
	node = &cluster->nodes[cluster->owner[slot] - 1];
	if (cluster->owner[slot])
		request_fail(r, "MOVED %u %s:%u", slot, node->host, node->port);
	else
		request_fail(r, "CLUSTERDOWN Hash slot not served");
	return false;
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

static void reply_shard(struct resp_out *out, const struct cluster *c, uint32_t node)
{
	struct cluster_range range;
	uint32_t at = 0, nr = 0;

	while (cluster_next(c, &at, &range))
		nr += range.node == node;
	resp_map(out, 2);
	resp_string(out, "slots");
	resp_array(out, 2 * nr);
	for (at = 0; cluster_next(c, &at, &range);) {
		if (range.node != node)
			continue;
		resp_int(out, range.first);
		resp_int(out, range.last);
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

	resp_array(&r->out, c->nr_nodes);
	for (uint32_t i = 0; i < c->nr_nodes; i++)
		reply_shard(&r->out, c, i);
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

static void write_node(struct resp_out *text, const struct cluster *c, uint32_t node)
{
	const struct cluster_node *n = &c->nodes[node];
	struct cluster_range range;

	add(text, "%s %s:%u@%u %smaster - 0 0 %" PRIu64 " connected", n->id, n->host, n->port,
	    bus_port(n), node == c->self ? "myself," : "", c->epoch);
	for (uint32_t at = 0; cluster_next(c, &at, &range);) {
		if (range.node != node)
			continue;
		add(text, " %u", range.first);
		if (range.last > range.first)
			add(text, "-%u", range.last);
	}
	add(text, "\n");
}

static void reply_nodes(struct request *r)
{
	const struct cluster *c = cluster_of(r);
	struct resp_out text = { 0 };

	for (uint32_t i = 0; i < c->nr_nodes; i++)
		write_node(&text, c, i);
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
	    c->nr_serving);
	add(&text, "cluster_current_epoch:%" PRIu64 "\r\ncluster_my_epoch:%" PRIu64 "\r\n",
	    c->epoch, c->epoch);
	request_reply_text(r, &text);
}

static void reply_my_id(struct request *r)
{
	const struct cluster *c = cluster_of(r);

	resp_string(&r->out, c->nodes[c->self].id);
}

static void reply_key_slot(struct request *r)
{
	resp_int(&r->out, slot_of(r, 2));
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

/* ---- the keys of a slot: a walk over its partition, step by step ---- */

/* Argument @i as a slot; false: it is none, and the request has failed. */
static bool parse_slot(struct request *r, uint32_t i, uint32_t *slot)
{
	int64_t number;

	if (!req_int(r, i, &number) || number < 0 || number >= OKV_NR_SLOTS) {
		request_fail(r, "ERR Invalid or out of range slot");
		return false;
	}
	*slot = number;
	return true;
}

/* Job 0 is to walk over the slot: to the keys of the user, or of all users for an admin. */
static struct job *walk_of(struct request *r, uint32_t slot)
{
	struct job *job;

	request_jobs(r, 1);
	job = r->jobs;
	job->partition = slot * r->conn->worker->server->nr_partitions / OKV_NR_SLOTS;
	job->scan = (struct okv_scan){
		.tenant = r->tenant->is_admin ? OKV_ALL_TENANTS : r->tenant->id,
		.slot = slot + 1, .ioprio = r->tenant->ioprio, .owner = job,
	};
	return job;
}

static void count_go_on(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	const struct okv_partition *p = okv_store_partition(w->store, job->partition);

	job->nr_keys += okv_partition_count(p, job->scan.slot - 1, job->scan.tenant,
					    &job->scan.cursor);
	if (job->scan.cursor)
		job_walk_later(job, count_go_on);
	else
		job_scan_done(job);
}

static void count_run(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	if (job_walk_begin(w, job)) {
		count_go_on(w, msg);
		return;
	}
	job->status = OKV_CORRUPT;
	job_scan_done(job);
}

static void start_count_keys(struct request *r)
{
	uint32_t slot;

	if (!parse_slot(r, ARG_SLOT, &slot))
		return;
	walk_of(r, slot);
	request_send_walk(r, 0, count_run);
}

static void finish_count_keys(struct request *r)
{
	if (r->jobs->status == OKV_OK)
		resp_int(&r->out, r->jobs->nr_keys);
	else
		resp_error(&r->out, SLOT_LEFT_OUT);
}

static void keys_go_on(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	okv_partition_scan(okv_store_partition(w->store, job->partition), &job->scan);
}

static void keys_scanned(struct okv_scan *scan)
{
	struct job *job = scan->owner;

	if (scan->status != OKV_OK)
		job->status = scan->status;
	if (!scan->cursor || !scan->nr_max)
		job_scan_done(job);
	else
		job_walk_later(job, keys_go_on);
}

/* nr_max is how many are still wanted. A step may show more. */
static void slot_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	struct job *job = scan->owner;

	(void)value_len;
	(void)expire_ms;
	if (!scan->nr_max)
		return;
	scan->nr_max--;
	job->nr++;
	resp_bulk(&job->out, key, key_len);
}

static void start_get_keys(struct request *r)
{
	uint32_t slot;
	int64_t count;
	struct job *job;

	if (!parse_slot(r, ARG_SLOT, &slot))
		return;
	if (!req_int(r, ARG_SLOT + 1, &count) || count < 0) {
		request_fail(r, "ERR Invalid number of keys");
		return;
	}
	if (!count) {
		resp_array(&r->out, 0);
		request_done(r);
		return;
	}
	job = walk_of(r, slot);
	job->scan.nr_max = count < MAX_SLOT_KEYS ? count : MAX_SLOT_KEYS;
	job->scan.key = slot_key;
	job->scan.done = keys_scanned;
	request_send_scan(r, 0);
}

/* A key that cannot be read must not hide the others; but all others may have gone. */
static void finish_get_keys(struct request *r)
{
	struct job *job = r->jobs;

	if (!job->nr && job->status != OKV_OK) {
		resp_error(&r->out, job->status == OKV_CORRUPT ? SLOT_LEFT_OUT :
			   "IOERR some keys of the slot could not be read");
		return;
	}
	resp_array(&r->out, job->nr);
	resp_out_splice(&r->out, &job->out);
}

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
	{ "countkeysinslot", 1, NULL, start_count_keys, finish_count_keys },
	{ "getkeysinslot", 2, NULL, start_get_keys, finish_get_keys },
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
		if (req_nr(r) != 2 + questions[i].nr_args) {
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

/* READONLY, READWRITE, ASKING: there are no replicas, and no slot is on its way. */
static void start_mode(struct request *r)
{
	if (!is_clustered(r))
		return;
	resp_simple(&r->out, "OK");
	request_done(r);
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
	{ "asking", 1, 0, 0, 0, 0, start_mode, NULL },
	{ "role", 1, CMD_IN_MULTI, 0, 0, 0, start_role, NULL },
	{ NULL },
};
