// SPDX-License-Identifier: GPL-2.0
/*
 * tls.c - see tls.h
 *
 * A socket that was given to a reactor is a completion in its ring (MSG_RING), as if the reactor
 * had accepted it.
 *
 * Only AES-GCM is offered: the kernel has it wherever it has TLS, and so do all clients. There are
 * no session tickets and no renegotiation, so once hands are shaken no record but data has to be
 * sent or read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/cluster/secure.h"
#include "daemon/log.h"
#include "device/ring.h"
#include "server/clock.h"
#include "store/mem.h"
#include "tls.h"

#ifdef OPENSSL_NO_KTLS
#error "this OpenSSL cannot give keys to the kernel: octokvd needs one with kTLS"
#endif

enum {
	BACKLOG		= 1024,
	STACK_BYTES	= 1 << 20,
	PERIOD_MS	= 200,
	RING_ENTRIES	= 8,
	NICE		= 10,		/* handshakes come after the reactors */
	ADDRESS_BYTES	= 16,
	MS_NS		= 1000000,
};

/* A client that shakes hands. */
struct greeting {
	int fd;				/* -1: none */
	SSL *ssl;
	short waits_for;
	uint64_t begun_ns;
	uint8_t address[ADDRESS_BYTES];	/* IPv6, or mapped to it */
};

/* ---- the files ---- */

static int use_authority(SSL_CTX *context, const struct tls_files *f, char *why, size_t why_bytes)
{
	if (!f->ca)
		return 0;
	if (tls_use_ca(context, "--tls-ca-cert-file", f->ca, why, why_bytes))
		return -1;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

/* What to greet clients with, or NULL with a message in @why. */
static SSL_CTX *read_files(const struct tls_files *f, char *why, size_t why_bytes)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_server_method());
	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) ||
	    !SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM") ||
	    !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384")) {
		snprintf(why, why_bytes, "OpenSSL has no TLS with AES-GCM: %s", tls_reason(NULL));
		SSL_CTX_free(context);
		return NULL;
	}
	SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS | SSL_OP_NO_RENEGOTIATION |
			    SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 0);
	if (!tls_use_cert(context, f, why, why_bytes) && !use_authority(context, f, why, why_bytes))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* Tell INFO and --metrics until when the certificate is good. */
static void publish(struct tls *t)
{
	struct tm tm = { 0 };

	ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(t->context)), &tm);
	__atomic_store_n(&t->reactors->server->tls_until_s, timegm(&tm), __ATOMIC_RELAXED);
}

/* All of it, or nothing: what we are for clients, and for other nodes if they have TLS. */
static int read_all(const struct tls_files *f, SSL_CTX **context, char *why, size_t why_bytes)
{
	SSL_CTX *to_nodes;

	*context = read_files(f, why, why_bytes);
	if (!*context || !f->cluster_ca)
		return *context ? 0 : -1;
	to_nodes = secure_read(f, why, why_bytes);
	if (!to_nodes) {
		SSL_CTX_free(*context);
		*context = NULL;
		return -1;
	}
	secure_use(to_nodes);
	return 0;
}

int tls_reload(struct tls *t, char *why, size_t why_bytes)
{
	SSL_CTX *fresh, *old;

	if (read_all(t->files, &fresh, why, why_bytes))
		return -1;
	pthread_mutex_lock(&t->mutex);
	old = t->context;
	t->context = fresh;
	pthread_mutex_unlock(&t->mutex);
	publish(t);
	/* Handshakes under way have references of their own. */
	SSL_CTX_free(old);
	return 0;
}

/* ---- the kernel's TLS ---- */

/* A connection to ourselves: the kernel has TLS only for those. Returns 0, or an errno. */
static int connect_pair(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), error = 0;
	socklen_t len = sizeof(at);

	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	fds[1] = -1;
	if (listen_fd < 0 || fds[0] < 0 || bind(listen_fd, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(listen_fd, 1) || getsockname(listen_fd, (struct sockaddr *)&at, &len) ||
	    connect(fds[0], (struct sockaddr *)&at, sizeof(at)))
		error = errno;
	else
		fds[1] = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (!error && fds[1] < 0)
		error = errno;
	if (listen_fd >= 0)
		close(listen_fd);
	return error;
}

/* Whether a socket takes keys of TLS 1.3 for both directions. Returns 0, or an errno. */
static int ask_kernel(void)
{
	struct tls12_crypto_info_aes_gcm_256 keys = {
		.info = { .version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_256 },
	};
	int fds[2], error = connect_pair(fds);

	if (!error && (setsockopt(fds[0], SOL_TCP, TCP_ULP, "tls", sizeof("tls")) ||
		       setsockopt(fds[0], SOL_TLS, TLS_TX, &keys, sizeof(keys)) ||
		       setsockopt(fds[0], SOL_TLS, TLS_RX, &keys, sizeof(keys))))
		error = errno;
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return error;
}

