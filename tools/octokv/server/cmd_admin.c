// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_admin.c - commands to look after a running octokvd: CLIENT, CONFIG, LATENCY, SLOWLOG
 *
 * A tenant sees and ends its own connections, and sees its own figures. A tenant with admin sees
 * and ends those of all, and only it changes settings.
 *
 * CLIENT LIST has the fields that clients expect, and no others: some client libraries refuse a
 * line with a field that they do not know. What octokvd does not have is 0 there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "command.h"
#include "store/mem.h"
#include "tenant.h"

#define SYNTAX "ERR syntax error"
#define NO_PERMISSION "NOPERM only a user with admin in the users file may do this"

enum {
	MAX_CONFIG_PATTERNS	= 16,
	MAX_CONFIG_BYTES	= 64,		/* of each of them */
	MAX_IDS			= 64,		/* of CLIENT LIST: each is looked for in all */
	MAX_LATENCY_NAMES	= 64,
	LINE_BYTES		= 768,
	SLOWLOG_GET_DEFAULT	= 10,
};

static void reply_ok(struct request *r)
{
	resp_simple(&r->out, "OK");
	request_done(r);
}

/* ---- CLIENT: lines ---- */

static int client_line(const struct conn *c, char *text, size_t bytes)
{
	const struct worker *w = c->worker;
	size_t input = resp_held_bytes(&c->parser);
	uint64_t held = sizeof(*c) + input + c->out.nr_bytes + c->command_bytes + c->kept_bytes;
	char address[CONN_ADDRESS_BYTES];

	conn_address(c, address, sizeof(address));
	return snprintf(text, bytes,
			"id=%" PRIu64 " addr=%s fd=-1 name=%s age=%" PRIu64 " idle=%" PRIu64
			" flags=%s db=0 sub=0 psub=0 ssub=0 multi=%d watch=%u qbuf=%zu qbuf-free=0"
			" argv-mem=%" PRIu64 " multi-mem=%" PRIu64 " rbs=0 rbp=0 obl=0 oll=%u"
			" omem=%zu tot-mem=%" PRIu64 " events=%s cmd=%s user=%s redir=-1 resp=%d"
			" lib-name=%s lib-ver=%s\n",
			c->id, address, c->name, (w->now_ns - c->since_ns) / 1000000000,
			(w->now_ns - c->moved_ns) / 1000000000, c->multi_is_open ? "x" : "N",
			c->multi_is_open ? (int)c->nr_kept : -1, c->nr_watched, input,
			c->command_bytes, c->kept_bytes, c->nr_requests, c->out.nr_bytes, held,
			c->out.nr_bytes ? "rw" : "r",
			c->last_command ? c->last_command->name : "NULL",
			c->tenant ? c->tenant->name : "", c->out.resp3 ? 3 : 2, c->library,
			c->library_version);
}

/* ---- CLIENT: which connections ---- */

/* NULL and 0: any. The IDs are arguments from @first_id to before @end_id. */
struct filter {
	const struct request *r;
	uint32_t first_id, end_id, address, user;
	int64_t min_age_s;
	bool others_only;		/* not our own */
	bool no_type;			/* a type of connection that there is not */
};

static bool is_id(const struct request *r, uint32_t i)
{
	int64_t id;

	return req_int(r, i, &id) && id >= 0;
}

/* TYPE NAME; all connections are normal. */
static bool parse_type(const struct request *r, uint32_t i, struct filter *f)
{
	static const char *const types[] = { "normal", "master", "replica", "slave", "pubsub" };

	for (size_t type = 0; type < sizeof(types) / sizeof(types[0]); type++) {
		if (!req_is(r, i, types[type]))
			continue;
		f->no_type |= type;
		return true;
	}
	return false;
}

/* CLIENT LIST [TYPE T] [ID N...] */
static bool parse_list(const struct request *r, struct filter *f)
{
	*f = (struct filter){ .r = r };
	for (uint32_t i = 2; i < req_nr(r); i++) {
		if (req_is(r, i, "type") && i + 1 < req_nr(r) && parse_type(r, i + 1, f)) {
			i++;
		} else if (req_is(r, i, "id") && !f->first_id && i + 1 < req_nr(r)) {
			f->first_id = f->end_id = i + 1;
			while (f->end_id < req_nr(r) && is_id(r, f->end_id))
				f->end_id++;
			if (f->end_id == f->first_id || f->end_id - f->first_id > MAX_IDS)
				return false;
			i = f->end_id - 1;
		} else {
			return false;
		}
	}
	return true;
}

