// SPDX-License-Identifier: GPL-2.0
/*
 * op.c - one operation: lock, look up, decide, write
 *
 *	submit -> lock by identity -> read candidates until one has the key -> decide
 *	       -> queue for the log -> applied -> done
 *
 * Joining. A key that many write would have one write per latency of the device. So when a writer
 * has decided what to write, the writers right behind it that are for the same key join it. Each
 * decides by what the one before it has left, in memory. The last record that comes of this is
 * written. All are answered in their order when it is durable, or have failed with it. One that
 * joined and writes nothing, as a SET NX, has seen what is not durable: it waits, too. Readers do
 * not join, and deletions do not, since these go on when there is no room.
 *
 * Candidates. An index entry promises a record, not a key: the key is always compared. A record
 * with a wrong checksum may be that of the key, or of another key with the same identity. If no
 * other candidate has the key, the answer is OKV_CORRUPT: neither "not found" nor a second record
 * beside it would be true.
 *
 * Suspects. A put or a deletion without conditions needs to know nothing of the old record, so it
 * replaces the suspect, or the key could never be used again. The suspect may belong to another
 * key. That is as likely as two keys with the same 44 bits and more of a secret hash. That other
 * key, whose record could not be read either, is not found from then on. With two suspects there is
 * no telling which is the key's, and nothing is replaced.
 *
 * Known records. An operation that needs only the key, the length and the expiry of a record may
 * find them in memory (known.h) and read nothing. One that wants an apart value reads only that,
 * and compares it with the checksum in memory. Neither notices a header that the device has
 * spoilt. If a record is not in memory, its header and its apart value are read at the same time:
 * the index knows where both are.
 *
 * Compressed values (log/compress.h). A value is compressed when the operation goes to the log.
 * What has joined by then has seen it as it is. Of one that is read, the checksum comes first.
 *
 * Expiries. To give a record with an apart value another expiry, the value is neither read nor
 * written: a record of its own says so (OKV_RECORD_EXPIRY). The index keeps the expiry until the
 * record goes or moves. A move takes it along.
 *
 * A record in the log names the one that it replaces. So the log alone, without reading keys, says
 * what the index is (recover.c).
 *
 * Clearing. One record removes all that a tenant has in the partition (OKV_OP_CLEAR). The index
 * does not know when an entry came. So the operations of the tenant that are under way end first,
 * and those that come meanwhile wait until all is gone. Moves do not wait, or there might never be
 * room for the record. One that ends behind it finds that what it has moved is gone.
 *
 * Operations that can run wait in p->ready. The outermost call runs them, so operations that end at
 * once do not nest.
 */
#include <stdlib.h>
#include <string.h>

#include "lock.h"
#include "log/compress.h"
#include "log/pack.h"
#include "log/record.h"
#include "map.h"
#include "mem.h"

enum { JOIN_BYTES_MAX = 256 << 10 };	/* of old values that operations copy which join one */

static void run_ready(struct okv_partition *p);

/* "Yielding" in lock.c. Before @op waits for room: a move that waits for its lock goes first. */
bool okv_op_yields(struct okv_op *op)
{
	if (!okv_lock_yield(op))
		return false;
	run_ready(op->partition);
	return true;
}

/* ---- looking records up ---- */

/* The record in op->buf, which was read from the beginning of its first sector. */
static const struct okv_record_disk *record_of(const struct okv_op *op)
{
	const struct okv_partition *p = op->partition;
	uint64_t offset_bytes = p->offset_bytes + op->at * OKV_ALIGN_BYTES;

	return (const void *)((const char *)op->buf + offset_bytes % p->disk->read_align_bytes);
}

/*
 * "Expiries" above: may the value of a candidate stay where it is? The first expiry of a record
 * takes memory. Without room the value is written again, and the record has it.
 */
static bool may_leave_value(const struct okv_op *op, const struct okv_entry *entry)
{
	const struct okv_partition *p = op->partition;

	return (op->kind == OKV_OP_TOUCH || op->flags & OKV_FOR_TOUCH) && entry->apart &&
	       okv_has_small_records(&p->layout->super) &&
	       (mem_has_key_room() || okv_index_expiry(&p->index, op->hash, entry->location));
}

