// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_tuner.c - the automatic T and D of mq-mqfq: what the law is told, and what follows
 *
 * The law is mqfq_auto.c. A work item ends a window: it reads the counters that exist anyway, asks
 * the law and sets T and D. It goes on as long as there are flows, which is until five to ten
 * seconds after the last request, and begins again when a flow is made. No hook does anything for
 * it. While time is shared, it also ends the windows in which costs are learned (mqfq_charge.c),
 * and with a target it looks at the tail (mqfq_target.c).
 *
 * D begins with all the tags that the driver has, which hold nothing back.
 */
#include <linux/ktime.h>

#include "mqfq.h"
#include "trace.h"

enum {
	/* The law looks at so many of the requests that wait in a queue. */
	MQFQ_TUNER_LOOK_AT	= 64,
	/* A window that was so long does not count: there was a pause. */
	MQFQ_TUNER_LATE_MS	= 1000,
};

/**
 * struct mqfq_tuner_note - in flow.notes
 * @service_bytes:	flow.service_bytes when the last window ended
 * @law:		the law's
 * @passed:		bytes that went with passes
 * @passed_bytes:	and how many had when the last window ended
 */
struct mqfq_tuner_note {
	u64 service_bytes;
	struct mqfq_auto_flow law;
	atomic64_t passed;
	u64 passed_bytes;
};

static_assert(sizeof(struct mqfq_tuner_note) <= sizeof_field(struct flow, notes));

struct mqfq_tuner_flows {
	struct mqfq_auto *law;
	struct mqfq_auto_window *window;
};

static struct mqfq_tuner_note *mqfq_tuner_note(struct flow *f)
{
	return (struct mqfq_tuner_note *)f->notes;
}

void mqfq_tuner_passed(struct flow *f, u64 bytes)
{
	atomic64_add(bytes, &mqfq_tuner_note(f)->passed);
}

/*
 * Was the flow served apart from the others? What nobody else wants is not shared, and what passes
 * is not held back: if that is half of its bytes, no T and no D makes the flow equal to others.
 */
static bool mqfq_tuner_is_apart(const struct flow *f, u64 bytes, u64 passed)
{
	return f->key == MQFQ_IDLE_KEY || 2 * passed > bytes;
}

static void mqfq_tuner_flow(void *context, struct flow *f)
{
	struct mqfq_tuner_flows *all = context;
	struct mqfq_tuner_note *note = mqfq_tuner_note(f);
	u64 service_bytes = atomic64_read(&f->service_bytes);
	u64 passed_bytes = atomic64_read(&note->passed);
	u64 bytes = service_bytes - note->service_bytes;
	u64 passed = passed_bytes - note->passed_bytes;
	bool is_outstanding = atomic_read(&f->refs) > 0;

	note->service_bytes = service_bytes;
	note->passed_bytes = passed_bytes;
	all->window->bytes += bytes;
	if (mqfq_tuner_is_apart(f, bytes, passed)) {
		/* As if it had not been there. */
		mqfq_auto_flow(all->law, &note->law, 0, false);
		return;
	}
	all->window->nr_flows += bytes || is_outstanding;
	mqfq_auto_flow(all->law, &note->law, flow_cost_vt(f, bytes), is_outstanding);
}

static void mqfq_tuner_share_of(void *context, struct flow *f)
{
	struct mqfq_auto *law = context;

	mqfq_auto_share(law, &mqfq_tuner_note(f)->law, flow_cost_vt(f, MQFQ_AUTO_UNIT_BYTES));
}

/*
 * The cost of the largest request that waits. If none waits there is nothing to learn about T. Slow
 * requests are held by their permits, whatever T is.
 */
static u64 mqfq_tuner_largest(const struct mqfq_data *md, struct mqfq_queue *mq)
{
	unsigned int n = 0;
	struct request *rq;
	u64 largest = 0;

	if (!READ_ONCE(mq->nr))
		return 0;
	spin_lock(&mq->lock);
	list_for_each_entry(rq, &mq->recent, queuelist) {
		if (!(mqfq_entry(rq)->flow & MQFQ_ENTRY_SLOW))
			largest = max_t(u64, largest,
					mqfq_charge_of(&md->charge, rq, blk_rq_bytes(rq)));
		if (++n == MQFQ_TUNER_LOOK_AT)
			break;
	}
	spin_unlock(&mq->lock);
	return largest;
}

