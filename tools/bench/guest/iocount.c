// SPDX-License-Identifier: GPL-2.0
/*
 * iocount - time per I/O of a block device, to the nanosecond
 *
 * Under virtual time one instruction takes one nanosecond, so this is the number of instructions
 * that an I/O costs, from io_uring_enter() down to the driver and back. fio cannot measure this: it
 * reports its running time in milliseconds, and its other threads wake up meanwhile. While the
 * clock runs, this program makes no system call but io_uring_enter(), touches no page for the first
 * time and opens no file.
 *
 * There is one worker per CPU of the list. Each keeps DEPTH random reads of 4 KiB in flight,
 * submits BATCH at a time and waits for as many. A window is N I/Os per worker, from the first
 * submission to the last completion of any worker. The first window warms up and is not counted.
 * The program prints a line per window: nanoseconds per I/O of all workers together.
 *
 *	iocount DEVICE DEPTH[p|w] BATCH N WINDOWS CPU[,CPU...]
 *		[FLOWS [GROUPS [NAME[:START-END]...]]]
 *
 * With a p after DEPTH the device is polled for completions, without interrupts; with a w the I/Os
 * are writes.
 * The batches have FLOWS (1 to 16, default 1) I/O priorities in turn, all of the best-effort class.
 * With GROUPS (default 0) the workers are processes instead of threads, and worker k enters cgroup
 * (k modulo GROUPS) below /sys/fs/cgroup, whose names are iocount0, iocount1 and so on. NAME makes
 * the windows one of the lab's coherence plugin, of that name, with these ranges of code: the
 * plugin follows the window that warms up and counts those after it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <time.h>
#include <unistd.h>

#include "../../lab/coherence/marker.h"

enum {
	BLOCK_BYTES	= 4096,
	MAX_DEPTH	= 512,
	MAX_CPUS	= 256,
	MAX_WINDOWS	= 64,
	STACK_BYTES	= 256 << 10,
	MAX_FLOWS	= 16,
};

struct worker {
	pthread_t thread;
	int cpu;
	uint64_t random;
	unsigned int flow;
	char *buffers;
	struct io_uring ring;
	uint64_t start_ns[MAX_WINDOWS];
	uint64_t end_ns[MAX_WINDOWS];
};

static struct {
	int fd;
	unsigned int depth, batch, nr_ios, nr_windows, nr_workers, nr_flows, nr_groups;
	uint64_t nr_blocks;
	bool is_counted, is_polled, is_writing;
	struct mark_window mark;
	pthread_barrier_t *barrier;
} run;

/* Shared, as the workers may be processes. */
static struct worker *workers;

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "iocount: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static void queue_io(struct worker *w, unsigned int slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);
	char *buffer = w->buffers + slot * BLOCK_BYTES;
	uint64_t offset = next_random(&w->random) % run.nr_blocks * BLOCK_BYTES;

	if (run.is_writing)
		io_uring_prep_write_fixed(sqe, 0, buffer, BLOCK_BYTES, offset, 0);
	else
		io_uring_prep_read_fixed(sqe, 0, buffer, BLOCK_BYTES, offset, 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = slot;
	/* Eight levels, then eight with a hint that the device ignores. */
	if (run.nr_flows > 1)
		sqe->ioprio = IOPRIO_PRIO_VALUE_HINT(IOPRIO_CLASS_BE, w->flow % IOPRIO_NR_LEVELS,
						     w->flow / IOPRIO_NR_LEVELS);
}

/* Take the completed I/Os; returns their number, and their slots in @slots. */
static unsigned int reap(struct worker *w, unsigned int *slots)
{
	struct io_uring_cqe *cqe;
	unsigned int head, nr = 0;

	io_uring_for_each_cqe(&w->ring, head, cqe) {
		if (cqe->res != BLOCK_BYTES)
			die("I/O", cqe->res < 0 ? -cqe->res : EIO);
		slots[nr++] = cqe->user_data;
	}
	io_uring_cq_advance(&w->ring, nr);
	return nr;
}

