/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pack.h - heads of many batches that lie together, and are written late
 *
 * A batch alone takes a block, and on flash a page, for heads that are some 200 bytes. So a
 * partition keeps room for a page of heads in the segment of users: a pack. A batch puts its heads
 * into the pack, in memory, and its values behind it, on the device. What makes the heads durable
 * is the journal (journal.h). The pack is written once, when it is full or must not wait any
 * longer. From then on nothing needs what the journal has of it.
 *
 * Until then, reads of its heads are answered from memory. A checkpoint writes its root only
 * when all packs that were begun before it are on the device: what a root knows of lies where it
 * belongs. Recovery fills packs that are behind the root from the journals.
 *
 * A write that fails is tried again, with pauses (outage.c). A segment with a pack that has not
 * been written may not become something else, and its partition does not come to rest.
 */
#ifndef OKV_PACK_H
#define OKV_PACK_H

#include "../partition.h"

struct okv_pack;

/* Packs of several partitions in some order, each in one list at most. */
struct okv_pack_list {
	struct okv_pack *oldest, *newest;
};

/**
 * struct okv_pack - one pack that is not on the device yet
 * @next:		the next one of the partition, which was begun later
 * @list, @older, @newer: of the journal that has heads of it, in the order of the first one
 * @journal_at:		position of that in the journal
 * @number:		counts up in a partition
 * @nr_waiting:		batches with heads in it that wait for the journal, and know it
 * @used_bytes:		of @bytes; more only if it is the last one of the partition, and not closed
 */
struct okv_pack {
	struct okv_pack *next;
	struct okv_pack_list *list;
	struct okv_pack *older, *newer;
	struct okv_partition *partition;
	uint64_t number;
	uint64_t journal_at;
	uint32_t segment, offset_bytes;
	uint32_t bytes, used_bytes;
	uint32_t nr_waiting;
	bool is_closed, is_writing, is_written;
	char *buf;
	struct okv_io io;
};

/* How many bytes a pack has, about, and how many heads of one batch may have. */
uint32_t okv_pack_bytes(const struct okv_partition *p);
uint32_t okv_pack_batch_bytes_max(const struct okv_partition *p);

/* The one that takes heads, or NULL. */
struct okv_pack *okv_pack_open(const struct okv_partition *p);

/* Begin one at a place of a segment. There is no open one. */
void okv_pack_begin(struct okv_partition *p, uint32_t segment, uint32_t offset, uint32_t bytes);

/* End the open one, if there is one, and write it. */
void okv_pack_close(struct okv_partition *p);

/*
 * Write those again whose writes have failed, if the pause is over. A partition that is hurried,
 * and refuses writes, has no pauses: there only a tick tries again.
 */
void okv_packs_retry(struct okv_partition *p, bool is_tick);

/* Are all on the device that have a lower number? */
bool okv_packs_are_written(const struct okv_partition *p, uint64_t below);

/* Copy so much from a location on, with zeros behind the pack; false: it is not in a pack. */
bool okv_packs_read(const struct okv_partition *p, uint64_t location, char *to, uint32_t bytes);

/* Put what packs have of a segment into what was read of it. */
void okv_packs_overlay(const struct okv_partition *p, uint32_t segment, char *buf);

/* A pack that stays in memory, of a store that writes nothing. */
void okv_pack_keep(struct okv_partition *p, uint32_t segment, uint32_t offset, uint32_t bytes,
		   const char *from);

void okv_packs_free(struct okv_partition *p);

/*
 * A batch with heads in it does not wait for the journal any more. @list, if not NULL, is that of a
 * journal that has them from position @at on.
 */
void okv_pack_leave(struct okv_pack *pack, struct okv_pack_list *list, uint64_t at);

#endif
