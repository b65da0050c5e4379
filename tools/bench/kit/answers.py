# SPDX-License-Identifier: GPL-2.0
"""The parts of the results' pages that are made from the stored results.

answers.inc is the table at the head: what was asked, and what the stored results say.
Documentation/results/targets.toml says what each of its fields means. tables.inc has the tables of
the benchmarks. A page takes one by

	.. include:: tables.inc
	   :start-after: begin NAME NUMBER.
	   :end-before: .. end NAME NUMBER.

which is the table NUMBER, counted from 1, of those that the benchmark NAME prints. With "bands"
instead of a number it is the band of each figure that targets.toml asks of NAME, if NAME was run
with several seeds.

What a band says
================
A figure of several seeds is their median, and its band is from the least to the greatest. For a
ratio, or a difference, of two figures the band goes from the least that both bands allow to the
greatest: it is never too narrow. Whether a target is met is said of the median, with a mark if the
band has values on the other side. A rival whose band touches ours has a mark, too: the two figures
are not different.
"""
import functools
import glob
import json
import os
import re
from dataclasses import dataclass

from . import catalog, report
from .say import BenchError

MADE = """.. SPDX-License-Identifier: GPL-2.0

.. Made by tools/bench/answers from targets.toml and the stored results: do not edit.
"""
HEAD = """
.. list-table::
   :header-rows: 1
   :widths: 34 12 10 13 17 8 7
"""
TAKEN = re.compile(r"^ +:start-after: begin (\S+) ([1-9]\d*|bands)\.$", re.M)
ALIKE, ACROSS = "\u2248", "\u00b1"
COLUMNS = ("Question", "by", "``none``", "ours", "best of the others", "asked", "met?")
KNOWN = {"question", "by", "result", "case", "alone", "metric", "ours", "rivals", "base", "show",
         "beside", "asked", "asked_times", "better", "digits", "unit", "scale"}


@functools.cache
def stored(folder, result):
    """A stored result."""
    with open(os.path.join(folder, f"{result}.json"), encoding="utf-8") as handle:
        return json.load(handle)


@dataclass(frozen=True)
class Figure:
    """A figure of one run, or the median of several with its band."""
    value: float
    low: float | None = None
    high: float | None = None

    def ends(self):
        """The band's ends; one run is both by itself."""
        return (self.value, self.value) if self.low is None else (self.low, self.high)

    def touches(self, other):
        """Whether the bands of both have a value in common; False if neither has a band."""
        if self.low is None and other.low is None:
            return False
        (low, high), (other_low, other_high) = self.ends(), other.ends()
        return low <= other_high and other_low <= high

    def joined(self, other, how):
        """how(ours, theirs), which grows with ours and shrinks with theirs, and its band."""
        value = how(self.value, other.value)
        if self.low is None and other.low is None:
            return Figure(value)
        (low, high), (other_low, other_high) = self.ends(), other.ends()
        return Figure(value, how(low, other_high), how(high, other_low))


