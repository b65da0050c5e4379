// SPDX-License-Identifier: GPL-2.0
/*
 * transact.c - several keys of a partition in one step
 *
 *	hold all identities -> read all keys -> decide() -> write one batch -> let go
 *
 * Identities are held in their order, so that two transactions never wait for each other. Until all
 * are held, a move may borrow the lock of any (lock.c): a writer that this transaction waits for
 * may itself wait for the room that the move makes. From the first read on, nothing borrows a lock.
 *
 * The writes are one batch (log.c), so a loss of power leaves all of them or none. They never wait
 * for room while they hold locks that moves need: without room they are refused, and nothing has
 * changed. If the device fails the batch, all have failed, and are not tried again.
 */
#include <stdlib.h>

#include "log/compress.h"
#include "mem.h"
#include "partition.h"

enum { READ_BYTES_MAX = 64 << 20 };

static void hold_next(struct okv_txn *t);

static int by_identity(const void *a, const void *b)
{
	const struct okv_txn_key *const *k = a, *const *l = b;

	return (*k)->identity < (*l)->identity ? -1 : (*k)->identity > (*l)->identity;
}

static bool is_first(const struct okv_txn *t, uint32_t i)
{
	return !i || t->sorted[i]->identity != t->sorted[i - 1]->identity;
}

/* ---- the end ---- */

static void end(struct okv_txn *t, enum okv_status status)
{
	t->status = status;
	okv_stages_enter(t->partition, &t->stages, t->stages.now);
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		okv_op_release(&t->keys[i].read);
		okv_op_release(&t->keys[i].write);	/* perhaps it was not submitted */
		if (is_first(t, i))
			okv_op_finish(&t->sorted[i]->hold, OKV_OK);
	}
	mem_free(t->sorted);
	t->sorted = NULL;
	t->done(t);
}

static void hold_done(struct okv_op *op)
{
	(void)op;
}

/* ---- writing ---- */

static void write_done(struct okv_op *op)
{
	struct okv_txn *t = op->owner;

	if (op->status != OKV_OK && op->status != OKV_NOT_FOUND)
		t->status = op->status;
	if (!--t->nr_pending)
		end(t, t->status);
}

/* Makes the operation that writes a key, from that which has read it. */
static void prepare_write(struct okv_txn *t, struct okv_txn_key *k)
{
	const struct okv_op *read = &k->read;
	struct okv_op *op = &k->write;

	*op = (struct okv_op){
		.kind = k->removes ? OKV_OP_DELETE : OKV_OP_PUT, .tenant = read->tenant,
		.ioprio = read->ioprio, .key = read->key, .key_len = read->key_len,
		.hash = read->hash, .value = k->value, .value_len = k->removes ? 0 : k->value_len,
		.expire_ms = k->expire_ms, .partition = t->partition, .present = read->present,
		.found = read->found, .at = read->present ? read->at : OKV_NOWHERE,
		.done = write_done, .owner = t, .group = &t->group, .compresses = read->compresses,
	};
	if (!k->removes && k->keeps_value && read->leaves_value) {
		op->kind = OKV_OP_TOUCH;
		op->leaves_value = true;
		op->value_len = 0;
	}
}

static enum okv_status may_write(struct okv_txn *t)
{
	struct okv_partition *p = t->partition;
	uint32_t block_bytes = p->disk->block_bytes;
	bool has_new = false;

	t->group = (struct okv_group){ .head_bytes = sizeof(struct okv_batch_disk) };
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		struct okv_txn_key *k = &t->keys[i];
		uint32_t head_bytes;

		/* A key that was not there stays away. */
		k->writes &= !k->removes || k->read.present;
		if (!k->writes)
			continue;
		prepare_write(t, k);
		if (k->write.value_len > p->layout->value_bytes_max)
			return OKV_TOO_LARGE;
		okv_op_compress(&k->write);
		head_bytes = okv_head_bytes(block_bytes, k->write.key_len, k->write.written_len);
		t->group.nr_ops++;
		t->group.head_bytes += head_bytes;
		t->group.apart_bytes += k->write.record_bytes - head_bytes;
		if (okv_log_group_bytes(p, &t->group) > okv_log_group_bytes_max(p))
			return OKV_TOO_LARGE;
		has_new |= !k->removes && !k->read.present;
	}
	if (has_new && !mem_has_key_room())
		return OKV_NO_MEMORY;
	if (p->refusing)
		return OKV_IO_ERROR;
	if (t->group.nr_ops && !okv_log_has_room(p, okv_log_group_bytes(p, &t->group)))
		return OKV_FULL;
	return OKV_OK;
}

