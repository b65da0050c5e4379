// SPDX-License-Identifier: GPL-2.0
/*
 * k2_wakeup.c - mq-k2's promise that no wake-up is lost, under real threads
 *
 * Submitters send or queue one entry each and wait until it is completed. A worker dispatches when
 * it is woken, and a completer releases what is in flight. In the second half a tuner changes the
 * bound. Each follows the rules of k2_policy.c: an insert asks has_work, a release that returns
 * true wakes, and a change of the bound asks has_work. No thread asks twice. So the next request
 * does not make up for a lost wake-up: everything stands still, and the main thread notices that
 * and fails.
 *
 * The lock is a spinlock whose unlock is a release store, as the kernel's is: pthread's would
 * hide a missing barrier behind its own. What a processor may reorder but this one does not is
 * left to the litmus tests in ../models.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../mq-k2/k2_policy.c"

enum {
	NR_SUBMITTERS	= 3,
	NR_ROUNDS	= 15000,	/* per submitter and half */
	NR_TUNES	= 10000,
	STALL_MS	= 5000,
};

struct entry {
	struct list_head node;
	struct entry *next;
	int completed;
};

static struct k2_policy policy;
static struct entry entries[NR_SUBMITTERS];
/* A stack: the worker pushes, the completers empty it. */
static struct entry *at_device;
static int lock, kicks, done, nr_completed;

static void lock_policy(void)
{
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_policy(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static void kick(void)
{
	__atomic_add_fetch(&kicks, 1, __ATOMIC_SEQ_CST);
}

static void send_to_device(struct entry *entry)
{
	entry->next = __atomic_load_n(&at_device, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&at_device, &entry->next, entry, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void dispatch_all(void)
{
	while (k2_policy_has_work(&policy)) {
		struct list_head *node = NULL;
		int queue;

		lock_policy();
		queue = k2_policy_pick(&policy, 0, 0);
		if (queue != K2_NO_QUEUE)
			node = k2_policy_take(&policy, queue);
		unlock_policy();
		if (node)
			send_to_device(list_entry(node, struct entry, node));
	}
}

static void *worker(void *unused)
{
	int seen = 0;

	while (!READ_ONCE(done)) {
		int now = __atomic_load_n(&kicks, __ATOMIC_SEQ_CST);

		if (now == seen) {
			sched_yield();
			continue;
		}
		seen = now;
		dispatch_all();
	}
	return unused;
}

static void *submitter(void *data)
{
	struct entry *entry = data;
	unsigned int queue = entry - entries, i;

	for (i = 0; i < NR_ROUNDS; i++) {
		WRITE_ONCE(entry->completed, 0);
		if (k2_policy_pass(&policy, 1)) {
			send_to_device(entry);
		} else {
			lock_policy();
			k2_policy_insert(&policy, &entry->node, queue, false);
			unlock_policy();
			if (k2_policy_has_work(&policy))
				kick();
		}
		while (!__atomic_load_n(&entry->completed, __ATOMIC_ACQUIRE))
			sched_yield();
	}
	return NULL;
}

static void *completer(void *unused)
{
	while (!READ_ONCE(done)) {
		struct entry *entry = __atomic_exchange_n(&at_device, NULL, __ATOMIC_ACQUIRE);

		if (!entry)
			sched_yield();
		while (entry) {
			struct entry *next = entry->next;

			if (k2_policy_release(&policy))
				kick();
			nr_completed++;
			__atomic_store_n(&entry->completed, 1, __ATOMIC_RELEASE);
			entry = next;
		}
	}
	return unused;
}

static void *tuner(void *unused)
{
	unsigned int i;

	for (i = 0; i < NR_TUNES && !READ_ONCE(done); i++) {
		k2_policy_set_max_inflight(&policy, 1 + i * 7 % 3);
		if (k2_policy_has_work(&policy))
			kick();
		sched_yield();
	}
	return unused;
}

static void wait_for(int target)
{
	int before = -1, still_ms = 0, now;

	while ((now = READ_ONCE(nr_completed)) < target) {
		still_ms = now == before ? still_ms + 10 : 0;
		if (still_ms > STALL_MS) {
			printf("not ok 1 k2_wakeup # stands still: %d completed, %u queued, "
			       "%d in flight, bound %u\n", now, policy.nr_queued_total,
			       atomic_read(&policy.inflight),
			       policy.max_inflight);
			exit(1);
		}
		before = now;
		usleep(10000);
	}
}

/* Every submitter's rounds, with a tuner or with the bound at 1. */
static void run_half(bool with_tuner)
{
	pthread_t threads[NR_SUBMITTERS], tuning;
	unsigned int i;

	k2_policy_set_max_inflight(&policy, 1);
	nr_completed = 0;
	if (with_tuner)
		pthread_create(&tuning, NULL, tuner, NULL);
	for (i = 0; i < NR_SUBMITTERS; i++)
		pthread_create(&threads[i], NULL, submitter, &entries[i]);
	wait_for(NR_SUBMITTERS * NR_ROUNDS);
	for (i = 0; i < NR_SUBMITTERS; i++)
		pthread_join(threads[i], NULL);
	if (with_tuner)
		pthread_join(tuning, NULL);
}

int main(void)
{
	pthread_t threads[2];

	k2_policy_init(&policy, 1);
	pthread_create(&threads[0], NULL, worker, NULL);
	pthread_create(&threads[1], NULL, completer, NULL);
	run_half(false);
	run_half(true);
	WRITE_ONCE(done, 1);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);

	if (policy.nr_queued_total || policy.nonempty || atomic_read(&policy.inflight)) {
		printf("not ok 1 k2_wakeup # left behind: %u queued, %d in flight\n",
		       policy.nr_queued_total, atomic_read(&policy.inflight));
		return 1;
	}
	printf("TAP version 13\n1..1\nok 1 k2_wakeup\n");
	return 0;
}
