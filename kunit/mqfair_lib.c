// SPDX-License-Identifier: GPL-2.0
/*
 * mqfair_lib.c - the shared structures, once for all suites of the module
 *
 * Not by naming ../lib/NAME.o in Kbuild: other modules do, and two directories that kbuild works
 * on at the same time must not build the same object.
 */
#include "../lib/flow.c"
#include "../lib/mindicator.c"
#include "../lib/ready_set.c"
#include "../lib/token_tree.c"
#include "../lib/topology.c"
#include "../lib/vt_wheel.c"
