// SPDX-License-Identifier: GPL-2.0
/*
 * urgent_kunit.c - which requests others wait for
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "../lib/blk/urgent.h"

struct urgent_param {
	const char *name;
	blk_opf_t opf;
	unsigned int task_flags;
	bool expected;
};

static const struct urgent_param urgent_params[] = {
	{ "a read", REQ_OP_READ, 0, false },
	{ "a direct write", REQ_OP_WRITE | REQ_SYNC | REQ_IDLE, 0, false },
	{ "a write with FUA", REQ_OP_WRITE | REQ_SYNC | REQ_IDLE | REQ_FUA, 0, false },
	{ "fsync of a task writes data", REQ_OP_WRITE | REQ_SYNC, 0, false },
	{ "a read of metadata", REQ_OP_READ | REQ_META, 0, true },
	{ "a prioritised read", REQ_OP_READ | REQ_PRIO, 0, true },
	{ "a log's block", REQ_OP_WRITE | REQ_META | REQ_SYNC | REQ_IDLE, PF_KTHREAD, true },
	{ "read ahead of metadata", REQ_OP_READ | REQ_META | REQ_RAHEAD, 0, true },
	{ "swap out", REQ_OP_WRITE | REQ_SWAP, 0, true },
	{ "swap in", REQ_OP_READ | REQ_SWAP, 0, true },
	{ "a read in reclaim", REQ_OP_READ, PF_MEMALLOC, true },
	{ "a write in reclaim", REQ_OP_WRITE, PF_MEMALLOC, true },
	{ "kswapd writes", REQ_OP_WRITE, PF_MEMALLOC | PF_KSWAPD | PF_KTHREAD, true },
	{ "a commit writes ordered data", REQ_OP_WRITE | REQ_SYNC, PF_KTHREAD, true },
	{ "a thread passes a direct write on", REQ_OP_WRITE | REQ_SYNC | REQ_IDLE, PF_KTHREAD,
	  false },
	{ "a thread reads", REQ_OP_READ | REQ_SYNC, PF_KTHREAD, false },
	{ "a worker writes back", REQ_OP_WRITE, PF_KTHREAD | PF_WQ_WORKER, false },
	{ "a worker writes back for sync", REQ_OP_WRITE | REQ_SYNC, PF_KTHREAD | PF_WQ_WORKER,
	  false },
	{ "a worker reads metadata", REQ_OP_READ | REQ_META, PF_KTHREAD | PF_WQ_WORKER, true },
	{ "a discard", REQ_OP_DISCARD | REQ_META, 0, false },
	{ "a discard in reclaim", REQ_OP_DISCARD, PF_MEMALLOC, false },
	{ "a thread discards", REQ_OP_DISCARD | REQ_SYNC, PF_KTHREAD, false },
	{ "zeroing", REQ_OP_WRITE_ZEROES | REQ_SYNC | REQ_PRIO, PF_KTHREAD, false },
	{ "a secure erase", REQ_OP_SECURE_ERASE | REQ_META, PF_MEMALLOC, false },
	{ "a flush", REQ_OP_FLUSH | REQ_SYNC, PF_KTHREAD, false },
};

KUNIT_ARRAY_PARAM_DESC(urgent, urgent_params, name);

static void urgent_test(struct kunit *test)
{
	const struct urgent_param *param = test->param_value;

	KUNIT_EXPECT_EQ(test, urgent_is(param->opf, param->task_flags), param->expected);
}

static struct kunit_case urgent_cases[] = {
	KUNIT_CASE_PARAM(urgent_test, urgent_gen_params),
	{}
};

static struct kunit_suite urgent_suite = {
	.name = "urgent",
	.test_cases = urgent_cases,
};

kunit_test_suite(urgent_suite);

MODULE_LICENSE("GPL");
