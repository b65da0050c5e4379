# SPDX-License-Identifier: GPL-2.0
"""postgres: a database's commits beside a random reader of the same drive, by scheduler.

PostgreSQL 17 on ext4, its log written with O_DIRECT and O_DSYNC, so that each commit is a FUA write; pgbench's simple-update script with
several clients. Beside it fio reads 16 KiB at random places of the same drive. First each alone, then both under each scheduler: what the
reader keeps, and what the transactions keep. mq-tabs is told the drive's maxima as the benchmark tabs has them.

The TABS paper does this with MySQL and sysbench (its figure 10).
"""
import time

from kit import lab, report
from cases.tabs_mixes import TUNABLES

ONE_LINE = "PostgreSQL's commits beside a random reader (vm, virtual time)"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024}, "sysfs": {}}
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "mq-tabs")
QUICK_SCHEDULERS = ("none", "mq-tabs")
SCALE, SECONDS = 2, 4
CLIENTS, READER_DEPTH = 16, 64
METRICS = {"tps": ("transactions", "1/s"), "latency_ms": ("mean latency of a transaction", "ms"), "read_mb_s": ("reads", "MB/s")}


def _step(case, scheduler, clients, depth):
    return {"label": f"{case}, {scheduler}", "case": case, "device": DRIVE, "scheduler": scheduler, "measure": "postgres",
            "tunables": TUNABLES if scheduler == "mq-tabs" else {}, "scale": SCALE, "seconds": SECONDS, "clients": clients, "reader_depth": depth}


def steps(quick):
    """Each alone, then both under each scheduler."""
    out = [_step("database alone", "none", CLIENTS, 0), _step("database alone", "mq-tabs", CLIENTS, 0), _step("reader alone", "none", 0, READER_DEPTH)]
    return out + [_step("both", name, CLIENTS, READER_DEPTH) for name in (QUICK_SCHEDULERS if quick else SCHEDULERS)]


def rows(todo, results):
    """A row for each figure of each step."""
    return [report.row(step["case"], step["scheduler"], METRICS[name][0], [value], METRICS[name][1])
            for step, found in zip(todo, results) for name, value in found.items()]


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    todo = steps(args.quick)
    release, (results,) = lab.run_plans([(guest, todo)])
    return {"benchmark": "postgres", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, default profile, 1 GiB, 4 hardware queues; ext4", "cpus": CPUS, "scale": SCALE, "clients": CLIENTS,
                           "reader": f"16 KiB at random, depth {READER_DEPTH}", "runtime_s": SECONDS, "tunables": todo[1]["tunables"],
                           "wall_s": round(time.monotonic() - started)},
            "rows": rows(todo, results)}


def table(result):
    """The figures as text."""
    pairs = list(dict.fromkeys((entry["case"], entry["scheduler"]) for entry in result["rows"]))
    lines = []
    for case, scheduler in pairs:
        values = [report.value(result, case, scheduler, words) for words, _ in METRICS.values()]
        lines.append([f"{case}, {scheduler}", *("" if value is None else f"{value:.1f}" for value in values)])
    return report.table(["", *(f"{words}, {unit}" for words, unit in METRICS.values())], lines)


def draw(result, plt):
    """Left the reader, right the transactions; the dotted line is what each has alone."""
    schedulers = [name for name in SCHEDULERS if report.value(result, "both", name, "reads") is not None]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
    for axis, metric, unit, alone in zip(axes, ("reads", "transactions"), ("MB/s", "1/s"), ("reader alone", "database alone")):
        values = [report.value(result, "both", name, metric) for name in schedulers]
        axis.bar(range(len(schedulers)), values, 0.6, color=["#1f4e8c" if name == "mq-tabs" else "#8a8a8a" for name in schedulers])
        axis.axhline(report.value(result, alone, "none", metric), color="#b0413e", linewidth=0.9, linestyle=":")
        axis.set_xticks(range(len(schedulers)), schedulers, fontsize=8)
        axis.set_title(f"{metric}, {unit} (dotted: alone)", fontsize=9)
    figure.suptitle("PostgreSQL's commits beside a random reader", fontsize=12, fontweight="bold")
    parameters = result["parameters"]
    figure.text(0.01, 0.01, f"Device: {parameters['device']}. pgbench -N, {parameters['clients']} clients; reader {parameters['reader']}.\n{result['backend']} "
                f"(one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs, {parameters['runtime_s']} s per case.",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.1, 1, 0.95))
    return figure