static bool parse_kill_option(const struct request *r, uint32_t i, struct filter *f)
{
	if (req_is(r, i, "id") && is_id(r, i + 1)) {
		f->first_id = i + 1;
		f->end_id = i + 2;
	} else if (req_is(r, i, "addr")) {
		f->address = i + 1;
	} else if (req_is(r, i, "user")) {
		f->user = i + 1;
	} else if (req_is(r, i, "skipme") &&
		   (req_is(r, i + 1, "yes") || req_is(r, i + 1, "no"))) {
		f->others_only = req_is(r, i + 1, "yes");
	} else if (req_is(r, i, "maxage")) {
		return req_int(r, i + 1, &f->min_age_s) && f->min_age_s >= 0;
	} else {
		return req_is(r, i, "type") && parse_type(r, i + 1, f);
	}
	return true;
}

/* CLIENT KILL ADDRESS, or pairs of a word and a value. */
static bool parse_kill(const struct request *r, struct filter *f)
{
	*f = (struct filter){ .r = r, .others_only = req_nr(r) > 3 };
	if (req_nr(r) == 3)
		f->address = 2;
	for (uint32_t i = 2; req_nr(r) > 3 && i < req_nr(r); i += 2)
		if (i + 1 == req_nr(r) || !parse_kill_option(r, i, f))
			return false;
	return req_nr(r) > 2;
}

static bool is_text(const struct request *r, uint32_t i, const char *text)
{
	return strlen(text) == req_len(r, i) && !memcmp(text, req_arg(r, i), req_len(r, i));
}

static bool has_id(const struct filter *f, const struct conn *c)
{
	int64_t id;

	for (uint32_t i = f->first_id; i < f->end_id; i++)
		if (req_int(f->r, i, &id) && (uint64_t)id == c->id)
			return true;
	return !f->first_id;
}

static bool is_wanted(const struct filter *f, const struct conn *c)
{
	const struct tenant *tenant = f->r->tenant;
	char address[CONN_ADDRESS_BYTES];

	if (c->dead || f->no_type || (!tenant->is_admin && c->tenant != tenant) ||
	    (f->others_only && c == f->r->conn) || !has_id(f, c))
		return false;
	if (f->user && (!c->tenant || !is_text(f->r, f->user, c->tenant->name)))
		return false;
	conn_address(c, address, sizeof(address));
	return (!f->address || is_text(f->r, f->address, address)) &&
	       (int64_t)((c->worker->now_ns - c->since_ns) / 1000000000) >= f->min_age_s;
}

static void list_clients(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	struct filter filter;
	char text[LINE_BYTES];

	parse_list(job->request, &filter);
	for (const struct conn *c = w->conns; c; c = c->next)
		if (is_wanted(&filter, c))
			resp_raw(&job->out, text, client_line(c, text, sizeof(text)));
	worker_return(w, msg);
}

/* Our own connection ends behind its reply. */
static void kill_clients(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	struct filter filter;
	struct conn *c, *next;

	parse_kill(job->request, &filter);
	for (c = w->conns; c; c = next) {
		next = c->next;
		if (!is_wanted(&filter, c))
			continue;
		job->nr++;
		if (c == job->request->conn)
			c->closing = true;
		else
			w->end(w, c);
	}
	worker_return(w, msg);
}

static void finish_kill(struct request *r)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < r->nr_ops; i++)
		nr += r->jobs[i].nr;
	if (req_nr(r) > 3)
		resp_int(&r->out, nr);
	else if (nr)
		resp_simple(&r->out, "OK");
	else
		resp_error(&r->out, "ERR No such client");
}

static void finish_client(struct request *r)
{
	struct resp_out all = { 0 };

	if (req_is(r, 1, "kill")) {
		finish_kill(r);
		return;
	}
	for (uint32_t i = 0; i < r->nr_ops; i++)
		resp_out_splice(&all, &r->jobs[i].out);
	request_reply_text(r, &all);
}

/* ---- CLIENT: our own ---- */

