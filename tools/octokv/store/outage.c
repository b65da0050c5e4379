// SPDX-License-Identifier: GPL-2.0
/*
 * outage.c - how long to go on trying when the device fails: see partition.h
 *
 * The first failures are tried again at once: a single sector, or a path that has just gone, needs
 * no more. From then on the pauses double up to a second, and the tick ends them. While a partition
 * is hurried, because it opens, closes or changes hands, nothing waits for the clock.
 *
 * The clock is that of the store, which an administrator may set back. A pause that is longer than
 * any pause has ended.
 */
#include "partition.h"

enum {
	PAUSE_MS_MIN	= 10,
	PAUSE_MS_MAX	= 1000,
};

static bool is_over(const struct okv_partition *p, uint64_t until_ms)
{
	return p->now_ms >= until_ms || until_ms - p->now_ms > PAUSE_MS_MAX;
}

void okv_outage_note(struct okv_partition *p, struct okv_outage *o)
{
	if (!o->nr_failures++) {
		o->since_ms = p->now_ms;
		o->pause_ms = PAUSE_MS_MIN;
	}
	if (o->nr_failures == OKV_NR_RETRIES + 1 && !p->is_hurried)
		okv_event(p, (struct okv_event){ .kind = OKV_EVENT_WAITS });
	if (o->nr_failures <= OKV_NR_RETRIES || !is_over(p, o->until_ms))
		return;
	o->until_ms = p->now_ms + o->pause_ms;
	o->pause_ms *= 2;
	if (o->pause_ms > PAUSE_MS_MAX)
		o->pause_ms = PAUSE_MS_MAX;
}

void okv_outage_end(struct okv_outage *o)
{
	*o = (struct okv_outage){ 0 };
}

bool okv_outage_pauses(const struct okv_partition *p, const struct okv_outage *o)
{
	return o->nr_failures > OKV_NR_RETRIES && !p->is_hurried && !is_over(p, o->until_ms);
}

bool okv_outage_is_long(const struct okv_partition *p, const struct okv_outage *o)
{
	uint64_t ms = p->now_ms > o->since_ms ? p->now_ms - o->since_ms : 0;

	return o->nr_failures > OKV_NR_RETRIES && (p->is_hurried || ms >= OKV_PATIENCE_MS);
}
