# SPDX-License-Identifier: GPL-2.0
"""k2-auto: the bound that mq-k2 finds for a target, against fixed bounds and through a change.

The load of `latency`: a synchronous real-time reader with 2 ms between its requests. Beside it are
three best-effort tasks of depth 32 that read, or write, 4 KiB at random. For each of these loads,
fixed bounds are swept. Then max_inflight is CEILING and target_p999_us is the TARGET_US, from the
start, on a new drive. In the last case best effort reads for the first half and writes for the
second.

A second is good if at most one in 1000 of its real-time requests took longer than the target, from
submission to completion as fio sees it. The best fixed bound is the one with the most bandwidth of
those with at least 95% good seconds.

Figures: good seconds and bandwidth. For auto they count from SETTLE_S seconds after the start, or
after the change.
"""
from kit import fio, lab, report, style
from kit.say import BenchError

ONE_LINE = "mq-k2's automatic bound against fixed ones, at a target for the tail latency"

CPUS = 4
# Large enough that the run's writes do not start garbage collection.
DEVICE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 4096},
          "sysfs": {"ssdsim/fill": 50}}
TARGET_US = {"reads": 1000, "writes": 10000}
CEILING = 256
BOUNDS = {"reads": (2, 4, 6, 7, 8, 9, 10, 12, 16), "writes": (1, 2, 4, 8, 16, 32)}
QUICK_BOUNDS = {"reads": (4, 8, 16)}
FIXED_S, SETTLE_S, AUTO_S = 6, 5, 30
WINDOW_MS = 100
GOOD_SHARE = 0.95
HEAD = ("[global]\nfilename=${DEV}\nbs=4k\ndirect=1\nnorandommap\nrandrepeat=1\nthread\n"
        "time_based\nlog_unix_epoch=1\nper_job_logs=0\n"
        "\n[rt]\nioengine=psync\nrw=randread\nprioclass=1\nprio=0\nthinktime=2ms\n"
        "write_lat_log=rt\n")
BE = ("ioengine=libaio\niodepth=32\nnumjobs=3\nprioclass=2\nprio=4\ngroup_reporting\n"
      f"log_avg_msec={WINDOW_MS}\n")


def job_text(loads, seconds):
    """A fio job: each of @loads for @seconds, one after the other, and the reader all the time."""
    text = HEAD + f"runtime={len(loads) * seconds}s\n"
    for number, load in enumerate(loads):
        pattern = "randread" if load == "reads" else "randwrite"
        text += (f"\n[{load}]\nnew_group\nrw={pattern}\nstartdelay={number * seconds}s\n"
                 f"runtime={seconds}s\nwrite_bw_log={load}\n{BE}")
    return text


def _step(case, name, scheduler, tunables, loads, seconds):
    return {"label": f"{case}, {name}", "case": case, "name": name, "scheduler": scheduler,
            "tunables": tunables, "device": DEVICE, "fresh": True, "measure": "fio",
            "job_text": job_text(loads, seconds), "loads": loads, "seconds": seconds,
            "series": list(loads), "latencies": ["rt"]}


def _auto(case, loads, target_us):
    tunables = {"max_inflight": CEILING, "target_p999_us": target_us}
    return {**_step(case, "auto", "mq-k2", tunables, loads, AUTO_S), "watch": "auto",
            "target_us": target_us}


def plans(quick):
    """A plan for each load; the change of load is with the one that has fewer steps."""
    out = []
    for load, bounds in (QUICK_BOUNDS if quick else BOUNDS).items():
        fixed = [("none", "none", {})]
        fixed += [(f"K2-{bound}", "mq-k2", {"max_inflight": bound}) for bound in bounds]
        steps = [{**_step(load, *way, (load,), FIXED_S), "target_us": TARGET_US[load]}
                 for way in fixed]
        out.append([*steps, _auto(load, (load,), TARGET_US[load])])
    if not quick:
        out[-1].append(_auto("reads, then writes", ("reads", "writes"), TARGET_US["writes"]))
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
    return [(second, beyond[second] * 1000 <= nr[second], size.get(second, 0) / 1e6)
            for second in sorted(nr)[1:-1]]


def rows(step, jobs):
    """The rows of one case: a part for each load of it."""
    out = []
    for number, load in enumerate(step["loads"]):
        settle = SETTLE_S if step["name"] == "auto" else 1
        begin = number * step["seconds"] + settle
        end = (number + 1) * step["seconds"] - 1
        part = [entry for entry in seconds_of(step, jobs) if begin <= entry[0] < end]
        if not part:
            raise BenchError(f"{step['label']}: no whole second")
        case = step["case"] if len(step["loads"]) == 1 else f"{step['case']}: {load}"
        good = 100 * sum(good for _, good, _ in part) / len(part)
        rate = sum(rate for _, _, rate in part) / len(part)
        out += [report.row(case, step["name"], "good", [good], "%"),
                report.row(case, step["name"], "bandwidth", [rate], "MB/s")]
    return out


def best_fixed(result, case):
    """(name, MB/s) of the best fixed bound, or None: no bound keeps the target."""
    fixed = [(name, report.value(result, case, name, "bandwidth"))
             for name in report.unique(result, "scheduler") if name.startswith("K2-")
             and (report.value(result, case, name, "good") or 0) >= 100 * GOOD_SHARE]
    return max(fixed, key=lambda entry: entry[1], default=None)


