/* SPDX-License-Identifier: GPL-2.0 */
/*
 * delivery.h - a shipment on a connection: what may be sent, and what is answered
 *
 * Each key is answered by a line: +OK, or an error. When an answer stays out, nothing is known of
 * the keys that are not answered yet. The first command, AUTH or PING, is answered before a key is
 * sent: if the other node refuses us, it is known that it has none.
 */
#ifndef OKV_DELIVERY_H
#define OKV_DELIVERY_H

#include "slots.h"

enum { DELIVERY_LINE_BYTES = 256 };	/* kept of an answer */

/**
 * struct delivery - begins with all 0 but @s
 * @nr_lines:	that were answered
 * @is_refused:	the first one was
 */
struct delivery {
	struct shipment *s;
	size_t nr_sent;
	uint32_t nr_lines;
	bool is_refused;
	uint32_t line_len;
	char line[DELIVERY_LINE_BYTES];
};

/* The connection ends, or is given up. Returns false. */
bool delivery_cut(struct delivery *d, const char *why);

/* Of the shipment, so much may be sent by now. */
size_t delivery_may_send(const struct delivery *d);

/* What has come. False: it was cut. */
bool delivery_take(struct delivery *d, const char *data, size_t len);

/* All is answered, or will not be. */
bool delivery_is_over(const struct delivery *d);

/* Nothing comes any more. */
void delivery_end(struct delivery *d);

#endif
