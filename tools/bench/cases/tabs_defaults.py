# SPDX-License-Identifier: GPL-2.0
"""defaults: sweeps of epoch_ms and idle_threshold, to choose mq-tabs's defaults.

Two drives: ssdsim's default profile, and one with a quarter of its speed. A guest cannot have a
drive faster than the first. But an epoch needs enough requests to tell how the types fare, and a
faster drive has more of them in the same time.

  epoch_ms        the load of kit/changes.py: a reader; a FUA writer comes, a second one joins it
                  and leaves. A long epoch follows such changes late, a short one takes accidents
                  for changes. And 1w1r of `tabs`
  idle_threshold  1w1r of `tabs`, which should be scheduled; and a light load, LIGHT requests per
                  second on an idle drive, which loses if it is scheduled

Figures: F (Equation 2 of the TABS paper) in the second half of each phase, the worst phase; time
until the slowest tenant has settled, the worst change; F of 1w1r; mean latency of the light load's
FUA writes.
"""
from kit import changes, fio, fua, lab, report, style

ONE_LINE = "mq-tabs: epoch_ms and idle_threshold, swept on two drives"

# How many times slower than the default profile; times of that profile (ssdsim_profile.h).
DRIVES = {"default profile": 1, "a quarter as fast": 4}
TIMES_NS = {"fetch_ns": 1000, "cmd_ns": 4000, "dma_unit_ns": 2000, "xfer_unit_ns": 25700,
            "read_ns": 107500, "prog_ns": 1075000, "destage_ns": 2000000}
EPOCHS_MS, THRESHOLDS = (50, 100, 250, 500, 1000), (50, 100, 200, 500, 1000, 5000)
# The value of each tunable while the other one is swept. The slower drive serves 700 requests in
# 500 ms under a load of both types.
GIVEN = {"epoch_ms": 250, "idle_threshold": 200}
# mq-tabs's defaults, chosen by these figures.
DEFAULTS = {"epoch_ms": 500, "idle_threshold": 200}
QUICK_EPOCHS_MS, QUICK_THRESHOLDS = (50, 250), (200, 1000)
LIGHT = {"reads": 400, "writes": 100}
LIGHT_JOB = (f"{fua.HEAD}ramp_time=1s\niodepth=8\n"
             f"[reads]\nnew_group\nrw=randread\nrate_iops={LIGHT['reads']}\n"
             f"[writes]\nnew_group\nrw=randwrite\nsync=dsync\nrate_iops={LIGHT['writes']}\n")


def _device(slower):
    times = {name: value * slower for name, value in TIMES_NS.items()}
    return {**fua.DRIVE, "params": {**fua.DRIVE["params"], **times}}


