// SPDX-License-Identifier: GPL-2.0
/*
 * turns.c - QEMU's two threads take turns, so that virtual time does not depend on their race
 *
 * With -icount sleep=off one thread of QEMU runs the guest's CPUs. The other, the main loop, moves
 * the clock to the next timer when all CPUs are halted. It looks whether they are each time that
 * something wakes it, and each timer of the guest does. It may look in the moment between the HLT
 * of the last CPU and the end of that CPU's turn. It then sees a halted machine whose last
 * instructions are not counted yet, and whose timer for turns (100 ms) still runs. The clock
 * is then a few instructions further than in a run in which it looked later, and from there on
 * everything differs. How often that happens is up to the host: on one machine all runs agreed, on
 * another no two did.
 *
 * This library is preloaded into QEMU. When the main loop wakes up, it waits here until the CPUs'
 * thread sleeps on its condition: all instructions are counted then, and the timer for turns is
 * stopped. A guest that needs the main loop, for a file or for a reset, halts soon, and that wakes
 * the main loop. From the moment that it signals the condition, the CPUs' thread counts as awake.
 * If the guest does not halt within LONGEST_WAIT_S, the main loop goes on: that the guest halts in
 * just that moment is not likely, but not excluded.
 *
 * The main thread is known by its number. Of the others only the CPUs' thread calls
 * pthread_cond_wait(): QEMU's workers wait with a time limit.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_WAIT_S	1

typedef int cond_wait_fn(pthread_cond_t *cond, pthread_mutex_t *mutex);
typedef int cond_wake_fn(pthread_cond_t *cond);
typedef int ppoll_fn(struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
		     const sigset_t *mask);

static cond_wait_fn *real_cond_wait;
static cond_wake_fn *real_cond_signal, *real_cond_broadcast;
static ppoll_fn *real_ppoll;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asleep = PTHREAD_COND_INITIALIZER;
/* Whether the CPUs' thread sleeps, or has not begun; and on what it slept last. */
static int cpus_sleep = 1;
static pthread_cond_t *cpus_cond;

static int is_main_thread(void)
{
	return gettid() == getpid();
}

static void note_asleep(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	cpus_sleep = 1;
	cpus_cond = cond;
	real_cond_signal(&asleep);
	pthread_mutex_unlock(&lock);
}

static void note_awake(pthread_cond_t *cond)
{
	pthread_mutex_lock(&lock);
	if (cond == cpus_cond)
		cpus_sleep = 0;
	pthread_mutex_unlock(&lock);
}

static void wait_for_cpus(void)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LONGEST_WAIT_S;
	pthread_mutex_lock(&lock);
	while (!cpus_sleep && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&asleep, &lock, &until);
	pthread_mutex_unlock(&lock);
}

/* The C library has two functions of each of these names; programs of today call the later one. */
__attribute__((constructor)) static void find_real(void)
{
	real_cond_wait = (cond_wait_fn *)dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_cond_signal = (cond_wake_fn *)dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
	real_cond_broadcast = (cond_wake_fn *)dlvsym(RTLD_NEXT, "pthread_cond_broadcast",
						     "GLIBC_2.3.2");
	real_ppoll = (ppoll_fn *)dlsym(RTLD_NEXT, "ppoll");
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int ret;

	if (is_main_thread())
		return real_cond_wait(cond, mutex);
	note_asleep(cond);
	ret = real_cond_wait(cond, mutex);
	note_awake(cond);
	return ret;
}

int pthread_cond_signal(pthread_cond_t *cond)
{
	note_awake(cond);
	return real_cond_signal(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
	note_awake(cond);
	return real_cond_broadcast(cond);
}

int ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *timeout, const sigset_t *mask)
{
	int ret = real_ppoll(fds, nr, timeout, mask);

	if (is_main_thread())
		wait_for_cpus();
	return ret;
}
