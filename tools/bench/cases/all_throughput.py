# SPDX-License-Identifier: GPL-2.0
"""throughput: what is left of none's request rate, on null_blk in User-Mode Linux, in real time.

Real time on a machine that does other things is noisy, so each figure is the ratio of a scheduler's rate to that of none
measured just before it, and rounds are interleaved: none, A, none, B, ... and all of it again. The row holds the median of
the rounds and (highest - lowest) / median. In a guest whose system calls are costly the ratio flatters every scheduler: what
it can show is the order of schedulers and whether more CPUs help.
"""
import os
import statistics
import time

from kit import fio, lab, report

ONE_LINE = "request rate as a share of none's on null_blk, 1 to all CPUs (uml, real time, noisy)"

ROUNDS, QUICK_ROUNDS = 5, 2
SETTLE_S = 0.05


def _schedulers():
    from cases.all_cost import ALWAYS, others
    return (ALWAYS + others())[1:]


def _step(cpus, scheduler):
    word = f"{cpus} CPU{'s' if cpus > 1 else ''}"
    return {"label": f"{word}, {scheduler}", "case": word, "scheduler": scheduler, "measure": "fio", "settle_s": SETTLE_S,
            "device": {"kind": "null_blk", "params": {"submit_queues": cpus, "irqmode": 0, "hw_queue_depth": 256, "nr_devices": 1}},
            "env": {"JOBS": cpus}, "job": os.path.join(lab.JOBS, "overhead", "rate.fio")}


def plan(cpus, schedulers, rounds):
    """Each scheduler right after none, @rounds times over."""
    return [_step(cpus, name) for _ in range(rounds) for scheduler in schedulers for name in ("none", scheduler)]


def rows(steps, answers):
    """Median share of none per case and scheduler, and none's own rate."""
    shares, rates, base = {}, {}, None
    for step, jobs in zip(steps, answers):
        rate = fio.iops(jobs)
        if step["scheduler"] == "none":
            base = rate
            rates.setdefault(step["case"], []).append(rate)
        else:
            shares.setdefault((step["case"], step["scheduler"]), []).append(rate / base)
    out = [report.row(case, "none", "rate", values, "requests/s", 0) for case, values in rates.items()]
    return out + [report.row(case, scheduler, "share_of_none", values, "1", 3) for (case, scheduler), values in shares.items()]


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    most = os.cpu_count() or 1
    counts = sorted({1, most} | {1 << i for i in range(most.bit_length()) if 1 << i <= most})
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    guests = [(lab.Guest("uml", "7.2", cpus), plan(cpus, _schedulers(), rounds)) for cpus in counts]
    release, results = lab.run_plans(guests)
    found = [entry for (_, steps), answers in zip(guests, results) for entry in rows(steps, answers)]
    return {"benchmark": "throughput", "backend": "uml", "kernel": release,
            "parameters": {"device": "null_blk, irqmode 0 (completes at once), a hardware queue per CPU, 256 tags",
                           "jobs": "fio-jobs/overhead/rate.fio: a task per CPU, depth 32, 4 KiB random reads",
                           "rounds": rounds, "host_cpus": most, "host_load": round(statistics.mean(os.getloadavg()), 1),
                           "max_inflight": "default (32)", "wall_s": round(time.monotonic() - started)},
            "rows": found}


def _spread(entry):
    return f" +-{entry['spread'] * 50:.0f}%" if entry["spread"] is not None else ""


def table(result):
    """The figures as text."""
    schedulers = report.unique(result, "scheduler")
    rows_of = {(entry["case"], entry["scheduler"]): entry for entry in result["rows"]}
    lines = []
    for case in report.unique(result, "case"):
        base = rows_of[(case, "none")]
        lines.append([case, f"{base['value'] / 1000:.0f}k{_spread(base)}",
                      *(f"{rows_of[(case, name)]['value']:.0%}{_spread(rows_of[(case, name)])}" for name in schedulers[1:])])
    return report.table(["share of none's rate", "none, requests/s", *schedulers[1:]], lines)


def draw(result, plt):
    """A group of bars per number of CPUs, with the spread of the rounds."""
    schedulers = report.unique(result, "scheduler")[1:]
    cases = report.unique(result, "case")
    rows_of = {(entry["case"], entry["scheduler"]): entry for entry in result["rows"]}
    colors = ("#3b6ea5", "#8a8a8a", "#b5b5b5", "#5c5c5c", "#2f8f6b", "#a36ba8", "#d98200")
    figure, axes = plt.subplots(figsize=(8, 4.6))
    width = 0.8 / len(schedulers)
    for number, (name, color) in enumerate(zip(schedulers, colors)):
        entries = [rows_of[(case, name)] for case in cases]
        places = [place + (number - (len(schedulers) - 1) / 2) * width for place in range(len(cases))]
        axes.bar(places, [entry["value"] * 100 for entry in entries], width, color=color, label=name,
                 yerr=[entry["value"] * 50 * (entry["spread"] or 0) for entry in entries],
                 error_kw={"elinewidth": 0.8, "capsize": 2, "ecolor": "#444444"})
        for place, entry in zip(places, entries):
            axes.text(place, 3, f"{entry['value']:.0%}", ha="center", color="white", fontsize=8)
    axes.axhline(100, color="#b0413e", linewidth=1)
    axes.text(-0.45, 101, "none = 100%", color="#b0413e", fontsize=8, va="bottom")
    axes.set_xticks(range(len(cases)), [f"{case}\n(none: {rows_of[(case, 'none')]['value'] / 1000:.0f}k requests/s)" for case in cases])
    axes.set_ylim(0, 125)
    axes.set_ylabel("request rate, % of none's")
    axes.set_title("How much of none's request rate each scheduler keeps, when the CPU is the bottleneck")
    axes.legend(frameon=False, ncols=len(schedulers), loc="upper right", fontsize=8)
    parameters = result["parameters"]
    figure.text(0.01, 0.01, f"{parameters['jobs']}. Device: {parameters['device']}.\nMedian of {parameters['rounds']} rounds, each against none "
                f"just before it; the lines show half the range of the rounds. uml (real time), Linux {result['kernel']}, "
                f"host with {parameters['host_cpus']} CPUs.", fontsize=7, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    return figure
