// SPDX-License-Identifier: GPL-2.0
/*
 * k2_policy.c - which request goes next, and how many may be at the device
 *
 * The half of the policy that runs under the scheduler's lock. k2_policy.h says what the
 * operations mean and which of them may meet; k2.c says why the policy is what it is.
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

	/*
	 * No barrier: the count rises under our lock only. If it falls behind our back, the
	 * release() that lowers it sees the mask that we hold in our hands and wakes somebody.
	 */
	if ((u32)atomic_read(&p->inflight) >= READ_ONCE(p->max_inflight))
		return K2_NO_QUEUE;

	if (k2_policy_be_overdue(p, now_ns, be_at_ns))
		return K2_BE_QUEUE;
	return __ffs(p->nonempty);
}

struct list_head *k2_policy_take(struct k2_policy *p, unsigned int queue)
{
	struct list_head *entry = p->fifo[queue].next;

	k2_policy_remove(p, entry, queue);
	atomic_inc(&p->inflight);
	return entry;
}
