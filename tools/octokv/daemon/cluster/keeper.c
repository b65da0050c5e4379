// SPDX-License-Identifier: GPL-2.0
/* keeper.c - see keeper.h */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cluster/map.h"
#include "daemon/data.h"
#include "daemon/log.h"
#include "keeper.h"
#include "server/cluster/slots.h"
#include "server/cluster/way.h"
#include "store/mem.h"

static struct {
	struct reactors *reactors;
	pthread_mutex_t changing;
} keeper = { .changing = PTHREAD_MUTEX_INITIALIZER };

static bool save(const char *path, const struct cluster *c, char *why, size_t why_bytes)
{
	char *own_path = cluster_own_path(path, c->nodes[c->self].id);
	int error = cluster_save(c, own_path, why, why_bytes);

	mem_free(own_path);
	return !error;
}

struct cluster *keeper_load(const char *path, const uint8_t *uuid)
{
	char id[CLUSTER_ID_LEN + 1], why[512];
	enum cluster_own which;
	struct cluster *map;

	cluster_id(uuid, id);
	map = cluster_load_newest(path, id, &which, why, sizeof(why));
	if (!map)
		die("%s", why);
	if (which == CLUSTER_OWN_COUNTS)
		fprintf(stderr, "octokvd: the map of the cluster is that of %s.%s: epoch %llu\n",
			path, id, (unsigned long long)map->epoch);
	if (which == CLUSTER_OWN_OLDER && !save(path, map, why, sizeof(why)))
		die("%s", why);
	return map;
}

/* ---- changes ---- */

struct swap {
	struct cluster **at, *map;
};

/* While the reactors wait: what is in doubt may have changed until now. */
static void swap(void *owner)
{
	struct swap *swap = owner;
	struct cluster *old = *swap->at, *fresh = swap->map;

	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++)
		fresh->in_doubt[slot] |= old->in_doubt[slot] && old->way[slot] && fresh->way[slot];
	*swap->at = fresh;
	swap->map = old;
}

/* Makes @fresh the map; the other one is freed. False: octokvd ends. */
static bool replace(struct cluster *fresh)
{
	struct server *s = keeper.reactors->server;
	struct swap map = { .at = &s->cluster, .map = fresh };
	bool is_done = reactors_pause(keeper.reactors, swap, &map);

	cluster_free(map.map);
	return is_done;
}

/* Before @fresh becomes the map. False: it does not, and a start is to find the one of now. */
static bool keep(const char *path, const struct cluster *fresh, char *why, size_t why_bytes)
{
	char again[200];

	if (save(path, fresh, why, why_bytes))
		return true;
	if (!save(path, keeper.reactors->server->cluster, again, sizeof(again)))
		log_say(LOG_CLUSTER, "a start may find another map than that of now: %s", again);
	return false;
}

static void change(struct slot_order *o)
{
	struct server *s = keeper.reactors->server;
	struct cluster *fresh = slot_order_apply(o, s);
	char why[200];

	if (!fresh)
		return;
	o->is_good = keep(s->config.cluster, fresh, why, sizeof(why));
	if (!o->is_good) {
		cluster_free(fresh);
		snprintf(o->why, sizeof(o->why), "ERR the map cannot be kept: %s", why);
	} else if (!replace(fresh)) {
		o->is_good = false;
		snprintf(o->why, sizeof(o->why), "TRYAGAIN octokvd ends");
	}
	way_change_end(s);
}

/* In the thread of CLUSTER SETSLOT and SETMAP. */
static bool work(struct kv_msg *msg)
{
	pthread_mutex_lock(&keeper.changing);
	change((struct slot_order *)msg);
	pthread_mutex_unlock(&keeper.changing);
	return false;
}

void keeper_init(struct reactors *rs)
{
	static struct way_use use;

	keeper.reactors = rs;
	rs->server->way_use = &use;
	rs->keep = work;
}

/* ---- the file ---- */

static void take(struct cluster *fresh, const char *path)
{
	struct server *s = keeper.reactors->server;
	uint32_t nr_nodes = fresh->nr_nodes;
	uint64_t epoch = fresh->epoch;
	char why[200];

	if (!cluster_follows(fresh, s->cluster, why, sizeof(why))) {
		log_say(LOG_CLUSTER, "the map of the cluster stays as it is: %s: %s", path, why);
		cluster_free(fresh);
		return;
	}
	cluster_keep_ways(fresh, s->cluster);
	if (!way_change_begin(s, fresh, why, sizeof(why))) {
		log_say(LOG_CLUSTER, "the map of the cluster stays as it is: %s", why);
		cluster_free(fresh);
		return;
	}
	/* Also what has ended: a start is not to find it. */
	if ((cluster_is_own(fresh) || cluster_is_own(s->cluster)) &&
	    !keep(path, fresh, why, sizeof(why))) {
		log_say(LOG_CLUSTER, "the map of the cluster stays as it is: %s", why);
		cluster_free(fresh);
	} else if (replace(fresh)) {
		log_say(LOG_CLUSTER, "%s was read again: epoch %llu, %u nodes", path,
			(unsigned long long)epoch, nr_nodes);
	}
	way_change_end(s);
}

void keeper_reload(void)
{
	struct server *s = keeper.reactors->server;
	const char *path = s->config.cluster;
	const struct cluster *old;
	struct cluster *fresh;
	char why[512];

	pthread_mutex_lock(&keeper.changing);
	old = s->cluster;
	fresh = cluster_load_given(path, old->nodes[old->self].id, why, sizeof(why));
	if (fresh && fresh->epoch > old->epoch) {
		take(fresh, path);
		fresh = NULL;
	} else if (!fresh) {
		log_say(LOG_CLUSTER, "the map of the cluster stays as it is: %s", why);
	} else if (!cluster_is_same(fresh, old)) {
		log_say(LOG_CLUSTER, "the map of the cluster stays as it is: the epoch of %s is "
			"%llu, not above %llu", path, (unsigned long long)fresh->epoch,
			(unsigned long long)old->epoch);
	}
	cluster_free(fresh);
	pthread_mutex_unlock(&keeper.changing);
}
