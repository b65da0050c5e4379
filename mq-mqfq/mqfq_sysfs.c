// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_sysfs.c - the tunables of mq-mqfq, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-mqfq.rst tells units, ranges and which way to turn them. A value out
 * of range, or not a number, is refused with -EINVAL, and the old value stays.
 */
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "blk/tunable.h"
#include "mqfq.h"

static int mqfq_set_bucket_kb(struct mqfq_data *md, unsigned int kb)
{
	struct vt_wheel_geometry geometry = md->policy.wheel.geometry;

	if (!is_power_of_2(kb))
		return -EINVAL;
	geometry.width_shift = ilog2(kb) + MQFQ_KB_SHIFT;
	mutex_lock(&md->tuner.lock);
	mqfq_set_wheel(&md->policy, geometry);
	mutex_unlock(&md->tuner.lock);
	return 0;
}

static int mqfq_set_buckets(struct mqfq_data *md, unsigned int buckets)
{
	struct vt_wheel_geometry geometry = md->policy.wheel.geometry;

	if (!is_power_of_2(buckets))
		return -EINVAL;
	geometry.buckets_shift = ilog2(buckets);
	mutex_lock(&md->tuner.lock);
	mqfq_set_wheel(&md->policy, geometry);
	mutex_unlock(&md->tuner.lock);
	return 0;
}

static int mqfq_set_number(unsigned int *field, unsigned int value)
{
	WRITE_ONCE(*field, value);
	return 0;
}

#define MQFQ_WHEEL (data->policy.wheel.geometry)
TUNABLE(mqfq, bucket_kb, 1U << (MQFQ_WHEEL.width_shift - MQFQ_KB_SHIFT), 1, MQFQ_BUCKET_KB_MAX,
	mqfq_set_bucket_kb(data, value))
TUNABLE(mqfq, buckets, 1U << MQFQ_WHEEL.buckets_shift, VT_WHEEL_BUCKETS_MIN, VT_WHEEL_BUCKETS_MAX,
	mqfq_set_buckets(data, value))
#undef MQFQ_WHEEL
TUNABLE(mqfq, write_cost_pct, READ_ONCE(data->charge.write_cost_pct), 0, MQFQ_COST_PCT_MAX,
	mqfq_set_number(&data->charge.write_cost_pct, value))
TUNABLE(mqfq, discard_cost_pct, READ_ONCE(data->charge.discard_cost_pct), 0, MQFQ_COST_PCT_MAX,
	mqfq_set_number(&data->charge.discard_cost_pct, value))
TUNABLE(mqfq, urgent_kb, READ_ONCE(data->urgent_kb), 0, MQFQ_URGENT_KB_MAX,
	mqfq_set_number(&data->urgent_kb, value))

/* T and D: a number, or the word "auto". What is shown may be written back. */
static const char mqfq_auto_word[] = "auto";

static ssize_t mqfq_found_show(struct elevator_queue *eq, char *page, enum mqfq_auto_which which)
{
	struct mqfq_data *md = eq->elevator_data;

	if (mqfq_auto_is_on(&md->tuner.law, which))
		return sysfs_emit(page, "%s\n", mqfq_auto_word);
	return sysfs_emit(page, "%u\n", READ_ONCE(md->tuner.law.knob[which].base));
}

static ssize_t mqfq_found_store(struct elevator_queue *eq, const char *page, size_t count,
				enum mqfq_auto_which which)
{
	static const struct { unsigned int min, max; } range[] = {
		[MQFQ_AUTO_THROTTLE_KB]	= { 0, MQFQ_THROTTLE_KB_MAX },
		[MQFQ_AUTO_SLOTS]	= { MQFQ_SLOTS_MIN, MQFQ_SLOTS_MAX },
	};
	struct mqfq_data *md = eq->elevator_data;
	unsigned int value;
	int ret;

	if (sysfs_streq(page, mqfq_auto_word)) {
		mqfq_tuner_on(md, which);
		return count;
	}
	ret = tunable_parse(page, range[which].min, range[which].max, &value);
	if (ret)
		return ret;
	mqfq_tuner_off(md, which, value);
	return count;
}

/* One of several tunables that a pair of functions serves, which are told which it is. */
#define MQFQ_OF_KIND(name, kind, ...)							\
static ssize_t mqfq_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	return mqfq_##kind##_show(eq, page, __VA_ARGS__);				\
}											\
											\
static ssize_t mqfq_##name##_store(struct elevator_queue *eq, const char *page,		\
				   size_t count)					\
{											\
	return mqfq_##kind##_store(eq, page, count, __VA_ARGS__);			\
}

MQFQ_OF_KIND(throttle_kb, found, MQFQ_AUTO_THROTTLE_KB)
MQFQ_OF_KIND(slots, found, MQFQ_AUTO_SLOTS)

static int mqfq_set_flow_kind(struct mqfq_data *md, unsigned int kind)
{
	WRITE_ONCE(md->flow_kind, kind);
	return 0;
}

TUNABLE_WORD(mqfq, flow, flow_kind_name, READ_ONCE(data->flow_kind),
	     mqfq_set_flow_kind(data, value))

static int mqfq_set_cost(struct mqfq_data *md, enum mqfq_charge_kind kind)
{
	mqfq_tuner_share(md, kind);
	return 0;
}

TUNABLE_WORD(mqfq, cost, mqfq_charge_name, READ_ONCE(data->charge.kind),
	     mqfq_set_cost(data, value))

/*
 * What requests of 4, 16, 64 and 256 KiB take of the device's time, as far as it is known. What is
 * shown may be written back, which the keep of a disk does.
 */
