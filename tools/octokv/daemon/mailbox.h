/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mailbox.h - mail from one worker to another: one sender, one receiver, whole batches, no locks
 *
 * A box has one place, for a chain of messages, the newest first. The sender collects in private during a round of its loop (mailbox_add), and hangs
 * what it has before the chain that is in the place, if the receiver has not yet taken that, at the end of the round. The receiver takes the whole chain
 * and turns it round. So there is no capacity to exceed, and the order is kept.
 *
 * The sender alone puts something into the place, so that a chain cannot go and come back between the two halves of mailbox_post(). It never empties the
 * place, not even for a moment: a receiver that looked at that moment would have used up the wake that was meant for the chain.
 *
 * Which operations may meet: mailbox_post() of the one sender with mailbox_take() of the one receiver; nothing else.
 *
 * Wake-ups: mailbox_post() returns true if the receiver must be woken. If it returns false there was a chain in the place, for which a wake was sent
 * when it was posted. The receiver takes the mail after each wake that it sees, and has not taken since: that wake serves for both.
 */
#ifndef OKV_MAILBOX_H
#define OKV_MAILBOX_H

#include <stdalign.h>

#include "server/server.h"

struct mailbox {
	/* Shared. */
	alignas(64) struct kv_msg *place;
	/* The sender's: what it has collected, the newest first. */
	alignas(64) struct kv_msg *newest;
	struct kv_msg *oldest;
};

static inline void mailbox_add(struct mailbox *box, struct kv_msg *msg)
{
	msg->next = box->newest;
	if (!box->newest)
		box->oldest = msg;
	box->newest = msg;
}

static inline bool mailbox_has_mail(const struct mailbox *box)
{
	return box->newest;
}

static inline bool mailbox_post(struct mailbox *box)
{
	struct kv_msg *untaken = __atomic_load_n(&box->place, __ATOMIC_RELAXED);

	/* Release: the receiver sees the messages as they are. Pairs with the acquire in mailbox_take(). */
	do {
		box->oldest->next = untaken;
	} while (!__atomic_compare_exchange_n(&box->place, &untaken, box->newest, false,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	box->newest = box->oldest = NULL;
	return !untaken;
}

static inline struct kv_msg *mailbox_take(struct mailbox *box)
{
	struct kv_msg *taken, *chain = NULL;

	if (!__atomic_load_n(&box->place, __ATOMIC_RELAXED))
		return NULL;
	/* Pairs with the release in mailbox_post(). */
	taken = __atomic_exchange_n(&box->place, NULL, __ATOMIC_ACQUIRE);
	while (taken) {
		struct kv_msg *older = taken->next;

		taken->next = chain;
		chain = taken;
		taken = older;
	}
	return chain;
}

#endif
