/* SPDX-License-Identifier: GPL-2.0 */
/*
 * reactor.h - a worker with a ring: one thread that owns its sockets, its connections and its partitions
 */
#ifndef OKV_REACTOR_H
#define OKV_REACTOR_H

#include "server/server.h"

/* What the reactors of a server have in common. */
struct reactors {
	struct server *server;
	int data_fd;
	const char *failed;		/* why one could not start; set once */
};

/*
 * Starts the threads, which open their partitions and then serve. Returns 0 when all serve, or -1: why is in @failed or was printed.
 */
int reactors_start(struct reactors *rs);

/* No new connections, what is under way is completed, the stores are closed with a checkpoint; then the threads are gone. */
void reactors_stop(struct reactors *rs);


#endif
