# SPDX-License-Identifier: GPL-2.0
"""isolation: a latency-critical tenant beside antagonists: its tail, and what the rest still get.

The tenant has I/O class real-time (RT) and reads 4 KiB at random, in one of three ways:

  open       requests come when they come, OPEN_PER_S a second: OPEN_TASKS tasks, each of which
             sends by a Poisson process of its own. None waits for another task's request
  depth 1    one request at a time, without pause
  depth 4    four at a time

Each antagonist is a cgroup of weight 100 with DEPTH requests outstanding. There are 1, 3 or 8 of
them, on ssdsim's default profile, half filled; or full and overwritten, where writes wait for
garbage collection (GC). The tenant is a cgroup of the same weight, and of ten times that where
nothing but weights can help it, under bfq and io.cost. A scheduler with a target gets that of the
case, and SEARCH_S to find a bound for it. kit/rivals.py has what the others are set to. Under
"mq-deadline, idle" the antagonists have I/O class idle.

Figures of a case: the RT tenant's 99th and 99.9th percentile from submission to completion and its
bandwidth; total bandwidth; the drive's time that is used, which is the sum of all tenants' rates,
each over what one deep tenant of its kind has alone; Jain's index of the antagonists' rates, each
over that of its kind alone: 1 if all are slowed down alike.

The last case is a promise. mq-mqfq has a target of 1 ms for PROMISE_S seconds beside three deep
readers. A second is good if at most one in 1000 of its RT requests took longer, as fio sees it. The
best fixed D is the one with the most bandwidth of those with at least 95% good seconds.
"""
import math

from kit import fio, lab, report, rivals, style
from kit.say import BenchError
from kit.tenants import jain

ONE_LINE = "tail of a real-time tenant beside 1 to 8 antagonists, against the use of the drive"

CPUS = 4
HALF, FULL = "half filled", "full"
FILL_PCT = {HALF: 50, FULL: 300}
DEPTH = 32
OPEN_PER_S, OPEN_TASKS = 1250, 25
RAMP_S, SEARCH_S, WINDOW_S = 1, 5, 2
BEYOND_S = 0.5      # the load goes on for so long after the window

# Not with fio's ramp_time: in it, requests of a rate come in bunches of ten.
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nnorandommap\nrandrepeat=1\ntime_based\n"
        "cgroup_nodelete=1\nlog_unix_epoch=1\nper_job_logs=0\n")
RT = ("\n[rt]\nnew_group\ncgroup=rt\nrw=randread\nbs=4k\nprioclass=1\nprio=0\n"
      "write_lat_log=rt\n")
RT_WAYS = {"open": (f"ioengine=psync\nnumjobs={OPEN_TASKS}\ngroup_reporting\n"
                    f"rate_iops={OPEN_PER_S // OPEN_TASKS}\nrate_process=poisson\n"),
           "depth 1": "ioengine=psync\n", "depth 4": "ioengine=libaio\niodepth=4\n"}
IDLE = "prioclass=3\n"
KINDS = {"4k reads": "rw=randread\nbs=4k\n", "64k reads": "rw=randread\nbs=64k\n",
         "256k reads": "rw=randread\nbs=256k\n", "4k writes": "rw=randwrite\nbs=4k\n",
         "FUA writes": "rw=randwrite\nbs=16k\nsync=dsync\n"}

