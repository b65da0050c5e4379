// SPDX-License-Identifier: GPL-2.0
/*
 * k2_sysfs.c - the tunables of mq-k2, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-k2.rst tells units, ranges and which way to turn them. A value out of
 * range, or not a number, is refused with -EINVAL, and the old value stays.
 */
#include "blk/tunable.h"
#include "k2.h"

enum {
	/* A minute. blk-mq calls a request timed out after 30 s: no longer promise can be kept. */
	K2_BE_MAX_DELAY_MS_MAX	= 60000,

	K2_TARGET_P999_US_MAX	= 10000000,
	K2_TARGET_BW_PCT_MAX	= 100,
};

/* max_inflight or a target, at @field. The automatic bound starts again with the new value. */
static int k2_set_target(struct k2_data *k2, unsigned int *field, unsigned int value)
{
	mutex_lock(&k2->auto_mutex);
	WRITE_ONCE(*field, value);
	k2_tuner_set_targets(k2);
	mutex_unlock(&k2->auto_mutex);
	return 0;
}

/* No wake-up: the delay decides which request goes next, not whether one goes. */
static int k2_set_be_max_delay_ms(struct k2_data *k2, unsigned int delay_ms)
{
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->be_max_delay_ms, delay_ms);
	k2->policy.be_max_delay_ns = (u64)delay_ms * NSEC_PER_MSEC;
	spin_unlock(&k2->lock);
	return 0;
}

#define K2_TARGET(name, min, max)							\
	TUNABLE(k2, name, READ_ONCE(data->name), min, max,				\
		k2_set_target(data, &data->name, value))
K2_TARGET(max_inflight, K2_MAX_INFLIGHT_MIN, K2_MAX_INFLIGHT_MAX)
K2_TARGET(target_p999_us, 0, K2_TARGET_P999_US_MAX)
K2_TARGET(target_bw_pct, 0, K2_TARGET_BW_PCT_MAX)
#undef K2_TARGET
TUNABLE(k2, be_max_delay_ms, READ_ONCE(data->be_max_delay_ms), 0, K2_BE_MAX_DELAY_MS_MAX,
	k2_set_be_max_delay_ms(data, value))

#define K2_ATTR(name) TUNABLE_ATTR(k2, name)
MQFAIR_ATTRS_CONST struct elv_fs_entry k2_attrs[] = {
	K2_ATTR(max_inflight),
	K2_ATTR(be_max_delay_ms),
	K2_ATTR(target_p999_us),
	K2_ATTR(target_bw_pct),
	__ATTR_NULL
};
#undef K2_ATTR
