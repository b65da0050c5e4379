# SPDX-License-Identifier: GPL-2.0
"""The demonstration: a tenant beside a noisy neighbour on an NVMe/TCP drive, under none and under mq-mqfq.

Two cgroups of equal weight. The tenant reads 4 KiB at a time from one task; the neighbour has three tasks, on three CPUs and so on three
hardware queues, that read 64 KiB at a time. The drive serves the hardware queues in turn.
"""
import os

from kit import fio, lab, report

TENANTS = ("tenant", "neighbour")
CPUS = 4
DEVICE = {"kind": "nvme-tcp", "params": {"queues": CPUS, "channels": 1}}
DEVICE_WORDS = "NVMe/TCP namespace over loopback; behind it ssdsim, default profile with 1 die"
COLORS = {"tenant": "#1f4e8c", "neighbour": "#c9a15a"}


def _step(name):
    return {"label": f"noisy neighbour, {name}", "name": name, "scheduler": name, "tunables": {}, "device": DEVICE, "measure": "fio",
            "cgroups": {"control": name, "weights": {group: 100 for group in TENANTS}}, "job": os.path.join(lab.JOBS, "fairness", "demo.fio")}


def steps():
    """none, then mq-mqfq."""
    return [_step("none"), _step("mq-mqfq")]


def collect(measured, how):
    """The result dictionary from [(step, fio's jobs)] and what the demo says of itself."""
    runs = {}
    for step, jobs in measured:
        runs.setdefault(step["name"], []).append(jobs)
    rows = []
    for name, repeats in runs.items():
        for group in TENANTS:
            rows.append(report.row("noisy neighbour", name, f"bandwidth {group}", [fio.bandwidth_of_mb_s(jobs, group) for jobs in repeats], "MB/s"))
        rows.append(report.row("noisy neighbour", name, "tenant_mean", [fio.mean_us(jobs, "tenant") for jobs in repeats], "us"))
    return {"benchmark": "demo", "drawn_by": "neighbour", "backend": how["backend"], "kernel": how["kernel"],
            "parameters": {"device": DEVICE_WORDS, "job": "fio-jobs/fairness/demo.fio", **how["parameters"]}, "rows": rows}


def _figures(result, name):
    return [report.value(result, "noisy neighbour", name, f"bandwidth {group}") for group in TENANTS]


def table(result):
    """The figures as text."""
    lines = []
    for name in report.unique(result, "scheduler"):
        tenant, neighbour = _figures(result, name)
        mean_ms = report.value(result, "noisy neighbour", name, "tenant_mean") / 1000
        lines.append([name, f"{tenant:.1f} MB/s", f"{neighbour:.1f} MB/s", f"{tenant / (tenant + neighbour):.0%}", f"{mean_ms:.1f} ms"])
    return report.table(["two tenants of equal weight under", "tenant", "noisy neighbour", "tenant's part", "tenant's mean latency"], lines)


def draw(result, plt):
    """A bar per scheduler, cut by tenant."""
    figure, axes = plt.subplots(figsize=(8.2, 3.6))
    names = report.unique(result, "scheduler")
    for place, name in enumerate(names):
        left, total = 0, sum(_figures(result, name))
        for group, value in zip(TENANTS, _figures(result, name)):
            axes.barh(place, 100 * value / total, left=left, color=COLORS[group], height=0.55, label=group if place == 0 else None)
            axes.text(left + 50 * value / total, place, f"{value:.0f} MB/s\n{value / total:.0%}", ha="center", va="center", color="white",
                      fontsize=9, fontweight="bold")
            left += 100 * value / total
    axes.axvline(50, color="black", linewidth=1, linestyle=":")
    axes.text(50, -0.42, "fair: half each", ha="center", va="bottom", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=11)
    axes.set_ylim(len(names) - 0.5, -0.65)
    axes.set_xlim(0, 100)
    axes.set_xlabel("part of the bytes that the drive delivered, %")
    figure.suptitle("A tenant beside a noisy neighbour: mq-mqfq gives each its share", fontsize=12, fontweight="bold")
    axes.legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, 1.13), fontsize=9)
    parameters = result["parameters"]
    figure.text(0.01, 0.012, f"Device: {parameters['device']}. Load: {parameters['job']}: 4 KiB reads from one task\nagainst 64 KiB reads from three, "
                f"cgroups of equal weight. {result['backend']}, Linux {result['kernel']}, {parameters['cpus']} CPUs.", fontsize=7.5,
                color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    return figure
