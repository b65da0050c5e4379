// SPDX-License-Identifier: GPL-2.0
/*
 * model.c - a model of the store: see model.h
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

bool model_lies(const struct sim *s)
{
	return s->kind == LYING || s->kind == MIXED;
}

void model_fail(struct sim *s, const char *format, ...)
{
	static const char *const kinds[] = { "honest", "errors", "lying", "mixed" };
	va_list args;

	if (s->has_failed)
		return;
	s->has_failed = true;
	printf("seed %lu (%s): ", (unsigned long)s->seed, kinds[s->kind]);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (after %lu operations, %lu cuts)\n", (unsigned long)s->nr_ops,
	       (unsigned long)s->nr_cuts);
}

/* Some do not get shorter by compression, some by half, and some all but vanish. */
void model_make_value(char *to, uint32_t number, uint32_t len)
{
	uint64_t random = number * 0x10001ULL;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = sim_random(&random);

		if (number % 4 == 3 || (number % 2 && i % 64 >= 32))
			word = number;
		memcpy(to + i, &word, len - i < 8 ? len - i : 8);
	}
}

static bool is_value(const char *value, uint32_t len, uint32_t number)
{
	char *expected = malloc(len + 1);
	bool same;

	model_make_value(expected, number, len);
	same = !memcmp(value, expected, len);
	free(expected);
	return same;
}

/* Gone: deleted, never written, or expired. If it expired during the operation, either is right. */
bool model_is_gone(const struct version *v, uint64_t at_ms)
{
	return !v->exists || (v->expire_ms && v->expire_ms <= at_ms);
}

static bool may_be(const struct sim *s, const struct client *c, const struct version *v, bool found)
{
	return found ? !model_is_gone(v, c->submitted_ms) : model_is_gone(v, s->now_ms);
}

/* Does what was read show this version? */
static bool shows(const struct sim *s, const struct client *c, const struct version *v)
{
	const struct okv_op *op = &c->op;

	if (!may_be(s, c, v, op->found))
		return false;
	if (!op->found)
		return true;
	return op->out_len == v->len && op->out_expire_ms == v->expire_ms &&
	       (!op->out || is_value(op->out, v->len, v->number));
}

static void forget_maybe(struct key *k)
{
	k->nr_maybe = k->nr_uncertain = 0;
}

/* What it is now is known. What has failed since the open may show after the next one. */
static void settle(struct key *k)
{
	k->nr_maybe -= k->nr_uncertain;
	memmove(k->maybe, k->maybe + k->nr_uncertain, k->nr_maybe * sizeof(*k->maybe));
	k->nr_uncertain = 0;
}

/* What has failed since the open never happens. What had failed before it may have happened. */
void model_takes_again(struct sim *s)
{
	for (uint32_t i = 0; i < s->nr_keys && !model_lies(s); i++)
		s->keys[i].nr_maybe = s->keys[i].nr_uncertain;
}

/* Could a write find what it found? */
static bool may_have_found(const struct sim *s, const struct client *c)
{
	const struct key *k = c->key;
	bool may = may_be(s, c, &k->now, c->op.found);

	for (uint32_t i = 0; i < k->nr_uncertain; i++)
		may |= may_be(s, c, &k->maybe[i], c->op.found);
	return may;
}

/* Has a write replaced a suspect? */
static bool took_suspect(const struct okv_op *op)
{
	return op->nr_suspects && op->present && op->at == op->suspect_at;
}

/* A suspect was replaced: it may have been the record of any key with the same tag. */
static void doubt_others(struct sim *s, const struct key *writer)
{
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		struct key *k = &s->keys[i];

		if (k == writer || k->tenant != writer->tenant || (k->hash ^ writer->hash) << 20 ||
		    k->nr_maybe == NR_MAYBE_MAX)
			continue;
		/* A deletion that failed may have made it possible already, for the next open. */
		if (!k->nr_maybe || k->maybe[k->nr_maybe - 1].exists)
			k->maybe[k->nr_maybe++] = (struct version){ .exists = false };
		k->nr_uncertain = k->nr_maybe;
	}
}

/*
 * Check what a read, or the reading part of a write, has shown. This decides an open state, unless
 * several show the same: that is left to the next check of all keys, which takes the latest. Of
 * states that show nothing it takes one with an expired record, which the store counts until it is
 * removed.
 */
static void check_shown(struct sim *s, struct client *c)
{
	struct key *k = c->key;
	bool is_now = shows(s, c, &k->now), is_other = false;
	const struct version *shown = is_now ? &k->now : NULL;

	for (uint32_t i = k->nr_uncertain; i--; ) {
		const struct version *v = &k->maybe[i];

		if (!shows(s, c, v))
			continue;
		is_other = true;
		if (!shown || (!shown->exists && v->exists))
			shown = v;
	}
	if (!shown) {
		model_fail(s, "key %ld shows %s of %u bytes, expiry %lu, and should be %s of %u "
			   "bytes, version %u, expiry %lu, at %lu ms (operation %lu)",
			   (long)(k - s->keys), c->op.found ? "a value" : "nothing", c->op.out_len,
			   (unsigned long)c->op.out_expire_ms,
			   k->now.exists ? "a value" : "nothing", k->now.len, k->now.number,
			   (unsigned long)k->now.expire_ms, (unsigned long)s->now_ms,
			   (unsigned long)c->number);
		return;
	}
	if (is_now && is_other && !c->checks_only && !model_lies(s))
		return;
	k->now = *shown;
	settle(k);
}

static bool is_write(const struct okv_op *op)
{
	return op->kind != OKV_OP_GET && op->kind != OKV_OP_STAT;
}

