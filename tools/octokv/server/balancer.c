// SPDX-License-Identifier: GPL-2.0
/*
 * balancer.c - the arithmetic that balancer.h describes
 */
#include <string.h>

#include "balancer.h"

static uint64_t average(uint32_t nr, const uint32_t *values)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += values[i];
	return sum / nr;
}

static bool is_needed(const struct balancer_config *config, uint32_t nr, const uint32_t *busy_ppm)
{
	uint32_t most = 0, least = UINT32_MAX;

	for (uint32_t i = 0; i < nr; i++) {
		most = busy_ppm[i] > most ? busy_ppm[i] : most;
		least = busy_ppm[i] < least ? busy_ppm[i] : least;
	}
	return config->how != BALANCE_OFF && nr > 1 && most > config->overload_pct * (PPM / 100) &&
	       most - least > config->gap_pct * (PPM / 100);
}

bool balancer_decide(const struct balancer_config *config, uint32_t nr, const uint32_t *busy_ppm,
		     const uint32_t *storage_ppm, struct balancer_plan *plans)
{
	uint64_t threshold = average(nr, busy_ppm), room = 0, above = 0;
	bool any = false, by_room = config->how != BALANCE_RR;

	memset(plans, 0, nr * sizeof(*plans));
	if (!is_needed(config, nr, busy_ppm))
		return false;
	for (uint32_t i = 0; i < nr; i++) {
		if (busy_ppm[i] > threshold)
			above += busy_ppm[i] - threshold;
		else
			room += threshold - busy_ppm[i];
	}
	for (uint32_t i = 0; i < nr && room; i++) {
		uint64_t movable, mine;

		if (busy_ppm[i] <= threshold)
			continue;
		movable = (uint64_t)busy_ppm[i] * storage_ppm[i] / PPM;
		mine = room * (busy_ppm[i] - threshold) / above;
		if (!movable)
			continue;
		plans[i].share_ppm = mine >= movable ? PPM : mine * PPM / movable;
		for (uint32_t j = 0; j < nr; j++)
			if (busy_ppm[j] < threshold)
				plans[i].to[j] = by_room ? threshold - busy_ppm[j] : 1;
		any |= plans[i].share_ppm;
	}
	return any;
}

/* The low reactor that is furthest below its share of the @given events so far. */
static int most_lacking(const struct balancer_plan *plan, const uint64_t *given, uint64_t given_sum)
{
	uint64_t weight_sum = 0;
	int64_t most = INT64_MIN;
	int found = -1;

	for (uint32_t i = 0; i < BALANCER_MAX_REACTORS; i++)
		weight_sum += plan->to[i];
	for (uint32_t i = 0; i < BALANCER_MAX_REACTORS; i++) {
		int64_t lacks;

		if (!plan->to[i])
			continue;
		lacks = (int64_t)((given_sum + 1) * plan->to[i] * 16 / weight_sum) -
			(int64_t)given[i] * 16;
		if (lacks > most) {
			most = lacks;
			found = i;
		}
	}
	return found;
}

uint32_t balancer_choose(const struct balancer_plan *plan, uint32_t nr, const uint64_t *events,
			 int *to)
{
	uint64_t given[BALANCER_MAX_REACTORS] = { 0 }, given_sum = 0, sum = 0, left;
	uint32_t nr_going = 0;

	for (uint32_t i = 0; i < nr; i++) {
		sum += events[i];
		to[i] = -1;
	}
	left = sum / PPM * plan->share_ppm + sum % PPM * plan->share_ppm / PPM;
	while (true) {
		int best = -1, receiver;

		for (uint32_t i = 0; i < nr; i++)
			if (to[i] < 0 && events[i] && events[i] <= left &&
			    (best < 0 || events[i] > events[best]))
				best = i;
		receiver = best < 0 ? -1 : most_lacking(plan, given, given_sum + events[best]);
		if (receiver < 0)
			return nr_going;
		to[best] = receiver;
		given[receiver] += events[best];
		given_sum += events[best];
		left -= events[best];
		nr_going++;
	}
}
