// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - octokvd: options, checks before the reactors start, and the signals that end it
 *
 * `octokvd --data FILE` needs no set-up: a file that does not exist is created, sparse, and
 * formatted. Only --format formats a device or an existing file. If that holds anything but zeros,
 * --force is needed as well.
 *
 * An error is one sentence on stderr and exit status 1; a wrong option is status 2. A file that was
 * created and could not be formatted is removed, so that the next start begins as the first did.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "cluster/keeper.h"
#include "cluster/secure.h"
#include "data.h"
#include "device/fence.h"
#include "listen.h"
#include "log.h"
#include "memory.h"
#include "offline.h"
#include "probe.h"
#include "reactor.h"
#include "scrape.h"
#include "cluster/map.h"
#include "server/metrics.h"
#include "server/stats.h"
#include "server/tenant.h"
#include "supervise.h"
#include "tls/tls.h"

enum {
	FILE_BYTES_DEFAULT_SHIFT	= 34,
	FD_SPARE			= 64,
};

enum mode {
	MODE_SERVE, MODE_FORMAT, MODE_CHECK, MODE_DUMP, MODE_LOAD, MODE_STATS, MODE_HEALTH,
	MODE_HASH, MODE_UPGRADE,
};

struct options {
	struct config config;
	struct balancer_config balancer;
	enum mode mode;
	uint32_t nr_cores;
	uint32_t nr_network;
	uint32_t nr_partitions;
	uint64_t size_bytes;
	uint64_t memory_bytes;
	const char *weights;
	enum tags tags;
	const char *unix_path;
	uint32_t unix_mode;
	const char *metrics;
	const char *tls;		/* where to listen for it */
	struct tls_files tls_files;
	struct listen_at tls_at;
	const char *user;
	const char *file;		/* of --dump and --load */
	int32_t user_id;
	bool strings_only, salvage;
	bool force, preempts, unfenced, has_slots, compress;
};

static const char usage_text[] =
	"usage: octokvd --data FILE-OR-DEVICE [options]   serve it; a missing file is created\n"
	"       octokvd --data FILE-OR-DEVICE --format    make an empty store on it\n"
	"       octokvd --data FILE-OR-DEVICE --upgrade   give an older store what new ones have\n"
	"       octokvd --data FILE-OR-DEVICE --check     read it all; say what is there and\n"
	"                                                 what is damaged; change nothing\n"
	"       octokvd --data FILE-OR-DEVICE --dump RDB-FILE\n"
	"                                                 write all keys to a file of Redis\n"
	"       octokvd --data FILE-OR-DEVICE --load RDB-FILE\n"
	"                                                 load the keys of such a file\n"
	"       octokvd --stats [--user NAME]             print what a running octokvd does;\n"
	"                                                 NAME's password on standard input\n"
	"       octokvd --health [--user NAME]            print whether its device works: the\n"
	"                                                 exit status is 0 if so\n"
	"       octokvd --hash-password                   read a password, print its hash for the\n"
	"                                                 users file\n"
	"\n"
	"  --bind ADDRESS         listen there (127.0.0.1); other than loopback needs --users\n"
	"  --port N               listen on this port (6379); 0: only on --unix and --tls\n"
	"  --unix PATH            listen on a socket at this path, too\n"
	"  --unix-mode MODE       who may use it, as for chmod (0600)\n"
	"  --tls ADDRESS          listen there for clients that speak TLS: PORT, or ADDRESS:PORT\n"
	"  --tls-cert-file FILE   the certificate of the server, and those up to its root\n"
	"  --tls-key-file FILE    its private key\n"
	"  --tls-ca-cert-file FILE   clients need a certificate that one of these has signed\n"
	"  --tls-cluster-ca-cert-file FILE   MIGRATE speaks TLS; other nodes of the cluster need\n"
	"                         a certificate that one of these has signed\n"
	"  --cores N              reactors, one thread each (as many as there are processors)\n"
	"  --network-cores N      only N of them have connections (all)\n"
	"  --users FILE           the users and their limits: see octokvd(8)\n"
	"  --cluster FILE         be a node of a cluster: FILE has its nodes and their slots\n"
	"  --compress             write the values of all users compressed, where that saves an\n"
	"                         eighth; FILE of --users may say it of some. With --load, too\n"
	"  --weights DIRECTORY    write the users' weights to the scheduler there, for example\n"
	"                         /sys/block/nvme0n1\n"
	"  --tags HOW             tell the scheduler the user of each request: on, off, or auto,\n"
	"                         if it is mq-mqfq or mq-octofas (auto)\n"
	"  --metrics ADDRESS      answer Prometheus there: PORT, or ADDRESS:PORT\n"
	"  --slowlog-slower-than-us N   keep commands that took N us or more for SLOWLOG\n"
	"                         (10000); -1: none\n"
	"  --slowlog-len N        the newest N of them (128)\n"
	"  --memory SIZE          use at most so much memory (three quarters of what is free)\n"
	"  --on-error HOW         when writes fail for seconds: retry until the device is\n"
	"                         back, or exit (retry)\n"
	"  --serve-damaged        serve the partitions that are whole, if some are not\n"
	"  --max-connections N    refuse further ones (10000)\n"
	"  --idle-timeout SEC     close connections without a request for SEC (0: never)\n"
	"  --stall-timeout SEC    close connections that stop within a command, or do not read\n"
	"                         replies (30)\n"
	"  --balance HOW          move partitions from overloaded reactors to others: off, rr (in\n"
	"                         turn), ps (in proportion to their room) (ps)\n"
	"  --balance-window MS    decide every MS milliseconds (1000)\n"
	"  --balance-overload PCT a reactor above PCT percent busy is overloaded (40)\n"
	"  --balance-gap PCT      move only if the least busy reactor is PCT points below (10)\n"
	"  --balance-tenants SET  count the requests of all, dense or sparse tenants (all)\n"
	"  --fair HOW             users take turns on a reactor: on, off, or auto, while one\n"
	"                         slows another one down (off)\n"
	"  --save-to FILE         BGSAVE and SIGUSR1 dump to this file while octokvd serves\n"
	"  --preempt              take the device from the host that has reserved it\n"
	"  --no-fence             do not reserve the device\n"
	"  --trim                 tell the device, or the file system, what is free\n"
	"  --size SIZE            size of a new file (16g)\n"
	"  --partitions N         partitions of a new store: a power of two (16; fewer on a\n"
	"                         small device). Each reactor needs one, and better four\n"
	"  --slots                a new store has the slots that a node of a cluster needs\n"
	"  --user-id ID           with --dump, --load: the keys of this user, as database 0\n"
	"  --salvage              with --dump: from all segments, if the index is lost\n"
	"  --strings-only         with --load: leave out lists, hashes and what else there is\n"
	"  --force                with --format: even if the device holds something else;\n"
	"                         --dump: without damaged records; --load: beside other keys\n";

