// SPDX-License-Identifier: GPL-2.0
/* ask.c - see ask.h */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ask.h"
#include "data.h"

enum { ANSWER_S = 10 };

void ask_password(char *password, size_t bytes)
{
	if (!fgets(password, bytes, stdin) || password[0] == '\n')
		die("no password on standard input");
	password[strcspn(password, "\n")] = 0;
}

/* Reads the first line of a reply, without its end. An error ends octokvd. */
static void read_line(FILE *file, uint16_t port, char *line, size_t bytes)
{
	if (!fgets(line, bytes, file))
		die("port %u: it does not answer, or no more", port);
	line[strcspn(line, "\r\n")] = 0;
	if (!strncmp(line, "-NOAUTH", 7))
		die("port %u: it has users: give --user NAME, and the password on standard input",
		    port);
	if (line[0] == '-')
		die("port %u: %s", port, line + 1);
}

/* octokvd may be there and not answer. */
static FILE *connect_to(uint16_t port)
{
	struct timeval limit = { .tv_sec = ANSWER_S };
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die("nothing answers on 127.0.0.1 port %u: %s", port, strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return checked(fdopen(fd, "r+"));
}

int ask(uint16_t port, const char *user, bool health)
{
	char line[4096], password[1024];
	bool bad = health;
	FILE *file;

	if (user)
		ask_password(password, sizeof(password));
	file = connect_to(port);
	if (user)
		fprintf(file, "*3\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(user),
			user, strlen(password), password);
	fputs(health ? "INFO health\r\nQUIT\r\n" : "INFO\r\nQUIT\r\n", file);
	fflush(file);
	if (user)
		read_line(file, port, line, sizeof(line));
	/*
	 * The reply has the length of the text, the text, and behind it an empty line and the
	 * answer to QUIT.
	 */
	read_line(file, port, line, sizeof(line));
	for (long left = atol(line + 1); left > 0; left -= strlen(line)) {
		if (!fgets(line, sizeof(line), file))
			die("port %u: it does not answer, or no more", port);
		bad &= strcmp(line, "health:ok\r\n") != 0;
		fputs(line, stdout);
	}
	fclose(file);
	return bad;
}
