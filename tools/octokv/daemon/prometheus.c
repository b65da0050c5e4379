// SPDX-License-Identifier: GPL-2.0
/*
 * prometheus.c - the page of metrics in the text format of Prometheus
 *
 * Names follow its conventions: octokvd_, the thing, the unit (seconds, bytes), and _total for what
 * only grows, since the start or since CONFIG RESETSTAT. Each name has a line of HELP and of TYPE.
 * Histograms have every second bucket of those that octokvd keeps: 1 us, 4 us, ... 16.8 s.
 *
 * Commands are in three groups: read and write are those with keys, other are all the rest. A
 * tenant has histograms for those groups and stages that it has used.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "prometheus.h"
#include "server/clock.h"
#include "server/command.h"
#include "server/fair/monitor.h"
#include "server/metrics.h"
#include "server/stats.h"
#include "server/tenant.h"
#include "store/mem.h"

enum {
	FIRST_BYTES	= 64 << 10,
	FREE_BYTES	= 1 << 20,	/* so much is taken even without memory: somebody looks */
	LINE_BYTES	= 512,
	LABEL_BYTES	= 2 * TENANT_NAME_BYTES + 64,
};

struct page {
	const struct server *server;
	char *text;
	size_t len, cap, first_cap;
	bool failed;			/* no memory */
};

__attribute__((format(printf, 2, 3))) static void line(struct page *p, const char *format, ...)
{
	va_list args;

	if (p->failed)
		return;
	if (p->cap - p->len < LINE_BYTES) {
		p->cap = p->cap ? 2 * p->cap : p->first_cap;
		p->failed = p->cap > FREE_BYTES && !mem_has_room();
		if (p->failed)
			return;
		p->text = mem_grow(p->text, p->cap);
	}
	va_start(args, format);
	p->len += vsnprintf(p->text + p->len, LINE_BYTES, format, args);
	va_end(args);
	p->text[p->len++] = '\n';
}

static void about(struct page *p, const char *name, const char *type, const char *help)
{
	line(p, "# HELP octokvd_%s %s", name, help);
	line(p, "# TYPE octokvd_%s %s", name, type);
}

static void gauge(struct page *p, const char *name, const char *help, uint64_t value)
{
	about(p, name, "gauge", help);
	line(p, "octokvd_%s %" PRIu64, name, value);
}

static void counter(struct page *p, const char *name, const char *help, uint64_t value)
{
	about(p, name, "counter", help);
	line(p, "octokvd_%s %" PRIu64, name, value);
}

/* NAME="TEXT", with what would end the text escaped; bytes that are not ASCII as numbers. */
static const char *label(char *to, const char *name, const char *text)
{
	size_t len = snprintf(to, LABEL_BYTES, "%s=\"", name);

	for (; *text && len < LABEL_BYTES - 8; text++) {
		if (*text < ' ' || *text > '~') {
			len += sprintf(to + len, "\\\\x%02x", (unsigned char)*text);
			continue;
		}
		if (*text == '"' || *text == '\\')
			to[len++] = '\\';
		to[len++] = *text;
	}
	to[len++] = '"';
	to[len] = 0;
	return to;
}

static void histogram(struct page *p, const char *name, const char *labels,
		      const struct histogram *h)
{
	uint64_t nr = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		nr += h->nr[i];
		if (i % 2 == 0)
			line(p, "octokvd_%s_bucket{%s,le=\"%.6f\"} %" PRIu64, name, labels,
			     histogram_bound_us(i) / 1e6, nr);
	}
	nr += h->nr[HISTOGRAM_BUCKETS - 1];
	line(p, "octokvd_%s_bucket{%s,le=\"+Inf\"} %" PRIu64, name, labels, nr);
	line(p, "octokvd_%s_sum{%s} %.9f", name, labels, h->sum_ns / 1e9);
	line(p, "octokvd_%s_count{%s} %" PRIu64, name, labels, nr);
}

/* ---- the server ---- */

