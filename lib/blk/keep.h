/* SPDX-License-Identifier: GPL-2.0 */
/*
 * keep.h - what was set or found for a disk survives the scheduler
 *
 * The kernel detaches a scheduler and attaches it again when the number of hardware queues
 * changes, which for NVMe over Fabrics is each reset or reconnection of the controller; and users
 * switch schedulers. Its data goes with it. So each pair of a disk and a scheduler has a struct
 * keep, which lives in mqfair_lib until the disk is gone, that is until its device is deleted. A
 * disk that comes later with the same name or number starts with the defaults.
 *
 *	init_sched	keep_get(), then keep_restore() when the tunables can be set
 *	exit_sched	keep_save() while the tunables can be shown, then keep_put()
 *
 * The tunables come from the scheduler's own table (elevator_attrs). keep_save() takes down what
 * each file shows, and keep_restore() writes it to the same file. A file that shows several lines
 * is a list; its scheduler keeps it in @numbers. A file that shows one line must take it back. What
 * a file showed before is dropped.
 *
 * A keep of a queue without a disk is an ordinary one that nothing finds again.
 *
 * Locking: keep_get(), keep_save(), keep_restore() and keep_put() are called with the queue frozen,
 * so no allocation here waits for reclaim. One scheduler at a time has a keep: the one that is
 * attached. keep_lock guards the list of disks and the lists of their keeps; only the lock of a
 * device's resources is taken inside it.
 */
#ifndef MQFAIR_BLK_KEEP_H
#define MQFAIR_BLK_KEEP_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/xarray.h>

#include "compat.h"

/**
 * struct keep - what is kept for a scheduler on a disk
 * @numbers:	for the scheduler, empty at first: numbers by index, which may change at any time.
 *		Allocate with GFP_NOIO: a store to a tunable may be waited for with the queue frozen
 * @found:	for the scheduler, zero at first: values that it found by itself
 * @found_size:	of @found, as the scheduler said; if another version says something else, @found
 *		is made again
 * @ref:	the disk's and the attached scheduler's
 * @node:	among the keeps of the disk
 * @texts:	what the tunables showed
 * @name:	the scheduler's
 */
struct keep {
	struct xarray numbers;
	void *found;
	size_t found_size;
	struct kref ref;
	struct list_head node;
	struct list_head texts;
	char name[ELV_NAME_MAX];
};

/**
 * keep_get() - what is kept for the disk of @q and the scheduler @eq
 * @q:		queue
 * @eq:		scheduler that is being attached; its type is known
 * @found_size:	bytes that keep->found shall have
 *
 * Return: a keep, empty if nothing is known; NULL without memory. keep_put() has to follow.
 */
struct keep *keep_get(struct request_queue *q, const struct elevator_queue *eq, size_t found_size);

/* The scheduler does not use @k any more. */
void keep_put(struct keep *k);

/* Writes what is kept to the tunables of @eq. A text that its file refuses has no effect. */
void keep_restore(const struct keep *k, struct elevator_queue *eq);

/* Takes down what the tunables of @eq show. */
void keep_save(struct keep *k, struct elevator_queue *eq);

/* mqfair_lib is being unloaded: forgets everything. */
void keep_exit(void);

#endif /* MQFAIR_BLK_KEEP_H */
