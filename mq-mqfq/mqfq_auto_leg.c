// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto_leg.c - see mqfq_auto_leg.h; mqfq_auto.c has the law
 */
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "mqfq_auto_leg.h"

enum {
	/* The mean of a leg's windows may be wrong by so many standard errors, */
	MQFQ_AUTO_DOUBTS	= 3,
	/* if there are enough windows to tell. */
	MQFQ_AUTO_SCATTER_WINDOWS = 4,
	/* The worth of a part of Jain's index, in parts of throughput. */
	MQFQ_AUTO_UNFAIR	= 4,
	/* And more below this. */
	MQFQ_AUTO_VERY_UNFAIR	= 12,
	MQFQ_AUTO_VERY_UNFAIR_PPM = 990000,
	/* A D that is worse than a smaller one by so much is unfair. */
	MQFQ_AUTO_UNFAIR_PPM	= 100000,
	/* The flow that has least gains by a value if it has so much more. */
	MQFQ_AUTO_POOREST_PPM	= 100000,
	/* A flow that was there for less than one part in so many of a leg does not count in it. */
	MQFQ_AUTO_DUE_PART	= 8,
};

void mqfq_auto_add(struct mqfq_auto_leg *leg, const struct mqfq_auto_window *w)
{
	u64 rate = w->ns ? mul_u64_u64_div_u64(w->bytes, NSEC_PER_MSEC, w->ns) : 0;

	leg->ns += w->ns;
	leg->bytes += w->bytes;
	leg->is_time = w->is_time;
	leg->requests += w->requests;
	leg->nr_windows++;
	leg->rates += rate;
	leg->squares += rate * rate;
}

void mqfq_auto_turn_add(struct mqfq_auto_turn *turn, const struct mqfq_auto_window *w)
{
	turn->windows++;
	turn->requests += w->requests;
	turn->bytes += w->bytes;
	turn->largest_kb = max(turn->largest_kb, w->largest_kb);
}

u64 mqfq_auto_turn_tells(const struct mqfq_auto_turn *turn)
{
	if (!turn->largest_kb)
		return turn->requests;
	return min(turn->requests, div_u64(turn->bytes, turn->largest_kb << 10));
}

u64 mqfq_auto_scatter_ppm(const struct mqfq_auto_leg *leg)
{
	u64 n = leg->nr_windows, mean, mean_square;

	if (n < MQFQ_AUTO_SCATTER_WINDOWS || !leg->rates)
		return U64_MAX;
	mean = div64_u64(leg->rates, n);
	mean_square = div64_u64(leg->squares, n);
	mean_square -= min(mean_square, mean * mean);
	return div64_u64(MQFQ_AUTO_DOUBTS * 1000000ULL * int_sqrt64(div64_u64(mean_square, n)),
			 mean);
}

s64 mqfq_auto_rise_ppm(u64 now, u64 now_ns, u64 then, u64 then_ns)
{
	u64 scaled;

	if (!now_ns || !then)
		return 0;
	scaled = mul_u64_u64_div_u64(now, then_ns, now_ns);
	return (s64)mul_u64_u64_div_u64(scaled, 1000000, then) - 1000000;
}

bool mqfq_auto_add_share(struct mqfq_auto_shares *s, const struct mqfq_auto_flow *note, u64 share,
			 u64 unit)
{
	bool least;
	u64 square;

	/* The squares of a second of 10 GB/s fit, also with all weights 1. */
	share = min_t(u64, share, U32_MAX);
	unit = min_t(u64, unit, U16_MAX);
	square = share * share;
	if (!share)
		return false;
	least = !s->nr || share < s->least;
	if (least) {
		s->least = share;
		s->poorest = note;
	}
	s->nr++;
	s->sum += share;
	s->units += unit * unit;
	s->squares = min(s->squares, U64_MAX - square) + square;
	return least;
}

u64 mqfq_auto_of_leg(const struct mqfq_auto_leg *leg, u64 due, u64 share)
{
	if (!due || due < leg->means / MQFQ_AUTO_DUE_PART)
		return 0;
	return mul_u64_u64_div_u64(share, leg->means, due);
}

s64 mqfq_auto_poorest_rise_ppm(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then)
{
	if (!then->beside)
		return 0;
	return mqfq_auto_rise_ppm(then->beside, now->ns, then->shares.least, then->ns);
}

static s64 mqfq_auto_bytes_rise_ppm(const struct mqfq_auto_leg *now,
				    const struct mqfq_auto_leg *then)
{
	return mqfq_auto_rise_ppm(now->bytes, now->ns, then->bytes, then->ns);
}

