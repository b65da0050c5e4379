// SPDX-License-Identifier: GPL-2.0
/*
 * clients.c - clients of the cluster, and what they note
 *
 * A client sends a command or a transaction to the node that it believes has the slot, and follows
 * MOVED and ASK. What is answered by an error was not run, except by IOERR. A client that waits too
 * long, or whose connection breaks, does not know, and asks something else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "test/test.h"

static void put_step(char *text, size_t bytes, uint32_t tag, const struct step *s)
{
	size_t at = strlen(text);

	at += snprintf(text + at, bytes - at, "%s {%s}%c", verb_names[s->verb], run_tags[tag],
		       "xy"[s->key]);
	if (s->verb == SET)
		at += snprintf(text + at, bytes - at, " %lld", (long long)s->number);
	snprintf(text + at, bytes - at, "\r\n");
}

static void forget(struct client *c)
{
	c->link = NULL;
	c->said_len = 0;
}

static void end_entry(struct run *run, struct client *c)
{
	char text[160];

	if (c->entry.answered != UINT64_MAX)
		c->entry.answered = ++run->now;
	history_add(&run->histories[c->tag], &c->entry);
	entry_print(&c->entry, text, sizeof(text));
	run_trace(run, "client %u: {%s} %s", (uint32_t)(c - run->clients), run_tags[c->tag], text);
	c->is_busy = false;
	c->is_asking = false;
}

static void end_unknown(struct run *run, struct client *c)
{
	c->entry.answered = UINT64_MAX;
	end_entry(run, c);
}

/* @text is behind MOVED or ASK: a slot, and an address. */
static void follow(struct client *c, const char *text, bool asks)
{
	const char *colon = strchr(text, ':');

	EXPECT(colon);
	c->ports[c->tag] = atoi(colon + 1);
	c->is_asking = asks;
}

static void ask_another(struct run *run, struct client *c)
{
	if (run->nr_processes)
		c->ports[c->tag] = run->processes[run_draw(run, run->nr_processes)]->port;
	c->is_asking = false;
}

static void take_error(struct run *run, struct client *c, const struct reply *r)
{
	if (!strncmp(r->text, "MOVED", 5))
		follow(c, r->text, false);
	else if (!strncmp(r->text, "ASK", 3))
		follow(c, r->text, true);
	else if (!strncmp(r->text, "IOERR", 5))
		end_unknown(run, c);
	else if (!strncmp(r->text, "TRYAGAIN", 8) || !strncmp(r->text, "CLUSTERDOWN", 11))
		ask_another(run, c);
	else
		run_fail(run, "a client is answered %.*s", (int)r->len, r->text);
}

/* All that was said is complete. False: not yet. */
static bool take_replies(struct run *run, struct client *c, const char *at, const char *end)
{
	struct entry *e = &c->entry;
	struct reply r, error = { 0 };
	uint32_t nr_before = c->is_asking + (e->nr > 1 ? 1 + e->nr : 0);
	bool has_all = true;

	for (uint32_t i = 0; i < nr_before + (e->nr > 1); i++) {
		if (!reply_read(&at, end, &r))
			return false;
		if (r.type == '-' && !error.text)
			error = r;
	}
	for (uint32_t i = 0; i < e->nr && !error.text; i++) {
		has_all &= reply_read(&at, end, &r);
		if (!has_all)
			return false;
		if (r.type == '-')
			error = r;
		e->steps[i].answer = r.is_nil ? NOTHING : r.number;
	}
	EXPECT(at == end);
	if (error.text)
		take_error(run, c, &error);
	else
		end_entry(run, c);
	return true;
}

static void heard(struct run *run, struct link *l, const char *data, size_t len)
{
	struct client *c = l->owner;

	EXPECT(c->said_len + len < sizeof(c->said));
	memcpy(c->said + c->said_len, data, len);
	c->said_len += len;
	c->said[c->said_len] = 0;
	if (!take_replies(run, c, c->said, c->said + c->said_len))
		return;
	link_give_up(l);
	forget(c);
}

static void broken(struct run *run, struct link *l)
{
	struct client *c = l->owner;

	end_unknown(run, c);
	forget(c);
}

static void send_entry(struct run *run, struct client *c)
{
	const struct entry *e = &c->entry;
	char text[512] = "";

	c->link = link_open(run, c->ports[c->tag], c);
	if (!c->link) {
		ask_another(run, c);
		return;
	}
	c->link->heard = heard;
	c->link->broken = broken;
	if (c->is_asking)
		strcat(text, "ASKING\r\n");
	if (e->nr > 1)
		strcat(text, "MULTI\r\n");
	for (uint32_t i = 0; i < e->nr; i++)
		put_step(text, sizeof(text), c->tag, &e->steps[i]);
	if (e->nr > 1)
		strcat(text, "EXEC\r\n");
	c->entry.sent = ++run->now;
	link_send(c->link, text, strlen(text));
}

static void begin(struct run *run, struct client *c)
{
	struct entry *e = &c->entry;
	static const enum verb verbs_of[] = {
		GET, GET, GET, SET, SET, DEL, DEL, INCR, INCR, INCR, /* of both keys: */ INCR, GET,
	};
	uint32_t kind = run_draw(run, sizeof(verbs_of) / sizeof(verbs_of[0]));

	memset(e, 0, sizeof(*e));
	c->is_busy = true;
	e->nr = kind > 9 ? 2 : 1;
	for (uint32_t i = 0; i < e->nr; i++)
		e->steps[i] = (struct step){
			.verb = verbs_of[kind], .key = e->nr > 1 ? i : run_draw(run, 2),
		};
	for (uint32_t i = 0; i < e->nr; i++)
		if (e->steps[i].verb == SET)
			e->steps[i].number = run->next_number += 1000;
}

/* Some room is left for what is asked at the end. */
static bool choose_tag(struct run *run, struct client *c)
{
	uint32_t first = run_draw(run, NR_TAGS);

	for (uint32_t i = 0; i < NR_TAGS; i++) {
		c->tag = (first + i) % NR_TAGS;
		if (run->histories[c->tag].nr < NR_ENTRIES_MAX - NR_CLIENTS - 1)
			return true;
	}
	return false;
}

void client_step(struct run *run, struct client *c)
{
	if (c->link || (!c->is_busy && (run->calms_down || !choose_tag(run, c))))
		return;
	if (!c->is_busy)
		begin(run, c);
	send_entry(run, c);
}

void client_give_up(struct run *run, struct client *c)
{
	if (!c->link)
		return;
	end_unknown(run, c);
	link_give_up(c->link);
	forget(c);
}

void client_read(struct client *c, uint32_t tag)
{
	memset(&c->entry, 0, sizeof(c->entry));
	c->tag = tag;
	c->is_busy = true;
	c->entry.nr = 2;
	c->entry.steps[1].key = 1;
}