/* Does the clearing of @c concern it? */
static bool is_cleared(const struct sim *s, const struct client *c, const struct key *k)
{
	uint64_t other = k->hash ^ c->key->hash;

	return k->tenant == c->key->tenant &&
	       (s->nr_partitions == 1 || !(other >> (64 - __builtin_ctz(s->nr_partitions))));
}

static void clear(struct sim *s, const struct client *c)
{
	for (uint32_t i = 0; i < s->nr_keys; i++) {
		if (!is_cleared(s, c, &s->keys[i]))
			continue;
		s->keys[i].now.exists = false;
		forget_maybe(&s->keys[i]);
	}
}

static void check_ok(struct sim *s, struct client *c)
{
	struct key *k = c->key;
	struct version to = c->to;

	s->nr_acknowledged++;
	if (c->op.kind == OKV_OP_CLEAR) {
		clear(s, c);
		return;
	}
	switch (c->op.kind) {
	case OKV_OP_GET:
	case OKV_OP_STAT:
		check_shown(s, c);
		break;
	case OKV_OP_PUT:
		if ((c->op.flags & OKV_IF_ABSENT && c->op.found) ||
		    (c->op.flags & OKV_IF_PRESENT && !c->op.found))
			model_fail(s, "a conditional put went the wrong way");
		if (!took_suspect(&c->op) && !may_have_found(s, c))
			model_fail(s, "a put found what is not there, or not what is");
		to.expire_ms = c->op.expire_ms;
		k->now = to;
		break;
	case OKV_OP_UPDATE:
		check_shown(s, c);
		to.expire_ms = c->op.expire_ms;
		k->now = to;
		break;
	case OKV_OP_TOUCH:
		check_shown(s, c);
		k->now.expire_ms = c->op.expire_ms;
		break;
	default:
		if (!took_suspect(&c->op) && !may_have_found(s, c))
			model_fail(s, "deleted what is not there");
		k->now.exists = false;
	}
	/* A write that failed before this one will never show. */
	if (model_lies(s) || is_write(&c->op))
		forget_maybe(k);
	if (took_suspect(&c->op))
		doubt_others(s, k);
}

/* It joined a write that failed, and had nothing to write itself. */
static bool writes_nothing(const struct okv_op *op)
{
	return op->kind == OKV_OP_PUT && ((op->flags & OKV_IF_ABSENT && op->found) ||
					  (op->flags & OKV_IF_PRESENT && !op->found));
}

static void add_maybe(struct sim *s, struct key *k, struct version v)
{
	if (k->nr_maybe == NR_MAYBE_MAX)
		model_fail(s, "the model has room for %d open operations of a key", NR_MAYBE_MAX);
	else
		k->maybe[k->nr_maybe++] = v;
}

/* The answer leaves open whether the write happened: it may show after the next open. */
static void leave_open(struct sim *s, struct client *c)
{
	struct key *k = c->key;
	struct version v = c->to;

	for (uint32_t i = 0; c->op.kind == OKV_OP_CLEAR && i < s->nr_keys; i++)
		if (is_cleared(s, c, &s->keys[i]))
			add_maybe(s, &s->keys[i], (struct version){ .exists = false });
	/* What could not be read was not written. */
	if (c->op.kind == OKV_OP_CLEAR || !is_write(&c->op) || c->op.io.result ||
	    c->op.value_io.result || writes_nothing(&c->op))
		return;
	if (c->op.kind == OKV_OP_DELETE)
		v.exists = false;
	if (c->op.kind == OKV_OP_TOUCH) {
		v = k->nr_maybe ? k->maybe[k->nr_maybe - 1] : k->now;
		/* Nothing is written about what is not there. */
		if (model_is_gone(&v, c->submitted_ms))
			return;
		v.expire_ms = c->op.expire_ms;
	} else if (c->op.kind == OKV_OP_PUT || c->op.kind == OKV_OP_UPDATE) {
		v.expire_ms = c->op.expire_ms;
	}
	add_maybe(s, k, v);
}

bool model_may_walk(const struct key *k, uint32_t value_len, uint64_t expire_ms)
{
	bool may = k->now.exists && k->now.len == value_len && k->now.expire_ms == expire_ms;

	for (uint32_t i = 0; i < k->nr_uncertain; i++)
		may |= k->maybe[i].exists && k->maybe[i].len == value_len &&
		       k->maybe[i].expire_ms == expire_ms;
	return may;
}

void model_answer(struct sim *s, struct client *c)
{
	struct okv_op *op = &c->op;

	switch (op->status) {
	case OKV_OK:
		check_ok(s, c);
		break;
	case OKV_NOT_FOUND:
	case OKV_EXISTS:
		if (op->kind == OKV_OP_PUT && !may_have_found(s, c))
			model_fail(s, "a conditional put refused and should not");
		if (op->kind != OKV_OP_PUT)
			check_shown(s, c);
		break;
	case OKV_CORRUPT:
		s->nr_corrupt++;
		if (!model_lies(s))
			model_fail(s, "corrupt, and the device is honest");
		break;
	case OKV_FULL:
		s->nr_full++;
		break;
	case OKV_IO_ERROR:
		if (s->kind == HONEST && !s->disk.is_dead)
			model_fail(s, "an I/O error that the device did not make");
		leave_open(s, c);
		s->refuses |= is_write(op);
		break;
	case OKV_NO_MEMORY:
	case OKV_TOO_LARGE:
	case OKV_ABORTED:
		model_fail(s, "status %d", op->status);
	}
}
