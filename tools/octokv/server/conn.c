// SPDX-License-Identifier: GPL-2.0
/*
 * conn.c - from bytes to requests, and from replies to bytes in the order of the requests
 *
 * conn.h has the rules. A connection that is not authenticated gets the small limits that an AUTH
 * or a HELLO needs. A protocol error ends the connection after its message, as what follows cannot
 * be understood.
 */
#include <stdio.h>

#include "command.h"
#include "conn.h"
#include "multi.h"
#include "rdb/rdb.h"
#include "store/mem.h"
#include "tenant.h"

enum {
	HUGE_COMMAND_BYTES	= 64 << 10,
	LOGIN_S			= 10,	/* from the connection to the right password */
};

static const struct resp_limits known_limits = {
	/* RESTORE has a bit more than the value. */
	.max_bulk_bytes = MAX_VALUE_BYTES + RDB_AROUND_BYTES, .max_args = 1 << 16,
	.max_command_bytes = 32 << 20,
};

static const struct resp_limits stranger_limits = {
	.max_bulk_bytes = 16 << 10, .max_args = 10, .max_command_bytes = 64 << 10,
};

static void conn_free(struct conn *c)
{
	struct worker *w = c->worker;

	multi_forget(c);
	tenant_leave(c);
	tenant_count_stranger(c, false);
	resp_destroy(&c->parser);
	resp_out_free(&c->out);
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		w->conns = c->next;
	w->freed(w, c);
}

/* Replies leave in order: those that are done at the head of the queue go to the output. */
static void conn_flush(struct conn *c)
{
	while (c->first && c->first->done) {
		struct request *r = c->first;

		c->first = r->next;
		if (!c->first)
			c->last = NULL;
		resp_out_splice(&c->out, &r->out);
		c->nr_requests--;
		c->command_bytes -= r->held_bytes;
		c->reply_bytes -= r->reply_bytes;
		if (r->has_token)
			tenant_request_end(c->worker, r->tenant);
		request_free(r);
	}
}

/* A reply is complete: it, and those that waited for it, go to the output. */
static void conn_replied(struct conn *c)
{
	if (c->feeding)
		return;
	conn_flush(c);
	if (!c->dead)
		c->worker->ready(c->worker, c);
	else if (!c->nr_requests)
		conn_free(c);
}

void conn_init(struct conn *c, struct worker *w)
{
	*c = (struct conn){
		.worker = w, .id = w->next_conn++ * MAX_WORKERS + w->id, .since_ns = w->now_ns,
		.moved_ns = w->now_ns, .value_bytes = CONN_FIRST_VALUE_BYTES,
		.replied = conn_replied,
	};
	resp_init(&c->parser, &stranger_limits);
	tenant_enter(c, tenants_default(w->server->tenants));
	tenant_count_stranger(c, !c->tenant);
	c->next = w->conns;
	if (c->next)
		c->next->prev = c;
	w->conns = c;
	worker_count(w, COUNT_CONNECTIONS, 1);
}

void conn_kill(struct conn *c)
{
	c->dead = c->closing = true;
	if (!c->nr_requests && !c->feeding)
		conn_free(c);
}

bool conn_wants_input(const struct conn *c)
{
	uint64_t values_bytes = (uint64_t)c->nr_requests * c->value_bytes;

	/* Without memory, one command at a time goes on. */
	if (c->nr_requests && !mem_has_room())
		return false;
	return !c->closing && !c->parked && c->nr_requests < CONN_MAX_REQUESTS &&
	       c->out.nr_bytes + c->reply_bytes < CONN_MAX_OUTPUT_BYTES &&
	       c->command_bytes < CONN_MAX_COMMAND_BYTES && values_bytes < CONN_MAX_VALUES_BYTES &&
	       conn_may_fly(c) && !(c->last && request_is_sending(c->last));
}

bool conn_overdue(const struct conn *c, uint64_t now_ns)
{
	const struct config *config = &c->worker->server->config;
	bool stalled = c->out.nr_bytes || !resp_at_rest(&c->parser) || c->closing || !c->tenant;
	uint64_t limit_s = stalled ? config->stall_timeout_s :
			   config_number(&config->idle_timeout_s);

	if (c->is_stranger && !c->nr_requests &&
	    now_ns - c->stranger_since_ns > LOGIN_S * 1000000000ULL)
		return true;
	return limit_s && !c->nr_requests && now_ns - c->moved_ns > limit_s * 1000000000;
}

static struct request *conn_queue(struct conn *c)
{
	struct request *r = request_new(c);

	/* The token is the request's now. */
	r->has_token = c->has_token;
	c->has_token = false;
	if (c->last)
		c->last->next = r;
	else
		c->first = r;
	c->last = r;
	c->nr_requests++;
	return r;
}

