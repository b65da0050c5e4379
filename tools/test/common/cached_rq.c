// SPDX-License-Identifier: GPL-2.0
/*
 * cached_rq - read a block device with requests that were allocated for passthrough
 *
 * cached_rq CHARACTER_DEVICE BLOCK_DEVICE ROUNDS	(/dev/ng0n1 /dev/nvme0n1 100)
 *
 * A task that submits several commands at once gets several requests from the block layer at once,
 * in its plug. The first command decides their kind: here an NVMe passthrough read. The block layer
 * may use the other requests for the plain reads that follow.
 *
 * Exit status: 0 all commands succeeded, 1 one failed, 2 wrong use.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <liburing.h>

enum {
	NR_READS	= 7,
	BYTES		= 4096,
	SECTOR_BYTES	= 512,
	NVME_READ	= 2,
};

static char buffer[1 + NR_READS][BYTES] __attribute__((aligned(BYTES)));

static void prepare_passthrough(struct io_uring_sqe *sqe, int fd, int namespace_id)
{
	struct nvme_uring_cmd *cmd = (struct nvme_uring_cmd *)sqe->cmd;

	memset(sqe, 0, 2 * sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = NVME_URING_CMD_IO;
	cmd->opcode = NVME_READ;
	cmd->nsid = namespace_id;
	cmd->addr = (unsigned long)buffer[0];
	cmd->data_len = BYTES;
	/* Number of blocks, less one. */
	cmd->cdw12 = BYTES / SECTOR_BYTES - 1;
}

static void round_trip(struct io_uring *ring, int character, int block, int namespace_id)
{
	struct io_uring_cqe *cqe;
	int i;

	prepare_passthrough(io_uring_get_sqe(ring), character, namespace_id);
	for (i = 1; i <= NR_READS; i++)
		/* Apart from each other, or they would be merged. */
		io_uring_prep_read(io_uring_get_sqe(ring), block, buffer[i], BYTES, 4L * i * BYTES);
	if (io_uring_submit(ring) != 1 + NR_READS)
		errx(1, "not all was submitted");
	for (i = 0; i <= NR_READS; i++) {
		if (io_uring_wait_cqe(ring, &cqe))
			errx(1, "no completion");
		if (cqe->res < 0)
			errx(1, "a command failed: %s", strerror(-cqe->res));
		io_uring_cqe_seen(ring, cqe);
	}
}

int main(int argc, char **argv)
{
	int character, block, namespace_id, rounds;
	struct io_uring ring;

	if (argc != 4)
		errx(2, "cached_rq CHARACTER_DEVICE BLOCK_DEVICE ROUNDS");
	character = open(argv[1], O_RDONLY);
	if (character < 0)
		err(1, "%s", argv[1]);
	block = open(argv[2], O_RDONLY | O_DIRECT);
	if (block < 0)
		err(1, "%s", argv[2]);
	namespace_id = ioctl(character, NVME_IOCTL_ID);
	if (namespace_id < 0)
		err(1, "%s", argv[1]);
	if (io_uring_queue_init(2 * NR_READS, &ring, IORING_SETUP_SQE128 | IORING_SETUP_CQE32))
		errx(1, "no io_uring");
	for (rounds = atoi(argv[3]); rounds > 0; rounds--)
		round_trip(&ring, character, block, namespace_id);
	return 0;
}
