// SPDX-License-Identifier: GPL-2.0
/*
 * tabs_world.c - a device that mq-tabs's policy does not know, and tasks that use it
 *
 * See tabs_world.h.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "tabs_world.h"

u32 tabs_world_draw(struct tabs_world *w, u32 below)
{
	w->random = w->random * 1664525U + 1013904223U;
	return (u32)(((u64)w->random * below) >> 32);
}

/* What a type gets when it is alone: all dies busy. */
static u64 alone_bytes_per_s(const struct tabs_world *w, enum tabs_type type)
{
	return div_u64((u64)w->bytes[type] * NR_DIES * 1000 * MS, w->service_ns[type]);
}

struct tabs_config tabs_world_paper_config(const struct tabs_world *w)
{
	return (struct tabs_config){
		.max_bytes_per_s = { alone_bytes_per_s(w, TABS_READ),
				     alone_bytes_per_s(w, TABS_FUA) },
		.idle_reset_ns = 500 * MS,
		.epoch_ns = 1000 * MS,
		.sched_ns = 50000 * MS,
		.max_delay_ns = 500 * MS,
		.idle_threshold = 1000,
		.feedback_pct = 90,
	};
}

/* Idle, with the sizes and times of the essay, under the paper's configuration. */
void tabs_world_init(struct tabs_world *w)
{
	struct tabs_config config;
	unsigned int i;

	w->random = SEED;
	w->service_ns[TABS_READ] = READ_NS;
	w->service_ns[TABS_FUA] = FUA_NS;
	w->bytes[TABS_READ] = 16 * KIB;
	w->bytes[TABS_FUA] = 16 * KIB;
	w->tick_ns = TABS_TICK_NS;
	for (i = 0; i < NR_DIES; i++)
		w->die[i].done_at_ns = U64_MAX;
	config = tabs_world_paper_config(w);
	tabs_policy_init(&w->policy, &config, 0);
}

static u64 at_device(const struct tabs_world *w)
{
	return tabs_outstanding(&w->counts, TABS_READ) + tabs_outstanding(&w->counts, TABS_FUA) -
	       w->counts.held;
}

static void start_die(struct tabs_world *w, struct tabs_world_die *d)
{
	d->done_at_ns = d->nr ? w->now_ns + w->service_ns[d->type[d->head]] : U64_MAX;
}

static void send(struct tabs_world *w, enum tabs_type type)
{
	struct tabs_world_die *d = &w->die[tabs_world_draw(w, NR_DIES)];

	d->type[(d->head + d->nr) % RING] = type;
	if (!d->nr++)
		start_die(w, d);
	if (type == TABS_READ)
		tabs_earn(&w->policy, &w->earned);
}

/* What the hooks do when they look for a held FUA write. */
static void send_held(struct tabs_world *w)
{
	struct tabs_policy *p = &w->policy;

	while (w->counts.held && tabs_may_go(p)) {
		u64 since_ns = w->held_at_ns[w->held_head];
		u64 next_ns = w->counts.held > 1 ? w->held_at_ns[(w->held_head + 1) % RING] : 0;
		enum tabs_reason reason = tabs_take(p, next_ns, w->now_ns);

		if (reason == TABS_HELD)
			break;
		w->nr_reasons[reason]++;
		w->longest_held_ns = max(w->longest_held_ns, w->now_ns - since_ns);
		w->held_head = (w->held_head + 1) % RING;
		w->counts.held--;
		send(w, TABS_FUA);
	}
}

static void come(struct tabs_world *w, enum tabs_type type)
{
	w->counts.came[type]++;
	if (type == TABS_FUA && tabs_must_hold(&w->policy, w->counts.held)) {
		w->held_at_ns[(w->held_head + w->counts.held++) % RING] = w->now_ns;
		if (!at_device(w))
			tabs_alone(&w->policy);
	} else {
		send(w, type);
	}
}

