// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_copy.c - COPY, RENAME, RENAMENX, MSETNX, and values on their way out and in: DUMP, RESTORE
 *
 * A command with several keys is a transaction of its own (multi.h) if all its keys are in one
 * partition: it happens in one step, on the device, too. Its operations run one after the other.
 * The callbacks below look at the results of those before.
 *
 * MSETNX with keys of several partitions is refused as a whole. COPY and RENAME are done in steps
 * then, and also where one step would write too much (OKV_TOO_LARGE) or has no room (OKV_FULL). No
 * step can lose a value:
 *
 *	read the source -> write the target, durably -> RENAME: delete the source if it is what was
 *	read, else begin again
 *
 * So after a loss of power both keys may be there. If another client writes the source in between,
 * the target gets that value, too. A source that changes all the time, and one that changes during
 * RENAMENX, which must not write the target again, is answered TRYAGAIN: both keys are there then.
 *
 * One such RENAME goes on at a time in the process, in the order in which they came. So the second
 * of two with the same source does not find it, and RENAMEs of a to b and of b to a leave one of
 * the keys. Other commands do not wait for them: a source that one of these takes away between its
 * read and its removal is answered TRYAGAIN, too.
 */
#include <signal.h>
#include <unistd.h>

#include "cluster/map.h"
#include "command.h"
#include "multi.h"
#include "rdb/rdb.h"
#include "store/mem.h"
#include "tenant.h"

enum { ARG_SOURCE = 1, ARG_TARGET = 2, MAX_TRIES = 16 };

enum { KEEPS_TARGET = 1 };	/* kv.how: if there is one */

#define SYNTAX "ERR syntax error"
#define NOT_INT "ERR value is not an integer or out of range"
#define NO_SOURCE "ERR no such key"

/* In finish(): the request is done after it. */
static void reply_error(struct request *r, const char *text)
{
	resp_error(&r->out, "%s", text);
	worker_count(r->conn->worker, COUNT_ERRORS, 1);
}

static bool is_copy(const struct request *r)
{
	return !(r->command_of->flags & CMD_REMOVES_SOURCE);
}

static bool keeps_target(const struct request *r)
{
	if (!is_copy(r))
		return r->command_of->flags & CMD_KEEPS_TARGET;
	for (uint32_t i = ARG_TARGET + 1; i < req_nr(r); i++)
		if (req_is(r, i, "replace"))
			return false;
	return true;
}

static void reply_copied(struct request *r, bool copied)
{
	if (is_copy(r) || keeps_target(r))
		resp_int(&r->out, copied);
	else
		resp_simple(&r->out, "OK");
}

/* ---- in one step: the callbacks run at the owner, one after the other ---- */

enum { OP_READ, OP_WRITE, OP_REMOVE };

static enum okv_status take_source(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	const struct okv_op *from = &kv->request->ops[OP_READ].op;

	if (!from->found)
		return OKV_ABORTED;
	if (kv->how & KEEPS_TARGET && op->found)
		return OKV_EXISTS;
	if (!request_hold_value(kv, from->out_len))
		return OKV_ABORTED;
	op->value = from->out;
	op->value_len = from->out_len;
	op->expire_ms = from->out_expire_ms;
	return OKV_OK;
}

static enum okv_status remove_source(struct okv_op *op)
{
	const struct request *r = ((const struct kv_op *)op->owner)->request;

	return r->ops[OP_WRITE].op.status == OKV_OK ? OKV_OK : OKV_ABORTED;
}

static void copy_in_one_step(struct request *r)
{
	request_ops(r, is_copy(r) ? 2 : 3);
	request_key(r, OP_READ, ARG_SOURCE, OKV_OP_GET);
	request_key(r, OP_WRITE, ARG_TARGET, OKV_OP_PUT)->op.update = take_source;
	r->ops[OP_WRITE].how = keeps_target(r) ? KEEPS_TARGET : 0;
	if (!is_copy(r)) {
		request_key(r, OP_REMOVE, ARG_SOURCE, OKV_OP_DELETE)->op.update = remove_source;
		r->ops[OP_REMOVE].op.flags = OKV_WANT_OLD;
	}
	request_submit(r);
}

static void finish_copy(struct request *r)
{
	if (request_status(r, &r->ops[OP_READ]))
		return;
	if (!r->ops[OP_READ].op.found && !is_copy(r))
		reply_error(r, NO_SOURCE);
	else if (!r->ops[OP_READ].op.found || r->nr_ops == 1)
		reply_copied(r, false);
	else if (!request_status(r, &r->ops[OP_WRITE]))
		reply_copied(r, r->ops[OP_WRITE].op.status == OKV_OK);
}

