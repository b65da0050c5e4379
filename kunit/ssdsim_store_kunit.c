// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_store_kunit.c - what ssdsim holds and what survives a power cut, against a naive twin
 *
 * The twin keeps for each 512-byte sector what is durable and a list of everything written since,
 * with the epoch of each write. From that and the coin, whose result is a function of seed, sector
 * and epoch, it predicts every sector after a power cut. The store must agree sector by sector,
 * over many seeds and cuts, with several flushes and FUA writes under way.
 */
#include <kunit/test.h>
#include <linux/minmax.h>

#include "../tools/ssdsim/ssdsim_store.c"

#define NR_UNITS	20
#define NR_SECTORS	(NR_UNITS * SSDSIM_UNIT_SECTORS)
#define NR_WRITES	(STEPS_PER_CUT + 1)	/* of different epochs between two cuts */
#define STEPS_PER_CUT	50
#define NR_UNDERWAY	3

/* Content is named by a number; 0 is zeroes. */
struct sector {
	u32 durable;
	u32 nr;
	struct {
		u64 epoch;
		u32 id;
	} writes[NR_WRITES];
};

struct fua {
	u64 sector;
	u32 n;
	u32 id;
	bool zero;
};

struct context {
	struct ssdsim_store st;
	struct sector sectors[NR_SECTORS];
	struct fua fuas[NR_UNDERWAY];
	u64 flushes[NR_UNDERWAY];
	u32 nr_fuas, nr_flushes;
	u64 epoch, durable;
	u32 last_id;
	u64 random;
	u32 fail_every;
	/* seen over all cuts */
	u64 kept_new, kept_old, torn_units;
	u8 buf[SSDSIM_UNIT_BYTES];
	u8 want[SSDSIM_SECTOR_BYTES];
};

static struct context *context(struct kunit *test)
{
	return test->priv;
}

static u64 draw(struct context *c)
{
	c->random = ssdsim_mix(c->random);
	return c->random >> 11;
}

static void content(u8 *to, u64 sector, u32 id)
{
	u64 word = id ? ssdsim_mix(sector << 32 | id) : 0;
	u32 i;

	for (i = 0; i < SSDSIM_SECTOR_BYTES; i += sizeof(word))
		memcpy(to + i, &word, sizeof(word));
}

static void contents(struct context *c, u64 sector, u32 n, u32 id)
{
	u32 i;

	for (i = 0; i < n; i++)
		content(c->buf + i * SSDSIM_SECTOR_BYTES, sector + i, id);
}

/* ---- twin ---- */

static u32 twin_latest(const struct sector *s)
{
	return s->nr ? s->writes[s->nr - 1].id : s->durable;
}

static void twin_write(struct context *c, u64 sector, u32 n, u32 id)
{
	for (; n--; sector++) {
		struct sector *s = &c->sectors[sector];

		if (!s->nr || s->writes[s->nr - 1].epoch != c->epoch)
			s->writes[s->nr++].epoch = c->epoch;
		s->writes[s->nr - 1].id = id;
	}
}

static void twin_durable(struct context *c, u64 sector, u32 n, u32 id)
{
	for (; n--; sector++) {
		c->sectors[sector].durable = id;
		c->sectors[sector].nr = 0;
	}
}

static void twin_flush_end(struct context *c, u64 epoch)
{
	struct sector *s;
	u32 gone;

	for (s = c->sectors; s < c->sectors + NR_SECTORS; s++) {
		for (gone = 0; gone < s->nr && s->writes[gone].epoch <= epoch; gone++)
			s->durable = s->writes[gone].id;
		s->nr -= gone;
		memmove(s->writes, s->writes + gone, s->nr * sizeof(s->writes[0]));
	}
}

static void twin_cut(struct context *c, u64 seed)
{
	u64 sector;
	u32 i, latest, lost = 0, kept = 0;

	for (sector = 0; sector < NR_SECTORS; sector++) {
		struct sector *s = &c->sectors[sector];

		if (sector % SSDSIM_UNIT_SECTORS == 0) {
			c->torn_units += lost && kept;
			lost = 0;
			kept = 0;
		}
		latest = twin_latest(s);
		if (!s->nr)
			continue;
		for (i = 0; i < s->nr; i++)
			if (ssdsim_store_coin(seed, sector, s->writes[i].epoch))
				s->durable = s->writes[i].id;
		if (s->durable == latest)
			kept++;
		else
			lost++;
		c->kept_new += s->durable == latest;
		c->kept_old += s->durable != latest;
		s->nr = 0;
	}
}

