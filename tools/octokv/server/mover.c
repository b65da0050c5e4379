// SPDX-License-Identifier: GPL-2.0
/* mover.c - moves of partitions, as mover.h describes, and the monitor that orders them */
#include "balancer.h"
#include "fair/fair.h"
#include "store/mem.h"
#include "mover.h"
#include "tenant.h"

struct move;

/* To one worker, once per step. */
struct move_msg {
	struct kv_msg msg;
	struct move *move;
};

struct move {
	uint32_t partition;
	uint32_t to;
	uint32_t number;		/* among the moves of this partition */
	uint32_t nr_left;		/* workers that have not answered */
	bool paused;			/* all have */
	bool handed_over;
	struct okv_partition *taken;
	struct move_msg msgs[MAX_WORKERS];
};

void mover_init(struct worker *w)
{
	for (uint32_t i = 0; i < w->server->nr_partitions; i++)
		w->routes[i] = (struct route){ .owner = server_first_owner(w->server, i) };
}

void mover_send(struct worker *w, struct kv_msg *msg, uint32_t partition)
{
	struct route *route = &w->routes[partition];

	if (!route->paused) {
		worker_send(w, msg, route->owner);
		return;
	}
	msg->next = NULL;
	if (route->kept_last)
		route->kept_last->next = msg;
	else
		route->kept = msg;
	route->kept_last = msg;
}

/* ---- the steps ---- */

static void to_all(struct worker *w, struct move *move,
		   void (*run)(struct worker *at, struct kv_msg *msg),
		   void (*done)(struct worker *home, struct kv_msg *msg))
{
	uint32_t nr = w->server->nr_workers;

	move->nr_left = nr;
	for (uint32_t i = 0; i < nr; i++) {
		move->msgs[i] = (struct move_msg){
			.msg = { .run = run, .done = done }, .move = move,
		};
		worker_send(w, &move->msgs[i].msg, i);
	}
}

static struct move *move_of(struct kv_msg *msg)
{
	return ((struct move_msg *)msg)->move;
}

static void pause_run(struct worker *at, struct kv_msg *msg)
{
	struct route *route = &at->routes[move_of(msg)->partition];

	route->paused = true;
	route->move = move_of(msg)->number;
	worker_return(at, msg);
}

static void pause_done(struct worker *home, struct kv_msg *msg)
{
	struct move *move = move_of(msg);

	(void)home;
	move->paused = --move->nr_left == 0;
}

/*
 * The new owner may give the partition away again before this resume is here: then the mark of that
 * later move is in the map, and this resume is outdated.
 */
static void resume_run(struct worker *at, struct kv_msg *msg)
{
	struct route *route = &at->routes[move_of(msg)->partition];
	struct kv_msg *kept = route->kept;

	if (route->move != move_of(msg)->number) {
		worker_return(at, msg);
		return;
	}
	/* Requests that other workers had kept may be here already, and work on the partition. */
	*route = (struct route){
		.owner = move_of(msg)->to, .move = route->move, .nr_jobs = route->nr_jobs,
		.nr_waiting = route->nr_waiting,
	};
	while (kept) {
		struct kv_msg *next = kept->next;

		worker_send(at, kept, route->owner);
		kept = next;
	}
	worker_return(at, msg);
}

static void resume_done(struct worker *home, struct kv_msg *msg)
{
	struct move *move = move_of(msg);

	if (--move->nr_left)
		return;
	home->move = NULL;
	worker_count(home, COUNT_MIGRATED, 1);
	mem_free(move);
}

static void attach_run(struct worker *at, struct kv_msg *msg)
{
	okv_store_attach(at->store, move_of(msg)->taken);
	tenants_publish(at);
	worker_return(at, msg);
}

static void attach_done(struct worker *home, struct kv_msg *msg)
{
	to_all(home, move_of(msg), resume_run, resume_done);
}

bool mover_begin(struct worker *w, uint32_t partition, uint32_t to)
{
	struct move *move;

	struct okv_partition *p = okv_store_partition(w->store, partition);

	/*
	 * A job, a checkpoint or a collection may last for long, and all others would wait for the
	 * partition. The next window may choose it again.
	 */
	if (w->move || to == w->id || !p || w->routes[partition].nr_jobs ||
	    okv_partition_is_working(p))
		return false;
	move = mem_zalloc(sizeof(*move));
	move->partition = partition;
	move->number = w->routes[partition].move + 1;
	move->to = to;
	w->move = move;
	to_all(w, move, pause_run, pause_done);
	return true;
}

static void begin_next(struct worker *w)
{
	for (uint32_t i = 0; i < w->server->nr_partitions && !w->move; i++) {
		int to = w->leaving[i] - 1;

		w->leaving[i] = 0;
		if (to >= 0)
			mover_begin(w, i, to);
	}
}

bool mover_waits_for_turns(const struct worker *w)
{
	return w->move && w->move->paused && w->routes[w->move->partition].nr_waiting;
}

void mover_run(struct worker *w)
{
	struct move *move = w->move;

	if (!move) {
		begin_next(w);
		return;
	}
	if (!move->paused || move->handed_over || w->routes[move->partition].nr_jobs ||
	    w->routes[move->partition].nr_waiting)
		return;
	if (!okv_partition_quiesce(okv_store_partition(w->store, move->partition))) {
		if (!okv_partition_is_stuck(okv_store_partition(w->store, move->partition)))
			return;
		move->to = w->id;	/* the device fails: it stays */
	}
	move->handed_over = true;
	move->taken = okv_store_detach(w->store, move->partition);
	tenants_publish(w);
	move->msgs[0] = (struct move_msg){
		.msg = { .run = attach_run, .done = attach_done }, .move = move,
	};
	worker_send(w, &move->msgs[0].msg, move->to);
}

