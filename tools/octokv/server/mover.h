/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mover.h - a partition goes from one worker to another while it is used
 *
 * Each worker has a map of its own that says which worker owns which partition, and sends requests
 * by it (mover_send). A move has three steps, all by mail. The worker that gives the partition away
 * leads:
 *
 * 1. Pause: every worker keeps what it would send to the partition. When all have answered, all
 *    that was ever sent has arrived here, as mail between two workers keeps its order.
 * 2. Hand over: when the partition has nothing under way, it leaves our store, and the receiver
 *    takes it into its own.
 * 3. Resume: every worker puts the receiver into its map, and sends what it kept, in its order.
 *
 * So no operation meets a worker that does not own its partition, operations of one client on one
 * key keep their order, and there is no lock.
 */
#ifndef OKV_MOVER_H
#define OKV_MOVER_H

#include "server.h"

/* Fills in the map: the first owner of each partition. */
void mover_init(struct worker *w);

/* Sends @msg to the owner of @partition, or keeps it while the partition moves. */
void mover_send(struct worker *w, struct kv_msg *msg, uint32_t partition);

/*
 * Begins a move of our partition; false: another one is under way. Call mover_run() each round
 * while mover_is_busy().
 */
bool mover_begin(struct worker *w, uint32_t partition, uint32_t to);
void mover_run(struct worker *w);

/* Whether a partition that is to leave stays only for operations that wait for their turn. */
bool mover_waits_for_turns(const struct worker *w);

static inline bool mover_is_busy(const struct worker *w)
{
	return w->move || w->nr_orders;
}

/*
 * The monitor: at the end of each window one worker decides. What a worker is told to give away
 * goes one partition after the other.
 */
void mover_window(struct worker *w, uint64_t busy_ns);

#endif
