# SPDX-License-Identifier: GPL-2.0
"""adaptive: the bound that mq-k2 finds by itself for a target, against fixed bounds, also when the load changes half way.

The load of `latency`: a synchronous real-time reader with 2 ms between its requests, beside three best-effort tasks of depth 32 that read, or write,
4 KiB at random. For each, fixed bounds are swept; then max_inflight is CEILING and target_p999_us the TARGET_US, from the start, on a new drive. In the last
case best effort reads for the first half and writes for the second.

A second is good if at most one in 1000 of its real-time requests took longer than the target, from submission to completion as fio sees it. The best fixed
bound is the one with the most bandwidth of those with at least 95% good seconds. Figures: good seconds and bandwidth; of the automatic bound from
SETTLE_S seconds after the start, or after the change, on.
"""
import time

from kit import fio, lab, report
from kit.say import BenchError

ONE_LINE = "mq-k2's automatic bound against fixed ones, at a target for the tail latency (vm, virtual time)"

CPUS = 4
# Large enough that nothing is collected while it is written for that long.
DEVICE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096}, "sysfs": {"ssdsim/fill": 50}}
TARGET_US = {"reads": 1000, "writes": 10000}
CEILING = 256
BOUNDS = {"reads": (2, 4, 6, 7, 8, 9, 10, 12, 16), "writes": (1, 2, 4, 8, 16, 32)}
QUICK_BOUNDS = {"reads": (4, 8, 16)}
FIXED_S, SETTLE_S, ADAPTIVE_S = 6, 5, 30
WINDOW_MS = 100
GOOD_SHARE = 0.95
HEAD = (f"[global]\nfilename=${{DEV}}\nbs=4k\ndirect=1\nnorandommap\nrandrepeat=1\nthread\ntime_based\nlog_unix_epoch=1\nper_job_logs=0\n"
        "\n[rt]\nioengine=psync\nrw=randread\nprioclass=1\nprio=0\nthinktime=2ms\nwrite_lat_log=rt\n")
BE = ("ioengine=libaio\niodepth=32\nnumjobs=3\nprioclass=2\nprio=4\ngroup_reporting\n"
      f"log_avg_msec={WINDOW_MS}\n")


def job_text(loads, seconds):
    """A fio job: each of @loads for @seconds, one after the other, and the reader all the time."""
    text = HEAD + f"runtime={len(loads) * seconds}s\n"
    for number, load in enumerate(loads):
        text += (f"\n[{load}]\nnew_group\nrw={'randread' if load == 'reads' else 'randwrite'}\nstartdelay={number * seconds}s\nruntime={seconds}s\n"
                 f"write_bw_log={load}\n{BE}")
    return text


def _step(case, name, scheduler, tunables, loads, seconds):
    return {"label": f"{case}, {name}", "case": case, "name": name, "scheduler": scheduler, "tunables": tunables, "device": DEVICE, "fresh": True,
            "measure": "fio", "job_text": job_text(loads, seconds), "loads": loads, "seconds": seconds, "series": list(loads), "latencies": ["rt"]}


def _adaptive(case, loads, target_us):
    return {**_step(case, "auto", "mq-k2", {"max_inflight": CEILING, "target_p999_us": target_us}, loads, ADAPTIVE_S), "watch": "auto",
            "target_us": target_us}


def plans(quick):
    """A plan for each load; the change of load is with the one that has fewer steps."""
    out = []
    for load, bounds in (QUICK_BOUNDS if quick else BOUNDS).items():
        fixed = [("none", "none", {})] + [(f"K2-{bound}", "mq-k2", {"max_inflight": bound}) for bound in bounds]
        out.append([{**_step(load, *way, (load,), FIXED_S), "target_us": TARGET_US[load]} for way in fixed] + [_adaptive(load, (load,), TARGET_US[load])])
    if not quick:
        out[-1].append(_adaptive("reads, then writes", ("reads", "writes"), TARGET_US["writes"]))
    return out


def seconds_of(step, jobs):
    """[(second, good?, MB/s)] of a run, without the first and the last one, which are not whole."""
    latencies = fio.job(jobs, "rt").get("latencies")
    if not latencies:
        raise BenchError("fio gave no latency of each request")
    zero = latencies[0][0]
    nr, beyond, size = {}, {}, {}
    for at, ns in latencies:
        second = (at - zero) // 1000
        nr[second] = nr.get(second, 0) + 1
        beyond[second] = beyond.get(second, 0) + (ns > step["target_us"] * 1000)
    for load in step["loads"]:
        for at, kib_s in fio.job(jobs, load)["series"]:
            second = (at - zero) // 1000
            size[second] = size.get(second, 0) + kib_s * 1024 * WINDOW_MS / 1000
    return [(second, beyond[second] * 1000 <= nr[second], size.get(second, 0) / 1e6) for second in sorted(nr)[1:-1]]


