/* SPDX-License-Identifier: GPL-2.0 */
/* lock.h - which operation may go on with a key: see lock.c */
#ifndef OKV_LOCK_H
#define OKV_LOCK_H

#include "partition.h"

/* Does it only read? Then others that do may go on with the key at the same time. */
static inline bool okv_lock_is_shared(const struct okv_op *op)
{
	return op->kind == OKV_OP_GET || op->kind == OKV_OP_STAT || op->kind == OKV_OP_KEYS;
}

/* True if @op has the lock of its identity now. Else it waits, and goes to p->ready in its turn. */
bool okv_lock_take(struct okv_partition *p, struct okv_op *op);

/* An operation that had it is over. Those whose turn it is go to p->ready. */
void okv_lock_release(struct okv_partition *p, struct okv_lock *lock, bool was_shared);

/* @move has the lock until it ends; then its writer has it again. */
void okv_lock_lend(struct okv_lock *lock, struct okv_op *move);

/* If a move waits for the lock of @op, which is about to wait for room: it goes to p->ready. */
bool okv_lock_yield(struct okv_op *op);

#endif