/* ---- handshakes ---- */

static void greeting_end(struct greeting *g)
{
	SSL_free(g->ssl);
	close(g->fd);
	g->fd = -1;
}

static void say_failed(struct tls *t, const struct greeting *g, const char *why)
{
	char address[INET6_ADDRSTRLEN] = "?";

	inet_ntop(AF_INET6, g->address, address, sizeof(address));
	__atomic_add_fetch(&t->reactors->server->nr_tls_failed, 1, __ATOMIC_RELAXED);
	log_say(LOG_TLS, "no TLS with %s: %s", address, why);
}

static void greeting_fails(struct tls *t, struct greeting *g, const char *why)
{
	say_failed(t, g, why);
	greeting_end(g);
}

/* Hands are shaken: from now on the socket is a reactor's. */
static void give(struct tls *t, struct greeting *g)
{
	uint32_t to = t->nr_given++ % t->reactors->server->nr_listening;
	struct io_uring_sqe *sqe = ring_sqe(&t->ring);
	struct io_uring_cqe *cqe;
	int result;

	/* Or the reactor's ring would not wait for it. */
	fcntl(g->fd, F_SETFL, 0);
	io_uring_prep_msg_ring(sqe, reactors_ring_fd(t->reactors, to), g->fd, TAG_TLS, 0);
	result = io_uring_submit_and_wait(&t->ring, 1);
	if (result >= 0) {
		result = io_uring_wait_cqe(&t->ring, &cqe);
		if (!result) {
			result = cqe->res;
			io_uring_cqe_seen(&t->ring, cqe);
		}
	}
	if (result < 0) {
		greeting_fails(t, g, strerror(-result));
		return;
	}
	__atomic_add_fetch(&t->reactors->server->nr_tls, 1, __ATOMIC_RELAXED);
	SSL_free(g->ssl);
	g->fd = -1;
}

static void greeting_run(struct tls *t, struct greeting *g)
{
	int result;

	ERR_clear_error();
	result = SSL_accept(g->ssl);
	switch (SSL_get_error(g->ssl, result)) {
	case SSL_ERROR_NONE:
		/* Nothing may be left in OpenSSL: the reactor would never see it. */
		if (BIO_get_ktls_send(SSL_get_wbio(g->ssl)) &&
		    BIO_get_ktls_recv(SSL_get_rbio(g->ssl)) && !SSL_has_pending(g->ssl))
			give(t, g);
		else
			greeting_fails(t, g, "the kernel does not take its keys");
		break;
	case SSL_ERROR_WANT_READ:
		g->waits_for = POLLIN;
		break;
	case SSL_ERROR_WANT_WRITE:
		g->waits_for = POLLOUT;
		break;
	default:
		greeting_fails(t, g, ERR_peek_error() ? tls_reason(NULL) : "the client has gone");
	}
}

/* ---- who comes ---- */

static void set_address(struct greeting *g, const struct sockaddr_storage *peer)
{
	memset(g->address, 0, sizeof(g->address));
	if (peer->ss_family == AF_INET6) {
		memcpy(g->address, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
		return;
	}
	g->address[10] = g->address[11] = 0xff;
	memcpy(g->address + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
}

static bool same_network(const struct greeting *a, const struct greeting *b)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_v4 = !memcmp(a->address, mapped, sizeof(mapped));

	return !memcmp(a->address, b->address, is_v4 ? ADDRESS_BYTES : ADDRESS_BYTES / 2);
}

static uint32_t nr_of_network(const struct greeting *all, const struct greeting *g)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < TLS_GREETINGS; i++)
		nr += all[i].fd >= 0 && same_network(&all[i], g);
	return nr;
}

