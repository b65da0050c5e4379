# SPDX-License-Identifier: GPL-2.0
"""auto: D and T that mq-mqfq finds by itself, against those that could have been given.

Tenants are cgroups, on an ssdsim of 16 dies. For each load, D is swept with the default T, and T with the default D; then both are "auto",
from the defaults, and after SETTLE_S seconds in which they are found, the tenants are watched for as long as it takes that further
comparisons count, too. Of the fixed settings those are fair whose Jain's index is within 0.01 of the best; the best fixed setting is the
fair one with the most bandwidth.

Figures: total bandwidth; Jain's index of bandwidth over weight; for "auto" both against the best fixed setting, and D and T at the end.
"""
import re
import time

from cases import mqfq_fairness as fairness
from kit import lab, report

ONE_LINE = "D and T that mq-mqfq finds against a sweep of both: bandwidth and Jain's index (vm, virtual time)"

CPUS = 4
# Slower than the default: a second of it costs the guest less.
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 1024, "channels": 8, "ways": 2, "read_ns": 1600000},
         "sysfs": {"ssdsim/fill": 50}}
SLOTS, THROTTLE_KB = (4, 8, 16, 32, 64, 128, 256), (0, 4, 16, 256, 1024)
QUICK_SLOTS, QUICK_THROTTLE_KB = (4, 16, 64, 256), (4, 1024)
SLOTS_DEFAULT, THROTTLE_KB_DEFAULT = 64, 64
RAMP_S, WINDOW_S = 0.3, 1
SETTLE_S, WATCH_S = 10, 4
FAIR = 0.01

CASES = {"size 4k:64k": [fairness.tenant("small"), fairness.tenant("large", bs="64k")],
         "weights 1:3": [fairness.tenant("low"), fairness.tenant("high", weight=300)],
         "16 equal": fairness.many(16, iodepth=16)}
QUICK_CASES = ("size 4k:64k",)


def name_of(slots, throttle_kb):
    """How a fixed setting is called in the result."""
    return f"D {slots}, T {throttle_kb}"


def _step(case, name, scheduler, tunables, ramp_s, window_s):
    tenants = CASES[case]
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "name": name, "scheduler": scheduler, "tunables": tunables,
            "measure": "shares", "ramp_s": ramp_s, "window_s": window_s, "job_text": fairness.job_text(tenants),
            "tenants": [(entry["name"], entry["weight"]) for entry in tenants],
            "cgroups": {"control": scheduler, "weights": {entry["name"]: entry["weight"] for entry in tenants}}}


def _fixed(case, slots, throttle_kb):
    return _step(case, name_of(slots, throttle_kb), "mq-mqfq", {"slots": slots, "throttle_kb": throttle_kb}, RAMP_S, WINDOW_S)


def steps(quick):
    """All measurements, by case."""
    found = []
    for case in QUICK_CASES if quick else CASES:
        found.append(_step(case, "none", "none", {}, RAMP_S, WINDOW_S))
        found += [_fixed(case, slots, THROTTLE_KB_DEFAULT) for slots in (QUICK_SLOTS if quick else SLOTS)]
        found += [_fixed(case, SLOTS_DEFAULT, throttle_kb) for throttle_kb in (QUICK_THROTTLE_KB if quick else THROTTLE_KB)]
        found.append({**_step(case, "auto", "mq-mqfq", {"slots": "auto", "throttle_kb": "auto"}, SETTLE_S, WATCH_S), "found": "auto"})
    return found


def rows(step, answer):
    """Jain's index and bandwidth of one step, and what was found."""
    got = [answer[name] / step["window_s"] / 1e6 for name, _ in step["tenants"]]
    shares = [rate / weight for rate, (_, weight) in zip(got, step["tenants"])]
    out = [report.row(step["case"], step["name"], "jain", [fairness.jain(shares)], "1", digits=4),
           report.row(step["case"], step["name"], "bandwidth", [sum(got)], "MB/s")]
    for name, value in re.findall(r"^(slots|throttle_kb) auto found (\d+)", answer.get("found", ""), re.M):
        out.append(report.row(step["case"], step["name"], name, [int(value)], "KiB" if name == "throttle_kb" else "requests", digits=0))
    return out


