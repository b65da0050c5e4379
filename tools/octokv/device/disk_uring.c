// SPDX-License-Identifier: GPL-2.0
/*
 * disk_uring.c - reads, writes and flushes of the store as requests of a ring
 *
 * OKV_FUA is RWF_DSYNC with O_DIRECT. On a block device that has FUA, this is one request with
 * REQ_FUA; otherwise the kernel adds a flush. sysfs says which of both a block device has. In a
 * file, a DSYNC write over existing blocks is as good.
 *
 * Flushes are shared: while one is under way, others wait, and then become one, whichever partition
 * asked.
 *
 * A file is sparse at first. The first write to each 16 KiB of it would take its lock and a place
 * in the journal; on ext4 that was ten times slower than a write to existing blocks. So a segment
 * that is a hole is written with zeros as a whole before it is used. fallocate() makes sure before
 * that there is room. On a file system that copies on write, it does so only for the first time.
 *
 * A discard is a hint, and its result is ignored. A file gets a hole; a device's discard is a
 * command of io_uring that kernels before 6.12 do not know.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "disk_uring.h"
#include "fence.h"

enum {
	BLOCK_BYTES_MIN = 512, BLOCK_BYTES_MAX = 4096,
	DATA_FILE = 0,			/* its number among the files of the ring */
};

static_assert(ZERO_BYTES % BLOCK_BYTES_MAX == 0, "zeros come in blocks");

/* ---- ages ---- */

static void note_begin(struct disk_uring *d, struct okv_io *io)
{
	io->mark = d->age;
	d->ages[d->age].nr++;
}

static void end_io(struct disk_uring *d, struct okv_io *io)
{
	d->ages[io->mark].nr--;
	io->done(io);
}

/* If the next place is that of requests still under way, what begins now looks a little older. */
void disk_uring_tick(struct disk_uring *d, uint64_t now_ns)
{
	uint32_t next = (d->age + 1) % NR_AGES;

	if (d->ages[next].nr)
		return;
	d->age = next;
	d->ages[next].begun_ns = now_ns;
}

uint64_t disk_uring_oldest_ns(const struct disk_uring *d)
{
	for (uint32_t i = 1; i <= NR_AGES; i++) {
		const struct disk_age *age = &d->ages[(d->age + i) % NR_AGES];

		if (age->nr)
			return age->begun_ns;
	}
	return 0;
}

/* ---- requests ---- */

static void start_flush(struct disk_uring *d)
{
	struct io_uring_sqe *sqe = ring_sqe(d->ring);

	d->flushing = d->to_flush;
	d->to_flush = NULL;
	io_uring_prep_fsync(sqe, d->fd, IORING_FSYNC_DATASYNC);
	ring_tag(sqe, d->flushing, TAG_DISK);
}

static void submit_flush(struct disk_uring *d, struct okv_io *io)
{
	io->next = d->to_flush;
	d->to_flush = io;
	if (!d->flushing)
		start_flush(d);
}

/*
 * A sector that cannot be read has several errors: ENODATA, EILSEQ, ETIMEDOUT ... The store knows
 * one. For writes, some of those of the kernel mean something else to the store.
 */
static int error_of(const struct okv_io *io, int result)
{
	if (io->kind == OKV_READ)
		return -EIO;
	switch (result) {
	case -EOPNOTSUPP:
	case -EINVAL:
	case -ENODATA:
	case -EUCLEAN:
	case -ESTALE:
	case -EINPROGRESS:
	case -EALREADY:
	case -EPROTONOSUPPORT:
		return -EIO;
	default:
		return result;
	}
}

static void flushed(struct disk_uring *d, int result)
{
	struct okv_io *io = d->flushing;

	d->flushing = NULL;
	if (d->to_flush)
		start_flush(d);
	while (io) {
		struct okv_io *next = io->next;

		io->result = result < 0 ? error_of(io, result) : 0;
		end_io(d, io);
		io = next;
	}
}

/*
 * Allocates a range of a file, whatever it holds. Where there is no hole there is room, and not
 * every full file system would say so.
 */
static void prep_allocation(struct disk_uring *d, struct io_uring_sqe *sqe, const struct okv_io *io)
{
	off_t hole = lseek(d->fd, io->offset_bytes, SEEK_HOLE);

	if (hole >= 0 && (uint64_t)hole >= io->offset_bytes + io->bytes)
		io_uring_prep_nop(sqe);
	else
		io_uring_prep_fallocate(sqe, d->fd, 0, io->offset_bytes, io->bytes);
}

