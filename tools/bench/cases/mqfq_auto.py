# SPDX-License-Identifier: GPL-2.0
"""auto: the D and T that mq-mqfq finds, against fixed settings.

Tenants are cgroups, on an ssdsim of 16 dies. For each load, D is swept with the default T, and T
with the default D. Then both are "auto" and start from the defaults. They have SETTLE_S seconds to
find their values. Then the tenants' bandwidth is taken for WATCH_S seconds, long enough that
mq-mqfq's further comparisons count, too.

Fixed settings are fair if their Jain's index is within FAIR of the best. The best fixed setting is
the fair one with the most bandwidth.

Figures: total bandwidth; Jain's index of bandwidth over weight; for "auto" both against the best
fixed setting, and D and T at the end.
"""
import re

from kit import lab, report, style
from kit.tenants import jain, load, many, tenant

ONE_LINE = "D and T that mq-mqfq finds against a sweep of both: bandwidth and Jain's index"

CPUS = 4
# Slower than the default: a second of it costs the guest less.
DRIVE = {"kind": "ssdsim",
         "params": {"queues": CPUS, "nodata": 1, "size_mb": 1024, "channels": 8, "ways": 2,
                    "read_ns": 1600000},
         "sysfs": {"ssdsim/fill": 50}}
SLOTS, THROTTLE_KB = (4, 8, 16, 32, 64, 128, 256), (0, 4, 16, 256, 1024)
QUICK_SLOTS, QUICK_THROTTLE_KB = (4, 16, 64, 256), (4, 1024)
SLOTS_DEFAULT, THROTTLE_KB_DEFAULT = 64, 64
RAMP_S, WINDOW_S = 0.3, 1
SETTLE_S, WATCH_S = 10, 4
FAIR = 0.01

CASES = {"size 4k:64k": [tenant("small"), tenant("large", bs="64k")],
         "weights 1:3": [tenant("low"), tenant("high", weight=300)],
         "16 equal": many(16, iodepth=16)}
QUICK_CASES = ("size 4k:64k",)


def name_of(slots, throttle_kb):
    """A fixed setting's name in the result."""
    return f"D {slots}, T {throttle_kb}"


def _step(case, name, scheduler, tunables, ramp_s, window_s):
    what = load(CASES[case], ramp_s, window_s)
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "name": name,
            "scheduler": scheduler, "tunables": tunables, **what,
            "cgroups": {"control": scheduler, "weights": dict(what["tenants"])}}


def _fixed(case, slots, throttle_kb):
    return _step(case, name_of(slots, throttle_kb), "mq-mqfq",
                 {"slots": slots, "throttle_kb": throttle_kb}, RAMP_S, WINDOW_S)


def steps(quick):
    """All measurements, by case."""
    found = []
    for case in QUICK_CASES if quick else CASES:
        found.append(_step(case, "none", "none", {}, RAMP_S, WINDOW_S))
        found += [_fixed(case, slots, THROTTLE_KB_DEFAULT)
                  for slots in (QUICK_SLOTS if quick else SLOTS)]
        found += [_fixed(case, SLOTS_DEFAULT, throttle_kb)
                  for throttle_kb in (QUICK_THROTTLE_KB if quick else THROTTLE_KB)]
        auto = _step(case, "auto", "mq-mqfq", {"slots": "auto", "throttle_kb": "auto"}, SETTLE_S,
                     WATCH_S)
        found.append({**auto, "found": "auto"})
    return found


def rows(step, answer):
    """Jain's index and bandwidth of one step, and the D and T that were found."""
    case, name = step["case"], step["name"]
    got = [answer[who] / step["window_s"] / 1e6 for who, _ in step["tenants"]]
    shares = [rate / weight for rate, (_, weight) in zip(got, step["tenants"])]
    out = [report.row(case, name, "jain", [jain(shares)], "1", digits=4),
           report.row(case, name, "bandwidth", [sum(got)], "MB/s")]
    found = re.findall(r"^(slots|throttle_kb) auto found (\d+)", answer.get("found", ""), re.M)
    units = {"slots": "requests", "throttle_kb": "KiB"}
    return out + [report.row(case, name, what, [int(value)], units[what], digits=0)
                  for what, value in found]


