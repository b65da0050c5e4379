/* SPDX-License-Identifier: GPL-2.0 */
/* linux/sort.h - for the user-space build of pure code */
#ifndef HOSTED_LINUX_SORT_H
#define HOSTED_LINUX_SORT_H

#include <stdlib.h>

/* The kernel's last argument exchanges two elements; NULL is all that is used here. */
#define sort(base, n, size, compare, swap)	((void)(swap), qsort(base, n, size, compare))

#endif
