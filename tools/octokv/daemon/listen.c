// SPDX-License-Identifier: GPL-2.0
/* listen.c - sockets to listen on, and errors in words */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "listen.h"
#include "server/server.h"

#define ANOTHER_PORT "--port N chooses another"

enum { BACKLOG = 1024, NR_TRIES = 20, TRY_US = 50000 };

void listen_raise_limit(struct config *config, uint32_t nr_spare)
{
	struct rlimit limit;

	config->max_connections_limit = LISTEN_CONNECTIONS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur > nr_spare && limit.rlim_cur - nr_spare < LISTEN_CONNECTIONS_MAX)
		config->max_connections_limit = limit.rlim_cur - nr_spare;
	if (config->max_connections > config->max_connections_limit) {
		config->max_connections = config->max_connections_limit;
		fprintf(stderr, "octokvd: the limit of open files allows %u connections\n",
			config->max_connections);
	}
}

static struct addrinfo *resolve(const char *option, const char *address, uint16_t port, char *why,
				size_t why_bytes)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
	}, *found = NULL;
	char service[8];
	int error;

	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(address, service, &hints, &found);
	if (error)
		snprintf(why, why_bytes, "%s %s: %s; give a numeric address", option, address,
			 gai_strerror(error));
	return error ? NULL : found;
}

/* @hint: what to do if another program is there. */
static int bound(struct addrinfo *at, const char *address, uint16_t port, bool shared,
		 const char *hint, char *why, size_t why_bytes)
{
	int one = 1, fd;

	if (!at)
		return -1;
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd >= 0 && shared)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen)) {
		snprintf(why, why_bytes, "cannot listen on %s port %u: %s%s%s", address, port,
			 strerror(errno), errno == EADDRINUSE ? "; " : "",
			 errno == EADDRINUSE ? hint : "");
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(at);
	return fd;
}

int listen_on(const char *address, uint16_t port, char *why, size_t why_bytes)
{
	int fd = bound(resolve("--bind", address, port, why, why_bytes), address, port, true,
		       ANOTHER_PORT, why, why_bytes);

	if (fd < 0 || !listen(fd, BACKLOG))
		return fd;
	snprintf(why, why_bytes, "cannot listen on %s port %u: %s", address, port, strerror(errno));
	close(fd);
	return -1;
}

int listen_parse(const char *option, const char *text, const char *address, struct listen_at *at,
		 char *why, size_t why_bytes)
{
	const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
	const char *host = colon ? text : address;
	size_t len = colon ? (size_t)(colon - text) : strlen(host);
	char *end;
	unsigned long port = strtoul(digits, &end, 10);

	if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (*digits < '0' || *digits > '9' || *end || !port || port > 65535 || !len ||
	    len >= sizeof(at->address)) {
		snprintf(why, why_bytes, "%s %s: give PORT, ADDRESS:PORT or [ADDRESS]:PORT, with "
			 "a port from 1 to 65535", option, text);
		return -1;
	}
	snprintf(at->address, sizeof(at->address), "%.*s", (int)len, host);
	at->port = port;
	return 0;
}

int listen_alone(const char *option, const struct listen_at *at, char *why, size_t why_bytes)
{
	char hint[64];

	snprintf(hint, sizeof(hint), "give %s another port", option);
	return bound(resolve(option, at->address, at->port, why, why_bytes), at->address, at->port,
		     false, hint, why, why_bytes);
}

/* Remove the socket of an octokvd that was killed. Other files stay, and so does a live one. */
static void remove_left(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0)
		return;
	if (!stat(at->sun_path, &st) && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)at, sizeof(*at)) && errno == ECONNREFUSED)
		unlink(at->sun_path);
	close(fd);
}

