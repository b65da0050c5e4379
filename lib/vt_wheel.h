/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vt_wheel.h - the queues that wait for virtual time
 *
 * A timer wheel whose clock is virtual time (MQFQ, ATC 2019, section 3.3). B buckets, each for b
 * units of virtual time and each a bitmask of leaves. The bucket of a queue that waits for
 * virtual time v is v / b modulo B. A queue that waits for more than B - 1 buckets from now is put
 * into the last of them, and woken early: a queue that is woken must look again, and may have to
 * come back. b and B are powers of two, so that the wheel goes on turning when virtual time wraps.
 *
 *	virtual time 5.3 b, B = 8:
 *
 *		bucket	0	1	2	3	4	5	6	7
 *		waits	8..9	9..10	10..11	11..12	12..	5.3..6	6..7	7..8
 *						       (last)	(now)
 *
 * There is no index to turn: virtual time is the index. A CPU that advances it, the advancer,
 * empties the buckets that were passed. From the bucket in which virtual time has arrived it wakes
 * the queues whose time has come. The paper rounds to whole buckets. Looking into the current one
 * costs a few instructions and makes a window T that is smaller than b safe: the slowest queue
 * itself may wait for a virtual time within the current bucket.
 *
 * Bits are only an index: the caller knows whether a queue waits, and for what.
 * A bit without a waiter is cleared when it is found. A waiter without a bit must not be:
 *
 *	1. waiter: W "I wait"; set its bit	advancer: W virtual time
 *	2. waiter: mb				advancer: mb
 *	3. waiter: R virtual time		advancer: R bits of the buckets passed
 *
 * One of the two sees the other. If the waiter does, it puts itself into another bucket or does
 * not wait at all.
 *
 * Most of the time no queue waits, and virtual time advances often. So bits are counted, and an
 * advancer that reads no count looks into no bucket. A bit is counted before it is set and until
 * after it is cleared, so at 1 and 3 the count stands for the bit.
 *
 * Every operation may run at the same time as any other, in process context.
 */
#ifndef MQFAIR_VT_WHEEL_H
#define MQFAIR_VT_WHEEL_H

#include <linux/cache.h>
#include <linux/gfp.h>
#include <linux/types.h>

#include "vt.h"

struct seq_file;
struct topology;

enum {
	VT_WHEEL_BUCKETS_MIN	= 2,
	VT_WHEEL_BUCKETS_MAX	= 1024,
	/* b times B as a power of two: virtual times that far apart must be comparable. */
	VT_WHEEL_REACH_SHIFT_MAX = 62,
};

/**
 * struct vt_wheel_geometry - b and B, which change together
 * @width_shift:	b is 1 << width_shift units of virtual time
 * @buckets_shift:	B is 1 << buckets_shift
 *
 * Their sum is at most VT_WHEEL_REACH_SHIFT_MAX.
 */
struct vt_wheel_geometry {
	u16 width_shift;
	u16 buckets_shift;
};

/**
 * struct vt_wheel_ops - the queues that wait
 * @is_due:	the queue's time has come, or it does not wait; may be asked of any leaf, any time
 * @wake:	its bit was found and cleared: wake it, if it waits
 */
struct vt_wheel_ops {
	bool (*is_due)(void *context, unsigned int leaf);
	void (*wake)(void *context, unsigned int leaf);
};

/**
 * struct vt_wheel - B buckets
 * @ops:	the queues that wait
 * @context:	for @ops
 * @nr_leaves:	bits in a bucket
 * @nr_words:	words in a bucket
 * @geometry:	b and B, as one word
 * @bits:	VT_WHEEL_BUCKETS_MAX buckets
 * @nr_bits:	at least as many as are set; what parks and wakes writes
 */
struct vt_wheel {
	const struct vt_wheel_ops *ops;
	void *context;
	unsigned int nr_leaves;
	unsigned int nr_words;
	struct vt_wheel_geometry geometry;
	unsigned long *bits;
	atomic_t nr_bits ____cacheline_aligned_in_smp;
};

/* Return: 0 or -ENOMEM. */
int vt_wheel_init(struct vt_wheel *w, unsigned int nr_leaves, struct vt_wheel_geometry geometry,
		  const struct vt_wheel_ops *ops, void *context, gfp_t gfp);
void vt_wheel_destroy(struct vt_wheel *w);

/**
 * vt_wheel_park() - a queue waits for a virtual time
 * @w:		wheel
 * @leaf:	the queue's; all callers for the same leaf hold one lock
 * @wake_vt:	what it waits for
 * @now_vt:	virtual time; read again after every barrier
 *
 * The caller has written down that the queue waits, and for what, before this.
 *
 * Ordering: full barrier after the bit was set. Pairs with that between the advance of virtual
 * time and vt_wheel_turn(). The caller looks at virtual time once more after this.
 */
void vt_wheel_park(struct vt_wheel *w, unsigned int leaf, u64 wake_vt, const u64 *now_vt);

/**
 * vt_wheel_turn() - virtual time has advanced
 * @w:		wheel
 * @old_vt:	from here
 * @new_vt:	to here
 *
 * A CPU that advances virtual time calls this for its step, after a full barrier. Several CPUs may
 * do so at the same time, with their steps in any order.
 */
void vt_wheel_turn(struct vt_wheel *w, u64 old_vt, u64 new_vt);

/**
 * vt_wheel_reshape() - change b and B
 * @w:		wheel
 * @geometry:	new ones
 *
 * Queues may be in the wrong buckets now: the caller must wake all that wait. Ordering: full
 * barrier; pairs with that in vt_wheel_park(), after which the geometry is looked at again.
 */
void vt_wheel_reshape(struct vt_wheel *w, struct vt_wheel_geometry geometry);

/* b and B, then a line per bucket that is not empty: how far it is ahead, and its queues. */
void vt_wheel_show(const struct vt_wheel *w, const struct topology *t, u64 now_vt,
		   struct seq_file *m);

#endif /* MQFAIR_VT_WHEEL_H */
