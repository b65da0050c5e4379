// SPDX-License-Identifier: GPL-2.0
/*
 * schedules.c - random schedules of a cluster: no slot has two owners, no write is lost or doubled
 *
 *	schedules			500 schedules
 *	schedules --seeds 1..20000	one for each seed; the first that fails is printed, with all
 *					that happened in it, and the status is 1
 *	schedules --seed 17 --trace	that one
 *
 * run.h says what a schedule is. Processes are killed in the middle of anything and start again.
 * Connections break, and nodes are cut off for a while, or lose their drive to another host. The
 * operator moves slots and maps meanwhile.
 *
 * After each event, at most one octokvd serves a slot. Then faults end, and all comes to rest. What
 * clients were answered has to fit together (history.h), with what their keys have at the end. And
 * each key is at one node.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster/map.h"
#include "run.h"
#include "store/mem.h"
#include "test/test.h"

enum {
	NR_SEEDS	= 500,
	NR_EVENTS	= 2500,
	NR_REST_EVENTS	= 40000,	/* it has to come to rest within */
};

static struct {
	uint64_t nr_events, nr_kills, nr_cuts, nr_takeovers, nr_moved, nr_late, nr_answers,
		nr_unknown;
} total;

/* ---- events ---- */

static struct process *any_process(struct run *run)
{
	return run->nr_processes ? run->processes[run_draw(run, run->nr_processes)] : NULL;
}

static void start_one(struct run *run)
{
	uint32_t node = run_draw(run, NR_NODES);

	if (!node_process(run, node))
		node_start(run, node);
}

static void fault(struct run *run)
{
	struct process *p = any_process(run);
	uint32_t kind = run_draw(run, 10);

	if (kind < 3) {
		net_break(run);
	} else if (kind < 5 && p) {
		sending_cut(p);
	} else if (kind < 7 && p) {
		p->is_cut = !p->is_cut;
		run->nr_cuts += p->is_cut;
		run_trace(run, "%u: %s", p->port, p->is_cut ? "cut off" : "back");
	} else if (kind < 8 && p) {
		p->dies = true;
	} else if (kind < 9) {
		client_give_up(run, &run->clients[run_draw(run, NR_CLIENTS)]);
	} else {
		operator_give_up(run);
	}
}

static void event(struct run *run)
{
	uint32_t kind = run_draw(run, 100);
	struct process *p = any_process(run);

	if (kind < 3)
		start_one(run);
	else if (kind < 6 && !run->calms_down && run_chance(run, run->fault_one_in))
		fault(run);
	else if (kind < 16)
		operator_step(run);
	else if (kind < 30)
		client_step(run, &run->clients[run_draw(run, NR_CLIENTS)]);
	else if (kind < 70)
		net_step(run);
	else if (p && kind < 75)
		sending_step(p);
	else if (p && kind < 80)
		process_keep(p);
	else if (p)
		process_step(p);
}

static void bury(struct run *run)
{
	for (uint32_t i = 0; i < run->nr_processes;) {
		struct process *p = run->processes[i];

		/* A drive that was lost ends it; and one without a drive has to end some day. */
		p->dies |= memstore_is_lost(p->store) || (run->calms_down && p->is_fenced);
		if (!p->dies) {
			i++;
			continue;
		}
		run->nr_kills++;
		net_kill(p);
	}
}

static void check_owners(struct run *run)
{
	for (uint32_t i = 0; i < NR_TAGS; i++) {
		const struct process *owner = NULL;

		for (uint32_t j = 0; j < run->nr_processes; j++) {
			const struct process *p = run->processes[j];

			if (!process_serves(p, run_slots[i]))
				continue;
			if (owner)
				run_fail(run, "slot %u has two owners, %u and %u", run_slots[i],
					 owner->port, p->port);
			owner = p;
		}
	}
}

static void happen(struct run *run)
{
	run->nr_events++;
	run->now++;
	event(run);
	bury(run);
	net_collect(run);
	check_owners(run);
}

