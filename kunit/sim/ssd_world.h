/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ssd_world.h - commands for ssdsim's model: one at a time, or closed loops
 *
 * Time passes only in these functions.
 */
#ifndef MQFAIR_SSD_WORLD_H
#define MQFAIR_SSD_WORLD_H

#include <kunit/test.h>

#include "../../tools/ssdsim/ssdsim_model.h"

#define NR_CMDS		640
#define MSEC		1000000ULL
#define SEC		(1000 * MSEC)

/* A command of the test: the load that submitted it, and room for operations. */
struct ssd_cmd {
	u32 load;
	u64 submit_ns;
	struct ssdsim_cmd cmd;
};

struct ssd_world {
	struct ssdsim_model *m;
	u8 *cmds;
	u64 now;
	u64 random;
};

/* A closed loop: @depth commands of @units units are always under way. */
struct ssd_load {
	u32 hwq;
	enum ssdsim_cmd_op op;
	bool fua;
	u32 units;
	u32 depth;
	u32 nr_pages;		/* anywhere in so many */
	u64 done;
	u64 latency_ns;
	u64 max_ns;
};

#define TCMD_BYTES	(sizeof(struct ssd_cmd) + SSDSIM_MAX_DIES * sizeof(struct ssdsim_op))

u64 ssd_draw(struct ssd_world *c);
struct ssd_cmd *ssd_cmd(struct ssd_world *c, u32 i);
struct ssdsim_cfg ssd_base_cfg(void);
void ssd_start(struct kunit *test, const struct ssdsim_cfg *cfg);
struct ssd_cmd *ssd_submit(struct ssd_world *c, u32 i, u32 hwq, enum ssdsim_cmd_op op, bool fua,
			   u32 unit, u32 units);
void ssd_run_until(struct kunit *test, u64 limit);
u64 ssd_alone(struct kunit *test, enum ssdsim_cmd_op op, bool fua, u32 unit, u32 units);
u64 ssd_pipeline_ns(const struct ssdsim_cfg *cfg, u32 units);
int ssd_world_make(struct kunit *test);
void ssd_world_free(struct kunit *test);
void ssd_run_loads(struct kunit *test, struct ssd_load *loads, u32 n, u64 warm_ns, u64 ns);
struct ssd_load ssd_reader(u32 units, u32 depth);
struct ssd_load ssd_writer(u32 units, u32 depth, bool fua);
u64 ssd_per_second(const struct ssd_load *l, u64 ns);
bool ssd_near(u64 value, u64 want, u32 permille);

#define EXPECT_NEAR(test, value, want, permille)				\
	KUNIT_EXPECT_TRUE_MSG(test, ssd_near(value, want, permille),		\
			      "%llu, should be %llu within %u permille",	\
			      (u64)(value), (u64)(want), permille)

#endif /* MQFAIR_SSD_WORLD_H */
