# SPDX-License-Identifier: GPL-2.0
"""scale: the cache lines that move between CPUs per I/O, with 2 to 64 CPUs.

No machine here has that many CPUs. A guest in virtual time has, and the lab's plugin counts each
access to a line that another CPU has (tools/lab/coherence). null_blk has as many hardware queues as
the guest has CPUs, and one worker per CPU reads 4 KiB at random, 32 at a time, one by one
(guest/iocount.c). Each worker is a process in a cgroup: all in one, a cgroup per CPU, or 16.

unsaturated  a completion timer of 10 us, and more slots than requests are outstanding
saturated    completions of 128 us times the CPUs, and 4 slots per CPU: queues wait. Only
             schedulers that bound what the drive has are in it. Beside them none, with 4
             outstanding per CPU: it has as many requests at the device, and nothing waits

A CPU's turn is SLICE instructions. What contends depends on it, so one number of CPUs is measured
with every slice of SLICES. wbt is off.
"""
import json
import os

from kit import lab, report, style
from kit.lab import ALWAYS, others
from kit.say import BenchError

ONE_LINE = "cache lines that move between CPUs per I/O, 2 to 64 CPUs"

CPUS, QUICK_CPUS = (2, 4, 8, 16, 32, 64), (2, 4)
SLICE, SLICES, SWEPT_CPUS = 100, (30, 100, 300), 8
DEPTH, MANY_TENANTS = 32, 16
# Saturated: all CPUs take turns, so that an I/O may take 32,000 instructions, and CPUs have time.
SLOTS_PER_CPU, SATURATED_NS_PER_CPU = 4, 128000
# I/Os per worker in a window; a window of as many warms up.
IOS = {2: 500, 4: 400, 8: 300, 16: 200, 32: 150, 64: 100}
BY_CGROUP = ("mq-mqfq", "mq-octofas", "bfq")
UNSATURATED, SATURATED = "unsaturated", "saturated"
# The bound of what the drive has, in schedulers that have one.
BOUND = {"mq-mqfq": "slots", "mq-k2": "max_inflight"}
THROTTLE_KB = 64
DISPATCH = {"mq-mqfq": "mqfq_dispatch_request", "mq-k2": "k2_dispatch_request",
            "mq-tabs": "tabs_dispatch_request", "mq-octofas": "octofas_dispatch_request",
            "mq-deadline": "dd_dispatch_request", "kyber": "kyber_dispatch_request",
            "bfq": "bfq_dispatch_request"}
RUN_ALL = ("blk_mq_run_hw_queues", "blk_mq_delay_run_hw_queues")
LOCK, CONTENDED = ("_raw_spin_lock", "_raw_read_lock", "_raw_write_lock"), \
    "native_queued_spin_lock_slowpath"
# Of the tables: how a figure is written.
FORMS = {"transfers": "{:.1f}", "caused": "{:.1f}", "hottest_line": "{:.2f}",
         "instructions": "{:.0f}", "empty_dispatches": "{:.2f}", "runs_of_all": "{:.3f}",
         "contended_locks": "{:.2f}"}
METRIC_WORDS = {name: f"{name.replace('_', ' ')} per I/O" for name in FORMS}
TENANTS = ("one tenant", "a tenant per CPU", f"{MANY_TENANTS} tenants")
METRICS = {"transfers": "transfers/IO", "caused": "transfers/IO", "hottest_line": "transfers/IO",
           "instructions": "instructions", "empty_dispatches": "1/IO", "runs_of_all": "1/IO",
           "locks": "1/IO", "contended_locks": "1/IO"}


def tenants_of(cpus, scheduler):
    """{words: cgroups} of the cases of @scheduler with @cpus CPUs."""
    found = {"one tenant": 1}
    if scheduler in BY_CGROUP:
        found["a tenant per CPU"] = cpus
        if cpus > MANY_TENANTS:
            found[f"{MANY_TENANTS} tenants"] = MANY_TENANTS
    return found


def case_name(cpus, tenants, regime, slice_insns=SLICE):
    """A case's name in the result."""
    swept = "" if slice_insns == SLICE else f", slices of {slice_insns}"
    return f"{cpus} CPUs, {tenants}, {regime}{swept}"


def _tunables(scheduler, cpus, regime):
    found = {"throttle_kb": THROTTLE_KB} if scheduler == "mq-mqfq" else {}
    if regime == SATURATED and scheduler in BOUND:
        found[BOUND[scheduler]] = SLOTS_PER_CPU * cpus
    elif scheduler == "mq-mqfq":
        found[BOUND[scheduler]] = 2 * DEPTH * cpus
    return found


