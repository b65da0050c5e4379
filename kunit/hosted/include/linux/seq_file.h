/* SPDX-License-Identifier: GPL-2.0 */
/* linux/seq_file.h - text into a buffer, for the user-space build of pure code */
#ifndef HOSTED_LINUX_SEQ_FILE_H
#define HOSTED_LINUX_SEQ_FILE_H

#include <stdarg.h>
#include <stdio.h>

#include <linux/types.h>

/* @count reaches @size when the text does not fit. */
struct seq_file {
	char *buf;
	size_t size;
	size_t count;
	void *private;
};

__attribute__((format(printf, 2, 3)))
static inline void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(m->buf + m->count, m->size - m->count, fmt, args);
	va_end(args);
	m->count = n >= 0 && (size_t)n < m->size - m->count ? m->count + n : m->size;
}

static inline void seq_putc(struct seq_file *m, char c)
{
	seq_printf(m, "%c", c);
}

static inline void seq_puts(struct seq_file *m, const char *text)
{
	seq_printf(m, "%s", text);
}

#endif
