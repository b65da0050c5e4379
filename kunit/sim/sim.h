/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sim.h - mq-mqfq's policy, as it is, with a simulated device below and tenants above
 *
 * The KUnit suite mqfq_policy runs it for a short time, the program mqfq_theorems for long. It is
 * linked with the program's own copy of mqfq_policy.c. One thread, a seed, no clock: the seed
 * reproduces a failure.
 *
 *	mqfq_simulation.c	the device, the tenants, runs, changes, the whole run
 *	mqfq_tags.c		tags: what they must be
 *	mqfq_claims.c		what must hold
 *	mqfq_time.c		costs in time, true ones and learned ones
 *	mqfq_worlds.c		random worlds
 *
 * The world
 * ========= Flows submit to one or several hardware queues: in a closed loop, in bursts, on and
 * off, or at random times. The device has D places and completes in one of several orders, some of
 * them malicious; it serves one byte per tick. The simulation does what the block layer does, in
 * the same order: it tags an entry and inserts it under the queue's lock, runs the queue, and a run
 * takes entries until it gets none. A run that the policy asks for is noted, and executed when the
 * operation that asked for it has returned. If runs are "delayed", they stay noted for a while,
 * stop half way, and queues are run without being asked for.
 *
 * The claims
 * ==========
 * A flow is backlogged while at least one of its entries waits. Let V be virtual time as it is
 * published, L the cost of a flow's largest request, and let c be the tags of a flow that have
 * been dispatched, put end to end: the flow has been sent everything up to some tag, and perhaps
 * something after it. While the flow is backlogged
 *
 *	V <= c <= V + T + L
 *
 * since nothing that waits is before V, and nothing was dispatched that started after V + T. So
 * in an interval in which f and m are backlogged, service counted when it is sent differs by
 *
 *	at most 2 T + L_f + L_m, for any D,					(1)
 *
 * and counted when it is completed, as the paper does, by what may be in flight at either end:
 *
 *	at most 2 T + (D + 1) (L_f + L_m).					(2)
 *
 * The paper's theorem 2, (D + 1) (2 T + L_f + L_m), is more than that. Its theorem 1, for D = 1, is
 * 2 T + L_f + L_m. It holds at completion, too, if both have been backlogged since before the last
 * request in flight was sent: what has been completed is what had been sent, a moment ago. Word by
 * word it does not hold:
 *
 *	1. f sends a request, and has another one that waits: V is that one's tag, V + L_f.
 *	2. m comes, and gets the tag V + L_f. From here on both are backlogged.
 *	3. The first request completes, the second one is sent and completes, since it has the same
 *	   tag as m's; m had nothing, f had 2 L_f.
 *
 * Virtual time is the earliest tag that waits; in SFQ, where this theorem comes from, it is the tag
 * of what is in service. The simulation asserts theorem 1 for service that was sent since both
 * became backlogged, and for all service
 *
 *	at most the larger of 2 T + L_f + L_m and T + 2 max(L_f, L_m)		(3)
 *
 * for D = 1. All of this is checked for every pair and every interval. The largest rise and the
 * largest fall of the difference since both became backlogged are the worst intervals that end now.
 *
 * Service is counted in virtual time, as flow_cost_vt() charges it, and L is not less than any such
 * cost: nothing is allowed for rounding. What flow_cost_vt() itself is off by adds up, and is
 * reported, see SIM_EXACT.
 *
 * In a tree a flow's weight is its effective weight. That changes when a weight is written, and
 * when a relative becomes active or idle. A flow that becomes active may start late, by what its
 * groups owe.
 *
 * Where time is shared (SIM_TIME), a request is charged what the law of mqfq_cost.c says, which has
 * to learn it. All this holds as it is, in the time that is charged, whatever the law has learned
 * by then. Shares of the device's true time are as good as the law: they are asserted once it has
 * had some seconds.
 *
 * If T, D or effective weights change in the middle, intervals end there and new ones begin; with
 * T + L in (1) replaced by how far a flow may be ahead by what it was sent before, under the old
 * rules.
 *
 * Queues pay for a flow in advance (lib/flow_local.h). Let P be the most that a flow's queues had
 * paid in an interval, or before it, if virtual time has not passed those tags yet. Tags below V
 * may be paid and not used, and what moves to other tags is there beside requests of before. So
 *
 *	V - P <= c <= V + T + L
 *
 * and P_f + P_m are added to all these bounds.
 *
 * A flow that is alone may be further ahead than T: by up to MQFQ_ALONE_WINDOWS times T, as
 * mq-mqfq/mqfq_alone.h tells. If others come, it stays ahead until virtual time has come near. So
 * the most that the two flows were ahead beyond that, when both were backlogged, is added to all
 * these bounds. At every dispatch, T is asserted if another flow waits in a queue that is not away,
 * and else the larger window.
 *
 * And, whenever all runs that were asked for have been executed:
 *
 *  - if anything waits, D requests are in flight, but for one slot per queue that may rest there
 *    while others of the queue are in flight. So no slot in the tree is idle while there is work,
 *    throttled or not. For if one is, no queue is READY, and none rests. Then all that wait are
 *    THROTTLED and have published their tags, and the one with the earliest tag is not ahead of
 *    itself.
 *  - a queue with entries waits for something: for a virtual time that has not come, or for a slot
 *    with its bit set.
 *  - V is not later than any tag that waits, and, if anything waits, by T / 4 earlier at most.
 *
 *  - if a slow entry has stepped aside, all permits are out. What has stepped aside counts for none
 *    of the others: it holds neither slots nor virtual time.
 *  - a queue that is STUCK is in debt and has more in flight than that; the others have all slots.
 *    A queue that is in debt, or whose leaf has left, counts in none of the claims about virtual
 *    time, and of the flows that use it no shares are claimed. All claims hold for the others.
 *
 * The theorems' D is D and the entries that were out with passes, since their flow had nothing at
 * the device.
 *
 * At any time: slow entries have no more slots than there are permits; V never goes back; a slot is
 * given only if fewer than D are out, and a pass only if fewer are out than there are; slots in
 * flight and in the tree are D together; a tag is what the naive rule says; at most so many events
 * happen, and in the end nothing waits.
 */