static void write_server(struct page *p)
{
	const struct server *s = p->server;

	about(p, "build_info", "gauge", "The version, as a label.");
	line(p, "octokvd_build_info{version=\"" OCTOKVD_VERSION "\"} 1");
	gauge(p, "start_time_seconds", "Unix time of the start.", s->started_ms / 1000);
	gauge(p, "serving", "1: it serves; 0: it recovers, and the rest is not known yet.",
	      __atomic_load_n(&s->serves, __ATOMIC_RELAXED));
	gauge(p, "reactors", "Reactors.", s->nr_workers);
	gauge(p, "connections_max", "Connections beyond so many are refused.",
	      config_number(&s->config.max_connections));
	gauge(p, "connections_not_logged_in", "Connections without a user.",
	      __atomic_load_n(&s->nr_strangers, __ATOMIC_RELAXED));
	counter(p, "connections_accepted_total", "Connections.", server_sum(s, COUNT_CONNECTIONS));
	counter(p, "connections_refused_total", "Connections that were refused.",
		server_sum(s, COUNT_REFUSED));
	counter(p, "connections_timed_out_total", "Connections that were closed by a time limit.",
		server_sum(s, COUNT_TIMEOUTS));
	counter(p, "tls_connections_total", "Connections with TLS.",
		__atomic_load_n(&s->nr_tls, __ATOMIC_RELAXED));
	counter(p, "tls_handshakes_failed_total", "Clients that got no TLS.",
		__atomic_load_n(&s->nr_tls_failed, __ATOMIC_RELAXED));
	gauge(p, "tls_certificate_until_seconds", "Unix time until which it is good; 0: no TLS.",
	      __atomic_load_n(&s->tls_until_s, __ATOMIC_RELAXED));
	counter(p, "wrong_passwords_total", "Wrong passwords.",
		server_sum(s, COUNT_WRONG_PASSWORDS));
	counter(p, "keyspace_hits_total", "Reads that found the key.", server_sum(s, COUNT_HITS));
	counter(p, "keyspace_misses_total", "Reads that did not find the key.",
		server_sum(s, COUNT_MISSES));
}

static void write_memory(struct page *p)
{
	struct mem_numbers mem;

	mem_numbers(&mem);
	gauge(p, "memory_used_bytes", "Memory in use.", mem.used_bytes);
	gauge(p, "memory_limit_bytes", "The limit of memory.", mem.limit_bytes);
	counter(p, "memory_waits_total", "Allocations that had to be tried again.", mem.nr_short);
}

/* ---- the store ---- */

static const struct {
	const char *name, *help;
	bool only_grows;
	size_t offset;
} store_metrics[] = {
#define STORE(name, field, grows, help) \
	{ name, help, grows, offsetof(struct okv_stats, field) }
	STORE("keys", nr_keys, false, "Keys of all users."),
	STORE("device_live_bytes", live_bytes, false, "Bytes of live records with their headers."),
	STORE("device_capacity_bytes", capacity_bytes, false, "What live bytes can reach, about."),
	STORE("segments", nr_segments, false, "Segments of the device."),
	STORE("segments_free", nr_free_segments, false, "Segments without records."),
	STORE("index_bytes", index_bytes, false, "Memory of the index."),
	STORE("known_keys_bytes", known_bytes, false, "Memory for keys of recent records."),
	STORE("gets_total", nr_gets, true, "Values that were read."),
	STORE("puts_total", nr_puts, true, "Values that were written."),
	STORE("deletes_total", nr_deletes, true, "Keys that were deleted."),
	STORE("expired_keys_total", nr_expired, true, "Keys whose time had come."),
	STORE("device_batches_total", nr_batches, true, "Writes to the log."),
	STORE("device_batches_journaled_total", nr_journaled, true,
	      "Of the writes to the log, those whose heads went to a journal."),
	STORE("device_batch_bytes_total", batch_bytes, true, "Bytes of the writes to the log."),
	STORE("device_flushes_total", nr_flushes, true, "Flushes of the device."),
	STORE("checkpoints_total", nr_checkpoints, true, "Checkpoints."),
	STORE("gc_segments_total", nr_gc_segments, true, "Segments that were collected."),
	STORE("gc_bytes_total", gc_bytes, true, "Bytes that garbage collection has moved."),
	STORE("device_read_errors_total", nr_read_errors, true, "Reads that the device failed."),
	STORE("device_write_errors_total", nr_write_errors, true,
	      "Writes and flushes that the device failed."),
	STORE("device_write_retries_total", nr_retries, true,
	      "Times that failed writes of a partition were to be written again."),
	STORE("device_checksum_errors_total", nr_corrupt, true,
	      "Reads that did not return what was written."),
	STORE("refused_full_total", nr_full, true, "Writes refused for lack of room."),
	STORE("refused_memory_total", nr_no_memory, true, "Keys refused for lack of memory."),
};

