/* SPDX-License-Identifier: GPL-2.0 */
/*
 * multi.h - transactions: what a connection keeps between WATCH, MULTI and EXEC
 *
 * Between MULTI and EXEC commands are only kept. EXEC sends all of them as one message to the owner
 * of their keys, which have to be in one partition: they run there in one step (store.h).
 */
#ifndef OKV_MULTI_H
#define OKV_MULTI_H

#include "client.h"

struct request;

enum {
	MULTI_MAX_COMMANDS	= 1024,
	MULTI_MAX_KEYS		= 1024,
	MULTI_MAX_BYTES		= 32 << 20,	/* of the commands */
	MULTI_MAX_REPLY_BYTES	= 64 << 20,
	MULTI_MAX_FRESH_BYTES	= 64 << 20,	/* of values that its commands make */
};

/* Keeps the command of @r, which is answered. */
void multi_keep(struct request *r);

/*
 * Runs the command of @r as a transaction of its own, in which start() makes its operations. If
 * that cannot be one step, nothing has happened, and @otherwise() takes the request; without it the
 * request is refused.
 */
void multi_run(struct request *r, void (*otherwise)(struct request *r));

/* A command could not be kept: EXEC will refuse all. */
void multi_spoil(struct conn *c);

static inline bool multi_is_open(const struct conn *c)
{
	return c->multi_is_open;
}

/* Forgets what was kept, and what is watched. */
void multi_forget(struct conn *c);

#endif
