/* SPDX-License-Identifier: GPL-2.0 */
/*
 * private.h - our declarations of the block layer's private interface, for builds outside a
 * kernel tree
 *
 * Each type, and each prototype, in this file and in elevator_abi.h, which it includes, is found
 * by layout.py by itself and compared with the target kernel: name, size, and for every member
 * its order, bit offset and complete type. There is no list to keep in step, and no way to
 * declare something here that is not compared. What is only a macro (the values of flags)
 * leaves no trace in a kernel image, cannot be compared, and is therefore kept to the few that
 * a scheduler cannot do without.
 *
 * Only functions that the kernel exports to modules are declared.
 */
#ifndef MQFAIR_PRIVATE_H
#define MQFAIR_PRIVATE_H

struct blk_mq_ctxs;
struct elevator_queue;
struct elevator_type;
struct io_cq;
struct rq_qos_ops;

/* What a lookup for a merge partner found, as returned by the request_merge hook. */
enum elv_merge {
	ELEVATOR_NO_MERGE = 0,
	ELEVATOR_FRONT_MERGE = 1,
	ELEVATOR_BACK_MERGE = 2,
	ELEVATOR_DISCARD_MERGE = 3,
};

/*
 * Flags of the insert_requests hook. The flag's value is a macro in the kernel too: BTF cannot
 * vouch for it.
 */
typedef unsigned int __bitwise blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD	((__force blk_insert_t)1)

/*
 * The software queue of one CPU: bio_merge and kyber-like schedulers look a request's CPU up in
 * it.
 */
struct blk_mq_ctx {
	struct {
		spinlock_t lock;
		struct list_head rq_lists[HCTX_MAX_TYPES];
	} ____cacheline_aligned_in_smp;

	unsigned int cpu;
	unsigned short index_hw[HCTX_MAX_TYPES];
	struct blk_mq_hw_ctx *hctxs[HCTX_MAX_TYPES];
	struct request_queue *queue;
	struct blk_mq_ctxs *ctxs;
	struct kobject kobj;
} ____cacheline_aligned_in_smp;

/*
 * A tag allocation in progress, as seen by the limit_depth hook, which may lower shallow_depth.
 */
struct blk_mq_alloc_data {
	struct request_queue *q;
	blk_mq_req_flags_t flags;
	unsigned int shallow_depth;
	blk_opf_t cmd_flags;
	req_flags_t rq_flags;
	unsigned int nr_tags;
	struct rq_list *cached_rqs;
	struct blk_mq_ctx *ctx;
	struct blk_mq_hw_ctx *hctx;
};

/* The policies that act on a queue's requests: a list, from request_queue.rq_qos. */
enum rq_qos_id {
	RQ_QOS_WBT = 0,
	RQ_QOS_LATENCY = 1,
	RQ_QOS_COST = 2,
};

struct rq_qos {
	const struct rq_qos_ops *ops;
	struct gendisk *disk;
	enum rq_qos_id id;
	struct rq_qos *next;
#ifdef CONFIG_BLK_DEBUG_FS
	struct dentry *debugfs_dir;
#endif
};

/* One debugfs file of a queue or a hardware queue. The data pointer of show is that queue. */
struct blk_mq_debugfs_attr {
	const char *name;
	umode_t mode;
	int (*show)(void *data, struct seq_file *m);
	ssize_t (*write)(void *data, const char __user *buf, size_t count, loff_t *pos);
	const struct seq_operations *seq_ops;
};

/* One tunable, /sys/block/DEV/queue/iosched/NAME. */
struct elv_fs_entry {
	struct attribute attr;
	ssize_t (*show)(struct elevator_queue *eq, char *page);
	ssize_t (*store)(struct elevator_queue *eq, const char *page, size_t count);
};

#define ELV_NAME_MAX	16
#define ELV_HASH_BITS	6

#include "elevator_abi.h"

/* Registration. finish_request is mandatory: elv_register() refuses a type without it. */
int elv_register(struct elevator_type *e);
void elv_unregister(struct elevator_type *e);

/* Finding merge partners: a hash of request ends, and a tree of request starts. */
void elv_rqhash_add(struct request_queue *q, struct request *rq);
void elv_rqhash_del(struct request_queue *q, struct request *rq);
void elv_rb_add(struct rb_root *root, struct request *rq);
void elv_rb_del(struct rb_root *root, struct request *rq);
struct request *elv_rb_find(struct rb_root *root, sector_t sector);
struct request *elv_rb_former_request(struct request_queue *q, struct request *rq);
struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq);
bool elv_bio_merge_ok(struct request *rq, struct bio *bio);
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs,
			    struct request **merged);
bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq,
				   struct list_head *free);

/* Into one of the last eight requests of a list, in which the newest is the last. */
bool blk_bio_list_merge(struct request_queue *q, struct list_head *list, struct bio *bio,
			unsigned int nr_segs);

/* Asks for another run of the hardware queue when a request of it completes. */
void blk_mq_sched_mark_restart_hctx(struct blk_mq_hw_ctx *hctx);

/*
 * Has the block layer time every request of the queue, so that completed_request can tell its
 * latency.
 */
void blk_stat_enable_accounting(struct request_queue *q);
void blk_stat_disable_accounting(struct request_queue *q);

/* Writeback throttling: off, and back on if that is the kernel's default. */
#ifdef CONFIG_BLK_WBT
void wbt_disable_default(struct gendisk *disk);
void wbt_enable_default(struct gendisk *disk);
#else
static inline void wbt_disable_default(struct gendisk *disk)
{
}

static inline void wbt_enable_default(struct gendisk *disk)
{
}
#endif

#ifdef CONFIG_BLK_DEBUG_FS
int __blk_mq_debugfs_rq_show(struct seq_file *m, struct request *rq);
int blk_mq_debugfs_rq_show(struct seq_file *m, void *v);
#endif

#define rb_entry_rq(node)	rb_entry((node), struct request, rb_node)
#define rq_entry_fifo(ptr)	list_entry((ptr), struct request, queuelist)

#endif /* MQFAIR_PRIVATE_H */
