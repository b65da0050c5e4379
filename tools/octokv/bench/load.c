// SPDX-License-Identifier: GPL-2.0
/*
 * load.c - which request comes next, on which key, and when
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

static const struct mix mixes[] = {
	{ "fillrandom", 0, 100, 0, 0, 0, UNIFORM },
	{ "readrandom", 100, 0, 0, 0, 0, UNIFORM },
	{ "ycsb-a", 50, 50, 0, 0, 0, ZIPFIAN },
	{ "ycsb-b", 95, 5, 0, 0, 0, ZIPFIAN },
	{ "ycsb-c", 100, 0, 0, 0, 0, ZIPFIAN },
	{ "ycsb-d", 95, 0, 5, 0, 0, LATEST },
	{ "ycsb-e", 0, 0, 5, 95, 0, ZIPFIAN },
	{ "ycsb-f", 50, 0, 0, 0, 50, ZIPFIAN },
};

const struct mix *mix_find(const char *name)
{
	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
		if (!strcmp(name, mixes[i].name))
			return &mixes[i];
	return NULL;
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

void die(const char *what, const char *why)
{
	fprintf(stderr, "octokv-bench: %s: %s\n", what, why);
	exit(1);
}

/* ---- which request, which key ---- */

uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static double next_real(uint64_t *state)
{
	return (next_random(state) >> 11) * 0x1p-53;
}

void zipf_init(struct zipf *z, uint64_t n)
{
	double zeta_2 = 1 + pow(0.5, 0.99);

	*z = (struct zipf){ .theta = 0.99, .n = n, .alpha = 1 / (1 - 0.99) };
	for (uint64_t i = 1; i <= n; i++)
		z->zeta_n += pow(1.0 / i, z->theta);
	z->eta = (1 - pow(2.0 / n, 1 - z->theta)) / (1 - zeta_2 / z->zeta_n);
}

/* Rank 0 is the most likely. */
static uint64_t zipf_next(const struct zipf *z, uint64_t *random)
{
	double u = next_real(random), uz = u * z->zeta_n;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, z->theta))
		return 1;
	rank = z->n * pow(z->eta * u - z->eta + 1, z->alpha);
	return rank < z->n ? rank : z->n - 1;
}

static uint64_t scramble(uint64_t value)
{
	return next_random(&value);
}

uint64_t pick_key(struct bench *b)
{
	switch (b->o.mix->pick) {
	case ZIPFIAN:
		return scramble(zipf_next(&b->zipf, &b->random)) % b->o.nr_records;
	case LATEST: {
		uint64_t back = zipf_next(&b->zipf, &b->random);

		/* Skip records whose insertion is still under way. */
		back += (uint64_t)b->o.nr_clients * b->o.nr_pipelined;
		return b->nr_inserted - 1 - back % b->nr_inserted;
	}
	case UNIFORM:
		break;
	}
	return next_random(&b->random) % b->o.nr_records;
}

enum kind pick_kind(struct bench *b)
{
	const struct mix *m = b->o.mix;
	int die = next_random(&b->random) % 100;

	if ((die -= m->read_pct) < 0)
		return KIND_GET;
	if ((die -= m->update_pct) < 0 || (die -= m->insert_pct) < 0)
		return KIND_SET;
	if ((die -= m->scan_pct) < 0)
		return KIND_SCAN;
	return KIND_RMW_GET;
}

/* ---- when ---- */

bool may_begin(const struct bench *b, uint64_t now)
{
	if (b->o.nr_requests && b->nr_begun >= b->o.nr_requests)
		return false;
	return !b->o.seconds || now < b->begun_ns + b->o.seconds * 1e9;
}

/* When the next request is due in an open loop. */
uint64_t due_ns(const struct bench *b)
{
	return b->begun_ns + b->nr_begun / b->o.rate * 1e9;
}