def rows(step, jobs):
    """The rows of one case: a part for each load of it."""
    out = []
    for number, load in enumerate(step["loads"]):
        settle = SETTLE_S if step["name"] == "auto" else 1
        begin, end = number * step["seconds"] + settle, (number + 1) * step["seconds"] - 1
        part = [entry for entry in seconds_of(step, jobs) if begin <= entry[0] < end]
        if not part:
            raise BenchError(f"{step['label']}: no whole second")
        case = step["case"] if len(step["loads"]) == 1 else f"{step['case']}: {load}"
        out += [report.row(case, step["name"], "good", [100 * sum(good for _, good, _ in part) / len(part)], "%"),
                report.row(case, step["name"], "bandwidth", [sum(rate for _, _, rate in part) / len(part)], "MB/s")]
    return out


def best_fixed(result, case):
    """(name, MB/s) of the best fixed bound, or None: no bound keeps the target."""
    fixed = [(name, report.value(result, case, name, "bandwidth")) for name in report.unique(result, "scheduler") if name.startswith("K2-")
             and (report.value(result, case, name, "good") or 0) >= 100 * GOOD_SHARE]
    return max(fixed, key=lambda entry: entry[1], default=None)


def curve(step, jobs):
    """What the picture shows of an adaptive run over seconds: of each window the slowest request, the bandwidth; and the bound."""
    latencies = fio.job(jobs, "rt")["latencies"]
    zero = latencies[0][0]
    bounds = [((at - zero) / 1000, int(line.split()[1])) for at, text in next(entry["texts"] for entry in jobs if entry["jobname"] == "watched")
              for line in text.splitlines() if line.startswith("bound ")]
    rate, slowest_us = {}, {}
    for at, ns in latencies:
        window = (at - zero) // WINDOW_MS
        slowest_us[window] = max(slowest_us.get(window, 0), round(ns / 1000))
    for load in step["loads"]:      # the windows of all tasks
        for at, kib_s in fio.job(jobs, load)["series"]:
            window = (at - zero) // WINDOW_MS
            rate[window] = rate.get(window, 0) + kib_s * 1024 / 1e6
    return {"target_us": step["target_us"], "latency": [[window * WINDOW_MS / 1000, slowest_us[window]] for window in sorted(slowest_us)],
            "bandwidth": [[window * WINDOW_MS / 1000, round(rate[window], 1)] for window in sorted(rate)], "bound": [point for point in bounds if point[0] >= 0]}


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    todo = plans(args.quick)
    release, results = lab.run_plans([(guest, plan) for plan in todo])
    found = [(step, jobs) for plan, answers in zip(todo, results) for step, jobs in zip(plan, answers)]
    return {"benchmark": "k2-auto", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, default profile, 4 GiB, half filled, 4 hardware queues", "cpus": CPUS, "target_us": TARGET_US,
                           "runtime_s": FIXED_S, "auto_s": ADAPTIVE_S, "max_inflight": CEILING, "jobs": "generated",
                           "wall_s": round(time.monotonic() - started)},
            "curves": {step["case"]: curve(step, jobs) for step, jobs in found if step["name"] == "auto"},
            "rows": [entry for step, jobs in found for entry in rows(step, jobs)]}


def table(result):
    """The figures as text, and what the automatic bound has of the best fixed one's bandwidth."""
    lines = []
    for case in report.unique(result, "case"):
        best = best_fixed(result, case)
        for name in report.unique(result, "scheduler"):
            good, got = (report.value(result, case, name, metric) for metric in ("good", "bandwidth"))
            if good is not None:
                lines.append([f"{case}, {name}", f"{good:.0f}", f"{got:.1f}", f"{100 * got / best[1]:.0f}%" if best else ""])
    return report.table(["", "good seconds, %", "MB/s", "of best fixed"], lines)


def draw(result, plt):
    """For each adaptive run the slowest real-time requests over time, and below them bandwidth and bound."""
    figure, axes = plt.subplots(2, len(result["curves"]), figsize=(5.4 * len(result["curves"]), 5.4), squeeze=False, sharex="col")
    for (top, bottom), (case, found) in zip(axes.T, result["curves"].items()):
        top.plot(*zip(*found["latency"]), ".", color="#3b6ea5", markersize=3)
        top.axhline(found["target_us"], color="#b0413e", linewidth=0.9, linestyle=":")
        top.set_yscale("log")
        top.set_title(f"{case}: target {found['target_us'] / 1000:g} ms", fontsize=10)
        top.set_ylabel("slowest real-time request, us (log)")
        bottom.plot(*zip(*found["bandwidth"]), color="#d98200", linewidth=1, label="best effort, MB/s")
        best = best_fixed(result, case)
        if best:
            bottom.axhline(best[1], color="#d98200", linewidth=0.8, linestyle=":", label=f"best fixed: {best[0]}")
        bottom.set_ylim(bottom=0)
        bottom.set_xlabel("s")
        right = bottom.twinx()
        right.step(*zip(*found["bound"]), where="post", color="#1f4e8c", linewidth=1.2, label="bound")
        right.set_yscale("log", base=2)
        bottom.legend(frameon=False, fontsize=7.5, loc="lower left")
        right.legend(frameon=False, fontsize=7.5, loc="lower right")
    parameters = result["parameters"]
    figure.suptitle("The bound that mq-k2 finds for a target", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Device: {parameters['device']}.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs.",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.07, 1, 0.96))
    return figure
