// SPDX-License-Identifier: GPL-2.0
/*
 * snapshot.c - a dump of the store of a moment while it is served: BGSAVE, SIGUSR1
 *
 * All reactors stop between two rounds. At that moment the index in memory has all that was
 * acknowledged, and of each transaction all or nothing. The process is copied (fork), and the
 * reactors go on. The copy has the index of the moment. It reads the records from the device with
 * requests of its own, as --dump does, and writes the file of --save-to.
 *
 * Records do not change where they lie, but segments are used again. So the partitions are pinned
 * meanwhile: what is drained stays as it is, and nothing is collected. If that leaves no room to
 * write, the dump is given up, as clients come first.
 *
 * The copy holds no sockets, and ends with octokvd. The lock on the file or device is the copy's as
 * well, so the next start may have to wait for it to end. If memory runs out, the kernel is to end
 * the copy first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "offline.h"
#include "server/clock.h"
#include "snapshot.h"

enum {
	/* octokvd does not end before its copy has, or after a second. */
	END_PAUSES	= 100,
	END_PAUSE_NS	= 10000000,
	/*
	 * The first Linux that gives the copy pages of its own where direct I/O is under way.
	 * Before, we could be the one with a new page, and the device write to that of the copy.
	 */
	FIRST_MAJOR	= 6,
	FIRST_MINOR	= 5,
};

/* ---- the copy ---- */

/* Requests that have ended when they are submitted, and are told in wait(). */
struct plain_disk {
	struct okv_disk disk;
	int fd;
	struct okv_io *first, **last;
};

static int read_all(int fd, char *buf, size_t bytes, off_t offset)
{
	while (bytes) {
		ssize_t nr = pread(fd, buf, bytes, offset);

		if (nr <= 0 && !(nr < 0 && errno == EINTR))
			return -EIO;
		if (nr <= 0)
			continue;
		buf += nr;
		bytes -= nr;
		offset += nr;
	}
	return 0;
}

/* Only reads: nothing else is asked of a store that is exported. */
static void plain_submit(struct okv_disk *disk, struct okv_io *io)
{
	struct plain_disk *d = (struct plain_disk *)disk;

	io->result = io->kind == OKV_READ ?
		     read_all(d->fd, io->buf, io->bytes, io->offset_bytes) : -EROFS;
	io->next = NULL;
	*d->last = io;
	d->last = &io->next;
}

static int plain_wait(struct okv_disk *disk)
{
	struct plain_disk *d = (struct plain_disk *)disk;
	struct okv_io *io = d->first;

	d->first = NULL;
	d->last = &d->first;
	while (io) {
		struct okv_io *next = io->next;

		io->done(io);
		io = next;
	}
	return 0;
}

static const struct okv_disk_ops plain_ops = { .submit = plain_submit, .wait = plain_wait };

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		perror(path);
	close(fd);
}

/* Never returns. All other threads are gone, whatever they were about. */
static void be_the_copy(const struct reactors *rs, pid_t parent)
{
	struct plain_disk disk = { .disk.ops = &plain_ops, .fd = rs->data_fd };
	struct okv_store *stores[MAX_WORKERS];
	struct offline o = {
		.data = rs->server->config.data, .file = rs->server->config.save_to,
		.user_id = ALL_USERS, .stores = stores, .nr_stores = rs->server->nr_workers,
	};
	int result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "octokvd-save");
	write_text("/proc/self/oom_score_adj", "1000");
	if (rs->data_fd > 3)
		close_range(3, rs->data_fd - 1, 0);
	close_range(rs->data_fd + 1, ~0U, 0);
	disk.last = &disk.first;
	for (uint32_t i = 0; i < o.nr_stores; i++) {
		stores[i] = rs->server->workers[i]->store;
		okv_store_set_disk(stores[i], &disk.disk);
	}
	result = offline_dump(&o);
	if (result)
		dprintf(STDERR_FILENO, "octokvd: the dump has failed: %s\n", o.why);
	else
		dprintf(STDERR_FILENO, "octokvd: %s: %" PRIu64 " keys\n", o.file, o.nr_keys);
	_exit(result != 0);
}

/* ---- the first thread ---- */

static void pin_all(const struct reactors *rs, bool pinned)
{
	const struct server *server = rs->server;

	for (uint32_t i = 0; i < server->nr_workers; i++) {
		for (uint32_t j = 0; j < server->nr_partitions; j++) {
			struct okv_partition *p = okv_store_partition(server->workers[i]->store, j);

			if (p)
				okv_partition_pin(p, pinned);
		}
	}
}

