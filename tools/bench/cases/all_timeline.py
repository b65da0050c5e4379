# SPDX-License-Identifier: GPL-2.0
"""timeline: mq-tabs and mq-octofas over time, when the load or the policy changes.

  mq-tabs      a reader, and FUA writers that come and go (kit/changes.py); beside it under none
  mq-octofas   two threads against eight on six hardware queues, the load of `octofas`; the policy
               is none first, then auto is written to sysfs

Figures: bandwidth of each tenant in windows of WINDOW_MS. And the time after a change until the
slowest tenant stays within BAND of its bandwidth in the second half of that phase.
"""
from kit import fua, lab, queues, report, style
from kit.changes import (COMMON, NR_PHASES, PHASE_MS, WINDOW_MS, WRITERS, curves, fua_step, section,
                         settle_ms)

ONE_LINE = "bandwidth over time: mq-tabs as the load changes, mq-octofas as its policy changes"

WORDS = {"mq-tabs": ("reader alone", "1 writer comes", "another joins", "it leaves",
                     "the first leaves"),
         "mq-octofas": ("policy none", "policy auto")}
LOADS = {"mq-tabs": "a reader and FUA writers", "mq-octofas": "2 against 8 threads on 6 queues"}
# What the picture calls a tenant, where its own name does not say it.
SAID = {"flow1": "2 threads", "flow2": f"{queues.CROWD} threads"}


def octofas_threads():
    """{job: (flow, CPU)} of all threads."""
    flows = {"flow1": (0, 1), "flow2": queues.ORDER[:queues.CROWD]}
    return {f"{flow}-{number}": (flow, cpu) for flow, cpus in flows.items()
            for number, cpu in enumerate(cpus)}


def octofas_job():
    """A section for each thread."""
    return COMMON + "".join(
        section("mq-octofas", name, 0, NR_PHASES["mq-octofas"],
                f"ioengine=psync\nrw=randread\ncgroup={flow}\ncpus_allowed={cpu}\n")
        for name, (flow, cpu) in octofas_threads().items())


def _octofas_step():
    threads = octofas_threads()
    flows = ("flow1", "flow2")
    return {"label": "2 against 8 threads, mq-octofas", "case": "mq-octofas",
            "device": queues.DRIVE, "name": "mq-octofas", "scheduler": "mq-octofas",
            "tunables": {"policy": "none"},
            "later": {"after_ms": PHASE_MS, "tunables": {"policy": "auto"}},
            "measure": "fio", "job_text": octofas_job(), "series": list(threads),
            "cgroups": {"control": "mq-octofas", "weights": {flow: 100 for flow in flows}},
            "tenants": {flow: [name for name, (of, _) in threads.items() if of == flow]
                        for flow in flows}}


def plans():
    """A plan for each kind of guest."""
    return [[fua_step("none"), fua_step("mq-tabs")], [_octofas_step()]]


def rows(step, found):
    """Each tenant's bandwidth in the second half of each phase, and the time to get there."""
    per_phase = PHASE_MS // WINDOW_MS
    out = []
    for phase, words in enumerate(WORDS[step["case"]]):
        parts = {tenant: values[phase * per_phase:(phase + 1) * per_phase]
                 for tenant, values in found.items()}
        present = {tenant: values for tenant, values in parts.items()
                   if sum(values[per_phase // 2:])}
        case = f"{step['case']}, {phase + 1}: {words}"
        for tenant, values in present.items():
            half = values[per_phase // 2:]
            out.append(report.row(case, step["name"], f"bandwidth {tenant}",
                                  [sum(half) / len(half)], "MB/s"))
        # Jobs begin and end in the last window of a phase and the first of the next.
        settle = max(settle_ms(values[1:-1]) for values in present.values())
        out.append(report.row(case, step["name"], "settle", [settle], "ms", digits=0))
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = plans()
    guests = [lab.virtual(args.kernel, cpus) for cpus in (fua.CPUS, queues.QUEUES)]
    ran, results = lab.measure(list(zip(guests, todo)))
    found = [(step, curves(step, jobs)) for step, jobs in lab.flat(todo, results)]
    parameters = {"device": "ssdsim: default profile, half filled, for mq-tabs; 6 hardware queues "
                            "of 400 us service each for mq-octofas",
                  "cpus": f"{fua.CPUS} and {queues.QUEUES}", "window_ms": WINDOW_MS,
                  "phase_ms": PHASE_MS, "jobs": "generated",
                  "tunables": {"mq-tabs": fua.TUNABLES, "mq-octofas": "defaults"}}
    return report.result("timeline", ran, parameters,
                         [entry for step, values in found for entry in rows(step, values)],
                         curves={f"{step['case']} {step['name']}": values
                                 for step, values in found})


def table(result):
    """The figures as text."""
    metrics = report.unique(result, "metric")
    units = [f"{metric}, {'ms' if metric == 'settle' else 'MB/s'}" for metric in metrics]
    lines = [[case, *line] for case in report.unique(result, "case")
             for line in report.by_metric(result, case, dict.fromkeys(metrics, "{:.0f}"))]
    return report.table(["phase", "scheduler", *units], lines)


# ---- the picture ----

LOG_BEGINS = 4


def finding(result):
    """What the picture shows, in a sentence. A phase's first window is not looked at."""
    within = {}
    for name in WORDS:
        times = [entry["value"] for entry in result["rows"] if entry["metric"] == "settle"
                 and entry["scheduler"] == name and ", 1:" not in entry["case"]]
        within[name] = max(times) + WINDOW_MS
    return (f"Bandwidths settle within {within['mq-tabs']:.0f} ms of a change of the load under "
            f"mq-tabs, and within {within['mq-octofas']:.0f} ms when mq-octofas's policy is "
            "switched on")


def _draw_run(axis, case, scheduler, found):
    for (tenant, values), color in zip(found.items(), style.TENANTS):
        begins, ends = WRITERS.get(tenant, (0, NR_PHASES[case]))
        # fio's log of the run's first windows is uneven.
        shown = range(begins * PHASE_MS // WINDOW_MS + (1 if begins else LOG_BEGINS),
                      ends * PHASE_MS // WINDOW_MS - 1)
        axis.plot([(number + 0.5) * WINDOW_MS for number in shown],
                  [values[number] for number in shown], color=color, linewidth=1.2,
                  label=SAID.get(tenant, tenant))
    for phase, words in enumerate(WORDS[case]):
        axis.text((phase + 0.02) * PHASE_MS, 1.01, words, transform=axis.get_xaxis_transform(),
                  fontsize=8, va="bottom", color=style.QUIET)
        if phase:
            style.guide(axis, phase * PHASE_MS)
    axis.set_title(f"{scheduler}: {LOADS[case]}", loc="left", pad=16)
    axis.set_xlim(0, NR_PHASES[case] * PHASE_MS)
    axis.set_ylabel("MB/s")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))


def draw(result, plt):
    """A panel per run: bandwidth over time, a line for each tenant, a dotted one at each change."""
    figure, axes = style.panels(plt, len(result["curves"]), 1, 10, 2.3)
    for axis, (name, found) in zip(axes[:, 0], result["curves"].items()):
        _draw_run(axis, *name.split(" ", 1), found)
    axes[-1, 0].set_xlabel("milliseconds")
    footer = style.conditions(
        result, f"Windows of {WINDOW_MS} ms. Left out: the first {LOG_BEGINS * WINDOW_MS} ms of a "
        "run, and the windows in which a tenant begins or ends.")
    return style.finish(figure, finding(result), footer)
