// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_cost.c - what a request costs in device time, learned while the device serves
 *
 * Equal bytes are not equal time. A drive that reads 4 KiB at 120 MB/s may read 256 KiB at 300, and
 * a FUA write may keep it busy ten times as long as a read. If bytes are shared, a tenant of
 * cheap requests pays for a tenant of dear ones. If time is shared, each tenant is slowed down as
 * much as all others of its weight, against being alone.
 *
 * What is measured
 * ================
 * No request tells how long it kept the device busy: many are served side by side, and most of a
 * request's latency is waiting. But while requests wait all the time, the device is busy all the
 * time, and what it completes adds up to the time that passes:
 *
 *	sum over the cells of (requests of the cell * cost of one) = time
 *
 * A cell is an operation and a range of sizes, and its cost is that of a request of its mean size.
 * Each step, of a tenth to a quarter of a second, gives one such equation. The costs that fit the
 * last fifty or so best, by least squares, are the model. Older equations fade. If a step takes a
 * time that is off by a third, they are almost forgotten: the device has begun to collect garbage,
 * or to do something else that it did not do before.
 *
 * Telling costs apart
 * ===================
 * Equations that are all alike tell the sum and not its parts, and tenants that get fixed shares
 * make them alike. So the costs that are charged are varied: each cell's is a sixth more in one
 * step and a sixth less in another. The patterns are Walsh functions: in sixteen steps, each cell's
 * mean is what it should be, and no two cells have the same pattern. A tenant has a little more and
 * a little less, in turn. The turn comes in time also where a step does not end, since windows do
 * not count: a tenant must not have less for as long as nothing is learned.
 *
 * A weak spring keeps what the equations do not determine, and a cell without requests keeps its
 * cost. Whatever noise says, of two sizes of an operation the larger one costs no less, and no more
 * per byte.
 *
 * What tenants were served is counted in the same costs as their start tags, so that equal tenants
 * look equal to the tuner of T and D in each step. It compares totals as costs are known
 * (mqfq_cost_unvaried()), and does not take a pattern for a gain.
 *
 * What is charged
 * ===============
 * Costs are turned into bytes, by the bytes that the device moves per nanosecond at present. So all
 * that is stated in bytes keeps its meaning when time is shared: T, credit, the share that is
 * served. Within a cell the cost is a line through the mean sizes of this cell and the next one. If
 * only one cell of an operation is known, half of its cost is taken to grow with the size. An
 * operation that has never been seen costs what a read of its size does, and a FUA write
 * MQFQ_COST_FUA_GUESS times as much, until the first steps with it are over. Where nothing is known
 * of reads either, a byte read or written costs a byte. The guess has a use beyond the first step:
 * readers and FUA writers that have equal bytes would look fair, D would hold nothing back, and
 * nothing would be learned.
 *
 * What was measured before, each kind alone on the device, can be set (mqfq_cost_set()). It holds
 * at once. It counts as an equation of little weight does: it tells costs apart until the pattern
 * has done that, and fades.
 *
 * Limits: a step needs requests that wait, all the time, and a D below what is outstanding. Costs
 * that are learned with one D hold for a device that has as many requests: if D is far too small,
 * what is shared is the time in slots. What a request costs must not depend on what is beside it
 * more than the windows can follow; where two parts of a device are bottlenecks in turn, the costs
 * are those of the part that is the bottleneck now.
 */
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "mqfq_cost.h"

enum {
	/* A step is no shorter, */
	MQFQ_COST_STEP_MS_MIN	= 100,
	/* and no longer but for the last window. */
	MQFQ_COST_STEP_MS_MAX	= 250,
	/* Between these it ends when each cell that counts, or is new, has had so many requests. */
	MQFQ_COST_STEP_REQUESTS	= 200,
	/* A cell counts if it had so much of the device's time. */
	MQFQ_COST_SHARE_PPM_MIN	= 10000,
	/* With fewer requests in a step, a cell keeps its cost. */
	MQFQ_COST_FIT_REQUESTS	= 2,

