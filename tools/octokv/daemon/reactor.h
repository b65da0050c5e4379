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
};

/*
 * Starts the threads, which open their partitions and then serve. Returns 0 when all serve, or -1:
 * the reason is in @failed or was printed.
 */
int reactors_start(struct reactors *rs);

/*
 * Takes no new connections, completes requests under way, closes the stores with a checkpoint, and
 * ends the threads.
 */
void reactors_stop(struct reactors *rs);


#endif
