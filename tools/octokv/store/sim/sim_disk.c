// SPDX-License-Identifier: GPL-2.0
/*
 * sim_disk.c - see sim_disk.h
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_disk.h"

enum {
	SECTOR_BYTES	= 512,
	MISS_BYTES	= 32 << 10,	/* half of the misdirected writes miss by less */
	PREPARE_US	= 20000,
};

struct sim_request {
	struct sim_request *next;
	struct okv_io *io;
	uint64_t at_us;
	uint64_t submitted;	/* nr_completed at the submission: what a flush covers */
	bool zeroes;		/* PREPARE: there was nothing at the submission */
};

/* A write that has completed and that no flush has covered. */
struct sim_unflushed {
	struct sim_unflushed *next;
	uint64_t offset_bytes;
	uint64_t completed;
	uint32_t bytes;
	char data[];
};

uint64_t sim_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

uint64_t sim_draw(uint64_t *state, uint64_t below)
{
	return sim_random(state) % below;
}

bool sim_chance(uint64_t *state, uint32_t ppm)
{
	return ppm && sim_draw(state, 1000000) < ppm;
}

/* ---- requests ---- */

static struct sim_disk *sim_of(struct okv_disk *disk)
{
	return (struct sim_disk *)disk;
}

static bool is_zero(const char *data, uint32_t bytes)
{
	return !data[0] && !memcmp(data, data + 1, bytes - 1);
}

static void sim_submit(struct okv_disk *disk, struct okv_io *io)
{
	struct sim_disk *d = sim_of(disk);
	struct sim_request *r = calloc(1, sizeof(*r));
	uint32_t align_bytes = io->kind == OKV_READ ? disk->read_align_bytes : disk->block_bytes;

	if (!r || io->offset_bytes % align_bytes || io->bytes % align_bytes ||
	    io->offset_bytes + io->bytes > disk->size_bytes || (uintptr_t)io->buf % align_bytes)
		abort();
	r->io = io;
	r->submitted = d->nr_completed;
	r->at_us = d->now_us + 1 + sim_draw(&d->random, 100);
	if (sim_chance(&d->random, d->plan.slow_ppm))
		r->at_us += 10000;
	if (io->kind == OKV_PREPARE) {
		r->zeroes = is_zero(d->cache + io->offset_bytes, io->bytes);
		r->at_us += sim_draw(&d->random, 2) ? sim_draw(&d->random, PREPARE_US) : 0;
	}
	r->next = d->in_flight;
	d->in_flight = r;
}

/* ---- what a request does ---- */

static void flip_a_bit(struct sim_disk *d, uint64_t offset_bytes, uint64_t bytes)
{
	uint64_t at = offset_bytes + sim_draw(&d->random, bytes);
	char bit = 1 << sim_draw(&d->random, 8);

	d->cache[at] ^= bit;
	d->durable[at] ^= bit;
	d->nr_lies++;
}

static void remember(struct sim_disk *d, const struct okv_io *io, uint64_t offset_bytes)
{
	struct sim_unflushed *u = malloc(sizeof(*u) + io->bytes);

	if (!u)
		abort();
	u->next = NULL;
	u->offset_bytes = offset_bytes;
	u->bytes = io->bytes;
	u->completed = d->nr_completed;
	memcpy(u->data, io->buf, io->bytes);
	*d->last_unflushed = u;
	d->last_unflushed = &u->next;
}

/* A write that is durable now is not undone by one that was written there before it. */
static void overwrite(struct sim_disk *d, uint64_t from, const char *data, uint32_t bytes)
{
	memcpy(d->durable + from, data, bytes);
	for (struct sim_unflushed *u = d->unflushed; u; u = u->next) {
		uint64_t begin = u->offset_bytes > from ? u->offset_bytes : from;
		uint64_t end = u->offset_bytes + u->bytes;

		if (end > from + bytes)
			end = from + bytes;
		if (begin < end)
			memcpy(u->data + (begin - u->offset_bytes), data + (begin - from),
			       end - begin);
	}
}

