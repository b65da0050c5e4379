// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_worlds.c - random worlds for the simulation of mq-mqfq
 *
 * See sim.h.
 */
#include <linux/limits.h>
#include <linux/minmax.h>

#include "sim.h"

static u64 sim_random(struct simulation *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dULL;
}

u32 sim_draw(struct simulation *s, u32 below)
{
	return ((sim_random(s) >> 32) * below) >> 32;
}

/* From @least to @most, each power of two as likely as the next. */
u64 sim_draw_log(struct simulation *s, unsigned int least_shift, unsigned int most_shift)
{
	u64 base = 1ULL << (least_shift + sim_draw(s, most_shift - least_shift));

	return base + (sim_random(s) & (base - 1));
}

/* Exponentially distributed, roughly: the logarithm to base 2, with a straight line in between. */
u64 sim_draw_gap(struct simulation *s, u32 mean)
{
	u64 x = sim_random(s) | 1;
	unsigned int zeros = 0;

	while (!(x >> 63)) {
		x <<= 1;
		zeros++;
	}
	/* 45426 / 65536 is ln 2. */
	return 1 + (((((u64)zeros << 16) + ((~x << 1) >> 48)) * mean >> 16) * 45426 >> 16);
}

/* ---- mixes ---- */

static u32 sim_draw_weight(struct simulation *s, unsigned int manner)
{
	switch (manner) {
	case 0:
		return FLOW_WEIGHT_DEFAULT;
	case 1:
		return FLOW_WEIGHT_DEFAULT << sim_draw(s, 4);
	case 2:
		return sim_draw(s, 2) ? FLOW_WEIGHT_MIN : FLOW_WEIGHT_MAX;
	default:
		return min_t(u64, sim_draw_log(s, 0, 14), FLOW_WEIGHT_MAX);
	}
}

static void sim_draw_sizes(struct simulation *s, struct sim_flow_mix *f)
{
	static const u16 usual[] = { 1, 8, 8, 8, 32, 128, 256, SIM_SECTORS_MAX };

	f->sizes = SIM_SIZES_RANGE;
	f->least_sectors = usual[sim_draw(s, sizeof(usual) / sizeof(*usual))];
	f->most_sectors = f->least_sectors;
	if (sim_draw(s, 3))
		f->most_sectors += sim_draw(s, SIM_SECTORS_MAX - f->least_sectors + 1);
	if (sim_draw(s, 2))
		f->sizes = SIM_SIZES_EITHER;
}

static u32 sim_draw_queues(struct simulation *s, unsigned int nr_queues)
{
	u32 all = nr_queues == 32 ? U32_MAX : (1U << nr_queues) - 1, queues;

	switch (sim_draw(s, 3)) {
	case 0:
		return all;
	case 1:
		return 1U << sim_draw(s, nr_queues);
	default:
		queues = sim_random(s) & all;
		return queues ? queues : 1;
	}
}

static void sim_draw_flow(struct simulation *s, unsigned int number, unsigned int weights)
{
	struct sim_flow_mix *f = &s->mix.flow[number];
	unsigned int most = min(128U, SIM_REQUESTS_MAX / (2 * s->mix.nr_flows));

	f->weight = sim_draw_weight(s, weights);
	f->queues = sim_draw_queues(s, s->mix.nr_queues);
	/* Closed loops are what keeps a flow backlogged. */
	f->arrival = sim_draw(s, 2) ? SIM_CLOSED : sim_draw(s, SIM_NR_ARRIVALS);
	f->depth = min_t(u64, sim_draw_log(s, 0, 8), most);
	if (!sim_draw(s, 3))
		f->depth = min(s->mix.slots + f->depth, most);
	sim_draw_sizes(s, f);
	f->gap_ticks = SIM_SECTOR_BYTES / 4 * (f->least_sectors + f->most_sectors) *
		       (1 + sim_draw(s, 2 * s->mix.nr_flows));
	f->stays = sim_draw(s, 2);
	f->until = s->mix.nr_requests;
	/* The first two are there all the time; some of the others come, and leave. */
	if (number > 1 && sim_draw(s, 2)) {
		f->from = sim_draw(s, s->mix.nr_requests);
		f->until = f->from + sim_draw(s, s->mix.nr_requests - f->from);
	}
}

/* Like the others, but every flow always has something to send, and none is tiny. */
static void sim_draw_sharer(struct simulation *s, unsigned int number)
{
	struct sim_flow_mix *f = &s->mix.flow[number];

	f->weight = 50 + sim_draw(s, 750);
	f->queues = sim_draw_queues(s, s->mix.nr_queues);
	f->arrival = SIM_CLOSED;
	f->depth = s->mix.slots + 16;
	f->sizes = sim_draw(s, 2) ? SIM_SIZES_RANGE : SIM_SIZES_EITHER;
	f->least_sectors = 8 << sim_draw(s, 4);
	f->most_sectors = 128;
	f->gap_ticks = 1;
	f->until = s->mix.nr_requests;
}

static unsigned int sim_draw_slots(struct simulation *s)
{
	switch (s->mix.kind == SIM_THEOREM_1 ? 0 : 1 + sim_draw(s, 4)) {
	case 0:
		return 1;
	case 1:
		return 2 + sim_draw(s, 3);
	case 4:
		return sim_is_long(s) ? 64 : 32U << sim_draw(s, 4);
	default:
		return 2 + sim_draw(s, 31);
	}
}

