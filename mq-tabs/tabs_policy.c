// SPDX-License-Identifier: GPL-2.0
/*
 * tabs_policy.c - how many FUA writes may go beside the reads
 *
 * J. Kim, D. Kim, Y. Won, "Fair I/O Scheduler for Alleviating Read/Write Interference by Forced
 * Unit Access in Flash Memory", HotStorage 2022. tabs_policy.h says what the operations mean and
 * which of them may run at the same time.
 *
 * From the paper
 * ==============
 * In the IDLE phase everything passes and requests are counted; the counts restart every
 * idle_reset. When idle_threshold requests have come within that time, the SCHED phase begins. The
 * goal of a type is its fair bandwidth (Equation 1)
 *
 *	FBW = bandwidth of the type when it is alone * requests of the type / requests of both
 *
 * In the SCHED phase N_fua <= alpha * N_read, of requests sent. Every epoch the bandwidths are
 * compared with the goal. A type below feedback_pct of it is helped, one type at a time: for reads
 * alpha is multiplied by bandwidth / goal, for FUA writes it is divided by that. After sched_ms the
 * IDLE phase begins again.
 *
 * What the paper leaves open
 * ==========================
 * The credit. The paper does not say from when N_fua <= alpha * N_read is counted. A sum over a
 * whole phase would let a writer that paused for ten seconds send ten seconds' worth at once. Here
 * each read that is sent adds alpha to a credit, and each FUA write that goes subtracts one. The
 * credit is at most what TABS_BURST FUA writes or reads make, whichever is more, and at least
 * -TABS_BURST.
 *
 * What is counted. FUA writes count as requests and not as bytes, as in the paper. The bandwidths
 * that correct alpha are bytes. So mixed sizes get the alpha that suits their mean.
 *
 * Where alpha starts. The paper starts from reads / FUA writes. With more writers than readers that
 * holds FUA writes back before reads are known to suffer. With more readers it is five epochs or
 * more away from the goal. Here, if the reads had their goal in the IDLE phase, or did not wait,
 * alpha is the larger of the two over the smaller, which holds no write back. If they did not,
 * alpha is the ratio that the goal itself asks for,
 *
 *	(FBW_fua / size of a FUA write) / (FBW_read / size of a read)
 *
 * with the sizes as counted. If only the feedback shows later that FUA writes must be held, alpha
 * begins there as well; from then on the paper's rules apply. So a sync writer beside a deep reader
 * is not slowed down as long as the reader has its goal anyway.
 *
 * Limits. alpha stays between 1/4096 and 1024, a correction between 1/16 and 1. It is applied to
 * the alpha that FUA writes used, if that is less: a factor that is never reached holds no write
 * back.
 *
 * Which type is helped. A type below its goal is helped if it waits: if at half of the looks, one
 * per tick, a read was outstanding, or a FUA write held. It is also helped only if help has an
 * effect: a reader that asks for little gets little, and holding FUA writes back gives it no more.
 * So when alpha has been lowered by two sevenths or more, in one epoch or several, reads must then
 * be faster by a quarter of the factor that FUA writes lost, and no more than by a quarter. If not,
 * they count as content. They are helped again when they get a sixteenth less; if that was in vain
 * again, an eighth, then a quarter. alpha also goes back to what FUA writes used before, but only
 * once in a pattern. If reads do not wait or are content, and FUA writes are held, the reads' share
 * is spare, and alpha rises by a third or more each epoch.
 *
 * Both below. Then the goal is more than the device can give (small requests, garbage collection).
 * Helping each in turn would never end. The one further from its goal is helped, by the ratio of
 * both: each gets the same part of its goal.
 *
 * Ping-pong. A correction in the direction opposite to the last counts half, the next a quarter.
 *
 * One type only. Without FUA writes there are no ticks. Without reads the SCHED phase does not
 * begin: it needs both types. If reads stop within it, FUA writes go as they come from the second
 * tick without a read, until a read is sent. A held FUA write also goes when the device is idle,
 * and when it has been held for max_delay, less an eighth and a tick, which make up for late ticks.
 * Such writes are charged, down to the limit of the credit.
 *
 * Another pattern within the SCHED phase. Under throttling the requests that come say little of
 * what would come without. The number outstanding still tells: tasks with a fixed depth have as
 * many, held or not. The means of both types in a quarter of an epoch, as odds, are compared with
 * those of the IDLE phase that made the goal. Two quarters in a row, each off by half or more in
 * any direction, end the phase, and the IDLE phase counts again. If it finds the former pattern it
 * was a false alarm: alpha is kept, the suspect odds become the reference, and for 4, then 8, up to
 * 64 epochs no suspicion counts. An epoch without a FUA write ends the phase, too.
 *
 * The same pattern again. When a SCHED phase ends after its time and the next finds the same odds,
 * alpha is kept.
 *
 * The start of the IDLE phase. Held writes come out in a burst that says nothing of the pattern:
 * counting starts when none is held any more and two ticks have passed.
 *
 * The start of a pattern. Counts of one type alone say nothing of the other's share, and a new task
 * brings a burst, its whole depth: when the second type appears, the counts restart. Requests
 * outstanding when counting starts count as issued. They show a task with a fixed depth at once,
 * and a task that submits a batch and then waits for it throughout. A few requests are a poor
 * estimate of shares that hold for a whole phase. With fewer than TABS_SURE the SCHED phase waits
 * for the end of the period, and begins then if there were idle_threshold.
 *
 * The start of the SCHED phase. The device still has what the IDLE phase sent, hundreds of FUA
 * writes if there are many writers. The first epoch begins when as many requests are completed as
 * had come by then, and an epoch later at most.
 *
 * Overflow. Bandwidths are below 2^42 bytes per second, by the range of the tunables. Quotients
 * that may be large go through tabs_ratio(), which clamps before it divides.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "tabs_policy.h"

enum {
	TABS_FACTOR_MIN		= TABS_ONE / 16,
	/* alpha rises by at least this factor while the share of reads is spare. */
	TABS_FACTOR_SPARE	= TABS_ONE / 4 * 3,
	TABS_TURNS_MAX		= 4,
	/* Shifts: reads helped in vain are helped again when they lose that part. */
	TABS_PATIENCE_MIN	= 4,
	TABS_PATIENCE_MAX	= 2,
	TABS_SETTLING_TICKS	= 2,
	/* So many requests show the shares within a few percent. */
	TABS_SURE		= 2000,
	/* A quarter of an epoch with fewer looks is prolonged. */
	TABS_LOOKS_MIN		= 4,
	TABS_SUSPICIONS		= 2,
	TABS_HOLDOFF_MIN	= 4,
	TABS_HOLDOFF_MAX	= 64,
};

