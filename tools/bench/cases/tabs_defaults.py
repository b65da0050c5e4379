# SPDX-License-Identifier: GPL-2.0
"""defaults: which epoch_ms and idle_threshold mq-tabs should come with.

Two drives: ssdsim's default profile, and one with a quarter of its speed. A guest has no drive that is faster than the first; but what an epoch
needs is enough requests to tell how the types fare, and a faster drive has more of them in the same time.

  epoch_ms        the load of `timeline`: a reader, a FUA writer that comes, a second one that joins it and leaves. A long epoch follows such changes
                  late, a short one takes accidents for changes. And 1w1r of `tabs`
  idle_threshold  1w1r of `tabs`, which is to be scheduled; and a light load, LIGHT requests per second on an idle drive, which loses if it is

Figures: F (Equation 2 of the TABS paper) in the second half of each phase, the worst phase; time until the slowest tenant has settled, the worst change;
F of 1w1r; mean latency of the light load's FUA writes.
"""
import time

from cases import tabs_mixes as tabs
from cases import all_timeline as timeline
from kit import fio, lab, report

ONE_LINE = "mq-tabs: epoch_ms and idle_threshold, swept on two drives (vm, virtual time)"

# How many times slower than the default profile; times of that profile (ssdsim_profile.h).
DRIVES = {"default profile": 1, "a quarter as fast": 4}
TIMES_NS = {"fetch_ns": 1000, "cmd_ns": 4000, "dma_unit_ns": 2000, "xfer_unit_ns": 25700, "read_ns": 107500, "prog_ns": 1075000, "destage_ns": 2000000}
EPOCHS_MS, THRESHOLDS = (50, 100, 250, 500, 1000), (50, 100, 200, 500, 1000, 5000)
# The other one, while one is swept. The slower drive has 700 requests in 500 ms when both types are there.
GIVEN = {"epoch_ms": 250, "idle_threshold": 200}
QUICK_EPOCHS_MS, QUICK_THRESHOLDS = (50, 250), (200, 1000)
LIGHT = {"reads": 400, "writes": 100}
LIGHT_JOB = (f"{tabs.HEAD}ramp_time=1s\niodepth=8\n[reads]\nnew_group\nrw=randread\nrate_iops={LIGHT['reads']}\n"
             f"[writes]\nnew_group\nrw=randwrite\nsync=dsync\nrate_iops={LIGHT['writes']}\n")


def _device(slower):
    return {**tabs.DRIVE, "params": {**tabs.DRIVE["params"], **{name: value * slower for name, value in TIMES_NS.items()}}}


