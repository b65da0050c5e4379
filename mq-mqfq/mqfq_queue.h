/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_queue.h - a hardware queue and a device, as mq-mqfq's policy sees them
 *
 * A queue is in one of six states:
 *
 *	           +---- its request is more than T ahead --> THROTTLED ----+
 *	           |                                              |         | virtual time
 *	RUNNABLE --+                        virtual time has come |         | has come near,
 *	  ^    ^   |                          near, there is none v         | there is a slot
 *	  |    |   +---- there is no slot ---------------------> READY ---+ |
 *	  |    |   |                  a slot of its own is free, |        | |
 *	  |    |   |                        and a request comes  v        | |
 *	  |    |   |                                         RESTING      | |
 *	  |    |   |           a request has come, or is back    |        | |
 *	  |    |   |                                             v        v v
 *	  |    |   +---- its request has a slot ----------------------> ARMED
 *	  |    |                                                          |
 *	  |    +---- the request is taken, the next one is looked at -----+
 *	  |                                                               |
 *	  +---- one of its requests is back ------- STUCK <-- in debt ----+
 *
 * An empty queue is RUNNABLE. So is, for a while, one that shall ask again: T has changed, or its
 * tags. A wait begins under the queue's own lock. The CPU that ends it, any one, has the queue run.
 * An ARMED queue may get more slots before it is run; the state counts them. mqfq_slots.c tells
 * when, and when a slot rests.
 */
#ifndef MQFAIR_MQFQ_QUEUE_H
#define MQFAIR_MQFQ_QUEUE_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

#include "flow.h"
#include "flow_local.h"
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
	/* At most so many slots are fetched from far away at once, or wait for a run. */
	MQFQ_SLOT_BATCH		= 8,
	/* A slot rests only in a queue that has so many others at the device. */
	MQFQ_REST_LEAST		= 3,
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
	/* Passes for entries of class RT: as many as D, but at least and at most. */
	MQFQ_PASSES_LEAST	= 4,
	MQFQ_PASSES_MOST	= 16,
	/* I/O priority has so many levels. */
	MQFQ_RT_LEVELS		= 8,
	/* mqfq_look() is called as often as this. */
	MQFQ_LOOK_MS		= 50,
};

enum mqfq_state {
	MQFQ_RUNNABLE,
	MQFQ_THROTTLED,
	MQFQ_STUCK,
	/* No state of a queue, but of entries that wait for a permit: see mqfq_policy_ops.run. */
	MQFQ_ASIDE,
	MQFQ_READY,
	MQFQ_RESTING,
	/* Values above it: with so many tokens more. */
	MQFQ_ARMED,
};

/**
 * struct mqfq_entry - a request that waits
 * @next:	the one after it in its queue's in_order
 * @node:	or its place in its queue's others
 * @reserved:	the owner's; for the kernel module, the block layer's
 * @start:	start tag
 * @flow:	flow that pays, in the bits above MQFQ_ENTRY_BITS; below, MQFQ_ENTRY_SLOW,
 *		MQFQ_ENTRY_DIRECT, _PASS, _RT and the owner's
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
	/* A flow is aligned to so many bits at least. */
	MQFQ_ENTRY_BITS	= 6,
	/* The entry is of the slow class. */
	MQFQ_ENTRY_SLOW	= 1 << 2,
	/* It has a reference of its flow: it does not count in a place of its queue's @flows. */
	MQFQ_ENTRY_DIRECT = 1 << 3,
	/* It was taken with a pass, and holds no slot. */
	MQFQ_ENTRY_PASS	= 1 << 4,
	/* It is of class RT. */
	MQFQ_ENTRY_RT	= 1 << 5,
};

static_assert(__alignof__(struct flow) >= 1 << MQFQ_ENTRY_BITS);

/* Entries in order of arrival. */
struct mqfq_line {
	struct mqfq_entry *first, *last;
};

/**
 * struct mqfq_rt_queue - entries of class RT in a queue; see mqfq_rt.c
 * @line:	by level
 * @levels:	a bit for each that is not empty
 * @head_level:	the level of @head
 * @nr:		how many in all lines
 * @head:	the one of them that has left its line and waits in the order of tags, or an entry
 *		of another class that may pass; or NULL
 * @nr_passes:	that the queue has, for as many of these entries
 * @taken:	with passes
 */
struct mqfq_rt_queue {
	struct mqfq_line line[MQFQ_RT_LEVELS];
	u8 levels;
	u8 head_level;
	unsigned int nr;
	struct mqfq_entry *head;
	unsigned int nr_passes;
	u32 taken;
};

