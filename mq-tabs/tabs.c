// SPDX-License-Identifier: GPL-2.0
/*
 * mq-tabs - an I/O scheduler that gives reads and FUA writes each their fair bandwidth
 *
 * The problem
 * ===========
 * A write with FUA (O_DSYNC, a database's log, a virtual disk with cache=directsync) is done when
 * its data is in flash, and programming flash takes ten times as long as reading it. A read that
 * comes to a die that is being programmed waits for the end of it. So when one task reads and one
 * writes with FUA, both at the same depth, both get the same number of requests: the writer hardly
 * notices the reader, and the reader has a sixth of what it had.
 *
 * The model
 * =========
 * Each of the two types could move so much per second if it had the device for itself:
 * max_read_kbps, max_fua_write_kbps. If a share I of the issued requests is of a type, its fair
 * bandwidth is that share of its maximum. Two types at their fair bandwidth take the whole device
 * together.
 *
 * The algorithm
 * =============
 * J. Kim, D. Kim, Y. Won, "Fair I/O Scheduler for Alleviating Read/Write Interference by Forced
 * Unit Access in Flash Memory", HotStorage 2022. In the IDLE phase everything passes and is
 * counted. In the SCHED phase FUA writes wait in a FUA delay queue and go in a proportion, alpha,
 * to the reads that are sent. alpha is corrected once in an epoch. tabs_policy.c is the algorithm.
 * It says what the paper leaves open and how we decide it.
 *
 * What is held. Only a write with REQ_FUA is ever held, and only once: one that comes back from the
 * driver has waited already. The data of a flush sequence (a write with PREFLUSH and FUA, as file
 * systems commit a journal with) passes, since the next flush waits for it; it is charged. So does
 * metadata with FUA alone, and what else others wait for (blk/urgent.h): btrfs's superblocks, the
 * tail of jbd2's log, XFS's log. A lock of the file system is held until it is written. Reads,
 * writes without FUA, discards and flushes pass in the order of arrival. A FUA write and a flush
 * have no order to keep: blk-mq sends a flush at any time, and it covers what was completed before.
 * A FUA write is reported as done only when it is.
 *
 * The state of a request is kept in rq->elv.priv (struct tabs_rq):
 *
 *	NONE -----> QUEUED -----> INFLIGHT -----> NONE
 *	  |            ^             |    finish
 *	  |            |             |
 *	  |            +- REQUEUED <-+ requeue
 *	  |                  |
 *	  +--> finish        +--> finish
 *
 * QUEUED is in the fifo of its hardware queue or in the FUA delay queue. A request that never comes
 * to insert (flush and passthrough requests) stays NONE.
 *
 * Merging. A bio joins one of the last eight requests in its hardware queue's fifo (bio_merge). The
 * block layer merges nothing that has FUA, so a held write never grows.
 *
 * Tags. A held write keeps its scheduler tag. In the SCHED phase a quarter of each hardware queue's
 * tags, and at least one, are out of reach for FUA writes that may be held (limit_depth), so that
 * there is always one for a read.
 *
 * When there is nothing to schedule. Without a volatile write cache the block layer strips FUA from
 * every write, as all of them are durable. Without FUA in the device it sends a flush after the
 * write instead. In both cases no FUA write reaches us and everything passes. Everything also
 * passes until both maxima are known. "status" in debugfs tells which case it is; the kernel log
 * tells the first two when the scheduler is attached.
 *
 * Locking
 * =======
 * A hardware queue's lock guards its fifo and the counters beside it. td->lock guards the FUA delay
 * queue and the policy; it is taken for FUA writes and by the tick, never for a read. Order: the
 * hardware queue's first. Both are taken with interrupts on, in process context. finish_request and
 * requeue_request may be called in interrupts: they take no lock.
 *
 * A read costs its hardware queue's lock twice, an atomic increment there and a counter of its CPU.
 * No CPU adds up the counters of others but in the tick: whether the device is idle is a look at
 * one hardware queue while reads are outstanding, and at all of them if it is. In the SCHED phase
 * a read adds alpha to what its hardware queue has earned. The credit, which all queues share, is
 * written once for each whole FUA write earned.
 *
 * What wakes a waiting request
 * ============================
 *	it waits because		and is woken by
 *	----------------		---------------
 *	it has just come		its insert: blk-mq then runs the queue
 *	it is held, and reads come	the read that completes the credit: its dispatch asks
 *					has_work again, and sends the FUA write from there
 *	it is held, and nothing is at	the end of the last FUA write at the device; the tick, if
 *	the device			that was a read
 *	it is held, and no reads come	the tick
 *	it is held for too long		the tick
 *	it is held, and the phase ends	the tick; a store to a tunable
 *	a run of its queue has sent	that run, which asks for another: if the write gets no tag
 *	another queue's FUA write	of its own queue, blk-mq ends the run and runs only that
 *					queue later
 *	its hardware queue is stopped,	the driver or blk-mq: both run the queue when they end that
 *	quiesced, or has leftovers	state
 *
 * The tick comes every 5 ms, or jiffy, as long as a write is held: the next tick finds every lost
 * race. So no path has a barrier to save a wake-up. No write can be held without a tick: only the
 * tick begins a SCHED phase, and it goes on while the phase lasts or a write is held. FUA writes
 * start it; reads alone never do.
 *
 * Any hardware queue can send a held write. The one of the oldest is run; if that is stopped or has
 * leftovers, all are. A submission without a plug runs the queue from insert_requests, in the
 * submitter's context, instead of leaving it to a worker.
 *
 * Lifetime
 * ========
 * tabs_data lives from init_sched to exit_sched; the queue is frozen in both, and exit_sched waits
 * for the tick. A change of the number of hardware queues detaches and attaches us. Tunables are in
 * the disk's struct keep (lib/blk/keep.h), which outlives that.
 *
 * Observability
 * =============
 * sysfs: max_read_kbps, max_fua_write_kbps, idle_reset_ms, idle_threshold, epoch_ms, sched_ms,
 * feedback_pct, max_delay_ms (Documentation/reference/mq-tabs.rst). Tracepoints: mq_tabs:*.
 * debugfs, below /sys/kernel/debug/block/DEVICE/sched/: status, phase, epochs, held, counters.
 * inserted = merged + dispatched + queued, and dispatched = completed + requeued + in flight;
 * exit_sched warns if the counters do not balance.
 *
 * Names: td is the device's scheduler data, p its policy, tq our part of a hardware queue, rq a
 * request, tr our state in it.
 */