static void compare(struct kunit *test, const char *when)
{
	struct context *c = context(test);
	u64 sector;

	for (sector = 0; sector < NR_SECTORS; sector++) {
		content(c->want, sector, twin_latest(&c->sectors[sector]));
		ssdsim_store_read(&c->st, sector, 1, c->buf);
		KUNIT_ASSERT_TRUE_MSG(test, !memcmp(c->buf, c->want, SSDSIM_SECTOR_BYTES),
				      "%s: sector %llu", when, sector);
	}
}

/* Every @nth allocation fails; only user space can do that. */
static void scarce_memory(u32 nth)
{
#ifndef __KERNEL__
	hosted_fail_every = nth;
#endif
}

/* ---- operations on both ---- */

static void some_range(struct context *c, u64 *sector, u32 *n)
{
	u32 first = draw(c) % SSDSIM_UNIT_SECTORS;

	*n = 1 + draw(c) % (SSDSIM_UNIT_SECTORS - first);
	if (draw(c) % 3 == 0) {
		first = 0;
		*n = SSDSIM_UNIT_SECTORS;
	}
	*sector = draw(c) % NR_UNITS * SSDSIM_UNIT_SECTORS + first;
}

static void do_write(struct context *c)
{
	u64 sector;
	u32 n;

	some_range(c, &sector, &n);
	contents(c, sector, n, ++c->last_id);
	if (!ssdsim_store_write(&c->st, sector, n, c->buf))
		twin_write(c, sector, n, c->last_id);
}

static void do_zero(struct context *c)
{
	u64 sector;
	u32 n;

	some_range(c, &sector, &n);
	if (!ssdsim_store_zero(&c->st, sector, n))
		twin_write(c, sector, n, 0);
}

static void do_fua(struct context *c)
{
	struct fua *f;
	u32 i;

	if (c->nr_fuas < NR_UNDERWAY && draw(c) % 2) {
		f = &c->fuas[c->nr_fuas];
		some_range(c, &f->sector, &f->n);
		f->id = ++c->last_id;
		if (!ssdsim_store_fua_prepare(&c->st, f->sector))
			c->nr_fuas++;
	} else if (c->nr_fuas) {
		i = draw(c) % c->nr_fuas;
		f = &c->fuas[i];
		contents(c, f->sector, f->n, f->id);
		if (!ssdsim_store_fua_commit(&c->st, f->sector, f->n, c->buf))
			twin_durable(c, f->sector, f->n, f->id);
		*f = c->fuas[--c->nr_fuas];
	}
}

static void do_flush(struct context *c)
{
	u32 i;

	if (c->nr_flushes < NR_UNDERWAY && draw(c) % 2) {
		c->flushes[c->nr_flushes++] = ssdsim_store_flush_begin(&c->st);
		c->epoch++;
	} else if (c->nr_flushes) {
		i = draw(c) % c->nr_flushes;
		ssdsim_store_flush_end(&c->st, c->flushes[i]);
		twin_flush_end(c, c->flushes[i]);
		c->flushes[i] = c->flushes[--c->nr_flushes];
	}
}

static void do_cut(struct context *c)
{
	u64 seed = draw(c);
	u32 i, k;

	/*
	 * Without memory, a sector that the coin favours would stay as it was: right, but not
	 * foretold.
	 */
	scarce_memory(0);
	for (i = 0; i < c->nr_fuas; i++) {
		struct fua *f = &c->fuas[i];

		contents(c, f->sector, f->n, f->id);
		ssdsim_store_fua_tear(&c->st, f->sector, f->n, c->buf, seed);
		for (k = 0; k < f->n; k++)
			if (ssdsim_store_coin(seed, f->sector + k, 0))
				twin_durable(c, f->sector + k, 1, f->id);
	}
	ssdsim_store_power_cut(&c->st, seed);
	twin_cut(c, seed);
	c->epoch++;
	c->nr_fuas = 0;
	c->nr_flushes = 0;
	scarce_memory(c->fail_every);
}

