// SPDX-License-Identifier: GPL-2.0
/* scrape.c - see scrape.h */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listen.h"
#include "prometheus.h"
#include "scrape.h"
#include "server/clock.h"
#include "store/mem.h"

enum { BACKLOG = 16, STACK_BYTES = 1 << 20, NICE = 10 };

/* A connection. Its request is read, then the answer is sent, then all else is read and ignored. */
struct visit {
	int fd;				/* -1: none */
	uint64_t until_ns;
	char in[SCRAPE_REQUEST_BYTES];
	uint32_t nr_in;
	char *out;			/* NULL: the request is not complete */
	size_t nr_out, nr_sent;		/* sent of both, with the page */
	struct scrape_page *page;	/* behind @out; NULL: none */
};

/* ---- the address ---- */

int scrape_listen(struct scrape *s, const char *address, char *why, size_t why_bytes)
{
	struct listen_at at;

	s->listen_fd = -1;
	if (listen_parse("--metrics", address, "127.0.0.1", &at, why, why_bytes))
		return -1;
	s->is_open = listen_is_loopback("--metrics", at.address, why, why_bytes) == 0;
	s->listen_fd = listen_alone("--metrics", &at, why, why_bytes);
	if (s->listen_fd < 0 || !listen(s->listen_fd, BACKLOG))
		return s->listen_fd < 0 ? -1 : 0;
	snprintf(why, why_bytes, "cannot listen on %s port %u: %s", at.address, at.port,
		 strerror(errno));
	return -1;
}

/* ---- answers ---- */

__attribute__((format(printf, 4, 5)))
static void answer(struct visit *v, const char *status, const char *more, const char *format, ...)
{
	char body[256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(body, sizeof(body), format, args);
	va_end(args);
	v->out = mem_alloc(sizeof(body) + 512);
	v->nr_out = snprintf(v->out, sizeof(body) + 512,
			     "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
			     "Content-Length: %d\r\nConnection: close\r\n%s\r\n%s", status, len,
			     more, body);
}

/* In the place of a page that has no readers; without such a place the newest page stays. */
static void make_page(struct scrape *s)
{
	struct scrape_page *page = s->newest;
	uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC), good_ns;

	for (int i = 0; i < SCRAPE_PAGES && page->nr_readers; i++)
		page = &s->pages[i];
	if (page->nr_readers)
		return;
	mem_free(page->text);
	page->len = s->newest->len;
	pthread_mutex_lock(&s->rendering);
	page->text = prometheus_page(s->server, &page->len);
	pthread_mutex_unlock(&s->rendering);
	good_ns = (clock_ns(CLOCK_MONOTONIC) - begun_ns) * SCRAPE_COST;
	if (good_ns < SCRAPE_GOOD_MS * 1000000ULL)
		good_ns = SCRAPE_GOOD_MS * 1000000ULL;
	page->until_ns = begun_ns + good_ns;
	s->newest = page;
}

/* The memory of pages that nobody will get any more. */
static void drop_pages(struct scrape *s, bool all)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < SCRAPE_PAGES; i++) {
		struct scrape_page *page = &s->pages[i];

		if (page->nr_readers || (!all && page == s->newest && now_ns < page->until_ns))
			continue;
		mem_free(page->text);
		page->text = NULL;
	}
}

static void answer_page(struct scrape *s, struct visit *v, bool with_body)
{
	if (!s->newest->text || clock_ns(CLOCK_MONOTONIC) >= s->newest->until_ns)
		make_page(s);
	if (!s->newest->text) {
		answer(v, "503 Service Unavailable", "", "no memory for the page\n");
		return;
	}
	v->out = mem_alloc(256);
	v->nr_out = snprintf(v->out, 256, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; "
			     "version=0.0.4; charset=utf-8\r\nContent-Length: %zu\r\n"
			     "Connection: close\r\n\r\n", s->newest->len);
	if (!with_body)
		return;
	v->page = s->newest;
	v->page->nr_readers++;
}

/* The request is complete: its head is v->in. */
static void take_request(struct scrape *s, struct visit *v)
{
	char method[16], path[128], version[16];
	bool is_head;

	if (sscanf(v->in, "%15[A-Z] %127[^ \r\n] %15[^ \r\n]", method, path, version) != 3 ||
	    strncmp(version, "HTTP/1.", 7)) {
		answer(v, "400 Bad Request", "", "this is not a request of HTTP/1\n");
		return;
	}
	is_head = !strcmp(method, "HEAD");
	if (!is_head && strcmp(method, "GET")) {
		answer(v, "405 Method Not Allowed", "Allow: GET, HEAD\r\n", "GET or HEAD\n");
		return;
	}
	path[strcspn(path, "?")] = 0;
	if (strcmp(path, "/metrics"))
		answer(v, "404 Not Found", "", "the metrics are at /metrics\n");
	else
		answer_page(s, v, !is_head);
}

/* ---- connections ---- */

static void visit_end(struct visit *v)
{
	close(v->fd);
	mem_free(v->out);
	v->out = NULL;
	v->fd = -1;
	if (v->page)
		v->page->nr_readers--;
	v->page = NULL;
}

