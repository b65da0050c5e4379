// SPDX-License-Identifier: GPL-2.0
/*
 * bursts - when each request of a tenant that comes and goes was sent, and when it was back
 *
 * A burst keeps DEPTH random reads of 4 KiB outstanding for ON_MS. What is outstanding at its end
 * is waited for, and the next burst begins OFF_MS later. fio's logs have milliseconds; this has
 * nanoseconds. Nothing is printed before the last burst has ended. Then there is a line per
 * request: the number of its burst, and when it was sent and was back, in nanoseconds since the
 * burst began.
 *
 *	bursts DEVICE DEPTH BURSTS ON_MS OFF_MS CPU SEED
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/fs.h>
#include <time.h>
#include <unistd.h>

enum {
	BLOCK_BYTES	= 4096,
	MAX_DEPTH	= 512,
	MAX_REQUESTS	= 1 << 20,
};

struct read_times {
	uint32_t burst;
	uint64_t sent_ns;
	uint64_t back_ns;
};

static struct {
	struct io_uring ring;
	unsigned int depth;
	uint64_t on_ns, random, nr_blocks;
	char *buffers;
	/* The request that each buffer is for. */
	unsigned int request_of[MAX_DEPTH];
	struct read_times *requests;
	unsigned int nr_requests, outstanding;
} run;

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "bursts: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static uint64_t next_random(void)
{
	run.random ^= run.random << 13;
	run.random ^= run.random >> 7;
	run.random ^= run.random << 17;
	return run.random;
}

static void queue_read(unsigned int slot, unsigned int burst, uint64_t at_ns)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&run.ring);

	if (run.nr_requests == MAX_REQUESTS)
		die("requests", ENOBUFS);
	run.requests[run.nr_requests] = (struct read_times){ .burst = burst, .sent_ns = at_ns };
	run.request_of[slot] = run.nr_requests++;
	io_uring_prep_read_fixed(sqe, 0, run.buffers + slot * BLOCK_BYTES, BLOCK_BYTES,
				 next_random() % run.nr_blocks * BLOCK_BYTES, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = slot;
	run.outstanding++;
}

/* Note what has completed; while the burst goes on, the next read takes its place. */
static void reap(unsigned int burst, uint64_t at_ns)
{
	unsigned int head, nr = 0, slots[MAX_DEPTH];
	struct io_uring_cqe *cqe;

	io_uring_for_each_cqe(&run.ring, head, cqe) {
		if (cqe->res != BLOCK_BYTES)
			die("read", cqe->res < 0 ? -cqe->res : EIO);
		slots[nr++] = cqe->user_data;
	}
	io_uring_cq_advance(&run.ring, nr);
	run.outstanding -= nr;
	for (unsigned int i = 0; i < nr; i++) {
		run.requests[run.request_of[slots[i]]].back_ns = at_ns;
		if (at_ns < run.on_ns)
			queue_read(slots[i], burst, at_ns);
	}
}

static void one_burst(unsigned int burst)
{
	uint64_t start_ns = now_ns();

	for (unsigned int slot = 0; slot < run.depth; slot++)
		queue_read(slot, burst, 0);
	while (run.outstanding) {
		if (io_uring_submit_and_wait(&run.ring, 1) < 0)
			die("io_uring_enter", errno);
		reap(burst, now_ns() - start_ns);
	}
}

static void prepare(const char *device, unsigned int cpu)
{
	struct iovec iov = { .iov_len = (size_t)run.depth * BLOCK_BYTES };
	int fd = open(device, O_RDONLY | O_DIRECT), error;
	uint64_t bytes;
	cpu_set_t set;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die(device, errno);
	run.nr_blocks = bytes / BLOCK_BYTES;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cpu", errno);
	run.requests = calloc(MAX_REQUESTS, sizeof(*run.requests));
	run.buffers = aligned_alloc(BLOCK_BYTES, iov.iov_len);
	if (!run.requests || !run.buffers || mlockall(MCL_CURRENT | MCL_FUTURE))
		die("memory", ENOMEM);
	iov.iov_base = run.buffers;
	error = io_uring_queue_init(run.depth, &run.ring, 0);
	if (!error)
		error = io_uring_register_buffers(&run.ring, &iov, 1);
	if (!error)
		error = io_uring_register_files(&run.ring, &fd, 1);
	if (error)
		die("io_uring", -error);
}

int main(int argc, char **argv)
{
	unsigned int nr_bursts, off_ms;

	if (argc != 8) {
		fprintf(stderr, "usage: bursts DEVICE DEPTH BURSTS ON_MS OFF_MS CPU SEED\n");
		return 2;
	}
	run.depth = atoi(argv[2]);
	nr_bursts = atoi(argv[3]);
	run.on_ns = atoi(argv[4]) * 1000000ULL;
	off_ms = atoi(argv[5]);
	run.random = 0x9e3779b97f4a7c15ULL * (atoi(argv[7]) + 1);
	if (!run.depth || run.depth > MAX_DEPTH) {
		fprintf(stderr, "bursts: DEPTH 1..%d\n", MAX_DEPTH);
		return 2;
	}
	prepare(argv[1], atoi(argv[6]));
	for (unsigned int burst = 0; burst < nr_bursts; burst++) {
		one_burst(burst);
		usleep(off_ms * 1000);
	}
	for (unsigned int i = 0; i < run.nr_requests; i++) {
		const struct read_times *r = &run.requests[i];

		printf("%u %lu %lu\n", r->burst, r->sent_ns, r->back_ns);
	}
	return 0;
}