static bool wants_value(const struct okv_op *op)
{
	if (op->kind == OKV_OP_TOUCH || op->flags & OKV_FOR_TOUCH)
		return !op->leaves_value || op->flags & OKV_WANT_OLD;
	return op->kind == OKV_OP_GET || op->kind == OKV_OP_UPDATE || op->flags & OKV_WANT_OLD;
}

static void op_probe(struct okv_op *op, uint64_t from);
static void op_decide(struct okv_op *op);

/* The value of a record, as it lies there; NULL: it is not good. */
static const void *plain_value(struct okv_op *op, const void *value)
{
	char *memory;

	if (!okv_value_is_good(op->partition, value, op->found_len, op->sum))
		return NULL;
	if (!op->found_compressed)
		return value;
	memory = okv_plain(value, op->found_len, op->out_len);
	if (!memory)
		return NULL;
	okv_op_release(op);
	op->buf = memory;
	op->value_io.buf = memory + OKV_ROOM_BYTES;
	return op->value_io.buf;
}

/* Go on with the value, if it is good; else the operation is over. So many bytes have been read. */
static void op_take_value(struct okv_op *op, const void *value, uint32_t bytes)
{
	struct okv_partition *p = op->partition;

	value = op->found_len <= bytes ? plain_value(op, value) : NULL;
	if (!value) {
		okv_damaged(p, op->at);
		okv_op_finish(op, OKV_CORRUPT);
		return;
	}
	op->out = value;
	op_decide(op);
}

/* The same with an apart value. */
static void op_take_apart(struct okv_op *op)
{
	if (op->value_io.result) {
		okv_failed(op->partition, OKV_EVENT_READ_ERROR, &op->value_io);
		okv_op_finish(op, OKV_IO_ERROR);
		return;
	}
	op_take_value(op, op->value_io.buf, op->value_io.bytes);
}

/* @record is that of the key, and the value is wanted. */
static void op_take(struct okv_op *op, const struct okv_record_disk *record)
{
	op->sum = record->value_sum;
	op->found_len = record->value_len;
	op->found_compressed = record->plain_len;
	if (!record->apart)
		op_take_value(op, (const char *)(record + 1) + record->key_len,
			      op->record_bytes - sizeof(*record) - record->key_len);
	else
		op_take_apart(op);
}

/* The record at op->at is that of the key. */
static void op_has_found(struct okv_op *op, uint64_t expire_ms)
{
	op->present = true;
	op->found = !okv_is_expired(expire_ms, op->partition->now_ms);
	op->old_expire_ms = expire_ms;
}

static bool is_key_of(const struct okv_op *op, const void *key, uint32_t key_len)
{
	return key_len == op->key_len && !memcmp(key, op->key, key_len);
}

static void op_judge_record(struct okv_op *op)
{
	struct okv_partition *p = op->partition;
	const struct okv_record_disk *record = record_of(op);
	uint64_t expire_ms;
	bool same;

	if (op->io.result) {
		okv_failed(p, OKV_EVENT_READ_ERROR, &op->io);
		okv_op_finish(op, OKV_IO_ERROR);
		return;
	}
	if (!okv_record_is_good(p, record, op->at, op->record_bytes) ||
	    record->apart != op->apart) {
		okv_damaged(p, op->at);
		op->nr_suspects++;
		op->suspect_at = op->at;
		op_probe(op, op->at + 1);
		return;
	}
	expire_ms = okv_map_expiry(p, record->hash, op->at, record->expire_ms);
	if (op->kind == OKV_OP_KEYS) {
		if (!okv_is_expired(expire_ms, p->now_ms))
			op->seen(op, record, expire_ms);
		else
			op->expired = true;
		op_probe(op, op->at + 1);
		return;
	}
	okv_known_set(&p->known, op->at, record, record + 1, expire_ms);
	if (op->kind == OKV_OP_EXPIRE && expire_ms &&
	    (!op->expire_ms || expire_ms < op->expire_ms))
		op->expire_ms = expire_ms;
	same = op->kind == OKV_OP_EXPIRE ? okv_is_expired(expire_ms, p->now_ms) :
	       is_key_of(op, record + 1, record->key_len);
	if (!same) {
		op_probe(op, op->at + 1);
		return;
	}
	op_has_found(op, expire_ms);
	if (op->kind == OKV_OP_EXPIRE) {
		op->tenant = record->tenant;
		op->key = record + 1;
		op->key_len = record->key_len;
		op->hash = record->hash;
	}
	op->out_len = op->found ? okv_plain_len(record) : 0;
	if (op->found && wants_value(op))
		op_take(op, record);
	else
		op_decide(op);
}

