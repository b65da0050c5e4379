// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_auto.c - T and D of mq-mqfq, found while it runs
 *
 * The problem
 * ===========
 * Both T and D are curves of the same form: more throughput with a larger value, up to a knee, and
 * nothing after it but less fairness (T), or longer queues within the device (D). Where the knee is
 * depends on the device for D, and on the load and the machine for T. The paper finds D once, by
 * experiment, and makes T so large that it suffices for the worst load (section 3.4).
 *
 * The law
 * =======
 * The law looks for the smallest value whose throughput is, within a percent or two, that of all
 * larger ones. A comparison sets, for some tens of milliseconds each, the value found so far and
 * another one: twice as much, or half as much. It looks at the gain of the larger one:
 *
 *	gain = min(bytes per second, requests per second), larger over smaller, - 1
 *	       - UNFAIR times what Jain's index has lost
 *
 * Both rates must rise. With a larger D, large requests may displace small ones. That is more
 * bytes, fewer requests, and no gain; it is less fairness. A flow that displaces one of its like
 * shows in Jain's index of the flows' service over their weights. A hundredth of that index, all
 * that a fixed setting may be better by, is worth 4% of throughput.
 *
 *	up:	if the gain of twice the value is at least RISE, 2%.
 *	down:	if the gain over half the value, together with those of the steps down before, is at
 *		most COST, 1%.
 *
 * RISE is more than COST, so that a step is not taken back at once: where going up pays, going down
 * again costs too much, and the reverse. All steps down together may cost COST, not each of them:
 * otherwise many small steps would lead far from the knee.
 *
 * Legs come in the order base, other, other, base, base, other ...: a steady drift cancels out, and
 * there is one change per pair. The window after a change does not count. A leg lasts until enough
 * requests have been completed, or for half a second. Few are enough for a large difference, which
 * the first pair shows, so that no tenant has to bear half of D for long. Near the threshold legs
 * are longer, and up to PAIRS_MAX pairs are compared. What is near depends on how many requests
 * were counted. A step needs two pairs at least, staying needs one. A device with less than a few
 * hundred requests per second keeps its values: differences there are chance.
 *
 * A step is tried only if it can mean something. D up: a queue waited for a slot. D down: so many
 * requests are at the device that half of D would be felt; a load that asks for little says nothing
 * about the device. T: queues were throttled; otherwise T does nothing. Either, down: it is more
 * than the default, since no larger value is kept for a load that might come. T does not become
 * less than the largest requests that wait, each of which would be throttled for itself, nor D less
 * than one. A D so small that hardware queues disturb each other for slots costs throughput, which
 * the comparison shows.
 *
 * A round tries each step of each knob; a step that is taken is tried again. When no step is left
 * the law rests: a second, after rounds without a step two, four, up to 16, so that trying costs
 * little. It ends the rest early if the load has become another one: bytes or requests per second
 * are a quarter off the usual twice in a row, or queues wait for what they did not wait for before.
 * The next round begins with the values found.
 *
 * What it costs
 * =============
 * Hooks do nothing for it: bytes per flow, completions, waits and throttlings are counted anyway.
 * While flows exist, a work item looks at them once per window.
 *
 * The theorems hold with the largest T and D that were in force in the interval; mqfq_theorems has
 * a family of worlds in which both change.
 *
 * kunit/mqfq_auto_kunit.c has it climb curves, and kunit/hosted/stress/mqfq_auto_sweep.c compares
 * it, with the policy as it is and simulated devices, with all fixed values.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "mqfq_auto.h"
#include "mqfq_policy.h"

enum {
	MQFQ_AUTO_RISE_PPM	= 20000,
	MQFQ_AUTO_COST_PPM	= 10000,
	/* A pair of LEG_REQUESTS each may be wrong by this; n such pairs by an nth of it. */
	MQFQ_AUTO_DOUBT_PPM	= 40000,
	/* The worth of a part of Jain's index, in parts of throughput. */
	MQFQ_AUTO_UNFAIR	= 4,
	MQFQ_AUTO_PAIRS_MAX	= 6,
	MQFQ_AUTO_PAIRS_TO_STEP	= 2,

