# SPDX-License-Identifier: GPL-2.0
"""vm: what tenants that are virtual machines get of one drive, by scheduler.

A guest in the guest would be far too slow. So a machine here is the part of QEMU that does a
machine's disk I/O: a process without a CPU, in a cgroup of its own, whose drive is one half of
ssdsim, opened direct with io_uring. An iothread serves it by NBD on a Unix socket, and fio is the
load at that socket, outside the cgroups. What it is: the requests reach the scheduler from QEMU's
iothread, in the machine's cgroup, as those of a virtio-blk device with an iothread do. What it is
not: there is no guest kernel, no virtio ring and no vCPU. A request has the cost of a socket
instead.

The drive reads eight times as slowly as ssdsim's default: a request costs QEMU, the socket and fio
some 0.14 ms of the guest's CPU time. Cases:

  deep and shallow    two machines of equal weight read 4 KiB at random, one with DEEP requests
                      outstanding, the other with SHALLOW
  weights 1:2         the same, both with DEEP; a light one of weight 100 and a heavy one of 200
  reader and writer   equal weights: one reads 4 KiB at random, one request at a time; the other
                      writes 256 KiB in sequence with DEEP outstanding. "mq-mqfq, target" has a
                      target, TARGET_US, for the reader

All have RAMP_S to settle, in which mq-mqfq finds its slots and the bound for a target.

Figures: each machine's bandwidth; share, which is the lower bandwidth over weight as a part of the
higher (1 is what the weights ask); the total; the 99th percentile of a request as fio sees it; and
how long the guest's CPUs were busy. All of them share one clock: if that is well below the time,
they were not the limit.
"""
from kit import fio, lab, report, rivals, style
from kit.say import BenchError

ONE_LINE = "what virtual machines get of one drive: shares, and a reader beside a writer"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 1024,
                                      "read_ns": 860000}, "sysfs": {"ssdsim/fill": 50}}
DEEP, SHALLOW = 32, 4
RAMP_S, SECONDS = 5, 4
TARGET_US = 10000
OURS, WITH_TARGET = "mq-mqfq", "mq-mqfq, target"
# Two guests have the steps of these, with as much to do each; one of them measures io.cost's model.
GUESTS = (("none", "io.cost, tuned", WITH_TARGET), ("mq-deadline", "bfq, tuned", OURS))
NAMES = ("none", "mq-deadline", "bfq, tuned", "io.cost, tuned", OURS, WITH_TARGET)
QUICK_NAMES = ("none", OURS)

DEPTHS, WEIGHTS, TAIL = "deep and shallow", "weights 1:2", "reader and writer"


def _reads(depth):
    return {"rw": "randread", "bs": "4k", "iodepth": depth}


# Case: {machine: its weight, and fio's options}.
CASES = {
    DEPTHS: {"deep": (100, _reads(DEEP)), "shallow": (100, _reads(SHALLOW))},
    WEIGHTS: {"light": (100, _reads(DEEP)), "heavy": (200, _reads(DEEP))},
    TAIL: {"reader": (100, _reads(1)),
           "writer": (100, {"rw": "write", "bs": "256k", "iodepth": DEEP})},
}


def _step(case, name):
    machines = CASES[case]
    weights = {machine: weight for machine, (weight, _) in machines.items()}
    way = rivals.way(OURS if name == WITH_TARGET else name, weights)
    if name == WITH_TARGET:
        way["cgroups"]["targets_us"] = {"reader": TARGET_US}
    return {"label": f"{case}, {name}", "case": case, "device": DRIVE, "measure": "vm",
            "machines": {machine: options for machine, (_, options) in machines.items()},
            "ramp_s": RAMP_S, "seconds": SECONDS, **way, "name": name, "fresh": True}


def steps(quick):
    """Each case under each scheduler; a target is for the reader only."""
    return [_step(case, name) for case in CASES for name in (QUICK_NAMES if quick else NAMES)
            if name != WITH_TARGET or case == TAIL]


def plans(quick):
    """The steps, by guest."""
    return [[step for step in steps(quick) if step["name"] in names] for names in GUESTS]


