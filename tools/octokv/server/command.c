// SPDX-License-Identifier: GPL-2.0
/*
 * command.c - the life of a request: it sends operations to the owners of keys and gets replies
 *
 * Where things run. start() and finish() run at home, in the worker of the connection. An operation
 * is filled in at home, and travels to the owner of its partition (kv_op_run). From there on it
 * belongs to the store, until kv_op_stored() copies its result and sends it back. kv_op_home()
 * takes it in. At each moment one thread has it, and the mail orders their accesses.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "command.h"
#include "store/mem.h"
#include "cluster/way.h"
#include "mover.h"
#include "tenant.h"

enum { TAKEN_BYTES_MIN = 16 << 10 };	/* a value that is not copied for its reply */

static_assert((int)OKV_ROOM_BYTES >= (int)RESP_HEADROOM_BYTES, "the header of a reply fits there");

/* ---- commands ---- */

static const struct command *const tables[] = {
	key_commands, lock_commands, bit_commands, copy_commands, multi_commands, admin_commands,
	cluster_commands, migrate_commands, server_commands,
};
#define NR_TABLES (sizeof(tables) / sizeof(tables[0]))

const struct command *command_at(uint32_t number)
{
	for (size_t i = 0; i < NR_TABLES; i++)
		for (const struct command *c = tables[i]; c->name; c++)
			if (!number--)
				return c;
	return NULL;
}

const struct command *command_lookup(const char *name, size_t len, uint32_t *number)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < NR_TABLES; i++) {
		for (const struct command *c = tables[i]; c->name; c++, nr++) {
			if (strlen(c->name) == len && !strncasecmp(c->name, name, len)) {
				*number = nr;
				return c;
			}
		}
	}
	return NULL;
}

const struct command *command_find(const char *name, size_t len)
{
	uint32_t number;

	return command_lookup(name, len, &number);
}

/* ---- clients ---- */

void conn_address(const struct conn *c, char *text, size_t bytes)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_v4 = !memcmp(c->address, mapped, sizeof(mapped));
	char address[INET6_ADDRSTRLEN] = "?";

	inet_ntop(is_v4 ? AF_INET : AF_INET6, c->address + (is_v4 ? sizeof(mapped) : 0), address,
		  sizeof(address));
	if (!c->peer_port)
		snprintf(text, bytes, "unix:0");
	else
		snprintf(text, bytes, is_v4 ? "%s:%u" : "[%s]:%u", address, c->peer_port);
}

bool conn_keep_name(char *to, const char *name, size_t len)
{
	if (len >= CONN_NAME_BYTES)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] < '!' || name[i] > '~')
			return false;
	memcpy(to, name, len);
	to[len] = 0;
	return true;
}

/* ---- requests ---- */

struct request *request_new(struct conn *c)
{
	struct request *r = mem_alloc(sizeof(*r));

	/* All but the room for one operation, which request_ops() clears if it is used. */
	memset(r, 0, offsetof(struct request, one));
	r->conn = c;
	r->tenant = c->tenant;
	r->out.resp3 = c->out.resp3;
	r->slot = -1;
	return r;
}

void request_free(struct request *r)
{
	for (uint32_t i = 0; r->ops && i < r->nr_ops; i++) {
		resp_chunk_free(r->ops[i].value);
		mem_free(r->ops[i].fresh);
	}
	if (r->ops != &r->one)
		mem_free(r->ops);
	for (uint32_t i = 0; r->jobs && i < r->nr_ops; i++)
		resp_out_free(&r->jobs[i].out);
	mem_free(r->jobs);
	mem_free(r->auth);
	if (r->end)
		r->end(r);
	resp_command_free(&r->command);
	resp_out_free(&r->out);
	mem_free(r);
}

