/* SPDX-License-Identifier: GPL-2.0 */
/* linux/minmax.h - minimum and maximum, for the user-space build of pure code */
#ifndef HOSTED_LINUX_MINMAX_H
#define HOSTED_LINUX_MINMAX_H

#define hosted_pick(a, b, op)				\
({							\
	__typeof__(a) first = (a);			\
	__typeof__(b) second = (b);			\
							\
	first op second ? first : second;		\
})

#define min(a, b)		hosted_pick(a, b, <)
#define max(a, b)		hosted_pick(a, b, >)
#define min_t(type, a, b)	hosted_pick((type)(a), (type)(b), <)
#define max_t(type, a, b)	hosted_pick((type)(a), (type)(b), >)
#define clamp(v, lo, hi)	min(max(v, lo), hi)
#define clamp_t(type, v, lo, hi) min_t(type, max_t(type, v, lo), hi)

#endif