/* ---- options ---- */

enum {
	OPT_DATA = 256, OPT_FORMAT, OPT_CHECK, OPT_STATS, OPT_HEALTH, OPT_HASH, OPT_BIND, OPT_PORT,
	OPT_CORES, OPT_NETWORK, OPT_USERS, OPT_WEIGHTS, OPT_CONNECTIONS, OPT_IDLE, OPT_STALL,
	OPT_BALANCE, OPT_WINDOW, OPT_OVERLOAD, OPT_GAP, OPT_TENANTS, OPT_FAIR, OPT_SIZE,
	OPT_PARTITIONS, OPT_FORCE, OPT_MEMORY, OPT_ON_ERROR, OPT_TAGS, OPT_UNIX, OPT_UNIX_MODE,
	OPT_USER, OPT_HELP, OPT_VERSION, OPT_SAVE_TO, OPT_DUMP, OPT_LOAD, OPT_USER_ID,
	OPT_STRINGS_ONLY, OPT_SERVE_DAMAGED, OPT_SALVAGE, OPT_METRICS, OPT_SLOW_US, OPT_SLOW_LEN,
	OPT_PREEMPT, OPT_NO_FENCE, OPT_TRIM, OPT_TLS, OPT_TLS_CERT, OPT_TLS_KEY, OPT_TLS_CA,
	OPT_TLS_CLUSTER_CA, OPT_CLUSTER, OPT_SLOTS, OPT_UPGRADE, OPT_COMPRESS,
};

