/* SPDX-License-Identifier: GPL-2.0 */
/* test.h - shared by the server's unit tests: a failure ends the program and names its place */
#ifndef SERVER_TEST_H
#define SERVER_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/resp.h"

#define EXPECT(condition)								\
	do {										\
		if (!(condition)) {							\
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);	\
			exit(1);							\
		}									\
	} while (0)

static inline void expect_text(const char *file, int line, const char *wanted, const char *got,
			       size_t len)
{
	if (len == strlen(wanted) && !memcmp(wanted, got, len))
		return;
	printf("%s:%d: wanted \"%s\", got \"%.*s\"\n", file, line, wanted, (int)len, got);
	exit(1);
}

/* The text in @out, as one allocated string. */
static inline char *out_text(const struct resp_out *out)
{
	char *text = calloc(1, out->nr_bytes + 1);
	size_t len = 0;

	for (const struct resp_chunk *chunk = out->head; chunk; chunk = chunk->next) {
		memcpy(text + len, chunk->data + chunk->start, resp_chunk_len(chunk));
		len += resp_chunk_len(chunk);
	}
	EXPECT(len == out->nr_bytes);
	return text;
}

#endif
