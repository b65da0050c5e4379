/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_auto_leg.h - what two values of a knob have brought, compared
 *
 * A leg is the time in which one value was in force, or all of it that counts for a comparison.
 */
#ifndef MQFAIR_MQFQ_AUTO_LEG_H
#define MQFAIR_MQFQ_AUTO_LEG_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

enum {
	/* The law knows what a request of this size is of a flow's share. */
	MQFQ_AUTO_UNIT_BYTES	= 4096,
};

/**
 * struct mqfq_auto_window - what a window of time has brought
 * @ns:			how long it was
 * @bytes:		that were dispatched
 * @is_time:		@bytes are the device time that requests cost
 * @requests:		that were completed
 * @slot_waits:		times that a queue found no slot
 * @throttles:		times that a queue was throttled
 * @in_flight:		requests at the device, at its end
 * @nr_flows:		flows that had requests in it
 * @largest_kb:		the largest of the requests that wait; 0 if none does
 */
struct mqfq_auto_window {
	u64 ns;
	u64 bytes;
	bool is_time;
	u64 requests;
	u64 slot_waits;
	u64 throttles;
	u32 in_flight;
	u32 nr_flows;
	u32 largest_kb;
};

/* The two values of a comparison. */
enum mqfq_auto_side {
	MQFQ_AUTO_BASE,
	MQFQ_AUTO_OTHER,
	MQFQ_AUTO_NR_SIDES,
};

struct mqfq_auto_flow;

/**
 * struct mqfq_auto_shares - what flows were served, for Jain's index
 * @nr:		flows that were
 * @sum:	of the shares, that is service over weight
 * @units:	sum of the squares of what a request of MQFQ_AUTO_UNIT_BYTES is of each share
 * @squares:	sum of their squares
 * @least:	the smallest
 * @poorest:	the flow that has it; it may be gone
 */
struct mqfq_auto_shares {
	u64 nr;
	u64 sum;
	u64 units;
	u64 squares;
	u64 least;
	const struct mqfq_auto_flow *poorest;
};

/**
 * struct mqfq_auto_flow - what the law remembers of a flow; all 0 at first
 * @share:	its service over its weight, with each side of the comparison; or at rest
 * @due:	what flows had on average in the windows of @share
 * @now:	its service over its weight in the window that ends
 * @period:	number of the comparison, or rest
 * @visits:	how many of its last windows it came to and went from, as mqfq_auto.c counts
 * @was_outstanding: it had requests outstanding when the last window ended
 * @counts:	it was there throughout the window that ends, and asks for more than it has
 */
struct mqfq_auto_flow {
	u64 share[MQFQ_AUTO_NR_SIDES];
	u64 due[MQFQ_AUTO_NR_SIDES];
	u64 now;
	u32 period;
	u16 visits;
	bool was_outstanding;
	bool counts;
};

/**
 * struct mqfq_auto_leg - service with one value of a knob
 * @ns:		in so much time
 * @bytes:	dispatched
 * @is_time:	these are device time
 * @requests:	completed
 * @nr_windows:	in so many windows
 * @rates:	sum of their bytes per millisecond
 * @squares:	and of the squares of these
 * @shares:	of the flows
 * @means:	sum of what a flow had on average in each window
 * @beside:	what its poorest flow has in the leg that it is compared with; 0: nothing any more
 */
struct mqfq_auto_leg {
	u64 ns;
	u64 bytes;
	bool is_time;
	u64 requests;
	u64 nr_windows;
	u64 rates;
	u64 squares;
	struct mqfq_auto_shares shares;
	u64 means;
	u64 beside;
};

/**
 * struct mqfq_auto_turn - windows in a row with one value, a part of its leg
 * @windows:	so many
 * @requests:	completed in them
 * @bytes:	dispatched
 * @largest_kb:	the largest of the requests that waited
 */
struct mqfq_auto_turn {
	unsigned int windows;
	u64 requests;
	u64 bytes;
	u32 largest_kb;
};

/* Jain's index, in millionths. */
static inline u32 mqfq_auto_jain_ppm(const struct mqfq_auto_shares *s)
{
	u64 ppm;

	if (!s->nr)
		return 1000000;
	ppm = div64_u64(mul_u64_u64_div_u64(1000 * s->sum, 1000 * s->sum, s->squares), s->nr);
	return min_t(u64, ppm, 1000000);
}

/* What a flow had on average. */
static inline u64 mqfq_auto_mean(const struct mqfq_auto_shares *s)
{
	return s->nr ? div64_u64(s->sum, s->nr) : 0;
}

/* Counts the share of the flow of @note; true if it is the least so far. */
bool mqfq_auto_add_share(struct mqfq_auto_shares *s, const struct mqfq_auto_flow *note, u64 share,
			 u64 unit);

/*
 * What a flow would have of a leg if it had been there all the time: @share is what it has had, and
 * @due what flows had on average meanwhile. When others are alone, each has more. 0 if it was there
 * for too little of the leg to tell.
 */
u64 mqfq_auto_of_leg(const struct mqfq_auto_leg *leg, u64 due, u64 share);

/* Counts a window for a turn. */
void mqfq_auto_turn_add(struct mqfq_auto_turn *turn, const struct mqfq_auto_window *w);

/*
 * How many requests of a turn count for a comparison. With a few large requests among many small
 * ones, chance in the large ones moves the bytes. A window may have less than one of them.
 */
u64 mqfq_auto_turn_tells(const struct mqfq_auto_turn *turn);

/* Counts a window for a leg. */
void mqfq_auto_add(struct mqfq_auto_leg *leg, const struct mqfq_auto_window *w);

/*
 * By how much the mean of a leg's windows may be wrong: DOUBTS standard errors, in millionths of
 * it. U64_MAX: nothing is known.
 */
u64 mqfq_auto_scatter_ppm(const struct mqfq_auto_leg *leg);

/* @now per @now_ns over @then per @then_ns, less 1, in millionths. */
s64 mqfq_auto_rise_ppm(u64 now, u64 now_ns, u64 then, u64 then_ns);

/* The larger of the rises of bytes and of requests. */
s64 mqfq_auto_leg_rise_ppm(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then);

/*
 * What the flow that had least of its share in @then has more of in @now, in millionths; 0 if it
 * has nothing there, since it asks for nothing any more. It is the same flow in both: which one has
 * least in a short leg is also a matter of chance.
 */
s64 mqfq_auto_poorest_rise_ppm(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then);

/* Is that so much more that it is not chance? */
bool mqfq_auto_helps_poorest(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then);

/* Jain's index of a leg, without what chance takes. */
u32 mqfq_auto_leg_jain_ppm(const struct mqfq_auto_leg *leg);

/* All that may be worth what chance takes from Jain's index, in millionths of throughput. */
u64 mqfq_auto_chance_ppm(const struct mqfq_auto_leg *leg);

/*
 * The gain of a larger value over a smaller one, in millionths of throughput. Unfairness counts
 * against it, unless it is only that all have more: the flow that has least of its share must gain
 * by the smaller value half of what the total loses. The lower of both rates counts, unless a flow
 * that is short of its share gains by the larger value.
 */
s64 mqfq_auto_gain_of_ppm(const struct mqfq_auto_leg *large, const struct mqfq_auto_leg *small);

/* Is a larger value, which had @leg and this gain, unfair, and that not by chance? */
bool mqfq_auto_is_unfair(const struct mqfq_auto_leg *leg, s64 gain_ppm);

#endif /* MQFAIR_MQFQ_AUTO_LEG_H */
