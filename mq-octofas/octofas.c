// SPDX-License-Identifier: GPL-2.0
/*
 * mq-octofas - an I/O scheduler with two levels: between hardware queues, and inside each
 *
 * The problem
 * ===========
 * A device has as many hardware queues as there are CPUs, or connections, and a request goes to the
 * queue of the CPU that submits it. Behind a fabric each queue is a connection that one core of the
 * target serves. When a tenant with many threads fills a few of them, these queues are overloaded
 * while others idle, and a small tenant whose requests share them pays.
 *
 * The model
 * =========
 * A flow is a tenant: a cgroup, a process, or an I/O priority. Its slowdown is the latency of its
 * requests divided by the latency that they would have if the flow were alone. Fairness F is the
 * least slowdown of all flows divided by the largest. The load of a queue is the mean number of
 * requests outstanding in it; balance LB is the least over the largest.
 *
 * The algorithm
 * =============
 * OctoFAS (Electronics 2024) and OctoKV (MASCOTS 2023): a monitor looks at windows of 100 ms and
 * raises two flags. Without balance, requests move from queues above the average load to those
 * below it (inter). Without fairness, requests of dense flows go to the back of their queue up to B
 * times (intra). With neither flag nothing happens; with both flags both happen (hybrid).
 * octofas_policy.c is the algorithm, and says what the papers leave open; octofas_monitor.c does
 * the counting.
 *
 * What "moving" can mean
 * ======================
 * A request belongs to a software queue (rq->mq_ctx), a hardware queue (rq->mq_hctx) and a tag of
 * that hardware queue's scheduler tags, from its allocation on. Four ways to another queue:
 *
 *  1. Write the other queue's pointers into a request that waits. Its scheduler tag stays the first
 *     queue's, and blk_mq_free_request() gives back "its" tag to whatever rq->mq_hctx says: a tag
 *     of the other queue that another request may have. This would be right only with tags that all
 *     queues share, and even then blk_mq_ctx's request counters would be wrong. Rejected.
 *  2. Dispatch a request from the hook of another hardware queue. On all supported kernels blk-mq
 *     sorts such a request back: driver tag, queue_rq() and interrupt are those of rq->mq_hctx.
 *     Only the CPU that called changes, the overloaded target core does not. Rejected.
 *  3. Allocate a request in the other queue with blk_mq_alloc_request_hctx() and give it the bios.
 *     It is meant for passthrough: what blk_mq_submit_bio() does for a bio (accounting, rq_qos,
 *     keyslots, zone plugs, prepare_request) is not exported and would be left out. Rejected.
 *  4. Take the bios back with blk_steal_bios(), as NVMe multipath does at failover, end the empty
 *     request, and submit the bios from a CPU of the other queue. All that blk-mq does for a bio is
 *     done for these. It costs a second allocation and a switch to a worker. Chosen.
 *
 * When: as the request comes (insert_requests), before it has joined the queue. There it is known
 * to be new, nothing else has a pointer to it, nothing has merged into it but what its plug did,
 * and no lock is held. Once queued it stays: moving out of the queue would have to be done from
 * dispatch, which must then answer "nothing" although has_work said there was something, and blk-mq
 * waits 3 ms after that. octofas_move.c does it, and says what must hold.
 *
 * What does not move: flush and passthrough requests (they never come here), what belongs to a
 * flush sequence or has another owner's end_io (dm clones), what the driver has seen, polled
 * requests, discards, what is encrypted or has integrity data, anything on zoned devices or on a
 * path of NVMe multipath, what io.max has counted, what others wait for (blk/urgent.h). "fixed" in
 * debugfs counts them.
 *
 * Where a request stands is kept in rq->elv.priv (struct octofas_rq):
 *
 *	NONE -----> QUEUED -----> INFLIGHT -----> NONE
 *	  |            ^             |    finish
 *	  |            |             |
 *	  |            +- REQUEUED <-+ requeue
 *	  |                  |
 *	  +--> finish        +--> finish
 *
 * What never comes to insert, and what moves from there, stays NONE.
 *
 * Order. Requests of a queue are sent in the order of arrival but for those sent back, each at most
 * max_backward times. The data of a flush sequence, and urgent requests, are never sent back. There
 * is no order between two requests that are under way at the same time.
 *
 * Merging. A bio joins one of the last eight requests in its hardware queue's fifo (bio_merge).
 *
 * Tags. While requests are sent back a dense flow leaves 1/4 of each queue's tags (limit_depth).
 *
 * Locking
 * =======
 * A hardware queue's lock guards its fifo and counters; a courier's lock its parcels; od->lock the
 * windows and the tunables. None is taken within another, but the flow table's in a queue's. All
 * are taken with interrupts on, in process context. completed_request, finish_request and
 * requeue_request may be called in interrupts: they take no lock.
 *
 * What wakes a waiting request
 * ============================
 *	it waits because		and is woken by
 *	----------------		---------------
 *	it has just come		its insert: blk-mq then runs the queue
 *	its queue has sent as many	the end of one of those (finish or requeue); the end of a
 *	as its bound allows (intra)	window; a store to a tunable
 *	its bios are on their way	the courier, which is queued after the parcel
 *	its hardware queue is stopped,	the driver or blk-mq: what ends that state runs the
 *	quiesced, or has leftovers	queue
 *
 * While a bound changes, both sides may miss the requests of its queue. So windows go on as long as
 * anything is outstanding, and each ends by running the queues in which something waits.
 *
 * insert_requests runs the queue for a submission without a plug: lib/blk/submit.h has the reason.
 *
 * Lifetime
 * ========
 * octofas_data lives from init_sched to exit_sched; the queue is frozen in both, and exit_sched
 * waits for the monitor's work. Couriers outlive it, see octofas_move.c. A change of the number of
 * hardware queues detaches and attaches us; tunables are in the disk's keep (lib/blk/keep.h).
 *
 * CPUs. A queue none of whose CPUs is online is no target. If that happens while a parcel is on its
 * way, its bios are submitted from the CPU that the courier runs on, and served by its queue.
 *
 * Observability
 * =============
 * sysfs: policy, flow, window_ms, fair_pct, balance_pct, overload_pct, migrate, spread, alpha_pct,
 * max_backward (Documentation/reference/mq-octofas.rst). Tracepoints: mq_octofas:*. debugfs, below
 * /sys/kernel/debug/block/DEVICE/sched/: windows, flows, queues, base, fixed, counters, move_all.
 * inserted = merged + dispatched + queued, and dispatched = completed + requeued + in flight;
 * exit_sched warns if the counters do not say so. A request that moves is inserted once, where it
 * arrives.
 *
 * Names: od is the device's scheduler data, p its policy, oq our part of a hardware queue, rq a
 * request, orq what we keep in it, f a flow, t what it had in a queue, c a courier.
 */
