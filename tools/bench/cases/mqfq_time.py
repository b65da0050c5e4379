# SPDX-License-Identifier: GPL-2.0
"""time: two tenants that do different things, against what each has of the drive alone.

Each tenant is a cgroup of weight 100 with 64 requests outstanding, on the default ssdsim. Each load
runs alone first, under none. Beside another one, half of that is what a tenant may expect. A
tenant's slowdown is its rate alone over its rate beside the other: 2 if the drive's time is shared
equally and nothing is lost.

Figures: each tenant's slowdown; the lower of both over the higher, 1 if both are slowed down alike;
the drive's time that is used, the sum of both rates over those alone, in percent: what is above 100
is what the drive gains if it does both at once.
"""
from kit import fio, lab, report, rivals, style
from kit.tenants import tenant

ONE_LINE = "slowdown of tenants that do different things: bytes shared, and time shared"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048},
         "sysfs": {"ssdsim/fill": 50}}
# Costs are learned in the first seconds.
RAMP_S, WINDOW_S = 6, 4
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=libaio\nnorandommap\nrandrepeat=1\n"
        f"time_based\nruntime={WINDOW_S}s\nramp_time={RAMP_S}s\ncgroup_nodelete=1\n")
DEPTH = 64

READ_4K = tenant("4k reads", iodepth=DEPTH)
FUA = tenant("FUA writes", rw="randwrite", bs="16k", sync="dsync", iodepth=DEPTH)
# Name, tenants, whether the case is part of a quick look.
CASES = [
    ("4k:64k", [READ_4K, tenant("64k reads", bs="64k", iodepth=DEPTH)], False),
    ("4k:256k", [READ_4K, tenant("256k reads", bs="256k", iodepth=DEPTH)], True),
    ("read:write", [READ_4K, tenant("4k writes", rw="randwrite", iodepth=DEPTH)], False),
    ("read:FUA", [tenant("16k reads", bs="16k", iodepth=DEPTH), FUA], True),
    ("sequential:random", [tenant("64k in order", rw="read", bs="64k", iodepth=DEPTH),
                           tenant("64k reads", bs="64k", iodepth=DEPTH)], False),
]
TIME = "mq-mqfq, time"
BYTES = "mq-mqfq"
NAMES = ("none", "bfq, tuned", "io.cost, tuned", BYTES, TIME)
QUICK_NAMES = ("none", BYTES, TIME)


def _job_text(tenants):
    out = [HEAD]
    for number, entry in enumerate(tenants):
        options = "".join(f"{key}={value}\n" for key, value in entry["options"].items())
        out.append(f"[{entry['name']}]\ncgroup=tenant{number}\n{options}")
    return "\n".join(out)


def _way(name, tenants):
    weights = {f"tenant{number}": entry["weight"] for number, entry in enumerate(tenants)}
    if name != TIME:
        return rivals.way(name, weights)
    return {**rivals.way(BYTES, weights), "name": name, "tunables": {"cost": "time"},
            "fresh": True}


def _step(case, tenants, name):
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "measure": "fio",
            "job_text": _job_text(tenants), "who": [entry["name"] for entry in tenants],
            **_way(name, tenants)}


def steps(quick):
    """All measurements; those alone come first."""
    cases = [entry[:2] for entry in CASES if entry[2] or not quick]
    alone = {entry["name"]: entry for _, tenants in cases for entry in tenants}
    out = [{**_step("alone", [entry], "none"), "label": f"{name}, alone"}
           for name, entry in alone.items()]
    return out + [_step(case, tenants, name) for case, tenants in cases
                  for name in (QUICK_NAMES if quick else NAMES)]


def needs(step, cases):
    """Whether a figure of @cases needs @step: each does those alone."""
    return step["case"] in ("alone", *cases)