static const struct option long_options[] = {
	{ "data", 1, NULL, OPT_DATA }, { "format", 0, NULL, OPT_FORMAT },
	{ "dump", 1, NULL, OPT_DUMP }, { "load", 1, NULL, OPT_LOAD },
	{ "salvage", 0, NULL, OPT_SALVAGE },
	{ "save-to", 1, NULL, OPT_SAVE_TO }, { "serve-damaged", 0, NULL, OPT_SERVE_DAMAGED },
	{ "user-id", 1, NULL, OPT_USER_ID }, { "strings-only", 0, NULL, OPT_STRINGS_ONLY },
	{ "check", 0, NULL, OPT_CHECK }, { "stats", 0, NULL, OPT_STATS },
	{ "hash-password", 0, NULL, OPT_HASH }, { "bind", 1, NULL, OPT_BIND },
	{ "port", 1, NULL, OPT_PORT }, { "cores", 1, NULL, OPT_CORES },
	{ "network-cores", 1, NULL, OPT_NETWORK }, { "users", 1, NULL, OPT_USERS },
	{ "weights", 1, NULL, OPT_WEIGHTS }, { "memory", 1, NULL, OPT_MEMORY },
	{ "unix", 1, NULL, OPT_UNIX }, { "unix-mode", 1, NULL, OPT_UNIX_MODE },
	{ "max-connections", 1, NULL, OPT_CONNECTIONS },
	{ "idle-timeout", 1, NULL, OPT_IDLE }, { "stall-timeout", 1, NULL, OPT_STALL },
	{ "size", 1, NULL, OPT_SIZE }, { "partitions", 1, NULL, OPT_PARTITIONS },
	{ "force", 0, NULL, OPT_FORCE }, { "user", 1, NULL, OPT_USER },
	{ "on-error", 1, NULL, OPT_ON_ERROR }, { "health", 0, NULL, OPT_HEALTH },
	{ "tags", 1, NULL, OPT_TAGS }, { "metrics", 1, NULL, OPT_METRICS },
	{ "slowlog-slower-than-us", 1, NULL, OPT_SLOW_US },
	{ "slowlog-len", 1, NULL, OPT_SLOW_LEN },
	{ "balance", 1, NULL, OPT_BALANCE }, { "balance-window", 1, NULL, OPT_WINDOW },
	{ "balance-overload", 1, NULL, OPT_OVERLOAD }, { "balance-gap", 1, NULL, OPT_GAP },
	{ "preempt", 0, NULL, OPT_PREEMPT }, { "no-fence", 0, NULL, OPT_NO_FENCE },
	{ "trim", 0, NULL, OPT_TRIM }, { "tls", 1, NULL, OPT_TLS },
	{ "tls-cert-file", 1, NULL, OPT_TLS_CERT }, { "tls-key-file", 1, NULL, OPT_TLS_KEY },
	{ "tls-ca-cert-file", 1, NULL, OPT_TLS_CA }, { "slots", 0, NULL, OPT_SLOTS },
	{ "tls-cluster-ca-cert-file", 1, NULL, OPT_TLS_CLUSTER_CA },
	{ "balance-tenants", 1, NULL, OPT_TENANTS }, { "help", 0, NULL, OPT_HELP },
	{ "version", 0, NULL, OPT_VERSION }, { "cluster", 1, NULL, OPT_CLUSTER },
	{ "fair", 1, NULL, OPT_FAIR }, { "upgrade", 0, NULL, OPT_UPGRADE },
	{ "compress", 0, NULL, OPT_COMPRESS }, { NULL },
};

__attribute__((noreturn)) static void wrong_use(const char *why)
{
	fprintf(stderr, "octokvd: %s; see octokvd --help\n", why);
	exit(2);
}

static uint64_t number(const char *name, uint64_t min, uint64_t max)
{
	char why[128], *end;
	unsigned long long value;
	int shift = 0;

	errno = 0;
	value = strtoull(optarg, &end, 10);
	if (*end && strchr("kmgt", *end) && max > UINT32_MAX)
		shift = 10 * (strchr("kmgt", *end++) - "kmgt" + 1);
	if (errno || end == optarg || *optarg < '0' || *optarg > '9' || *end ||
	    value > max >> shift || value << shift < min) {
		snprintf(why, sizeof(why), "--%s is a number from %llu to %llu", name,
			 (unsigned long long)min, (unsigned long long)max);
		wrong_use(why);
	}
	return value << shift;
}

static uint32_t mode_number(void)
{
	char *end;
	unsigned long mode = strtoul(optarg, &end, 8);

	if (end == optarg || *end || mode > 0777)
		wrong_use("--unix-mode is an octal number as for chmod, for example 0660");
	return mode;
}