#define pr_fmt(fmt) "mq-octofas: " fmt

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <trace/events/block.h>

#include "blk/hctx.h"
#include "blk/submit.h"
#include "blk/tag_share.h"
#include "blk/urgent.h"
#include "blk/wbt.h"
#include "octofas.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

/* ---- constants ---- */

/* Where a request stands; see the drawing above. */
enum octofas_rq_state {
	OCTOFAS_RQ_NONE = 0,
	OCTOFAS_RQ_QUEUED,
	OCTOFAS_RQ_INFLIGHT,
	OCTOFAS_RQ_REQUEUED,
};

/* ---- structures ---- */

/* What we keep in a request; rq->fifo_time is when it came, and before that its process. */
struct octofas_rq {
	struct flow *flow;
	u8 state : 7;
	u8 is_direct : 1;	/* it has a reference of its flow: see lib/flow_local.h */
	u8 place;
	u8 others;
	u8 backward;
	u8 class;
	bool patient;
	u16 home;
};

static_assert(sizeof(struct octofas_rq) <= sizeof_field(struct request, elv.priv));

/* ---- helpers ---- */

static inline struct octofas_rq *octofas_rq(struct request *rq)
{
	return (struct octofas_rq *)rq->elv.priv;
}

static u32 octofas_class(const struct request *rq)
{
	u32 units = max(blk_rq_bytes(rq), 4096U) >> 12;
	u32 size = min_t(u32, order_base_2(units), OCTOFAS_SIZES - 1);

	return op_is_write(req_op(rq)) ? OCTOFAS_SIZES + size : size;
}

