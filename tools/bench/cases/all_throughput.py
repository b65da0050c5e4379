# SPDX-License-Identifier: GPL-2.0
"""throughput: request rates against none's, on null_blk in User-Mode Linux, in real time.

Real time is noisy on a machine that does other things. So each figure is the ratio of a scheduler's
rate to that of none measured just before it, and rounds are interleaved: none, A, none, B, ... and
all of it again. The row holds the median of the rounds and (highest - lowest) / median. In a guest
whose system calls are costly the ratio flatters every scheduler. It can show the order of
schedulers, and whether more CPUs help.
"""
import itertools
import os
import statistics

from kit import fio, lab, report, style

ONE_LINE = "request rate as a share of none's on null_blk, on 1 to all CPUs"

ROUNDS, QUICK_ROUNDS = 5, 2
SETTLE_S = 0.05


def _step(cpus, scheduler):
    word = f"{cpus} CPU{'s' if cpus > 1 else ''}"
    device = {"kind": "null_blk", "params": {"submit_queues": cpus, "irqmode": 0,
                                             "hw_queue_depth": 256, "nr_devices": 1}}
    return {"label": f"{word}, {scheduler}", "case": word, "scheduler": scheduler,
            "measure": "fio", "settle_s": SETTLE_S, "device": device, "env": {"JOBS": cpus},
            "job": os.path.join(lab.JOBS, "overhead", "rate.fio")}


def plan(cpus, schedulers, rounds):
    """Each scheduler right after none, @rounds times over."""
    return [_step(cpus, name) for _ in range(rounds) for scheduler in schedulers
            for name in ("none", scheduler)]


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
    out = [report.row(case, "none", "rate", values, "requests/s", 0)
           for case, values in rates.items()]
    return out + [report.row(case, scheduler, "share_of_none", values, "1", 3)
                  for (case, scheduler), values in shares.items()]


def run(args):
    """Measure; the result dictionary."""
    most = os.cpu_count() or 1
    counts = sorted({1, most} | {1 << i for i in range(most.bit_length()) if 1 << i <= most})
    rounds = QUICK_ROUNDS if args.quick else ROUNDS
    schedulers = (lab.ALWAYS + lab.others())[1:]
    guests = [(lab.Guest("uml", "7.2", cpus), plan(cpus, schedulers, rounds)) for cpus in counts]
    ran, results = lab.measure(guests)
    parameters = {"device": "null_blk, irqmode 0 (completes at once), a hardware queue per CPU, "
                            "256 tags",
                  "jobs": "fio-jobs/overhead/rate.fio: a task per CPU, depth 32, "
                          "4 KiB random reads",
                  "rounds": rounds, "host_cpus": most,
                  "host_load": round(statistics.mean(os.getloadavg()), 1),
                  "max_inflight": "default (32)"}
    return report.result("throughput", ran, parameters,
                         [entry for (_, steps), answers in zip(guests, results)
                          for entry in rows(steps, answers)])


def _rows_of(result):
    return {(entry["case"], entry["scheduler"]): entry for entry in result["rows"]}


def _spread(entry):
    return f" +-{entry['spread'] * 50:.0f}%" if entry["spread"] is not None else ""


def table(result):
    """The figures as text."""
    schedulers = report.unique(result, "scheduler")[1:]
    rows_of = _rows_of(result)
    lines = []
    for case in report.unique(result, "case"):
        base = rows_of[(case, "none")]
        entries = [rows_of[(case, name)] for name in schedulers]
        lines.append([case, f"{base['value'] / 1000:.0f}k{_spread(base)}",
                      *(f"{entry['value']:.0%}{_spread(entry)}" for entry in entries)])
    return report.table(["share of none's rate", "none, requests/s", *schedulers], lines)


# ---- the picture ----

def _half_range(entry):
    return entry["value"] * (entry["spread"] or 0) / 2


def finding(result):
    """What the picture shows, in a sentence."""
    entries = [entry for entry in result["rows"] if entry["metric"] == "share_of_none"]
    shares = [entry["value"] for entry in entries]
    pairs = [(one, other) for one, other in itertools.combinations(entries, 2)
             if one["case"] == other["case"]]
    noise = sum(abs(one["value"] - other["value"]) <= _half_range(one) + _half_range(other)
                for one, other in pairs)
    return (f"Schedulers keep {min(shares):.0%} to {max(shares):.0%} of none's request rate; "
            f"{noise} of {len(pairs)} differences between two of them are within the noise")


def draw(result, plt):
    """A group of bars per number of CPUs, with the spread of the rounds."""
    cases, rows_of = report.unique(result, "case"), _rows_of(result)
    series = style.ordered(report.unique(result, "scheduler")[1:])
    figure, ((axis,),) = style.panels(plt, 1, 1, 8, 3.6)
    style.bars(axis, cases, series, lambda case, name: 100 * rows_of[(case, name)]["value"])
    for bar, (case, name) in zip(axis.patches, itertools.product(cases, series)):
        entry, middle = rows_of[(case, name)], bar.get_x() + bar.get_width() / 2
        axis.errorbar(middle, 100 * entry["value"], 100 * _half_range(entry), fmt="none",
                      ecolor=style.QUIET, elinewidth=0.8, capsize=2, zorder=3)
        axis.text(middle, 3, f"{entry['value']:.0%}", ha="center", color="white",
                  fontsize=style.SMALL_PT)
    style.guide(axis, 100, across=True)
    bases = [f"{case}\n(none: {rows_of[(case, 'none')]['value'] / 1000:.0f}k requests/s)"
             for case in cases]
    axis.set_xticks(range(len(cases)), bases)
    axis.set_ylabel("request rate, % of none's")
    parameters = result["parameters"]
    footer = style.conditions(
        result, f"{parameters['jobs']}. Median of {parameters['rounds']} rounds, each against none "
        "just before it. The lines, and the noise, are half the range of the rounds. Real time on "
        f"a host with {parameters['host_cpus']} CPUs.")
    return style.finish(figure, finding(result), footer, style.patches(series))
