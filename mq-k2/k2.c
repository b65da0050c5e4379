// SPDX-License-Identifier: GPL-2.0
/*
 * mq-k2 - an I/O scheduler that keeps a real-time task's tail latency low
 *
 * The problem
 * ===========
 * A fast drive accepts thousands of requests and works on them in an order of its own. A
 * real-time reader that has one request outstanding finds hundreds of others in front of it, and
 * no priority that the kernel keeps can help: the queue that matters is inside the drive.
 *
 * The model
 * =========
 * Keep the queue here, where priorities count, and give the drive no more than max_inflight
 * requests at a time, over all of its hardware queues. A real-time request then waits for at most
 * max_inflight others. The price is bandwidth: a drive that could work on 64 requests in parallel
 * and gets 4 is partly idle. On a 970-class drive with a bound of 2 the 99.9th percentile of
 * random reads falls about 16 times and the bandwidth with it; with 64 little is lost and little
 * is gained. Which bound is right depends on the task: that is why it is a tunable, and why it can
 * be told to find itself.
 *
 * The algorithm
 * =============
 * Nine queues, each first in, first out: the eight levels of the real-time I/O priority class,
 * and one for everything else. While fewer than max_inflight requests are at the device, the head
 * of the most urgent nonempty queue goes. Strict priority can starve the ninth queue;
 * be_max_delay_ms, if set, lets the ninth queue's head go next once it has waited that long. It
 * gets the next slot, not one beyond the bound. k2_policy.c is this paragraph as code.
 *
 * Where a request stands follows it in rq->elv.priv (struct k2_rq):
 *
 *	NONE -----> QUEUED -----> INFLIGHT -----> NONE
 *	  |          |   ^         |    finish: gives the slot back
 *	  |          |   |         |
 *	  |          |   +-- insert at the head -- REQUEUED -----> finish: slot was given back
 *	  |          |             |                 ^
 *	  |          |             +--- requeue: ----+
 *	  |          |                  gives the slot back
 *	  |          +--> MERGED: its bios live on in another request
 *	  +--> finish: never came to us
 *
 * The slot is given back in finish_request and not in completed_request. Both are called at the
 * end of a request that did well, but only finish_request is called at the end of every request,
 * exactly once, whatever became of it: that is what makes the count proof against leaks. Requests
 * pass us by, too: flush and passthrough requests go to the dispatch list without insert, an
 * empty flush is finished without insert, the data of a flush sequence is inserted at the head
 * after its pre-flush and finished before its post-flush, and a request that a driver requeues
 * after it has prepared it (RQF_DONTPREP) returns to the driver without us and is not counted on
 * that trip. In all of these the state says NONE or REQUEUED, and finish_request has nothing to
 * do.
 *
 * The automatic bound. With target_p999_us or target_bw_pct set, max_inflight is the most that the
 * bound in force may be, and k2_auto.c chooses. That file has the law; here is what feeds it. Each
 * completion adds to counters and a histogram of its CPU, without a lock. As long as requests come,
 * a work item adds up all CPUs ten times a second, asks the law, and puts the new bound in force as
 * a store to max_inflight would. It is started by an insert, and rests when a tick finds that
 * nothing has completed and nothing is in flight. Without a target, insert and completion test one
 * flag each. Latency is taken of requests that were inserted while a target was set.
 *
 * Merging. Sequential requests that wait here are joined: a bio into a queued request at either
 * end of the newest one and at the back of any (bio_merge), and a request into a queued request
 * (insert_requests). The block layer joins only equal priorities, so no request changes its
 * queue. A request is entered in the merge index only if it has to wait: when the queues are
 * empty and the bound is not reached it will be gone before a neighbour can arrive, and under a
 * light load the index would cost more than the scheduler. Discards with several ranges are
 * joined only as the newest request and kept out of the hash: elv_attempt_insert_merge() goes on
 * to merge the request that it has merged into, and for these, alone, it does so without telling
 * us that the request leaves.
 *
 * Tags. A request needs a scheduler tag before it has a priority to be sorted by, so best effort
 * could keep real time waiting for a tag, in a queue without priorities. A quarter of each
 * hardware queue's tags, and at least one, are therefore out of reach for tasks outside the
 * real-time class (limit_depth). What is known at that point is the task, not the bio: a priority
 * given to a single request (io_uring, aio) chooses its queue but not its tag.
 *
 * Locking
 * =======
 * k2->lock guards the queues, the merge index and the counters beside them. It is taken with
 * interrupts on, in process context: insert, merge and dispatch never run in an interrupt. The
 * hooks that may (finish, requeue) take no lock; they use the in-flight count, which is atomic,
 * and per-CPU counters. No lock is taken inside it except the block layer's own inside its merge
 * helpers. One lock per device is the price of a global priority order.
 *
 * k2->auto_mutex guards the law, its sums and the targets, and makes changes of the bound one
 * after the other. It is taken by stores, by the tick and by debugfs; k2->lock is never taken
 * inside it, nor it inside k2->lock.
 *
 * Who wakes whom
 * ==============
 * "Nothing to do" is answered by has_work, never by a dispatch that comes back empty (that would
 * cost a rerun of all queues 3 ms later; it happens only if two CPUs race for the last slot or
 * the last request, and is harmless). So every request that waits behind a no owes its wake-up to
 * someone:
 *
 *	it waits because		and is woken by
 *	----------------		---------------
 *	it has just come		its insert: blk-mq runs the queue after it
 *	the bound is reached		the release that ends it: finish or requeue
 *	the bound was reached and	the store to max_inflight, or the tick, that raised it
 *	has been raised
 *	its hardware queue is stopped,	the driver or blk-mq: whoever ends that state
 *	quiesced, or has leftovers	runs the queue
 *	be_max_delay_ms is not over	nobody, see below
 *
 * A deadline needs no timer. It makes a request first in line but makes no slot: if a slot is
 * free, the request is not waiting for its deadline; if none is, the release that frees one asks
 * who is first in line, and sees the time.
 *
 * Any hardware queue can dispatch any request, so it is enough to run one: that of the request
 * that made room, whose CPU is awake and whose cache is warm. If that one is stopped or sits on
 * leftovers, a run of it would not come to ask us; then all are run.
 *
 * Why no wake-up is lost. Let Q be the mask of nonempty queues, N the count in flight, M the
 * bound; W and R are write and read, mb is a full barrier. A release reads M and Q after its
 * atomic decrement of N, which is a full barrier; it wakes if it found N = M before and finds Q
 * nonempty. A no because of the bound reads N and M once more after an mb. Races 1 and 4 are also
 * told to the kernel's memory model: Documentation/mq-k2-*.litmus, result "Never" each.
 *
 * Race 1, an insert against a release:
 *
 *	1. inserter: W Q		release: W N (M to M - 1)
 *	2. inserter: mb			release: mb
 *	3. inserter: R N		release: R Q
 *
 * Of two CPUs that each write, pass a full barrier, and read what the other wrote, at least one
 * sees the other's write. If the inserter does, has_work says yes; if the release does, it wakes;
 * both is harmless.
 *
 * Race 2, a dispatcher that takes the last slot and leaves requests behind, against a release:
 *
 *	1. dispatcher: W N (M - 1 to M), under the lock; then its has_work says no
 *	2. release: W N (M to M - 1); R Q: nonempty, since it was so before step 1
 *
 * N is one variable and its changes have one order. A release that finds less than M comes after
 * one that found M, or before step 1, whose has_work then sees it.
 *
 * Race 3, two releases at once: the first finds N = M and wakes, the second finds M - 1 and does
 * not. One run is enough, since it dispatches until has_work says no. If a dispatch has come
 * between them, both find M and both wake.
 *
 * Race 4, a release against a store to max_inflight or a tick, old bound M, new bound M':
 *
 *	1. store: W M			release: W N
 *	2. store: mb			release: mb
 *	3. store: runs all, R N		release: R M
 *
 * A release that still sees M may judge wrongly, and not only when the bound is raised: when it
 * is lowered, a release of an early place in N's order may see M', one of a later place M, and
 * neither finds its bound met. But a release that did not see M' in step 3 has its N seen by the
 * store in step 3, with all that came before it, and there has_work judges by M'. Hence the store
 * runs the queues always.
 *
 * Race 5, an insert against a store to max_inflight, which is Race 1 with other letters:
 *
 *	1. inserter: W Q		store: W M
 *	2. inserter: mb			store: mb
 *	3. inserter: R M		store: R Q
 *
 * Race 6, a wake-up against a run that is about to end: the run said no before the release. The
 * wake-up queues the work item again while it runs, or finds it queued and not yet started;
 * neither is lost.
 *
 * Race 7, a wake-up against a stop of the hardware queue: the stop cancels the work item. Whoever
 * starts the queue again runs it, and has_work is asked then.
 *
 * A release always comes: a no because of the bound means N >= M >= 1, and each of the N is
 * finished or requeued by its driver, by the timeout, or by the removal of the device. Polled
 * requests are finished by the task that polls, if it does; so they give their slot back as they
 * are dispatched.
 *
 * In whose context
 * ================
 * After insert_requests, blk-mq runs the queue: at once, in the submitter's context, for a
 * plugged submission; by kblockd for one without a plug. 6.12 plugs every bio, 7.2 does not, and
 * so on 7.2 a depth-1 reader pays for a worker's wake-up before its request is even looked at. We
 * run the queue ourselves there, in insert_requests after the lock is dropped. It is allowed
 * because blk-mq, without a scheduler, calls the driver from this very place, whence the same
 * contexts and the same right to sleep. Told from the other callers by current->plug: a flush of
 * a plug, also from schedule(), has one, and a requeue inserts at the head. A reference to the
 * queue keeps the scheduler from being switched away in the meantime, as in blk-mq's own flush of
 * a plug. Completions must stay asynchronous: no driver may be called from an interrupt.
 *
 * Lifetime
 * ========
 * k2_data lives from init_sched to exit_sched. The queue is frozen in both: no request has our
 * state in it, and the tick, which walks the hardware queues, is gone before they change. A change
 * of the number of hardware queues detaches and attaches us; we keep nothing per hardware queue.
 * nr_requests changes go through depth_updated.
 *
 * Observability
 * =============
 * sysfs: max_inflight, be_max_delay_ms, target_p999_us, target_bw_pct (Documentation/reference/mq-k2.rst).
 * Tracepoints: mq_k2:k2_insert, k2_dispatch, k2_complete, k2_auto. debugfs, below
 * /sys/kernel/debug/block/DEVICE/sched/: queued (nine lengths), inflight, auto, counters. Per queue
 *
 *	inserted   = merged + dispatched + queued
 *	dispatched = completed + requeued + in flight
 *
 * and exit_sched warns if the counters do not say so. A requeued request that comes back is
 * inserted anew.
 *
 * Names: k2 is the device's scheduler data, p its policy, rq a request, kr what we keep in it.
 *
 * Reference: T. Miemietz, H. Weisbach, M. Roitzsch, H. Haertig, "K2: Work-Constraining Scheduling
 * of NVMe-Attached Storage", RTSS 2019; S. Park, J. Lee, "Analysis of the K2 Scheduler for a
 * Real-Time System with an SSD", Electronics 10, 865 (2021). Beyond the papers: merging,
 * be_max_delay_ms, the share of the tags, and the automatic bound.
 */