def figures(folder, result):
    """{(case, scheduler, metric): Figure} of a stored result."""
    return {(row["case"], row["scheduler"], row["metric"]):
            Figure(row["value"], row.get("low"), row.get("high"))
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

    def shown(self, scheduler):
        """The Figure that is shown of @scheduler, None if it was not measured."""
        target = self.target
        metric, show = target["metric"], target.get("show", "value")
        found = self.figure(scheduler, metric)
        if show == "times":
            other = self.figure(scheduler, metric, target["alone"])
        else:
            other = self.figure(self.base, metric)
        if found is None or (show != "value" and other is None):
            return None
        if show == "value":
            scale = target.get("scale", 1)
            return Figure(*(end if end is None else end * scale
                            for end in (found.value, found.low, found.high)))
        if show != "above" and not all((other.value, *other.ends())):
            raise BenchError(f"{self.question}: {other.ends()[0]} to divide by")
        return found.joined(other, {"percent": lambda ours, base: 100 * ours / base,
                                    "above": lambda ours, base: ours - base,
                                    "times": lambda ours, alone: ours / alone}[show])

    def text(self, value):
        unit = self.target.get("unit", "")
        unit = unit if unit == "%" else f" {unit}" if unit else ""
        return f"{value:.{self.target.get('digits', 0)}f}{unit}"

    def figure_text(self, scheduler):
        """The figure of @scheduler with its band; empty if it was not measured."""
        found = self.shown(scheduler)
        if found is None:
            return ""
        if found.low is None:
            return self.text(found.value)
        digits = self.target.get("digits", 0)
        return f"{self.text(found.value)} ({found.low:.{digits}f} to {found.high:.{digits}f})"

    def cell(self, scheduler):
        """The figure of @scheduler, with its price."""
        text, beside = self.figure_text(scheduler), self.target.get("beside")
        if not text or not beside or scheduler == self.base:
            return text
        of, whole = self.figure(scheduler, beside), self.figure(self.base, beside)
        if of is None or whole is None or not whole.value:
            raise BenchError(f"{self.question}: no {beside} of {scheduler} or {self.base}")
        return f"{text} at {100 * of.value / whole.value:.0f}%"

    def rivals(self):
        """All others that the case has, or those that the target names."""
        known = [scheduler for case, scheduler, metric in self.rows
                 if case == self.target["case"] and metric == self.target["metric"]
                 and scheduler not in (self.base, "none", self.target["ours"])]
        return self.target.get("rivals", known)

    def best_rival(self):
        """The best of the others, and all whose band touches ours, which have a mark."""
        found = {name: self.shown(name) for name in self.rivals()}
        found = {name: figure for name, figure in found.items() if figure is not None}
        if not found:
            return ""
        best = (max if self.more else min)(found, key=lambda name: found[name].value)
        alike = [name for name, figure in found.items() if figure.touches(self.ours())]
        mark = f"{ALIKE} " if best in alike else ""
        others = [f"{ALIKE} {name}" for name in alike if name != best]
        return "; ".join([f"{mark}{best} {self.cell(best)}", *others])

    def asked(self):
        times, base = self.target.get("asked_times"), self.shown(self.base)
        if times and base is None:
            raise BenchError(f"{self.question}: no {self.target['metric']} of {self.base}")
        return base.value / times if times else self.target["asked"]

    def ours(self):
        found = self.shown(self.target["ours"])
        if found is None:
            raise BenchError(f"{self.question}: no {self.target['metric']} of "
                             f"{self.target['ours']} in {self.target['case']}")
        return found

    def verdict(self):
        """Whether the median meets the target; marked if a part of the band says otherwise."""
        def meets(value):
            return value >= self.asked() if self.more else value <= self.asked()

        ours = self.ours()
        is_met = meets(ours.value)
        mark = f" {ACROSS}" if any(meets(end) != is_met for end in ours.ends()) else ""
        return ("met" if is_met else "**missed**") + mark

    def cells(self):
        sign = "\u2265" if self.more else "\u2264"
        base = "" if self.base != "none" else self.cell("none")
        return (self.question, self.target.get("by", self.target["ours"]), base,
                self.cell(self.target["ours"]), self.best_rival(),
                f"{sign} {self.text(self.asked())}", self.verdict())


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
    """The (benchmark, number or bands) of the tables that the pages take, in order."""
    found = set()
    for path in glob.glob(os.path.join(folder, "*.rst")):
        with open(path, encoding="utf-8") as handle:
            found |= set(TAKEN.findall(handle.read()))
    return sorted(((name, number if number == "bands" else int(number)) for name, number in found),
                  key=lambda entry: (entry[0], str(entry[1]).zfill(6)))


def bands(targets, folder, name):
    """A table of the figures that targets.toml asks of a result, with their bands."""
    answers = [Answer(target, figures(folder, name)) for target in targets
               if target["result"] == name]
    names = dict.fromkeys(scheduler for answer in answers for scheduler in (
        "none", *answer.rivals(), answer.target["ours"]))
    lines = [[scheduler, *(answer.figure_text(scheduler) for answer in answers)]
             for scheduler in names]
    heads = [f"{answer.target['case']}: {answer.target['metric']}" for answer in answers]
    return report.table(["scheduler", *heads], [line for line in lines if any(line[1:])])


def _table_of(targets, folder, name, number):
    if number == "bands":
        return bands(targets, folder, name)
    result = stored(folder, name)
    found = catalog.module(catalog.drawn_by(result)).table(result).split("\n\n")
    if number > len(found):
        raise BenchError(f"a page takes table {number} of {name}, which has {len(found)}")
    return found[number - 1]


def tables(targets, folder):
    """The text of tables.inc, from @targets and the results in @folder."""
    parts = [MADE]
    for name, number in taken(folder):
        parts.append(f".. begin {name} {number}.\n\n"
                     f"{rst_table(_table_of(targets, folder, name, number))}\n"
                     f".. end {name} {number}.\n")
    return "\n".join(parts)
