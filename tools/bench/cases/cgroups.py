# SPDX-License-Identifier: GPL-2.0
"""cgroups: what the number of cgroups costs, active ones and idle ones, in isolation and in work.

The load has the shape of isol-bench's desideratum of low overhead. It has four parts:

  active   1 to 256 cgroups read 4 KiB at random, all the time. Every second one has twice the
           weight. DEPTHS has the requests that each keeps outstanding
  idle     four of these beside 1 to 256 cgroups that have read one block and do nothing since
  probe    as "active", and one more cgroup, which has one request at a time. It is a case of its
           own, since mq-mqfq gives up bandwidth for such a tenant
  work     as many cgroups on a device that completes each request at once, in the submitter's
           context: instructions per I/O, counted by guest/iocount.c. All are active, with
           WORK_BATCH requests at a time, or one is and the others are idle

In all but the last the drive reads four times as slowly as ssdsim's default, so that the guest's
CPU is never the limit. RAMP_S is as much longer than in other benchmarks.

Figures: Jain's index of bandwidth over weight, without the probe; bandwidth of all; the 99th
percentile of the requests of the first cgroup, or of the probe. If none of these ended in the
window, that is the length of the window, and the real one is longer.

Shares may differ by a number of bytes that does not grow with time, which is much of what one of
256 cgroups has in a few seconds: "active" lasts MANY_S with so many.

io.cost has in "work" a model of a drive without end, so that it delays nothing.
"""
from dataclasses import replace

from kit import fio, lab, report, rivals, style
from kit.tenants import HEAD, jain

ONE_LINE = "shares, a probe's tail and instructions per I/O by the number of cgroups"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048,
                                      "read_ns": 430000, "xfer_unit_ns": 102800},
         "sysfs": {"ssdsim/fill": 50}}
AT_ONCE = {"kind": "null_blk", "params": {"submit_queues": CPUS, "irqmode": 0,
                                          "hw_queue_depth": 256, "nr_devices": 1}}
# Cgroups: requests that each of them keeps outstanding.
DEPTHS = {1: 256, 4: 64, 16: 16, 64: 6, 256: 2}
BESIDE_IDLE = 4
QUICK_COUNTS = (4, 64)
RAMP_S, WINDOW_S, MANY, MANY_S = 4, 3, 256, 10
WORK_BATCH, WORK_IOS, WORK_WINDOWS, WORK_STEP = 4, 8192, 3, 10
WORK_MEM = "4G"     # each worker is a process with its memory locked
ACTIVE, IDLE, PROBE = "active", "idle", "active and a probe"
OURS = "mq-mqfq"
NAMES = ("none", "bfq", "bfq, tuned", "io.cost", "io.cost, tuned", OURS)
# For "idle" and "probe", to save time.
MAIN_NAMES = ("none", "bfq", "io.cost, tuned", OURS)
QUICK_NAMES = ("none", "bfq", OURS)
WORK_NAMES = ("none", "mq-deadline", "kyber", "bfq", "io.cost", OURS)
WITHOUT_END = {"rbps": 10**12, "rseqiops": 10**8, "rrandiops": 10**8, "wbps": 10**12,
               "wseqiops": 10**8, "wrandiops": 10**8}
# Metric: words, format.
METRICS = {"jain": ("Jain's index of bandwidth / weight", "{:.3f}"),
           "bandwidth": ("total bandwidth, MB/s", "{:.1f}"),
           "p99": ("p99 of the first cgroup, ms", "{:.0f}"),
           "probe p99": ("p99 of the probe, ms", "{:.1f}"),
           "added": ("instructions per I/O more than none", "{:.0f}")}


def case_name(count, what):
    """A case's name in the result; the active ones are those that have I/O."""
    return f"{count} {what}"


# ---- what is measured ----

def job_text(count, what):
    """@count cgroups, and the probe if there is one; the latencies of one of them."""
    text = HEAD + "rw=randread\nbs=4k\nlog_unix_epoch=1\nper_job_logs=0\n"
    if what == PROBE:
        text += "\n[probe]\ncgroup=probe\niodepth=1\nwrite_lat_log=probe\n"
    for number in range(count):
        text += f"\n[a{number}]\ncgroup=a{number}\niodepth={DEPTHS[count]}\n"
        if number == 0 and what != PROBE:
            text += "write_lat_log=a0\n"
    return text


def weights_of(count):
    """{name: weight} of @count cgroups: 100 and 200 in turn."""
    return {f"a{number}": 100 + 100 * (number % 2) for number in range(count)}


