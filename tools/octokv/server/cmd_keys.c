// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_keys.c - commands on keys and their values
 *
 * Each has a start(), which parses and makes operations, and a finish(), which turns their results
 * into a reply. A command that depends on the old value (INCR, APPEND, EXPIRE NX ...) is an update:
 * the store reads, calls the function below that computes the new value, and writes, with no other
 * operation of the same key in between. MSET, like all commands with several keys, is atomic per
 * key.
 */
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "command.h"
#include "store/mem.h"
#include "tenant.h"

#define SYNTAX "ERR syntax error"
#define NOT_INT "ERR value is not an integer or out of range"
#define NOT_FLOAT "ERR value is not a valid float"

/* ---- reading ---- */

static void start_get(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_GET)->want_value = true;
	request_submit(r);
}

/* The value of an operation, or null; counts hits. */
static void reply_value(struct request *r, struct kv_op *kv)
{
	struct worker *w = r->conn->worker;

	worker_count(w, kv->value ? COUNT_HITS : COUNT_MISSES, 1);
	if (!kv->value) {
		resp_null(&r->out);
		return;
	}
	resp_value(&r->out, kv->value);
	kv->value = NULL;
}

static void finish_value(struct request *r)
{
	if (!request_status(r, r->ops))
		reply_value(r, r->ops);
}

static void start_mget(struct request *r)
{
	request_ops(r, req_nr(r) - 1);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		request_key(r, i, i + 1, OKV_OP_GET)->want_value = true;
	request_submit(r);
}

static void finish_mget(struct request *r)
{
	for (uint32_t i = 0; i < r->nr_ops; i++)
		if (request_status(r, &r->ops[i]))
			return;
	resp_array(&r->out, r->nr_ops);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		reply_value(r, &r->ops[i]);
}

static void start_getrange(struct request *r)
{
	int64_t unused;

	if (!req_int(r, 2, &unused) || !req_int(r, 3, &unused))
		request_fail(r, NOT_INT);
	else
		start_get(r);
}

static void finish_getrange(struct request *r)
{
	struct resp_chunk *value = r->ops->value;
	int64_t len = value ? resp_chunk_len(value) : 0, from, to;

	if (request_status(r, r->ops))
		return;
	req_int(r, 2, &from);
	req_int(r, 3, &to);
	from = from < 0 ? from + len : from;
	to = to < 0 ? to + len : to;
	from = from < 0 ? 0 : from;
	to = to >= len ? len - 1 : to;
	if (from > to)
		resp_bulk(&r->out, "", 0);
	else
		resp_bulk(&r->out, resp_chunk_value(value) + from, to - from + 1);
}

static void start_stat(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_STAT);
	request_submit(r);
}

static void finish_strlen(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_int(&r->out, r->ops->op.status == OKV_OK ? r->ops->op.out_len : 0);
}

static void finish_type(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_simple(&r->out, r->ops->op.status == OKV_OK ? "string" : "none");
}

/* TTL, PTTL, EXPIRETIME, PEXPIRETIME. */
static void finish_ttl(struct request *r)
{
	const struct okv_op *op = &r->ops->op;
	const char *name = r->command_of->name;
	bool absolute = strstr(name, "expiretime"), ms = name[0] == 'p';
	int64_t left_ms;

	if (request_status(r, r->ops))
		return;
	if (op->status != OKV_OK || !op->out_expire_ms) {
		resp_int(&r->out, op->status == OKV_OK ? -1 : -2);
		return;
	}
	left_ms = op->out_expire_ms - (absolute ? 0 : r->conn->worker->now_ms);
	if (left_ms < 0)
		left_ms = 0;
	resp_int(&r->out, ms ? left_ms : (left_ms + (absolute ? 0 : 500)) / 1000);
}

/* DEL, UNLINK, EXISTS, TOUCH: how many keys there were. */
static void start_count(struct request *r)
{
	bool write = r->command_of->flags & CMD_WRITE;

	request_ops(r, req_nr(r) - 1);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		request_key(r, i, i + 1, write ? OKV_OP_DELETE : OKV_OP_STAT);
	request_submit(r);
}

