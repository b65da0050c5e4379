// SPDX-License-Identifier: GPL-2.0
/*
 * migrate.c - MIGRATE: keys of a slot that leaves go to the node that it goes to
 *
 *	MIGRATE HOST PORT KEY | "" 0 MS [COPY] [REPLACE] [AUTH PASSWORD | AUTH2 USER PASSWORD]
 *		[KEYS KEY...]
 *
 *	lock the keys at the owner of their partition (way.h) -> wait for what has begun before ->
 *	read them -> send each with its expiry -> delete here those that the other node has
 *	acknowledged -> unlock
 *
 * An acknowledged key is durable there before it is deleted here. So a key is at both nodes for a
 * moment, or after a loss of power, and then the one here counts, as the slot is here. If an answer
 * stays out, the key stays here, and the slot is in doubt.
 *
 * A key means that of each user who has one of that name: only an admin may MIGRATE. The other node
 * is told whose it is, by the number of the user (RESTORE-ASKING with USER-ID). It is also told
 * which shipment of which node this is (SHIPMENT), so that it refuses one that comes too late.
 */
#include <stdio.h>

#include "cluster/map.h"
#include "rdb/rdb.h"
#include "server/command.h"
#include "server/mover.h"
#include "server/tenant.h"
#include "slots.h"
#include "store/mem.h"
#include "way.h"

enum {
	ARG_HOST = 1, ARG_PORT, ARG_KEY, ARG_DB, ARG_TIMEOUT, ARG_OPTIONS,
	TIMEOUT_MS		= 1000,		/* if none is given */
	TIMEOUT_MS_MAX		= 600000,
	MAX_COPIES		= 4096,		/* keys times users */
	HEAD_BYTES		= 320,		/* of a command, without key and value */
};

/**
 * struct migration - a MIGRATE
 * @lock:	the keys at the owner; NULL: not yet, or no more. It outlives the request
 * @has_begun:	the way of the slot does not end meanwhile
 * @shipment:	its number
 * @sent:	by key of the shipment: which one of lock->keys it is
 */
struct migration {
	struct leaving *lock;
	struct shipment ship;
	uint32_t slot;
	bool copies, replaces, has_begun;
	uint32_t auth, nr_auth;		/* arguments: [USER] PASSWORD */
	uint32_t first_key, nr_keys;
	uint64_t shipment;
	uint32_t *sent;
	bool has_failed;		/* to delete them here */
};

/* What the owner is asked. */
struct lock_job {
	struct leaving leaving;
	struct request *request;
	struct fair_pass pass;
	bool is_locked, is_too_much;
};

static struct cluster *cluster_of(const struct request *r)
{
	return r->conn->worker->server->cluster;
}

/* ---- the end ---- */

static void unlock_run(struct worker *w, struct kv_msg *msg)
{
	way_unlock(w, (struct leaving *)msg);
	worker_return(w, msg);
}

static void unlocked(struct worker *home, struct kv_msg *msg)
{
	home->nr_ending_turns--;
	mem_free(((struct leaving *)msg)->keys);
	mem_free(msg);
}

static void unlock(struct request *r)
{
	struct migration *m = r->more;
	struct leaving *l = m->lock;
	struct worker *w = r->conn->worker;

	m->lock = NULL;
	if (!l)
		return;
	/* It goes on by itself, and not because a request that has waited for the keys is done. */
	r->submitting = true;
	l->msg.run = unlock_run;
	l->msg.done = unlocked;
	w->nr_ending_turns++;
	worker_send(w, &l->msg, l->msg.target);
}

static void end_migration(struct request *r)
{
	struct migration *m = r->more;

	unlock(r);
	if (m->has_begun)
		way_migrate_end(r->conn->worker->server, m->slot);
	mem_free(m->ship.bytes);
	mem_free(m->ship.outcomes);
	mem_free(m->sent);
	mem_free(m);
}

/* Keys may be at both nodes: what a client sees of them is to be here. */
static void doubt(struct request *r)
{
	const struct migration *m = r->more;

	if (!cluster_owns(cluster_of(r), m->slot))
		return;
	__atomic_store_n(&cluster_of(r)->in_doubt[m->slot], true, __ATOMIC_RELAXED);
}