/* The index of the value of the option in @words. */
static int word(const char *name, const char *const *words)
{
	char why[128];

	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], optarg))
			return i;
	snprintf(why, sizeof(why), "--%s is one of %s, %s%s%s", name, words[0], words[1],
		 words[2] ? ", " : "", words[2] ? words[2] : "");
	wrong_use(why);
}

static const char *const tags_words[] = { "auto", "on", "off", NULL };
static const char *const on_error_words[] = { "retry", "exit", NULL };

static void set_mode(struct options *o, enum mode mode)
{
	if (o->mode != MODE_SERVE)
		wrong_use("only one of --format, --check, --dump, --load, --stats, --health, "
			  "--hash-password");
	o->mode = mode;
}

static void parse_balance(struct balancer_config *b, int option)
{
	switch (option) {
	case OPT_BALANCE:
		b->how = word("balance", (const char *const[]){ "off", "rr", "ps", NULL });
		break;
	case OPT_WINDOW:
		b->window_ms = number("balance-window", 100, 1 << 30);
		break;
	case OPT_OVERLOAD:
		b->overload_pct = number("balance-overload", 0, 100);
		break;
	case OPT_GAP:
		b->gap_pct = number("balance-gap", 0, 100);
		break;
	case OPT_TENANTS:
		b->which = word("balance-tenants",
				(const char *const[]){ "all", "dense", "sparse", NULL });
		break;
	case OPT_FAIR:
		b->fair = word("fair", (const char *const[]){ "off", "on", "auto", NULL });
		break;
	default:
		wrong_use("this option is unknown, or its value is missing");
	}
}

static void parse_file(struct options *o, int option)
{
	switch (option) {
	case OPT_DUMP:
	case OPT_LOAD:
		set_mode(o, option == OPT_DUMP ? MODE_DUMP : MODE_LOAD);
		o->file = optarg;
		break;
	case OPT_SAVE_TO:
		o->config.save_to = optarg;
		break;
	case OPT_UPGRADE:
		set_mode(o, MODE_UPGRADE);
		break;
	case OPT_USER_ID:
		o->user_id = number("user-id", 0, MAX_TENANT_ID);
		break;
	default:
		parse_balance(&o->balancer, option);
	}
}

static void parse_tls(struct options *o, int option)
{
	switch (option) {
	case OPT_TLS:
		o->tls = optarg;
		break;
	case OPT_TLS_CERT:
		o->tls_files.cert = optarg;
		break;
	case OPT_TLS_KEY:
		o->tls_files.key = optarg;
		break;
	case OPT_TLS_CA:
		o->tls_files.ca = optarg;
		break;
	case OPT_TLS_CLUSTER_CA:
		o->tls_files.cluster_ca = optarg;
		break;
	default:
		parse_file(o, option);
	}
}

static void parse_access(struct options *o, int option)
{
	switch (option) {
	case OPT_BIND:
		o->config.bind = optarg;
		break;
	case OPT_PORT:
		o->config.port = number("port", 0, 65535);
		break;
	case OPT_UNIX:
		o->unix_path = optarg;
		break;
	case OPT_UNIX_MODE:
		o->unix_mode = mode_number();
		break;
	case OPT_METRICS:
		o->metrics = optarg;
		break;
	case OPT_SLOW_US:
		o->config.slow_us = strcmp(optarg, "-1") ?
				    (int64_t)number("slowlog-slower-than-us", 0, INT64_MAX) : -1;
		break;
	case OPT_SLOW_LEN:
		o->config.nr_slow = number("slowlog-len", 0, SLOWLOG_LEN_MAX);
		break;
	case OPT_CLUSTER:
		o->config.cluster = optarg;
		break;
	default:
		parse_tls(o, option);
	}
}

/* What an option without an argument sets, if it is such a one. */
static bool set_flag(struct options *o, int option)
{
	bool *flag = option == OPT_COMPRESS ? &o->compress :
		     option == OPT_FORCE ? &o->force :
		     option == OPT_NO_FENCE ? &o->unfenced :
		     option == OPT_PREEMPT ? &o->preempts :
		     option == OPT_SALVAGE ? &o->salvage :
		     option == OPT_SERVE_DAMAGED ? &o->config.serves_damaged :
		     option == OPT_SLOTS ? &o->has_slots :
		     option == OPT_STRINGS_ONLY ? &o->strings_only :
		     option == OPT_TRIM ? &o->config.trims : NULL;

	if (flag)
		*flag = true;
	return flag;
}

