/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ring.h - requests of a ring, and tags that say to which part a completion goes
 *
 * Disk, sockets, mail and signals of a reactor share one io_uring. The low bits of user_data, free
 * in every pointer, are the tag.
 */
#ifndef OKV_RING_H
#define OKV_RING_H

#include <liburing.h>
#include <stdint.h>

enum ring_tag {
	TAG_DISK, TAG_RECV, TAG_SEND, TAG_ACCEPT, TAG_WAKE, TAG_CALL, TAG_TLS, TAG_MASK = 7,
};

/* Submits the requests so far if the ring is full. */
static inline struct io_uring_sqe *ring_sqe(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	while (!sqe) {
		io_uring_submit(ring);
		sqe = io_uring_get_sqe(ring);
	}
	return sqe;
}

static inline void ring_tag(struct io_uring_sqe *sqe, void *of, enum ring_tag tag)
{
	io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)of | tag);
}

#endif