static void finish_count(struct request *r)
{
	int64_t nr = 0;

	for (uint32_t i = 0; i < r->nr_ops; i++) {
		if (request_status(r, &r->ops[i]))
			return;
		nr += r->ops[i].op.status == OKV_OK;
	}
	resp_int(&r->out, nr);
}

/* ---- times ---- */

/*
 * Reads the expiry in argument @i in the @unit of the command or option: "ex" and "px" from now on,
 * "exat" and "pxat" since 1970. A time in the past gives 1, the first millisecond of 1970. False:
 * it is no valid time.
 */
static bool parse_expiry(struct request *r, uint32_t i, const char *unit, uint64_t *expire_ms)
{
	bool absolute = strlen(unit) == 4;
	int64_t value, base = absolute ? 0 : r->conn->worker->now_ms;

	if (!req_int(r, i, &value))
		return false;
	if (unit[0] == 'e' && (value > INT64_MAX / 1000 || value < INT64_MIN / 1000))
		return false;
	if (unit[0] == 'e')
		value *= 1000;
	if (value > INT64_MAX - base)
		return false;
	value += base;
	*expire_ms = value > 0 ? value : 1;
	return true;
}

static const char *const expiry_units[] = { "ex", "px", "exat", "pxat", NULL };

static const char *expiry_unit(const struct request *r, uint32_t i)
{
	for (const char *const *unit = expiry_units; *unit; unit++)
		if (req_is(r, i, *unit))
			return *unit;
	return NULL;
}

static void fail_expiry(struct request *r)
{
	request_fail(r, "ERR invalid expire time in '%s' command", r->command_of->name);
}

/* As before, but an expiry given as a distance must lie in the future: SET k v EX 0 is an error. */
static bool parse_future(struct request *r, uint32_t i, const char *unit, uint64_t *expire_ms)
{
	int64_t value;

	return req_int(r, i, &value) && value > 0 && parse_expiry(r, i, unit, expire_ms);
}

/* ---- writing ---- */

static struct kv_op *put(struct request *r, uint32_t i, uint32_t key, uint32_t value)
{
	struct kv_op *kv = request_key(r, i, key, OKV_OP_PUT);

	kv->op.value = req_arg(r, value);
	kv->op.value_len = req_len(r, value);
	return kv;
}

enum { SET_GET = 1, SET_EQUAL = 2, SET_KEEP_TTL = 4 };

/* Reads the options of SET. Returns NULL, or what is wrong with them. */
static const char *parse_set(struct request *r, struct kv_op *kv)
{
	bool have_expiry = false;

	for (uint32_t i = 3; i < req_nr(r); i++) {
		const char *unit = expiry_unit(r, i);
		bool has_condition = kv->op.flags & (OKV_IF_PRESENT | OKV_IF_ABSENT);

		if (req_is(r, i, "nx") && !(kv->op.flags & OKV_IF_PRESENT)) {
			kv->op.flags |= OKV_IF_ABSENT;
		} else if (req_is(r, i, "xx") && !(kv->op.flags & OKV_IF_ABSENT) &&
			   !(kv->how & SET_EQUAL)) {
			kv->op.flags |= OKV_IF_PRESENT;
		} else if (req_is(r, i, "ifeq") && !has_condition && i + 1 < req_nr(r)) {
			kv->op.flags |= OKV_IF_PRESENT;
			kv->how |= SET_EQUAL;
			kv->compared = ++i;
		} else if (req_is(r, i, "get")) {
			kv->op.flags |= OKV_WANT_OLD;
			kv->how |= SET_GET;
		} else if (req_is(r, i, "keepttl") && !have_expiry) {
			kv->op.flags |= OKV_KEEP_TTL;
		} else if (unit && !have_expiry && !(kv->op.flags & OKV_KEEP_TTL) &&
			   i + 1 < req_nr(r)) {
			have_expiry = true;
			if (!parse_future(r, ++i, unit, &kv->op.expire_ms))
				return "ERR invalid expire time in 'set' command";
		} else {
			return SYNTAX;
		}
	}
	return NULL;
}