def best_fixed(result, case):
    """(name, bandwidth, Jain's index) of the best fixed setting."""
    fixed = [(name, report.value(result, case, name, "bandwidth"), report.value(result, case, name, "jain"))
             for name in report.unique(result, "scheduler") if name.startswith("D ")]
    fixed = [entry for entry in fixed if entry[1] is not None]
    fairest = max(jain for _, _, jain in fixed)
    return max((entry for entry in fixed if entry[2] >= fairest - FAIR), key=lambda entry: entry[1])


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    todo = steps(args.quick)
    release, (answers,) = lab.run_plans([(guest, todo)])
    return {"benchmark": "auto", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, 16 dies, tR 1.6 ms, 1 GiB, half filled, 4 hardware queues", "cpus": CPUS, "runtime_s": WINDOW_S,
                           "settle_s": SETTLE_S, "watch_s": WATCH_S, "jobs": "generated", "wall_s": round(time.monotonic() - started)},
            "rows": [entry for step, answer in zip(todo, answers) for entry in rows(step, answer)]}


def table(result):
    """The figures as text, and what auto has against the best."""
    out = []
    for case in report.unique(result, "case"):
        best, bandwidth, jain = best_fixed(result, case)
        lines = []
        for name in report.unique(result, "scheduler"):
            got = report.value(result, case, name, "bandwidth")
            if got is None:
                continue
            words = "<- best" if name == best else ""
            if name == "auto":
                words = f"D {report.value(result, case, name, 'slots')}, T {report.value(result, case, name, 'throttle_kb')}"
            lines.append([name, f"{got:.1f}", f"{100 * got / bandwidth:.1f}%", f"{report.value(result, case, name, 'jain'):.4f}",
                          f"{report.value(result, case, name, 'jain') - jain:+.4f}", words])
        out.append(report.table([case, "MB/s", "of best", "Jain", "to best", ""], lines))
    return "\n\n".join(out)


def draw(result, plt):
    """A panel per case: Jain's index over bandwidth, a mark for each fixed setting, and what was found."""
    cases = report.unique(result, "case")
    figure, axes = plt.subplots(1, len(cases), figsize=(5.2 * len(cases), 4.6), squeeze=False)
    for axis, case in zip(axes[0], cases):
        best, bandwidth, jain = best_fixed(result, case)
        for name in report.unique(result, "scheduler"):
            got = report.value(result, case, name, "bandwidth")
            if got is None:
                continue
            color = {"auto": "#1f4e8c", "none": "#b0413e", best: "#5a9a6a"}.get(name, "#8a8a8a")
            axis.plot([got], [report.value(result, case, name, "jain")], marker="*" if name == "auto" else "o", color=color,
                      markersize=14 if name == "auto" else 6, linestyle="")
            axis.annotate(name, (got, report.value(result, case, name, "jain")), xytext=(4, 4), textcoords="offset points", fontsize=7)
        axis.axvline(0.97 * bandwidth, color="#888888", linewidth=0.7, linestyle=":")
        axis.axhline(jain - FAIR, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_xlabel("total bandwidth, MB/s")
        axis.set_ylabel("Jain's index of bandwidth over weight")
        axis.set_title(case, fontsize=10)
        axis.margins(0.15)
    parameters = result["parameters"]
    figure.suptitle("D and T found, against those that could have been given", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Dotted: 97% of the best fixed setting's bandwidth, its Jain's index less {FAIR}. Device: {parameters['device']}.\n"
                f"{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs, {parameters['runtime_s']} s per fixed "
                f"setting, {parameters['watch_s']} s after {parameters['settle_s']} s for auto.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.08, 1, 0.96))
    return figure
