// SPDX-License-Identifier: GPL-2.0
/*
 * heads.c - what the journals of a device have, for recovery: see journal.h
 *
 * A ring is read in whole and searched at each block. A write that is torn, or that a later one has
 * begun to write over, has a wrong checksum, and none of its batches was acknowledged or is needed.
 * Where a block cannot be read, something acknowledged may be lost: the caller decides what the
 * rest is good for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../mem.h"
#include "journal.h"
#include "record.h"

enum { READ_BYTES = 256 << 10 };

struct head {
	struct head *next;
	struct okv_head_disk disk;
	char bytes[];
};

struct okv_heads {
	uint32_t first_partition, nr_partitions;
	uint64_t nr;
	struct head **sorted;	/* by partition and segment */
	struct head *all;
};

static int by_place(const void *a, const void *b)
{
	const struct okv_head_disk *s = &(*(struct head *const *)a)->disk;
	const struct okv_head_disk *t = &(*(struct head *const *)b)->disk;

	if (s->partition != t->partition)
		return s->partition < t->partition ? -1 : 1;
	return s->segment < t->segment ? -1 : s->segment > t->segment;
}

static void add(struct okv_heads *heads, const struct okv_head_disk *disk, const char *bytes)
{
	struct head *head;

	if (disk->partition - heads->first_partition >= heads->nr_partitions)
		return;
	head = mem_alloc(sizeof(*head) + disk->bytes);
	head->disk = *disk;
	memcpy(head->bytes, bytes, disk->bytes);
	head->next = heads->all;
	heads->all = head;
	heads->nr++;
}

/* Add the heads of a write. What its checksum covers is what we have written, and still checked. */
static void add_all(struct okv_heads *heads, const struct okv_journal_disk *write)
{
	uint32_t at = sizeof(*write);

	for (uint32_t i = 0; i < write->nr_heads; i++) {
		struct okv_head_disk disk;

		if (write->bytes - at < sizeof(disk))
			return;
		memcpy(&disk, (const char *)write + at, sizeof(disk));
		at += sizeof(disk);
		if (disk.bytes > write->bytes - at)
			return;
		add(heads, &disk, (const char *)write + at);
		at += okv_round_up(disk.bytes, sizeof(uint64_t));
		if (at > write->bytes)
			return;
	}
}

static void search(struct okv_heads *heads, const struct okv_super_disk *super, uint32_t journal,
		   const char *ring)
{
	uint32_t block_bytes = super->block_bytes;

	for (uint64_t at = 0; at < super->journal_bytes; at += block_bytes) {
		const struct okv_journal_disk *write = (const void *)(ring + at);

		if (write->magic == OKV_JOURNAL_MAGIC && write->journal == journal &&
		    write->bytes >= sizeof(*write) && write->bytes <= super->journal_bytes - at &&
		    write->sum == okv_journal_sum(super, write, journal, at))
			add_all(heads, write);
	}
}

/* Read a range; what cannot be read is zeros. */
static int read_range(struct okv_disk *disk, uint64_t offset_bytes, char *to, uint32_t bytes)
{
	uint32_t block_bytes = disk->block_bytes;
	int error = okv_disk_io(disk, OKV_READ, offset_bytes, to, bytes), failed = 0;

	for (uint32_t at = 0; error == -EIO && at < bytes; at += block_bytes) {
		if (!okv_disk_io(disk, OKV_READ, offset_bytes + at, to + at, block_bytes))
			continue;
		memset(to + at, 0, block_bytes);
		failed = -EIO;
	}
	return error == -EIO ? failed : error;
}

static int read_ring(struct okv_disk *disk, const struct okv_super_disk *super, uint32_t journal,
		     char *ring)
{
	uint64_t offset_bytes = okv_journal_offset(super, journal);
	int error = 0;

	for (uint64_t at = 0; at < super->journal_bytes; at += READ_BYTES) {
		uint64_t left = super->journal_bytes - at;
		int result = read_range(disk, offset_bytes + at, ring + at,
					left < READ_BYTES ? left : READ_BYTES);

		error = result ? result : error;
	}
	return error;
}

int okv_heads_read(struct okv_disk *disk, const struct okv_layout *layout, uint32_t first_partition,
		   uint32_t nr_partitions, struct okv_heads **read)
{
	const struct okv_super_disk *super = &layout->super;
	struct okv_heads *heads = mem_zalloc(sizeof(*heads));
	char *ring = super->journal_bytes ? okv_alloc_blocks(disk, super->journal_bytes) : NULL;
	struct head *head;
	int error = 0;

	heads->first_partition = first_partition;
	heads->nr_partitions = nr_partitions;
	for (uint32_t i = 0; i < OKV_NR_JOURNALS && ring && (!error || error == -EIO); i++) {
		int result = read_ring(disk, super, i, ring);

		error = result ? result : error;
		search(heads, super, i, ring);
	}
	mem_free(ring);
	heads->sorted = mem_zalloc((heads->nr + 1) * sizeof(struct head *));
	head = heads->all;
	for (uint64_t i = 0; i < heads->nr; i++, head = head->next)
		heads->sorted[i] = head;
	qsort(heads->sorted, heads->nr, sizeof(struct head *), by_place);
	*read = heads;
	return error;
}

void okv_heads_free(struct okv_heads *heads)
{
	struct head *next;

	if (!heads)
		return;
	for (struct head *head = heads->all; head; head = next) {
		next = head->next;
		mem_free(head);
	}
	mem_free(heads->sorted);
	mem_free(heads);
}

/* Of a segment the first one, or where it would be. */
static uint64_t first_of(const struct okv_heads *heads, uint32_t partition, uint32_t segment)
{
	struct head wanted = { .disk = { .partition = partition, .segment = segment } };
	struct head *key = &wanted;
	uint64_t from = 0, to = heads->nr;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;

		if (by_place(&heads->sorted[middle], &key) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

uint64_t okv_heads_life(const struct okv_heads *heads, const struct okv_partition *p,
			uint32_t segment)
{
	uint64_t life = 0;

	if (!heads)
		return 0;
	for (uint64_t i = first_of(heads, p->number, segment); i < heads->nr; i++) {
		const struct okv_head_disk *disk = &heads->sorted[i]->disk;

		if (disk->partition != p->number || disk->segment != segment)
			break;
		life = disk->life > life ? disk->life : life;
	}
	return life;
}

void okv_heads_overlay(const struct okv_heads *heads, const struct okv_partition *p,
		       uint32_t segment, uint64_t life, char *buf, bool *changed)
{
	for (uint64_t i = first_of(heads, p->number, segment); i < heads->nr; i++) {
		const struct okv_head_disk *disk = &heads->sorted[i]->disk;
		uint32_t at = disk->offset_bytes, block_bytes = p->disk->block_bytes;

		if (disk->partition != p->number || disk->segment != segment)
			break;
		if (disk->life != life || at % OKV_ALIGN_BYTES || at > p->segment_bytes ||
		    disk->bytes > p->segment_bytes - at || disk->bytes < sizeof(uint64_t) ||
		    !memcmp(buf + at, heads->sorted[i]->bytes, disk->bytes))
			continue;
		memcpy(buf + at, heads->sorted[i]->bytes, disk->bytes);
		for (uint32_t block = at / block_bytes;
		     changed && block <= (at + disk->bytes - 1) / block_bytes; block++)
			changed[block] = true;
	}
}
