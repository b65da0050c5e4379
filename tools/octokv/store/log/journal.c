// SPDX-License-Identifier: GPL-2.0
/*
 * journal.c - the heads of all partitions of a thread, durable in one write: see journal.h
 */
#include <errno.h>
#include <string.h>

#include "../mem.h"
#include "journal.h"

enum {
	WRITE_BYTES_MAX	= 64 << 10,
	WRITE_PART	= 4,	/* of a small ring */
	RETRY_MS	= 1000,
};

struct journal_write {
	struct okv_journal *journal;
	struct okv_batch *batches;
	uint64_t at;
	struct okv_io io;
};

struct okv_journal *okv_journal_new(struct okv_store *store, uint32_t number,
				    void (*written)(struct okv_partition *p))
{
	const struct okv_super_disk *super = &store->layout.super;
	struct okv_journal *j;

	if (!super->journal_bytes || number >= OKV_NR_JOURNALS)
		return NULL;
	if (store->disk->is_sparse &&
	    okv_disk_io(store->disk, OKV_ALLOCATE, okv_journal_offset(super, number), NULL,
			super->journal_bytes))
		return NULL;
	j = mem_zalloc(sizeof(*j));
	*j = (struct okv_journal){
		.store = store, .number = number, .bytes = super->journal_bytes,
		.written = written,
	};
	return j;
}

static uint32_t entry_bytes(const struct okv_batch *b)
{
	return sizeof(struct okv_head_disk) + okv_round_up(b->head_bytes, sizeof(uint64_t));
}

/* How many bytes the next write has, with what waits. */
static uint32_t next_bytes(const struct okv_journal *j)
{
	uint32_t most = j->bytes / WRITE_PART, bytes = sizeof(struct okv_journal_disk);

	if (most > WRITE_BYTES_MAX)
		most = WRITE_BYTES_MAX;
	for (const struct okv_batch *b = j->waiting; b; b = b->journal_next) {
		if (b != j->waiting && bytes + entry_bytes(b) > most)
			break;
		bytes += entry_bytes(b);
	}
	return bytes;
}

/* Packs that are in the ring for long are written, so that it has room in time. */
static void close_old(struct okv_journal *j)
{
	for (struct okv_pack *pack = j->packs.oldest; pack; pack = pack->newer) {
		if (j->at - pack->journal_at < j->bytes / 2)
			break;
		if (pack == okv_pack_open(pack->partition))
			okv_pack_close(pack->partition);
	}
}

/* Batches are out of the journal. */
static void leave(struct okv_batch *b, int result)
{
	for (struct okv_batch *next; b; b = next) {
		next = b->journal_next;
		b->has_left_journal = true;
		b->journal_result = result;
		b->partition->has_left_journal = true;
	}
}

static void tell(struct okv_journal *j)
{
	const struct okv_store *store = j->store;

	for (uint32_t i = 0; i < store->info.nr_partitions; i++) {
		struct okv_partition *p = store->partitions[i];

		if (p && p->has_left_journal)
			j->written(p);
	}
}

static void write_done(struct okv_io *io)
{
	struct journal_write *w = io->owner;
	struct okv_journal *j = w->journal;

	j->is_writing = false;
	j->has_failed = io->result;
	if (io->result) {
		j->retry_ms = w->batches->partition->now_ms + RETRY_MS;
		/* Not to the same place, and not far: an outage does not fill the ring. */
		j->at = w->at + j->store->disk->block_bytes;
	}
	leave(w->batches, io->result);
	mem_free(io->buf);
	mem_free(w);
	/* Before all else that this may cause: the next ones wait for it. */
	okv_journal_send(j);
	tell(j);
}

/* The ring has no room, and will have none: the oldest pack cannot be written. */
static void refuse(struct okv_journal *j)
{
	struct okv_batch *all = j->waiting;

	j->waiting = j->last_waiting = NULL;
	for (struct okv_batch *b = all; b; b = b->journal_next)
		okv_pack_leave(b->pack, NULL, 0);
	leave(all, -EIO);
	tell(j);
}

