// SPDX-License-Identifier: GPL-2.0
/*
 * checkpoint.c - the index to the device, while it is in use, and from it
 *
 * A checkpoint notes where the log is: the first batch that has not taken effect. Then it writes
 * shard after shard, each as it is at that moment. So a later shard may show what batches beyond
 * the noted one did. That does no harm: a record in the log says which record it replaces. Replay
 * removes the entry of that record if it is there, and adds its own if it is not. That gives the
 * same set in the end, from any mixture of older and newer shards (recover.c).
 *
 * Chunks are valid for one attempt only, whose number the root has. What an attempt that came to
 * nothing has left is not valid under the root of the next one, which writes to the same places. So
 * if the device loses a chunk, nothing older is taken for it.
 *
 * The chunks go to free segments. Only when they are durable, a root that names them overwrites the
 * older one of the two roots of the partition. Until the new root is durable, recovery uses the
 * other one. After that, the other one serves if the new one cannot be read. So what both roots
 * need is kept:
 *
 *	the chunks of a root		until a newer root has taken its place
 *	a segment without live records	until both roots come from checkpoints that began when it
 *					had no live record any more
 *
 * The second line also keeps a deletion: its record stays until no root is left that could bring
 * back the key.
 *
 * A root names the segments that the log may go on in until two newer roots are there. The log
 * takes only one that both roots on the device name. So recovery from either root looks at a few
 * segments and not at all, and the next root may be lost. Free segments are named first, those of
 * the other root before new ones. So the log finds one as long as checkpoints come in time. A root
 * that has no room for enough of them names none: the log may go on in any.
 *
 * What the root knows of has to lie in its place, and not only in a journal. So the packs that were
 * begun before the checkpoint are written before the root is (log/pack.h).
 *
 * Each root is read back before it counts. If the device had lost it, the root in its place would
 * name other segments. After a write that failed it counts only when it could be read: the root in
 * its place might have the failed write in its tail, and that write may be on the device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log/pack.h"
#include "log/place.h"
#include "map.h"
#include "mem.h"
#include "segment.h"

enum { TAIL_BYTES = 1 << 30 };	/* of all partitions together, unless the index is large */

/* ---- writing ---- */

/* A number that no attempt has had, of this process or of one before it. */
static uint64_t draw_attempt(struct okv_partition *p)
{
	uint64_t parts[] = { p->number, ++p->nr_attempts };

	return okv_sum(parts, sizeof(parts), p->attempt_seed);
}

uint32_t okv_chunk_limit(const struct okv_partition *p)
{
	return p->segment_bytes / 4 < OKV_CHUNK_BYTES ? p->segment_bytes / 4 : OKV_CHUNK_BYTES;
}

/*
 * After so many bytes a checkpoint is due. That bounds what recovery reads, whatever the size of
 * the device, and what checkpoints write, whatever the size of the index.
 */
static uint64_t due_bytes(const struct okv_partition *p)
{
	uint64_t share_bytes = TAIL_BYTES / p->layout->super.nr_partitions;
	uint64_t most_bytes = p->nr_segments / 8 * (uint64_t)p->segment_bytes;
	uint64_t index_bytes = okv_index_disk_bytes(&p->index);
	uint64_t bytes = share_bytes > 4 * index_bytes ? share_bytes : 4 * index_bytes;
	uint64_t open_bytes = okv_nr_places(&p->layout->super) * (uint64_t)p->segment_bytes;

	/* Recovery reads whole segments. */
	bytes -= bytes > open_bytes ? open_bytes : 0;
	if (bytes > most_bytes)
		bytes = most_bytes > 2 * index_bytes ? most_bytes : 2 * index_bytes;
	return bytes > p->segment_bytes ? bytes : p->segment_bytes;
}

/* As many segments as the log takes between some checkpoints. */
static uint32_t nr_to_name(const struct okv_partition *p)
{
	uint32_t nr = p->store->options.nr_named;

	return nr ? nr : 4 * (due_bytes(p) / p->segment_bytes) + 8;
}

