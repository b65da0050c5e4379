// SPDX-License-Identifier: GPL-2.0
/*
 * hiredis.c - octokvd as a C client sees it: blocking calls, a pipeline, binary values, RESP3
 */
#include <hiredis/hiredis.h>

#include "test/test.h"

enum { NR_PIPELINED = 1000, BIG_BYTES = 1 << 20 };

static redisReply *ask(redisContext *c, const char *format, ...)
{
	redisReply *reply;
	va_list args;

	va_start(args, format);
	reply = redisvCommand(c, format, args);
	va_end(args);
	if (!reply)
		printf("hiredis: %s\n", c->errstr);
	EXPECT(reply);
	return reply;
}

static void test_big(redisContext *c)
{
	char *big = malloc(BIG_BYTES);
	redisReply *reply;

	for (int i = 0; i < BIG_BYTES; i++)
		big[i] = i * 7;
	reply = ask(c, "SET %s %b", "big", big, (size_t)BIG_BYTES);
	EXPECT(reply->type == REDIS_REPLY_STATUS);
	freeReplyObject(reply);
	reply = ask(c, "GET big");
	EXPECT(reply->type == REDIS_REPLY_STRING && reply->len == BIG_BYTES &&
	       !memcmp(reply->str, big, BIG_BYTES));
	freeReplyObject(reply);
	free(big);
}

static void test_pipeline(redisContext *c)
{
	for (int i = 0; i < NR_PIPELINED; i++) {
		redisAppendCommand(c, "SET p:%d %d", i, i);
		redisAppendCommand(c, "GET p:%d", i);
	}
	for (int i = 0; i < NR_PIPELINED; i++) {
		redisReply *set, *get;
		char wanted[16];

		EXPECT(redisGetReply(c, (void **)&set) == REDIS_OK &&
		       redisGetReply(c, (void **)&get) == REDIS_OK);
		snprintf(wanted, sizeof(wanted), "%d", i);
		EXPECT(set->type == REDIS_REPLY_STATUS && get->type == REDIS_REPLY_STRING &&
		       !strcmp(get->str, wanted));
		freeReplyObject(set);
		freeReplyObject(get);
	}
}

int main(int argc, char **argv)
{
	struct timeval limit = { .tv_sec = 60 };
	redisContext *c =
		redisConnectWithTimeout("127.0.0.1", argc > 1 ? atoi(argv[1]) : 6379, limit);
	redisReply *reply;

	EXPECT(c && !c->err);
	redisSetTimeout(c, limit);
	test_big(c);
	test_pipeline(c);
	reply = ask(c, "HELLO 3");
	EXPECT(reply->type == REDIS_REPLY_MAP);
	freeReplyObject(reply);
	reply = ask(c, "GET none");
	EXPECT(reply->type == REDIS_REPLY_NIL);
	freeReplyObject(reply);
	redisFree(c);
	printf("ok server_hiredis: %d pipelined pairs, %d bytes, RESP3\n", NR_PIPELINED, BIG_BYTES);
	return 0;
}