# Case: drive, RT tenant, antagonists, target, whether it is part of a quick look. A program takes
# 1.1 ms, so that 1 ms cannot be had beside writes.
CASES = {
    "open, 1 reader": (HALF, "open", ["4k reads"], 1000, False),
    "open, 3 readers": (HALF, "open", ["4k reads"] * 3, 1000, True),
    "depth 1, 8 readers": (HALF, "depth 1", ["4k reads"] * 8, 1000, False),
    "depth 4, 3 readers": (HALF, "depth 4", ["4k reads"] * 3, 1000, False),
    "open, 4k 64k 256k": (HALF, "open", ["4k reads", "64k reads", "256k reads"], 5000, False),
    "open, 3 writers": (HALF, "open", ["4k writes"] * 3, 10000, False),
    "open, 3 FUA writers": (HALF, "open", ["FUA writes"] * 3, 10000, False),
    "open, 3 writers, GC": (FULL, "open", ["4k writes"] * 3, 20000, True),
    "open, 4 and 4, GC": (FULL, "open", ["4k reads", "4k writes"] * 4, 20000, False),
}
OURS, BYTES = "mq-mqfq, target", "mq-mqfq"
# In this order both guests have as much to do, and one of them measures io.cost's models.
NAMES = ("none", "kyber", "kyber, target", "mq-deadline", "mq-deadline, idle", "bfq, tuned",
         "io.cost, tuned", BYTES, "mq-k2, target", OURS)
QUICK_NAMES = ("none", BYTES, OURS)

PROMISE = "1 ms kept, open, 3 readers"
PROMISE_US, PROMISE_S, QUICK_PROMISE_S, FIXED_S = 1000, 30, 10, 6
SLOTS, QUICK_SLOTS = (4, 5, 6, 7, 8), (4, 8)
GOOD_SHARE = 0.95
FAIR = 0.99


# ---- what is measured ----

def job_text(rt_way, kinds, seconds, more=""):
    """A fio job: the RT tenant, None for none, and an antagonist for each of @kinds.

    Antagonists have the options @more.
    """
    text = HEAD + f"runtime={round(1000 * seconds)}ms\n" + (RT + RT_WAYS[rt_way] if rt_way else "")
    return text + "".join(f"\n[a{number}]\nnew_group\ncgroup=a{number}\nioengine=libaio\n"
                          f"iodepth={DEPTH}\n{more}{KINDS[kind]}"
                          for number, kind in enumerate(kinds))


def _way(name, kinds, target_us):
    weights = {"rt": 1000 if name.endswith("tuned") else 100,
               **{f"a{number}": 100 for number in range(len(kinds))}}
    if name in rivals.WITH_TARGET:
        return rivals.way_with_target(name, weights, target_us)
    return rivals.way(name, weights)


def _step(case, drive, rt_way, kinds, way, ramp_s, window_s):
    seconds, more = ramp_s + window_s + BEYOND_S, IDLE if way["name"].endswith("idle") else ""
    return {"label": f"{case}, {way['name']}", "case": case, "drive": drive, "kinds": kinds,
            "device": {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048},
                       "sysfs": {"ssdsim/fill": FILL_PCT[drive]}},
            "measure": "fio", "job_text": job_text(rt_way, kinds, seconds, more),
            "latencies": ["rt"] if rt_way else [], "ramp_s": ramp_s, "window_s": window_s,
            **way, "fresh": True}


def _alone(drive, kind):
    """A deep tenant of @kind without another."""
    way = rivals.way("none", {"a0": 100})
    return {**_step("alone", drive, None, [kind], way, RAMP_S, 1),
            "label": f"{kind} alone, {drive}"}


def case_steps(quick):
    """The steps of all cases; those of each kind alone come first."""
    cases = {case: entry for case, entry in CASES.items() if entry[-1] or not quick}
    alone = dict.fromkeys((drive, kind) for drive, _, kinds, *_ in cases.values()
                          for kind in ("4k reads", *kinds))
    return [_alone(*what) for what in alone] + [
        _step(case, drive, rt_way, kinds, _way(name, kinds, target_us),
              SEARCH_S if name in rivals.SEARCHING else RAMP_S, WINDOW_S)
        for case, (drive, rt_way, kinds, target_us, _) in cases.items()
        for name in (QUICK_NAMES if quick else NAMES)]


