/* SPDX-License-Identifier: GPL-2.0 */
/* probe.h - what many small writes cost a device, beside a large one */
#ifndef OKV_PROBE_H
#define OKV_PROBE_H

#include <stdbool.h>

#include "store/disk.h"

/*
 * Does the device gain by journals? They make more and smaller writes, which share the pages of
 * their heads. A drive that programs a page for each write gains. A target that takes as long for
 * each command, as one core of it may, or a disk that turns, does not.
 *
 * Some small writes at once take as long as one with all their pages, or longer, and that is what
 * is measured: where it takes more than PROBE_TIMES as long, there are no journals. It writes to a
 * part of a store that nothing else uses, between two superblocks. Blocks, for some dozen writes.
 */
bool probe_gains_by_journals(struct okv_disk *disk);

#endif
