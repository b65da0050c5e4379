// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_cgroup.c - the files io.mqfair.weight, io.mqfair.latency and io.bfq.weight of each cgroup
 *
 * The weights have a line "default N" for all devices and lines "MAJ:MIN N" for some, as io.weight
 * has. A user writes "N" or "default N", "MAJ:MIN N", or "MAJ:MIN default"; N is from 1 to 10000.
 * The block cgroup controller keeps a structure of ours per cgroup and frees it with the cgroup.
 *
 * io.mqfair.latency has lines "MAJ:MIN target=USEC", as io.latency has; 0 takes one back. A target
 * is also for the cgroups below that have none (mqfq_target.c says what it does). It makes the
 * others wait, so a writer needs what class RT needs: CAP_SYS_NICE or CAP_SYS_ADMIN. The owner
 * of a delegated subtree has neither.
 *
 * io.bfq.weight is the same weight under the name that service and container managers write to, if
 * it exists. Those know 1 to 1000. It exists if the module is loaded with bfq_weight=1, and bfq is
 * not in the kernel: of two files with one name, the cgroup core makes none and warns, in the
 * middle of the second module's registration. So we look for bfq before, and as long as we have the
 * file, a notifier refuses to let the module bfq start.
 *
 * A value for a device is for the drive that has the number MAJ:MIN when the value is first
 * used, and not for another drive that gets the number later. The kernel counts drives (diskseq);
 * that count is kept with the value. Count 0: no drive of ours had that number when the value was
 * written, and the next one takes it.
 *
 * Locking: mqfq_cgroup_mutex guards the list of devices, and orders changes. A new flow's values
 * are read under its flow table's lock. A change is stored before that lock is taken to tell the
 * flow. So either the new flow sees the change, or the change finds the flow.
 */
#define pr_fmt(fmt) "mq-mqfq: " fmt

#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/kdev_t.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/printk.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "mqfq.h"

#ifdef CONFIG_BLK_CGROUP

enum {
	/* Of io.bfq.weight. */
	MQFQ_BFQ_WEIGHT_MAX	= 1000,
	/* The value for a device has so many bits. Above them is the drive's count. */
	MQFQ_DISKSEQ_SHIFT	= 24,
	MQFQ_DISKSEQ_BITS	= 38,
};
static_assert(FLOW_WEIGHT_MAX < 1 << MQFQ_DISKSEQ_SHIFT);
static_assert(MQFQ_TARGET_US_MAX < 1 << MQFQ_DISKSEQ_SHIFT);

static bool mqfq_bfq_weight;
module_param_named(bfq_weight, mqfq_bfq_weight, bool, 0444);
MODULE_PARM_DESC(bfq_weight,
		 "1: io.bfq.weight sets the same weights, and bfq is refused (default 0)");

/**
 * struct mqfq_cgroup - what we keep per cgroup
 * @cpd:	the block layer's; first
 * @weight:	for devices without one of their own
 * @weight_of:	weights by device number, with the drive's count
 * @target_of:	targets in microseconds, likewise
 */
struct mqfq_cgroup {
	struct blkcg_policy_data cpd;
	u32 weight;
	struct xarray weight_of;
	struct xarray target_of;
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
	xa_init(&mc->target_of);
	return &mc->cpd;
}

static void mqfq_cpd_free(struct blkcg_policy_data *cpd)
{
	struct mqfq_cgroup *mc = container_of(cpd, struct mqfq_cgroup, cpd);

	xa_destroy(&mc->weight_of);
	xa_destroy(&mc->target_of);
	kfree(mc);
}

static int mqfq_weight_show(struct seq_file *m, void *v);
static ssize_t mqfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off);
static ssize_t mqfq_bfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count,
				     loff_t off);
static int mqfq_latency_show(struct seq_file *m, void *v);
static ssize_t mqfq_latency_write(struct kernfs_open_file *of, char *buf, size_t count,
				  loff_t off);

