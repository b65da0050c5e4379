// SPDX-License-Identifier: GPL-2.0
/*
 * snapshot.c - a dump's process ends in all ways: partitions are unpinned, the part of a file goes
 *
 * The reactors and the store are stand-ins. The process is a real one.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/offline.h"
#include "daemon/snapshot.h"
#include "test/test.h"

enum { NR = 4 };

struct okv_partition {
	bool is_pinned;
};

struct okv_store {
	struct okv_partition *partitions[NR];
};

static struct okv_partition partitions[NR];
static struct okv_store store;
static struct worker worker = { .store = &store };
static struct server server;
static struct reactors reactors = { .server = &server };
static int nr_forgotten, dump_result = -1;

bool reactors_pause(struct reactors *rs, void (*change)(void *owner), void *owner)
{
	(void)rs;
	change(owner);
	return true;
}

struct okv_partition *okv_store_partition(struct okv_store *s, uint32_t partition)
{
	return s->partitions[partition];
}

void okv_partition_pin(struct okv_partition *p, bool pinned)
{
	p->is_pinned = pinned;
}

void okv_store_set_disk(struct okv_store *s, struct okv_disk *disk)
{
	(void)s;
	(void)disk;
}

/* In the copy: below 0 it never ends. */
int offline_dump(struct offline *o)
{
	(void)o;
	while (dump_result < 0)
		pause();
	return dump_result;
}

void offline_forget(const char *file, const char *data)
{
	EXPECT(!strcmp(file, "file") && !strcmp(data, "data"));
	nr_forgotten++;
}

void log_say(enum log_kind kind, const char *format, ...)
{
	(void)kind;
	(void)format;
}

static int nr_pinned(void)
{
	int nr = 0;

	for (int i = 0; i < NR; i++)
		nr += partitions[i].is_pinned;
	return nr;
}

/* A dump that has begun; it replies @result, or never ends. */
static struct snapshot begun(int result)
{
	struct snapshot s = { .reactors = &reactors, .wanted = true };

	server = (struct server){
		.config = { .data = "data", .save_to = "file" }, .nr_workers = 1,
		.nr_partitions = NR, .workers = { &worker },
	};
	for (int i = 0; i < NR; i++)
		store.partitions[i] = &partitions[i];
	nr_forgotten = 0;
	dump_result = result;
	snapshot_run(&s);
	EXPECT(s.child > 0 && !s.wanted && nr_pinned() == NR && server.is_saving);
	return s;
}

static void run_until_it_ends(struct snapshot *s)
{
	for (int i = 0; s->child && i < 10000; i++) {
		usleep(1000);
		snapshot_run(s);
	}
	EXPECT(!s->child && !server.is_saving);
}

static void test_ends(void)
{
	struct snapshot s = begun(0);

	run_until_it_ends(&s);
	EXPECT(!nr_pinned() && !server.save_failed && server.saved_s && !nr_forgotten);
	s = begun(1);
	run_until_it_ends(&s);
	EXPECT(!nr_pinned() && server.save_failed && !nr_forgotten);
	s = begun(-1);
	kill(s.child, SIGKILL);
	run_until_it_ends(&s);
	EXPECT(!nr_pinned() && server.save_failed && nr_forgotten == 1);
	/* Who has started us ignored it. */
	signal(SIGCHLD, SIG_IGN);
	s = begun(0);
	run_until_it_ends(&s);
	EXPECT(!nr_pinned() && server.save_failed && nr_forgotten == 1);
	signal(SIGCHLD, SIG_DFL);
}

static void test_given_up(void)
{
	struct snapshot s = begun(-1);

	/* It has not ended yet, and nobody waits for that. */
	snapshot_give_up(&s, "test");
	EXPECT(s.child && nr_pinned() == NR && !nr_forgotten);
	run_until_it_ends(&s);
	EXPECT(!nr_pinned() && server.save_failed && nr_forgotten == 1 && !s.given_up);
	s = begun(-1);
	snapshot_end(&s);
	EXPECT(!s.child && !nr_pinned() && nr_forgotten == 1);
}

/* A partition is on its way between reactors when the dump ends; perhaps the next one is wanted. */
static void test_moving(void)
{
	for (int wanted = 0; wanted < 2; wanted++) {
		struct snapshot s = begun(0);

		store.partitions[2] = NULL;
		run_until_it_ends(&s);
		EXPECT(partitions[2].is_pinned);
		s.wanted = wanted;
		snapshot_run(&s);
		EXPECT(!s.child && partitions[2].is_pinned);
		store.partitions[2] = &partitions[2];
		snapshot_run(&s);
		EXPECT(wanted ? s.child && nr_pinned() == NR : !nr_pinned());
		if (wanted)
			run_until_it_ends(&s);
		EXPECT(!nr_pinned() && !server.save_failed);
	}
}

/* Before Linux 6.5 none begins. */
static void test_kernel(void)
{
	struct snapshot s = { .reactors = &reactors, .wanted = true };

	EXPECT(snapshot_refusal("6.4.16-arch1-1") && snapshot_refusal("5.15.0-91-generic"));
	EXPECT(!snapshot_refusal("6.5.0") && !snapshot_refusal("6.12.48+deb13-amd64"));
	EXPECT(!snapshot_refusal("7.0-rc1"));
	server.is_saving = true;
	server.config.cannot_save = snapshot_refusal("6.1.0");
	snapshot_run(&s);
	EXPECT(!s.child && !s.wanted && !server.is_saving && server.save_failed);
}

int main(void)
{
	test_ends();
	test_given_up();
	test_moving();
	test_kernel();
	puts("ok daemon_snapshot: a dump that ends in any way leaves nothing pinned");
	return 0;
}
