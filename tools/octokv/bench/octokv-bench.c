// SPDX-License-Identifier: GPL-2.0
/*
 * octokv-bench.c - load for octokvd, or for any server that speaks RESP, and figures of how it bears it
 *
 * Workloads: fillrandom and readrandom as db_bench has them (values of 16 KiB, keys of 16 bytes); the core mixes A to F of YCSB with their
 * distributions. A store of hashed keys has no ranges: what YCSB E scans is read here as an MGET of consecutive records.
 *
 * Closed loop: each connection has --pipeline requests under way. Open loop (--rate): requests are due at fixed times, whatever the server does, and
 * a request's time is counted from when it was due, so that a server that stalls cannot hide it (no coordinated omission).
 *
 * --host-kvs DIRECTORY takes no server, no protocol and no network: threads of this program write and read fixed records of a file each, found by an
 * array, with fsync() after each write. It is what a store on the host's file system, as the OctoKV paper compares with (its figures 4 to 6), could do
 * at best.
 *
 * One thread drives all connections, by epoll: a load generator that uses fewer cores leaves more for what is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "store/mem.h"
#include "server/resp.h"

enum {
	KEY_BYTES	= 16,
	SUB_BITS	= 6,		/* of a histogram: 64 steps per power of two, 1.6% */
	NR_BUCKETS	= 64 << SUB_BITS,
	MAX_PIPELINE	= 256,
	MAX_SCAN	= 100,
};

enum kind { KIND_GET, KIND_SET, KIND_SCAN, KIND_RMW_GET, KIND_RMW_SET, NR_KINDS };

struct mix {
	const char *name;
	int read_pct, update_pct, insert_pct, scan_pct, rmw_pct;
	enum { UNIFORM, ZIPFIAN, LATEST } pick;
};

static const struct mix mixes[] = {
	{ "fillrandom", 0, 100, 0, 0, 0, UNIFORM },
	{ "readrandom", 100, 0, 0, 0, 0, UNIFORM },
	{ "ycsb-a", 50, 50, 0, 0, 0, ZIPFIAN },
	{ "ycsb-b", 95, 5, 0, 0, 0, ZIPFIAN },
	{ "ycsb-c", 100, 0, 0, 0, 0, ZIPFIAN },
	{ "ycsb-d", 95, 0, 5, 0, 0, LATEST },
	{ "ycsb-e", 0, 0, 5, 95, 0, ZIPFIAN },
	{ "ycsb-f", 50, 0, 0, 0, 50, ZIPFIAN },
};

struct histogram {
	uint64_t buckets[NR_BUCKETS];
	uint64_t nr, sum_ns, max_ns;
};

struct options {
	const char *host, *host_kvs, *json, *user, *password;
	const struct mix *mix;
	uint64_t nr_records, nr_requests, seed;
	uint32_t nr_clients, value_bytes, nr_pipelined, port;
	double seconds, rate;
	bool fill, quiet;
};

struct zipf {
	double theta, zeta_n, alpha, eta;
	uint64_t n;
};

struct bench {
	struct options o;
	struct zipf zipf;
	uint64_t random;
	uint64_t nr_inserted;
	uint64_t nr_begun, nr_done, nr_errors, nr_missing;
	uint64_t begun_ns, ended_ns;
	struct histogram time[NR_KINDS];
	char *value;
	char error[200];
};

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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
	fprintf(stderr, "octokv-bench: %s: %s\n", what, why);
	exit(1);
}

/* ---- chance ---- */

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static double next_real(uint64_t *state)
{
	return (next_random(state) >> 11) * 0x1p-53;
}

static void zipf_init(struct zipf *z, uint64_t n)
{
	double zeta_2 = 1 + pow(0.5, 0.99);

	*z = (struct zipf){ .theta = 0.99, .n = n, .alpha = 1 / (1 - 0.99) };
	for (uint64_t i = 1; i <= n; i++)
		z->zeta_n += pow(1.0 / i, z->theta);
	z->eta = (1 - pow(2.0 / n, 1 - z->theta)) / (1 - zeta_2 / z->zeta_n);
}

/* 0 is the most likely. */
static uint64_t zipf_next(const struct zipf *z, uint64_t *random)
{
	double u = next_real(random), uz = u * z->zeta_n;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, z->theta))
		return 1;
	rank = z->n * pow(z->eta * u - z->eta + 1, z->alpha);
	return rank < z->n ? rank : z->n - 1;
}

static uint64_t scramble(uint64_t value)
{
	return next_random(&value);
}

