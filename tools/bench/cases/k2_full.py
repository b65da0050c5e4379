# SPDX-License-Identifier: GPL-2.0
"""full: the figures of latency on a drive that is full.

How full a drive is matters for writes (rule W1 of the K2 analysis): each program may have to wait until garbage collection has made room, so
writes are slower, and a bound may be of use where it was of none. Here every unit of the drive was written, and then twice as many at random, so that
collection is in its steady state from the first request on.
"""
from cases import k2_latency as latency

ONE_LINE = "tail latency of a real-time task and total bandwidth on a full drive, K2's bounds (vm, virtual time)"

FILL_PCT = 300
DEVICE = {**latency.DEVICE, "sysfs": {"ssdsim/fill": FILL_PCT}}


def run(args):
    """Measure; the result dictionary."""
    return latency.measured("full", args, DEVICE, "full and twice overwritten at random", ())


table = latency.table


def draw(result, plt):
    """As that of latency."""
    return latency.draw(result, plt)