#define TABS_NS_PER_S		1000000000ULL
#define TABS_INTERVAL_MIN_NS	1000000ULL

/* ---- arithmetic ---- */

/* @a over @b, fixed point, from TABS_ALPHA_MIN to TABS_ALPHA_MAX. */
static u32 tabs_ratio(u64 a, u64 b)
{
	if (a / (TABS_ALPHA_MAX >> TABS_SHIFT) >= b)
		return TABS_ALPHA_MAX;
	return max_t(u64, mul_u64_u64_div_u64(a, TABS_ONE, b), TABS_ALPHA_MIN);
}

static u32 tabs_clamp_alpha(u64 alpha)
{
	return clamp_t(u64, alpha, TABS_ALPHA_MIN, TABS_ALPHA_MAX);
}

/* @bytes in @interval_ns, per second. */
static u64 tabs_bytes_per_s(u64 bytes, u64 interval_ns)
{
	return mul_u64_u64_div_u64(bytes, TABS_NS_PER_S, max(interval_ns, TABS_INTERVAL_MIN_NS));
}

static struct tabs_sample tabs_since(const struct tabs_sample *s, const struct tabs_sample *before)
{
	struct tabs_sample d = *s;
	unsigned int i;

	for (i = 0; i < TABS_NR_TYPES; i++) {
		d.came[i] -= before->came[i];
		d.done[i] -= before->done[i];
		d.done_bytes[i] -= before->done_bytes[i];
	}
	return d;
}

