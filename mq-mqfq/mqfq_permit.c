// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_permit.c - what some entries need besides, or instead of, a slot
 *
 * Slow entries need a permit beside their slot (mqfq_policy.c). Entries of class RT that have one,
 * which is called a pass, need no slot (mqfq_rt.c). A device has a few permits of each kind. A
 * queue whose entry finds none is parked, by a bit, and is recalled by a flag that mqfq_has_work()
 * looks at. No other entry touches any of this. The claim is
 *
 *	while a permit is idle and a queue is parked, a recalled queue or a CPU is on the way
 *
 *  1. A queue parks by setting its bit, passing a full barrier and looking at the permits. A
 *     release gives the permit back, passes one and looks at the bits. One of the two sees the
 *     other. The CPU that does recalls the next queue in turn, and clears its bit.
 *  2. A recalled queue takes one permit if there is one, parks again if it needs more, and, if a
 *     permit is still idle, recalls the next one: it is on the way until then. So it is with a
 *     queue that was recalled in vain, since another one has taken the permit.
 *  3. More permits, by a larger D for example, are looked at like a release.
 *  4. A queue that is away (mqfq_stuck.c) gives its permits back, and is parked when it comes home.
 */
#include "mqfq_queue.h"

bool mqfq_permit_take(struct mqfq_permits *k, int limit)
{
	int nr_out = atomic_read(&k->nr_out);

	do {
		if (nr_out >= limit)
			return false;
		/* Pairs with itself and atomic_dec_return(): a permit is taken once. */
	} while (!atomic_try_cmpxchg(&k->nr_out, &nr_out, nr_out + 1));
	return true;
}

void mqfq_permit_recall(struct mqfq_policy *p, struct mqfq_permits *k, int limit)
{
	while (atomic_read(&k->nr_out) < limit) {
		int leaf = ready_set_next(&k->parked, READ_ONCE(k->last));
		struct mqfq_queue *mq;

		if (leaf == READY_SET_NONE)
			return;
		if (!ready_set_del(&k->parked, leaf))
			continue;
		WRITE_ONCE(k->last, leaf);
		mq = mqfq_queue_of_leaf(p, leaf);
		WRITE_ONCE(mq->is_recalled, true);
		p->ops->run(p->context, mq->number, MQFQ_ASIDE);
		return;
	}
}