/* Is the old value that in the argument that it names? */
static bool is_equal(const struct okv_op *op)
{
	const struct kv_op *kv = op->owner;
	uint32_t arg = kv->how & SET_EQUAL ? kv->compared : 2;

	return op->out && op->out_len == req_len(kv->request, arg) &&
	       !memcmp(op->out, req_arg(kv->request, arg), op->out_len);
}

static enum okv_status update_if_equal(struct okv_op *op)
{
	const struct kv_op *kv = op->owner;

	if (!op->out)
		return OKV_NOT_FOUND;
	if (!is_equal(op))
		return OKV_ABORTED;
	op->value = req_arg(kv->request, 2);
	op->value_len = req_len(kv->request, 2);
	if (!(kv->how & SET_KEEP_TTL))
		op->expire_ms = kv->number;
	return OKV_OK;
}

/* SET with IFEQ is an update: the store compares and writes with nothing in between. */
static void set_if_equal(struct kv_op *kv)
{
	kv->op.kind = OKV_OP_UPDATE;
	kv->op.update = update_if_equal;
	kv->number = kv->op.expire_ms;
	kv->adds_bytes = kv->op.value_len;
	if (kv->op.flags & OKV_KEEP_TTL)
		kv->how |= SET_KEEP_TTL;
	kv->op.flags = OKV_IF_PRESENT;
}

static enum okv_status delete_if_equal(struct okv_op *op)
{
	return is_equal(op) ? OKV_OK : OKV_ABORTED;
}

static void start_delifeq(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_DELETE)->op.flags = OKV_WANT_OLD;
	r->ops->op.update = delete_if_equal;
	request_submit(r);
}

static void start_set(struct request *r)
{
	const char *wrong;

	request_ops(r, 1);
	wrong = parse_set(r, put(r, 0, 1, 2));
	r->ops->want_value = r->ops->how & SET_GET;
	if (r->ops->how & SET_EQUAL)
		set_if_equal(r->ops);
	if (wrong)
		request_fail(r, "%s", wrong);
	else
		request_submit(r);
}

static void finish_set(struct request *r)
{
	if (request_status(r, r->ops))
		return;
	if (r->ops->how & SET_GET)
		reply_value(r, r->ops);
	else if (r->ops->op.status == OKV_OK)
		resp_simple(&r->out, "OK");
	else
		resp_null(&r->out);
}

static void start_setnx(struct request *r)
{
	request_ops(r, 1);
	put(r, 0, 1, 2)->op.flags = OKV_IF_ABSENT;
	request_submit(r);
}

/* Replies 1 if the write was done. */
static void finish_flag(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_int(&r->out, r->ops->op.status == OKV_OK);
}

/* SETEX, PSETEX. */
static void start_setex(struct request *r)
{
	request_ops(r, 1);
	put(r, 0, 1, 3);
	if (parse_future(r, 2, r->command_of->name[0] == 'p' ? "px" : "ex", &r->ops->op.expire_ms))
		request_submit(r);
	else
		fail_expiry(r);
}

static void start_getset(struct request *r)
{
	request_ops(r, 1);
	put(r, 0, 1, 2)->op.flags = OKV_WANT_OLD;
	r->ops->want_value = true;
	request_submit(r);
}

static void start_getdel(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_DELETE)->op.flags = OKV_WANT_OLD;
	r->ops->want_value = true;
	request_submit(r);
}

static void start_mset(struct request *r)
{
	if (req_nr(r) % 2 == 0) {
		request_fail(r, "ERR wrong number of arguments for 'mset' command");
		return;
	}
	request_ops(r, req_nr(r) / 2);
	for (uint32_t i = 0; i < r->nr_ops; i++)
		put(r, i, 2 * i + 1, 2 * i + 2);
	request_submit(r);
}

static void finish_mset(struct request *r)
{
	for (uint32_t i = 0; i < r->nr_ops; i++)
		if (request_status(r, &r->ops[i]))
			return;
	resp_simple(&r->out, "OK");
}

/* ---- updates: these run at the key's owner ---- */

enum { INT_TEXT_BYTES = 32, REAL_TEXT_BYTES = 128 };

static enum okv_status refuse(struct okv_op *op, const char *why)
{
	((struct kv_op *)op->owner)->complaint = why;
	return OKV_ABORTED;
}

