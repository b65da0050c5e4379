/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.h - reading clocks, and a real-time clock that is not believed when it jumps
 *
 * Keys with an expiry are deleted for ever when their time has come. If somebody sets the clock to
 * next year by mistake, all of them would be gone. So where real time has gone on by an hour more
 * than the time since the boot of the machine (which counts a suspend as well), real time is what
 * it was, and goes on from there. It is believed again when it is back within the hour, or when an
 * administrator says that it is right.
 */
#ifndef OKV_CLOCK_H
#define OKV_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

enum { CLOCK_JUMP_MS = 3600000 };

/* All 0: believe what comes. */
struct clock_guard {
	uint64_t real_ms, boot_ms;	/* of the last look */
	bool jumped;
};

/* The time to go by, where the clocks say @real_ms and @boot_ms. */
static inline uint64_t clock_guard(struct clock_guard *g, uint64_t real_ms, uint64_t boot_ms)
{
	uint64_t expected_ms = g->real_ms + (boot_ms - g->boot_ms);

	g->jumped = g->real_ms && real_ms > expected_ms + CLOCK_JUMP_MS;
	g->real_ms = g->jumped ? expected_ms : real_ms;
	g->boot_ms = boot_ms;
	return g->real_ms;
}

#endif
