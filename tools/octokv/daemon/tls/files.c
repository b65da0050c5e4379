// SPDX-License-Identifier: GPL-2.0
/* files.c - see files.h */
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "files.h"

const char *tls_reason(const char *otherwise)
{
	unsigned long error = ERR_peek_error();
	const char *text = ERR_reason_error_string(error);

	if (ERR_SYSTEM_ERROR(error))
		return strerror(ERR_GET_REASON(error));
	return otherwise ? otherwise : text ? text : "OpenSSL does not say why";
}

/* Nobody is there to type it. */
static int no_password(char *to, int bytes, int writes, void *owner)
{
	(void)to;
	(void)bytes;
	(void)writes;
	(void)owner;
	return -1;
}

static int use_cert(SSL_CTX *context, const struct tls_files *f, char *why, size_t why_bytes)
{
	const X509 *cert;

	if (SSL_CTX_use_certificate_chain_file(context, f->cert) != 1) {
		snprintf(why, why_bytes, "--tls-cert-file %s: %s", f->cert,
			 tls_reason("it holds no certificate in PEM format"));
		return -1;
	}
	cert = SSL_CTX_get0_certificate(context);
	if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
		snprintf(why, why_bytes, "--tls-cert-file %s: the certificate has expired",
			 f->cert);
		return -1;
	}
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0) {
		snprintf(why, why_bytes, "--tls-cert-file %s: the certificate is not valid yet",
			 f->cert);
		return -1;
	}
	return 0;
}

static int use_key(SSL_CTX *context, const struct tls_files *f, char *why, size_t why_bytes)
{
	FILE *file = fopen(f->key, "re");
	EVP_PKEY *key;
	int result = -1;

	if (!file) {
		snprintf(why, why_bytes, "--tls-key-file %s: %s", f->key, strerror(errno));
		return -1;
	}
	key = PEM_read_PrivateKey(file, NULL, no_password, NULL);
	fclose(file);
	if (!key)
		snprintf(why, why_bytes, "--tls-key-file %s: it holds no private key, or one with "
			 "a password", f->key);
	else if (X509_check_private_key(SSL_CTX_get0_certificate(context), key) != 1)
		snprintf(why, why_bytes, "--tls-key-file %s: it is not the key of the certificate "
			 "in %s", f->key, f->cert);
	else if (SSL_CTX_use_PrivateKey(context, key) != 1)
		snprintf(why, why_bytes, "--tls-key-file %s: %s", f->key, tls_reason(NULL));
	else
		result = 0;
	EVP_PKEY_free(key);
	return result;
}

int tls_use_cert(SSL_CTX *context, const struct tls_files *f, char *why, size_t why_bytes)
{
	return use_cert(context, f, why, why_bytes) || use_key(context, f, why, why_bytes) ? -1 : 0;
}

int tls_use_ca(SSL_CTX *context, const char *option, const char *path, char *why, size_t why_bytes)
{
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);

	if (!names || SSL_CTX_load_verify_file(context, path) != 1) {
		snprintf(why, why_bytes, "%s %s: %s", option, path,
			 tls_reason("it holds no certificates in PEM format"));
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return -1;
	}
	/* Only a server tells them to the other end. */
	SSL_CTX_set_client_CA_list(context, names);
	return 0;
}
