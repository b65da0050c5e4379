// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_wakeup.c - mq-mqfq's promise that no wake-up is lost, under real threads
 *
 * The whole policy, with its queues, its virtual time and its slots. Submitters queue entries and
 * wait until they are completed, workers dispatch from queues that were run, completers give
 * slots back; in half of the rounds a tuner changes T, D, the wheel and weights, and in some a
 * staller keeps what one queue has in flight, while it looks for stuck queues. A queue is
 * run after an insertion and when the policy says so, and not otherwise: a lost wake-up is not
 * healed, everything stands still, and the main thread, which only looks on, says so and fails.
 *
 * A standstill of everything is rare: the next completion heals much. So every few milliseconds
 * all but the workers are stopped, until these have nothing left to do. Then what mqfq_policy.c
 * claims must be true: no slot is idle while a queue is READY, no permit is idle while a slow entry
 * is aside, no queue is THROTTLED that may go, none is ARMED, or RUNNABLE with entries, and if
 * there are entries, one is in flight.
 *
 * Machines, D and T are small, so that all queues wait most of the time. At the end of a round all
 * slots must be there, all queues empty, and virtual time must not have gone back.
 */
#include "../../../mq-mqfq/mqfq_permit.c"
#include "../../../mq-mqfq/mqfq_policy.c"
#include "../../../mq-mqfq/mqfq_rescale.c"
#include "../../../mq-mqfq/mqfq_rt.c"
#include "../../../mq-mqfq/mqfq_slots.c"
#include "../../../mq-mqfq/mqfq_stuck.c"

#include "storm.h"

enum {
	NR_SUBMITTERS	= 3,
	NR_WORKERS	= 2,
	NR_COMPLETERS	= 2,
	NR_THREADS	= NR_SUBMITTERS + NR_WORKERS + NR_COMPLETERS,
	PER_SUBMITTER	= 6,
	QUEUES_MAX	= 70,	/* more than a word of the ready set */
	NR_FLOWS	= 4,
	COST_MAX	= 300,
	TUNE_YIELDS	= 60,
	STALL_LOOKS	= 12,
	NOT_STALLED	= -1,
};

struct entry {
	struct mqfq_entry e;
	struct entry *next;		/* at the device */
	unsigned int queue;
	int busy;
};

struct setup {
	struct shape shape;
	unsigned int slots;
	u64 throttle_vt;
	bool tuned, stalls;
};

static struct mqfq_policy policy;
static struct flow_table flows;
static struct entry entries[NR_SUBMITTERS][PER_SUBMITTER];
static struct entry *at_device;		/* a stack: pushed by workers, emptied by completers */
static struct entry *held;		/* the same: of the queue that is stalled */
static int stalled;
static const struct setup *setup;
static int kicks[QUEUES_MAX];
static int stop_submitting, over, nr_submitting, nr_inflight, nr_slow_inflight, nr_passed;
/* Of a pause: asked for; how many have stopped; workers at work, and how often they have begun. */
static int pause_now, nr_paused, nr_pausable, nr_working, nr_begun;
static unsigned long nr_checks, nr_stuck;
static unsigned long nr_completed, nr_submitted;
static double end;

/* ---- what the hooks do ---- */

static void run_queue(void *context, unsigned int number, enum mqfq_state was)
{
	(void)context;
	(void)was;
	__atomic_store_n(&kicks[number], 1, __ATOMIC_SEQ_CST);
}

static u64 clock_ns(void)
{
	return 0;
}

static const struct mqfq_policy_ops ops = {
	.run		= run_queue,
	.clock_ns	= clock_ns,
};

static u32 weight_of(void *context, u64 key, void *who)
{
	(void)context;
	(void)who;
	return 50 << key;
}

