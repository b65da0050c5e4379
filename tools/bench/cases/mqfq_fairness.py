# SPDX-License-Identifier: GPL-2.0
"""fairness: who gets how much of a drive, by scheduler, and what that costs in total.

Tenants are cgroups, with weights. The cases are figure 5 of the MQFQ paper (size of requests, number of queues, weights) and the
fairness set of isol-bench (2 to 256 cgroups, equal and rising weights, sizes, sequential against random, reads against writes), and
a victim beside an antagonist. Each case is a second of virtual time, in which all tenants are there, on ssdsim and, a part of them, on an NVMe/TCP namespace over it; 256 tenants
have 16 seconds on a drive that is four times as slow.

What shares do not tell, how a tenant fares that asks for little, and how fast shares follow a change, is in reactions.py.

Figures: bandwidth per tenant; Jain's index of bandwidth over weight, (sum x)^2 / (n sum x^2), 1 if everyone has his share; the tenant
that is furthest from its share; total bandwidth.
"""
import os
import time

from kit import reactions
from kit import lab, report

ONE_LINE = "share per tenant, Jain's index and total bandwidth, MQFQ's figure 5 and isol-bench's set (vm, virtual time)"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096}, "sysfs": {"ssdsim/fill": 50}}
# Host, network and drive share a guest of 1000 MIPS, and the drive has to be the bottleneck.
FABRIC = {"kind": "nvme-tcp", "params": {"queues": CPUS, "channels": 2, "nodata": 1, "size_mb": 4096}, "sysfs": {"ssdsim/fill": 50}}
# What tenants may differ by is a number of bytes, whatever the time (theorem 1). With 256 of them a share is small, and comes to more than
# that number only in a long time; on a drive four times as slow, so that the guest has not four times as much to do.
SLOW = {**DRIVE, "params": {**DRIVE["params"], "read_ns": 430000, "xfer_unit_ns": 102800}}
DEVICES = {"ssdsim": DRIVE, "slow ssdsim": SLOW, "nvme-tcp": FABRIC}
BOTH = ("ssdsim", "nvme-tcp")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "io.cost", "mq-mqfq")
QUICK_SCHEDULERS = ("none", "mq-mqfq")
# In the cases that are not part of a quick look, for the time that it takes.
MAIN_SCHEDULERS = ("none", "bfq", "mq-mqfq")
# fio is ended when the window has passed.
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=libaio\nnorandommap\nrandrepeat=1\ntime_based\nruntime=100s\n"
        "cgroup_nodelete=1\n")
RAMP_S = 0.3
WINDOWS_S = {"ssdsim": 1, "slow ssdsim": 16, "nvme-tcp": 1}


def tenant(name, weight=100, **options):
    """One cgroup with one job."""
    return {"name": name, "weight": weight, "options": {"rw": "randread", "bs": "4k", "iodepth": 128, **options}}


def many(count, weights=None, **options):
    """@count tenants that differ in nothing but their weights."""
    return [tenant(f"t{i + 1}", (weights or [100] * count)[i], **options) for i in range(count)]


def rising(count):
    """Weights from 1 to @count times the default, and within the range."""
    return [100 * (i + 1) for i in range(count)]


# Name, tenants, whether the case is part of a quick look, and the devices that it is for.
CASES = [
    ("size 4k:64k", [tenant("small"), tenant("large", bs="64k")], True, BOTH),
    ("size 4k:128k", [tenant("small"), tenant("large", bs="128k")], False, ("ssdsim",)),
    ("size 4k:256k", [tenant("small"), tenant("large", bs="256k", iodepth=64)], False, ("ssdsim",)),
    ("queues 1:3", [tenant("one", cpus_allowed="0"), tenant("three", numjobs=3, cpus_allowed="1-3", cpus_allowed_policy="split")],
     True, BOTH),
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
    ("sequential:random", [tenant("sequential", rw="read", bs="64k"), tenant("random", bs="64k")], False, ("ssdsim",)),
    ("read:write", [tenant("reader"), tenant("writer", rw="randwrite")], False, ("ssdsim",)),
]


