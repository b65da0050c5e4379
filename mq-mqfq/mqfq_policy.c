// SPDX-License-Identifier: GPL-2.0
/*
 * mqfq_policy.c - which request of a hardware queue goes next, and whether it may
 *
 * A queue decides early. When a request comes to an empty queue, and after each request that is
 * taken, the queue finds out whether its next request may go: virtual time must be near enough, and
 * it takes a slot. Then it is ARMED, and the next mqfq_take() gives that request without asking
 * again. If it may not go, the queue waits for what is missing, and the CPU that brings that arms
 * it. So mqfq_has_work() is exact, and blk-mq runs no queue in vain.
 *
 * Virtual time is published lazily. A queue tells the mindicator about its first request only if
 * requests are left behind in it, and then lets its leaf lag by up to a quarter of T. A leaf that
 * shows less than the truth makes others wait a little earlier, never later, and the bounds of the
 * paper's theorems hold with what is published as virtual time. Two cases need the truth. A queue
 * about to be throttled tells its tag first, since it may itself be the slowest, and what it waits
 * for. And a queue whose request is ahead by more than that quarter tells it too, even if it need
 * not wait, so that virtual time keeps up. While nothing waits anywhere, it does so only if it is
 * ahead by more than T. So a flow can be ahead by that when another one begins to wait, which is
 * what T allows.
 *
 * Why no wake-up is lost
 * ----------------------
 * ARMED holds a token, until the queue is run. Each step that makes a queue ARMED is made in a run,
 * in an insertion, after which blk-mq runs the queue, or by a CPU that has it run. Only the CPU
 * that has the queue's lock ends it.
 *
 * THROTTLED.
 *
 *  1. The queue writes down that it waits and for what, parks itself in the wheel, passes a full
 *     barrier, and looks at virtual time and T again.
 *  2. A CPU that advances virtual time passes a full barrier and looks into the wheel. A CPU that
 *     changes T or the wheel passes one and wakes all queues.
 *  3. Both write, pass a barrier and read what the other wrote: one of the two sees the other.
 *  4. Virtual time does come near: the queue with the earliest tag is never ahead of itself, so it
 *     is never throttled for long, and each of its requests moves virtual time on.
 *  5. The CPU that finds the queue in the wheel takes a token for it and arms it. If there is no
 *     token, it makes the queue READY.
 *
 * READY: see mqfq_slots.c.
 *
 * ASIDE is no state of a queue but of entries. A slow entry needs a permit, too, of which there is
 * one per MQFQ_SLOW_PART slots. The first entry of a queue that gets none steps aside: it leaves
 * the order of tags, and virtual time. Its queue is parked until there is a permit; mqfq_permit.c
 * tells why it comes. The permit belongs to an entry that is in the order of tags or in flight. The
 * first waits like all entries, for virtual time or for a slot, and is armed; its release follows.
 * An entry that comes finds no permit while others wait for one, so no queue waits for ever.
 *
 * STUCK: see mqfq_stuck.c. Entries of class RT, and others that may pass: see mqfq_rt.c.
 *
 * kunit/hosted/stress/mqfq_wakeup.c runs this under threads.
 */
#include <linux/errno.h>
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "mqfq_policy.h"

/* ---- virtual time ---- */

noinline void mqfq_publish(struct mqfq_queue *mq, u64 value)
{
	struct mqfq_policy *p = mq->policy;
	u64 old_vt;

	lockdep_assert_held(&mq->lock);

	if (mindicator_set(&p->vt, mq->leaf, value, &old_vt))
		vt_wheel_turn(&p->wheel, old_vt, mqfq_vt(p));
}

/* @first is the start tag of the first request that stays. */
static void mqfq_publish_lazily(struct mqfq_queue *mq, u64 first)
{
	u64 shown = mindicator_leaf(&mq->policy->vt, mq->leaf);

	if (shown == VT_NONE || first - shown > READ_ONCE(mq->policy->grain_vt))
		mqfq_publish(mq, first);
}

/* ---- queues ---- */

