/* SPDX-License-Identifier: GPL-2.0 */
/*
 * urgent.h - requests that other tenants wait for
 *
 * A tenant that is held back can hold what everyone needs: a file system's metadata is read and
 * written under locks that all its users take, and memory is short until a page is swapped out. So
 * a scheduler that holds back such a request holds back tenants that are owed service. These
 * requests are urgent:
 *
 *  - REQ_META and REQ_PRIO: metadata, and a journal's own blocks
 *  - REQ_SWAP: pages that are swapped out; what swaps one in has no flag
 *  - what a task sends while it reclaims memory (PF_MEMALLOC)
 *  - what a journal's commit waits for: in ordered mode jbd2 writes the data of files before it
 *    commits. These are synchronous writes of a kernel thread that is no worker. REQ_IDLE tells
 *    direct writes, which a thread may pass on for a task (dm-crypt), from those of the page cache.
 *
 * Only reads and writes are: a discard, or zeroing, is slow, and nobody waits for it.
 *
 * The task that submits is known in limit_depth, in bio_merge and in prepare_request, not later. A
 * scheduler that asks when a request is inserted takes down current->flags in prepare_request. A
 * plug may hold requests that were prepared before its task began to reclaim: these are missed.
 */
#ifndef MQFAIR_BLK_URGENT_H
#define MQFAIR_BLK_URGENT_H

#include <linux/blk_types.h>
#include <linux/sched.h>

#define URGENT_OPF	(REQ_META | REQ_PRIO | REQ_SWAP)
#define URGENT_TASK	(PF_MEMALLOC | PF_KTHREAD)

/* For urgent_is(): one of its masks has matched. */
static inline bool urgent_is_really(blk_opf_t opf, unsigned int task_flags)
{
	enum req_op op = opf & REQ_OP_MASK;

	if (op != REQ_OP_READ && op != REQ_OP_WRITE)
		return false;
	if ((opf & URGENT_OPF) || (task_flags & PF_MEMALLOC))
		return true;
	return !(task_flags & PF_WQ_WORKER) && op_is_write(opf) &&
	       (opf & (REQ_SYNC | REQ_IDLE)) == REQ_SYNC;
}

/**
 * urgent_is() - do others wait for a bio or request?
 * @opf:	its operation and flags
 * @task_flags:	flags of the task that submits it
 */
static inline bool urgent_is(blk_opf_t opf, unsigned int task_flags)
{
	if (likely(!(opf & URGENT_OPF) && !(task_flags & URGENT_TASK)))
		return false;
	return urgent_is_really(opf, task_flags);
}

#endif /* MQFAIR_BLK_URGENT_H */
