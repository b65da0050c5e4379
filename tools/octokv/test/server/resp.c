// SPDX-License-Identifier: GPL-2.0
/*
 * resp.c - the protocol's parser and writer
 *
 * Tables of inputs and their results. Each input is fed in every way to cut it in two.
 */
#include "store/mem.h"
#include "test/test.h"

static const struct resp_limits limits = {
	.max_bulk_bytes = 1 << 20, .max_args = 1000, .max_command_bytes = 2 << 20,
};

/* Commands are written as "[GET][k]"; an error as "!text". */
struct parse_case {
	const char *in;
	const char *want;
};

static const struct parse_case parse_cases[] = {
	{ "*1\r\n$4\r\nPING\r\n", "[PING]" },
	{ "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", "[GET][k];[PING]" },
	{ "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "[GET][]" },
	{ "*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n", "[GET][\r\n\r\n]" },
	{ "*0\r\n*-1\r\n*1\r\n$1\r\na\r\n", "[a]" },
	{ "PING\r\nGET  k \r\n", "[PING];[GET][k]" },
	{ "\r\n\r\n  \r\nPING\n", "[PING]" },
	{ "SET k \"a b\\n\\x41\\\"\"\r\n", "[SET][k][a b\nA\"]" },
	{ "SET k 'a\\'b \\n'\r\n", "[SET][k][a'b \\n]" },
	{ "SET k \"\"\r\n", "[SET][k][]" },
	{ "SET k \"a\r\n", "!Protocol error: unbalanced quotes in request" },
	{ "SET k \"a\"b\r\n", "!Protocol error: unbalanced quotes in request" },
	{ "*1\r\n$2147483648\r\n", "!Protocol error: invalid bulk length" },
	{ "*1\r\n$1048577\r\n", "!Protocol error: invalid bulk length" },
	{ "*1\r\n$-1\r\n", "!Protocol error: invalid bulk length" },
	{ "*1\r\n$+1\r\n", "!Protocol error: invalid bulk length" },
	{ "*1\r\n$\r\n", "!Protocol error: invalid bulk length" },
	{ "*1\r\n:1\r\n", "!Protocol error: expected '$', got ':'" },
	{ "*1\r\n\r\n", "!Protocol error: expected '$', got '?'" },
	{ "*1001\r\n", "!Protocol error: invalid multibulk length" },
	{ "*99999999999999999999\r\n", "!Protocol error: invalid multibulk length" },
	{ "*1x\r\n", "!Protocol error: invalid multibulk length" },
	{ "*111111111111111111111111111111111111\r\n",
	  "!Protocol error: too big mbulk count string" },
	{ "*1\n", "!Protocol error: a line ends without CR" },
	{ "*1\r\n$1\r\naxx", "!Protocol error: a bulk string ends without CRLF" },
	{ "*1\r\n$1\r\na\rx", "!Protocol error: a bulk string ends without CRLF" },
	{ "*3\r\n$1048576\r\n", "" },
	{ "*1\r\n$4\r\nPI", "" },
};

static void show_command(struct resp_parser *p, char *text)
{
	struct resp_command c;

	resp_take(p, &c);
	if (*text)
		strcat(text, ";");
	for (uint32_t i = 0; i < c.nr_args; i++) {
		EXPECT(resp_arg(&c, i)[resp_arg_len(&c, i)] == 0);
		sprintf(text + strlen(text), "[%.*s]", (int)resp_arg_len(&c, i), resp_arg(&c, i));
	}
	resp_command_free(&c);
}

static bool feed_piece(struct resp_parser *p, const char *in, size_t len, char *text)
{
	enum resp_verdict verdict;

	while (true) {
		size_t used = resp_feed(p, in, len, &verdict);

		EXPECT(used <= len);
		in += used;
		len -= used;
		if (verdict == RESP_BAD) {
			sprintf(text + strlen(text), "%s!%s", *text ? ";" : "", p->error);
			return false;
		}
		if (verdict == RESP_MORE)
			break;
		show_command(p, text);
	}
	EXPECT(!len);
	return true;
}

static void parse_cut(const struct parse_case *c, size_t cut)
{
	size_t len = strlen(c->in);
	struct resp_parser parser;
	char text[1024] = "";

	resp_init(&parser, &limits);
	/* The memory ends where the piece ends: the address sanitizer sees a read beyond it. */
	char *first = memcpy(malloc(cut + 1), c->in, cut),
	     *second = memcpy(malloc(len - cut + 1), c->in + cut, len - cut);

	if (feed_piece(&parser, first, cut, text))
		feed_piece(&parser, second, len - cut, text);
	expect_text(c->in, cut, c->want, text, strlen(text));
	free(first);
	free(second);
	resp_destroy(&parser);
}

static void test_parser(void)
{
	for (size_t i = 0; i < sizeof(parse_cases) / sizeof(parse_cases[0]); i++)
		for (size_t cut = 0; cut <= strlen(parse_cases[i].in); cut++)
			parse_cut(&parse_cases[i], cut);
}

/*
 * A line, or arguments, without end are refused, and no more than the limits was allocated for
 * them.
 */
static void test_bounds(void)
{
	struct resp_parser parser;
	enum resp_verdict verdict = RESP_MORE;
	char text[1024] = "";
	size_t fed = 0;

	resp_init(&parser, &limits);
	for (; verdict == RESP_MORE; fed += 1000)
		resp_feed(&parser, memset(text, 'x', 1000), 1000, &verdict);
	EXPECT(verdict == RESP_BAD && fed > RESP_MAX_INLINE_BYTES &&
	       fed < RESP_MAX_INLINE_BYTES + 3000);
	EXPECT(resp_held_bytes(&parser) <= 2 * RESP_MAX_INLINE_BYTES);
	resp_destroy(&parser);

	resp_init(&parser, &limits);
	resp_feed(&parser, "*1000\r\n", 7, &verdict);
	for (int i = 0; i < 3 && verdict == RESP_MORE; i++) {
		static char big[1 << 20];

		resp_feed(&parser, "$1048576\r\n", 10, &verdict);
		if (verdict == RESP_MORE)
			resp_feed(&parser, big, sizeof(big), &verdict);
		if (verdict == RESP_MORE)
			resp_feed(&parser, "\r\n", 2, &verdict);
	}
	EXPECT(verdict == RESP_BAD && resp_held_bytes(&parser) <= 4 << 20);
	resp_destroy(&parser);
}

static void test_numbers(void)
{
	static const struct { const char *text; bool good; int64_t value; } cases[] = {
		{ "0", true, 0 }, { "-1", true, -1 }, { "9223372036854775807", true, INT64_MAX },
		{ "-9223372036854775808", true, INT64_MIN },
		{ "9223372036854775808", false, 0 }, { "-9223372036854775809", false, 0 },
		{ "", false, 0 }, { "-", false, 0 }, { "01", false, 0 },
		{ "1 ", false, 0 }, { "+1", false, 0 }, { "18446744073709551616", false, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t value = 0;

		EXPECT(resp_parse_int(cases[i].text, strlen(cases[i].text), &value) ==
		       cases[i].good);
		EXPECT(value == cases[i].value);
	}
}

/* A value that was copied, or one that lies in memory of its own. */
static struct resp_chunk *chunk_of(const char *text, bool is_taken)
{
	size_t len = strlen(text);
	char *memory = is_taken ? mem_alloc(RESP_HEADROOM_BYTES + len + 2) : NULL;
	struct resp_chunk *value = is_taken ?
		resp_value_take(memory, memory + RESP_HEADROOM_BYTES, len) : resp_value_alloc(len);

	memcpy(resp_chunk_value(value), text, len);
	return value;
}

static void write_all(struct resp_out *out, bool is_taken)
{
	resp_simple(out, "OK");
	resp_error(out, "ERR it's\r\n%s", "bad");
	resp_int(out, -7);
	resp_bulk(out, "a\r\nb", 4);
	resp_value(out, chunk_of("abc", is_taken));
	resp_null(out);
	resp_array(out, 2);
	resp_map(out, 2);
	resp_text(out, "hi", 2);
}

static void test_writer(void)
{
	static const char *const wanted[] = {
		"+OK\r\n-ERR it's  bad\r\n:-7\r\n$4\r\na\r\nb\r\n$3\r\nabc\r\n$-1\r\n*2\r\n"
		"*4\r\n$2\r\nhi\r\n",
		"+OK\r\n-ERR it's  bad\r\n:-7\r\n$4\r\na\r\nb\r\n$3\r\nabc\r\n_\r\n*2\r\n"
		"%2\r\n=6\r\ntxt:hi\r\n",
	};

	for (int i = 0; i < 4; i++) {
		int resp3 = i % 2;
		struct resp_out out = { .resp3 = resp3 }, all = { .resp3 = resp3 };
		char *text;

		write_all(&out, i / 2);
		text = out_text(&out);
		expect_text(__FILE__, __LINE__, wanted[resp3], text, out.nr_bytes);
		free(text);
		resp_raw(&all, "x", 1);
		resp_out_splice(&all, &out);
		EXPECT(!out.head && !out.nr_bytes && all.nr_bytes == strlen(wanted[resp3]) + 1);
		for (size_t left = all.nr_bytes; left; left--) {
			text = out_text(&all);
			EXPECT(left > strlen(wanted[resp3]) ||
			       !strcmp(text, wanted[resp3] + strlen(wanted[resp3]) - left));
			free(text);
			resp_out_consume(&all, 1);
		}
		EXPECT(!all.head && !all.tail);
	}
}

int main(void)
{
	test_parser();
	test_bounds();
	test_numbers();
	test_writer();
	printf("ok server_resp: %zu inputs, each cut everywhere\n",
	       sizeof(parse_cases) / sizeof(parse_cases[0]));
	return 0;
}
