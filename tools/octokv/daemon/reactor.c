// SPDX-License-Identifier: GPL-2.0
/*
 * reactor.c - the loops of octokvd, one thread each, and the mail between them
 *
 * A reactor owns a ring, a listening socket (SO_REUSEPORT), connections, and its share of the
 * partitions of the store. The kernel spreads connections by a hash, which is even only if there
 * are many. So the reactor that accepts a connection hands it to the reactor that has fewest
 * (link.c). One round of its loop:
 *
 * 1. submit the prepared requests, and wait for completions, unless there is work already
 * 2. take completions: of the disk (which run done() of operations), of sockets, wakes
 * 3. take the mail of each other reactor, and do what it asks
 * 4. feed, send and receive for the connections that are ready
 * 5. post the new mail, with one wake (MSG_RING) for each receiver that needs one
 *
 * Mail. A request for a partition of another reactor is a message there, and its result a message
 * back (mailbox.h), a batch per round and pair. A reactor sleeps only in step 1, after its own mail
 * is posted. A sender's MSG_RING is a completion in the receiver's ring, so a wake that comes
 * between step 3 and the sleep ends the sleep. While octokvd serves, there is no other
 * synchronisation. Mail to itself, for work that it continues later, needs no wake: the reactor
 * does not sleep then.
 *
 * Start. Each thread makes its ring (SINGLE_ISSUER requires that) and opens its partitions. After a
 * barrier all serve, or all end if one failed.
 *
 * Change. What all reactors read and none may write, such as the users, changes while they wait at
 * a barrier between two rounds. An eventfd that all poll calls them there. The first thread makes
 * such changes, and the one that keeps the map of a cluster.
 *
 * End. A stop comes through the same eventfd. Each reactor stops reading. It counts itself
 * quiet when no request of its connections is under way and their replies are sent; a client that
 * does not read has a second for that. It goes on serving mail until all are quiet. Then no reactor
 * can send anything, and each closes its store.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cluster/sender.h"
#include "device/disk_uring.h"
#include "device/fence.h"
#include "helper.h"
#include "link.h"
#include "listen.h"
#include "log.h"
#include "mailbox.h"
#include "store/mem.h"
#include "server/auth.h"
#include "server/clock.h"
#include "server/fair/fair.h"
#include "server/metrics.h"
#include "server/mover.h"
#include "reactor.h"
#include "server/stats.h"
#include "server/tenant.h"

enum {
	RING_ENTRIES		= 1024,
	RING_COMPLETIONS	= 8192,
	TICK_NS			= 100000000,
	LAST_REPLIES_NS		= 1000000000,	/* after a stop */
	ALIVE_NS		= 1000000000,	/* times ALIVE_TIMES: a round may take it */
	ALIVE_TIMES		= 10,
	/* Between looks for a token that a connection may have missed. */
	PARKED_NS		= 1000000,
	STACK_BYTES		= 2 << 20,
	MAX_COMPLETIONS		= 256,		/* taken at once */
};

struct reactor {
	struct worker worker;
	struct reactors *all;
	struct io_uring ring;
	struct net net;
	struct disk_uring disk;
	struct mailbox *to;		/* [MAX_WORKERS], ours to post */
	pthread_t thread;
	bool stopping, quiet;
	uint64_t tick_ns, woken_ns, stopped_ns;
	uint64_t alive_ns;		/* atomic: the last tick */
	struct clock_guard clock;
	uint32_t recovering;		/* the partition, and how far it is */
	uint64_t recovered_bytes, recovering_bytes;
	uint64_t nr_moves_said;
	char why[256];
};

/* The others are there in a node of a cluster only. */
enum { HELPER_PASSWORDS, HELPER_MAP, HELPER_KEYS, NR_HELPERS };

