// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_weight.c - the file io.mqfair.weight of each cgroup
 *
 * The file has a line "default N" for all devices and lines "MAJ:MIN N" for some, as io.weight has.
 * A user writes "N" or "default N", "MAJ:MIN N", or "MAJ:MIN default"; N is from 1 to 10000. The
 * block cgroup controller keeps a structure of ours per cgroup and frees it with the cgroup.
 *
 * Locking: mqfq_cgroup_mutex guards the list of devices, and orders changes of weights. A new
 * flow's weight is read under its flow table's lock. A change is stored before that lock is taken
 * to tell the flow. So either the new flow sees the change, or the change finds the flow.
 */
#define pr_fmt(fmt) "mq-mqfq: " fmt

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/kdev_t.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "mqfq.h"

#ifdef CONFIG_BLK_CGROUP

/**
 * struct mqfq_cgroup - what we keep per cgroup
 * @cpd:	the block layer's; first
 * @weight:	for devices without one of their own
 * @weight_of:	weights by device number
 */
struct mqfq_cgroup {
	struct blkcg_policy_data cpd;
	u32 weight;
	struct xarray weight_of;
};

static DEFINE_MUTEX(mqfq_cgroup_mutex);
static LIST_HEAD(mqfq_devices);

static struct blkcg_policy_data *mqfq_cpd_alloc(gfp_t gfp)
{
	struct mqfq_cgroup *mc = kzalloc(sizeof(*mc), gfp);

	if (!mc)
		return NULL;
	mc->weight = FLOW_WEIGHT_DEFAULT;
	xa_init(&mc->weight_of);
	return &mc->cpd;
}

static void mqfq_cpd_free(struct blkcg_policy_data *cpd)
{
	struct mqfq_cgroup *mc = container_of(cpd, struct mqfq_cgroup, cpd);

	xa_destroy(&mc->weight_of);
	kfree(mc);
}

static int mqfq_weight_show(struct seq_file *m, void *v);
static ssize_t mqfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off);

static struct cftype mqfq_cftypes[] = {
	{
		.name		= "mqfair.weight",
		.flags		= CFTYPE_NOT_ON_ROOT,
		.seq_show	= mqfq_weight_show,
		.write		= mqfq_weight_write,
	},
	{},
};

static struct blkcg_policy mqfq_cgroup_policy = {
	.dfl_cftypes	= mqfq_cftypes,
	.cpd_alloc_fn	= mqfq_cpd_alloc,
	.cpd_free_fn	= mqfq_cpd_free,
};

static struct mqfq_cgroup *mqfq_cgroup_of(struct cgroup_subsys_state *css)
{
	struct blkcg_policy_data *cpd = css_to_blkcg(css)->cpd[mqfq_cgroup_policy.plid];

	return container_of(cpd, struct mqfq_cgroup, cpd);
}

static u32 mqfq_cgroup_weight_on(struct mqfq_cgroup *mc, dev_t dev)
{
	void *weight = xa_load(&mc->weight_of, new_encode_dev(dev));

	return weight ? xa_to_value(weight) : READ_ONCE(mc->weight);
}

static dev_t mqfq_dev(const struct mqfq_data *md)
{
	return md->q->disk ? disk_devt(md->q->disk) : 0;
}

u32 mqfq_cgroup_weight(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	if (!css || !css->parent)
		return READ_ONCE(md->root_weight);
	return mqfq_cgroup_weight_on(mqfq_cgroup_of(css), mqfq_dev(md));
}

static int mqfq_weight_show(struct seq_file *m, void *v)
{
	struct mqfq_cgroup *mc = mqfq_cgroup_of(seq_css(m));
	unsigned long index;
	void *weight;

	seq_printf(m, "default %u\n", READ_ONCE(mc->weight));
	xa_for_each(&mc->weight_of, index, weight) {
		dev_t dev = new_decode_dev(index);

		seq_printf(m, "%u:%u %lu\n", MAJOR(dev), MINOR(dev), xa_to_value(weight));
	}
	return 0;
}

/* Return: weight, 0 for "default", or -EINVAL. */
static int mqfq_parse_weight(const char *word)
{
	unsigned int weight;

	if (!strcmp(word, "default"))
		return 0;
	if (kstrtouint(word, 10, &weight) || weight < FLOW_WEIGHT_MIN || weight > FLOW_WEIGHT_MAX)
		return -EINVAL;
	return weight;
}

static int mqfq_store_device_weight(struct mqfq_cgroup *mc, char *device, const char *word)
{
	int weight = mqfq_parse_weight(word);
	unsigned int major, minor;
	unsigned long index;
	char *colon = strchr(device, ':');

	if (!colon)
		return -EINVAL;
	*colon = 0;
	if (weight < 0 || kstrtouint(device, 10, &major) || kstrtouint(colon + 1, 10, &minor) ||
	    major >= 1U << (32 - MINORBITS) || minor > MINORMASK)
		return -EINVAL;
	index = new_encode_dev(MKDEV(major, minor));
	if (!weight)
		return xa_err(xa_erase(&mc->weight_of, index));
	return xa_err(xa_store(&mc->weight_of, index, xa_mk_value(weight), GFP_KERNEL));
}

static int mqfq_store_weight(struct mqfq_cgroup *mc, char *buf)
{
	char *first = strsep(&buf, " \t"), *second = buf ? strim(buf) : NULL;
	int weight;

	if (second && strcmp(first, "default"))
		return mqfq_store_device_weight(mc, first, second);
	weight = mqfq_parse_weight(second ? second : first);
	if (weight <= 0)
		return -EINVAL;
	WRITE_ONCE(mc->weight, weight);
	return 0;
}

static ssize_t mqfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off)
{
	struct cgroup_subsys_state *css = of_css(of);
	struct mqfq_cgroup *mc = mqfq_cgroup_of(css);
	struct mqfq_data *md;
	unsigned int noio;
	int ret;

	/*
	 * A device whose scheduler is being changed is frozen and waits for the mutex: no
	 * allocation here may wait for that device.
	 */
	mutex_lock(&mqfq_cgroup_mutex);
	noio = memalloc_noio_save();
	ret = mqfq_store_weight(mc, strim(buf));
	memalloc_noio_restore(noio);
	if (!ret)
		list_for_each_entry(md, &mqfq_devices, siblings)
			mqfq_reweigh(md, flow_key_of_css(css),
				     mqfq_cgroup_weight_on(mc, mqfq_dev(md)));
	mutex_unlock(&mqfq_cgroup_mutex);
	return ret ? ret : count;
}

void mqfq_cgroup_attach(struct mqfq_data *md)
{
	mutex_lock(&mqfq_cgroup_mutex);
	list_add_tail(&md->siblings, &mqfq_devices);
	mutex_unlock(&mqfq_cgroup_mutex);
}

void mqfq_cgroup_detach(struct mqfq_data *md)
{
	mutex_lock(&mqfq_cgroup_mutex);
	list_del(&md->siblings);
	mutex_unlock(&mqfq_cgroup_mutex);
}

int mqfq_cgroup_init(void)
{
	int ret = blkcg_policy_register(&mqfq_cgroup_policy);

	if (ret == -ENOSPC)
		pr_err("all %d places for cgroup policies are taken: unload bfq, for example\n",
		       BLKCG_MAX_POLS);
	return ret;
}

void mqfq_cgroup_exit(void)
{
	blkcg_policy_unregister(&mqfq_cgroup_policy);
}

#endif /* CONFIG_BLK_CGROUP */