#define pr_fmt(fmt) "mq-k2: " fmt

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <trace/events/block.h>
#define CREATE_TRACE_POINTS
#include "trace.h"

#include "compat.h"
#include "k2_auto.h"
#include "k2_policy.h"
#include "slot.h"
#include "tag_share.h"
#include "tunable.h"

/* ---- constants ---- */

enum {
	K2_MAX_INFLIGHT_DEFAULT	= 32,

	/* One in so many of the target is for what the hooks do not see. */
	K2_UNSEEN_PART		= 64,

	/*
	 * A minute: beyond the 30 s after which blk-mq calls a request timed out, a promise is no
	 * promise.
	 */
	K2_BE_MAX_DELAY_MS_MAX	= 60000,

	K2_TARGET_P999_US_MAX	= 10000000,
	K2_TARGET_BW_PCT_MAX	= 100,
};

/* Where a request stands; see the drawing above. */
enum k2_rq_state {
	K2_RQ_NONE = 0,
	K2_RQ_QUEUED,
	K2_RQ_INFLIGHT,
	K2_RQ_REQUEUED,
	K2_RQ_MERGED,
};

/* ---- structures ---- */

/*
 * What we keep in a request. Written under k2->lock until dispatch, then by whoever completes the
 * request. The priority and the size are remembered because a finished request has given up its
 * bios.
 */