static struct {
	pthread_barrier_t ready;
	pthread_barrier_t change;	/* with the first thread */
	int call_fd;			/* polled by all: they change, or stop */
	int ready_fd;
	bool stops;			/* atomic */
	bool changes_users;		/* what the call is for; of the first thread */
	uint64_t done_bytes, all_bytes;	/* atomic: of recovery */
	uint32_t nr_quiet;
	struct helper helpers[NR_HELPERS];
	uint32_t nr_helpers;
	pthread_mutex_t calling;	/* held during a change, and for a stop */
	int ring_fds[MAX_WORKERS];	/* atomic, or ordered by mail (helper.c) */
} shared;

static struct reactor *reactor_of(const struct reactors *rs, uint32_t id)
{
	return (struct reactor *)rs->server->workers[id];
}

/* ---- time ---- */

static void set_clock(struct reactor *r)
{
	struct worker *w = &r->worker;

	w->now_ns = clock_ns(CLOCK_MONOTONIC);
	w->now_ms = clock_guard(&r->clock, clock_ns(CLOCK_REALTIME) / 1000000,
				clock_ns(CLOCK_BOOTTIME) / 1000000);
}

/* ---- mail ---- */

static void post(struct worker *w, struct kv_msg *msg, uint32_t to)
{
	mailbox_add(&((struct reactor *)w)->to[to], msg);
}

static void post_mail(struct reactor *r)
{
	uint32_t nr = r->worker.server->nr_workers;

	for (uint32_t i = 0; i < nr; i++) {
		struct io_uring_sqe *sqe;

		if (!mailbox_has_mail(&r->to[i]) || !mailbox_post(&r->to[i]) || i == r->worker.id)
			continue;
		sqe = ring_sqe(&r->ring);
		io_uring_prep_msg_ring(sqe, reactor_of(r->all, i)->ring.ring_fd, 0, TAG_WAKE, 0);
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		ring_tag(sqe, NULL, TAG_WAKE);
		worker_count(&r->worker, COUNT_WAKES, 1);
	}
}

static bool check(struct worker *w, struct kv_msg *msg)
{
	(void)w;
	return helper_add(&shared.helpers[HELPER_PASSWORDS], msg);
}

static bool keep(struct worker *w, struct kv_msg *msg)
{
	(void)w;
	return helper_add(&shared.helpers[HELPER_MAP], msg);
}

static bool ship(struct worker *w, struct kv_msg *msg)
{
	(void)w;
	return helper_add(&shared.helpers[HELPER_KEYS], msg);
}

static void take_mail_of(struct reactor *r, struct mailbox *box)
{
	struct kv_msg *msg = mailbox_take(box);

	while (msg) {
		struct kv_msg *next = msg->next;

		worker_count(&r->worker, COUNT_MAIL, 1);
		worker_deliver(&r->worker, msg);
		msg = next;
	}
}

static void take_mail(struct reactor *r)
{
	uint32_t nr = r->worker.server->nr_workers;

	for (uint32_t i = 0; i < nr; i++)
		take_mail_of(r, &reactor_of(r->all, i)->to[r->worker.id]);
	for (uint32_t i = 0; i < shared.nr_helpers; i++)
		take_mail_of(r, &shared.helpers[i].to[r->worker.id]);
}

/* ---- callbacks of the worker (server.h) ---- */

static void conn_is_ready(struct worker *w, struct conn *c)
{
	net_ready(&((struct reactor *)w)->net, (struct link *)c);
}

static void conn_ends(struct worker *w, struct conn *c)
{
	(void)w;
	net_end((struct link *)c);
}

static void conn_is_freed(struct worker *w, struct conn *c)
{
	(void)w;
	net_freed((struct link *)c);
}

/* ---- the loop ---- */

static void watch_calls(struct reactor *r)
{
	struct io_uring_sqe *sqe = ring_sqe(&r->ring);

	io_uring_prep_poll_add(sqe, shared.call_fd, POLLIN);
	ring_tag(sqe, NULL, TAG_CALL);
}

static void stop(struct reactor *r)
{
	r->stopping = r->net.stopping = true;
	r->stopped_ns = r->worker.now_ns;
	net_stop_listening(&r->net);
}