def plan(cpus, slice_insns, regimes, schedulers):
    """The steps of one guest."""
    steps = []
    for regime in regimes:
        completion_ns = 10000 if regime == UNSATURATED else SATURATED_NS_PER_CPU * cpus
        device = {"kind": "null_blk", "sysfs": {"queue/wbt_lat_usec": 0},
                  "params": {"submit_queues": cpus, "poll_queues": 0, "irqmode": 2, "nr_devices": 1,
                             "completion_nsec": completion_ns, "hw_queue_depth": 256}}
        for name in schedulers:
            depth = DEPTH
            if regime == SATURATED and name == "none":
                depth = SLOTS_PER_CPU
            elif regime == SATURATED and name not in BOUND:
                continue
            for tenants, groups in tenants_of(cpus, name).items():
                case = case_name(cpus, tenants, regime, slice_insns)
                steps.append({"label": f"{case}, {name}", "case": case, "scheduler": name,
                              "device": device, "measure": "iocount", "program": lab.IOCOUNT,
                              "depth": depth, "batch": 1, "ios": IOS[cpus], "windows": 1,
                              "cpus": ",".join(map(str, range(cpus))), "flows": 1,
                              "groups": groups, "nr_cpus": cpus, "slice": slice_insns,
                              "tunables": _tunables(name, cpus, regime),
                              "counted": f"{len(steps)}"})
    return steps


# ---- figures ----

def figures(step, window):
    """{metric: value} of a step, per I/O, from its window in the plugin's result."""
    ios = step["ios"] * step["windows"] * step["nr_cpus"]
    calls = {}
    for name, count in window["calls"].items():
        name = name.split()[0]
        calls[name] = calls.get(name, 0) + count
    found = {"transfers": window["transfers"], "hottest_line": window["hottest_line"],
             "instructions": window["insns"],
             "runs_of_all": sum(calls.get(name, 0) for name in RUN_ALL),
             "locks": sum(count for name, count in calls.items() if name.startswith(LOCK)),
             "contended_locks": calls.get(CONTENDED, 0)}
    if step["scheduler"] != "none":
        dispatches = calls.get(DISPATCH[step["scheduler"]])
        if not dispatches:
            raise BenchError(f"{step['label']}: the window has no dispatch")
        found["caused"] = window["caused"]
        found["empty_dispatches"] = max(0, dispatches - ios)
    return {metric: value / ios for metric, value in found.items()}


def rows(pairs):
    """Rows of [(step, window)]: those of repeats of a case and scheduler become one."""
    values = {}
    for step, window in pairs:
        for metric, value in figures(step, window).items():
            key = (step["case"], step["scheduler"], metric)
            values.setdefault(key, []).append(value)
    return [report.row(case, name, metric, found, METRICS[metric],
                       digits=0 if metric == "instructions" else 2)
            for (case, name, metric), found in values.items()]


def _site(site):
    words = f"{site['access']} +{site['offset']} in {site['code'].split('+')[0]}"
    return words + (f" ({site['source']}: {site['text']})" if "source" in site else "")


def hottest(pairs, top=3):
    """{case: {scheduler: [words]}}: the lines that moved most, and the code that moved them."""
    found = {}
    for step, window in pairs:
        ios = step["ios"] * step["windows"] * step["nr_cpus"]
        lines = []
        for line in window["lines"][:top]:
            sites = "; ".join(_site(site) for site in line["sites"][:3])
            lines.append(f"{line['transfers'] / ios:.2f} {line['symbol'] or line['address']}: "
                         f"{sites}")
        found.setdefault(step["case"], {})[step["scheduler"]] = lines
    return found


def by_module(pairs):
    """{case: {scheduler: {module: transfers per I/O}}}; of repeats the last."""
    found = {}
    for step, window in pairs:
        ios = step["ios"] * step["windows"] * step["nr_cpus"]
        found.setdefault(step["case"], {})[step["scheduler"]] = {
            name: round(count / ios, 2) for name, count in window["transfers_by_module"].items()
            if count / ios >= 0.01}
    return found


def _setups(quick):
    """[(CPUs, slice, regimes, repeats)]"""
    if quick:
        return [(cpus, SLICE, (UNSATURATED,), 1) for cpus in QUICK_CPUS]
    found = [(cpus, SLICE, (UNSATURATED, SATURATED), 2 if cpus <= SWEPT_CPUS else 1)
             for cpus in CPUS]
    return found + [(SWEPT_CPUS, slice_insns, (UNSATURATED,), 1) for slice_insns in SLICES
                    if slice_insns != SLICE]


def result_of_pairs(ran, counted):
    """The result dictionary of [(step, window)]."""
    parameters = {"device": "null_blk, irqmode 2 (timer), a hardware queue per CPU, 256 tags each; "
                            "completes after 10 us, saturated after 128 us times the CPUs",
                  "block_bytes": 4096, "pattern": "random reads, depth 32, one by one, io_uring",
                  "slice_insns": SLICE, "ios_per_cpu": IOS,
                  "slots": "mq-mqfq 64 per CPU, mq-k2 32 in all; saturated: 4 per CPU, and none "
                           "has 4 outstanding",
                  "throttle_kb": THROTTLE_KB, "wbt": "off"}
    return report.result("scale", ran, parameters, rows(counted), modules=by_module(counted),
                         lines=hottest(counted))


