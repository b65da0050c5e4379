/* SPDX-License-Identifier: GPL-2.0 */
/*
 * helper.h - a thread that does what would hold up a reactor, one thing after the other
 *
 * One checks passwords (server/auth.h). In a node of a cluster, one changes the map
 * (cluster/keeper.h), and one sends keys to other nodes (cluster/sender.h).
 *
 * Reactors hand it messages, of which HELPER_MAX may wait. It sends each back through a mailbox
 * with a wake, at once or HELPER_LATE_MS later: a wrong password has to wait.
 */
#ifndef OKV_HELPER_H
#define OKV_HELPER_H

#include <liburing.h>
#include <pthread.h>

#include "mailbox.h"

enum {
	HELPER_MAX	= 1024,
	HELPER_LATE_MS	= 500,
};

struct helper {
	struct mailbox *to;		/* [MAX_WORKERS] */
	const int *ring_fds;		/* of the reactors, to wake them */
	struct io_uring ring;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	pthread_mutex_t working;	/* held while it works on a message */
	bool (*work)(struct kv_msg *msg);
	/* Under the mutex. */
	struct kv_msg *first, *last;
	uint32_t nr;			/* here, those that are late included */
	bool stopping;
	/* Of the thread: late messages, the oldest first, and when they are due. */
	struct { struct kv_msg *msg; uint64_t at_ns; } late[HELPER_MAX];
	uint32_t late_first, nr_late;
};

/*
 * Returns 0, or the error of the ring or the thread. @work does what a message asks; true: it goes
 * back late. @ring_fds is read when a message goes back.
 */
int helper_start(struct helper *h, const int *ring_fds, bool (*work)(struct kv_msg *msg));
void helper_stop(struct helper *h);

/* While it is paused, it does nothing that messages ask. */
void helper_pause(struct helper *h, bool pause);

/* From any thread. False: too many wait. */
bool helper_add(struct helper *h, struct kv_msg *msg);

#endif
