// SPDX-License-Identifier: GPL-2.0
/*
 * salvage.c - all records of a device, found without roots, checkpoints or an index
 *
 * Every segment of every partition is read twice. The first time, the latest record of each key is
 * noted, which puts it or deletes it. Later means a batch with a greater number. After a recovery
 * from an older root, numbers come again, and a much later life of the segment counts. The second
 * time those that are puts are shown.
 *
 * It knows less than recovery does. A deletion whose segment has been used again is forgotten, and
 * an older record of the key may be left in a segment that has not: it comes back. A write that was
 * not acknowledged may be shown. Of a key whose latest value is damaged, that is said; an older
 * value does not come in its place. A record about another one's expiry, or one that clears all of
 * a tenant, is forgotten as a deletion is. Then the expiry is that with which the value was
 * written, or what was cleared comes back. So does what was being moved while it was cleared.
 */
#include "log/journal.h"
#include "log/record.h"
#include "mem.h"
#include "segment.h"

enum { TABLE_MIN = 1024 };

/* The latest record of a key that has a value or deletes it, or about its expiry. @life 0: none */
struct latest {
	uint64_t hash, life, seq, expire_ms;
	uint16_t tenant;
	bool is_expiry;
};

struct when {
	uint64_t life, seq;
};

struct salvage {
	struct okv_partition p;
	struct when *cleared;		/* by tenant, when the last time; @life 0: never */
	struct okv_export *e;
	struct okv_heads *heads;	/* what can be read of the journals */
	char *buf;
	struct latest *table;		/* a power of two of them, at most half full */
	uint64_t nr_places, nr_used;
	bool shows;
};

/* Of two runs (recover.c) the later one counts, and in a run the number. */
static bool is_later(const struct salvage *s, uint64_t life, uint64_t seq, uint64_t than_life,
		     uint64_t than_seq)
{
	uint64_t apart = life > than_life ? life - than_life : than_life - life;

	if (apart >= okv_lives_of_run(&s->p))
		return life > than_life;
	return seq > than_seq || (seq == than_seq && life > than_life);
}

static struct latest *place_of(const struct salvage *s, uint64_t hash, uint16_t tenant,
			       bool is_expiry)
{
	uint64_t mixed = (hash ^ (uint64_t)tenant << 32 ^ is_expiry) * 0x9e3779b97f4a7c15ULL;
	uint64_t at = mixed % s->nr_places;
	const struct latest *l = &s->table[at];

	while (l->life && (l->hash != hash || l->tenant != tenant || l->is_expiry != is_expiry)) {
		at = (at + 1) % s->nr_places;
		l = &s->table[at];
	}
	return &s->table[at];
}

static void grow(struct salvage *s)
{
	struct latest *old = s->table;
	uint64_t nr_old = s->nr_places;

	s->nr_places = nr_old ? 2 * nr_old : TABLE_MIN;
	s->table = mem_zalloc(s->nr_places * sizeof(*s->table));
	for (uint64_t i = 0; i < nr_old; i++)
		if (old[i].life)
			*place_of(s, old[i].hash, old[i].tenant, old[i].is_expiry) = old[i];
	mem_free(old);
}

static void note(struct salvage *s, const struct okv_record_disk *record, uint64_t life)
{
	struct when *cleared = &s->cleared[record->tenant];
	struct latest *latest;

	if (record->kind == OKV_RECORD_CLEAR) {
		if (is_later(s, life, record->seq, cleared->life, cleared->seq))
			*cleared = (struct when){ .life = life, .seq = record->seq };
		return;
	}
	if (2 * (s->nr_used + 1) > s->nr_places)
		grow(s);
	latest = place_of(s, record->hash, record->tenant, record->kind == OKV_RECORD_EXPIRY);
	if (!is_later(s, life, record->seq, latest->life, latest->seq))
		return;
	s->nr_used += !latest->life;
	*latest = (struct latest){
		.hash = record->hash, .life = life, .seq = record->seq, .tenant = record->tenant,
		.expire_ms = record->expire_ms, .is_expiry = record->kind == OKV_RECORD_EXPIRY,
	};
}

static bool is_cleared(const struct salvage *s, const struct okv_record_disk *record, uint64_t life)
{
	const struct when *when = &s->cleared[record->tenant];

	return when->life && !is_later(s, life, record->seq, when->life, when->seq);
}