static void finish(struct request *r)
{
	const struct migration *m = r->more;

	unlock(r);
	if (m->ship.is_cut) {
		request_fail(r, "IOERR error or timeout talking to %s:%u: %s", m->ship.host,
			     m->ship.port, m->ship.why);
	} else if (m->ship.why[0]) {
		request_fail(r, "ERR Target instance replied with error: %s", m->ship.why);
	} else if (m->has_failed) {
		request_fail(r, "IOERR the other node has the keys, and they could not be deleted "
			     "here");
	} else {
		resp_simple(&r->out, "OK");
		request_done(r);
	}
}

/* ---- deleting what has arrived ---- */

static struct kv_op *key_op(struct request *r, uint32_t i, const struct leaving_key *key,
			    enum okv_op_kind kind)
{
	struct kv_op *kv;

	memset(&r->ops[i], 0, sizeof(r->ops[i]));
	kv = request_key(r, i, key->arg, kind);
	kv->op.tenant = key->tenant;
	kv->op.hash = key->hash;
	return kv;
}

static void deleted(struct request *r)
{
	struct migration *m = r->more;

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		enum okv_status status = r->ops[i].op.status;

		m->has_failed |= status != OKV_OK && status != OKV_NOT_FOUND;
	}
	if (m->has_failed)
		doubt(r);
	finish(r);
}

static void shipped(struct worker *home, struct kv_msg *msg)
{
	struct request *r = ((struct shipment *)msg)->request;
	struct migration *m = r->more;
	uint32_t nr = 0;
	bool is_at_both = false;

	(void)home;
	for (uint32_t i = 0; i < m->ship.nr_keys; i++) {
		is_at_both |= m->ship.outcomes[i] == SHIP_UNKNOWN ||
			      (m->ship.outcomes[i] == SHIP_TAKEN && m->copies);
		if (m->ship.outcomes[i] == SHIP_TAKEN && !m->copies)
			key_op(r, nr++, &m->lock->keys[m->sent[i]], OKV_OP_DELETE);
	}
	if (is_at_both)
		doubt(r);
	if (!nr) {
		finish(r);
		return;
	}
	r->submitting = false;
	r->nr_ops = nr;
	r->nr_next = 0;
	r->step = deleted;
	request_submit(r);
}

/* ---- sending ---- */

static char *put_text(char *to, const char *text, size_t len)
{
	to += sprintf(to, "$%zu\r\n", len);
	memcpy(to, text, len);
	memcpy(to + len, "\r\n", 2);
	return to + len + 2;
}

static char *put_number(char *to, uint64_t number)
{
	char text[24];

	return put_text(to, text, snprintf(text, sizeof(text), "%llu", (unsigned long long)number));
}

static char *put_first(const struct request *r, char *to)
{
	const struct migration *m = r->more;

	if (!m->nr_auth)
		return to + sprintf(to, "*1\r\n$4\r\nPING\r\n");
	to += sprintf(to, "*%u\r\n", 1 + m->nr_auth);
	to = put_text(to, "AUTH", 4);
	for (uint32_t i = 0; i < m->nr_auth; i++)
		to = put_text(to, req_arg(r, m->auth + i), req_len(r, m->auth + i));
	return to;
}

static char *put_restore(const struct request *r, const struct kv_op *kv, char *to)
{
	const struct cluster *c = cluster_of(r);
	const struct migration *m = r->more;
	const struct resp_chunk *value = kv->value;
	size_t len = rdb_payload_bytes(resp_chunk_len(value));

	to += sprintf(to, "*%d\r\n", m->replaces ? 11 : 10);
	to = put_text(to, "RESTORE-ASKING", 14);
	to = put_text(to, kv->op.key, kv->op.key_len);
	to = put_number(to, kv->op.out_expire_ms);
	to += sprintf(to, "$%zu\r\n", len);
	rdb_write_payload(to, value->data + value->start, resp_chunk_len(value));
	to += len;
	to += sprintf(to, "\r\n$6\r\nABSTTL\r\n");
	if (m->replaces)
		to += sprintf(to, "$7\r\nREPLACE\r\n");
	to = put_text(to, "SHIPMENT", 8);
	to = put_text(to, c->nodes[c->self].id, CLUSTER_ID_LEN);
	to = put_number(to, m->shipment);
	to = put_text(to, "USER-ID", 7);
	return put_number(to, kv->op.tenant);
}