/* "Change" above. The first thread changes something between the two barriers. */
static void let_change(struct reactor *r)
{
	bool users;

	pthread_barrier_wait(&shared.change);
	users = shared.changes_users;
	pthread_barrier_wait(&shared.change);
	if (users) {
		r->clock = (struct clock_guard){ 0 };
		net_end_gone(&r->net);
		tenants_publish(&r->worker);
	}
	watch_calls(r);
}

static void called(struct reactor *r)
{
	if (__atomic_load_n(&shared.stops, __ATOMIC_ACQUIRE))
		stop(r);
	else
		let_change(r);
}

static void complete(struct reactor *r, const struct io_uring_cqe *cqe)
{
	switch (cqe->user_data & TAG_MASK) {
	case TAG_DISK:
		worker_count(&r->worker, COUNT_DISK, 1);
		disk_uring_complete(&r->disk, cqe->user_data, cqe->res);
		break;
	case TAG_WAKE:
		break;
	case TAG_CALL:
		called(r);
		break;
	default:
		net_complete(&r->net, cqe->user_data, cqe->res, cqe->flags);
	}
}

static void take_completions(struct reactor *r)
{
	struct io_uring_cqe *cqes[MAX_COMPLETIONS], copy;
	unsigned int nr = io_uring_peek_batch_cqe(&r->ring, cqes, MAX_COMPLETIONS);

	/*
	 * One at a time, and each is given back before it is handled: its handling may wait on the
	 * ring.
	 */
	for (unsigned int i = 0; i < nr; i++) {
		copy = *cqes[i];
		io_uring_cq_advance(&r->ring, 1);
		complete(r, &copy);
	}
}

/* Waits for a reply that is not read only for a little while. */
static bool has_requests(const struct reactor *r)
{
	bool patient = r->worker.now_ns - r->stopped_ns < LAST_REPLIES_NS;

	for (struct conn *c = r->worker.conns; c; c = c->next)
		if (c->nr_requests || (patient && net_holds(&r->net, (struct link *)c)))
			return true;
	return r->net.nr_handed || r->worker.nr_ending_turns;
}

/* What happened since the last tick that an operator should know of. */
static void watch(struct reactor *r)
{
	struct worker *w = &r->worker;
	uint64_t oldest_ns, nr_moves = worker_counter(w, COUNT_MIGRATED);

	disk_uring_tick(&r->disk, w->now_ns);
	oldest_ns = disk_uring_oldest_ns(&r->disk);
	__atomic_store_n(&w->oldest_io_ns, oldest_ns, __ATOMIC_RELAXED);
	if (oldest_ns && w->now_ns - oldest_ns >= SLOW_IO_MS * 1000000ULL)
		log_say(LOG_SLOW, "reactor %u: the device has not answered a request for %.1f s",
			w->id, (w->now_ns - oldest_ns) / 1e9);
	if (nr_moves != r->nr_moves_said)
		log_say(LOG_MOVES, "reactor %u has given %llu partitions to others since the start",
			w->id, (unsigned long long)nr_moves);
	r->nr_moves_said = nr_moves;
	if (r->clock.jumped)
		log_say(LOG_CLOCK, "the clock has jumped by more than an hour: keys expire by the "
			"time before until it is back, or SIGHUP says that it is right");
	if (!fence_is_sure())
		log_say(LOG_CUT_OFF, "the device has not said for seconds that this host has it: "
			"commands are refused until it does");
	if (!w->id)
		log_tick();
	__atomic_store_n(&r->alive_ns, w->now_ns, __ATOMIC_RELAXED);
}

static void tick(struct reactor *r)
{
	struct worker *w = &r->worker;

	if (w->nr_parked && w->now_ns - r->woken_ns >= PARKED_NS) {
		r->woken_ns = w->now_ns;
		tenants_wake(w);
	}
	if (w->now_ns < r->tick_ns)
		return;
	r->tick_ns = w->now_ns + TICK_NS;
	for (uint32_t i = 0; i < w->server->nr_partitions; i++)
		if (okv_store_partition(w->store, i))
			okv_partition_tick(okv_store_partition(w->store, i), w->now_ms);
	watch(r);
	/* No other worker knows what the store deletes by itself. */
	tenants_publish(w);
	metrics_publish(w);
	net_tick(&r->net);
	net_accept(&r->net);
	__atomic_store_n(&w->counters[COUNT_BUSY_NS], clock_ns(CLOCK_THREAD_CPUTIME_ID),
			 __ATOMIC_RELAXED);
	mem_restore();
	if (!r->stopping)
		mover_window(w, w->counters[COUNT_BUSY_NS]);
}