	/* In each step, old sums lose one part in so many. */
	MQFQ_COST_FADE_PART	= 48,
	/* If a step's time is off by one part in so many, */
	MQFQ_COST_SURPRISE_PART	= 3,
	/* of old sums one part in so many is left. */
	MQFQ_COST_VOID_PART	= 8,
	/* The spring pulls with one part in so many of what the equations say. */
	MQFQ_COST_SPRING_PART	= 128,
	/* What is known from before counts as one part in so many of a step. */
	MQFQ_COST_SET_PART	= 8,
	/* Rounds in which the costs are fitted. */
	MQFQ_COST_ROUNDS	= 256,

	/* Costs are varied by one part in so many. */
	MQFQ_COST_VARIATION_PART = 6,
	/* No cost changes by more in one step. */
	MQFQ_COST_STEP_RATIO	= 4,

	MQFQ_COST_FUA_GUESS	= 4,

	/* Fraction bits of the sums of rates. */
	MQFQ_COST_RATE_SHIFT	= 8,
};

#define MQFQ_COST_SECTOR_BYTES	512U
#define MQFQ_COST_LINE_BYTES	(1ULL << 16)	/* a byte costs a byte */

/* ---- costs as they are known ---- */

/* A request of some size, and its cost. */
struct mqfq_cost_point {
	u32 bytes;
	u64 ns_x8;
};

static enum mqfq_cost_op mqfq_cost_op(unsigned int cell)
{
	return cell / MQFQ_COST_NR_SIZES;
}

/* A size in the middle of a cell's. */
static u32 mqfq_cost_middle(unsigned int cell)
{
	return 1U << (12 + 2 * (cell % MQFQ_COST_NR_SIZES));
}

/* The known cell of the same operation that is next to a cell, in the direction @by; or NULL. */
static const struct mqfq_cost_cell *mqfq_cost_next(const struct mqfq_cost *c, unsigned int cell,
						   int by)
{
	int size = cell % MQFQ_COST_NR_SIZES;
	const struct mqfq_cost_cell *first = &c->cell[cell - size];

	for (size += by; size >= 0 && size < MQFQ_COST_NR_SIZES; size += by)
		if (first[size].ns_x8)
			return &first[size];
	return NULL;
}

static u64 mqfq_cost_between(const struct mqfq_cost_cell *a, const struct mqfq_cost_cell *b,
			     u32 bytes)
{
	return a->ns_x8 + div64_s64(((s64)b->ns_x8 - (s64)a->ns_x8) * ((s64)bytes - a->bytes),
				    (s64)b->bytes - a->bytes);
}

/* A request of @cell; its cost is 0 if nothing is known of the operation. */
static struct mqfq_cost_point mqfq_cost_point(const struct mqfq_cost *c, unsigned int cell)
{
	const struct mqfq_cost_cell *below = mqfq_cost_next(c, cell, -1);
	const struct mqfq_cost_cell *above = mqfq_cost_next(c, cell, 1);
	const struct mqfq_cost_cell *near = below ? below : above;
	struct mqfq_cost_point p = { .bytes = mqfq_cost_middle(cell) };

	if (c->cell[cell].ns_x8)
		return (struct mqfq_cost_point) { c->cell[cell].bytes, c->cell[cell].ns_x8 };
	if (below && above)
		p.ns_x8 = mqfq_cost_between(below, above, p.bytes);
	else if (near)
		p.ns_x8 = (near->ns_x8 + mul_u64_u32_div(near->ns_x8, p.bytes, near->bytes)) / 2;
	return p;
}

/* How much a request of @cell costs for each byte more, with 16 fraction bits. */
static u64 mqfq_cost_slope(const struct mqfq_cost *c, unsigned int cell, struct mqfq_cost_point p)
{
	const struct mqfq_cost_cell *other = mqfq_cost_next(c, cell, 1);
	s64 rise, run;

	if (!other)
		other = mqfq_cost_next(c, cell, -1);
	if (!other)
		return div_u64(p.ns_x8 << 16, 2 * p.bytes);
	rise = (s64)other->ns_x8 - (s64)p.ns_x8;
	run = (s64)other->bytes - p.bytes;
	if ((rise < 0) != (run < 0))
		return 0;
	/* No request costs less than nothing. */
	return min_t(u64, div64_s64(rise * (1 << 16), run), div_u64(p.ns_x8 << 16, p.bytes));
}