def job_text(tenants):
    """A fio job file with a section, and a cgroup, for each tenant."""
    out = [HEAD]
    for entry in tenants:
        out.append(f"[{entry['name']}]\ncgroup={entry['name']}\n" + "".join(f"{key}={value}\n" for key, value in entry["options"].items()))
    return "\n".join(out)


def _step(device, case, load, scheduler):
    return {"label": f"{device}, {case}, {scheduler}", "case": case, "device": DEVICES[device], "on": device, "name": scheduler,
            "scheduler": "none" if scheduler == "io.cost" else scheduler, "tunables": {}, "measure": "fio", **load,
            "cgroups": {"control": scheduler, "weights": dict(load["tenants"])}}


def _share_load(tenants, window_s):
    return {"measure": "shares", "ramp_s": RAMP_S, "window_s": window_s, "job_text": job_text(tenants), "tenants": [(entry["name"], entry["weight"]) for entry in tenants]}


def plans(quick):
    """A plan per device and half of the cases, so that both cores have something to do."""
    def chosen(in_quick):
        return QUICK_SCHEDULERS if quick else SCHEDULERS if in_quick else MAIN_SCHEDULERS
    steps = {device: [_step(device, case, _share_load(tenants, WINDOWS_S[device]), scheduler) for case, tenants, in_quick, on in CASES
                      if (in_quick or not quick) and device in on for scheduler in chosen(in_quick)]
             for device in DEVICES}
    for name, (words, *_) in reactions.CASES.items():
        steps["ssdsim"] += [{**_step("ssdsim", words, reactions.job(name), scheduler), "reaction": name} for scheduler in chosen(False)]
    drive = steps["ssdsim"]
    return [plan for plan in (steps["nvme-tcp"], drive[0::3], drive[1::3], drive[2::3], steps["slow ssdsim"]) if plan]


def jain(shares):
    """Jain's index of @shares."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def rows(step, answer):
    """The rows of one case from what run_steps found: fio's jobs of a reaction, else the bytes of each tenant."""
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
        out += [report.row(case, step["name"], f"bandwidth {name}", [got[name]], "MB/s") for name in weights]
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    todo = plans(args.quick)
    release, results = lab.run_plans([(guest, plan) for plan in todo])
    found = {step["label"]: rows(step, answer) for plan, answers in zip(todo, results) for step, answer in zip(plan, answers)}
    ordered = [f"{device}, {case}, {scheduler}" for device in DEVICES for case in (*(entry[0] for entry in CASES), *(entry[0] for entry in reactions.CASES.values()))
               for scheduler in SCHEDULERS]
    return {"benchmark": "fairness", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, default profile, 4 GiB, half filled, 4 hardware queues; nvme-tcp: the same with 2 channels, behind "
                           "the kernel's NVMe target and TCP on loopback; slow ssdsim: reads four times as long, and 16 s", "cpus": CPUS,
                           "runtime_s": WINDOWS_S["ssdsim"],
                           "jobs": "generated; fio-jobs/fairness has some to run by hand",
                           "wall_s": round(time.monotonic() - started)},
            "rows": [entry for label in ordered if label in found for entry in found[label]]}


def share_cases(result):
    """The cases that are about shares, in order."""
    return list(dict.fromkeys(entry["case"] for entry in result["rows"] if entry["metric"] == "jain"))


def table(result):
    """The figures as text."""
    schedulers = [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]
    out = []
    for metric, words, form in (("jain", "Jain's index of bandwidth / weight", "{:.3f}"), ("worst_deviation", "furthest from its share, %", "{:.0f}"),
                                ("bandwidth", "total bandwidth, MB/s", "{:.0f}")):
        lines = []
        for case in share_cases(result):
            values = [report.value(result, case, scheduler, metric) for scheduler in schedulers]
            lines.append([case, *("" if value is None else form.format(value) for value in values)])
        out.append(report.table([words, *schedulers], lines))
    lines = []
    for metric, (words, form) in reactions.TABLE.items():
        case = next(entry["case"] for entry in result["rows"] if entry["metric"] == metric)
        values = [report.value(result, case, scheduler, metric) for scheduler in schedulers]
        lines.append([words, *("" if value is None else form.format(value) for value in values)])
    out.append(report.table(["", *schedulers], lines))
    return "\n\n".join(out)


