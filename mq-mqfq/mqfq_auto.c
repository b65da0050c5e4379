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
 * larger ones. A comparison sets, for some windows each, the value found so far and another one. It
 * looks at the gain of the larger one:
 *
 *	gain = min(bytes per second, requests per second), larger over smaller, - 1
 *	       - UNFAIR times what Jain's index has lost
 *
 * Both rates must rise. With a larger D, large requests may displace small ones. That is more
 * bytes, fewer requests, and no gain; it is less fairness. One rate suffices if a flow is short of
 * its share with both values, and not by the larger one: beside large writes, a reader with one
 * request at a time waits for a slot and for nothing else.
 *
 * A flow whose requests often come and are back within a window has what it asks for, and does not
 * count in Jain's index. Every other flow counts in those windows only that begin and end with
 * requests of it. While it is away, others have more. So its service is compared with what flows
 * have had on average in its windows, and a flow that comes and goes is as well off as one that
 * stays if it has as much while it is there.
 *
 * While time is shared, bytes are time and count alone: what displaces something else takes as much
 * of it, and requests are more or fewer by the pattern in which costs are varied (mqfq_cost.c). A
 * flow that displaces one of its like shows in Jain's index of the flows' service over their
 * weights. A hundredth of that index, all that a fixed setting may be better by, is worth 4% of
 * throughput, and 16% where the index is less than 0.99. But where both rates rise, fairness counts
 * only if the smaller value gives the flow that has least of its share at least half, in percent,
 * of what it takes from the total. Otherwise the device is not what they compete for, and a smaller
 * D would only hold all of them back.
 *
 *	up:	if the gain of twice the value is at least RISE, 2%.
 *	down:	if the gain over half the value, together with those of the steps down before, is at
 *		most COST, 1%.
 *	raise:	as up, with half as much again; D only.
 *	trim:	as down, with three quarters; D only, and only while it is not fair.
 *
 * RISE is more than COST, so that a step is not taken back at once: where going up pays, going down
 * again costs too much, and the reverse. All steps down together may cost COST, not each of them:
 * otherwise many small steps would lead far from the knee.
 *
 * Legs come in the order base, other, other, base, base, other ...: a steady drift cancels out, and
 * there is one change per pair. After a change, no window counts until what was at the device has
 * been completed. The first legs are short, a few requests, and each pair has longer ones. A
 * comparison ends when the gain is further from its limit than it may be wrong: by the number of
 * requests or the scatter of the windows, and by what chance does to Jain's index. So no tenant has
 * to bear a bad value for long. A step needs two pairs at least, staying needs one. After PAIRS_MAX
 * pairs D stays or becomes the larger one, and T stays.
 *
 * Flows that have just come are made equal first, and without comparisons, each of which waits for
 * what is outstanding. As long as it is not fair, each leg has half the D and T of the one before,
 * and lasts until as many requests are back as were at the device: these may come flow by flow.
 * This ends when it is fair, when all flows together have less than half of what they had in the
 * first leg, or when the flow that had least of its share there has less than half. In a later leg
 * another flow may have least, by chance: a leg has few requests of a light flow. Each leg has at
 * least EACH requests per flow, and what chance does to Jain's index with so few is allowed for:
 * else a hundred equal flows would look unfair with any D. Halving does not end where a step does
 * not help: a flow with few requests outstanding may get its share only with a D that is a quarter
 * of them. Then the best leg's values are set, by the gain as above, and comparisons go on from
 * there. What was in force just above the best leg is unfair, if it looked worse by more than
 * chance. That holds for some rests, or until the load is another one.
 *
 * Tenants seldom come at once. If the flows become an eighth more, halving begins again where it
 * began: a D that suits the first few would hold back those who came later, and legs with
 * different flows cannot be compared. What is halved is only tried. If the phase does not come to
 * its end, since the flows go again, what was in force before it is. Flows that come later, beside
 * those that D was found for, make all of them new, if they are an eighth more; they begin with as
 * many slots for each as there were. A leg waits for flows that have been there and are away, a
 * tenth of a second: without them it would look fair.
 *
 * A step is tried only if it can mean something. D up: a queue waited for a slot, and so large a D
 * was not unfair under this load. D down: so many requests are at the device that half of D would
 * be felt, or it is not fair. Then the other value is half of what is at the device, if D is more
 * than that: as long as nothing waits here, nothing can be sorted. T: queues were throttled;
 * otherwise T does nothing. T does not become less than the largest requests that wait, each of
 * which would be throttled for itself, nor D less than one. A D so small that hardware queues
 * disturb each other for slots costs throughput, which the comparison shows.
 *
 * One flow alone needs no D. It has all the slots that there are, and nothing is tried, until the
 * first window with another flow. Flows that come back, no more than D was found for, find it.
 *
 * A round tries each step of each knob, and the steps down first while it is not fair; a step that
 * is taken is tried again. When no step is left the law rests: a second, after rounds without a
 * step two, four, up to 16. It ends the rest early if the load has become another one: bytes or
 * requests per second are a quarter off the usual twice in a row, or queues wait for what they did
 * not wait for before. A comparison ends early if the load has become another one meanwhile, or has
 * shrunk so far that neither value holds anything back. The next round begins with the values
 * found.
 *
 * What it costs
 * =============
 * Hooks do nothing for it: bytes per flow, completions, waits and throttlings are counted anyway.
 * While flows exist, a work item goes over them twice per window, which is 50 ms at rest and with
 * one flow.
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
#include <linux/time64.h>

