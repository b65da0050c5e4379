# SPDX-License-Identifier: GPL-2.0
"""latency: the gain of a real-time task from a bound on requests in flight, and the others' loss.

Figures 4 and 5 of the K2 analysis, on a half filled ssdsim in virtual time: under none, under
mq-k2 with bounds 1 to 64, and under the kernel's schedulers. kit/bounds.py has the load.
"""
from kit import bounds

ONE_LINE = "tail latency of a real-time task and total bandwidth, K2's figures 4 and 5"

DEVICE = bounds.device(fill_pct=50)

table = bounds.table


def run(args):
    """Measure; the result dictionary."""
    return bounds.measured("latency", args, DEVICE, "half filled", bounds.STOCK)


def draw(result, plt):
    """Latency and bandwidth for each pattern."""
    return bounds.draw(result, plt, "a half filled drive")