static size_t bytes_of(const struct request *r)
{
	const struct migration *m = r->more;
	size_t bytes = HEAD_BYTES;

	for (uint32_t i = 0; i < m->nr_auth; i++)
		bytes += HEAD_BYTES + req_len(r, m->auth + i);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		if (r->ops[i].value)
			bytes += HEAD_BYTES + r->ops[i].op.key_len +
				 rdb_payload_bytes(resp_chunk_len(r->ops[i].value));
	return bytes;
}

/* Makes the shipment of the values that were read, which go. */
static void pack(struct request *r)
{
	struct worker *w = r->conn->worker;
	struct migration *m = r->more;
	struct shipment *s = &m->ship;
	char *to = s->bytes = mem_alloc(bytes_of(r));

	m->shipment = way_next_shipment(w->server, w->now_ms);
	to = put_first(r, to);
	s->first_len = to - s->bytes;
	m->sent = mem_alloc(r->nr_ops * sizeof(*m->sent));
	for (uint32_t i = 0; i < r->nr_ops; i++) {
		struct kv_op *kv = &r->ops[i];
		uint32_t len = kv->value ? resp_chunk_len(kv->value) : 0;

		if (!kv->value)
			continue;
		m->sent[s->nr_keys++] = i;
		to = put_restore(r, kv, to);
		/* It is for no reply. */
		r->reply_bytes -= len;
		r->conn->reply_bytes -= len;
		resp_chunk_free(kv->value);
		kv->value = NULL;
	}
	s->len = to - s->bytes;
	s->outcomes = mem_zalloc(s->nr_keys);
}

static void reply_none(struct request *r)
{
	unlock(r);
	resp_simple(&r->out, "NOKEY");
	request_done(r);
}

static void values_read(struct request *r)
{
	struct worker *w = r->conn->worker;
	struct migration *m = r->more;

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		if (request_status(r, &r->ops[i])) {
			unlock(r);
			request_done(r);
			return;
		}
	}
	pack(r);
	if (!m->ship.nr_keys) {
		reply_none(r);
		return;
	}
	r->submitting = true;
	m->ship.msg.done = shipped;
	m->ship.msg.home = w->id;
	m->ship.msg.returning = true;
	m->ship.request = r;
	if (!w->ship(w, &m->ship.msg)) {
		unlock(r);
		request_fail(r, "TRYAGAIN too many keys wait for their way to other nodes");
	}
}

/* ---- locking and reading ---- */

static int by_hash(const void *a, const void *b)
{
	const struct leaving_key *k = a, *l = b;

	return (k->hash > l->hash) - (k->hash < l->hash);
}

static bool is_same(const struct request *r, const struct leaving_key *k,
		    const struct leaving_key *l)
{
	return k->hash == l->hash && k->tenant == l->tenant &&
	       req_len(r, k->arg) == req_len(r, l->arg) &&
	       !memcmp(req_arg(r, k->arg), req_arg(r, l->arg), req_len(r, k->arg));
}

/* A name is listed once for each user who has such a key: CLUSTER GETKEYSINSLOT. */
static void drop_doubles(const struct request *r, struct leaving *l)
{
	uint32_t nr = 0;

	if (!l->nr_keys)
		return;
	qsort(l->keys, l->nr_keys, sizeof(*l->keys), by_hash);
	for (uint32_t i = 0; i < l->nr_keys; i++)
		if (!nr || !is_same(r, &l->keys[nr - 1], &l->keys[i]))
			l->keys[nr++] = l->keys[i];
	l->nr_keys = nr;
}