/* Are the odds a0:a1 and b0:b1 within a factor of 1.5? */
static bool tabs_same_odds(const u64 a[TABS_NR_TYPES], const u64 b[TABS_NR_TYPES])
{
	u64 one = a[0] * b[1], other = b[0] * a[1];

	return 2 * one <= 3 * other && 2 * other <= 3 * one;
}

/* ---- looks ---- */

static void tabs_look(struct tabs_odds *o, const struct tabs_sample *s)
{
	u64 reads = tabs_outstanding(s, TABS_READ);

	o->looks++;
	o->sum[TABS_READ] += reads;
	o->sum[TABS_FUA] += tabs_outstanding(s, TABS_FUA);
	o->waiting[TABS_READ] += !!reads;
	o->waiting[TABS_FUA] += !!s->held;
}

static bool tabs_waits(const struct tabs_odds *o, enum tabs_type type)
{
	return 2 * o->waiting[type] >= o->looks;
}

/* ---- the credit ---- */

void tabs_add_credit(struct tabs_policy *p, u32 amount)
{
	s64 most = (s64)TABS_BURST * max(READ_ONCE(p->earn_alpha), TABS_ONE);

	if (atomic64_read(&p->credit) < most)
		atomic64_add(amount, &p->credit);
}

void tabs_charge(struct tabs_policy *p)
{
	if (tabs_is_scheduling(p) && !(READ_ONCE(p->flags) & BIT(TABS_FLAG_NO_READS)) &&
	    atomic64_read(&p->credit) > -(s64)TABS_BURST * TABS_ONE)
		atomic64_sub(TABS_ONE, &p->credit);
}

bool tabs_must_hold(struct tabs_policy *p, u32 held)
{
	if (!tabs_is_scheduling(p))
		return false;
	if (held)
		return true;
	if (READ_ONCE(p->flags) & BIT(TABS_FLAG_NO_READS))
		return false;
	if (atomic64_read(&p->credit) < TABS_ONE)
		return true;
	atomic64_sub(TABS_ONE, &p->credit);
	return false;
}

/* True if the write cannot wait for the next tick, which may come as late as the last. */
static bool tabs_is_overdue(const struct tabs_policy *p, u64 since_ns, u64 now_ns)
{
	u64 max_ns = p->config.max_delay_ns, spare_ns = max_ns / 8 + TABS_TICK_NS + p->tick_ns;

	return now_ns > since_ns && now_ns - since_ns + spare_ns >= max_ns;
}

enum tabs_reason tabs_take(struct tabs_policy *p, u64 next_ns, u64 now_ns)
{
	unsigned long flags = READ_ONCE(p->flags);
	enum tabs_reason reason;

	if (!tabs_is_scheduling(p) || (flags & BIT(TABS_FLAG_NO_READS)))
		return TABS_FREE;

	if (atomic64_read(&p->credit) >= TABS_ONE)
		reason = TABS_EARNED;
	else if (flags & BIT(TABS_FLAG_OVERDUE))
		reason = TABS_OVERDUE;
	else if (flags & BIT(TABS_FLAG_ALONE))
		reason = TABS_ALONE;
	else
		return TABS_HELD;

	tabs_charge(p);
	if ((flags & BIT(TABS_FLAG_OVERDUE)) && (!next_ns || !tabs_is_overdue(p, next_ns, now_ns)))
		clear_bit(TABS_FLAG_OVERDUE, &p->flags);
	if (flags & BIT(TABS_FLAG_ALONE))
		clear_bit(TABS_FLAG_ALONE, &p->flags);
	return reason;
}

/* ---- the phases ---- */

static void tabs_begin_idle(struct tabs_policy *p, u64 now_ns)
{
	unsigned int i;

	p->phase = TABS_IDLE;
	p->phase_at_ns = now_ns;
	p->settling = TABS_SETTLING_TICKS;
	WRITE_ONCE(p->earn_alpha, 0);
	for (i = TABS_FLAG_NO_READS; i <= TABS_FLAG_ALONE; i++)
		clear_bit(i, &p->flags);
	atomic64_set(&p->credit, 0);
}

static void tabs_begin_window(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	p->window = *s;
	p->window_at_ns = now_ns;
	memset(&p->odds_window, 0, sizeof(p->odds_window));
}