	/* No more than this, slots or KiB, is kept for a load that might come. */
	MQFQ_AUTO_PLENTY	= 64,

	/* A leg has so many requests, or windows; the first legs, and all at least, LEG_LEAST. */
	MQFQ_AUTO_LEG_REQUESTS	= 1000,
	MQFQ_AUTO_LEG_WINDOWS	= 500 / MQFQ_AUTO_WINDOW_MS,
	MQFQ_AUTO_LEG_LEAST	= 100,

	MQFQ_AUTO_WAIT_MIN	= 1000 / MQFQ_AUTO_WINDOW_MS,
	MQFQ_AUTO_WAIT_MAX	= 16 * MQFQ_AUTO_WAIT_MIN,

	MQFQ_AUTO_UNUSUAL_PCT	= 25,
	MQFQ_AUTO_UNUSUAL_WINDOWS = 2,

	MQFQ_AUTO_BASE = 0,
	MQFQ_AUTO_OTHER = 1,

	MQFQ_AUTO_NR_STEPS	= MQFQ_AUTO_NR_KNOBS * MQFQ_AUTO_NR_WAYS,
};

/* ---- measuring ---- */

static void mqfq_auto_add(struct mqfq_auto_leg *leg, const struct mqfq_auto_window *w)
{
	leg->ns += w->ns;
	leg->bytes += w->bytes;
	leg->requests += w->requests;
	leg->jain_ppm += w->jain_ppm;
	leg->nr_windows++;
}

/*
 * How many requests count for a comparison. With a few large requests among many small ones, chance
 * in the large ones moves the bytes.
 */
static u64 mqfq_auto_nr_telling(const struct mqfq_auto_window *w)
{
	if (!w->largest_kb)
		return w->requests;
	return min(w->requests, div_u64(w->bytes, w->largest_kb << 10));
}

/* @now per @now_ns over @then per @then_ns, less 1, in millionths. */
static s64 mqfq_auto_rise_ppm(u64 now, u64 now_ns, u64 then, u64 then_ns)
{
	u64 scaled;

	if (!now_ns || !then)
		return 0;
	scaled = mul_u64_u64_div_u64(now, then_ns, now_ns);
	return (s64)mul_u64_u64_div_u64(scaled, 1000000, then) - 1000000;
}

static s64 mqfq_auto_gain_ppm(const struct mqfq_auto_leg *large, const struct mqfq_auto_leg *small)
{
	s64 unfair_ppm = (s64)div64_u64(small->jain_ppm, small->nr_windows) -
			 (s64)div64_u64(large->jain_ppm, large->nr_windows);

	return min(mqfq_auto_rise_ppm(large->bytes, large->ns, small->bytes, small->ns),
		   mqfq_auto_rise_ppm(large->requests, large->ns, small->requests, small->ns)) -
	       MQFQ_AUTO_UNFAIR * max_t(s64, unfair_ppm, 0);
}

void mqfq_auto_add_share(struct mqfq_auto_shares *s, u64 bytes, u32 effective_weight)
{
	/*
	 * The squares of a window fit for a device with 10 GB/s and all weights 1. The squares of
	 * all service since the beginning may not.
	 */
	u64 at_default = mul_u64_u32_shr(bytes, FLOW_WEIGHT_DEFAULT << FLOW_EFFECTIVE_SHIFT, 6);
	u64 share = min_t(u64, div_u64(at_default, effective_weight), U32_MAX);
	u64 square = share * share;

	if (!share)
		return;
	s->nr++;
	s->sum += share;
	s->squares = min(s->squares, U64_MAX - square) + square;
}

