/* SPDX-License-Identifier: GPL-2.0 */
/* linux/module.h - what a file says about its module, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MODULE_H
#define HOSTED_LINUX_MODULE_H
#define MODULE_LICENSE(text)		_Static_assert(1, text)
#define MODULE_DESCRIPTION(text)	_Static_assert(1, text)
#define MODULE_AUTHOR(text)		_Static_assert(1, text)
#endif
