// SPDX-License-Identifier: GPL-2.0
/*
 * k2_sysfs.c - the tunables of mq-k2, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-k2.rst tells units, ranges and which way to turn them. A value out of
 * range, or not a number, is refused with -EINVAL, and the old value stays.
 */
#include <linux/sysfs.h>

#include "k2.h"
#include "tunable.h"

enum {
	/* A minute. blk-mq calls a request timed out after 30 s: no longer promise can be kept. */
	K2_BE_MAX_DELAY_MS_MAX	= 60000,

	K2_TARGET_P999_US_MAX	= 10000000,
	K2_TARGET_BW_PCT_MAX	= 100,
};

/* A tunable of the law, at @field. The law starts again with the new value. */
static ssize_t k2_store_target(struct k2_data *k2, const char *page, size_t count,
			       unsigned int min, unsigned int max, unsigned int *field)
{
	unsigned int value;
	int ret;

	ret = tunable_parse(page, min, max, &value);
	if (ret)
		return ret;
	mutex_lock(&k2->auto_mutex);
	WRITE_ONCE(*field, value);
	k2_tuner_set_targets(k2);
	mutex_unlock(&k2->auto_mutex);
	return count;
}

#define K2_TARGET(name, min, max)							\
static ssize_t k2_##name##_show(struct elevator_queue *eq, char *page)			\
{											\
	struct k2_data *k2 = eq->elevator_data;						\
											\
	return sysfs_emit(page, "%u\n", READ_ONCE(k2->name));				\
}											\
											\
static ssize_t k2_##name##_store(struct elevator_queue *eq, const char *page,		\
				 size_t count)						\
{											\
	struct k2_data *k2 = eq->elevator_data;						\
											\
	return k2_store_target(k2, page, count, min, max, &k2->name);			\
}

K2_TARGET(max_inflight, K2_MAX_INFLIGHT_MIN, K2_MAX_INFLIGHT_MAX)
K2_TARGET(target_p999_us, 0, K2_TARGET_P999_US_MAX)
K2_TARGET(target_bw_pct, 0, K2_TARGET_BW_PCT_MAX)
#undef K2_TARGET

static ssize_t k2_be_max_delay_ms_show(struct elevator_queue *eq, char *page)
{
	struct k2_data *k2 = eq->elevator_data;

	return sysfs_emit(page, "%u\n", READ_ONCE(k2->be_max_delay_ms));
}

/* No wake-up: the delay decides which request goes next, not whether one goes. */
static ssize_t k2_be_max_delay_ms_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct k2_data *k2 = eq->elevator_data;
	unsigned int value;
	int ret;

	ret = tunable_parse(page, 0, K2_BE_MAX_DELAY_MS_MAX, &value);
	if (ret)
		return ret;
	spin_lock(&k2->lock);
	WRITE_ONCE(k2->be_max_delay_ms, value);
	k2->policy.be_max_delay_ns = (u64)value * NSEC_PER_MSEC;
	spin_unlock(&k2->lock);
	return count;
}

#define K2_ATTR(name) __ATTR(name, 0644, k2_##name##_show, k2_##name##_store)
MQFAIR_ATTRS_CONST struct elv_fs_entry k2_attrs[] = {
	K2_ATTR(max_inflight),
	K2_ATTR(be_max_delay_ms),
	K2_ATTR(target_p999_us),
	K2_ATTR(target_bw_pct),
	__ATTR_NULL
};
#undef K2_ATTR
