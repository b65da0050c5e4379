# SPDX-License-Identifier: GPL-2.0
"""Rows, the result file and the table. A result is whole or not there: files are written aside and renamed at the end."""
import json
import os
import statistics

from . import lab
from .say import BenchError

ROW_KEYS = ("case", "scheduler", "metric", "value", "unit", "repeats", "spread")


def row(case, scheduler, metric, values, unit, digits=1):
    """One row from its repeats: the median, and (highest - lowest) / median as spread; None where there was one run."""
    if not values:
        raise BenchError(f"{case}, {scheduler}: no value of {metric}")
    middle = statistics.median(values)
    spread = round((max(values) - min(values)) / middle, 4) if len(values) > 1 and middle else None
    return {"case": case, "scheduler": scheduler, "metric": metric, "value": round(middle, digits), "unit": unit,
            "repeats": len(values), "spread": spread}


def check(result):
    """Refuse a result that is not of the documented form."""
    for key in ("benchmark", "backend", "kernel", "parameters", "rows"):
        if key not in result:
            raise BenchError(f"the result lacks {key}")
    if not result["rows"]:
        raise BenchError("the result has no rows")
    for entry in result["rows"]:
        if tuple(entry) != ROW_KEYS:
            raise BenchError(f"a row has {', '.join(entry)} instead of {', '.join(ROW_KEYS)}")
        if not isinstance(entry["value"], (int, float)) or entry["value"] < 0:
            raise BenchError(f"{entry['case']}, {entry['scheduler']}: {entry['metric']} is {entry['value']}")


def value(result, case, scheduler, metric):
    """One figure of a result, None if it has no such row."""
    return next((entry["value"] for entry in result["rows"] if entry["case"] == case and entry["metric"] == metric
                 and entry["scheduler"] == scheduler), None)


def unique(result, key):
    """The values of @key in order of first appearance."""
    return list(dict.fromkeys(entry[key] for entry in result["rows"]))


def store(result, folder=None):
    """Write NAME.json, NAME.svg and NAME.png; returns the paths. Nothing is replaced unless all three could be made."""
    check(result)
    folder = folder or lab.RESULTS
    names = [f"{result['benchmark']}.{kind}" for kind in ("json", "svg", "png")]
    with lab.scratch() as aside:
        path = os.path.join(aside, names[0])
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(dump(result))
        lab.enter(["python3", os.path.join(lab.BENCH, "draw"), path, aside], "drawing the picture")
        for name in names:
            os.replace(os.path.join(aside, name), os.path.join(folder, name))
    return [os.path.join(folder, name) for name in names]


def dump(result):
    """The result as JSON text with one row per line, so that two results can be compared by diff."""
    rows = ",\n".join("  " + json.dumps(entry) for entry in result["rows"])
    head = json.dumps({key: entry for key, entry in result.items() if key != "rows"}, indent=1)
    return head[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def table(header, lines):
    """Text of a table: the first column to the left, the others to the right."""
    cells = [header, *lines]
    widths = [max(len(str(line[i])) for line in cells) for i in range(len(header))]
    out = []
    for number, line in enumerate(cells):
        out.append("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                             for i, (cell, width) in enumerate(zip(line, widths))).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
    return "\n".join(out)
