# SPDX-License-Identifier: GPL-2.0
"""The store of the key-value daemon: simulated lives, their mutants, and fuzzing of its readers."""
import re

from .octokv import fuzz, make, mutants
from .report import Group

ASAN_SEEDS, SEEDS, SEEDS_LONG = 200, 1000, 20000


def simulate(report, target, seeds):
    report.begin(target)
    status, out, err = report.command(make(target, f"SEEDS={seeds}"), timeout_s=1800)
    found = re.search(r"^(\d+) seeds passed: (\d+) cuts", out, re.M)
    if status == 0 and found and int(found.group(1)) == seeds:
        report.ok(target, f"{seeds} seeds, {found.group(2)} cuts of power or process")
    else:
        report.fail(target, f"status {status}", detail=out + err)


def store(report):
    simulate(report, "simulate-asan", ASAN_SEEDS)
    simulate(report, "simulate", SEEDS_LONG if report.long else SEEDS)
    mutants(report, "store")
    fuzz(report, "fuzz-disk")


GROUPS = [
    Group("octokv-store",
          "the store of octokvd: simulated crashes, mutants, fuzzing of what reads the device",
          store),
]