#define pr_fmt(fmt) "mq-tabs: " fmt

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/slab.h>

#include <trace/events/block.h>

#include "blk/hctx.h"
#include "blk/submit.h"
#include "blk/tag_share.h"
#include "blk/urgent.h"
#include "blk/wbt.h"
#include "tabs.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

/* ---- constants ---- */

/* Where a request stands; see the drawing above. */
enum tabs_rq_state {
	TABS_RQ_NONE = 0,
	TABS_RQ_QUEUED,
	TABS_RQ_INFLIGHT,
	TABS_RQ_REQUEUED,
};

/* ---- structures ---- */

/*
 * Our state in a request. The size is remembered because a finished request has given up its bios.
 * rq->fifo_time is when it was held.
 */
struct tabs_rq {
	u8 state;
	u8 kind;
	u32 bytes;
};

static_assert(sizeof(struct tabs_rq) <= sizeof_field(struct request, elv.priv));

/* ---- helpers ---- */

static inline struct tabs_rq *tabs_rq(struct request *rq)
{
	return (struct tabs_rq *)rq->elv.priv;
}

static unsigned int tabs_kind(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return TABS_READ;
	case REQ_OP_WRITE:
		return opf & REQ_FUA ? TABS_FUA : TABS_OTHER;
	default:
		return TABS_OTHER;
	}
}

/* A FUA write that others wait for. No commit waits for data with FUA, whatever thread sends it. */
static bool tabs_is_urgent(blk_opf_t opf)
{
	return urgent_is(opf, current->flags & PF_MEMALLOC);
}

/* Ended requests are read first, so that one that ends meanwhile counts as outstanding. */
static void tabs_sample(const struct tabs_data *td, struct tabs_sample *s)
{
	unsigned int type, i;
	int cpu;

	*s = (struct tabs_sample) {};
	for (type = 0; type < TABS_NR_TYPES; type++) {
		for (i = 0; i < td->nr_queues; i++)
			s->done[type] += atomic_long_read(&td->queue[i].ended[type]);
		for_each_possible_cpu(cpu)
			s->done_bytes[type] += READ_ONCE(per_cpu_ptr(td->cpu_counters,
								     cpu)->bytes[type]);
		for (i = 0; i < td->nr_queues; i++)
			s->came[type] += READ_ONCE(td->queue[i].came[type]);
	}
}