/* The array ends at a file without a name: mqfq_bfq_weight_init() takes the last one's. */
static struct cftype mqfq_cftypes[] = {
	{
		.name		= "mqfair.weight",
		.flags		= CFTYPE_NOT_ON_ROOT,
		.seq_show	= mqfq_weight_show,
		.write		= mqfq_weight_write,
	},
	{
		.name		= "mqfair.latency",
		.flags		= CFTYPE_NOT_ON_ROOT,
		.seq_show	= mqfq_latency_show,
		.write		= mqfq_latency_write,
	},
	{
		.name		= "bfq.weight",
		.flags		= CFTYPE_NOT_ON_ROOT,
		.seq_show	= mqfq_weight_show,
		.write		= mqfq_bfq_weight_write,
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

static u64 mqfq_diskseq(const struct gendisk *disk)
{
	return disk->diskseq & ((1ULL << MQFQ_DISKSEQ_BITS) - 1);
}

static void *mqfq_device_entry(u32 value, u64 diskseq)
{
	return xa_mk_value(diskseq << MQFQ_DISKSEQ_SHIFT | value);
}

static u32 mqfq_value_in(void *entry)
{
	return xa_to_value(entry) & ((1U << MQFQ_DISKSEQ_SHIFT) - 1);
}

/*
 * The value for a disk, or 0. One that was for another drive with this number is gone. Any context
 * that may not sleep.
 */
static u32 mqfq_value_on(struct xarray *values, struct gendisk *disk)
{
	unsigned long index = new_encode_dev(disk_devt(disk));
	void *entry = xa_load(values, index);
	u64 diskseq;

	if (!entry)
		return 0;
	diskseq = xa_to_value(entry) >> MQFQ_DISKSEQ_SHIFT;
	if (diskseq == mqfq_diskseq(disk))
		return mqfq_value_in(entry);
	if (diskseq) {
		xa_cmpxchg(values, index, entry, NULL, GFP_NOWAIT);
		return 0;
	}
	/* The entry is there: no memory is needed. */
	xa_cmpxchg(values, index, entry, mqfq_device_entry(mqfq_value_in(entry),
							   mqfq_diskseq(disk)), GFP_NOWAIT);
	return mqfq_value_in(entry);
}

u32 mqfq_cgroup_weight(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	struct mqfq_cgroup *mc;
	u32 weight = 0;

	if (!css || !css->parent)
		return READ_ONCE(md->root_weight);
	mc = mqfq_cgroup_of(css);
	if (md->q->disk)
		weight = mqfq_value_on(&mc->weight_of, md->q->disk);
	return weight ? weight : READ_ONCE(mc->weight);
}

u32 mqfq_cgroup_target(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	u32 target_us = 0;

	for (; css && css->parent && md->q->disk && !target_us; css = css->parent)
		target_us = mqfq_value_on(&mqfq_cgroup_of(css)->target_of, md->q->disk);
	if (target_us)
		set_bit(MQFQ_TARGET_CGROUPS, &md->target.used);
	return target_us;
}

static int mqfq_weight_show(struct seq_file *m, void *v)
{
	struct mqfq_cgroup *mc = mqfq_cgroup_of(seq_css(m));
	unsigned long index;
	void *entry;

	seq_printf(m, "default %u\n", READ_ONCE(mc->weight));
	xa_for_each(&mc->weight_of, index, entry) {
		dev_t dev = new_decode_dev(index);

		seq_printf(m, "%u:%u %u\n", MAJOR(dev), MINOR(dev), mqfq_value_in(entry));
	}
	return 0;
}

static int mqfq_latency_show(struct seq_file *m, void *v)
{
	struct mqfq_cgroup *mc = mqfq_cgroup_of(seq_css(m));
	unsigned long index;
	void *entry;

	xa_for_each(&mc->target_of, index, entry) {
		dev_t dev = new_decode_dev(index);

		seq_printf(m, "%u:%u target=%u\n", MAJOR(dev), MINOR(dev), mqfq_value_in(entry));
	}
	return 0;
}

/* The count of the drive of ours that has this number now, or 0. */
static u64 mqfq_diskseq_of(dev_t dev)
{
	struct mqfq_data *md;

	lockdep_assert_held(&mqfq_cgroup_mutex);

	list_for_each_entry(md, &mqfq_devices, siblings)
		if (md->q->disk && disk_devt(md->q->disk) == dev)
			return mqfq_diskseq(md->q->disk);
	return 0;
}

/* Return: weight, 0 for "default", or -EINVAL. */
static int mqfq_parse_weight(const char *word, unsigned int max)
{
	unsigned int weight;

	if (!strcmp(word, "default"))
		return 0;
	if (kstrtouint(word, 10, &weight) || weight < FLOW_WEIGHT_MIN || weight > max)
		return -EINVAL;
	return weight;
}

/* Stores the value for "MAJ:MIN"; 0: none. A negative one is an error already. */
static int mqfq_store_on(struct xarray *values, char *device, int value)
{
	unsigned int major, minor;
	unsigned long index;
	dev_t dev;
	char *colon = strchr(device, ':');

	if (!colon)
		return -EINVAL;
	*colon = 0;
	if (value < 0 || kstrtouint(device, 10, &major) || kstrtouint(colon + 1, 10, &minor) ||
	    major >= 1U << (32 - MINORBITS) || minor > MINORMASK)
		return -EINVAL;
	dev = MKDEV(major, minor);
	index = new_encode_dev(dev);
	if (!value)
		return xa_err(xa_erase(values, index));
	return xa_err(xa_store(values, index, mqfq_device_entry(value, mqfq_diskseq_of(dev)),
			       GFP_KERNEL));
}

static int mqfq_store_weight(struct mqfq_cgroup *mc, char *buf, unsigned int max)
{
	char *first = strsep(&buf, " \t"), *second = buf ? strim(buf) : NULL;
	int weight;

	if (second && strcmp(first, "default"))
		return mqfq_store_on(&mc->weight_of, first, mqfq_parse_weight(second, max));
	weight = mqfq_parse_weight(second ? second : first, max);
	if (weight <= 0)
		return -EINVAL;
	WRITE_ONCE(mc->weight, weight);
	return 0;
}

static ssize_t mqfq_write(struct kernfs_open_file *of, char *buf, size_t count, unsigned int max)
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
	ret = mqfq_store_weight(mc, strim(buf), max);
	memalloc_noio_restore(noio);
	if (!ret)
		list_for_each_entry(md, &mqfq_devices, siblings)
			mqfq_reweigh(md, flow_key_of_css(css), mqfq_cgroup_weight(md, css));
	mutex_unlock(&mqfq_cgroup_mutex);
	return ret ? ret : count;
}

static ssize_t mqfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off)
{
	return mqfq_write(of, buf, count, FLOW_WEIGHT_MAX);
}

