/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mqfq.h - what the files of mq-mqfq share: one device's scheduler
 */
#ifndef MQFAIR_MQFQ_H
#define MQFAIR_MQFQ_H

#include <linux/blk-mq.h>
#include <linux/cgroup.h>
#include <linux/ioprio.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "blk/flow_id.h"
#include "blk/keep.h"
#include "blk/tail_meter.h"
#include "compat.h"
#include "mqfq_auto.h"
#include "mqfq_charge.h"
#include "mqfq_policy.h"

enum {
	MQFQ_COST_PCT_MAX	= 10000,
	MQFQ_THROTTLE_KB_MAX	= 1048576,
	MQFQ_BUCKET_KB_MAX	= 65536,
	MQFQ_URGENT_KB_MAX	= 1048576,
	MQFQ_TARGET_US_MAX	= 10000000,
};

/* Units of virtual time in a kibibyte at weight 100, as a power of two. */
#define MQFQ_KB_SHIFT	(10 + VT_SHIFT)

/*
 * Counted without a lock, in any context; the sum over the CPUs is exact when the queue is frozen.
 * Of urgent requests, those that went next, and those whose flow had no credit left. Those that
 * passed, by class RT or for a target, and the others.
 */
struct mqfq_cpu_counters {
	unsigned long merged;
	unsigned long completed;
	unsigned long requeued;
	unsigned long urgent;
	unsigned long beyond_credit;
	unsigned long passed;
	unsigned long passed_others;
};

/**
 * struct mqfq_tuner - T and D, set by the user or automatic
 * @lock:	for all of this, and for calls of mqfq_set_throttle(), _slots() and _wheel()
 * @law:	which values are in force
 * @work:	ends a window
 * @ended_ns:	when the last one ended
 * @sum:	the counters then
 * @window:	what was counted in it
 * @was_held_down: by the target, when the last one ended
 */
struct mqfq_tuner {
	struct mutex lock;
	struct mqfq_auto law;
	struct delayed_work work;
	u64 ended_ns;
	struct mqfq_auto_window sum, window;
	bool was_held_down;
};

/* Bits of mqfq_target.used. A cgroup that was seen once counts until the scheduler is detached. */
enum mqfq_target_user {
	MQFQ_TARGET_RT,
	MQFQ_TARGET_CGROUPS,
};

/* What was found for a target; 0: nothing. */
struct mqfq_target_found {
	u32 target_us;
	struct tail_found tail;
};

/**
 * struct mqfq_target - the slots in force follow a tail; see mqfq_target.c
 * @p999_us:	what is wanted for class RT; 0: nothing
 * @used:	enum mqfq_target_user: what has one. Hooks read it
 * @aim_us:	the strictest target that has load; 0: none
 * @seen_us:	the strictest of the requests that have completed since the last tick
 * @nr_stricter: requests with one stricter than @aim_us, since it took over or since they ceased
 * @stricter_ns: when such requests were seen last
 * @found:	what was found for the target before
 * @is_in_force: there have been requests with @aim_us lately
 * @said_unmet:	the kernel's log says that it can not be had
 * @law:	how many slots; the tuner's lock guards it and what follows
 * @counts:	what is completed
 * @sums:	of all CPUs, at the last tick
 * @seen_ns:	when a request with @aim_us was seen last
 */
struct mqfq_target {
	unsigned int p999_us;
	unsigned long used;
	u32 aim_us, seen_us;
	atomic_t nr_stricter;
	u64 stricter_ns;
	struct mqfq_target_found found;
	bool is_in_force, said_unmet;
	struct tail law;
	struct tail_sums __percpu *counts;
	struct tail_sums sums;
	u64 seen_ns;
};

/* In keep->found. */
struct mqfq_found {
	struct mqfq_auto_found values;
	struct mqfq_target_found target;
};

/**
 * struct mqfq_data - the scheduler of one device
 * @q:			its queue
 * @keep:		what outlives it: weights of processes and priorities are the numbers, by
 *			mqfq_weight_index(), a struct mqfq_found what was found
 * @hctx:		its hardware queues, by number
 * @policy:		what waits, and what may go
 * @flow_kind:		enum flow_kind
 * @charge:		what requests cost
 * @urgent_kb:		how far a flow may be in debt for urgent requests
 * @cpu_counters:	see there
 * @flows:		the flows that pay
 * @look:		calls mqfq_look() while there are any
 * @pass:		looks after the flows while there are any
 * @nr_passes:		how often it has
 * @update:		gives flows the effective weights that they have by now
 * @update_lock:	for the same, and for changes of keep->numbers
 * @root_weight:	of the root cgroup's own requests
 * @tuner:		T and D
 * @target:		a target beneath D
 * @siblings:		all devices with this scheduler, for cgroups whose weight changes
 */