u64 mqfq_cost_ns(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 bytes)
{
	unsigned int cell = mqfq_cost_cell(op, bytes);
	struct mqfq_cost_point p = mqfq_cost_point(c, cell);
	s64 more = ((s64)bytes - p.bytes) * (s64)mqfq_cost_slope(c, cell, p) >> 16;

	return max((s64)p.ns_x8 + more, 0LL) >> MQFQ_COST_NS_SHIFT;
}

/* ---- costs that are charged ---- */

/* What @ns_x8 is in bytes, with 16 fraction bits. */
static u64 mqfq_cost_in_bytes(const struct mqfq_cost *c, u64 ns_x8)
{
	u64 bytes_per_ns = div64_u64(c->all_bytes << 20, max(c->all_ns, 1ULL));

	return mul_u64_u64_shr(ns_x8, bytes_per_ns, 20 - 16 + MQFQ_COST_NS_SHIFT);
}

/* The cost of a cell's requests: of no bytes in the upper half, of a byte in the lower. */
static u64 mqfq_cost_line(const struct mqfq_cost *c, unsigned int cell)
{
	struct mqfq_cost_point p = mqfq_cost_point(c, cell);
	unsigned int guess = 1, read = cell % MQFQ_COST_NR_SIZES;
	u64 slope, base;

	if (!p.ns_x8 && cell != read) {
		p = mqfq_cost_point(c, read);
		guess = mqfq_cost_op(cell) == MQFQ_COST_FUA ? MQFQ_COST_FUA_GUESS : 1;
		cell = read;
	}
	if (!p.ns_x8)
		return guess * MQFQ_COST_LINE_BYTES;
	slope = mqfq_cost_slope(c, cell, p);
	base = p.ns_x8 - min(p.ns_x8, slope * p.bytes >> 16);
	base = mqfq_cost_in_bytes(c, base * guess) >> 16;
	/* The slope has 16 fraction bits already. */
	slope = mqfq_cost_in_bytes(c, slope * guess) >> 16;
	return min_t(u64, base, U32_MAX) << 32 | min_t(u64, slope, U32_MAX);
}

/* Cell number @rank of those that count: is its cost more in this step, or less? */
static bool mqfq_cost_is_more(const struct mqfq_cost *c, unsigned int rank)
{
	return hweight32(c->nr_patterns & (rank + 1)) & 1;
}

static u64 mqfq_cost_varied(u64 line, bool is_more)
{
	u64 base = line >> 32, slope = (u32)line;
	s64 by = is_more ? MQFQ_COST_VARIATION_PART : -MQFQ_COST_VARIATION_PART;

	base += div64_s64(base, by);
	slope += div64_s64(slope, by);
	return min_t(u64, base, U32_MAX) << 32 | min_t(u64, slope, U32_MAX);
}

static bool mqfq_cost_counts(const struct mqfq_cost *c, unsigned int cell)
{
	return c->cell[cell].share_ppm >= MQFQ_COST_SHARE_PPM_MIN;
}

static void mqfq_cost_publish(struct mqfq_cost *c)
{
	unsigned int i, nr = 0, rank = 0;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		nr += mqfq_cost_counts(c, i);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		u64 line = mqfq_cost_line(c, i);

		WRITE_ONCE(c->cell[i].line, line);
		if (nr > 1 && mqfq_cost_counts(c, i))
			line = mqfq_cost_varied(line, mqfq_cost_is_more(c, rank++));
		WRITE_ONCE(c->cell[i].varied, line);
	}
}

u64 mqfq_cost_unvaried(const struct mqfq_cost *c, const struct mqfq_cost_counts *counts,
		       u64 served)
{
	u64 known = 0, charged = 0;
	unsigned int i;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		u32 mean = counts->nr[i] ? div64_u64(counts->bytes[i], counts->nr[i]) : 0;

		known += counts->nr[i] * mqfq_cost_at(c->cell[i].line, mean);
		charged += counts->nr[i] * mqfq_cost_at(c->cell[i].varied, mean);
	}
	return charged ? mul_u64_u64_div_u64(served, known, charged) : served;
}

/* ---- costs that are known from before ---- */

void mqfq_cost_init(struct mqfq_cost *c)
{
	*c = (struct mqfq_cost) {};
	mqfq_cost_publish(c);
}

