// SPDX-License-Identifier: GPL-2.0
/*
 * slots.c - CLUSTER COUNTKEYSINSLOT, GETKEYSINSLOT, FLUSHSLOT, SETSLOT, SETMAP
 *
 *	CLUSTER SETSLOT SLOT IMPORTING | MIGRATING | NODE ID
 *	CLUSTER SETSLOT SLOT STABLE
 *	CLUSTER FLUSHSLOT SLOT
 *	CLUSTER SETMAP TEXT
 *
 * The keys of a slot are walked over in its partition, step by step: others get their turn in
 * between. A user sees the own keys, an admin those of all users, as slots move with the keys of
 * all. NODE, for a slot that leaves, first walks over its keys: there must be none, of no user. So
 * does IMPORTING: keys that an earlier move has left would come to light.
 *
 * cluster/map.c says what may become what. SETMAP replaces the whole map, as a file at SIGHUP does.
 */
#include <inttypes.h>
#include <stdio.h>

#include "server/command.h"
#include "server/mover.h"
#include "server/tenant.h"
#include "slots.h"
#include "store/mem.h"
#include "way.h"

enum {
	ARG_SLOT = 2, ARG_WHAT = 3, ARG_ID = 4,
	ARG_TEXT = 2,
	MAX_SLOT_KEYS	= 1000,		/* of GETKEYSINSLOT */
};

#define SLOT_LEFT_OUT "CORRUPT keys of this slot are damaged, or are not served"

/* ---- walks ---- */

bool walk_slot(struct request *r, uint32_t i, uint32_t *slot)
{
	int64_t number;

	if (!req_int(r, i, &number) || number < 0 || number >= OKV_NR_SLOTS) {
		request_fail(r, "ERR Invalid or out of range slot");
		return false;
	}
	*slot = number;
	return true;
}

struct job *walk_of(struct request *r, uint32_t slot)
{
	struct job *job;

	request_jobs(r, 1);
	job = r->jobs;
	job->partition = way_partition(r->conn->worker->server, slot);
	job->scan = (struct okv_scan){
		.tenant = r->tenant->is_admin ? OKV_ALL_TENANTS : r->tenant->id,
		.slot = slot + 1, .ioprio = r->tenant->ioprio, .owner = job,
	};
	return job;
}

static void count_go_on(struct worker *w, struct kv_msg *msg);

static void count_step(struct worker *w, struct job *job)
{
	const struct okv_partition *p = okv_store_partition(w->store, job->partition);

	job->nr_keys += okv_partition_count(p, job->scan.slot - 1, job->scan.tenant,
					    &job->scan.cursor);
	if (job->scan.cursor)
		job_walk_later(job, count_go_on);
	else
		job_scan_done(job);
}

static void count_go_on(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	if (job_walk_admits(w, job))
		count_step(w, job);
}

static void count_run(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	if (!job_walk_admits(w, job))
		return;
	if (job_walk_begin(w, job)) {
		count_step(w, job);
		return;
	}
	job->status = OKV_CORRUPT;
	job_scan_done(job);
}

/*
 * The keys of a slot that comes here are not counted before it is here: valkey-cli --cluster fix
 * takes any node with keys for an owner of the slot. Else it moves on what has stopped half way.
 */
void walk_count_start(struct request *r)
{
	uint32_t slot;

	if (!walk_slot(r, ARG_SLOT, &slot))
		return;
	if (way_of(r->conn->worker->server, slot, true) == WAY_COMES) {
		resp_int(&r->out, 0);
		request_done(r);
		return;
	}
	walk_of(r, slot);
	request_send_walk(r, 0, count_run);
}

void walk_count_finish(struct request *r)
{
	if (r->jobs->status == OKV_OK)
		resp_int(&r->out, r->jobs->nr_keys);
	else
		resp_error(&r->out, SLOT_LEFT_OUT);
}

static void keys_go_on(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;

	if (!job_walk_admits(w, job))
		return;
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
	job->nr_found++;
	if (!scan->nr_max)
		return;
	scan->nr_max--;
	job->nr++;
	resp_bulk(&job->out, key, key_len);
}