/* The tasks fill up what they have under way. */
static void submit(struct tabs_world *w)
{
	unsigned int type;

	for (type = 0; type < TABS_NR_TYPES; type++) {
		while (tabs_outstanding(&w->counts, type) < w->depth[type])
			come(w, type);
		while (w->every_ns[type] && w->now_ns >= w->next_at_ns[type]) {
			w->next_at_ns[type] += w->every_ns[type];
			if (tabs_outstanding(&w->counts, type) < RING / 4)
				come(w, type);
		}
	}
}

static void complete_one(struct tabs_world *w, struct tabs_world_die *d)
{
	enum tabs_type type = d->type[d->head];

	d->head = (d->head + 1) % RING;
	d->nr--;
	start_die(w, d);
	w->counts.done[type]++;
	w->counts.done_bytes[type] += w->bytes[type];
	if (w->counts.held && !at_device(w))
		tabs_alone(&w->policy);
}

static void tick(struct tabs_world *w)
{
	w->tick_at_ns = w->now_ns + w->tick_ns;
	w->counts.oldest_ns = w->counts.held ? w->held_at_ns[w->held_head] : 0;
	if (tabs_tick(&w->policy, &w->counts, w->now_ns) & TABS_CHANGED_PHASE)
		w->nr_phases++;
}

/* Lets @ms pass. */
void tabs_world_run(struct tabs_world *w, u64 ms)
{
	u64 until_ns = w->now_ns + ms * MS;

	for (;;) {
		struct tabs_world_die *d = &w->die[0];
		u64 next_ns = min(w->tick_at_ns, until_ns);
		unsigned int i;

		submit(w);
		send_held(w);
		for (i = 1; i < NR_DIES; i++)
			if (w->die[i].done_at_ns < d->done_at_ns)
				d = &w->die[i];
		for (i = 0; i < TABS_NR_TYPES; i++)
			if (w->every_ns[i])
				next_ns = min(next_ns, w->next_at_ns[i]);
		next_ns = min(next_ns, d->done_at_ns);
		if (w->counts.held && !at_device(w))
			w->wasted_ns += next_ns - w->now_ns;
		w->now_ns = next_ns;
		if (next_ns == d->done_at_ns)
			complete_one(w, d);
		else if (next_ns == w->tick_at_ns)
			tick(w);
		if (w->now_ns >= until_ns)
			return;
	}
}

/* ---- judging ---- */

struct tabs_world_gain tabs_world_measure(struct tabs_world *w, u64 ms)
{
	struct tabs_sample before = w->counts;
	struct tabs_world_gain g;
	unsigned int i;

	tabs_world_run(w, ms);
	for (i = 0; i < TABS_NR_TYPES; i++) {
		u64 bytes = w->counts.done_bytes[i] - before.done_bytes[i];

		g.bytes_per_s[i] = div64_u64(bytes * 1000, max(ms, 1ULL));
		g.permille[i] = div64_u64(1000 * g.bytes_per_s[i], alone_bytes_per_s(w, i));
	}
	return g;
}

/* Equation 2 in percent, the smaller over the larger: 100 is fair. */
u32 tabs_world_fairness_pct(const struct tabs_world *w, const struct tabs_world_gain *g,
			    u32 readers, u32 writers)
{
	u64 reads = div64_u64(g->bytes_per_s[TABS_READ] << 20,
			      alone_bytes_per_s(w, TABS_READ) * readers);
	u64 fua =
		div64_u64(g->bytes_per_s[TABS_FUA] << 20, alone_bytes_per_s(w, TABS_FUA) * writers);

	return reads < fua ? div64_u64(100 * reads, fua) : div64_u64(100 * fua, max(reads, 1ULL));
}

void tabs_world_set_tasks(struct tabs_world *w, u32 readers, u32 writers)
{
	w->depth[TABS_READ] = readers * DEPTH;
	w->depth[TABS_FUA] = writers * DEPTH;
}
