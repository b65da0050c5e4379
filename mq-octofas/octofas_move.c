// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_move.c - moving a request to another hardware queue
 *
 * The ways that blk-mq offers are compared in octofas.c. This is the one that was chosen: a request
 * that has just come gives its bios back, and is ended, empty; a courier, a work item on a CPU of
 * the other hardware queue, submits the bios again. They get a request, a scheduler tag and a
 * driver tag of that queue, its interrupt, and the CPU work behind it.
 *
 * The life of a parcel
 * ====================
 *	insert		takes the bios, ends the request, which gives up its reference on the queue
 *	on its way	like a bio that io.max holds: accepted, and not yet in the queue
 *	courier		submit_bio_noacct(), which enters the queue and may have to wait to do so
 *	insert		sees by current_work() that a courier is at work, takes from its parcel
 *			when the bios came, to which queue, and for which flow, and moves
 *			nothing a second time
 *
 * A parcel must not have a reference on the queue: a freeze would wait for it, while the courier
 * waited at the gate for the end of the freeze. So a queue can be frozen, and its scheduler be
 * gone, while parcels are on their way. That is why couriers do not belong to the scheduler: one
 * that is under way holds them all, and exit_sched waits for none of them. When the queue thaws the
 * bios go to whatever scheduler is there then. The module cannot go before its last courier: its
 * exit drains the workqueue. If the device is removed, the gate itself ends the bios, with an
 * error. The disk and its queue outlive the bios, since their submitter holds the device open until
 * they end. That is not so for a path of NVMe multipath: there the head is open, and its bios are
 * marked with REQ_DRV. They stay: a queued request fails over to another path, a bio at the gate
 * would not.
 *
 * Memory. If there is none for a parcel the request stays. So does what others wait for, such as
 * swap (blk/urgent.h): no task's memory waits for a worker of ours. The workqueue has a rescuer,
 * one for all devices. Where a disk lies over another disk of the same machine (an NVMe target over
 * loopback), both have couriers, and no worker can be made, the upper one's courier may keep the
 * rescuer from the lower one's: attach mq-octofas to one of the two.
 *
 * What else must hold, and does
 * =============================
 *  - A partition's offset is added once (BIO_REMAPPED), and bytes are charged to a cgroup once
 *    (BIO_CGROUP_ACCT). /proc/diskstats counts a request that moves twice.
 *  - What has passed io.max (BIO_BPS_THROTTLED) stays: io.max would count it again, and might hold
 *    it again, to submit it from a worker that is no courier, from where it would move once more.
 *  - Other code that counts bios in the block layer (io.cost, io.latency) would be misled. While it
 *    is in use nothing moves.
 *  - A request with more than one bio is submitted within a plug, where its bios are merged again.
 *  - REQ_NOWAIT has been answered: the request had its tag, and its submitter gets no second
 *    answer.
 */
#include <linux/bio.h>
#include <linux/blk-crypto.h>
#include <linux/blk-integrity.h>
#include <linux/cpumask.h>
#include <linux/slab.h>

#include "blk/urgent.h"
#include "octofas.h"
#include "trace.h"

static struct workqueue_struct *octofas_wq;
static struct kmem_cache *octofas_parcels;

void octofas_couriers_put(struct octofas_couriers *set)
{
	if (refcount_dec_and_test(&set->refs))
		kvfree(set);
}

static struct octofas_parcel *octofas_next_parcel(struct octofas_courier *c)
{
	struct octofas_parcel *parcel;

	spin_lock(&c->lock);
	parcel = list_first_entry_or_null(&c->parcels, struct octofas_parcel, link);
	if (parcel)
		list_del(&parcel->link);
	spin_unlock(&c->lock);
	return parcel;
}

static void octofas_deliver(struct octofas_parcel *parcel)
{
	struct blk_plug plug;
	struct bio *bio;

	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&parcel->bios))) {
		bio->bi_opf &= ~REQ_NOWAIT;
		submit_bio_noacct(bio);
	}
	blk_finish_plug(&plug);
}

static void octofas_courier_work(struct work_struct *work)
{
	struct octofas_courier *c = container_of(work, struct octofas_courier, work);
	struct octofas_parcel *parcel;

	while ((parcel = octofas_next_parcel(c))) {
		c->parcel = parcel;
		atomic_dec(&c->coming);
		octofas_deliver(parcel);
		c->parcel = NULL;
		kmem_cache_free(octofas_parcels, parcel);
	}
	octofas_couriers_put(c->set);
}

struct octofas_parcel *octofas_parcel(void)
{
	struct work_struct *work;

	if (!(current->flags & PF_WQ_WORKER))
		return NULL;
	work = current_work();
	if (!work || work->func != octofas_courier_work)
		return NULL;
	return container_of(work, struct octofas_courier, work)->parcel;
}

