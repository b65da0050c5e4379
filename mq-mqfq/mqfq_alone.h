/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_alone.h - which flow is alone, so that it is not throttled against itself
 *
 * T holds a queue back so that other flows catch up. If only one flow has requests that wait, T
 * holds it back for nothing. With many queues that costs most of the device: all its requests are
 * tagged one after the other, so once they wait here, only 1 + T / size of them may go, in some of
 * the queues, before a throttled queue is woken. A wake-up takes microseconds, the device never has
 * enough requests to bring the others back at once, and it stays like this.
 *
 * So a flow that is alone has a window of MQFQ_ALONE_WINDOWS times T. It is not without limit, for
 * two reasons: a queue of the flow that is served late must not be left behind for ever; and when
 * another flow comes, the first one has to wait until virtual time has come near to what it has
 * been sent. That is what the theorems lose: if f was alone before m came, f may be ahead by the
 * larger window at that moment, and not by T.
 *
 * A candidate is the flow of a queue that was throttled. Each further time that a queue is
 * throttled for the same flow, one more queue is looked at, in the order of their numbers. The
 * flow is alone when all have been looked at, and none had an entry of another flow. It is a
 * candidate no more when an entry of another flow is found, or
 *
 *  - comes to a queue in which others wait,
 *  - is about to wait for a slot or a permit, or is ahead of virtual time.
 *
 * An entry that comes to an empty queue and goes at once leaves the candidate alone, since it does
 * not wait: a flow with a request now and then does not bring the throttling back. Like virtual
 * time, this does not see an entry that has come to an empty queue before that queue has run.
 *
 * Candidate and number of queues are one word. A queue is looked at under its lock, and counted
 * under it:
 *
 *	1. an entry came before: the look finds it.
 *	2. an entry comes after: its CPU has the lock after us, and sees the candidate that we saw.
 *
 * Another queue's lock is held then, so a queue whose lock is taken is looked at next time.
 *
 * Queues tell flows apart by MQFQ_FLOW_COUNTERS counters. If two share one, a flow may count as
 * alone although the other waits, until that one's next entry comes, which is compared by its
 * number. It is ahead of the other by the larger window then, and no more.
 */
#ifndef MQFAIR_MQFQ_ALONE_H
#define MQFAIR_MQFQ_ALONE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/minmax.h>

#include "flow.h"
#include "vt.h"

enum {
	MQFQ_ALONE_WINDOWS	= 64,
};

#define MQFQ_NOBODY	(-1LL)

/**
 * struct mqfq_alone - the candidate
 * @word:	number of a flow in the upper half, queues that were looked at in the lower;
 *		MQFQ_NOBODY if there is no candidate. Read whenever an entry comes to others, rarely
 *		written.
 */
struct mqfq_alone {
	atomic64_t word;
} ____cacheline_aligned_in_smp;

static inline bool mqfq_alone_is_of(s64 word, const struct flow *f)
{
	return (u32)((u64)word >> 32) == f->number;
}

/* An entry of @f waits, in a queue that is locked: another flow is not alone. */
static inline void mqfq_alone_not(struct mqfq_alone *a, const struct flow *f)
{
	s64 word = atomic64_read(&a->word);

	if (unlikely(word != MQFQ_NOBODY) && !mqfq_alone_is_of(word, f))
		atomic64_set(&a->word, MQFQ_NOBODY);
}

/* Is a flow alone, for all that the queues know? */
static inline bool mqfq_alone_is_known(const struct mqfq_alone *a, unsigned int nr_queues)
{
	return (u32)atomic64_read(&a->word) == nr_queues;
}

/* How far ahead of virtual time the flow's requests may go: @throttle_vt is T. */
static inline u64 mqfq_alone_window(const struct mqfq_alone *a, const struct flow *f,
				    unsigned int nr_queues, u64 throttle_vt)
{
	s64 word = atomic64_read(&a->word);

	if (likely(!mqfq_alone_is_of(word, f)) || (u32)word != nr_queues)
		return throttle_vt;
	return min(throttle_vt, VT_AHEAD_MAX / MQFQ_ALONE_WINDOWS) * MQFQ_ALONE_WINDOWS;
}

#endif /* MQFAIR_MQFQ_ALONE_H */