/* ---- a run ---- */

static void write_first_map(struct run *run, uint32_t node)
{
	char path[64], id[CLUSTER_ID_LEN + 1];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u.0", run_folder, node);
	file = fopen(path, "w");
	EXPECT(file);
	fprintf(file, "epoch 1\n");
	for (uint32_t i = 0; i < NR_NODES; i++) {
		node_id(i, id);
		fprintf(file, "%s 127.0.0.1:%u %u-%u\n", id, FIRST_PORT + i,
			OKV_NR_SLOTS * i / NR_NODES, OKV_NR_SLOTS * (i + 1) / NR_NODES - 1);
	}
	fclose(file);
	run->nr_hosts[node] = 1;
}

static void begin(struct run *run)
{
	run->random = run->seed * 0x2545f4914f6cdd1dULL + 1;
	run->operator.takes_over = NR_NODES;
	run->fault_one_in = 2 << run_draw(run, 4);
	for (uint32_t i = 0; i < NR_NODES; i++) {
		run->drives[i] = memstore_new();
		memstore_set_slots(run->drives[i]);
		write_first_map(run, i);
		node_start(run, i);
	}
	for (uint32_t i = 0; i < NR_CLIENTS; i++)
		for (uint32_t j = 0; j < NR_TAGS; j++)
			run->clients[i].ports[j] = FIRST_PORT + run_draw(run, NR_NODES);
}

static bool is_at_rest(struct run *run)
{
	for (uint32_t i = 0; i < NR_CLIENTS; i++)
		if (run->clients[i].is_busy)
			return false;
	if (run->links)
		return false;
	for (uint32_t i = 0; i < run->nr_processes; i++)
		if (run->processes[i]->sendings || run->processes[i]->orders.first)
			return false;
	return operator_is_done(run);
}

/* Faults end, and what is open comes to its end. */
static void calm_down(struct run *run)
{
	uint64_t until = run->nr_events + NR_REST_EVENTS;

	run->calms_down = true;
	run_trace(run, "no more faults");
	for (uint32_t i = 0; i < run->nr_processes; i++)
		run->processes[i]->is_cut = false;
	while (!run->has_failed && !is_at_rest(run)) {
		happen(run);
		if (run->nr_events > until)
			run_fail(run, "it does not come to rest");
	}
}

static void read_all(struct run *run)
{
	struct client *c = &run->clients[0];

	for (uint32_t i = 0; i < NR_TAGS && !run->has_failed; i++) {
		client_read(c, i);
		for (uint32_t j = 0; c->is_busy && !run->has_failed; j++) {
			happen(run);
			if (j > NR_REST_EVENTS)
				run_fail(run, "{%s} is not answered", run_tags[i]);
		}
	}
}

static void print_history(const struct history *h)
{
	char text[160];

	for (uint32_t i = 0; i < h->nr; i++) {
		entry_print(&h->entries[i], text, sizeof(text));
		printf("%s\n", text);
	}
}

static void check(struct run *run)
{
	for (uint32_t i = 0; i < NR_TAGS && !run->has_failed; i++) {
		const struct history *h = &run->histories[i];
		const struct step *last = h->entries[h->nr - 1].steps;
		uint32_t nr = 0, wanted = (last[0].answer != NOTHING) + (last[1].answer != NOTHING);

		for (uint32_t j = 0; j < run->nr_processes; j++)
			nr += process_nr_keys(run->processes[j], run_slots[i]);
		if (nr != wanted)
			run_fail(run, "{%s} has %u keys at all nodes, not %u", run_tags[i], nr,
				 wanted);
		if (!history_fits(h)) {
			run_fail(run, "what clients were told of {%s} does not fit together",
				 run_tags[i]);
			if (run->traces)
				print_history(h);
		}
		for (uint32_t j = 0; j < h->nr; j++)
			total.nr_unknown += h->entries[j].answered == UINT64_MAX;
		total.nr_answers += h->nr;
	}
}

