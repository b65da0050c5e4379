/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shims.h - one way to say what kernels want said differently
 *
 * Each shim names the kernel that made it needed. When the oldest kernel in SUPPORTED is newer
 * than that, the shim goes and the modules call the kernel directly; where a shim has the
 * kernel's own new name, only the shim goes.
 */
#ifndef MQFAIR_SHIMS_H
#define MQFAIR_SHIMS_H

/*
 * init_sched, depth_updated, and the const of the tunables (elevator_abi.h says since when)
 *
 * A module always writes the newest form:
 *
 *	static int x_init_sched(struct request_queue *q, struct elevator_queue *eq);
 *	static void x_depth_updated(struct request_queue *q);
 *	static MQFAIR_ATTRS_CONST struct elv_fs_entry x_attrs[] = { ... };
 *
 *	MQFAIR_DEFINE_INIT_SCHED(x_init_sched)
 *	MQFAIR_DEFINE_DEPTH_UPDATED(x_depth_updated)
 *
 *	.ops.init_sched = MQFAIR_INIT_SCHED(x_init_sched),
 *	.ops.depth_updated = MQFAIR_DEPTH_UPDATED(x_depth_updated),
 *
 * The queue is frozen, and reclaim may want to write to its disk: no allocation in init_sched may
 * wait for reclaim. Kernels since 6.14 see to that when they freeze a queue
 * (HAVE_FREEZE_QUEUE_MEMFLAGS); on 6.12 the wrapper does.
 *
 * As in the kernel's own schedulers, init_sched sets eq->elevator_data and, as its last step,
 * q->elevator. If it returns an error it has freed what it allocated, and eq is not its
 * business: where the wrapper allocated eq, the wrapper gives it back.
 *
 * On older kernels depth_updated runs once per hardware queue, in the middle of the change:
 * q->nr_requests is still the old value then, and only the hardware queues up to the current
 * one have the new depth. Read depths from the tags of a hardware queue, and expect repeats.
 */
#ifdef HAVE_ELV_CONST_ATTRS
#define MQFAIR_ATTRS_CONST	const
#else
#define MQFAIR_ATTRS_CONST
#endif

#ifdef HAVE_ELV_INIT_QUEUE
#define MQFAIR_DEFINE_INIT_SCHED(fn)
#define MQFAIR_INIT_SCHED(fn)	fn
#else
static inline int mqfair_init_sched(struct request_queue *q, struct elevator_type *e,
				    int (*init)(struct request_queue *q, struct elevator_queue *eq))
{
	unsigned int noio = memalloc_noio_save();
	struct elevator_queue *eq = elevator_alloc(q, e);
	int ret = eq ? init(q, eq) : -ENOMEM;

	if (ret && eq)
		kobject_put(&eq->kobj);
	memalloc_noio_restore(noio);
	return ret;
}

#define MQFAIR_DEFINE_INIT_SCHED(fn)						\
static int fn##_compat(struct request_queue *q, struct elevator_type *e)	\
{										\
	return mqfair_init_sched(q, e, fn);					\
}
#define MQFAIR_INIT_SCHED(fn)	fn##_compat
#endif

#ifdef HAVE_ELV_DEPTH_OF_QUEUE
#define MQFAIR_DEFINE_DEPTH_UPDATED(fn)
#define MQFAIR_DEPTH_UPDATED(fn)	fn
#else
#define MQFAIR_DEFINE_DEPTH_UPDATED(fn)						\
static void fn##_compat(struct blk_mq_hw_ctx *hctx)				\
{										\
	fn(hctx->queue);							\
}
#define MQFAIR_DEPTH_UPDATED(fn)	fn##_compat
#endif

/*
 * A file in debugfs of the scheduler @name on @q uses its data between these two. Before 6.16 the
 * block layer removes such files before exit_sched(), since then after it. So q->elevator may be
 * NULL or another scheduler's: a reader holds the lock under which it changes, and looks at the
 * name. The remover waits for the reader and does not hold that lock.
 *
 * Return: elevator_data; or an ERR_PTR(): -ENODEV if @name is not attached any more, -EINTR for a
 * signal.
 */
static inline void *mqfair_debugfs_get(struct request_queue *q, const char *name)
{
#ifdef HAVE_ELV_CHANGE_CTX
	if (mutex_lock_interruptible(&q->elevator_lock))
		return ERR_PTR(-EINTR);
	if (!q->elevator || strcmp(q->elevator->type->elevator_name, name)) {
		mutex_unlock(&q->elevator_lock);
		return ERR_PTR(-ENODEV);
	}
#endif
	return q->elevator->elevator_data;
}

static inline void mqfair_debugfs_put(struct request_queue *q)
{
#ifdef HAVE_ELV_CHANGE_CTX
	mutex_unlock(&q->elevator_lock);
#endif
}

/*
 * For a function int fn(struct x_data *, struct seq_file *), defines fn_file, which a table of
 * struct blk_mq_debugfs_attr takes.
 */
