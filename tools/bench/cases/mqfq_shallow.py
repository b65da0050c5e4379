# SPDX-License-Identifier: GPL-2.0
"""shallow: mq-mqfq as it comes, with few requests outstanding and with many.

Tenants are cgroups on the default ssdsim. Under mq-mqfq no tunable is set. A second after the first
request, each tenant's bandwidth is taken for one second. The same load runs under none, and under
mq-mqfq with a D from SLOTS and a T of 64 KiB. The best fixed setting is the one with the most
bandwidth among those whose Jain's index is at least FAIR.

Figures: Jain's index of bandwidth over weight; how far the tenant is from its share that is
furthest; total bandwidth; for mq-mqfq as it comes the D that it found.
"""
import re

from kit import lab, report, style
from kit.tenants import jain, load, tenant

ONE_LINE = "mq-mqfq without a setting, from 16 to 1024 requests outstanding, against fixed D"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 1024},
         "sysfs": {"ssdsim/fill": 50}}
SLOTS, QUICK_SLOTS = (4, 6, 8, 12, 16, 24, 32, 64), (8, 16)
THROTTLE_KB = 64
SETTLE_S, RAMP_S, WINDOW_S = 1, 0.3, 1
FAIR = 0.99
AUTO = "mq-mqfq"


def _pair(depth, small, large):
    return [tenant("small", bs=small, iodepth=depth), tenant("large", bs=large, iodepth=depth)]


def _weights(depth, *weights):
    return [tenant(f"weight{weight}", weight=weight, iodepth=depth) for weight in weights]


# Name, tenants, whether the case is part of a quick look.
CASES = [
    ("8k:96k, 2 x 8", _pair(8, "8k", "96k"), True),
    ("8k:96k, 2 x 16", _pair(16, "8k", "96k"), False),
    ("8k:96k, 2 x 32", _pair(32, "8k", "96k"), True),
    ("8k:96k, 2 x 512", _pair(512, "8k", "96k"), False),
    ("4k:256k, 2 x 8", _pair(8, "4k", "256k"), False),
    ("4k:256k, 2 x 32", _pair(32, "4k", "256k"), False),
    ("weights 1:10, 2 x 8", _weights(8, 100, 1000), False),
    ("weights 1:10, 2 x 32", _weights(32, 100, 1000), True),
    ("weights 1:2.5:7, 3 x 16", _weights(16, 100, 250, 700), False),
    ("queues 1:3, 4 x 8", [tenant("one", iodepth=8, cpus_allowed="0"),
                           tenant("three", iodepth=8, numjobs=3, cpus_allowed="1-3",
                                  cpus_allowed_policy="split")], False),
    ("one alone, 1 x 64", [tenant("alone", iodepth=64)], False),
]


def _step(case, tenants, name, scheduler, tunables, ramp_s):
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "name": name,
            "scheduler": scheduler, "tunables": tunables, **load(tenants, ramp_s, WINDOW_S),
            "cgroups": {"control": scheduler,
                        "weights": {entry["name"]: entry["weight"] for entry in tenants}}}


def fixed_name(slots):
    """A fixed setting's name in the result."""
    return f"D {slots}"


def steps(quick):
    """All measurements, by case."""
    found = []
    for case, tenants, in_quick in CASES:
        if quick and not in_quick:
            continue
        found.append(_step(case, tenants, "none", "none", {}, RAMP_S))
        found += [_step(case, tenants, fixed_name(slots), "mq-mqfq",
                        {"slots": slots, "throttle_kb": THROTTLE_KB}, RAMP_S)
                  for slots in (QUICK_SLOTS if quick else SLOTS)]
        found.append({**_step(case, tenants, AUTO, "mq-mqfq", {}, SETTLE_S), "found": "auto"})
    return found


