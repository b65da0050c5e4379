// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_monitor.c - windows: what has been counted since the last one goes to the policy
 *
 * Counters are only ever added to, in any context, without a lock; a window is the difference of
 * their sums at its end and at its beginning. The work that ends windows runs while requests come,
 * and stops after a window without any; the next request starts it. In a window in which nothing
 * has ended the decisions stay as they are.
 *
 * A flow's place in the tables is its number modulo OCTOFAS_FLOWS. If the place is taken by another
 * flow that is alive, the flow is watched as one of the others, in place 0. A place is given up
 * when its flow has had no request for two windows.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "octofas.h"
#include "trace.h"

enum {
	/* Idle flows are freed that often, twice seen. */
	OCTOFAS_RECLAIM_NS	= 2000000000,
};

/* The sums of everything that is counted for a window. */
struct octofas_sums {
	struct octofas_flow_sample flow[OCTOFAS_FLOWS];
	struct octofas_queue_sample *queue;
	u64 *home_ns;
};

static void octofas_sums_free(struct octofas_sums *s)
{
	if (!s)
		return;
	kvfree(s->home_ns);
	kvfree(s->queue);
	kvfree(s);
}

static struct octofas_sums *octofas_sums_alloc(u32 nr_queues)
{
	struct octofas_sums *s = kvzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	s->queue = kvcalloc(nr_queues, sizeof(*s->queue), GFP_KERNEL);
	s->home_ns = kvcalloc(nr_queues, OCTOFAS_FLOWS * sizeof(*s->home_ns), GFP_KERNEL);
	if (s->queue && s->home_ns)
		return s;
	octofas_sums_free(s);
	return NULL;
}

static void octofas_sum(struct octofas_data *od, struct octofas_sums *s)
{
	u32 i, f;

	memset(s->flow, 0, sizeof(s->flow));
	for (i = 0; i < od->nr_queues; i++) {
		struct octofas_queue *oq = &od->queue[i];
		struct octofas_queue_sample *qs = &s->queue[i];

		*qs = (struct octofas_queue_sample) {
			.base_ns = atomic64_read(&oq->base_sum_ns),
			.usable = octofas_is_usable(od->hctx[i]),
		};
		for (f = 0; f < OCTOFAS_FLOWS; f++) {
			struct octofas_tally *t = &oq->tally[f];
			u64 nr = atomic64_read(&t->nr), latency_ns = atomic64_read(&t->latency_ns);

			s->flow[f].nr += nr;
			s->flow[f].latency_ns += latency_ns;
			s->flow[f].alone_ns += atomic64_read(&t->alone_ns);
			s->home_ns[i * OCTOFAS_FLOWS + f] = atomic64_read(&t->home_ns);
			qs->nr += nr;
			qs->latency_ns += latency_ns;
		}
	}
}

/* @from becomes what was added between it and @to. Return: requests. */
static u64 octofas_subtract(struct octofas_data *od, struct octofas_sums *from,
			    const struct octofas_sums *to)
{
	u64 nr = 0;
	u32 i;

	for (i = 0; i < OCTOFAS_FLOWS; i++) {
		from->flow[i].nr = to->flow[i].nr - from->flow[i].nr;
		from->flow[i].latency_ns = to->flow[i].latency_ns - from->flow[i].latency_ns;
		from->flow[i].alone_ns = to->flow[i].alone_ns - from->flow[i].alone_ns;
		nr += from->flow[i].nr;
	}
	for (i = 0; i < od->nr_queues; i++) {
		from->queue[i].nr = to->queue[i].nr - from->queue[i].nr;
		from->queue[i].latency_ns = to->queue[i].latency_ns - from->queue[i].latency_ns;
		from->queue[i].base_ns = to->queue[i].base_ns - from->queue[i].base_ns;
		from->queue[i].usable = to->queue[i].usable;
	}
	for (i = 0; i < od->nr_queues * OCTOFAS_FLOWS; i++)
		from->home_ns[i] = to->home_ns[i] - from->home_ns[i];
	return nr;
}

static void octofas_update_base(struct octofas_data *od)
{
	u32 i, class;

	for (class = 0; class < OCTOFAS_CLASSES; class++) {
		u64 least_ns = U64_MAX;

		for (i = 0; i < od->nr_queues; i++) {
			least_ns = min(least_ns, READ_ONCE(od->queue[i].least_ns[class]));
			WRITE_ONCE(od->queue[i].least_ns[class], U64_MAX);
		}
		WRITE_ONCE(od->base_ns[class], octofas_base_ns(od->base_ns[class], least_ns));
	}
}

/* Places of flows that are gone are free again. Return: requests outstanding. */
static u32 octofas_update_places(struct octofas_data *od, const struct octofas_sums *window)
{
	u32 outstanding, sum = 0, i, f;

	for (f = 0; f < OCTOFAS_FLOWS; f++) {
		struct octofas_place *place = &od->place[f];

		for (outstanding = 0, i = 0; i < od->nr_queues; i++)
			outstanding += atomic_read(&od->queue[i].tally[f].outstanding);
		sum += outstanding;
		if (!place->owner)
			continue;
		if (outstanding || window->flow[f].nr) {
			place->idle = false;
		} else if (!place->idle) {
			place->idle = true;
		} else {
			place->idle = false;
			WRITE_ONCE(place->owner, 0);
		}
	}
	return sum;
}

