/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk_uring.h - a file or a block device as a disk (disk.h), on an io_uring of the caller
 *
 * The caller submits and reaps the ring. Completions with TAG_DISK (ring.h) are those of the disk,
 * and go to disk_uring_complete(). While the store blocks (open, close), the disk reaps, and drops
 * all other completions.
 */
#ifndef OKV_DISK_URING_H
#define OKV_DISK_URING_H

#include "store/disk.h"
#include "ring.h"

enum { ZERO_BYTES = 1 << 20, NR_ZERO_IOVECS = 64, NR_AGES = 64 };

/* Requests under way, by the time at which they began: those of one tick of the clock together. */
struct disk_age {
	uint64_t begun_ns;
	uint32_t nr;
};

struct disk_uring {
	struct okv_disk disk;
	struct io_uring *ring;
	int fd;
	struct okv_io *flushing;	/* a chain of flushes that one request of the ring does */
	struct okv_io *to_flush;	/* those that the next one does */
	struct disk_age ages[NR_AGES];	/* a circle */
	uint32_t age;			/* of what begins now */
	char *zeros;			/* for files */
	struct iovec zero_iov[NR_ZERO_IOVECS];
};

/*
 * @fd is open for direct I/O. Returns 0, or a negative errno.
 */
int disk_uring_init(struct disk_uring *d, struct io_uring *ring, int fd);
void disk_uring_destroy(struct disk_uring *d);

/* The I/O scheduler of the device, or of that below the file; empty: it is not known. */
void disk_uring_scheduler(int fd, char *name, size_t bytes);
void disk_uring_complete(struct disk_uring *d, uint64_t user_data, int result);

/* Call it some times a second: so exact is the age of a request. */
void disk_uring_tick(struct disk_uring *d, uint64_t now_ns);

/* When the oldest request under way began, on the clock of the ticks; 0: there is none. */
uint64_t disk_uring_oldest_ns(const struct disk_uring *d);

#endif
