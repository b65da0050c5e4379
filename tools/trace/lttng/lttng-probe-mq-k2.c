// SPDX-License-Identifier: GPL-2.0
/*
 * lttng-probe-mq-k2.c - mq-k2's tracepoints as LTTng events
 *
 * The first header is the scheduler's own. With it the compiler checks the prototypes of the
 * second.
 */
#include <linux/module.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>

#include "../../../mq-k2/trace.h"

#include <lttng/tracer.h>

#undef TRACE_INCLUDE_FILE
#undef TRACE_INCLUDE_PATH
#define LTTNG_PACKAGE_BUILD
#define CREATE_TRACE_POINTS
#define TRACE_INCLUDE_PATH events

#include "events/k2.h"

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("LTTng probe: tracepoints of mq-k2");
