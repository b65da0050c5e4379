// SPDX-License-Identifier: GPL-2.0
/*
 * mq-mqfq - an I/O scheduler that shares a fast device fairly between many tenants
 *
 * The problem
 * ===========
 * A fast drive takes requests from many hardware queues, one for each CPU, and serves the queues in
 * turn, one command at a time. A tenant with more queues gets more, and so does one with larger
 * requests; weights mean nothing to the drive. A scheduler that puts all requests into one queue to
 * sort them is fair, and slower than the drive.
 *
 * The model
 * =========
 * Each flow (a cgroup, a process or an I/O priority) has a weight. Service is counted in bytes,
 * times a factor for the cost of the operation, over the weight. That is virtual time. A request
 * has a start tag, the virtual time at which its flow would be served if each flow got exactly its
 * share, and a finish tag: the start tag plus the cost. A flow's next request starts where the last
 * one finished, but not before the virtual time of the device: a flow that did not use its share
 * has not saved it. The virtual time of the device is the earliest start tag that waits. Weights of
 * cgroups form a tree: a flow pays by its effective weight (lib/flow_tree.c).
 *
 * The algorithm
 * =============
 * M. Hedayati, K. Shen, M. L. Scott, M. Marty, "Multi-Queue Fair Queueing", USENIX ATC 2019.
 * Each hardware queue is sorted by start tags and serves itself without asking another, as long as
 * its first request is not more than T ahead of virtual time. Then it waits, in a timer wheel whose
 * clock is virtual time. At most D requests are at the device, so that others wait here and can be
 * sorted. A larger T makes CPUs disturb each other less and fairness worse in the short run. In any
 * interval in which flows f and m have requests waiting, their service per weight differs by no
 * more than
 *
 *	(D + 1) (2 T + largest request of f / weight of f + the same of m)
 *
 * and for D = 1 by 2 T + the same two terms (theorems 1 and 2). Service is that of requests sent
 * since both waited. A request that was at the device when the second flow came can add its size,
 * which the paper's proof does not see; and queues pay for a flow in advance, by up to T / 4 each
 * (lib/flow_local.h). kunit/sim/sim.h has the bounds that hold. mqfq_policy.c is the algorithm;
 * mqfq_auto.c finds T and D, unless they are set. What the paper leaves open, or a kernel adds:
 *
 *  - Cost is bytes, or the device time that a request takes (mqfq_charge.c). No request is free.
 *  - Discards, secure erases and write-zeroes are slow: each counts 128 KiB to 1 MiB, and they have
 *    an eighth of the slots. One that finds no permit for one steps aside for what is behind it.
 *  - A bio is charged when it is merged, into one of the last eight requests that came to its
 *    hardware queue, wait, and are of its flow (bio_merge).
 *  - A request that comes back from the driver has been charged and has given its slot back. Its
 *    tag is the present virtual time, so it goes as soon as there is a slot.
 *  - The data of a flush sequence, and whatever else blk-mq inserts at the head, gets the same tag.
 *    It is charged if it has not been, by up to T: no tag holds a log back that is written with
 *    flushes, and its cost must not keep its owner's reads waiting.
 *  - Requests that others wait for (blk/urgent.h) get the same tag, up to a debt (mqfq_urgent.c).
 *  - Class RT waits for no tag and no slot (mqfq_rt.c). Nor does, within its share, a cgroup with
 *    a target (mqfq_target.c). Class IDLE is a flow of weight 1, and slow.
 *  - When more than half of a hardware queue's tags are in use, a flow that has more than its share
 *    of them may use three quarters only (limit_depth), so that fairness does not end at the tag
 *    allocator. If D is no less than what the device takes, all of these may be at the device.
 *
 * The state of a request, its flow and its tag are in struct mqfq_entry, over rq->rb_node and elv.
 *
 *	NONE -----> QUEUED -----> INFLIGHT -----> NONE
 *	  |            ^             |    finish: gives slot and flow back
 *	  |            |             |
 *	  |            +- REQUEUED <-+ requeue: gives the slot back
 *	  |                  |
 *	  +--> finish        +--> finish: gives the flow back
 *
 * finish_request gives the slot back: it is called exactly once at the end of every request.
 *
 * Locking
 * =======
 * A hardware queue's lock guards what waits in it. It is taken with interrupts on, in process
 * context. Inside it: the flow table's lock (a flow's first request only), or the locks of the
 * mindicator's inner nodes, from below, or another queue's lock, which is only tried
 * (mqfq_alone.h). Outside it are the tuner's mutex, for T, D and the wheel, and the update lock,
 * for effective weights. finish_request and requeue_request, in any context, take no lock.
 *
 * Which cache lines many CPUs write
 * =================================
 * As long as there are slots and no queue waits: a flow's line (finish tag), by the CPUs on which
 * the flow submits, and the line with virtual time and the mindicator's nodes below it. For 4 KiB
 * and a T of 64 KiB that is once in five requests of a queue, and each time that a request is more
 * than T ahead, once in 17 requests of all. Tokens come from the queue's own leaf, and queues count
 * their flows' requests and bytes (lib/flow_local.h). When queues wait: the ready set, and the
 * token node between the two queues when a slot changes hands; the mindicator's nodes up to where
 * the minimum changes, and the line with virtual time, when the slowest queue moves on by a quarter
 * of T; a bucket of the wheel, when a queue is throttled and when it is released.
 *
 * What wakes a waiting request
 * ============================
 *	it waits because		and is woken by
 *	----------------		---------------
 *	it has just come		its insert: blk-mq then runs the queue; at the head, or sent
 *					back, all queues, for which QUEUE_FLAG_SQ_SCHED must be off
 *	it is throttled			the dispatch of another queue that advances virtual time to
 *					its tag less T; a request with an earlier tag that comes; a
 *					store to throttle_kb, bucket_kb, buckets
 *	it is slow, without a permit	the release of a slow request; a store to slots; mqfq_look()
 *	there is no slot		a release (finish or requeue); a store to slots; a queue
 *					that cannot use its slot
 *	a slot rests			a request that comes; a release; mqfq_look()
 *	its queue is stuck		the release of a request of the same queue (mqfq_stuck.c)
 *	its hardware queue is stopped,	the driver or blk-mq: both run the queue when they end that
 *	quiesced, or has leftovers, or	state. Ours is ARMED then, and has_work says so
 *	the driver has no budget
 *
 * mqfq_policy.c and mqfq_slots.c prove it. mqfq_look() takes back what a stopped queue has in hand.
 *
 * Lifetime
 * ========
 * mqfq_data lives from init_sched to exit_sched; the queue is frozen in both. A change of the
 * number of hardware queues attaches us again; lib/blk/keep.h has what stays. A flow lives until it
 * has had no request, and was not ahead of virtual time, for five to ten seconds. Work items look
 * at flows, hardware queues, T and D meanwhile.
 *
 * Observability
 * =============
 * Tunables, tracepoints, debugfs: Documentation/reference/mq-mqfq.rst. exit_sched warns if inserted
 * is not dispatched + queued, or dispatched not completed + requeued + in flight.
 *
 * Names: md is the device's scheduler data, p its policy, mq its queue of a hardware queue, rq a
 * request, e our state in it, f a flow.
 */
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include <trace/events/block.h>