/*
 * Free slots wait until there is a batch of them and go out together. So the number of requests
 * that the block layer sees at once does not depend on the times of completions.
 */
static void window(struct worker *w, unsigned int nr_ios)
{
	unsigned int idle[MAX_DEPTH], nr_idle = 0, queued = 0, done = 0, i;

	for (i = 0; i < run.depth; i++)
		idle[nr_idle++] = i;
	while (done < nr_ios) {
		unsigned int nr_new = 0, wait, inflight;

		while (nr_idle >= run.batch && queued < nr_ios) {
			for (i = 0; i < run.batch; i++)
				queue_io(w, idle[--nr_idle]);
			w->flow = (w->flow + 1) % run.nr_flows;
			queued += run.batch;
			nr_new += run.batch;
			if (nr_idle >= run.batch && io_uring_submit(&w->ring) < 0)
				die("io_uring_enter", errno);
		}
		inflight = queued - done;
		wait = inflight < run.batch ? inflight : run.batch;
		if (io_uring_submit_and_wait(&w->ring, wait) < 0)
			die("io_uring_enter", errno);
		i = reap(w, idle + nr_idle);
		nr_idle += i;
		done += i;
	}
}

/* All workers are here, and worker 0 tells the plugin. */
static void meet(struct worker *w, void (*mark)(void))
{
	pthread_barrier_wait(run.barrier);
	if (!run.is_counted || !mark)
		return;
	if (w == workers)
		mark();
	pthread_barrier_wait(run.barrier);
}

static void mark_this(void)
{
	mark_arm(&run.mark);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct iovec iov = { w->buffers, (size_t)run.depth * BLOCK_BYTES };
	cpu_set_t set;
	int error;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("cpu", errno);
	error = io_uring_queue_init(run.depth, &w->ring,
				    run.is_polled ? IORING_SETUP_IOPOLL : 0);
	if (!error)
		error = io_uring_register_buffers(&w->ring, &iov, 1);
	if (!error)
		error = io_uring_register_files(&w->ring, &run.fd, 1);
	if (error)
		die("io_uring", -error);
	for (unsigned int i = 0; i <= run.nr_windows; i++) {
		uint64_t start, end;

		meet(w, i == 0 ? mark_this : i == 1 ? mark_open : NULL);
		start = now_ns();
		window(w, run.nr_ios);
		end = now_ns();
		if (i) {
			w->start_ns[i - 1] = start;
			w->end_ns[i - 1] = end;
		}
	}
	/* No worker ends within a window of the plugin. */
	if (run.is_counted)
		meet(w, mark_close);
	return NULL;
}

static void print_windows(void)
{
	for (unsigned int i = 0; i < run.nr_windows; i++) {
		uint64_t first = UINT64_MAX, last = 0;

		for (unsigned int k = 0; k < run.nr_workers; k++) {
			if (workers[k].start_ns[i] < first)
				first = workers[k].start_ns[i];
			if (workers[k].end_ns[i] > last)
				last = workers[k].end_ns[i];
		}
		printf("%.2f\n", (double)(last - first) / ((double)run.nr_ios * run.nr_workers));
	}
}

static void *shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("memory", errno);
	return at;
}

static void prepare_workers(char *cpus)
{
	pthread_barrierattr_t attr;

	workers = shared(MAX_CPUS * sizeof(*workers));
	run.barrier = shared(sizeof(*run.barrier));
	for (char *cpu = strtok(cpus, ","); cpu && run.nr_workers < MAX_CPUS;
	     cpu = strtok(NULL, ","))
		workers[run.nr_workers++].cpu = atoi(cpu);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(run.barrier, &attr, run.nr_workers);
	for (unsigned int k = 0; k < run.nr_workers; k++) {
		struct worker *w = &workers[k];

		w->random = 0x9e3779b97f4a7c15ULL * (k + 1);
		w->buffers = aligned_alloc(BLOCK_BYTES, (size_t)run.depth * BLOCK_BYTES);
		if (!w->buffers)
			die("buffers", ENOMEM);
		memset(w->buffers, 0, (size_t)run.depth * BLOCK_BYTES);
	}
}