static bool tabs_queue_is_reading(const struct tabs_queue *tq)
{
	unsigned long ended = atomic_long_read(&tq->ended[TABS_READ]);

	return READ_ONCE(tq->came[TABS_READ]) != ended;
}

/*
 * For FUA writes only; any context. While reads are outstanding, the queue that had some the last
 * time mostly has some again, and answers for all. All queues are looked at when the answer is yes,
 * and then a held write goes. Queues are looked at one after another: with reads that come and go
 * meanwhile the answer may be wrong, for one write, which is charged.
 */
static bool tabs_is_device_idle(struct tabs_data *td)
{
	unsigned int first = READ_ONCE(td->reading), i = first;

	if (atomic_read(&td->fua_inflight))
		return false;
	do {
		if (tabs_queue_is_reading(&td->queue[i])) {
			if (i != first)
				WRITE_ONCE(td->reading, i);
			return false;
		}
		if (++i == td->nr_queues)
			i = 0;
	} while (i != first);
	return true;
}

/* A held write may go. Any context. */
static void tabs_wake(struct tabs_data *td)
{
	hctx_wake(td->hctx[READ_ONCE(td->wake)]);
}

static bool tabs_may_send_held(const struct tabs_data *td)
{
	return READ_ONCE(td->nr_held) && tabs_may_go(&td->policy);
}

static bool tabs_queue_has_work(const struct tabs_data *td, const struct tabs_queue *tq)
{
	return !list_empty_careful(&tq->fifo) || tabs_may_send_held(td);
}

const char *tabs_obstacle(struct tabs_data *td)
{
	if (!blk_queue_write_cache(td->q))
		return "the device has no volatile write cache, so that no write needs FUA";
	if (!(td->q->limits.features & BLK_FEAT_FUA))
		return "the device has no FUA, it gets flushes instead";
	if (!td->configured)
		return "max_read_kbps and max_fua_write_kbps are not both set";
	return NULL;
}

/* ---- the tick ---- */

static void tabs_queue_tick(struct tabs_data *td)
{
	kblockd_mod_delayed_work_on(WORK_CPU_UNBOUND, &td->tick,
				    nsecs_to_jiffies(TABS_TICK_NS) ?: 1);
}

/* A FUA write has come. */
static void tabs_start_ticks(struct tabs_data *td)
{
	/*
	 * Pairs with atomic_set() in tabs_tick_work(), but no order is needed: an insert that does
	 * not see that the ticks have ended leaves it to the next FUA write to start them.
	 */
	if (!atomic_read(&td->ticking) && READ_ONCE(td->configured) &&
	    !atomic_xchg(&td->ticking, 1))
		tabs_queue_tick(td);
}

static void tabs_trace_tick(struct tabs_data *td, unsigned int changed)
{
	lockdep_assert_held(&td->lock);

	if (changed & TABS_EPOCH_ENDED)
		trace_tabs_alpha(td->q, tabs_last_epoch(&td->policy), td->policy.alpha);
	if (changed & TABS_CHANGED_PHASE)
		trace_tabs_phase(td->q, &td->policy);
}

static void tabs_tick_work(struct work_struct *work)
{
	struct tabs_data *td = container_of(work, struct tabs_data, tick.work);
	u64 now_ns = ktime_get_ns();
	struct tabs_sample s;
	struct request *rq;
	unsigned int changed;
	bool again;

	tabs_sample(td, &s);
	spin_lock(&td->lock);
	rq = list_first_entry_or_null(&td->held, struct request, queuelist);
	s.held = td->nr_held;
	s.oldest_ns = rq ? rq->fifo_time : 0;
	changed = tabs_tick(&td->policy, &s, now_ns);
	if (s.held)
		td->longest_tick_ns = max(td->longest_tick_ns, td->policy.tick_ns);
	tabs_trace_tick(td, changed);
	again = s.held || tabs_needs_ticks(&td->policy, now_ns);
	spin_unlock(&td->lock);

	if (s.held && ((changed & TABS_OPENED) || tabs_may_send_held(td)))
		tabs_wake(td);
	if (again)
		tabs_queue_tick(td);
	else
		atomic_set(&td->ticking, 0);
}

