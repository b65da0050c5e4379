// SPDX-License-Identifier: GPL-2.0
/*
 * operator.c - one who moves slots, changes the map and takes drives over, as the guide says
 *
 * The operator gives one order after the other, and may stop after any, answered or not. What it
 * has begun it takes up again later, from the beginning, as valkey-cli --cluster fix does. It knows
 * what it has begun, and keeps to these rules of Documentation/guide/cluster.rst:
 *
 * - An order that was not answered may still arrive. So the node is started again before the slot
 *   moves once more, and before a map is made of different ones.
 * - A slot that the old node was told to leave goes on: new keys may be at the new one. Else it may
 *   stay, and both nodes hear so.
 * - A map is made of one that all nodes have, but for its epoch. It is sent to all before a slot is
 *   given away. A drive is taken over as the script takeover does it. Slots that are on their way
 *   to or from that node go on then.
 *
 * Against the rules, not all nodes are sent a map, or they are sent it later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/map.h"
#include "run.h"
#include "test/test.h"

enum { ALL_SLOTS = OKV_NR_SLOTS };	/* an order is about the map */
enum { IMPORT, MIGRATE_FROM, LOOK, SEND, GIVE };	/* steps of a move */

static uint16_t port_of(const struct run *run, uint32_t node)
{
	return FIRST_PORT + node + 10 * (run->nr_hosts[node] - 1);
}

/* ---- orders ---- */

static void take_answer(struct run *run, const struct reply *r, const char *at, const char *end);

static void stop(struct run *run)
{
	run->operator.is_at_work = run->operator.sends_map = run->operator.sends_old = false;
	run->operator.link = NULL;
	run->operator.said_len = 0;
}

static void heard(struct run *run, struct link *l, const char *data, size_t len)
{
	struct operator *o = l->owner;
	const char *at = o->said, *end;
	struct reply r, element;

	EXPECT(o->said_len + len < sizeof(o->said));
	memcpy(o->said + o->said_len, data, len);
	o->said_len += len;
	o->said[o->said_len] = 0;
	end = o->said + o->said_len;
	if (!reply_read(&at, end, &r))
		return;
	data = at;
	for (int64_t i = 0; r.type == '*' && i < r.number; i++)
		if (!reply_read(&at, end, &element))
			return;
	link_give_up(l);
	o->link = NULL;
	o->said_len = 0;
	run_trace(run, "operator: node %u answers %c%.*s", o->asked, r.type,
		  (int)strcspn(r.text, "\r"), r.text);
	take_answer(run, &r, data, end);
}

static void broken(struct run *run, struct link *l)
{
	(void)l;
	run_trace(run, "operator: not answered");
	stop(run);
}

static void order(struct run *run, uint32_t node, int32_t slot, const char *text)
{
	struct operator *o = &run->operator;
	struct process *p = node_process(run, node);

	o->link = p ? link_open(run, p->port, o) : NULL;
	if (!o->link) {
		stop(run);
		return;
	}
	o->asked = node;
	o->link->slot = slot;
	o->link->heard = heard;
	o->link->broken = broken;
	run_trace(run, "operator: node %u: %.*s", node, (int)strcspn(text, "\r\n"), text);
	link_send(o->link, text, strlen(text));
}

void operator_give_up(struct run *run)
{
	if (run->operator.link) {
		run_trace(run, "operator: waits no longer");
		link_give_up(run->operator.link);
	}
	stop(run);
}

/* Starts the nodes again that may still have to read an order about the slot. True: it did. */
static bool end_late_orders(struct run *run, int32_t slot)
{
	bool ends = false;

	for (struct link *l = run->links; l; l = l->next) {
		bool is_about = l->slot == slot || (l->slot >= 0 && slot == ALL_SLOTS);

		if (!is_about || !link_is_late(l))
			continue;
		l->process->dies = ends = true;
	}
	return ends;
}

/* ---- moving a slot ---- */

