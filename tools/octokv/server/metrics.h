/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics.h - what a worker counts of requests, by tenant, command and stage; its slow log
 *
 * INFO, LATENCY, the slow log and the Prometheus page say the same because all of them are made of
 * these counters. Each worker has its own, a set for each tenant that it has served, in memory of
 * their own. Only the worker writes them, with relaxed stores. Any thread may read them, and sums
 * over workers and tenants as it needs them.
 *
 * Time is that of the worker's round (worker.now_ns). It is read once per round, for all that
 * happens there, so a time is exact to the length of a round: some microseconds, or more under
 * load. What begins and ends in one round takes no time.
 *
 * The stages of a request:
 *
 *	token	it waits for its turn, as its tenant is at the limit of requests
 *	queue	it is on its way to the reactor that owns the key, and waits for its turn there
 *	lock	it waits for operations on the same key
 *	read	the device reads the record
 *	log	it waits for room in the log, and for its write to be durable
 *	return	it is on its way back
 *	send	the socket takes replies
 *
 * A stage counts where it was: at the reactor that owns the key for queue, lock, read and log, else
 * at that of the connection. An operation that ends before a stage is not counted there, and
 * neither is the way of one that stays at its reactor. Sends are counted, not replies: one may have
 * many.
 *
 * The slow log says which commands took long, and where their time went. Each worker keeps the
 * newest commands of its connections that took --slowlog-slower-than-us or longer, at most
 * --slowlog-len of them. SLOWLOG GET (cmd_admin.c) shows the newest of all workers. A tenant sees
 * its own commands, an admin sees all. Commands that a stranger may give, such as AUTH, are never
 * kept: they have passwords.
 *
 * An entry has the six parts that clients know. The time in each stage is one more text behind the
 * arguments, in the form in which arguments that are left out are announced there, so that every
 * client can read it.
 */
#ifndef OKV_METRICS_H
#define OKV_METRICS_H

#include "server.h"

enum {
	/* The first is for up to 1 us; each further one for up to twice the one before. */
	HISTOGRAM_BUCKETS	= 26,
	MAX_COMMANDS	= 128,
	NO_TENANT	= OKV_NR_TENANTS,	/* the set of those that have not logged in */
};

enum stage {
	STAGE_TOKEN, STAGE_QUEUE, STAGE_LOCK, STAGE_READ, STAGE_LOG, STAGE_RETURN, STAGE_SEND,
	NR_STAGES,
};

extern const char *const stage_names[NR_STAGES];

/* By the first word of the error. */
enum { NR_ERROR_KINDS = 19 };
extern const char *const error_names[NR_ERROR_KINDS];

struct histogram {
	uint64_t nr[HISTOGRAM_BUCKETS];	/* the last one: all that took longer */
	uint64_t sum_ns;
};

/* @times: from the request to its reply; those that were rejected are not in it */
struct command_metrics {
	struct histogram times;
	uint64_t nr_rejected;		/* refused before it ran */
	uint64_t nr_failed;		/* ran, and replied an error */
};

struct tenant_metrics {
	struct histogram stages[NR_STAGES];
	uint64_t bytes_in, bytes_out;
	uint64_t errors[NR_ERROR_KINDS];
	struct command_metrics *commands[MAX_COMMANDS];	/* NULL: not used yet */
};

/* ---- histograms ---- */

static inline uint32_t histogram_bucket(uint64_t ns)
{
	uint64_t us = (ns + 999) / 1000;
	uint32_t bucket = us <= 1 ? 0 : 64 - __builtin_clzll(us - 1);

	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The longest time in a bucket, but for the last one. */
static inline uint64_t histogram_bound_us(uint32_t bucket)
{
	return 1ULL << bucket;
}

static inline uint64_t histogram_nr(const struct histogram *h)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		nr += h->nr[i];
	return nr;
}

/* The upper end of the bucket that has the @ppm-th millionth; 0: it is empty. */
uint64_t histogram_us(const struct histogram *h, uint32_t ppm);

/* ---- at the worker ---- */

/* @now_ns may be older than @then_ns: two workers have begun their rounds at different times. */
static inline uint64_t passed_ns(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

void metrics_stage(struct worker *w, uint32_t tenant, enum stage stage, uint64_t ns);
/* Those that an operation was in. */
void metrics_store_stages(struct worker *w, uint32_t tenant, const struct okv_stages *stages);
void metrics_bytes(struct worker *w, uint32_t tenant, uint64_t in, uint64_t out);

enum outcome { OUTCOME_GOOD, OUTCOME_FAILED, OUTCOME_REJECTED };

/* The reply to command number @command is complete, after @ns. */
void metrics_command(struct worker *w, uint32_t tenant, uint32_t command, enum outcome outcome,
		     uint64_t ns);

/* An error was replied; @text begins with its kind. */
void metrics_error(struct worker *w, uint32_t tenant, const char *text, size_t len);

/* All counters of requests begin again. */
void metrics_reset(struct worker *w);
void metrics_free(struct worker *w);

/* ---- from any thread ---- */

/* Which counters: those of a worker, or of all; of a tenant, or of all. */
enum { ALL_WORKERS = -1, ALL_TENANTS = -1 };
struct scope {
	const struct server *server;
	int worker, tenant;
};

/* @sums, of MAX_COMMANDS, and @sum are set to the sums over what is in scope. */
void metrics_commands(struct scope scope, struct command_metrics *sums);
void metrics_tenant(struct scope scope, struct tenant_metrics *sum);

/*
 * What the store counts, which only the owner of a partition can ask: published some times a
 * second, by partition, so that a partition that moves is counted once.
 */
void metrics_publish(struct worker *w);
void metrics_store(const struct server *s, struct okv_stats *sum);

/* ---- the slow log ---- */

enum {
	SLOWLOG_LEN_DEFAULT	= 128,
	SLOWLOG_LEN_MAX		= 4096,
	SLOWLOG_US_DEFAULT	= 10000,
	SLOWLOG_NAME_BYTES	= 64,		/* with the 0, as those of connections */
};

/* What is kept of a command: @stage_us has NR_STAGES. */
struct slow_command {
	uint16_t tenant;
	uint64_t us;
	const struct resp_command *command;
	const uint32_t *stage_us;
	const char *address, *name;
};

/* texts: each has its length (uint32_t) before it */
struct slow_entry {
	struct slow_entry *older, *newer;
	uint64_t id, at_ns, at_ms, us;
	uint16_t tenant;
	char address[SLOWLOG_NAME_BYTES];
	char name[SLOWLOG_NAME_BYTES];
	uint32_t nr_texts;
	uint32_t bytes;			/* of all texts with their lengths */
	char texts[];
};

struct slow_log {
	struct slow_entry *newest, *oldest;
	uint32_t nr;
	uint64_t next_id;
};

/* Whether a command that took @us is kept. */
static inline bool slowlog_wants(const struct config *config, uint64_t us)
{
	int64_t slow_us = __atomic_load_n(&config->slow_us, __ATOMIC_RELAXED);

	return slow_us >= 0 && us >= (uint64_t)slow_us;
}

void slowlog_add(struct worker *w, const struct slow_command *command);
void slowlog_drop(struct slow_log *log, struct slow_entry *e);
void slowlog_free(struct worker *w);

#endif