def promise_steps(quick):
    """none, fixed D, and the target."""
    kinds = ["4k reads"] * 3
    ways = [(_way("none", kinds, 0), RAMP_S, FIXED_S)]
    ways += [({**_way(BYTES, kinds, 0), "name": f"D {slots}", "tunables": {"slots": slots}},
              RAMP_S, FIXED_S) for slots in (QUICK_SLOTS if quick else SLOTS)]
    ways.append((_way(OURS, kinds, PROMISE_US), SEARCH_S,
                 QUICK_PROMISE_S if quick else PROMISE_S))
    return [_step(PROMISE, HALF, "open", kinds, *way) for way in ways]


def plans(quick):
    """Two plans of alike length: the target is long, and so are all fixed D."""
    cases, promise = case_steps(quick), promise_steps(quick)
    return [[*cases[0::2], *promise[:-1]], [*cases[1::2], promise[-1]]]


# ---- figures ----

def _rates(step, jobs):
    """MB/s of each antagonist in the window; one that had nothing counts as a kilobyte a second."""
    found = fio.job(jobs, "window")["bytes"]
    return [max(found[f"a{number}"] / step["window_s"] / 1e6, 0.001)
            for number in range(len(step["kinds"]))]


def _real_time(step, jobs):
    """[(ms since the window began, us)] of the RT tenant's requests that ended in the window."""
    latencies = fio.job(jobs, "rt").get("latencies")
    if not latencies:
        raise BenchError(f"{step['label']}: fio gave no latency of each request")
    zero = min(at for at, _ in latencies) + 1000 * step["ramp_s"]
    found = [(at - zero, ns / 1000) for at, ns in latencies
             if zero <= at < zero + 1000 * step["window_s"]]
    if not found:
        raise BenchError(f"{step['label']}: no real-time request ended in the window")
    return found


def _percentile_us(requests, share):
    return fio.percentile_of(sorted((us, 1) for _, us in requests), share)


def rows(step, jobs, alone):
    """The figures of a case; @alone: MB/s by drive and kind."""
    case, name = step["case"], step["name"]

    def row(metric, value, unit, digits=1):
        return report.row(case, name, metric, [value], unit, digits)

    got = _rates(step, jobs)
    if case == "alone":
        return [row(f"{step['kinds'][0]}, {step['drive']}", got[0], "MB/s")]
    requests = _real_time(step, jobs)
    rt = 4096 * len(requests) / step["window_s"] / 1e6
    parts = [rate / alone[step["drive"], kind] for rate, kind in zip(got, step["kinds"])]
    used = 100 * (sum(parts) + rt / alone[step["drive"], "4k reads"])
    return [row("p99", _percentile_us(requests, 0.99), "us"),
            row("p99.9", _percentile_us(requests, 0.999), "us"),
            row("bandwidth rt", rt, "MB/s", 2), row("bandwidth", sum(got) + rt, "MB/s"),
            row("time", used, "%"), row("jain", jain(parts), "1", 4)]


def good_seconds(requests, target_us):
    """Whether at most one in 1000 of @requests took longer than the target, by second."""
    nr, beyond = {}, {}
    for at_ms, us in requests:
        second = at_ms // 1000
        nr[second] = nr.get(second, 0) + 1
        beyond[second] = beyond.get(second, 0) + (us > target_us)
    return [beyond[second] * 1000 <= nr[second] for second in sorted(nr)]


def promise_rows(step, jobs):
    """The figures of the promise."""
    requests, got = _real_time(step, jobs), _rates(step, jobs)
    good = good_seconds(requests, PROMISE_US)
    total = sum(got) + 4096 * len(requests) / step["window_s"] / 1e6

    def row(metric, value, unit, digits=1):
        return report.row(PROMISE, step["name"], metric, [value], unit, digits)

    return [row("good", 100 * sum(good) / len(good), "%"),
            row("p99.9", _percentile_us(requests, 0.999), "us"),
            row("bandwidth", total, "MB/s"), row("jain", jain(got), "1", 4)]