static void write_all(struct okv_txn *t)
{
	struct okv_partition *p = t->partition;
	enum okv_status status = t->decide(t);

	if (status == OKV_OK)
		status = may_write(t);
	if (status != OKV_OK || !t->group.nr_ops) {
		end(t, status);
		return;
	}
	t->status = OKV_OK;
	t->nr_pending = t->group.nr_ops;
	okv_stages_enter(p, &t->stages, OKV_STAGE_LOG);
	okv_log_plug(p);
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		if (!t->keys[i].writes)
			continue;
		p->nr_ops++;
		okv_log_submit(&t->keys[i].write);
	}
	okv_log_unplug(p);
}

/* ---- reading ---- */

static void read_done(struct okv_op *op)
{
	struct okv_txn *t = op->owner;

	if (op->status != OKV_OK && op->status != OKV_NOT_FOUND)
		t->status = op->status;
	if (op->out && t->value_bytes + op->out_len > READ_BYTES_MAX) {
		t->status = OKV_TOO_LARGE;
		okv_op_release(op);
	}
	t->value_bytes += op->out ? op->out_len : 0;
	if (--t->nr_pending)
		return;
	if (t->status == OKV_OK)
		write_all(t);
	else
		end(t, t->status);
}

/* How much memory the values take, about. What is compressed takes more: read_done(). */
static uint64_t read_bytes(const struct okv_txn *t)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < t->nr_keys; i++) {
		const struct okv_op *read = &t->keys[i].read;
		struct okv_entry entry;

		if (!t->keys[i].wants_value && !t->keys[i].may_touch)
			continue;
		/* Of these, a touch leaves the value. */
		if (okv_index_find(&t->partition->index, read->hash, read->tenant, 0, &entry) &&
		    (t->keys[i].wants_value || !entry.apart ||
		     !okv_has_small_records(&t->partition->layout->super)))
			bytes += (uint64_t)entry.size * OKV_ALIGN_BYTES;
	}
	return bytes;
}

static void read_all(struct okv_txn *t)
{
	t->nr_pending = t->nr_keys;
	t->status = OKV_OK;
	okv_stages_enter(t->partition, &t->stages, OKV_STAGE_READ);
	if (read_bytes(t) > READ_BYTES_MAX) {
		end(t, OKV_TOO_LARGE);
		return;
	}
	for (uint32_t i = 0; i < t->nr_keys; i++)
		t->keys[i].hold.present = true;
	for (uint32_t i = 0, nr = t->nr_keys; i < nr; i++) {
		const struct okv_txn_key *k = &t->keys[i];
		struct okv_op *op = &t->keys[i].read;

		op->kind = k->wants_value || k->may_touch ? OKV_OP_GET : OKV_OP_STAT;
		op->flags = (k->may_touch ? OKV_FOR_TOUCH : 0) |
			    (k->wants_value ? OKV_WANT_OLD : 0);
		op->done = read_done;
		op->owner = t;
		okv_op_run_held(t->partition, op);
	}
}

/* ---- holding ---- */

/* An identity is held now, or again. */
static enum okv_status held(struct okv_op *op)
{
	struct okv_txn *t = op->owner;

	if (!op->queued) {
		op->queued = true;
		while (++t->nr_held < t->nr_keys && !is_first(t, t->nr_held))
			;
	}
	hold_next(t);
	return OKV_OK;
}

static void hold_next(struct okv_txn *t)
{
	struct okv_op *op;

	if (t->nr_held < t->nr_keys) {
		op = &t->sorted[t->nr_held]->hold;
		if (op->kind == OKV_OP_HOLD)
			return;
		*op = (struct okv_op){
			.kind = OKV_OP_HOLD, .flags = t->nr_held ? OKV_GOES_ON : 0,
			.tenant = t->sorted[t->nr_held]->read.tenant,
			.hash = t->sorted[t->nr_held]->read.hash,
			.update = held, .done = hold_done, .owner = t,
		};
		okv_partition_submit(t->partition, op);
		return;
	}
	for (uint32_t i = 0; i < t->nr_keys; i++)
		if (is_first(t, i) && t->sorted[i]->hold.lent)
			return;
	if (!t->nr_pending)
		read_all(t);
}

void okv_partition_transact(struct okv_partition *p, struct okv_txn *t)
{
	t->partition = p;
	okv_stages_begin(p, &t->stages);
	t->nr_held = t->nr_pending = 0;
	t->value_bytes = 0;
	t->sorted = mem_alloc(t->nr_keys * sizeof(*t->sorted));
	for (uint32_t i = 0; i < t->nr_keys; i++) {
		t->keys[i].hold = t->keys[i].write = (struct okv_op){ 0 };
		t->keys[i].identity = okv_index_identity(&p->index, t->keys[i].read.hash);
		t->sorted[i] = &t->keys[i];
	}
	qsort(t->sorted, t->nr_keys, sizeof(*t->sorted), by_identity);
	hold_next(t);
}
