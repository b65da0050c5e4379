// SPDX-License-Identifier: GPL-2.0
/*
 * recover.c - opening a partition: the newest checkpoint, then what the log has beyond it
 *
 * Replay. Records are applied in the order of the log: "remove the entry of the record that I
 * replace, if it is there; add my own, if it is not". Replay reads and compares no key. It does no
 * harm that the checkpoint shows some of it already. In the end there is an entry for each record
 * that was added, here or before, and that no record of the log removes. A record about the expiry
 * of another one sets it, if the entry of that one is there. One that clears a tenant removes all
 * of its entries. A move may be on its way then, and come behind it: so a move adds its entry only
 * if that of the record which it moves is still there.
 *
 * Where the log goes on. Segments have lives, numbered in the order of their use. The tail of the
 * log is the segment of the root, from the offset there, and all segments of later lives, in their
 * order. The first batch of a segment says its life. Batches are numbered without gaps. Where two
 * segments have the same numbers, the later life counts.
 *
 * What is missing. Batches are acknowledged in any order. A batch that is missing or torn was not
 * acknowledged, but one behind it may have been. So every block behind a gap may begin a batch, and
 * a batch that is found there counts: it was in flight together with the missing one, so it
 * concerns other keys.
 *
 * Witnesses. All this is so if the device did what it said. If it did not, a later batch that says
 * that all below some number were acknowledged is the witness. All of the last segment is searched
 * for witnesses. If an acknowledged batch is missing, the open fails. If only a value of it is
 * wrong, the batch is applied, and reading that value fails.
 *
 * After it. Recovery writes a checkpoint, with a number of lives that is beyond all that may have
 * been used, so that what is behind the end of the log is never looked at again. The flush of the
 * checkpoint makes durable what was found, before a client can see it: after kill -9 it may still
 * be in the device's cache only. If there was a gap, a second checkpoint replaces the root from
 * which it could be seen: later batches will say that all before them were acknowledged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log/journal.h"
#include "log/record.h"
#include "map.h"
#include "mem.h"
#include "segment.h"

struct tail_segment {
	uint32_t segment;
	uint64_t life;
	uint64_t first_seq;
};

struct place {
	uint64_t seq;
	uint32_t offset;
};

struct recovery {
	struct okv_partition *p;
	struct tail_segment *tail;
	uint32_t nr_tail;
	uint64_t max_life;
	uint64_t acknowledged;	/* a witness says that all batches below this one were */
	uint64_t seq;		/* the next one to apply */
	uint64_t gap_seq;	/* the first one that is missing before others; UINT64_MAX: none */
	uint64_t generation;	/* some batch says that this root was durable */
	bool *is_named;		/* by segment; NULL: the tail may be in any */
	char *buf;		/* a segment */
	bool *changed;		/* of its blocks: those that the journals have changed */
	struct place *places;	/* of batches in it; memory for @nr_places */
	uint32_t nr_places;
};

/* ---- reading ---- */

int okv_root_read(struct okv_partition *p, uint32_t slot, struct okv_root_disk *root)
{
	void *page = okv_alloc_blocks(p->disk, OKV_PAGE_BYTES);
	uint64_t at = okv_root_offset(&p->layout->super, p->number, slot);
	int error = okv_disk_io(p->disk, OKV_READ, at, page, OKV_PAGE_BYTES);

	memcpy(root, page, sizeof(*root));
	mem_free(page);
	if (error)
		return error;
	if ((root->magic != OKV_ROOT_MAGIC && root->magic != OKV_ROOT_MAGIC_1 &&
	     root->magic != OKV_ROOT_MAGIC_2) ||
	    root->partition != p->number ||
	    root->generation % OKV_NR_ROOTS != slot % OKV_NR_ROOTS ||
	    root->nr_segments > OKV_NR_ROOT_SEGMENTS || !root->generation ||
	    root->offset_bytes > p->segment_bytes || root->offset_bytes % p->disk->block_bytes ||
	    root->sum != okv_root_sum(&p->layout->super, root, p->number, slot))
		return -EUCLEAN;
	if (root->magic == OKV_ROOT_MAGIC_1)
		root->attempt = root->generation;
	if (root->magic != OKV_ROOT_MAGIC)
		root->nr_named = 0;
	if (root->nr_named > OKV_NR_ROOT_SEGMENTS - root->nr_segments)
		return -EUCLEAN;
	for (uint32_t i = 0; i < root->nr_segments + root->nr_named; i++) {
		if (root->segments[i] >= p->nr_segments)
			return -EUCLEAN;
	}
	return 0;
}

