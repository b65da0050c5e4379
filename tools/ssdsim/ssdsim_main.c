// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_main.c - simulated drives: parameters, and how a drive is added and removed
 *
 * Locks. dev->lock (model and timer) and dev->store_lock (data) are leaves, taken with interrupts
 * off, and never nested. Filling takes dev->lock for a piece at a time, and commands come and go
 * between pieces.
 *
 *	ssdsim_ctl_mutex (list of devices) > dev->ctl (power, fill) > the block layer's
 *
 * Disk attributes take dev->ctl, but nothing that the removal of the disk holds while it waits for
 * them. Therefore a work item changes the number of hardware queues, and adding and removing
 * devices are module parameters. Removal forbids new work first, then cancels it, then deletes.
 *
 * This file calls ssdsim_sysfs.c and ssdsim_request.c, and the former calls the latter.
 */
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "ssdsim.h"
#include "ssdsim_profile.h"

#define MAX_SECTORS		1024u
#define MAX_DISCARD_SECTORS	8192u
#define MAX_DEVICES		64
/* The longest time of a profile, 5 ms, is then half a second. */
#define SSDSIM_MAX_STRETCH	100u

static DEFINE_MUTEX(ssdsim_ctl_mutex);
static LIST_HEAD(ssdsim_devices);
static int ssdsim_major;

/* ---- parameters: read when a device is added ---- */

#define PARAM_TYPE_int		int
#define PARAM_TYPE_uint		unsigned int
#define PARAM_TYPE_ullong	unsigned long long
#define PARAM_TYPE_bool		bool

