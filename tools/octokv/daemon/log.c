// SPDX-License-Identifier: GPL-2.0
/* log.c - see log.h */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "server/clock.h"

enum { TEXT_BYTES = 256 };

static const uint64_t HOLD_NS = 10000000000;

static struct {
	pthread_mutex_t mutex;
	struct {
		uint64_t held_until_ns;
		uint32_t nr_held;
		char last[TEXT_BYTES];
	} kinds[NR_LOG_KINDS];
} held = { .mutex = PTHREAD_MUTEX_INITIALIZER };

void log_say(enum log_kind kind, const char *format, ...)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&held.mutex);
	if (now < held.kinds[kind].held_until_ns) {
		held.kinds[kind].nr_held++;
		strcpy(held.kinds[kind].last, text);
	} else {
		/* Somebody asked for a line about the users, for example, and waits for it. */
		if (kind != LOG_USERS && kind != LOG_DUMP && kind != LOG_CERTIFICATE &&
		    kind != LOG_CLUSTER)
			held.kinds[kind].held_until_ns = now + HOLD_NS;
		fprintf(stderr, "octokvd: %s\n", text);
	}
	pthread_mutex_unlock(&held.mutex);
}

static void say_held(bool all)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	pthread_mutex_lock(&held.mutex);
	for (int i = 0; i < NR_LOG_KINDS; i++) {
		uint32_t nr = held.kinds[i].nr_held;

		if (!nr || (!all && now < held.kinds[i].held_until_ns))
			continue;
		if (nr == 1)
			fprintf(stderr, "octokvd: %s\n", held.kinds[i].last);
		else
			fprintf(stderr, "octokvd: %u more of this kind, the last: %s\n", nr,
				held.kinds[i].last);
		held.kinds[i].nr_held = 0;
		held.kinds[i].held_until_ns = now + HOLD_NS;
	}
	pthread_mutex_unlock(&held.mutex);
}

void log_tick(void)
{
	say_held(false);
}

void log_end(void)
{
	say_held(true);
}