/* ---- over several partitions ---- */

/* Of a RENAME. Worker 0 has the queue of all, whose first one goes on. */
struct turn {
	struct kv_msg msg;
	struct turn *next;
	struct request *request;
	bool has_come;
};

struct crossing {
	struct turn *turn;
	struct resp_chunk *value;	/* of the source */
	uint32_t len;
	uint64_t sum, expire_ms;
	uint32_t nr_tries;
};

/* At worker 0. It may be over at once, and the next one begin, before worker_return() is back. */
static void pass_on(struct worker *w)
{
	struct server *s = w->server;

	if (s->turn_is_passed)
		return;
	s->turn_is_passed = true;
	while (s->turns && !s->turns->has_come) {
		s->turns->has_come = true;
		worker_return(w, &s->turns->msg);
	}
	s->turn_is_passed = false;
}

static void queue_turn(struct worker *w, struct kv_msg *msg)
{
	struct server *s = w->server;
	struct turn *turn = (struct turn *)msg;

	if (s->turns)
		s->last_turn->next = turn;
	else
		s->turns = turn;
	s->last_turn = turn;
	pass_on(w);
}

static void end_turn(struct worker *w, struct kv_msg *msg)
{
	w->server->turns = ((struct turn *)msg)->next;
	worker_return(w, msg);
	pass_on(w);
}

static void turn_ended(struct worker *home, struct kv_msg *msg)
{
	home->nr_ending_turns--;
	mem_free(msg);
}

static void end_crossing(struct request *r)
{
	struct worker *w = r->conn->worker;
	struct turn *turn = r->crossing->turn;

	if (turn) {
		turn->msg.run = end_turn;
		turn->msg.done = turn_ended;
		w->nr_ending_turns++;
		worker_send(w, &turn->msg, 0);
	}
	resp_chunk_free(r->crossing->value);
	mem_free(r->crossing);
}

static struct kv_op *next_step(struct request *r, uint32_t arg, enum okv_op_kind kind,
			       void (*step)(struct request *r))
{
	r->step = step;
	r->nr_next = 0;
	request_ops(r, 1);
	return request_key(r, 0, arg, kind);
}

static bool has_failed(struct request *r)
{
	if (!request_status(r, r->ops))
		return false;
	request_done(r);
	return true;
}

static void end_copy(struct request *r, bool copied)
{
	reply_copied(r, copied);
	request_done(r);
}

static void read_source(struct request *r);

static bool has_expired(const struct request *r)
{
	uint64_t expire_ms = r->crossing->expire_ms;

	return expire_ms && expire_ms <= r->conn->worker->now_ms;
}

static void removed(struct request *r)
{
	if (has_failed(r))
		return;
	if (r->ops->op.status == OKV_NOT_FOUND && !has_expired(r))
		request_fail(r, "TRYAGAIN the key went while it was renamed: the new one is there");
	else if (r->ops->op.status != OKV_ABORTED)
		end_copy(r, true);
	else if (keeps_target(r) || ++r->crossing->nr_tries == MAX_TRIES)
		request_fail(r, "TRYAGAIN the key changed while it was renamed: both are there");
	else
		read_source(r);
}

/* At the owner. */
static enum okv_status remove_if_unchanged(struct okv_op *op)
{
	const struct crossing *x = ((const struct kv_op *)op->owner)->request->crossing;

	return op->out_len == x->len && op->sum == x->sum && op->out_expire_ms == x->expire_ms ?
		       OKV_OK : OKV_ABORTED;
}

static void written(struct request *r)
{
	struct kv_op *kv;

	if (has_failed(r))
		return;
	if (is_copy(r) || r->ops->op.status == OKV_EXISTS) {
		end_copy(r, r->ops->op.status == OKV_OK);
		return;
	}
	kv = next_step(r, ARG_SOURCE, OKV_OP_DELETE, removed);
	kv->op.flags = OKV_WANT_OLD;
	kv->op.update = remove_if_unchanged;
	request_submit(r);
}

