# SPDX-License-Identifier: GPL-2.0
"""octofas: two tenants of which one fills a few hardware queues, by scheduler and policy.

The scenario of the OctoFAS and OctoKV papers: six hardware queues, each served by one core of the target (ssdsim's queue_service_ns).
Flow 1 has two threads, on the first two queues; flow 2 has 2 to 14, which fill the first two queues before the others. A thread has one
request of 16 KiB under way. The queue of a thread follows from its CPU.

The same over NVMe/TCP, with a connection for each hardware queue: the kernel's target puts what comes by a connection on its own queue of ssdsim, whose service
takes ten times as long, so that the guest's CPUs do not limit it.

Figures: slowdown of each flow, its mean latency over that when it is alone under none, in the same run (Equation 1); F, the smaller
slowdown over the larger (Equation 2); requests per second of both; LB, the least mean number of requests outstanding that a queue has over
the largest (Equation 3), in the median window of mq-octofas's monitor, for "none" with its policy "none", which only watches; and of the windows of the second
half the part of the requests outstanding that had come to each queue, and that it served.
"""
import statistics
import time

from kit import fio, lab, report

ONE_LINE = "two tenants on crowded hardware queues: slowdown, F, LB and throughput, the OctoFAS paper's scenario (vm, virtual time)"

QUEUES = 6
DRIVE = {"kind": "ssdsim", "params": {"queues": QUEUES, "channels": 16, "nodata": 1, "size_mb": 1024, "queue_service_ns": 400000,
                                      "read_ns": 100000, "prog_ns": 200000}}
FABRIC = {"kind": "nvme-tcp", "params": {**DRIVE["params"], "queue_service_ns": 4000000}, "sysfs": {"queue/scheduler": "none"}}
FABRIC_WAYS = ("none", "watching", "inter(all)", "hybrid", "auto")
# The CPUs of flow 2's threads, in this order.
ORDER = (0, 1, 2, 3, 0, 1, 4, 5, 0, 1, 2, 3, 0, 1)
THREADS = (2, 4, 6, 8, 10, 12, 14)
CROWD = 8
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=psync\nbs=16k\nnorandommap\nrandrepeat=1\ntime_based\n"
        "group_reporting\ncgroup_nodelete=1\n")


def _octofas(policy, **more):
    return ("mq-octofas", {"policy": policy, **more})


# Name: scheduler and tunables.
WAYS = {"none": ("none", {}), "bfq": ("bfq", {}), "mq-mqfq": ("mq-mqfq", {}), "watching": _octofas("none"),
        "inter(all)": _octofas("inter", migrate="all"), "inter(dense)": _octofas("inter", migrate="dense"),
        "inter(sparse)": _octofas("inter", migrate="sparse"), "inter(dense), ps": _octofas("inter", migrate="dense", spread="ps"),
        "intra, B 5": _octofas("intra", max_backward=5), "intra, B 10": _octofas("intra", max_backward=10),
        "intra, B 20": _octofas("intra", max_backward=20), "hybrid": _octofas("hybrid"), "auto": _octofas("auto")}
SERIES_WAYS = ("none", "auto")


def job_text(rw, flows, seconds=1):
    """A fio job file; @flows: name and the CPUs of its threads."""
    out = [HEAD + f"rw={rw}\nramp_time={seconds}s\nruntime={seconds}s\n"]
    for name, cpus in flows.items():
        out += [f"[{name}{f'-{number}' if number else ''}]\ncgroup={name}\ncpus_allowed={cpu}\n{'' if number else 'new_group' + chr(10)}"
                for number, cpu in enumerate(cpus)]
    return "\n".join(out)


def case_name(rw, threads):
    """How a case is called in the result."""
    return f"{rw}, 2 against {threads}" if threads else f"{rw}, 6 against 6, balanced"


