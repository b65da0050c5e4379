# SPDX-License-Identifier: GPL-2.0
"""Rows, the result file and the table.

Files are written aside and renamed at the end. A result has all cases, or names those that it lost.
"""
import json
import os
import statistics
import time

from . import lab
from .say import BenchError

ROW_KEYS = ("case", "scheduler", "metric", "value", "unit", "repeats", "spread")
BAND_KEYS = ("low", "high")     # of a row with repeats; older ones lack them


def row(case, scheduler, metric, values, unit, digits=1):
    """One row from its repeats: the median, (highest - lowest) / median as spread, and the band.

    The band is the lowest and the highest. With one run it is left out, and the spread is None.
    """
    if not values:
        raise BenchError(f"{case}, {scheduler}: no value of {metric}")
    middle = statistics.median(values)
    spread = round((max(values) - min(values)) / middle, 4) if len(values) > 1 and middle else None
    band = dict(zip(BAND_KEYS, (round(min(values), digits), round(max(values), digits))))
    return {"case": case, "scheduler": scheduler, "metric": metric, "value": round(middle, digits),
            "unit": unit, "repeats": len(values), "spread": spread,
            **(band if len(values) > 1 else {})}


def result(name, run, parameters, rows, **more):
    """The result of benchmark @name from a lab.Run and its rows."""
    wall_s = round(time.monotonic() - run.started)
    if run.lost:
        more["lost"] = list(run.lost)
    return {"benchmark": name, "backend": run.backend, "kernel": run.kernel, "code": lab.code(),
            "parameters": {**parameters, "wall_s": wall_s}, **more, "rows": rows}


def key(entry):
    """What a row is about."""
    return entry["case"], entry["scheduler"], entry["metric"]


def complete(before, found):
    """The result @before, with the figures that it has lost: of each seed in @found."""
    more = merge(found, part=True) if len(found) > 1 else found[0]
    known = {key(entry) for entry in before["rows"]}
    rows = before["rows"] + [entry for entry in more["rows"] if key(entry) not in known]
    wall_s = before["parameters"]["wall_s"] + more["parameters"]["wall_s"]
    whole = {**before, "parameters": {**before["parameters"], "wall_s": wall_s}, "rows": rows,
             "lost": more.get("lost")}
    return {name: value for name, value in whole.items() if name != "lost" or value}


def merge(found, part=False):
    """One result from several, each with another seed: the median of each figure, and the band.

    What a result has beside rows and parameters is the first one's. A figure that one seed has lost
    is lost. With @part, all but the first result have some of the figures, and the others stay as
    the first has them.
    """
    tables = [{key(entry): entry["value"] for entry in one["rows"]} for one in found]
    lost = sorted({label for one in found for label in one.get("lost", ())})
    alike = tables[1:] if part else tables
    if not lost and (len({tuple(table) for table in alike}) != 1 or set(alike[0]) - set(tables[0])):
        raise BenchError("two seeds do not have the same figures")
    if len({one["kernel"] for one in found}) != 1:
        raise BenchError("two seeds do not have the same kernel")
    rows = []
    for entry in found[0]["rows"]:
        values_of = [table[key(entry)] for table in tables if key(entry) in table]
        if len(values_of) == len(tables):
            rows.append(row(*key(entry), values_of, entry["unit"], 6))
        elif part and not any(key(entry) in table for table in alike):
            rows.append(entry)
    wall_s = sum(one["parameters"]["wall_s"] for one in found)
    parameters = {**found[0]["parameters"], "seeds": len(found), "wall_s": wall_s}
    if part:
        parameters["seeds_of"] = "headline cases"
    return {**found[0], "parameters": parameters, **({"lost": lost} if lost else {}), "rows": rows}


def check(found):
    """Refuse a result that is not of the documented form."""
    for key in ("benchmark", "backend", "kernel", "parameters", "rows"):
        if key not in found:
            raise BenchError(f"the result lacks {key}")
    if not found["rows"]:
        raise BenchError("the result has no rows")
    for entry in found["rows"]:
        if tuple(entry) not in (ROW_KEYS, ROW_KEYS + BAND_KEYS):
            raise BenchError(f"a row has {', '.join(entry)} instead of {', '.join(ROW_KEYS)}")
        if "low" in entry and (entry["repeats"] < 2
                               or not entry["low"] <= entry["value"] <= entry["high"]):
            raise BenchError(f"{entry['case']}, {entry['scheduler']}: the band of "
                             f"{entry['metric']} is not one")
        if not isinstance(entry["value"], (int, float)) or entry["value"] < 0:
            raise BenchError(f"{entry['case']}, {entry['scheduler']}: "
                             f"{entry['metric']} is {entry['value']}")


