// SPDX-License-Identifier: GPL-2.0
/* secure.c - see secure.h */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "secure.h"

static struct {
	pthread_mutex_t mutex;
	SSL_CTX *context;		/* under the mutex */
} nodes = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static const char closed[] = "the connection was closed";

/* ---- for all connections ---- */

SSL_CTX *secure_read(const struct tls_files *files, char *why, size_t why_bytes)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_client_method());
	if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION)) {
		snprintf(why, why_bytes, "OpenSSL has no TLS: %s", tls_reason(NULL));
		SSL_CTX_free(context);
		return NULL;
	}
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (!tls_use_cert(context, files, why, why_bytes) &&
	    !tls_use_ca(context, "--tls-cluster-ca-cert-file", files->cluster_ca, why, why_bytes))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

void secure_use(SSL_CTX *context)
{
	SSL_CTX *old;

	pthread_mutex_lock(&nodes.mutex);
	old = nodes.context;
	nodes.context = context;
	pthread_mutex_unlock(&nodes.mutex);
	/* Connections have references of their own. */
	SSL_CTX_free(old);
}

bool secure_is_on(void)
{
	bool is_on;

	pthread_mutex_lock(&nodes.mutex);
	is_on = nodes.context;
	pthread_mutex_unlock(&nodes.mutex);
	return is_on;
}

/* ---- a connection ---- */

/* The certificate has to be for that host. The other node is told a name, but no address. */
static bool set_host(SSL *ssl, const char *host)
{
	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
		return true;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
			       X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) && SSL_set_tlsext_host_name(ssl, host);
}

bool secure_open(struct secure *s, int fd, const char *host)
{
	pthread_mutex_lock(&nodes.mutex);
	s->ssl = nodes.context ? SSL_new(nodes.context) : NULL;
	pthread_mutex_unlock(&nodes.mutex);
	return s->ssl && set_host(s->ssl, host) && SSL_set_fd(s->ssl, fd);
}

void secure_close(struct secure *s)
{
	SSL_free(s->ssl);
	s->ssl = NULL;
}

/* What is wrong with the other node's certificate. */
static const char *refusal(long result)
{
	switch (result) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "its certificate is not for this host";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		return "its certificate is of no authority of --tls-cluster-ca-cert-file";
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "its certificate has expired";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "its certificate is not valid yet";
	default:
		return X509_verify_cert_error_string(result);
	}
}

/* Why OpenSSL refuses to go on. */
static const char *complaint(const struct secure *s)
{
	unsigned long error = ERR_peek_error();

	switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
		return refusal(SSL_get_verify_result(s->ssl));
	case SSL_R_WRONG_VERSION_NUMBER:
		return "it does not speak TLS";
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return closed;
	default:
		return tls_reason(NULL);
	}
}

/* What the last function of OpenSSL has done, which returned @result and left @error in errno. */
static enum secure_step judge(struct secure *s, int result, int error)
{
	switch (SSL_get_error(s->ssl, result)) {
	case SSL_ERROR_NONE:
		return SECURE_DONE;
	case SSL_ERROR_WANT_READ:
		s->waits_for = POLLIN;
		return SECURE_WAITS;
	case SSL_ERROR_WANT_WRITE:
		s->waits_for = POLLOUT;
		return SECURE_WAITS;
	case SSL_ERROR_ZERO_RETURN:
		s->why = closed;
		return SECURE_FAILED;
	case SSL_ERROR_SYSCALL:
		s->why = error ? strerror(error) : closed;
		return SECURE_FAILED;
	default:
		s->why = complaint(s);
		return SECURE_FAILED;
	}
}

enum secure_step secure_shake_hands(struct secure *s)
{
	int result;

	ERR_clear_error();
	errno = 0;
	result = SSL_connect(s->ssl);
	return judge(s, result, errno);
}

enum secure_step secure_receive(struct secure *s, void *to, size_t *len)
{
	int result;

	ERR_clear_error();
	errno = 0;
	result = SSL_read_ex(s->ssl, to, *len, len);
	return judge(s, result, errno);
}

enum secure_step secure_send(struct secure *s, const void *from, size_t *len)
{
	int result;

	ERR_clear_error();
	errno = 0;
	result = SSL_write_ex(s->ssl, from, *len, len);
	return judge(s, result, errno);
}
