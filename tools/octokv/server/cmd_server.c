// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_server.c - commands on connections, on the server, and on all keys at once
 *
 * SCAN walks partition after partition. Its cursor is the cursor of the store in that partition,
 * with the number of the partition in the low 8 bits. A walk in the store ends with 0, so the end
 * of the last partition is 0, as clients expect. FLUSHALL clears all partitions of the keys of the
 * tenant, each with one record, side by side: not atomic over all. In a store of an earlier
 * version, it is a scan that deletes what it finds.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "auth.h"
#include "cluster/map.h"
#include "cluster/way.h"
#include "command.h"
#include "store/mem.h"
#include "stats.h"
#include "multi.h"
#include "tenant.h"

#define SYNTAX "ERR syntax error"

/* Limits on the work of a single command: all others on the reactor wait for it. */
enum {
	MAX_INFO_SECTIONS	= 16,
	MAX_SCAN_COUNT		= 1000,
	MAX_PATTERN_BYTES	= 1024,		/* looked for in each key of a SCAN */
	LOOKS_AS_ONE		= 1024,		/* at the index, that cost as a request does */
};

static void reply_ok(struct request *r)
{
	resp_simple(&r->out, "OK");
	request_done(r);
}

/* ---- connections ---- */

static void start_ping(struct request *r)
{
	if (req_nr(r) > 2) {
		request_fail(r, "ERR wrong number of arguments for 'ping' command");
		return;
	}
	if (req_nr(r) == 2)
		resp_bulk(&r->out, req_arg(r, 1), req_len(r, 1));
	else
		resp_simple(&r->out, "PONG");
	request_done(r);
}

static void start_echo(struct request *r)
{
	resp_bulk(&r->out, req_arg(r, 1), req_len(r, 1));
	request_done(r);
}

static void start_auth(struct request *r)
{
	bool named = req_nr(r) == 3;

	if (req_nr(r) > 3) {
		request_fail(r, SYNTAX);
		return;
	}
	auth_begin(r, named ? req_arg(r, 1) : "default", named ? req_len(r, 1) : 7, named ? 2 : 1,
		   reply_ok);
}

/* The client is known, or there are no users: what HELLO asks for besides. */
static void reply_hello(struct request *r)
{
	struct resp_out *out = &r->out;
	int64_t version = r->conn->out.resp3 ? 3 : 2;

	if (!r->conn->tenant) {
		request_fail(r, "NOAUTH HELLO must be called with the client already "
				"authenticated, or with AUTH <user> <pass>");
		return;
	}
	for (uint32_t i = 2; i + 1 < req_nr(r); i += req_is(r, i, "auth") ? 3 : 2) {
		if (req_is(r, i, "setname") &&
		    !conn_keep_name(r->conn->name, req_arg(r, i + 1), req_len(r, i + 1))) {
			request_fail(r, "ERR Client names cannot contain spaces, newlines or "
					"special characters.");
			return;
		}
	}
	if (req_nr(r) > 1)
		req_int(r, 1, &version);
	r->conn->out.resp3 = r->out.resp3 = version == 3;

	resp_map(out, 7);
	resp_string(out, "server");
	resp_string(out, "octokvd");
	resp_string(out, "version");
	resp_string(out, REDIS_VERSION);
	resp_string(out, "proto");
	resp_int(out, out->resp3 ? 3 : 2);
	resp_string(out, "id");
	resp_int(out, r->conn->id);
	resp_string(out, "mode");
	resp_string(out, r->conn->worker->server->cluster ? "cluster" : "standalone");
	resp_string(out, "role");
	resp_string(out, "master");
	resp_string(out, "modules");
	resp_array(out, 0);
	request_done(r);
}

