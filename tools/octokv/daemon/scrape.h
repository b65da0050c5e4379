/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scrape.h - a page of metrics for Prometheus, over HTTP, at an address of its own
 *
 * One thread, not one of the reactors, answers GET and HEAD of /metrics, and closes the connection.
 * It has SCRAPE_VISITS connections at a time; further ones wait in the kernel. A connection ends
 * after SCRAPE_LIMIT_MS, a request has at most SCRAPE_REQUEST_BYTES. The page is made in memory, of
 * counters that reactors publish anyway, so no reactor waits, and a client that reads slowly holds
 * up nobody. Without memory for it the answer is 503.
 */
#ifndef OKV_SCRAPE_H
#define OKV_SCRAPE_H

#include <pthread.h>

#include "server/server.h"

enum { SCRAPE_VISITS = 8, SCRAPE_LIMIT_MS = 5000, SCRAPE_REQUEST_BYTES = 4096 };

struct scrape {
	const struct server *server;
	int listen_fd;
	bool is_open;			/* to other machines */
	int stop_fd;
	pthread_t thread;
	pthread_mutex_t rendering;	/* held while it looks at the tenants */
};

/*
 * @address is PORT, for 127.0.0.1, or ADDRESS:PORT, or [ADDRESS]:PORT. Returns 0, or -1 with a
 * message in @why.
 */
int scrape_listen(struct scrape *s, const char *address, char *why, size_t why_bytes);

/* The workers are there. Returns 0, or an errno. */
int scrape_start(struct scrape *s, const struct server *server);

/* While it is paused, it does not look at tenants. */
void scrape_pause(struct scrape *s, bool pause);
void scrape_stop(struct scrape *s);

#endif