/**
 * struct mqfq_seen - what mqfq_look() has seen of a queue
 * @released:	the count of its releases
 * @taken:	what was taken
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
 * @rt:			entries of class RT
 * @is_away:		its leaf has left virtual time, or it is in debt: see mqfq_stuck.c
 * @nr_stuck:		times that its slots were lent
 * @seen:		by the last mqfq_look()
 * @nr_flows:		how many of @nr_queued are not 0
 * @nr_queued:		entries per flow
 * @throttled_flow:	flow that was ahead when the queue was throttled, until it is run
 * @throttled_at_ns:	when that was
 * @inserted:		entries that came, @taken that left
 * @throttles:		times that it became THROTTLED
 * @recent:		the owner's: entries in order of arrival
 * @offered:		the owner's
 * @flows:		what it counts of its flows by itself
 * @tag_room:		the owner's, without @lock
 * @wake_vt:		THROTTLED until this virtual time; written under @lock, read anywhere
 * @is_wide:		by the window of a flow that is alone
 * @state:		enum mqfq_state; if ARMED, with the tokens beyond the first one added
 * @tally:		entries released in the upper half, slots lent in the lower
 * @slow_tally:		the same of slow entries and their permits
 * @rt_tally:		the same of entries that were taken with passes
 * @is_recalled:	there may be a permit for an entry of @aside or @rt, or there is a pass for
 *			one of @rt; any CPU sets it
 * @inserted_seen:	@inserted at its last release while it was READY or RESTING
 * @shared_with:	leaf of the queue that it looked at last, to give it a slot
 * @slot_waits:		times that it became READY and stayed so
 * @nr_woken:		wake-ups from READY, by the waker's distance
 */
struct mqfq_queue {
	struct mqfq_policy *policy;
	unsigned int number;
	unsigned int leaf;

	spinlock_t lock ____cacheline_aligned_in_smp;
	unsigned int nr, nr_aside;
	struct mqfq_line in_order;
	struct rb_root_cached others;
	unsigned int nr_flows;
	struct flow *throttled_flow;
	u64 throttled_at_ns;
	u64 inserted, taken;
	u64 throttles;
	u64 wake_vt;
	bool is_wide;
	struct mqfq_line aside;
	unsigned int nr_permits;
	u32 slow_inserted, slow_taken;
	bool is_away;
	u32 nr_stuck;
	struct list_head recent;
	void *offered;
	unsigned int tag_room;
	u16 nr_queued[MQFQ_FLOW_COUNTERS];
	struct flow_locals flows;
	struct mqfq_rt_queue rt;

	/* What wakers on other CPUs write. */
	atomic_t state ____cacheline_aligned_in_smp;
	bool is_recalled;
	u32 inserted_seen;
	unsigned int shared_with;
	atomic64_t tally, slow_tally, rt_tally;
	atomic64_t slot_waits;
	atomic64_t nr_woken[TOPOLOGY_NR_LEVELS];

	struct mqfq_seen seen;
};

/**
 * struct mqfq_policy_ops - what the policy needs from its owner
 * @run:	queue @number has left the state @was, or has been recalled (MQFQ_ASIDE); have
 *		mqfq_take() tried for it, from another context; called under other queues' locks and
 *		in any context
 * @wait:	queue @number waits from now on: MQFQ_THROTTLED or MQFQ_READY; or MQFQ_RUNNABLE:
 *		it has stopped to be READY, since what waited has a pass. Or NULL. Called under
 *		locks of this and other queues.
 * @clock_ns:	time, for statistics
 */
