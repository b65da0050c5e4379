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
 * and gets 4 is partly idle. On a 970-class drive a bound of 2 makes the 99.9th percentile of
 * random reads about 16 times shorter and lowers the bandwidth as much. A bound of 64 costs little
 * and gains little. The right bound depends on the task. So it is a tunable, and the scheduler can
 * find it by itself.
 *
 * The algorithm
 * =============
 * There are nine queues, each first in, first out: one for each of the eight levels of the
 * real-time I/O priority class, and one for everything else. While fewer than max_inflight
 * requests are at the device, the head of the most urgent nonempty queue goes. A request that comes
 * while nothing waits and a slot is free takes the slot and is in none of the queues. Strict
 * priority can starve the ninth queue. With be_max_delay_ms set, its head goes next once it has
 * waited that long. It gets the next slot, not one beyond the bound. k2_policy.c is this paragraph
 * as code.
 *
 * The state of a request is kept in rq->elv.priv (struct k2_rq):
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
 * finish_request gives the slot back, not completed_request. Both are called at the end of a
 * request that succeeds, but only finish_request is called exactly once for every request. So no
 * slot leaks. Some requests bypass the scheduler: flush and passthrough requests go to the
 * dispatch list without insert. An empty flush is finished without insert. The data of a flush
 * sequence is inserted at the head after its pre-flush and finished before its post-flush. A
 * request that a driver requeues after it has prepared it (RQF_DONTPREP) returns to the driver
 * directly and is not counted on that trip. In all of these cases the state is NONE or REQUEUED,
 * and finish_request has nothing to do.
 *
 * Merging. Sequential requests that wait here are joined: a bio into a queued request at either
 * end of the newest one and at the back of any (bio_merge), and a request into a queued request
 * (insert_requests). The block layer joins only equal priorities, so no request changes its
 * queue. A request is entered in the merge index only if it seems to have to wait. When the queues
 * are empty and the bound is not reached, it is gone before a neighbour can arrive, and under a
 * light load the index would cost more than the scheduler. Discards with several ranges are joined
 * only as the newest request and kept out of the hash: elv_attempt_insert_merge() merges the merged
 * request once more, and for these requests alone it does not tell us that a request leaves.
 *
 * What others wait for (blk/urgent.h: metadata, swap) has no privilege here. It could be first only
 * at the cost of a real-time request, or of one tag of the share below, and that is the promise. A
 * real-time task that depends on best-effort work sets be_max_delay_ms. Nothing else holds it back.
 *
 * Tags. A request needs a scheduler tag before the scheduler can see its priority. Best effort
 * could use up the tags and keep real time waiting for one, in a queue without priorities. So a
 * quarter of each hardware queue's tags, and at least one, is reserved for tasks of the real-time
 * class (limit_depth). At that point the task is known and the bio is not: a priority given to a
 * single request (io_uring, aio) chooses its queue but not its tag.
 *
 * Locking
 * =======
 * k2->lock guards the queues, the merge index and the counters beside them. It is taken with
 * interrupts on, in process context: insert, merge and dispatch never run in an interrupt. The
 * hooks that may (finish, requeue) take no lock; they use the in-flight count, which is atomic,
 * and per-CPU counters. No lock is taken inside it except the block layer's own inside its merge
 * helpers. One lock per device is the price of a global priority order.
 *
 * While nothing waits there is no order to keep, and k2->lock is not taken: a request takes its
 * slot by an atomic operation on insert, and waits for its dispatch in the ready list of its
 * hardware queue, under that queue's own lock. All submissions from a plug go this way, or none.
 * That list has no order and no merging. So requests that might wait there for the driver do not
 * go this way: the queue is stopped or has leftovers, or the driver has fewer tags than the bound,
 * shares them with other devices, or can refuse requests anyway, as SCSI does.
 *
 * k2->auto_mutex guards the automatic bound's law, its sums and the targets, and serialises
 * changes of the bound. Stores, the tick and debugfs take it. k2->lock and auto_mutex are never
 * held together.
 *
 * k2_policy.c says which event wakes a waiting request, and proves that no wake-up is lost. A
 * submission without a plug runs the queue from insert_requests, in the submitter's context. Only
 * its own hardware queue sends a ready request: QUEUE_FLAG_SQ_SCHED must be off.
 *
 * Lifetime
 * ========
 * k2_data lives from init_sched to exit_sched. The queue is frozen in both: no request has our
 * state in it, and the tick, which walks the hardware queues, is gone before they change. A change
 * of the number of hardware queues detaches and attaches us. Tunables, and the bound that was
 * found, are in the disk's struct keep (lib/blk/keep.h). nr_requests changes go through
 * depth_updated.
 *
 * Observability
 * =============
 * sysfs: max_inflight, be_max_delay_ms, target_p999_us, target_bw_pct
 * (Documentation/reference/mq-k2.rst). Tracepoints: mq_k2:k2_insert, k2_dispatch, k2_complete,
 * k2_auto. debugfs, below /sys/kernel/debug/block/DEVICE/sched/: queued (nine lengths), inflight,
 * auto, counters. Per queue
 *
 *	inserted   = merged + dispatched + queued
 *	dispatched = completed + requeued + in flight
 *
 * and exit_sched warns if the counters do not balance. A requeued request that comes back is
 * counted as inserted again.
 *
 * Names: k2 is the device's scheduler data, p its policy, rq a request, kr our state in it.
 *
 * Reference: T. Miemietz, H. Weisbach, M. Roitzsch, H. Haertig, "K2: Work-Constraining Scheduling
 * of NVMe-Attached Storage", RTSS 2019; S. Park, J. Lee, "Analysis of the K2 Scheduler for a
 * Real-Time System with an SSD", Electronics 10, 865 (2021). Beyond the papers: merging,
 * be_max_delay_ms, the share of the tags, and the automatic bound.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/slab.h>

