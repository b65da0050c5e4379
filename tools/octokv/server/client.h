/* SPDX-License-Identifier: GPL-2.0 */
/*
 * client.h - the state of a client's connection, as its requests and its tenant see it
 *
 * conn.c, above them, keeps this state. Requests reach conn.c through the functions below and
 * through conn.replied().
 */
#ifndef OKV_CLIENT_H
#define OKV_CLIENT_H

#include "resp.h"
#include "server.h"
#include "store/mem.h"

struct command;
struct request;
struct watched;

enum {
	CONN_MAX_REQUESTS	= 128,
	CONN_MAX_FLYING		= 128,
	/* the number of requests, or operations, times the largest recent value */
	CONN_MAX_VALUES_BYTES	= 8 << 20,
	CONN_FIRST_VALUE_BYTES	= 256 << 10,	/* assumed for a new client */
	CONN_MAX_OUTPUT_BYTES	= 1 << 20,
	/* of all requests under way, with their operations; the last one may be larger */
	CONN_MAX_COMMAND_BYTES	= 1 << 20,
	CONN_NAME_BYTES		= 64,
	CONN_ADDRESS_BYTES	= 64,
};

struct conn {
	struct worker *worker;
	struct conn *next, *prev;		/* all of the worker */
	struct resp_parser parser;
	struct resp_out out;
	struct tenant *tenant;			/* NULL: not authenticated */
	struct request *first, *last;		/* in the order of their replies */
	uint32_t nr_requests;
	uint32_t nr_flying;			/* operations of all requests */
	uint64_t command_bytes;
	uint64_t reply_bytes;			/* values that wait for the replies before them */
	uint32_t value_bytes;			/* the largest recent value */
	uint32_t nr_wrong_passwords;
	uint8_t address[16];			/* of the peer, IPv6 or mapped to it */
	uint16_t peer_port;			/* 0: it came through a path */
	const struct command *last_command;
	bool is_stranger;			/* there are users, and it has not logged in */
	uint64_t stranger_since_ns;
	bool closing;				/* takes no input; closed after its output */
	bool dead;				/* the socket is gone */
	bool parked;				/* it waits for a token of its tenant */
	bool has_token;				/* of the tenant, for the next request */
	struct conn *next_parked;
	uint64_t parked_ns;			/* since then; 0: the next request has not waited */
	bool feeding;
	bool multi_is_open;			/* commands are kept until EXEC (multi.h) */
	bool multi_is_bad;			/* EXEC refuses them */
	int32_t multi_slot;			/* of their keys, in a cluster; -1: none so far */
	bool asking;				/* the next command, or transaction, is after ASK */
	struct request *kept, *last_kept;
	struct watched *watched;
	uint32_t nr_kept, nr_watched;
	uint64_t kept_bytes;
	void (*replied)(struct conn *c);	/* a reply is complete; set by conn_init() */
	uint64_t id;
	uint64_t since_ns;
	uint64_t moved_ns;			/* when input or output last moved */
	char name[CONN_NAME_BYTES];
	char library[CONN_NAME_BYTES];
	char library_version[CONN_NAME_BYTES];
};

/* Whether another operation may be sent to the store; the first always may. */
static inline bool conn_may_fly(const struct conn *c)
{
	return !c->nr_flying || (c->nr_flying < CONN_MAX_FLYING && mem_has_room() &&
				 (uint64_t)c->nr_flying * c->value_bytes < CONN_MAX_VALUES_BYTES);
}

/* An operation returned. It held @held_bytes of a value; @reply_bytes of them are for the reply. */
static inline void conn_landed(struct conn *c, uint32_t held_bytes, uint32_t reply_bytes)
{
	uint32_t decayed = c->value_bytes - c->value_bytes / 8;

	c->nr_flying--;
	c->reply_bytes += reply_bytes;
	c->value_bytes = held_bytes > decayed ? held_bytes : decayed;
}

/* All operations of a request are on their way: the next request may begin. */
static inline void conn_may_want_input(struct conn *c)
{
	if (!c->feeding && !c->dead)
		c->worker->ready(c->worker, c);
}

#endif