/* The flow of the parcel that a courier is about to submit, or of the task that submits. */
static u64 octofas_current_key(const struct octofas_data *od)
{
	const struct octofas_parcel *parcel = octofas_parcel();

	return parcel ? parcel->key : flow_key_of_current(READ_ONCE(od->flow_kind));
}

static u32 octofas_weight_of(void *context, u64 key, void *who)
{
	return FLOW_WEIGHT_DEFAULT;
}

/* Where a flow's numbers are kept. */
static u32 octofas_place_of(struct octofas_data *od, const struct flow *f)
{
	u32 place = f->number % OCTOFAS_FLOWS;
	u32 owner = READ_ONCE(od->place[place].owner);

	if (likely(owner == f->number) || place == OCTOFAS_OTHERS)
		return place;
	/* Pairs with itself: of two flows that want the place, one gets it. */
	if (owner || cmpxchg(&od->place[place].owner, 0, f->number))
		return OCTOFAS_OTHERS;
	WRITE_ONCE(od->place[place].key, f->key);
	return place;
}

static bool octofas_queue_has_work(const struct octofas_queue *oq)
{
	u32 nr = READ_ONCE(oq->nr);

	return nr && octofas_may_send(oq->state, nr == READ_ONCE(oq->nr_patient));
}

/* ---- init and exit ---- */

void octofas_count(struct octofas_data *od, struct octofas_counters *c)
{
	unsigned int i;
	int cpu;

	*c = (struct octofas_counters) {};
	for (i = 0; i < od->nr_queues; i++) {
		struct octofas_queue *oq = &od->queue[i];

		spin_lock(&oq->lock);
		/* A bio that was merged counts as inserted, too. */
		c->inserted += oq->inserted + oq->merged;
		c->merged += oq->merged;
		c->dispatched += oq->dispatched;
		c->queued += oq->nr;
		spin_unlock(&oq->lock);
	}
	for_each_possible_cpu(cpu) {
		const struct octofas_cpu_counters *counters = per_cpu_ptr(od->cpu_counters, cpu);

		c->completed += READ_ONCE(counters->completed);
		c->requeued += READ_ONCE(counters->requeued);
	}
}

static bool octofas_is_balanced(struct octofas_data *od)
{
	struct octofas_counters c;
	u32 i, f;

	octofas_count(od, &c);
	for (i = 0; i < od->nr_queues; i++) {
		if (atomic_read(&od->queue[i].state->load) ||
		    atomic_read(&od->queue[i].state->sent) ||
		    atomic_read(&od->queue[i].state->sent_sparse))
			return false;
		for (f = 0; f < OCTOFAS_FLOWS; f++)
			if (atomic_read(&od->queue[i].tally[f].outstanding))
				return false;
	}
	return !c.queued && c.inserted == c.merged + c.dispatched &&
	       c.dispatched == c.completed + c.requeued;
}

void octofas_apply(struct octofas_data *od)
{
	spin_lock(&od->lock);
	octofas_set_config(&od->policy, &od->tunables.config);
	spin_unlock(&od->lock);
	if (atomic_read(&od->ticking))
		mod_delayed_work(system_dfl_wq, &od->tick,
				 max(1UL, msecs_to_jiffies(od->tunables.window_ms)));
	octofas_wake_all(od);
}

