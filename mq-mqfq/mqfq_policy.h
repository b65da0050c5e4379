/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_policy.h - which request of a hardware queue goes next, and whether it may
 *
 * The algorithm of MQFQ without the block layer: queues of entries in the order of their start
 * tags, virtual time, the window T, the slots D, and the wake-ups. It never sleeps, allocates only
 * when it is made, and does not know what an entry is part of. KUnit, the user-space build under
 * sanitizers and the kernel module run the same code.
 *
 * A queue is in one of four states:
 *
 *	             +--- its request is more than T ahead --> THROTTLED --- virtual time
 *	             |                                             |         has come near
 *	RUNNABLE ----+                                             |
 *	  ^  ^ ^     |                                             |
 *	  |  | |     +--- there is no slot ------> READY           |
 *	  |  | |     |                               |             |
 *	  |  | +------------ a slot is free ---------+             |
 *	  |  |       +--- it is in debt ---------> STUCK           |
 *	  |  |                                       |             |
 *	  |  +---- one of its requests is back ------+             |
 *	  +--------------------------------------------------------+
 *
 * It leaves RUNNABLE only under its own lock. The CPU that brings it back, any one, has it run.
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

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

#include "flow.h"
#include "mindicator.h"
#include "mqfq_alone.h"
#include "ready_set.h"
#include "token_tree.h"
#include "topology.h"
#include "vt.h"
#include "vt_wheel.h"

enum {
	MQFQ_SLOTS_MIN		= 1,
	MQFQ_SLOTS_MAX		= 65535,
	/* At most so many slots are fetched from far away at once. */
	MQFQ_SLOT_BATCH		= 8,
	/* Flows are told apart by so many counters per queue; two may share one. */
	MQFQ_FLOW_COUNTERS	= 64,
	/*
	 * One of so many slots is for slow entries, but at least one in all, and at most so many: D
	 * is large as long as it holds nothing back. While they are alone there are ALONE times as
	 * many. All slots would be seconds of work, in front of the first other entry that comes.
	 */
	MQFQ_SLOW_PART		= 8,
	MQFQ_SLOW_MOST		= 8,
	MQFQ_SLOW_ALONE		= 4,
	/* mqfq_look() is called as often as this. */
	MQFQ_LOOK_MS		= 50,
};

enum mqfq_state {
	MQFQ_RUNNABLE,
	MQFQ_THROTTLED,
	MQFQ_READY,
	MQFQ_STUCK,
	/* No state of a queue, but of entries that have stepped aside: see mqfq_policy_ops.run. */
	MQFQ_ASIDE,
};

/* What mqfq_take() says. */
enum mqfq_verdict {
	MQFQ_GO,
	MQFQ_EMPTY,		/* or already waiting */
	MQFQ_TOO_FAR_AHEAD,
	MQFQ_NO_SLOT,
};

/**
 * struct mqfq_entry - a request that waits
 * @next:	the one after it in its queue's in_order
 * @node:	or its place in its queue's others
 * @reserved:	the owner's; for the kernel module, the block layer's
 * @start:	start tag
 * @flow:	flow that pays, in the bits above MQFQ_ENTRY_BITS; below, MQFQ_ENTRY_SLOW and the
 *		owner's
 */
struct mqfq_entry {
	union {
		struct mqfq_entry *next;
		struct rb_node node;
	};
	void *reserved;
	u64 start;
	unsigned long flow;
};

enum {
	/* Memory is aligned to 8 bytes at least. */
	MQFQ_ENTRY_BITS	= 3,
	/* The highest of these bits is the policy's: the entry is of the slow class. */
	MQFQ_ENTRY_SLOW	= 1 << 2,
};

/**
 * struct mqfq_seen - what mqfq_look() has seen of a queue
 * @released:	the count of its releases
 * @taken:	and of what was taken
 * @moved_ns:	when a release was seen last, or nothing in flight
 * @taken_ns:	when it had taken something, or nothing waited
 * @others:	mqfq_look.released at @moved_ns
 */
struct mqfq_seen {
	u32 released;
	u64 taken;
	u64 moved_ns, taken_ns;
	u64 others;
};