def rows(step, answer):
    """The figures of one step."""
    weights = dict(step["tenants"])
    got = {name: answer[name] / step["window_s"] / 1e6 for name in weights}
    part = {name: got[name] * sum(weights.values()) / (weights[name] * sum(got.values()))
            for name in weights}
    case, name = step["case"], step["name"]
    out = [report.row(case, name, "jain", [jain([got[who] / weights[who] for who in weights])],
                      "1", digits=4),
           report.row(case, name, "worst_deviation",
                      [100 * max(abs(part[who] - 1) for who in weights)], "%"),
           report.row(case, name, "bandwidth", [sum(got.values())], "MB/s")]
    slots = re.search(r"^slots auto found (\d+)", answer.get("found", ""), re.M)
    return out + ([report.row(case, name, "slots", [int(slots[1])], "requests", digits=0)]
                  if slots else [])


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    half = len(todo) // 2
    plans = [todo[:half], todo[half:]]
    ran, results = lab.measure_virtual(args.kernel, CPUS, plans, may_lose=True)
    parameters = {"device": "ssdsim, default profile, 1 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "settle_s": SETTLE_S, "runtime_s": WINDOW_S, "jobs": "generated"}
    return report.result("shallow", ran, parameters,
                         [entry for step, answer in lab.flat(plans, results)
                          for entry in rows(step, answer)])


def best_fixed(result, case):
    """(name, bandwidth) of the best fair fixed setting; (None, None) if none is fair."""
    fair = [(report.value(result, case, name, "bandwidth"), name)
            for name in report.unique(result, "scheduler") if name.startswith("D ")
            and (report.value(result, case, name, "jain") or 0) >= FAIR]
    bandwidth, name = max(fair, default=(None, None))
    return name, bandwidth


def table(result):
    """The figures as text."""
    lines = []
    for case in report.unique(result, "case"):
        def got(name, metric, form, where=case):
            return report.cell(report.value(result, where, name, metric), form)
        best, bandwidth = best_fixed(result, case)
        ours = report.value(result, case, AUTO, "bandwidth")
        lines.append([case, got("none", "jain", "{:.3f}"), got("none", "bandwidth", "{:.1f}"),
                      got(AUTO, "jain", "{:.3f}"), got(AUTO, "worst_deviation", "{:.0f}"),
                      f"{ours:.1f}", got(AUTO, "slots", "{:.0f}"),
                      f"{bandwidth:.1f} ({best})" if best else "none is fair",
                      f"{100 * ours / bandwidth:.0f}%" if best else ""])
    return report.table(["case", "none: Jain", "MB/s", "as it comes: Jain", "off %", "MB/s", "D",
                         "best fair fixed D", "of it"], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    cases = [case for case in report.unique(result, "case") if "alone" not in case]
    ours = min(report.value(result, case, AUTO, "jain") for case in cases)
    none = min(report.value(result, case, "none", "jain") for case in cases)
    return (f"mq-mqfq without a setting, a second after the first request: Jain's index at least "
            f"{ours:.3f}, {none:.3f} under none")


def draw(result, plt):
    """A line per case: Jain's index, and total bandwidth."""
    cases = report.unique(result, "case")
    figure, axes = style.panels(plt, 1, 2, 4.2, 1 + 0.34 * len(cases))
    left, right = axes[0]
    for place, case in enumerate(cases):
        for name, at in (("none", -0.14), (AUTO, 0.14)):
            look = {"color": style.SCHEDULERS[name], "marker": "o", "markersize": 5, "zorder": 3}
            left.plot([report.value(result, case, name, "jain")], [place + at], **look)
            right.plot([report.value(result, case, name, "bandwidth")], [place + at], **look)
        _, best = best_fixed(result, case)
        if best:
            right.plot([best], [place + 0.14], "o", markersize=10, markerfacecolor="none",
                       markeredgecolor=style.SCHEDULERS[AUTO])
    for axis in (left, right):
        style.names_down(axis, cases, shown=axis is left)
    style.guide(left, 1)
    left.set_xlim(0, 1.05)
    right.set_xlim(0)
    left.set_xlabel("Jain's index of bandwidth over weight")
    right.set_xlabel("total bandwidth, MB/s")
    legend = style.marks({name: style.SCHEDULERS[name] for name in ("none", AUTO)})
    footer = style.conditions(result, f"Ring: the best fixed D with a Jain's index of at least "
                                      f"{FAIR}. N x M: N tasks with M requests outstanding each.")
    return style.finish(figure, finding(result), footer, legend)
