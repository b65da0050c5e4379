# SPDX-License-Identifier: GPL-2.0
"""The parts of the results' pages that are made from the stored results.

answers.inc is the table at the head: what was asked, and what the stored results say.
Documentation/results/targets.toml says what each of its fields means. tables.inc has the tables of
the benchmarks. A page takes one by

	.. include:: tables.inc
	   :start-after: begin NAME NUMBER.
	   :end-before: .. end NAME NUMBER.

which is the table NUMBER, counted from 1, of those that the benchmark NAME prints.
"""
import functools
import glob
import json
import os
import re

from . import catalog
from .say import BenchError

MADE = """.. SPDX-License-Identifier: GPL-2.0

.. Made by tools/bench/answers from targets.toml and the stored results: do not edit.
"""
HEAD = """
.. list-table::
   :header-rows: 1
   :widths: 34 12 10 13 17 8 7
"""
TAKEN = re.compile(r"^ +:start-after: begin (\S+) ([1-9]\d*)\.$", re.M)
COLUMNS = ("Question", "by", "``none``", "ours", "best of the others", "asked", "met?")
KNOWN = {"question", "by", "result", "case", "alone", "metric", "ours", "rivals", "base", "show",
         "beside", "asked", "asked_times", "better", "digits", "unit", "scale"}


@functools.cache
def stored(folder, result):
    """A stored result."""
    with open(os.path.join(folder, f"{result}.json"), encoding="utf-8") as handle:
        return json.load(handle)


def figures(folder, result):
    """{(case, scheduler, metric): value} of a stored result."""
    return {(row["case"], row["scheduler"], row["metric"]): row["value"]
            for row in stored(folder, result)["rows"]}


class Answer:
    """One line of the table: @target of targets.toml, and the @rows of its result."""

    def __init__(self, target, rows):
        self.question = target["question"]
        unknown = set(target) - KNOWN
        if unknown:
            raise BenchError(f"{self.question}: unknown {', '.join(sorted(unknown))}")
        self.target, self.rows = target, rows
        self.base = target.get("base", "none")
        self.more = target["better"] == "more"

    def figure(self, scheduler, metric, case=None):
        return self.rows.get((case or self.target["case"], scheduler, metric))

    def value(self, scheduler):
        """What is shown of @scheduler, None if it was not measured."""
        target = self.target
        metric, show = target["metric"], target.get("show", "value")
        value = self.figure(scheduler, metric)
        if show == "times":
            other = self.figure(scheduler, metric, target["alone"])
        else:
            other = self.figure(self.base, metric)
        if value is None or (show != "value" and other is None):
            return None
        if show in ("percent", "times") and not other:
            raise BenchError(f"{self.question}: {other} to divide by")
        return {"value": lambda: value * target.get("scale", 1),
                "percent": lambda: 100 * value / other,
                "above": lambda: value - other,
                "times": lambda: value / other}[show]()

    def text(self, value):
        unit = self.target.get("unit", "")
        unit = unit if unit == "%" else f" {unit}" if unit else ""
        return f"{value:.{self.target.get('digits', 0)}f}{unit}"

    def cell(self, scheduler):
        """The figure of @scheduler, with its price."""
        value = self.value(scheduler)
        if value is None:
            return ""
        beside = self.target.get("beside")
        if not beside or scheduler == self.base:
            return self.text(value)
        of, whole = self.figure(scheduler, beside), self.figure(self.base, beside)
        if of is None or not whole:
            raise BenchError(f"{self.question}: no {beside} of {scheduler} or {self.base}")
        return f"{self.text(value)} at {100 * of / whole:.0f}%"

    def rivals(self):
        """All others that the case has, or those that the target names."""
        known = [scheduler for case, scheduler, metric in self.rows
                 if case == self.target["case"] and metric == self.target["metric"]
                 and scheduler not in (self.base, "none", self.target["ours"])]
        return self.target.get("rivals", known)

    def best_rival(self):
        measured = [name for name in self.rivals() if self.value(name) is not None]
        if not measured:
            return ""
        best = (max if self.more else min)(measured, key=self.value)
        return f"{best} {self.cell(best)}"

    def asked(self):
        times, base = self.target.get("asked_times"), self.value(self.base)
        if times and base is None:
            raise BenchError(f"{self.question}: no {self.target['metric']} of {self.base}")
        return base / times if times else self.target["asked"]

    def is_met(self):
        ours = self.value(self.target["ours"])
        if ours is None:
            raise BenchError(f"{self.question}: no {self.target['metric']} of "
                             f"{self.target['ours']} in {self.target['case']}")
        return ours >= self.asked() if self.more else ours <= self.asked()

    def cells(self):
        verdict = "met" if self.is_met() else "**missed**"
        sign = "\u2265" if self.more else "\u2264"
        base = "" if self.base != "none" else self.cell("none")
        return (self.question, self.target.get("by", self.target["ours"]), base,
                self.cell(self.target["ours"]), self.best_rival(),
                f"{sign} {self.text(self.asked())}", verdict)


def table(targets, folder):
    """The text of answers.inc, from the results in @folder."""
    answers = [Answer(target, figures(folder, target["result"])) for target in targets]
    lines = [MADE + HEAD]
    for cells in (COLUMNS, *(answer.cells() for answer in answers)):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}".rstrip() for i, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def rst_table(text):
    """A table of kit/report.py, perhaps with a line of title, as reStructuredText."""
    head, line, *body = text.splitlines()
    if not line.startswith("-"):
        return f"{head}:\n\n" + rst_table("\n".join([line, *body]))
    line = line.replace("-", "=")
    if head.startswith(" "):
        head = "case" + head[4:] if line.startswith("====") else head
    return "\n".join([line, head, line, *body, line]) + "\n"


def taken(folder):
    """The (benchmark, number) of the tables that the pages take, in order."""
    found = set()
    for path in glob.glob(os.path.join(folder, "*.rst")):
        with open(path, encoding="utf-8") as handle:
            found |= set(TAKEN.findall(handle.read()))
    return sorted((name, int(number)) for name, number in found)


def tables(folder):
    """The text of tables.inc, from the results in @folder."""
    parts = [MADE]
    for name, number in taken(folder):
        result = stored(folder, name)
        found = catalog.module(catalog.drawn_by(result)).table(result).split("\n\n")
        if number > len(found):
            raise BenchError(f"a page takes table {number} of {name}, which has {len(found)}")
        parts.append(f".. begin {name} {number}.\n\n{rst_table(found[number - 1])}\n"
                     f".. end {name} {number}.\n")
    return "\n".join(parts)