static void op_read_done(struct okv_io *io)
{
	struct okv_op *op = io->owner;

	if (--op->nr_reads)
		return;
	if (op->io.bytes)
		op_judge_record(op);
	else
		op_take_apart(op);
}

/* The bytes of a read of @bytes at @offset in whole sectors; @offset becomes that of the first. */
static uint32_t whole_sectors(const struct okv_disk *disk, uint64_t *offset, uint32_t bytes)
{
	uint32_t skip = *offset % disk->read_align_bytes;

	*offset -= skip;
	return bytes ? okv_round_up(skip + bytes, disk->read_align_bytes) : 0;
}

/*
 * Read so much of the record at op->at, and of its apart value, which has room around it. What is
 * in a pack needs no reading.
 */
static void op_read(struct okv_op *op, uint32_t record_bytes, uint32_t value_bytes)
{
	struct okv_partition *p = op->partition;
	uint32_t segment = okv_segment_of(p, op->at), block_bytes = p->disk->block_bytes;
	uint32_t bytes, front;
	bool in_pack;
	uint64_t end = okv_segment_offset(p, segment) + p->segment_bytes;
	uint64_t at = p->offset_bytes + op->at * OKV_ALIGN_BYTES;
	uint64_t value_at = (at / block_bytes + op->apart) * block_bytes;

	/* The record may be another key's and shorter: do not read beyond the segment. */
	if (value_bytes > end - value_at)
		value_bytes = end - value_at;
	op->record_bytes = record_bytes;
	front = bytes = whole_sectors(p->disk, &at, record_bytes);
	op->io = (struct okv_io){
		.kind = OKV_READ, .ioprio = op->ioprio, .offset_bytes = at, .bytes = bytes,
		.done = op_read_done, .owner = op,
	};
	op->value_io = op->io;
	op->value_io.offset_bytes = value_at;
	op->value_io.bytes = whole_sectors(p->disk, &value_at, value_bytes);
	if (value_bytes)
		front = okv_round_up(bytes + OKV_ROOM_BYTES, okv_align_of(p->disk));
	op->buf = okv_alloc_blocks(p->disk, front + op->value_io.bytes + OKV_ROOM_BYTES);
	op->io.buf = op->buf;
	op->value_io.buf = (char *)op->buf + front;
	in_pack = bytes && okv_packs_read(p, op->at, (char *)record_of(op), record_bytes);
	op->nr_reads = (bytes && !in_pack) + (op->value_io.bytes != 0);
	if (op->value_io.bytes)
		p->disk->ops->submit(p->disk, &op->value_io);
	if (bytes && !in_pack)
		p->disk->ops->submit(p->disk, &op->io);
	if (!op->nr_reads)
		op_judge_record(op);
}

/* What memory has of a candidate, if it is all that @op wants, an apart value excepted. */
static const struct okv_known *op_known(const struct okv_op *op, const struct okv_entry *entry)
{
	if (op->kind == OKV_OP_KEYS || op->kind == OKV_OP_EXPIRE ||
	    (wants_value(op) && !entry->apart))
		return NULL;
	return okv_known_find(&op->partition->known, entry->location);
}

