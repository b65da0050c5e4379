// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_sysfs.c - the tunables of mq-octofas, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-octofas.rst tells units, ranges and which way to turn them. A value that is out of
 * range, or no value at all, is -EINVAL, and the old one stays.
 */
#include <linux/string.h>
#include <linux/sysfs.h>

#include "octofas.h"
#include "tunable.h"

enum {
	/* A jiffy can be 10 ms; below some of them a window has nothing to count. */
	OCTOFAS_WINDOW_MS_MIN		= 20,
	OCTOFAS_WINDOW_MS_MAX		= 60000,
	OCTOFAS_OVERLOAD_PCT_MAX	= 10000,
	OCTOFAS_ALPHA_PCT_MAX		= 10000,
};

/*
 * fair_pct is OctoFAS's, and so is alpha_pct, as 20 times back for four times the intensity; the
 * window is shorter than OctoKV's second, since a block device has more requests in it.
 */
const struct octofas_tunables octofas_default_tunables = {
	.config = {
		.mode		= OCTOFAS_AUTO,
		.migrate	= OCTOFAS_MOVE_DENSE,
		.spread		= OCTOFAS_RR,
		.fair_pct	= 90,
		.balance_pct	= 60,
		.overload_pct	= 40,
		.alpha_pct	= 500,
		.max_backward	= 20,
	},
	.window_ms = 100,
};

const char *const octofas_mode_name[OCTOFAS_NR_MODES] = {
	[OCTOFAS_NONE]		= "none",
	[OCTOFAS_INTER]		= "inter",
	[OCTOFAS_INTRA]		= "intra",
	[OCTOFAS_HYBRID]	= "hybrid",
	[OCTOFAS_AUTO]		= "auto",
};

const char *const octofas_flow_kind_name[OCTOFAS_NR_FLOW_KINDS] = {
	[OCTOFAS_FLOW_CGROUP]	= "cgroup",
	[OCTOFAS_FLOW_PROCESS]	= "process",
	[OCTOFAS_FLOW_IOPRIO]	= "ioprio",
};

static const char *const octofas_migrate_name[OCTOFAS_NR_MIGRATES] = {
	[OCTOFAS_MOVE_ALL]	= "all",
	[OCTOFAS_MOVE_DENSE]	= "dense",
	[OCTOFAS_MOVE_SPARSE]	= "sparse",
};

static const char *const octofas_spread_name[OCTOFAS_NR_SPREADS] = {
	[OCTOFAS_RR]	= "rr",
	[OCTOFAS_PS]	= "ps",
};

#define OCTOFAS_NUMBER(name, member, min, max)						\
static ssize_t octofas_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	struct octofas_data *od = eq->elevator_data;					\
											\
	return sysfs_emit(page, "%u\n", READ_ONCE(od->member));				\
}											\
											\
static ssize_t octofas_##name##_store(struct elevator_queue *eq, const char *page,	\
				      size_t count)					\
{											\
	struct octofas_data *od = eq->elevator_data;					\
	unsigned int value;								\
	int ret = tunable_parse(page, min, max, &value);				\
											\
	if (ret)									\
		return ret;								\
	WRITE_ONCE(od->member, value);							\
	octofas_apply(od);								\
	return count;									\
}

#define OCTOFAS_WORD(name, member, words)						\
static ssize_t octofas_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	struct octofas_data *od = eq->elevator_data;					\
											\
	return sysfs_emit(page, "%s\n", words[READ_ONCE(od->member)]);			\
}											\
											\
static ssize_t octofas_##name##_store(struct elevator_queue *eq, const char *page,	\
				      size_t count)					\
{											\
	struct octofas_data *od = eq->elevator_data;					\
	int value = sysfs_match_string(words, page);					\
											\
	if (value < 0)									\
		return -EINVAL;								\
	WRITE_ONCE(od->member, value);							\
	octofas_apply(od);								\
	return count;									\
}

OCTOFAS_WORD(policy, tunables.config.mode, octofas_mode_name)
OCTOFAS_WORD(flow, flow_kind, octofas_flow_kind_name)
OCTOFAS_WORD(migrate, tunables.config.migrate, octofas_migrate_name)
OCTOFAS_WORD(spread, tunables.config.spread, octofas_spread_name)
OCTOFAS_NUMBER(window_ms, tunables.window_ms, OCTOFAS_WINDOW_MS_MIN, OCTOFAS_WINDOW_MS_MAX)
OCTOFAS_NUMBER(fair_pct, tunables.config.fair_pct, 0, 100)
OCTOFAS_NUMBER(balance_pct, tunables.config.balance_pct, 0, 100)
OCTOFAS_NUMBER(overload_pct, tunables.config.overload_pct, 0, OCTOFAS_OVERLOAD_PCT_MAX)
OCTOFAS_NUMBER(alpha_pct, tunables.config.alpha_pct, 0, OCTOFAS_ALPHA_PCT_MAX)
OCTOFAS_NUMBER(max_backward, tunables.config.max_backward, 0, OCTOFAS_BACKWARD_MAX)
#undef OCTOFAS_NUMBER
#undef OCTOFAS_WORD

#define OCTOFAS_ATTR(name) __ATTR(name, 0644, octofas_##name##_show, octofas_##name##_store)
MQFAIR_ATTRS_CONST struct elv_fs_entry octofas_attrs[] = {
	OCTOFAS_ATTR(policy),
	OCTOFAS_ATTR(flow),
	OCTOFAS_ATTR(window_ms),
	OCTOFAS_ATTR(fair_pct),
	OCTOFAS_ATTR(balance_pct),
	OCTOFAS_ATTR(overload_pct),
	OCTOFAS_ATTR(migrate),
	OCTOFAS_ATTR(spread),
	OCTOFAS_ATTR(alpha_pct),
	OCTOFAS_ATTR(max_backward),
	__ATTR_NULL
};
#undef OCTOFAS_ATTR
