/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server.h - what the parts of octokvd share: workers, their mail, their counters
 *
 * A worker is a reactor seen without its ring: the connections it serves, the partitions it owns,
 * the counters that only it writes. All that happens in a worker happens in its one thread. A
 * message (kv_msg) carries work from one worker to another: run() is called at the target, done()
 * back at home. If home and target are the same worker, both are plain calls. The sender keeps the
 * message alive until done(), and reads nothing in it that run() may write in the meantime.
 *
 * This file does not say how mail travels: reactor.c has mailboxes and MSG_RING, unit tests have
 * one worker and no mail.
 */
#ifndef OKV_SERVER_H
#define OKV_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "balancer.h"
#include "resp.h"
#include "store/store.h"

struct cluster;
struct conn;
struct fair;
struct leaving;
struct monitor;
struct monitor_watch;
struct tenant;
struct tenants;
struct worker;
struct move;
struct net;
struct slow_log;
struct tenant_metrics;
struct turn;
struct way_use;

enum {
	MAX_WORKERS		= 64,
	MAX_PARTITIONS		= OKV_PARTITIONS_MAX,
	MAX_KEY_BYTES		= OKV_KEY_BYTES_MAX,
	MAX_VALUE_BYTES		= OKV_VALUE_BYTES_MAX,
	DEFAULT_PORT		= 6379,
};

enum counter {
	COUNT_CONNECTIONS, COUNT_REFUSED, COUNT_TIMEOUTS, COUNT_COMMANDS, COUNT_ERRORS, COUNT_HITS,
	COUNT_MISSES, COUNT_BYTES_IN, COUNT_BYTES_OUT, COUNT_NETWORK, COUNT_STORE, COUNT_DISK,
	COUNT_MAIL, COUNT_WAKES, COUNT_BUSY_NS, COUNT_MIGRATED, COUNT_WRONG_PASSWORDS,
	NR_COUNTERS,
};

struct kv_msg {
	struct kv_msg *next;
	void (*run)(struct worker *at, struct kv_msg *msg);
	void (*done)(struct worker *home, struct kv_msg *msg);
	uint16_t home;
	uint16_t target;
	bool returning;
};

struct config {
	const char *data;
	const char *bind;
	const char *users;
	const char *cluster;		/* the file with the map, or NULL */
	const char *save_to;		/* the file of BGSAVE, or NULL */
	const char *cannot_save;	/* why there is no BGSAVE nevertheless, or NULL */
	uint16_t port;
	int unix_fd;			/* listens on a path; -1: none */
	uint32_t max_connections;
	uint32_t max_connections_limit;	/* what the limit of open files allows */
	uint32_t idle_timeout_s;	/* a connection that asks nothing; 0: never */
	uint32_t stall_timeout_s;	/* half a command, or replies that are not read */
	uint64_t memory_bytes;		/* the limit */
	bool has_journals;		/* they are used */
	bool can_clear;			/* FLUSHALL is one record for each partition */
	bool serves_damaged;		/* the partitions that are whole, if some are not */
	bool ends_on_error;		/* instead of refusing writes until the device is back */
	bool trims;			/* tells the device what is free */
	uint32_t nr_known;		/* records of a partition whose keys are in memory */
	int64_t slow_us;		/* commands that took it are in the slow log; -1: none */
	uint32_t nr_slow;		/* its length */
};

struct server {
	struct config config;
	struct balancer_config balancer;
	uint32_t nr_strangers;		/* atomic: connections that have not logged in */
	uint32_t monitor;		/* atomic: the worker that decides after the window */
	struct monitor *fairness;	/* fair/monitor.h; NULL: there is none */
	bool is_fair;			/* atomic: operations wait for their turn (fair/fair.h) */
	struct tenants *tenants;
	struct cluster *cluster;	/* NULL: this is no node of one */
	struct way_use *way_use;	/* of the slots of a node: cluster/way.h */
	struct worker *workers[MAX_WORKERS];
	uint32_t nr_workers;
	uint32_t nr_listening;		/* workers 0 .. nr_listening - 1 have connections */
	uint32_t nr_partitions;
	uint32_t nr_left_out;		/* atomic: damaged ones, which are not served */
	/* Is the device this host's, for certain? If not, what is known may be old. NULL: it is. */
	bool (*is_sure)(void);
	uint64_t started_ms;
	bool serves;			/* atomic: recovery is over */
	struct okv_stats *published;	/* by partition: metrics.h */
	/* Of worker 0: RENAMEs over partitions, the first of which goes on (cmd_copy.c). */
	struct turn *turns, *last_turn;
	bool turn_is_passed;
	/* Atomic: clients that have shaken hands for TLS, that could not, and the certificate. */
	uint64_t nr_tls, nr_tls_failed;
	int64_t tls_until_s;		/* Unix time; 0: there is no TLS */
	/* Atomic, of dumps while it serves. */
	bool is_saving, save_failed;
	uint64_t saved_s;		/* Unix time of the last good one, or of the start */
	uint64_t fork_us;
};

/* A worker's way to a partition. */
struct route {
	uint16_t owner;
	bool paused;			/* it moves: keep its messages */
	uint32_t move;			/* the number of its last move that we know of */
	uint32_t nr_jobs;		/* at the owner: jobs that work on it */
	uint32_t nr_waiting;		/* there: operations that wait for their turn (fair/) */
	struct kv_msg *kept, *kept_last;
};