static ssize_t mqfq_cost_ns_show(struct elevator_queue *eq, char *page, enum mqfq_cost_op op)
{
	struct mqfq_data *md = eq->elevator_data;
	u32 ns[MQFQ_COST_NR_SIZES];

	mutex_lock(&md->tuner.lock);
	mqfq_cost_get(&md->charge.law, op, ns);
	mutex_unlock(&md->tuner.lock);
	return sysfs_emit(page, "%u %u %u %u\n", ns[0], ns[1], ns[2], ns[3]);
}

static int mqfq_parse_costs(const char *page, u32 *ns)
{
	char words[64], *at = words, *word;
	unsigned int i;

	if (strscpy(words, skip_spaces(page), sizeof(words)) < 0)
		return -EINVAL;
	strim(words);
	for (i = 0; i < MQFQ_COST_NR_SIZES; i++) {
		word = strsep(&at, " \t");
		if (!word || kstrtouint(word, 10, &ns[i]))
			return -EINVAL;
		if (ns[i] && (ns[i] < MQFQ_COST_NS_MIN || ns[i] > MQFQ_COST_NS_MAX))
			return -EINVAL;
	}
	return at ? -EINVAL : 0;
}

static ssize_t mqfq_cost_ns_store(struct elevator_queue *eq, const char *page, size_t count,
				  enum mqfq_cost_op op)
{
	struct mqfq_data *md = eq->elevator_data;
	u32 ns[MQFQ_COST_NR_SIZES];

	if (mqfq_parse_costs(page, ns))
		return -EINVAL;
	mutex_lock(&md->tuner.lock);
	mqfq_cost_set(&md->charge.law, op, ns);
	mutex_unlock(&md->tuner.lock);
	return count;
}

MQFQ_OF_KIND(cost_read_ns, cost_ns, MQFQ_COST_READ)
MQFQ_OF_KIND(cost_write_ns, cost_ns, MQFQ_COST_WRITE)
MQFQ_OF_KIND(cost_fua_ns, cost_ns, MQFQ_COST_FUA)
#undef MQFQ_OF_KIND

/*
 * The weights of processes or priorities, as "flow" says: a line "NUMBER WEIGHT" each. cgroups have
 * theirs in io.mqfair.weight.
 */
static ssize_t mqfq_weights_show(struct elevator_queue *eq, char *page)
{
	struct mqfq_data *md = eq->elevator_data;
	unsigned int kind = READ_ONCE(md->flow_kind), shown;
	unsigned long index, first = mqfq_weight_index(flow_key(kind, 0));
	void *weight;
	int at = 0;

	xa_for_each_range(&md->keep->numbers, index, weight, first, first + U32_MAX) {
		/* That of a process which has ended is not shown. */
		shown = mqfq_id_weight(md, flow_key(kind, index - first));
		if (shown != FLOW_WEIGHT_DEFAULT)
			at += sysfs_emit_at(page, at, "%lu %u\n", index - first, shown);
	}
	return at;
}

/* Reads "NUMBER NUMBER"; a number that does not fit is an error. */
static int mqfq_parse_pair(const char *page, unsigned int *first, unsigned int *second)
{
	char words[32], *at = words, *word;

	if (strscpy(words, skip_spaces(page), sizeof(words)) < 0)
		return -EINVAL;
	word = strsep(&at, " \t");
	if (!at || kstrtouint(word, 10, first) || kstrtouint(strim(at), 10, second))
		return -EINVAL;
	return 0;
}

static ssize_t mqfq_weights_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct mqfq_data *md = eq->elevator_data;
	unsigned int kind = READ_ONCE(md->flow_kind), id, weight;
	int ret;

	if (kind == FLOW_CGROUP || mqfq_parse_pair(page, &id, &weight))
		return -EINVAL;
	if (weight < FLOW_WEIGHT_MIN || weight > FLOW_WEIGHT_MAX ||
	    id > (kind == FLOW_IOPRIO ? U16_MAX : PID_MAX_LIMIT))
		return -EINVAL;
	ret = mqfq_set_id_weight(md, flow_key(kind, id), weight);
	return ret ? ret : count;
}

static int mqfq_store_root_weight(struct mqfq_data *md, unsigned int weight)
{
	mqfq_set_root_weight(md, weight);
	return 0;
}

TUNABLE(mqfq, root_weight, READ_ONCE(data->root_weight), FLOW_WEIGHT_MIN, FLOW_WEIGHT_MAX,
	mqfq_store_root_weight(data, value))

static int mqfq_store_target(struct mqfq_data *md, unsigned int p999_us)
{
	mqfq_tuner_aim(md, p999_us);
	return 0;
}

TUNABLE(mqfq, target_p999_us, READ_ONCE(data->target.p999_us), 0, MQFQ_TARGET_US_MAX,
	mqfq_store_target(data, value))

#define MQFQ_ATTR(name) TUNABLE_ATTR(mqfq, name)
MQFAIR_ATTRS_CONST struct elv_fs_entry mqfq_attrs[] = {
	MQFQ_ATTR(flow),
	MQFQ_ATTR(weights),
	MQFQ_ATTR(root_weight),
	MQFQ_ATTR(cost),
	MQFQ_ATTR(cost_read_ns),
	MQFQ_ATTR(cost_write_ns),
	MQFQ_ATTR(cost_fua_ns),
	MQFQ_ATTR(throttle_kb),
	MQFQ_ATTR(slots),
	MQFQ_ATTR(target_p999_us),
	MQFQ_ATTR(bucket_kb),
	MQFQ_ATTR(buckets),
	MQFQ_ATTR(write_cost_pct),
	MQFQ_ATTR(discard_cost_pct),
	MQFQ_ATTR(urgent_kb),
	__ATTR_NULL
};
#undef MQFQ_ATTR
