/* SPDX-License-Identifier: GPL-2.0 */
/*
 * secure.h - TLS on connections to other nodes (sender.h), by OpenSSL
 *
 * The other node has to show a certificate that an authority of --tls-cluster-ca-cert-file has
 * signed, and that is for the host in the map: its subjectAltName has that name or address. This
 * node shows its own certificate if the other one asks for it.
 *
 * The socket does not block. A step that has to wait says for what, and is then called again with
 * the same bytes, or more.
 */
#ifndef OKV_SECURE_H
#define OKV_SECURE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "daemon/tls/files.h"

/* ---- for all connections ---- */

/* What the files say, for secure_use(); NULL, with a message in @why. */
SSL_CTX *secure_read(const struct tls_files *files, char *why, size_t why_bytes);

/*
 * Connections that are opened from now on are by this context, which is given away. NULL: they are
 * without TLS. From any thread.
 */
void secure_use(SSL_CTX *context);

bool secure_is_on(void);

/* ---- a connection ---- */

enum secure_step { SECURE_DONE, SECURE_WAITS, SECURE_FAILED };

/**
 * struct secure - TLS on a connection
 * @waits_for:	after SECURE_WAITS, what the socket has to be ready for: POLLIN or POLLOUT
 * @why:	after SECURE_FAILED: then only secure_close() may follow
 */
struct secure {
	SSL *ssl;
	short waits_for;
	const char *why;
};

/* False: there is no memory. */
bool secure_open(struct secure *s, int fd, const char *host);
void secure_close(struct secure *s);

enum secure_step secure_shake_hands(struct secure *s);

/*
 * *@len is the room, and then how many bytes there were. With room for SECURE_RECEIVE_BYTES nothing
 * is left in OpenSSL, where poll() would not see it.
 */
enum { SECURE_RECEIVE_BYTES = SSL3_RT_MAX_PLAIN_LENGTH };
enum secure_step secure_receive(struct secure *s, void *to, size_t *len);

/* *@len is how many there are, and then how many were taken: some of them. */
enum secure_step secure_send(struct secure *s, const void *from, size_t *len);

#endif
