/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.h - a client's connection, without its socket
 *
 * Bytes go in by conn_feed(), replies come out of conn.out. Requests of a connection run side by side; their replies leave in the order of the
 * requests: each waits in a queue until it and all before it are done.
 *
 * What one client can make us hold is bounded. conn_feed() takes no more input (conn_wants_input() is false) while many requests are
 * under way or much output waits, so that a client that never reads stops being read, and conn_tick() closes it when
 * nothing has moved for the stall timeout. A client whose values are large has fewer operations under way, whatever the number of its requests;
 * how large a value is shows when it has been read, so a client that asks for large ones all of a sudden has CONN_MAX_FLYING of them once (1 GiB; a
 * bound on the tenant's requests bounds it). To wait for room only then would be to wait with the key's lock, and for replies behind one's own.
 */
#ifndef OKV_CONN_H
#define OKV_CONN_H

#include "resp.h"
#include "server.h"

struct request;

enum {
	CONN_MAX_REQUESTS	= 128,
	CONN_MAX_FLYING		= 128,
	CONN_MAX_VALUES_BYTES	= 8 << 20,	/* the number of requests, or operations, times the largest recent value */
	CONN_FIRST_VALUE_BYTES	= 256 << 10,	/* what is assumed of a client that is new */
	CONN_MAX_OUTPUT_BYTES	= 1 << 20,
	CONN_MAX_COMMAND_BYTES	= 1 << 20,	/* of all requests under way, with their operations; the last one may be larger */
	CONN_NAME_BYTES		= 64,
};

struct conn {
	struct worker *worker;
	struct conn *next, *prev;		/* all of the worker */
	struct resp_parser parser;
	struct resp_out out;
	struct tenant *tenant;			/* NULL: not authenticated */
	struct request *first, *last;		/* in the order of their replies */
	uint32_t nr_requests;
	uint32_t nr_flying;			/* operations of all requests */
	uint64_t command_bytes;
	uint64_t reply_bytes;			/* values that wait for the replies before them */
	uint32_t value_bytes;			/* the largest recent value */
	uint32_t nr_wrong_passwords;
	bool closing;				/* takes no input; to be closed when the output is sent */
	bool dead;				/* the socket is gone */
	bool parked;				/* the tenant's bound on requests is reached */
	bool feeding;
	uint64_t id;
	uint64_t since_ns;
	uint64_t moved_ns;			/* when input or output last moved */
	char name[CONN_NAME_BYTES];
	char library[CONN_NAME_BYTES];
};

void conn_init(struct conn *c, struct worker *w);

/* The socket is gone: the connection is freed, by worker.freed(), when its last request is done; perhaps at once. */
void conn_kill(struct conn *c);

/* Takes input; returns how much. Less than @len: conn_wants_input() is false, or the connection is closing. */
size_t conn_feed(struct conn *c, const char *data, size_t len);
bool conn_wants_input(const struct conn *c);

/* Whether another operation may be sent to the store; one always may. */
static inline bool conn_may_fly(const struct conn *c)
{
	return !c->nr_flying || (c->nr_flying < CONN_MAX_FLYING && (uint64_t)c->nr_flying * c->value_bytes < CONN_MAX_VALUES_BYTES);
}

/* An operation is back, which held @held_bytes of a value; @reply_bytes of them are for the reply. */
void conn_landed(struct conn *c, uint32_t held_bytes, uint32_t reply_bytes);

/* All of a request's operations are on their way: the next request may begin. */
void conn_may_want_input(struct conn *c);

/* @nr_bytes of the output were sent. */
void conn_sent(struct conn *c, size_t nr_bytes);

/* All is said and done: the socket can be closed. */
static inline bool conn_finished(const struct conn *c)
{
	return c->closing && !c->out.nr_bytes && !c->nr_requests;
}

/* True if it has been still for too long, and is to be closed now. */
bool conn_overdue(const struct conn *c, uint64_t now_ns);

/* A reply is complete: it and those that waited for it go to the output. */
void conn_request_done(struct conn *c);

#endif
