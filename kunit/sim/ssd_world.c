// SPDX-License-Identifier: GPL-2.0
/*
 * ssd_world.c - commands for ssdsim's model: one at a time, or closed loops
 *
 * See ssd_world.h.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "ssd_world.h"

u64 ssd_draw(struct ssd_world *c)
{
	c->random = ssdsim_mix(c->random);
	return c->random >> 11;
}

struct ssd_cmd *ssd_cmd(struct ssd_world *c, u32 i)
{
	return (void *)(c->cmds + i * TCMD_BYTES);
}

static struct ssd_cmd *to_tcmd(struct ssdsim_cmd *cmd)
{
	return container_of(cmd, struct ssd_cmd, cmd);
}

/* A small drive with round figures; tests change what they are about. */
struct ssdsim_cfg ssd_base_cfg(void)
{
	struct ssdsim_cfg cfg = {
		.units = 16384,
		.channels = 4,
		.ways = 1,
		.page_units = 4,
		.block_pages = 16,
		.op_pct = 10,
		.slots = 1000,
		.cache_units = 64,
		.fetch_ns = 100,
		.cmd_ns = 400,
		.dma_unit_ns = 200,
		.xfer_unit_ns = 2000,
		.read_ns = 50000,
		.prog_ns = 500000,
		.erase_ns = 2000000,
		.destage_ns = 1000000,
	};

	return cfg;
}

void ssd_start(struct kunit *test, const struct ssdsim_cfg *cfg)
{
	struct ssd_world *c = test->priv;

	ssdsim_model_destroy(c->m);
	KUNIT_ASSERT_TRUE(test, ssdsim_cfg_check(cfg) == NULL);
	c->m = ssdsim_model_create(cfg);
	KUNIT_ASSERT_NOT_NULL(test, c->m);
	c->now = 12345;
}

struct ssd_cmd *ssd_submit(struct ssd_world *c, u32 i, u32 hwq, enum ssdsim_cmd_op op, bool fua,
			   u32 unit, u32 units)
{
	struct ssd_cmd *t = ssd_cmd(c, i);

	t->submit_ns = c->now;
	t->cmd.op = op;
	t->cmd.fua = fua;
	t->cmd.unit = unit;
	t->cmd.nr_units = units;
	t->cmd.bytes = op == SSDSIM_READ || op == SSDSIM_WRITE ? units * SSDSIM_UNIT_BYTES : 0;
	t->cmd.done_ns = 0;
	ssdsim_model_submit(c->m, &t->cmd, hwq, c->now);
	return t;
}

/* Let time pass until nothing is under way, or until @limit. Completed commands stay on m->done. */
void ssd_run_until(struct kunit *test, u64 limit)
{
	struct ssd_world *c = test->priv;
	u32 steps = 0;

	while (c->m->submitted != c->m->completed + c->m->aborted) {
		LIST_HEAD(seen);
		u64 next;

		list_splice_tail_init(&c->m->done, &seen);
		next = ssdsim_model_next_ns(c->m);
		list_splice_tail_init(&seen, &c->m->done);
		if (next > limit)
			break;
		KUNIT_ASSERT_TRUE(test, next >= c->now);
		KUNIT_ASSERT_LT(test, steps++, 1000000);
		c->now = next;
		ssdsim_model_run(c->m, next);
	}
	if (limit != SSDSIM_NEVER) {
		c->now = limit;
		ssdsim_model_run(c->m, limit);
	}
}

/* Latency of one command on an otherwise idle device. */
u64 ssd_alone(struct kunit *test, enum ssdsim_cmd_op op, bool fua, u32 unit, u32 units)
{
	struct ssd_world *c = test->priv;
	struct ssd_cmd *t;

	ssd_run_until(test, c->now + 20 * MSEC);
	INIT_LIST_HEAD(&c->m->done);
	t = ssd_submit(c, 0, 0, op, fua, unit, units);
	ssd_run_until(test, SSDSIM_NEVER);
	INIT_LIST_HEAD(&c->m->done);
	return t->cmd.done_ns - t->submit_ns;
}

u64 ssd_pipeline_ns(const struct ssdsim_cfg *cfg, u32 units)
{
	return cfg->fetch_ns + cfg->cmd_ns + (u64)units * cfg->dma_unit_ns;
}

static void next_of(struct ssd_world *c, struct ssd_load *l, u32 id, u32 slot)
{
	u32 pages = (l->units + c->m->cfg.page_units - 1) / c->m->cfg.page_units;
	u32 page = ssd_draw(c) % (l->nr_pages / pages) * pages;
	u32 within = pages == 1 ? ssd_draw(c) % (c->m->cfg.page_units / l->units) * l->units : 0;

	ssd_cmd(c, slot)->load = id;
	ssd_submit(c, slot, l->hwq, l->op, l->fua, page * c->m->cfg.page_units + within, l->units);
}

/* Run closed loops for @warm_ns and then count for @ns. */
void ssd_run_loads(struct kunit *test, struct ssd_load *loads, u32 n, u64 warm_ns, u64 ns)
{
	struct ssd_world *c = test->priv;
	u64 from = c->now + warm_ns, end = from + ns, next;
	struct ssdsim_cmd *cmd, *more;
	struct ssd_load *l;
	u32 i, k, slot = 0;

	for (i = 0; i < n; i++)
		for (k = 0; k < loads[i].depth; k++)
			next_of(c, &loads[i], i, slot++);
	KUNIT_ASSERT_LE(test, slot, NR_CMDS);
	while ((next = ssdsim_model_next_ns(c->m)) < end) {
		LIST_HEAD(done);

		c->now = next;
		ssdsim_model_run(c->m, next);
		list_splice_tail_init(&c->m->done, &done);
		list_for_each_entry_safe(cmd, more, &done, link) {
			struct ssd_cmd *t = to_tcmd(cmd);

			l = &loads[t->load];
			if (cmd->done_ns >= from) {
				l->done++;
				l->latency_ns += cmd->done_ns - t->submit_ns;
				l->max_ns = max(l->max_ns, cmd->done_ns - t->submit_ns);
			}
			next_of(c, l, t->load, ((u8 *)t - c->cmds) / TCMD_BYTES);
		}
	}
	ssdsim_model_power_cut(c->m, c->now);
	INIT_LIST_HEAD(&c->m->done);
}

struct ssd_load ssd_reader(u32 units, u32 depth)
{
	struct ssd_load l = { .op = SSDSIM_READ, .units = units, .depth = depth, .nr_pages = 4000 };

	return l;
}

struct ssd_load ssd_writer(u32 units, u32 depth, bool fua)
{
	struct ssd_load l = {
		.op = SSDSIM_WRITE, .fua = fua, .units = units, .depth = depth, .nr_pages = 4000
	};

	return l;
}

u64 ssd_per_second(const struct ssd_load *l, u64 ns)
{
	return div64_u64(l->done * SEC, ns);
}

/* @value is within @permille of @want. */
bool ssd_near(u64 value, u64 want, u32 permille)
{
	u64 off = value > want ? value - want : want - value;

	return off * 1000 <= want * permille;
}

int ssd_world_make(struct kunit *test)
{
	struct ssd_world *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	if (!c)
		return -ENOMEM;
	test->priv = c;
	c->random = 1;
	c->cmds = kvcalloc(NR_CMDS, TCMD_BYTES, GFP_KERNEL);
	return c->cmds ? 0 : -ENOMEM;
}

void ssd_world_free(struct kunit *test)
{
	struct ssd_world *c = test->priv;

	if (!c)
		return;
	ssdsim_model_destroy(c->m);
	kvfree(c->cmds);
}
