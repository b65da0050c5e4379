// SPDX-License-Identifier: GPL-2.0
/*
 * flow_storm.c - tags and lives of flows under threads
 *
 * Threads find or make flows, charge them and let go, while another one reclaims as fast as it
 * can and changes weights. A thread that holds a flow must find it alive, with its key, and in
 * the table. No two intervals of tags may overlap: the finish tag of a flow that was never
 * reclaimed, because one reference is kept, is the sum of all its costs.
 */
#include "../../../lib/flow.h"
#include "storm.h"

enum {
	NR_THREADS	= 3,
	NR_KEYS		= 5,	/* so few that all threads meet */
	KEPT		= 0,	/* the key of the flow that is never reclaimed */
};

static struct flow_table table;
static int over;
static u64 charged_vt;
static unsigned long nr_steps;
static double end;

static u32 weight_of(void *context, u64 key, void *who)
{
	(void)context;
	(void)who;
	return 100 + key;
}

static void check(struct flow *f, u64 key)
{
	struct flow *found;

	if (f->key != key)
		storm_fail("flow %llu has key %llu", key, f->key);
	if (atomic_read(&f->refs) <= 0)
		storm_fail("flow %llu is held and has %d references", key, atomic_read(&f->refs));
	rcu_read_lock();
	found = flow_find(&table, key);
	rcu_read_unlock();
	if (found != f)
		storm_fail("flow %llu is held and not in the table", key);
}

static void *user(void *data)
{
	storm_random = (unsigned long)data + 1;
	while (!READ_ONCE(over)) {
		u64 key = draw(NR_KEYS), cost_vt = 1 + draw(100), start;
		struct flow *f = flow_get(&table, key, NULL, 0);

		check(f, key);
		start = flow_tag(f, 0, cost_vt);
		if (start + cost_vt > READ_ONCE(f->finish))
			storm_fail("a finish tag went back");
		if (draw(4) == 0) {
			flow_charge(f, 1);
			cost_vt++;
		}
		if (key == KEPT)
			__atomic_add_fetch(&charged_vt, cost_vt, __ATOMIC_RELAXED);
		check(f, key);
		flow_put(f);
		__atomic_add_fetch(&nr_steps, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *reclaimer(void *data)
{
	storm_random = 99;
	while (!READ_ONCE(over)) {
		struct flow_reweigh change;
		struct flow *f =
			flow_set_weight(&table, draw(NR_KEYS), 1 + draw(1000), 1ULL << 60, &change);

		if (f)
			flow_put(f);
		if (flow_table_reclaim(&table, 1ULL << 60).nr_flows > NR_KEYS)
			storm_fail("%u flows of %d keys", table.nr_flows, NR_KEYS);
		sched_yield();
	}
	return data;
}

static bool is_over(void)
{
	return storm_now() > end;
}

static unsigned long moved(void)
{
	return __atomic_load_n(&nr_steps, __ATOMIC_RELAXED);
}

static void tell(void)
{
}

int main(int argc, char **argv)
{
	pthread_t threads[NR_THREADS + 1];
	struct flow *kept;
	unsigned long i;

	storm_begin(argc, argv, "flow_storm", 1.5);
	if (flow_table_init(&table, weight_of, NULL, GFP_KERNEL))
		storm_fail("no memory");
	kept = flow_get(&table, KEPT, NULL, 0);
	end = storm_now() + storm_seconds;
	for (i = 0; i < NR_THREADS; i++)
		pthread_create(&threads[i], NULL, user, (void *)i);
	pthread_create(&threads[NR_THREADS], NULL, reclaimer, NULL);
	storm_watch(is_over, moved, tell);
	WRITE_ONCE(over, 1);
	for (i = 0; i <= NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	if (kept->finish != charged_vt)
		storm_fail("charged %llu, but the finish tag is %llu", charged_vt, kept->finish);
	if (atomic_read(&kept->refs) != 1 ||
	    flow_table_reclaim(&table, 1ULL << 60).nr_flows > NR_KEYS ||
	    flow_table_reclaim(&table, 1ULL << 60).nr_flows != 1)
		storm_fail("references are left");
	flow_table_destroy(&table);
	return storm_end(nr_steps);
}
