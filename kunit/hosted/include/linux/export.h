/* SPDX-License-Identifier: GPL-2.0 */
/* linux/export.h - nothing to export, for the user-space build of pure code */
#ifndef HOSTED_LINUX_EXPORT_H
#define HOSTED_LINUX_EXPORT_H
#define EXPORT_SYMBOL_GPL(name)
#endif