static void do_write(struct sim_disk *d, struct okv_io *io)
{
	uint64_t to = io->offset_bytes;

	if (sim_chance(&d->random, d->plan.lost_ppm)) {
		d->nr_lies++;
		return;
	}
	if (sim_chance(&d->random, d->plan.misdirected_ppm)) {
		if (sim_draw(&d->random, 2))
			to = sim_draw(&d->random, d->disk.size_bytes);
		else
			to += sim_draw(&d->random, MISS_BYTES) - MISS_BYTES / 2;
		to -= to % d->disk.block_bytes;
		to = to + io->bytes > d->disk.size_bytes ? 0 : to;
		d->nr_lies++;
	}
	memcpy(d->cache + to, io->buf, io->bytes);
	if (io->flags & OKV_FUA)
		overwrite(d, to, io->buf, io->bytes);
	else
		remember(d, io, to);
	if (sim_chance(&d->random, d->plan.flip_ppm))
		flip_a_bit(d, io->offset_bytes, io->bytes);
}

/* Make durable what was complete when the flush was submitted. */
static void do_flush(struct sim_disk *d, uint64_t submitted)
{
	struct sim_unflushed **at = &d->unflushed;

	while (*at) {
		struct sim_unflushed *u = *at;

		if (u->completed <= submitted) {
			memcpy(d->durable + u->offset_bytes, u->data, u->bytes);
			*at = u->next;
			free(u);
		} else {
			at = &u->next;
		}
	}
	d->last_unflushed = at;
}

static bool meets_bad(const struct sim_disk *d, const struct okv_io *io)
{
	return d->has_bad && io->offset_bytes <= d->bad_offset_bytes &&
	       d->bad_offset_bytes < io->offset_bytes + io->bytes;
}

/* A failed write has written everything, nothing, or some of it. */
static void tear(struct sim_disk *d, char *to, const char *from, uint32_t bytes)
{
	uint32_t kind = sim_draw(&d->random, 4);
	uint32_t prefix = sim_draw(&d->random, bytes / SECTOR_BYTES + 1);

	for (uint32_t i = 0; i < bytes / SECTOR_BYTES; i++) {
		bool keep = kind == 0 || (kind == 1 && sim_draw(&d->random, 2)) ||
			    (kind == 2 && i < prefix);

		if (keep)
			memcpy(to + i * SECTOR_BYTES, from + i * SECTOR_BYTES, SECTOR_BYTES);
	}
}

/* Find room for a range, as a write does by itself. False: no room, and nothing has changed. */
static bool allocate(struct sim_disk *d, const struct okv_io *io)
{
	uint64_t from = io->offset_bytes / d->disk.block_bytes;
	uint64_t to = from + io->bytes / d->disk.block_bytes, bytes = 0;

	for (uint64_t i = from; i < to; i++)
		bytes += d->allocated[i] ? 0 : d->disk.block_bytes;
	if (bytes > d->room_bytes)
		return false;
	d->room_bytes -= bytes;
	memset(d->allocated + from, true, to - from);
	return true;
}

/* Overwrite what is there by now. */
static void write_zeros(struct sim_disk *d, const struct okv_io *io)
{
	char *zeros = calloc(1, io->bytes);

	if (!zeros)
		abort();
	memcpy(d->cache + io->offset_bytes, zeros, io->bytes);
	overwrite(d, io->offset_bytes, zeros, io->bytes);
	free(zeros);
}

/* What is discarded reads as zeros, and gives its room back. */
static void discard(struct sim_disk *d, const struct okv_io *io)
{
	uint64_t from = io->offset_bytes / d->disk.block_bytes;
	uint64_t to = from + io->bytes / d->disk.block_bytes;

	write_zeros(d, io);
	for (uint64_t i = from; i < to; i++) {
		if (d->allocated[i] && d->room_bytes < UINT64_MAX - d->disk.block_bytes)
			d->room_bytes += d->disk.block_bytes;
		d->allocated[i] = false;
	}
}