/* Equal tags stay in the order in which they came. */
void mqfq_sort(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	struct rb_node **link = &mq->others.rb_root.rb_node, *parent = NULL;
	bool first = true;

	while (*link) {
		parent = *link;
		if (vt_after(rb_entry(parent, struct mqfq_entry, node)->start, e->start)) {
			link = &parent->rb_left;
		} else {
			link = &parent->rb_right;
			first = false;
		}
	}
	rb_link_node(&e->node, parent, link);
	rb_insert_color_cached(&e->node, &mq->others, first);
}

/* The entry has its place in the order of tags. */
static __always_inline void mqfq_entered(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	WRITE_ONCE(mq->nr, mq->nr + 1);
	if (mq->nr > 1)
		mqfq_alone_not(&mq->policy->alone, mqfq_entry_flow(e));
	if (mqfq_first(mq) != e)
		return;

	/*
	 * The queue now waits for something else. If it is throttled, ask again, unless it is woken
	 * at the same moment (pairs with mqfq_wake()). If it waits for a slot, no run will look
	 * at the new request before there is one, so tell its tag.
	 */
	if (atomic_read(&mq->state) == MQFQ_THROTTLED)
		atomic_cmpxchg(&mq->state, MQFQ_THROTTLED, MQFQ_RUNNABLE);
	else if (atomic_read(&mq->state) == MQFQ_READY && !mq->is_away)
		mqfq_publish(mq, e->start);
}

static __always_inline void mqfq_enter(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start)
{
	e->start = start;
	if (mqfq_is_latest(mq, e))
		mqfq_line_add(&mq->in_order, e);
	else
		mqfq_sort(mq, e);
	mqfq_entered(mq, e);
}

/* Takes the first entry out, and tells virtual time of the next one. */
static __always_inline void mqfq_dequeue(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	struct mqfq_entry *first;

	lockdep_assert_held(&mq->lock);

	mqfq_unlink_first(mq, e);
	first = mqfq_first(mq);
	if (first)
		mqfq_publish_lazily(mq, first->start);
	else if (mindicator_leaf(&mq->policy->vt, mq->leaf) != VT_NONE)
		mqfq_publish(mq, VT_NONE);
}

/* ---- class RT ---- */

/*
 * If entries of class RT have no pass, one of them, the head, waits in the order of tags as well.
 * It is in the tree, from which it can be taken out when there is a pass. The caller has the queue
 * ask afterwards.
 */
static void mqfq_line_up(struct mqfq_queue *mq)
{
	struct mqfq_entry *e = mqfq_rt_elect(mq);
	u64 vt = mqfq_vt(mq->policy);

	if (!e)
		return;
	if (vt_after(vt, e->start))
		e->start = vt;
	mqfq_sort(mq, e);
	mqfq_entered(mq, e);
}

/* The queue goes away: what has no pass waits like others. */
void mqfq_give_up_passes(struct mqfq_queue *mq)
{
	lockdep_assert_held(&mq->lock);

	mqfq_give_passes(mq, 0);
	mqfq_line_up(mq);
}

/* The head was the first: what the queue has, or waits for, is of no use to the next one. */
static void mqfq_forget_wait(struct mqfq_queue *mq)
{
	/*
	 * In this order, since a waker may end the wait meanwhile: a queue that is throttled may
	 * become READY, and then ARMED. Pairs with mqfq_end_wait() and mqfq_end_throttle().
	 */
	atomic_cmpxchg(&mq->state, MQFQ_THROTTLED, MQFQ_RUNNABLE);
	if (atomic_cmpxchg(&mq->state, MQFQ_READY, MQFQ_RUNNABLE) == MQFQ_READY)
		mqfq_tell_wait(mq, MQFQ_RUNNABLE);
	mqfq_disarm(mq);
}

/* The head has a pass: it leaves the order of tags. */
static void mqfq_step_out(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	if (mqfq_first(mq) == e) {
		mqfq_dequeue(mq, e);
		mqfq_forget_wait(mq);
	} else {
		rb_erase_cached(&e->node, &mq->others);
		WRITE_ONCE(mq->nr, mq->nr - 1);
	}
}

/* ---- waiting ---- */

/* Has the queue entries of another flow than @f? Also those that have stepped aside. */
static bool mqfq_has_others(const struct mqfq_queue *mq, const struct flow *f)
{
	return mq->nr_flows > 1 || (mq->nr_flows && !mqfq_nr_queued(mq, f));
}