/* Sums since the beginning; in_flight and largest_kb are of this moment. */
static void mqfq_tuner_sum(struct mqfq_data *md, struct mqfq_auto_window *sum)
{
	struct mqfq_policy *p = &md->policy;
	u64 largest = 0;
	unsigned int i;
	int cpu;

	*sum = (struct mqfq_auto_window) {};
	for (i = 0; i < p->nr_queues; i++) {
		struct mqfq_queue *mq = &p->queue[i];

		sum->slot_waits += atomic64_read(&mq->slot_waits);
		sum->throttles += READ_ONCE(mq->throttles);
		largest = max(largest, mqfq_tuner_largest(md, mq));
	}
	for_each_possible_cpu(cpu)
		sum->requests += READ_ONCE(per_cpu_ptr(md->cpu_counters, cpu)->completed);
	sum->in_flight = max(p->tokens.slots - token_tree_nr_free(&p->tokens), 0);
	sum->largest_kb = min_t(u64, DIV_ROUND_UP(largest, 1024), MQFQ_THROTTLE_KB_MAX);
}

/* What was counted in the window that ends now. */
static void mqfq_tuner_measure(struct mqfq_data *md, u64 now_ns, struct mqfq_auto_window *w)
{
	struct mqfq_tuner *t = &md->tuner;
	struct mqfq_tuner_flows flows = { .law = &t->law, .window = w };
	struct mqfq_auto_window sum;

	mqfq_tuner_sum(md, &sum);
	mqfq_fold(&md->policy);
	*w = sum;
	w->is_time = mqfq_charge_is_time(&md->charge);
	mqfq_auto_begin_window(&t->law);
	rcu_read_lock();
	flow_table_for_each(&md->flows, mqfq_tuner_flow, &flows);
	rcu_read_unlock();
	w->ns = now_ns - t->ended_ns;
	w->requests -= t->sum.requests;
	w->slot_waits -= t->sum.slot_waits;
	w->throttles -= t->sum.throttles;
	t->sum = sum;
	t->ended_ns = now_ns;
}

static void mqfq_tuner_apply(struct mqfq_data *md)
{
	const struct mqfq_auto *law = &md->tuner.law;
	u32 slots = min(mqfq_auto_value(law, MQFQ_AUTO_SLOTS), mqfq_target_slots(md));
	u32 throttle_kb = mqfq_auto_value(law, MQFQ_AUTO_THROTTLE_KB);
	u64 throttle_vt = (u64)throttle_kb << MQFQ_KB_SHIFT;

	lockdep_assert_held(&md->tuner.lock);

	if (slots == md->policy.tokens.slots && throttle_vt == md->policy.throttle_vt)
		return;
	if (slots != md->policy.tokens.slots) {
		mqfq_set_slots(&md->policy, slots);
		/* A request of class RT that has no pass waits here, which no target means. */
		mqfq_set_passes(&md->policy, mqfq_auto_value(law, MQFQ_AUTO_SLOTS));
	}
	if (throttle_vt != md->policy.throttle_vt)
		mqfq_set_throttle(&md->policy, throttle_vt);
	trace_mqfq_auto(md->q, slots, throttle_kb, law->probing, law->gain_ppm);
}

static bool mqfq_tuner_is_needed(const struct mqfq_data *md)
{
	return mqfq_auto_is_any_on(&md->tuner.law) || mqfq_charge_is_time(&md->charge) ||
	       mqfq_target_is_used(&md->target);
}

void mqfq_tuner_kick(struct mqfq_data *md)
{
	unsigned int window_ms = MQFQ_AUTO_REST_WINDOW_MS;

	if (mqfq_auto_is_any_on(&md->tuner.law))
		window_ms = mqfq_auto_window_ms(&md->tuner.law);
	if (mqfq_tuner_is_needed(md))
		schedule_delayed_work(&md->tuner.work, msecs_to_jiffies(window_ms));
}

/* What mqfq_auto.c has found is not in force. */
static bool mqfq_tuner_is_held_down(const struct mqfq_data *md)
{
	return mqfq_target_slots(md) < mqfq_auto_value(&md->tuner.law, MQFQ_AUTO_SLOTS);
}

/*
 * All slots are taken, and a queue had to wait for one. A smaller D that is only tried does not
 * count: the device may be idle at times with it.
 */
static bool mqfq_tuner_is_full(const struct mqfq_data *md)
{
	const struct mqfq_auto_window *w = &md->tuner.window;
	const struct mqfq_auto *law = &md->tuner.law;
	u32 slots = md->policy.tokens.slots;

	return w->slot_waits && w->in_flight >= slots &&
	       (mqfq_tuner_is_held_down(md) || slots >= law->knob[MQFQ_AUTO_SLOTS].base);
}

/* The law compares from the values that it has found: what is tried is not in force any more. */
static void mqfq_tuner_begin_again(struct mqfq_data *md)
{
	struct mqfq_auto *law = &md->tuner.law;
	enum mqfq_auto_which which;

	for (which = 0; which < MQFQ_AUTO_NR_KNOBS; which++)
		if (mqfq_auto_is_on(law, which))
			mqfq_auto_on(law, which);
}