/* While time is shared, the number of requests says nothing: the same as of bytes. */
static s64 mqfq_auto_requests_rise_ppm(const struct mqfq_auto_leg *now,
				       const struct mqfq_auto_leg *then)
{
	if (now->is_time)
		return mqfq_auto_bytes_rise_ppm(now, then);
	return mqfq_auto_rise_ppm(now->requests, now->ns, then->requests, then->ns);
}

s64 mqfq_auto_leg_rise_ppm(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then)
{
	return max(mqfq_auto_bytes_rise_ppm(now, then), mqfq_auto_requests_rise_ppm(now, then));
}

/*
 * What chance takes from Jain's index: each flow may have a request more or less than its share,
 * which is much for one that has few of them since it has little weight.
 */
static u64 mqfq_auto_grain_ppm(const struct mqfq_auto_leg *leg)
{
	u64 nr = max(leg->shares.nr, 1ULL), size = div64_u64(leg->bytes, max(leg->requests, 1ULL));
	u64 mean = mul_u64_u64_div_u64(leg->shares.sum, MQFQ_AUTO_UNIT_BYTES, max(nr * size, 1ULL));

	mean = clamp(mean, 1ULL, (u64)U32_MAX);
	return div64_u64(1000000 * div64_u64(leg->shares.units, nr), mean * mean);
}

u32 mqfq_auto_leg_jain_ppm(const struct mqfq_auto_leg *leg)
{
	return min(mqfq_auto_jain_ppm(&leg->shares) + mqfq_auto_grain_ppm(leg), 1000000ULL);
}

/* What Jain's index of a leg is worth, in millionths of throughput. */
static s64 mqfq_auto_worth_ppm(const struct mqfq_auto_leg *leg)
{
	s64 jain_ppm = mqfq_auto_leg_jain_ppm(leg);

	return MQFQ_AUTO_UNFAIR * jain_ppm +
	       MQFQ_AUTO_VERY_UNFAIR * min_t(s64, jain_ppm, MQFQ_AUTO_VERY_UNFAIR_PPM);
}

u64 mqfq_auto_chance_ppm(const struct mqfq_auto_leg *leg)
{
	return (MQFQ_AUTO_UNFAIR + MQFQ_AUTO_VERY_UNFAIR) * mqfq_auto_grain_ppm(leg);
}

bool mqfq_auto_helps_poorest(const struct mqfq_auto_leg *now, const struct mqfq_auto_leg *then)
{
	return mqfq_auto_poorest_rise_ppm(now, then) > MQFQ_AUTO_POOREST_PPM;
}

/*
 * A flow is short of its share with both, and it is not by the larger value: that one displaces
 * nothing.
 */
static bool mqfq_auto_is_short_anyway(const struct mqfq_auto_leg *large,
				      const struct mqfq_auto_leg *small, s64 least_ppm,
				      s64 most_ppm)
{
	if (mqfq_auto_leg_jain_ppm(small) >= MQFQ_AUTO_VERY_UNFAIR_PPM)
		return false;
	if (mqfq_auto_helps_poorest(large, small))
		return mqfq_auto_worth_ppm(small) <= mqfq_auto_worth_ppm(large);
	return least_ppm > -MQFQ_AUTO_POOREST_PPM && !mqfq_auto_helps_poorest(small, large) &&
	       2 * mqfq_auto_poorest_rise_ppm(small, large) < most_ppm;
}

s64 mqfq_auto_gain_of_ppm(const struct mqfq_auto_leg *large, const struct mqfq_auto_leg *small)
{
	s64 unfair_ppm = mqfq_auto_worth_ppm(small) - mqfq_auto_worth_ppm(large);
	s64 bytes_ppm = mqfq_auto_bytes_rise_ppm(large, small);
	s64 requests_ppm = mqfq_auto_requests_rise_ppm(large, small);
	s64 least_ppm = min(bytes_ppm, requests_ppm), most_ppm = max(bytes_ppm, requests_ppm);
	s64 loss_ppm = -mqfq_auto_leg_rise_ppm(small, large);

	if (mqfq_auto_is_short_anyway(large, small, least_ppm, most_ppm))
		return most_ppm;
	if (least_ppm > 0 && 2 * mqfq_auto_poorest_rise_ppm(small, large) < loss_ppm)
		return least_ppm;
	return least_ppm - max_t(s64, unfair_ppm, 0);
}

bool mqfq_auto_is_unfair(const struct mqfq_auto_leg *leg, s64 gain_ppm)
{
	return gain_ppm + (s64)mqfq_auto_chance_ppm(leg) < -MQFQ_AUTO_UNFAIR_PPM;
}