void walk_keys_start(struct request *r)
{
	uint32_t slot;
	int64_t count;
	struct job *job;

	if (!walk_slot(r, ARG_SLOT, &slot))
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
void walk_keys_finish(struct request *r)
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

/* ---- FLUSHSLOT ---- */

static void end_flush(struct request *r)
{
	way_flush_end(r->conn->worker->server);
}

/* Nobody can reach the keys of a slot that is elsewhere: a move that was given up has left them. */
void flush_slot_start(struct request *r)
{
	struct server *s = r->conn->worker->server;
	uint32_t slot;

	if (!r->tenant->is_admin) {
		request_fail(r, "NOPERM a slot has the keys of all users: only an admin deletes "
			     "them");
		return;
	}
	if (!walk_slot(r, ARG_SLOT, &slot))
		return;
	if (!way_flush_begin(s)) {
		request_fail(r, "TRYAGAIN the map changes");
		return;
	}
	r->end = end_flush;
	if (way_of(s, slot, true) != WAY_ELSEWHERE) {
		request_fail(r, "ERR slot %u is here, or on its way here: clients use its keys",
			     slot);
		return;
	}
	walk_of(r, slot);
	request_flush(r, 0);
}

/* ---- SETSLOT ---- */

static const struct {
	const char *word;
	enum cluster_change what;
	uint32_t nr_args;
} words[] = {
	{ "importing", CLUSTER_IMPORTING, 5 }, { "migrating", CLUSTER_MIGRATING, 5 },
	{ "node", CLUSTER_NODE, 5 }, { "stable", CLUSTER_STABLE, 4 },
};
#define NR_WORDS (sizeof(words) / sizeof(words[0]))

static struct cluster *cluster_of(const struct request *r)
{
	return r->conn->worker->server->cluster;
}

/* Whether the node must have no keys of the slot. */
static bool needs_look(const struct cluster *c, const struct slot_order *o)
{
	if (o->what == CLUSTER_IMPORTING)
		return !cluster_owns(c, o->slot) && !c->way[o->slot];
	return o->what == CLUSTER_NODE && cluster_owns(c, o->slot) && c->way[o->slot] &&
	       cluster_find(c, o->id, o->id_len) != c->self;
}

static void change(struct slot_order *o, struct cluster *c)
{
	uint32_t node = o->id ? cluster_find(c, o->id, o->id_len) : 0;

	if (node == c->nr_nodes)
		snprintf(o->why, sizeof(o->why), "ERR Unknown node %.*s",
			 (int)(o->id_len < CLUSTER_ID_LEN ? o->id_len : CLUSTER_ID_LEN), o->id);
	else if (needs_look(c, o) && o->version != c->version)
		snprintf(o->why, sizeof(o->why), "TRYAGAIN the map has changed meanwhile");
	else
		o->is_good = cluster_change(c, o->slot, o->what, node, o->why, sizeof(o->why));
}

static struct cluster *changed(struct slot_order *o, const struct cluster *old)
{
	struct cluster *fresh = cluster_copy(old);

	change(o, fresh);
	return fresh;
}

/* NULL: it cannot be read. */
static struct cluster *replaced(struct slot_order *o, const struct cluster *old)
{
	char why[200];
	struct cluster *fresh = cluster_parse(o->text, o->text_len, old->nodes[old->self].id, why,
					      sizeof(why));

	if (!fresh) {
		snprintf(o->why, sizeof(o->why), "ERR %s", why);
		return NULL;
	}
	if (fresh->epoch <= old->epoch) {
		snprintf(o->why, sizeof(o->why), "ERR the epoch is %" PRIu64 ", not above %" PRIu64,
			 fresh->epoch, old->epoch);
		return fresh;
	}
	o->is_good = cluster_follows(fresh, old, why, sizeof(why));
	if (o->is_good)
		cluster_keep_ways(fresh, old);
	else
		snprintf(o->why, sizeof(o->why), "ERR %s", why);
	return fresh;
}

struct cluster *slot_order_apply(struct slot_order *o, struct server *s)
{
	const struct cluster *old = s->cluster;
	struct cluster *fresh;

	o->is_good = false;
	fresh = o->text ? replaced(o, old) : changed(o, old);
	if (o->is_good && way_change_begin(s, fresh, o->why, sizeof(o->why)))
		return fresh;
	o->is_good = !o->is_good && o->text && fresh && cluster_is_same(fresh, old);
	cluster_free(fresh);
	return NULL;
}

static void end_order(struct request *r)
{
	mem_free(r->more);
}

static void reply_ok(struct request *r)
{
	resp_simple(&r->out, "OK");
	request_done(r);
}

static void drained(struct worker *home, struct kv_msg *msg)
{
	(void)home;
	reply_ok(((struct slot_order *)msg)->request);
}

static void order_done(struct worker *home, struct kv_msg *msg)
{
	struct slot_order *o = (struct slot_order *)msg;

	if (!o->is_good) {
		request_fail(o->request, "%s", o->why);
	} else if (!o->text && o->what == CLUSTER_MIGRATING) {
		o->msg.run = way_drain;
		o->msg.done = drained;
		mover_send(home, &o->msg, way_partition(home->server, o->slot));
	} else {
		reply_ok(o->request);
	}
}

/* Without another thread. */
static void keep_here(struct worker *w, struct slot_order *o)
{
	struct server *s = w->server;
	struct cluster *fresh = slot_order_apply(o, s);

	if (fresh) {
		cluster_free(s->cluster);
		s->cluster = fresh;
		way_change_end(s);
	}
	order_done(w, &o->msg);
}

static void give_order(struct request *r)
{
	struct worker *w = r->conn->worker;
	struct slot_order *o = r->more;

	o->msg.done = order_done;
	o->msg.home = w->id;
	o->msg.returning = true;
	if (!w->keep)
		keep_here(w, o);
	else if (!w->keep(w, &o->msg))
		request_fail(r, "TRYAGAIN too many changes of the map wait");
}

/* ---- a slot of which there must be no keys ---- */

static void has_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		    uint64_t expire_ms)
{
	struct job *job = scan->owner;

	(void)key, (void)key_len, (void)value_len, (void)expire_ms;
	job->nr++;
	job->nr_found++;
}