static void nothing_more(struct okv_partition *p)
{
	(void)p;
}

/* Read block by block. A header that cannot be read is no error, as no record is in it. */
static int read_blocks(struct recovery *r, uint32_t segment)
{
	struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes;
	int error = 0;

	for (uint32_t at = 0; at < p->segment_bytes; at += block_bytes) {
		int result = okv_disk_io(p->disk, OKV_READ, okv_segment_offset(p, segment) + at,
					 r->buf + at, block_bytes);

		if (!result)
			continue;
		memset(r->buf + at, 0, block_bytes);
		if (at && at + block_bytes < p->segment_bytes)
			error = result;
	}
	return error;
}

/* The journals are read when the first partition needs them, and kept for the others. */
static int read_heads(struct okv_store *store)
{
	const struct okv_open_options *options = &store->options;
	uint32_t nr = options->nr_partitions ? options->nr_partitions : store->info.nr_partitions;
	int error;

	if (store->heads || !store->layout.super.journal_bytes)
		return 0;
	error = okv_heads_read(store->disk, &store->layout, options->first_partition, nr,
			       &store->heads);
	if (error == -EIO && options->leaves_damaged)
		return 0;
	/* So that the next partition does not take these for all. */
	if (error) {
		okv_heads_free(store->heads);
		store->heads = NULL;
	}
	return error;
}

/* Read a segment of that life, and what journals have of it: r->changed says in which blocks. */
static int read_segment(struct recovery *r, uint32_t segment, uint64_t life)
{
	struct okv_partition *p = r->p;
	struct okv_open_options *options = &p->store->options;
	struct okv_load load;
	int error;

	okv_segment_load(p, &load, segment, r->buf, UINT32_MAX, nothing_more);
	while (load.nr_pending) {
		error = p->disk->ops->wait(p->disk);
		if (error)
			return error;
	}
	p->stats.recovered_bytes += p->segment_bytes;
	if (options->progress)
		options->progress(options->owner, p->number, p->stats.recovered_bytes,
				  (uint64_t)r->nr_tail * p->segment_bytes);
	error = load.error == -EIO ? read_blocks(r, segment) : load.error;
	if (!error)
		error = read_heads(p->store);
	memset(r->changed, 0, p->segment_bytes / p->disk->block_bytes * sizeof(*r->changed));
	if (!error && p->store->heads)
		okv_heads_overlay(p->store->heads, p, segment, life, r->buf, r->changed);
	return error;
}

/*
 * What came from a journal has to lie in its place before the journal is written again: each block
 * with something of it is written as a whole.
 */
static int put_in_place(struct recovery *r, uint32_t segment)
{
	struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes, nr = p->segment_bytes / block_bytes;
	int error = 0;

	for (uint32_t i = 0, end; i < nr && !error; i = end + 1) {
		uint32_t at = i * block_bytes;

		for (end = i; end < nr && r->changed[end]; end++)
			;
		if (end == i)
			continue;
		if (p->store->options.reads_only)
			okv_pack_keep(p, segment, at, (end - i) * block_bytes, r->buf + at);
		else
			error = okv_disk_io(p->disk, OKV_WRITE, okv_segment_offset(p, segment) + at,
					    r->buf + at, (end - i) * block_bytes);
	}
	return error;
}

/* ---- the tail ---- */

static int by_life(const void *a, const void *b)
{
	const struct tail_segment *s = a, *t = b;

	return s->life < t->life ? -1 : s->life > t->life;
}

/*
 * A header or the first batch cannot be read. If the root knows the segment in a life before the
 * tail, the segment has not been used again, unless the device lied. Of other segments, look at all
 * blocks. If only headers cannot be read, nothing is lost: the segment begins with the batch of the
 * lowest number that is there, since an earlier batch was not acknowledged, or would be there. Else
 * the lost block may be what says that the segment belongs to the tail, or its beginning.
 */