static void write_store(struct page *p)
{
	uint64_t oldest_ns = server_oldest_io_ns(p->server);
	struct okv_stats sum;

	metrics_store(p->server, &sum);
	for (size_t i = 0; i < sizeof(store_metrics) / sizeof(store_metrics[0]); i++) {
		const uint64_t *value = (void *)((char *)&sum + store_metrics[i].offset);

		if (store_metrics[i].only_grows)
			counter(p, store_metrics[i].name, store_metrics[i].help, *value);
		else
			gauge(p, store_metrics[i].name, store_metrics[i].help, *value);
	}
	gauge(p, "partitions", "Partitions.", p->server->nr_partitions);
	gauge(p, "partitions_refusing_writes", "Partitions that refuse writes in an outage.",
	      sum.nr_refusing);
	gauge(p, "partitions_retrying_writes", "Partitions that try failed writes again.",
	      sum.nr_failing);
	about(p, "device_oldest_io_seconds", "gauge",
	      "Age of the oldest request of the device that is under way.");
	line(p, "octokvd_device_oldest_io_seconds %.3f",
	     oldest_ns ? passed_ns(oldest_ns, clock_ns(CLOCK_MONOTONIC)) / 1e9 : 0.0);
}

/* ---- reactors ---- */

static const struct {
	const char *name, *help;
	enum counter which;
} reactor_metrics[] = {
	{ "commands_total", "Commands.", COUNT_COMMANDS },
	{ "receive_bytes_total", "Bytes from clients.", COUNT_BYTES_IN },
	{ "transmit_bytes_total", "Bytes to clients.", COUNT_BYTES_OUT },
	{ "reactor_store_operations_total", "Operations on keys.", COUNT_STORE },
	{ "reactor_device_completions_total", "Requests that the device completed.", COUNT_DISK },
	{ "reactor_messages_total", "Messages from other reactors.", COUNT_MAIL },
	{ "reactor_wakes_total", "Reactors that were woken for a message.", COUNT_WAKES },
	{ "reactor_moves_total", "Partitions given to other reactors.", COUNT_MIGRATED },
};

static void write_reactors(struct page *p)
{
	const struct server *s = p->server;

	about(p, "connections", "gauge", "Connections.");
	for (uint32_t i = 0; i < s->nr_workers; i++)
		line(p, "octokvd_connections{reactor=\"%u\"} %" PRIu64, i,
		     __atomic_load_n(&s->workers[i]->nr_conns, __ATOMIC_RELAXED));
	about(p, "reactor_busy_seconds_total", "counter", "Processor time.");
	for (uint32_t i = 0; i < s->nr_workers; i++)
		line(p, "octokvd_reactor_busy_seconds_total{reactor=\"%u\"} %.6f", i,
		     worker_counter(s->workers[i], COUNT_BUSY_NS) / 1e9);
	for (size_t m = 0; m < sizeof(reactor_metrics) / sizeof(reactor_metrics[0]); m++) {
		about(p, reactor_metrics[m].name, "counter", reactor_metrics[m].help);
		for (uint32_t i = 0; i < s->nr_workers; i++)
			line(p, "octokvd_%s{reactor=\"%u\"} %" PRIu64, reactor_metrics[m].name, i,
			     worker_counter(s->workers[i], reactor_metrics[m].which));
	}
}

/* ---- fairness ---- */

static void ratio(struct page *p, const char *name, const char *help, uint32_t thousandths)
{
	about(p, name, "gauge", help);
	line(p, "octokvd_%s %.3f", name, thousandths / 1e3);
}

static void write_fairness(struct page *p)
{
	const struct tenants *t = p->server->tenants;
	struct monitor_figures figures;
	char text[LABEL_BYTES];

	if (!p->server->fairness)
		return;
	figures = monitor_read(p->server);
	ratio(p, "fairness_ratio", "F: the least slowdown of a user over the largest.",
	      figures.fairness);
	ratio(p, "load_balance_ratio", "LB: the least load of a reactor over the largest.",
	      figures.balance);
	about(p, "octofas_level", "gauge", "1: the level acts.");
	line(p, "octokvd_octofas_level{level=\"inter\"} %d", !!(figures.mode & MONITOR_INTER));
	line(p, "octokvd_octofas_level{level=\"intra\"} %d", !!(figures.mode & MONITOR_INTRA));
	about(p, "tenant_slowdown_ratio", "gauge",
	      "How much longer operations of the user take than alone; 0: not known.");
	for (uint32_t i = 0; i < t->nr; i++)
		line(p, "octokvd_tenant_slowdown_ratio{%s} %.3f",
		     label(text, "tenant", t->list[i]->name),
		     monitor_slowdown(p->server, t->list[i]->id) / 1e3);
}

