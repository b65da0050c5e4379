/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tail.h - a bound that follows a target
 *
 * The control law of mq-k2's automatic bound, and of mq-mqfq's target, without the block layer.
 * About ten times a second it gets the counts and says which bound is in force from then on. It
 * never sleeps, allocates or reads a clock. KUnit, the user-space build under sanitizers and the
 * kernel modules run the same code; tail.c says what the law is and why.
 *
 * Functions that take a struct tail need the caller's one lock; the others need none.
 */
#ifndef MQFAIR_TAIL_H
#define MQFAIR_TAIL_H

#include <linux/bitops.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* How often tail_tick() wants to be called while requests complete. */
#define TAIL_TICK_NS	100000000ULL

enum {
	/*
	 * The histogram of latencies: 32 bins for each power of two, so that a bin is at most 3.2%
	 * wide. The unit is 1024 ns; the last bin takes latencies beyond a minute.
	 */
	TAIL_UNIT_SHIFT	= 10,
	TAIL_BINS_SHIFT	= 5,
	TAIL_BINS	= 1 << TAIL_BINS_SHIFT,
	TAIL_NR_BINS	= 22 * TAIL_BINS,
};

/* What the law is made of; tail.c says why. */
enum {
	/* A window with fewer requests shows nothing. */
	TAIL_NR_MIN	= 32,

	/* From this bound on steps are small, and a guard costs little. */
	TAIL_GUARDED	= 8,
	TAIL_TIGHT_PART	= 8,
	TAIL_GUARD_PART	= 4,
	/* From this bound on one step down changes little: the hold makes two. */
	TAIL_COARSE	= 14,

	/* In windows of the hold. */
	TAIL_COST	= 40,
	TAIL_PRICE_MIN	= 60,
	TAIL_PRICE_MAX	= 480,

	/* The bound limits if requests wait here at one in so many completions. */
	TAIL_LIMITED_PART	= 4,
	/* One in so many beyond the target is a gross violation. */
	TAIL_GROSS_PART	= 20,
	TAIL_GROSS_NR	= 3,
	TAIL_GROSS_FALL	= 4,

	TAIL_MIX_PCT	= 25,
	TAIL_SLACK_PCT	= 3,
};

/**
 * struct tail_config - what is wanted
 * @target_ns:		99.9th percentile of the real-time requests' latency; 0: no target
 * @bandwidth_pct:	bandwidth, in percent of what @ceiling gives; 0: no target
 * @ceiling:		the largest bound
 */
struct tail_config {
	u64 target_ns;
	u32 bandwidth_pct;
	u32 ceiling;
};

/**
 * struct tail_sums - what has been counted since the beginning
 * @nr:			requests that have completed
 * @nr_limited:		of these, those at which others were waiting for a slot
 * @bytes:		their data
 * @be_bytes:		the part of @bytes that was not real-time
 * @be_read_bytes:	the part of @be_bytes that was read
 * @nr_rt:		completed real-time requests whose latency is known
 * @nr_beyond:		of these, those that took longer than the target
 * @bin:		histogram of their latencies, tail_bin()
 *
 * They wrap; only differences matter.
 */
struct tail_sums {
	unsigned long nr;
	unsigned long nr_limited;
	unsigned long bytes;
	unsigned long be_bytes;
	unsigned long be_read_bytes;
	unsigned long nr_rt;
	unsigned long nr_beyond;
	u32 bin[TAIL_NR_BINS];
};

enum tail_state {
	TAIL_OFF,
	TAIL_REFERENCE,	/* at the ceiling, to measure the bandwidth */
	TAIL_SEARCH,	/* between too low and too high */
	TAIL_HOLD,		/* found; a step up or down now and then */
};

/**
 * struct tail_window - what a window has shown
 * @bound:		the bound that was in force
 * @ns:			its length
 * @nr:			requests
 * @nr_rt:		real-time requests
 * @nr_beyond:		those that took longer than the target
 * @p999_ns:		their 99.9th percentile, up to a bin; 0 without any
 * @bytes_per_s:	bandwidth of all requests
 * @has_mix:		there were enough other requests to know @read_pct
 * @read_pct:		part of reads in the bytes that were not real-time
 * @is_limited:		requests waited because of the bound
 * @is_violated:	more than one in a thousand took longer than the target
 * @is_tight:		a step up would probably be too much
 * @is_short:		less bandwidth than was asked for
 */
struct tail_window {
	u32 bound;
	u64 ns;
	unsigned long nr;
	unsigned long nr_rt;
	unsigned long nr_beyond;
	u64 p999_ns;
	u64 bytes_per_s;
	bool has_mix;
	u32 read_pct;
	bool is_limited;
	bool is_violated;
	bool is_tight;
	bool is_short;
};

