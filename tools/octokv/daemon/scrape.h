/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scrape.h - a page of metrics for Prometheus, over HTTP, at an address of its own
 *
 * One thread, not one of the reactors, answers GET and HEAD of /metrics, and closes the connection.
 * It has SCRAPE_VISITS connections at a time; further ones wait in the kernel. A connection ends
 * after SCRAPE_LIMIT_MS, a request has at most SCRAPE_REQUEST_BYTES. The page is made in memory, of
 * counters that reactors publish anyway, so no reactor waits, and a client that reads slowly holds
 * up nobody. Without memory for it the answer is 503.
 *
 * With many users a page is long, and takes long to make. So all requests within a second get the
 * same one, and within SCRAPE_COST times what it took to make, if that is longer: who asks all the
 * time costs a part of a processor. The thread has a low priority. There are SCRAPE_PAGES pages at
 * most, in the sum of --memory like all else. While clients still read both, others get the newer
 * one, up to SCRAPE_LIMIT_MS old.
 */
#ifndef OKV_SCRAPE_H
#define OKV_SCRAPE_H

#include <pthread.h>

#include "server/server.h"

enum {
	SCRAPE_VISITS		= 8,
	SCRAPE_LIMIT_MS		= 5000,
	SCRAPE_REQUEST_BYTES	= 4096,
	SCRAPE_PAGES		= 2,
	SCRAPE_GOOD_MS		= 1000,
	SCRAPE_COST		= 10,
};

struct scrape_page {
	char *text;			/* NULL: none */
	size_t len;
	uint64_t until_ns;		/* others get it, too, until then */
	uint32_t nr_readers;
};

struct scrape {
	const struct server *server;
	int listen_fd;
	bool is_open;			/* to other machines */
	int stop_fd;
	pthread_t thread;
	pthread_mutex_t rendering;	/* held while it looks at the tenants */
	/* Of the thread. */
	struct scrape_page pages[SCRAPE_PAGES], *newest;
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