/* As if the device had done nothing but each known kind alone, for a part of a step. */
static void mqfq_cost_begin_again(struct mqfq_cost *c)
{
	unsigned int i;
	u64 rate;

	memset(c->products, 0, sizeof(c->products));
	memset(c->rates, 0, sizeof(c->rates));
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		if (!c->cell[i].ns_x8)
			continue;
		rate = min((NSEC_PER_SEC << MQFQ_COST_NS_SHIFT) / c->cell[i].ns_x8,
			   (u64)NSEC_PER_SEC / MQFQ_COST_NS_MIN);
		c->products[i][i] = rate * rate / MQFQ_COST_SET_PART;
		c->rates[i] = (rate << MQFQ_COST_RATE_SHIFT) / MQFQ_COST_SET_PART;
	}
}

/*
 * Before the first step, one read of each known size says how long a byte takes. Without, writes
 * do; without these, FUA writes, which count as much more as a guess of theirs would.
 */
static void mqfq_cost_guess_bytes(struct mqfq_cost *c)
{
	unsigned int i;

	c->all_bytes = 0;
	c->all_ns = 0;
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		u64 ns = c->cell[i].ns_x8 >> MQFQ_COST_NS_SHIFT;

		if (!(i % MQFQ_COST_NR_SIZES) && c->all_bytes)
			break;
		if (!ns)
			continue;
		c->all_bytes += c->cell[i].bytes;
		c->all_ns += mqfq_cost_op(i) == MQFQ_COST_FUA ? ns / MQFQ_COST_FUA_GUESS : ns;
	}
}

void mqfq_cost_set(struct mqfq_cost *c, enum mqfq_cost_op op, const u32 *ns)
{
	unsigned int i, cell = op * MQFQ_COST_NR_SIZES;

	for (i = 0; i < MQFQ_COST_NR_SIZES; i++, cell++) {
		c->cell[cell].ns_x8 = (u64)ns[i] << MQFQ_COST_NS_SHIFT;
		c->cell[cell].bytes = mqfq_cost_middle(cell);
	}
	mqfq_cost_begin_again(c);
	if (!c->nr_steps)
		mqfq_cost_guess_bytes(c);
	mqfq_cost_publish(c);
}

void mqfq_cost_get(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 *ns)
{
	unsigned int i, cell = op * MQFQ_COST_NR_SIZES;

	for (i = 0; i < MQFQ_COST_NR_SIZES; i++, cell++)
		ns[i] = c->cell[cell].ns_x8 ?
			clamp_t(u64, mqfq_cost_ns(c, op, mqfq_cost_middle(cell)),
				MQFQ_COST_NS_MIN, MQFQ_COST_NS_MAX) : 0;
}

/* ---- learning ---- */

/* Requests of a cell per second, in the step that ends now; to the nearest. */
static u64 mqfq_cost_rate(const struct mqfq_cost *c, unsigned int cell)
{
	return (mul_u64_u32_div(c->counts.nr[cell], 2 * NSEC_PER_SEC, max(c->ns, 1ULL)) + 1) / 2;
}

/* The mean size of a cell's requests in this step: one of the cell's, whatever was counted. */
static u32 mqfq_cost_mean(const struct mqfq_cost *c, unsigned int cell)
{
	u32 middle = mqfq_cost_middle(cell);
	bool is_last = cell % MQFQ_COST_NR_SIZES == MQFQ_COST_NR_SIZES - 1;

	return clamp_t(u64, div64_u64(c->counts.bytes[cell], c->counts.nr[cell]),
		       cell % MQFQ_COST_NR_SIZES ? middle / 2 + 1 : MQFQ_COST_SECTOR_BYTES,
		       is_last ? U32_MAX >> 1 : 2 * middle);
}