void request_stages(struct request *r, uint64_t queued_ns, const struct okv_stages *stages,
		    uint64_t returned_ns)
{
	const uint64_t *ns = stages->ns;

	r->stage_us[STAGE_QUEUE] = queued_ns / 1000;
	r->stage_us[STAGE_LOCK] = ns[OKV_STAGE_LOCK] / 1000;
	r->stage_us[STAGE_READ] = ns[OKV_STAGE_READ] / 1000;
	r->stage_us[STAGE_LOG] = ns[OKV_STAGE_LOG] / 1000;
	r->stage_us[STAGE_RETURN] = passed_ns(returned_ns, r->conn->worker->now_ns) / 1000;
}

/* The operation that came back last is the one that the reply has waited for. */
static void note_stages(struct request *r)
{
	const struct kv_op *last = r->ops;

	for (uint32_t i = 1; i < r->nr_next; i++)
		if (r->ops[i].returned_ns > last->returned_ns)
			last = &r->ops[i];
	request_stages(r, last->queued_ns, &last->op.stages, last->returned_ns);
}

static void note_slow(struct request *r, uint64_t us)
{
	const struct conn *c = r->conn;
	char address[CONN_ADDRESS_BYTES];

	if (!r->tenant || r->command_of->flags & (CMD_NO_AUTH | CMD_HAS_SECRET) ||
	    !slowlog_wants(&c->worker->server->config, us) || !mem_has_room())
		return;
	if (r->ops && r->nr_next)
		note_stages(r);
	conn_address(c, address, sizeof(address));
	slowlog_add(c->worker, &(struct slow_command){
		.tenant = r->tenant->id, .us = us, .command = &r->command,
		.stage_us = r->stage_us, .address = address, .name = c->name,
	});
}

void request_count(struct request *r)
{
	const struct resp_chunk *reply = r->out.head;
	struct worker *w = r->conn->worker;
	uint32_t tenant = r->tenant ? r->tenant->id : NO_TENANT;
	uint64_t ns = passed_ns(r->begun_ns, w->now_ns);
	enum outcome outcome = r->is_started ? OUTCOME_GOOD : OUTCOME_REJECTED;

	if (reply && reply->data[reply->start] == '-') {
		metrics_error(w, tenant, reply->data + reply->start + 1, resp_chunk_len(reply) - 1);
		outcome = r->is_started ? OUTCOME_FAILED : OUTCOME_REJECTED;
	}
	if (!r->command_of)
		return;
	metrics_command(w, tenant, r->command_number, outcome, ns);
	/* EXEC is slow, not each of its commands. */
	if (r->is_started && !r->is_kept)
		note_slow(r, ns / 1000);
}

void request_done(struct request *r)
{
	r->done = true;
	/* Those of a transaction are counted with it. */
	if (!r->is_kept)
		request_count(r);
	r->conn->replied(r->conn);
}

void request_fail(struct request *r, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	resp_error(&r->out, "%s", text);
	worker_count(r->conn->worker, COUNT_ERRORS, 1);
	request_done(r);
}

void request_refuse_old(struct request *r)
{
	request_fail(r, "%s", r->conn->worker->server->cluster ? CLUSTER_CUT_OFF : REQUEST_CUT_OFF);
}

bool request_status(struct request *r, const struct kv_op *op)
{
	static const char *const texts[] = {
		[OKV_FULL] = "FULL no room on the device: delete something, or wait for the "
			     "garbage collection",
		[OKV_NO_MEMORY] = "OOM no memory for another key: delete some, or give octokvd "
				  "more (--memory)",
		[OKV_CORRUPT] = "CORRUPT what the device returned is not what was written",
		[OKV_IO_ERROR] = "IOERR the device failed; whether a write happened is not known",
		[OKV_TOO_LARGE] = "ERR key or value is too large: 1 to 1024 bytes of key, 8388608 "
				  "of value",
	};
	enum okv_status status = op->op.status;
	/* What an update refused has not been decided if the write that it joined has failed. */
	bool has_failed = status == OKV_FULL || status == OKV_NO_MEMORY || status == OKV_IO_ERROR;
	const char *text = has_failed ? NULL : op->complaint;

	if (op->no_new_key && status == OKV_NOT_FOUND)
		text = "QUOTA this user has no more keys: delete something";
	if (!text && status < sizeof(texts) / sizeof(texts[0]))
		text = texts[status];
	if (!text)
		return false;
	resp_error(&r->out, "%s", text);
	worker_count(r->conn->worker, COUNT_ERRORS, 1);
	return true;
}

