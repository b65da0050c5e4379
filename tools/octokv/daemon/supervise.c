// SPDX-License-Identifier: GPL-2.0
/*
 * supervise.c - signals, systemd, the users file and the scheduler, while the reactors work
 *
 * SIGTERM and SIGINT end octokvd. During recovery that is at once: the next start recovers again.
 *
 * SIGHUP reads the users file again, and the map of a cluster. If it has an error, nothing
 * changes, and a line says where the error is. Else all reactors stop between two rounds, the
 * users become those of the file, and the connections of users that are no more end. SIGHUP also
 * says that the clock is right, if reactors do not believe it (clock.h). The certificate is read
 * again as well, for handshakes that begin later.
 *
 * SIGUSR1 begins a dump (snapshot.h). A reactor sends SIGUSR2 when that leaves no room to write.
 *
 * systemd hears when octokvd serves, how far recovery is, and that all reactors go round. During
 * recovery its time limit is extended as long as there is progress.
 *
 * A scheduler may be attached again without its weights, for example when a connection to the
 * device has been lost. So they are read back once a second, and written again if they differ.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cluster/keeper.h"
#include "device/disk_uring.h"
#include "log.h"
#include "scrape.h"
#include "server/tenant.h"
#include "supervise.h"
#include "tls/tls.h"

enum {
	PERIOD_MS	= 1000,
	EXTEND_S	= 60,
	NR_SIGNALS	= 6,
};

/* ---- systemd ---- */

/* Tells systemd (sd_notify(3)): lines such as READY=1, each but the last one ended by a newline. */
__attribute__((format(printf, 1, 2))) static void notify(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char text[512];
	va_list args;
	int fd, len;

	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	strcpy(to.sun_path, path);
	/* A name without a file begins with a zero. */
	if (path[0] == '@')
		to.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
	       offsetof(struct sockaddr_un, sun_path) + strlen(path));
	close(fd);
}

/* How often systemd wants to hear WATCHDOG=1, in milliseconds, at least; 0: never. */
static uint32_t notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long ms = usec ? strtoull(usec, NULL, 10) / 1000 : 0;

	if (pid && strtoul(pid, NULL, 10) != (unsigned long)getpid())
		return 0;
	return ms > UINT32_MAX ? UINT32_MAX : ms;
}

/* ---- signals ---- */

int supervise_open(struct supervisor *s)
{
	static const int numbers[NR_SIGNALS] = {
		SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD,
	};
	uint32_t watchdog_ms = notify_watchdog_ms();
	sigset_t signals;

	sigemptyset(&signals);
	for (int i = 0; i < NR_SIGNALS; i++)
		sigaddset(&signals, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	/* A write beyond the limit of file sizes is an error like another one. */
	signal(SIGXFSZ, SIG_IGN);
	/* If it is ignored, as a parent may have left it, nobody learns how a child has ended. */
	signal(SIGCHLD, SIG_DFL);
	s->period_ms = PERIOD_MS;
	if (watchdog_ms && watchdog_ms / 3 < PERIOD_MS)
		s->period_ms = watchdog_ms / 3 + 1;
	s->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? errno : 0;
}

/* Takes the signals that have come. True: to end. */
static bool take_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;
	bool ends = false;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGHUP:
			s->reloads = true;
			break;
		case SIGUSR1:
			s->snapshot.wanted = true;
			break;
		case SIGUSR2:
			s->has_no_room = true;
			break;
		case SIGCHLD:
			break;
		default:
			ends = true;
		}
	}
	return ends;
}

/* ---- recovery ---- */

static void tell_progress(struct supervisor *s)
{
	uint64_t done_bytes, all_bytes;

	reactors_progress(s->reactors, &done_bytes, &all_bytes);
	if (done_bytes == s->told_bytes)
		return;
	s->told_bytes = done_bytes;
	notify("STATUS=Recovering: %llu of %llu MiB of the partitions that were looked at\n"
	       "EXTEND_TIMEOUT_USEC=%d000000", (unsigned long long)done_bytes >> 20,
	       (unsigned long long)all_bytes >> 20, EXTEND_S);
}

