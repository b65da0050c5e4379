# SPDX-License-Identifier: GPL-2.0
"""postgres: a database's commits beside a random reader of the same drive, by scheduler.

PostgreSQL 17 on ext4 writes its log with O_DIRECT and O_DSYNC, so that each commit is a FUA write.
Its load is pgbench's simple-update script with several clients. Beside it fio reads 16 KiB at
random places of the same drive. First each runs alone, then both under each scheduler. mq-tabs
knows the drive's maxima, as in the benchmark tabs.

Figures: rates of the reader and of the transactions, in percent of their rates alone. The TABS
paper does this with MySQL and sysbench (its figure 10).
"""
from kit import fua, lab, report, style

ONE_LINE = "PostgreSQL's commits beside a random reader"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024}, "sysfs": {}}
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "mq-tabs")
QUICK_SCHEDULERS = ("none", "mq-tabs")
SCALE, SECONDS = 2, 4
CLIENTS, READER_DEPTH = 16, 64
METRICS = {"tps": ("transactions", "1/s"),
           "latency_ms": ("mean latency of a transaction", "ms"), "read_mb_s": ("reads", "MB/s")}


def _step(case, scheduler, clients, depth):
    return {"label": f"{case}, {scheduler}", "case": case, "device": DRIVE, "scheduler": scheduler,
            "measure": "postgres", "tunables": fua.tunables_of(scheduler), "scale": SCALE,
            "seconds": SECONDS, "clients": clients, "reader_depth": depth}


def steps(quick):
    """Each alone, then both under each scheduler."""
    out = [_step("database alone", "none", CLIENTS, 0),
           _step("database alone", "mq-tabs", CLIENTS, 0),
           _step("reader alone", "none", 0, READER_DEPTH)]
    return out + [_step("both", name, CLIENTS, READER_DEPTH)
                  for name in (QUICK_SCHEDULERS if quick else SCHEDULERS)]


def rows(todo, results):
    """A row for each figure of each step."""
    return [report.row(step["case"], step["scheduler"], METRICS[name][0], [value], METRICS[name][1])
            for step, found in zip(todo, results) for name, value in found.items()]


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    ran, (results,) = lab.measure_virtual(args.kernel, CPUS, [todo])
    parameters = {"device": "ssdsim, default profile, 1 GiB, 4 hardware queues; ext4",
                  "cpus": CPUS, "scale": SCALE, "clients": CLIENTS,
                  "reader": f"16 KiB at random, depth {READER_DEPTH}", "runtime_s": SECONDS,
                  "tunables": todo[1]["tunables"]}
    return report.result("postgres", ran, parameters, rows(todo, results))


def table(result):
    """The figures as text."""
    lines = [[f"{case}, {name}", *figures] for case in report.unique(result, "case")
             for name, *figures in report.by_metric(result, case, {words: "{:.1f}" for words, _
                                                                   in METRICS.values()})]
    return report.table(["", *(f"{words}, {unit}" for words, unit in METRICS.values())], lines)


# ---- the picture ----

# Metric: unit, and the case in which its load runs alone.
PANELS = {"reads": ("MB/s", "reader alone"), "transactions": ("1/s", "database alone")}


def _kept(result, name, metric):
    alone = report.value(result, PANELS[metric][1], "none", metric)
    return report.value(result, "both", name, metric) / alone


def finding(result):
    """What the picture shows, in a sentence."""
    reads, commits = ([f"{_kept(result, name, metric):.0%}" for name in ("mq-tabs", "none")]
                      for metric in PANELS)
    return (f"Beside PostgreSQL's commits a reader keeps {reads[0]} of its bandwidth under mq-tabs "
            f"and {reads[1]} under none; the database keeps {commits[0]} and {commits[1]} of its "
            "transactions")


def draw(result, plt):
    """On the left the reader, on the right the transactions; dotted lines: each alone."""
    names = [name for name in SCHEDULERS if report.value(result, "both", name, "reads")]
    figure, axes = style.panels(plt, 1, 2, 4.5, 2.9)
    for axis, (metric, (unit, alone)) in zip(axes[0], PANELS.items()):
        values = [report.value(result, "both", name, metric) for name in names]
        drawn = axis.bar(range(len(names)), values, 0.6,
                         color=[style.SCHEDULERS[name] for name in names])
        axis.bar_label(drawn, [f"{_kept(result, name, metric):.0%}" for name in names],
                       padding=1, **style.VALUE)
        style.guide(axis, report.value(result, alone, "none", metric), across=True)
        axis.set_xticks(range(len(names)), names)
        axis.set_title(f"{metric}, {unit}", loc="left")
    parameters = result["parameters"]
    footer = style.conditions(
        result, f"Dotted, and 100%: alone. pgbench -N, {parameters['clients']} clients; reader: "
        f"{parameters['reader']}.")
    return style.finish(figure, finding(result), footer)