bool okv_checkpoint_is_awaited(const struct okv_partition *p)
{
	return !p->nr_free_named && p->nr_free > okv_segments_of_checkpoint(p);
}

/* The log will soon have none to take, and has written something since the last checkpoint. */
static bool is_low(const struct okv_partition *p)
{
	return p->nr_free_named < p->nr_free &&
	       p->nr_free_named + p->nr_holes_named <= nr_to_name(p) / 4 &&
	       p->bytes_since_checkpoint > p->segment_bytes / 2;
}

bool okv_checkpoint_is_due(const struct okv_partition *p)
{
	return p->bytes_since_checkpoint > due_bytes(p) || is_low(p) ||
	       okv_checkpoint_is_awaited(p);
}

static void step(struct okv_partition *p);
static void finish(struct okv_partition *p);

static void end(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;

	c->step = OKV_CHECKPOINT_NONE;
	c->waits = c->waits_for_packs = false;
	mem_free(c->buf);
	c->buf = NULL;
	mem_free(c->root);
	c->root = NULL;
}

static void note_failure(struct okv_partition *p)
{
	okv_outage_note(p, &p->checkpoint_outage);
	if (okv_outage_is_long(p, &p->checkpoint_outage))
		okv_log_stop(p);
}

/* No root names the chunks: free them and begin another checkpoint later. */
static void give_up(struct okv_partition *p)
{
	okv_segments_release(p, p->checkpoint.root->segments, p->checkpoint.root->nr_segments);
	end(p);
	note_failure(p);
}

/* The root may be there or not: only writing it again helps. */
static void try_root_again(struct okv_partition *p)
{
	p->checkpoint.step = OKV_CHECKPOINT_ROOT;
	p->checkpoint.waits = true;
	note_failure(p);
	okv_checkpoint_resume(p);
}

void okv_checkpoint_resume(struct okv_partition *p)
{
	if (p->checkpoint.waits_for_packs)
		step(p);
	if (!p->checkpoint.waits || okv_outage_pauses(p, &p->checkpoint_outage) ||
	    (p->is_hurried && p->refusing))
		return;
	p->checkpoint.waits = false;
	step(p);
}

static void io_done(struct okv_io *io)
{
	struct okv_partition *p = io->owner;
	struct okv_checkpoint *c = &p->checkpoint;

	if (io->result) {
		okv_failed(p, io->kind == OKV_READ ? OKV_EVENT_READ_ERROR : OKV_EVENT_WRITE_ERROR,
			   io);
		if (c->step < OKV_CHECKPOINT_ROOT)
			give_up(p);
		else if (c->step == OKV_CHECKPOINT_ROOT_READ && !p->has_failed_write)
			finish(p);
		else
			try_root_again(p);
	} else if (c->step == OKV_CHECKPOINT_ROOT_READ && memcmp(c->buf, c->root, OKV_PAGE_BYTES)) {
		p->stats.nr_corrupt++;
		okv_event(p, (struct okv_event){
			.kind = OKV_EVENT_DAMAGE, .offset_bytes = io->offset_bytes,
		});
		try_root_again(p);
	} else {
		switch (c->step) {
		case OKV_CHECKPOINT_FLUSH:
			c->step = OKV_CHECKPOINT_ROOT;
			break;
		case OKV_CHECKPOINT_ROOT:
			c->step = OKV_CHECKPOINT_ROOT_FLUSH;
			break;
		default:
			break;
		}
		step(p);
	}
	okv_changed(p);
}

static void send(struct okv_partition *p, enum okv_io_kind kind, uint64_t offset_bytes, void *buf,
		 uint32_t bytes)
{
	struct okv_io *io = &p->checkpoint.io;

	*io = (struct okv_io){
		.kind = kind, .offset_bytes = offset_bytes, .buf = buf, .bytes = bytes,
		.done = io_done, .owner = p,
	};
	p->disk->ops->submit(p->disk, io);
}

