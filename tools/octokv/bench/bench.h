/* SPDX-License-Identifier: GPL-2.0 */
/*
 * bench.h - what the parts of octokv-bench share
 *
 * main.c runs the load of load.c by sockets.c or by hostkvs.c; both note times by latency.c.
 */
#ifndef OKV_BENCH_H
#define OKV_BENCH_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SUB_BITS	= 6,		/* of a histogram: 64 steps per power of two */
	NR_BUCKETS	= 64 << SUB_BITS,
	MAX_PIPELINE	= 256,
};

enum kind { KIND_GET, KIND_SET, KIND_SCAN, KIND_RMW_GET, KIND_RMW_SET, NR_KINDS };

struct mix {
	const char *name;
	int read_pct, update_pct, insert_pct, scan_pct, rmw_pct;
	enum { UNIFORM, ZIPFIAN, LATEST } pick;
};

struct histogram {
	uint64_t buckets[NR_BUCKETS];
	uint64_t nr, sum_ns, max_ns;
};

struct options {
	const char *host, *host_kvs, *json, *user, *password;
	const struct mix *mix;
	uint64_t nr_records, nr_requests, seed;
	uint32_t nr_clients, value_bytes, nr_pipelined, port;
	double seconds, rate;
	uint32_t compressible_pct;
	bool fill, quiet;
};

struct zipf {
	double theta, zeta_n, alpha, eta;
	uint64_t n;
};

struct bench {
	struct options o;
	struct zipf zipf;
	uint64_t random;
	uint64_t nr_inserted;
	uint64_t nr_begun, nr_done, nr_errors, nr_missing;
	uint64_t begun_ns, ended_ns;
	struct histogram time[NR_KINDS];
	char *value;
	char error[200];
};

/* latency.c */
void note_time(struct histogram *h, uint64_t ns);
void merge_times(struct histogram *to, const struct histogram *from);
double percentile_us(const struct histogram *h, double share);

/* load.c */
__attribute__((noreturn)) void die(const char *what, const char *why);
uint64_t now_ns(void);
const struct mix *mix_find(const char *name);	/* NULL: there is none */
uint64_t next_random(uint64_t *state);
void zipf_init(struct zipf *z, uint64_t n);
uint64_t pick_key(struct bench *b);
enum kind pick_kind(struct bench *b);
bool may_begin(const struct bench *b, uint64_t now);
uint64_t due_ns(const struct bench *b);

/* sockets.c */
void run_clients(struct bench *b);

/* hostkvs.c */
void run_host_kvs(struct bench *b);

#endif