/**
 * struct tail - the law's memory
 * @config:		what is wanted
 * @state:		enum tail_state
 * @bound:		the bound that is in force
 * @low:		the largest bound found low enough, or @floor
 * @high:		the smallest found too high; 0: none
 * @suspect:		requests in flight when the latency was missed and none waited; 0: never
 * @proven:		the search began with this as @low
 * @floor:		no bound up to this one is worth a trial
 * @most_tried:		the largest bound of this search
 * @high_is_fine:	@high is too high because its bandwidth is enough
 * @best_bound:		the bound with the shortest tail in this search
 * @best_p999_ns:	its 99.9th percentile
 * @reference_bytes_per_s: what the ceiling gives
 * @is_above:		the bound held is the smallest that gives the bandwidth, else the largest
 *			that keeps the latency
 * @is_unmet:		no bound keeps the latency
 * @has_mix:		@read_pct is known
 * @read_pct:		the part of reads in the first window of the hold that had one
 * @is_trial:		the bound is one step above the one held; no violation was paid for
 * @credit:		what a window that misses the target may cost
 * @calm:		good windows since the last step
 * @price:		good windows that it takes to try another step
 * @is_settling:	the bound has changed, the device still has older requests
 * @most_inflight:	the most requests in flight at any tick of the window
 * @ticked_ns:		the last tail_tick()
 * @since_ns:		beginning of the window
 * @since:		the sums at that time
 * @last:		the last window that has ended
 * @nr_windows:		windows that have ended
 */
struct tail {
	struct tail_config config;
	enum tail_state state;
	u32 bound;

	/* Searching. */
	u32 low;
	u32 high;
	u32 suspect;
	u32 proven;
	u32 floor;
	u32 most_tried;
	bool high_is_fine;
	u32 best_bound;
	u64 best_p999_ns;
	u64 reference_bytes_per_s;

	/* Holding. */
	bool is_above;
	bool is_unmet;
	bool has_mix;
	u32 read_pct;
	bool is_trial;
	u32 credit;
	u32 calm;
	u32 price;

	/* Looking. */
	bool is_settling;
	u32 most_inflight;
	u64 ticked_ns;
	u64 since_ns;
	struct tail_sums since;
	struct tail_window last;
	u64 nr_windows;
};

/**
 * struct tail_found - what a later law can begin with
 * @bound:		the bound that keeps the targets; 0: none was found
 * @high:		see struct tail
 * @is_above:		likewise
 * @reference_bytes_per_s: likewise
 */
struct tail_found {
	u32 bound;
	u32 high;
	bool is_above;
	u64 reference_bytes_per_s;
};

void tail_init(struct tail *a, u32 bound);

/* What @a has found for its targets. */
void tail_get_found(const struct tail *a, struct tail_found *found);

/* @a, which has just got its targets, holds what was found for the same targets before. */
void tail_resume(struct tail *a, const struct tail_found *found);

/**
 * tail_set_config() - start again, from the bound in force
 * @a:		the law
 * @config:	what is wanted; without a target the bound is the ceiling
 * @now_ns:	time now
 */
void tail_set_config(struct tail *a, const struct tail_config *config, u64 now_ns);

/* The 99.9th percentile of what was counted between two moments, up to a bin; 0 if nothing was. */
u64 tail_p999_ns(const struct tail_sums *sums, const struct tail_sums *since);

/* @a has found @bound, and holds it from now on. */
void tail_start_hold(struct tail *a, u32 bound);

/* Instead of tail_tick(): the bound is not in force, and what is counted now says nothing of it. */
void tail_rest(struct tail *a, u64 now_ns);

/**
 * tail_tick() - look at the counts
 * @a:		the law
 * @sums:	the numbers of all CPUs
 * @inflight:	requests at the device
 * @now_ns:	time now
 *
 * @a->bound is in force from now on.
 *
 * Return: true if a window has ended: @a->last.
 */
bool tail_tick(struct tail *a, const struct tail_sums *sums, u32 inflight, u64 now_ns);

static inline bool tail_is_on(const struct tail_config *config)
{
	return config->target_ns || config->bandwidth_pct;
}

/* A step is one up to 16, an eighth beyond. down(up(bound)) == bound. */
static inline u32 tail_up(u32 bound)
{
	return bound + max(1U, bound / 8);
}

static inline u32 tail_down(u32 bound)
{
	return bound - max(1U, bound / 9);
}

/* What to hold if @bound was low enough for as long as a trial takes. */
static inline u32 tail_guarded(u32 bound)
{
	return bound < TAIL_GUARDED ? bound : bound - bound / TAIL_GUARD_PART;
}

static inline unsigned int tail_bin(u64 latency_ns)
{
	u64 units = latency_ns >> TAIL_UNIT_SHIFT;
	unsigned int shift;

	if (units < TAIL_BINS)
		return units;
	shift = fls64(units) - TAIL_BINS_SHIFT - 1;
	if (shift + 1 >= TAIL_NR_BINS / TAIL_BINS)
		return TAIL_NR_BINS - 1;
	return (shift + 1) * TAIL_BINS + ((units >> shift) & (TAIL_BINS - 1));
}

/* The shortest latency that is too long for @bin. */
static inline u64 tail_bin_end_ns(unsigned int bin)
{
	u64 units = bin + 1;

	if (bin >= TAIL_BINS)
		units = (u64)(TAIL_BINS + 1 + bin % TAIL_BINS) << (bin / TAIL_BINS - 1);
	return units << TAIL_UNIT_SHIFT;
}

#endif /* MQFAIR_TAIL_H */
