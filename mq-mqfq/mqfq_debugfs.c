// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_debugfs.c - mq-mqfq to look at, in /sys/kernel/debug/block/DEV/sched/
 *
 * Snapshots: with requests under way, one file's lines are of slightly different moments.
 */
#include <linux/seq_file.h>

#include "mqfq.h"

#ifdef CONFIG_BLK_DEBUG_FS

static int mqfq_vt_show(struct mqfq_data *md, struct seq_file *m)
{
	mindicator_show(&md->policy.vt, m);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_vt_show, "mq-mqfq")

static int mqfq_slots_show(struct mqfq_data *md, struct seq_file *m)
{
	token_tree_show(&md->policy.tokens, m);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_slots_show, "mq-mqfq")

static int mqfq_wheel_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_policy *p = &md->policy;

	vt_wheel_show(&p->wheel, &p->topology, mqfq_vt(p), m);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_wheel_show, "mq-mqfq")

static int mqfq_ready_show(struct mqfq_data *md, struct seq_file *m)
{
	ready_set_show(&md->policy.ready, m);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_ready_show, "mq-mqfq")

static int mqfq_topology_show(struct mqfq_data *md, struct seq_file *m)
{
	topology_show(&md->policy.topology, m);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_topology_show, "mq-mqfq")

struct mqfq_flows_context {
	struct mqfq_policy *p;
	struct seq_file *m;
	u64 vt;
};

static void mqfq_flow_line(void *context, struct flow *f)
{
	struct mqfq_flows_context *c = context;
	u64 effective = READ_ONCE(f->leaf.active) ? READ_ONCE(f->effective_weight) : 0;

	seq_printf(c->m, "%s %llu %u %u %lld %lld %lld %llu\n",
		   flow_kind_name[flow_key_kind(f->key)], flow_key_id(f->key),
		   READ_ONCE(f->weight), mqfq_nr_requests(c->p, f),
		   (long long)(READ_ONCE(f->finish) - c->vt) >> VT_SHIFT,
		   (long long)atomic64_read(&f->service_bytes),
		   (long long)atomic64_read(&f->throttled_ns),
		   effective * 1000 >> FLOW_EFFECTIVE_SHIFT);
}

/*
 * "ahead" is the finish tag less virtual time, in bytes at weight 100; below 0: it lags. The
 * effective weight is 0 while the flow is not active.
 */
static int mqfq_flows_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_flows_context c = { .p = &md->policy, .m = m, .vt = mqfq_vt(&md->policy) };

	mqfq_fold(&md->policy);
	seq_puts(m, "kind number weight requests ahead service_bytes throttled_ns ");
	seq_puts(m, "effective_thousandths\n");
	rcu_read_lock();
	flow_table_for_each(&md->flows, mqfq_flow_line, &c);
	rcu_read_unlock();
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_flows_show, "mq-mqfq")

/* Wake-ups of queues that waited for a slot, by how far away the slot was. */
static int mqfq_wakeups_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_policy *p = &md->policy;
	unsigned int level, i;

	for (level = 0; level < TOPOLOGY_NR_LEVELS; level++) {
		s64 sum = 0;

		for (i = 0; i < p->nr_queues; i++)
			sum += atomic64_read(&p->queue[i].nr_woken[level]);
		seq_printf(m, "%s %lld\n", topology_level_name[level], sum);
	}
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_wakeups_show, "mq-mqfq")

static void mqfq_auto_line(const struct mqfq_auto *law, const char *name,
			   enum mqfq_auto_which which, struct seq_file *m)
{
	const struct mqfq_auto_knob *k = &law->knob[which];

	seq_printf(m, "%s %s found %u in_force %u debt_ppm %u\n", name, k->is_on ? "auto" : "given",
		   k->base, mqfq_auto_value(law, which), k->debt_ppm);
}

/* What the law has found, and what the last window has brought. */
static int mqfq_auto_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_tuner *t = &md->tuner;
	const struct mqfq_auto *law = &t->law;
	const struct mqfq_auto_window *w = &t->window;

	mutex_lock(&t->lock);
	mqfq_auto_line(law, "slots", MQFQ_AUTO_SLOTS, m);
	mqfq_auto_line(law, "throttle_kb", MQFQ_AUTO_THROTTLE_KB, m);
	seq_printf(m, "probing %d wait_windows %u\nprobes %llu steps %llu gain_ppm %lld\n",
		   law->probing, law->wait, law->nr_probes, law->nr_steps, law->gain_ppm);
	seq_printf(m, "window_ns %llu bytes %llu requests %llu slot_waits %llu throttles %llu\n",
		   w->ns, w->bytes, w->requests, w->slot_waits, w->throttles);
	seq_printf(m, "in_flight %u largest_kb %u flows %u jain_ppm %u\n", w->in_flight,
		   w->largest_kb, w->nr_flows, mqfq_auto_jain_ppm(&law->shares));
	mutex_unlock(&t->lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_auto_show, "mq-mqfq")