static void start_hello(struct request *r)
{
	int64_t version;
	uint32_t auth = 0;

	if (req_nr(r) > 1 && (!req_int(r, 1, &version) || version < 2 || version > 3)) {
		request_fail(r, "NOPROTO unsupported protocol version");
		return;
	}
	for (uint32_t i = 2; i < req_nr(r);) {
		if (req_is(r, i, "auth") && i + 2 < req_nr(r)) {
			auth = i;
			i += 3;
		} else if (req_is(r, i, "setname") && i + 1 < req_nr(r)) {
			i += 2;
		} else {
			request_fail(r, "ERR Syntax error in HELLO option '%.*s'",
				     request_shown(r, i), req_arg(r, i));
			return;
		}
	}
	if (auth)
		auth_begin(r, req_arg(r, auth + 1), req_len(r, auth + 1), auth + 2, reply_hello);
	else
		reply_hello(r);
}

/*
 * A web page may make a browser talk to us: what follows is not meant for us, even if it looks like
 * commands.
 */
static void start_browser(struct request *r)
{
	r->conn->closing = true;
	request_fail(r, "ERR this is no web server");
}

static void start_select(struct request *r)
{
	int64_t number;

	if (!req_int(r, 1, &number))
		request_fail(r, "ERR value is not an integer or out of range");
	else if (number)
		request_fail(r, "ERR DB index is out of range: there is only 0");
	else
		reply_ok(r);
}

static void start_quit(struct request *r)
{
	r->conn->closing = true;
	reply_ok(r);
}

static void start_reset(struct request *r)
{
	struct conn *c = r->conn;

	if (c->first != r) {
		request_fail(r, "ERR cannot RESET while requests are under way");
		return;
	}
	c->out.resp3 = r->out.resp3 = false;
	multi_forget(c);
	c->name[0] = 0;
	tenant_enter(c, tenants_default(c->worker->server->tenants));
	resp_simple(&r->out, "RESET");
	request_done(r);
}

/* ---- the server ---- */

static void describe(struct resp_out *out, const struct command *c)
{
	resp_array(out, 6);
	resp_string(out, c->name);
	resp_int(out, c->arity);
	resp_array(out, 1);
	resp_simple(out, c->flags & CMD_WRITE ? "write" : "readonly");
	resp_int(out, c->first_key);
	resp_int(out, c->last_key);
	resp_int(out, c->key_step);
}

static uint32_t nr_commands(void)
{
	uint32_t nr = 0;

	while (command_at(nr))
		nr++;
	return nr;
}

static void describe_all(struct resp_out *out, bool names_only)
{
	const struct command *c;

	resp_array(out, nr_commands());
	for (uint32_t i = 0; (c = command_at(i)); i++) {
		if (names_only)
			resp_string(out, c->name);
		else
			describe(out, c);
	}
}

static void start_command(struct request *r)
{
	if (req_nr(r) == 1) {
		describe_all(&r->out, false);
	} else if (req_is(r, 1, "list")) {
		describe_all(&r->out, true);
	} else if (req_is(r, 1, "count")) {
		resp_int(&r->out, nr_commands());
	} else if (req_is(r, 1, "docs")) {
		resp_map(&r->out, 0);
	} else if (req_is(r, 1, "info")) {
		resp_array(&r->out, req_nr(r) - 2);
		for (uint32_t i = 2; i < req_nr(r); i++) {
			const struct command *c = command_find(req_arg(r, i), req_len(r, i));

			if (c)
				describe(&r->out, c);
			else
				resp_null(&r->out);
		}
	} else {
		request_fail(r, "ERR unknown subcommand '%.*s'. Try COMMAND COUNT, LIST, INFO, "
			     "DOCS.", request_shown(r, 1), req_arg(r, 1));
		return;
	}
	request_done(r);
}

/* At each worker: what its store says. */
static void gather(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	uint64_t nr_bytes;

	okv_store_stats(w->store, &job->stats);
	okv_store_tenant_usage(w->store, job->request->tenant->id, &nr_bytes, &job->nr_keys);
	worker_return(w, msg);
}

static void start_gather(struct request *r)
{
	if (req_nr(r) > 1 + MAX_INFO_SECTIONS) {
		request_fail(r, SYNTAX);
		return;
	}
	request_to_all_workers(r, gather);
}

