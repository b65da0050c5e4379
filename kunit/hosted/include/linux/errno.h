/* SPDX-License-Identifier: GPL-2.0 */
/* linux/errno.h - for the user-space build of pure code */
#ifndef HOSTED_LINUX_ERRNO_H
#define HOSTED_LINUX_ERRNO_H
#include <asm/errno.h>
#endif
