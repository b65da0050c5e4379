// SPDX-License-Identifier: GPL-2.0
/* stats.c - counters as text; stats.h lists the sections */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cluster/map.h"
#include "command.h"
#include "fair/monitor.h"
#include "metrics.h"
#include "stats.h"
#include "store/mem.h"
#include "tenant.h"

struct page {
	struct resp_out *out;
	const struct worker *w;
	const struct tenant *tenant;
	const struct okv_stats *store;
	uint64_t nr_keys;
};

__attribute__((format(printf, 2, 3))) static void line(struct page *p, const char *format, ...)
{
	char text[512];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text) - 2, format, args);
	va_end(args);
	if (len > (int)sizeof(text) - 3)
		len = sizeof(text) - 3;
	memcpy(text + len, "\r\n", 2);
	resp_raw(p->out, text, len + 2);
}

static uint64_t sum(const struct page *p, enum counter which)
{
	return server_sum(p->w->server, which);
}

static void write_server(struct page *p)
{
	const struct server *s = p->w->server;
	uint64_t up_s = (p->w->now_ms - s->started_ms) / 1000;

	line(p, "redis_version:" REDIS_VERSION);
	line(p, "octokvd_version:" OCTOKVD_VERSION);
	line(p, "redis_mode:%s", s->cluster ? "cluster" : "standalone");
	if (p->tenant->is_admin)
		line(p, "process_id:%d", getpid());
	line(p, "tcp_port:%u", s->config.port);
	line(p, "uptime_in_seconds:%" PRIu64, up_s);
	line(p, "uptime_in_days:%" PRIu64, up_s / 86400);
	line(p, "reactors:%u", s->nr_workers);
	if (p->tenant->is_admin)
		line(p, "data:%s", s->config.data);
}

static void write_clients(struct page *p)
{
	uint64_t nr = 0;

	if (!p->tenant->is_admin) {
		line(p, "connected_clients:%u",
		     __atomic_load_n(&p->tenant->nr_connections, __ATOMIC_RELAXED));
		return;
	}
	for (uint32_t i = 0; i < p->w->server->nr_workers; i++)
		nr += __atomic_load_n(&p->w->server->workers[i]->nr_conns, __ATOMIC_RELAXED);
	line(p, "connected_clients:%" PRIu64, nr);
	line(p, "maxclients:%u", config_number(&p->w->server->config.max_connections));
	line(p, "clients_not_logged_in:%u",
	     __atomic_load_n(&p->w->server->nr_strangers, __ATOMIC_RELAXED));
	line(p, "blocked_clients:0");
}

static void write_memory(struct page *p)
{
	struct mem_numbers mem;

	mem_numbers(&mem);
	line(p, "used_memory:%" PRIu64, mem.used_bytes);
	line(p, "index_bytes:%" PRIu64, p->store->index_bytes);
	line(p, "index_bytes_per_key:%.1f",
	     p->store->nr_keys ? (double)p->store->index_bytes / p->store->nr_keys : 0.0);
	line(p, "known_keys_bytes:%" PRIu64, p->store->known_bytes);
	line(p, "maxmemory:%" PRIu64, mem.limit_bytes == UINT64_MAX ? 0 : mem.limit_bytes);
	line(p, "maxmemory_policy:noeviction");
	line(p, "refused_memory:%" PRIu64, p->store->nr_no_memory);
	line(p, "memory_waits:%" PRIu64, mem.nr_short);
}

static uint64_t oldest_io_ms(const struct page *p)
{
	uint64_t oldest_ns = server_oldest_io_ns(p->w->server);

	return oldest_ns && p->w->now_ns > oldest_ns ? (p->w->now_ns - oldest_ns) / 1000000 : 0;
}

