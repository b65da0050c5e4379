/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tag_share.h - how many of a hardware queue's scheduler tags the many may have
 *
 * One in four, and at least one, is out of their reach, so that there is a tag left for those
 * whom the scheduler wants to serve first. kyber keeps the same share for synchronous requests.
 */
#ifndef MQFAIR_TAG_SHARE_H
#define MQFAIR_TAG_SHARE_H

#include <linux/minmax.h>

enum {
	TAG_SHARE_SHIFT = 2,
};

/* Of @depth tags; never 0. */
static inline unsigned int tag_share(unsigned int depth)
{
	return max(1U, depth - max(1U, depth >> TAG_SHARE_SHIFT));
}

#endif /* MQFAIR_TAG_SHARE_H */