#include "blk/hctx.h"
#include "blk/slot.h"
#include "blk/submit.h"
#include "blk/tag_share.h"
#include "blk/urgent.h"
#include "blk/wbt.h"
#include "mqfq.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

/* ---- constants ---- */

enum {
	MQFQ_BUCKET_KB_SHIFT_DEFAULT	= 4,
	MQFQ_BUCKETS_SHIFT_DEFAULT	= 6,

	MQFQ_URGENT_KB_DEFAULT		= 1024,
};

/* Where a request stands; see the drawing above. In the low bits of mqfq_entry.flow. */
enum mqfq_rq_state {
	MQFQ_RQ_NONE = 0,
	MQFQ_RQ_QUEUED,
	MQFQ_RQ_INFLIGHT,
	MQFQ_RQ_REQUEUED,

	/* Above are MQFQ_ENTRY_SLOW and MQFQ_ENTRY_DIRECT. */
	MQFQ_RQ_STATE_MASK = MQFQ_ENTRY_SLOW - 1,
};

/* ---- structures ---- */

/*
 * rb_node and elv of a request are next to each other, and rb_node is free until the request is
 * dispatched.
 */
static_assert(offsetof(struct request, elv.icq) - offsetof(struct request, rb_node) ==
	      offsetof(struct mqfq_entry, reserved));
static_assert(offsetof(struct request, elv.priv[0]) - offsetof(struct request, rb_node) ==
	      offsetof(struct mqfq_entry, start));
static_assert(offsetof(struct request, elv.priv[1]) - offsetof(struct request, rb_node) ==
	      offsetof(struct mqfq_entry, flow));

/* The request before in the same batch: its flow, that one's place, and the cgroup of its bio. */
struct mqfq_last {
	struct flow *flow;
	struct flow_local *place;
	const void *owner;
};