/* Of several words the one that an operator has to know first. */
static void write_health(struct page *p)
{
	uint64_t oldest_ms = oldest_io_ms(p);
	uint32_t nr_left_out = __atomic_load_n(&p->w->server->nr_left_out, __ATOMIC_RELAXED);

	line(p, "health:%s", !server_is_sure(p->w->server) ? "cut-off" : nr_left_out ? "damaged" :
	     p->store->nr_refusing ? "refusing" : p->store->nr_failing ? "failing" :
	     oldest_ms >= SLOW_IO_MS ? "slow" : "ok");
	line(p, "partitions_left_out:%u", nr_left_out);
	line(p, "oldest_io_ms:%" PRIu64, oldest_ms);
	line(p, "partitions_refusing_writes:%u", p->store->nr_refusing);
	line(p, "partitions_retrying_writes:%u", p->store->nr_failing);
}

static void write_persistence(struct page *p)
{
	const struct server *s = p->w->server;

	line(p, "loading:0");
	line(p, "rdb_bgsave_in_progress:%d", __atomic_load_n(&s->is_saving, __ATOMIC_RELAXED));
	line(p, "latest_fork_usec:%" PRIu64, __atomic_load_n(&s->fork_us, __ATOMIC_RELAXED));
	line(p, "rdb_last_save_time:%" PRIu64, __atomic_load_n(&s->saved_s, __ATOMIC_RELAXED));
	line(p, "rdb_last_bgsave_status:%s",
	     __atomic_load_n(&s->save_failed, __ATOMIC_RELAXED) ? "err" : "ok");
	line(p, "aof_enabled:1");
	line(p, "aof_last_write_status:%s", p->store->nr_refusing ? "err" : "ok");
	line(p, "device_live_bytes:%" PRIu64, p->store->live_bytes);
	line(p, "device_capacity_bytes:%" PRIu64, p->store->capacity_bytes);
	line(p, "segments:%" PRIu64, p->store->nr_segments);
	line(p, "free_segments:%" PRIu64, p->store->nr_free_segments);
	line(p, "write_batches:%" PRIu64, p->store->nr_batches);
	line(p, "journaled_batches:%" PRIu64, p->store->nr_journaled);
	line(p, "write_batch_bytes:%" PRIu64, p->store->batch_bytes);
	line(p, "expiry_records:%" PRIu64, p->store->nr_expiries);
	line(p, "joined_writes:%" PRIu64, p->store->nr_joined);
	line(p, "compressed_values:%" PRIu64, p->store->nr_compressed);
	line(p, "compression_saved_bytes:%" PRIu64, p->store->saved_bytes);
	line(p, "flushes:%" PRIu64, p->store->nr_flushes);
	line(p, "checkpoints:%" PRIu64, p->store->nr_checkpoints);
	line(p, "gc_segments:%" PRIu64, p->store->nr_gc_segments);
	line(p, "trimmed_segments:%" PRIu64, p->store->nr_trimmed_segments);
	line(p, "gc_bytes:%" PRIu64, p->store->gc_bytes);
	line(p, "replayed_records:%" PRIu64, p->store->nr_replayed_records);
	line(p, "checksum_errors:%" PRIu64, p->store->nr_corrupt);
	line(p, "read_errors:%" PRIu64, p->store->nr_read_errors);
	line(p, "write_errors:%" PRIu64, p->store->nr_write_errors);
	line(p, "write_retries:%" PRIu64, p->store->nr_retries);
	line(p, "known_headers:%" PRIu64, p->store->nr_known_headers);
	line(p, "refused_full:%" PRIu64, p->store->nr_full);
}