static void parse_one(struct options *o, int option)
{
	switch (option) {
	case OPT_DATA:
		o->config.data = optarg;
		break;
	case OPT_FORMAT:
		set_mode(o, MODE_FORMAT);
		break;
	case OPT_CHECK:
		set_mode(o, MODE_CHECK);
		break;
	case OPT_STATS:
		set_mode(o, MODE_STATS);
		break;
	case OPT_HEALTH:
		set_mode(o, MODE_HEALTH);
		break;
	case OPT_HASH:
		set_mode(o, MODE_HASH);
		break;
	case OPT_CORES:
		o->nr_cores = number("cores", 1, MAX_WORKERS);
		break;
	case OPT_NETWORK:
		o->nr_network = number("network-cores", 1, MAX_WORKERS);
		break;
	case OPT_USERS:
		o->config.users = optarg;
		break;
	case OPT_WEIGHTS:
		o->weights = optarg;
		break;
	case OPT_MEMORY:
		o->memory_bytes = number("memory", MEMORY_BYTES_MIN, 1ULL << 60);
		break;
	case OPT_TAGS:
		o->tags = word("tags", tags_words);
		break;
	case OPT_ON_ERROR:
		o->config.ends_on_error = word("on-error", on_error_words);
		break;
	case OPT_CONNECTIONS:
		o->config.max_connections = number("max-connections", 1, LISTEN_CONNECTIONS_MAX);
		break;
	case OPT_IDLE:
		o->config.idle_timeout_s = number("idle-timeout", 0, 1 << 30);
		break;
	case OPT_STALL:
		o->config.stall_timeout_s = number("stall-timeout", 1, 1 << 30);
		break;
	case OPT_SIZE:
		o->size_bytes = number("size", 1 << 20, 1ULL << 60);
		break;
	case OPT_PARTITIONS:
		o->nr_partitions = number("partitions", 1, MAX_PARTITIONS);
		break;
	case OPT_USER:
		o->user = optarg;
		break;
	case OPT_HELP:
		fputs(usage_text, stdout);
		exit(0);
	case OPT_VERSION:
		puts("octokvd " OCTOKVD_VERSION);
		exit(0);
	default:
		if (!set_flag(o, option))
			parse_access(o, option);
	}
}

static bool asks(const struct options *o)
{
	return o->mode == MODE_STATS || o->mode == MODE_HEALTH;
}

static void parse(struct options *o, int argc, char **argv)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char why[64];
	int option;

	*o = (struct options){
		.config = {
			.bind = "127.0.0.1", .port = DEFAULT_PORT, .max_connections = 10000,
			.stall_timeout_s = 30, .unix_fd = -1, .slow_us = SLOWLOG_US_DEFAULT,
			.nr_slow = SLOWLOG_LEN_DEFAULT,
		},
		.unix_mode = 0600,
		.user_id = ALL_USERS,
		.balancer = {
			.how = BALANCE_PS, .window_ms = 1000, .overload_pct = 40, .gap_pct = 10,
		},
		.size_bytes = 1ULL << FILE_BYTES_DEFAULT_SHIFT,
	};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse_one(o, option);
	if (optind < argc) {
		snprintf(why, sizeof(why), "not an option: %s", argv[optind]);
		wrong_use(why);
	}
	if (!o->config.data && !asks(o) && o->mode != MODE_HASH)
		wrong_use("--data is missing");
	if (o->nr_partitions & (o->nr_partitions - 1))
		wrong_use("--partitions is a power of two");
	if (!o->nr_cores)
		o->nr_cores = nr_cpus < 1 ? 1 : nr_cpus < MAX_WORKERS ? nr_cpus : MAX_WORKERS;
	if (!o->config.port && !o->unix_path && !o->tls)
		wrong_use("--port 0 goes with --unix or --tls");
	if (o->tls ? !o->tls_files.cert || !o->tls_files.key :
	    o->tls_files.cert || o->tls_files.key || o->tls_files.ca)
		wrong_use("--tls goes with --tls-cert-file and --tls-key-file");
	if (o->tls_files.cluster_ca && (!o->tls || !o->config.cluster))
		wrong_use("--tls-cluster-ca-cert-file goes with --tls and --cluster");
	if (o->force && o->mode != MODE_FORMAT && !o->file)
		wrong_use("--force goes with --format, --dump or --load");
	if (o->user_id != ALL_USERS && !o->file)
		wrong_use("--user-id goes with --dump or --load");
	if (o->salvage && o->mode != MODE_DUMP)
		wrong_use("--salvage goes with --dump");
	if (o->strings_only && o->mode != MODE_LOAD)
		wrong_use("--strings-only goes with --load");
	if (o->has_slots && o->mode != MODE_FORMAT)
		wrong_use("--slots goes with --format");
	if (o->preempts && o->unfenced)
		wrong_use("--preempt and --no-fence exclude each other");
	if (o->user && !asks(o))
		wrong_use("--user goes with --stats or --health");
}

