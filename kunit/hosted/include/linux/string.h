/* SPDX-License-Identifier: GPL-2.0 */
/* linux/string.h - for the user-space build of pure code */
#ifndef HOSTED_LINUX_STRING_H
#define HOSTED_LINUX_STRING_H

#include <stdio.h>
#include <string.h>

#define strscpy(to, from, size)	((void)snprintf(to, size, "%s", from))

#endif
