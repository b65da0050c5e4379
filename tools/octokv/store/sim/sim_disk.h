/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sim_disk.h - a device in memory that fails as devices do, in the same way for the same seed
 *
 * A write goes to the cache, which reads see. Another copy is what a power cut leaves: FUA writes
 * and flushes bring it up to date. At a cut, each write that was in flight or not flushed is
 * dropped, kept, or torn at 512 bytes, independently of the others, so writes are reordered as
 * well. Killing the process (kill -9) instead leaves the cache as it is.
 *
 * Time is virtual: each request takes a random time, some a hundred times as long, and
 * sim_disk.now_us jumps to the next completion. To prepare a range that has nothing but zeros when
 * it is asked, a sparse device writes zeros. That takes long, and the device does all else in the
 * meantime.
 *
 * The device lies only where the plan says so: writes that do nothing (lost) or go elsewhere
 * (misdirected), and bits that flip where they lie. A bad sector cannot be read until it is
 * written.
 */
#ifndef OKV_SIM_DISK_H
#define OKV_SIM_DISK_H

#include "store/disk.h"

/* How often, in a million requests. */
struct sim_plan {
	uint32_t slow_ppm;
	uint32_t read_error_ppm, write_error_ppm, flush_error_ppm;
	uint32_t lost_ppm, misdirected_ppm, flip_ppm;
};

enum sim_outage { SIM_NO_OUTAGE, SIM_WRITES_FAIL, SIM_ALL_FAIL };

struct sim_disk {
	struct okv_disk disk;
	struct sim_plan plan;
	enum sim_outage outage;
	uint64_t random;
	uint64_t now_us;
	uint64_t nr_completed;
	uint64_t cut_at;		/* cut after so many completed requests; 0: never */
	bool process_only;		/* the cut is a kill: the device keeps the cache */
	bool is_dead;			/* everything fails */
	uint64_t nr_lies;
	uint64_t bad_offset_bytes;	/* the bad sector, if there is one */
	bool has_bad;
	const struct okv_io *lost_io;	/* a write or flush that does nothing, and says it did */
	const struct okv_io *failed_io;	/* one that does nothing, and says so */

	/* Sparse: room for blocks that were never written or allocated; beyond it, -ENOSPC. */
	uint64_t room_bytes;
	bool *allocated;		/* by block */
	char *cache, *durable;
	struct sim_request *in_flight;
	struct sim_unflushed *unflushed, **last_unflushed;
};

void sim_disk_init(struct sim_disk *d, uint64_t size_bytes, uint32_t block_bytes, bool has_fua,
		   uint64_t seed);
void sim_disk_free(struct sim_disk *d);

/* Power is back, or the process has been started again. Nothing may be in flight. */
void sim_disk_revive(struct sim_disk *d);

uint64_t sim_random(uint64_t *state);
uint64_t sim_draw(uint64_t *state, uint64_t below);
bool sim_chance(uint64_t *state, uint32_t ppm);

#endif