/* ---- a store that is not served ---- */

static struct data data_of(const struct options *o)
{
	return (struct data){
		.path = o->config.data, .size_bytes = o->size_bytes,
		.nr_partitions = o->nr_partitions, .has_slots = o->has_slots,
		.reads_only = o->mode == MODE_CHECK || o->mode == MODE_DUMP,
		.preempts = o->preempts, .unfenced = o->unfenced,
	};
}

static void run_format(const struct options *o)
{
	struct data d = data_of(o);
	struct okv_device_info info;
	struct opened b;
	bool created;
	int fd = data_open(&d, &created);

	data_begin(&b, &d, fd);
	if (!created && !o->force &&
	    (data_holds_something(&d, fd) || okv_device_info(&b.disk.disk, &info) != -ENODATA))
		die("%s holds data already: --force formats it nevertheless, and its data is lost",
		    o->config.data);
	data_format(&d, &b);
	if (okv_device_info(&b.disk.disk, &info))
		die("%s: the new store cannot be read back", o->config.data);
	data_print_info(&d, &info);
	data_end(&b);
}

static void run_upgrade(const struct options *o)
{
	struct data d = data_of(o);
	struct opened b;
	bool created;

	data_begin(&b, &d, data_open(&d, &created));
	data_upgrade(&d, &b, created);
	data_end(&b);
}

static struct offline offline_of(const struct options *o, struct opened *b)
{
	return (struct offline){
		.data = o->config.data, .file = o->file, .disk = &b->disk.disk, .ring = &b->ring,
		.user_id = o->user_id, .compresses = o->compress, .salvage = o->salvage,
		.strings_only = o->strings_only, .force = o->force,
	};
}

static void run_check(const struct options *o)
{
	struct data d = data_of(o);
	struct okv_device_info info;
	struct offline offline;
	struct opened b;
	bool created, damaged = false;
	int result;

	data_begin(&b, &d, data_open(&d, &created));
	result = okv_device_info(&b.disk.disk, &info);
	if (result)
		die("%s: %s", o->config.data, store_refusal(-result));
	data_print_info(&d, &info);
	offline = offline_of(o, &b);
	if (offline_check(&offline, &damaged))
		die("%s", offline.why);
	if (damaged)
		die("%s: damaged: see above", o->config.data);
	data_end(&b);
}

static void run_dump(const struct options *o)
{
	struct data d = data_of(o);
	struct offline offline;
	struct opened b;
	bool created;

	data_begin(&b, &d, data_open(&d, &created));
	offline = offline_of(o, &b);
	if (offline_dump(&offline))
		die("%s", offline.why);
	printf("%s: %llu keys\n", o->file, (unsigned long long)offline.nr_keys);
	if (offline.nr_lost_partitions)
		printf("%s: without %u partitions that are damaged\n", o->file,
		       offline.nr_lost_partitions);
	if (offline.nr_damaged)
		printf("%s: without %llu records that are damaged\n", o->file,
		       (unsigned long long)offline.nr_damaged);
	data_end(&b);
}

/* A file that is made for it stays only if all is loaded. */
static void run_load(const struct options *o)
{
	struct data d = data_of(o);
	struct opened b;
	struct offline offline = offline_of(o, &b);
	bool created;
	int fd;

	if (offline_survey(&offline))
		die("%s", offline.why);
	fd = data_open(&d, &created);
	data_begin(&b, &d, fd);
	if (created) {
		data_format(&d, &b);
		data_set_unfinished(d.path);
	}
	if (offline_load(&offline))
		die("%s", offline.why);
	data_set_unfinished(NULL);
	data_end(&b);
}

static void run_hash(void)
{
	char password[1024], hash[TENANT_HASH_BYTES];

	ask_password(password, sizeof(password));
	if (tenant_hash_password(password, hash, sizeof(hash)))
		die("cannot hash the password: libsodium has no memory or no random numbers");
	puts(hash);
}

/* ---- serving ---- */

