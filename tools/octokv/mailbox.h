/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mailbox.h - mail from one worker to another: one sender, one receiver, whole batches, no locks
 *
 * A box has one place, for a chain of messages. The sender collects in private during a round of its loop (mailbox_add), and posts the chain at the
 * end of it. If the receiver has not yet taken the chain before, the sender takes that back, hangs the new one behind it, and
 * posts both: so there is no capacity to exceed, and the order is kept. The sender alone makes the place non-empty, which is why
 * storing after having emptied it loses nothing.
 *
 * Which operations may meet: mailbox_post() of the one sender with mailbox_take() of the one receiver; nothing else.
 *
 * Wake-ups: mailbox_post() returns true if the receiver must be woken. If it returns false the sender had found a chain in the place, for
 * which a wake was sent when it was posted and which the receiver has not seen. The receiver takes the mail after it has seen a wake, so
 * that wake, which is still on its way or not yet acted upon, serves for both.
 */
#ifndef OKV_MAILBOX_H
#define OKV_MAILBOX_H

#include <stdalign.h>

#include "server.h"

struct mailbox {
	/* Shared. */
	alignas(64) struct kv_msg *place;
	/* The sender's. */
	alignas(64) struct kv_msg *first;
	struct kv_msg *last;
	struct kv_msg *posted_last;	/* the end of the chain that was posted last */
};

static inline void mailbox_add(struct mailbox *box, struct kv_msg *msg)
{
	msg->next = NULL;
	if (box->first)
		box->last->next = msg;
	else
		box->first = msg;
	box->last = msg;
}

static inline bool mailbox_has_mail(const struct mailbox *box)
{
	return box->first;
}

static inline bool mailbox_post(struct mailbox *box)
{
	struct kv_msg *untaken;

	/* Acquire: what we read and link to is ours, but it was last in the place. Pairs with the release below, our own. */
	untaken = __atomic_exchange_n(&box->place, NULL, __ATOMIC_ACQUIRE);
	if (untaken) {
		box->posted_last->next = box->first;
		box->first = untaken;
	}
	box->posted_last = box->last;
	/* Release: the receiver sees the messages as they are. Pairs with the acquire in mailbox_take(). */
	__atomic_store_n(&box->place, box->first, __ATOMIC_RELEASE);
	box->first = box->last = NULL;
	return !untaken;
}

static inline struct kv_msg *mailbox_take(struct mailbox *box)
{
	if (!__atomic_load_n(&box->place, __ATOMIC_RELAXED))
		return NULL;
	/* Pairs with the release in mailbox_post(). */
	return __atomic_exchange_n(&box->place, NULL, __ATOMIC_ACQUIRE);
}

#endif