void request_reply_text(struct request *r, struct resp_out *text)
{
	char *whole = mem_alloc(text->nr_bytes);
	size_t len = 0;

	for (const struct resp_chunk *chunk = text->head; chunk; chunk = chunk->next) {
		memcpy(whole + len, chunk->data + chunk->start, resp_chunk_len(chunk));
		len += resp_chunk_len(chunk);
	}
	resp_text(&r->out, whole, len);
	mem_free(whole);
	resp_out_free(text);
}

/* ---- in a cluster: the slot of a key may be on its way to another node (cluster/way.h) ---- */

#define IN_DOUBT "TRYAGAIN the slot of this key moves, and the other node may have an older copy " \
		 "of it: it cannot be removed before that has ended"

#define TOO_LATE "ERR this MIGRATE is too late: the slot does not come from there now, or a " \
		 "later one has come before"

static enum okv_status keep_key(struct okv_op *op)
{
	((struct kv_op *)op->owner)->complaint = IN_DOUBT;
	return OKV_ABORTED;
}

static enum okv_status update_no_sooner(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	uint64_t old_ms = op->expire_ms;
	enum okv_status status = kv->update(op);

	if (status == OKV_OK && op->expire_ms && (!old_ms || op->expire_ms < old_ms))
		return keep_key(op);
	return status;
}

/* False: it may remove a key, and is over. */
static bool keep_doubtful(struct kv_op *kv)
{
	struct okv_op *op = &kv->op;

	switch (op->kind) {
	case OKV_OP_DELETE:
		op->flags |= OKV_WANT_OLD;
		op->update = keep_key;
		return true;
	case OKV_OP_UPDATE:
		kv->update = op->update;
		op->update = update_no_sooner;
		return true;
	case OKV_OP_TOUCH:
		if (op->update) {
			kv->update = op->update;
			op->update = update_no_sooner;
			return true;
		}
		/* fall through */
	case OKV_OP_PUT:
		if (!op->expire_ms || op->flags & OKV_KEEP_TTL)
			return true;
		op->status = keep_key(op);
		return false;
	default:
		return true;
	}
}

/* At the owner: whether a key that another node sends may go to the store. If not, it is over. */
static bool takes_shipped(struct worker *w, struct kv_op *kv)
{
	const struct request *r = kv->request;

	if (!way_takes_shipment(w->server, r->slot, req_arg(r, r->source), r->shipment)) {
		kv->complaint = TOO_LATE;
		kv->op.status = OKV_ABORTED;
		return false;
	}
	/*
	 * A client may have been sent here since it expired, and have written the key: nothing is
	 * done, and the answer is OK.
	 */
	return !kv->op.expire_ms || kv->op.expire_ms > w->now_ms;
}

/* The same for any operation. */
static bool takes_op(struct worker *w, struct kv_op *kv)
{
	const struct request *r = kv->request;

	if (r->source && !takes_shipped(w, kv))
		return false;
	switch (way_of(w->server, r->slot, r->asking)) {
	case WAY_NONE:
		return true;
	case WAY_LEAVES:
		kv->may_be_away = true;
		if (kv->op.kind == OKV_OP_PUT || kv->op.kind == OKV_OP_UPDATE)
			kv->op.flags |= OKV_IF_PRESENT;
		return !way_is_in_doubt(w->server, r->slot) || keep_doubtful(kv);
	case WAY_COMES:
		kv->may_be_away = r->nr_slot_keys > 1;
		return true;
	case WAY_ELSEWHERE:
		break;
	}
	kv->may_be_away = true;
	kv->op.status = OKV_NOT_FOUND;
	return false;
}

