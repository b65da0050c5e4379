/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tenant.h - who a client is, what it may use, and the tag that its device requests carry
 *
 * Tenants come from the users file, a line each:
 *
 *	NAME ID HASH [weight=N] [bytes=SIZE] [keys=N] [connections=N] [requests=N]
 *
 * ID, 1 to 1023, is part of the identity of every key that the tenant stores: it stays when the line is moved or the tenant is renamed. HASH is what
 * `octokvd --hash-password` prints, an Argon2id string with its salt. SIZE takes k, m, g, t. What is not given is not limited; weight is 100.
 * Without a users file there is one tenant, number 0, and nobody has to say a password.
 *
 * The tag is an I/O priority: class best effort, the ID as its hint, so that a scheduler on the device tells tenants apart.
 *
 * Bounds on connections and requests hold over all workers, by atomic counters. Bytes and keys are counted by the store per partition; each worker
 * publishes the sums of its own partitions after each write of the tenant. What a write may add to them is set aside from before it is sent to after that:
 * the length of its key and of its new value, whatever it replaces, and a key unless it only ever replaces one. So a bound is not exceeded, but for
 * the headers of records under way (some 100 bytes each) and what the last block of a long value leaves free (at most an eighth of it), and by what is in a partition
 * while that moves from a worker to another one. A write that comes when no more than what is under way is left may be refused although it would have fitted.
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

/* One worker's view: written by it alone. */
struct tenant_usage {
	uint64_t nr_bytes;
	uint64_t nr_keys;
	/* of all time: the balancer tells dense tenants from sparse ones by it */
	uint64_t nr_requests;
};

struct tenant {
	char name[TENANT_NAME_BYTES];
	char hash[TENANT_HASH_BYTES];
	/* of the password that was right last, under a key of this process; all 0: none */
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
	struct tenant_usage usage[MAX_WORKERS];
};

struct tenants {
	struct tenant *list;
	uint32_t nr;
	bool have_users;
	uint8_t key[32];		/* of tenant.known */
};

/* NULL @path: the one tenant that everybody is. Returns 0, or -1 with a message in @why. */
int tenants_load(struct tenants *t, const char *path, char *why, size_t why_bytes);
void tenants_free(struct tenants *t);

/* Who a connection is before it says so: NULL if there are users. */
struct tenant *tenants_default(struct tenants *t);
struct tenant *tenants_find(struct tenants *t, const char *name, size_t len);

/* True if @password is the tenant's. Takes a millisecond or two for a password that was not right just before. */
bool tenant_verify(struct tenants *t, struct tenant *tenant, const char *password, size_t len);

/* Makes @c one of the tenant's connections; false: it has too many, and @c stays what it was. NULL is nobody. */
bool tenant_enter(struct conn *c, struct tenant *tenant);
void tenant_leave(struct conn *c);

/* Around each request; false: the tenant has too many under way, and @c waits (conn.parked). */
bool tenant_request_begin(struct conn *c);
void tenant_request_end(struct tenant *tenant);

/* Sets aside what a write may add; false: there is no room for it. tenant_let_go() when what it has added is published. */
bool tenant_hold_bytes(struct tenant *tenant, uint32_t nr_workers, uint64_t nr_bytes);
bool tenant_hold_key(struct tenant *tenant, uint32_t nr_workers);
void tenant_let_go(struct tenant *tenant, uint64_t nr_bytes, bool key);

/* Publishes what each uses of the partitions of @w, after those have changed. */
void tenants_publish(struct worker *w);
void tenant_publish(struct worker *w, struct tenant *tenant);

/* What it uses, over all workers. */
void tenant_sum(const struct tenant *tenant, uint32_t nr_workers, struct tenant_usage *sum);

int tenant_hash_password(const char *password, char *hash, size_t hash_bytes);

/* Writes the weights to a scheduler's sysfs: "weights" of mq-mqfq, one line per tenant. Returns 0, or -1 with a message in @why. */
int tenants_write_weights(const struct tenants *t, const char *folder, char *why, size_t why_bytes);

#endif