struct k2_rq {
	u8 state;
	u8 queue;
	u16 ioprio;
	u32 bytes;
};

static_assert(sizeof(struct k2_rq) <= sizeof_field(struct request, elv.priv));

/*
 * Counted without a lock, in any context; the sum over the CPUs is exact when the queue is
 * frozen.
 */
struct k2_cpu_counters {
	unsigned long completed[K2_NR_QUEUES];
	unsigned long requeued[K2_NR_QUEUES];
};

struct k2_data {
	/* Read-mostly. */
	struct request_queue *q;
	struct k2_cpu_counters __percpu *cpu_counters;
	struct k2_auto_sums __percpu *cpu_sums;
	unsigned int be_max_delay_ms;
	bool is_auto;
	unsigned int target_p999_us;
	atomic_t ticking;

	/* Under the lock. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned long inserted[K2_NR_QUEUES];
	unsigned long merged[K2_NR_QUEUES];
	unsigned long dispatched[K2_NR_QUEUES];
	struct k2_policy policy;

	/* Under the mutex. */
	struct mutex auto_mutex;
	unsigned int max_inflight;
	unsigned int target_bw_pct;
	bool said_unmet;
	struct k2_auto law;
	struct k2_auto_sums sums;
	struct delayed_work tick;
};

/* One queue's counters, added up. */
struct k2_counters {
	unsigned long inserted, merged, dispatched, completed, requeued, queued;
};

/* ---- helpers ---- */

static inline struct k2_rq *k2_rq(struct request *rq)
{
	return (struct k2_rq *)rq->elv.priv;
}

static unsigned int k2_ioprio_to_queue(u16 ioprio)
{
	if (IOPRIO_PRIO_CLASS(ioprio) != IOPRIO_CLASS_RT)
		return K2_BE_QUEUE;
	return IOPRIO_PRIO_LEVEL(ioprio);
}

/* The clock is read only for someone who looks at it. */
static u64 k2_insert_time_ns(const struct k2_data *k2)
{
	return READ_ONCE(k2->be_max_delay_ms) || READ_ONCE(k2->is_auto) ||
	       trace_k2_complete_enabled() ? ktime_get_ns() : 0;
}

static bool k2_is_multi_discard(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

/* By kind: the merge helpers know more reasons against a merge, and check them all. */
static void k2_index(struct k2_data *k2, struct request *rq)
{
	lockdep_assert_held(&k2->lock);

	if ((rq->cmd_flags & REQ_NOMERGE_FLAGS) || (rq->rq_flags & RQF_NOMERGE_FLAGS) ||
	    blk_queue_nomerges(rq->q))
		return;
	if (!k2_is_multi_discard(rq))
		elv_rqhash_add(rq->q, rq);
	rq->q->last_merge = rq;
}

static void k2_unindex(struct k2_data *k2, struct request *rq)
{
	lockdep_assert_held(&k2->lock);

	if (rq->rq_flags & RQF_HASHED)
		elv_rqhash_del(rq->q, rq);
	if (rq->q->last_merge == rq)
		rq->q->last_merge = NULL;
}

static void k2_wake_all(struct k2_data *k2)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(k2->q, hctx, i)
		blk_mq_run_hw_queue(hctx, true);
}

/* Runs @hctx, or all if a run of @hctx would not come to ask us. Any context. */
static void k2_wake(struct k2_data *k2, struct blk_mq_hw_ctx *hctx)
{
	if (!test_bit(BLK_MQ_S_STOPPED, &hctx->state) && list_empty_careful(&hctx->dispatch))
		blk_mq_run_hw_queue(hctx, true);
	else
		k2_wake_all(k2);
}