static void write_stats(struct page *p)
{
	line(p, "total_connections_received:%" PRIu64, sum(p, COUNT_CONNECTIONS));
	line(p, "total_commands_processed:%" PRIu64, sum(p, COUNT_COMMANDS));
	line(p, "total_net_input_bytes:%" PRIu64, sum(p, COUNT_BYTES_IN));
	line(p, "total_net_output_bytes:%" PRIu64, sum(p, COUNT_BYTES_OUT));
	line(p, "rejected_connections:%" PRIu64, sum(p, COUNT_REFUSED));
	line(p, "timed_out_connections:%" PRIu64, sum(p, COUNT_TIMEOUTS));
	line(p, "wrong_passwords:%" PRIu64, sum(p, COUNT_WRONG_PASSWORDS));
	line(p, "tls_connections_received:%" PRIu64,
	     __atomic_load_n(&p->w->server->nr_tls, __ATOMIC_RELAXED));
	line(p, "tls_handshakes_failed:%" PRIu64,
	     __atomic_load_n(&p->w->server->nr_tls_failed, __ATOMIC_RELAXED));
	line(p, "tls_certificate_until:%" PRId64,
	     __atomic_load_n(&p->w->server->tls_until_s, __ATOMIC_RELAXED));
	line(p, "total_error_replies:%" PRIu64, sum(p, COUNT_ERRORS));
	line(p, "keyspace_hits:%" PRIu64, sum(p, COUNT_HITS));
	line(p, "keyspace_misses:%" PRIu64, sum(p, COUNT_MISSES));
	line(p, "expired_keys:%" PRIu64, p->store->nr_expired);
	line(p, "evicted_keys:0");
}

static void write_replication(struct page *p)
{
	line(p, "role:master");
	line(p, "connected_slaves:0");
}

static void write_tenant(struct page *p, const struct tenant *tenant)
{
	struct tenant_usage usage;

	tenant_sum(tenant, p->w->server->nr_workers, &usage);
	line(p,
	     "tenant%u:name=%s,weight=%u,ioprio=%u,connections=%u,requests=%" PRIu64
	     ",max_bytes=%" PRIu64 ",max_keys=%" PRIu64 ",slowdown=%.3f",
	     tenant->id, tenant->name, tenant->weight, tenant->ioprio,
	     __atomic_load_n(&tenant->nr_connections, __ATOMIC_RELAXED), usage.nr_requests,
	     tenant->max_bytes, tenant->max_keys,
	     p->w->server->fairness ? monitor_slowdown(p->w->server, tenant->id) / 1e3 : 0);
}

static void write_tenants(struct page *p)
{
	const struct tenants *t = p->w->server->tenants;

	for (uint32_t i = 0; i < t->nr; i++)
		if (t->list[i] == p->tenant || p->tenant->is_admin)
			write_tenant(p, t->list[i]);
}

static void write_monitor(struct page *p)
{
	struct monitor_figures figures = monitor_read(p->w->server);

	line(p, "octofas_mode:%s", monitor_modes[figures.mode]);
	line(p, "octofas_fairness:%.3f", figures.fairness / 1e3);
	line(p, "octofas_load_balance:%.3f", figures.balance / 1e3);
}

static void write_reactors(struct page *p)
{
	const struct server *s = p->w->server;

	if (s->fairness)
		write_monitor(p);
	for (uint32_t i = 0; i < s->nr_workers; i++) {
		const struct worker *w = s->workers[i];

		line(p,
		     "reactor%u:connections=%" PRIu64 ",network=%" PRIu64 ",store=%" PRIu64
		     ",disk=%" PRIu64 ",mail=%" PRIu64 ",wakes=%" PRIu64 ",busy_us=%" PRIu64
		     ",migrated=%" PRIu64,
		     i, __atomic_load_n(&w->nr_conns, __ATOMIC_RELAXED),
		     worker_counter(w, COUNT_NETWORK), worker_counter(w, COUNT_STORE),
		     worker_counter(w, COUNT_DISK), worker_counter(w, COUNT_MAIL),
		     worker_counter(w, COUNT_WAKES), worker_counter(w, COUNT_BUSY_NS) / 1000,
		     worker_counter(w, COUNT_MIGRATED));
	}
}

/* ---- what Redis has of commands ---- */

