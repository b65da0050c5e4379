/* SPDX-License-Identifier: GPL-2.0 */
/*
 * thin.h - a disk of any size for the store's unit tests, which counts what it is asked
 *
 * It holds only sectors that are not zero. Requests complete in their order, when the caller waits,
 * and a write is durable then.
 */
#ifndef STORE_THIN_H
#define STORE_THIN_H

#include "store/disk.h"
#include "test/test.h"

enum { THIN_SECTOR_BYTES = 512, THIN_NR_LISTS = 1 << 18 };

struct thin_sector {
	struct thin_sector *next;
	uint64_t number;
	char data[THIN_SECTOR_BYTES];
};

struct thin {
	struct okv_disk disk;
	struct thin_sector **lists;
	struct okv_io *first, **last;
	uint64_t nr_requests, read_bytes, written_bytes;
};

static inline struct thin_sector **thin_find(struct thin *t, uint64_t number)
{
	struct thin_sector **at = &t->lists[number * 0x9e3779b97f4a7c15ULL >> 46];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

static inline void thin_write(struct thin *t, uint64_t number, const char *data)
{
	static const char zeros[THIN_SECTOR_BYTES];
	struct thin_sector **at = thin_find(t, number);

	if (!*at && !memcmp(data, zeros, sizeof(zeros)))
		return;
	if (!*at)
		*at = calloc(1, sizeof(**at));
	(*at)->number = number;
	memcpy((*at)->data, data, sizeof((*at)->data));
}

static inline void thin_read(struct thin *t, uint64_t number, char *data)
{
	const struct thin_sector *sector = *thin_find(t, number);

	if (sector)
		memcpy(data, sector->data, sizeof(sector->data));
}

static inline void thin_submit(struct okv_disk *disk, struct okv_io *io)
{
	struct thin *t = (struct thin *)disk;

	t->nr_requests++;
	io->next = NULL;
	*t->last = io;
	t->last = &io->next;
}

static inline int thin_wait(struct okv_disk *disk)
{
	struct thin *t = (struct thin *)disk;
	struct okv_io *io = t->first;

	if (!io)
		return -1;
	t->first = io->next;
	if (!t->first)
		t->last = &t->first;
	if (io->kind == OKV_READ)
		memset(io->buf, 0, io->bytes);
	for (uint32_t at = 0; at < io->bytes; at += THIN_SECTOR_BYTES) {
		uint64_t number = (io->offset_bytes + at) / THIN_SECTOR_BYTES;

		if (io->kind == OKV_READ)
			thin_read(t, number, (char *)io->buf + at);
		if (io->kind == OKV_WRITE)
			thin_write(t, number, (char *)io->buf + at);
	}
	t->read_bytes += io->kind == OKV_READ ? io->bytes : 0;
	t->written_bytes += io->kind == OKV_WRITE ? io->bytes : 0;
	io->result = 0;
	io->done(io);
	return 0;
}

static inline void thin_init(struct thin *t, uint64_t size_bytes)
{
	static const struct okv_disk_ops ops = { .submit = thin_submit, .wait = thin_wait };

	*t = (struct thin){
		.disk = { .ops = &ops, .size_bytes = size_bytes, .block_bytes = 4096,
			  .read_align_bytes = 4096, .has_fua = true },
		.lists = calloc(THIN_NR_LISTS, sizeof(*t->lists)),
	};
	t->last = &t->first;
}

static inline void thin_free(struct thin *t)
{
	for (uint32_t i = 0; i < THIN_NR_LISTS; i++) {
		while (t->lists[i]) {
			struct thin_sector *sector = t->lists[i];

			t->lists[i] = sector->next;
			free(sector);
		}
	}
	free(t->lists);
}

#endif
