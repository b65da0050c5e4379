# SPDX-License-Identifier: GPL-2.0
"""filesystems: tenants that need each other's metadata, swap to the same drive, or write buffered.

An ext4 on the default ssdsim, and cgroups with weights. Each step mounts the file system once more.

 - fsync: a cgroup of weight 100 reads (16 KiB at random, direct) and calls fsync, one after the
   other. A cgroup of weight 1 reads likewise, and makes files in directories that are not in
   memory. The journal's commit waits for these.
 - page-ins: a cgroup touches pages of a mapped file, one after the other. Another one, of the same
   weight, touches more memory than it may have, and swaps to a file on the same drive.
 - buffered: a cgroup writes through the page cache, with the memory controller; another one, of the
   same weight, reads 64 KiB at random, direct.

Figures: latencies of fsync and of a page-in, with the other cgroup idle and beside it; and the
buffered writer's share of the bytes.
"""
from kit import lab, report, style
from kit.say import BenchError

ONE_LINE = "fsync beside metadata, page-ins beside swapping, buffered writes beside direct reads"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "size_mb": 1024}, "sysfs": {}}
NO_CREDIT = "mq-mqfq, urgent_kb 0"
# Name: scheduler, control of the weights, tunables.
WAYS = {"none": ("none", "none", {}), "io.cost": ("none", "io.cost", {}),
        "mq-mqfq": ("mq-mqfq", "mq-mqfq", {}),
        NO_CREDIT: ("mq-mqfq", "mq-mqfq", {"urgent_kb": 0})}
QUICK_WAYS = ("none", "mq-mqfq")
RAMP_S, SECONDS = 1, 4
CASES = {
    "fsync": {"weights": {"heavy": 100, "light": 1}, "depth": 32},
    "page_in": {"weights": {"reader": 100, "swapper": 100}, "memory_mib": {"swapper": 32},
                "touched_mib": 96},
    # The kernel finds out by and by how fast a cgroup's pages are written.
    "buffered": {"weights": {"reader": 100, "writer": 100}, "memory_mib": {"writer": 128},
                 "depth": 32, "ramp_s": 12},
}
WORDS = {"fsync": "fsync of weight 100", "page_in": "page-in", "buffered": "buffered writer"}
PERCENTILES = {"median": 0.5, "p99": 0.99, "longest": 1}


def case_name(what, beside):
    """A case's name in the result."""
    if what == "buffered":
        return "buffered writer beside a direct reader" if beside else "buffered writer alone"
    others = {"fsync": "metadata work of weight 1", "page_in": "a cgroup that swaps"}[what]
    return f"{WORDS[what]}, beside {others}" if beside else f"{WORDS[what]}, the other idle"


def _step(what, name, beside):
    scheduler, control, tunables = WAYS[name]
    case = CASES[what]
    return {"label": f"{case_name(what, beside)}, {name}", "what": what, "beside": beside,
            "case": case_name(what, beside), "name": name, "device": DRIVE, "scheduler": scheduler,
            "tunables": tunables, "measure": "filesystems", "ramp_s": RAMP_S, "seconds": SECONDS,
            "cgroups": {"control": control, "weights": case["weights"]},
            **{key: value for key, value in case.items() if key != "weights"}}


def plans(quick):
    """A guest for fsync, one for the others."""
    ways = QUICK_WAYS if quick else WAYS
    return [[_step("fsync", name, beside) for name in ways for beside in (False, True)],
            [_step(what, name, beside) for what in ("page_in", "buffered") for name in ways
             if name != NO_CREDIT or what == "page_in" for beside in (False, True)]]


def percentile_ms(latencies_ns, part):
    """The smallest latency that at least @part (0..1) of all did not exceed."""
    if not latencies_ns:
        raise BenchError("a load did nothing")
    found = sorted(latencies_ns)
    return found[max(0, -int(-part * len(found) // 1) - 1)] / 1e6


def rows(step, answer):
    """The figures of one step."""
    def row(metric, value, unit, digits=2):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    if step["what"] == "buffered":
        total = sum(answer.values())
        return [row("share of the writer", 100 * answer["writer"] / total, "%", 1),
                row("total", total / step["seconds"] / 1e6, "MB/s", 1)]
    return [row(metric, percentile_ms(answer["latencies_ns"], part), "ms")
            for metric, part in PERCENTILES.items()] + [
                row("operations", len(answer["latencies_ns"]), "1", 0)]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo, may_lose=True)
    parameters = {"device": "ssdsim, default profile, 1 GiB, 4 hardware queues; ext4",
                  "cpus": CPUS, "runtime_s": SECONDS, "jobs": "guest/filesystems.py"}
    return report.result("filesystems", ran, parameters,
                         [entry for step, answer in lab.flat(todo, results)
                          for entry in rows(step, answer)])


FORMS = {"median": ("ms", "{:.2f}"), "p99": ("ms", "{:.2f}"), "longest": ("ms", "{:.2f}"),
         "operations": ("1", "{:.0f}"), "share of the writer": ("%", "{:.0f}"),
         "total": ("MB/s", "{:.1f}")}


def table(result):
    """The figures as text."""
    return "\n\n".join(f"{case}\n" + report.table(
        ["", *(f"{metric}, {FORMS[metric][0]}" for metric in metrics)],
        report.by_metric(result, case, {metric: FORMS[metric][1] for metric in metrics}))
        for case in report.unique(result, "case")
        for metrics in [[metric for metric in FORMS if case in report.cases_with(result, metric)]])


# ---- the picture ----

def _times(result, what, name):
    return (report.value(result, case_name(what, True), name, "p99")
            / report.value(result, case_name(what, False), name, "p99"))


def finding(result):
    """What the picture shows, in a sentence."""
    return ("Beside metadata work of weight 1 the 99th percentile of fsync is "
            f"{_times(result, 'fsync', 'mq-mqfq'):.1f} times that with the other idle under "
            f"mq-mqfq, {_times(result, 'fsync', 'none'):.1f} times under none")


# What, metric, words.
PANELS = (("fsync", "p99", "fsync: 99th percentile, ms"), ("fsync", "longest", "longest fsync, ms"),
          ("page_in", "longest", "longest page-in, ms"),
          ("buffered", "share of the writer", "buffered writer's share, %"))


def draw(result, plt):
    """A line per way: two figures of fsync, the longest page-in, and the writer's share."""
    names = [name for name in WAYS if name in report.unique(result, "scheduler")]
    figure, axes = style.panels(plt, 1, len(PANELS), 2.7, 1 + 0.36 * len(names))
    for axis, (what, metric, words) in zip(axes[0], PANELS):
        for place, name in enumerate(names):
            for beside in (False, True):
                value = report.value(result, case_name(what, beside), name, metric)
                if value is None or (what == "buffered" and not beside):
                    continue
                axis.plot([value], [place], "o", color=style.color_of(name), markersize=6,
                          markerfacecolor=style.color_of(name) if beside else "white")
                if beside:
                    style.value_beside(axis, f"{value:.3g}", value, place)
        style.names_down(axis, names, shown=axis is axes[0][0])
        axis.set_xlabel(words)
        axis.set_xlim(0, 60 if what == "buffered" else None)
        style.room(axis)
    style.guide(axes[0][-1], 50)
    footer = style.conditions(result, "Ring: the other cgroup is idle. Dot: it is at work. Dotted: "
                                      "the share by weight.")
    return style.finish(figure, finding(result), footer)
