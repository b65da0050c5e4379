/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ready_set.h - the queues that wait for a slot
 *
 * A bit per queue, at the queue's leaf number, so that the queues near to one are the bits near
 * to it (MQFQ, ATC 2019, section 3.3). Every operation may run at the same time as any other, in
 * any context.
 *
 * A machine with more queues than a word has bits has a summary word beside the bits: how many of
 * them are set. A queue is counted before its bit is set, and no longer counted after its bit is
 * clear, so the count is never too small:
 *
 *	1. A queue adds itself: count 1, bit clear. A releaser sees "not empty", finds no bit, and
 *	   goes on as if the set were empty. The queue has not yet looked for a token: it will.
 *	2. The bit is set. The releaser finds it.
 *	3. The queue is taken out: bit clear, count still 1. As 1.
 *	4. The count is 0. No bit is set, but for queues that have yet to look for a token.
 */
#ifndef MQFAIR_READY_SET_H
#define MQFAIR_READY_SET_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/gfp.h>

#include "topology.h"

struct seq_file;

enum {
	/* ready_set_nearest(): no queue waits. */
	READY_SET_NONE = -1,
};

/**
 * struct ready_set - a bitmask of leaves
 * @topology:	what near means
 * @bits:	the mask, on cache lines of its own
 * @nr:		the summary word, behind the mask; NULL if one word has all bits
 */
struct ready_set {
	const struct topology *topology;
	unsigned long *bits;
	atomic_t *nr;
};

/* Return: 0 or -ENOMEM. */
int ready_set_init(struct ready_set *r, const struct topology *topology, gfp_t gfp);
void ready_set_destroy(struct ready_set *r);

/**
 * ready_set_add() - a queue waits from now on
 * @r:		ready set
 * @leaf:	the queue's
 *
 * Nothing is written if it is in the set already, so that the line stays with all that read it.
 *
 * Ordering: full barrier, before the bit is read and after it is written. What the caller reads
 * next pairs with what a releaser did before ready_set_nearest(): of a queue that adds itself and
 * then looks for a token, and a releaser that puts a token and then looks for a queue, at least one
 * finds the other. And what the caller wrote before pairs with what a releaser reads after
 * ready_set_del(): a queue that finds its bit set, and a releaser that clears it after that.
 */
static inline void ready_set_add(struct ready_set *r, unsigned int leaf)
{
	/* Pairs with test_and_clear_bit() in ready_set_del(). */
	smp_mb();
	if (test_bit(leaf, r->bits))
		return;
	if (r->nr)
		atomic_inc(r->nr);
	/*
	 * Counted before set, and both before what the caller reads: a full barrier. Pairs with the
	 * barrier of ready_set_nearest()'s caller, mqfq_release().
	 */
	if (test_and_set_bit(leaf, r->bits) && r->nr)
		atomic_dec(r->nr);
}

/* Return: true if it was in the set, and this call took it out. */
static inline bool ready_set_del(struct ready_set *r, unsigned int leaf)
{
	if (!test_bit(leaf, r->bits) || !test_and_clear_bit(leaf, r->bits))
		return false;
	/* After the bit: test_and_clear_bit() is a full barrier. */
	if (r->nr)
		atomic_dec(r->nr);
	return true;
}

/**
 * ready_set_nearest() - a queue that waits, as near to @leaf as there is one
 * @r:		ready set
 * @leaf:	itself first, then its neighbours on the core, the cache, the socket, and the rest;
 *		among equals the next one upwards, round the corner
 *
 * Return: leaf, or READY_SET_NONE. It is still in the set.
 */
int ready_set_nearest(const struct ready_set *r, unsigned int leaf);

/**
 * ready_set_next() - a queue that waits, each in its turn
 * @r:		ready set
 * @leaf:	of the last one, which comes last
 *
 * Return: the next leaf upwards, round the corner, or READY_SET_NONE. It is still in the set.
 */
int ready_set_next(const struct ready_set *r, unsigned int leaf);

/* True if no queue waits. */
static inline bool ready_set_is_empty(const struct ready_set *r)
{
	return r->nr ? !atomic_read(r->nr) : !READ_ONCE(r->bits[0]);
}

/* How many queues are in the set. */
static inline unsigned int ready_set_nr(const struct ready_set *r)
{
	return r->nr ? (unsigned int)atomic_read(r->nr) : hweight_long(READ_ONCE(r->bits[0]));
}

/* The queues' numbers. */
void ready_set_show(const struct ready_set *r, struct seq_file *m);

#endif /* MQFAIR_READY_SET_H */
