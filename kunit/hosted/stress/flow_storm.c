// SPDX-License-Identifier: GPL-2.0
/*
 * flow_storm.c - tags and lives of flows under threads
 *
 * Threads find or make flows, charge them and let go, while another one reclaims as fast as it
 * can and changes weights. A thread that holds a flow must find it alive, with its key, and in
 * the table. No two intervals of tags may overlap: the finish tag of a flow that was never
 * reclaimed, because one reference is kept, is the sum of all its costs.
 *
 * The flows are in a tree, and another thread ends and computes activity as fast as it can. A flow
 * that is held must be active, and in the end the active ones of a branch have its weight together.
 */
#include "../../../lib/flow.h"
#include "storm.h"

enum {
	NR_THREADS	= 3,
	NR_KEYS		= 5,	/* so few that all threads meet */
	KEPT		= 0,	/* the key of the flow that is never reclaimed */
	TOP		= 10,	/* above the keys from 1 on, of which 2 is above 3 */
	WEIGHT_OF_TOP	= 700,
};

/* Passes are at virtual times below the tags of the flow that is kept. */
#define PASS_VT		(1ULL << 59)
#define KEPT_VT		(1ULL << 60)
#define LATE_VT		(1ULL << 62)

static struct flow_table table;
static int over;
static u64 charged_vt;
static unsigned long nr_steps;
static double end;

static u32 weight_of(void *context, u64 key, void *who)
{
	(void)context;
	(void)who;
	return key == TOP ? WEIGHT_OF_TOP : 100 + key;
}

/* What parent_of() gets: by key. The root is the first, and its flow is the one that is kept. */
static int place[TOP + 1];

static void *parent_of(void *context, void *who, u64 *parent_key)
{
	u64 key = (int *)who - place;

	(void)context;
	if (key == KEPT)
		return NULL;
	*parent_key = key == TOP ? KEPT : key == 3 ? 2 : TOP;
	return &place[*parent_key];
}

static void dirty(void *context)
{
	(void)context;
}

static const struct flow_tree_ops tree_ops = {
	.parent_of	= parent_of,
	.dirty		= dirty,
};

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

static void check_active(struct flow *f)
{
	spin_lock(&table.lock);
	if (!f->leaf.active)
		storm_fail("flow %llu is held and not active", f->key);
	spin_unlock(&table.lock);
}

static void *user(void *data)
{
	storm_random = (unsigned long)data + 1;
	while (!READ_ONCE(over)) {
		u64 key = draw(NR_KEYS), cost_vt = 1 + draw(100), start;
		struct flow *f = flow_get(&table, key, &place[key], 0);

		check(f, key);
		check_active(f);
		start = flow_tag(f, 0, cost_vt);
		if (start + cost_vt > READ_ONCE(f->finish))
			storm_fail("a finish tag went back");
		if (draw(4) == 0) {
			flow_charge(f, 0, 1);
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
		flow_set_weight(&table, draw(NR_KEYS), 1 + draw(1000));
		flow_table_updated(flow_table_update(&table, LATE_VT));
		if (flow_table_reclaim(&table, LATE_VT).nr_flows > NR_KEYS)
			storm_fail("%u flows of %d keys", table.nr_flows, NR_KEYS);
		sched_yield();
	}
	return data;
}

static void *passer(void *data)
{
	u64 vt = PASS_VT;

	storm_random = 55;
	while (!READ_ONCE(over)) {
		flow_table_pass(&table, vt);
		vt += 1 << 20;
		sched_yield();
	}
	return data;
}

/* All of them are active: what is their sum, less that of the branch? Then none is. */
static void check_tree(void)
{
	struct flow *f[NR_KEYS];
	s64 sum = 0;
	u64 key;

	for (key = 1; key < NR_KEYS; key++)
		f[key] = flow_get(&table, key, &place[key], LATE_VT);
	flow_table_updated(flow_table_update(&table, LATE_VT));
	for (key = 1; key < NR_KEYS; key++) {
		sum += f[key]->effective_weight;
		flow_put(f[key]);
	}
	sum -= flow_flat_weight(WEIGHT_OF_TOP);
	if (sum < -NR_KEYS || sum > NR_KEYS)
		storm_fail("a branch has %lld too much", sum);
	flow_table_pass(&table, LATE_VT);
	flow_table_pass(&table, LATE_VT);
	for (key = 1; key < NR_KEYS; key++)
		if (f[key]->leaf.active)
			storm_fail("flow %llu is still active", key);
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
	pthread_t threads[NR_THREADS + 2];
	struct flow *kept;
	unsigned long i;

	storm_begin(argc, argv, "flow_storm", 1.5);
	if (flow_table_init(&table, weight_of, NULL, GFP_KERNEL) ||
	    flow_table_plant(&table, &tree_ops, GFP_KERNEL))
		storm_fail("no memory");
	kept = flow_get(&table, KEPT, &place[KEPT], KEPT_VT);
	end = storm_now() + storm_seconds;
	for (i = 0; i < NR_THREADS; i++)
		pthread_create(&threads[i], NULL, user, (void *)i);
	pthread_create(&threads[NR_THREADS], NULL, reclaimer, NULL);
	pthread_create(&threads[NR_THREADS + 1], NULL, passer, NULL);
	storm_watch(is_over, moved, tell);
	WRITE_ONCE(over, 1);
	for (i = 0; i < NR_THREADS + 2; i++)
		pthread_join(threads[i], NULL);
	if (kept->finish != KEPT_VT + charged_vt)
		storm_fail("charged %llu, but the finish tag is %llu", charged_vt,
			   kept->finish - KEPT_VT);
	check_tree();
	if (atomic_read(&kept->refs) != 1 ||
	    flow_table_reclaim(&table, LATE_VT).nr_flows > NR_KEYS ||
	    flow_table_reclaim(&table, LATE_VT).nr_flows != 1)
		storm_fail("references are left");
	if (!list_empty(&table.tree.groups))
		storm_fail("groups are left");
	flow_table_destroy(&table);
	return storm_end(nr_steps);
}
