// SPDX-License-Identifier: GPL-2.0
/*
 * resp.c - the parser and the writer that resp.h describes
 *
 * A command is either an array of bulk strings, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", or a line that a
 * person typed, "GET k\r\n", where quotes hold blanks together. The parser is a state machine over
 * pieces. RESP_START looks at the first byte. RESP_COUNT and RESP_LENGTH collect a header line.
 * RESP_BULK copies, RESP_BULK_END checks the CRLF. RESP_INLINE collects a typed line.
 *
 * Error texts are those that users of Redis know, because clients match on some of them.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "store/mem.h"
#include "resp.h"

enum { FIRST_BYTES = 64, FIRST_ARGS = 4, CHUNK_BYTES = 4096 };

/* ---- numbers ---- */

bool resp_parse_int(const char *text, size_t len, int64_t *value)
{
	bool negative = len && text[0] == '-';
	uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
	uint64_t sum = 0;
	size_t i = negative;

	if (i == len || (text[i] == '0' && len > 1))
		return false;
	for (; i < len; i++) {
		unsigned int digit = (unsigned char)text[i] - '0';

		if (digit > 9 || sum > (limit - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = negative ? (int64_t)(0 - sum) : (int64_t)sum;
	return true;
}

/* ---- the command that is being read ---- */

static void command_reserve(struct resp_command *c, uint64_t more)
{
	uint64_t wanted = c->nr_bytes + more;

	if (wanted <= c->cap_bytes)
		return;
	if (wanted < FIRST_BYTES)
		wanted = FIRST_BYTES;
	if (wanted < (uint64_t)c->cap_bytes * 3 / 2)
		wanted = (uint64_t)c->cap_bytes * 3 / 2;
	c->bytes = mem_grow(c->bytes, wanted);
	c->cap_bytes = wanted;
}

static void command_begin_arg(struct resp_command *c)
{
	if (c->nr_args == c->cap_args) {
		c->cap_args = c->cap_args ? 2 * c->cap_args : FIRST_ARGS;
		c->args = mem_grow(c->args, c->cap_args * sizeof(*c->args));
	}
	c->args[c->nr_args++] = (struct resp_arg){ .offset = c->nr_bytes };
}

static void command_append(struct resp_command *c, const char *data, uint32_t len)
{
	memcpy(c->bytes + c->nr_bytes, data, len);
	c->nr_bytes += len;
	c->args[c->nr_args - 1].len += len;
}

static void command_end_arg(struct resp_command *c)
{
	c->bytes[c->nr_bytes++] = 0;
}

void resp_command_free(struct resp_command *c)
{
	mem_free(c->bytes);
	mem_free(c->args);
	*c = (struct resp_command){ 0 };
}

bool resp_arg_is(const struct resp_command *c, uint32_t i, const char *word)
{
	return strlen(word) == resp_arg_len(c, i) &&
	       !strncasecmp(resp_arg(c, i), word, resp_arg_len(c, i));
}

/* ---- the parser ---- */

void resp_init(struct resp_parser *p, const struct resp_limits *limits)
{
	*p = (struct resp_parser){ .limits = limits };
}

void resp_destroy(struct resp_parser *p)
{
	resp_command_free(&p->command);
}

bool resp_at_rest(const struct resp_parser *p)
{
	return p->state == RESP_START;
}

size_t resp_held_bytes(const struct resp_parser *p)
{
	return p->command.cap_bytes + p->command.cap_args * sizeof(*p->command.args);
}

void resp_take(struct resp_parser *p, struct resp_command *command)
{
	*command = p->command;
	p->command = (struct resp_command){ 0 };
}

static enum resp_verdict bad(struct resp_parser *p, const char *why)
{
	snprintf(p->error, sizeof(p->error), "Protocol error: %s", why);
	return RESP_BAD;
}

static enum resp_verdict start_over(struct resp_parser *p)
{
	p->state = RESP_START;
	p->command.nr_bytes = 0;
	p->command.nr_args = 0;
	return RESP_MORE;
}

/* Collects a header line. Returns RESP_COMMAND when it is complete, without its CRLF. */
static enum resp_verdict feed_line(struct resp_parser *p, const char *data, size_t len,
				   size_t *used, const char *too_long)
{
	while (*used < len) {
		char c = data[(*used)++];

		if (c == '\n') {
			if (!p->line_len || p->line[p->line_len - 1] != '\r')
				return bad(p, "a line ends without CR");
			p->line_len--;
			return RESP_COMMAND;
		}
		if (p->line_len == sizeof(p->line))
			return bad(p, too_long);
		p->line[p->line_len++] = c;
	}
	return RESP_MORE;
}

static enum resp_verdict read_count(struct resp_parser *p)
{
	int64_t count;

	if (!resp_parse_int(p->line, p->line_len, &count) || count > p->limits->max_args)
		return bad(p, "invalid multibulk length");
	p->line_len = 0;
	if (count <= 0)
		return start_over(p);
	p->nr_wanted = count;
	p->state = RESP_LENGTH;
	return RESP_MORE;
}

static enum resp_verdict read_length(struct resp_parser *p)
{
	char why[] = "expected '$', got ' '";
	int64_t length;

	if (!p->line_len || p->line[0] != '$') {
		why[sizeof(why) - 3] =
			p->line_len && isprint((unsigned char)p->line[0]) ? p->line[0] : '?';
		return bad(p, why);
	}
	if (!resp_parse_int(p->line + 1, p->line_len - 1, &length) || length < 0 ||
	    length > p->limits->max_bulk_bytes)
		return bad(p, "invalid bulk length");
	if (p->command.nr_bytes + (uint64_t)length > p->limits->max_command_bytes)
		return bad(p, "the arguments are too long together");
	p->line_len = 0;
	p->nr_left = length;
	command_reserve(&p->command, (uint64_t)length + 1);
	command_begin_arg(&p->command);
	p->state = RESP_BULK;
	return RESP_MORE;
}

static void feed_bulk(struct resp_parser *p, const char *data, size_t len, size_t *used)
{
	size_t take = len - *used < p->nr_left ? len - *used : p->nr_left;

	command_append(&p->command, data + *used, take);
	*used += take;
	p->nr_left -= take;
	if (p->nr_left)
		return;
	command_end_arg(&p->command);
	p->nr_left = 2;
	p->state = RESP_BULK_END;
}

static enum resp_verdict feed_bulk_end(struct resp_parser *p, char c)
{
	if (c != "\n\r"[p->nr_left - 1])
		return bad(p, "a bulk string ends without CRLF");
	if (--p->nr_left)
		return RESP_MORE;
	if (--p->nr_wanted) {
		p->state = RESP_LENGTH;
		return RESP_MORE;
	}
	p->state = RESP_START;
	return RESP_COMMAND;
}

/* ---- typed lines ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the escape after a backslash inside double quotes, at text[*i], and leaves *i behind it. */
static char unescape(const char *text, uint32_t len, uint32_t *i)
{
	static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
	char c = text[(*i)++];
	const char *found = c ? strchr(from, c) : NULL;

	if (c == 'x' && *i + 1 < len && hex_digit(text[*i]) >= 0 && hex_digit(text[*i + 1]) >= 0) {
		c = hex_digit(text[*i]) * 16 + hex_digit(text[*i + 1]);
		*i += 2;
		return c;
	}
	return found ? to[found - from] : c;
}

/*
 * Reads one word of a line, in place: it never gets longer. False: a quote is not closed, or no
 * blank follows it.
 */
static bool split_word(char *text, uint32_t len, uint32_t *i, char *to, uint32_t *word_len)
{
	char quote = 0;
	uint32_t n = 0;

	while (*i < len) {
		char c = text[*i];

		if (!quote && isspace((unsigned char)c))
			break;
		(*i)++;
		if (!quote && (c == '"' || c == '\'')) {
			quote = c;
		} else if (quote && c == quote) {
			quote = 0;
			if (*i < len && !isspace((unsigned char)text[*i]))
				return false;
		} else if (quote == '"' && c == '\\' && *i < len) {
			to[n++] = unescape(text, len, i);
		} else if (quote == '\'' && c == '\\' && *i < len && text[*i] == '\'') {
			to[n++] = text[(*i)++];
		} else {
			to[n++] = c;
		}
	}
	*word_len = n;
	return !quote;
}

static enum resp_verdict read_inline(struct resp_parser *p)
{
	struct resp_command *c = &p->command;
	struct resp_command line = *c;
	uint32_t i = 0;

	*c = (struct resp_command){ .args = line.args, .cap_args = line.cap_args };
	command_reserve(c, line.nr_bytes + 1);
	while (true) {
		uint32_t len = 0;

		while (i < line.nr_bytes && isspace((unsigned char)line.bytes[i]))
			i++;
		if (i == line.nr_bytes)
			break;
		command_reserve(c, line.nr_bytes - i + 2);
		command_begin_arg(c);
		if (!split_word(line.bytes, line.nr_bytes, &i, c->bytes + c->nr_bytes, &len)) {
			mem_free(line.bytes);
			return bad(p, "unbalanced quotes in request");
		}
		c->args[c->nr_args - 1].len = len;
		c->nr_bytes += len;
		command_end_arg(c);
	}
	mem_free(line.bytes);
	p->state = RESP_START;
	return c->nr_args ? RESP_COMMAND : start_over(p);
}

static enum resp_verdict feed_inline(struct resp_parser *p, const char *data, size_t len,
				     size_t *used)
{
	const char *from = data + *used;
	const char *end = memchr(from, '\n', len - *used);
	size_t take = end ? (size_t)(end - from) : len - *used;

	if (p->command.nr_bytes + take > RESP_MAX_INLINE_BYTES)
		return bad(p, "too big inline request");
	command_reserve(&p->command, take + 1);
	memcpy(p->command.bytes + p->command.nr_bytes, from, take);
	p->command.nr_bytes += take;
	*used += take;
	if (!end)
		return RESP_MORE;
	(*used)++;
	return read_inline(p);
}

/* One step: consumes at least a byte, or changes the state. */
static enum resp_verdict feed_step(struct resp_parser *p, const char *data, size_t len,
				   size_t *used)
{
	enum resp_verdict verdict;

	switch (p->state) {
	case RESP_START:
		start_over(p);
		p->line_len = 0;
		p->state = data[*used] == '*' ? RESP_COUNT : RESP_INLINE;
		*used += p->state == RESP_COUNT;
		return RESP_MORE;
	case RESP_COUNT:
		verdict = feed_line(p, data, len, used, "too big mbulk count string");
		return verdict == RESP_COMMAND ? read_count(p) : verdict;
	case RESP_LENGTH:
		verdict = feed_line(p, data, len, used, "too big bulk count string");
		return verdict == RESP_COMMAND ? read_length(p) : verdict;
	case RESP_BULK:
		feed_bulk(p, data, len, used);
		return RESP_MORE;
	case RESP_BULK_END:
		return feed_bulk_end(p, data[(*used)++]);
	case RESP_INLINE:
		break;
	}
	return feed_inline(p, data, len, used);
}

size_t resp_feed(struct resp_parser *p, const char *data, size_t len, enum resp_verdict *verdict)
{
	size_t used = 0;

	*verdict = p->error[0] ? RESP_BAD : RESP_MORE;
	while (*verdict == RESP_MORE && (used < len || (p->state == RESP_BULK && !p->nr_left)))
		*verdict = feed_step(p, data, len, &used);
	return used;
}

/* ---- the writer ---- */

struct resp_chunk *resp_chunk_alloc(uint32_t cap)
{
	struct resp_chunk *chunk = mem_alloc(sizeof(*chunk) + cap);

	*chunk = (struct resp_chunk){ .cap = cap, .data = chunk->own };
	return chunk;
}

struct resp_chunk *resp_value_alloc(uint32_t len)
{
	struct resp_chunk *chunk = resp_chunk_alloc(RESP_HEADROOM_BYTES + len + 2);

	chunk->start = RESP_HEADROOM_BYTES;
	chunk->end = RESP_HEADROOM_BYTES + len;
	return chunk;
}

struct resp_chunk *resp_value_take(void *memory, char *value, uint32_t len)
{
	struct resp_chunk *chunk = mem_alloc(sizeof(*chunk));

	*chunk = (struct resp_chunk){
		.data = value - RESP_HEADROOM_BYTES, .taken = memory,
		.start = RESP_HEADROOM_BYTES, .end = RESP_HEADROOM_BYTES + len,
		.cap = RESP_HEADROOM_BYTES + len + 2,
	};
	return chunk;
}

void resp_chunk_free(struct resp_chunk *chunk)
{
	if (!chunk)
		return;
	mem_free(chunk->taken);
	mem_free(chunk);
}

static void out_link(struct resp_out *out, struct resp_chunk *chunk)
{
	chunk->next = NULL;
	if (out->tail)
		out->tail->next = chunk;
	else
		out->head = chunk;
	out->tail = chunk;
	out->nr_bytes += resp_chunk_len(chunk);
}

void resp_out_free(struct resp_out *out)
{
	while (out->head) {
		struct resp_chunk *next = out->head->next;

		resp_chunk_free(out->head);
		out->head = next;
	}
	out->tail = NULL;
	out->nr_bytes = 0;
}

void resp_out_consume(struct resp_out *out, size_t nr_bytes)
{
	out->nr_bytes -= nr_bytes;
	while (nr_bytes || (out->head && !resp_chunk_len(out->head))) {
		struct resp_chunk *chunk = out->head;
		uint32_t take = nr_bytes < resp_chunk_len(chunk) ? nr_bytes : resp_chunk_len(chunk);

		chunk->start += take;
		nr_bytes -= take;
		if (resp_chunk_len(chunk))
			return;
		out->head = chunk->next;
		if (!out->head)
			out->tail = NULL;
		resp_chunk_free(chunk);
	}
}

void resp_out_splice(struct resp_out *to, struct resp_out *from)
{
	struct resp_chunk *only = from->head && !from->head->next ? from->head : NULL;

	if (!from->head)
		return;
	if (only && to->tail && to->tail->cap - to->tail->end >= resp_chunk_len(only)) {
		resp_raw(to, only->data + only->start, resp_chunk_len(only));
		resp_out_free(from);
		return;
	}
	if (to->tail)
		to->tail->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	to->nr_bytes += from->nr_bytes;
	from->head = from->tail = NULL;
	from->nr_bytes = 0;
}

void resp_raw(struct resp_out *out, const void *data, size_t len)
{
	struct resp_chunk *tail = out->tail;

	if (!tail || tail->cap - tail->end < len) {
		tail = resp_chunk_alloc(len > CHUNK_BYTES ? len : CHUNK_BYTES);
		out_link(out, tail);
	}
	memcpy(tail->data + tail->end, data, len);
	tail->end += len;
	out->nr_bytes += len;
}

static void header(struct resp_out *out, char kind, int64_t value)
{
	char line[RESP_HEADROOM_BYTES];

	resp_raw(out, line, snprintf(line, sizeof(line), "%c%lld\r\n", kind, (long long)value));
}

void resp_simple(struct resp_out *out, const char *text)
{
	resp_raw(out, "+", 1);
	resp_raw(out, text, strlen(text));
	resp_raw(out, "\r\n", 2);
}

/* The text may have bytes of the client in it: a reply is one line whatever they are. */
void resp_error(struct resp_out *out, const char *format, ...)
{
	char text[256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len >= (int)sizeof(text))
		len = sizeof(text) - 1;
	for (int i = 0; i < len; i++)
		if (text[i] == '\r' || text[i] == '\n')
			text[i] = ' ';
	resp_raw(out, "-", 1);
	resp_raw(out, text, len);
	resp_raw(out, "\r\n", 2);
}

void resp_int(struct resp_out *out, int64_t value)
{
	header(out, ':', value);
}

void resp_bulk(struct resp_out *out, const void *data, size_t len)
{
	header(out, '$', len);
	resp_raw(out, data, len);
	resp_raw(out, "\r\n", 2);
}

void resp_string(struct resp_out *out, const char *text)
{
	resp_bulk(out, text, strlen(text));
}

void resp_value(struct resp_out *out, struct resp_chunk *value)
{
	char line[RESP_HEADROOM_BYTES];
	int len = snprintf(line, sizeof(line), "$%u\r\n", resp_chunk_len(value));

	value->start -= len;
	memcpy(value->data + value->start, line, len);
	memcpy(value->data + value->end, "\r\n", 2);
	value->end += 2;
	out_link(out, value);
}

void resp_text(struct resp_out *out, const char *text, size_t len)
{
	if (!out->resp3) {
		resp_bulk(out, text, len);
		return;
	}
	header(out, '=', len + 4);
	resp_raw(out, "txt:", 4);
	resp_raw(out, text, len);
	resp_raw(out, "\r\n", 2);
}

void resp_null(struct resp_out *out)
{
	if (out->resp3)
		resp_raw(out, "_\r\n", 3);
	else
		resp_raw(out, "$-1\r\n", 5);
}

void resp_array(struct resp_out *out, size_t nr)
{
	header(out, '*', nr);
}

void resp_map(struct resp_out *out, size_t nr)
{
	header(out, out->resp3 ? '%' : '*', out->resp3 ? nr : 2 * nr);
}