static struct scope scope_of(const struct page *p)
{
	return (struct scope){
		.server = p->w->server, .worker = ALL_WORKERS,
		.tenant = p->tenant->is_admin ? ALL_TENANTS : p->tenant->id,
	};
}

static void write_commandstats(struct page *p)
{
	struct command_metrics all[MAX_COMMANDS];
	const struct command *c;

	metrics_commands(scope_of(p), all);
	for (uint32_t i = 0; (c = command_at(i)); i++) {
		uint64_t nr = histogram_nr(&all[i].times), us = all[i].times.sum_ns / 1000;

		if (nr || all[i].nr_rejected)
			line(p, "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64 ",usec_per_call=%.2f"
			     ",rejected_calls=%" PRIu64 ",failed_calls=%" PRIu64, c->name, nr, us,
			     nr ? (double)us / nr : 0.0, all[i].nr_rejected, all[i].nr_failed);
	}
}

static void write_errorstats(struct page *p)
{
	struct tenant_metrics sum;

	metrics_tenant(scope_of(p), &sum);
	for (int i = 0; i < NR_ERROR_KINDS; i++)
		if (sum.errors[i])
			line(p, "errorstat_%s:count=%" PRIu64, error_names[i], sum.errors[i]);
}

static void write_latencystats(struct page *p)
{
	struct command_metrics all[MAX_COMMANDS];
	const struct command *c;

	metrics_commands(scope_of(p), all);
	for (uint32_t i = 0; (c = command_at(i)); i++)
		if (histogram_nr(&all[i].times))
			line(p, "latency_percentiles_usec_%s:p50=%" PRIu64 ".000,p99=%" PRIu64
			     ".000,p99.9=%" PRIu64 ".000", c->name,
			     histogram_us(&all[i].times, 500000),
			     histogram_us(&all[i].times, 990000),
			     histogram_us(&all[i].times, 999000));
}

static void write_cluster(struct page *p)
{
	const struct cluster *c = p->w->server->cluster;

	line(p, "cluster_enabled:%d", c != NULL);
	if (c)
		line(p, "cluster_epoch:%" PRIu64, c->epoch);
}

static void write_keyspace(struct page *p)
{
	if (p->nr_keys)
		line(p, "db0:keys=%" PRIu64 ",expires=0,avg_ttl=0", p->nr_keys);
}

static const struct {
	const char *name;
	const char *title;
	bool for_admins;
	void (*write)(struct page *p);
	bool is_long;			/* not in INFO without a section */
} sections[] = {
	{ "server", "Server", false, write_server },
	{ "clients", "Clients", false, write_clients },
	{ "memory", "Memory", true, write_memory },
	{ "health", "Health", false, write_health },
	{ "persistence", "Persistence", true, write_persistence },
	{ "stats", "Stats", true, write_stats },
	{ "replication", "Replication", false, write_replication },
	{ "tenants", "Tenants", false, write_tenants },
	{ "reactors", "Reactors", true, write_reactors },
	{ "commandstats", "Commandstats", false, write_commandstats, true },
	{ "errorstats", "Errorstats", false, write_errorstats },
	{ "latencystats", "Latencystats", false, write_latencystats, true },
	{ "cluster", "Cluster", false, write_cluster },
	{ "keyspace", "Keyspace", false, write_keyspace },
};

void stats_write(struct resp_out *out, const struct worker *w, const struct tenant *tenant,
		 const struct okv_stats *store, uint64_t nr_keys, const char *section)
{
	struct page page = { out, w, tenant, store, nr_keys };
	bool usual = !*section || !strcasecmp(section, "default");
	bool all = !strcasecmp(section, "all") || !strcasecmp(section, "everything");

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (!all && !(usual && !sections[i].is_long) &&
		    strcasecmp(section, sections[i].name))
			continue;
		if (sections[i].for_admins && !tenant->is_admin)
			continue;
		if (out->nr_bytes)
			line(&page, "%s", "");
		line(&page, "# %s", sections[i].title);
		sections[i].write(&page);
	}
}
