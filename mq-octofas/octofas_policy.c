// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_policy.c - OctoFAS's monitor and scheduling decisions; the interface is in
 * octofas_policy.h
 *
 * Y. Park et al., "OctoFAS: A Two-Level Fair Scheduler That Increases Fairness in Network-Based
 * Key-Value Storage", Electronics 2024. The monitor's thresholds and the number of requests that
 * move are from Y. Park et al., "OctoKV", MASCOTS 2023. This file decides what the papers leave
 * open.
 *
 * The latency alone
 * =================
 * Equation 1 needs RT_alone, the latency that a flow would have if it were alone. No flow is
 * alone, so each request gets an estimate. Its base is the least latency that its kind (operation
 * and size class) had of late: the device takes at least that. The rest of its latency it waited,
 * for requests of other flows or of its own. When it came, its queue had a number of requests
 * outstanding, and a number of requests of its flow had come to the queue that it came to. The
 * wait is divided in that proportion, and the others' part would not have been if the flow were
 * alone. (Requests of its own flow that others have driven to this queue count as the others'. So
 * a flow that makes way for another is seen to be slowed down.) The base is the least of all
 * windows, and in each window moves up by a 64th of the distance to the least of that window. No
 * window has to be idle.
 *
 * So a flow that makes its own queues long is not slowed down by that. The papers say the same: it
 * was as slow when it was alone.
 *
 * Utilization
 * ===========
 * U of a queue is the mean number of requests outstanding. By Little's law it is the sum of the
 * latencies of a window's requests over the length of the window. The time during which anything
 * is outstanding says nothing: one task with one request under way makes it 100%. This side cannot
 * see how busy the target's core is (the papers' core utilization).
 *
 * A request counts for the queue that it came to ("home"), and for the queue that served it. The
 * flag and the number of requests that move follow the first count, which moving does not change.
 * Otherwise balance would end the moves that bring it about. A queue is "overloaded" (OctoKV's
 * T_OL) if its utilization is above the average and its requests take overload_pct percent more
 * than their base.
 *
 * The flags
 * =========
 * F below fair_pct raises one flag. LB below balance_pct, together with an overloaded queue,
 * raises the other. A raised flag changes F or LB, so it stays for some windows after its cause is
 * gone. If the cause comes back at once, it stays twice as many windows the next time, up to 64.
 *
 * A flow with few requests is judged when it has had 8, over as many windows as that takes. It is
 * forgotten if it has not had 8 in 8 windows.
 *
 * A flow is dense if its intensity is above 5/4 of the mean of all flows, and sparse if not.
 * Without a dense flow there is no unfairness to mend.
 *
 * How many move, and where
 * ========================
 * OctoKV moves N_high * R requests with R = (T - U_low) / (U_high * movable part), T = U_avg. With
 * many queues of each group, the room of all low queues equals the excess of all high ones. So of
 * a high queue's requests the share (U - U_avg) / U_movable moves. U_movable is the part that may
 * move (all, dense or sparse flows). A request of a block device moves as a whole: R_KV + R_D = 1.
 * Each request that comes adds the share to a credit of at most four requests, and one that moves
 * takes 1.
 *
 * Algorithm 2 is applied to each request, with the present load in place of the utilization: it
 * moves only if its queue has U_avg or more outstanding, and only to a queue that has less. The
 * round of targets has each low queue once (rr), or in proportion to U_avg - U (ps).
 *
 * In hybrid, a high queue that has requests of sparse flows too yields: all requests of dense
 * flows that may move do so, as long as a target has less than U_avg. If they stayed they would be
 * sent to the back anyway.
 *
 * Backwarding, and the bound that it needs
 * ========================================
 * B = alpha * intensity / mean intensity of sparse flows (Equations 4 and 5). The order of a queue
 * matters only while requests wait in it. So while requests are sent backwards, a queue sends no
 * more than keeps its device busy: its request rate times base, an eighth more so that a higher
 * rate can show, rounded up. The rate is the peak, which loses an eighth of itself in each window.
 *
 * A request at the device cannot be passed any more. A task of a sparse flow waits for its
 * request, and comes back with the next one at once. If a request of a dense flow takes the place
 * meanwhile, it is ahead each time, however often it was sent back. So in a queue that has
 * requests of sparse flows too, the last place is for them. A request of a dense flow takes it
 * only while one of theirs is at the device, which is then ahead of it.
 *
 * Enough
 * ======
 * F does not say which flow is worse off, and intra, also as a part of hybrid, acts for sparse
 * flows only. When each sparse flow is better off than each dense one by more than fair_pct
 * allows, nothing is sent back until the flows have been judged again, even if a flag is up or the
 * policy is forced. Where sending back does too much, windows with and without it take turns.
 */
