/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compress.h - values that take fewer blocks on the device than they have
 *
 * A put of 16 KiB takes two pages of the flash: one for its value, and one for its heads or its
 * share of a journal's. If the value is smaller, the heads have room in its page. So an operation
 * may have the values that it writes compressed (okv_op.compresses), by LZ4. A read gives such a
 * value as it was: only the record says that it is compressed.
 *
 * What is kept so. It has to save an eighth, or the processor's time on both ways is spent for
 * nothing. A value has at least OKV_APART_BYTES_MIN: shorter ones share blocks as they are. It has
 * at most OKV_PLAIN_BYTES_MAX, as all others of the thread wait meanwhile.
 *
 * Collection moves what lies on the device, and does not look into it. Checksums are of that, too.
 */
#ifndef OKV_COMPRESS_H
#define OKV_COMPRESS_H

#include "../format.h"

/* op->written_len and op->record_bytes become what @op writes of its value, and its record. */
void okv_op_measure(struct okv_op *op);

/* The same, of the value in op->compressed, if to compress it pays. Before it goes to the log. */
void okv_op_compress(struct okv_op *op);

/*
 * The value of a record that is compressed: memory with OKV_ROOM_BYTES around the value. NULL: it
 * is not what LZ4 has written.
 */
void *okv_plain(const void *from, uint32_t from_len, uint32_t plain_len);

#endif