#define PARAM(type, name, value, text)			\
	static PARAM_TYPE_##type par_##name = value;	\
	module_param_named(name, par_##name, type, 0644);	\
	MODULE_PARM_DESC(name, text)

static unsigned int nr_devices = 1;
module_param(nr_devices, uint, 0444);
MODULE_PARM_DESC(nr_devices, "devices to make at load, 0..64 (1)");

static char *profile = "default";
module_param(profile, charp, 0644);
MODULE_PARM_DESC(profile, "drive to behave like: default, 970evoplus, pcie4, pcie5, fast");

PARAM(uint, stretch, 1, "all times of the profile last so many times as long, 1..100 (1)");

PARAM(uint, size_mb, 256, "capacity in MiB, 1..4194304 (256); memory is taken as it is written");
PARAM(uint, queues, 4, "hardware queues, 1..64, at most one per CPU (4)");
PARAM(uint, queue_depth, 128, "tags per hardware queue, 1..10240 (128)");
PARAM(uint, block_size, 512, "logical block in bytes, 512 or 4096 (512)");
PARAM(ullong, seed, 1, "seed of power cuts and of fill (1)");
PARAM(bool, nodata, false, "move no data: writes are dropped, reads leave the buffer as it is (N)");
PARAM(uint, requeue_every, 0, "refuse or requeue every Nth request, 0 = never (0)");
PARAM(uint, error_every, 0, "fail every Nth request with an I/O error, 0 = never (0)");

/* Overrides of the profile; -1 leaves it alone. */
PARAM(int, channels, -1, "channels, 1..32");
PARAM(int, ways, -1, "dies per channel, 1..8, at most 64 dies in all");
PARAM(int, page_kb, -1, "KiB in a flash page, a multiple of 4 up to 64");
PARAM(int, block_pages, -1, "pages in an erase block, 1..4096");
PARAM(int, op_pct, -1, "overprovisioning in percent, 0..400; never less than collection needs");
PARAM(int, slots, -1, "commands that the controller holds at once");
PARAM(int, cache_kb, -1, "volatile write cache in KiB");
PARAM(int, queue_service_ns, -1, "to process a command in its hardware queue, one after another");
PARAM(int, fetch_ns, -1, "to fetch a command from its hardware queue");
PARAM(int, cmd_ns, -1, "to process a command");
PARAM(int, dma_unit_ns, -1, "to move 4 KiB between host and controller");
PARAM(int, xfer_unit_ns, -1, "to move 4 KiB over a channel");
PARAM(int, read_ns, -1, "tR, array read");
PARAM(int, prog_ns, -1, "tPROG, page program");
PARAM(int, erase_ns, -1, "tERASE, block erase");
PARAM(int, destage_ns, -1, "how long a partly filled page may wait in the cache");
PARAM(int, discard_ns, -1, "to unmap, for each discard or write-zeroes");
PARAM(int, discard_mib_ns, -1, "and for each MiB discarded");
PARAM(int, zero_mib_ns, -1, "or zeroed");

static const struct {
	const int *param;
	size_t offset;
	int scale;
	bool is_time;
} overrides[] = {
	{ &par_channels, offsetof(struct ssdsim_cfg, channels), 1 },
	{ &par_ways, offsetof(struct ssdsim_cfg, ways), 1 },
	{ &par_page_kb, offsetof(struct ssdsim_cfg, page_units), 4 },
	{ &par_block_pages, offsetof(struct ssdsim_cfg, block_pages), 1 },
	{ &par_op_pct, offsetof(struct ssdsim_cfg, op_pct), 1 },
	{ &par_slots, offsetof(struct ssdsim_cfg, slots), 1 },
	{ &par_cache_kb, offsetof(struct ssdsim_cfg, cache_units), 4 },
	{ &par_queue_service_ns, offsetof(struct ssdsim_cfg, queue_service_ns), 1, true },
	{ &par_fetch_ns, offsetof(struct ssdsim_cfg, fetch_ns), 1, true },
	{ &par_cmd_ns, offsetof(struct ssdsim_cfg, cmd_ns), 1, true },
	{ &par_dma_unit_ns, offsetof(struct ssdsim_cfg, dma_unit_ns), 1, true },
	{ &par_xfer_unit_ns, offsetof(struct ssdsim_cfg, xfer_unit_ns), 1, true },
	{ &par_read_ns, offsetof(struct ssdsim_cfg, read_ns), 1, true },
	{ &par_prog_ns, offsetof(struct ssdsim_cfg, prog_ns), 1, true },
	{ &par_erase_ns, offsetof(struct ssdsim_cfg, erase_ns), 1, true },
	{ &par_destage_ns, offsetof(struct ssdsim_cfg, destage_ns), 1, true },
	{ &par_discard_ns, offsetof(struct ssdsim_cfg, discard_ns), 1, true },
	{ &par_discard_mib_ns, offsetof(struct ssdsim_cfg, discard_mib_ns), 1, true },
	{ &par_zero_mib_ns, offsetof(struct ssdsim_cfg, zero_mib_ns), 1, true },
};

static int read_config(struct ssdsim_dev *dev)
{
	const struct ssdsim_profile *prof = NULL;
	const char *wrong;
	int i;

	for (i = 0; i < ARRAY_SIZE(ssdsim_profiles); i++)
		if (sysfs_streq(profile, ssdsim_profiles[i].name))
			prof = &ssdsim_profiles[i];
	if (!prof) {
		pr_err("ssdsim: no profile \"%s\"; see modinfo ssdsim\n", profile);
		return -EINVAL;
	}
	dev->profile = prof->name;
	dev->cfg = prof->cfg;
	dev->cfg.units = (u64)par_size_mb << (20 - SSDSIM_UNIT_SHIFT);
	dev->cfg.cache_units = prof->cache_kb / 4;
	for (i = 0; i < ARRAY_SIZE(overrides); i++) {
		u32 *field = (void *)&dev->cfg + overrides[i].offset;

		if (*overrides[i].param >= 0)
			*field = *overrides[i].param / overrides[i].scale;
		else if (overrides[i].is_time)
			*field *= par_stretch;
	}
	wrong = ssdsim_cfg_check(&dev->cfg);
	if (!par_stretch || par_stretch > SSDSIM_MAX_STRETCH)
		wrong = "stretch";
	if (par_size_mb > 1u << 22)
		wrong = "size_mb";
	if (!par_queues || par_queues > SSDSIM_MAX_QUEUES)
		wrong = "queues";
	if (!par_queue_depth || par_queue_depth > BLK_MQ_MAX_DEPTH)
		wrong = "queue_depth";
	if (par_block_size != 512 && par_block_size != 4096)
		wrong = "block_size";
	if (par_page_kb >= 0 && par_page_kb % 4)
		wrong = "page_kb";
	if (wrong) {
		pr_err("ssdsim: parameter %s is out of range; see modinfo ssdsim\n", wrong);
		return -EINVAL;
	}
	dev->nodata = par_nodata;
	dev->seed = par_seed;
	dev->requeue_every = par_requeue_every;
	dev->error_every = par_error_every;
	return 0;
}

/* ---- devices ---- */

static const struct block_device_operations ssdsim_fops = {
	.owner		= THIS_MODULE,
};

static struct queue_limits ssdsim_limits(const struct ssdsim_dev *dev)
{
	struct queue_limits lim = {
		.logical_block_size		= par_block_size,
		.physical_block_size		= SSDSIM_UNIT_BYTES,
		.io_min				= SSDSIM_UNIT_BYTES,
		.io_opt				= dev->cfg.page_units << SSDSIM_UNIT_SHIFT,
		.max_hw_sectors			= MAX_SECTORS,
		.max_hw_discard_sectors		= MAX_DISCARD_SECTORS,
		.max_write_zeroes_sectors	= MAX_DISCARD_SECTORS,
		.discard_granularity		= SSDSIM_UNIT_BYTES,
		.features			= BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
	};

	return lim;
}

static int init_tag_set(struct ssdsim_dev *dev)
{
	struct blk_mq_tag_set *set = &dev->set;
	u32 ops = ssdsim_ops_needed(&dev->cfg, MAX_SECTORS / SSDSIM_UNIT_SECTORS);

	set->ops = &ssdsim_mq_ops;
	set->nr_hw_queues = min_t(u32, par_queues, nr_cpu_ids);
	set->queue_depth = par_queue_depth;
	set->numa_node = NUMA_NO_NODE;
	set->cmd_size = sizeof(struct ssdsim_rq) + ops * sizeof(struct ssdsim_op);
	set->flags = MQFAIR_F_SHOULD_MERGE;
	set->driver_data = dev;
	return blk_mq_alloc_tag_set(set);
}

static int add_gendisk(struct ssdsim_dev *dev)
{
	struct queue_limits lim = ssdsim_limits(dev);
	int ret;

	dev->disk = blk_mq_alloc_disk(&dev->set, &lim, dev);
	if (IS_ERR(dev->disk))
		return PTR_ERR(dev->disk);
	dev->disk->major = ssdsim_major;
	dev->disk->first_minor = dev->index * DISK_MAX_PARTS;
	dev->disk->minors = DISK_MAX_PARTS;
	dev->disk->fops = &ssdsim_fops;
	dev->disk->private_data = dev;
	snprintf(dev->disk->disk_name, DISK_NAME_LEN, "ssdsim%d", dev->index);
	set_capacity(dev->disk, dev->cfg.units * SSDSIM_UNIT_SECTORS);
	ret = device_add_disk(NULL, dev->disk, ssdsim_groups);
	if (ret)
		put_disk(dev->disk);
	return ret;
}

static int add_device(int index)
{
	struct ssdsim_dev *dev;
	int ret;

	lockdep_assert_held(&ssdsim_ctl_mutex);
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->index = index;
	ssdsim_request_init(dev);
	ret = read_config(dev);
	if (ret)
		goto err_dev;
	ret = -ENOMEM;
	dev->model = ssdsim_model_create(&dev->cfg);
	if (!dev->model)
		goto err_dev;
	ret = ssdsim_store_init(&dev->store, dev->cfg.units);
	if (ret)
		goto err_model;
	ret = init_tag_set(dev);
	if (ret)
		goto err_store;
	ret = add_gendisk(dev);
	if (ret)
		goto err_set;
	ssdsim_debugfs_add(dev);
	list_add_tail(&dev->link, &ssdsim_devices);
	return 0;

err_set:
	blk_mq_free_tag_set(&dev->set);
err_store:
	ssdsim_store_exit(&dev->store);
err_model:
	ssdsim_model_destroy(dev->model);
err_dev:
	kfree(dev);
	return ret;
}

/* As if the drive had been pulled out: what is under way fails, openers get errors. */
static void remove_device(struct ssdsim_dev *dev)
{
	lockdep_assert_held(&ssdsim_ctl_mutex);
	list_del(&dev->link);
	mutex_lock(&dev->ctl);
	dev->removing = true;
	/* A change of the number of hardware queues waits for what a stalled one holds. */
	ssdsim_stall(dev, 0);
	mutex_unlock(&dev->ctl);
	cancel_work_sync(&dev->queues_work);
	WRITE_ONCE(dev->queues_pending, false);
	wake_up_all(&dev->queues_wait);

	debugfs_remove_recursive(dev->debugfs);
	WRITE_ONCE(dev->powered, false);
	blk_mark_disk_dead(dev->disk);
	ssdsim_abort_all(dev, 0);
	del_gendisk(dev->disk);
	hrtimer_cancel(&dev->timer);
	put_disk(dev->disk);
	blk_mq_free_tag_set(&dev->set);
	ssdsim_store_exit(&dev->store);
	ssdsim_model_destroy(dev->model);
	kfree(dev);
}

static struct ssdsim_dev *find_device(int index)
{
	struct ssdsim_dev *dev;

	list_for_each_entry(dev, &ssdsim_devices, link)
		if (dev->index == index)
			return dev;
	return NULL;
}

/*
 * /sys/module/ssdsim/parameters/add: N makes ssdsimN with the parameters as they are now; remove: N
 * pulls it out.
 */
static int set_add(const char *val, const struct kernel_param *kp)
{
	unsigned int index;
	int ret = kstrtouint(val, 0, &index);

	if (ret)
		return ret;
	if (index >= MAX_DEVICES)
		return -EINVAL;
	mutex_lock(&ssdsim_ctl_mutex);
	/* Not yet (on the command line of modprobe), or not any more (the module is going). */
	if (!ssdsim_major)
		ret = -EAGAIN;
	else
		ret = find_device(index) ? -EEXIST : add_device(index);
	mutex_unlock(&ssdsim_ctl_mutex);
	return ret;
}

static int set_remove(const char *val, const struct kernel_param *kp)
{
	struct ssdsim_dev *dev;
	unsigned int index;
	int ret = kstrtouint(val, 0, &index);

	if (ret)
		return ret;
	mutex_lock(&ssdsim_ctl_mutex);
	dev = find_device(index);
	if (dev)
		remove_device(dev);
	mutex_unlock(&ssdsim_ctl_mutex);
	return dev ? 0 : -ENODEV;
}

static const struct kernel_param_ops add_ops = { .set = set_add };
static const struct kernel_param_ops remove_ops = { .set = set_remove };
module_param_cb(add, &add_ops, NULL, 0200);
MODULE_PARM_DESC(add, "write N to make /dev/ssdsimN with the present parameters");
module_param_cb(remove, &remove_ops, NULL, 0200);
MODULE_PARM_DESC(remove, "write N to remove /dev/ssdsimN at once, whatever it is doing");

static void remove_all(void)
{
	struct ssdsim_dev *dev, *next;
	int major;

	mutex_lock(&ssdsim_ctl_mutex);
	list_for_each_entry_safe(dev, next, &ssdsim_devices, link)
		remove_device(dev);
	major = ssdsim_major;
	ssdsim_major = 0;
	mutex_unlock(&ssdsim_ctl_mutex);
	ssdsim_debugfs_root(false);
	unregister_blkdev(major, "ssdsim");
}

static int __init ssdsim_init(void)
{
	int ret, i;

	if (nr_devices > MAX_DEVICES) {
		pr_err("ssdsim: parameter nr_devices is out of range; see modinfo ssdsim\n");
		return -EINVAL;
	}
	ret = register_blkdev(0, "ssdsim");
	if (ret < 0)
		return ret;
	ssdsim_debugfs_root(true);
	mutex_lock(&ssdsim_ctl_mutex);
	ssdsim_major = ret;
	for (i = 0, ret = 0; i < nr_devices && !ret; i++)
		ret = add_device(i);
	mutex_unlock(&ssdsim_ctl_mutex);
	if (ret)
		remove_all();
	return ret;
}

static void __exit ssdsim_exit(void)
{
	remove_all();
}

module_init(ssdsim_init);
module_exit(ssdsim_exit);

MODULE_AUTHOR("the mqfair authors");
MODULE_DESCRIPTION("simulated SSD for testing I/O schedulers");
MODULE_LICENSE("GPL");
