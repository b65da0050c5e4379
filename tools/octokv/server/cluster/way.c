// SPDX-License-Identifier: GPL-2.0
/* way.c - keys of slots on their way: see way.h */
#include <stdio.h>

#include "way.h"

/* ---- what the map says ---- */

enum way way_of(const struct server *s, int32_t slot, bool asking)
{
	const struct cluster *c = s->cluster;

	if (slot < 0)
		return WAY_NONE;
	if (cluster_owns(c, slot))
		return c->way[slot] ? WAY_LEAVES : WAY_NONE;
	return c->way[slot] && asking ? WAY_COMES : WAY_ELSEWHERE;
}

bool way_is_in_doubt(const struct server *s, int32_t slot)
{
	return slot >= 0 && __atomic_load_n(&s->cluster->in_doubt[slot], __ATOMIC_RELAXED);
}

/* ---- keys that are locked ---- */

static bool has_key(const struct leaving *l, uint64_t hash)
{
	uint32_t i = 0;

	while (i < l->nr_keys && l->keys[i].hash != hash)
		i++;
	return i < l->nr_keys;
}

bool way_waits(struct worker *w, struct kv_msg *msg, uint64_t hash)
{
	struct leaving *l = w->locked;

	while (l && !has_key(l, hash))
		l = l->next;
	if (!l)
		return false;
	msg->next = NULL;
	if (l->last)
		l->last->next = msg;
	else
		l->first = msg;
	l->last = msg;
	return true;
}

void way_lock(struct worker *w, struct leaving *l)
{
	l->next = w->locked;
	w->locked = l;
	w->routes[l->partition].nr_jobs++;
}

void way_unlock(struct worker *w, struct leaving *l)
{
	struct leaving **at = &w->locked;
	struct kv_msg *msg = l->first;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	w->routes[l->partition].nr_jobs--;
	while (msg) {
		struct kv_msg *next = msg->next;

		msg->run(w, msg);
		msg = next;
	}
}

/* ---- what is under way ---- */

uint8_t way_begin(struct worker *w)
{
	w->nr_running[w->turn]++;
	return w->turn;
}

void way_end(struct worker *w, uint8_t turn)
{
	struct kv_msg *msg = w->drain;

	if (--w->nr_running[turn] || !msg || turn == w->turn)
		return;
	w->drain = NULL;
	worker_return(w, msg);
}

void way_drain(struct worker *w, struct kv_msg *msg)
{
	/* One after the other. */
	if (w->drain) {
		msg->run = way_drain;
		w->post(w, msg, w->id);
		return;
	}
	w->turn = !w->turn;
	if (w->nr_running[!w->turn])
		w->drain = msg;
	else
		worker_return(w, msg);
}

/* ---- at home ---- */

void way_redirect(const struct server *s, uint32_t slot, bool asking, bool none_is_here,
		  char *text, size_t bytes)
{
	const struct cluster *c = s->cluster;
	uint32_t owner = c->owner[slot], other = c->way[slot];
	bool owns = cluster_owns(c, slot), asks = owns && other && none_is_here;
	const struct cluster_node *node = NULL;

	if (asks)
		node = &c->nodes[other - 1];
	else if (owner && !owns && !(other && asking))
		node = &c->nodes[owner - 1];
	if (node)
		snprintf(text, bytes, "%s %u %s:%u", asks ? "ASK" : "MOVED", slot, node->host,
			 node->port);
	else if (owner)
		snprintf(text, bytes, "TRYAGAIN the slot moves: not all of these keys are here");
	else
		snprintf(text, bytes, "CLUSTERDOWN Hash slot not served");
}