static void set_info(struct request *r)
{
	struct conn *c = r->conn;
	bool is_name = req_is(r, 2, "lib-name");

	if (!is_name && !req_is(r, 2, "lib-ver")) {
		request_fail(r, "ERR Unrecognized option '%.*s'", request_shown(r, 2),
			     req_arg(r, 2));
		return;
	}
	conn_keep_name(is_name ? c->library : c->library_version, req_arg(r, 3), req_len(r, 3));
	reply_ok(r);
}

static void set_name(struct request *r)
{
	if (conn_keep_name(r->conn->name, req_arg(r, 2), req_len(r, 2)))
		reply_ok(r);
	else
		request_fail(r, "ERR Client names cannot contain spaces, newlines or special "
			     "characters.");
}

static void get_name(struct request *r)
{
	if (r->conn->name[0])
		resp_string(&r->out, r->conn->name);
	else
		resp_null(&r->out);
	request_done(r);
}

static void show_own(struct request *r)
{
	char text[LINE_BYTES];

	resp_text(&r->out, text, client_line(r->conn, text, sizeof(text)));
	request_done(r);
}

static void start_client(struct request *r)
{
	struct filter filter;

	if (req_is(r, 1, "id")) {
		resp_int(&r->out, r->conn->id);
		request_done(r);
	} else if (req_is(r, 1, "getname")) {
		get_name(r);
	} else if (req_is(r, 1, "setname") && req_nr(r) == 3) {
		set_name(r);
	} else if (req_is(r, 1, "setinfo") && req_nr(r) == 4) {
		set_info(r);
	} else if ((req_is(r, 1, "no-evict") || req_is(r, 1, "no-touch")) && req_nr(r) == 3) {
		reply_ok(r);
	} else if (req_is(r, 1, "info")) {
		show_own(r);
	} else if (req_is(r, 1, "list") && parse_list(r, &filter)) {
		request_to_all_workers(r, list_clients);
	} else if (req_is(r, 1, "kill") && parse_kill(r, &filter)) {
		request_to_all_workers(r, kill_clients);
	} else if (req_is(r, 1, "list") || req_is(r, 1, "kill")) {
		request_fail(r, SYNTAX);
	} else {
		request_fail(r, "ERR unknown subcommand '%.*s'. Try CLIENT ID, LIST, INFO, KILL, "
			     "SETNAME, GETNAME, SETINFO.", request_shown(r, 1), req_arg(r, 1));
	}
}

/* ---- CONFIG ---- */

/* A setting with @text never changes; else @number or @wide is what it changes. */
struct setting {
	const char *name;
	const char *text;
	uint32_t *number;
	int64_t *wide;
	int64_t min, max;
};

enum { NR_SETTINGS = 10, MEMORY_TEXT_BYTES = 24 };

/* @memory has room for a number. */
static void list_settings(struct server *s, struct setting *settings, char *memory)
{
	struct config *c = &s->config;
	const struct setting all[NR_SETTINGS] = {
		{ "save", "" }, { "appendonly", "yes" }, { "appendfsync", "always" },
		{ "databases", "1" }, { "maxmemory-policy", "noeviction" }, { "maxmemory", memory },
		{ "maxclients", NULL, &c->max_connections, NULL, 1, c->max_connections_limit },
		{ "timeout", NULL, &c->idle_timeout_s, NULL, 0, 1 << 30 },
		{ "slowlog-log-slower-than", NULL, NULL, &c->slow_us, -1, INT64_MAX },
		{ "slowlog-max-len", NULL, &c->nr_slow, NULL, 0, SLOWLOG_LEN_MAX },
	};

	snprintf(memory, MEMORY_TEXT_BYTES, "%" PRIu64, c->memory_bytes);
	memcpy(settings, all, sizeof(all));
}

static void reply_setting(struct resp_out *out, const struct setting *s)
{
	char number[24];

	resp_string(out, s->name);
	if (s->number)
		snprintf(number, sizeof(number), "%u", config_number(s->number));
	else if (s->wide)
		snprintf(number, sizeof(number), "%" PRId64,
			 __atomic_load_n(s->wide, __ATOMIC_RELAXED));
	resp_string(out, s->text ? s->text : number);
}

