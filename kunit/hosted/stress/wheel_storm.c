// SPDX-License-Identifier: GPL-2.0
/*
 * wheel_storm.c - no waiter for virtual time is forgotten: wheel and mindicator under threads
 *
 * Each thread is a queue whose tag grows. It publishes its tag. When it is more than T ahead of
 * virtual time, it parks itself by the steps at the top of vt_wheel.h, and sleeps until it is
 * woken. A thread that advances virtual time turns the wheel. In every second half another thread
 * changes b and B and wakes all. A queue that is forgotten holds virtual time, and with it all
 * others: everything stands still.
 */
#include <linux/atomic.h>

#include "../../../lib/mindicator.h"
#include "../../../lib/vt_wheel.h"
#include "storm.h"

enum {
	NR_THREADS	= 4,
	WAITS		= 1,
	LOOKS_MAX	= 40,
};

struct queue {
	spinlock_t lock;	/* not contended: its owner publishes under it */
	atomic_t state;
	u64 wake_vt;
	unsigned long nr_steps;
} ____cacheline_aligned_in_smp;

static struct topology topology;
static struct mindicator m;
static struct vt_wheel w;
static struct queue queues[NR_THREADS];
static u64 throttle_vt;
static int over;
static double end;
static bool reshapes;

static bool is_due(void *unused, unsigned int leaf)
{
	struct queue *q = &queues[leaf];

	(void)unused;
	return atomic_read(&q->state) != WAITS ||
	       !vt_after(READ_ONCE(q->wake_vt), mindicator_vt(&m));
}

static void wake(void *unused, unsigned int leaf)
{
	(void)unused;
	atomic_cmpxchg(&queues[leaf].state, WAITS, 0);
}

static const struct vt_wheel_ops ops = {
	.is_due	= is_due,
	.wake	= wake,
};

static void publish(unsigned int leaf, u64 value)
{
	u64 old_vt;

	if (mindicator_set(&m, leaf, value, &old_vt))
		vt_wheel_turn(&w, old_vt, mindicator_vt(&m));
}

static void wait_until_near(unsigned int leaf, u64 tag)
{
	struct queue *q = &queues[leaf];

	while (vt_after(tag, mindicator_vt(&m) + throttle_vt)) {
		WRITE_ONCE(q->wake_vt, tag - throttle_vt);
		atomic_set(&q->state, WAITS);
		vt_wheel_park(&w, leaf, q->wake_vt, &m.vt);
		if (!vt_after(q->wake_vt, mindicator_vt(&m))) {
			atomic_set(&q->state, 0);
			return;
		}
		while (atomic_read(&q->state) == WAITS && !READ_ONCE(over))
			sched_yield();
		if (READ_ONCE(over))
			return;
	}
}

static void *queue_thread(void *data)
{
	unsigned int leaf = (unsigned long)data;
	u64 tag = mindicator_vt(&m);

	storm_random = leaf + 1;
	while (!READ_ONCE(over)) {
		/* Some are large, some small; some queues fall asleep for a while. */
		tag = vt_add(tag, 1 + draw(leaf == 0 ? 4 : 40));
		spin_lock(&queues[leaf].lock);
		if (draw(16) == 0) {
			publish(leaf, VT_NONE);
			sched_yield();
			if (vt_after(mindicator_vt(&m), tag))
				tag = mindicator_vt(&m);
		}
		publish(leaf, tag);
		spin_unlock(&queues[leaf].lock);
		wait_until_near(leaf, tag);
		WRITE_ONCE(queues[leaf].nr_steps, queues[leaf].nr_steps + 1);
	}
	return NULL;
}

static void *reshaper(void *data)
{
	unsigned int i;

	storm_random = 99;
	while (!READ_ONCE(over)) {
		struct vt_wheel_geometry geometry = { draw(8), 1 + draw(4) };

		vt_wheel_reshape(&w, geometry);
		for (i = 0; i < NR_THREADS; i++)
			wake(NULL, i);
		/* The last shape of a while must do by itself. */
		for (i = draw(LOOKS_MAX); i; i--)
			sched_yield();
	}
	return data;
}

static unsigned long steps(void)
{
	unsigned long sum = 0, i;

	for (i = 0; i < NR_THREADS; i++)
		sum += READ_ONCE(queues[i].nr_steps);
	return sum;
}

static bool is_over(void)
{
	return storm_now() > end;
}

static void tell(void)
{
	unsigned int i;

	for (i = 0; i < NR_THREADS; i++)
		printf("# leaf %u: %llu state %d waits for %llu, now %llu\n", i,
		       READ_ONCE(m.node[i].value), atomic_read(&queues[i].state),
		       READ_ONCE(queues[i].wake_vt), mindicator_vt(&m));
}

static void run(u64 throttle, struct vt_wheel_geometry geometry, double seconds)
{
	static const struct shape shape = { "", NR_THREADS, 2, 2, NR_THREADS, 1 };
	struct topology_place place[NR_THREADS];
	pthread_t threads[NR_THREADS], tuner;
	unsigned long i;

	shape_places(&shape, place);
	throttle_vt = throttle;
	if (topology_init(&topology, place, NR_THREADS, GFP_KERNEL) ||
	    mindicator_init(&m, &topology, 0 - 5000ULL, GFP_KERNEL) ||
	    vt_wheel_init(&w, NR_THREADS, geometry, &ops, NULL, GFP_KERNEL))
		storm_fail("no memory");
	WRITE_ONCE(over, 0);
	end = storm_now() + seconds;
	for (i = 0; i < NR_THREADS; i++)
		pthread_create(&threads[i], NULL, queue_thread, (void *)i);
	if (reshapes)
		pthread_create(&tuner, NULL, reshaper, NULL);
	storm_watch(is_over, steps, tell);
	WRITE_ONCE(over, 1);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	if (reshapes)
		pthread_join(tuner, NULL);
	vt_wheel_destroy(&w);
	mindicator_destroy(&m);
	topology_destroy(&topology);
}

int main(int argc, char **argv)
{
	static const struct vt_wheel_geometry geometry[] = {
		{ 0, 1 }, { 1, 2 }, { 6, 1 }, { 3, 2 }
	};
	static const u64 throttle[] = { 0, 3, 50 };
	unsigned int i;

	storm_begin(argc, argv, "wheel_storm", 2.4);
	for (i = 0; i < 24; i++) {
		reshapes = i >= 12;
		run(throttle[i % 3], geometry[i % 4], storm_seconds / 24);
	}
	return storm_end(steps());
}
