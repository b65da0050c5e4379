// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_stall_kunit.c - what makes a command of ssdsim wait for others than the dies: the unit
 * that unmaps, and a hardware queue that is stalled
 *
 * See 7 and 9 at the top of tools/ssdsim/ssdsim_model.c.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "../tools/ssdsim/ssdsim_model.h"
#ifndef __KERNEL__
/* In the kernel the suite ssdsim_model has them. */
#include "../tools/ssdsim/ssdsim_ftl.c"
#include "../tools/ssdsim/ssdsim_model.c"
#include "../tools/ssdsim/ssdsim_setup.c"
#endif
#include "sim/ssd_world.h"

static struct ssd_world *context(struct kunit *test)
{
	return test->priv;
}

static struct ssdsim_cfg slow_cfg(void)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();

	cfg.discard_ns = 5 * MSEC;
	cfg.discard_mib_ns = MSEC;
	cfg.zero_mib_ns = 8 * MSEC;
	return cfg;
}

static bool is_done(struct kunit *test, u32 i)
{
	return ssd_cmd(context(test), i)->cmd.done_ns != 0;
}

/* Discards and zeroing of all queues follow each other; reads pass them. */
static void unmap_in_turn_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg = slow_cfg();
	u64 t0, ends;
	u32 i;

	ssd_start(test, &cfg);
	t0 = c->now;
	for (i = 0; i < 4; i++)
		ssd_submit(c, i, i % 2, i < 2 ? SSDSIM_DISCARD : SSDSIM_ZERO, false, 512 * i, 512);
	ssd_submit(c, 4, 0, SSDSIM_READ, false, 4096, 1);
	ssd_run_until(test, SSDSIM_NEVER);
	INIT_LIST_HEAD(&c->m->done);
	ends = t0 + cfg.fetch_ns + cfg.cmd_ns;
	for (i = 0; i < 4; i++) {
		ends += cfg.discard_ns + 2 * (i < 2 ? cfg.discard_mib_ns : cfg.zero_mib_ns);
		KUNIT_EXPECT_EQ(test, ssd_cmd(c, i)->cmd.done_ns, ends);
	}
	KUNIT_EXPECT_EQ(test, ssd_cmd(c, 4)->cmd.done_ns,
			t0 + cfg.fetch_ns + 5 * cfg.cmd_ns + cfg.dma_unit_ns + cfg.read_ns +
				cfg.xfer_unit_ns);
}

/* What is discarded stays mapped, and its dirty copies cached, until it is the command's turn. */
static void unmap_at_end_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg = slow_cfg();

	cfg.destage_ns = 1000 * MSEC;
	ssd_start(test, &cfg);
	ssd_alone(test, SSDSIM_WRITE, false, 0, 1);
	KUNIT_ASSERT_EQ(test, c->m->nr_cached, 1U);
	ssd_submit(c, 0, 0, SSDSIM_DISCARD, false, 0, 1);
	ssd_run_until(test, c->now + 4 * MSEC);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 1U);
	KUNIT_EXPECT_FALSE(test, is_done(test, 0));
	ssd_run_until(test, SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0U);
	KUNIT_EXPECT_TRUE(test, is_done(test, 0));
	INIT_LIST_HEAD(&c->m->done);
}

/* A saturated rate, and what readers lose by it: the slots of the controller. */
static void unmap_flood_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = slow_cfg();
	struct ssd_load loads[2] = { ssd_reader(1, 32), ssd_reader(256, 256) };
	u64 alone;

	loads[1].op = SSDSIM_DISCARD;
	loads[1].hwq = 1;
	ssd_start(test, &cfg);
	ssd_run_loads(test, loads, 1, 50 * MSEC, 500 * MSEC);
	alone = loads[0].done;
	loads[0].done = 0;
	ssd_run_loads(test, loads, 2, 50 * MSEC, 500 * MSEC);
	EXPECT_NEAR(test, ssd_per_second(&loads[1], 500 * MSEC),
		    div_u64(SEC, cfg.discard_ns + cfg.discard_mib_ns), 10);
	EXPECT_NEAR(test, loads[0].done, alone, 10);

	cfg.slots = 64;
	ssd_start(test, &cfg);
	loads[0].done = 0;
	ssd_run_loads(test, loads, 2, 500 * MSEC, 500 * MSEC);
	KUNIT_EXPECT_LT(test, loads[0].done, alone / 10);
}

/* ---- stalls ---- */

