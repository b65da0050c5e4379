// SPDX-License-Identifier: GPL-2.0
/*
 * sockets.c - load on a server: one thread drives all connections, by epoll
 *
 * A load generator that uses few cores leaves more of them for the server.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "server/resp.h"
#include "store/mem.h"

enum { MAX_SCAN = 100 };

struct slot {
	enum kind kind;
	uint64_t due_ns;
	uint64_t key;
	uint32_t nr_replies;		/* bulk strings to come, beyond the first header */
};

struct client {
	int fd;
	struct slot slots[MAX_PIPELINE];
	uint32_t head, nr;
	struct resp_out out;
	char *in;
	size_t in_len, in_cap;
	size_t skip;			/* bytes of a value that are still to come */
	bool writing;
};

/* ---- requests ---- */

static void write_key(struct resp_out *out, uint64_t key)
{
	char text[32];

	resp_bulk(out, text, snprintf(text, sizeof(text), "user%012" PRIu64, key));
}

/* No two values are the same: the first bytes are a number. */
static void write_value(struct bench *b, struct resp_out *out)
{
	uint64_t stamp = next_random(&b->random);

	memcpy(b->value, &stamp,
	       b->o.value_bytes < sizeof(stamp) ? b->o.value_bytes : sizeof(stamp));
	resp_bulk(out, b->value, b->o.value_bytes);
}

static void write_request(struct bench *b, struct client *c, struct slot *slot)
{
	uint32_t nr = 1;

	switch (slot->kind) {
	case KIND_SET:
	case KIND_RMW_SET:
		resp_array(&c->out, 3);
		resp_string(&c->out, "SET");
		write_key(&c->out, slot->key);
		write_value(b, &c->out);
		break;
	case KIND_SCAN:
		nr = 1 + next_random(&b->random) % MAX_SCAN;
		resp_array(&c->out, nr + 1);
		resp_string(&c->out, "MGET");
		for (uint32_t i = 0; i < nr; i++)
			write_key(&c->out, (slot->key + i) % b->nr_inserted);
		break;
	default:
		resp_array(&c->out, 2);
		resp_string(&c->out, "GET");
		write_key(&c->out, slot->key);
	}
	slot->nr_replies = 0;
}

static void begin_request(struct bench *b, struct client *c, uint64_t due_ns)
{
	struct slot *slot = &c->slots[(c->head + c->nr++) % MAX_PIPELINE];

	*slot = (struct slot){ .due_ns = due_ns };
	if (b->o.fill) {
		slot->kind = KIND_SET;
		slot->key = b->nr_begun;
	} else {
		slot->kind = pick_kind(b);
		if (slot->kind == KIND_SET && b->o.mix->insert_pct)
			slot->key = b->nr_inserted++;
		else
			slot->key = pick_key(b);
	}
	b->nr_begun++;
	write_request(b, c, slot);
}

static void end_request(struct bench *b, struct client *c)
{
	struct slot ended = c->slots[c->head], *slot;

	c->head = (c->head + 1) % MAX_PIPELINE;
	c->nr--;
	if (ended.kind != KIND_RMW_GET) {
		note_time(&b->time[ended.kind], now_ns() - ended.due_ns);
		b->nr_done++;
		return;
	}
	/* The second half of a read-modify-write; its time is that of both. */
	slot = &c->slots[(c->head + c->nr++) % MAX_PIPELINE];
	*slot = (struct slot){ .kind = KIND_RMW_SET, .due_ns = ended.due_ns, .key = ended.key };
	write_request(b, c, slot);
}

/* ---- replies ---- */

/* Takes a line or a value of a reply. Returns how many bytes it took; 0: more are needed. */
static size_t take_reply(struct bench *b, struct client *c, const char *in, size_t len)
{
	struct slot *slot = &c->slots[c->head];
	const char *end = memchr(in, '\n', len);
	int64_t number = 0;

	if (!end || !c->nr)
		return 0;
	if (in[0] == '$' || in[0] == '*')
		resp_parse_int(in + 1, end - in - 2, &number);
	if (in[0] == '-') {
		b->nr_errors++;
		snprintf(b->error, sizeof(b->error), "%.*s", (int)(end - in - 1), in);
	}
	if (in[0] == '*' && number > 0) {
		slot->nr_replies = number;
		return end + 1 - in;
	}
	if (in[0] == '$' && number >= 0)
		c->skip = number + 2;
	else if (in[0] == '$' || in[0] == '_')
		b->nr_missing++;
	if (slot->nr_replies)
		slot->nr_replies--;
	if (!slot->nr_replies && !c->skip)
		end_request(b, c);
	return end + 1 - in;
}