static void start(struct kunit *test, u64 seed)
{
	struct context *c = context(test);

	if (c->st.leaves)
		ssdsim_store_exit(&c->st);
	memset(c->sectors, 0, sizeof(c->sectors));
	KUNIT_ASSERT_EQ(test, ssdsim_store_init(&c->st, NR_UNITS), 0);
	c->epoch = 1;
	c->nr_fuas = 0;
	c->nr_flushes = 0;
	c->random = seed;
}

static void random_steps(struct kunit *test, u64 seed, u32 steps)
{
	struct context *c = context(test);
	u32 i, k;

	start(test, seed);
	for (i = 0; i < steps; i++) {
		k = draw(c) % 100;
		if (k < 55)
			do_write(c);
		else if (k < 65)
			do_zero(c);
		else if (k < 82)
			do_fua(c);
		else if (k < 95)
			do_flush(c);
		else if (k < 98)
			compare(test, "reading back");
		else
			do_cut(c);
		if (i % STEPS_PER_CUT == STEPS_PER_CUT - 1)
			do_cut(c);
		if (k >= 98 || i % STEPS_PER_CUT == STEPS_PER_CUT - 1)
			compare(test, "after a power cut");
	}
}

static void twin_test(struct kunit *test)
{
	struct context *c = context(test);
	u64 seed;

	for (seed = 1; seed <= 120; seed++)
		random_steps(test, seed, 600);
	kunit_info(test, "%llu sectors kept what was not flushed, %llu lost it, %llu units torn\n",
		   c->kept_new, c->kept_old, c->torn_units);
	/* Even chance, and torn within units. */
	KUNIT_EXPECT_GT(test, c->kept_new * 10, (c->kept_new + c->kept_old) * 4);
	KUNIT_EXPECT_GT(test, c->kept_old * 10, (c->kept_new + c->kept_old) * 4);
	KUNIT_EXPECT_GT(test, c->torn_units, 1000);
}

/* ---- one claim at a time ---- */

static void write_all(struct kunit *test, u32 id)
{
	struct context *c = context(test);
	u32 unit;

	for (unit = 0; unit < NR_UNITS; unit++) {
		contents(c, unit * SSDSIM_UNIT_SECTORS, SSDSIM_UNIT_SECTORS, id);
		KUNIT_ASSERT_EQ(test,
				ssdsim_store_write(&c->st, unit * SSDSIM_UNIT_SECTORS,
						   SSDSIM_UNIT_SECTORS, c->buf),
				0);
	}
}

static u32 count(struct kunit *test, u32 id)
{
	struct context *c = context(test);
	u32 sector, n = 0;

	for (sector = 0; sector < NR_SECTORS; sector++) {
		content(c->want, sector, id);
		ssdsim_store_read(&c->st, sector, 1, c->buf);
		n += !memcmp(c->buf, c->want, SSDSIM_SECTOR_BYTES);
	}
	return n;
}

static void flushed_test(struct kunit *test)
{
	struct context *c = context(test);
	u32 lost;

	start(test, 1);
	write_all(test, 1);
	ssdsim_store_flush_end(&c->st, ssdsim_store_flush_begin(&c->st));
	ssdsim_store_power_cut(&c->st, 1);
	KUNIT_EXPECT_EQ(test, count(test, 1), NR_SECTORS);
	write_all(test, 2);
	ssdsim_store_power_cut(&c->st, 2);
	lost = count(test, 1);
	KUNIT_EXPECT_EQ(test, lost + count(test, 2), NR_SECTORS);
	KUNIT_EXPECT_GT(test, lost, NR_SECTORS / 4);
	KUNIT_EXPECT_LT(test, lost, NR_SECTORS * 3 / 4);
	KUNIT_EXPECT_EQ(test, c->st.torn, lost);
}