#include <trace/events/block.h>

#include "blk/hctx.h"
#include "blk/slot.h"
#include "blk/submit.h"
#include "blk/tag_share.h"
#include "blk/wbt.h"
#include "k2.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

/* ---- constants ---- */

enum {
	K2_MAX_INFLIGHT_DEFAULT	= 32,
};

/* ---- helpers ---- */

static unsigned int k2_ioprio_to_queue(u16 ioprio)
{
	if (IOPRIO_PRIO_CLASS(ioprio) != IOPRIO_CLASS_RT)
		return K2_BE_QUEUE;
	return IOPRIO_PRIO_LEVEL(ioprio);
}

/* The clock is read only if something uses the time. */
static u64 k2_insert_time_ns(const struct k2_data *k2)
{
	return READ_ONCE(k2->be_max_delay_ms) || READ_ONCE(k2->is_auto) ||
	       trace_k2_complete_enabled() ? ktime_get_ns() : 0;
}

static bool k2_is_multi_discard(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

/* A first check by kind: the merge helpers check every other reason against a merge. */
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

static bool k2_queue_has_work(const struct k2_data *k2, const struct k2_queue *kq)
{
	return !list_empty_careful(&kq->ready) || k2_policy_has_work(&k2->policy);
}

/* ---- init and exit ---- */

void k2_count(struct k2_data *k2, unsigned int queue, struct k2_counters *c)
{
	unsigned int i;
	int cpu;

	*c = (struct k2_counters) {
		.inserted	= k2->inserted[queue],
		.merged		= k2->merged[queue],
		.dispatched	= k2->dispatched[queue],
		.queued		= k2->policy.nr_queued[queue],
	};
	for (i = 0; i < k2->nr_queues; i++) {
		unsigned long passed = READ_ONCE(k2->queue[i].passed[queue]);

		c->inserted += passed;
		c->dispatched += passed;
	}
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
		k2_count(k2, i, &c);
		if (c.queued || c.inserted != c.merged + c.dispatched ||
		    c.dispatched != c.completed + c.requeued)
			return false;
	}
	return !atomic_read(&k2->policy.inflight);
}

