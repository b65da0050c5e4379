// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_main.c - the block device around the model and the store
 *
 * A request. queue_rq moves the data between the request and the store, and hands the command to the model, which says
 * when it would have been done; the timer completes it then. Data moves first because a write that finds no memory must
 * be refused before anyone counts on it. What the order of moving means: a read or cached write takes effect when
 * it is submitted, a FUA write when it completes; both lie between submission and completion, which is all that a user may assume.
 *
 * The timer. One hrtimer per device, set for the next thing that someone can see (ssdsim_model_next_ns()). It is only started
 * under dev->lock, and only towards an earlier time, except by its own callback. Its callback runs in hard interrupt context and
 * completes requests from there, as drives do.
 *
 * Locks. dev->lock (model and timer) and dev->store_lock (data) are leaves, taken with interrupts off, and never nested.
 * Filling takes dev->lock for a piece at a time, and commands come and go between pieces.
 * ssdsim_ctl_mutex (list of devices) > dev->ctl (power, fill) > the block layer's. Disk attributes take dev->ctl but nothing that
 * the removal of the disk holds while it waits for them: that is why changing the number of hardware queues is done by a work item
 * and why adding and removing devices are module parameters. Removal forbids new work first, then cancels it, then deletes.
 *
 * Power. power_cut = 1: no new commands (they fail), the queue is quiesced, the timer stopped; then every command in the
 * model fails, with FUA writes torn, and the store loses what is not durable. power_cut = 0: commands are accepted again.
 * Nothing can complete in between, so a command whose completion was seen had its full effect before the cut.
 *
 * Memory. The I/O path allocates data pages without sleeping. If there is none, the request is refused with BLK_STS_RESOURCE and
 * the block layer tries again; after STORE_PATIENCE_NS of that it fails with BLK_STS_NOSPC rather than hang. A shortage ends with
 * a write that got memory, or when nobody has been refused for STORE_LULL_NS; reads and rewrites in place go on all the time and say
 * nothing about it.
 */
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat.h"
#include "ssdsim.h"
#include "ssdsim_profile.h"

#define STORE_PATIENCE_NS	(5 * NSEC_PER_SEC)
#define STORE_LULL_NS		NSEC_PER_SEC
#define RERUN_MS		1
#define MAX_SECTORS		1024u
#define MAX_DISCARD_SECTORS	8192u
#define MAX_DEVICES		64

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
MODULE_PARM_DESC(profile, "drive to behave like: default, 970evoplus, fast");

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

