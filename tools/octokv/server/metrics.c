// SPDX-License-Identifier: GPL-2.0
/* metrics.c - see metrics.h */
#include <stdio.h>

#include "metrics.h"
#include "store/mem.h"

const char *const stage_names[NR_STAGES] = {
	"token", "queue", "lock", "read", "log", "return", "send",
};

/* The last one stands for all that are not named. */
const char *const error_names[NR_ERROR_KINDS] = {
	"ERR", "NOAUTH", "WRONGPASS", "NOPERM", "NOPROTO", "NOSCRIPT", "EXECABORT", "CROSSSLOT",
	"QUOTA", "OOM", "FULL", "IOERR", "CORRUPT", "BUSYKEY", "WRONGTYPE", "TRYAGAIN",
	"MOVED", "CLUSTERDOWN", "other",
};

uint64_t histogram_us(const struct histogram *h, uint32_t ppm)
{
	uint64_t nr = histogram_nr(h), below = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && nr; i++) {
		below += h->nr[i];
		if (below && below * 1000000 >= nr * ppm)
			return histogram_bound_us(i);
	}
	return 0;
}

/* ---- at the worker ---- */

static void add(uint64_t *counter, uint64_t more)
{
	__atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

static void histogram_add(struct histogram *h, uint64_t ns)
{
	add(&h->nr[histogram_bucket(ns)], 1);
	add(&h->sum_ns, ns);
}

/* A set, in cache lines of its own. Those who see the pointer see zeros at first. */
static void *make(void **at, size_t bytes)
{
	void *made = memset(mem_aligned(64, (bytes + 63) / 64 * 64), 0, (bytes + 63) / 64 * 64);

	__atomic_store_n(at, made, __ATOMIC_RELEASE);
	return made;
}

static struct tenant_metrics *of_tenant(struct worker *w, uint32_t tenant)
{
	struct tenant_metrics *m = w->metrics[tenant];

	return m ? m : make((void **)&w->metrics[tenant], sizeof(*m));
}

static struct command_metrics *of_command(struct tenant_metrics *m, uint32_t command)
{
	struct command_metrics *c = m->commands[command];

	return c ? c : make((void **)&m->commands[command], sizeof(*c));
}

void metrics_stage(struct worker *w, uint32_t tenant, enum stage stage, uint64_t ns)
{
	histogram_add(&of_tenant(w, tenant)->stages[stage], ns);
}

/* The last stage is the one in which the operation ended; it may have skipped one before. */
void metrics_store_stages(struct worker *w, uint32_t tenant, const struct okv_stages *stages)
{
	struct tenant_metrics *m = of_tenant(w, tenant);

	histogram_add(&m->stages[STAGE_LOCK], stages->ns[OKV_STAGE_LOCK]);
	if (stages->now >= OKV_STAGE_READ)
		histogram_add(&m->stages[STAGE_READ], stages->ns[OKV_STAGE_READ]);
	if (stages->now >= OKV_STAGE_LOG)
		histogram_add(&m->stages[STAGE_LOG], stages->ns[OKV_STAGE_LOG]);
}

void metrics_bytes(struct worker *w, uint32_t tenant, uint64_t in, uint64_t out)
{
	struct tenant_metrics *m = of_tenant(w, tenant);

	add(&m->bytes_in, in);
	add(&m->bytes_out, out);
}

static uint32_t kind_of(const char *text, size_t len)
{
	uint32_t kind = 0;
	size_t word = 0;

	while (word < len && text[word] != ' ' && text[word] != '\r')
		word++;
	while (kind < NR_ERROR_KINDS - 1 &&
	       (strlen(error_names[kind]) != word || memcmp(error_names[kind], text, word)))
		kind++;
	return kind;
}

void metrics_error(struct worker *w, uint32_t tenant, const char *text, size_t len)
{
	add(&of_tenant(w, tenant)->errors[kind_of(text, len)], 1);
}

void metrics_command(struct worker *w, uint32_t tenant, uint32_t command, enum outcome outcome,
		     uint64_t ns)
{
	struct command_metrics *c = of_command(of_tenant(w, tenant), command);

	if (outcome == OUTCOME_REJECTED) {
		add(&c->nr_rejected, 1);
		return;
	}
	if (outcome == OUTCOME_FAILED)
		add(&c->nr_failed, 1);
	histogram_add(&c->times, ns);
}

static void clear(void *counters, size_t bytes)
{
	for (uint64_t *at = counters, *end = at + bytes / sizeof(*at); at < end; at++)
		__atomic_store_n(at, 0, __ATOMIC_RELAXED);
}

void metrics_reset(struct worker *w)
{
	for (uint32_t i = 0; i <= OKV_NR_TENANTS; i++) {
		struct tenant_metrics *m = w->metrics[i];

		if (!m)
			continue;
		clear(m, offsetof(struct tenant_metrics, commands));
		for (uint32_t j = 0; j < MAX_COMMANDS; j++)
			if (m->commands[j])
				clear(m->commands[j], sizeof(*m->commands[j]));
	}
}

void metrics_free(struct worker *w)
{
	for (uint32_t i = 0; i <= OKV_NR_TENANTS; i++) {
		struct tenant_metrics *m = w->metrics[i];

		for (uint32_t j = 0; m && j < MAX_COMMANDS; j++)
			mem_free(m->commands[j]);
		mem_free(m);
		w->metrics[i] = NULL;
	}
}

/* ---- from any thread ---- */

/* Both are made of uint64_t. */
static void add_all(void *sum, const void *counters, size_t bytes)
{
	const uint64_t *from = counters;
	uint64_t *to = sum;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Calls @visit for each set in scope. */
static void for_each(struct scope scope, void (*visit)(const struct tenant_metrics *m, void *owner),
		     void *owner)
{
	int first = scope.tenant == ALL_TENANTS ? 0 : scope.tenant;
	int last = scope.tenant == ALL_TENANTS ? OKV_NR_TENANTS : scope.tenant;

	for (uint32_t i = 0; i < scope.server->nr_workers; i++) {
		const struct worker *w = scope.server->workers[i];

		if (scope.worker != ALL_WORKERS && (uint32_t)scope.worker != i)
			continue;
		for (int tenant = first; tenant <= last; tenant++) {
			const struct tenant_metrics *m =
				__atomic_load_n(&w->metrics[tenant], __ATOMIC_ACQUIRE);

			if (m)
				visit(m, owner);
		}
	}
}

static void add_commands(const struct tenant_metrics *m, void *owner)
{
	struct command_metrics *sums = owner;

	for (uint32_t i = 0; i < MAX_COMMANDS; i++) {
		const struct command_metrics *c =
			__atomic_load_n(&m->commands[i], __ATOMIC_ACQUIRE);

		if (c)
			add_all(&sums[i], c, sizeof(*c));
	}
}

void metrics_commands(struct scope scope, struct command_metrics *sums)
{
	memset(sums, 0, MAX_COMMANDS * sizeof(*sums));
	for_each(scope, add_commands, sums);
}

static void add_tenant(const struct tenant_metrics *m, void *owner)
{
	add_all(owner, m, offsetof(struct tenant_metrics, commands));
}

void metrics_tenant(struct scope scope, struct tenant_metrics *sum)
{
	*sum = (struct tenant_metrics){ 0 };
	for_each(scope, add_tenant, sum);
}

/* ---- the store ---- */

enum { STORE_WORDS = offsetof(struct okv_stats, nr_refusing) / sizeof(uint64_t) };

void metrics_publish(struct worker *w)
{
	const struct server *s = w->server;

	for (uint32_t i = 0; i < s->nr_partitions; i++) {
		const struct okv_partition *p = okv_store_partition(w->store, i);
		struct okv_stats now = { 0 }, *at = &s->published[i];

		if (!p)
			continue;
		okv_partition_stats(p, &now);
		for (uint32_t word = 0; word < STORE_WORDS; word++)
			__atomic_store_n((uint64_t *)at + word, ((uint64_t *)&now)[word],
					 __ATOMIC_RELAXED);
		__atomic_store_n(&at->nr_refusing, now.nr_refusing, __ATOMIC_RELAXED);
		__atomic_store_n(&at->nr_failing, now.nr_failing, __ATOMIC_RELAXED);
	}
}

void metrics_store(const struct server *s, struct okv_stats *sum)
{
	*sum = (struct okv_stats){ 0 };
	for (uint32_t i = 0; i < s->nr_partitions; i++) {
		const struct okv_stats *at = &s->published[i];

		add_all(sum, at, STORE_WORDS * sizeof(uint64_t));
		sum->nr_refusing += __atomic_load_n(&at->nr_refusing, __ATOMIC_RELAXED);
		sum->nr_failing += __atomic_load_n(&at->nr_failing, __ATOMIC_RELAXED);
	}
}

/* ---- the slow log ---- */

enum {
	MAX_ARGS	= 31,		/* of an entry, and one text more for those left out */
	MAX_ARG_BYTES	= 128,
	MAX_NOTE_BYTES	= 160,
	MAX_TEXTS	= MAX_ARGS + 2,
};

struct text {
	uint32_t nr, len;
	char bytes[MAX_TEXTS * (sizeof(uint32_t) + MAX_ARG_BYTES + MAX_NOTE_BYTES)];
};

static void add_text(struct text *t, const char *text, uint32_t len, const char *note)
{
	uint32_t note_len = strlen(note), whole = len + note_len;

	memcpy(t->bytes + t->len, &whole, sizeof(whole));
	memcpy(t->bytes + t->len + sizeof(whole), text, len);
	memcpy(t->bytes + t->len + sizeof(whole) + len, note, note_len);
	t->len += sizeof(whole) + whole;
	t->nr++;
}

static void add_args(struct text *t, const struct resp_command *c)
{
	uint32_t nr = c->nr_args <= MAX_ARGS + 1 ? c->nr_args : MAX_ARGS;
	char note[MAX_NOTE_BYTES];

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t len = resp_arg_len(c, i);

		note[0] = 0;
		if (len > MAX_ARG_BYTES)
			snprintf(note, sizeof(note), "... (%u more bytes)", len - MAX_ARG_BYTES);
		add_text(t, resp_arg(c, i), len < MAX_ARG_BYTES ? len : MAX_ARG_BYTES, note);
	}
	if (nr < c->nr_args) {
		snprintf(note, sizeof(note), "... (%u more arguments)", c->nr_args - nr);
		add_text(t, "", 0, note);
	}
}

static void add_stages(struct text *t, const uint32_t *stage_us)
{
	char note[MAX_NOTE_BYTES];
	int len = 0;

	for (int i = 0; i < NR_STAGES; i++)
		if (stage_us[i])
			len += snprintf(note + len, sizeof(note) - len, "%s%s %u us",
					len ? ", " : "... (", stage_names[i], stage_us[i]);
	if (!len)
		return;
	snprintf(note + len, sizeof(note) - len, ")");
	add_text(t, "", 0, note);
}

void slowlog_drop(struct slow_log *log, struct slow_entry *e)
{
	if (e->newer)
		e->newer->older = e->older;
	else
		log->newest = e->older;
	if (e->older)
		e->older->newer = e->newer;
	else
		log->oldest = e->newer;
	log->nr--;
	mem_free(e);
}

static struct slow_entry *make_entry(const struct worker *w, const struct slow_command *c)
{
	struct slow_entry *e;
	struct text text;

	text.nr = text.len = 0;
	add_args(&text, c->command);
	add_stages(&text, c->stage_us);
	e = mem_alloc(sizeof(*e) + text.len);
	*e = (struct slow_entry){
		.at_ns = w->now_ns, .at_ms = w->now_ms, .us = c->us, .tenant = c->tenant,
		.nr_texts = text.nr, .bytes = text.len,
	};
	snprintf(e->address, sizeof(e->address), "%s", c->address);
	snprintf(e->name, sizeof(e->name), "%s", c->name);
	memcpy(e->texts, text.bytes, text.len);
	return e;
}

static struct slow_log *log_of(struct worker *w)
{
	if (!w->slow_log)
		w->slow_log = mem_zalloc(sizeof(*w->slow_log));
	return w->slow_log;
}

void slowlog_add(struct worker *w, const struct slow_command *c)
{
	struct slow_log *log = log_of(w);
	struct slow_entry *e = make_entry(w, c);

	e->id = log->next_id++ * MAX_WORKERS + w->id;
	e->older = log->newest;
	if (e->older)
		e->older->newer = e;
	else
		log->oldest = e;
	log->newest = e;
	log->nr++;
	while (log->nr > config_number(&w->server->config.nr_slow))
		slowlog_drop(log, log->oldest);
}

void slowlog_free(struct worker *w)
{
	while (w->slow_log && w->slow_log->oldest)
		slowlog_drop(w->slow_log, w->slow_log->oldest);
	mem_free(w->slow_log);
	w->slow_log = NULL;
}
