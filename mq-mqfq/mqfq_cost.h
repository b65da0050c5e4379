/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq_cost.h - what a request costs in device time, learned while the device serves
 *
 * The law without the block layer: it is told what the device has completed in windows of time, and
 * says what a request of some kind and size costs. It never sleeps, allocates nothing, reads no
 * clock. Calls for one device are one at a time, but for mqfq_cost_of() and mqfq_cost_charged(),
 * which any CPU may call at any time.
 */
#ifndef MQFAIR_MQFQ_COST_H
#define MQFAIR_MQFQ_COST_H

#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* What a request does, as far as its cost is concerned. */
enum mqfq_cost_op {
	MQFQ_COST_READ,
	MQFQ_COST_WRITE,
	MQFQ_COST_FUA,
	MQFQ_COST_NR_OPS,
};

enum {
	/* Sizes up to 8, 32 and 128 KiB, and larger. */
	MQFQ_COST_NR_SIZES	= 4,
	MQFQ_COST_NR_CELLS	= MQFQ_COST_NR_OPS * MQFQ_COST_NR_SIZES,

	/* Costs are in eighths of a nanosecond. */
	MQFQ_COST_NS_SHIFT	= 3,

	/* What mqfq_cost_set() takes, and mqfq_cost_get() says. */
	MQFQ_COST_NS_MIN	= 100,
	MQFQ_COST_NS_MAX	= 20000000,
};

/**
 * struct mqfq_cost_counts - what was completed, by cell
 * @nr:		requests
 * @bytes:	of them
 */
struct mqfq_cost_counts {
	u64 nr[MQFQ_COST_NR_CELLS];
	u64 bytes[MQFQ_COST_NR_CELLS];
};

/**
 * struct mqfq_cost_cell - requests of one operation and about one size
 * @ns_x8:	what one of @bytes takes, in eighths of a nanosecond; 0: there has been none
 * @bytes:	their mean size
 * @share_ppm:	of the device's time, in the last step
 * @line:	what a request costs, see mqfq_cost_line()
 * @varied:	the same, more or less by the pattern of this step
 */
struct mqfq_cost_cell {
	u64 ns_x8;
	u32 bytes;
	u32 share_ppm;
	u64 line, varied;
};

/**
 * struct mqfq_cost - the law of one device
 * @cell:	by mqfq_cost_cell()
 * @counts:	of the step under way
 * @ns:		how long it has been
 * @products:	of the cells' rates, over the steps so far, old ones faded
 * @rates:	their sums, with MQFQ_COST_RATE_SHIFT fraction bits
 * @all_bytes:	that were completed, faded alike
 * @all_ns:	in so much time
 * @nr_steps:	steps so far
 * @nr_patterns: patterns of @varied so far
 * @pattern_ns:	how long this one has been in force
 */
struct mqfq_cost {
	struct mqfq_cost_cell cell[MQFQ_COST_NR_CELLS];
	struct mqfq_cost_counts counts;
	u64 ns;
	u64 products[MQFQ_COST_NR_CELLS][MQFQ_COST_NR_CELLS];
	u64 rates[MQFQ_COST_NR_CELLS];
	u64 all_bytes, all_ns;
	u32 nr_steps, nr_patterns;
	u64 pattern_ns;
};

/* Of @bytes, which are not 0. */
static inline unsigned int mqfq_cost_cell(enum mqfq_cost_op op, u32 bytes)
{
	unsigned int size = (fls((bytes - 1) >> 13) + 1U) / 2;

	return op * MQFQ_COST_NR_SIZES + min(size, MQFQ_COST_NR_SIZES - 1U);
}

/* A line has the cost of no bytes in the upper half, and of a byte in the lower, with 16 bits. */
static inline u64 mqfq_cost_at(u64 line, u32 bytes)
{
	return (line >> 32) + ((u64)bytes * (u32)line >> 16);
}

/*
 * The cost of a request in bytes: so many the device moves now in the time that the request takes.
 * Any CPU, at any time.
 */
static inline u64 mqfq_cost_of(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 bytes)
{
	return mqfq_cost_at(READ_ONCE(c->cell[mqfq_cost_cell(op, bytes)].line), bytes);
}

/* The same, varied: what a request is charged in this step. */
static inline u64 mqfq_cost_charged(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 bytes)
{
	return mqfq_cost_at(READ_ONCE(c->cell[mqfq_cost_cell(op, bytes)].varied), bytes);
}

/* Nothing is known yet: a byte costs a byte. */
void mqfq_cost_init(struct mqfq_cost *c);

/**
 * mqfq_cost_set() - what requests of one operation cost is known from before
 * @c:		law
 * @op:		operation
 * @ns:		of a request of 4, 16, 64 and 256 KiB: MQFQ_COST_NS_MIN to MQFQ_COST_NS_MAX;
 *		0: nothing is known
 *
 * The law goes on from there: what it learns outweighs this within seconds.
 */
void mqfq_cost_set(struct mqfq_cost *c, enum mqfq_cost_op op, const u32 *ns);

/* The same, as it is known now. */
void mqfq_cost_get(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 *ns);

/* Costs are not charged for a while: the step under way is lost, what was learned stays. */
void mqfq_cost_pause(struct mqfq_cost *c);

/**
 * mqfq_cost_window() - a window is over
 * @c:		law
 * @ns:		how long it was
 * @counts:	what was completed in it
 * @was_full:	requests waited for the device all the time
 */
void mqfq_cost_window(struct mqfq_cost *c, u64 ns, const struct mqfq_cost_counts *counts,
		      bool was_full);

/* @served is what requests like these were charged in this step; the same, as costs are known. */
u64 mqfq_cost_unvaried(const struct mqfq_cost *c, const struct mqfq_cost_counts *counts,
		       u64 served);

/* What a request takes of the device's time, in ns; 0: nothing is known of such requests. */
u64 mqfq_cost_ns(const struct mqfq_cost *c, enum mqfq_cost_op op, u32 bytes);

#endif /* MQFAIR_MQFQ_COST_H */
