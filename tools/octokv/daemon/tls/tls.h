/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tls.h - the listener for TLS: handshakes in a thread of their own, then the kernel's TLS
 *
 * One thread accepts connections and shakes hands with them by OpenSSL. The kernel gets the keys of
 * both directions (kTLS), and a reactor gets the socket: it sends and receives there as on any
 * other. So handshakes never hold up a reactor.
 *
 * TLS_GREETINGS handshakes go on at a time, TLS_OF_NETWORK of them with one address or IPv6 network
 * of 64 bits. Further clients wait in the kernel. A handshake ends after TLS_LIMIT_MS, or after
 * TLS_HURRY_MS if all places are taken.
 */
#ifndef OKV_TLS_H
#define OKV_TLS_H

#include <liburing.h>
#include <openssl/ssl.h>
#include <pthread.h>

#include "daemon/listen.h"
#include "daemon/reactor.h"
#include "files.h"

enum {
	TLS_GREETINGS	= 128,
	TLS_OF_NETWORK	= 32,
	TLS_LIMIT_MS	= 5000,
	TLS_HURRY_MS	= 1000,
};

struct tls {
	const struct tls_files *files;
	struct reactors *reactors;
	int listen_fd;
	int stop_fd;
	struct io_uring ring;		/* to give sockets to reactors */
	uint32_t nr_given;
	pthread_t thread;
	pthread_mutex_t mutex;
	SSL_CTX *context;		/* under the mutex */
};

/*
 * Takes the address, without listening there, reads the files, also for connections to other nodes
 * (cluster/secure.h), and asks the kernel for its TLS. Returns 0, or -1 with a message in @why.
 */
int tls_open(struct tls *t, const struct tls_files *files, const struct listen_at *at, char *why,
	     size_t why_bytes);

/* The reactors serve: listen. Returns 0, or an errno. */
int tls_start(struct tls *t, struct reactors *rs);

/*
 * Reads the files again. Returns 0, or -1 with a message in @why: the certificate of before stays.
 */
int tls_reload(struct tls *t, char *why, size_t why_bytes);

/* Before the reactors stop. */
void tls_stop(struct tls *t);

#endif
