# SPDX-License-Identifier: GPL-2.0
"""timeline: what mq-tabs and mq-octofas do over time, when the load or the policy changes.

  mq-tabs      one reader all the time; a FUA writer comes after PHASE_MS, a second one joins it, leaves again, and the first one leaves. All have
               128 requests of 16 KiB under way. Beside it the same under none
  mq-octofas   two threads against eight on six hardware queues, the scenario of `octofas`; first the policy is none, then auto is written to sysfs

Figures: bandwidth of each tenant in windows of WINDOW_MS; and how long it takes after a change until it stays within BAND of what it is in the
second half of that phase, for the slowest of the tenants.
"""
import time

from cases import octofas_queues as octofas
from cases import tabs_mixes as tabs
from kit import fio, lab, report
from kit.say import BenchError

ONE_LINE = "bandwidth over time: mq-tabs through changes of the load, mq-octofas when its policy is switched on (vm, virtual time)"

WINDOW_MS = 50
PHASE_MS = 1500
# Windows are averages of few requests: a phase has settled when SETTLED of them in a row are where it stays.
SETTLED, BAND = 3, 0.2
COMMON = (f"[global]\nfilename=${{DEV}}\ndirect=1\nbs=16k\nnorandommap\nrandrepeat=1\ntime_based\nlog_avg_msec={WINDOW_MS}\nlog_unix_epoch=1\n"
          "per_job_logs=0\ncgroup_nodelete=1\n")
# Tenant: begins and ends, in phases.
WRITERS = {"writer 1": (1, 4), "writer 2": (2, 3)}
NR_PHASES = {"mq-tabs": 5, "mq-octofas": 2}
WORDS = {"mq-tabs": ("reader alone", "1 writer comes", "another joins", "it leaves", "the first leaves"), "mq-octofas": ("policy none", "policy auto")}


def _section(case, name, first, last, more):
    """A job from phase @first to phase @last; one that is there to the end goes on a little, so that the last window is whole."""
    runtime_ms = (last - first) * PHASE_MS + (4 * WINDOW_MS if last == NR_PHASES[case] else 0)
    return f"\n[{name}]\nwrite_bw_log={name}\nstartdelay={first * PHASE_MS}ms\nruntime={runtime_ms}ms\n{more}"


def tabs_job():
    """The reader, and the writers that come and go."""
    deep = "ioengine=libaio\niodepth=128\n"
    return COMMON + _section("mq-tabs", "reader", 0, NR_PHASES["mq-tabs"], f"{deep}rw=randread\n") + "".join(
        _section("mq-tabs", name, *when, f"{deep}rw=randwrite\nsync=dsync\n") for name, when in WRITERS.items())


def octofas_threads():
    """{job: (flow, CPU)} of all threads."""
    return {f"{flow}-{number}": (flow, cpu) for flow, cpus in (("flow1", (0, 1)), ("flow2", octofas.ORDER[:octofas.CROWD]))
            for number, cpu in enumerate(cpus)}


def octofas_job():
    """A section for each thread."""
    return COMMON + "".join(_section("mq-octofas", name, 0, NR_PHASES["mq-octofas"], f"ioengine=psync\nrw=randread\ncgroup={flow}\ncpus_allowed={cpu}\n")
                            for name, (flow, cpu) in octofas_threads().items())


def tabs_step(scheduler):
    """The load of mq-tabs under @scheduler."""
    return {"label": f"reads and FUA writes, {scheduler}", "case": "mq-tabs", "device": tabs.DRIVE, "name": scheduler, "scheduler": scheduler,
            "tunables": tabs.TUNABLES if scheduler == "mq-tabs" else {}, "measure": "fio", "job_text": tabs_job(), "series": ["reader", *WRITERS],
            "tenants": {"reader": ["reader"], **{name: [name] for name in WRITERS}}}


def _octofas_step():
    threads = octofas_threads()
    flows = ("flow1", "flow2")
    return {"label": "2 against 8 threads, mq-octofas", "case": "mq-octofas", "device": octofas.DRIVE, "name": "mq-octofas", "scheduler": "mq-octofas",
            "tunables": {"policy": "none"}, "later": {"after_ms": PHASE_MS, "tunables": {"policy": "auto"}}, "measure": "fio", "job_text": octofas_job(),
            "series": list(threads), "cgroups": {"control": "mq-octofas", "weights": {flow: 100 for flow in flows}},
            "tenants": {flow: [name for name, (of, _) in threads.items() if of == flow] for flow in flows}}


def plans():
    """A plan for each kind of guest."""
    return [[tabs_step("none"), tabs_step("mq-tabs")], [_octofas_step()]]