static bool forbidden(const struct okv_op *op)
{
	return !op->out && ((const struct kv_op *)op->owner)->no_new_key;
}

static enum okv_status set_fresh(struct okv_op *op, char *fresh, uint32_t len)
{
	((struct kv_op *)op->owner)->fresh = fresh;
	op->value = fresh;
	op->value_len = len;
	return OKV_OK;
}

static enum okv_status update_incr(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	int64_t old = 0;
	char *text;

	if (forbidden(op))
		return OKV_NOT_FOUND;
	if (op->out && !resp_parse_int(op->out, op->out_len, &old))
		return refuse(op, NOT_INT);
	if (__builtin_add_overflow(old, kv->number, &kv->number))
		return refuse(op, "ERR increment or decrement would overflow");
	text = mem_alloc(INT_TEXT_BYTES);
	return set_fresh(op, text, snprintf(text, INT_TEXT_BYTES, "%lld", (long long)kv->number));
}

/* Writes a number in full: with a point if needed, no exponent, no zeros at the end. */
static int format_real(char *text, size_t bytes, long double value)
{
	int len = snprintf(text, bytes, "%.17Lf", value);

	if (len >= (int)bytes)
		return -1;
	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	text[len] = 0;
	return len;
}

static bool parse_real(const char *data, size_t len, long double *value)
{
	char text[64], *end;

	if (!len || len >= sizeof(text) || memchr(data, ' ', len))
		return false;
	memcpy(text, data, len);
	text[len] = 0;
	*value = strtold(text, &end);
	return !*end && end == text + len && isfinite(*value);
}

static enum okv_status update_incrbyfloat(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	long double old = 0;
	char *text;
	int len;

	if (forbidden(op))
		return OKV_NOT_FOUND;
	if (op->out && !parse_real(op->out, op->out_len, &old))
		return refuse(op, NOT_FLOAT);
	text = mem_alloc(REAL_TEXT_BYTES);
	kv->fresh = text;
	len = isfinite(old + kv->real) ? format_real(text, REAL_TEXT_BYTES, old + kv->real) : -1;
	if (len < 0)
		return refuse(op, "ERR increment would produce NaN or Infinity");
	kv->value = resp_value_alloc(len);
	memcpy(resp_chunk_value(kv->value), text, len);
	return set_fresh(op, text, len);
}

static enum okv_status update_append(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	const struct request *r = kv->request;
	uint64_t len = (uint64_t)op->out_len + req_len(r, 2);
	char *text;

	if (forbidden(op))
		return OKV_NOT_FOUND;
	if (len > MAX_VALUE_BYTES)
		return OKV_TOO_LARGE;
	text = mem_alloc(len);
	if (op->out_len)
		memcpy(text, op->out, op->out_len);
	memcpy(text + op->out_len, req_arg(r, 2), req_len(r, 2));
	kv->number = len;
	return set_fresh(op, text, len);
}

static enum okv_status update_setrange(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	const struct request *r = kv->request;
	uint64_t offset = kv->number, len = offset + req_len(r, 3);
	char *text;

	if (forbidden(op))
		return OKV_NOT_FOUND;
	kv->number = op->out_len;
	if (!req_len(r, 3))
		return OKV_ABORTED;
	if (len > MAX_VALUE_BYTES)
		return OKV_TOO_LARGE;
	if (len < op->out_len)
		len = op->out_len;
	text = mem_zalloc(len);
	if (op->out_len)
		memcpy(text, op->out, op->out_len);
	memcpy(text + offset, req_arg(r, 3), req_len(r, 3));
	kv->number = len;
	return set_fresh(op, text, len);
}

static void start_incr(struct request *r)
{
	const char *name = r->command_of->name;
	int64_t by = 1;
	bool down = name[0] == 'd';

	if (req_nr(r) == 3 && (!req_int(r, 2, &by) || (down && by == INT64_MIN))) {
		request_fail(r, NOT_INT);
		return;
	}
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_UPDATE)->op.update = update_incr;
	r->ops->number = down ? -by : by;
	r->ops->adds_bytes = INT_TEXT_BYTES;
	request_submit(r);
}

