# SPDX-License-Identifier: GPL-2.0
"""mq-k2's bounds against the other schedulers: a real-time task's latency, all tasks' bandwidth.

Each case runs fio-jobs/latency/rt-*.fio once on a new drive: the load of the host has no influence
on virtual time. One real-time task is synchronous, with 2 ms between its requests. Beside it are
three best-effort tasks of depth 32.
"""
import os

from . import fio, lab, report, style
from .say import BenchError

PATTERNS = {"read": "sequential reads", "randread": "random reads", "write": "sequential writes",
            "randwrite": "random writes"}
BOUNDS = (1, 2, 4, 8, 16, 32, 64)
QUICK_BOUNDS = (2, 8, 32)
STOCK = ("mq-deadline", "kyber", "bfq")
CPUS = 4
MIN_SAMPLES = 2000      # with fewer, one request decides the 99.9th percentile
RT_JOB = "rt"
METRICS = ("p50", "p99", "p99.9")


def device(fill_pct):
    """The drive, of which @fill_pct percent are written before the run."""
    return {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096},
            "sysfs": {"ssdsim/fill": fill_pct}}


def plan(pattern, bounds, drive, stock=STOCK):
    """The steps of one pattern: none first, then rising bounds, then the kernel's own."""
    cases = [("none", "none", {})]
    cases += [(f"mq-k2-{bound}", "mq-k2", {"max_inflight": bound}) for bound in bounds]
    cases += [(name, name, {}) for name in stock]
    return [{"label": f"{PATTERNS[pattern]}, {label}", "name": label, "case": pattern,
             "scheduler": scheduler, "tunables": tunables, "device": drive, "fresh": True,
             "measure": "fio", "job": os.path.join(lab.JOBS, "latency", f"rt-{pattern}.fio")}
            for label, scheduler, tunables in cases]


def rows(step, jobs):
    """The rows of one case."""
    nr = fio.nr_ios(jobs, RT_JOB)
    if nr < MIN_SAMPLES:
        raise BenchError(f"{step['label']}: only {nr} real-time requests")
    latency = fio.latency_us(jobs, RT_JOB)
    where = (step["case"], step["name"])
    out = [report.row(*where, f"rt_{metric}", [latency[metric]], "us") for metric in METRICS]
    return [*out, report.row(*where, "bandwidth", [fio.bandwidth_mb_s(jobs)], "MB/s")]


def measured(name, args, drive, filled, stock):
    """The result of benchmark @name on @drive, which is @filled, in words."""
    patterns = ("randread",) if args.quick else tuple(PATTERNS)
    bounds = QUICK_BOUNDS if args.quick else BOUNDS
    plans = [plan(pattern, bounds, drive, stock) for pattern in patterns]
    ordered = [step["label"] for steps in plans for step in steps]
    if args.quick:      # halves, so that both cores have work
        plans = [plans[0][0::2], plans[0][1::2]]
    run, results = lab.measure_virtual(args.kernel, CPUS, plans, may_lose=True)
    found = {step["label"]: rows(step, jobs) for step, jobs in lab.flat(plans, results)}
    parameters = {"device": f"ssdsim, default profile, 4 GiB, {filled}, 4 hardware queues",
                  "cpus": CPUS, "block_bytes": 4096,
                  "rt": "1 task, depth 1, 2 ms between requests, class real-time level 0, "
                        "2100 requests",
                  "be": "3 tasks, depth 32, class best effort level 4",
                  "jobs": "fio-jobs/latency/rt-*.fio"}
    return report.result(name, run, parameters,
                         [entry for label in ordered for entry in found.get(label, ())])