static ssize_t mqfq_bfq_weight_write(struct kernfs_open_file *of, char *buf, size_t count,
				     loff_t off)
{
	return mqfq_write(of, buf, count, MQFQ_BFQ_WEIGHT_MAX);
}

/* "MAJ:MIN target=USEC" */
static int mqfq_store_latency(struct mqfq_cgroup *mc, char *buf)
{
	static const char word[] = "target=";
	char *device = strsep(&buf, " \t"), *target = buf ? strim(buf) : NULL;
	unsigned int us;

	if (!target || strncmp(target, word, strlen(word)) ||
	    kstrtouint(target + strlen(word), 10, &us) || us > MQFQ_TARGET_US_MAX)
		return -EINVAL;
	return mqfq_store_on(&mc->target_of, device, us);
}

/* The flows of the cgroup, and of those below, which may have its target. */
static void mqfq_tell_targets(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	struct cgroup_subsys_state *pos;

	rcu_read_lock();
	css_for_each_descendant_pre(pos, css)
		flow_set_target(&md->flows, flow_key_of_css(pos), mqfq_cgroup_target(md, pos));
	rcu_read_unlock();
}

static ssize_t mqfq_latency_write(struct kernfs_open_file *of, char *buf, size_t count,
				  loff_t off)
{
	struct cgroup_subsys_state *css = of_css(of);
	struct mqfq_data *md;
	unsigned int noio;
	int ret;

	if (!file_ns_capable(of->file, &init_user_ns, CAP_SYS_NICE) &&
	    !file_ns_capable(of->file, &init_user_ns, CAP_SYS_ADMIN))
		return -EPERM;
	/* As in mqfq_write(). */
	mutex_lock(&mqfq_cgroup_mutex);
	noio = memalloc_noio_save();
	ret = mqfq_store_latency(mqfq_cgroup_of(css), strim(buf));
	memalloc_noio_restore(noio);
	if (!ret)
		list_for_each_entry(md, &mqfq_devices, siblings)
			mqfq_tell_targets(md, css);
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

/* ---- bfq ---- */

/* Is bfq in the kernel? As a module it has a folder in /sys/module. */
static bool mqfq_has_bfq(void)
{
#ifdef MODULE
	struct kset *modules = THIS_MODULE->mkobj.kobj.kset;
#else
	struct kset *modules = module_kset;
#endif
	struct kobject *bfq = kset_find_obj(modules, "bfq");

	kobject_put(bfq);
	return bfq || IS_BUILTIN(CONFIG_IOSCHED_BFQ);
}

static int mqfq_module_event(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct module *module = data;

	if (event != MODULE_STATE_COMING || strcmp(module->name, "bfq"))
		return NOTIFY_DONE;
	pr_err("bfq is refused: load mq-mqfq without bfq_weight=1 to have it\n");
	return notifier_from_errno(-EBUSY);
}

static struct notifier_block mqfq_module_notifier = {
	.notifier_call	= mqfq_module_event,
};

/* The notifier comes first: no bfq gets past it that is not found afterwards. */
static int mqfq_bfq_weight_init(void)
{
	int ret;

	if (mqfq_bfq_weight) {
		ret = register_module_notifier(&mqfq_module_notifier);
		if (ret)
			return ret;
		if (!mqfq_has_bfq())
			return 0;
		unregister_module_notifier(&mqfq_module_notifier);
		mqfq_bfq_weight = false;
		pr_err("bfq_weight=1 is refused: bfq is loaded, and io.bfq.weight is its file\n");
	}
	mqfq_cftypes[2].name[0] = 0;
	return 0;
}

static void mqfq_bfq_weight_exit(void)
{
	if (mqfq_bfq_weight)
		unregister_module_notifier(&mqfq_module_notifier);
}

int mqfq_cgroup_init(void)
{
	int ret = mqfq_bfq_weight_init();

	if (ret)
		return ret;
	ret = blkcg_policy_register(&mqfq_cgroup_policy);
	if (ret == -ENOSPC)
		pr_err("all %d places for cgroup policies are taken: unload bfq, for example\n",
		       BLKCG_MAX_POLS);
	if (ret)
		mqfq_bfq_weight_exit();
	return ret;
}

void mqfq_cgroup_exit(void)
{
	blkcg_policy_unregister(&mqfq_cgroup_policy);
	mqfq_bfq_weight_exit();
}

#endif /* CONFIG_BLK_CGROUP */
