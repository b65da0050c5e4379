/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stats.h - what INFO and `octokvd --stats` say
 *
 * The text has sections as Redis has them, with the names that clients and dashboards read, and two of our own: "tenants", a line for who asks and none
 * for others, and "reactors", how many events of each stage each reactor had (network, store, disk), as Tables IV and V of the OctoKV paper have them.
 */
#ifndef OKV_STATS_H
#define OKV_STATS_H

#include "server.h"

#define OCTOKVD_VERSION "0.1"
/* What clients that look at a version may rely on. */
#define REDIS_VERSION "7.2.0"

/* Appends the sections that @section names, or all for "" and "all", to @out as raw text; @nr_keys are those of @tenant. */
void stats_write(struct resp_out *out, const struct worker *w, const struct tenant *tenant,
		 const struct okv_stats *store, uint64_t nr_keys, const char *section);

#endif