/* False: no connection could be taken, for example as descriptors are used up. */
static bool visit_begin(struct scrape *s, struct visit *v)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return false;
	*v = (struct visit){
		.fd = fd,
		.until_ns = clock_ns(CLOCK_MONOTONIC) + SCRAPE_LIMIT_MS * 1000000ULL,
	};
	return true;
}

static void visit_read(struct scrape *s, struct visit *v)
{
	char ignored[SCRAPE_REQUEST_BYTES];
	ssize_t nr = v->out ? recv(v->fd, ignored, sizeof(ignored), 0) :
		     recv(v->fd, v->in + v->nr_in, sizeof(v->in) - 1 - v->nr_in, 0);

	if (nr < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (nr <= 0) {
		visit_end(v);
		return;
	}
	if (v->out)
		return;
	v->nr_in += nr;
	v->in[v->nr_in] = 0;
	if (strstr(v->in, "\r\n\r\n") || strstr(v->in, "\n\n"))
		take_request(s, v);
	else if (v->nr_in == sizeof(v->in) - 1)
		answer(v, "431 Request Header Fields Too Large", "", "at most %d bytes\n",
		       SCRAPE_REQUEST_BYTES - 1);
}

static size_t visit_bytes(const struct visit *v)
{
	return v->nr_out + (v->page ? v->page->len : 0);
}

static void visit_write(struct visit *v)
{
	bool in_page = v->nr_sent >= v->nr_out;
	const char *from = in_page ? v->page->text + (v->nr_sent - v->nr_out) : v->out + v->nr_sent;
	size_t left = (in_page ? visit_bytes(v) : v->nr_out) - v->nr_sent;
	ssize_t nr = send(v->fd, from, left, MSG_NOSIGNAL | (v->page && !in_page ? MSG_MORE : 0));

	if (nr < 0 && errno != EAGAIN && errno != EINTR) {
		visit_end(v);
		return;
	}
	if (nr > 0)
		v->nr_sent += nr;
	/* What the client still sends is read, or the kernel would reset the connection. */
	if (v->nr_sent == visit_bytes(v))
		shutdown(v->fd, SHUT_WR);
}

static bool visit_sends(const struct visit *v)
{
	return v->out && v->nr_sent < visit_bytes(v);
}

static void run_visits(struct scrape *s, struct visit *visits, const struct pollfd *fds)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < SCRAPE_VISITS; i++) {
		struct visit *v = &visits[i];

		if (v->fd >= 0 && fds[i].fd == v->fd && fds[i].revents) {
			if (visit_sends(v))
				visit_write(v);
			else
				visit_read(s, v);
		}
		if (v->fd >= 0 && now_ns >= v->until_ns)
			visit_end(v);
	}
}

static void *scrape_main(void *argument)
{
	struct scrape *s = argument;
	struct visit visits[SCRAPE_VISITS];
	struct pollfd fds[SCRAPE_VISITS + 2];
	bool stops = false, waits = false;

	setpriority(PRIO_PROCESS, gettid(), NICE);
	for (int i = 0; i < SCRAPE_VISITS; i++)
		visits[i].fd = -1;
	while (!stops) {
		struct visit *room = NULL;

		for (int i = 0; i < SCRAPE_VISITS; i++) {
			fds[i] = (struct pollfd){
				.fd = visits[i].fd,
				.events = visits[i].fd >= 0 && visit_sends(&visits[i]) ? POLLOUT :
					  POLLIN,
			};
			if (visits[i].fd < 0)
				room = &visits[i];
		}
		fds[SCRAPE_VISITS] = (struct pollfd){ room && !waits ? s->listen_fd : -1, POLLIN };
		fds[SCRAPE_VISITS + 1] = (struct pollfd){ s->stop_fd, POLLIN, 0 };
		if (poll(fds, SCRAPE_VISITS + 2, SCRAPE_LIMIT_MS / 10) < 0)
			continue;
		run_visits(s, visits, fds);
		drop_pages(s, false);
		/* Who could not be taken is tried again after this round's time. */
		waits = fds[SCRAPE_VISITS].revents && !visit_begin(s, room);
		stops = fds[SCRAPE_VISITS + 1].revents;
	}
	for (int i = 0; i < SCRAPE_VISITS; i++)
		if (visits[i].fd >= 0)
			visit_end(&visits[i]);
	drop_pages(s, true);
	return NULL;
}

/* ---- start and end ---- */

int scrape_start(struct scrape *s, const struct server *server)
{
	pthread_attr_t attributes;
	int error;

	s->server = server;
	s->newest = s->pages;
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&s->rendering, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = s->stop_fd < 0 ? errno : pthread_create(&s->thread, &attributes, scrape_main, s);
	pthread_attr_destroy(&attributes);
	return error;
}

void scrape_pause(struct scrape *s, bool pause)
{
	if (pause)
		pthread_mutex_lock(&s->rendering);
	else
		pthread_mutex_unlock(&s->rendering);
}

void scrape_stop(struct scrape *s)
{
	uint64_t one = 1;

	if (write(s->stop_fd, &one, sizeof(one)) != sizeof(one))
		perror("octokvd: eventfd");
	pthread_join(s->thread, NULL);
	close(s->stop_fd);
	close(s->listen_fd);
	pthread_mutex_destroy(&s->rendering);
}