#ifndef MQFAIR_SIM_H
#define MQFAIR_SIM_H

#include <linux/limits.h>
#include <linux/types.h>

#include "../../lib/flow.h"
#include "../../lib/topology.h"
#include "../../mq-mqfq/mqfq_cost.h"
#include "../../mq-mqfq/mqfq_policy.h"

enum {
	SIM_QUEUES_MAX		= 32,
	SIM_FLOWS_MAX		= 12,
	/* Places in a tree: those of the flows, others, and the root. */
	SIM_NODES_MAX		= SIM_FLOWS_MAX + 8,
	SIM_SLOTS_MAX		= 256,
	/* D, and as many that a stuck queue has lent, and one of its own. */
	SIM_INFLIGHT_MAX	= 2 * SIM_SLOTS_MAX + 1,
	SIM_REQUESTS_MAX	= 4096,		/* alive at once */
	SIM_SECTOR_BYTES	= 512,
	SIM_SECTORS_MAX		= 2048,
	/* Events between two looks at all tokens. */
	SIM_LOOK_EVERY		= 32,
	/* And between two folds of what queues count of their flows. */
	SIM_FOLD_EVERY		= 512,
	/* A flow that may not submit looks again after so many, times D; a megabyte takes 4. */
	SIM_LOOK_IN_TICKS	= 1 << 18,
	/* Units of virtual time in a byte at weight 1. */
	SIM_VT_PER_BYTE		= FLOW_WEIGHT_DEFAULT << VT_SHIFT,
	/* By an effective weight. */
	SIM_VT_SHIFT		= FLOW_EFFECTIVE_SHIFT,
	SIM_EXACT_SHIFT		= 8,
};

/* So long is a stall for the policy: it is found. */
#define SIM_STALL_NS	(2000 * 1000 * 1000ULL)

#define SIM_NEVER	U64_MAX

/* In which order the device completes. */
enum sim_order {
	SIM_FIFO,
	SIM_RANDOM,
	SIM_BY_SIZE,
	SIM_LIFO,		/* but for one in 16 */
	SIM_HOLD_FIRST,		/* flow 0 only when there is nothing else */
	SIM_FAVOUR_FIRST,	/* flow 0 before all others */
	SIM_NR_ORDERS,
};

enum sim_arrival {
	SIM_CLOSED,
	SIM_ON_OFF,
	SIM_BURSTS,
	SIM_POISSON,
	SIM_NR_ARRIVALS,
};

enum sim_sizes {
	SIM_SIZES_RANGE,
	SIM_SIZES_EITHER,	/* the least, and one in 8 the most */
};

/* Which family of mixes. */
enum sim_kind {
	SIM_THEOREM_1,
	SIM_THEOREM_2,
	SIM_CHANGES,		/* as theorem 2, with T, D, b, B and weights changing */
	SIM_LIVENESS,		/* as changes, with delayed runs, requeues, urgent requests */
	SIM_SHARES,		/* all always backlogged, for long */
	SIM_TIME,		/* as shares, where time is shared and costs are learned */
	SIM_TREE,		/* as changes, with flows in a tree that become active and idle */
	SIM_NR_KINDS,
};

