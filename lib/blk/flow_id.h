/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flow_id.h - which flow a request belongs to
 *
 * A flow is a tenant of the device: a cgroup, a process, or an I/O priority, as the tunable "flow"
 * says. The flow table (flow.h) knows it by a key of 64 bits: the kind of the flow, and below it
 * the number of a cgroup, a process or a priority. With kind CGROUP or IOPRIO the block layer knows
 * the owner of each bio, also of one that a kernel thread writes back for a task. It does not know
 * the process: a scheduler takes that down in prepare_request, in the submitter's context.
 */
#ifndef MQFAIR_BLK_FLOW_ID_H
#define MQFAIR_BLK_FLOW_ID_H

#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/sched.h>

#include "compat.h"
#include "flow.h"

enum {
	FLOW_KEY_KIND_SHIFT = 62,
};

static inline u64 flow_key(enum flow_kind kind, u64 id)
{
	return (u64)kind << FLOW_KEY_KIND_SHIFT | id;
}

static inline enum flow_kind flow_key_kind(u64 key)
{
	return key >> FLOW_KEY_KIND_SHIFT;
}

static inline u64 flow_key_id(u64 key)
{
	return key & ((1ULL << FLOW_KEY_KIND_SHIFT) - 1);
}

/* The key of a cgroup: the number of its directory in cgroupfs; 0 if there is none. */
static inline u64 flow_key_of_css(struct cgroup_subsys_state *css)
{
	return flow_key(FLOW_CGROUP, css ? cgroup_id(css->cgroup) : 0);
}

/**
 * flow_key_of_rq() - the key of a request's flow
 * @kind:	what a flow is
 * @rq:		request that is being inserted
 * @process:	number of the process that allocated it
 * @css:	its cgroup is put here, NULL for the other kinds
 */
static inline u64 flow_key_of_rq(enum flow_kind kind, struct request *rq, u64 process,
				 struct cgroup_subsys_state **css)
{
	*css = NULL;
	switch (kind) {
	case FLOW_PROCESS:
		return flow_key(FLOW_PROCESS, process);
	case FLOW_IOPRIO:
		return flow_key(FLOW_IOPRIO, req_get_ioprio(rq));
	default:
		*css = bio_blkcg_css(rq->bio);
		return flow_key_of_css(*css);
	}
}

/*
 * The flow of the task that is about to submit. Its bio may be another's, as in writeback; this
 * is for limits only.
 */
static inline u64 flow_key_of_current(enum flow_kind kind)
{
	switch (kind) {
	case FLOW_PROCESS:
		return flow_key(FLOW_PROCESS, current->tgid);
	case FLOW_IOPRIO:
		return flow_key(FLOW_IOPRIO, get_current_ioprio());
	default:
#ifdef CONFIG_BLK_CGROUP
		return flow_key_of_css(task_css(current, io_cgrp_id));
#else
		return flow_key_of_css(NULL);
#endif
	}
}

#endif /* MQFAIR_BLK_FLOW_ID_H */
