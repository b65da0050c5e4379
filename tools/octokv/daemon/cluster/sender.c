// SPDX-License-Identifier: GPL-2.0
/*
 * sender.c - keys on their way to another node: a connection for each shipment
 *
 * It sends and receives side by side, as the other node may not read on while its answers are not
 * read. What an answer means is in server/cluster/delivery.h.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sender.h"
#include "server/clock.h"
#include "server/cluster/delivery.h"

enum {
	LOOK_MS		= 100,		/* between looks whether octokvd ends */
	READ_BYTES	= 16 << 10,
};

static bool stops;			/* atomic */

struct way_out {
	struct delivery delivery;
	int fd;
};

void sender_stop(void)
{
	__atomic_store_n(&stops, true, __ATOMIC_RELAXED);
}

static bool cut(struct way_out *o, const char *why)
{
	return delivery_cut(&o->delivery, why);
}

/* Waits until the socket is ready. False: the time is over. */
static bool wait_for(struct way_out *o, short events, short *ready)
{
	struct pollfd fd = { .fd = o->fd, .events = events };

	for (;;) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), until_ns = o->delivery.s->until_ns;
		uint64_t left_ms = now_ns < until_ns ? (until_ns - now_ns) / 1000000 : 0;

		if (__atomic_load_n(&stops, __ATOMIC_RELAXED))
			return cut(o, "octokvd ends");
		if (!left_ms)
			return cut(o, "no answer in time");
		if (poll(&fd, 1, left_ms < LOOK_MS ? left_ms : LOOK_MS) > 0)
			break;
	}
	*ready = fd.revents;
	return true;
}

/* ---- connecting ---- */

static bool connect_to(struct way_out *o, const struct addrinfo *at)
{
	int error = 0;
	socklen_t len = sizeof(error);
	short ready;

	o->fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (o->fd < 0)
		return cut(o, strerror(errno));
	if (!connect(o->fd, at->ai_addr, at->ai_addrlen))
		return true;
	if (errno != EINPROGRESS)
		return cut(o, strerror(errno));
	if (!wait_for(o, POLLOUT, &ready))
		return false;
	getsockopt(o->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error ? cut(o, strerror(error)) : true;
}

static bool find_and_connect(struct way_out *o)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	char port[8];
	int error;
	bool is_connected;

	snprintf(port, sizeof(port), "%u", o->delivery.s->port);
	error = getaddrinfo(o->delivery.s->host, port, &hints, &at);
	if (error)
		return cut(o, gai_strerror(error));
	is_connected = connect_to(o, at);
	freeaddrinfo(at);
	return is_connected;
}

/* ---- talking ---- */

static bool receive(struct way_out *o)
{
	char data[READ_BYTES];
	ssize_t len = recv(o->fd, data, sizeof(data), 0);

	if (len > 0)
		return delivery_take(&o->delivery, data, len);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	return cut(o, len ? strerror(errno) : "the connection was closed");
}

static bool send_more(struct way_out *o)
{
	struct delivery *d = &o->delivery;
	ssize_t len = send(o->fd, d->s->bytes + d->nr_sent, delivery_may_send(d) - d->nr_sent,
			   MSG_NOSIGNAL);

	if (len >= 0)
		d->nr_sent += len;
	else if (errno != EAGAIN && errno != EINTR)
		return cut(o, strerror(errno));
	return true;
}

static void talk(struct way_out *o)
{
	const struct delivery *d = &o->delivery;

	while (!delivery_is_over(d)) {
		bool has_more = d->nr_sent < delivery_may_send(d);
		short ready;

		if (!wait_for(o, POLLIN | (has_more ? POLLOUT : 0), &ready))
			return;
		if (ready & POLLOUT && !send_more(o))
			return;
		if (ready & ~POLLOUT && !receive(o))
			return;
	}
}

bool sender_work(struct kv_msg *msg)
{
	struct way_out o = { .delivery.s = (struct shipment *)msg, .fd = -1 };

	if (find_and_connect(&o))
		talk(&o);
	delivery_end(&o.delivery);
	if (o.fd >= 0)
		close(o.fd);
	return false;
}
