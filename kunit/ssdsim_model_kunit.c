// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_model_kunit.c - the timing of ssdsim against its closed forms
 *
 * The forms stand at the top of tools/ssdsim/ssdsim_model.c. Here they are computed from the
 * configuration, and the model must agree: to the nanosecond where the form is exact, within a
 * stated margin where dies idle by chance. A random mix is compared with a naive twin, which keeps
 * the time when each die is free, and with the same mix when the model is asked at other moments.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "../tools/ssdsim/ssdsim_profile.h"
#include "../tools/ssdsim/ssdsim_ftl.c"
#include "../tools/ssdsim/ssdsim_model.c"
#include "../tools/ssdsim/ssdsim_setup.c"
#include "sim/ssd_world.h"

static struct ssd_world *context(struct kunit *test)
{
	return test->priv;
}

/* ---- one command at a time ---- */

static void profile_describe(const struct ssdsim_profile *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}
KUNIT_ARRAY_PARAM(profile, ssdsim_profiles, profile_describe);

static struct ssdsim_cfg profile_cfg(struct kunit *test)
{
	const struct ssdsim_profile *p = test->param_value;
	struct ssdsim_cfg cfg = p->cfg;

	cfg.units = 65536;
	cfg.cache_units = p->cache_kb / 4;
	return cfg;
}

static void depth1_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = profile_cfg(test);
	u32 u, stripe = cfg.page_units * cfg.channels * cfg.ways;

	ssd_start(test, &cfg);
	for (u = 1; u <= cfg.page_units; u++) {
		KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_READ, false, 0, u),
				ssd_pipeline_ns(&cfg, u) + cfg.read_ns + u * cfg.xfer_unit_ns);
		KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_WRITE, true, 0, u),
				ssd_pipeline_ns(&cfg, u) + u * cfg.xfer_unit_ns + cfg.prog_ns);
		KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_WRITE, false, 0, u),
				ssd_pipeline_ns(&cfg, u));
	}
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_FLUSH, false, 0, 0), ssd_pipeline_ns(&cfg, 0));
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_DISCARD, false, 0, 64),
			ssd_pipeline_ns(&cfg, 0) + cfg.discard_ns + cfg.discard_mib_ns / 4);
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_ZERO, false, 0, 64),
			ssd_pipeline_ns(&cfg, 0) + cfg.discard_ns + cfg.zero_mib_ns / 4);
	/*
	 * Two pages on two channels at once; two stripes, so two pages on one die, one after the
	 * other.
	 */
	u = cfg.page_units;
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_READ, false, 0, 2 * u),
			ssd_pipeline_ns(&cfg, 2 * u) + cfg.read_ns + u * cfg.xfer_unit_ns);
	if (cfg.ways == 1)
		KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_READ, false, 0, 2 * stripe),
				ssd_pipeline_ns(&cfg, 2 * stripe) +
					2 * (cfg.read_ns + u * cfg.xfer_unit_ns));
}

/* A 970-class drive's published rates, and the proportions of both profiles. */
static void rates_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = profile_cfg(test);
	bool big = cfg.channels == 8 && cfg.ways == 2;
	u32 dies = cfg.channels * cfg.ways;
	struct ssd_load r4 = ssd_reader(1, 384), r16 = ssd_reader(4, 128),
			f16 = ssd_writer(4, 128, true), w4 = ssd_writer(1, 384, false);
	struct ssd_load both[2] = { ssd_reader(4, 128), ssd_writer(4, 128, true) };

	if (cfg.prog_ns < 5 * cfg.read_ns)
		return;		/* not a drive's proportions */
	both[1].hwq = 1;
	w4.nr_pages = 16000;
	cfg.op_pct = 400;	/* no collection */
	ssd_start(test, &cfg);
	ssd_run_loads(test, &r4, 1, 100 * MSEC, SEC);
	ssd_run_loads(test, &r16, 1, 100 * MSEC, SEC);
	ssd_run_loads(test, &f16, 1, 100 * MSEC, SEC);
	ssd_run_loads(test, &w4, 1, 100 * MSEC, SEC);
	ssd_run_loads(test, both, 2, 100 * MSEC, SEC);
	kunit_info(test, "4K reads %llu/s, 16K reads %llu/s, 16K FUA %llu/s, 4K buffered %llu/s\n",
		   r4.done, r16.done, f16.done, w4.done);
	kunit_info(test, "reader %llu/s beside FUA %llu/s\n", both[0].done, both[1].done);
	if (big) {
		EXPECT_NEAR(test, r4.done, 138200, 10);		/* 566 MB/s */
		EXPECT_NEAR(test, r16.done, 97900, 10);		/* 1530 MiB/s */
		EXPECT_NEAR(test, f16.done, 17470, 30);		/* 273 MiB/s */
		EXPECT_NEAR(test, w4.done, 73000, 50);		/* 299 MB/s */
	} else {
		KUNIT_EXPECT_GE(test, r4.done, 25000);
		KUNIT_EXPECT_LE(test, r4.done, 35000);
		EXPECT_NEAR(test, r4.done, div_u64((u64)dies * SEC, cfg.read_ns + cfg.xfer_unit_ns),
			    10);
	}
	EXPECT_NEAR(test, r16.done * 10, f16.done * 56, 40);
	EXPECT_NEAR(test, cfg.prog_ns,
		    10 * (u64)(big ? cfg.read_ns + 4 * cfg.xfer_unit_ns : cfg.read_ns), 50);
	/*
	 * The deeper the queues at the dies, the more equal: a command waits for others more than
	 * for itself.
	 */
	EXPECT_NEAR(test, both[0].done, both[1].done, big ? 100 : 30);
	EXPECT_NEAR(test, both[0].done,
		    div_u64((u64)dies * SEC, cfg.read_ns + cfg.prog_ns + 8 * cfg.xfer_unit_ns), 60);
}