def rows(step, got, alone):
    """The figures of one step: @got and @alone are MB/s by tenant."""
    if step["case"] == "alone":
        return [report.row("alone", "none", f"bandwidth {who}", [got[who]], "MB/s")
                for who in step["who"]]
    # A tenant that had nothing at all counts as one that had a kilobyte a second.
    slowdown = {who: alone[who] / max(got[who], 0.001) for who in step["who"]}
    case, name = step["case"], step["name"]
    used = 100 * sum(got[who] / alone[who] for who in step["who"])
    return [*(report.row(case, name, f"slowdown {who}", [slowdown[who]], "1", digits=2)
              for who in step["who"]),
            report.row(case, name, "alike", [min(slowdown.values()) / max(slowdown.values())],
                       "1", digits=3),
            report.row(case, name, "time", [used], "%")]


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    plans = [todo[0::2], todo[1::2]]
    ran, results = lab.measure_virtual(args.kernel, CPUS, plans)
    got = {step["label"]: {who: fio.bandwidth_of_mb_s(jobs, who) for who in step["who"]}
           for step, jobs in lab.flat(plans, results)}
    todo = [step for step in todo if step["label"] in got]
    alone = {who: value for step in todo if step["case"] == "alone"
             for who, value in got[step["label"]].items()}
    parameters = {"device": "ssdsim, default profile, 2 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "runtime_s": WINDOW_S, "jobs": "generated"}
    return report.result("time", ran, parameters,
                         [entry for step in todo for entry in rows(step, got[step["label"]],
                                                                   alone)])


def _schedulers_of(result):
    return [name for name in NAMES if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    cases = report.cases_with(result, "alike")
    out = [report.by_scheduler(result, metric, words, form, _schedulers_of(result), cases)
           for metric, words, form in (
               ("alike", "the lower slowdown over the higher, 1: alike", "{:.2f}"),
               ("time", "the drive's time that is used, %", "{:.0f}"))]
    lines = [[case, who, *(report.cell(report.value(result, case, name, f"slowdown {who}"),
                                       "{:.2f}") for name in _schedulers_of(result))]
             for case in cases for who in _tenants(result, case)]
    return "\n\n".join([*out, report.table(["slowdown", "", *_schedulers_of(result)], lines)])


def _tenants(result, case):
    return [metric.removeprefix("slowdown ") for metric in report.unique(result, "metric")
            if metric.startswith("slowdown ")
            and report.value(result, case, "none", metric) is not None]


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    least = {name: min(report.values(result, name, "alike")) for name in _schedulers_of(result)}
    return (f"Two tenants that do different things: the lower slowdown is at least "
            f"{least[TIME]:.2f} of the higher with time shared, {least[BYTES]:.2f} with bytes, "
            f"{least['none']:.2f} under none")


def draw(result, plt):
    """A line per case: how alike the slowdowns are, and the drive's time that is used."""
    names, cases = _schedulers_of(result), report.cases_with(result, "alike")
    figure, axes = style.panels(plt, 1, 2, 4.2, 1 + 0.5 * len(cases))
    left, right = axes[0]
    for place, case in enumerate(cases):
        for number, name in enumerate(names):
            at = place + (number - (len(names) - 1) / 2) * 0.12
            look = {"color": style.SCHEDULERS[name], "marker": "o", "markersize": 5, "zorder": 3}
            left.plot([report.value(result, case, name, "alike")], [at], **look)
            right.plot([report.value(result, case, name, "time")], [at], **look)
    for axis, line in ((left, 1), (right, 100)):
        style.names_down(axis, cases, shown=axis is left)
        style.bands_across(axis, len(cases))
        style.guide(axis, line)
    left.set_xlim(0, 1.05)
    right.set_xlim(0)
    left.set_xlabel("the lower slowdown over the higher")
    right.set_xlabel("the drive's time that is used, %")
    return style.finish(figure, finding(result), style.conditions(result),
                        style.marks({name: style.SCHEDULERS[name] for name in names}))