/* ---- the monitor ---- */

struct order {
	struct kv_msg msg;
	struct balancer_plan plan;
};

/*
 * When both levels act, dense tenants are to make room. Where one tenant has all events, or all
 * have as many, none is dense.
 */
static enum balance_tenants which_tenants(const struct server *s, bool has_dense)
{
	if (s->balancer.which == BALANCE_ALL && has_dense && s->fairness &&
	    monitor_read(s).mode == MONITOR_HYBRID)
		return BALANCE_DENSE;
	return s->balancer.which;
}

/* The events of the last window, of the tenants that count. */
static void count_events(struct worker *w, uint64_t *events)
{
	const struct server *s = w->server;
	uint64_t of_tenant[MAX_TENANT_ID + 1] = { 0 }, sum = 0, nr = 0, most = 0;
	enum balance_tenants which;

	for (uint32_t p = 0; p < s->nr_partitions; p++)
		for (uint32_t t = 0; t <= MAX_TENANT_ID; t++)
			of_tenant[t] += w->window_events[p][t];
	for (uint32_t t = 0; t <= MAX_TENANT_ID; t++) {
		sum += of_tenant[t];
		nr += of_tenant[t] > 0;
		most = of_tenant[t] > most ? of_tenant[t] : most;
	}
	which = which_tenants(s, most * nr > sum);
	for (uint32_t p = 0; p < s->nr_partitions; p++) {
		events[p] = 0;
		for (uint32_t t = 0; t <= MAX_TENANT_ID; t++) {
			bool dense = of_tenant[t] * nr > sum;

			if (which == BALANCE_ALL || dense == (which == BALANCE_DENSE))
				events[p] += w->window_events[p][t];
		}
	}
}

static void order_run(struct worker *at, struct kv_msg *msg)
{
	const struct server *s = at->server;
	uint64_t events[MAX_PARTITIONS];
	int to[MAX_PARTITIONS];

	count_events(at, events);
	balancer_choose(&((struct order *)msg)->plan, s->nr_partitions, events, to);
	for (uint32_t i = 0; i < s->nr_partitions; i++)
		at->leaving[i] = okv_store_partition(at->store, i) ? to[i] + 1 : 0;
	worker_return(at, msg);
}

static void order_done(struct worker *home, struct kv_msg *msg)
{
	home->nr_orders--;
	mem_free(msg);
}

static void decide(struct worker *w)
{
	struct server *s = w->server;
	uint32_t busy_ppm[MAX_WORKERS], storage_ppm[MAX_WORKERS], least = 0;
	struct balancer_plan plans[MAX_WORKERS];
	bool inter = true;

	if (s->fairness) {
		monitor_decide(s, w->now_ns);
		inter = monitor_read(s).mode & MONITOR_INTER;
	}
	for (uint32_t i = 0; i < s->nr_workers; i++) {
		busy_ppm[i] = __atomic_load_n(&s->workers[i]->busy_ppm, __ATOMIC_RELAXED);
		storage_ppm[i] = __atomic_load_n(&s->workers[i]->storage_ppm, __ATOMIC_RELAXED);
		if (busy_ppm[i] < busy_ppm[least])
			least = i;
	}
	if (inter && balancer_decide(&s->balancer, s->nr_workers, busy_ppm, storage_ppm, plans)) {
		for (uint32_t i = 0; i < s->nr_workers; i++) {
			struct order *order;

			if (!plans[i].share_ppm)
				continue;
			order = mem_zalloc(sizeof(*order));
			*order = (struct order){
				.msg = { .run = order_run, .done = order_done }, .plan = plans[i],
			};
			w->nr_orders++;
			worker_send(w, &order->msg, i);
		}
	}
	__atomic_store_n(&s->monitor, least, __ATOMIC_RELEASE);
}

/* The events of a window stay until the next window ends: an order may come in between. */
void mover_window(struct worker *w, uint64_t busy_ns)
{
	struct server *s = w->server;
	uint64_t stages[3] = {
		w->counters[COUNT_NETWORK], w->counters[COUNT_STORE], w->counters[COUNT_DISK],
	}, all, storage;
	uint64_t window_ns = w->now_ns - w->window_begun_ns;

	if (window_ns < s->balancer.window_ms * 1000000ULL)
		return;
	if (w->watch)
		monitor_window(w->watch);
	storage = stages[1] + stages[2] - w->window_stages[1] - w->window_stages[2];
	all = storage + stages[0] - w->window_stages[0];
	__atomic_store_n(&w->storage_ppm, all ? storage * PPM / all : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&w->busy_ppm, (busy_ns - w->window_busy_ns) * PPM / window_ns,
			 __ATOMIC_RELAXED);
	memcpy(w->window_stages, stages, sizeof(stages));
	if (s->balancer.how != BALANCE_OFF) {
		memcpy(w->window_events, w->events, s->nr_partitions * sizeof(*w->events));
		memset(w->events, 0, s->nr_partitions * sizeof(*w->events));
	}
	w->window_busy_ns = busy_ns;
	w->window_begun_ns = w->now_ns;
	if (__atomic_load_n(&s->monitor, __ATOMIC_ACQUIRE) == w->id)
		decide(w);
}
