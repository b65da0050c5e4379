// SPDX-License-Identifier: GPL-2.0
/*
 * sender.c - keys on their way to another node: a connection for each shipment
 *
 * It sends and receives side by side, as the other node may not read on while its answers are not
 * read. Each key is answered by a line: +OK, or an error. When an answer stays out, nothing is
 * known of the keys that are not answered yet. The first command, AUTH or PING, is answered before
 * a key is sent: if the other node refuses us, it is known that it has none.
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
#include "server/cluster/slots.h"

enum {
	LOOK_MS		= 100,		/* between looks whether octokvd ends */
	LINE_BYTES	= 256,		/* kept of an answer */
	READ_BYTES	= 16 << 10,
};

static bool stops;			/* atomic */

struct way_out {
	struct shipment *s;
	int fd;
	size_t nr_sent;
	uint32_t nr_lines;		/* that were answered */
	bool is_refused;		/* the first one was */
	uint32_t line_len;
	char line[LINE_BYTES];
};

void sender_stop(void)
{
	__atomic_store_n(&stops, true, __ATOMIC_RELAXED);
}

static bool cut(struct way_out *o, const char *why)
{
	o->s->is_cut = true;
	snprintf(o->s->why, sizeof(o->s->why), "%s", why);
	return false;
}

/* Waits until the socket is ready. False: the time is over. */
static bool wait_for(struct way_out *o, short events, short *ready)
{
	struct pollfd fd = { .fd = o->fd, .events = events };

	for (;;) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), until_ns = o->s->until_ns;
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

	snprintf(port, sizeof(port), "%u", o->s->port);
	error = getaddrinfo(o->s->host, port, &hints, &at);
	if (error)
		return cut(o, gai_strerror(error));
	is_connected = connect_to(o, at);
	freeaddrinfo(at);
	return is_connected;
}

/* ---- talking ---- */

static uint32_t nr_answers(const struct shipment *s)
{
	return 1 + s->nr_keys;
}

/* A line is complete: the answer to the first command, or for a key. */
static void take_answer(struct way_out *o)
{
	struct shipment *s = o->s;
	bool is_good = o->line[0] == '+';
	/* octokvd does not know, after an error of its device. */
	bool is_known = is_good || strncmp(o->line, "-IOERR", 6);

	if (!is_good && !s->why[0])
		snprintf(s->why, sizeof(s->why), "%.*s", (int)sizeof(s->why) - 1, o->line + 1);
	if (o->nr_lines && is_known)
		s->outcomes[o->nr_lines - 1] = is_good ? SHIP_TAKEN : SHIP_REFUSED;
	o->is_refused |= !o->nr_lines && !is_good;
	o->nr_lines++;
}

static bool take_bytes(struct way_out *o, const char *data, size_t len)
{
	for (size_t i = 0; i < len && o->nr_lines < nr_answers(o->s); i++) {
		if (data[i] != '\n') {
			if (data[i] != '\r' && o->line_len < LINE_BYTES - 1)
				o->line[o->line_len++] = data[i];
			continue;
		}
		o->line[o->line_len] = 0;
		if (o->line[0] != '+' && o->line[0] != '-')
			return cut(o, "it does not speak RESP");
		take_answer(o);
		o->line_len = 0;
	}
	return true;
}

static bool receive(struct way_out *o)
{
	char data[READ_BYTES];
	ssize_t len = recv(o->fd, data, sizeof(data), 0);

	if (len > 0)
		return take_bytes(o, data, len);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	return cut(o, len ? strerror(errno) : "the connection was closed");
}

/* So much may be sent by now. */
static size_t may_send(const struct way_out *o)
{
	return o->nr_lines ? o->s->len : o->s->first_len;
}

static bool send_more(struct way_out *o)
{
	ssize_t len = send(o->fd, o->s->bytes + o->nr_sent, may_send(o) - o->nr_sent, MSG_NOSIGNAL);

	if (len >= 0)
		o->nr_sent += len;
	else if (errno != EAGAIN && errno != EINTR)
		return cut(o, strerror(errno));
	return true;
}

static void talk(struct way_out *o)
{
	while (o->nr_lines < nr_answers(o->s) && !o->is_refused) {
		bool has_more = o->nr_sent < may_send(o);
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
	struct shipment *s = (struct shipment *)msg;
	struct way_out o = { .s = s, .fd = -1 };

	/* Before a key is sent, it is known that the other node has nothing. */
	if (find_and_connect(&o))
		talk(&o);
	if (!o.nr_lines || o.is_refused)
		memset(s->outcomes, SHIP_REFUSED, s->nr_keys);
	if (o.fd >= 0)
		close(o.fd);
	return false;
}
