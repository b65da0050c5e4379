// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_multi.c - WATCH, MULTI, EXEC, DISCARD: commands that happen all or none, in one step
 *
 * At home EXEC starts all commands that were kept, as if they came now, but their operations are
 * only collected. If all keys are in one partition, one message with all of it goes to the owner.
 * There the keys are read and held (okv_partition_transact()). The operations run one after the
 * other on copies of the values in memory, with the same callbacks as alone. What has changed in
 * the end is written as one batch. Back at home each command makes its reply.
 *
 * Keys of several partitions are refused as a whole: the store cannot write them in one step.
 *
 * Values that the commands make live until the end, but for those that a later command on the same
 * key has replaced. They have a bound, too: a short command can make a long value.
 *
 * WATCH remembers length, checksum and expiry of a value. EXEC compares them in the same step. So a
 * key that was changed, and changed back, has not changed. In a cluster, a key that may be at
 * another node now has changed.
 */
#include "cluster/way.h"
#include "command.h"
#include "multi.h"
#include "mover.h"
#include "store/mem.h"
#include "tenant.h"

#define TOO_LARGE "ERR the values or replies of the transaction are too large"

/* What WATCH saw of a key. */
struct watched {
	struct watched *next;
	uint64_t hash, sum, expire_ms;
	uint32_t partition, len;
	int32_t slot;
	bool found;
	uint16_t key_len;
	char key[];
};

/* A key of a transaction, as the commands so far have left it. */
struct state {
	bool wants_value, found, changed;
	bool has_fresh_value;		/* not that which was there */
	const void *value;
	uint32_t len;
	uint64_t expire_ms;
	struct kv_op *maker;		/* of the value, if an operation made it */
	const struct watched *watched;
};

struct multi_txn {
	struct kv_msg msg;
	struct okv_txn txn;
	struct request *request, *kept;
	/* Of multi_run(): the reply is that of the only command. */
	bool is_single;
	void (*otherwise)(struct request *r);
	struct watched *watched;
	struct okv_txn_key *keys;
	struct state *states;
	uint32_t partition, nr_keys;
	uint32_t nr_slot_keys;		/* of the slot of the commands */
	uint64_t reply_bytes;
	uint64_t sent_ns, queued_ns, returned_ns;	/* as in kv_op */
	struct fair_pass pass;
	uint32_t nr_ops;		/* with the keys that are watched */
	uint64_t put_bytes;		/* of the values that clients have sent */
	uint8_t turn;
	enum way way;			/* of that slot, at the owner */
	uint32_t nr_away;		/* of its keys: they may be at another node */
	bool is_in_doubt, is_refused;
	uint64_t fresh_bytes;		/* of values that operations made */
	bool has_copies;		/* keys may share a value */
};

/* ---- what a connection keeps ---- */

static void free_kept(struct request *kept)
{
	while (kept) {
		struct request *next = kept->next;

		request_free(kept);
		kept = next;
	}
}

static void free_watched(struct watched *watched)
{
	while (watched) {
		struct watched *next = watched->next;

		mem_free(watched);
		watched = next;
	}
}

void multi_forget(struct conn *c)
{
	free_kept(c->kept);
	free_watched(c->watched);
	c->kept = c->last_kept = NULL;
	c->watched = NULL;
	c->nr_kept = c->nr_watched = 0;
	c->kept_bytes = 0;
	c->multi_is_open = c->multi_is_bad = c->asking = false;
}

static void end_exec(struct request *r)
{
	struct multi_txn *t = r->txn;

	free_kept(t->kept);
	free_watched(t->watched);
	mem_free(t->keys);
	mem_free(t->states);
	mem_free(t);
}

void multi_spoil(struct conn *c)
{
	c->multi_is_bad = true;
}