def _bounds(jobs, zero):
    """[(second, bound)] from the scheduler's debugfs file, which was read during the run."""
    texts = next(entry["texts"] for entry in jobs if entry["jobname"] == "watched")
    found = [((at - zero) / 1000, int(line.split()[1])) for at, text in texts
             for line in text.splitlines() if line.startswith("bound ")]
    return [point for point in found if point[0] >= 0]


def curve(step, jobs):
    """An automatic run over seconds: the slowest request of each window, bandwidth, and bound."""
    latencies = fio.job(jobs, "rt")["latencies"]
    zero = latencies[0][0]
    rate, slowest_us = {}, {}
    for at, ns in latencies:
        window = (at - zero) // WINDOW_MS
        slowest_us[window] = max(slowest_us.get(window, 0), round(ns / 1000))
    for load in step["loads"]:      # the windows of all tasks
        for at, kib_s in fio.job(jobs, load)["series"]:
            window = (at - zero) // WINDOW_MS
            rate[window] = rate.get(window, 0) + kib_s * 1024 / 1e6
    return {"target_us": step["target_us"],
            "latency": [[window * WINDOW_MS / 1000, slowest_us[window]]
                        for window in sorted(slowest_us)],
            "bandwidth": [[window * WINDOW_MS / 1000, round(rate[window], 1)]
                          for window in sorted(rate)],
            "bound": _bounds(jobs, zero)}


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo)
    found = lab.flat(todo, results)
    parameters = {"device": "ssdsim, default profile, 4 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "target_us": TARGET_US, "runtime_s": FIXED_S, "auto_s": AUTO_S,
                  "max_inflight": CEILING, "jobs": "generated"}
    curves = {step["case"]: curve(step, jobs) for step, jobs in found if step["name"] == "auto"}
    return report.result("k2-auto", ran, parameters,
                         [entry for step, jobs in found for entry in rows(step, jobs)],
                         curves=curves)


def table(result):
    """The figures as text, and the bandwidth in percent of the best fixed bound's."""
    lines = []
    for case in report.unique(result, "case"):
        best = best_fixed(result, case)
        for name in report.unique(result, "scheduler"):
            good = report.value(result, case, name, "good")
            got = report.value(result, case, name, "bandwidth")
            if good is not None:
                of_best = f"{100 * got / best[1]:.0f}%" if best else ""
                lines.append([f"{case}, {name}", f"{good:.0f}", f"{got:.1f}", of_best])
    return report.table(["", "good seconds, %", "MB/s", "of best fixed"], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    good = min(report.values(result, "auto", "good"))
    shares = [report.value(result, case, "auto", "bandwidth") / best_fixed(result, case)[1]
              for case in report.unique(result, "case") if best_fixed(result, case)]
    text = f"mq-k2's automatic bound keeps the latency target in {good:.0f}% of the seconds"
    return text + (f", with at least {min(shares):.0%} of the best fixed bound's bandwidth"
                   if shares else "")


def _draw_run(axes, result, case, found):
    """From top to bottom: latency, bandwidth and bound of one run over time."""
    latency, bandwidth, bound = axes
    color = style.SCHEDULERS["mq-k2"]
    latency.plot(*zip(*((at, us / 1000) for at, us in found["latency"])), ".", color=color,
                 markersize=3)
    latency.set_yscale("log")
    latency.set_ylim(0.2, 20)
    style.log_ticks(latency, across=True)
    style.guide(latency, found["target_us"] / 1000, across=True)
    latency.set_title(f"{case}: target {found['target_us'] / 1000:g} ms", loc="left")
    bandwidth.plot(*zip(*found["bandwidth"]), color=color, linewidth=1)
    best = best_fixed(result, case)
    if best:
        style.guide(bandwidth, best[1], across=True)
    bandwidth.set_ylim(bottom=0)
    bound.step(*zip(*found["bound"]), where="post", color=color, linewidth=1.2)
    bound.set_yscale("log")
    bound.set_ylim(2, 400)
    bound.set_yticks([4, 16, 64, 256], ["4", "16", "64", "256"])
    bound.minorticks_off()
    bound.set_xlabel("seconds")


def draw(result, plt):
    """A column for each automatic run."""
    curves = result["curves"]
    figure, axes = style.panels(plt, 3, len(curves), 3.6, 1.6, sharex="col")
    for column, (case, found) in zip(axes.T, curves.items()):
        _draw_run(column, result, case, found)
    for axis, words in zip(axes[:, 0], ("slowest real-time\nrequest, ms (log)",
                                        "best effort, MB/s", "bound (log)")):
        axis.set_ylabel(words)
    best = [f"{best_fixed(result, case)[0].replace('K2-', '')} for {case}" for case in curves
            if best_fixed(result, case)]
    dotted = "Dotted: the target, and the bandwidth of the best fixed bound"
    footer = style.conditions(
        result, dotted + (f" ({', '.join(best)})." if best else "."),
        f"Seconds count from {SETTLE_S} s after the start, or after the change.",
        each="fixed bound")
    return style.finish(figure, finding(result), footer)