/* Takes a connection to the place @g. False: there is none, or it could not be taken. */
static bool greeting_begin(struct tls *t, const struct greeting *all, struct greeting *g)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int one = 1;
	int fd = accept4(t->listen_fd, (struct sockaddr *)&peer, &len,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return false;
	set_address(g, &peer);
	if (nr_of_network(all, g) >= TLS_OF_NETWORK) {
		say_failed(t, g, "its network has all the places that it may have");
		close(fd);
		return true;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pthread_mutex_lock(&t->mutex);
	g->ssl = SSL_new(t->context);
	pthread_mutex_unlock(&t->mutex);
	if (!g->ssl || !SSL_set_fd(g->ssl, fd)) {
		SSL_free(g->ssl);
		close(fd);
		return false;
	}
	g->fd = fd;
	g->waits_for = POLLIN;
	g->begun_ns = clock_ns(CLOCK_MONOTONIC);
	return true;
}

static struct greeting *place(struct greeting *all)
{
	for (uint32_t i = 0; i < TLS_GREETINGS; i++)
		if (all[i].fd < 0)
			return &all[i];
	return NULL;
}

static void run_greetings(struct tls *t, struct greeting *all, const struct pollfd *fds)
{
	uint64_t limit_ms = place(all) ? TLS_LIMIT_MS : TLS_HURRY_MS;

	for (uint32_t i = 0; i < TLS_GREETINGS; i++) {
		struct greeting *g = &all[i];

		if (g->fd >= 0 && fds[i].fd == g->fd && fds[i].revents)
			greeting_run(t, g);
		if (g->fd >= 0 && clock_ns(CLOCK_MONOTONIC) - g->begun_ns > limit_ms * MS_NS)
			greeting_fails(t, g, "the handshake took too long");
	}
}

static void *tls_main(void *argument)
{
	struct tls *t = argument;
	struct greeting all[TLS_GREETINGS];
	struct pollfd fds[TLS_GREETINGS + 2];
	bool stops = false, waits = false;

	setpriority(PRIO_PROCESS, gettid(), NICE);
	for (uint32_t i = 0; i < TLS_GREETINGS; i++)
		all[i].fd = -1;
	while (!stops) {
		struct greeting *room = place(all);

		for (uint32_t i = 0; i < TLS_GREETINGS; i++)
			fds[i] = (struct pollfd){ all[i].fd, all[i].waits_for, 0 };
		fds[TLS_GREETINGS] = (struct pollfd){ room && !waits ? t->listen_fd : -1, POLLIN };
		fds[TLS_GREETINGS + 1] = (struct pollfd){ t->stop_fd, POLLIN, 0 };
		if (poll(fds, TLS_GREETINGS + 2, PERIOD_MS) < 0)
			continue;
		run_greetings(t, all, fds);
		/* Without a descriptor for it: try again after this round's time. */
		waits = fds[TLS_GREETINGS].revents && !greeting_begin(t, all, room);
		stops = fds[TLS_GREETINGS + 1].revents;
	}
	for (uint32_t i = 0; i < TLS_GREETINGS; i++)
		if (all[i].fd >= 0)
			greeting_end(&all[i]);
	return NULL;
}

/* ---- start and end ---- */

static void *counted_alloc(size_t bytes, const char *file, int line)
{
	(void)file;
	(void)line;
	return mem_alloc(bytes);
}

static void counted_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	mem_free(memory);
}

static void *counted_grow(void *memory, size_t bytes, const char *file, int line)
{
	if (bytes)
		return mem_grow(memory, bytes);
	counted_free(memory, file, line);
	return NULL;
}

int tls_open(struct tls *t, const struct tls_files *files, const struct listen_at *at, char *why,
	     size_t why_bytes)
{
	int error;

	*t = (struct tls){ .files = files };
	pthread_mutex_init(&t->mutex, NULL);
	t->listen_fd = listen_alone("--tls", at, why, why_bytes);
	if (t->listen_fd < 0)
		return -1;
	/* What OpenSSL takes is in the sum of --memory. */
	CRYPTO_set_mem_functions(counted_alloc, counted_grow, counted_free);
	if (read_all(files, &t->context, why, why_bytes))
		return -1;
	error = ask_kernel();
	if (!error)
		return 0;
	if (error == ENOENT || error == EOPNOTSUPP || error == ENOPROTOOPT)
		snprintf(why, why_bytes, "--tls: the kernel has no TLS, or its module is not "
			 "loaded: modprobe tls");
	else
		snprintf(why, why_bytes, "--tls: the kernel does not take keys for TLS: %s",
			 strerror(error));
	return -1;
}

int tls_start(struct tls *t, struct reactors *rs)
{
	pthread_attr_t attributes;
	int error;

	t->reactors = rs;
	publish(t);
	if (listen(t->listen_fd, BACKLOG) || fcntl(t->listen_fd, F_SETFL, O_NONBLOCK))
		return errno;
	error = -io_uring_queue_init(RING_ENTRIES, &t->ring, 0);
	if (error)
		return error;
	t->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (t->stop_fd < 0)
		return errno;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&t->thread, &attributes, tls_main, t);
	pthread_attr_destroy(&attributes);
	return error;
}

void tls_stop(struct tls *t)
{
	uint64_t one = 1;

	if (write(t->stop_fd, &one, sizeof(one)) != sizeof(one))
		perror("octokvd: eventfd");
	pthread_join(t->thread, NULL);
	close(t->stop_fd);
	close(t->listen_fd);
	io_uring_queue_exit(&t->ring);
	SSL_CTX_free(t->context);
	pthread_mutex_destroy(&t->mutex);
}