void multi_keep(struct request *r)
{
	struct conn *c = r->conn;
	struct request *kept;

	if (!r->command_of->first_key && !(r->command_of->flags & CMD_IN_MULTI)) {
		multi_spoil(c);
		request_fail(r, "ERR '%s' is not allowed in a transaction", r->command_of->name);
		return;
	}
	c->kept_bytes += request_held_bytes(r);
	if (++c->nr_kept > MULTI_MAX_COMMANDS || c->kept_bytes > MULTI_MAX_BYTES) {
		multi_spoil(c);
		request_fail(r, "ERR a transaction has at most %d commands, of %d bytes together",
			     MULTI_MAX_COMMANDS, MULTI_MAX_BYTES);
		return;
	}
	kept = request_new(c);
	kept->command = r->command;
	kept->command_of = r->command_of;
	kept->command_number = r->command_number;
	/* It is counted when it has run. */
	r->command_of = NULL;
	kept->is_kept = true;
	memset(&r->command, 0, sizeof(r->command));
	if (c->last_kept)
		c->last_kept->next = kept;
	else
		c->kept = kept;
	c->last_kept = kept;
	resp_simple(&r->out, "QUEUED");
	request_done(r);
}

/* ---- at the owner ---- */

static enum okv_status set_value(struct state *s, const struct okv_op *op, uint64_t expire_ms)
{
	s->found = s->changed = s->has_fresh_value = true;
	s->value = op->value;
	s->len = op->value_len;
	s->expire_ms = expire_ms;
	return OKV_OK;
}

/* Does what the store does for an operation alone. */
static enum okv_status apply(struct state *s, struct okv_op *op)
{
	enum okv_status status;

	op->found = s->found;
	op->out = s->found && s->wants_value ? s->value : NULL;
	op->out_len = s->found ? s->len : 0;
	op->out_expire_ms = s->found ? s->expire_ms : 0;
	switch (op->kind) {
	case OKV_OP_PUT:
		/* It may look at the operations before, and set the value. */
		status = op->update ? op->update(op) : OKV_OK;
		if (status != OKV_OK)
			return status;
		if (op->flags & OKV_IF_ABSENT && s->found)
			return OKV_EXISTS;
		if (op->flags & OKV_IF_PRESENT && !s->found)
			return OKV_NOT_FOUND;
		return set_value(s, op, op->flags & OKV_KEEP_TTL && s->found ? s->expire_ms :
					op->expire_ms);
	case OKV_OP_UPDATE:
		op->expire_ms = op->out_expire_ms;
		status = op->update(op);
		return status == OKV_OK ? set_value(s, op, op->expire_ms) : status;
	case OKV_OP_TOUCH:
		if (!s->found)
			return OKV_NOT_FOUND;
		status = okv_op_ask_expiry(op);
		if (status != OKV_OK)
			return status;
		s->changed = true;
		s->expire_ms = op->expire_ms;
		break;
	case OKV_OP_DELETE:
		if (s->found && op->flags & OKV_WANT_OLD && op->update && op->update(op) != OKV_OK)
			return OKV_ABORTED;
		s->changed |= s->found;
		s->found = false;
		break;
	default:
		break;
	}
	return op->found ? OKV_OK : OKV_NOT_FOUND;
}

/* Counts the value that an operation has made, and frees the one that it has replaced. */
static void count_fresh(struct multi_txn *t, struct state *s, struct kv_op *kv)
{
	struct kv_op *old = s->maker;

	t->has_copies |= kv->op.kind == OKV_OP_PUT && kv->op.update;
	if (old && s->value != old->fresh && !t->has_copies) {
		t->fresh_bytes -= old->op.value_len;
		mem_free(old->fresh);
		old->fresh = NULL;
		s->maker = NULL;
	}
	if (!kv->fresh || s->value != kv->fresh)
		return;
	s->maker = kv;
	/* That of RESTORE was counted when it was unpacked. */
	if (kv->op.kind == OKV_OP_UPDATE)
		t->fresh_bytes += kv->op.value_len;
}

