/* SPDX-License-Identifier: GPL-2.0 */
/* notify.h - what a service says to systemd, by sd_notify(3); without systemd, nothing */
#ifndef OKV_NOTIFY_H
#define OKV_NOTIFY_H

#include <stdint.h>

/* Lines such as READY=1, each but the last one ended by a newline. */
__attribute__((format(printf, 1, 2))) void notify(const char *format, ...);

/* How often systemd wants to hear WATCHDOG=1, in milliseconds, at least; 0: never. */
uint32_t notify_watchdog_ms(void);

#endif