static int octofas_alloc_queues(struct octofas_data *od)
{
	u32 i;

	od->hctx = kvcalloc(od->nr_queues, sizeof(*od->hctx), GFP_KERNEL);
	if (!od->hctx)
		return -ENOMEM;
	od->queue = kvcalloc(od->nr_queues, sizeof(*od->queue), GFP_KERNEL);
	if (!od->queue)
		goto err_hctx;
	od->couriers = octofas_couriers_alloc(od->nr_queues);
	if (!od->couriers)
		goto err_queue;
	for (i = 0; i < od->nr_queues; i++) {
		spin_lock_init(&od->queue[i].lock);
		INIT_LIST_HEAD(&od->queue[i].fifo);
		od->queue[i].state = &od->policy.queue[i];
		od->policy.queue[i].coming = &od->couriers->courier[i].coming;
	}
	return 0;

err_queue:
	kvfree(od->queue);
err_hctx:
	kvfree(od->hctx);
	return -ENOMEM;
}

static void octofas_free_queues(struct octofas_data *od)
{
	octofas_couriers_put(od->couriers);
	kvfree(od->queue);
	kvfree(od->hctx);
}

static struct octofas_data *octofas_alloc(struct request_queue *q, const struct elevator_queue *eq)
{
	struct octofas_data *od = kvzalloc(sizeof(*od), GFP_KERNEL);

	if (!od)
		return NULL;
	od->q = q;
	od->nr_queues = q->nr_hw_queues;
	od->tunables = octofas_default_tunables;
	od->cpu_counters = mqfair_alloc_percpu(struct octofas_cpu_counters);
	if (!od->cpu_counters)
		goto err_od;
	if (flow_table_init(&od->flows, octofas_weight_of, od, GFP_KERNEL))
		goto err_counters;
	if (octofas_policy_init(&od->policy, od->nr_queues, &od->tunables.config, GFP_KERNEL))
		goto err_flows;
	if (octofas_alloc_queues(od))
		goto err_policy;
	if (octofas_monitor_init(od))
		goto err_queues;
	od->keep = keep_get(q, eq, 0);
	if (!od->keep)
		goto err_monitor;
	return od;

err_monitor:
	octofas_monitor_exit(od);
err_queues:
	octofas_free_queues(od);
err_policy:
	octofas_policy_destroy(&od->policy);
err_flows:
	flow_table_destroy(&od->flows);
err_counters:
	free_percpu(od->cpu_counters);
err_od:
	kvfree(od);
	return NULL;
}

static void octofas_free(struct octofas_data *od)
{
	keep_put(od->keep);
	octofas_monitor_exit(od);
	octofas_free_queues(od);
	octofas_policy_destroy(&od->policy);
	flow_table_destroy(&od->flows);
	free_percpu(od->cpu_counters);
	kvfree(od);
}

static int octofas_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct octofas_data *od = octofas_alloc(q, eq);

	if (!od)
		return -ENOMEM;
	if (od->nr_queues == 1)
		pr_info_ratelimited("%s: one hardware queue: nowhere to move requests to\n",
				    q->disk ? q->disk->disk_name : "?");
	hctx_run_each(q);
	tag_share_update(q);
	wbt_off(q);
	eq->elevator_data = od;
	keep_restore(od->keep, eq);
	q->elevator = eq;
	return 0;
}

static void octofas_exit_sched(struct elevator_queue *eq)
{
	struct octofas_data *od = eq->elevator_data;

	cancel_delayed_work_sync(&od->tick);
	WARN_ON_ONCE(!octofas_is_balanced(od));
	wbt_back(od->q);
	keep_save(od->keep, eq);
	octofas_free(od);
}

static int octofas_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
	struct octofas_data *od = hctx->queue->elevator->elevator_data;

	od->hctx[number] = hctx;
	hctx->sched_data = &od->queue[number];
	return 0;
}

