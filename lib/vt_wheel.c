// SPDX-License-Identifier: GPL-2.0
/*
 * vt_wheel.c - the queues that wait for virtual time; the manual is in vt_wheel.h
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "topology.h"
#include "vt_wheel.h"

/*
 * Read and written as one: a mixture of two geometries would name a bucket that is never
 * emptied.
 */
static_assert(sizeof(struct vt_wheel_geometry) == sizeof(u32));

static struct vt_wheel_geometry vt_wheel_geometry(const struct vt_wheel *w)
{
	return READ_ONCE(w->geometry);
}

static unsigned int vt_wheel_nr_buckets(struct vt_wheel_geometry g)
{
	return 1U << g.buckets_shift;
}

/* The bucket of an interval of virtual time, which is numbered since time began. */
static unsigned long *vt_wheel_bucket(const struct vt_wheel *w, struct vt_wheel_geometry g,
				      u64 interval)
{
	return &w->bits[(interval & (vt_wheel_nr_buckets(g) - 1)) * w->nr_words];
}

/* From the interval of @from to that of @to, in intervals; both may have wrapped. */
static s64 vt_wheel_distance(struct vt_wheel_geometry g, u64 from, u64 to)
{
	u64 mask = ~0ULL << g.width_shift;

	return (s64)((to & mask) - (from & mask)) >> g.width_shift;
}

int vt_wheel_init(struct vt_wheel *w, unsigned int nr_leaves, struct vt_wheel_geometry geometry,
		  const struct vt_wheel_ops *ops, void *context, gfp_t gfp)
{
	*w = (struct vt_wheel) {
		.ops		= ops,
		.context	= context,
		.nr_leaves	= nr_leaves,
		.nr_words	= BITS_TO_LONGS(nr_leaves),
		.geometry	= geometry,
	};
	w->bits = kvcalloc(VT_WHEEL_BUCKETS_MAX * w->nr_words, sizeof(*w->bits), gfp);
	return w->bits ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(vt_wheel_init);

void vt_wheel_destroy(struct vt_wheel *w)
{
	kvfree(w->bits);
}
EXPORT_SYMBOL_GPL(vt_wheel_destroy);

/*
 * A bit is counted before it is set, and until after it is cleared: an advancer that reads no count
 * misses no bit.
 */
static void vt_wheel_set(struct vt_wheel *w, unsigned long *bucket, unsigned int leaf)
{
	atomic_inc(&w->nr_bits);
	/* Pairs with test_and_clear_bit() in vt_wheel_clear(): each CPU counts its own change. */
	if (test_and_set_bit(leaf, bucket))
		atomic_dec(&w->nr_bits);
}

static void vt_wheel_clear(struct vt_wheel *w, unsigned long *bucket, unsigned int leaf)
{
	/* Pairs with test_and_set_bit() in vt_wheel_set(). */
	if (test_and_clear_bit(leaf, bucket))
		atomic_dec(&w->nr_bits);
}

void vt_wheel_park(struct vt_wheel *w, unsigned int leaf, u64 wake_vt, const u64 *now_vt)
{
	for (;;) {
		struct vt_wheel_geometry g = vt_wheel_geometry(w), again;
		u64 vt = READ_ONCE(*now_vt), interval = vt >> g.width_shift;
		s64 ahead = clamp_t(s64, vt_wheel_distance(g, vt, wake_vt), 0,
				    vt_wheel_nr_buckets(g) - 1);
		unsigned long *bucket = vt_wheel_bucket(w, g, interval + ahead);

		/* The note of the wait before the bit. Pairs with smp_rmb() in vt_wheel_empty(). */
		smp_mb__before_atomic();
		vt_wheel_set(w, bucket, leaf);
		/* Bit before time and geometry. Pairs as vt_wheel_park() and _reshape() say. */
		smp_mb__after_atomic();
		again = vt_wheel_geometry(w);
		if (again.width_shift == g.width_shift && again.buckets_shift == g.buckets_shift &&
		    vt_wheel_distance(g, vt, READ_ONCE(*now_vt)) <= ahead)
			return;
		vt_wheel_clear(w, bucket, leaf);
	}
}
EXPORT_SYMBOL_GPL(vt_wheel_park);

/* Wakes from a bucket: all, or those whose time has come. */
static void vt_wheel_empty(struct vt_wheel *w, unsigned long *bucket, bool all)
{
	unsigned int leaf;

	for (leaf = 0; (leaf = topology_next(bucket, w->nr_leaves, leaf)) < w->nr_leaves; leaf++) {
		/* Bit before the note. Pairs with smp_mb__before_atomic() in vt_wheel_park(). */
		smp_rmb();
		if (!all && !w->ops->is_due(w->context, leaf))
			continue;
		vt_wheel_clear(w, bucket, leaf);
		/* Bit before the look at the waiter, which sets it after its own note. */
		smp_mb__after_atomic();
		w->ops->wake(w->context, leaf);
	}
}

void vt_wheel_turn(struct vt_wheel *w, u64 old_vt, u64 new_vt)
{
	struct vt_wheel_geometry g = vt_wheel_geometry(w);
	u64 interval = old_vt >> g.width_shift;
	s64 n = min_t(s64, vt_wheel_distance(g, old_vt, new_vt), vt_wheel_nr_buckets(g)), i;

	if (!atomic_read(&w->nr_bits))
		return;
	for (i = 0; i < n; i++)
		vt_wheel_empty(w, vt_wheel_bucket(w, g, interval + i), true);
	vt_wheel_empty(w, vt_wheel_bucket(w, g, new_vt >> g.width_shift), false);
}
EXPORT_SYMBOL_GPL(vt_wheel_turn);

void vt_wheel_reshape(struct vt_wheel *w, struct vt_wheel_geometry geometry)
{
	WRITE_ONCE(w->geometry, geometry);
	/* Geometry before the caller's look at the waiters. Pairs with vt_wheel_park(). */
	smp_mb();
}
EXPORT_SYMBOL_GPL(vt_wheel_reshape);

void vt_wheel_show(const struct vt_wheel *w, const struct topology *t, u64 now_vt,
		   struct seq_file *m)
{
	struct vt_wheel_geometry g = vt_wheel_geometry(w);
	unsigned int i, leaf;

	seq_printf(m, "width %llu buckets %u\n", 1ULL << g.width_shift, vt_wheel_nr_buckets(g));
	for (i = 0; i < vt_wheel_nr_buckets(g); i++) {
		unsigned long *bucket = vt_wheel_bucket(w, g, (now_vt >> g.width_shift) + i);

		leaf = topology_next(bucket, w->nr_leaves, 0);
		if (leaf == w->nr_leaves)
			continue;
		seq_printf(m, "+%u", i);
		for (; leaf < w->nr_leaves; leaf = topology_next(bucket, w->nr_leaves, leaf + 1))
			seq_printf(m, " %u", t->queue_of[leaf]);
		seq_putc(m, '\n');
	}
}
EXPORT_SYMBOL_GPL(vt_wheel_show);