/* The newer drives' data sheets. The dies of pcie5 just keep up: some of them idle by chance. */
static void newer_rates_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = profile_cfg(test);
	struct ssd_load r4 = ssd_reader(1, 384), r128 = ssd_reader(32, 64),
			w4 = ssd_writer(1, 384, false);
	u64 want = div_u64(SEC, cfg.cmd_ns + cfg.dma_unit_ns), ns = 50 * MSEC;

	if (cfg.ways != 8)
		return;
	w4.nr_pages = 16000;
	cfg.op_pct = 400;	/* no collection */
	ssd_start(test, &cfg);
	ssd_run_loads(test, &r4, 1, 10 * MSEC, ns);
	ssd_run_loads(test, &r128, 1, 10 * MSEC, ns);
	ssd_run_loads(test, &w4, 1, 20 * MSEC, ns);
	EXPECT_NEAR(test, ssd_per_second(&r4, ns), want, 80);
	EXPECT_NEAR(test, ssd_per_second(&w4, ns), want, 50);
	want = div_u64(SEC, cfg.cmd_ns + 32 * cfg.dma_unit_ns);
	EXPECT_NEAR(test, ssd_per_second(&r128, ns), want, 50);
}

/* ---- a core for each hardware queue ---- */

static void queue_service_test(struct kunit *test)
{
	struct ssd_world *c = context(test);
	struct ssd_load loads[3] = { ssd_reader(1, 8), ssd_reader(1, 8), ssd_reader(1, 1) };
	struct ssdsim_cfg cfg = ssd_base_cfg();
	u64 read, t0;
	u32 i;

	cfg.queue_service_ns = 30000;
	cfg.cmd_ns = 1000;
	read = cfg.read_ns + cfg.xfer_unit_ns;
	ssd_start(test, &cfg);
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_READ, false, 0, 1),
			cfg.queue_service_ns + ssd_pipeline_ns(&cfg, 1) + read);
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_FLUSH, false, 0, 0),
			cfg.queue_service_ns + ssd_pipeline_ns(&cfg, 0));

	/*
	 * Four at once in one queue, for four dies: the core is what they wait for. One in another
	 * queue does not.
	 */
	t0 = c->now;
	for (i = 0; i < 4; i++)
		ssd_submit(c, i, 0, SSDSIM_READ, false, i * cfg.page_units, 1);
	c->now += 10;
	ssd_submit(c, 4, 1, SSDSIM_FLUSH, false, 0, 0);
	ssd_run_until(test, SSDSIM_NEVER);
	INIT_LIST_HEAD(&c->m->done);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, ssd_cmd(c, i)->cmd.done_ns,
				t0 + (i + 1) * cfg.queue_service_ns + ssd_pipeline_ns(&cfg, 1) +
					read);
	/* Fetched after the first of the others, which came out of its core 10 ns earlier. */
	KUNIT_EXPECT_EQ(test, ssd_cmd(c, 4)->cmd.done_ns,
			t0 + cfg.queue_service_ns + cfg.fetch_ns + 2 * cfg.cmd_ns +
				cfg.dma_unit_ns);

	/*
	 * Two deep queues get what their cores can do each, and a third that asks for one at a time
	 * does not notice them.
	 */
	cfg.channels = 16;
	ssd_start(test, &cfg);
	loads[1].hwq = 1;
	loads[2].hwq = 2;
	ssd_run_loads(test, loads, 3, 10 * MSEC, 300 * MSEC);
	EXPECT_NEAR(test, ssd_per_second(&loads[0], 300 * MSEC), div_u64(SEC, cfg.queue_service_ns),
		    10);
	EXPECT_NEAR(test, ssd_per_second(&loads[1], 300 * MSEC), div_u64(SEC, cfg.queue_service_ns),
		    10);
	EXPECT_NEAR(test, div64_u64(loads[2].latency_ns, loads[2].done),
		    cfg.queue_service_ns + ssd_pipeline_ns(&cfg, 1) + read, 150);
}

/* ---- saturation ---- */

struct saturation {
	const char *name;
	u32 channels, ways, units, xfer_unit_ns, cmd_ns, fetch_ns;
	bool fua;
};

static const struct saturation saturations[] = {
	{ "dies, 4K reads", 4, 1, 1, 2000, 400, 100, false },
	{ "dies, 16K reads", 4, 1, 4, 2000, 400, 100, false },
	{ "dies, 4K FUA writes", 4, 1, 1, 2000, 400, 100, true },
	{ "dies, 16K FUA writes", 4, 1, 4, 2000, 400, 100, true },
	{ "16 dies on 8 channels", 8, 2, 1, 2000, 400, 100, false },
	{ "channels, 16K reads", 2, 4, 4, 20000, 400, 100, false },
	{ "channels, 16K FUA writes", 1, 8, 4, 40000, 400, 100, true },
	{ "pipeline", 8, 2, 1, 2000, 9000, 100, false },
	{ "fetching", 8, 2, 1, 2000, 400, 9000, false },
};
KUNIT_ARRAY_PARAM_DESC(saturation, saturations, name);

