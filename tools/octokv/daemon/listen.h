/* SPDX-License-Identifier: GPL-2.0 */
/* listen.h - addresses to listen on, and errors in words that say what to do */
#ifndef OKV_LISTEN_H
#define OKV_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;

enum { LISTEN_CONNECTIONS_MAX = 1 << 20 };

/*
 * Connections are descriptors: raises their limit as far as allowed, and has the configuration
 * promise no more of them. @nr_spare are for other things.
 */
void listen_raise_limit(struct config *config, uint32_t nr_spare);

/* A listening socket that other reactors can share, or -1 with a message in @why. */
int listen_on(const char *address, uint16_t port, char *why, size_t why_bytes);

enum { LISTEN_ADDRESS_BYTES = 64 };

struct listen_at {
	char address[LISTEN_ADDRESS_BYTES];
	uint16_t port;
};

/*
 * Reads PORT, then the address is @address, or ADDRESS:PORT, or [ADDRESS]:PORT. Returns 0, or -1
 * with a message in @why.
 */
int listen_parse(const char *option, const char *text, const char *address, struct listen_at *at,
		 char *why, size_t why_bytes);

/* A socket of our own for @option, bound but not listening, or -1 with a message in @why. */
int listen_alone(const char *option, const struct listen_at *at, char *why, size_t why_bytes);

/*
 * A socket that listens on a path, with @mode, or -1 with a message in @why. A socket that is
 * there, and that nobody listens on, is replaced.
 */
int listen_on_path(const char *path, uint32_t mode, char *why, size_t why_bytes);

/*
 * False, with a message in @why, if another process listens there: SO_REUSEPORT alone would share
 * the port with another octokvd.
 */
bool listen_is_free(const char *address, uint16_t port, char *why, size_t why_bytes);

/* 1: loopback; 0: other machines can reach it; -1: no address, with a message in @why. */
int listen_is_loopback(const char *option, const char *address, char *why, size_t why_bytes);

/* What an errno of octokvd or of the store (store.h) means for a person who starts octokvd. */
const char *store_refusal(int error);
const char *ring_refusal(int error, char *text, size_t bytes);

#endif