/* At most the value has to be read. */
static void op_use_known(struct okv_op *op, const struct okv_known *known)
{
	op_has_found(op, known->expire_ms);
	op->found_len = known->value_len;
	op->found_compressed = known->plain_len;
	op->out_len = !op->found ? 0 : known->plain_len ? known->plain_len : known->value_len;
	op->sum = known->value_sum;
	if (op->found && wants_value(op))
		op_read(op, 0, known->value_len);
	else
		op_decide(op);
}

/*
 * Read a candidate: all of it if the value is wanted, else header and key. An apart value is read
 * at the same time as the record.
 */
static void op_read_candidate(struct okv_op *op, const struct okv_entry *entry)
{
	uint32_t bytes = entry->size * OKV_ALIGN_BYTES, value_bytes = 0;
	uint32_t own_bytes = okv_round_up(sizeof(struct okv_record_disk) + op->key_len,
					  OKV_ALIGN_BYTES);

	if (wants_value(op) && entry->apart && bytes > own_bytes)
		value_bytes = bytes - own_bytes;
	if ((!wants_value(op) || entry->apart) &&
	    bytes > sizeof(struct okv_record_disk) + OKV_KEY_BYTES_MAX)
		bytes = sizeof(struct okv_record_disk) + OKV_KEY_BYTES_MAX;
	op_read(op, bytes, value_bytes);
}

/* Go to the next candidate. */
static void op_probe(struct okv_op *op, uint64_t from)
{
	struct okv_partition *p = op->partition;
	const struct okv_known *known;
	struct okv_entry entry;
	bool other;

	okv_op_release(op);
	do {
		if (!okv_index_find(&p->index, op->hash, op->tenant, from, &entry)) {
			op_decide(op);
			return;
		}
		from = entry.location + 1;
		op->leaves_value = may_leave_value(op, &entry);
		known = op_known(op, &entry);
		p->stats.nr_known_headers += known != NULL;
		other = known && !is_key_of(op, known->key, known->key_len);
	} while ((op->kind == OKV_OP_EXPIRE && !entry.expires) || other);
	op->at = entry.location;
	op->apart = entry.apart;
	if (known)
		op_use_known(op, known);
	else
		op_read_candidate(op, &entry);
}

/* ---- what a write needs ---- */

/* @old is the value of what there is, NULL if op->leaves_value and nobody wants it. */
static enum okv_status op_judge_touch(struct okv_op *op, const void *old)
{
	if (!op->found)
		return OKV_NOT_FOUND;
	op->value = old;
	op->value_len = op->leaves_value ? 0 : op->out_len;
	return okv_op_ask_expiry(op);
}

/* May a PUT, UPDATE or TOUCH write what it wants to, by what there is? @old is the value. */
static enum okv_status op_judge(struct okv_op *op, const void *old)
{
	switch (op->kind) {
	case OKV_OP_UPDATE:
		if (op->flags & OKV_IF_PRESENT && !op->found)
			return OKV_NOT_FOUND;
		op->expire_ms = op->out_expire_ms;
		return op->update(op);
	case OKV_OP_TOUCH:
		return op_judge_touch(op, old);
	default:
		if (op->flags & OKV_IF_ABSENT && op->found)
			return OKV_EXISTS;
		if (op->flags & OKV_IF_PRESENT && !op->found)
			return OKV_NOT_FOUND;
		if (op->flags & OKV_KEEP_TTL && op->found)
			op->expire_ms = op->out_expire_ms;
		return OKV_OK;
	}
}

static bool makes_room(const struct okv_op *op)
{
	return okv_op_removes(op) || op->kind == OKV_OP_RELOCATE;
}

/* Does the log take the record of @op? */
static enum okv_status op_may_write(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	if (p->refusing)
		return OKV_IO_ERROR;
	if (op->value_len > p->layout->value_bytes_max)
		return OKV_TOO_LARGE;
	if (!op->present && !makes_room(op) && !mem_has_key_room()) {
		p->stats.nr_no_memory++;
		return OKV_NO_MEMORY;
	}
	okv_op_measure(op);
	if (!makes_room(op) && !op->tried && !okv_log_has_room(p, op->record_bytes)) {
		p->stats.nr_full++;
		return OKV_FULL;
	}
	return OKV_OK;
}

