/* SPDX-License-Identifier: GPL-2.0 */
/*
 * k2_world.h - a device that mq-k2's automatic bound does not know, and its tasks
 *
 * The device has four dies that serve their requests in order of arrival, a read in 400 to 420 us
 * and a write in 800 to 840. A full one has to erase a block for every 16th write of a die, which
 * takes 3 ms more. Best-effort tasks keep 96 requests under way, real-time ones wait 2 ms between
 * theirs. The law sees what the hooks would show it, and is judged second by second. Time is
 * simulated, and every run the same.
 */
#ifndef MQFAIR_K2_WORLD_H
#define MQFAIR_K2_WORLD_H

#include <linux/types.h>

#include "../../lib/tail.h"

#define US	1000ULL
#define MS	(1000 * US)
#define SEC	(1000 * MS)

enum {
	SEED		= 20212,
	NR_DIES		= 4,
	CEILING		= 256,
	SETTLED_S	= 5,
	LONG_S		= 65,
	SWEEP_S		= 45,
	RING		= 512,
	READ_NS		= 400000,
	WRITE_NS	= 800000,
	ERASE_NS	= 3000000,
	ERASE_EVERY	= 16,
	MAX_SECONDS	= 130,
};

struct k2_world_job {
	u64 at_ns;
	bool is_rt;
	bool is_read;
};

struct k2_world_die {
	struct k2_world_job job[RING];
	u32 head;
	u32 nr;
	u32 nr_written;
	u64 done_at_ns;
};

/* What the tasks do. */
struct k2_world_load {
	u32 be_depth;
	u32 read_pct;
	u32 rt_depth;
	u64 rt_gap_ns;
	bool is_full;
};

struct k2_world_second {
	u32 nr_rt;
	u32 nr_beyond;
	u64 bytes;
	u32 bound;
	u32 least_bound;
	u32 most_bound;
};

struct k2_world {
	struct tail law;
	struct tail_sums sums;
	bool is_auto;
	bool is_light;
	bool is_slow;
	bool is_alone;
	u32 inflight_seen;
	u64 wait_ns;
	u32 bound;
	u64 target_ns;
	struct k2_world_load load;
	struct k2_world_die die[NR_DIES];
	u32 inflight;
	u32 be_under_way;
	u32 rt_waiting;
	u64 rt_waiting_at_ns[RING];
	u64 rt_next_ns[RING];
	u64 now_ns;
	u64 tick_at_ns;
	u64 random;
	struct k2_world_second second[MAX_SECONDS];
};

struct k2_world_verdict {
	u32 good_pct;
	u64 bytes_per_s;
	u32 least_bound;
	u32 most_bound;
};

void k2_world_run(struct k2_world *w, u64 until_ns);
void k2_world_set_load(struct k2_world *w, const struct k2_world_load *load);
void k2_world_init(struct k2_world *w, const struct k2_world_load *load, u32 bound, u64 target_ns);
void k2_world_law_on(struct k2_world *w, u32 start, u64 target_ns, u32 bandwidth_pct, u32 ceiling);
struct k2_world_verdict k2_world_judge(const struct k2_world *w, u32 from_s, u32 to_s);
struct k2_world_verdict k2_world_fixed(struct k2_world *w, const struct k2_world_load *load,
				       u32 bound, u64 target_ns);
u64 k2_world_best_bytes_per_s(struct k2_world *w, const struct k2_world_load *load, u64 target_ns);

#endif /* MQFAIR_K2_WORLD_H */