static uint64_t pick_key(struct bench *b)
{
	switch (b->o.mix->pick) {
	case ZIPFIAN:
		return scramble(zipf_next(&b->zipf, &b->random)) % b->o.nr_records;
	case LATEST: {
		uint64_t back = zipf_next(&b->zipf, &b->random);

		/* Not those that are on their way. */
		back += (uint64_t)b->o.nr_clients * b->o.nr_pipelined;
		return b->nr_inserted - 1 - back % b->nr_inserted;
	}
	case UNIFORM:
		break;
	}
	return next_random(&b->random) % b->o.nr_records;
}

static enum kind pick_kind(struct bench *b)
{
	const struct mix *m = b->o.mix;
	int die = next_random(&b->random) % 100;

	if ((die -= m->read_pct) < 0)
		return KIND_GET;
	if ((die -= m->update_pct) < 0 || (die -= m->insert_pct) < 0)
		return KIND_SET;
	if ((die -= m->scan_pct) < 0)
		return KIND_SCAN;
	return KIND_RMW_GET;
}

/* ---- times ---- */

static uint32_t bucket_of(uint64_t ns)
{
	int top = ns ? 63 - __builtin_clzll(ns) : 0;

	if (top <= SUB_BITS)
		return ns;
	return ((top - SUB_BITS) << SUB_BITS) + (ns >> (top - SUB_BITS));
}

