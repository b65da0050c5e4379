/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mailbox.h - mail from one worker to another: one sender, one receiver, whole batches, no locks
 *
 * A box has one place, for a chain of messages, the newest first. During a round of its loop the
 * sender collects messages in private (mailbox_add). At the end of the round it puts them into the
 * place, in front of the chain that is there, if the receiver has not yet taken it. The receiver
 * takes the whole chain and reverses it. So there is no capacity to exceed, and the order is kept.
 *
 * Only the sender puts something into the place, so a chain cannot go and come back between the two
 * halves of mailbox_post(). The sender never empties the place, not even for a moment: a receiver
 * that looked at that moment would have used up the wake that was meant for the chain.
 *
 * Concurrency: mailbox_post() of the one sender may run beside mailbox_take() of the one receiver;
 * nothing else may.
 *
 * Wake-ups: mailbox_post() returns true if the receiver must be woken. If it returns false, there
 * was a chain in the place, for which a wake was sent when it was posted. The receiver takes the
 * mail after each wake that it sees, and has not taken it since: that wake serves for both.
 */
#ifndef OKV_MAILBOX_H
#define OKV_MAILBOX_H

#include <stdalign.h>

#include "server/server.h"

struct mailbox {
	/* Shared. */
	alignas(64) struct kv_msg *place;
	/* Of the sender: messages that it has collected, the newest first. */
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

	/*
	 * Release: the receiver sees complete messages. Pairs with the acquire in mailbox_take().
	 */
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