/*
 * Writes zeros over a range of a file that is a hole. A range with data needs nothing, and is never
 * overwritten.
 */
static void prep_zeros(struct disk_uring *d, struct io_uring_sqe *sqe, const struct okv_io *io)
{
	uint64_t end = io->offset_bytes + io->bytes;
	off_t data = lseek(d->fd, io->offset_bytes, SEEK_DATA);
	uint32_t nr = 0;

	if ((data < 0 && errno != ENXIO) || (data >= 0 && (uint64_t)data < end)) {
		io_uring_prep_nop(sqe);
		return;
	}
	for (uint64_t left = io->bytes; left && nr < NR_ZERO_IOVECS; nr++) {
		d->zero_iov[nr] = (struct iovec){ d->zeros, left < ZERO_BYTES ? left : ZERO_BYTES };
		left -= d->zero_iov[nr].iov_len;
	}
	io_uring_prep_writev(sqe, d->fd, d->zero_iov, nr, io->offset_bytes);
}

static void submit(struct okv_disk *disk, struct okv_io *io)
{
	struct disk_uring *d = (struct disk_uring *)disk;
	struct io_uring_sqe *sqe;

	note_begin(d, io);
	if (io->kind == OKV_FLUSH) {
		submit_flush(d, io);
		return;
	}
	sqe = ring_sqe(d->ring);
	if (io->kind == OKV_READ) {
		io_uring_prep_read(sqe, DATA_FILE, io->buf, io->bytes, io->offset_bytes);
		sqe->flags |= IOSQE_FIXED_FILE;
		sqe->ioprio = io->ioprio;
	} else if (io->kind == OKV_WRITE) {
		io_uring_prep_write(sqe, DATA_FILE, io->buf, io->bytes, io->offset_bytes);
		sqe->flags |= IOSQE_FIXED_FILE;
		sqe->rw_flags = io->flags & OKV_FUA ? RWF_DSYNC : 0;
		sqe->ioprio = io->ioprio;
	} else if (io->kind == OKV_DISCARD && d->disk.is_sparse) {
		io_uring_prep_fallocate(sqe, d->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					io->offset_bytes, io->bytes);
	} else if (io->kind == OKV_DISCARD) {
		io_uring_prep_rw(IORING_OP_URING_CMD, sqe, d->fd, NULL, 0, 0);
		sqe->cmd_op = BLOCK_URING_CMD_DISCARD;
		sqe->addr = io->offset_bytes;
		sqe->addr3 = io->bytes;
	} else if (io->kind == OKV_ALLOCATE) {
		prep_allocation(d, sqe, io);
	} else {
		prep_zeros(d, sqe, io);
	}
	ring_tag(sqe, io, TAG_DISK);
}

void disk_uring_complete(struct disk_uring *d, uint64_t user_data, int result)
{
	struct okv_io *io = (struct okv_io *)(uintptr_t)user_data;
	bool transfers = io->kind == OKV_READ || io->kind == OKV_WRITE;

	/* A reservation of another host: what it has written since must not be answered. */
	if (result == -EBADE)
		fence_lost();
	if (io->kind == OKV_FLUSH) {
		flushed(d, result);
		return;
	}
	io->result = result < 0 ? error_of(io, result) : 0;
	if (transfers && result >= 0 && (uint32_t)result != io->bytes)
		io->result = -EIO;
	/*
	 * These are hints. Where a file system cannot allocate, writes have to find room
	 * themselves.
	 */
	if (io->kind == OKV_DISCARD || io->kind == OKV_PREPARE ||
	    (io->kind == OKV_ALLOCATE && result == -EOPNOTSUPP))
		io->result = 0;
	end_io(d, io);
}

static int wait_for_one(struct okv_disk *disk)
{
	struct disk_uring *d = (struct disk_uring *)disk;
	struct io_uring_cqe *cqe;
	int result;

	do {
		result = io_uring_submit_and_wait(d->ring, 1);
	} while (result == -EINTR);
	if (result < 0)
		return result;
	while (!io_uring_peek_cqe(d->ring, &cqe)) {
		uint64_t user_data = cqe->user_data;

		result = cqe->res;
		io_uring_cqe_seen(d->ring, cqe);
		if ((user_data & TAG_MASK) == TAG_DISK)
			disk_uring_complete(d, user_data, result);
	}
	return 0;
}

