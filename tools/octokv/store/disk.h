/* SPDX-License-Identifier: GPL-2.0 */
/*
 * disk.h - the device below the store, as an interface
 *
 * The store knows a device only through this: a size, a block size, whether a write can be made
 * durable by itself, and requests that complete later. disk_uring.c implements it for files and
 * block devices on a ring of the caller. sim/sim_disk.c implements it for the simulator, where a
 * device loses power, and tears, loses and misdirects writes.
 *
 * Calls. A disk belongs to one thread. submit() takes a request and returns. done() of the request
 * runs later, from the caller's event loop or from wait(), and never from within submit(). The
 * request and its buffer belong to the disk from submit() to done(). Offsets, lengths and buffers
 * are multiples of block_bytes, for reads of read_align_bytes. A flush has none. Requests that are
 * in flight together complete in any order. A power cut may tear them at 512 bytes. It leaves:
 *
 *	write with OKV_FUA	once its done() has been called with a result of 0
 *	plain write		once a flush, submitted after its done(), has completed with 0
 *	anything else		maybe: all of it, none of it, or some of its 512-byte sectors
 *
 * wait() is for the calls of the store that block (format, open, close). It sleeps until something
 * completes, runs the done() of what did and returns 0. It returns a negative errno if nothing will
 * ever complete.
 */
#ifndef OKV_DISK_H
#define OKV_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct okv_disk;

enum okv_io_kind {
	OKV_READ,
	OKV_WRITE,
	OKV_FLUSH,

	/* A hint: the range may read as anything from now on. */
	OKV_DISCARD,

	/* Make sure that writes to the range find room, whatever it holds; fails without room. */
	OKV_ALLOCATE,

	/*
	 * A hint: the range has room, holds nothing and will be written. The disk may write zeros
	 * there, so that the writes are fast.
	 */
	OKV_PREPARE,
};

enum okv_io_flags {
	OKV_FUA	= 1 << 0,	/* done() means durable */
};

/**
 * struct okv_io - one request to a disk
 * @kind:		what to do
 * @flags:		of enum okv_io_flags
 * @ioprio:		class, hint and level as in linux/ioprio.h; 0: the kernel chooses
 * @offset_bytes:	where on the device
 * @bytes:		how much
 * @mark:		for the disk
 * @buf:		to read into or to write from
 * @result:		0, or a negative errno; valid in @done. A short read or write is an -EIO
 * @done:		called once
 * @owner:		for the owner of the request
 * @next:		for the disk
 */
struct okv_io {
	enum okv_io_kind kind;
	uint16_t flags;
	uint16_t ioprio;
	uint64_t offset_bytes;
	uint32_t bytes;
	uint32_t mark;
	void *buf;
	int result;
	void (*done)(struct okv_io *io);
	void *owner;
	struct okv_io *next;
};

struct okv_disk_ops {
	void (*submit)(struct okv_disk *disk, struct okv_io *io);
	int (*wait)(struct okv_disk *disk);
};

/**
 * struct okv_disk - a device
 * @ops:	how to reach it
 * @size_bytes:	multiple of @block_bytes
 * @block_bytes: unit of writes, a power of two of 512 or more
 * @read_align_bytes: unit of reads, at most @block_bytes: a record seldom fills its last block
 * @has_fua:	OKV_FUA costs no more than a write and a flush; else the store writes plainly and
 *		shares flushes
 * @is_sparse:	a first write to a range has to allocate it: OKV_ALLOCATE says whether there is
 *		room, and OKV_PREPARE does for a whole segment at once what is slow piece by piece
 */
struct okv_disk {
	const struct okv_disk_ops *ops;
	uint64_t size_bytes;
	uint32_t block_bytes;
	uint32_t read_align_bytes;
	bool has_fua;
	bool is_sparse;
};

#endif