static void set_slot(struct run *run, uint32_t node, const char *what, uint32_t other)
{
	uint32_t slot = run_slots[run->operator.tag];
	char text[160], id[CLUSTER_ID_LEN + 1] = "";

	if (other < NR_NODES)
		node_id(other, id);
	snprintf(text, sizeof(text), "CLUSTER SETSLOT %u %s %s\r\n", slot, what, id);
	order(run, node, slot, text);
}

static void send_keys(struct run *run, const char *at, const char *end, int64_t nr)
{
	struct operator *o = &run->operator;
	struct move_plan *m = &o->plans[o->tag];
	char text[256];
	struct reply key;
	int len = snprintf(text, sizeof(text), "MIGRATE 127.0.0.1 %u '' 0 5000 KEYS",
			   port_of(run, m->to));

	for (int64_t i = 0; i < nr && reply_read(&at, end, &key); i++)
		len += snprintf(text + len, sizeof(text) - len, " %.*s", (int)key.len, key.text);
	strcat(text, "\r\n");
	m->step = SEND;
	order(run, m->from, run_slots[o->tag], text);
}

static void give_next(struct run *run)
{
	struct move_plan *m = &run->operator.plans[run->operator.tag];
	const uint32_t nodes[NR_NODES] = { m->from, m->to, NR_NODES - m->from - m->to };
	uint32_t i = 0;

	while (i < NR_NODES && m->heard >> nodes[i] & 1)
		i++;
	/* Both have to hear it, in any order, as there are no keys of it at the old one. */
	if (!i && m->goes_first && !(m->heard >> m->to & 1))
		i = 1;
	if (i < NR_NODES) {
		set_slot(run, nodes[i], "NODE", m->to);
		return;
	}
	*m = (struct move_plan){ .state = AT_REST };
	run->nr_moved++;
	stop(run);
}

static void go_on(struct run *run)
{
	struct operator *o = &run->operator;
	struct move_plan *m = &o->plans[o->tag];
	char text[80];

	if (m->state == STAYS && m->heard == (1U << m->from | 1U << m->to)) {
		*m = (struct move_plan){ .state = AT_REST };
		stop(run);
	} else if (m->state == STAYS) {
		set_slot(run, m->heard >> m->from & 1 ? m->to : m->from, "STABLE", NR_NODES);
	} else if (m->step == IMPORT) {
		set_slot(run, m->to, "IMPORTING", m->from);
	} else if (m->step == MIGRATE_FROM) {
		m->goes_on = true;
		set_slot(run, m->from, "MIGRATING", m->to);
	} else if (m->step == LOOK) {
		snprintf(text, sizeof(text), "CLUSTER GETKEYSINSLOT %u %u\r\n", run_slots[o->tag],
			 1 + run_draw(run, 2));
		order(run, m->from, run_slots[o->tag], text);
	} else if (o->map[0] || (!m->heard && run_chance(run, 3))) {
		stop(run);
	} else {
		give_next(run);
	}
}

static void take_move_answer(struct run *run, const struct reply *r, const char *at,
			     const char *end)
{
	struct operator *o = &run->operator;
	struct move_plan *m = &o->plans[o->tag];
	bool is_good = r->type != '-';

	if (!is_good && (!strncmp(r->text, "TRYAGAIN", 8) || !strncmp(r->text, "CLUSTERDOWN", 11)))
		return;
	if (m->state == STAYS) {
		m->heard |= 1U << o->asked;
	} else if (m->step == IMPORT && (is_good || strstr(r->text, "I'm already the owner"))) {
		m->step = is_good ? MIGRATE_FROM : GIVE;
	} else if (m->step == MIGRATE_FROM && (is_good || strstr(r->text, "I'm not the owner"))) {
		m->step = is_good ? LOOK : GIVE;
	} else if (m->step == LOOK && is_good && r->number) {
		send_keys(run, at, end, r->number);
	} else if (m->step == LOOK && is_good) {
		m->step = GIVE;
		m->goes_first = run_chance(run, 2);
	} else if (m->step == SEND && strstr(r->text, "is on its way to")) {
		/* It has an older map, with another address. */
		o->needs_map = true;
		stop(run);
	} else if (m->step == SEND) {
		m->step = LOOK;
	} else if (m->step == GIVE && is_good) {
		m->heard |= 1U << o->asked;
	} else if (m->step == GIVE && strstr(r->text, "has keys here")) {
		m->step = LOOK;
	} else {
		run_fail(run, "the operator is answered %.*s", (int)r->len, r->text);
	}
}