static void source_read(struct request *r)
{
	struct crossing *x = r->crossing;
	struct kv_op *kv = r->ops;

	if (has_failed(r))
		return;
	/* It may have gone since the last try: by another client, after our RENAME. */
	if (!kv->op.found && !is_copy(r) && !x->nr_tries) {
		request_fail(r, NO_SOURCE);
		return;
	}
	if (!kv->op.found) {
		end_copy(r, x->nr_tries);
		return;
	}
	/* It is for no reply: sixteen of the longest values would be too long for one. */
	r->reply_bytes -= kv->op.out_len;
	r->conn->reply_bytes -= kv->op.out_len;
	resp_chunk_free(x->value);
	x->value = kv->value;
	kv->value = NULL;
	x->len = kv->op.out_len;
	x->sum = kv->op.sum;
	x->expire_ms = kv->op.out_expire_ms;
	kv = next_step(r, ARG_TARGET, OKV_OP_PUT, written);
	kv->op.value = resp_chunk_value(x->value);
	kv->op.value_len = x->len;
	kv->op.expire_ms = x->expire_ms;
	kv->op.flags = keeps_target(r) ? OKV_IF_ABSENT : 0;
	request_submit(r);
}

static void read_source(struct request *r)
{
	next_step(r, ARG_SOURCE, OKV_OP_GET, source_read)->want_value = true;
	request_submit(r);
}

static void turn_come(struct worker *home, struct kv_msg *msg)
{
	struct request *r = ((struct turn *)msg)->request;

	(void)home;
	r->submitting = false;
	read_source(r);
}

static void copy_in_steps(struct request *r)
{
	struct turn *turn;

	r->crossing = mem_zalloc(sizeof(*r->crossing));
	r->end = end_crossing;
	r->blocks = true;
	if (is_copy(r)) {
		read_source(r);
		return;
	}
	turn = r->crossing->turn = mem_zalloc(sizeof(*turn));
	turn->msg.run = queue_turn;
	turn->msg.done = turn_come;
	turn->request = r;
	/* It has no operations yet: those of requests before it are not to go on with them. */
	r->submitting = true;
	worker_send(r->conn->worker, &turn->msg, 0);
}

/* ---- COPY, RENAME, RENAMENX ---- */

static void copy(struct request *r)
{
	if (r->is_kept)
		copy_in_one_step(r);
	else
		multi_run(r, copy_in_steps);
}

static bool is_same_key(const struct request *r)
{
	return req_len(r, ARG_SOURCE) == req_len(r, ARG_TARGET) &&
	       !memcmp(req_arg(r, ARG_SOURCE), req_arg(r, ARG_TARGET), req_len(r, ARG_SOURCE));
}

static void start_rename(struct request *r)
{
	if (!is_same_key(r)) {
		copy(r);
		return;
	}
	/* That changes nothing. */
	request_ops(r, 1);
	request_key(r, OP_READ, ARG_SOURCE, OKV_OP_STAT);
	request_submit(r);
}

/* COPY SOURCE TARGET [DB 0] [REPLACE] */
static void start_copy(struct request *r)
{
	int64_t db;

	for (uint32_t i = ARG_TARGET + 1; i < req_nr(r); i++) {
		if (req_is(r, i, "replace"))
			continue;
		if (!req_is(r, i, "db") || ++i == req_nr(r)) {
			request_fail(r, SYNTAX);
			return;
		}
		if (!req_int(r, i, &db)) {
			request_fail(r, NOT_INT);
			return;
		}
		if (db) {
			request_fail(r, "ERR DB index is out of range");
			return;
		}
	}
	if (is_same_key(r))
		request_fail(r, "ERR source and destination objects are the same");
	else
		copy(r);
}

/* ---- MSETNX ---- */

/* At the owner: the first write decides for all of them, by what the reads before it have found. */
static enum okv_status set_if_none(struct okv_op *op)
{
	struct request *r = ((struct kv_op *)op->owner)->request;
	uint32_t nr_keys = r->nr_ops / 2;
	struct kv_op *first = &r->ops[nr_keys];

	for (uint32_t i = 0; i < nr_keys && op->owner == first; i++) {
		if (r->ops[i].op.found)
			first->number = OKV_EXISTS;
		else if (r->ops[nr_keys + i].no_new_key && first->number == OKV_OK)
			first->number = OKV_NOT_FOUND;
	}
	return first->number;
}

static void start_msetnx(struct request *r)
{
	uint32_t nr_keys = req_nr(r) / 2;

	if (req_nr(r) % 2 == 0) {
		request_fail(r, "ERR wrong number of arguments for 'msetnx' command");
		return;
	}
	if (!r->is_kept) {
		multi_run(r, NULL);
		return;
	}
	request_ops(r, 2 * nr_keys);
	for (uint32_t i = 0; i < nr_keys; i++) {
		struct okv_op *op = &request_key(r, nr_keys + i, 2 * i + 1, OKV_OP_PUT)->op;

		request_key(r, i, 2 * i + 1, OKV_OP_STAT);
		op->value = req_arg(r, 2 * i + 2);
		op->value_len = req_len(r, 2 * i + 2);
		op->update = set_if_none;
	}
	request_submit(r);
}

