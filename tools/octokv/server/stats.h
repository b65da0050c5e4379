/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stats.h - what INFO and `octokvd --stats` say
 *
 * The text has the sections of Redis, with the names that clients and dashboards read, and three of
 * our own. "health" says whether the device does its work. "tenants" has a line for the tenant that
 * asks. "reactors" says how many events of each stage each reactor had (network, store, disk), as
 * Tables IV and V of the OctoKV paper do.
 *
 * commandstats, errorstats and latencystats are made of the counters in metrics.h.
 *
 * What concerns others is for admins only: sections with sums over all tenants, and their lines.
 */
#ifndef OKV_STATS_H
#define OKV_STATS_H

#include "server.h"

/* The device is slow if a request is under way for so long. */
enum { SLOW_IO_MS = 1000 };

/* Clients that look at a version may rely on this one. */
#define REDIS_VERSION "7.2.0"

/*
 * Appends the sections that @section names to @out as raw text: "" for the usual ones, or "all".
 * @nr_keys are those of @tenant.
 */
void stats_write(struct resp_out *out, const struct worker *w, const struct tenant *tenant,
		 const struct okv_stats *store, uint64_t nr_keys, const char *section);

#endif