/* ---- the map of all ---- */

static const struct cluster *map_of(struct run *run, uint32_t node)
{
	struct process *p = node_process(run, node);

	return p ? p->server.cluster : NULL;
}

/* All nodes but @without are there, and have the same owners of slots. */
static bool agree(struct run *run, uint32_t without, uint64_t *epoch, bool *is_same)
{
	const struct cluster *first = NULL;

	*epoch = 0;
	*is_same = true;
	for (uint32_t i = 0; i < NR_NODES; i++) {
		const struct cluster *c = map_of(run, i);

		if (i == without)
			continue;
		if (!c || node_process(run, i)->is_cut)
			return false;
		first = first ? first : c;
		if (memcmp(first->owner, c->owner, sizeof(c->owner)))
			return false;
		*is_same &= cluster_is_same(first, c);
		*epoch = c->epoch > *epoch ? c->epoch : *epoch;
	}
	return true;
}

/* The words of a node's own map, by the other nodes, as the script takeover makes them. */
static int add_ways(struct run *run, char *to, size_t bytes, uint32_t node)
{
	char id[CLUSTER_ID_LEN + 1], *start = to, *end = to + bytes;

	for (uint32_t i = 0; i < NR_NODES; i++) {
		node_id(i, id);
		for (uint32_t tag = 0; i != node && tag < NR_TAGS; tag++) {
			const struct cluster *c = map_of(run, i);
			uint32_t slot = run_slots[tag];

			if (c->way[slot] == node + 1)
				to += snprintf(to, end - to, " [%u%s%s]", slot,
					       cluster_owns(c, slot) ? "-<-" : "->-", id);
		}
	}
	return to - start;
}

/* @own is the node that it is made for; NR_NODES: it is for all. */
static void make_map(struct run *run, const struct cluster *c, uint64_t epoch, uint32_t own,
		     char *to)
{
	char *end = to + TEXT_BYTES, id[CLUSTER_ID_LEN + 1];

	to += snprintf(to, end - to, "epoch %llu\n", (unsigned long long)epoch);
	for (uint32_t i = 0; i < NR_NODES; i++) {
		struct cluster_range range;

		node_id(i, id);
		to += snprintf(to, end - to, "%s 127.0.0.1:%u", id, port_of(run, i));
		for (uint32_t at = 0; cluster_next(c, &at, &range);)
			if (range.node == i)
				to += snprintf(to, end - to, " %u-%u", range.first, range.last);
		if (i == own)
			to += add_ways(run, to, end - to, own);
		to += snprintf(to, end - to, "\n");
	}
	EXPECT(to < end);
}

static void begin_map(struct run *run)
{
	uint64_t epoch;
	bool is_same;

	if (!agree(run, NR_NODES, &epoch, &is_same))
		return;
	if (!is_same && end_late_orders(run, ALL_SLOTS))
		return;
	epoch += 1 + run_draw(run, 8);
	make_map(run, map_of(run, 0), epoch, NR_NODES, run->operator.map);
	run->operator.has_map = 0;
	run->operator.needs_map = false;
	run_trace(run, "operator: a map with epoch %llu", (unsigned long long)epoch);
}

/*
 * Slots that another node has on their way to or from this one go on, also if one of the two had
 * been told that they stay: clients may use the other one from now on. False: one has two ways.
 */
