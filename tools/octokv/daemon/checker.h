/* SPDX-License-Identifier: GPL-2.0 */
/*
 * checker.h - the thread that checks passwords (server/auth.h), so that no reactor does
 *
 * Reactors hand it messages, of which CHECKER_MAX may wait. It sends each back through a mailbox
 * with a wake, at once or a little later.
 */
#ifndef OKV_CHECKER_H
#define OKV_CHECKER_H

#include <liburing.h>
#include <pthread.h>

#include "mailbox.h"

enum { CHECKER_MAX = 1024 };

struct checker {
	struct mailbox *to;		/* [MAX_WORKERS] */
	const int *ring_fds;		/* of the reactors, to wake them */
	struct io_uring ring;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t more;
	pthread_mutex_t checking;	/* held while a password is being checked */
	/* Under the mutex. */
	struct kv_msg *first, *last;
	uint32_t nr;			/* here, those that are late included */
	bool stopping;
	/* Of the thread: late messages, the oldest first, and when they are due. */
	struct { struct kv_msg *msg; uint64_t at_ns; } late[CHECKER_MAX];
	uint32_t late_first, nr_late;
};

/* Returns 0, or the error of the ring or the thread. @ring_fds is read when a message goes back. */
int checker_start(struct checker *c, const int *ring_fds);
void checker_stop(struct checker *c);

/* While it is paused, it does not look at users. */
void checker_pause(struct checker *c, bool pause);

/* From any thread. False: too many wait. */
bool checker_add(struct checker *c, struct kv_msg *msg);

#endif