static void saturation_test(struct kunit *test)
{
	const struct saturation *s = test->param_value;
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_load l = s->fua ? ssd_writer(s->units, 512, true) : ssd_reader(s->units, 512);
	u64 per_cmd, want = SSDSIM_NEVER;
	u32 dies = s->channels * s->ways;

	cfg.channels = s->channels;
	cfg.ways = s->ways;
	cfg.xfer_unit_ns = s->xfer_unit_ns;
	cfg.cmd_ns = s->cmd_ns;
	cfg.fetch_ns = s->fetch_ns;
	cfg.erase_ns = 0;
	per_cmd = (s->fua ? cfg.prog_ns : cfg.read_ns) + (u64)s->units * cfg.xfer_unit_ns;
	want = min(want, div64_u64(dies * SEC, per_cmd));
	want = min(want, div64_u64(SEC, cfg.cmd_ns + (u64)s->units * cfg.dma_unit_ns));
	want = min(want, div64_u64(s->channels * SEC, (u64)s->units * cfg.xfer_unit_ns));
	want = min(want, div64_u64(SEC, (u64)cfg.fetch_ns));
	ssd_start(test, &cfg);
	ssd_run_loads(test, &l, 1, 50 * MSEC, s->fua ? 300 * MSEC : 200 * MSEC);
	/* Channels lose a little more: a transfer that was booked late cannot start early. */
	EXPECT_NEAR(test, ssd_per_second(&l, s->fua ? 300 * MSEC : 200 * MSEC), want,
		    strstr(s->name, "channels,") ? 40 : 20);
	KUNIT_EXPECT_LE(test, ssd_per_second(&l, s->fua ? 300 * MSEC : 200 * MSEC),
			want + want / 100);
}

static void cached_saturation_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_load l = ssd_writer(1, 256, false);
	u64 want;

	/* No collection: what the pages carry is what the dies can program. */
	cfg.op_pct = 400;
	cfg.units = 65536;
	cfg.cache_units = 256;
	l.nr_pages = 16000;
	want = div64_u64(4ULL * cfg.page_units * SEC, 4 * cfg.xfer_unit_ns + cfg.prog_ns);
	ssd_start(test, &cfg);
	ssd_run_loads(test, &l, 1, 100 * MSEC, 500 * MSEC);
	EXPECT_NEAR(test, ssd_per_second(&l, 500 * MSEC), want, 20);
}

/* ---- sharing between hardware queues ---- */

struct share {
	const char *name;
	u32 slots, fetch_ns;
	u32 depth[4];
	u32 units[4];
	u32 permille[4];	/* of all commands */
};

static const struct share shares[] = {
	/*
	 * The controller has room for 8: a queue with more waiting than its part of that always has
	 * a command to fetch.
	 */
	{ "equal queues", 8, 100, { 16, 16, 16, 16 }, { 1, 1, 1, 1 }, { 250, 250, 250, 250 } },
	{ "one deep, three shallow", 8, 100,
	  { 256, 8, 8, 8 }, { 1, 1, 1, 1 }, { 250, 250, 250, 250 } },
	{ "one of four 16 times as large", 8, 100,
	  { 32, 32, 32, 32 }, { 16, 1, 1, 1 }, { 250, 250, 250, 250 } },
	{ "two queues only", 8, 100, { 256, 8, 0, 0 }, { 1, 1, 1, 1 }, { 500, 500, 0, 0 } },
	{ "short of fetching time", 1000, 20000,
	  { 256, 16, 16, 16 }, { 1, 1, 1, 1 }, { 250, 250, 250, 250 } },
	/* With room for everything nothing is fair: the parts are those of the depths. */
	{ "room for all", 1000, 100,
	  { 300, 100, 100, 100 }, { 1, 1, 1, 1 }, { 500, 167, 167, 167 } },
};
KUNIT_ARRAY_PARAM_DESC(share, shares, name);

static void share_test(struct kunit *test)
{
	const struct share *s = test->param_value;
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_load l[4];
	u64 sum = 0;
	u32 i;

	cfg.slots = s->slots;
	cfg.fetch_ns = s->fetch_ns;
	ssd_start(test, &cfg);
	for (i = 0; i < 4; i++) {
		l[i] = ssd_reader(s->units[i], s->depth[i]);
		l[i].hwq = i * 5;
	}
	ssd_run_loads(test, l, 4, 50 * MSEC, 400 * MSEC);
	for (i = 0; i < 4; i++)
		sum += l[i].done;
	KUNIT_ASSERT_GT(test, sum, 100);
	for (i = 0; i < 4; i++)
		EXPECT_NEAR(test, l[i].done * 1000, sum * s->permille[i], 20);
	/* By commands, whatever their size: so by bytes the large ones win 16 to 1. */
	if (s->units[0] == 16)
		EXPECT_NEAR(test, context(test)->m->queues[0].bytes,
			    16 * context(test)->m->queues[5].bytes, 30);
}

/* ---- waiting ---- */

