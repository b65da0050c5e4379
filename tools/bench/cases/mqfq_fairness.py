# SPDX-License-Identifier: GPL-2.0
"""fairness: each tenant's share of a drive, by scheduler, and what that costs in total.

Tenants are cgroups, with weights. The cases are figure 5 of the MQFQ paper (size of requests,
number of queues, weights), the fairness set of isol-bench (2 to 256 cgroups, equal and rising
weights, sizes, sequential against random, reads against writes), and a victim beside an antagonist.
Each case is a second of virtual time in which all tenants have I/O. It runs on ssdsim, and some
cases also on an NVMe/TCP namespace over it. 256 tenants have 16 seconds on a drive that is four
times as slow.

kit/reactions.py has what shares do not tell: how a tenant fares that asks for little, and how fast
shares follow a change.

Figures: bandwidth per tenant; Jain's index of bandwidth over weight, 1 if every tenant has its
share; the tenant that is furthest from its share; total bandwidth.
"""
from kit import lab, reactions, report, rivals, style
from kit.tenants import jain, load, many, rising, tenant

ONE_LINE = "shares, Jain's index and bandwidth: MQFQ's figure 5 and isol-bench's set"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096},
         "sysfs": {"ssdsim/fill": 50}}
# Host, network and drive share a guest of 1000 MIPS; the drive has to be the bottleneck.
FABRIC = {"kind": "nvme-tcp",
          "params": {"queues": CPUS, "channels": 2, "nodata": 1, "size_mb": 4096},
          "sysfs": {"ssdsim/fill": 50}}
# Tenants may differ by a number of bytes that does not grow with time (theorem 1). With 256 of them
# a share is small, and exceeds that number only after a long time. A drive that is four times as
# slow keeps the guest's work in that time the same.
SLOW = {**DRIVE, "params": {**DRIVE["params"], "read_ns": 430000, "xfer_unit_ns": 102800}}
DEVICES = {"ssdsim": DRIVE, "slow ssdsim": SLOW, "nvme-tcp": FABRIC}
BOTH = ("ssdsim", "nvme-tcp")
SCHEDULERS = tuple(rivals.WAYS)
QUICK_SCHEDULERS = ("none", "mq-mqfq")
# For the cases that are not part of a quick look, to save time.
MAIN_SCHEDULERS = ("none", "bfq", "bfq, tuned", "io.cost, tuned", "io.max", "mq-mqfq")
# As it comes, mq-mqfq finds T and D in the first second of a load. kit/reactions.py has what
# follows a change.
RAMP_S = 1
WINDOWS_S = {"ssdsim": 1, "slow ssdsim": 16, "nvme-tcp": 1}
THREE = {"numjobs": 3, "cpus_allowed": "1-3", "cpus_allowed_policy": "split"}

# Name, tenants, whether the case is part of a quick look, and the devices that it is for.
CASES = [
    ("size 4k:64k", [tenant("small"), tenant("large", bs="64k")], True, BOTH),
    ("size 4k:128k", [tenant("small"), tenant("large", bs="128k")], False, ("ssdsim",)),
    ("size 4k:256k", [tenant("small"), tenant("large", bs="256k", iodepth=64)], False,
     ("ssdsim",)),
    ("queues 1:3", [tenant("one", cpus_allowed="0"), tenant("three", **THREE)], True, BOTH),
    ("weights 1:3", [tenant("low"), tenant("high", weight=300)], True, BOTH),
    ("weights 1:10", [tenant("low"), tenant("high", weight=1000)], False, ("ssdsim",)),
    ("2 equal", many(2), False, ("ssdsim",)),
    ("4 equal", many(4, iodepth=64), False, ("ssdsim",)),
    ("8 equal", many(8, iodepth=32), False, ("ssdsim",)),
    ("16 equal", many(16, iodepth=16), True, BOTH),
    ("64 equal", many(64, iodepth=6), False, ("ssdsim",)),
    ("256 equal", many(256, iodepth=2), False, ("slow ssdsim",)),
    ("4 rising", many(4, rising(4), iodepth=64), False, ("ssdsim",)),
    ("8 rising", many(8, rising(8), iodepth=48), False, ("ssdsim",)),
    ("16 rising", many(16, rising(16), iodepth=32), False, ("ssdsim",)),
    ("sequential:random", [tenant("sequential", rw="read", bs="64k"), tenant("random", bs="64k")],
     False, ("ssdsim",)),
    ("read:write", [tenant("reader"), tenant("writer", rw="randwrite")], False, ("ssdsim",)),
]


