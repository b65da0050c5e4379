/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tunable.h - a number that somebody has written to a file in sysfs
 */
#ifndef MQFAIR_TUNABLE_H
#define MQFAIR_TUNABLE_H

#include <linux/errno.h>
#include <linux/kstrtox.h>

/**
 * tunable_parse() - read a number in a range
 * @page:	what was written: an unsigned decimal, a newline may follow
 * @min:	the smallest that is allowed
 * @max:	the largest
 * @value:	where to put it
 *
 * kstrtouint() has a word of its own for numbers that do not fit; to the user they are as wrong
 * as any other.
 *
 * Return: 0 or -EINVAL.
 */
static inline int tunable_parse(const char *page, unsigned int min, unsigned int max,
				unsigned int *value)
{
	if (kstrtouint(page, 10, value) || *value < min || *value > max)
		return -EINVAL;
	return 0;
}

#endif /* MQFAIR_TUNABLE_H */