/* What is known of the task that sends a request, in mqfq_entry.start until it is inserted. */
struct mqfq_submitter {
	u32 process;
	u32 task_flags;
};

static_assert(sizeof(struct mqfq_submitter) == sizeof_field(struct mqfq_entry, start));

/* ---- helpers ---- */

static inline struct mqfq_submitter *mqfq_submitter(struct request *rq)
{
	return (struct mqfq_submitter *)&mqfq_entry(rq)->start;
}

static inline struct request *mqfq_request(struct mqfq_entry *e)
{
	return container_of(&e->node, struct request, rb_node);
}

/* Where the request counts, if it counts in a place. */
static inline struct flow_local *mqfq_place_of(struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	return flow_local_of(&mq->flows, mqfq_entry_flow(e)->key);
}

static inline enum mqfq_rq_state mqfq_rq_state(const struct mqfq_entry *e)
{
	return e->flow & MQFQ_RQ_STATE_MASK;
}

static inline void mqfq_set_rq_state(struct mqfq_entry *e, enum mqfq_rq_state state)
{
	e->flow = (e->flow & ~(unsigned long)MQFQ_RQ_STATE_MASK) | state;
}

static u64 mqfq_clock_ns(void)
{
	return ktime_get_ns();
}

/* Called under the flow table's lock, when a flow or a group is made. */
static u32 mqfq_weight_of(void *context, u64 key, void *css)
{
	struct mqfq_data *md = context;

	mqfq_share_kick(md);
	mqfq_tuner_kick(md);
	if (key == MQFQ_IDLE_KEY)
		return FLOW_WEIGHT_MIN;
	if (flow_key_kind(key) == FLOW_CGROUP)
		return mqfq_cgroup_weight(md, css);
	return mqfq_id_weight(md, key);
}

/* Likewise. */
static u32 mqfq_target_of_flow(void *context, u64 key, void *css)
{
	return flow_key_kind(key) == FLOW_CGROUP ? mqfq_cgroup_target(context, css) : 0;
}

static void mqfq_look_work(struct work_struct *work)
{
	struct mqfq_data *md = container_of(work, struct mqfq_data, look.work);

	mqfq_look(&md->policy, ktime_get_ns());
	/* mqfq_pass_work() finds a flow that is made at this moment. */
	if (READ_ONCE(md->flows.nr_flows))
		schedule_delayed_work(&md->look, msecs_to_jiffies(MQFQ_LOOK_MS));
}

/* The policy's run: a queue's wait is over. Any context. */
static void mqfq_run(void *context, unsigned int number, enum mqfq_state was)
{
	struct mqfq_data *md = context;

	if (was == MQFQ_THROTTLED)
		trace_mqfq_unthrottle(md->q, number);
	else if (was == MQFQ_READY)
		trace_mqfq_slot(md->q, number);
	blk_mq_run_hw_queue(md->hctx[number], true);
}

/*
 * The policy's wait: a queue waits from now on. A queue that was throttled may wait for a slot. One
 * that waited for a slot may have sent what waited with a pass.
 */
static void mqfq_trace_wait(void *context, unsigned int number, enum mqfq_state state)
{
	struct mqfq_data *md = context;

	if (state == MQFQ_THROTTLED) {
		trace_mqfq_throttle(md->q, number);
		return;
	}
	if (state == MQFQ_RUNNABLE) {
		trace_mqfq_slot(md->q, number);
		return;
	}
	if (READ_ONCE(md->policy.queue[number].throttled_flow))
		trace_mqfq_unthrottle(md->q, number);
	trace_mqfq_slot_wait(md->q, number);
}

static const struct mqfq_policy_ops mqfq_ops = {
	.run		= mqfq_run,
	.wait		= mqfq_trace_wait,
	.clock_ns	= mqfq_clock_ns,
};

/* ---- init and exit ---- */

void mqfq_count(struct mqfq_data *md, struct mqfq_counters *c)
{
	unsigned int i;
	int cpu;

	*c = (struct mqfq_counters) {};
	for (i = 0; i < md->policy.nr_queues; i++) {
		struct mqfq_queue *mq = &md->policy.queue[i];

		spin_lock(&mq->lock);
		c->inserted += mq->inserted;
		c->dispatched += mq->taken;
		c->queued += mq->nr + mq->nr_aside + mq->rt.nr;
		spin_unlock(&mq->lock);
	}
	for_each_possible_cpu(cpu) {
		struct mqfq_cpu_counters *counters = per_cpu_ptr(md->cpu_counters, cpu);

		c->merged += READ_ONCE(counters->merged);
		c->completed += READ_ONCE(counters->completed);
		c->requeued += READ_ONCE(counters->requeued);
		c->urgent += READ_ONCE(counters->urgent);
		c->beyond_credit += READ_ONCE(counters->beyond_credit);
		c->passed += READ_ONCE(counters->passed);
		c->passed_others += READ_ONCE(counters->passed_others);
	}
}