static void tabs_get_config(const struct tabs_tunables *t, struct tabs_config *config)
{
	*config = (struct tabs_config) {
		.max_bytes_per_s = {
			[TABS_READ]	= (u64)t->max_read_kbps << 10,
			[TABS_FUA]	= (u64)t->max_fua_write_kbps << 10,
		},
		.idle_reset_ns	= (u64)t->idle_reset_ms * NSEC_PER_MSEC,
		.epoch_ns	= (u64)t->epoch_ms * NSEC_PER_MSEC,
		.sched_ns	= (u64)t->sched_ms * NSEC_PER_MSEC,
		.max_delay_ns	= (u64)t->max_delay_ms * NSEC_PER_MSEC,
		.idle_threshold	= t->idle_threshold,
		.feedback_pct	= t->feedback_pct,
	};
}

void tabs_apply(struct tabs_data *td)
{
	struct tabs_config config;

	tabs_get_config(&td->tunables, &config);
	spin_lock(&td->lock);
	tabs_set_config(&td->policy, &config, ktime_get_ns());
	trace_tabs_phase(td->q, &td->policy);
	spin_unlock(&td->lock);
	WRITE_ONCE(td->configured, tabs_is_configured(&config));
	hctx_wake_all(td->q);
}

/* ---- init and exit ---- */

void tabs_count(struct tabs_data *td, unsigned int kind, struct tabs_counters *c)
{
	unsigned int i;
	int cpu;

	*c = (struct tabs_counters) {};
	/* Dropped before ended, of which they are a part: the difference is not below 0. */
	for_each_possible_cpu(cpu) {
		const struct tabs_cpu_counters *counters = per_cpu_ptr(td->cpu_counters, cpu);

		c->completed -= READ_ONCE(counters->dropped[kind]);
		c->requeued += READ_ONCE(counters->requeued[kind]);
	}
	for (i = 0; i < td->nr_queues; i++) {
		struct tabs_queue *tq = &td->queue[i];

		spin_lock(&tq->lock);
		/* A bio that was merged counts as inserted, too. */
		c->inserted += tq->inserted[kind] + tq->merged[kind];
		c->merged += tq->merged[kind];
		c->dispatched += tq->dispatched[kind];
		c->queued += tq->nr[kind];
		spin_unlock(&tq->lock);
		c->completed += atomic_long_read(&tq->ended[kind]);
	}
	if (kind == TABS_FUA) {
		spin_lock(&td->lock);
		c->dispatched += td->sent_held;
		c->queued += td->nr_held;
		spin_unlock(&td->lock);
	}
}

static bool tabs_is_balanced(struct tabs_data *td)
{
	struct tabs_counters c;
	unsigned int kind;

	for (kind = 0; kind < TABS_NR_KINDS; kind++) {
		tabs_count(td, kind, &c);
		if (c.queued || c.inserted != c.merged + c.dispatched ||
		    c.dispatched != c.completed + c.requeued)
			return false;
	}
	return !atomic_read(&td->fua_inflight);
}

static struct tabs_data *tabs_alloc(struct request_queue *q, const struct elevator_queue *eq)
{
	struct tabs_data *td = kzalloc_node(sizeof(*td), GFP_KERNEL, q->node);
	unsigned int i;

	if (!td)
		return NULL;
	td->q = q;
	td->nr_queues = q->nr_hw_queues;
	td->cpu_counters = mqfair_alloc_percpu(struct tabs_cpu_counters);
	if (!td->cpu_counters)
		goto err_td;
	td->hctx = kvcalloc(td->nr_queues, sizeof(*td->hctx), GFP_KERNEL);
	if (!td->hctx)
		goto err_counters;
	td->queue = kvcalloc(td->nr_queues, sizeof(*td->queue), GFP_KERNEL);
	if (!td->queue)
		goto err_hctx;
	td->keep = keep_get(q, eq, 0);
	if (!td->keep)
		goto err_queue;
	for (i = 0; i < td->nr_queues; i++) {
		spin_lock_init(&td->queue[i].lock);
		INIT_LIST_HEAD(&td->queue[i].fifo);
	}
	spin_lock_init(&td->lock);
	INIT_LIST_HEAD(&td->held);
	INIT_DELAYED_WORK(&td->tick, tabs_tick_work);
	return td;

err_queue:
	kvfree(td->queue);
err_hctx:
	kvfree(td->hctx);
err_counters:
	free_percpu(td->cpu_counters);
err_td:
	kfree(td);
	return NULL;
}

