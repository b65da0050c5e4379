# SPDX-License-Identifier: GPL-2.0
"""cost: the instructions that a scheduler adds to an I/O.

Under virtual time one instruction takes one nanosecond. So the time per I/O of a CPU that never
idles is the number of instructions per I/O, of everything: system call, block layer, scheduler,
driver, interrupt. guest/iocount.c measures it on null_blk. Its completion timer of 10 us is shorter
than the work on 32 I/Os, so the CPU never waits. A scheduler's cost is the difference to none in
the same guest.

At depth 1 the CPU waits for the device. There the figure is the mean latency on a device of 20 us.

The figure is the least of several windows. Two runs agree within a few instructions; the rest
depends on where the timer tick falls. So the reported value is rounded to STEP instructions.
"""
from kit import lab, report, style
from kit.lab import ALWAYS, others
from kit.say import BenchError

ONE_LINE = "instructions per I/O that each scheduler adds to none, and latency at depth 1"

WINDOWS, IOS = 3, 8000
STEP = 10
# CPUs of the guest, hardware queues, CPUs that submit. A device has no more hardware queues than
# the guest has CPUs.
SETUPS = ((1, 1, "0"), (2, 1, "0,1"), (4, 4, "0"), (4, 4, "0,1"))
QUICK_SETUPS = SETUPS[:1]
BATCHES, SINGLES, SHALLOW = "depth 32, batches of 16", "depth 32, one by one", "depth 1"
# Name: depth, batch, completion time of the device, flows.
SHAPES = {BATCHES: (32, 16, 10000, 1), SINGLES: (32, 1, 10000, 1), SHALLOW: (1, 1, 20000, 1)}
FLOWS_SETUPS = ((4, 4, "0,1,2,3"),)
FLOWS_SHAPES = {"depth 32, batches of 16, 16 flows": (32, 16, 10000, 16)}
BY_IOPRIO = ("mq-mqfq", "mq-octofas")
TIME = "mq-mqfq, time"


def case_name(shape, queues, cpus):
    """A case's name in the result."""
    nr_cpus = len(cpus.split(","))
    return (f"{shape}, {queues} queue{'s' if queues > 1 else ''}, "
            f"{nr_cpus} CPU{'s' if nr_cpus > 1 else ''}")


def plan(setup, shapes, schedulers):
    """The steps of one guest."""
    _, queues, cpus = setup
    steps = []
    for shape, (depth, batch, completion_ns, flows) in shapes.items():
        device = {"kind": "null_blk",
                  "params": {"submit_queues": queues, "irqmode": 2,
                             "completion_nsec": completion_ns, "hw_queue_depth": 256,
                             "nr_devices": 1}}
        case = case_name(shape, queues, cpus)
        for name in schedulers:
            scheduler = "mq-mqfq" if name == TIME else name
            tunables = {"flow": "ioprio"} if scheduler in BY_IOPRIO and flows > 1 else {}
            if scheduler == "mq-mqfq":
                tunables["cost"] = "time" if name == TIME else "bytes"
            steps.append({"label": f"{case}, {name}", "case": case, "name": name,
                          "scheduler": scheduler,
                          "device": device, "measure": "iocount", "program": lab.IOCOUNT,
                          "depth": depth, "batch": batch, "ios": IOS, "windows": WINDOWS,
                          "cpus": cpus, "flows": flows, "tunables": tunables})
    return steps


def _row(step, metric, value, unit, windows):
    least = min(windows)
    return {"case": step["case"], "scheduler": step["name"], "metric": metric, "value": value,
            "unit": unit, "repeats": len(windows),
            "spread": round((max(windows) - least) / least, 4)}


def _round(value):
    return STEP * round(value / STEP)


def rows(steps, answers):
    """Rows of one guest's steps; none comes first in each case."""
    out, base = [], {}
    for step, windows in zip(steps, answers):
        case, least = step["case"], min(windows)
        if step["depth"] == 1:
            # iocount divides by the I/Os of all workers, and each of them waits for its own
            latency_ns = least * len(step["cpus"].split(","))
            out.append(_row(step, "mean_latency", round(latency_ns / 1000, 2), "us", windows))
            continue
        base.setdefault(case, least)
        if step["scheduler"] == "none" and base[case] != least:
            raise BenchError(f"{case}: none has to be the first scheduler")
        for metric, value in (("per_io", least), ("added", max(0, least - base[case]))):
            out.append(_row(step, metric, _round(value), "instructions", windows))
    return out