/* Service is counted in these ways. */
enum sim_measure {
	SIM_SENT,
	SIM_COMPLETED,
	SIM_COMPLETED_SINCE,	/* if it was sent since both became backlogged */
	SIM_EXACT,		/* the same in bytes over weight, unrounded */
	SIM_NR_MEASURES,
};

struct sim_flow_mix {
	u32 weight;
	u32 queues;			/* a mask */
	enum sim_arrival arrival;
	unsigned int depth;
	enum sim_sizes sizes;
	u32 least_sectors, most_sectors;
	u32 gap_ticks;
	bool stays;			/* on its queue, mostly */
	bool slow;			/* all its requests are, or half of them */
	enum mqfq_cost_op op;		/* for SIM_TIME, of all its requests */
	unsigned int from, until;	/* it submits while all have issued so many requests */
};

/* A place in a tree; the first ones are the flows'. */
struct sim_node {
	struct sim_node *parent;	/* NULL for the root, which is the last one */
	unsigned int number;
	u32 weight;
};

struct sim_mix {
	u64 seed;
	enum sim_kind kind;
	enum sim_order order;
	unsigned int nr_queues, nr_flows, nr_requests;
	unsigned int slots;
	u64 throttle_vt, first_vt;
	u64 credit_vt;			/* for urgent requests */
	struct vt_wheel_geometry wheel;
	unsigned int change_every;	/* requests, or 0 */
	/* A queue completes nothing for so many ticks, now and then; 0: never. */
	u64 stall_ticks, stall_every;
	unsigned int stalled;
	struct sim_flow_mix flow[SIM_FLOWS_MAX];
	u32 base_ns[MQFQ_COST_NR_OPS];	/* for SIM_TIME: what a request takes */
	u32 kib_ns[MQFQ_COST_NR_OPS];	/* and a KiB of it */
	unsigned int nr_nodes;
	struct sim_node node[SIM_NODES_MAX];
	struct topology_place place[SIM_QUEUES_MAX];
};

struct sim_request {
	struct mqfq_entry e;
	struct sim_request *next_free;
	unsigned int flow, queue;
	u32 bytes;			/* that it is charged */
	u32 ticks;			/* that it takes the device */
	u32 size;			/* in bytes */
	u64 cost_vt, done_at, sequence;
	bool alive;
};

/* What a queue's place has paid for a flow; lib/flow_local.h. */
struct sim_place {
	u64 tag, paid_vt, left, seen;
	unsigned int advance;
};

struct sim_flow {
	const struct sim_flow_mix *mix;
	struct flow *flow;
	unsigned int outstanding, waiting, left_in_phase, queue;
	u64 next_at;
	u64 finish;			/* what its finish tag must be */
	u64 debt;			/* and its debt for urgent requests */
	struct sim_place place[SIM_QUEUES_MAX];
	u64 paid_back_vt;		/* by places that are no more */
	u64 paid_vt, most_paid_vt;	/* with that, and the most that counts in this window */
	u64 moved_until;		/* what was paid, and moved, has tags before this */
	u32 weight;			/* effective */
	u32 max_bytes;
	u64 ahead_until;		/* see sim_note_ahead() */
	u64 sent_until;			/* the latest start tag that was sent */
	u64 bytes, bytes_at_mark;
	u64 ns, ns_at_mark;		/* for SIM_TIME: of the device's time */
	bool was_idle_since_mark;
	bool is_tainted;		/* it uses a queue that was found stuck */
};

/* The difference of two flows' services since both became backlogged. */
struct sim_pair {
	s64 now[SIM_NR_MEASURES], low[SIM_NR_MEASURES], high[SIM_NR_MEASURES];
	u64 since;		/* sim_request.sequence */
	u64 worst[SIM_NR_MEASURES];
	u64 lead;		/* see sim_note_lead() */
};

/* The worst difference that was seen, in thousandths of the bound. */
struct sim_ratios {
	u32 sent;		/* (1) */
	u32 completed;		/* (2), (3) */
	u32 theorem;		/* theorem 1 for what was sent since both were backlogged, or 2 */
	u32 literal;		/* theorem 1 or 2, word by word; reported, not asserted for D = 1 */
	u32 exact;		/* theorem, in unrounded bytes; reported, not asserted */
	u32 time;		/* SIM_TIME: by how much shares of the device's time differ */
};

struct simulation {
	struct sim_mix mix;
	struct mqfq_policy policy;
	struct flow_table flows;
	u64 random, now;