static void tabs_free(struct tabs_data *td)
{
	keep_put(td->keep);
	kvfree(td->queue);
	kvfree(td->hctx);
	free_percpu(td->cpu_counters);
	kfree(td);
}

static int tabs_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct tabs_data *td = tabs_alloc(q, eq);
	struct tabs_config config;
	const char *obstacle;

	if (!td)
		return -ENOMEM;
	td->tunables = tabs_default_tunables;
	tabs_get_config(&td->tunables, &config);
	tabs_policy_init(&td->policy, &config, ktime_get_ns());

	/* The maxima are never set at this point: that is not worth a message. */
	td->configured = true;
	obstacle = tabs_obstacle(td);
	if (obstacle)
		pr_info_ratelimited("%s: nothing to schedule: %s\n",
				    q->disk ? q->disk->disk_name : "?", obstacle);
	td->configured = false;

	hctx_run_each(q);
	tag_share_update(q);
	wbt_off(q);
	eq->elevator_data = td;
	keep_restore(td->keep, eq);
	q->elevator = eq;
	return 0;
}

static void tabs_exit_sched(struct elevator_queue *eq)
{
	struct tabs_data *td = eq->elevator_data;

	cancel_delayed_work_sync(&td->tick);
	WARN_ON_ONCE(!tabs_is_balanced(td));
	wbt_back(td->q);
	keep_save(td->keep, eq);
	tabs_free(td);
}

static int tabs_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
	struct tabs_data *td = hctx->queue->elevator->elevator_data;

	td->hctx[number] = hctx;
	hctx->sched_data = &td->queue[number];
	return 0;
}

/* ---- request hooks, in the order of a request's life ---- */

/* Called before a tag, or a batch of them for a plug, is allocated. */
static void tabs_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct tabs_data *td = data->q->elevator->elevator_data;

	if (tabs_kind(opf) == TABS_FUA && tabs_is_scheduling(&td->policy) && !tabs_is_urgent(opf))
		data->shallow_depth = tag_share_limit(data);
}

/* Called before the bio gets a request. */
static bool tabs_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct tabs_queue *tq = mqfair_bio_hctx(q, bio)->sched_data;
	bool merged;

	if (list_empty_careful(&tq->fifo))
		return false;
	spin_lock(&tq->lock);
	merged = blk_bio_list_merge(q, &tq->fifo, bio, nr_segs);
	if (merged)
		tq->merged[tabs_kind(bio->bi_opf)]++;
	spin_unlock(&tq->lock);
	return merged;
}

/* Called when a tag has become a request: the state is the previous owner's. */
static void tabs_prepare_request(struct request *rq)
{
	tabs_rq(rq)->state = TABS_RQ_NONE;
}

/*
 * Moves a FUA write from its list to the FUA delay queue, if it has to wait. @passes: it must not
 * wait, but is charged.
 */
static bool tabs_hold(struct tabs_data *td, struct tabs_queue *tq, struct request *rq, bool passes)
{
	bool is_urgent = tabs_is_urgent(rq->cmd_flags), hold;

	if (!tabs_is_scheduling(&td->policy) && !READ_ONCE(td->nr_held))
		return false;
	tq->urgent += is_urgent;
	if (passes || is_urgent) {
		tabs_charge(&td->policy);
		return false;
	}

	spin_lock(&td->lock);
	hold = tabs_must_hold(&td->policy, td->nr_held);
	if (hold) {
		rq->fifo_time = ktime_get_ns();
		if (!td->nr_held)
			WRITE_ONCE(td->wake, rq->mq_hctx->queue_num);
		list_move_tail(&rq->queuelist, &td->held);
		WRITE_ONCE(td->nr_held, td->nr_held + 1);
		trace_tabs_delay(rq, td->nr_held);
		if (tabs_is_device_idle(td))
			tabs_alone(&td->policy);
	}
	spin_unlock(&td->lock);
	return hold;
}

/* Moves @rq, the first of a list, to the queue in which it waits. */
static void tabs_insert_request(struct tabs_data *td, struct tabs_queue *tq, struct request *rq,
				bool at_head)
{
	struct tabs_rq *tr = tabs_rq(rq);
	bool again = tr->state == TABS_RQ_REQUEUED;

	lockdep_assert_held(&tq->lock);

	if (!again) {
		tr->kind = tabs_kind(rq->cmd_flags);
		if (tr->kind < TABS_NR_TYPES)
			tq->came[tr->kind]++;
	}
	tq->inserted[tr->kind]++;
	tr->state = TABS_RQ_QUEUED;
	trace_block_rq_insert(rq);

	if (tr->kind == TABS_FUA && !again) {
		tabs_start_ticks(td);
		if (tabs_hold(td, tq, rq, at_head || (rq->rq_flags & RQF_FLUSH_SEQ)))
			return;
	}
	tq->nr[tr->kind]++;
	if (at_head)
		list_move(&rq->queuelist, &tq->fifo);
	else
		list_move_tail(&rq->queuelist, &tq->fifo);
}