static void behind_program_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssd_cmd *w, *same, *other, *late;
	u64 read, prog, t0;

	ssd_start(test, &cfg);
	read = cfg.read_ns + cfg.xfer_unit_ns;
	prog = cfg.prog_ns + 4 * cfg.xfer_unit_ns;
	t0 = c->now;
	w = ssd_submit(c, 0, 0, SSDSIM_WRITE, true, 0, 4);
	c->now += 100000;
	same = ssd_submit(c, 1, 0, SSDSIM_READ, false, 16, 1);	/* page 4: die 0 */
	other = ssd_submit(c, 2, 0, SSDSIM_READ, false, 4, 1);	/* page 1: die 1 */
	late = ssd_submit(c, 3, 0, SSDSIM_READ, false, 32, 1);	/* die 0 again */
	ssd_run_until(test, SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, w->cmd.done_ns, t0 + ssd_pipeline_ns(&cfg, 4) + prog);
	KUNIT_EXPECT_EQ(test, same->cmd.done_ns, w->cmd.done_ns + read);
	KUNIT_EXPECT_EQ(test, late->cmd.done_ns, w->cmd.done_ns + 2 * read);
	/* Behind it in the pipeline only. */
	KUNIT_EXPECT_EQ(test, other->cmd.done_ns,
			t0 + 100000 + cfg.fetch_ns + 2 * (cfg.cmd_ns + cfg.dma_unit_ns) + read);
}

static void arrival_order_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	u64 last = 0;
	u32 i;

	ssd_start(test, &cfg);
	for (i = 0; i < 40; i++)
		ssd_submit(c, i, 0, i % 3 ? SSDSIM_READ : SSDSIM_WRITE, i % 3 == 0, i * 16, 1);
	ssd_run_until(test, SSDSIM_NEVER);
	for (i = 0; i < 40; i++) {
		u64 min_ns = i % 3 ? cfg.read_ns : cfg.prog_ns;

		KUNIT_EXPECT_GE(test, ssd_cmd(c, i)->cmd.done_ns, last + min_ns);
		last = ssd_cmd(c, i)->cmd.done_ns;
	}
}

/* ---- write cache and flush ---- */

static void cache_full_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	u64 page, first, t0;
	u32 i;

	/* One die, so that the order of programs is plain; room for 8 units, 2 pages. */
	cfg.channels = 1;
	cfg.cache_units = 8;
	ssd_start(test, &cfg);
	t0 = c->now;
	page = 4 * cfg.xfer_unit_ns + cfg.prog_ns;
	for (i = 0; i < 24; i++)
		ssd_submit(c, i, 0, SSDSIM_WRITE, false, i, 1);
	ssd_run_until(test, SSDSIM_NEVER);
	/* The first page starts when its fourth unit has come. */
	first = t0 + cfg.fetch_ns + 4 * (cfg.cmd_ns + cfg.dma_unit_ns);
	for (i = 0; i < 24; i++) {
		u64 want = t0 + cfg.fetch_ns + (i + 1) * (cfg.cmd_ns + cfg.dma_unit_ns);

		if (i >= 8)
			want = first + (i / 4 - 1) * page;
		KUNIT_EXPECT_EQ_MSG(test, ssd_cmd(c, i)->cmd.done_ns, want, "write %u", i);
		KUNIT_EXPECT_LE(test, c->m->nr_cached, 8);
	}
	KUNIT_EXPECT_EQ(test, c->m->cache_waits, 16);
}

static void cache_hit_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssd_cmd *hit, *part, *again;

	ssd_start(test, &cfg);
	ssd_submit(c, 0, 0, SSDSIM_WRITE, false, 8, 2);
	ssd_run_until(test, c->now + 10000);
	again = ssd_submit(c, 3, 0, SSDSIM_WRITE, false, 8, 2);
	ssd_run_until(test, c->now + 10000);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 2);
	KUNIT_EXPECT_EQ(test, again->cmd.done_ns - again->submit_ns, ssd_pipeline_ns(&cfg, 2));
	hit = ssd_submit(c, 1, 0, SSDSIM_READ, false, 8, 2);
	ssd_run_until(test, c->now + 10000);
	KUNIT_EXPECT_EQ(test, hit->cmd.done_ns - hit->submit_ns, ssd_pipeline_ns(&cfg, 2));
	part = ssd_submit(c, 2, 0, SSDSIM_READ, false, 8, 3);
	ssd_run_until(test, c->now + 100000);
	KUNIT_EXPECT_EQ(test, part->cmd.done_ns - part->submit_ns,
			ssd_pipeline_ns(&cfg, 3) + cfg.read_ns + 3 * cfg.xfer_unit_ns);
	KUNIT_EXPECT_EQ(test, c->m->cache_hits, 1);
	/* A partly filled page waits for destage_ns, then goes. */
	KUNIT_EXPECT_EQ(test, c->m->dies[2].destages, 0);
	ssd_run_until(test, c->now + 2 * cfg.destage_ns);
	KUNIT_EXPECT_EQ(test, c->m->dies[2].destages, 1);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0);
}