static void run_op(struct multi_txn *t, struct kv_op *kv)
{
	struct state *s = &t->states[kv->txn_key];
	struct okv_op *op = &kv->op;

	op->status = apply(s, op);
	if (kv->want_value && op->out) {
		t->reply_bytes += op->out_len;
		if (t->reply_bytes > MULTI_MAX_REPLY_BYTES)
			return;
		kv->value = resp_value_alloc(op->out_len);
		memcpy(resp_chunk_value(kv->value), op->out, op->out_len);
	}
	/* Only now: it may free what was read. */
	if (op->status == OKV_OK)
		count_fresh(t, s, kv);
}

/* Keys that are only watched may be of others. */
static bool is_of_slot(const struct multi_txn *t, const struct state *s)
{
	return !s->watched || s->watched->slot == t->request->slot;
}

/* Whether another node may have the key, or make it. */
static bool may_be_away(const struct multi_txn *t, const struct watched *w, bool found)
{
	const struct request *r = t->request;
	enum way way = way_of(r->conn->worker->server, w->slot, r->asking);

	return way == WAY_ELSEWHERE || (way == WAY_LEAVES && !found);
}

static bool is_as_watched(const struct okv_txn_key *k, const struct watched *w)
{
	const struct okv_op *read = &k->read;

	return !w || (read->found == w->found &&
		      (!w->found || (read->out_len == w->len && read->sum == w->sum &&
				     read->out_expire_ms == w->expire_ms)));
}

/* Whether a key goes, or expires sooner: an older copy at another node would come to light. */
static bool ends_sooner(const struct state *s, const struct okv_op *read)
{
	uint64_t old_ms = read->out_expire_ms;

	return !s->found || (s->expire_ms && (!old_ms || s->expire_ms < old_ms));
}

/*
 * The map may have changed while keys were waited for. Since then another client may have been sent
 * to the other node for a key that this transaction would make here.
 */
static void look_at_map(struct multi_txn *t)
{
	const struct request *r = t->request;
	const struct server *s = r->conn->worker->server;

	if (!s->cluster)
		return;
	t->way = way_of(s, r->slot, r->asking);
	t->is_in_doubt = t->way == WAY_LEAVES && way_is_in_doubt(s, r->slot);
}

static enum okv_status decide(struct okv_txn *txn)
{
	struct multi_txn *t = txn->owner;

	look_at_map(t);
	if (t->way == WAY_ELSEWHERE) {
		t->nr_away = t->nr_slot_keys;
		return OKV_ABORTED;
	}
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		struct state *s = &t->states[i];

		if (!is_as_watched(&t->keys[i], s->watched) ||
		    (s->watched && may_be_away(t, s->watched, t->keys[i].read.found)))
			return OKV_ABORTED;
		s->found = t->keys[i].read.found;
		s->value = t->keys[i].read.out;
		s->len = t->keys[i].read.out_len;
		s->expire_ms = t->keys[i].read.out_expire_ms;
		t->nr_away += !s->found && is_of_slot(t, s) &&
			      (t->way == WAY_LEAVES ||
			       (t->way == WAY_COMES && t->nr_slot_keys > 1));
	}
	if (t->nr_away)
		return OKV_ABORTED;
	for (struct request *r = t->kept; r; r = r->next) {
		for (uint32_t i = 0; i < r->nr_ops && !r->done; i++) {
			run_op(t, &r->ops[i]);
			if (t->fresh_bytes > MULTI_MAX_FRESH_BYTES ||
			    t->reply_bytes > MULTI_MAX_REPLY_BYTES)
				return OKV_TOO_LARGE;
		}
	}
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		struct okv_txn_key *k = &t->keys[i];
		const struct state *s = &t->states[i];

		t->is_refused |= t->is_in_doubt && s->changed && ends_sooner(s, &k->read);
		if (t->is_refused)
			return OKV_ABORTED;
		k->writes = s->changed;
		k->removes = !s->found;
		k->keeps_value = k->read.found && !s->has_fresh_value;
		k->value = s->value;
		k->value_len = s->len;
		k->expire_ms = s->expire_ms;
	}
	return OKV_OK;
}