static void run_threads(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (unsigned int k = 0; k < run.nr_workers; k++)
		if (pthread_create(&workers[k].thread, &attr, work, &workers[k]))
			die("thread", errno);
	for (unsigned int k = 0; k < run.nr_workers; k++)
		pthread_join(workers[k].thread, NULL);
}

static void enter_group(unsigned int number)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/iocount%u/cgroup.procs", number);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die(path, errno);
	close(fd);
}

static void run_processes(void)
{
	pid_t children[MAX_CPUS];
	int status, failed = 0;

	for (unsigned int k = 0; k < run.nr_workers; k++) {
		children[k] = fork();
		if (children[k] < 0)
			die("process", errno);
		if (children[k])
			continue;
		enter_group(k % run.nr_groups);
		/* A child has its parent's memory, but not its locks on it. */
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			die("mlockall", errno);
		work(&workers[k]);
		exit(0);
	}
	for (unsigned int k = 0; k < run.nr_workers; k++) {
		if (wait(&status) > 0 && !status)
			continue;
		/* One that fails lets the others wait at the barrier. */
		for (unsigned int i = 0; i < run.nr_workers && !failed; i++)
			kill(children[i], SIGKILL);
		failed = 1;
	}
	if (failed)
		exit(1);
}

/* NAME[:START-END]... */
static void read_window(char *text)
{
	char *range = strtok(text, ":");

	snprintf(run.mark.name, sizeof(run.mark.name), "%s", range);
	while ((range = strtok(NULL, ":")) && run.mark.nr_ranges < MARK_RANGES) {
		uint64_t *pair = run.mark.ranges[run.mark.nr_ranges];

		if (sscanf(range, "%lx-%lx", &pair[0], &pair[1]) != 2)
			die(range, EINVAL);
		run.mark.nr_ranges++;
	}
	run.is_counted = true;
}

int main(int argc, char **argv)
{
	uint64_t bytes;

	if (argc < 7 || argc > 10) {
		fprintf(stderr, "usage: iocount DEVICE DEPTH[p|w] BATCH N WINDOWS CPU[,CPU...] "
			"[FLOWS [GROUPS [NAME[:START-END]...]]]\n");
		return 2;
	}
	run.depth = atoi(argv[2]);
	run.is_polled = strchr(argv[2], 'p');
	run.is_writing = strchr(argv[2], 'w');
	run.batch = atoi(argv[3]);
	run.nr_ios = atoi(argv[4]);
	run.nr_windows = atoi(argv[5]);
	run.nr_flows = argc > 7 ? atoi(argv[7]) : 1;
	run.nr_groups = argc > 8 ? atoi(argv[8]) : 0;
	if (argc > 9)
		read_window(argv[9]);
	if (!run.depth || run.depth > MAX_DEPTH || !run.batch || run.depth % run.batch ||
	    !run.nr_ios || run.nr_ios % run.batch || !run.nr_windows ||
	    run.nr_windows > MAX_WINDOWS || !run.nr_flows || run.nr_flows > MAX_FLOWS) {
		fprintf(stderr,
			"iocount: DEPTH 1..%d, N: multiples of BATCH; WINDOWS 1..%d; FLOWS 1..%d\n",
			MAX_DEPTH, MAX_WINDOWS, MAX_FLOWS);
		return 2;
	}
	run.fd = open(argv[1], (run.is_writing ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (run.fd < 0 || ioctl(run.fd, BLKGETSIZE64, &bytes))
		die(argv[1], errno);
	run.nr_blocks = bytes / BLOCK_BYTES;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		die("mlockall", errno);
	prepare_workers(argv[6]);
	if (run.nr_groups)
		run_processes();
	else
		run_threads();
	print_windows();
	return 0;
}
