/* SPDX-License-Identifier: GPL-2.0 */
/*
 * k2_policy.h - which request goes next, and how many may be at the device
 *
 * The policy of mq-k2 without the block layer: nine queues of list entries and a count of the
 * entries that are in flight. It never sleeps, allocates or reads a clock, and it does not know
 * what an entry is part of. KUnit, the user-space build under sanitizers and the kernel module
 * run the same code.
 *
 * Life of an entry:
 *
 *	insert --> queued --> take --> in flight --> release --> gone, or insert again
 *	             |                  ^
 *	             |                  +-- pass: nothing waits, and there is room
 *	             |
 *	             +-----> remove --> gone (merged into another entry)
 *
 * Which operations may run at the same time ("lock": both need the caller's one lock; "free": any
 * CPU, any context):
 *
 *			insert	remove	pick	take	release	has_work set_max
 *	insert		lock	lock	lock	lock	free	free	free
 *	remove			lock	lock	lock	free	free	free
 *	pick				lock	lock	free	free	free
 *	take					lock	free	free	free
 *	release						free	free	free
 *	has_work						free	free
 *	set_max							caller's mutex
 *	pass: free with all
 *
 * The lock-free columns are what lets a completion in hard interrupt context give its slot back,
 * and a request go without the lock while nothing waits. Each of the lock-free operations says what
 * it guarantees to the others; k2_policy.c proves that no wake-up is lost.
 */
#ifndef MQFAIR_K2_POLICY_H
#define MQFAIR_K2_POLICY_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/types.h>

enum {
	/* Queues 0 to 7 are the eight real-time levels, 0 is the most urgent. */
	K2_NR_RT_QUEUES		= 8,
	/* Everything else: best effort, idle, no class at all. */
	K2_BE_QUEUE		= K2_NR_RT_QUEUES,
	K2_NR_QUEUES		= K2_NR_RT_QUEUES + 1,
	/* k2_policy_pick(): nothing waits. */
	K2_NO_QUEUE		= -1,

	K2_MAX_INFLIGHT_MIN	= 1,
	K2_MAX_INFLIGHT_MAX	= 65535,
};

/**
 * struct k2_policy - queues and slots of one device
 * @fifo:		the queues, oldest entry first; lock
 * @nr_queued:		length of each queue; lock
 * @nr_queued_total:	sum of @nr_queued; lock
 * @be_max_delay_ns:	best effort that has waited longer than this goes next; 0: never; lock
 * @nonempty:		bit per queue that has an entry; written under the lock, read anywhere
 * @max_inflight:	how many entries may be in flight; read anywhere
 * @inflight:		how many entries are in flight; rises and falls anywhere
 */
struct k2_policy {
	struct list_head fifo[K2_NR_QUEUES];
	u32 nr_queued[K2_NR_QUEUES];
	u32 nr_queued_total;
	u64 be_max_delay_ns;

	/* All CPUs look at these, and they change only when requests begin or cease to wait. */
	u32 nonempty ____cacheline_aligned_in_smp;
	u32 max_inflight;
	/* All CPUs change this, twice per request. */
	atomic_t inflight ____cacheline_aligned_in_smp;
};

void k2_policy_init(struct k2_policy *p, u32 max_inflight);

/**
 * k2_policy_insert() - queue an entry
 * @p:		policy; lock held
 * @entry:	entry that is on no list
 * @queue:	queue index
 * @at_head:	ahead of its queue instead of behind it; never ahead of a more urgent queue
 */
void k2_policy_insert(struct k2_policy *p, struct list_head *entry, unsigned int queue,
		      bool at_head);

/**
 * k2_policy_remove() - take an entry out of its queue without sending it
 * @p:		policy; lock held
 * @entry:	entry queued on @queue
 * @queue:	queue index
 */
void k2_policy_remove(struct k2_policy *p, struct list_head *entry, unsigned int queue);

/**
 * k2_policy_pick() - which queue's head goes next
 * @p:		policy; lock held
 * @now_ns:	time now, any clock; used if @be_max_delay_ns is set
 * @be_at_ns:	when the head of the best-effort queue was queued, same clock; used likewise
 *
 * Strict priority, unless the best-effort head has waited longer than be_max_delay_ns.
 *
 * Return: queue index, or K2_NO_QUEUE if nothing waits.
 */
int k2_policy_pick(const struct k2_policy *p, u64 now_ns, u64 be_at_ns);