static u64 sim_draw_first_vt(struct simulation *s)
{
	switch (sim_draw(s, 4)) {
	case 0:
		return 0;
	case 1:
		/* Signed numbers wrap here. */
		return (1ULL << 63) - sim_draw_log(s, 10, 32);
	default:
		return 0 - sim_draw_log(s, 10, 32);
	}
}

/* A flow is below the root, a place without requests, or another flow. */
static struct sim_node *sim_draw_parent(struct simulation *s, unsigned int number)
{
	struct sim_mix *mix = &s->mix;
	unsigned int first = mix->nr_flows;

	if (number < first && number && !sim_draw(s, 4))
		return &mix->node[sim_draw(s, number)];
	/* The root is the last one; above another place is a later one. */
	if (number >= first)
		first = number + 1;
	return &mix->node[first + sim_draw(s, mix->nr_nodes - first)];
}

static void sim_draw_tree(struct simulation *s, unsigned int weights)
{
	struct sim_mix *mix = &s->mix;
	unsigned int i;

	mix->nr_nodes = mix->nr_flows + 2 + sim_draw(s, SIM_NODES_MAX - SIM_FLOWS_MAX - 2);
	for (i = 0; i < mix->nr_nodes; i++) {
		struct sim_node *n = &mix->node[i];

		n->number = i;
		n->weight = i < mix->nr_flows ? mix->flow[i].weight : sim_draw_weight(s, weights);
		if (i < mix->nr_nodes - 1)
			n->parent = sim_draw_parent(s, i);
	}
}

/* What requests take the device, and of which operation a flow is. */
static void sim_draw_prices(struct simulation *s)
{
	struct sim_mix *mix = &s->mix;
	unsigned int op, i;

	for (op = 0; op < MQFQ_COST_NR_OPS; op++) {
		mix->base_ns[op] = 4000 + sim_draw(s, 16000);
		mix->kib_ns[op] = 200 + sim_draw(s, 1800);
		if (op == MQFQ_COST_FUA)
			mix->base_ns[op] *= 1 + sim_draw(s, 10);
	}
	for (i = 0; i < mix->nr_flows; i++)
		mix->flow[i].op = sim_draw(s, MQFQ_COST_NR_OPS);
}

void sim_draw_mix(struct simulation *s, enum sim_kind kind, u64 seed,
			 unsigned int nr_requests)
{
	struct sim_mix *mix = &s->mix;
	unsigned int weights, i;

	s->random = (seed << 3 | kind) * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 8; i++)
		sim_random(s);
	mix->seed = seed;
	mix->kind = kind;
	mix->nr_requests = nr_requests;
	mix->order = sim_draw(s, SIM_NR_ORDERS);
	mix->nr_queues = sim_draw(s, 4) ? 1 + sim_draw(s, 12) : 1 + sim_draw(s, SIM_QUEUES_MAX);
	mix->nr_flows = sim_draw(s, 3) ? 2 + sim_draw(s, 3) : 2 + sim_draw(s, SIM_FLOWS_MAX - 1);
	mix->slots = sim_draw_slots(s);
	mix->throttle_vt = sim_draw(s, 8) ? sim_draw_log(s, 12, 26) : 0;
	mix->first_vt = sim_draw_first_vt(s);
	mix->wheel.width_shift = 8 + sim_draw(s, 20);
	mix->wheel.buckets_shift = 1 + sim_draw(s, 10);
	for (i = 0; i < SIM_QUEUES_MAX; i++) {
		mix->place[i].id[TOPOLOGY_CORE] = i / 2;
		mix->place[i].id[TOPOLOGY_CACHE] = i / 4;
		mix->place[i].id[TOPOLOGY_SOCKET] = i % 8 / 4;
	}
	if (kind == SIM_CHANGES || kind == SIM_LIVENESS || kind == SIM_TREE)
		mix->change_every = 64 + sim_draw(s, 2000);
	if (sim_is_long(s)) {
		mix->throttle_vt = sim_draw_log(s, 14, 21);
		mix->nr_flows = 2 + sim_draw(s, 4);
	}
	if (kind == SIM_LIVENESS)
		mix->credit_vt = sim_draw(s, 8) ? sim_draw_log(s, 12, 30) : 0;
	weights = sim_draw(s, 4);
	for (i = 0; i < mix->nr_flows; i++) {
		if (sim_is_long(s))
			sim_draw_sharer(s, i);
		else
			sim_draw_flow(s, i, weights);
	}
	if (kind == SIM_TREE)
		sim_draw_tree(s, weights);
	/* In one of four a queue stalls. */
	if (!sim_is_long(s) && !sim_draw(s, 4)) {
		mix->stalled = sim_draw(s, mix->nr_queues);
		mix->stall_ticks = sim_draw_log(s, 20, 27);
		mix->stall_every = mix->stall_ticks * (2 + sim_draw(s, 6));
	}
	if (kind == SIM_TIME)
		sim_draw_prices(s);
	/* In one world of three, some flows discard. The first two do not, but for liveness. */
	if (sim_is_long(s) || sim_draw(s, 3))
		return;
	for (i = kind == SIM_LIVENESS ? 0 : 2; i < mix->nr_flows; i++)
		mix->flow[i].slow = sim_draw(s, 2);
}