/* ---- joining ---- */

static bool keeps_old(const struct okv_op *op)
{
	return op->kind == OKV_OP_UPDATE || op->flags & OKV_WANT_OLD;
}

/* Of the value that there is when the record of @op is durable. */
static uint32_t len_after(const struct okv_op *op)
{
	return op->leaves_value ? op->out_len : op->value_len;
}

/* "Joining" above: may @op, which waits for the lock, join @before, and copy so much? */
static bool joins(const struct okv_op *op, const struct okv_op *before, uint32_t room_bytes)
{
	return (op->kind == OKV_OP_PUT || op->kind == OKV_OP_UPDATE || op->kind == OKV_OP_TOUCH) &&
	       op->tenant == before->tenant && is_key_of(op, before->key, before->key_len) &&
	       (!keeps_old(op) ||
		(len_after(before) <= room_bytes && (before->value || !len_after(before))));
}

/* @op finds what @before is about to write; op->status is its answer, if that becomes durable. */
static void op_decide_behind(struct okv_op *op, const struct okv_op *before)
{
	okv_stages_enter(op->partition, &op->stages, OKV_STAGE_LOG);
	op->present = before->present;
	op->at = before->at;
	op->found = !okv_is_expired(before->expire_ms, op->partition->now_ms);
	op->out_len = op->found ? len_after(before) : 0;
	op->leaves_value = op->kind == OKV_OP_TOUCH && before->leaves_value;
	op->out_expire_ms = op->found ? before->expire_ms : 0;
	/* A copy: the memory of @before ends when it is answered. */
	if (op->found && keeps_old(op)) {
		op->buf = mem_alloc(op->out_len + 1);
		if (op->out_len)
			memcpy(op->buf, before->value, op->out_len);
		op->out = op->buf;
	}
	op->status = op_judge(op, before->value);
	if (op->status == OKV_OK)
		op->status = op_may_write(op);
}

/* What can join @first does; returns the operation whose record is to be written. */
static struct okv_op *op_join(struct okv_op *first)
{
	struct okv_lock *lock = first->lock;
	struct okv_op *last = first, *writer = first, *op;
	uint32_t room_bytes = JOIN_BYTES_MAX;

	while ((op = lock->waiting.head) && joins(op, writer, room_bytes)) {
		okv_queue_take(&lock->waiting);
		room_bytes -= keeps_old(op) ? len_after(writer) : 0;
		lock->joined = first;
		last->joined = op;
		last = op;
		op_decide_behind(op, writer);
		if (op->status != OKV_OK)
			continue;
		writer->status = OKV_OK;
		writer = op;
	}
	lock->writer = writer;
	return writer;
}

/* ---- deciding ---- */

/* Hand @op to the log, which takes it. */
static void op_log(struct okv_op *op)
{
	okv_stages_enter(op->partition, &op->stages, OKV_STAGE_LOG);
	okv_op_compress(op);
	okv_log_submit(op);
}

/* Hand @op to the log, if that takes it. */
static void op_write(struct okv_op *op)
{
	enum okv_status status;

	if (okv_op_removes(op))
		op->value_len = 0;
	status = op_may_write(op);
	if (status == OKV_OK)
		op_log(op);
	else
		okv_op_finish(op, status);
}

static void op_decide_write(struct okv_op *op)
{
	enum okv_status status = op_judge(op, op->out);

	if (status == OKV_OK)
		status = op_may_write(op);
	if (status == OKV_OK)
		op_log(op_join(op));
	else
		okv_op_finish(op, status);
}

/* "Suspects" above: does @op need to know only where the old record is? */
static bool takes_suspect(const struct okv_op *op)
{
	return (op->kind == OKV_OP_PUT || op->kind == OKV_OP_DELETE) && !op->flags &&
	       op->nr_suspects == 1;
}