/* True when all reactors are quiet: none has a request under way, so no mail either. */
static bool all_quiet(struct reactor *r)
{
	if (!r->quiet && r->stopping && !has_requests(r) && !mover_is_busy(&r->worker)) {
		r->quiet = true;
		__atomic_add_fetch(&shared.nr_quiet, 1, __ATOMIC_ACQ_REL);
	}
	return r->quiet &&
	       __atomic_load_n(&shared.nr_quiet, __ATOMIC_ACQUIRE) == r->worker.server->nr_workers;
}

/*
 * Shuts the sockets down, and takes the completions of that: then the ring has nothing under way
 * that points into memory.
 */
static void end_links(struct reactor *r)
{
	struct __kernel_timespec limit = { .tv_nsec = PARKED_NS };
	struct io_uring_cqe *cqe;

	net_end_all(&r->net);
	for (int i = 0; r->worker.conns && i < 1000; i++) {
		io_uring_submit_and_wait_timeout(&r->ring, &cqe, 1, &limit, NULL);
		take_completions(r);
		net_run(&r->net);
	}
}

/* Work without a wake-up. */
static bool has_work(const struct reactor *r)
{
	return r->net.ready || r->to[r->worker.id].place || fair_has_work(&r->worker);
}

static void serve(struct reactor *r)
{
	watch_calls(r);
	tenants_publish(&r->worker);
	metrics_publish(&r->worker);
	net_accept(&r->net);
	while (!all_quiet(r)) {
		bool soon = r->worker.nr_parked || r->stopping || mover_is_busy(&r->worker);
		uint64_t wait_ns = soon ? PARKED_NS : TICK_NS;
		struct __kernel_timespec limit = { .tv_nsec = wait_ns };
		struct io_uring_cqe *cqe;
		bool busy = has_work(r);

		if (busy)
			io_uring_submit_and_get_events(&r->ring);
		else
			io_uring_submit_and_wait_timeout(&r->ring, &cqe, 1, &limit, NULL);
		set_clock(r);
		take_completions(r);
		take_mail(r);
		tick(r);
		if (!r->stopping || mover_is_busy(&r->worker))
			mover_run(&r->worker);
		fair_run(&r->worker);
		net_run(&r->net);
		post_mail(r);
	}
	end_links(r);
}

/* ---- start and end ---- */

static void show_progress(void *owner, uint32_t partition, uint64_t done_bytes,
			  uint64_t total_bytes)
{
	struct reactor *r = owner;

	if (r->recovering != partition + 1)
		r->recovered_bytes = r->recovering_bytes = 0;
	r->recovering = partition + 1;
	__atomic_add_fetch(&shared.done_bytes, done_bytes - r->recovered_bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&shared.all_bytes, total_bytes - r->recovering_bytes, __ATOMIC_RELAXED);
	r->recovered_bytes = done_bytes;
	r->recovering_bytes = total_bytes;
	log_say(LOG_RECOVERY, "reactor %u: partition %u: recovered %llu of %llu MiB",
		r->worker.id, partition, (unsigned long long)(done_bytes >> 20),
		(unsigned long long)(total_bytes >> 20));
}

static void refuses(const struct reactor *r, uint32_t partition)
{
	log_say(LOG_REFUSES, "partition %u refuses writes, as they have failed for a while; it "
		"goes on trying", partition);
	if (!r->worker.server->config.ends_on_error)
		return;
	log_end();
	fputs("octokvd: ends, as --on-error exit says\n", stderr);
	_exit(1);
}

