/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ssdsim_profile.h - the drives that ssdsim can pretend to be, and where their figures come from
 *
 * The forms are those of ssdsim_model.c; "unit" is 4 KiB. Every value can be overridden by the
 * module parameter of its name.
 *
 * 970evoplus: a Samsung 970-class drive, 8 channels x 2 ways
 * ----------------------------------------------------------
 * From two published measurements of this class: the K2 analysis (970 EVO Plus 250 GB, 4 KiB
 * requests) and the TABS paper (970 Pro 512 GB, 16 KiB requests, depth 128).
 *
 *  - 566 MB/s of 4 KiB random reads is 138.2k/s, 7.24 us each. 1530 MiB/s of 16 KiB is 97.9k/s,
 *    10.21 us each. With cmd_ns + dma_unit_ns = 7240 and cmd_ns + 4 dma_unit_ns = 10210:
 *    dma_unit_ns = 990 (4.1 GB/s, a PCIe 3 x4 link is 3.9), cmd_ns = 6250. So the controller bounds
 *    reads, not the dies: both figures with one pair of times.
 *  - A depth-1 read takes about 80 us (isolated reads of such drives do): 250 + 7240 + read_ns +
 *    xfer_unit_ns = 80 us. A channel of 800 MB/s needs 5120 ns per unit, leaving read_ns = 67400.
 *    16 dies then serve 220k reads/s, more than the controller asks for, at 60% use: the spread of
 *    real-time latencies comes from their queues.
 *  - 273 MiB/s of 16 KiB FUA writes is 17.5k/s: with 16 dies all busy, 916 us each. At depth 128
 *    about 5% of the dies' time is lost to chance, so x 0.95 = 870 us = 4 x 5120 + prog_ns: prog_ns
 *    = 850000. It is 9.7 16-KiB reads long, and FUA writes reach 1/5.6 of the read bandwidth. One
 *    reader beside one FUA writer get about 16 / (67.4 + 850 + 41 us) = 16.7k/s each, 0.25 GiB/s;
 *    the paper has 0.24 for both.
 *  - Buffered 4 KiB writes gather into 16 KiB pages: 16 x 16 KiB / 870 us = 301 MB/s; the paper has
 *    299 (random, half full). It has 430 for sequential writes; here they are as fast as random
 *    ones.
 *  - slots = 512: under none the paper's real-time reader waits 3251 us at 138k/s behind about 450
 *    commands, so the drive takes them all in and does not save it by fetching fairly.
 *  - cache 4 MiB: 14 ms of programs. Smaller than the real one, so that short runs see the steady
 *    state.
 *
 * default: the same drive for slow guests
 * ---------------------------------------
 * A guest under virtual time has 100k I/Os per second in all; the device must be slower than
 * that, or the guest is what saturates. 4 dies, one per channel, and reads bound by dies:
 *
 *  - 30k random 4 KiB reads/s: read_ns + xfer_unit_ns = 4 / 30k = 133 us.
 *  - FUA bandwidth 1/5.6 of read bandwidth, both with 16 KiB (as TABS measures it): 4 x + prog_ns =
 *    5.6 (read_ns + 4 x), and a program as long as ten reads of the array: prog_ns = 10 read_ns. So
 *    4 x = 0.957 read_ns; with the sum above: read_ns = 107500, xfer_unit_ns = 25700, prog_ns =
 *    1075000.
 *  - reads of 16 KiB: 19.0k/s, 297 MiB/s; FUA writes of 16 KiB: 3.40k/s, 53 MiB/s; both at once:
 *    2.88k/s each, so the reader loses 85% and the writer 15% (TABS: 84.3% and 12%).
 *  - 4 KiB FUA writes: 3.63k/s, 1/8.3 of 30k; buffered writes in full pages: 13.6k units/s, 56
 *    MB/s.
 *  - a depth-1 read: 1 + 4 + 2 + 133.2 = 140.2 us.
 *  - With N reads in flight a reader waits N / 30k: 96 in flight (three jobs of 32) make 3.2 ms,
 *    against at most 266 us with two.
 *
 * pcie4, pcie5: newer drives, whole
 * ---------------------------------
 * From data sheets. 64 dies, the most that the model has; planes of a die that work alone count as
 * dies. A guest cannot saturate them: the parameter stretch makes all their times longer by one
 * factor, so that their proportions stay.
 *
 *  - pcie4: 1.0M random 4 KiB reads/s and 7.0 GB/s of sequential ones. So dma_unit_ns = 4096 /
 *    7.0 = 585, and cmd_ns = 1000 - 585 = 415. Channels of 1.2 GB/s: xfer_unit_ns = 3410. With a
 *    tR of 40 us a depth-1 read takes 44.5 us, and the dies serve 1.47M/s. 5.0 GB/s are written
 *    (into single-level cells): 64 pages of 16 KiB in 209 us = 4 x 3410 + prog_ns, so prog_ns =
 *    195000.
 *  - pcie5: 2.2M reads/s and 14 GB/s: dma_unit_ns = 293, cmd_ns = 162. Channels of 2.4 GB/s:
 *    xfer_unit_ns = 1700. A tR of 27 us gives the dies 2.23M/s, no more than the controller. 13
 *    GB/s are written: 64 pages in 80 us, so prog_ns = 73200.
 *  - 45 and 64 requests have to be outstanding to have all of their reads; default takes 4.
 *
 * Discards and zeroing, all profiles
 * ----------------------------------
 * Chosen, not derived: no datasheet has them. A discard of a consumer drive takes from a fraction
 * of a millisecond to some ten, mostly whatever its size, since the drive changes its map under one
 * lock; write-zeroes takes about as long as writing a summary of what it zeroes. So 970evoplus
 * takes 1 ms, 0.1 ms for each MiB discarded, and 1 ms for each MiB zeroed (about 1 GB/s); default
 * is five times as slow, as its reads are; pcie4 and pcie5 are 4 and 8 times as fast.
 *
 * fast: contention out of the way
 * -------------------------------
 * Times of a few microseconds, 32 dies: for finding what the host costs.
 */