static unsigned int k2_driver_tags(const struct request_queue *q)
{
	const struct blk_mq_tag_set *set = q->tag_set;

	if (q->mq_ops->get_budget || (set->flags & BLK_MQ_F_TAG_HCTX_SHARED))
		return 0;
	return set->queue_depth - set->reserved_tags;
}

static struct k2_data *k2_alloc(struct request_queue *q, const struct elevator_queue *eq)
{
	struct k2_data *k2 = kzalloc_node(sizeof(*k2), GFP_KERNEL, q->node);
	unsigned int i;

	if (!k2)
		return NULL;
	k2->q = q;
	k2->nr_queues = q->nr_hw_queues;
	k2->driver_tags = k2_driver_tags(q);
	k2->queue = kvcalloc(k2->nr_queues, sizeof(*k2->queue), GFP_KERNEL);
	if (!k2->queue)
		goto err_k2;
	k2->cpu_counters = mqfair_alloc_percpu(struct k2_cpu_counters);
	if (!k2->cpu_counters)
		goto err_queue;
	k2->cpu_sums = mqfair_alloc_percpu(struct tail_sums);
	if (!k2->cpu_sums)
		goto err_counters;
	k2->keep = keep_get(q, eq, sizeof(struct tail_found));
	if (!k2->keep)
		goto err_sums;
	for (i = 0; i < k2->nr_queues; i++) {
		spin_lock_init(&k2->queue[i].lock);
		INIT_LIST_HEAD(&k2->queue[i].ready);
	}
	spin_lock_init(&k2->lock);
	return k2;

err_sums:
	free_percpu(k2->cpu_sums);
err_counters:
	free_percpu(k2->cpu_counters);
err_queue:
	kvfree(k2->queue);
err_k2:
	kfree(k2);
	return NULL;
}

static void k2_free(struct k2_data *k2)
{
	keep_put(k2->keep);
	free_percpu(k2->cpu_sums);
	free_percpu(k2->cpu_counters);
	kvfree(k2->queue);
	kfree(k2);
}

static int k2_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct k2_data *k2 = k2_alloc(q, eq);

	if (!k2)
		return -ENOMEM;
	k2_policy_init(&k2->policy, K2_MAX_INFLIGHT_DEFAULT);
	k2_tuner_init(k2, K2_MAX_INFLIGHT_DEFAULT);

	hctx_run_each(q);
	tag_share_update(q);
	wbt_off(q);

	eq->elevator_data = k2;
	keep_restore(k2->keep, eq);
	k2_tuner_resume(k2, k2->keep->found);
	q->elevator = eq;
	return 0;
}

static void k2_exit_sched(struct elevator_queue *eq)
{
	struct k2_data *k2 = eq->elevator_data;

	k2_tuner_exit(k2);
	WARN_ON_ONCE(!k2_is_balanced(k2));
	wbt_back(k2->q);
	keep_save(k2->keep, eq);
	tail_get_found(&k2->law, k2->keep->found);
	k2_free(k2);
}

static int k2_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
	struct k2_data *k2 = hctx->queue->elevator->elevator_data;

	hctx->sched_data = &k2->queue[number];
	return 0;
}

/* ---- request hooks, in the order of a request's life ---- */

/*
 * Called before a tag, or a batch of them for a plug, is allocated. The bio is not known here,
 * the task is.
 */
static void k2_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	if (IOPRIO_PRIO_CLASS(get_current_ioprio()) != IOPRIO_CLASS_RT)
		data->shallow_depth = tag_share_limit(data);
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

