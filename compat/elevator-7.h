/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elevator-7.h - the elevator's tables as kernels have them since the block layer allocates a
 * scheduler's data
 *
 * Against the 6.12 ABI: the block layer allocates the elevator_queue and hands it to
 * init_sched; two hooks for the scheduler's own data sit in the middle of the table and move
 * every later hook; depth_updated is called once for the queue; the tunables are const; and
 * elevator_queue holds its tags, which moves the scheduler's data pointer. Chosen by
 * HAVE_ELV_ALLOC_SCHED_DATA.
 */
#ifndef MQFAIR_ELEVATOR_7_H
#define MQFAIR_ELEVATOR_7_H

struct elevator_tags;

struct elevator_mq_ops {
	/* life of the scheduler on a queue, and on each of its hardware queues */
	int (*init_sched)(struct request_queue *q, struct elevator_queue *eq);
	void (*exit_sched)(struct elevator_queue *eq);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
	void (*depth_updated)(struct request_queue *q);
	void *(*alloc_sched_data)(struct request_queue *q);
	void (*free_sched_data)(void *data);

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
	const struct elv_fs_entry *elevator_attrs;	/* ends with a nameless entry */
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
	struct elevator_tags *et;
	void *elevator_data;
	struct kobject kobj;
	struct mutex sysfs_lock;
	unsigned long flags;
	DECLARE_HASHTABLE(hash, ELV_HASH_BITS);
};

#endif /* MQFAIR_ELEVATOR_7_H */
