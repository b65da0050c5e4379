// SPDX-License-Identifier: GPL-2.0
/*
 * k2_world.c - a device that mq-k2's automatic bound does not know, and its tasks
 *
 * See k2_world.h.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "k2_world.h"

static u32 draw(struct k2_world *w, u32 below)
{
	w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(((w->random >> 32) * below) >> 32);
}

static void start_die(struct k2_world *w, struct k2_world_die *d)
{
	const struct k2_world_job *r = &d->job[d->head];
	u64 ns;

	d->done_at_ns = U64_MAX;
	if (!d->nr)
		return;
	ns = r->is_read ? READ_NS : WRITE_NS;
	ns += ns / 20 * draw(w, 1000) / 1000;
	if (!r->is_read && w->load.is_full && !(++d->nr_written % ERASE_EVERY))
		ns += ERASE_NS;
	d->done_at_ns = w->now_ns + ns;
}

static void send(struct k2_world *w, bool is_rt, u64 at_ns)
{
	struct k2_world_die *d = &w->die[draw(w, NR_DIES)];

	d->job[(d->head + d->nr) % RING] = (struct k2_world_job) {
		.at_ns = at_ns, .is_rt = is_rt, .is_read = draw(w, 100) < w->load.read_pct,
	};
	w->inflight++;
	if (!d->nr++)
		start_die(w, d);
}

/* Strict priority under the bound; best-effort tasks always have the next request at hand. */
static void dispatch(struct k2_world *w)
{
	u32 i;

	for (i = 0; i < w->load.rt_depth; i++) {
		if (w->rt_next_ns[i] <= w->now_ns) {
			w->rt_waiting_at_ns[w->rt_waiting++] = w->rt_next_ns[i];
			w->rt_next_ns[i] = U64_MAX;
		}
	}
	while (w->inflight < w->bound && w->rt_waiting) {
		send(w, true, w->rt_waiting_at_ns[0]);
		memmove(w->rt_waiting_at_ns, w->rt_waiting_at_ns + 1,
			--w->rt_waiting * sizeof(w->rt_waiting_at_ns[0]));
	}
	while (w->inflight < w->bound && w->be_under_way < w->load.be_depth) {
		w->be_under_way++;
		send(w, false, w->now_ns);
	}
}

static void complete_one(struct k2_world *w, struct k2_world_die *d)
{
	struct k2_world_job *r = &d->job[d->head];
	struct k2_world_second *s = &w->second[div64_u64(w->now_ns, SEC)];
	struct tail_sums *sums = &w->sums;
	bool waiting = w->rt_waiting || w->be_under_way < w->load.be_depth;
	u64 latency_ns = w->now_ns - r->at_ns;
	u32 i;

	sums->nr++;
	sums->bytes += 4096;
	w->inflight--;
	sums->nr_limited += waiting;
	s->bytes += 4096;
	if (r->is_rt) {
		sums->nr_rt++;
		sums->nr_beyond += latency_ns > w->target_ns;
		sums->bin[tail_bin(latency_ns)]++;
		s->nr_rt++;
		s->nr_beyond += latency_ns > w->target_ns;
		for (i = 0; w->rt_next_ns[i] != U64_MAX; i++)
			;
		w->rt_next_ns[i] = w->now_ns + w->load.rt_gap_ns;
	} else {
		w->be_under_way--;
		sums->be_bytes += 4096;
		sums->be_read_bytes += r->is_read ? 4096 : 0;
	}
	d->head = (d->head + 1) % RING;
	d->nr--;
	start_die(w, d);
}

static void note_bound(struct k2_world *w)
{
	struct k2_world_second *s = &w->second[div64_u64(w->now_ns, SEC)];

	s->bound = w->bound;
	s->least_bound = s->least_bound ? min(s->least_bound, w->bound) : w->bound;
	s->most_bound = max(s->most_bound, w->bound);
}

static void tick(struct k2_world *w)
{
	w->tick_at_ns += TAIL_TICK_NS;
	if (w->is_auto) {
		tail_tick(&w->law, &w->sums, w->inflight, w->now_ns);
		w->bound = w->law.bound;
	}
	note_bound(w);
}