/* Move the heads of a batch to a write. */
static void take(struct okv_journal *j, struct journal_write *w, struct okv_batch **last)
{
	struct okv_batch *b = j->waiting;

	j->waiting = b->journal_next;
	if (!j->waiting)
		j->last_waiting = NULL;
	b->journal_next = NULL;
	if (*last)
		(*last)->journal_next = b;
	else
		w->batches = b;
	*last = b;
	okv_pack_leave(b->pack, &j->packs, j->at);
}

static uint32_t put_head(const struct okv_batch *b, char *to)
{
	const struct okv_partition *p = b->partition;
	struct okv_head_disk head = {
		.life = p->segments[b->segment].life, .partition = p->number,
		.segment = b->segment, .offset_bytes = b->offset_bytes, .bytes = b->head_bytes,
	};

	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), b->buf, b->head_bytes);
	return entry_bytes(b);
}

/* Send a write of so many bytes, which has room at j->at. */
static void send(struct okv_journal *j, uint32_t bytes, uint32_t sent_bytes)
{
	const struct okv_super_disk *super = &j->store->layout.super;
	struct okv_disk *disk = j->store->disk;
	struct journal_write *w = mem_zalloc(sizeof(*w));
	struct okv_journal_disk *header = okv_alloc_blocks(disk, sent_bytes);
	struct okv_batch *last = NULL;
	uint32_t at = sizeof(*header), nr = 0;

	memset(header, 0, sent_bytes);
	for (; at < bytes; nr++) {
		at += put_head(j->waiting, (char *)header + at);
		take(j, w, &last);
	}
	header->magic = OKV_JOURNAL_MAGIC;
	header->journal = j->number;
	header->bytes = bytes;
	header->nr_heads = nr;
	header->sum = okv_journal_sum(super, header, j->number, j->at % j->bytes);
	w->journal = j;
	w->at = j->at;
	w->io = (struct okv_io){
		.kind = OKV_WRITE, .flags = disk->has_fua ? OKV_FUA : 0,
		.offset_bytes = okv_journal_offset(super, j->number) + j->at % j->bytes,
		.buf = header, .bytes = sent_bytes, .done = write_done, .owner = w,
	};
	j->at += sent_bytes;
	j->is_writing = true;
	disk->ops->submit(disk, &w->io);
}

void okv_journal_send(struct okv_journal *j)
{
	const struct okv_pack *oldest;
	uint32_t bytes, sent_bytes;
	uint64_t at;

	if (!j || j->is_writing || !j->waiting)
		return;
	close_old(j);
	oldest = j->packs.oldest;
	bytes = next_bytes(j);
	sent_bytes = okv_round_up(bytes, j->store->disk->block_bytes);
	/* A write does not cross the end of the ring. */
	at = j->at % j->bytes + sent_bytes > j->bytes ? okv_round_up(j->at, j->bytes) : j->at;
	if (oldest && at + sent_bytes - oldest->journal_at > j->bytes) {
		if (okv_outage_is_long(oldest->partition, &oldest->partition->pack_outage))
			refuse(j);
		return;
	}
	j->at = at;
	send(j, bytes, sent_bytes);
}

bool okv_journal_works(const struct okv_journal *j, const struct okv_partition *p)
{
	const struct okv_pack *oldest = j->packs.oldest;

	/* The clock may be set back. */
	if (j->has_failed && p->now_ms < j->retry_ms && j->retry_ms - p->now_ms <= RETRY_MS)
		return false;
	return !oldest || oldest->partition->pack_outage.nr_failures <= OKV_NR_RETRIES;
}

void okv_journal_add(struct okv_journal *j, struct okv_batch *b)
{
	b->journal_next = NULL;
	b->pack->nr_waiting++;
	if (j->last_waiting)
		j->last_waiting->journal_next = b;
	else
		j->waiting = b;
	j->last_waiting = b;
}
