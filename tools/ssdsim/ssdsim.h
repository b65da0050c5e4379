/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ssdsim.h - what the parts of the driver share: the device and its locks
 */
#ifndef SSDSIM_H
#define SSDSIM_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "ssdsim_model.h"
#include "ssdsim_store.h"

/**
 * struct ssdsim_dev - one simulated drive
 * @link: all devices; under ssdsim_ctl_mutex
 * @index: N of /dev/ssdsimN
 * @lock: the model, @armed_ns and starting @timer
 * @model: when things happen
 * @timer: the next visible event
 * @armed_ns: when it goes off, SSDSIM_NEVER if it is not set
 * @store_lock: the store; inside nothing, never taken with @lock held or the other way round
 * @store: what is stored
 * @store_fail_ns: since when memory for data has been missing, 0 if it is not
 * @store_refused_ns: when a request was last refused for want of it
 * @ctl: power, fill, stalls, and setting @removing; taken without other locks
 * @powered: commands are accepted
 * @removing: no new work may be queued
 * @cuts: power cuts so far; part of the seed of the next one
 */
struct ssdsim_dev {
	struct list_head link;
	int index;
	const char *profile;
	struct ssdsim_cfg cfg;
	bool nodata;
	u64 seed;

	spinlock_t lock;
	struct ssdsim_model *model;
	struct hrtimer timer;
	u64 armed_ns;

	spinlock_t store_lock;
	struct ssdsim_store store;
	u64 store_fail_ns;
	u64 store_refused_ns;

	struct mutex ctl;
	bool powered;
	bool removing;
	u32 cuts;
	u32 fill_pct;

	u32 requeue_every;
	u32 error_every;
	atomic_t inject_count;
	atomic64_t requeued;
	atomic64_t timeouts;

	struct work_struct queues_work;
	wait_queue_head_t queues_wait;
	u32 queues_wanted;
	bool queues_pending;

	struct blk_mq_tag_set set;
	struct gendisk *disk;
	struct dentry *debugfs;
};

/* The driver's part of a request. */
struct ssdsim_rq {
	u64 epoch;			/* of a flush */
	blk_status_t status;
	struct ssdsim_cmd cmd;		/* last: has ops[] at its end */
};

/* ssdsim_request.c */
extern const struct blk_mq_ops ssdsim_mq_ops;
void ssdsim_request_init(struct ssdsim_dev *dev);
void ssdsim_abort_all(struct ssdsim_dev *dev, u64 salt);
void ssdsim_stall(struct ssdsim_dev *dev, u64 mask);
int ssdsim_stall_set(struct ssdsim_dev *dev, u64 mask);
int ssdsim_power_set(struct ssdsim_dev *dev, bool on);
int ssdsim_fill_set(struct ssdsim_dev *dev, u32 pct);
int ssdsim_queues_set(struct ssdsim_dev *dev, u32 nr);

/* ssdsim_sysfs.c */
extern const struct attribute_group *ssdsim_groups[];
void ssdsim_debugfs_add(struct ssdsim_dev *dev);
void ssdsim_debugfs_root(bool make);

#endif /* SSDSIM_H */
