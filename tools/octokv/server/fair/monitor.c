// SPDX-License-Identifier: GPL-2.0
/* monitor.c - what monitor.h describes, around the policy of mq-octofas */
#include <assert.h>

#include "mq-octofas/octofas_policy.c"

#include "monitor.h"
#include "server/tenant.h"
#include "store/mem.h"

static_assert((int)MONITOR_FLOWS == (int)OCTOFAS_FLOWS, "the policy's flows");
static_assert((int)MONITOR_INTER == (int)OCTOFAS_INTER &&
	      (int)MONITOR_INTRA == (int)OCTOFAS_INTRA, "the policy's modes");

const char *const monitor_modes[] = { "none", "inter", "intra", "hybrid" };

struct monitor {
	struct octofas_policy policy;
	uint64_t decided_ns;
	struct octofas_flow_sample flows[MONITOR_FLOWS];	/* of all workers, so far */
	uint64_t nr[MAX_WORKERS];
	uint32_t fairness, balance, mode;	/* atomic */
	uint32_t slowdown[MONITOR_FLOWS];	/* atomic */
};

static uint64_t read_64(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static void add_64(uint64_t *number, uint64_t more)
{
	__atomic_store_n(number, *number + more, __ATOMIC_RELAXED);
}

/* What acts: what the options force, or else the truth table. */
static enum monitor_mode mode_of(const struct server *s, uint32_t table)
{
	bool is_auto = s->balancer.fair == FAIR_AUTO;
	bool inter = s->balancer.how != BALANCE_OFF && (!is_auto || table & OCTOFAS_INTER);
	bool intra = s->balancer.fair == FAIR_ON || (is_auto && table & OCTOFAS_INTRA);

	/* One tenant has nobody to be fair to. */
	intra &= s->tenants->nr > 1;
	return (inter ? MONITOR_INTER : 0) | (intra ? MONITOR_INTRA : 0);
}

static void publish(struct server *s, uint32_t fairness, uint32_t balance, uint32_t table)
{
	struct monitor *m = s->fairness;
	enum monitor_mode mode = mode_of(s, table);

	__atomic_store_n(&m->fairness, fairness, __ATOMIC_RELAXED);
	__atomic_store_n(&m->balance, balance, __ATOMIC_RELAXED);
	__atomic_store_n(&m->mode, mode, __ATOMIC_RELAXED);
	__atomic_store_n(&s->is_fair, mode & MONITOR_INTRA, __ATOMIC_RELAXED);
}

void monitor_start(struct server *s, uint64_t now_ns)
{
	struct octofas_config config = {
		.mode = OCTOFAS_AUTO, .fair_pct = FAIR_PCT,
		.balance_pct = 100 - s->balancer.gap_pct,
	};
	struct monitor *m = mem_aligned(64, sizeof(*m));

	memset(m, 0, sizeof(*m));
	m->decided_ns = now_ns;
	if (octofas_policy_init(&m->policy, s->nr_workers, &config, GFP_KERNEL))
		abort();
	s->fairness = m;
	publish(s, OCTOFAS_ONE, OCTOFAS_ONE, OCTOFAS_NONE);
}

void monitor_free(struct server *s)
{
	octofas_policy_destroy(&s->fairness->policy);
	mem_free(s->fairness);
}

/* ---- at a worker ---- */

static uint32_t flow_of(uint32_t tenant)
{
	return tenant < MONITOR_FLOWS ? tenant : OCTOFAS_OTHERS;
}

static uint32_t class_of(const struct okv_stages *stages, uint64_t nr_bytes)
{
	uint32_t size = nr_bytes >> 9 ? 64 - __builtin_clzll(nr_bytes >> 9) : 0;
	bool writes = stages->ns[OKV_STAGE_LOG];

	if (!writes && !stages->ns[OKV_STAGE_READ])
		return MONITOR_CLASSES - 1;
	return writes * MONITOR_SIZES + min(size, MONITOR_SIZES - 1U);
}

void monitor_came(const struct monitor_watch *watch, uint32_t tenant, struct monitor_mark *mark)
{
	mark->nr_done = watch->nr_done;
	mark->nr_done_of = watch->nr_done_of[tenant];
}

void monitor_did(struct monitor_watch *watch, uint32_t tenant, const struct monitor_mark *mark,
		 const struct okv_stages *stages, uint64_t nr_bytes, uint64_t latency_ns)
{
	struct monitor_tally *tally = &watch->tally[flow_of(tenant)];
	uint32_t class = class_of(stages, nr_bytes), all, own;

	/* Without itself, which is what "least" is for. */
	all = watch->nr_done++ - mark->nr_done;
	own = watch->nr_done_of[tenant]++ - mark->nr_done_of;
	if (!watch->least_ns[class] || latency_ns < watch->least_ns[class])
		watch->least_ns[class] = max(latency_ns, 1ULL);
	add_64(&tally->nr, 1);
	add_64(&tally->latency_ns, latency_ns);
	add_64(&tally->alone_ns, octofas_alone_ns(latency_ns, watch->base_ns[class],
						  octofas_others(all, own)));
}

void monitor_window(struct monitor_watch *watch)
{
	for (uint32_t i = 0; i < MONITOR_CLASSES; i++) {
		if (watch->least_ns[i])
			watch->base_ns[i] = octofas_base_ns(watch->base_ns[i], watch->least_ns[i]);
		watch->least_ns[i] = 0;
	}
}

/* ---- the decision ---- */

/* What was added to @before since; @before becomes @now. */
static uint64_t added(uint64_t *before, uint64_t now)
{
	uint64_t more = now - *before;

	*before = now;
	return more;
}

static void look_at_flows(struct monitor *m, const struct server *s,
			  struct octofas_flow_sample *flows)
{
	for (uint32_t f = 0; f < MONITOR_FLOWS; f++) {
		struct octofas_flow_sample sum = { 0 }, *before = &m->flows[f];

		for (uint32_t i = 0; i < s->nr_workers; i++) {
			const struct monitor_tally *tally = &s->workers[i]->watch->tally[f];

			sum.nr += read_64(&tally->nr);
			sum.latency_ns += read_64(&tally->latency_ns);
			sum.alone_ns += read_64(&tally->alone_ns);
		}
		flows[f] = (struct octofas_flow_sample){
			.nr = sum.nr - before->nr,
			.latency_ns = sum.latency_ns - before->latency_ns,
			.alone_ns = sum.alone_ns - before->alone_ns,
		};
		*before = sum;
	}
}

/* The policy is told processor time instead of latencies, as workers have it of their windows. */
static void look_at_workers(struct monitor *m, const struct server *s, uint64_t length_ns,
			    struct octofas_queue_sample *queues, u64 *home_ns)
{
	for (uint32_t i = 0; i < s->nr_workers; i++) {
		const struct worker *w = s->workers[i];
		uint64_t nr = worker_counter(w, COUNT_NETWORK) + worker_counter(w, COUNT_STORE);
		uint32_t busy_ppm = __atomic_load_n(&w->busy_ppm, __ATOMIC_RELAXED);
		uint64_t busy_ns = length_ns / 1000 * busy_ppm / (PPM / 1000);

		queues[i] = (struct octofas_queue_sample){
			.nr = added(&m->nr[i], nr), .latency_ns = busy_ns, .usable = true,
			.base_ns = length_ns / 100 * s->balancer.overload_pct,
		};
		home_ns[i * OCTOFAS_FLOWS] = busy_ns;
	}
}

void monitor_decide(struct server *s, uint64_t now_ns)
{
	struct octofas_queue_sample queues[MAX_WORKERS];
	struct octofas_flow_sample flows[MONITOR_FLOWS];
	u64 home_ns[MAX_WORKERS * MONITOR_FLOWS] = { 0 };
	struct octofas_sample sample = { .flow = flows, .queue = queues, .home_ns = home_ns };
	struct monitor *m = s->fairness;
	const struct octofas_record *record;

	/* The one that decided before us has just done so; its clock may be ahead of ours. */
	if ((int64_t)(now_ns - m->decided_ns) < s->balancer.window_ms * 500000LL)
		return;
	sample.length_ns = added(&m->decided_ns, now_ns);
	look_at_flows(m, s, flows);
	look_at_workers(m, s, sample.length_ns, queues, home_ns);
	octofas_window(&m->policy, &sample);
	record = octofas_last_window(&m->policy);
	publish(s, record->fairness, record->balance, record->mode);
	for (uint32_t f = 0; f < MONITOR_FLOWS; f++)
		__atomic_store_n(&m->slowdown[f], m->policy.flow[f].slowdown, __ATOMIC_RELAXED);
}

struct monitor_figures monitor_read(const struct server *s)
{
	const struct monitor *m = s->fairness;

	return (struct monitor_figures){
		.fairness = __atomic_load_n(&m->fairness, __ATOMIC_RELAXED),
		.balance = __atomic_load_n(&m->balance, __ATOMIC_RELAXED),
		.mode = __atomic_load_n(&m->mode, __ATOMIC_RELAXED),
	};
}

uint32_t monitor_slowdown(const struct server *s, uint32_t tenant)
{
	return __atomic_load_n(&s->fairness->slowdown[flow_of(tenant)], __ATOMIC_RELAXED);
}