/* A queue was throttled for the flow: is that flow alone? Looks at one queue more. */
static void mqfq_look_for_others(struct mqfq_queue *mq, const struct flow *f)
{
	struct mqfq_policy *p = mq->policy;
	s64 old = atomic64_read(&p->alone.word);
	struct mqfq_queue *other;

	lockdep_assert_held(&mq->lock);

	if (!mqfq_alone_is_of(old, f)) {
		/* Pairs with itself: of two candidates, the first one is looked at. */
		if (old == MQFQ_NOBODY)
			atomic64_cmpxchg(&p->alone.word, old, (s64)((u64)f->number << 32));
		return;
	}
	if ((u32)old == p->nr_queues)
		return;
	other = &p->queue[(u32)old];
	if (other != mq && !spin_trylock(&other->lock))
		return;
	/* Pairs with itself: a queue is counted once. */
	atomic64_cmpxchg(&p->alone.word, old, mqfq_has_others(other, f) ? MQFQ_NOBODY : old + 1);
	if (other != mq)
		spin_unlock(&other->lock);
}

static void mqfq_note_unthrottled(struct mqfq_queue *mq)
{
	atomic64_add(mq->policy->ops->clock_ns() - mq->throttled_at_ns,
		     &mq->throttled_flow->throttled_ns);
	WRITE_ONCE(mq->throttled_flow, NULL);
}

static void mqfq_note_throttled(struct mqfq_queue *mq, struct flow *f)
{
	if (mq->throttled_flow)
		mqfq_note_unthrottled(mq);
	mq->throttles++;
	WRITE_ONCE(mq->throttled_flow, f);
	mq->throttled_at_ns = mq->policy->ops->clock_ns();
	mqfq_tell_wait(mq, MQFQ_THROTTLED);
	mqfq_look_for_others(mq, f);
}

/*
 * May @e go once virtual time knows of it? If not, the queue is THROTTLED, or was when another CPU
 * ended that wait.
 */
static noinline bool mqfq_may_go_ahead(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	struct flow *f = mqfq_entry_flow(e);
	struct mqfq_policy *p = mq->policy;
	u64 throttle_vt, window_vt;

	lockdep_assert_held(&mq->lock);

	mqfq_alone_not(&p->alone, f);
	mqfq_publish(mq, e->start);
	for (;;) {
		throttle_vt = READ_ONCE(p->throttle_vt);
		window_vt = mqfq_alone_window(&p->alone, f, p->nr_queues, throttle_vt);
		if (!vt_after(e->start, mqfq_vt(p) + window_vt))
			return true;
		WRITE_ONCE(mq->is_wide, window_vt != throttle_vt);
		WRITE_ONCE(mq->wake_vt, e->start - window_vt);
		mqfq_set_state(mq, MQFQ_THROTTLED);
		/* Full barrier; pairs with mindicator_set() and mqfq_set_throttle(). */
		vt_wheel_park(&p->wheel, mq->leaf, mq->wake_vt, &p->vt.vt);
		if (vt_after(mq->wake_vt, mqfq_vt(p)) && READ_ONCE(p->throttle_vt) == throttle_vt) {
			mqfq_note_throttled(mq, f);
			return false;
		}
		/* Its time came meanwhile. Pairs with mqfq_wake(), if another CPU saw it. */
		if (atomic_cmpxchg(&mq->state, MQFQ_THROTTLED, MQFQ_RUNNABLE) != MQFQ_THROTTLED)
			return false;
	}
}

/*
 * Is @e within the window? Virtual time moves on with requests that do not wait, too: a flow that
 * is alone must not run far ahead of it, and then wait until flows that come later catch up.
 */
static bool mqfq_may_go(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	const struct mqfq_policy *p = mq->policy;

	if (!vt_after(e->start, mqfq_vt(p) + READ_ONCE(p->grain_vt)))
		return true;
	/* A queue that is about to wait sets its leaf after this. */
	if (mindicator_is_empty(&p->vt) &&
	    !vt_after(e->start, mqfq_vt(p) + READ_ONCE(p->throttle_vt)))
		return true;
	return mqfq_may_go_ahead(mq, e);
}

/* Is there a slot somewhere else? If not, the queue is READY. */
static noinline void mqfq_find_slot(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	lockdep_assert_held(&mq->lock);

	mqfq_alone_not(&mq->policy->alone, mqfq_entry_flow(e));
	mqfq_publish_lazily(mq, e->start);
	mqfq_set_state(mq, MQFQ_READY);
	mqfq_seek_slot(mq);
}