/* ---- the automatic bound ---- */

static void k2_queue_tick(struct k2_data *k2)
{
	kblockd_mod_delayed_work_on(WORK_CPU_UNBOUND, &k2->tick,
				    nsecs_to_jiffies(K2_AUTO_TICK_NS) ?: 1);
}

/* A request has come. */
static void k2_start_ticks(struct k2_data *k2)
{
	/*
	 * Pairs with atomic_set() in k2_tick_work(), but no order is needed: who does not see that
	 * the ticks have ended leaves it to the next request to start them.
	 */
	if (!atomic_read(&k2->ticking) && !atomic_xchg(&k2->ticking, 1))
		k2_queue_tick(k2);
}

static u64 k2_target_ns(const struct k2_data *k2)
{
	return (u64)READ_ONCE(k2->target_p999_us) * NSEC_PER_USEC;
}

/*
 * A task's wait begins before the insert and ends after the completion: system call, allocation of a tag, wake-up. For that the law
 * gets a little less than the target.
 */
static u64 k2_aim_ns(const struct k2_data *k2)
{
	u64 target_ns = k2_target_ns(k2);

	return target_ns - target_ns / K2_UNSEEN_PART;
}

/* Any context. The request is about to give its slot back. */
static void k2_measure(struct k2_data *k2, struct request *rq)
{
	const struct k2_rq *kr = k2_rq(rq);
	u64 latency_ns;

	this_cpu_inc(k2->cpu_sums->nr);
	/* Not "the bound is met": of completions that come together only one would see it. */
	if (READ_ONCE(k2->policy.nonempty))
		this_cpu_inc(k2->cpu_sums->nr_limited);
	this_cpu_add(k2->cpu_sums->bytes, kr->bytes);
	if (kr->queue == K2_BE_QUEUE) {
		this_cpu_add(k2->cpu_sums->be_bytes, kr->bytes);
		if (req_op(rq) == REQ_OP_READ)
			this_cpu_add(k2->cpu_sums->be_read_bytes, kr->bytes);
	} else if (rq->fifo_time) {
		latency_ns = ktime_get_ns() - rq->fifo_time;
		this_cpu_inc(k2->cpu_sums->nr_rt);
		if (latency_ns > k2_aim_ns(k2))
			this_cpu_inc(k2->cpu_sums->nr_beyond);
		this_cpu_inc(k2->cpu_sums->bin[k2_auto_bin(latency_ns)]);
	}
}

/*
 * Completions may run meanwhile: a request may be counted as done in this sum and as beyond the
 * target in the next.
 */
static void k2_add_up(struct k2_data *k2)
{
	struct k2_auto_sums *sums = &k2->sums;
	unsigned int i;
	int cpu;

	lockdep_assert_held(&k2->auto_mutex);

	memset(sums, 0, sizeof(*sums));
	for_each_possible_cpu(cpu) {
		const struct k2_auto_sums *c = per_cpu_ptr(k2->cpu_sums, cpu);

		sums->nr += READ_ONCE(c->nr);
		sums->nr_limited += READ_ONCE(c->nr_limited);
		sums->bytes += READ_ONCE(c->bytes);
		sums->be_bytes += READ_ONCE(c->be_bytes);
		sums->be_read_bytes += READ_ONCE(c->be_read_bytes);
		sums->nr_beyond += READ_ONCE(c->nr_beyond);
		if (!READ_ONCE(c->nr_rt))
			continue;
		sums->nr_rt += READ_ONCE(c->nr_rt);
		for (i = 0; i < K2_AUTO_NR_BINS; i++)
			sums->bin[i] += READ_ONCE(c->bin[i]);
	}
}

static void k2_say_unmet(struct k2_data *k2)
{
	const struct k2_auto *a = &k2->law;

	lockdep_assert_held(&k2->auto_mutex);

	/* The first window of the hold is what the best is worth: it may be between aim and target. */
	if (k2->said_unmet || a->state != K2_AUTO_HOLD || !a->is_unmet || !a->calm ||
	    a->best_p999_ns <= k2_target_ns(k2))
		return;
	k2->said_unmet = true;
	pr_info("%s: target_p999_us %u can not be met: the best was %llu us, with a bound of %u\n",
		k2->q->disk ? k2->q->disk->disk_name : "?", k2->target_p999_us,
		div_u64(a->best_p999_ns, NSEC_PER_USEC), a->best_bound);
}

/* Puts the law's bound in force. */
static void k2_apply_bound(struct k2_data *k2)
{
	lockdep_assert_held(&k2->auto_mutex);

	k2_policy_set_max_inflight(&k2->policy, k2->law.bound);
	k2_wake_all(k2);
}

/* A tunable of the law has changed: it begins anew. */
static void k2_set_targets(struct k2_data *k2)
{
	struct k2_auto_config config = {
		.target_ns	= k2_aim_ns(k2),
		.bandwidth_pct	= k2->target_bw_pct,
		.ceiling	= k2->max_inflight,
	};

	lockdep_assert_held(&k2->auto_mutex);

	k2_auto_set_config(&k2->law, &config, ktime_get_ns());
	k2->said_unmet = false;
	WRITE_ONCE(k2->is_auto, k2_auto_is_on(&config));
	k2_apply_bound(k2);
}

