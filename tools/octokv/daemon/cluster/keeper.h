/* SPDX-License-Identifier: GPL-2.0 */
/*
 * keeper.h - the map of the cluster while octokvd runs: in its file, and in the reactors
 *
 * A change is written to the node's own file first (cluster/map.h). Then all reactors go by it.
 * Two threads make changes, one after the other: that of CLUSTER SETSLOT and SETMAP, and the first
 * at SIGHUP.
 */
#ifndef OKV_KEEPER_H
#define OKV_KEEPER_H

#include "daemon/reactor.h"

struct cluster;

/* The map for the store with that uuid; octokvd ends if there is none. */
struct cluster *keeper_load(const char *path, const uint8_t *uuid);

/* Before the reactors start. */
void keeper_init(struct reactors *rs);

/* Reads the file again. */
void keeper_reload(void);

#endif
