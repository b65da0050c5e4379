// SPDX-License-Identifier: GPL-2.0
/* helper.c - see helper.h */
#include <errno.h>
#include <string.h>

#include "helper.h"
#include "device/ring.h"
#include "server/clock.h"
#include "store/mem.h"

enum { RING_ENTRIES = 8 };

static void send_back(struct helper *h, struct kv_msg *msg)
{
	struct io_uring_sqe *sqe = ring_sqe(&h->ring);
	struct io_uring_cqe *cqe;
	uint16_t home = msg->home;

	/* From the post on, the message is the reactor's. */
	mailbox_add(&h->to[home], msg);
	mailbox_post(&h->to[home]);
	io_uring_prep_msg_ring(sqe, h->ring_fds[home], 0, TAG_WAKE, 0);
	if (io_uring_submit_and_wait(&h->ring, 1) >= 0 && !io_uring_peek_cqe(&h->ring, &cqe))
		io_uring_cqe_seen(&h->ring, cqe);
	pthread_mutex_lock(&h->mutex);
	h->nr--;
	pthread_mutex_unlock(&h->mutex);
}

/* Send back what is due by @now. */
static void send_late(struct helper *h, uint64_t now)
{
	while (h->nr_late && h->late[h->late_first].at_ns <= now) {
		send_back(h, h->late[h->late_first].msg);
		h->late_first = (h->late_first + 1) % HELPER_MAX;
		h->nr_late--;
	}
}

/* The next message; NULL: something is due, or this is the end. */
static struct kv_msg *take(struct helper *h, bool *ends)
{
	struct timespec until = { 0 };
	struct kv_msg *msg;

	if (h->nr_late) {
		until.tv_sec = h->late[h->late_first].at_ns / 1000000000;
		until.tv_nsec = h->late[h->late_first].at_ns % 1000000000;
	}
	pthread_mutex_lock(&h->mutex);
	while (!h->first && !h->stopping) {
		if (!h->nr_late)
			pthread_cond_wait(&h->more, &h->mutex);
		else if (pthread_cond_timedwait(&h->more, &h->mutex, &until) == ETIMEDOUT)
			break;
	}
	msg = h->first;
	if (msg)
		h->first = msg->next;
	*ends = h->stopping && !msg;
	pthread_mutex_unlock(&h->mutex);
	return msg;
}

static bool do_work(struct helper *h, struct kv_msg *msg)
{
	bool late;

	pthread_mutex_lock(&h->working);
	late = h->work(msg);
	pthread_mutex_unlock(&h->working);
	return late;
}

void helper_pause(struct helper *h, bool pause)
{
	if (pause)
		pthread_mutex_lock(&h->working);
	else
		pthread_mutex_unlock(&h->working);
}

static void *helper_main(void *argument)
{
	struct helper *h = argument;
	bool ends = false;

	while (!ends) {
		struct kv_msg *msg = take(h, &ends);
		uint32_t last = (h->late_first + h->nr_late) % HELPER_MAX;

		if (msg && do_work(h, msg)) {
			h->late[last].msg = msg;
			h->late[last].at_ns = clock_ns(CLOCK_MONOTONIC) +
					      HELPER_LATE_MS * 1000000ULL;
			h->nr_late++;
		} else if (msg) {
			send_back(h, msg);
		}
		send_late(h, ends ? UINT64_MAX : clock_ns(CLOCK_MONOTONIC));
	}
	return NULL;
}

bool helper_add(struct helper *h, struct kv_msg *msg)
{
	bool takes;

	pthread_mutex_lock(&h->mutex);
	takes = h->nr < HELPER_MAX;
	if (takes) {
		msg->next = NULL;
		if (h->first)
			h->last->next = msg;
		else
			h->first = msg;
		h->last = msg;
		h->nr++;
		pthread_cond_signal(&h->more);
	}
	pthread_mutex_unlock(&h->mutex);
	return takes;
}

int helper_start(struct helper *h, const int *ring_fds, bool (*work)(struct kv_msg *msg))
{
	pthread_condattr_t monotonic;
	int error = -io_uring_queue_init(RING_ENTRIES, &h->ring, 0);

	if (error)
		return error;
	h->ring_fds = ring_fds;
	h->work = work;
	h->to = mem_aligned(64, sizeof(*h->to) * MAX_WORKERS);
	memset(h->to, 0, sizeof(*h->to) * MAX_WORKERS);
	pthread_mutex_init(&h->mutex, NULL);
	pthread_mutex_init(&h->working, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&h->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return pthread_create(&h->thread, NULL, helper_main, h);
}

void helper_stop(struct helper *h)
{
	pthread_mutex_lock(&h->mutex);
	h->stopping = true;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->mutex);
	pthread_join(h->thread, NULL);
	io_uring_queue_exit(&h->ring);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->mutex);
	pthread_mutex_destroy(&h->working);
	mem_free(h->to);
}
