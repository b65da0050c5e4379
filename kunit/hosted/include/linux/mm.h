/* SPDX-License-Identifier: GPL-2.0 */
/* linux/mm.h - memory that may be large, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MM_H
#define HOSTED_LINUX_MM_H

#include <linux/slab.h>

#endif
