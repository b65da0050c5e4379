# SPDX-License-Identifier: GPL-2.0
"""act: how much of a database's load a drive bears, by scheduler: reads beside large writes.

The load has the shape of Aerospike's certification tool (ACT). Its unit, "1x", is 2000 reads of a
small record and 1000 writes a second. Records are written in large blocks, and old blocks are read
and written once more when half of them is stale: 24 reads and 24 writes of 128 KiB a second. A
record is a page of 4 KiB here, of 1.5 KiB there. All requests come when they come: tasks that each
send reads by a Poisson process of their own, and large blocks at a fixed rate.

The drive reads four times as slowly as ssdsim's default, so that the guest's CPU is never the
limit. So the unit is a quarter here: READS_PER_S and BLOCKS_PER_S. A read alone takes 0.54 ms, and
0.08 on a drive that ACT is for: ACT's limits of 1, 8 and 64 ms are SCALE times as long. A load is
borne if at most 5% of the small reads take longer than the first, 1% longer than the second, and
0.1% longer than the third, and if SERVED_PCT of what is to be read and written is. ACT asks all
this of hours; here it is a window of WINDOW_S on a drive that is full and has been overwritten at
random, so that writes wait for garbage collection. The rating is the largest load that is borne,
with all smaller ones.

The small reads are a cgroup with I/O class real-time, the large blocks another one of the same
weight. Under bfq and io.cost, where nothing but weights can help, the reads have ten times that. A
scheduler with a target has TARGET_US, and SEARCH_S to find a bound for it. Under "mq-deadline,
idle" the large blocks have I/O class idle.
"""
from dataclasses import replace

from kit import fio, lab, report, rivals, style

ONE_LINE = "how many times the load of Aerospike's ACT a drive bears, by scheduler"

CPUS, MEM = 4, "4G"     # each task is a process
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048,
                                      "read_ns": 430000, "xfer_unit_ns": 102800},
         "sysfs": {"ssdsim/fill": 300}}
LOADS, QUICK_LOADS = (3, 4, 4.5, 5, 5.5, 6), (4, 5)
READS_PER_S, READS_PER_TASK_S = 500, 50
BLOCKS_PER_S, BLOCK_TASKS, BLOCK_BYTES = 6, 3, 128 << 10
SCALE = 7
# Of the small reads, at most this share in percent takes longer than so many milliseconds.
LIMITS_PCT = {1 * SCALE: 5, 8 * SCALE: 1, 64 * SCALE: 0.1}
SERVED_PCT = 95
TARGET_US = 1000 * SCALE
RAMP_S, SEARCH_S, WINDOW_S, BEYOND_S = 1, 4, 4, 0.5
OURS, K2 = "mq-mqfq, target", "mq-k2, target"
NAMES = ("none", "kyber, target", "mq-deadline, idle", "bfq, tuned", "io.cost, tuned", "mq-mqfq",
         K2, OURS)
QUICK_NAMES = ("none", "mq-mqfq", OURS)

HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nnorandommap\nrandrepeat=1\ntime_based\n"
        "cgroup_nodelete=1\nlog_unix_epoch=1\nper_job_logs=0\nioengine=psync\ngroup_reporting\n")


# ---- what is measured ----

def job_text(load, seconds, more=""):
    """@load times ACT's unit; large blocks have the options @more."""
    text = HEAD + f"runtime={round(1000 * seconds)}ms\n"
    text += ("\n[reads]\nnew_group\ncgroup=reads\nrw=randread\nbs=4k\nprioclass=1\nprio=0\n"
             f"write_lat_log=reads\nnumjobs={round(load * READS_PER_S / READS_PER_TASK_S)}\n"
             f"rate_iops={READS_PER_TASK_S}\nrate_process=poisson\n")
    for way in ("read", "write"):
        text += (f"\n[large-{way}s]\nnew_group\ncgroup=large\nrw=rand{way}\nbs={BLOCK_BYTES}\n"
                 f"numjobs={BLOCK_TASKS}\n{more}"
                 f"rate_iops={round(load * BLOCKS_PER_S / BLOCK_TASKS)}\n")
    return text


def _way(name):
    weights = {"reads": 1000 if name.endswith("tuned") else 100, "large": 100}
    if name in rivals.WITH_TARGET:
        return rivals.way_with_target(name, weights, TARGET_US)
    return rivals.way(name, weights)


def _step(load, name):
    ramp_s = SEARCH_S if name in rivals.SEARCHING else RAMP_S
    idle = "prioclass=3\n" if name.endswith("idle") else ""
    return {"label": f"{load}x, {name}", "case": f"{load}x", "load": load, "device": DRIVE,
            "measure": "fio", "job_text": job_text(load, ramp_s + WINDOW_S + BEYOND_S, idle),
            "latencies": ["reads"], "ramp_s": ramp_s, "window_s": WINDOW_S, **_way(name),
            "fresh": True}


def steps(quick):
    """All loads under all schedulers."""
    return [_step(load, name) for load in (QUICK_LOADS if quick else LOADS)
            for name in (QUICK_NAMES if quick else NAMES)]


