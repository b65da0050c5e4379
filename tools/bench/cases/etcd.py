# SPDX-License-Identifier: GPL-2.0
"""etcd: the cluster store's puts beside a neighbour on the same drive, by scheduler.

etcd answers a put when its write-ahead log has been synced. Its manual asks that 99% of the syncs
take less than 10 ms; slower ones make members of a cluster lose touch. One member runs on ext4 on
the default ssdsim, in a cgroup of weight 1000. Some clients put 256 bytes, one after the other. The
neighbour, in a cgroup of weight 100, reads and writes 64 KiB at random, direct, behind the file
system, with 64 outstanding.

Figures: latency of a put; syncs of the log that took at most 8 ms, the edge of etcd's own classes
that is next to the 10 ms of its manual; the neighbour's bandwidth. First etcd is alone.
"""
from kit import fio, lab, report, rivals, style
from kit.say import BenchError

ONE_LINE = "etcd's puts and syncs beside a neighbour that reads and writes"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024}, "sysfs": {}}
QUICK_WAYS = ("none", "mq-mqfq")
WEIGHTS = {"etcd": 1000, "neighbour": 100}
CLIENTS, RAMP_S, SECONDS = 8, 1, 4
GOOD_S = 0.008
ALONE, BESIDE = "etcd alone", "etcd beside the neighbour"


def _step(case, name):
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "fresh": True,
            "measure": "etcd", "clients": CLIENTS, "beside": case == BESIDE, "ramp_s": RAMP_S,
            "seconds": SECONDS, **rivals.way(name, WEIGHTS)}


def steps(quick):
    """etcd alone, then beside the neighbour under each scheduler."""
    ways = QUICK_WAYS if quick else rivals.WAYS
    return [_step(ALONE, "none"), *(_step(BESIDE, name) for name in ways)]


def rows(step, answer):
    """The figures of one step."""
    pairs = sorted((latency / 1e6, 1) for latency in answer["latencies_ns"])
    syncs = {float(edge): count for edge, count in answer["syncs"].items()}
    if not pairs or not syncs[float("inf")]:
        raise BenchError(f"{step['label']}: nothing was put")

    def row(metric, value, unit, digits=1):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    out = [row(f"put {metric}", fio.percentile_of(pairs, share), "ms")
           for metric, share in (("p50", 0.5), ("p99", 0.99))]
    out += [row("puts", len(pairs) / step["seconds"], "1/s", 0),
            row("good syncs", 100 * syncs[GOOD_S] / syncs[float("inf")], "%")]
    if step["beside"]:
        out.append(row("neighbour", answer["neighbour_bytes"] / step["seconds"] / 1e6, "MB/s"))
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = steps(args.quick)
    halves = [todo[0::2], todo[1::2]]       # so that both cores have work
    ran, results = lab.measure_virtual(args.kernel, CPUS, halves, may_lose=True)
    found = {step["label"]: rows(step, answer) for step, answer in lab.flat(halves, results)}
    parameters = {"device": "ssdsim, default profile, 1 GiB, 4 hardware queues; ext4",
                  "cpus": CPUS, "clients": CLIENTS, "runtime_s": SECONDS,
                  "neighbour": "64 KiB at random, half reads, half writes, 2 jobs of depth 32",
                  "weights": "etcd 1000, neighbour 100"}
    return report.result("etcd", ran, parameters,
                         [entry for step in todo for entry in found.get(step["label"], ())])


FORMS = {"put p50": ("ms", "{:.1f}"), "put p99": ("ms", "{:.1f}"), "puts": ("1/s", "{:.0f}"),
         "good syncs": ("%", "{:.1f}"), "neighbour": ("MB/s", "{:.1f}")}


def table(result):
    """The figures as text."""
    lines = [[f"{case}, {name}", *figures] for case in report.unique(result, "case")
             for name, *figures in report.by_metric(
                 result, case, {metric: form for metric, (_, form) in FORMS.items()})]
    return report.table(["", *(f"{metric}, {unit}" for metric, (unit, _) in FORMS.items())], lines)


# ---- the picture ----

PANELS = (("put p99", "99th percentile of a put, ms"),
          ("good syncs", "syncs of the log within 8 ms, %"),
          ("neighbour", "the neighbour's bandwidth, MB/s"))


def finding(result):
    """What the picture shows, in a sentence."""
    tails = [report.value(result, BESIDE, name, "put p99") for name in ("none", "mq-mqfq")]
    return (f"The 99th percentile of etcd's puts beside a neighbour: {tails[0]:.3g} ms under none, "
            f"{tails[1]:.3g} ms under mq-mqfq, "
            f"{report.value(result, ALONE, 'none', 'put p99'):.3g} ms alone")


def draw(result, plt):
    """A line per scheduler: the tail of a put, good syncs, and the neighbour's bandwidth."""
    names = [name for name in rivals.WAYS
             if report.value(result, BESIDE, name, "put p99") is not None]
    figure, axes = style.panels(plt, 1, len(PANELS), 3.4, 1 + 0.3 * len(names))
    for axis, (metric, words) in zip(axes[0], PANELS):
        values = [report.value(result, BESIDE, name, metric) for name in names]
        style.dots(axis, values, [style.SCHEDULERS[name] for name in names])
        alone = report.value(result, ALONE, "none", metric)
        if alone is not None:
            style.guide(axis, alone)
        style.names_down(axis, names, shown=axis is axes[0][0])
        axis.set_xlabel(words)
        axis.set_xlim(0)
        style.room(axis)
    footer = style.conditions(result, "Dotted: etcd alone. Weights: etcd 1000, neighbour 100.",
                              f"Neighbour: {result['parameters']['neighbour']}.")
    return style.finish(figure, finding(result), footer)
