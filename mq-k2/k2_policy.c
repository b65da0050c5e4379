// SPDX-License-Identifier: GPL-2.0
/*
 * k2_policy.c - which request goes next, and how many may be at the device
 *
 * The half of the policy that runs under the scheduler's lock. k2_policy.h says what the
 * operations mean and which of them may run at the same time; k2.c says why the policy is as it
 * is.
 *
 * What wakes a waiting request
 * ============================
 * A queue with nothing to do says so in has_work, not by a dispatch that comes back empty. An empty
 * dispatch costs a rerun of all queues 3 ms later. It happens only if two CPUs race for the last
 * slot or the last request, and is harmless. So each request that waits after has_work said no is
 * woken by another event:
 *
 *	it waits because		and is woken by
 *	----------------		---------------
 *	it has just come, or is ready	its insert: blk-mq runs the queue after it
 *	the bound is reached		the release that ends it: finish or requeue
 *	the bound was reached and	the store to max_inflight, or the tick, that raised it
 *	has been raised
 *	its hardware queue is stopped,	the driver or blk-mq: both run the queue when they end that
 *	quiesced, or has leftovers	state
 *	be_max_delay_ms is not over	nothing, see below
 *
 * A deadline needs no timer. It makes a request first in line but makes no slot. If a slot is
 * free, the request is not waiting for its deadline. If none is, the release that frees one asks
 * which request is first in line, and sees the time.
 *
 * Any hardware queue can dispatch any request that waits for a slot, so running one is enough: that
 * of the request that made room, whose CPU is awake and whose cache is warm. If that one is stopped
 * or has leftovers, a run of it would not ask the scheduler; then all are run.
 *
 * Why no wake-up is lost
 * ======================
 * Let Q be the mask of nonempty queues, N the count in flight, M the bound; W and R are write and
 * read, mb is a full barrier. A release reads M and Q after its atomic decrement of N, which is a
 * full barrier; it wakes if it found N = M before and finds Q nonempty. A no because of the bound
 * reads N and M once more after an mb. Races 1, 4 and 6 are also checked against the kernel's
 * memory model by kunit/hosted/models/mq-k2.litmus, result "Never" each.
 *
 * Race 1, an insert against a release:
 *
 *	1. inserter: W Q		release: W N (M to M - 1)
 *	2. inserter: mb			release: mb
 *	3. inserter: R N		release: R Q
 *
 * Of two CPUs that each write, pass a full barrier, and read what the other wrote, at least one
 * sees the other's write. If the inserter does, has_work says yes; if the release does, it wakes;
 * both is harmless.
 *
 * Race 2, a dispatcher that takes the last slot and leaves requests behind, against a release:
 *
 *	1. dispatcher: W N (M - 1 to M), under the lock; then its has_work says no
 *	2. release: W N (M to M - 1); R Q: nonempty, since it was so before step 1
 *
 * N is one variable and its changes have one order. A release that finds less than M comes after
 * one that found M, or before step 1, whose has_work then sees it.
 *
 * Race 3, two releases at once: the first finds N = M and wakes, the second finds M - 1 and does
 * not. One run is enough, since it dispatches until has_work says no. If a dispatch has come
 * between them, both find M and both wake.
 *
 * Race 4, a release against a store to max_inflight or a tick, old bound M, new bound M':
 *
 *	1. store: W M			release: W N
 *	2. store: mb			release: mb
 *	3. store: runs all, R N		release: R M
 *
 * A release that still sees M may judge wrongly, and not only when the bound is raised. When it is
 * lowered, a release of an early place in N's order may see M', one of a later place M, and
 * neither finds its bound met. But if a release did not see M' in step 3, the store sees its N in
 * step 3, with all that came before it, and there has_work judges by M'. Hence the store always
 * runs the queues.
 *
 * Race 5, an insert against a store to max_inflight, which is Race 1 with other letters:
 *
 *	1. inserter: W Q		store: W M
 *	2. inserter: mb			store: mb
 *	3. inserter: R M		store: R Q
 *
 * Race 6, a take without the lock (k2_policy_pass) that gets the last slot, against an
 * inserter or a dispatcher. The take leaves nothing behind and asks for no run. The inserter finds
 * N = M, and one of the M is the request just sent: its release finds N = M and Q nonempty, by the
 * order of Race 1. A dispatcher that had found room comes back empty, and is run again. N only
 * rises by a compare-and-exchange that found room: it never passes an M that is not being lowered.
 *
 * Race 7, a wake-up against a run that is about to end: the run said no before the release. The
 * wake-up queues the work item again while it runs, or finds it queued and not yet started;
 * neither is lost.
 *
 * Race 8, a wake-up against a stop of the hardware queue: the stop cancels the work item. The
 * start of the queue runs it, and has_work is asked then.
 *
 * A release always comes: a no because of the bound means N >= M >= 1, and each of the N is
 * finished or requeued by its driver, by the timeout, or by the removal of the device. A polled
 * request is finished by the task that polls, which may never do so; so it gives its slot back as
 * it is dispatched.
 */
#include <linux/bitops.h>

#include "k2_policy.h"

void k2_policy_init(struct k2_policy *p, u32 max_inflight)
{
	unsigned int i;

	for (i = 0; i < K2_NR_QUEUES; i++) {
		INIT_LIST_HEAD(&p->fifo[i]);
		p->nr_queued[i] = 0;
	}
	p->nr_queued_total = 0;
	p->be_max_delay_ns = 0;
	p->nonempty = 0;
	p->max_inflight = max_inflight;
	atomic_set(&p->inflight, 0);
}

void k2_policy_insert(struct k2_policy *p, struct list_head *entry, unsigned int queue,
		      bool at_head)
{
	if (at_head)
		list_add(entry, &p->fifo[queue]);
	else
		list_add_tail(entry, &p->fifo[queue]);
	p->nr_queued_total++;
	if (!p->nr_queued[queue]++)
		WRITE_ONCE(p->nonempty, p->nonempty | (1U << queue));
}

void k2_policy_remove(struct k2_policy *p, struct list_head *entry, unsigned int queue)
{
	list_del_init(entry);
	p->nr_queued_total--;
	if (!--p->nr_queued[queue])
		WRITE_ONCE(p->nonempty, p->nonempty & ~(1U << queue));
}

static bool k2_policy_be_overdue(const struct k2_policy *p, u64 now_ns, u64 be_at_ns)
{
	if (!k2_policy_needs_time(p) || now_ns <= be_at_ns)
		return false;
	return now_ns - be_at_ns > p->be_max_delay_ns;
}

int k2_policy_pick(const struct k2_policy *p, u64 now_ns, u64 be_at_ns)
{
	if (!p->nonempty)
		return K2_NO_QUEUE;
	if (k2_policy_be_overdue(p, now_ns, be_at_ns))
		return K2_BE_QUEUE;
	return __ffs(p->nonempty);
}

struct list_head *k2_policy_take(struct k2_policy *p, unsigned int queue)
{
	struct list_head *entry = p->fifo[queue].next;

	if (!k2_policy_take_slots(p, 1))
		return NULL;
	k2_policy_remove(p, entry, queue);
	return entry;
}