/* ---- request hooks, in the order of a request's life ---- */

/* Called before a tag, or a batch of them for a plug, is allocated: a dense flow leaves some. */
static void octofas_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct octofas_data *od = data->q->elevator->elevator_data;
	unsigned int limit;
	struct flow *f;

	if (!octofas_is_intra(&od->policy) || urgent_is(opf, current->flags))
		return;
	limit = tag_share_limit(data);
	if (!limit)
		return;
	rcu_read_lock();
	f = flow_find(&od->flows, octofas_current_key(od));
	if (f && octofas_backwards(&od->policy, octofas_place_of(od, f)))
		data->shallow_depth = limit;
	rcu_read_unlock();
}

/* The merge helpers call this under the queue's lock. cgroups and priorities are kept apart. */
static bool octofas_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct octofas_data *od = q->elevator->elevator_data;

	return READ_ONCE(od->flow_kind) != FLOW_PROCESS ||
	       octofas_rq(rq)->flow->key == octofas_current_key(od);
}

/* Called before the bio gets a request. */
static bool octofas_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct octofas_queue *oq = mqfair_bio_hctx(q, bio)->sched_data;
	bool merged;

	if (list_empty_careful(&oq->fifo))
		return false;
	spin_lock(&oq->lock);
	merged = blk_bio_list_merge(q, &oq->fifo, bio, nr_segs);
	oq->merged += merged;
	spin_unlock(&oq->lock);
	return merged;
}

/* Called when a tag has become a request: what we keep in it is the previous owner's. */
static void octofas_prepare_request(struct request *rq)
{
	octofas_rq(rq)->state = OCTOFAS_RQ_NONE;
	rq->fifo_time = current->tgid;
}

/* The next hardware queue that can be given requests, OCTOFAS_NO_TARGET if there is none. */
static int octofas_next_queue(const struct octofas_data *od, u32 home)
{
	u32 i;

	for (i = 1; i < od->nr_queues; i++)
		if (octofas_is_usable(od->hctx[(home + i) % od->nr_queues]))
			return (home + i) % od->nr_queues;
	return OCTOFAS_NO_TARGET;
}

/* The flow of a request that comes to the queue; the request counts there, or has a reference. */
static struct flow *octofas_begin(struct octofas_data *od, struct octofas_queue *oq, u64 key,
				  bool *is_direct)
{
	struct flow *f;

	spin_lock(&oq->lock);
	f = flow_local_get(&oq->flows, &od->flows, key, NULL, 0);
	*is_direct = !flow_is_local(flow_local_of(&oq->flows, f->key), f);
	spin_unlock(&oq->lock);
	return f;
}

static void octofas_end(struct octofas_queue *oq, struct flow *f, bool is_direct)
{
	if (is_direct)
		flow_put(f);
	else
		flow_local_end(flow_local_of(&oq->flows, f->key));
}

/* A request that has come moves on, if it should and can: then it is no more. */
static bool octofas_move_on(struct octofas_data *od, struct request *rq, struct flow *f, u32 place,
			    u64 now_ns)
{
	u32 home = rq->mq_hctx->queue_num;
	bool move_all = READ_ONCE(od->move_all);
	int target, obstacle;

	target = unlikely(move_all) ? octofas_next_queue(od, home) :
				    octofas_choose_target(&od->policy, home, place);
	if (target == OCTOFAS_NO_TARGET)
		return false;
	obstacle = octofas_obstacle(od, rq, target);
	if (obstacle < 0 && !octofas_move(od, rq, target, f->key, now_ns))
		obstacle = OCTOFAS_FIXED_MEMORY;
	if (obstacle >= 0) {
		this_cpu_inc(od->cpu_counters->fixed[obstacle]);
		if (!move_all)
			octofas_stay(&od->policy, home);
		return false;
	}
	atomic64_inc(&od->queue[home].state->moved);
	return true;
}