static bool goes_on(struct run *run, uint32_t node, struct move_plan *plans)
{
	for (uint32_t i = 0; i < NR_NODES; i++) {
		for (uint32_t tag = 0; i != node && tag < NR_TAGS; tag++) {
			const struct cluster *c = map_of(run, i);
			uint32_t slot = run_slots[tag];
			bool leaves = cluster_owns(c, slot);

			if (c->way[slot] != node + 1)
				continue;
			if (plans[tag].state != AT_REST)
				return false;
			plans[tag] = (struct move_plan){
				.state = MOVES, .from = leaves ? i : node, .to = leaves ? node : i,
				.goes_on = true,
			};
		}
	}
	return true;
}

static void take_over(struct run *run, uint32_t node)
{
	uint32_t other = (node + 1) % NR_NODES;
	struct move_plan plans[NR_TAGS] = { 0 };
	char own_map[TEXT_BYTES];
	uint64_t epoch;
	bool is_same;

	if (run->nr_hosts[node] == NR_HOSTS_MAX || !agree(run, node, &epoch, &is_same) ||
	    !is_same || !goes_on(run, node, plans))
		return;
	for (uint32_t i = 0; i < NR_TAGS; i++) {
		if (plans[i].state == AT_REST)
			continue;
		if (end_late_orders(run, run_slots[i]))
			return;
		run->operator.plans[i] = plans[i];
	}
	run->nr_hosts[node]++;
	make_map(run, map_of(run, other), epoch + 1, NR_NODES, run->operator.map);
	make_map(run, map_of(run, other), epoch + 1, node, own_map);
	run->nr_hosts[node]--;
	node_take_over(run, node, run->operator.map, own_map);
	run->operator.has_map = 1U << node;
	run->operator.takes_over = node;
}

static uint64_t epoch_of(const char *map)
{
	return strtoull(map + strlen("epoch "), NULL, 10);
}

/* The file, and SIGHUP. */
static void reload(struct run *run, uint32_t node)
{
	struct process *p = node_process(run, node);

	if (!p || p->is_cut)
		return;
	process_reload(p, run->operator.map);
	if (epoch_of(run->operator.map) == p->server.cluster->epoch)
		run->operator.has_map |= 1U << node;
}

static void send_text(struct run *run, uint32_t node, const char *map)
{
	char text[TEXT_BYTES + 80];
	int len = snprintf(text, sizeof(text), "*3\r\n$7\r\nCLUSTER\r\n$6\r\nSETMAP\r\n$%zu\r\n%s"
			   "\r\n", strlen(map), map);

	EXPECT(len < (int)sizeof(text));
	order(run, node, ALL_SLOTS, text);
}

/* A node that has missed a map is sent it again, although slots have moved. False: none has. */
static bool send_old_map(struct run *run)
{
	for (uint32_t i = 0; run->operator.old_map[0] && i < NR_NODES; i++) {
		const struct cluster *c = map_of(run, i);

		if (!c || c->epoch == c->since || c->epoch >= epoch_of(run->operator.old_map))
			continue;
		run->operator.sends_old = true;
		send_text(run, i, run->operator.old_map);
		return true;
	}
	return false;
}

static void send_map(struct run *run)
{
	struct operator *o = &run->operator;
	uint32_t node = 0;

	if (o->takes_over < NR_NODES && !node_process(run, o->takes_over))
		return;
	while (node < NR_NODES && o->has_map >> node & 1)
		node++;
	/* Not all take it, at times. */
	if (node == NR_NODES || (node && o->takes_over == NR_NODES && !run->calms_down &&
				 run_chance(run, 6))) {
		memcpy(o->old_map, o->map, sizeof(o->map));
		o->map[0] = 0;
		o->takes_over = NR_NODES;
		return;
	}
	if (run_chance(run, 4)) {
		reload(run, node);
		return;
	}
	o->sends_map = true;
	send_text(run, node, o->map);
}

/* A node that has another one meanwhile does not take it, and no other is to take it later. */
static void take_map_answer(struct run *run, const struct reply *r)
{
	struct operator *o = &run->operator;

	if (r->type != '-')
		o->has_map |= 1U << o->asked;
	else if ((strstr(r->text, "the epoch is") || strstr(r->text, "slots have moved")) &&
		 !end_late_orders(run, ALL_SLOTS))
		o->map[0] = 0;
	stop(run);
}

