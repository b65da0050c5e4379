// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_debugfs.c - mq-octofas to look at, in /sys/kernel/debug/block/DEV/sched/
 *
 * Snapshots: with requests under way, one file's lines are of slightly different moments.
 */
#include <linux/kstrtox.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "octofas.h"

#ifdef CONFIG_BLK_DEBUG_FS

/* The last windows, the newest at the end. F, LB and U_avg are in thousandths. */
static int octofas_windows_show(struct octofas_data *od, struct seq_file *m)
{
	struct octofas_policy *p = &od->policy;
	u64 n;

	seq_puts(m, "window length_ms requests F LB home_LB U_avg unfair imbalanced policy");
	seq_puts(m, " moved backwarded\n");
	spin_lock(&od->lock);
	n = p->nr_windows > OCTOFAS_NR_WINDOWS ? p->nr_windows - OCTOFAS_NR_WINDOWS : 0;
	for (; n < p->nr_windows; n++) {
		const struct octofas_record *r = &p->window[n % OCTOFAS_NR_WINDOWS];

		seq_printf(m, "%llu %llu %llu %u %u %u %u %d %d %s %llu %llu\n", r->number,
			   div_u64(r->length_ns, NSEC_PER_MSEC), r->nr, r->fairness, r->balance,
			   r->home_balance, r->average, r->unfair, r->imbalanced,
			   octofas_mode_name[r->mode], r->moved, r->backwarded);
	}
	spin_unlock(&od->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_windows_show, "mq-octofas")

/* Flows with requests in the last window; the flow 0 is all that have no place of their own. */
static int octofas_flows_show(struct octofas_data *od, struct seq_file *m)
{
	u32 i;

	seq_puts(m, "place flow intensity slowdown_thousandths dense movable backward\n");
	spin_lock(&od->lock);
	for (i = 0; i < OCTOFAS_FLOWS; i++) {
		const struct octofas_flow_state *f = &od->policy.flow[i];
		u64 key = READ_ONCE(od->place[i].key);

		if (!f->intensity)
			continue;
		seq_printf(m, "%u %s:%llu %llu %u %d %d %u\n", i,
			   i == OCTOFAS_OTHERS ? "others" : flow_kind_name[flow_key_kind(key)],
			   flow_key_id(key), f->intensity, f->slowdown, f->dense, f->movable,
			   f->backward);
	}
	spin_unlock(&od->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_flows_show, "mq-octofas")

/* home and served are mean numbers of requests outstanding in the last window, in thousandths. */
static int octofas_queues_show(struct octofas_data *od, struct seq_file *m)
{
	u32 i;

	seq_puts(m, "queue usable home served latency_us share_pct bound patient_bound");
	seq_puts(m, " load sent moved arrived backwarded\n");
	spin_lock(&od->lock);
	for (i = 0; i < od->nr_queues; i++) {
		struct octofas_queue_state *oqs = &od->policy.queue[i];

		seq_printf(m, "%u %d %u %u %llu %u %d %d %d %d %lld %lld %lld\n",
			   i, oqs->usable, oqs->home,
			   oqs->served, div_u64(oqs->latency_ns, NSEC_PER_USEC),
			   oqs->share * 100 / OCTOFAS_CREDIT, (int)oqs->bound,
			   (int)oqs->patient_bound, atomic_read(&oqs->load),
			   atomic_read(&oqs->sent), (s64)atomic64_read(&oqs->moved),
			   (s64)atomic64_read(&oqs->arrived), (s64)atomic64_read(&oqs->backwarded));
	}
	spin_unlock(&od->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_queues_show, "mq-octofas")

/* The least latency of late: what a request takes alone, by operation and size. */
static int octofas_base_show(struct octofas_data *od, struct seq_file *m)
{
	u32 i;

	for (i = 0; i < OCTOFAS_CLASSES; i++)
		if (READ_ONCE(od->base_ns[i]))
			seq_printf(m, "%s up_to_kb %u base_ns %llu\n",
				   i < OCTOFAS_SIZES ? "read" : "write", 4U << i % OCTOFAS_SIZES,
				   READ_ONCE(od->base_ns[i]));
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_base_show, "mq-octofas")

/* Requests that should have moved and did not, by reason. */
static int octofas_fixed_show(struct octofas_data *od, struct seq_file *m)
{
	static const char *const name[OCTOFAS_NR_FIXED] = {
		[OCTOFAS_FIXED_FLUSH]	= "flush",
		[OCTOFAS_FIXED_KIND]	= "kind",
		[OCTOFAS_FIXED_STARTED]	= "started",
		[OCTOFAS_FIXED_DATA]	= "encrypted_or_integrity",
		[OCTOFAS_FIXED_DEVICE]	= "zoned_multipath_or_bios_counted",
		[OCTOFAS_FIXED_LIMITED]	= "io_max",
		[OCTOFAS_FIXED_QUEUE]	= "queue",
		[OCTOFAS_FIXED_URGENT]	= "urgent",
		[OCTOFAS_FIXED_MEMORY]	= "memory",
	};
	u32 i;
	int cpu;

	for (i = 0; i < OCTOFAS_NR_FIXED; i++) {
		unsigned long sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(od->cpu_counters, cpu)->fixed[i]);
		seq_printf(m, "%s %lu\n", name[i], sum);
	}
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_fixed_show, "mq-octofas")

static int octofas_move_all_show(struct octofas_data *od, struct seq_file *m)
{
	seq_printf(m, "%d\n", READ_ONCE(od->move_all));
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_move_all_show, "mq-octofas")

/* For tests: whatever can move does, to the next queue, in any policy. */
static ssize_t octofas_move_all_write(void *data, const char __user *buf, size_t count, loff_t *pos)
{
	struct octofas_data *od;
	bool on;
	int ret = kstrtobool_from_user(buf, count, &on);

	if (ret)
		return ret;
	od = mqfair_debugfs_get(data, "mq-octofas");
	if (IS_ERR(od))
		return PTR_ERR(od);
	WRITE_ONCE(od->move_all, on);
	mqfair_debugfs_put(data);
	return count;
}

static int octofas_counters_show(struct octofas_data *od, struct seq_file *m)
{
	struct octofas_counters c;

	octofas_count(od, &c);
	seq_puts(m, "queue inserted merged dispatched completed requeued queued\n");
	seq_printf(m, "all %lu %lu %lu %lu %lu %lu\n", c.inserted, c.merged, c.dispatched,
		   c.completed, c.requeued, c.queued);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(octofas_counters_show, "mq-octofas")

const struct blk_mq_debugfs_attr octofas_queue_debugfs_attrs[] = {
	{"windows", 0400, octofas_windows_show_file},
	{"flows", 0400, octofas_flows_show_file},
	{"queues", 0400, octofas_queues_show_file},
	{"base", 0400, octofas_base_show_file},
	{"fixed", 0400, octofas_fixed_show_file},
	{"counters", 0400, octofas_counters_show_file},
	{"move_all", 0600, octofas_move_all_show_file, octofas_move_all_write},
	{},
};
#endif /* CONFIG_BLK_DEBUG_FS */