/**
 * struct mqfq_queue - what waits for one hardware queue
 * @policy:		its device
 * @number:		which hardware queue
 * @leaf:		its place in the topology
 * @lock:		guards what follows, up to @state
 * @in_order:		entries that came with a later tag than all that were there: first and last
 * @others:		the other entries, by start tag
 * @nr:			how many in both; read anywhere
 * @nr_aside:		how many in @aside; read anywhere
 * @aside:		slow entries that wait for a permit, in the order of stepping aside
 * @nr_permits:		for as many slow entries of @in_order and @others
 * @slow_inserted:	of @inserted, slow ones; @slow_taken of @taken
 * @is_away:		its leaf has left virtual time, or it is in debt: see mqfq_stuck.c
 * @nr_stuck:		times that its slots were lent
 * @seen:		by the last mqfq_look()
 * @nr_flows:		how many of @nr_queued are not 0
 * @nr_queued:		entries per flow
 * @verdict:		of the last mqfq_take()
 * @throttled_flow:	flow that was ahead when the queue was throttled
 * @throttled_at_ns:	when that was
 * @inserted:		entries that came, @taken that left
 * @throttles:		times that it became THROTTLED, @slot_waits READY
 * @recent:		the owner's: entries in order of arrival
 * @offered:		the owner's
 * @tag_room:		the owner's, without @lock
 * @wake_vt:		THROTTLED until this virtual time; written under @lock, read anywhere
 * @state:		enum mqfq_state
 * @tally:		entries released in the upper half, slots lent in the lower
 * @slow_tally:		the same of slow entries and their permits
 * @is_recalled:	there may be a permit for an entry of @aside; any CPU sets it
 * @nr_woken:		wake-ups from READY, by the waker's distance
 */
struct mqfq_queue {
	struct mqfq_policy *policy;
	unsigned int number;
	unsigned int leaf;

	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned int nr, nr_aside;
	struct {
		struct mqfq_entry *first, *last;
	} in_order;
	struct rb_root_cached others;
	unsigned int nr_flows;
	enum mqfq_verdict verdict;
	struct flow *throttled_flow;
	u64 throttled_at_ns;
	u64 inserted, taken;
	u64 throttles, slot_waits;
	u64 wake_vt;
	struct {
		struct mqfq_entry *first, *last;
	} aside;
	unsigned int nr_permits;
	u32 slow_inserted, slow_taken;
	bool is_away;
	u32 nr_stuck;
	struct list_head recent;
	void *offered;
	unsigned int tag_room;
	u16 nr_queued[MQFQ_FLOW_COUNTERS];

	/* What wakers on other CPUs write. */
	atomic_t state ____cacheline_aligned_in_smp;
	bool is_recalled;
	atomic64_t tally, slow_tally;
	atomic64_t nr_woken[TOPOLOGY_NR_LEVELS];

	struct mqfq_seen seen;
};

/**
 * struct mqfq_policy_ops - what the policy needs from its owner
 * @run:	queue @number has left the state @was, or has been recalled (MQFQ_ASIDE); have
 *		mqfq_take() tried for it, from another context; called under other queues' locks and
 *		in any context
 * @clock_ns:	time, for statistics
 */
struct mqfq_policy_ops {
	void (*run)(void *context, unsigned int number, enum mqfq_state was);
	u64 (*clock_ns)(void);
};

/**
 * struct mqfq_config - the tunables that the policy knows
 * @throttle_vt:	T, in units of virtual time
 * @slots:		D
 * @wheel:		b and B
 */
struct mqfq_config {
	u64 throttle_vt;
	unsigned int slots;
	struct vt_wheel_geometry wheel;
};

/**
 * struct mqfq_slow - permits of a device for slow entries
 * @parked:	queues that wait for one
 * @last:	leaf of the queue that was recalled last
 * @is_alone:	there have been no other entries for a while: more permits
 * @nr_out:	permits that queues have, and entries that are out
 * @nr_aside:	entries of all queues that have stepped aside
 */
struct mqfq_slow {
	struct ready_set parked;
	unsigned int last;
	bool is_alone;
	atomic_t nr_out ____cacheline_aligned_in_smp;
	atomic_t nr_aside;
};