static void take_answer(struct run *run, const struct reply *r, const char *at, const char *end)
{
	if (run->operator.sends_old)
		stop(run);
	else if (run->operator.sends_map)
		take_map_answer(run, r);
	else
		take_move_answer(run, r, at, end);
}

/* ---- what to do next ---- */

/* Some have not heard the last step: all hear it once more. False: there is nothing to repair. */
static bool repair(struct run *run)
{
	struct operator *o = &run->operator;
	struct move_plan *m = &o->plans[o->tag];
	uint32_t slot = run_slots[o->tag], owner = NR_NODES;
	bool is_same = true;

	for (uint32_t i = 0; i < NR_NODES; i++) {
		const struct cluster *c = map_of(run, i);

		if (!c)
			return false;
		owner = cluster_owns(c, slot) ? i : owner;
		is_same &= c->owner[slot] == map_of(run, 0)->owner[slot];
	}
	if (is_same || owner == NR_NODES)
		return false;
	*m = (struct move_plan){
		.state = MOVES, .from = (owner + 1) % NR_NODES, .to = owner, .goes_on = true,
	};
	o->is_at_work = true;
	return true;
}

/* A late order has opened a slot that stays, as valkey-cli --cluster check shows. */
static bool close_slot(struct run *run)
{
	struct operator *o = &run->operator;
	uint32_t slot = run_slots[o->tag];

	for (uint32_t i = 0; i < NR_NODES; i++) {
		const struct cluster *c = map_of(run, i);

		if (!c->way[slot])
			continue;
		o->plans[o->tag] = (struct move_plan){
			.state = STAYS, .from = i, .to = c->way[slot] - 1,
		};
		o->is_at_work = true;
		return true;
	}
	return false;
}

static void begin_move(struct run *run)
{
	struct operator *o = &run->operator;
	struct move_plan *m = &o->plans[o->tag];
	uint64_t epoch;
	bool is_same;

	if (repair(run) || run->calms_down || !agree(run, NR_NODES, &epoch, &is_same) ||
	    end_late_orders(run, run_slots[o->tag]) || close_slot(run))
		return;
	m->state = MOVES;
	m->from = map_of(run, 0)->owner[run_slots[o->tag]] - 1;
	m->to = (m->from + 1 + run_draw(run, NR_NODES - 1)) % NR_NODES;
	o->is_at_work = true;
}

static void choose(struct run *run)
{
	struct operator *o = &run->operator;
	struct move_plan *m;

	o->tag = run_draw(run, NR_TAGS);
	m = &o->plans[o->tag];
	if (!run->calms_down && run_chance(run, 4) && send_old_map(run))
		return;
	if (o->map[0] && !run_chance(run, 4)) {
		send_map(run);
	} else if (m->state == AT_REST) {
		begin_move(run);
	} else {
		if (m->state == MOVES && !m->goes_on && run_chance(run, 6))
			m->state = STAYS;
		m->step = IMPORT;
		o->is_at_work = true;
	}
	if (o->map[0])
		return;
	if (o->needs_map)
		begin_map(run);
	else if (run_chance(run, 4) && !run->calms_down)
		run_chance(run, 3) ? begin_map(run) : take_over(run, run_draw(run, NR_NODES));
}

void operator_step(struct run *run)
{
	struct operator *o = &run->operator;

	if (o->link) {
		if (!run->calms_down && run_chance(run, 4 * run->fault_one_in))
			operator_give_up(run);
		return;
	}
	if (o->is_at_work)
		go_on(run);
	else
		choose(run);
}

bool operator_is_done(struct run *run)
{
	const struct operator *o = &run->operator;
	uint64_t epoch;
	bool is_same;

	for (uint32_t i = 0; i < NR_TAGS; i++)
		if (o->plans[i].state != AT_REST)
			return false;
	if (o->map[0] || !agree(run, NR_NODES, &epoch, &is_same))
		return false;
	if (!is_same)
		begin_map(run);
	return is_same;
}
