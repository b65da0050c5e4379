/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tabs_policy.h - how many FUA writes may go beside the reads
 *
 * The policy of mq-tabs without the block layer: the phases, the goal, the throttling factor alpha
 * and a credit of FUA writes that may go. It holds no requests, never sleeps or allocates, and gets
 * the time and the counts as parameters. KUnit, the user-space build under sanitizers and
 * the kernel module run the same code. tabs_policy.c says what the policy decides and why.
 *
 * When each function is called:
 *
 *	tabs_tick()	every TABS_TICK_NS while FUA writes come; with the numbers of all CPUs
 *	tabs_earn()	for each read that is sent
 *	tabs_must_hold() for each FUA write that comes
 *	tabs_may_go()	before the oldest held FUA write is sent
 *	tabs_take()	to send it
 *	tabs_charge()	for each FUA write that goes without having been held
 *	tabs_alone()	when the device is idle and a FUA write is held
 *
 * Which may run at the same time ("lock": both need the caller's one lock, "free": any CPU and
 * context; the credit may then be off by less than one FUA write for each of these CPUs):
 *
 *			tick	hold	take	charge	earn	may_go	alone
 *	tick, init, set	lock	lock	lock	free	free	free	free
 *	must_hold		lock	lock	free	free	free	free
 *	take			lock	lock	free	free	free	free
 *	charge, earn, may_go, alone: free with all
 *
 * The second parameter of tabs_earn() belongs to one caller at a time.
 */
#ifndef MQFAIR_TABS_POLICY_H
#define MQFAIR_TABS_POLICY_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/types.h>

/* The two types that share the device; other requests pass and are not counted here. */
enum tabs_type {
	TABS_READ,
	TABS_FUA,
	TABS_NR_TYPES,
};

enum tabs_phase {
	TABS_IDLE,
	TABS_SCHED,
};

/* Why a FUA write that was held may go, or TABS_HELD. */
enum tabs_reason {
	TABS_HELD,
	TABS_FREE,		/* nothing is scheduled at the moment */
	TABS_EARNED,		/* reads have earned it */
	TABS_OVERDUE,		/* it has waited for max_delay_ns */
	TABS_ALONE,		/* nothing else was at the device */
	TABS_NR_REASONS,
};

/* What a tick has changed. */
enum {
	TABS_CHANGED_PHASE	= 1 << 0,
	TABS_CHANGED_ALPHA	= 1 << 1,
	TABS_EPOCH_ENDED	= 1 << 2,
	/* Held FUA writes may go: run the queue. */
	TABS_OPENED		= 1 << 3,
};

#define TABS_TICK_NS		5000000ULL

/* Fixed point of alpha, of the credit and of a share of the goal. */
#define TABS_SHIFT		20
#define TABS_ONE		(1U << TABS_SHIFT)

enum {
	TABS_ALPHA_MIN		= TABS_ONE >> 12,
	TABS_ALPHA_MAX		= TABS_ONE << 10,
	/* FUA writes that may go at once after a pause, and the most that overdue ones may owe. */
	TABS_BURST		= 16,
	TABS_NR_EPOCHS		= 16,
};

/**
 * struct tabs_config - the tunables
 * @max_bytes_per_s:	bandwidth of a type that has the device for itself; 0: not known
 * @idle_reset_ns:	counters of the IDLE phase start again after this time
 * @epoch_ns:		time between two looks at the bandwidth in the SCHED phase
 * @sched_ns:		length of the SCHED phase
 * @max_delay_ns:	no FUA write is held for longer
 * @idle_threshold:	requests that must come within @idle_reset_ns to start the SCHED phase
 * @feedback_pct:	a type below this share of its fair bandwidth is helped
 */
struct tabs_config {
	u64 max_bytes_per_s[TABS_NR_TYPES];
	u64 idle_reset_ns;
	u64 epoch_ns;
	u64 sched_ns;
	u64 max_delay_ns;
	u32 idle_threshold;
	u32 feedback_pct;
};

/**
 * struct tabs_sample - counts by type, over all CPUs; the first three only grow
 * @came:		requests that came to the scheduler
 * @done:		of those, requests that are completed
 * @done_bytes:		bytes of these
 * @held:		FUA writes that are held
 * @oldest_ns:		when the oldest of them was held
 */
struct tabs_sample {
	u64 came[TABS_NR_TYPES];
	u64 done[TABS_NR_TYPES];
	u64 done_bytes[TABS_NR_TYPES];
	u32 held;
	u64 oldest_ns;
};

