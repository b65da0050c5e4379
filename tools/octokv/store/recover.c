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
 * Where the log goes on. Segments have lives, numbered in the order of their use. The root says two
 * places: for what users write, and for moves. The tail of each is the segment of the root, from
 * the offset there, and all segments of later lives, in their order. The first batch of a segment
 * says its life and its place. Batches are numbered without gaps, in both places together, and
 * applied in the order of their numbers. Where two segments of one place have the same numbers, the
 * later life counts.
 *
 * Runs. If the root of a recovery was lost, the tail has what was there before it and what was
 * written after it: two runs. Batches of the former that the recovery has not found may have come
 * to the device since. They do not count, nor does any with a number that the later run has. A
 * recovery leaves out more lives than one run can have begun since the root, which tells runs
 * apart.
 *
 * What is missing. Batches are acknowledged in any order. A batch that is missing or torn was not
 * acknowledged, but one behind it may have been. So every block behind a gap may begin a batch, and
 * a batch that is found there counts: it was in flight together with the missing one, so it
 * concerns other keys.
 *
 * Witnesses. All this is so if the device did what it said. If it did not, a later batch that says
 * that all below some number were acknowledged is the witness. All of the last segment of each
 * place is searched for witnesses. If an acknowledged batch is missing, the open fails. If only a
 * value of it is wrong, the batch is applied, and reading that value fails.
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
	enum okv_place_number place;
	uint32_t run;
	uint64_t life;
	uint64_t first_seq;
};

struct found {
	uint64_t seq;
	uint32_t offset;
};

/* The replay of a place: the segment @at, and of the @nr batches in it, that at @next. */
struct replay {
	const struct tail_segment *at;	/* NULL: before the first one */
	char *buf;			/* all of the segment */
	struct found *found;		/* memory for @nr_max */
	uint32_t nr, next, nr_max;
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
	char *buf;		/* segments: one for each place */
	bool *changed;		/* of the blocks of one: those that the journals have changed */
	struct replay replays[OKV_NR_PLACES];
};

uint64_t okv_lives_of_run(const struct okv_partition *p)
{
	return 4ULL * p->nr_segments;
}

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
	     root->magic != OKV_ROOT_MAGIC_2 && root->magic != OKV_ROOT_MAGIC_3) ||
	    root->partition != p->number ||
	    root->generation % OKV_NR_ROOTS != slot % OKV_NR_ROOTS ||
	    root->nr_segments > OKV_NR_ROOT_SEGMENTS || !root->generation ||
	    root->sum != okv_root_sum(&p->layout->super, root, p->number, slot))
		return -EUCLEAN;
	if (root->magic == OKV_ROOT_MAGIC_1)
		root->attempt = root->generation;
	if (root->magic == OKV_ROOT_MAGIC_1 || root->magic == OKV_ROOT_MAGIC_2)
		root->nr_named = 0;
	/* Moves had no place, and may have had one since. */
	if (root->magic != OKV_ROOT_MAGIC)
		root->moves = (struct okv_place_disk){
			.life = root->life, .segment = p->nr_segments,
		};
	else if (!okv_parts_moves(&p->layout->super) ||
		 (root->segment == root->moves.segment && root->segment < p->nr_segments))
		return -EUCLEAN;
	for (int i = 0; i < OKV_NR_PLACES; i++) {
		uint32_t offset = okv_root_place(root, i).offset_bytes;

		if (offset > p->segment_bytes || offset % p->disk->block_bytes)
			return -EUCLEAN;
	}
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
static int read_blocks(struct recovery *r, uint32_t segment, char *buf)
{
	struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes;
	int error = 0;

	for (uint32_t at = 0; at < p->segment_bytes; at += block_bytes) {
		int result = okv_disk_io(p->disk, OKV_READ, okv_segment_offset(p, segment) + at,
					 buf + at, block_bytes);

		if (!result)
			continue;
		memset(buf + at, 0, block_bytes);
		if (at && at + block_bytes < p->segment_bytes)
			error = result;
	}
	return error;
}

/* The journals are read when the first partition needs them, and kept for the others. */
static int read_heads(struct okv_partition *p)
{
	struct okv_store *store = p->store;
	const struct okv_open_options *options = &store->options;
	uint32_t nr = options->nr_partitions ? options->nr_partitions : store->info.nr_partitions;
	int error;

	if (store->heads || !store->layout.super.journal_bytes)
		return 0;
	error = okv_heads_read(store->disk, &store->layout, options->first_partition, nr,
			       &store->heads);
	if (error == -EIO && options->leaves_damaged) {
		okv_failed(p, OKV_EVENT_READ_ERROR, &(struct okv_io){
			.offset_bytes = okv_journal_offset(&store->layout.super, 0),
			.result = error,
		});
		return 0;
	}
	/* So that the next partition does not take these for all. */
	if (error) {
		okv_heads_free(store->heads);
		store->heads = NULL;
	}
	return error;
}