#include <linux/errno.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "octofas_policy.h"

static u64 octofas_per_s(u64 n, u64 length_ns)
{
	return mul_u64_u64_div_u64(n, OCTOFAS_NS_PER_S, length_ns);
}

/* @a / @b in thousandths, 1 if both are 0. */
static u32 octofas_ratio(u64 a, u64 b)
{
	return b ? min_t(u64, mul_u64_u64_div_u64(a, OCTOFAS_ONE, b), U32_MAX) : OCTOFAS_ONE;
}

int octofas_policy_init(struct octofas_policy *p, u32 nr_queues,
			const struct octofas_config *config, gfp_t gfp)
{
	u32 i;

	*p = (struct octofas_policy) { .nr_queues = nr_queues };
	p->queue = kvcalloc(nr_queues, sizeof(*p->queue), gfp);
	if (!p->queue)
		return -ENOMEM;
	for (i = 0; i < nr_queues; i++)
		p->queue[i].bound = p->queue[i].patient_bound = U32_MAX;
	octofas_set_config(p, config);
	return 0;
}

void octofas_policy_destroy(struct octofas_policy *p)
{
	kvfree(p->queue);
}

u64 octofas_base_ns(u64 before_ns, u64 least_ns)
{
	if (least_ns == U64_MAX)
		return before_ns;
	if (!before_ns || least_ns <= before_ns)
		return least_ns;
	return before_ns + (least_ns - before_ns) / 64;
}

/* ---- flows ---- */

/* Slowdown and intensity of a flow, if there is enough to tell; else they stay for a while. */
static void octofas_judge_flow(struct octofas_flow_state *f, const struct octofas_flow_sample *fs,
			       u64 length_ns)
{
	f->since.nr += fs->nr;
	f->since.latency_ns += fs->latency_ns;
	f->since.alone_ns += fs->alone_ns;
	f->length_ns += length_ns;
	f->nr_windows++;
	if (f->since.nr < OCTOFAS_LEAST_REQUESTS && f->nr_windows < OCTOFAS_PATIENCE)
		return;
	f->intensity = octofas_per_s(f->since.nr, f->length_ns);
	f->slowdown = 0;
	if (f->since.nr >= OCTOFAS_LEAST_REQUESTS)
		f->slowdown = max(1U, octofas_ratio(f->since.latency_ns, f->since.alone_ns));
	f->since = (struct octofas_flow_sample) {};
	f->length_ns = 0;
	f->nr_windows = 0;
}

/* Judges all flows, and finds the dense ones. Return: F. */
static u32 octofas_look_at_flows(struct octofas_policy *p, const struct octofas_sample *s)
{
	u32 least = U32_MAX, most = 0, nr = 0, i;
	u64 sum = 0;

	for (i = 0; i < OCTOFAS_FLOWS; i++) {
		struct octofas_flow_state *f = &p->flow[i];

		octofas_judge_flow(f, &s->flow[i], s->length_ns);
		if (!f->slowdown)
			continue;
		least = min(least, f->slowdown);
		most = max(most, f->slowdown);
		sum += f->intensity;
		nr++;
	}
	for (i = 0; i < OCTOFAS_FLOWS; i++)
		WRITE_ONCE(p->flow[i].dense, p->flow[i].slowdown &&
					     4 * nr * p->flow[i].intensity > 5 * sum);
	return most ? octofas_ratio(least, most) : OCTOFAS_ONE;
}

/* Equations 4 and 5, and whose requests may move. */
static void octofas_decide_flows(struct octofas_policy *p)
{
	u64 sparse = 0, b;
	u32 nr = 0, i;

	for (i = 0; i < OCTOFAS_FLOWS; i++)
		if (p->flow[i].slowdown && !p->flow[i].dense) {
			sparse += p->flow[i].intensity;
			nr++;
		}
	for (i = 0; i < OCTOFAS_FLOWS; i++) {
		struct octofas_flow_state *f = &p->flow[i];

		b = 0;
		if (f->dense && sparse)
			b = div64_u64(f->intensity * nr * p->config.alpha_pct, sparse * 100);
		WRITE_ONCE(f->backward, min_t(u64, b, p->config.max_backward));
		WRITE_ONCE(f->movable, p->config.migrate == OCTOFAS_MOVE_ALL ||
				       (p->config.migrate == OCTOFAS_MOVE_DENSE) == f->dense);
	}
}

