/* SPDX-License-Identifier: GPL-2.0 */
/* snapshot.h - a dump of the store of a moment while it is served: BGSAVE, SIGUSR1 */
#ifndef OKV_SNAPSHOT_H
#define OKV_SNAPSHOT_H

#include <sys/types.h>

#include "reactor.h"

/**
 * struct snapshot - see snapshot.c
 * @wanted:	one is to begin as soon as it can
 * @child:	the process that writes it; 0: there is none
 * @is_pinned:	the partitions are
 */
struct snapshot {
	struct reactors *reactors;
	bool wanted;
	pid_t child;
	bool is_pinned;
};

/* Of the first thread, each time it has woken: begins what is wanted, and ends what is over. */
void snapshot_run(struct snapshot *s);

/* There is no room to write any more: give the dump up. */
void snapshot_give_up(struct snapshot *s, const char *why);

#endif
