# SPDX-License-Identifier: GPL-2.0
"""Which guest tests run on a kernel, and with which schedulers.

The long run has every test with every scheduler on every kernel. The short run spreads the tests
over the kernels, by the words RUN_ON and FIRST in each test; tools/test/common/rc explains them.
A test that is named on the command line runs with every scheduler.
"""
import glob
import os
import re
import shlex
from dataclasses import dataclass

from .report import CHECKOUT

FOLDER = os.path.join(CHECKOUT, "tools", "test", "guest-tests")
SCHEDULERS = ("mq-k2", "mq-mqfq", "mq-octofas", "mq-tabs")
STOCK = ("6.12", "7.2")
RUN_ON = (*STOCK, "not_stock", "not_uml", "every_scheduler", "not_debug", "not_kcsan")
SPEED = ("any", "paced")
VARIABLE = re.compile(r"^(\w+)=(.*)$", re.M)


class PlanError(Exception):
    """A variable in a test's head has an unknown word; the text names the test."""


@dataclass(frozen=True)
class Test:
    """What the head of one file of guest-tests/ says."""
    name: str           # FOLDER/NAME
    schedulers: tuple   # one run for each; if empty, one run without a scheduler
    shared: bool        # it tests every scheduler (PER_SCHEDULER)
    long: bool
    run_on: frozenset
    first: str
    paced: bool         # it judges order and pace

    def runs(self, schedulers):
        """The test's runs, with its schedulers that are in @schedulers."""
        if len(self.schedulers) < 2:
            return [self.name]
        return [f"{self.name}/{name}" for name in self.schedulers if name in schedulers]


@dataclass(frozen=True)
class Share:
    """The part of the short run on one kernel."""
    turn: int = 0               # this kernel has the scheduler that many places after FIRST
    stock: str = ""             # the name of this kernel, if it is a stock kernel
    thorough: bool = False      # plain User-Mode Linux: obey every_scheduler and not_uml
    slow: bool = False          # with KASAN and lockdep: tools/test/guest obeys not_debug and SPEED

    def leaves_out(self, test):
        """The test runs on other kernels."""
        if not self.stock:
            return self.thorough and "not_uml" in test.run_on
        only_on = test.run_on.intersection((*STOCK, "not_stock"))
        return bool(only_on) and self.stock not in only_on

    def schedulers(self, test):
        if not test.shared:
            return SCHEDULERS
        if self.thorough and test.run_on.intersection(("every_scheduler", "not_debug")):
            return SCHEDULERS
        place = SCHEDULERS.index(test.first) + self.turn
        return (SCHEDULERS[place % len(SCHEDULERS)],)


@dataclass
class Plan:
    """The runs in their order, and how many the short run leaves to other kernels."""
    runs: list
    other_schedulers: int = 0
    other_kernel: int = 0


def check_word(name, variable, word, known):
    if word not in known:
        raise PlanError(f"{name}: {variable} has the unknown word {word}; "
                        f"known: {' '.join(known)}")


def read_test(name):
    """The Test of the file @name."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as source:
        head = source.read()
    words = {variable: " ".join(shlex.split(value, comments=True))
             for variable, value in VARIABLE.findall(head)
             if variable in ("PER_SCHEDULER", "SCHEDULERS", "LONG", "RUN_ON", "FIRST", "SPEED")}
    run_on = words.get("RUN_ON", "").split()
    for word in run_on:
        check_word(name, "RUN_ON", word, RUN_ON)
    if {"not_stock", "not_uml", "not_debug"}.issubset(run_on):
        raise PlanError(f"{name}: RUN_ON leaves no kernel to run on")
    check_word(name, "SPEED", words.get("SPEED", "any"), SPEED)
    first = words.get("FIRST", SCHEDULERS[0])
    check_word(name, "FIRST", first, SCHEDULERS)
    shared = "PER_SCHEDULER" in words
    schedulers = SCHEDULERS if shared else tuple(words.get("SCHEDULERS", "").split())
    return Test(name, schedulers, shared, "LONG" in words,
                frozenset(run_on), first, words.get("SPEED") == "paced")


def tests():
    """All tests, in the order of their names."""
    for name in sorted(glob.glob("*/*", root_dir=FOLDER)):
        if not name.endswith(".out"):
            yield read_test(name)


def is_part(run, name):
    """@run is @name, or lies below it."""
    return f"{run}/".startswith(f"{name}/")


def plan(long_run=False, share=None, only="", named=()):
    """The Plan of a kernel; @only: a regular expression of runs; @named: tests, folders or runs."""
    found = Plan([])
    if long_run or named:
        share = None
    for test in tests():
        if test.long and not long_run and not any(is_part(name, test.name) for name in named):
            continue
        if share and share.leaves_out(test):
            found.other_kernel += 1
            continue
        every = test.runs(SCHEDULERS)
        runs = test.runs(share.schedulers(test)) if share else every
        found.other_schedulers += len(every) - len(runs)
        found.runs += [run for run in runs if re.search(only, run)
                       and (not named or any(is_part(run, name) for name in named))]
    return found


def cell(test, share):
    """What the short run does with @test on the kernel of @share: the schedulers, or why not."""
    if test.long:
        return "long"
    if share.slow and "not_debug" in test.run_on:
        return "no races"
    if share.slow and test.paced:
        return "pace"
    if share.leaves_out(test):
        only = [name for name in STOCK if name in test.run_on]
        return f"on {only[0]}" if only and not share.thorough else "same"
    if not test.schedulers:
        return "runs"
    chosen = [name for name in share.schedulers(test) if name in test.schedulers]
    return "all" if len(chosen) == len(SCHEDULERS) else " ".join(
        name.removeprefix("mq-") for name in chosen)


MADE = "Made by `tools/test/run --table` from the heads of the tests: do not edit."


def table(shares, halves):
    """The table of tests and kernels, as text.

    @shares: {kernel: Share} of the short run, and of groups of the long run that are named by
    themselves; @halves: {group: pattern of its tests}.
    """
    rows = [["test", *shares, "long run"]]
    for test in tests():
        rows.append([test.name, *(cell(test, share) for share in shares.values()),
                     next(name for name, only in halves.items() if re.search(only, test.name))])
    widths = [max(map(len, column)) for column in zip(*rows)]
    border = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([".. SPDX-License-Identifier: GPL-2.0", "", f".. {MADE}", "",
                      border, lines[0], border, *lines[1:], border, ""])
