/* SPDX-License-Identifier: GPL-2.0 */
/*
 * log.h - lines on stderr for an operator, of each kind a few at most
 *
 * A line begins with "octokvd: ". Of each kind one is printed at once. Those that come within ten
 * seconds of it are counted, and log_tick() prints their number and the last of them. So an outage
 * of a whole device, with an error for each request and a change of state for each partition, is a
 * handful of lines. Any thread may call these functions.
 */
#ifndef OKV_LOG_H
#define OKV_LOG_H

#include <stdint.h>

enum log_kind {
	LOG_READ_ERROR, LOG_WRITE_ERROR, LOG_WAITS, LOG_REFUSES, LOG_TAKES, LOG_DAMAGE, LOG_SEGMENT,
	LOG_SLOW, LOG_MOVES, LOG_RECOVERY, LOG_CLOCK, LOG_WEIGHTS, LOG_USERS, LOG_DUMP,
	LOG_LEFT_OUT, LOG_TLS, LOG_CERTIFICATE, LOG_CUT_OFF, LOG_CLUSTER,
	NR_LOG_KINDS,
};

__attribute__((format(printf, 2, 3))) void log_say(enum log_kind kind, const char *format, ...);

/* Prints what was held back for long enough, or all of it. */
void log_tick(void);
void log_end(void);

#endif
