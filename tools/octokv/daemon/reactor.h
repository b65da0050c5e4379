/* SPDX-License-Identifier: GPL-2.0 */
/* reactor.h - a worker with a ring: one thread that owns sockets, connections and partitions */
#ifndef OKV_REACTOR_H
#define OKV_REACTOR_H

#include "server/server.h"

/* What the reactors of a server share. */
struct reactors {
	struct server *server;
	int data_fd;
	const char *failed;		/* why a reactor could not start; set once */
	bool (*keep)(struct kv_msg *msg);	/* changes the map of a cluster: cluster/keeper.h */
};

/* Starts the threads, which open their partitions and then serve. */
void reactors_start(struct reactors *rs);

/*
 * Becomes readable when all serve, or when all have ended because one could not start, for the
 * reason in @failed.
 */
int reactors_fd(const struct reactors *rs);

/* How much has been recovered so far, and of how much that is known so far. */
void reactors_progress(const struct reactors *rs, uint64_t *done_bytes, uint64_t *all_bytes);

/* For another thread that sends to the ring of a reactor, while that serves. */
int reactors_ring_fd(const struct reactors *rs, uint32_t id);

/* All reactors have gone round not long ago. */
bool reactors_are_alive(const struct reactors *rs);

/*
 * Stops all reactors between two rounds, calls @change, if there is one, and lets them go on. They
 * end the connections of users that are gone, and believe the clock.
 */
void reactors_change(struct reactors *rs, void (*change)(void *owner), void *owner);

/*
 * The same, but what they know of users and the clock stays as it is. Any thread may call these.
 * False: they are being stopped, and nothing has changed.
 */
bool reactors_pause(struct reactors *rs, void (*change)(void *owner), void *owner);

/*
 * Takes no new connections, completes requests under way, closes the stores with a checkpoint, and
 * ends the threads.
 */
void reactors_stop(struct reactors *rs);

/* After a start that failed. */
void reactors_free(struct reactors *rs);

#endif
