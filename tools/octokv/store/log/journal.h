/* SPDX-License-Identifier: GPL-2.0 */
/*
 * journal.h - the heads of all partitions of a thread, durable in one write
 *
 * A thread has many partitions, and each has a log of its own. If each write of a log had heads of
 * its own, few puts would share the page that these take. So the heads go to the journal of the
 * thread first: a ring on the device, which has one write in flight. What arrives meanwhile becomes
 * the next write. The values go to where they belong at the same time. A batch is durable when both
 * are.
 *
 * A batch that has nothing else in flight beside it has its heads before its values all the same:
 * one write is faster than two.
 *
 * The heads lie in packs, too (pack.h), which are written later. The ring writes over the heads of
 * a pack only when that is on the device. The pack whose heads have been in the ring for longest is
 * closed early, so that the ring seldom waits for it.
 *
 * A head says where its batch lies and in which life of the segment. What an older turn of the
 * ring, or an earlier process, has left is in place already, or belongs to a batch that recovery
 * does not take. So the ring needs no beginning and no end, and recovery looks at all that can be
 * read in it.
 *
 * All stores of a device recover before one of them writes to its journal: what a partition needs
 * may be in any, as a partition moves between threads.
 */
#ifndef OKV_JOURNAL_H
#define OKV_JOURNAL_H

#include "pack.h"

/* ---- writing ---- */

/**
 * struct okv_journal - the journal of a store
 * @at:		position of the next write: counts on from turn to turn of the ring
 * @waiting:	batches whose heads are not on their way yet
 * @retry_ms:	the last write has failed: batches are alone until then
 * @nr_in_flight: batches of users that the store writes, with the journal or without it
 * @packs:	those with heads in the ring
 * @written:	called for a partition when some of its batches have left the journal, in
 *		whichever way: okv_batch.journal_result says it
 */
struct okv_journal {
	struct okv_store *store;
	uint32_t number;
	uint64_t bytes, at;
	struct okv_batch *waiting, *last_waiting;
	uint32_t nr_in_flight;
	struct okv_pack_list packs;
	bool is_writing, has_failed;
	uint64_t retry_ms;
	void (*written)(struct okv_partition *p);
};

/* NULL: the device has no journals, or no room for them. Blocks on a sparse device. */
struct okv_journal *okv_journal_new(struct okv_store *store, uint32_t number,
				    void (*written)(struct okv_partition *p));

/* Make the heads of a batch durable, which are in b->buf and in a pack. */
void okv_journal_add(struct okv_journal *j, struct okv_batch *b);

/*
 * Is it of use for a batch of @p now? Not after a write that has failed, for a second, and not
 * while a pack that the ring waits for cannot be written.
 */
bool okv_journal_works(const struct okv_journal *j, const struct okv_partition *p);

/* Write what waits, if there is room. */
void okv_journal_send(struct okv_journal *j);

/* ---- reading ---- */

struct okv_heads;

/*
 * Read all heads in all journals of the device for the partitions of a store; blocks. Returns 0, or
 * what a read returned: then @heads has what could be read.
 */
int okv_heads_read(struct okv_disk *disk, const struct okv_layout *layout, uint32_t first_partition,
		   uint32_t nr_partitions, struct okv_heads **heads);
void okv_heads_free(struct okv_heads *heads);

/* The latest life of a segment of which there are heads; 0: there are none. @heads may be NULL. */
uint64_t okv_heads_life(const struct okv_heads *heads, const struct okv_partition *p,
			uint32_t segment);

/*
 * Put the heads of a segment in that life into what was read of it, where they are not. @changed,
 * if not NULL, has a bool for each block, which becomes true.
 */
void okv_heads_overlay(const struct okv_heads *heads, const struct okv_partition *p,
		       uint32_t segment, uint64_t life, char *buf, bool *changed);

#endif