static void note_event(void *owner, const struct okv_event *e)
{
	unsigned long long at = e->offset_bytes;

	switch (e->kind) {
	case OKV_EVENT_READ_ERROR:
		log_say(LOG_READ_ERROR, "partition %u: a read at byte %llu failed: %s",
			e->partition, at, strerror(e->error));
		break;
	case OKV_EVENT_WRITE_ERROR:
		log_say(LOG_WRITE_ERROR, "partition %u: a write at byte %llu, or a flush, failed: "
			"%s", e->partition, at, strerror(e->error));
		break;
	case OKV_EVENT_WAITS:
		log_say(LOG_WAITS, "partition %u: writes wait, and are tried again and again",
			e->partition);
		break;
	case OKV_EVENT_REFUSES:
		refuses(owner, e->partition);
		break;
	case OKV_EVENT_TAKES:
		log_say(LOG_TAKES, "partition %u takes writes again, after it refused them for "
			"%.1f s", e->partition, e->ms / 1e3);
		break;
	case OKV_EVENT_DAMAGE:
		log_say(LOG_DAMAGE, "partition %u: what is at byte %llu is not what was written",
			e->partition, at);
		break;
	case OKV_EVENT_LEFT_OUT:
		__atomic_add_fetch(&((struct reactor *)owner)->worker.server->nr_left_out, 1,
				   __ATOMIC_RELAXED);
		log_say(LOG_LEFT_OUT, "partition %u is not served, and its keys are answered "
			"CORRUPT: %s", e->partition, store_refusal(e->error));
		break;
	case OKV_EVENT_PINNED:
		kill(getpid(), SIGUSR2);
		break;
	case OKV_EVENT_BAD_SEGMENT:
		log_say(LOG_SEGMENT, "partition %u: the segment at byte %llu cannot be collected; "
			"the next try is in %llu s", e->partition, at,
			(unsigned long long)e->ms / 1000);
		break;
	}
}

static bool open_ring(struct reactor *r)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		.cq_entries = RING_COMPLETIONS,
	};
	int result = io_uring_queue_init_params(RING_ENTRIES, &r->ring, &params);

	/* A copy of the process (snapshot.c) is not to keep the ring, with all its sockets. */
	if (!result)
		result = io_uring_ring_dontfork(&r->ring);
	if (!result)
		result = io_uring_register_ring_fd(&r->ring);
	/* It returns how many it has registered. */
	if (result == 1)
		return true;
	ring_refusal(-result, r->why, sizeof(r->why));
	return false;
}

static bool open_store(struct reactor *r)
{
	const struct server *s = r->worker.server;
	struct okv_open_options options = {
		.now_ms = r->worker.now_ms, .clock_ns = &r->worker.now_ns,
		.progress = show_progress,
		.event = note_event, .owner = r,
		.nr_known = s->config.nr_known, .leaves_damaged = s->config.serves_damaged,
		.trims = s->config.trims,
	};
	int result = disk_uring_init(&r->disk, &r->ring, r->all->data_fd);

	if (s->config.has_journals && r->worker.id < OKV_NR_JOURNALS)
		options.journal = r->worker.id + 1;

	for (uint32_t i = 0; i < s->nr_partitions; i++) {
		if (server_first_owner(s, i) != r->worker.id)
			continue;
		if (!options.nr_partitions)
			options.first_partition = i;
		options.nr_partitions++;
	}
	if (!result)
		result = okv_store_open(&r->worker.store, &r->disk.disk, &options);
	if (result)
		snprintf(r->why, sizeof(r->why), "%s: %s", s->config.data, store_refusal(-result));
	return !result;
}

static bool open_net(struct reactor *r)
{
	const struct config *config = &r->worker.server->config;
	bool listens = r->worker.id < r->worker.server->nr_listening;
	int fds[NR_LISTENERS] = { -1, -1 }, result;

	if (listens && config->port)
		fds[0] = listen_on(config->bind, config->port, r->why, sizeof(r->why));
	if (listens && config->port && fds[0] < 0)
		return false;
	/* One reactor accepts there, and hands over to the others. */
	if (!r->worker.id)
		fds[1] = config->unix_fd;
	r->worker.net = &r->net;
	result = net_open(&r->net, &r->ring, &r->worker, fds);
	if (result)
		snprintf(r->why, sizeof(r->why), "receive buffers: %s", strerror(-result));
	return !result;
}

