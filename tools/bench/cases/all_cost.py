# SPDX-License-Identifier: GPL-2.0
"""cost: the instructions that a scheduler adds to an I/O.

Under virtual time one instruction takes one nanosecond, so the time per I/O of a CPU that never idles is the number of
instructions per I/O, of everything: system call, block layer, scheduler, driver, interrupt. guest/iocount.c measures it on null_blk
with a completion timer of 10 us, which is shorter than the work on 32 I/Os, so there is always something to do. What a scheduler
costs is the difference to none in the same guest.

At depth 1 the CPU waits for the device: there the figure is the mean latency on a device of 20 us.

The figure is the least of several windows. Two runs agree within a few instructions: what is left is where the timer tick
falls. The value that is reported is rounded to STEP instructions for that reason.
"""
import os
import time

from kit import lab, report
from kit.say import BenchError, say

ONE_LINE = "instructions per I/O that each scheduler adds to none, and depth-1 latency (vm, virtual time)"

WINDOWS, IOS = 3, 8000
STEP = 10
# CPUs of the guest, hardware queues, CPUs that submit. A device has no more hardware queues than the guest has CPUs.
SETUPS = ((1, 1, "0"), (2, 1, "0,1"), (4, 4, "0"), (4, 4, "0,1"))
QUICK_SETUPS = SETUPS[:1]
# name: depth, batch, completion time of the device, flows
SHAPES = {"depth 32, batches of 16": (32, 16, 10000, 1), "depth 32, one by one": (32, 1, 10000, 1), "depth 1": (1, 1, 20000, 1)}
FLOWS_SETUPS = ((4, 4, "0,1,2,3"),)
FLOWS_SHAPES = {"depth 32, batches of 16, 16 flows": (32, 16, 10000, 16)}
ALWAYS = ("none", "mq-k2", "mq-deadline", "kyber", "bfq")


def others():
    """Schedulers of the checkout that ALWAYS does not name: each mq-* folder that has a Kbuild file."""
    return tuple(name for name in sorted(os.listdir(lab.CHECKOUT)) if name.startswith("mq-") and name not in ALWAYS
                 and os.path.exists(os.path.join(lab.CHECKOUT, name, "Kbuild")))


def case_name(shape, queues, cpus):
    """How a case is called in the result."""
    nr_cpus = len(cpus.split(","))
    return f"{shape}, {queues} queue{'s' if queues > 1 else ''}, {nr_cpus} CPU{'s' if nr_cpus > 1 else ''}"


def _plan(program, setup, shapes, schedulers):
    _, queues, cpus = setup
    steps = []
    for shape, (depth, batch, completion_ns, flows) in shapes.items():
        device = {"kind": "null_blk", "params": {"submit_queues": queues, "irqmode": 2, "completion_nsec": completion_ns,
                                                 "hw_queue_depth": 256, "nr_devices": 1}}
        for scheduler in schedulers:
            case = case_name(shape, queues, cpus)
            steps.append({"label": f"{case}, {scheduler}", "case": case, "scheduler": scheduler, "device": device,
                          "measure": "iocount", "program": program, "depth": depth, "batch": batch, "ios": IOS,
                          "windows": WINDOWS, "cpus": cpus, "flows": flows,
                          "tunables": {"flow": "ioprio"} if scheduler in ("mq-mqfq", "mq-octofas") and flows > 1 else {}})
    return steps


def _round(value):
    return STEP * round(value / STEP)


def rows(steps, answers):
    """Rows of one guest's steps; none comes first in each case."""
    out, base = [], {}
    for step, windows in zip(steps, answers):
        case, scheduler, least = step["case"], step["scheduler"], min(windows)
        spread = round((max(windows) - least) / least, 4)
        if step["depth"] == 1:
            # iocount divides by the I/Os of all workers, and each of them waits for its own
            latency_ns = least * len(step["cpus"].split(","))
            out.append({"case": case, "scheduler": scheduler, "metric": "mean_latency", "value": round(latency_ns / 1000, 2),
                        "unit": "us", "repeats": len(windows), "spread": spread})
            continue
        base.setdefault(case, least)
        if scheduler == "none" and base[case] != least:
            raise BenchError(f"{case}: none has to be the first scheduler")
        for metric, value in (("per_io", least), ("added", max(0, least - base[case]))):
            out.append({"case": case, "scheduler": scheduler, "metric": metric, "value": _round(value),
                        "unit": "instructions", "repeats": len(windows), "spread": spread})
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    schedulers = ALWAYS + others()
    sets = [(setup, SHAPES) for setup in (QUICK_SETUPS if args.quick else SETUPS)]
    sets += [(setup, FLOWS_SHAPES) for setup in FLOWS_SETUPS]
    with lab.scratch() as folder:
        program = os.path.join(folder, "iocount")
        say("compiling iocount")
        lab.enter(["cc", "-O2", "-Wall", "-static", "-o", program, os.path.join(lab.BENCH, "guest/iocount.c"), "-luring"],
                  "compiling iocount")
        pairs = [(lab.Guest("vm", args.kernel, setup[0], virtual_time=True), _plan(program, setup, shapes, schedulers))
                 for setup, shapes in sets]
        release, results = lab.run_plans(pairs)
    found = [entry for (_, plan), answers in zip(pairs, results) for entry in rows(plan, answers)]
    return {"benchmark": "cost", "backend": pairs[0][0].words(), "kernel": release,
            "parameters": {"device": "null_blk, irqmode 2 (timer), 256 tags; completes after 10 us, at depth 1 after 20 us",
                           "block_bytes": 4096, "pattern": "random reads, io_uring, registered files and buffers",
                           "windows": WINDOWS, "ios_per_window": IOS, "value": f"least window, rounded to {STEP} instructions",
                           "max_inflight": "default (32)", "wall_s": round(time.monotonic() - started)},
            "rows": found}


