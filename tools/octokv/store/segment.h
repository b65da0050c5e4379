/* SPDX-License-Identifier: GPL-2.0 */
/*
 * segment.h - the space of a partition: segments that are free, kept back, taken and given back
 *
 * Some segments are kept back: deletes, moves of live records and checkpoints may use what writes
 * of users may not. On a sparse device a segment counts as free only once the file system has
 * allocated it. So when the file system is full, nothing fails: puts find no free segment and are
 * refused, and what makes room goes on in the segments that were kept back. When all holes have
 * failed, the partition tries one a second again.
 */
#ifndef OKV_SEGMENT_H
#define OKV_SEGMENT_H

#include "partition.h"

/*
 * Begin a new life of a free segment; p->nr_segments if there is none. The log takes one that both
 * roots name. A checkpoint leaves these to the log if it can.
 */
uint32_t okv_segment_take(struct okv_partition *p, enum okv_segment_state state);

/* Do both roots name the segment? */
bool okv_segment_is_named(const struct okv_segment *s);

/* Does the newest root name it, which the next one will leave? */
bool okv_segment_stays_named(const struct okv_partition *p, const struct okv_segment *s);

/* Does the log need it, or may the tail of a root that is being written have it? */
bool okv_segment_holds_log(const struct okv_segment *s);

/* Count the free segments and the holes again. */
void okv_segments_count(struct okv_partition *p);

/* Free the segments of a checkpoint. */
void okv_segments_release(struct okv_partition *p, const uint32_t *segments, uint32_t nr);

/* Free the drained segments that neither root needs any more, or trim them first. */
void okv_segments_reclaim(struct okv_partition *p);

/*
 * Trim the next segment that is to be, one at a time. Without free segments to spare, or in a
 * partition that comes to rest, those that wait become free as they are.
 */
void okv_segments_trim(struct okv_partition *p);

/* Make a hole a free segment, if one is needed. @log_waits: the log has work. */
void okv_segment_allocate(struct okv_partition *p, bool log_waits);

/* Segments that the next checkpoint may need: an upper bound, with room for the index to grow. */
uint32_t okv_segments_of_checkpoint(const struct okv_partition *p);

/* Segments that no write of a user may take: for a checkpoint, for moves, and for deletes. */
uint32_t okv_segments_kept(const struct okv_partition *p);

/* Segments that are free, or will be when they are allocated. */
uint32_t okv_segments_usable(const struct okv_partition *p);

/* So few usable segments are left that garbage collection has to begin. */
bool okv_segments_are_low(const struct okv_partition *p);

/* How many bytes may be live, so that moving live records gains room. */
uint64_t okv_segments_capacity(const struct okv_partition *p);

/* Read a whole segment into @buf, with @nr_max requests at a time, then call @done. */
void okv_segment_load(struct okv_partition *p, struct okv_load *load, uint32_t segment, void *buf,
		      uint32_t nr_max, void (*done)(struct okv_partition *p));

#endif