/* op->present, op->found and what was read are all that can be known of the key. */
static void op_decide(struct okv_op *op)
{
	if (!op->present && op->nr_suspects && !takes_suspect(op)) {
		okv_op_finish(op, OKV_CORRUPT);
		return;
	}
	if (!op->present && op->nr_suspects) {
		op->present = op->found = true;
		op->at = op->suspect_at;
		op->old_expire_ms = 0;
	}
	if (!op->present)
		op->at = OKV_NOWHERE;
	op->out_expire_ms = op->found ? op->old_expire_ms : 0;
	op->leaves_value &= op->found;
	switch (op->kind) {
	case OKV_OP_GET:
	case OKV_OP_STAT:
		okv_op_finish(op, op->found ? OKV_OK : OKV_NOT_FOUND);
		break;
	case OKV_OP_PUT:
	case OKV_OP_UPDATE:
	case OKV_OP_TOUCH:
		op_decide_write(op);
		break;
	case OKV_OP_DELETE:
	case OKV_OP_EXPIRE:
		if (op->found && op->flags & OKV_WANT_OLD && op->update && op->update(op) != OKV_OK)
			okv_op_finish(op, OKV_ABORTED);
		else if (op->present)
			op_write(op);
		else
			okv_op_finish(op, OKV_NOT_FOUND);
		break;
	case OKV_OP_KEYS:
		okv_op_finish(op, OKV_OK);
		break;
	case OKV_OP_RELOCATE:
	case OKV_OP_HOLD:
	case OKV_OP_CLEAR:
		break;
	}
}

/* The record of @op is durable: from now on the index says so. */
void okv_op_applied(struct okv_op *op)
{
	struct okv_partition *p = op->partition;
	bool is_gone = false;

	if (op->kind == OKV_OP_CLEAR) {
		p->stats.nr_deletes += p->usage[op->tenant].nr_keys;
		op->out_len = okv_map_clear(p, op->tenant);
		okv_op_finish(op, OKV_OK);
		return;
	}
	if (op->leaves_value) {
		okv_map_set_expiry(p, op->hash, op->at, op->expire_ms);
		okv_known_expires(&p->known, op->at, op->expire_ms);
		p->stats.nr_expiries++;
		okv_op_finish(op, OKV_OK);
		return;
	}
	if (op->present) {
		is_gone = !okv_map_remove(p, op->hash, op->at);
		okv_known_drop(&p->known, op->at);
	}
	if (!okv_op_removes(op) && !(is_gone && op->kind == OKV_OP_RELOCATE)) {
		struct okv_record_disk record = {
			.tenant = op->tenant, .key_len = op->key_len, .apart = op->apart,
			.value_len = op->written_len, .plain_len = op->plain_len,
			.hash = op->hash, .expire_ms = op->expire_ms, .value_sum = op->sum,
		};

		okv_map_add(p, &record, op->to);
		okv_known_set(&p->known, op->to, &record, op->key, op->expire_ms);
	}
	if (op->compressed) {
		p->stats.nr_compressed++;
		p->stats.saved_bytes += op->value_len - op->written_len;
	}
	p->stats.nr_deletes += op->kind == OKV_OP_DELETE && op->found;
	p->stats.nr_expired += okv_op_removes(op) && !op->found;
	okv_op_finish(op, OKV_OK);
}

/* ---- beginning and end ---- */

static void op_start(struct okv_op *op)
{
	struct okv_partition *p = op->partition;

	okv_stages_enter(p, &op->stages, OKV_STAGE_READ);
	if (op->kind == OKV_OP_HOLD) {
		op->update(op);
	} else if (op->kind == OKV_OP_CLEAR) {
		op_write(op);
	} else if (op->kind != OKV_OP_RELOCATE) {
		op_probe(op, 0);
	} else if (okv_index_at(&p->index, op->hash, op->at)) {
		op->present = true;
		op->expire_ms = okv_map_expiry(p, op->hash, op->at, op->expire_ms);
		/* The writer that has yielded may be about to write a record about this one. */
		op->expired = okv_is_expired(op->expire_ms, p->now_ms) &&
			      !(op->yielder && op->yielder->leaves_value);
		op_write(op);
	} else {
		okv_op_finish(op, OKV_NOT_FOUND);
	}
}

