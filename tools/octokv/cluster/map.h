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
 * ID is that of the node's store; octokvd --check prints it. A node takes another map at SIGHUP,
 * if the number of that one is greater.
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
	CLUSTER_LINE_BYTES	= 64 << 10,
};

struct cluster_node {
	char id[CLUSTER_ID_LEN + 1];
	char host[CLUSTER_HOST_BYTES];
	uint16_t port;
};

/* @nr_serving: nodes with slots. @owner: of each slot, 1 and the number of its node; 0: none */
struct cluster {
	uint64_t epoch;
	struct cluster_node *nodes;
	uint32_t nr_nodes, nr_serving;
	uint32_t self;
	uint16_t owner[OKV_NR_SLOTS];
};

/* Slots @first to @last belong to @node, and those around them do not. */
struct cluster_range {
	uint32_t first, last, node;
};

/* The ID of a store with that uuid, of CLUSTER_ID_LEN digits. */
void cluster_id(const uint8_t *uuid, char *id);

/* The map in a file, for the node with this ID; NULL, with a message in @why. */
struct cluster *cluster_load(const char *path, const char *id, char *why, size_t why_bytes);
void cluster_free(struct cluster *c);
bool cluster_is_same(const struct cluster *a, const struct cluster *b);

/* The next range at or behind slot *@at, which moves behind it; false: there is none. */
bool cluster_next(const struct cluster *c, uint32_t *at, struct cluster_range *range);

uint32_t cluster_nr_assigned(const struct cluster *c);

#endif
