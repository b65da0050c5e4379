/* SPDX-License-Identifier: GPL-2.0 */
/* files.h - certificates and keys from files, and in words what is wrong with them */
#ifndef OKV_TLS_FILES_H
#define OKV_TLS_FILES_H

#include <openssl/ssl.h>
#include <stddef.h>

struct tls_files {
	const char *cert, *key;
	const char *ca;			/* clients need a certificate of it; NULL: they need none */
	const char *cluster_ca;		/* other nodes need one of it; NULL: no TLS to them */
};

/*
 * Our certificate and its key, for a context. Returns 0, or -1 with a message in @why. Before it,
 * ERR_clear_error().
 */
int tls_use_cert(SSL_CTX *context, const struct tls_files *f, char *why, size_t why_bytes);

/* The authorities that the other end's certificate may be of. The same. */
int tls_use_ca(SSL_CTX *context, const char *option, const char *path, char *why, size_t why_bytes);

/* What OpenSSL complains about; errors of the system aside, @otherwise says it better. */
const char *tls_reason(const char *otherwise);

#endif
