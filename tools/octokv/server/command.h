/* SPDX-License-Identifier: GPL-2.0 */
/*
 * command.h - requests: what a command asks of the store, and its reply
 *
 * A command of the table has a start(). It replies at once, or it gives the request operations
 * (request_ops()) or jobs (request_jobs()). When all of those are done, finish() writes the reply.
 * Operations go to the worker that owns the partition of their key. A job goes to one worker and
 * may do there what it likes.
 *
 * A request with many keys has a few operations under way at a time, so that what one request holds
 * is bounded. The connection takes no further input until all of them are on their way, and while
 * the request has jobs: a later request of the client must not overtake it.
 */
#ifndef OKV_COMMAND_H
#define OKV_COMMAND_H

#include "client.h"
#include "fair/fair.h"
#include "metrics.h"
#include "resp.h"
#include "server.h"

struct auth;
struct request;
struct kv_op;
struct multi_txn;
struct slow_entry;
struct crossing;

enum {
	REQUEST_MAX_FLYING	= 32,
	REQUEST_MAX_REPLY_BYTES	= 64 << 20,
};

#define REQUEST_LEFT_OUT "CORRUPT the partition of this key is damaged, and not served"
#define CUT_OFF "the device does not answer, and another host may have it"
#define REQUEST_CUT_OFF "TRYAGAIN " CUT_OFF
/* Clients of a cluster ask another node for the map then. */
#define CLUSTER_CUT_OFF "CLUSTERDOWN " CUT_OFF

enum command_flags {
	CMD_WRITE	= 1 << 0,
	CMD_NO_AUTH	= 1 << 1,	/* a stranger may */
	CMD_ENDS_MULTI	= 1 << 2,	/* runs at once between MULTI and EXEC, too */
	CMD_IN_MULTI	= 1 << 3,	/* may be kept for EXEC; so may all that have keys */
	CMD_ALL_KEYS	= 1 << 6,	/* looks at keys that are not among its arguments */
	CMD_ASKING	= 1 << 7,	/* as if ASKING were before it */
	CMD_HAS_SECRET	= 1 << 8,	/* it may have a password: it is not in the slow log */
	/* For cmd_copy.c: */
	CMD_REMOVES_SOURCE	= 1 << 4,
	CMD_KEEPS_TARGET	= 1 << 5,	/* if there is one */
};

struct command {
	const char *name;
	int16_t arity;			/* with the name; negative: at least so many */
	uint16_t flags;
	int8_t first_key, last_key, key_step;
	void (*start)(struct request *r);
	void (*finish)(struct request *r);
};

/*
 * One operation on a key. The update callbacks run at the owner of the key, and touch nothing but
 * this and the command of the request.
 */
struct kv_op {
	struct kv_msg msg;
	struct okv_op op;
	struct request *request;
	uint32_t partition;
	uint32_t txn_key;		/* its index in a transaction */
	uint64_t sent_ns, returned_ns;	/* from home, by the owner */
	uint64_t queued_ns;		/* on its way to the owner, and there until it began */
	struct fair_pass pass;
	bool want_value;		/* copy what the operation gives */
	struct resp_chunk *value;	/* the copy */
	uint32_t held_bytes;		/* what it held of a value */
	char *fresh;			/* what an update made */
	int64_t number;			/* INCR: by how much, then the result */
	long double real;		/* INCRBYFLOAT: by how much */
	uint16_t how;			/* of the command's own */
	uint32_t compared;		/* SET IFEQ: the argument with the old value */
	bool no_new_key;		/* the tenant has as many as it may */
	bool holds_key;			/* a new key is set aside, if the tenant has a bound */
	/* UPDATE: how long a new value may become, or by how much an old one may grow. */
	uint32_t adds_bytes;
	uint64_t holds_bytes;		/* set aside for it */
	const char *complaint;		/* why an update refused */
	/* In a cluster: way.h. */
	bool may_be_away;		/* if the key is not here, it may be at another node */
	uint8_t turn;
	enum okv_status (*update)(struct okv_op *op);
};

/* The bytes of a value that an operation has read, or is to write: the more of both. */
static inline uint32_t kv_op_bytes(const struct okv_op *op)
{
	return op->out && op->out_len > op->value_len ? op->out_len : op->value_len;
}

