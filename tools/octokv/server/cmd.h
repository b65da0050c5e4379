/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cmd.h - the commands: those on keys in cmd_keys.c, all others in cmd_server.c, which finds both
 */
#ifndef OKV_CMD_H
#define OKV_CMD_H

#include "command.h"

/* The tables, each ended by a NULL name. */
extern const struct command key_commands[];
extern const struct command server_commands[];

const struct command *command_find(const char *name, size_t len);

#endif
