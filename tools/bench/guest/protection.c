// SPDX-License-Identifier: GPL-2.0
/*
 * protection - a service that is sensitive to latency, and a hog of memory, as two programs
 *
 *	protection serve DEVICE OFFSET_MIB PER_S READS RAMP_S SECONDS SEED
 *	protection hog TOUCHERS MEMORY_MIB WRITERS FILE FILE_MIB RAMP_S SECONDS SEED
 *
 * serve: requests come by a Poisson process, PER_S a second, whether or not those before have been
 * answered. A request looks at TOUCHED pages of a working set in memory, and reads READS blocks of
 * DEVICE behind OFFSET_MIB at random, direct, one after the other. It takes from when it came to
 * when it is answered. A line per request that came in the window says that, in nanoseconds.
 *
 * hog: each toucher writes to pages of memory, at random, as fast as it can; each writer
 * overwrites its part of FILE through the page cache. The last line is how many pages both have got
 * through in the window. It prints it RAMP_S and SECONDS after its start, and goes on until it is
 * killed.
 *
 * The window begins RAMP_S after the start and lasts SECONDS.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
	PAGE_BYTES	= 4096,
	WRITE_BYTES	= 65536,
	SET_BYTES	= 64 << 20,	/* working set of the service */
	TOUCHED		= 64,
	NR_WORKERS	= 64,
};

#define NS_PER_S	1000000000ULL

static struct {
	uint64_t start_ns, ramp_ns, window_ns, seed;
	int fd;
	char *memory;
	uint64_t nr_pages;
} run;

static struct {
	pthread_mutex_t lock;
	uint64_t random, next_due_ns, first_block, nr_blocks;
	unsigned int per_s, nr_reads;
} service = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
	unsigned int nr_writers;
	uint64_t file_bytes;
	atomic_ullong pages;
} hog;

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "protection: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec - run.start_ns;
}