/* Of values: those of its operations, and of keys that were watched; at least what was read. */
static uint64_t bytes_of(const struct multi_txn *t)
{
	uint64_t read = 0, used = 0;

	for (uint32_t i = 0; i < t->nr_keys; i++) {
		const struct okv_txn_key *k = &t->keys[i];
		bool was_read = k->wants_value || (k->may_touch && !k->read.leaves_value);
		uint32_t len = was_read ? k->read.out_len : 0;

		read += len;
		used += t->states[i].watched ? len : 0;
	}
	for (const struct request *r = t->kept; r; r = r->next)
		for (uint32_t i = 0; i < r->nr_ops; i++)
			used += kv_op_bytes(&r->ops[i].op);
	return used > read ? used : read;
}

static void txn_done(struct okv_txn *txn)
{
	struct multi_txn *t = txn->owner;
	struct worker *w = t->request->conn->worker->server->workers[t->msg.target];

	for (struct request *r = t->kept; r; r = r->next) {
		for (uint32_t i = 0; i < r->nr_ops; i++) {
			mem_free(r->ops[i].fresh);
			r->ops[i].fresh = NULL;
		}
	}
	if (w->server->cluster)
		way_end(w, t->turn);
	tenant_publish(w, t->request->tenant);
	metrics_store_stages(w, t->request->tenant->id, &txn->stages);
	t->returned_ns = w->now_ns;
	fair_ended(w, &t->pass, t->request->tenant, &txn->stages, bytes_of(t),
		   passed_ns(t->sent_ns, t->returned_ns));
	worker_return(w, &t->msg);
}

static void txn_run(struct worker *w, struct kv_msg *msg)
{
	struct multi_txn *t = (struct multi_txn *)msg;
	struct okv_partition *p;

	if (!fair_admits(w, msg, &t->pass, t->request->tenant, t->partition, t->nr_ops,
			 t->put_bytes))
		return;
	p = request_partition(w, t->partition);
	for (uint32_t i = 0; w->locked && i < t->nr_keys; i++)
		if (way_waits(w, msg, t->keys[i].read.hash))
			return;
	if (w->server->cluster)
		t->turn = way_begin(w);
	worker_count(w, COUNT_STORE, t->nr_keys);
	t->queued_ns = passed_ns(t->sent_ns, w->now_ns);
	metrics_stage(w, t->request->tenant->id, STAGE_QUEUE, t->queued_ns);
	if (!p) {
		t->txn = (struct okv_txn){ .status = OKV_CORRUPT, .owner = t };
		txn_done(&t->txn);
		return;
	}
	if (w->events)
		w->events[t->partition][t->request->tenant->id] += t->nr_keys;
	t->txn = (struct okv_txn){
		.keys = t->keys, .nr_keys = t->nr_keys, .decide = decide, .done = txn_done,
		.owner = t,
	};
	okv_partition_transact(p, &t->txn);
}

/* ---- back at home ---- */

static void let_go(struct multi_txn *t)
{
	for (struct request *r = t->kept; r; r = r->next)
		for (uint32_t i = 0; i < r->nr_ops; i++)
			if (r->ops[i].holds_bytes || r->ops[i].holds_key)
				tenant_let_go(r->tenant, r->ops[i].holds_bytes,
					      r->ops[i].holds_key);
}