/* A request comes for the first time. Return: false if it has moved. */
static bool octofas_arrive(struct octofas_data *od, struct request *rq, bool at_head,
			   const struct octofas_parcel *parcel, u64 now_ns)
{
	struct octofas_queue *oq = rq->mq_hctx->sched_data;
	struct octofas_rq *orq = octofas_rq(rq);
	u32 place, own, home = rq->mq_hctx->queue_num;
	struct cgroup_subsys_state *css;
	bool is_direct;
	struct flow *f;
	u64 key;

	key = parcel ? parcel->key :
		       flow_key_of_rq(READ_ONCE(od->flow_kind), rq, rq->fifo_time, &css);
	f = octofas_begin(od, oq, key, &is_direct);
	place = octofas_place_of(od, f);
	if (!parcel && !at_head && octofas_move_on(od, rq, f, place, now_ns)) {
		octofas_end(oq, f, is_direct);
		return false;
	}
	/* The number of hardware queues may have changed meanwhile. */
	if (parcel && parcel->home < od->nr_queues)
		home = parcel->home;
	own = atomic_fetch_inc(&od->queue[home].tally[place].outstanding);
	*orq = (struct octofas_rq) {
		.flow = f,
		.is_direct = is_direct,
		.place = place,
		.others = octofas_others(atomic_fetch_inc(&oq->state->load), own),
		.home = home,
		/* The next flush waits for what is of a flush sequence. */
		.patient = !at_head && !(rq->rq_flags & RQF_FLUSH_SEQ) &&
			   octofas_backwards(&od->policy, place) &&
			   !urgent_is(rq->cmd_flags, current->flags),
	};
	rq->fifo_time = now_ns;
	if (parcel) {
		rq->fifo_time = parcel->came_ns;
		atomic64_inc(&oq->state->arrived);
	}
	return true;
}

/* Those of the list that have not moved go to the queue. */
static void octofas_insert_list(struct octofas_data *od, struct octofas_queue *oq,
				struct list_head *list, bool at_head)
{
	const struct octofas_parcel *parcel = octofas_parcel();
	u64 now_ns = ktime_get_ns();
	struct request *rq, *next;
	u32 nr = 0, nr_patient = 0;

	list_for_each_entry_safe(rq, next, list, queuelist) {
		struct octofas_rq *orq = octofas_rq(rq);

		if (mqfair_adopt(rq))
			octofas_prepare_request(rq);
		if (orq->state == OCTOFAS_RQ_NONE &&
		    !octofas_arrive(od, rq, at_head, parcel, now_ns))
			continue;
		orq->state = OCTOFAS_RQ_QUEUED;
		nr++;
		nr_patient += orq->patient;
		trace_block_rq_insert(rq);
	}
	octofas_monitor_start(od);

	spin_lock(&oq->lock);
	oq->inserted += nr;
	WRITE_ONCE(oq->nr, oq->nr + nr);
	WRITE_ONCE(oq->nr_patient, oq->nr_patient + nr_patient);
	if (at_head)
		list_splice_init(list, &oq->fifo);
	else
		list_splice_tail_init(list, &oq->fifo);
	spin_unlock(&oq->lock);
	/*
	 * Pairs with atomic_dec_return() in octofas_left(): either it sees the requests, or
	 * has_work sees that another may be sent.
	 */
	smp_mb();
}

/*
 * Called from blk_mq_insert_request(), one request, and from the flush of a plug, many of one
 * hardware queue. blk-mq runs the queue afterwards; blk/submit.h tells why we run it before that.
 * A request that moves gives up its reference to the queue: ours keeps the queue for the caller.
 */
static void octofas_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				    blk_insert_t flags)
{
	struct request_queue *q = hctx->queue;

	percpu_ref_get(&q->q_usage_counter);
	octofas_insert_list(q->elevator->elevator_data, hctx->sched_data, list,
			    flags & BLK_MQ_INSERT_AT_HEAD);
	if (submit_is_direct(flags) && octofas_queue_has_work(hctx->sched_data))
		blk_mq_run_hw_queue(hctx, false);
	percpu_ref_put(&q->q_usage_counter);
}