static void tabs_begin_quarter(struct tabs_policy *p, u64 now_ns)
{
	p->quarter_at_ns = now_ns;
	memset(&p->odds_quarter, 0, sizeof(p->odds_quarter));
}

static void tabs_set_alpha(struct tabs_policy *p, u32 alpha)
{
	p->alpha = alpha;
	WRITE_ONCE(p->earn_alpha, alpha);
}

/* FUA writes per read that give each type its goal, if requests stay as large as they were. */
static u32 tabs_goal_alpha(const struct tabs_policy *p, const struct tabs_sample *d)
{
	u64 per_s[TABS_NR_TYPES];
	unsigned int i;

	for (i = 0; i < TABS_NR_TYPES; i++) {
		u64 nr = max(d->done[i], 1ULL), bytes = max(d->done_bytes[i], nr);

		/* A request has a byte at least; 8 more bits, since rates may be low. */
		per_s[i] = mul_u64_u64_div_u64(p->fair_bytes_per_s[i] << 8, nr, bytes);
	}
	return tabs_ratio(per_s[TABS_FUA], max(per_s[TABS_READ], 1ULL));
}

/* FUA writes per read. */
static u32 tabs_used_alpha(const struct tabs_sample *d)
{
	return tabs_ratio(d->done[TABS_FUA], d->done[TABS_READ]);
}

/* Reads are helped: @alpha replaces @before. tabs_judge_help() will look at the effect. */
static void tabs_note_help(struct tabs_policy *p, u64 bytes_per_s, u32 before, u32 alpha)
{
	if (p->helped_from || before <= alpha)
		return;
	p->helped_from = max(bytes_per_s, 1ULL);
	p->alpha_before = before;
}

static bool tabs_is_below(const struct tabs_policy *p, u64 bytes_per_s, enum tabs_type type)
{
	return bytes_per_s * 100 < p->fair_bytes_per_s[type] * p->config.feedback_pct;
}

/* Equation 1. */
static void tabs_set_goal(struct tabs_policy *p, const struct tabs_sample *d)
{
	u64 total = d->came[TABS_READ] + d->came[TABS_FUA];
	unsigned int i;

	for (i = 0; i < TABS_NR_TYPES; i++) {
		u64 fair = mul_u64_u64_div_u64(p->config.max_bytes_per_s[i], d->came[i], total);

		p->issued[i] = d->came[i];
		p->fair_bytes_per_s[i] = max(fair, 1ULL);
	}
}

/* A new pattern: where alpha starts. */
static void tabs_begin_pattern(struct tabs_policy *p, const struct tabs_sample *d, u64 length_ns)
{
	u64 reads = d->came[TABS_READ], fuas = d->came[TABS_FUA];
	u64 bytes_per_s = tabs_bytes_per_s(d->done_bytes[TABS_READ], length_ns);

	p->throttling = tabs_waits(&p->odds_window, TABS_READ) &&
			tabs_is_below(p, bytes_per_s, TABS_READ);
	p->helped_from = 0;
	if (p->throttling) {
		p->alpha = tabs_goal_alpha(p, d);
		tabs_note_help(p, bytes_per_s, tabs_used_alpha(d), p->alpha);
	} else {
		p->alpha = tabs_ratio(max(reads, fuas), min(reads, fuas));
	}
	p->content = 0;
	p->reverted = false;
	p->patience = TABS_PATIENCE_MIN;
	p->turned = TABS_NR_TYPES;
	p->turns = 0;
	p->odds_reference = p->odds_window;
	p->holdoff = 0;
	p->holdoff_next = TABS_HOLDOFF_MIN;
}