/**
 * struct tabs_odds - how many requests of each type were outstanding, summed over looks
 * @sum:	requests
 * @looks:	number of looks
 * @waiting:	looks at which a request of the type waited: a read anywhere, a FUA write
 *		because it was held
 */
struct tabs_odds {
	u64 sum[TABS_NR_TYPES];
	u32 looks;
	u32 waiting[TABS_NR_TYPES];
};

/**
 * struct tabs_epoch - one epoch, for debugfs and tracepoints
 * @number:		counted since the scheduler was attached
 * @length_ns:		its real length
 * @bytes_per_s:	bandwidth
 * @fair_bytes_per_s:	goal
 * @alpha:		throttling factor during the epoch
 */
struct tabs_epoch {
	u64 number;
	u64 length_ns;
	u64 bytes_per_s[TABS_NR_TYPES];
	u64 fair_bytes_per_s[TABS_NR_TYPES];
	u32 alpha;
};

/**
 * struct tabs_policy - one device's policy
 * @earn_alpha:		what a sent read earns; 0: nothing is scheduled. Read anywhere
 * @flags:		bit numbers enum tabs_flag; read anywhere
 * @credit:		FUA writes that may go, fixed point; may be negative
 * @config:		tunables; this field and all below are under the lock
 * @phase:		enum tabs_phase
 * @phase_at_ns:	when it began
 * @window:		counts at the start of the IDLE phase's window, or of the epoch
 * @window_at_ns:	when that was
 * @last:		counts at the last tick
 * @last_at_ns:		when that was
 * @tick_ns:		time between the last two ticks
 * @fua_at_ns:		when a tick last saw a FUA write come or wait
 * @settling:		ticks until the IDLE phase counts
 * @together:		IDLE phase: both types were there when the window began, or before
 * @came_before:		requests that had come when the SCHED phase began
 * @draining:		some of them are not completed, and no epoch has begun
 * @issued:		requests of the window that made the goal, and those outstanding when it
 *			began: I of Equation 1
 * @fair_bytes_per_s:	the goal: FBW of Equation 1
 * @alpha:		throttling factor
 * @throttling:		alpha has been set to hold FUA writes back in this phase
 * @helped_from:	bandwidth of reads before they were helped; 0: there is nothing to judge
 * @alpha_before:	the alpha that FUA writes used then
 * @content:		bandwidth at which reads did not want more; 0: not known
 * @reverted:		alpha has once been put back to @alpha_before
 * @patience:		shift: part of @content that reads may lose before they are helped again
 * @turned:		which type was helped last, TABS_NR_TYPES for none
 * @turns:		changes of @turned in a row
 * @odds_window:	of the IDLE phase's window, or of the epoch
 * @odds_quarter:	of the present quarter of an epoch
 * @odds_reference:	what is normal under the present goal
 * @odds_suspect:	the odds that made a change of pattern likely
 * @suspicions:		quarters in a row that differed from the reference
 * @holdoff:		epochs to pass before a suspicion counts again
 * @holdoff_next:	@holdoff of the next false alarm
 * @quarter_at_ns:	when the quarter began
 * @epoch:		the last epochs
 * @nr_epochs:		epochs so far
 */
struct tabs_policy {
	/* Each read looks at these. */
	u32 earn_alpha ____cacheline_aligned_in_smp;
	unsigned long flags;

	atomic64_t credit ____cacheline_aligned_in_smp;

	struct tabs_config config ____cacheline_aligned_in_smp;
	enum tabs_phase phase;
	u64 phase_at_ns;
	struct tabs_sample window;
	u64 window_at_ns;
	struct tabs_sample last;
	u64 last_at_ns;
	u64 tick_ns;
	u64 fua_at_ns;
	u32 settling;
	bool together;
	u64 came_before[TABS_NR_TYPES];
	bool draining;

	u64 issued[TABS_NR_TYPES];
	u64 fair_bytes_per_s[TABS_NR_TYPES];
	u32 alpha;
	bool throttling;
	bool reverted;
	u32 patience;
	u64 helped_from;
	u32 alpha_before;
	u64 content;
	u32 turned;
	u32 turns;

	struct tabs_odds odds_window;
	struct tabs_odds odds_quarter;
	struct tabs_odds odds_reference;
	struct tabs_odds odds_suspect;
	u32 suspicions;
	u32 holdoff;
	u32 holdoff_next;
	u64 quarter_at_ns;

	struct tabs_epoch epoch[TABS_NR_EPOCHS];
	u64 nr_epochs;
};

