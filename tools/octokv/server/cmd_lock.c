// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_lock.c - EVALSHA for the three scripts of redis-py's Lock, and for no other
 *
 * octokvd has no scripts. redis-py's Lock needs three, which it names by their SHA-1: release the
 * lock, or change its expiry, if its value is still one's own token. Here they are operations of
 * the store, as DELIFEQ is. Any other digest is answered NOSCRIPT.
 *
 *	EVALSHA DIGEST 1 KEY TOKEN		release
 *	EVALSHA DIGEST 1 KEY TOKEN MS REPLACE	extend: MS more, or from now if REPLACE is 1
 *	EVALSHA DIGEST 1 KEY TOKEN MS		reacquire: MS from now
 */
#include "command.h"

enum { ARG_DIGEST = 1, ARG_NR_KEYS, ARG_KEY, ARG_TOKEN, ARG_MS, ARG_REPLACE };

enum { ADDS_MS = 1 };	/* kv.how: to the expiry that there is */

static bool is_owner(const struct okv_op *op)
{
	const struct kv_op *kv = op->owner;

	return op->out && op->out_len == req_len(kv->request, ARG_TOKEN) &&
	       !memcmp(op->out, req_arg(kv->request, ARG_TOKEN), op->out_len);
}

static enum okv_status release(struct okv_op *op)
{
	return is_owner(op) ? OKV_OK : OKV_ABORTED;
}

static enum okv_status set_expiry(struct okv_op *op)
{
	const struct kv_op *kv = op->owner;

	if (!is_owner(op) || (kv->how & ADDS_MS && !op->expire_ms))
		return OKV_ABORTED;
	op->expire_ms = kv->how & ADDS_MS ? op->expire_ms + kv->number : (uint64_t)kv->number;
	return OKV_OK;
}

static void start_release(struct request *r)
{
	request_ops(r, 1);
	request_key(r, 0, ARG_KEY, OKV_OP_DELETE)->op.flags = OKV_WANT_OLD;
	r->ops->op.update = release;
	request_submit(r);
}

static void start_expiry(struct request *r)
{
	bool adds = req_nr(r) > ARG_REPLACE && !req_is(r, ARG_REPLACE, "1");
	int64_t ms;

	if (!req_int(r, ARG_MS, &ms) || ms <= 0 || ms > INT32_MAX) {
		request_fail(r, "ERR invalid expire time in 'evalsha' command");
		return;
	}
	request_ops(r, 1);
	request_key(r, 0, ARG_KEY, OKV_OP_TOUCH)->op.update = set_expiry;
	r->ops->op.flags = OKV_WANT_OLD;
	r->ops->how = adds ? ADDS_MS : 0;
	r->ops->number = adds ? ms : (int64_t)r->conn->worker->now_ms + ms;
	request_submit(r);
}

static const struct {
	const char *digest;
	uint32_t nr_args;
	void (*start)(struct request *r);
} scripts[] = {
	{ "c3f8721cbb97f72bc19e972846bd7aaf91901658", ARG_TOKEN + 1, start_release },
	{ "a4e8783852e6b949f9ef3a97212805108459a890", ARG_REPLACE + 1, start_expiry },
	{ "1cac51482acf5858da00f6d685d68f886cd6b6b2", ARG_MS + 1, start_expiry },
};

static void start_evalsha(struct request *r)
{
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (!req_is(r, ARG_DIGEST, scripts[i].digest))
			continue;
		if (req_nr(r) != scripts[i].nr_args || !req_is(r, ARG_NR_KEYS, "1"))
			break;
		scripts[i].start(r);
		return;
	}
	request_fail(r, "NOSCRIPT there are no scripts, except for those of redis-py's Lock");
}

static void finish_evalsha(struct request *r)
{
	if (!request_status(r, r->ops))
		resp_int(&r->out, r->ops->op.status == OKV_OK);
}

const struct command lock_commands[] = {
	{ "evalsha", -3, CMD_WRITE, ARG_KEY, ARG_KEY, 1, start_evalsha, finish_evalsha },
	{ NULL },
};