def _share_step(count, what, name):
    active = BESIDE_IDLE if what == IDLE else count
    idle = [f"i{number}" for number in range(count)] if what == IDLE else []
    watched = "probe" if what == PROBE else "a0"
    weights = {watched: 100, **weights_of(active), **dict.fromkeys(idle, 100)}
    case = case_name(count, what)
    return {"label": f"{case}, {name}", "case": case, "count": active, "device": DRIVE,
            "watched": watched, "measure": "shares", "job_text": job_text(active, what),
            "latencies": [watched], "idle": idle, "ramp_s": RAMP_S,
            "window_s": MANY_S if (count, what) == (MANY, ACTIVE) else WINDOW_S,
            **rivals.way(name, weights), "fresh": True}


def share_steps(quick):
    """The steps of all parts but the last."""
    counts = QUICK_COUNTS if quick else tuple(DEPTHS)
    return [_share_step(count, what, name) for what in (ACTIVE, IDLE, PROBE) for count in counts
            for name in (QUICK_NAMES if quick else NAMES if what == ACTIVE else MAIN_NAMES)]


def _work_step(count, what, name):
    active, case = (count if what == ACTIVE else 1), f"{case_name(count, what)}, work"
    idle = [] if what == ACTIVE else [f"i{number}" for number in range(count)]
    scheduler, control, _ = rivals.WAYS[name]
    groups = {"control": control, "weights": dict.fromkeys(["w", *idle], 100),
              **({"model": WITHOUT_END} if control == "io.cost" else {})}
    return {"label": f"{case}, {name}", "case": case, "name": name, "scheduler": scheduler,
            "device": AT_ONCE, "fresh": True, "measure": "iocount", "program": lab.IOCOUNT,
            "depth": WORK_BATCH, "batch": WORK_BATCH, "ios": WORK_IOS // active,
            "windows": WORK_WINDOWS, "cpus": ",".join(["0"] * active), "flows": 1,
            "groups": active, "idle": idle, "cgroups": groups}


def work_steps(quick):
    """The steps of the last part; none comes first in each case."""
    counts = QUICK_COUNTS if quick else tuple(DEPTHS)
    return [_work_step(count, what, name) for what in (ACTIVE, IDLE) for count in counts
            for name in WORK_NAMES]


# ---- figures ----

def share_rows(step, answer):
    """The figures of a step of all parts but the last."""
    def row(metric, value, unit, digits):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    weights, watched = weights_of(step["count"]), step["watched"]
    waited = sorted(answer["latencies"][watched])
    total = sum(answer[name] for name in {watched, *weights})
    p99 = 1e9 * step["window_s"]
    if waited:
        p99 = fio.percentile_of([(ns, 1) for ns in waited], 0.99)
    return [row("jain", jain([answer[name] / weight for name, weight in weights.items()]), "1", 4),
            row("bandwidth", total / step["window_s"] / 1e6, "MB/s", 2),
            row("probe p99" if watched == "probe" else "p99", p99 / 1e6, "ms", 2),
            row("requests", len(waited), "1", 0)]


def work_rows(pairs):
    """The figures of the last part: the least window, and that less none's."""
    out, base = [], {}
    for step, windows in pairs:
        per_io = WORK_STEP * round(min(windows) / WORK_STEP)
        if step["name"] == "none":
            base[step["case"]] = per_io
        if step["case"] not in base:
            continue
        for metric, value in (("per_io", per_io), ("added", max(0, per_io - base[step["case"]]))):
            out.append(report.row(step["case"], step["name"], metric, [value], "instructions", 0))
    return out


def run(args):
    """Measure; the result dictionary."""
    lab.build_iocount()
    shares, work = share_steps(args.quick), work_steps(args.quick)
    # Halves of alike length, and io.cost's model in one guest only.
    plans = [[step for step in shares if step["name"] in NAMES[number::2]]
             + [step for step in work if step["case"].endswith(what)]
             for number, what in enumerate((f"{ACTIVE}, work", f"{IDLE}, work"))]
    guest = replace(lab.virtual(args.kernel, CPUS), mem=WORK_MEM)
    ran, results = lab.measure([(guest, plan) for plan in plans], may_lose=True)
    pairs = lab.flat(plans, results)
    pairs.sort(key=lambda pair: (shares + work).index(pair[0]))
    rows = [entry for step, answer in pairs if step["measure"] == "shares"
            for entry in share_rows(step, answer)]
    rows += work_rows([pair for pair in pairs if pair[0]["measure"] == "iocount"])
    parameters = {"device": "ssdsim, default profile with reads four times as long, 2 GiB, half "
                            "filled, 4 hardware queues; instructions: null_blk, irqmode 0",
                  "cpus": CPUS, "block_bytes": 4096, "runtime_s": WINDOW_S, "many_s": MANY_S,
                  "jobs": "generated"}
    return report.result("cgroups", ran, parameters, rows)


