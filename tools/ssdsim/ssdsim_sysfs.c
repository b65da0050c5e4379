// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_sysfs.c - what can be seen and turned: /sys/block/ssdsimN/ssdsim/ and debugfs
 * ssdsim/ssdsimN
 *
 * One value per sysfs file; the tables (dies, queues) are in debugfs. Counters are read under
 * dev->lock, so the values of one read belong together. Documentation/reference/ssdsim.rst lists
 * them.
 */
#include <linux/debugfs.h>
#include <linux/kstrtox.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "ssdsim.h"

static struct dentry *debugfs_root;

static struct ssdsim_dev *to_ssdsim(struct device *d)
{
	return dev_to_disk(d)->private_data;
}

/* ---- sysfs ---- */

static ssize_t power_cut_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", !READ_ONCE(to_ssdsim(d)->powered));
}

static ssize_t power_cut_store(struct device *d, struct device_attribute *attr, const char *buf,
			       size_t len)
{
	bool cut;
	int ret = kstrtobool(buf, &cut);

	if (!ret)
		ret = ssdsim_power_set(to_ssdsim(d), !cut);
	return ret ?: len;
}
static DEVICE_ATTR_RW(power_cut);

static ssize_t fill_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_ssdsim(d)->fill_pct));
}

static ssize_t fill_store(struct device *d, struct device_attribute *attr, const char *buf,
			  size_t len)
{
	u32 pct;
	int ret = kstrtou32(buf, 0, &pct);

	if (!ret)
		ret = ssdsim_fill_set(to_ssdsim(d), pct);
	return ret ?: len;
}
static DEVICE_ATTR_RW(fill);

static ssize_t stall_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%llx\n", READ_ONCE(to_ssdsim(d)->model->stalled));
}

static ssize_t stall_store(struct device *d, struct device_attribute *attr, const char *buf,
			   size_t len)
{
	u64 mask;
	int ret = kstrtou64(buf, 0, &mask);

	if (!ret)
		ret = ssdsim_stall_set(to_ssdsim(d), mask);
	return ret ?: len;
}
static DEVICE_ATTR_RW(stall);

static ssize_t submit_queues_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", to_ssdsim(d)->set.nr_hw_queues);
}

static ssize_t submit_queues_store(struct device *d, struct device_attribute *attr, const char *buf,
				   size_t len)
{
	u32 nr;
	int ret = kstrtou32(buf, 0, &nr);

	if (!ret)
		ret = ssdsim_queues_set(to_ssdsim(d), nr);
	return ret ?: len;
}
static DEVICE_ATTR_RW(submit_queues);

#define EVERY_ATTR(name)								\
static ssize_t name##_show(struct device *d, struct device_attribute *attr, char *buf)	\
{											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(to_ssdsim(d)->name));			\
}											\
											\
static ssize_t name##_store(struct device *d, struct device_attribute *attr,		\
			    const char *buf, size_t len)				\
{											\
	u32 n;										\
	int ret = kstrtou32(buf, 0, &n);						\
											\
	if (!ret)									\
		WRITE_ONCE(to_ssdsim(d)->name, n);					\
	return ret ?: len;								\
}											\
static DEVICE_ATTR_RW(name)

EVERY_ATTR(requeue_every);
EVERY_ATTR(error_every);
#undef EVERY_ATTR

static ssize_t profile_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", to_ssdsim(d)->profile);
}
static DEVICE_ATTR_RO(profile);

enum ssdsim_stat {
	STAT_COMMANDS,
	STAT_COMPLETED,
	STAT_ABORTED,
	STAT_INFLIGHT,
	STAT_CACHE_DIRTY,
	STAT_CACHE_HITS,
	STAT_CACHE_WAITS,
	STAT_READS,
	STAT_FUA,
	STAT_DESTAGES,
	STAT_GC_VICTIMS,
	STAT_GC_COPIED,
	STAT_ERASES,
	STAT_FREE_BLOCKS,
	STAT_PROGRAMS,
	STAT_BUSY,
};

static u64 die_stat(const struct ssdsim_die *die, enum ssdsim_stat what)
{
	switch (what) {
	case STAT_READS:
		return die->reads;
	case STAT_FUA:
		return die->fua_programs;
	case STAT_DESTAGES:
		return die->destages;
	case STAT_GC_VICTIMS:
		return die->ftl.gc_victims;
	case STAT_GC_COPIED:
		return die->ftl.gc_copied;
	case STAT_ERASES:
		return die->ftl.erases;
	case STAT_FREE_BLOCKS:
		return die->ftl.nr_free;
	case STAT_PROGRAMS:
		return die->ftl.programs;
	case STAT_BUSY:
		return die->busy_ns;
	default:
		return 0;
	}
}