enum supervised supervise_start(struct supervisor *s)
{
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = reactors_fd(s->reactors), .events = POLLIN },
	};

	notify("STATUS=Recovering\nEXTEND_TIMEOUT_USEC=%d000000", EXTEND_S);
	for (;;) {
		int nr = poll(fds, 2, s->period_ms);

		if (nr > 0 && fds[1].revents)
			return __atomic_load_n(&s->reactors->failed, __ATOMIC_ACQUIRE) ?
			       SUPERVISED_FAILED : SUPERVISED_SERVES;
		if (nr > 0 && take_signals(s))
			return SUPERVISED_STOPPED;
		tell_progress(s);
	}
}

/* ---- the users file ---- */

struct reload {
	struct tenants *to, *from;
};

static void replace(void *owner)
{
	struct reload *reload = owner;

	tenants_replace(reload->to, reload->from);
}

static void reload(struct supervisor *s)
{
	const struct config *config = &s->reactors->server->config;
	struct tenants fresh;
	struct reload reload = { .to = s->tenants, .from = &fresh };
	char why[512];

	s->reloads = false;
	if (!config->users) {
		reactors_change(s->reactors, NULL, NULL);
		log_say(LOG_USERS, "SIGHUP: there is no users file to read again");
		return;
	}
	if (tenants_load(&fresh, config->users, why, sizeof(why))) {
		tenants_free(&fresh);
		log_say(LOG_USERS, "the users stay as they are: %s", why);
		return;
	}
	tenants_share_keys(&fresh, s->nr_keys);
	if (s->scrape)
		scrape_pause(s->scrape, true);
	reactors_change(s->reactors, replace, &reload);
	if (s->scrape)
		scrape_pause(s->scrape, false);
	log_say(LOG_USERS, "%s was read again: %u users", config->users, s->tenants->nr);
	tenants_free(&fresh);
}

static void reload_certificate(const struct supervisor *s)
{
	char why[512];

	if (tls_reload(s->tls, why, sizeof(why)))
		log_say(LOG_CERTIFICATE, "the certificate stays as it is: %s", why);
	else
		log_say(LOG_CERTIFICATE, "the certificate was read again");
}

/* ---- tags and weights ---- */

bool supervise_wants_tags(const struct supervisor *s)
{
	char name[32];

	if (s->tags != TAGS_AUTO || s->weights)
		return s->tags != TAGS_OFF;
	disk_uring_scheduler(s->reactors->data_fd, name, sizeof(name));
	return !strcmp(name, "mq-mqfq") || !strcmp(name, "mq-octofas");
}

static void change_tags(void *owner)
{
	struct tenants *tenants = owner;

	tenants_set_tags(tenants, !tenants->have_tags);
}

static void watch_tags(struct supervisor *s)
{
	if (supervise_wants_tags(s) != s->tenants->have_tags)
		reactors_change(s->reactors, change_tags, s->tenants);
}

static void watch_weights(struct supervisor *s)
{
	char why[640] = "";
	int differ;

	if (!s->weights)
		return;
	differ = tenants_weights_differ(s->tenants, s->weights, why, sizeof(why));
	if (differ > 0) {
		differ = tenants_write_weights(s->tenants, s->weights, why, sizeof(why));
		if (!differ)
			log_say(LOG_WEIGHTS, "the scheduler had lost the users' weights: they are "
				"written again");
	}
	if (differ < 0 && !s->weights_failed)
		log_say(LOG_WEIGHTS, "the users' weights do not act: %s", why);
	s->weights_failed = differ < 0;
}

/* ---- serving ---- */

void supervise(struct supervisor *s)
{
	const struct config *config = &s->reactors->server->config;
	struct pollfd fd = { .fd = s->signal_fd, .events = POLLIN };

	notify("READY=1\nSTATUS=Serving %s", config->data);
	while (poll(&fd, 1, s->period_ms) <= 0 || !take_signals(s)) {
		if (s->reloads && s->tls)
			reload_certificate(s);
		if (s->reloads && config->cluster)
			keeper_reload();
		if (s->reloads)
			reload(s);
		if (s->has_no_room)
			snapshot_give_up(&s->snapshot, "it left no room for writes");
		s->has_no_room = false;
		snapshot_run(&s->snapshot);
		if (reactors_are_alive(s->reactors))
			notify("WATCHDOG=1");
		watch_tags(s);
		watch_weights(s);
	}
	snapshot_end(&s->snapshot);
	notify("STOPPING=1\nSTATUS=Ending");
}
