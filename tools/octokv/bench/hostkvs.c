// SPDX-License-Identifier: GPL-2.0
/*
 * hostkvs.c - Host-KVS: load without a server, a protocol or a network
 *
 * Each thread writes and reads records of one length in a file of its own. An array tells where a
 * record is, and fsync() follows each write. A store on the file system of the host can do no
 * better; the OctoKV paper compares with one in its figures 4 to 6.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "store/mem.h"

enum { KEY_BYTES = 16 };

struct host_kvs {
	struct bench bench;
	pthread_t thread;
	uint32_t number;
	int fd;
	uint64_t *places;		/* of records, in units of them; 0: none */
	uint64_t nr_places;
};

static void host_put(struct host_kvs *h, uint64_t key, char *record, size_t record_bytes)
{
	uint64_t place = ++h->nr_places;

	memcpy(record, &key, sizeof(key));
	if (pwrite(h->fd, record, record_bytes, (place - 1) * record_bytes) !=
		    (ssize_t)record_bytes ||
	    fsync(h->fd))
		die("host-kvs", strerror(errno));
	h->places[key] = place;
}

static void *host_main(void *argument)
{
	struct host_kvs *h = argument;
	struct bench *b = &h->bench;
	size_t record_bytes = KEY_BYTES + b->o.value_bytes;
	char *record = mem_zalloc(record_bytes);

	for (uint64_t i = 0; i < b->o.nr_requests && may_begin(b, now_ns()); i++) {
		uint64_t begun = now_ns(), key = pick_key(b);
		enum kind kind = pick_kind(b);

		if (kind == KIND_SET)
			host_put(h, key, record, record_bytes);
		else if (h->places[key] && pread(h->fd, record, record_bytes,
						 (h->places[key] - 1) * record_bytes) < 0)
			die("host-kvs", strerror(errno));
		else
			b->nr_missing += !h->places[key];
		note_time(&b->time[kind], now_ns() - begun);
		b->nr_done++;
	}
	free(record);
	return NULL;
}

void run_host_kvs(struct bench *b)
{
	struct host_kvs *all = mem_zalloc(b->o.nr_clients * sizeof(*all));
	char path[512];

	b->begun_ns = now_ns();
	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		all[i].bench = *b;
		all[i].bench.o.nr_requests /= b->o.nr_clients;
		all[i].bench.random += i * 7919;
		all[i].places = mem_zalloc(b->o.nr_records * sizeof(*all[i].places));
		snprintf(path, sizeof(path), "%s/octokv-bench.%u", b->o.host_kvs, i);
		all[i].fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (all[i].fd < 0 || pthread_create(&all[i].thread, NULL, host_main, &all[i]))
			die(path, strerror(errno));
	}
	for (uint32_t i = 0; i < b->o.nr_clients; i++) {
		pthread_join(all[i].thread, NULL);
		b->nr_done += all[i].bench.nr_done;
		for (int kind = 0; kind < NR_KINDS; kind++)
			merge_times(&b->time[kind], &all[i].bench.time[kind]);
		close(all[i].fd);
		free(all[i].places);
		snprintf(path, sizeof(path), "%s/octokv-bench.%u", b->o.host_kvs, i);
		unlink(path);
	}
	b->ended_ns = now_ns();
	free(all);
}
