# SPDX-License-Identifier: GPL-2.0
"""tabs: reads beside FUA writes, each against its fair bandwidth, by scheduler.

The mixes of the TABS paper: 1w1r is one writer and one reader, each with 128 random requests of
16 KiB in flight; the writers' have FUA. ssdsim's default profile keeps a 970-class drive's
proportions, so that reads and FUA writes differ as much as in the paper's figures 4 and 8. The
maxima are measured in the same run. A control has a writer without FUA (figure 3). A series has the
depth of the writer against the reader's bandwidth (figure 6).

Figures: bandwidth per type; percent of its fair bandwidth (maximum times share of the tasks,
Equation 1); the error, its distance from 100; the fairness factor F, the smaller of both
percentages over the larger (Equation 2), 1 if fair.
"""
from kit import fio, lab, report, style
from kit.fua import CPUS, DRIVE, TUNABLES, job_text, tunables_of

ONE_LINE = "reads and FUA writes against their fair bandwidth, the TABS paper's mixes"

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "mq-tabs")
QUICK_SCHEDULERS = ("none", "mq-tabs")
# Writers, readers.
MIXES = ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2))
QUICK_MIXES = ((1, 1), (3, 1), (1, 3))
DEPTHS = (8, 16, 32, 64)


def name_of(writers, readers):
    """The paper's name of a mix."""
    return f"{writers}w{readers}r"


def _step(case, scheduler, writers, readers, **more):
    return {"label": f"{case}, {scheduler}", "case": case, "device": DRIVE, "name": scheduler,
            "scheduler": scheduler, "tunables": tunables_of(scheduler), "measure": "fio",
            "job_text": job_text(writers, readers, **more), "writers": writers, "readers": readers}


def steps(quick):
    """All cases; the maxima that the others are compared with come first."""
    out = [_step("0w1r", "none", 0, 1), _step("1w0r", "none", 1, 0), _step("1w0r", "mq-tabs", 1, 0)]
    for mix in QUICK_MIXES if quick else MIXES:
        out += [_step(name_of(*mix), scheduler, *mix)
                for scheduler in (QUICK_SCHEDULERS if quick else SCHEDULERS)]
    if quick:
        return out
    out += [_step("1w1r, no FUA", scheduler, 1, 1, fua=False) for scheduler in QUICK_SCHEDULERS]
    return out + [_step(f"1w1r, writer's depth {depth}", scheduler, 1, 1, depth=depth)
                  for depth in DEPTHS for scheduler in QUICK_SCHEDULERS]


def plans(quick):
    """Two halves, so that both cores have work."""
    todo = steps(quick)
    return [todo[0::2], todo[1::2]]


def needs(step, cases):
    """Whether a figure of @cases needs @step: each does those alone."""
    return step["case"] in cases or not (step["readers"] and step["writers"])


def got_mb_s(step, jobs):
    """{"reads": ..., "writes": ...}: bandwidth of the types that the case has."""
    return {kind: fio.bandwidth_of_mb_s(jobs, kind)
            for kind, tasks in (("reads", "readers"), ("writes", "writers")) if step[tasks]}


def maxima(found):
    """Each type's bandwidth when it is alone, from the results of all steps."""
    return {"reads": found["0w1r, none"]["reads"], "writes": found["1w0r, none"]["writes"]}


def fair_pct(step, got, alone):
    """{"reads": ..., "writes": ...}: percent of the fair bandwidth."""
    share = {"reads": step["readers"] / (step["readers"] + step["writers"])}
    share["writes"] = 1 - share["reads"]
    return {kind: 100 * got[kind] / alone[kind] / share[kind] for kind in got}


def rows(step, got, alone):
    """The rows of one case."""
    def row(metric, value, unit, **more):
        return report.row(step["case"], step["name"], metric, [value], unit, **more)

    pct = fair_pct(step, got, alone)
    out = [row(f"bandwidth {kind}", value, "MB/s") for kind, value in got.items()]
    if len(got) == 2:
        out += [row(f"of fair {kind}", value, "%") for kind, value in pct.items()]
        out += [row(f"error {kind}", abs(value - 100), "%") for kind, value in pct.items()]
        out.append(row("F", min(pct.values()) / max(pct.values()), "1", digits=3))
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo)
    answers = {step["label"]: got_mb_s(step, jobs) for step, jobs in lab.flat(todo, results)}
    alone = maxima(answers)
    parameters = {"device": "ssdsim, default profile, 2 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "runtime_s": 2,
                  "jobs": "generated; fio-jobs/interference has some to run by hand",
                  "tunables": TUNABLES}
    return report.result("tabs", ran, parameters,
                         [entry for step in steps(args.quick)
                          if step["label"] in answers
                          for entry in rows(step, answers[step["label"]], alone)])


def _schedulers_of(result):
    return [name for name in SCHEDULERS if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    forms = {"F": ("1", "{:.2f}"), "of fair reads": ("%", "{:.0f}"),
             "of fair writes": ("%", "{:.0f}"), "bandwidth reads": ("MB/s", "{:.1f}"),
             "bandwidth writes": ("MB/s", "{:.1f}")}
    return "\n\n".join(
        report.by_scheduler(result, metric, f"{metric}, {unit}", form, _schedulers_of(result),
                            report.unique(result, "case"))
        for metric, (unit, form) in forms.items())


# ---- the picture ----

PANELS = {"of fair reads": "reads, % of their fair bandwidth",
          "of fair writes": "FUA writes, % of their fair bandwidth",
          "F": "fairness factor F (1 is fair)"}


def _mixes(result):
    return [case for case in report.cases_with(result, "F") if "," not in case]


def finding(result):
    """What the picture shows, in a sentence."""
    mixes = _mixes(result)
    worst = {name: min(report.values(result, name, "F", mixes)) for name in _schedulers_of(result)}
    figures = ", ".join(f"{worst[name]:.2f} under {name}"
                        for name in sorted(worst, key=worst.get, reverse=True))
    return f"Fairness F of reads and FUA writes in the worst of {len(mixes)} mixes: {figures}"


def draw(result, plt):
    """Percent of the fair bandwidth of reads, and of FUA writes; and the fairness factor."""
    mixes = _mixes(result)
    series = {name: style.SCHEDULERS[name] for name in _schedulers_of(result)}
    figure, axes = style.panels(plt, 1, len(PANELS), 3.8, 2.9)
    for axis, (metric, words) in zip(axes[0], PANELS.items()):
        style.bars(axis, mixes, series,
                   lambda case, name: report.value(result, case, name, metric))
        style.guide(axis, 1 if metric == "F" else 100, across=True)
        axis.set_title(words, loc="left")
    footer = style.conditions(result, "w: FUA writers, r: readers, each 16 KiB at depth 128.")
    return style.finish(figure, finding(result), footer, style.patches(series))