/**
 * k2_policy_take() - remove the head of a queue and count it as in flight
 * @p:		policy; lock held since k2_policy_pick() returned @queue
 * @queue:	queue index from k2_policy_pick()
 *
 * An old entry, too, gets the next slot and not an extra one.
 *
 * Return: the entry, or NULL if the bound is reached.
 */
struct list_head *k2_policy_take(struct k2_policy *p, unsigned int queue);

/*
 * Counts @nr entries as in flight, if there is room for all of them. 0 is a guess: the exchange
 * that finds it wrong has the cache line for the next one. A load before it would move it twice.
 */
static inline bool k2_policy_take_slots(struct k2_policy *p, u32 nr)
{
	int inflight = 0;

	do {
		if (inflight + nr > READ_ONCE(p->max_inflight))
			return false;
		/* Pairs with atomic_dec_return() in k2_policy_release(): one order of the count. */
	} while (!atomic_try_cmpxchg(&p->inflight, &inflight, inflight + nr));
	return true;
}

/**
 * k2_policy_pass() - count entries as in flight that were never queued
 * @p:	policy
 * @nr:	how many
 *
 * Two entries that come at the same time have no order: one of them may find that nothing waits
 * while the other is being queued.
 *
 * Return: true if nothing waited and there were slots for all; else no slot was taken.
 */
static inline bool k2_policy_pass(struct k2_policy *p, u32 nr)
{
	return !READ_ONCE(p->nonempty) && k2_policy_take_slots(p, nr);
}

/*
 * True if the choice of the next entry depends on the time: only then must the caller read a
 * clock.
 */
static inline bool k2_policy_needs_time(const struct k2_policy *p)
{
	return p->be_max_delay_ns && (p->nonempty & (1U << K2_BE_QUEUE));
}

/* The oldest best-effort entry; lock held, and the queue is not empty. */
static inline struct list_head *k2_policy_be_head(const struct k2_policy *p)
{
	return p->fifo[K2_BE_QUEUE].next;
}

/*
 * True if an entry that is queued now cannot go at once, because the slots are taken; lock held.
 */
static inline bool k2_policy_will_wait(const struct k2_policy *p)
{
	return (u32)atomic_read(&p->inflight) + p->nr_queued_total >= READ_ONCE(p->max_inflight);
}

/**
 * k2_policy_has_work() - may an entry go now?
 * @p: policy
 *
 * Ordering: if the answer is no because of the bound, all earlier writes of the caller (the entry
 * that it queued, the bound that it raised) are visible to each k2_policy_release() whose slot this
 * call did not see.
 *
 * Return: true if an entry waits and the bound is not reached.
 */
static inline bool k2_policy_has_work(const struct k2_policy *p)
{
	if (!READ_ONCE(p->nonempty))
		return false;
	if ((u32)atomic_read(&p->inflight) < READ_ONCE(p->max_inflight))
		return true;

	/*
	 * About to say no. Order the caller's insert before a second look at count and bound.
	 * Pairs with atomic_dec_return() in k2_policy_release(): either this CPU sees the slot, or
	 * that one the entry. Pairs with smp_mb() in k2_policy_set_max_inflight(): likewise.
	 */
	smp_mb();
	return (u32)atomic_read(&p->inflight) < READ_ONCE(p->max_inflight);
}

/**
 * k2_policy_release() - an entry is no longer in flight
 * @p: policy
 *
 * Return: true if the bound was reached before this call and entries wait: the caller must wake
 * them.
 */
static inline bool k2_policy_release(struct k2_policy *p)
{
	/*
	 * Full barrier. Pairs with smp_mb() in k2_policy_has_work() and in
	 * k2_policy_set_max_inflight().
	 */
	u32 left = atomic_dec_return(&p->inflight);

	return left + 1 == READ_ONCE(p->max_inflight) && READ_ONCE(p->nonempty);
}

/**
 * k2_policy_set_max_inflight() - change the bound
 * @p:			policy
 * @max_inflight:	new bound
 *
 * The caller must run the queues afterwards, so that k2_policy_has_work() is asked again, also when
 * the bound went down: a k2_policy_release() that saw the old bound may have woken no queue.
 */
static inline void k2_policy_set_max_inflight(struct k2_policy *p, u32 max_inflight)
{
	WRITE_ONCE(p->max_inflight, max_inflight);
	/*
	 * Bound before count and mask. Pairs with atomic_dec_return() in k2_policy_release() and
	 * with smp_mb() in k2_policy_has_work().
	 */
	smp_mb();
}

#endif /* MQFAIR_K2_POLICY_H */