static void check_open(const struct options *o, const char *option, const char *address)
{
	char why[256];
	int loopback = listen_is_loopback(option, address, why, sizeof(why));

	if (loopback < 0)
		die("%s", why);
	if (!loopback && !o->config.users)
		die("%s is open to other machines, and without --users anybody could read and "
		    "delete all data: give a users file, or bind to 127.0.0.1", address);
}

static void check_address(const struct options *o)
{
	char why[256];

	check_open(o, "--bind", o->config.bind);
	if (o->config.port && !listen_is_free(o->config.bind, o->config.port, why, sizeof(why)))
		die("%s", why);
}

static void prepare_tls(struct options *o, struct tls *tls)
{
	char why[512];

	if (listen_parse("--tls", o->tls, o->config.bind, &o->tls_at, why, sizeof(why)))
		die("%s", why);
	check_open(o, "--tls", o->tls_at.address);
	if (tls_open(tls, &o->tls_files, &o->tls_at, why, sizeof(why)))
		die("%s", why);
}

static struct cluster *load_map(const struct options *o, const struct okv_device_info *info)
{
	if (!info->has_slots)
		die("%s: its keys have no slots: dump it, and load the dump into a store that "
		    "--format --slots has made", o->config.data);
	return keeper_load(o->config.cluster, info->uuid);
}

/* Returns the number of partitions. */
static uint32_t prepare_store(struct options *o, int fd, bool created, struct cluster **map)
{
	struct data d = data_of(o);
	struct memory_need need = { .nr_workers = o->nr_cores };
	struct okv_device_info info;
	char why[256];
	struct opened b;
	int result;

	if (created && o->config.cluster)
		die("%s: make the store of a node with --format --slots first", o->config.data);
	data_begin(&b, &d, fd);
	if (created)
		data_format(&d, &b);
	result = okv_device_info(&b.disk.disk, &info);
	if (result)
		die("%s: %s", o->config.data, store_refusal(-result));
	data_mend(&d, &b, &info);
	result = okv_device_index_bytes(&b.disk.disk, &need.index_bytes);
	if (result)
		die("%s: %s", o->config.data, store_refusal(-result));
	o->config.can_clear = info.can_clear;
	o->config.has_journals = info.has_journals && probe_gains_by_journals(&b.disk.disk);
	need.nr_partitions = info.nr_partitions;
	need.segment_bytes = info.segment_bytes;
	if (memory_start(o->memory_bytes, &need, &o->config, why, sizeof(why)))
		die("%s: %s", o->config.data, why);
	data_end(&b);
	if (o->config.cluster)
		*map = load_map(o, &info);
	return info.nr_partitions;
}

static void write_weights(const struct options *o, const struct tenants *tenants)
{
	char why[640];

	if (o->weights && tenants_write_weights(tenants, o->weights, why, sizeof(why)))
		die("%s", why);
}

/*
 * Ended by a signal while it recovers: the next start recovers again. Requests may be under way, so
 * the device stays reserved.
 */
__attribute__((noreturn)) static void end_now(const struct options *o)
{
	fputs("octokvd: ends during recovery\n", stderr);
	if (o->unix_path)
		unlink(o->unix_path);
	_exit(0);
}

static void start_metrics(const struct options *o, const struct supervisor *s)
{
	int error;

	if (!s->scrape)
		return;
	error = scrape_start(s->scrape, s->reactors->server);
	if (error)
		die("the thread for --metrics: %s", strerror(error));
	if (s->scrape->is_open)
		fprintf(stderr, "octokvd: --metrics %s is open to other machines, without a "
			"password\n", o->metrics);
}

static void start_tls(const struct options *o, const struct supervisor *s)
{
	int error;

	if (!s->tls)
		return;
	error = tls_start(s->tls, s->reactors);
	if (error)
		die("--tls %s: %s", o->tls, strerror(error));
	fprintf(stderr, "octokvd: TLS on %s port %u\n", o->tls_at.address, o->tls_at.port);
}

static void say_serving(const struct options *o, const struct server *server)
{
	const char *where = o->config.port ? o->config.bind : o->unix_path ? o->unix_path :
			    o->tls_at.address;

	fprintf(stderr, "octokvd: serving %s on %s port %u, %u reactors, with %llu MiB of memory\n",
		o->config.data, where,
		o->config.port || o->unix_path ? o->config.port : o->tls_at.port,
		server->nr_workers, (unsigned long long)(o->config.memory_bytes >> 20));
}

