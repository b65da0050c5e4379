/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a program in the guest talks to the plugin: an instruction that does nothing
 *
 * A marker is an eight-byte NOP whose displacement is a number of ours. Where no plugin listens
 * it really does nothing, so a program may always carry it. There are three:
 *
 *	MARK_ARM	the plugin begins to follow every access; it counts nothing yet.
 *			RDI has the address of a struct mark_window
 *	MARK_OPEN	the window opens: from here on transfers count
 *	MARK_CLOSE	the window closes, its figures are written, and the guest is as fast
 *			as before
 *
 * Between MARK_ARM and MARK_OPEN the load runs for a while: then the plugin knows where each line
 * lies when it begins to count.
 */
#ifndef COHERENCE_MARKER_H
#define COHERENCE_MARKER_H

#define MARK_ARM	0x4d510001
#define MARK_OPEN	0x4d510002
#define MARK_CLOSE	0x4d510003

#ifndef __ASSEMBLER__
#include <stdint.h>

enum {
	MARK_NAME	= 64,
	MARK_RANGES	= 8,
};

/* What a window is called, and the code whose callees are attributed to it: [start, end). */
struct mark_window {
	char name[MARK_NAME];
	uint64_t nr_ranges;
	uint64_t ranges[MARK_RANGES][2];
};

static inline void mark_arm(const struct mark_window *window)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long %c0"
			 :: "i"(MARK_ARM), "D"(window) : "memory");
}

static inline void mark_open(void)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long %c0" :: "i"(MARK_OPEN) : "memory");
}

static inline void mark_close(void)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long %c0" :: "i"(MARK_CLOSE) : "memory");
}

#endif /* __ASSEMBLER__ */
#endif
