/* SPDX-License-Identifier: GPL-2.0 */
/*
 * elevator_abi.h - the elevator's tables, in every form that kernels from 6.12 on have
 *
 * Five changes made those forms. Stable kernels take them over one by one, so each is a feature of
 * its own that features.py asks the kernel for:
 *
 *   HAVE_ELV_CONST_ATTRS       6.14  the tunables are const
 *   HAVE_ELV_INIT_QUEUE        6.17  the block layer allocates the elevator_queue and hands it to
 *                                    init_sched ("block: move elevator queue allocation logic into
 *                                    blk_mq_init_sched")
 *   HAVE_ELV_TAGS              6.17  elevator_queue holds its tags, before the scheduler's data
 *                                    pointer; from the same series
 *   HAVE_ELV_DEPTH_OF_QUEUE    6.17  depth_updated is called once for the queue, a fix of the first
 *                                    release candidates ("blk-mq: fix elevator depth_updated
 *                                    method")
 *   HAVE_ELV_ALLOC_SCHED_DATA  6.19  two hooks for the scheduler's own data in the middle of the
 *                                    table, which move every later hook; 6.18 has them since 6.18.3
 *                                    (commit 61019afdf6ac)
 */
#ifndef MQFAIR_ELEVATOR_ABI_H
#define MQFAIR_ELEVATOR_ABI_H

#ifdef HAVE_ELV_TAGS
struct elevator_tags;
#endif

struct elevator_mq_ops {
	/* life of the scheduler on a queue, and on each of its hardware queues */
#ifdef HAVE_ELV_INIT_QUEUE
	int (*init_sched)(struct request_queue *q, struct elevator_queue *eq);
#else
	int (*init_sched)(struct request_queue *q, struct elevator_type *e);
#endif
	void (*exit_sched)(struct elevator_queue *eq);
	int (*init_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
	void (*exit_hctx)(struct blk_mq_hw_ctx *hctx, unsigned int hctx_idx);
#ifdef HAVE_ELV_DEPTH_OF_QUEUE
	void (*depth_updated)(struct request_queue *q);
#else
	void (*depth_updated)(struct blk_mq_hw_ctx *hctx);
#endif
#ifdef HAVE_ELV_ALLOC_SCHED_DATA
	void *(*alloc_sched_data)(struct request_queue *q);
	void (*free_sched_data)(void *data);
#endif

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
#ifdef HAVE_ELV_CONST_ATTRS
	const struct elv_fs_entry *elevator_attrs;	/* ends with a nameless entry */
#else
	struct elv_fs_entry *elevator_attrs;		/* ends with a nameless entry */
#endif
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
#ifdef HAVE_ELV_TAGS
	struct elevator_tags *et;
#endif
	void *elevator_data;
	struct kobject kobj;
	struct mutex sysfs_lock;
	unsigned long flags;
	DECLARE_HASHTABLE(hash, ELV_HASH_BITS);
};

#ifndef HAVE_ELV_INIT_QUEUE
/* For init_sched, which gives it back with kobject_put() if it fails. */
struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *e);
#endif

#endif /* MQFAIR_ELEVATOR_ABI_H */