static void say(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) != sizeof(one))
		perror("octokvd: eventfd");
}

/* True in one of the threads. */
static bool wait_for_all(void)
{
	return pthread_barrier_wait(&shared.ready) == PTHREAD_BARRIER_SERIAL_THREAD;
}

static void *reactor_main(void *argument)
{
	struct reactor *r = argument;
	bool have_ring, have_store, have_net;

	set_clock(r);
	have_ring = open_ring(r);
	__atomic_store_n(&shared.ring_fds[r->worker.id], have_ring ? r->ring.ring_fd : -1,
			 __ATOMIC_RELEASE);
	have_store = have_ring && open_store(r);
	have_net = have_store && open_net(r);
	if (!have_net)
		__atomic_store_n(&r->all->failed, r->why, __ATOMIC_RELEASE);
	fence_settle();
	if (wait_for_all() && !__atomic_load_n(&r->all->failed, __ATOMIC_ACQUIRE))
		say(shared.ready_fd);
	if (!__atomic_load_n(&r->all->failed, __ATOMIC_ACQUIRE))
		serve(r);
	if (have_store)
		okv_store_close(r->worker.store);
	disk_uring_destroy(&r->disk);
	/* No reactor may send a wake to a ring that is gone. */
	if (wait_for_all())
		say(shared.ready_fd);
	if (have_net)
		net_close(&r->net);
	if (have_ring)
		io_uring_queue_exit(&r->ring);
	return NULL;
}

static void make_worker(struct reactors *rs, uint32_t id)
{
	struct reactor *r = mem_zalloc(sizeof(*r));

	r->all = rs;
	r->to = mem_aligned(64, sizeof(*r->to) * MAX_WORKERS);
	memset(r->to, 0, sizeof(*r->to) * MAX_WORKERS);
	r->worker = (struct worker){
		.server = rs->server, .id = id, .post = post, .check = check,
		.keep = keep, .ship = ship, .ready = conn_is_ready, .end = conn_ends,
		.freed = conn_is_freed,
	};
	r->worker.events = mem_zalloc(rs->server->nr_partitions * sizeof(*r->worker.events));
	r->worker.window_events = mem_zalloc(rs->server->nr_partitions * sizeof(*r->worker.events));
	r->worker.fair = mem_zalloc(sizeof(*r->worker.fair));
	fair_init(r->worker.fair);
	r->worker.watch = mem_zalloc(sizeof(*r->worker.watch));
	rs->server->workers[id] = &r->worker;
	mover_init(&r->worker);
}

void reactors_free(struct reactors *rs)
{
	for (uint32_t i = 0; i < rs->server->nr_workers; i++) {
		struct reactor *r = reactor_of(rs, i);

		pthread_join(r->thread, NULL);
		if (rs->failed == r->why)
			rs->failed = strdup(r->why);
		mem_free(r->worker.events);
		mem_free(r->worker.window_events);
		mem_free(r->worker.fair);
		mem_free(r->worker.watch);
		metrics_free(&r->worker);
		slowlog_free(&r->worker);
		mem_free(r->to);
		mem_free(r);
	}
	mem_free(rs->server->published);
	monitor_free(rs->server);
	for (uint32_t i = 0; i < shared.nr_helpers; i++)
		helper_stop(&shared.helpers[i]);
	close(shared.call_fd);
	close(shared.ready_fd);
	pthread_barrier_destroy(&shared.ready);
	pthread_barrier_destroy(&shared.change);
	pthread_mutex_destroy(&shared.calling);
}