/* Find a place for a chunk of so many bytes. */
static bool find_place(struct okv_partition *p, uint32_t bytes)
{
	struct okv_checkpoint *c = &p->checkpoint;

	if (c->root->nr_segments && c->offset_bytes + bytes <= p->segment_bytes)
		return true;
	if (bytes > p->segment_bytes || c->root->nr_segments == OKV_NR_ROOT_SEGMENTS)
		return false;
	c->segment = okv_segment_take(p, OKV_SEGMENT_CHECKPOINT);
	if (c->segment == p->nr_segments)
		return false;
	c->root->segments[c->root->nr_segments++] = c->segment;
	c->offset_bytes = 0;
	return true;
}

/* Does the next root need it? */
static bool is_needed(const struct okv_segment *s)
{
	return okv_segment_holds_log(s) && s->state != OKV_SEGMENT_DRAINED;
}

static uint32_t put_segments(const struct okv_partition *p, char *to)
{
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		const struct okv_segment *s = &p->segments[i];
		struct okv_segment_disk disk = { .life = is_needed(s) ? s->life : 0 };

		memcpy(to + i * sizeof(disk), &disk, sizeof(disk));
	}
	return p->nr_segments * sizeof(struct okv_segment_disk);
}

static uint64_t nr_expiries_of(const struct okv_shard *s)
{
	return s->expiries ? s->expiries->nr : 0;
}

/* What a shard takes in a checkpoint. */
static uint32_t shard_bytes(const struct okv_partition *p, const struct okv_shard *s)
{
	uint32_t bytes = sizeof(struct okv_shard_disk) + s->nr_entries * sizeof(struct okv_entry);

	if (okv_has_small_records(&p->layout->super))
		bytes += sizeof(uint64_t) + nr_expiries_of(s) * sizeof(struct okv_expiry);
	return bytes;
}

static uint32_t put_shard(const struct okv_partition *p, uint32_t shard, char *to)
{
	const struct okv_shard *s = &p->index.shards[shard];
	struct okv_shard_disk disk = { .shard = shard, .nr_entries = s->nr_entries };
	uint64_t nr_expiries = nr_expiries_of(s);

	memcpy(to, &disk, sizeof(disk));
	to += sizeof(disk);
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		if (s->entries[i].size) {
			memcpy(to, &s->entries[i], sizeof(s->entries[i]));
			to += sizeof(s->entries[i]);
		}
	}
	if (okv_has_small_records(&p->layout->super)) {
		memcpy(to, &nr_expiries, sizeof(nr_expiries));
		if (nr_expiries)
			memcpy(to + sizeof(nr_expiries), s->expiries->at,
			       nr_expiries * sizeof(s->expiries->at[0]));
	}
	return shard_bytes(p, s);
}

/* Send the next chunk, with all its shards as they are now. */
static bool send_chunk(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;
	uint32_t last = c->next_shard, bytes = sizeof(struct okv_chunk_disk), sent_bytes;
	struct okv_chunk_disk *header;

	if (!c->root->nr_chunks)
		bytes += p->nr_segments * sizeof(struct okv_segment_disk);
	while (c->root->nr_chunks && last < okv_index_nr_shards(&p->index) &&
	       bytes < okv_chunk_limit(p))
		bytes += shard_bytes(p, &p->index.shards[last++]);
	sent_bytes = okv_round_up(bytes, p->disk->block_bytes);
	if (!find_place(p, sent_bytes))
		return false;
	mem_free(c->buf);
	c->buf = okv_alloc_blocks(p->disk, sent_bytes);
	memset(c->buf, 0, sent_bytes);
	bytes = sizeof(*header);
	if (!c->root->nr_chunks)
		bytes += put_segments(p, c->buf + bytes);
	for (; c->next_shard < last; c->next_shard++)
		bytes += put_shard(p, c->next_shard, c->buf + bytes);
	header = (void *)c->buf;
	*header = (struct okv_chunk_disk){
		.magic = okv_has_small_records(&p->layout->super) ? OKV_CHUNK_MAGIC :
								    OKV_CHUNK_MAGIC_1,
		.partition = p->number,
		.attempt = c->root->attempt, .chunk = c->root->nr_chunks++, .bytes = bytes,
	};
	header->payload_sum = okv_sum(header + 1, bytes - sizeof(*header),
				      p->layout->super.secret);
	header->sum = okv_chunk_sum(&p->layout->super, header, p->number,
				    okv_location(p, c->segment, c->offset_bytes), c->root->attempt);
	send(p, OKV_WRITE, okv_segment_offset(p, c->segment) + c->offset_bytes, c->buf, sent_bytes);
	c->offset_bytes += sent_bytes;
	return true;
}

