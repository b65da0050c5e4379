/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fair.h - which tenant's operation comes next to the storage stage of a worker
 *
 * OctoFAS's intra level. Without it operations begin as they come, so that a tenant with eight
 * times the connections gets eight times the processor time of a reactor. With it they wait in a
 * queue per worker, one after the other for each tenant, and a budget bounds how many begin in a
 * round of the reactor's loop. The reactor does not sleep while one waits. A client that waits for
 * a reply sends nothing, so this order also rules what the network stage has to do.
 *
 * The order. The paper sends requests of dense tenants to the back of the queue B times (Algorithm
 * 3). What B is to bring about is here the rule itself: start-time fair queueing. Virtual time is
 * the start tag of what began last. A tenant of which nothing waits starts at virtual time. Each
 * operation of it starts where the one before ends: its cost over the tenant's weight later. The
 * least start tag is next. So of two tenants that both wait, none gets more than its share by more
 * than an operation of each:
 *
 *	|W_a / w_a - W_b / w_b| <= l_a / w_a + l_b / w_b
 *
 * with W the cost of what has begun, w the weight, l the largest cost. What is charged late, as
 * below, is in W from then on. A tenant that asks for less than its share waits for one operation
 * of each other tenant at most. What a tenant does not use is not saved up. When nothing waits at
 * all, virtual time goes on to the latest end: what a tenant has had until then does not count. The
 * weights are those of the users file.
 *
 * Cost is one for an operation, and one for each 16 KiB of its value. It is not processor time.
 * Most of what a request takes is in the kernel, in submissions and completions of many requests
 * at once; a clock around them says what all took, but not whose it was. What is not known before,
 * such as the value that a read brings, is charged when it is known. A transaction costs what its
 * operations do, and what it reads of keys that were watched.
 *
 * The budget. A tenant is passed over while all that it has under way is at the device, or on its
 * way to the client and back. If much of others begins meanwhile, it does not get its share. So
 * rounds have to be short, if a tenant has few requests under way; but each costs a system call,
 * and makes writes small. How long these ways are is not known, but what comes of them is. While
 * what a tenant has had, by weight, is less than FAIR_SHORT_PCT percent of what another one has
 * had, the budget is halved, down to one operation. Else it grows by an eighth. A difference that
 * the order itself may make, as above, says nothing.
 *
 * What stays as it is. A tenant's operations keep their order, so those of a connection do, and its
 * replies have their own queue. (What RESTORE-ASKING writes for another user is among operations of
 * that user.) A transaction is one message, and so are the lock of MIGRATE and each step of a walk
 * over a partition (SCAN), which costs one more for each key that it finds. FLUSHALL of a partition
 * costs more by what it has looked at. A partition leaves its worker when nothing waits for it
 * (route.nr_waiting). While it is to leave, rounds have no budget until then. Whether a key's slot
 * is here is asked when the operation begins. At the end of the server, connections with requests
 * under way are waited for, and so is what waits here. An operation of a client that is gone runs.
 */
#ifndef OKV_FAIR_H
#define OKV_FAIR_H

#include "monitor.h"
#include "server/server.h"

struct tenant;

enum {
	FAIR_COST		= 64,		/* of an operation */
	FAIR_COST_BYTES		= (16 << 10) / FAIR_COST,	/* for which the cost is 1 */
	FAIR_BUDGET_MAX		= 64 * FAIR_COST,
	FAIR_LOOK_COST		= 128 * FAIR_COST,	/* between two looks at shares */
	FAIR_SHORT_PCT		= 94,
	FAIR_TAG_SHIFT		= 20,		/* so that weights count exactly */
};

/* ---- the queue ---- */

/*
 * Virtual time. An operation takes up to 2^26 of it: 64 bits would wrap around within weeks, and a
 * tenant that was away since would seem to be ahead. 128 bits never do.
 */
typedef unsigned __int128 fair_time;

struct fair_tenant {
	fair_time tag;			/* the start of what waits first, or the end of the last */
	struct kv_msg *first, *last;
	uint16_t place;			/* in the heap, from 1; 0: nothing waits */
};

struct fair_queue {
	fair_time now;
	fair_time latest;		/* the last end of all */
	uint32_t nr;
	uint16_t nr_heap;
	uint16_t heap[OKV_NR_TENANTS + 1];	/* of tenants with something that waits */
	struct fair_tenant tenants[OKV_NR_TENANTS];
};

void fair_add(struct fair_queue *q, uint32_t tenant, struct kv_msg *msg);

/* The next one; there is one. Call fair_charge() for it before the next fair_take(). */
struct kv_msg *fair_take(struct fair_queue *q);
void fair_charge(struct fair_queue *q, uint32_t tenant, uint32_t weight, uint64_t cost);

/* ---- at a worker ---- */

/* What a tenant has had since the last look. */
struct fair_share {
	uint64_t cost, largest;		/* of all, of one operation */
	uint32_t weight;
};

struct fair {
	struct fair_queue queue;
	bool is_on;
	uint64_t budget;
	uint64_t round_cost;		/* of what has begun in this round */
	uint64_t look_cost;		/* since the last look */
	uint32_t nr_active;		/* tenants that have had something since */
	uint16_t active[OKV_NR_TENANTS];
	struct fair_share shares[OKV_NR_TENANTS];
};

/* An operation, or a transaction, on its way: all 0 at first. */
struct fair_pass {
	enum { FAIR_COMES, FAIR_WAITS, FAIR_IN } state;
	struct monitor_mark mark;
	uint32_t nr, cost;
};

/* @f is all 0. */
void fair_init(struct fair *f);

/*
 * Whether @msg, @nr operations with values of @nr_bytes, may begin. If not, its run() is called
 * again in its turn.
 */
bool fair_admits(struct worker *w, struct kv_msg *msg, struct fair_pass *pass,
		 const struct tenant *tenant, uint32_t partition, uint32_t nr, uint64_t nr_bytes);

/*
 * It has ended, @latency_ns after it was asked for; @stages is what the store took, @nr_bytes are
 * those of its values.
 */
void fair_ended(struct worker *w, const struct fair_pass *pass, const struct tenant *tenant,
		const struct okv_stages *stages, uint64_t nr_bytes, uint64_t latency_ns);

/* Something that has begun turns out to have @nr operations more. */
void fair_has_more(struct worker *w, const struct tenant *tenant, uint32_t nr);

/* Once a round: lets in what the budget allows. */
void fair_run(struct worker *w);

static inline bool fair_has_work(const struct worker *w)
{
	return w->fair && w->fair->queue.nr;
}

#endif