static void finish_number(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_int(&r->out, r->ops->number);
}

static void start_incrbyfloat(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_UPDATE)->op.update = update_incrbyfloat;
	r->ops->adds_bytes = REAL_TEXT_BYTES;
	if (parse_real(req_arg(r, 2), req_len(r, 2), &r->ops->real))
		request_submit(r);
	else
		request_fail(r, NOT_FLOAT);
}

static void start_append(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_UPDATE)->op.update = update_append;
	r->ops->adds_bytes = req_len(r, 2);
	request_submit(r);
}

static void start_setrange(struct request *r)
{
	int64_t offset = 0;

	if (!req_int(r, 2, &offset) || offset < 0 || offset > MAX_VALUE_BYTES) {
		request_fail(r, offset < 0 ? "ERR offset is out of range" : NOT_INT);
		return;
	}
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_UPDATE)->op.update = update_setrange;
	r->ops->number = offset;
	r->ops->adds_bytes = req_len(r, 3) ? offset + req_len(r, 3) : 0;
	request_submit(r);
}

/* ---- expiry ---- */

enum { EXPIRE_NX = 1, EXPIRE_XX = 2, EXPIRE_GT = 4, EXPIRE_LT = 8 };

/* The new expiry is in kv.number. */
static enum okv_status update_expire(struct okv_op *op)
{
	struct kv_op *kv = op->owner;
	uint64_t old_ms = op->expire_ms, fresh_ms = kv->number;

	if ((kv->how & EXPIRE_NX && old_ms) || (kv->how & EXPIRE_XX && !old_ms) ||
	    (kv->how & EXPIRE_GT && (!old_ms || fresh_ms <= old_ms)) ||
	    (kv->how & EXPIRE_LT && old_ms && fresh_ms >= old_ms))
		return OKV_ABORTED;
	op->expire_ms = fresh_ms;
	return OKV_OK;
}

/* EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT: key, time, perhaps a condition. */
static void start_expire(struct request *r)
{
	const char *name = r->command_of->name;
	bool ms = name[0] == 'p', at = strstr(name, "at");
	const char *unit = ms ? (at ? "pxat" : "px") : (at ? "exat" : "ex");
	uint64_t expire_ms;
	struct kv_op *kv;
	uint16_t how = 0;

	for (uint32_t i = 3; i < req_nr(r); i++) {
		uint16_t flag = req_is(r, i, "nx")   ? EXPIRE_NX
				: req_is(r, i, "xx") ? EXPIRE_XX
				: req_is(r, i, "gt") ? EXPIRE_GT
				: req_is(r, i, "lt") ? EXPIRE_LT
						     : 0;

		if (!flag) {
			request_fail(r, "ERR Unsupported option %.*s",
				     (int)(req_len(r, i) < 32 ? req_len(r, i) : 32), req_arg(r, i));
			return;
		}
		how |= flag;
	}
	if ((how & EXPIRE_NX && how != EXPIRE_NX) || (how & EXPIRE_GT && how & EXPIRE_LT)) {
		request_fail(r, "ERR NX and XX, GT or LT options at the same time are not "
				"compatible");
		return;
	}
	if (!parse_expiry(r, 2, unit, &expire_ms)) {
		fail_expiry(r);
		return;
	}
	request_ops(r, 1);
	if (how) {
		kv = request_key(r, 0, 1, OKV_OP_TOUCH);
		kv->op.update = update_expire;
		kv->number = expire_ms;
		kv->how = how;
	} else if (expire_ms <= r->conn->worker->now_ms) {
		request_key(r, 0, 1, OKV_OP_DELETE);
	} else {
		request_key(r, 0, 1, OKV_OP_TOUCH)->op.expire_ms = expire_ms;
	}
	request_submit(r);
}

static void start_persist(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_TOUCH)->op.update = update_expire;
	r->ops->how = EXPIRE_XX;
	request_submit(r);
}