static void k2_tick_work(struct work_struct *work)
{
	struct k2_data *k2 = container_of(work, struct k2_data, tick.work);
	struct k2_auto *a = &k2->law;
	unsigned long before;
	u32 inflight;
	bool again;

	mutex_lock(&k2->auto_mutex);
	before = k2->sums.nr;
	k2_add_up(k2);
	inflight = atomic_read(&k2->policy.inflight);
	if (k2_auto_tick(a, &k2->sums, inflight, ktime_get_ns())) {
		trace_k2_auto(k2->q, a);
		k2_say_unmet(k2);
		if (a->bound != a->last.bound)
			k2_apply_bound(k2);
	}
	again = k2->is_auto && (inflight || k2->sums.nr != before);
	mutex_unlock(&k2->auto_mutex);

	if (again)
		k2_queue_tick(k2);
	else
		atomic_set(&k2->ticking, 0);
}

/* ---- init and exit ---- */

static void k2_count_queue(struct k2_data *k2, unsigned int queue, struct k2_counters *c)
{
	int cpu;

	*c = (struct k2_counters) {
		.inserted	= k2->inserted[queue],
		.merged		= k2->merged[queue],
		.dispatched	= k2->dispatched[queue],
		.queued		= k2->policy.nr_queued[queue],
	};
	for_each_possible_cpu(cpu) {
		c->completed += READ_ONCE(per_cpu_ptr(k2->cpu_counters, cpu)->completed[queue]);
		c->requeued += READ_ONCE(per_cpu_ptr(k2->cpu_counters, cpu)->requeued[queue]);
	}
}

static bool k2_is_balanced(struct k2_data *k2)
{
	struct k2_counters c;
	unsigned int i;

	for (i = 0; i < K2_NR_QUEUES; i++) {
		k2_count_queue(k2, i, &c);
		if (c.queued || c.inserted != c.merged + c.dispatched ||
		    c.dispatched != c.completed + c.requeued)
			return false;
	}
	return !atomic_read(&k2->policy.inflight);
}

/*
 * Called from blk_mq_init_sched() by way of init_sched, and from blk_mq_update_nr_requests(); the
 * queue is frozen.
 */
static void k2_depth_updated(struct request_queue *q)
{
	mqfair_set_min_shallow_depth(q, tag_share(mqfair_least_sched_depth(q)));
}

static int k2_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct k2_data *k2 = kzalloc_node(sizeof(*k2), GFP_KERNEL, q->node);

	if (!k2)
		return -ENOMEM;
	k2->cpu_counters = alloc_percpu(struct k2_cpu_counters);
	if (!k2->cpu_counters)
		goto err_k2;
	k2->cpu_sums = alloc_percpu(struct k2_auto_sums);
	if (!k2->cpu_sums)
		goto err_counters;

	k2->q = q;
	spin_lock_init(&k2->lock);
	k2_policy_init(&k2->policy, K2_MAX_INFLIGHT_DEFAULT);
	mutex_init(&k2->auto_mutex);
	k2->max_inflight = K2_MAX_INFLIGHT_DEFAULT;
	k2_auto_init(&k2->law, K2_MAX_INFLIGHT_DEFAULT);
	INIT_DELAYED_WORK(&k2->tick, k2_tick_work);

	/* Every hardware queue dispatches for all: running one of them is running the scheduler. */
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	k2_depth_updated(q);

	eq->elevator_data = k2;
	q->elevator = eq;
	return 0;

err_counters:
	free_percpu(k2->cpu_counters);
err_k2:
	kfree(k2);
	return -ENOMEM;
}

static void k2_exit_sched(struct elevator_queue *eq)
{
	struct k2_data *k2 = eq->elevator_data;

	cancel_delayed_work_sync(&k2->tick);
	WARN_ON_ONCE(!k2_is_balanced(k2));
	free_percpu(k2->cpu_sums);
	free_percpu(k2->cpu_counters);
	kfree(k2);
}

/* ---- request hooks, in the order of a request's life ---- */

/*
 * Called before a tag, or a batch of them for a plug, is allocated. The bio is not known here,
 * the task is. A limit makes blk-mq allocate a batch one by one, at 330 instructions each, so a
 * batch that leaves real time its share is let pass. Batches that ask at the same moment may all
 * pass and borrow from that share until they complete; the next to ask is limited again.
 */
static void k2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	const struct sbitmap *sb = &data->hctx->sched_tags->bitmap_tags.sb;
	unsigned int depth;

	if (IOPRIO_PRIO_CLASS(get_current_ioprio()) == IOPRIO_CLASS_RT)
		return;
	depth = tag_share(mqfair_sched_depth(data->hctx));
	if (data->nr_tags > 1 && sbitmap_weight(sb) + data->nr_tags <= depth)
		return;
	data->shallow_depth = depth;
}

static noinline bool k2_merge(struct k2_data *k2, struct request_queue *q, struct bio *bio,
			      unsigned int nr_segs)
{
	struct request *free = NULL;
	bool merged;

	spin_lock(&k2->lock);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &free);
	spin_unlock(&k2->lock);

	if (free)
		blk_mq_free_request(free);
	return merged;
}

/*
 * Called before the bio gets a request. An empty scheduler, seen without the lock, has nothing to
 * merge with.
 */
static bool k2_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct k2_data *k2 = q->elevator->elevator_data;

	return READ_ONCE(k2->policy.nonempty) && k2_merge(k2, q, bio, nr_segs);
}

