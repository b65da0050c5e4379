/* SPDX-License-Identifier: GPL-2.0 */
/* supervise.h - what the first thread does while the reactors recover and serve */
#ifndef OKV_SUPERVISE_H
#define OKV_SUPERVISE_H

#include "reactor.h"
#include "snapshot.h"

struct scrape;
struct tenants;
struct tls;

/* auto: while the scheduler is one that reads tags. */
enum tags { TAGS_AUTO, TAGS_ON, TAGS_OFF };

/**
 * struct supervisor - see supervise.c
 * @tags:	whether requests carry tags: see supervise_wants_tags()
 * @weights:	the folder of the scheduler that has the users' weights, or NULL
 * @nr_keys:	that users without a limit of their own share
 */
struct supervisor {
	struct reactors *reactors;
	struct tenants *tenants;
	enum tags tags;
	const char *weights;
	uint64_t nr_keys;
	struct scrape *scrape;		/* NULL: there is none */
	struct tls *tls;		/* NULL: there is none */

	struct snapshot snapshot;
	int signal_fd;
	uint32_t period_ms;
	bool reloads, weights_failed, has_no_room;
	uint64_t told_bytes;
};

/* Whether requests are to carry tags: asks the device. */
bool supervise_wants_tags(const struct supervisor *s);

/* Blocks the signals: call it before there are threads. Returns 0, or an errno. */
int supervise_open(struct supervisor *s);

enum supervised { SUPERVISED_SERVES, SUPERVISED_FAILED, SUPERVISED_STOPPED };

/* Waits until the reactors serve or have failed, or until a signal says to end. */
enum supervised supervise_start(struct supervisor *s);

/* Returns when a signal says to end. */
void supervise(struct supervisor *s);

#endif
