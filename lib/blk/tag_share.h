/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tag_share.h - a part of each hardware queue's scheduler tags that not everyone may use
 *
 * A request needs a scheduler tag before its scheduler sees it. Tags are given in the order of
 * arrival, so a task with many requests could take them all, and the fairness of the scheduler
 * would end at the tag allocator. Each scheduler keeps one tag in four, and at least one, for the
 * requests that it wants to serve first. Its limit_depth says which task is limited; kyber keeps
 * the same share for synchronous requests (block/kyber-iosched.c).
 *
 * The tags of a hardware queue are bits in words. What limit_depth says counts for all of them
 * together on some kernels, and for each word on others, 6.12 among them: there a limit for all
 * would be none, since no word has so many bits. tag_share_probe() finds out by trying.
 */
#ifndef MQFAIR_BLK_TAG_SHARE_H
#define MQFAIR_BLK_TAG_SHARE_H

#include <linux/blk-mq.h>
#include <linux/minmax.h>
#include <linux/sbitmap.h>

#include "compat.h"

enum {
	TAG_SHARE_SHIFT = 2,
};

/* A limit counts for each word of the tags, not for all of them. Set when the module is loaded. */
extern bool tag_share_is_per_word;

/* Finds that out: 0 or -ENOMEM. */
int tag_share_probe(void);

/* Of @depth tags, how many a limited task may use; never 0. */
static inline unsigned int tag_share(unsigned int depth)
{
	return max(1U, depth - max(1U, depth >> TAG_SHARE_SHIFT));
}

/* The tags of @hctx, as bits. It is right on every kernel, also within depth_updated. */
static inline const struct sbitmap *tag_share_map(const struct blk_mq_hw_ctx *hctx)
{
	return &hctx->sched_tags->bitmap_tags.sb;
}

/* The number of scheduler tags that @hctx can hand out now. */
static inline unsigned int tag_share_sched_depth(const struct blk_mq_hw_ctx *hctx)
{
	return READ_ONCE(tag_share_map(hctx)->depth);
}

/* The tags for which one limit counts. */
static inline unsigned int tag_share_limited(const struct blk_mq_hw_ctx *hctx)
{
	unsigned int depth = tag_share_sched_depth(hctx);

	return tag_share_is_per_word ? min(depth, 1U << tag_share_map(hctx)->shift) : depth;
}

/* What limit_depth says to the tag allocator for a task that must leave the share: never 0. */
static inline unsigned int tag_share_shallow(const struct blk_mq_hw_ctx *hctx)
{
	return tag_share(tag_share_limited(hctx));
}

/*
 * The same when so many tags are in use that only the share is left. The limit is on numbers of
 * tags. A task that took its first ones without a limit has some of the share's numbers, and could
 * still take all others: 128 of 256 in order, then 48 of 64 in each word that is left, are 224.
 * With this limit it gets nearly none, until others or its own come back.
 */
static inline unsigned int tag_share_tight(const struct blk_mq_hw_ctx *hctx)
{
	return max(1U, tag_share_limited(hctx) >> TAG_SHARE_SHIFT);
}

/**
 * tag_share_limit() - the limit for a task that must leave the share
 * @data:	what limit_depth was called with
 *
 * A limit makes blk-mq allocate a batch one by one, at 330 instructions each. So a batch that
 * leaves the share free passes. Batches that ask at the same moment may all pass and borrow from
 * the share until they complete; the next to ask is limited again.
 *
 * Return: for data->shallow_depth; 0 is no limit.
 */
static inline unsigned int tag_share_limit(const struct blk_mq_alloc_data *data)
{
	unsigned int most = tag_share(tag_share_sched_depth(data->hctx));

	if (data->nr_tags > 1 &&
	    sbitmap_weight(tag_share_map(data->hctx)) + data->nr_tags <= most)
		return 0;
	return tag_share_shallow(data->hctx);
}

/*
 * How many tags are in use takes two loads for each word of them, and where hardware queues share
 * their tags these words are what all CPUs write. So a scheduler that asks "are there fewer than
 * @most?" for every allocation counts seldom. What the count leaves is room: each hardware queue
 * may take its part of it before it counts again. Tags that come back only make it more. Requests
 * that skip limit_depth are not seen until then. CPUs that meet here may take the same room.
 */
static inline bool tag_share_spend_room(const struct blk_mq_alloc_data *data, unsigned int *room,
					unsigned int most)
{
	unsigned int left = READ_ONCE(*room);

	/* Room of more tags than there are now is from before a change of nr_requests. */
	if (left < data->nr_tags || left > most)
		return false;
	WRITE_ONCE(*room, left - data->nr_tags);
	return true;
}

/* After a count: @free tags can be taken before there are too many, these of @data among them. */
static inline void tag_share_set_room(const struct blk_mq_alloc_data *data, unsigned int *room,
				      unsigned int free)
{
	unsigned int nr_sharers = data->hctx->flags & BLK_MQ_F_TAG_HCTX_SHARED ?
				  data->q->nr_hw_queues : 1;

	WRITE_ONCE(*room, (free - data->nr_tags) / nr_sharers);
}

/*
 * The smallest limit that tag_share_tight() can give on a hardware queue of @q. Tags that the
 * hardware queues share may get their new depth later than depth_updated: 1 is the least of all.
 */
static inline unsigned int tag_share_least(struct request_queue *q)
{
	unsigned int least = UINT_MAX;
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	if (q->tag_set->flags & BLK_MQ_F_TAG_HCTX_SHARED)
		return 1;
	queue_for_each_hw_ctx(q, hctx, i)
		least = min(least, tag_share_tight(hctx));
	return least;
}

/*
 * For init_sched and depth_updated, which both have the queue frozen: tells the tag allocator the
 * smallest limit that limit_depth will ask for, so that its wake-up batches stay below it. Without
 * this a limited allocation can sleep for ever (lib/sbitmap.c).
 */
static inline void tag_share_update(struct request_queue *q)
{
	unsigned int least = tag_share_least(q);
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(q, hctx, i)
		sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, least);
}

#endif /* MQFAIR_BLK_TAG_SHARE_H */