/* A kind of request that is new begins with what it was charged so far. */
static void mqfq_cost_meet(struct mqfq_cost *c)
{
	u64 ns = c->all_ns, bytes = c->all_bytes, ns_per_byte;
	unsigned int i;

	if (!bytes) {
		ns = c->ns;
		for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
			bytes += c->counts.bytes[i];
	}
	ns_per_byte = div64_u64(ns << 16, bytes);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		struct mqfq_cost_cell *cell = &c->cell[i];
		u32 mean;

		if (!c->counts.nr[i])
			continue;
		mean = mqfq_cost_mean(c, i);
		if (cell->ns_x8) {
			cell->bytes = (3 * (u64)cell->bytes + mean) / 4;
			continue;
		}
		cell->bytes = mean;
		cell->ns_x8 = mul_u64_u64_shr(mqfq_cost_at(cell->line, mean), ns_per_byte,
					      16 - MQFQ_COST_NS_SHIFT) + 1;
	}
}

/* The step took a time that is very different from what its requests should have taken. */
static bool mqfq_cost_is_surprised(const struct mqfq_cost *c)
{
	u64 ns = 0;
	unsigned int i;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		ns += mqfq_cost_rate(c, i) * c->cell[i].ns_x8 >> MQFQ_COST_NS_SHIFT;
	return abs_diff(ns, (u64)NSEC_PER_SEC) > NSEC_PER_SEC / MQFQ_COST_SURPRISE_PART;
}

/* No kind had more than all of the time, whatever was set. */
static void mqfq_cost_limit(struct mqfq_cost *c)
{
	unsigned int i;
	u64 rate;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		rate = mqfq_cost_rate(c, i);
		if (rate)
			c->cell[i].ns_x8 = min(c->cell[i].ns_x8,
					       (NSEC_PER_SEC << MQFQ_COST_NS_SHIFT) / rate + 1);
	}
}

/*
 * To the nearest: where cells have nearly fixed proportions, sums that are rounded apart by a
 * thousandth say something very different. A sum to which nothing is added ends at 0.
 */
static u64 mqfq_cost_fade(u64 sum, bool is_void)
{
	if (sum < MQFQ_COST_FADE_PART)
		return 0;
	return is_void ? sum / MQFQ_COST_VOID_PART :
			 sum - div_u64(sum + MQFQ_COST_FADE_PART / 2, MQFQ_COST_FADE_PART);
}

/* Adds the equation of the step that ends now. */
static void mqfq_cost_add(struct mqfq_cost *c, bool is_void)
{
	u64 rate[MQFQ_COST_NR_CELLS];
	unsigned int i, j;

	c->all_ns = mqfq_cost_fade(c->all_ns, is_void) + c->ns;
	c->all_bytes = mqfq_cost_fade(c->all_bytes, is_void);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		rate[i] = mqfq_cost_rate(c, i);
		c->all_bytes += c->counts.bytes[i];
		c->rates[i] = mqfq_cost_fade(c->rates[i], is_void) +
			      (rate[i] << MQFQ_COST_RATE_SHIFT);
		for (j = 0; j <= i; j++) {
			c->products[i][j] = mqfq_cost_fade(c->products[i][j], is_void) +
					    rate[i] * rate[j];
			c->products[j][i] = c->products[i][j];
		}
	}
}

/* There were so many requests of a cell in the step that its cost is fitted. */
static bool mqfq_cost_is_fitted(const struct mqfq_cost *c, unsigned int cell)
{
	return c->counts.nr[cell] >= MQFQ_COST_FIT_REQUESTS;
}

/* Like mqfq_cost_next(), of those that are fitted. */
static const struct mqfq_cost_cell *mqfq_cost_next_fitted(const struct mqfq_cost *c,
							  unsigned int cell, int by)
{
	int size = cell % MQFQ_COST_NR_SIZES, first = cell - size;

	for (size += by; size >= 0 && size < MQFQ_COST_NR_SIZES; size += by)
		if (mqfq_cost_is_fitted(c, first + size))
			return &c->cell[first + size];
	return NULL;
}

/*
 * A larger request of an operation costs no less than a smaller one, and no more than as many of
 * these as have its bytes, among those that are fitted: a cell without requests keeps its cost.
 */
static u64 mqfq_cost_in_order(const struct mqfq_cost *c, unsigned int cell, u64 ns_x8)
{
	const struct mqfq_cost_cell *below = mqfq_cost_next_fitted(c, cell, -1);
	const struct mqfq_cost_cell *above = mqfq_cost_next_fitted(c, cell, 1);
	u32 bytes = c->cell[cell].bytes;

	if (above)
		ns_x8 = clamp(ns_x8, mul_u64_u32_div(above->ns_x8, bytes, above->bytes),
			      above->ns_x8);
	if (below)
		ns_x8 = clamp(ns_x8, below->ns_x8,
			      mul_u64_u32_div(below->ns_x8, bytes, below->bytes));
	return ns_x8;
}