struct octofas_couriers *octofas_couriers_alloc(u32 nr)
{
	struct octofas_couriers *set = kvzalloc(struct_size(set, courier, nr), GFP_KERNEL);
	u32 i;

	if (!set)
		return NULL;
	refcount_set(&set->refs, 1);
	for (i = 0; i < nr; i++) {
		INIT_WORK(&set->courier[i].work, octofas_courier_work);
		spin_lock_init(&set->courier[i].lock);
		INIT_LIST_HEAD(&set->courier[i].parcels);
		set->courier[i].set = set;
	}
	return set;
}

/* A queue that others' requests can be given to: of the usual kind, with a CPU to submit from. */
bool octofas_is_usable(const struct blk_mq_hw_ctx *hctx)
{
	return hctx->type == HCTX_TYPE_DEFAULT &&
	       cpumask_any_and(hctx->cpumask, cpu_online_mask) < nr_cpu_ids;
}

/* io.cost and io.latency keep books on bios. */
static bool octofas_counts_bios(const struct request_queue *q)
{
	const struct rq_qos *qos;

	for (qos = READ_ONCE(q->rq_qos); qos; qos = qos->next)
		if (qos->id != RQ_QOS_WBT)
			return true;
	return false;
}

int octofas_obstacle(struct octofas_data *od, struct request *rq, u32 target)
{
	if ((rq->rq_flags & RQF_FLUSH_SEQ) || rq->end_io || (rq->cmd_flags & REQ_PREFLUSH))
		return OCTOFAS_FIXED_FLUSH;
	if ((req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE) || !rq->bio ||
	    (rq->cmd_flags & REQ_POLLED))
		return OCTOFAS_FIXED_KIND;
	if (rq->rq_flags & (RQF_STARTED | RQF_DONTPREP | RQF_SPECIAL_PAYLOAD))
		return OCTOFAS_FIXED_STARTED;
	if (bio_has_crypt_ctx(rq->bio) || blk_integrity_rq(rq))
		return OCTOFAS_FIXED_DATA;
	if (blk_queue_is_zoned(rq->q) || octofas_counts_bios(rq->q) || (rq->cmd_flags & REQ_DRV))
		return OCTOFAS_FIXED_DEVICE;
	if (bio_flagged(rq->bio, BIO_BPS_THROTTLED))
		return OCTOFAS_FIXED_LIMITED;
	if (urgent_is(rq->cmd_flags, current->flags))
		return OCTOFAS_FIXED_URGENT;
	if (rq->mq_hctx->type != HCTX_TYPE_DEFAULT || !octofas_is_usable(od->hctx[target]))
		return OCTOFAS_FIXED_QUEUE;
	return -1;
}

bool octofas_move(struct octofas_data *od, struct request *rq, u32 target, u64 key, u64 came_ns)
{
	struct octofas_courier *c = &od->couriers->courier[target];
	struct octofas_parcel *parcel;
	unsigned int cpu;

	parcel = kmem_cache_alloc(octofas_parcels, GFP_NOWAIT | __GFP_NOWARN);
	if (!parcel)
		return false;
	parcel->key = key;
	parcel->came_ns = came_ns;
	parcel->home = rq->mq_hctx->queue_num;
	bio_list_init(&parcel->bios);
	trace_octofas_migrate(rq, parcel->home, target, key);
	blk_steal_bios(&parcel->bios, rq);
	list_del_init(&rq->queuelist);
	__blk_mq_end_request(rq, BLK_STS_OK);

	atomic_inc(&c->coming);
	spin_lock(&c->lock);
	list_add_tail(&parcel->link, &c->parcels);
	spin_unlock(&c->lock);
	/* A work that is queued has a reference; one that is queued already finds the parcel. */
	refcount_inc(&od->couriers->refs);
	cpu = cpumask_any_and(od->hctx[target]->cpumask, cpu_online_mask);
	if (!queue_work_on(cpu < nr_cpu_ids ? cpu : WORK_CPU_UNBOUND, octofas_wq, &c->work))
		octofas_couriers_put(od->couriers);
	return true;
}

int octofas_move_init(void)
{
	octofas_parcels = KMEM_CACHE(octofas_parcel, 0);
	if (!octofas_parcels)
		return -ENOMEM;
	octofas_wq = alloc_workqueue("mq-octofas", WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_PERCPU, 0);
	if (octofas_wq)
		return 0;
	kmem_cache_destroy(octofas_parcels);
	return -ENOMEM;
}

void octofas_move_exit(void)
{
	destroy_workqueue(octofas_wq);
	kmem_cache_destroy(octofas_parcels);
}