def all_rows(pairs):
    """The rows of all (step, answer)."""
    alone = {(step["drive"], step["kinds"][0]): _rates(step, jobs)[0]
             for step, jobs in pairs if step["case"] == "alone"}
    out = []
    for step, jobs in pairs:
        out += promise_rows(step, jobs) if step["case"] == PROMISE else rows(step, jobs, alone)
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo, may_lose=True)
    pairs = lab.flat(todo, results)
    order = [step["label"] for step in (*case_steps(args.quick), *promise_steps(args.quick))]
    pairs.sort(key=lambda pair: order.index(pair[0]["label"]))
    parameters = {"device": "ssdsim, default profile, 2 GiB, half filled, or full and twice "
                            "overwritten at random (GC), 4 hardware queues",
                  "cpus": CPUS, "runtime_s": WINDOW_S, "promise_s": PROMISE_S, "jobs": "generated",
                  "target_us": {case: entry[3] for case, entry in CASES.items()}}
    return report.result("isolation", ran, parameters, all_rows(pairs))


def best_fixed(result):
    """(name, MB/s) of the best fixed D that keeps the promise, or None: no D does."""
    fixed = [(name, report.value(result, PROMISE, name, "bandwidth"))
             for name in report.unique(result, "scheduler") if name.startswith("D ")
             and (report.value(result, PROMISE, name, "good") or 0) >= 100 * GOOD_SHARE]
    return max(fixed, key=lambda entry: entry[1], default=None)


def _names(result):
    return [name for name in NAMES if name in report.unique(result, "scheduler")]


def _cases(result):
    return report.cases_with(result, "time")


def table(result):
    """The figures as text."""
    names, cases = _names(result), _cases(result)
    out = [report.by_scheduler(result, metric, words, form, names, cases)
           for metric, words, form in (("p99", "p99 of the RT tenant, us", "{:.0f}"),
                                       ("p99.9", "p99.9 of the RT tenant, us", "{:.0f}"),
                                       ("bandwidth rt", "RT tenant, MB/s", "{:.2f}"),
                                       ("bandwidth", "total, MB/s", "{:.1f}"),
                                       ("time", "the drive's time that is used, %", "{:.0f}"),
                                       ("jain", "Jain's index of the antagonists", "{:.3f}"))]
    best, lines = best_fixed(result), []
    for name, *cells in report.by_metric(result, PROMISE, {
            "good": "{:.0f}", "p99.9": "{:.0f}", "bandwidth": "{:.1f}", "jain": "{:.3f}"}):
        got = report.value(result, PROMISE, name, "bandwidth")
        lines.append([name, *cells, f"{100 * got / best[1]:.0f}%" if best else ""])
    head = [PROMISE, "good seconds, %", "p99.9, us", "MB/s", "Jain", "of best fixed"]
    return "\n\n".join([*out, report.table(head, lines)])


# ---- the picture ----

def front(points):
    """Those of @points (use, tail) that no other one beats in both, by rising use."""
    return sorted(point for point in points
                  if not any(other != point and other[0] >= point[0] and other[1] <= point[1]
                             for other in points))


def _mean(values):
    """The geometric mean."""
    return math.prod(values) ** (1 / len(values))


def overall(result):
    """{scheduler: (use, tail)} over all cases: parts of none's, geometric means.

    Only schedulers that have lost no case are in it.
    """
    cases, out = _cases(result), {}
    for name in _names(result):
        got = [[report.value(result, case, who, metric) for case in cases
                for who in (name, "none")] for metric in ("time", "p99.9")]
        if None not in got[0] + got[1]:
            out[name] = tuple(_mean([ours / base for ours, base in zip(one[0::2], one[1::2])])
                              for one in got)
    return out