static void tabs_begin_sched(struct tabs_policy *p, const struct tabs_sample *s,
			     const struct tabs_sample *d, u64 now_ns)
{
	bool same = p->alpha && tabs_same_odds(p->issued, d->came);

	tabs_set_goal(p, d);
	if (!same) {
		tabs_begin_pattern(p, d, now_ns - p->window_at_ns);
	} else if (p->suspicions >= TABS_SUSPICIONS) {
		p->odds_reference = p->odds_suspect;
		p->holdoff = p->holdoff_next;
		p->holdoff_next = min_t(u32, 2 * p->holdoff_next, TABS_HOLDOFF_MAX);
	}
	p->suspicions = 0;
	p->phase = TABS_SCHED;
	p->phase_at_ns = now_ns;
	p->draining = true;
	memcpy(p->came_before, s->came, sizeof(p->came_before));
	tabs_begin_window(p, s, now_ns);
	tabs_begin_quarter(p, now_ns);
	tabs_set_alpha(p, p->alpha);
}

static unsigned int tabs_tick_idle(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	u64 length_ns = now_ns - p->window_at_ns, reset_ns = p->config.idle_reset_ns, due;
	struct tabs_sample d;
	unsigned int i;
	bool both;

	/* Two resets without a tick: no task has written, and the counts are old. */
	if (p->settling || length_ns > 2 * reset_ns) {
		p->together = false;
		if (!p->settling || (!s->held && !--p->settling))
			tabs_begin_window(p, s, now_ns);
		return 0;
	}

	tabs_look(&p->odds_window, s);
	d = tabs_since(s, &p->window);
	for (i = 0; i < TABS_NR_TYPES; i++)
		d.came[i] += tabs_outstanding(&p->window, i);
	both = d.came[TABS_READ] && d.came[TABS_FUA];
	if (both && !p->together) {
		p->together = true;
		tabs_begin_window(p, s, now_ns);
		return 0;
	}
	due = p->config.idle_threshold;
	/* A tick may be late: the longer the window, the more requests must have come. */
	if (length_ns >= reset_ns)
		due = mul_u64_u64_div_u64(due, length_ns, reset_ns);
	else
		due = max_t(u64, due, TABS_SURE);
	if (both && d.came[TABS_READ] + d.came[TABS_FUA] >= due) {
		tabs_begin_sched(p, s, &d, now_ns);
		return TABS_CHANGED_PHASE | TABS_CHANGED_ALPHA;
	}
	if (length_ns >= reset_ns) {
		p->together = both;
		tabs_begin_window(p, s, now_ns);
	}
	return 0;
}

/* ---- feedback ---- */

/* Halves a correction for each time in a row that the direction has changed. */
static u32 tabs_damp(struct tabs_policy *p, enum tabs_type helped, u32 factor)
{
	if (p->turned != TABS_NR_TYPES && p->turned != helped)
		p->turns = min_t(u32, p->turns + 1, TABS_TURNS_MAX);
	else
		p->turns = 0;
	p->turned = helped;
	return TABS_ONE - ((TABS_ONE - factor) >> p->turns);
}

/* The new alpha for reads below their goal: @factor is below TABS_ONE. */
static u32 tabs_help_reads(struct tabs_policy *p, const struct tabs_sample *d,
			   const struct tabs_epoch *e, u32 factor)
{
	u32 base = min(p->alpha, tabs_used_alpha(d)), alpha;

	if (p->throttling)
		alpha = tabs_clamp_alpha((u64)base * factor >> TABS_SHIFT);
	else
		alpha = min(base, tabs_goal_alpha(p, d));
	p->throttling = true;
	tabs_note_help(p, e->bytes_per_s[TABS_READ], base, alpha);
	return alpha;
}

/* The gain that reads must show now, fixed point. 0: FUA writes have not lost enough to judge. */
static u32 tabs_least_gain(const struct tabs_policy *p)
{
	u32 lost = tabs_ratio(p->alpha_before, p->alpha), least;

	if (lost <= TABS_ONE)
		return 0;
	least = min_t(u32, (lost - TABS_ONE) / 4, TABS_ONE / 4);
	return least < TABS_ONE / 10 ? 0 : least;
}

/*
 * Looks whether the reads that were helped are faster. If not, they do not want more. Returns true
 * if alpha is to be put back.
 */
