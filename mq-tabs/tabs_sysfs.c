// SPDX-License-Identifier: GPL-2.0
/*
 * tabs_sysfs.c - the tunables of mq-tabs, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-tabs.rst tells units, ranges and which way to turn them. A value out
 * of range, or not a number, is refused with -EINVAL, and the old value stays. Tunables are set one
 * by one, so none is refused because of another: an epoch longer than the SCHED phase ends with it.
 */
#include "blk/tunable.h"
#include "tabs.h"

enum {
	/* A terabyte per second: the policy computes with less than 2^42 bytes. */
	TABS_KBPS_MAX		= 1000000000,

	/* A tick is 5 ms, or a jiffy if longer; times of fewer than some ticks cannot be kept. */
	TABS_IDLE_RESET_MS_MIN	= 50,
	TABS_IDLE_RESET_MS_MAX	= 60000,
	TABS_THRESHOLD_MAX	= 10000000,
	TABS_EPOCH_MS_MIN	= 20,
	TABS_EPOCH_MS_MAX	= 60000,
	TABS_SCHED_MS_MIN	= 100,
	TABS_SCHED_MS_MAX	= 3600000,
	TABS_MAX_DELAY_MS_MIN	= 20,
	TABS_MAX_DELAY_MS_MAX	= 60000,
};

/*
 * The paper's values, except idle_threshold and epoch_ms, which were chosen by measurement (make
 * bench NAME=defaults): the paper has 5000 requests and 1000 ms.
 */
const struct tabs_tunables tabs_default_tunables = {
	.idle_reset_ms	= 500,
	.idle_threshold	= 200,
	.epoch_ms	= 500,
	.sched_ms	= 50000,
	.feedback_pct	= 90,
	.max_delay_ms	= 500,
};

static int tabs_set_tunable(struct tabs_data *td, u32 *field, u32 value)
{
	WRITE_ONCE(*field, value);
	tabs_apply(td);
	return 0;
}

#define TABS_TUNABLE(name, min, max)							\
	TUNABLE(tabs, name, READ_ONCE(data->tunables.name), min, max,			\
		tabs_set_tunable(data, &data->tunables.name, value))
TABS_TUNABLE(max_read_kbps, 0, TABS_KBPS_MAX)
TABS_TUNABLE(max_fua_write_kbps, 0, TABS_KBPS_MAX)
TABS_TUNABLE(idle_reset_ms, TABS_IDLE_RESET_MS_MIN, TABS_IDLE_RESET_MS_MAX)
TABS_TUNABLE(idle_threshold, 1, TABS_THRESHOLD_MAX)
TABS_TUNABLE(epoch_ms, TABS_EPOCH_MS_MIN, TABS_EPOCH_MS_MAX)
TABS_TUNABLE(sched_ms, TABS_SCHED_MS_MIN, TABS_SCHED_MS_MAX)
TABS_TUNABLE(feedback_pct, 1, 100)
TABS_TUNABLE(max_delay_ms, TABS_MAX_DELAY_MS_MIN, TABS_MAX_DELAY_MS_MAX)
#undef TABS_TUNABLE

#define TABS_ATTR(name) TUNABLE_ATTR(tabs, name)
MQFAIR_ATTRS_CONST struct elv_fs_entry tabs_attrs[] = {
	TABS_ATTR(max_read_kbps),
	TABS_ATTR(max_fua_write_kbps),
	TABS_ATTR(idle_reset_ms),
	TABS_ATTR(idle_threshold),
	TABS_ATTR(epoch_ms),
	TABS_ATTR(sched_ms),
	TABS_ATTR(feedback_pct),
	TABS_ATTR(max_delay_ms),
	__ATTR_NULL
};
#undef TABS_ATTR