def table(result):
    """The figures as text."""
    schedulers = report.unique(result, "scheduler")
    lines = []
    for case in report.unique(result, "case"):
        if report.value(result, case, "none", "per_io") is None:
            lines.append([f"{case}: mean latency, us", *(f"{report.value(result, case, name, 'mean_latency'):.2f}" for name in schedulers)])
        else:
            base = report.value(result, case, "none", "per_io")
            lines.append([f"{case}: instructions", f"{base}",
                          *(f"+{report.value(result, case, name, 'added')}" for name in schedulers[1:])])
    return report.table(["per I/O of 4 KiB", *schedulers], lines)


def draw(result, plt):
    """Added instructions by case, and latency at depth 1."""
    schedulers = report.unique(result, "scheduler")
    cases = report.unique(result, "case")
    deep = [case for case in cases if report.value(result, case, "none", "per_io") is not None]
    shallow = [case for case in cases if case not in deep]
    colors = dict(zip(schedulers, ("#b0413e", "#3b6ea5", "#8a8a8a", "#b5b5b5", "#5c5c5c", "#2f8f6b", "#a36ba8", "#d98200")))
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(13, 8.4))
    width = 0.8 / len(schedulers)
    for number, name in enumerate(schedulers):
        shift = (number - (len(schedulers) - 1) / 2) * width
        if name != "none":
            places = [place + shift for place in range(len(deep))]
            values = [report.value(result, case, name, "added") for case in deep]
            for place, value in zip(places, top.bar(places, values, width, color=colors[name], label=name)):
                top.text(place, value.get_height() + 25, f"{value.get_height():.0f}", ha="center", fontsize=7)
        values = [report.value(result, case, name, "mean_latency") for case in shallow]
        for bar in bottom.bar([place + shift for place in range(len(shallow))], values, width, color=colors[name], label=name):
            bottom.text(bar.get_x() + width / 2, bar.get_height() + 0.1, f"{bar.get_height():.1f}", ha="center", fontsize=7)
    top.set_xticks(range(len(deep)), [f"{case.replace(', ', chr(10))}\n(none: {report.value(result, case, 'none', 'per_io')})"
                                      for case in deep], fontsize=7.5)
    top.axhline(1100, color="#3b6ea5", linewidth=0.8, linestyle=":")
    top.annotate("1100:\nlimit for\nmq-k2", (1, 1100), xycoords=("axes fraction", "data"), xytext=(3, 0), textcoords="offset points",
                 fontsize=7, va="center", color="#3b6ea5", annotation_clip=False)
    top.margins(y=0.14)
    top.set_ylabel("instructions per I/O more than none")
    top.set_title("What a scheduler adds to each I/O when the CPU is the bottleneck")
    top.legend(frameon=False, ncols=len(schedulers), fontsize=8, loc="upper left")
    bottom.set_xticks(range(len(shallow)), [case.replace("depth 1, ", "") for case in shallow], fontsize=8)
    bottom.set_ylim(20)
    bottom.set_ylabel("mean latency, us (axis starts at the device's 20)")
    bottom.set_title("One request at a time on a device that takes 20 us")
    bottom.legend(frameon=False, ncols=len(schedulers), fontsize=8, loc="upper left", bbox_to_anchor=(0, 1.0))
    bottom.margins(y=0.25)
    parameters = result["parameters"]
    figure.text(0.01, 0.008, f"{parameters['pattern']}, {parameters['block_bytes']} bytes. Device: {parameters['device']}.\n"
                f"Values: {parameters['value']}. {result['backend']} (one instruction = 1 ns), Linux {result['kernel']}.",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.045, 0.985, 1))
    return figure