#include "mqfq_auto.h"
#include "mqfq_policy.h"

enum {
	MQFQ_AUTO_RISE_PPM	= 20000,
	MQFQ_AUTO_COST_PPM	= 10000,
	/* A comparison of n requests in all may be wrong by this over the root of n. */
	MQFQ_AUTO_CHANCE_PPM	= 2500000,
	/* Flows whose Jain's index is this have their shares. */
	MQFQ_AUTO_FAIR_PPM	= 997500,
	MQFQ_AUTO_PAIRS_MAX	= 6,
	MQFQ_AUTO_PAIRS_TO_STEP	= 2,

	/* No more than this, slots or KiB, is kept for a load that might come. */
	MQFQ_AUTO_PLENTY	= 64,

	/* A leg has so many requests, or windows; the first legs, and all at least, LEG_LEAST. */
	MQFQ_AUTO_LEG_REQUESTS	= 1000,
	MQFQ_AUTO_LEG_WINDOWS	= 500 / MQFQ_AUTO_WINDOW_MS,
	MQFQ_AUTO_LEG_LEAST	= 10,
	/* And so many of each flow, on average. */
	MQFQ_AUTO_LEG_EACH	= 5,
	/* With new flows, a leg has so many, and one that has so much less of the first ends it. */
	MQFQ_AUTO_NEW_REQUESTS	= 5 * MQFQ_AUTO_LEG_LEAST,
	MQFQ_AUTO_NEW_COST_PPM	= 500000,
	/* A flow that is away is waited for in so many windows. */
	MQFQ_AUTO_AWAY_WINDOWS	= 100 / MQFQ_AUTO_WINDOW_MS,
	/* If there are more by one part in so many, they are new once more. */
	MQFQ_AUTO_MORE_PART	= 8,

	MQFQ_AUTO_WAIT_MIN	= 1000 / MQFQ_AUTO_REST_WINDOW_MS,
	MQFQ_AUTO_WAIT_MAX	= 16 * MQFQ_AUTO_WAIT_MIN,
	/* A D that was found to be unfair may be tried again after so many rests. */
	MQFQ_AUTO_UNFAIR_RESTS	= 4,

	MQFQ_AUTO_UNUSUAL_PCT	= 25,
	MQFQ_AUTO_UNUSUAL_WINDOWS = 2,
	/* In a comparison, a window of fewer requests may be off as much by chance. */
	MQFQ_AUTO_LOAD_REQUESTS	= 100,

	/* A flow's visits, in its last VISIT_PART windows or so, in VISIT_UNITs. */
	MQFQ_AUTO_VISIT_UNIT	= 256,
	MQFQ_AUTO_VISIT_PART	= 64,
	/* If a sixteenth of them are visits, it asks for no more than it has. */
	MQFQ_AUTO_VISITS_ENOUGH	= MQFQ_AUTO_VISIT_UNIT * MQFQ_AUTO_VISIT_PART / 16,

	/* Units of virtual time in a unit of mqfq_auto_flow.share, as a power of two. */
	MQFQ_AUTO_SHARE_SHIFT	= VT_SHIFT + 6,
};

/* ---- measuring ---- */

void mqfq_auto_begin_window(struct mqfq_auto *a)
{
	a->shares = (struct mqfq_auto_shares) {};
	a->nr_here = 0;
	a->nr_asking = 0;
}

/*
 * A visit is a window with requests of the flow that begins and ends without one. A flow that has
 * visits again and again has what it asks for: less than others, but not less than its share. If it
 * has something outstanding three quarters of the time, a sixteenth of its windows are visits. A
 * flow that stays for some windows, and is away for others, has none. Long windows do not tell.
 */
static bool mqfq_auto_asks_for_more(const struct mqfq_auto *a, struct mqfq_auto_flow *note,
				    bool is_here, bool is_outstanding)
{
	bool is_visit = !note->was_outstanding && !is_outstanding;

	if (is_here && mqfq_auto_window_ms(a) == MQFQ_AUTO_WINDOW_MS)
		note->visits += (is_visit ? MQFQ_AUTO_VISIT_UNIT : 0) -
				note->visits / MQFQ_AUTO_VISIT_PART;
	return note->visits < MQFQ_AUTO_VISITS_ENOUGH;
}