/* ---- segments for the log ---- */

static void name(struct okv_root_disk *root, uint32_t segment)
{
	root->segments[root->nr_segments + root->nr_named++] = segment;
}

enum { NR_TURNS = 4 };

/* In which order segments are named, 0 first; NR_TURNS: not at all. */
static uint32_t turn_of(const struct okv_partition *p, const struct okv_segment *s)
{
	switch (s->state) {
	case OKV_SEGMENT_FREE:
		return okv_segment_stays_named(p, s) ? 0 : 1;
	case OKV_SEGMENT_DRAINED:
	case OKV_SEGMENT_CHECKPOINT:
		return 2;
	case OKV_SEGMENT_HOLE:
	case OKV_SEGMENT_TRIM:
		return 3;
	default:
		return NR_TURNS;
	}
}

/* Has the log taken it behind the places where it goes on by this root? */
static bool is_in_tail(const struct okv_segment *s, const struct okv_root_disk *root)
{
	return okv_segment_holds_log(s) && s->life > okv_root_life(root);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t nr_in_tail(const struct okv_partition *p, const struct okv_root_disk *root)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < p->nr_segments; i++)
		nr += is_in_tail(&p->segments[i], root);
	return nr;
}

/*
 * So many that the log may take are named. Too short a list would have the log wait for one
 * checkpoint of a large index after the other: 0 then, and recovery looks at all segments. A store
 * of an earlier version has no names, so that an earlier octokvd can read it.
 */
static uint32_t nr_may_be_named(const struct okv_partition *p, const struct okv_root_disk *root)
{
	uint32_t nr = least(nr_to_name(p), p->nr_segments);
	uint32_t nr_taken = root->nr_segments + nr_in_tail(p, root);
	uint32_t room = OKV_NR_ROOT_SEGMENTS - least(nr_taken, OKV_NR_ROOT_SEGMENTS);

	if (okv_has_near_roots(&p->layout->super) || room < nr - nr / 4)
		return 0;
	return least(nr, room);
}

/*
 * Name those of the tail, and some that the log may take. What is not named now is nothing for the
 * log from this moment on.
 */
static void name_segments(struct okv_partition *p)
{
	struct okv_root_disk *root = p->checkpoint.root;
	uint32_t nr_left = nr_may_be_named(p, root);

	if (!nr_left) {
		if (root->magic == OKV_ROOT_MAGIC_3)
			root->magic = OKV_ROOT_MAGIC_2;
		return;
	}
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		if (is_in_tail(&p->segments[i], root))
			name(root, i);
	}
	for (uint32_t turn = 0; turn < NR_TURNS; turn++) {
		for (uint32_t i = 0; i < p->nr_segments; i++) {
			struct okv_segment *s = &p->segments[i];

			if (turn_of(p, s) != turn || is_in_tail(s, root))
				continue;
			if (nr_left) {
				name(root, i);
				nr_left--;
			} else {
				s->named_by = 0;
			}
		}
	}
	okv_segments_count(p);
}

void okv_checkpoint_note_named(struct okv_partition *p, const struct okv_root_disk *root)
{
	uint32_t bit = 1 << root->generation % OKV_NR_ROOTS;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		p->segments[i].named_by &= ~bit;
		if (!root->nr_named)
			p->segments[i].named_by |= bit;
	}
	for (uint32_t i = 0; i < root->nr_named; i++)
		p->segments[root->segments[root->nr_segments + i]].named_by |= bit;
	okv_segments_count(p);
}