static void finish_dbsize(struct request *r)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < r->nr_ops; i++)
		nr += r->jobs[i].nr_keys;
	resp_int(&r->out, nr);
}

static void finish_info(struct request *r)
{
	struct okv_stats sum = { 0 };
	struct resp_out text = { 0 };
	uint64_t nr_keys = 0;

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		const uint64_t *from = (const uint64_t *)&r->jobs[i].stats;
		uint64_t *to = (uint64_t *)&sum;

		for (size_t word = 0; word < offsetof(struct okv_stats, nr_refusing) / sizeof(*to);
		     word++)
			to[word] += from[word];
		sum.nr_refusing += r->jobs[i].stats.nr_refusing;
		sum.nr_failing += r->jobs[i].stats.nr_failing;
		nr_keys += r->jobs[i].nr_keys;
	}
	if (req_nr(r) == 1)
		stats_write(&text, r->conn->worker, r->tenant, &sum, nr_keys, "");
	for (uint32_t i = 1; i < req_nr(r); i++)
		stats_write(&text, r->conn->worker, r->tenant, &sum, nr_keys, req_arg(r, i));
	request_reply_text(r, &text);
}

static void start_time(struct request *r)
{
	char text[24];

	resp_array(&r->out, 2);
	snprintf(text, sizeof(text), "%" PRIu64, r->conn->worker->now_ms / 1000);
	resp_string(&r->out, text);
	snprintf(text, sizeof(text), "%" PRIu64, r->conn->worker->now_ms % 1000 * 1000);
	resp_string(&r->out, text);
	request_done(r);
}

/* All acknowledged writes are durable, on one machine: there is nothing to wait for. */
static void start_wait(struct request *r)
{
	if (req_is(r, 0, "waitaof")) {
		resp_array(&r->out, 2);
		resp_int(&r->out, 1);
	}
	resp_int(&r->out, 0);
	request_done(r);
}

/* ---- all keys ---- */

static void scan_done(struct okv_scan *scan)
{
	job_scan_done(scan->owner);
}

static void scan_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	struct job *job = scan->owner;
	const struct request *r = job->request;

	(void)value_len;
	(void)expire_ms;
	job->nr_found++;
	for (uint32_t i = 2; i + 1 < req_nr(r); i += 2) {
		if (req_is(r, i, "match") &&
		    !glob_match(req_arg(r, i + 1), req_len(r, i + 1), key, key_len))
			return;
		if (req_is(r, i, "type") && !req_is(r, i + 1, "string"))
			return;
	}
	resp_bulk(&job->out, key, key_len);
	job->nr++;
}

/* Reads a cursor: 0 to 2^64 - 1. */
static bool parse_cursor(const struct request *r, uint64_t *cursor)
{
	const char *text = req_arg(r, 1);

	*cursor = 0;
	for (uint32_t i = 0; i < req_len(r, 1); i++) {
		if (!isdigit((unsigned char)text[i]) ||
		    __builtin_mul_overflow(*cursor, 10, cursor) ||
		    __builtin_add_overflow(*cursor, text[i] - '0', cursor))
			return false;
	}
	return req_len(r, 1);
}

/* MATCH, TYPE and COUNT, each at most once, as the first two are compared with each key. */
static bool parse_scan(const struct request *r, int64_t *count)
{
	static const char *const options[] = { "match", "type", "count" };
	bool given[3] = { 0 };

	for (uint32_t i = 2; i < req_nr(r); i += 2) {
		uint32_t which = 0;

		while (which < 3 && !req_is(r, i, options[which]))
			which++;
		if (which == 3 || given[which] || i + 1 == req_nr(r) ||
		    req_len(r, i + 1) > MAX_PATTERN_BYTES ||
		    (which == 2 && (!req_int(r, i + 1, count) || *count < 1)))
			return false;
		given[which] = true;
	}
	return true;
}

