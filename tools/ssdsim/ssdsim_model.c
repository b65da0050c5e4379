// SPDX-License-Identifier: GPL-2.0
/*
 * ssdsim_model.c - when an SSD under contention would have done it
 *
 * The path of a command
 * ---------------------
 *
 *	cores --> hardware queues --fetch, round robin--> pipeline --> dies --channel--> done
 *	                            one command at a time    |           ^
 *	                                                     +-> cache --+ destage
 *
 * 0. Queue service. With queue_service_ns, each hardware queue has a core of its own, which serves
 *    the queue's commands one after another, in order of arrival, for queue_service_ns each; then
 *    they can be fetched. So a target behind a fabric has it, where one core polls one connection:
 *    a queue that gets more than 1 / queue_service_ns is overloaded while others idle. The default
 *    is 0: no core, no wait.
 * 1. Fetch. The controller holds at most `slots` commands. While it has room it takes one command
 *    from the next hardware queue that is not empty, whatever the command's size: fetch_ns each.
 *    Therefore, while the controller is short of room or of time, k queues that always have a
 *    command waiting get 1/k of the commands each, however deep they are, and a queue whose
 *    commands are 16 times as large gets 16 times the bytes.
 * 2. Pipeline. Commands are processed in the order of fetching, cmd_ns + units x dma_unit_ns each:
 *    the processor and the host link together. (Data of reads is charged here although it moves
 *    after the array was read.)
 * 3. Dies. Page p of the device lies on die p mod dies, die d on channel d mod channels. A die does
 *    one thing at a time, in order of arrival; nothing overtakes and nothing is suspended.
 *	read of u units of one page:	read_ns in the die, then u x xfer_unit_ns on the channel
 *	program of u units:		u x xfer_unit_ns on the channel, then prog_ns in the die
 *    The transfer is on the die's critical path: the die has one register, so it is busy from the
 *    first to the last of these, also while it waits for a channel that another die holds.
 * 4. Write cache. cache_units units, of dirty data only. A write completes when all its units are
 *    in the cache; if there is no room it waits, in order, until programs have made some. Writing a
 *    unit that is dirty costs no room. Each die programs its dirty units oldest first, a page at a
 *    time, as one operation in its queue: when a full page of units has gathered, when the oldest
 *    is destage_ns old, when a writer waits for room or when a flush waits for it. A read completes
 *    from the cache, without a die, if all of its units are there.
 * 5. FUA write. Each page goes to its die at once as a program of its own, whatever its size; the
 *    write completes when the last is done.
 * 6. Flush. Completes when every unit that was cached when the flush left the pipeline has been
 *    programmed.
 * 7. Discard and write-zeroes. One unit of the controller unmaps, one command at a time in the
 *    order in which they leave the pipeline: discard_ns each, and discard_mib_ns for each MiB
 *    discarded, zero_mib_ns for each MiB zeroed, in proportion. Then the units are unmapped and
 *    their dirty copies dropped, and the command completes. Meanwhile it holds its place in the
 *    controller; the pipeline and the dies go on with other commands.
 * 8. Collection: ssdsim_ftl.c. Its steps queue at the die like other operations, one at a time, so
 *    others get their turn between them; a program that finds no page runs steps in front of itself
 *    until there is one.
 * 9. Stall. A stalled hardware queue is not fetched, and what is done of its commands is not
 *    completed before it is let go, as behind a connection that retransmits. A command that is
 *    done has given its place in the controller back.
 *
 * Closed forms
 * ------------
 * With D = channels x ways dies, x = xfer_unit_ns, P = fetch_ns + cmd_ns + units x dma_unit_ns:
 *
 *	depth-1 read of u units in one page	queue_service_ns + P + read_ns + u x
 *	depth-1 FUA write			queue_service_ns + P + u x + prog_ns
 *	depth-1 cached write, room		queue_service_ns + P
 *	depth-1 discard of m MiB		queue_service_ns + fetch_ns + cmd_ns + discard_ns +
 *						m x discard_mib_ns; zeroing: zero_mib_ns
 *	saturated discards per second		1 / (discard_ns + m x discard_mib_ns)
 *	saturated random reads per second	min(D / (read_ns + u x), channels / (u x),
 *						    1 / (cmd_ns + u dma_unit_ns), 1 / fetch_ns)
 *	k queues, saturated, per second		at most k / queue_service_ns
 *	saturated FUA writes per second		the same with prog_ns in place of read_ns
 *	saturated cached writes, units/s	D x page_units / (page_units x + prog_ns), less what
 *						collection takes
 *	read that arrives behind a program	waits for what is left of it, up to u x + prog_ns
 *	one reader, one FUA writer, both deep	each gets about D / (read_ns + prog_ns + 2 u x)
 *						commands per second; with W the wait at a die,
 *						reader / writer =
 *						(W + u x + prog_ns) / (W + u x + read_ns)
 *
 * The first term of the saturated forms needs all dies busy. With N random commands in flight some
 * die idles by chance; what is lost is between nothing (N much larger than D) and, for N of the
 * order of D, (D - 1) / (N + D - 1).
 *
 * Profiles
 * --------
 * The figures of ssdsim_profile.h follow from these forms; each is derived there.
 *
 * Not modelled
 * ------------
 * Several planes, cache reads and cache programs (register reuse), program and erase suspension,
 * read retries, error correction time, SLC caching, map misses, host-side flow control, thermal
 * limits, discards that slow reads down in the dies, the difference of sequential and random writes
 * on an empty drive (both are log structured here), read-modify-write of less than a unit (a
 * partial unit costs a whole one). A transfer is booked when its operation starts on the die. So
 * one that is booked early with a later start can push back a shorter one that would have fitted
 * before it. With one way per channel there is nothing to push.
 *
 * Events
 * ------
 * A die has one event: the end of what it does, or the time to look at its dirty list. The
 * pipeline is a list in order of time, and the next fetch is computed. So the event queue is a
 * heap of dies, and a command on one die costs one event there. Events that cannot be observed
 * are not worth an interrupt: ssdsim_model_next_ns() says when something can next be seen, and
 * ssdsim_model_run() replays what happened before in its order, with its own times. At equal
 * times dies go first, then the unmapping, the pipeline, the queues' cores, and fetching; the
 * result never depends on how often run was called.
 */