static void remove_map(uint32_t node, uint32_t host)
{
	char path[64], id[CLUSTER_ID_LEN + 1], *own;

	snprintf(path, sizeof(path), "%s/%u.%u", run_folder, node, host);
	node_id(node, id);
	own = cluster_own_path(path, id);
	unlink(path);
	unlink(own);
	mem_free(own);
}

static void end(struct run *run)
{
	while (run->nr_processes)
		net_kill(run->processes[0]);
	for (uint32_t i = 0; i < NR_CLIENTS; i++)
		client_give_up(run, &run->clients[i]);
	operator_give_up(run);
	net_collect(run);
	EXPECT(!run->links);
	for (uint32_t i = 0; i < NR_NODES; i++) {
		memstore_free(run->drives[i]);
		for (uint32_t j = 0; j < run->nr_hosts[i]; j++)
			remove_map(i, j);
	}
	total.nr_events += run->nr_events;
	total.nr_kills += run->nr_kills;
	total.nr_cuts += run->nr_cuts;
	total.nr_takeovers += run->nr_takeovers;
	total.nr_moved += run->nr_moved;
	total.nr_late += run->nr_late;
}

static bool run_seed(uint64_t seed, bool traces)
{
	struct run *run = mem_zalloc(sizeof(*run));
	bool has_failed;

	run->seed = seed;
	run->traces = traces;
	begin(run);
	while (!run->has_failed && run->nr_events < NR_EVENTS)
		happen(run);
	calm_down(run);
	read_all(run);
	check(run);
	has_failed = run->has_failed;
	end(run);
	mem_free(run);
	return !has_failed;
}

/* Tags whose slots belong to different nodes, and are in different partitions. */
static void find_tags(void)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < NR_TAGS; i++) {
		do {
			snprintf(run_tags[i], sizeof(run_tags[i]), "t%u", number++);
			run_slots[i] = okv_slot(run_tags[i], strlen(run_tags[i]));
		} while (run_slots[i] / (OKV_NR_SLOTS / NR_TAGS) != i ||
			 run_slots[i] % NR_TAGS != i);
	}
}

static bool run_seeds(uint64_t from, uint64_t to, bool traces)
{
	for (uint64_t seed = from; seed <= to; seed++) {
		if (run_seed(seed, traces))
			continue;
		/* The same once more. */
		if (!traces)
			run_seed(seed, true);
		return false;
	}
	printf("ok cluster_schedules: %llu schedules: %llu events, %llu killed, %llu cut off, "
	       "%llu taken over, %llu slots moved, %llu late; %llu answers fit, %llu unknown\n",
	       (unsigned long long)(to - from + 1), (unsigned long long)total.nr_events,
	       (unsigned long long)total.nr_kills, (unsigned long long)total.nr_cuts,
	       (unsigned long long)total.nr_takeovers, (unsigned long long)total.nr_moved,
	       (unsigned long long)total.nr_late,
	       (unsigned long long)(total.nr_answers - total.nr_unknown),
	       (unsigned long long)total.nr_unknown);
	return true;
}

int main(int argc, char **argv)
{
	unsigned long from = 1, to = NR_SEEDS;
	bool traces = argc > 3 && !strcmp(argv[3], "--trace"), is_good;

	if (argc > 2 && !strcmp(argv[1], "--seed") && sscanf(argv[2], "%lu", &from) == 1) {
		to = from;
	} else if (argc > 1 && (argc < 3 || strcmp(argv[1], "--seeds") ||
				sscanf(argv[2], "%lu..%lu", &from, &to) != 2)) {
		fprintf(stderr, "usage: schedules [--seeds A..B | --seed N [--trace]]\n");
		return 2;
	}
	EXPECT(mkdtemp(run_folder));
	/* keeper.c says which map counts. */
	stderr = fopen("/dev/null", "w");
	find_tags();
	is_good = run_seeds(from, to, traces);
	fclose(stderr);
	rmdir(run_folder);
	return !is_good;
}