/* A flush keeps what was written before it was submitted, not what came while it was under way. */
static void flush_scope_test(struct kunit *test)
{
	struct context *c = context(test);
	u64 flush;
	u32 lost;

	start(test, 1);
	write_all(test, 1);
	flush = ssdsim_store_flush_begin(&c->st);
	write_all(test, 2);
	ssdsim_store_flush_end(&c->st, flush);
	KUNIT_EXPECT_EQ(test, count(test, 2), NR_SECTORS);
	ssdsim_store_power_cut(&c->st, 3);
	lost = count(test, 1);
	KUNIT_EXPECT_EQ(test, lost + count(test, 2), NR_SECTORS);
	KUNIT_EXPECT_GT(test, lost, NR_SECTORS / 4);

	/* And one that never completed keeps nothing. */
	start(test, 1);
	write_all(test, 1);
	ssdsim_store_flush_begin(&c->st);
	ssdsim_store_power_cut(&c->st, 3);
	KUNIT_EXPECT_GT(test, count(test, 0), NR_SECTORS / 4);
}

static void fua_test(struct kunit *test)
{
	struct context *c = context(test);

	start(test, 1);
	write_all(test, 1);
	KUNIT_ASSERT_EQ(test, ssdsim_store_fua_prepare(&c->st, 3), 0);
	KUNIT_EXPECT_EQ(test, count(test, 7), 0);
	contents(c, 3, 2, 7);
	KUNIT_ASSERT_EQ(test, ssdsim_store_fua_commit(&c->st, 3, 2, c->buf), 0);
	KUNIT_EXPECT_EQ(test, count(test, 7), 2);
	ssdsim_store_power_cut(&c->st, 5);
	KUNIT_EXPECT_EQ(test, count(test, 7), 2);
	KUNIT_EXPECT_LT(test, count(test, 1), NR_SECTORS * 3 / 4);
}

static void memory_test(struct kunit *test)
{
	struct context *c = context(test);
	u32 round, unit;

	start(test, 1);
	for (round = 1; round < 20; round++) {
		write_all(test, round);
		KUNIT_EXPECT_LE(test, c->st.nr_pages, 2 * NR_UNITS);
		ssdsim_store_flush_end(&c->st, ssdsim_store_flush_begin(&c->st));
	}
	/* Without flushes a rewrite takes no more. */
	for (; round < 40; round++)
		write_all(test, round);
	KUNIT_EXPECT_LE(test, c->st.nr_pages, 2 * NR_UNITS);
	for (unit = 0; unit < NR_UNITS; unit++)
		ssdsim_store_zero(&c->st, unit * SSDSIM_UNIT_SECTORS, SSDSIM_UNIT_SECTORS);
	ssdsim_store_flush_end(&c->st, ssdsim_store_flush_begin(&c->st));
	KUNIT_EXPECT_EQ(test, count(test, 0), NR_SECTORS);
	ssdsim_store_power_cut(&c->st, 1);
	KUNIT_EXPECT_EQ(test, c->st.nr_pages, 0);
	KUNIT_EXPECT_EQ(test, c->st.nr_vers, 0);
}

/* Without memory an operation fails and changes nothing. */
#ifndef __KERNEL__
static void no_memory_test(struct kunit *test)
{
	u64 seed;

	for (seed = 1; seed <= 60; seed++) {
		context(test)->fail_every = 2 + seed % 7;
		scarce_memory(context(test)->fail_every);
		random_steps(test, seed, 400);
	}
	scarce_memory(0);
}
#endif

static int ssdsim_store_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct context), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void ssdsim_store_test_exit(struct kunit *test)
{
	struct context *c = context(test);

	if (!c || !c->st.leaves)
		return;
	ssdsim_store_exit(&c->st);
	KUNIT_EXPECT_EQ(test, c->st.nr_pages, 0);
}

static struct kunit_case ssdsim_store_cases[] = {
	KUNIT_CASE(flushed_test),
	KUNIT_CASE(flush_scope_test),
	KUNIT_CASE(fua_test),
	KUNIT_CASE(memory_test),
	KUNIT_CASE_SLOW(twin_test),
#ifndef __KERNEL__
	KUNIT_CASE(no_memory_test),
#endif
	{}
};

static struct kunit_suite ssdsim_store_suite = {
	.name = "ssdsim_store",
	.init = ssdsim_store_test_init,
	.exit = ssdsim_store_test_exit,
	.test_cases = ssdsim_store_cases,
};

kunit_test_suite(ssdsim_store_suite);
