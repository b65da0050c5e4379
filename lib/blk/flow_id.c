// SPDX-License-Identifier: GPL-2.0
/*
 * flow_id.c - names for the kinds of flows
 */
#include <linux/export.h>

#include "blk/flow_id.h"

const char *const flow_kind_name[FLOW_NR_KINDS] = {
	[FLOW_CGROUP]	= "cgroup",
	[FLOW_PROCESS]	= "process",
	[FLOW_IOPRIO]	= "ioprio",
};
EXPORT_SYMBOL_GPL(flow_kind_name);
