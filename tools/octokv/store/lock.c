// SPDX-License-Identifier: GPL-2.0
/*
 * lock.c - which operation may go on with a key
 *
 * Locks. The index tells keys apart by identity only, so identities exclude each other: any number
 * of readers, or one writer, in the order of submission. A writer keeps its lock until its record
 * is durable. So no client reads what a power cut could take back. What a writer has found stays
 * true until it has written. A record under a reader does not move: garbage collection is a writer
 * as well, and a segment is used again only when nothing in it is live.
 *
 * Yielding. A writer that waits for room in the log would wait for ever if the move that makes room
 * is that of the record it has locked. So a move does not wait for such a writer: it borrows the
 * lock, and tells the writer where the record is now.
 */
#include "lock.h"
#include "mem.h"

static struct okv_lock **slot_of(struct okv_partition *p, uint64_t identity)
{
	struct okv_lock **at = &p->locks[(identity ^ identity >> OKV_TAG_BITS) % OKV_NR_LOCK_LISTS];

	while (*at && (*at)->identity != identity)
		at = &(*at)->next;
	return at;
}

static bool admits(const struct okv_lock *lock, const struct okv_op *op)
{
	return !lock->writer &&
	       (!lock->nr_readers || (okv_lock_is_shared(op) && !lock->moves.head));
}

static void hold(struct okv_lock *lock, struct okv_op *op)
{
	if (okv_lock_is_shared(op))
		lock->nr_readers++;
	else
		lock->writer = op;
}

void okv_lock_lend(struct okv_lock *lock, struct okv_op *move)
{
	move->yielder = lock->writer;
	lock->writer = move;
}

bool okv_lock_take(struct okv_partition *p, struct okv_op *op)
{
	uint64_t identity = okv_index_identity(&p->index, op->hash);
	struct okv_lock **at = slot_of(p, identity), *lock;

	if (!*at) {
		*at = mem_zalloc(sizeof(**at));
		(*at)->identity = identity;
	}
	lock = *at;
	op->lock = lock;
	if (op->kind == OKV_OP_RELOCATE && lock->writer && !lock->is_ending &&
	    lock->writer->kind == OKV_OP_HOLD && !lock->writer->present) {
		lock->writer->lent = true;
		okv_lock_lend(lock, op);
	} else if (op->kind == OKV_OP_RELOCATE && lock->writer && !lock->is_ending &&
		   lock->writer->queued && lock->writer->kind != OKV_OP_HOLD &&
		   lock->writer->kind != OKV_OP_RELOCATE) {
		okv_log_withdraw(lock->writer);
		okv_lock_lend(lock, op);
	} else if (op->kind == OKV_OP_RELOCATE && !admits(lock, op)) {
		okv_queue_add(&lock->moves, op);
		return false;
	} else if (lock->waiting.head || !admits(lock, op)) {
		okv_queue_add(&lock->waiting, op);
		return false;
	} else {
		hold(lock, op);
	}
	return true;
}

bool okv_lock_yield(struct okv_op *op)
{
	struct okv_op *move = op->kind == OKV_OP_RELOCATE || !op->lock ? NULL :
			      okv_queue_take(&op->lock->moves);

	if (move) {
		okv_lock_lend(op->lock, move);
		okv_queue_add(&op->partition->ready, move);
	}
	return move;
}

void okv_lock_release(struct okv_partition *p, struct okv_lock *lock, bool was_shared)
{
	struct okv_lock **at;
	struct okv_op *op;

	lock->is_ending = false;
	if (was_shared)
		lock->nr_readers--;
	else
		lock->writer = NULL;
	if (!lock->writer && !lock->nr_readers && lock->moves.head) {
		op = okv_queue_take(&lock->moves);
		hold(lock, op);
		okv_queue_add(&p->ready, op);
	}
	while (lock->waiting.head && admits(lock, lock->waiting.head)) {
		op = okv_queue_take(&lock->waiting);
		hold(lock, op);
		okv_queue_add(&p->ready, op);
	}
	if (!lock->nr_readers && !lock->writer) {
		at = slot_of(p, lock->identity);
		*at = lock->next;
		mem_free(lock);
	}
}