void mqfq_auto_flow(struct mqfq_auto *a, struct mqfq_auto_flow *note, u64 service_vt,
		    bool is_outstanding)
{
	bool is_here = is_outstanding || service_vt;
	bool asks = mqfq_auto_asks_for_more(a, note, is_here, is_outstanding);

	note->now = service_vt >> MQFQ_AUTO_SHARE_SHIFT;
	note->counts = asks && note->was_outstanding && is_outstanding;
	note->was_outstanding = is_outstanding;
	a->nr_here += is_here;
	a->nr_asking += asks && is_outstanding;
	if (note->counts)
		mqfq_auto_add_share(&a->shares, note, note->now, 0);
}

/* Does the window say what flows have beside others? */
static bool mqfq_auto_is_shared(const struct mqfq_auto *a)
{
	return !a->skip && a->nr_here > 1;
}

void mqfq_auto_begin_shares(struct mqfq_auto *a)
{
	if (!mqfq_auto_is_shared(a))
		return;
	a->leg[a->side].means += mqfq_auto_mean(&a->shares);
	a->leg[a->side].shares = (struct mqfq_auto_shares) {};
	a->leg[!a->side].beside = 0;
	a->first.beside = 0;
	a->best.beside = 0;
}

/* The leg under way is compared with @leg: what does that one's poorest flow have in it? */
static void mqfq_auto_note_beside(struct mqfq_auto_leg *leg, const struct mqfq_auto_flow *note,
				  u64 share)
{
	if (leg->shares.poorest == note)
		leg->beside = share;
}

void mqfq_auto_share(struct mqfq_auto *a, struct mqfq_auto_flow *note, u64 unit_vt)
{
	struct mqfq_auto_leg *leg = &a->leg[a->side], *other = &a->leg[!a->side];
	u64 due, share, unit;

	if (!mqfq_auto_is_shared(a) || note->visits >= MQFQ_AUTO_VISITS_ENOUGH)
		return;
	if (note->period != a->period) {
		note->period = a->period;
		memset(note->share, 0, sizeof(note->share));
		memset(note->due, 0, sizeof(note->due));
	}
	if (note->counts) {
		note->share[a->side] += note->now;
		note->due[a->side] += mqfq_auto_mean(&a->shares);
	}
	due = note->due[a->side];
	share = mqfq_auto_of_leg(leg, due, note->share[a->side]);
	unit = mqfq_auto_of_leg(leg, due, unit_vt >> MQFQ_AUTO_SHARE_SHIFT);
	if (mqfq_auto_add_share(&leg->shares, note, share, unit))
		leg->beside = mqfq_auto_of_leg(other, note->due[!a->side], note->share[!a->side]);
	mqfq_auto_note_beside(other, note, share);
	mqfq_auto_note_beside(&a->first, note, share);
	mqfq_auto_note_beside(&a->best, note, share);
}

/* ---- which steps there are ---- */

static bool mqfq_auto_is_up(enum mqfq_auto_way way)
{
	return way == MQFQ_AUTO_UP || way == MQFQ_AUTO_RAISE;
}

