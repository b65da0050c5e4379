# SPDX-License-Identifier: GPL-2.0
"""tabs: reads beside FUA writes, each against its fair bandwidth, by scheduler.

The mixes of the TABS paper: 1w1r is one writer and one reader, each with 128 requests of 16 KiB at random under way; the writers'
have FUA. ssdsim's default profile keeps a 970-class drive's proportions, so that both together are as unlike as in the paper's
figures 4 and 8. The maxima are measured in the same run. A control has a writer without FUA (figure 3), and a series the depth of the
writer against the reader's bandwidth (figure 6).

Figures: bandwidth per type; percent of its fair bandwidth (maximum times share of the tasks, Equation 1); the error, its distance from
100; the fairness factor F, the smaller of both percentages over the larger (Equation 2), 1 if fair.
"""
import time

from kit import fio, lab, report

ONE_LINE = "reads and FUA writes against their fair bandwidth, the TABS paper's mixes (vm, virtual time)"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048}, "sysfs": {"ssdsim/fill": 50}}
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "mq-tabs")
QUICK_SCHEDULERS = ("none", "mq-tabs")
# Writers, readers.
MIXES = ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2))
QUICK_MIXES = ((1, 1), (3, 1), (1, 3))
DEPTHS = (8, 16, 32, 64)
# What ssdsim's default profile has alone, in KiB/s (ssdsim_profile.h; measured here: the cases 0w1r and 1w0r).
TUNABLES = {"max_read_kbps": 304000, "max_fua_write_kbps": 54400}
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=libaio\nbs=16k\nnorandommap\nrandrepeat=1\ntime_based\nruntime=2s\n"
        "group_reporting=1\n")


def name_of(writers, readers):
    """The paper's name of a mix."""
    return f"{writers}w{readers}r"


def job_text(writers, readers, fua=True, depth=128, ramp_s=2):
    """A fio job file with the readers in one section and the writers in another."""
    out = [HEAD + f"ramp_time={ramp_s}s\n"]
    if readers:
        out.append(f"[reads]\nnew_group\nrw=randread\nnumjobs={readers}\niodepth=128\n")
    if writers:
        out.append(f"[writes]\nnew_group\nrw=randwrite\nnumjobs={writers}\niodepth={depth}\n" + ("sync=dsync\n" if fua else ""))
    return "\n".join(out)


def _step(case, scheduler, writers, readers, **more):
    return {"label": f"{case}, {scheduler}", "case": case, "device": DRIVE, "name": scheduler, "scheduler": scheduler,
            "tunables": TUNABLES if scheduler == "mq-tabs" else {}, "measure": "fio", "job_text": job_text(writers, readers, **more),
            "writers": writers, "readers": readers}


def steps(quick):
    """All cases, those that the others are compared with first."""
    out = [_step("0w1r", "none", 0, 1), _step("1w0r", "none", 1, 0), _step("1w0r", "mq-tabs", 1, 0)]
    for mix in QUICK_MIXES if quick else MIXES:
        out += [_step(name_of(*mix), scheduler, *mix) for scheduler in (QUICK_SCHEDULERS if quick else SCHEDULERS)]
    if quick:
        return out
    out += [_step("1w1r, no FUA", scheduler, 1, 1, fua=False) for scheduler in QUICK_SCHEDULERS]
    return out + [_step(f"1w1r, writer's depth {depth}", scheduler, 1, 1, depth=depth) for depth in DEPTHS for scheduler in QUICK_SCHEDULERS]


def plans(quick):
    """Two halves, so that both cores have something to do."""
    todo = steps(quick)
    return [todo[0::2], todo[1::2]]


def got_mb_s(step, jobs):
    """{"reads": ..., "writes": ...}: bandwidth of the types that the case has."""
    return {kind: fio.bandwidth_of_mb_s(jobs, kind) for kind, tasks in (("reads", "readers"), ("writes", "writers")) if step[tasks]}


def maxima(found):
    """What each type has alone, from the results of all steps."""
    return {"reads": found["0w1r, none"]["reads"], "writes": found["1w0r, none"]["writes"]}


