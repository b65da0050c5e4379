# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# every.sh - what the *_mutants source: with EVERY=N in the environment they leave out all but each Nth mutant

nr_mutants=0

is_left_out() {
	nr_mutants=$((nr_mutants + 1))
	[ $((nr_mutants % ${EVERY:-1})) -ne 0 ]
}