def _step(drive, what, name, step, **tunables):
    """@step on @drive, under mq-tabs with @tunables and what the drive has alone, or under none if there are none."""
    slower = DRIVES[drive]
    known = {name: value // slower for name, value in tabs.TUNABLES.items()}
    scheduler = "mq-tabs" if tunables else "none"
    return {**step, "label": f"{drive}, {what}, {name}", "case": f"{drive}, {what}", "drive": drive, "what": what, "name": name,
            "device": _device(slower), "scheduler": scheduler, "tunables": {**known, **tunables} if tunables else {}, "measure": "fio"}


def steps(drive, quick):
    """All measurements on @drive, what each type has alone first."""
    alone = [({"job_text": tabs.job_text(writers, readers)}, what) for writers, readers, what in ((0, 1, "reads"), (1, 0, "writes"))]
    # The slower drive needs longer to get where it stays.
    both = {"job_text": tabs.job_text(1, 1, ramp_s=DRIVES[drive])}
    out = [_step(drive, f"{what} alone", "none", step) for step, what in alone]
    epochs = [("epoch_ms", value) for value in (QUICK_EPOCHS_MS if quick else EPOCHS_MS)]
    thresholds = [("idle_threshold", value) for value in (QUICK_THRESHOLDS if quick else THRESHOLDS)]
    for what, step, swept in (("changing", timeline.tabs_step("mq-tabs"), epochs), ("1w1r", both, epochs + thresholds), ("light", {"job_text": LIGHT_JOB}, thresholds)):
        # A change every 1.5 s is too much for the slower drive, whatever is given.
        if what == "changing" and DRIVES[drive] > 1:
            continue
        out += [_step(drive, what, "none", step)]
        out += [_step(drive, what, f"{name} {value}", step, **{**GIVEN, name: value}) for name, value in swept]
    return out


def fairness(alone, got, writers, readers=1):
    """F of what reads and FUA writes got, {"reads": MB/s, "writes": MB/s}, against what they have alone (Equation 2)."""
    pct = {"reads": got["reads"] / alone["reads"] / readers, "writes": got["writes"] / alone["writes"] / writers}
    return min(pct.values()) / max(pct.values())


def changing(alone, found):
    """(F of the worst phase with both types, time until the slowest has settled after the worst change) from bandwidth over time."""
    per_phase = timeline.PHASE_MS // timeline.WINDOW_MS
    factors, settle_ms = [], 0
    for phase in range(timeline.NR_PHASES["mq-tabs"]):
        parts = [values[phase * per_phase:(phase + 1) * per_phase] for values in found.values()]
        halves = [sum(values[per_phase // 2:]) for values in parts]
        writers = sum(half > 0 for half in halves[1:])
        if writers:
            factors.append(fairness(alone, {"reads": halves[0], "writes": sum(halves[1:])}, writers))
        if phase:
            settle_ms = max([settle_ms, *(timeline.settle_ms(values[1:-1]) for values, half in zip(parts, halves) if half)])
    return min(factors), settle_ms


def rows(step, jobs, alone):
    """The rows of one step; @alone: what each type has alone on its drive."""
    what, case, name = step["what"], step["case"], step["name"]
    if what == "changing":
        factor, settle_ms = changing(alone, timeline.curves({**step, "case": "mq-tabs"}, jobs))
        return [report.row(case, name, "F", [factor], "1", digits=3), report.row(case, name, "settle", [settle_ms], "ms", digits=0)]
    got = {kind: fio.bandwidth_of_mb_s(jobs, kind) for kind in ("reads", "writes") if f"[{kind}]" in step["job_text"]}
    out = [report.row(case, name, f"bandwidth {kind}", [value], "MB/s") for kind, value in got.items()]
    if what == "1w1r":
        out.append(report.row(case, name, "F", [fairness(alone, got, 1)], "1", digits=3))
    if what == "light":
        out.append(report.row(case, name, "latency FUA", [fio.mean_us(jobs, "writes") / 1000], "ms", digits=2))
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, tabs.CPUS, virtual_time=True)
    todo = [steps(drive, args.quick) for drive in DRIVES]
    release, results = lab.run_plans([(guest, plan) for plan in todo])
    found = []
    for plan, answers in zip(todo, results):
        alone = {kind: fio.bandwidth_of_mb_s(jobs, kind) for kind, jobs in zip(("reads", "writes"), answers)}
        found += [entry for step, jobs in zip(plan, answers) for entry in rows(step, jobs, alone)]
    return {"benchmark": "defaults", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, 2 GiB, half filled, 4 hardware queues", "drives": DRIVES, "cpus": tabs.CPUS,
                           "window_ms": timeline.WINDOW_MS, "phase_ms": timeline.PHASE_MS, "light_per_s": LIGHT, "jobs": "generated",
                           "wall_s": round(time.monotonic() - started)},
            "rows": found}


COLUMNS = (("changing", "F", "F, worst phase", "{:.2f}"), ("changing", "settle", "settle, ms", "{:.0f}"), ("1w1r", "F", "F, 1w1r", "{:.2f}"),
           ("light", "latency FUA", "light load's FUA writes, ms", "{:.2f}"))


def table(result):
    """The figures as text, a table for each drive."""
    out = []
    for drive in DRIVES:
        lines = []
        for name in report.unique(result, "scheduler"):
            values = [(report.value(result, f"{drive}, {what}", name, metric), form) for what, metric, _, form in COLUMNS]
            lines.append([name, *("" if value is None else form.format(value) for value, form in values)])
        out.append(report.table([drive, *(words for _, _, words, _ in COLUMNS)], lines))
    return "\n\n".join(out)


def draw(result, plt):
    """A panel for each figure, a line for each drive over what was swept; dashed, the same under none."""
    panels = [("changing", "F", "epoch_ms", "F, worst phase of a changing load"), ("changing", "settle", "epoch_ms", "ms until settled, worst change"),
              ("1w1r", "F", "epoch_ms", "F of 1w1r"), ("1w1r", "F", "idle_threshold", "F of 1w1r"),
              ("light", "latency FUA", "idle_threshold", "ms, FUA writes of a light load")]
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 4))
    for axis, (what, metric, swept, words) in zip(axes, panels):
        for drive, color in zip(DRIVES, ("#1f4e8c", "#b8860b")):
            points = [(int(name.split()[1]), report.value(result, f"{drive}, {what}", name, metric))
                      for name in report.unique(result, "scheduler") if name.startswith(swept)]
            if points[0][1] is None:
                continue
            axis.plot([at for at, _ in points], [value for _, value in points], marker="o", color=color, label=drive)
            if metric != "settle":
                axis.axhline(report.value(result, f"{drive}, {what}", "none", metric), color=color, linewidth=0.8, linestyle="--")
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel(swept)
        axis.set_title(words, fontsize=9)
    axes[-1].legend(fontsize=8, frameon=False)
    parameters = result["parameters"]
    figure.suptitle("mq-tabs: what its tunables should be", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Dashed: none. Device: {parameters['device']}. {result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, "
                f"{parameters['cpus']} CPUs.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.05, 1, 0.95))
    return figure
