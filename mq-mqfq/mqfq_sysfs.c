// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_sysfs.c - the tunables of mq-mqfq, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-mqfq.rst tells units, ranges and which way to turn them. A value that is out of
 * range, or not a number, is -EINVAL, and the old one stays.
 */
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mqfq.h"
#include "tunable.h"

const char *const mqfq_flow_kind_name[MQFQ_NR_FLOW_KINDS] = {
	[MQFQ_FLOW_CGROUP]	= "cgroup",
	[MQFQ_FLOW_PROCESS]	= "process",
	[MQFQ_FLOW_IOPRIO]	= "ioprio",
};

#define MQFQ_SHOW(name, format, value)							\
static ssize_t mqfq_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	struct mqfq_data *md = eq->elevator_data;					\
											\
	return sysfs_emit(page, format "\n", value);					\
}

#define MQFQ_STORE(name, min, max, act)							\
static ssize_t mqfq_##name##_store(struct elevator_queue *eq, const char *page,		\
				   size_t count)					\
{											\
	struct mqfq_data *md = eq->elevator_data;					\
	unsigned int value;								\
	int ret = tunable_parse(page, min, max, &value);				\
											\
	if (!ret)									\
		ret = act(md, value);							\
	return ret ? ret : count;							\
}

static int mqfq_act_bucket_kb(struct mqfq_data *md, unsigned int kb)
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

static int mqfq_act_buckets(struct mqfq_data *md, unsigned int buckets)
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

static int mqfq_act_write_cost_pct(struct mqfq_data *md, unsigned int pct)
{
	WRITE_ONCE(md->write_cost_pct, pct);
	return 0;
}

static int mqfq_act_discard_cost_pct(struct mqfq_data *md, unsigned int pct)
{
	WRITE_ONCE(md->discard_cost_pct, pct);
	return 0;
}

MQFQ_SHOW(bucket_kb, "%llu", 1ULL << (md->policy.wheel.geometry.width_shift - MQFQ_KB_SHIFT))
MQFQ_STORE(bucket_kb, 1, MQFQ_BUCKET_KB_MAX, mqfq_act_bucket_kb)
MQFQ_SHOW(buckets, "%u", 1U << md->policy.wheel.geometry.buckets_shift)
MQFQ_STORE(buckets, VT_WHEEL_BUCKETS_MIN, VT_WHEEL_BUCKETS_MAX, mqfq_act_buckets)
MQFQ_SHOW(write_cost_pct, "%u", READ_ONCE(md->write_cost_pct))
MQFQ_STORE(write_cost_pct, 0, MQFQ_COST_PCT_MAX, mqfq_act_write_cost_pct)
MQFQ_SHOW(discard_cost_pct, "%u", READ_ONCE(md->discard_cost_pct))
MQFQ_STORE(discard_cost_pct, 0, MQFQ_COST_PCT_MAX, mqfq_act_discard_cost_pct)
#undef MQFQ_SHOW
#undef MQFQ_STORE

/* T and D: a number, or the word that has them found. What is shown may be written back. */
static const char mqfq_auto_word[] = "auto";

static ssize_t mqfq_found_show(struct elevator_queue *eq, char *page, enum mqfq_auto_which which)
{
	struct mqfq_data *md = eq->elevator_data;

	if (mqfq_auto_is_on(&md->tuner.law, which))
		return sysfs_emit(page, "%s\n", mqfq_auto_word);
	return sysfs_emit(page, "%u\n", READ_ONCE(md->tuner.law.knob[which].base));
}

static ssize_t mqfq_found_store(struct elevator_queue *eq, const char *page, size_t count,
				enum mqfq_auto_which which, unsigned int min, unsigned int max)
{
	struct mqfq_data *md = eq->elevator_data;
	unsigned int value;
	int ret;

	if (sysfs_streq(page, mqfq_auto_word)) {
		mqfq_tuner_on(md, which);
		return count;
	}
	ret = tunable_parse(page, min, max, &value);
	if (ret)
		return ret;
	mqfq_tuner_off(md, which, value);
	return count;
}

#define MQFQ_FOUND(name, which, min, max)						\
static ssize_t mqfq_##name##_show(struct elevator_queue *eq, char *page)		\
{											\
	return mqfq_found_show(eq, page, which);					\
}											\
											\
