/* SPDX-License-Identifier: GPL-2.0 */
/* prometheus.h - the page of metrics */
#ifndef OKV_PROMETHEUS_H
#define OKV_PROMETHEUS_H

#include "server/server.h"

/*
 * To be freed with mem_free(). @len is about how long it will be, or 0, and becomes how long it is.
 * NULL: there is no memory for it.
 */
char *prometheus_page(const struct server *server, size_t *len);

#endif