struct mqfq_policy_ops {
	void (*run)(void *context, unsigned int number, enum mqfq_state was);
	void (*wait)(void *context, unsigned int number, enum mqfq_state state);
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
 * struct mqfq_permits - permits of a device; see mqfq_permit.c
 * @parked:	queues that wait for one
 * @last:	leaf of the queue that was recalled last
 * @nr_out:	permits that queues have, and entries that are out
 */
struct mqfq_permits {
	struct ready_set parked;
	unsigned int last;
	atomic_t nr_out ____cacheline_aligned_in_smp;
};

/**
 * struct mqfq_slow - slow entries of a device
 * @permits:	theirs
 * @is_alone:	there have been no other entries for a while: more permits
 * @nr_aside:	entries of all queues that have stepped aside
 */
struct mqfq_slow {
	struct mqfq_permits permits;
	bool is_alone;
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
 * @passes:		permits of class RT
 * @nr_passes:		how many there are
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
	struct mqfq_permits passes;
	int nr_passes;
	struct mqfq_look look;
	struct mqfq_alone alone;
};

static inline u64 mqfq_vt(const struct mqfq_policy *p)
{
	return mindicator_vt(&p->vt);
}

static inline struct mqfq_queue *mqfq_queue_of_leaf(struct mqfq_policy *p, unsigned int leaf)
{
	return &p->queue[p->topology.queue_of[leaf]];
}

static inline void mqfq_line_add(struct mqfq_line *line, struct mqfq_entry *e)
{
	e->next = NULL;
	if (line->first)
		line->last->next = e;
	else
		line->first = e;
	line->last = e;
}

/* Of @tally, and the two like it. */
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

/* Entries taken with slots. */
static inline u32 mqfq_nr_slots_taken(const struct mqfq_queue *mq)
{
	return (u32)READ_ONCE(mq->taken) - READ_ONCE(mq->rt.taken);
}

/* Those that hold them. Exact under the queue's lock, but for what is released now. */
static inline u32 mqfq_nr_slots_held(const struct mqfq_queue *mq)
{
	return max_t(s32, mqfq_nr_slots_taken(mq) -
			  mqfq_tally_released(atomic64_read(&mq->tally)), 0);
}

/* ---- permits: mqfq_permit.c ---- */

/* Takes one, if less than @limit are out. Any context. */
bool mqfq_permit_take(struct mqfq_permits *k, int limit);
/* If a permit is idle and a queue is parked, one comes to get it: each in its turn. Any context. */
void mqfq_permit_recall(struct mqfq_policy *p, struct mqfq_permits *k, int limit);

/* ---- the entries of a queue, under its lock unless they say otherwise ---- */

static inline struct flow *mqfq_entry_flow(const struct mqfq_entry *e)
{
	return (struct flow *)(e->flow & ~((1UL << MQFQ_ENTRY_BITS) - 1));
}

/*
 * The requests of a flow come in the order of their tags, and so do most requests of all flows.
 * Those wait in a list. Only a request with an earlier tag than the last of the list is sorted into
 * a tree. All tags in the tree are earlier than the last of the list, so of two equal tags the one
 * in the list came first. The head of mqfq_rt.c is in the tree, whatever its tag.
 */
static inline struct mqfq_entry *mqfq_first(const struct mqfq_queue *mq)
{
	struct mqfq_entry *in_order = mq->in_order.first;
	struct mqfq_entry *other = rb_entry_safe(rb_first_cached(&mq->others),
						 struct mqfq_entry, node);

	if (!other)
		return in_order;
	return in_order && !vt_after(in_order->start, other->start) ? in_order : other;
}

static inline bool mqfq_is_latest(const struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	struct rb_node *last;

	if (mq->in_order.first)
		return !vt_after(mq->in_order.last->start, e->start);
	last = rb_last(&mq->others.rb_root);
	return !last || vt_after(e->start, rb_entry(last, struct mqfq_entry, node)->start);
}

/* Takes the first entry out, without telling virtual time. */
static inline void mqfq_unlink_first(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	WRITE_ONCE(mq->nr, mq->nr - 1);
	if (mq->in_order.first == e)
		mq->in_order.first = e->next;
	else
		rb_erase_cached(&e->node, &mq->others);
}

/* How many entries of the flow wait in the queue: an upper estimate, without the lock. */
static inline unsigned int mqfq_nr_queued(const struct mqfq_queue *mq, const struct flow *f)
{
	return READ_ONCE(mq->nr_queued[f->number % MQFQ_FLOW_COUNTERS]);
}

static inline u16 *mqfq_counter(struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	return &mq->nr_queued[mqfq_entry_flow(e)->number % MQFQ_FLOW_COUNTERS];
}

static inline void mqfq_count_in(struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	u16 *n = mqfq_counter(mq, e);

	if (!*n)
		WRITE_ONCE(mq->nr_flows, mq->nr_flows + 1);
	WRITE_ONCE(*n, *n + 1);
	WRITE_ONCE(mq->inserted, mq->inserted + 1);
	if (unlikely(e->flow & MQFQ_ENTRY_SLOW))
		WRITE_ONCE(mq->slow_inserted, mq->slow_inserted + 1);
}

static inline void mqfq_count_out(struct mqfq_queue *mq, const struct mqfq_entry *e)
{
	u16 *n = mqfq_counter(mq, e);

	WRITE_ONCE(*n, *n - 1);
	if (!*n)
		WRITE_ONCE(mq->nr_flows, mq->nr_flows - 1);
	WRITE_ONCE(mq->taken, mq->taken + 1);
}

#endif /* MQFAIR_MQFQ_QUEUE_H */