static bool mqfq_is_balanced(struct mqfq_data *md)
{
	struct mqfq_counters c;

	mqfq_count(md, &c);
	return !c.queued && c.inserted == c.dispatched &&
	       !atomic_read(&md->policy.slow.permits.nr_out) &&
	       !atomic_read(&md->policy.passes.nr_out) &&
	       !atomic_read(&md->policy.tokens.nr_lent) &&
	       c.dispatched == c.completed + c.requeued &&
	       token_tree_nr_free(&md->policy.tokens) == md->policy.tokens.slots;
}

/*
 * Where a hardware queue's CPUs are. A queue without CPUs gets no requests. It is put beside the
 * first CPU, on a core of its own, where it adds no level to the tree.
 */
static struct topology_place mqfq_place(const struct blk_mq_hw_ctx *hctx)
{
	unsigned int first = cpumask_first(hctx->cpumask);
	bool has_cpu = first < nr_cpu_ids;
	unsigned int cpu = has_cpu ? first : cpumask_first(cpu_possible_mask);
	struct topology_place place = {};

	place.id[TOPOLOGY_CORE] = has_cpu ? cpumask_first(topology_sibling_cpumask(cpu)) :
					    nr_cpu_ids + hctx->queue_num;
	place.id[TOPOLOGY_CACHE] = mqfair_cache_id(cpu);
	place.id[TOPOLOGY_SOCKET] = topology_physical_package_id(cpu);
	return place;
}

/* As many requests as the driver has tags for: a D that holds nothing back. */
static unsigned int mqfq_open_slots(const struct request_queue *q)
{
	unsigned int nr_maps = q->tag_set->flags & BLK_MQ_F_TAG_HCTX_SHARED ? 1 : q->nr_hw_queues;

	return min(nr_maps * q->tag_set->queue_depth, (unsigned int)MQFQ_SLOTS_MAX);
}

static int mqfq_init_policy(struct mqfq_data *md)
{
	u32 throttle_kb = mqfq_auto_first_throttle_kb(md->q->nr_hw_queues);
	const struct mqfq_config config = {
		.throttle_vt	= (u64)throttle_kb << MQFQ_KB_SHIFT,
		.slots		= mqfq_open_slots(md->q),
		.wheel		= {
			.width_shift	= MQFQ_BUCKET_KB_SHIFT_DEFAULT + MQFQ_KB_SHIFT,
			.buckets_shift	= MQFQ_BUCKETS_SHIFT_DEFAULT,
		},
	};
	struct topology_place *place;
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;
	int ret;

	place = kvcalloc(md->q->nr_hw_queues, sizeof(*place), GFP_KERNEL);
	if (!place)
		return -ENOMEM;
	queue_for_each_hw_ctx(md->q, hctx, i)
		place[i] = mqfq_place(hctx);
	ret = mqfq_policy_init(&md->policy, place, md->q->nr_hw_queues, 0, &config, &mqfq_ops, md,
			       GFP_KERNEL);
	kvfree(place);
	return ret;
}

static struct mqfq_data *mqfq_alloc(struct request_queue *q, const struct elevator_queue *eq)
{
	struct mqfq_data *md = kzalloc_node(sizeof(*md), GFP_KERNEL, q->node);

	if (!md)
		return NULL;
	md->q = q;
	md->urgent_kb = MQFQ_URGENT_KB_DEFAULT;
	INIT_DELAYED_WORK(&md->look, mqfq_look_work);
	mqfq_tuner_init(md, mqfq_open_slots(q), mqfq_auto_first_throttle_kb(q->nr_hw_queues));
	md->cpu_counters = mqfair_alloc_percpu(struct mqfq_cpu_counters);
	if (!md->cpu_counters)
		goto err_md;
	if (mqfq_charge_init(&md->charge))
		goto err_counters;
	if (mqfq_target_init(&md->target, mqfq_open_slots(q)))
		goto err_charge;
	if (mqfq_share_init(md, mqfq_weight_of))
		goto err_target;
	md->flows.target_of = mqfq_target_of_flow;
	md->hctx = kvcalloc(q->nr_hw_queues, sizeof(*md->hctx), GFP_KERNEL);
	if (!md->hctx)
		goto err_flows;
	md->keep = keep_get(q, eq, sizeof(struct mqfq_found));
	if (!md->keep)
		goto err_hctx;
	if (mqfq_init_policy(md))
		goto err_keep;
	return md;

err_keep:
	keep_put(md->keep);
err_hctx:
	kvfree(md->hctx);
err_flows:
	mqfq_share_exit(md);
err_target:
	mqfq_target_exit(&md->target);
err_charge:
	mqfq_charge_exit(&md->charge);
err_counters:
	free_percpu(md->cpu_counters);
err_md:
	kfree(md);
	return NULL;
}