/* At home: true, with an error, if some keys of its operations may be at another node. */
static bool is_redirected(const struct request *r, char *text, size_t bytes)
{
	uint32_t nr_away = 0;

	for (uint32_t i = 0; i < r->nr_next; i++)
		nr_away += r->ops[i].may_be_away && r->ops[i].op.status == OKV_NOT_FOUND;
	if (!nr_away)
		return false;
	way_redirect(r->conn->worker->server, r->slot, r->asking, nr_away == r->nr_slot_keys, text,
		     bytes);
	return true;
}

/* ---- operations ---- */

void request_ops(struct request *r, uint32_t nr)
{
	r->ops = nr == 1 ? memset(&r->one, 0, sizeof(r->one)) : mem_zalloc(nr * sizeof(*r->ops));
	r->nr_ops = nr;
}

/* What the operation gives, for a reply. A short value is copied: it has up to 12 KiB around it. */
static struct resp_chunk *take_value(struct okv_op *op)
{
	char *value = (char *)op->out;
	void *memory = op->out_len >= TAKEN_BYTES_MIN ? okv_op_take(op) : NULL;
	struct resp_chunk *chunk;

	if (memory)
		return resp_value_take(memory, value, op->out_len);
	chunk = resp_value_alloc(op->out_len);
	memcpy(resp_chunk_value(chunk), value, op->out_len);
	return chunk;
}

/* At the owner: the store has completed the operation. */
static void kv_op_stored(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	struct worker *w = kv->request->conn->worker->server->workers[kv->msg.target];

	metrics_store_stages(w, op->tenant, &op->stages);
	fair_ended(w, &kv->pass, kv->request->tenant, &op->stages, kv_op_bytes(op),
		   passed_ns(kv->sent_ns, w->now_ns));
	kv->returned_ns = w->now_ns;
	if (kv->want_value && op->out) {
		kv->value = take_value(op);
		kv->held_bytes = op->out_len;
	} else if (op->kind == OKV_OP_UPDATE || op->kind == OKV_OP_TOUCH) {
		kv->held_bytes = kv_op_bytes(op);
	}
	okv_op_release(op);
	if (w->server->cluster)
		way_end(w, kv->turn);
	mem_free(kv->fresh);
	kv->fresh = NULL;
	if (op->kind != OKV_OP_GET && op->kind != OKV_OP_STAT)
		tenant_publish(w, kv->request->tenant);
	worker_return(w, &kv->msg);
}

struct okv_partition *request_partition(struct worker *w, uint32_t partition)
{
	struct okv_partition *p = okv_store_partition(w->store, partition);

	if (p)
		okv_partition_set_clock(p, w->now_ms);
	return p;
}

static void kv_op_run(struct worker *w, struct kv_msg *msg)
{
	struct kv_op *kv = (struct kv_op *)msg;
	uint64_t put_bytes = kv->op.kind == OKV_OP_PUT ? kv->op.value_len : 0;
	struct okv_partition *p;

	if (!fair_admits(w, msg, &kv->pass, kv->request->tenant, kv->partition, 1, put_bytes))
		return;
	p = request_partition(w, kv->partition);
	if (w->locked && kv->request->slot >= 0 && way_waits(w, msg, kv->op.hash))
		return;
	if (w->server->cluster)
		kv->turn = way_begin(w);
	worker_count(w, COUNT_STORE, 1);
	kv->queued_ns = passed_ns(kv->sent_ns, w->now_ns);
	if (kv->queued_ns || msg->home != w->id)
		metrics_stage(w, kv->op.tenant, STAGE_QUEUE, kv->queued_ns);
	if (!p) {
		kv->op.status = OKV_CORRUPT;
		kv->complaint = REQUEST_LEFT_OUT;
		kv_op_stored(&kv->op);
		return;
	}
	if (w->events)
		w->events[kv->partition][kv->op.tenant]++;
	if (w->server->cluster && !takes_op(w, kv))
		kv_op_stored(&kv->op);
	else
		okv_partition_submit(p, &kv->op);
}