static const struct {
	const int *param;
	size_t offset;
	int scale;
} overrides[] = {
	{ &par_channels, offsetof(struct ssdsim_cfg, channels), 1 },
	{ &par_ways, offsetof(struct ssdsim_cfg, ways), 1 },
	{ &par_page_kb, offsetof(struct ssdsim_cfg, page_units), 4 },
	{ &par_block_pages, offsetof(struct ssdsim_cfg, block_pages), 1 },
	{ &par_op_pct, offsetof(struct ssdsim_cfg, op_pct), 1 },
	{ &par_slots, offsetof(struct ssdsim_cfg, slots), 1 },
	{ &par_cache_kb, offsetof(struct ssdsim_cfg, cache_units), 4 },
	{ &par_queue_service_ns, offsetof(struct ssdsim_cfg, queue_service_ns), 1 },
	{ &par_fetch_ns, offsetof(struct ssdsim_cfg, fetch_ns), 1 },
	{ &par_cmd_ns, offsetof(struct ssdsim_cfg, cmd_ns), 1 },
	{ &par_dma_unit_ns, offsetof(struct ssdsim_cfg, dma_unit_ns), 1 },
	{ &par_xfer_unit_ns, offsetof(struct ssdsim_cfg, xfer_unit_ns), 1 },
	{ &par_read_ns, offsetof(struct ssdsim_cfg, read_ns), 1 },
	{ &par_prog_ns, offsetof(struct ssdsim_cfg, prog_ns), 1 },
	{ &par_erase_ns, offsetof(struct ssdsim_cfg, erase_ns), 1 },
	{ &par_destage_ns, offsetof(struct ssdsim_cfg, destage_ns), 1 },
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
	for (i = 0; i < ARRAY_SIZE(overrides); i++)
		if (*overrides[i].param >= 0)
			*(u32 *)((void *)&dev->cfg + overrides[i].offset) = *overrides[i].param / overrides[i].scale;
	wrong = ssdsim_cfg_check(&dev->cfg);
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

/* ---- data ---- */

enum move {
	MOVE_READ,
	MOVE_WRITE,
	MOVE_PREPARE,	/* a FUA write is submitted */
	MOVE_COMMIT,	/* a FUA write completes */
	MOVE_TEAR,	/* a FUA write was under way when the power went */
};

static int move_chunk(struct ssdsim_dev *dev, enum move what, u64 sector, u32 n, void *data, u64 salt)
{
	switch (what) {
	case MOVE_READ:
		ssdsim_store_read(&dev->store, sector, n, data);
		return 0;
	case MOVE_WRITE:
		return ssdsim_store_write(&dev->store, sector, n, data);
	case MOVE_PREPARE:
		return ssdsim_store_fua_prepare(&dev->store, sector);
	case MOVE_COMMIT:
		return ssdsim_store_fua_commit(&dev->store, sector, n, data);
	case MOVE_TEAR:
		ssdsim_store_fua_tear(&dev->store, sector, n, data, salt);
		return 0;
	}
	return 0;
}

/* Apply @what to all data of @rq, unit by unit. */
static int move_data(struct ssdsim_dev *dev, struct request *rq, enum move what, u64 salt)
{
	u64 sector = blk_rq_pos(rq), taken = 0;
	struct req_iterator iter;
	struct bio_vec bvec;
	unsigned long flags;
	int ret = 0;

	if (dev->nodata)
		return 0;
	rq_for_each_segment(bvec, rq, iter) {
		void *mem = kmap_local_page(bvec.bv_page), *data = mem + bvec.bv_offset;
		u32 left = bvec.bv_len >> SECTOR_SHIFT, n;

		for (; left && !ret; left -= n, sector += n, data += n << SECTOR_SHIFT) {
			n = min_t(u32, left, SSDSIM_UNIT_SECTORS - sector % SSDSIM_UNIT_SECTORS);
			spin_lock_irqsave(&dev->store_lock, flags);
			taken -= dev->store.nr_taken;
			ret = move_chunk(dev, what, sector, n, data, salt);
			taken += dev->store.nr_taken;
			spin_unlock_irqrestore(&dev->store_lock, flags);
		}
		kunmap_local(mem);
		if (ret)
			break;
	}
	if (!ret && taken && READ_ONCE(dev->store_fail_ns))
		WRITE_ONCE(dev->store_fail_ns, 0);
	return ret;
}

static int zero_data(struct ssdsim_dev *dev, struct request *rq)
{
	u64 sector = blk_rq_pos(rq);
	u32 left = blk_rq_sectors(rq), n;
	unsigned long flags;
	int ret = 0;

	for (; left && !ret && !dev->nodata; left -= n, sector += n) {
		n = min_t(u32, left, SSDSIM_UNIT_SECTORS - sector % SSDSIM_UNIT_SECTORS);
		spin_lock_irqsave(&dev->store_lock, flags);
		ret = ssdsim_store_zero(&dev->store, sector, n);
		spin_unlock_irqrestore(&dev->store_lock, flags);
	}
	return ret;
}

/* A write-zeroes with FUA completes: its zeroes are durable. */
static int zero_durable(struct ssdsim_dev *dev, struct request *rq)
{
	u64 sector = blk_rq_pos(rq);
	u32 left = blk_rq_sectors(rq), n;
	unsigned long flags;
	int ret = 0;

	for (; left && !ret && !dev->nodata; left -= n, sector += n) {
		n = min_t(u32, left, SSDSIM_UNIT_SECTORS - sector % SSDSIM_UNIT_SECTORS);
		spin_lock_irqsave(&dev->store_lock, flags);
		ret = ssdsim_store_fua_commit(&dev->store, sector, n, page_address(ZERO_PAGE(0)));
		spin_unlock_irqrestore(&dev->store_lock, flags);
	}
	return ret;
}

/* Memory for data is missing: try again, but not for ever. */
static blk_status_t no_memory(struct ssdsim_dev *dev)
{
	u64 now = ktime_get_ns(), since = READ_ONCE(dev->store_fail_ns);
	/* Another CPU may have been here later than our clock was read. */
	s64 lull_ns = now - READ_ONCE(dev->store_refused_ns);

	WRITE_ONCE(dev->store_refused_ns, now);
	/* Who is refused is back in a few milliseconds. */
	if (!since || lull_ns > (s64)STORE_LULL_NS) {
		WRITE_ONCE(dev->store_fail_ns, now);
		return BLK_STS_RESOURCE;
	}
	return now - since < STORE_PATIENCE_NS ? BLK_STS_RESOURCE : BLK_STS_NOSPC;
}

/* ---- from request to command ---- */

static void fill_units(struct request *rq, struct ssdsim_cmd *cmd)
{
	u64 first = blk_rq_pos(rq), end = first + blk_rq_sectors(rq);

	cmd->bytes = blk_rq_bytes(rq);
	if (cmd->op == SSDSIM_DISCARD) {
		/* Only whole units lose their mapping, and no data crosses the link. */
		first += SSDSIM_UNIT_SECTORS - 1;
		cmd->bytes = 0;
	} else {
		end += SSDSIM_UNIT_SECTORS - 1;
	}
	cmd->unit = first / SSDSIM_UNIT_SECTORS;
	end /= SSDSIM_UNIT_SECTORS;
	cmd->nr_units = end > cmd->unit ? end - cmd->unit : 0;
}

static blk_status_t prepare(struct ssdsim_dev *dev, struct request *rq, struct ssdsim_cmd *cmd)
{
	int ret = 0;

	cmd->fua = false;
	switch (req_op(rq)) {
	case REQ_OP_READ:
		cmd->op = SSDSIM_READ;
		ret = move_data(dev, rq, MOVE_READ, 0);
		break;
	case REQ_OP_WRITE:
		cmd->op = SSDSIM_WRITE;
		cmd->fua = rq->cmd_flags & REQ_FUA;
		ret = move_data(dev, rq, cmd->fua ? MOVE_PREPARE : MOVE_WRITE, 0);
		break;
	case REQ_OP_FLUSH:
		cmd->op = SSDSIM_FLUSH;
		cmd->unit = 0;
		cmd->nr_units = 0;
		cmd->bytes = 0;
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		cmd->op = SSDSIM_DISCARD;
		ret = zero_data(dev, rq);
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	if (ret)
		return no_memory(dev);
	fill_units(rq, cmd);
	return BLK_STS_OK;
}

/* ---- completion ---- */

static void finish_one(struct ssdsim_dev *dev, struct ssdsim_cmd *cmd)
{
	struct ssdsim_rq *srq = container_of(cmd, struct ssdsim_rq, cmd);
	struct request *rq = blk_mq_rq_from_pdu(srq);
	unsigned long flags;

	srq->status = BLK_STS_OK;
	if (cmd->aborted) {
		srq->status = BLK_STS_IOERR;
	} else if (cmd->op == SSDSIM_FLUSH) {
		spin_lock_irqsave(&dev->store_lock, flags);
		ssdsim_store_flush_end(&dev->store, srq->epoch);
		spin_unlock_irqrestore(&dev->store_lock, flags);
	} else if (cmd->fua && move_data(dev, rq, MOVE_COMMIT, 0)) {
		srq->status = BLK_STS_IOERR;
	} else if (cmd->op == SSDSIM_DISCARD && (rq->cmd_flags & REQ_FUA) && zero_durable(dev, rq)) {
		srq->status = BLK_STS_IOERR;
	}
	blk_mq_complete_request(rq);
}

/* Complete what the model has completed; without locks, each command may be gone after its turn. */
static void finish(struct ssdsim_dev *dev, struct list_head *done)
{
	struct ssdsim_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, done, link)
		finish_one(dev, cmd);
}

static void ssdsim_complete(struct request *rq)
{
	struct ssdsim_rq *srq = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, srq->status);
}