static void run_ready(struct okv_partition *p)
{
	struct okv_op *op;

	if (p->running)
		return;
	p->running = true;
	while ((op = okv_queue_take(&p->ready)))
		op_start(op);
	p->running = false;
}

/* "Yielding" in lock.c. The move has ended: the writer that yielded has its lock again. */
static void give_back(struct okv_lock *lock, const struct okv_op *move)
{
	struct okv_op *writer = move->yielder;

	lock->writer = writer;
	if (move->status == OKV_OK && writer->present && writer->at == move->at)
		writer->at = okv_op_removes(move) ? OKV_NOWHERE : move->to;
}

/* The lock is back. The next move borrows it, or the transaction goes on. */
static void hold_again(struct okv_op *hold)
{
	struct okv_op *move = okv_queue_take(&hold->lock->moves);

	hold->lent = move;
	if (move) {
		okv_lock_lend(hold->lock, move);
		okv_queue_add(&hold->partition->ready, move);
	} else {
		hold->update(hold);
	}
}

/* ---- clearing ---- */

static struct okv_usage *usage_of(const struct okv_partition *p, const struct okv_op *op)
{
	return &p->usage[op->tenant];
}

static bool waits_for_clear(const struct okv_partition *p, const struct okv_op *op)
{
	if (!p->nr_clears || op->kind == OKV_OP_RELOCATE || op->flags & OKV_GOES_ON)
		return false;
	/* Else those who clear again and again would hold back a walk over all for ever. */
	if (op->kind == OKV_OP_CLEAR && p->nr_all_wait)
		return true;
	return op->tenant == OKV_ALL_TENANTS || usage_of(p, op)->clear;
}

/* If nothing is under way any more that it has to wait for: write its record. */
static void try_clear(struct okv_partition *p, struct okv_op *clear)
{
	if (!usage_of(p, clear)->nr_ops && !p->usage[OKV_ALL_TENANTS].nr_ops)
		okv_queue_add(&p->ready, clear);
}

/* Begin @op now, or when its tenant has been cleared. */
static void enter(struct okv_partition *p, struct okv_op *op)
{
	if (waits_for_clear(p, op)) {
		p->nr_all_wait += op->tenant == OKV_ALL_TENANTS;
		okv_queue_add(&p->behind_clears, op);
	} else if (op->kind == OKV_OP_CLEAR) {
		op->is_counted = true;
		p->nr_clears++;
		usage_of(p, op)->clear = op;
		try_clear(p, op);
	} else {
		op->is_counted = op->kind != OKV_OP_RELOCATE;
		op->counted_as = op->tenant;
		usage_of(p, op)->nr_ops += op->is_counted;
		if (okv_lock_take(p, op))
			okv_queue_add(&p->ready, op);
	}
}

/* The tenant is cleared, or not: go on with what has waited. */
static void end_clear(struct okv_partition *p, const struct okv_op *clear)
{
	struct okv_queue waiting = p->behind_clears;
	struct okv_op *op;

	usage_of(p, clear)->clear = NULL;
	p->nr_clears--;
	p->behind_clears = (struct okv_queue){ 0 };
	p->nr_all_wait = 0;
	while ((op = okv_queue_take(&waiting)))
		enter(p, op);
}

/* @op, which had entered, is over. */
static void leave(struct okv_partition *p, const struct okv_op *op)
{
	struct okv_usage *usage = &p->usage[op->counted_as];

	if (op->kind == OKV_OP_CLEAR) {
		end_clear(p, op);
		return;
	}
	if (--usage->nr_ops || !p->nr_clears)
		return;
	if (usage->clear)
		try_clear(p, usage->clear);
	for (uint32_t i = 0; op->counted_as == OKV_ALL_TENANTS && i < OKV_NR_TENANTS; i++)
		if (p->usage[i].clear)
			try_clear(p, p->usage[i].clear);
}

/* ---- the end ---- */