#define MQFAIR_DEBUGFS_SHOW(fn, name)						\
static int fn##_file(void *rq_queue, struct seq_file *m)			\
{										\
	void *data = mqfair_debugfs_get(rq_queue, name);			\
	int ret;								\
										\
	if (IS_ERR(data))							\
		return PTR_ERR(data);						\
	ret = fn(data, m);							\
	mqfair_debugfs_put(rq_queue);						\
	return ret;								\
}

/*
 * Is @rq, which comes to insert_requests, unknown to the scheduler? A request that was allocated
 * for passthrough, beside others in a plug, may be used for a bio after all. Kernels that prepare a
 * request when it is used know by then what it is for. Older ones, as 6.12 was at first, give it to
 * the scheduler unprepared, and would not call finish_request for it. This makes it a request of
 * the scheduler; the caller prepares it.
 */
static inline bool mqfair_adopt(struct request *rq)
{
	if (likely(rq->rq_flags & RQF_USE_SCHED))
		return false;
	rq->rq_flags |= RQF_USE_SCHED;
	return true;
}

/*
 * Freezing a queue saves the caller's allocation context since 6.14; carry what freeze returns
 * to unfreeze.
 */
static inline unsigned int mqfair_freeze_queue(struct request_queue *q)
{
#ifdef HAVE_FREEZE_QUEUE_MEMFLAGS
	return blk_mq_freeze_queue(q);
#else
	blk_mq_freeze_queue(q);
	return 0;
#endif
}

static inline void mqfair_unfreeze_queue(struct request_queue *q, unsigned int memflags)
{
#ifdef HAVE_FREEZE_QUEUE_MEMFLAGS
	blk_mq_unfreeze_queue(q, memflags);
#else
	blk_mq_unfreeze_queue(q);
#endif
}

/*
 * Per-CPU memory for init_sched, in which the queue is frozen. The allocator's mutex must not be
 * taken there: its holder may wait for reclaim, and reclaim for this queue (a cgroup that is made
 * while a disk with swap gets a scheduler). Without it the allocator takes only pages that are
 * there already, and has a worker bring more, so this tries again for a while. 6.12 does so by
 * itself; kernels since 6.15 have to be told.
 */
#define mqfair_alloc_percpu(type)						\
	((typeof(type) __percpu *)mqfair_alloc_percpu_bytes(sizeof(type), __alignof__(type)))

static inline void __percpu *mqfair_alloc_percpu_bytes(size_t size, size_t align)
{
	const gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN;
	void __percpu *p = __alloc_percpu_gfp(size, align, gfp);
	unsigned int tries = 20;

	while (!p && tries--) {
		msleep(20);
		p = __alloc_percpu_gfp(size, align, gfp);
	}
	return p;
}

/*
 * Is writeback throttling off by default for @q? A flag of the queue says so; until 6.12 got it,
 * wbt_disable_default() alone was what there is.
 */
static inline void mqfair_forbid_wbt(struct request_queue *q)
{
#ifdef blk_queue_disable_wbt
	blk_queue_flag_set(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#endif
}

static inline void mqfair_allow_wbt(struct request_queue *q)
{
#ifdef blk_queue_disable_wbt
	blk_queue_flag_clear(QUEUE_FLAG_DISABLE_WBT_DEF, q);
#endif
}

/*
 * The hardware queue that a bio would go to from this CPU, as blk_mq_map_queue(), which is
 * private, and takes other arguments on other kernels, has it.
 */
static inline struct blk_mq_hw_ctx *mqfair_bio_hctx(struct request_queue *q, const struct bio *bio)
{
	struct blk_mq_ctx *ctx = raw_cpu_ptr(q->queue_ctx);

	if (bio->bi_opf & REQ_POLLED)
		return ctx->hctxs[HCTX_TYPE_POLL];
	if (bio_op(bio) == REQ_OP_READ)
		return ctx->hctxs[HCTX_TYPE_READ];
	return ctx->hctxs[HCTX_TYPE_DEFAULT];
}

/*
 * A number that CPUs have in common if they share their last cache. The number of the die is not
 * that: on AMD's it is the socket's, and arm64 has none. An architecture that tells neither has
 * only sockets.
 */
static inline u32 mqfair_cache_id(unsigned int cpu)
{
#if defined(CONFIG_X86)
	return per_cpu_llc_id(cpu);
#elif defined(topology_llc_cpumask)
	return cpumask_first(topology_llc_cpumask(cpu));
#else
	return topology_physical_package_id(cpu);
#endif
}

/* 6.16 renamed from_timer(). */
#ifndef timer_container_of
#define timer_container_of(var, callback_timer, timer_fieldname)	\
	from_timer(var, callback_timer, timer_fieldname)
#endif

/* 6.13 joined hrtimer_init() and the assignment of the function. */
#ifndef HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

/*
 * Until 6.13 a driver had to ask for merging; 6.14, which also changed freezing, removed the
 * flag and merges always.
 */
#ifdef HAVE_FREEZE_QUEUE_MEMFLAGS
#define MQFAIR_F_SHOULD_MERGE	0
#else
#define MQFAIR_F_SHOULD_MERGE	BLK_MQ_F_SHOULD_MERGE
#endif

#endif /* MQFAIR_SHIMS_H */
