/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mover.h - a partition goes from one worker to another while it is used
 *
 * Each worker has a map of its own of who owns which partition, and sends requests by it (mover_send). A move goes in three steps, all by mail,
 * led by the worker that gives away:
 *
 *	1. pause	every worker keeps what it would send to the partition. When all have said so, all that was ever sent has arrived here, as
 *			mail between two workers keeps its order.
 *	2. hand over	when the partition has nothing under way it leaves our store, and the receiver takes it into its own.
 *	3. resume	every worker puts the receiver into its map, and sends what it kept, in the order in which it was asked for.
 *
 * So no operation meets a worker that does not own its partition, operations of one client on one key keep their order, and there is no lock.
 */
#ifndef OKV_MOVER_H
#define OKV_MOVER_H

#include "server.h"

/* The map and the partitions' first owners. */
void mover_init(struct worker *w);

/* Sends @msg to the owner of @partition, or keeps it while that one moves. */
void mover_send(struct worker *w, struct kv_msg *msg, uint32_t partition);

/* Begins a move of our partition; false: another one is under way. mover_run() is to be called each round while mover_is_busy(). */
bool mover_begin(struct worker *w, uint32_t partition, uint32_t to);
void mover_run(struct worker *w);

static inline bool mover_is_busy(const struct worker *w)
{
	return w->move || w->nr_orders;
}

/* The monitor: at the end of each window it decides, if it is our turn, and what we are told to give away is given away by and by. */
void mover_window(struct worker *w, uint64_t busy_ns);

#endif