COLORS = {"none": "#b0413e", "mq-deadline": "#8a8a8a", "kyber": "#b8860b", "bfq": "#5a9a6a", "io.cost": "#8064a2", "mq-mqfq": "#1f4e8c"}
# Metric: what a panel says, where its line is.
PANELS = {"slowdown": ("slowdown of a modest tenant\nbeside an antagonist", 1), "settle_coming": ("ms until shares settle\nwhen a tenant comes", None),
          "settle_going": ("ms until the other has\nall when it has gone", None), "bandwidth shallow": ("MB/s of a depth-1 tenant\nbeside eight deep ones", None)}


def _draw_shares(result, schedulers, left, right):
    cases = share_cases(result)
    for place, case in enumerate(cases):
        base = report.value(result, case, "none", "bandwidth")
        for name in schedulers:
            if report.value(result, case, name, "jain") is None:
                continue
            style = {"color": COLORS[name], "marker": "o" if name == "mq-mqfq" else "s", "linestyle": "", "alpha": 0.9,
                     "markersize": 8 if name == "mq-mqfq" else 5.5, "zorder": 4 if name == "mq-mqfq" else 3}
            left.plot([report.value(result, case, name, "jain")], [place], label=name if place == 0 else None, **style)
            right.plot([100 * report.value(result, case, name, "bandwidth") / base], [place], **style)
    for axes in (left, right):
        axes.set_yticks(range(len(cases)), cases if axes is left else [""] * len(cases), fontsize=8)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.invert_yaxis()
    left.axvline(1, color="#888888", linewidth=0.7, linestyle=":")
    right.axvline(100, color="#888888", linewidth=0.7, linestyle=":")
    left.set_xlabel("Jain's index of bandwidth over weight (1: everyone has his share)")
    right.set_xlabel("total bandwidth, % of that under none")
    right.set_xlim(0)


def _draw_panel(result, axes, metric):
    words, line = PANELS[metric]
    entries = [entry for entry in result["rows"] if entry["metric"] == metric]
    for place, entry in enumerate(entries):
        axes.bar(place, entry["value"], color=COLORS[entry["scheduler"]], width=0.6)
        axes.text(place, entry["value"], f"{entry['value']:g}", ha="center", va="bottom", fontsize=8)
    if line is not None:
        axes.axhline(line, color="#888888", linewidth=0.7, linestyle=":")
    axes.set_xticks(range(len(entries)), [entry["scheduler"] for entry in entries], fontsize=8)
    axes.set_title(words, fontsize=9)
    axes.margins(y=0.18)


def draw(result, plt):
    """Above, left Jain's index, right total bandwidth against none, a line per case, a mark per scheduler; below, the reactions."""
    schedulers = [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]
    shares = 1.2 + 0.3 * len(share_cases(result))
    height = shares + 3.4
    figure = plt.figure(figsize=(11, height))
    grid = figure.add_gridspec(2, 4, height_ratios=[shares, 2.2])
    _draw_shares(result, schedulers, figure.add_subplot(grid[0, :2]), figure.add_subplot(grid[0, 2:]))
    for place, metric in enumerate(PANELS):
        _draw_panel(result, figure.add_subplot(grid[1, place]), metric)
    figure.suptitle("Who gets how much: tenants on one drive, by scheduler", fontsize=12, fontweight="bold", y=1 - 0.1 / height, va="top")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 1 - 0.38 / height), ncols=len(schedulers), frameon=False, fontsize=9)
    parameters = result["parameters"]
    figure.text(0.01, 0.01, f"Device: {parameters['device']}.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, "
                f"{parameters['cpus']} CPUs, {parameters['runtime_s']} s per case.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.45 / height, 1, 1 - 0.65 / height))
    return figure
