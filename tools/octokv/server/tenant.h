/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tenant.h - the users: their keys and bounds, and the tag that their device requests carry
 *
 * Tenants come from the users file, a line each:
 *
 *	NAME ID HASH [weight=N] [bytes=SIZE] [keys=N] [connections=N] [requests=N] [admin]
 *		[compress]
 *
 * ID, 1 to 1023, is part of the identity of every key that the tenant stores: it stays when the
 * line is moved or the tenant is renamed. HASH is what `octokvd --hash-password` prints, an
 * Argon2id string with its salt. SIZE takes k, m, g, t. An option that is not given sets no limit,
 * except for keys, whose number memory bounds; the weight is then 100. Without a users file there
 * is one tenant, number 0, and no password.
 *
 * The tag is an I/O priority: class best effort, the ID as its hint, so that a scheduler on the
 * device tells tenants apart. Where none does, requests have no tag: those of several tenants can
 * share a write then.
 *
 * Bounds on connections and requests hold over all workers, by atomic counters. The store counts
 * bytes and keys per partition; each worker publishes the sums of its own partitions after each
 * write of the tenant. What a write may add is set aside from before it is sent until after that:
 * the length of its key and of its new value, whatever it replaces, and a key unless it can only
 * replace one.
 *
 * So what exceeds a bound is only this: the headers of records under way (some 100 bytes each);
 * what the last block of a long value leaves free (at most an eighth of it); and what is in a
 * partition while that moves from one worker to another. A write may be refused although it would
 * have fitted, if no more room is left than writes under way have set aside.
 */
#ifndef OKV_TENANT_H
#define OKV_TENANT_H

#include "server.h"

enum {
	MAX_TENANT_ID		= 1023,
	TENANT_NAME_BYTES	= 64,
	TENANT_HASH_BYTES	= 128,
	MAX_WRONG_PASSWORDS	= 3,	/* then the connection is closed */
};

/* What one worker counts. Only that worker writes it. */
struct tenant_usage {
	uint64_t nr_bytes;
	uint64_t nr_keys;
	uint64_t nr_requests;		/* of all time, those with operations */
};

/* Connections that wait for a token, in their order. */
struct tenant_queue {
	struct conn *first, *last;
	uint32_t nr;			/* atomic */
};

struct tenant {
	char name[TENANT_NAME_BYTES];
	char hash[TENANT_HASH_BYTES];
	/* A hash of the last right password, under a key of this process; all 0: none. */
	uint8_t known[16];
	uint16_t id;
	uint16_t ioprio;
	uint32_t weight;
	uint64_t max_bytes;		/* 0: no bound, in all of these */
	uint64_t max_keys;
	uint32_t max_connections;
	uint32_t max_requests;
	uint32_t nr_connections;	/* atomic */
	uint32_t nr_requests;		/* atomic */
	uint64_t nr_held_bytes;		/* atomic: set aside for writes under way */
	uint64_t nr_held_keys;		/* atomic */
	bool is_admin;			/* may see what concerns all */
	bool compresses;		/* its values; or all are: tenants.compress */
	bool is_gone;			/* it is not in the users file any more */
	struct tenant *next_gone;
	struct tenant_usage usage[MAX_WORKERS];
	struct tenant_queue parked[MAX_WORKERS];
};

/* @digest: of the lines of the users file, but for comments; 0: there is no file */
struct tenants {
	struct tenant **list;
	uint32_t nr;
	struct tenant *gone;		/* until the end: connections may still point there */
	bool have_users;
	bool have_tags;
	bool compress;			/* the values of all */
	uint64_t digest;
	uint8_t key[32];		/* of tenant.known */
};

/* If @path is NULL, all clients are one tenant. Returns 0, or -1 with a message in @why. */
int tenants_load(struct tenants *t, const char *path, char *why, size_t why_bytes);
void tenants_free(struct tenants *t);

/*
 * The users become those of @fresh, which is empty then. One with the ID of a user that is, or was,
 * there is that user, with other settings. Nothing may look at @t meanwhile.
 */
void tenants_replace(struct tenants *t, struct tenants *fresh);

/* Where there are several users, those without keys=N share what is left of @nr_keys evenly. */
void tenants_share_keys(struct tenants *t, uint64_t nr_keys);

/* Whether requests carry tags from now on. Nothing may look at @t meanwhile. */
void tenants_set_tags(struct tenants *t, bool have_tags);

/* The tenant of a connection before AUTH: NULL if there are users. */
struct tenant *tenants_default(struct tenants *t);
struct tenant *tenants_find(struct tenants *t, const char *name, size_t len);
struct tenant *tenants_find_id(struct tenants *t, int64_t id);

/* True if @password was the tenant's just before: takes no time. False: it may be all the same. */
bool tenant_knows(const struct tenants *t, const struct tenant *tenant, const char *password,
		  size_t len);

/* True if @password is the tenant's. Takes a millisecond or two. */
bool tenant_verify(struct tenants *t, struct tenant *tenant, const char *password, size_t len);

/*
 * Makes @c a connection of the tenant; false: the tenant has too many, and @c does not change. NULL
 * is no tenant.
 */
bool tenant_enter(struct conn *c, struct tenant *tenant);
void tenant_leave(struct conn *c);

/* Counts the connection among the strangers, or no more. */
void tenant_count_stranger(struct conn *c, bool is_stranger);

/*
 * Before each request. A tenant with a bound on requests has so many tokens, and a request needs
 * one, which is in conn.has_token then. False: there is none, and @c waits in a queue (conn.parked)
 * until it has one. Connections get tokens in their order, and workers with such queues in turn.
 */
bool tenant_request_begin(struct conn *c);

/* Gives a token back, or to a connection that waits for it. */
void tenant_request_end(struct worker *w, struct tenant *tenant);

/* @c asks for nothing now: it gives back the token that it has, and waits no more. */
void tenant_request_none(struct conn *c);

/*
 * Some times a second: one worker may have given back a token just before another one's connection
 * began to wait.
 */
void tenants_wake(struct worker *w);

/*
 * Sets aside what a write may add; false: there is no room for it. Call tenant_let_go() when what
 * it has added is published.
 */
bool tenant_hold_bytes(struct tenant *tenant, uint32_t nr_workers, uint64_t nr_bytes);
bool tenant_hold_key(struct tenant *tenant, uint32_t nr_workers);
void tenant_let_go(struct tenant *tenant, uint64_t nr_bytes, bool key);

/* Are the values that the tenant writes compressed, where that pays? */
bool tenant_compresses(const struct worker *w, const struct tenant *tenant);

/* Publishes what each tenant uses of the partitions of @w, after those have changed. */
void tenants_publish(struct worker *w);
void tenant_publish(struct worker *w, struct tenant *tenant);

/* What the tenant uses, over all workers. */
void tenant_sum(const struct tenant *tenant, uint32_t nr_workers, struct tenant_usage *sum);

int tenant_hash_password(const char *password, char *hash, size_t hash_bytes);

/*
 * Writes the weights to the sysfs of a scheduler: "weights" of mq-mqfq, one line per tenant.
 * Returns 0, or -1 with a message in @why.
 */
int tenants_write_weights(const struct tenants *t, const char *folder, char *why, size_t why_bytes);

/* 1: the scheduler has other weights; 0: the same; -1, with a message in @why: it has none. */
int tenants_weights_differ(const struct tenants *t, const char *folder, char *why,
			   size_t why_bytes);

#endif