int listen_on_path(const char *path, uint32_t mode, char *why, size_t why_bytes)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	mode_t mask;
	bool good = false;
	int fd;

	if (strlen(path) >= sizeof(at.sun_path)) {
		snprintf(why, why_bytes, "--unix %s: the path of a socket has at most %zu bytes",
			 path, sizeof(at.sun_path) - 1);
		return -1;
	}
	strcpy(at.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* Nobody may use it before it has its mode. */
	mask = umask(0777);
	/* As in listen_is_free(): that of an octokvd that was killed may live on for a moment. */
	for (int i = 0; i < NR_TRIES && fd >= 0 && !good; i++) {
		if (i)
			usleep(TRY_US);
		remove_left(&at);
		good = !bind(fd, (struct sockaddr *)&at, sizeof(at));
	}
	umask(mask);
	if (good && !chmod(path, mode) && !listen(fd, BACKLOG))
		return fd;
	snprintf(why, why_bytes, "cannot listen on %s: %s%s", path, strerror(errno),
		 errno == EADDRINUSE ? "; something else is there" : "");
	if (fd >= 0)
		close(fd);
	return -1;
}

bool listen_is_free(const char *address, uint16_t port, char *why, size_t why_bytes)
{
	int fd = -1;

	/*
	 * After an octokvd was killed, the kernel may still take its ring apart, and with it the
	 * socket that the ring accepts from.
	 */
	for (int i = 0; i < NR_TRIES && fd < 0; i++) {
		if (i)
			usleep(TRY_US);
		fd = bound(resolve("--bind", address, port, why, why_bytes), address, port,
			   false, ANOTHER_PORT, why, why_bytes);
	}
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int listen_is_loopback(const char *option, const char *address, char *why, size_t why_bytes)
{
	struct addrinfo *at = resolve(option, address, 0, why, why_bytes);
	void *any;
	int result;

	if (!at)
		return -1;
	any = at->ai_addr;
	if (at->ai_family == AF_INET6)
		result = IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)any)->sin6_addr);
	else
		result = ntohl(((struct sockaddr_in *)any)->sin_addr.s_addr) >> 24 == 127;
	freeaddrinfo(at);
	return result;
}

const char *store_refusal(int error)
{
	switch (error) {
	case ENODATA:
		return "there is no store of octokvd on it; octokvd --format makes one";
	case EPROTONOSUPPORT:
		return "it was formatted by another version of octokvd: use that version";
	case EINPROGRESS:
		return "a load of it has not ended: octokvd --format --force makes it an empty "
		       "store; then load again";
	case ESTALE:
		return "octokvd --upgrade has not ended: give it again";
	case EUCLEAN:
		return "the store is damaged: octokvd --check reports more";
	case EIO:
		return "a needed part cannot be read or written: the kernel's log says which";
	case ENOSPC:
		return "the device is too small, or has become smaller than the store on it";
	case EINVAL:
		return "the device's blocks are larger than those of the store: copy it to a "
		       "device whose blocks are as small";
	case EBADE:
		return "another host has reserved it";
	case EROFS:
	case EACCES:
	case EPERM:
		return "cannot be written: is it read-only, of another user, or not in the "
		       "service's DeviceAllow=?";
	case EBUSY:
	case EWOULDBLOCK:
		return "is in use: mounted, or another octokvd has it";
	default:
		return strerror(error);
	}
}

const char *ring_refusal(int error, char *text, size_t bytes)
{
	FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
	int disabled = file ? fgetc(file) - '0' : 0;

	if (file)
		fclose(file);
	if (error == ENOSYS)
		snprintf(text, bytes,
			 "this kernel has no io_uring: octokvd needs Linux 6.1 or later, built "
			 "with CONFIG_IO_URING");
	else if (error == EPERM && disabled > 0)
		snprintf(text, bytes,
			 "io_uring is disabled: sysctl kernel.io_uring_disabled is %d; set it to "
			 "0, or to 1 with octokvd's group in kernel.io_uring_group", disabled);
	else if (error == EPERM)
		snprintf(text, bytes,
			 "io_uring is refused by a seccomp filter (kernel.io_uring_disabled is 0): "
			 "containers need a profile that allows io_uring_setup, io_uring_enter and "
			 "io_uring_register");
	else if (error == EINVAL)
		snprintf(text, bytes, "io_uring is too old: octokvd needs Linux 6.1 or later");
	else
		snprintf(text, bytes, "io_uring cannot start: %s", strerror(error));
	return text;
}