def table(result):
    """The figures as text."""
    names = [name for name in dict.fromkeys((*NAMES, *WORK_NAMES))
             if name in report.unique(result, "scheduler")]
    return "\n\n".join(
        report.by_scheduler(result, metric, words, form,
                            [name for name in names if report.values(result, name, metric)],
                            report.cases_with(result, metric))
        for metric, (words, form) in METRICS.items())


# ---- the picture ----

def _count(case):
    return int(case.split()[0])


def finding(result):
    """What the picture shows, in a sentence: ours, and the rival that is the best in each."""
    most = max((case for case in report.cases_with(result, "jain") if case.endswith(ACTIVE)),
               key=_count)
    fair = {name: report.value(result, most, name, "jain") for name in NAMES
            if report.value(result, most, name, "jain") is not None}
    rival = max((name for name in fair if name not in ("none", OURS)), key=fair.get)
    lost = [100 - 100 * report.value(result, case, OURS, "bandwidth")
            / report.value(result, case_name(BESIDE_IDLE, ACTIVE), OURS, "bandwidth")
            for case in report.cases_with(result, "jain") if case.endswith(IDLE)]
    added = {name: report.values(result, name, "added") for name in WORK_NAMES if name != "none"}
    work = [f"{name} {min(found)} to {max(found)}" for name, found in added.items() if found]
    shares = [f"{fair[name]:.3f} at {report.value(result, most, name, 'bandwidth'):.1f} MB/s under "
              f"{name}" for name in (OURS, "none", rival)]
    return (f"Jain's index of {_count(most)} cgroups is {', '.join(shares)}; idle cgroups cost "
            f"mq-mqfq at most {max(0, *lost):.0f}% of its bandwidth. Instructions added per I/O: "
            f"{', '.join(work)}")


# A panel each: metric, end of the case's name, title.
PANELS = (("jain", ACTIVE, "Jain's index, active"), ("jain", IDLE, "Jain's index, beside idle"),
          ("bandwidth", ACTIVE, "MB/s, active"), ("bandwidth", IDLE, "MB/s, beside idle"),
          ("p99", ACTIVE, "p99, ms, active (log)"), ("p99", IDLE, "p99, ms, beside idle (log)"),
          ("probe p99", PROBE, "p99 of a probe, ms (log)"), ("bandwidth", PROBE, "MB/s with it"),
          ("added", f"{ACTIVE}, work", "instructions added, active (log)"),
          ("added", f"{IDLE}, work", "instructions added, beside idle (log)"))


def _draw_panel(axis, result, metric, end, shown):
    cases = [case for case in report.cases_with(result, metric)
             if case.removeprefix(f"{_count(case)} ") == end]
    for name in dict.fromkeys((*NAMES, *WORK_NAMES)):
        points = [(_count(case), report.value(result, case, name, metric)) for case in cases]
        points = [point for point in points if point[1] is not None]
        if points and (metric, name) != ("added", "none"):
            shown[name] = style.color_of(name)
            axis.plot(*zip(*points), "o-", color=shown[name], markersize=4.5, linewidth=1.2,
                      zorder=4 if name == OURS else 3)
    axis.set_xscale("log", base=4)
    axis.set_xticks([_count(case) for case in cases], [_count(case) for case in cases])
    axis.minorticks_off()


def draw(result, plt):
    """A panel for each figure, by the number of cgroups."""
    figure, axes = style.panels(plt, len(PANELS) // 2, 2, 5.2, 1.8)
    shown = {}
    for axis, (metric, end, words) in zip(axes.flat, PANELS):
        _draw_panel(axis, result, metric, end, shown)
        axis.set_title(words, loc="left")
        if words.endswith("(log)"):
            axis.set_yscale("log")
            axis.margins(y=0.15)
            style.log_ticks(axis, across=True)
        else:
            axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    for axis in axes[-1]:
        axis.set_xlabel("cgroups (log)")
    footer = style.conditions(
        result, "Every second active cgroup has twice the weight. Beside idle: "
        f"{BESIDE_IDLE} are active, for instructions 1. The probe has one request at a time. "
        f"{MANY} active: {MANY_S} s.")
    return style.finish(figure, finding(result), footer, style.marks(style.ordered(shown)))