def _step(device, case, what, scheduler):
    return {"label": f"{device}, {case}, {scheduler}", "case": case, "device": DEVICES[device],
            "on": device, "measure": "fio", **what,
            **rivals.way(scheduler, dict(what["tenants"]))}


def _schedulers(quick, in_quick):
    if quick:
        return QUICK_SCHEDULERS
    return SCHEDULERS if in_quick else MAIN_SCHEDULERS


def _share_steps(device, quick):
    """The cases about shares on @device, each under its schedulers."""
    out = []
    for case, tenants, in_quick, on in CASES:
        if (in_quick or not quick) and device in on:
            what = load(tenants, RAMP_S, WINDOWS_S[device])
            out += [_step(device, case, what, name) for name in _schedulers(quick, in_quick)]
    return out


def plans(quick):
    """Plans of alike length, so that both cores have work."""
    drive = _share_steps("ssdsim", quick)
    for name, (words, *_) in reactions.CASES.items():
        drive += [{**_step("ssdsim", words, reactions.job(name), scheduler), "reaction": name}
                  for scheduler in _schedulers(quick, False)]
    found = (_share_steps("nvme-tcp", quick), drive[0::3], drive[1::3], drive[2::3],
             _share_steps("slow ssdsim", quick))
    return [plan for plan in found if plan]


def needs(step, cases):
    """Whether a figure of @cases needs @step: on another drive, a case has another name."""
    return step["case"] in cases and step["on"] == "ssdsim"


def rows(step, answer):
    """The rows of one case; @answer: fio's jobs of a reaction, else the bytes of each tenant."""
    if "reaction" in step:
        return reactions.rows(step["case"], step["reaction"], step["name"], answer)
    weights = dict(step["tenants"])
    total_weight = sum(weights.values())
    got = {name: answer[name] / step["window_s"] / 1e6 for name in weights}
    total = sum(got.values())
    shares = [got[name] / weights[name] for name in weights]
    worst = max(abs(got[name] / total * total_weight / weights[name] - 1) for name in weights)
    case = step["case"] if step["on"] == "ssdsim" else f"{step['case']}, {step['on']}"
    out = [report.row(case, step["name"], "jain", [jain(shares)], "1", digits=4),
           report.row(case, step["name"], "worst_deviation", [100 * worst], "%"),
           report.row(case, step["name"], "bandwidth", [total], "MB/s")]
    if len(weights) <= 4:
        out += [report.row(case, step["name"], f"bandwidth {name}", [got[name]], "MB/s")
                for name in weights]
    return out


def _labels_in_order():
    cases = [entry[0] for entry in CASES] + [entry[0] for entry in reactions.CASES.values()]
    return [f"{device}, {case}, {scheduler}" for device in DEVICES for case in cases
            for scheduler in SCHEDULERS]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo, may_lose=True)
    found = {step["label"]: rows(step, answer) for step, answer in lab.flat(todo, results)}
    parameters = {"device": "ssdsim, default profile, 4 GiB, half filled, 4 hardware queues; "
                            "nvme-tcp: the same with 2 channels, behind the kernel's NVMe target "
                            "and TCP on loopback; slow ssdsim: reads four times as long, and 16 s",
                  "cpus": CPUS, "runtime_s": WINDOWS_S["ssdsim"],
                  "jobs": "generated; fio-jobs/fairness has some to run by hand"}
    return report.result("fairness", ran, parameters, [entry for label in _labels_in_order()
                                                       for entry in found.get(label, ())])


