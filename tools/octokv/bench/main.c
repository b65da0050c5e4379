// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - octokv-bench: load for octokvd, or for any server that speaks RESP, and its latency
 *
 * Workloads: fillrandom and readrandom as db_bench has them (values of 16 KiB, keys of 16 bytes);
 * the core mixes A to F of YCSB with their distributions. A store of hashed keys has no ranges:
 * an MGET of consecutive records stands for a scan of YCSB E.
 *
 * Closed loop: each connection has --pipeline requests under way. Open loop (--rate): requests are
 * due at fixed times, whatever the server does. A request's time counts from when it was due, so a
 * server that stalls cannot hide it (no coordinated omission).
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "store/mem.h"

/* ---- figures ---- */

static void write_report(const struct bench *b, FILE *file)
{
	static const char *const names[NR_KINDS] = { "get", "set", "scan", "", "rmw" };
	double seconds = (b->ended_ns - b->begun_ns) / 1e9;
	bool first = true;

	fprintf(file,
		"{\"workload\": \"%s\", \"fill\": %s, \"clients\": %u, \"pipeline\": %u, "
		"\"rate_per_s\": %.0f, \"value_bytes\": %u, \"records\": %" PRIu64 ", ",
		b->o.mix->name, b->o.fill ? "true" : "false", b->o.nr_clients, b->o.nr_pipelined,
		b->o.rate, b->o.value_bytes, b->o.nr_records);
	fprintf(file,
		"\"seconds\": %.3f, \"requests\": %" PRIu64 ", \"requests_per_s\": %.1f, "
		"\"errors\": %" PRIu64 ", \"missing\": %" PRIu64 ", \"times\": {",
		seconds, b->nr_done, b->nr_done / seconds, b->nr_errors, b->nr_missing);
	for (int i = 0; i < NR_KINDS; i++) {
		const struct histogram *h = &b->time[i];

		if (!h->nr)
			continue;
		fprintf(file,
			"%s\"%s\": {\"nr\": %" PRIu64 ", \"mean_us\": %.1f, \"p50_us\": %.1f, "
			"\"p95_us\": %.1f, \"p99_us\": %.1f, \"p99.9_us\": %.1f, \"max_us\": %.1f}",
			first ? "" : ", ", names[i], h->nr, h->sum_ns / 1e3 / h->nr,
			percentile_us(h, 0.5), percentile_us(h, 0.95), percentile_us(h, 0.99),
			percentile_us(h, 0.999), h->max_ns / 1e3);
		first = false;
	}
	fprintf(file, "}}\n");
}

/* ---- options ---- */

static const char usage_text[] =
	"usage: octokv-bench [options] WORKLOAD\n"
	"  WORKLOAD               fillrandom, readrandom, ycsb-a to ycsb-f\n"
	"  --host ADDRESS         (127.0.0.1)    --port N  (6379)\n"
	"  --user NAME --password WORD   who the requests are from, if the server has users\n"
	"  --clients N            connections, or threads with --host-kvs (16)\n"
	"  --pipeline N           requests under way on each connection (1)\n"
	"  --rate N               open loop: N requests per second are due\n"
	"  --records N            (10000)        --value-bytes N  (16384)\n"
	"  --compressible PCT     of each 64 bytes of a value that are zeros (0)\n"
	"  --requests N           stop after N requests (10000)\n"
	"  --seconds S            stop after S seconds; --requests then has no default\n"
	"  --fill                 only write each record once; readrandom and YCSB need it before\n"
	"  --host-kvs DIRECTORY   no server and no network: threads of octokv-bench write\n"
	"                         and read files there, with fsync\n"
	"  --json FILE            write the figures to FILE (standard output)\n"
	"  --seed N               of all random numbers (1)\n"
	"  --quiet                no progress every second\n";

