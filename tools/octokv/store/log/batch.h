/* SPDX-License-Identifier: GPL-2.0 */
/*
 * batch.h - a batch of the log, as it lies on the device
 */
#ifndef OKV_BATCH_H
#define OKV_BATCH_H

#include "../partition.h"

/*
 * The best alignment of the apart value of @op: the largest power of two that divides its size, of
 * a page of the flash at most. 0: the value is not apart.
 */
uint32_t okv_batch_align_of(const struct okv_partition *p, const struct okv_op *op);

/*
 * Make the header, the heads and the apart values of a batch in @b->buf, the values from the block
 * behind the heads on. All batches below @durable have been acknowledged.
 */
void okv_batch_write(struct okv_batch *b, uint64_t durable);

#endif
