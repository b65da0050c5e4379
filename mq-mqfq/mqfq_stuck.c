// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_stuck.c - a hardware queue whose requests do not come back hurts only itself
 *
 * A connection that retransmits, or one path of several, keeps its requests for seconds. They hold
 * slots, of which the device has D in all, and the tag of the first request that waits behind them
 * holds virtual time. So two things are done, both by mqfq_look(), which a work calls every
 * MQFQ_LOOK_MS while there are flows. No request pays for it, but for one count when it completes.
 *
 * Virtual time. A queue that could run, and has taken nothing for MQFQ_STUCK_NS, is stopped,
 * quiesced, or has leftovers of the driver. Its leaf leaves the mindicator, and it gives the slot
 * in its hand back, and its permits. So does a queue that is found stuck. A queue that is away
 * already may show a tag once more, and stop again: it ran once, or its throttling has ended.
 *
 * Slots. A queue is stuck if it has requests in flight, none has come back for MQFQ_STUCK_NS, and
 * the others go on: they had MQFQ_STUCK_ROUNDS times D back meanwhile, or, for MQFQ_STUCK_LONG_NS,
 * have nothing in flight and wait for what the queue holds. Then the slots that it holds are lent
 * to the others: as many tokens are added to the tree. So
 *
 *	tokens in the tree + ARMED queues + requests in flight = D + tokens lent
 *
 * While it is in debt the queue may have one more request in flight than its debt. So a queue that
 * was found stuck wrongly, or is not stuck any more, gets on, and a stuck one takes one slot from
 * the others. After that it is STUCK: it waits for a request of its own. Each request of the queue
 * that comes back pays first: its token is not put back, and the debt is one less.
 *
 * Nothing is lent twice: while a queue is in debt it cannot be found stuck again. So a queue has at
 * most D + 1 requests in flight that do not come back, and the device at most D more that do.
 *
 * A queue that comes home brings no past: its requests that waited with tags before virtual time
 * get virtual time as their tag, as a request that comes back from the driver does.
 *
 * The count of releases and the debt are one word, the tally, so that a release learns by its count
 * whether it has to pay, and exactly those requests pay that were in flight when the slots were
 * lent, or as many others:
 *
 *	1. look, under the queue's lock, so that nothing is taken: R count, in flight = taken -
 *	1. count
 *	2. look: cmpxchg (count, 0) -> (count, in flight). If a release came between, again from 1.
 *	3. a release counts itself and reads the debt by the same instruction. It comes before 2,
 *	   and is not in flight there, or after it, and pays.
 *
 * Why no wake-up is lost
 * ----------------------
 * STUCK is entered like the other waits, and left by a release:
 *
 *	1. queue: W STUCK			release: count and debt, W (debt one less)
 *	2. queue: mb				release: mb (the cmpxchg that pays)
 *	3. queue: R count and debt		release: R state
 *
 * One of the two sees the other. If the queue does, it goes on or looks again. Some release will
 * come, and find a debt: the queue has more in flight than its debt, which is not 0.
 *
 * The tokens that are lent are idle tokens: the CPU that looks hands them out, as mqfq_set_slots()
 * does. A queue gives its own token back when it leaves, and before it enters STUCK. A slow entry
 * of a STUCK queue is not parked: it would get a permit that it cannot use. The queue parks when it
 * comes home, which it does because the first payment recalls it.
 */
#include <linux/lockdep.h>
#include <linux/minmax.h>

#include "mqfq_policy.h"

enum {
	MQFQ_STUCK_ROUNDS	= 4,
};

#define MQFQ_STUCK_NS		(100 * 1000 * 1000ULL)
#define MQFQ_STUCK_LONG_NS	(5 * MQFQ_STUCK_NS)
#define MQFQ_ALONE_NS		(10 * MQFQ_STUCK_NS)

/* What one look sums up. */
struct mqfq_sums {
	u32 others_came, others_went;	/* entries that are not slow */
	u32 in_flight;		/* of queues that are not in debt */
	unsigned int nr_waiting;	/* queues with entries, of these */
};

/* Of all in flight of what was @taken; how many were lent by this call. */
static u32 mqfq_tally_lend(atomic64_t *tally, u32 taken)
{
	s64 old = atomic64_read(tally);
	u32 in_flight;

	do {
		in_flight = taken - mqfq_tally_released(old);
		if (mqfq_tally_lent(old))
			return 0;
		/* Pairs with atomic64_add_return() in mqfq_release(): see the steps above. */
	} while (!atomic64_try_cmpxchg(tally, &old, old | in_flight));
	return in_flight;
}

/*
 * A queue that is throttled keeps its leaf: it holds no other back, and what it waits for would not
 * come if no leaf was left.
 */
static void mqfq_leave(struct mqfq_queue *mq)
{
	mq->is_away = true;
	mqfq_disarm(mq);
	mqfq_give_up_passes(mq);
	if (atomic_read(&mq->state) == MQFQ_THROTTLED)
		return;
	if (mindicator_leaf(&mq->policy->vt, mq->leaf) != VT_NONE)
		mqfq_publish(mq, VT_NONE);
}

