// SPDX-License-Identifier: GPL-2.0
/*
 * token_storm.c - the slots of a device under threads: none lost, none made, a debt always paid
 *
 * Threads take, steal and rest tokens; in every second round another one changes D.
 * While they run, no more may be out than the largest D of the round. After the round all
 * tokens are taken out and given back, which pays what slipped past a smaller D. Then D can be
 * taken out, and not one more.
 */
#include "../../../lib/token_tree.h"
#include "storm.h"

enum {
	OPS_PER_ROUND	= 60,
	RESIZES_MAX	= 4,	/* per round: each may be the last one, which nothing heals */
	SLOTS_MAX	= 24,
};

static struct topology topology;
static struct token_tree t;
static int nr_out;
static bool resizing;
static unsigned long nr_steps;

static void took(void)
{
	int out = __atomic_add_fetch(&nr_out, 1, __ATOMIC_RELAXED);

	if (out > SLOTS_MAX || (!resizing && out > t.slots))
		storm_fail("%d tokens are out, D is %d", out, t.slots);
}

static void gives(void)
{
	__atomic_sub_fetch(&nr_out, 1, __ATOMIC_RELAXED);
}

static void one_operation(unsigned int *mine)
{
	unsigned int leaf = draw(topology.nr_queues), what = draw(10);
	bool more;

	if (what < 5) {
		if (what < 3 ? token_tree_take(&t, leaf, 1 + draw(4)) :
			       token_tree_steal(&t, leaf, &more)) {
			++*mine;
			took();
		}
	} else if (*mine) {
		--*mine;
		gives();
		token_tree_rest(&t, leaf);
	}
	storm_at_barrier();
}

static void *user(void *data)
{
	unsigned int mine = 0, i;

	storm_random = (unsigned long)data + 1;
	for (;;) {
		pthread_barrier_wait(&storm_gate);
		if (storm_over)
			return NULL;
		for (i = 0; i < OPS_PER_ROUND; i++)
			one_operation(&mine);
		for (; mine; mine--) {
			gives();
			token_tree_rest(&t, draw(topology.nr_queues));
		}
		pthread_barrier_wait(&storm_gate);
	}
}

static int take_all(void)
{
	bool more;
	int n = 0;

	while (token_tree_steal(&t, draw(topology.nr_queues), &more))
		n++;
	return n;
}

static void check_round(void)
{
	int taken, i;

	if (token_tree_nr_free(&t) != t.slots)
		storm_fail("%d tokens, D is %d", token_tree_nr_free(&t), t.slots);
	taken = take_all();
	if (taken < t.slots)
		storm_fail("%d tokens found, D is %d", taken, t.slots);
	for (i = 0; i < taken; i++)
		token_tree_rest(&t, draw(topology.nr_queues));
	taken = take_all();
	if (taken != t.slots)
		storm_fail("%d tokens found again, D is %d", taken, t.slots);
	for (i = 0; i < taken; i++)
		token_tree_rest(&t, draw(topology.nr_queues));
}

static void one_round(void)
{
	unsigned int i;

	resizing = !resizing;
	token_tree_resize(&t, 1 + draw(SLOTS_MAX));
	pthread_barrier_wait(&storm_gate);
	for (i = resizing ? draw(RESIZES_MAX) : 0; i; i--) {
		unsigned int pause = draw(6);

		while (pause--)
			sched_yield();
		token_tree_resize(&t, 1 + draw(draw(2) ? t.slots : SLOTS_MAX));
	}
	pthread_barrier_wait(&storm_gate);
	check_round();
	nr_steps += STORM_THREADS * OPS_PER_ROUND;
}

static void run_shape(const struct shape *shape, double seconds)
{
	struct topology_place place[SHAPE_QUEUES_MAX];

	shape_places(shape, place);
	if (topology_init(&topology, place, shape->nr_queues, GFP_KERNEL) ||
	    token_tree_init(&t, &topology, 3, GFP_KERNEL))
		storm_fail("no memory");
	storm_rounds(seconds, user, one_round);
	token_tree_destroy(&t);
	topology_destroy(&topology);
}

int main(int argc, char **argv)
{
	static const struct shape tried[] = {
		{ "", 1, 1, 1, 1, 1 },
		{ "", 4, 2, 2, 4, 1 },
		{ "", 9, 2, 4, 5, 1 },
	};
	unsigned int i;

	storm_begin(argc, argv, "token_storm", 2);
	for (i = 0; i < sizeof(tried) / sizeof(tried[0]); i++)
		run_shape(&tried[i], storm_seconds / (sizeof(tried) / sizeof(tried[0])));
	return storm_end(nr_steps);
}