void octofas_wake_all(struct octofas_data *od)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(od->q, hctx, i)
		if (!list_empty_careful(&od->queue[i].fifo))
			blk_mq_run_hw_queue(hctx, true);
}

static void octofas_trace_window(struct octofas_data *od, unsigned int changed)
{
	const struct octofas_record *r = octofas_last_window(&od->policy);

	lockdep_assert_held(&od->lock);

	trace_octofas_window(od->q, r);
	if (changed)
		trace_octofas_flag(od->q, r);
}

static void octofas_queue_tick(struct octofas_data *od)
{
	u32 window_ms = READ_ONCE(od->tunables.window_ms);

	queue_delayed_work(system_dfl_wq, &od->tick, max(1UL, msecs_to_jiffies(window_ms)));
}

/* Ends a window. Return: there is something to watch. */
static bool octofas_end_window(struct octofas_data *od, u64 now_ns)
{
	struct octofas_sums *window = od->before;
	unsigned int changed;
	u32 outstanding;
	u64 nr;

	lockdep_assert_held(&od->lock);

	octofas_sum(od, od->now);
	nr = octofas_subtract(od, window, od->now);
	outstanding = octofas_update_places(od, window);
	if (nr) {
		const struct octofas_sample sample = {
			.length_ns = max(now_ns - od->window_at_ns, 1ULL),
			.flow = window->flow,
			.queue = window->queue,
			.home_ns = window->home_ns,
		};

		octofas_update_base(od);
		changed = octofas_window(&od->policy, &sample);
		octofas_trace_window(od, changed);
	}
	od->before = od->now;
	od->now = window;
	od->window_at_ns = now_ns;
	return nr || outstanding;
}

static bool octofas_is_busy(const struct octofas_data *od)
{
	u32 i;

	for (i = 0; i < od->nr_queues; i++)
		if (atomic_read(&od->policy.queue[i].load))
			return true;
	return false;
}

/* Flows that have no requests have no references after this. */
static void octofas_fold(struct octofas_data *od)
{
	u32 i;

	for (i = 0; i < od->nr_queues; i++) {
		struct octofas_queue *oq = &od->queue[i];

		spin_lock(&oq->lock);
		flow_locals_fold(&oq->flows);
		spin_unlock(&oq->lock);
	}
}

static void octofas_tick(struct work_struct *work)
{
	struct octofas_data *od = container_of(work, struct octofas_data, tick.work);
	u64 now_ns = ktime_get_ns();
	bool again;

	spin_lock(&od->lock);
	again = octofas_end_window(od, now_ns);
	spin_unlock(&od->lock);

	/* A bound may have become larger. */
	octofas_wake_all(od);
	if (again && now_ns - od->reclaimed_at_ns < OCTOFAS_RECLAIM_NS) {
		octofas_queue_tick(od);
		return;
	}
	od->reclaimed_at_ns = now_ns;
	octofas_fold(od);
	flow_table_reclaim(&od->flows, 0);
	if (again) {
		octofas_queue_tick(od);
		return;
	}
	/* What was seen idle above and still is goes now: nothing comes back for it. */
	flow_table_reclaim(&od->flows, 0);
	/* Pairs with atomic_fetch_inc() in octofas_arrive(): it sees this, or we see its load. */
	atomic_xchg(&od->ticking, 0);
	if (octofas_is_busy(od) && !atomic_xchg(&od->ticking, 1))
		octofas_queue_tick(od);
}

void octofas_monitor_start(struct octofas_data *od)
{
	/* Pairs with atomic_xchg() in octofas_tick(): the caller has counted its request. */
	if (!atomic_read(&od->ticking) && !atomic_xchg(&od->ticking, 1)) {
		spin_lock(&od->lock);
		od->window_at_ns = ktime_get_ns();
		spin_unlock(&od->lock);
		octofas_queue_tick(od);
	}
}

void octofas_monitor_count(struct octofas_data *od, u32 served, u32 home, u32 flow, u32 class,
			   u64 latency_ns, u8 others)
{
	struct octofas_queue *oq = &od->queue[served];
	struct octofas_tally *t = &oq->tally[flow];
	u64 base_ns = READ_ONCE(od->base_ns[class]) ?: latency_ns;

	/* Two that meet here may lose the lesser one; the next window has another. */
	if (latency_ns < READ_ONCE(oq->least_ns[class]))
		WRITE_ONCE(oq->least_ns[class], latency_ns);
	atomic64_inc(&t->nr);
	atomic64_add(latency_ns, &t->latency_ns);
	atomic64_add(octofas_alone_ns(latency_ns, base_ns, others), &t->alone_ns);
	atomic64_add(base_ns, &oq->base_sum_ns);
	atomic64_add(latency_ns, &od->queue[home].tally[flow].home_ns);
}

int octofas_monitor_init(struct octofas_data *od)
{
	u32 i, class;

	for (i = 0; i < od->nr_queues; i++)
		for (class = 0; class < OCTOFAS_CLASSES; class++)
			od->queue[i].least_ns[class] = U64_MAX;
	spin_lock_init(&od->lock);
	INIT_DELAYED_WORK(&od->tick, octofas_tick);
	od->before = octofas_sums_alloc(od->nr_queues);
	od->now = octofas_sums_alloc(od->nr_queues);
	if (od->before && od->now)
		return 0;
	octofas_monitor_exit(od);
	return -ENOMEM;
}

/* The work has been cancelled. */
void octofas_monitor_exit(struct octofas_data *od)
{
	octofas_sums_free(od->before);
	octofas_sums_free(od->now);
}