static void mqfq_lend(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	u32 n, nr_passes;

	spin_lock(&mq->lock);
	n = mqfq_tally_lend(&mq->tally, mqfq_nr_slots_taken(mq));
	nr_passes = mqfq_tally_lend(&mq->rt_tally, mq->rt.taken);
	if (n || nr_passes) {
		mqfq_leave(mq);
		mqfq_give_permits(mq, mqfq_tally_lend(&mq->slow_tally, mq->slow_taken));
		mqfq_give_passes(mq, nr_passes);
		token_tree_lend(&p->tokens, n);
		/* Tokens before bits. Pairs with ready_set_add() in mqfq_seek_slot(). */
		smp_mb();
		mqfq_share_out(mq);
		mq->nr_stuck++;
	}
	spin_unlock(&mq->lock);
}

/* Has the queue a run coming that does not come? */
static bool mqfq_is_stopped(const struct mqfq_queue *mq)
{
	int state = atomic_read(&mq->state);

	if (mq->rt.nr_passes)
		return true;
	if (!mq->nr)
		return false;
	return state >= MQFQ_ARMED ||
	       (state == MQFQ_RUNNABLE &&
		mindicator_leaf(&mq->policy->vt, mq->leaf) != VT_NONE);
}

static bool mqfq_is_stuck(const struct mqfq_policy *p, const struct mqfq_queue *mq,
			  const struct mqfq_sums *sums, u64 now_ns)
{
	const struct mqfq_seen *seen = &mq->seen;
	u64 still_ns = now_ns - seen->moved_ns;

	if (still_ns < MQFQ_STUCK_NS)
		return false;
	if (p->look.released - seen->others >= (u64)MQFQ_STUCK_ROUNDS * READ_ONCE(p->tokens.slots))
		return true;
	return still_ns >= MQFQ_STUCK_LONG_NS && sums->in_flight == mqfq_nr_in_flight(mq) &&
	       sums->nr_waiting > !!READ_ONCE(mq->nr);
}

/* Notes what has moved since the last look. */
static void mqfq_see(struct mqfq_policy *p, struct mqfq_queue *mq, struct mqfq_sums *sums,
		     u64 now_ns)
{
	u32 released = mqfq_nr_released(mq);
	struct mqfq_seen *seen = &mq->seen;
	u64 taken = READ_ONCE(mq->taken);

	p->look.released += released - seen->released;
	/* Or there was nothing in flight at the last look: what is now has come later. */
	if (released != seen->released || seen->released == (u32)seen->taken) {
		seen->moved_ns = now_ns;
		seen->others = p->look.released;
	}
	if (taken != seen->taken || (!READ_ONCE(mq->nr) && !READ_ONCE(mq->rt.nr_passes)))
		seen->taken_ns = now_ns;
	seen->released = released;
	seen->taken = taken;
	/* In this order: none seems to have gone that has not come. */
	sums->others_went += (u32)taken - READ_ONCE(mq->slow_taken);
	sums->others_came += (u32)READ_ONCE(mq->inserted) - READ_ONCE(mq->slow_inserted);
	if (!mqfq_tally_lent(atomic64_read(&mq->tally))) {
		sums->in_flight += mqfq_nr_in_flight(mq);
		sums->nr_waiting += READ_ONCE(mq->nr) > 0;
	}
}

/* Are slow requests all that there is? Then they may have more slots. */
static void mqfq_see_others(struct mqfq_policy *p, const struct mqfq_sums *sums, u64 now_ns)
{
	struct mqfq_look *look = &p->look;

	if (sums->others_came != look->nr_others || sums->others_came != sums->others_went ||
	    !look->others_ns)
		look->others_ns = now_ns;
	look->nr_others = sums->others_came;
	WRITE_ONCE(p->slow.is_alone, now_ns - look->others_ns >= MQFQ_ALONE_NS);
	/* Permits before bits. Pairs with ready_set_add() in mqfq_park(). */
	smp_mb();
	mqfq_recall_slow(p);
	mqfq_recall_rt(p);
}

void mqfq_look(struct mqfq_policy *p, u64 now_ns)
{
	struct mqfq_sums sums = {};
	unsigned int i;

	for (i = 0; i < p->nr_queues; i++)
		mqfq_see(p, &p->queue[i], &sums, now_ns);
	mqfq_see_others(p, &sums, now_ns);
	for (i = 0; i < p->nr_queues; i++) {
		struct mqfq_queue *mq = &p->queue[i];

		if (mqfq_is_stuck(p, mq, &sums, now_ns))
			mqfq_lend(mq);
		if (mqfq_end_rest(mq))
			continue;
		if (now_ns - mq->seen.taken_ns < MQFQ_STUCK_NS)
			continue;
		spin_lock(&mq->lock);
		if (mq->taken == mq->seen.taken && mqfq_is_stopped(mq)) {
			mqfq_leave(mq);
			mqfq_give_permits(mq, 0);
		}
		spin_unlock(&mq->lock);
	}
}