void k2_world_run(struct k2_world *w, u64 until_ns)
{
	dispatch(w);
	for (;;) {
		struct k2_world_die *next = NULL;
		u64 at_ns = w->tick_at_ns;
		u32 i;

		for (i = 0; i < w->load.rt_depth; i++)
			at_ns = min(at_ns, w->rt_next_ns[i]);
		for (i = 0; i < NR_DIES; i++) {
			if (w->die[i].done_at_ns < at_ns) {
				next = &w->die[i];
				at_ns = next->done_at_ns;
			}
		}
		if (at_ns >= until_ns)
			break;
		w->now_ns = max(w->now_ns, at_ns);
		if (next)
			complete_one(w, next);
		else if (at_ns == w->tick_at_ns)
			tick(w);
		dispatch(w);
	}
	w->now_ns = until_ns;
}

void k2_world_set_load(struct k2_world *w, const struct k2_world_load *load)
{
	u32 i;

	for (i = w->load.rt_depth; i < load->rt_depth; i++)
		w->rt_next_ns[i] = w->now_ns;
	w->load = *load;
}

void k2_world_init(struct k2_world *w, const struct k2_world_load *load, u32 bound, u64 target_ns)
{
	u32 i;

	memset(w, 0, sizeof(*w));
	w->random = SEED;
	w->bound = bound;
	w->target_ns = target_ns;
	w->tick_at_ns = TAIL_TICK_NS;
	for (i = 0; i < NR_DIES; i++)
		w->die[i].done_at_ns = U64_MAX;
	for (i = 0; i < RING; i++)
		w->rt_next_ns[i] = U64_MAX;
	k2_world_set_load(w, load);
}

void k2_world_law_on(struct k2_world *w, u32 start, u64 target_ns, u32 bandwidth_pct, u32 ceiling)
{
	struct tail_config config = {
		.target_ns = target_ns, .bandwidth_pct = bandwidth_pct, .ceiling = ceiling,
	};

	w->is_auto = true;
	tail_init(&w->law, start);
	tail_set_config(&w->law, &config, w->now_ns);
	w->bound = w->law.bound;
}

/* ---- judges ---- */

struct k2_world_verdict k2_world_judge(const struct k2_world *w, u32 from_s, u32 to_s)
{
	struct k2_world_verdict v = { .least_bound = U32_MAX };
	u32 i, nr_good = 0;

	for (i = from_s; i < to_s; i++) {
		const struct k2_world_second *s = &w->second[i];

		nr_good += s->nr_beyond * 1000 <= s->nr_rt;
		v.bytes_per_s += s->bytes;
		v.least_bound = min(v.least_bound, s->least_bound);
		v.most_bound = max(v.most_bound, s->most_bound);
	}
	v.good_pct = nr_good * 100 / (to_s - from_s);
	v.bytes_per_s = div_u64(v.bytes_per_s, to_s - from_s);
	return v;
}

struct k2_world_verdict k2_world_fixed(struct k2_world *w, const struct k2_world_load *load,
				       u32 bound, u64 target_ns)
{
	k2_world_init(w, load, bound, target_ns);
	k2_world_run(w, SWEEP_S * SEC);
	return k2_world_judge(w, SETTLED_S, SWEEP_S);
}

/*
 * The most that a fixed bound gives which keeps the target in 95% of the seconds; 0: none does.
 * Where three steps in a row do not, none beyond does.
 */
u64 k2_world_best_bytes_per_s(struct k2_world *w, const struct k2_world_load *load, u64 target_ns)
{
	u32 bound, nr_bad = 0;
	u64 best = 0;

	for (bound = 1; bound < CEILING && nr_bad < 3; bound = tail_up(bound)) {
		struct k2_world_verdict v = k2_world_fixed(w, load, bound, target_ns);

		nr_bad = v.good_pct < 95 ? nr_bad + 1 : 0;
		if (!nr_bad)
			best = max(best, v.bytes_per_s);
	}
	return best;
}