static void flush_drains_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssd_cmd *flush, *after, *second;
	u64 ready, page;
	u32 i;

	ssd_start(test, &cfg);
	page = cfg.xfer_unit_ns + cfg.prog_ns;
	/* One unit each on dies 0, 1, 2, and a second page on die 0. */
	for (i = 0; i < 4; i++)
		ssd_submit(c, i, 0, SSDSIM_WRITE, false, i == 3 ? 16 : i * 4, 1);
	ssd_run_until(test, c->now + 20000);
	flush = ssd_submit(c, 4, 0, SSDSIM_FLUSH, false, 0, 0);
	after = ssd_submit(c, 5, 0, SSDSIM_WRITE, false, 12, 1);
	ssd_run_until(test, c->now + 20000);
	KUNIT_EXPECT_NE(test, after->cmd.done_ns, 0);
	KUNIT_EXPECT_EQ(test, flush->cmd.done_ns, 0);
	second = ssd_submit(c, 6, 1, SSDSIM_FLUSH, false, 0, 0);
	ssd_run_until(test, SSDSIM_NEVER);
	ready = flush->submit_ns + ssd_pipeline_ns(&cfg, 0);
	/* Die 0 has two units; they gather into one program. */
	KUNIT_EXPECT_EQ(test, flush->cmd.done_ns, ready + page + cfg.xfer_unit_ns);
	KUNIT_EXPECT_EQ(test, second->cmd.done_ns,
			second->submit_ns + ssd_pipeline_ns(&cfg, 0) + page);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0);
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_FLUSH, false, 0, 0), ssd_pipeline_ns(&cfg, 0));
}

/*
 * A unit that is written again while its program is under way is dirty again, and a flush waits for
 * the second program.
 */
static void rewrite_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssd_cmd *f1, *f2;
	u64 page = cfg.xfer_unit_ns + cfg.prog_ns;

	ssd_start(test, &cfg);
	ssd_submit(c, 0, 0, SSDSIM_WRITE, false, 0, 1);
	f1 = ssd_submit(c, 1, 0, SSDSIM_FLUSH, false, 0, 0);
	ssd_run_until(test, c->now + 50000);
	ssd_submit(c, 2, 0, SSDSIM_WRITE, false, 0, 1);
	f2 = ssd_submit(c, 3, 0, SSDSIM_FLUSH, false, 0, 0);
	ssd_run_until(test, c->now + 50000);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 1);
	ssd_run_until(test, SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, f1->cmd.done_ns,
			f1->submit_ns + cfg.fetch_ns + 2 * cfg.cmd_ns + cfg.dma_unit_ns + page);
	KUNIT_EXPECT_EQ(test, f2->cmd.done_ns, f1->cmd.done_ns + page);
	/* A discard takes the dirty copy away, and a flush has nothing to wait for. */
	ssd_submit(c, 4, 0, SSDSIM_WRITE, false, 0, 1);
	ssd_submit(c, 5, 0, SSDSIM_DISCARD, false, 0, 4);
	f1 = ssd_submit(c, 6, 0, SSDSIM_FLUSH, false, 0, 0);
	ssd_run_until(test, SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, f1->cmd.done_ns - f1->submit_ns,
			cfg.fetch_ns + 3 * cfg.cmd_ns + cfg.dma_unit_ns);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0);
}

/* ---- garbage collection ---- */

static u64 erases(const struct ssdsim_model *m)
{
	u64 n = 0;
	u32 i;

	for (i = 0; i < m->nr_dies; i++)
		n += m->dies[i].ftl.gc_victims;
	return n;
}

static void audit(struct kunit *test)
{
	struct ssd_world *c = context(test);
	u32 i;

	for (i = 0; i < c->m->nr_dies; i++)
		KUNIT_EXPECT_EQ_MSG(test, ssdsim_ftl_audit(&c->m->dies[i].ftl), 0, "die %u", i);
}

static void fill_die(struct ssd_world *c, u32 die, u32 pct)
{
	struct ssdsim_fill fill = { .random = die };

	while (ssdsim_model_fill(c->m, die, pct, &fill))
		;
}

static void gc_start_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssdsim_ftl *ftl;
	u32 i, limit;

	cfg.channels = 1;
	cfg.units = 2048;
	ssd_start(test, &cfg);
	ftl = &c->m->dies[0].ftl;
	limit = (ftl->nr_blocks - SSDSIM_GC_LOW - 1) * cfg.block_pages;
	KUNIT_ASSERT_GT(test, limit, 2048 / 4);		/* more than the capacity: full first */
	for (i = 0; i < limit; i++)
		ssd_alone(test, SSDSIM_WRITE, true, i * 4 % 2048, 4);
	KUNIT_EXPECT_EQ(test, erases(c->m), 0);
	ssd_alone(test, SSDSIM_WRITE, true, i * 4 % 2048, 4);
	ssd_run_until(test, c->now + 100 * MSEC);
	KUNIT_EXPECT_EQ(test, erases(c->m), 1);
	KUNIT_EXPECT_GT(test, ftl->nr_free, SSDSIM_GC_LOW);
	audit(test);
}