enum tabs_flag {
	/* No reads come: FUA writes go as they come. */
	TABS_FLAG_NO_READS,
	/* The oldest held write has waited long enough. */
	TABS_FLAG_OVERDUE,
	/* One may go: the device would be idle. */
	TABS_FLAG_ALONE,
};

void tabs_policy_init(struct tabs_policy *p, const struct tabs_config *config, u64 now_ns);

/**
 * tabs_set_config() - other tunables from now on
 * @p:		policy; lock held
 * @config:	tunables, each of which is in its range
 * @now_ns:	time now
 *
 * The policy forgets what it has learned under the old ones, and the IDLE phase begins. The caller
 * runs the queue.
 */
void tabs_set_config(struct tabs_policy *p, const struct tabs_config *config, u64 now_ns);

/**
 * tabs_tick() - look at the counts
 * @p:		policy; lock held
 * @s:		counts
 * @now_ns:	time now
 *
 * Return: what has changed, TABS_CHANGED_PHASE and so on.
 */
unsigned int tabs_tick(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns);

/* True if the policy still needs ticks. Lock held. */
bool tabs_needs_ticks(const struct tabs_policy *p, u64 now_ns);

/**
 * tabs_must_hold() - must a FUA write that has just come wait?
 * @p:		policy; lock held
 * @held:	FUA writes that are held already
 *
 * If it may go at once, it has been charged.
 *
 * Return: true if it must be held.
 */
bool tabs_must_hold(struct tabs_policy *p, u32 held);

/**
 * tabs_take() - send the oldest held FUA write, if it may go
 * @p:		policy; lock held
 * @next_ns:	when the one behind it was held; 0: there is none
 * @now_ns:	time now
 *
 * Return: why it may go, or TABS_HELD.
 */
enum tabs_reason tabs_take(struct tabs_policy *p, u64 next_ns, u64 now_ns);

/* Requests that came and are not completed. */
static inline u64 tabs_outstanding(const struct tabs_sample *s, enum tabs_type type)
{
	return s->came[type] > s->done[type] ? s->came[type] - s->done[type] : 0;
}

/* The epoch in use: one that is longer than the SCHED phase ends with it. */
static inline u64 tabs_epoch_ns(const struct tabs_config *config)
{
	return config->epoch_ns < config->sched_ns ? config->epoch_ns : config->sched_ns;
}

/* Both maxima are known: there can be a goal. */
static inline bool tabs_is_configured(const struct tabs_config *config)
{
	return config->max_bytes_per_s[TABS_READ] && config->max_bytes_per_s[TABS_FUA];
}

static inline bool tabs_is_scheduling(const struct tabs_policy *p)
{
	return READ_ONCE(p->earn_alpha);
}

/**
 * tabs_may_go() - may a held FUA write go now?
 * @p:	policy
 */
static inline bool tabs_may_go(const struct tabs_policy *p)
{
	return !tabs_is_scheduling(p) || READ_ONCE(p->flags) ||
	       atomic64_read(&p->credit) >= TABS_ONE;
}

/* The newest of the epochs that have ended; one of zeroes if there is none. */
static inline const struct tabs_epoch *tabs_last_epoch(const struct tabs_policy *p)
{
	return &p->epoch[(p->nr_epochs + TABS_NR_EPOCHS - 1) % TABS_NR_EPOCHS];
}

void tabs_add_credit(struct tabs_policy *p, u32 amount);

/**
 * tabs_earn() - a read is sent
 * @p:		policy
 * @earned:	what the caller has earned and not yet credited, less than one FUA write
 *
 * Adds to the credit when @earned is a whole FUA write. So the credit, which all CPUs share, is
 * written no more often than FUA writes may go.
 */
static inline void tabs_earn(struct tabs_policy *p, u32 *earned)
{
	u32 alpha = READ_ONCE(p->earn_alpha);

	if (!alpha)
		return;
	if (READ_ONCE(p->flags) & BIT(TABS_FLAG_NO_READS))
		clear_bit(TABS_FLAG_NO_READS, &p->flags);
	*earned += alpha;
	if (*earned < TABS_ONE)
		return;
	tabs_add_credit(p, *earned & ~(TABS_ONE - 1));
	*earned &= TABS_ONE - 1;
}

/* A FUA write has gone without being held, for instance the data of a flush sequence. */
void tabs_charge(struct tabs_policy *p);

/* The device is idle and a FUA write is held: it may go. */
static inline void tabs_alone(struct tabs_policy *p)
{
	set_bit(TABS_FLAG_ALONE, &p->flags);
}

#endif /* MQFAIR_TABS_POLICY_H */
