/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Who has which cache line: the rule by which the plugin counts
 *
 * Caches of endless size, lines of 64 bytes, one cache per CPU. A line has a last writer and the
 * set of CPUs that have touched it since. An access is a transfer if it is
 *
 *	a load by a CPU that lacks the line, and the last writer is another CPU, or
 *	a store while another CPU has the line.
 *
 * A line that no CPU has written yet moves for free, since nobody knows where it came from.
 * Nothing is ever evicted. So this counts coherence misses, and neither capacity misses nor cold
 * ones.
 */
#ifndef COHERENCE_LINES_H
#define COHERENCE_LINES_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LINE_SHIFT	= 6,
	LINE_BYTES	= 1 << LINE_SHIFT,
	MAX_CPUS	= 256,
	NO_CPU		= MAX_CPUS,
};

struct line {
	uint64_t has[MAX_CPUS / 64];
	uint16_t writer;		/* NO_CPU: not written since the plugin follows */
};

/* The line of physical address @phys; NULL if there is no memory for it. */
struct line *line_of(uint64_t phys);

/* CPU @cpu accesses @line: whether that is a transfer. */
bool line_access(struct line *line, unsigned int cpu, bool is_store);

/* How many CPUs have @line. */
unsigned int line_nr_sharers(const struct line *line);

/* Forget all lines. */
void lines_forget(void);

#endif
