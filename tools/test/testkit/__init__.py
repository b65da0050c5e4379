# SPDX-License-Identifier: GPL-2.0
"""The host's half of the tests: groups of cases, run two at a time, reported a line per case."""
