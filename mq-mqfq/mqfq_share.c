// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_share.c - what share each flow has now: the tree of cgroups, and who is active in it
 *
 * lib/flow_tree.c says what an effective weight is. Here are the cgroups above a flow, and the two
 * works that keep effective weights right. No hook does anything for them but the one that makes a
 * flow, or is the first to use one that was idle.
 *
 *	pass	ten times a second while there are flows, which is until five to ten seconds after
 *		the last request. Flows that are idle leave the tree, and are freed later. If no
 *		flow has requests, virtual time moves to the last finish tag: start-time fair
 *		queueing's own rule for an idle server.
 *	update	some milliseconds after a flow became active or idle, or at once when a weight is
 *		written: flows get other effective weights, and the tags that wait follow.
 *
 * Weights of processes are here as well, each with the start of the process that it is for: the
 * number is given to another process when the first one is gone, and the weight is not.
 *
 * Locking: update_lock, under which effective weights change, is inside the mutex of cgroup
 * weights. Inside it are the flow table's lock, and the queues' locks.
 */
#include <linux/math64.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "mqfq.h"

enum {
	MQFQ_PASS_MS		= 100,
	/* A pass in so many frees what has been idle since the last such one: every 5 s. */
	MQFQ_RECLAIM_EVERY	= 50,
	/* Flows often become active together. */
	MQFQ_UPDATE_MS		= 5,
	/* A weight has 14 bits. */
	MQFQ_START_SHIFT	= 14,
};
static_assert(FLOW_WEIGHT_MAX < 1 << MQFQ_START_SHIFT);

/* ---- what the flow table asks for; under its lock ---- */

/*
 * @who is the structure of a cgroup, and holds its parent. A bio holds it. We keep no pointer to
 * it, only the number of the cgroup.
 */
static void *mqfq_parent_of(void *context, void *who, u64 *parent_key)
{
	struct cgroup_subsys_state *css = who;

	if (!css || !css->parent)
		return NULL;
	*parent_key = flow_key_of_css(css->parent);
	return css->parent;
}

/* A new process takes over the debt of its parent, or it would pay to fork. */
static bool mqfq_heir_of(void *context, u64 key, u64 *heir_of_key)
{
	if (key != flow_key(FLOW_PROCESS, current->tgid))
		return false;
	rcu_read_lock();
	*heir_of_key = flow_key(FLOW_PROCESS, rcu_dereference(current->real_parent)->tgid);
	rcu_read_unlock();
	return true;
}

static void mqfq_dirty(void *context)
{
	struct mqfq_data *md = context;

	schedule_delayed_work(&md->update, msecs_to_jiffies(MQFQ_UPDATE_MS));
}

static const struct flow_tree_ops mqfq_tree_ops = {
	.parent_of	= mqfq_parent_of,
	.heir_of	= mqfq_heir_of,
	.dirty		= mqfq_dirty,
};

/* ---- effective weights ---- */

static void mqfq_update(struct mqfq_data *md)
{
	struct flow *changed;

	lockdep_assert_held(&md->update_lock);

	changed = flow_table_update(&md->flows, mqfq_vt(&md->policy));
	mqfq_rescale(&md->policy, changed);
	flow_table_updated(changed);
}

static void mqfq_update_work(struct work_struct *work)
{
	struct mqfq_data *md = container_of(work, struct mqfq_data, update.work);

	mutex_lock(&md->update_lock);
	mqfq_update(md);
	mutex_unlock(&md->update_lock);
}

void mqfq_reweigh(struct mqfq_data *md, u64 key, u32 weight)
{
	mutex_lock(&md->update_lock);
	flow_set_weight(&md->flows, key, weight);
	mqfq_update(md);
	mutex_unlock(&md->update_lock);
}

/* Requests without a cgroup are the root's, too. */
void mqfq_set_root_weight(struct mqfq_data *md, u32 weight)
{
	WRITE_ONCE(md->root_weight, weight);
#ifdef CONFIG_BLK_CGROUP
	mqfq_reweigh(md, flow_key_of_css(blkcg_root_css), weight);
#endif
	mqfq_reweigh(md, flow_key_of_css(NULL), weight);
}

/* ---- weights of processes and priorities ---- */

/* When the process with this number started, in microseconds; 0: there is none. */
static u64 mqfq_process_start_us(u64 number)
{
	struct task_struct *task;
	u64 start_us = 0;

	rcu_read_lock();
	task = pid_task(find_pid_ns(number, &init_pid_ns), PIDTYPE_TGID);
	if (task)
		start_us = max(div_u64(task->start_boottime, NSEC_PER_USEC), 1ULL);
	rcu_read_unlock();
	return start_us;
}

/* What is kept for a flow: its weight, and above that the start of the process it is for. */
static void *mqfq_id_entry(u64 start_us, u32 weight)
{
	return xa_mk_value(start_us << MQFQ_START_SHIFT | weight);
}

