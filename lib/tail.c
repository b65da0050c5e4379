// SPDX-License-Identifier: GPL-2.0
/*
 * tail.c - a bound that follows a target
 *
 * The problem
 * ===========
 * The right bound depends on the device, on the load, and on how long the real-time task can wait.
 * The K2 analysis finds it by an experiment for each kind of load. Here the law finds it from the
 * requests that complete anyway, and finds it again when the load changes.
 *
 * The goal is one of the analysis's two. O1: the largest bound with which the 99.9th percentile of
 * the real-time requests, from insert to completion, is at most target_ns. O2: the smallest with
 * which the bandwidth is at least bandwidth_pct percent of what the ceiling gives. With both, the
 * smallest bound that gives the bandwidth, unless that misses the latency: then the largest that
 * keeps it.
 *
 * What is measured
 * ================
 * Time is cut into windows. If n real-time requests completed in a window, k of them beyond the
 * target, the 99.9th percentile (by nearest rank) is beyond the target if 1000 k > n: the window is
 * violated. With fewer than 1000 requests, one request is enough. By the "rule of three", a window
 * without any shows at 95% confidence only that less than 3/n of the requests are beyond: 1 in 70
 * after 200. To see 1 in 1000 takes 3000 requests, 8 seconds of a reader that makes 400 a second.
 * So a result after five seconds is an estimate, and the law has two parts: a search that is quick
 * and errs on the low side, and a hold that counts for as long as it lasts.
 *
 * When the bound changes, the device still holds what it was given before. A window begins when
 * 100 ms have passed and no more requests are in flight than the bound allows.
 *
 * The search
 * ==========
 * It keeps the largest bound that was found low enough, L, and the smallest that was too high, H.
 *
 *	H unknown		try twice the bound
 *	H is one step from L	done: hold L (for O2: H)
 *	else			try the geometric mean of L and H
 *
 * A bound is too high if its window is violated; that shows at once. It is also too high if the
 * window is tight: from 8 on, if a tail longer by an eighth would be beyond the target. It is low
 * enough after 200 ms and 32 requests with neither, or 700 ms where H is within twice L and the
 * choice matters. A step is 1 up to 16 and an eighth beyond. The search takes two to five seconds
 * from any start, with 400 real-time requests a second.
 *
 * A trial of 250 requests accepts a bound with one in 250 beyond the target. But over the seconds
 * to come a window of 400 requests should be violated less than once in twenty: one in 8000. How
 * many steps lie between the two depends on the device: one or two if the whole device is the
 * bottleneck, three or four if it has dies to spare. From 8 on, the law therefore holds a bound a
 * quarter below L. Below 8 a step is too large for a bound in between.
 *
 * For O2 the ceiling is tried first, for 700 ms: what it gives is the reference, and H. Too high
 * means here that the bandwidth is enough. Only at this time does the bound go up before the law
 * knows that real time can bear it.
 *
 * If no bound keeps the latency, the law holds the one with the shortest tail, sets is_unmet, and
 * repeats the search after a while. If that one is the largest that was tried, a smaller bound does
 * not help: the real-time load fills the device by itself. Then larger ones are tried.
 *
 * The hold
 * ========
 * A window lasts a second. One in 40 may be violated without a step: a good window earns one
 * credit, up to 40, and a violated one costs 40. When credit runs out, the bound steps down (by two
 * from 15 up); credit is then reset to half. So a bound that is violated now and then is left, and
 * one that is violated once in a long time is kept: a window cannot show more. At the ceiling
 * nothing is tried, and the credit stays.
 *
 * A step down starts at the bound if requests wait for it, else at the number in flight: a bound
 * that is never reached is no better than the next. It goes as far below as a search would. The
 * number in flight may hold for a moment only, when best effort did next to nothing and the drive
 * made real time wait by itself. So H is unknown from then on, and a search begins as soon as
 * requests wait. Before twice the bound it tries the number that was in flight, if that is less. If
 * the search reaches a bound for which no request waits, with no more in flight than at that step,
 * this is the load that the step was for: the step stands.
 *
 * After 60 good windows the next step up is tried, on no credit: the first violation ends it, and
 * the bound goes back one step, to the proven one. Each step down doubles that price, up to 480
 * windows. This memory keeps the bound from oscillating: a bound that was violated is tried again
 * ever more rarely. Of 20 windows it costs 1/3 of one at first, and 1/24 in the end.
 *
 * For O2 the signs are reversed: a bad window is short of the bandwidth, by 3% since bandwidth is
 * never quite the same, and it costs a step up, but only if requests wait for the bound. A load
 * that asks for less is not short of anything, and a pause is no part of a window.
 *
 * With both goals a bound may be violated and the next below it short. A step down because of the
 * latency suspends the bandwidth goal: from then on short windows are good ones, and the next step
 * up is a trial at its price. The goal returns with a trial: where the price has been paid and the
 * bandwidth is enough, the trial is a step down.
 *
 * A new search begins
 *
 *  - at another load: the share of reads in the bytes of best effort is 25 points off what it was.
 *    The law forgets what it has learned, price included. A window with less than 32 requests of
 *    best effort has no share of reads: a pause is no other load.
 *  - after a window in which 5% are beyond the target: from a quarter of the bound. If no bound
 *    keeps the target, that is so all the time, and means another load only where the tail is twice
 *    as long as in the window before. Then nothing is known to be low enough. The last search may
 *    have been before the load had filled the device, and the largest bound seemed as good as any.
 *  - when requests wait for the bound and H is unknown. As long as no request waited, the search
 *    had no reason to go on, and a bound that was not needed is not known to be good; or a step
 *    down has made H unknown. For O2, also if there is more bandwidth than the reference had.
 *
 * Without real-time requests nothing is learned about O1, and the bound stays: the next real-time
 * request finds the bound that was right for the one before.
 *
 * In simulated time on devices with 4 dies, with reads, writes and both, the targets are met in 95%
 * of the seconds from the fifth on, with at least 90% of the best fixed bound's bandwidth
 * (kunit/tail_kunit.c). With many more dies the violations grow so slowly with the bound that
 * the hold needs tens of seconds to see them. With 16 dies, one run in seventeen had less than 95%
 * good seconds in its first minute, one in four less than 90% of the bandwidth, and one in three
 * moved by more than a step.
 */
