/* SPDX-License-Identifier: GPL-2.0 */
/*
 * model.h - a model of the store, which knows every right reply
 *
 * The model has for each key what was acknowledged, and the operations that were submitted and have
 * no answer. The store promises to do operations on a key in order, so a reply to a read is right
 * if it is the state when the read completes. After a cut, a key may be as acknowledged, or as
 * after the first, the first two, ... of the operations without an answer. The first read decides
 * which, and it stays. So a comparison with a list of at most a few states finds a lost
 * acknowledged write, a deletion that comes back, a value that was never written, and one that
 * changes without cause.
 */
#ifndef OKV_MODEL_H
#define OKV_MODEL_H

#include "sim_disk.h"
#include "store/store.h"

enum {
	NR_KEYS_MAX	= 160,
	NR_CLIENTS_MAX	= 24,
	NR_MAYBE_MAX	= 64,
	KEY_BYTES_MAX	= 96,
	NR_WITNESSES	= 4,	/* writes of a partition after the last lie, which show it */
};

enum run_kind { HONEST, ERRORS, LYING, MIXED };

/* A state of a key; the value follows from the version. */
struct version {
	bool exists;
	uint32_t number;
	uint32_t len;
	uint64_t expire_ms;
};

struct key {
	char name[KEY_BYTES_MAX];
	uint16_t name_len;
	uint16_t tenant;
	uint64_t hash;
	struct version now;			/* as acknowledged */
	struct version maybe[NR_MAYBE_MAX];	/* what it may be after a cut, besides */
	uint32_t nr_maybe;
	uint32_t nr_uncertain;			/* of them, from before the open: a read decides */
	uint32_t nr_open;			/* operations without an answer */
};

struct client {
	struct okv_op op;
	struct key *key;
	struct version to;	/* what a write makes of it */
	char *value;
	uint64_t submitted_ms;
	bool busy;
	bool checks_only;	/* a read after the open: decides */
	uint64_t number;
};

struct sim {
	uint64_t seed, random;
	enum run_kind kind;
	struct sim_disk disk;
	struct okv_store *store;
	uint32_t nr_keys, nr_clients, nr_partitions;
	uint32_t value_bytes_max, ttl_pct, apart_pct;
	bool compresses;		/* most of what it writes */
	uint32_t clears_one_in;		/* operations; 0: none */
	uint64_t hash_mask;
	uint64_t now_ms;
	struct key keys[NR_KEYS_MAX];
	struct client clients[NR_CLIENTS_MAX];
	uint32_t nr_busy;
	uint32_t next_version;
	uint64_t nr_submitted, nr_ops, nr_acknowledged, nr_opens;
	uint64_t nr_cuts, nr_corrupt, nr_refused_opens, nr_full, nr_outages;
	bool has_failed, trace, was_open;
	bool is_open;		/* okv_store_open() has returned */
	bool has_outages;
	uint64_t outage_ends_us;
	struct okv_scan scan;	/* a walk beside the clients, of which nothing is expected */
	bool scans;
	bool gave_up;		/* the store refused to open, rightly */
	bool refuses;		/* writes, after an error: wait until it takes them again */
};

/* Does the device lie at times? */
bool model_lies(const struct sim *s);

/* Print what is wrong, once in a run, which has failed then. */
__attribute__((format(printf, 2, 3)))
void model_fail(struct sim *s, const char *format, ...);

/* The value of that version. */
void model_make_value(char *to, uint32_t number, uint32_t len);

/* Check the answer to the operation of @c, and note what it says of the key. */
void model_answer(struct sim *s, struct client *c);

/* The store takes writes again: those that failed have not happened and never will. */
void model_takes_again(struct sim *s);

/* Gone: deleted, never written, or expired. */
bool model_is_gone(const struct version *v, uint64_t at_ms);

/* May a walk show this of a key? */
bool model_may_walk(const struct key *k, uint32_t value_len, uint64_t expire_ms);

#endif