def rows(step, answer):
    """The figures of one step."""
    def row(metric, value, unit, digits):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    out, rates, weights = [], {}, step["cgroups"]["weights"]
    for machine in step["machines"]:
        pairs = sorted((ns / 1e6, 1) for ns in answer["latencies_ns"][machine])
        if not pairs or not answer["bytes"][machine]:
            raise BenchError(f"{step['label']}: {machine} had no request in its cgroup")
        rates[machine] = answer["bytes"][machine] / step["seconds"] / 1e6
        out += [row(machine, rates[machine], "MB/s", 2),
                row(f"p99 {machine}", fio.percentile_of(pairs, 0.99), "ms", 2)]
    if step["case"] != TAIL:
        parts = [rate / weights[machine] for machine, rate in rates.items()]
        out.append(row("share", min(parts) / max(parts), "1", 3))
    return [*out, row("total", sum(rates.values()), "MB/s", 2),
            row("busy", 100 * answer["busy_s"] / step["seconds"], "%", 0)]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo, may_lose=True)
    found = {step["label"]: rows(step, answer) for step, answer in lab.flat(todo, results)}
    parameters = {"device": "ssdsim, default profile with reads eight times as long, 1 GiB, half "
                            "filled, 4 hardware queues",
                  "cpus": CPUS, "runtime_s": SECONDS, "target_us": TARGET_US,
                  "machines": "a QEMU without a CPU each, by NBD, io_uring and an iothread"}
    return report.result("vm", ran, parameters, [entry for step in steps(args.quick)
                                                 for entry in found.get(step["label"], ())])


def _metrics(case):
    """{metric: (words, format)} of a case, in the order of its table."""
    machines = list(CASES[case])
    return {**{machine: (f"{machine}, MB/s", "{:.2f}") for machine in machines},
            **({} if case == TAIL else {"share": ("share", "{:.2f}")}),
            "total": ("total, MB/s", "{:.1f}"),
            **{f"p99 {machine}": (f"p99 {machine}, ms", "{:.1f}") for machine in machines},
            "busy": ("CPUs busy, % of one", "{:.0f}")}


def table(result):
    """The figures as text, a table per case."""
    out = []
    for case in report.unique(result, "case"):
        metrics = _metrics(case)
        lines = report.by_metric(result, case, {name: form for name, (_, form) in metrics.items()})
        out.append(report.table([case, *(words for words, _ in metrics.values())], lines))
    return "\n\n".join(out)


# ---- the picture ----

# Case: its title, what is above with its words, and what is below.
PANELS = {
    DEPTHS: (f"weights 1:1, {DEEP} and {SHALLOW} outstanding",
             ("share", "lower over higher bandwidth"), ("total", "both, MB/s")),
    WEIGHTS: (f"weights 1:2, {DEEP} outstanding each",
              ("share", "lower over higher, by weight"), ("total", "both, MB/s")),
    TAIL: ("a reader beside a writer",
           ("p99 reader", "99th percentile of a read, ms"), ("writer", "the writer, MB/s")),
}


def finding(result):
    """What the picture shows, in a sentence: ours beside none."""
    def words(case, metric, form):
        found = {name: report.value(result, case, name, metric)
                 for name in ("none", OURS, WITH_TARGET)}
        return ", ".join(f"{form.format(value)} under {name}" for name, value in found.items()
                         if value is not None)

    return (f"Two virtual machines of equal weight, {DEEP} and {SHALLOW} requests deep, the lower "
            f"bandwidth over the higher: {words(DEPTHS, 'share', '{:.0%}')}; 99th percentile of "
            f"one that reads beside one that writes: {words(TAIL, 'p99 reader', '{:.2g} ms')}")


def _panel(axis, result, case, metric, words, names):
    """A dot per scheduler."""
    values = [report.value(result, case, name, metric) for name in names]
    style.dots(axis, values, [style.color_of(name) for name in names])
    if metric == "share":
        style.guide(axis, 1)
    axis.set_xlabel(words)
    axis.set_xlim(0)
    style.room(axis)


def draw(result, plt):
    """A column per case: what is asked above, and what the drive does meanwhile below."""
    names = [name for name in NAMES if name in report.unique(result, "scheduler")]
    figure, axes = style.panels(plt, 2, len(PANELS), 3.4, 1 + 0.28 * len(names))
    for column, (case, (title, *panels)) in enumerate(PANELS.items()):
        for axis, (metric, words) in zip(axes[:, column], panels):
            _panel(axis, result, case, metric, words, names)
            style.names_down(axis, names, shown=column == 0)
        axes[0][column].set_title(title, loc="left")
    footer = style.conditions(
        result, "Dotted: as the weights ask. A machine is QEMU's disk I/O without a guest.")
    return style.finish(figure, finding(result), footer)
