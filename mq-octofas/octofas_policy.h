/* SPDX-License-Identifier: GPL-2.0 */
/*
 * octofas_policy.h - which flows are slowed down, which queues are overloaded, and what to do about
 * both
 *
 * The policy of mq-octofas without the block layer: the monitor's windows, the flags, the truth
 * table, which requests move where, and which go to the back of their queue. It holds no requests,
 * never sleeps, and is told the time and what has been counted. KUnit, the user-space build under
 * sanitizers and the kernel module run the same code. octofas_policy.c says what is decided and
 * why.
 *
 * Who calls what:
 *
 *	octofas_window()	at the end of each window, with the numbers of all queues
 *	octofas_stay()		if it does not move after all
 *	octofas_choose_target()	for each request that comes and could move
 *	octofas_backwards()	how often a flow's requests may be sent back
 *	octofas_may_send()	does the queue's bound let another request go?
 *
 * octofas_window() and octofas_set_config() need the caller's one lock. All the others may run at
 * any time, on any CPU, in any context; they see the decisions of the last window, or a part of
 * them those of the one before, which does no harm: each decision is right by itself.
 */
#ifndef MQFAIR_OCTOFAS_POLICY_H
#define MQFAIR_OCTOFAS_POLICY_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/limits.h>
#include <linux/types.h>

/* What is in force, and what is asked for. The bits are the levels. */
enum octofas_mode {
	OCTOFAS_NONE	= 0,
	OCTOFAS_INTER	= 1 << 0,
	OCTOFAS_INTRA	= 1 << 1,
	OCTOFAS_HYBRID	= OCTOFAS_INTER | OCTOFAS_INTRA,
	OCTOFAS_AUTO,
	OCTOFAS_NR_MODES,
};

/* Whose requests may move. */
enum octofas_migrate {
	OCTOFAS_MOVE_ALL,
	OCTOFAS_MOVE_DENSE,
	OCTOFAS_MOVE_SPARSE,
	OCTOFAS_NR_MIGRATES,
};

/* How they are spread: in turn, or in proportion to the room that each queue has. */
enum octofas_spread {
	OCTOFAS_RR,
	OCTOFAS_PS,
	OCTOFAS_NR_SPREADS,
};

enum {
	/* Flows that are watched one by one; number 0 is all others together. */
	OCTOFAS_FLOWS		= 64,
	OCTOFAS_OTHERS		= 0,

	/*
	 * A queue with fewer requests in a window says nothing; a flow is judged when it has had so
	 * many, and forgotten if it has not in so many windows.
	 */
	OCTOFAS_LEAST_REQUESTS	= 8,
	OCTOFAS_PATIENCE	= 8,

	/* Places in the round of targets. */
	OCTOFAS_ROUND		= 64,

	/* Windows for which a flag stays after what raised it is gone, at first and at most. */
	OCTOFAS_HOLD_MIN	= 4,
	OCTOFAS_HOLD_MAX	= 64,

	OCTOFAS_NR_WINDOWS	= 16,

	OCTOFAS_ONE		= 1000,		/* fixed point of F, LB, S and of utilization */
	OCTOFAS_CREDIT		= 1 << 16,	/* one request that may move */
	OCTOFAS_CREDIT_MAX	= 4 * OCTOFAS_CREDIT,
	OCTOFAS_BACKWARD_MAX	= 255,
	OCTOFAS_NO_TARGET	= -1,
};

#define OCTOFAS_NS_PER_S	1000000000ULL

/* The tunables, see Documentation/reference/mq-octofas.rst. */
struct octofas_config {
	u32 mode;
	u32 migrate;
	u32 spread;
	u32 fair_pct;
	u32 balance_pct;
	u32 overload_pct;
	u32 alpha_pct;
	u32 max_backward;
};

/* A flow in a window: requests that ended, their latencies, and what these would be alone. */
struct octofas_flow_sample {
	u64 nr;
	u64 latency_ns;
	u64 alone_ns;
};

/* A queue in a window: requests that it served, their latencies, and the least these can be. */
struct octofas_queue_sample {
	u64 nr;
	u64 latency_ns;
	u64 base_ns;
	bool usable;
};

/**
 * struct octofas_sample - a window's counts
 * @length_ns:	of the window
 * @flow:	OCTOFAS_FLOWS of them
 * @queue:	one for each queue
 * @home_ns:	latencies in ns by the queue to which a request came, and by flow:
 *		[queue * OCTOFAS_FLOWS + flow]
 */
struct octofas_sample {
	u64 length_ns;
	const struct octofas_flow_sample *flow;
	const struct octofas_queue_sample *queue;
	const u64 *home_ns;
};

/**
 * struct octofas_flow_state - what is known of a flow, and decided for it
 * @since:	what has been counted since it was judged
 * @nr_windows:	in how many windows
 * @length_ns:	of these
 * @intensity:	requests per second
 * @slowdown:	Equation 1, in thousandths; 0: not known
 * @dense:	more intense than others
 * @movable:	its requests may move
 * @backward:	B, Equation 5
 */
struct octofas_flow_state {
	struct octofas_flow_sample since;
	u32 nr_windows;
	u64 length_ns;
	u64 intensity;
	u32 slowdown;
	bool dense;
	bool movable;
	u8 backward;
};

