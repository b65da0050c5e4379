// SPDX-License-Identifier: GPL-2.0
/*
 * command.c - the life of a request: it sends operations to the owners of keys and gets replies
 *
 * Where things run. start() and finish() run at home, in the worker of the connection. An operation
 * is filled in at home, and travels to the owner of its partition (kv_op_run). From there on it
 * belongs to the store, until kv_op_stored() copies its result and sends it back. kv_op_home()
 * takes it in. At each moment one thread has it, and the mail orders their accesses.
 */
#include <stdarg.h>
#include <stdio.h>

#include "command.h"
#include "store/mem.h"
#include "mover.h"
#include "tenant.h"

/* ---- requests ---- */

struct request *request_new(struct conn *c)
{
	struct request *r = mem_alloc(sizeof(*r));

	/* All but the room for one operation, which request_ops() clears if it is used. */
	memset(r, 0, offsetof(struct request, one));
	r->conn = c;
	r->tenant = c->tenant;
	r->out.resp3 = c->out.resp3;
	return r;
}

void request_free(struct request *r)
{
	for (uint32_t i = 0; r->ops && i < r->nr_ops; i++) {
		mem_free(r->ops[i].value);
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

void request_done(struct request *r)
{
	r->done = true;
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
	const char *text = op->complaint;

	if (op->no_new_key && op->op.status == OKV_NOT_FOUND)
		text = "QUOTA this user has no more keys: delete something";
	if (!text && op->op.status < sizeof(texts) / sizeof(texts[0]))
		text = texts[op->op.status];
	if (!text)
		return false;
	resp_error(&r->out, "%s", text);
	worker_count(r->conn->worker, COUNT_ERRORS, 1);
	return true;
}

/* ---- operations ---- */

void request_ops(struct request *r, uint32_t nr)
{
	r->ops = nr == 1 ? memset(&r->one, 0, sizeof(r->one)) : mem_zalloc(nr * sizeof(*r->ops));
	r->nr_ops = nr;
}

/* At the owner: the store has completed the operation. */
static void kv_op_stored(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	struct worker *w = kv->request->conn->worker->server->workers[kv->msg.target];

	if (kv->want_value && op->out) {
		kv->value = resp_value_alloc(op->out_len);
		memcpy(resp_chunk_value(kv->value), op->out, op->out_len);
		kv->held_bytes = op->out_len;
	} else if (op->kind == OKV_OP_UPDATE || op->kind == OKV_OP_TOUCH) {
		kv->held_bytes = op->out_len > op->value_len ? op->out_len : op->value_len;
	}
	okv_op_release(op);
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
	struct okv_partition *p = request_partition(w, kv->partition);

	worker_count(w, COUNT_STORE, 1);
	if (!p) {
		kv->op.status = OKV_CORRUPT;
		kv->complaint = REQUEST_LEFT_OUT;
		kv_op_stored(&kv->op);
		return;
	}
	if (w->events)
		w->events[kv->partition][kv->op.tenant]++;
	okv_partition_submit(p, &kv->op);
}

static void submit_more(struct request *r);

static void kv_op_home(struct worker *w, struct kv_msg *msg)
{
	struct kv_op *kv = (struct kv_op *)msg;
	struct request *r = kv->request, *last = r->conn->last;
	uint32_t len = kv->value ? resp_chunk_len(kv->value) : 0;
	bool submitting = r->submitting;

	(void)w;
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

	if (r->submitting)
		return;
	r->submitting = true;
	while (r->nr_next < r->nr_ops && r->nr_flying < REQUEST_MAX_FLYING &&
	       r->reply_bytes < REQUEST_MAX_REPLY_BYTES && conn_may_fly(c)) {
		struct kv_op *kv = &r->ops[r->nr_next++];

		r->nr_flying++;
		c->nr_flying++;
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
	if (r->step) {
		r->step(r);
		return;
	}
	r->command_of->finish(r);
	request_done(r);
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
	op->key = req_arg(r, arg);
	op->key_len = req_len(r, arg) <= MAX_KEY_BYTES ? req_len(r, arg) : 0;
	op->hash = okv_store_hash(w->store, op->tenant, op->key, op->key_len);
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
	if (--r->nr_flying)
		return;
	r->command_of->finish(r);
	request_done(r);
}

static void scan_run(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	struct okv_partition *p = request_partition(w, job->partition);

	w->routes[job->partition].nr_jobs++;
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

void request_send_scan(struct request *r, uint32_t i)
{
	struct job *job = &r->jobs[i];

	job->request = r;
	job->msg.run = scan_run;
	job->msg.done = job_home;
	mover_send(r->conn->worker, &job->msg, job->partition);
}

void job_scan_done(struct job *job)
{
	struct worker *w = job->request->conn->worker->server->workers[job->msg.target];

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
