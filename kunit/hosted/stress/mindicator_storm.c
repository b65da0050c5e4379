// SPDX-License-Identifier: GPL-2.0
/*
 * mindicator_storm.c - virtual time under threads: mindicator.h's rule, and nothing left behind
 *
 * Each thread owns some leaves and sets them to tags as queues do: from virtual time onwards,
 * mostly upwards, and to nothing now and then. From the return of mindicator_set() until the leaf
 * is set again, no ancestor may be later than the leaf. Virtual time may move only as far as the
 * leaf. After each round, when all threads stand still, every node must be the minimum of its
 * children.
 */
#include "../../../lib/mindicator.h"
#include "storm.h"

enum {
	SETS_PER_ROUND	= 300,
};

struct promise {
	u64 value;
	u64 vt;		/* when mindicator_set() had returned */
};

static struct topology topology;
static struct mindicator m;
static struct promise promises[SHAPE_QUEUES_MAX];
static unsigned long nr_steps;

static void check_leaf(unsigned int leaf)
{
	const struct promise *p = &promises[leaf];
	unsigned int node = leaf;
	u64 vt = mindicator_vt(&m);

	if (p->value == VT_NONE)
		return;
	if (vt != p->vt && vt_after(vt, p->value))
		storm_fail("leaf %u at %llu: virtual time went from %llu to %llu", leaf, p->value,
			   p->vt, vt);
	do {
		u64 value;

		node = topology.node[node].parent;
		value = READ_ONCE(m.node[node].value);
		if (value == VT_NONE || vt_after(value, p->value))
			storm_fail("leaf %u at %llu, but node %u at %llu", leaf, p->value, node,
				   value);
	} while (node != topology_root(&topology));
}

static void set_some(unsigned int leaf)
{
	struct promise *p = &promises[leaf];
	u64 vt = mindicator_vt(&m), value = vt_add(vt, draw(12)), old_vt;

	if (draw(6) == 0)
		value = VT_NONE;
	else if (p->value != VT_NONE && draw(4))
		value = vt_add(p->value, draw(8));
	p->value = value;
	if (mindicator_set(&m, leaf, value, &old_vt) && !vt_after(mindicator_vt(&m), old_vt))
		storm_fail("virtual time has not advanced from %llu", old_vt);
	p->vt = mindicator_vt(&m);
	check_leaf(leaf);
}

static void *setter(void *data)
{
	unsigned int me = (unsigned long)data, i, leaf;
	u64 seen = mindicator_vt(&m), vt;

	storm_random = me + 1;
	for (;;) {
		pthread_barrier_wait(&storm_gate);
		if (storm_over)
			return NULL;
		for (i = 0; i < SETS_PER_ROUND; i++) {
			leaf = me + STORM_THREADS * draw(topology.nr_queues / STORM_THREADS + 1);
			if (leaf >= topology.nr_queues)
				continue;
			vt = mindicator_vt(&m);
			if (vt_after(seen, vt))
				storm_fail("virtual time went back from %llu to %llu", seen, vt);
			seen = vt;
			check_leaf(leaf);
			set_some(leaf);
		}
		pthread_barrier_wait(&storm_gate);
	}
}

static void check_all(void)
{
	unsigned int i, child;

	for (i = topology.nr_queues; i < topology.nr_nodes; i++) {
		const struct topology_node *node = &topology.node[i];
		u64 min = VT_NONE;

		for (child = 0; child < node->nr_children; child++)
			min = vt_min(min,
				     m.node[topology.children[node->first_child + child]].value);
		if (m.node[i].value != min)
			storm_fail("node %u is %llu, its children %llu", i, m.node[i].value, min);
	}
}

static void one_round(void)
{
	pthread_barrier_wait(&storm_gate);
	pthread_barrier_wait(&storm_gate);
	check_all();
	nr_steps += STORM_THREADS * SETS_PER_ROUND;
}

static void run_shape(const struct shape *shape, double seconds)
{
	struct topology_place place[SHAPE_QUEUES_MAX];
	unsigned int i;

	shape_places(shape, place);
	if (topology_init(&topology, place, shape->nr_queues, GFP_KERNEL) ||
	    mindicator_init(&m, &topology, 0 - 5000ULL, GFP_KERNEL))
		storm_fail("no memory");
	for (i = 0; i < shape->nr_queues; i++)
		promises[i].value = VT_NONE;
	storm_rounds(seconds, setter, one_round);
	mindicator_destroy(&m);
	topology_destroy(&topology);
}

int main(int argc, char **argv)
{
	static const struct shape tried[] = {
		{ "", 4, 2, 2, 4, 1 },
		{ "", 4, 4, 4, 4, 1 },
		{ "", 8, 2, 4, 8, 1 },
		{ "", 9, 2, 4, 5, 1 },
		{ "", 64, 2, 8, 16, 1 },
	};
	unsigned int i;

	storm_begin(argc, argv, "mindicator_storm", 2);
	for (i = 0; i < sizeof(tried) / sizeof(tried[0]); i++)
		run_shape(&tried[i], storm_seconds / (sizeof(tried) / sizeof(tried[0])));
	return storm_end(nr_steps);
}
