# SPDX-License-Identifier: GPL-2.0
"""The store of the key-value daemon: simulated lives, mutants that the simulator must notice, and the fuzzing of what reads the device."""
import re

from .host import SOME_MUTANTS
from .octokv import FUZZ_LONG_S, FUZZ_S, make
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


def mutants(report):
    """Each mutant is a case: `ok: store mutant: NAME: by which seed` or `not ok: store mutant: NAME: why`."""
    report.begin("mutants")
    every = "1" if report.long else SOME_MUTANTS
    status, out, err = report.command(make("store-mutants", f"EVERY={every}"), timeout_s=1800)
    found = re.findall(r"^(ok|not ok): store mutant: (.*): (.*)$", out, re.M)
    for verdict, name, text in found:
        report.case("ok" if verdict == "ok" else "FAIL", f"mutant/{name}", text, seconds=0)
    if not found or (status != 0 and all(verdict == "ok" for verdict, *_ in found)):
        report.fail("mutants", f"status {status}", detail=out + err)


def fuzz(report):
    """libFuzzer over the seeds, and a little further."""
    report.begin("fuzz")
    seconds = FUZZ_LONG_S if report.long else FUZZ_S
    status, out, err = report.command(make("fuzz-disk", f"FUZZ_SECONDS={seconds}"), timeout_s=4 * seconds + 300)
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", out + err)
    if status == 0 and runs:
        report.ok("fuzz", f"{runs[0]} inputs in {seconds} s")
    else:
        report.fail("fuzz", f"status {status}; the input is in results/octokv", detail=out + err)


def store(report):
    simulate(report, "simulate-asan", ASAN_SEEDS)
    simulate(report, "simulate", SEEDS_LONG if report.long else SEEDS)
    mutants(report)
    fuzz(report)


GROUPS = [Group("octokv-store", "the store of octokvd: simulated crashes, mutants, fuzzing of what reads the device", store)]