/**
 * struct mqfq_look - what mqfq_look() has seen of all queues
 * @released:	releases, in all
 * @nr_others:	entries that came and are not slow
 * @others_ns:	when one came, or waited
 */
struct mqfq_look {
	u64 released;
	u32 nr_others;
	u64 others_ns;
};

/**
 * struct mqfq_policy - one device
 * @throttle_vt:	T
 * @grain_vt:		by how much a leaf of the mindicator may lag behind its queue
 * @nr_queues:		of @queue, by number
 * @alone:		which flow is alone
 */
struct mqfq_policy {
	const struct mqfq_policy_ops *ops;
	void *context;
	u64 throttle_vt;
	u64 grain_vt;
	unsigned int nr_queues;
	struct mqfq_queue *queue;

	struct topology topology;
	struct mindicator vt;
	struct token_tree tokens;
	struct vt_wheel wheel;
	struct ready_set ready;
	struct mqfq_slow slow;
	struct mqfq_look look;
	struct mqfq_alone alone;
};

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

static inline u64 mqfq_vt(const struct mqfq_policy *p)
{
	return mindicator_vt(&p->vt);
}

static inline struct flow *mqfq_entry_flow(const struct mqfq_entry *e)
{
	return (struct flow *)(e->flow & ~((1UL << MQFQ_ENTRY_BITS) - 1));
}

/**
 * mqfq_insert() - queue an entry
 * @mq:		queue, locked
 * @e:		entry; @e->flow is set and stays, with a reference, until the owner puts it
 * @start:	its start tag, from flow_tag() with mqfq_vt(), or mqfq_vt() for one that comes back
 *
 * The caller has the queue run afterwards.
 */
void mqfq_insert(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start);

/**
 * mqfq_take() - the next entry, if it may go now
 * @mq:		queue, locked
 *
 * An entry that is returned holds a slot: the owner owes a mqfq_release(). Without one the queue
 * waits for an entry, virtual time or a slot, and is run when that has come.
 *
 * Return: the entry with the earliest start tag, or NULL; then @mq->verdict says why.
 */
struct mqfq_entry *mqfq_take(struct mqfq_queue *mq);

/* May an entry go, judged without the lock? If not, a wake-up will run the queue. */
static inline bool mqfq_has_work(const struct mqfq_queue *mq)
{
	return (READ_ONCE(mq->nr) && atomic_read(&mq->state) == MQFQ_RUNNABLE) ||
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

/* How many entries of the flow wait in the queue: an upper estimate, without the lock. */
static inline unsigned int mqfq_nr_queued(const struct mqfq_queue *mq, const struct flow *f)
{
	return READ_ONCE(mq->nr_queued[f->number % MQFQ_FLOW_COUNTERS]);
}

/* ---- for mqfq_rescale.c and mqfq_stuck.c ---- */

#define MQFQ_TALLY_ONE		(1LL << 32)

static inline u32 mqfq_tally_released(s64 tally)
{
	return (u64)tally >> 32;
}

static inline u32 mqfq_tally_lent(s64 tally)
{
	return tally;
}

/* True if a debt was paid. */
static inline bool mqfq_tally_pay(atomic64_t *tally)
{
	s64 old = atomic64_read(tally);

	do {
		if (!mqfq_tally_lent(old))
			return false;
		/* Pairs with itself: a debt is paid once. */
	} while (!atomic64_try_cmpxchg(tally, &old, old - 1));
	return true;
}

/* Entries taken and not released. Exact under the queue's lock, but for what is released now. */
static inline u32 mqfq_nr_in_flight(const struct mqfq_queue *mq)
{
	return max_t(s32, (u32)READ_ONCE(mq->taken) -
			  mqfq_tally_released(atomic64_read(&mq->tally)), 0);
}

bool mqfq_wake(struct mqfq_queue *mq, enum mqfq_state was);
void mqfq_wake_all(struct mqfq_policy *p, enum mqfq_state was);
void mqfq_publish(struct mqfq_queue *mq, u64 value);
void mqfq_sort(struct mqfq_queue *mq, struct mqfq_entry *e);
void mqfq_give_permits(struct mqfq_queue *mq, u32 more);
void mqfq_recall(struct mqfq_policy *p);

#endif /* MQFAIR_MQFQ_POLICY_H */
