/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tunable.h - files in /sys/block/DEV/queue/iosched/
 *
 * Each scheduler has a table of elv_fs_entry. TUNABLE() and TUNABLE_WORD() make the two functions
 * of an entry, TUNABLE_ATTR() makes the entry. A file has one value. What is shown may be written
 * back. A value out of range, or not a value at all, is refused with -EINVAL and the old one stays.
 */
#ifndef MQFAIR_BLK_TUNABLE_H
#define MQFAIR_BLK_TUNABLE_H

#include <linux/errno.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/sysfs.h>

/**
 * tunable_parse() - read a number in a range
 * @page:	what was written: an unsigned decimal, a newline may follow
 * @min:	the smallest that is allowed
 * @max:	the largest
 * @value:	where to put it
 *
 * kstrtouint() has an error of its own for numbers that do not fit. To the user they are as wrong
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

/*
 * SCHEDULER_NAME_show() and SCHEDULER_NAME_store(), for the macros below. @format, and @shown, an
 * expression in which "data" is the scheduler's data, make the text. @parse puts what was written
 * into "value" and yields 0 or -EINVAL. Then @set, an expression with "data" and "value", puts it
 * in force and yields 0 or an error.
 */
#define TUNABLE_FILE(scheduler, name, format, shown, parse, set)			\
static ssize_t scheduler##_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	struct scheduler##_data *data = eq->elevator_data;				\
											\
	return sysfs_emit(page, format "\n", shown);					\
}											\
											\
static ssize_t scheduler##_##name##_store(struct elevator_queue *eq, const char *page,	\
					  size_t count)					\
{											\
	struct scheduler##_data *data = eq->elevator_data;				\
	unsigned int value;								\
	int ret = parse;								\
											\
	if (!ret)									\
		ret = set;								\
	return ret ?: count;								\
}

/**
 * TUNABLE() - a number
 * @scheduler:	k2: the data is a struct k2_data, the functions are k2_NAME_show() and _store()
 * @name:	the file
 * @shown:	expression with "data", an unsigned int
 * @min:	the smallest value
 * @max:	the largest
 * @set:	expression with "data" and "value"; 0 or an error
 */
#define TUNABLE(scheduler, name, shown, min, max, set)					\
	TUNABLE_FILE(scheduler, name, "%u", shown,					\
		     tunable_parse(page, min, max, &value), set)

static inline int tunable_match(const char *const *words, size_t nr, const char *page,
				unsigned int *value)
{
	int found = __sysfs_match_string(words, nr, page);

	if (found < 0)
		return -EINVAL;
	*value = found;
	return 0;
}

/* TUNABLE_WORD() - one of an array of words; @shown and value are the index of the word */
#define TUNABLE_WORD(scheduler, name, words, shown, set)				\
	TUNABLE_FILE(scheduler, name, "%s", (words)[shown],				\
		     tunable_match(words, ARRAY_SIZE(words), page, &value), set)

#define TUNABLE_ATTR(scheduler, name)							\
	__ATTR(name, 0644, scheduler##_##name##_show, scheduler##_##name##_store)

#endif /* MQFAIR_BLK_TUNABLE_H */
