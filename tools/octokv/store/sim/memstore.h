/* SPDX-License-Identifier: GPL-2.0 */
/*
 * memstore.h - a store in memory behind store.h, for tests of the server without a device
 *
 * Operations complete at once, together with those that were held before. After memstore_hold()
 * they wait until memstore_release() completes them, last come, first served. Of scans, one for
 * each partition is held. memstore_fail() makes completions fail; a scan still shows its keys.
 */
#ifndef OKV_SIM_MEMSTORE_H
#define OKV_SIM_MEMSTORE_H

#include "store/store.h"

struct okv_store *memstore_new(void);

/* Keys of a slot are in one partition from now on. */
void memstore_set_slots(struct okv_store *store);
void memstore_free(struct okv_store *store);
void memstore_work(struct okv_store *store, bool works);	/* at a checkpoint */
void memstore_stick(struct okv_store *store, bool sticks);	/* it does not come to rest */
void memstore_hold(struct okv_store *store, bool hold);
void memstore_release(struct okv_store *store);
void memstore_release_oldest(struct okv_store *store);	/* one operation */
void memstore_release_scans(struct okv_store *store);
/* All operations get this status, until it is OKV_OK. */
void memstore_fail(struct okv_store *store, enum okv_status status);

/*
 * The process ends. Of what is held, the @nr that came first are done, and the others not. All
 * complete with an error, and so does what comes, until memstore_fail().
 */
void memstore_end(struct okv_store *store, uint32_t nr);

/* What another host finds on the device. */
struct okv_store *memstore_copy(const struct okv_store *store);

/*
 * The device refuses this host from now on. What is known without it is still answered: that there
 * is no such key. Else the operation fails, and memstore_is_lost().
 */
void memstore_fence(struct okv_store *store);
bool memstore_is_lost(const struct okv_store *store);

#endif