static void finish(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;
	struct okv_root *root = &p->roots[c->root->generation % OKV_NR_ROOTS];

	okv_segments_release(p, root->segments, root->nr_segments);
	mem_free(root->segments);
	okv_checkpoint_note_named(p, c->root);
	root->generation = c->root->generation;
	root->nr_segments = c->root->nr_segments;
	root->segments = mem_zalloc(root->nr_segments * sizeof(*root->segments));
	memcpy(root->segments, c->root->segments, root->nr_segments * sizeof(*root->segments));
	p->generation = root->generation;
	okv_outage_end(&p->checkpoint_outage);
	p->stats.nr_checkpoints++;
	if (c->clears_doubt && p->nr_roots_in_doubt)
		p->nr_roots_in_doubt--;
	p->has_failed_write &= p->nr_roots_in_doubt != 0;
	if (p->refusing && !p->nr_roots_in_doubt) {
		p->refusing = false;
		okv_event(p, (struct okv_event){
			.kind = OKV_EVENT_TAKES, .ms = p->now_ms - p->refusing_since_ms,
		});
		p->log_outage.since_ms = p->now_ms;
	}
	end(p);
	okv_segments_reclaim(p);
}

static void send_root(struct okv_partition *p)
{
	struct okv_root_disk *root = p->checkpoint.root;
	uint32_t slot = root->generation % OKV_NR_ROOTS;

	/* Once: it may be on the device when it is written again. */
	if (!root->sum)
		name_segments(p);
	root->sum = okv_root_sum(&p->layout->super, root, p->number, slot);
	send(p, OKV_WRITE, okv_root_offset(&p->layout->super, p->number, slot), root,
	     OKV_PAGE_BYTES);
}

static void read_root(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;
	uint32_t slot = c->root->generation % OKV_NR_ROOTS;

	c->step = OKV_CHECKPOINT_ROOT_READ;
	mem_free(c->buf);
	c->buf = okv_alloc_blocks(p->disk, OKV_PAGE_BYTES);
	send(p, OKV_READ, okv_root_offset(&p->layout->super, p->number, slot), c->buf,
	     OKV_PAGE_BYTES);
}

static void step(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;

	switch (c->step) {
	case OKV_CHECKPOINT_CHUNKS:
		if (c->root->nr_chunks && c->next_shard == okv_index_nr_shards(&p->index)) {
			c->step = OKV_CHECKPOINT_FLUSH;
			send(p, OKV_FLUSH, 0, NULL, 0);
		} else if (!send_chunk(p)) {
			give_up(p);
		}
		break;
	case OKV_CHECKPOINT_ROOT:
		c->waits_for_packs = !okv_packs_are_written(p, c->packs_below);
		if (!c->waits_for_packs)
			send_root(p);
		break;
	case OKV_CHECKPOINT_ROOT_FLUSH:
		if (c->io.kind == OKV_WRITE)
			send(p, OKV_FLUSH, 0, NULL, 0);
		else
			read_root(p);
		break;
	case OKV_CHECKPOINT_ROOT_READ:
		finish(p);
		break;
	case OKV_CHECKPOINT_FLUSH:	/* io_done() goes on to the root */
	case OKV_CHECKPOINT_NONE:
		break;
	}
}

/* Where a place was when the first batch that is not in the index got its number, or is now. */
static struct okv_place_disk position(const struct okv_partition *p, enum okv_place_number place)
{
	struct okv_place_disk at = p->batches ? p->batches->from[place] : okv_place_now(p, place);
	const struct okv_segment *s = &p->segments[at.segment];

	/* It was full, and will be used for something else, or has been already. */
	if (at.segment < p->nr_segments && (s->life != at.life || !is_needed(s)))
		at.segment = p->nr_segments;
	return at;
}

