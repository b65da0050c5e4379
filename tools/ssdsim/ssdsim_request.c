// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_request.c - the requests of a drive, its timer, power, and hardware queues
 *
 * A request. queue_rq moves the data between the request and the store, and hands the command to
 * the model, which says when it would have been done; the timer completes it then. Data moves first
 * because a write that finds no memory must be refused before a caller counts on it. A read or a
 * cached write takes effect when it is submitted, a FUA write when it completes. Both lie between
 * submission and completion, which is all that a user may assume.
 *
 * The timer. One hrtimer per device is set for the next event that can be seen from outside
 * (ssdsim_model_next_ns()). It is only started under dev->lock, and only towards an earlier time,
 * except by its own callback. The callback runs in hard interrupt context and completes requests
 * from there, as drives do.
 *
 * Power. power_cut = 1: new commands fail, the queue is quiesced, the timer stopped. Then every
 * command in the model fails, with FUA writes torn, and the store loses what is not durable.
 * power_cut = 0: commands are accepted again. Nothing can complete in between, so a command whose
 * completion was seen had its full effect before the cut.
 *
 * Memory. The I/O path allocates data pages without sleeping. If there is none, the request is
 * refused with BLK_STS_RESOURCE and the block layer tries again. After STORE_PATIENCE_NS it fails
 * with BLK_STS_NOSPC rather than hang. A shortage ends with a write that got memory, or when no
 * request was refused for STORE_LULL_NS. Reads and rewrites in place go on all the time and say
 * nothing about it.
 */
#include <linux/blkdev.h>
#include <linux/ktime.h>

#include "compat.h"
#include "ssdsim.h"

#define STORE_PATIENCE_NS	(5 * NSEC_PER_SEC)
#define STORE_LULL_NS		NSEC_PER_SEC
#define RERUN_MS		1

/* ---- data ---- */

enum move {
	MOVE_READ,
	MOVE_WRITE,
	MOVE_PREPARE,	/* a FUA write is submitted */
	MOVE_COMMIT,	/* a FUA write completes */
	MOVE_TEAR,	/* a FUA write was under way when the power went */
};

static int move_chunk(struct ssdsim_dev *dev, enum move what, u64 sector, u32 n, void *data,
		      u64 salt)
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
	/* A refused request is back in a few milliseconds. */
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
	if (cmd->op == SSDSIM_DISCARD || cmd->op == SSDSIM_ZERO) {
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
		cmd->op = req_op(rq) == REQ_OP_DISCARD ? SSDSIM_DISCARD : SSDSIM_ZERO;
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
	} else if (cmd->op == SSDSIM_ZERO && (rq->cmd_flags & REQ_FUA) && zero_durable(dev, rq)) {
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

/* The model has changed: its next event may be earlier than what the timer is set for. */
static void arm(struct ssdsim_dev *dev)
{
	u64 next = ssdsim_model_next_ns(dev->model);

	lockdep_assert_held(&dev->lock);
	if (next >= dev->armed_ns)
		return;
	dev->armed_ns = next;
	hrtimer_start(&dev->timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
}

static void submit(struct ssdsim_dev *dev, struct ssdsim_cmd *cmd, u32 hwq)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	ssdsim_model_submit(dev->model, cmd, hwq, ktime_get_ns());
	arm(dev);
	spin_unlock_irqrestore(&dev->lock, flags);
}

/* ---- queue ---- */

/*
 * Fault injection. Every requeue_every-th request meets one of the three ways in which a driver
 * does not take a request, in turn.
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

/*
 * Collection can make a request slow, and its queue may be stalled. The model ends it, or a write
 * to stall or power_cut, or the removal: never a reason to give up.
 */
static enum blk_eh_timer_return ssdsim_timeout(struct request *rq)
{
	struct ssdsim_dev *dev = rq->q->queuedata;

	atomic64_inc(&dev->timeouts);
	return BLK_EH_RESET_TIMER;
}

const struct blk_mq_ops ssdsim_mq_ops = {
	.queue_rq	= ssdsim_queue_rq,
	.complete	= ssdsim_complete,
	.timeout	= ssdsim_timeout,
};

/* ---- power, ageing, hardware queues ---- */

/*
 * Fail all commands. @salt: tear FUA writes with it; 0: leave the store alone. The device does not
 * accept commands.
 */
void ssdsim_abort_all(struct ssdsim_dev *dev, u64 salt)
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
			move_data(dev, blk_mq_rq_from_pdu(container_of(cmd, struct ssdsim_rq, cmd)),
				  MOVE_TEAR, salt);
	finish(dev, &done);
	if (salt) {
		spin_lock_irqsave(&dev->store_lock, flags);
		ssdsim_store_power_cut(&dev->store, salt);
		spin_unlock_irqrestore(&dev->store_lock, flags);
	}
	blk_mq_unquiesce_queue(dev->disk->queue);
}

/* What is let go completes from the timer, like all else. */
void ssdsim_stall(struct ssdsim_dev *dev, u64 mask)
{
	unsigned long flags;

	lockdep_assert_held(&dev->ctl);
	spin_lock_irqsave(&dev->lock, flags);
	ssdsim_model_stall(dev->model, mask, ktime_get_ns());
	arm(dev);
	spin_unlock_irqrestore(&dev->lock, flags);
}

int ssdsim_stall_set(struct ssdsim_dev *dev, u64 mask)
{
	int ret = 0;

	mutex_lock(&dev->ctl);
	if (dev->removing)
		ret = -ENODEV;
	else
		ssdsim_stall(dev, mask);
	mutex_unlock(&dev->ctl);
	return ret;
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
			ssdsim_abort_all(dev, ssdsim_mix(dev->seed + dev->cuts++) | 1);
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
 * The work takes locks that the removal of the disk holds while it waits for this attribute's
 * store. So this must not wait for the work in a way that removal cannot end. Removal cancels the
 * work before it deletes the disk, and wakes this.
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

void ssdsim_request_init(struct ssdsim_dev *dev)
{
	dev->powered = true;
	dev->armed_ns = SSDSIM_NEVER;
	spin_lock_init(&dev->lock);
	spin_lock_init(&dev->store_lock);
	mutex_init(&dev->ctl);
	INIT_WORK(&dev->queues_work, queues_work);
	init_waitqueue_head(&dev->queues_wait);
	hrtimer_setup(&dev->timer, ssdsim_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}
