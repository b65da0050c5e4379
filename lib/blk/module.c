// SPDX-License-Identifier: GPL-2.0
/*
 * module.c - mqfair_lib: what the schedulers and the KUnit tests share
 *
 * Each file of lib/ and lib/blk/ is compiled once, into this module, and exports what its header
 * declares. modprobe loads the module with the first scheduler. It keeps settings per disk
 * (keep.h), and what the tag allocator of this kernel was found to do (tag_share.h).
 */
#include <linux/module.h>

#include "blk/keep.h"
#include "blk/tag_share.h"

static int __init mqfair_lib_init(void)
{
	return tag_share_probe();
}

static void __exit mqfair_lib_exit(void)
{
	keep_exit();
}

module_init(mqfair_lib_init);
module_exit(mqfair_lib_exit);

MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Structures and settings that the mqfair I/O schedulers share");