static double real(const char *text, double min, double max)
{
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text || !(value >= min && value <= max)) {
		fprintf(stderr, "octokv-bench: %s is not a number from %g to %g\n", text, min, max);
		exit(2);
	}
	return value;
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option names[] = {
		{ "host", 1, NULL, 'h' }, { "port", 1, NULL, 'p' },
		{ "user", 1, NULL, 'u' }, { "password", 1, NULL, 'w' },
		{ "clients", 1, NULL, 'c' }, { "pipeline", 1, NULL, 'P' },
		{ "rate", 1, NULL, 'R' }, { "records", 1, NULL, 'r' },
		{ "value-bytes", 1, NULL, 'd' }, { "requests", 1, NULL, 'n' },
		{ "seconds", 1, NULL, 's' }, { "fill", 0, NULL, 'f' },
		{ "host-kvs", 1, NULL, 'k' }, { "json", 1, NULL, 'j' },
		{ "seed", 1, NULL, 'S' }, { "quiet", 0, NULL, 'q' },
		{ "compressible", 1, NULL, 'z' }, { "help", 0, NULL, 'H' }, { NULL },
	};
	int option;

	*o = (struct options){
		.host = "127.0.0.1", .port = 6379, .nr_clients = 16, .nr_pipelined = 1,
		.nr_records = 10000, .value_bytes = 16384, .seed = 1,
	};
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'h': o->host = optarg; break;
		case 'p': o->port = real(optarg, 1, 65535); break;
		case 'u': o->user = optarg; break;
		case 'w': o->password = optarg; break;
		case 'c': o->nr_clients = real(optarg, 1, 100000); break;
		case 'P': o->nr_pipelined = real(optarg, 1, MAX_PIPELINE); break;
		case 'R': o->rate = real(optarg, 0.001, 1e9); break;
		case 'r': o->nr_records = real(optarg, 1, 1e12); break;
		case 'd': o->value_bytes = real(optarg, 0, 8 << 20); break;
		case 'n': o->nr_requests = real(optarg, 1, 1e15); break;
		case 's': o->seconds = real(optarg, 0.001, 1e9); break;
		case 'f': o->fill = true; break;
		case 'k': o->host_kvs = optarg; break;
		case 'j': o->json = optarg; break;
		case 'S': o->seed = real(optarg, 0, 1e15); break;
		case 'q': o->quiet = true; break;
		case 'z': o->compressible_pct = real(optarg, 0, 100); break;
		case 'H': fputs(usage_text, stdout); exit(0);
		default: fputs(usage_text, stderr); exit(2);
		}
	}
	if (optind + 1 == argc)
		o->mix = mix_find(argv[optind]);
	if (!o->mix) {
		fputs(usage_text, stderr);
		exit(2);
	}
	if (o->fill)
		o->nr_requests = o->nr_records;
	else if (!o->nr_requests && !o->seconds)
		o->nr_requests = 10000;
	if (!o->nr_requests && o->host_kvs)
		o->nr_requests = UINT64_MAX;
}

int main(int argc, char **argv)
{
	struct bench *b = mem_zalloc(sizeof(*b));
	FILE *file = stdout;

	parse(&b->o, argc, argv);
	b->random = b->o.seed;
	b->nr_inserted = b->o.nr_records;
	b->value = mem_zalloc(b->o.value_bytes);
	for (uint32_t i = 0; i < b->o.value_bytes; i++)
		b->value[i] = i % 64 * 100 < 64 * b->o.compressible_pct ? 0 :
									  next_random(&b->random);
	if (b->o.mix->pick != UNIFORM)
		zipf_init(&b->zipf, b->o.nr_records);
	if (b->o.host_kvs)
		run_host_kvs(b);
	else
		run_clients(b);
	if (b->o.json)
		file = fopen(b->o.json, "we");
	if (!file)
		die(b->o.json, strerror(errno));
	write_report(b, file);
	if (b->nr_errors)
		fprintf(stderr, "octokv-bench: the last of %" PRIu64 " errors: %s\n", b->nr_errors,
			b->error);
	free(b->value);
	free(b);
	return 0;
}