#include <linux/export.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "tail.h"

#define TAIL_NS_PER_MS	1000000ULL
#define TAIL_NS_PER_S	(1000 * TAIL_NS_PER_MS)

/* Times: the device settles; a trial far from the goal; a trial near it; a window of the hold. */
#define TAIL_SETTLE_NS	(100 * TAIL_NS_PER_MS)
#define TAIL_FAR_NS	(200 * TAIL_NS_PER_MS)
#define TAIL_NEAR_NS	(700 * TAIL_NS_PER_MS)
#define TAIL_HOLD_NS	TAIL_NS_PER_S
/* So long without a tick is a pause. */
#define TAIL_PAUSE_NS	TAIL_NS_PER_S

/* ---- windows ---- */

u64 tail_p999_ns(const struct tail_sums *sums, const struct tail_sums *since)
{
	unsigned long nr = 0, beyond = (sums->nr_rt - since->nr_rt) / 1000;
	unsigned int bin = TAIL_NR_BINS;

	while (bin--) {
		nr += (u32)(sums->bin[bin] - since->bin[bin]);
		if (nr > beyond)
			return tail_bin_end_ns(bin);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(tail_p999_ns);

/* Less than @pct percent of the bandwidth that was asked for. */
static bool tail_lacks(const struct tail *a, u64 bytes_per_s, u32 pct)
{
	return bytes_per_s * 10000 < a->reference_bytes_per_s * a->config.bandwidth_pct * pct;
}

static void tail_look(const struct tail *a, const struct tail_sums *sums, u64 now_ns,
		      struct tail_window *w)
{
	const struct tail_sums *since = &a->since;
	unsigned long be_bytes = sums->be_bytes - since->be_bytes;
	u64 target_ns = a->config.target_ns;

	*w = (struct tail_window) {
		.bound		= a->bound,
		.ns		= now_ns - a->since_ns,
		.nr		= sums->nr - since->nr,
		.nr_rt		= sums->nr_rt - since->nr_rt,
		.nr_beyond	= sums->nr_beyond - since->nr_beyond,
		.p999_ns	= tail_p999_ns(sums, since),
	};
	w->bytes_per_s = mul_u64_u64_div_u64(sums->bytes - since->bytes, TAIL_NS_PER_S,
					     max(w->ns, 1ULL));
	w->has_mix = be_bytes && w->nr >= w->nr_rt + TAIL_NR_MIN;
	if (w->has_mix)
		w->read_pct = div64_u64((u64)(sums->be_read_bytes - since->be_read_bytes) * 100,
					be_bytes);
	w->is_limited = (sums->nr_limited - since->nr_limited) * TAIL_LIMITED_PART > w->nr;
	w->is_violated = target_ns && w->nr_beyond * 1000 > w->nr_rt;
	w->is_tight = target_ns && w->bound >= TAIL_GUARDED &&
		      w->p999_ns + w->p999_ns / TAIL_TIGHT_PART > target_ns;
	/* Where no request waits for the bound, a larger one would give no more. */
	w->is_short = w->is_limited &&
		      tail_lacks(a, w->bytes_per_s,
				 a->state == TAIL_HOLD ? 100 - TAIL_SLACK_PCT : 100);
}

static bool tail_is_gross(const struct tail_window *w)
{
	return w->is_violated && w->nr_beyond >= TAIL_GROSS_NR &&
	       w->nr_beyond * TAIL_GROSS_PART > w->nr_rt;
}

static bool tail_is_over(const struct tail *a, const struct tail_window *w)
{
	bool has_target = a->config.target_ns && a->state != TAIL_REFERENCE;
	u64 need_ns = TAIL_NEAR_NS;

	if ((has_target ? w->nr_rt : w->nr) < TAIL_NR_MIN)
		return false;
	if (a->state == TAIL_HOLD)
		need_ns = TAIL_HOLD_NS;
	else if (a->state == TAIL_SEARCH && (w->is_violated || w->is_tight))
		need_ns = 0;
	else if (a->state == TAIL_SEARCH && (!a->high || a->high > 2 * a->low))
		need_ns = TAIL_FAR_NS;
	return w->ns >= need_ns;
}

/* ---- the search ---- */

static void tail_start_search(struct tail *a, u32 low, u32 high)
{
	a->state = TAIL_SEARCH;
	a->low = low;
	a->high = high;
	a->suspect = 0;
	a->proven = low;
	a->floor = 0;
	a->most_tried = 0;
	a->high_is_fine = false;
	a->best_bound = 0;
}

/* Nothing is known. */
static void tail_start(struct tail *a)
{
	tail_start_search(a, 0, 0);
	a->price = TAIL_PRICE_MIN;
	if (a->config.bandwidth_pct) {
		a->state = TAIL_REFERENCE;
		a->bound = a->config.ceiling;
	}
}

void tail_start_hold(struct tail *a, u32 bound)
{
	a->state = TAIL_HOLD;
	a->bound = bound;
	a->suspect = 0;
	a->is_above = a->high_is_fine;
	a->is_unmet = !a->high_is_fine && a->low == a->floor;
	a->has_mix = false;
	a->is_trial = false;
	a->credit = TAIL_COST / 2;
	a->calm = 0;
}
EXPORT_SYMBOL_GPL(tail_start_hold);

/* High and low are a step apart, and high is too much for real time. */
static void tail_end_search(struct tail *a)
{
	if (a->low > a->floor) {
		tail_start_hold(a, max(tail_guarded(a->low), a->proven));
	} else if (a->best_bound == a->most_tried && a->most_tried < a->config.ceiling) {
		a->floor = a->most_tried;
		a->low = a->floor;
		a->high = 0;
		a->bound = min(2 * a->floor, a->config.ceiling);
	} else {
		tail_start_hold(a, a->best_bound);
	}
}

/* No request waits, and no more are in flight than when the latency was missed like this. */
static bool tail_is_suspect(const struct tail *a, const struct tail_window *w)
{
	return !a->high && !w->is_limited && a->suspect && a->most_inflight <= a->suspect;
}

/* Back to the bound of the step down: this is the load that it was for. */
static void tail_go_back(struct tail *a)
{
	a->high = a->suspect;
	tail_start_hold(a, a->proven);
}

/* A suspect further away belongs to another load. */
static u32 tail_next_up(const struct tail *a, u32 bound)
{
	return a->suspect > bound && a->suspect < 2 * bound ? a->suspect : 2 * bound;
}

static void tail_search(struct tail *a, const struct tail_window *w)
{
	bool is_too_much = w->is_violated || w->is_tight;

	a->most_tried = max(a->most_tried, w->bound);
	if (!a->best_bound || w->p999_ns < a->best_p999_ns) {
		a->best_bound = w->bound;
		a->best_p999_ns = w->p999_ns;
	}
	if (!is_too_much && tail_is_suspect(a, w)) {
		tail_go_back(a);
		return;
	}
	if (is_too_much || (a->config.bandwidth_pct && !w->is_short)) {
		a->high = w->bound;
		a->high_is_fine = !is_too_much;
	} else {
		a->low = w->bound;
	}

	if (!a->high && (!w->is_limited || a->low >= a->config.ceiling))
		tail_start_hold(a, a->low);
	else if (!a->high)
		a->bound = min(tail_next_up(a, w->bound), a->config.ceiling);
	else if (tail_up(a->low) < a->high)
		a->bound = clamp((u32)int_sqrt((unsigned long)max(a->low, 1U) * a->high),
				 a->low + 1, a->high - 1);
	else if (a->high_is_fine)
		tail_start_hold(a, a->high);
	else
		tail_end_search(a);
}

static void tail_take_reference(struct tail *a, const struct tail_window *w)
{
	tail_start_search(a, 0, w->bound);
	a->high_is_fine = true;
	a->reference_bytes_per_s = w->bytes_per_s;
	a->bound = max_t(u32, int_sqrt(w->bound), 1);
}

/* ---- holding ---- */

static void tail_raise_price(struct tail *a)
{
	a->price = min_t(u32, 2 * a->price, TAIL_PRICE_MAX);
}

/* Where a step down starts. The number in flight comes from ten looks: a suspect, no more. */
static u32 tail_step_from(struct tail *a, const struct tail_window *w)
{
	if (w->is_limited || a->most_inflight >= a->bound)
		return a->bound;
	a->high = 0;
	a->suspect = a->most_inflight;
	return a->most_inflight;
}

static u32 tail_lower(struct tail *a, const struct tail_window *w)
{
	u32 from = tail_step_from(a, w), bound = tail_down(max(from, 2U));

	/* Below a trial lies the proven bound. */
	if (w->is_violated && !a->is_trial && bound >= TAIL_COARSE)
		bound = tail_down(bound);
	return from < a->bound ? tail_guarded(bound) : bound;
}

static void tail_step(struct tail *a, const struct tail_window *w, bool is_up,
		      u32 credit)
{
	a->bound = is_up ? min(tail_up(a->bound), a->config.ceiling) : tail_lower(a, w);
	a->is_trial = false;
	a->credit = credit;
	a->calm = 0;
}

/* A step on no credit. If latency and bandwidth are both good, a lower bound may do as well. */
static void tail_try(struct tail *a, const struct tail_window *w)
{
	if (a->config.bandwidth_pct && !w->is_short)
		a->is_above = true;
	if (!a->is_above && a->bound == a->config.ceiling)
		return;
	tail_step(a, w, !a->is_above, 0);
	a->is_trial = !a->is_above;
}

static void tail_miss(struct tail *a, const struct tail_window *w)
{
	/* The latency goes first, else a short window below would undo the step in a second. */
	if (w->is_violated)
		a->is_above = false;
	tail_step(a, w, !w->is_violated, TAIL_COST / 2);
	tail_raise_price(a);
}

/* The first window of a hold that has best effort says what the load is. */
static bool tail_is_other_load(struct tail *a, const struct tail_window *w)
{
	if (!w->has_mix)
		return false;
	if (!a->has_mix) {
		a->has_mix = true;
		a->read_pct = w->read_pct;
	}
	return w->read_pct > a->read_pct + TAIL_MIX_PCT ||
	       w->read_pct + TAIL_MIX_PCT < a->read_pct;
}

/* There is more bandwidth than the search could know of. */
static bool tail_has_room(const struct tail *a, const struct tail_window *w)
{
	if (!w->is_limited || w->is_violated || w->is_tight)
		return false;
	if (!a->high)
		return a->bound < a->config.ceiling;
	return a->config.bandwidth_pct &&
	       w->bytes_per_s * 100 > a->reference_bytes_per_s * (100 + TAIL_SLACK_PCT);
}

/* The tail was that of the bound that is held, and a smaller one is left. */
static bool tail_has_doubled(const struct tail *a, const struct tail_window *w)
{
	return w->bound > 1 && w->p999_ns > 2 * a->best_p999_ns;
}

/* Requests wait, and no bound is known to be too high. */
static void tail_search_up(struct tail *a, const struct tail_window *w)
{
	u32 suspect = a->suspect;

	tail_start_search(a, w->bound, 0);
	a->suspect = suspect;
	tail_search(a, w);
}

/* True if a new search has begun. */
static bool tail_starts_over(struct tail *a, const struct tail_window *w)
{
	if (tail_is_other_load(a, w)) {
		tail_start(a);
	} else if (tail_has_room(a, w)) {
		if (a->high)
			tail_start(a);
		else
			tail_search_up(a, w);
	} else if (a->is_unmet && a->calm >= a->price) {
		tail_raise_price(a);
		tail_start_search(a, 0, 0);
	} else if (tail_is_gross(w) && (!a->is_unmet || tail_has_doubled(a, w))) {
		tail_start_search(a, a->is_unmet ? 0 : w->bound / TAIL_GROSS_FALL, w->bound);
		tail_search(a, w);
	} else {
		return false;
	}
	return true;
}

static void tail_hold(struct tail *a, const struct tail_window *w)
{
	a->calm++;
	if (tail_starts_over(a, w))
		return;
	if (a->is_unmet) {
		a->is_unmet = w->is_violated;
		a->best_p999_ns = w->p999_ns;
	} else if (!w->is_violated && !(a->is_above && w->is_short)) {
		a->credit = min_t(u32, a->credit + 1, TAIL_COST);
		if (w->is_limited && a->calm >= a->price)
			tail_try(a, w);
	} else if (a->credit >= TAIL_COST) {
		a->credit -= TAIL_COST;
		a->is_trial = false;
	} else {
		tail_miss(a, w);
	}
}

/* ---- interface ---- */

void tail_init(struct tail *a, u32 bound)
{
	memset(a, 0, sizeof(*a));
	a->bound = bound;
	a->config.ceiling = bound;
}
EXPORT_SYMBOL_GPL(tail_init);

void tail_set_config(struct tail *a, const struct tail_config *config, u64 now_ns)
{
	a->config = *config;
	a->bound = min(a->bound, config->ceiling);
	a->is_settling = true;
	a->since_ns = now_ns;
	a->nr_windows = 0;
	if (tail_is_on(config)) {
		tail_start(a);
	} else {
		a->state = TAIL_OFF;
		a->bound = config->ceiling;
	}
}
EXPORT_SYMBOL_GPL(tail_set_config);

void tail_get_found(const struct tail *a, struct tail_found *found)
{
	*found = (struct tail_found) {};
	if (a->state != TAIL_HOLD || a->is_unmet)
		return;
	found->bound = a->is_trial ? tail_down(a->bound) : a->bound;
	found->high = a->high;
	found->is_above = a->is_above;
	found->reference_bytes_per_s = a->reference_bytes_per_s;
}
EXPORT_SYMBOL_GPL(tail_get_found);

void tail_resume(struct tail *a, const struct tail_found *found)
{
	if (!tail_is_on(&a->config) || !found->bound || found->bound > a->config.ceiling)
		return;
	a->low = found->bound;
	a->high = found->high;
	tail_start_hold(a, found->bound);
	a->is_above = found->is_above;
	a->reference_bytes_per_s = found->reference_bytes_per_s;
}
EXPORT_SYMBOL_GPL(tail_resume);

static void tail_begin_window(struct tail *a, const struct tail_sums *sums, u64 now_ns)
{
	a->most_inflight = 0;
	a->since_ns = now_ns;
	a->since = *sums;
}

void tail_rest(struct tail *a, u64 now_ns)
{
	a->is_settling = true;
	a->since_ns = now_ns;
	a->ticked_ns = now_ns;
}
EXPORT_SYMBOL_GPL(tail_rest);

bool tail_tick(struct tail *a, const struct tail_sums *sums, u32 inflight, u64 now_ns)
{
	struct tail_window w;

	if (a->state == TAIL_OFF)
		return false;
	/* After such a pause, the time before it and the time after make no window together. */
	if (now_ns - a->ticked_ns > TAIL_PAUSE_NS)
		tail_begin_window(a, sums, now_ns);
	a->ticked_ns = now_ns;
	if (a->is_settling) {
		if (now_ns - a->since_ns >= TAIL_SETTLE_NS && inflight <= a->bound) {
			a->is_settling = false;
			tail_begin_window(a, sums, now_ns);
		}
		return false;
	}

	a->most_inflight = max(a->most_inflight, inflight);
	tail_look(a, sums, now_ns, &w);
	if (!tail_is_over(a, &w))
		return false;
	a->last = w;
	a->nr_windows++;
	if (a->state == TAIL_REFERENCE)
		tail_take_reference(a, &w);
	else if (a->state == TAIL_SEARCH)
		tail_search(a, &w);
	else
		tail_hold(a, &w);
	a->is_settling = a->bound != w.bound;
	tail_begin_window(a, sums, now_ns);
	return true;
}
EXPORT_SYMBOL_GPL(tail_tick);