static void push(struct entry **stack, struct entry *entry)
{
	entry->next = __atomic_load_n(stack, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(stack, &entry->next, entry, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

static void send_past(struct entry *entry)
{
	int nr = __atomic_add_fetch(&nr_passed, 1, __ATOMIC_RELAXED);

	if (!setup->tuned && !setup->stalls && nr > mqfq_nr_passes(&policy))
		storm_fail("%d passes are in flight, D is %u", nr, setup->slots);
	push(&at_device, entry);
}

static void send_to_device(struct entry *entry)
{
	int inflight;

	if (entry->e.flow & MQFQ_ENTRY_PASS) {
		send_past(entry);
		return;
	}
	inflight = __atomic_add_fetch(&nr_inflight, 1, __ATOMIC_RELAXED);
	if (!setup->tuned && !setup->stalls && inflight > setup->slots)
		storm_fail("%d in flight, D is %u", inflight, setup->slots);
	if (entry->e.flow & MQFQ_ENTRY_SLOW) {
		inflight = __atomic_add_fetch(&nr_slow_inflight, 1, __ATOMIC_RELAXED);
		if (!setup->tuned && !setup->stalls && inflight > mqfq_nr_permits(&policy))
			storm_fail("%d slow ones in flight, D is %u", inflight, setup->slots);
	}
	push(&at_device, entry);
}

static struct flow_local *place_of(struct mqfq_queue *q, const struct flow *f)
{
	return flow_local_of(&q->flows, f->key);
}

/* Each entry counts as one byte. */
static void serve(struct mqfq_queue *q, const struct mqfq_entry *e)
{
	if (e->flow & MQFQ_ENTRY_DIRECT)
		atomic64_add(1, &mqfq_entry_flow(e)->service_bytes);
	else
		flow_local_serve(place_of(q, mqfq_entry_flow(e)), 1);
}

static void dispatch(struct mqfq_queue *q)
{
	while (mqfq_has_work(q)) {
		struct mqfq_entry *e;

		spin_lock(&q->lock);
		e = mqfq_take(q);
		if (e)
			serve(q, e);
		spin_unlock(&q->lock);
		if (!e)
			return;
		send_to_device(container_of(e, struct entry, e));
	}
}

/* ---- threads ---- */

/* Threads that bring new events wait here while everything is checked. */
static void may_pause(void)
{
	if (!__atomic_load_n(&pause_now, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&nr_paused, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&pause_now, __ATOMIC_SEQ_CST))
		sched_yield();
	__atomic_sub_fetch(&nr_paused, 1, __ATOMIC_SEQ_CST);
}

static void leave_pauses(void)
{
	__atomic_sub_fetch(&nr_pausable, 1, __ATOMIC_SEQ_CST);
}

static void work(unsigned int number)
{
	__atomic_add_fetch(&nr_working, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&nr_begun, 1, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&kicks[number], 0, __ATOMIC_SEQ_CST))
		dispatch(&policy.queue[number]);
	__atomic_sub_fetch(&nr_working, 1, __ATOMIC_SEQ_CST);
}

static void *worker(void *unused)
{
	unsigned int i = 0;

	while (!READ_ONCE(over)) {
		unsigned int n = policy.nr_queues, looked;

		for (looked = 0; looked < n; looked++, i = (i + 1) % n)
			if (__atomic_load_n(&kicks[i], __ATOMIC_RELAXED))
				work(i);
		sched_yield();
	}
	return unused;
}

static u64 tag(struct mqfq_queue *q, const struct entry *entry, struct flow *f)
{
	u64 cost_vt = flow_cost_vt(f, 1 + draw(COST_MAX));

	if (entry->e.flow & MQFQ_ENTRY_DIRECT)
		return flow_tag(f, mqfq_vt(&policy), cost_vt);
	return flow_local_tag(place_of(q, f), mqfq_vt(&policy), cost_vt,
			      READ_ONCE(policy.throttle_vt));
}

static void submit(struct entry *entry)
{
	struct mqfq_queue *q;
	struct flow *f;
	u64 start;

	entry->queue = draw(policy.nr_queues);
	q = &policy.queue[entry->queue];
	WRITE_ONCE(entry->busy, 1);
	spin_lock(&q->lock);
	f = flow_local_get(&q->flows, &flows, draw(NR_FLOWS), NULL, mqfq_vt(&policy));
	entry->e.flow = (unsigned long)f;
	if (!flow_is_local(place_of(q, f), f))
		entry->e.flow |= MQFQ_ENTRY_DIRECT;
	start = tag(q, entry, f);
	if (!draw(4)) {
		mqfq_insert_rt(q, &entry->e, start, draw(MQFQ_RT_LEVELS));
	} else {
		if (!draw(4))
			entry->e.flow |= MQFQ_ENTRY_SLOW;
		mqfq_insert(q, &entry->e, start);
	}
	spin_unlock(&q->lock);
	run_queue(NULL, entry->queue, MQFQ_RUNNABLE);
	__atomic_add_fetch(&nr_submitted, 1, __ATOMIC_RELAXED);
}

static void *submitter(void *data)
{
	unsigned int me = (unsigned long)data, i;

	storm_random = me + 1;
	while (!READ_ONCE(stop_submitting)) {
		may_pause();
		/* By turns one at a time and all at once. */
		unsigned int n = draw(3) ? PER_SUBMITTER : 1;

		for (i = 0; i < n; i++)
			if (!__atomic_load_n(&entries[me][i].busy, __ATOMIC_ACQUIRE))
				submit(&entries[me][i]);
		sched_yield();
	}
	leave_pauses();
	__atomic_sub_fetch(&nr_submitting, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void complete(struct entry *entry)
{
	struct mqfq_queue *q = &policy.queue[entry->queue];
	struct flow *f = mqfq_entry_flow(&entry->e);

	if (entry->e.flow & MQFQ_ENTRY_PASS) {
		__atomic_sub_fetch(&nr_passed, 1, __ATOMIC_RELAXED);
		mqfq_release_pass(q);
	} else if (entry->e.flow & MQFQ_ENTRY_SLOW) {
		__atomic_sub_fetch(&nr_inflight, 1, __ATOMIC_RELAXED);
		__atomic_sub_fetch(&nr_slow_inflight, 1, __ATOMIC_RELAXED);
		mqfq_release_slow(q);
	} else {
		__atomic_sub_fetch(&nr_inflight, 1, __ATOMIC_RELAXED);
		mqfq_release(q);
	}
	if (atomic_read(&f->refs) <= 0)
		storm_fail("flow %llu has a request and no reference", f->key);
	if (entry->e.flow & MQFQ_ENTRY_DIRECT)
		flow_put(f);
	else
		flow_local_end(place_of(q, f));
	__atomic_store_n(&entry->busy, 0, __ATOMIC_RELEASE);
	__atomic_add_fetch(&nr_completed, 1, __ATOMIC_RELAXED);
}

static void *completer(void *data)
{
	storm_random = (unsigned long)data;
	while (!READ_ONCE(over)) {
		struct entry *entry, *next;

		may_pause();
		entry = __atomic_exchange_n(draw(3) ? &at_device : &held, NULL, __ATOMIC_ACQUIRE);
		if (!entry || draw(8) == 0)
			sched_yield();
		for (; entry; entry = next) {
			next = entry->next;
			if ((int)entry->queue == READ_ONCE(stalled))
				push(&held, entry);
			else
				complete(entry);
		}
	}
	return NULL;
}

static void change_weight(void)
{
	struct flow *changed;

	flow_set_weight(&flows, draw(NR_FLOWS), 1 + draw(400));
	changed = flow_table_update(&flows, mqfq_vt(&policy));
	mqfq_rescale(&policy, changed);
	flow_table_updated(changed);
}

static void tune(void)
{
	switch (draw(5)) {
	case 0:
		mqfq_set_slots(&policy, 1 + draw(4));
		break;
	case 1:
		mqfq_set_throttle(&policy, draw(3) * 900);
		break;
	case 2:
		mqfq_set_wheel(&policy, (struct vt_wheel_geometry) { draw(14), 1 + draw(4) });
		break;
	case 3:
		change_weight();
		break;
	case 4:
		mqfq_fold(&policy);
		flow_table_reclaim(&flows, mqfq_vt(&policy));
	}
}

static void *tuner(void *data)
{
	unsigned int pause;

	storm_random = 77;
	while (!READ_ONCE(stop_submitting)) {
		may_pause();
		tune();
		for (pause = draw(TUNE_YIELDS); pause; pause--)
			sched_yield();
	}
	leave_pauses();
	return data;
}

/* Stalls one queue after another, and looks for stuck ones, on a clock of its own. */
static void *staller(void *data)
{
	unsigned int looks, pause;
	u64 now_ns = 1;

	storm_random = 99;
	while (!READ_ONCE(stop_submitting)) {
		WRITE_ONCE(stalled, draw(3) ? draw(policy.nr_queues) : NOT_STALLED);
		for (looks = draw(STALL_LOOKS); looks && !READ_ONCE(stop_submitting); looks--) {
			may_pause();
			now_ns += 60 * 1000 * 1000;
			mqfq_look(&policy, now_ns);
			for (pause = draw(TUNE_YIELDS); pause; pause--)
				sched_yield();
		}
	}
	WRITE_ONCE(stalled, NOT_STALLED);
	leave_pauses();
	return data;
}

/* ---- rounds ---- */

static void tell(void)
{
	unsigned int i;

	printf("# %u queues, D %d, T %llu, tuned %d: %d in flight, %d slots free, "
	       "virtual time %llu\n",
	       policy.nr_queues, policy.tokens.slots, policy.throttle_vt, setup->tuned,
	       READ_ONCE(nr_inflight), token_tree_nr_free(&policy.tokens), mqfq_vt(&policy));
	for (i = 0; i < policy.nr_queues; i++)
		printf("# queue %u: %u entries, state %d, leaf %llu, waits for %llu, "
		       "ready bit %d, kicked %d\n",
		       i, policy.queue[i].nr, atomic_read(&policy.queue[i].state),
		       mindicator_leaf(&policy.vt, policy.queue[i].leaf), policy.queue[i].wake_vt,
		       test_bit(policy.queue[i].leaf, policy.ready.bits), READ_ONCE(kicks[i]));
}

__attribute__((noreturn))
static void forgotten(const char *what, unsigned int number)
{
	tell();
	storm_fail("no thread is on the way, but queue %u %s", number, what);
}

/* No thread does anything, and none is about to. */
static void check_claims(void)
{
	unsigned int i, nr_entries = 0;

	for (i = 0; i < policy.nr_queues; i++) {
		struct mqfq_queue *q = &policy.queue[i];
		int state = atomic_read(&q->state);

		spin_lock(&q->lock);
		nr_entries += q->nr + q->nr_aside + q->rt.nr;
		if (q->rt.nr_passes)
			forgotten("has a pass and was not run", i);
		if (q->rt.nr && !q->rt.head)
			forgotten("has entries of class RT, and no head", i);
		if (q->rt.head && !mqfq_is_in_debt(q) &&
		    atomic_read(&policy.passes.nr_out) < mqfq_nr_passes(&policy))
			forgotten("has entries of class RT and a pass is idle", i);
		if (state == MQFQ_STUCK && !mqfq_must_wait(q))
			forgotten("is STUCK and nothing of it is in flight", i);
		if (q->nr_aside && state != MQFQ_STUCK &&
		    atomic_read(&policy.slow.permits.nr_out) < mqfq_nr_permits(&policy))
			forgotten("has slow entries aside and a permit is idle", i);
		if (state == MQFQ_READY && token_tree_nr_free(&policy.tokens) > 0)
			forgotten("is READY and a slot is idle", i);
		if (state == MQFQ_RESTING && !mqfq_nr_slots_held(q))
			forgotten("has a slot at rest and nothing at the device", i);
		if (state >= MQFQ_ARMED)
			forgotten("is ARMED and was not run", i);
		if (state == MQFQ_RUNNABLE && q->nr)
			forgotten("is RUNNABLE and has entries", i);
		if (state == MQFQ_THROTTLED &&
		    !vt_after(mqfq_first(q)->start, mqfq_vt(&policy) + policy.throttle_vt))
			forgotten("is THROTTLED and may go", i);
		spin_unlock(&q->lock);
	}
	if (nr_entries && !__atomic_load_n(&nr_inflight, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&nr_passed, __ATOMIC_SEQ_CST))
		forgotten("or another one has entries, and nothing is in flight", 0);
	nr_checks++;
}

/* No worker works, none has begun meanwhile, and no queue is to be run. */
static bool workers_rest(void)
{
	int begun = __atomic_load_n(&nr_begun, __ATOMIC_SEQ_CST);
	unsigned int i;

	if (__atomic_load_n(&nr_working, __ATOMIC_SEQ_CST))
		return false;
	for (i = 0; i < policy.nr_queues; i++)
		if (__atomic_load_n(&kicks[i], __ATOMIC_SEQ_CST))
			return false;
	return begun == __atomic_load_n(&nr_begun, __ATOMIC_SEQ_CST);
}

static void stop_and_look(void)
{
	__atomic_store_n(&pause_now, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&nr_paused, __ATOMIC_SEQ_CST) <
	       __atomic_load_n(&nr_pausable, __ATOMIC_SEQ_CST))
		sched_yield();
	while (!workers_rest())
		sched_yield();
	check_claims();
	/* A change while everything waits: nothing but its own wake-ups can set things right. */
	if (setup->tuned) {
		tune();
		while (!workers_rest())
			sched_yield();
		check_claims();
	}
	__atomic_store_n(&pause_now, 0, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&nr_paused, __ATOMIC_SEQ_CST))
		sched_yield();
}

static bool is_over(void)
{
	stop_and_look();
	if (storm_now() > end)
		WRITE_ONCE(stop_submitting, 1);
	return !__atomic_load_n(&nr_submitting, __ATOMIC_SEQ_CST) &&
	       __atomic_load_n(&nr_submitted, __ATOMIC_SEQ_CST) ==
	       __atomic_load_n(&nr_completed, __ATOMIC_SEQ_CST);
}

static unsigned long moved(void)
{
	return __atomic_load_n(&nr_completed, __ATOMIC_RELAXED);
}

static void check_flow(void *sum, struct flow *f)
{
	if (atomic_read(&f->refs) || atomic_read(&f->nr_places))
		storm_fail("flow %llu has %d references, and %d places, and no request", f->key,
			   atomic_read(&f->refs), atomic_read(&f->nr_places));
	*(u64 *)sum += atomic64_read(&f->service_bytes);
}

static void check_flows(void)
{
	u64 served = 0, taken = 0;
	unsigned int i;

	mqfq_fold(&policy);
	flow_table_for_each(&flows, check_flow, &served);
	for (i = 0; i < policy.nr_queues; i++)
		taken += policy.queue[i].taken;
	/* What is reclaimed takes its count along. */
	if (served > taken || (!setup->tuned && served != taken))
		storm_fail("%llu taken, %llu served", taken, served);
}

static void check_quiet(void)
{
	unsigned int i;

	check_flows();
	if (token_tree_nr_free(&policy.tokens) != policy.tokens.slots || nr_inflight ||
	    atomic_read(&policy.tokens.nr_lent))
		storm_fail("%d slots of %d are free, %d in flight",
			   token_tree_nr_free(&policy.tokens), policy.tokens.slots, nr_inflight);
	if (atomic_read(&policy.slow.permits.nr_out) || atomic_read(&policy.slow.nr_aside))
		storm_fail("%d permits are out, %d entries aside",
			   atomic_read(&policy.slow.permits.nr_out),
			   atomic_read(&policy.slow.nr_aside));
	if (atomic_read(&policy.passes.nr_out) || nr_passed)
		storm_fail("%d passes are out, %d in flight",
			   atomic_read(&policy.passes.nr_out), nr_passed);
	for (i = 0; i < policy.nr_queues; i++) {
		struct mqfq_queue *q = &policy.queue[i];

		if (q->nr_aside || q->nr_permits)
			storm_fail("queue %u has slow entries aside, or permits", i);
		if (q->rt.nr || q->rt.head || q->rt.nr_passes || q->rt.levels)
			storm_fail("queue %u has entries of class RT, or passes", i);
		if (q->nr || q->nr_flows || q->inserted != q->taken ||
		    rb_first_cached(&q->others) || q->in_order.first)
			storm_fail("queue %u is not empty", i);
		if (mindicator_leaf(&policy.vt, q->leaf) != VT_NONE)
			storm_fail("queue %u is empty, its leaf is not", i);
		nr_stuck += q->nr_stuck;
	}
}

static void run_round(double seconds)
{
	struct topology_place place[QUEUES_MAX];
	struct mqfq_config config = {
		.throttle_vt = setup->throttle_vt, .slots = setup->slots, .wheel = { 9, 3 },
	};
	pthread_t threads[NR_THREADS], tuning, stalling;
	unsigned long i, n = 0;
	u64 vt = 0 - 200000ULL;

	shape_places(&setup->shape, place);
	if (mqfq_policy_init(&policy, place, setup->shape.nr_queues, vt, &config, &ops, NULL,
			     GFP_KERNEL))
		storm_fail("no memory");
	over = 0;
	stop_submitting = 0;
	nr_submitting = NR_SUBMITTERS;
	nr_pausable = NR_SUBMITTERS + NR_COMPLETERS + setup->tuned + setup->stalls;
	stalled = NOT_STALLED;
	end = storm_now() + seconds;
	for (i = 0; i < NR_WORKERS; i++)
		pthread_create(&threads[n++], NULL, worker, NULL);
	for (i = 0; i < NR_COMPLETERS; i++)
		pthread_create(&threads[n++], NULL, completer, (void *)(i + 50));
	for (i = 0; i < NR_SUBMITTERS; i++)
		pthread_create(&threads[n++], NULL, submitter, (void *)i);
	if (setup->tuned)
		pthread_create(&tuning, NULL, tuner, NULL);
	if (setup->stalls)
		pthread_create(&stalling, NULL, staller, NULL);
	storm_watch(is_over, moved, tell);
	WRITE_ONCE(over, 1);
	while (n)
		pthread_join(threads[--n], NULL);
	if (setup->tuned)
		pthread_join(tuning, NULL);
	if (setup->stalls)
		pthread_join(stalling, NULL);
	check_quiet();
	if (vt_after(vt, mqfq_vt(&policy)))
		storm_fail("virtual time went back");
	mqfq_policy_destroy(&policy);
}

int main(int argc, char **argv)
{
	static const struct setup setups[] = {
		{ { "", 2, 2, 2, 2, 1 }, 1, 0, false },
		{ { "", 3, 2, 2, 3, 1 }, 1, 1000, false },
		{ { "", 3, 2, 2, 3, 1 }, 2, 0, false },
		{ { "", 4, 2, 2, 4, 1 }, 2, 500, false },
		{ { "", 4, 2, 2, 4, 1 }, 3, 100000, false },
		{ { "", 9, 2, 4, 5, 1 }, 2, 4000, false },
		{ { "", 70, 2, 8, 35, 1 }, 1, 0, false },
		{ { "", 1, 1, 1, 1, 1 }, 1, 0, true },
		{ { "", 4, 2, 2, 4, 1 }, 2, 1000, true },
		{ { "", 9, 1, 1, 9, 2 }, 4, 0, true },
		{ { "", 70, 1, 1, 70, 1 }, 2, 1000, true },
		{ { "", 3, 2, 2, 3, 1 }, 2, 500, false, true },
		{ { "", 4, 2, 2, 4, 1 }, 2, 0, false, true },
		{ { "", 4, 2, 2, 4, 1 }, 3, 1000, true, true },
	};
	unsigned int i, n = sizeof(setups) / sizeof(setups[0]);

	storm_begin(argc, argv, "mqfq_wakeup", 5.2);
	for (i = 0; i < n; i++) {
		if (flow_table_init(&flows, weight_of, NULL, GFP_KERNEL))
			storm_fail("no memory");
		setup = &setups[i];
		run_round(storm_seconds / n);
		flow_table_destroy(&flows);
		rcu_barrier();
	}
	printf("# %lu looks at everything at rest, %lu times stuck\n", nr_checks, nr_stuck);
	return storm_end(nr_completed);
}
