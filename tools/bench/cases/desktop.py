# SPDX-License-Identifier: GPL-2.0
"""desktop: how long a program takes to start beside a copy and a build, by scheduler.

The program is Python with some 250 modules, on an ext4, of which nothing is in memory: it opens and
maps some 500 files, mostly one after the other. Beside it a large file is copied, and four jobs of
a build read small files and write others. All of it goes through the page cache, and copy and build
have less memory than files. The drive reads four times as slowly as ssdsim's default, so that the
guest's CPU is not the limit.

Program, copy and build are a cgroup each, as a desktop makes them, and all have the same weight:
nobody sets one there. Only "mq-mqfq, target" has a setting, TARGET_US for the program's reads.

Figures: seconds until the program has started, the median of STARTS and the longest; what copy and
build move meanwhile; and how long the guest's CPUs were busy. All of them share one clock: if that
is well below the time, they were not the limit. First the program is alone.
"""
import statistics
from dataclasses import replace

from kit import lab, report, rivals, style

ONE_LINE = "seconds until a program has started beside a copy and a build"

CPUS, MEM = 4, "4G"     # the drive's data is in memory, too
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024, "read_ns": 430000,
                                      "xfer_unit_ns": 102800}, "sysfs": {}}
WEIGHTS = {"program": 100, "copy": 100, "build": 100}
STARTS, TARGET_US = 5, 3000
OURS = "mq-mqfq, target"
NAMES = ("none", "mq-deadline", "kyber", "bfq", "bfq, tuned", "io.cost, tuned", "mq-mqfq", OURS)
QUICK_NAMES = ("none", "mq-mqfq")
UNITS = {"times": "1", "copy": "MB/s", "build": "MB/s", "busy": "%"}
ALONE, BESIDE = "alone", "beside a copy and a build"
# Metric: words, format.
METRICS = {"start": ("until it has started, s", "{:.2f}"), "times": ("times alone", "{:.1f}"),
           "longest start": ("the longest of them, s", "{:.2f}"),
           "copy": ("the copy, MB/s", "{:.1f}"), "build": ("the build, MB/s", "{:.1f}"),
           "busy": ("CPUs busy, % of one", "{:.0f}")}


def _step(case, name):
    way = rivals.way(name.removesuffix(", target"), WEIGHTS)
    if name == OURS:
        way["cgroups"]["targets_us"] = {"program": TARGET_US}
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "measure": "desktop",
            "beside": case == BESIDE, "starts": STARTS, **way, "name": name, "fresh": True}


def steps(quick):
    """The program alone, then beside the others under each scheduler."""
    return [_step(ALONE, "none"),
            *(_step(BESIDE, name) for name in (QUICK_NAMES if quick else NAMES))]


def rows(pairs):
    """The rows of all (step, answer); the program alone comes first."""
    out, alone_s = [], None
    for step, answer in pairs:
        start_s = statistics.median(answer["starts_s"])
        found = {"start": start_s, "longest start": max(answer["starts_s"]),
                 "busy": 100 * answer["busy_s"] / answer["seconds"]}
        if not step["beside"]:
            alone_s = start_s
        else:
            if alone_s:
                found["times"] = start_s / alone_s
            found.update({load: count / answer["seconds"] / 1e6
                          for load, count in answer["bytes"].items()})
        out += [report.row(step["case"], step["name"], metric, [value], UNITS.get(metric, "s"), 3)
                for metric, value in found.items()]
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    halves = [todo[0::2], todo[1::2]]       # so that both cores have work
    guest = replace(lab.virtual(args.kernel, CPUS), mem=MEM)
    ran, results = lab.measure([(guest, half) for half in halves], may_lose=True)
    pairs = lab.flat(halves, results)
    pairs.sort(key=lambda pair: todo.index(pair[0]))
    parameters = {"device": "ssdsim, default profile with reads four times as long, 1 GiB, 4 "
                            "hardware queues; ext4",
                  "cpus": CPUS, "starts": STARTS, "target_us": TARGET_US,
                  "jobs": "guest/desktop.py"}
    return report.result("desktop", ran, parameters, rows(pairs))


def _names(result):
    return [name for name in NAMES if report.value(result, BESIDE, name, "start") is not None]


def table(result):
    """The figures as text."""
    lines = [[f"{case}, {name}", *figures] for case in report.unique(result, "case")
             for name, *figures in report.by_metric(
                 result, case, {metric: form for metric, (_, form) in METRICS.items()})]
    return report.table(["", *(words for words, _ in METRICS.values())], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence: ours, none, and the best of the others."""
    starts = {name: report.value(result, BESIDE, name, "start") for name in _names(result)}
    others = [name for name in starts if name not in ("none", "mq-mqfq", OURS)]
    shown = [name for name in ("mq-mqfq", OURS, "none") if name in starts]
    shown += [min(others, key=starts.get)] if others else []
    words = "; ".join(f"{starts[name]:.2g} s under {name}" for name in shown)
    return (f"A program beside a copy and a build has started after {words}; alone after "
            f"{report.value(result, ALONE, 'none', 'start'):.2g} s")


def draw(result, plt):
    """A line per scheduler: the start, and what the others move."""
    names, panels = _names(result), ("start", "copy", "build")
    colors = [style.color_of(name) for name in names]
    figure, axes = style.panels(plt, 1, len(panels), 3.4, 1 + 0.3 * len(names))
    for axis, metric in zip(axes[0], panels):
        values = [report.value(result, BESIDE, name, metric) for name in names]
        style.dots(axis, values, colors)
        if metric == "start":
            longest = [report.value(result, BESIDE, name, "longest start") for name in names]
            for place, (low, high, color) in enumerate(zip(values, longest, colors)):
                axis.plot([low, high], [place, place], color=color, linewidth=1.2, zorder=2)
            style.guide(axis, report.value(result, ALONE, "none", metric))
        style.names_down(axis, names, shown=axis is axes[0][0])
        axis.set_xlabel(METRICS[metric][0])
        axis.set_xlim(0)
        style.room(axis)
    footer = style.conditions(
        result, f"Dot: the median of {STARTS} starts. Line: to the longest. Dotted: alone. All "
        "cgroups have the same weight.")
    return style.finish(figure, finding(result), footer)