/* ---- slow entries ---- */

static int mqfq_nr_permits(const struct mqfq_policy *p)
{
	int slots = READ_ONCE(p->tokens.slots);
	int permits = clamp(slots / MQFQ_SLOW_PART, 1, (int)MQFQ_SLOW_MOST);

	return READ_ONCE(p->slow.is_alone) ? min(MQFQ_SLOW_ALONE * permits, slots) : permits;
}

void mqfq_recall_slow(struct mqfq_policy *p)
{
	mqfq_permit_recall(p, &p->slow.permits, mqfq_nr_permits(p));
}

/* The queue is parked, unless it has nothing aside. */
static void mqfq_park(struct mqfq_queue *mq)
{
	if (mq->nr_aside) {
		/* Full barrier: bit before permits. Pairs with mqfq_release_slow(). */
		ready_set_add(&mq->policy->slow.permits.parked, mq->leaf);
	}
	mqfq_recall_slow(mq->policy);
}

/* Is there a permit for the first entry, which is slow? Those that wait for one come before it. */
static bool mqfq_has_permit(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;

	if (mq->nr_permits)
		return true;
	if (atomic_read(&p->slow.nr_aside) ||
	    !mqfq_permit_take(&p->slow.permits, mqfq_nr_permits(p)))
		return false;
	mq->nr_permits++;
	return true;
}

/* The first entry waits for a permit, where it is in nobody's way. */
static noinline void mqfq_step_aside(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	lockdep_assert_held(&mq->lock);

	mqfq_alone_not(&mq->policy->alone, mqfq_entry_flow(e));
	mqfq_dequeue(mq, e);
	mqfq_line_add(&mq->aside, e);
	WRITE_ONCE(mq->nr_aside, mq->nr_aside + 1);
	atomic_inc(&mq->policy->slow.nr_aside);
	mqfq_park(mq);
}

/* One slow entry comes back: at once, so that its tag is not a past one. */
static void mqfq_come_back_slow(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	struct mqfq_entry *e = mq->aside.first;

	if (e && mqfq_permit_take(&p->slow.permits, mqfq_nr_permits(p))) {
		u64 vt = mqfq_vt(p);

		mq->aside.first = e->next;
		WRITE_ONCE(mq->nr_aside, mq->nr_aside - 1);
		atomic_dec(&p->slow.nr_aside);
		mq->nr_permits++;
		mqfq_enter(mq, e, vt_after(vt, e->start) ? vt : e->start);
	}
	mqfq_park(mq);
}

/* ---- debts ---- */

/* The queue gives its permits back, and @more: it cannot use them. Entries without step aside. */
void mqfq_give_permits(struct mqfq_queue *mq, u32 more)
{
	lockdep_assert_held(&mq->lock);

	/* Full barrier: permits before bits. Pairs with ready_set_add() in mqfq_park(). */
	atomic_sub_return(mq->nr_permits + more, &mq->policy->slow.permits.nr_out);
	mq->nr_permits = 0;
	mqfq_recall_slow(mq->policy);
}

/* True if a debt was paid with what was just released: it is not free. */
static noinline bool mqfq_pay(struct mqfq_queue *mq)
{
	if (!mqfq_tally_pay(&mq->tally))
		return false;
	token_tree_paid(&mq->policy->tokens);
	/* It may have begun to rest at the moment at which its slots were lent. */
	mqfq_end_rest(mq);
	WRITE_ONCE(mq->is_recalled, true);
	/* Debt before state, by mqfq_tally_pay(). Pairs with smp_mb() in mqfq_come_home(). */
	if (!mqfq_wake(mq, MQFQ_STUCK) && !mqfq_tally_lent(atomic64_read(&mq->tally)))
		mq->policy->ops->run(mq->policy->context, mq->number, MQFQ_ASIDE);
	return true;
}

/*
 * No tag is before virtual time any more. The order stays, but for two that are equal now: of these
 * the one of the list goes first.
 */