/* Events of the storage stage, by tenant. */
typedef uint32_t tenant_events[OKV_NR_TENANTS];

struct worker {
	struct server *server;
	struct okv_store *store;	/* the partitions that are ours */
	uint32_t id;
	uint64_t now_ns;		/* monotonic; the reactor sets it once per round */
	uint64_t now_ms;		/* unix */
	uint64_t counters[NR_COUNTERS];
	struct tenant_metrics *metrics[OKV_NR_TENANTS + 1];	/* NULL: not used yet; metrics.h */
	struct slow_log *slow_log;	/* NULL: empty */
	struct net *net;		/* its sockets (link.h) */
	uint64_t oldest_io_ns;		/* atomic: when the oldest began; 0: there is none */
	uint64_t nr_conns;		/* atomic: others may accept for it, too */
	uint64_t next_conn;		/* ids of connections: one in MAX_WORKERS is ours */
	struct conn *conns;		/* all of them */
	uint32_t nr_parked;		/* of them, that wait for a token of their tenant */
	uint32_t nr_ending_turns;	/* mail to worker 0 of requests that are over */
	/* mover.c */
	struct route routes[MAX_PARTITIONS];
	struct move *move;		/* the one under way from here */
	uint32_t nr_orders;		/* given by us as the monitor, and under way */
	int16_t leaving[MAX_PARTITIONS];	/* to worker n - 1 in turn; 0: stays */
	tenant_events *events, *window_events;	/* of this window, of the last one */
	uint32_t busy_ppm, storage_ppm;	/* of the last window; atomic */
	struct fair *fair;		/* NULL: operations begin as they come */
	struct monitor_watch *watch;	/* of them; there with the above */
	uint64_t window_begun_ns, window_busy_ns, window_stages[3];
	/* cluster/way.c */
	struct leaving *locked;		/* keys that MIGRATE sends */
	uint32_t nr_running[2];		/* operations, by the turn in which they began */
	uint8_t turn;
	struct kv_msg *drain;		/* waits for those of the other turn; others behind it */
	void (*post)(struct worker *w, struct kv_msg *msg, uint32_t to);
	/* A password (auth.h) for another thread; false: too many wait. NULL: check it here. */
	bool (*check)(struct worker *w, struct kv_msg *msg);
	/* Changes of the map, and keys for another node, for other threads: cluster/slots.h. */
	bool (*keep)(struct worker *w, struct kv_msg *msg);
	bool (*ship)(struct worker *w, struct kv_msg *msg);
	/* The connection has output, or room for input. */
	void (*ready)(struct worker *w, struct conn *c);
	/* Ends the connection now. */
	void (*end)(struct worker *w, struct conn *c);
	/* The last reference to the connection is gone. */
	void (*freed)(struct worker *w, struct conn *c);
};

/* Ask when a request has come: what is known then may be answered, however long that takes. */
static inline bool server_is_sure(const struct server *s)
{
	return !s->is_sure || s->is_sure();
}

/* A setting that CONFIG SET may change at any time. */
static inline uint32_t config_number(const uint32_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

/* Written by the worker's own thread only; others may read a value that is a little old. */
static inline void worker_count(struct worker *w, enum counter which, uint64_t more)
{
	__atomic_store_n(&w->counters[which], w->counters[which] + more, __ATOMIC_RELAXED);
}

static inline uint64_t worker_counter(const struct worker *w, enum counter which)
{
	return __atomic_load_n(&w->counters[which], __ATOMIC_RELAXED);
}

static inline uint64_t server_sum(const struct server *s, enum counter which)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->nr_workers; i++)
		sum += worker_counter(s->workers[i], which);
	return sum;
}

/* When the oldest device request under way began; 0: there is none. */
static inline uint64_t server_oldest_io_ns(const struct server *s)
{
	uint64_t oldest_ns = 0;

	for (uint32_t i = 0; i < s->nr_workers; i++) {
		uint64_t ns = __atomic_load_n(&s->workers[i]->oldest_io_ns, __ATOMIC_RELAXED);

		if (ns && (!oldest_ns || ns < oldest_ns))
			oldest_ns = ns;
	}
	return oldest_ns;
}

/* The first owner of @partition. */
static inline uint32_t server_first_owner(const struct server *s, uint32_t partition)
{
	return partition * s->nr_workers / s->nr_partitions;
}

/* To @target, from our own worker @w. */
static inline void worker_send(struct worker *w, struct kv_msg *msg, uint32_t target)
{
	msg->home = w->id;
	msg->target = target;
	msg->returning = false;
	if (target == w->id)
		msg->run(w, msg);
	else
		w->post(w, msg, target);
}

/* The work of @msg is done, at worker @w. */
static inline void worker_return(struct worker *w, struct kv_msg *msg)
{
	if (msg->home == w->id) {
		msg->done(w, msg);
		return;
	}
	msg->returning = true;
	w->post(w, msg, msg->home);
}

/* Mail that has arrived. */
static inline void worker_deliver(struct worker *w, struct kv_msg *msg)
{
	if (msg->returning)
		msg->done(w, msg);
	else
		msg->run(w, msg);
}

#endif
