# SPDX-License-Identifier: GPL-2.0
"""protection: a service that is sensitive to latency beside a cgroup that runs through memory.

The load has the shape of resctl-bench's "protection". A service gets PER_S requests a second, which
come when they come, by a Poisson process. Each looks at its working set in memory, and reads READS
times 4 KiB at random from the drive, direct, one after the other. The hog is a cgroup that may have
HOG_MIB of memory, and is one of these:

  swap    TOUCHERS threads write to pages of TOUCHED_MIB of memory, at random. The kernel swaps them
          out and in
  write   WRITERS threads overwrite a file of an ext4 through the page cache
  both    all of these

Swap file, ext4 and what the service reads are on the same drive. The service's memory is protected
(memory.min): what it loses it loses by I/O. The drive reads four times as slowly as ssdsim's
default, so that the guest's CPU is never the limit.

Figures, against the service alone and the hog alone, both under none:

  isolation       requests of the service that are answered within LIMIT_MS, in percent of those
                  alone
  latency impact  how much longer the mean request takes than alone, in percent
  conservation    pages that the hog gets through, touched or written, in percent of those alone.
                  The service takes a twelfth of the drive, so that 100% cannot be had beside it

The service has ten times the hog's weight where weights count. mq-deadline and mq-k2 have classes
instead: there it has I/O class real-time. Under "mq-deadline, idle" the hog has class idle, which
the kernel's own threads do not have that write for it. A scheduler with a target gets TARGET_US,
for 99.9% of all reads. That is half of LIMIT_MS: of READS in a row, one may take that long.
"""
from dataclasses import replace

from kit import fio, lab, report, rivals, style
from kit.say import BenchError

ONE_LINE = "a latency-sensitive service beside a hog of memory that swaps and writes back"

CPUS, MEM = 4, "4G"     # the drive's data is in memory, too
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024, "read_ns": 430000,
                                      "xfer_unit_ns": 102800}, "sysfs": {}}
SERVICE, HOG = "service", "hog"
WEIGHTS = {SERVICE: 1000, HOG: 100}
PER_S, READS = 200, 3
LIMIT_MS, TARGET_US = 10, 5000
SERVICE_MIB, HOG_MIB, TOUCHED_MIB = 96, 64, 192
TOUCHERS, WRITERS = 32, 4
SECONDS = 8
# Hog: threads that touch memory, threads that write, seconds before what is counted. The kernel
# finds out by and by how fast a cgroup's pages are written.
HOGS = {"swap": (TOUCHERS, 0, 5), "write": (0, WRITERS, 12), "both": (TOUCHERS, WRITERS, 12)}
QUICK_HOGS = ("both",)
OURS, K2 = "mq-mqfq, target", "mq-k2, target"
NAMES = ("none", "mq-deadline", "mq-deadline, idle", "bfq", "bfq, tuned", "io.cost, tuned",
         "mq-mqfq", K2, OURS)
QUICK_NAMES = ("none", "mq-mqfq", OURS)
BY_CLASS = ("mq-deadline", "mq-k2")
GOALS = {"isolation": 95, "conservation": 80}
ALONE = "alone"
# Metric: words, format.
METRICS = {"isolation": ("isolation, %", "{:.1f}"),
           "latency impact": ("latency impact, %", "{:.0f}"),
           "conservation": ("work conservation, %", "{:.1f}"),
           "mean": ("mean of a request, ms", "{:.2f}"),
           "p99": ("p99 of a request, ms", "{:.1f}"),
           "hog": ("the hog, MB/s", "{:.1f}")}


# ---- what is measured ----

def _way(name):
    """Who schedules, and the I/O class of each."""
    by_class = name.startswith(BY_CLASS)
    classes = {SERVICE: "1" if by_class else "0", HOG: "3" if name.endswith("idle") else "0"}
    if name == OURS:
        way = {**rivals.way("mq-mqfq", WEIGHTS), "name": name}
        way["cgroups"] = {**way["cgroups"], "targets_us": {SERVICE: TARGET_US}}
    elif name in rivals.WITH_TARGET:
        way = rivals.way_with_target(name, WEIGHTS, TARGET_US)
    else:
        way = rivals.way(name, WEIGHTS)
    return {**way, "classes": classes}


def case_name(hog):
    """A case's name in the result."""
    return f"beside a hog: {hog}"


def _step(hog, name, who):
    touchers, writers, ramp_s = HOGS[hog]
    alone = "" if len(who) > 1 else f", {who[0]} {ALONE}"
    return {"label": f"{hog}{alone}, {name}", "hog": hog, "case": case_name(hog), "device": DRIVE,
            "measure": "protection", "program": lab.PROTECTION, "run": who, "per_s": PER_S,
            "reads": READS, "service_mib": SERVICE_MIB, "hog_mib": HOG_MIB, "touchers": touchers,
            "touched_mib": TOUCHED_MIB, "writers": writers, "ramp_s": ramp_s, "seconds": SECONDS,
            **_way(name), "fresh": True}


def steps(quick):
    """The service alone, each hog alone, then both under each scheduler."""
    hogs = QUICK_HOGS if quick else tuple(HOGS)
    return [_step(hogs[0], "none", [SERVICE]), *(_step(hog, "none", [HOG]) for hog in hogs),
            *(_step(hog, name, [SERVICE, HOG]) for hog in hogs
              for name in (QUICK_NAMES if quick else NAMES))]


