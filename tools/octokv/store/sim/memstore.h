/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memstore.h - a store in memory behind store.h, for tests of the server's half without a device
 *
 * Operations complete at once, with what was held before, or, with memstore_hold(), when memstore_release() says so, in an order of its choice: last come,
 * first served. Of scans one for each partition is held. memstore_fail() fails what completes; a scan shows its keys all the same.
 */
#ifndef OKV_SIM_MEMSTORE_H
#define OKV_SIM_MEMSTORE_H

#include "store/store.h"

struct okv_store *memstore_new(void);
void memstore_free(struct okv_store *store);
void memstore_hold(struct okv_store *store, bool hold);
void memstore_release(struct okv_store *store);
void memstore_release_oldest(struct okv_store *store);	/* one operation */
/* of all operations, until OKV_OK */
void memstore_fail(struct okv_store *store, enum okv_status status);

#endif