static void serve(struct options *o, struct supervisor *s)
{
	struct server *server = s->reactors->server;
	int error = supervise_open(s);

	if (error)
		die("signals: %s", strerror(error));
	fence_watch();
	reactors_start(s->reactors);
	start_metrics(o, s);
	switch (supervise_start(s)) {
	case SUPERVISED_FAILED:
		if (s->scrape)
			scrape_stop(s->scrape);
		reactors_free(s->reactors);
		die("%s", s->reactors->failed);
	case SUPERVISED_STOPPED:
		end_now(o);
	case SUPERVISED_SERVES:
		break;
	}
	if (server->nr_left_out == server->nr_partitions)
		die("%s: no partition is whole: octokvd --check reports more", o->config.data);
	__atomic_store_n(&server->serves, true, __ATOMIC_RELAXED);
	start_tls(o, s);
	say_serving(o, server);
	supervise(s);
	if (s->scrape)
		scrape_stop(s->scrape);
	if (s->tls)
		tls_stop(s->tls);
	reactors_stop(s->reactors);
	secure_use(NULL);
	log_end();
}

static void run_serve(struct options *o)
{
	struct data d = data_of(o);
	struct reactors rs = { 0 };
	struct tenants tenants;
	struct server server = { 0 };
	struct supervisor supervisor = {
		.reactors = &rs, .tenants = &tenants, .weights = o->weights, .tags = o->tags,
		.snapshot.reactors = &rs,
	};
	struct scrape scrape = { 0 };
	struct tls tls;
	struct utsname kernel;
	struct cluster *map = NULL;
	char why[512];
	uint32_t nr_partitions;
	bool created;

	check_address(o);
	if (o->metrics && scrape_listen(&scrape, o->metrics, why, sizeof(why)))
		die("%s", why);
	supervisor.scrape = o->metrics ? &scrape : NULL;
	if (o->tls)
		prepare_tls(o, &tls);
	supervisor.tls = o->tls ? &tls : NULL;
	if (!uname(&kernel))
		o->config.cannot_save = snapshot_refusal(kernel.release);
	if (tenants_load(&tenants, o->config.users, why, sizeof(why)))
		die("%s", why);
	tenants.compress = o->compress;
	write_weights(o, &tenants);
	listen_raise_limit(&o->config, FD_SPARE + (o->tls ? TLS_GREETINGS : 0));
	if (o->unix_path)
		o->config.unix_fd = listen_on_path(o->unix_path, o->unix_mode, why, sizeof(why));
	if (o->unix_path && o->config.unix_fd < 0)
		die("%s", why);
	rs.data_fd = data_open(&d, &created);
	nr_partitions = prepare_store(o, rs.data_fd, created, &map);
	server = (struct server){
		.config = o->config, .balancer = o->balancer, .tenants = &tenants, .cluster = map,
		.is_sure = fence_is_sure,
		.started_ms = time(NULL) * 1000ULL, .nr_partitions = nr_partitions,
	};
	server.saved_s = server.started_ms / 1000;
	supervisor.nr_keys = memory_keys();
	tenants_set_tags(&tenants, supervise_wants_tags(&supervisor));
	tenants_share_keys(&tenants, supervisor.nr_keys);
	server.nr_workers = o->nr_cores < server.nr_partitions ? o->nr_cores : server.nr_partitions;
	rs.server = &server;
	keeper_init(&rs);
	server.nr_listening = server.nr_workers;
	if (o->nr_network && o->nr_network < server.nr_workers)
		server.nr_listening = o->nr_network;
	serve(o, &supervisor);
	if (o->unix_path)
		unlink(o->unix_path);
	cluster_free(server.cluster);
	tenants_free(&tenants);
}

int main(int argc, char **argv)
{
	struct options o;

	parse(&o, argc, argv);
	switch (o.mode) {
	case MODE_FORMAT:
		run_format(&o);
		break;
	case MODE_UPGRADE:
		run_upgrade(&o);
		break;
	case MODE_CHECK:
		run_check(&o);
		break;
	case MODE_DUMP:
		run_dump(&o);
		break;
	case MODE_LOAD:
		run_load(&o);
		break;
	case MODE_STATS:
	case MODE_HEALTH:
		return ask(o.config.port, o.user, o.mode == MODE_HEALTH);
	case MODE_HASH:
		run_hash();
		break;
	case MODE_SERVE:
		run_serve(&o);
		break;
	}
	fence_settle();
	fence_give();
	return 0;
}
