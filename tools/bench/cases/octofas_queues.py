# SPDX-License-Identifier: GPL-2.0
"""octofas: two tenants of which one fills a few hardware queues, by scheduler and policy.

The scenario of the OctoFAS and OctoKV papers (kit/queues.py): six hardware queues. Flow 1 has two
threads, flow 2 has 2 to 14. A thread has one request of 16 KiB in flight.

The same runs over NVMe/TCP, with a connection for each hardware queue. The kernel's target puts the
requests of a connection on that connection's queue of ssdsim. There the service takes ten times as
long, so that the guest's CPUs are not the limit.

Figures: slowdown of each flow, its mean latency over that when it is alone under none, in the same
run (Equation 1); F, the smaller slowdown over the larger (Equation 2); requests per second of both;
LB, the least mean number of requests outstanding that a queue has over the largest (Equation 3), in
the median window of mq-octofas's monitor. "watching" is mq-octofas with policy none: it only
watches. And for each queue, from the windows of the second half, the share of requests that came to
it and that it served.
"""
import statistics

from kit import fio, lab, report, style
from kit.queues import CROWD, DRIVE, ORDER, QUEUES

ONE_LINE = "two tenants on crowded hardware queues, OctoFAS's scenario: slowdown, F, LB, rate"

FABRIC = {"kind": "nvme-tcp", "params": {**DRIVE["params"], "queue_service_ns": 4000000},
          "sysfs": {"queue/scheduler": "none"}}
FABRIC_WAYS = ("none", "watching", "inter(all)", "hybrid", "auto")
THREADS = (2, 4, 6, 8, 10, 12, 14)
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=psync\nbs=16k\nnorandommap\nrandrepeat=1\n"
        "time_based\ngroup_reporting\ncgroup_nodelete=1\n")


def _octofas(policy, **more):
    return ("mq-octofas", {"policy": policy, **more})


# Name: scheduler and tunables.
WAYS = {"none": ("none", {}), "bfq": ("bfq", {}), "mq-mqfq": ("mq-mqfq", {}),
        "watching": _octofas("none"),
        "inter(all)": _octofas("inter", migrate="all"),
        "inter(dense)": _octofas("inter", migrate="dense"),
        "inter(sparse)": _octofas("inter", migrate="sparse"),
        "inter(dense), ps": _octofas("inter", migrate="dense", spread="ps"),
        "intra, B 5": _octofas("intra", max_backward=5),
        "intra, B 10": _octofas("intra", max_backward=10),
        "intra, B 20": _octofas("intra", max_backward=20),
        "hybrid": _octofas("hybrid"), "auto": _octofas("auto")}
SERIES_WAYS = ("none", "auto")


def job_text(rw, flows, seconds=1):
    """A fio job file; @flows: name and the CPUs of its threads."""
    out = [HEAD + f"rw={rw}\nramp_time={seconds}s\nruntime={seconds}s\n"]
    for name, cpus in flows.items():
        for number, cpu in enumerate(cpus):
            first = "" if number else "new_group\n"
            suffix = f"-{number}" if number else ""
            out.append(f"[{name}{suffix}]\ncgroup={name}\ncpus_allowed={cpu}\n{first}")
    return "\n".join(out)


def case_name(rw, threads):
    """A case's name in the result."""
    return f"{rw}, 2 against {threads}" if threads else f"{rw}, 6 against 6, balanced"


def _step(rw, threads, way, flows=("flow1", "flow2"), device=DRIVE):
    """One measurement. With 0 threads the control: both flows have a thread on each queue."""
    scheduler, tunables = WAYS[way]
    fabric = device is FABRIC
    cpus = {flow: range(QUEUES) for flow in flows}
    if threads:
        cpus = {"flow1": (0, 1), "flow2": ORDER[:threads]}
    case = case_name(rw, threads) + (", NVMe/TCP" if fabric else "")
    step = {"label": f"{case}, {way}, {'+'.join(flows)}", "case": case, "device": device,
            "name": way, "scheduler": scheduler, "tunables": tunables, "measure": "fio",
            "flows": flows,
            "job_text": job_text(rw, {flow: cpus[flow] for flow in flows},
                                 seconds=4 if fabric else 1),
            "cgroups": {"control": scheduler, "weights": {flow: 100 for flow in flows}}}
    watch = {"windows": True, "watch": "queues"} if scheduler == "mq-octofas" else {}
    return {**step, **watch}