static int look_everywhere(struct recovery *r, uint32_t segment, uint64_t after_life,
			   const struct okv_batch_disk **found)
{
	struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes;
	const struct okv_batch_disk *lowest = NULL;
	int error;

	if (p->segments[segment].life && p->segments[segment].life <= after_life)
		return 0;
	error = read_blocks(r, segment);
	for (uint32_t at = 0; at < p->segment_bytes; at += block_bytes) {
		const struct okv_batch_disk *b = (void *)(r->buf + at);

		if (!okv_batch_is_good(p, b, segment, at) || b->life <= after_life)
			continue;
		if (!lowest || b->seq < lowest->seq)
			lowest = b;
		/* These say with which number it begins. */
		if (at <= block_bytes || at + block_bytes == p->segment_bytes) {
			*found = b;
			return 0;
		}
	}
	if (!error)
		*found = lowest;
	return error;
}

/*
 * Does a segment belong to the tail? One of its two headers and its first batch is enough to tell;
 * @found is the one that was found, or NULL.
 */
static int look_at(struct recovery *r, uint32_t segment, uint64_t after_life,
		   const struct okv_batch_disk **found)
{
	struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes;
	uint32_t offsets[] = { 0, block_bytes, p->segment_bytes - block_bytes };
	uint64_t at = okv_segment_offset(p, segment);
	int error = okv_disk_io(p->disk, OKV_READ, at, r->buf, 2 * block_bytes);

	*found = NULL;
	for (int i = 0; i < 3 && !error && !*found; i++) {
		const struct okv_batch_disk *b = (void *)(r->buf + offsets[i]);

		if (i == 2)
			error = okv_disk_io(p->disk, OKV_READ, at + offsets[i], r->buf + offsets[i],
					    block_bytes);
		if (error || !okv_batch_is_good(p, b, segment, offsets[i]))
			continue;
		if (b->life > after_life)
			*found = b;
		else if (b->life == p->segments[segment].life)
			break;
	}
	return error == -EIO ? look_everywhere(r, segment, after_life, found) : error;
}

static void note_batch(struct recovery *r, const struct okv_batch_disk *b)
{
	if (b->durable > r->acknowledged)
		r->acknowledged = b->durable;
	if (b->generation > r->generation)
		r->generation = b->generation;
}

static void note_names(struct recovery *r, const struct okv_root_disk *root)
{
	r->is_named = mem_zalloc(r->p->nr_segments * sizeof(*r->is_named));
	for (uint32_t i = 0; i < root->nr_named; i++)
		r->is_named[root->segments[root->nr_segments + i]] = true;
}

/*
 * Find all segments that may be part of the tail. Without names, look at those that the checkpoint
 * knows as well: if the roots on the device are older than the store had reason to believe, these
 * segments may have been used again.
 */
static int find_tail(struct recovery *r, const struct okv_root_disk *root)
{
	struct okv_partition *p = r->p;

	r->tail = mem_zalloc(p->nr_segments * sizeof(*r->tail));
	r->max_life = root->next_life;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		const struct okv_batch_disk *b;
		int error;

		if (i == root->segment || (r->is_named && !r->is_named[i]))
			continue;
		error = look_at(r, i, root->life, &b);
		if (error)
			return error;
		if (!b)
			continue;
		r->tail[r->nr_tail++] = (struct tail_segment){
			.segment = i, .life = b->life, .first_seq = b->seq,
		};
		if (b->life > r->max_life)
			r->max_life = b->life;
		note_batch(r, b);
	}
	if (root->segment < p->nr_segments)
		r->tail[r->nr_tail++] = (struct tail_segment){
			.segment = root->segment, .life = root->life, .first_seq = root->seq,
		};
	qsort(r->tail, r->nr_tail, sizeof(*r->tail), by_life);
	return 0;
}

/* "Witnesses" above. Search the last segment for the latest word of what was acknowledged. */
static int find_witness(struct recovery *r)
{
	struct okv_partition *p = r->p;
	const struct tail_segment *last = &r->tail[r->nr_tail - 1];
	int error;

	if (!r->nr_tail)
		return 0;
	error = read_segment(r, last->segment, last->life);
	for (uint32_t at = 0; at < p->segment_bytes && !error; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, r->buf, last->segment, at, p->segment_bytes);
		b = (void *)(r->buf + at);
		if (at < p->segment_bytes && b->life == last->life)
			note_batch(r, b);
	}
	return error;
}

/*
 * The tail and its witnesses. If the device has lost both of the next two roots, the log may have
 * gone on where this one does not say.
 */