/* @next is gone: it was queued, or it is the request that is being inserted. */
static void k2_note_merged(struct k2_data *k2, struct request *next)
{
	struct k2_rq *kr = k2_rq(next);

	lockdep_assert_held(&k2->lock);

	if (kr->state == K2_RQ_QUEUED) {
		k2_unindex(k2, next);
		k2_policy_remove(&k2->policy, &next->queuelist, kr->queue);
	}
	kr->state = K2_RQ_MERGED;
	k2->merged[kr->queue]++;
}

/* Called within the merge helpers, after the bios of @next have been appended to @rq. */
static void k2_requests_merged(struct request_queue *q, struct request *rq, struct request *next)
{
	k2_note_merged(q->elevator->elevator_data, next);
}

/* Called when a tag has become a request: the state is the previous owner's. */
static void k2_prepare_request(struct request *rq)
{
	k2_rq(rq)->state = K2_RQ_NONE;
}

static void k2_insert_request(struct k2_data *k2, struct request *rq, bool at_head, bool index,
			      struct list_head *free)
{
	struct k2_rq *kr = k2_rq(rq);

	lockdep_assert_held(&k2->lock);

	k2->inserted[kr->queue]++;
	if (k2->policy.nonempty && blk_mq_sched_try_insert_merge(rq->q, rq, free)) {
		/* A merge of discard ranges does not come through requests_merged. */
		if (kr->state != K2_RQ_MERGED)
			k2_note_merged(k2, rq);
		return;
	}

	trace_block_rq_insert(rq);
	trace_k2_insert(rq, blk_rq_bytes(rq), kr->ioprio, atomic_read(&k2->policy.inflight));

	if (index || k2_policy_will_wait(&k2->policy))
		k2_index(k2, rq);
	kr->state = K2_RQ_QUEUED;
	k2_policy_insert(&k2->policy, &rq->queuelist, kr->queue, at_head);
}

static void k2_insert_list(struct k2_data *k2, struct list_head *list, bool at_head, bool busy)
{
	u64 now_ns = k2_insert_time_ns(k2);
	struct request *rq;
	LIST_HEAD(free);
	bool index;

	spin_lock(&k2->lock);
	index = busy || k2->policy.nonempty;
	while ((rq = list_first_entry_or_null(list, struct request, queuelist))) {
		struct k2_rq *kr = k2_rq(rq);

		list_del_init(&rq->queuelist);
		if (mqfair_adopt(rq))
			k2_prepare_request(rq);
		/* A request that comes back keeps its place in time and its queue. */
		if (kr->state == K2_RQ_NONE) {
			kr->ioprio = req_get_ioprio(rq);
			kr->queue = k2_ioprio_to_queue(kr->ioprio);
			rq->fifo_time = now_ns;
		}
		k2_insert_request(k2, rq, at_head, index, &free);
	}
	spin_unlock(&k2->lock);
	if (READ_ONCE(k2->is_auto))
		k2_start_ticks(k2);

	while ((rq = list_first_entry_or_null(&free, struct request, queuelist))) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/*
 * Called from blk_mq_insert_request(), one request, and from the flush of a plug, many of one
 * hardware queue; blk-mq runs the queue afterwards. See "In whose context" for the run that comes
 * before that one.
 */
static void k2_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       blk_insert_t flags)
{
	struct request_queue *q = hctx->queue;
	struct k2_data *k2 = q->elevator->elevator_data;
	bool at_head = flags & BLK_MQ_INSERT_AT_HEAD;

	if (current->plug || at_head) {
		k2_insert_list(k2, list, at_head, READ_ONCE(hctx->dispatch_busy));
		return;
	}

	percpu_ref_get(&q->q_usage_counter);
	k2_insert_list(k2, list, false, READ_ONCE(hctx->dispatch_busy));
	if (k2_policy_has_work(&k2->policy))
		blk_mq_run_hw_queue(hctx, false);
	percpu_ref_put(&q->q_usage_counter);
}

/* Puts @rq, just taken from its queue, on its way to the device. */
static void k2_start_request(struct k2_data *k2, struct request *rq)
{
	struct k2_rq *kr = k2_rq(rq);

	lockdep_assert_held(&k2->lock);

	k2_unindex(k2, rq);
	kr->state = K2_RQ_INFLIGHT;
	kr->bytes = blk_rq_bytes(rq);
	k2->dispatched[kr->queue]++;
	/* If it comes back it must not be merged: the driver may have mapped it. */
	rq->rq_flags |= RQF_STARTED;
	trace_k2_dispatch(rq, kr->bytes, kr->ioprio, atomic_read(&k2->policy.inflight));
}

/*
 * The best-effort head's time of insert. One that was queued while be_max_delay_ms was 0 has
 * none: its time counts from now on.
 */
static u64 k2_be_head_time_ns(struct k2_data *k2, u64 now_ns)
{
	struct request *rq = list_entry(k2_policy_be_head(&k2->policy), struct request, queuelist);

	lockdep_assert_held(&k2->lock);

	if (!rq->fifo_time)
		rq->fifo_time = now_ns;
	return rq->fifo_time;
}

/*
 * Called from a run of @hctx, after has_work said yes. The request that goes may belong to any
 * hardware queue.
 */
