// SPDX-License-Identifier: GPL-2.0
/*
 * module.c - mqfair_lib: the structures that mq-mqfq, mq-octofas and the KUnit tests share
 *
 * Each file of lib/ is compiled once, into this module, and exports what its header declares.
 * modprobe loads the module with the first scheduler that needs it. It has no state of its own.
 */
#include <linux/module.h>

MODULE_AUTHOR("The mqfair authors");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Structures that the mqfair I/O schedulers share");