static uint64_t bucket_ns(uint32_t bucket)
{
	uint32_t group = bucket >> SUB_BITS;

	if (group < 2)
		return bucket;
	return ((uint64_t)(bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << (group - 1);
}

static void note_time(struct histogram *h, uint64_t ns)
{
	h->buckets[bucket_of(ns)]++;
	h->nr++;
	h->sum_ns += ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

static double percentile_us(const struct histogram *h, double share)
{
	uint64_t wanted = ceil(h->nr * share), sum = 0;

	for (uint32_t i = 0; i < NR_BUCKETS; i++) {
		sum += h->buckets[i];
		if (sum >= wanted && sum)
			return bucket_ns(i) / 1e3;
	}
	return 0;
}

static void merge_times(struct histogram *to, const struct histogram *from)
{
	for (uint32_t i = 0; i < NR_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->nr += from->nr;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}

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

	memcpy(b->value, &stamp, b->o.value_bytes < sizeof(stamp) ? b->o.value_bytes : sizeof(stamp));
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
		slot->key = slot->kind == KIND_SET && b->o.mix->insert_pct ? b->nr_inserted++ : pick_key(b);
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

/* One line or value of a reply; returns the bytes that it takes, 0: more are needed. */
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
		ssize_t len = snprintf(text, sizeof(text), "AUTH %s %s\r\n", o->user ? o->user : "default", o->password);

		if (write(fd, text, len) != len || (len = read(fd, reply, sizeof(reply) - 1)) < 3 || memcmp(reply, "+OK", 3))
			die("AUTH", "refused");
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void send_some(struct client *c)
{
	while (c->out.nr_bytes) {
		struct resp_chunk *chunk = c->out.head;
		ssize_t sent = send(c->fd, chunk->data + chunk->start, resp_chunk_len(chunk), MSG_NOSIGNAL);

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
	struct epoll_event event = { .events = EPOLLIN | (c->out.nr_bytes ? EPOLLOUT : 0), .data.ptr = c };

	if (how == EPOLL_CTL_ADD || c->writing != (c->out.nr_bytes > 0))
		epoll_ctl(epoll_fd, how, c->fd, &event);
	c->writing = c->out.nr_bytes > 0;
}

/* ---- the load ---- */

static bool may_begin(const struct bench *b, uint64_t now)
{
	if (b->o.nr_requests && b->nr_begun >= b->o.nr_requests)
		return false;
	return !b->o.seconds || now < b->begun_ns + b->o.seconds * 1e9;
}

/* When the next request is due in an open loop. */
static uint64_t due_ns(const struct bench *b)
{
	return b->begun_ns + b->nr_begun / b->o.rate * 1e9;
}

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
	fprintf(stderr, "octokv-bench: %s: %.0f s, %" PRIu64 " requests, %.0f per second, %" PRIu64 " errors\n", b->o.mix->name,
		(now - b->begun_ns) / 1e9, b->nr_done, (b->nr_done - *shown_nr) * 1e9 / (now - *shown_ns), b->nr_errors);
	*shown_ns = now;
	*shown_nr = b->nr_done;
}

static void run_clients(struct bench *b)
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

/* ---- Host-KVS ---- */

struct host_kvs {
	struct bench bench;
	pthread_t thread;
	uint32_t number;
	int fd;
	uint64_t *places;		/* of records, in units of them; 0: none */
	uint64_t nr_places;
};

static void host_put(struct host_kvs *h, uint64_t key, char *record, size_t record_bytes)
{
	uint64_t place = ++h->nr_places;

	memcpy(record, &key, sizeof(key));
	if (pwrite(h->fd, record, record_bytes, (place - 1) * record_bytes) != (ssize_t)record_bytes || fsync(h->fd))
		die("host-kvs", strerror(errno));
	h->places[key] = place;
}

static void *host_main(void *argument)
{
	struct host_kvs *h = argument;
	struct bench *b = &h->bench;
	size_t record_bytes = KEY_BYTES + b->o.value_bytes;
	char *record = mem_zalloc(record_bytes);

	for (uint64_t i = 0; i < b->o.nr_requests && may_begin(b, now_ns()); i++) {
		uint64_t begun = now_ns(), key = pick_key(b);
		enum kind kind = pick_kind(b);

		if (kind == KIND_SET)
			host_put(h, key, record, record_bytes);
		else if (h->places[key] && pread(h->fd, record, record_bytes, (h->places[key] - 1) * record_bytes) < 0)
			die("host-kvs", strerror(errno));
		else
			b->nr_missing += !h->places[key];
		note_time(&b->time[kind], now_ns() - begun);
		b->nr_done++;
	}
	free(record);
	return NULL;
}

static void run_host_kvs(struct bench *b)
{
	struct host_kvs *all = mem_zalloc(b->o.nr_clients * sizeof(*all));
	char path[512];

	b->begun_ns = now_ns();
	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		all[i].bench = *b;
		all[i].bench.o.nr_requests /= b->o.nr_clients;
		all[i].bench.random += i * 7919;
		all[i].places = mem_zalloc(b->o.nr_records * sizeof(*all[i].places));
		snprintf(path, sizeof(path), "%s/octokv-bench.%u", b->o.host_kvs, i);
		all[i].fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (all[i].fd < 0 || pthread_create(&all[i].thread, NULL, host_main, &all[i]))
			die(path, strerror(errno));
	}
	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		pthread_join(all[i].thread, NULL);
		b->nr_done += all[i].bench.nr_done;
		for (int kind = 0; kind < NR_KINDS; kind++)
			merge_times(&b->time[kind], &all[i].bench.time[kind]);
		close(all[i].fd);
		free(all[i].places);
		snprintf(path, sizeof(path), "%s/octokv-bench.%u", b->o.host_kvs, i);
		unlink(path);
	}
	b->ended_ns = now_ns();
	free(all);
}

/* ---- figures ---- */

static void write_report(const struct bench *b, FILE *file)
{
	static const char *const names[NR_KINDS] = { "get", "set", "scan", "", "rmw" };
	double seconds = (b->ended_ns - b->begun_ns) / 1e9;
	bool first = true;

	fprintf(file, "{\"workload\": \"%s\", \"fill\": %s, \"clients\": %u, \"pipeline\": %u, \"rate_per_s\": %.0f, \"value_bytes\": %u, \"records\": %"
		PRIu64 ", \"seconds\": %.3f, \"requests\": %" PRIu64 ", \"requests_per_s\": %.1f, \"errors\": %" PRIu64 ", \"missing\": %" PRIu64
		", \"times\": {", b->o.mix->name, b->o.fill ? "true" : "false", b->o.nr_clients, b->o.nr_pipelined, b->o.rate, b->o.value_bytes,
		b->o.nr_records, seconds, b->nr_done, b->nr_done / seconds, b->nr_errors, b->nr_missing);
	for (int i = 0; i < NR_KINDS; i++) {
		const struct histogram *h = &b->time[i];

		if (!h->nr)
			continue;
		fprintf(file, "%s\"%s\": {\"nr\": %" PRIu64 ", \"mean_us\": %.1f, \"p50_us\": %.1f, \"p95_us\": %.1f, \"p99_us\": %.1f, "
			"\"p99.9_us\": %.1f, \"max_us\": %.1f}", first ? "" : ", ", names[i], h->nr, h->sum_ns / 1e3 / h->nr, percentile_us(h, 0.5),
			percentile_us(h, 0.95), percentile_us(h, 0.99), percentile_us(h, 0.999), h->max_ns / 1e3);
		first = false;
	}
	fprintf(file, "}}\n");
}

/* ---- options ---- */

static const char usage_text[] =
	"usage: octokv-bench [options] WORKLOAD\n"
	"  WORKLOAD               fillrandom, readrandom, ycsb-a to ycsb-f\n"
	"  --host ADDRESS         (127.0.0.1)    --port N  (6379)\n"
	"  --user NAME --password WORD\n"
	"  --clients N            connections, or threads with --host-kvs (16)\n"
	"  --pipeline N           requests under way on each (1)\n"
	"  --rate N               open loop: so many requests per second are due\n"
	"  --records N            (10000)        --value-bytes N  (16384)\n"
	"  --requests N           stop after so many (10000)\n"
	"  --seconds S            stop after so long; with it --requests has no default\n"
	"  --fill                 write each record once instead: what readrandom and YCSB need before\n"
	"  --host-kvs DIRECTORY   no server and no network: threads of this program write and read files there, with fsync\n"
	"  --json FILE            the figures go there (standard output)\n"
	"  --seed N    --quiet\n";

static double real(const char *text, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text || !(value >= min && value <= max)) {
		fprintf(stderr, "octokv-bench: %s is not a number from %g to %g\n", text, min, max);
		exit(2);
	}
	return value;
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option names[] = {
		{ "host", 1, NULL, 'h' }, { "port", 1, NULL, 'p' }, { "user", 1, NULL, 'u' }, { "password", 1, NULL, 'w' },
		{ "clients", 1, NULL, 'c' }, { "pipeline", 1, NULL, 'P' }, { "rate", 1, NULL, 'R' }, { "records", 1, NULL, 'r' },
		{ "value-bytes", 1, NULL, 'd' }, { "requests", 1, NULL, 'n' }, { "seconds", 1, NULL, 's' }, { "fill", 0, NULL, 'f' },
		{ "host-kvs", 1, NULL, 'k' }, { "json", 1, NULL, 'j' }, { "seed", 1, NULL, 'S' }, { "quiet", 0, NULL, 'q' },
		{ "help", 0, NULL, 'H' }, { NULL },
	};
	int option;

	*o = (struct options){ .host = "127.0.0.1", .port = 6379, .nr_clients = 16, .nr_pipelined = 1, .nr_records = 10000, .value_bytes = 16384,
			       .seed = 1 };
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'h': o->host = optarg; break;
		case 'p': o->port = real(optarg, 1, 65535); break;
		case 'u': o->user = optarg; break;
		case 'w': o->password = optarg; break;
		case 'c': o->nr_clients = real(optarg, 1, 100000); break;
		case 'P': o->nr_pipelined = real(optarg, 1, MAX_PIPELINE); break;
		case 'R': o->rate = real(optarg, 0.001, 1e9); break;
		case 'r': o->nr_records = real(optarg, 1, 1e12); break;
		case 'd': o->value_bytes = real(optarg, 0, 8 << 20); break;
		case 'n': o->nr_requests = real(optarg, 1, 1e15); break;
		case 's': o->seconds = real(optarg, 0.001, 1e9); break;
		case 'f': o->fill = true; break;
		case 'k': o->host_kvs = optarg; break;
		case 'j': o->json = optarg; break;
		case 'S': o->seed = real(optarg, 0, 1e15); break;
		case 'q': o->quiet = true; break;
		case 'H': fputs(usage_text, stdout); exit(0);
		default: fputs(usage_text, stderr); exit(2);
		}
	}
	for (size_t i = 0; optind + 1 == argc && i < sizeof(mixes) / sizeof(mixes[0]); i++)
		if (!strcmp(argv[optind], mixes[i].name))
			o->mix = &mixes[i];
	if (!o->mix) {
		fputs(usage_text, stderr);
		exit(2);
	}
	if (o->fill)
		o->nr_requests = o->nr_records;
	else if (!o->nr_requests && !o->seconds)
		o->nr_requests = 10000;
	if (!o->nr_requests && o->host_kvs)
		o->nr_requests = UINT64_MAX;
}

int main(int argc, char **argv)
{
	struct bench *b = mem_zalloc(sizeof(*b));
	FILE *file = stdout;

	parse(&b->o, argc, argv);
	b->random = b->o.seed;
	b->nr_inserted = b->o.nr_records;
	b->value = mem_zalloc(b->o.value_bytes);
	for (uint32_t i = 0; i < b->o.value_bytes; i++)
		b->value[i] = next_random(&b->random);
	if (b->o.mix->pick != UNIFORM)
		zipf_init(&b->zipf, b->o.nr_records);
	if (b->o.host_kvs)
		run_host_kvs(b);
	else
		run_clients(b);
	if (b->o.json)
		file = fopen(b->o.json, "we");
	if (!file)
		die(b->o.json, strerror(errno));
	write_report(b, file);
	if (b->nr_errors)
		fprintf(stderr, "octokv-bench: the last of %" PRIu64 " errors: %s\n", b->nr_errors, b->error);
	free(b->value);
	free(b);
	return 0;
}