def curves(step, jobs):
    """{tenant: [MB/s in each window since the first job began]}"""
    series = {name: fio.job(jobs, name).get("series") for name in step["series"]}
    if not all(series.values()):
        raise BenchError(f"fio gave no bandwidth over time for {', '.join(name for name, found in series.items() if not found)}")
    # Some jobs need longer to get going than others: the clock is that of the fastest.
    begins = {name: WRITERS.get(name, (0, 0))[0] * PHASE_MS for name in series}
    zero = min(found[0][0] - begins[name] for name, found in series.items()) // WINDOW_MS
    nr = NR_PHASES[step["case"]] * PHASE_MS // WINDOW_MS
    out = {tenant: [0.0] * nr for tenant in step["tenants"]}
    for tenant, names in step["tenants"].items():
        for name in names:
            for at, value in series[name]:
                if at // WINDOW_MS - zero < nr:
                    out[tenant][at // WINDOW_MS - zero] += value * 1024 / 1e6
    return out


def settle_ms(values):
    """Time until SETTLED windows in a row of a phase's @values are within BAND of the mean of its second half; the whole phase if none are."""
    half = values[len(values) // 2:]
    stays, row = sum(half) / len(half), 0
    for number, value in enumerate(values):
        row = row + 1 if abs(value - stays) <= BAND * stays else 0
        if row == SETTLED:
            return (number - SETTLED + 1) * WINDOW_MS
    return len(values) * WINDOW_MS


def rows(step, found):
    """What each tenant has in the second half of each phase, and how long the slowest took to get there."""
    per_phase = PHASE_MS // WINDOW_MS
    out = []
    for phase, words in enumerate(WORDS[step["case"]]):
        parts = {tenant: values[phase * per_phase:(phase + 1) * per_phase] for tenant, values in found.items()}
        present = {tenant: values for tenant, values in parts.items() if sum(values[per_phase // 2:])}
        case = f"{step['case']}, {phase + 1}: {words}"
        for tenant, values in present.items():
            half = values[per_phase // 2:]
            out.append(report.row(case, step["name"], f"bandwidth {tenant}", [sum(half) / len(half)], "MB/s"))
        # The last window of a phase and the first of the next are one where jobs begin and end.
        out.append(report.row(case, step["name"], "settle", [max(settle_ms(values[1:-1]) for values in present.values())], "ms", digits=0))
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    todo = plans()
    guests = [lab.Guest("vm", args.kernel, cpus, virtual_time=True) for cpus in (tabs.CPUS, octofas.QUEUES)]
    release, results = lab.run_plans(list(zip(guests, todo)))
    found = [(step, curves(step, jobs)) for plan, answers in zip(todo, results) for step, jobs in zip(plan, answers)]
    return {"benchmark": "timeline", "backend": guests[0].words(), "kernel": release,
            "parameters": {"device": "ssdsim: default profile, half filled, for mq-tabs; 6 hardware queues of 400 us service each for mq-octofas",
                           "cpus": f"{tabs.CPUS} and {octofas.QUEUES}", "window_ms": WINDOW_MS, "phase_ms": PHASE_MS, "jobs": "generated",
                           "tunables": {"mq-tabs": tabs.TUNABLES, "mq-octofas": "defaults"}, "wall_s": round(time.monotonic() - started)},
            "curves": {f"{step['case']} {step['name']}": values for step, values in found},
            "rows": [entry for step, values in found for entry in rows(step, values)]}


def table(result):
    """The figures as text."""
    metrics = report.unique(result, "metric")
    lines = []
    for case in report.unique(result, "case"):
        for name in report.unique(result, "scheduler"):
            values = [report.value(result, case, name, metric) for metric in metrics]
            if any(value is not None for value in values):
                lines.append([case, name, *("" if value is None else f"{value:.0f}" for value in values)])
    return report.table(["phase", "scheduler", *(f"{metric}, {'ms' if metric == 'settle' else 'MB/s'}" for metric in metrics)], lines)


def draw(result, plt):
    """A panel per run: bandwidth over time, a line for each tenant, a dotted one at each change."""
    figure, axes = plt.subplots(len(result["curves"]), 1, figsize=(10, 2.9 * len(result["curves"])), squeeze=False)
    for axis, (name, found) in zip(axes[:, 0], result["curves"].items()):
        case, scheduler = name.split(" ", 1)
        for (tenant, values), color in zip(found.items(), ("#1f4e8c", "#b0413e", "#b8860b")):
            axis.plot([(number + 0.5) * WINDOW_MS for number in range(len(values))], values, color=color, label=tenant, linewidth=1.2)
        for phase, words in enumerate(WORDS[case]):
            axis.text((phase + 0.02) * PHASE_MS, 1.0, words, transform=axis.get_xaxis_transform(), fontsize=8, va="bottom", color="#444444")
            if phase:
                axis.axvline(phase * PHASE_MS, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_title(scheduler, fontsize=10, fontweight="bold", loc="left", pad=16)
        axis.set_ylabel("MB/s")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=8, frameon=False, loc="upper right", ncols=3)
    axes[-1, 0].set_xlabel("ms")
    parameters = result["parameters"]
    figure.text(0.01, 0.005, f"{parameters['device']}.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs.",
                fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure
