// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_resp.c - any bytes from a client: no crash, no leak, and how they are cut does not matter
 *
 * The first two bytes of the input choose how to cut the rest into pieces. The rest is what a
 * client sends. One connection gets it whole, another one, with a store of its own, gets it in
 * pieces: both must reply the same. The store is in memory (memstore.h). For libFuzzer; with
 * -DFUZZ_SEEDS a main() runs the files that are named, for compilers without it.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>

#include "server/command.h"
#include "server/conn.h"
#include "server/metrics.h"
#include "server/mover.h"
#include "server/tenant.h"
#include "store/mem.h"
#include "store/sim/memstore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct world {
	struct server server;
	struct worker worker;
	struct tenants tenants;
	struct conn *c;
	struct resp_out said;
};

static void ready(struct worker *w, struct conn *c)
{
	(void)w;
	(void)c;
}

/* There is one worker: its mail goes to itself. */
static void post(struct worker *w, struct kv_msg *msg, uint32_t to)
{
	(void)to;
	worker_deliver(w, msg);
}

static void freed(struct worker *w, struct conn *c)
{
	(void)w;
	free(c);
}

static void end_conn(struct worker *w, struct conn *c)
{
	(void)w;
	conn_kill(c);
}

static void begin(struct world *world)
{
	*world = (struct world){ 0 };
	world->tenants.list = mem_zalloc(sizeof(*world->tenants.list));
	world->tenants.list[0] = mem_zalloc(sizeof(**world->tenants.list));
	world->tenants.nr = 1;
	world->server = (struct server){
		.tenants = &world->tenants, .nr_workers = 1, .nr_partitions = 4,
		.workers = { &world->worker },
	};
	world->server.config.data = "memory";
	world->server.config.nr_slow = 8;
	world->server.config.max_connections_limit = 1000;
	world->worker = (struct worker){
		.server = &world->server, .store = memstore_new(), .post = post, .ready = ready,
		.freed = freed, .end = end_conn,
	};
	world->worker.now_ns = 1000000000;
	mover_init(&world->worker);
	world->worker.now_ms = 1700000000000;
	world->c = mem_alloc(sizeof(*world->c));
	conn_init(world->c, &world->worker);
}

static void end(struct world *world)
{
	resp_out_free(&world->said);
	conn_kill(world->c);
	metrics_free(&world->worker);
	slowlog_free(&world->worker);
	memstore_free(world->worker.store);
	free(world->tenants.list[0]);
	free(world->tenants.list);
}

static void feed(struct world *world, const uint8_t *data, size_t len)
{
	/* A copy of exactly its size, so that a read beyond it is seen. */
	char *piece = memcpy(mem_alloc(len), data, len);
	size_t used = 0, more = 1;

	while (used < len && more) {
		more = conn_feed(world->c, piece + used, len - used);
		used += more;
		resp_out_splice(&world->said, &world->c->out);
	}
	free(piece);
}

static char *text_of(const struct resp_out *out)
{
	char *text = mem_alloc(out->nr_bytes + 1);
	size_t len = 0;

	for (const struct resp_chunk *chunk = out->head; chunk; chunk = chunk->next) {
		memcpy(text + len, chunk->data + chunk->start, resp_chunk_len(chunk));
		len += resp_chunk_len(chunk);
	}
	return text;
}

/*
 * INFO tells how many bytes came in, which differs while a piece is under way: such input is only
 * run, not compared.
 */
static bool tells_counters(const char *text, size_t len)
{
	return memmem(text, len, "total_net_input_bytes", 21) ||
	       memmem(text, len, "\r\nreactor0:", 11) || memmem(text, len, "id=", 3);
}

static void compare(const struct world *a, const struct world *b)
{
	char *one = text_of(&a->said), *other = text_of(&b->said);

	if (!tells_counters(one, a->said.nr_bytes) &&
	    (a->said.nr_bytes != b->said.nr_bytes || memcmp(one, other, a->said.nr_bytes))) {
		fprintf(stderr, "whole: %.*s\npieces: %.*s\n", (int)a->said.nr_bytes, one,
			(int)b->said.nr_bytes, other);
		abort();
	}
	free(one);
	free(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world whole, pieces;
	uint32_t random;

	if (len < 2)
		return 0;
	random = data[0] | data[1] << 8;
	data += 2;
	len -= 2;
	begin(&whole);
	begin(&pieces);
	feed(&whole, data, len);
	for (size_t at = 0, piece; at < len; at += piece) {
		random = random * 1103515245 + 12345;
		piece = 1 + (random >> 16) % (1 + (random >> 8) % 40);
		piece = piece < len - at ? piece : len - at;
		feed(&pieces, data + at, piece);
	}
	compare(&whole, &pieces);
	end(&whole);
	end(&pieces);
	return 0;
}

#ifdef FUZZ_SEEDS
int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		LLVMFuzzerTestOneInput(data, fread(data, 1, sizeof(data), file));
		fclose(file);
	}
	printf("ok fuzz_resp: %d seeds\n", argc - 1);
	return argc < 2;
}
#endif
