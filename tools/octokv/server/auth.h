/* SPDX-License-Identifier: GPL-2.0 */
/*
 * auth.h - passwords that clients give, checked without holding up anybody else
 *
 * Checking a password costs milliseconds on purpose. So it is a message to another thread
 * (worker.check()), and the connection takes no further command until the answer is back. Only a
 * password that was right before is known at once.
 *
 * Each address may give some wrong passwords a second. Beyond that its passwords are not looked at,
 * and the answer comes late. Addresses share a bucket if their keyed hash is the same; those of one
 * IPv6 network of 64 bits always do.
 */
#ifndef OKV_AUTH_H
#define OKV_AUTH_H

#include "server.h"

struct request;
struct tenant;

enum {
	AUTH_WRONG_PER_S	= 5,
	AUTH_WRONG_BURST	= 10,
};

enum auth_verdict { AUTH_UNKNOWN, AUTH_RIGHT, AUTH_WRONG, AUTH_TOO_MANY };

struct auth {
	struct kv_msg msg;
	struct request *request;
	struct tenant *tenant;		/* NULL: there is no such user */
	uint32_t arg;			/* the password */
	uint64_t now_ns;
	enum auth_verdict verdict;
	void (*then)(struct request *r);
};

/*
 * Makes the connection of @r one of the user, if argument @i is its password, and then calls
 * @then; else the request fails.
 */
void auth_begin(struct request *r, const char *name, size_t name_len, uint32_t i,
		void (*then)(struct request *r));

/* What another thread does: only one at a time may. True: return the message late. */
bool auth_check(struct kv_msg *msg);

#endif
