/* SPDX-License-Identifier: GPL-2.0 */
/*
 * storm.h - what the programs with threads share: for how long they run, where threads lose the
 * processor, and the watch for a standstill
 *
 * Usage of each: NAME [SECONDS]. STALL_MS in the environment says for how long nothing may move.
 *
 * There may be more threads than processors, and none is preempted within the few instructions
 * that matter. So the code under test gives it away now and then before a write and at a barrier:
 * that is between what was read and what is made of it, and between a write and the next look.
 */
#ifndef HOSTED_STORM_H
#define HOSTED_STORM_H

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <linux/compiler.h>
#include <linux/list.h>
#include <linux/rcupdate.h>

#include "../../shapes.h"

enum {
	STORM_STALL_MS		= 5000,
	STORM_TICK_US		= 500,
	STORM_YIELD_ONE_IN	= 24,
	STORM_THREADS		= 4,
};

static const char *storm_name;
static double storm_seconds;
static __thread u32 storm_random;
/* Of storm_rounds(). */
__attribute__((unused)) static pthread_barrier_t storm_gate;
__attribute__((unused)) static bool storm_over;

static u32 draw(u32 n)
{
	return shape_random_below(&storm_random, n);
}

static void storm_at_barrier(void)
{
	if (draw(STORM_YIELD_ONE_IN) == 0)
		sched_yield();
}

static double storm_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((format(printf, 1, 2), noreturn))
static void storm_fail(const char *fmt, ...)
{
	va_list args;

	printf("not ok 1 %s # ", storm_name);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

/* Does not return while @moved() changes; fails the program if it does not for too long. */
__attribute__((unused))
static void storm_watch(bool (*is_over)(void), unsigned long (*moved)(void), void (*tell)(void))
{
	const char *stall = getenv("STALL_MS");
	double limit = (stall ? atoi(stall) : STORM_STALL_MS) / 1000.0, since = storm_now();
	unsigned long before = moved();

	while (!is_over()) {
		unsigned long now = moved();

		if (now != before)
			since = storm_now();
		before = now;
		if (storm_now() - since > limit) {
			tell();
			storm_fail("stands still after %lu steps", now);
		}
		usleep(STORM_TICK_US);
	}
}

/*
 * Runs STORM_THREADS threads, @thread(number) each, for @seconds. A thread passes storm_gate before
 * and after each round, and returns if storm_over is set at the first of the two. @round() is what
 * the caller does in a round: it passes the gate twice, and the threads stand still from then to
 * its return.
 */
__attribute__((unused))
static void storm_rounds(double seconds, void *(*thread)(void *), void (*round)(void))
{
	double end = storm_now() + seconds;
	pthread_t threads[STORM_THREADS];
	unsigned long i;

	storm_over = false;
	pthread_barrier_init(&storm_gate, NULL, STORM_THREADS + 1);
	for (i = 0; i < STORM_THREADS; i++)
		pthread_create(&threads[i], NULL, thread, (void *)i);
	while (!storm_over) {
		round();
		storm_over = storm_now() > end;
	}
	pthread_barrier_wait(&storm_gate);
	for (i = 0; i < STORM_THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void storm_begin(int argc, char **argv, const char *name, double seconds)
{
	storm_name = name;
	storm_seconds = argc > 1 ? atof(argv[1]) : seconds;
	storm_random = 1;
	hosted_rcu_defer = true;
	hosted_at_barrier = storm_at_barrier;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..1\n");
}

static int storm_end(unsigned long steps)
{
	rcu_barrier();
	printf("# %lu steps in %.1f s\nok 1 %s\n", steps, storm_seconds, storm_name);
	return 0;
}

#endif