/* What requests take of the device's time, as far as it has been learned. */
static int mqfq_cost_show(struct mqfq_data *md, struct seq_file *m)
{
	static const char *const op_name[MQFQ_COST_NR_OPS] = {
		[MQFQ_COST_READ]	= "read",
		[MQFQ_COST_WRITE]	= "write",
		[MQFQ_COST_FUA]		= "fua",
	};
	const struct mqfq_cost *law = &md->charge.law;
	unsigned int i;

	mutex_lock(&md->tuner.lock);
	seq_printf(m, "shared %s\nsteps %u\noperation bytes ns share_ppm\n",
		   mqfq_charge_name[md->charge.kind], law->nr_steps);
	for (i = 0; i < MQFQ_COST_NR_CELLS; i++)
		if (law->cell[i].ns_x8)
			seq_printf(m, "%s %u %llu %u\n", op_name[i / MQFQ_COST_NR_SIZES],
				   law->cell[i].bytes, law->cell[i].ns_x8 >> MQFQ_COST_NS_SHIFT,
				   law->cell[i].share_ppm);
	mutex_unlock(&md->tuner.lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_cost_show, "mq-mqfq")

/* Urgent requests: how many went next, and how many had to wait since their flow had no credit. */
static int mqfq_urgent_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_counters c;

	mqfq_count(md, &c);
	seq_printf(m, "passed %lu\nbeyond_credit %lu\n", c.urgent, c.beyond_credit);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_urgent_show, "mq-mqfq")

/* Requests of class RT: passes that are out, and how many requests have gone with one. */
static int mqfq_rt_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_counters c;

	mqfq_count(md, &c);
	seq_printf(m, "passes_out %d\npassed %lu\npassed_others %lu\n",
		   atomic_read(&md->policy.passes.nr_out), c.passed, c.passed_others);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_rt_show, "mq-mqfq")

/* The target that has load: what is in force because of it, and what the law has seen. */
static int mqfq_target_show(struct mqfq_data *md, struct seq_file *m)
{
	const struct mqfq_target *t = &md->target;

	mutex_lock(&md->tuner.lock);
	seq_printf(m, "p999_us_wanted %u\nin_force %d\nslots %d\n", t->aim_us, t->is_in_force,
		   md->policy.tokens.slots);
	tail_meter_show(&t->law, m);
	mutex_unlock(&md->tuner.lock);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_target_show, "mq-mqfq")

/* A bio that was merged counts as inserted, too: inserted = merged + dispatched + queued. */
static int mqfq_counters_show(struct mqfq_data *md, struct seq_file *m)
{
	struct mqfq_counters c;

	mqfq_count(md, &c);
	seq_puts(m, "queue inserted merged dispatched completed requeued queued\n");
	seq_printf(m, "all %lu %lu %lu %lu %lu %lu\n", c.inserted + c.merged, c.merged,
		   c.dispatched, c.completed, c.requeued, c.queued);
	return 0;
}
MQFAIR_DEBUGFS_SHOW(mqfq_counters_show, "mq-mqfq")

const struct blk_mq_debugfs_attr mqfq_queue_debugfs_attrs[] = {
	{"vt", 0400, mqfq_vt_show_file},
	{"slots", 0400, mqfq_slots_show_file},
	{"wheel", 0400, mqfq_wheel_show_file},
	{"ready", 0400, mqfq_ready_show_file},
	{"topology", 0400, mqfq_topology_show_file},
	{"flows", 0400, mqfq_flows_show_file},
	{"wakeups", 0400, mqfq_wakeups_show_file},
	{"auto", 0400, mqfq_auto_show_file},
	{"cost", 0400, mqfq_cost_show_file},
	{"urgent", 0400, mqfq_urgent_show_file},
	{"rt", 0400, mqfq_rt_show_file},
	{"target", 0400, mqfq_target_show_file},
	{"counters", 0400, mqfq_counters_show_file},
	{},
};

static int mqfq_hctx_state_show(void *data, struct seq_file *m)
{
	static const char *const name[] = {
		[MQFQ_RUNNABLE]		= "runnable",
		[MQFQ_RESTING]		= "resting",
		[MQFQ_ARMED]		= "armed",
		[MQFQ_THROTTLED]	= "throttled",
		[MQFQ_READY]		= "ready",
		[MQFQ_STUCK]		= "stuck",
	};
	struct blk_mq_hw_ctx *hctx = data;
	struct mqfq_data *md = mqfair_debugfs_get(hctx->queue, "mq-mqfq");
	struct mqfq_queue *mq;

	if (IS_ERR(md))
		return PTR_ERR(md);
	mq = hctx->sched_data;
	spin_lock(&mq->lock);
	seq_printf(m, "state %s\nqueued %u\nthrottles %llu\nslot_waits %llu\n",
		   name[min_t(int, atomic_read(&mq->state), MQFQ_ARMED)], mq->nr, mq->throttles,
		   (u64)atomic64_read(&mq->slot_waits));
	seq_printf(m, "aside %u\nrt %u\nin_flight %u\nlent %u\ntimes_stuck %u\n", mq->nr_aside,
		   mq->rt.nr + !!mq->rt.head,
		   mqfq_nr_in_flight(mq), mqfq_tally_lent(atomic64_read(&mq->tally)), mq->nr_stuck);
	spin_unlock(&mq->lock);
	mqfair_debugfs_put(hctx->queue);
	return 0;
}

const struct blk_mq_debugfs_attr mqfq_hctx_debugfs_attrs[] = {
	{"state", 0400, mqfq_hctx_state_show},
	{},
};
#endif /* CONFIG_BLK_DEBUG_FS */