struct mqfq_data {
	struct request_queue *q;
	struct keep *keep;
	struct blk_mq_hw_ctx **hctx;
	unsigned int flow_kind;
	unsigned int urgent_kb;
	struct mqfq_charge charge;
	struct mqfq_cpu_counters __percpu *cpu_counters;
	struct delayed_work look;
	struct delayed_work pass;
	unsigned int nr_passes;
	struct delayed_work update;
	struct mutex update_lock;
	unsigned int root_weight;
	struct mqfq_tuner tuner;
	struct mqfq_target target;
	struct list_head siblings;
	struct mqfq_policy policy;
	struct flow_table flows;
};

/* The flow of all requests of class IDLE: no priority has this number. */
#define MQFQ_IDLE_KEY	flow_key(FLOW_IOPRIO, 1 << 16)

static inline struct mqfq_entry *mqfq_entry(struct request *rq)
{
	return (struct mqfq_entry *)&rq->rb_node;
}

/*
 * In mqfq_entry.start of a request that was sent: it has no tag any more, and when it is finished,
 * no bios. Its size; if it counts for a target, that of its flow, and whether it is of class RT.
 */
struct mqfq_sent {
	u32 bytes;
	u32 target_us : 31;
	u32 is_rt : 1;
};

static_assert(sizeof(struct mqfq_sent) == sizeof_field(struct mqfq_entry, start));

static inline struct mqfq_sent *mqfq_sent(struct request *rq)
{
	return (struct mqfq_sent *)&mqfq_entry(rq)->start;
}

static inline bool mqfq_prio_is(struct request *rq, unsigned int class)
{
	return IOPRIO_PRIO_CLASS(req_get_ioprio(rq)) == class;
}

/* Index of a flow in keep->numbers: processes and priorities have small numbers. */
static inline unsigned long mqfq_weight_index(u64 key)
{
	return (unsigned long)flow_key_kind(key) << 32 | flow_key_id(key);
}

/* mqfq.c */
struct mqfq_counters {
	unsigned long inserted, merged, dispatched, completed, requeued, queued;
	unsigned long urgent, beyond_credit, passed, passed_others;
};

void mqfq_count(struct mqfq_data *md, struct mqfq_counters *c);

/* mqfq_tuner.c: T and D */
/* Both are automatic, and begin with these; @slots is as many as the device could use at most. */
void mqfq_tuner_init(struct mqfq_data *md, u32 slots, u32 throttle_kb);
void mqfq_tuner_exit(struct mqfq_data *md);
/* For init_sched, before the tunables are restored: goes on with what was found before. */
void mqfq_tuner_resume(struct mqfq_data *md, const struct mqfq_auto_found *found);
/* After that: the same for the target. */
void mqfq_tuner_resume_target(struct mqfq_data *md, const struct mqfq_target_found *found);
/* There are flows: windows begin, if T or D is automatic, or time is shared. Any context. */
void mqfq_tuner_kick(struct mqfq_data *md);
/* The flow was served @bytes with a pass. Any context. */
void mqfq_tuner_passed(struct flow *f, u64 bytes);
/* One of the two is automatic from now on, or set by the user. Process context. */
void mqfq_tuner_on(struct mqfq_data *md, enum mqfq_auto_which which);
void mqfq_tuner_off(struct mqfq_data *md, enum mqfq_auto_which which, u32 value);
/* What is shared from now on. Process context. */
void mqfq_tuner_share(struct mqfq_data *md, enum mqfq_charge_kind kind);
/* The tail that class RT shall have from now on; 0: none. Process context. */
void mqfq_tuner_aim(struct mqfq_data *md, unsigned int p999_us);

/* mqfq_target.c */
int mqfq_target_init(struct mqfq_target *t, u32 slots);
void mqfq_target_exit(struct mqfq_target *t);
/* Has anything a target? Any context. */
static inline bool mqfq_target_is_used(const struct mqfq_target *t)
{
	return READ_ONCE(t->used);
}