# ---- figures ----

def measured(step, answer):
    """{figure: value} of one step, with nothing to compare it with."""
    found = {}
    if SERVICE in step["run"]:
        took_ms = sorted(ns / 1e6 for ns in answer["latencies_ns"])
        found["good"] = sum(ms <= LIMIT_MS for ms in took_ms)
        found["mean"] = sum(took_ms) / len(took_ms)
        found["p99"] = fio.percentile_of([(ms, 1) for ms in took_ms], 0.99)
    if HOG in step["run"]:
        found["hog"] = 4096 * answer["pages"] / step["seconds"] / 1e6
    return found


def _against(got, service, hog):
    """The figures of one step beside those of the @service and of the @hog alone."""
    if not service["good"] or not hog["hog"]:
        raise BenchError("the service or the hog did nothing alone")
    return {"isolation": 100 * got["good"] / service["good"],
            "latency impact": max(0, 100 * (got["mean"] / service["mean"] - 1)),
            "conservation": 100 * got["hog"] / hog["hog"]}


def rows(pairs):
    """The rows of all (step, answer); those alone come first."""
    out, service, hogs = [], None, {}
    for step, answer in pairs:
        got = measured(step, answer)
        if step["run"] == [SERVICE]:
            service, case = got, ALONE
        elif step["run"] == [HOG]:
            hogs[step["hog"]], case = got, f"{ALONE}: {step['hog']}"
        elif service and step["hog"] in hogs:
            got, case = {**_against(got, service, hogs[step["hog"]]), **got}, step["case"]
        else:
            continue
        out += [report.row(case, step["name"], metric, [got[metric]],
                           {"mean": "ms", "p99": "ms", "hog": "MB/s"}.get(metric, "%"), 2)
                for metric in METRICS if metric in got]
    return out


def run(args):
    """Measure; the result dictionary."""
    lab.build_protection()
    todo = steps(args.quick)
    # Halves of alike length, and io.cost's model in one guest only.
    first = [step for step in todo if len(step["run"]) > 1 and step["name"] in NAMES[0::2]]
    plans = [first, [step for step in todo if step not in first]]
    guest = replace(lab.virtual(args.kernel, CPUS), mem=MEM)
    ran, results = lab.measure([(guest, plan) for plan in plans], may_lose=True)
    pairs = lab.flat(plans, results)
    pairs.sort(key=lambda pair: todo.index(pair[0]))
    parameters = {"device": "ssdsim, default profile with reads four times as long, 1 GiB, 4 "
                            "hardware queues; ext4 and a swap file on it",
                  "cpus": CPUS, "runtime_s": SECONDS, "limit_ms": LIMIT_MS,
                  "target_us": TARGET_US, "jobs": "guest/protection.c"}
    return report.result("protection", ran, parameters, rows(pairs))


def _names(result):
    return [name for name in NAMES if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    return "\n\n".join(
        report.by_scheduler(result, metric, words, form, _names(result),
                            report.cases_with(result, metric))
        for metric, (words, form) in METRICS.items())


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence: ours, none, and the best rival."""
    case = report.cases_with(result, "isolation")[-1]
    found = {name: [report.value(result, case, name, metric) for metric in GOALS]
             for name in _names(result)}
    kept = {name: min(goal / asked for goal, asked in zip(got, GOALS.values()))
            for name, got in found.items() if name not in ("none", OURS) and None not in got}
    shown = dict.fromkeys((OURS, "none", *([max(kept, key=kept.get)] if kept else [])))
    words = [f"{found[name][0]:.0f}% isolation at {found[name][1]:.0f}% work conservation under "
             f"{name}" for name in shown]
    return f"A service beside a hog that swaps and writes back: {'; '.join(words)}"


def draw(result, plt):
    """A column for each hog: isolation against work conservation, and latency impact."""
    cases, names = report.cases_with(result, "isolation"), _names(result)
    figure, axes = style.panels(plt, 2, len(cases), 3.4, 2.5)
    for (above, below), case in zip(axes.T, cases):
        for number, name in enumerate(names):
            at = [report.value(result, case, name, metric)
                  for metric in ("conservation", "isolation")]
            if None not in at:
                above.plot(at[:1], at[1:], "o", markersize=9.5 - 0.5 * number, zorder=3,
                           color=style.color_of(name))
        style.guide(above, GOALS["isolation"], across=True)
        style.guide(above, GOALS["conservation"])
        above.set_xlim(0, max(105, 1.05 * above.get_xlim()[1]))
        above.set_ylim(0, 105)
        above.set_title(case, loc="left")
        above.set_xlabel("work conservation, %")
        style.dots(below, [report.value(result, case, name, "latency impact") for name in names],
                   [style.color_of(name) for name in names], "{:.0f}")
        style.names_down(below, names, shown=below is axes[1][0])
        below.set_xlim(0)
        style.room(below)
        below.set_xlabel("latency impact, %")
    axes[0][0].set_ylabel("isolation, %")
    footer = style.conditions(
        result, f"Isolation: requests answered within {LIMIT_MS} ms, of those alone. Work "
        "conservation: pages that the hog gets through, of those alone. Dotted: what is asked. The "
        f"service has {PER_S} requests a second, of {READS} reads each.")
    return style.finish(figure, finding(result), footer, style.marks(
        {name: style.color_of(name) for name in names}))