static bool tabs_judge_help(struct tabs_policy *p, u64 bytes_per_s)
{
	u32 least = p->helped_from ? tabs_least_gain(p) : 0;
	u64 from = p->helped_from;

	if (p->content && bytes_per_s < p->content - (p->content >> p->patience)) {
		p->content = 0;
		p->throttling = false;
	}
	if (from && p->alpha >= p->alpha_before)
		p->helped_from = 0;
	if (!least)
		return false;

	p->helped_from = 0;
	if (bytes_per_s >= from + (from * least >> TABS_SHIFT)) {
		p->patience = TABS_PATIENCE_MIN;
		return false;
	}
	p->content = bytes_per_s;
	if (p->reverted) {
		p->patience = max_t(u32, p->patience - 1, TABS_PATIENCE_MAX);
		return false;
	}
	p->reverted = true;
	return true;
}

static u32 tabs_feedback(struct tabs_policy *p, const struct tabs_sample *d,
			 const struct tabs_epoch *e)
{
	bool fua_waits = tabs_waits(&p->odds_window, TABS_FUA);
	bool revert = tabs_judge_help(p, e->bytes_per_s[TABS_READ]);
	bool reads_wait = tabs_waits(&p->odds_window, TABS_READ) && !p->content;
	bool help_reads = reads_wait && tabs_is_below(p, e->bytes_per_s[TABS_READ], TABS_READ);
	bool help_fua = fua_waits && tabs_is_below(p, e->bytes_per_s[TABS_FUA], TABS_FUA);
	u32 got[TABS_NR_TYPES], factor;
	unsigned int i;

	if (revert)
		return max(p->alpha, p->alpha_before);
	for (i = 0; i < TABS_NR_TYPES; i++)
		got[i] = clamp_t(u32, tabs_ratio(e->bytes_per_s[i], p->fair_bytes_per_s[i]),
				 TABS_FACTOR_MIN, TABS_ONE);

	if (help_reads && help_fua) {
		help_reads = got[TABS_READ] < got[TABS_FUA];
		factor = help_reads ? tabs_ratio(got[TABS_READ], got[TABS_FUA]) :
				      tabs_ratio(got[TABS_FUA], got[TABS_READ]);
	} else if (help_reads) {
		factor = tabs_damp(p, TABS_READ, got[TABS_READ]);
	} else if (help_fua) {
		factor = tabs_damp(p, TABS_FUA, got[TABS_FUA]);
	} else if (fua_waits && !reads_wait) {
		factor = min_t(u32, got[TABS_FUA], TABS_FACTOR_SPARE);
	} else {
		return p->alpha;
	}
	if (help_reads)
		return tabs_help_reads(p, d, e, factor);
	return tabs_clamp_alpha(div_u64((u64)p->alpha << TABS_SHIFT, factor));
}

static unsigned int tabs_end_epoch(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	struct tabs_epoch *e = &p->epoch[p->nr_epochs % TABS_NR_EPOCHS];
	struct tabs_sample d = tabs_since(s, &p->window);
	unsigned int changed = TABS_EPOCH_ENDED, i;
	u32 alpha;

	e->number = p->nr_epochs++;
	e->length_ns = now_ns - p->window_at_ns;
	e->alpha = p->alpha;
	for (i = 0; i < TABS_NR_TYPES; i++) {
		e->bytes_per_s[i] = tabs_bytes_per_s(d.done_bytes[i], e->length_ns);
		e->fair_bytes_per_s[i] = p->fair_bytes_per_s[i];
	}

	alpha = tabs_feedback(p, &d, e);
	if (alpha != p->alpha) {
		tabs_set_alpha(p, alpha);
		changed |= TABS_CHANGED_ALPHA;
	}
	if (p->holdoff)
		p->holdoff--;
	tabs_begin_window(p, s, now_ns);
	return changed;
}

/* ---- the SCHED phase ---- */

/* A quarter of an epoch is over. Returns true if the pattern seems to be another. */
static bool tabs_end_quarter(struct tabs_policy *p, u64 now_ns)
{
	if (tabs_same_odds(p->odds_quarter.sum, p->odds_reference.sum))
		p->suspicions = 0;
	else
		p->suspicions++;
	p->odds_suspect = p->odds_quarter;
	tabs_begin_quarter(p, now_ns);
	if (p->holdoff)
		p->suspicions = 0;
	return p->suspicions >= TABS_SUSPICIONS;
}