/* One that is on its way from one reactor to another is in no store. */
static bool are_all_there(const struct server *server)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < server->nr_workers; i++)
		for (uint32_t j = 0; j < server->nr_partitions; j++)
			nr += okv_store_partition(server->workers[i]->store, j) != NULL;
	return nr == server->nr_partitions;
}

/* While all reactors wait. */
static void begin(void *owner)
{
	struct snapshot *s = owner;
	pid_t self = getpid(), child;

	if (!are_all_there(s->reactors->server))
		return;
	s->wanted = false;
	child = fork();
	if (!child)
		be_the_copy(s->reactors, self);
	if (child < 0) {
		log_say(LOG_DUMP, "the dump cannot begin: %s", strerror(errno));
		return;
	}
	s->child = child;
	pin_all(s->reactors, true);
}

/* Tried again while a partition is on its way: that would stay pinned for ever. */
static void unpin(void *owner)
{
	struct snapshot *s = owner;

	if (!are_all_there(s->reactors->server))
		return;
	pin_all(s->reactors, false);
	s->unpins = false;
}

static void say_result(struct snapshot *s, bool good)
{
	struct server *server = s->reactors->server;

	if (good)
		__atomic_store_n(&server->saved_s, clock_ns(CLOCK_REALTIME) / 1000000000,
				 __ATOMIC_RELAXED);
	__atomic_store_n(&server->save_failed, !good, __ATOMIC_RELAXED);
	__atomic_store_n(&server->is_saving, false, __ATOMIC_RELAXED);
}

const char *snapshot_refusal(const char *release)
{
	int major = 0, minor = 0;

	if (sscanf(release, "%d.%d", &major, &minor) == 2 &&
	    (major < FIRST_MAJOR || (major == FIRST_MAJOR && minor < FIRST_MINOR)))
		return "a dump while octokvd serves needs Linux 6.5: before it, a read under way "
		       "can lose its data to the copy. End octokvd, and take --dump";
	return NULL;
}

/* Takes note of the copy's end. It never waits for it: the device may hold up what was killed. */
static void take_end(struct snapshot *s)
{
	const struct config *config = &s->reactors->server->config;
	int status = 0;
	pid_t ended = waitpid(s->child, &status, WNOHANG);

	if (!ended || (ended < 0 && errno != ECHILD))
		return;
	s->child = 0;
	s->unpins = true;
	if (ended < 0 || WIFSIGNALED(status))
		offline_forget(config->save_to, config->data);
	if (ended < 0)
		log_say(LOG_DUMP, "how the dump has ended is not known");
	else if (WIFSIGNALED(status) && !s->given_up)
		log_say(LOG_DUMP, "the dump was ended by signal %d", WTERMSIG(status));
	s->given_up = false;
	say_result(s, ended > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Why none can begin; NULL: it can. */
static const char *refusal(const struct server *server)
{
	if (!server->config.save_to)
		return "without --save-to there is no file for it";
	if (server->config.cannot_save)
		return server->config.cannot_save;
	return server->nr_left_out ? "some partitions are damaged and not served" : NULL;
}

void snapshot_run(struct snapshot *s)
{
	struct server *server = s->reactors->server;
	const char *why = refusal(server);
	uint64_t begun_ns;

	if (s->child)
		take_end(s);
	if (s->unpins)
		reactors_pause(s->reactors, unpin, s);
	if (!s->wanted || s->child || s->unpins)
		return;
	if (why) {
		s->wanted = false;
		if (server->config.save_to)
			say_result(s, false);
		log_say(LOG_DUMP, "no dump can begin: %s", why);
		return;
	}
	__atomic_store_n(&server->is_saving, true, __ATOMIC_RELAXED);
	begun_ns = clock_ns(CLOCK_MONOTONIC);
	reactors_pause(s->reactors, begin, s);
	__atomic_store_n(&server->fork_us, (clock_ns(CLOCK_MONOTONIC) - begun_ns) / 1000,
			 __ATOMIC_RELAXED);
	if (!s->wanted && !s->child)
		say_result(s, false);
}

void snapshot_give_up(struct snapshot *s, const char *why)
{
	if (!s->child || s->given_up)
		return;
	kill(s->child, SIGKILL);
	s->given_up = true;
	log_say(LOG_DUMP, "the dump was given up: %s", why);
}

void snapshot_end(struct snapshot *s)
{
	struct timespec pause = { .tv_nsec = END_PAUSE_NS };

	snapshot_give_up(s, "octokvd ends");
	for (int i = 0; s->child && i < END_PAUSES; i++) {
		nanosleep(&pause, NULL);
		take_end(s);
	}
	/* What was killed completes no file, even if the device still holds it up. */
	s->unpins |= s->child != 0;
	while (s->unpins) {
		reactors_pause(s->reactors, unpin, s);
		nanosleep(&pause, NULL);
	}
}