u32 mqfq_auto_jain_ppm(const struct mqfq_auto_shares *s)
{
	u64 ppm;

	if (!s->nr)
		return 1000000;
	ppm = div64_u64(mul_u64_u64_div_u64(1000 * s->sum, 1000 * s->sum, s->squares), s->nr);
	return min_t(u64, ppm, 1000000);
}

/* ---- which steps there are ---- */

static unsigned int mqfq_auto_step(enum mqfq_auto_which which, enum mqfq_auto_way way)
{
	return 1U << (which * MQFQ_AUTO_NR_WAYS + way);
}

static u32 mqfq_auto_least(enum mqfq_auto_which which, const struct mqfq_auto_window *w)
{
	if (which == MQFQ_AUTO_SLOTS)
		return MQFQ_SLOTS_MIN;
	return max_t(u32, MQFQ_AUTO_THROTTLE_KB_MIN, w->largest_kb);
}

static u32 mqfq_auto_most(enum mqfq_auto_which which)
{
	return which == MQFQ_AUTO_SLOTS ? MQFQ_SLOTS_MAX : MQFQ_AUTO_THROTTLE_KB_MAX;
}

/* Did the knob make a queue wait? If not, a larger value changes nothing. */
static bool mqfq_auto_is_felt(enum mqfq_auto_which which, const struct mqfq_auto_window *w)
{
	return which == MQFQ_AUTO_SLOTS ? w->slot_waits : w->throttles;
}

static unsigned int mqfq_auto_felt(const struct mqfq_auto_window *w)
{
	return mqfq_auto_is_felt(MQFQ_AUTO_SLOTS, w) << MQFQ_AUTO_SLOTS |
	       mqfq_auto_is_felt(MQFQ_AUTO_THROTTLE_KB, w) << MQFQ_AUTO_THROTTLE_KB;
}

/* The value to compare with, or the same if that would not mean anything. */
static u32 mqfq_auto_next(const struct mqfq_auto *a, enum mqfq_auto_which which,
			  enum mqfq_auto_way way, const struct mqfq_auto_window *w)
{
	u32 base = a->knob[which].base, least = mqfq_auto_least(which, w);
	bool felt = mqfq_auto_is_felt(which, w);

	if (way == MQFQ_AUTO_UP)
		return felt ? min(max(2 * base, least), mqfq_auto_most(which)) : base;
	if (base > MQFQ_AUTO_PLENTY || (which == MQFQ_AUTO_SLOTS && w->in_flight > base / 2))
		felt = true;
	return felt && base > least ? max(base / 2, least) : base;
}

/* ---- comparing ---- */

u32 mqfq_auto_value(const struct mqfq_auto *a, enum mqfq_auto_which which)
{
	const struct mqfq_auto_knob *k = &a->knob[which];

	return a->probing && a->which == which && a->side == MQFQ_AUTO_OTHER ? k->tried : k->base;
}

static void mqfq_auto_begin_leg(struct mqfq_auto *a)
{
	a->leg_windows = 0;
	a->leg_requests = 0;
}

static void mqfq_auto_begin(struct mqfq_auto *a, enum mqfq_auto_which which,
			    enum mqfq_auto_way way, u32 tried)
{
	a->probing = true;
	a->which = which;
	a->way = way;
	a->knob[which].tried = tried;
	a->side = MQFQ_AUTO_BASE;
	a->is_second = false;
	a->nr_pairs = 0;
	a->nr_probes++;
	a->told = 0;
	memset(a->leg, 0, sizeof(a->leg));
	mqfq_auto_begin_leg(a);
}

/* Back to the base, which may be another one by now. */
static void mqfq_auto_end(struct mqfq_auto *a)
{
	a->probing = false;
	a->done |= mqfq_auto_step(a->which, a->way);
}

