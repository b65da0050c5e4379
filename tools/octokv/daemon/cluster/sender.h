/* SPDX-License-Identifier: GPL-2.0 */
/* sender.h - the thread that sends keys to other nodes (server/cluster/slots.h) */
#ifndef OKV_SENDER_H
#define OKV_SENDER_H

#include "server/server.h"

/* For that thread: see helper.h. */
bool sender_work(struct kv_msg *msg);

/* What is under way ends soon, and so does what comes. From any thread. */
void sender_stop(void);

#endif