static struct request *k2_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct k2_data *k2 = hctx->queue->elevator->elevator_data;
	struct k2_policy *p = &k2->policy;
	u64 now_ns = 0, be_at_ns = 0;
	struct request *rq = NULL;
	int queue;

	spin_lock(&k2->lock);
	if (k2_policy_needs_time(p)) {
		now_ns = ktime_get_ns();
		be_at_ns = k2_be_head_time_ns(k2, now_ns);
	}
	queue = k2_policy_pick(p, now_ns, be_at_ns);
	if (queue != K2_NO_QUEUE) {
		rq = list_entry(k2_policy_take(p, queue), struct request, queuelist);
		k2_start_request(k2, rq);
	}
	spin_unlock(&k2->lock);
	if (rq && !slot_is_held(rq) && k2_policy_release(p))
		k2_wake(k2, rq->mq_hctx);
	return rq;
}

/* Asked before each dispatch, and by everyone who thinks of running a queue. Takes no lock. */
static bool k2_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct k2_data *k2 = hctx->queue->elevator->elevator_data;

	return k2_policy_has_work(&k2->policy);
}

/*
 * Called from blk_mq_requeue_request(), in any context. Insert, or the driver's dispatch list,
 * comes later.
 */
static void k2_requeue_request(struct request *rq)
{
	struct k2_data *k2 = rq->q->elevator->elevator_data;
	struct k2_rq *kr = k2_rq(rq);

	if (kr->state != K2_RQ_INFLIGHT)
		return;
	kr->state = K2_RQ_REQUEUED;
	this_cpu_inc(k2->cpu_counters->requeued[kr->queue]);
	if (slot_is_held(rq) && k2_policy_release(&k2->policy))
		k2_wake(k2, rq->mq_hctx);
}

static void k2_trace_complete(struct k2_data *k2, struct request *rq)
{
	struct k2_rq *kr = k2_rq(rq);
	u64 latency_ns = rq->fifo_time ? ktime_get_ns() - rq->fifo_time : 0;

	trace_k2_complete(rq, kr->bytes, kr->ioprio, atomic_read(&k2->policy.inflight) - slot_is_held(rq),
			  latency_ns);
}

/*
 * Called once for every request that has been prepared, in any context, also for those that we
 * never saw.
 */
static void k2_finish_request(struct request *rq)
{
	struct k2_data *k2 = rq->q->elevator->elevator_data;
	struct k2_rq *kr = k2_rq(rq);

	if (kr->state != K2_RQ_INFLIGHT)
		return;
	if (trace_k2_complete_enabled())
		k2_trace_complete(k2, rq);
	if (READ_ONCE(k2->is_auto))
		k2_measure(k2, rq);
	kr->state = K2_RQ_NONE;
	this_cpu_inc(k2->cpu_counters->completed[kr->queue]);
	if (slot_is_held(rq) && k2_policy_release(&k2->policy))
		k2_wake(k2, rq->mq_hctx);
}

/* ---- sysfs ---- */

/* The tunables of the law: the number at @field, and what it has to do with it. */
static ssize_t k2_store_target(struct k2_data *k2, const char *page, size_t count,
			       unsigned int min, unsigned int max, unsigned int *field)
{
	unsigned int value;
	int ret;

	ret = tunable_parse(page, min, max, &value);
	if (ret)
		return ret;
	mutex_lock(&k2->auto_mutex);
	WRITE_ONCE(*field, value);
	k2_set_targets(k2);
	mutex_unlock(&k2->auto_mutex);
	return count;
}

#define K2_TARGET(name, min, max)							\
static ssize_t k2_##name##_show(struct elevator_queue *eq, char *page)			\
{											\
	struct k2_data *k2 = eq->elevator_data;						\
											\
	return sysfs_emit(page, "%u\n", READ_ONCE(k2->name));				\
}											\
											\
static ssize_t k2_##name##_store(struct elevator_queue *eq, const char *page,		\
				 size_t count)						\
{											\
	struct k2_data *k2 = eq->elevator_data;						\
											\
	return k2_store_target(k2, page, count, min, max, &k2->name);			\
}

K2_TARGET(max_inflight, K2_MAX_INFLIGHT_MIN, K2_MAX_INFLIGHT_MAX)
K2_TARGET(target_p999_us, 0, K2_TARGET_P999_US_MAX)
K2_TARGET(target_bw_pct, 0, K2_TARGET_BW_PCT_MAX)
#undef K2_TARGET

static ssize_t k2_be_max_delay_ms_show(struct elevator_queue *eq, char *page)
{
	struct k2_data *k2 = eq->elevator_data;

	return sysfs_emit(page, "%u\n", READ_ONCE(k2->be_max_delay_ms));
}

/* No wake-up: the delay decides who goes next, not whether anyone goes. */
static ssize_t k2_be_max_delay_ms_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct k2_data *k2 = eq->elevator_data;
	unsigned int value;
	int ret;

	ret = tunable_parse(page, 0, K2_BE_MAX_DELAY_MS_MAX, &value);
	if (ret)
		return ret;
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->be_max_delay_ms, value);
	k2->policy.be_max_delay_ns = (u64)value * NSEC_PER_MSEC;
	spin_unlock(&k2->lock);
	return count;
}

#define K2_ATTR(name) __ATTR(name, 0644, k2_##name##_show, k2_##name##_store)
static MQFAIR_ATTRS_CONST struct elv_fs_entry k2_attrs[] = {
	K2_ATTR(max_inflight),
	K2_ATTR(be_max_delay_ms),
	K2_ATTR(target_p999_us),
	K2_ATTR(target_bw_pct),
	__ATTR_NULL
};
#undef K2_ATTR