static void config_get(struct request *r)
{
	struct setting settings[NR_SETTINGS];
	char memory[MEMORY_TEXT_BYTES];
	bool hit[NR_SETTINGS] = { 0 };
	size_t nr = 0;

	for (uint32_t arg = 2; arg < req_nr(r); arg++) {
		if (req_nr(r) > 2 + MAX_CONFIG_PATTERNS || req_len(r, arg) > MAX_CONFIG_BYTES) {
			request_fail(r, SYNTAX);
			return;
		}
	}
	list_settings(r->conn->worker->server, settings, memory);
	for (size_t i = 0; i < NR_SETTINGS; i++) {
		for (uint32_t arg = 2; arg < req_nr(r); arg++)
			hit[i] |= glob_match(req_arg(r, arg), req_len(r, arg), settings[i].name,
					     strlen(settings[i].name));
		nr += hit[i];
	}
	resp_map(&r->out, nr);
	for (size_t i = 0; i < NR_SETTINGS; i++)
		if (hit[i])
			reply_setting(&r->out, &settings[i]);
	request_done(r);
}

/* The setting that argument @i names, if the next one is a value for it; NULL: @r has failed. */
static const struct setting *setting_of(struct request *r, uint32_t i,
					const struct setting *settings, int64_t *value)
{
	const struct setting *s = settings, *end = settings + NR_SETTINGS;

	while (s < end && !req_is(r, i, s->name))
		s++;
	if (s == end)
		request_fail(r, "ERR CONFIG SET does not know '%.*s'. It changes maxclients, "
			     "timeout, slowlog-log-slower-than, slowlog-max-len.",
			     request_shown(r, i), req_arg(r, i));
	else if (s->text)
		request_fail(r, "ERR '%s' cannot be changed while octokvd runs", s->name);
	else if (!req_int(r, i + 1, value) || *value < s->min || *value > s->max)
		request_fail(r, "ERR '%s' is a number from %lld to %lld", s->name,
			     (long long)s->min, (long long)s->max);
	else
		return s;
	return NULL;
}

/* All of them, or none. */
static void config_set(struct request *r)
{
	struct setting settings[NR_SETTINGS];
	char memory[MEMORY_TEXT_BYTES];
	const struct setting *s;
	int64_t value;

	list_settings(r->conn->worker->server, settings, memory);
	if (req_nr(r) < 4 || req_nr(r) % 2 || req_nr(r) > 2 + 2 * NR_SETTINGS) {
		request_fail(r, SYNTAX);
		return;
	}
	for (uint32_t i = 2; i < req_nr(r); i += 2)
		if (!setting_of(r, i, settings, &value))
			return;
	for (uint32_t i = 2; i < req_nr(r); i += 2) {
		s = setting_of(r, i, settings, &value);
		if (s->number)
			__atomic_store_n(s->number, value, __ATOMIC_RELAXED);
		else
			__atomic_store_n(s->wide, value, __ATOMIC_RELAXED);
	}
	reply_ok(r);
}

static void reset_counters(struct worker *w, struct kv_msg *msg)
{
	metrics_reset(w);
	/* The balancer and the log compare the others with what they were. */
	for (int i = 0; i < COUNT_NETWORK; i++)
		__atomic_store_n(&w->counters[i], 0, __ATOMIC_RELAXED);
	worker_return(w, msg);
}

static void finish_reset(struct request *r)
{
	resp_simple(&r->out, "OK");
}

static void start_config(struct request *r)
{
	bool changes = req_is(r, 1, "set") || req_is(r, 1, "resetstat");

	if (req_is(r, 1, "get") && req_nr(r) > 2)
		config_get(r);
	else if (changes && !r->tenant->is_admin)
		request_fail(r, NO_PERMISSION);
	else if (req_is(r, 1, "set"))
		config_set(r);
	else if (req_is(r, 1, "resetstat") && req_nr(r) == 2)
		request_to_all_workers(r, reset_counters);
	else
		request_fail(r, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			     "Try CONFIG GET, SET, RESETSTAT.", request_shown(r, 1), req_arg(r, 1));
}

/* ---- LATENCY ---- */

static struct scope scope_of(const struct request *r)
{
	return (struct scope){
		.server = r->conn->worker->server, .worker = ALL_WORKERS,
		.tenant = r->tenant->is_admin ? ALL_TENANTS : r->tenant->id,
	};
}

static bool is_asked(const struct request *r, const char *name)
{
	bool asked = req_nr(r) == 2;

	for (uint32_t i = 2; i < req_nr(r); i++)
		asked |= req_is(r, i, name);
	return asked;
}