/* Algorithm 3: a request that has been sent back as often as it may be need not be any more. */
static bool octofas_is_due(const struct octofas_data *od, const struct octofas_queue *oq,
			   const struct octofas_rq *orq)
{
	return !orq->patient || (orq->backward >= octofas_backwards(&od->policy, orq->place) &&
				octofas_may_send(oq->state, true));
}

/*
 * The first request that is due. The requests before it go to the back, and have been sent back
 * once more, except those that were sent back as often as they may and wait for their bound. If
 * none is due, sending back helps no flow: the first goes.
 */
static struct request *octofas_pick(struct octofas_data *od, struct octofas_queue *oq)
{
	struct request *rq, *next, *picked = NULL;
	LIST_HEAD(back);

	lockdep_assert_held(&oq->lock);

	if (!oq->nr_patient)
		return list_first_entry_or_null(&oq->fifo, struct request, queuelist);
	list_for_each_entry(rq, &oq->fifo, queuelist)
		if (octofas_is_due(od, oq, octofas_rq(rq))) {
			picked = rq;
			break;
		}
	if (!picked)
		return octofas_may_send(oq->state, true) ?
		       list_first_entry(&oq->fifo, struct request, queuelist) : NULL;
	list_for_each_entry_safe(rq, next, &oq->fifo, queuelist) {
		struct octofas_rq *orq = octofas_rq(rq);
		u32 limit = octofas_backwards(&od->policy, orq->place);

		if (rq == picked)
			break;
		if (orq->backward >= limit)
			continue;
		orq->backward++;
		trace_octofas_backward(rq, rq->mq_hctx->queue_num, orq->backward, limit);
		list_move_tail(&rq->queuelist, &back);
		atomic64_inc(&oq->state->backwarded);
	}
	list_splice_tail(&back, &oq->fifo);
	return picked;
}

/* Called from a run of @hctx, after has_work said yes. */
static struct request *octofas_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct octofas_data *od = hctx->queue->elevator->elevator_data;
	struct octofas_queue *oq = hctx->sched_data;
	struct octofas_rq *orq;
	struct request *rq;

	spin_lock(&oq->lock);
	rq = octofas_pick(od, oq);
	if (rq) {
		list_del_init(&rq->queuelist);
		WRITE_ONCE(oq->nr, oq->nr - 1);
		WRITE_ONCE(oq->nr_patient, oq->nr_patient - octofas_rq(rq)->patient);
		oq->dispatched++;
	}
	spin_unlock(&oq->lock);
	if (!rq)
		return NULL;

	orq = octofas_rq(rq);
	atomic_inc(&oq->state->sent);
	if (!orq->patient)
		atomic_inc(&oq->state->sent_sparse);
	orq->state = OCTOFAS_RQ_INFLIGHT;
	orq->class = octofas_class(rq);
	/* If it comes back it must not be merged: the driver may have mapped it. */
	rq->rq_flags |= RQF_STARTED;
	return rq;
}

/* Asked before each dispatch, and before blk-mq runs a queue. Takes no lock. */
static bool octofas_has_work(struct blk_mq_hw_ctx *hctx)
{
	return octofas_queue_has_work(hctx->sched_data);
}

/* A request has left the device; if that was bounded, another may go. Any context. */
static void octofas_left(struct request *rq)
{
	struct octofas_queue *oq = rq->mq_hctx->sched_data;

	if (!octofas_rq(rq)->patient)
		atomic_dec(&oq->state->sent_sparse);
	/* Pairs with smp_mb() in octofas_insert_list(). */
	atomic_dec_return(&oq->state->sent);
	if (READ_ONCE(oq->state->bound) != U32_MAX && !list_empty_careful(&oq->fifo))
		blk_mq_run_hw_queue(rq->mq_hctx, true);
}