	struct sim_flow flow[SIM_FLOWS_MAX];
	struct sim_pair pair[SIM_FLOWS_MAX][SIM_FLOWS_MAX];
	struct sim_request request[SIM_REQUESTS_MAX];
	struct sim_request *free;
	struct sim_request *inflight[SIM_INFLIGHT_MAX];
	unsigned int nr_inflight;	/* at the device */
	unsigned int nr_out;		/* slots; a completed request holds one for a moment */
	unsigned int nr_slow_out;	/* of these, by slow requests */
	unsigned int nr_passes_out;	/* by a flow that had nothing at the device */
	unsigned int nr_waiting;
	u64 device_at, nr_sent, next_look;

	unsigned int slots, issued, completed, next_change;
	u64 throttle_vt, last_vt, grain_vt, slack_vt, window_vt;
	unsigned int window_depth, window_passes;
	u32 pending, unguarded;		/* masks of queues */
	/* Slots that they had in hand when D changed. */
	u8 armed_before[SIM_QUEUES_MAX];
	u64 granted_vt[SIM_QUEUES_MAX];	/* see sim_note_grants() */

	u64 step, nr_looks;
	/* For SIM_TIME: what is charged, and what has completed since the last window. */
	struct mqfq_cost law;
	struct mqfq_cost_counts counts;
	u64 window_since;

	struct sim_ratios ratios;
	const char *failure;
	u64 failed_at;
};

/* What happens, for a program that can print. */
#ifdef __KERNEL__
#define SIM_TRACE(...)	do { } while (0)
#else
extern void (*sim_tell)(const char *fmt, ...) __printf(1, 2);
#define SIM_TRACE(s, fmt, ...)						\
do {									\
	if (sim_tell)							\
		sim_tell("%llu: " fmt "\n", (s)->step, ##__VA_ARGS__);	\
} while (0)
#endif

#define SIM_CHECK(s, condition, what)				\
do {								\
	if (!(condition) && !(s)->failure) {			\
		(s)->failure = what;				\
		(s)->failed_at = (s)->step;			\
	}							\
} while (0)

/* All are always backlogged, and have their shares in the end. */
static inline bool sim_is_long(const struct simulation *s)
{
	return s->mix.kind == SIM_SHARES || s->mix.kind == SIM_TIME;
}

struct simulation *sim_new(enum sim_kind kind, u64 seed, unsigned int nr_requests);
const char *sim_run(struct simulation *s);
void sim_free(struct simulation *s);

/* ---- mqfq_claims.c: for the simulation ---- */

struct mqfq_entry *sim_first(const struct simulation *s, unsigned int queue);
u64 sim_earliest(const struct simulation *s);
void sim_taint(struct simulation *s);
void sim_check(struct simulation *s);
unsigned int sim_permits(const struct simulation *s);
unsigned int sim_nr_in_hand(const struct mqfq_queue *q);
u64 sim_largest_vt(const struct sim_flow *f);
bool sim_tracks(const struct simulation *s);
void sim_note_lead(struct simulation *s, unsigned int f);
u64 sim_window(const struct simulation *s, unsigned int f);
void sim_note_grants(struct simulation *s);
void sim_begin_pairs(struct simulation *s, unsigned int f);
void sim_serve(struct simulation *s, const struct sim_request *r, enum sim_measure k, u64 service);
void sim_end_window(struct simulation *s);
void sim_begin_window(struct simulation *s);
void sim_check_end(struct simulation *s);
void sim_check_shares(struct simulation *s);
void sim_mark(struct simulation *s);
void sim_ratio(u32 *ratio, u64 worst, u64 bound);

/* ---- mqfq_time.c: for the simulation ---- */

void sim_price(struct simulation *s, struct sim_request *r);
void sim_time_completed(struct simulation *s, const struct sim_request *r);
void sim_check_time(struct simulation *s);

/* ---- mqfq_tags.c: for the simulation ---- */

u64 sim_tag_request(struct simulation *s, struct sim_request *r);
void sim_request_ends(struct simulation *s, const struct sim_request *r);
void sim_fold(struct simulation *s);
u64 sim_scaled(u64 tag, u64 vt, u32 old_weight, u32 new_weight);
void sim_places_follow(struct simulation *s, unsigned int number, u64 vt, u32 old, u32 weight);

/* ---- mqfq_worlds.c: for the simulation ---- */

u32 sim_draw(struct simulation *s, u32 below);
u64 sim_draw_log(struct simulation *s, unsigned int least_shift, unsigned int most_shift);
u64 sim_draw_gap(struct simulation *s, u32 mean);
void sim_draw_mix(struct simulation *s, enum sim_kind kind, u64 seed, unsigned int nr_requests);

#endif /* MQFAIR_SIM_H */