/* All of its operations, or jobs, are done. */
static void end_round(struct request *r)
{
	if (r->step) {
		r->step(r);
		return;
	}
	r->command_of->finish(r);
	request_done(r);
}

static void submit_more(struct request *r);

static void kv_op_home(struct worker *w, struct kv_msg *msg)
{
	struct kv_op *kv = (struct kv_op *)msg;
	struct request *r = kv->request, *last = r->conn->last;
	uint32_t len = kv->value ? resp_chunk_len(kv->value) : 0;
	bool submitting = r->submitting;

	if (msg->target != w->id)
		metrics_stage(w, r->tenant->id, STAGE_RETURN,
			      passed_ns(kv->returned_ns, w->now_ns));
	if (kv->holds_bytes || kv->holds_key)
		tenant_let_go(r->tenant, kv->holds_bytes, kv->holds_key);
	r->nr_flying--;
	r->reply_bytes += len;
	conn_landed(r->conn, kv->held_bytes, len);
	/*
	 * The last request may have waited for this operation. What it sends now may at once
	 * complete the rest of our request: that must not end us before we are back.
	 */
	r->submitting = true;
	if (last != r && request_is_sending(last) && !last->jobs && !last->auth && !last->txn)
		submit_more(last);
	r->submitting = submitting;
	submit_more(r);
}

static void submit_more(struct request *r)
{
	struct conn *c = r->conn;
	char away[128];

	if (r->submitting)
		return;
	r->submitting = true;
	while (r->nr_next < r->nr_ops && r->nr_flying < REQUEST_MAX_FLYING &&
	       r->reply_bytes < REQUEST_MAX_REPLY_BYTES && conn_may_fly(c)) {
		struct kv_op *kv = &r->ops[r->nr_next++];

		r->nr_flying++;
		c->nr_flying++;
		kv->sent_ns = c->worker->now_ns;
		mover_send(c->worker, &kv->msg, kv->partition);
	}
	r->submitting = false;
	if (r->nr_flying) {
		if (r->nr_next == r->nr_ops)
			conn_may_want_input(c);
		return;
	}
	if (r->nr_next < r->nr_ops) {
		/*
		 * Otherwise other operations of the connection come first: kv_op_home() of one of
		 * them calls this again.
		 */
		if (r->reply_bytes >= REQUEST_MAX_REPLY_BYTES)
			request_fail(r, "ERR the reply would be longer than %d bytes: ask for "
				     "fewer keys", REQUEST_MAX_REPLY_BYTES);
		return;
	}
	if (r->slot >= 0 && is_redirected(r, away, sizeof(away))) {
		request_fail(r, "%s", away);
		return;
	}
	end_round(r);
}

struct kv_op *request_key(struct request *r, uint32_t i, uint32_t arg, enum okv_op_kind kind)
{
	struct worker *w = r->conn->worker;
	struct kv_op *kv = &r->ops[i];
	struct okv_op *op = &kv->op;

	kv->msg.run = kv_op_run;
	kv->msg.done = kv_op_home;
	kv->request = r;
	op->kind = kind;
	op->tenant = r->tenant->id;
	op->ioprio = r->tenant->ioprio;
	op->compresses = tenant_compresses(w, r->tenant);
	op->key = req_arg(r, arg);
	op->key_len = req_len(r, arg) <= MAX_KEY_BYTES ? req_len(r, arg) : 0;
	if (r->slot < 0)
		op->hash = okv_store_hash(w->store, op->tenant, op->key, op->key_len);
	else
		op->hash = okv_store_hash_in(w->store, op->tenant, op->key, op->key_len, r->slot);
	op->done = kv_op_stored;
	op->owner = kv;
	kv->partition = okv_store_partition_of(w->store, op->hash);
	return kv;
}

#define NO_BYTES "QUOTA this user has no more bytes: delete something"

