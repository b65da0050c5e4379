// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_sysfs.c - the tunables of mq-octofas, in /sys/block/DEV/queue/iosched/
 *
 * Documentation/reference/mq-octofas.rst tells units, ranges and which way to turn them. A value
 * that is out of range, or no value at all, is -EINVAL, and the old one stays.
 */
#include "blk/tunable.h"
#include "octofas.h"

enum {
	/* A jiffy can be 10 ms; below some of them a window has nothing to count. */
	OCTOFAS_WINDOW_MS_MIN		= 20,
	OCTOFAS_WINDOW_MS_MAX		= 60000,
	OCTOFAS_OVERLOAD_PCT_MAX	= 10000,
	OCTOFAS_ALPHA_PCT_MAX		= 10000,
};

/*
 * fair_pct is OctoFAS's, and so is alpha_pct, as 20 times back for four times the intensity; the
 * window is shorter than OctoKV's second, since a block device has more requests in it.
 */
const struct octofas_tunables octofas_default_tunables = {
	.config = {
		.mode		= OCTOFAS_AUTO,
		.migrate	= OCTOFAS_MOVE_DENSE,
		.spread		= OCTOFAS_RR,
		.fair_pct	= 90,
		.balance_pct	= 60,
		.overload_pct	= 40,
		.alpha_pct	= 500,
		.max_backward	= 20,
	},
	.window_ms = 100,
};

const char *const octofas_mode_name[OCTOFAS_NR_MODES] = {
	[OCTOFAS_NONE]		= "none",
	[OCTOFAS_INTER]		= "inter",
	[OCTOFAS_INTRA]		= "intra",
	[OCTOFAS_HYBRID]	= "hybrid",
	[OCTOFAS_AUTO]		= "auto",
};

static const char *const octofas_migrate_name[OCTOFAS_NR_MIGRATES] = {
	[OCTOFAS_MOVE_ALL]	= "all",
	[OCTOFAS_MOVE_DENSE]	= "dense",
	[OCTOFAS_MOVE_SPARSE]	= "sparse",
};

static const char *const octofas_spread_name[OCTOFAS_NR_SPREADS] = {
	[OCTOFAS_RR]	= "rr",
	[OCTOFAS_PS]	= "ps",
};

static int octofas_set_tunable(struct octofas_data *od, u32 *field, u32 value)
{
	WRITE_ONCE(*field, value);
	octofas_apply(od);
	return 0;
}

#define OCTOFAS_NUMBER(name, member, min, max)						\
	TUNABLE(octofas, name, READ_ONCE(data->member), min, max,			\
		octofas_set_tunable(data, &data->member, value))
#define OCTOFAS_WORD(name, member, words)						\
	TUNABLE_WORD(octofas, name, words, READ_ONCE(data->member),			\
		     octofas_set_tunable(data, &data->member, value))
OCTOFAS_WORD(policy, tunables.config.mode, octofas_mode_name)
OCTOFAS_WORD(flow, flow_kind, flow_kind_name)
OCTOFAS_WORD(migrate, tunables.config.migrate, octofas_migrate_name)
OCTOFAS_WORD(spread, tunables.config.spread, octofas_spread_name)
OCTOFAS_NUMBER(window_ms, tunables.window_ms, OCTOFAS_WINDOW_MS_MIN, OCTOFAS_WINDOW_MS_MAX)
OCTOFAS_NUMBER(fair_pct, tunables.config.fair_pct, 0, 100)
OCTOFAS_NUMBER(balance_pct, tunables.config.balance_pct, 0, 100)
OCTOFAS_NUMBER(overload_pct, tunables.config.overload_pct, 0, OCTOFAS_OVERLOAD_PCT_MAX)
OCTOFAS_NUMBER(alpha_pct, tunables.config.alpha_pct, 0, OCTOFAS_ALPHA_PCT_MAX)
OCTOFAS_NUMBER(max_backward, tunables.config.max_backward, 0, OCTOFAS_BACKWARD_MAX)
#undef OCTOFAS_NUMBER
#undef OCTOFAS_WORD

#define OCTOFAS_ATTR(name) TUNABLE_ATTR(octofas, name)
MQFAIR_ATTRS_CONST struct elv_fs_entry octofas_attrs[] = {
	OCTOFAS_ATTR(policy),
	OCTOFAS_ATTR(flow),
	OCTOFAS_ATTR(window_ms),
	OCTOFAS_ATTR(fair_pct),
	OCTOFAS_ATTR(balance_pct),
	OCTOFAS_ATTR(overload_pct),
	OCTOFAS_ATTR(migrate),
	OCTOFAS_ATTR(spread),
	OCTOFAS_ATTR(alpha_pct),
	OCTOFAS_ATTR(max_backward),
	__ATTR_NULL
};
#undef OCTOFAS_ATTR