struct job {
	struct kv_msg msg;
	struct request *request;
	uint32_t partition;
	uint32_t nr;
	uint32_t nr_pending;
	struct okv_scan scan;
	struct okv_op clear;
	struct fair_pass pass;		/* of a step of a walk */
	uint32_t nr_found;		/* keys, in this step */
	enum okv_status status;		/* of the steps of a walk so far */
	struct okv_stats stats;
	struct resp_out out;
	uint64_t nr_keys;
	struct slow_entry *slow;
};

struct request {
	struct request *next;
	struct conn *conn;
	struct tenant *tenant;		/* the tenant that it is counted for */
	const struct command *command_of;
	uint32_t command_number;
	struct resp_command command;
	struct resp_out out;
	struct kv_op *ops;
	struct job *jobs;
	uint32_t nr_ops, nr_next, nr_flying;
	uint64_t reply_bytes;
	uint64_t held_bytes;		/* the command and its operations, for the connection */
	bool submitting;
	bool done;
	bool has_token;			/* of a tenant with a bound on requests */
	bool is_kept;			/* for EXEC: its operations are not sent */
	bool asking;			/* the client has been sent here by ASK */
	int32_t slot;			/* of its keys, in a cluster; -1: they have none */
	uint32_t nr_slot_keys;
	bool blocks;			/* until it is done */
	struct multi_txn *txn;		/* of EXEC */
	void (*end)(struct request *r);	/* frees what the command has */
	/* Instead of finish(), if it is set: it submits the next operations, or is done. */
	void (*step)(struct request *r);
	struct crossing *crossing;	/* of COPY and RENAME over partitions */
	void *more;			/* of SETSLOT and MIGRATE */
	uint32_t source;		/* RESTORE-ASKING: the argument with a node's ID; 0: none */
	uint64_t shipment;		/* from there */
	uint32_t unpacked_bytes;	/* what RESTORE has made of its command */
	struct auth *auth;		/* a password that is being checked */
	bool is_started;		/* it was not refused before it ran */
	uint64_t begun_ns;
	uint32_t stage_us[NR_STAGES];	/* for the slow log */
	struct kv_op one;		/* most requests have one operation: this */
};

struct request *request_new(struct conn *c);

/* How much memory its command and its operations take, without their values. */
static inline uint64_t request_held_bytes(const struct request *r)
{
	const struct resp_command *c = &r->command;

	return c->cap_bytes + c->cap_args * sizeof(*c->args) + r->unpacked_bytes +
	       (r->ops && r->ops != &r->one ? r->nr_ops * sizeof(*r->ops) : 0);
}

void request_free(struct request *r);

/*
 * cluster/cmd_cluster.c: whether this node has the slot of all keys of the request. If not, the
 * request has been refused: MOVED, with the node that has it, CROSSSLOT or CLUSTERDOWN.
 */
bool cluster_takes(struct request *r);

/*
 * Several keys of a slot on its way are written in one step, or not at all: multi_run(). So is a
 * key of a slot in doubt, as this looks at what is there.
 */
bool cluster_wants_step(const struct request *r);

/* The request fails, since another host may have the device. */
void request_refuse_old(struct request *r);

/* Whether the next request has to wait. */
static inline bool request_is_sending(const struct request *r)
{
	return !r->done && (r->jobs || r->auth || r->txn || r->blocks ||
			    (r->ops && r->nr_next < r->nr_ops));
}

static inline void request_start(struct request *r)
{
	r->is_started = true;
	r->command_of->start(r);
}

/* Replies with all of @text, and takes it. */
void request_reply_text(struct request *r, struct resp_out *text);

/* Where the time of its last operation went. */
void request_stages(struct request *r, uint64_t queued_ns, const struct okv_stages *stages,
		    uint64_t returned_ns);

/* The address of the peer with its port; unix:0 for one that came through a path. */
void conn_address(const struct conn *c, char *text, size_t bytes);

/* Names are for people and appear in lists: no blanks, nothing unprintable. False: it has some. */
bool conn_keep_name(char *to, const char *name, size_t len);

/* Counts a request whose reply is complete: metrics.h. */
void request_count(struct request *r);

/* The reply is in r->out. */
void request_done(struct request *r);

/* A reply without a store: text of an error, and done. */
__attribute__((format(printf, 2, 3))) void request_fail(struct request *r, const char *format, ...);

