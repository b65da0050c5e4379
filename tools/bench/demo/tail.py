# SPDX-License-Identifier: GPL-2.0
"""The demonstration: the tail of a real-time reader's latency on an NVMe/TCP drive.

The drive is ssdsim behind the kernel's NVMe target. The host side connects to it over TCP on the
loopback interface, and the scheduler sits on the namespace's queue: none, then mq-k2. Under virtual
time (the default) the load of the host has no influence on the figures. With --backend uml it is
real time; each case is repeated, interleaved with the others, and pooled.
"""
import os

from kit import fio, lab, report, style

BOUNDS = (8, 2)
RT_JOB = "rt"
CPUS = 4
# Half of the default profile's dies: host, network and drive share a guest of 1000 MIPS, and the
# drive has to be the bottleneck.
DEVICE = {"kind": "nvme-tcp", "params": {"queues": CPUS, "channels": 2}}
DEVICE_WORDS = "NVMe/TCP namespace over loopback; behind it ssdsim, default profile with 2 dies"
CASE = "randread"
# What fio-jobs/latency/demo.fio asks for. A result without the parameter `load` is from before the
# job had shorter gaps and shallower queues.
LOAD = ("one task of class real-time, depth 1, 1 ms between reads; three best-effort tasks, "
        "depth 20")
FIRST_LOAD = ("one task of class real-time, depth 1, 2 ms between reads; three best-effort "
              "tasks, depth 32")


def _step(name, scheduler, tunables):
    return {"label": name, "name": name, "scheduler": scheduler, "tunables": tunables,
            "device": DEVICE, "measure": "fio", "bins": True,
            "job": os.path.join(lab.JOBS, "latency", "demo.fio")}


def steps():
    """none, then mq-k2 with falling bounds."""
    return [_step("none", "none", {})] + [_step(f"mq-k2, max_inflight {bound}", "mq-k2",
                                                {"max_inflight": bound}) for bound in BOUNDS]


def pooled(runs):
    """One distribution of all repeats: [(latency_us, count)]."""
    counts = {}
    for jobs in runs:
        for edge, count in fio.distribution(jobs, RT_JOB):
            counts[edge] = counts.get(edge, 0) + count
    return sorted(counts.items())


def curve(pairs):
    """[(latency_us, share of requests that took longer)]: the tail, as steps."""
    total, seen, out = sum(count for _, count in pairs), 0, []
    for edge, count in pairs:
        seen += count
        out.append([round(edge, 1), round(1 - seen / total, 6)])
    return out


def collect(measured, how):
    """The result dictionary, with curves, from [(step, fio's jobs)] and the description @how."""
    runs = {}
    for step, jobs in measured:
        runs.setdefault(step["name"], []).append(jobs)
    rows, curves = [], {}
    for name, repeats in runs.items():
        pairs = pooled(repeats)
        curves[name] = curve(pairs)
        for metric, share in (("rt_p50", 0.5), ("rt_p99", 0.99), ("rt_p99.9", 0.999)):
            entry = report.row(CASE, name, metric, [fio.percentile_of(pairs, share)], "us")
            rows.append(dict(entry, repeats=len(repeats)))
        bandwidths = [fio.bandwidth_mb_s(jobs) for jobs in repeats]
        rows.append(report.row(CASE, name, "bandwidth", bandwidths, "MB/s"))
    return {"benchmark": "demo-latency", "drawn_by": "tail", "backend": how["backend"],
            "kernel": how["kernel"],
            "parameters": {"device": DEVICE_WORDS, "job": "fio-jobs/latency/demo.fio", "load": LOAD,
                           **how["parameters"]},
            "rows": rows, "curves": curves}


def table(result):
    """The figures as text."""
    lines = []
    base = report.value(result, CASE, "none", "rt_p99.9")
    for name in report.unique(result, "scheduler"):
        figures = [report.value(result, CASE, name, f"rt_{metric}")
                   for metric in ("p50", "p99", "p99.9")]
        lines.append([name, *(f"{figure / 1000:.2f} ms" for figure in figures),
                      f"{base / figures[2]:.1f}x",
                      f"{report.value(result, CASE, name, 'bandwidth'):.1f} MB/s"])
    return report.table(["real-time reader under", "p50", "p99", "p99.9", "p99.9 lower",
                         "all tasks"], lines)