static unsigned int mqfq_auto_step(enum mqfq_auto_which which, enum mqfq_auto_way way)
{
	return 1U << (which * MQFQ_AUTO_NR_WAYS + way);
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

/* With the base, as far as that is known; or else in this window. */
static bool mqfq_auto_is_fair(const struct mqfq_auto *a)
{
	return (a->jain_ppm ?: mqfq_auto_jain_ppm(&a->shares)) >= MQFQ_AUTO_FAIR_PPM;
}

/*
 * A smaller D. Where D holds nothing back, half of it may not do so either: half of what is at the
 * device does. Small steps are for the sake of fairness.
 */
static u32 mqfq_auto_fewer_slots(const struct mqfq_auto *a, enum mqfq_auto_way way,
				 const struct mqfq_auto_window *w)
{
	u32 base = a->knob[MQFQ_AUTO_SLOTS].base, held = min(base, a->in_flight);
	bool felt = mqfq_auto_is_felt(MQFQ_AUTO_SLOTS, w) || base > MQFQ_AUTO_PLENTY ||
		    a->in_flight > base / 2;
	bool fair = mqfq_auto_is_fair(a);
	u32 fewer = way == MQFQ_AUTO_TRIM ? held - held / 4 : held / 2;

	if (fair && (!felt || way == MQFQ_AUTO_TRIM))
		return base;
	return fewer >= MQFQ_SLOTS_MIN ? fewer : base;
}

static u32 mqfq_auto_next_slots(const struct mqfq_auto *a, enum mqfq_auto_way way,
				const struct mqfq_auto_window *w)
{
	u32 base = a->knob[MQFQ_AUTO_SLOTS].base, more;

	if (!mqfq_auto_is_up(way))
		return mqfq_auto_fewer_slots(a, way, w);
	if (!mqfq_auto_is_felt(MQFQ_AUTO_SLOTS, w))
		return base;
	more = min(way == MQFQ_AUTO_UP ? 2 * base : base + base / 2, (u32)MQFQ_SLOTS_MAX);
	return more < a->unfair_slots ? more : base;
}

/* T is not less than the largest requests that wait. */
static u32 mqfq_auto_least_throttle_kb(const struct mqfq_auto_window *w)
{
	return max_t(u32, MQFQ_AUTO_THROTTLE_KB_MIN, w->largest_kb);
}

static u32 mqfq_auto_less_throttle_kb(const struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	u32 base = a->knob[MQFQ_AUTO_THROTTLE_KB].base;

	return min(base, max(base / 2, mqfq_auto_least_throttle_kb(w)));
}

static u32 mqfq_auto_next_throttle_kb(const struct mqfq_auto *a, enum mqfq_auto_way way,
				      const struct mqfq_auto_window *w)
{
	u32 base = a->knob[MQFQ_AUTO_THROTTLE_KB].base;
	u32 more = max(2 * base, mqfq_auto_least_throttle_kb(w));
	bool felt = mqfq_auto_is_felt(MQFQ_AUTO_THROTTLE_KB, w);

	if (way == MQFQ_AUTO_UP)
		return felt ? min(more, (u32)MQFQ_AUTO_THROTTLE_KB_MAX) : base;
	if (way == MQFQ_AUTO_DOWN && (felt || base > MQFQ_AUTO_PLENTY))
		return mqfq_auto_less_throttle_kb(a, w);
	return base;
}

/* The value to compare with, or the same if that would not mean anything. */
static u32 mqfq_auto_next(const struct mqfq_auto *a, enum mqfq_auto_which which,
			  enum mqfq_auto_way way, const struct mqfq_auto_window *w)
{
	return which == MQFQ_AUTO_SLOTS ? mqfq_auto_next_slots(a, way, w) :
					  mqfq_auto_next_throttle_kb(a, way, w);
}

/* ---- comparing ---- */

u32 mqfq_auto_value(const struct mqfq_auto *a, enum mqfq_auto_which which)
{
	const struct mqfq_auto_knob *k = &a->knob[which];

	if (which == MQFQ_AUTO_SLOTS && k->is_on && mqfq_auto_is_alone(a))
		return max(a->open_slots, k->base);
	return a->probing && a->which == which && a->side == MQFQ_AUTO_OTHER ? k->tried : k->base;
}

/* What has been found, or was given; what is being halved for new flows was not. */
static u32 mqfq_auto_found(const struct mqfq_auto *a, enum mqfq_auto_which which)
{
	const struct mqfq_auto_knob *k = &a->knob[which];

	return a->is_new && k->is_on ? k->first : k->base;
}

/* Nothing is known of any leg, nor of the flows in it. */
static void mqfq_auto_begin_legs(struct mqfq_auto *a)
{
	memset(a->leg, 0, sizeof(a->leg));
	a->turn = (struct mqfq_auto_turn) {};
	a->period++;
}

/* Counts the window for the leg under way. */
static void mqfq_auto_count(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	mqfq_auto_add(&a->leg[a->side], w);
	mqfq_auto_turn_add(&a->turn, w);
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
	mqfq_auto_begin_legs(a);
}

/* Back to the base, which may be another one by now: the one that @side has. */
static void mqfq_auto_end(struct mqfq_auto *a, enum mqfq_auto_side side)
{
	a->jain_ppm = mqfq_auto_leg_jain_ppm(&a->leg[side]);
	a->side = MQFQ_AUTO_BASE;
	a->period++;
	a->probing = false;
	a->done |= mqfq_auto_step(a->which, a->way);
}

/* The value that was tried is better: all its steps are open, but the one back is not. */
static void mqfq_auto_take_step(struct mqfq_auto *a)
{
	static const enum mqfq_auto_way reverse[MQFQ_AUTO_NR_WAYS] = {
		[MQFQ_AUTO_UP]		= MQFQ_AUTO_DOWN,
		[MQFQ_AUTO_DOWN]	= MQFQ_AUTO_UP,
		[MQFQ_AUTO_RAISE]	= MQFQ_AUTO_TRIM,
		[MQFQ_AUTO_TRIM]	= MQFQ_AUTO_RAISE,
	};
	struct mqfq_auto_knob *k = &a->knob[a->which];
	u32 gain_ppm = max_t(s64, a->gain_ppm, 0);
	enum mqfq_auto_way way;

	k->base = k->tried;
	a->in_flight = min(a->in_flight, k->base);
	if (!mqfq_auto_is_up(a->way))
		k->debt_ppm += gain_ppm;
	else
		k->debt_ppm -= min(k->debt_ppm, gain_ppm);
	a->nr_steps++;
	a->has_stepped = true;
	mqfq_auto_end(a, MQFQ_AUTO_OTHER);
	/* Another T leaves D's knee where it is. */
	if (a->which == MQFQ_AUTO_SLOTS)
		a->done = 0;
	for (way = 0; way < MQFQ_AUTO_NR_WAYS; way++)
		a->done &= ~mqfq_auto_step(a->which, way);
	a->done |= mqfq_auto_step(a->which, reverse[a->way]);
}

/* By how much the gain that was found may be wrong. */
static u64 mqfq_auto_doubt_ppm(const struct mqfq_auto *a)
{
	const struct mqfq_auto_leg *base = &a->leg[MQFQ_AUTO_BASE];
	const struct mqfq_auto_leg *other = &a->leg[MQFQ_AUTO_OTHER];

	return min((u64)MQFQ_AUTO_CHANCE_PPM / int_sqrt64(a->told),
		   max(mqfq_auto_scatter_ppm(base), mqfq_auto_scatter_ppm(other))) +
	       max(mqfq_auto_chance_ppm(base), mqfq_auto_chance_ppm(other));
}

/* So large a D is unfair. */
static void mqfq_auto_blame(struct mqfq_auto *a, u32 slots)
{
	a->unfair_slots = slots;
	a->nr_unfair_rests = 0;
}

/* It is not fair, and less so with the base than with the smaller value that is tried. */
static bool mqfq_auto_is_for_poorest(const struct mqfq_auto *a)
{
	return a->jain_ppm < MQFQ_AUTO_FAIR_PPM &&
	       mqfq_auto_helps_poorest(&a->leg[MQFQ_AUTO_OTHER], &a->leg[MQFQ_AUTO_BASE]);
}

/* A pair is complete. */
static void mqfq_auto_judge(struct mqfq_auto *a)
{
	const struct mqfq_auto_knob *k = &a->knob[a->which];
	bool up = mqfq_auto_is_up(a->way);
	s64 limit = up ? MQFQ_AUTO_RISE_PPM : (s64)MQFQ_AUTO_COST_PPM - k->debt_ppm;
	s64 off, doubt_ppm;
	bool better;

	a->nr_pairs++;
	a->gain_ppm = mqfq_auto_gain_of_ppm(&a->leg[up], &a->leg[!up]);
	off = a->gain_ppm - limit;
	better = up ? off >= 0 : off <= 0;
	doubt_ppm = mqfq_auto_doubt_ppm(a);
	if (a->nr_pairs < MQFQ_AUTO_PAIRS_MAX &&
	    (max(off, -off) < doubt_ppm ||
	     (better && a->nr_pairs < MQFQ_AUTO_PAIRS_TO_STEP)))
		return;
	/* If all have less alike, chance or another load has taken it. */
	if (a->which == MQFQ_AUTO_SLOTS && mqfq_auto_is_unfair(&a->leg[up], a->gain_ppm) &&
	    mqfq_auto_leg_jain_ppm(&a->leg[up]) < MQFQ_AUTO_FAIR_PPM)
		mqfq_auto_blame(a, up ? k->tried : min(k->base, a->in_flight));
	/* In doubt, a larger D, which costs nothing, or a fairer one, and T as it is. */
	if (better && (max(off, -off) >= doubt_ppm ||
		       (a->which == MQFQ_AUTO_SLOTS &&
			(up || mqfq_auto_is_for_poorest(a)))))
		mqfq_auto_take_step(a);
	else
		mqfq_auto_end(a, MQFQ_AUTO_BASE);
}

static bool mqfq_auto_is_far(u64 now, u64 now_ns, u64 then, u64 then_ns)
{
	s64 rise_ppm = mqfq_auto_rise_ppm(now, now_ns, then, then_ns);

	return rise_ppm > MQFQ_AUTO_UNUSUAL_PCT * 10000 ||
	       rise_ppm < -MQFQ_AUTO_UNUSUAL_PCT * 10000;
}

/* Is this far from what the same value has brought before, and more than chance? */
static bool mqfq_auto_is_another(const struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	const struct mqfq_auto_leg *leg = &a->leg[a->side];
	struct mqfq_auto_turn turn = {};

	mqfq_auto_turn_add(&turn, w);
	return leg->ns && mqfq_auto_turn_tells(&turn) >= MQFQ_AUTO_LOAD_REQUESTS &&
	       mqfq_auto_is_far(w->bytes, w->ns, leg->bytes, leg->ns);
}

/* Or is so little asked for by now that neither value of D holds anything back? */
static bool mqfq_auto_is_void(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	const struct mqfq_auto_knob *k = &a->knob[MQFQ_AUTO_SLOTS];

	if (mqfq_auto_is_another(a, w) ||
	    (a->which == MQFQ_AUTO_SLOTS && !w->slot_waits && w->in_flight < a->in_flight / 2 &&
	     w->in_flight < min(k->base, k->tried)))
		a->nr_void++;
	else
		a->nr_void = 0;
	return a->nr_void >= MQFQ_AUTO_UNUSUAL_WINDOWS;
}

static void mqfq_auto_compare(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	u64 needs = min(MQFQ_AUTO_LEG_LEAST << (2 * a->nr_pairs), MQFQ_AUTO_LEG_REQUESTS);
	u64 requests;

	needs = max(needs, (u64)MQFQ_AUTO_LEG_EACH * w->nr_flows);
	mqfq_auto_count(a, w);
	requests = mqfq_auto_turn_tells(&a->turn);
	if (requests < needs && a->turn.windows < MQFQ_AUTO_LEG_WINDOWS)
		return;
	if (requests < MQFQ_AUTO_LEG_LEAST) {
		mqfq_auto_end(a, MQFQ_AUTO_BASE);
		return;
	}
	a->told += min_t(u64, requests, MQFQ_AUTO_LEG_REQUESTS);
	a->turn = (struct mqfq_auto_turn) {};
	if (a->is_second)
		mqfq_auto_judge(a);
	else
		a->side = !a->side;
	a->is_second = !a->is_second;
}

/* ---- new flows ---- */

/* The next leg of new flows, with these values. */
static void mqfq_auto_new_leg(struct mqfq_auto *a, u32 slots, u32 throttle_kb)
{
	a->knob[MQFQ_AUTO_SLOTS].base = slots;
	a->knob[MQFQ_AUTO_THROTTLE_KB].base = throttle_kb;
	a->in_flight = min(a->in_flight, slots);
	mqfq_auto_begin_legs(a);
}

/* More flows are new than before: what was found so far was found for fewer. */
static void mqfq_auto_begin_new(struct mqfq_auto *a)
{
	a->nr_new = a->nr_asking;
	a->unfair_slots = U32_MAX;
	a->first = a->best = (struct mqfq_auto_leg) {};
	mqfq_auto_new_leg(a, a->knob[MQFQ_AUTO_SLOTS].first, a->knob[MQFQ_AUTO_THROTTLE_KB].first);
}

/* Is the leg that is over the best so far? If by far, what was in force before it is unfair. */
static void mqfq_auto_find_best(struct mqfq_auto *a)
{
	const struct mqfq_auto_leg *leg = &a->leg[MQFQ_AUTO_BASE];
	unsigned int which;

	if (a->best.ns) {
		s64 gain_ppm = mqfq_auto_gain_of_ppm(&a->best, leg);

		if (gain_ppm > 0 || mqfq_auto_leg_jain_ppm(leg) <= mqfq_auto_leg_jain_ppm(&a->best))
			return;
		if (mqfq_auto_is_unfair(&a->best, gain_ppm))
			mqfq_auto_blame(a, a->last_slots);
	}
	a->best = *leg;
	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		a->knob[which].best = a->knob[which].base;
}

/* A leg is over: D is halved once more, and T, or this was the last one. */
static void mqfq_auto_halve(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	const struct mqfq_auto_leg *leg = &a->leg[MQFQ_AUTO_BASE];
	const struct mqfq_auto_knob *d = &a->knob[MQFQ_AUTO_SLOTS];
	const struct mqfq_auto_knob *t = &a->knob[MQFQ_AUTO_THROTTLE_KB];
	u32 held = min(d->base, a->in_flight);

	if (!a->first.ns) {
		a->first = *leg;
		a->first.beside = leg->shares.least;
	}
	mqfq_auto_find_best(a);
	if (mqfq_auto_leg_jain_ppm(leg) < MQFQ_AUTO_FAIR_PPM && held >= 2 * MQFQ_SLOTS_MIN &&
	    mqfq_auto_leg_rise_ppm(leg, &a->first) > -MQFQ_AUTO_NEW_COST_PPM &&
	    mqfq_auto_poorest_rise_ppm(leg, &a->first) > -MQFQ_AUTO_NEW_COST_PPM) {
		a->last_slots = held;
		mqfq_auto_new_leg(a, held / 2,
				  t->is_on ? mqfq_auto_less_throttle_kb(a, w) : t->base);
		return;
	}
	a->is_new = false;
	a->nr_known = a->nr_new;
	a->jain_ppm = mqfq_auto_leg_jain_ppm(&a->best);
	if (d->base == d->best)
		return;
	/* Half of the best was not better just now. */
	a->done |= mqfq_auto_step(MQFQ_AUTO_SLOTS, MQFQ_AUTO_DOWN);
	mqfq_auto_new_leg(a, d->best, t->best);
}

/* So many more flows are another load. */
static bool mqfq_auto_are_more(u32 nr_flows, u32 nr_before)
{
	return nr_flows > nr_before + nr_before / MQFQ_AUTO_MORE_PART;
}

/*
 * Does the leg of new flows tell enough? A flow that has had nothing yet does not show in Jain's
 * index. One that comes and goes is waited for, a while. What was sent at once is completed flow by
 * flow.
 */
static bool mqfq_auto_new_leg_tells(const struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	const struct mqfq_auto_leg *leg = &a->leg[MQFQ_AUTO_BASE];
	u64 needs = max_t(u64, MQFQ_AUTO_NEW_REQUESTS, MQFQ_AUTO_LEG_EACH * w->nr_flows);

	if (a->turn.windows >= MQFQ_AUTO_LEG_WINDOWS)
		return true;
	if (mqfq_auto_turn_tells(&a->turn) < needs || leg->requests < a->in_flight)
		return false;
	return leg->shares.nr >= (a->turn.windows < MQFQ_AUTO_AWAY_WINDOWS ? a->nr_new :
									     a->nr_asking);
}

static void mqfq_auto_be_fair(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	if (!a->nr_new) {
		a->nr_new = a->nr_asking;
	} else if (mqfq_auto_are_more(a->nr_asking, a->nr_new)) {
		mqfq_auto_begin_new(a);
		return;
	}
	mqfq_auto_count(a, w);
	if (mqfq_auto_new_leg_tells(a, w))
		mqfq_auto_halve(a, w);
}

/* ---- rounds ---- */

static void mqfq_auto_rest(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	a->felt = mqfq_auto_felt(w);
	a->in_flight = w->in_flight;
	mqfq_auto_begin_legs(a);
	if (++a->nr_unfair_rests == MQFQ_AUTO_UNFAIR_RESTS)
		a->unfair_slots = U32_MAX;
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
	/* What is not fair now is less fair with more. */
	unsigned int first = mqfq_auto_is_fair(a) ? MQFQ_AUTO_UP : MQFQ_AUTO_DOWN;
	unsigned int which, i;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++) {
		for (i = 0; i < MQFQ_AUTO_NR_WAYS; i++) {
			enum mqfq_auto_way way = (first + i) % MQFQ_AUTO_NR_WAYS;
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

/* What was found to be true of the load before. */
static void mqfq_auto_forget(struct mqfq_auto *a)
{
	unsigned int which;

	a->wait = 0;
	a->unfair_slots = U32_MAX;
	a->interval = MQFQ_AUTO_WAIT_MIN;
	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		a->knob[which].debt_ppm = 0;
}

/* Is the wait over, by itself or since this is another load? */
static bool mqfq_auto_is_time(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	/* Says nothing, not even that the load is another one. */
	if (!w->requests)
		return false;
	if (!a->wait)
		return true;
	mqfq_auto_add(&a->leg[MQFQ_AUTO_BASE], w);
	a->jain_ppm = mqfq_auto_leg_jain_ppm(&a->leg[MQFQ_AUTO_BASE]);
	a->wait--;
	if (!mqfq_auto_is_unusual(a, w))
		return false;
	mqfq_auto_forget(a);
	return true;
}

/* A value was written, or the load has become another one: the comparison under way is void. */
static void mqfq_auto_restart(struct mqfq_auto *a)
{
	unsigned int which;

	mqfq_auto_forget(a);
	a->probing = false;
	a->side = MQFQ_AUTO_BASE;
	a->jain_ppm = 0;
	a->in_flight = 0;
	a->done = 0;
	a->skip = 1;
	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++) {
		struct mqfq_auto_knob *k = &a->knob[which];

		k->base = mqfq_auto_found(a, which);
		k->first = k->base;
	}
	a->is_new = a->knob[MQFQ_AUTO_SLOTS].is_on;
	a->nr_new = a->nr_asking;
	a->first = a->best = (struct mqfq_auto_leg) {};
	mqfq_auto_begin_legs(a);
}

/* Have so many flows come, after D was brought down, that it would be another one for them? */
static bool mqfq_auto_have_come(const struct mqfq_auto *a)
{
	return a->knob[MQFQ_AUTO_SLOTS].is_on && !a->is_new &&
	       mqfq_auto_are_more(a->nr_asking, a->nr_known);
}

/* All are new, with as many slots for each flow as there were, unless D was given. */
static void mqfq_auto_begin_with_more(struct mqfq_auto *a)
{
	struct mqfq_auto_knob *d = &a->knob[MQFQ_AUTO_SLOTS];

	if (d->is_on && a->nr_known)
		d->base = min(div_u64((u64)d->base * a->nr_asking, a->nr_known),
			      (u64)max(a->open_slots, d->base));
	mqfq_auto_restart(a);
}

/* Flows for which the values were found are back: nothing is tried for a while. */
static void mqfq_auto_go_on(struct mqfq_auto *a)
{
	a->side = MQFQ_AUTO_BASE;
	a->wait = max(a->wait, a->interval);
	mqfq_auto_begin_legs(a);
}

/*
 * One flow alone needs no D, and would only lose by the trials. The first window with another flow
 * ends that, with the D that was found before. True if this window says nothing else.
 */
static bool mqfq_auto_is_for_one(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	if (w->nr_flows > 1) {
		bool was_alone = mqfq_auto_is_alone(a);

		a->nr_alone = 0;
		if (was_alone && (a->is_new || a->nr_asking > a->nr_known))
			mqfq_auto_begin_with_more(a);
		else if (was_alone)
			mqfq_auto_go_on(a);
		return was_alone;
	}
	if (w->requests && !mqfq_auto_is_alone(a) && ++a->nr_alone == MQFQ_AUTO_ALONE_WINDOWS)
		a->probing = false;
	return a->nr_alone;
}

void mqfq_auto_window(struct mqfq_auto *a, const struct mqfq_auto_window *w)
{
	u32 slots = mqfq_auto_value(a, MQFQ_AUTO_SLOTS);
	u32 throttle_kb = mqfq_auto_value(a, MQFQ_AUTO_THROTTLE_KB);

	if (a->skip) {
		a->drain -= min(a->drain, w->requests);
		a->skip = a->drain ? a->skip - 1 : 0;
		return;
	}
	if (!a->probing)
		a->in_flight = max(a->in_flight, w->in_flight);
	if (!mqfq_auto_is_for_one(a, w)) {
		if (mqfq_auto_have_come(a))
			mqfq_auto_begin_with_more(a);
		else if (a->probing && mqfq_auto_is_void(a, w))
			mqfq_auto_restart(a);
		else if (a->probing)
			mqfq_auto_compare(a, w);
		else if (a->is_new)
			mqfq_auto_be_fair(a, w);
		else if (mqfq_auto_is_time(a, w))
			mqfq_auto_next_step(a, w);
	}
	/* What completes in the next window was sent before. */
	if (slots != mqfq_auto_value(a, MQFQ_AUTO_SLOTS) ||
	    throttle_kb != mqfq_auto_value(a, MQFQ_AUTO_THROTTLE_KB)) {
		a->skip = MQFQ_AUTO_LEG_WINDOWS;
		a->drain = w->in_flight;
	}
}

/* ---- making, changing ---- */

void mqfq_auto_init(struct mqfq_auto *a, u32 slots, u32 open_slots, u32 throttle_kb)
{
	*a = (struct mqfq_auto) {
		.interval = MQFQ_AUTO_WAIT_MIN,
		.open_slots = open_slots,
		.nr_alone = MQFQ_AUTO_ALONE_WINDOWS,
		.unfair_slots = U32_MAX,
	};
	a->knob[MQFQ_AUTO_SLOTS].base = slots;
	a->knob[MQFQ_AUTO_THROTTLE_KB].base = throttle_kb;
}

void mqfq_auto_on(struct mqfq_auto *a, enum mqfq_auto_which which)
{
	WRITE_ONCE(a->knob[which].is_on, true);
	a->nr_known = 0;
	mqfq_auto_restart(a);
}

void mqfq_auto_off(struct mqfq_auto *a, enum mqfq_auto_which which, u32 value)
{
	a->knob[which].base = value;
	WRITE_ONCE(a->knob[which].is_on, false);
	mqfq_auto_restart(a);
}

void mqfq_auto_get_found(const struct mqfq_auto *a, struct mqfq_auto_found *found)
{
	unsigned int which;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		found->value[which] = a->knob[which].is_on ? mqfq_auto_found(a, which) : 0;
	/* All there is was not found. */
	if (found->value[MQFQ_AUTO_SLOTS] == a->open_slots)
		found->value[MQFQ_AUTO_SLOTS] = 0;
}

void mqfq_auto_resume(struct mqfq_auto *a, const struct mqfq_auto_found *found)
{
	unsigned int which;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++) {
		struct mqfq_auto_knob *k = &a->knob[which];

		if (found->value[which])
			k->base = k->first = found->value[which];
	}
}