static void gc_cost_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssd_load empty = ssd_writer(4, 64, true), full = ssd_writer(4, 64, true),
			r = ssd_reader(1, 256), mixed[2];
	u64 steps = 0, host = 0, copied = 0, victims = 0, busy;
	u32 i;

	cfg.units = 65536;
	ssd_start(test, &cfg);
	ssd_run_loads(test, &empty, 1, 50 * MSEC, 200 * MSEC);
	KUNIT_EXPECT_EQ(test, erases(c->m), 0);
	for (i = 0; i < c->m->nr_dies; i++)
		fill_die(c, i, 200);
	audit(test);
	full.nr_pages = 16000;
	ssd_run_loads(test, &full, 1, SEC, 2 * SEC);
	audit(test);
	KUNIT_EXPECT_GT(test, erases(c->m), 0);
	/* Full costs more than half, and reads alone cost what they did. */
	KUNIT_EXPECT_LT(test, ssd_per_second(&full, 2 * SEC) * 2,
			ssd_per_second(&empty, 200 * MSEC));
	ssd_run_loads(test, &r, 1, 200 * MSEC, 200 * MSEC);
	EXPECT_NEAR(test, ssd_per_second(&r, 200 * MSEC),
		    div64_u64(4 * SEC, cfg.read_ns + cfg.xfer_unit_ns), 30);
	/* Writers and collection go on beside readers, and none of them starves. */
	mixed[0] = ssd_reader(1, 16);
	mixed[1] = ssd_writer(4, 16, true);
	mixed[1].nr_pages = 16000;
	ssd_run_loads(test, mixed, 2, 100 * MSEC, SEC);
	KUNIT_EXPECT_GT(test, mixed[0].done, 300);
	KUNIT_EXPECT_GT(test, mixed[1].done, 100);
	/* Every nanosecond that a die was busy is accounted for by what it did. */
	for (i = 0; i < c->m->nr_dies; i++) {
		struct ssdsim_die *d = &c->m->dies[i];

		busy = d->busy_ns;
		KUNIT_EXPECT_GE(test, busy, d->reads * (cfg.read_ns + cfg.xfer_unit_ns) +
				(d->fua_programs + d->gc_steps - d->ftl.erases) * cfg.prog_ns);
		steps += d->gc_steps;
		host += d->ftl.host_units;
		copied += d->ftl.gc_copied;
		victims += d->ftl.gc_victims;
	}
	kunit_info(test, "empty %llu/s, full %llu/s, %llu units copied for %llu written\n",
		   ssd_per_second(&empty, 200 * MSEC), ssd_per_second(&full, 2 * SEC), copied,
		   host);
	kunit_info(test, "%llu victims, %llu steps\n", victims, steps);
}

/* Small writes fill pages with holes; collection squeezes them out. Discard makes victims cheap. */
static void gc_holes_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	u32 i, k;

	cfg.channels = 2;
	cfg.units = 1024;
	cfg.op_pct = 0;
	ssd_start(test, &cfg);
	for (i = 0; i < 6000; i++) {
		k = ssd_draw(c) % 16;
		if (k == 0)
			ssd_alone(test, SSDSIM_DISCARD, false, ssd_draw(c) % 1000, 16);
		else
			ssd_submit(c, i % NR_CMDS, 0, SSDSIM_WRITE, k < 12, ssd_draw(c) % 1000,
				   1 + ssd_draw(c) % 8);
		ssd_run_until(test, SSDSIM_NEVER);
		INIT_LIST_HEAD(&c->m->done);
	}
	audit(test);
	KUNIT_EXPECT_GT(test, erases(c->m), 100);
}

/*
 * A piece ends with a page, here of 3 units; before the next one the drive does what it always
 * does, and collects.
 */
static void fill_pieces_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssdsim_fill fill = { .random = 1 };
	struct ssdsim_ftl *ftl;
	u32 nr = 0;

	cfg.channels = 1;
	cfg.page_units = 3;
	ssd_start(test, &cfg);
	ftl = &c->m->dies[0].ftl;
	fill_die(c, 0, 100);
	KUNIT_EXPECT_EQ(test, ftl->host_units, ftl->nr_units);
	while (ssdsim_model_fill(c->m, 0, 300, &fill)) {
		KUNIT_EXPECT_LE(test, fill.nr_written, ++nr * 2050);
		ssd_submit(c, 0, 0, SSDSIM_WRITE, true, ssd_draw(c) % 16000, 1 + ssd_draw(c) % 8);
		ssd_submit(c, 1, 0, SSDSIM_WRITE, false, ssd_draw(c) % 16000, 1 + ssd_draw(c) % 8);
		ssd_alone(test, SSDSIM_DISCARD, false, ssd_draw(c) % 16000, 16);
		audit(test);
	}
	KUNIT_EXPECT_EQ(test, fill.nr_written, 3 * ftl->nr_units);
	KUNIT_EXPECT_GT(test, nr, 20);
	KUNIT_EXPECT_GT(test, erases(c->m), 0);
	audit(test);
}

/* The largest block that the parameters allow, with all of its 65536 units valid. */
static void largest_block_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);

	cfg.channels = 1;
	cfg.page_units = SSDSIM_MAX_PAGE_UNITS;
	cfg.block_pages = 4096;
	cfg.units = cfg.page_units * cfg.block_pages;
	ssd_start(test, &cfg);
	fill_die(c, 0, 100);
	KUNIT_EXPECT_EQ(test, c->m->dies[0].ftl.valid[c->m->dies[0].ftl.open], cfg.units);
	audit(test);
	fill_die(c, 0, 500);
	KUNIT_EXPECT_GT(test, erases(c->m), 0);
	audit(test);
}

/* ---- power ---- */