static void looked(struct okv_scan *scan)
{
	struct job *job = scan->owner;

	if (scan->status != OKV_OK)
		job->status = scan->status;
	if (scan->cursor && !job->nr)
		job_walk_later(job, keys_go_on);
	else
		job_scan_done(job);
}

static void end_look(struct request *r)
{
	const struct slot_order *o = r->more;

	if (r->jobs->nr)
		request_fail(r, "ERR slot %u has keys here: %s", o->slot,
			     o->what == CLUSTER_NODE ? "MIGRATE them first" :
			     "if they are of no use, CLUSTER FLUSHSLOT deletes them");
	else if (r->jobs->status != OKV_OK)
		request_fail(r, "CORRUPT slot %u has keys here that cannot be read", o->slot);
	else
		give_order(r);
}

static void look(struct worker *home, struct kv_msg *msg)
{
	struct slot_order *o = (struct slot_order *)msg;
	struct request *r = o->request;
	struct job *job = walk_of(r, o->slot);

	(void)home;
	r->step = end_look;
	job->scan.nr_max = 1;
	job->scan.key = has_key;
	job->scan.done = looked;
	request_send_scan(r, 0);
}

/* What has begun by an older map may still make a key. */
static void look_for_keys(struct request *r)
{
	struct slot_order *o = r->more;

	o->version = cluster_of(r)->version;
	o->msg.run = way_drain;
	o->msg.done = look;
	mover_send(r->conn->worker, &o->msg, way_partition(r->conn->worker->server, o->slot));
}

/* ---- all of them ---- */

static struct slot_order *parse(struct request *r)
{
	struct slot_order *o;
	uint32_t slot, i = 0;

	if (!walk_slot(r, ARG_SLOT, &slot))
		return NULL;
	while (i < NR_WORDS && !req_is(r, ARG_WHAT, words[i].word))
		i++;
	if (i == NR_WORDS || req_nr(r) != words[i].nr_args) {
		request_fail(r, "ERR Invalid CLUSTER SETSLOT action or number of arguments");
		return NULL;
	}
	o = mem_zalloc(sizeof(*o));
	o->slot = slot;
	o->what = words[i].what;
	if (req_nr(r) > ARG_ID) {
		o->id = req_arg(r, ARG_ID);
		o->id_len = req_len(r, ARG_ID);
	}
	return o;
}

static void begin_order(struct request *r, struct slot_order *o)
{
	o->request = r;
	r->more = o;
	r->end = end_order;
	r->blocks = true;
	/* It has no operations: those of requests before it are not to go on with them. */
	r->submitting = true;
}

void set_slot_start(struct request *r)
{
	struct slot_order *o;

	if (!r->tenant->is_admin) {
		request_fail(r, "NOPERM a slot has the keys of all users: only an admin moves it");
		return;
	}
	if (req_nr(r) <= ARG_WHAT) {
		request_fail(r, "ERR wrong number of arguments for 'cluster|setslot' command");
		return;
	}
	o = parse(r);
	if (!o)
		return;
	begin_order(r, o);
	if (needs_look(cluster_of(r), o))
		look_for_keys(r);
	else
		give_order(r);
}

void set_map_start(struct request *r)
{
	struct slot_order *o;

	if (!r->tenant->is_admin) {
		request_fail(r, "NOPERM the map is that of all users: only an admin changes it");
		return;
	}
	o = mem_zalloc(sizeof(*o));
	o->text = req_arg(r, ARG_TEXT);
	o->text_len = req_len(r, ARG_TEXT);
	begin_order(r, o);
	give_order(r);
}
