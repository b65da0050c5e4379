/* SPDX-License-Identifier: GPL-2.0 */
/* linux/types.h - the kernel's integer types, for the user-space build of pure code */
#ifndef HOSTED_LINUX_TYPES_H
#define HOSTED_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
/* long long as in the kernel, so that %llu fits it on every host. */
typedef unsigned long long u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef long long s64;
typedef u64 sector_t;
typedef unsigned int gfp_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

#define U32_MAX	(~(u32)0)
#define U64_MAX	(~(u64)0)
#define S64_MAX	((s64)(U64_MAX >> 1))

struct list_head {
	struct list_head *next, *prev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

/* Of something that waits for a grace period: see rcupdate.h. */
struct rcu_head {
	struct rcu_head *next;
	void *object;
};

#endif