def _step(rw, threads, way, flows=("flow1", "flow2"), device=DRIVE):
    """One measurement; with 0 threads the control, in which both flows have a thread on each queue."""
    scheduler, tunables = WAYS[way]
    cpus = {"flow1": (0, 1), "flow2": ORDER[:threads]} if threads else {flow: range(QUEUES) for flow in flows}
    case = case_name(rw, threads) + (", NVMe/TCP" if device is FABRIC else "")
    return {"label": f"{case}, {way}, {'+'.join(flows)}", "case": case, "device": device, "name": way, "scheduler": scheduler,
            "tunables": tunables, "measure": "fio", "flows": flows,
            "job_text": job_text(rw, {flow: cpus[flow] for flow in flows}, seconds=4 if device is FABRIC else 1),
            "cgroups": {"control": scheduler, "weights": {flow: 100 for flow in flows}},
            **({"windows": True, "watch": "queues"} if scheduler == "mq-octofas" else {})}


def _case(rw, threads, ways, device=DRIVE):
    return [*(_step(rw, threads, "none", (flow,), device) for flow in ("flow1", "flow2")), *(_step(rw, threads, way, device=device) for way in ways)]


def plans(quick):
    """Plans for a quick look, 2 against 8 threads that read; else plans of alike length, so that both cores have something to do."""
    fabric = _case("randread", CROWD, FABRIC_WAYS, FABRIC)
    if quick:
        return [_case("randread", CROWD, WAYS) + _case("randread", 0, SERIES_WAYS), fabric]
    series = [step for threads in (*THREADS, 0) if threads != CROWD for step in _case("randread", threads, SERIES_WAYS)]
    return [_case("randread", CROWD, WAYS) + series[:8], _case("randwrite", CROWD, WAYS) + series[8:], fabric]


def balance(jobs):
    """LB of the median window with requests, of what mq-octofas's monitor has seen."""
    text = next(entry["text"] for entry in jobs if entry["jobname"] == "windows")
    lines = [line.split() for line in text.splitlines()[1:]]
    return statistics.median(int(line[4]) for line in lines[-12:-1]) / 1000


