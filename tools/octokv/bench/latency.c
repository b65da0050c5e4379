// SPDX-License-Identifier: GPL-2.0
/*
 * latency.c - a histogram of times: 64 steps per power of two, hence to 1.6%
 */
#include <math.h>

#include "bench.h"

static uint32_t bucket_of(uint64_t ns)
{
	int top = ns ? 63 - __builtin_clzll(ns) : 0;

	if (top <= SUB_BITS)
		return ns;
	return ((top - SUB_BITS) << SUB_BITS) + (ns >> (top - SUB_BITS));
}

static uint64_t bucket_ns(uint32_t bucket)
{
	uint32_t group = bucket >> SUB_BITS;

	if (group < 2)
		return bucket;
	return ((uint64_t)(bucket & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << (group - 1);
}

void note_time(struct histogram *h, uint64_t ns)
{
	h->buckets[bucket_of(ns)]++;
	h->nr++;
	h->sum_ns += ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

double percentile_us(const struct histogram *h, double share)
{
	uint64_t wanted = ceil(h->nr * share), sum = 0;

	for (uint32_t i = 0; i < NR_BUCKETS; i++) {
		sum += h->buckets[i];
		if (sum >= wanted && sum)
			return bucket_ns(i) / 1e3;
	}
	return 0;
}

void merge_times(struct histogram *to, const struct histogram *from)
{
	for (uint32_t i = 0; i < NR_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->nr += from->nr;
	to->sum_ns += from->sum_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}