static void tabs_insert_list(struct tabs_data *td, struct tabs_queue *tq, struct list_head *list,
			     bool at_head)
{
	struct request *rq;

	spin_lock(&tq->lock);
	while ((rq = list_first_entry_or_null(list, struct request, queuelist))) {
		if (mqfair_adopt(rq))
			tabs_prepare_request(rq);
		tabs_insert_request(td, tq, rq, at_head);
	}
	spin_unlock(&tq->lock);
}

/*
 * Called from blk_mq_insert_request(), one request, and from the flush of a plug, many of one
 * hardware queue. blk-mq runs the queue afterwards; blk/submit.h tells why we run it before that.
 */
static void tabs_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				 blk_insert_t flags)
{
	struct tabs_data *td = hctx->queue->elevator->elevator_data;
	bool direct = submit_begin(hctx, flags);

	tabs_insert_list(td, hctx->sched_data, list, flags & BLK_MQ_INSERT_AT_HEAD);
	if (direct)
		submit_end(hctx, tabs_queue_has_work(td, hctx->sched_data));
}

/* The oldest held write, if it may go. If reads have not earned it, it alternates with the fifo. */
static struct request *tabs_take_held(struct tabs_data *td, struct tabs_queue *tq)
{
	enum tabs_reason reason = TABS_HELD;
	u64 now_ns = ktime_get_ns(), held_ns;
	struct request *rq, *next = NULL;

	spin_lock(&td->lock);
	rq = list_first_entry_or_null(&td->held, struct request, queuelist);
	if (rq) {
		if (!list_is_last(&rq->queuelist, &td->held))
			next = list_next_entry(rq, queuelist);
		reason = tabs_take(&td->policy, next ? next->fifo_time : 0, now_ns);
	}
	if (reason == TABS_HELD) {
		spin_unlock(&td->lock);
		return NULL;
	}
	list_del_init(&rq->queuelist);
	WRITE_ONCE(td->nr_held, td->nr_held - 1);
	if (next)
		WRITE_ONCE(td->wake, next->mq_hctx->queue_num);
	held_ns = now_ns > rq->fifo_time ? now_ns - rq->fifo_time : 0;
	td->longest_held_ns = max(td->longest_held_ns, held_ns);
	td->released[reason]++;
	td->sent_held++;
	spin_unlock(&td->lock);

	WRITE_ONCE(tq->fifo_is_next, reason != TABS_EARNED);
	trace_tabs_release(rq, reason, held_ns);
	return rq;
}

static struct request *tabs_take_next(struct tabs_data *td, struct tabs_queue *tq)
{
	struct request *rq;
	unsigned int kind;

	spin_lock(&tq->lock);
	WRITE_ONCE(tq->fifo_is_next, false);
	rq = list_first_entry_or_null(&tq->fifo, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		kind = tabs_rq(rq)->kind;
		tq->nr[kind]--;
		tq->dispatched[kind]++;
		if (kind == TABS_READ)
			tabs_earn(&td->policy, &tq->earned);
	}
	spin_unlock(&tq->lock);
	return rq;
}

/*
 * Called from a run of @hctx, after has_work said yes. A held write that reads have earned goes
 * first: a fifo that is never empty must not block it. A held write that they have not earned
 * alternates with the fifo, which must not be blocked either.
 */
