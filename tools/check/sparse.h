/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sparse.h - included before everything else when sparse, and only sparse, reads our modules
 *
 * Debian 13's sparse 0.6.4 is older than the language of 7.2's headers. At the first thing that it
 * cannot parse it goes on without most of its checks, so what it lacks is put into words that it
 * knows. Neither changes what is checked.
 */
#define __typeof_unqual__ typeof
/* MODULE_INFO() compares it with sizeof in an assertion. sparse takes it for no constant. */
#define __builtin_strlen(string) (sizeof(string) - 1)
