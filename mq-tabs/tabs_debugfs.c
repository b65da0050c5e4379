// SPDX-License-Identifier: GPL-2.0
/*
 * tabs_debugfs.c - the files of mq-tabs in /sys/kernel/debug/block/DEV/sched/
 *
 * Snapshots: with requests under way, the lines of a file are of slightly different moments.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "tabs.h"

#ifdef CONFIG_BLK_DEBUG_FS

static const char *const tabs_kind_name[TABS_NR_KINDS] = {
	[TABS_READ]	= "read",
	[TABS_FUA]	= "fua_write",
	[TABS_OTHER]	= "other",
};

static const char *const tabs_reason_name[TABS_NR_REASONS] = {
	[TABS_HELD]	= "held",
	[TABS_FREE]	= "free",
	[TABS_EARNED]	= "earned",
	[TABS_OVERDUE]	= "overdue",
	[TABS_ALONE]	= "alone",
};

static u32 tabs_thousandths(u32 fixed_point)
{
	return (u64)fixed_point * 1000 >> TABS_SHIFT;
}

/* Says whether there is something to schedule, and if not, why not. */
static int tabs_status_show(struct tabs_data *td, struct seq_file *m)
{
	const char *obstacle = tabs_obstacle(td);

	if (obstacle)
		seq_printf(m, "nothing to schedule: %s\n", obstacle);
	else
		seq_puts(m, "reads and FUA writes are scheduled\n");
	return 0;
}
MQFAIR_DEBUGFS_SHOW(tabs_status_show, "mq-tabs")

/* alpha is in thousandths, rates in KiB/s; issued is I of Equation 1, fair is FBW. */
static int tabs_phase_show(struct tabs_data *td, struct seq_file *m)
{
	struct tabs_policy *p = &td->policy;
	u64 since_ms;

	spin_lock(&td->lock);
	since_ms = div_u64(ktime_get_ns() - p->phase_at_ns, NSEC_PER_MSEC);
	seq_printf(m, "phase %s\nsince_ms %llu\n", p->phase == TABS_SCHED ? "SCHED" : "IDLE",
		   since_ms);
	seq_printf(m, "issued_reads %llu\nissued_fua_writes %llu\n", p->issued[TABS_READ],
		   p->issued[TABS_FUA]);
	seq_printf(m, "fair_read_kbps %llu\nfair_fua_write_kbps %llu\n",
		   p->fair_bytes_per_s[TABS_READ] >> 10, p->fair_bytes_per_s[TABS_FUA] >> 10);
	seq_printf(m, "alpha_thousandths %u\nthrottling %d\ncontent_read_kbps %llu\n",
		   tabs_thousandths(p->alpha), p->throttling, p->content >> 10);
	seq_printf(m, "credit_thousandths %lld\nepoch_ms %llu\nholdoff_epochs %u\n",
		   (long long)atomic64_read(&p->credit) * 1000 >> TABS_SHIFT,
		   div_u64(tabs_epoch_ns(&p->config), NSEC_PER_MSEC), p->holdoff);
	spin_unlock(&td->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(tabs_phase_show, "mq-tabs")

/* The last epochs, the newest at the end. */
static int tabs_epochs_show(struct tabs_data *td, struct seq_file *m)
{
	struct tabs_policy *p = &td->policy;
	u64 n;

	seq_puts(m, "epoch length_ms read_kbps fair_read_kbps ");
	seq_puts(m, "fua_write_kbps fair_fua_write_kbps alpha_thousandths\n");
	spin_lock(&td->lock);
	n = p->nr_epochs > TABS_NR_EPOCHS ? p->nr_epochs - TABS_NR_EPOCHS : 0;
	for (; n < p->nr_epochs; n++) {
		const struct tabs_epoch *e = &p->epoch[n % TABS_NR_EPOCHS];

		seq_printf(m, "%llu %llu %llu %llu %llu %llu %u\n", e->number,
			   div_u64(e->length_ns, NSEC_PER_MSEC), e->bytes_per_s[TABS_READ] >> 10,
			   e->fair_bytes_per_s[TABS_READ] >> 10, e->bytes_per_s[TABS_FUA] >> 10,
			   e->fair_bytes_per_s[TABS_FUA] >> 10, tabs_thousandths(e->alpha));
	}
	spin_unlock(&td->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(tabs_epochs_show, "mq-tabs")

/* The FUA delay queue: how many writes are in it, and why others left it. */
static int tabs_held_show(struct tabs_data *td, struct seq_file *m)
{
	u64 oldest_us = 0, longest_us, tick_us, now_ns;
	unsigned long released[TABS_NR_REASONS], urgent = 0;
	unsigned int held, i;
	struct request *rq;

	spin_lock(&td->lock);
	now_ns = ktime_get_ns();
	held = td->nr_held;
	rq = list_first_entry_or_null(&td->held, struct request, queuelist);
	if (rq)
		oldest_us = div_u64(now_ns - rq->fifo_time, NSEC_PER_USEC);
	longest_us = div_u64(td->longest_held_ns, NSEC_PER_USEC);
	tick_us = div_u64(td->longest_tick_ns, NSEC_PER_USEC);
	memcpy(released, td->released, sizeof(released));
	spin_unlock(&td->lock);

	seq_printf(m, "held %u\noldest_us %llu\nlongest_us %llu\n", held, oldest_us, longest_us);
	seq_printf(m, "longest_tick_us %llu\n", tick_us);
	seq_printf(m, "fua_writes_inflight %d\n", atomic_read(&td->fua_inflight));
	for (i = TABS_FREE; i < TABS_NR_REASONS; i++)
		seq_printf(m, "released_%s %lu\n", tabs_reason_name[i], released[i]);
	for (i = 0; i < td->nr_queues; i++)
		urgent += READ_ONCE(td->queue[i].urgent);
	seq_printf(m, "passed_urgent %lu\n", urgent);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(tabs_held_show, "mq-tabs")

static int tabs_counters_show(struct tabs_data *td, struct seq_file *m)
{
	struct tabs_counters c;
	unsigned int kind;

	seq_puts(m, "queue inserted merged dispatched completed requeued queued\n");
	for (kind = 0; kind < TABS_NR_KINDS; kind++) {
		tabs_count(td, kind, &c);
		seq_printf(m, "%s %lu %lu %lu %lu %lu %lu\n", tabs_kind_name[kind], c.inserted,
			   c.merged, c.dispatched, c.completed, c.requeued, c.queued);
	}
	return 0;
}
MQFAIR_DEBUGFS_SHOW(tabs_counters_show, "mq-tabs")

const struct blk_mq_debugfs_attr tabs_queue_debugfs_attrs[] = {
	{"status", 0400, tabs_status_show_file},
	{"phase", 0400, tabs_phase_show_file},
	{"epochs", 0400, tabs_epochs_show_file},
	{"held", 0400, tabs_held_show_file},
	{"counters", 0400, tabs_counters_show_file},
	{},
};
#endif /* CONFIG_BLK_DEBUG_FS */