static void mqfq_lift(struct mqfq_queue *mq)
{
	u64 vt = mqfq_vt(mq->policy);
	struct mqfq_entry *e;
	struct rb_node *node;

	lockdep_assert_held(&mq->lock);

	for (e = mq->in_order.first; e && vt_after(vt, e->start); e = e->next)
		e->start = vt;
	for (node = rb_first_cached(&mq->others); node; node = rb_next(node)) {
		e = rb_entry(node, struct mqfq_entry, node);
		if (!vt_after(vt, e->start))
			break;
		e->start = vt;
	}
}

static bool mqfq_must_wait(const struct mqfq_queue *mq)
{
	s64 tally = atomic64_read(&mq->tally);
	u32 lent = mqfq_tally_lent(tally);

	return lent && mqfq_nr_slots_taken(mq) - mqfq_tally_released(tally) > lent;
}

static bool mqfq_is_in_debt(const struct mqfq_queue *mq)
{
	return mqfq_tally_lent(atomic64_read(&mq->tally)) ||
	       mqfq_tally_lent(atomic64_read(&mq->rt_tally));
}

/* The queue was away. False if it has to wait for requests of its own: it is STUCK. */
static noinline bool mqfq_come_home(struct mqfq_queue *mq)
{
	lockdep_assert_held(&mq->lock);

	if (mqfq_must_wait(mq)) {
		mqfq_disarm(mq);
		mqfq_publish(mq, VT_NONE);
		atomic_set(&mq->state, MQFQ_STUCK);
		/* State before debt. Pairs with the cmpxchg in mqfq_tally_pay(). */
		smp_mb();
		if (mqfq_must_wait(mq)) {
			mqfq_give_permits(mq, 0);
			return false;
		}
		/* If a release has seen the state, the queue runs once more. */
		atomic_set(&mq->state, MQFQ_RUNNABLE);
	}
	mq->is_away = mqfq_is_in_debt(mq);
	mqfq_lift(mq);
	mqfq_park(mq);
	mqfq_rt_settle(mq);
	mqfq_line_up(mq);
	return true;
}

/* The queue was recalled. */
static noinline void mqfq_come_back(struct mqfq_queue *mq)
{
	lockdep_assert_held(&mq->lock);

	WRITE_ONCE(mq->is_recalled, false);
	/* A permit would be lost on a queue that waits for its own requests. */
	if (atomic_read(&mq->state) == MQFQ_STUCK) {
		mqfq_recall_slow(mq->policy);
		mqfq_recall_rt(mq->policy);
		return;
	}
	/* In debt it may have to become STUCK, which a queue that waits cannot. */
	if (mq->is_away && !mqfq_is_in_debt(mq)) {
		mqfq_come_home(mq);
		/* It goes on waiting for a slot, and holds virtual time again. */
		if (atomic_read(&mq->state) == MQFQ_READY && mq->nr)
			mqfq_publish(mq, mqfq_first(mq)->start);
	}
	mqfq_come_back_slow(mq);
	mqfq_rt_come_back(mq);
}

void mqfq_release_slow(struct mqfq_queue *mq)
{
	s64 tally = atomic64_add_return(MQFQ_TALLY_ONE, &mq->slow_tally);

	if (!mqfq_tally_lent(tally) || !mqfq_tally_pay(&mq->slow_tally)) {
		/* Full barrier: permit before bits. Pairs with ready_set_add() in mqfq_park(). */
		atomic_dec_return(&mq->policy->slow.permits.nr_out);
		mqfq_recall_slow(mq->policy);
	}
	mqfq_release(mq);
}

/* ---- a flow that has nothing at the device ---- */

/*
 * @e is first and waits for a slot. If it may, it becomes the head, and goes with a pass, or with a
 * slot if that comes first. It holds virtual time until it is taken.
 */
static void mqfq_let_pass(struct mqfq_queue *mq, struct mqfq_entry *e)
{
	lockdep_assert_held(&mq->lock);

	if (!mqfq_rt_may_pass(mq, e))
		return;
	/* The head is in the tree. */
	if (mq->in_order.first == e) {
		mq->in_order.first = e->next;
		mqfq_sort(mq, e);
	}
	mqfq_rt_be_head(mq, e);
}

/* The queue waits for a slot. May what it waits with pass by now? */
static void mqfq_let_first_pass(struct mqfq_queue *mq)
{
	struct mqfq_entry *e = mqfq_first(mq);

	if (atomic_read(&mq->state) == MQFQ_READY && e)
		mqfq_let_pass(mq, e);
}

