/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_auto.h - T and D of mq-mqfq, found while it runs
 *
 * The law without the block layer: it is told what every window of time has brought, and says which
 * T and D are in force in the next one. It never sleeps, allocates nothing, reads no clock. Calls
 * for one device are one at a time.
 */
#ifndef MQFAIR_MQFQ_AUTO_H
#define MQFAIR_MQFQ_AUTO_H

#include <linux/compiler.h>
#include <linux/minmax.h>
#include <linux/types.h>

#include "mqfq_auto_leg.h"

enum {
	/* Windows are short while values are compared, and long at rest and with one flow. */
	MQFQ_AUTO_WINDOW_MS		= 10,
	MQFQ_AUTO_REST_WINDOW_MS	= 50,
	/* With one flow for so many windows, it is alone. */
	MQFQ_AUTO_ALONE_WINDOWS		= 5,

	/* What T may become by itself, in KiB. */
	MQFQ_AUTO_THROTTLE_KB_MIN	= 4,
	MQFQ_AUTO_THROTTLE_KB_MAX	= 16384,
	/* T to begin with; the paper has 45 to 64 KB (table 1). */
	MQFQ_AUTO_THROTTLE_KB_FIRST	= 64,
	/* But at least so much per hardware queue: see mqfq_auto_first_throttle_kb(). */
	MQFQ_AUTO_THROTTLE_KB_PER_QUEUE	= 4,
};

enum mqfq_auto_which {
	MQFQ_AUTO_SLOTS,
	MQFQ_AUTO_THROTTLE_KB,
	MQFQ_AUTO_NR_KNOBS,
};

/* Which way a step goes: twice as much, half; for D, also half as much again, three quarters. */
enum mqfq_auto_way {
	MQFQ_AUTO_UP,
	MQFQ_AUTO_RAISE,
	MQFQ_AUTO_DOWN,
	MQFQ_AUTO_TRIM,
	MQFQ_AUTO_NR_WAYS,
};

/**
 * struct mqfq_auto_knob - T or D
 * @is_on:	it is found, not given
 * @base:	what has been found so far
 * @tried:	what it is compared with
 * @first:	what it is halved from for new flows
 * @best:	the best so far, while it is halved
 * @debt_ppm:	what the steps down have cost since the load was last another
 */
struct mqfq_auto_knob {
	bool is_on;
	u32 base;
	u32 tried;
	u32 first;
	u32 best;
	u32 debt_ppm;
};

/**
 * struct mqfq_auto - the law of one device
 * @knob:	T and D
 * @open_slots:	a D that holds nothing back
 * @nr_alone:	windows in a row with one flow
 * @in_flight:	the most requests at the device since the base was found
 * @unfair_slots: a D that was found to be unfair, for the load as it is; U32_MAX: none
 * @nr_unfair_rests: rests since that was found
 * @nr_void:	windows in a row with a load that the comparison is not about
 * @drain:	requests that were sent before the last change, and have not been completed
 * @is_new:	the flows are new: D is brought down without comparisons
 * @nr_new:	so many of them, as @nr_asking counts
 * @nr_known:	flows that D was brought down for: if they return, it is found
 * @first:	service before the first step of that
 * @best:	and with the best value so far
 * @last_slots:	D before the last step
 * @probing:	a comparison is under way
 * @which:	the knob that is compared
 * @way:	which way
 * @leg:	service with the base, and with the value that is tried
 * @shares:	of the flows in this window
 * @nr_here:	flows that had a request in this window
 * @nr_asking:	of them, those that have one at its end and ask for more than they have
 * @period:	counts comparisons and rests
 * @jain_ppm:	Jain's index with the base, in the last comparison or in this rest; 0: not known
 * @side:	which leg this window counts for
 * @is_second:	the leg under way is the second of its pair
 * @nr_pairs:	of legs that have been completed
 * @turn:	of the leg under way
 * @told:	requests that tell something, in all turns before it, each up to what one needs
 * @skip:	windows that do not count, after a change
 * @done:	steps that need no comparison in this round, a mask
 * @wait:	windows until the next round
 * @interval:	how many there were after the last one
 * @has_stepped: in this round
 * @usual:	service in the wait so far
 * @felt:	knobs that made a queue wait when the wait began, a mask
 * @nr_unusual:	windows in a row that were very different
 * @nr_probes:	comparisons that were begun
 * @nr_steps:	of them, those after which the base was another
 * @gain_ppm:	what the last one found that the larger value brings
 */
