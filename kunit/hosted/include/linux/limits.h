/* SPDX-License-Identifier: GPL-2.0 */
/* linux/limits.h - bounds of the integer types, for the user-space build of pure code */
#ifndef HOSTED_LINUX_LIMITS_H
#define HOSTED_LINUX_LIMITS_H

#include <limits.h>

#include <linux/types.h>

#ifndef U32_MAX
#define U16_MAX	((u16)~0U)
#define U32_MAX	((u32)~0U)
#endif

#endif