/* An entry comes to a queue that waits for a slot. If it may, it passes, first or not. */
static bool mqfq_enter_passing(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start)
{
	const struct mqfq_policy *p = mq->policy;

	if (!mqfq_waits_for_slot(mq) || !mqfq_rt_may_pass(mq, e) ||
	    vt_after(start, mqfq_vt(p) + READ_ONCE(p->throttle_vt)))
		return false;
	e->start = start;
	mqfq_sort(mq, e);
	mqfq_entered(mq, e);
	mqfq_rt_be_head(mq, e);
	return true;
}

/* ---- coming, taking ---- */

/* A token that was kept for the entries behind the one that was taken. */
static bool mqfq_take_kept(struct mqfq_queue *mq)
{
	if (atomic_read(&mq->state) <= MQFQ_ARMED || READ_ONCE(mq->policy->tokens.in_debt))
		return false;
	/* Pairs with mqfq_keep(): the count is changed by both. */
	atomic_dec(&mq->state);
	return true;
}

/*
 * May the first entry go, and is there a slot for it? Then the queue is ARMED. If not, it waits for
 * what is missing. The caller knows that it waits for nothing, and has no token.
 */
static void mqfq_arm(struct mqfq_queue *mq)
{
	struct mqfq_policy *p = mq->policy;
	struct mqfq_entry *e;

	lockdep_assert_held(&mq->lock);

	for (;;) {
		e = mqfq_first(mq);
		if (!e) {
			mqfq_set_state(mq, MQFQ_RUNNABLE);
			return;
		}
		if (!mqfq_may_go(mq, e))
			return;
		if (likely(!(e->flow & MQFQ_ENTRY_SLOW)) || mqfq_has_permit(mq))
			break;
		mqfq_step_aside(mq, e);
	}
	if (mqfq_take_kept(mq))
		return;
	if (token_node_take(&p->tokens.node[mq->leaf], 1) || mqfq_fetch_slot(mq)) {
		/* A queue that was ARMED stays so: it may have been given more. */
		if (atomic_read(&mq->state) == MQFQ_RUNNABLE)
			atomic_set(&mq->state, MQFQ_ARMED);
		return;
	}
	mqfq_let_pass(mq, e);
	mqfq_find_slot(mq, e);
}

/* The queue finds out whether its first entry may go, unless it waits for something. */
static __always_inline void mqfq_ask(struct mqfq_queue *mq)
{
	if (atomic_read(&mq->state) == MQFQ_RUNNABLE && likely(!mq->is_away))
		mqfq_arm(mq);
}

void mqfq_insert(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start)
{
	lockdep_assert_held(&mq->lock);

	mqfq_count_in(mq, e);
	if (unlikely(mqfq_enter_passing(mq, e, start)))
		return;
	mqfq_enter(mq, e, start);
	mqfq_ask(mq);
}

void mqfq_insert_rt(struct mqfq_queue *mq, struct mqfq_entry *e, u64 start, unsigned int level)
{
	lockdep_assert_held(&mq->lock);

	mqfq_count_in(mq, e);
	e->start = start;
	e->flow |= MQFQ_ENTRY_RT;
	mqfq_rt_add(mq, e, level);
	mqfq_line_up(mq);
	mqfq_ask(mq);
}

/* The next entry for which there is a pass, or NULL. */
static struct mqfq_entry *mqfq_take_pass(struct mqfq_queue *mq)
{
	struct mqfq_entry *head = mq->rt.head, *e = mqfq_rt_take(mq);

	if (!e)
		return NULL;
	if (e == head) {
		/* The flow may be gone when the queue is throttled the next time. */
		if (mq->throttled_flow == mqfq_entry_flow(e))
			mqfq_note_unthrottled(mq);
		mqfq_step_out(mq, e);
	}
	mqfq_line_up(mq);
	mqfq_count_out(mq, e);
	mqfq_ask(mq);
	return e;
}

/* Is the first entry armed? It is, but for the rare reasons that make a queue RUNNABLE. */
static bool mqfq_is_armed(struct mqfq_queue *mq)
{
	if (unlikely(mq->is_away) && !mqfq_come_home(mq))
		return false;
	if (atomic_read(&mq->state) == MQFQ_RUNNABLE)
		mqfq_arm(mq);
	mqfq_use_rest(mq);
	return atomic_read(&mq->state) >= MQFQ_ARMED;
}

