# SPDX-License-Identifier: GPL-2.0
"""The demonstration: the tail of a real-time reader's latency on an NVMe/TCP drive, under none and under mq-k2.

The drive is ssdsim behind the kernel's NVMe target; the host side connects to it over TCP on the loopback interface, and the
scheduler sits on the namespace's queue. Under virtual time (the default) the figures do not depend on what the machine does besides;
with --backend uml it is real time, and each case is repeated, interleaved with the others, and pooled.
"""
import os

from kit import fio, lab, report

BOUNDS = (8, 2)
RT_JOB = "rt"
CPUS = 4
# Half of the default profile's dies: host, network and drive share a guest of 1000 MIPS, and the drive has to be the bottleneck.
DEVICE = {"kind": "nvme-tcp", "params": {"queues": CPUS, "channels": 2}}
DEVICE_WORDS = "NVMe/TCP namespace over loopback; behind it ssdsim, default profile with 2 dies"
COLORS = ("#b0413e", "#7fa8d1", "#1f4e8c")


def _step(name, scheduler, tunables):
    return {"label": name, "name": name, "scheduler": scheduler, "tunables": tunables, "device": DEVICE, "measure": "fio",
            "bins": True, "job": os.path.join(lab.JOBS, "latency", "demo.fio")}


def steps():
    """none, then mq-k2 with falling bounds."""
    return [_step("none", "none", {})] + [_step(f"mq-k2, max_inflight {bound}", "mq-k2", {"max_inflight": bound})
                                          for bound in BOUNDS]


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
    """The result dictionary, with the curves beside the rows, from [(step, fio's jobs)] and what the demo says of itself."""
    runs = {}
    for step, jobs in measured:
        runs.setdefault(step["name"], []).append(jobs)
    rows, curves = [], {}
    for name, repeats in runs.items():
        pairs = pooled(repeats)
        curves[name] = curve(pairs)
        for metric, share in (("rt_p50", 0.5), ("rt_p99", 0.99), ("rt_p99.9", 0.999)):
            entry = report.row("randread", name, metric, [fio.percentile_of(pairs, share)], "us")
            rows.append(dict(entry, repeats=len(repeats)))
        rows.append(report.row("randread", name, "bandwidth", [fio.bandwidth_mb_s(jobs) for jobs in repeats], "MB/s"))
    return {"benchmark": "demo-latency", "drawn_by": "tail", "backend": how["backend"], "kernel": how["kernel"],
            "parameters": {"device": DEVICE_WORDS, "job": "fio-jobs/latency/demo.fio", **how["parameters"]},
            "rows": rows, "curves": curves}


def table(result):
    """The figures as text."""
    lines = []
    base = report.value(result, "randread", "none", "rt_p99.9")
    for name in report.unique(result, "scheduler"):
        figures = [report.value(result, "randread", name, f"rt_{metric}") for metric in ("p50", "p99", "p99.9")]
        lines.append([name, *(f"{figure / 1000:.2f} ms" for figure in figures), f"{base / figures[2]:.1f}x",
                      f"{report.value(result, 'randread', name, 'bandwidth'):.1f} MB/s"])
    return report.table(["real-time reader under", "p50", "p99", "p99.9", "p99.9 lower", "all tasks"], lines)


def _draw_tails(axes, result):
    for (name, points), color in zip(result["curves"].items(), COLORS):
        edges = [edge / 1000 for edge, _ in points]
        shares = [1.0] + [share for _, share in points[:-1]]
        axes.step(edges, [share * 100 for share in shares], where="post", color=color, linewidth=2, label=name)
        tail = report.value(result, "randread", name, "rt_p99.9") / 1000
        axes.plot([tail], [0.1], "o", color=color, markersize=6, zorder=5)
        axes.annotate(f"{tail:.1f} ms" if tail >= 1 else f"{tail:.2f} ms", (tail, 0.1), textcoords="offset points",
                      xytext=(6, 7), color=color, fontsize=10, fontweight="bold")
    axes.axhline(0.1, color="#888888", linewidth=0.7, linestyle=":")
    axes.text(0.99, 0.096, "99.9th percentile: 1 read of 1000 takes longer ", transform=axes.get_yaxis_transform(), ha="right", va="top",
              fontsize=8, color="#666666")
    axes.set_xscale("log")
    axes.margins(x=0.09)
    axes.set_yscale("log")
    axes.set_ylim(0.07, 130)
    axes.set_yticks([100, 10, 1, 0.1], ["100%", "10%", "1%", "0.1%"])
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g} ms" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("latency of a 4 KiB random read by the real-time task (further left is better)")
    axes.set_ylabel("reads that took longer than that")
    axes.set_title("The real-time reader")
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.56, 0.28), fontsize=9)


def _draw_bandwidth(axes, result):
    names = list(result["curves"])
    values = [report.value(result, "randread", name, "bandwidth") for name in names]
    for place, (value, color) in enumerate(zip(values, COLORS)):
        axes.bar(place, value, color=color, width=0.65)
        axes.text(place, value, f"{value:.0f} MB/s\n{value / values[0]:.0%}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(names)), [name.replace(", max_inflight ", "\nmax_inflight ") for name in names], fontsize=8)
    axes.set_ylim(0, max(values) * 1.2)
    axes.set_ylabel("bandwidth of all tasks, MB/s")
    axes.set_title("What it costs")


def draw(result, plt):
    """Left the tails, right the bandwidth."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 5.3), gridspec_kw={"width_ratios": [2.3, 1]})
    _draw_tails(left, result)
    _draw_bandwidth(right, result)
    figure.suptitle("A real-time reader beside three greedy ones: mq-k2 shortens its tail, at the price of bandwidth",
                    fontsize=12, fontweight="bold")
    parameters = result["parameters"]
    how = ("one instruction is 1 ns: not a matter of how busy the host is" if "virtual" in result["backend"] else
           f"real time, {parameters['repeats']} interleaved repeats pooled; a busy host shows in the tails")
    figure.text(0.01, 0.012, f"Device: {parameters['device']}. Load: {parameters['job']}:\n"
                "one task of class real-time, depth 1, 1 ms between reads; three best-effort tasks, depth 20. "
                f"Linux {result['kernel']}, {parameters['cpus']} CPUs.\n{result['backend']} ({how}).",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.085, 1, 1))
    return figure
