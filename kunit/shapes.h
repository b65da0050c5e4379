/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shapes.h - machines to test with, from one queue to a thousand, and numbers that look random
 */
#ifndef MQFAIR_KUNIT_SHAPES_H
#define MQFAIR_KUNIT_SHAPES_H

#include <linux/types.h>

#include "../lib/topology.h"

enum {
	SHAPE_QUEUES_MAX = 1024,
};

/**
 * struct shape - a machine, as a rule that tells where a queue is
 * @name:	for people
 * @nr_queues:	1 to SHAPE_QUEUES_MAX
 * @per_core:	queues that share a core, @per_cache a cache, @per_socket a socket
 * @stride:	neighbours are this far apart in number; has no divisor in common with @nr_queues
 */
struct shape {
	const char *name;
	unsigned int nr_queues;
	unsigned int per_core, per_cache, per_socket;
	unsigned int stride;
};

static const __maybe_unused struct shape shapes[] = {
	{ "1 queue",				1, 1, 1, 1, 1 },
	{ "2 queues, one core",			2, 2, 2, 2, 1 },
	{ "2 queues, two sockets",		2, 1, 1, 1, 1 },
	{ "3 queues, uneven",			3, 2, 2, 2, 1 },
	{ "8 queues, all levels",		8, 2, 4, 8, 1 },
	{ "9 queues, flat",			9, 1, 1, 9, 1 },
	{ "16 queues, scattered over two sockets", 16, 2, 4, 8, 7 },
	{ "37 queues, uneven",			37, 3, 7, 17, 5 },
	{ "64 queues, four sockets",		64, 2, 8, 16, 1 },
	{ "100 queues, flat",			100, 1, 1, 1, 3 },
	{ "257 queues, three sockets",		257, 2, 32, 100, 1 },
	{ "1024 queues, four sockets",		1024, 2, 16, 256, 9 },
};

static inline void shape_places(const struct shape *s, struct topology_place *place)
{
	unsigned int i;

	for (i = 0; i < s->nr_queues; i++) {
		struct topology_place *p = &place[i * s->stride % s->nr_queues];

		p->id[TOPOLOGY_SELF] = i;
		p->id[TOPOLOGY_CORE] = i / s->per_core;
		p->id[TOPOLOGY_CACHE] = i / s->per_cache;
		p->id[TOPOLOGY_SOCKET] = i / s->per_socket;
	}
}

/* The same numbers in every run. */
static inline u32 shape_random(u32 *state)
{
	*state = *state * 1664525U + 1013904223U;
	return *state >> 8;
}

/* 0 to @n - 1 */
static inline u32 shape_random_below(u32 *state, u32 n)
{
	return shape_random(state) % n;
}

#endif /* MQFAIR_KUNIT_SHAPES_H */
