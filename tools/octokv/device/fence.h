/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fence.h - one octokvd per device, even where several hosts reach it
 *
 * See fence.c. A process has one fence.
 */
#ifndef OKV_FENCE_H
#define OKV_FENCE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * fence_take() - reserve the device for this host
 * @fd:		the device, open for writing; or a file, which is left alone
 * @name:	of it, for fence_lost()
 * @preempts:	take it from the host that has it
 * @why:	a sentence, if it fails
 * @bytes:	of @why
 *
 * Call it before anything is read: another host's reservation refuses reads, too.
 *
 * Return: true if the device is ours, or knows no reservations.
 */
bool fence_take(int fd, const char *name, bool preempts, char *why, size_t bytes);

/*
 * If the device was another host's before, or may have been: waits until that host knows, or has
 * not heard from the drive for so long that it answers nothing any more. Some seconds at most.
 */
void fence_settle(void);

/* Looks once a second whether the device is still ours, in a thread; ends octokvd if not. */
void fence_watch(void);

/*
 * False: the drive has not answered for seconds whose it is, and another host may serve by now. Any
 * thread.
 */
bool fence_is_sure(void);

/* Gives the device back if it was free before: another host may take it without --preempt. */
void fence_give(void);

/* Another host has reserved the device: ends octokvd at once. Any thread. */
__attribute__((noreturn)) void fence_lost(void);

#endif
