// SPDX-License-Identifier: GPL-2.0
/*
 * octofas_flow.c - lib's flows, for this module
 *
 * Not by naming ../lib/flow.o in Kbuild: mq-mqfq does, and two directories that kbuild works on at
 * the same time must not build the same object.
 */
#include "../lib/flow.c"