static void reply_all(struct request *r)
{
	struct multi_txn *t = r->txn;
	uint32_t nr = 0;

	for (struct request *kept = t->kept; kept; kept = kept->next) {
		if (!kept->done)
			kept->command_of->finish(kept);
		kept->begun_ns = r->begun_ns;
		/* A command that is a transaction by itself is counted as such. */
		if (!t->is_single)
			request_count(kept);
		nr++;
	}
	if (!t->is_single) {
		resp_array(&r->out, nr);
	} else {
		/* For the slow log. */
		r->command = t->kept->command;
		memset(&t->kept->command, 0, sizeof(t->kept->command));
	}
	for (struct request *kept = t->kept; kept; kept = kept->next)
		resp_out_splice(&r->out, &kept->out);
}

/* It was no transaction. */
static void run_otherwise(struct request *r)
{
	void (*otherwise)(struct request *r) = r->txn->otherwise;
	struct request *kept = r->txn->kept;

	r->command = kept->command;
	memset(&kept->command, 0, sizeof(kept->command));
	end_exec(r);
	r->txn = NULL;
	r->end = NULL;
	otherwise(r);
}

static void reply_error(struct request *r, const char *text)
{
	resp_error(&r->out, "%s", text);
	worker_count(r->conn->worker, COUNT_ERRORS, 1);
}

/* Nothing was run. */
static void reply_none(struct request *r)
{
	const struct multi_txn *t = r->txn;
	char text[128];

	if (t->nr_away) {
		way_redirect(r->conn->worker->server, r->slot, r->asking,
			     t->nr_away == t->nr_slot_keys, text, sizeof(text));
		reply_error(r, text);
	} else if (t->is_refused) {
		reply_error(r, "TRYAGAIN the slot moves, and the other node may have older copies "
			    "of these keys");
	} else {
		resp_raw(&r->out, r->out.resp3 ? "_\r\n" : "*-1\r\n", r->out.resp3 ? 3 : 5);
	}
}

static void txn_home(struct worker *w, struct kv_msg *msg)
{
	struct multi_txn *t = (struct multi_txn *)msg;
	struct request *r = t->request;
	bool left_out = t->txn.status == OKV_CORRUPT && !t->txn.partition;
	struct kv_op answer = {
		.op.status = t->txn.status, .complaint = left_out ? REQUEST_LEFT_OUT : NULL,
	};

	metrics_stage(w, r->tenant->id, STAGE_RETURN, passed_ns(t->returned_ns, w->now_ns));
	request_stages(r, t->queued_ns, &t->txn.stages, t->returned_ns);
	let_go(t);
	if (t->otherwise && (t->txn.status == OKV_TOO_LARGE || t->txn.status == OKV_FULL)) {
		run_otherwise(r);
		return;
	}
	if (t->txn.status == OKV_OK)
		reply_all(r);
	else if (t->txn.status == OKV_ABORTED)
		reply_none(r);
	else if (t->txn.status == OKV_TOO_LARGE)
		reply_error(r, TOO_LARGE);
	else
		request_status(r, &answer);
	request_done(r);
}

/* ---- EXEC ---- */

/* The index of the key, perhaps a new one; MULTI_MAX_KEYS: there are too many. */
static uint32_t key_of(struct multi_txn *t, uint64_t hash, const char *key, uint16_t key_len)
{
	const struct tenant *tenant = t->request->tenant;

	for (uint32_t i = 0; i < t->nr_keys; i++) {
		const struct okv_op *read = &t->keys[i].read;

		if (read->hash == hash && read->key_len == key_len &&
		    !memcmp(read->key, key, key_len))
			return i;
	}
	if (t->nr_keys == MULTI_MAX_KEYS)
		return MULTI_MAX_KEYS;
	t->keys = mem_grow(t->keys, (t->nr_keys + 1) * sizeof(*t->keys));
	t->states = mem_grow(t->states, (t->nr_keys + 1) * sizeof(*t->states));
	t->states[t->nr_keys] = (struct state){ 0 };
	t->keys[t->nr_keys] = (struct okv_txn_key){
		.read = {
			.tenant = tenant->id, .ioprio = tenant->ioprio, .hash = hash, .key = key,
			.key_len = key_len,
			.compresses = tenant_compresses(t->request->conn->worker, tenant),
		},
	};
	return t->nr_keys++;
}

