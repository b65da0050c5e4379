/* SPDX-License-Identifier: GPL-2.0 */
/*
 * map.h - which octokvd has which slots of a cluster
 *
 * A cluster is several octokvd, the nodes, each with a store of its own. Each key belongs to a slot
 * (store/slot.c), and each slot to one node. Clients that know Redis Cluster ask any node for the
 * map, and send a command to the node of its key. A node answers MOVED, with the right node, if a
 * client's map is old.
 *
 * The map is a file, the same for all nodes: its number first, then a line for each node.
 *
 *	epoch N
 *	ID ADDRESS:PORT [SLOT | FIRST-LAST]...
 *
 * ID is that of the node's store; octokvd --check prints it. A node takes another map, at SIGHUP
 * from the file and at CLUSTER SETMAP from an admin, if the number of that one is greater.
 *
 * Slots move while they are used (CLUSTER SETSLOT). Then a node keeps a map of its own, in a second
 * file beside the first: FILE.ID, with its own ID. That has what the node was told since,
 * a map by SETMAP too, and the slots that are on their way from or to it, in its own line:
 *
 *	[SLOT->-ID] goes to the node ID		[SLOT-<-ID] comes from there
 *
 * Of the two files that with the greater number counts, and FILE.ID if they are equal. In either
 * case slots stay on their way, as far as that fits. FILE itself has none.
 *
 * Each slot that moves makes the number greater by one. FILE.ID says as well from which map on:
 * "epoch N since M". From then on a map that moves slots of this node has to say that it was made
 * of the one of now, by the same words with the number of that. Else a node that had missed a map,
 * and took it after slots had moved, would take these back.
 */
#ifndef OKV_CLUSTER_H
#define OKV_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

enum {
	CLUSTER_NODES_MAX	= 1000,
	CLUSTER_ID_LEN		= 40,	/* hexadecimal digits */
	CLUSTER_HOST_BYTES	= 64,
	CLUSTER_LINE_BYTES	= 1 << 20,
};

struct cluster_node {
	char id[CLUSTER_ID_LEN + 1];
	char host[CLUSTER_HOST_BYTES];
	uint16_t port;
};

/* What a line says of a slot on its way. */
struct cluster_word {
	uint32_t node, slot;		/* of the line */
	bool leaves;
	char other[CLUSTER_ID_LEN + 1];
};

/**
 * struct cluster - the map
 * @since:	slots have moved since the map with this epoch; epoch: none has. Of a map that is
 *		not ours yet: what it was made of; epoch: it does not say so
 * @version:	1 at the start, and another one for each change; not in the file
 * @owner:	of each slot, 1 and the number of its node; 0: none
 * @way:	of each slot that is on its way from us, if it is ours, or to us, 1 and the number
 *		of the other node; 0: it is not
 * @in_doubt:	of slots on their way from us: the other node may have keys that are here, too,
 *		since what became of a MIGRATE is not known
 * @words:	until all lines are read
 */
struct cluster {
	uint64_t epoch, since, version;
	struct cluster_node *nodes;
	uint32_t nr_nodes;
	uint32_t self;
	uint32_t nr_ways;
	uint16_t owner[OKV_NR_SLOTS];
	uint16_t way[OKV_NR_SLOTS];
	bool in_doubt[OKV_NR_SLOTS];
	struct cluster_word *words;
	uint32_t nr_words;
};

/* Slots @first to @last belong to @node, and those around them do not. */
struct cluster_range {
	uint32_t first, last, node;
};

/* The ID of a store with that uuid, of CLUSTER_ID_LEN digits. */
void cluster_id(const uint8_t *uuid, char *id);

/* The map in a file, for the node with this ID; NULL, with a message in @why. */
struct cluster *cluster_load(const char *path, const char *id, char *why, size_t why_bytes);

/* The same for the file that all nodes have: in it, no slots are on their way. */
struct cluster *cluster_load_given(const char *path, const char *id, char *why, size_t why_bytes);

/* The same, from a text that a node was sent. */
struct cluster *cluster_parse(const char *text, size_t len, const char *id, char *why,
			      size_t why_bytes);
void cluster_free(struct cluster *c);

/* Whether it has what only a node's own file says. */
static inline bool cluster_is_own(const struct cluster *c)
{
	return c->nr_ways || c->since != c->epoch;
}

/* The path of a node's own map beside @path; to be freed. */
char *cluster_own_path(const char *path, const char *id);

/*
 * What a node's own file is beside the first: the same, but for slots on their way, or not there;
 * another map, which counts; or an older one with slots on their way, which is to be written again:
 * those that are not on their way now must not be so again at a later start.
 */
enum cluster_own { CLUSTER_OWN_SAME, CLUSTER_OWN_COUNTS, CLUSTER_OWN_OLDER };

/* The map that counts, of those in the two files, with the slots on their way. */
struct cluster *cluster_load_newest(const char *path, const char *id, enum cluster_own *which,
				    char *why, size_t why_bytes);

/*
 * Writes the map to a file, durably and as a whole. Returns 0, or -1 with a message in @why: then
 * it is not known whether a start would find it.
 */
int cluster_save(const struct cluster *c, const char *path, char *why, size_t why_bytes);

struct cluster *cluster_copy(const struct cluster *c);
bool cluster_is_same(const struct cluster *a, const struct cluster *b);

/*
 * Whether a newer map may replace @old: if slots have moved since, it has those of this node where
 * they are, or says that it was made of @old. False, with a sentence in @why.
 */
bool cluster_follows(const struct cluster *c, const struct cluster *old, char *why,
		     size_t why_bytes);

/* The next range at or behind slot *@at, which moves behind it; false: there is none. */
bool cluster_next(const struct cluster *c, uint32_t *at, struct cluster_range *range);

/*
 * All ranges, in the order of their nodes. Behind the last one is one whose node is nr_nodes. To be
 * freed.
 */
struct cluster_range *cluster_ranges(const struct cluster *c);

uint32_t cluster_nr_assigned(const struct cluster *c);
uint32_t cluster_nr_serving(const struct cluster *c);	/* nodes with slots */

/* The number of the node with this ID, of @len digits, or nr_nodes. */
uint32_t cluster_find(const struct cluster *c, const char *id, size_t len);

static inline bool cluster_owns(const struct cluster *c, uint32_t slot)
{
	return c->owner[slot] == c->self + 1;
}

/* What CLUSTER SETSLOT asks for. */
enum cluster_change { CLUSTER_IMPORTING, CLUSTER_MIGRATING, CLUSTER_NODE, CLUSTER_STABLE };

/*
 * Changes what a slot is: true, or false with a sentence in @why, and nothing has changed. That the
 * node still has keys of a slot that it gives away is the caller's to find out before.
 */
bool cluster_change(struct cluster *c, uint32_t slot, enum cluster_change what, uint32_t node,
		    char *why, size_t why_bytes);

/*
 * @c follows @old, and is to replace it. Slots on their way stay so, as far as that fits, and that
 * slots have moved stays known.
 */
void cluster_keep_ways(struct cluster *c, const struct cluster *old);

/* Ends the way of a slot, if it has one, or begins one. */
void cluster_set_way(struct cluster *c, uint32_t slot, uint32_t way);

#endif