/* The number of requests up to the end of each bucket that has some. */
static void reply_histogram(struct resp_out *out, const struct histogram *h)
{
	uint64_t nr = 0;
	size_t nr_used = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		nr_used += h->nr[i] != 0;
	resp_map(out, 2);
	resp_string(out, "calls");
	resp_int(out, histogram_nr(h));
	resp_string(out, "histogram_usec");
	resp_map(out, nr_used);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		nr += h->nr[i];
		if (!h->nr[i])
			continue;
		resp_int(out, histogram_bound_us(i));
		resp_int(out, nr);
	}
}

static void reply_histograms(struct request *r)
{
	struct command_metrics all[MAX_COMMANDS];
	const struct command *c;
	size_t nr = 0;

	metrics_commands(scope_of(r), all);
	for (uint32_t i = 0; (c = command_at(i)); i++) {
		if (!is_asked(r, c->name))
			all[i] = (struct command_metrics){ 0 };
		nr += histogram_nr(&all[i].times) != 0;
	}
	resp_map(&r->out, nr);
	for (uint32_t i = 0; (c = command_at(i)); i++) {
		if (!histogram_nr(&all[i].times))
			continue;
		resp_string(&r->out, c->name);
		reply_histogram(&r->out, &all[i].times);
	}
	request_done(r);
}

static void reply_doctor(struct request *r)
{
	struct tenant_metrics sum;
	char text[1024];
	int len = 0;

	metrics_tenant(scope_of(r), &sum);
	for (int i = 0; i < NR_STAGES; i++) {
		const struct histogram *h = &sum.stages[i];

		if (histogram_nr(h))
			len += snprintf(text + len, sizeof(text) - len,
					"%s: %" PRIu64 " times, p50 %" PRIu64 " us, p99 %" PRIu64
					" us, p99.9 %" PRIu64 " us\n", stage_names[i],
					histogram_nr(h), histogram_us(h, 500000),
					histogram_us(h, 990000), histogram_us(h, 999000));
	}
	resp_text(&r->out, text, len);
	request_done(r);
}

/* There are no events to keep: histograms have all requests. */
static void start_latency(struct request *r)
{
	if (req_is(r, 1, "histogram") && req_nr(r) > 2 + MAX_LATENCY_NAMES) {
		request_fail(r, "ERR too many commands, at most %d", MAX_LATENCY_NAMES);
	} else if (req_is(r, 1, "histogram")) {
		reply_histograms(r);
	} else if (req_is(r, 1, "doctor") && req_nr(r) == 2) {
		reply_doctor(r);
	} else if ((req_is(r, 1, "latest") && req_nr(r) == 2) ||
		   (req_is(r, 1, "history") && req_nr(r) == 3)) {
		resp_array(&r->out, 0);
		request_done(r);
	} else if (req_is(r, 1, "reset")) {
		resp_int(&r->out, 0);
		request_done(r);
	} else {
		request_fail(r, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			     "Try LATENCY HISTOGRAM, DOCTOR, LATEST, HISTORY, RESET.",
			     request_shown(r, 1), req_arg(r, 1));
	}
}

/* ---- SLOWLOG ---- */

static bool may_see(const struct tenant *tenant, const struct slow_entry *e)
{
	return tenant->is_admin || e->tenant == tenant->id;
}

/* The newest entry from @e on that the tenant may see. */
static struct slow_entry *seen_from(const struct tenant *tenant, struct slow_entry *e)
{
	while (e && !may_see(tenant, e))
		e = e->older;
	return e;
}

static uint32_t nr_wanted(const struct request *r)
{
	uint32_t nr_max = config_number(&r->conn->worker->server->config.nr_slow);
	int64_t nr = SLOWLOG_GET_DEFAULT;

	if (!req_is(r, 1, "get"))
		return nr_max;
	if (req_nr(r) > 2)
		req_int(r, 2, &nr);
	return nr >= 0 && nr < nr_max ? nr : nr_max;
}

/* At each worker: copies of its entries, the newest first, as a list by older. */
static void gather_slow(struct worker *w, struct kv_msg *msg)
{
	struct job *job = (struct job *)msg;
	const struct tenant *tenant = job->request->tenant;
	uint32_t nr_max = nr_wanted(job->request);
	struct slow_entry **last = &job->slow, *e;

	e = seen_from(tenant, w->slow_log ? w->slow_log->newest : NULL);
	for (; e && job->nr < nr_max; e = seen_from(tenant, e->older)) {
		job->nr++;
		if (req_is(job->request, 1, "len"))
			continue;
		*last = memcpy(mem_alloc(sizeof(*e) + e->bytes), e, sizeof(*e) + e->bytes);
		last = &(*last)->older;
		*last = NULL;
	}
	worker_return(w, msg);
}