/* Why the keys cannot be one transaction; NULL: they can. */
static const char *add_key(struct multi_txn *t, uint32_t partition, uint32_t key, bool wants_value)
{
	if (key == MULTI_MAX_KEYS)
		return "ERR a transaction has at most 1024 keys";
	if (t->nr_keys == 1)
		t->partition = partition;
	if (t->partition != partition)
		return "CROSSSLOT the keys of this transaction are in several partitions, which "
		       "are not written in one step: nothing of it was run";
	t->states[key].wants_value |= wants_value;
	t->keys[key].wants_value |= wants_value;
	return NULL;
}

static bool wants_value(const struct okv_op *op)
{
	return op->kind == OKV_OP_GET || op->kind == OKV_OP_UPDATE || op->flags & OKV_WANT_OLD;
}

static const char *gather_keys(struct multi_txn *t)
{
	const char *why = NULL;

	for (struct watched *w = t->watched; w && !why; w = w->next) {
		uint32_t key = key_of(t, w->hash, w->key, w->key_len);

		why = add_key(t, w->partition, key, w->found);
		t->nr_ops++;
		if (!why)
			t->states[key].watched = w;
	}
	for (struct request *r = t->kept; r; r = r->next) {
		for (uint32_t i = 0; i < r->nr_ops && !r->done && !why; i++) {
			struct okv_op *op = &r->ops[i].op;

			r->ops[i].txn_key = key_of(t, op->hash, op->key, op->key_len);
			why = add_key(t, r->ops[i].partition, r->ops[i].txn_key, wants_value(op));
			if (!why)
				t->keys[r->ops[i].txn_key].may_touch |= op->kind == OKV_OP_TOUCH;
			t->nr_ops++;
			t->put_bytes += op->kind == OKV_OP_PUT ? op->value_len : 0;
		}
	}
	for (uint32_t i = 0; i < t->nr_keys; i++)
		t->nr_slot_keys += is_of_slot(t, &t->states[i]);
	return why;
}

/* Starts the commands. Why they cannot be one transaction; NULL: they can. */
static const char *start_kept(struct multi_txn *t)
{
	for (struct request *kept = t->kept; kept; kept = kept->next) {
		request_start(kept);
		t->fresh_bytes += kept->unpacked_bytes;
		if (t->fresh_bytes > MULTI_MAX_FRESH_BYTES)
			return TOO_LARGE;
	}
	return gather_keys(t);
}

/* Starts the commands, and sends their operations. */
static void start_txn(struct request *r)
{
	struct multi_txn *t = r->txn;
	const char *why = start_kept(t);

	if (why) {
		let_go(t);
		if (t->otherwise)
			run_otherwise(r);
		else
			request_fail(r, "%s", why);
	} else if (!t->nr_keys) {
		reply_all(r);
		request_done(r);
	} else {
		t->sent_ns = r->conn->worker->now_ns;
		mover_send(r->conn->worker, &t->msg, t->partition);
	}
}

static void start_exec(struct request *r)
{
	struct conn *c = r->conn;
	struct multi_txn *t;

	if (!c->multi_is_open) {
		request_fail(r, "ERR EXEC without MULTI");
		return;
	}
	if (c->multi_is_bad) {
		multi_forget(c);
		request_fail(r, "EXECABORT Transaction discarded because of previous errors.");
		return;
	}
	if (!server_is_sure(c->worker->server)) {
		multi_forget(c);
		request_refuse_old(r);
		return;
	}
	t = r->txn = mem_zalloc(sizeof(*t));
	*t = (struct multi_txn){
		.msg = { .run = txn_run, .done = txn_home }, .request = r, .kept = c->kept,
		.watched = c->watched,
	};
	r->end = end_exec;
	r->slot = c->multi_slot;
	c->kept = NULL;
	c->watched = NULL;
	multi_forget(c);
	start_txn(r);
}