static void take_replies(struct bench *b, struct client *c)
{
	size_t used = 0;

	while (used < c->in_len) {
		size_t more;

		if (c->skip) {
			more = c->skip < c->in_len - used ? c->skip : c->in_len - used;
			c->skip -= more;
			if (!c->skip && !c->slots[c->head].nr_replies)
				end_request(b, c);
		} else {
			more = take_reply(b, c, c->in + used, c->in_len - used);
		}
		if (!more)
			break;
		used += more;
	}
	memmove(c->in, c->in + used, c->in_len - used);
	c->in_len -= used;
}

/* ---- sockets ---- */

static int connect_to(const struct options *o)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *at;
	char port[8];
	int one = 1, fd, error;

	snprintf(port, sizeof(port), "%u", o->port);
	error = getaddrinfo(o->host, port, &hints, &at);
	if (error)
		die(o->host, gai_strerror(error));
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen))
		die(o->host, strerror(errno));
	freeaddrinfo(at);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (o->password) {
		char text[600], reply[200];
		ssize_t len = snprintf(text, sizeof(text), "AUTH %s %s\r\n",
				       o->user ? o->user : "default", o->password);

		if (write(fd, text, len) != len || (len = read(fd, reply, sizeof(reply) - 1)) < 3 ||
		    memcmp(reply, "+OK", 3))
			die("AUTH", "refused");
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void send_some(struct client *c)
{
	while (c->out.nr_bytes) {
		struct resp_chunk *chunk = c->out.head;
		ssize_t sent = send(c->fd, chunk->data + chunk->start, resp_chunk_len(chunk),
				    MSG_NOSIGNAL);

		if (sent < 0 && errno == EAGAIN)
			break;
		if (sent < 0)
			die("send", strerror(errno));
		resp_out_consume(&c->out, sent);
	}
}

static void receive(struct bench *b, struct client *c)
{
	ssize_t got = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, 0);

	if (!got)
		die("the server", "closed the connection");
	if (got < 0 && errno != EAGAIN)
		die("recv", strerror(errno));
	if (got > 0) {
		c->in_len += got;
		take_replies(b, c);
	}
}

static void watch(int epoll_fd, struct client *c, int how)
{
	struct epoll_event event = { .events = EPOLLIN | (c->out.nr_bytes ? EPOLLOUT : 0),
				     .data.ptr = c };

	if (how == EPOLL_CTL_ADD || c->writing != (c->out.nr_bytes > 0))
		epoll_ctl(epoll_fd, how, c->fd, &event);
	c->writing = c->out.nr_bytes > 0;
}

/* ---- the load ---- */

static void begin_due(struct bench *b, struct client *clients)
{
	uint64_t now = now_ns();

	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		struct client *c = &clients[i];

		while (c->nr < b->o.nr_pipelined && may_begin(b, now)) {
			if (b->o.rate && due_ns(b) > now)
				return;
			begin_request(b, c, b->o.rate ? due_ns(b) : now);
		}
		send_some(c);
	}
}

static void show_progress(const struct bench *b, uint64_t *shown_ns, uint64_t *shown_nr)
{
	uint64_t now = now_ns();

	if (b->o.quiet || now - *shown_ns < 1000000000)
		return;
	fprintf(stderr, "octokv-bench: %s: %.0f s, %" PRIu64 " requests, %.0f per second, %" PRIu64
		" errors\n", b->o.mix->name, (now - b->begun_ns) / 1e9, b->nr_done,
		(b->nr_done - *shown_nr) * 1e9 / (now - *shown_ns), b->nr_errors);
	*shown_ns = now;
	*shown_nr = b->nr_done;
}

void run_clients(struct bench *b)
{
	struct client *clients = mem_zalloc(b->o.nr_clients * sizeof(*clients));
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t shown_ns, shown_nr = 0;
	struct epoll_event events[64];

	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		clients[i].fd = connect_to(&b->o);
		clients[i].in_cap = 256 << 10;
		clients[i].in = mem_alloc(clients[i].in_cap);
		watch(epoll_fd, &clients[i], EPOLL_CTL_ADD);
	}
	b->begun_ns = shown_ns = now_ns();
	begin_due(b, clients);
	while (b->nr_done < b->nr_begun || may_begin(b, now_ns())) {
		int nr = epoll_wait(epoll_fd, events, 64, b->o.rate ? 1 : 100);

		for (int i = 0; i < nr; i++) {
			struct client *c = events[i].data.ptr;

			if (events[i].events & ~EPOLLOUT)
				receive(b, c);
			send_some(c);
		}
		begin_due(b, clients);
		for (uint32_t i = 0; i < b->o.nr_clients; i++)
			watch(epoll_fd, &clients[i], EPOLL_CTL_MOD);
		show_progress(b, &shown_ns, &shown_nr);
	}
	b->ended_ns = now_ns();
	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		close(clients[i].fd);
		free(clients[i].in);
		resp_out_free(&clients[i].out);
	}
	close(epoll_fd);
	free(clients);
}
