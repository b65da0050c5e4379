# SPDX-License-Identifier: GPL-2.0
"""latency: what a bound on the requests in flight gives a real-time task, and what it takes from the rest.

Figures 4 and 5 of the K2 analysis, on ssdsim in virtual time: one real-time task, synchronous, 2 ms between its requests, beside
three best-effort tasks of depth 32; under none, under mq-k2 with bounds 1 to 64, and under the schedulers of the kernel.
Each case runs fio-jobs/latency/rt-*.fio on a new, half filled drive. A case is run once: under
virtual time the host's load has no influence on it.
"""
import os
import time

from kit import fio, lab, report
from kit.say import BenchError

ONE_LINE = "tail latency of a real-time task and total bandwidth, K2's figures 4 and 5 (vm, virtual time)"

PATTERNS = {"read": "sequential reads", "randread": "random reads", "write": "sequential writes",
            "randwrite": "random writes"}
BOUNDS = (1, 2, 4, 8, 16, 32, 64)
QUICK_BOUNDS = (2, 8, 32)
STOCK = ("mq-deadline", "kyber", "bfq")
CPUS = 4
DEVICE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096}, "sysfs": {"ssdsim/fill": 50}}
MIN_SAMPLES = 2000      # below this the 99.9th percentile is one request's luck
RT_JOB, BE_JOB = "rt", "be"
METRICS = ("p50", "p99", "p99.9")


def _plan(pattern, bounds, device=DEVICE, stock=STOCK):
    """The steps of one pattern: none first, then rising bounds, then the kernel's own."""
    cases = [("none", "none", {})]
    cases += [(f"mq-k2-{bound}", "mq-k2", {"max_inflight": bound}) for bound in bounds]
    cases += [(name, name, {}) for name in stock]
    return [{"label": f"{PATTERNS[pattern]}, {label}", "name": label, "pattern": pattern, "scheduler": scheduler,
             "tunables": tunables, "device": device, "fresh": True, "measure": "fio",
             "job": os.path.join(lab.JOBS, "latency", f"rt-{pattern}.fio")} for label, scheduler, tunables in cases]


def rows(step, jobs):
    """The rows of one case."""
    if fio.nr_ios(jobs, RT_JOB) < MIN_SAMPLES:
        raise BenchError(f"{step['label']}: only {fio.nr_ios(jobs, RT_JOB)} real-time requests")
    latency = fio.latency_us(jobs, RT_JOB)
    out = [report.row(step["pattern"], step["name"], f"rt_{metric}", [latency[metric]], "us") for metric in METRICS]
    return out + [report.row(step["pattern"], step["name"], "bandwidth", [fio.bandwidth_mb_s(jobs)], "MB/s")]


def run(args):
    """Measure; the result dictionary."""
    return measured("latency", args, DEVICE, "half filled", STOCK)


def measured(name, args, device, filled, stock):
    """The result of benchmark @name: every pattern on a new @device for each case, which is @filled, in words."""
    started = time.monotonic()
    patterns = ("randread",) if args.quick else tuple(PATTERNS)
    bounds = QUICK_BOUNDS if args.quick else BOUNDS
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    plans = [_plan(pattern, bounds, device, stock) for pattern in patterns]
    if args.quick:      # halves, so that both cores have something to do
        plans = [plans[0][0::2], plans[0][1::2]]
    release, results = lab.run_plans([(guest, plan) for plan in plans])
    found = {step["label"]: rows(step, jobs) for plan, answers in zip(plans, results)
             for step, jobs in zip(plan, answers)}
    ordered = [step["label"] for pattern in patterns for step in _plan(pattern, bounds, device, stock)]
    return {"benchmark": name, "backend": guest.words(), "kernel": release,
            "parameters": {"device": f"ssdsim, default profile, 4 GiB, {filled}, 4 hardware queues", "cpus": CPUS,
                           "block_bytes": 4096, "rt": "1 task, depth 1, 2 ms between requests, class real-time level 0, "
                           "2100 requests", "be": "3 tasks, depth 32, class best effort level 4",
                           "jobs": "fio-jobs/latency/rt-*.fio", "wall_s": round(time.monotonic() - started)},
            "rows": [entry for label in ordered for entry in found[label]]}