static void show(struct salvage *s, const struct okv_record_disk *record, uint32_t segment,
		 uint32_t at, uint64_t life)
{
	const struct okv_partition *p = &s->p;
	const struct latest *latest = place_of(s, record->hash, record->tenant, false);
	const struct latest *expiry = place_of(s, record->hash, record->tenant, true);
	struct okv_exported x = {
		.partition = p->number, .tenant = record->tenant, .key_len = record->key_len,
		.value_len = okv_plain_len(record), .key = record + 1,
		.value = s->buf + okv_value_offset(p->disk->block_bytes, at, record),
		.expire_ms = record->expire_ms, .offset_bytes = okv_segment_offset(p, segment) + at,
	};

	if (is_later(s, expiry->life, expiry->seq, life, record->seq))
		x.expire_ms = expiry->expire_ms;
	if (!okv_record_has_value(record) || is_cleared(s, record, life) ||
	    latest->life != life || latest->seq != record->seq)
		return;
	okv_export_show(s->e, p, record, &x);
}

static void walk_batch(struct salvage *s, uint32_t segment, uint32_t offset)
{
	const struct okv_batch_disk *b = (const void *)(s->buf + offset);
	struct okv_bounds bounds = okv_batch_bounds(&s->p, b, offset);
	uint32_t at = offset + sizeof(*b);

	/* The seeds of its records. */
	s->p.segments[segment].life = b->life;
	while (at < bounds.head_end && !s->e->stops) {
		const struct okv_record_disk *record;

		record = okv_record_at(&s->p, s->buf, segment, at, &bounds);
		if (!record)
			return;
		if (s->shows)
			show(s, record, segment, at, b->life);
		else
			note(s, record, b->life);
		at += okv_head_bytes(s->p.disk->block_bytes, record->key_len, record->value_len);
	}
}

/* What journals have of the segment, in its latest life. */
static void add_heads(struct salvage *s, uint32_t segment)
{
	const struct okv_partition *p = &s->p;
	uint64_t life = okv_heads_life(s->heads, p, segment);

	for (uint32_t at = 0; s->heads && at < p->segment_bytes; at += OKV_ALIGN_BYTES) {
		const struct okv_batch_disk *b;

		at = okv_batch_find(p, s->buf, segment, at, p->segment_bytes);
		b = (const void *)(s->buf + at);
		if (at < p->segment_bytes && b->life > life)
			life = b->life;
	}
	if (s->heads)
		okv_heads_overlay(s->heads, p, segment, life, s->buf, NULL);
}

static int walk_segments(struct salvage *s)
{
	struct okv_partition *p = &s->p;
	int error = 0;

	for (uint32_t i = 0; i < p->nr_segments && !error && !s->e->stops; i++) {
		error = okv_segment_read(p, i, s->buf);
		if (!error)
			add_heads(s, i);
		for (uint32_t at = 0; at < p->segment_bytes && !error; at += OKV_ALIGN_BYTES) {
			at = okv_batch_find(p, s->buf, i, at, p->segment_bytes);
			if (at < p->segment_bytes)
				walk_batch(s, i, at);
		}
	}
	return error;
}

int okv_device_salvage(struct okv_disk *disk, struct okv_export *e)
{
	struct okv_layout layout = { 0 };
	struct okv_heads *heads = NULL;
	int error = okv_layout_read(disk, &layout, NULL);

	if (error)
		return error;
	disk->block_bytes = layout.super.block_bytes;
	if (okv_heads_read(disk, &layout, 0, layout.super.nr_partitions, &heads))
		e->nr_unread++;
	for (uint32_t i = 0; i < layout.super.nr_partitions && !error && !e->stops; i++) {
		uint32_t nr_segments = layout.super.nr_segments;
		uint32_t segment_bytes = layout.super.segment_bytes;
		struct salvage s = {
			.e = e, .heads = heads,
			.p = {
				.disk = disk, .layout = &layout, .number = i,
				.segment_bytes = segment_bytes, .nr_segments = nr_segments,
				.offset_bytes = layout.super.data_offset_bytes +
						(uint64_t)i * nr_segments * segment_bytes,
			},
		};

		s.p.segments = mem_zalloc(nr_segments * sizeof(*s.p.segments));
		s.buf = okv_alloc_blocks(disk, segment_bytes);
		s.cleared = mem_zalloc(OKV_NR_TENANTS * sizeof(*s.cleared));
		grow(&s);
		error = walk_segments(&s);
		s.shows = true;
		if (!error)
			error = walk_segments(&s);
		e->nr_unread += s.p.stats.nr_read_errors;
		mem_free(s.p.segments);
		mem_free(s.buf);
		mem_free(s.table);
		mem_free(s.cleared);
	}
	okv_heads_free(heads);
	return error;
}