static int do_request(struct sim_disk *d, struct sim_request *r)
{
	struct okv_io *io = r->io;

	if (io == d->failed_io) {
		d->failed_io = NULL;
		return -EIO;
	}
	if (io == d->lost_io) {
		d->lost_io = NULL;
		d->nr_lies++;
		return 0;
	}
	switch (io->kind) {
	case OKV_READ:
		if (sim_chance(&d->random, d->plan.read_error_ppm) || meets_bad(d, io) ||
		    d->outage == SIM_ALL_FAIL)
			return -EIO;
		memcpy(io->buf, d->cache + io->offset_bytes, io->bytes);
		return 0;
	case OKV_WRITE:
		if (d->outage)
			return -EIO;
		if (!allocate(d, io))
			return -ENOSPC;
		if (sim_chance(&d->random, d->plan.write_error_ppm)) {
			uint64_t random = d->random;

			/* The same sectors in both, or the error would heal at a power cut. */
			tear(d, d->cache + io->offset_bytes, io->buf, io->bytes);
			d->random = random;
			tear(d, d->durable + io->offset_bytes, io->buf, io->bytes);
			return -EIO;
		}
		d->has_bad &= !meets_bad(d, io);
		do_write(d, io);
		return 0;
	case OKV_FLUSH:
		if (sim_chance(&d->random, d->plan.flush_error_ppm) || d->outage)
			return -EIO;
		do_flush(d, r->submitted);
		return 0;
	case OKV_ALLOCATE:
		return allocate(d, io) ? 0 : -ENOSPC;
	case OKV_PREPARE:
		if (r->zeroes)
			write_zeros(d, io);
		break;
	case OKV_DISCARD:
		if (sim_chance(&d->random, 500000))
			discard(d, io);
		break;
	}
	return 0;
}

/* ---- power cuts and time ---- */

/* Decide about each write that the device had not promised yet. */
static void cut(struct sim_disk *d)
{
	struct sim_unflushed *u;

	d->is_dead = true;
	while (!d->process_only && (u = d->unflushed)) {
		tear(d, d->durable + u->offset_bytes, u->data, u->bytes);
		d->unflushed = u->next;
		free(u);
	}
	if (!d->process_only)
		d->last_unflushed = &d->unflushed;
	for (struct sim_request *r = d->in_flight; r; r = r->next) {
		struct okv_io torn = *r->io;

		if (torn.kind != OKV_WRITE)
			continue;
		if (!d->process_only) {
			tear(d, d->durable + torn.offset_bytes, torn.buf, torn.bytes);
			continue;
		}
		tear(d, d->cache + torn.offset_bytes, torn.buf, torn.bytes);
		torn.buf = d->cache + torn.offset_bytes;
		remember(d, &torn, torn.offset_bytes);
	}
	if (!d->process_only)
		memcpy(d->cache, d->durable, d->disk.size_bytes);
}

static int sim_wait(struct okv_disk *disk)
{
	struct sim_disk *d = sim_of(disk);
	struct sim_request **next = &d->in_flight, *r;

	if (!d->in_flight)
		return -EDEADLK;
	if (!d->is_dead && d->cut_at && d->nr_completed >= d->cut_at)
		cut(d);
	for (struct sim_request **at = &d->in_flight; *at; at = &(*at)->next) {
		if ((*at)->at_us < (*next)->at_us)
			next = at;
	}
	r = *next;
	*next = r->next;
	if (r->at_us > d->now_us)
		d->now_us = r->at_us;
	d->nr_completed++;
	r->io->result = d->is_dead ? -EIO : do_request(d, r);
	r->io->done(r->io);
	free(r);
	return 0;
}

/* ---- devices ---- */

static const struct okv_disk_ops sim_ops = {
	.submit	= sim_submit,
	.wait	= sim_wait,
};

void sim_disk_init(struct sim_disk *d, uint64_t size_bytes, uint32_t block_bytes, bool has_fua,
		   uint64_t seed)
{
	memset(d, 0, sizeof(*d));
	d->disk = (struct okv_disk){
		.ops = &sim_ops, .size_bytes = size_bytes, .block_bytes = block_bytes,
		.read_align_bytes = SECTOR_BYTES, .has_fua = has_fua, .is_sparse = seed & 1,
	};
	d->random = seed;
	d->cache = calloc(1, size_bytes);
	d->durable = calloc(1, size_bytes);
	d->room_bytes = UINT64_MAX;
	d->allocated = calloc(1, size_bytes / block_bytes);
	if (!d->cache || !d->durable || !d->allocated)
		abort();
	d->last_unflushed = &d->unflushed;
}

void sim_disk_revive(struct sim_disk *d)
{
	if (d->in_flight)
		abort();
	d->is_dead = false;
	d->cut_at = 0;
}

void sim_disk_free(struct sim_disk *d)
{
	struct sim_unflushed *u;

	while ((u = d->unflushed)) {
		d->unflushed = u->next;
		free(u);
	}
	free(d->allocated);
	free(d->cache);
	free(d->durable);
}