void multi_run(struct request *r, void (*otherwise)(struct request *r))
{
	struct request *kept = request_new(r->conn);

	kept->command = r->command;
	kept->command_of = r->command_of;
	kept->is_kept = true;
	memset(&r->command, 0, sizeof(r->command));
	r->txn = mem_zalloc(sizeof(*r->txn));
	*r->txn = (struct multi_txn){
		.msg = { .run = txn_run, .done = txn_home }, .request = r, .kept = kept,
		.is_single = true, .otherwise = otherwise,
	};
	r->end = end_exec;
	start_txn(r);
}

/* ---- the others ---- */

static void reply_ok(struct request *r)
{
	resp_simple(&r->out, "OK");
	request_done(r);
}

static void start_multi(struct request *r)
{
	if (r->conn->multi_is_open) {
		request_fail(r, "ERR MULTI calls can not be nested");
		return;
	}
	r->conn->multi_is_open = true;
	r->conn->multi_slot = -1;
	r->conn->asking = r->asking;
	reply_ok(r);
}

static void start_discard(struct request *r)
{
	if (!r->conn->multi_is_open) {
		request_fail(r, "ERR DISCARD without MULTI");
		return;
	}
	multi_forget(r->conn);
	reply_ok(r);
}

static void start_watch(struct request *r)
{
	if (r->conn->multi_is_open) {
		request_fail(r, "ERR WATCH inside MULTI is not allowed");
		return;
	}
	/* EXEC could not take more, and a connection must not keep ever more. */
	if (r->conn->nr_watched + req_nr(r) - 1 > MULTI_MAX_KEYS) {
		request_fail(r, "ERR at most %d keys are watched at a time", MULTI_MAX_KEYS);
		return;
	}
	/* An EXEC that follows has to know. */
	r->blocks = true;
	request_ops(r, req_nr(r) - 1);
	for (uint32_t i = 1; i < req_nr(r); i++)
		request_key(r, i - 1, i, OKV_OP_GET);
	request_submit(r);
}

static void watch(const struct request *r, const struct okv_op *op, uint32_t partition)
{
	struct conn *c = r->conn;
	struct watched *w = mem_alloc(sizeof(*w) + op->key_len);

	*w = (struct watched){
		.next = c->watched, .hash = op->hash, .sum = op->sum, .partition = partition,
		.expire_ms = op->out_expire_ms, .len = op->out_len, .found = op->found,
		.key_len = op->key_len, .slot = r->slot,
	};
	memcpy(w->key, op->key, op->key_len);
	c->watched = w;
	c->nr_watched++;
}

static void finish_watch(struct request *r)
{
	for (uint32_t i = 0; i < r->nr_ops; i++)
		if (request_status(r, &r->ops[i]))
			return;
	for (uint32_t i = 0; i < r->nr_ops; i++)
		watch(r, &r->ops[i].op, r->ops[i].partition);
	resp_simple(&r->out, "OK");
}

static void start_unwatch(struct request *r)
{
	free_watched(r->conn->watched);
	r->conn->watched = NULL;
	r->conn->nr_watched = 0;
	reply_ok(r);
}

const struct command multi_commands[] = {
	{ "multi", 1, CMD_ENDS_MULTI, 0, 0, 0, start_multi, NULL },
	{ "exec", 1, CMD_ENDS_MULTI, 0, 0, 0, start_exec, NULL },
	{ "discard", 1, CMD_ENDS_MULTI, 0, 0, 0, start_discard, NULL },
	{ "watch", -2, CMD_ENDS_MULTI, 1, -1, 1, start_watch, finish_watch },
	{ "unwatch", 1, CMD_ENDS_MULTI, 0, 0, 0, start_unwatch, NULL },
	{ NULL },
};
