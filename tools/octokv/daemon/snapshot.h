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
 * @given_up:	it was killed, and has not ended yet
 * @unpins:	it has ended, and partitions are still pinned
 */
struct snapshot {
	struct reactors *reactors;
	bool wanted;
	pid_t child;
	bool given_up, unpins;
};

/* Why the kernel with this release, as of uname(), is too old for it; NULL: it is not. */
const char *snapshot_refusal(const char *release);

/* Of the first thread, each time it has woken: begins what is wanted, and ends what is over. */
void snapshot_run(struct snapshot *s);

/* There is no room to write any more: kill it. snapshot_run() takes note of its end. */
void snapshot_give_up(struct snapshot *s, const char *why);

/* octokvd ends: so does a dump under way. */
void snapshot_end(struct snapshot *s);

#endif