static int look(struct recovery *r, const struct okv_root_disk *root)
{
	int error = find_tail(r, root);

	if (!error)
		error = find_witness(r);
	if (error || !r->is_named || r->generation < root->generation + OKV_NR_ROOTS)
		return error;
	mem_free(r->tail);
	mem_free(r->is_named);
	r->is_named = NULL;
	r->nr_tail = 0;
	error = find_tail(r, root);
	return error ? error : find_witness(r);
}

/* ---- replay ---- */

enum verdict { GOOD, BAD_VALUE, BAD };

/* Are all records of a batch there? */
static enum verdict judge_batch(const struct recovery *r, const struct okv_batch_disk *b,
				uint32_t segment, uint32_t offset)
{
	struct okv_bounds bounds = okv_batch_bounds(r->p, b, offset);
	uint32_t at = offset + sizeof(*b), block_bytes = r->p->disk->block_bytes;
	enum verdict verdict = GOOD;

	for (uint32_t i = 0; i < b->nr_records; i++) {
		const struct okv_record_disk *record;
		const char *value;

		record = okv_record_at(r->p, r->buf, segment, at, &bounds);
		if (!record)
			return BAD;
		value = r->buf + okv_value_offset(block_bytes, at, record);
		if (!okv_value_is_good(r->p, value, record->value_len, record->value_sum))
			verdict = BAD_VALUE;
		at += okv_head_bytes(block_bytes, record->key_len, record->value_len);
	}
	return at == bounds.head_end ? verdict : BAD;
}

static void apply_record(struct okv_partition *p, const struct okv_record_disk *record,
			 uint64_t location)
{
	bool was_there = false;

	if (record->kind == OKV_RECORD_CLEAR) {
		okv_map_clear(p, record->tenant);
		return;
	}
	if (record->kind == OKV_RECORD_EXPIRY) {
		okv_map_set_expiry(p, record->hash, record->prev, record->expire_ms);
		return;
	}
	if (record->prev != OKV_NOWHERE)
		was_there = okv_map_remove(p, record->hash, record->prev);
	if (okv_record_has_value(record) && (was_there || record->kind == OKV_RECORD_PUT) &&
	    !okv_index_at(&p->index, record->hash, location))
		okv_map_add(p, record, location);
}

static void apply_batch(struct okv_partition *p, const struct okv_batch_disk *b, uint32_t segment,
			uint32_t offset)
{
	uint32_t at = sizeof(*b);

	for (uint32_t i = 0; i < b->nr_records; i++) {
		const struct okv_record_disk *record = (const void *)((const char *)b + at);

		apply_record(p, record, okv_location(p, segment, offset + at));
		at += okv_head_bytes(p->disk->block_bytes, record->key_len, record->value_len);
		p->stats.nr_replayed_records++;
	}
}

/* Has the batch to be applied that begins there? */
static bool is_next(const struct recovery *r, const struct tail_segment *t, uint32_t offset,
		    uint64_t limit)
{
	const struct okv_batch_disk *b = (void *)(r->buf + offset);
	enum verdict verdict;

	if (b->seq < r->seq || b->seq >= limit)
		return false;
	verdict = judge_batch(r, b, t->segment, offset);
	return verdict == GOOD || (verdict == BAD_VALUE && b->seq < r->acknowledged);
}

static int by_seq(const void *a, const void *b)
{
	const struct place *s = a, *t = b;

	return s->seq < t->seq ? -1 : s->seq > t->seq;
}

/*
 * Where batches of a segment begin, from an offset on, in the order of their numbers: those of a
 * pack lie before others that are older. The last block is a header, and not a batch of the log.
 */
static uint32_t find_batches(struct recovery *r, const struct tail_segment *t, uint32_t offset)
{
	struct okv_partition *p = r->p;
	uint32_t end = p->segment_bytes - p->disk->block_bytes, nr = 0;

	for (uint32_t at = offset; at < end; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, r->buf, t->segment, at, end);
		b = (void *)(r->buf + at);
		if (at == end || b->life != t->life)
			continue;
		if (nr == r->nr_places) {
			r->nr_places = r->nr_places ? 2 * r->nr_places : 64;
			r->places = mem_grow(r->places, r->nr_places * sizeof(*r->places));
		}
		r->places[nr++] = (struct place){ .seq = b->seq, .offset = at };
	}
	if (nr)
		qsort(r->places, nr, sizeof(*r->places), by_seq);
	return nr;
}