static u64 read_stat(struct ssdsim_dev *dev, enum ssdsim_stat what)
{
	struct ssdsim_model *m = dev->model;
	unsigned long flags;
	u64 value = 0;
	u32 i;

	spin_lock_irqsave(&dev->lock, flags);
	switch (what) {
	case STAT_COMMANDS:
		value = m->submitted;
		break;
	case STAT_COMPLETED:
		value = m->completed;
		break;
	case STAT_ABORTED:
		value = m->aborted;
		break;
	case STAT_INFLIGHT:
		value = m->submitted - m->completed - m->aborted;
		break;
	case STAT_CACHE_DIRTY:
		value = (u64)m->nr_cached << SSDSIM_UNIT_SHIFT;
		break;
	case STAT_CACHE_HITS:
		value = m->cache_hits;
		break;
	case STAT_CACHE_WAITS:
		value = m->cache_waits;
		break;
	default:
		for (i = 0; i < m->nr_dies; i++)
			value += die_stat(&m->dies[i], what);
		break;
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	return value;
}

#define STAT_ATTR(name, what)								\
static ssize_t name##_show(struct device *d, struct device_attribute *attr, char *buf)	\
{											\
	return sysfs_emit(buf, "%llu\n", read_stat(to_ssdsim(d), what));		\
}											\
static DEVICE_ATTR_RO(name)

STAT_ATTR(commands, STAT_COMMANDS);
STAT_ATTR(completed, STAT_COMPLETED);
STAT_ATTR(aborted, STAT_ABORTED);
STAT_ATTR(inflight, STAT_INFLIGHT);
STAT_ATTR(cache_dirty_bytes, STAT_CACHE_DIRTY);
STAT_ATTR(cache_hits, STAT_CACHE_HITS);
STAT_ATTR(cache_waits, STAT_CACHE_WAITS);
STAT_ATTR(die_reads, STAT_READS);
STAT_ATTR(fua_programs, STAT_FUA);
STAT_ATTR(destages, STAT_DESTAGES);
STAT_ATTR(programs, STAT_PROGRAMS);
STAT_ATTR(gc_victims, STAT_GC_VICTIMS);
STAT_ATTR(gc_copied_units, STAT_GC_COPIED);
STAT_ATTR(erases, STAT_ERASES);
STAT_ATTR(free_blocks, STAT_FREE_BLOCKS);
STAT_ATTR(busy_ns, STAT_BUSY);
#undef STAT_ATTR

static ssize_t requeued_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&to_ssdsim(d)->requeued));
}
static DEVICE_ATTR_RO(requeued);

static ssize_t timeouts_show(struct device *d, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&to_ssdsim(d)->timeouts));
}
static DEVICE_ATTR_RO(timeouts);

static ssize_t memory_bytes_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct ssdsim_dev *dev = to_ssdsim(d);
	unsigned long flags;
	u64 pages;

	spin_lock_irqsave(&dev->store_lock, flags);
	pages = dev->store.nr_pages;
	spin_unlock_irqrestore(&dev->store_lock, flags);
	return sysfs_emit(buf, "%llu\n", pages << SSDSIM_UNIT_SHIFT);
}
static DEVICE_ATTR_RO(memory_bytes);

static ssize_t torn_sectors_show(struct device *d, struct device_attribute *attr, char *buf)
{
	struct ssdsim_dev *dev = to_ssdsim(d);
	unsigned long flags;
	u64 torn;

	spin_lock_irqsave(&dev->store_lock, flags);
	torn = dev->store.torn;
	spin_unlock_irqrestore(&dev->store_lock, flags);
	return sysfs_emit(buf, "%llu\n", torn);
}
static DEVICE_ATTR_RO(torn_sectors);