static const struct okv_disk_ops ops = { .submit = submit, .wait = wait_for_one };

/* A file in the sysfs of the queue of a device; NULL: there is none. */
static FILE *queue_file(dev_t device, const char *name)
{
	/* A partition has no queue of its own: its disk has it. */
	static const char *const ups[] = { "", "../" };
	FILE *file = NULL;
	char path[128];

	for (int i = 0; i < 2 && !file; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%squeue/%s", major(device),
			 minor(device), ups[i], name);
		file = fopen(path, "re");
	}
	return file;
}

/* The first character of a file in sysfs; 0: there is none. */
static int sysfs_char(const struct stat *st, const char *name)
{
	FILE *file = queue_file(st->st_rdev, name);
	int c;

	if (!file)
		return 0;
	c = fgetc(file);
	if (!strcmp(name, "write_cache") && c == 'w') {
		char rest[16] = "";

		/* "write back" or "write through": nothing volatile. */
		c = fgets(rest, sizeof(rest), file) && strstr(rest, "through") ? 't' : 'b';
	}
	fclose(file);
	return c;
}

void disk_uring_scheduler(int fd, char *name, size_t bytes)
{
	char line[256] = "", *begin, *end;
	struct stat st;
	FILE *file;

	name[0] = 0;
	if (fstat(fd, &st))
		return;
	file = queue_file(S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev, "scheduler");
	if (!file)
		return;
	/* "none [mq-mqfq] bfq" */
	begin = fgets(line, sizeof(line), file) ? strchr(line, '[') : NULL;
	end = begin ? strchr(begin, ']') : NULL;
	if (end)
		snprintf(name, bytes, "%.*s", (int)(end - begin - 1), begin + 1);
	fclose(file);
}

static int of_device(struct disk_uring *d, const struct stat *st)
{
	uint32_t physical;
	int logical;

	if (ioctl(d->fd, BLKGETSIZE64, &d->disk.size_bytes) || ioctl(d->fd, BLKSSZGET, &logical) ||
	    ioctl(d->fd, BLKPBSZGET, &physical))
		return -errno;
	d->disk.block_bytes = logical;
	if (physical <= BLOCK_BYTES_MAX && (int)physical > logical)
		d->disk.block_bytes = physical;
	d->disk.read_align_bytes = logical;
	d->disk.has_fua = sysfs_char(st, "fua") == '1' || sysfs_char(st, "write_cache") == 't';
	return 0;
}

/*
 * Blocks are those of the file system. Direct I/O would allow smaller ones, but then a write would
 * share a block with the one before.
 */
static int of_file(struct disk_uring *d, const struct stat *st)
{
	struct statx stx;

	d->disk.size_bytes = st->st_size;
	d->disk.has_fua = true;
	d->disk.is_sparse = true;
	d->zeros = aligned_alloc(BLOCK_BYTES_MAX, ZERO_BYTES);
	if (!d->zeros)
		return -ENOMEM;
	memset(d->zeros, 0, ZERO_BYTES);
	d->disk.block_bytes = d->disk.read_align_bytes = BLOCK_BYTES_MAX;
	if (!statx(d->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    stx.stx_mask & STATX_DIOALIGN && stx.stx_dio_offset_align &&
	    stx.stx_dio_offset_align <= BLOCK_BYTES_MAX)
		d->disk.read_align_bytes = stx.stx_dio_offset_align;
	if (d->disk.read_align_bytes < BLOCK_BYTES_MIN)
		d->disk.read_align_bytes = BLOCK_BYTES_MIN;
	return 0;
}

int disk_uring_init(struct disk_uring *d, struct io_uring *ring, int fd)
{
	struct stat st;
	int result;

	*d = (struct disk_uring){ .disk.ops = &ops, .ring = ring, .fd = fd };
	if (fstat(fd, &st))
		return -errno;
	result = S_ISBLK(st.st_mode) ? of_device(d, &st) : of_file(d, &st);
	d->disk.size_bytes -= result ? 0 : d->disk.size_bytes % d->disk.block_bytes;
	return result ? result : io_uring_register_files(ring, &fd, 1);
}

void disk_uring_destroy(struct disk_uring *d)
{
	/* The ring would let go of the file, and of its lock, only some time after its own end. */
	if (d->ring)
		io_uring_unregister_files(d->ring);
	free(d->zeros);
	d->zeros = NULL;
}