static void start_getex(struct request *r)
{
	const char *unit = req_nr(r) > 2 ? expiry_unit(r, 2) : NULL;
	bool persist = req_nr(r) == 3 && req_is(r, 2, "persist");
	uint64_t expire_ms = 0;

	if (req_nr(r) == 2) {
		start_get(r);
		return;
	}
	if (!persist && (!unit || req_nr(r) != 4)) {
		request_fail(r, SYNTAX);
		return;
	}
	if (unit && !parse_future(r, 3, unit, &expire_ms)) {
		fail_expiry(r);
		return;
	}
	request_ops(r, 1);
	request_key(r, 0, 1, OKV_OP_TOUCH)->op.update = update_expire;
	r->ops->op.flags = OKV_WANT_OLD;
	r->ops->number = expire_ms;
	r->ops->how = persist ? EXPIRE_XX : 0;
	r->ops->want_value = true;
	request_submit(r);
}

const struct command key_commands[] = {
	{ "get", 2, 0, 1, 1, 1, start_get, finish_value },
	{ "set", -3, CMD_WRITE, 1, 1, 1, start_set, finish_set },
	{ "mget", -2, 0, 1, -1, 1, start_mget, finish_mget },
	{ "mset", -3, CMD_WRITE, 1, -1, 2, start_mset, finish_mset },
	{ "del", -2, CMD_WRITE, 1, -1, 1, start_count, finish_count },
	{ "unlink", -2, CMD_WRITE, 1, -1, 1, start_count, finish_count },
	{ "exists", -2, 0, 1, -1, 1, start_count, finish_count },
	{ "touch", -2, 0, 1, -1, 1, start_count, finish_count },
	{ "delifeq", 3, CMD_WRITE, 1, 1, 1, start_delifeq, finish_flag },
	{ "setnx", 3, CMD_WRITE, 1, 1, 1, start_setnx, finish_flag },
	{ "setex", 4, CMD_WRITE, 1, 1, 1, start_setex, finish_set },
	{ "psetex", 4, CMD_WRITE, 1, 1, 1, start_setex, finish_set },
	{ "getset", 3, CMD_WRITE, 1, 1, 1, start_getset, finish_value },
	{ "getdel", 2, CMD_WRITE, 1, 1, 1, start_getdel, finish_value },
	{ "getex", -2, CMD_WRITE, 1, 1, 1, start_getex, finish_value },
	{ "strlen", 2, 0, 1, 1, 1, start_stat, finish_strlen },
	{ "getrange", 4, 0, 1, 1, 1, start_getrange, finish_getrange },
	{ "substr", 4, 0, 1, 1, 1, start_getrange, finish_getrange },
	{ "setrange", 4, CMD_WRITE, 1, 1, 1, start_setrange, finish_number },
	{ "append", 3, CMD_WRITE, 1, 1, 1, start_append, finish_number },
	{ "incr", 2, CMD_WRITE, 1, 1, 1, start_incr, finish_number },
	{ "decr", 2, CMD_WRITE, 1, 1, 1, start_incr, finish_number },
	{ "incrby", 3, CMD_WRITE, 1, 1, 1, start_incr, finish_number },
	{ "decrby", 3, CMD_WRITE, 1, 1, 1, start_incr, finish_number },
	{ "incrbyfloat", 3, CMD_WRITE, 1, 1, 1, start_incrbyfloat, finish_value },
	{ "type", 2, 0, 1, 1, 1, start_stat, finish_type },
	{ "ttl", 2, 0, 1, 1, 1, start_stat, finish_ttl },
	{ "pttl", 2, 0, 1, 1, 1, start_stat, finish_ttl },
	{ "expiretime", 2, 0, 1, 1, 1, start_stat, finish_ttl },
	{ "pexpiretime", 2, 0, 1, 1, 1, start_stat, finish_ttl },
	{ "expire", -3, CMD_WRITE, 1, 1, 1, start_expire, finish_flag },
	{ "pexpire", -3, CMD_WRITE, 1, 1, 1, start_expire, finish_flag },
	{ "expireat", -3, CMD_WRITE, 1, 1, 1, start_expire, finish_flag },
	{ "pexpireat", -3, CMD_WRITE, 1, 1, 1, start_expire, finish_flag },
	{ "persist", 2, CMD_WRITE, 1, 1, 1, start_persist, finish_flag },
	{ NULL },
};
