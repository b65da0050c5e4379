/* SPDX-License-Identifier: GPL-2.0 */
/* ask.h - --stats and --health: what an octokvd that serves on this machine says of itself */
#ifndef OKV_ASK_H
#define OKV_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a password from standard input; without one, octokvd ends. */
void ask_password(char *password, size_t bytes);

/*
 * Asks on 127.0.0.1, as @user if there is one, and prints what INFO replies. For @health that is a
 * section, and the exit status that is returned is 0 only for ok. Without an answer octokvd ends.
 */
int ask(uint16_t port, const char *user, bool health);

#endif