static bool octofas_has_dense(const struct octofas_policy *p)
{
	u32 i;

	for (i = 0; i < OCTOFAS_FLOWS; i++)
		if (p->flow[i].dense)
			return true;
	return false;
}

/* ---- queues ---- */

static u32 octofas_utilization(u64 latency_ns, u64 length_ns)
{
	return min_t(u64, mul_u64_u64_div_u64(latency_ns, OCTOFAS_ONE, length_ns), U32_MAX / 2);
}

static bool octofas_is_overloaded(const struct octofas_policy *p, const struct octofas_sample *s,
				  u32 i)
{
	const struct octofas_queue_sample *qs = &s->queue[i];

	return qs->nr >= OCTOFAS_LEAST_REQUESTS && p->queue[i].home > p->average &&
	       qs->latency_ns / (100 + p->config.overload_pct) >= qs->base_ns / 100;
}

/* Utilization of each queue. Fills in both LB of @r and the average. Return: one is overloaded. */
static bool octofas_look_at_queues(struct octofas_policy *p, const struct octofas_sample *s,
				   struct octofas_record *r)
{
	u32 home[2] = { U32_MAX, 0 }, served[2] = { U32_MAX, 0 }, nr = 0, i, f;
	bool overloaded = false;
	u64 sum = 0, ns;

	for (i = 0; i < p->nr_queues; i++) {
		const struct octofas_queue_sample *qs = &s->queue[i];
		struct octofas_queue_state *oqs = &p->queue[i];
		u64 rate = octofas_per_s(qs->nr, s->length_ns);

		for (ns = 0, f = 0; f < OCTOFAS_FLOWS; f++)
			ns += s->home_ns[i * OCTOFAS_FLOWS + f];
		oqs->usable = qs->usable;
		oqs->home = octofas_utilization(ns, s->length_ns);
		oqs->served = octofas_utilization(qs->latency_ns, s->length_ns);
		oqs->latency_ns = qs->nr ? div64_u64(qs->latency_ns, qs->nr) : 0;
		oqs->peak = max(rate, oqs->peak - oqs->peak / 8);
		r->nr += qs->nr;
		if (!oqs->usable)
			continue;
		home[0] = min(home[0], oqs->home);
		home[1] = max(home[1], oqs->home);
		served[0] = min(served[0], oqs->served);
		served[1] = max(served[1], oqs->served);
		sum += oqs->home;
		nr++;
	}
	r->average = nr ? div64_u64(sum, nr) : 0;
	WRITE_ONCE(p->average, r->average);
	r->home_balance = octofas_ratio(nr ? home[0] : 0, home[1]);
	r->balance = octofas_ratio(nr ? served[0] : 0, served[1]);
	for (i = 0; i < p->nr_queues; i++)
		overloaded |= octofas_is_overloaded(p, s, i);
	return overloaded;
}

/* The share of what comes to queue @i that may move. */
static u32 octofas_share(const struct octofas_policy *p, const struct octofas_sample *s, u32 i)
{
	const struct octofas_queue_state *oqs = &p->queue[i];
	u64 movable_ns = 0;
	u32 movable, f;

	if (!oqs->usable || oqs->home <= p->average)
		return 0;
	for (f = 0; f < OCTOFAS_FLOWS; f++)
		if (p->flow[f].movable)
			movable_ns += s->home_ns[i * OCTOFAS_FLOWS + f];
	movable = octofas_utilization(movable_ns, s->length_ns);
	if (oqs->home - p->average >= movable)
		return OCTOFAS_CREDIT;
	return div_u64((u64)(oqs->home - p->average) * OCTOFAS_CREDIT, movable);
}

/* Has the queue had a request of a sparse flow? */
static bool octofas_has_sparse(const struct octofas_policy *p, const struct octofas_sample *s,
			       u32 i)
{
	u32 f;

	for (f = 0; f < OCTOFAS_FLOWS; f++)
		if (s->home_ns[i * OCTOFAS_FLOWS + f] && !p->flow[f].backward)
			return true;
	return false;
}

static void octofas_decide_moves(struct octofas_policy *p, const struct octofas_sample *s, u32 i)
{
	struct octofas_queue_state *oqs = &p->queue[i];
	u32 share = p->mode & OCTOFAS_INTER ? octofas_share(p, s, i) : 0;
	bool yields = share && p->mode == OCTOFAS_HYBRID && octofas_has_sparse(p, s, i);

	WRITE_ONCE(oqs->share, share);
	WRITE_ONCE(oqs->yields, yields);
	/* What was saved for another share is worth nothing now. */
	if (!share)
		atomic_set(&oqs->credit, 0);
}