/*
 * Called from blk_mq_requeue_request(), in any context. Insert, or the driver's dispatch list,
 * comes later.
 */
static void octofas_requeue_request(struct request *rq)
{
	struct octofas_data *od = rq->q->elevator->elevator_data;
	struct octofas_rq *orq = octofas_rq(rq);

	if (orq->state != OCTOFAS_RQ_INFLIGHT)
		return;
	orq->state = OCTOFAS_RQ_REQUEUED;
	this_cpu_inc(od->cpu_counters->requeued);
	octofas_left(rq);
}

/* Called when a request ends, before finish_request, in any context. */
static void octofas_completed_request(struct request *rq, u64 now_ns)
{
	struct octofas_rq *orq = octofas_rq(rq);

	if (orq->state != OCTOFAS_RQ_INFLIGHT || now_ns <= rq->fifo_time)
		return;
	octofas_monitor_count(rq->q->elevator->elevator_data, rq->mq_hctx->queue_num, orq->home,
			      orq->place, orq->class, now_ns - rq->fifo_time, orq->others);
}

/*
 * Called once for every request that has been prepared, in any context, also for those that we
 * never saw, and for those that have moved: they are NONE.
 */
static void octofas_finish_request(struct request *rq)
{
	struct octofas_data *od = rq->q->elevator->elevator_data;
	struct octofas_queue *oq = rq->mq_hctx->sched_data;
	struct octofas_rq *orq = octofas_rq(rq);
	u8 state = orq->state;

	if (state == OCTOFAS_RQ_NONE)
		return;
	orq->state = OCTOFAS_RQ_NONE;
	atomic_dec(&od->queue[orq->home].tally[orq->place].outstanding);
	atomic_dec(&oq->state->load);
	octofas_end(oq, orq->flow, orq->is_direct);
	if (state != OCTOFAS_RQ_INFLIGHT)
		return;
	this_cpu_inc(od->cpu_counters->completed);
	octofas_left(rq);
}

/* ---- registration ---- */

MQFAIR_DEFINE_INIT_SCHED(octofas_init_sched)
MQFAIR_DEFINE_DEPTH_UPDATED(tag_share_update)

static struct elevator_type octofas_elevator = {
	.ops = {
		.init_sched		= MQFAIR_INIT_SCHED(octofas_init_sched),
		.exit_sched		= octofas_exit_sched,
		.init_hctx		= octofas_init_hctx,
		.exit_hctx		= hctx_exit,
		.depth_updated		= MQFAIR_DEPTH_UPDATED(tag_share_update),
		.limit_depth		= octofas_limit_depth,
		.allow_merge		= octofas_allow_merge,
		.bio_merge		= octofas_bio_merge,
		.prepare_request	= octofas_prepare_request,
		.insert_requests	= octofas_insert_requests,
		.dispatch_request	= octofas_dispatch_request,
		.has_work		= octofas_has_work,
		.completed_request	= octofas_completed_request,
		.requeue_request	= octofas_requeue_request,
		.finish_request		= octofas_finish_request,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= octofas_queue_debugfs_attrs,
#endif
	.elevator_attrs		= octofas_attrs,
	.elevator_name		= "mq-octofas",
	.elevator_owner		= THIS_MODULE,
};

static int __init octofas_init(void)
{
	int ret = octofas_move_init();

	if (ret)
		return ret;
	ret = elv_register(&octofas_elevator);
	if (ret)
		octofas_move_exit();
	return ret;
}

static void __exit octofas_exit(void)
{
	elv_unregister(&octofas_elevator);
	octofas_move_exit();
}

module_init(octofas_init);
module_exit(octofas_exit);

MODULE_ALIAS("mq-octofas-iosched");
MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("OctoFAS I/O scheduler: fairness between hardware queues and inside each");