/**
 * struct octofas_queue_state - what is known of a queue, and decided for it
 * @load:	requests in it or at the device
 * @coming:	those that are on their way to it, or NULL
 * @sent:	of these, at the device
 * @sent_sparse: of these, such as need not be sent back
 * @credit:	requests that may move, times OCTOFAS_CREDIT
 * @share:	of each request that comes, what may move, in parts of OCTOFAS_CREDIT
 * @yields:	it has requests of sparse flows, for which all of the dense ones' move that can
 * @bound:	how many may be at the device; U32_MAX: any number
 * @patient_bound: the same for another that may be sent back, unless a sparse flow's is there
 * @home:	mean number of requests outstanding that came here, in thousandths
 * @served:	the same of those that are served here
 * @latency_ns:	mean of those that were served here
 * @peak:	requests per second, the most of late
 * @moved:	requests that moved away
 * @arrived:	that have come from other queues
 * @backwarded:	times that a request was sent to the back
 */
struct octofas_queue_state {
	atomic_t load ____cacheline_aligned_in_smp;
	const atomic_t *coming;
	atomic_t sent;
	atomic_t sent_sparse;
	atomic_t credit;
	u32 share;
	u32 bound;
	u32 patient_bound;
	bool usable;
	bool yields;

	u32 home;
	u32 served;
	u64 latency_ns;
	u64 peak;
	atomic64_t moved;
	atomic64_t arrived;
	atomic64_t backwarded;
};

/* A flag, and for how long it stays. */
struct octofas_flag {
	bool up;
	u32 hold;
	u32 left;
	u32 since_down;
};

/* What a window has found. All in thousandths but the number, the length and the requests. */
struct octofas_record {
	u64 number;
	u64 length_ns;
	u64 nr;
	u32 fairness;
	u32 balance;
	u32 home_balance;
	u32 average;
	bool unfair;
	bool imbalanced;
	u8 mode;
	u64 moved;
	u64 backwarded;
};

/**
 * struct octofas_policy - the policy of one device
 * @config:	the tunables
 * @nr_queues:	hardware queues
 * @mode:	in force, enum octofas_mode without OCTOFAS_AUTO
 * @average:	U_avg, in thousandths
 * @nr_round:	places in @round that are used
 * @round:	queues that requests move to, in this order
 * @next:	place of the next one
 * @unfair:	F is below fair_pct
 * @imbalanced:	LB is below balance_pct, and a queue is overloaded
 * @flow:	by number
 * @queue:	by number
 * @nr_windows:	so far
 * @window:	the last ones, a ring
 */
struct octofas_policy {
	struct octofas_config config;
	u32 nr_queues;

	/* Read for each request. */
	u32 mode;
	u32 average;
	u32 nr_round;
	u16 round[OCTOFAS_ROUND];
	struct octofas_flow_state flow[OCTOFAS_FLOWS];
	atomic_t next ____cacheline_aligned_in_smp;

	struct octofas_flag unfair;
	struct octofas_flag imbalanced;
	struct octofas_queue_state *queue;
	u64 moved_before;
	u64 backwarded_before;
	u64 nr_windows;
	struct octofas_record window[OCTOFAS_NR_WINDOWS];
};

/* Return: 0 or -ENOMEM. */
int octofas_policy_init(struct octofas_policy *p, u32 nr_queues,
			const struct octofas_config *config, gfp_t gfp);
void octofas_policy_destroy(struct octofas_policy *p);

/* Tunables have changed: what is forced is in force from now on, if it has not done enough. */
void octofas_set_config(struct octofas_policy *p, const struct octofas_config *config);

/* What octofas_window() has changed. */
enum {
	OCTOFAS_CHANGED_FLAGS	= 1 << 0,
	OCTOFAS_CHANGED_MODE	= 1 << 1,
};

/* A window has ended. Return: what has changed. */
unsigned int octofas_window(struct octofas_policy *p, const struct octofas_sample *s);

/* The record of the last window; there has been one. */
static inline const struct octofas_record *octofas_last_window(const struct octofas_policy *p)
{
	return &p->window[(p->nr_windows - 1) % OCTOFAS_NR_WINDOWS];
}

/**
 * octofas_choose_target() - should a request move?
 * @p:		policy
 * @home:	queue that it came to
 * @flow:	number of its flow
 *
 * Return: the queue to move it to, or OCTOFAS_NO_TARGET.
 */
int octofas_choose_target(struct octofas_policy *p, u32 home, u32 flow);

/* A request that should have moved does not. */
void octofas_stay(struct octofas_policy *p, u32 home);

static inline bool octofas_is_inter(const struct octofas_policy *p)
{
	return READ_ONCE(p->mode) & OCTOFAS_INTER;
}

static inline bool octofas_is_intra(const struct octofas_policy *p)
{
	return READ_ONCE(p->mode) & OCTOFAS_INTRA;
}

/* How many times a request of a flow may be sent to the back of its queue. */
static inline u32 octofas_backwards(const struct octofas_policy *p, u32 flow)
{
	return octofas_is_intra(p) ? READ_ONCE(p->flow[flow].backward) : 0;
}

/* @patient: a request that may be sent back. */
static inline bool octofas_may_send(const struct octofas_queue_state *oqs, bool patient)
{
	u32 sent = atomic_read(&oqs->sent);

	if (patient && !atomic_read(&oqs->sent_sparse) && sent >= READ_ONCE(oqs->patient_bound))
		return false;
	return sent < READ_ONCE(oqs->bound);
}

/* The share of a request's latency beyond the least that is others' doing, in parts of 255. */
static inline u8 octofas_others(u32 all, u32 own)
{
	return all > own ? (u64)255 * (all - own) / all : 0;
}

/* What a request's latency would have been alone; see "The latency alone". */
static inline u64 octofas_alone_ns(u64 latency_ns, u64 base_ns, u8 others)
{
	return latency_ns > base_ns ? latency_ns - (latency_ns - base_ns) / 255 * others :
				      latency_ns;
}

/* The new base, from a window's least latency (U64_MAX: there was none) and the base before. */
u64 octofas_base_ns(u64 before_ns, u64 least_ns);

#endif /* MQFAIR_OCTOFAS_POLICY_H */