/* Is the entry for the process that has this number now? */
static bool mqfq_id_lives(u64 key, void *entry)
{
	return flow_key_kind(key) != FLOW_PROCESS ||
	       xa_to_value(entry) >> MQFQ_START_SHIFT == mqfq_process_start_us(flow_key_id(key));
}

u32 mqfq_id_weight(struct mqfq_data *md, u64 key)
{
	void *entry = xa_load(&md->keep->numbers, mqfq_weight_index(key));

	if (!entry || !mqfq_id_lives(key, entry))
		return FLOW_WEIGHT_DEFAULT;
	return xa_to_value(entry) & ((1U << MQFQ_START_SHIFT) - 1);
}

/*
 * A switch of the scheduler freezes the queue and waits for a store to sysfs: no allocation here
 * may wait for the queue.
 */
static int mqfq_store_id_weight(struct mqfq_data *md, u64 key, u32 weight)
{
	unsigned long index = mqfq_weight_index(key);
	u64 start_us = 0;

	lockdep_assert_held(&md->update_lock);

	/* The default is no entry. */
	if (weight == FLOW_WEIGHT_DEFAULT)
		return xa_err(xa_erase(&md->keep->numbers, index));
	if (flow_key_kind(key) == FLOW_PROCESS) {
		start_us = mqfq_process_start_us(flow_key_id(key));
		if (!start_us)
			return -ESRCH;
	}
	return xa_err(xa_store(&md->keep->numbers, index, mqfq_id_entry(start_us, weight),
			       GFP_NOIO));
}

int mqfq_set_id_weight(struct mqfq_data *md, u64 key, u32 weight)
{
	int ret;

	mutex_lock(&md->update_lock);
	ret = mqfq_store_id_weight(md, key, weight);
	if (!ret) {
		flow_set_weight(&md->flows, key, weight);
		mqfq_update(md);
	}
	mutex_unlock(&md->update_lock);
	return ret;
}

/* Forgets the weights of processes that have ended. */
static void mqfq_sweep(struct mqfq_data *md)
{
	unsigned long index, first = mqfq_weight_index(flow_key(FLOW_PROCESS, 0));
	void *entry;

	mutex_lock(&md->update_lock);
	xa_for_each_range(&md->keep->numbers, index, entry, first, first + U32_MAX) {
		u64 key = flow_key(FLOW_PROCESS, index - first);

		if (mqfq_id_lives(key, entry))
			continue;
		mqfq_store_id_weight(md, key, FLOW_WEIGHT_DEFAULT);
		flow_set_weight(&md->flows, key, FLOW_WEIGHT_DEFAULT);
		mqfq_update(md);
	}
	mutex_unlock(&md->update_lock);
}

/* ---- passes ---- */

void mqfq_share_kick(struct mqfq_data *md)
{
	schedule_delayed_work(&md->pass, msecs_to_jiffies(MQFQ_PASS_MS));
	schedule_delayed_work(&md->look, msecs_to_jiffies(MQFQ_LOOK_MS));
}

static void mqfq_pass_work(struct work_struct *work)
{
	struct mqfq_data *md = container_of(work, struct mqfq_data, pass.work);
	struct flow_census census;

	mqfq_sweep(md);
	mqfq_fold(&md->policy);
	census = flow_table_pass(&md->flows, mqfq_vt(&md->policy));
	if (!census.nr_busy)
		mindicator_skip(&md->policy.vt, census.last_finish);
	if (++md->nr_passes % MQFQ_RECLAIM_EVERY == 0)
		census = flow_table_reclaim(&md->flows, mqfq_vt(&md->policy));
	if (!census.nr_flows)
		return;
	mqfq_share_kick(md);
	mqfq_tuner_kick(md);
}

int mqfq_share_init(struct mqfq_data *md, u32 (*weight_of)(void *context, u64 key, void *who))
{
	int ret;

	md->root_weight = FLOW_WEIGHT_DEFAULT;
	mutex_init(&md->update_lock);
	INIT_DELAYED_WORK(&md->pass, mqfq_pass_work);
	INIT_DELAYED_WORK(&md->update, mqfq_update_work);
	ret = flow_table_init(&md->flows, weight_of, md, GFP_KERNEL);
	if (ret)
		return ret;
	ret = flow_table_plant(&md->flows, &mqfq_tree_ops, GFP_KERNEL);
	if (ret)
		flow_table_destroy(&md->flows);
	return ret;
}

/* A pass may ask for an update, and an update asks for nothing. */
void mqfq_share_stop(struct mqfq_data *md)
{
	cancel_delayed_work_sync(&md->pass);
	cancel_delayed_work_sync(&md->update);
}

void mqfq_share_exit(struct mqfq_data *md)
{
	flow_table_destroy(&md->flows);
}