static void start_helpers(struct reactors *rs)
{
	bool (*const work[NR_HELPERS])(struct kv_msg *msg) = {
		[HELPER_PASSWORDS] = auth_check, [HELPER_MAP] = rs->keep,
		[HELPER_KEYS] = sender_work,
	};

	shared.nr_helpers = rs->server->cluster ? NR_HELPERS : 1;
	for (uint32_t i = 0; i < shared.nr_helpers; i++) {
		if (helper_start(&shared.helpers[i], shared.ring_fds, work[i])) {
			perror("octokvd: a thread that helps the reactors");
			exit(1);
		}
	}
}

void reactors_start(struct reactors *rs)
{
	uint32_t nr = rs->server->nr_workers;
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&shared.ready, NULL, nr);
	pthread_barrier_init(&shared.change, NULL, nr + 1);
	pthread_mutex_init(&shared.calling, NULL);
	shared.nr_quiet = 0;
	shared.call_fd = eventfd(0, EFD_CLOEXEC);
	shared.ready_fd = eventfd(0, EFD_CLOEXEC);
	start_helpers(rs);
	monitor_start(rs->server, clock_ns(CLOCK_MONOTONIC));
	rs->server->published = mem_zalloc(rs->server->nr_partitions *
					   sizeof(*rs->server->published));
	for (uint32_t i = 0; i < nr; i++)
		make_worker(rs, i);
	for (uint32_t i = 0; i < nr; i++) {
		struct reactor *r = reactor_of(rs, i);

		if (pthread_create(&r->thread, &attributes, reactor_main, r)) {
			perror("octokvd: a thread");
			exit(1);
		}
	}
	pthread_attr_destroy(&attributes);
}

int reactors_fd(const struct reactors *rs)
{
	(void)rs;
	return shared.ready_fd;
}

void reactors_progress(const struct reactors *rs, uint64_t *done_bytes, uint64_t *all_bytes)
{
	(void)rs;
	*done_bytes = __atomic_load_n(&shared.done_bytes, __ATOMIC_RELAXED);
	*all_bytes = __atomic_load_n(&shared.all_bytes, __ATOMIC_RELAXED);
}

int reactors_ring_fd(const struct reactors *rs, uint32_t id)
{
	(void)rs;
	return __atomic_load_n(&shared.ring_fds[id], __ATOMIC_ACQUIRE);
}

bool reactors_are_alive(const struct reactors *rs)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < rs->server->nr_workers; i++) {
		uint64_t ns = __atomic_load_n(&reactor_of(rs, i)->alive_ns, __ATOMIC_RELAXED);

		if (ns && now_ns > ns && (now_ns - ns) / ALIVE_NS >= ALIVE_TIMES)
			return false;
	}
	return true;
}

/* False: they are being stopped. */
static bool call_all(bool users, void (*change)(void *owner), void *owner)
{
	struct helper *passwords = &shared.helpers[HELPER_PASSWORDS];
	uint64_t count;

	pthread_mutex_lock(&shared.calling);
	if (__atomic_load_n(&shared.stops, __ATOMIC_RELAXED)) {
		pthread_mutex_unlock(&shared.calling);
		return false;
	}
	shared.changes_users = users;
	say(shared.call_fd);
	pthread_barrier_wait(&shared.change);
	helper_pause(passwords, true);
	if (change)
		change(owner);
	helper_pause(passwords, false);
	/* Before they poll again. */
	if (read(shared.call_fd, &count, sizeof(count)) != sizeof(count))
		perror("octokvd: eventfd");
	pthread_barrier_wait(&shared.change);
	pthread_mutex_unlock(&shared.calling);
	return true;
}

void reactors_change(struct reactors *rs, void (*change)(void *owner), void *owner)
{
	(void)rs;
	call_all(true, change, owner);
}

bool reactors_pause(struct reactors *rs, void (*change)(void *owner), void *owner)
{
	(void)rs;
	return call_all(false, change, owner);
}

void reactors_stop(struct reactors *rs)
{
	pthread_mutex_lock(&shared.calling);
	__atomic_store_n(&shared.stops, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&shared.calling);
	sender_stop();
	say(shared.call_fd);
	reactors_free(rs);
}