#ifndef SSDSIM_PROFILE_H
#define SSDSIM_PROFILE_H

#include "ssdsim_model.h"

struct ssdsim_profile {
	const char *name;
	struct ssdsim_cfg cfg;		/* units and cache_units: 0, from size_mb and cache_kb */
	u32 cache_kb;
};

static const struct ssdsim_profile ssdsim_profiles[] = {
	{
		.name = "default",
		.cache_kb = 1024,
		.cfg = {
			.channels = 4, .ways = 1, .page_units = 4,
			.block_pages = 32, .op_pct = 10, .slots = 512,
			.fetch_ns = 1000, .cmd_ns = 4000,
			.dma_unit_ns = 2000, .xfer_unit_ns = 25700,
			.read_ns = 107500, .prog_ns = 1075000,
			.erase_ns = 5000000, .destage_ns = 2000000,
			.discard_ns = 5000000, .discard_mib_ns = 500000, .zero_mib_ns = 5000000,
		},
	}, {
		.name = "970evoplus",
		.cache_kb = 4096,
		.cfg = {
			.channels = 8, .ways = 2, .page_units = 4,
			.block_pages = 64, .op_pct = 10, .slots = 512,
			.fetch_ns = 250, .cmd_ns = 6250, .dma_unit_ns = 990, .xfer_unit_ns = 5120,
			.read_ns = 67400, .prog_ns = 850000,
			.erase_ns = 3500000, .destage_ns = 2000000,
			.discard_ns = 1000000, .discard_mib_ns = 100000, .zero_mib_ns = 1000000,
		},
	}, {
		.name = "pcie4",
		.cache_kb = 16384,
		.cfg = {
			.channels = 8, .ways = 8, .page_units = 4,
			.block_pages = 64, .op_pct = 10, .slots = 1024,
			.fetch_ns = 100, .cmd_ns = 415, .dma_unit_ns = 585, .xfer_unit_ns = 3410,
			.read_ns = 40000, .prog_ns = 195000,
			.erase_ns = 3500000, .destage_ns = 2000000,
			.discard_ns = 250000, .discard_mib_ns = 25000, .zero_mib_ns = 250000,
		},
	}, {
		.name = "pcie5",
		.cache_kb = 32768,
		.cfg = {
			.channels = 8, .ways = 8, .page_units = 4,
			.block_pages = 64, .op_pct = 10, .slots = 1024,
			.fetch_ns = 50, .cmd_ns = 162, .dma_unit_ns = 293, .xfer_unit_ns = 1700,
			.read_ns = 27000, .prog_ns = 73200,
			.erase_ns = 3000000, .destage_ns = 2000000,
			.discard_ns = 125000, .discard_mib_ns = 12500, .zero_mib_ns = 125000,
		},
	}, {
		.name = "fast",
		.cache_kb = 8192,
		.cfg = {
			.channels = 16, .ways = 2, .page_units = 4,
			.block_pages = 64, .op_pct = 25, .slots = 1024,
			.fetch_ns = 50, .cmd_ns = 100, .dma_unit_ns = 300, .xfer_unit_ns = 500,
			.read_ns = 5000, .prog_ns = 15000,
			.erase_ns = 100000, .destage_ns = 100000,
			.discard_ns = 20000, .discard_mib_ns = 2000, .zero_mib_ns = 20000,
		},
	},
};

#endif /* SSDSIM_PROFILE_H */
