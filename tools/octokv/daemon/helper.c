// SPDX-License-Identifier: GPL-2.0
/* helper.c - see helper.h */
#include <errno.h>
#include <string.h>

#include "helper.h"
#include "device/ring.h"
#include "server/auth.h"
#include "server/clock.h"
#include "store/mem.h"

enum { RING_ENTRIES = 8 };

static void send_back(struct helper *c, struct kv_msg *msg)
{
	struct io_uring_sqe *sqe = ring_sqe(&c->ring);
	struct io_uring_cqe *cqe;
	uint16_t home = msg->home;

	/* From the post on, the message is the reactor's. */
	mailbox_add(&c->to[home], msg);
	mailbox_post(&c->to[home]);
	io_uring_prep_msg_ring(sqe, c->ring_fds[home], 0, TAG_WAKE, 0);
	if (io_uring_submit_and_wait(&c->ring, 1) >= 0 && !io_uring_peek_cqe(&c->ring, &cqe))
		io_uring_cqe_seen(&c->ring, cqe);
	pthread_mutex_lock(&c->mutex);
	c->nr--;
	pthread_mutex_unlock(&c->mutex);
}

/* Send back what is due by @now. */
static void send_late(struct helper *c, uint64_t now)
{
	while (c->nr_late && c->late[c->late_first].at_ns <= now) {
		send_back(c, c->late[c->late_first].msg);
		c->late_first = (c->late_first + 1) % HELPER_MAX;
		c->nr_late--;
	}
}

/* The next message; NULL: something is due, or this is the end. */
static struct kv_msg *take(struct helper *c, bool *ends)
{
	struct timespec until = { 0 };
	struct kv_msg *msg;

	if (c->nr_late) {
		until.tv_sec = c->late[c->late_first].at_ns / 1000000000;
		until.tv_nsec = c->late[c->late_first].at_ns % 1000000000;
	}
	pthread_mutex_lock(&c->mutex);
	while (!c->first && !c->stopping) {
		if (!c->nr_late)
			pthread_cond_wait(&c->more, &c->mutex);
		else if (pthread_cond_timedwait(&c->more, &c->mutex, &until) == ETIMEDOUT)
			break;
	}
	msg = c->first;
	if (msg)
		c->first = msg->next;
	*ends = c->stopping && !msg;
	pthread_mutex_unlock(&c->mutex);
	return msg;
}

static bool do_work(struct helper *c, struct kv_msg *msg)
{
	bool late;

	pthread_mutex_lock(&c->working);
	late = c->work(msg);
	pthread_mutex_unlock(&c->working);
	return late;
}

void helper_pause(struct helper *c, bool pause)
{
	if (pause)
		pthread_mutex_lock(&c->working);
	else
		pthread_mutex_unlock(&c->working);
}

static void *helper_main(void *argument)
{
	struct helper *c = argument;
	bool ends = false;

	while (!ends) {
		struct kv_msg *msg = take(c, &ends);
		uint32_t last = (c->late_first + c->nr_late) % HELPER_MAX;

		if (msg && do_work(c, msg)) {
			c->late[last].msg = msg;
			c->late[last].at_ns = clock_ns(CLOCK_MONOTONIC) + AUTH_LATE_MS * 1000000ULL;
			c->nr_late++;
		} else if (msg) {
			send_back(c, msg);
		}
		send_late(c, ends ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC));
	}
	return NULL;
}

bool helper_add(struct helper *c, struct kv_msg *msg)
{
	bool takes;

	pthread_mutex_lock(&c->mutex);
	takes = c->nr < HELPER_MAX;
	if (takes) {
		msg->next = NULL;
		if (c->first)
			c->last->next = msg;
		else
			c->first = msg;
		c->last = msg;
		c->nr++;
		pthread_cond_signal(&c->more);
	}
	pthread_mutex_unlock(&c->mutex);
	return takes;
}

int helper_start(struct helper *c, const int *ring_fds, bool (*work)(struct kv_msg *msg))
{
	pthread_condattr_t monotonic;
	int error = -io_uring_queue_init(RING_ENTRIES, &c->ring, 0);

	if (error)
		return error;
	c->ring_fds = ring_fds;
	c->work = work;
	c->to = mem_aligned(64, sizeof(*c->to) * MAX_WORKERS);
	memset(c->to, 0, sizeof(*c->to) * MAX_WORKERS);
	pthread_mutex_init(&c->mutex, NULL);
	pthread_mutex_init(&c->working, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return pthread_create(&c->thread, NULL, helper_main, c);
}

void helper_stop(struct helper *c)
{
	pthread_mutex_lock(&c->mutex);
	c->stopping = true;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->mutex);
	pthread_join(c->thread, NULL);
	io_uring_queue_exit(&c->ring);
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->mutex);
	pthread_mutex_destroy(&c->working);
	mem_free(c->to);
}