# ---- figures ----

def rows(step, jobs):
    """The figures of a load."""
    latencies = fio.job(jobs, "reads")["latencies"]
    zero = min((at for at, _ in latencies), default=0) + 1000 * step["ramp_s"]
    found = [ns for at, ns in latencies if zero <= at < zero + 1000 * step["window_s"]]

    def row(metric, value, unit, digits=3):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    large = fio.job(jobs, "window")["bytes"]["large"]
    asked = {"served": step["load"] * READS_PER_S * step["window_s"],
             "large": step["load"] * 2 * BLOCKS_PER_S * BLOCK_BYTES * step["window_s"]}
    return [*(row(f"beyond {ms}", 100 * sum(ns > ms * 10**6 for ns in found) / max(1, len(found)),
                  "%") for ms in LIMITS_PCT),
            row("served", 100 * len(found) / asked["served"], "%", 1),
            row("large", 100 * large / asked["large"], "%", 1)]


def needs(_one, _cases):
    """Whether a figure needs a step: a rating needs those of all loads."""
    return True


def is_borne(result, case, name):
    """Whether the load of @case is; None: it was not measured."""
    got = {metric: report.value(result, case, name, metric)
           for metric in ("served", "large", *(f"beyond {ms}" for ms in LIMITS_PCT))}
    if None in got.values():
        return None
    return min(got["served"], got["large"]) >= SERVED_PCT and all(
        got[f"beyond {ms}"] <= limit for ms, limit in LIMITS_PCT.items())


def rating(result, name):
    """The largest load that is borne with all smaller ones; 0 if there is none."""
    largest = 0
    for case in report.cases_with(result, "served"):
        if not is_borne(result, case, name):
            break
        largest = float(case.removesuffix("x"))
    return largest


def with_ratings(result):
    """@result with a row for the rating of each scheduler."""
    return {**result, "rows": result["rows"] + [
        report.row("all loads", name, "rating", [rating(result, name)], "x", 1)
        for name in report.unique(result, "scheduler")]}


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    # io.cost's model is measured once, in one of the guests.
    plans = [[step for step in todo if step["name"] in NAMES[half::2]] for half in (0, 1)]
    guest = replace(lab.virtual(args.kernel, CPUS), mem=MEM)
    ran, results = lab.measure([(guest, plan) for plan in plans], may_lose=True)
    pairs = lab.flat(plans, results)
    pairs.sort(key=lambda pair: todo.index(pair[0]))
    parameters = {"device": "ssdsim, default profile with reads four times as long, 2 GiB, full "
                            "and twice overwritten at random, 4 hardware queues",
                  "cpus": CPUS, "runtime_s": WINDOW_S, "jobs": "generated",
                  "target_us": TARGET_US}
    return with_ratings(report.result("act", ran, parameters, [
        entry for step, jobs in pairs for entry in rows(step, jobs)]))


def _names(result):
    return [name for name in NAMES if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    cases = report.cases_with(result, "served")
    out = [report.by_scheduler(result, "rating", "rating", "{:g}x", _names(result),
                               ["all loads"])]
    for metric, words, form in (
            *((f"beyond {ms}", f"reads beyond {ms} ms, % (at most {limit})", "{:.2f}")
              for ms, limit in LIMITS_PCT.items()),
            ("served", f"reads served, % (at least {SERVED_PCT})", "{:.0f}"),
            ("large", f"large blocks read and written, % (at least {SERVED_PCT})", "{:.0f}")):
        out.append(report.by_scheduler(result, metric, words, form, _names(result), cases))
    return "\n\n".join(out)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    words = "; ".join(f"{rating(result, name):g}x under {name}" for name in _names(result))
    return f"The load of a database that the drive bears: {words}"


def draw(result, plt):
    """A panel per limit: the share of reads beyond it, by load."""
    figure, axes = style.panels(plt, 1, len(LIMITS_PCT), 3.4, 3)
    cases, least = report.cases_with(result, "served"), 0.005
    for axis, (ms, limit) in zip(axes.flat, LIMITS_PCT.items()):
        for name in _names(result):
            points = [(float(case.removesuffix("x")),
                       report.value(result, case, name, f"beyond {ms}")) for case in cases]
            axis.plot(*zip(*((load, max(pct, least)) for load, pct in points if pct is not None)),
                      "o-", color=style.color_of(name), markersize=4, linewidth=1.2)
        style.guide(axis, limit, across=True)
        axis.set_yscale("log")
        axis.set_ylim(least, 100)
        style.log_ticks(axis, across=True)
        axis.set_xlabel("load, times ACT's 1x")
        axis.set_title(f"beyond {ms} ms, % (log)", loc="left")
    footer = style.conditions(
        result, f"1x: {READS_PER_S} reads of 4 KiB, {BLOCKS_PER_S} reads and {BLOCKS_PER_S} writes "
        "of 128 KiB a second. Dotted: the limit. What is less than 0.005% is drawn there.",
        each="load")
    return style.finish(figure, finding(result), footer, style.marks(
        {name: style.color_of(name) for name in _names(result)}))
