// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_merge.c - bios that join requests that wait
 *
 * A bio may join one of the last eight requests that came to its hardware queue, wait, and are of
 * its flow. It is charged to that flow, since the request's start tag stays.
 */
#include <linux/blk-mq.h>
#include <linux/sched.h>

#include "blk/urgent.h"
#include "mqfq.h"

/*
 * Called within the merge helpers, under the queue's lock. If a merge takes place, it is into the
 * request of the last call.
 */
bool mqfq_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct mqfq_data *md = q->elevator->elevator_data;
	struct mqfq_entry *e = mqfq_entry(rq);
	struct mqfq_queue *mq = rq->mq_hctx->sched_data;

	/* The block layer keeps cgroups and priorities apart. */
	if (READ_ONCE(md->flow_kind) == FLOW_PROCESS &&
	    mqfq_entry_flow(e)->key != flow_key(FLOW_PROCESS, current->tgid))
		return false;
	mq->offered = rq;
	return true;
}

/*
 * The request into which the bio was merged. The merge of a discard as another range asks no
 * allow_merge, but the bio is the request's last one then. Called under the queue's lock.
 */
static struct request *mqfq_merged_into(struct mqfq_queue *mq, struct bio *bio)
{
	struct request *rq;

	if (mq->offered)
		return mq->offered;
	list_for_each_entry_reverse(rq, &mq->recent, queuelist)
		if (rq->biotail == bio)
			return rq;
	return NULL;
}

static void mqfq_charge_merge(struct mqfq_data *md, struct request *rq, u32 bytes)
{
	struct flow *f = mqfq_entry_flow(mqfq_entry(rq));
	u64 before = mqfq_charge_of(&md->charge, rq, blk_rq_bytes(rq) - bytes);
	u64 after = mqfq_charge_of(&md->charge, rq, blk_rq_bytes(rq));

	if (after > before)
		flow_charge(f, mqfq_vt(&md->policy), flow_cost_vt(f, after - before));
}

/* Merges the bio into a request that waits. The flow of that request pays for it. */
static noinline bool mqfq_merge(struct request_queue *q, struct mqfq_queue *mq,
				struct bio *bio, unsigned int nr_segs)
{
	struct mqfq_data *md = q->elevator->elevator_data;
	u32 bytes = bio->bi_iter.bi_size;
	struct request *rq;
	bool merged;

	spin_lock(&mq->lock);
	mq->offered = NULL;
	merged = blk_bio_list_merge(q, &mq->recent, bio, nr_segs);
	rq = merged ? mqfq_merged_into(mq, bio) : NULL;
	if (rq)
		mqfq_charge_merge(md, rq, bytes);
	spin_unlock(&mq->lock);

	if (merged)
		this_cpu_inc(md->cpu_counters->merged);
	return merged;
}

/*
 * Called before the bio gets a request. An urgent bio must not wait with another request, so it
 * merges with none. The merge of a discard may ask no allow_merge, which keeps processes apart: so
 * it is done only if nothing else has to keep them apart.
 */
bool mqfq_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct mqfq_data *md = q->elevator->elevator_data;
	struct mqfq_queue *mq = mqfair_bio_hctx(q, bio)->sched_data;

	if (!READ_ONCE(mq->nr) && !READ_ONCE(mq->nr_aside))
		return false;
	if (bio_op(bio) == REQ_OP_DISCARD && READ_ONCE(md->flow_kind) == FLOW_PROCESS)
		return false;
	if (urgent_is(bio->bi_opf, current->flags) && READ_ONCE(md->urgent_kb))
		return false;
	return mqfq_merge(q, mq, bio, nr_segs);
}