/* All users who have keys at this worker may have some of these. */
static void list_keys(struct worker *w, struct lock_job *job)
{
	const struct request *r = job->request;
	const struct migration *m = r->more;
	struct leaving *l = &job->leaving;
	uint64_t nr_bytes, nr_keys;

	for (uint32_t tenant = 0; tenant < OKV_NR_TENANTS && !job->is_too_much; tenant++) {
		okv_store_tenant_usage(w->store, tenant, &nr_bytes, &nr_keys);
		if (!nr_keys)
			continue;
		job->is_too_much = l->nr_keys + m->nr_keys > MAX_COPIES;
		if (job->is_too_much)
			break;
		l->keys = mem_grow(l->keys, (l->nr_keys + m->nr_keys) * sizeof(*l->keys));
		for (uint32_t i = 0; i < m->nr_keys; i++) {
			uint32_t arg = m->first_key + i;

			l->keys[l->nr_keys++] = (struct leaving_key){
				.arg = arg, .tenant = tenant,
				.hash = okv_store_hash_in(w->store, tenant, req_arg(r, arg),
							  req_len(r, arg), m->slot),
			};
		}
	}
	drop_doubles(r, l);
}

/* Another MIGRATE has some of the keys: this one comes again when they are gone, or stay. */
static bool waits(struct worker *w, struct lock_job *job)
{
	struct leaving *l = &job->leaving;
	uint32_t i = 0;

	while (i < l->nr_keys && !way_waits(w, &l->msg, l->keys[i].hash))
		i++;
	if (i == l->nr_keys)
		return false;
	mem_free(l->keys);
	l->keys = NULL;
	l->nr_keys = 0;
	return true;
}

static void lock_run(struct worker *w, struct kv_msg *msg)
{
	struct lock_job *job = (struct lock_job *)msg;

	if (!fair_admits(w, msg, &job->pass, job->request->tenant, job->leaving.partition, 1, 0))
		return;
	/* If the partition is about to move, those who need it would wait for the other node. */
	if (!w->routes[job->leaving.partition].paused) {
		list_keys(w, job);
		if (waits(w, job))
			return;
		job->is_locked = !job->is_too_much;
		if (job->is_locked)
			way_lock(w, &job->leaving);
	}
	/* A transaction that has begun may still have to get hold of these keys. */
	way_drain(w, msg);
}

static void locked(struct worker *home, struct kv_msg *msg)
{
	struct lock_job *job = (struct lock_job *)msg;
	struct request *r = job->request;
	struct migration *m = r->more;

	if (job->is_too_much) {
		mem_free(job->leaving.keys);
		mem_free(job);
		request_fail(r, "ERR too many keys, times users: at most %d", MAX_COPIES);
		return;
	}
	if (!job->is_locked) {
		job->pass = (struct fair_pass){ 0 };
		mover_send(home, msg, job->leaving.partition);
		return;
	}
	m->lock = &job->leaving;
	if (!m->lock->nr_keys) {
		reply_none(r);
		return;
	}
	r->submitting = false;
	request_ops(r, m->lock->nr_keys);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		key_op(r, i, &m->lock->keys[i], OKV_OP_GET)->want_value = true;
	r->step = values_read;
	request_submit(r);
}

static void lock(struct request *r)
{
	const struct migration *m = r->more;
	struct lock_job *job = mem_zalloc(sizeof(*job));

	job->request = r;
	job->leaving.partition = way_partition(r->conn->worker->server, m->slot);
	job->leaving.msg.run = lock_run;
	job->leaving.msg.done = locked;
	/* It has no operations yet: those of requests before it are not to go on with them. */
	r->submitting = true;
	mover_send(r->conn->worker, &job->leaving.msg, job->leaving.partition);
}

/* ---- what is asked ---- */

