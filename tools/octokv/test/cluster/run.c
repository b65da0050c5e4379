// SPDX-License-Identifier: GPL-2.0
/* run.c - what all parts of a run use: chance, the trace, replies */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

char run_folder[] = "/tmp/schedules-XXXXXX";
char run_tags[NR_TAGS][16];
uint32_t run_slots[NR_TAGS];

uint32_t run_draw(struct run *run, uint32_t below)
{
	return sim_draw(&run->random, below);
}

bool run_chance(struct run *run, uint32_t one_in)
{
	return !run_draw(run, one_in);
}

void run_trace(struct run *run, const char *format, ...)
{
	va_list args;

	if (!run->traces)
		return;
	printf("%6llu ", (unsigned long long)run->nr_events);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	puts("");
}

void run_fail(struct run *run, const char *format, ...)
{
	va_list args;

	if (run->has_failed)
		return;
	run->has_failed = true;
	printf("seed %llu (schedule): after %llu events, ", (unsigned long long)run->seed,
	       (unsigned long long)run->nr_events);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	puts("");
}

bool reply_read(const char **at, const char *end, struct reply *r)
{
	const char *line = *at, *newline = memchr(line, '\n', end - line);

	if (!newline)
		return false;
	*r = (struct reply){ .type = line[0], .text = line + 1, .len = newline - line - 2 };
	if (line[0] != '+' && line[0] != '-')
		r->number = strtoll(line + 1, NULL, 10);
	*at = newline + 1;
	if (line[0] != '$')
		return true;
	r->is_nil = r->number < 0;
	if (r->is_nil)
		return true;
	r->len = r->number;
	if ((size_t)(end - *at) < r->len + 2)
		return false;
	r->text = *at;
	r->number = strtoll(r->text, NULL, 10);
	*at += r->len + 2;
	return true;
}
