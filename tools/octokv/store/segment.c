// SPDX-License-Identifier: GPL-2.0
/*
 * segment.c - the space of a partition: see segment.h
 */
#include "mem.h"
#include "segment.h"

enum {
	ALLOCATE_AGAIN_MS	= 1000,
	READ_BYTES		= 256 << 10,	/* of one request, when a whole segment is read */
};

/* ---- taking and giving back ---- */

bool okv_segment_is_named(const struct okv_segment *s)
{
	return s->named_by == (1 << OKV_NR_ROOTS) - 1;
}

bool okv_segment_holds_log(const struct okv_segment *s)
{
	return s->state == OKV_SEGMENT_OPEN || s->state == OKV_SEGMENT_SEALED ||
	       s->state == OKV_SEGMENT_BAD || s->state == OKV_SEGMENT_DRAINED;
}

void okv_segments_count(struct okv_partition *p)
{
	p->nr_free = p->nr_free_named = p->nr_holes = p->nr_holes_named = 0;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		const struct okv_segment *s = &p->segments[i];
		bool is_free = s->state == OKV_SEGMENT_FREE, is_hole = s->state == OKV_SEGMENT_HOLE;

		p->nr_free += is_free;
		p->nr_free_named += is_free && okv_segment_is_named(s);
		p->nr_holes += is_hole;
		p->nr_holes_named += is_hole && okv_segment_is_named(s);
	}
}

static void set_free(struct okv_partition *p, struct okv_segment *s)
{
	s->state = OKV_SEGMENT_FREE;
	p->nr_free++;
	p->nr_free_named += okv_segment_is_named(s);
}

bool okv_segment_stays_named(const struct okv_partition *p, const struct okv_segment *s)
{
	return s->named_by >> p->generation % OKV_NR_ROOTS & 1;
}

/*
 * How well a free segment serves, 0 best. -1: it does not. A checkpoint leaves to the log what its
 * root will make the log's.
 */
static int rank_of(const struct okv_partition *p, const struct okv_segment *s,
		   enum okv_segment_state state)
{
	if (s->state != OKV_SEGMENT_FREE)
		return -1;
	if (state == OKV_SEGMENT_OPEN)
		return okv_segment_is_named(s) ? 0 : -1;
	return okv_segment_stays_named(p, s);
}

uint32_t okv_segment_take(struct okv_partition *p, enum okv_segment_state state)
{
	uint32_t best = p->nr_segments;
	struct okv_segment *s;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		int rank = rank_of(p, &p->segments[i], state);

		if (rank >= 0 && (best == p->nr_segments || !rank))
			best = i;
		if (!rank)
			break;
	}
	if (best == p->nr_segments)
		return best;
	s = &p->segments[best];
	p->nr_free--;
	p->nr_free_named -= okv_segment_is_named(s);
	s->state = state;
	s->life = p->next_life++;
	s->last_seq = 0;
	s->is_known = false;
	s->nr_bad = 0;
	return best;
}

void okv_segments_release(struct okv_partition *p, const uint32_t *segments, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct okv_segment *s = &p->segments[segments[i]];

		if (s->state == OKV_SEGMENT_CHECKPOINT)
			set_free(p, s);
	}
}

/* ---- trimming ---- */

static void trimmed(struct okv_io *io)
{
	struct okv_partition *p = io->owner;

	p->trimming = false;
	p->nr_to_trim--;
	p->stats.nr_trimmed_segments++;
	if (p->disk->is_sparse) {
		p->segments[p->trimmed].state = OKV_SEGMENT_HOLE;
		p->nr_holes++;
		p->nr_holes_named += okv_segment_is_named(&p->segments[p->trimmed]);
	} else {
		set_free(p, &p->segments[p->trimmed]);
	}
	okv_segments_trim(p);
	okv_changed(p);
}

static void trim(struct okv_partition *p, uint32_t segment)
{
	p->trimming = true;
	p->trimmed = segment;
	p->trim = (struct okv_io){
		.kind = OKV_DISCARD, .offset_bytes = okv_segment_offset(p, segment),
		.bytes = p->segment_bytes, .done = trimmed, .owner = p,
	};
	p->disk->ops->submit(p->disk, &p->trim);
}

void okv_segments_trim(struct okv_partition *p)
{
	if (!p->nr_to_trim || p->is_pinned)
		return;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		if (s->state != OKV_SEGMENT_TRIM || (p->trimming && i == p->trimmed))
			continue;
		if (p->is_quiet || okv_segments_are_low(p)) {
			set_free(p, s);
			p->nr_to_trim--;
		} else if (!p->trimming) {
			trim(p, i);
		}
	}
}

void okv_segments_reclaim(struct okv_partition *p)
{
	uint64_t oldest = p->roots[0].generation;

	if (p->is_pinned)
		return;
	if (p->roots[1].generation < oldest)
		oldest = p->roots[1].generation;
	for (uint32_t i = 0; i < p->nr_segments; i++) {
		struct okv_segment *s = &p->segments[i];

		if (s->state != OKV_SEGMENT_DRAINED || s->drained_generation > oldest)
			continue;
		if (p->trims) {
			s->state = OKV_SEGMENT_TRIM;
			p->nr_to_trim++;
		} else {
			set_free(p, s);
		}
	}
	okv_segments_trim(p);
}