# ---- the picture ----

def _colors(result):
    """mq-k2's colour, lighter for a looser bound."""
    ours = style.SCHEDULERS["mq-k2"]
    bounds = [name for name in result["curves"] if name != "none"]
    return {"none": style.SCHEDULERS["none"],
            **{name: style.lighter(ours, 0.45 if name != bounds[-1] else 0) for name in bounds}}


def finding(result):
    """What the picture shows, in a sentence, of none and the first bound."""
    base, name = list(result["curves"])[:2]
    tails = [report.value(result, CASE, which, "rt_p99.9") / 1000 for which in (base, name)]
    rates = [report.value(result, CASE, which, "bandwidth") for which in (base, name)]
    return (f"A real-time reader beside three greedy ones: p99.9 is {tails[0]:.1f} ms under "
            f"{base} and {tails[1]:.1f} ms under {name}, which keeps {rates[1] / rates[0]:.0%} of "
            "the bandwidth")


def _draw_tails(axis, result, colors):
    for name, points in result["curves"].items():
        edges = [edge / 1000 for edge, _ in points]
        shares = [1.0] + [share for _, share in points[:-1]]
        axis.step(edges, [share * 100 for share in shares], where="post", color=colors[name],
                  linewidth=2)
        tail = report.value(result, CASE, name, "rt_p99.9") / 1000
        axis.plot([tail], [0.1], "o", color=colors[name], markersize=6, zorder=5)
        axis.annotate(f"{tail:.1f} ms" if tail >= 1 else f"{tail:.2f} ms", (tail, 0.1),
                      textcoords="offset points", xytext=(6, 7), fontsize=10, fontweight="bold")
    style.guide(axis, 0.1, across=True)
    axis.text(0.68, 0.094, "1 read in 1000 takes longer", ha="center", va="top",
              transform=axis.get_yaxis_transform(), fontsize=8, color=style.QUIET)
    axis.set_xscale("log")
    axis.margins(x=0.05)
    style.room(axis, right=0.12)
    axis.set_yscale("log")
    axis.set_ylim(0.07, 130)
    axis.set_yticks([100, 10, 1, 0.1], ["100%", "10%", "1%", "0.1%"])
    axis.minorticks_off()
    style.log_ticks(axis, unit=" ms")
    axis.set_xlabel("latency of a 4 KiB random read by the real-time task (further left is better)")
    axis.set_ylabel("reads that took longer than that")
    axis.set_title("The real-time reader", loc="left")


def _draw_bandwidth(axis, result, colors):
    values = [report.value(result, CASE, name, "bandwidth") for name in colors]
    drawn = axis.bar(range(len(values)), values, color=colors.values(), width=0.65)
    axis.bar_label(drawn, [f"{value:.0f} MB/s\n{value / values[0]:.0%}" for value in values],
                   fontsize=9, padding=1)
    words = [name.replace(", max_inflight ", "\nmax_inflight ") for name in colors]
    axis.set_xticks(range(len(values)), words)
    axis.set_ylim(0, max(values) * 1.2)
    axis.set_ylabel("bandwidth of all tasks, MB/s")
    axis.set_title("Its cost", loc="left")


def draw(result, plt):
    """Left the tails, right the bandwidth."""
    colors = _colors(result)
    figure, ((left, right),) = style.panels(plt, 1, 2, 5.3, 4.3,
                                            gridspec_kw={"width_ratios": [2.2, 1]})
    _draw_tails(left, result, colors)
    _draw_bandwidth(right, result, colors)
    parameters = result["parameters"]
    repeats = "" if "virtual" in result["backend"] else (
        f"Real time, {parameters['repeats']} interleaved repeats pooled; the tails are longer on a "
        "busy host.")
    footer = style.conditions(
        result, f"Load: {parameters.get('load', FIRST_LOAD)}. {repeats}".rstrip())
    return style.finish(figure, finding(result), footer, style.patches(colors))