/* Read a segment of that life, and what journals have of it: r->changed says in which blocks. */
static int read_segment(struct recovery *r, uint32_t segment, uint64_t life, char *buf)
{
	struct okv_partition *p = r->p;
	struct okv_open_options *options = &p->store->options;
	struct okv_load load;
	int error;

	okv_segment_load(p, &load, segment, buf, UINT32_MAX, nothing_more);
	while (load.nr_pending) {
		error = p->disk->ops->wait(p->disk);
		if (error)
			return error;
	}
	p->stats.recovered_bytes += p->segment_bytes;
	if (options->progress)
		options->progress(options->owner, p->number, p->stats.recovered_bytes,
				  (uint64_t)r->nr_tail * p->segment_bytes);
	error = load.error == -EIO ? read_blocks(r, segment, buf) : load.error;
	if (!error)
		error = read_heads(p);
	memset(r->changed, 0, p->segment_bytes / p->disk->block_bytes * sizeof(*r->changed));
	if (!error && p->store->heads)
		okv_heads_overlay(p->store->heads, p, segment, life, buf, r->changed);
	return error;
}

/*
 * What came from a journal has to lie in its place before the journal is written again: each block
 * with something of it is written as a whole.
 */
static int put_in_place(struct recovery *r, uint32_t segment, char *buf)
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
			okv_pack_keep(p, segment, at, (end - i) * block_bytes, buf + at);
		else
			error = okv_disk_io(p->disk, OKV_WRITE, okv_segment_offset(p, segment) + at,
					    buf + at, (end - i) * block_bytes);
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
 * The batch that says with which number a segment begins, or else, if @takes_lowest, the one with
 * the lowest number; or NULL.
 */
static const struct okv_batch_disk *find_first(const struct recovery *r, uint32_t segment,
					       uint64_t after_life, bool takes_lowest)
{
	const struct okv_partition *p = r->p;
	uint32_t block_bytes = p->disk->block_bytes;
	const struct okv_batch_disk *lowest = NULL;

	for (uint32_t at = 0; at < p->segment_bytes; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, r->buf, segment, at, p->segment_bytes);
		b = (const void *)(r->buf + at);
		if (at == p->segment_bytes || b->life <= after_life)
			continue;
		if (at <= block_bytes || at + block_bytes == p->segment_bytes)
			return b;
		if (!lowest || b->seq < lowest->seq)
			lowest = b;
	}
	return takes_lowest ? lowest : NULL;
}

/*
 * A header or the first batch cannot be read. If the root knows the segment in a life before the
 * tail, the segment has not been used again, unless the device lied. Of other segments, look at all
 * blocks. If only headers cannot be read, nothing is lost: the segment begins with the batch of the
 * lowest number that is there, since an earlier batch was not acknowledged, or would be there. All
 * of them may be in a pack that was not written. Else the lost block may be what says that the
 * segment belongs to the tail, or its beginning.
 */
static int look_everywhere(struct recovery *r, uint32_t segment, uint64_t after_life,
			   const struct okv_batch_disk **found)
{
	struct okv_partition *p = r->p;
	uint64_t life;
	int error;

	if (p->segments[segment].life && p->segments[segment].life <= after_life)
		return 0;
	error = read_blocks(r, segment, r->buf);
	*found = find_first(r, segment, after_life, !error);
	if (*found)
		return 0;
	if (!error)
		error = read_heads(p);
	life = error ? 0 : okv_heads_life(p->store->heads, p, segment);
	if (life <= after_life)
		return error;
	okv_heads_overlay(p->store->heads, p, segment, life, r->buf, NULL);
	*found = find_first(r, segment, after_life, true);
	return 0;
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

static bool is_place_of(const struct okv_root_disk *root, uint32_t segment)
{
	return segment == root->segment || segment == root->moves.segment;
}

/* The tail is sorted by life: "Runs" above. */
static void number_runs(struct recovery *r, const struct okv_root_disk *root)
{
	uint64_t last_life = root->next_life;
	uint32_t run = 0;

	for (uint32_t i = 0; i < r->nr_tail; i++) {
		struct tail_segment *t = &r->tail[i];

		run += t->life >= last_life + okv_lives_of_run(r->p);
		t->run = run;
		if (t->life > last_life)
			last_life = t->life;
	}
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

		if (is_place_of(root, i) || (r->is_named && !r->is_named[i]))
			continue;
		error = look_at(r, i, okv_root_life(root), &b);
		if (error)
			return error;
		if (!b)
			continue;
		r->tail[r->nr_tail++] = (struct tail_segment){
			.segment = i, .place = okv_batch_place_of(b), .life = b->life,
			.first_seq = b->seq,
		};
		if (b->life > r->max_life)
			r->max_life = b->life;
		note_batch(r, b);
	}
	for (int i = 0; i < OKV_NR_PLACES; i++) {
		struct okv_place_disk at = okv_root_place(root, i);

		if (at.segment < p->nr_segments)
			r->tail[r->nr_tail++] = (struct tail_segment){
				.segment = at.segment, .place = i, .life = at.life,
				.first_seq = root->seq,
			};
	}
	qsort(r->tail, r->nr_tail, sizeof(*r->tail), by_life);
	number_runs(r, root);
	return 0;
}