/* ---- timer ---- */

static enum hrtimer_restart ssdsim_timer(struct hrtimer *timer)
{
	struct ssdsim_dev *dev = container_of(timer, struct ssdsim_dev, timer);
	enum hrtimer_restart again = HRTIMER_NORESTART;
	unsigned long flags;
	LIST_HEAD(done);

	spin_lock_irqsave(&dev->lock, flags);
	ssdsim_model_run(dev->model, ktime_get_ns());
	list_splice_init(&dev->model->done, &done);
	dev->armed_ns = ssdsim_model_next_ns(dev->model);
	if (dev->armed_ns != SSDSIM_NEVER) {
		/* A submitter on another CPU may have queued the timer again since it went off. */
		if (hrtimer_is_queued(timer)) {
			hrtimer_start(timer, ns_to_ktime(dev->armed_ns), HRTIMER_MODE_ABS);
		} else {
			hrtimer_set_expires(timer, ns_to_ktime(dev->armed_ns));
			again = HRTIMER_RESTART;
		}
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	finish(dev, &done);
	return again;
}

static void submit(struct ssdsim_dev *dev, struct ssdsim_cmd *cmd, u32 hwq)
{
	unsigned long flags;
	u64 next;

	spin_lock_irqsave(&dev->lock, flags);
	ssdsim_model_submit(dev->model, cmd, hwq, ktime_get_ns());
	next = ssdsim_model_next_ns(dev->model);
	if (next < dev->armed_ns) {
		dev->armed_ns = next;
		hrtimer_start(&dev->timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
}

/* ---- queue ---- */

/*
 * Fault injection. Every requeue_every-th request meets one of the three ways in which a driver does not take a request, in turn.
 * Return: true if *sts is the answer.
 */
static bool inject(struct ssdsim_dev *dev, struct request *rq, blk_status_t *sts)
{
	u32 every = READ_ONCE(dev->requeue_every), errors = READ_ONCE(dev->error_every);
	u32 n;

	if (likely(!every && !errors))
		return false;
	n = atomic_inc_return(&dev->inject_count);
	if (errors && n % errors == 0) {
		blk_mq_start_request(rq);
		*sts = BLK_STS_IOERR;
		return true;
	}
	if (!every || n % every)
		return false;
	atomic64_inc(&dev->requeued);
	switch (n / every % 3) {
	case 0:
		*sts = BLK_STS_RESOURCE;
		break;
	case 1:
		/* This status promises to run the queue again. */
		blk_mq_delay_run_hw_queues(rq->q, RERUN_MS);
		*sts = BLK_STS_DEV_RESOURCE;
		break;
	default:
		blk_mq_start_request(rq);
		blk_mq_requeue_request(rq, true);
		*sts = BLK_STS_OK;
		break;
	}
	return true;
}

static blk_status_t ssdsim_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct ssdsim_rq *srq = blk_mq_rq_to_pdu(rq);
	struct ssdsim_dev *dev = hctx->queue->queuedata;
	unsigned long flags;
	blk_status_t sts;

	if (unlikely(!READ_ONCE(dev->powered))) {
		blk_mq_start_request(rq);
		return BLK_STS_IOERR;
	}
	if (inject(dev, rq, &sts))
		return sts;
	sts = prepare(dev, rq, &srq->cmd);
	if (unlikely(sts))
		return sts;
	if (srq->cmd.op == SSDSIM_FLUSH) {
		spin_lock_irqsave(&dev->store_lock, flags);
		srq->epoch = ssdsim_store_flush_begin(&dev->store);
		spin_unlock_irqrestore(&dev->store_lock, flags);
	}
	blk_mq_start_request(rq);
	submit(dev, &srq->cmd, hctx->queue_num);
	return BLK_STS_OK;
}

/* Collection can make a request slow, and the model always ends it: never a reason to give up. */
static enum blk_eh_timer_return ssdsim_timeout(struct request *rq)
{
	struct ssdsim_dev *dev = rq->q->queuedata;

	atomic64_inc(&dev->timeouts);
	return BLK_EH_RESET_TIMER;
}

static const struct blk_mq_ops ssdsim_mq_ops = {
	.queue_rq	= ssdsim_queue_rq,
	.complete	= ssdsim_complete,
	.timeout	= ssdsim_timeout,
};

static const struct block_device_operations ssdsim_fops = {
	.owner		= THIS_MODULE,
};

/* ---- power, ageing, hardware queues ---- */

/* Fail all commands. @salt: tear FUA writes with it; 0: leave the store alone. The device does not accept commands. */
static void abort_all(struct ssdsim_dev *dev, u64 salt)
{
	struct ssdsim_cmd *cmd;
	unsigned long flags;
	LIST_HEAD(done);

	blk_mq_quiesce_queue(dev->disk->queue);
	hrtimer_cancel(&dev->timer);
	spin_lock_irqsave(&dev->lock, flags);
	ssdsim_model_power_cut(dev->model, ktime_get_ns());
	list_splice_init(&dev->model->done, &done);
	dev->armed_ns = SSDSIM_NEVER;
	spin_unlock_irqrestore(&dev->lock, flags);
	list_for_each_entry(cmd, &done, link)
		if (salt && cmd->aborted && cmd->fua)
			move_data(dev, blk_mq_rq_from_pdu(container_of(cmd, struct ssdsim_rq, cmd)), MOVE_TEAR, salt);
	finish(dev, &done);
	if (salt) {
		spin_lock_irqsave(&dev->store_lock, flags);
		ssdsim_store_power_cut(&dev->store, salt);
		spin_unlock_irqrestore(&dev->store_lock, flags);
	}
	blk_mq_unquiesce_queue(dev->disk->queue);
}

int ssdsim_power_set(struct ssdsim_dev *dev, bool on)
{
	int ret = 0;

	mutex_lock(&dev->ctl);
	if (dev->removing) {
		ret = -ENODEV;
	} else if (on != dev->powered) {
		WRITE_ONCE(dev->powered, on);
		if (!on)
			abort_all(dev, ssdsim_mix(dev->seed + dev->cuts++) | 1);
	}
	mutex_unlock(&dev->ctl);
	return ret;
}

int ssdsim_fill_set(struct ssdsim_dev *dev, u32 pct)
{
	unsigned long flags;
	bool more;
	u32 i;

	if (pct > 1000)
		return -EINVAL;
	mutex_lock(&dev->ctl);
	for (i = 0; i < dev->model->nr_dies; i++) {
		struct ssdsim_fill fill = { .random = dev->seed + i };

		do {
			spin_lock_irqsave(&dev->lock, flags);
			more = ssdsim_model_fill(dev->model, i, pct, &fill);
			spin_unlock_irqrestore(&dev->lock, flags);
			cond_resched();
		} while (more);
	}
	dev->fill_pct = pct;
	mutex_unlock(&dev->ctl);
	return 0;
}

static void queues_work(struct work_struct *work)
{
	struct ssdsim_dev *dev = container_of(work, struct ssdsim_dev, queues_work);

	blk_mq_update_nr_hw_queues(&dev->set, READ_ONCE(dev->queues_wanted));
	WRITE_ONCE(dev->queues_pending, false);
	wake_up_all(&dev->queues_wait);
}

/*
 * The work takes locks that the removal of the disk holds while it waits for attributes like the one that called us, so this
 * must not wait for it in a way that removal cannot end: it cancels the work before it deletes the disk, and wakes us.
 */
int ssdsim_queues_set(struct ssdsim_dev *dev, u32 nr)
{
	int ret = 0;

	if (!nr || nr > SSDSIM_MAX_QUEUES)
		return -EINVAL;
	mutex_lock(&dev->ctl);
	if (dev->removing) {
		ret = -ENODEV;
	} else {
		WRITE_ONCE(dev->queues_wanted, nr);
		WRITE_ONCE(dev->queues_pending, true);
		schedule_work(&dev->queues_work);
	}
	mutex_unlock(&dev->ctl);
	if (!ret && wait_event_killable(dev->queues_wait, !READ_ONCE(dev->queues_pending)))
		ret = -EINTR;
	return ret;
}

/* ---- devices ---- */

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

static void init_dev(struct ssdsim_dev *dev, int index)
{
	dev->index = index;
	dev->powered = true;
	dev->armed_ns = SSDSIM_NEVER;
	spin_lock_init(&dev->lock);
	spin_lock_init(&dev->store_lock);
	mutex_init(&dev->ctl);
	INIT_WORK(&dev->queues_work, queues_work);
	init_waitqueue_head(&dev->queues_wait);
	hrtimer_setup(&dev->timer, ssdsim_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
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
	init_dev(dev, index);
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
	mutex_unlock(&dev->ctl);
	cancel_work_sync(&dev->queues_work);
	WRITE_ONCE(dev->queues_pending, false);
	wake_up_all(&dev->queues_wait);

	debugfs_remove_recursive(dev->debugfs);
	WRITE_ONCE(dev->powered, false);
	blk_mark_disk_dead(dev->disk);
	abort_all(dev, 0);
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

/* /sys/module/ssdsim/parameters/add: N makes ssdsimN with the parameters as they are now; remove: N pulls it out. */
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
