// SPDX-License-Identifier: GPL-2.0
/*
 * cmd_multi.c - transactions: refused as a whole
 *
 * A client sends MULTI, commands, and EXEC in one go, and reads the replies later. If only MULTI
 * and EXEC were refused, all between them would have been done, and once more when the client tries
 * again. So from MULTI on nothing of the connection runs until EXEC, DISCARD or RESET.
 */
#include "command.h"

static void start_multi(struct request *r)
{
	r->conn->discarding = true;
	request_fail(r, "ERR MULTI is not supported: nothing is run until EXEC or DISCARD. Send "
			"the commands without it (redis-py: pipeline(transaction=False))");
}

static void start_exec(struct request *r)
{
	if (!r->conn->discarding) {
		request_fail(r, "ERR EXEC without MULTI");
		return;
	}
	r->conn->discarding = false;
	request_fail(r, "EXECABORT Transaction discarded: MULTI is not supported, and nothing of "
			"it was run");
}

static void start_discard(struct request *r)
{
	if (!r->conn->discarding) {
		request_fail(r, "ERR DISCARD without MULTI");
		return;
	}
	r->conn->discarding = false;
	resp_simple(&r->out, "OK");
	request_done(r);
}

const struct command multi_commands[] = {
	{ "multi", 1, CMD_ENDS_MULTI, 0, 0, 0, start_multi, NULL },
	{ "exec", 1, CMD_ENDS_MULTI, 0, 0, 0, start_exec, NULL },
	{ "discard", 1, CMD_ENDS_MULTI, 0, 0, 0, start_discard, NULL },
	{ NULL },
};