def table(result):
    """The figures as text, one table per pattern."""
    out = []
    for case in report.unique(result, "case"):
        base = report.value(result, case, "none", "rt_p99.9")
        lines = []
        for scheduler in report.unique(result, "scheduler"):
            tail = report.value(result, case, scheduler, "rt_p99.9")
            bandwidth = report.value(result, case, scheduler, "bandwidth")
            share = bandwidth / report.value(result, case, "none", "bandwidth")
            lines.append([scheduler, *(f"{report.value(result, case, scheduler, f'rt_{metric}'):.0f}" for metric in METRICS),
                          f"{base / tail:.1f}x", f"{bandwidth:.1f}", f"{share:.0%}"])
        header = [PATTERNS[case], "p50 us", "p99 us", "p99.9 us", "p99.9 lower", "MB/s", "of none"]
        out.append(report.table(header, lines))
    return "\n\n".join(out)


def _panel(axes, result, case, schedulers):
    colors = {"none": "#b0413e", **{name: "#8a8a8a" for name in STOCK}}
    places = range(len(schedulers))
    tails = [report.value(result, case, name, "rt_p99.9") / 1000 for name in schedulers]
    middles = [report.value(result, case, name, "rt_p50") / 1000 for name in schedulers]
    axes.bar(places, tails, color=[colors.get(name, "#3b6ea5") for name in schedulers], width=0.7, zorder=2)
    axes.plot(places, middles, "_", color="black", markersize=11, markeredgewidth=1.6, zorder=3)
    axes.axhline(tails[0], color="#b0413e", linewidth=0.8, linestyle=":", zorder=1)
    axes.set_yscale("log")
    axes.set_ylim(min(middles) / 2, max(tails) * 2)
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    for place, tail in zip(places, tails):
        axes.text(place, tail * 1.06, f"{tail:.2g}" if tail < 1 else f"{tail:.1f}", ha="center", fontsize=7.5, zorder=4,
                  bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.4})
    axes.set_title(f"4 KiB {PATTERNS[case]}")
    axes.set_xticks(list(places), [name.replace("mq-k2-", "K2-") for name in schedulers], rotation=45, ha="right", fontsize=8)
    axes.set_ylabel("latency of real-time task, ms (log)")
    axes.tick_params(axis="x", length=0)
    right = axes.twinx()
    right.spines["right"].set_visible(True)
    right.plot(places, [report.value(result, case, name, "bandwidth") for name in schedulers], color="#d98200", marker="o",
               markersize=4, linewidth=1.3)
    right.set_ylim(0)
    right.set_ylabel("total bandwidth, MB/s", color="#d98200")
    right.tick_params(axis="y", colors="#d98200")


def draw(result, plt):
    """A panel per pattern, as in the paper: bars for latency, a line for bandwidth."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    cases = report.unique(result, "case")
    schedulers = report.unique(result, "scheduler")
    columns = min(2, len(cases))
    lines = (len(cases) + 1) // 2
    height = 3.5 * lines + 1.3
    figure, panels = plt.subplots(lines, columns, squeeze=False, figsize=(5.8 * columns, height))
    for axes, case in zip(panels.flat, cases):
        _panel(axes, result, case, schedulers)
    figure.suptitle("What a real-time task waits, and what all tasks get, by scheduler", fontsize=12, fontweight="bold", y=1 - 0.08 / height, va="top")
    figure.legend(handles=[Patch(color="#b0413e", label="p99.9 under none"), Patch(color="#3b6ea5", label="under mq-k2 with max_inflight n (K2-n)"),
                           *([Patch(color="#8a8a8a", label="under the kernel's own")] if set(STOCK) & set(schedulers) else []),
                           Line2D([], [], color="black", marker="_", linestyle="", markersize=11, label="p50"),
                           Line2D([], [], color="#d98200", marker="o", markersize=4, label="total bandwidth (right axis)")],
                  loc="upper center", bbox_to_anchor=(0.5, 1 - 0.3 / height), ncols=5 if columns == 2 else 3,
                  frameon=False, fontsize=8)
    parameters = result["parameters"]
    caption = (f"Real-time: {parameters['rt']}.\nBeside it: {parameters['be']}. Device: {parameters['device']}.\n"
               f"{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs.")
    figure.text(0.01, 0.01, caption, fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.6 / height, 1, 1 - 0.65 / height), h_pad=2)
    return figure
