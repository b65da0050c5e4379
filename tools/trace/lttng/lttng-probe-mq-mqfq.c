// SPDX-License-Identifier: GPL-2.0
/*
 * lttng-probe-mq-mqfq.c - mq-mqfq's tracepoints as LTTng events
 *
 * The first header is the scheduler's own. With it the compiler checks the prototypes of the
 * second.
 */
#include <linux/module.h>
#include <linux/blk-mq.h>
#include <linux/ioprio.h>

#include "../../../mq-mqfq/trace.h"

#include <lttng/tracer.h>

#undef TRACE_INCLUDE_FILE
#undef TRACE_INCLUDE_PATH
#define LTTNG_PACKAGE_BUILD
#define CREATE_TRACE_POINTS
#define TRACE_INCLUDE_PATH events

#include "events/mqfq.h"

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("LTTng probe: tracepoints of mq-mqfq");