static void start_scan(struct request *r)
{
	const struct server *s = r->conn->worker->server;
	int64_t count = 10;
	uint64_t cursor;
	struct job *job;

	if (!parse_cursor(r, &cursor) || (cursor & 0xff) >= s->nr_partitions) {
		request_fail(r, "ERR invalid cursor");
		return;
	}
	if (!parse_scan(r, &count)) {
		request_fail(r, SYNTAX);
		return;
	}
	request_jobs(r, 1);
	job = r->jobs;
	job->partition = cursor & 0xff;
	job->scan = (struct okv_scan){
		.cursor = cursor >> 8, .tenant = r->tenant->id, .ioprio = r->tenant->ioprio,
		.nr_max = count < MAX_SCAN_COUNT ? count : MAX_SCAN_COUNT,
		.key = scan_key, .done = scan_done, .owner = job,
	};
	request_send_scan(r, 0);
}

static void finish_scan(struct request *r)
{
	struct job *job = r->jobs;
	uint64_t next = job->scan.cursor << 8 | job->partition;
	char text[24];

	/* A key that cannot be read must not hide those behind it: the walk goes on without it. */
	if (job->scan.status != OKV_OK)
		worker_count(r->conn->worker, COUNT_ERRORS, 1);
	if (!job->scan.cursor)
		next = (job->partition + 1) % r->conn->worker->server->nr_partitions;
	snprintf(text, sizeof(text), "%" PRIu64, next);
	resp_array(&r->out, 2);
	resp_string(&r->out, text);
	resp_array(&r->out, job->nr);
	resp_out_splice(&r->out, &job->out);
}

/* A key that is being deleted, with its name behind it. */
struct doomed {
	struct okv_op op;
	struct job *job;
	char key[];
};

static void flush_go_on(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	if (!job_walk_admits(w, job))
		return;
	job->nr_pending = 1;
	okv_partition_scan(okv_store_partition(w->store, job->partition), &job->scan);
}

/* Keys are gone: their owner may have room for others. */
static void publish(struct job *job)
{
	tenant_publish(job->request->conn->worker->server->workers[job->msg.target],
		       job->request->tenant);
}

static void flush_step(struct job *job)
{
	if (--job->nr_pending)
		return;
	/* A key that could not be read is reported at the end, and does not stop the others. */
	job->nr += job->scan.status != OKV_OK;
	if (!job->scan.cursor) {
		publish(job);
		job_scan_done(job);
		return;
	}
	/* A walk over keys of other tenants has nothing to wait for; other clients wait for it. */
	job_walk_later(job, flush_go_on);
}

static void flush_deleted(struct okv_op *op)
{
	struct doomed *doomed = op->owner;
	struct job *job = doomed->job;

	if (op->status != OKV_OK && op->status != OKV_NOT_FOUND)
		job->nr++;
	okv_op_release(op);
	mem_free(doomed);
	flush_step(job);
}

static void flush_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		      uint64_t expire_ms)
{
	struct job *job = scan->owner;
	struct worker *w = job->request->conn->worker->server->workers[job->msg.target];
	struct doomed *doomed = mem_zalloc(sizeof(*doomed) + key_len);

	(void)value_len;
	(void)expire_ms;
	memcpy(doomed->key, key, key_len);
	doomed->job = job;
	doomed->op = (struct okv_op){
		.kind = OKV_OP_DELETE, .tenant = scan->key_tenant, .ioprio = scan->ioprio,
		.hash = okv_store_hash(w->store, scan->key_tenant, key, key_len),
		.key = doomed->key, .key_len = key_len, .done = flush_deleted, .owner = doomed,
	};
	job->nr_pending++;
	job->nr_found++;
	okv_partition_submit(okv_store_partition(w->store, job->partition), &doomed->op);
}

static void flush_scanned(struct okv_scan *scan)
{
	flush_step(scan->owner);
}

static void flush_cleared(struct okv_op *op)
{
	struct job *job = op->owner;

	job->nr += op->status != OKV_OK;
	job->nr_found = op->out_len / LOOKS_AS_ONE;
	okv_op_release(op);
	publish(job);
	job_scan_done(job);
}