/* ---- holes of a sparse device ---- */

static void allocated(struct okv_io *io)
{
	struct okv_partition *p = io->owner;

	p->allocating = false;
	if (io->result) {
		p->nr_refused_holes++;
		p->allocate_ms = p->now_ms + ALLOCATE_AGAIN_MS;
	} else {
		p->nr_refused_holes = 0;
		p->nr_holes--;
		p->nr_holes_named -= okv_segment_is_named(&p->segments[p->next_hole]);
		set_free(p, &p->segments[p->next_hole]);
	}
	p->next_hole++;
	okv_changed(p);
}

/* The segments that are kept back are needed, and one for the log to go on in. */
static bool needs_free(const struct okv_partition *p, bool log_waits)
{
	return p->nr_free < okv_segments_of_checkpoint(p) ||
	       (p->nr_free <= okv_segments_kept(p) && log_waits);
}

/* The next one from the last one on: of those that the log may take, if there are any. */
static uint32_t next_hole(const struct okv_partition *p)
{
	uint32_t other = p->nr_segments;

	for (uint32_t i = 0; i < p->nr_segments; i++) {
		uint32_t at = (p->next_hole + i) % p->nr_segments;

		if (p->segments[at].state != OKV_SEGMENT_HOLE)
			continue;
		if (okv_segment_is_named(&p->segments[at]))
			return at;
		if (other == p->nr_segments)
			other = at;
	}
	return other;
}

void okv_segment_allocate(struct okv_partition *p, bool log_waits)
{
	if (p->allocating || !p->nr_holes || !needs_free(p, log_waits) ||
	    (p->nr_refused_holes >= p->nr_holes && p->now_ms < p->allocate_ms))
		return;
	p->next_hole = next_hole(p);
	p->allocating = true;
	p->allocation = (struct okv_io){
		.kind = OKV_ALLOCATE, .offset_bytes = okv_segment_offset(p, p->next_hole),
		.bytes = p->segment_bytes, .done = allocated, .owner = p,
	};
	p->disk->ops->submit(p->disk, &p->allocation);
}

/* ---- how much there is ---- */

uint32_t okv_segments_of_checkpoint(const struct okv_partition *p)
{
	uint64_t bytes = okv_index_disk_bytes(&p->index) +
			 okv_index_nr_shards(&p->index) *
			 (sizeof(struct okv_shard_disk) + sizeof(uint64_t)) +
			 p->nr_segments * sizeof(struct okv_segment_disk) +
			 2 * p->disk->block_bytes;

	return 1 + (bytes + bytes / 2) / p->segment_bytes;
}

uint32_t okv_segments_kept(const struct okv_partition *p)
{
	return okv_segments_of_checkpoint(p) + 2;
}

uint32_t okv_segments_usable(const struct okv_partition *p)
{
	return p->nr_free + (p->nr_refused_holes ? 0 : p->nr_holes);
}

bool okv_segments_are_low(const struct okv_partition *p)
{
	uint32_t nr_for_moves = okv_parts_moves(&p->layout->super);

	return okv_segments_usable(p) <=
	       okv_segments_kept(p) + nr_for_moves + p->nr_segments / 16;
}

uint64_t okv_segments_capacity(const struct okv_partition *p)
{
	/* The open segments count as room that is not there. */
	uint32_t kept = okv_segments_kept(p) + 2 * okv_segments_of_checkpoint(p) +
			okv_nr_places(&p->layout->super);

	if (p->nr_segments <= kept)
		return 0;
	return (uint64_t)(p->nr_segments - kept) * p->segment_bytes / 8 * 7;
}

/* ---- reading a whole one ---- */

struct load_part {
	struct okv_io io;
	struct okv_load *load;
	struct okv_partition *p;
};

static void part_done(struct okv_io *io);

static void load_part(struct okv_partition *p, struct okv_load *load)
{
	struct load_part *part = mem_zalloc(sizeof(*part));
	uint32_t left = p->segment_bytes - load->next;

	part->load = load;
	part->p = p;
	part->io = (struct okv_io){
		.kind = OKV_READ,
		.offset_bytes = okv_segment_offset(p, load->segment) + load->next,
		.buf = load->buf + load->next, .bytes = left < READ_BYTES ? left : READ_BYTES,
		.done = part_done, .owner = part,
	};
	load->next += part->io.bytes;
	load->nr_pending++;
	p->disk->ops->submit(p->disk, &part->io);
}

static void part_done(struct okv_io *io)
{
	struct load_part *part = io->owner;
	struct okv_load *load = part->load;
	struct okv_partition *p = part->p;

	if (io->result)
		load->error = io->result;
	mem_free(part);
	load->nr_pending--;
	if (load->next < p->segment_bytes && !load->error)
		load_part(p, load);
	else if (!load->nr_pending)
		load->done(p);
}

void okv_segment_load(struct okv_partition *p, struct okv_load *load, uint32_t segment, void *buf,
		      uint32_t nr_max, void (*done)(struct okv_partition *p))
{
	*load = (struct okv_load){ .segment = segment, .buf = buf, .done = done };
	while (load->next < p->segment_bytes && load->nr_pending < nr_max)
		load_part(p, load);
}