def table(result):
    """The figures as text, one table per pattern."""
    out = []
    for case in report.unique(result, "case"):
        base_us = report.value(result, case, "none", "rt_p99.9")
        base_mb_s = report.value(result, case, "none", "bandwidth")
        lines = []
        for scheduler in report.unique(result, "scheduler"):
            times = [report.value(result, case, scheduler, f"rt_{metric}") for metric in METRICS]
            bandwidth = report.value(result, case, scheduler, "bandwidth")
            lines.append([scheduler, *(f"{time:.0f}" for time in times),
                          f"{base_us / times[-1]:.1f}x", f"{bandwidth:.1f}",
                          f"{bandwidth / base_mb_s:.0%}"])
        header = [PATTERNS[case], "p50 us", "p99 us", "p99.9 us", "p99.9 lower", "MB/s", "of none"]
        out.append(report.table(header, lines))
    return "\n\n".join(out)


# ---- the picture ----

def _tenfold(result, case):
    """The largest bound whose p99.9 is at most a tenth of none's, else that with the least."""
    tails = {name: report.value(result, case, name, "rt_p99.9")
             for name in report.unique(result, "scheduler") if name.startswith("mq-k2-")}
    limit = report.value(result, case, "none", "rt_p99.9") / 10
    below = [name for name in tails if tails[name] <= limit]
    return below[-1] if below else min(tails, key=tails.get)


def finding(result, drive):
    """What the picture shows, in a sentence; @drive names the drive."""
    cases = report.unique(result, "case")
    case = "randread" if "randread" in cases else cases[0]
    name = _tenfold(result, case)
    tails = [report.value(result, case, who, "rt_p99.9") / 1000 for who in ("none", name)]
    share = (report.value(result, case, name, "bandwidth")
             / report.value(result, case, "none", "bandwidth"))
    return (f"Real-time p99.9 beside {PATTERNS[case]} on {drive}: {tails[0]:.3g} ms under none, "
            f"{tails[1]:.3g} ms under mq-k2 with max_inflight {name.rpartition('-')[2]}, "
            f"which keeps {share:.0%} of the bandwidth")


def _draw_latency(axis, result, case, names, colors):
    tails = [report.value(result, case, name, "rt_p99.9") / 1000 for name in names]
    middles = [report.value(result, case, name, "rt_p50") / 1000 for name in names]
    for place, (low, high, color) in enumerate(zip(middles, tails, colors)):
        axis.plot([low, high], [place, place], color=color, linewidth=1.2, alpha=0.6, zorder=2)
        axis.plot([low], [place], marker="|", color=color, markersize=9, markeredgewidth=1.6)
    axis.set_xscale("log")
    style.dots(axis, tails, colors)
    style.guide(axis, tails[0])
    style.room(axis, right=0.22)
    style.log_ticks(axis)
    axis.set_xlabel("latency of the real-time task, ms (log)")


def _draw_bandwidth(axis, result, case, names, colors):
    values = [report.value(result, case, name, "bandwidth") for name in names]
    style.dots(axis, values, colors)
    style.guide(axis, values[0])
    axis.set_xlim(0, max(values) * 1.25)
    axis.set_xlabel("bandwidth of all tasks, MB/s")


def draw(result, plt, drive):
    """Two panels per pattern: latency from p50 to p99.9, and bandwidth."""
    cases, names = report.unique(result, "case"), report.unique(result, "scheduler")
    colors = [style.color_of(name) for name in names]
    columns = min(2, len(cases))
    lines = -(-len(cases) // columns)
    figure, axes = style.panels(plt, lines, 2 * columns, 3.1, 0.9 + 0.19 * len(names),
                                gridspec_kw={"width_ratios": [1.5, 1] * columns})
    for number, case in enumerate(cases):
        left, right = axes[number // columns][2 * (number % columns):][:2]
        _draw_latency(left, result, case, names, colors)
        _draw_bandwidth(right, result, case, names, colors)
        style.names_down(left, [name.replace("mq-k2-", "mq-k2, bound ") for name in names])
        style.names_down(right, names, shown=False)
        left.set_title(f"4 KiB {PATTERNS[case]}", loc="left")
    parameters = result["parameters"]
    footer = style.conditions(
        result, "Bar: p50. Dot, with its value: p99.9. Dotted line: none.",
        f"Real-time: {parameters['rt']}. Beside it: {parameters['be']}.")
    return style.finish(figure, finding(result, drive), footer)