static void mqfq_free(struct mqfq_data *md)
{
	mqfq_policy_destroy(&md->policy);
	keep_put(md->keep);
	kvfree(md->hctx);
	mqfq_share_exit(md);
	mqfq_target_exit(&md->target);
	mqfq_charge_exit(&md->charge);
	free_percpu(md->cpu_counters);
	kfree(md);
}

static int mqfq_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct mqfq_data *md = mqfq_alloc(q, eq);
	const struct mqfq_found *found;

	if (!md)
		return -ENOMEM;
	found = md->keep->found;
	mqfq_cgroup_attach(md);
	hctx_run_each(q);
	tag_share_update(q);
	wbt_off(q);
	eq->elevator_data = md;
	mqfq_tuner_resume(md, &found->values);
	keep_restore(md->keep, eq);
	mqfq_tuner_resume_target(md, &found->target);
	q->elevator = eq;
	return 0;
}

static void mqfq_exit_sched(struct elevator_queue *eq)
{
	struct mqfq_data *md = eq->elevator_data;
	struct mqfq_found *found = md->keep->found;

	mqfq_cgroup_detach(md);
	mqfq_share_stop(md);
	cancel_delayed_work_sync(&md->look);
	mqfq_tuner_exit(md);
	/* Nothing changes D any more, or lends slots. */
	WARN_ON_ONCE(!mqfq_is_balanced(md));
	wbt_back(md->q);
	keep_save(md->keep, eq);
	mqfq_auto_get_found(&md->tuner.law, &found->values);
	mqfq_target_get_found(md, &found->target);
	mqfq_free(md);
}

static int mqfq_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
	struct mqfq_data *md = hctx->queue->elevator->elevator_data;

	md->hctx[number] = hctx;
	hctx->sched_data = &md->policy.queue[number];
	return 0;
}

/* ---- request hooks, in the order of a request's life ---- */

/*
 * Called before a tag, or a batch of them for a plug, is allocated. Looks at the flow only if tags
 * are getting scarce. Counting tags is costly, so it is done only if they may be scarce: requests
 * that do not wait are at the device, where there are no more than slots. If the hardware queues
 * share their tags this does not hold, since other queues have requests waiting. Then, and where
 * slots are many, the count is good for some allocations (blk/tag_share.h).
 */
static void mqfq_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct mqfq_data *md = data->q->elevator->elevator_data;
	struct mqfq_queue *mq = data->hctx->sched_data;
	unsigned int depth = tag_share_sched_depth(data->hctx), used;

	if (!(data->hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED) &&
	    READ_ONCE(mq->nr) + READ_ONCE(mq->nr_aside) + READ_ONCE(mq->rt.nr) +
	    READ_ONCE(md->policy.tokens.slots) + atomic_read(&md->policy.passes.nr_out) +
	    data->nr_tags <= depth / 2)
		return;
	if (tag_share_spend_room(data, &mq->tag_room, depth / 2))
		return;
	used = sbitmap_weight(tag_share_map(data->hctx));
	if (used + data->nr_tags <= depth / 2) {
		tag_share_set_room(data, &mq->tag_room, depth / 2 - used);
		return;
	}
	rcu_read_lock();
	if (mqfq_leaves_share(md, mq, opf, used, depth))
		data->shallow_depth = used + data->nr_tags > tag_share(depth) ?
				      tag_share_tight(data->hctx) : tag_share_shallow(data->hctx);
	rcu_read_unlock();
}

/* Called when a tag has become a request: our state in it is the previous owner's. */
static void mqfq_prepare_request(struct request *rq)
{
	struct mqfq_submitter *submitter = mqfq_submitter(rq);

	mqfq_entry(rq)->flow = MQFQ_RQ_NONE;
	submitter->process = current->tgid;
	submitter->task_flags = current->flags;
}

/* The cgroup of a bio, as a pointer to compare while the bio lives. */
static const void *mqfq_bio_owner(const struct bio *bio)
{
#ifdef CONFIG_BLK_CGROUP
	return bio->bi_blkg;
#else
	return NULL;
#endif
}

/*
 * It goes when nobody else wants, and nobody waits for it. Priorities that are flows have weights
 * instead.
 */
