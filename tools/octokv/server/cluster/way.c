// SPDX-License-Identifier: GPL-2.0
/* way.c - keys of slots on their way: see way.h */
#include <stdio.h>
#include <string.h>

#include "way.h"

enum { SHIPMENT_SHIFT = 20 };		/* so many bits of a number are below the milliseconds */

/* ---- what the map says ---- */

bool way_is_in_doubt(const struct server *s, int32_t slot)
{
	return slot >= 0 && __atomic_load_n(&s->cluster->in_doubt[slot], __ATOMIC_RELAXED);
}

/* ---- keys that are locked ---- */

/* They are in the order of their hashes. */
static bool has_key(const struct leaving *l, uint64_t hash)
{
	uint32_t from = 0, to = l->nr_keys;

	while (from < to) {
		uint32_t middle = (from + to) / 2;

		if (l->keys[middle].hash < hash)
			from = middle + 1;
		else
			to = middle;
	}
	return from < l->nr_keys && l->keys[from].hash == hash;
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
	struct kv_msg *msg = w->drain, *next;

	if (--w->nr_running[turn] || !msg || turn == w->turn)
		return;
	next = msg->next;
	w->drain = NULL;
	worker_return(w, msg);
	while (next) {
		msg = next;
		next = msg->next;
		way_drain(w, msg);
	}
}

void way_drain(struct worker *w, struct kv_msg *msg)
{
	struct kv_msg **at = &w->drain;
	bool is_first = !w->drain;

	if (is_first)
		w->turn = !w->turn;
	if (is_first && !w->nr_running[!w->turn]) {
		worker_return(w, msg);
		return;
	}
	/* One after the other. */
	while (*at)
		at = &(*at)->next;
	msg->next = NULL;
	*at = msg;
}

/* ---- changes of the map ---- */

static bool goes_on(const struct cluster *c, const struct cluster *old, uint32_t slot)
{
	return cluster_owns(c, slot) && c->way[slot] &&
	       !strcmp(c->nodes[c->way[slot] - 1].id, old->nodes[old->way[slot] - 1].id);
}

/* A slot with a way to be ended; false: MIGRATE has keys of it. */
static bool end_way(struct way_use *use, uint32_t slot)
{
	__atomic_store_n(&use->slots[slot].ends, true, __ATOMIC_SEQ_CST);
	return !__atomic_load_n(&use->slots[slot].nr_migrates, __ATOMIC_SEQ_CST);
}

/* NULL, or why the map cannot change now. */
static const char *begin_change(struct server *s, const struct cluster *fresh, uint32_t *slot)
{
	const struct cluster *old = s->cluster;
	struct way_use *use = s->way_use;
	bool flushes;

	__atomic_store_n(&use->changes, true, __ATOMIC_SEQ_CST);
	flushes = __atomic_load_n(&use->nr_flushes, __ATOMIC_SEQ_CST);
	for (*slot = 0; *slot < OKV_NR_SLOTS; ++*slot) {
		bool comes = cluster_owns(fresh, *slot) && !cluster_owns(old, *slot);
		bool begins = fresh->way[*slot] && !old->way[*slot];

		if (cluster_owns(old, *slot) && old->way[*slot] && !goes_on(fresh, old, *slot) &&
		    !end_way(use, *slot))
			return "TRYAGAIN slot %u has keys on their way: wait for MIGRATE";
		if (flushes && (comes || begins))
			return "TRYAGAIN slot %u cannot come or go now: wait for FLUSHALL";
	}
	return NULL;
}

bool way_change_begin(struct server *s, const struct cluster *fresh, char *why, size_t why_bytes)
{
	uint32_t slot;
	const char *wrong = begin_change(s, fresh, &slot);

	if (!wrong)
		return true;
	way_change_end(s);
	snprintf(why, why_bytes, wrong, slot);
	return false;
}

void way_change_end(struct server *s)
{
	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++)
		__atomic_store_n(&s->way_use->slots[slot].ends, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->way_use->changes, false, __ATOMIC_SEQ_CST);
}

static bool begin_use(uint32_t *nr, const bool *stops)
{
	__atomic_add_fetch(nr, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(stops, __ATOMIC_SEQ_CST))
		return true;
	__atomic_sub_fetch(nr, 1, __ATOMIC_SEQ_CST);
	return false;
}

bool way_migrate_begin(struct server *s, uint32_t slot)
{
	return begin_use(&s->way_use->slots[slot].nr_migrates, &s->way_use->slots[slot].ends);
}

void way_migrate_end(struct server *s, uint32_t slot)
{
	__atomic_sub_fetch(&s->way_use->slots[slot].nr_migrates, 1, __ATOMIC_SEQ_CST);
}

bool way_flush_begin(struct server *s)
{
	return !s->cluster || begin_use(&s->way_use->nr_flushes, &s->way_use->changes);
}

void way_flush_end(struct server *s)
{
	if (s->cluster)
		__atomic_sub_fetch(&s->way_use->nr_flushes, 1, __ATOMIC_SEQ_CST);
}

/* ---- shipments ---- */

uint64_t way_next_shipment(struct server *s, uint64_t now_ms)
{
	uint64_t *at = &s->way_use->last_shipment, last = __atomic_load_n(at, __ATOMIC_RELAXED);
	uint64_t least = now_ms << SHIPMENT_SHIFT, next;

	do {
		next = last < least ? least : last + 1;
	} while (!__atomic_compare_exchange_n(at, &last, next, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return next;
}

bool way_takes_shipment(struct server *s, uint32_t slot, const char *source, uint64_t shipment)
{
	const struct cluster *c = s->cluster;
	uint64_t *last = &s->way_use->slots[slot].shipment;
	char *from = s->way_use->slots[slot].source;

	if (cluster_owns(c, slot) || !c->way[slot] ||
	    memcmp(c->nodes[c->way[slot] - 1].id, source, CLUSTER_ID_LEN))
		return false;
	if (!memcmp(from, source, CLUSTER_ID_LEN) && shipment < *last)
		return false;
	memcpy(from, source, CLUSTER_ID_LEN);
	*last = shipment;
	return true;
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
