// SPDX-License-Identifier: GPL-2.0
/*
 * sender.c - keys on their way to another node: a connection for each shipment
 *
 * It sends and receives side by side, as the other node may not read on while its answers are not
 * read. What an answer means is in server/cluster/delivery.h.
 *
 * With TLS (secure.h), either direction may have to wait until the socket is ready for the other
 * one. Until hands are shaken nothing is sent.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "secure.h"
#include "sender.h"
#include "server/clock.h"
#include "server/cluster/delivery.h"

enum {
	LOOK_MS		= 100,		/* between looks whether octokvd ends */
	READ_BYTES	= SECURE_RECEIVE_BYTES,
};

static bool stops;			/* atomic */

/**
 * struct way_out - the connection of a shipment
 * @secure:		its ssl is NULL: without TLS
 * @receives_at:	what the socket has to be ready for: POLLIN or POLLOUT
 * @sends_at:		the same
 */
struct way_out {
	struct delivery delivery;
	int fd;
	struct secure secure;
	short receives_at, sends_at;
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

/* ---- TLS ---- */

static bool cut_secure(struct way_out *o, const char *why)
{
	char text[sizeof(o->delivery.s->why)];

	snprintf(text, sizeof(text), "no TLS: %.*s", (int)sizeof(text) - 10, why);
	return cut(o, text);
}

static bool shake_hands(struct way_out *o)
{
	struct secure *secure = &o->secure;
	int one = 1;

	if (!secure_is_on())
		return true;
	/* The last record of the handshake and the first command go one behind the other. */
	setsockopt(o->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!secure_open(secure, o->fd, o->delivery.s->host))
		return cut_secure(o, "no memory");
	for (;;) {
		enum secure_step step = secure_shake_hands(secure);
		short ready;

		if (step != SECURE_WAITS)
			return step == SECURE_DONE || cut_secure(o, secure->why);
		if (!wait_for(o, secure->waits_for, &ready))
			return cut_secure(o, o->delivery.s->why);
	}
}

/* A step that did not fail: @at is what the next one has to wait for, usually @usual. */
static void next_step(const struct way_out *o, enum secure_step step, short usual, short *at)
{
	*at = step == SECURE_WAITS ? o->secure.waits_for : usual;
}

static bool receive_secure(struct way_out *o)
{
	char data[READ_BYTES];
	size_t len = sizeof(data);
	enum secure_step step = secure_receive(&o->secure, data, &len);

	if (step == SECURE_FAILED)
		return cut(o, o->secure.why);
	next_step(o, step, POLLIN, &o->receives_at);
	return step == SECURE_WAITS || delivery_take(&o->delivery, data, len);
}

static bool send_secure(struct way_out *o)
{
	struct delivery *d = &o->delivery;
	size_t len = delivery_may_send(d) - d->nr_sent;
	enum secure_step step = secure_send(&o->secure, d->s->bytes + d->nr_sent, &len);

	if (step == SECURE_FAILED)
		return cut(o, o->secure.why);
	next_step(o, step, POLLOUT, &o->sends_at);
	if (step == SECURE_DONE)
		d->nr_sent += len;
	return true;
}

/* ---- talking ---- */

static bool receive(struct way_out *o)
{
	char data[READ_BYTES];
	ssize_t len;

	if (o->secure.ssl)
		return receive_secure(o);
	len = recv(o->fd, data, sizeof(data), 0);
	if (len > 0)
		return delivery_take(&o->delivery, data, len);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	return cut(o, len ? strerror(errno) : "the connection was closed");
}

static bool send_more(struct way_out *o)
{
	struct delivery *d = &o->delivery;
	ssize_t len;

	if (o->secure.ssl)
		return send_secure(o);
	len = send(o->fd, d->s->bytes + d->nr_sent, delivery_may_send(d) - d->nr_sent,
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

		if (!wait_for(o, o->receives_at | (has_more ? o->sends_at : 0), &ready))
			return;
		/* Also an error. Before that it may have said why it closes the connection. */
		if (ready & (o->receives_at | ~(POLLIN | POLLOUT)) && !receive(o))
			return;
		if (has_more && ready & o->sends_at && !delivery_is_over(d) && !send_more(o))
			return;
	}
}

bool sender_work(struct kv_msg *msg)
{
	struct way_out o = {
		.delivery.s = (struct shipment *)msg, .fd = -1,
		.receives_at = POLLIN, .sends_at = POLLOUT,
	};

	if (find_and_connect(&o) && shake_hands(&o))
		talk(&o);
	delivery_end(&o.delivery);
	secure_close(&o.secure);
	if (o.fd >= 0)
		close(o.fd);
	return false;
}