static bool mqfq_is_put_off(const struct mqfq_data *md, struct request *rq, unsigned int class)
{
	return unlikely(class == IOPRIO_CLASS_IDLE) && READ_ONCE(md->flow_kind) != FLOW_IOPRIO &&
	       !urgent_is(rq->cmd_flags, mqfq_submitter(rq)->task_flags);
}

/*
 * The flow of a request, for mqfq_entry.flow: until it is finished the request counts in a place
 * of the queue, or has a reference. Most batches are of one flow.
 */
static unsigned long mqfq_rq_flow(struct mqfq_data *md, struct mqfq_queue *mq, struct request *rq,
				  u64 vt, struct mqfq_last *last, bool is_put_off)
{
	struct flow *f = last->flow;
	struct cgroup_subsys_state *css = NULL;
	u64 key = MQFQ_IDLE_KEY;

	if (unlikely(is_put_off)) {
		if (f && f->key != key)
			f = NULL;
	} else if (!f || flow_key_kind(f->key) != FLOW_CGROUP ||
		   mqfq_bio_owner(rq->bio) != last->owner) {
		key = flow_key_of_rq(READ_ONCE(md->flow_kind), rq, mqfq_submitter(rq)->process,
				     &css);
		if (f && f->key != key)
			f = NULL;
		last->owner = mqfq_bio_owner(rq->bio);
	}
	if (f) {
		flow_local_again(last->place, f);
	} else {
		f = flow_local_get(&mq->flows, &md->flows, key, css, vt);
		last->flow = f;
		last->place = flow_local_of(&mq->flows, f->key);
	}
	return (unsigned long)f | (flow_is_local(last->place, f) ? 0 : MQFQ_ENTRY_DIRECT);
}

/* The start tag of a request that comes. One that a target is for gets MQFQ_ENTRY_RT. */
static u64 mqfq_tag(struct mqfq_data *md, struct request *rq, bool at_head,
		    const struct mqfq_last *last, u64 vt)
{
	struct flow *f = last->flow;
	u64 cost = mqfq_charge_of(&md->charge, rq, blk_rq_bytes(rq));
	u64 cost_vt = flow_cost_vt(f, cost), start = vt;
	struct mqfq_entry *e = mqfq_entry(rq);
	bool passes;

	if (at_head) {
		flow_tag_at_head(f, vt, cost_vt, READ_ONCE(md->policy.throttle_vt));
	} else if (urgent_is(rq->cmd_flags, mqfq_submitter(rq)->task_flags)) {
		start = mqfq_tag_urgent(md, f, vt, cost_vt);
	} else if (mqfq_is_prompt(f, rq->cmd_flags)) {
		start = mqfq_tag_prompt(md, f, vt, cost_vt, &passes);
		if (passes)
			e->flow |= MQFQ_ENTRY_RT;
	} else if (likely(!(e->flow & MQFQ_ENTRY_DIRECT))) {
		start = flow_local_tag(last->place, vt, cost_vt, READ_ONCE(md->policy.throttle_vt));
	} else {
		start = flow_tag(f, vt, cost_vt);
	}
	trace_mqfq_tag(rq, blk_rq_bytes(rq), f->key, start - vt);
	return start;
}

static void mqfq_insert_list(struct mqfq_data *md, struct mqfq_queue *mq, struct list_head *list,
			     bool at_head)
{
	struct mqfq_last last = {};
	struct request *rq;

	spin_lock(&mq->lock);
	list_for_each_entry(rq, list, queuelist) {
		u64 vt = mqfq_vt(&md->policy), start = vt;
		struct mqfq_entry *e = mqfq_entry(rq);
		unsigned int ioprio = req_get_ioprio(rq), class = IOPRIO_PRIO_CLASS(ioprio);

		if (mqfair_adopt(rq))
			mqfq_prepare_request(rq);
		if (mqfq_rq_state(e) != MQFQ_RQ_REQUEUED) {
			bool is_put_off = mqfq_is_put_off(md, rq, class);

			e->flow = mqfq_rq_flow(md, mq, rq, vt, &last, is_put_off);
			if ((req_op(rq) != REQ_OP_READ && mqfq_is_slow(req_op(rq))) ||
			    unlikely(is_put_off))
				e->flow |= MQFQ_ENTRY_SLOW;
			start = mqfq_tag(md, rq, at_head, &last, vt);
		}
		trace_block_rq_insert(rq);
		mqfq_set_rq_state(e, MQFQ_RQ_QUEUED);
		if (unlikely(class == IOPRIO_CLASS_RT) && !(e->flow & MQFQ_ENTRY_SLOW))
			mqfq_insert_rt(mq, e, start, IOPRIO_PRIO_LEVEL(ioprio));
		else if (unlikely(e->flow & MQFQ_ENTRY_RT))
			mqfq_insert_rt(mq, e, start, MQFQ_RT_LEVELS - 1);
		else
			mqfq_insert(mq, e, start);
	}
	list_splice_tail_init(list, &mq->recent);
	spin_unlock(&mq->lock);
}