def _schedulers_of(result):
    return [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    schedulers, cases = _schedulers_of(result), report.cases_with(result, "jain")
    out = [report.by_scheduler(result, metric, words, form, schedulers, cases)
           for metric, words, form in (
               ("jain", "Jain's index of bandwidth / weight", "{:.3f}"),
               ("worst_deviation", "furthest from its share, %", "{:.0f}"),
               ("bandwidth", "total bandwidth, MB/s", "{:.0f}"))]
    lines = []
    for metric, (words, form) in reactions.TABLE.items():
        case = report.cases_with(result, metric)[0]
        lines.append([words, *(report.cell(report.value(result, case, name, metric), form)
                               for name in schedulers)])
    return "\n\n".join([*out, report.table(["", *schedulers], lines)])


# ---- the picture ----

# Metric: title of the panel, place of its line.
PANELS = {"slowdown": ("slowdown of a modest tenant\nbeside an antagonist", 1),
          "settle_coming": ("ms until shares settle\nwhen a tenant comes", None),
          "settle_going": ("ms until the other has\nall when it has gone", None),
          "bandwidth shallow": ("MB/s of a depth-1 tenant\nbeside eight deep ones", None)}


def finding(result):
    """What the picture shows, in a sentence: schedulers that have all cases, ours first."""
    cases = report.cases_with(result, "jain")
    worst = {name: report.values(result, name, "jain", cases) for name in _schedulers_of(result)}
    complete = sorted((name for name in worst if len(worst[name]) == len(cases)),
                      key=lambda name: -min(worst[name]))
    figures = ", ".join(f"{min(worst[name]):.3f} under {name}" for name in complete)
    return f"Jain's index of the least fair of {len(cases)} cases: {figures}"


def _draw_shares(result, left, right):
    schedulers, cases = _schedulers_of(result), report.cases_with(result, "jain")
    for place, case in enumerate(cases):
        base = report.value(result, case, "none", "bandwidth")
        shown = [name for name in schedulers if report.value(result, case, name, "jain")]
        for number, name in enumerate(shown):
            # Side by side, so that no mark hides another.
            at = place + (number - (len(shown) - 1) / 2) * 0.1
            look = {"color": style.SCHEDULERS[name], "marker": "o", "markersize": 4.5, "zorder": 3}
            left.plot([report.value(result, case, name, "jain")], [at], **look)
            right.plot([100 * report.value(result, case, name, "bandwidth") / base], [at], **look)
    for axis, line in ((left, 1), (right, 100)):
        style.names_down(axis, cases, shown=axis is left)
        style.bands_across(axis, len(cases))
        style.guide(axis, line)
    left.set_xlim(0, 1.05)
    left.set_xlabel("Jain's index of bandwidth over weight (1: every tenant has its share)")
    right.set_xlim(0)
    right.set_xlabel("total bandwidth, % of that under none")


def _draw_panel(result, axis, metric):
    words, line = PANELS[metric]
    entries = [entry for entry in result["rows"] if entry["metric"] == metric]
    for place, entry in enumerate(entries):
        drawn = axis.bar(place, entry["value"], color=style.SCHEDULERS[entry["scheduler"]],
                         width=0.6)
        axis.bar_label(drawn, [f"{entry['value']:.3g}"], padding=1, **style.VALUE)
    if line is not None:
        style.guide(axis, line, across=True)
    axis.set_xticks(range(len(entries)),
                    [entry["scheduler"].replace(", ", ",\n") for entry in entries])
    axis.set_title(words)
    axis.margins(y=0.15)


def draw(result, plt):
    """Above, a line per case: Jain's index, and total bandwidth. Below, the reactions."""
    schedulers = _schedulers_of(result)
    shares = 0.6 + 0.45 * len(report.cases_with(result, "jain"))
    figure = plt.figure(figsize=(10.5, shares + 2.4))
    grid = figure.add_gridspec(2, 4, height_ratios=[shares, 2.2])
    _draw_shares(result, figure.add_subplot(grid[0, :2]), figure.add_subplot(grid[0, 2:]))
    for place, metric in enumerate(PANELS):
        _draw_panel(result, figure.add_subplot(grid[1, place]), metric)
    legend = style.marks({name: style.SCHEDULERS[name] for name in schedulers})
    return style.finish(figure, finding(result), style.conditions(result), legend)
