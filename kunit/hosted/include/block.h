/* SPDX-License-Identifier: GPL-2.0 */
/*
 * block.h - what blk/urgent.h has of the kernel's headers, for the user-space build
 *
 * The numbers are not the kernel's; what matters is that they differ.
 */
#ifndef HOSTED_BLOCK_H
#define HOSTED_BLOCK_H

#include "hosted.h"

/* ---- linux/blk_types: operations and their flags ---- */

typedef u32 blk_opf_t;

enum req_op {
	REQ_OP_READ		= 0,
	REQ_OP_WRITE		= 1,
	REQ_OP_FLUSH		= 2,
	REQ_OP_DISCARD		= 3,
	REQ_OP_SECURE_ERASE	= 5,
	REQ_OP_WRITE_ZEROES	= 9,
};

enum {
	REQ_OP_MASK		= 255,
	REQ_SYNC		= 1 << 11,
	REQ_META		= 1 << 12,
	REQ_PRIO		= 1 << 13,
	REQ_IDLE		= 1 << 15,
	REQ_FUA			= 1 << 17,
	REQ_RAHEAD		= 1 << 19,
	REQ_SWAP		= 1 << 24,
};

static inline bool op_is_write(blk_opf_t opf)
{
	return opf & 1;
}

/* ---- linux/sched: flags of a task ---- */

enum {
	PF_WQ_WORKER	= 0x20,
	PF_MEMALLOC	= 0x800,
	PF_KSWAPD	= 0x20000,
	PF_KTHREAD	= 0x200000,
};

#endif /* HOSTED_BLOCK_H */