def best_fixed(result, case):
    """(name, bandwidth, Jain's index) of the best fixed setting."""
    fixed = [(name, report.value(result, case, name, "bandwidth"),
              report.value(result, case, name, "jain"))
             for name in report.unique(result, "scheduler") if name.startswith("D ")]
    fixed = [entry for entry in fixed if entry[1] is not None]
    fairest = max(index for _, _, index in fixed)
    return max((entry for entry in fixed if entry[2] >= fairest - FAIR), key=lambda entry: entry[1])


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    ran, (answers,) = lab.measure_virtual(args.kernel, CPUS, [todo])
    parameters = {"device": "ssdsim, 16 dies, tR 1.6 ms, 1 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "runtime_s": WINDOW_S, "settle_s": SETTLE_S, "watch_s": WATCH_S,
                  "jobs": "generated"}
    return report.result("auto", ran, parameters, [entry for step, answer in zip(todo, answers)
                                                   for entry in rows(step, answer)])


def _values_found(result, case):
    """The D and T that auto had at the end, in words."""
    return ", ".join(f"{letter} {report.value(result, case, 'auto', metric)}"
                     for letter, metric in (("D", "slots"), ("T", "throttle_kb")))


def table(result):
    """The figures as text, and auto's against the best."""
    out = []
    for case in report.unique(result, "case"):
        best, bandwidth, index = best_fixed(result, case)
        lines = []
        for name in report.unique(result, "scheduler"):
            got = report.value(result, case, name, "bandwidth")
            fair = report.value(result, case, name, "jain")
            if got is None:
                continue
            words = {best: "<- best", "auto": _values_found(result, case)}.get(name, "")
            lines.append([name, f"{got:.1f}", f"{100 * got / bandwidth:.1f}%", f"{fair:.4f}",
                          f"{fair - index:+.4f}", words])
        out.append(report.table([case, "MB/s", "of best", "Jain", "to best", ""], lines))
    return "\n\n".join(out)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    shares, less = [], []
    for case in report.unique(result, "case"):
        _, bandwidth, index = best_fixed(result, case)
        shares.append(report.value(result, case, "auto", "bandwidth") / bandwidth)
        less.append(index - report.value(result, case, "auto", "jain"))
    fair = "nowhere a lower" if max(less) <= 0 else f"at most {max(less):.4f} less of"
    return (f"D and T that mq-mqfq finds: at least {min(shares):.0%} of the best fixed setting's "
            f"bandwidth, and {fair} Jain's index")


def _draw_case(axes, result, case, names):
    best, bandwidth, index = best_fixed(result, case)
    ours = style.SCHEDULERS["mq-mqfq"]
    colors = [{"none": style.SCHEDULERS["none"], "auto": ours}.get(name, style.lighter(ours, 0.5))
              for name in names]
    for axis, metric, form in zip(axes, ("bandwidth", "jain"), ("{:.1f}", "{:.3f}")):
        values = [report.value(result, case, name, metric) for name in names]
        style.dots(axis, values, colors, form)
        place = names.index(best)
        axis.plot([values[place]], [place], "o", markersize=8.5, markerfacecolor="none",
                  markeredgecolor=ours)
        high = max(value for value in values if value is not None)
        axis.set_xlim(0, 1.4 * high)
    style.guide(axes[0], 0.97 * bandwidth)
    style.guide(axes[1], index - FAIR)
    axes[0].set_xlabel("total bandwidth, MB/s")
    axes[1].set_xlabel("Jain's index")
    axes[0].set_title(f"{case}\nfound: {_values_found(result, case)}", loc="left")


def draw(result, plt):
    """Two panels per case, total bandwidth and Jain's index; a line for each setting."""
    cases, names = report.unique(result, "case"), report.unique(result, "scheduler")
    figure, axes = style.panels(plt, 1, 2 * len(cases), 1.9, 1.1 + 0.21 * len(names))
    for number, case in enumerate(cases):
        _draw_case(axes[0][2 * number:2 * number + 2], result, case, names)
    for axis in axes[0]:
        style.names_down(axis, names, shown=axis is axes[0][0])
    seconds = result["parameters"]
    footer = style.conditions(
        result, "Ring: the best fixed setting. Dotted: 97% of its bandwidth, and its Jain's index "
        f"less {FAIR}. Jain's index is of bandwidth over weight. Auto is measured for "
        f"{seconds['watch_s']} s after {seconds['settle_s']} s.", each="fixed setting")
    return style.finish(figure, finding(result), footer)
