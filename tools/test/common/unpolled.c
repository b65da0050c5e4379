// SPDX-License-Identifier: GPL-2.0
/*
 * unpolled - starts polled reads of a block device, and never polls
 *
 * unpolled DEVICE NUMBER	(/dev/nvme0n1 64)
 *
 * Prints a line when all are submitted, and sleeps until it is killed. Exit status: 1 if something
 * failed, 2 wrong use.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <liburing.h>

enum { BYTES = 4096 };

static char buffer[BYTES] __attribute__((aligned(BYTES)));

int main(int argc, char **argv)
{
	struct io_uring ring;
	int fd, i, number;

	if (argc != 3)
		errx(2, "unpolled DEVICE NUMBER");
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0)
		err(1, "%s", argv[1]);
	number = atoi(argv[2]);
	if (io_uring_queue_init(number, &ring, IORING_SETUP_IOPOLL))
		errx(1, "no io_uring");
	for (i = 0; i < number; i++)
		/* Apart from each other, or they would be merged. */
		io_uring_prep_read(io_uring_get_sqe(&ring), fd, buffer, BYTES, 2L * i * BYTES);
	if (io_uring_submit(&ring) != number)
		errx(1, "not all was submitted");
	puts("submitted");
	fflush(stdout);
	pause();
	return 0;
}
