/* SPDX-License-Identifier: GPL-2.0 */
/*
 * balancer.h - load balancing as OctoKV has it: which reactor gives how much to which other
 *
 * The monitor. At the end of each window W every reactor publishes how busy it was: the processor
 * time of its thread over the window. The reactor that was least busy looks at all of them and
 * decides (OctoKV, section IV-D). It acts if the busiest is above T_OL, and the busiest and the
 * least busy differ by more than T_LB. Then reactors above the average U_avg are "high", the others
 * "low", and each high one is told what to give away.
 *
 * How much (IV-E1). Only the storage stage of requests can move, a share R_S of a reactor's work.
 * The network stage stays where the connection is. For one high reactor, all low ones count as one.
 * If they stay below T = U_avg with all of its storage stage, all of it goes. Otherwise the part R
 * = (T - U_low) / (U_high * R_S) goes. With several low ones, their room T - U_low adds up. With
 * several high ones, they divide the room by how far each is above the average.
 *
 * To which reactor (IV-E2). RR: to the low ones in turn. PS: in proportion to the room of each.
 *
 * What moves. OctoKV moves requests one by one between cores that share an index under mutexes.
 * Here nothing is shared: a reactor hands over partitions (mover.h), with all that their storage
 * stage needs. The number is that of the paper, in events of the last window: partitions are given
 * away, busiest first, while they fit into N_high * R. "dense" counts only events of tenants above
 * the average of the tenants that had any; "sparse" counts only events of the others. So the
 * partitions that these tenants use most go first, until enough of their events have gone.
 *
 * This file has no thread, no clock and no mail: figures in, plan out.
 */
#ifndef OKV_BALANCER_H
#define OKV_BALANCER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BALANCER_MAX_REACTORS = 64,
	PPM = 1000000,
};

enum balance_how { BALANCE_OFF, BALANCE_RR, BALANCE_PS };
enum balance_tenants { BALANCE_ALL, BALANCE_DENSE, BALANCE_SPARSE };
enum fair_how { FAIR_OFF, FAIR_ON, FAIR_AUTO };

struct balancer_config {
	enum balance_how how;
	enum balance_tenants which;
	enum fair_how fair;		/* the intra level: fair/ */
	uint32_t window_ms;		/* W */
	uint32_t overload_pct;		/* T_OL */
	uint32_t gap_pct;		/* T_LB */
};

/*
 * What a high reactor gives away: @share_ppm of its storage events, to reactor i in proportion to
 * to[i].
 */
struct balancer_plan {
	uint32_t share_ppm;
	uint32_t to[BALANCER_MAX_REACTORS];
};

/*
 * @busy_ppm and @storage_ppm (R_S) are those of each of @nr reactors. Returns whether anything is
 * to move; plans[i] is the plan of reactor i.
 */
bool balancer_decide(const struct balancer_config *config, uint32_t nr, const uint32_t *busy_ppm,
		     const uint32_t *storage_ppm, struct balancer_plan *plans);

/*
 * Decides which of @nr partitions go to which reactor. events[i] are those of partition i in the
 * last window; to[i] is its new reactor, or -1 if it stays. A partition without events stays.
 * Returns how many go.
 */
uint32_t balancer_choose(const struct balancer_plan *plan, uint32_t nr, const uint64_t *events,
			 int *to);

#endif
