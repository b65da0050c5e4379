# SPDX-License-Identifier: GPL-2.0
"""full: the figures of `latency` on a drive that is full.

How full a drive is matters for writes (rule W1 of the K2 analysis). On a full drive a program
operation may have to wait until garbage collection has made room. Writes are slower, and a bound
may help where it did not on a drive with free space. Every unit of the drive was written once, and
then twice as many at random. So collection is in its steady state from the first request on.
"""
from kit import bounds

ONE_LINE = "tail latency of a real-time task and total bandwidth on a full drive, K2's bounds"

DEVICE = bounds.device(fill_pct=300)

table = bounds.table


def run(args):
    """Measure; the result dictionary."""
    return bounds.measured("full", args, DEVICE, "full and twice overwritten at random", ())


def draw(result, plt):
    """Latency and bandwidth for each pattern."""
    return bounds.draw(result, plt, "a full drive")
