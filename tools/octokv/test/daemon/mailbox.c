// SPDX-License-Identifier: GPL-2.0
/*
 * mailbox.c - a sender and a receiver at full speed: all mail arrives in order, no wake is missed
 *
 * The receiver sleeps on a semaphore, as a reactor sleeps on its ring, and takes the mail only
 * after a wake. The sender posts batches of random size. Now and then it waits until all has
 * arrived, so that the receiver does fall asleep. A missed wake is a hang: the alarm ends it. A
 * watcher, which takes nothing, checks before that whether the place is ever empty again after a
 * post. To be run under the thread sanitizer.
 */
#include <sched.h>
#include <semaphore.h>
#include <pthread.h>
#include <unistd.h>

#include "daemon/mailbox.h"
#include "test/test.h"

enum { NR_MESSAGES = 100000, LIMIT_S = 300 };

struct numbered {
	struct kv_msg msg;
	uint32_t number;
};

static struct mailbox box;
static struct numbered messages[NR_MESSAGES];
static sem_t wakes;
static uint32_t nr_arrived, nr_wakes, nr_posts;
static bool watching = true, watched;

static void *receive(void *unused)
{
	uint32_t next = 0;

	(void)unused;
	while (next < NR_MESSAGES) {
		sem_wait(&wakes);
		for (struct kv_msg *msg = mailbox_take(&box); msg;) {
			struct kv_msg *after = msg->next;

			EXPECT(((struct numbered *)msg)->number == next);
			next++;
			msg = after;
		}
		__atomic_store_n(&nr_arrived, next, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void *watch(void *unused)
{
	bool posted = false;

	(void)unused;
	while (__atomic_load_n(&watching, __ATOMIC_RELAXED)) {
		bool empty = !__atomic_load_n(&box.place, __ATOMIC_RELAXED);

		EXPECT(!posted || !empty);
		posted |= !empty;
		__atomic_store_n(&watched, true, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* A receiver that finds nothing goes to sleep: mail that is posted must stay there from then on. */
static void test_never_empty(void)
{
	pthread_t thread;

	EXPECT(!pthread_create(&thread, NULL, watch, NULL));
	while (!__atomic_load_n(&watched, __ATOMIC_RELAXED))
		sched_yield();
	for (uint32_t i = 0; i < NR_MESSAGES; i++) {
		mailbox_add(&box, &messages[i].msg);
		EXPECT(mailbox_post(&box) == !i);
	}
	__atomic_store_n(&watching, false, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	mailbox_take(&box);
}

int main(void)
{
	uint64_t random = 1;
	pthread_t thread;
	uint32_t i = 0;

	alarm(LIMIT_S);
	test_never_empty();
	sem_init(&wakes, 0, 0);
	EXPECT(!pthread_create(&thread, NULL, receive, NULL));
	while (i < NR_MESSAGES) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		for (uint32_t batch = 1 + (random >> 40) % 30; batch && i < NR_MESSAGES;
		     batch--, i++) {
			messages[i].number = i;
			mailbox_add(&box, &messages[i].msg);
		}
		nr_posts++;
		if (mailbox_post(&box)) {
			nr_wakes++;
			sem_post(&wakes);
		}
		while ((random >> 50) % 32 == 0 &&
		       __atomic_load_n(&nr_arrived, __ATOMIC_ACQUIRE) < i)
			sched_yield();
	}
	pthread_join(thread, NULL);
	EXPECT(nr_wakes <= nr_posts && !mailbox_take(&box));
	printf("ok server_mailbox: %u messages in %u posts, in order\n", NR_MESSAGES, nr_posts);
	return 0;
}