def run(args):
    """Measure; the result dictionary."""
    schedulers = (*ALWAYS, *others(), TIME)
    sets = [(setup, SHAPES) for setup in (QUICK_SETUPS if args.quick else SETUPS)]
    sets += [(setup, FLOWS_SHAPES) for setup in FLOWS_SETUPS]
    lab.build_iocount()
    plans = [plan(setup, shapes, schedulers) for setup, shapes in sets]
    ran, results = lab.measure([(lab.virtual(args.kernel, setup[0]), steps)
                                for (setup, _), steps in zip(sets, plans)])
    parameters = {"device": "null_blk, irqmode 2 (timer), 256 tags; completes after 10 us, "
                            "at depth 1 after 20 us",
                  "block_bytes": 4096,
                  "pattern": "random reads, io_uring, registered files and buffers",
                  "windows": WINDOWS, "ios_per_window": IOS,
                  "value": f"least window, rounded to {STEP} instructions",
                  "max_inflight": "default (32)"}
    return report.result("cost", ran, parameters, [entry for steps, answers in zip(plans, results)
                                                   for entry in rows(steps, answers)])


def table(result):
    """The figures as text."""
    schedulers = report.unique(result, "scheduler")
    lines = []
    for case in report.unique(result, "case"):
        base = report.value(result, case, "none", "per_io")
        if base is None:
            figures = [report.value(result, case, name, "mean_latency") for name in schedulers]
            lines.append([f"{case}: mean latency, us", *(f"{value:.2f}" for value in figures)])
        else:
            figures = [report.value(result, case, name, "added") for name in schedulers[1:]]
            lines.append([f"{case}: instructions", f"{base}", *(f"+{value}" for value in figures)])
    return report.table(["per I/O of 4 KiB", *schedulers], lines)


# ---- the picture ----

KERNELS_OWN = ("mq-deadline", "kyber", "bfq")


def _cases(result, shape):
    return [case for case in report.unique(result, "case") if case.startswith(shape + ",")]


def finding(result):
    """What the picture shows, in a sentence."""
    names = report.unique(result, "scheduler")[1:]
    ours = [name for name in names if name not in KERNELS_OWN]
    parts = []
    for group in (ours, *([name] for name in names if name in KERNELS_OWN)):
        added = [value for name in group
                 for value in report.values(result, name, "added", _cases(result, BATCHES))]
        words = "our schedulers add" if group is ours else group[0]
        parts.append(f"{words} {min(added)} to {max(added)}")
    return "Instructions per I/O in batches of 16: " + ", ".join(parts)


def _groups(result, shape, cases):
    """Labels of @cases without what all of them have in common."""
    out = []
    for case in cases:
        base = report.value(result, case, "none", "per_io")
        if base is None:
            base = f"{report.value(result, case, 'none', 'mean_latency'):.2f} us"
        words = case.removeprefix(shape + ", ").replace(", ", "\n")
        out.append(f"{words}\n(none: {base})")
    return out


def _added(result, case, name):
    return report.value(result, case, name, "added")


def _later(result, case, name):
    return (report.value(result, case, name, "mean_latency")
            - report.value(result, case, "none", "mean_latency"))


def draw(result, plt):
    """A panel for each shape of load: the difference of each scheduler to none."""
    colors = style.ordered(report.unique(result, "scheduler")[1:])
    nr = max(len(_cases(result, shape)) for shape in SHAPES)
    figure, axes = style.panels(plt, 1, 3, 3.9, 0.8 + 1.25 * nr)
    for axis, shape in zip(axes[0], SHAPES):
        cases, deep = _cases(result, shape), shape != SHALLOW
        words = dict(zip(_groups(result, shape, cases), cases))
        value_of = _added if deep else _later
        style.bars_down(axis, words, colors,
                        lambda group, name: value_of(result, words[group], name),
                        "{:.0f}" if deep else "{:.2f}")
        style.room(axis, right=0.08)
        axis.set_title(shape, loc="left")
        axis.set_xlabel("instructions per I/O more than none" if deep else
                        "mean latency, us more than none")
    parameters = result["parameters"]
    footer = style.conditions(
        result, f"Load: {parameters['pattern']}, {parameters['block_bytes']} bytes. "
        f"Values: {parameters['value']}.")
    return style.finish(figure, finding(result), footer, style.patches(colors))