/* Note where the log is now. */
static void note_position(const struct okv_partition *p, struct okv_root_disk *root)
{
	struct okv_place_disk users = position(p, OKV_OF_USERS);

	root->seq = okv_log_durable_seq(p);
	root->next_life = p->next_life;
	root->life = users.life;
	root->segment = users.segment;
	root->offset_bytes = users.offset_bytes;
	if (okv_parts_moves(&p->layout->super))
		root->moves = position(p, OKV_OF_MOVES);
}

void okv_checkpoint_start(struct okv_partition *p)
{
	struct okv_checkpoint *c = &p->checkpoint;

	c->step = OKV_CHECKPOINT_CHUNKS;
	c->clears_doubt = p->nr_roots_in_doubt;
	c->next_shard = 0;
	c->root = okv_alloc_blocks(p->disk, OKV_PAGE_BYTES);
	memset(c->root, 0, OKV_PAGE_BYTES);
	c->root->magic = okv_root_magic(&p->layout->super);
	c->root->partition = p->number;
	c->root->generation = p->generation + 1;
	c->root->attempt = draw_attempt(p);
	okv_pack_close(p);
	c->packs_below = p->next_pack;
	note_position(p, c->root);
	p->bytes_since_checkpoint = 0;
	step(p);
}

/* Write one and wait for it. */
int okv_checkpoint_wait(struct okv_partition *p)
{
	uint64_t generation;
	int error = 0;

	while (p->checkpoint.step != OKV_CHECKPOINT_NONE && !p->checkpoint.waits && !error)
		error = p->disk->ops->wait(p->disk);
	generation = p->generation;
	while (!error && p->generation == generation && !p->refusing) {
		okv_segment_allocate(p, !okv_log_is_idle(p));
		if (p->checkpoint.step == OKV_CHECKPOINT_NONE && !p->allocating)
			okv_checkpoint_start(p);
		if ((p->checkpoint.step != OKV_CHECKPOINT_NONE && !p->checkpoint.waits) ||
		    p->allocating)
			error = p->disk->ops->wait(p->disk);
	}
	while (!error && (p->allocating || p->trimming))
		error = p->disk->ops->wait(p->disk);
	if (!error && p->generation == generation)
		error = p->nr_refused_holes ? -ENOSPC : -EIO;
	return error;
}

/* ---- reading ---- */

static int load_segments(struct okv_partition *p, const char *payload, uint32_t bytes)
{
	struct okv_segment_disk disk;

	if (bytes != p->nr_segments * sizeof(disk))
		return -EUCLEAN;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		memcpy(&disk, payload + i * sizeof(disk), sizeof(disk));
		p->segments[i].life = disk.life;
		p->segments[i].state = disk.life ? OKV_SEGMENT_SEALED : OKV_SEGMENT_FREE;
	}
	return 0;
}

/* The expiries of a shard; returns how many bytes they are, or -EUCLEAN. */
static int load_expiries(struct okv_partition *p, uint32_t shard, const char *payload, size_t bytes)
{
	struct okv_expiry e;
	uint64_t nr;

	if (bytes < sizeof(nr))
		return -EUCLEAN;
	memcpy(&nr, payload, sizeof(nr));
	if ((bytes - sizeof(nr)) / sizeof(e) < nr || nr > p->index.shards[shard].nr_entries)
		return -EUCLEAN;
	for (uint64_t i = 0; i < nr; i++) {
		memcpy(&e, payload + sizeof(nr) + i * sizeof(e), sizeof(e));
		okv_index_set_expiry(&p->index, shard, e.location, e.expire_ms);
	}
	return sizeof(nr) + nr * sizeof(e);
}