/* Lets held FUA writes go that depend on time only. */
static unsigned int tabs_open(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	u64 reads = tabs_outstanding(s, TABS_READ);

	if (!reads && s->came[TABS_READ] == p->last.came[TABS_READ])
		set_bit(TABS_FLAG_NO_READS, &p->flags);
	if (!s->held)
		return 0;
	if (!reads && tabs_outstanding(s, TABS_FUA) <= s->held)
		set_bit(TABS_FLAG_ALONE, &p->flags);
	if (tabs_is_overdue(p, s->oldest_ns, now_ns))
		set_bit(TABS_FLAG_OVERDUE, &p->flags);
	return tabs_may_go(p) ? TABS_OPENED : 0;
}

/*
 * Requests sent in the IDLE phase occupy the device for a while and say nothing of alpha. Returns
 * true until as many are completed, but for an epoch at most.
 */
static bool tabs_is_draining(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	if (!p->draining)
		return false;
	p->draining = (s->done[TABS_READ] < p->came_before[TABS_READ] ||
		       s->done[TABS_FUA] < p->came_before[TABS_FUA]) &&
		      now_ns - p->window_at_ns < tabs_epoch_ns(&p->config);
	if (!p->draining)
		tabs_begin_window(p, s, now_ns);
	return true;
}

static unsigned int tabs_tick_sched(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	u64 epoch_ns = tabs_epoch_ns(&p->config);
	unsigned int changed = 0;
	bool over;

	tabs_look(&p->odds_quarter, s);
	if (!tabs_is_draining(p, s, now_ns)) {
		tabs_look(&p->odds_window, s);
		if (now_ns - p->window_at_ns >= epoch_ns)
			changed |= tabs_end_epoch(p, s, now_ns);
	}

	over = now_ns - p->fua_at_ns >= epoch_ns;
	if (now_ns - p->phase_at_ns >= p->config.sched_ns) {
		over = true;
		/* The rest of the last epoch, if it is long enough to learn from. */
		if (!p->draining && now_ns - p->window_at_ns >= epoch_ns / 2)
			changed |= tabs_end_epoch(p, s, now_ns);
	}
	if (now_ns - p->quarter_at_ns >= epoch_ns / 4 && p->odds_quarter.looks >= TABS_LOOKS_MIN)
		over |= tabs_end_quarter(p, now_ns);
	if (over) {
		tabs_begin_idle(p, now_ns);
		return changed | TABS_CHANGED_PHASE | TABS_OPENED;
	}
	return changed | tabs_open(p, s, now_ns);
}

unsigned int tabs_tick(struct tabs_policy *p, const struct tabs_sample *s, u64 now_ns)
{
	unsigned int changed = 0;

	p->tick_ns = now_ns - p->last_at_ns;
	if (s->held || s->came[TABS_FUA] != p->last.came[TABS_FUA])
		p->fua_at_ns = now_ns;
	if (p->phase == TABS_SCHED)
		changed = tabs_tick_sched(p, s, now_ns);
	else if (tabs_is_configured(&p->config))
		changed = tabs_tick_idle(p, s, now_ns);
	p->last = *s;
	p->last_at_ns = now_ns;
	return changed;
}

bool tabs_needs_ticks(const struct tabs_policy *p, u64 now_ns)
{
	if (p->phase == TABS_SCHED)
		return true;
	return tabs_is_configured(&p->config) &&
	       now_ns - p->fua_at_ns < 2 * p->config.idle_reset_ns;
}

void tabs_set_config(struct tabs_policy *p, const struct tabs_config *config, u64 now_ns)
{
	p->config = *config;
	p->alpha = 0;
	p->suspicions = 0;
	p->holdoff = 0;
	memset(p->issued, 0, sizeof(p->issued));
	memset(p->fair_bytes_per_s, 0, sizeof(p->fair_bytes_per_s));
	tabs_begin_idle(p, now_ns);
}

void tabs_policy_init(struct tabs_policy *p, const struct tabs_config *config, u64 now_ns)
{
	memset(p, 0, sizeof(*p));
	p->last_at_ns = now_ns;
	p->fua_at_ns = now_ns;
	tabs_set_config(p, config, now_ns);
}
