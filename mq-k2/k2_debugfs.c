// SPDX-License-Identifier: GPL-2.0
/*
 * k2_debugfs.c - the files of mq-k2 in /sys/kernel/debug/block/DEV/sched/
 */
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "blk/tail_meter.h"
#include "k2.h"

#ifdef CONFIG_BLK_DEBUG_FS

static int k2_queued_show(struct k2_data *k2, struct seq_file *m)
{
	u32 nr_queued[K2_NR_QUEUES];
	unsigned int i;

	spin_lock(&k2->lock);
	memcpy(nr_queued, k2->policy.nr_queued, sizeof(nr_queued));
	spin_unlock(&k2->lock);

	for (i = 0; i < K2_NR_RT_QUEUES; i++)
		seq_printf(m, "rt%u %u\n", i, nr_queued[i]);
	seq_printf(m, "be %u\n", nr_queued[K2_BE_QUEUE]);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_queued_show, "mq-k2")

static int k2_inflight_show(struct k2_data *k2, struct seq_file *m)
{
	seq_printf(m, "%d\n", atomic_read(&k2->policy.inflight));
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_inflight_show, "mq-k2")

/* The window is the last that ended. */
static int k2_auto_show(struct k2_data *k2, struct seq_file *m)
{
	mutex_lock(&k2->auto_mutex);
	tail_meter_show(&k2->law, m);
	mutex_unlock(&k2->auto_mutex);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_auto_show, "mq-k2")

/*
 * With requests under way the lines are a snapshot per queue, and completions may run ahead of
 * it.
 */
static int k2_counters_show(struct k2_data *k2, struct seq_file *m)
{
	struct k2_counters c;
	unsigned int i;

	seq_puts(m, "queue inserted merged dispatched completed requeued queued\n");
	for (i = 0; i < K2_NR_QUEUES; i++) {
		spin_lock(&k2->lock);
		k2_count(k2, i, &c);
		spin_unlock(&k2->lock);
		if (i < K2_NR_RT_QUEUES)
			seq_printf(m, "rt%u", i);
		else
			seq_puts(m, "be");
		seq_printf(m, " %lu %lu %lu %lu %lu %lu\n", c.inserted, c.merged, c.dispatched,
			   c.completed, c.requeued, c.queued);
	}
	return 0;
}
MQFAIR_DEBUGFS_SHOW(k2_counters_show, "mq-k2")

const struct blk_mq_debugfs_attr k2_queue_debugfs_attrs[] = {
	{"queued", 0400, k2_queued_show_file},
	{"inflight", 0400, k2_inflight_show_file},
	{"auto", 0400, k2_auto_show_file},
	{"counters", 0400, k2_counters_show_file},
	{},
};
#endif /* CONFIG_BLK_DEBUG_FS */
