/* SPDX-License-Identifier: GPL-2.0 */
/*
 * resp.h - the Redis serialization protocol: commands in, replies out, no sockets
 *
 * The parser takes the pieces that arrive and gives one command at a time. How the bytes were cut
 * makes no difference to what it gives (fuzz_resp.c tests that). It copies each argument once, into
 * memory of the command, which the caller then takes over. It never holds more than its limits
 * allow: a length that is too large is refused when its header is read, before anything is
 * allocated for it.
 *
 * Replies are built in a chain of chunks. A long value is sent from where the device has put it:
 * there is room in front of it for its header. The same calls write RESP2 or RESP3, as
 * resp_out.resp3 says.
 */
#ifndef OKV_RESP_H
#define OKV_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RESP_MAX_INLINE_BYTES	= 64 << 10,
	RESP_LINE_BYTES		= 32,		/* a header line: a sign, 20 digits, CR */
	RESP_HEADROOM_BYTES	= 32,		/* in front of a value, for "$length\r\n" */
};

struct resp_limits {
	uint32_t max_bulk_bytes;
	uint32_t max_args;
	uint32_t max_command_bytes;	/* all arguments together */
};

struct resp_arg {
	uint32_t offset;
	uint32_t len;
};

/* Argument i is args[i].len bytes at bytes + args[i].offset, and a 0 after them. */
struct resp_command {
	char *bytes;
	struct resp_arg *args;
	uint32_t nr_bytes;
	uint32_t cap_bytes;
	uint32_t nr_args;
	uint32_t cap_args;
};

enum resp_verdict {
	RESP_MORE,		/* all was consumed, the command is not complete */
	RESP_COMMAND,		/* parser.command is complete: take it with resp_take() */
	RESP_BAD,		/* parser.error says why; nothing more can be read */
};

enum resp_state { RESP_START, RESP_COUNT, RESP_INLINE, RESP_LENGTH, RESP_BULK, RESP_BULK_END };

struct resp_parser {
	const struct resp_limits *limits;
	struct resp_command command;
	enum resp_state state;
	uint32_t nr_wanted;		/* arguments still to come */
	uint32_t nr_left;		/* bytes still to come of this argument, or of its CRLF */
	uint32_t line_len;
	char line[RESP_LINE_BYTES];
	char error[64];
};

void resp_init(struct resp_parser *p, const struct resp_limits *limits);
void resp_destroy(struct resp_parser *p);

/*
 * Feed @len bytes; returns how many were consumed. On RESP_COMMAND, bytes that are left over belong
 * to the next command.
 */
size_t resp_feed(struct resp_parser *p, const char *data, size_t len, enum resp_verdict *verdict);

/* True between commands: nothing of a next one has been read. */
bool resp_at_rest(const struct resp_parser *p);

/* Bytes that the parser holds in memory. */
size_t resp_held_bytes(const struct resp_parser *p);

/* The caller owns what it takes, and frees it. */
void resp_take(struct resp_parser *p, struct resp_command *command);
void resp_command_free(struct resp_command *command);

static inline const char *resp_arg(const struct resp_command *c, uint32_t i)
{
	return c->bytes + c->args[i].offset;
}

static inline uint32_t resp_arg_len(const struct resp_command *c, uint32_t i)
{
	return c->args[i].len;
}

/* True if argument @i is @word, whatever the case. */
bool resp_arg_is(const struct resp_command *c, uint32_t i, const char *word);

/* A decimal integer and nothing else, without overflow. */
bool resp_parse_int(const char *text, size_t len, int64_t *value);

/* ---- replies ---- */

/* Bytes data[start..end) are to be sent; @data has @cap, and is @own or lies in @taken. */
struct resp_chunk {
	struct resp_chunk *next;
	uint32_t start;
	uint32_t end;
	uint32_t cap;
	char *data;
	void *taken;
	char own[];
};

struct resp_out {
	struct resp_chunk *head;
	struct resp_chunk *tail;
	size_t nr_bytes;
	bool resp3;
};

struct resp_chunk *resp_chunk_alloc(uint32_t cap);

/*
 * A chunk with room for a header in front of @len bytes, and for the CRLF behind them; fill in
 * resp_chunk_value().
 */
struct resp_chunk *resp_value_alloc(uint32_t len);

/*
 * Such a chunk for a value that is there already: @len bytes at @value in @memory, which the chunk
 * takes over. RESP_HEADROOM_BYTES in front of the value and two behind it are free.
 */
struct resp_chunk *resp_value_take(void *memory, char *value, uint32_t len);
void resp_chunk_free(struct resp_chunk *chunk);

static inline char *resp_chunk_value(struct resp_chunk *chunk)
{
	return chunk->data + chunk->start;
}

static inline uint32_t resp_chunk_len(const struct resp_chunk *chunk)
{
	return chunk->end - chunk->start;
}

void resp_out_free(struct resp_out *out);
void resp_out_consume(struct resp_out *out, size_t nr_bytes);		/* they were sent */
/* Moves all of @from behind @to. */
void resp_out_splice(struct resp_out *to, struct resp_out *from);

void resp_raw(struct resp_out *out, const void *data, size_t len);
void resp_simple(struct resp_out *out, const char *text);
__attribute__((format(printf, 2, 3)))
void resp_error(struct resp_out *out, const char *format, ...);
void resp_int(struct resp_out *out, int64_t value);
void resp_bulk(struct resp_out *out, const void *data, size_t len);
void resp_string(struct resp_out *out, const char *text);
/* Takes over a chunk of resp_value_alloc() or resp_value_take(). */
void resp_value(struct resp_out *out, struct resp_chunk *value);
/* Text for people: RESP3 marks it as text. */
void resp_text(struct resp_out *out, const char *text, size_t len);
void resp_null(struct resp_out *out);
void resp_array(struct resp_out *out, size_t nr);
/* A map of @nr pairs; in RESP2 an array of twice as many. */
void resp_map(struct resp_out *out, size_t nr);

#endif