/* Shards come in order, each once; @next_shard is the first that may come. */
static int load_shards(struct okv_partition *p, const char *payload, uint32_t bytes,
		       bool has_expiries, uint32_t *next_shard)
{
	const char *to = payload + bytes;
	struct okv_shard_disk disk;
	struct okv_entry e;
	int more = 0;

	while (payload < to) {
		if ((size_t)(to - payload) < sizeof(disk))
			return -EUCLEAN;
		memcpy(&disk, payload, sizeof(disk));
		payload += sizeof(disk);
		if (disk.shard != *next_shard || disk.shard >= okv_index_nr_shards(&p->index) ||
		    (size_t)(to - payload) / sizeof(e) < disk.nr_entries)
			return -EUCLEAN;
		++*next_shard;
		okv_index_reserve(&p->index, disk.shard, disk.nr_entries);
		for (uint32_t i = 0; i < disk.nr_entries; i++, payload += sizeof(e)) {
			memcpy(&e, payload, sizeof(e));
			if (!okv_map_load(p, disk.shard, &e))
				return -EUCLEAN;
		}
		if (has_expiries)
			more = load_expiries(p, disk.shard, payload, to - payload);
		if (more < 0)
			return more;
		payload += more;
	}
	return 0;
}

/*
 * Read the chunk of that number at a place, which the caller frees. Returns 0, -EUCLEAN if it is
 * not there, or what a read returned.
 */
static int read_chunk(struct okv_partition *p, const struct okv_root_disk *root, uint32_t chunk,
		      uint32_t segment, uint32_t offset, char **read)
{
	char *buf = okv_alloc_blocks(p->disk, OKV_PAGE_BYTES);
	struct okv_chunk_disk *header = (void *)buf;
	uint64_t at = okv_segment_offset(p, segment) + offset;
	struct okv_chunk_disk h;
	int error = -EUCLEAN;

	if (offset + p->disk->block_bytes > p->segment_bytes)
		goto out;
	error = okv_disk_io(p->disk, OKV_READ, at, buf, p->disk->block_bytes);
	if (error)
		goto out;
	h = *header;
	error = -EUCLEAN;
	if ((h.magic != OKV_CHUNK_MAGIC && h.magic != OKV_CHUNK_MAGIC_1) ||
	    h.sum != okv_chunk_sum(&p->layout->super, header, p->number,
				   okv_location(p, segment, offset), root->attempt) ||
	    h.partition != p->number || h.chunk != chunk || h.bytes < sizeof(h) ||
	    h.bytes > p->segment_bytes - offset)
		goto out;
	mem_free(buf);
	buf = okv_alloc_blocks(p->disk, okv_round_up(h.bytes, p->disk->block_bytes));
	header = (void *)buf;
	error = okv_disk_io(p->disk, OKV_READ, at, buf,
			    okv_round_up(h.bytes, p->disk->block_bytes));
	if (!error &&
	    (memcmp(header, &h, sizeof(h)) ||
	     okv_sum(header + 1, h.bytes - sizeof(h), p->layout->super.secret) != h.payload_sum))
		error = -EUCLEAN;
out:
	if (error)
		mem_free(buf);
	else
		*read = buf;
	return error;
}

int okv_checkpoint_load(struct okv_partition *p, const struct okv_root_disk *root)
{
	uint32_t offset = 0, at = 0, next_shard = 0;

	for (uint32_t i = 0; i < root->nr_chunks; i++) {
		const struct okv_chunk_disk *header;
		const char *payload;
		char *chunk;
		uint32_t bytes;
		int error = -EUCLEAN;

		/* It is behind the last one or, without room there, begins the next segment. */
		if (at < root->nr_segments)
			error = read_chunk(p, root, i, root->segments[at], offset, &chunk);
		if (error == -EUCLEAN && offset && at + 1 < root->nr_segments) {
			offset = 0;
			error = read_chunk(p, root, i, root->segments[++at], offset, &chunk);
		}
		if (error)
			return error;
		header = (const void *)chunk;
		bytes = header->bytes - sizeof(*header);
		payload = chunk + sizeof(*header);
		error = i ? load_shards(p, payload, bytes, header->magic == OKV_CHUNK_MAGIC,
					&next_shard) :
			    load_segments(p, payload, bytes);
		offset += okv_round_up(header->bytes, p->disk->block_bytes);
		mem_free(chunk);
		if (error)
			return error;
	}
	return root->nr_chunks && next_shard != okv_index_nr_shards(&p->index) ? -EUCLEAN : 0;
}