def fair_pct(step, got, alone):
    """{"reads": ..., "writes": ...}: percent of the fair bandwidth."""
    share = {"reads": step["readers"] / (step["readers"] + step["writers"])}
    share["writes"] = 1 - share["reads"]
    return {kind: 100 * got[kind] / alone[kind] / share[kind] for kind in got}


def rows(step, got, alone):
    """The rows of one case."""
    pct = fair_pct(step, got, alone)
    out = [report.row(step["case"], step["name"], f"bandwidth {kind}", [value], "MB/s") for kind, value in got.items()]
    if len(got) == 2:
        out += [report.row(step["case"], step["name"], f"of fair {kind}", [value], "%") for kind, value in pct.items()]
        out += [report.row(step["case"], step["name"], f"error {kind}", [abs(value - 100)], "%") for kind, value in pct.items()]
        out.append(report.row(step["case"], step["name"], "F", [min(pct.values()) / max(pct.values())], "1", digits=3))
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, CPUS, virtual_time=True)
    todo = plans(args.quick)
    release, results = lab.run_plans([(guest, plan) for plan in todo])
    answers = {step["label"]: got_mb_s(step, jobs) for plan, part in zip(todo, results) for step, jobs in zip(plan, part)}
    alone = maxima(answers)
    return {"benchmark": "tabs", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, default profile, 2 GiB, half filled, 4 hardware queues", "cpus": CPUS, "runtime_s": 2,
                           "jobs": "generated; fio-jobs/interference has some to run by hand", "tunables": TUNABLES,
                           "wall_s": round(time.monotonic() - started)},
            "rows": [entry for step in steps(args.quick) for entry in rows(step, answers[step["label"]], alone)]}


def table(result):
    """The figures as text."""
    out = []
    schedulers = [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]
    for metric, form in (("F", "{:.2f}"), ("of fair reads", "{:.0f}"), ("of fair writes", "{:.0f}"), ("bandwidth reads", "{:.1f}"),
                         ("bandwidth writes", "{:.1f}")):
        unit = next((entry["unit"] for entry in result["rows"] if entry["metric"] == metric), "")
        lines = []
        for case in report.unique(result, "case"):
            values = [report.value(result, case, scheduler, metric) for scheduler in schedulers]
            if any(value is not None for value in values):
                lines.append([case, *("" if value is None else form.format(value) for value in values)])
        out.append(report.table([f"{metric}, {unit}", *schedulers], lines))
    return "\n\n".join(out)


def draw(result, plt):
    """Left and middle, percent of the fair bandwidth of reads and of FUA writes; right the fairness factor."""
    cases = [case for case in report.unique(result, "case") if "," not in case and report.value(result, case, "none", "F") is not None]
    schedulers = [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]
    colors = {"none": "#b0413e", "mq-deadline": "#8a8a8a", "kyber": "#b8860b", "bfq": "#5a9a6a", "mq-tabs": "#1f4e8c"}
    figure, axes = plt.subplots(1, 3, figsize=(11, 4))
    width = 0.8 / len(schedulers)
    for axis, metric, words in zip(axes, ("of fair reads", "of fair writes", "F"),
                                   ("reads, % of their fair bandwidth", "FUA writes, % of their fair bandwidth", "fairness factor F (1 is fair)")):
        for number, name in enumerate(schedulers):
            values = [report.value(result, case, name, metric) or 0 for case in cases]
            axis.bar([place + (number - (len(schedulers) - 1) / 2) * width for place in range(len(cases))], values, width,
                     color=colors[name], label=name)
        axis.axhline(1 if metric == "F" else 100, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_xticks(range(len(cases)), cases, fontsize=8)
        axis.set_title(words, fontsize=9)
    figure.suptitle("Reads beside FUA writes, by scheduler", fontsize=12, fontweight="bold")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.94), ncols=len(schedulers), frameon=False, fontsize=9)
    parameters = result["parameters"]
    figure.text(0.01, 0.01, f"Device: {parameters['device']}. w: FUA writers, r: readers, each 16 KiB at depth 128.\n{result['backend']} "
                f"(one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs, {parameters['runtime_s']} s per case.",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.08, 1, 0.92))
    return figure
