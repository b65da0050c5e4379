/* SPDX-License-Identifier: GPL-2.0 */
/*
 * history.h - what clients asked of two keys and what was answered, and whether it fits together
 *
 * As in test/daemon/linear.py: each entry happens at one moment between when it was sent and when
 * it was answered, and one server that does all of them in the order of these moments would give
 * the same answers. What has no answer has happened at any moment after it was sent, or never.
 */
#ifndef CLUSTER_HISTORY_H
#define CLUSTER_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NR_ENTRIES_MAX	= 64,
	NR_COMMANDS_MAX	= 2,
	NOTHING		= -1,		/* there is no such key */
};

enum verb { GET, SET, INCR, DEL };
extern const char *const verb_names[];

struct step {
	enum verb verb;
	uint32_t key;			/* 0 or 1 */
	int64_t number;			/* of SET */
	int64_t answer;			/* of GET and INCR a number or NOTHING; of DEL 0 or 1 */
};

/* One command, or a transaction of several. */
struct entry {
	uint64_t sent, answered;	/* UINT64_MAX: never */
	uint32_t nr;
	struct step steps[NR_COMMANDS_MAX];
};

struct history {
	struct entry entries[NR_ENTRIES_MAX];
	uint32_t nr;
};

void history_add(struct history *h, const struct entry *e);
bool history_fits(const struct history *h);

/* The entry as a text. */
void entry_print(const struct entry *e, char *text, size_t bytes);

#endif