def run(args):
    """Measure; the result dictionary."""
    schedulers = ALWAYS + others()
    lab.build_iocount()
    with lab.scratch() as folder:
        pairs, files = [], []
        for cpus, slice_insns, regimes, repeats in _setups(args.quick):
            for repeat in range(repeats):
                files.append(os.path.join(folder, f"counted-{len(files)}.json"))
                guest = lab.counted(args.kernel, cpus, files[-1], slice_insns, repeat)
                pairs.append((guest, plan(cpus, slice_insns, regimes, schedulers)))
        ran, _ = lab.measure(pairs)
        counted = []
        for (_, steps), path in zip(pairs, files):
            with open(path, encoding="utf-8") as handle:
                counted += zip(steps, json.load(handle)["windows"])
    return result_of_pairs(ran, counted)


# ---- table and picture ----

def _numbers(result, tenants, regime):
    """[(CPUs, case)] of the cases of @tenants in @regime, that of the usual slice only."""
    found = []
    for case in report.unique(result, "case"):
        words = case.split(", ")
        if words[1:] == [tenants, regime]:
            found.append((int(words[0].split()[0]), case))
    return sorted(found)


def _by_cpus(result, metric, form, regime):
    """A table of one metric in @regime: a line per scheduler and tenants, a column per CPUs."""
    tenants = [words for words in TENANTS if _numbers(result, words, regime)]
    numbers = [cpus for cpus, _ in _numbers(result, tenants[0], regime)]
    lines = []
    for words in tenants:
        cases = dict(_numbers(result, words, regime))
        for name in report.unique(result, "scheduler"):
            cells = [report.cell(report.value(result, cases.get(cpus), name, metric), form)
                     for cpus in numbers]
            lines.append([f"{name}, {words}", *cells])
    return report.table([f"{METRIC_WORDS[metric]}, {regime}", *(f"{n} CPUs" for n in numbers)],
                        [line for line in lines if any(line[1:])])


def table(result):
    """The figures as text: both regimes, then the slices, then the lines that move."""
    first = f"{SWEPT_CPUS} CPUs, one tenant, {UNSATURATED}"
    swept = [case for case in report.unique(result, "case") if case.startswith(first)]
    parts = [_by_cpus(result, metric, form, regime)
             for regime in (UNSATURATED, SATURATED) if _numbers(result, "one tenant", regime)
             for metric, form in FORMS.items()]
    parts.append(report.by_scheduler(result, "transfers", METRIC_WORDS["transfers"], "{:.1f}",
                                     report.unique(result, "scheduler"), swept))
    for case, found in result.get("lines", {}).items():
        for name, lines in found.items():
            parts.append("\n".join([f"{case}, {name}: the lines that move most", *lines]))
    return "\n\n".join(parts)


def finding(result):
    """What the picture shows, in a sentence."""
    numbers = _numbers(result, "one tenant", UNSATURATED)
    most, case = numbers[-1]
    moved = {name: report.value(result, case, name, "transfers")
             for name in report.unique(result, "scheduler")}
    ours = ", ".join(f"{name} {moved[name]:.1f}" for name in ("mq-k2", *others())
                     if moved.get(name) is not None)
    return (f"Cache lines moved per I/O with {most} CPUs and one tenant: none {moved['none']:.1f}, "
            f"{ours}, mq-deadline {moved['mq-deadline']:.1f}, bfq {moved['bfq']:.1f}")


def draw(result, plt):
    """Transfers over CPUs: one tenant, a tenant per CPU; and the hottest line."""
    colors = style.ordered(report.unique(result, "scheduler"))
    figure, axes = style.panels(plt, 1, 3, 3.4, 3.2)
    panels = (("one tenant", "transfers", "all lines, one tenant"),
              ("a tenant per CPU", "transfers", "all lines, a tenant per CPU"),
              ("one tenant", "hottest_line", "the hottest line, one tenant"))
    for axis, (tenants, metric, title) in zip(axes[0], panels):
        numbers = _numbers(result, tenants, UNSATURATED)
        for name, color in colors.items():
            points = [(cpus, report.value(result, case, name, metric)) for cpus, case in numbers]
            points = [(cpus, max(value, 0.02)) for cpus, value in points if value is not None]
            if points:
                axis.plot(*zip(*points), color=color, marker="o", markersize=4, linewidth=1.4)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks([cpus for cpus, _ in numbers], [str(cpus) for cpus, _ in numbers])
        axis.minorticks_off()
        style.log_ticks(axis, across=True)
        axis.grid(axis="y", color=style.GRID, linewidth=0.6)
        axis.set_title(title, loc="left")
        axis.set_xlabel("CPUs, and hardware queues")
    axes[0][0].set_ylabel("transfers per I/O")
    footer = style.conditions(
        result, f"Unsaturated. Load: {result['parameters']['pattern']}. A CPU's turn is {SLICE} "
        "instructions; the figures of what contends depend on it. Below 0.02 is drawn as 0.02.")
    return style.finish(figure, finding(result), footer, style.marks(colors))
