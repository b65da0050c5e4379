/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.h - a client's connection, without its socket
 *
 * Bytes go in by conn_feed(), replies come out of conn.out. Requests of a connection run side by
 * side. Their replies leave in the order of the requests: each waits in a queue until it and all
 * before it are done.
 *
 * What one client can make us hold is bounded. conn_feed() takes no more input (conn_wants_input()
 * is false) while many requests are under way or much output waits. So a client that never reads is
 * no longer read, and conn_overdue() says that it can be closed when nothing has moved for the
 * stall timeout.
 *
 * A client with large values has fewer operations under way, whatever the number of its requests.
 * How large a value is shows only when it has been read. So a client that suddenly asks for large
 * values has CONN_MAX_FLYING of them once (1 GiB; a bound on the tenant's requests bounds it). To
 * wait for room only then would mean to wait with the key's lock, and for replies behind one's own.
 */
#ifndef OKV_CONN_H
#define OKV_CONN_H

#include "client.h"

void conn_init(struct conn *c, struct worker *w);

/*
 * The socket is gone. worker.freed() frees the connection when its last request is done, perhaps at
 * once.
 */
void conn_kill(struct conn *c);

/*
 * Takes input; returns how much. If less than @len, conn_wants_input() is false, or the connection
 * is closing.
 */
size_t conn_feed(struct conn *c, const char *data, size_t len);
bool conn_wants_input(const struct conn *c);

/* @nr_bytes of the output were sent. */
void conn_sent(struct conn *c, size_t nr_bytes);

/* Nothing is left to do or to send: the socket can be closed. */
static inline bool conn_finished(const struct conn *c)
{
	return c->closing && !c->out.nr_bytes && !c->nr_requests;
}

/* True if nothing has moved for too long, and the connection is to be closed now. */
bool conn_overdue(const struct conn *c, uint64_t now_ns);

#endif