static void power_cut_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	struct ssdsim_cmd *cmd;
	u32 i, aborted = 0;

	ssd_start(test, &cfg);
	for (i = 0; i < 200; i++)
		ssd_submit(c, i, i % 4, i % 5 ? (i % 2 ? SSDSIM_READ : SSDSIM_WRITE) : SSDSIM_FLUSH,
			   i % 3 == 0 && i % 5 && !(i % 2), i * 8, i % 5 ? 4 : 0);
	ssd_run_until(test, c->now + 700000);
	ssdsim_model_power_cut(c->m, c->now);
	list_for_each_entry(cmd, &c->m->done, link)
		aborted += cmd->aborted;
	KUNIT_EXPECT_GT(test, aborted, 10);
	KUNIT_EXPECT_EQ(test, c->m->aborted, aborted);
	KUNIT_EXPECT_EQ(test, c->m->submitted, c->m->completed + c->m->aborted);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0);
	INIT_LIST_HEAD(&c->m->done);
	KUNIT_EXPECT_EQ(test, ssdsim_model_next_ns(c->m), SSDSIM_NEVER);
	KUNIT_EXPECT_EQ(test, ssd_alone(test, SSDSIM_READ, false, 0, 1),
			ssd_pipeline_ns(&cfg, 1) + cfg.read_ns + cfg.xfer_unit_ns);
	audit(test);
}

/* ---- random mixes ---- */

static struct ssdsim_cfg random_cfg(struct ssd_world *c)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();

	cfg.units = 256 + ssd_draw(c) % 4096;
	cfg.channels = 1 + ssd_draw(c) % 4;
	cfg.ways = 1 + ssd_draw(c) % 3;
	cfg.page_units = 1 + ssd_draw(c) % 8;
	cfg.block_pages = 2 + ssd_draw(c) % 16;
	cfg.op_pct = ssd_draw(c) % 30;
	cfg.slots = 1 + ssd_draw(c) % 40;
	cfg.cache_units = 1 + ssd_draw(c) % 50;
	cfg.fetch_ns = ssd_draw(c) % 300;
	cfg.queue_service_ns = ssd_draw(c) % 2 * (ssd_draw(c) % 3000);
	cfg.cmd_ns = ssd_draw(c) % 2000;
	cfg.xfer_unit_ns = ssd_draw(c) % 9000;
	cfg.destage_ns = ssd_draw(c) % 2000000;
	cfg.discard_ns = ssd_draw(c) % 500000;
	cfg.discard_mib_ns = ssd_draw(c) % 50000000;
	return cfg;
}

static void random_cmd(struct ssd_world *c, u32 slot)
{
	u32 n = 1 + ssd_draw(c) % 24, k = ssd_draw(c) % 32, unit;

	n = min_t(u32, n, c->m->cfg.units);
	unit = ssd_draw(c) % (c->m->cfg.units - n + 1);
	if (k == 0)
		ssd_submit(c, slot, ssd_draw(c) % 64, SSDSIM_FLUSH, false, 0, 0);
	else if (k == 1)
		ssd_submit(c, slot, ssd_draw(c) % 64, SSDSIM_DISCARD, false, unit, n);
	else if (k < 12)
		ssd_submit(c, slot, ssd_draw(c) % 64, SSDSIM_WRITE, false, unit, n);
	else if (k < 18)
		ssd_submit(c, slot, ssd_draw(c) % 64, SSDSIM_WRITE, true, unit, n);
	else
		ssd_submit(c, slot, ssd_draw(c) % 64, SSDSIM_READ, false, unit, n);
}

/*
 * One random run of 600 commands at random times. @steps: besides, let time pass in small pieces.
 * Return: a hash of all completion times. A command must be reported when it is done, not later:
 * ssdsim_model_next_ns() promises that.
 */
static u64 random_run(struct kunit *test, u64 seed, bool steps)
{
	struct ssd_world *c = context(test);
	struct ssdsim_cfg cfg;
	u64 hash = 0, at = 12345, stop, dice;
	u32 i;

	c->random = seed;
	cfg = random_cfg(c);
	ssd_start(test, &cfg);
	dice = seed;
	for (i = 0; i < 600; i++) {
		dice = ssdsim_mix(dice);
		at += dice % (i % 100 < 50 ? 100 : 300000);
		stop = at;
		while (ssdsim_model_next_ns(c->m) <= stop || c->now < stop) {
			struct ssdsim_cmd *cmd;

			c->now = min(stop, ssdsim_model_next_ns(c->m));
			if (steps && c->now > c->m->now_ns + 777)
				c->now = c->m->now_ns + 777;
			ssdsim_model_run(c->m, c->now);
			list_for_each_entry(cmd, &c->m->done, link)
				KUNIT_ASSERT_EQ(test, cmd->done_ns, c->now);
			INIT_LIST_HEAD(&c->m->done);
			if (c->now >= stop)
				break;
		}
		random_cmd(c, i);
	}
	ssd_run_until(test, SSDSIM_NEVER);
	for (i = 0; i < 600; i++) {
		KUNIT_ASSERT_GT(test, ssd_cmd(c, i)->cmd.done_ns, 0);
		hash = ssdsim_mix(hash ^ ssd_cmd(c, i)->cmd.done_ns);
	}
	ssd_run_until(test, c->now + 100 * MSEC);
	KUNIT_EXPECT_EQ(test, c->m->submitted, 600);
	KUNIT_EXPECT_EQ(test, c->m->completed, 600);
	KUNIT_EXPECT_EQ(test, c->m->slots_used, 0);
	KUNIT_EXPECT_EQ(test, c->m->nr_prompt, 0);
	KUNIT_EXPECT_EQ(test, c->m->open_count, 0);
	KUNIT_EXPECT_EQ(test, c->m->nr_cached, 0);
	audit(test);
	for (i = 0; i < c->m->nr_dies; i++)
		KUNIT_EXPECT_LE(test, c->m->dies[i].busy_ns, c->now);
	INIT_LIST_HEAD(&c->m->done);
	return hash;
}