struct mqfq_auto {
	struct mqfq_auto_knob knob[MQFQ_AUTO_NR_KNOBS];
	u32 open_slots;
	unsigned int nr_alone;
	u32 in_flight;
	u32 unfair_slots;
	unsigned int nr_unfair_rests;
	unsigned int nr_void;
	u64 drain;
	bool is_new;
	u32 nr_new;
	u32 nr_known;
	struct mqfq_auto_leg first, best;
	u32 last_slots;
	bool probing;
	enum mqfq_auto_which which;
	enum mqfq_auto_way way;
	struct mqfq_auto_leg leg[MQFQ_AUTO_NR_SIDES];
	struct mqfq_auto_shares shares;
	u32 nr_here;
	u32 nr_asking;
	u32 period;
	u32 jain_ppm;
	enum mqfq_auto_side side;
	bool is_second;
	unsigned int nr_pairs;
	struct mqfq_auto_turn turn;
	u64 told;
	unsigned int skip;
	unsigned int done;
	unsigned int wait;
	unsigned int interval;
	bool has_stepped;
	struct mqfq_auto_leg usual;
	unsigned int felt;
	unsigned int nr_unusual;
	u64 nr_probes, nr_steps;
	s64 gain_ppm;
};

/**
 * struct mqfq_auto_found - what a later law can begin with
 * @value:	of each knob that was found; 0: none was
 */
struct mqfq_auto_found {
	u32 value[MQFQ_AUTO_NR_KNOBS];
};

/*
 * T to begin with. A flow's requests are tagged one after the other, wherever they are queued, and
 * only those within T of the earliest may go. If T is less than one small request per hardware
 * queue, most queues are throttled, and the device waits for their wake-ups.
 */
static inline u32 mqfq_auto_first_throttle_kb(unsigned int nr_queues)
{
	return clamp_t(u32, nr_queues * MQFQ_AUTO_THROTTLE_KB_PER_QUEUE,
		       MQFQ_AUTO_THROTTLE_KB_FIRST, MQFQ_AUTO_THROTTLE_KB_MAX);
}

/**
 * mqfq_auto_init() - neither of the two is found
 * @a:			law
 * @slots:		D to begin with
 * @open_slots:		a D that holds nothing back, such as all tags of the device
 * @throttle_kb:	T to begin with
 */
void mqfq_auto_init(struct mqfq_auto *a, u32 slots, u32 open_slots, u32 throttle_kb);

static inline bool mqfq_auto_is_on(const struct mqfq_auto *a, enum mqfq_auto_which which)
{
	return READ_ONCE(a->knob[which].is_on);
}

static inline bool mqfq_auto_is_any_on(const struct mqfq_auto *a)
{
	return mqfq_auto_is_on(a, MQFQ_AUTO_SLOTS) || mqfq_auto_is_on(a, MQFQ_AUTO_THROTTLE_KB);
}

/* From now on, the knob is found; the search begins with what is in force. */
void mqfq_auto_on(struct mqfq_auto *a, enum mqfq_auto_which which);

/* From now on, the knob is @value. */
void mqfq_auto_off(struct mqfq_auto *a, enum mqfq_auto_which which, u32 value);

/* What @a has found. */
void mqfq_auto_get_found(const struct mqfq_auto *a, struct mqfq_auto_found *found);

/* @a, which is new, begins with what was found before, for the knobs that will be found again. */
void mqfq_auto_resume(struct mqfq_auto *a, const struct mqfq_auto_found *found);

/* What is in force now. */
u32 mqfq_auto_value(const struct mqfq_auto *a, enum mqfq_auto_which which);

static inline bool mqfq_auto_is_alone(const struct mqfq_auto *a)
{
	return a->nr_alone >= MQFQ_AUTO_ALONE_WINDOWS;
}

/* How long the window that begins now is. */
static inline unsigned int mqfq_auto_window_ms(const struct mqfq_auto *a)
{
	return mqfq_auto_is_alone(a) || (a->wait && !a->skip) ? MQFQ_AUTO_REST_WINDOW_MS :
								MQFQ_AUTO_WINDOW_MS;
}

/*
 * A window is over: mqfq_auto_flow() follows for each flow, then mqfq_auto_begin_shares(),
 * mqfq_auto_share() for each flow once more, and mqfq_auto_window().
 */
void mqfq_auto_begin_window(struct mqfq_auto *a);

/**
 * mqfq_auto_flow() - what a flow was served in the window
 * @a:		law
 * @note:	the law's, of this flow
 * @service_vt:	in units of virtual time; may be 0
 * @is_outstanding: it has requests that are not back, now that the window ends
 */
void mqfq_auto_flow(struct mqfq_auto *a, struct mqfq_auto_flow *note, u64 service_vt,
		    bool is_outstanding);

/* What all flows were served in the window is known. */
void mqfq_auto_begin_shares(struct mqfq_auto *a);

/**
 * mqfq_auto_share() - what the flow has of the leg under way, beside the others
 * @a:		law
 * @note:	the law's, of this flow
 * @unit_vt:	virtual time that MQFQ_AUTO_UNIT_BYTES take
 */
void mqfq_auto_share(struct mqfq_auto *a, struct mqfq_auto_flow *note, u64 unit_vt);

/**
 * mqfq_auto_window() - a window is over
 * @a:		law
 * @w:		what it has brought
 *
 * mqfq_auto_value() may be another one afterwards.
 */
void mqfq_auto_window(struct mqfq_auto *a, const struct mqfq_auto_window *w);

#endif /* MQFAIR_MQFQ_AUTO_H */