/* Two of three commands have been fetched when the queue stalls, the third one comes later. */
static void stall_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg = ssd_base_cfg();
	u64 released;
	u32 i;

	ssd_start(test, &cfg);
	for (i = 0; i < 2; i++)
		ssd_submit(c, i, 3, SSDSIM_READ, false, 4 * i, 1);
	ssd_run_until(test, c->now + 1000);
	ssdsim_model_stall(c->m, 1ULL << 3, c->now);
	ssd_submit(c, 2, 3, SSDSIM_READ, false, 8, 1);
	ssd_submit(c, 3, 1, SSDSIM_READ, false, 12, 1);
	ssd_run_until(test, c->now + 50 * MSEC);
	KUNIT_EXPECT_TRUE(test, is_done(test, 3));
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_FALSE(test, is_done(test, i));
	KUNIT_EXPECT_EQ(test, c->m->queues[3].fetched, 2);
	/* What is done holds no place in the controller. */
	KUNIT_EXPECT_EQ(test, c->m->slots_used, 0U);

	released = c->now;
	ssdsim_model_stall(c->m, 0, c->now);
	KUNIT_EXPECT_EQ(test, ssd_cmd(c, 0)->cmd.done_ns, released);
	KUNIT_EXPECT_EQ(test, ssd_cmd(c, 1)->cmd.done_ns, released);
	KUNIT_EXPECT_EQ(test, ssdsim_model_next_ns(c->m), released);
	ssd_run_until(test, SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, ssd_cmd(c, 2)->cmd.done_ns,
			released + ssd_pipeline_ns(&cfg, 1) + cfg.read_ns + cfg.xfer_unit_ns);
	KUNIT_EXPECT_EQ(test, c->m->completed, 4);
	INIT_LIST_HEAD(&c->m->done);
}

/* Other queues are fetched in turn as if the stalled ones were empty; they may be let go singly. */
static void stall_others_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_load loads[3] = { ssd_reader(1, 32), ssd_reader(1, 32), ssd_reader(1, 32) };
	u64 without;
	u32 i;

	for (i = 0; i < 3; i++)
		loads[i].hwq = 20 * i;
	ssd_start(test, &cfg);
	ssd_run_loads(test, loads, 2, 20 * MSEC, 200 * MSEC);
	without = loads[0].done + loads[1].done;
	ssd_start(test, &cfg);
	for (i = 0; i < 3; i++)
		loads[i].done = 0;
	ssdsim_model_stall(c->m, 1ULL << 40 | 1ULL << 63, c->now);
	ssd_run_loads(test, loads, 3, 20 * MSEC, 200 * MSEC);
	EXPECT_NEAR(test, loads[0].done + loads[1].done, without, 20);
	KUNIT_EXPECT_EQ(test, loads[2].done, 0);
	KUNIT_EXPECT_EQ(test, c->m->queues[40].fetched, 0);

	ssd_start(test, &cfg);
	ssd_submit(c, 0, 0, SSDSIM_FLUSH, false, 0, 0);
	ssd_submit(c, 1, 63, SSDSIM_FLUSH, false, 0, 0);
	ssdsim_model_stall(c->m, 1 | 1ULL << 63, c->now);
	ssd_run_until(test, c->now + MSEC);
	ssdsim_model_stall(c->m, 1, c->now);
	ssd_run_until(test, c->now + MSEC);
	KUNIT_EXPECT_FALSE(test, is_done(test, 0));
	KUNIT_EXPECT_TRUE(test, is_done(test, 1));
	ssdsim_model_power_cut(c->m, c->now);
	INIT_LIST_HEAD(&c->m->done);
}

/* A power cut ends what is stalled, fetched or not. The stall stays. */
static void stall_power_cut_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg = ssd_base_cfg();
	u32 i;

	ssd_start(test, &cfg);
	ssd_submit(c, 0, 0, SSDSIM_READ, false, 0, 1);
	ssd_run_until(test, c->now + 1000);
	ssdsim_model_stall(c->m, 1, c->now);
	ssd_submit(c, 1, 0, SSDSIM_WRITE, true, 0, 1);
	ssd_run_until(test, c->now + 10 * MSEC);
	ssdsim_model_power_cut(c->m, c->now);
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, ssd_cmd(c, i)->cmd.aborted);
	KUNIT_EXPECT_EQ(test, c->m->aborted, 2);
	KUNIT_EXPECT_EQ(test, c->m->stalled, 1);
	INIT_LIST_HEAD(&c->m->done);
	ssdsim_model_stall(c->m, 0, c->now);
	KUNIT_EXPECT_TRUE(test, list_empty(&c->m->done));
	ssd_alone(test, SSDSIM_READ, false, 0, 1);
	KUNIT_EXPECT_EQ(test, c->m->completed, 1);
}

static struct kunit_case ssdsim_stall_cases[] = {
	KUNIT_CASE(unmap_in_turn_test),
	KUNIT_CASE(unmap_at_end_test),
	KUNIT_CASE(unmap_flood_test),
	KUNIT_CASE(stall_test),
	KUNIT_CASE(stall_others_test),
	KUNIT_CASE(stall_power_cut_test),
	{}
};

static struct kunit_suite ssdsim_stall_suite = {
	.name = "ssdsim_stall",
	.init = ssd_world_make,
	.exit = ssd_world_free,
	.test_cases = ssdsim_stall_cases,
};

kunit_test_suite(ssdsim_stall_suite);