struct mqfq_entry *mqfq_take(struct mqfq_queue *mq)
{
	struct mqfq_entry *e;
	int state;

	lockdep_assert_held(&mq->lock);

	if (unlikely(READ_ONCE(mq->is_recalled))) {
		mqfq_come_back(mq);
		mqfq_let_first_pass(mq);
		e = mqfq_take_pass(mq);
		if (e)
			return e;
	}
	state = atomic_read(&mq->state);
	if (!mq->nr || (state < MQFQ_RESTING && state != MQFQ_RUNNABLE))
		return NULL;
	if (mq->throttled_flow)
		mqfq_note_unthrottled(mq);
	for (;;) {
		/* A queue that has just come home may have got passes. */
		if (!mqfq_is_armed(mq))
			return mqfq_take_pass(mq);
		e = mqfq_first(mq);
		if (likely(!(e->flow & MQFQ_ENTRY_SLOW)))
			break;
		if (mqfq_has_permit(mq)) {
			mq->nr_permits--;
			WRITE_ONCE(mq->slow_taken, mq->slow_taken + 1);
			break;
		}
		/* It came after the queue was armed. */
		mqfq_disarm(mq);
		mqfq_step_aside(mq, e);
	}
	mqfq_dequeue(mq, e);
	mqfq_count_out(mq, e);
	if (unlikely(e == mq->rt.head)) {
		mqfq_rt_head_left(mq);
		mqfq_line_up(mq);
	}
	if (likely(!mq->is_away))
		mqfq_arm(mq);
	else
		mqfq_set_state(mq, MQFQ_RUNNABLE);
	return e;
}

void mqfq_release(struct mqfq_queue *mq)
{
	/* Count and debt at once: mqfq_stuck.c tells why. Pairs with mqfq_tally_lend(). */
	s64 tally = atomic64_add_return(MQFQ_TALLY_ONE, &mq->tally);

	if (unlikely(mqfq_tally_lent(tally)) && mqfq_pay(mq))
		return;
	/* Count before state. Pairs with the cmpxchg in mqfq_rest(). */
	if (likely(!mqfq_waits_for_slot(mq)) || !mqfq_rest(mq))
		mqfq_give(mq);
}

/* ---- what queues count of their flows ---- */

void mqfq_fold(struct mqfq_policy *p)
{
	unsigned int i;

	for (i = 0; i < p->nr_queues; i++) {
		struct mqfq_queue *mq = &p->queue[i];

		if (!READ_ONCE(mq->flows.used))
			continue;
		spin_lock(&mq->lock);
		flow_locals_fold(&mq->flows);
		spin_unlock(&mq->lock);
	}
}

unsigned int mqfq_nr_requests(const struct mqfq_policy *p, const struct flow *f)
{
	unsigned int nr = flow_nr_direct(f), i;

	for (i = 0; i < p->nr_queues; i++)
		nr += flow_local_nr(&p->queue[i].flows, f);
	return nr;
}

/* ---- making, changing ---- */

static void mqfq_store_throttle(struct mqfq_policy *p, u64 throttle_vt)
{
	WRITE_ONCE(p->throttle_vt, throttle_vt);
	WRITE_ONCE(p->grain_vt, throttle_vt / 4);
}

static void mqfq_wake_throttled(struct mqfq_policy *p)
{
	unsigned int i;

	for (i = 0; i < p->nr_queues; i++)
		mqfq_wake(&p->queue[i], MQFQ_THROTTLED);
}

/* Changes T, in units of virtual time, less than 2^62. */
void mqfq_set_throttle(struct mqfq_policy *p, u64 throttle_vt)
{
	mqfq_store_throttle(p, throttle_vt);
	/* T before states. Pairs with vt_wheel_park() in mqfq_may_go_ahead(). */
	smp_mb();
	mqfq_wake_throttled(p);
}

static void mqfq_store_passes(struct mqfq_policy *p, unsigned int slots)
{
	WRITE_ONCE(p->nr_passes, clamp_t(int, slots, MQFQ_PASSES_LEAST, MQFQ_PASSES_MOST));
}

