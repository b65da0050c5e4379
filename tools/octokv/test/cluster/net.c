// SPDX-License-Identifier: GPL-2.0
/*
 * net.c - connections whose bytes come late, in pieces, or never
 *
 * Bytes of one connection keep their order, and those of several do not. Who gives a connection up
 * does not take back what is under way: that may arrive at any later moment, as long as the octokvd
 * at the other end is the same one. So a connection is to a process, and breaks with it.
 */
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "server/conn.h"
#include "store/mem.h"
#include "test/test.h"

struct link *link_open(struct run *run, uint16_t port, void *owner)
{
	struct process *p = port_process(run, port);
	struct link *l;

	if (!p || p->ends)
		return NULL;
	l = mem_zalloc(sizeof(*l));
	l->process = p;
	l->owner = owner;
	l->slot = -1;
	l->next = run->links;
	run->links = l;
	return l;
}

void link_send(struct link *l, const char *data, size_t len)
{
	l->out = mem_grow(l->out, l->out_len + len);
	memcpy(l->out + l->out_len, data, len);
	l->out_len += len;
}

void link_give_up(struct link *l)
{
	l->owner = NULL;
	l->in_len = 0;
	if (l->process)
		l->late_one_in = 4 << run_draw(l->process->run, 8);
}

static bool is_over(const struct link *l)
{
	return !l->owner && (!l->process || (l->out_at == l->out_len &&
					     !(l->conn && l->conn->nr_requests)));
}

bool link_is_late(const struct link *l)
{
	return !l->owner && !is_over(l);
}

static void hang_up(struct link *l)
{
	if (l->conn) {
		process_enter(l->process);
		conn_kill(l->conn);
	}
	l->conn = NULL;
	l->process = NULL;
}

static void free_links(struct run *run)
{
	for (struct link **at = &run->links; *at;) {
		struct link *l = *at;

		if (!is_over(l)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		hang_up(l);
		mem_free(l->out);
		mem_free(l->in);
		mem_free(l);
	}
}

void net_collect(struct run *run)
{
	for (struct link *l = run->links; l; l = l->next) {
		size_t nr = l->conn ? l->conn->out.nr_bytes : 0;
		char *text;

		if (!nr)
			continue;
		text = out_text(&l->conn->out);
		process_enter(l->process);
		conn_sent(l->conn, nr);
		if (l->owner) {
			l->in = mem_grow(l->in, l->in_len + nr);
			memcpy(l->in + l->in_len, text, nr);
			l->in_len += nr;
		}
		free(text);
	}
	free_links(run);
}

static void deliver(struct run *run, struct link *l)
{
	struct process *p = l->process;
	size_t left = l->out_len - l->out_at, nr = left;

	process_enter(p);
	if (!l->conn) {
		l->conn = mem_alloc(sizeof(*l->conn));
		conn_init(l->conn, &p->workers[run_draw(run, NR_WORKERS)]);
	}
	if (run_chance(run, 3))
		nr = 1 + run_draw(run, left);
	run->nr_late += !l->owner;
	l->out_at += conn_feed(l->conn, l->out + l->out_at, nr);
	memstore_release_scans(p->store);
}

static void hear(struct run *run, struct link *l)
{
	size_t len = run_chance(run, 3) ? 1 + run_draw(run, l->in_len) : l->in_len;
	char *data = memcpy(mem_alloc(len), l->in, len);

	memmove(l->in, l->in + len, l->in_len - len);
	l->in_len -= len;
	l->heard(run, l, data, len);
	mem_free(data);
}

static bool can_deliver(const struct link *l)
{
	return l->process && !l->process->is_cut && l->out_at < l->out_len &&
	       (!l->conn || conn_wants_input(l->conn));
}

void net_step(struct run *run)
{
	struct link *chosen = NULL;
	uint32_t nr = 0;

	for (struct link *l = run->links; l; l = l->next) {
		bool hears = l->owner && l->in_len && l->process && !l->process->is_cut;
		/* What nobody waits for any more is late. */
		bool is_due = l->owner || run->calms_down || run_chance(run, l->late_one_in);
		bool delivers = can_deliver(l) && is_due;

		if ((hears || delivers) && !run_draw(run, ++nr))
			chosen = l;
	}
	if (chosen && chosen->owner && chosen->in_len)
		hear(run, chosen);
	else if (chosen)
		deliver(run, chosen);
}

static void broken(struct run *run, struct link *l)
{
	hang_up(l);
	if (l->owner)
		l->broken(run, l);
	link_give_up(l);
}

void net_break(struct run *run)
{
	struct link *chosen = NULL;
	uint32_t nr = 0;

	for (struct link *l = run->links; l; l = l->next)
		if (l->process && !run_draw(run, ++nr))
			chosen = l;
	if (chosen)
		broken(run, chosen);
}

/* ---- keys for another node ---- */

static void end_sending(struct process *p)
{
	struct sending *s = p->sendings;

	p->sendings = s->next;
	delivery_end(&s->delivery);
	if (s->link)
		link_give_up(s->link);
	process_return(p, s->msg);
	mem_free(s);
}

bool sending_cut(struct process *p)
{
	if (!p->sendings)
		return false;
	delivery_cut(&p->sendings->delivery, "no answer in time");
	end_sending(p);
	return true;
}

static void go_on(struct process *p)
{
	struct sending *s = p->sendings;
	struct delivery *d = &s->delivery;
	size_t nr = delivery_may_send(d) - d->nr_sent;

	link_send(s->link, d->s->bytes + d->nr_sent, nr);
	d->nr_sent += nr;
	if (delivery_is_over(d))
		end_sending(p);
}

static void sending_heard(struct run *run, struct link *l, const char *data, size_t len)
{
	struct process *p = l->owner;

	(void)run;
	if (delivery_take(&p->sendings->delivery, data, len))
		go_on(p);
	else
		end_sending(p);
}

static void sending_broken(struct run *run, struct link *l)
{
	(void)run;
	sending_cut(l->owner);
}

/* One at a time; an answer may stay out for too long. */
void sending_step(struct process *p)
{
	struct sending *s = p->sendings;

	if (!s)
		return;
	if (s->link) {
		if (!p->run->calms_down && run_chance(p->run, p->run->fault_one_in))
			sending_cut(p);
		return;
	}
	/* A connection that is cut cannot be made. */
	s->link = p->is_cut ? NULL : link_open(p->run, s->delivery.s->port, p);
	if (!s->link) {
		sending_cut(p);
		return;
	}
	s->link->heard = sending_heard;
	s->link->broken = sending_broken;
	go_on(p);
}

/* ---- the end of a process ---- */

void net_kill(struct process *p)
{
	process_end(p);
	for (struct link *l = p->run->links; l; l = l->next)
		if (l->process == p)
			broken(p->run, l);
	do {
		process_fail_orders(p);
		while (sending_cut(p))
			;
	} while (process_step(p));
	process_free(p);
}
