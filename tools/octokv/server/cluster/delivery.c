// SPDX-License-Identifier: GPL-2.0
/* delivery.c - see delivery.h */
#include <stdio.h>
#include <string.h>

#include "delivery.h"

bool delivery_cut(struct delivery *d, const char *why)
{
	d->s->is_cut = true;
	snprintf(d->s->why, sizeof(d->s->why), "%s", why);
	return false;
}

size_t delivery_may_send(const struct delivery *d)
{
	return d->nr_lines ? d->s->len : d->s->first_len;
}

bool delivery_is_over(const struct delivery *d)
{
	return d->nr_lines == 1 + d->s->nr_keys || d->is_refused;
}

/* A line is complete: the answer to the first command, or for a key. */
static void take_answer(struct delivery *d)
{
	struct shipment *s = d->s;
	bool is_good = d->line[0] == '+';
	/* octokvd does not know, after an error of its device. */
	bool is_known = is_good || strncmp(d->line, "-IOERR", 6);

	if (!is_good && !s->why[0])
		snprintf(s->why, sizeof(s->why), "%.*s", (int)sizeof(s->why) - 1, d->line + 1);
	if (d->nr_lines && is_known)
		s->outcomes[d->nr_lines - 1] = is_good ? SHIP_TAKEN : SHIP_REFUSED;
	d->is_refused |= !d->nr_lines && !is_good;
	d->nr_lines++;
}

bool delivery_take(struct delivery *d, const char *data, size_t len)
{
	for (size_t i = 0; i < len && d->nr_lines <= d->s->nr_keys; i++) {
		if (data[i] != '\n') {
			if (data[i] != '\r' && d->line_len < DELIVERY_LINE_BYTES - 1)
				d->line[d->line_len++] = data[i];
			continue;
		}
		d->line[d->line_len] = 0;
		if (d->line[0] != '+' && d->line[0] != '-')
			return delivery_cut(d, "it does not speak RESP");
		take_answer(d);
		d->line_len = 0;
	}
	return true;
}

/* Before a key is sent, it is known that the other node has nothing. */
void delivery_end(struct delivery *d)
{
	if (!d->nr_lines || d->is_refused)
		memset(d->s->outcomes, SHIP_REFUSED, d->s->nr_keys);
}