/* Reads the options. Returns NULL, or what is wrong with them. */
static const char *parse_options(const struct request *r, struct migration *m)
{
	for (uint32_t i = ARG_OPTIONS; i < req_nr(r); i++) {
		uint32_t nr_left = req_nr(r) - i - 1;

		if (req_is(r, i, "copy")) {
			m->copies = true;
		} else if (req_is(r, i, "replace")) {
			m->replaces = true;
		} else if ((req_is(r, i, "auth") && nr_left) ||
			   (req_is(r, i, "auth2") && nr_left > 1)) {
			m->auth = i + 1;
			m->nr_auth = req_is(r, i, "auth") ? 1 : 2;
			i += m->nr_auth;
		} else if (req_is(r, i, "keys") && nr_left && !req_len(r, ARG_KEY)) {
			m->first_key = i + 1;
			m->nr_keys = nr_left;
			break;
		} else {
			return "ERR syntax error";
		}
	}
	if (!m->nr_keys && req_len(r, ARG_KEY)) {
		m->first_key = ARG_KEY;
		m->nr_keys = 1;
	}
	return m->nr_keys ? NULL : "ERR syntax error";
}

/* The keys are of one slot, which is on its way to that node. Else the request has failed. */
static bool check_way(struct request *r, struct migration *m)
{
	const struct cluster *c = cluster_of(r);
	const struct cluster_node *node;
	int64_t port;

	m->slot = okv_slot(req_arg(r, m->first_key), req_len(r, m->first_key));
	for (uint32_t i = m->first_key + 1; i < m->first_key + m->nr_keys; i++) {
		if (okv_slot(req_arg(r, i), req_len(r, i)) != m->slot) {
			request_fail(r, "CROSSSLOT Keys in request don't hash to the same slot");
			return false;
		}
	}
	m->has_begun = way_migrate_begin(r->conn->worker->server, m->slot);
	if (!m->has_begun) {
		request_fail(r, "TRYAGAIN the way of slot %u ends", m->slot);
		return false;
	}
	if (!cluster_owns(c, m->slot) || !c->way[m->slot]) {
		request_fail(r, "ERR slot %u is not on its way to another node: CLUSTER SETSLOT "
			     "MIGRATING first", m->slot);
		return false;
	}
	node = &c->nodes[c->way[m->slot] - 1];
	if (!req_is(r, ARG_HOST, node->host) || !req_int(r, ARG_PORT, &port) ||
	    port != node->port) {
		request_fail(r, "ERR slot %u is on its way to %s:%u", m->slot, node->host,
			     node->port);
		return false;
	}
	/* A copy there, of a key that is here, is an older one of ours. */
	m->replaces |= way_is_in_doubt(r->conn->worker->server, m->slot);
	m->ship.host = req_arg(r, ARG_HOST);
	m->ship.port = port;
	return true;
}

static bool parse(struct request *r, struct migration *m)
{
	const char *wrong = parse_options(r, m);
	int64_t db, timeout_ms;

	if (!wrong && (!req_int(r, ARG_DB, &db) || !req_int(r, ARG_TIMEOUT, &timeout_ms)))
		wrong = "ERR value is not an integer or out of range";
	if (!wrong && db)
		wrong = "ERR DB index is out of range: there is only 0";
	if (wrong) {
		request_fail(r, "%s", wrong);
		return false;
	}
	if (timeout_ms <= 0)
		timeout_ms = TIMEOUT_MS;
	else if (timeout_ms > TIMEOUT_MS_MAX)
		timeout_ms = TIMEOUT_MS_MAX;
	/* From now on, as the keys are locked soon. */
	m->ship.until_ns = r->conn->worker->now_ns + timeout_ms * 1000000;
	return check_way(r, m);
}

static void start_migrate(struct request *r)
{
	struct migration *m;

	if (!cluster_of(r)) {
		request_fail(r, "ERR This instance has cluster support disabled");
		return;
	}
	if (!r->tenant->is_admin) {
		request_fail(r, "NOPERM a slot has the keys of all users: only an admin moves it");
		return;
	}
	m = mem_zalloc(sizeof(*m));
	r->more = m;
	r->end = end_migration;
	r->blocks = true;
	if (parse(r, m))
		lock(r);
}

const struct command migrate_commands[] = {
	{ "migrate", -6, CMD_WRITE | CMD_ALL_KEYS | CMD_HAS_SECRET, 0, 0, 0, start_migrate,
	  NULL },
	{ NULL },
};