static struct request *tabs_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct tabs_data *td = hctx->queue->elevator->elevator_data;
	struct tabs_queue *tq = hctx->sched_data;
	bool fifo_waits = !list_empty_careful(&tq->fifo);
	struct request *rq = NULL;
	struct tabs_rq *tr;

	if (tabs_may_send_held(td) && !(fifo_waits && READ_ONCE(tq->fifo_is_next)))
		rq = tabs_take_held(td, tq);
	if (!rq)
		rq = tabs_take_next(td, tq);
	else if (fifo_waits && rq->mq_hctx != hctx)
		/*
		 * If its own queue has no tag for it, this run ends here, and blk-mq runs only
		 * that queue again.
		 */
		blk_mq_run_hw_queue(hctx, true);
	if (!rq)
		return NULL;

	tr = tabs_rq(rq);
	tr->state = TABS_RQ_INFLIGHT;
	tr->bytes = blk_rq_bytes(rq);
	/* If it comes back it must not be merged: the driver may have mapped it. */
	rq->rq_flags |= RQF_STARTED;
	if (tr->kind == TABS_FUA)
		atomic_inc(&td->fua_inflight);
	return rq;
}

/* Asked before each dispatch, and before blk-mq runs a queue. Takes no lock. */
static bool tabs_has_work(struct blk_mq_hw_ctx *hctx)
{
	return tabs_queue_has_work(hctx->queue->elevator->elevator_data, hctx->sched_data);
}

/* A FUA write has left the device: if the device is idle, another may go. Any context. */
static void tabs_fua_left(struct tabs_data *td)
{
	if (!atomic_dec_and_test(&td->fua_inflight) || !READ_ONCE(td->nr_held) ||
	    !tabs_is_device_idle(td))
		return;
	tabs_alone(&td->policy);
	tabs_wake(td);
}

/*
 * Called from blk_mq_requeue_request(), in any context. Insert, or the driver's dispatch list,
 * comes later.
 */
static void tabs_requeue_request(struct request *rq)
{
	struct tabs_data *td = rq->q->elevator->elevator_data;
	struct tabs_rq *tr = tabs_rq(rq);

	if (tr->state != TABS_RQ_INFLIGHT)
		return;
	tr->state = TABS_RQ_REQUEUED;
	this_cpu_inc(td->cpu_counters->requeued[tr->kind]);
	if (tr->kind == TABS_FUA)
		tabs_fua_left(td);
}

/*
 * Called once for every request that has been prepared, in any context, also for those that never
 * came to insert.
 */
static void tabs_finish_request(struct request *rq)
{
	struct tabs_data *td = rq->q->elevator->elevator_data;
	struct tabs_queue *tq = rq->mq_hctx->sched_data;
	struct tabs_rq *tr = tabs_rq(rq);
	u8 state = tr->state;

	if (state == TABS_RQ_NONE)
		return;
	tr->state = TABS_RQ_NONE;
	atomic_long_inc(&tq->ended[tr->kind]);
	if (state != TABS_RQ_INFLIGHT) {
		this_cpu_inc(td->cpu_counters->dropped[tr->kind]);
		return;
	}
	this_cpu_add(td->cpu_counters->bytes[tr->kind], tr->bytes);
	if (tr->kind == TABS_FUA)
		tabs_fua_left(td);
}

/* ---- registration ---- */

MQFAIR_DEFINE_INIT_SCHED(tabs_init_sched)
MQFAIR_DEFINE_DEPTH_UPDATED(tag_share_update)

static struct elevator_type tabs_elevator = {
	.ops = {
		.init_sched		= MQFAIR_INIT_SCHED(tabs_init_sched),
		.exit_sched		= tabs_exit_sched,
		.init_hctx		= tabs_init_hctx,
		.exit_hctx		= hctx_exit,
		.depth_updated		= MQFAIR_DEPTH_UPDATED(tag_share_update),
		.limit_depth		= tabs_limit_depth,
		.bio_merge		= tabs_bio_merge,
		.prepare_request	= tabs_prepare_request,
		.insert_requests	= tabs_insert_requests,
		.dispatch_request	= tabs_dispatch_request,
		.has_work		= tabs_has_work,
		.requeue_request	= tabs_requeue_request,
		.finish_request		= tabs_finish_request,
	},
#ifdef CONFIG_BLK_DEBUG_FS
	.queue_debugfs_attrs	= tabs_queue_debugfs_attrs,
#endif
	.elevator_attrs		= tabs_attrs,
	.elevator_name		= "mq-tabs",
	.elevator_owner		= THIS_MODULE,
};

static int __init tabs_init(void)
{
	return elv_register(&tabs_elevator);
}

static void __exit tabs_exit(void)
{
	elv_unregister(&tabs_elevator);
}

module_init(tabs_init);
module_exit(tabs_exit);

MODULE_ALIAS("mq-tabs-iosched");
MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TABS I/O scheduler: reads and FUA writes at their fair bandwidth");