def _case(rw, threads, ways, device=DRIVE):
    """Each flow alone, then both each way."""
    return [*(_step(rw, threads, "none", (flow,), device) for flow in ("flow1", "flow2")),
            *(_step(rw, threads, way, device=device) for way in ways)]


def plans(quick):
    """Plans of alike length, so that both cores have work; quick: 2 against 8 that read."""
    fabric = _case("randread", CROWD, FABRIC_WAYS, FABRIC)
    if quick:
        return [_case("randread", CROWD, WAYS) + _case("randread", 0, SERIES_WAYS), fabric]
    series = [step for threads in (*THREADS, 0) if threads != CROWD
              for step in _case("randread", threads, SERIES_WAYS)]
    return [_case("randread", CROWD, WAYS) + series[:8],
            _case("randwrite", CROWD, WAYS) + series[8:], fabric]


def balance(jobs):
    """LB of the median window with requests, as mq-octofas's monitor saw it."""
    text = next(entry["text"] for entry in jobs if entry["jobname"] == "windows")
    lines = [line.split() for line in text.splitlines()[1:]]
    return statistics.median(int(line[4]) for line in lines[-12:-1]) / 1000


def events(step, jobs):
    """Rows of the requests that came to each queue, and that it served, in percent of all.

    From the windows of the second half, as in the OctoKV paper's tables IV and V.
    """
    texts = next(entry["texts"] for entry in jobs if entry["jobname"] == "watched")
    queues = {}
    for _, text in texts[len(texts) // 2:]:
        head, *lines = (line.split() for line in text.splitlines())
        for line in lines:
            queue = queues.setdefault(line[0], {"home": 0, "served": 0})
            for metric in queue:
                queue[metric] += int(line[head.index(metric)])
    total = max(sum(queue["served"] for queue in queues.values()), 1)
    return [report.row(step["case"], step["name"], f"{metric} queue {number}",
                       [100 * queue[metric] / total], "%", digits=0)
            for number, queue in queues.items() for metric in ("home", "served")]


def rows(step, jobs, alone_us):
    """The rows of one case; @alone_us: mean latency of each flow when it is alone."""
    def row(metric, value, unit, **more):
        return report.row(step["case"], step["name"], metric, [value], unit, **more)

    got_us = {flow: fio.mean_us(jobs, flow) for flow in step["flows"]}
    slowdown = {flow: got_us[flow] / alone_us[flow] for flow in got_us}
    per_s = fio.iops([entry for entry in jobs if entry["jobname"] in step["flows"]])
    out = [row("F", min(slowdown.values()) / max(slowdown.values()), "1", digits=3),
           row("throughput", per_s, "1/s", digits=0)]
    for flow in got_us:
        out += [row(f"slowdown {flow}", slowdown[flow], "1", digits=3),
                row(f"latency {flow}", got_us[flow], "us")]
    if step.get("windows"):
        out += [row("LB", balance(jobs), "1", digits=3), *events(step, jobs)]
    return out


def all_rows(steps, answers):
    """The rows of all steps; steps with one flow are the reference for the others."""
    alone_us = {}
    for step, jobs in zip(steps, answers):
        if len(step["flows"]) == 1:
            flow = step["flows"][0]
            alone_us[step["case"], flow] = fio.mean_us(jobs, flow)
    out = []
    for step, jobs in zip(steps, answers):
        if len(step["flows"]) == 2:
            alone = {flow: alone_us[step["case"], flow] for flow in step["flows"]}
            out += rows(step, jobs, alone)
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    ran, results = lab.measure_virtual(args.kernel, QUEUES, todo)
    found = all_rows(*zip(*lab.flat(todo, results)))
    cases = [case_name(rw, threads) for rw in ("randread", "randwrite")
             for threads in (*THREADS, 0)]
    cases.append(case_name("randread", CROWD) + ", NVMe/TCP")
    parameters = {"device": "ssdsim, 6 hardware queues of 400 us service each, 16 channels, "
                            "tR 100 us, tPROG 200 us",
                  "cpus": QUEUES, "runtime_s": 1, "nvme_tcp_service_us": 4000,
                  "nvme_tcp_runtime_s": 4, "block_bytes": 16384, "jobs": "generated",
                  "tunables": "defaults, except those that the name says"}
    return report.result("octofas", ran, parameters,
                         sorted(found, key=lambda entry: cases.index(entry["case"])))


METRICS = {"F": "{:.3f}", "LB": "{:.2f}", "throughput": "{:.0f}", "slowdown flow1": "{:.2f}",
           "slowdown flow2": "{:.2f}", "latency flow1": "{:.0f}", "latency flow2": "{:.0f}"}
SERVED = {f"{metric} queue {queue}": "{:.0f}" for metric in ("home", "served")
          for queue in range(QUEUES)}


def _by_threads(result):
    """F and requests per second by the number of flow 2's threads, which read."""
    shown = {threads: case_name("randread", threads) for threads in (*THREADS, 0)
             if case_name("randread", threads) in report.unique(result, "case")}
    lines = [[f"{name}: {words}", *(form.format(report.value(result, case, name, metric))
                                    for case in shown.values())]
             for words, metric, form in (("F", "F", "{:.3f}"),
                                         ("requests/s", "throughput", "{:.0f}"))
             for name in SERIES_WAYS]
    return report.table(["reads, threads of flow 2",
                         *(str(threads) if threads else "6 against 6" for threads in shown)],
                        lines)


def table(result):
    """The figures as text."""
    out = [_by_threads(result)]
    for case in report.unique(result, "case"):
        out.append(report.table([case, *METRICS], report.by_metric(result, case, METRICS)))
        served = report.by_metric(result, case, SERVED)
        if served:
            words = [f"{word} {queue}" for word in ("came", "served") for queue in range(QUEUES)]
            out.append(report.table(["% of requests by queue", *words], served))
    return "\n\n".join(out)


# ---- the picture ----

def _share_pct(result, case, name):
    """Requests per second of @name, in percent of none's; None without @name."""
    got = report.value(result, case, name, "throughput")
    return None if got is None else 100 * got / report.value(result, case, "none", "throughput")


def finding(result):
    """What the picture shows, in a sentence."""
    case = case_name("randread", CROWD)
    fair = [report.value(result, case, name, "F") for name in ("none", "auto")]
    return (f"2 threads beside {CROWD} that read: fairness F is {fair[0]:.2f} under none and "
            f"{fair[1]:.2f} under mq-octofas's policy auto, with "
            f"{_share_pct(result, case, 'auto'):.0f}% of none's requests")


def draw(result, plt):
    """Fairness, and throughput against none, for each load; a line for each policy."""
    cases = [case for case in report.unique(result, "case") if f"against {CROWD}" in case]
    names = [name for name in WAYS if name in report.unique(result, "scheduler")]
    ours = style.SCHEDULERS["mq-octofas"]
    colors = [ours if name == "auto" else style.SCHEDULERS.get(name, style.lighter(ours, 0.45))
              for name in names]
    figure, axes = style.panels(plt, 1, 2 * len(cases), 1.9, 1.0 + 0.21 * len(names))
    for number, case in enumerate(cases):
        left, right = axes[0][2 * number:2 * number + 2]
        style.dots(left, [report.value(result, case, name, "F") for name in names], colors,
                   "{:.2f}")
        style.dots(right, [_share_pct(result, case, name) for name in names], colors, "{:.0f}")
        left.set_xlim(0, 1.3)
        right.set_xlim(0, 160)
        style.guide(left, 0.9)
        style.guide(right, 100)
        left.set_xlabel("fairness F")
        right.set_xlabel("requests per second,\n% of none")
        left.set_title(case, loc="left")
    words = [name if WAYS[name][0] == name else f"mq-octofas: {name}" for name in names]
    for axis in axes[0]:
        style.names_down(axis, words, shown=axis is axes[0][0])
    footer = style.conditions(result, "F is the smaller slowdown of the two flows over the larger. "
                              "Dotted: F of 0.9, and none.")
    return style.finish(figure, finding(result), footer)