/*
 * @nr operations, zeroed. Fill them in with request_key() and the rest that they need, then call
 * request_submit().
 */
void request_ops(struct request *r, uint32_t nr);
struct kv_op *request_key(struct request *r, uint32_t i, uint32_t arg, enum okv_op_kind kind);
void request_submit(struct request *r);

/*
 * For a callback, at the owner: sets aside @len bytes more for the operation. False: the tenant has
 * no more; the complaint says so.
 */
bool request_hold_value(struct kv_op *kv, uint32_t len);

/*
 * Our partition with the current time: keys that have expired since its last tick are gone. NULL:
 * it is damaged, and not served.
 */
struct okv_partition *request_partition(struct worker *w, uint32_t partition);

/*
 * @nr jobs, zeroed. request_send_job() sends job i to a worker, where @run does it, and calls
 * worker_return() when it is done.
 */
void request_jobs(struct request *r, uint32_t nr);
void request_send_job(struct request *r, uint32_t i, uint32_t worker,
		      void (*run)(struct worker *w, struct kv_msg *msg));

/* A job for each worker; that of our own comes last. */
void request_to_all_workers(struct request *r, void (*run)(struct worker *w, struct kv_msg *msg));

/*
 * Job i walks over its partition, at the owner. It does so by @run, which is to call
 * job_walk_admits() and job_walk_begin(), or by steps of its scan. job_scan_done() ends it there.
 */
void request_send_walk(struct request *r, uint32_t i,
		       void (*run)(struct worker *w, struct kv_msg *msg));
void request_send_scan(struct request *r, uint32_t i);
void job_scan_done(struct job *job);

/* Job i deletes what its scan finds. flush_finish() replies. */
void request_flush(struct request *r, uint32_t i);
void flush_finish(struct request *r);

/* Whether the next step may begin; if not, run() comes again. It is to count what it finds. */
bool job_walk_admits(struct worker *w, struct job *job);

/* The partition does not move until job_scan_done(). NULL: it is damaged, and not served. */
struct okv_partition *job_walk_begin(struct worker *w, struct job *job);

/* At the owner: calls @run later, so that others get their turn. */
void job_walk_later(struct job *job, void (*run)(struct worker *w, struct kv_msg *msg));

/*
 * Replies with the error that the status of @op stands for; false: the status is no error.
 * NOT_FOUND and EXISTS are none.
 */
bool request_status(struct request *r, const struct kv_op *op);

static inline const char *req_arg(const struct request *r, uint32_t i)
{
	return resp_arg(&r->command, i);
}

static inline uint32_t req_len(const struct request *r, uint32_t i)
{
	return resp_arg_len(&r->command, i);
}

static inline uint32_t req_nr(const struct request *r)
{
	return r->command.nr_args;
}

static inline bool req_is(const struct request *r, uint32_t i, const char *word)
{
	return resp_arg_is(&r->command, i, word);
}

/* So much of an argument is shown in an error. */
static inline int request_shown(const struct request *r, uint32_t i)
{
	return req_len(r, i) < 64 ? req_len(r, i) : 64;
}

static inline bool req_int(const struct request *r, uint32_t i, int64_t *value)
{
	return resp_parse_int(req_arg(r, i), req_len(r, i), value);
}

/* A shell pattern: * ? [a-z] [^a] \x. */
bool glob_match(const char *pattern, size_t pattern_len, const char *text, size_t len);

/*
 * The tables, each ended by a NULL name: commands on keys in cmd_keys.c, the scripts of a lock in
 * cmd_lock.c, those on bits in cmd_bits.c, values that go from key to key in cmd_copy.c,
 * transactions in cmd_multi.c, CLIENT and what admins need in cmd_admin.c, those of a cluster in
 * cluster/, all others in cmd_server.c.
 */
extern const struct command key_commands[];
extern const struct command cluster_commands[];
extern const struct command migrate_commands[];
extern const struct command lock_commands[];
extern const struct command bit_commands[];
extern const struct command copy_commands[];
extern const struct command multi_commands[];
extern const struct command admin_commands[];
extern const struct command server_commands[];

const struct command *command_find(const char *name, size_t len);

/* Commands have numbers, from 0: command_find() with the number, and its reverse. */
const struct command *command_lookup(const char *name, size_t len, uint32_t *number);
const struct command *command_at(uint32_t number);	/* NULL: there are not so many */

#endif
