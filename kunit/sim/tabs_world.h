/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tabs_world.h - a device that mq-tabs's policy does not know, and tasks that use it
 *
 * The device has dies that each serve their requests in order of arrival, a read in 210 us and a
 * FUA write in 1178 us, as ssdsim's default profile does with 16 KiB. Its tasks keep a fixed number
 * of requests under way, or read at a fixed rate. The policy sees what the hooks would show it.
 */
#ifndef MQFAIR_TABS_WORLD_H
#define MQFAIR_TABS_WORLD_H

#include <linux/types.h>

#include "../../mq-tabs/tabs_policy.h"

#define MS	1000000ULL
#define KIB	1024U

enum {
	SEED		= 1609,
	NR_DIES		= 4,
	RING		= 4096,
	DEPTH		= 128,
	READ_NS		= 210300,
	FUA_NS		= 1177800,
};

struct tabs_world_die {
	u8 type[RING];
	u32 head;
	u32 nr;
	u64 done_at_ns;
};

struct tabs_world {
	struct tabs_policy policy;
	struct tabs_world_die die[NR_DIES];
	u64 service_ns[TABS_NR_TYPES];
	u32 bytes[TABS_NR_TYPES];
	/* Requests that the tasks keep under way. */
	u32 depth[TABS_NR_TYPES];
	/* Or: one every so often; 0: not. */
	u64 every_ns[TABS_NR_TYPES];
	u64 next_at_ns[TABS_NR_TYPES];

	struct tabs_sample counts;
	u32 earned;
	u64 held_at_ns[RING];
	u32 held_head;

	u64 now_ns;
	u64 tick_at_ns;
	u64 tick_ns;
	u32 random;

	/* What to judge by. */
	u64 longest_held_ns;
	u64 wasted_ns;
	u32 nr_reasons[TABS_NR_REASONS];
	u32 nr_phases;
};

struct tabs_world_gain {
	u64 bytes_per_s[TABS_NR_TYPES];
	/* Of what the type gets when it is alone. */
	u32 permille[TABS_NR_TYPES];
};

void tabs_world_init(struct tabs_world *w);
u32 tabs_world_draw(struct tabs_world *w, u32 below);
struct tabs_config tabs_world_paper_config(const struct tabs_world *w);
void tabs_world_run(struct tabs_world *w, u64 ms);
struct tabs_world_gain tabs_world_measure(struct tabs_world *w, u64 ms);
u32 tabs_world_fairness_pct(const struct tabs_world *w, const struct tabs_world_gain *g,
			    u32 readers, u32 writers);
void tabs_world_set_tasks(struct tabs_world *w, u32 readers, u32 writers);

#endif /* MQFAIR_TABS_WORLD_H */