/* @op is over. Whose lock it has is another matter. */
static void op_end(struct okv_op *op, enum okv_status status)
{
	struct okv_partition *p = op->partition;

	okv_stages_enter(p, &op->stages, op->stages.now);
	/* An expired record was not there, whatever became of its removal. */
	if (op->kind == OKV_OP_DELETE && op->present && !op->found)
		status = OKV_NOT_FOUND;
	op->status = status;
	p->stats.nr_gets += op->kind == OKV_OP_GET;
	p->stats.nr_puts += status == OKV_OK && (op->kind == OKV_OP_PUT ||
						 op->kind == OKV_OP_UPDATE ||
						 op->kind == OKV_OP_TOUCH);
	if (!op->out)
		okv_op_release(op);
	p->nr_ops--;
	if (op->is_counted)
		leave(p, op);
	op->done(op);
}

/* "Joining" above. @op, of those from @joined on, was written, or not. */
static void op_end_joined(struct okv_op *joined, const struct okv_op *op, enum okv_status status)
{
	struct okv_op *next;

	for (; joined; joined = next) {
		next = joined->joined;
		joined->partition->stats.nr_joined += status == OKV_OK && joined != op;
		op_end(joined, status == OKV_OK ? joined->status : status);
	}
}

void okv_op_finish(struct okv_op *op, enum okv_status status)
{
	struct okv_partition *p = op->partition;
	struct okv_lock *lock = op->lock;
	struct okv_op *yielder = op->yielder, *joined = NULL;
	bool reader = okv_lock_is_shared(op);

	op->status = status;
	if (yielder) {
		give_back(lock, op);
	} else if (lock && !reader) {
		lock->is_ending = true;
		joined = lock->joined;
		lock->joined = NULL;
	}
	if (joined)
		op_end_joined(joined, op, status);
	else
		op_end(op, status);
	if (yielder && yielder->kind == OKV_OP_HOLD)
		hold_again(yielder);
	else if (yielder)
		op_write(yielder);
	else if (lock)
		okv_lock_release(p, lock, reader);
	run_ready(p);
}

void okv_op_release(struct okv_op *op)
{
	mem_free(op->buf);
	mem_free(op->compressed);
	op->buf = op->value_io.buf = op->compressed = NULL;
	op->out = NULL;
}

void *okv_op_take(struct okv_op *op)
{
	void *memory = op->out == op->value_io.buf ? op->buf : NULL;

	if (memory)
		op->buf = NULL;
	return memory;
}

static void op_begin(struct okv_partition *p, struct okv_op *op)
{
	op->partition = p;
	op->lock = NULL;
	op->yielder = NULL;
	op->group = NULL;
	op->joined = NULL;
	op->queued = op->tried = op->lent = op->is_counted = false;
	op->buf = op->value_io.buf = op->compressed = NULL;
	op->out = NULL;
	op->out_len = 0;
	op->out_expire_ms = 0;
	op->found = op->present = op->expired = op->leaves_value = false;
	op->nr_suspects = 0;
	okv_stages_begin(p, &op->stages);
	p->nr_ops++;
}

void okv_op_run_held(struct okv_partition *p, struct okv_op *op)
{
	op_begin(p, op);
	okv_queue_add(&p->ready, op);
	run_ready(p);
}

void okv_partition_submit(struct okv_partition *p, struct okv_op *op)
{
	bool own = op->kind == OKV_OP_RELOCATE || op->kind == OKV_OP_EXPIRE ||
		   op->kind == OKV_OP_KEYS || op->kind == OKV_OP_HOLD;

	if (op->kind == OKV_OP_CLEAR) {
		op->key = "*";	/* not the key of anything: a record has one */
		op->key_len = 1;
		op->value_len = 0;
		op->hash = 0;
	}

	op_begin(p, op);
	if (!own && (op->tenant >= OKV_NR_TENANTS || !op->key_len ||
		     op->key_len > OKV_KEY_BYTES_MAX)) {
		okv_op_finish(op, OKV_TOO_LARGE);
		return;
	}
	enter(p, op);
	run_ready(p);
}