/* ---- commands ---- */

enum group { GROUP_READ, GROUP_WRITE, GROUP_OTHER, NR_GROUPS };

static const char *const group_names[NR_GROUPS] = { "read", "write", "other" };

static enum group group_of(const struct command *c)
{
	if (c->flags & CMD_WRITE)
		return GROUP_WRITE;
	return c->first_key ? GROUP_READ : GROUP_OTHER;
}

static void add_histogram(struct histogram *sum, const struct histogram *h)
{
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->nr[i] += h->nr[i];
	sum->sum_ns += h->sum_ns;
}

static void sum_groups(struct scope scope, struct histogram *groups)
{
	struct command_metrics all[MAX_COMMANDS];
	const struct command *c;

	metrics_commands(scope, all);
	memset(groups, 0, NR_GROUPS * sizeof(*groups));
	for (uint32_t i = 0; (c = command_at(i)); i++)
		add_histogram(&groups[group_of(c)], &all[i].times);
}

static void write_commands(struct page *p)
{
	struct scope scope = { p->server, ALL_WORKERS, ALL_TENANTS };
	struct command_metrics all[MAX_COMMANDS];
	const struct command *c;

	metrics_commands(scope, all);
	about(p, "command_calls_total", "counter", "Commands that were run.");
	for (uint32_t i = 0; (c = command_at(i)); i++)
		line(p, "octokvd_command_calls_total{command=\"%s\"} %" PRIu64, c->name,
		     histogram_nr(&all[i].times));
	about(p, "command_rejected_total", "counter", "Commands that were refused, and not run.");
	for (uint32_t i = 0; (c = command_at(i)); i++)
		line(p, "octokvd_command_rejected_total{command=\"%s\"} %" PRIu64, c->name,
		     all[i].nr_rejected);
	about(p, "command_failed_total", "counter", "Commands that were run and replied an error.");
	for (uint32_t i = 0; (c = command_at(i)); i++)
		line(p, "octokvd_command_failed_total{command=\"%s\"} %" PRIu64, c->name,
		     all[i].nr_failed);
}

static void write_errors(struct page *p)
{
	struct tenant_metrics sum;

	metrics_tenant((struct scope){ p->server, ALL_WORKERS, ALL_TENANTS }, &sum);
	about(p, "error_replies_total", "counter", "Errors, by their first word.");
	for (uint32_t i = 0; i < NR_ERROR_KINDS; i++)
		line(p, "octokvd_error_replies_total{kind=\"%s\"} %" PRIu64, error_names[i],
		     sum.errors[i]);
}

static void write_times(struct page *p)
{
	char labels[LABEL_BYTES];

	about(p, "command_duration_seconds", "histogram", "From a command to its reply.");
	for (uint32_t w = 0; w < p->server->nr_workers; w++) {
		struct histogram groups[NR_GROUPS];

		sum_groups((struct scope){ p->server, w, ALL_TENANTS }, groups);
		for (int i = 0; i < NR_GROUPS; i++) {
			snprintf(labels, sizeof(labels), "group=\"%s\",reactor=\"%u\"",
				 group_names[i], w);
			histogram(p, "command_duration_seconds", labels, &groups[i]);
		}
	}
	about(p, "stage_duration_seconds", "histogram", "What commands wait for, by stage.");
	for (uint32_t w = 0; w < p->server->nr_workers; w++) {
		struct tenant_metrics sum;

		metrics_tenant((struct scope){ p->server, w, ALL_TENANTS }, &sum);
		for (int i = 0; i < NR_STAGES; i++) {
			snprintf(labels, sizeof(labels), "stage=\"%s\",reactor=\"%u\"",
				 stage_names[i], w);
			histogram(p, "stage_duration_seconds", labels, &sum.stages[i]);
		}
	}
}

/* ---- tenants ---- */

enum tenant_field {
	FIELD_CONNECTIONS, FIELD_KEYS, FIELD_KEYS_MAX, FIELD_BYTES, FIELD_BYTES_MAX, FIELD_IN,
	FIELD_OUT, FIELD_ERRORS, NR_FIELDS,
};