/* How many bytes the operation may add to those of the tenant. */
static uint64_t bytes_of(const struct kv_op *kv)
{
	uint64_t bytes = kv->op.kind == OKV_OP_UPDATE ? kv->adds_bytes : 0;

	if (kv->op.kind == OKV_OP_PUT)
		return kv->op.key_len + kv->op.value_len;
	return bytes ? kv->op.key_len + bytes : 0;
}

/* Without room for another key, a write may still replace a value. */
static void hold_key(struct request *r, struct kv_op *kv)
{
	if ((kv->op.kind != OKV_OP_PUT && kv->op.kind != OKV_OP_UPDATE) ||
	    kv->op.flags & OKV_IF_PRESENT)
		return;
	kv->holds_key = tenant_hold_key(r->tenant, r->conn->worker->server->nr_workers);
	if (kv->holds_key)
		return;
	if (kv->op.kind == OKV_OP_PUT)
		kv->op.flags |= OKV_IF_PRESENT;
	kv->no_new_key = true;
}

/*
 * Checks the request's writes against the tenant's bounds; false: the request was refused. What
 * they may add is set aside until it is counted, or turns out not to be needed. Deletes always
 * pass: they make room.
 */
static bool within_bounds(struct request *r)
{
	uint64_t nr_bytes = 0;

	if (!(r->command_of->flags & CMD_WRITE) || !(r->tenant->max_bytes || r->tenant->max_keys))
		return true;
	for (uint32_t i = 0; i < r->nr_ops; i++) {
		r->ops[i].holds_bytes = bytes_of(&r->ops[i]);
		nr_bytes += r->ops[i].holds_bytes;
	}
	if (!tenant_hold_bytes(r->tenant, r->conn->worker->server->nr_workers, nr_bytes)) {
		for (uint32_t i = 0; i < r->nr_ops; i++)
			r->ops[i].holds_bytes = 0;
		request_fail(r, NO_BYTES);
		return false;
	}
	for (uint32_t i = 0; i < r->nr_ops && r->tenant->max_keys; i++)
		hold_key(r, &r->ops[i]);
	return true;
}

bool request_hold_value(struct kv_op *kv, uint32_t len)
{
	struct request *r = kv->request;

	if (!r->tenant->max_bytes)
		return true;
	if (!tenant_hold_bytes(r->tenant, r->conn->worker->server->nr_workers, len)) {
		kv->complaint = NO_BYTES;
		return false;
	}
	kv->holds_bytes += len;
	return true;
}

void request_submit(struct request *r)
{
	struct tenant_usage *usage = &r->tenant->usage[r->conn->worker->id];

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		if (!r->ops[i].op.key_len) {
			request_fail(r, "ERR a key has 1 to %d bytes", MAX_KEY_BYTES);
			return;
		}
	}
	if (!mem_has_room() && r->ops->op.kind != OKV_OP_DELETE && r->ops->op.kind != OKV_OP_STAT) {
		request_fail(r, "OOM no memory for this request: try again later");
		return;
	}
	if (!within_bounds(r) || r->is_kept)
		return;
	__atomic_store_n(&usage->nr_requests, usage->nr_requests + 1, __ATOMIC_RELAXED);
	submit_more(r);
}

/* ---- jobs ---- */

static void job_home(struct worker *w, struct kv_msg *msg)
{
	struct request *r = ((struct job *)msg)->request;

	(void)w;
	if (!--r->nr_flying)
		end_round(r);
}

bool job_walk_admits(struct worker *w, struct job *job)
{
	return fair_admits(w, &job->msg, &job->pass, job->request->tenant, job->partition, 1, 0);
}

struct okv_partition *job_walk_begin(struct worker *w, struct job *job)
{
	w->routes[job->partition].nr_jobs++;
	return request_partition(w, job->partition);
}

/* At the owner, which it returns. */
static struct worker *end_step(struct job *job)
{
	struct worker *w = job->request->conn->worker->server->workers[job->msg.target];

