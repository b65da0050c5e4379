/* SPDX-License-Identifier: GPL-2.0 */
/* linux/compiler.h - marked accesses and barriers, for the user-space build of pure code */
#ifndef HOSTED_LINUX_COMPILER_H
#define HOSTED_LINUX_COMPILER_H

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), (value), __ATOMIC_RELAXED)
#define smp_mb()		__atomic_thread_fence(__ATOMIC_SEQ_CST)

#ifndef likely
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#endif

#ifndef __maybe_unused
#define __maybe_unused	__attribute__((unused))
#endif

#endif