/* The value that was tried is better: the same step is open again, its reverse is not. */
static void mqfq_auto_take_step(struct mqfq_auto *a)
{
	struct mqfq_auto_knob *k = &a->knob[a->which];
	u32 gain_ppm = max_t(s64, a->gain_ppm, 0);

	k->base = k->tried;
	if (a->way == MQFQ_AUTO_DOWN)
		k->debt_ppm += gain_ppm;
	else
		k->debt_ppm -= min(k->debt_ppm, gain_ppm);
	a->nr_steps++;
	a->has_stepped = true;
	mqfq_auto_end(a);
	/* Another T leaves D's knee where it is. */
	if (a->which == MQFQ_AUTO_SLOTS)
		a->done = 0;
	a->done &= ~mqfq_auto_step(a->which, a->way);
	a->done |= mqfq_auto_step(a->which, MQFQ_AUTO_NR_WAYS - 1 - a->way);
}

/* A pair is complete. */
static void mqfq_auto_judge(struct mqfq_auto *a)
{
	const struct mqfq_auto_knob *k = &a->knob[a->which];
	bool up = a->way == MQFQ_AUTO_UP;
	s64 limit = up ? MQFQ_AUTO_RISE_PPM : (s64)MQFQ_AUTO_COST_PPM - k->debt_ppm;
	s64 off, doubt_ppm;
	bool better;

	a->nr_pairs++;
	a->gain_ppm = mqfq_auto_gain_ppm(&a->leg[up], &a->leg[!up]);
	off = a->gain_ppm - limit;
	better = up ? off >= 0 : off <= 0;
	doubt_ppm = div64_u64(2ULL * MQFQ_AUTO_DOUBT_PPM * MQFQ_AUTO_LEG_REQUESTS, a->told);
	if (a->nr_pairs < MQFQ_AUTO_PAIRS_MAX &&
	    (max(off, -off) < doubt_ppm ||
	     (better && a->nr_pairs < MQFQ_AUTO_PAIRS_TO_STEP)))
		return;
	if (better)
		mqfq_auto_take_step(a);
	else
		mqfq_auto_end(a);
}

static void mqfq_auto_compare(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	u64 needs = a->nr_pairs < MQFQ_AUTO_PAIRS_TO_STEP ? MQFQ_AUTO_LEG_LEAST :
							    MQFQ_AUTO_LEG_REQUESTS;

	mqfq_auto_add(&a->leg[a->side], w);
	a->leg_requests += mqfq_auto_nr_telling(w);
	a->leg_windows++;
	if (a->leg_requests < needs && a->leg_windows < MQFQ_AUTO_LEG_WINDOWS)
		return;
	if (a->leg_requests < MQFQ_AUTO_LEG_LEAST) {
		mqfq_auto_end(a);
		return;
	}
	a->told += min_t(u64, a->leg_requests, MQFQ_AUTO_LEG_REQUESTS);
	mqfq_auto_begin_leg(a);
	if (a->is_second)
		mqfq_auto_judge(a);
	else
		a->side = !a->side;
	a->is_second = !a->is_second;
}

/* ---- rounds ---- */

static void mqfq_auto_rest(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	a->felt = mqfq_auto_felt(w);
	if (!a->has_stepped)
		a->interval = min(2 * a->interval, (unsigned int)MQFQ_AUTO_WAIT_MAX);
	a->has_stepped = false;
	a->wait = a->interval;
	a->done = 0;
	a->nr_unusual = 0;
	memset(&a->usual, 0, sizeof(a->usual));
}

static void mqfq_auto_next_step(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	unsigned int which, way;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++) {
		for (way = 0; way < MQFQ_AUTO_NR_WAYS; way++) {
			u32 tried = mqfq_auto_next(a, which, way, w);

			if (!a->knob[which].is_on || a->done & mqfq_auto_step(which, way) ||
			    tried == a->knob[which].base)
				continue;
			mqfq_auto_begin(a, which, way, tried);
			return;
		}
	}
	mqfq_auto_rest(a, w);
}