static void forget_slow(struct worker *w, struct kv_msg *msg)
{
	const struct tenant *tenant = ((struct job *)msg)->request->tenant;
	struct slow_entry *e, *older;

	e = seen_from(tenant, w->slow_log ? w->slow_log->newest : NULL);
	for (; e; e = older) {
		older = seen_from(tenant, e->older);
		slowlog_drop(w->slow_log, e);
	}
	worker_return(w, msg);
}

static void help_slowlog(struct request *r)
{
	static const char *const lines[] = {
		"SLOWLOG <subcommand> [<arg>]. Subcommands are:",
		"GET [<count>]",
		"    Return the newest <count> entries (10), or all for -1.",
		"LEN",
		"    Return the number of entries.",
		"RESET",
		"    Forget the entries.",
		"HELP",
		"    Print this help.",
	};

	resp_array(&r->out, sizeof(lines) / sizeof(lines[0]));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		resp_simple(&r->out, lines[i]);
	request_done(r);
}

static void start_slowlog(struct request *r)
{
	int64_t nr;

	if (req_is(r, 1, "help"))
		help_slowlog(r);
	else if (req_is(r, 1, "get") && req_nr(r) == 3 && (!req_int(r, 2, &nr) || nr < -1))
		request_fail(r, "ERR count should be greater than or equal to -1");
	else if (req_is(r, 1, "get") && !mem_has_room())
		request_fail(r, "OOM no memory for copies of the slow log");
	else if ((req_is(r, 1, "get") && req_nr(r) <= 3) || (req_is(r, 1, "len") && req_nr(r) == 2))
		request_to_all_workers(r, gather_slow);
	else if (req_is(r, 1, "reset") && req_nr(r) == 2)
		request_to_all_workers(r, forget_slow);
	else
		request_fail(r, "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
			     "Try SLOWLOG HELP.", request_shown(r, 1), req_arg(r, 1));
}

static void reply_entry(struct resp_out *out, const struct slow_entry *e)
{
	const char *at = e->texts;
	uint32_t len;

	resp_array(out, 6);
	resp_int(out, e->id);
	resp_int(out, e->at_ms / 1000);
	resp_int(out, e->us);
	resp_array(out, e->nr_texts);
	for (uint32_t i = 0; i < e->nr_texts; i++, at += sizeof(len) + len) {
		memcpy(&len, at, sizeof(len));
		resp_bulk(out, at + sizeof(len), len);
	}
	resp_string(out, e->address);
	resp_string(out, e->name);
}

/* Takes the newest of the entries that the workers gave. */
static struct slow_entry *take_newest(struct request *r)
{
	struct slow_entry **best = NULL, *taken;

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		struct slow_entry **at = &r->jobs[i].slow;

		if (*at && (!best || (*at)->at_ns > (*best)->at_ns))
			best = at;
	}
	taken = *best;
	*best = taken->older;
	return taken;
}

static void finish_slowlog(struct request *r)
{
	uint32_t nr = 0, nr_shown = nr_wanted(r);

	for (uint32_t i = 0; i < r->nr_ops; i++)
		nr += r->jobs[i].nr;
	if (nr_shown > nr)
		nr_shown = nr;
	if (req_is(r, 1, "reset"))
		resp_simple(&r->out, "OK");
	else if (req_is(r, 1, "len"))
		resp_int(&r->out, nr_shown);
	else
		resp_array(&r->out, nr_shown);
	for (uint32_t i = 0; i < nr && req_is(r, 1, "get"); i++) {
		struct slow_entry *e = take_newest(r);

		if (i < nr_shown)
			reply_entry(&r->out, e);
		mem_free(e);
	}
}

const struct command admin_commands[] = {
	{ "client", -2, 0, 0, 0, 0, start_client, finish_client },
	{ "config", -2, 0, 0, 0, 0, start_config, finish_reset },
	{ "latency", -2, 0, 0, 0, 0, start_latency, NULL },
	{ "slowlog", -2, 0, 0, 0, 0, start_slowlog, finish_slowlog },
	{ NULL },
};