#include <linux/types.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ssdsim_model.h"

/* ---- event queue: heap of dies by event_ns, die number breaks ties ---- */

static bool heap_before(const struct ssdsim_model *m, u8 a, u8 b)
{
	u64 ta = m->dies[a].event_ns, tb = m->dies[b].event_ns;

	return ta < tb || (ta == tb && a < b);
}

static void heap_place(struct ssdsim_model *m, u32 pos, u8 id)
{
	m->heap[pos] = id;
	m->dies[id].heap_pos = pos;
}

static void heap_up(struct ssdsim_model *m, u32 pos)
{
	u8 id = m->heap[pos];

	while (pos && heap_before(m, id, m->heap[(pos - 1) / 2])) {
		heap_place(m, pos, m->heap[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	heap_place(m, pos, id);
}

static void heap_down(struct ssdsim_model *m, u32 pos)
{
	u8 id = m->heap[pos];
	u32 child;

	while ((child = 2 * pos + 1) < m->heap_len) {
		if (child + 1 < m->heap_len && heap_before(m, m->heap[child + 1], m->heap[child]))
			child++;
		if (!heap_before(m, m->heap[child], id))
			break;
		heap_place(m, pos, m->heap[child]);
		pos = child;
	}
	heap_place(m, pos, id);
}

/* Set or move the event of @die. */
static void heap_set(struct ssdsim_model *m, struct ssdsim_die *die, u64 ns)
{
	die->event_ns = ns;
	if (die->heap_pos == SSDSIM_HEAP_OUT) {
		m->heap[m->heap_len] = die->id;
		heap_up(m, m->heap_len++);
		return;
	}
	heap_up(m, die->heap_pos);
	heap_down(m, die->heap_pos);
}

static void heap_remove(struct ssdsim_model *m, struct ssdsim_die *die)
{
	u32 pos = die->heap_pos;
	u8 last;

	if (pos == SSDSIM_HEAP_OUT)
		return;
	die->heap_pos = SSDSIM_HEAP_OUT;
	last = m->heap[--m->heap_len];
	if (last == die->id)
		return;
	heap_place(m, pos, last);
	heap_up(m, pos);
	heap_down(m, m->dies[last].heap_pos);
}

/* ---- geometry ---- */

static struct ssdsim_die *die_of_page(struct ssdsim_model *m, u32 page)
{
	return &m->dies[page % m->nr_dies];
}

static struct ssdsim_die *die_of_unit(struct ssdsim_model *m, u32 unit)
{
	return die_of_page(m, unit / m->cfg.page_units);
}

/* The number of @unit in the map of its die. */
static u32 local_unit(const struct ssdsim_model *m, u32 unit)
{
	return unit / m->cfg.page_units / m->nr_dies * m->cfg.page_units + unit % m->cfg.page_units;
}

/* The units of @cmd that lie in @page: how many, and the first of them. */
static u32 overlap(const struct ssdsim_model *m, const struct ssdsim_cmd *cmd, u32 page, u32 *first)
{
	u32 lo = page * m->cfg.page_units, hi = lo + m->cfg.page_units;

	if (lo < cmd->unit)
		lo = cmd->unit;
	if (hi > cmd->unit + cmd->nr_units)
		hi = cmd->unit + cmd->nr_units;
	*first = lo;
	return hi - lo;
}

/* ---- completion ---- */

static void cmd_complete(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	list_del(&cmd->all);
	cmd->done_ns = m->now_ns;
	m->completed++;
	list_add_tail(&cmd->link, &m->done);
}

static void cmd_done(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	m->slots_used--;
	if (m->stalled & 1ULL << cmd->hwq)
		list_add_tail(&cmd->link, &m->held);
	else
		cmd_complete(m, cmd);
}

/* ---- write cache ---- */

static u32 *hash_head(const struct ssdsim_model *m, u32 unit)
{
	return &m->hash[(unit * 0x9e3779b1u) >> m->hash_shift];
}

static struct ssdsim_centry *cache_find(const struct ssdsim_model *m, u32 unit)
{
	u32 i;

	for (i = *hash_head(m, unit); i != SSDSIM_NONE; i = m->entries[i].hnext)
		if (m->entries[i].unit == unit)
			return &m->entries[i];
	return NULL;
}

static void cache_forget(struct ssdsim_model *m, struct ssdsim_centry *e)
{
	u32 *at = hash_head(m, e->unit), id = e - m->entries;

	while (*at != id)
		at = &m->entries[*at].hnext;
	*at = e->hnext;
	list_add(&e->link, &m->cache_free);
	m->nr_cached--;
}

static struct ssdsim_centry *cache_new(struct ssdsim_model *m, u32 unit)
{
	struct ssdsim_centry *e;
	u32 *at = hash_head(m, unit);

	e = list_first_entry(&m->cache_free, struct ssdsim_centry, link);
	list_del(&e->link);
	e->unit = unit;
	e->hnext = *at;
	*at = e - m->entries;
	e->dirty = false;
	e->prog = false;
	m->nr_cached++;
	return e;
}

static void cache_dirty(struct ssdsim_model *m, struct ssdsim_die *die, struct ssdsim_centry *e)
{
	e->dirty = true;
	e->dirty_group = m->open_group;
	e->dirty_ns = m->now_ns;
	m->open_count++;
	list_add_tail(&e->link, &die->dirty);
	die->nr_dirty++;
}

static void flush_check(struct ssdsim_model *m)
{
	struct ssdsim_cmd *cmd;

	while (!list_empty(&m->flushes)) {
		cmd = list_first_entry(&m->flushes, struct ssdsim_cmd, link);
		if (cmd->waiting)
			break;
		list_del(&cmd->link);
		cmd_done(m, cmd);
	}
}

/* A unit that was cached in @group needs no program any more. */
static void group_done(struct ssdsim_model *m, u64 group)
{
	struct ssdsim_cmd *cmd;

	if (group == m->open_group) {
		m->open_count--;
		return;
	}
	list_for_each_entry(cmd, &m->flushes, link) {
		if (cmd->group == group) {
			cmd->waiting--;
			break;
		}
	}
	flush_check(m);
}

static bool cache_has_all(const struct ssdsim_model *m, const struct ssdsim_cmd *cmd)
{
	u32 i;

	for (i = 0; i < cmd->nr_units; i++)
		if (!cache_find(m, cmd->unit + i))
			return false;
	return true;
}

/* ---- channel ---- */

/* The earliest time at or after @at when the channel of @die has @ns in one piece; it is taken. */
static u64 channel_book(struct ssdsim_model *m, struct ssdsim_die *die, u64 at, u64 ns)
{
	struct ssdsim_die *other;
	bool moved = m->cfg.ways > 1;
	u32 way;

	while (moved) {
		moved = false;
		for (way = 0; way < m->cfg.ways; way++) {
			other = &m->dies[die->id % m->cfg.channels + way * m->cfg.channels];
			if (other == die || at >= other->xfer_end_ns ||
			    at + ns <= other->xfer_start_ns)
				continue;
			at = other->xfer_end_ns;
			moved = true;
		}
	}
	die->xfer_start_ns = at;
	die->xfer_end_ns = at + ns;
	return at + ns;
}

/* ---- dies ---- */

static void die_poke(struct ssdsim_model *m, struct ssdsim_die *die);

static bool destage_wanted(const struct ssdsim_model *m, const struct ssdsim_die *die)
{
	const struct ssdsim_centry *e;

	if (!die->nr_dirty || die->destage_queued)
		return false;
	if (die->nr_dirty >= m->cfg.page_units || !list_empty(&m->cache_wait))
		return true;
	e = list_first_entry(&die->dirty, struct ssdsim_centry, link);
	return e->dirty_group != m->open_group || m->now_ns >= e->dirty_ns + m->cfg.destage_ns;
}

static void gc_want(struct ssdsim_die *die)
{
	if (die->gc_queued || !ssdsim_ftl_gc_wanted(&die->ftl))
		return;
	die->gc_queued = true;
	list_add_tail(&die->gc.link, &die->queue);
}

static u64 start_read(struct ssdsim_model *m, struct ssdsim_die *die, struct ssdsim_op *op)
{
	u32 first, n = overlap(m, op->cmd, op->page, &first);

	die->reads++;
	return channel_book(m, die, m->now_ns + m->cfg.read_ns, (u64)n * m->cfg.xfer_unit_ns);
}

static u64 start_program(struct ssdsim_model *m, struct ssdsim_die *die, const u32 *units, u32 n)
{
	ssdsim_ftl_program(&die->ftl, units, n);
	gc_want(die);
	return channel_book(m, die, m->now_ns, (u64)n * m->cfg.xfer_unit_ns) + m->cfg.prog_ns;
}

static u64 start_fua(struct ssdsim_model *m, struct ssdsim_die *die, struct ssdsim_op *op)
{
	u32 units[SSDSIM_MAX_PAGE_UNITS], first, n, i;

	n = overlap(m, op->cmd, op->page, &first);
	for (i = 0; i < n; i++)
		units[i] = local_unit(m, first + i);
	die->fua_programs++;
	return start_program(m, die, units, n);
}

static u64 start_destage(struct ssdsim_model *m, struct ssdsim_die *die)
{
	u32 units[SSDSIM_MAX_PAGE_UNITS], n = 0;
	struct ssdsim_centry *e;

	while (n < m->cfg.page_units && die->nr_dirty) {
		e = list_first_entry(&die->dirty, struct ssdsim_centry, link);
		list_del(&e->link);
		die->nr_dirty--;
		e->dirty = false;
		e->prog = true;
		e->prog_group = e->dirty_group;
		die->batch[n] = e - m->entries;
		units[n++] = local_unit(m, e->unit);
	}
	die->nr_batch = n;
	die->destages++;
	return start_program(m, die, units, n);
}

/* Start the first operation in the queue of an idle die. */
static void die_start(struct ssdsim_model *m, struct ssdsim_die *die)
{
	struct ssdsim_op *op = list_first_entry(&die->queue, struct ssdsim_op, link);
	u64 end;

	if ((op->kind == SSDSIM_DIE_FUA || op->kind == SSDSIM_DIE_DESTAGE) &&
	    !ssdsim_ftl_can_program(&die->ftl)) {
		if (!die->gc_queued)
			list_add(&die->gc.link, &die->queue);
		die->gc_queued = true;
		op = &die->gc;
	}
	list_del(&op->link);
	die->cur = op;
	switch (op->kind) {
	case SSDSIM_DIE_READ:
		end = start_read(m, die, op);
		break;
	case SSDSIM_DIE_FUA:
		end = start_fua(m, die, op);
		break;
	case SSDSIM_DIE_DESTAGE:
		die->destage_queued = false;
		if (!die->nr_dirty) {
			/* A discard took the data away. */
			die->nr_batch = 0;
			end = m->now_ns;
			break;
		}
		end = start_destage(m, die);
		break;
	default:
		die->gc_queued = false;
		die->gc_steps++;
		end = m->now_ns + ssdsim_ftl_gc_step(&die->ftl, &m->cfg);
		break;
	}
	die->busy_ns += end - m->now_ns;
	heap_set(m, die, end);
}

/* Something changed for @die: let it work if it can, else be told when to look again. */
static void die_poke(struct ssdsim_model *m, struct ssdsim_die *die)
{
	struct ssdsim_centry *e;

	if (destage_wanted(m, die)) {
		die->destage_queued = true;
		list_add_tail(&die->destage.link, &die->queue);
	}
	if (die->cur)
		return;
	if (!list_empty(&die->queue)) {
		die_start(m, die);
	} else if (die->nr_dirty) {
		e = list_first_entry(&die->dirty, struct ssdsim_centry, link);
		heap_set(m, die, e->dirty_ns + m->cfg.destage_ns);
	} else {
		heap_remove(m, die);
	}
}

static void poke_all(struct ssdsim_model *m)
{
	u32 i;

	for (i = 0; i < m->nr_dies; i++)
		die_poke(m, &m->dies[i]);
}

/* Give units of @cmd their place in the cache. Return: all of them have one. */
static bool cache_admit(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	struct ssdsim_centry *e;
	struct ssdsim_die *die;
	u32 unit;

	for (; cmd->admitted < cmd->nr_units; cmd->admitted++) {
		unit = cmd->unit + cmd->admitted;
		e = cache_find(m, unit);
		if (e && e->dirty)
			continue;
		if (!e && list_empty(&m->cache_free))
			return false;
		if (!e)
			e = cache_new(m, unit);
		die = die_of_unit(m, unit);
		cache_dirty(m, die, e);
		die_poke(m, die);
	}
	return true;
}

/* Programs made room: let waiting writers in, in order. */
static void cache_serve_waiters(struct ssdsim_model *m)
{
	struct ssdsim_cmd *cmd;

	while (!list_empty(&m->cache_wait)) {
		cmd = list_first_entry(&m->cache_wait, struct ssdsim_cmd, link);
		if (!cache_admit(m, cmd))
			break;
		list_del(&cmd->link);
		cmd_done(m, cmd);
	}
}

static void destage_end(struct ssdsim_model *m, struct ssdsim_die *die)
{
	struct ssdsim_centry *e;
	u32 i;

	for (i = 0; i < die->nr_batch; i++) {
		e = &m->entries[die->batch[i]];
		e->prog = false;
		if (!e->dirty)
			cache_forget(m, e);
		group_done(m, e->prog_group);
	}
	die->nr_batch = 0;
	cache_serve_waiters(m);
}

/* The event of @die is due. */
static void die_event(struct ssdsim_model *m, struct ssdsim_die *die)
{
	struct ssdsim_op *op = die->cur;

	if (op && (op->kind == SSDSIM_DIE_READ || op->kind == SSDSIM_DIE_FUA)) {
		op->page += m->nr_dies;
		die->cur = NULL;
		if (--op->pages_left)
			list_add(&op->link, &die->queue);
		else if (!--op->cmd->pending)
			cmd_done(m, op->cmd);
	} else if (op && op->kind == SSDSIM_DIE_DESTAGE) {
		/* The die stays taken meanwhile: letting writers in looks at all dies. */
		destage_end(m, die);
		die->cur = NULL;
	} else if (op) {
		die->cur = NULL;
		gc_want(die);
	}
	die_poke(m, die);
}

/* ---- out of the pipeline ---- */

/* Queue @cmd at every die that it touches: one operation per die, served page by page. */
static void to_dies(struct ssdsim_model *m, struct ssdsim_cmd *cmd, enum ssdsim_die_op kind)
{
	u32 first = (u32)cmd->unit / m->cfg.page_units;
	u32 pages = ((u32)cmd->unit + cmd->nr_units - 1) / m->cfg.page_units - first + 1;
	u32 n = pages < m->nr_dies ? pages : m->nr_dies;
	struct ssdsim_die *die;
	u32 i;

	cmd->pending = n;
	for (i = 0; i < n; i++) {
		struct ssdsim_op *op = &cmd->ops[i];

		op->cmd = cmd;
		op->kind = kind;
		op->page = first + i;
		op->pages_left = (pages - i + m->nr_dies - 1) / m->nr_dies;
		die = die_of_page(m, op->page);
		list_add_tail(&op->link, &die->queue);
		if (!die->cur)
			die_poke(m, die);
	}
}

static void cached_write(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	bool first = list_empty(&m->cache_wait);

	cmd->admitted = 0;
	if (first && cache_admit(m, cmd)) {
		cmd_done(m, cmd);
		return;
	}
	m->cache_waits++;
	list_add_tail(&cmd->link, &m->cache_wait);
	if (first)
		poke_all(m);
}

static void flush(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	cmd->group = m->open_group++;
	cmd->waiting = m->open_count;
	m->open_count = 0;
	list_add_tail(&cmd->link, &m->flushes);
	flush_check(m);
	if (!list_empty(&m->flushes))
		poke_all(m);
}

static void discard(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	struct ssdsim_centry *e;
	struct ssdsim_die *die;
	u32 i, unit;

	for (i = 0; i < cmd->nr_units; i++) {
		unit = cmd->unit + i;
		die = die_of_unit(m, unit);
		ssdsim_ftl_unmap(&die->ftl, local_unit(m, unit));
		e = m->nr_cached ? cache_find(m, unit) : NULL;
		if (!e || !e->dirty)
			continue;
		list_del(&e->link);
		die->nr_dirty--;
		e->dirty = false;
		if (!e->prog)
			cache_forget(m, e);
		group_done(m, e->dirty_group);
	}
	cache_serve_waiters(m);
	cmd_done(m, cmd);
}

static u64 unmap_time(const struct ssdsim_model *m)
{
	return list_empty(&m->unmap) ? SSDSIM_NEVER :
	       list_first_entry(&m->unmap, struct ssdsim_cmd, link)->ready_ns;
}

/* The unmapping of @cmd ends after that of all before it. */
static void unmap_begin(struct ssdsim_model *m, struct ssdsim_cmd *cmd)
{
	u32 mib_ns = cmd->op == SSDSIM_ZERO ? m->cfg.zero_mib_ns : m->cfg.discard_mib_ns;
	u64 start = m->now_ns;

	if (!list_empty(&m->unmap))
		start = list_last_entry(&m->unmap, struct ssdsim_cmd, link)->ready_ns;
	cmd->ready_ns = start + m->cfg.discard_ns +
			(((u64)cmd->nr_units * mib_ns) >> (20 - SSDSIM_UNIT_SHIFT));
	list_add_tail(&cmd->link, &m->unmap);
}

static void unmap_event(struct ssdsim_model *m)
{
	struct ssdsim_cmd *cmd = list_first_entry(&m->unmap, struct ssdsim_cmd, link);

	list_del(&cmd->link);
	discard(m, cmd);
}

/* Commands that can complete without an operation on a die of their own. */
static bool is_prompt(const struct ssdsim_cmd *cmd)
{
	return cmd->op != SSDSIM_READ && !cmd->fua;
}

static void pipe_event(struct ssdsim_model *m)
{
	struct ssdsim_cmd *cmd = list_first_entry(&m->pipe, struct ssdsim_cmd, link);

	list_del(&cmd->link);
	m->nr_prompt -= is_prompt(cmd);
	switch (cmd->op) {
	case SSDSIM_READ:
		if (m->nr_cached && cache_has_all(m, cmd)) {
			m->cache_hits++;
			cmd_done(m, cmd);
		} else {
			to_dies(m, cmd, SSDSIM_DIE_READ);
		}
		break;
	case SSDSIM_WRITE:
		if (cmd->fua)
			to_dies(m, cmd, SSDSIM_DIE_FUA);
		else
			cached_write(m, cmd);
		break;
	case SSDSIM_FLUSH:
		flush(m, cmd);
		break;
	case SSDSIM_DISCARD:
	case SSDSIM_ZERO:
		unmap_begin(m, cmd);
		break;
	}
}

/* ---- controller ---- */

static u64 fetch_time(const struct ssdsim_model *m)
{
	if (!(m->qmask & ~m->stalled) || m->slots_used >= m->cfg.slots)
		return SSDSIM_NEVER;
	return m->fetch_free_ns > m->now_ns ? m->fetch_free_ns : m->now_ns;
}

/* Take one command from the next queue that has one. */
static void fetch_event(struct ssdsim_model *m)
{
	u64 mask = m->qmask & ~m->stalled;
	u64 above = m->last_q < 63 ? mask >> (m->last_q + 1) << (m->last_q + 1) : 0;
	struct ssdsim_queue *q;
	struct ssdsim_cmd *cmd;
	u64 start;

	m->last_q = __ffs64(above ? above : mask);
	q = &m->queues[m->last_q];
	cmd = list_first_entry(&q->cmds, struct ssdsim_cmd, link);
	list_del(&cmd->link);
	if (list_empty(&q->cmds))
		m->qmask &= ~(1ULL << m->last_q);
	q->fetched++;
	q->bytes += cmd->bytes;
	m->slots_used++;
	m->fetch_free_ns = m->now_ns + m->cfg.fetch_ns;
	start = m->fetch_free_ns > m->pipe_free_ns ? m->fetch_free_ns : m->pipe_free_ns;
	cmd->ready_ns = start + m->cfg.cmd_ns +
			(((u64)cmd->bytes * m->cfg.dma_unit_ns) >> SSDSIM_UNIT_SHIFT);
	m->pipe_free_ns = cmd->ready_ns;
	list_add_tail(&cmd->link, &m->pipe);
}

/* ---- the queues' cores ---- */

/*
 * Which queue's core is done first, the lowest of equals. Return: when, SSDSIM_NEVER if none has
 * anything to do.
 */
static u64 service_time(const struct ssdsim_model *m, u32 *hwq)
{
	u64 first_ns = SSDSIM_NEVER, mask;
	u32 i;

	for (mask = m->service_mask; mask; mask &= mask - 1) {
		i = __ffs64(mask);
		if (m->queues[i].service_end_ns < first_ns) {
			first_ns = m->queues[i].service_end_ns;
			*hwq = i;
		}
	}
	return first_ns;
}

/* The core of @hwq is done with a command, which can be fetched from now on. */
static void service_event(struct ssdsim_model *m, u32 hwq)
{
	struct ssdsim_queue *q = &m->queues[hwq];

	list_move_tail(q->in_service.next, &q->cmds);
	m->qmask |= 1ULL << hwq;
	q->service_end_ns += m->cfg.queue_service_ns;
	if (list_empty(&q->in_service))
		m->service_mask &= ~(1ULL << hwq);
}

/* @cmd arrives at a core; an idle one begins at once. */
static void service_begin(struct ssdsim_model *m, struct ssdsim_cmd *cmd, u32 hwq)
{
	struct ssdsim_queue *q = &m->queues[hwq];

	if (list_empty(&q->in_service))
		q->service_end_ns = m->now_ns + m->cfg.queue_service_ns;
	list_add_tail(&cmd->link, &q->in_service);
	m->service_mask |= 1ULL << hwq;
}

/* ---- interface ---- */

void ssdsim_model_run(struct ssdsim_model *m, u64 now)
{
	for (;;) {
		u64 t_die = m->heap_len ? m->dies[m->heap[0]].event_ns : SSDSIM_NEVER;
		u64 t_pipe = list_empty(&m->pipe) ? SSDSIM_NEVER :
			     list_first_entry(&m->pipe, struct ssdsim_cmd, link)->ready_ns;
		u32 hwq = 0;
		u64 t_service = service_time(m, &hwq), t_unmap = unmap_time(m);
		u64 t = min(min(t_die, min(t_pipe, t_unmap)), min(t_service, fetch_time(m)));

		if (t > now)
			break;
		m->now_ns = t;
		if (t_die == t)
			die_event(m, &m->dies[m->heap[0]]);
		else if (t_unmap == t)
			unmap_event(m);
		else if (t_pipe == t)
			pipe_event(m);
		else if (t_service == t)
			service_event(m, hwq);
		else
			fetch_event(m);
	}
	if (now > m->now_ns)
		m->now_ns = now;
}

void ssdsim_model_submit(struct ssdsim_model *m, struct ssdsim_cmd *cmd, u32 hwq, u64 now)
{
	ssdsim_model_run(m, now);
	cmd->hwq = hwq;
	cmd->aborted = false;
	list_add_tail(&cmd->all, &m->all);
	m->nr_prompt += is_prompt(cmd);
	m->submitted++;
	if (m->cfg.queue_service_ns) {
		service_begin(m, cmd, hwq);
		return;
	}
	list_add_tail(&cmd->link, &m->queues[hwq].cmds);
	m->qmask |= 1ULL << hwq;
	if (fetch_time(m) == m->now_ns)
		fetch_event(m);
}

void ssdsim_model_stall(struct ssdsim_model *m, u64 mask, u64 now)
{
	struct ssdsim_cmd *cmd, *next;

	ssdsim_model_run(m, now);
	m->stalled = mask;
	list_for_each_entry_safe(cmd, next, &m->held, link) {
		if (mask & 1ULL << cmd->hwq)
			continue;
		list_del(&cmd->link);
		cmd_complete(m, cmd);
	}
	ssdsim_model_run(m, now);
}

u64 ssdsim_model_next_ns(const struct ssdsim_model *m)
{
	u64 t = min(m->heap_len ? m->dies[m->heap[0]].event_ns : SSDSIM_NEVER, unmap_time(m));
	u64 before, least = 0;

	if (!list_empty(&m->done))
		return m->now_ns;
	if (!list_empty(&m->pipe)) {
		before = list_first_entry(&m->pipe, struct ssdsim_cmd, link)->ready_ns;
	} else {
		u32 hwq;

		before = min(fetch_time(m), service_time(m, &hwq));
		if (before == SSDSIM_NEVER)
			return t;
		before += m->cfg.fetch_ns + m->cfg.cmd_ns;
	}
	/* A command that needs a die is not seen before its first page went through one. */
	if (!m->nr_prompt && !m->nr_cached)
		least = (u64)(m->cfg.read_ns < m->cfg.prog_ns ? m->cfg.read_ns : m->cfg.prog_ns) +
			m->cfg.xfer_unit_ns;
	return t < before + least ? t : before + least;
}