def finding(result):
    """What the picture shows, in a sentence."""
    found, best = overall(result), best_fixed(result)
    words = [f"{how} a target p99.9 is {tail:.0%} of none's, and use {use:.0%} of its"
             for how, (use, tail) in (("with", found.get(OURS)), ("without", found.get(BYTES)))]
    of_best = ""
    if best:
        share = report.value(result, PROMISE, OURS, "bandwidth") / best[1]
        of_best = f" at {share:.0%} of the best fixed D's bandwidth"
    return (f"mq-mqfq keeps a target of 1 ms beside three deep readers in "
            f"{report.value(result, PROMISE, OURS, 'good'):.0f}% of the seconds{of_best}; in all "
            f"cases, {', '.join(words)}")


def _draw_points(axis, points, fair):
    """Use to the right, tail upwards: a disc if antagonists are alike, else a ring; the front."""
    for number, (name, (use, tail)) in enumerate(points.items()):
        color = style.color_of(name)
        # Each smaller than the one before, so that none hides another.
        axis.plot([use], [tail], "o", markersize=9.5 - 0.5 * number, zorder=3, markeredgewidth=1.5,
                  color=color, markerfacecolor=color if fair(name) else "white")
    axis.plot(*zip(*front(list(points.values()))), color=style.GUIDE, linewidth=0.8, zorder=1)
    axis.set_yscale("log")
    axis.margins(x=0.1, y=0.15)
    axis.set_xlim(0)
    low, high = axis.get_ylim()
    axis.set_ylim(min(low, high / 4), high)
    style.log_ticks(axis, across=True)


def _draw_case(axis, result, case):
    points = {}
    for name in _names(result):
        use, tail = (report.value(result, case, name, metric) for metric in ("time", "p99.9"))
        if use is not None and tail is not None:
            points[name] = (use, tail / 1000)
    _draw_points(axis, points,
                 lambda name: report.value(result, case, name, "jain") >= FAIR)
    style.guide(axis, CASES[case][3] / 1000, across=True)
    axis.set_title(case, loc="left")


def _draw_promise(axis, result):
    """Good seconds against bandwidth: fixed D, and the target."""
    for name, *_ in report.by_metric(result, PROMISE, {"good": "{}"}):
        at = [report.value(result, PROMISE, name, metric) for metric in ("bandwidth", "good")]
        color = style.color_of(BYTES if name.startswith("D ") else name)
        axis.plot([at[0]], [at[1]], "o", markersize=7, color=color, zorder=3)
        if name.startswith("D "):
            axis.annotate(name[2:], at, xytext=(5, 3), textcoords="offset points", fontsize=7)
    style.guide(axis, 100 * GOOD_SHARE, across=True)
    axis.set_ylim(-5, 108)
    axis.set_ylabel("good seconds, %")
    axis.set_xlabel("total, MB/s")
    axis.set_title(PROMISE, loc="left")


def draw(result, plt):
    """All cases together, each by itself, and the promise."""
    cases = _cases(result)
    lines = -(-(len(cases) + 2) // 4)
    figure, axes = style.panels(plt, lines, 4, 2.7, 2.3)
    first, *rest = axes.flat
    found = overall(result)
    _draw_points(first, {name: (100 * use, 100 * tail) for name, (use, tail) in found.items()},
                 lambda name: min(report.values(result, name, "jain", cases)) >= FAIR)
    first.set_title("all cases, % of none", loc="left")
    for axis, case in zip(rest, cases):
        _draw_case(axis, result, case)
    _draw_promise(rest[len(cases)], result)
    for axis in rest[len(cases) + 1:]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("p99.9, ms (log)")
    first.set_ylabel("p99.9, % (log)")
    footer = style.conditions(
        result, "To the right: the drive's time that is used, %. All cases: geometric means.",
        f"Grey: the front, which no other scheduler beats in both. Disc: Jain's index of the "
        f"antagonists is at least {FAIR}; ring: less. Dotted: the target. Numbers: fixed D.")
    return style.finish(figure, finding(result), footer, style.marks(
        {name: style.color_of(name) for name in _names(result)}))
