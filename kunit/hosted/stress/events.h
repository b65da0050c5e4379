/* SPDX-License-Identifier: GPL-2.0 */
/*
 * events.h - what happens next in a simulated machine, and chance that a run repeats
 *
 * Of two events at the same time, the one that was pushed first comes first. The file that includes
 * this says by EVENTS_MAX how many there can be.
 */
#ifndef MQFAIR_EVENTS_H
#define MQFAIR_EVENTS_H

#include <stdlib.h>

#define EVENTS_RANDOM	0x9e3779b97f4a7c15ULL

struct event {
	u64 at, sequence;
	unsigned int kind, number;
};

struct events {
	struct event heap[EVENTS_MAX];
	unsigned int nr;
	u64 sequence;
};

static bool events_is_before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->sequence < b->sequence);
}

static void events_push(struct events *e, u64 at, unsigned int kind, unsigned int number)
{
	struct event event = { at, e->sequence++, kind, number };
	unsigned int i = e->nr++;

	if (e->nr > EVENTS_MAX)
		abort();
	for (; i && events_is_before(&event, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		e->heap[i] = e->heap[(i - 1) / 2];
	e->heap[i] = event;
}

static struct event events_pop(struct events *e)
{
	struct event first = e->heap[0], last = e->heap[--e->nr];
	unsigned int i = 0, child;

	while ((child = 2 * i + 1) < e->nr) {
		if (child + 1 < e->nr && events_is_before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!events_is_before(&e->heap[child], &last))
			break;
		e->heap[i] = e->heap[child];
		i = child;
	}
	e->heap[i] = last;
	return first;
}

/* Any number below @below. */
static u64 events_draw(u64 *random, u64 below)
{
	*random ^= *random >> 12;
	*random ^= *random << 25;
	*random ^= *random >> 27;
	return ((*random * 0x2545f4914f6cdd1dULL) >> 32) * below >> 32;
}

#endif /* MQFAIR_EVENTS_H */