/*
 * Called from blk_mq_insert_request(), one request, and from the flush of a plug, many of one
 * hardware queue. blk-mq runs the queue afterwards; blk/submit.h tells why we run it before that.
 */
static void mqfq_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				 blk_insert_t flags)
{
	struct mqfq_queue *mq = hctx->sched_data;
	bool direct = submit_begin(hctx, flags);

	mqfq_insert_list(hctx->queue->elevator->elevator_data, mq, list,
			 flags & BLK_MQ_INSERT_AT_HEAD);
	if (direct)
		submit_end(hctx, mqfq_has_work(mq));
}

/*
 * The request is not at the device, or not any more: its slot and its permit, or its pass, are
 * free. @flow is mqfq_entry.flow.
 */
static void mqfq_give_back(struct request *rq, unsigned long flow)
{
	struct mqfq_queue *mq = rq->mq_hctx->sched_data;

	if (likely(!(flow & (MQFQ_ENTRY_SLOW | MQFQ_ENTRY_PASS))))
		mqfq_release(mq);
	else if (flow & MQFQ_ENTRY_PASS)
		mqfq_release_pass(mq);
	else
		mqfq_release_slow(mq);
}

/* What passes without being of class RT, since its flow has nothing at the device, is as usual. */
static noinline void mqfq_serve_passed(struct mqfq_data *md, struct request *rq, u64 bytes)
{
	const struct mqfq_entry *e = mqfq_entry(rq);

	if (!(e->flow & MQFQ_ENTRY_RT)) {
		this_cpu_inc(md->cpu_counters->passed_others);
		return;
	}
	this_cpu_inc(md->cpu_counters->passed);
	mqfq_tuner_passed(mqfq_entry_flow(e), bytes);
	if (mqfq_prio_is(rq, IOPRIO_CLASS_RT))
		mqfq_forgive(md, rq, mqfq_entry_flow(e));
}

/*
 * Counts what the flow is served. A slow request moves no data, and may be for the whole drive: it
 * serves what it costs. So does each request while time is shared.
 */
static void mqfq_serve(struct mqfq_queue *mq, struct request *rq)
{
	struct mqfq_data *md = container_of(mq->policy, struct mqfq_data, policy);
	const struct mqfq_entry *e = mqfq_entry(rq);
	u64 bytes = blk_rq_bytes(rq);

	if (unlikely(e->flow & MQFQ_ENTRY_SLOW) || unlikely(mqfq_charge_is_time(&md->charge)))
		bytes = mqfq_charge_of(&md->charge, rq, bytes);
	if (likely(!(e->flow & MQFQ_ENTRY_DIRECT)))
		flow_local_serve(mqfq_place_of(mq, e), bytes);
	else
		atomic64_add(bytes, &mqfq_entry_flow(e)->service_bytes);
	if (unlikely(e->flow & MQFQ_ENTRY_PASS))
		mqfq_serve_passed(md, rq, bytes);
}

/* Called from a run of @hctx, after has_work said yes. */
static struct request *mqfq_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct mqfq_queue *mq = hctx->sched_data;
	struct mqfq_data *md = container_of(mq->policy, struct mqfq_data, policy);
	struct mqfq_entry *e;
	struct mqfq_sent sent;
	struct request *rq;

	spin_lock(&mq->lock);
	e = mqfq_take(mq);
	if (!e) {
		spin_unlock(&mq->lock);
		return NULL;
	}
	rq = mqfq_request(e);
	list_del_init(&rq->queuelist);
	mqfq_serve(mq, rq);
	spin_unlock(&mq->lock);

	mqfq_set_rq_state(e, MQFQ_RQ_INFLIGHT);
	/* If it comes back it must not be merged: the driver may have mapped it. */
	rq->rq_flags |= RQF_STARTED;
	if (trace_mqfq_dispatch_enabled())
		trace_mqfq_dispatch(rq, blk_rq_bytes(rq), mqfq_entry_flow(e)->key,
				    e->start - mqfq_vt(mq->policy));
	sent = (struct mqfq_sent) { .bytes = blk_rq_bytes(rq) };
	if (unlikely(mqfq_target_is_used(&md->target)))
		mqfq_target_sent(rq, &sent);
	*mqfq_sent(rq) = sent;
	if (!slot_is_held(rq))
		mqfq_give_back(rq, e->flow);
	return rq;
}

