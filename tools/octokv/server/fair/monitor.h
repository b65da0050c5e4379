/* SPDX-License-Identifier: GPL-2.0 */
/*
 * monitor.h - OctoFAS's monitor: how much tenants slow each other down, how even the load is, and
 * which levels act
 *
 * The policy is that of mq-octofas (mq-octofas/octofas_policy.c), compiled here as it is. After a
 * window it is told what tenants and reactors did in it. It says F, LB, and by its truth table
 * whether the inter level acts (the balancer), the intra level (fair.h), both, or none.
 *
 * Slowdown (Equation 1). The time of an operation is that from where it was asked for until the
 * store has done it. What it would be alone follows from what ended meanwhile, at the reactor that
 * has the key: of the time beyond the least that such an operation takes, the part of operations of
 * other tenants would not have been. So the order in which operations begin does not matter to the
 * estimate. "Least" is by what the operation had to do with the device, a read or a write, and by
 * size; those that had nothing to do with it have a least of their own. The time on the network,
 * T_Net, is not added: this side does not know it. Without it F is rather too small. Nor does F see
 * what waits in sockets.
 *
 * Flows. Tenants with IDs up to 63 are watched one by one, all others together.
 *
 * Load (Equation 3) is the processor time of a reactor in the window. T_OL is that of the balancer,
 * and T_LB is what its gap means for a reactor that is fully busy: 10 points are an LB of 90%. So
 * the flag is up whenever the balancer would act, and it decides how much.
 *
 * Backwarding, Algorithm 3, is not used: fair.h has an order instead. So of what the policy decides
 * for flows and queues (B, bounds, shares) nothing is asked. When both levels act, the balancer
 * counts the requests of dense tenants, unless it was told to count those of sparse ones, or none
 * is dense.
 */
#ifndef OKV_MONITOR_H
#define OKV_MONITOR_H

#include "server/server.h"

struct monitor;
struct tenant;

enum {
	MONITOR_FLOWS		= 64,
	MONITOR_SIZES		= 16,
	MONITOR_CLASSES		= 2 * MONITOR_SIZES + 1,	/* see "Slowdown" */
	FAIR_PCT		= 90,		/* F below it is unfair */
};

enum monitor_mode { MONITOR_NONE, MONITOR_INTER, MONITOR_INTRA, MONITOR_HYBRID };
extern const char *const monitor_modes[];

/* What a worker has counted of a flow since the start. Only it writes, with relaxed stores. */
struct monitor_tally {
	uint64_t nr, latency_ns, alone_ns;
};

/* The watch of a worker. */
struct monitor_watch {
	struct monitor_tally tally[MONITOR_FLOWS];
	uint64_t least_ns[MONITOR_CLASSES];	/* of this window; 0: none so far */
	uint64_t base_ns[MONITOR_CLASSES];
	uint32_t nr_done;			/* wraps around */
	uint32_t nr_done_of[OKV_NR_TENANTS];
};

/* What had been done when an operation came. */
struct monitor_mark {
	uint32_t nr_done, nr_done_of;
};

void monitor_start(struct server *s, uint64_t now_ns);
void monitor_free(struct server *s);

/* At the worker that has the key. */
void monitor_came(const struct monitor_watch *watch, uint32_t tenant, struct monitor_mark *mark);
void monitor_did(struct monitor_watch *watch, uint32_t tenant, const struct monitor_mark *mark,
		 const struct okv_stages *stages, uint64_t nr_bytes, uint64_t latency_ns);

/* A window of the worker has ended. */
void monitor_window(struct monitor_watch *watch);

/* At the one worker that decides, after its window; twice in a window it does so once. */
void monitor_decide(struct server *s, uint64_t now_ns);

/* From any thread. F and LB are in thousandths. */
struct monitor_figures {
	uint32_t fairness, balance;
	enum monitor_mode mode;
};
struct monitor_figures monitor_read(const struct server *s);

/* The slowdown of a tenant, in thousandths; 0: it has had too few operations. */
uint32_t monitor_slowdown(const struct server *s, uint32_t tenant);

#endif