/* As many passes as with @slots, until the next mqfq_set_slots(). */
void mqfq_set_passes(struct mqfq_policy *p, unsigned int slots)
{
	mqfq_store_passes(p, slots);
	/* There may be more passes. Pairs with ready_set_add() in mqfq_rt_park(). */
	smp_mb();
	mqfq_recall_rt(p);
}

/**
 * mqfq_set_slots() - change D
 * @p:		policy
 * @slots:	MQFQ_SLOTS_MIN to MQFQ_SLOTS_MAX
 */
void mqfq_set_slots(struct mqfq_policy *p, unsigned int slots)
{
	token_tree_resize(&p->tokens, slots);
	mqfq_store_passes(p, slots);
	/* Tokens before bits. Pairs with ready_set_add() in mqfq_seek_slot(). */
	smp_mb();
	mqfq_share_out(&p->queue[0]);
	/* There may be more permits. Pairs with ready_set_add() in mqfq_park(), mqfq_rt_park(). */
	mqfq_recall_slow(p);
	mqfq_recall_rt(p);
}

/* Changes b and B. */
void mqfq_set_wheel(struct mqfq_policy *p, struct vt_wheel_geometry geometry)
{
	vt_wheel_reshape(&p->wheel, geometry);
	mqfq_wake_throttled(p);
}

static void mqfq_queue_init(struct mqfq_policy *p, unsigned int number)
{
	struct mqfq_queue *mq = &p->queue[number];

	mq->policy = p;
	mq->number = number;
	mq->leaf = p->topology.leaf_of[number];
	spin_lock_init(&mq->lock);
	mq->others = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&mq->recent);
}

int mqfq_policy_init(struct mqfq_policy *p, const struct topology_place *place,
		     unsigned int nr_queues, u64 vt, const struct mqfq_config *config,
		     const struct mqfq_policy_ops *ops, void *context, gfp_t gfp)
{
	unsigned int i;
	int ret;

	*p = (struct mqfq_policy) { .ops = ops, .context = context, .nr_queues = nr_queues };
	ret = topology_init(&p->topology, place, nr_queues, gfp);
	if (ret)
		return ret;
	ret = mindicator_init(&p->vt, &p->topology, vt, gfp);
	if (ret)
		goto err_topology;
	ret = token_tree_init(&p->tokens, &p->topology, config->slots, gfp);
	if (ret)
		goto err_vt;
	ret = vt_wheel_init(&p->wheel, nr_queues, config->wheel, &mqfq_wheel_ops, p, gfp);
	if (ret)
		goto err_tokens;
	ret = ready_set_init(&p->ready, &p->topology, gfp);
	if (ret)
		goto err_wheel;
	ret = ready_set_init(&p->slow.permits.parked, &p->topology, gfp);
	if (ret)
		goto err_ready;
	ret = ready_set_init(&p->passes.parked, &p->topology, gfp);
	if (ret)
		goto err_slow;
	ret = -ENOMEM;
	p->queue = kvcalloc(nr_queues, sizeof(*p->queue), gfp);
	if (!p->queue)
		goto err_passes;

	for (i = 0; i < nr_queues; i++)
		mqfq_queue_init(p, i);
	atomic64_set(&p->alone.word, MQFQ_NOBODY);
	mqfq_store_throttle(p, config->throttle_vt);
	mqfq_store_passes(p, config->slots);
	return 0;

err_passes:
	ready_set_destroy(&p->passes.parked);
err_slow:
	ready_set_destroy(&p->slow.permits.parked);
err_ready:
	ready_set_destroy(&p->ready);
err_wheel:
	vt_wheel_destroy(&p->wheel);
err_tokens:
	token_tree_destroy(&p->tokens);
err_vt:
	mindicator_destroy(&p->vt);
err_topology:
	topology_destroy(&p->topology);
	return ret;
}

void mqfq_policy_destroy(struct mqfq_policy *p)
{
	kvfree(p->queue);
	ready_set_destroy(&p->passes.parked);
	ready_set_destroy(&p->slow.permits.parked);
	ready_set_destroy(&p->ready);
	vt_wheel_destroy(&p->wheel);
	token_tree_destroy(&p->tokens);
	mindicator_destroy(&p->vt);
	topology_destroy(&p->topology);
}
