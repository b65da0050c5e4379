# SPDX-License-Identifier: GPL-2.0
"""The demonstration: a tenant beside a noisy neighbour on an NVMe/TCP drive: none, then mq-mqfq.

Two cgroups of equal weight. The tenant reads 4 KiB at a time from one task. The neighbour has three
tasks, on three CPUs and so on three hardware queues, that read 64 KiB at a time. The drive serves
the hardware queues in turn.

Bytes are counted per cgroup in a window in which both are at work. fio's own figures count a job to
its last request. The neighbour has 6 MiB outstanding when it stops to send, and gets these when the
tenant has ended. So with equal shares fio says 45% to 55% after 0.8 s.
"""
import os

from kit import fio, lab, report, style

TENANTS = ("tenant", "neighbour")
CPUS = 4
DEVICE = {"kind": "nvme-tcp", "params": {"queues": CPUS, "channels": 1}}
DEVICE_WORDS = "NVMe/TCP namespace over loopback; behind it ssdsim, default profile with 1 die"
COLORS = dict(zip(TENANTS, style.TENANTS))
CASE = "noisy neighbour"
# Within the time of the job.
RAMP_S, WINDOW_S = 1, 0.7


def _step(name):
    return {"label": f"{CASE}, {name}", "name": name, "scheduler": name, "tunables": {},
            "device": DEVICE, "measure": "fio",
            "cgroups": {"control": name, "weights": {group: 100 for group in TENANTS}},
            "job": os.path.join(lab.JOBS, "fairness", "demo.fio"),
            "ramp_s": RAMP_S, "window_s": WINDOW_S}


def steps():
    """none, then mq-mqfq."""
    return [_step("none"), _step("mq-mqfq")]


def collect(measured, how):
    """The result dictionary from [(step, fio's jobs)] and the demo's description @how."""
    runs = {}
    for step, jobs in measured:
        runs.setdefault(step["name"], []).append(jobs)
    rows = []
    for name, repeats in runs.items():
        for group in TENANTS:
            got = [fio.job(jobs, "window")["bytes"][group] / WINDOW_S / 1e6 for jobs in repeats]
            rows.append(report.row(CASE, name, f"bandwidth {group}", got, "MB/s"))
        means = [fio.mean_us(jobs, "tenant") for jobs in repeats]
        rows.append(report.row(CASE, name, "tenant_mean", means, "us"))
    return {"benchmark": "demo", "drawn_by": "neighbour", "backend": how["backend"],
            "kernel": how["kernel"],
            "parameters": {"device": DEVICE_WORDS, "job": "fio-jobs/fairness/demo.fio",
                           "settle_s": RAMP_S, "runtime_s": WINDOW_S, **how["parameters"]},
            "rows": rows}


def _figures(result, name):
    return [report.value(result, CASE, name, f"bandwidth {group}") for group in TENANTS]


def table(result):
    """The figures as text."""
    lines = []
    for name in report.unique(result, "scheduler"):
        tenant, neighbour = _figures(result, name)
        mean_ms = report.value(result, CASE, name, "tenant_mean") / 1000
        lines.append([name, f"{tenant:.1f} MB/s", f"{neighbour:.1f} MB/s",
                      f"{tenant / (tenant + neighbour):.0%}", f"{mean_ms:.1f} ms"])
    return report.table(["two tenants of equal weight under", "tenant", "noisy neighbour",
                         "tenant's part", "tenant's mean latency"], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    parts = [f"{_figures(result, name)[0] / sum(_figures(result, name)):.0%} under {name}"
             for name in report.unique(result, "scheduler")]
    return f"A tenant beside a noisy neighbour of equal weight gets {', '.join(parts)}"


def draw(result, plt):
    """A bar per scheduler, cut by tenant."""
    figure, ((axis,),) = style.panels(plt, 1, 1, 8.2, 2.2)
    names = report.unique(result, "scheduler")
    for place, name in enumerate(names):
        left, total = 0, sum(_figures(result, name))
        for group, value in zip(TENANTS, _figures(result, name)):
            axis.barh(place, 100 * value / total, left=left, color=COLORS[group], height=0.6)
            axis.text(left + 50 * value / total, place, f"{value:.0f} MB/s\n{value / total:.0%}",
                      ha="center", va="center", color="white", fontsize=9, fontweight="bold")
            left += 100 * value / total
    axis.axvline(50, color="black", linewidth=1, linestyle=":")
    axis.set_yticks(range(len(names)), names, fontsize=10)
    axis.set_ylim(len(names) - 0.6, -0.4)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, 100)
    axis.set_xlabel("part of the bytes that the drive delivered, % (dotted: fair, half each)")
    footer = style.conditions(
        result, f"Load: {result['parameters']['job']}: 4 KiB reads from one task against 64 KiB "
        "reads from three, in cgroups of equal weight.")
    return style.finish(figure, finding(result), footer, style.patches(COLORS))