	fair_has_more(w, job->request->tenant, job->nr_found);
	job->nr_found = 0;
	job->pass = (struct fair_pass){ 0 };
	return w;
}

void job_walk_later(struct job *job, void (*run)(struct worker *w, struct kv_msg *msg))
{
	struct worker *w = end_step(job);

	/* By mail to ourselves. */
	job->msg.run = run;
	w->post(w, &job->msg, w->id);
}

static void scan_run(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	struct okv_partition *p;

	if (!job_walk_admits(w, job))
		return;
	p = job_walk_begin(w, job);
	if (p) {
		okv_partition_scan(p, &job->scan);
		return;
	}
	job->scan.cursor = 0;
	job->scan.status = OKV_CORRUPT;
	job->scan.done(&job->scan);
}

void request_jobs(struct request *r, uint32_t nr)
{
	r->jobs = mem_zalloc(nr * sizeof(*r->jobs));
	r->nr_ops = nr;
	r->nr_flying = nr;
}

void request_send_job(struct request *r, uint32_t i, uint32_t worker,
		      void (*run)(struct worker *w, struct kv_msg *msg))
{
	struct job *job = &r->jobs[i];

	job->request = r;
	job->msg.run = run;
	job->msg.done = job_home;
	worker_send(r->conn->worker, &job->msg, worker);
}

void request_to_all_workers(struct request *r, void (*run)(struct worker *w, struct kv_msg *msg))
{
	uint32_t nr = r->conn->worker->server->nr_workers;

	request_jobs(r, nr);
	for (uint32_t i = 1; i <= nr; i++)
		request_send_job(r, (r->conn->worker->id + i) % nr,
				 (r->conn->worker->id + i) % nr, run);
}

void request_send_walk(struct request *r, uint32_t i,
		       void (*run)(struct worker *w, struct kv_msg *msg))
{
	struct job *job = &r->jobs[i];

	job->request = r;
	job->msg.run = run;
	job->msg.done = job_home;
	mover_send(r->conn->worker, &job->msg, job->partition);
}

void request_send_scan(struct request *r, uint32_t i)
{
	request_send_walk(r, i, scan_run);
}

void job_scan_done(struct job *job)
{
	struct worker *w = end_step(job);

	w->routes[job->partition].nr_jobs--;
	worker_return(w, &job->msg);
}

/* ---- patterns ---- */

/* A set in brackets; leaves *pattern at its closing bracket or at the end. */
static bool glob_set(const char **pattern, const char *end, char c)
{
	const char *p = *pattern + 1;
	bool negated = p < end && *p == '^', found = false;

	p += negated;
	for (; p < end && *p != ']'; p++) {
		if (*p == '\\' && p + 1 < end) {
			p++;
			found |= *p == c;
		} else if (p + 2 < end && p[1] == '-') {
			found |= (p[0] <= c && c <= p[2]) || (p[2] <= c && c <= p[0]);
			p += 2;
		} else {
			found |= *p == c;
		}
	}
	*pattern = p;
	return found != negated;
}

/*
 * One pass over both, with a single place to come back to: a pattern of many stars costs length
 * times length at most.
 */
bool glob_match(const char *pattern, size_t pattern_len, const char *text, size_t len)
{
	const char *p = pattern, *p_end = pattern + pattern_len, *t = text, *t_end = text + len;
	const char *star = NULL, *star_text = NULL;

	while (t < t_end || p < p_end) {
		const char *next = p;
		bool good = false;

		if (p < p_end && *p == '*') {
			star = p++;
			star_text = t;
			continue;
		}
		if (p < p_end && t < t_end) {
			if (*p == '\\' && p + 1 < p_end)
				good = *++next == *t;
			else if (*p == '[')
				good = glob_set(&next, p_end, *t);
			else
				good = *p == '?' || *p == *t;
		}
		if (good) {
			p = next < p_end ? next + 1 : p_end;
			t++;
		} else if (star && star_text < t_end) {
			p = star + 1;
			t = ++star_text;
		} else {
			return false;
		}
	}
	return true;
}