/* Replay one segment from an offset on, below the number at which a later segment begins. */
static int replay_segment(struct recovery *r, const struct tail_segment *t, uint32_t offset,
			  uint64_t limit)
{
	struct okv_partition *p = r->p;
	int error = read_segment(r, t->segment, t->life);
	uint32_t nr;

	p->segments[t->segment].life = t->life;
	p->segments[t->segment].state = OKV_SEGMENT_SEALED;
	if (!error)
		error = put_in_place(r, t->segment);
	nr = error ? 0 : find_batches(r, t, offset);
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t at = r->places[i].offset;
		const struct okv_batch_disk *b = (void *)(r->buf + at);

		if (!is_next(r, t, at, limit))
			continue;
		if (b->seq > r->seq && r->gap_seq == UINT64_MAX)
			r->gap_seq = r->seq;
		apply_batch(p, b, t->segment, at);
		r->seq = b->seq + 1;
	}
	return error;
}

static int replay(struct recovery *r, const struct okv_root_disk *root)
{
	int error = 0;

	r->seq = root->seq;
	r->gap_seq = UINT64_MAX;
	for (uint32_t i = 0; i < r->nr_tail && !error; i++) {
		const struct tail_segment *t = &r->tail[i];
		uint32_t offset = r->p->disk->block_bytes;
		uint64_t limit = UINT64_MAX;

		for (uint32_t j = i + 1; j < r->nr_tail; j++)
			limit = r->tail[j].first_seq < limit ? r->tail[j].first_seq : limit;
		if (t->segment == root->segment && t->life == root->life)
			offset = root->offset_bytes;
		error = replay_segment(r, t, offset, limit);
	}
	if (!error && r->acknowledged > (r->gap_seq < r->seq ? r->gap_seq : r->seq))
		return -EUCLEAN;
	return error;
}

/*
 * Count the segments that are free, or would be if the file system had room for them. All entries
 * must lie in segments of the log.
 */
static int count_segments(struct okv_partition *p, uint64_t seq)
{
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		s->last_seq = seq - 1;
		if ((s->state == OKV_SEGMENT_FREE || s->state == OKV_SEGMENT_CHECKPOINT) &&
		    s->live_bytes)
			return -EUCLEAN;
		if (s->state == OKV_SEGMENT_FREE && p->disk->is_sparse)
			s->state = OKV_SEGMENT_HOLE;
	}
	okv_segments_count(p);
	return 0;
}

/* ---- the whole ---- */

/*
 * Forget what the other root said, and that root itself: the checkpoint that follows a fallback
 * takes the other root's segments for free ones.
 */
static void forget(struct okv_partition *p)
{
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++) {
		mem_free(p->roots[i].segments);
		p->roots[i] = (struct okv_root){ 0 };
	}
	okv_packs_free(p);
	okv_index_free(&p->index);
	okv_index_init(&p->index, p->layout->partition_bits,
		       (uint64_t)p->nr_segments * p->segment_bytes);
	memset(p->segments, 0, p->nr_segments * sizeof(*p->segments));
	memset(p->usage, 0, OKV_NR_TENANTS * sizeof(*p->usage));
	p->live_bytes = 0;
}

static void take_root(struct okv_partition *p, const struct okv_root_disk *root, bool fallback)
{
	struct okv_root *mine = &p->roots[root->generation % OKV_NR_ROOTS];

	p->generation = root->generation + (fallback ? 2 : 0);
	mine->generation = root->generation;
	mine->nr_segments = root->nr_segments;
	mine->segments = mem_zalloc(root->nr_segments * sizeof(*mine->segments));
	memcpy(mine->segments, root->segments, root->nr_segments * sizeof(*mine->segments));
	for (uint32_t i = 0; i < root->nr_segments; i++)
		p->segments[root->segments[i]].state = OKV_SEGMENT_CHECKPOINT;
	okv_checkpoint_note_named(p, root);
}

/*
 * A segment is used again only after two more roots, so that four times their number is beyond all
 * lives that a process can have begun since a root. But another recovery from the same root has
 * counted from there as well, if its own root is spoilt now: so each leaves out as many as it has
 * drawn.
 */
static uint64_t draw_lives(const struct okv_partition *p)
{
	return okv_sum(&p->number, sizeof(p->number), p->attempt_seed) >> 32;
}