static void finish_msetnx(struct request *r)
{
	enum okv_status status = r->ops[r->nr_ops / 2].op.status;

	for (uint32_t i = 0; i < r->nr_ops && status != OKV_EXISTS; i++)
		if (request_status(r, &r->ops[i]))
			return;
	resp_int(&r->out, status == OKV_OK);
}

/* ---- DUMP, RESTORE ---- */

static void start_dump(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_GET)->want_value = true;
	request_submit(r);
}

static void finish_dump(struct request *r)
{
	const struct resp_chunk *value = r->ops->value;
	struct resp_chunk *payload;
	uint32_t len;

	if (request_status(r, r->ops))
		return;
	worker_count(r->conn->worker, value ? COUNT_HITS : COUNT_MISSES, 1);
	if (!value) {
		resp_null(&r->out);
		return;
	}
	len = resp_chunk_len(value);
	payload = resp_value_alloc(rdb_payload_bytes(len));
	rdb_write_payload(resp_chunk_value(payload), value->data + value->start, len);
	resp_value(&r->out, payload);
}

struct restore {
	int64_t ttl_ms;
	bool replaces, absolute;
	uint32_t user;			/* the argument with the number of the user; 0: none */
	uint64_t shipment;
	uint32_t source;		/* with the ID of a node, before that of its shipment */
};

/* Reads the options of RESTORE. Returns NULL, or what is wrong with them. */
static const char *parse_restore(const struct request *r, struct restore *o)
{
	bool has_idle = false, has_frequency = false;
	int64_t value;

	*o = (struct restore){ 0 };
	for (uint32_t i = 4; i < req_nr(r); i++) {
		bool idle = req_is(r, i, "idletime"), frequency = req_is(r, i, "freq");

		if (req_is(r, i, "replace")) {
			o->replaces = true;
		} else if (req_is(r, i, "absttl")) {
			o->absolute = true;
		} else if (req_is(r, i, "user-id") && i + 1 < req_nr(r) &&
			   r->command_of->flags & CMD_ASKING) {
			o->user = ++i;
		} else if (req_is(r, i, "shipment") && i + 2 < req_nr(r) &&
			   r->command_of->flags & CMD_ASKING && !r->is_kept && r->slot >= 0 &&
			   req_len(r, i + 1) == CLUSTER_ID_LEN && req_int(r, i + 2, &value) &&
			   value > 0) {
			o->source = i + 1;
			o->shipment = value;
			i += 2;
		} else if (i + 1 < req_nr(r) && ((idle && !has_frequency) ||
						 (frequency && !has_idle))) {
			/* Checked, and of no use here. */
			if (!req_int(r, ++i, &value))
				return NOT_INT;
			if (idle && value < 0)
				return "ERR Invalid IDLETIME value, must be >= 0";
			if (frequency && (value < 0 || value > 255))
				return "ERR Invalid FREQ value, must be >= 0 and <= 255";
			has_idle |= idle;
			has_frequency |= frequency;
		} else {
			return SYNTAX;
		}
	}
	if (!req_int(r, 2, &o->ttl_ms))
		return NOT_INT;
	return o->ttl_ms < 0 ? "ERR Invalid TTL value, must be >= 0" : NULL;
}

/* The value of a payload as that of the operation. Returns NULL, or what is wrong with it. */
static const char *unpack(struct request *r, struct kv_op *kv)
{
	struct rdb_string value;

	switch (rdb_read_payload(req_arg(r, 3), req_len(r, 3), &value)) {
	case RDB_GOOD:
		break;
	case RDB_OTHER_TYPE:
		return "ERR Bad data format: octokvd has strings only";
	case RDB_WRONG_SUM:
		return "ERR DUMP payload version or checksum are wrong";
	default:
		return "ERR Bad data format";
	}
	if (value.len > MAX_VALUE_BYTES)
		return "ERR the value is too large: at most 8388608 bytes";
	kv->op.value = value.bytes;
	kv->op.value_len = value.len;
	if (value.kind == RDB_RAW)
		return NULL;
	if (!mem_has_room())
		return "OOM no memory for this request: try again later";
	kv->fresh = mem_alloc(value.len);
	r->unpacked_bytes = value.len;
	kv->op.value = kv->fresh;
	return rdb_unpack(&value, kv->fresh) ? NULL : "ERR Bad data format";
}

/*
 * The request is that of the user in argument @i, as another node says who moves a slot (MIGRATE).
 * Returns NULL, or why it cannot be.
 */