static ssize_t mqfq_##name##_store(struct elevator_queue *eq, const char *page,		\
				   size_t count)					\
{											\
	return mqfq_found_store(eq, page, count, which, min, max);			\
}

MQFQ_FOUND(throttle_kb, MQFQ_AUTO_THROTTLE_KB, 0, MQFQ_THROTTLE_KB_MAX)
MQFQ_FOUND(slots, MQFQ_AUTO_SLOTS, MQFQ_SLOTS_MIN, MQFQ_SLOTS_MAX)
#undef MQFQ_FOUND

static ssize_t mqfq_flow_show(struct elevator_queue *eq, char *page)
{
	struct mqfq_data *md = eq->elevator_data;

	return sysfs_emit(page, "%s\n", mqfq_flow_kind_name[READ_ONCE(md->flow_kind)]);
}

static ssize_t mqfq_flow_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct mqfq_data *md = eq->elevator_data;
	int kind = sysfs_match_string(mqfq_flow_kind_name, page);

	if (kind < 0)
		return -EINVAL;
	WRITE_ONCE(md->flow_kind, kind);
	return count;
}

/*
 * The weights of processes or priorities, whichever "flow" says: a line "NUMBER WEIGHT" each.
 * cgroups have theirs in io.mqfair.weight.
 */
static ssize_t mqfq_weights_show(struct elevator_queue *eq, char *page)
{
	struct mqfq_data *md = eq->elevator_data;
	unsigned long index, first = mqfq_weight_index(mqfq_key(READ_ONCE(md->flow_kind), 0));
	void *weight;
	int at = 0;

	xa_for_each_range(&md->weight_of_id, index, weight, first, first + U32_MAX)
		at += sysfs_emit_at(page, at, "%lu %lu\n", index - first, xa_to_value(weight));
	return at;
}

/* "NUMBER NUMBER", of which neither is cut to fit. */
static int mqfq_parse_pair(const char *page, unsigned int *first, unsigned int *second)
{
	char words[32], *at = words, *word;

	if (strscpy(words, skip_spaces(page), sizeof(words)) < 0)
		return -EINVAL;
	word = strsep(&at, " \t");
	return !at || kstrtouint(word, 10, first) || kstrtouint(strim(at), 10, second) ? -EINVAL : 0;
}

static ssize_t mqfq_weights_store(struct elevator_queue *eq, const char *page, size_t count)
{
	struct mqfq_data *md = eq->elevator_data;
	unsigned int kind = READ_ONCE(md->flow_kind), id, weight;
	u64 key;
	int ret;

	if (kind == MQFQ_FLOW_CGROUP || mqfq_parse_pair(page, &id, &weight) || weight < FLOW_WEIGHT_MIN || weight > FLOW_WEIGHT_MAX ||
	    id > (kind == MQFQ_FLOW_IOPRIO ? U16_MAX : PID_MAX_LIMIT))
		return -EINVAL;
	key = mqfq_key(kind, id);
	/* The default is no entry, so that processes can be forgotten. */
	if (weight == FLOW_WEIGHT_DEFAULT)
		ret = xa_err(xa_erase(&md->weight_of_id, mqfq_weight_index(key)));
	else
		/* Whoever switches the scheduler waits for us with the queue frozen: memory must not wait for that. */
		ret = xa_err(xa_store(&md->weight_of_id, mqfq_weight_index(key), xa_mk_value(weight),
				      GFP_NOIO));
	if (ret)
		return ret;
	mqfq_reweigh(md, key, weight);
	return count;
}

#define MQFQ_ATTR(name) __ATTR(name, 0644, mqfq_##name##_show, mqfq_##name##_store)
MQFAIR_ATTRS_CONST struct elv_fs_entry mqfq_attrs[] = {
	MQFQ_ATTR(flow),
	MQFQ_ATTR(weights),
	MQFQ_ATTR(throttle_kb),
	MQFQ_ATTR(slots),
	MQFQ_ATTR(bucket_kb),
	MQFQ_ATTR(buckets),
	MQFQ_ATTR(write_cost_pct),
	MQFQ_ATTR(discard_cost_pct),
	__ATTR_NULL
};
#undef MQFQ_ATTR