/* How many places a low queue has in the round. */
static u32 octofas_places(const struct octofas_policy *p, const struct octofas_queue_state *oqs,
			  u64 room)
{
	if (p->config.spread == OCTOFAS_RR)
		return 1;
	return max_t(u64, 1, div64_u64((u64)(p->average - oqs->home) * (OCTOFAS_ROUND / 2), room));
}

/* The round of targets: in turn, each as many times as it has places. */
static void octofas_make_round(struct octofas_policy *p)
{
	u32 turn, more = 1, n = 0, i;
	u64 room = 0;

	for (i = 0; i < p->nr_queues; i++)
		if (p->queue[i].usable && p->queue[i].home < p->average)
			room += p->average - p->queue[i].home;
	for (turn = 0; more && n < OCTOFAS_ROUND; turn++)
		for (more = 0, i = 0; i < p->nr_queues && n < OCTOFAS_ROUND; i++) {
			struct octofas_queue_state *oqs = &p->queue[i];

			if (!oqs->usable || oqs->home >= p->average ||
			    octofas_places(p, oqs, room) <= turn)
				continue;
			WRITE_ONCE(p->round[n], i);
			n++;
			more = 1;
		}
	WRITE_ONCE(p->nr_round, n);
}

/* What a queue needs at the device to keep it busy. */
static u32 octofas_bound(const struct octofas_queue_state *oqs,
			 const struct octofas_queue_sample *qs)
{
	u64 base_ns = qs->nr ? div64_u64(qs->base_ns, qs->nr) : 0;

	if (!base_ns)
		return U32_MAX;
	base_ns += base_ns / 8;
	return 1 + min_t(u64, mul_u64_u64_div_u64(oqs->peak, base_ns, OCTOFAS_NS_PER_S),
			      U32_MAX / 2);
}

static void octofas_decide_bounds(struct octofas_policy *p, const struct octofas_sample *s, u32 i)
{
	struct octofas_queue_state *oqs = &p->queue[i];
	u32 bound = p->mode & OCTOFAS_INTRA ? octofas_bound(oqs, &s->queue[i]) : U32_MAX;
	bool share = bound != U32_MAX && octofas_has_sparse(p, s, i);

	WRITE_ONCE(oqs->bound, bound);
	WRITE_ONCE(oqs->patient_bound, share ? max(1U, bound - 1) : bound);
}

static void octofas_decide_queues(struct octofas_policy *p, const struct octofas_sample *s)
{
	u32 i;

	for (i = 0; i < p->nr_queues; i++) {
		octofas_decide_moves(p, s, i);
		octofas_decide_bounds(p, s, i);
	}
	octofas_make_round(p);
}

/* ---- flags and modes ---- */

static void octofas_raise(struct octofas_flag *flag, bool cause)
{
	if (cause) {
		if (!flag->up)
			flag->hold = flag->hold && flag->since_down <= 2 ?
				     min_t(u32, 2 * flag->hold, OCTOFAS_HOLD_MAX) :
				     OCTOFAS_HOLD_MIN;
		flag->up = true;
		flag->left = flag->hold;
		return;
	}
	if (flag->up && --flag->left)
		return;
	flag->since_down = flag->up ? 0 : min_t(u32, flag->since_down + 1, OCTOFAS_HOLD_MAX);
	flag->up = false;
}

/* Is every sparse flow better off than every dense one, by more than is fair? */
static bool octofas_has_done_enough(const struct octofas_policy *p)
{
	u32 dense = U32_MAX, sparse = 0, i;

	for (i = 0; i < OCTOFAS_FLOWS; i++) {
		const struct octofas_flow_state *f = &p->flow[i];

		if (f->dense)
			dense = min(dense, f->slowdown);
		else
			sparse = max(sparse, f->slowdown);
	}
	return dense != U32_MAX && (u64)sparse * 100 < (u64)dense * p->config.fair_pct;
}

/* The truth table (Algorithm 1), unless a mode is forced; and no backwarding that does too much. */
static u32 octofas_mode(const struct octofas_policy *p)
{
	u32 mode = p->config.mode;

	if (mode == OCTOFAS_AUTO)
		mode = (p->imbalanced.up ? OCTOFAS_INTER : 0) | (p->unfair.up ? OCTOFAS_INTRA : 0);
	return octofas_has_done_enough(p) ? mode & ~OCTOFAS_INTRA : mode;
}