static void flush_at_once(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	struct okv_partition *p;

	if (!job_walk_admits(w, job))
		return;
	p = job_walk_begin(w, job);
	if (!p) {
		job->nr++;
		job_scan_done(job);
		return;
	}
	job->clear = (struct okv_op){
		.kind = OKV_OP_CLEAR, .tenant = job->scan.tenant, .ioprio = job->scan.ioprio,
		.done = flush_cleared, .owner = job,
	};
	okv_partition_submit(p, &job->clear);
}

void request_flush(struct request *r, uint32_t i)
{
	struct job *job = &r->jobs[i];

	job->nr_pending = 1;
	job->scan.nr_max = 64;
	job->scan.key = flush_key;
	job->scan.done = flush_scanned;
	request_send_scan(r, i);
}

static void end_flush(struct request *r)
{
	way_flush_end(r->conn->worker->server);
}

static void start_flush(struct request *r)
{
	struct server *s = r->conn->worker->server;

	if (!way_flush_begin(s)) {
		request_fail(r, "TRYAGAIN the map changes");
		return;
	}
	r->end = end_flush;
	/* It would not find keys that are between two nodes. */
	if (s->cluster && s->cluster->nr_ways) {
		request_fail(r, "TRYAGAIN slots move from this node, or to it");
		return;
	}
	request_jobs(r, s->nr_partitions);
	for (uint32_t i = 0; i < s->nr_partitions; i++) {
		struct job *job = &r->jobs[i];

		job->partition = i;
		job->scan = (struct okv_scan){
			.tenant = r->tenant->id, .ioprio = r->tenant->ioprio, .owner = job,
		};
		if (s->config.can_clear)
			request_send_walk(r, i, flush_at_once);
		else
			request_flush(r, i);
	}
}

void flush_finish(struct request *r)
{
	for (uint32_t i = 0; i < r->nr_ops; i++) {
		if (r->jobs[i].nr) {
			resp_error(&r->out, "IOERR some keys could not be deleted");
			return;
		}
	}
	resp_simple(&r->out, "OK");
}

const struct command server_commands[] = {
	{ "ping", -1, CMD_IN_MULTI, 0, 0, 0, start_ping, NULL },
	{ "echo", 2, CMD_IN_MULTI, 0, 0, 0, start_echo, NULL },
	{ "hello", -1, CMD_NO_AUTH, 0, 0, 0, start_hello, NULL },
	{ "auth", -2, CMD_NO_AUTH, 0, 0, 0, start_auth, NULL },
	{ "quit", -1, CMD_NO_AUTH | CMD_ENDS_MULTI, 0, 0, 0, start_quit, NULL },
	{ "reset", 1, CMD_NO_AUTH | CMD_ENDS_MULTI, 0, 0, 0, start_reset, NULL },
	{ "post", -1, CMD_NO_AUTH, 0, 0, 0, start_browser, NULL },
	{ "host:", -1, CMD_NO_AUTH, 0, 0, 0, start_browser, NULL },
	{ "select", 2, CMD_IN_MULTI, 0, 0, 0, start_select, NULL },
	{ "command", -1, 0, 0, 0, 0, start_command, NULL },
	{ "info", -1, 0, 0, 0, 0, start_gather, finish_info },
	{ "dbsize", 1, CMD_ALL_KEYS, 0, 0, 0, start_gather, finish_dbsize },
	{ "scan", -2, CMD_ALL_KEYS, 0, 0, 0, start_scan, finish_scan },
	{ "flushall", -1, CMD_WRITE | CMD_ALL_KEYS, 0, 0, 0, start_flush, flush_finish },
	{ "flushdb", -1, CMD_WRITE | CMD_ALL_KEYS, 0, 0, 0, start_flush, flush_finish },
	{ "time", 1, CMD_IN_MULTI, 0, 0, 0, start_time, NULL },
	{ "wait", 3, 0, 0, 0, 0, start_wait, NULL },
	{ "waitaof", 4, 0, 0, 0, 0, start_wait, NULL },
	{ NULL },
};