/*
 * Gauss and Seidel: each cost in turn is what fits best with the others as they are, within what is
 * possible beside them.
 */
static void mqfq_cost_fit(struct mqfq_cost *c)
{
	u64 old[MQFQ_COST_NR_CELLS];
	unsigned int round, i, j;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		old[i] = c->cell[i].ns_x8;
	for (round = 0; round < MQFQ_COST_ROUNDS; round++) {
		for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
			u64 square = c->products[i][i], spring = square / MQFQ_COST_SPRING_PART;
			s64 left = c->rates[i] *
				   (NSEC_PER_SEC << MQFQ_COST_NS_SHIFT >> MQFQ_COST_RATE_SHIFT);

			if (!square || !mqfq_cost_is_fitted(c, i))
				continue;
			for (j = 0; j < MQFQ_COST_NR_CELLS; j++)
				if (j != i)
					left -= c->products[i][j] * c->cell[j].ns_x8;
			left = div64_s64(left + (s64)(spring * old[i]), square + spring);
			left = clamp_t(s64, left, old[i] / MQFQ_COST_STEP_RATIO + 1,
				       old[i] * MQFQ_COST_STEP_RATIO);
			c->cell[i].ns_x8 = mqfq_cost_in_order(c, i, left);
		}
	}
}

void mqfq_cost_pause(struct mqfq_cost *c)
{
	c->counts = (struct mqfq_cost_counts) {};
	c->ns = 0;
}

static void mqfq_cost_next_pattern(struct mqfq_cost *c)
{
	c->nr_patterns++;
	c->pattern_ns = 0;
	mqfq_cost_publish(c);
}

static void mqfq_cost_step(struct mqfq_cost *c)
{
	bool is_void;
	unsigned int i;

	mqfq_cost_meet(c);
	is_void = mqfq_cost_is_surprised(c);
	if (is_void)
		mqfq_cost_limit(c);
	mqfq_cost_add(c, is_void);
	mqfq_cost_fit(c);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		c->cell[i].share_ppm = div_u64(mqfq_cost_rate(c, i) * c->cell[i].ns_x8 >>
					       MQFQ_COST_NS_SHIFT, 1000);
	c->nr_steps++;
	mqfq_cost_next_pattern(c);
}

/* Has the step seen enough of all cells that count? */
static bool mqfq_cost_is_step(const struct mqfq_cost *c)
{
	unsigned int i;

	if (c->ns >= (u64)MQFQ_COST_STEP_MS_MAX * NSEC_PER_MSEC)
		return true;
	if (c->ns < (u64)MQFQ_COST_STEP_MS_MIN * NSEC_PER_MSEC)
		return false;
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		if (c->counts.nr[i] && c->counts.nr[i] < MQFQ_COST_STEP_REQUESTS &&
		    (mqfq_cost_counts(c, i) || !c->cell[i].ns_x8))
			return false;
	return true;
}

static void mqfq_cost_count(struct mqfq_cost *c, u64 ns, const struct mqfq_cost_counts *counts)
{
	u64 bytes = 0;
	unsigned int i;

	for (i = 0; i < MQFQ_COST_NR_CELLS; i++) {
		c->counts.nr[i] += counts->nr[i];
		c->counts.bytes[i] += counts->bytes[i];
		bytes += c->counts.bytes[i];
	}
	c->ns += ns;
	if (!mqfq_cost_is_step(c))
		return;
	if (bytes)
		mqfq_cost_step(c);
	/* Without, the device was busy with what is not counted. */
	mqfq_cost_pause(c);
}

void mqfq_cost_window(struct mqfq_cost *c, u64 ns, const struct mqfq_cost_counts *counts,
		      bool was_full)
{
	c->pattern_ns += ns;
	if (was_full)
		mqfq_cost_count(c, ns, counts);
	if (c->pattern_ns >= (u64)MQFQ_COST_STEP_MS_MAX * NSEC_PER_MSEC)
		mqfq_cost_next_pattern(c);
}