void octofas_set_config(struct octofas_policy *p, const struct octofas_config *config)
{
	u32 i;

	p->config = *config;
	WRITE_ONCE(p->mode, octofas_mode(p));
	octofas_decide_flows(p);
	for (i = 0; i < p->nr_queues && !(p->mode & OCTOFAS_INTRA); i++) {
		WRITE_ONCE(p->queue[i].bound, U32_MAX);
		WRITE_ONCE(p->queue[i].patient_bound, U32_MAX);
	}
}

static void octofas_count_acts(struct octofas_policy *p, struct octofas_record *r)
{
	u64 moved = 0, backwarded = 0;
	u32 i;

	for (i = 0; i < p->nr_queues; i++) {
		moved += atomic64_read(&p->queue[i].moved);
		backwarded += atomic64_read(&p->queue[i].backwarded);
	}
	r->moved = moved - p->moved_before;
	r->backwarded = backwarded - p->backwarded_before;
	p->moved_before = moved;
	p->backwarded_before = backwarded;
}

unsigned int octofas_window(struct octofas_policy *p, const struct octofas_sample *s)
{
	struct octofas_record r = { .number = p->nr_windows, .length_ns = s->length_ns };
	bool was_unfair = p->unfair.up, was_imbalanced = p->imbalanced.up, overloaded;
	unsigned int changed = 0;
	u32 mode;

	r.fairness = octofas_look_at_flows(p, s);
	overloaded = octofas_look_at_queues(p, s, &r);
	octofas_raise(&p->unfair, r.fairness < 10 * p->config.fair_pct && octofas_has_dense(p));
	octofas_raise(&p->imbalanced, r.home_balance < 10 * p->config.balance_pct && overloaded);
	r.unfair = p->unfair.up;
	r.imbalanced = p->imbalanced.up;
	if (was_unfair != r.unfair || was_imbalanced != r.imbalanced)
		changed |= OCTOFAS_CHANGED_FLAGS;

	mode = octofas_mode(p);
	if (mode != p->mode)
		changed |= OCTOFAS_CHANGED_MODE;
	WRITE_ONCE(p->mode, mode);
	r.mode = mode;
	octofas_decide_flows(p);
	octofas_decide_queues(p, s);
	octofas_count_acts(p, &r);
	p->window[p->nr_windows++ % OCTOFAS_NR_WINDOWS] = r;
	return changed;
}

/* ---- for each request ---- */

static u64 octofas_load(const struct octofas_queue_state *oqs)
{
	return (u64)(atomic_read(&oqs->load) + (oqs->coming ? atomic_read(oqs->coming) : 0)) *
	       OCTOFAS_ONE;
}

/* The next queue of the round that has less than the average outstanding. */
static int octofas_next_target(struct octofas_policy *p, u32 home)
{
	u32 n = READ_ONCE(p->nr_round), average = READ_ONCE(p->average), i, t;

	for (i = 0; i < n; i++) {
		t = READ_ONCE(p->round[(u32)atomic_inc_return(&p->next) % n]);
		if (t != home && octofas_load(&p->queue[t]) < average)
			return t;
	}
	return OCTOFAS_NO_TARGET;
}

int octofas_choose_target(struct octofas_policy *p, u32 home, u32 flow)
{
	struct octofas_queue_state *oqs = &p->queue[home];
	u32 share = READ_ONCE(oqs->share);
	int credit, target;
	bool yields;

	if (!octofas_is_inter(p) || !share || !READ_ONCE(p->flow[flow].movable))
		return OCTOFAS_NO_TARGET;
	yields = READ_ONCE(oqs->yields) && READ_ONCE(p->flow[flow].backward);
	if (yields)
		share = OCTOFAS_CREDIT;
	credit = atomic_add_return(share, &oqs->credit);
	if (credit > OCTOFAS_CREDIT_MAX)
		atomic_sub(share, &oqs->credit);
	if (credit < OCTOFAS_CREDIT || (!yields && octofas_load(oqs) < READ_ONCE(p->average)))
		return OCTOFAS_NO_TARGET;
	target = octofas_next_target(p, home);
	/*
	 * CPUs that meet here may all have seen the same credit. It is then below 0, by one request
	 * per CPU at most, and has to be saved again before the next one moves.
	 */
	if (target != OCTOFAS_NO_TARGET)
		atomic_sub(OCTOFAS_CREDIT, &oqs->credit);
	return target;
}

void octofas_stay(struct octofas_policy *p, u32 home)
{
	atomic_add(OCTOFAS_CREDIT, &p->queue[home].credit);
}