static const char *become(struct request *r, uint32_t i)
{
	struct worker *w = r->conn->worker;
	struct tenant *tenant = NULL;
	int64_t id;

	if (r->is_kept)
		return SYNTAX;
	if (req_int(r, i, &id))
		tenant = tenants_find_id(w->server->tenants, id);
	if (!tenant)
		return "ERR no user has that number here: the users files differ";
	if (r->has_token)
		tenant_request_end(w, r->tenant);
	r->has_token = false;
	r->tenant = tenant;
	return NULL;
}

static void start_restore(struct request *r)
{
	uint64_t now_ms = r->conn->worker->now_ms;
	struct restore o;
	const char *wrong = parse_restore(r, &o);
	struct kv_op *kv;

	if (!wrong && (o.user || o.source) && !r->tenant->is_admin)
		wrong = "NOPERM only an admin restores keys of other users";
	if (!wrong && o.user)
		wrong = become(r, o.user);
	if (wrong) {
		request_fail(r, "%s", wrong);
		return;
	}
	request_ops(r, 1);
	kv = request_key(r, 0, 1, OKV_OP_PUT);
	wrong = unpack(r, kv);
	if (wrong) {
		request_fail(r, "%s", wrong);
		return;
	}
	if (o.ttl_ms && !o.absolute &&
	    __builtin_add_overflow(o.ttl_ms, (int64_t)now_ms, &o.ttl_ms)) {
		request_fail(r, "ERR Invalid TTL value, must be >= 0");
		return;
	}
	r->source = o.source;
	r->shipment = o.shipment;
	kv->op.expire_ms = o.ttl_ms;
	kv->op.flags = o.replaces ? 0 : OKV_IF_ABSENT;
	/* What has expired already only removes the old value. */
	if (o.ttl_ms && (uint64_t)o.ttl_ms <= now_ms && o.replaces && !o.source)
		kv->op.kind = OKV_OP_DELETE;
	request_submit(r);
}

static void finish_restore(struct request *r)
{
	if (request_status(r, r->ops))
		return;
	if (r->ops->op.status == OKV_EXISTS)
		reply_error(r, "BUSYKEY Target key name already exists.");
	else
		resp_simple(&r->out, "OK");
}

/* ---- all keys: the first thread has a copy of the process write them (snapshot.c) ---- */

static void start_bgsave(struct request *r)
{
	struct server *s = r->conn->worker->server;

	if (!r->tenant->is_admin) {
		request_fail(r, "NOPERM a dump has the keys of all users: only an admin may begin "
			     "one");
	} else if (req_nr(r) > 2 || (req_nr(r) == 2 && !req_is(r, 1, "schedule"))) {
		request_fail(r, SYNTAX);
	} else if (!s->config.save_to) {
		request_fail(r, "ERR there is no file to save to: start octokvd with --save-to "
			     "FILE");
	} else if (s->config.cannot_save) {
		request_fail(r, "ERR %s", s->config.cannot_save);
	} else if (__atomic_exchange_n(&s->is_saving, true, __ATOMIC_RELAXED)) {
		request_fail(r, "ERR Background save already in progress");
	} else {
		kill(getpid(), SIGUSR1);
		resp_simple(&r->out, "Background saving started");
		request_done(r);
	}
}

static void start_lastsave(struct request *r)
{
	resp_int(&r->out, __atomic_load_n(&r->conn->worker->server->saved_s, __ATOMIC_RELAXED));
	request_done(r);
}

const struct command copy_commands[] = {
	{ "bgsave", -1, 0, 0, 0, 0, start_bgsave, NULL },
	{ "lastsave", 1, CMD_IN_MULTI, 0, 0, 0, start_lastsave, NULL },
	{ "copy", -3, CMD_WRITE, 1, 2, 1, start_copy, finish_copy },
	{ "rename", 3, CMD_WRITE | CMD_REMOVES_SOURCE, 1, 2, 1, start_rename, finish_copy },
	{ "renamenx", 3, CMD_WRITE | CMD_REMOVES_SOURCE | CMD_KEEPS_TARGET, 1, 2, 1, start_rename,
	  finish_copy },
	{ "msetnx", -3, CMD_WRITE, 1, -1, 2, start_msetnx, finish_msetnx },
	{ "dump", 2, 0, 1, 1, 1, start_dump, finish_dump },
	{ "restore", -4, CMD_WRITE, 1, 1, 1, start_restore, finish_restore },
	{ "restore-asking", -4, CMD_WRITE | CMD_ASKING, 1, 1, 1, start_restore, finish_restore },
	{ NULL },
};
