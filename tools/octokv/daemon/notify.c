// SPDX-License-Identifier: GPL-2.0
/* notify.c - see notify.h */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

void notify(const char *format, ...)
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

uint32_t notify_watchdog_ms(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long ms = usec ? strtoull(usec, NULL, 10) / 1000 : 0;

	if (pid && strtoul(pid, NULL, 10) != (unsigned long)getpid())
		return 0;
	return ms > UINT32_MAX ? UINT32_MAX : ms;
}
