// SPDX-License-Identifier: GPL-2.0
/*
 * pack.c - heads of many batches that lie together: see pack.h
 */
#include <string.h>

#include "../mem.h"
#include "pack.h"

enum { PART = 8 };	/* of a small segment */

uint32_t okv_pack_bytes(const struct okv_partition *p)
{
	uint32_t part_bytes = okv_round_up(p->segment_bytes / PART, p->disk->block_bytes);

	return part_bytes < OKV_APART_ALIGN_BYTES ? part_bytes : OKV_APART_ALIGN_BYTES;
}

/* A larger one has a block of its own, or more, at no great loss. */
uint32_t okv_pack_batch_bytes_max(const struct okv_partition *p)
{
	return okv_pack_bytes(p) / 4;
}

struct okv_pack *okv_pack_open(const struct okv_partition *p)
{
	return p->last_pack && !p->last_pack->is_closed ? p->last_pack : NULL;
}

static struct okv_pack *add(struct okv_partition *p, uint32_t segment, uint32_t offset,
			    uint32_t bytes)
{
	struct okv_pack *pack = mem_zalloc(sizeof(*pack));

	*pack = (struct okv_pack){
		.partition = p, .number = p->next_pack++, .segment = segment,
		.offset_bytes = offset, .bytes = bytes,
		.buf = okv_alloc_blocks(p->disk, bytes),
	};
	memset(pack->buf, 0, bytes);
	if (p->last_pack)
		p->last_pack->next = pack;
	else
		p->packs = pack;
	p->last_pack = pack;
	p->segments[segment].nr_headers++;
	return pack;
}

void okv_pack_begin(struct okv_partition *p, uint32_t segment, uint32_t offset, uint32_t bytes)
{
	add(p, segment, offset, bytes);
}

void okv_pack_keep(struct okv_partition *p, uint32_t segment, uint32_t offset, uint32_t bytes,
		   const char *from)
{
	struct okv_pack *pack = add(p, segment, offset, bytes);

	memcpy(pack->buf, from, bytes);
	pack->used_bytes = bytes;
	pack->is_closed = true;
}

static void list_add(struct okv_pack_list *list, struct okv_pack *pack)
{
	pack->list = list;
	pack->newer = NULL;
	pack->older = list->newest;
	if (list->newest)
		list->newest->newer = pack;
	else
		list->oldest = pack;
	list->newest = pack;
}

static void list_remove(struct okv_pack *pack)
{
	if (!pack->list)
		return;
	if (pack->older)
		pack->older->newer = pack->newer;
	else
		pack->list->oldest = pack->newer;
	if (pack->newer)
		pack->newer->older = pack->older;
	else
		pack->list->newest = pack->older;
	pack->list = NULL;
}

/* It is on the device, or was of no use, or all of the store is dropped. */
static void end(struct okv_pack *pack)
{
	struct okv_partition *p = pack->partition;
	struct okv_pack **at = &p->packs, *before = NULL;

	for (; *at != pack; at = &before->next)
		before = *at;
	*at = pack->next;
	if (p->last_pack == pack)
		p->last_pack = before;
	p->segments[pack->segment].nr_headers--;
	list_remove(pack);
	mem_free(pack->buf);
	mem_free(pack);
}

void okv_pack_leave(struct okv_pack *pack, struct okv_pack_list *list, uint64_t at)
{
	pack->nr_waiting--;
	if (list && !pack->list && !pack->is_written) {
		pack->journal_at = at;
		list_add(list, pack);
	}
	if (pack->is_written && !pack->nr_waiting)
		end(pack);
}

/* Has one that is to be written again? */
static bool has_failed(const struct okv_partition *p)
{
	for (const struct okv_pack *pack = p->packs; pack; pack = pack->next) {
		if (pack->is_closed && !pack->is_writing && !pack->is_written)
			return true;
	}
	return false;
}

static void written(struct okv_io *io)
{
	struct okv_pack *pack = io->owner;
	struct okv_partition *p = pack->partition;

	pack->is_writing = false;
	if (io->result) {
		okv_failed(p, OKV_EVENT_WRITE_ERROR, io);
		okv_outage_note(p, &p->pack_outage);
		p->packs_fail_long |= okv_outage_is_long(p, &p->pack_outage);
	} else {
		pack->is_written = true;
		if (!has_failed(p))
			okv_outage_end(&p->pack_outage);
		list_remove(pack);
		if (!pack->nr_waiting)
			end(pack);
	}
	okv_changed(p);
}

/* With FUA, whatever that costs the device: all that follows may rely on it. */
static void write_pack(struct okv_pack *pack)
{
	struct okv_partition *p = pack->partition;

	pack->is_writing = true;
	pack->io = (struct okv_io){
		.kind = OKV_WRITE, .flags = OKV_FUA, .buf = pack->buf,
		.bytes = okv_round_up(pack->used_bytes, p->disk->block_bytes),
		.offset_bytes = okv_segment_offset(p, pack->segment) + pack->offset_bytes,
		.done = written, .owner = pack,
	};
	p->disk->ops->submit(p->disk, &pack->io);
}

void okv_pack_close(struct okv_partition *p)
{
	struct okv_pack *pack = okv_pack_open(p);

	if (!pack)
		return;
	pack->is_closed = true;
	if (pack->used_bytes)
		write_pack(pack);
	else
		end(pack);
}

void okv_packs_retry(struct okv_partition *p, bool is_tick)
{
	if (okv_outage_pauses(p, &p->pack_outage) || (p->is_hurried && p->refusing && !is_tick))
		return;
	for (struct okv_pack *pack = p->packs; pack; pack = pack->next) {
		if (pack->is_closed && !pack->is_writing && !pack->is_written)
			write_pack(pack);
	}
}

bool okv_packs_are_written(const struct okv_partition *p, uint64_t below)
{
	return !p->packs || p->packs->number >= below;
}

bool okv_packs_read(const struct okv_partition *p, uint64_t location, char *to, uint32_t bytes)
{
	uint32_t segment = okv_segment_of(p, location);
	uint64_t offset = location * OKV_ALIGN_BYTES - (uint64_t)segment * p->segment_bytes;

	for (const struct okv_pack *pack = p->packs; pack; pack = pack->next) {
		uint64_t end = pack->offset_bytes + pack->used_bytes;
		uint32_t nr = bytes < end - offset ? bytes : end - offset;

		if (pack->segment != segment || offset < pack->offset_bytes || offset >= end)
			continue;
		memcpy(to, pack->buf + (offset - pack->offset_bytes), nr);
		memset(to + nr, 0, bytes - nr);
		return true;
	}
	return false;
}

void okv_packs_overlay(const struct okv_partition *p, uint32_t segment, char *buf)
{
	for (const struct okv_pack *pack = p->packs; pack; pack = pack->next) {
		if (pack->segment == segment)
			memcpy(buf + pack->offset_bytes, pack->buf, pack->used_bytes);
	}
}

void okv_packs_free(struct okv_partition *p)
{
	while (p->packs)
		end(p->packs);
}