/* Tells the law. A flow that has come since the window was measured counts with nothing. */
static void mqfq_tuner_tell(struct mqfq_data *md)
{
	struct mqfq_tuner *t = &md->tuner;

	mqfq_auto_begin_shares(&t->law);
	rcu_read_lock();
	flow_table_for_each(&md->flows, mqfq_tuner_share_of, &t->law);
	rcu_read_unlock();
	mqfq_auto_window(&t->law, &t->window);
}

static void mqfq_tuner_end_window(struct mqfq_data *md)
{
	struct mqfq_tuner *t = &md->tuner;
	bool was_late;

	mqfq_tuner_measure(md, ktime_get_ns(), &t->window);
	was_late = t->window.ns >= MQFQ_TUNER_LATE_MS * NSEC_PER_MSEC;
	/* Before the law says what is in force in the next one. */
	if (mqfq_charge_is_time(&md->charge))
		t->window.bytes = mqfq_charge_window(&md->charge, was_late ? 0 : t->window.ns,
						     mqfq_tuner_is_full(md), t->window.bytes);
	if (!was_late && mqfq_auto_is_any_on(&t->law) && !t->was_held_down)
		mqfq_tuner_tell(md);
	mqfq_target_tick(md, t->window.in_flight);
	if (mqfq_tuner_is_held_down(md) != t->was_held_down) {
		t->was_held_down = !t->was_held_down;
		mqfq_tuner_begin_again(md);
	}
	mqfq_tuner_apply(md);
}

static void mqfq_tuner_work(struct work_struct *work)
{
	struct mqfq_data *md = container_of(work, struct mqfq_data, tuner.work.work);
	struct mqfq_tuner *t = &md->tuner;

	mutex_lock(&t->lock);
	if (mqfq_tuner_is_needed(md))
		mqfq_tuner_end_window(md);
	mutex_unlock(&t->lock);
	/* mqfq_pass_work() finds a flow that is made at this moment. */
	if (READ_ONCE(md->flows.nr_flows))
		mqfq_tuner_kick(md);
}

void mqfq_tuner_on(struct mqfq_data *md, enum mqfq_auto_which which)
{
	mutex_lock(&md->tuner.lock);
	mqfq_auto_on(&md->tuner.law, which);
	mqfq_tuner_apply(md);
	mutex_unlock(&md->tuner.lock);
	mqfq_tuner_kick(md);
}

void mqfq_tuner_off(struct mqfq_data *md, enum mqfq_auto_which which, u32 value)
{
	mutex_lock(&md->tuner.lock);
	mqfq_auto_off(&md->tuner.law, which, value);
	mqfq_tuner_apply(md);
	mutex_unlock(&md->tuner.lock);
}

void mqfq_tuner_share(struct mqfq_data *md, enum mqfq_charge_kind kind)
{
	mutex_lock(&md->tuner.lock);
	if (kind != md->charge.kind) {
		mqfq_charge_set_kind(&md->charge, kind);
		/* What was served so far is in another unit. */
		mqfq_tuner_begin_again(md);
	}
	mutex_unlock(&md->tuner.lock);
	mqfq_tuner_kick(md);
}

void mqfq_tuner_aim(struct mqfq_data *md, unsigned int p999_us)
{
	mutex_lock(&md->tuner.lock);
	mqfq_target_set(md, p999_us);
	mqfq_tuner_apply(md);
	mutex_unlock(&md->tuner.lock);
	mqfq_tuner_kick(md);
}

void mqfq_tuner_resume_target(struct mqfq_data *md, const struct mqfq_target_found *found)
{
	mutex_lock(&md->tuner.lock);
	mqfq_target_resume(md, found);
	mutex_unlock(&md->tuner.lock);
}

void mqfq_tuner_init(struct mqfq_data *md, u32 slots, u32 throttle_kb)
{
	struct mqfq_auto *law = &md->tuner.law;

	mutex_init(&md->tuner.lock);
	INIT_DELAYED_WORK(&md->tuner.work, mqfq_tuner_work);
	mqfq_auto_init(law, slots, slots, throttle_kb);
	mqfq_auto_on(law, MQFQ_AUTO_SLOTS);
	mqfq_auto_on(law, MQFQ_AUTO_THROTTLE_KB);
}

void mqfq_tuner_resume(struct mqfq_data *md, const struct mqfq_auto_found *found)
{
	mutex_lock(&md->tuner.lock);
	mqfq_auto_resume(&md->tuner.law, found);
	mqfq_tuner_apply(md);
	mutex_unlock(&md->tuner.lock);
}

/* The queue is frozen: no flow is made any more, and no store to sysfs runs. */
void mqfq_tuner_exit(struct mqfq_data *md)
{
	cancel_delayed_work_sync(&md->tuner.work);
}