def _step(drive, what, name, step, **tunables):
    """@step on @drive: with @tunables under mq-tabs, which knows the drive's maxima; else none."""
    slower = DRIVES[drive]
    known = {name: value // slower for name, value in fua.TUNABLES.items()}
    return {**step, "label": f"{drive}, {what}, {name}", "case": f"{drive}, {what}",
            "drive": drive, "what": what, "name": name, "device": _device(slower),
            "scheduler": "mq-tabs" if tunables else "none",
            "tunables": {**known, **tunables} if tunables else {}, "measure": "fio"}


def steps(drive, quick):
    """All measurements on @drive; each type alone comes first."""
    # The slower drive needs longer to settle.
    both = {"job_text": fua.job_text(1, 1, ramp_s=DRIVES[drive])}
    out = [_step(drive, f"{what} alone", "none", {"job_text": fua.job_text(writers, readers)})
           for writers, readers, what in ((0, 1, "reads"), (1, 0, "writes"))]
    epochs = [("epoch_ms", value) for value in (QUICK_EPOCHS_MS if quick else EPOCHS_MS)]
    thresholds = [("idle_threshold", value)
                  for value in (QUICK_THRESHOLDS if quick else THRESHOLDS)]
    for what, step, swept in (("changing", changes.fua_step("mq-tabs"), epochs),
                              ("1w1r", both, epochs + thresholds),
                              ("light", {"job_text": LIGHT_JOB}, thresholds)):
        # A change every 1.5 s is too much for the slower drive with any setting.
        if what == "changing" and DRIVES[drive] > 1:
            continue
        out += [_step(drive, what, "none", step)]
        out += [_step(drive, what, f"{name} {value}", step, **{**GIVEN, name: value})
                for name, value in swept]
    return out


def fairness(alone, got, writers, readers=1):
    """F (Equation 2) of reads and FUA writes: {"reads": MB/s, "writes": MB/s}, alone and here."""
    pct = {"reads": got["reads"] / alone["reads"] / readers,
           "writes": got["writes"] / alone["writes"] / writers}
    return min(pct.values()) / max(pct.values())


def changing(alone, found):
    """(F of the worst phase with both types, settling time of the worst change), from curves."""
    per_phase = changes.PHASE_MS // changes.WINDOW_MS
    factors, settle_ms = [], 0
    for phase in range(changes.NR_PHASES["mq-tabs"]):
        parts = [values[phase * per_phase:(phase + 1) * per_phase] for values in found.values()]
        halves = [sum(values[per_phase // 2:]) for values in parts]
        writers = sum(half > 0 for half in halves[1:])
        if writers:
            got = {"reads": halves[0], "writes": sum(halves[1:])}
            factors.append(fairness(alone, got, writers))
        if phase:
            settle_ms = max([settle_ms, *(changes.settle_ms(values[1:-1])
                                          for values, half in zip(parts, halves) if half)])
    return min(factors), settle_ms


def rows(step, jobs, alone):
    """The rows of one step; @alone: each type's bandwidth when it is alone on that drive."""
    def row(metric, value, unit, **more):
        return report.row(step["case"], step["name"], metric, [value], unit, **more)

    if step["what"] == "changing":
        factor, settle_ms = changing(alone, changes.curves({**step, "case": "mq-tabs"}, jobs))
        return [row("F", factor, "1", digits=3), row("settle", settle_ms, "ms", digits=0)]
    got = {kind: fio.bandwidth_of_mb_s(jobs, kind) for kind in ("reads", "writes")
           if f"[{kind}]" in step["job_text"]}
    out = [row(f"bandwidth {kind}", value, "MB/s") for kind, value in got.items()]
    if step["what"] == "1w1r":
        out.append(row("F", fairness(alone, got, 1), "1", digits=3))
    if step["what"] == "light":
        out.append(row("latency FUA", fio.mean_us(jobs, "writes") / 1000, "ms", digits=2))
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = [steps(drive, args.quick) for drive in DRIVES]
    ran, results = lab.measure_virtual(args.kernel, fua.CPUS, todo)
    found = []
    for plan, answers in zip(todo, results):
        alone = {kind: fio.bandwidth_of_mb_s(jobs, kind)
                 for kind, jobs in zip(("reads", "writes"), answers)}
        found += [entry for step, jobs in zip(plan, answers) for entry in rows(step, jobs, alone)]
    parameters = {"device": "ssdsim, 2 GiB, half filled, 4 hardware queues", "drives": DRIVES,
                  "cpus": fua.CPUS, "window_ms": changes.WINDOW_MS, "phase_ms": changes.PHASE_MS,
                  "light_per_s": LIGHT, "jobs": "generated"}
    return report.result("defaults", ran, parameters, found)


COLUMNS = (("changing", "F", "F, worst phase", "{:.2f}"),
           ("changing", "settle", "settle, ms", "{:.0f}"), ("1w1r", "F", "F, 1w1r", "{:.2f}"),
           ("light", "latency FUA", "light load's FUA writes, ms", "{:.2f}"))


def table(result):
    """The figures as text, a table for each drive."""
    out = []
    for drive in DRIVES:
        lines = [[name, *(report.cell(report.value(result, f"{drive}, {what}", name, metric), form)
                          for what, metric, _, form in COLUMNS)]
                 for name in report.unique(result, "scheduler")]
        out.append(report.table([drive, *(words for _, _, words, _ in COLUMNS)], lines))
    return "\n\n".join(out)


# ---- the picture ----

# Load, metric, swept tunable, title.
PANELS = (("changing", "F", "epoch_ms", "F, worst phase of a changing load"),
          ("changing", "settle", "epoch_ms", "ms until settled, worst change"),
          ("1w1r", "F", "epoch_ms", "F of 1w1r"), ("1w1r", "F", "idle_threshold", "F of 1w1r"),
          ("light", "latency FUA", "idle_threshold", "ms, FUA writes of a light load"))


WORDS = ("Dashed: none. Dotted: the default. 1w1r: a FUA writer beside a reader. While one tunable "
         f"is swept, the other is epoch_ms {GIVEN['epoch_ms']} or idle_threshold "
         f"{GIVEN['idle_threshold']}.")


def finding(result):
    """What the picture shows, in a sentence."""
    settings = [f"{name} {value}" for name, value in DEFAULTS.items()
                if report.values(result, f"{name} {value}", "F")]
    ours = [value for setting in settings for value in report.values(result, setting, "F")]
    return (f"mq-tabs with {' or '.join(settings)}, its defaults: F of reads and FUA writes is at "
            f"least {min(ours):.2f}, under none at most "
            f"{max(report.values(result, 'none', 'F')):.2f}")


def _draw_panel(axis, result, panel, colors):
    what, metric, swept, words = panel
    for drive, color in colors.items():
        points = [(int(name.split()[1]), report.value(result, f"{drive}, {what}", name, metric))
                  for name in report.unique(result, "scheduler") if name.startswith(swept)]
        if points[0][1] is None:
            continue
        axis.plot(*zip(*points), marker="o", markersize=4, color=color)
        if metric != "settle":
            base = report.value(result, f"{drive}, {what}", "none", metric)
            axis.axhline(base, color=color, linewidth=0.8, linestyle="--")
    axis.set_xscale("log")
    style.log_ticks(axis)
    style.guide(axis, DEFAULTS[swept])
    axis.set_ylim(bottom=0)
    axis.set_xlabel(swept)
    axis.set_title(words, loc="left")


def draw(result, plt):
    """A panel for each figure: a line for each drive over the swept values."""
    ours = style.SCHEDULERS["mq-tabs"]
    colors = dict(zip(DRIVES, (ours, style.lighter(ours, 0.5))))
    figure, axes = style.panels(plt, 2, 3, 3.4, 2.3)
    for axis, panel in zip(axes.flat, PANELS):
        _draw_panel(axis, result, panel, colors)
    for axis in axes.flat[len(PANELS):]:
        axis.remove()
    legend = style.marks(colors, linestyle="-", markersize=4)
    return style.finish(figure, finding(result), style.conditions(result, WORDS), legend)