/* Recover from one of the roots. @names: what it names counts. */
static int recover_from(struct okv_partition *p, const struct okv_root_disk *root, bool fallback,
			bool names)
{
	struct recovery r = { .p = p };
	int error;

	forget(p);
	error = okv_checkpoint_load(p, root);
	if (error)
		return error;
	r.buf = mem_work_wait(okv_align_of(p->disk), p->segment_bytes);
	r.changed = mem_zalloc(p->segment_bytes / p->disk->block_bytes * sizeof(*r.changed));
	if (names)
		note_names(&r, root);
	error = look(&r, root);
	if (!error)
		error = replay(&r, root);
	if (!error) {
		p->next_seq = r.seq;
		p->next_life = r.max_life + 4ULL * p->nr_segments + draw_lives(p);
		p->nr_roots_in_doubt = r.gap_seq == UINT64_MAX ? 1 : OKV_NR_ROOTS;
		take_root(p, root, fallback);
		error = count_segments(p, r.seq);
	}
	mem_work_end(r.buf, p->segment_bytes);
	mem_free(r.changed);
	mem_free(r.places);
	mem_free(r.tail);
	mem_free(r.is_named);
	return error;
}

/* How much memory the index of a root takes, about. */
static uint64_t index_bytes(const struct okv_partition *p, const struct okv_root_disk *root)
{
	/* The first chunk has no entries, each of the others but the last has so many bytes. */
	uint64_t bytes = root->nr_chunks * (uint64_t)okv_chunk_limit(p);

	return bytes + bytes / 3;
}

int okv_device_index_bytes(struct okv_disk *disk, uint64_t *bytes)
{
	struct okv_root_disk *roots = mem_alloc(OKV_NR_ROOTS * sizeof(*roots));
	struct okv_layout layout = { 0 };
	struct okv_partition p = { .disk = disk, .layout = &layout };
	int error = okv_layout_read(disk, &layout, NULL);

	p.segment_bytes = layout.super.segment_bytes;
	p.nr_segments = layout.super.nr_segments;
	*bytes = 0;
	for (; !error && p.number < layout.super.nr_partitions; p.number++) {
		bool good[] = { !okv_root_read(&p, 0, &roots[0]),
				!okv_root_read(&p, 1, &roots[1]) };
		uint32_t newest = !good[0] ||
				  (good[1] && roots[1].generation > roots[0].generation);

		/* Recovery says what is wrong if neither is good. */
		*bytes += good[newest] ? index_bytes(&p, &roots[newest]) : 0;
	}
	mem_free(roots);
	return error;
}

int okv_recover(struct okv_partition *p)
{
	struct okv_root_disk roots[OKV_NR_ROOTS];
	int errors[OKV_NR_ROOTS], error;
	uint32_t newest;
	bool names = true;

	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		errors[i] = okv_root_read(p, i, &roots[i]);
	/* A former octokvd names none, and takes any segment. */
	for (uint32_t i = 0; i < OKV_NR_ROOTS; i++)
		names &= !errors[i] && roots[i].magic == OKV_ROOT_MAGIC;
	newest = errors[0] || (!errors[1] && roots[1].generation > roots[0].generation);
	/* A root that could not be read this time may be the newest. */
	error = errors[newest] && errors[!newest] != -EUCLEAN ? errors[!newest] : errors[newest];
	if (!error)
		error = errors[newest] = recover_from(p, &roots[newest], errors[!newest], names);
	/* The chunks of the newer root are damaged or cannot be read. */
	if ((error == -EUCLEAN || error == -EIO) && !errors[!newest])
		error = recover_from(p, &roots[!newest], true, names);
	/* What is missing may be in the root, or in the chunks, that could not be read now. */
	if (error == -EUCLEAN && (errors[0] == -EIO || errors[1] == -EIO))
		error = -EIO;
	/*
	 * After kill -9 the root may be in the device's cache only. It has to stay before its
	 * checkpoint overwrites the chunks of the other one, which are free now.
	 */
	if (p->store->options.reads_only) {
		p->nr_roots_in_doubt = 0;
		return error;
	}
	if (!error)
		error = okv_disk_io(p->disk, OKV_FLUSH, 0, NULL, 0);
	while (!error && p->nr_roots_in_doubt)
		error = okv_checkpoint_wait(p);
	return error;
}