def value(found, case, scheduler, metric):
    """One figure of a result, None if it has no such row."""
    wanted = (case, scheduler, metric)
    return next((entry["value"] for entry in found["rows"]
                 if (entry["case"], entry["scheduler"], entry["metric"]) == wanted), None)


def values(found, scheduler, metric, cases=None):
    """The figures that @scheduler has of @metric, in @cases or in all."""
    return [entry["value"] for entry in found["rows"]
            if (entry["scheduler"], entry["metric"]) == (scheduler, metric)
            and (cases is None or entry["case"] in cases)]


def unique(found, key):
    """The values of @key in order of first appearance."""
    return list(dict.fromkeys(entry[key] for entry in found["rows"]))


def cases_with(found, metric):
    """The cases that have @metric, in order."""
    return list(dict.fromkeys(entry["case"] for entry in found["rows"]
                              if entry["metric"] == metric))


def store(found, folder=None):
    """Write NAME.json, NAME.svg and NAME.png; returns the paths.

    Nothing is replaced unless all three could be made.
    """
    check(found)
    folder = folder or lab.RESULTS
    names = [f"{found['benchmark']}.{kind}" for kind in ("json", "svg", "png")]
    with lab.scratch() as aside:
        path = os.path.join(aside, names[0])
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(dump(found))
        lab.enter(["python3", os.path.join(lab.BENCH, "draw"), path, aside], "drawing the picture")
        for name in names:
            os.replace(os.path.join(aside, name), os.path.join(folder, name))
    return [os.path.join(folder, name) for name in names]


def store_rest(found):
    """Write NAME.json of a result that has lost cases; returns the paths.

    No picture shows what is left: those of an earlier run are removed.
    """
    check(found)
    names = [os.path.join(lab.RESULTS, f"{found['benchmark']}.{kind}")
             for kind in ("json", "svg", "png")]
    with open(f"{names[0]}.part", "w", encoding="utf-8") as handle:
        handle.write(dump(found))
    os.replace(f"{names[0]}.part", names[0])
    for name in names[1:]:
        if os.path.exists(name):
            os.unlink(name)
    return names[:1]


def rest(found):
    """The rows as text: a table that needs no case to be there."""
    return table(["case", "scheduler", "figure", "value", "unit"],
                 [[entry[key] for key in ("case", "scheduler", "metric", "value", "unit")]
                  for entry in found["rows"]])


def dump(found):
    """The result as JSON text, one row per line, so that diff can compare two results."""
    rows = ",\n".join("  " + json.dumps(entry) for entry in found["rows"])
    head = json.dumps({key: entry for key, entry in found.items() if key != "rows"}, indent=1)
    return head[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def cell(figure, form):
    """A figure as text, empty if there is none."""
    return "" if figure is None else form.format(figure)


def by_scheduler(found, metric, words, form, schedulers, cases):
    """A table of one metric: a line per case, a column per scheduler. Empty lines are left out."""
    lines = [[case, *(cell(value(found, case, name, metric), form) for name in schedulers)]
             for case in cases]
    return table([words, *schedulers], [line for line in lines if any(line[1:])])


def by_metric(found, case, metrics):
    """Lines of a table for one case: a line per scheduler, a column per metric {name: format}."""
    names = dict.fromkeys(entry["scheduler"] for entry in found["rows"] if entry["case"] == case)
    lines = [[name, *(cell(value(found, case, name, metric), form)
                      for metric, form in metrics.items())] for name in names]
    return [line for line in lines if any(line[1:])]


def table(header, lines):
    """Text of a table: the first column to the left, the others to the right."""
    cells = [header, *lines]
    widths = [max(len(str(line[i])) for line in cells) for i in range(len(header))]
    out = []
    for number, line in enumerate(cells):
        out.append("  ".join(str(text).ljust(width) if i == 0 else str(text).rjust(width)
                             for i, (text, width) in enumerate(zip(line, widths))).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
    return "\n".join(out)
