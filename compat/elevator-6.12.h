/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elevator-6.12.h - the elevator's tables as 6.12 has them
 *
 * The scheduler allocates its elevator_queue with elevator_alloc() and gives it back with
 * kobject_put() if its init_sched fails. Chosen where HAVE_ELV_ALLOC_SCHED_DATA is not defined.
 */
#ifndef MQFAIR_ELEVATOR_6_12_H
#define MQFAIR_ELEVATOR_6_12_H

struct elevator_mq_ops {
	/* life of the scheduler on a queue, and on each of its hardware queues */
	int (*init_sched)(struct request_queue *q, struct elevator_type *e);
	void (*exit_sched)(struct elevator_queue *eq);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
	void (*depth_updated)(struct blk_mq_hw_ctx *hctx);

	/* merging */
	bool (*allow_merge)(struct request_queue *q, struct request *rq, struct bio *bio);
	bool (*bio_merge)(struct request_queue *q, struct bio *bio, unsigned int nr_segs);
	int (*request_merge)(struct request_queue *q, struct request **rq, struct bio *bio);
	void (*request_merged)(struct request_queue *q, struct request *rq, enum elv_merge type);
	void (*requests_merged)(struct request_queue *q, struct request *rq, struct request *next);

	/* life of a request */
	void (*limit_depth)(blk_opf_t opf, struct blk_mq_alloc_data *data);
	void (*prepare_request)(struct request *rq);
	void (*finish_request)(struct request *rq);
	void (*insert_requests)(struct blk_mq_hw_ctx *hctx, struct list_head *list,
				blk_insert_t flags);
	struct request *(*dispatch_request)(struct blk_mq_hw_ctx *hctx);
	bool (*has_work)(struct blk_mq_hw_ctx *hctx);
	void (*completed_request)(struct request *rq, u64 now_ns);
	void (*requeue_request)(struct request *rq);

	/* neighbours in sector order, and per-process contexts */
	struct request *(*former_request)(struct request_queue *q, struct request *rq);
	struct request *(*next_request)(struct request_queue *q, struct request *rq);
	void (*init_icq)(struct io_cq *icq);
	void (*exit_icq)(struct io_cq *icq);
};

struct elevator_type {
	struct kmem_cache *icq_cache;		/* the core's */
	struct elevator_mq_ops ops;
	size_t icq_size;
	size_t icq_align;
	struct elv_fs_entry *elevator_attrs;	/* ends with a nameless entry */
	const char *elevator_name;
	const char *elevator_alias;
	struct module *elevator_owner;
#ifdef CONFIG_BLK_DEBUG_FS
	const struct blk_mq_debugfs_attr *queue_debugfs_attrs;
	const struct blk_mq_debugfs_attr *hctx_debugfs_attrs;
#endif
	char icq_cache_name[ELV_NAME_MAX + 6];	/* the core's */
	struct list_head list;			/* the core's */
};

/*
 * The scheduler attached to one request queue. Only elevator_data is the scheduler's to write.
 */
struct elevator_queue {
	struct elevator_type *type;
	void *elevator_data;
	struct kobject kobj;
	struct mutex sysfs_lock;
	unsigned long flags;
	DECLARE_HASHTABLE(hash, ELV_HASH_BITS);
};

struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *e);

#endif /* MQFAIR_ELEVATOR_6_12_H */