/* @rq has come. One that comes back keeps its place in time and its queue. */
static void k2_receive(struct request *rq, u64 now_ns)
{
	struct k2_rq *kr = k2_rq(rq);

	if (mqfair_adopt(rq))
		k2_prepare_request(rq);
	if (kr->state == K2_RQ_NONE) {
		kr->ioprio = req_get_ioprio(rq);
		kr->queue = k2_ioprio_to_queue(kr->ioprio);
		rq->fifo_time = now_ns;
	}
}

/* @rq has not been merged: from now on it waits, or is ready. */
static void k2_note_queued(const struct k2_data *k2, struct request *rq, bool passed)
{
	struct k2_rq *kr = k2_rq(rq);

	kr->state = K2_RQ_QUEUED;
	trace_block_rq_insert(rq);
	trace_k2_insert(rq, blk_rq_bytes(rq), kr->ioprio, atomic_read(&k2->policy.inflight),
			passed);
}

/* The driver takes all requests of @hctx that have a slot. */
static bool k2_driver_takes_all(const struct k2_data *k2, struct blk_mq_hw_ctx *hctx)
{
	return hctx_is_free(hctx) && !(hctx->flags & BLK_MQ_F_TAG_QUEUE_SHARED) &&
	       READ_ONCE(k2->policy.max_inflight) <= k2->driver_tags;
}

/* Gives all of @list a slot and makes them ready, if none of them has to wait. */
static bool k2_pass(struct k2_data *k2, struct blk_mq_hw_ctx *hctx, struct list_head *list,
		    u64 now_ns)
{
	struct k2_queue *kq = hctx->sched_data;
	struct request *rq;

	if (!k2_driver_takes_all(k2, hctx) ||
	    !k2_policy_pass(&k2->policy, list_count_nodes(list)))
		return false;
	spin_lock(&kq->lock);
	list_for_each_entry(rq, list, queuelist) {
		k2_receive(rq, now_ns);
		k2_note_queued(k2, rq, true);
		kq->passed[k2_rq(rq)->queue]++;
	}
	list_splice_tail_init(list, &kq->ready);
	spin_unlock(&kq->lock);
	return true;
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

	if (index || k2_policy_will_wait(&k2->policy))
		k2_index(k2, rq);
	k2_note_queued(k2, rq, false);
	k2_policy_insert(&k2->policy, &rq->queuelist, kr->queue, at_head);
}