static void sleep_until(uint64_t at_ns)
{
	uint64_t ns = at_ns + run.start_ns;
	struct timespec t = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static uint64_t seeded(unsigned int number)
{
	return 0x9e3779b97f4a7c15ULL * (run.seed * 1000 + number + 1);
}

static bool in_window(uint64_t at_ns)
{
	return at_ns >= run.ramp_ns && at_ns < run.ramp_ns + run.window_ns;
}

/* What the program itself is made of stays in memory; what it touches later may be swapped out. */
static void take_memory(size_t bytes)
{
	if (mlockall(MCL_CURRENT))
		die("mlockall", errno);
	run.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (run.memory == MAP_FAILED || madvise(run.memory, bytes, MADV_NOHUGEPAGE))
		die("memory", errno);
	run.nr_pages = bytes / PAGE_BYTES;
}

static void start(unsigned int nr, void *(*thread)(void *))
{
	pthread_t ignored;

	for (uintptr_t number = 0; number < nr; number++) {
		int error = pthread_create(&ignored, NULL, thread, (void *)number);

		if (error)
			die("thread", error);
	}
}

/* ---- the service ---- */

/* When the next request comes. */
static uint64_t take_request(void)
{
	uint64_t due_ns;

	pthread_mutex_lock(&service.lock);
	due_ns = service.next_due_ns;
	service.next_due_ns -= log((next_random(&service.random) % 1000000 + 1) / 1e6) *
			       (double)NS_PER_S / service.per_s;
	pthread_mutex_unlock(&service.lock);
	return due_ns;
}

static void answer(uint64_t *random, void *block)
{
	for (unsigned int i = 0; i < TOUCHED; i++)
		run.memory[next_random(random) % run.nr_pages * PAGE_BYTES]++;
	for (unsigned int i = 0; i < service.nr_reads; i++) {
		uint64_t at = service.first_block + next_random(random) % service.nr_blocks;

		if (pread(run.fd, block, PAGE_BYTES, at * PAGE_BYTES) != PAGE_BYTES)
			die("read", errno);
	}
}

static void *work(void *number)
{
	uint64_t random = seeded((uintptr_t)number), due_ns;
	void *block = aligned_alloc(PAGE_BYTES, PAGE_BYTES);

	while ((due_ns = take_request()) < run.ramp_ns + run.window_ns) {
		sleep_until(due_ns);
		answer(&random, block);
		if (in_window(due_ns))
			printf("%lu\n", now_ns() - due_ns);
	}
	sleep_until(run.ramp_ns + run.window_ns);
	return NULL;
}

static int serve(char **argv)
{
	pthread_t workers[NR_WORKERS];
	uint64_t bytes;

	run.fd = open(argv[0], O_RDONLY | O_DIRECT);
	if (run.fd < 0 || ioctl(run.fd, BLKGETSIZE64, &bytes))
		die(argv[0], errno);
	service.first_block = (uint64_t)atoi(argv[1]) * (1 << 20) / PAGE_BYTES;
	service.nr_blocks = bytes / PAGE_BYTES - service.first_block;
	service.per_s = atoi(argv[2]);
	service.nr_reads = atoi(argv[3]);
	service.random = seeded(NR_WORKERS);
	take_memory(SET_BYTES);
	memset(run.memory, 1, SET_BYTES);
	for (uintptr_t i = 0; i < NR_WORKERS; i++)
		if (pthread_create(&workers[i], NULL, work, (void *)i))
			die("thread", errno);
	for (unsigned int i = 0; i < NR_WORKERS; i++)
		pthread_join(workers[i], NULL);
	return 0;
}

/* ---- the hog ---- */

static void got_through(unsigned int pages)
{
	if (in_window(now_ns()))
		atomic_fetch_add(&hog.pages, pages);
}

static void *touch(void *number)
{
	uint64_t random = seeded((uintptr_t)number);

	for (;;) {
		run.memory[next_random(&random) % run.nr_pages * PAGE_BYTES]++;
		got_through(1);
	}
	return NULL;
}

static void *overwrite(void *number)
{
	uint64_t part = hog.file_bytes / hog.nr_writers, begin = part * (uintptr_t)number, at = 0;
	char *block = malloc(WRITE_BYTES);

	memset(block, (uintptr_t)number, WRITE_BYTES);
	for (;;) {
		if (pwrite(run.fd, block, WRITE_BYTES, begin + at) != WRITE_BYTES)
			die("write", errno);
		at = (at + WRITE_BYTES) % part;
		got_through(WRITE_BYTES / PAGE_BYTES);
	}
	return NULL;
}

static int be_a_hog(char **argv)
{
	unsigned int nr_touchers = atoi(argv[0]);

	hog.nr_writers = atoi(argv[2]);
	hog.file_bytes = (uint64_t)atoi(argv[4]) << 20;
	run.fd = open(argv[3], O_WRONLY);
	if (run.fd < 0)
		die(argv[3], errno);
	take_memory((size_t)atoi(argv[1]) << 20);
	start(nr_touchers, touch);
	start(hog.nr_writers, overwrite);
	sleep_until(run.ramp_ns + run.window_ns);
	printf("%llu\n", atomic_load(&hog.pages));
	fflush(stdout);
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	bool serves = argc == 9 && !strcmp(argv[1], "serve");

	if (!serves && (argc != 10 || strcmp(argv[1], "hog"))) {
		fprintf(stderr,
			"usage: protection serve DEVICE OFFSET_MIB PER_S READS"
			" RAMP_S SECONDS SEED\n"
			"       protection hog TOUCHERS MEMORY_MIB WRITERS FILE FILE_MIB"
			" RAMP_S SECONDS SEED\n");
		return 2;
	}
	run.ramp_ns = atoi(argv[argc - 3]) * NS_PER_S;
	run.window_ns = atoi(argv[argc - 2]) * NS_PER_S;
	run.seed = atoi(argv[argc - 1]);
	run.start_ns = now_ns();
	return serves ? serve(argv + 2) : be_a_hog(argv + 2);
}