static void unknown(struct request *r)
{
	char args[128] = "";
	size_t used = 0;

	for (uint32_t i = 1; i < req_nr(r) && used < sizeof(args) - 1; i++)
		used += snprintf(args + used, sizeof(args) - used, "'%.*s' ",
				 (int)(req_len(r, i) < 32 ? req_len(r, i) : 32), req_arg(r, i));
	request_fail(r, "ERR unknown command '%.*s', with args beginning with: %s",
		     (int)(req_len(r, 0) < 64 ? req_len(r, 0) : 64), req_arg(r, 0), args);
}

/* Another host may have changed what it asks for. */
static bool may_be_old(const struct request *r)
{
	const struct command *c = r->command_of;

	return (c->first_key || c->flags & CMD_ALL_KEYS) &&
	       !server_is_sure(r->conn->worker->server);
}

/* EXEC refuses all if one was wrong. */
static void spoil_multi(struct conn *c)
{
	if (multi_is_open(c))
		multi_spoil(c);
}

static void refuse_step(struct request *r)
{
	request_fail(r, "TRYAGAIN the slot moves, and this is too much for one step");
}

/* Looks the command up, checks it and starts it. */
static void request_run(struct request *r)
{
	const struct command *c =
		command_lookup(req_arg(r, 0), req_len(r, 0), &r->command_number);
	int nr = req_nr(r);
	bool is_good = c && (c->arity > 0 ? nr == c->arity : nr >= -c->arity);

	r->command_of = r->conn->last_command = c;
	r->asking = r->conn->asking || (c && c->flags & CMD_ASKING);
	r->conn->asking &= multi_is_open(r->conn);
	if (!is_good)
		spoil_multi(r->conn);
	if (!r->tenant && !(c && c->flags & CMD_NO_AUTH))
		request_fail(r, "NOAUTH Authentication required.");
	else if (!c)
		unknown(r);
	else if (!is_good)
		request_fail(r, "ERR wrong number of arguments for '%s' command", c->name);
	else if (!cluster_takes(r))
		spoil_multi(r->conn);
	else if (multi_is_open(r->conn) && !(c->flags & CMD_ENDS_MULTI))
		multi_keep(r);
	else if (may_be_old(r))
		request_refuse_old(r);
	else if (cluster_wants_step(r))
		multi_run(r, refuse_step);
	else
		request_start(r);
}

/* Its time begins when it is complete, or when it began to wait for its turn. */
static void request_begin(struct request *r)
{
	struct conn *c = r->conn;

	r->begun_ns = c->worker->now_ns;
	if (!c->parked_ns)
		return;
	metrics_stage(c->worker, r->tenant->id, STAGE_TOKEN, r->begun_ns - c->parked_ns);
	r->stage_us[STAGE_TOKEN] = (r->begun_ns - c->parked_ns) / 1000;
	r->begun_ns = c->parked_ns;
	c->parked_ns = 0;
}

static void conn_begin(struct conn *c)
{
	struct request *r = conn_queue(c);

	resp_take(&c->parser, &r->command);
	request_begin(r);
	worker_count(c->worker, COUNT_COMMANDS, 1);
	worker_count(c->worker, COUNT_NETWORK, 1);
	request_run(r);
	r->held_bytes = request_held_bytes(r);
	c->command_bytes += r->held_bytes;
	conn_flush(c);
}

/* Nothing that the client says from now on can be understood. */
static void fail_and_close(struct conn *c, const char *text)
{
	struct request *r = conn_queue(c);

	resp_error(&r->out, "%s", text);
	r->done = true;
	request_count(r);
	c->closing = true;
}

size_t conn_feed(struct conn *c, const char *data, size_t len)
{
	enum resp_verdict verdict;
	size_t used = 0;

	c->feeding = true;
	c->moved_ns = c->worker->now_ns;
	while (used < len && conn_wants_input(c)) {
		if (!tenant_request_begin(c))
			break;
		c->parser.limits = c->tenant ? &known_limits : &stranger_limits;
		used += resp_feed(&c->parser, data + used, len - used, &verdict);
		if (verdict == RESP_COMMAND) {
			conn_begin(c);
			continue;
		}
		if (verdict == RESP_BAD) {
			char text[80];

			snprintf(text, sizeof(text), "ERR %s", c->parser.error);
			fail_and_close(c, text);
		} else if (resp_held_bytes(&c->parser) > HUGE_COMMAND_BYTES && !mem_has_room()) {
			fail_and_close(c, "OOM no memory for so large a command: try again later");
		} else {
			tenant_request_none(c);
		}
	}
	c->feeding = false;
	conn_flush(c);
	worker_count(c->worker, COUNT_BYTES_IN, used);
	metrics_bytes(c->worker, c->tenant ? c->tenant->id : NO_TENANT, used, 0);
	return used;
}

void conn_sent(struct conn *c, size_t nr_bytes)
{
	resp_out_consume(&c->out, nr_bytes);
	worker_count(c->worker, COUNT_BYTES_OUT, nr_bytes);
	metrics_bytes(c->worker, c->tenant ? c->tenant->id : NO_TENANT, 0, nr_bytes);
	c->moved_ns = c->worker->now_ns;
}
