// SPDX-License-Identifier: GPL-2.0
/*
 * balancer.c - the balancer's arithmetic: examples of the OctoKV paper, invariants over random
 * loads
 */
#include "server/balancer.h"
#include "test/test.h"

static const struct balancer_config ps = { .how = BALANCE_PS, .overload_pct = 40, .gap_pct = 10 };
static const struct balancer_config rr = { .how = BALANCE_RR, .overload_pct = 40, .gap_pct = 10 };

static void test_conditions(void)
{
	uint32_t storage[3] = { 200000, 200000, 200000 };
	struct balancer_plan plans[3];

	/* No reactor is above T_OL; all are, but alike; one of two conditions is not enough. */
	EXPECT(!balancer_decide(&ps, 3, (uint32_t[]){ 390000, 100000, 0 }, storage, plans));
	EXPECT(!balancer_decide(&ps, 3, (uint32_t[]){ 900000, 850000, 820000 }, storage, plans));
	EXPECT(balancer_decide(&ps, 3, (uint32_t[]){ 900000, 850000, 200000 }, storage, plans));
	EXPECT(!balancer_decide(&(struct balancer_config){ .how = BALANCE_OFF }, 3,
				(uint32_t[]){ 900000, 0, 0 }, storage, plans));
	EXPECT(!balancer_decide(&ps, 1, (uint32_t[]){ 900000 }, storage, plans));
}

static void test_ratio(void)
{
	struct balancer_plan plans[3];

	/* Room for all that can move: T = 0.5, 0.1 + 0.9 * 0.2 is below it. */
	EXPECT(balancer_decide(&ps, 2, (uint32_t[]){ 900000, 100000 }, (uint32_t[]){ 200000, 0 },
			       plans));
	EXPECT(plans[0].share_ppm == PPM && plans[0].to[1] && !plans[0].to[0] &&
	       !plans[1].share_ppm);
	/* Not room for all: R = (0.5 - 0.1) / (0.9 * 0.8) = 0.5555. */
	EXPECT(balancer_decide(&ps, 2, (uint32_t[]){ 900000, 100000 }, (uint32_t[]){ 800000, 0 },
			       plans));
	EXPECT(plans[0].share_ppm == 555555);
	/* Nothing can move. */
	EXPECT(!balancer_decide(&ps, 2, (uint32_t[]){ 900000, 100000 }, (uint32_t[]){ 0, 0 },
				plans));
}

/* The example of the paper: U_avg 0.4, cores at 0.2 and 0.3: 2 to 1; in turn: 1 to 1. */
static void test_heuristics(void)
{
	uint32_t busy[3] = { 700000, 200000, 300000 }, storage[3] = { 900000, 900000, 900000 };
	struct balancer_plan plans[3];
	uint64_t events[12];
	int to[12], nr[3];

	for (int i = 0; i < 12; i++)
		events[i] = 100;
	EXPECT(balancer_decide(&ps, 3, busy, storage, plans));
	EXPECT(plans[0].to[1] == 2 * plans[0].to[2]);
	plans[0].share_ppm = PPM;
	EXPECT(balancer_choose(&plans[0], 12, events, to) == 12);
	memset(nr, 0, sizeof(nr));
	for (int i = 0; i < 12; i++)
		nr[to[i]]++;
	EXPECT(nr[1] == 8 && nr[2] == 4);
	EXPECT(balancer_decide(&rr, 3, busy, storage, plans));
	plans[0].share_ppm = PPM / 2;
	EXPECT(balancer_choose(&plans[0], 12, events, to) == 6);
	memset(nr, 0, sizeof(nr));
	for (int i = 0; i < 12; i++)
		if (to[i] >= 0)
			nr[to[i]]++;
	EXPECT(nr[1] == 3 && nr[2] == 3);
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (*state >> 33) % limit;
}

/*
 * Never more than the share moves, never a partition without events, and only to reactors below the
 * average. By the estimate, the low reactors stay below the average.
 */
static void test_random(void)
{
	uint64_t state = 1;

	for (int round = 0; round < 20000; round++) {
		uint32_t nr = 2 + random_below(&state, 15), busy[16], storage[16];
		uint64_t events[64], sum = 0, going = 0, average = 0;
		struct balancer_plan plans[16];
		int to[64];

		for (uint32_t i = 0; i < nr; i++) {
			average += busy[i] = random_below(&state, PPM);
			storage[i] = random_below(&state, PPM);
		}
		average /= nr;
		if (!balancer_decide(round % 2 ? &ps : &rr, nr, busy, storage, plans))
			continue;
		for (int i = 0; i < 64; i++)
			sum += events[i] = random_below(&state, 5) ? random_below(&state, 10000)
								   : 0;
		for (uint32_t i = 0; i < nr; i++) {
			if (busy[i] <= average)
				EXPECT(!plans[i].share_ppm);
			going = 0;
			balancer_choose(&plans[i], 64, events, to);
			for (int p = 0; p < 64; p++) {
				EXPECT(to[p] < (int)nr &&
				       (to[p] < 0 || (events[p] && busy[to[p]] < average)));
				going += to[p] >= 0 ? events[p] : 0;
			}
			EXPECT(going <= sum * plans[i].share_ppm / PPM + 1);
		}
	}
}

int main(void)
{
	test_conditions();
	test_ratio();
	test_heuristics();
	test_random();
	printf("ok server_balancer: conditions, ratio, heuristics, 20000 random loads\n");
	return 0;
}