/* Asked before each dispatch, and before blk-mq runs a queue. Takes no lock. */
static bool mqfq_hctx_has_work(struct blk_mq_hw_ctx *hctx)
{
	return mqfq_has_work(hctx->sched_data);
}

/*
 * Called from blk_mq_requeue_request(), in any context. Insert, or the driver's dispatch list,
 * comes later.
 */
static void mqfq_requeue_request(struct request *rq)
{
	struct mqfq_data *md = rq->q->elevator->elevator_data;
	struct mqfq_entry *e = mqfq_entry(rq);

	if (mqfq_rq_state(e) != MQFQ_RQ_INFLIGHT)
		return;
	mqfq_set_rq_state(e, MQFQ_RQ_REQUEUED);
	this_cpu_inc(md->cpu_counters->requeued);
	if (slot_is_held(rq))
		mqfq_give_back(rq, e->flow);
	/* It may have to wait for a slot the next time. */
	e->flow &= ~(unsigned long)MQFQ_ENTRY_PASS;
}

/*
 * Called once for every request that has been prepared, in any context, also for those that never
 * came to insert.
 */
static void mqfq_finish_request(struct request *rq)
{
	struct mqfq_data *md = rq->q->elevator->elevator_data;
	struct mqfq_entry *e = mqfq_entry(rq);
	enum mqfq_rq_state state = mqfq_rq_state(e);
	struct mqfq_queue *mq = rq->mq_hctx->sched_data;
	unsigned long flow = e->flow;

	if (state == MQFQ_RQ_NONE)
		return;
	trace_mqfq_complete(rq, mqfq_sent(rq)->bytes, mqfq_entry_flow(e)->key, 0);
	if (likely(!(e->flow & MQFQ_ENTRY_DIRECT)))
		flow_local_end(mqfq_place_of(mq, e));
	else
		flow_put(mqfq_entry_flow(e));
	e->flow = MQFQ_RQ_NONE;
	if (state != MQFQ_RQ_INFLIGHT)
		return;
	this_cpu_inc(md->cpu_counters->completed);
	if (unlikely(mqfq_charge_is_time(&md->charge)))
		mqfq_charge_completed(&md->charge, rq, mqfq_sent(rq)->bytes);
	if (unlikely(mqfq_target_is_used(&md->target)))
		mqfq_target_completed(md, rq);
	if (slot_is_held(rq))
		mqfq_give_back(rq, flow);
}

/* ---- registration ---- */

MQFAIR_DEFINE_INIT_SCHED(mqfq_init_sched)
MQFAIR_DEFINE_DEPTH_UPDATED(tag_share_update)

static struct elevator_type mqfq_elevator = {
	.ops = {
		.init_sched		= MQFAIR_INIT_SCHED(mqfq_init_sched),
		.exit_sched		= mqfq_exit_sched,
		.init_hctx		= mqfq_init_hctx,
		.exit_hctx		= hctx_exit,
		.depth_updated		= MQFAIR_DEPTH_UPDATED(tag_share_update),
		.limit_depth		= mqfq_limit_depth,
		.allow_merge		= mqfq_allow_merge,
		.bio_merge		= mqfq_bio_merge,
		.prepare_request	= mqfq_prepare_request,
		.insert_requests	= mqfq_insert_requests,
		.dispatch_request	= mqfq_dispatch_request,
		.has_work		= mqfq_hctx_has_work,
		.requeue_request	= mqfq_requeue_request,
		.finish_request		= mqfq_finish_request,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= mqfq_queue_debugfs_attrs,
	.hctx_debugfs_attrs	= mqfq_hctx_debugfs_attrs,
#endif
	.elevator_attrs		= mqfq_attrs,
	.elevator_name		= "mq-mqfq",
	.elevator_owner		= THIS_MODULE,
};

static int __init mqfq_init(void)
{
	int ret = mqfq_cgroup_init();

	if (ret)
		return ret;
	ret = elv_register(&mqfq_elevator);
	if (ret)
		mqfq_cgroup_exit();
	return ret;
}

static void __exit mqfq_exit(void)
{
	elv_unregister(&mqfq_elevator);
	mqfq_cgroup_exit();
}

module_init(mqfq_init);
module_exit(mqfq_exit);

MODULE_ALIAS("mq-mqfq-iosched");
MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("MQFQ I/O scheduler: weighted fair queueing over many hardware queues");