/* For a request that is sent now, if there is a target. */
void mqfq_target_sent(struct request *rq, struct mqfq_sent *sent);
/* A request is completed, and there is a target. Any context. */
void mqfq_target_completed(struct mqfq_data *md, struct request *rq);
/* The following are under the tuner's lock. No more slots than this are in force. */
u32 mqfq_target_slots(const struct mqfq_data *md);
/* From the tuner's work: @in_flight requests have slots. */
void mqfq_target_tick(struct mqfq_data *md, u32 in_flight);
void mqfq_target_set(struct mqfq_data *md, unsigned int p999_us);
/* What was found is known, for the same targets. */
void mqfq_target_resume(struct mqfq_data *md, const struct mqfq_target_found *found);
void mqfq_target_get_found(const struct mqfq_data *md, struct mqfq_target_found *found);

/* mqfq_merge.c: hooks */
bool mqfq_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio);
bool mqfq_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs);

/* mqfq_urgent.c */
/* The start tag of an urgent request: virtual time, as long as its flow has credit. */
u64 mqfq_tag_urgent(struct mqfq_data *md, struct flow *f, u64 vt, u64 cost_vt);
/* Its flow has a target, which is for what somebody waits for. */
static inline bool mqfq_is_prompt(const struct flow *f, blk_opf_t opf)
{
	return unlikely(READ_ONCE(f->target_us)) && op_is_sync(opf) &&
	       !mqfq_is_slow((__force enum req_op)(opf & REQ_OP_MASK));
}

/* The tag of such a request; whether it goes next is put in @passes. */
u64 mqfq_tag_prompt(struct mqfq_data *md, struct flow *f, u64 vt, u64 cost_vt, bool *passes);
/* A request of class RT has gone with a pass: its flow's debt is bounded. */
void mqfq_forgive(struct mqfq_data *md, const struct request *rq, struct flow *f);
/* Must an allocation leave a quarter of the @depth tags of a queue, of which @used are in use? */
bool mqfq_leaves_share(struct mqfq_data *md, const struct mqfq_queue *mq, blk_opf_t opf,
		       unsigned int used, unsigned int depth);

/* mqfq_sysfs.c */
extern MQFAIR_ATTRS_CONST struct elv_fs_entry mqfq_attrs[];

/* mqfq_debugfs.c */
#ifdef CONFIG_BLK_DEBUG_FS
extern const struct blk_mq_debugfs_attr mqfq_queue_debugfs_attrs[];
extern const struct blk_mq_debugfs_attr mqfq_hctx_debugfs_attrs[];
#endif

/* mqfq_share.c: effective weights */
int mqfq_share_init(struct mqfq_data *md, u32 (*weight_of)(void *context, u64 key, void *who));
/* A flow is made: passes begin. Any context. */
void mqfq_share_kick(struct mqfq_data *md);
/* No flow is made any more. */
void mqfq_share_stop(struct mqfq_data *md);
void mqfq_share_exit(struct mqfq_data *md);
/* Gives a flow or a group, and the requests that wait, another weight. Process context. */
void mqfq_reweigh(struct mqfq_data *md, u64 key, u32 weight);
void mqfq_set_root_weight(struct mqfq_data *md, u32 weight);
/* The weight of a process or a priority, and storing it: -ESRCH if there is no such process. */
u32 mqfq_id_weight(struct mqfq_data *md, u64 key);
int mqfq_set_id_weight(struct mqfq_data *md, u64 key, u32 weight);

/* mqfq_cgroup.c */
/* Weights and targets in cgroupfs. */
#ifdef CONFIG_BLK_CGROUP
int mqfq_cgroup_init(void);
void mqfq_cgroup_exit(void);
/* From now on, until mqfq_cgroup_detach(), changes reach the device. */
void mqfq_cgroup_attach(struct mqfq_data *md);
void mqfq_cgroup_detach(struct mqfq_data *md);
/* The weight of a cgroup on a device. */
u32 mqfq_cgroup_weight(struct mqfq_data *md, struct cgroup_subsys_state *css);
/*
 * Its target there in microseconds, or that of the nearest cgroup above that has one; 0: none. It
 * is used from now on.
 */
u32 mqfq_cgroup_target(struct mqfq_data *md, struct cgroup_subsys_state *css);
#else
static inline int mqfq_cgroup_init(void)
{
	return 0;
}

static inline void mqfq_cgroup_exit(void)
{
}

static inline void mqfq_cgroup_attach(struct mqfq_data *md)
{
}

static inline void mqfq_cgroup_detach(struct mqfq_data *md)
{
}

static inline u32 mqfq_cgroup_weight(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	return FLOW_WEIGHT_DEFAULT;
}

static inline u32 mqfq_cgroup_target(struct mqfq_data *md, struct cgroup_subsys_state *css)
{
	return 0;
}
#endif

#endif /* MQFAIR_MQFQ_H */