static void k2_insert_list(struct k2_data *k2, struct list_head *list, bool at_head, bool busy,
			   u64 now_ns)
{
	struct request *rq;
	LIST_HEAD(free);
	bool index;

	spin_lock(&k2->lock);
	index = busy || k2->policy.nonempty;
	while ((rq = list_first_entry_or_null(list, struct request, queuelist))) {
		list_del_init(&rq->queuelist);
		k2_receive(rq, now_ns);
		k2_insert_request(k2, rq, at_head, index, &free);
	}
	spin_unlock(&k2->lock);

	while ((rq = list_first_entry_or_null(&free, struct request, queuelist))) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/*
 * Called from blk_mq_insert_request(), one request, and from the flush of a plug, many of one
 * hardware queue. blk-mq runs the queue afterwards; blk/submit.h tells why we run it before that.
 */
static void k2_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
			       blk_insert_t flags)
{
	struct k2_data *k2 = hctx->queue->elevator->elevator_data;
	bool at_head = flags & BLK_MQ_INSERT_AT_HEAD, direct = submit_begin(hctx, flags);
	u64 now_ns = k2_insert_time_ns(k2);

	/* First: once the requests are inserted they may end, and the scheduler with them. */
	if (READ_ONCE(k2->is_auto))
		k2_tuner_kick(k2);
	if (at_head || !k2_pass(k2, hctx, list, now_ns))
		k2_insert_list(k2, list, at_head, READ_ONCE(hctx->dispatch_busy), now_ns);
	if (direct)
		submit_end(hctx, k2_queue_has_work(k2, hctx->sched_data));
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

/* @rq has left its list, with a slot, and goes to the driver. */
static void k2_note_sent(const struct k2_data *k2, struct request *rq, bool passed)
{
	struct k2_rq *kr = k2_rq(rq);

	kr->state = K2_RQ_INFLIGHT;
	kr->bytes = blk_rq_bytes(rq);
	/* If it comes back it must not be merged: the driver may have mapped it. */
	rq->rq_flags |= RQF_STARTED;
	trace_k2_dispatch(rq, kr->bytes, kr->ioprio, atomic_read(&k2->policy.inflight), passed);
}

static struct request *k2_take_ready(const struct k2_data *k2, struct k2_queue *kq)
{
	struct request *rq;

	if (list_empty_careful(&kq->ready))
		return NULL;
	spin_lock(&kq->lock);
	rq = list_first_entry_or_null(&kq->ready, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		k2_note_sent(k2, rq, true);
	}
	spin_unlock(&kq->lock);
	return rq;
}

/* The request that goes next of those that wait, with a slot; NULL if there is none of either. */
static struct request *k2_take_next(struct k2_data *k2)
{
	struct k2_policy *p = &k2->policy;
	struct list_head *entry = NULL;
	u64 now_ns = 0, be_at_ns = 0;
	struct request *rq = NULL;
	int queue;

	spin_lock(&k2->lock);
	if (k2_policy_needs_time(p)) {
		now_ns = ktime_get_ns();
		be_at_ns = k2_be_head_time_ns(k2, now_ns);
	}
	queue = k2_policy_pick(p, now_ns, be_at_ns);
	if (queue != K2_NO_QUEUE)
		entry = k2_policy_take(p, queue);
	if (entry) {
		rq = list_entry(entry, struct request, queuelist);
		k2_unindex(k2, rq);
		k2->dispatched[queue]++;
		k2_note_sent(k2, rq, false);
	}
	spin_unlock(&k2->lock);
	return rq;
}

/*
 * Called from a run of @hctx, after has_work said yes. The request that goes may belong to any
 * hardware queue.
 */
static struct request *k2_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct k2_data *k2 = hctx->queue->elevator->elevator_data;
	struct request *rq = k2_take_ready(k2, hctx->sched_data) ?: k2_take_next(k2);

	if (rq && !slot_is_held(rq) && k2_policy_release(&k2->policy))
		hctx_wake(rq->mq_hctx);
	return rq;
}

/* Asked before each dispatch, and before blk-mq runs a queue. Takes no lock. */
static bool k2_has_work(struct blk_mq_hw_ctx *hctx)
{
	return k2_queue_has_work(hctx->queue->elevator->elevator_data, hctx->sched_data);
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
		hctx_wake(rq->mq_hctx);
}

static void k2_trace_complete(struct k2_data *k2, struct request *rq)
{
	struct k2_rq *kr = k2_rq(rq);
	u64 latency_ns = rq->fifo_time ? ktime_get_ns() - rq->fifo_time : 0;

	trace_k2_complete(rq, kr->bytes, kr->ioprio,
			  atomic_read(&k2->policy.inflight) - slot_is_held(rq), latency_ns);
}

/*
 * Called once for every request that has been prepared, in any context, also for those that never
 * came to insert.
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
		k2_tuner_measure(k2, rq);
	kr->state = K2_RQ_NONE;
	this_cpu_inc(k2->cpu_counters->completed[kr->queue]);
	if (slot_is_held(rq) && k2_policy_release(&k2->policy))
		hctx_wake(rq->mq_hctx);
}

/* ---- registration ---- */

MQFAIR_DEFINE_INIT_SCHED(k2_init_sched)
MQFAIR_DEFINE_DEPTH_UPDATED(tag_share_update)

static struct elevator_type k2_elevator = {
	.ops = {
		.init_sched		= MQFAIR_INIT_SCHED(k2_init_sched),
		.exit_sched		= k2_exit_sched,
		.init_hctx		= k2_init_hctx,
		.exit_hctx		= hctx_exit,
		.depth_updated		= MQFAIR_DEPTH_UPDATED(tag_share_update),
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
