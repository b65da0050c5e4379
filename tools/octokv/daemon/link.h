/* SPDX-License-Identifier: GPL-2.0 */
/*
 * link.h - a connection's socket on a reactor's ring
 *
 * A link has at most one receive and one send under way. It receives only while its connection
 * wants input. Input beyond that is kept in link.rest, at most one receive buffer of it, and the
 * buffer goes back to the ring at once. So clients that do not read cannot hold the buffers of
 * those that do.
 *
 * The kernel encrypts and decrypts for a link with TLS (tls/tls.h). A receive fails with EIO, again
 * and again, at a record that is not data: the client says that it sends no more, or something that
 * octokvd does not do, such as new keys. Both are taken as the end of its input.
 */
#ifndef OKV_LINK_H
#define OKV_LINK_H

#include <stdalign.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "server/conn.h"
#include "device/ring.h"

enum {
	RECV_BUFFERS		= 256,
	RECV_BUFFER_BYTES	= 32 << 10,
	RECV_GROUP		= 0,
	SEND_IOVECS		= 32,
	ACCEPT_RETRY_NS		= 100000000,
	/* Of silence; then the kernel asks whether the peer is still there. */
	KEEPALIVE_S		= 300,
};

struct link {
	struct conn conn;
	int fd;
	bool receiving;
	bool has_more;			/* more lay there when the last receive was done */
	bool sending;
	bool ending;
	uint64_t sent_ns;		/* when the last send began */
	bool said_all;			/* the client has closed its end */
	bool is_tls;
	bool said_end;			/* of TLS: the client knows that no more comes */
	bool queued;			/* in the list of links with work to do */
	struct link *next_ready;
	char *rest;
	uint32_t rest_len, rest_used;
	struct msghdr msg;
	struct iovec iov[SEND_IOVECS];
};

/* A socket that listens, for a reactor. */
struct listener {
	alignas(8) int fd;		/* -1: none */
	bool accepting;
};

enum { NR_LISTENERS = 2 };		/* an address, and a path */

/* The part of a reactor that links need. */
struct net {
	struct io_uring *ring;
	struct worker *worker;
	struct io_uring_buf_ring *buf_ring;
	char *buffers;
	struct link *ready;
	struct link **ready_tail;
	struct listener listeners[NR_LISTENERS];
	bool stopping;
	uint64_t accept_again_ns;
	uint32_t nr_handed;		/* connections on their way to other workers */
};

/* @listen_fds has NR_LISTENERS. Returns 0, or a negative errno. */
int net_open(struct net *net, struct io_uring *ring, struct worker *worker, const int *listen_fds);
void net_close(struct net *net);

void net_ready(struct net *net, struct link *link);
void net_freed(struct link *link);

/* Ends it now. */
void net_end(struct link *link);
void net_accept(struct net *net);

/* Listen no more. */
void net_stop_listening(struct net *net);
void net_complete(struct net *net, uint64_t user_data, int result, uint32_t flags);

/* Sends, receives and feeds for all links that are ready. */
void net_run(struct net *net);

/* Ends links that are still for too long. To be called some times a second. */
void net_tick(struct net *net);
void net_end_all(struct net *net);

/* octokvd ends, and the link still holds replies that may arrive. */
bool net_holds(const struct net *net, struct link *link);

/* Ends the links of users that are no more. */
void net_end_gone(struct net *net);

#endif
