// SPDX-License-Identifier: GPL-2.0
/*
 * tag_share.c - does a limit of the tag allocator count per word? The manual is in tag_share.h
 */
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/sbitmap.h>

#include "blk/tag_share.h"

enum {
	/* More than a word, whatever its size. */
	TAG_SHARE_PROBE_DEPTH	= 128,
};

bool tag_share_is_per_word;
EXPORT_SYMBOL_GPL(tag_share_is_per_word);
module_param_named(tag_limit_per_word, tag_share_is_per_word, bool, 0444);
MODULE_PARM_DESC(tag_limit_per_word,
		 "Read only: this kernel counts a limit on tags for each word of their bitmap");

/* Takes what a limited task would get of a bitmap with nothing in use, and counts. */
int tag_share_probe(void)
{
	unsigned int limit = tag_share(TAG_SHARE_PROBE_DEPTH), nr = 0;
	struct sbitmap_queue tags;
	int ret;

	ret = sbitmap_queue_init_node(&tags, TAG_SHARE_PROBE_DEPTH, -1, false, GFP_KERNEL,
				      NUMA_NO_NODE);
	if (ret)
		return ret;
	sbitmap_queue_min_shallow_depth(&tags, limit);
	while (sbitmap_queue_get_shallow(&tags, limit) >= 0)
		nr++;
	sbitmap_queue_free(&tags);
	tag_share_is_per_word = nr > limit;
	return 0;
}
