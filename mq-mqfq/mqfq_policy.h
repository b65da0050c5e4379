/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_policy.h - which request of a hardware queue goes next, and whether it may
 *
 * The algorithm of MQFQ without the block layer: queues of entries in the order of their start
 * tags, virtual time, the window T, the slots D, and the wake-ups. It never sleeps, allocates only
 * when it is made, and does not know what an entry is part of. KUnit, the user-space build under
 * sanitizers and the kernel module run the same code.
 *
 * Which operations may run at the same time ("lock": both need the queue's lock; "free": any
 * CPU; release may come from any context, the others from process context):
 *
 *		insert	take	release	has_work set_*
 *	insert	lock	lock	free	free	free
 *	take		lock	free	free	free
 *	release			free	free	free
 *	has_work			free	free
 *	set_*, look				one at a time
 */
#ifndef MQFAIR_MQFQ_POLICY_H
#define MQFAIR_MQFQ_POLICY_H

#include "mqfq_queue.h"
#include "mqfq_rt.h"
#include "mqfq_slots.h"

/**
 * mqfq_policy_init() - make a device's queues
 * @p:		policy
 * @place:	of each hardware queue
 * @nr_queues:	how many
 * @vt:		virtual time to begin with
 * @config:	T, D, b, B
 * @ops:	what it needs from its owner
 * @context:	for @ops
 * @gfp:	allocation flags
 *
 * Return: 0, -EINVAL or -ENOMEM.
 */
int mqfq_policy_init(struct mqfq_policy *p, const struct topology_place *place,
		     unsigned int nr_queues, u64 vt, const struct mqfq_config *config,
		     const struct mqfq_policy_ops *ops, void *context, gfp_t gfp);
void mqfq_policy_destroy(struct mqfq_policy *p);

/**
 * mqfq_insert() - queue an entry
 * @mq:		queue, locked
 * @e:		entry; @e->flow is set and stays, with a reference, until the owner puts it
 * @start:	its start tag, from flow_tag() with mqfq_vt(), or mqfq_vt() for one that comes back
 *
 * The caller has the queue run afterwards.
 */
void mqfq_insert(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start);

/* The same for an entry of class RT; @level is 0 (first) to 7. It is not slow. */
void mqfq_insert_rt(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start, unsigned int level);

/**
 * mqfq_take() - the next entry, if it may go now
 * @mq:		queue, locked
 *
 * An entry that is returned holds a slot, or, with MQFQ_ENTRY_PASS, a pass. The owner owes a
 * mqfq_release(), _release_slow() or _release_pass(). Without one the queue waits for an entry,
 * virtual time, a slot or a pass, and is run when that has come.
 *
 * Return: an entry with a pass, or else the one with the earliest start tag, or NULL; then
 * @mq->state says why.
 */
struct mqfq_entry *mqfq_take(struct mqfq_queue *mq);

/* May an entry go, judged without the lock? If not, a wake-up will run the queue. */
static inline bool mqfq_has_work(const struct mqfq_queue *mq)
{
	int state = atomic_read(&mq->state);

	return state >= MQFQ_RESTING || (state == MQFQ_RUNNABLE && READ_ONCE(mq->nr)) ||
	       unlikely(READ_ONCE(mq->is_recalled));
}

/**
 * mqfq_release() - an entry's slot is free again
 * @mq:		the queue that it was taken from; not locked
 *
 * Any context.
 */
void mqfq_release(struct mqfq_queue *mq);
/* The same for an entry that is slow: its permit is free again, too. */
void mqfq_release_slow(struct mqfq_queue *mq);

/**
 * mqfq_look() - is a queue stuck, or stopped?
 * @p:		policy
 * @now_ns:	time
 *
 * Process context, every MQFQ_LOOK_MS while there are flows, one at a time.
 */
void mqfq_look(struct mqfq_policy *p, u64 now_ns);

void mqfq_set_throttle(struct mqfq_policy *p, u64 throttle_vt);
void mqfq_set_slots(struct mqfq_policy *p, unsigned int slots);
void mqfq_set_passes(struct mqfq_policy *p, unsigned int slots);
void mqfq_set_wheel(struct mqfq_policy *p, struct vt_wheel_geometry geometry);

/**
 * mqfq_rescale() - flows have other effective weights: let the tags that they have follow
 * @p:		policy
 * @changed:	flows, as a list from flow_table_update()
 *
 * What is ahead of virtual time is brought nearer or further by the ratio of the weights, so that
 * the change acts on what waits as well. Each queue's entries are sorted once, however many flows
 * have changed.
 */
void mqfq_rescale(struct mqfq_policy *p, struct flow *changed);

/* Adds to the flows what the queues have counted of them: flow.refs and service_bytes are right. */
void mqfq_fold(struct mqfq_policy *p);

/* How many entries the flow has that have not ended, in all queues: an estimate. */
unsigned int mqfq_nr_requests(const struct mqfq_policy *p, const struct flow *f);

/* ---- for the policy's other files ---- */

static inline u32 mqfq_nr_released(const struct mqfq_queue *mq)
{
	return mqfq_tally_released(atomic64_read(&mq->tally)) +
	       mqfq_tally_released(atomic64_read(&mq->rt_tally));
}

/* Entries taken and not released. Exact under the queue's lock, but for what is released now. */
static inline u32 mqfq_nr_in_flight(const struct mqfq_queue *mq)
{
	return max_t(s32, (u32)READ_ONCE(mq->taken) - mqfq_nr_released(mq), 0);
}

void mqfq_publish(struct mqfq_queue *mq, u64 value);
void mqfq_sort(struct mqfq_queue *mq, struct mqfq_entry *e);
void mqfq_give_permits(struct mqfq_queue *mq, u32 more);
void mqfq_recall_slow(struct mqfq_policy *p);
void mqfq_give_up_passes(struct mqfq_queue *mq);

#endif /* MQFAIR_MQFQ_POLICY_H */