/* ---- debugfs ---- */

#ifdef CONFIG_BLK_DEBUG_FS
static int k2_queued_show(struct k2_data *k2, struct seq_file *m)
{
	u32 nr_queued[K2_NR_QUEUES];
	unsigned int i;

	spin_lock(&k2->lock);
	memcpy(nr_queued, k2->policy.nr_queued, sizeof(nr_queued));
	spin_unlock(&k2->lock);

	for (i = 0; i < K2_NR_RT_QUEUES; i++)
		seq_printf(m, "rt%u %u\n", i, nr_queued[i]);
	seq_printf(m, "be %u\n", nr_queued[K2_BE_QUEUE]);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_queued_show, "mq-k2")

static int k2_inflight_show(struct k2_data *k2, struct seq_file *m)
{
	seq_printf(m, "%d\n", atomic_read(&k2->policy.inflight));
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_inflight_show, "mq-k2")

static const char *k2_auto_verdict(const struct k2_auto *a)
{
	if (a->state != K2_AUTO_HOLD)
		return "not yet known";
	if (a->is_unmet)
		return "can not be met";
	return a->last.is_violated || (a->is_above && a->last.is_short) ? "missed" : "met";
}

/* The window is the last that ended. */
static int k2_auto_show(struct k2_data *k2, struct seq_file *m)
{
	static const char *const states[] = { "off", "reference", "search", "hold" };
	const struct k2_auto *a = &k2->law;
	const struct k2_auto_window *w = &a->last;

	mutex_lock(&k2->auto_mutex);
	seq_printf(m, "state %s\n", states[a->state]);
	seq_printf(m, "bound %u\n", a->bound);
	if (a->nr_windows) {
		seq_printf(m, "target %s\n", k2_auto_verdict(a));
		seq_printf(m, "windows %llu\n", a->nr_windows);
		seq_printf(m, "window_ms %llu\n", div_u64(w->ns, NSEC_PER_MSEC));
		seq_printf(m, "window_bound %u\n", w->bound);
		seq_printf(m, "realtime_requests %lu\n", w->nr_rt);
		seq_printf(m, "beyond_target %lu\n", w->nr_beyond);
		seq_printf(m, "p999_us %llu\n", div_u64(w->p999_ns, NSEC_PER_USEC));
		seq_printf(m, "bandwidth_kbps %llu\n", w->bytes_per_s >> 10);
		seq_printf(m, "reference_kbps %llu\n", a->reference_bytes_per_s >> 10);
		seq_printf(m, "best_p999_us %llu\n", div_u64(a->best_p999_ns, NSEC_PER_USEC));
		seq_printf(m, "best_bound %u\n", a->best_bound);
	}
	mutex_unlock(&k2->auto_mutex);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_auto_show, "mq-k2")

/*
 * With requests under way the lines are a snapshot per queue, and completions may run ahead of
 * it.
 */
static int k2_counters_show(struct k2_data *k2, struct seq_file *m)
{
	struct k2_counters c;
	unsigned int i;

	seq_puts(m, "queue inserted merged dispatched completed requeued queued\n");
	for (i = 0; i < K2_NR_QUEUES; i++) {
		spin_lock(&k2->lock);
		k2_count_queue(k2, i, &c);
		spin_unlock(&k2->lock);
		if (i < K2_NR_RT_QUEUES)
			seq_printf(m, "rt%u", i);
		else
			seq_puts(m, "be");
		seq_printf(m, " %lu %lu %lu %lu %lu %lu\n", c.inserted, c.merged, c.dispatched,
			   c.completed, c.requeued, c.queued);
	}
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_counters_show, "mq-k2")

static const struct blk_mq_debugfs_attr k2_queue_debugfs_attrs[] = {
	{"queued", 0400, k2_queued_show_file},
	{"inflight", 0400, k2_inflight_show_file},
	{"auto", 0400, k2_auto_show_file},
	{"counters", 0400, k2_counters_show_file},
	{},
};
#endif /* CONFIG_BLK_DEBUG_FS */

/* ---- registration ---- */

MQFAIR_DEFINE_INIT_SCHED(k2_init_sched)
MQFAIR_DEFINE_DEPTH_UPDATED(k2_depth_updated)

static struct elevator_type k2_elevator = {
	.ops = {
		.init_sched		= MQFAIR_INIT_SCHED(k2_init_sched),
		.exit_sched		= k2_exit_sched,
		.depth_updated		= MQFAIR_DEPTH_UPDATED(k2_depth_updated),
		.limit_depth		= k2_limit_depth,
		.bio_merge		= k2_bio_merge,
		.requests_merged	= k2_requests_merged,
		.prepare_request	= k2_prepare_request,
		.insert_requests	= k2_insert_requests,
		.dispatch_request	= k2_dispatch_request,
		.has_work		= k2_has_work,
		.requeue_request	= k2_requeue_request,
		.finish_request		= k2_finish_request,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= k2_queue_debugfs_attrs,
#endif
	.elevator_attrs		= k2_attrs,
	.elevator_name		= "mq-k2",
	.elevator_owner		= THIS_MODULE,
};

static int __init k2_init(void)
{
	return elv_register(&k2_elevator);
}

static void __exit k2_exit(void)
{
	elv_unregister(&k2_elevator);
}

module_init(k2_init);
module_exit(k2_exit);

MODULE_ALIAS("mq-k2-iosched");
MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("K2 I/O scheduler: bounded requests in flight, strict real-time priorities");