static struct attribute *ssdsim_attrs[] = {
	&dev_attr_power_cut.attr,
	&dev_attr_fill.attr,
	&dev_attr_stall.attr,
	&dev_attr_submit_queues.attr,
	&dev_attr_requeue_every.attr,
	&dev_attr_error_every.attr,
	&dev_attr_profile.attr,
	&dev_attr_commands.attr,
	&dev_attr_completed.attr,
	&dev_attr_aborted.attr,
	&dev_attr_inflight.attr,
	&dev_attr_cache_dirty_bytes.attr,
	&dev_attr_cache_hits.attr,
	&dev_attr_cache_waits.attr,
	&dev_attr_die_reads.attr,
	&dev_attr_fua_programs.attr,
	&dev_attr_destages.attr,
	&dev_attr_programs.attr,
	&dev_attr_gc_victims.attr,
	&dev_attr_gc_copied_units.attr,
	&dev_attr_erases.attr,
	&dev_attr_free_blocks.attr,
	&dev_attr_busy_ns.attr,
	&dev_attr_requeued.attr,
	&dev_attr_timeouts.attr,
	&dev_attr_memory_bytes.attr,
	&dev_attr_torn_sectors.attr,
	NULL,
};

static const struct attribute_group ssdsim_group = {
	.name = "ssdsim",
	.attrs = ssdsim_attrs,
};

const struct attribute_group *ssdsim_groups[] = { &ssdsim_group, NULL };

/* ---- debugfs ---- */

static int dies_show(struct seq_file *s, void *unused)
{
	struct ssdsim_dev *dev = s->private;
	struct ssdsim_die *die;
	unsigned long flags;
	u32 i;

	seq_puts(s, "# die busy_ns reads fua_programs destages gc_steps ");
	seq_puts(s, "gc_copied_units erases free_blocks dirty_units\n");
	for (i = 0; i < dev->model->nr_dies; i++) {
		die = &dev->model->dies[i];
		spin_lock_irqsave(&dev->lock, flags);
		seq_printf(s, "%u %llu %llu %llu %llu %llu %llu %llu %u %u\n", i, die->busy_ns,
			   die->reads, die->fua_programs, die->destages, die->gc_steps,
			   die->ftl.gc_copied, die->ftl.erases, die->ftl.nr_free, die->nr_dirty);
		spin_unlock_irqrestore(&dev->lock, flags);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(dies);

static int queues_show(struct seq_file *s, void *unused)
{
	struct ssdsim_dev *dev = s->private;
	unsigned long flags;
	u32 i;

	seq_puts(s, "# queue fetched_commands bytes\n");
	spin_lock_irqsave(&dev->lock, flags);
	for (i = 0; i < dev->set.nr_hw_queues; i++)
		seq_printf(s, "%u %llu %llu\n", i, dev->model->queues[i].fetched,
			   dev->model->queues[i].bytes);
	spin_unlock_irqrestore(&dev->lock, flags);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(queues);

static int config_show(struct seq_file *s, void *unused)
{
	const struct ssdsim_dev *dev = s->private;
	const struct ssdsim_cfg *c = &dev->cfg;

	seq_printf(s, "profile %s\nunits %llu\nchannels %u\nways %u\npage_units %u\n",
		   dev->profile, c->units, c->channels, c->ways, c->page_units);
	seq_printf(s, "block_pages %u\nop_pct %u\nslots %u\ncache_units %u\n",
		   c->block_pages, c->op_pct, c->slots, c->cache_units);
	seq_printf(s, "queue_service_ns %u\nfetch_ns %u\ncmd_ns %u\ndma_unit_ns %u\n",
		   c->queue_service_ns, c->fetch_ns, c->cmd_ns, c->dma_unit_ns);
	seq_printf(s, "xfer_unit_ns %u\n", c->xfer_unit_ns);
	seq_printf(s, "read_ns %u\nprog_ns %u\nerase_ns %u\ndestage_ns %u\n",
		   c->read_ns, c->prog_ns, c->erase_ns, c->destage_ns);
	seq_printf(s, "discard_ns %u\ndiscard_mib_ns %u\nzero_mib_ns %u\n",
		   c->discard_ns, c->discard_mib_ns, c->zero_mib_ns);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(config);

void ssdsim_debugfs_add(struct ssdsim_dev *dev)
{
	dev->debugfs = debugfs_create_dir(dev->disk->disk_name, debugfs_root);
	debugfs_create_file("dies", 0400, dev->debugfs, dev, &dies_fops);
	debugfs_create_file("queues", 0400, dev->debugfs, dev, &queues_fops);
	debugfs_create_file("config", 0400, dev->debugfs, dev, &config_fops);
}

void ssdsim_debugfs_root(bool make)
{
	if (make)
		debugfs_root = debugfs_create_dir("ssdsim", NULL);
	else
		debugfs_remove_recursive(debugfs_root);
}
