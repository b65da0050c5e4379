/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vt.h - virtual time
 *
 * Virtual time counts service, not seconds. Its unit is a sixteenth of a byte read by a flow of
 * weight 100, so that the cost of 512 bytes at weight 10000 is still 82 units and is rounded by
 * little more than a percent.
 *
 * A flow of weight 1 that is alone on a drive of 10 GB/s pushes virtual time by 16e12 units a
 * second: 64 bits last for 13 days. So virtual times wrap, like jiffies, and are compared by
 * their difference. Two that are compared must be less than 2^63 units apart.
 *
 * Effective weights may be as small as 2^-16 (flow.h), where a byte costs 1e8 units, and 2^63 units
 * are 87 GiB. So no finish tag is put further than 2 * VT_AHEAD_MAX ahead of virtual time: what a
 * flow asks for beyond that is charged no more. At that weight virtual time moves by 2^60 units a
 * second at most, so that a tag which stays where it is counts as ahead after 8 seconds. Those who
 * keep tags that may stay bring them along (flow_keep_up()), several times a second.
 */
#ifndef MQFAIR_VT_H
#define MQFAIR_VT_H

#include <linux/types.h>

/* The virtual time of a queue that is empty: later than all others. No tag has this value. */
#define VT_NONE		U64_MAX

/* Units in a byte at weight 100, as a power of two. */
#define VT_SHIFT	4

/* No request costs more, and no flow that is further ahead is charged. */
#define VT_AHEAD_MAX	(1ULL << 61)

/* True if @a is later than @b; neither is VT_NONE. */
static inline bool vt_after(u64 a, u64 b)
{
	return (s64)(a - b) > 0;
}

/* The earlier of two, either of which may be VT_NONE. */
static inline u64 vt_min(u64 a, u64 b)
{
	if (a == VT_NONE)
		return b;
	if (b == VT_NONE)
		return a;
	return vt_after(a, b) ? b : a;
}

/* @a + @d, but never VT_NONE. */
static inline u64 vt_add(u64 a, u64 d)
{
	a += d;
	return a == VT_NONE ? 0 : a;
}

#endif /* MQFAIR_VT_H */