static const struct {
	const char *name, *type, *help;
} tenant_fields[NR_FIELDS] = {
	{ "tenant_connections", "gauge", "Connections of the user." },
	{ "tenant_keys", "gauge", "Keys of the user." },
	{ "tenant_keys_max", "gauge", "The limit of keys of the user; 0: none." },
	{ "tenant_stored_bytes", "gauge", "Bytes of the user on the device." },
	{ "tenant_stored_max_bytes", "gauge", "The limit of these bytes; 0: none." },
	{ "tenant_receive_bytes_total", "counter", "Bytes from clients of the user." },
	{ "tenant_transmit_bytes_total", "counter", "Bytes to clients of the user." },
	{ "tenant_error_replies_total", "counter", "Errors for the user." },
};

static struct scope of_tenant(const struct page *p, const struct tenant *tenant)
{
	return (struct scope){ p->server, ALL_WORKERS, tenant->id };
}

static uint64_t field_of(const struct page *p, const struct tenant *tenant,
			 enum tenant_field field)
{
	struct tenant_usage usage;
	struct tenant_metrics sum;
	uint64_t nr_errors = 0;

	tenant_sum(tenant, p->server->nr_workers, &usage);
	metrics_tenant(of_tenant(p, tenant), &sum);
	for (int i = 0; i < NR_ERROR_KINDS; i++)
		nr_errors += sum.errors[i];
	switch (field) {
	case FIELD_CONNECTIONS:
		return __atomic_load_n(&tenant->nr_connections, __ATOMIC_RELAXED);
	case FIELD_KEYS:
		return usage.nr_keys;
	case FIELD_KEYS_MAX:
		return tenant->max_keys;
	case FIELD_BYTES:
		return usage.nr_bytes;
	case FIELD_BYTES_MAX:
		return tenant->max_bytes;
	case FIELD_IN:
		return sum.bytes_in;
	case FIELD_OUT:
		return sum.bytes_out;
	default:
		return nr_errors;
	}
}

static void write_tenants(struct page *p)
{
	const struct tenants *t = p->server->tenants;
	char text[LABEL_BYTES];

	for (int field = 0; field < NR_FIELDS; field++) {
		about(p, tenant_fields[field].name, tenant_fields[field].type,
		      tenant_fields[field].help);
		for (uint32_t i = 0; i < t->nr; i++)
			line(p, "octokvd_%s{%s} %" PRIu64, tenant_fields[field].name,
			     label(text, "tenant", t->list[i]->name),
			     field_of(p, t->list[i], field));
	}
}

static void tenant_histogram(struct page *p, const char *name, const struct tenant *tenant,
			     const char *by, const char *value, const struct histogram *h)
{
	char text[LABEL_BYTES], labels[LABEL_BYTES + 64];

	if (!histogram_nr(h))
		return;
	snprintf(labels, sizeof(labels), "%s,%s=\"%s\"", label(text, "tenant", tenant->name), by,
		 value);
	histogram(p, name, labels, h);
}

static void write_tenant_times(struct page *p)
{
	const struct tenants *t = p->server->tenants;

	about(p, "tenant_command_duration_seconds", "histogram",
	      "From a command of the user to its reply.");
	for (uint32_t i = 0; i < t->nr; i++) {
		struct histogram groups[NR_GROUPS];

		sum_groups(of_tenant(p, t->list[i]), groups);
		for (int g = 0; g < NR_GROUPS; g++)
			tenant_histogram(p, "tenant_command_duration_seconds", t->list[i], "group",
					 group_names[g], &groups[g]);
	}
	about(p, "tenant_stage_duration_seconds", "histogram",
	      "What commands of the user wait for, by stage.");
	for (uint32_t i = 0; i < t->nr; i++) {
		struct tenant_metrics sum;

		metrics_tenant(of_tenant(p, t->list[i]), &sum);
		for (int stage = 0; stage < NR_STAGES; stage++)
			tenant_histogram(p, "tenant_stage_duration_seconds", t->list[i], "stage",
					 stage_names[stage], &sum.stages[stage]);
	}
}

char *prometheus_page(const struct server *server, size_t *len)
{
	struct page p = { .server = server, .first_cap = FIRST_BYTES + *len / 8 * 9 };

	write_server(&p);
	write_memory(&p);
	write_store(&p);
	write_reactors(&p);
	write_fairness(&p);
	write_commands(&p);
	write_errors(&p);
	write_times(&p);
	write_tenants(&p);
	write_tenant_times(&p);
	if (p.failed) {
		mem_free(p.text);
		return NULL;
	}
	*len = p.len;
	return p.text;
}