static void conservation_test(struct kunit *test)
{
	u64 seed;

	for (seed = 1; seed <= 150; seed++)
		random_run(test, seed, false);
}

static void lazy_test(struct kunit *test)
{
	u64 seed;

	for (seed = 1; seed <= 10; seed++)
		KUNIT_EXPECT_TRUE(test,
				  random_run(test, seed, false) == random_run(test, seed, true));
}

/*
 * The twin: one hardware queue, one die per channel, no cached writes, single-page commands. Then
 * each station is a time at which it is free, and a command's times are maxima and sums.
 */
static void twin_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();
	struct ssd_world *c = context(test);
	u64 fetch_free = 0, pipe_free = 0, die_free[4] = {}, t, die_ns;
	u32 i, units, page;
	bool fua;

	cfg.op_pct = 400;
	ssd_start(test, &cfg);
	for (i = 0; i < NR_CMDS; i++) {
		ssd_run_until(test, c->now + ssd_draw(c) % (i % 64 < 32 ? 1000 : 60000));
		page = ssd_draw(c) % 4000;
		units = 1 + ssd_draw(c) % 4;
		fua = ssd_draw(c) % 8 == 0;
		ssd_submit(c, i, 0, fua ? SSDSIM_WRITE : SSDSIM_READ, fua, page * 4, units);
		fetch_free = max(fetch_free, c->now) + cfg.fetch_ns;
		pipe_free = max(pipe_free, fetch_free) + cfg.cmd_ns + units * cfg.dma_unit_ns;
		die_ns = (fua ? cfg.prog_ns : cfg.read_ns) + (u64)units * cfg.xfer_unit_ns;
		t = max(die_free[page % 4], pipe_free) + die_ns;
		die_free[page % 4] = t;
		/* Kept where the model does not look. */
		ssd_cmd(c, i)->cmd.group = t;
	}
	ssd_run_until(test, SSDSIM_NEVER);
	for (i = 0; i < NR_CMDS; i++)
		KUNIT_EXPECT_EQ_MSG(test, ssd_cmd(c, i)->cmd.done_ns, ssd_cmd(c, i)->cmd.group,
				    "command %u", i);
}

static void config_test(struct kunit *test)
{
	struct ssdsim_cfg cfg = ssd_base_cfg();

	KUNIT_EXPECT_TRUE(test, !ssdsim_cfg_check(&cfg));
	cfg.channels = 0;
	KUNIT_EXPECT_STREQ(test, ssdsim_cfg_check(&cfg), "channels");
	cfg.channels = 32;
	cfg.ways = 4;
	KUNIT_EXPECT_STREQ(test, ssdsim_cfg_check(&cfg), "ways");
	cfg = ssd_base_cfg();
	cfg.page_units = 17;
	KUNIT_EXPECT_STREQ(test, ssdsim_cfg_check(&cfg), "page_kb");
	cfg = ssd_base_cfg();
	cfg.slots = 0;
	KUNIT_EXPECT_STREQ(test, ssdsim_cfg_check(&cfg), "slots");
	cfg = ssd_base_cfg();
	cfg.cache_units = 0;
	KUNIT_EXPECT_STREQ(test, ssdsim_cfg_check(&cfg), "cache_kb");
}

static struct kunit_case ssdsim_model_cases[] = {
	KUNIT_CASE_PARAM(depth1_test, profile_gen_params),
	KUNIT_CASE_PARAM(rates_test, profile_gen_params),
	KUNIT_CASE_PARAM(newer_rates_test, profile_gen_params),
	KUNIT_CASE(queue_service_test),
	KUNIT_CASE_PARAM(saturation_test, saturation_gen_params),
	KUNIT_CASE(cached_saturation_test),
	KUNIT_CASE_PARAM(share_test, share_gen_params),
	KUNIT_CASE(behind_program_test),
	KUNIT_CASE(arrival_order_test),
	KUNIT_CASE(cache_full_test),
	KUNIT_CASE(cache_hit_test),
	KUNIT_CASE(flush_drains_test),
	KUNIT_CASE(rewrite_test),
	KUNIT_CASE(gc_start_test),
	KUNIT_CASE(gc_cost_test),
	KUNIT_CASE(gc_holes_test),
	KUNIT_CASE(fill_pieces_test),
	KUNIT_CASE(largest_block_test),
	KUNIT_CASE(power_cut_test),
	KUNIT_CASE(conservation_test),
	KUNIT_CASE(lazy_test),
	KUNIT_CASE(twin_test),
	KUNIT_CASE(config_test),
	{}
};

static struct kunit_suite ssdsim_model_suite = {
	.name = "ssdsim_model",
	.init = ssd_world_make,
	.exit = ssd_world_free,
	.test_cases = ssdsim_model_cases,
};

kunit_test_suite(ssdsim_model_suite);