static const struct tail_segment *last_of(const struct recovery *r, enum okv_place_number place)
{
	for (uint32_t i = r->nr_tail; i; i--) {
		if (r->tail[i - 1].place == place)
			return &r->tail[i - 1];
	}
	return NULL;
}

/* Search a segment for the latest word of what was acknowledged. */
static int search(struct recovery *r, const struct tail_segment *last)
{
	struct okv_partition *p = r->p;
	int error = read_segment(r, last->segment, last->life, r->buf);

	for (uint32_t at = 0; at < p->segment_bytes && !error; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, r->buf, last->segment, at, p->segment_bytes);
		b = (void *)(r->buf + at);
		if (at < p->segment_bytes && b->life == last->life)
			note_batch(r, b);
	}
	return error;
}

/* "Witnesses" above. */
static int find_witness(struct recovery *r)
{
	int error = 0;

	for (int i = 0; i < OKV_NR_PLACES && !error; i++) {
		const struct tail_segment *last = last_of(r, i);

		error = last ? search(r, last) : 0;
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
static enum verdict judge_batch(struct okv_partition *p, const char *buf, uint32_t segment,
				uint32_t offset)
{
	const struct okv_batch_disk *b = (const void *)(buf + offset);
	struct okv_bounds bounds = okv_batch_bounds(p, b, offset);
	uint32_t at = offset + sizeof(*b), block_bytes = p->disk->block_bytes;
	enum verdict verdict = GOOD;

	for (uint32_t i = 0; i < b->nr_records; i++) {
		const struct okv_record_disk *record;
		const char *value;

		record = okv_record_at(p, buf, segment, at, &bounds);
		if (!record)
			return BAD;
		value = buf + okv_value_offset(block_bytes, at, record);
		if (!okv_value_is_good(p, value, record->value_len, record->value_sum))
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

/* Has the next batch of a place to be applied? */
static bool is_next(const struct recovery *r, const struct replay *at)
{
	const struct found *found = &at->found[at->next];
	enum verdict verdict;

	if (found->seq < r->seq)
		return false;
	verdict = judge_batch(r->p, at->buf, at->at->segment, found->offset);
	return verdict == GOOD || (verdict == BAD_VALUE && found->seq < r->acknowledged);
}

static int by_seq(const void *a, const void *b)
{
	const struct found *s = a, *t = b;

	return s->seq < t->seq ? -1 : s->seq > t->seq;
}

/*
 * Where batches of a segment begin, from an offset on and below a number, in the order of their
 * numbers: those of a pack lie before others that are older. The last block is a header, and not a
 * batch of the log.
 */
static void find_batches(struct okv_partition *p, struct replay *at, uint32_t from, uint64_t limit)
{
	uint32_t end = p->segment_bytes - p->disk->block_bytes;

	at->nr = at->next = 0;
	for (uint32_t offset = from; offset < end; offset += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		offset = okv_batch_find(p, at->buf, at->at->segment, offset, end);
		b = (void *)(at->buf + offset);
		if (offset == end || b->life != at->at->life || b->seq >= limit)
			continue;
		if (at->nr == at->nr_max) {
			at->nr_max = at->nr_max ? 2 * at->nr_max : 64;
			at->found = mem_grow(at->found, at->nr_max * sizeof(*at->found));
		}
		at->found[at->nr++] = (struct found){ .seq = b->seq, .offset = offset };
	}
	if (at->nr)
		qsort(at->found, at->nr, sizeof(*at->found), by_seq);
}

/*
 * The number with which a segment begins that has the same ones instead: of a later life. What does
 * not count must not be waited for: the other place would overtake the later run.
 */
static uint64_t limit_of(const struct recovery *r, const struct tail_segment *t)
{
	uint64_t limit = UINT64_MAX;

	for (const struct tail_segment *u = t + 1; u < r->tail + r->nr_tail; u++) {
		if ((u->place == t->place || u->run != t->run) && u->first_seq < limit)
			limit = u->first_seq;
	}
	return limit;
}

/* Go on with segment @t of the tail. */
static int begin_segment(struct recovery *r, const struct okv_root_disk *root,
			 const struct tail_segment *t)
{
	struct okv_place_disk place = okv_root_place(root, t->place);
	struct okv_partition *p = r->p;
	struct replay *at = &r->replays[t->place];
	uint32_t offset = p->disk->block_bytes;
	int error = read_segment(r, t->segment, t->life, at->buf);

	p->segments[t->segment].life = t->life;
	p->segments[t->segment].state = OKV_SEGMENT_SEALED;
	if (!error)
		error = put_in_place(r, t->segment, at->buf);
	if (error)
		return error;
	if (t->segment == place.segment && t->life == place.life)
		offset = place.offset_bytes;
	at->at = t;
	find_batches(p, at, offset, limit_of(r, t));
	return 0;
}

/* Have a batch of each place, unless it is at its end; @rest: what is not replayed of the tail. */
static int fill(struct recovery *r, const struct okv_root_disk *root,
		const struct tail_segment **rest)
{
	const struct tail_segment *end = r->tail + r->nr_tail;
	int error = 0;

	for (int i = 0; i < OKV_NR_PLACES; i++) {
		struct replay *at = &r->replays[i];

		while (at->next == at->nr && rest[i] < end && !error) {
			if (rest[i]->place == (enum okv_place_number)i)
				error = begin_segment(r, root, rest[i]);
			rest[i]++;
		}
	}
	return error;
}

/* The place that has the lowest number; NULL: none has more. */
static struct replay *lowest(struct recovery *r)
{
	struct replay *lowest = NULL;

	for (int i = 0; i < OKV_NR_PLACES; i++) {
		struct replay *at = &r->replays[i];

		if (at->next < at->nr &&
		    (!lowest || at->found[at->next].seq < lowest->found[lowest->next].seq))
			lowest = at;
	}
	return lowest;
}

static int replay(struct recovery *r, const struct okv_root_disk *root)
{
	const struct tail_segment *rest[OKV_NR_PLACES] = { r->tail, r->tail };
	struct replay *at;
	int error;

	r->seq = root->seq;
	r->gap_seq = UINT64_MAX;
	while (!(error = fill(r, root, rest)) && (at = lowest(r))) {
		const struct found *found = &at->found[at->next];

		if (is_next(r, at)) {
			if (found->seq > r->seq && r->gap_seq == UINT64_MAX)
				r->gap_seq = r->seq;
			apply_batch(r->p, (void *)(at->buf + found->offset), at->at->segment,
				    found->offset);
			r->seq = found->seq + 1;
		}
		at->next++;
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
	okv_map_forget_usage(p);
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
 * What is beyond the lives of a run (okv_lives_of_run()) is free. But another recovery from the
 * same root has counted from there as well, if its own root is spoilt now: so each leaves out as
 * many as it has drawn.
 */
static uint64_t draw_lives(const struct okv_partition *p)
{
	return okv_sum(&p->number, sizeof(p->number), p->attempt_seed) >> 32;
}

/* Recover from one of the roots. @names: what it names counts. */
static int recover_from(struct okv_partition *p, const struct okv_root_disk *root, bool fallback,
			bool names)
{
	uint32_t nr_places = okv_nr_places(&p->layout->super);
	struct recovery r = { .p = p };
	int error;

	forget(p);
	error = okv_checkpoint_load(p, root);
	if (error)
		return error;
	r.buf = mem_work_wait(okv_align_of(p->disk), nr_places * (size_t)p->segment_bytes);
	for (uint32_t i = 0; i < nr_places; i++)
		r.replays[i].buf = r.buf + i * (size_t)p->segment_bytes;
	r.changed = mem_zalloc(p->segment_bytes / p->disk->block_bytes * sizeof(*r.changed));
	if (names)
		note_names(&r, root);
	error = look(&r, root);
	if (!error)
		error = replay(&r, root);
	if (!error) {
		p->next_seq = r.seq;
		p->next_life = r.max_life + okv_lives_of_run(p) + draw_lives(p);
		p->nr_roots_in_doubt = r.gap_seq == UINT64_MAX ? 1 : OKV_NR_ROOTS;
		take_root(p, root, fallback);
		error = count_segments(p, r.seq);
	}
	mem_work_end(r.buf, nr_places * (size_t)p->segment_bytes);
	mem_free(r.changed);
	for (int i = 0; i < OKV_NR_PLACES; i++)
		mem_free(r.replays[i].found);
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
		names &= !errors[i] && roots[i].nr_named;
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
