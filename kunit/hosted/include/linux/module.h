/* SPDX-License-Identifier: GPL-2.0 */
/* linux/module.h - what a suite says about its module, for the user-space build: kunit/test.h has it */
#ifndef HOSTED_LINUX_MODULE_H
#define HOSTED_LINUX_MODULE_H
#endif