def events(step, jobs):
    """Rows of what came to each queue, and what it served, in percent of the requests of the windows of the second half (the OctoKV paper's tables IV, V)."""
    texts = next(entry["texts"] for entry in jobs if entry["jobname"] == "watched")
    queues = {}
    for _, text in texts[len(texts) // 2:]:
        head, *lines = (line.split() for line in text.splitlines())
        for line in lines:
            queue = queues.setdefault(line[0], {"home": 0, "served": 0})
            for metric in queue:
                queue[metric] += int(line[head.index(metric)])
    total = max(sum(queue["served"] for queue in queues.values()), 1)
    return [report.row(step["case"], step["name"], f"{metric} queue {number}", [100 * queue[metric] / total], "%", digits=0)
            for number, queue in queues.items() for metric in ("home", "served")]


def rows(step, jobs, alone_us):
    """The rows of one case; @alone_us: mean latency of each flow when it is alone."""
    got_us = {flow: fio.mean_us(jobs, flow) for flow in step["flows"]}
    slowdown = {flow: got_us[flow] / alone_us[flow] for flow in got_us}
    per_s = fio.iops([entry for entry in jobs if entry["jobname"] in step["flows"]])
    out = [report.row(step["case"], step["name"], "F", [min(slowdown.values()) / max(slowdown.values())], "1", digits=3),
           report.row(step["case"], step["name"], "throughput", [per_s], "1/s", digits=0)]
    for flow in got_us:
        out += [report.row(step["case"], step["name"], f"slowdown {flow}", [slowdown[flow]], "1", digits=3),
                report.row(step["case"], step["name"], f"latency {flow}", [got_us[flow]], "us")]
    if step.get("windows"):
        out.append(report.row(step["case"], step["name"], "LB", [balance(jobs)], "1", digits=3))
        out += events(step, jobs)
    return out


def all_rows(steps, answers):
    """The rows of all steps; those of flows that are alone are what the others are compared with."""
    alone_us = {}
    for step, jobs in zip(steps, answers):
        if len(step["flows"]) == 1:
            alone_us[step["case"], step["flows"][0]] = fio.mean_us(jobs, step["flows"][0])
    return [entry for step, jobs in zip(steps, answers) if len(step["flows"]) == 2
            for entry in rows(step, jobs, {flow: alone_us[step["case"], flow] for flow in step["flows"]})]


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    guest = lab.Guest("vm", args.kernel, QUEUES, virtual_time=True)
    todo = plans(args.quick)
    release, results = lab.run_plans([(guest, plan) for plan in todo])
    found = [entry for plan, answers in zip(todo, results) for entry in all_rows(plan, answers)]
    order = {case: number for number, case in enumerate(case_name(rw, threads) for rw in ("randread", "randwrite") for threads in (*THREADS, 0))}
    order[case_name("randread", CROWD) + ", NVMe/TCP"] = len(order)
    return {"benchmark": "octofas", "backend": guest.words(), "kernel": release,
            "parameters": {"device": "ssdsim, 6 hardware queues of 400 us service each, 16 channels, tR 100 us, tPROG 200 us", "cpus": QUEUES,
                           "runtime_s": 1, "nvme_tcp_service_us": 4000, "nvme_tcp_runtime_s": 4, "block_bytes": 16384, "jobs": "generated", "tunables": "defaults, but for what the name says",
                           "wall_s": round(time.monotonic() - started)},
            "rows": sorted(found, key=lambda entry: order[entry["case"]])}


METRICS = {"F": "{:.3f}", "LB": "{:.2f}", "throughput": "{:.0f}", "slowdown flow1": "{:.2f}", "slowdown flow2": "{:.2f}",
           "latency flow1": "{:.0f}", "latency flow2": "{:.0f}"}


def table(result):
    """The figures as text."""
    out = []
    for case in report.unique(result, "case"):
        lines = []
        for name in report.unique(result, "scheduler"):
            values = [report.value(result, case, name, metric) for metric in METRICS]
            if values[0] is not None:
                lines.append([name, *("" if value is None else form.format(value) for value, form in zip(values, METRICS.values()))])
        out.append(report.table([case, *METRICS], lines))
        served = [[name, *(f"{report.value(result, case, name, f'{metric} queue {queue}'):.0f}" for metric in ("home", "served") for queue in range(QUEUES))]
                  for name in report.unique(result, "scheduler") if report.value(result, case, name, "served queue 0") is not None]
        if served:
            out.append(report.table(["% of requests by queue", *(f"{word} {queue}" for word in ("came", "served") for queue in range(QUEUES))], served))
    return "\n\n".join(out)


def draw(result, plt):
    """Fairness over throughput against none, one panel for reads and one for writes, a mark for each policy."""
    cases = [case for case in report.unique(result, "case") if f"against {CROWD}" in case]
    figure, axes = plt.subplots(1, len(cases), figsize=(6.5 * len(cases), 4.8), squeeze=False)
    for axis, case in zip(axes[0], cases):
        base = report.value(result, case, "none", "throughput")
        for name in report.unique(result, "scheduler"):
            fairness = report.value(result, case, name, "F")
            if fairness is None:
                continue
            share = 100 * report.value(result, case, name, "throughput") / base
            axis.plot([share], [fairness], marker="o" if WAYS[name][0] == "mq-octofas" else "s",
                      color="#1f4e8c" if WAYS[name][0] == "mq-octofas" else "#b0413e")
            axis.annotate(name, (share, fairness), xytext=(4, 4), textcoords="offset points", fontsize=7.5)
        axis.axhline(0.9, color="#888888", linewidth=0.7, linestyle=":")
        axis.axvline(100, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_xlabel("requests per second, % of none")
        axis.set_ylabel("fairness F")
        axis.set_title(case, fontsize=10)
        axis.margins(0.15)
    parameters = result["parameters"]
    figure.suptitle("Two tenants on crowded hardware queues", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Device: {parameters['device']}.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, "
                f"{parameters['cpus']} CPUs, {parameters['runtime_s']} s per case.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.08, 1, 0.96))
    return figure