static bool mqfq_auto_is_far(u64 now, u64 now_ns, u64 then, u64 then_ns)
{
	s64 rise_ppm = mqfq_auto_rise_ppm(now, now_ns, then, then_ns);

	return rise_ppm > MQFQ_AUTO_UNUSUAL_PCT * 10000 ||
	       rise_ppm < -MQFQ_AUTO_UNUSUAL_PCT * 10000;
}

/* Is this another load than at the beginning of the wait? */
static bool mqfq_auto_is_unusual(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	const struct mqfq_auto_leg *u = &a->usual;

	if (mqfq_auto_felt(w) & ~a->felt ||
	    mqfq_auto_is_far(w->bytes, w->ns, u->bytes, u->ns) ||
	    mqfq_auto_is_far(w->requests, w->ns, u->requests, u->ns)) {
		a->nr_unusual++;
	} else {
		a->nr_unusual = 0;
		mqfq_auto_add(&a->usual, w);
	}
	return a->nr_unusual >= MQFQ_AUTO_UNUSUAL_WINDOWS;
}

/* Is the wait over, by itself or since this is another load? */
static bool mqfq_auto_is_time(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	unsigned int which;

	/* Says nothing, not even that the load is another one. */
	if (!w->requests)
		return false;
	if (!a->wait)
		return true;
	a->wait--;
	if (!mqfq_auto_is_unusual(a, w))
		return false;
	a->wait = 0;
	a->interval = MQFQ_AUTO_WAIT_MIN;
	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		a->knob[which].debt_ppm = 0;
	return true;
}

void mqfq_auto_window(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	u32 slots = mqfq_auto_value(a, MQFQ_AUTO_SLOTS);
	u32 throttle_kb = mqfq_auto_value(a, MQFQ_AUTO_THROTTLE_KB);

	if (a->skip) {
		a->skip--;
		return;
	}
	if (a->probing)
		mqfq_auto_compare(a, w);
	else if (mqfq_auto_is_time(a, w))
		mqfq_auto_next_step(a, w);
	/* What completes in the next window was sent before. */
	if (slots != mqfq_auto_value(a, MQFQ_AUTO_SLOTS) ||
	    throttle_kb != mqfq_auto_value(a, MQFQ_AUTO_THROTTLE_KB))
		a->skip = 1;
}

/* ---- making, changing ---- */

void mqfq_auto_init(struct mqfq_auto *a, u32 slots, u32 throttle_kb)
{
	*a = (struct mqfq_auto) { .interval = MQFQ_AUTO_WAIT_MIN };
	a->knob[MQFQ_AUTO_SLOTS].base = slots;
	a->knob[MQFQ_AUTO_THROTTLE_KB].base = throttle_kb;
}

/* A value was written: the comparison under way is void. */
static void mqfq_auto_restart(struct mqfq_auto *a)
{
	a->probing = false;
	a->done = 0;
	a->wait = 0;
	a->skip = 1;
	a->interval = MQFQ_AUTO_WAIT_MIN;
}

void mqfq_auto_on(struct mqfq_auto *a, enum mqfq_auto_which which)
{
	mqfq_auto_restart(a);
	a->knob[which].debt_ppm = 0;
	WRITE_ONCE(a->knob[which].is_on, true);
}

void mqfq_auto_off(struct mqfq_auto *a, enum mqfq_auto_which which, u32 value)
{
	mqfq_auto_restart(a);
	a->knob[which].base = value;
	WRITE_ONCE(a->knob[which].is_on, false);
}

void mqfq_auto_get_found(const struct mqfq_auto *a, struct mqfq_auto_found *found)
{
	unsigned int which;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		found->value[which] = a->knob[which].is_on ? a->knob[which].base : 0;
}

void mqfq_auto_resume(struct mqfq_auto *a, const struct mqfq_auto_found *found)
{
	unsigned int which;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		if (found->value[which])
			a->knob[which].base = found->value[which];
}
